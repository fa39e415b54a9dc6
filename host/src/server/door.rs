//! What every connection passes when it is accepted: the count of connections, of all and of one address, no delay for small frames, a bound on how
//! long a client may take nothing of what is sent to it, and no HTTP/2, whose connections the bounds here do not know.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU32},
    task::{Context, Poll},
    time::Duration,
};

use arc_swap::ArcSwap;
use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Instant,
};
use tokio_io_timeout::TimeoutStream;

use crate::{
    config::Config,
    limit::Limit,
    metrics::{Connected, Metrics},
    tenants::Place,
};

/// How a client that speaks HTTP/2 without being asked begins; no method of HTTP/1 does.
const PREFACE: &[u8] = b"PRI ";

/// How the answer to a head that is too large begins.
const HEAD_TOO_LARGE: &[u8] = b"HTTP/1.1 431";

/// The network part of an IPv6 address: what one client usually has to itself.
const NETWORK: u128 = !0 << 64;

/// The door of one listener. Cloning is shallow.
#[derive(Clone, Debug)]
pub(super) struct Door {
    settings: Arc<ArcSwap<Config>>,
    metrics: Metrics,
    all: Arc<AtomicU32>,
    /// How many connections each address has open; only those that have one.
    addresses: Arc<Mutex<BTreeMap<IpAddr, u32>>>,
}

impl Door {
    pub(super) fn new(settings: &Arc<ArcSwap<Config>>, metrics: &Metrics) -> Self {
        Self {
            settings: Arc::clone(settings),
            metrics: metrics.clone(),
            all: Arc::default(),
            addresses: Arc::default(),
        }
    }

    fn place(&self, address: IpAddr) -> Result<Held, (Limit, &'static str)> {
        let most = &self.settings.load().server;
        let place = Place::take(&self.all, most.connections)
            .ok_or((Limit::Connections, "as many connections are open as server.connections allows"))?;
        let address = network(address);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let open = addresses.entry(address).or_default();
        if *open >= most.connections_per_address {
            let why = "one address has as many connections open as server.connections-per-address allows";
            return Err((Limit::AddressConnections, why));
        }
        *open += 1;
        drop(addresses);
        let addresses = Arc::clone(&self.addresses);
        Ok(Held { address, addresses, _place: place, _counted: self.metrics.connected() })
    }
}

/// What counts as one address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & NETWORK).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// A place among all connections and among those of its address; free again when it is dropped.
#[derive(Debug)]
struct Held {
    address: IpAddr,
    addresses: Arc<Mutex<BTreeMap<IpAddr, u32>>>,
    _place: Place,
    _counted: Connected,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = addresses.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

impl<S> Accept<TcpStream, S> for Door {
    type Stream = Connection;
    type Service = S;
    type Future = std::future::Ready<io::Result<(Connection, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let connection = || {
            let held = self.place(stream.peer_addr()?.ip()).map_err(|(limit, why)| {
                self.metrics.limit(limit);
                tracing::warn!("a connection is refused: {why}");
                io::Error::other(why)
            })?;
            // A small frame must not wait for the acknowledgement of the one before it.
            stream.set_nodelay(true)?;
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(self.settings.load().server.write_time));
            Ok(Connection {
                stream: Box::pin(stream),
                opening: PREFACE.iter(),
                watch: Watch {
                    metrics: self.metrics.clone(),
                    request_time: self.settings.load().server.request_time,
                    unanswered: Some(Instant::now()),
                    counted: false,
                },
                _held: held,
            })
        };
        std::future::ready(connection().map(|connection| (connection, service)))
    }
}

/// An accepted connection; its place is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    /// What a client that speaks HTTP/2 would say next; nothing once it has said anything else.
    opening: std::slice::Iter<'static, u8>,
    watch: Watch,
    _held: Held,
}

/// What is seen of a connection from outside, to count the bounds that the HTTP library keeps by itself and in silence:
/// time for a request, its head's bytes, and time in which the client takes nothing. Each counts once a connection.
#[derive(Debug)]
struct Watch {
    metrics: Metrics,
    request_time: Duration,
    /// Since when the client has said nothing, or something that was not answered; nothing once it was, or has left.
    unanswered: Option<Instant>,
    counted: bool,
}

impl Watch {
    fn count(&mut self, limit: Limit) {
        if !std::mem::replace(&mut self.counted, true) {
            self.metrics.limit(limit);
        }
    }

    /// The client said so many bytes, or left.
    fn read(&mut self, read: &Poll<io::Result<()>>, bytes: usize) {
        match read {
            Poll::Ready(Ok(())) if bytes > 0 => _ = self.unanswered.get_or_insert_with(Instant::now),
            Poll::Ready(_) => self.unanswered = None,
            Poll::Pending => {}
        }
    }

    /// The host says something.
    fn written<T>(&mut self, bytes: &[u8], written: &Poll<io::Result<T>>) {
        match written {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::TimedOut => self.count(Limit::WriteTime),
            Poll::Ready(Err(_)) => self.unanswered = None,
            Poll::Ready(Ok(_)) if self.unanswered.take().is_some() && bytes.starts_with(HEAD_TOO_LARGE) => {
                self.count(Limit::Head);
            }
            Poll::Ready(Ok(_)) | Poll::Pending => {}
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.unanswered.is_some_and(|since| since.elapsed() >= self.request_time) {
            self.count(Limit::RequestTime);
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.as_mut().poll_read(cx, buf);
        let bytes = buf.filled().len().saturating_sub(before);
        self.watch.read(&read, bytes);
        for said in buf.filled().get(before..).unwrap_or_default() {
            match self.opening.next() {
                Some(expected) if said == expected && self.opening.len() == 0 => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "HTTP/2 is not spoken here")));
                }
                Some(expected) if said == expected => {}
                _ => {
                    self.opening = [].iter();
                    break;
                }
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(cx, buf);
        self.watch.written(buf, &written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write_vectored(cx, bufs);
        self.watch.written(bufs.first().map_or(&[], |first| first), &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(connections: u32, per_address: u32) -> Door {
        let mut config = Config::default();
        config.server.connections = connections;
        config.server.connections_per_address = per_address;
        Door::new(&Arc::new(ArcSwap::from_pointee(config)), &Metrics::new())
    }

    #[test]
    fn one_address_cannot_take_the_places_of_the_others() {
        let door = door(10, 2);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let one = door.place(address("192.0.2.1")).unwrap();
        let _two = door.place(address("::ffff:192.0.2.1")).unwrap();
        assert_eq!(door.place(address("192.0.2.1")).unwrap_err().0, Limit::AddressConnections);
        let _other = door.place(address("192.0.2.2")).unwrap();
        drop(one);
        let _again = door.place(address("192.0.2.1")).unwrap();
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let door = door(10, 1);
        let _one = door.place("2001:db8:0:1::1".parse().unwrap()).unwrap();
        assert!(door.place("2001:db8:0:1:ffff::2".parse().unwrap()).is_err());
        let _other = door.place("2001:db8:0:2::1".parse().unwrap()).unwrap();
    }

    #[test]
    fn all_places_are_counted_and_given_back() {
        let door = door(1, 1);
        let one = door.place("192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(door.place("192.0.2.2".parse().unwrap()).unwrap_err().0, Limit::Connections);
        drop(one);
        assert!(door.addresses.lock().unwrap().is_empty());
        assert!(door.place("192.0.2.2".parse().unwrap()).is_ok());
    }
}
