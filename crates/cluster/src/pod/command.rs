//! How a container ends by itself, where its command says so (SIM-04).
//!
//! Nothing runs on a simulated node. A few commands say all the same how they end: `true`, `false`, `echo`, `sleep 5`, and
//! a shell's script of nothing but these and `exit`. Of any other command nothing is known, and its container runs on.

use std::time::Duration;

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// How long it runs.
    pub after: Duration,
    /// What it exits with.
    pub code: i32,
}

/// What a container's `command` and `args` say; `None` where its program is the image's, or goes on for ever, or is not
/// understood.
pub(super) fn end(command: &[&str], args: &[&str]) -> Option<End> {
    let (program, rest) = command.split_first()?;
    let argv: Vec<&str> = rest.iter().chain(args).copied().collect();
    let mut run = Run::default();
    match (base(program), &*argv) {
        ("sh" | "ash" | "bash" | "dash", [options, script, ..]) => {
            let letters = options.strip_prefix('-')?.strip_suffix('c')?;
            if !letters.chars().all(|letter| matches!(letter, 'e' | 'u' | 'x')) {
                return None;
            }
            run.script(&commands(script)?, letters.contains('e'))?;
        }
        (program, argv) => run.simple(program, argv)?,
    }
    Some(End { after: run.after, code: run.status })
}

fn base(program: &str) -> &str {
    program.rsplit_once('/').map_or(program, |(_, base)| base)
}

/// What was run so far.
#[derive(Default)]
struct Run {
    after: Duration,
    status: i32,
}

impl Run {
    /// Runs commands up to the last, or to an `exit`.
    fn script(&mut self, commands: &[Command], stops_at_failure: bool) -> Option<()> {
        for (at, command) in commands.iter().enumerate() {
            let skipped = match command.after {
                Operator::Then => false,
                // What is skipped leaves the status, by which the next is skipped or not.
                Operator::And => self.status != 0,
                Operator::Or => self.status == 0,
            };
            let Some((program, argv)) = command.words.split_first().filter(|_| !skipped) else { continue };
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            if program == "exit" {
                if let Some(code) = argv.first() {
                    self.status = code.parse::<i32>().ok()? & 0xff;
                }
                return Some(());
            }
            self.simple(base(program), &argv)?;
            let tested = commands.get(at + 1).is_some_and(|next| next.after != Operator::Then);
            if stops_at_failure && self.status != 0 && !tested {
                return Some(());
            }
        }
        Some(())
    }

    fn simple(&mut self, program: &str, argv: &[&str]) -> Option<()> {
        self.status = match program {
            "true" | ":" | "echo" => 0,
            "false" => 1,
            "sleep" if !argv.is_empty() => {
                for time in argv {
                    self.after = self.after.checked_add(duration(time)?)?;
                }
                0
            }
            _ => return None,
        };
        Some(())
    }
}

/// `5`, `0.5` or `2m`, as `sleep` reads it.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match text.strip_prefix(digits)? {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

/// A simple command of a script, with what stands before it.
#[derive(Debug, Default)]
struct Command {
    after: Operator,
    words: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// `;` or the end of a line.
    #[default]
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
}

/// The commands of a script that does nothing but run simple commands one after the other, all their words plain.
fn commands(script: &str) -> Option<Vec<Command>> {
    let mut commands = vec![Command::default()];
    let mut word: Option<String> = None;
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        let operator = match c {
            ';' | '\n' => Some(Operator::Then),
            '&' if chars.next_if_eq(&'&').is_some() => Some(Operator::And),
            '|' if chars.next_if_eq(&'|').is_some() => Some(Operator::Or),
            ' ' | '\t' => None,
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => quoted.push(c),
                    }
                }
                continue;
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' => return None,
                        c => quoted.push(c),
                    }
                }
                continue;
            }
            c if c.is_alphanumeric() || "_-+./,:@%^".contains(c) => {
                word.get_or_insert_default().push(c);
                continue;
            }
            _ => return None,
        };
        let last = commands.last_mut()?;
        last.words.extend(word.take());
        let Some(operator) = operator else { continue };
        match (last.words.is_empty(), operator) {
            // Empty lines say nothing, and may follow an operator.
            (true, Operator::Then) => {}
            (true, _) => return None,
            (false, operator) => commands.push(Command { after: operator, words: Vec::new() }),
        }
    }
    let last = commands.last_mut()?;
    last.words.extend(word);
    match (last.words.is_empty(), last.after) {
        (true, Operator::Then) => {
            commands.pop();
        }
        (true, _) => return None,
        (false, _) => {}
    }
    Some(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command, and its end: after how many milliseconds, and with what.
    type Case = (Vec<&'static str>, Option<(u64, i32)>);

    /// Contract: SIM-04
    #[test]
    fn commands_by_the_table() {
        let sh = |script: &'static str| vec!["/bin/sh", "-c", script];
        let cases: Vec<Case> = vec![
            (vec!["/bin/true"], Some((0, 0))),
            (vec!["false", "ignored"], Some((0, 1))),
            (vec!["sleep", "300"], Some((300_000, 0))),
            (vec!["sleep", "1.5", "2m"], Some((121_500, 0))),
            (vec!["sleep", "infinity"], None),
            (vec!["sleep"], None),
            (vec!["nginx", "-g", "daemon off;"], None),
            (vec![], None),
            (sh("exit 0"), Some((0, 0))),
            (sh("exit 300"), Some((0, 44))),
            (sh("sleep 2; exit 3; unknown"), Some((2000, 3))),
            (sh("echo 'a; b' \"c d\" && sleep 1 && false"), Some((1000, 1))),
            (sh("false; true"), Some((0, 0))),
            (sh("false && unknown; exit"), Some((0, 1))),
            (sh("true || unknown && exit 7"), Some((0, 7))),
            (sh("false && unknown || exit 4"), Some((0, 4))),
            (sh("\n  sleep 1\n\n  exit 2\n"), Some((1000, 2))),
            (sh(""), Some((0, 0))),
            (vec!["bash", "-ec", "false; exit 0"], Some((0, 1))),
            (vec!["bash", "-ec", "false || true; exit 6"], Some((0, 6))),
            (vec!["bash", "-l", "exit 1"], None),
            (sh("exit $CODE"), None),
            (sh("exit $(( $RANDOM / 16384 ))"), None),
            (sh("echo hello > /tmp/file"), None),
            (sh("while true; do sleep 1; done"), None),
            (sh("sleep 5 &"), None),
            (sh("true &&"), None),
            (sh("echo \"$HOME\""), None),
            (sh("echo 'open"), None),
            (sh("trap 'exit 0' TERM; sleep 5"), None),
        ];
        for (command, want) in cases {
            let want = want.map(|(millis, code)| End { after: Duration::from_millis(millis), code });
            assert_eq!(end(&command, &[]), want, "{command:?}");
        }
        assert_eq!(end(&["sh"], &["-c", "exit 5"]), Some(End { after: Duration::ZERO, code: 5 }));
        assert_eq!(end(&[], &["sleep", "5"]), None, "the image's program decides");
    }
}
