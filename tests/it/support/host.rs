//! The built program as a process: its own folders, its own ports, its log, its end.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::watch,
    time::timeout,
};

use super::guests;

/// How long anything that must happen may take before the test has failed. Nothing waits so long when all is well.
pub const SOON: Duration = Duration::from_secs(30);

/// What a host is started with.
#[derive(Default)]
pub struct Setup {
    config: String,
    plugins: Vec<(String, Vec<u8>)>,
    args: Vec<String>,
}

impl Setup {
    /// A host that serves these guests, each as the agent of its name, with the configuration that is there without a
    /// file.
    pub fn serving(agents: &[&str]) -> Self {
        agents
            .iter()
            .fold(Self::default(), |setup, agent| setup.plugin(&format!("{agent}.wasm"), &guests::bytes(agent)))
    }

    /// The text of a `hostelry.toml`.
    #[must_use]
    pub fn config(mut self, text: &str) -> Self {
        text.clone_into(&mut self.config);
        self
    }

    /// A file in the plugins folder.
    #[must_use]
    pub fn plugin(mut self, path: &str, bytes: &[u8]) -> Self {
        self.plugins.push((path.to_owned(), bytes.to_owned()));
        self
    }

    /// One more argument of `serve`.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Starts the host and waits until it listens.
    pub async fn start(self) -> Host {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("plugins")).unwrap();
        for (path, bytes) in &self.plugins {
            let path = dir.path().join("plugins").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        if !self.config.is_empty() {
            std::fs::write(dir.path().join("hostelry.toml"), &self.config).unwrap();
        }
        Host::launch(dir, self.args).await
    }
}

/// A host that runs. Dropping it kills it; what it logged is shown if the test failed.
pub struct Host {
    child: Child,
    dir: Option<TempDir>,
    args: Vec<String>,
    log: watch::Receiver<String>,
    /// Where clients connect, such as `127.0.0.1:12345`.
    pub address: String,
    /// Where operators look.
    pub admin: String,
}

impl Host {
    /// The program, ready for arguments, in a folder.
    pub fn program(dir: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hostelry"));
        command.current_dir(dir).env_remove("RUST_LOG").env("NO_COLOR", "1").kill_on_drop(true);
        command
    }

    async fn launch(dir: TempDir, args: Vec<String>) -> Self {
        let mut command = Self::program(dir.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "debug"]);
        let mut child = command.args(&args).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let (sender, log) = watch::channel(String::new());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                sender.send_modify(|log| {
                    log.push_str(&line);
                    log.push('\n');
                });
            }
        });
        let mut host = Self { child, dir: Some(dir), args, log, address: String::new(), admin: String::new() };
        host.admin = host.logged("admin listening on http://").await;
        host.address = host.logged(" listening on http://").await;
        host
    }

    /// Waits until a line of the log holds `text`, and gives back what follows it on that line.
    pub async fn logged(&self, text: &str) -> String {
        self.logged_times(text, 1).await
    }

    /// Waits until `times` lines of the log hold `text`, and gives back what follows it on the last of them.
    pub async fn logged_times(&self, text: &str, times: usize) -> String {
        self.logged_within(text, times, SOON).await
    }

    /// The same, within a time of one's own.
    pub async fn logged_within(&self, text: &str, times: usize, patience: Duration) -> String {
        let nth = |log: &str| {
            let mut lines = log.lines().filter_map(|line| line.split_once(text));
            lines.nth(times - 1).map(|(_, rest)| rest.trim().to_owned())
        };
        let mut log = self.log.clone();
        let found = timeout(patience, log.wait_for(|log| nth(log).is_some())).await;
        match found {
            Ok(Ok(log)) => nth(&log).unwrap(),
            _ => panic!("the log never said {text:?} {times} times:\n{}", *self.log.borrow()),
        }
    }

    /// What was logged so far.
    pub fn log(&self) -> String {
        self.log.borrow().clone()
    }

    /// The folder of the host.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    /// A file of the plugins folder.
    pub fn plugin(&self, path: &str) -> PathBuf {
        self.dir().join("plugins").join(path)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// An address for HTTP.
    pub fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// An agent's Lingzhu address.
    pub fn lingzhu(&self, agent: &str) -> String {
        self.http(&format!("/agents/default/{agent}/lingzhu"))
    }

    /// An agent's Mythra address.
    pub fn mythra(&self, agent: &str) -> String {
        format!("ws://{}/agents/default/{agent}/mythra", self.address)
    }

    /// What `/readyz` says.
    pub async fn readyz(&self) -> Value {
        reqwest::get(self.http("/readyz")).await.unwrap().json().await.unwrap()
    }

    /// Resident memory of the process in bytes.
    pub fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most resident memory that the process ever had, in bytes.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// One of the sizes that the system knows of the process, in bytes.
    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// The CPU time that the process has used, in hundredths of a second.
    pub fn cpu(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // Behind the name, which may hold anything, the 12th and the 13th.
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// What is counted under this name in `/metrics`, such as `hostelry_limit_hits_total{limit="memory"`: the sum of
    /// all lines that begin so.
    pub async fn counted(&self, name: &str) -> u64 {
        let text = reqwest::get(format!("http://{}/metrics", self.admin)).await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    /// How often this limit was run into, as `/metrics` has it.
    pub async fn hits(&self, limit: &str) -> u64 {
        self.counted(&format!("hostelry_limit_hits_total{{limit=\"{limit}\"")).await
    }

    /// Waits until a compiler works for this host, and gives back which process it is.
    pub async fn compiler(&self) -> u32 {
        let parent = self.pid().to_string();
        let is_child = |pid: &u32| {
            let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
            // Behind the name, which may hold anything, the state and the parent.
            let own = read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&parent));
            own && read("cmdline").contains("\0compile-component\0")
        };
        let found = async {
            loop {
                let all = std::fs::read_dir("/proc").unwrap();
                let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
                if let Some(pid) = pids.into_iter().find(is_child) {
                    return pid;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, found).await.expect("nothing is compiled")
    }

    /// Sends a signal: `TERM`, `INT`, `STOP`, …
    pub fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of the process.
    pub async fn ended(&mut self) -> ExitStatus {
        timeout(SOON, self.child.wait()).await.expect("the host did not end").unwrap()
    }

    /// Kills the process as a power cut would, and starts it again on the same folder.
    pub async fn kill_and_restart(mut self) -> Self {
        self.child.kill().await.unwrap();
        self.again().await
    }

    /// Tells the process to stop, and starts it again on the same folder.
    pub async fn stop_and_restart(mut self) -> Self {
        self.signal("TERM");
        assert!(self.ended().await.success());
        self.again().await
    }

    async fn again(mut self) -> Self {
        let (dir, args) = (self.dir.take().unwrap(), std::mem::take(&mut self.args));
        Self::launch(dir, args).await
    }
}

impl Drop for Host {
    #[expect(clippy::print_stdout, reason = "what is printed is shown with the test that failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("--- the host's log\n{}---", *self.log.borrow());
        }
    }
}
