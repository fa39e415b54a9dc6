//! Tests of what is counted, and of how it is told.

use super::*;
use crate::ids::AgentId;

fn record(tenant: &str, cause: Cause) -> TurnRecord {
    TurnRecord {
        id: "t".to_owned(),
        agent: AgentId { tenant: tenant.to_owned(), agent: "echo".to_owned() },
        version: "v".to_owned(),
        protocol: "mythra",
        at: jiff::Timestamp::UNIX_EPOCH,
        took: Duration::from_millis(7),
        cpu: Duration::from_millis(3),
        memory: 1,
        events: 1,
        output: 1,
        tool_calls: 0,
        cause,
    }
}

#[test]
fn what_is_counted_is_told_in_the_form_that_prometheus_reads() {
    let metrics = Metrics::new();
    let running = metrics.turn_began("acme");
    metrics.turn_ended(&record("acme", Cause::Limit(Limit::CpuTime)), &[Limit::Events, Limit::CpuTime]);
    metrics.limit(Limit::Connections);
    let text = metrics.encode();
    for line in [
        r#"hostelry_turns_total{tenant="acme",protocol="mythra",outcome="limit"} 1"#,
        r#"hostelry_turns_in_flight{tenant="acme"} 1"#,
        r#"hostelry_turn_duration_seconds_bucket{le="0.01",protocol="mythra"} 1"#,
        r#"hostelry_limit_hits_total{limit="cpu-time",tenant="acme"} 1"#,
        r#"hostelry_limit_hits_total{limit="events",tenant="acme"} 1"#,
        r#"hostelry_limit_hits_total{limit="connections",tenant=""} 1"#,
        r#"hostelry_cpu_seconds_total{tenant="acme"} 0.003"#,
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    drop(running);
    assert!(metrics.encode().contains(r#"hostelry_turns_in_flight{tenant="acme"} 0"#));
    assert_eq!((metrics.hits(Limit::CpuTime), metrics.hits(Limit::Connections)), (1, 1));
    assert_eq!((metrics.hits_of(Limit::CpuTime, "acme"), metrics.hits_of(Limit::CpuTime, "beta")), (1, 0));
    assert_eq!((metrics.hits_of_nobody(Limit::Connections), metrics.hits_of_nobody(Limit::Events)), (1, 0));
    assert_eq!((metrics.running("acme"), metrics.cpu("acme")), (0, Duration::from_millis(3)));
}

#[test]
fn tenants_without_end_do_not_make_labels_without_end() {
    let metrics = Metrics::new();
    for n in 0..TENANTS_MAX + 10 {
        metrics.turn_ended(&record(&format!("t{n}"), Cause::Answered), &[]);
    }
    let text = metrics.encode();
    assert_eq!(text.lines().filter(|line| line.starts_with("hostelry_turns_total{")).count(), TENANTS_MAX + 1);
    assert!(text.contains(r#"tenant="(others)",protocol="mythra",outcome="answered"} 10"#), "{text}");
}
