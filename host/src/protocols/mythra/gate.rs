//! Who may come in: the key at the handshake, and the key in each message where there was none.
//!
//! A stranger learns no names: where a key is needed, an unknown tenant or agent looks like a known one until a good
//! key is shown.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::wire::ApiKey;
use crate::{
    ids::{self, ANONYMOUS},
    tenants::{Access, Grant, Place, Tenant, Tenants},
};

/// How much of a delegated key's SHA-256 names its owner's sessions: 128 bits, which nobody finds a second key for.
const OWNER_DIGEST_BYTES: usize = 16;

/// The gate of one connection: what it leads to, and what the handshake's key opened.
#[derive(Debug)]
pub(super) struct Gate {
    /// The tenant as the address names it.
    pub(super) tenant: String,
    /// The agent as the address names it.
    pub(super) agent: String,
    /// The key of the handshake.
    key: Option<ApiKey>,
    /// What it opened then.
    grant: Option<Grant>,
}

/// Why the handshake is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shut {
    /// The key is wrong.
    Unauthorized,
    /// There is no such tenant, and that is no secret.
    NoSuchTenant,
}

/// An input that was let in.
#[derive(Debug)]
pub(super) struct Entry {
    /// Whose agent it is for.
    pub(super) tenant: Arc<Tenant>,
    /// Whose sessions it may reach: everybody's who has no key of their own, or that key's owner's.
    pub(super) user: String,
}

impl Gate {
    /// The gate that `key`, shown at the handshake, leads to. Without a key it may stay shut until a message shows one.
    pub(super) fn knock(tenants: &Tenants, tenant: String, agent: String, key: Option<ApiKey>) -> Result<Self, Shut> {
        let grant = match tenants.access(&tenant, key.as_ref().map(ApiKey::expose)) {
            Access::Granted(grant) if grant.opens(&agent) => Some(grant),
            Access::Unknown => return Err(Shut::NoSuchTenant),
            Access::Granted(_) | Access::Unauthorized if key.is_some() => return Err(Shut::Unauthorized),
            Access::Granted(_) | Access::Unauthorized => None,
        };
        Ok(Self { tenant, agent, key, grant })
    }

    /// Whether the handshake opened it, so that the client may know what is behind it.
    pub(super) fn is_open(&self) -> bool {
        self.grant.is_some()
    }

    /// A place among the connections of the tenant that the handshake opened, or, if there is none, that tenant's name;
    /// nothing while the gate is shut.
    pub(super) fn place(&self) -> Option<Result<Place, String>> {
        self.grant.as_ref().map(|grant| place(&grant.tenant))
    }

    /// The tenant that the handshake opened, for what is counted.
    pub(super) fn opened(&self) -> Option<&str> {
        self.grant.as_ref().map(|grant| grant.tenant.name.as_str())
    }

    /// Lets in a message that shows `key`, or `None` if it may not come in. Both keys are asked about anew: they may have
    /// expired, or have been taken out of the configuration, since the handshake.
    pub(super) fn enter(&self, tenants: &Tenants, key: Option<&ApiKey>) -> Option<Entry> {
        let shown = key.map(|key| tenants.access(&self.tenant, Some(key.expose())));
        let listed = match shown {
            Some(Access::Granted(grant)) if !grant.tenant.is_open() => Some(grant),
            _ => None,
        };
        // A key that the tenant lists is the platform's and says nothing of the person; any other is the user's own.
        let user = key.filter(|_| listed.is_none()).map_or_else(|| ANONYMOUS.to_owned(), owner);
        let standing = match tenants.access(&self.tenant, self.key.as_ref().map(ApiKey::expose)) {
            Access::Granted(grant) => Some(grant),
            Access::Unauthorized | Access::Unknown => None,
        };
        let grant = standing.into_iter().chain(listed).find(|grant| grant.opens(&self.agent))?;
        Some(Entry { tenant: grant.tenant, user })
    }
}

/// A place among a tenant's connections, or its name if there is none.
pub(super) fn place(tenant: &Tenant) -> Result<Place, String> {
    Place::take(&tenant.account.connections, tenant.config.connections).ok_or_else(|| tenant.name.clone())
}

fn owner(key: &ApiKey) -> String {
    let digest: [u8; 32] = Sha256::digest(key.expose().as_bytes()).into();
    format!("key:{}", ids::hex(digest.get(..OWNER_DIGEST_BYTES).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::{KeyConfig, TenantConfig};

    fn tenants(keys: &[(&str, Option<&str>)]) -> Tenants {
        let keys = keys.iter().map(|(key, agent)| KeyConfig {
            digest: Sha256::digest(key.as_bytes()).into(),
            agent: agent.map(str::to_owned),
            expires: None,
        });
        let acme = TenantConfig { keys: keys.collect(), ..TenantConfig::out_of_the_box() };
        Tenants::new(&BTreeMap::from([("acme".to_owned(), acme)]))
    }

    fn knock(tenants: &Tenants, tenant: &str, key: &str) -> Result<Gate, Shut> {
        Gate::knock(tenants, tenant.to_owned(), "echo".to_owned(), ApiKey::new(key))
    }

    fn user(tenants: &Tenants, gate: &Gate, key: &str) -> Option<String> {
        gate.enter(tenants, ApiKey::new(key).as_ref()).map(|entry| entry.user)
    }

    #[test]
    fn a_wrong_key_at_the_handshake_is_refused_and_none_may_come_later() {
        let tenants = tenants(&[("good", None), ("bound", Some("other"))]);
        assert!(knock(&tenants, "acme", "good").unwrap().is_open());
        assert_eq!(knock(&tenants, "acme", "bad").unwrap_err(), Shut::Unauthorized);
        assert_eq!(knock(&tenants, "acme", "bound").unwrap_err(), Shut::Unauthorized, "bound to another agent");
        assert_eq!(knock(&tenants, "nobody", "good").unwrap_err(), Shut::Unauthorized);
        for tenant in ["acme", "nobody"] {
            let gate = knock(&tenants, tenant, "").unwrap();
            assert!(!gate.is_open());
            assert_eq!(user(&tenants, &gate, ""), None);
            assert_eq!(user(&tenants, &gate, "bad"), None);
            assert_eq!(user(&tenants, &gate, "bound"), None);
        }
        let gate = knock(&tenants, "acme", "").unwrap();
        assert_eq!(user(&tenants, &gate, "good").as_deref(), Some(ANONYMOUS));
    }

    #[test]
    fn a_key_that_is_taken_out_of_the_configuration_lets_nobody_in_any_more() {
        let (before, after) = (tenants(&[("good", None)]), tenants(&[("better", None)]));
        let gate = knock(&before, "acme", "good").unwrap();
        assert!(user(&before, &gate, "").is_some());
        assert_eq!(user(&after, &gate, ""), None);
        assert!(user(&after, &gate, "better").is_some());
        let open = knock(&tenants(&[]), "acme", "").unwrap();
        assert_eq!(user(&after, &open, ""), None, "a tenant that gets its first key is open no longer");
    }

    #[test]
    fn an_open_tenant_lets_everybody_in_and_tells_what_is_not_there() {
        let tenants = tenants(&[]);
        assert_eq!(knock(&tenants, "nobody", "").unwrap_err(), Shut::NoSuchTenant);
        let gate = knock(&tenants, "acme", "").unwrap();
        assert!(gate.is_open());
        assert_eq!(user(&tenants, &gate, "").as_deref(), Some(ANONYMOUS));
    }

    #[test]
    fn a_delegated_key_has_sessions_of_its_own() {
        let (open, keyed) = (tenants(&[]), tenants(&[("good", None)]));
        let gate = knock(&open, "acme", "").unwrap();
        let mine = user(&open, &gate, "mine").unwrap();
        assert_eq!(mine.len(), "key:".len() + 32);
        assert_ne!(mine, user(&open, &gate, "yours").unwrap());
        assert!(!mine.contains("mine"));
        let gate = knock(&keyed, "acme", "good").unwrap();
        assert_eq!(user(&keyed, &gate, "mine"), Some(mine), "the same wherever it is shown");
        assert_eq!(user(&keyed, &gate, "good").as_deref(), Some(ANONYMOUS), "the platform's key is nobody's own");
    }
}
