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

/// A page of memory, unless a memory says otherwise: 64 KiB.
const PAGE_LOG2: u32 = 16;

/// What a component needs before its first instruction runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes that the memories of all its instances begin with.
    pub memory: u64,
}

impl Needs {
    /// Refuses what needs more than `memory` bytes, which no turn could be started with.
    pub fn within(self, memory: usize) -> Result<(), Unfit> {
        let allowed = memory as u64;
        if self.memory > allowed {
            return Err(Unfit::Memory { needs: self.memory, allowed });
        }
        Ok(())
    }
}

/// What instantiating a component or a module makes, multiplied out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    /// Instances of core modules.
    core: u64,
    /// Instances of components.
    components: u64,
    /// Memories, and the bytes that they begin with.
    memories: u64,
    bytes: u64,
    tables: u64,
}

impl Weight {
    fn add(&mut self, other: Self) {
        self.core = self.core.saturating_add(other.core);
        self.components = self.components.saturating_add(other.components);
        self.memories = self.memories.saturating_add(other.memories);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.tables = self.tables.saturating_add(other.tables);
    }
}

/// A component that is being walked: the weights of the components and modules it can name, and its own.
#[derive(Debug, Default)]
struct Level {
    components: Vec<Weight>,
    modules: Vec<Weight>,
    own: Weight,
}

/// Where the walk is.
#[derive(Debug, Default)]
struct Walk {
    levels: Vec<Level>,
    /// The module that is walked.
    module: Weight,
    parts: usize,
    functions: u64,
    locals_weight: u64,
}

/// What a component's structure may be, in words.
pub fn in_words() -> String {
    format!(
        "{DEPTH_MAX} components deep, {PARTS_MAX} modules and components, {INSTANCES_MAX} instances, of them {} of core \
         modules with {} memories and {} tables, {FUNCTIONS_MAX} functions, each of {} MiB and {LOCALS_MAX} local variables",
        Limits::INSTANCES,
        Limits::MEMORIES,
        Limits::TABLES,
        BODY_MAX >> 20
    )
}

/// Walks over the whole file.
pub(super) fn scan(bytes: &[u8]) -> Result<Needs, Unfit> {
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
                walk.module = Weight { core: 1, ..Weight::default() };
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
                let needs = if in_component { walk.leave()? } else { walk.leave_module() };
                ends.pop();
                match outer.pop() {
                    Some((parent, component)) => (parser, in_component) = (parent, component),
                    None => return Ok(needs),
                }
            }
            other => walk.payload(&other)?,
        }
        rest = rest.get(consumed..).unwrap_or_default();
        if last && rest.is_empty() && outer.is_empty() {
            return walk.leave();
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
    fn leave(&mut self) -> Result<Needs, Unfit> {
        let own = self.levels.pop().unwrap_or_default().own;
        if let Some(around) = self.levels.last_mut() {
            around.components.push(own);
        }
        for (count, most, what) in [
            (own.core, Limits::INSTANCES as u64, "core instances"),
            (own.components, INSTANCES_MAX, "instances"),
            (own.memories, Limits::MEMORIES as u64, "memories"),
            (own.tables, Limits::TABLES as u64, "tables"),
        ] {
            if count > most {
                return Err(too_much(&format!("{what}, multiplied out"), most, what));
            }
        }
        Ok(Needs { memory: own.bytes })
    }

    /// A module is walked to its end: the component around it can name it now.
    fn leave_module(&mut self) -> Needs {
        if let Some(around) = self.levels.last_mut() {
            around.modules.push(self.module);
        }
        Needs::default()
    }

    fn payload(&mut self, payload: &Payload<'_>) -> Result<(), Unfit> {
        match payload {
            Payload::InstanceSection(reader) => {
                for instance in reader.clone() {
                    if let Instance::Instantiate { module_index, .. } = instance.map_err(|error| invalid(&error))? {
                        let weight = self.named_module(0, module_index)?;
                        self.made(weight);
                    }
                }
            }
            Payload::ComponentInstanceSection(reader) => {
                for instance in reader.clone() {
                    let mut weight = Weight { components: 1, ..Weight::default() };
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
                            self.level(|level| level.components.push(weight));
                        }
                        ComponentAlias::Outer { kind: ComponentOuterAliasKind::CoreModule, count, index } => {
                            let weight = self.named_module(count as usize, index)?;
                            self.level(|level| level.modules.push(weight));
                        }
                        ComponentAlias::InstanceExport {
                            kind: ComponentExternalKind::Component | ComponentExternalKind::Module,
                            ..
                        } => return Err(unknown_component()),
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
                    match export.kind {
                        ComponentExternalKind::Component => {
                            let weight = self.component(0, export.index)?;
                            self.level(|level| level.components.push(weight));
                        }
                        ComponentExternalKind::Module => {
                            let weight = self.named_module(0, export.index)?;
                            self.level(|level| level.modules.push(weight));
                        }
                        _ => {}
                    }
                }
            }
            Payload::MemorySection(reader) => {
                if reader.count() > 1 {
                    return Err(too_much("memories of one module", 1, "memory"));
                }
                for memory in reader.clone() {
                    let memory = memory.map_err(|error| invalid(&error))?;
                    let bytes = memory.initial.saturating_mul(1 << memory.page_size_log2.unwrap_or(PAGE_LOG2).min(16));
                    self.module.add(Weight { memories: 1, bytes, ..Weight::default() });
                }
            }
            Payload::TableSection(reader) => {
                for table in reader.clone() {
                    if table.map_err(|error| invalid(&error))?.ty.initial > Limits::TABLE_ELEMENTS as u64 {
                        return Err(too_much("elements of one table", Limits::TABLE_ELEMENTS as u64, "elements"));
                    }
                    self.module.add(Weight { tables: 1, ..Weight::default() });
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
        self.level(|level| level.own.add(weight));
    }

    /// Changes the component that is walked.
    fn level(&mut self, change: impl FnOnce(&mut Level)) {
        if let Some(level) = self.levels.last_mut() {
            change(level);
        }
    }

    /// The weight of a component by its index, `count` levels out.
    fn component(&self, count: usize, index: u32) -> Result<Weight, Unfit> {
        let level = self.levels.len().checked_sub(count + 1).and_then(|at| self.levels.get(at));
        let weight = level.and_then(|level| level.components.get(index as usize));
        weight.copied().ok_or_else(|| Unfit::Invalid(format!("there is no component {index}")))
    }

    /// The weight of a module by its index, `count` levels out.
    fn named_module(&self, count: usize, index: u32) -> Result<Weight, Unfit> {
        let level = self.levels.len().checked_sub(count + 1).and_then(|at| self.levels.get(at));
        let weight = level.and_then(|level| level.modules.get(index as usize));
        weight.copied().ok_or_else(|| Unfit::Invalid(format!("there is no module {index}")))
    }
}

fn invalid(error: &wasmparser::BinaryReaderError) -> Unfit {
    Unfit::Invalid(error.to_string())
}

fn unknown_component() -> Unfit {
    Unfit::Invalid("it takes a module or a component from outside, which an agent has no use for".to_owned())
}

fn too_much(what: &str, most: u64, unit: &str) -> Unfit {
    Unfit::Structure(format!("too large to compile safely: more than {most} {unit} ({what})"))
}

#[cfg(test)]
mod tests;
