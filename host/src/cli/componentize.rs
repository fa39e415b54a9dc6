//! `hostelry componentize`: makes a component of a core module, which is what compilers of C, Zig, Go and others put out.
//!
//! A module that does not say which world it is for gets the contract's; one that was built for WASI preview 1 gets the
//! adapter to WASI 0.2 that belongs to this host's engine. `wasm-tools component embed` and `new` do the same.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as PREVIEW1, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
};
use wasmparser::{ExternalKind, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use super::Exit;
use crate::{
    contract::{self, PACKAGE, VERSION},
    text,
};

/// The largest module that is read: what no toolchain comes near.
const MODULE_MAX: u64 = 256 * 1024 * 1024;

/// The name of the section in which a module says which world it is for, or what it begins with.
const TYPE_SECTION: &str = "component-type";

/// What `componentize` takes.
#[derive(Debug, Args)]
pub struct ComponentizeArgs {
    /// The core module; WebAssembly text is taken as well
    #[arg(value_name = "CORE.wasm")]
    pub module: PathBuf,
    /// Where the component goes
    #[arg(short, long, value_name = "FILE.wasm")]
    pub output: PathBuf,
}

/// Makes the component, and says where it is.
pub(super) fn run(args: &ComponentizeArgs) -> Exit {
    let made = read(&args.module)
        .map_err(|error| format!("cannot read {}: {error}", args.module.display()))
        .and_then(|bytes| componentize(&bytes))
        .and_then(|component| {
            let size = component.len() as u64;
            let written = write(&args.output, &component);
            written.map(|()| size).map_err(|error| format!("cannot write {}: {error}", args.output.display()))
        });
    match made {
        Ok(size) => {
            let size = bytesize::ByteSize::b(size).display().iec().to_string();
            anstream::println!("{} is a component of {size}", args.output.display());
            Exit::Clean
        }
        Err(why) => {
            anstream::eprintln!("error: {why}");
            Exit::Failed
        }
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MODULE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MODULE_MAX {
        return Err(io::Error::other(format!("it is larger than {MODULE_MAX} bytes")));
    }
    Ok(bytes)
}

/// Writes a whole file or none: whoever watches the place never sees a part of it.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".").tempfile_in(folder)?;
    file.write_all(bytes)?;
    let file = file.persist(path)?;
    // Made readable by its owner alone, as no compiler's output is.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    drop(file);
    Ok(())
}

/// What a module says of itself.
#[expect(clippy::struct_excessive_bools, reason = "each is found or not, apart from the others")]
#[derive(Debug, Default)]
struct Module {
    /// It says which world it is for.
    typed: bool,
    /// It imports WASI preview 1.
    preview1: bool,
    /// It exports `_start`: it is a program, not a library.
    program: bool,
    /// It exports a function of the contract's handler.
    handler: bool,
}

impl Module {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut module = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| format!("the module is not valid: {error}"))? {
                Payload::CustomSection(section) => module.typed |= section.name().starts_with(TYPE_SECTION),
                Payload::ImportSection(imports) => {
                    module.preview1 |= imports.into_imports().flatten().any(|import| import.module == PREVIEW1);
                }
                Payload::ExportSection(exports) => {
                    for export in exports.into_iter().flatten().filter(|export| export.kind == ExternalKind::Func) {
                        module.program |= export.name == "_start";
                        module.handler |= export.name.starts_with("hostelry:agent/handler@");
                    }
                }
                _ => {}
            }
        }
        Ok(module)
    }
}

/// The component that a core module makes, or why it makes none.
fn componentize(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = wat::parse_bytes(bytes).map_err(|error| format!("this is not WebAssembly: {error}"))?.into_owned();
    if Parser::is_component(&bytes) {
        return Err("this is a component already; `hostelry check` says whether it fits".to_owned());
    }
    let module = Module::read(&bytes)?;
    if module.program && !module.handler {
        return Err("this is a program with a `main`, and an agent is a library that exports `handle`; build it as a \
                    reactor: -mexec-model=reactor in C and Zig, -buildmode=c-shared in Go"
            .to_owned());
    }
    if !module.typed {
        let (resolve, world) = contract::world().map_err(|error| format!("{error:#}"))?;
        embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)
            .map_err(|error| format!("{error:#}"))?;
    }
    encode(&bytes, module.preview1).map_err(|error| explain(&error, &module))
}

fn encode(bytes: &[u8], preview1: bool) -> anyhow::Result<Vec<u8>> {
    let mut encoder = ComponentEncoder::default().validate(true).module(bytes)?;
    if preview1 {
        encoder = encoder.adapter(PREVIEW1, ADAPTER)?;
    }
    encoder.encode()
}

/// What an encoder's refusal means for an author.
fn explain(error: &anyhow::Error, module: &Module) -> String {
    let why = text::visible(text::head(&format!("{error:#}"), 2048));
    if module.handler || module.typed {
        format!("no component can be made of it: {why}")
    } else {
        format!(
            "no component can be made of it: {why}; an agent's module exports `{PACKAGE}/handler@{VERSION}#handle`: is \
             the agent's code in it, and does the linker keep that export?"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest agent there is: it answers nothing.
    const AGENT: &str = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "hostelry:agent/handler@0.1.0#handle")
          (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 64))"#;

    #[test]
    fn a_module_that_says_nothing_of_its_world_is_an_agent() {
        let component = componentize(AGENT.as_bytes()).unwrap();
        assert!(Parser::is_component(&component));
        let mut exports = Vec::new();
        for payload in Parser::new(0).parse_all(&component) {
            if let Ok(Payload::ComponentExportSection(section)) = payload {
                exports.extend(section.into_iter().flatten().map(|export| export.name.name.to_owned()));
            }
        }
        // Those of the components inside come before.
        assert_eq!(exports.last().map(String::as_str), Some("hostelry:agent/handler@0.1.0"));
    }

    #[test]
    fn preview_1_is_adapted() {
        let text = AGENT.replacen(
            "(module",
            "(module (import \"wasi_snapshot_preview1\" \"random_get\" (func (param i32 i32) (result i32)))",
            1,
        );
        let component = componentize(text.as_bytes()).unwrap();
        let imports: Vec<String> = Parser::new(0)
            .parse_all(&component)
            .filter_map(|payload| match payload {
                Ok(Payload::ComponentImportSection(section)) => Some(section),
                _ => None,
            })
            .flat_map(|section| section.into_iter().flatten().map(|import| import.name.name.to_owned()))
            .collect();
        assert!(imports.iter().any(|name| name.starts_with("wasi:random/")), "{imports:?}");
    }

    #[test]
    fn what_makes_no_component_says_why() {
        let why = |text: &str| componentize(text.as_bytes()).unwrap_err();
        assert!(why("(component)").contains("a component already"));
        assert!(why("hello").contains("not WebAssembly"));
        assert!(why("(module (func (export \"_start\")))").contains("-buildmode=c-shared"));
        let empty = why("(module (memory (export \"memory\") 1))");
        assert!(empty.contains("hostelry:agent/handler@0.1.0#handle") && empty.contains("linker"), "{empty}");
        let foreign = why(&AGENT.replacen("(module", "(module (import \"env\" \"puts\" (func))", 1));
        assert!(foreign.contains("env"), "{foreign}");
    }
}
