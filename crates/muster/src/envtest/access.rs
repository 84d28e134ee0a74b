//! Who is let in without a credential and which requests are allowed, by flags or by the configuration files that they
//! name.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_apiserver::access::authentication::Anonymous;
use muster_apiserver::access::authorizer::Mode;
use muster_runtime::yaml;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::files;
use super::flags::Given;

/// The group of the configuration files.
const GROUP: &str = "apiserver.config.k8s.io/";
/// The modes that are here.
const MODES: &str = "RBAC, Node, AlwaysAllow, AlwaysDeny";

/// Which requests without a credential are handled; `None` leaves it to the server.
pub(super) fn anonymous(given: &Given) -> Result<Option<Anonymous>> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Authentication {
        jwt: Vec<IgnoredAny>,
        anonymous: Option<Section>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Section {
        #[serde(default)]
        enabled: bool,
        #[serde(default)]
        conditions: Vec<Condition>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Condition {
        path: String,
    }

    let (flag, switch) = ("authentication-config", given.switch("anonymous-auth"));
    let configured = configuration::<Authentication>(given, flag, "AuthenticationConfiguration")?.unwrap_or_default();
    if !configured.jwt.is_empty() {
        tracing::warn!(section = "jwt", "--{flag}: this section has no effect: such tokens are refused");
    }
    let file = given.text(flag).unwrap_or_default();
    match (configured.anonymous, switch) {
        (Some(_), Some(_)) => bail!("--anonymous-auth: --{flag} {file} says it already, in its section anonymous"),
        (Some(Section { enabled: false, conditions }), _) if !conditions.is_empty() => {
            bail!("--{flag} {file}: anonymous.conditions: found some, expected none where enabled is false")
        }
        (Some(Section { enabled: false, .. }), _) | (None, Some(false)) => Ok(Some(Anonymous::Refused)),
        (Some(Section { conditions, .. }), _) if !conditions.is_empty() => {
            Ok(Some(Anonymous::AtPaths(conditions.into_iter().map(|condition| condition.path).collect())))
        }
        (Some(_), _) => Ok(Some(Anonymous::Allowed)),
        // Where --authorization-mode allows everything, nobody is let in without a name, whatever the switch says.
        (None, _) => Ok(given.text("authorization-config").map(|_| Anonymous::Allowed)),
    }
}

/// Which requests are allowed: what any of the modes allows.
pub(super) fn authorization(given: &Given) -> Result<Mode> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Authorization {
        #[serde(default)]
        authorizers: Vec<Authorizer>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Authorizer {
        r#type: String,
        name: String,
        #[serde(rename = "webhook")]
        _webhook: Option<IgnoredAny>,
    }

    let (flag, modes) = ("authorization-config", "authorization-mode");
    let Some(configured) = configuration::<Authorization>(given, flag, "AuthorizationConfiguration")? else {
        let named: Vec<&str> = given.list(modes).collect();
        return Ok(any_of(&format!("--{modes}"), &named)?.unwrap_or(Mode::AlwaysAllow));
    };
    if given.is_set(modes) {
        bail!("--{flag}: --{modes} is given too, expected one of them at most");
    }
    let what = format!("--{flag} {}: authorizers:", given.text(flag).unwrap_or_default());
    for Authorizer { r#type, name, .. } in &configured.authorizers {
        if r#type != "Webhook" && *name != r#type.to_lowercase() {
            bail!("{what} found the name {name:?} for type {type}, expected {:?}", r#type.to_lowercase());
        }
    }
    let named: Vec<&str> = configured.authorizers.iter().map(|authorizer| &*authorizer.r#type).collect();
    any_of(&what, &named)?.with_context(|| format!("{what} found none, expected one at least"))
}

/// What several modes of a flag come to; `None` where there are none.
fn any_of(what: &str, names: &[&str]) -> Result<Option<Mode>> {
    let mut seen = BTreeSet::new();
    let mut mode = None;
    for name in names {
        let (one, rank) = match *name {
            "AlwaysAllow" => (Mode::AlwaysAllow, 2),
            "RBAC" => (Mode::Rbac, 1),
            // Nodes here are the server's own, and need no rights: it allows nobody else anything.
            "AlwaysDeny" | "Node" => (Mode::AlwaysDeny, 0),
            "ABAC" | "Webhook" => bail!("{what} {name}: this mode is not here; there are {MODES}"),
            _ => bail!("{what} {name}: there is no such mode; expected {MODES}"),
        };
        if !seen.insert(name) {
            bail!("{what} {name}: found more than once, expected each mode once");
        }
        if mode.is_none_or(|(_, known)| rank > known) {
            mode = Some((one, rank));
        }
    }
    Ok(mode.map(|(mode, _)| mode))
}

/// What a configuration file says that a flag names, in YAML or JSON; `None` where it names none.
fn configuration<T: DeserializeOwned>(given: &Given, flag: &str, kind: &str) -> Result<Option<T>> {
    let Some(file) = given.text(flag) else { return Ok(None) };
    let text = files::text(flag, file)?;
    let what = || format!("--{flag} {file}");
    let object: Result<serde_json::Map<String, serde_json::Value>, _> = yaml::read(&text);
    let mut object = object.map_err(|error| anyhow!(error)).with_context(what)?;
    let mut head = |key: &str| object.remove(key).and_then(|value| value.as_str().map(str::to_owned));
    let (version, found) = (head("apiVersion").unwrap_or_default(), head("kind").unwrap_or_default());
    let known = version.strip_prefix(GROUP).is_some_and(|version| ["v1", "v1beta1", "v1alpha1"].contains(&version));
    if !known || found != kind {
        bail!("{}: found {version:?}, {found:?}, expected apiVersion {GROUP}v1 and kind {kind}", what());
    }
    serde_json::from_value(object.into()).map(Some).with_context(what)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{apiserver, flags};
    use super::*;

    fn given(arguments: &[&str]) -> Given {
        let arguments = ["kube-apiserver"].iter().chain(arguments).map(OsString::from).collect();
        flags::parse(apiserver::reference(), arguments).expect("flags")
    }

    /// What is asked of flags and of a configuration file, which a flag names.
    fn of<T>(ask: fn(&Given) -> Result<T>, arguments: &[&str], flag: &str, text: &str) -> Result<T> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file.yaml");
        std::fs::write(&file, text).expect("a file");
        let file = format!("--{flag}={}", file.display());
        ask(&given(&[&[&*file], arguments].concat()))
    }

    /// Contract: API-36
    #[test]
    fn requests_are_allowed_by_what_allows_most() {
        for (modes, expected) in [
            (&[][..], Mode::AlwaysAllow),
            (&["--authorization-mode="], Mode::AlwaysAllow),
            (&["--authorization-mode=RBAC"], Mode::Rbac),
            (&["--authorization-mode=Node"], Mode::AlwaysDeny),
            (&["--authorization-mode=Node,RBAC"], Mode::Rbac),
            (&["--authorization-mode=RBAC", "--authorization-mode=AlwaysDeny"], Mode::Rbac),
            (&["--authorization-mode=RBAC,AlwaysAllow"], Mode::AlwaysAllow),
        ] {
            assert_eq!(authorization(&given(modes)).expect("a mode"), expected, "{modes:?}");
        }
        let twice = authorization(&given(&["--authorization-mode=RBAC,Node", "--authorization-mode=RBAC"]));
        let twice = format!("{:#}", twice.expect_err("RBAC is there twice"));
        assert_eq!(twice, "--authorization-mode RBAC: found more than once, expected each mode once");
    }

    /// Contract: API-36
    #[test]
    fn a_file_says_which_requests_are_allowed() {
        let asked = |arguments: &[&str], authorizers: &str| {
            let text =
                format!("{{apiVersion: {GROUP}v1, kind: AuthorizationConfiguration, authorizers: {authorizers}}}");
            of(authorization, arguments, "authorization-config", &text).map_err(|error| format!("{error:#}"))
        };
        for (authorizers, expected) in [
            ("[{type: Node, name: node}]", Ok(Mode::AlwaysDeny)),
            ("[{type: Node, name: node}, {type: RBAC, name: rbac}]", Ok(Mode::Rbac)),
            ("[{type: AlwaysAllow, name: alwaysallow}]", Ok(Mode::AlwaysAllow)),
            ("[]", Err("found none, expected one at least")),
            ("[{type: RBAC, name: roles}]", Err("found the name \"roles\" for type RBAC, expected \"rbac\"")),
            ("[{type: RBAC, name: rbac}, {type: RBAC, name: rbac}]", Err("RBAC: found more than once")),
            ("[{type: Webhook, name: w, webhook: {}}]", Err("Webhook: this mode is not here")),
            ("[{type: Some, name: some}]", Err("Some: there is no such mode")),
            ("[{kind: RBAC}]", Err("unknown field `kind`")),
        ] {
            match (asked(&[], authorizers), expected) {
                (found, Ok(mode)) => assert_eq!(found, Ok(mode), "{authorizers}"),
                (found, Err(why)) => assert!(found.as_ref().is_err_and(|said| said.contains(why)), "{found:?}"),
            }
        }
        let both = asked(&["--authorization-mode=RBAC"], "[{type: RBAC, name: rbac}]").expect_err("both");
        assert!(both.contains("--authorization-mode is given too"), "{both}");
        let other = of(authorization, &[], "authorization-config", "{apiVersion: v1, kind: Pod}").expect_err("another");
        assert!(format!("{other:#}").contains("found \"v1\", \"Pod\", expected apiVersion"), "{other:#}");
    }

    /// Contract: API-36
    #[test]
    fn a_switch_or_a_file_says_who_needs_no_credential() {
        let asked = |arguments: &[&str], section: &str| {
            let text = format!("{{apiVersion: {GROUP}v1beta1, kind: AuthenticationConfiguration, {section}}}");
            of(anonymous, arguments, "authentication-config", &text).map_err(|error| format!("{error:#}"))
        };
        let off = "--anonymous-auth=false";
        assert_eq!(anonymous(&given(&[])).expect("flags"), None);
        assert_eq!(anonymous(&given(&[off])).expect("flags"), Some(Anonymous::Refused));
        assert_eq!(asked(&[], "jwt: [{issuer: {}}]"), Ok(None));
        assert_eq!(asked(&[off], "jwt: []"), Ok(Some(Anonymous::Refused)));
        assert_eq!(asked(&[], "anonymous: {enabled: false}"), Ok(Some(Anonymous::Refused)));
        assert_eq!(asked(&[], "anonymous: {enabled: true}"), Ok(Some(Anonymous::Allowed)));
        let paths = BTreeSet::from(["/livez".to_owned(), "/readyz".to_owned()]);
        let at = asked(&[], "anonymous: {enabled: true, conditions: [{path: /readyz}, {path: /livez}]}");
        assert_eq!(at, Ok(Some(Anonymous::AtPaths(paths))));
        for (arguments, section, why) in [
            (&[off][..], "anonymous: {enabled: true}", "--anonymous-auth: --authentication-config"),
            (&[], "anonymous: {conditions: [{path: /livez}]}", "expected none where enabled is false"),
            (&[], "anonymous: {on: true}", "unknown field `on`"),
        ] {
            let said = asked(arguments, section).expect_err(section);
            assert!(said.contains(why), "{said}");
        }
    }
}
