//! The author's build command, run by a shell in the author's folder, with all its children ended when it must.

use std::{
    cell::Cell,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe,
    process::{Child, Command},
    time::{Instant, timeout},
};

use super::report::span;
use crate::text;

/// How much of the beginning, and of the end, of what a build prints is kept, in bytes: the first errors, and the last.
const KEPT: usize = 64 * 1024;

/// How long is waited for what a build's own children still print once it has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How often a build that takes long shows that it goes on.
const SIGN: Duration = Duration::from_secs(10);

/// What came of a build.
#[derive(Debug)]
pub(super) struct Built {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// How long it took.
    pub(super) took: Duration,
    /// What it printed, as much as is kept of it.
    pub(super) output: String,
}

/// What is made known to a build command about where it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    /// What the shell is told.
    pub(super) command: &'a str,
    /// The folder.
    pub(super) dir: &'a Path,
    /// Whether colours can be seen.
    pub(super) colours: bool,
}

/// Runs a build to its end; `told` hears each line that it prints as it comes. Dropping the future ends the build.
pub(super) async fn run(terms: Terms<'_>, mut told: impl FnMut(&str)) -> io::Result<Built> {
    let began = Instant::now();
    let (reader, writer) = io::pipe()?;
    let mut group = Group { child: shell(terms, writer)? };
    let mut pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut kept = Kept::default();
    let mut buffer = vec![0; 16 * 1024];
    let status = loop {
        tokio::select! {
            biased;
            read = pipe.read(&mut buffer) => match read {
                Ok(0) | Err(_) => break group.child.wait().await?,
                Ok(length) => kept.take(buffer.get(..length).unwrap_or_default(), &mut told),
            },
            status = group.child.wait() => break status?,
        }
    };
    let took = began.elapsed();
    // What was written before the end may not have been read yet; whoever lives on may write for ever.
    let rest = async {
        while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
            kept.take(buffer.get(..length).unwrap_or_default(), &mut told);
        }
    };
    // Either is an end.
    drop(timeout(LAST_WORDS, rest).await);
    kept.tell(&mut told);
    Ok(Built { status, took, output: kept.text() })
}

/// Tells now and then of a build that takes long that it goes on, with the last line that it printed since, as long as
/// `told` says that somebody listens.
pub(super) async fn signs(last: &Cell<String>, mut told: impl FnMut(String) -> bool) {
    let mut ticks = tokio::time::interval(SIGN);
    let began = ticks.tick().await;
    loop {
        let took = span(ticks.tick().await.duration_since(began));
        let line = text::visible(anstream::adapter::strip_str(&last.take()).to_string().trim());
        let colon = if line.is_empty() { "" } else { ": " };
        if !told(format!("building … {took}{colon}{line}")) {
            return;
        }
    }
}

/// Starts the shell in a process group of its own.
fn shell(terms: Terms<'_>, writer: io::PipeWriter) -> io::Result<Child> {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(terms.command).current_dir(terms.dir).process_group(0);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // Templates that make a component of a module ask this program for it.
    if std::env::var_os("HOSTELRY").is_none()
        && let Ok(own) = std::env::current_exe()
    {
        command.env("HOSTELRY", own);
    }
    if terms.colours {
        for name in ["CLICOLOR_FORCE", "FORCE_COLOR"] {
            command.env(name, "1");
        }
        command.env("CARGO_TERM_COLOR", "always");
    }
    Command::from(command).kill_on_drop(true).spawn()
}

/// A shell and all that it started.
struct Group {
    child: Child,
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nothing once it has been waited for: its number may be another's by then.
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // It may have ended at this moment.
            _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// The beginning and the end of what is printed.
#[derive(Default)]
struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    left_out: usize,
    /// What was printed of a line that has not ended yet.
    line: Vec<u8>,
}

impl Kept {
    fn take(&mut self, bytes: &[u8], told: &mut impl FnMut(&str)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.ends_with(b"\n") || self.line.len() > KEPT {
                self.tell(told);
            }
        }
        let (head, tail) = bytes.split_at(bytes.len().min(KEPT.saturating_sub(self.head.len())));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(KEPT);
        self.tail.drain(..over);
        self.left_out += over;
    }

    /// Tells of the line as far as it has come.
    fn tell(&mut self, told: &mut impl FnMut(&str)) {
        if !self.line.is_empty() {
            told(String::from_utf8_lossy(&self.line).trim_end_matches('\n'));
            self.line.clear();
        }
    }

    fn text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        let left_out = match self.left_out {
            0 => String::new(),
            bytes => format!("\n… {bytes} bytes are left out here; -v shows all …\n"),
        };
        format!("{head}{left_out}{tail}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn terms<'a>(command: &'a str, dir: &'a Path) -> Terms<'a> {
        Terms { command, dir, colours: false }
    }

    #[tokio::test]
    async fn what_a_build_prints_is_kept_in_order_and_its_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let command = "echo one; echo two >&2; echo three; test -n \"$HOSTELRY\" && pwd && exit 3";
        let mut told = String::new();
        let built = run(terms(command, dir.path()), |line| told.extend([line, "\n"])).await.unwrap();
        let place = dir.path().canonicalize().unwrap();
        assert_eq!(built.output, format!("one\ntwo\nthree\n{}", place.display()));
        assert_eq!(told.trim_end(), built.output);
        assert_eq!(built.status.code(), Some(3));
    }

    #[tokio::test]
    async fn of_much_the_beginning_and_the_end_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let command = "echo first; seq 100000; echo last";
        let built = run(terms(command, dir.path()), |_| ()).await.unwrap();
        assert!(built.output.starts_with("first\n1\n") && built.output.ends_with("100000\nlast"));
        assert!(built.output.contains("bytes are left out") && built.output.len() < 2 * KEPT + 100);
    }

    #[tokio::test]
    async fn a_build_whose_children_live_on_ends_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let built = timeout(Duration::from_secs(20), run(terms("sleep 60 & echo $!", dir.path()), |_| ())).await;
        let left = built.unwrap().unwrap().output.parse::<i32>().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    }

    #[tokio::test]
    async fn a_build_that_is_dropped_ends_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let (heard, mut pids) = tokio::sync::mpsc::channel(1);
        let build = run(terms("sleep 60 & echo $!; wait", dir.path()), |line| _ = heard.try_send(line.to_owned()));
        let child = tokio::select! {
            _ = build => panic!("it ended"),
            child = pids.recv() => child.unwrap().parse::<i32>().unwrap(),
        };
        let gone = async {
            while is_alive(child) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), gone).await.expect("its child lives on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_build_that_takes_long_shows_that_it_goes_on() {
        let (last, mut told) = (Cell::new("\u{1b}[1mCompiling\u{1b}[0m serde".to_owned()), Vec::new());
        let began = Instant::now();
        let listens = |sign| {
            told.push(sign);
            began.elapsed() < SIGN * 2
        };
        signs(&last, listens).await;
        assert_eq!(told, ["building … 10 s: Compiling serde", "building … 20 s"]);
    }

    /// Whether a process runs; one that nobody has waited for does not.
    fn is_alive(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}
