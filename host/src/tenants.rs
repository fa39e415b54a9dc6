//! Who a key belongs to, and what its tenant may use.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::config::{KeyConfig, TenantConfig};

/// Whose CPU time it is, and how much of it there was.
#[derive(Debug)]
pub struct Share {
    id: u64,
    weight: AtomicU32,
    /// Nanoseconds of CPU time, each counted in relation to the usual weight.
    used: AtomicU64,
    /// Tasks that run or want to.
    active: AtomicU32,
}

/// What of a tenant counts something and outlives a change of its entry.
#[derive(Debug)]
pub struct Account {
    /// Turns that run.
    pub turns: Arc<AtomicU32>,
    /// Connections that are open.
    pub connections: Arc<AtomicU32>,
    /// Bytes of request bodies that are held.
    pub bodies: Arc<AtomicUsize>,
    /// CPU time.
    pub share: Arc<Share>,
}

/// One tenant, live: its entry and what counts for it.
#[derive(Debug)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its entry.
    pub config: TenantConfig,
    /// What counts for it.
    pub account: Arc<Account>,
    /// Its turns a minute.
    pub rate: Option<Arc<DefaultDirectRateLimiter>>,
}

/// All tenants.
#[derive(Debug)]
pub struct Tenants {
    by_name: BTreeMap<String, Arc<Tenant>>,
}

/// One of a bounded number that is held; given back when dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicU32>);

impl Place {
    /// One more of `count`, if that is below `most`.
    pub fn take(count: &Arc<AtomicU32>, most: u32) -> Option<Self> {
        let more = |held: u32| (held < most).then(|| held + 1);
        count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Self(Arc::clone(count)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Share {
    /// A share of this weight, of which nothing is used.
    pub fn new(weight: u32) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        Self { id, weight: AtomicU32::new(weight.max(1)), used: AtomicU64::new(0), active: AtomicU32::new(0) }
    }

    /// Tells shares apart.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What was used, in relation to the weight.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts nanoseconds of CPU time.
    pub fn charge(&self, nanos: u64) {
        let weight = u64::from(self.weight.load(Ordering::Relaxed));
        let used = nanos.saturating_mul(u64::from(TenantConfig::CPU_WEIGHT)) / weight;
        self.used.fetch_add(used, Ordering::Relaxed);
    }

    /// One more task runs or wants to. Tells whether it is the first.
    pub fn enter(&self) -> bool {
        self.active.fetch_add(1, Ordering::AcqRel) == 0
    }

    /// One task less runs or wants to.
    pub fn leave(&self) {
        self.active.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts as if at least `level` had been used.
    pub fn raise(&self, level: u64) -> u64 {
        self.used.fetch_max(level, Ordering::Relaxed).max(level)
    }
}

impl Account {
    fn new(weight: u32) -> Self {
        let share = Arc::new(Share::new(weight));
        Self { turns: Arc::default(), connections: Arc::default(), bodies: Arc::default(), share }
    }
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
    /// The tenant of this entry. What counts for the one `before` goes on counting.
    fn new(name: &str, config: &TenantConfig, before: Option<&Self>) -> Self {
        let account = before.map_or_else(|| Arc::new(Account::new(config.cpu_weight)), |old| Arc::clone(&old.account));
        account.share.weight.store(config.cpu_weight.max(1), Ordering::Relaxed);
        let same = before.filter(|old| old.config.turns_per_minute == config.turns_per_minute);
        let rate = same.map_or_else(
            || {
                let quota = config.turns_per_minute.and_then(NonZeroU32::new).map(Quota::per_minute);
                quota.map(|quota| Arc::new(RateLimiter::direct(quota)))
            },
            |old| old.rate.clone(),
        );
        Self { name: name.to_owned(), config: config.clone(), account, rate }
    }

    /// Whether anyone may talk to its agents.
    pub fn is_open(&self) -> bool {
        self.config.keys.is_empty()
    }
}

impl Tenants {
    /// The tenants of a configuration.
    pub fn new(entries: &BTreeMap<String, TenantConfig>) -> Self {
        Self { by_name: BTreeMap::new() }.after(entries)
    }

    /// The tenants of a configuration that takes the place of this one's. Those who stay keep their counts.
    #[must_use]
    pub fn after(&self, entries: &BTreeMap<String, TenantConfig>) -> Self {
        let tenant = |(name, config): (&String, &TenantConfig)| {
            (name.clone(), Arc::new(Tenant::new(name, config, self.by_name.get(name).map(Arc::as_ref))))
        };
        Self { by_name: entries.iter().map(tenant).collect() }
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.by_name.values()
    }

    /// The tenant of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.by_name.get(name)
    }

    /// What a client that names `tenant` and shows `key` may do. Takes about the same time whatever the answer.
    pub fn access(&self, tenant: &str, key: Option<&str>) -> Access {
        let named = self.by_name.get(tenant);
        // A tenant that is not there is looked through like one with a key that fits nothing.
        let absent = [KeyConfig { digest: [0; 32], agent: None, expires: None }];
        let keys = named.map_or(absent.as_slice(), |tenant| tenant.config.keys.as_slice());
        let found = find(keys, &digest(key.unwrap_or_default()), Timestamp::now());
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
        let (digest, now) = (digest(key.unwrap_or_default()), Timestamp::now());
        for tenant in self.by_name.values() {
            if let Some(found) = find(&tenant.config.keys, &digest, now).filter(|_| key.is_some()) {
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

/// What is kept of a key.
pub fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// The index of the key that fits and has not expired, in a time that does not tell which, or how nearly.
pub fn find(keys: &[KeyConfig], shown: &[u8; 32], now: Timestamp) -> Option<usize> {
    let mut found = u64::MAX;
    for (index, key) in (0_u64..).zip(keys) {
        let fits: Choice = key.digest.ct_eq(shown) & Choice::from(u8::from(key.is_valid(now)));
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
            expires: None,
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

    #[test]
    fn a_key_opens_nothing_once_it_has_expired() {
        let expires = "2027-01-31T00:00:00Z".parse::<Timestamp>().unwrap();
        let keys = [KeyConfig { digest: digest("k"), agent: None, expires: Some(expires) }];
        let second = jiff::SignedDuration::from_secs(1);
        assert_eq!(find(&keys, &digest("k"), expires - second), Some(0));
        assert_eq!(find(&keys, &digest("k"), expires), None);
        assert_eq!(find(&keys, &digest("j"), expires - second), None);
    }

    #[test]
    fn what_counts_for_a_tenant_outlives_a_change_of_its_entry() {
        let mut entry = TenantConfig { turns_per_minute: Some(60), ..TenantConfig::out_of_the_box() };
        let entries = |entry: &TenantConfig| BTreeMap::from([("acme".to_owned(), entry.clone())]);
        let first = Tenants::new(&entries(&entry));
        let held = Place::take(&first.get("acme").unwrap().account.turns, 1).unwrap();
        entry.cpu_weight = 200;
        let second = first.after(&entries(&entry));
        let acme = second.get("acme").unwrap();
        assert!(Place::take(&acme.account.turns, 1).is_none());
        assert!(Arc::ptr_eq(acme.rate.as_ref().unwrap(), first.get("acme").unwrap().rate.as_ref().unwrap()));
        assert_eq!(acme.account.share.weight.load(Ordering::Relaxed), 200);
        drop(held);
        assert!(Place::take(&acme.account.turns, 1).is_some());
        entry.turns_per_minute = Some(1);
        let third = second.after(&entries(&entry));
        assert!(!Arc::ptr_eq(third.get("acme").unwrap().rate.as_ref().unwrap(), acme.rate.as_ref().unwrap()));
        assert!(third.after(&BTreeMap::new()).get("acme").is_none());
    }
}
