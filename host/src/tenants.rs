//! Who a key belongs to, and what its tenant may use.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tokio::sync::Semaphore;

use crate::config::{KeyConfig, TenantConfig};

/// One tenant, live: its entry and what counts its turns.
#[derive(Debug)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its entry.
    pub config: TenantConfig,
    /// One permit for each turn that may still begin.
    pub turns: Arc<Semaphore>,
    /// Its turns a minute.
    pub rate: Option<DefaultDirectRateLimiter>,
}

/// All tenants.
#[derive(Debug)]
pub struct Tenants {
    by_name: BTreeMap<String, Arc<Tenant>>,
}

/// What a client that names a tenant and shows a key, or none, may do.
#[derive(Clone, Debug)]
pub enum Access {
    /// It may talk to this tenant's agents: to all, or to the one its key is bound to.
    Granted(Grant),
    /// No key, a wrong one, another tenant's, or no such tenant where strangers must not learn that.
    Unauthorized,
    /// There is no such tenant, and every tenant here is open, so that this is no secret.
    Unknown,
}

/// A tenant that is open to the client.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The tenant.
    pub tenant: Arc<Tenant>,
    /// The one agent that the key opens; `None` opens all.
    pub agent: Option<String>,
}

impl Grant {
    /// Whether the key opens `agent`.
    pub fn opens(&self, agent: &str) -> bool {
        self.agent.as_deref().is_none_or(|bound| bound == agent)
    }
}

impl Tenant {
    fn new(name: &str, config: &TenantConfig) -> Self {
        let rate = config.turns_per_minute.and_then(NonZeroU32::new).map(|n| RateLimiter::direct(Quota::per_minute(n)));
        let turns = Arc::new(Semaphore::new(config.concurrent_turns as usize));
        Self { name: name.to_owned(), config: config.clone(), turns, rate }
    }

    /// Whether anyone may talk to its agents.
    pub fn is_open(&self) -> bool {
        self.config.keys.is_empty()
    }
}

impl Tenants {
    /// The tenants of a configuration.
    pub fn new(entries: &BTreeMap<String, TenantConfig>) -> Self {
        let by_name =
            entries.iter().map(|(name, config)| (name.clone(), Arc::new(Tenant::new(name, config)))).collect();
        Self { by_name }
    }

    /// The tenant of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.by_name.get(name)
    }

    /// What a client that names `tenant` and shows `key` may do. Takes about the same time whatever the answer.
    pub fn access(&self, tenant: &str, key: Option<&str>) -> Access {
        let named = self.by_name.get(tenant);
        // A tenant that is not there is looked through like one with a key that fits nothing.
        let absent = [KeyConfig { digest: [0; 32], agent: None }];
        let keys = named.map_or(absent.as_slice(), |tenant| tenant.config.keys.as_slice());
        let found = find(keys, key.unwrap_or_default());
        match named {
            Some(tenant) if tenant.is_open() => Access::Granted(Grant { tenant: Arc::clone(tenant), agent: None }),
            Some(tenant) if key.is_some() => match found.and_then(|index| keys.get(index)) {
                Some(key) => Access::Granted(Grant { tenant: Arc::clone(tenant), agent: key.agent.clone() }),
                None => Access::Unauthorized,
            },
            None if self.by_name.values().all(|tenant| tenant.is_open()) => Access::Unknown,
            _ => Access::Unauthorized,
        }
    }

    /// The tenant whose key this is, where only the key says who is meant. A client without a key gets the one open
    /// tenant, if there is just one tenant and it is open.
    pub fn by_key(&self, key: Option<&str>) -> Access {
        let mut granted = Access::Unauthorized;
        for tenant in self.by_name.values() {
            if let Some(found) = find(&tenant.config.keys, key.unwrap_or_default()).filter(|_| key.is_some()) {
                let agent = tenant.config.keys.get(found).and_then(|key| key.agent.clone());
                granted = Access::Granted(Grant { tenant: Arc::clone(tenant), agent });
            }
        }
        match (&granted, self.by_name.values().next()) {
            (Access::Unauthorized, Some(only)) if only.is_open() && self.by_name.len() == 1 => {
                Access::Granted(Grant { tenant: Arc::clone(only), agent: None })
            }
            _ => granted,
        }
    }
}

/// The index of the key that fits, in a time that does not tell which, or how nearly.
fn find(keys: &[KeyConfig], key: &str) -> Option<usize> {
    let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    let mut found = u64::MAX;
    for (index, key) in (0_u64..).zip(keys) {
        let fits: Choice = key.digest.ct_eq(&digest);
        found.conditional_assign(&index, fits);
    }
    usize::try_from(found).ok().filter(|index| *index < keys.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(keyed: bool) -> Tenants {
        let key = |key: &str, agent: Option<&str>| KeyConfig {
            digest: Sha256::digest(key.as_bytes()).into(),
            agent: agent.map(str::to_owned),
        };
        let keys = if keyed { vec![key("one", None), key("two", Some("echo"))] } else { Vec::new() };
        let acme = TenantConfig { keys, ..TenantConfig::out_of_the_box() };
        Tenants::new(&BTreeMap::from([("acme".to_owned(), acme)]))
    }

    /// What is opened: one agent by name, or `*` for all.
    fn granted(access: &Access) -> Option<&str> {
        match access {
            Access::Granted(grant) => Some(grant.agent.as_deref().unwrap_or("*")),
            Access::Unauthorized | Access::Unknown => None,
        }
    }

    #[test]
    fn any_of_a_tenants_keys_opens_it_and_nothing_else_does() {
        let keyed = tenants(true);
        assert_eq!(granted(&keyed.access("acme", Some("one"))), Some("*"));
        assert_eq!(granted(&keyed.access("acme", Some("two"))), Some("echo"));
        assert_eq!(granted(&keyed.access("acme", Some("three"))), None);
        assert_eq!(granted(&keyed.access("acme", None)), None);
        assert!(matches!(keyed.access("other", Some("one")), Access::Unauthorized), "a stranger learns no names");
        assert_eq!(granted(&keyed.by_key(Some("two"))), Some("echo"));
        assert_eq!(granted(&keyed.by_key(None)), None);
    }

    #[test]
    fn a_tenant_without_keys_is_open() {
        let open = tenants(false);
        assert_eq!(granted(&open.access("acme", None)), Some("*"));
        assert_eq!(granted(&open.access("acme", Some("anything"))), Some("*"));
        assert_eq!(granted(&open.by_key(None)), Some("*"));
        assert!(matches!(open.access("other", None), Access::Unknown));
    }
}
