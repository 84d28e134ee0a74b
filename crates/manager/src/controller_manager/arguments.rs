//! From what was typed to what the flags are parsed from: names as Go's flags allow them, settings of `--config`,
//! and kube-controller-manager's other flags taken out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;

use anyhow::{Context as _, Result, bail};
use clap::{Args as _, Command};
use muster_runtime::yaml;
use serde_json::{Map, Value};

use super::flags::Flags;
use super::foreign::{self, Foreign};

/// The subcommand that this is about.
const COMMAND: &str = "controller-manager";

/// A setting that was given and has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// Such as `--cluster-cidr`, or the name in the file.
    pub(crate) setting: String,
    /// Why it has none.
    pub(crate) reason: &'static str,
}

/// Arguments for the parser of flags, and what was taken out of them. Those of other subcommands are left alone.
///
/// # Errors
/// Where the settings file cannot be used, or a flag cannot be ignored.
pub(crate) fn prepare(arguments: impl IntoIterator<Item = OsString>) -> Result<(Vec<OsString>, Vec<Ignored>)> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_none_or(|command| command != COMMAND) {
        return Ok((arguments, Vec::new()));
    }
    let ours = Ours::new();
    let mut ignored = Vec::new();
    let typed = arguments.split_off(2);
    let (typed, given) = sift(typed, &ours, &mut ignored)?;
    if let Some(file) = value_of(&typed, "config") {
        arguments.extend(settings(&file, &ours, &given, &mut ignored)?);
    }
    arguments.extend(typed);
    Ok((arguments, ignored))
}

/// Our own flags.
struct Ours {
    names: BTreeSet<String>,
    /// Those whose value is the next argument where there is no `=`.
    valued: BTreeSet<String>,
}

impl Ours {
    fn new() -> Self {
        let command = Flags::augment_args(Command::new(COMMAND));
        let mut ours =
            Self { names: BTreeSet::from(["help".to_owned(), "version".to_owned()]), valued: BTreeSet::new() };
        for argument in command.get_arguments() {
            let Some(name) = argument.get_long() else { continue };
            ours.names.insert(name.to_owned());
            if argument.get_action().takes_values() && !argument.is_require_equals_set() {
                ours.valued.insert(name.to_owned());
            }
        }
        ours
    }
}

/// Takes out the flags of others, and says which names are left.
fn sift(typed: Vec<OsString>, ours: &Ours, ignored: &mut Vec<Ignored>) -> Result<(Vec<OsString>, BTreeSet<String>)> {
    let mut kept = Vec::with_capacity(typed.len());
    let mut given = BTreeSet::new();
    let mut rest = typed.into_iter();
    while let Some(argument) = rest.next() {
        let Some((name, value)) = argument.to_str().and_then(flag) else {
            kept.push(argument);
            continue;
        };
        if !ours.names.contains(&name)
            && let Some((foreign, switch)) = foreign::find(&name)
        {
            let value = match value {
                Some(value) => value,
                None if switch => "true".to_owned(),
                None => {
                    rest.next().with_context(|| format!("--{name}: its value is missing"))?.to_string_lossy().into()
                }
            };
            ignored.push(Ignored { setting: format!("--{name}"), reason: reason(foreign, &name, &value)? });
            continue;
        }
        match value {
            Some(value) if is_unset(&name, &value) => continue,
            Some(value) => kept.push(format!("--{name}={value}").into()),
            None => {
                kept.push(format!("--{name}").into());
                if ours.valued.contains(&name) {
                    kept.extend(rest.next());
                }
            }
        }
        given.insert(name);
    }
    Ok((kept, given))
}

/// Whether a flag says that it is not given, as with Go's flags: one of a file, a folder or an address with nothing as its value.
fn is_unset(name: &str, value: &str) -> bool {
    const OF_A_PLACE: [&str; 6] =
        ["kubeconfig", "master", "tls-cert-file", "tls-private-key-file", "cert-dir", "config"];
    value.is_empty() && OF_A_PLACE.contains(&name)
}

/// The name of a long flag, written with `-`, and its value after `=`.
fn flag(argument: &str) -> Option<(String, Option<String>)> {
    let text = argument.strip_prefix("--").filter(|text| !text.is_empty())?;
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    Some((name.replace('_', "-"), value))
}

fn reason(foreign: Foreign, name: &str, value: &str) -> Result<&'static str> {
    match foreign {
        Foreign::Ignored(reason) => Ok(reason),
        Foreign::Judged => foreign::judge(name, value).map_err(|why| anyhow::anyhow!("--{name}={value}: {why}")),
    }
}

/// The value of the last flag of that name.
fn value_of(arguments: &[OsString], name: &str) -> Option<String> {
    let mut found = None;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if let Some((flag, value)) = argument.to_str().and_then(flag)
            && flag == name
        {
            found = value.or_else(|| Some(arguments.next()?.to_string_lossy().into_owned()));
        }
    }
    found
}

/// The settings of a file as flags, those left out that were `given` as flags already.
fn settings(file: &str, ours: &Ours, given: &BTreeSet<String>, ignored: &mut Vec<Ignored>) -> Result<Vec<OsString>> {
    let text = fs::read_to_string(file).with_context(|| format!("--config: {file}: cannot be read"))?;
    let settings: Map<String, Value> =
        yaml::read(&text).map_err(|error| anyhow::anyhow!("--config: {file}: expected a map of settings: {error}"))?;
    let mut flags = Vec::new();
    for (name, value) in settings {
        let name = name.replace('_', "-");
        let Some(value) = plain(&value) else {
            bail!("--config: {file}: {name}: found {value}, expected text, a number, true or false, or a list of them");
        };
        if name == "config" {
            bail!("--config: {file}: config: a file of settings cannot name another");
        }
        if !ours.names.contains(&name) {
            let Some((foreign, _)) = foreign::find(&name) else {
                bail!(
                    "--config: {file}: {name}: there is no such setting; settings have the names of the flags: {}",
                    ours.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
                );
            };
            let reason = reason(foreign, &name, &value).with_context(|| format!("--config: {file}"))?;
            ignored.push(Ignored { setting: format!("{file}: {name}"), reason });
            continue;
        }
        if !given.contains(&name) && !is_unset(&name, &value) {
            flags.push(OsString::from(format!("--{name}={value}")));
        }
    }
    check(file, &flags)?;
    Ok(flags)
}

/// Parses what a file says by itself, so that what is wrong is said of the file.
fn check(file: &str, flags: &[OsString]) -> Result<()> {
    let command = Flags::augment_args(Command::new(COMMAND).no_binary_name(true)).args_override_self(true);
    match command.try_get_matches_from(flags) {
        Ok(_) => Ok(()),
        Err(error) => {
            let said = error.to_string();
            let first = said.lines().next().unwrap_or_default();
            bail!("--config: {file}: {}", first.strip_prefix("error: ").unwrap_or(first))
        }
    }
}

/// A value as it would be typed: lists by commas, maps as `name=value`.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Array(items) => {
            let items: Option<Vec<String>> =
                items.iter().map(|item| (!item.is_array() && !item.is_object()).then(|| plain(item))?).collect();
            Some(items?.join(","))
        }
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                (!value.is_array() && !value.is_object()).then(|| Some(format!("{name}={}", plain(value)?)))?
            };
            let entries: Option<Vec<String>> = entries.iter().map(entry).collect();
            Some(entries?.join(","))
        }
        Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(arguments: &[&str]) -> Result<(Vec<String>, Vec<String>)> {
        let arguments = ["muster", COMMAND].iter().chain(arguments).map(OsString::from);
        let (kept, ignored) = prepare(arguments)?;
        let kept = kept.into_iter().skip(2).map(|argument| argument.to_string_lossy().into_owned()).collect();
        Ok((kept, ignored.into_iter().map(|ignored| ignored.setting).collect()))
    }

    #[test]
    fn flags_of_others_are_taken_out_with_their_values() {
        let (kept, ignored) = prepared(&[
            "--kubeconfig",
            "--profiling",
            "--allocate-node-cidrs",
            "--leader-elect",
            "--cluster-cidr",
            "10.244.0.0/16",
            "--root_ca_file=/etc/ca.crt",
            "--concurrent_rc_syncs=7",
            "-v",
            "2",
        ])
        .unwrap();
        assert_eq!(kept, ["--kubeconfig", "--profiling", "--leader-elect", "--concurrent-rc-syncs=7", "-v", "2"]);
        assert_eq!(ignored, ["--allocate-node-cidrs", "--cluster-cidr", "--root-ca-file"]);
    }

    #[test]
    fn what_cannot_be_ignored_is_refused_by_name_and_reason() {
        for (arguments, expected) in [
            (
                &["--feature-gates", "PodDeletionCost=false"][..],
                "--feature-gates=PodDeletionCost=false: PodDeletionCost is true here",
            ),
            (&["--enable-leader-migration"], "--enable-leader-migration=true: leader migration"),
            (&["--cluster-cidr"], "--cluster-cidr: its value is missing"),
        ] {
            let said = prepared(arguments).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
    }

    #[test]
    fn other_commands_are_left_alone() {
        let arguments = ["muster", "up", "--profiling"].map(OsString::from);
        assert_eq!(prepare(arguments.clone()).unwrap(), (arguments.to_vec(), Vec::new()));
    }

    #[test]
    fn a_file_says_the_same_and_the_flags_win() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("settings.yaml");
            fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        };
        let path = file(
            "controllers: ['*', -replicaset]\nleader-elect: false\nsecure-port: 0\nmin-resync-period: 1h\n\
             cluster-cidr: 10.0.0.0/8\nfeature-gates: {PodDeletionCost: true}\n",
        );
        let (kept, ignored) = prepared(&["--config", &path, "--secure-port=10257"]).unwrap();
        let expected = [
            "--controllers=*,-replicaset",
            "--leader-elect=false",
            "--min-resync-period=1h",
            "--config",
            &path,
            "--secure-port=10257",
        ];
        assert_eq!(kept, expected);
        assert_eq!(ignored, [format!("{path}: cluster-cidr"), format!("{path}: feature-gates")]);

        for (text, expected) in [
            ("sekure-port: 1", "sekure-port: there is no such setting"),
            ("secure-port: 70000", "invalid value '70000' for '--secure-port <PORT>'"),
            ("secure-port:", "secure-port: found null, expected text"),
            ("secure-port: {a: [1]}", "secure-port: found {\"a\":[1]}, expected text"),
            ("- a", "expected a map of settings"),
            ("config: x.yaml", "config: a file of settings cannot name another"),
            ("feature-gates: PodDeletionCost=false", ""),
        ] {
            let said = prepared(&["--config", &file(text)]).unwrap_err().to_string();
            assert!(said.starts_with("--config: ") && said.contains(expected), "{text}: {said}");
        }
        assert!(
            prepared(&["--config=/nowhere.yaml"]).unwrap_err().to_string().contains("/nowhere.yaml: cannot be read")
        );
    }
}
