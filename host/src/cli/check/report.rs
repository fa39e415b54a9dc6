//! How findings are said: as text in two columns for a person, as one JSON object for a script. Decides nothing.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{
    End, Findings, Trial,
    page::{DIM, Page, packages},
    trial,
};
use crate::text;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The packages that the groups of imports begin with.
const CONTRACT: &str = "hostelry:agent/";
const WASI: &str = "wasi:";
const WASI_ONE: &str = "wasi_snapshot_preview1";

/// A component's imports by who has them.
struct Imports<'a> {
    contract: Vec<&'a str>,
    wasi: Vec<&'a str>,
    other: Vec<&'a str>,
}

impl Findings {
    fn imports(&self) -> Imports<'_> {
        let all = self.anatomy.imports.iter().map(String::as_str);
        let (contract, rest): (Vec<_>, Vec<_>) = all.partition(|name| name.starts_with(CONTRACT));
        let (wasi, other) = rest.into_iter().partition(|name| name.starts_with(WASI) || *name == WASI_ONE);
        Imports { contract, wasi, other }
    }

    /// One JSON object; a script can rely on every key being there.
    pub(super) fn json(&self) -> Value {
        let imports = self.imports();
        let reasons: Vec<Value> =
            self.reasons.iter().map(|reason| json!({ "reason": reason.what, "hint": reason.hint })).collect();
        let beside = self.beside.as_ref().map(|beside| {
            let faults: Vec<String> = beside.faults.iter().map(|fault| text::visible(fault)).collect();
            json!({ "file": text::visible(&beside.name), "faults": faults })
        });
        json!({
            "file": text::visible(&self.file),
            "fits": self.reasons.is_empty(),
            "reasons": reasons,
            "size": self.size,
            "version": self.version,
            "agent": {
                "tenant": text::visible(&self.id.tenant),
                "name": text::visible(&self.id.agent),
                "valid_name": self.rename.is_none(),
                "place": text::visible(&self.place.display().to_string()),
            },
            "exports": self.anatomy.exports,
            "imports": { "contract": imports.contract, "wasi": imports.wasi, "other": imports.other },
            "memory": {
                "declared": self.anatomy.memory,
                "turn": self.trial.as_ref().map(|trial| trial.memory),
                "allowed": self.memory_allowed,
            },
            "tools": self.tools,
            "grants": {
                "named": self.grants.named,
                "missing": self.grants.missing,
                "toml": (!self.grants.lines.is_empty()).then(|| self.grants.lines.join("\n")),
            },
            "trial": self.trial.as_ref().map(trial_json),
            "beside": beside,
            "metadata": {
                "name": self.anatomy.name,
                "version": self.anatomy.version,
                "authors": self.anatomy.authors,
                "description": self.anatomy.description,
                "licenses": self.anatomy.licenses,
                "languages": self.anatomy.languages,
                "made_with": self.anatomy.made_with,
            },
        })
    }

    /// Text for a terminal.
    pub(super) fn text(&self) -> String {
        let mut page = Page::default();
        let file = text::visible(&self.file);
        let failed = self.trial.as_ref().is_some_and(|trial| matches!(trial.end, End::Failed(..)));
        if self.reasons.is_empty() && failed {
            page.line(&format!("{file} {GOOD}fits{GOOD:#}, but {BAD}failed{BAD:#} a trial turn"));
        } else if self.reasons.is_empty() {
            page.line(&format!("{file} {GOOD}fits{GOOD:#}"));
        } else {
            page.line(&format!("{file} {BAD}does not fit{BAD:#}"));
        }
        for reason in &self.reasons {
            page.line("");
            page.line(&format!("  {}", reason.what));
            if let Some(hint) = &reason.hint {
                page.line(&format!("  {DIM}hint:{DIM:#} {hint}"));
            }
        }
        page.line("");
        self.agent(&mut page);
        self.contents(&mut page);
        self.origin(&mut page);
        page.text
    }

    fn agent(&self, page: &mut Page) {
        let (name, tenant) = (text::visible(&self.id.agent), text::visible(&self.id.tenant));
        let place = text::visible(&self.place.display().to_string());
        match &self.rename {
            None => page.row("agent", &[format!("{name} of tenant {tenant}, once it is {place}")]),
            Some(better) => page.row(
                "agent",
                &[
                    format!("none yet: no agent can be called `{name}`"),
                    format!("{better} of tenant {tenant}, once it is {place}"),
                ],
            ),
        }
        let beside = match &self.beside {
            None => "no file, so it may do all that its tenant may".to_owned(),
            Some(beside) => {
                let name = text::visible(&beside.name);
                match beside.faults.len() {
                    0 => format!("{name}, which is good"),
                    1 => format!("{name}, which has a fault"),
                    n => format!("{name}, which has {n} faults"),
                }
            }
        };
        page.row("beside it", &[beside]);
        if self.anatomy.imports.iter().any(|name| name.starts_with("hostelry:agent/host@")) {
            let tools = if self.tools.is_empty() { vec!["none".to_owned()] } else { self.tools.clone() };
            page.names("may call", "", &tools);
            page.names("names", "", &self.grants.named);
        }
        page.row("to be granted", &self.grants.lines);
        page.row("a trial turn", &self.trial.as_ref().map(trial_lines).unwrap_or_default());
    }

    fn contents(&self, page: &mut Page) {
        page.row("size", &[size(self.size)]);
        let turn = self.trial.as_ref().map(|trial| format!("{} in a trial turn, ", size(trial.memory)));
        let (begin, allowed) = (size(self.anatomy.memory), size(self.memory_allowed));
        page.row("memory", &[format!("{begin} to begin with, {}{allowed} allowed", turn.unwrap_or_default())]);
        let version: Vec<String> = self.version.iter().map(|version| format!("sha256:{version}")).collect();
        page.row("version", &version);
        page.row("exports", &self.anatomy.exports);
        let imports = self.imports();
        for (label, names) in
            [("from contract", imports.contract), ("from WASI", imports.wasi), ("from elsewhere", imports.other)]
        {
            let mut label = label;
            for (package, interfaces) in packages(&names) {
                page.names(label, &package, &interfaces);
                label = "";
            }
        }
    }

    fn origin(&self, page: &mut Page) {
        let list = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>();
        page.names("language", "", &list(&self.anatomy.languages));
        page.row("made with", &list(&self.anatomy.made_with));
        let known = &self.anatomy;
        for (label, text) in [
            ("calls itself", &known.name),
            ("its version", &known.version),
            ("by", &known.authors),
            ("licence", &known.licenses),
            ("says of itself", &known.description),
        ] {
            page.row(label, text.as_slice());
        }
    }
}

fn trial_json(trial: &Trial) -> Value {
    let (outcome, why, backtrace) = match &trial.end {
        End::Answered => ("answered", None, [].as_slice()),
        End::Said(said) => ("said", Some(said), [].as_slice()),
        End::NotStarted(why) => ("not-started", Some(why), [].as_slice()),
        End::Failed(why, backtrace) => ("failed", Some(why), backtrace.as_slice()),
    };
    json!({
        "said": trial::SAID,
        "outcome": outcome,
        "error": why.map(|why| text::visible(why)),
        "backtrace": backtrace,
        "events": trial.events,
        "tools": trial.tools.iter().map(|tool| text::visible(tool)).collect::<Vec<_>>(),
        "first_event_ms": trial.first.map(|first| first.as_secs_f64() * 1000.0),
        "took_ms": trial.took.as_secs_f64() * 1000.0,
        "cpu_ms": trial.cpu.as_secs_f64() * 1000.0,
    })
}

fn trial_lines(trial: &Trial) -> Vec<String> {
    let end = match &trial.end {
        End::Answered => "was answered".to_owned(),
        End::Said(said) => format!("was answered by the error {:?}", text::head(said, 256)),
        End::NotStarted(why) | End::Failed(why, _) => format!("failed: {}", text::visible(why)),
    };
    let first = trial.first.map(|first| format!(", first words after {first:.1?}")).unwrap_or_default();
    let took = format!("{} events in {:.1?}{first}, {:.1?} of CPU time", trial.events, trial.took, trial.cpu);
    let mut lines = vec![format!("{:?} {end}", trial::SAID), took];
    if let End::Failed(_, backtrace) = &trial.end {
        lines.extend(backtrace.iter().take(8).map(|frame| format!("  at {frame}")));
    }
    lines
}

fn size(bytes: u64) -> String {
    bytesize::ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use super::*;
    use crate::{
        cli::check::{Anatomy, Beside, Grants, Reason},
        ids::AgentId,
    };

    fn findings() -> Findings {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Findings {
            file: "target/echo.wasm".to_owned(),
            reasons: Vec::new(),
            size: 78_000,
            version: Some("0f".repeat(32)),
            id: AgentId { tenant: "default".to_owned(), agent: "echo".to_owned() },
            rename: None,
            place: PathBuf::from("plugins/echo.wasm"),
            anatomy: Anatomy {
                exports: names(&["hostelry:agent/handler@0.1.0"]),
                imports: names(&[
                    "hostelry:agent/types@0.1.0",
                    "wasi:io/error@0.2.6",
                    "wasi:cli/exit@0.2.6",
                    "hostelry:agent/host@0.1.0",
                    "wasi:io/poll@0.2.6",
                ]),
                memory: 1_114_112,
                languages: ["Rust".to_owned()].into(),
                ..Anatomy::default()
            },
            memory_allowed: 64 * 1024 * 1024,
            tools: names(&["take_photo"]),
            beside: None,
            trial: Some(Trial {
                end: End::Answered,
                took: Duration::from_micros(1500),
                first: Some(Duration::from_millis(1)),
                cpu: Duration::from_micros(800),
                memory: 2 * 1024 * 1024,
                events: 3,
                tools: Vec::new(),
            }),
            grants: Grants {
                named: names(&["device/take_photo", "workspace/ReadFile"]),
                missing: names(&["workspace/ReadFile"]),
                lines: names(&["[tenants.default]", "tools = [\"device/*\", \"workspace/ReadFile\"]"]),
            },
        }
    }

    fn plain(findings: &Findings) -> String {
        anstream::adapter::strip_str(&findings.text()).to_string()
    }

    #[test]
    fn what_fits_is_said_in_aligned_columns() {
        let digest = "0f".repeat(32);
        let text = format!(
            "target/echo.wasm fits\n\n  \
             agent           echo of tenant default, once it is plugins/echo.wasm\n  \
             beside it       no file, so it may do all that its tenant may\n  \
             may call        take_photo\n  \
             names           device/take_photo, workspace/ReadFile\n  \
             to be granted   [tenants.default]\n                  \
             tools = [\"device/*\", \"workspace/ReadFile\"]\n  \
             a trial turn    \"hello\" was answered\n                  \
             3 events in 1.5ms, first words after 1.0ms, 800.0µs of CPU time\n  \
             size            76.2 KiB\n  \
             memory          1.1 MiB to begin with, 2.0 MiB in a trial turn, 64.0 MiB allowed\n  \
             version         sha256:{digest}\n  \
             exports         hostelry:agent/handler@0.1.0\n  \
             from contract   hostelry:agent@0.1.0  types, host\n  \
             from WASI       wasi:io@0.2.6  error, poll\n                  \
             wasi:cli@0.2.6  exit\n  \
             language        Rust\n"
        );
        assert_eq!(plain(&findings()), text);
    }

    #[test]
    fn what_does_not_fit_says_every_reason_first() {
        let mut findings = findings();
        findings.reasons = vec![Reason::new("it is wrong; hint: mend it"), Reason::new("echo.toml:1: no")];
        findings.beside = Some(Beside { name: "echo.toml".to_owned(), faults: vec!["echo.toml:1: no".to_owned()] });
        let text = plain(&findings);
        let head = "target/echo.wasm does not fit\n\n  it is wrong\n  hint: mend it\n\n  echo.toml:1: no\n\n  agent ";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("echo.toml, which has a fault"), "{text}");
    }

    #[test]
    fn a_script_reads_the_same_as_a_person() {
        let json = findings().json();
        assert_eq!(json["fits"], true);
        assert_eq!(
            json["imports"]["wasi"],
            json!(["wasi:io/error@0.2.6", "wasi:cli/exit@0.2.6", "wasi:io/poll@0.2.6"])
        );
        assert_eq!(json["imports"]["other"], json!([]));
        assert_eq!(json["memory"], json!({ "declared": 1_114_112, "turn": 2_097_152, "allowed": 67_108_864 }));
        assert_eq!(json["agent"]["place"], "plugins/echo.wasm");
        assert_eq!(json["beside"], Value::Null);
    }
}
