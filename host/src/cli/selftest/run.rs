//! Runs the cases: a server of their own, a tenant for each, the patient ones beside the busy ones, and those that take
//! up everything by themselves.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{
    case::{Case, Pace, Plugin},
    ear::Ear,
    elsewhere,
    ground::{GUEST, Ground, Group, LOOK, LOOKS, Stand, WITNESS},
    guests,
    report::Row,
    settings::{self, Setting},
    verdict::{Evidence, Proof, Trouble, Verdict},
};
use crate::{
    cli::keys,
    config::{BudgetConfig, Config, KeyConfig, TenantConfig},
    ids::AgentId,
    limit::Limit,
    runtime::{GuestThreads, Standing},
    server::Server,
};

/// How many cases that take CPU time run at once.
const BUSY: usize = 2;

/// How long the guests may take to be compiled and loaded.
const LOADING: Duration = Duration::from_mins(1);

/// How long a host may take to see that a crowd of clients is gone.
const GOING: Duration = Duration::from_secs(2);

/// How long the way down may take once all is known.
const STOPPING: Duration = Duration::from_secs(5);

/// How many tenants there are for what takes several: with their parts of the room for bodies they fill all of it.
const CROWD: usize = 5;

/// What runs, and what is told of it.
pub(super) struct Plan {
    /// The operator's configuration.
    pub(super) config: Config,
    /// Its tenants by what bounds them.
    pub(super) groups: Vec<Group>,
    /// The cases.
    pub(super) cases: Vec<Case>,
    /// Figures that no case is about.
    pub(super) others: Vec<Setting>,
    /// The longest that a case may take.
    pub(super) max_wait: Duration,
    /// What hears the guests' own lines.
    pub(super) ear: Ear,
}

impl Plan {
    /// Starts a server for the cases, runs them, and gives back what is said of each; `told` hears it as it comes.
    pub(super) async fn run(self, threads: &GuestThreads, told: impl Fn(&Row)) -> anyhow::Result<Vec<Row>> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let gallery = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen")?;
        let pictures = gallery.local_addr().context("cannot listen")?;
        let silence = listener.local_addr().context("cannot listen")?;
        let Self { config, groups, cases, others, max_wait, ear } = self;
        let (witness_key, witness) = keys::draw();
        let mut tenants = BTreeMap::from([(WITNESS.to_owned(), witness_of(&config, &groups, witness))]);
        let mut crowd = Vec::new();
        for n in 0..CROWD {
            let (tenant, (key, entry)) = (format!("crowd-{n}"), keys::draw());
            tenants.insert(tenant.clone(), witness_of(&config, &groups, entry));
            crowd.push((tenant, key));
        }
        let mut stood = Vec::new();
        for (place, mut case) in cases.into_iter().enumerate() {
            let (key, entry) = keys::draw();
            case.tenant.keys = vec![entry];
            // All that the tools of a case may fetch from.
            case.tenant.http = vec![silence.to_string(), pictures.to_string()];
            let tenant = format!("case-{place}");
            tenants.insert(tenant.clone(), case.tenant.clone());
            stood.push((place, tenant, key, case));
        }
        let config = on(config, tenants, folder.path());
        let bare = crowd.iter().map(|(tenant, _)| (tenant.as_str(), [].as_slice()));
        let cases = stood.iter().map(|(_, tenant, _, case)| (tenant.as_str(), case.plugins));
        lay_out(&config.plugins, cases.chain(bare))?;
        let server = Server::start(config.clone(), threads).await?;
        let ground = Arc::new(Ground {
            address: server.address(),
            metrics: server.metrics().clone(),
            registry: server.registry().clone(),
            plugins: config.plugins.clone(),
            ear,
            silence,
            pictures,
            crowd,
            max_wait,
            witness_key,
            config,
        });
        tokio::spawn(elsewhere::say_nothing(listener));
        tokio::spawn(elsewhere::show_pictures(gallery));
        loaded(&ground).await?;
        let stood = stood.into_iter().map(|(place, tenant, key, case)| {
            let stand = Stand {
                from: address_of(place),
                limits: case.tenant.limits.clone(),
                entry: case.tenant.clone(),
                tenant,
                key,
                ground: Arc::clone(&ground),
            };
            (Job { place, whose: whose(&groups, case.group), case }, stand)
        });
        let mut rows = perform(stood.collect(), &ground, &told).await;
        let end = rows.len();
        rows.extend(others.iter().enumerate().filter_map(|(n, setting)| unmeasured(end + n, setting)));
        rows.sort_by_key(|row| (row.group.unwrap_or(usize::MAX), row.place));
        if timeout(STOPPING, server.stop()).await.is_err() {
            tracing::debug!("the server of the selftest did not stop in time");
        }
        Ok(rows)
    }
}

/// The operator's configuration, changed in nothing but where it stands and whom it serves.
fn on(mut config: Config, tenants: BTreeMap<String, TenantConfig>, folder: &Path) -> Config {
    config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.admin_listen = None;
    config.plugins = folder.join("plugins");
    config.data = folder.join("data");
    config.tenants = tenants;
    // Nothing is left to wait for at its end.
    config.server.drain = Duration::from_millis(1);
    config
}

/// The tenant that no case attacks: as the first of the operator's, with room for every case to ask
/// it something at once.
fn witness_of(config: &Config, groups: &[Group], key: KeyConfig) -> TenantConfig {
    let turns = config.server.concurrent_turns;
    let entry = groups.first().map_or_else(TenantConfig::out_of_the_box, |group| group.config.clone());
    TenantConfig {
        keys: vec![key],
        turns_per_minute: None,
        concurrent_turns: turns,
        budget: BudgetConfig::default(),
        ..entry
    }
}

/// The address that a case's clients come from: its own, so that they count for no other's.
fn address_of(place: usize) -> IpAddr {
    let part = |n: usize| u8::try_from(n % 250).unwrap_or_default() + 1;
    IpAddr::V4(Ipv4Addr::new(127, 20, part(place / 250), part(place)))
}

/// Writes the guests into each tenant's folder.
fn lay_out<'a>(plugins: &Path, tenants: impl Iterator<Item = (&'a str, &'a [Plugin])>) -> anyhow::Result<()> {
    let write = |tenant: &str, agent: &str, bytes: &[u8]| {
        let folder = plugins.join(tenant);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{agent}.wasm")), bytes)
    };
    let guest = guests::guest()?;
    let (endless, trapping) = (guests::endless_start()?, guests::trapping_start()?);
    let none: &[Plugin] = &[];
    for (tenant, others) in tenants.chain([(WITNESS, none)]) {
        write(tenant, GUEST, &guest).context("cannot write a guest")?;
        for other in others {
            let (agent, bytes) = match other {
                Plugin::EndlessStart => ("endless-start", &endless),
                Plugin::TrappingStart => ("trapping-start", &trapping),
            };
            write(tenant, agent, bytes).context("cannot write a guest")?;
        }
    }
    Ok(())
}

/// Waits until every tenant has its guest, or it is known why it has not.
async fn loaded(ground: &Ground) -> anyhow::Result<()> {
    let all = ground.config.tenants.len();
    let wait = async {
        loop {
            let standings = ground.registry.standings();
            let looked = |standing: &Standing| standing.live.is_some() || standing.fault.is_some();
            if standings.iter().filter(|(id, standing)| id.agent == GUEST && looked(standing)).count() >= all {
                return;
            }
            sleep(LOOK).await;
        }
    };
    timeout(LOADING, wait).await.context("the selftest's guests are not loaded in time")
}

/// A case and where its row stands.
struct Job {
    place: usize,
    whose: String,
    case: Case,
}

/// Runs the jobs, each at its pace.
async fn perform(jobs: Vec<(Job, Stand)>, ground: &Ground, told: &impl Fn(&Row)) -> Vec<Row> {
    let server = &ground.config.server;
    let room = server.concurrent_turns.min(server.connections / 2).max(1);
    let (room, busy) = (Arc::new(Semaphore::new(room as usize)), Arc::new(Semaphore::new(BUSY)));
    let most = u32::try_from(room.available_permits()).unwrap_or(u32::MAX);
    let (alone, mut together): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(job, _)| job.case.pace == Pace::Alone);
    // The patient ones first: the longest of them is what everybody waits for.
    together.sort_by_key(|(job, _)| (job.case.pace != Pace::Waits, std::cmp::Reverse(job.case.takes)));
    let mut running = JoinSet::new();
    let mut rows = Vec::new();
    for (job, stand) in together {
        let (room, busy) = (Arc::clone(&room), Arc::clone(&busy));
        running.spawn(async move {
            let _busy = match job.case.pace {
                Pace::Works => busy.acquire_owned().await.ok(),
                Pace::Waits | Pace::Alone => None,
            };
            let _room = room.acquire_many_owned(job.case.turns.min(most)).await;
            job.run(stand).await
        });
    }
    while let Some(row) = running.join_next().await {
        match row {
            Ok(row) => {
                told(&row);
                rows.push(row);
            }
            Err(error) => tracing::error!("a case could not be run: {error}"),
        }
    }
    for (job, stand) in alone {
        let row = job.run(stand).await;
        told(&row);
        rows.push(row);
    }
    rows
}

impl Job {
    /// Runs the case, and says what came of it.
    async fn run(self, stand: Stand) -> Row {
        let Self { place, whose, case } = self;
        let Case { limit, what, key, configured, .. } = &case;
        let (limit, what, group) = (*limit, (*what).to_owned(), case.group);
        let (key, configured) = (key.clone(), configured.clone());
        let evidence = evidence(case, &stand).await;
        let (measured, verdict) = (evidence.measured(), evidence.verdict());
        Row { place, group, whose, limit, what, key, configured, measured, verdict }
    }
}

/// Runs a case, and gathers what is known of it then.
async fn evidence(case: Case, stand: &Stand) -> Evidence {
    let Case { counter, also, takes, overdue, weakness, key, configured, spent, attack, pace, .. } = case;
    let crowded = pace == Pace::Alone;
    let max_wait = stand.ground.max_wait;
    let mut evidence = Evidence {
        proof: None,
        waited: max_wait,
        overdue: overdue <= max_wait,
        next_turn: Ok(()),
        counter,
        rose: Vec::new(),
        also,
        weakness,
    };
    if takes >= max_wait {
        let wait = settings::time(max_wait);
        let why = format!("{key} is {configured}, longer than --max-wait ({wait})");
        evidence.proof = Some(Err(Trouble::Unproven(why)));
        return evidence;
    }
    let ordinary = async || if spent { stand.witness().await } else { stand.ordinary().await };
    if let Err(why) = ordinary().await {
        let id = AgentId { tenant: stand.tenant.clone(), agent: GUEST.to_owned() };
        let fault = stand.ground.registry.standings().remove(&id).and_then(|standing| standing.fault);
        let why = format!("already before it an ordinary turn failed: {}", fault.unwrap_or(why));
        evidence.proof = Some(Err(Trouble::Unproven(why)));
        return evidence;
    }
    let before = Counts::of(stand);
    let began = Instant::now();
    let proof: Option<Proof> = timeout(max_wait, attack(stand.clone())).await.ok();
    evidence.waited = began.elapsed();
    let held = matches!(proof, Some(Ok(_)));
    evidence.proof = proof;
    if !held {
        return evidence;
    }
    evidence.rose = before.rose(stand, counter).await;
    let next = async || match ordinary().await {
        Ok(()) => stand.witness().await,
        failed => failed,
    };
    evidence.next_turn = next().await;
    // The host may not have seen yet that the clients of a case which took up everything are gone.
    let gone = Instant::now() + GOING;
    while crowded && evidence.next_turn.is_err() && Instant::now() < gone {
        sleep(LOOK).await;
        evidence.next_turn = next().await;
    }
    evidence
}

/// The counters, as they stood.
struct Counts {
    tenant: Vec<(Limit, u64)>,
    nobody: Vec<(Limit, u64)>,
}

impl Counts {
    fn of(stand: &Stand) -> Self {
        let metrics = &stand.ground.metrics;
        let tenant = Limit::ALL.iter().map(|limit| (*limit, metrics.hits_of(*limit, &stand.tenant)));
        let nobody = Limit::ALL.iter().map(|limit| (*limit, metrics.hits_of_nobody(*limit)));
        Self { tenant: tenant.collect(), nobody: nobody.collect() }
    }

    /// Those that have risen since, once the one that must is among them, or it is clear that it is not. What counts for
    /// nobody is looked at only for that one: other cases' clients are nobody as well.
    async fn rose(&self, stand: &Stand, wanted: Option<Limit>) -> Vec<Limit> {
        let mut rose = Vec::new();
        for _ in 0..LOOKS {
            let now = Self::of(stand);
            let more = |(before, now): (&(Limit, u64), &(Limit, u64))| (now.1 > before.1).then_some(now.0);
            rose = self.tenant.iter().zip(&now.tenant).filter_map(more).collect();
            let nobody = self.nobody.iter().zip(&now.nobody).filter_map(more);
            rose.extend(nobody.filter(|limit| Some(*limit) == wanted));
            if wanted.is_none_or(|wanted| rose.contains(&wanted)) {
                break;
            }
            sleep(LOOK).await;
        }
        rose
    }
}

/// The heading that a case stands under.
fn whose(groups: &[Group], group: Option<usize>) -> String {
    let server = || "the server and its endpoints".to_owned();
    group.and_then(|index| groups.get(index)).map_or_else(server, Group::title)
}

/// What is said of a figure that no case is about: nothing unless it is too large.
fn unmeasured(place: usize, setting: &Setting) -> Option<Row> {
    let weakness = setting.weakness()?;
    Some(Row {
        place,
        group: None,
        whose: whose(&[], None),
        limit: setting.limit,
        what: "nothing".to_owned(),
        key: setting.key.clone(),
        configured: setting.value.to_string(),
        measured: "not measured".to_owned(),
        verdict: Verdict::Weak(weakness),
    })
}
