//! Where a chat goes: which agent, at which host, over which protocol, and what to say when nobody is there.

use url::Url;

use crate::{
    ids::{self, AgentId, DEFAULT_TENANT},
    text,
};

/// How much of a host's own words in a refusal is shown, in bytes: a sentence or two.
const WORDS_MAX: usize = 512;

/// Which protocol a chat speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// JSON frames over a WebSocket
    Mythra,
    /// A POST answered by server-sent events
    Lingzhu,
}

impl Protocol {
    /// Its name, as in addresses.
    pub(in crate::cli) const fn name(self) -> &'static str {
        match self {
            Self::Mythra => "mythra",
            Self::Lingzhu => "lingzhu",
        }
    }
}

/// `[TENANT/]AGENT` as an agent's id.
pub(super) fn agent(text: &str) -> Result<AgentId, String> {
    let (tenant, agent) = text.split_once('/').unwrap_or((DEFAULT_TENANT, text));
    if ids::is_name(tenant) && ids::is_name(agent) {
        Ok(AgentId { tenant: tenant.to_owned(), agent: agent.to_owned() })
    } else {
        Err("write AGENT or TENANT/AGENT; a name matches [a-z0-9][a-z0-9-]{0,62}".to_owned())
    }
}

/// A host's address.
pub(super) fn host(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "write it like http://127.0.0.1:8080".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it begins with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address holds no password; the key goes with --key".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("only the host's own address goes here, without ? or #".to_owned());
    }
    Ok(url)
}

/// `KEY=VALUE`.
pub(in crate::cli) fn fact(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it like KEY=VALUE".to_owned()),
    }
}

/// The address that `agent` is served at.
pub(super) fn endpoint(host: &Url, agent: &AgentId, protocol: Protocol) -> Url {
    let mut url = host.clone();
    // Both never fail: an http address has a path, and its scheme may become another of the web's own.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(["agents", &agent.tenant, &agent.agent, protocol.name()]);
    }
    if protocol == Protocol::Mythra {
        let _infallible = url.set_scheme(if host.scheme() == "https" { "wss" } else { "ws" });
    }
    url
}

/// What to say when a host cannot be reached.
pub(super) fn unreachable(url: &Url, why: &str) -> String {
    let host = url.authority();
    format!(
        "cannot reach {host}: {why}; hint: is a host running there? `hostelry serve` starts one, --url names another"
    )
}

/// What to say when a host refuses with a status.
pub(super) fn refusal(status: u16, body: &[u8], agent: &AgentId, keyed: bool) -> String {
    let words = words(body);
    match status {
        401 | 403 if keyed => {
            format!("the host refused the key ({status}); hint: is it this tenant's, and for this agent?")
        }
        401 | 403 => format!("the host wants a key ({status}); hint: give it with --key or in HOSTELRY_KEY"),
        404 => format!(
            "the host has no agent {agent} (404); hint: look for a slip in the name, and whether `hostelry check` says \
             that its component fits"
        ),
        429 | 503 => format!("the host is busy ({status}){words}; hint: try again in a while"),
        _ => format!("the host answered {status}{words}"),
    }
}

/// The host's own words in a refusal, if there are any: its error, or a line of text that is no page of a browser's.
fn words(body: &[u8]) -> String {
    let said = String::from_utf8_lossy(body);
    let error = serde_json::from_str::<serde_json::Value>(&said).ok();
    let error = error.as_ref().and_then(|body| body.get("error")).and_then(serde_json::Value::as_str);
    let line = || said.lines().next().filter(|line| !line.starts_with(['<', '{']));
    match text::head(error.or_else(line).unwrap_or_default().trim(), WORDS_MAX) {
        "" => String::new(),
        words => format!(": {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_of_the_default_tenant_unless_it_says_otherwise() {
        assert_eq!(agent("echo").unwrap().to_string(), "default/echo");
        assert_eq!(agent("acme/weather").unwrap().to_string(), "acme/weather");
        for bad in ["", "/", "a/b/c", "Echo", "acme/", "../x"] {
            assert!(agent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_address_follows_the_host_and_the_protocol() {
        let at =
            |host_: &str, protocol| endpoint(&host(host_).unwrap(), &agent("acme/echo").unwrap(), protocol).to_string();
        assert_eq!(at("http://127.0.0.1:8080", Protocol::Mythra), "ws://127.0.0.1:8080/agents/acme/echo/mythra");
        assert_eq!(at("https://h.example/base/", Protocol::Mythra), "wss://h.example/base/agents/acme/echo/mythra");
        assert_eq!(at("https://[::1]:1", Protocol::Lingzhu), "https://[::1]:1/agents/acme/echo/lingzhu");
        for bad in ["127.0.0.1:8080", "ftp://h", "http://u:p@h", "http://h/?key=x", "nonsense"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let agent = agent("echo").unwrap();
        assert!(refusal(404, b"", &agent, false).contains("no agent default/echo"));
        assert!(refusal(401, b"", &agent, false).contains("--key"));
        assert!(refusal(401, b"", &agent, true).contains("refused the key"));
        assert!(refusal(503, br#"{"error":"too many turns"}"#, &agent, true).contains("too many turns; hint"));
        assert_eq!(refusal(400, b"what", &agent, true), "the host answered 400: what");
        assert_eq!(refusal(501, b"<!DOCTYPE HTML>", &agent, true), "the host answered 501");
        assert!(refusal(500, &vec![b'x'; 9000], &agent, true).len() < 600);
    }

    #[test]
    fn a_fact_has_a_key() {
        assert_eq!(fact("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(fact("=x").is_err() && fact("x").is_err());
    }
}
