//! `hostelry keys`: makes keys. A key is shown once; the configuration holds its digest only.

use rand::RngExt as _;
use sha2::{Digest as _, Sha256};

use super::Exit;
use crate::{config::KeyConfig, ids};

/// Random bytes in a key: more than anyone can try, so that a plain digest of it is as good as a slow one.
const KEY_BYTES: usize = 32;

/// A new key, and what is kept of it.
pub(super) fn make() -> (String, KeyConfig) {
    let bytes: [u8; KEY_BYTES] = rand::rng().random();
    let key = format!("hk_{}", ids::hex(&bytes));
    let digest = Sha256::digest(key.as_bytes()).into();
    (key, KeyConfig { digest, agent: None })
}

/// Makes a key, and prints it with the line for the configuration.
pub(super) fn new(tenant: &str, agent: Option<&str>) -> Exit {
    if let Some(wrong) = [Some(tenant), agent].into_iter().flatten().find(|name| !ids::is_name(name)) {
        anstream::eprintln!(
            "error: `{}` is no name: one matches [a-z0-9][a-z0-9-]{{0,62}}",
            crate::text::visible(wrong)
        );
        return Exit::Usage;
    }
    let (key, kept) = make();
    let digest = format!("sha256:{}", ids::hex(&kept.digest));
    let line = match agent {
        Some(agent) => format!("{{ hash = \"{digest}\", agent = \"{agent}\" }}"),
        None => format!("\"{digest}\""),
    };
    anstream::println!("{key}");
    anstream::eprintln!(
        "The key above is shown once: give it to the tenant. In hostelry.toml, add its digest:\n\n\
         [tenants.{tenant}]\nkeys = [{line}]"
    );
    Exit::Clean
}
