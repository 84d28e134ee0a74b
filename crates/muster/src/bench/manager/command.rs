//! A manager as the command line names it: a name for its figures, and the program to run.

use std::path::Path;
use std::str::FromStr;

/// What stands for the path of the kubeconfig.
const KUBECONFIG: &str = "{kubeconfig}";
/// The name that means this program where no command comes with it.
const OURS: &str = "muster";
/// What this program is run with then: no election, for nobody else runs; no endpoint, for its port may be taken.
const OUR_ARGUMENTS: [&str; 5] =
    ["controller-manager", "--leader-elect=false", "--secure-port=0", "--kubeconfig", KUBECONFIG];

/// A manager to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manager {
    /// What its figures are called.
    pub(super) name: String,
    /// The program and its arguments; none for this program and what it needs.
    command: Option<Vec<String>>,
}

impl Manager {
    /// This program, which leads without an election.
    pub(super) fn leader() -> Self {
        Self { name: "leader".to_owned(), command: None }
    }

    /// This program as one member of a group, whose Leases are in this namespace.
    ///
    /// # Errors
    /// Where this program cannot be found.
    pub(super) fn member(number: u32, shards: u32, group: &str, namespace: &str) -> std::io::Result<Self> {
        let words = [
            ours()?,
            "controller-manager".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--shards={shards}"),
            format!("--group={group}"),
            format!("--leader-elect-resource-name={group}"),
            format!("--leader-elect-resource-namespace={namespace}"),
            format!("--kubeconfig={KUBECONFIG}"),
        ];
        Ok(Self { name: format!("member-{number}"), command: Some(words.into()) })
    }

    /// The program and its arguments, for the cluster of this kubeconfig.
    ///
    /// # Errors
    /// Where this program is asked for and cannot be found.
    pub(super) fn command(&self, kubeconfig: &Path) -> std::io::Result<Vec<String>> {
        let words = match &self.command {
            Some(words) => words.clone(),
            None => std::iter::once(ours()?).chain(OUR_ARGUMENTS.map(str::to_owned)).collect(),
        };
        let path = kubeconfig.to_string_lossy();
        Ok(words.into_iter().map(|word| word.replace(KUBECONFIG, &path)).collect())
    }
}

/// This program.
fn ours() -> std::io::Result<String> {
    Ok(std::env::current_exe()?.to_string_lossy().into_owned())
}

impl FromStr for Manager {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, command)) = text.split_once('=') else {
            return match text {
                OURS => Ok(Self { name: OURS.to_owned(), command: None }),
                _ => Err(format!("expected NAME=COMMAND, or {OURS} alone for this program")),
            };
        };
        if name.is_empty() {
            return Err("expected NAME=COMMAND, found no name before the '='".to_owned());
        }
        // A line that goes on behind a backslash is one line; the splitter would find an empty word there.
        match shlex::split(&command.replace("\\\n", "")) {
            None => Err(format!("the command of {name}: a quote is not closed, or a backslash ends it")),
            Some(words) if words.is_empty() => Err(format!("the command of {name} is empty")),
            Some(words) => Ok(Self { name: name.to_owned(), command: Some(words) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would_and_knows_the_kubeconfig() {
        let words = |text: &str| text.parse::<Manager>().unwrap().command(Path::new("/a b/k")).unwrap();
        for (text, expected) in [
            ("m=prog", &["prog"][..]),
            ("m=prog --kubeconfig {kubeconfig}", &["prog", "--kubeconfig", "/a b/k"]),
            ("m=prog --kubeconfig={kubeconfig} -v=2", &["prog", "--kubeconfig=/a b/k", "-v=2"]),
            ("m=prog 'a b' \"c d\" e\\ f", &["prog", "a b", "c d", "e f"]),
            ("m=  prog \\\n  --controllers=*,-job  ", &["prog", "--controllers=*,-job"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        let ours = words("muster");
        assert_eq!(&ours[1..2], ["controller-manager"]);
        assert_eq!(ours.last().map(String::as_str), Some("/a b/k"));
        assert_ne!(words("muster=prog")[0], ours[0], "a command that is given is the one that is run");
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        for (text, expected) in
            [("kcm", "NAME=COMMAND"), ("=prog", "no name"), ("m=", "empty"), ("m=  ", "empty"), ("m=prog 'a", "quote")]
        {
            let said = text.parse::<Manager>().unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
