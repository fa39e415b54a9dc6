//! JSON that comes from a guest as text: checked and made compact, so that it can stand in a frame as it is.

use serde_json::Value;

/// `text` as a compact JSON object: empty text is `{}`, and a value that is no object stands in `{"value": …}`.
pub fn object(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok("{}".to_owned());
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let object = match value {
        object @ Value::Object(_) => object,
        other => serde_json::json!({ "value": other }),
    };
    Ok(object.to_string())
}

/// Whether `text` is one JSON value.
pub fn value(text: &str) -> Result<(), String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| format!("not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_becomes_a_compact_object_or_says_why_not() {
        assert_eq!(object(" "), Ok("{}".to_owned()));
        assert_eq!(object("{ \"b\": 1,\n \"a\": 2 }"), Ok(r#"{"b":1,"a":2}"#.to_owned()), "order is kept");
        assert_eq!(object("[1]"), Ok(r#"{"value":[1]}"#.to_owned()));
        assert!(object("{").unwrap_err().starts_with("not JSON"));
        assert!(object(&"[".repeat(100_000)).is_err(), "depth is bounded");
        assert!(object("1e999").is_err(), "a number that is none");
        assert_eq!(value("[1]"), Ok(()));
    }
}
