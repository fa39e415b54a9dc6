//! The components that misbehave, made when they are wanted: one guest that does as it is told, guests that misbehave
//! before they are asked, and files that are deadly to compile.

use anyhow::Context as _;

/// The guest that misbehaves as its input says; the letters are explained there.
const GUEST: &str = include_str!("guest.wat");

/// A core module whose start function never returns.
const ENDLESS: &str =
    "(core module $early (func $f (loop $l (br $l))) (start $f)) (core instance (instantiate $early))";

/// A core module whose start function traps.
const TRAPS: &str = "(core module $early (func $f unreachable) (start $f)) (core instance (instantiate $early))";

/// How deep the components of the nesting bomb stand in each other. Each instantiates the one inside it twice, so that the
/// compiler would meet a million instances.
const NESTING: usize = 20;

/// Targets of one jump table: fewer than the engine refuses.
const TARGETS: u32 = 60_000;

/// Tables of one function: as many as its code has room for.
const TABLES: u64 = 30;

/// What the compiler takes for one target at least, in bytes.
const TARGET_COST: u64 = 400;

/// What a component begins with.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

/// What a core module begins with.
const MODULE: [u8; 8] = [0, b'a', b's', b'm', 1, 0, 0, 0];

/// The guest that does as it is told.
pub(super) fn guest() -> anyhow::Result<Vec<u8>> {
    with("")
}

/// A guest that loops before it is asked anything.
pub(super) fn endless_start() -> anyhow::Result<Vec<u8>> {
    with(ENDLESS)
}

/// A guest that traps before it is asked anything.
pub(super) fn trapping_start() -> anyhow::Result<Vec<u8>> {
    with(TRAPS)
}

/// The guest, with this part before its others.
fn with(part: &str) -> anyhow::Result<Vec<u8>> {
    let text = GUEST.replacen("(component\n", &format!("(component {part}\n"), 1);
    wat::parse_str(text).context("the selftest's guest is not valid")
}

/// A file that costs its compiler dear, under a name.
pub(super) struct Bomb {
    /// Its name as an agent.
    pub(super) name: &'static str,
    /// The file.
    pub(super) bytes: Vec<u8>,
}

/// Files whose structure alone must refuse them.
pub(super) fn bombs() -> anyhow::Result<Vec<Bomb>> {
    let bomb = |name, bytes| Bomb { name, bytes };
    Ok(vec![
        bomb("bomb-nesting", nesting()?),
        bomb("bomb-functions", functions(100_001, &[0, 0x0b])),
        bomb("bomb-locals", functions(1, &locals(10_001))),
        bomb("bomb-body", functions(1, &body(2 * 1024 * 1024))),
    ])
}

/// Components that instantiate each other twice.
fn nesting() -> anyhow::Result<Vec<u8>> {
    let mut text = "(core module $m) (core instance (instantiate $m)) (core instance (instantiate $m))".to_owned();
    for _ in 0..NESTING {
        text = format!("(component $c {text}) (instance (instantiate $c)) (instance (instantiate $c))");
    }
    wat::parse_str(format!("(component {text})")).context("the nesting bomb is not valid")
}

/// A file that no scan refuses and that takes the compiler more than `memory` bytes: jump tables, which are one byte a
/// target in the file and a thousand for the compiler.
pub(super) fn jumps(memory: u64) -> Vec<u8> {
    let mut table = vec![0x02, 0x40, 0x20, 0, 0x0e];
    table.extend(leb(TARGETS));
    table.resize(table.len() + TARGETS as usize + 1, 0);
    table.push(0x0b);
    let tables = memory / (u64::from(TARGETS) * TARGET_COST) + 1;
    let mut code = vec![0];
    for _ in 0..TABLES.min(tables) {
        code.extend(&table);
    }
    code.push(0x0b);
    functions(u32::try_from(tables.div_ceil(TABLES)).unwrap_or(u32::MAX), &code)
}

/// A component of one module of `count` functions of this code.
fn functions(count: u32, code: &[u8]) -> Vec<u8> {
    let mut module = MODULE.to_vec();
    // One type, which takes a number and gives nothing.
    section(&mut module, 1, &[1, 0x60, 1, 0x7f, 0]);
    let mut types = leb(count);
    types.resize(types.len() + count as usize, 0);
    section(&mut module, 3, &types);
    let mut codes = leb(count);
    let length = leb(u32::try_from(code.len()).unwrap_or(u32::MAX));
    for _ in 0..count {
        codes.extend(&length);
        codes.extend(code);
    }
    section(&mut module, 10, &codes);
    let mut component = COMPONENT.to_vec();
    section(&mut component, 1, &module);
    component
}

/// The code of a function that has `count` local variables and does nothing.
fn locals(count: u32) -> Vec<u8> {
    let mut code = vec![1];
    code.extend(leb(count));
    code.extend([0x7f, 0x0b]);
    code
}

/// The code of a function that does nothing, `length` times.
fn body(length: usize) -> Vec<u8> {
    let mut code = vec![0];
    code.resize(length, 1);
    code.push(0x0b);
    code
}

fn section(out: &mut Vec<u8>, id: u8, bytes: &[u8]) {
    out.push(id);
    out.extend(leb(u32::try_from(bytes.len()).unwrap_or(u32::MAX)));
    out.extend(bytes);
}

/// A number as WebAssembly writes it: seven bits a byte, the lowest first.
fn leb(mut n: u32) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = u8::try_from(n & 0x7f).unwrap_or_default();
        n >>= 7;
        if n == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::compile;

    #[test]
    fn the_guests_are_components_that_can_be_served() {
        for bytes in [guest(), endless_start(), trapping_start()] {
            compile::look(&bytes.unwrap()).unwrap();
        }
    }

    #[test]
    fn no_scan_refuses_the_file_that_only_the_compilers_bounds_stop() {
        let bytes = jumps(1024 * 1024 * 1024);
        compile::look(&bytes).unwrap();
        wasmparser::validate(&bytes).unwrap();
    }

    #[test]
    fn every_bomb_is_refused_by_its_structure_and_would_be_valid_without_it() {
        for bomb in bombs().unwrap() {
            let refused = compile::look(&bomb.bytes).unwrap_err().to_string();
            assert!(refused.contains("too large to compile safely"), "{}: {refused}", bomb.name);
            // The nesting bomb is valid too, but takes the validator as long as it would take the compiler.
            if bomb.name != "bomb-nesting" {
                wasmparser::validate(&bomb.bytes).unwrap();
            }
        }
    }
}
