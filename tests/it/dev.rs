//! `hostelry dev` as a process, on a folder whose build copies a guest that the tests built: what it shows of a chat, of
//! changes and of what goes wrong, and how it ends.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use hostelry::text;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdin},
    sync::watch,
    time::timeout,
};

use crate::support::{
    guests,
    host::{Host, SOON},
    wat,
};

mod changes;
mod ends;

/// An author's folder.
struct Folder {
    dir: TempDir,
}

impl Folder {
    /// The folder of the agent `toy`, whose build copies this guest.
    fn of(guest: &str) -> Self {
        let folder = Self { dir: TempDir::new().unwrap() };
        folder.write(
            "agent.toml",
            "name = \"toy\"\nbuild = \"sh src/build.sh\"\ncomponent = \"out/toy.wasm\"\nwatch = [\"src\"]\n",
        );
        folder.copies(&guests::path(guest));
        folder
    }

    /// Has the build copy this file from now on.
    fn copies(&self, file: &Path) {
        self.builds(&format!("mkdir -p out && cp '{}' out/toy.wasm", file.display()));
    }

    /// Has the build do this from now on.
    fn builds(&self, script: &str) {
        self.write("src/build.sh", &format!("{script}\n"));
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let aside = path.with_extension("aside~");
        fs::write(&aside, text).unwrap();
        fs::rename(aside, path).unwrap();
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Starts `hostelry dev` in the folder.
    fn dev(&self, args: &[&str]) -> Dev {
        let mut command = Host::program(self.dir.path());
        command.arg("dev").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (gather(child.stdout.take().unwrap()), gather(child.stderr.take().unwrap()));
        Dev { stdin: child.stdin.take(), child, out, err }
    }

    /// Says these messages with `-m`, and waits for the end.
    async fn says(&self, args: &[&str], messages: &[&str]) -> Ran {
        let messages = messages.iter().flat_map(|message| ["-m", message]);
        let mut dev = self.dev(&args.iter().copied().chain(messages).collect::<Vec<_>>());
        let code = dev.ended().await.code();
        let (out, err) = (dev.out.borrow().clone(), dev.err.borrow().clone());
        Ran { code, out, err }
    }
}

/// What a command printed, and its exit code.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// That this stands in what was said beside the answers.
    #[track_caller]
    fn said(&self, text: &str) {
        assert!(self.err.contains(text), "{text:?} is not in:\n{}\n---\n{}", self.out, self.err);
    }
}

/// A `hostelry dev` that runs. Dropping it kills it; what it said is shown if the test failed.
struct Dev {
    child: Child,
    stdin: Option<ChildStdin>,
    out: watch::Receiver<String>,
    err: watch::Receiver<String>,
}

/// All that comes out of a pipe, as it comes.
fn gather(mut pipe: impl AsyncRead + Unpin + Send + 'static) -> watch::Receiver<String> {
    let (sender, receiver) = watch::channel(String::new());
    tokio::spawn(async move {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 4096]);
        while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
            all.extend_from_slice(&buffer[..length]);
            sender.send_replace(String::from_utf8_lossy(&all).into_owned());
        }
    });
    receiver
}

impl Dev {
    /// Types a line.
    async fn types(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Waits until `text` was said beside the answers for the `times`th time.
    async fn said(&self, text: &str, times: usize) {
        let mut err = self.err.clone();
        let found = timeout(SOON, err.wait_for(|err| err.matches(text).count() >= times)).await;
        assert!(matches!(found, Ok(Ok(_))), "{text:?} was never said {times} times:\n{}", *self.err.borrow());
    }

    /// What was answered so far.
    fn answers(&self) -> String {
        self.out.borrow().clone()
    }

    /// Waits for the end of the process and of all that it printed.
    async fn ended(&mut self) -> ExitStatus {
        self.stdin = None;
        let status = timeout(SOON, self.child.wait()).await.expect("it does not end").unwrap();
        for pipe in [&mut self.out, &mut self.err] {
            // Its sender goes when all is read.
            while timeout(SOON, pipe.changed()).await.expect("a pipe stays open").is_ok() {}
        }
        status
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = std::process::Command::new("kill").arg(format!("-{name}")).arg(pid).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Dev {
    #[expect(clippy::print_stdout, reason = "what is printed is shown with the test that failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("--- answers\n{}--- beside\n{}---", *self.out.borrow(), *self.err.borrow());
        }
    }
}

#[tokio::test]
async fn messages_are_said_and_figures_shown_over_each_protocol() {
    let folder = Folder::of("puppet");
    for (protocol, answers, turns) in
        [("mythra", "one\ntwo\n", 2), ("lingzhu", "one\ntwo\n", 2), ("both", "one\none\ntwo\ntwo\n", 4)]
    {
        let ran = folder.says(&["--protocol", protocol], &["chat one", "chat two"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), answers), "{protocol}: {}", ran.err);
        let version = hostelry::runtime::compile::version(&guests::bytes("puppet"));
        let version = text::head(&version, 12);
        ran.said(&format!("live: version {version}"));
        let figures = |line: &&str| {
            let parts: Vec<_> = line.split(" · ").collect();
            parts.len() == 6
                && parts[0] == "chat 1"
                && parts[1].starts_with("first event ")
                && parts[2].ends_with(" in all")
                && parts[3].starts_with("CPU ")
                && parts[4].starts_with("memory ")
                && parts[5].ends_with(version)
        };
        assert_eq!(ran.err.lines().filter(figures).count(), turns, "{protocol}: {}", ran.err);
    }
    let kept = |path: &str| folder.path(path).exists();
    assert!(kept(".hostelry/.gitignore") && kept(".hostelry/data") && !kept("data") && !kept("plugins"));
}

#[tokio::test]
async fn what_the_guest_logs_and_prints_is_shown() {
    let ran = Folder::of("puppet")
        .says(&[], &["log info in the log\nlog debug unseen\nstdout printed\nlog warn careful"])
        .await;
    for line in ["│ in the log", "│ printed", "│ warn: careful"] {
        ran.said(line);
    }
    assert!(!ran.err.contains("unseen"), "{}", ran.err);
}

#[tokio::test]
async fn a_failure_is_shown_with_its_cause_and_the_turns_outcome_is_the_commands() {
    let folder = Folder::of("puppet");
    let ran = folder.says(&[], &["chat x\npanic out of luck", "chat fine"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), "x\nfine\n"), "{}", ran.err);
    ran.said("│ out of luck");
    ran.said("✗ the guest trapped: ");
    ran.said("    at ");
    let ran = folder.says(&["--protocol", "lingzhu"], &["err not today"]).await;
    assert_eq!(ran.code, Some(1));
    ran.said("✗ the agent said: not today");
    assert!(!ran.err.contains("log says why"), "{}", ran.err);
}

#[tokio::test]
async fn what_a_host_would_not_allow_is_allowed_and_said() {
    let ran = Folder::of("puppet").says(&[], &["alloc 100", "flood 10001 1"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.said("of memory; a host allows 64.0 MiB (limits.memory)");
    ran.said("this turn emitted 10001 events; a host allows 10000 (limits.events)");
}

#[tokio::test]
async fn what_the_file_beside_the_component_asks_for_is_what_it_gets() {
    let folder = Folder::of("puppet");
    let tools = "tools";
    let ran = folder.says(&[], &[tools]).await;
    assert!(ran.out.contains("ReadFile") && ran.out.contains("fetch_image"), "{}", ran.out);
    folder.write("toy.toml", "tools = [\"workspace/ReadFile\"]\nlimits.events = 1\n");
    let ran = folder.says(&[], &[tools, "chat one\nchat two\nrefused"]).await;
    assert_eq!(ran.out, "ReadFile\none\n", "{}", ran.err);
    ran.said("this turn ran into a limit: events");
    folder.write("toy.toml", "tols = []\n");
    let ran = folder.says(&[], &[tools]).await;
    assert_eq!(ran.code, Some(1));
    ran.said("toy.toml:1: tols: unknown key; did you mean `tools`?");
}

#[tokio::test]
async fn facts_and_a_session_go_with_what_is_said() {
    let folder = Folder::of("puppet");
    let args = ["--session", "mine", "--lang", "zh-CN", "--fact", "weather=sunny"];
    let ran = folder.says(&args, &["session\nfact lang\nfact weather", "history 9"]).await;
    assert!(ran.out.starts_with("minezh-CNsunny\n"), "{}", ran.out);
    assert!(ran.out.contains("agent:minezh-CNsunny"), "{}", ran.out);
    let again = folder.says(&args, &["history 1"]).await;
    assert!(again.out.contains("agent:"), "another start goes on with it: {}", again.out);
}

#[tokio::test]
async fn a_component_that_does_not_fit_says_why() {
    let folder = Folder::of("puppet");
    let module = folder.path("module.wasm");
    fs::write(&module, wat::parse("(module)")).unwrap();
    folder.copies(&module);
    let ran = folder.says(&[], &["hi"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    ran.said("out/toy.wasm does not fit");
    ran.said("core module");
    ran.said("hint:");
    folder.builds("rm -f out/toy.wasm");
    let ran = folder.says(&[], &["hi"]).await;
    assert_eq!(ran.code, Some(1));
    ran.said("the build went well, and made no out/toy.wasm");
}
