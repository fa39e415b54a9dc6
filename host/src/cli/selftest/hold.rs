//! A child of the selftest that holds connections and says nothing on them: as many as a host may have take more
//! descriptors than one process has for both ends.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::Stdio,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{net::TcpStream, process::Command, task::JoinSet};

use super::wire::Way;

/// How many more than may be open are tried.
pub(super) const MORE: u32 = 8;

/// How long the host may take to close what it does not want.
const SETTLE: Duration = Duration::from_millis(400);

/// How many connections are opened at once: fewer than wait to be accepted.
const AT_ONCE: usize = 64;

/// What a child is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    /// The host.
    pub(super) to: SocketAddr,
    /// How many connections.
    pub(super) connections: u32,
    /// How many of them from one address.
    pub(super) per_address: u32,
}

/// What became of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Those that the host left open.
    pub(super) open: u32,
    /// Those that it closed.
    pub(super) closed: u32,
}

impl Hold {
    /// Reads `ADDRESS,CONNECTIONS,PER_ADDRESS`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let mut next = || parts.next().ok_or_else(|| "an address and two numbers".to_owned());
        let to = next()?.parse().map_err(|_| "no address".to_owned())?;
        let number = |text: &str| text.parse().map_err(|_| "no number".to_owned());
        Ok(Self { to, connections: number(next()?)?, per_address: number(next()?)? })
    }

    /// Has a child hold them.
    pub(super) async fn in_child(self) -> anyhow::Result<Held> {
        let program = std::env::current_exe().context("cannot tell which program this is")?;
        let Self { to, connections, per_address } = self;
        let mut command = Command::new(program);
        command.args(["selftest", "--hold", &format!("{to},{connections},{per_address}")]).kill_on_drop(true);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().await.context("cannot start a child")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(open)), Some(Ok(closed))) => Ok(Held { open, closed }),
            _ => anyhow::bail!("the child that holds connections failed: {}", output.status),
        }
    }

    /// Holds them, for a moment.
    pub(super) async fn here(self) -> Held {
        let mut open = Vec::new();
        let mut opening = JoinSet::new();
        for n in 0..self.connections {
            let way = Way { to: self.to, from: address_of(n / self.per_address.max(1)) };
            opening.spawn(way.connect());
            if opening.len() >= AT_ONCE {
                open.extend(opening.join_next().await.and_then(Result::ok).and_then(Result::ok));
            }
        }
        while let Some(connection) = opening.join_next().await {
            open.extend(connection.ok().and_then(Result::ok));
        }
        tokio::time::sleep(SETTLE).await;
        let left = open.iter().filter(|stream| is_open(stream)).count();
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        Held { open: left, closed: self.connections.saturating_sub(left) }
    }
}

/// Whether nothing has come, and no end.
fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    stream.try_read(&mut byte).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn address_of(n: u32) -> IpAddr {
    let part = |n: u32| u8::try_from(n % 250).unwrap_or_default() + 1;
    IpAddr::V4(Ipv4Addr::new(127, 40, part(n / 250), part(n)))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn what_a_child_is_told_is_read_whole() {
        let hold = Hold::read("127.0.0.1:80,100,10").unwrap();
        assert_eq!((hold.to.port(), hold.connections, hold.per_address), (80, 100, 10));
        for wrong in ["", "here,1,1", "127.0.0.1:80,1", "127.0.0.1:80,x,1"] {
            assert!(Hold::read(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_the_host_closes_is_told_from_what_it_leaves_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let host = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                // The rest is closed at once.
                if open.len() < 5 {
                    open.push(stream);
                }
            }
        });
        let held = Hold { to, connections: 9, per_address: 2 }.here().await;
        assert_eq!(held, Held { open: 5, closed: 4 });
        host.abort();
    }
}
