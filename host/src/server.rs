//! The server: what is built of a configuration, the listeners, and the way down.

use std::{net::TcpListener, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use axum_server::Handle;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::Admission,
    capabilities::tools::{self, image},
    config::Config,
    metrics::Metrics,
    protocols::{self, Lobby},
    runtime::{Engine, GuestThreads, MEMORY_MAX, Registry, TURNS_MAX, watch::Watcher},
    store::Store,
    tenants::Tenants,
    turn::Turns,
};

mod admin;
mod door;
mod health;

use door::Door;

/// The largest head of a request, in bytes: what browsers send at most, with room.
const HEAD_MAX: usize = 64 * 1024;

/// How long connections may take to send what waits for them, once their turns are over.
const LAST_BYTES: Duration = Duration::from_secs(3);

/// A server that runs.
pub struct Server {
    address: std::net::SocketAddr,
    metrics: Metrics,
    lobby: Arc<Lobby>,
    store: Store,
    handle: Handle<std::net::SocketAddr>,
    admin_handle: Handle<std::net::SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// What is wrong with a configuration as a whole.
pub fn faults(config: &Config) -> Vec<String> {
    let mut faults = Vec::new();
    let open = config.tenants.iter().filter(|(_, tenant)| tenant.keys.is_empty()).map(|(name, _)| name);
    if !config.listen.ip().is_loopback() {
        for name in open {
            faults.push(format!(
                "listen: {} is not a loopback address, and tenant `{name}` has no key; hint: make one with `hostelry \
                 keys new {name}`, or listen on 127.0.0.1",
                config.listen
            ));
        }
    }
    if config.server.concurrent_turns > TURNS_MAX {
        faults.push(format!("server.concurrent-turns: more than {TURNS_MAX}, which is what one process has room for"));
    }
    for (name, tenant) in config.tenants.iter().filter(|(_, tenant)| tenant.limits.memory > MEMORY_MAX) {
        let memory = tenant.limits.memory;
        faults.push(format!("limits.memory: {memory} bytes for tenant `{name}`; a guest can address 4GiB"));
    }
    for (name, tenant) in &config.tenants {
        for pattern in tenant.tools.iter().filter(|pattern| !tools::is_known(pattern)) {
            let all = tools::paths().join(", ");
            faults.push(format!(
                "tenants.{name}.tools: {pattern:?} is no tool; there are {all}, and `*` stands for any text"
            ));
        }
        let host = |entry: &&String| entry.is_empty() || entry.contains(|c: char| c == '/' || c.is_whitespace());
        for entry in tenant.http.iter().filter(host) {
            faults.push(format!("tenants.{name}.http: {entry:?} is no host; write it like \"images.example.com\""));
        }
    }
    for (key, folder) in [("plugins", &config.plugins), ("data", &config.data)] {
        if folder.as_os_str().is_empty() {
            faults.push(format!("{key}: names no folder"));
        }
    }
    if let Some(admin) = config.admin_listen.filter(|admin| !admin.ip().is_loopback()) {
        faults.push(format!("admin-listen: {admin} is not a loopback address"));
    }
    faults
}

impl Server {
    /// Builds everything, loads the plugins, and serves.
    pub async fn start(config: Config, guests: &GuestThreads) -> anyhow::Result<Self> {
        let listener = bind(config.listen)?;
        let admin_listener = config.admin_listen.map(bind).transpose()?;
        std::fs::create_dir_all(&config.plugins)
            .with_context(|| format!("cannot make the plugins folder {}", config.plugins.display()))?;
        let store = Store::open(&config.data, &config.sessions)?;
        let engine = Engine::new(&config).map_err(anyhow::Error::from).context("cannot start the engine")?;
        let engine = engine.with_cache(&config.data.join("code")).context("cannot keep compiled code")?;
        let registry = Registry::default();
        let names = config.tenants.keys().cloned().collect();
        let mut watcher = Watcher::new(&config.plugins, names, &config.reload, &engine, &registry);
        watcher.load().await;

        let guests = guests.handle().context("the guests' threads have ended")?.clone();
        let http = image::client().context("cannot make an HTTP client")?;
        let lobby = Arc::new(Lobby {
            tenants: Tenants::new(&config.tenants),
            registry,
            turns: Turns::new(guests, store.clone(), http),
            admission: Admission::new(config.server.concurrent_turns),
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
            config: Arc::new(config),
        });
        let (address, metrics) = (listener.local_addr()?, Metrics::new());
        let stop = CancellationToken::new();
        let mut tasks = Vec::new();

        let (handle, admin_handle) = (Handle::new(), Handle::new());
        tracing::info!("listening on http://{}", listener.local_addr()?);
        if let Some(listener) = admin_listener {
            tracing::info!("admin listening on http://{}", listener.local_addr()?);
            tasks.push(serve(&lobby, listener, admin_handle.clone(), admin::routes(&lobby, store.clone()))?);
        }
        watcher.tell();
        tasks.push(tokio::spawn(watcher.run(stop.clone())));
        let routes = protocols::routes().with_state(Arc::clone(&lobby)).merge(health::routes(&lobby, store.clone()));
        tasks.push(serve(&lobby, listener, handle.clone(), routes)?);
        Ok(Self { address, metrics, lobby, store, handle, admin_handle, stop, tasks })
    }

    /// Where clients connect.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Which agents are live.
    pub fn registry(&self) -> &Registry {
        &self.lobby.registry
    }

    /// Goes down: no new turns, running ones to their end or their bound, every stream to its last byte.
    pub async fn stop(self) {
        self.lobby.draining.cancel();
        self.lobby.turns.drain(self.lobby.config.server.drain).await;
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
    let limits = &lobby.config.server;
    let mut server = axum_server::from_tcp(listener)?
        .handle(handle)
        .first_request_timeout(limits.request_time)
        .accept_error_handler(|_, error| tracing::warn!("cannot accept a connection: {error}"))
        .acceptor(Door::new(limits));
    server.http_builder().http1().header_read_timeout(limits.request_time).max_buf_size(HEAD_MAX);
    let routes = routes.fallback(health::not_found);
    Ok(tokio::spawn(async move {
        if let Err(error) = server.serve(routes.into_make_service()).await {
            tracing::error!("a listener failed: {error}");
        }
    }))
}
