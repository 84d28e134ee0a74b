//! Subresources: one table of their names, verbs and types.

use super::{Model, Part};

/// A part of an object with a URL of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    /// `/approval` of a certificate signing request.
    Approval,
    /// `/attach` of a pod.
    Attach,
    /// `/binding` of a pod.
    Binding,
    /// `/ephemeralcontainers` of a pod.
    EphemeralContainers,
    /// `/eviction` of a pod.
    Eviction,
    /// `/exec` of a pod.
    Exec,
    /// `/finalize` of a namespace.
    Finalize,
    /// `/log` of a pod.
    Log,
    /// `/portforward` of a pod.
    PortForward,
    /// `/proxy` of a pod, a service or a node.
    Proxy,
    /// `/resize` of a pod.
    Resize,
    /// `/scale`: reads and writes an `autoscaling/v1` Scale.
    Scale,
    /// `/status`: reads the object, writes its status only.
    Status,
    /// `/token` of a service account.
    Token,
}

/// What is known of a subresource.
struct Row {
    subresource: Subresource,
    name: &'static str,
    verbs: &'static [&'static str],
    /// What it takes and answers with, where that is not the object.
    model: Option<Model<'static>>,
    /// What of the object it writes, where it writes the object.
    part: Option<Part>,
}

const READ_WRITE: &[&str] = &["get", "patch", "update"];
const CREATE: &[&str] = &["create"];
/// What the reference lists of those that connect to a container.
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const fn core(kind: &'static str) -> Option<Model<'static>> {
    Some(Model { group: "", version: "v1", kind })
}

const TABLE: [Row; 14] = {
    use Subresource as S;
    const fn row(
        subresource: S,
        name: &'static str,
        verbs: &'static [&'static str],
        model: Option<Model<'static>>,
        part: Option<Part>,
    ) -> Row {
        Row { subresource, name, verbs, model, part }
    }
    [
        row(S::Approval, "approval", READ_WRITE, None, Some(Part::Approval)),
        row(S::Attach, "attach", CONNECT, core("PodAttachOptions"), None),
        row(S::Binding, "binding", CREATE, Some(Model::BINDING), None),
        row(S::EphemeralContainers, "ephemeralcontainers", READ_WRITE, None, Some(Part::EphemeralContainers)),
        row(S::Eviction, "eviction", CREATE, Some(Model::EVICTION), None),
        row(S::Exec, "exec", CONNECT, core("PodExecOptions"), None),
        row(S::Finalize, "finalize", &["update"], None, Some(Part::Finalize)),
        row(S::Log, "log", &["get"], None, None),
        row(S::PortForward, "portforward", CONNECT, core("PodPortForwardOptions"), None),
        row(S::Proxy, "proxy", PROXY, core("PodProxyOptions"), None),
        row(S::Resize, "resize", READ_WRITE, None, Some(Part::Resize)),
        row(S::Scale, "scale", READ_WRITE, Some(Model::SCALE), Some(Part::Main)),
        row(S::Status, "status", READ_WRITE, None, Some(Part::Status)),
        row(S::Token, "token", CREATE, Some(Model::TOKEN_REQUEST), None),
    ]
};

impl Subresource {
    /// The one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.subresource)
    }

    /// The last part of its URL.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What can be done with it.
    #[must_use]
    pub fn verbs(self) -> &'static [&'static str] {
        self.row().verbs
    }

    /// The type of what it takes and answers with; `None` for the object's own.
    #[must_use]
    pub fn model(self) -> Option<Model<'static>> {
        self.row().model
    }

    /// What of the object a write of it changes.
    #[must_use]
    pub fn part(self) -> Part {
        self.row().part.unwrap_or(Part::Main)
    }

    /// Whether only a running container could answer it.
    #[must_use]
    pub fn connects(self) -> bool {
        matches!(self, Self::Attach | Self::Exec | Self::PortForward | Self::Proxy)
    }

    /// Whether it answers with what has no table and is not stored.
    #[must_use]
    pub fn has_no_table(self) -> bool {
        matches!(self, Self::Binding | Self::Eviction | Self::Token)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_row() {
        for row in &TABLE {
            assert_eq!(row.subresource.name(), row.name);
            assert_eq!(Subresource::named(row.name), Some(row.subresource));
        }
        assert_eq!(Subresource::named("nothing"), None);
    }
}
