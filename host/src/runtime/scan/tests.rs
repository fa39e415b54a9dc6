//! What the walk lets through and what it refuses, by the text of components.

use super::*;

fn text(text: &str) -> Result<Needs, Unfit> {
    scan(&wat::parse_str(text).unwrap())
}

/// A component in which each level instantiates the one below twice.
fn nested(depth: usize) -> String {
    let mut component = "(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
    for level in 1..=depth {
        let below = level - 1;
        component = format!(
            "(component $c{level} {component} (instance (instantiate $c{below})) (instance (instantiate $c{below})))"
        );
    }
    component
}

/// The same without depth: each component is beside the one it names.
fn flat(count: usize) -> String {
    let mut parts = vec!["(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned()];
    for level in 1..=count {
        let below = level - 1;
        let twice = "(instance (instantiate $b)) (instance (instantiate $b))";
        parts.push(format!("(component $c{level} (alias outer 1 {below} (component $b)) {twice})"));
    }
    let parts = parts.join("");
    format!("(component {parts} (instance (instantiate $c{count})))")
}

#[test]
fn a_plain_component_passes() {
    text("(component (core module $m (func (local i32))) (core instance (instantiate $m)))").unwrap();
    text("(component)").unwrap();
    // A part that is the last of the file is whole, not one that more of may come.
    text("(component (core module (memory 1)))").unwrap();
    text("(component (component (core module)))").unwrap();
}

#[test]
fn what_multiplies_out_is_refused_before_it_is_compiled() {
    assert!(text(&nested(3)).is_ok());
    assert!(matches!(text(&nested(7)), Err(Unfit::Structure(why)) if why.contains("multiplied out")));
    assert!(matches!(text(&nested(9)), Err(Unfit::Structure(why)) if why.contains("deep")));
    assert!(text(&flat(4)).is_ok());
    assert!(matches!(text(&flat(40)), Err(Unfit::Structure(why)) if why.contains("multiplied out")));
}

#[test]
fn a_module_has_one_memory_of_its_own() {
    let two = "(component (core module (memory 1) (memory 1)))";
    assert!(matches!(text(two), Err(Unfit::Structure(why)) if why.contains("memories of one module")));
}

#[test]
fn functions_that_no_toolchain_makes_are_refused() {
    let locals = format!("(component (core module (func (local {}))))", "i32 ".repeat(10_001));
    assert!(matches!(text(&locals), Err(Unfit::Structure(why)) if why.contains("one function")));
    let locals = format!("(func (local {}))", "i32 ".repeat(9_900)).repeat(11);
    let locals = format!("(component (core module {locals}))");
    assert!(matches!(text(&locals), Err(Unfit::Structure(why)) if why.contains("all functions")));
    let body = format!("(component (core module (func {})))", "nop ".repeat(2 * 1024 * 1024));
    assert!(matches!(text(&body), Err(Unfit::Structure(why)) if why.contains("one function")));
    let many = format!("(component (core module {}))", "(func)".repeat(100_001));
    assert!(matches!(text(&many), Err(Unfit::Structure(why)) if why.contains("functions")));
}

#[test]
fn a_file_that_ends_in_the_middle_is_incomplete_wherever_it_ends() {
    let whole = wat::parse_str(nested(2)).unwrap();
    scan(&whole).unwrap();
    let mut complete = 0;
    for end in 8..whole.len() {
        match scan(&whole[..end]) {
            Err(Unfit::Incomplete) => {}
            // Between two sections of the outermost component nothing tells that more was to come.
            Ok(_) => complete += 1,
            Err(other) => panic!("at {end}: {other}"),
        }
    }
    assert!(complete < 8, "{complete}");
}

#[test]
fn what_a_component_begins_with_is_multiplied_out() {
    let pages = |bytes: u64| bytes * 65_536;
    let once = "(component (core module $m (memory 3) (table 5 funcref)) (core instance (instantiate $m)))";
    assert_eq!(text(once).unwrap(), Needs { memory: pages(3) });
    let never = "(component (core module $m (memory 3)))";
    assert_eq!(text(never).unwrap(), Needs { memory: 0 });
    let inner = "(component $c (core module $m (memory 2)) (core instance (instantiate $m)))";
    let twice = format!("(component {inner} (instance (instantiate $c)) (instance (instantiate $c)))");
    assert_eq!(text(&twice).unwrap(), Needs { memory: pages(4) });
    let outer = "(component (core module $m (memory 7)) \
                 (component $c (alias outer 1 $m (core module $n)) (core instance (instantiate $n))) \
                 (instance (instantiate $c)))";
    assert_eq!(text(outer).unwrap(), Needs { memory: pages(7) });
}

#[test]
fn more_memories_or_tables_than_an_instance_may_have_are_refused() {
    let made = |module: &str, times: usize| {
        let instances = "(core instance (instantiate $m))".repeat(times);
        text(&format!("(component (core module $m {module}) {instances})"))
    };
    assert!(made("(memory 1)", 4).is_ok());
    assert!(matches!(made("(memory 1)", 5), Err(Unfit::Structure(why)) if why.contains("4 memories")));
    assert!(made("(table 1 funcref) (table 1 funcref)", 8).is_ok());
    assert!(
        matches!(made("(table 1 funcref) (table 1 funcref)", 9), Err(Unfit::Structure(why)) if why.contains("16 tables"))
    );
    assert!(made("(table 20000 funcref)", 1).is_ok());
    assert!(matches!(made("(table 20001 funcref)", 1), Err(Unfit::Structure(why)) if why.contains("20000 elements")));
}

#[test]
fn modules_and_components_that_come_out_of_instances_are_refused() {
    let inner = "(component $c (core module $m) (export \"m\" (core module $m)))";
    let outer = format!("(component {inner} (instance $i (instantiate $c)) (alias export $i \"m\" (core module)))");
    assert!(matches!(text(&outer), Err(Unfit::Invalid(why)) if why.contains("a module or a component")));
}
