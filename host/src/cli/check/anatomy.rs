//! What is in a component's file, read from its sections without compiling it, so that a file that does not fit, is
//! damaged or is cut off shows as much of itself as is there.
//!
//! Every text in it is a stranger's: each is bounded and its control characters are made visible here.

use std::collections::BTreeSet;

use wasmparser::{
    ComponentName, ComponentNameSectionReader, CustomSectionReader, KnownCustom, MemoryType, Parser, Payload,
    ProducersSectionReader,
};

use crate::text;

/// The longest text that is taken from a file, in bytes: longer ones are nobody's name.
const TEXT_MAX: usize = 256;

/// The most names of one kind that are taken from a file. The largest real component has 40 imports.
const NAMES_MAX: usize = 1000;

/// A page of memory, unless a memory says otherwise: 64 KiB.
const PAGE_LOG2: u32 = 16;

/// What a file says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Anatomy {
    pub(in crate::cli) exports: Vec<String>,
    pub(in crate::cli) imports: Vec<String>,
    /// The bytes that all its memories begin with.
    pub(in crate::cli) memory: u64,
    pub(in crate::cli) name: Option<String>,
    pub(in crate::cli) version: Option<String>,
    pub(in crate::cli) authors: Option<String>,
    pub(in crate::cli) description: Option<String>,
    pub(in crate::cli) licenses: Option<String>,
    /// The languages that it was written in.
    pub(in crate::cli) languages: BTreeSet<String>,
    /// The tools that made it, with their versions.
    pub(in crate::cli) made_with: BTreeSet<String>,
}

impl Anatomy {
    /// Reads a file, as far as it can be.
    pub(in crate::cli) fn read(bytes: &[u8]) -> Self {
        let mut anatomy = Self::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            // What is wrong with it is told by whoever would serve it.
            let Ok(payload) = payload else { break };
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::MemorySection(memories) => {
                    let bytes = memories.into_iter().flatten().map(|memory| bytes_of(&memory));
                    anatomy.memory = bytes.fold(anatomy.memory, u64::saturating_add);
                }
                Payload::CustomSection(section) => anatomy.custom(&section, depth == 0),
                payload if depth == 0 => anatomy.outer(payload),
                _ => {}
            }
        }
        anatomy
    }

    /// A section of the file's outermost part.
    fn outer(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::ComponentImportSection(imports) => {
                imports.into_iter().flatten().for_each(|import| add(&mut self.imports, import.name.name));
            }
            Payload::ComponentExportSection(exports) => {
                exports.into_iter().flatten().for_each(|export| add(&mut self.exports, export.name.name));
            }
            // Those of a core module; each module that it imports from once.
            Payload::ImportSection(imports) => {
                imports.into_imports().flatten().for_each(|import| add(&mut self.imports, import.module));
            }
            Payload::ExportSection(exports) => {
                exports.into_iter().flatten().for_each(|export| add(&mut self.exports, export.name));
            }
            _ => {}
        }
    }

    fn custom(&mut self, section: &CustomSectionReader<'_>, outermost: bool) {
        match section.as_known() {
            KnownCustom::Producers(producers) => self.producers(producers),
            KnownCustom::ComponentName(names) if outermost => self.name = component_name(names).or(self.name.take()),
            _ if outermost => {
                let text = std::str::from_utf8(section.data()).ok().map(clean).filter(|text| !text.is_empty());
                match section.name() {
                    "version" => self.version = text,
                    "authors" => self.authors = text,
                    "description" => self.description = text,
                    "licenses" => self.licenses = text,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn producers(&mut self, producers: ProducersSectionReader<'_>) {
        for field in producers.into_iter().flatten() {
            let set = if field.name == "language" { &mut self.languages } else { &mut self.made_with };
            for value in field.values.into_iter().flatten() {
                if set.len() < NAMES_MAX {
                    set.insert(clean(format!("{} {}", value.name, value.version).trim()));
                }
            }
        }
    }
}

fn component_name(names: ComponentNameSectionReader<'_>) -> Option<String> {
    names.into_iter().flatten().find_map(|name| match name {
        ComponentName::Component { name, .. } => Some(clean(name)),
        _ => None,
    })
}

fn bytes_of(memory: &MemoryType) -> u64 {
    let page = 1_u64.checked_shl(memory.page_size_log2.unwrap_or(PAGE_LOG2)).unwrap_or(u64::MAX);
    memory.initial.saturating_mul(page)
}

fn add(names: &mut Vec<String>, name: &str) {
    let name = clean(name);
    if names.len() < NAMES_MAX && !names.contains(&name) {
        names.push(name);
    }
}

fn clean(text: &str) -> String {
    text::visible(text::head(text, TEXT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Anatomy {
        Anatomy::read(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn only_the_outermost_names_count_and_all_memories_do() {
        let anatomy = read(
            "(component $named
               (import \"hostelry:agent/host@0.1.0\" (instance))
               (component (import \"inner\" (func)))
               (core module (import \"env\" \"f\" (func)) (memory 2))
               (core module (memory 3))
               (@custom \"authors\" \"A\\1b[31m\")
               (@custom \"version\" \"1.2.3\"))",
        );
        assert_eq!(anatomy.imports, ["hostelry:agent/host@0.1.0"]);
        assert_eq!(anatomy.memory, 5 * 65536);
        assert_eq!(anatomy.name.as_deref(), Some("named"));
        assert_eq!(anatomy.authors.as_deref(), Some("A\\u{1b}[31m"));
        assert_eq!(anatomy.version.as_deref(), Some("1.2.3"));
    }

    #[test]
    fn producers_say_language_and_tools() {
        let producers = "\\02\\08language\\01\\04Rust\\00\\0cprocessed-by\\01\\05rustc\\061.95.0";
        let anatomy = read(&format!("(component (core module (@custom \"producers\" \"{producers}\")))"));
        assert_eq!(anatomy.languages, BTreeSet::from(["Rust".to_owned()]));
        assert_eq!(anatomy.made_with, BTreeSet::from(["rustc 1.95.0".to_owned()]));
    }

    #[test]
    fn a_damaged_file_shows_what_can_be_read_of_it() {
        assert_eq!(Anatomy::read(b"nonsense"), Anatomy::default());
        let bytes = wat::parse_str("(component (import \"a:b/c@1.0.0\" (instance)) (core module (memory 1)))").unwrap();
        for length in 0..bytes.len() {
            let anatomy = Anatomy::read(&bytes[..length]);
            assert!(anatomy.imports.len() <= 1 && anatomy.memory <= 65536);
        }
    }
}
