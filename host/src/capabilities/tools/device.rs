//! Group `device`: the commands that the wearer's glasses take, as the Lingzhu platform's protocol document lists them.
//! No others exist.

use jiff::civil::DateTime;
use serde_json::Value;

use super::schema::ToolSpec;
use crate::script::DeviceCommand;

/// The form of a time, as the document has it.
const TIME: &str = "%Y-%m-%d %H:%M";

/// The longest text of a field, in bytes: a title or the name of a place, with room.
const FIELD_BYTES_MAX: usize = 1024;

/// The tools.
pub const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "take_photo",
        description: "Take a photo with the wearer's glasses. The photo arrives as the next turn's image.",
        parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "take_navigation",
        description: "Open navigation to a place on the wearer's glasses, or close it.",
        parameters: r#"{"type":"object","properties":{
            "action":{"type":"string","enum":["open","close"],"description":"open (default) or close"},
            "poi_name":{"type":"string","minLength":1,"description":"the place to go to; needed to open"},
            "navi_type":{"enum":["0","1","2",0,1,2],"description":"0 drive, 1 walk, 2 ride"}
            },"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "control_calendar",
        description: "Put an entry into the wearer's calendar.",
        parameters: r#"{"type":"object","properties":{
            "action":{"type":"string","enum":["create"],"description":"create (default)"},
            "title":{"type":"string","minLength":1,"description":"what the entry is called"},
            "start_time":{"type":"string","description":"YYYY-MM-DD HH:mm, the wearer's time"},
            "end_time":{"type":"string","description":"YYYY-MM-DD HH:mm, the wearer's time"}
            },"required":["title","start_time"],"additionalProperties":false}"#,
    },
    ToolSpec {
        name: "notify_agent_off",
        description: "Leave the agent: the glasses go back to where they were.",
        parameters: r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    },
];

/// The command of a call whose arguments fit the tool's schema; says which argument is wrong where a schema cannot.
pub fn command(name: &str, args: &Value) -> Result<DeviceCommand, String> {
    match name {
        "take_photo" => Ok(DeviceCommand { command: "take_photo", fields: Vec::new() }),
        "notify_agent_off" => Ok(DeviceCommand { command: "notify_agent_off", fields: Vec::new() }),
        "take_navigation" => navigation(args),
        "control_calendar" => calendar(args),
        other => Err(format!("there is no device command {other}")),
    }
}

fn navigation(args: &Value) -> Result<DeviceCommand, String> {
    let action = field(args, "action")?.unwrap_or_else(|| "open".to_owned());
    let place = field(args, "poi_name")?;
    if action == "open" && place.as_deref().is_none_or(|place| place.trim().is_empty()) {
        return Err("poi_name: is required to open navigation".to_owned());
    }
    let mut fields = vec![("action", action)];
    fields.extend(place.map(|place| ("poi_name", place)));
    fields.extend(field(args, "navi_type")?.map(|kind| ("navi_type", kind)));
    Ok(DeviceCommand { command: "take_navigation", fields })
}

fn calendar(args: &Value) -> Result<DeviceCommand, String> {
    let action = field(args, "action")?.unwrap_or_else(|| "create".to_owned());
    let title = field(args, "title")?.unwrap_or_default();
    if title.trim().is_empty() {
        return Err("title: is empty".to_owned());
    }
    let (start, starts) = time(args, "start_time")?.ok_or("start_time: is required")?;
    let end = time(args, "end_time")?;
    let mut fields = vec![("action", action), ("title", title), ("start_time", starts)];
    if let Some((end, ends)) = end {
        if end < start {
            return Err("end_time: is before start_time".to_owned());
        }
        fields.push(("end_time", ends));
    }
    Ok(DeviceCommand { command: "control_calendar", fields })
}

/// A text, or a number as the text of its digits (`0.0` is 0).
fn field(args: &Value, name: &str) -> Result<Option<String>, String> {
    let text = match args.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
        Some(_) => return Err(format!("{name}: is neither text nor a number")),
    };
    if text.len() > FIELD_BYTES_MAX {
        return Err(format!("{name}: is longer than {FIELD_BYTES_MAX} bytes"));
    }
    Ok(Some(text))
}

/// A time, and its text in the document's form.
fn time(args: &Value, name: &str) -> Result<Option<(DateTime, String)>, String> {
    let Some(text) = field(args, name)? else { return Ok(None) };
    let time = DateTime::strptime(TIME, &text).ok().filter(|time| time.strftime(TIME).to_string() == text);
    match time {
        Some(time) => Ok(Some((time, text))),
        None => Err(format!("{name}: is no time; write it as YYYY-MM-DD HH:mm")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capabilities::tools::schema::Schema;

    fn fields(name: &str, args: &Value) -> Result<Vec<(&'static str, String)>, String> {
        command(name, args).map(|command| command.fields)
    }

    fn pairs(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    #[test]
    fn fields_stand_in_the_documents_order_and_numbers_become_text() {
        assert_eq!(
            fields("take_navigation", &json!({ "navi_type": 2, "poi_name": "P" })),
            Ok(pairs(&[("action", "open"), ("poi_name", "P"), ("navi_type", "2")]))
        );
        assert_eq!(
            fields("take_navigation", &json!({ "navi_type": 0.0, "poi_name": "P" })),
            Ok(pairs(&[("action", "open"), ("poi_name", "P"), ("navi_type", "0")]))
        );
        assert_eq!(fields("take_navigation", &json!({ "action": "close" })), Ok(pairs(&[("action", "close")])));
        let times = json!({ "end_time": "2026-03-02 10:30", "start_time": "2026-03-02 10:00", "title": "T" });
        let expected = [
            ("action", "create"),
            ("title", "T"),
            ("start_time", "2026-03-02 10:00"),
            ("end_time", "2026-03-02 10:30"),
        ];
        assert_eq!(fields("control_calendar", &times), Ok(pairs(&expected)));
    }

    #[test]
    fn the_schemas_refuse_what_the_document_does_not_have() {
        for (name, args, named) in [
            ("take_photo", json!({ "flash": true }), "flash"),
            ("take_navigation", json!({ "action": "pause" }), "action"),
            ("take_navigation", json!({ "poi_name": "P", "navi_type": 3 }), "navi_type"),
            ("take_navigation", json!({ "poi_name": 7 }), "poi_name"),
            (
                "control_calendar",
                json!({ "action": "delete", "title": "T", "start_time": "2026-03-02 10:00" }),
                "action",
            ),
            ("control_calendar", json!({ "title": "T" }), "start_time"),
        ] {
            let spec = TOOLS.iter().find(|spec| spec.name == name).unwrap();
            let why = Schema::new(spec).check(&args).unwrap_err();
            assert!(why.starts_with(named), "{name} {args}: {why}");
        }
        for spec in TOOLS {
            assert!(Schema::new(spec).is_sound(), "{}", spec.name);
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        for (name, args, named) in [
            ("take_navigation", json!({}), "poi_name"),
            ("take_navigation", json!({ "action": "open", "poi_name": " " }), "poi_name"),
            ("take_navigation", json!({ "poi_name": "x".repeat(1025) }), "poi_name"),
            ("control_calendar", json!({ "title": "T" }), "start_time"),
            ("control_calendar", json!({ "title": " ", "start_time": "2026-03-02 10:00" }), "title"),
            ("control_calendar", json!({ "title": "T", "start_time": "2026-02-30 10:00" }), "start_time"),
            ("control_calendar", json!({ "title": "T", "start_time": "2026-3-2 10:00" }), "start_time"),
            ("control_calendar", json!({ "title": "T", "start_time": "tomorrow" }), "start_time"),
            (
                "control_calendar",
                json!({ "title": "T", "start_time": "2026-03-02 10:00", "end_time": "2026-03-02 09:00" }),
                "end_time",
            ),
        ] {
            let why = fields(name, &args).unwrap_err();
            assert!(why.starts_with(named), "{name} {args}: {why}");
        }
    }
}
