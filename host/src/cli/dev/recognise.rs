//! Which agent a folder holds: what its `agent.toml` says, or what can be told without one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    config::{Faults, Project},
    ids, text,
};

/// The file that says it.
pub(super) const FILE: &str = "agent.toml";

/// The target that Rust's components are built for.
const TARGET: &str = "wasm32-wasip2";

/// A project, and where it is known from.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) project: Project,
    /// The file that it was guessed from, if it was.
    pub(super) guessed: Option<&'static str>,
}

/// The project of a folder, or everything that is wrong.
pub(super) fn project(dir: &Path) -> Result<Known, Faults> {
    let one = |why: String| Faults(vec![why]);
    if !dir.is_dir() {
        return Err(one(format!("there is no folder {}", text::visible(&dir.display().to_string()))));
    }
    let file = dir.join(FILE);
    if file.exists() {
        let shown = file.strip_prefix(".").unwrap_or(&file).display().to_string();
        let text = fs::read_to_string(&file).map_err(|error| one(format!("{shown}: cannot be read: {error}")))?;
        return Ok(Known { project: Project::read(&text, &shown)?, guessed: None });
    }
    let name = folder_name(dir);
    let plain = |build: &str, name: &str| Project {
        name: name.to_owned(),
        build: build.to_owned(),
        component: PathBuf::from(format!("build/{name}.wasm")),
        watch: None,
    };
    let (guessed, project) = if dir.join("Cargo.toml").exists() {
        ("Cargo.toml", cargo(dir).map_err(one)?)
    } else if dir.join("package.json").exists() {
        let own = npm(dir).map_err(one)?;
        ("package.json", plain("npm run build", &own.unwrap_or(name)))
    } else if dir.join("build.py").exists() {
        ("build.py", plain("python3 build.py", &name))
    } else if ["Makefile", "makefile", "GNUmakefile"].iter().any(|file| dir.join(file).exists()) {
        ("Makefile", plain("make", &name))
    } else {
        return Err(one(format!(
            "{} holds no agent that can be told: no {FILE}, Cargo.toml, package.json, build.py or Makefile\n{}",
            text::visible(&dir.display().to_string()),
            advice(&name)
        )));
    };
    Ok(Known { project, guessed: Some(guessed) })
}

/// How to say it.
pub(super) fn advice(name: &str) -> String {
    format!(
        "hint: make a new agent with `hostelry new`, or write {FILE}:\n\n  name = \"{name}\"\n  build = \"make\"          \
         # what makes the component\n  component = \"build/{name}.wasm\"\n  watch = [\"src\"]         # whose change means \
         building anew"
    )
}

fn folder_name(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    ids::better_name(&dir.file_name().unwrap_or_default().to_string_lossy())
}

/// What Cargo says of a crate that makes a component.
fn cargo(dir: &Path) -> Result<Project, String> {
    let manifest = dir.join("Cargo.toml");
    let metadata = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"])
        .arg(&manifest)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}; hint: install Rust, or write {FILE}"))?;
    if !metadata.status.success() {
        return Err(format!("cargo cannot read it: {}", String::from_utf8_lossy(&metadata.stderr).trim_end()));
    }
    let metadata = serde_json::from_slice::<Value>(&metadata.stdout).map_err(|error| format!("cargo says: {error}"))?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let own = manifest.canonicalize().unwrap_or(manifest);
    let package = list(&metadata, "packages").into_iter().find(|package| {
        let path = text(package, "manifest_path").and_then(|path| Path::new(&path).canonicalize().ok());
        path.as_ref() == Some(&own)
    });
    let package = package.ok_or("Cargo.toml is no package's; hint: go to the agent's own folder")?;
    let makes = |target: &Value| list(target, "crate_types").iter().any(|kind| kind == "cdylib");
    let target = list(&package, "targets").into_iter().find(makes).and_then(|target| text(&target, "name"));
    let (Some(target), Some(name)) = (target, text(&package, "name")) else {
        return Err("Cargo.toml makes no component; hint: add `crate-type = [\"cdylib\"]` to [lib]".to_owned());
    };
    let built = text(&metadata, "target_directory").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(Project {
        name: ids::better_name(&name),
        build: format!("cargo build --release --target {TARGET}"),
        component: built.join(TARGET).join("release").join(format!("{}.wasm", target.replace('-', "_"))),
        watch: None,
    })
}

/// The name in a `package.json` that has a build script, if it has one.
fn npm(dir: &Path) -> Result<Option<String>, String> {
    let text = fs::read(dir.join("package.json")).map_err(|error| format!("package.json: cannot be read: {error}"))?;
    let package = serde_json::from_slice::<Value>(&text).map_err(|error| format!("package.json: {error}"))?;
    if package.pointer("/scripts/build").is_none() {
        return Err(format!("package.json has no script `build`; hint: add one, or write {FILE}"));
    }
    Ok(package.get("name").and_then(Value::as_str).map(ids::better_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::Builder::new().prefix("My_Agent").tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn known(files: &[(&str, &str)]) -> (Project, Option<&'static str>) {
        let known = project(folder(files).path()).unwrap();
        (known.project, known.guessed)
    }

    fn fault(files: &[(&str, &str)]) -> String {
        project(folder(files).path()).unwrap_err().to_string()
    }

    #[test]
    fn what_the_file_says_goes_before_what_can_be_guessed() {
        let file = ("agent.toml", "name = \"a\"\nbuild = \"b\"\ncomponent = \"c.wasm\"");
        let (project, guessed) = known(&[file, ("Makefile", "")]);
        assert_eq!((project.name.as_str(), project.build.as_str(), guessed), ("a", "b", None));
        assert!(fault(&[("agent.toml", "name = \"a\"\nbild = \"b\"")]).contains("agent.toml:2: bild: unknown key"));
    }

    #[test]
    fn a_crate_that_makes_a_component_is_told_by_cargo() {
        let manifest =
            "[package]\nname = \"My-weather\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]";
        let (project, guessed) = known(&[("Cargo.toml", manifest), ("src/lib.rs", "")]);
        assert_eq!((project.name.as_str(), guessed), ("my-weather", Some("Cargo.toml")));
        assert!(project.component.ends_with("target/wasm32-wasip2/release/My_weather.wasm"), "{project:?}");
        let manifest = "[package]\nname = \"x\"\nedition = \"2024\"\n[workspace]";
        assert!(fault(&[("Cargo.toml", manifest), ("src/lib.rs", "")]).contains("cdylib"));
        assert!(fault(&[("Cargo.toml", "nonsense")]).contains("cargo cannot read it"));
    }

    #[test]
    fn other_folders_are_told_by_what_builds_them() {
        let (project, _) = known(&[("package.json", r#"{"name": "@me/weather", "scripts": {"build": "x"}}"#)]);
        assert_eq!((project.build.as_str(), project.name.as_str()), ("npm run build", "me-weather"));
        assert_eq!(project.component, PathBuf::from("build/me-weather.wasm"));
        assert!(fault(&[("package.json", "{}")]).contains("no script `build`"));
        let (project, _) = known(&[("Makefile", "")]);
        assert!(project.name.starts_with("my-agent") && project.build == "make", "{project:?}");
        assert_eq!(known(&[("build.py", "")]).0.build, "python3 build.py");
    }

    #[test]
    fn a_folder_that_tells_nothing_is_told_what_to_write() {
        let why = fault(&[("README.md", "")]);
        assert!(why.contains("no agent.toml") && why.contains("component = \"build/my-agent"), "{why}");
        let example = why.split_once("write agent.toml:\n\n").unwrap().1;
        Project::read(example, "agent.toml").unwrap();
        assert!(project(Path::new("/nowhere/at/all")).unwrap_err().to_string().contains("there is no folder"));
    }
}
