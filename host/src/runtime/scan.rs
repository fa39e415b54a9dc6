//! A walk over a component's bytes before anything is compiled: is it whole, and is its structure one that the compiler
//! can be let loose on?
//!
//! Compiling is where a small file can cost most: a kilobyte of components that instantiate each other twice takes the
//! compiler minutes and gigabytes. The walk takes microseconds, multiplies out what such a file would become, and refuses
//! what no toolchain makes. It does not validate; the engine does that afterwards.

use wasmparser::{
    Chunk, ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef,
    Instance, Parser, Payload,
};

use super::compile::Unfit;
use crate::config::Limits;

/// Components inside components. Toolchains make one or two levels.
const DEPTH_MAX: usize = 8;
/// Instances, of components and core modules, as they multiply out. A Python runtime has 16 core instances.
const INSTANCES_MAX: u64 = 256;
/// Components and core modules that stand in the file. A Python runtime has 14 modules.
const PARTS_MAX: usize = 128;
/// Functions of all modules together. A Python runtime has 13,355.
const FUNCTIONS_MAX: u64 = 100_000;
/// Bytes of one function's code. Compiling takes more than proportionally longer with it.
const BODY_MAX: u64 = 2 * 1024 * 1024;
/// Local variables of one function. 20,000 that live around a loop take the compiler half a minute.
const LOCALS_MAX: u64 = 10_000;
/// The squares of all functions' local variables together, since that is how the compiler's time grows with them: ten
/// functions of the most that one may have.
const LOCALS_WEIGHT_MAX: u64 = 10 * LOCALS_MAX * LOCALS_MAX;

/// What instantiating a component makes, multiplied out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    /// Instances of core modules.
    core: u64,
    /// Instances of components.
    components: u64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.core = self.core.saturating_add(other.core);
        self.components = self.components.saturating_add(other.components);
    }
}

/// A component that is being walked: the weights of the components it can name, and its own.
#[derive(Debug, Default)]
struct Level {
    components: Vec<Weight>,
    own: Weight,
}

/// Where the walk is.
#[derive(Debug, Default)]
struct Walk {
    levels: Vec<Level>,
    parts: usize,
    functions: u64,
    locals_weight: u64,
}

/// Walks over the whole file.
pub(super) fn scan(bytes: &[u8]) -> Result<(), Unfit> {
    let mut walk = Walk { levels: vec![Level::default()], ..Walk::default() };
    // The parsers of what the current part stands in, and whether each is a component.
    let mut outer: Vec<(Parser, bool)> = Vec::new();
    // Where each of them ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut parser = Parser::new(0);
    let mut in_component = true;
    let mut rest = bytes;
    loop {
        // Inside another part, the end is that part's.
        let last = outer.is_empty();
        let over = if last { rest.is_empty() } else { ends.last() == Some(&(bytes.len() - rest.len())) };
        let (consumed, payload) = match parser.parse(rest, over).map_err(|error| invalid(&error))? {
            Chunk::NeedMoreData(_) if last && rest.is_empty() => return Err(Unfit::Incomplete),
            Chunk::NeedMoreData(_) if last => match parser.parse(rest, true) {
                // All sections are read; what the parser waits for is one more or the end.
                Ok(Chunk::Parsed { consumed, payload }) => (consumed, payload),
                Ok(Chunk::NeedMoreData(_)) | Err(_) => return Err(Unfit::Incomplete),
            },
            Chunk::NeedMoreData(_) => return Err(Unfit::Incomplete),
            Chunk::Parsed { consumed, payload } => (consumed, payload),
        };
        match payload {
            Payload::ModuleSection { parser: inner, unchecked_range } => {
                ends.push(unchecked_range.end);
                outer.push((std::mem::replace(&mut parser, inner), in_component));
                in_component = false;
                walk.part()?;
            }
            Payload::ComponentSection { parser: inner, unchecked_range } => {
                ends.push(unchecked_range.end);
                outer.push((std::mem::replace(&mut parser, inner), in_component));
                in_component = true;
                walk.part()?;
                walk.levels.push(Level::default());
                if walk.levels.len() > DEPTH_MAX {
                    return Err(too_much("components stand inside each other", DEPTH_MAX as u64, "deep"));
                }
            }
            Payload::End(_) => {
                if in_component {
                    walk.leave()?;
                }
                ends.pop();
                match outer.pop() {
                    Some((parent, component)) => (parser, in_component) = (parent, component),
                    None => return Ok(()),
                }
            }
            other => walk.payload(&other)?,
        }
        rest = rest.get(consumed..).unwrap_or_default();
        if last && rest.is_empty() && outer.is_empty() {
            walk.leave()?;
            return Ok(());
        }
    }
}

impl Walk {
    /// One more component or module stands in the file.
    fn part(&mut self) -> Result<(), Unfit> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(too_much("modules and components", PARTS_MAX as u64, "parts"));
        }
        Ok(())
    }

    /// A component is walked to its end: the one around it can name it now.
    fn leave(&mut self) -> Result<(), Unfit> {
        let Some(level) = self.levels.pop() else { return Ok(()) };
        if let Some(around) = self.levels.last_mut() {
            around.components.push(level.own);
        }
        if level.own.core > Limits::INSTANCES as u64 {
            return Err(too_much("core instances, multiplied out", Limits::INSTANCES as u64, "instances"));
        }
        if level.own.components > INSTANCES_MAX {
            return Err(too_much("instances, multiplied out", INSTANCES_MAX, "instances"));
        }
        Ok(())
    }

    fn payload(&mut self, payload: &Payload<'_>) -> Result<(), Unfit> {
        match payload {
            Payload::InstanceSection(reader) => {
                for instance in reader.clone() {
                    if matches!(instance.map_err(|error| invalid(&error))?, Instance::Instantiate { .. }) {
                        self.made(Weight { core: 1, components: 0 });
                    }
                }
            }
            Payload::ComponentInstanceSection(reader) => {
                for instance in reader.clone() {
                    let mut weight = Weight { core: 0, components: 1 };
                    if let ComponentInstance::Instantiate { component_index, .. } =
                        instance.map_err(|error| invalid(&error))?
                    {
                        weight.add(self.component(0, component_index)?);
                    }
                    self.made(weight);
                }
            }
            Payload::ComponentAliasSection(reader) => {
                for alias in reader.clone() {
                    match alias.map_err(|error| invalid(&error))? {
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                            let weight = self.component(count as usize, index)?;
                            self.named(weight);
                        }
                        ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => {
                            return Err(unknown_component());
                        }
                        _ => {}
                    }
                }
            }
            Payload::ComponentImportSection(reader) => {
                for import in reader.clone() {
                    let import = import.map_err(|error| invalid(&error))?;
                    if matches!(import.ty, ComponentTypeRef::Component(_) | ComponentTypeRef::Module(_)) {
                        return Err(unknown_component());
                    }
                }
            }
            Payload::ComponentExportSection(reader) => {
                for export in reader.clone() {
                    let export = export.map_err(|error| invalid(&error))?;
                    if export.kind == ComponentExternalKind::Component {
                        let weight = self.component(0, export.index)?;
                        self.named(weight);
                    }
                }
            }
            Payload::FunctionSection(reader) => {
                self.functions = self.functions.saturating_add(u64::from(reader.count()));
                if self.functions > FUNCTIONS_MAX {
                    return Err(too_much("functions", FUNCTIONS_MAX, "functions"));
                }
            }
            Payload::CodeSectionEntry(body) => {
                let range = body.range();
                if (range.end - range.start) as u64 > BODY_MAX {
                    return Err(too_much("bytes of code in one function", BODY_MAX, "bytes"));
                }
                let mut locals = 0_u64;
                for local in body.get_locals_reader().map_err(|error| invalid(&error))? {
                    locals = locals.saturating_add(u64::from(local.map_err(|error| invalid(&error))?.0));
                }
                self.locals_weight = self.locals_weight.saturating_add(locals.saturating_mul(locals));
                if self.locals_weight > LOCALS_WEIGHT_MAX {
                    return Err(too_much(
                        "squares of the local variables of all functions",
                        LOCALS_WEIGHT_MAX,
                        "in all",
                    ));
                }
                if locals > LOCALS_MAX {
                    return Err(too_much("local variables in one function", LOCALS_MAX, "variables"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The component that is walked makes an instance.
    fn made(&mut self, weight: Weight) {
        if let Some(level) = self.levels.last_mut() {
            level.own.add(weight);
        }
    }

    /// The component that is walked can name one more component.
    fn named(&mut self, weight: Weight) {
        if let Some(level) = self.levels.last_mut() {
            level.components.push(weight);
        }
    }

    /// The weight of a component by its index, `count` levels out.
    fn component(&self, count: usize, index: u32) -> Result<Weight, Unfit> {
        let level = self.levels.len().checked_sub(count + 1).and_then(|at| self.levels.get(at));
        let weight = level.and_then(|level| level.components.get(index as usize));
        weight.copied().ok_or_else(|| Unfit::Invalid(format!("there is no component {index}")))
    }
}

fn invalid(error: &wasmparser::BinaryReaderError) -> Unfit {
    Unfit::Invalid(error.to_string())
}

fn unknown_component() -> Unfit {
    Unfit::Invalid("it takes a module or a component from outside, which an agent has no use for".to_owned())
}

fn too_much(what: &str, most: u64, unit: &str) -> Unfit {
    Unfit::Invalid(format!("too large to compile safely: more than {most} {unit} ({what})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<(), Unfit> {
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
        assert!(matches!(text(&nested(7)), Err(Unfit::Invalid(why)) if why.contains("multiplied out")));
        assert!(matches!(text(&nested(9)), Err(Unfit::Invalid(why)) if why.contains("deep")));
        assert!(text(&flat(4)).is_ok());
        assert!(matches!(text(&flat(40)), Err(Unfit::Invalid(why)) if why.contains("multiplied out")));
    }

    #[test]
    fn functions_that_no_toolchain_makes_are_refused() {
        let locals = format!("(component (core module (func (local {}))))", "i32 ".repeat(10_001));
        assert!(matches!(text(&locals), Err(Unfit::Invalid(why)) if why.contains("one function")));
        let locals = format!("(func (local {}))", "i32 ".repeat(9_900)).repeat(11);
        let locals = format!("(component (core module {locals}))");
        assert!(matches!(text(&locals), Err(Unfit::Invalid(why)) if why.contains("all functions")));
        let body = format!("(component (core module (func {})))", "nop ".repeat(2 * 1024 * 1024));
        assert!(matches!(text(&body), Err(Unfit::Invalid(why)) if why.contains("one function")));
        let many = format!("(component (core module {}))", "(func)".repeat(100_001));
        assert!(matches!(text(&many), Err(Unfit::Invalid(why)) if why.contains("functions")));
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
                Ok(()) => complete += 1,
                Err(other) => panic!("at {end}: {other}"),
            }
        }
        assert!(complete < 8, "{complete}");
    }
}
