//! Components that are small to store and costly to compile.

use crate::support::wat;

/// A component in which each level instantiates the one below twice: 1.4 KB that would become 2^26 instances.
pub fn nested() -> Vec<u8> {
    let mut component = "(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
    for level in 1..=26 {
        let twice = format!("(instance (instantiate $c{}))", level - 1).repeat(2);
        component = format!("(component $c{level} {component} {twice})");
    }
    wat::parse(&component)
}

/// A hundred thousand tiny functions, and one more.
pub fn functions() -> Vec<u8> {
    wat::parse(&format!("(component (core module {}))", "(func)".repeat(100_001)))
}

/// A function with many variables that live around a loop.
pub fn locals() -> Vec<u8> {
    let count = 10_001;
    let sum = |n: usize| format!("(local.set {} (i32.add (local.get {n}) (local.get {})))", n + 1, n + 1);
    let body: String = (0..count).map(sum).collect();
    let locals = "i32 ".repeat(count);
    wat::parse(&format!("(component (core module (func (param i32) (local {locals}) (loop {body} (br 0)))))"))
}

/// One function of more code than any compiler writes.
pub fn giant() -> Vec<u8> {
    let body = "(local.set 0 (i32.add (local.get 0) (i32.const 1)))".repeat(300_000);
    wat::parse(&format!("(component (core module (func (param i32) {body})))"))
}

/// A function as large as one may be, which takes the compiler a long time.
pub fn slow() -> Vec<u8> {
    let body = "(local.set 0 (i32.add (local.get 0) (i32.const 1)))".repeat(290_000);
    wat::parse(&format!("(component (core module (func (param i32) {body})))"))
}

/// Jump tables that need a thousand times their size.
pub fn jumps() -> Vec<u8> {
    let table = format!("(block (br_table {} (local.get 0)))", "0 ".repeat(60_000)).repeat(30);
    wat::parse(&format!("(component (core module (func (param i32) {table})))"))
}

/// Types that double in size forty times.
pub fn doubling_types() -> Vec<u8> {
    let pair = |n: usize| format!("(type $t{n} (tuple $t{} $t{}))", n - 1, n - 1);
    let types: String = (1..40).map(pair).collect();
    wat::parse(&format!("(component (type $t0 (tuple u32 u32)) {types})"))
}

/// Types inside each other, five thousand deep.
pub fn deep_types() -> Vec<u8> {
    let list = |n: usize| format!("(type $t{n} (list $t{}))", n - 1);
    let types: String = (1..5000).map(list).collect();
    wat::parse(&format!("(component (type $t0 (list u8)) {types})"))
}

/// More globals than an instance has room for.
pub fn globals() -> Vec<u8> {
    wat::parse(&format!("(component (core module {}))", "(global i32 (i32.const 1))".repeat(200_000)))
}

/// More tables than any module has.
pub fn tables() -> Vec<u8> {
    wat::parse(&format!("(component (core module {}))", "(table 1 funcref)".repeat(5000)))
}

/// More memories than an instance may have.
pub fn memories() -> Vec<u8> {
    let five = "(core instance (instantiate $m))".repeat(5);
    wat::parse(&format!("(component (core module $m (memory 1)) {five})"))
}
