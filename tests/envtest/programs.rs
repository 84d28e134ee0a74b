//! The folder, the help, bad flags, and etcd.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Output};

use crate::outside::{muster, text, write};
use crate::plane::{Assets, Running, free_port};
use crate::wait::eventually;

/// The reference's flags, by program.
const FLAGS: [(&str, &str); 2] = [
    ("kube-apiserver", include_str!("../../crates/muster/src/envtest/kube-apiserver.flags")),
    ("etcd", include_str!("../../crates/muster/src/envtest/etcd.flags")),
];

/// Contract: API-36
pub(crate) fn a_folder_is_filled_and_nothing_of_others_is_lost() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let assets = folder.path().join("a/b");
    let kubectl = write(folder.path(), "my-kubectl", "#!/bin/sh\n");
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).expect("a program");
    let install = |more: &[&str]| {
        let place = assets.display().to_string();
        muster(&[&["envtest", "--install", &place, "--kubectl", &kubectl], more].concat())
    };
    let first = install(&[]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("KUBEBUILDER_ASSETS="), "{}", text(&first.stdout));
    let mut names: Vec<String> = fs::read_dir(&assets)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["etcd", "kube-apiserver", "kubectl"]);
    assert_eq!(fs::read(assets.join("kubectl")).expect("kubectl"), b"#!/bin/sh\n");
    assert!(install(&[]).status.success(), "what is there is ours");
    let earlier = fs::read(assets.join("etcd")).expect("etcd");
    fs::remove_file(assets.join("etcd")).expect("a file of the folder");
    fs::write(assets.join("etcd"), [&earlier[..], b"of an earlier version"].concat()).expect("a file of the folder");
    assert!(install(&[]).status.success(), "a program of another version is ours too");
    assert_eq!(fs::metadata(assets.join("etcd")).expect("etcd").len(), earlier.len() as u64);

    let refuses = |more: &[&str], name: &str| {
        let refused = install(more);
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        assert!(said.contains(&format!("{name}: a program of somebody else is there; --force")), "{said}");
    };
    // It speaks of us, and is none of ours.
    let script = "#!/bin/sh\nMUSTER_ENVTEST='nodes=3' exec /opt/etcd \"$@\" # muster envtest\n";
    fs::remove_file(assets.join("etcd")).expect("a file of the folder");
    write(&assets, "etcd", script);
    write(&assets, "etcd.new", "somebody's");
    refuses(&[], "etcd");
    assert_eq!(fs::read_to_string(assets.join("etcd")).expect("etcd"), script);
    fs::remove_file(assets.join("etcd")).expect("a file of the folder");
    symlink("/nowhere/etcd", assets.join("etcd")).expect("a link");
    refuses(&[], "etcd");
    assert!(install(&["--force"]).status.success());
    assert_eq!(fs::symlink_metadata(assets.join("etcd")).expect("etcd").len(), earlier.len() as u64);
    assert_eq!(fs::read(assets.join("etcd.new")).expect("a file"), b"somebody's");

    // A link is replaced neither, and nothing else before that is known.
    let other = write(folder.path(), "other-kubectl", "#!/bin/sh\n");
    fs::remove_file(assets.join("kubectl")).expect("a file of the folder");
    symlink(&other, assets.join("kubectl")).expect("a link");
    fs::remove_file(assets.join("etcd")).expect("a file of the folder");
    refuses(&[], "kubectl");
    assert!(!assets.join("etcd").exists());
    let place = assets.display().to_string();
    let unnamed = muster(&["envtest", "--install", &place]);
    assert!(unnamed.status.success() && assets.join("etcd").exists(), "{}", text(&unnamed.stderr));
    assert_eq!(fs::read_link(assets.join("kubectl")).expect("a link").to_str(), Some(&*other));
    assert!(install(&["--force"]).status.success());
    assert_eq!(fs::read_link(assets.join("kubectl")).expect("a link").to_str(), Some(&*kubectl));
    assert_eq!(fs::read_dir(&assets).expect("the folder").count(), 4, "and nothing is left over");

    let missing = muster(&["envtest", "--install", "/proc/none"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("--install /proc/none: cannot be made"), "{}", text(&missing.stderr));
}

fn run(assets: &Assets, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(assets.program(program));
    command.args(arguments).env_remove("MUSTER_ENVTEST").output().expect("the program runs")
}

/// Contract: API-36
pub(crate) fn the_help_has_every_flag_of_the_reference() {
    let assets = Assets::install();
    for (program, flags) in FLAGS {
        let help = run(&assets, program, &["--help"]);
        assert_eq!(help.status.code(), Some(0), "{program}");
        let help = text(&help.stdout);
        let has = |name: &str| {
            help.lines().any(|line| {
                let line = line.trim_start().trim_start_matches("-v, ");
                line.strip_prefix("--").is_some_and(|line| line.split(['[', ' ']).next() == Some(name))
            })
        };
        let names: Vec<&str> =
            flags.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() > 100, "{program}");
        for name in names {
            assert!(has(name), "{program} --help has no --{name}:\n{help}");
        }
        assert!(!has("insecure-port"), "{program}");
        let version = run(&assets, program, &["--version"]);
        assert!(version.status.success() && text(&version.stdout).contains("+muster-"), "{}", text(&version.stdout));
    }
}

/// Contract: API-36
pub(crate) fn bad_flags_are_refused_by_name() {
    let assets = Assets::install();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let junk = write(folder.path(), "junk.pem", "nothing");
    let half = write(folder.path(), "half.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let tokens = write(folder.path(), "tokens.csv", "a,b\n");
    let server = "kube-apiserver";
    for (program, arguments, expected) in [
        (server, vec!["--secure-prt=1"], "'--secure-prt' found".to_owned()),
        (server, vec!["--secure-prt=1"], "'--secure-port'".to_owned()),
        (server, vec!["serve"], "'serve' found".to_owned()),
        (server, vec!["--secure-port=0"], "--secure-port 0: expected a port from 1 to 65535".to_owned()),
        (server, vec!["--secure-port=70000"], "--secure-port 70000: expected a port".to_owned()),
        (server, vec!["--bind-address=here"], "'--bind-address <ip>': expected an IP address".to_owned()),
        (server, vec!["--event-ttl=soon"], "'--event-ttl <duration>': expected a duration".to_owned()),
        (server, vec!["--min-request-timeout=0"], "--min-request-timeout: expected more than 0".to_owned()),
        (
            server,
            vec!["--service-cluster-ip-range=10.0.0.0"],
            "--service-cluster-ip-range: found \"10.0.0.0\", expected a range of IPv4 addresses".to_owned(),
        ),
        (server, vec!["--service-cluster-ip-range=10.0.0.0/8"], "expected a prefix from /12 to /29".to_owned()),
        (server, vec!["--service-node-port-range=x"], "--service-node-port-range: found \"x\"".to_owned()),
        (server, vec!["--client-ca-file=/nowhere.crt"], "--client-ca-file /nowhere.crt: cannot be read".to_owned()),
        (server, vec!["--client-ca-file", &junk], format!("--client-ca-file {junk}: expected PEM of certificates")),
        (server, vec!["--tls-cert-file", &junk], "--tls-private-key-file is missing".to_owned()),
        (
            server,
            vec!["--tls-cert-file", &junk, "--tls-private-key-file", &junk],
            format!("--tls-cert-file {junk}, --tls-private-key-file {junk}: the certificate: no items found"),
        ),
        (
            server,
            vec!["--service-account-key-file", &junk],
            format!("--service-account-key-file {junk}: expected PEM of a public key, a private key or a certificate"),
        ),
        (
            server,
            vec!["--service-account-key-file", &half],
            format!("--service-account-key-file {half}: CERTIFICATE: "),
        ),
        (
            server,
            vec!["--service-account-signing-key-file", &half],
            "expected PEM of a private key, found CERTIFICATE".to_owned(),
        ),
        (
            server,
            vec!["--service-account-max-token-expiration=59m59s"],
            "--service-account-max-token-expiration: found 3599s, expected 0, or one hour to 2^32 seconds".to_owned(),
        ),
        (
            server,
            vec!["--service-account-max-token-expiration=1193047h"],
            "found 4294969200s, expected 0, or".to_owned(),
        ),
        (server, vec!["--service-account-max-token-expiration=-1h"], "max-token-expiration: ".to_owned()),
        (server, vec!["--token-auth-file", &tokens], format!("--token-auth-file {tokens}: line 1: ")),
        (server, vec!["--authorization-mode=Some"], "--authorization-mode Some: there is no such mode".to_owned()),
        (server, vec!["--authorization-mode=Webhook"], "Webhook: this mode is not here".to_owned()),
        (
            server,
            vec!["--disable-admission-plugins=Nope"],
            "--disable-admission-plugins Nope: admission plugin \"Nope\" is unknown; known are AlwaysAdmit".to_owned(),
        ),
        (
            server,
            vec!["--disable-admission-plugins=Priority", "--enable-admission-plugins=Priority"],
            "--disable-admission-plugins Priority: --enable-admission-plugins enables it".to_owned(),
        ),
        (
            server,
            vec!["--admission-control=Priority", "--disable-admission-plugins=Priority"],
            "--admission-control: --enable-admission-plugins or --disable-admission-plugins is given too".to_owned(),
        ),
        (server, vec!["--admission-control=Nope"], "--admission-control Nope: admission plugin \"Nope\"".to_owned()),
        (server, vec!["--admission-control-config-file=/nowhere"], "-config-file /nowhere: cannot be read".to_owned()),
        (server, vec!["--authorization-config=/nowhere"], "--authorization-config /nowhere: cannot be".to_owned()),
        (server, vec!["--authentication-config", &junk], format!("--authentication-config {junk}: ")),
        (server, vec!["--authorization-mode=RBAC,RBAC"], "--authorization-mode RBAC: found more than once".to_owned()),
        (server, vec!["--feature-gates=Nope=true"], "there is no feature gate Nope in v1.36".to_owned()),
        (server, vec!["--feature-gates=WatchList=tRue"], "WatchList=tRue: expected Gate=true".to_owned()),
        (
            server,
            vec!["--feature-gates=WatchList=false,kube:SidecarContainers=false"],
            "--feature-gates kube:SidecarContainers=false: in v1.36 this feature is locked to true".to_owned(),
        ),
        (server, vec!["--feature-gates=WatchList"], "--feature-gates WatchList: expected Gate=true".to_owned()),
        (server, vec!["--runtime-config=nope/v1=true"], "nope/v1=true: there is no group \"nope\" here".to_owned()),
        (server, vec!["--muster-nodes=-1"], "--muster-nodes=-1: expected a whole number of nodes".to_owned()),
        (server, vec!["--muster-controllers=cronjobs"], "\"cronjobs\" is not in the list of known".to_owned()),
        (server, vec!["--muster-webhook-service-host=a=b"], "expected NAMESPACE/NAME=HOST:PORT".to_owned()),
        ("etcd", vec!["--listen-client-url=http://a:1"], "'--listen-client-urls'".to_owned()),
        ("etcd", vec!["--listen-client-urls=127.0.0.1:1"], "expected a URL such as http://".to_owned()),
        ("etcd", vec!["--listen-client-urls=http://127.0.0.1"], "expected HOST:PORT".to_owned()),
        ("etcd", vec!["--listen-client-urls=https://127.0.0.1:0"], "expected --cert-file and --key-file".to_owned()),
    ] {
        let output = run(&assets, program, &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{program} {arguments:?}: {said}");
        assert!(said.contains(&expected), "{program} {arguments:?}: {said}");
    }
}

/// Contract: API-36
pub(crate) fn what_has_no_effect_is_told() {
    let gates = "--feature-gates=WatchList=false,AllAlpha=false,SidecarContainers=true,PodsAPI=false,PodsAPI=true";
    // The last one ends it.
    let flags =
        [gates, "--audit-log-path=-", "--enable-admission-plugins=EventRateLimit,Priority", "--client-ca-file=/none"];
    let output = run(&Assets::install(), "kube-apiserver", &flags);
    let said = text(&output.stderr);
    for told in ["flags=\"--audit-log-path\"", "gates=\"PodsAPI=true,WatchList=false\"", "plugin=\"EventRateLimit\""] {
        assert_eq!(said.matches(told).count(), 1, "{told}: {said}");
    }
}

/// Contract: API-36
pub(crate) fn etcd_is_healthy_and_stores_nothing() {
    let assets = Assets::install();
    let data = tempfile::tempdir().expect("a temporary folder");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let arguments = [
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        "--listen-peer-urls=http://localhost:0".to_owned(),
        format!("-data-dir={}", data.path().display()),
        "--unsafe-no-fsync=true".to_owned(),
    ];
    let mut etcd = Running::start(&assets.program("etcd"), &arguments.map(OsString::from), &[]);
    let told = etcd.line_with("accepted without effect");
    assert!(told.contains("--data-dir") && told.contains("--unsafe-no-fsync"), "{told}");
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        Ok::<_, String>(answer)
    };
    let answer = eventually("etcd", || ask("/health"));
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("{\"health\":\"true\",\"reason\":\"\"}"),
        "{answer}"
    );
    assert!(ask("/v3/kv/range").expect("an answer").starts_with("HTTP/1.1 404"));
    assert_eq!(etcd.terminate().code(), Some(0));
    assert_eq!(fs::read_dir(data.path()).expect("the folder").count(), 0);
}
