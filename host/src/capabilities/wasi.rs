//! Which of WASI 0.2 a guest gets: all interfaces that language runtimes import, with nothing behind them.
//!
//! No files, environment, arguments, sockets or names are there; standard input is empty, standard output and error go
//! to the guest's log. Clocks tell whole milliseconds, which is what an agent needs and too coarse to time another
//! tenant's work by.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use wasmtime::component::{Linker, ResourceTable};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder};

use super::{GuestLog, TurnState};
use crate::config::Limits;

/// What clocks are rounded down to.
const RESOLUTION: Duration = Duration::from_millis(1);

/// The context of one turn.
pub(super) fn context(log: &GuestLog) -> WasiCtx {
    let mut builder = WasiCtxBuilder::new();
    builder
        .stdout(log.stdout())
        .stderr(log.stderr())
        .max_random_size(Limits::RANDOM)
        .wall_clock(Coarse { began: Instant::now() })
        .monotonic_clock(Coarse { began: Instant::now() })
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    builder.build()
}

/// The table of what a guest holds of the host.
pub(super) fn table(handles: usize) -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(handles);
    table
}

/// Links the interfaces.
pub(super) fn add_to_linker(linker: &mut Linker<TurnState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)
}

/// Clocks that tell whole milliseconds.
struct Coarse {
    began: Instant,
}

impl HostWallClock for Coarse {
    fn resolution(&self) -> Duration {
        RESOLUTION
    }

    fn now(&self) -> Duration {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    }
}

impl HostMonotonicClock for Coarse {
    fn resolution(&self) -> u64 {
        u64::try_from(RESOLUTION.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Never zero, which Go's runtime takes for a clock that does not go.
    fn now(&self) -> u64 {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        millis.saturating_add(1).saturating_mul(1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_millisecond_is_not_zero() {
        let clock = Coarse { began: Instant::now() };
        let now = HostMonotonicClock::now(&clock);
        assert!(now >= 1_000_000 && now.is_multiple_of(1_000_000), "{now}");
    }
}
