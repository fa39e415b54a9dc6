//! The cases of `tests/cases`, against hosts that are set up as they ask: one test for each protocol and each set-up.
//!
//! What the runner does is in the package `conformance`; it knows nothing of this host.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use conformance::{
    case::{self, Case, Protocol, Setup as Asked},
    rules::Rules,
    run::{Outcome, Target, run},
};

use super::support::{
    guests,
    host::{Host, Setup},
};

/// The key of the set-up `keys`; see its file.
const KEY: &str = "the-key";

/// How late things may be on a machine that does much else. That they come at all, in order and not too early, does
/// not depend on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The numbers of the sample of cases that the project was handed.
const SAMPLE: &str = "L1 L2 L3 L4 L7 L8 L10 L14 L15 L16 L17 L18 L19 L20 L21 L23 L25 L26 L27 L28 L30 L31 L32 L33 L34 L35 \
                      L36 L39 L42 L43 L45 L47 L49 L51 L52 L55 L57 L59 L60 M1 M2 M3 M4 M5 M7 M8 M9 M10 M13 M14 M15 M16 \
                      M19 M20 M21 M22 M23 M25 M27 M29 M31 M32 M34 M35 M37 M38 M40 M41 M42 M44 M48 M50";

/// Where the tests stand that a case names.
const TESTS: &[&str] = &[
    include_str!("conformance.rs"),
    include_str!("hostile_clients.rs"),
    include_str!("hostile_clients/slow_readers.rs"),
    include_str!("hostile_clients/websocket.rs"),
    include_str!("hot_reload/arrivals.rs"),
    include_str!("lingzhu.rs"),
    include_str!("mythra.rs"),
];

/// Runs the cases of a set-up against a host that is set up so.
async fn hold(setup: &str, protocol: Protocol) {
    let mut cases = case::all().unwrap();
    cases.retain(|case| case.protocol() == protocol && (case.always || case.setup == setup));
    cases.retain(|case| case.test.is_none());
    let asked = Asked::named(setup).unwrap();
    let host = start(asked, &cases).await;
    let target = Target {
        lingzhu: Some(host.lingzhu("{agent}")),
        mythra: Some(host.mythra("{agent}")),
        key: (setup == "keys").then(|| KEY.to_owned()),
        patience: PATIENCE,
        rules: Arc::new(Rules::default()),
    };
    let rows = run(&cases, &target, &[setup]).await;
    let wrong: Vec<_> = rows.iter().filter(|row| row.outcome != Outcome::Passed).map(ToString::to_string).collect();
    assert!(wrong.is_empty(), "{} of {} cases do not hold:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert_eq!(host.readyz().await["ready"], true);
    for key in [KEY, "key-of-mute", "another-tenants-key"] {
        assert!(!host.log().contains(key), "the log holds a key: {key}");
    }
}

/// A host with the agents that these cases are about.
async fn start(asked: &Asked, cases: &[Case]) -> Host {
    let agents: BTreeSet<_> = cases.iter().map(|case| case.agent.as_str()).filter(|agent| *agent != "nobody").collect();
    let mut setup = Setup::serving(&agents.into_iter().collect::<Vec<_>>()).config(asked.config);
    for (name, text) in asked.beside {
        setup = setup.plugin(name, text.as_bytes());
    }
    setup.start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_lingzhu_hold() {
    hold("plain", Protocol::Lingzhu).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_lingzhu_with_short_times_and_small_bounds_hold() {
    hold("strict", Protocol::Lingzhu).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_mythra_hold() {
    hold("plain", Protocol::Mythra).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_of_mythra_with_short_times_and_small_bounds_hold() {
    hold("strict", Protocol::Mythra).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_about_keys_hold_over_lingzhu() {
    hold("keys", Protocol::Lingzhu).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cases_about_keys_hold_over_mythra() {
    hold("keys", Protocol::Mythra).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_case_about_rates_holds() {
    hold("rate", Protocol::Lingzhu).await;
}

#[test]
fn every_case_of_the_sample_is_there() {
    let cases = case::all().unwrap();
    let missing: Vec<_> =
        SAMPLE.split_whitespace().filter(|number| cases.iter().all(|case| case.number != **number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_test_that_a_case_names_is_there() {
    for case in case::all().unwrap() {
        if let Some(test) = &case.test {
            let signature = format!("async fn {test}()");
            assert!(TESTS.iter().any(|text| text.contains(&signature)), "{}: {test}", case.number);
        }
    }
}

#[test]
fn every_set_up_is_one_that_the_tests_start() {
    for asked in Asked::all() {
        let started = format!("hold(\"{}\",", asked.name);
        assert!(include_str!("conformance.rs").contains(&started), "{}", asked.name);
    }
}

#[tokio::test]
async fn an_empty_key_in_the_configuration_refuses_to_start() {
    let dir = tempfile::TempDir::new().unwrap();
    for keys in ["[\"\"]", "[\"sha256:\"]", "[{ hash = \"\" }]"] {
        let text = format!("[tenants.default]\nkeys = {keys}\n");
        std::fs::write(dir.path().join("hostelry.toml"), text).unwrap();
        let args = ["serve", "--listen", "127.0.0.1:0"];
        let ran = tokio::time::timeout(super::support::host::SOON, Host::program(dir.path()).args(args).output());
        let output = ran.await.expect("it serves").unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{keys}: {said}");
        assert!(said.contains("tenants.default.keys"), "{keys}: {said}");
    }
}

#[test]
fn the_guests_that_cases_name_are_built() {
    for case in case::all().unwrap() {
        if case.agent != "nobody" {
            assert!(guests::path(&case.agent).exists(), "{}", case.agent);
        }
    }
}
