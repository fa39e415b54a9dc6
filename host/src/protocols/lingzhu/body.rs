//! Reading a request's body: whole, within its size and its time, and within what all bodies together may hold.
//!
//! It knows bytes only. A client that is refused before its body was read is let send some of it, because a connection
//! that is closed over unread bytes is reset, and the client would see that instead of the answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{limit::Limit, tenants::Tenant};

/// What all bodies that are held at once may take together: twenty-five of the largest, or a few kilobytes for each of
/// tens of thousands. A client that keeps the host waiting for the rest of a body holds what it has sent.
const HELD_MAX: usize = 256 * 1024 * 1024;
/// What those of one tenant's clients may take of it: three tenants cannot take the room of a fourth.
const TENANT_HELD_MAX: usize = HELD_MAX / 4;
/// What bodies are counted in.
const UNIT: usize = 4 * 1024;
/// How many times the largest body is read and thrown away of a client that sends more.
const THROWN_AWAY: usize = 4;
/// For how long a client that is refused is let send its body.
const THROW_AWAY_TIME: Duration = Duration::from_secs(5);

/// The room for all bodies. Cloning is shallow.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

/// The room for one tenant's bodies.
#[derive(Debug)]
pub(super) struct TenantRoom {
    all: Room,
    held: Arc<AtomicUsize>,
}

/// A body's share of the room; given back when dropped.
#[derive(Debug, Default)]
pub(super) struct Share {
    of_all: Option<OwnedSemaphorePermit>,
    of_tenant: Option<(Arc<AtomicUsize>, usize)>,
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((held, bytes)) = &self.of_tenant {
            held.fetch_sub(*bytes, Ordering::AcqRel);
        }
    }
}

/// A body that was read.
#[derive(Debug)]
pub(super) struct Whole {
    /// The bytes.
    pub(super) bytes: Bytes,
    /// Their share of the room; the input that is made of them takes about as much.
    pub(super) share: Share,
}

/// How large a body may be, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Its bytes.
    pub(super) max: usize,
    /// Its time.
    pub(super) time: Duration,
}

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    /// It is larger than it may be.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not arrive in time.
    #[error("the body took longer than {0:?} to arrive")]
    TooSlow(Duration),
    /// There is no room for it now.
    #[error("the server is busy")]
    NoRoom,
    /// There is none of the tenant's.
    #[error("too many requests")]
    NoTenantRoom,
    /// It broke off.
    #[error("the body broke off")]
    Broken,
}

impl Unread {
    /// The status that goes with it.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoTenantRoom => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }

    /// The bound that it ran into.
    pub(super) fn limit(&self) -> Option<Limit> {
        match self {
            Self::TooLarge(_) => Some(Limit::Body),
            Self::TooSlow(_) => Some(Limit::RequestTime),
            Self::NoRoom => Some(Limit::Bodies),
            Self::NoTenantRoom => Some(Limit::TenantBodies),
            Self::Broken => None,
        }
    }
}

/// Reads a body within its bounds.
pub(super) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    bounds: Bounds,
    room: &TenantRoom,
) -> Result<Whole, Unread> {
    let Bounds { max, time } = bounds;
    let deadline = Instant::now() + time;
    if announced(headers).is_some_and(|length| length > max as u64) {
        throw_away(body, headers, max * THROWN_AWAY).await;
        return Err(Unread::TooLarge(max));
    }
    let mut bytes = BytesMut::new();
    let mut share = Share::default();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(Unread::TooSlow(time)),
            Ok(None) => return Ok(Whole { bytes: bytes.freeze(), share }),
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, "a body broke off");
                return Err(Unread::Broken);
            }
            Ok(Some(Ok(frame))) => frame,
        };
        // What is no data are trailers, which mean nothing here.
        let Ok(data) = frame.into_data() else { continue };
        let size = bytes.len() + data.len();
        if size > max {
            drop((bytes, share));
            discard(body, max * (THROWN_AWAY - 1)).await;
            return Err(Unread::TooLarge(max));
        }
        if let Err(unread) = room.fits(&mut share, size) {
            drop((bytes, share));
            discard(body, max).await;
            return Err(unread);
        }
        bytes.extend_from_slice(&data);
    }
}

/// Lets a client send what it has not begun to send, up to a bound, and forgets it.
pub(super) async fn throw_away(body: Body, headers: &HeaderMap, max: usize) {
    // A client that waits for our answer before it sends anything needs no more than that.
    if !headers.contains_key(header::EXPECT) {
        discard(body, max).await;
    }
}

async fn discard(mut body: Body, max: usize) {
    let deadline = Instant::now() + THROW_AWAY_TIME;
    let mut read = 0;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > max {
            return;
        }
    }
}

/// The length that the client announces.
fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(HELD_MAX / UNIT)))
    }
}

impl Room {
    /// The room for the bodies of this tenant's clients.
    pub(super) fn of(&self, tenant: &Tenant) -> TenantRoom {
        TenantRoom { all: self.clone(), held: Arc::clone(&tenant.account.bodies) }
    }
}

impl TenantRoom {
    /// Makes `share` large enough for `size` bytes, if there is room.
    fn fits(&self, share: &mut Share, size: usize) -> Result<(), Unread> {
        let has = share.of_all.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let units = size.div_ceil(UNIT).saturating_sub(has);
        if units == 0 {
            return Ok(());
        }
        let bytes = units.saturating_mul(UNIT);
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= TENANT_HELD_MAX);
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).map_err(|_| Unread::NoTenantRoom)?;
        let (_, of_tenant) = share.of_tenant.get_or_insert_with(|| (Arc::clone(&self.held), 0));
        *of_tenant += bytes;
        let units = u32::try_from(units).map_err(|_| Unread::NoRoom)?;
        let permit = Arc::clone(&self.all.0).try_acquire_many_owned(units).map_err(|_| Unread::NoRoom)?;
        match &mut share.of_all {
            Some(share) => share.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
