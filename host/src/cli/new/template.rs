//! A language's files, and how they become a new agent's folder: placeholders filled in, all of it or nothing.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// The agent's name, in texts and file names.
const NAME: &str = "{{name}}";

/// The same with `_` for `-`.
const SNAKE: &str = "{{snake}}";

/// The same as a name that a Rust crate may have.
const CRATE: &str = "{{crate}}";

/// Names that cargo or Rust keeps for itself, of those that an agent can have.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "hostelry_agent",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde_json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "wit_bindgen",
    "yield",
];

/// One file of a template.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// Where it goes in the new folder.
    pub(super) path: &'static str,
    /// What it holds.
    pub(super) bytes: &'static [u8],
    /// Whether it may hold placeholders; what is taken from elsewhere is put in as it is.
    pub(super) filled: bool,
}

/// The files of every language, as the build script found them.
static TEMPLATES: &[(&str, &[File])] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// The files of a language.
pub(super) fn of(language: &str) -> &'static [File] {
    TEMPLATES.iter().find(|(name, _)| *name == language).map(|(_, files)| *files).unwrap_or_default()
}

impl File {
    /// Where the file goes for an agent called `name`.
    pub(super) fn path(&self, name: &str) -> String {
        if self.filled { fill(self.path, name) } else { self.path.to_owned() }
    }

    /// What the file holds for an agent called `name`.
    pub(super) fn text(&self, name: &str) -> Vec<u8> {
        match std::str::from_utf8(self.bytes) {
            Ok(text) if self.filled => fill(text, name).into_bytes(),
            _ => self.bytes.to_owned(),
        }
    }
}

fn fill(text: &str, name: &str) -> String {
    let snake = name.replace('-', "_");
    text.replace(NAME, name).replace(SNAKE, &snake).replace(CRATE, &krate(&snake))
}

/// The name of a crate, as near to the agent's as it can be.
fn krate(snake: &str) -> String {
    let reserved = RESERVED.contains(&snake) || snake.starts_with(|c: char| c.is_ascii_digit());
    if reserved { format!("agent_{snake}") } else { snake.to_owned() }
}

/// Writes the files for an agent called `name` as the folder `at`, which is not there, or is empty. They are written beside
/// it, and the folder put in its place when it is whole.
pub(super) fn lay(files: &[File], name: &str, at: &Path) -> io::Result<()> {
    let beside = match at.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // As other folders are: what the author's umask leaves of everything.
    let everything = Permissions::from_mode(0o777);
    let fresh = tempfile::Builder::new().prefix(".hostelry-new-").permissions(everything).tempdir_in(beside)?;
    for file in files {
        let path = fresh.path().join(file.path(name));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, file.text(name))?;
    }
    fs::rename(fresh.path(), at)?;
    // It is where it belongs, and nothing is left to clean up.
    _ = fresh.keep();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[File] = &[
        File { path: "src/{{snake}}.txt", bytes: b"I am {{name}}, or agent_{{snake}}.", filled: true },
        File { path: "wit/{{name}}.wit", bytes: b"{{name}}", filled: false },
        File { path: "picture", bytes: b"\xff{{name}}", filled: true },
    ];

    fn read(folder: &Path, path: &str) -> Vec<u8> {
        fs::read(folder.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn placeholders_are_filled_in_names_and_texts_and_what_is_verbatim_stays() {
        let parent = tempfile::tempdir().unwrap();
        let at = parent.path().join("my-agent");
        lay(FILES, "my-agent", &at).unwrap();
        assert_eq!(read(&at, "src/my_agent.txt"), b"I am my-agent, or agent_my_agent.");
        assert_eq!(read(&at, "wit/{{name}}.wit"), b"{{name}}");
        assert_eq!(read(&at, "picture"), b"\xff{{name}}");
        assert_eq!(entries(parent.path()), 1, "nothing is left beside it");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&at), mode(&at.join("src")), "the folder is as any other");
    }

    #[test]
    fn a_crate_s_name_is_one_that_cargo_takes() {
        for (name, crate_name) in
            [("hello", "hello"), ("my-agent", "my_agent"), ("7up", "agent_7up"), ("fn", "agent_fn")]
        {
            assert_eq!(fill("{{crate}}", name), crate_name);
        }
    }

    #[test]
    fn an_empty_folder_is_filled_and_a_full_one_is_left_alone_with_nothing_beside_it() {
        let parent = tempfile::tempdir().unwrap();
        let at = parent.path().join("a");
        fs::create_dir(&at).unwrap();
        lay(FILES, "a", &at).unwrap();
        fs::write(at.join("picture"), "mine").unwrap();
        assert!(lay(FILES, "a", &at).is_err());
        assert_eq!(read(&at, "picture"), b"mine");
        assert_eq!(entries(parent.path()), 1);
    }
}
