//! What is wrong with a configuration as a whole, beyond what its file alone can tell.

use crate::{
    capabilities::tools,
    config::Config,
    runtime::{MEMORY_MAX, TURNS_MAX},
};

/// What is wrong with a configuration as a whole.
pub fn faults(config: &Config) -> Vec<String> {
    let mut faults = Vec::new();
    let open = config.tenants.iter().filter(|(_, tenant)| tenant.keys.is_empty()).map(|(name, _)| name);
    if !config.listen.ip().is_loopback() {
        for name in open {
            faults.push(format!(
                "listen: {} is not a loopback address, and tenant `{name}` has no key; hint: make one with `hostelry \
                 keys new {name}`, or listen on 127.0.0.1",
                config.listen
            ));
        }
    }
    if config.server.concurrent_turns > TURNS_MAX {
        faults.push(format!("server.concurrent-turns: more than {TURNS_MAX}, which is what one process has room for"));
    }
    for (name, tenant) in config.tenants.iter().filter(|(_, tenant)| tenant.limits.memory > MEMORY_MAX) {
        let memory = tenant.limits.memory;
        faults.push(format!("limits.memory: {memory} bytes for tenant `{name}`; a guest can address 4GiB"));
    }
    for (name, tenant) in &config.tenants {
        for pattern in tenant.tools.iter().filter(|pattern| !tools::is_known(pattern)) {
            let all = tools::paths().join(", ");
            faults.push(format!(
                "tenants.{name}.tools: {pattern:?} is no tool; there are {all}, and `*` stands for any text"
            ));
        }
        let host = |entry: &&String| entry.is_empty() || entry.contains(|c: char| c == '/' || c.is_whitespace());
        for entry in tenant.http.iter().filter(host) {
            faults.push(format!("tenants.{name}.http: {entry:?} is no host; write it like \"images.example.com\""));
        }
    }
    for (key, folder) in [("plugins", &config.plugins), ("data", &config.data)] {
        if folder.as_os_str().is_empty() {
            faults.push(format!("{key}: names no folder"));
        }
    }
    if let Some(admin) = config.admin_listen.filter(|admin| !admin.ip().is_loopback() && config.admin_keys.is_empty()) {
        faults.push(format!(
            "admin-listen: {admin} is not a loopback address, and there are no admin-keys; hint: make one with `hostelry keys \
             admin`, or listen on 127.0.0.1"
        ));
    }
    faults
}
