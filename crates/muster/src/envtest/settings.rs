//! What the flags of kube-apiserver mean for the embedded server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context as _, Result, bail};
use muster_apiserver::access::authentication::token_file;
use muster_apiserver::access::tokens::keys::{PublicKey, SigningKey};
use muster_apiserver::access::{User, tokens};
use muster_apiserver::admission::plugins::{Named, Plugins};
use muster_apiserver::kinds::{self, Kind};
use muster_apiserver::registry::services::network::Network;
use muster_apiserver::registry::settings::Settings;
use muster_apiserver::tls::Tls;
use muster_apiserver::webhook::hosts::ServiceHost;
use muster_runtime::duration::parse_duration;

use super::files;
use super::flags::{Given, read_bool};

/// All feature gates, one a line: the name, the default, and whether it is locked to that.
const GATES: &str = include_str!("feature-gates.txt");
/// What kube-apiserver listens on where nobody says otherwise.
const PORT: u16 = 6443;
/// The pair of files in `--cert-dir`.
const PAIR: [&str; 2] = ["apiserver.crt", "apiserver.key"];

/// Where the server listens.
pub(super) fn address(given: &Given) -> Result<SocketAddr> {
    let ip = match given.text("bind-address") {
        Some(ip) => ip.parse().context("--bind-address")?,
        None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let port = match given.text("secure-port") {
        Some(port) => port.parse().ok().filter(|port| *port > 0).with_context(|| {
            format!("--secure-port {port}: expected a port from 1 to 65535; it cannot be switched off with 0")
        })?,
        None => PORT,
    };
    Ok(SocketAddr::new(ip, port))
}

/// The certificate that the server shows, and whose certificates it takes of clients.
pub(super) fn tls(given: &Given, address: SocketAddr, network: &Network) -> Result<Tls> {
    let only_1_3 = match given.text("tls-min-version") {
        None | Some("VersionTLS10" | "VersionTLS11" | "VersionTLS12") => false,
        Some("VersionTLS13") => true,
        Some(other) => {
            bail!("--tls-min-version {other}: expected VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13")
        }
    };
    let (what, certificate, key) = pair(given, address, network)?;
    let tls = match files::named(given, "client-ca-file")? {
        Some(authorities) => {
            let file = given.text("client-ca-file").unwrap_or_default();
            // What is wrong with the authorities is told apart from what is wrong with the pair.
            let sound = Tls::from_pem(&certificate, &key, only_1_3).context(what)?;
            drop(sound);
            Tls::from_pem_for(&certificate, &key, only_1_3, &authorities)
                .with_context(|| format!("--client-ca-file {file}: expected PEM of certificates"))?
        }
        None => Tls::from_pem(&certificate, &key, only_1_3).context(what)?,
    };
    Ok(tls)
}

/// The certificate and its key, and where they are from: the files that are named, else those of `--cert-dir`, which
/// are made where they are missing.
fn pair(given: &Given, address: SocketAddr, network: &Network) -> Result<(String, Vec<u8>, Vec<u8>)> {
    let named = ["tls-cert-file", "tls-private-key-file"].map(|flag| given.text(flag));
    match named {
        [Some(certificate), Some(key)] => {
            let what = format!("--tls-cert-file {certificate}, --tls-private-key-file {key}");
            return Ok((what, files::read("tls-cert-file", certificate)?, files::read("tls-private-key-file", key)?));
        }
        [None, None] => {}
        [certificate, _] => {
            let missing = if certificate.is_some() { "--tls-private-key-file" } else { "--tls-cert-file" };
            bail!("--tls-cert-file and --tls-private-key-file are given together or not at all; {missing} is missing");
        }
    }
    let made = || {
        let addresses = crate::embedded::addresses(address, network);
        Tls::generate_pem(&addresses).context("the server's certificate")
    };
    let Some(folder) = given.text("cert-dir") else {
        let (certificate, key) = made()?;
        return Ok(("the server's certificate".to_owned(), certificate.into_bytes(), key.into_bytes()));
    };
    let folder = Path::new(folder);
    let [certificate, key] = PAIR.map(|name| folder.join(name));
    let what = format!("--cert-dir {}: {} and {}", folder.display(), PAIR[0], PAIR[1]);
    if !certificate.exists() && !key.exists() {
        let (certificate_pem, key_pem) = made()?;
        let write = || -> io::Result<()> {
            fs::create_dir_all(folder)?;
            fs::write(&certificate, &certificate_pem)?;
            write_secret(&key, &key_pem)
        };
        write().with_context(|| format!("{what}: cannot be made"))?;
    }
    Ok((what, files::read("cert-dir", &certificate)?, files::read("cert-dir", &key)?))
}

/// Writes a file that only its owner can read.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// How tokens of service accounts are signed, and whose are accepted.
pub(super) fn service_account_tokens(given: &Given) -> Result<tokens::Options> {
    let mut options = tokens::Options::default();
    if let Some((first, others)) = given.all("service-account-issuer").split_first() {
        options.issuers = (first.clone(), others.to_vec());
    }
    for issuer in given.all("service-account-issuer") {
        if issuer.is_empty() {
            bail!("--service-account-issuer: found an empty one, expected a text that identifies the issuer");
        }
    }
    options.audiences = given.list("api-audiences").map(str::to_owned).collect();
    options.keys_uri = given.text("service-account-jwks-uri").map(str::to_owned);
    let flag = "service-account-max-token-expiration";
    let longest = given.text(flag).map(parse_duration).transpose().with_context(|| format!("--{flag}"))?;
    if let Some(longest) = longest.filter(|longest| !longest.is_zero()) {
        if !(Duration::from_secs(3600)..=Duration::from_secs(1 << 32)).contains(&longest) {
            bail!("--{flag}: found {longest:?}, expected 0, or one hour to 2^32 seconds");
        }
        options.longest = longest.as_secs().try_into().ok();
    }
    let flag = "service-account-signing-key-file";
    if let Some(file) = given.text(flag) {
        let key = SigningKey::from_pem(&files::text(flag, file)?).with_context(|| format!("--{flag} {file}"))?;
        options.signing = Some(key);
    }
    let flag = "service-account-key-file";
    for file in given.all(flag).iter().filter(|file| !file.is_empty()) {
        let keys = PublicKey::all_from_pem(&files::text(flag, file)?).with_context(|| format!("--{flag} {file}"))?;
        options.accepted.extend(keys);
    }
    Ok(options)
}

/// The users of the token file.
pub(super) fn users(given: &Given) -> Result<HashMap<String, Arc<User>>> {
    let flag = "token-auth-file";
    let Some(file) = given.text(flag) else { return Ok(HashMap::new()) };
    token_file::read(&files::text(flag, file)?).with_context(|| format!("--{flag} {file}"))
}

/// What the server is told of its cluster.
pub(super) fn settings(given: &Given, address: SocketAddr) -> Result<Settings> {
    let mut settings = Settings { plugins: plugins(given)?, network: network(given, address)?, ..Settings::default() };
    gates(given)?;
    let duration = |flag: &str| given.text(flag).map(parse_duration).transpose().with_context(|| format!("--{flag}"));
    settings.event_lifetime = duration("event-ttl")?;
    let seconds = |flag: &str, default: i64| match given.text(flag) {
        Some(text) => text.parse::<i64>().with_context(|| format!("--{flag} {text}")),
        None => Ok(default),
    };
    let [not_ready, unreachable] = settings.toleration_seconds;
    settings.toleration_seconds = [
        seconds("default-not-ready-toleration-seconds", not_ready)?,
        seconds("default-unreachable-toleration-seconds", unreachable)?,
    ];
    let shortest = seconds("min-request-timeout", 1800)?;
    let shortest = u64::try_from(shortest).ok().filter(|seconds| *seconds > 0);
    settings.shortest_watch = Duration::from_secs(shortest.context("--min-request-timeout: expected more than 0")?);
    settings.webhook_hosts = given
        .all("muster-webhook-service-host")
        .iter()
        .map(|text| text.parse::<ServiceHost>().context("--muster-webhook-service-host"))
        .collect::<Result<_>>()?;
    Ok(settings)
}

/// The plug-ins of admission that run.
fn plugins(given: &Given) -> Result<Plugins> {
    // The first is of old: the plug-ins that it names run, and no others.
    let [only, on, off] = ["admission-control", "enable-admission-plugins", "disable-admission-plugins"];
    if given.is_set(only) && (given.is_set(on) || given.is_set(off)) {
        bail!("--{only}: --{on} or --{off} is given too, expected either");
    }
    let on = if given.is_set(only) { only } else { on };
    // Nothing here is configured by it, which is told; it must be there all the same.
    files::named(given, "admission-control-config-file")?;
    let enabled: BTreeSet<&str> = given.list(on).collect();
    let mut here = BTreeSet::new();
    for name in &enabled {
        match name.parse().with_context(|| format!("--{on} {name}"))? {
            Named::Here(plugin) => drop(here.insert(plugin)),
            Named::Elsewhere(name) => tracing::warn!(
                plugin = name,
                "an admission plugin that is enabled is not here: it refuses and changes nothing"
            ),
        }
    }
    let mut plugins = if on == only { Plugins::only(&here) } else { Plugins::default() };
    for name in given.list(off) {
        if enabled.contains(name) {
            bail!("--{off} {name}: --{on} enables it");
        }
        if let Named::Here(plugin) = name.parse().with_context(|| format!("--{off} {name}"))? {
            plugins.disable(plugin);
        }
    }
    Ok(plugins)
}

/// Which addresses and ports Services are given, and where pods would reach the server.
fn network(given: &Given, address: SocketAddr) -> Result<Network> {
    let mut network = Network::default();
    if let Some(range) = given.text("service-cluster-ip-range") {
        network = network.with_addresses(range).context("--service-cluster-ip-range")?;
    }
    if let Some(range) = given.text("service-node-port-range") {
        network = network.with_node_ports(range).context("--service-node-port-range")?;
    }
    let advertised =
        given.text("advertise-address").map(str::parse::<IpAddr>).transpose().context("--advertise-address")?;
    // Endpoints on a loopback address are not valid.
    let usable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    let ip = [advertised, Some(address.ip())].into_iter().flatten().find(usable).unwrap_or(network.server.0);
    network.server = (ip, address.port());
    Ok(network)
}

/// Checks the names and values of feature gates. None of them can be switched, which is told of those that should be.
fn gates(given: &Given) -> Result<()> {
    let flag = "feature-gates";
    let mut switched = BTreeMap::new();
    for entry in given.list(flag) {
        let expected = || format!("--{flag} {entry}: expected Gate=true or Gate=false");
        let (name, value) = entry.strip_prefix("kube:").unwrap_or(entry).split_once('=').with_context(expected)?;
        let wanted = read_bool(value).with_context(expected)?;
        let default = GATES.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let default = default.with_context(|| format!("--{flag} {entry}: there is no feature gate {name} in v1.36"))?;
        let is_on = default.starts_with("true");
        if wanted != is_on && default.ends_with("locked") {
            bail!("--{flag} {entry}: in v1.36 this feature is locked to {is_on}");
        }
        switched.insert(name, (wanted, is_on));
    }
    switched.retain(|_, (wanted, is_on)| wanted != is_on);
    if !switched.is_empty() {
        let gates: Vec<String> = switched.iter().map(|(name, (wanted, _))| format!("{name}={wanted}")).collect();
        tracing::warn!(gates = gates.join(","), "feature gates cannot be switched here: they are as by default");
    }
    Ok(())
}

/// The kinds that are served, by `--runtime-config`.
pub(super) fn kinds(given: &Given) -> Result<Vec<Arc<dyn Kind>>> {
    let flag = "runtime-config";
    let mut all = kinds::all();
    let mut rules = Vec::new();
    for entry in given.list(flag) {
        let (key, value) = entry.split_once('=').unwrap_or((entry, "true"));
        let on = match value.to_lowercase().as_str() {
            "true" | "t" | "1" | "" => true,
            "false" | "f" | "0" => false,
            _ => bail!("--{flag} {entry}: expected true or false after {key}="),
        };
        let group = key.rsplit_once('/').map_or("", |(group, _)| group).split('/').next().unwrap_or_default();
        if group != "api" && !all.iter().any(|kind| kind.resource().group == group) {
            bail!("--{flag} {entry}: there is no group {group:?} here; expected api/all, v1, or GROUP/VERSION");
        }
        rules.push((key, on));
    }
    // What names one kind goes before its version, and that before all.
    rules.sort_by_key(|(key, _)| key.matches('/').count() + usize::from(!key.starts_with("api/")));
    all.retain(|kind| {
        let resource = kind.resource();
        let version = resource.api_version();
        let whole = format!("{version}/{}", resource.plural);
        let stable = if version.contains("alpha") {
            "api/alpha"
        } else if version.contains("beta") {
            "api/beta"
        } else {
            "api/ga"
        };
        let means = |key: &str| key == "api/all" || key == stable || key == version || key == whole;
        rules.iter().rev().find(|(key, _)| means(key)).is_none_or(|(_, on)| *on)
    });
    Ok(all)
}
