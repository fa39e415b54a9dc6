//! What a tool is called, what it does, and the JSON Schema that its arguments are checked against.

use jsonschema::{Validator, error::ValidationErrorKind};
use serde_json::Value;

/// The most of an agent's own words that an error repeats, in bytes.
const SHOWN_BYTES_MAX: usize = 256;

/// One tool as it is shown to an agent.
#[derive(Debug)]
pub struct ToolSpec {
    /// Its name, as models take it.
    pub name: &'static str,
    /// What it does, in words for a model.
    pub description: &'static str,
    /// The JSON Schema of its arguments, as text.
    pub parameters: &'static str,
}

/// A schema that is ready to check with.
#[derive(Debug)]
pub struct Schema {
    validator: Option<Validator>,
}

impl Schema {
    /// The schema of a tool.
    pub fn new(spec: &ToolSpec) -> Self {
        let schema = serde_json::from_str::<Value>(spec.parameters).ok();
        // A test sees to it that every tool's schema can be read; one that cannot would refuse every call.
        Self { validator: schema.and_then(|schema| jsonschema::validator_for(&schema).ok()) }
    }

    /// Whether the schema could be read.
    pub fn is_sound(&self) -> bool {
        self.validator.is_some()
    }

    /// Checks arguments; says which is wrong, and how.
    pub fn check(&self, args: &Value) -> Result<(), String> {
        let Some(validator) = &self.validator else { return Err("args: the tool's schema cannot be read".to_owned()) };
        let Some(error) = validator.iter_errors(args).next() else { return Ok(()) };
        let at = error.instance_path().to_string();
        let at = at.trim_start_matches('/');
        Err(match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("{}: is required", property.as_str().unwrap_or_default())
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                format!("{}: there is no such argument", shown(&unexpected.join(", ")))
            }
            _ => {
                let argument = if at.is_empty() { "args" } else { at };
                // Masked: the argument's own value may be long, and the agent knows it.
                format!("{argument}: {}", shown(&error.masked().to_string()))
            }
        })
    }
}

/// What of an agent's own words stands in an error.
fn shown(words: &str) -> String {
    crate::text::visible(crate::text::head(words, SHOWN_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrong_argument_is_named() {
        let spec = ToolSpec {
            name: "x",
            description: "",
            parameters: r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["c"]}},
                "required":["a"],"additionalProperties":false}"#,
        };
        let schema = Schema::new(&spec);
        assert_eq!(schema.check(&json!({ "a": "x" })), Ok(()));
        assert_eq!(schema.check(&json!({})), Err("a: is required".to_owned()));
        assert_eq!(schema.check(&json!({ "a": "x", "z": 1 })), Err("z: there is no such argument".to_owned()));
        assert_eq!(schema.check(&json!({ "a": 1 })), Err("a: value is not of type \"string\"".to_owned()));
        assert!(schema.check(&json!({ "a": "x", "\n".repeat(1000): 1 })).unwrap_err().len() < 600);
        assert!(schema.check(&json!({ "a": "x", "b": "d" })).unwrap_err().starts_with("b: "));
        assert!(schema.check(&json!([])).unwrap_err().starts_with("args: "));
    }
}
