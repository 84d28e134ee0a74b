//! What becomes of a pod on a simulated node, as its annotations direct it (SIM-04).
//!
//! | Annotation | Meaning |
//! |---|---|
//! | `muster.dev/fate: never-start` | stays in ContainerCreating |
//! | `muster.dev/fate: never-ready` | runs, and is never Ready |
//! | `muster.dev/fate: image-pull-error` | its images cannot be pulled, whatever their tags |
//! | `muster.dev/fate: crash-loop` | its containers exit again and again: CrashLoopBackOff |
//! | `muster.dev/fate: fail` | its containers exit and the pod is Failed, whatever its restart policy |
//! | `muster.dev/fate: succeed` | its containers exit with 0 and the pod is Succeeded |
//! | `muster.dev/fate: reject` | the node does not admit it: Failed at once |
//! | `muster.dev/startup: 1s` or `1s..5s` | how long it takes to start, instead of `--pod-startup` |
//! | `muster.dev/ready-after: 5s` | how much later than running it turns Ready, probes' delays on top |
//! | `muster.dev/run-for: 30s` | how long a container runs before it exits (default 1s) |
//! | `muster.dev/exit-code: "3"` | what it exits with (default 1) |
//! | `muster.dev/container: name` | the one container that crashes; by default all do |
//! | `muster.dev/reason`, `muster.dev/message` | of the pod's status when rejected or failed |
//! | `muster.dev/shutdown: 10s` | how long it takes to stop, instead of `--pod-shutdown` |
//!
//! They may stand on a pod template or be set on a running pod: a fate that is changed applies from then
//! on, and one that is removed lets the pod recover. A value that is not understood is as if not there.

use std::sync::Arc;
use std::time::Duration;

use muster_runtime::duration::parse_duration;

use crate::duration::DelayRange;

/// The prefix of every annotation that directs a pod or a node.
pub const PREFIX: &str = "muster.dev/";

/// What is to become of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It starts and runs.
    #[default]
    Run,
    /// It stays in ContainerCreating.
    NeverStart,
    /// It runs and is never Ready.
    NeverReady,
    /// Its images cannot be pulled.
    ImagePullError,
    /// Its containers exit and are restarted, again and again.
    CrashLoop,
    /// It fails after a while.
    Fail,
    /// It completes after a while.
    Succeed,
    /// The node does not admit it.
    Reject,
}

impl Fate {
    /// The values of the annotation.
    pub const NAMES: [&str; 8] =
        ["run", "never-start", "never-ready", "image-pull-error", "crash-loop", "fail", "succeed", "reject"];

    /// What an annotation says; none where it says nothing that is known, and the pod runs.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "run" => Self::Run,
            "never-start" => Self::NeverStart,
            "never-ready" => Self::NeverReady,
            "image-pull-error" => Self::ImagePullError,
            "crash-loop" => Self::CrashLoop,
            "fail" => Self::Fail,
            "succeed" => Self::Succeed,
            "reject" => Self::Reject,
            _ => return None,
        })
    }
}

/// Everything that a pod's annotations direct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Directions {
    /// What becomes of it.
    pub fate: Fate,
    /// How long it takes to start.
    pub startup: Option<DelayRange>,
    /// How much later than running it turns Ready.
    pub ready_after: Duration,
    /// How long it takes to stop.
    pub shutdown: Option<Duration>,
    /// How long a container runs before it exits.
    pub run_for: Option<Duration>,
    /// What it exits with.
    pub exit_code: Option<i32>,
    /// The one container that exits; all do where none is named.
    pub container: Option<Arc<str>>,
    /// The reason of the pod's status when it is rejected or fails.
    pub reason: Option<Arc<str>>,
    /// The message beside it.
    pub message: Option<Arc<str>>,
}

impl Directions {
    /// Reads the directions among `annotations`; `None` where there are none.
    pub fn read<'a>(annotations: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Arc<Self>> {
        let mut directions = Self::default();
        let mut any = false;
        for (key, value) in annotations {
            let Some(key) = key.strip_prefix(PREFIX) else { continue };
            any = true;
            match key {
                "fate" => directions.fate = Fate::parse(value).unwrap_or_default(),
                "startup" => directions.startup = value.parse().ok(),
                "ready-after" => directions.ready_after = parse_duration(value).unwrap_or_default(),
                "shutdown" => directions.shutdown = parse_duration(value).ok(),
                "run-for" => directions.run_for = parse_duration(value).ok(),
                "exit-code" => directions.exit_code = value.parse().ok(),
                "container" => directions.container = Some(value.into()),
                "reason" => directions.reason = Some(value.into()),
                "message" => directions.message = Some(value.into()),
                _ => {}
            }
        }
        any.then(|| Arc::new(directions))
    }

    /// How long a container runs before it exits.
    #[must_use]
    pub fn run_for(&self) -> Duration {
        self.run_for.unwrap_or(Duration::from_secs(1))
    }

    /// Whether the container of that name is one of those that exit.
    #[must_use]
    pub fn concerns(&self, container: &str) -> bool {
        self.container.as_ref().is_none_or(|named| **named == *container)
    }
}

/// Whether an image is one that cannot be pulled: its tag is `404`, `nonexistent` or `non-existent`.
#[must_use]
pub fn image_is_missing(image: &str) -> bool {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let last = name.rsplit_once('/').map_or(name, |(_, last)| last);
    last.rsplit_once(':').is_some_and(|(_, tag)| matches!(tag, "404" | "nonexistent" | "non-existent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: SIM-04
    #[test]
    fn only_the_tag_decides_whether_an_image_is_missing() {
        for (image, missing) in [
            ("nginx:404", true),
            ("nginx:nonexistent", true),
            ("foo:non-existent", true),
            ("registry.example:5000/team/app:404", true),
            ("nginx:404@sha256:0000", true),
            ("nginx", false),
            ("nginx:1", false),
            ("nonexistent", false),
            ("nonexistent:1", false),
            ("registry:404/app", false),
            ("nginx:4040", false),
            ("", false),
        ] {
            assert_eq!(image_is_missing(image), missing, "{image}");
        }
    }

    /// Contract: SIM-04
    #[test]
    fn annotations_direct_and_nonsense_is_as_if_not_there() {
        assert_eq!(Directions::read([("app", "web"), ("muster.device/fate", "fail")].into_iter()), None);
        let read = Directions::read(
            [
                ("muster.dev/fate", "crash-loop"),
                ("muster.dev/run-for", "3s"),
                ("muster.dev/exit-code", "137"),
                ("muster.dev/container", "app"),
                ("muster.dev/startup", "soon"),
            ]
            .into_iter(),
        )
        .expect("there are directions");
        assert_eq!((read.fate, read.run_for(), read.exit_code), (Fate::CrashLoop, Duration::from_secs(3), Some(137)));
        assert!(read.concerns("app") && !read.concerns("sidecar"));
        assert_eq!(read.startup, None);
        assert!(Fate::NAMES.iter().all(|name| Fate::parse(name).is_some()));
        let unknown = Directions::read([("muster.dev/fate", "explode")].into_iter()).expect("there are directions");
        assert_eq!(unknown.fate, Fate::Run);
    }
}
