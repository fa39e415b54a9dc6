//! `hostelry keys`: makes keys. A key is shown once; the configuration holds its digest only.

use jiff::{SignedDuration, Timestamp};
use rand::RngExt as _;
use sha2::{Digest as _, Sha256};

use super::Exit;
use crate::{
    config::{self, KeyConfig},
    ids,
};

/// Random bytes in a key: more than anyone can try, so that a plain digest of it is as good as a slow one.
const KEY_BYTES: usize = 32;

/// A new key, and what is kept of it.
pub(super) fn draw() -> (String, KeyConfig) {
    let bytes: [u8; KEY_BYTES] = rand::rng().random();
    let key = format!("hk_{}", ids::hex(&bytes));
    let digest = Sha256::digest(key.as_bytes()).into();
    (key, KeyConfig { digest, agent: None, expires: None })
}

/// Makes a tenant's key, and prints it with the line for the configuration.
pub(super) fn new(tenant: &str, agent: Option<&str>, expires: Option<&str>) -> Exit {
    if let Some(wrong) = [Some(tenant), agent].into_iter().flatten().find(|name| !ids::is_name(name)) {
        anstream::eprintln!(
            "error: `{}` is no name: one matches [a-z0-9][a-z0-9-]{{0,62}}",
            crate::text::visible(wrong)
        );
        return Exit::Usage;
    }
    make(agent, expires, |line| {
        format!(
            "The key above is shown once: give it to the tenant. In hostelry.toml, add its digest:\n\n\
             [tenants.{tenant}]\nkeys = [{line}]"
        )
    })
}

/// Makes a key of the admin listener, and prints it with the line for the configuration.
pub(super) fn admin(expires: Option<&str>) -> Exit {
    make(None, expires, |line| {
        format!(
            "The key above is shown once: give it to the operator. In hostelry.toml, at the top, add its digest:\n\n\
             admin-keys = [{line}]"
        )
    })
}

/// Makes a key, prints it, and says what to do with the line for the configuration.
fn make(agent: Option<&str>, expires: Option<&str>, say: impl Fn(&str) -> String) -> Exit {
    let expires = match expires.map(|when| moment(when, Timestamp::now())).transpose() {
        Ok(expires) => expires,
        Err(why) => {
            anstream::eprintln!("error: --expires: {why}");
            return Exit::Usage;
        }
    };
    let (key, kept) = draw();
    let digest = format!("sha256:{}", ids::hex(&kept.digest));
    let agent = agent.map(|agent| format!(", agent = \"{agent}\"")).unwrap_or_default();
    let expires = expires.map(|expires| format!(", expires = {}", expires.strftime("%Y-%m-%dT%H:%M:%SZ")));
    let bound = agent + &expires.unwrap_or_default();
    let line = if bound.is_empty() { format!("\"{digest}\"") } else { format!("{{ hash = \"{digest}\"{bound} }}") };
    anstream::println!("{key}");
    anstream::eprintln!("{}", say(&line));
    Exit::Clean
}

/// The point in time that `when` means: a date, or so long from now.
fn moment(when: &str, now: Timestamp) -> Result<Timestamp, String> {
    let time = match humantime::parse_duration(when) {
        Ok(after) => SignedDuration::try_from(after).ok().and_then(|after| now.checked_add(after).ok()),
        Err(_) => return future(config::point(when)?, now),
    };
    time.ok_or_else(|| format!("{when:?} is too long")).and_then(|time| future(time, now))
}

fn future(time: Timestamp, now: Timestamp) -> Result<Timestamp, String> {
    if time > now { Ok(time) } else { Err(format!("{time} is past")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_expires_on_a_date_or_some_time_from_now() {
        let now: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let at = |when: &str| moment(when, now).map(|time| time.to_string());
        assert_eq!(at("2027-01-31").unwrap(), "2027-01-31T00:00:00Z");
        assert_eq!(at("2027-01-31T08:00:00+08:00").unwrap(), "2027-01-31T00:00:00Z");
        assert_eq!(at("90days").unwrap(), "2027-03-01T00:00:00Z");
        assert!(at("2026-11-30").unwrap_err().contains("is past"));
        assert!(at("soon").unwrap_err().contains("is not a date"));
    }
}
