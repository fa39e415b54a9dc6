//! Opens the navigation to "P", by car; the kind of way is a number here, where the glasses want text.

use test_guests::{Request, call};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    call("take_navigation", r#"{"action":"open","poi_name":"P","navi_type":0}"#);
    Ok(())
}
