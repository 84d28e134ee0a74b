//! `kube-apiserver`, as envtest starts it: the embedded server on a socket, with the controllers that were asked for.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use muster_apiserver::clock::Clock;
use muster_apiserver::generator::Generator;
use muster_apiserver::storage::Retention;
use muster_apiserver::{ApiServer, Options};
use muster_manager::arguments::Concurrency;
use muster_manager::signals::Signals;

use super::extras::{self, Extras};
use super::flags::{Given, Reference};
use super::{access, files, settings, tell_accepted};
use crate::embedded::{Server, Settings};

/// How long a namespace that is deleted is left alone. Suites that were written for servers without a namespace controller
/// finalize theirs themselves, right after the deletion; kube-controller-manager leaves them five seconds for that.
const NAMESPACE_GRACE: Duration = Duration::from_millis(250);

const EXAMPLES: &str = "\
Every other flag of kube-apiserver v1.36 is accepted and has no effect; which ones were given is told in one line of the log.

What is kept is kept in memory, and gone with the process: --etcd-servers is not connected to.

Examples:
  kube-apiserver --secure-port=6443 --cert-dir=./certificates --authorization-mode=RBAC --client-ca-file=ca.crt
  MUSTER_ENVTEST='controllers=gc,namespaces,deployments,replicasets;nodes=3' kube-apiserver --cert-dir=./certificates";

/// What the flags mean that have a meaning here.
const MEANT: &[(&str, &str)] = &[
    ("admission-control", "The plug-ins of admission that run, and no others: what the flags below were before"),
    ("advertise-address", "Where pods would reach the server: in the Endpoints of the Service kubernetes"),
    ("anonymous-auth", "Whether requests without a credential are those of system:anonymous, or else refused"),
    ("api-audiences", "For whom tokens have to be; those of --service-account-issuer where it is not given"),
    ("authentication-config", "A file whose section `anonymous` says which requests need no credential"),
    ("authorization-config", "A file that lists what --authorization-mode does"),
    ("authorization-mode", "RBAC, Node, AlwaysAllow or AlwaysDeny; several of them allow what any of them allows"),
    ("bind-address", "The address to listen on [default: 0.0.0.0]"),
    ("cert-dir", "The folder of apiserver.crt and apiserver.key, which are made there where they are missing"),
    ("client-ca-file", "Whose client certificates are credentials: CN is the user, O the groups"),
    ("default-not-ready-toleration-seconds", "How long pods stay on a node that is not ready [default: 300]"),
    ("default-unreachable-toleration-seconds", "How long pods stay on an unreachable node [default: 300]"),
    ("disable-admission-plugins", "Plug-ins of admission that do not run, by commas"),
    ("enable-admission-plugins", "Plug-ins that run; those of the reference's default do anyway"),
    ("event-ttl", "How long Events stay [default: 1h]"),
    ("feature-gates", "Checked, and told where they differ: each gate is as it is by default in v1.36"),
    ("max-mutating-requests-inflight", "Added to --max-requests-inflight"),
    ("max-requests-inflight", "How many requests are handled at once, with --max-mutating-requests-inflight"),
    ("min-request-timeout", "How many seconds a watch lasts at least that does not say [default: 1800]"),
    ("muster-controllers", "Controllers that run: names by commas, `*`, `-name` [default: gc,namespaces]"),
    ("muster-nodes", "Simulated nodes, on which pods are scheduled and run [default: 0]"),
    ("muster-pod-shutdown", "How long a deleted pod stays terminating at most [default: 0s]"),
    ("muster-pod-startup", "How long a pod takes to become ready: a duration or MIN..MAX [default: 0s]"),
    ("muster-seed", "Draw names, uids and delays from this seed"),
    ("muster-webhook-service-host", "NAMESPACE/NAME=HOST:PORT: where the webhook of a Service is; may be repeated"),
    ("runtime-config", "Which versions are served: api/all, api/beta, GROUP/VERSION =true or =false"),
    ("secure-port", "The port to listen on [default: 6443]"),
    ("service-account-issuer", "Who issues tokens of service accounts; more of them are accepted"),
    ("service-account-jwks-uri", "Where others find the keys of tokens"),
    ("service-account-key-file", "Keys or certificates (PEM) by which tokens are accepted; may be repeated"),
    ("service-account-max-token-expiration", "The longest that a token is good for"),
    ("service-account-signing-key-file", "The private key (PEM) that signs tokens; a new one where it is not given"),
    ("service-cluster-ip-range", "Where cluster IPs are taken from [default: 10.96.0.0/12]"),
    ("service-node-port-range", "Where node ports are taken from [default: 30000-32767]"),
    ("tls-cert-file", "The certificate to show (PEM), with --tls-private-key-file"),
    ("tls-min-version", "VersionTLS12 or VersionTLS13"),
    ("tls-private-key-file", "The key of --tls-cert-file (PEM)"),
    ("token-auth-file", "Bearer tokens to accept, `token,user,uid,\"group1,group2\"` a line"),
    ("v", "How much is logged: 2 tells what happens"),
];

/// The flags that the reference has not.
const OWN: &[(&str, &str)] = &[
    extras::FLAGS[0],
    extras::FLAGS[1],
    extras::FLAGS[2],
    extras::FLAGS[3],
    extras::FLAGS[4],
    ("muster-webhook-service-host", "text"),
];

/// kube-apiserver by its flags.
pub(super) fn reference() -> Reference {
    Reference {
        name: "kube-apiserver",
        about: "Muster's embedded API server, started as kube-apiserver is.",
        version: concat!("Kubernetes v1.36.2+muster-", env!("CARGO_PKG_VERSION")),
        examples: EXAMPLES,
        flags: include_str!("kube-apiserver.flags"),
        meant: MEANT,
        own: OWN,
        single_dash: false,
    }
}

/// Serves until a signal ends it.
pub(super) async fn run(given: &Given, mut signals: Signals) -> Result<()> {
    tell_accepted(given);
    let variable = env::var_os(extras::VARIABLE);
    let variable =
        variable.map(|value| value.into_string().map_err(|_| anyhow::anyhow!("{}: expected text", extras::VARIABLE)));
    let extras = Extras::read(variable.transpose()?.as_deref(), given)?;
    let address = settings::address(given)?;
    let mut options = Options::system().context("this machine gives no randomness")?;
    options.clock = Clock::following();
    options.tokens = settings::users(given)?;
    options.authorization = access::authorization(given)?;
    options.anonymous = access::anonymous(given)?;
    options.service_account_tokens = settings::service_account_tokens(given)?;
    options.settings = settings::settings(given, address)?;
    let tls = settings::tls(given, address, &options.settings.network)?;
    options.retention = Retention::default();
    if let Some(most) = in_flight(given)? {
        options.most_in_flight = most;
    }
    if let Some(seed) = extras.seed {
        options.generator = Generator::seeded(seed);
    }
    let kinds = settings::kinds(given)?;
    let listener = std::net::TcpListener::bind(address).with_context(|| {
        format!("--bind-address {} --secure-port {}: cannot be listened on", address.ip(), address.port())
    })?;
    let wanted = Settings {
        nodes: extras.nodes,
        pod_startup: extras.pod_startup,
        pod_shutdown: extras.pod_shutdown,
        namespace_grace: NAMESPACE_GRACE,
        controllers: extras.controllers,
        concurrency: Concurrency::default(),
        seed: extras.seed,
        ..Settings::default()
    };
    let server = Server::with(&wanted, ApiServer::with_kinds(kinds, options));
    if let Some(authorities) = files::named(given, "client-ca-file")? {
        server.publish_client_ca(&String::from_utf8_lossy(&authorities));
    }
    let endpoint = server.listen(listener, &tls, &server.live_faults(false))?;
    tracing::info!(url = endpoint.url, "serving");
    let mut embedded = server.start(None).await?;
    tokio::select! {
        biased;
        error = embedded.failed() => Err(error),
        () = signals.next() => Ok(()),
    }
}

/// How many requests may be handled at once; `None` for the usual number.
fn in_flight(given: &Given) -> Result<Option<usize>> {
    let flags = ["max-requests-inflight", "max-mutating-requests-inflight"];
    if flags.iter().all(|flag| given.text(flag).is_none()) {
        return Ok(None);
    }
    let mut sum = 0_usize;
    for (flag, usual) in flags.into_iter().zip([400, 200]) {
        let count = match given.text(flag) {
            Some(text) => {
                text.parse().with_context(|| format!("--{flag} {text}: expected a whole number, 0 or more"))?
            }
            None => usual,
        };
        sum = sum.saturating_add(count);
    }
    if sum == 0 {
        bail!("--{} and --{}: one of them has to be more than 0", flags[0], flags[1]);
    }
    Ok(Some(sum))
}
