//! Who may ask the admin listener: requests that were meant for it, with a key where it has any, that change nothing.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, HOST, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS},
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{Shared, answer::Refusal};
use crate::{config::Config, tenants};

/// What needs no key: it tells that a process lives, and nothing else.
const OPEN: &str = "/healthz";

/// Lets a request through, or says why not.
pub(super) async fn guard(State(admin): State<Shared>, request: Request, next: Next) -> Response {
    let config = admin.lobby.config();
    let mut response = match check(&config, admin.address, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    // What is here is of the moment, and for its operator alone.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(config: &Config, address: IpAddr, request: &Request) -> Result<(), Refusal> {
    if !is_meant(&config.admin_hosts, request.headers()) {
        let error = "the Host header names another machine than this one; hint: ask by an address or by localhost, or \
                     add the name to admin-hosts";
        return Err(Refusal::new(StatusCode::FORBIDDEN, error));
    }
    // Only a loopback address may do without: the configuration is checked for it, and this is the second lock.
    let keyless = config.admin_keys.is_empty() && address.is_loopback();
    if !keyless && request.uri().path() != OPEN && !is_keyed(config, request.headers()) {
        let error = "a key of this listener is needed, as in `Authorization: Bearer hk_…`";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, error).with(WWW_AUTHENTICATE, "Bearer"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let error = "everything here is only to be read, with GET or HEAD";
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error).with(ALLOW, "GET, HEAD"));
    }
    Ok(())
}

/// Whether the request was sent to this listener by somebody who knows it. A browser that was led here by a name which
/// somebody pointed at this machine says that name; an address nobody can point elsewhere.
fn is_meant(names: &[String], headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let Some(host) = host.to_str().ok().filter(|host| !host.contains('@')) else {
        return false;
    };
    let Ok(host) = host.parse::<Authority>() else {
        return false;
    };
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    let is_name = |own: &str| own.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || is_name("localhost") || names.iter().any(|own| is_name(own))
}

fn is_keyed(config: &Config, headers: &HeaderMap) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.split_once(' '));
    let key = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
    let digest = tenants::digest(key.unwrap_or_default());
    let found = tenants::find(&config.admin_keys, &digest, jiff::Timestamp::now());
    found.is_some() && key.is_some_and(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_the_operators_names_are_meant() {
        let names = ["ops.example".to_owned()];
        let meant = |hosts: &[&str]| {
            let headers = hosts.iter().map(|host| (HOST, HeaderValue::from_str(host).unwrap())).collect();
            is_meant(&names, &headers)
        };
        for good in
            ["127.0.0.1", "127.0.0.1:8081", "[::1]:8081", "10.1.2.3", "localhost", "LOCALHOST:1", "Ops.Example:9"]
        {
            assert!(meant(&[good]), "{good}");
        }
        let bad = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost.", "a@localhost"];
        for bad in bad.iter().chain(&["ops.example.", "127.1", "0x7f000001", "", "[::1", "lo calhost", "example"]) {
            assert!(!meant(&[bad]), "{bad}");
        }
        assert!(!meant(&[]), "one that names nobody");
        assert!(!meant(&["localhost", "evil.example"]) && !meant(&["localhost", "localhost"]), "one that names two");
    }
}
