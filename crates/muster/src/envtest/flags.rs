//! The flags of a program of the reference: every one of them is taken, those that mean something here are said in the
//! help, and one that is none is refused by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use muster_runtime::duration::parse_duration;

/// A program of the reference, by its flags.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    /// The program's name.
    pub(super) name: &'static str,
    /// What it says of itself.
    pub(super) about: &'static str,
    /// What `--version` prints.
    pub(super) version: &'static str,
    /// What stands below the flags.
    pub(super) examples: &'static str,
    /// Its flags, one `name kind` a line.
    pub(super) flags: &'static str,
    /// Those that mean something here, and what; with those that the reference has not.
    pub(super) meant: &'static [(&'static str, &'static str)],
    /// Those of [`Reference::meant`] that the reference has not, with their kinds.
    pub(super) own: &'static [(&'static str, &'static str)],
    /// Whether `-name` is `--name`, as for Go's own package of flags.
    pub(super) single_dash: bool,
}

/// The flags that were given.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: BTreeMap<&'static str, Vec<String>>,
    meant: &'static [(&'static str, &'static str)],
}

/// Parses the arguments of a program, its own name first.
///
/// # Errors
/// What is to be printed: the help that was asked for, or what is wrong.
pub(super) fn parse(reference: Reference, arguments: Vec<OsString>) -> Result<Given, clap::Error> {
    let matches = command(reference).try_get_matches_from(normal(reference, arguments))?;
    Ok(Given {
        values: all(reference).filter_map(|(name, _)| values(&matches, name)).collect(),
        meant: reference.meant,
    })
}

fn values(matches: &ArgMatches, name: &'static str) -> Option<(&'static str, Vec<String>)> {
    Some((name, matches.get_many::<String>(name)?.cloned().collect()))
}

/// The names and kinds of all flags.
fn all(reference: Reference) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = reference.flags.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).chain(reference.own.iter().copied())
}

fn command(reference: Reference) -> Command {
    let mut command = Command::new(reference.name)
        .about(reference.about)
        .version(reference.version)
        .after_help(reference.examples)
        .max_term_width(120)
        .disable_version_flag(true)
        .args_override_self(true)
        .arg(Arg::new("version").long("version").action(ArgAction::Version).help("Print the version"));
    let meaning = |name: &str| reference.meant.iter().find(|(meant, _)| *meant == name);
    let mut flags: Vec<_> = all(reference).map(|(name, kind)| (name, kind, meaning(name))).collect();
    // Those that mean something come first in the help.
    flags.sort_by_key(|(name, _, meaning)| (meaning.is_none(), *name));
    for (name, kind, meaning) in flags {
        let heading = if meaning.is_some() { "Flags" } else { "Accepted without effect" };
        let mut argument = Arg::new(name).long(name).action(ArgAction::Append).allow_hyphen_values(true);
        argument = argument.value_name(kind).value_parser(parser(kind)).help_heading(heading);
        if let Some((_, meaning)) = meaning {
            argument = argument.help(*meaning);
        }
        if kind == "bool" {
            argument = argument.num_args(0..=1).require_equals(true).default_missing_value("true");
        }
        if name == "v" {
            argument = argument.short('v');
        }
        command = command.arg(argument);
    }
    command
}

/// The arguments with names of flags as the reference knows them, which takes `_` for `-`, and without those that are
/// empty and no value: flags of a template that were not rendered.
fn normal(reference: Reference, arguments: Vec<OsString>) -> Vec<OsString> {
    let valued: BTreeSet<&str> = all(reference).filter(|(_, kind)| *kind != "bool").map(|(name, _)| name).collect();
    let mut arguments = arguments.into_iter();
    let mut normal: Vec<OsString> = arguments.next().into_iter().collect();
    while let Some(argument) = arguments.next() {
        let name = argument.to_str().and_then(|text| match text.strip_prefix("--") {
            Some(name) => Some(name),
            None if text == "-v" => Some("v"),
            None if reference.single_dash && text.len() > 2 => text.strip_prefix('-'),
            None => None,
        });
        let Some(name) = name else {
            normal.extend(Some(argument).filter(|argument| !argument.is_empty()));
            continue;
        };
        let (name, value) = name.split_at(name.find('=').unwrap_or(name.len()));
        let name = name.replace('_', "-");
        normal.push(format!("--{name}{value}").into());
        // Its value is the next argument, whatever that is.
        if value.is_empty() && valued.contains(&*name) {
            normal.extend(arguments.next());
        }
    }
    normal
}

/// What a value of a kind has to be.
fn parser(kind: &str) -> ValueParser {
    fn check(expected: &'static str, fits: fn(&str) -> bool) -> ValueParser {
        let parse =
            move |text: &str| if fits(text) { Ok(text.to_owned()) } else { Err(format!("expected {expected}")) };
        ValueParser::new(parse)
    }
    match kind {
        "bool" => check("true or false", |text| read_bool(text).is_some()),
        "int" => check("a whole number", |text| text.parse::<i64>().is_ok()),
        "float" => check("a number", |text| text.parse::<f64>().is_ok()),
        "duration" => check("a duration such as 1h30m or 500ms", |text| {
            parse_duration(text.strip_prefix('-').unwrap_or(text)).is_ok()
        }),
        "ip" => check("an IP address", |text| text.is_empty() || text.parse::<std::net::IpAddr>().is_ok()),
        _ => ValueParser::string(),
    }
}

/// A truth as Go reads it.
pub(super) fn read_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl Given {
    /// The value of a flag: the last one that was given. An empty one is as none.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).last().map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether a flag was given, be it an empty one.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// All values of a flag that may be repeated.
    pub(super) fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// The entries of a flag that is a list by commas, and may be repeated.
    pub(super) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.all(name).iter().flat_map(|value| value.split(',')).map(str::trim).filter(|entry| !entry.is_empty())
    }

    /// Whether a switch is on; `None` where it was not given.
    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        read_bool(self.text(name)?)
    }

    /// The flags that were given and mean nothing here, as they are typed.
    pub(super) fn without_effect(&self) -> Vec<String> {
        let meant = |name: &str| self.meant.iter().any(|(meant, _)| *meant == name);
        self.values.keys().filter(|name| !meant(name)).map(|name| format!("--{name}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: Reference = Reference {
        name: "server",
        about: "A server.",
        version: "1",
        examples: "",
        flags: "# what it takes\nallow bool\ncount int\ngates list\nname text\ntime duration\nv int\nwhere ip\n",
        meant: &[("name", "its name"), ("own", "ours")],
        own: &[("own", "text")],
        single_dash: false,
    };

    fn given(arguments: &[&str]) -> Result<Given, clap::Error> {
        parse(REFERENCE, ["server"].iter().chain(arguments).map(OsString::from).collect())
    }

    /// Contract: API-36
    #[test]
    fn flags_are_read_as_by_the_reference() {
        let all = given(&[
            "--allow",
            "--name",
            "-a",
            "--name=b",
            "--gates=x=1, y=2",
            "--gates",
            "z",
            "",
            "-v=3",
            "--time=-1s",
            "--own=o",
        ]);
        let all = all.expect("flags");
        assert_eq!((all.switch("allow"), all.text("name"), all.text("v")), (Some(true), Some("b"), Some("3")));
        assert_eq!(all.all("name"), ["-a", "b"]);
        assert_eq!(all.list("gates").collect::<Vec<_>>(), ["x=1", "y=2", "z"]);
        assert_eq!(all.without_effect(), ["--allow", "--gates", "--time", "--v"]);
        assert_eq!((all.switch("count"), all.text("count")), (None, None));
        assert_eq!(given(&["--allow=false"]).expect("flags").switch("allow"), Some(false));
        let empty =
            given(&["--name", "", "--allow", "", "--gates", "", "--where", "", "--own", "--a_b"]).expect("flags");
        assert_eq!((empty.text("name"), empty.all("name")), (None, &[String::new()][..]), "it eats no flag");
        assert_eq!((empty.switch("allow"), empty.list("gates").count(), empty.text("where")), (Some(true), 0, None));
        assert_eq!(empty.text("own"), Some("--a_b"), "a value is left as it is");
        let dashed = Reference { single_dash: true, ..REFERENCE };
        let one = parse(dashed, ["etcd", "-name=x"].map(OsString::from).to_vec()).expect("flags");
        assert_eq!(one.text("name"), Some("x"));
    }

    /// Contract: API-36
    #[test]
    fn what_is_wrong_is_said_with_its_name() {
        for (bad, expected) in [
            ("--nome=x", "unexpected argument '--nome' found"),
            ("--nome=x", "a similar argument exists: '--name'"),
            ("other", "unexpected argument 'other' found"),
            ("--count=x", "invalid value 'x' for '--count <int>': expected a whole number"),
            ("--allow=maybe", "invalid value 'maybe' for '--allow[=<bool>]': expected true or false"),
            ("--count=", "'--count <int>': expected a whole number"),
            ("--time=soon", "'--time <duration>': expected a duration such as 1h30m or 500ms"),
            ("--where=here", "'--where <ip>': expected an IP address"),
        ] {
            let said = given(&[bad]).expect_err(bad);
            assert!(said.use_stderr() && said.to_string().contains(expected), "{said}");
        }
    }

    /// Contract: API-36
    #[test]
    fn the_help_has_each_flag_at_the_beginning_of_a_line() {
        let help = given(&["--help"]).expect_err("the help");
        assert!(!help.use_stderr());
        let help = help.to_string();
        for name in ["allow", "count", "own", "version"] {
            assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("--{name}"))), "{help}");
        }
        assert!(help.contains("its name") && help.contains("Accepted without effect"), "{help}");
    }
}
