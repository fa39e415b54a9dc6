//! Who may begin a turn now: permits for each tenant and for all, and turns a minute.

use std::{sync::Arc, time::Duration};

use governor::clock::{Clock, DefaultClock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tenants::Tenant;

/// Why a turn may not begin now. Its text is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The tenant's turns a minute are used up.
    #[error("too many requests")]
    Rate {
        /// When one is free again.
        retry_after: Duration,
    },
    /// The tenant has as many turns running as it may.
    #[error("too many turns at once")]
    Tenant,
    /// The host has as many turns running as it can.
    #[error("the server is busy")]
    Server,
    /// The host is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Busy {
    /// After how many seconds a client may try again.
    pub fn retry_after(&self) -> u64 {
        match self {
            Self::Rate { retry_after } => retry_after.as_secs() + 1,
            Self::Tenant | Self::Server => 1,
            Self::ShuttingDown => 5,
        }
    }
}

/// The right to run one turn; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    _server: OwnedSemaphorePermit,
    _tenant: OwnedSemaphorePermit,
}

/// Counts the turns of the whole server.
#[derive(Clone, Debug)]
pub struct Admission {
    turns: Arc<Semaphore>,
}

impl Admission {
    /// At most `turns` at once.
    pub fn new(turns: u32) -> Self {
        Self { turns: Arc::new(Semaphore::new(turns as usize)) }
    }

    /// The right to run one turn of `tenant`, or why not. A refused turn takes nothing of the tenant's turns a minute
    /// unless they are what refuses it.
    pub fn admit(&self, tenant: &Tenant) -> Result<Permit, Busy> {
        let own = Arc::clone(&tenant.turns).try_acquire_owned().map_err(|_| Busy::Tenant)?;
        let server = Arc::clone(&self.turns).try_acquire_owned().map_err(|_| Busy::Server)?;
        if let Some(rate) = &tenant.rate {
            rate.check()
                .map_err(|until| Busy::Rate { retry_after: until.wait_time_from(DefaultClock::default().now()) })?;
        }
        Ok(Permit { _server: server, _tenant: own })
    }
}
