//! `muster up`: a cluster in this process.
//!
//! The order is what keeps promises: manifests are read before anything starts, objects are created before
//! anybody else can reach the server, and only then is the kubeconfig written. Whatever fails before that
//! point leaves nothing behind, in the folder of `--data-dir` neither: it is written to once all objects are created.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use muster_apiserver::access::authentication::token_file;
use muster_apiserver::access::{User, authorizer};
use muster_apiserver::clock::Clock;
use muster_apiserver::registry::services::network::Network;
use muster_apiserver::storage::Retention;
use muster_apiserver::tls::Tls;
use muster_cluster::embedded::known_controllers;
use muster_manager::signals::Signals;
use muster_runtime::client::Client;
use muster_runtime::group::ELECTION_NAMESPACE;
use muster_runtime::manager;
use tokio::time::Instant;

use crate::apply::{Applied, apply};
use crate::cli::{AuthorizationMode, Up};
use crate::data::Data;
use crate::embedded::{Embedded, Server, Settings, addresses};
use crate::faults::endpoint::Endpoint;
use crate::faults::plan::Plan;
use crate::follow::Follow;
use crate::page::{self, Local, Served, Shown};
use crate::parent::Parent;
use crate::progress::{Display, Ending, Serving};
use crate::{kubeconfig, manifest, reason};

/// Where the server listens, where nothing says so.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443);

/// How many managers there are for the tour, where nothing says so.
const TOUR_MANAGERS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// How long after that what stands still is looked at again: of many pods that is a long list.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Runs `muster up`.
///
/// # Errors
/// Where a manifest is bad, the port cannot be had, a file cannot be written, or with `--until-ready` time ran out or
/// a rollout exceeded its progress deadline.
pub(crate) async fn up(arguments: &Up) -> Result<()> {
    let mut display = Display::new(arguments.output);
    let outcome = bring_up(arguments, &mut display).await;
    if let Err(error) = &outcome {
        display.failed(error);
    }
    outcome
}

async fn bring_up(arguments: &Up, display: &mut Display) -> Result<()> {
    let begun = Instant::now();
    // From here on a signal asks for an orderly end.
    let mut end = End { signals: Signals::listen()?, parent: arguments.exit_with_parent.then(Parent::now) };
    let controllers = manager::select(&arguments.controllers, &known_controllers()).context("--controllers")?;
    // The last step of the tour is a failover.
    let managers = arguments.managers.unwrap_or(if arguments.page.tour { TOUR_MANAGERS } else { NonZeroUsize::MIN });
    if managers.get() > 1 && manager::CONTROLLERS.iter().all(|ours| !controllers.contains(ours)) {
        bail!("--managers {managers}: --controllers chooses none of those that they would run");
    }
    let mut documents = Vec::new();
    for file in &arguments.files {
        // Standard input ends when whoever writes it likes.
        let file = file.clone();
        let read = async move { tokio::task::spawn_blocking(move || manifest::read(&file)).await? };
        documents.extend(end.signals.during(read).await?);
    }
    let faults = arguments.faults.as_deref().map(Plan::of).transpose().context("--faults")?;
    kubeconfig::replaceable(&arguments.kubeconfig).await?;
    let mut data = Data::open(&arguments.data)?;
    let listen = arguments.listen.or(data.identity.address).unwrap_or(LISTEN);
    let listener = TcpListener::bind(listen).map_err(|e| cannot_listen(listen, &e))?;
    if let Err(error) = data.listens(listener.local_addr().context("the listener")?) {
        // As on a full disk: what is there can be read all the same.
        tracing::warn!("{error:#}: the next start takes another port");
    }
    let page = &arguments.page;
    let page_listener = page.page.then(|| page::listen("--page-listen", page.page_listen)).transpose()?;
    let settings = Settings {
        nodes: arguments.nodes,
        zones: arguments.zones,
        pod_startup: arguments.pod_startup,
        pod_shutdown: arguments.pod_shutdown,
        namespace_grace: Duration::ZERO,
        controllers,
        concurrency: arguments.concurrency,
        managers,
        seed: arguments.seed,
        retention: Retention { window: arguments.history, bytes: arguments.history_bytes },
        authorization: match arguments.authorization_mode {
            AuthorizationMode::Rbac => authorizer::Mode::Rbac,
            AuthorizationMode::AlwaysAllow => authorizer::Mode::AlwaysAllow,
        },
        webhook_hosts: arguments.webhook_hosts.iter().cloned().collect(),
        tokens: arguments.token_auth_file.as_deref().map(read_tokens).transpose()?.unwrap_or_default(),
    };
    let authority = data.identity.authority().context("the certificate authority")?;
    let server = Server::new(&settings, Clock::following(), std::mem::take(&mut data.kept))?;
    let disk = server.disk();
    let tls = Tls::signed_by(&authority, &addresses(listen, &Network::default()))?;
    let applied = apply(&server.client, documents, data.goes_on).await?;
    disk.write_to_disk().await.context("nothing was applied")?;
    let live = server.live_faults(arguments.data.data_dir.is_some());
    if let Some(path) = &arguments.faults_log {
        live.log_to(path)?;
    }
    live.take_up(faults.unwrap_or_default()).context("--faults")?;
    let endpoint = server.listen(listener, &tls, &live)?;
    let written = kubeconfig::write(&arguments.kubeconfig, &endpoint.url, tls.ca_pem(), &endpoint.token);
    end.signals.during(written).await?;
    let mut embedded = server.start(Some(authority)).await?;
    Endpoint::open(&disk, embedded.stage(), &live);
    display.serving(Serving {
        kubeconfig: std::path::absolute(&arguments.kubeconfig).context("--kubeconfig")?,
        url: endpoint.url.clone(),
        ca: tls.ca_pem().to_owned(),
        token: endpoint.token.clone(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
        nodes: settings.nodes,
        controllers: settings.controllers.iter().map(|controller| controller.name).collect(),
        until_ready: arguments.until_ready,
    });
    let client = embedded.client.clone();
    let mut served = page_listener.map(|listener| serve_page(listener, arguments, &embedded)).transpose()?;
    let outcome = tokio::select! {
        biased;
        error = embedded.failed() => Err(error),
        outcome = run(arguments, &client, &applied, begun, display, &mut served, &mut end) => outcome,
    };
    if let Some(served) = served {
        served.close().await;
    }
    embedded.stop().await;
    endpoint.close().await;
    disk.let_go_of_disk();
    outcome
}

fn read_tokens(file: &Path) -> Result<HashMap<String, Arc<User>>> {
    let read = || -> Result<_> { Ok(token_file::read(&fs::read_to_string(file)?)?) };
    read().with_context(|| format!("--token-auth-file {}", file.display()))
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!(
            "--listen {address}: the port is in use by another program; name another, or port 0 for any free one"
        ),
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("--listen {address}: this user may not use that port; ports from 1024 up are free to all")
        }
        _ => anyhow::anyhow!("--listen {address}: {error}"),
    }
}

/// Shows progress until the workloads are available, time is up, or somebody ends it.
async fn run(
    arguments: &Up,
    client: &Client,
    applied: &[Applied],
    begun: Instant,
    display: &mut Display,
    page: &mut Option<Served>,
    end: &mut End,
) -> Result<()> {
    let controlled = !display.controllers().is_empty();
    for object in applied {
        display.applied(object);
    }
    let mut follow = Follow::new(client.clone(), applied);
    let deadline = begun + arguments.timeout;
    let mut told = false;
    let mut stalls = Stalls::default();
    let mut look = Instant::now() + reason::STALLED;
    loop {
        if follow.is_complete() && !told {
            told = true;
            display.complete(&follow, begun.elapsed());
        }
        display.written()?;
        if arguments.until_ready && follow.is_complete() {
            return Ok(());
        }
        if arguments.until_ready && follow.has_exceeded_a_deadline() {
            let what = "a rollout exceeded its progress deadline".to_owned();
            return Err(not_ready(what, client, &follow, controlled).await);
        }
        tokio::select! {
            biased;
            ending = end.next() => {
                display.ending(ending);
                return stopped(arguments);
            }
            () = tokio::time::sleep_until(deadline), if arguments.until_ready => {
                let what = format!("not ready after {:?}", arguments.timeout);
                return Err(not_ready(what, client, &follow, controlled).await);
            }
            (workload, progress) = follow.next() => {
                display.update(workload, progress);
                look = Instant::now() + reason::STALLED;
            }
            () = tokio::time::sleep_until(look), if !follow.is_complete() => {
                stalls.tell(client, &follow, controlled, display).await;
                look = Instant::now() + LOOK_AGAIN;
            }
            Some(link) = next_link(page) => display.page(&link),
            () = display.catch_up() => {}
        }
    }
}

/// Serves the page of a running cluster.
fn serve_page(listener: TcpListener, arguments: &Up, embedded: &Embedded) -> Result<Served> {
    let shown = Shown {
        client: embedded.client.clone(),
        insight: Some(Arc::new(Local(embedded.teller()))),
        stage: Some(Arc::new(embedded.stage().clone())),
        reach: page::reach(&arguments.kubeconfig),
        election: ELECTION_NAMESPACE.to_owned(),
        tour: arguments.page.tour,
    };
    page::serve(listener, shown)
}

/// The next link of the page; never one where there is no page.
async fn next_link(page: &mut Option<Served>) -> Option<String> {
    match page {
        Some(page) => page.link().await,
        None => future::pending().await,
    }
}

/// What was said of workloads that stand still, by their titles.
#[derive(Default)]
struct Stalls(BTreeMap<String, String>);

impl Stalls {
    /// Says of each workload that is not complete what it waits for, unless that was said last.
    async fn tell(&mut self, client: &Client, follow: &Follow, controlled: bool, display: &Display) {
        for (workload, progress) in follow.incomplete() {
            let reason = reason::reason(client, workload, progress, controlled).await;
            let title = workload.title();
            if self.0.get(&title) != Some(&reason) {
                display.waiting(workload, &reason);
                self.0.insert(title, reason);
            }
        }
    }
}

/// What ends a cluster that nothing is wrong with.
struct End {
    signals: Signals,
    /// The process that it lives no longer than.
    parent: Option<Parent>,
}

impl End {
    /// Waits for it.
    async fn next(&mut self) -> Ending {
        let parent = self.parent;
        let gone = async {
            match parent {
                Some(parent) => parent.gone().await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.signals.next() => Ending::Signal,
            () = gone => Ending::ParentGone,
        }
    }
}

/// Ended by a person: an error only for one who waits for readiness.
fn stopped(arguments: &Up) -> Result<()> {
    if arguments.until_ready {
        bail!("interrupted before every workload was available");
    }
    Ok(())
}

async fn not_ready(what: String, client: &Client, follow: &Follow, controlled: bool) -> anyhow::Error {
    let mut lines = vec![format!("{what}:")];
    for (workload, progress) in follow.incomplete() {
        let reason = reason::reason(client, workload, progress, controlled).await;
        lines.push(format!("  {}: {reason}", workload.title()));
    }
    anyhow::anyhow!(lines.join("\n"))
}
