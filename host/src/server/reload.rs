//! A new configuration in the place of the old one while the host serves: what can be changed is changed at once for
//! whatever begins from now on, turns that run keep what they began with, and what needs a restart stays and is named.

use std::sync::Arc;

use super::{Server, faults};
use crate::config::{Config, Faults};

impl Server {
    /// Applies a configuration, or refuses it as a whole. Gives back the keys whose change waits for a restart.
    pub fn apply(&self, new: Config) -> Result<Vec<&'static str>, Faults> {
        let wrong = faults(&new);
        if !wrong.is_empty() {
            return Err(Faults(wrong));
        }
        let old = self.lobby.config();
        let (new, waiting) = settled(&old, new);
        // The tenants first: who is let in by the new ones meets the new limits in any case, as they are in the entry.
        self.lobby.access.rcu(|tenants| Arc::new(tenants.after(&new.tenants)));
        self.store.configure(&new.sessions);
        self.lobby.settings.store(Arc::new(new));
        self.lobby.metrics.configuration(true);
        self.news.notify_one();
        Ok(waiting)
    }

    /// Counts a configuration that could not even be read.
    pub fn refused(&self) {
        self.lobby.metrics.configuration(false);
    }
}

/// The new configuration with the old one's values where a change needs a restart, and the keys of those.
fn settled(old: &Config, new: Config) -> (Config, Vec<&'static str>) {
    let mut waiting = Vec::new();
    let mut config = new;
    let mut keep = |key, changed: bool| {
        if changed {
            waiting.push(key);
        }
        changed
    };
    if keep("listen", config.listen != old.listen) {
        config.listen = old.listen;
    }
    if keep("admin-listen", config.admin_listen != old.admin_listen) {
        config.admin_listen = old.admin_listen;
    }
    if keep("plugins", config.plugins != old.plugins) {
        config.plugins.clone_from(&old.plugins);
    }
    if keep("data", config.data != old.data) {
        config.data.clone_from(&old.data);
    }
    if keep("server.concurrent-turns", config.server.concurrent_turns != old.server.concurrent_turns) {
        config.server.concurrent_turns = old.server.concurrent_turns;
    }
    if keep("server.request-time", config.server.request_time != old.server.request_time) {
        config.server.request_time = old.server.request_time;
    }
    let counts = |config: &Config| (config.failures.per_agent, config.failures.per_tenant);
    if keep("failures", counts(&config) != counts(old)) {
        (config.failures.per_agent, config.failures.per_tenant) = counts(old);
    }
    if keep("usage", config.usage != old.usage) {
        config.usage = old.usage.clone();
    }
    (config, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_stays_and_is_named_and_the_rest_is_new() {
        let old = Config::default();
        let mut new = Config::default();
        new.server.concurrent_turns = 7;
        new.server.connections = 9;
        new.listen.set_port(1);
        new.failures.text = true;
        let (config, waiting) = settled(&old, new);
        assert_eq!(waiting, ["listen", "server.concurrent-turns"]);
        assert_eq!((config.listen, config.server.concurrent_turns), (old.listen, old.server.concurrent_turns));
        assert_eq!((config.server.connections, config.failures.text), (9, true));
    }
}
