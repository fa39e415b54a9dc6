//! The contract's text, `wit/`, as it is built into the program: authors' folders get it, and core modules that do not
//! say what they are get it as their type.

use wit_parser::{Resolve, SourceMap, WorldId};

/// The version of the contract that this host serves; every guest of the same `0.1` is served for good.
pub const VERSION: &str = "0.1.0";

/// The contract's package.
pub const PACKAGE: &str = "hostelry:agent";

/// The contract's world.
pub const WORLD: &str = "agent";

/// The contract's files: their names and texts.
pub const FILES: [(&str, &str); 6] = [
    ("handler.wit", include_str!("../../wit/handler.wit")),
    ("host.wit", include_str!("../../wit/host.wit")),
    ("log.wit", include_str!("../../wit/log.wit")),
    ("turn.wit", include_str!("../../wit/turn.wit")),
    ("types.wit", include_str!("../../wit/types.wit")),
    ("world.wit", include_str!("../../wit/world.wit")),
];

/// The contract's world, read from its text.
pub fn world() -> anyhow::Result<(Resolve, WorldId)> {
    let mut files = SourceMap::new();
    for (name, text) in FILES {
        files.push_str(name, text);
    }
    let group = files.parse().map_err(|(_, error)| anyhow::anyhow!("{error}"))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    Ok((resolve, world))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_contract_is_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit");
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, FILES.map(|(name, _)| name));
        assert!(FILES.iter().all(|(_, text)| text.contains(&format!("package {PACKAGE}@{VERSION};"))));
    }
}
