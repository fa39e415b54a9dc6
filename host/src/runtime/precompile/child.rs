//! The child that compiles: how the host runs it, and what it is, a program that has bound itself before it reads the
//! first byte.
//!
//! It gets a component on its standard input and gives code on its standard output. It has no environment, no other file
//! and no way to open one, and it ends with its host.

use std::{
    io::{self, Read as _, Write as _},
    num::NonZeroUsize,
    os::unix::process::ExitStatusExt as _,
    process::{ExitCode, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{config::CompileConfig, runtime::engine, text};

/// The hidden command that makes this program a compiler. Behind it stand the bytes of memory and the seconds of CPU time
/// that it may use, and the process that it works for.
pub const COMMAND: &str = "compile-component";

/// Bytes of code that may come out. The largest that was seen is 37 MB.
const CODE_MAX: usize = 192 * 1024 * 1024;

/// How much of what the child says of a failure is kept.
const SAID_MAX: u64 = 4096;

/// How many threads the child compiles on at most. Each takes address space, of which it has so much and no more.
const THREADS_MAX: usize = 8;

/// Seconds of CPU time between the signal that tells why and the end in any case.
const CPU_GRACE: u64 = 5;

/// Why no code came out.
#[derive(Debug)]
pub(super) enum Failed {
    /// The component is not valid.
    Invalid(String),
    /// The child passed a bound, or fell.
    Died(String),
    /// The child ended, and it is not known to be the component's fault.
    Unproven(String),
    /// The child could not be run at all.
    Host(String),
}

/// Compiles in this process: for unit tests, which have no program to be a child of.
pub(super) fn compile_here(bytes: &[u8]) -> Result<Vec<u8>, Failed> {
    let engine = engine::for_compiling().map_err(|error| Failed::Host(error.to_string()))?;
    engine.precompile_component(bytes).map_err(|error| Failed::Invalid(format!("{error:#}")))
}

/// Runs the child.
pub(super) async fn compile(bytes: &Arc<[u8]>, bounds: &CompileConfig) -> Result<Vec<u8>, Failed> {
    let host = |error: io::Error| Failed::Host(format!("the compiler could not be run: {error}"));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    // Not the path of the program, which an upgrade may have replaced: the very program that runs. Started from a thread
    // that lives as long as the runtime, because the child is killed when the thread that started it ends.
    let mut child = tokio::process::Command::new("/proc/self/exe")
        .arg(COMMAND)
        .args([bounds.memory, cpu_seconds(bounds.cpu), u64::from(std::process::id())].map(|number| number.to_string()))
        .env_clear()
        .env("RAYON_NUM_THREADS", threads.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(host)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Failed::Host("the compiler has no pipes".to_owned()));
    };
    let feed = async {
        // A child that has failed does not read on; what it says of it counts.
        let fed = stdin.write_all(bytes).await;
        drop(stdin);
        fed
    };
    let mut code = Vec::new();
    let mut said = Vec::new();
    let work = async {
        let mut stdout = stdout.take(CODE_MAX as u64 + 1);
        let mut stderr = stderr.take(SAID_MAX);
        let (_, read, _) = tokio::join!(feed, stdout.read_to_end(&mut code), stderr.read_to_end(&mut said));
        read?;
        if code.len() > CODE_MAX {
            return Ok(None);
        }
        child.wait().await.map(Some)
    };
    match tokio::time::timeout(bounds.time, work).await {
        Err(_) => {
            Err(Failed::Unproven(format!("compiling it took longer than {:?} (reload.compile-time)", bounds.time)))
        }
        Ok(Err(error)) => Err(host(error)),
        Ok(Ok(None)) => Err(Failed::Died(format!("compiling it makes more than {CODE_MAX} bytes of code"))),
        Ok(Ok(Some(status))) if status.success() => Ok(code),
        Ok(Ok(Some(status))) => Err(failure(status, &String::from_utf8_lossy(&said), bounds)),
    }
}

/// The seconds of CPU time that the kernel is told: whole ones, and at least one.
fn cpu_seconds(cpu: Duration) -> u64 {
    cpu.as_secs().saturating_add(u64::from(cpu.subsec_nanos() > 0)).max(1)
}

/// Why a child that did not succeed ended.
fn failure(status: ExitStatus, said: &str, bounds: &CompileConfig) -> Failed {
    let signal = |signal: Signal| status.signal() == Some(signal.as_raw());
    let no_memory = said.contains("memory allocation of") || said.contains("Cannot allocate memory");
    if signal(Signal::XCPU) {
        let cpu = bounds.cpu;
        Failed::Died(format!("compiling it takes more than {cpu:?} of CPU time (reload.compile-cpu)"))
    } else if no_memory {
        let memory = bounds.memory;
        Failed::Died(format!("compiling it takes more than {memory} bytes of memory (reload.compile-memory)"))
    } else if status.code() == Some(1) {
        Failed::Invalid(text::visible(text::head(said.trim(), 1024)))
    } else if signal(Signal::KILL) {
        // Something else than its own bounds ended it: that says nothing of the component.
        Failed::Unproven("the compiler was killed from outside".to_owned())
    } else {
        tracing::debug!("a compiler fell ({status}): {}", text::visible(said.trim()));
        Failed::Died("the compiler falls over it".to_owned())
    }
}

/// What the child does: its bounds first, then standard input to standard output.
pub fn main() -> ExitCode {
    match compile_standard_input() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{error:#}");
            ExitCode::from(1)
        }
    }
}

fn compile_standard_input() -> anyhow::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(2).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[memory, cpu, host] = numbers.as_slice() else { anyhow::bail!("this command is for the host itself") };
    bind(memory, cpu).context("the compiler cannot bind itself")?;
    // Nobody wants the code of a child whose host is gone. One that went before this was said is not there to be seen.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    anyhow::ensure!(u64::try_from(parent) == Ok(host), "the host is gone");
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let engine = engine::for_compiling()?;
    let code = engine.precompile_component(&bytes)?;
    io::stdout().lock().write_all(&code)?;
    Ok(())
}

/// Takes from this process what a compiler has no use for. How many processes it may have is left alone: that is counted
/// for the user as a whole, who may run much else.
fn bind(memory: u64, cpu: u64) -> anyhow::Result<()> {
    let bound = |resource, soft, hard| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
    };
    engine::be_lowest();
    // When the machine has no memory left, this goes before the host does. Without a /proc that can be written it is as
    // likely to go as any.
    drop(std::fs::write("/proc/self/oom_score_adj", "1000"));
    rustix::thread::set_no_new_privs(true)?;
    bound(Resource::As, memory, memory)?;
    // The soft bound ends the child with a signal that tells why.
    bound(Resource::Cpu, cpu, cpu.saturating_add(CPU_GRACE))?;
    bound(Resource::Core, 0, 0)?;
    // It has its three pipes: it opens nothing more, and writes no file.
    bound(Resource::Nofile, 3, 3)?;
    bound(Resource::Fsize, 0, 0)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_whole_seconds_and_never_none() {
        let seconds = |millis| cpu_seconds(Duration::from_millis(millis));
        assert_eq!([seconds(1), seconds(1000), seconds(1001), seconds(120_000)], [1, 1, 2, 120]);
        assert_eq!(cpu_seconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn how_a_child_ended_tells_whose_fault_it_is() {
        let bounds = CompileConfig::default();
        let signal = |signal: Signal| ExitStatus::from_raw(signal.as_raw());
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let died = |failed: Failed| match failed {
            Failed::Died(how) => how,
            other => panic!("{other:?}"),
        };
        assert!(died(failure(signal(Signal::XCPU), "", &bounds)).contains("reload.compile-cpu"));
        let memory = "memory allocation of 64 bytes failed\n";
        assert!(died(failure(signal(Signal::ABORT), memory, &bounds)).contains("reload.compile-memory"));
        let mapping = "mmap failed: Cannot allocate memory (os error 12)";
        assert!(died(failure(exit(1), mapping, &bounds)).contains("reload.compile-memory"));
        assert!(died(failure(signal(Signal::SEGV), "", &bounds)).contains("falls over"));
        assert!(died(failure(exit(101), "a panic", &bounds)).contains("falls over"));
        assert!(matches!(failure(exit(1), "type mismatch\n", &bounds), Failed::Invalid(why) if why == "type mismatch"));
        assert!(matches!(failure(signal(Signal::KILL), "", &bounds), Failed::Unproven(_)));
    }
}
