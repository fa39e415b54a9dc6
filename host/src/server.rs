//! The server: what is built of a configuration, the listeners, and the way down.

use std::{net::TcpListener, sync::Arc, time::Duration};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use axum::Router;
use axum_server::Handle;
use tokio::{
    sync::{Notify, broadcast},
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::Admission,
    capabilities::tools::image,
    config::Config,
    metrics::Metrics,
    protocols::{self, Lobby},
    records::{Records, RecordsConfig},
    runtime::{Engine, GuestThreads, Registry, watch::Watcher},
    store::Store,
    tenants::Tenants,
    turn::{Ended, Parts, Turns},
};

mod admin;
mod door;
mod faults;
mod health;
pub mod limits;
mod reload;

pub(crate) use admin::{FailureCard, Failures};
use door::Door;
pub use faults::faults;

/// The largest head of a request, in bytes: what browsers send at most, with room.
const HEAD_MAX: usize = 64 * 1024;

/// How long connections may take to send what waits for them, once their turns are over.
const LAST_BYTES: Duration = Duration::from_secs(3);

/// A server that runs.
pub struct Server {
    address: std::net::SocketAddr,
    lobby: Arc<Lobby>,
    store: Store,
    handle: Handle<std::net::SocketAddr>,
    admin_handle: Handle<std::net::SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    /// Told when there is a new configuration.
    news: Arc<Notify>,
}

impl Server {
    /// Builds everything, loads the plugins, and serves.
    pub async fn start(config: Config, guests: &GuestThreads) -> anyhow::Result<Self> {
        let listener = bind(config.listen)?;
        let admin_listener = config.admin_listen.map(bind).transpose()?;
        std::fs::create_dir_all(&config.plugins)
            .with_context(|| format!("cannot make the plugins folder {}", config.plugins.display()))?;
        let metrics = Metrics::new();
        let store = Store::open(&config.data, &config.sessions, &metrics)?;
        let records = RecordsConfig {
            failures_per_agent: config.failures.per_agent,
            failures_per_tenant: config.failures.per_tenant,
            usage_days: config.usage.days,
        };
        let records = Records::open(&config.data, &records)?;
        let engine = Engine::new(&config).map_err(anyhow::Error::from).context("cannot start the engine")?;
        let engine = engine.with_cache(&config.data.join("code")).context("cannot keep compiled code")?;
        let engine = engine.counting(&metrics);
        let registry = Registry::default();
        let access = Arc::new(ArcSwap::from_pointee(Tenants::new(&config.tenants)));
        let admission = Admission::new(config.server.concurrent_turns, metrics.clone(), records.clone());
        let settings = Arc::new(ArcSwap::from_pointee(config));
        let mut watcher = Watcher::new(&settings, &engine, &registry, &metrics);
        watcher.load().await;

        let keep_text = {
            let settings = Arc::clone(&settings);
            Box::new(move || settings.load().failures.text)
        };
        let turns = Turns::new(Parts {
            lanes: guests.lanes().clone(),
            store: store.clone(),
            records: records.clone(),
            metrics: metrics.clone(),
            http: image::client().context("cannot make an HTTP client")?,
            keep_text,
        });
        let lobby = Arc::new(Lobby {
            settings,
            access,
            registry,
            turns,
            admission,
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
            metrics,
            records,
        });
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let news = watcher.hint();
        let mut tasks = Vec::new();

        let (handle, admin_handle) = (Handle::new(), Handle::new());
        tracing::info!("listening on http://{}", listener.local_addr()?);
        if let Some(listener) = admin_listener {
            let address = listener.local_addr()?;
            tracing::info!("admin listening on http://{address}");
            let routes = admin::routes(&lobby, store.clone(), address.ip());
            tasks.push(serve(&lobby, listener, admin_handle.clone(), routes)?);
        }
        watcher.tell();
        tasks.push(tokio::spawn(watcher.run(stop.clone())));
        let routes = protocols::routes().with_state(Arc::clone(&lobby)).merge(health::routes(&lobby, store.clone()));
        let routes = routes.fallback(health::not_found);
        tasks.push(serve(&lobby, listener, handle.clone(), routes)?);
        Ok(Self { address, lobby, store, handle, admin_handle, stop, tasks, news })
    }

    /// Where clients connect.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.lobby.metrics
    }

    /// Which agents are live.
    pub fn registry(&self) -> &Registry {
        &self.lobby.registry
    }

    /// Tells of every turn that ends from now on.
    pub fn watch_turns(&self) -> broadcast::Receiver<Arc<Ended>> {
        self.lobby.turns.watch()
    }

    /// Goes down: no new turns, running ones to their end or their bound, every stream to its last byte.
    pub async fn stop(self) {
        self.lobby.draining.cancel();
        self.lobby.turns.drain(self.lobby.config().server.drain).await;
        self.lobby.connections.close();
        if tokio::time::timeout(LAST_BYTES, self.lobby.connections.wait()).await.is_err() {
            tracing::warn!(connections = self.lobby.connections.len(), "connections still open; cutting them");
        }
        self.handle.graceful_shutdown(Some(LAST_BYTES));
        // It has no streams to end.
        self.admin_handle.shutdown();
        self.stop.cancel();
        for task in self.tasks {
            if tokio::time::timeout(LAST_BYTES * 2, task).await.is_err() {
                tracing::debug!("a listener did not end in time");
            }
        }
        self.lobby.records.close().await;
        self.store.close().await;
    }
}

fn bind(address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves `routes` on `listener` until `handle` says otherwise.
fn serve(
    lobby: &Arc<Lobby>,
    listener: TcpListener,
    handle: Handle<std::net::SocketAddr>,
    routes: Router,
) -> anyhow::Result<JoinHandle<()>> {
    let request_time = lobby.config().server.request_time;
    let mut server = axum_server::from_tcp(listener)?
        .handle(handle)
        .first_request_timeout(request_time)
        .accept_error_handler(|_, error| tracing::warn!("cannot accept a connection: {error}"))
        .acceptor(Door::new(&lobby.settings, &lobby.metrics));
    server.http_builder().http1().header_read_timeout(request_time).max_buf_size(HEAD_MAX);
    Ok(tokio::spawn(async move {
        if let Err(error) = server.serve(routes.into_make_service()).await {
            tracing::error!("a listener failed: {error}");
        }
    }))
}
