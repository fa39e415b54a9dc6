//! `hostelry check`: says whether a component can be served here, why not, and what it asks for, with the same eyes as
//! `hostelry serve` and without running anything of it.
//!
//! What is in a file is read in `check/anatomy.rs`; how it is said is in `check/report.rs`.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;

use super::Exit;
use crate::{
    capabilities::tools::ToolBox,
    config::{self, AgentConfig, Config, Faults, TenantConfig},
    ids::{self, AgentId, DEFAULT_TENANT},
    runtime::{
        Engine, Unfit,
        compile::{self, Candidate},
    },
    text,
};

mod anatomy;
mod report;

pub(super) use anatomy::Anatomy;

/// The configuration that is read if it is there and none is named.
const CONFIG: &str = "hostelry.toml";

/// The largest file beside a component that is read: as `serve` has it.
const BESIDE_MAX: u64 = 64 * 1024;

/// What `check` takes.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The tenant that the agent would be of [default: default, or the only one there is]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// The configuration [default: hostelry.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Why a component cannot be served.
#[derive(Debug, PartialEq, Eq)]
struct Reason {
    /// What is wrong.
    what: String,
    /// What to do about it.
    hint: Option<String>,
}

impl Reason {
    /// A reason in the host's usual words, `… ; hint: …`.
    fn new(text: &str) -> Self {
        let text = text::visible(text);
        match text.split_once("; hint: ") {
            Some((what, hint)) => Self { what: what.to_owned(), hint: Some(hint.to_owned()) },
            None => Self { what: text, hint: None },
        }
    }
}

/// The file beside the component.
#[derive(Debug, PartialEq, Eq)]
struct Beside {
    name: String,
    faults: Vec<String>,
}

/// All that there is to say about a file.
#[derive(Debug)]
struct Findings {
    /// The file as it was named.
    file: String,
    /// Why it cannot be served; nothing if it can.
    reasons: Vec<Reason>,
    size: u64,
    /// The SHA-256 of the component; none if it was too large to be read.
    version: Option<String>,
    /// The agent that it would be.
    id: AgentId,
    /// The name that the file should have, if no agent can have the one it has.
    rename: Option<String>,
    /// Where it would be dropped.
    place: PathBuf,
    anatomy: Anatomy,
    /// How much memory a turn of it may use.
    memory_allowed: u64,
    /// The tools that it may call, a device's included.
    tools: Vec<String>,
    beside: Option<Beside>,
}

/// Checks a file, and prints what was found.
pub(super) fn run(args: &CheckArgs) -> Exit {
    let findings = match configure(args).and_then(|(config, tenant)| wait(look(&args.file, &config, &tenant))) {
        Ok(findings) => findings,
        Err(faults) => {
            for fault in &faults.0 {
                anstream::eprintln!("error: {}", text::visible(fault));
            }
            return Exit::Usage;
        }
    };
    if args.json {
        anstream::println!("{}", findings.json());
    } else {
        anstream::print!("{}", findings.text());
    }
    if findings.reasons.is_empty() { Exit::Clean } else { Exit::Failed }
}

/// Waits for what is found; compiling happens in a child of this program.
fn wait(found: impl Future<Output = Result<Findings, Faults>>) -> Result<Findings, Faults> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Faults(vec![format!("cannot start: {error}")]))?.block_on(found)
}

/// The configuration to check against, and the tenant's name.
fn configure(args: &CheckArgs) -> Result<(Config, String), Faults> {
    let config = match &args.config {
        Some(path) => config::read_file(path)?,
        None if Path::new(CONFIG).exists() => config::read_file(Path::new(CONFIG))?,
        None => Config::default(),
    };
    let only = config.tenants.keys().next().filter(|_| config.tenants.len() == 1);
    let tenant = match &args.tenant {
        Some(tenant) => tenant.as_str(),
        None => only.map_or(DEFAULT_TENANT, String::as_str),
    };
    if config.tenants.contains_key(tenant) {
        let tenant = tenant.to_owned();
        Ok((config, tenant))
    } else {
        let known: Vec<_> = config.tenants.keys().map(String::as_str).collect();
        let why = format!("there is no tenant `{tenant}`; name one with --tenant: {}", known.join(", "));
        Err(Faults(vec![why]))
    }
}

/// Looks at a file as it would stand in the folder of `tenant`.
async fn look(file: &Path, config: &Config, tenant: &str) -> Result<Findings, Faults> {
    let unreadable = |error: io::Error| Faults(vec![format!("cannot read {}: {error}", file.display())]);
    let no_tenant = || Faults(vec![format!("there is no tenant `{tenant}`")]);
    let entry = config.tenants.get(tenant).ok_or_else(no_tenant)?;
    let max = config.reload.max_size;
    let (size, bytes) = read(file, max).map_err(unreadable)?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (beside, own) = beside(file).map_err(unreadable)?;
    let limits = own.limits.as_ref().map_or_else(|| entry.limits.clone(), |asked| asked.within(&entry.limits));
    let folder = if tenant == DEFAULT_TENANT { config.plugins.clone() } else { config.plugins.join(tenant) };
    let rename = (!ids::is_name(&stem)).then(|| ids::better_name(&stem));
    let mut findings = Findings {
        file: file.display().to_string(),
        reasons: Vec::new(),
        size,
        version: bytes.as_deref().map(compile::version),
        place: folder.join(format!("{}.wasm", rename.as_ref().unwrap_or(&stem))),
        id: AgentId { tenant: tenant.to_owned(), agent: stem },
        rename,
        anatomy: bytes.as_deref().map(Anatomy::read).unwrap_or_default(),
        memory_allowed: limits.memory as u64,
        tools: tools(entry, &own),
        beside,
    };
    let reasons = match bytes {
        Some(bytes) => unfit(&findings, &bytes.into(), config, own).await?,
        None => vec![Reason::new(&format!(
            "the file is larger than {max} bytes; hint: take out what it does not need, such as debug sections, or \
             raise reload.max-size in hostelry.toml"
        ))],
    };
    findings.reasons = reasons;
    Ok(findings)
}

/// Everything that keeps a component from being served.
async fn unfit(
    findings: &Findings,
    bytes: &Arc<[u8]>,
    config: &Config,
    own: AgentConfig,
) -> Result<Vec<Reason>, Faults> {
    let mut reasons = Vec::new();
    let unfit = match fit(findings, bytes, config, own).await {
        Ok(()) => None,
        // Nothing is known of the file then.
        Err(Unfit::Host(why)) => return Err(Faults(vec![why])),
        Err(unfit) => Some(unfit),
    };
    reasons.extend(unfit.as_ref().map(|unfit| Reason::new(&unfit.to_string())));
    let (needs, allowed) = (findings.anatomy.memory, findings.memory_allowed);
    // Said as well where something else keeps the file from being served.
    if needs > allowed && unfit.is_some_and(|unfit| !matches!(unfit, Unfit::Memory { .. })) {
        reasons.push(Reason::new(&Unfit::Memory { needs, allowed }.to_string()));
    }
    let faults = findings.beside.iter().flat_map(|beside| &beside.faults);
    reasons.extend(faults.map(|fault| Reason::new(fault)));
    Ok(reasons)
}

/// Whether the host would take it.
async fn fit(findings: &Findings, bytes: &Arc<[u8]>, config: &Config, own: AgentConfig) -> Result<(), Unfit> {
    let memory = usize::try_from(findings.memory_allowed).unwrap_or(usize::MAX);
    // Before there is an engine: most that does not fit is seen at once.
    compile::look(bytes)?.within(memory)?;
    let engine =
        Engine::new(&lone(config)).map_err(|error| Unfit::Host(format!("cannot start the engine: {error:#}")))?;
    let candidate = Candidate {
        id: findings.id.clone(),
        bytes: Arc::clone(bytes),
        version: findings.version.clone().unwrap_or_default(),
        config: own,
        memory,
        compile: config.reload.compile,
    };
    compile::prepare(&engine, candidate).await.map(drop)
}

/// The same configuration for one turn at a time, so that the engine sets aside no room for a thousand.
fn lone(config: &Config) -> Config {
    let mut config = config.clone();
    config.server.concurrent_turns = 1;
    config
}

/// The names of the tools that an agent of this tenant may call.
fn tools(tenant: &TenantConfig, own: &AgentConfig) -> Vec<String> {
    ToolBox::new(tenant, own, true).list().into_iter().map(|tool| tool.name).collect()
}

/// A file's size and, unless that is more than `max`, what it holds.
fn read(path: &Path, max: u64) -> io::Result<(u64, Option<Vec<u8>>)> {
    // Looked at before it is opened: opening a pipe waits for whoever writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 <= max;
    Ok((if whole { bytes.len() as u64 } else { size }, whole.then_some(bytes)))
}

/// The file beside a component, if there is one, and what it says; nothing if it has faults.
fn beside(file: &Path) -> io::Result<(Option<Beside>, AgentConfig)> {
    let path = file.with_extension("toml");
    let bytes = match read(&path, BESIDE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, AgentConfig::default())),
        other => other?.1,
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (faults, own) = match bytes.map(String::from_utf8) {
        None => (vec![format!("{name}: larger than {BESIDE_MAX} bytes")], AgentConfig::default()),
        Some(Err(_)) => (vec![format!("{name}: not UTF-8")], AgentConfig::default()),
        Some(Ok(text)) => match AgentConfig::read(&text, &name) {
            Ok(own) => (Vec::new(), own),
            Err(faults) => (faults.0, AgentConfig::default()),
        },
    };
    Ok((Some(Beside { name, faults }), own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in a file of these bytes, with `toml` beside it.
    async fn found(bytes: &[u8], toml: Option<&str>) -> Findings {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("echo.wasm");
        std::fs::write(&file, bytes).unwrap();
        if let Some(toml) = toml {
            std::fs::write(folder.path().join("echo.toml"), toml).unwrap();
        }
        look(&file, &Config::default(), DEFAULT_TENANT).await.unwrap()
    }

    #[tokio::test]
    async fn a_core_module_is_refused_and_still_looked_at() {
        let text = "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)) (memory (export \"memory\") 17))";
        let findings = found(&wat::parse_str(text).unwrap(), None).await;
        assert!(findings.reasons[0].what.contains("core module"), "{findings:?}");
        assert!(findings.reasons[0].hint.as_ref().unwrap().contains("wasm32-wasip2"), "{findings:?}");
        assert_eq!(findings.anatomy.imports, ["wasi_snapshot_preview1"]);
        assert_eq!(findings.anatomy.exports, ["memory"]);
        assert_eq!(findings.anatomy.memory, 17 * 65536);
    }

    #[tokio::test]
    async fn a_truncated_file_is_incomplete_and_what_is_there_is_shown() {
        let whole = wat::parse_str("(component (import \"wasi:cli/exit@0.2.6\" (instance)) (core module (memory 1)))");
        let mut bytes = whole.unwrap();
        bytes.truncate(bytes.len() - 3);
        let findings = found(&bytes, None).await;
        assert!(findings.reasons[0].what.contains("incomplete"), "{findings:?}");
        assert_eq!(findings.anatomy.imports, ["wasi:cli/exit@0.2.6"]);
        assert_eq!(found(b"", None).await.reasons[0].what, "the file is empty");
        assert!(found(b"\x7fELF", None).await.reasons[0].hint.is_some());
    }

    #[tokio::test]
    async fn the_file_beside_a_component_is_checked_and_tightens() {
        let bytes = wat::parse_str("(module (memory 32))").unwrap();
        let findings = found(&bytes, Some("tools = [\"device/take_photo\"]\nlimits.memory = \"1MiB\"")).await;
        assert_eq!(findings.memory_allowed, 1024 * 1024);
        assert_eq!(findings.tools, ["take_photo"]);
        assert!(findings.reasons.iter().any(|reason| reason.what.contains("its memories begin with 2097152")));
        let findings = found(&bytes, Some("tols = []")).await;
        assert!(findings.reasons.iter().any(|reason| reason.what.contains("did you mean `tools`?")), "{findings:?}");
        assert_eq!(findings.beside.as_ref().map(|beside| beside.faults.len()), Some(1));
    }

    #[test]
    fn a_tenant_that_is_not_there_is_a_matter_of_usage() {
        let args = |tenant: Option<&str>| CheckArgs {
            file: PathBuf::from("x.wasm"),
            json: false,
            tenant: tenant.map(str::to_owned),
            config: None,
        };
        assert_eq!(configure(&args(None)).unwrap().1, DEFAULT_TENANT);
        assert!(configure(&args(Some("acme"))).unwrap_err().0[0].contains("--tenant: default"));
    }

    #[tokio::test]
    async fn what_is_no_file_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let faults = look(folder.path(), &Config::default(), DEFAULT_TENANT).await.unwrap_err();
        assert!(faults.0[0].contains("no regular file"), "{faults}");
        assert!(look(&folder.path().join("x.wasm"), &Config::default(), DEFAULT_TENANT).await.is_err());
    }
}
