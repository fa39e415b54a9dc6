//! Embeds the templates of `hostelry new`: for each language the files of its folder in `host/templates`, the contract,
//! and what its entry in `src/cli/new/languages.rs` takes from elsewhere in the repository.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

#[path = "src/cli/new/languages.rs"]
#[expect(dead_code, reason = "what only people read is no matter of the build")]
mod languages;

use languages::{CONTRACT, LANGUAGES, Language};

/// What tools leave in a folder; none of it is a template.
const LEFT_BEHIND: &[&str] =
    &[".git", ".hostelry", ".tools", ".venv", "__pycache__", "build", "node_modules", "target", "Cargo.lock"];

/// The ending of files whose names would mean something to tools inside our own tree.
const ENDING: &str = ".template";

/// A file of a template: where it comes from, and whether its placeholders are filled in.
struct File {
    from: PathBuf,
    filled: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let host = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = host.parent().ok_or("the host's folder has no parent")?;
    let templates = host.join("templates");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/cli/new/languages.rs");
    println!("cargo::rerun-if-changed={}", templates.display());
    let mut table = String::from("&[\n");
    for language in LANGUAGES {
        let files = files(language, &templates, root)?;
        writeln!(table, "    ({:?}, &[", language.name)?;
        for (path, File { from, filled }) in files {
            let from = from.canonicalize()?.into_os_string();
            let from = from.into_string().map_err(|path| format!("{} is not UTF-8", path.display()))?;
            writeln!(table, "        File {{ path: {path:?}, bytes: include_bytes!({from:?}), filled: {filled} }},")?;
        }
        table.push_str("    ]),\n");
    }
    table.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("templates.rs"), table)?;
    Ok(())
}

/// The files of a language by their path in the new folder; none if it has no folder.
fn files(language: &Language, templates: &Path, root: &Path) -> Result<BTreeMap<String, File>, Box<dyn Error>> {
    let mut files = BTreeMap::new();
    let own = templates.join(language.name);
    if !own.is_dir() {
        return Ok(files);
    }
    walk(&own, "", &mut |path, from| {
        let path = path.strip_suffix(ENDING).unwrap_or(path).to_owned();
        files.insert(path, File { from, filled: true });
    })?;
    for (path, from) in [CONTRACT].iter().chain(language.extra) {
        let from = root.join(from);
        if !from.exists() {
            return Err(
                format!("the template of {} wants {}, which is not there", language.name, from.display()).into()
            );
        }
        walk(&from, path, &mut |path, from| {
            files.entry(path.to_owned()).or_insert(File { from, filled: false });
        })?;
    }
    Ok(files)
}

/// Tells of every file at or below `at`, which is called `path`.
fn walk(at: &Path, path: &str, tell: &mut impl FnMut(&str, PathBuf)) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", at.display());
    if at.is_file() {
        tell(path, at.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(at)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        if LEFT_BEHIND.contains(&name.as_str()) {
            continue;
        }
        let below = if path.is_empty() { name } else { format!("{path}/{name}") };
        walk(&entry.path(), &below, tell)?;
    }
    Ok(())
}
