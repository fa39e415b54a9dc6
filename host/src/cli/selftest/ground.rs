//! What the selftest stands on: the operator's configuration with tenants of its own, one for each case, so that no case
//! counts for another; and how a case asks the host's agents.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    clients::{Caller, NoTurn},
    ear::Ear,
    heard::{Heard, Patience},
    verdict::Trouble,
    wire::Way,
};
use crate::{
    config::{Config, Limits, TenantConfig},
    ids,
    limit::Limit,
    metrics::Metrics,
    runtime::Registry,
};

/// The agent that misbehaves as it is told, and echoes when it is told that.
pub(super) const GUEST: &str = "guest";

/// The tenant that no case attacks.
pub(super) const WITNESS: &str = "witness";

/// How long an ordinary turn may take on a machine that does much else.
const ORDINARY: Duration = Duration::from_secs(15);

/// How often it is looked whether something has happened, and how often where it should have by now.
pub(super) const LOOK: Duration = Duration::from_millis(5);
pub(super) const LOOKS: u32 = 200;

/// Tenants of the operator's that have the same limits: they are tested once.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Their names.
    pub(super) names: Vec<String>,
    /// The entry of the first of them.
    pub(super) config: TenantConfig,
    /// Whether there is no other group.
    pub(super) alone: bool,
}

impl Group {
    /// The groups of a configuration, or of one of its tenants.
    pub(super) fn all(config: &Config, only: Option<&str>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for (name, tenant) in config.tenants.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
            match groups.iter_mut().find(|group| group.fits(tenant)) {
                Some(group) => group.names.push(name.clone()),
                None => groups.push(Self { names: vec![name.clone()], config: tenant.clone(), alone: false }),
            }
        }
        let alone = groups.len() == 1;
        for group in &mut groups {
            group.alone = alone;
        }
        groups
    }

    fn fits(&self, tenant: &TenantConfig) -> bool {
        let own = &self.config;
        own.limits == tenant.limits
            && own.concurrent_turns == tenant.concurrent_turns
            && own.turns_per_minute == tenant.turns_per_minute
            && own.cpu_weight == tenant.cpu_weight
            && own.connections == tenant.connections
            && own.budget == tenant.budget
    }

    /// The key of this name, as it stands in the file: limits may be everybody's.
    pub(super) fn key(&self, section: &str, name: &str) -> String {
        let tenant = self.names.first().map(String::as_str).unwrap_or_default();
        match section {
            "" => format!("tenants.{tenant}.{name}"),
            section if self.alone => format!("{section}.{name}"),
            section => format!("tenants.{tenant}.{section}.{name}"),
        }
    }

    /// Their names as a heading.
    pub(super) fn title(&self) -> String {
        match self.names.as_slice() {
            [] => String::new(),
            [only] => format!("tenant {only}"),
            [one, two] => format!("tenants {one} and {two}"),
            [one, rest @ ..] => format!("tenants {one} and {} more with the same limits", rest.len()),
        }
    }
}

/// The server under test, and what is known of it.
pub(super) struct Ground {
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// What it was started with.
    pub(super) config: Config,
    /// What it counts.
    pub(super) metrics: Metrics,
    /// Which agents are live.
    pub(super) registry: Registry,
    /// The folder of its agents.
    pub(super) plugins: PathBuf,
    /// What it logs of guests.
    pub(super) ear: Ear,
    /// A port that takes connections and says nothing.
    pub(super) silence: SocketAddr,
    /// A port that serves images as large as it is asked for.
    pub(super) pictures: SocketAddr,
    /// Tenants beside the cases' own, each with its key, for what takes several.
    pub(super) crowd: Vec<(String, String)>,
    /// The longest that any case may take.
    pub(super) max_wait: Duration,
    /// The key of the tenant that no case attacks.
    pub(super) witness_key: String,
}

/// Where one case stands: its own tenant, key and address.
#[derive(Clone)]
pub(super) struct Stand {
    /// The server.
    pub(super) ground: std::sync::Arc<Ground>,
    /// The case's own tenant.
    pub(super) tenant: String,
    /// Its key.
    pub(super) key: String,
    /// The address that its clients come from.
    pub(super) from: IpAddr,
    /// What bounds its turns.
    pub(super) limits: Limits,
    /// What the tenant may do beside.
    pub(super) entry: TenantConfig,
}

impl Stand {
    /// A client of the case's tenant, in a conversation of its own.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            way: self.way(),
            tenant: self.tenant.clone(),
            agent: GUEST.to_owned(),
            key: Some(self.key.clone()),
            session: ids::turn_id(),
            user: None,
            patience: Patience::default(),
        }
    }

    /// The way to the host.
    pub(super) fn way(&self) -> Way {
        Way { to: self.ground.address, from: self.from }
    }

    /// One turn over Mythra, well-formed to its end.
    pub(super) async fn mythra(&self, order: &str) -> Result<Heard, Trouble> {
        whole("Mythra", self.caller().mythra(order).await)
    }

    /// One turn over Lingzhu, well-formed to its end.
    pub(super) async fn lingzhu(&self, order: &str) -> Result<Heard, Trouble> {
        whole("Lingzhu", self.caller().lingzhu(order).await)
    }

    /// The same turn over either protocol.
    pub(super) async fn both(&self, order: &str) -> Result<(Heard, Heard), Trouble> {
        Ok((self.mythra(order).await?, self.lingzhu(order).await?))
    }

    /// The same turn over either protocol, which must fail.
    pub(super) async fn both_fail(&self, order: &str) -> Result<(Heard, Heard), Trouble> {
        let (mythra, lingzhu) = self.both(order).await?;
        failed(&mythra)?;
        failed(&lingzhu)?;
        Ok((mythra, lingzhu))
    }

    /// Waits until a turn of this tenant runs.
    pub(super) async fn begun(&self) {
        while self.ground.metrics.running(&self.tenant) == 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until no turn of this tenant runs.
    pub(super) async fn ended(&self) {
        while self.ground.metrics.running(&self.tenant) > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The CPU time of the tenant's turns, once so many of them have been ended for it, or it is clear that they were not.
    pub(super) async fn cpu(&self, ended: u32) -> Duration {
        let metrics = &self.ground.metrics;
        for _ in 0..LOOKS {
            if metrics.hits_of(Limit::CpuTime, &self.tenant) >= u64::from(ended) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        metrics.cpu(&self.tenant)
    }

    /// An ordinary turn of this tenant; why it failed, if it did.
    pub(super) async fn ordinary(&self) -> Result<(), String> {
        ordinary(&self.caller()).await
    }

    /// An ordinary turn of the tenant that nobody attacks, by a client that does nothing else.
    pub(super) async fn witness(&self) -> Result<(), String> {
        let caller = self.caller();
        let way = Way { from: IpAddr::V4(Ipv4Addr::new(127, 10, 0, 1)), ..caller.way };
        let key = Some(self.ground.witness_key.clone());
        ordinary(&Caller { way, tenant: WITNESS.to_owned(), key, ..caller }).await
    }
}

/// An ordinary turn: it says what it is told to say, over either protocol.
async fn ordinary(caller: &Caller) -> Result<(), String> {
    let turns = async { [caller.lingzhu("e hello").await, caller.mythra("e hello").await] };
    let heard = tokio::time::timeout(ORDINARY, turns).await;
    let heard = heard.map_err(|_| format!("it was not answered within {}", super::settings::time(ORDINARY)))?;
    for heard in heard {
        match heard {
            Ok(heard) if heard.malformed.is_some() => return Err(heard.malformed.unwrap_or_default()),
            Ok(heard) if heard.failed => return Err(format!("it was answered with: {}", heard.error)),
            Ok(heard) if heard.text != "hello" => return Err(format!("it was answered with {:?}", heard.text)),
            Ok(_) => {}
            Err(NoTurn::Refused(status, words)) => return Err(format!("it was refused with {status}: {words}")),
            Err(NoTurn::Broken(why)) => return Err(why),
        }
    }
    Ok(())
}

/// A turn that was heard, unless it was not well-formed to its end.
pub(super) fn whole(protocol: &str, heard: Result<Heard, NoTurn>) -> Result<Heard, Trouble> {
    match heard {
        Ok(heard) => match &heard.malformed {
            Some(why) => Err(Trouble::Broke(format!("the {protocol} client's stream is not well-formed: {why}"))),
            None => Ok(heard),
        },
        Err(NoTurn::Refused(status, words)) => {
            Err(Trouble::Unproven(format!("the {protocol} client was refused with {status}: {words}")))
        }
        Err(NoTurn::Broken(why)) => Err(Trouble::Unproven(format!("the {protocol} client's connection failed: {why}"))),
    }
}

/// Says that a turn went well which had to fail.
pub(super) fn failed(heard: &Heard) -> Result<(), Trouble> {
    if heard.failed {
        return Ok(());
    }
    let said = crate::text::visible(crate::text::head(&heard.text, 80));
    Err(Trouble::Broke(format!("the turn went well, and nothing stopped it; it said {said:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_with_the_same_limits_are_one_group_and_their_keys_are_named_as_the_file_has_them() {
        let mut config = Config::default();
        let tenant = TenantConfig::out_of_the_box();
        let mut other = tenant.clone();
        for name in ["acme", "beta", "gamma"] {
            config.tenants.insert(name.to_owned(), tenant.clone());
        }
        let groups = Group::all(&config, None);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].key("limits", "memory"), "limits.memory");
        assert_eq!(groups[0].title(), "tenants acme and 3 more with the same limits");
        other.limits.memory = 1;
        config.tenants.insert("beta".to_owned(), other);
        let groups = Group::all(&config, None);
        assert_eq!(groups.iter().map(|group| group.names.len()).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(groups[1].key("limits", "memory"), "tenants.beta.limits.memory");
        assert_eq!(groups[1].key("", "concurrent-turns"), "tenants.beta.concurrent-turns");
        let only = Group::all(&config, Some("beta"));
        assert_eq!(only.iter().map(Group::title).collect::<Vec<_>>(), ["tenant beta"]);
    }
}
