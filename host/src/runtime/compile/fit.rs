//! Whether a component's imports and exports are those of an agent, and if not, what its author did and what mends it.

use std::{collections::BTreeMap, sync::LazyLock};

use wasmparser::{KnownCustom, Parser, Payload};
use wasmtime::component::{
    Component,
    types::{ComponentInstance, ComponentItem},
};

use super::{Engine, Unfit};
use crate::{
    contract::{self, PACKAGE, VERSION},
    text,
};

/// The interfaces of WASI 0.2 that the host has, by their packages.
const WASI: [&str; 6] = ["wasi:cli", "wasi:io", "wasi:clocks", "wasi:random", "wasi:filesystem", "wasi:sockets"];

/// The handler's interface, without its version.
const HANDLER: &str = "hostelry:agent/handler";

/// The contract's interfaces, and the functions of each.
static INTERFACES: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let Ok((resolve, _)) = contract::world() else { return BTreeMap::new() };
    let interfaces = resolve.interfaces.iter().filter_map(|(_, interface)| {
        let functions = interface.functions.keys().cloned().collect();
        interface.name.clone().map(|name| (name, functions))
    });
    interfaces.collect()
});

/// A name such as `wasi:cli/exit@0.2.6` in its parts: package, interface, version.
fn parts(name: &str) -> (&str, &str, &str) {
    let (path, version) = name.split_once('@').unwrap_or((name, ""));
    let (package, interface) = path.split_once('/').unwrap_or((path, ""));
    (package, interface, version)
}

/// Whether a guest of this version of the contract is served: any of the same 0.1.
fn serves(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']);
    (parts.next(), parts.next()) == (Some("0"), Some("1"))
}

/// Refuses a component that imports what is not there.
pub(super) fn check_imports(engine: &Engine, component: &Component) -> Result<(), Unfit> {
    for (name, _) in component.component_type().imports(engine.raw()) {
        let (package, interface, version) = parts(name);
        let known = if package == PACKAGE {
            if !serves(version) {
                return Err(Unfit::Version { verb: "imports", name: name.to_owned() });
            }
            INTERFACES.contains_key(interface)
        } else {
            WASI.contains(&package) && version.starts_with("0.2.")
        };
        if !known {
            return Err(Unfit::Import { name: name.to_owned(), hint: way_out(name) });
        }
    }
    Ok(())
}

/// What an author can do about an import that is not there.
fn way_out(name: &str) -> String {
    let (package, interface, version) = parts(name);
    let own = || INTERFACES.keys().map(String::as_str).filter(|own| *own != "handler");
    if package == PACKAGE || text::meant(package, [PACKAGE]).is_some() {
        let all = || own().collect::<Vec<_>>().join(", ");
        let known = if INTERFACES.contains_key(interface) { Some(interface) } else { text::meant(interface, own()) };
        return known.map_or_else(
            || format!("the contract, {PACKAGE}@{VERSION}, has the interfaces {}; build against its text", all()),
            |known| format!("did you mean {PACKAGE}/{known}@{VERSION}?"),
        );
    }
    let words = match package {
        "wasi:http" => {
            "call a tool with `call-tool` instead, or build without the language runtime's http and fetch (in \
             componentize-js: disableFeatures [\"http\", \"fetch-event\"])"
        }
        package if WASI.contains(&package) && version.starts_with("0.3") => {
            "this host has WASI 0.2; build for wasm32-wasip2"
        }
        package if WASI.contains(&package) => {
            "this host has WASI 0.2 in its released form; build with a newer toolchain for wasm32-wasip2"
        }
        package if package.starts_with("wasi:") => {
            "of WASI this host has cli, io, clocks, random, filesystem and sockets; an agent reaches what is outside \
             through `call-tool`"
        }
        package if text::meant(package, WASI).is_some() => {
            "of WASI this host has it under another name; look for a slip"
        }
        _ => "leave it out; an agent reaches what is outside through `call-tool`",
    };
    words.to_owned()
}

/// The handler that the component exports.
pub(super) fn check_exports(engine: &Engine, component: &Component) -> Result<ComponentInstance, Unfit> {
    let mut exports = Vec::new();
    for (name, item) in component.component_type().exports(engine.raw()) {
        let (package, interface, version) = parts(name);
        if (package, interface) == (PACKAGE, "handler") {
            if !serves(version) {
                return Err(Unfit::Version { verb: "exports", name: name.to_owned() });
            }
            return match item.ty {
                ComponentItem::ComponentInstance(handler) => Ok(handler),
                _ => Err(Unfit::Mismatch(format!("{name} is no interface"))),
            };
        }
        exports.push(name.to_owned());
    }
    Err(Unfit::Handler(instead(&exports)))
}

/// What an author can do who exports these instead of the handler.
fn instead(exports: &[String]) -> String {
    let find = |is: &dyn Fn(&str) -> bool| exports.iter().find(|name| is(name));
    let path = |name: &str| name.split_once('@').map_or(name, |(path, _)| path).to_owned();
    if let Some(near) = find(&|name| text::meant(&path(name), [HANDLER]).is_some()) {
        return format!(
            "it exports {near}, in which there is a slip; the world `agent` of {PACKAGE} has the right name"
        );
    }
    if let Some(near) = find(&|name| name == "handle" || path(name).ends_with("/handler") || name == "handler") {
        return format!("it exports {near}; build it for the world `agent` of {PACKAGE}, which exports its handler");
    }
    if find(&|name| name.starts_with("wasi:cli/run@")).is_some() {
        return format!(
            "it is a program (it exports wasi:cli/run); build a library for the world `agent` of {PACKAGE}: \
             crate-type = [\"cdylib\"] in Rust, a reactor in other languages"
        );
    }
    if find(&|name| name.starts_with("wasi:http/incoming-handler@")).is_some() {
        return format!("it is a web server's component; an agent is built for the world `agent` of {PACKAGE}");
    }
    if exports.is_empty() {
        return format!(
            "it exports nothing: build it for the world `agent` of {PACKAGE} and export the handler (`export!` in Rust)"
        );
    }
    let shown = exports.iter().take(3).map(|name| text::visible(text::head(name, 128))).collect::<Vec<_>>().join(", ");
    format!("it exports {shown}; build it for the world `agent` of {PACKAGE}, and export its handler")
}

/// What is said of a handler without `handle`.
pub(super) fn no_handle(engine: &Engine, handler: &ComponentInstance) -> String {
    let names: Vec<&str> = handler.exports(engine.raw()).map(|(name, _)| name).collect();
    match text::meant("handle", names.iter().copied()).or_else(|| names.first().copied()) {
        Some(near) => format!("its handler has no function `handle`, but `{}`", text::visible(text::head(near, 128))),
        None => "its handler has no function `handle`".to_owned(),
    }
}

/// The first function that a component wants of the contract and that is not there, with what was probably meant.
pub(super) fn unknown_function(engine: &Engine, component: &Component) -> Option<String> {
    for (name, item) in component.component_type().imports(engine.raw()) {
        let (package, interface, _) = parts(name);
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        let Some(known) = INTERFACES.get(interface).filter(|_| package == PACKAGE) else { continue };
        for (function, item) in instance.exports(engine.raw()) {
            if !matches!(item.ty, ComponentItem::ComponentFunc(_)) || known.iter().any(|known| known == function) {
                continue;
            }
            let hint = match text::meant(function, known.iter().map(String::as_str)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("this host's {name} has {}", known.join(", ")),
            };
            let function = text::visible(text::head(function, 128));
            return Some(format!(
                "it imports the function `{function}` of {name}, which has no such function; hint: {hint}"
            ));
        }
    }
    None
}

/// What a core module shows of how it was made.
#[expect(clippy::struct_excessive_bools, reason = "each is found or not, apart from the others")]
#[derive(Debug, Default)]
struct Origin {
    rust: bool,
    preview1: bool,
    browser: bool,
    emscripten: bool,
    program: bool,
    handler: bool,
}

impl Origin {
    fn read(bytes: &[u8]) -> Self {
        let mut origin = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            // What is wrong with it is told by whoever makes a component of it.
            let Ok(payload) = payload else { break };
            match payload {
                Payload::ImportSection(imports) => imports.into_imports().flatten().for_each(|import| {
                    origin.preview1 |= import.module == "wasi_snapshot_preview1";
                    origin.browser |= import.module.starts_with("__wbindgen") || import.module == "wbg";
                    origin.emscripten |= import.name.starts_with("emscripten_");
                }),
                Payload::ExportSection(exports) => exports.into_iter().flatten().for_each(|export| {
                    origin.program |= export.name == "_start";
                    origin.handler |= export.name.starts_with("hostelry:agent/handler@");
                }),
                Payload::CustomSection(section) => {
                    if let KnownCustom::Producers(producers) = section.as_known() {
                        let mut values =
                            producers.into_iter().flatten().flat_map(|field| field.values.into_iter().flatten());
                        origin.rust |= values.any(|value| value.name == "Rust");
                    }
                }
                _ => {}
            }
        }
        origin
    }
}

/// What is said of a core module, with a hint by how it was made.
pub(super) fn core_module(bytes: &[u8]) -> String {
    let origin = Origin::read(bytes);
    let wrap = "`hostelry componentize FILE -o AGENT.wasm` makes a component of it";
    let hint = if origin.browser {
        "it was made for a browser by wasm-bindgen; build for wasm32-wasip2, which makes a component".to_owned()
    } else if origin.emscripten {
        "it was made for a browser by Emscripten; build with wasi-sdk's or zig's clang for wasm32-wasi as a reactor"
            .to_owned()
    } else if origin.program && !origin.handler {
        "it is a program with a `main`; an agent is a library: crate-type = [\"cdylib\"] and wasm32-wasip2 in Rust, \
         -mexec-model=reactor in C and Zig, -buildmode=c-shared in Go"
            .to_owned()
    } else if origin.rust {
        format!("build for the target wasm32-wasip2, which makes a component by itself; or {wrap}")
    } else if origin.preview1 {
        format!("{wrap}, with the WASI preview 1 adapter that it needs; Rust makes one by itself for wasm32-wasip2")
    } else {
        format!("{wrap}; Rust makes one by itself for wasm32-wasip2")
    };
    format!("this is a core module, not a component; hint: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_that_are_not_there_have_a_way_out() {
        for (name, hint) in [
            ("hostelry:agent/hots@0.1.0", "did you mean hostelry:agent/host@0.1.0?"),
            ("hostelry:agents/turn@0.1.0", "did you mean hostelry:agent/turn@0.1.0?"),
            ("hostelry:agent/model@0.1.0", "has the interfaces host, log, turn, types"),
            ("wasi:http/types@0.2.3", "call-tool"),
            ("wasi:cli/exit@0.3.0", "WASI 0.2"),
            ("wasi:keyvalue/store@0.2.0-draft", "of WASI this host has"),
            ("acme:db/sql@1.0.0", "call-tool"),
        ] {
            let said = way_out(name);
            assert!(said.contains(hint), "{name}: {said}");
        }
    }

    #[test]
    fn exports_that_are_no_handler_say_what_was_built() {
        for (exports, hint) in [
            (vec!["hostelry:agent/handlr@0.1.0"], "a slip"),
            (vec!["hostelry:agnt/handler@0.1.0"], "a slip"),
            (vec!["acme:x/handler@0.1.0"], "it exports acme:x/handler@0.1.0"),
            (vec!["handle"], "it exports handle"),
            (vec!["wasi:cli/run@0.2.6"], "cdylib"),
            (vec!["wasi:http/incoming-handler@0.2.6"], "web server"),
            (vec![], "exports nothing"),
            (vec!["acme:x/y@0.1.0"], "it exports acme:x/y@0.1.0"),
        ] {
            let names: Vec<String> = exports.iter().map(|&name| name.to_owned()).collect();
            let said = instead(&names);
            assert!(said.contains(hint), "{exports:?}: {said}");
        }
    }

    #[test]
    fn a_core_module_is_told_by_how_it_was_made() {
        let said = |text: &str| core_module(&wat::parse_str(text).unwrap());
        assert!(said("(module)").contains("hostelry componentize"));
        assert!(said("(module (func (export \"_start\")))").contains("reactor"));
        assert!(said("(module (import \"wasi_snapshot_preview1\" \"f\" (func)))").contains("adapter"));
        assert!(said("(module (import \"wbg\" \"f\" (func)))").contains("browser"));
        assert!(said("(module (import \"env\" \"emscripten_notify\" (func)))").contains("Emscripten"));
        let rust = "(@custom \"producers\" \"\\01\\08language\\01\\04Rust\\00\")";
        assert!(
            said(&format!("(module (import \"wasi_snapshot_preview1\" \"f\" (func)) {rust})")).contains("which makes")
        );
        assert!(said(&format!("(module {rust})")).contains("wasm32-wasip2"));
    }

    #[test]
    fn the_contract_s_functions_are_known() {
        assert_eq!(INTERFACES["host"], ["emit-event", "call-tool"]);
        assert_eq!(INTERFACES["handler"], ["handle"]);
    }
}
