//! A manager as the command line names it: a name for its figures, and the program to run.

use std::path::Path;
use std::str::FromStr;

/// What stands for the path of the kubeconfig.
const KUBECONFIG: &str = "{kubeconfig}";
/// What stands for the program of ours.
const PROGRAM: &str = "{muster}";
/// The name that means the program of ours where no command comes with it.
const OURS: &str = "muster";
/// How it is run then: no election, for nobody else runs; no endpoint, for its port may be taken.
const OUR_COMMAND: [&str; 6] =
    [PROGRAM, "controller-manager", "--leader-elect=false", "--secure-port=0", "--kubeconfig", KUBECONFIG];

/// A manager to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manager {
    /// What its figures are called.
    pub(super) name: String,
    /// The program and its arguments.
    command: Vec<String>,
}

impl Manager {
    /// The program of ours, which leads without an election.
    pub(super) fn alone(name: &str) -> Self {
        Self { name: name.to_owned(), command: OUR_COMMAND.map(str::to_owned).into() }
    }

    /// The program of ours as one member of a group, whose Leases are in this namespace.
    pub(super) fn member(number: u32, shards: u32, group: &str, namespace: &str) -> Self {
        let words = [
            PROGRAM.to_owned(),
            "controller-manager".to_owned(),
            "--secure-port=0".to_owned(),
            format!("--shards={shards}"),
            format!("--group={group}"),
            format!("--leader-elect-resource-name={group}"),
            format!("--leader-elect-resource-namespace={namespace}"),
            format!("--kubeconfig={KUBECONFIG}"),
        ];
        Self { name: format!("member-{number}"), command: words.into() }
    }

    /// Whether it is the program of ours.
    pub(super) fn is_ours(&self) -> bool {
        self.command.iter().any(|word| word.contains(PROGRAM))
    }

    /// The program and its arguments, for the cluster of this kubeconfig, where `program` is ours.
    pub(super) fn command(&self, kubeconfig: &Path, program: &Path) -> Vec<String> {
        let (kubeconfig, program) = (kubeconfig.to_string_lossy(), program.to_string_lossy());
        self.command.iter().map(|word| word.replace(KUBECONFIG, &kubeconfig).replace(PROGRAM, &program)).collect()
    }
}

impl FromStr for Manager {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, command)) = text.split_once('=') else {
            return match text {
                OURS => Ok(Self::alone(OURS)),
                _ => Err(format!("expected NAME=COMMAND, or {OURS} alone for the program of ours")),
            };
        };
        if name.is_empty() {
            return Err("expected NAME=COMMAND, found no name before the '='".to_owned());
        }
        // A line that goes on behind a backslash is one line; the splitter would find an empty word there.
        match shlex::split(&command.replace("\\\n", "")) {
            None => Err(format!("the command of {name}: a quote is not closed, or a backslash ends it")),
            Some(words) if words.is_empty() => Err(format!("the command of {name} is empty")),
            Some(words) => Ok(Self { name: name.to_owned(), command: words }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would_and_knows_the_kubeconfig() {
        let words = |text: &str| text.parse::<Manager>().unwrap().command(Path::new("/a b/k"), Path::new("/a b/m"));
        for (text, expected) in [
            ("m=prog", &["prog"][..]),
            ("m=prog --kubeconfig {kubeconfig}", &["prog", "--kubeconfig", "/a b/k"]),
            ("m=prog --kubeconfig={kubeconfig} -v=2", &["prog", "--kubeconfig=/a b/k", "-v=2"]),
            ("m=prog 'a b' \"c d\" e\\ f", &["prog", "a b", "c d", "e f"]),
            ("m=  prog \\\n  --controllers=*,-job  ", &["prog", "--controllers=*,-job"]),
            ("m={muster} explain", &["/a b/m", "explain"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        let ours = words("muster");
        assert_eq!(&ours[..2], ["/a b/m", "controller-manager"]);
        assert_eq!(ours.last().map(String::as_str), Some("/a b/k"));
        assert_eq!(words("muster=prog"), ["prog"], "a command that is given is the one that is run");
        let member = Manager::member(2, 64, "g", "ns").command(Path::new("k"), Path::new("m"));
        assert_eq!(&member[..2], ["m", "controller-manager"]);
        assert!(member.contains(&"--kubeconfig=k".to_owned()) && member.contains(&"--shards=64".to_owned()));
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
