//! What webhooks and policies are told of a request, and how long they may take.

use std::pin::Pin;
use std::time::Duration;

use muster_tree::{Value, json};
use tokio::time::Instant;

use super::path::ResourcePath;
use crate::access::User;
use crate::access::questions::Answers;
use crate::admission::Asked;
use crate::cel::duration;
use crate::model::{Object, Subresource};
use crate::registry::Registry;
use crate::registry::options::{DeleteOptions, Query};
use crate::status::ApiError;

/// No write waits longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(34);

/// What webhooks and policies are told of a request that is about `path`; `None` where there are none to tell.
pub(super) fn asked<'a>(
    registry: &Registry,
    answers: &'a Answers<'a>,
    user: &User,
    path: &ResourcePath<'a>,
    subresource: Option<Subresource>,
    query: &Query,
) -> Option<Asked<'a>> {
    let configuration = registry.configured.now(&registry.storage)?;
    Some(Asked {
        configuration,
        user: user.info(),
        authorizer: answers,
        namespace: path.namespace.unwrap_or_default(),
        name: path.name.unwrap_or_default(),
        subresource,
        options: write_options(query),
        dry_run: query.get("dryRun").is_some(),
        deadline: Instant::now() + longest_wait(query),
    })
}

pub(super) fn longest_wait(query: &Query) -> Duration {
    let wanted = query.get("timeout").and_then(|text| duration::parse(text).ok());
    let wanted = wanted.and_then(|nanos| u64::try_from(nanos).ok()).filter(|nanos| *nanos > 0);
    wanted.map_or(LONGEST_WAIT, |nanos| LONGEST_WAIT.min(Duration::from_nanos(nanos)))
}

/// The options of a creation or a change, as they were sent.
fn write_options(query: &Query) -> Object {
    let mut options = Object::new();
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options.insert("dryRun", json!(dry_run));
    }
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.get(field).filter(|value| !value.is_empty()) {
            options.insert(field.to_owned(), json!(value));
        }
    }
    options
}

/// Tells of the options of a deletion.
pub(super) fn tell_deletion(asked: Option<&mut Asked<'_>>, options: &DeleteOptions) {
    if let Some(asked) = asked {
        asked.options = options.shown();
        asked.dry_run = options.dry_run;
    }
}

/// Waits for what webhooks are asked in, as long as the client does.
///
/// # Errors
/// 504 after that.
pub(super) async fn in_time<T>(
    deadline: Option<Instant>,
    work: Pin<&mut impl Future<Output = Result<T, ApiError>>>,
) -> Result<T, ApiError> {
    let Some(deadline) = deadline else { return work.await };
    match tokio::time::timeout_at(deadline, work).await {
        Ok(Err(_)) | Err(_) if Instant::now() >= deadline => {
            Err(ApiError::timeout("request did not complete within requested timeout - context deadline exceeded"))
        }
        Ok(outcome) => outcome,
        Err(_) => Err(ApiError::timeout("request did not complete within requested timeout")),
    }
}

/// The options of a connection, by its query and, for a proxy, the path below it: what is sent to be admitted.
pub(super) fn connection(kind: &str, proxied: Option<&str>, query: &Query) -> Object {
    let mut options = Object::new();
    options.insert("kind", json!(kind));
    options.insert("apiVersion", json!("v1"));
    let fields: &[&str] = match kind {
        "PodExecOptions" => &["stdin", "stdout", "stderr", "tty", "container", "command"],
        "PodAttachOptions" => &["stdin", "stdout", "stderr", "tty", "container"],
        "PodPortForwardOptions" => &["ports"],
        _ => &["path"],
    };
    for field in fields {
        let value = match *field {
            "container" => query.get(field).filter(|text| !text.is_empty()).map(Value::from),
            "path" => proxied.map(|path| Value::from(format!("/{path}"))),
            "command" => Some(query.all(field).map(Value::from).collect()),
            "ports" => {
                let ports = query.all(field).flat_map(|texts| texts.split(','));
                Some(ports.filter_map(|port| port.parse::<i64>().ok()).map(Value::from).collect())
            }
            flag => query.flag(flag).filter(|set| *set).map(Value::from),
        };
        if let Some(value) = value.filter(|value| *value != json!([])) {
            options.insert((*field).to_owned(), value);
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-33
    #[test]
    fn connections_are_told_by_their_queries() {
        let table = [
            (
                "PodExecOptions",
                "command=ls&command=-l&container=a&stdout=true&stdin=false",
                json!({"stdout": true, "container": "a", "command": ["ls", "-l"]}),
            ),
            ("PodPortForwardOptions", "ports=80,443", json!({"ports": [80, 443]})),
            ("PodProxyOptions", "path=/b", json!({"path": "/a/"})),
            ("PodAttachOptions", "", json!({})),
        ];
        for (kind, query, expected) in table {
            let mut found = connection(kind, Some("a/"), &Query::parse(query));
            assert_eq!(found.remove("kind"), Some(json!(kind)));
            assert_eq!(found.remove("apiVersion"), Some(json!("v1")));
            assert_eq!(Value::Object(found), expected, "{query}");
        }
    }

    /// Contract: API-33
    #[test]
    fn a_client_may_wait_for_less() {
        let table = [("", 34_000), ("timeout=5s", 5_000), ("timeout=1m", 34_000), ("timeout=0", 34_000)];
        for (query, milliseconds) in table {
            assert_eq!(longest_wait(&Query::parse(query)), Duration::from_millis(milliseconds), "{query}");
        }
    }
}
