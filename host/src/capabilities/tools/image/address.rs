//! Which addresses the host fetches from for an agent: those that the operator lists, and none inside a network, however
//! it is spelled. Pure but for the resolver, which holds the same rules against what a name turns out to be.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};
use url::Host;

use crate::text;

/// The longest name of a host, as the domain name system has it; so much of one is shown.
const NAME_BYTES_MAX: usize = 253;

/// Whether an address may be fetched from: as it is written.
pub(super) fn check(url: &Url, allowed: &[String]) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https addresses are fetched".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a user name or password is not fetched".to_owned());
    }
    let Some(host) = url.host() else { return Err("the address names no host".to_owned()) };
    let port = url.port_or_known_default().unwrap_or(0);
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name == "localhost" || name.ends_with(".localhost") {
                return Err("this machine's own addresses are not fetched from".to_owned());
            }
            let listed = allowed.iter().any(|pattern| lists(pattern, name, port));
            if listed { Ok(()) } else { Err(not_listed(name)) }
        }
        Host::Ipv4(ip) => check_address(ip.into(), port, allowed),
        Host::Ipv6(ip) => check_address(ip.into(), port, allowed),
    }
}

/// An address in figures: a public one must be listed like a name. One inside a network is for an operator who runs an
/// image server there, and says so by listing it with its port (`127.0.0.1:9000`, `[::1]:9000`).
fn check_address(ip: IpAddr, port: u16, allowed: &[String]) -> Result<(), String> {
    let exact = SocketAddr::new(ip, port);
    if allowed.iter().any(|pattern| pattern.parse() == Ok(exact)) {
        return Ok(());
    }
    if !is_public(ip) {
        return Err("addresses inside a network are not fetched from".to_owned());
    }
    let name = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    if allowed.iter().any(|pattern| lists(pattern, &name, port)) { Ok(()) } else { Err(not_listed(&name)) }
}

fn not_listed(name: &str) -> String {
    let name = text::head(name, NAME_BYTES_MAX);
    format!(
        "{name} is not listed; hint: add it to `http` of the tenant's entry in hostelry.toml, and of the file beside the \
         component if it lists hosts; with its port if that is not 80 or 443"
    )
}

/// Whether a pattern of the operator's (`images.example.com`, `*.example.com`, `example.com:8443`, `[2606:4700::1]`)
/// lists a host, whose name is lower-case and in ASCII as the `url` crate makes it.
fn lists(pattern: &str, name: &str, port: u16) -> bool {
    let own_port = pattern.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let (pattern, ports) = match own_port {
        // What stands in brackets has colons of its own.
        Some((host, own)) if !pattern.ends_with(']') => (host, port == own),
        _ => (pattern, port == 80 || port == 443),
    };
    let (any, pattern) = match pattern.strip_prefix("*.") {
        Some(domain) => (true, domain),
        None => (false, pattern),
    };
    let Ok(listed) = Host::parse(pattern.strip_suffix('.').unwrap_or(pattern)) else { return false };
    let listed = listed.to_string();
    let fits = match (any, name.strip_suffix(&listed)) {
        (false, rest) => rest == Some(""),
        (true, rest) => rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
    };
    fits && ports
}

/// Whether an address is one of the public network's.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => match embedded_v4(ip) {
            Some(ip) => is_public_v4(ip),
            None => is_public_v6(ip),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    // Global unicast is 2000::/3; of it not the documentation's, nor the tunnels and special uses of 2001::/23.
    (a & 0xe000) == 0x2000 && !(a == 0x2001 && b < 0x0200) && !(a == 0x2001 && b == 0x0db8) && (a & 0xfff0) != 0x3ff0
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, translated, or by 6to4.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(v4(high, low))
        }
        _ => None,
    }
}

/// Why a name is not fetched from.
#[derive(Debug, thiserror::Error)]
#[error("the name stands for no public address; addresses inside a network are not fetched from")]
pub(super) struct NotPublic;

/// Names as public addresses only: what a name turns out to be is checked where it is used.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|&pattern| pattern.to_owned()).collect()
    }

    fn may(url: &str, patterns: &[&str]) -> bool {
        Url::parse(url).is_ok_and(|url| check(&url, &allowed(patterns)).is_ok())
    }

    #[test]
    fn an_address_inside_is_refused_however_it_is_spelled() {
        for url in [
            "file:///etc/passwd",
            "ftp://images.example.com/a",
            "http://127.0.0.1/",
            "http://127.0.0.1./",
            "http://127.1/",
            "http://017700000001/",
            "http://127.0.0.1:9001/",
            "http://[::127.0.0.1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b:1::1]/",
            "http://[2001:0:1::]/",
            "http://[2001:db8::1]/",
            "http://[fec0::1]/",
            "http://[ff02::1]/",
            "http://192.0.2.1/",
            "http://198.51.100.7/",
            "http://203.0.113.7/",
            "http://198.18.0.1/",
            "http://240.0.0.1/",
            "http://\u{ff11}27.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::a00:1]/",
            "http://[2002:7f00:1::]/",
            "http://10.0.0.1/",
            "http://172.16.0.1/",
            "http://192.168.1.1/",
            "http://100.64.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1]/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://255.255.255.255/",
            "http://224.0.0.1/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://u:p@images.example.com/",
        ] {
            let everything =
                ["*.com", "images.example.com", "localhost", "127.0.0.1", "*.0.0.1", "127.0.0.1:9000", "*.localhost"];
            assert!(!may(url, &everything), "{url}");
        }
    }

    #[test]
    fn only_listed_hosts_are_fetched_from() {
        assert!(may("https://images.example.com/a.webp", &["images.example.com"]));
        assert!(may("https://IMAGES.example.com./a.webp", &["images.example.com"]));
        assert!(may("https://a.b.example.com/", &["*.example.com"]));
        assert!(may("https://images.example.com:8443/", &["images.example.com:8443"]));
        assert!(may("https://b\u{fc}cher.example/", &["B\u{fc}cher.example."]));
        assert!(may("http://8.8.8.8/", &["8.8.8.8"]));
        assert!(may("http://[2606:4700::1]/", &["[2606:4700::1]"]));
        assert!(may("http://[2606:4700::1]:8080/", &["[2606:4700::1]:8080"]));
        assert!(may("http://127.0.0.1:9000/", &["127.0.0.1:9000"]), "the operator's own words");
        assert!(may("http://[::1]:9000/", &["[::1]:9000"]));
        let denied = check(&Url::parse("https://images.example.com/").unwrap(), &[]).unwrap_err();
        assert!(denied.contains("images.example.com") && denied.contains("`http`"), "{denied}");
        for (url, pattern) in [
            ("https://images.example.com/", ""),
            ("https://example.com/", "*.example.com"),
            ("https://evilexample.com/", "*.example.com"),
            ("https://images.example.com.evil.example/", "images.example.com"),
            ("https://images.example.com:8443/", "images.example.com"),
            ("http://127.0.0.1:9001/", "127.0.0.1:9000"),
            ("http://8.8.8.8/", "images.example.com"),
            ("http://8.8.8.8/", "*.8.8.8"),
            ("https://images.example.com/", "*"),
            ("https://images.example.com../", "images.example.com"),
        ] {
            assert!(!may(url, &[pattern]), "{url} {pattern}");
        }
    }
}
