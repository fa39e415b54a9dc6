//! `hostelry new`: a folder with an agent that builds, in the language of its author.
//!
//! Which languages there are is in `new/languages.rs`, what is written in `new/template.rs`; the files themselves are in
//! `host/templates`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anstyle::Style;
use clap::Args;

use super::Exit;
use crate::{config::Project, ids, text};

#[expect(dead_code, reason = "what is embedded is a matter of the build script, which has this file too")]
mod languages;
mod template;

use languages::{LANGUAGES, Language};
use template::File;

const DIM: Style = Style::new().dimmed();

/// What `new` takes.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The agent's name, and its folder's
    #[arg(required_unless_present = "list")]
    pub name: Option<String>,
    /// The language, of those that --list shows
    #[arg(long, value_name = "LANGUAGE", required_unless_present = "list")]
    pub lang: Option<String>,
    /// The folder to make it in
    #[arg(long, value_name = "PARENT", default_value = ".")]
    pub dir: PathBuf,
    /// List the languages, and what each needs installed
    #[arg(long, conflicts_with_all = ["name", "lang"])]
    pub list: bool,
}

/// Why no folder was made.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// What was asked for cannot be.
    #[error("{0}")]
    Asked(String),
    /// It cannot be written.
    #[error("cannot write {}: {source}", .at.display())]
    Write {
        /// The folder.
        at: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Makes the folder, and says what to type next.
pub(super) fn run(args: &NewArgs) -> Exit {
    if args.list {
        anstream::print!("{}", list());
        return Exit::Clean;
    }
    let (name, lang) = (args.name.as_deref().unwrap_or_default(), args.lang.as_deref().unwrap_or_default());
    match make(name, lang, &args.dir) {
        Ok(said) => {
            anstream::print!("{said}");
            Exit::Clean
        }
        Err(trouble) => {
            anstream::eprintln!("error: {trouble}");
            match trouble {
                Trouble::Asked(_) => Exit::Usage,
                Trouble::Write { .. } => Exit::Failed,
            }
        }
    }
}

/// The languages that there are.
fn known() -> impl Iterator<Item = (&'static Language, &'static [File])> {
    LANGUAGES.iter().map(|language| (language, template::of(language.name))).filter(|(_, files)| !files.is_empty())
}

/// A line for each language.
fn list() -> String {
    let width = |column: fn(&Language) -> &str| known().map(|(language, _)| column(language).len()).max().unwrap_or(0);
    let (names, titles) = (width(|language| language.name), width(|language| language.title));
    let line = |language: &Language| {
        format!("{:names$}  {:titles$}  {DIM}{}{DIM:#}\n", language.name, language.title, language.needs)
    };
    known().map(|(language, _)| line(language)).collect()
}

/// Makes the folder of an agent, and says what to type next.
fn make(name: &str, lang: &str, parent: &Path) -> Result<String, Trouble> {
    let asked = |why: String| Err(Trouble::Asked(why));
    if !ids::is_name(name) {
        return asked(format!(
            "no agent can be called `{}`: a name matches [a-z0-9][a-z0-9-]{{0,62}}; hint: `{}` does",
            text::visible(name),
            ids::better_name(name)
        ));
    }
    let lower = lang.to_ascii_lowercase();
    let Some((language, files)) = known().find(|(known, _)| known.name == lower || known.also.contains(&&*lower))
    else {
        let all: Vec<_> = known().map(|(language, _)| language.name).collect();
        return asked(format!(
            "there is no template for `{}`; there are {}\nhint: any language that makes components can be used, with the \
             contract in wit/ and an agent.toml; `hostelry new --list` tells what each template needs",
            text::visible(lang),
            all.join(", ")
        ));
    };
    if !parent.is_dir() {
        return asked(format!("there is no folder {}", shown(parent)));
    }
    let at = if parent == Path::new(".") { PathBuf::from(name) } else { parent.join(name) };
    match fs::read_dir(&at).map(|mut entries| entries.next().is_some()) {
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(true) => {
            return asked(format!(
                "{} is there already, and not empty; hint: choose another name or --dir",
                shown(&at)
            ));
        }
        Err(_) => return asked(format!("{} is there already, and no folder", shown(&at))),
    }
    template::lay(files, name, &at).map_err(|source| Trouble::Write { at: at.clone(), source })?;
    Ok(next(language, files, name, &at))
}

/// What to type next.
fn next(language: &Language, files: &[File], name: &str, at: &Path) -> String {
    let mut steps = vec![(format!("cd {}", shown(at)), String::new())];
    if let Some(project) = project(files, name) {
        let component = shown(&project.component);
        steps.extend([
            (project.build, "build it".to_owned()),
            (format!("hostelry check {component}"), "see that it fits".to_owned()),
            (format!("cp {component} PLUGINS/{name}.wasm"), "drop it where a host looks".to_owned()),
        ]);
    }
    steps.push(("hostelry dev".to_owned(), "or build, serve and talk to it, anew at each change".to_owned()));
    let width = steps.iter().map(|(step, _)| step.chars().count()).max().unwrap_or(0);
    let line = |(step, what): &(String, String)| match what.as_str() {
        "" => format!("  {step}"),
        what => format!("  {step:width$}  {DIM}{what}{DIM:#}"),
    };
    let lines: Vec<_> = steps.iter().map(line).collect();
    format!(
        "{}: an agent in {}, which needs {}. Next:\n\n{}\n\nREADME.md there tells the rest.\n",
        shown(at),
        language.title,
        language.needs,
        lines.join("\n")
    )
}

/// What the template's own `agent.toml` says.
fn project(files: &[File], name: &str) -> Option<Project> {
    let file = files.iter().find(|file| file.path == "agent.toml")?;
    Project::read(&String::from_utf8_lossy(&file.text(name)), file.path).ok()
}

fn shown(path: &Path) -> String {
    text::visible(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, lang: &str, parent: &Path) -> String {
        match make(name, lang, parent).unwrap_err() {
            Trouble::Asked(why) => why,
            other @ Trouble::Write { .. } => panic!("{other}"),
        }
    }

    #[test]
    fn what_cannot_be_is_told_with_what_can() {
        let parent = tempfile::tempdir().unwrap();
        assert!(refused("My_Agent", "rust", parent.path()).contains("hint: `my-agent` does"));
        assert!(refused("../up", "rust", parent.path()).contains("hint: `up` does"));
        assert!(refused("hello", "cobol", parent.path()).contains("no template for `cobol`"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        fs::write(parent.path().join("file"), "").unwrap();
        fs::create_dir(parent.path().join("full")).unwrap();
        fs::write(parent.path().join("full/mine"), "").unwrap();
        for (language, _) in known() {
            assert!(refused("file", language.name, parent.path()).contains("no folder"));
            assert!(refused("full", language.name, parent.path()).contains("not empty"));
            assert!(refused("a", language.name, &parent.path().join("nowhere")).contains("there is no folder"));
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }

    #[test]
    fn every_template_is_whole_and_says_how_it_is_built() {
        for (language, files) in known() {
            for wanted in ["README.md", ".gitignore", "agent.toml", "wit/world.wit"] {
                assert!(files.iter().any(|file| file.path == wanted), "{}: no {wanted}", language.name);
            }
            for name in ["hello", "my-agent", "7up", "match"] {
                let file = files.iter().find(|file| file.path == "agent.toml").unwrap();
                let text = String::from_utf8(file.text(name)).unwrap();
                let project = Project::read(&text, "agent.toml").unwrap_or_else(|faults| panic!("{faults}"));
                assert_eq!(project.name, name);
                for path in project.watch.iter().flatten() {
                    let path = path.display().to_string();
                    let there =
                        |file: &File| file.path(name) == path || file.path(name).starts_with(&format!("{path}/"));
                    assert!(files.iter().any(there), "{}: watches {path}, which is not there", language.name);
                }
            }
        }
    }

    #[test]
    fn no_word_means_two_languages() {
        let mut words: Vec<_> = LANGUAGES.iter().flat_map(|one| one.also.iter().chain([&one.name])).collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }
}
