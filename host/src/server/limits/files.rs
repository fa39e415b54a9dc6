//! What is kept for conversations, and what may be dropped into the plugins folder.

use super::{FIXED, NOTHING, Row};
use crate::limit::Limit;

pub(super) const ROWS: [Row; 7] = [
    Row {
        limit: Limit::Workspace,
        key: FIXED,
        bounds: "the files of one session's workspace",
        why: "a project of notes: few enough to be listed in one answer, each half of what one host call may carry",
        guest: "`failed(…)` with the bounds",
        client: "the call's end",
        test: "tests/it/limits/kept.rs::a_file_that_is_too_large_is_not_written_and_the_bounds_are_named",
    },
    Row {
        limit: Limit::TenantFiles,
        key: "sessions.files-per-tenant",
        bounds: "bytes of all workspaces of one tenant",
        why: "one tenant's sessions must not fill the disk that all share",
        guest: "`failed(\"the workspaces of this tenant are full\")`",
        client: "the call's end",
        test: "tests/it/limits/budgets.rs::the_workspaces_of_a_tenant_are_bounded_together",
    },
    Row {
        limit: Limit::Sessions,
        key: "sessions.per-tenant",
        bounds: "sessions of one tenant",
        why: "a large customer's users of a week",
        guest: "the longest idle session's history is gone",
        client: NOTHING,
        test: "tests/it/limits/kept.rs::the_longest_idle_session_makes_room_for_a_new_one_and_no_other_tenants_does",
    },
    Row {
        limit: Limit::FileSize,
        key: "reload.max-size",
        bounds: "bytes of a component",
        why: "three times the largest language runtime seen, 17.6 MiB",
        guest: "the file is refused; the last good version goes on",
        client: NOTHING,
        test: "tests/it/hot_reload/faults.rs::a_file_that_is_larger_than_allowed_is_refused_by_name_of_the_limit",
    },
    Row {
        limit: Limit::Structure,
        key: FIXED,
        bounds: "a component's structure, multiplied out",
        why: "several times what any toolchain makes; a kilobyte beyond it can take minutes and gigabytes to compile",
        guest: "the file is refused before it is compiled; the last good version goes on",
        client: NOTHING,
        test: "tests/it/hostile/loading.rs::every_bomb_is_refused_in_words_and_counted_while_others_are_served",
    },
    Row {
        limit: Limit::Compile,
        key: "reload.compile-memory, reload.compile-cpu, reload.compile-time",
        bounds: "compiling one component, in a process of its own",
        why: "a large JavaScript runtime takes 0.4 GiB, the slowest one tried 14 s",
        guest: "the file is refused, and the same bytes at once when they come again; the last good version goes on",
        client: NOTHING,
        test: "tests/it/hostile/loading.rs::\
               what_kills_its_compiler_is_refused_at_once_when_it_comes_again_also_after_a_restart",
    },
    Row {
        limit: Limit::Agents,
        key: FIXED,
        bounds: "agents in the plugins folder",
        why: "each costs a look at every poll",
        guest: "those beyond a tenant's share, by name, are not taken",
        client: NOTHING,
        test: "tests/it/limits/kept.rs::agents_beyond_a_tenants_share_are_not_taken_and_nobody_elses_suffer",
    },
];
