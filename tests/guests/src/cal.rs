//! Writes "T" into the calendar.

use test_guests::{Request, call};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    call(
        "control_calendar",
        r#"{"action":"create","title":"T","start_time":"2026-03-02 10:00","end_time":"2026-03-02 10:30"}"#,
    );
    Ok(())
}
