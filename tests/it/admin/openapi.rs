//! The document that tells what is answered, held against what is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{
    admin::{Question, Told, get},
    host::Setup,
    turn::ask,
};

/// The document with what it says of each answer.
struct Document(Value);

impl Document {
    /// Checks an answer against what the document says of it.
    #[track_caller]
    fn check(&self, path: &str, told: &Told) {
        let responses = &self.0["paths"][path]["get"]["responses"];
        let response = &responses[told.status.as_str()];
        assert!(response.is_object(), "{path}: {} is not in {responses}", told.status);
        let media = told.content_type();
        let content = response["content"].as_object().unwrap();
        let essence = |media: &str| media.split(';').next().unwrap().trim().to_owned();
        let described = content.iter().find(|(name, _)| essence(name) == essence(media));
        let (_, described) = described.unwrap_or_else(|| panic!("{path}: {media} is not in {response}"));
        if essence(media) != "application/json" {
            assert_eq!(described["schema"]["type"], "string", "{path}");
            return;
        }
        let mut schema = described["schema"].clone();
        schema["components"] = self.0["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<_> = validator.iter_errors(&told.json()).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{path}: {faults:#?}\n{}", told.text);
    }
}

/// Every reference within a document.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(array) => array.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let host = Setup::serving(&["puppet"]).plugin("broken.wasm", b"no component").plugin("lost.txt", b"").start().await;
    ask(&host, "puppet", "chat four").await;
    ask(&host, "puppet", "chat four\ntrap").await;
    let failures = get(&host, "/api/failures").await;
    let id = failures["failures"][0]["id"].as_str().unwrap().to_owned();
    let document = Document(get(&host, "/api/openapi.json").await);
    assert!(document.0["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document.0["openapi"]);
    let mut refs = Vec::new();
    references(&document.0, &mut refs);
    assert!(refs.len() > 20, "{refs:?}");
    for reference in refs {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.0.pointer(pointer).is_some(), "{reference} leads nowhere");
    }

    let values = BTreeMap::from([("tenant", "default"), ("agent", "puppet"), ("id", &*id)]);
    let paths = document.0["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 13);
    for path in paths.keys() {
        let with = |values: &BTreeMap<&str, &str>| {
            values.iter().fold(path.clone(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value))
        };
        let address = with(&values);
        assert!(!address.contains('{'), "{address}");
        let told = Question::new(&host, &address).ask().await;
        assert_eq!(told.status, 200, "{path}");
        document.check(path, &told);
        let led = Question::new(&host, &address).header("host", "evil.example").ask().await;
        assert_eq!(led.status, 403, "{path}");
        document.check(path, &led);
        if path.starts_with("/api/") {
            let bad = Question::new(&host, &format!("{address}?no-such-parameter=1")).ask().await;
            assert_eq!(bad.status, 400, "{path}");
            document.check(path, &bad);
        }
        if path.contains('{') {
            let nobody = BTreeMap::from([("tenant", "nobody"), ("agent", "nobody"), ("id", "nobodynobody")]);
            let missing = Question::new(&host, &with(&nobody)).ask().await;
            assert_eq!(missing.status, 404, "{path}");
            document.check(path, &missing);
        }
    }
    let csv = Question::new(&host, "/api/usage?format=csv").ask().await;
    document.check("/api/usage", &csv);
    let broken = Question::new(&host, "/api/agents/default/broken").ask().await;
    document.check("/api/agents/{tenant}/{agent}", &broken);
    let versions = Question::new(&host, "/api/agents/default/broken/versions").ask().await;
    document.check("/api/agents/{tenant}/{agent}/versions", &versions);
}

#[tokio::test]
async fn the_document_says_how_a_key_is_shown() {
    let digest = "0".repeat(64);
    let host = Setup::serving(&["echo"]).config(&format!("admin-keys = [\"sha256:{digest}\"]")).start().await;
    let refused = Question::new(&host, "/api/openapi.json").ask().await;
    assert_eq!(refused.status, 401);
    let open = Setup::serving(&["echo"]).start().await;
    let document = Document(get(&open, "/api/openapi.json").await);
    let scheme = &document.0["components"]["securitySchemes"]["key"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("bearer")));
    assert_eq!(document.0["security"], json!([{ "key": [] }]));
    assert_eq!(document.0["paths"]["/healthz"]["get"]["security"], json!([{}]));
    for path in document.0["paths"].as_object().unwrap().keys().filter(|path| *path != "/healthz") {
        let told = Question::new(&host, path).ask().await;
        assert_eq!(told.status, 401, "{path}");
        document.check(path, &told);
    }
}
