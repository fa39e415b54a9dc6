//! What an author's folder says of its agent: `agent.toml`, for `hostelry dev`.

use std::path::PathBuf;

use super::{
    Faults,
    section::{Page, Section},
};
use crate::ids;

/// An agent's source, and how a component is made of it. Paths are from the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The agent's name.
    pub name: String,
    /// What a shell is told in the folder.
    pub build: String,
    /// What that makes.
    pub component: PathBuf,
    /// Files and folders whose change means building anew; `None` is the whole folder but for what is built or fetched.
    pub watch: Option<Vec<PathBuf>>,
}

impl Project {
    /// Reads the text of an `agent.toml`, which is called `file` in faults.
    pub fn read(text: &str, file: &str) -> Result<Self, Faults> {
        let page = Page::new(file, text.trim_start_matches('\u{feff}'));
        let mut root = Section::root(&page);
        // What is no TOML may hold any key.
        let toml = page.is_clean();
        let name = root.parsed("name", |name| {
            if ids::is_name(name) {
                return Ok(name.to_owned());
            }
            let better = ids::better_name(name);
            Err(format!("{name:?} is no agent's name: one matches [a-z0-9][a-z0-9-]{{0,62}}; {better:?} does"))
        });
        let build = root.parsed("build", |build| match build.trim() {
            "" => Err("is empty; write the command that makes the component".to_owned()),
            build => Ok(build.to_owned()),
        });
        let component = root.parsed("component", |path| {
            let path = PathBuf::from(path);
            let ending = path.extension().is_some_and(|ending| ending == "wasm");
            if ending { Ok(path) } else { Err(format!("{:?} does not end with .wasm", path.display())) }
        });
        let watch = root.texts("watch").map(|paths| paths.into_iter().map(PathBuf::from).collect::<Vec<_>>());
        if watch.as_ref().is_some_and(|paths| paths.iter().any(|path| path.as_os_str().is_empty())) {
            root.fault(root.span(), "watch", "one of the paths is empty; the folder itself is \".\"");
        }
        if toml {
            root.need(&["name", "build", "component"]);
        }
        root.end();
        let faults = page.faults();
        match (name, build, component) {
            (Some(name), Some(build), Some(component)) if faults.is_empty() => {
                Ok(Self { name, build, component, watch })
            }
            _ => Err(Faults(faults)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "name = \"hello\"\nbuild = \"make\"\ncomponent = \"build/hello.wasm\"\n";

    fn faults(text: &str) -> Vec<String> {
        Project::read(text, "agent.toml").unwrap_err().0
    }

    #[test]
    fn a_whole_file_is_read() {
        let project = Project::read(&format!("{WHOLE}watch = [\"src\", \"Makefile\"]"), "agent.toml").unwrap();
        assert_eq!((project.name.as_str(), project.build.as_str()), ("hello", "make"));
        assert_eq!(project.component, PathBuf::from("build/hello.wasm"));
        assert_eq!(project.watch, Some(vec![PathBuf::from("src"), PathBuf::from("Makefile")]));
        assert_eq!(Project::read(WHOLE, "agent.toml").unwrap().watch, None);
    }

    #[test]
    fn every_fault_names_its_line_and_key_and_what_would_be_right() {
        let all =
            faults("name = \"My Agent\"\nbuild = \" \"\ncomponent = \"build/hello\"\nwacth = []\nwatch = \"src\"");
        for (fault, said) in all.iter().zip([
            "agent.toml:1: name: \"My Agent\" is no agent's name",
            "agent.toml:2: build: is empty",
            "agent.toml:3: component: \"build/hello\" does not end with .wasm",
            "agent.toml:4: wacth: unknown key; did you mean `watch`?",
            "agent.toml:5: watch: a text is not a list",
        ]) {
            assert!(fault.starts_with(said), "{said}: {all:?}");
        }
        assert_eq!(all.len(), 5, "{all:?}");
        assert!(all[0].contains("\"my-agent\" does"), "{all:?}");
    }

    #[test]
    fn what_is_missing_is_named_once() {
        let missing = faults("name = \"hello\"\n");
        assert_eq!(missing, ["agent.toml:1: build: is missing", "agent.toml:1: component: is missing"]);
        assert_eq!(faults("name = 1\nbuild = \"x\"\ncomponent = \"x.wasm\"").len(), 1);
        let broken = faults("= 1");
        assert!(broken.iter().any(|fault| fault.contains("not TOML")), "{broken:?}");
        assert!(!broken.iter().any(|fault| fault.contains("is missing")), "{broken:?}");
    }
}
