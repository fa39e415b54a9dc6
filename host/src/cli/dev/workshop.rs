//! Builds what the author changes, and puts it into the house, while the chat goes on.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use tokio::sync::watch;

use super::{
    build::{self, Built, Terms},
    house::{House, Made, Stood, allowed},
    paper::{BAD, DIM, GOOD, Paper, WARN},
    recognise,
    report::{size, span},
    sources::{self, Look, Sources},
};
use crate::{cli::check::Anatomy, config::Project, text};

/// How many times in a row it is built again because files changed while it was built. More than that are the build's own
/// doing, which is never done.
const ECHOES: u32 = 2;

/// How the agent stands, for the chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stand {
    /// Whether a first build has come to its end, well or not.
    pub(super) settled: bool,
    /// Whether some version serves.
    pub(super) live: bool,
}

/// Where building is done.
pub(super) struct Workshop<'a> {
    dir: &'a Path,
    project: Project,
    house: &'a mut House,
    paper: Paper,
    /// Whether everything that a build prints is shown.
    verbose: bool,
    told: watch::Sender<Stand>,
}

impl<'a> Workshop<'a> {
    /// A workshop for `project`, whose source is in `dir`, and where to learn how the agent stands.
    pub(super) fn new(
        dir: &'a Path,
        project: Project,
        house: &'a mut House,
        paper: &Paper,
        verbose: bool,
    ) -> (Self, watch::Receiver<Stand>) {
        let (told, stand) = watch::channel(Stand::default());
        (Self { dir, project, house, paper: paper.clone(), verbose, told }, stand)
    }

    /// Builds once.
    pub(super) async fn once(&mut self) {
        self.paper.dim(&format!("{}: {}", self.project.name, text::visible(&self.project.build)));
        self.work().await;
        self.tell();
    }

    /// Builds, and again at each change, as long as somebody wants to know.
    pub(super) async fn keep(mut self) {
        let mut sources = self.sources();
        let mut built = sources.look();
        self.once().await;
        let mut echoes = 0;
        while !self.told.is_closed() {
            let mut now = sources.look();
            if now == built {
                now = sources.changed(&built).await;
                echoes = 0;
            } else if echoes < ECHOES {
                now = sources.changed(&built).await;
                echoes += 1;
            } else {
                self.paper.dim(&format!(
                    "the build itself changes {}, which is not built again for that",
                    self.shown(&built, &now)
                ));
                echoes = 0;
                built = now;
                continue;
            }
            self.paper.dim(&format!("changed: {}", self.shown(&built, &now)));
            if sources::difference(&built, &now).contains(&self.dir.join(recognise::FILE).as_path()) {
                self.read_again();
                sources = self.sources();
                // What is watched from now on, as it was when it was found changed: it may be another again.
                let mut watched = sources.look();
                for (path, print) in &mut watched {
                    if let Some(found) = now.get(path) {
                        print.clone_from(found);
                    }
                }
                now = watched;
            }
            built = now;
            self.work().await;
            self.tell();
        }
    }

    /// Tells the chat how the agent stands after a build.
    fn tell(&self) {
        // Nobody may be listening any more.
        self.told.send_replace(Stand { settled: true, live: self.house.is_live() });
    }

    /// What is watched: what the project lists, what says so, and what the agent asks for.
    fn sources(&self) -> Sources {
        let mut always = vec![PathBuf::from(recognise::FILE)];
        always.extend(self.besides());
        Sources::new(self.dir, self.project.watch.as_deref(), &always, &self.project.component)
    }

    /// Where the file beside the component may stand: beside it, or at the top of the folder, where it is easier to keep.
    fn besides(&self) -> Vec<PathBuf> {
        let own = PathBuf::from(format!("{}.toml", self.project.name));
        let beside = self.project.component.with_extension("toml");
        [beside, own].into_iter().filter(|path| path != Path::new(recognise::FILE)).collect()
    }

    /// Takes a new `agent.toml`, unless it is faulty or another agent's.
    fn read_again(&mut self) {
        match recognise::project(self.dir) {
            Ok(known) if known.project.name == self.project.name => self.project = known.project,
            Ok(known) => self.paper.aside(&format!(
                "{WARN}the agent is called {} now; end this `hostelry dev` and start it again for that{WARN:#}",
                known.project.name
            )),
            Err(faults) => {
                for fault in &faults.0 {
                    self.paper.aside(&format!("{BAD}{}{BAD:#}", text::visible(fault)));
                }
                self.paper.dim("what it said before goes on");
            }
        }
    }

    /// The first files that changed, from the project's folder.
    fn shown(&self, before: &Look, now: &Look) -> String {
        let paths = sources::difference(before, now);
        let own = |path: &&Path| text::visible(&path.strip_prefix(self.dir).unwrap_or(path).display().to_string());
        let first: Vec<_> = paths.iter().take(3).map(own).collect();
        let more = paths.len().saturating_sub(first.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", first.join(", "))
    }

    /// Builds, puts what was built into its place, and says what came of it.
    async fn work(&mut self) {
        let terms = Terms { command: &self.project.build, dir: self.dir, colours: Paper::has_colours() };
        let (paper, verbose) = (self.paper.clone(), self.verbose);
        let last = Cell::new(String::new());
        let built = build::run(terms, |line| {
            if verbose {
                paper.aside(line);
            } else {
                last.set(line.to_owned());
            }
        });
        let listens = |sign: String| {
            self.paper.dim(&sign);
            !self.told.is_closed()
        };
        let built = tokio::select! {
            built = built => built,
            () = build::signs(&last, listens) => return,
        };
        let serves = match built {
            Ok(built) if built.status.success() => {
                self.paper.aside(&format!("building … {} {GOOD}✓{GOOD:#}", span(built.took)));
                self.place().await
            }
            Ok(built) => {
                self.failed(&built);
                false
            }
            Err(error) => {
                self.paper.aside(&format!("{BAD}cannot run the build: {error}{BAD:#}"));
                false
            }
        };
        if !serves {
            let live = self.house.is_live();
            self.paper.dim(if live { "the version before goes on" } else { "nothing is live yet" });
        }
    }

    fn failed(&self, built: &Built) {
        self.paper.aside(&format!("building … {} {BAD}✗ {}{BAD:#}", span(built.took), built.status));
        if !self.verbose && !built.output.is_empty() {
            self.paper.aside(&built.output);
        }
    }

    /// Puts what was built into its place, and says what came of it. Tells whether it serves.
    async fn place(&mut self) -> bool {
        let component = self.dir.join(&self.project.component);
        if !component.is_file() {
            let shown = text::visible(&self.project.component.display().to_string());
            self.paper.aside(&format!(
                "{BAD}the build went well, and made no {shown}{BAD:#}\n{DIM}hint:{DIM:#} say in {} what it makes, with \
                 `component = \"…\"`",
                recognise::FILE
            ));
            return false;
        }
        let beside = self.besides().into_iter().map(|path| self.dir.join(path)).find(|path| path.is_file());
        let paper = self.paper.clone();
        let made = Made { component: &component, beside: beside.as_deref() };
        match self.house.place(made, || paper.dim("compiling for this machine …")).await {
            Ok(Stood::Live { version, size: bytes }) => {
                let short = text::head(&version, 12);
                self.paper.aside(&format!("{GOOD}live:{GOOD:#} version {short}, {}", size(bytes)));
                self.weigh(&component);
                true
            }
            Ok(Stood::Same) => {
                self.paper.dim("the component is the same as before");
                true
            }
            Ok(Stood::Refused(why)) => {
                let shown = text::visible(&self.project.component.display().to_string());
                self.paper.aside(&format!("{shown} {BAD}does not fit{BAD:#}"));
                for line in why.lines() {
                    let line = text::visible(line).replace("; hint: ", &format!("\n  {DIM}hint:{DIM:#} "));
                    self.paper.aside(&format!("  {line}"));
                }
                false
            }
            Err(error) => {
                self.paper.aside(&format!("{BAD}{error:#}{BAD:#}"));
                false
            }
        }
    }

    /// Says if a host would not take what is taken here.
    fn weigh(&self, component: &Path) {
        let Ok(bytes) = std::fs::read(component) else { return };
        let (needs, allows) = (Anatomy::read(&bytes).memory, allowed().0.memory as u64);
        if needs > allows {
            self.paper.aside(&format!(
                "{WARN}its memories begin with {}; a host allows {} (limits.memory) and would not take it{WARN:#}",
                size(needs),
                size(allows)
            ));
        }
    }
}
