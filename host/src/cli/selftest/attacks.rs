//! Every attack there is, as cases for one configuration.

use super::{
    case::Case,
    ground::Group,
    settings::{self, Setting},
};
use crate::config::{Config, Limits};

mod budgets;
mod counts;
mod crowds;
mod fences;
mod files;
mod requests;
mod sockets;
mod space;
mod stores;
mod time;

/// All cases for a configuration: those of each group of tenants, and those of the server.
pub(super) fn all(config: &Config, groups: &[Group], descriptors: Option<u64>) -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let own = Own { index, group, settings: settings::of_tenants(group, config), config };
        cases.extend(time::of_tenant(&own));
        cases.extend(space::of_tenant(&own));
        cases.extend(counts::of_tenant(&own));
        cases.extend(stores::of_tenant(&own));
        cases.extend(crowds::of_tenant(&own));
        cases.extend(budgets::of_tenant(&own));
    }
    if let Some(group) = groups.first() {
        let own = Own { index: 0, group, settings: settings::of_server(config, descriptors), config };
        for case in [time::of_server(&own), fences::of_server(&own), stores::of_server(&own), files::of_server(&own)] {
            cases.extend(case);
        }
        for case in [requests::of_server(&own), sockets::of_server(&own), crowds::of_server(&own)] {
            cases.extend(case);
        }
    }
    cases
}

/// What cases are made of.
struct Own<'a> {
    index: usize,
    group: &'a Group,
    settings: Vec<Setting>,
    config: &'a Config,
}

impl Own<'_> {
    /// The setting of a limit, by its key's end where there are several.
    fn setting(&self, limit: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.limit == limit)
    }

    /// A case of this group.
    fn tenants(&self, case: Case) -> Case {
        case.in_group(self.index, self.group)
    }

    /// A case of the server, whose tenant has what this group's have, but for what would be reached before its bound.
    fn server(&self, case: Case) -> Case {
        let usual = Limits::default();
        case.standing_as(self.group).with(|tenant| {
            let limits = &mut tenant.limits;
            limits.events = limits.events.max(usual.events);
            limits.output = limits.output.max(usual.output);
            limits.tool_calls = limits.tool_calls.max(usual.tool_calls);
            limits.host_call = limits.host_call.max(usual.host_call);
        })
    }
}
