//! The tenants' entries of a `hostelry.toml`: their keys, what they may use at once, in a minute, a day and a month.

use std::collections::BTreeMap;

use toml::de::DeValue;

use super::limits;
use crate::{
    config::{Allowance, BudgetConfig, KeyConfig, Limits, TenantConfig, section::Section},
    ids,
};

/// The largest share of CPU time.
const WEIGHT_MAX: u32 = 10_000;

pub(super) fn tenants(mut section: Section<'_, '_>, base: &Limits) -> BTreeMap<String, TenantConfig> {
    let mut tenants = BTreeMap::new();
    for (name, entry) in section.sections() {
        if !ids::is_name(&name) {
            entry.fault(entry.span(), "", "a tenant's name matches [a-z0-9][a-z0-9-]{0,62}");
        }
        tenants.insert(name, tenant(entry, base));
    }
    tenants
}

fn tenant(mut section: Section<'_, '_>, base: &Limits) -> TenantConfig {
    let tenant = TenantConfig {
        keys: keys(&mut section, "keys"),
        limits: section.section("limits").map_or_else(|| base.clone(), |own| limits(own, base)),
        concurrent_turns: section.number("concurrent-turns", 1).unwrap_or(TenantConfig::CONCURRENT_TURNS),
        turns_per_minute: section.number("turns-per-minute", 1),
        tools: section.texts("tools").unwrap_or_default(),
        http: section.texts("http").unwrap_or_default(),
        models: section.texts("models").unwrap_or_default(),
        connections: section.number("connections", 1).unwrap_or(TenantConfig::CONNECTIONS),
        cpu_weight: weight(&mut section),
        budget: section.section("budget").map(budget).unwrap_or_default(),
    };
    section.end();
    tenant
}

/// A share of CPU time: a number as the scheduler of the system has it.
fn weight(section: &mut Section<'_, '_>) -> u32 {
    let span = section.place("cpu-weight");
    let weight = section.number("cpu-weight", 1).unwrap_or(TenantConfig::CPU_WEIGHT);
    if weight > WEIGHT_MAX {
        section.fault(span, "cpu-weight", &format!("more than {WEIGHT_MAX}"));
    }
    weight
}

fn budget(mut section: Section<'_, '_>) -> BudgetConfig {
    let budget = BudgetConfig {
        day: section.section("day").map(allowance).unwrap_or_default(),
        month: section.section("month").map(allowance).unwrap_or_default(),
    };
    section.end();
    budget
}

fn allowance(mut section: Section<'_, '_>) -> Allowance {
    let allowance = Allowance {
        turns: section.number("turns", 0),
        cpu_time: section.duration("cpu-time"),
        events: section.number("events", 0),
        output: section.size("output", 0),
        tool_calls: section.number("tool-calls", 0),
    };
    section.end();
    allowance
}

/// A list of keys: each a digest, or a table of a digest, the agent that it opens, and the time from which it opens nothing.
pub(super) fn keys(section: &mut Section<'_, '_>, list: &'static str) -> Vec<KeyConfig> {
    let mut keys = Vec::new();
    for (span, item) in section.list(list).unwrap_or_default() {
        let key = match item {
            DeValue::String(text) => digest(&text).map(|digest| KeyConfig { digest, agent: None, expires: None }),
            table @ DeValue::Table(_) => {
                let Some(mut entry) = section.enter(list, span.clone(), table) else { continue };
                let hash = entry.parsed("hash", digest);
                let agent = entry.text("agent");
                let expires = entry.time("expires");
                entry.end();
                match hash {
                    Some(digest) => Ok(KeyConfig { digest, agent, expires }),
                    None => Err(
                        "a key's table holds `hash` and, if wanted, `agent` (the one it opens) and `expires` (a date)"
                            .to_owned(),
                    ),
                }
            }
            _ => Err(digest("").err().unwrap_or_default()),
        };
        match key {
            Ok(key) => keys.push(key),
            Err(why) => section.fault(span, list, &why),
        }
    }
    keys
}

/// The digest in `sha256:…`.
fn digest(text: &str) -> Result<[u8; 32], String> {
    let wrong =
        || "not a key's digest; make a key with `hostelry keys new TENANT` and put the line it prints here".to_owned();
    let digits =
        text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii()).ok_or_else(wrong)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}
