//! The managers that a page looks into: those of this process, or one elsewhere.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use muster_inspect::explain::{Explanation, Role};
use muster_inspect::history::History;
use muster_inspect::inside::Inside;
use muster_manager::explain::manager::Manager;
use muster_manager::explain::teller::Teller;
use muster_objects::meta::ObjectKey;
use muster_page::{Insight, Unseen};
use muster_runtime::explain::{Explainer, Kind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::faults::{HoldTime, Resource, Stage};

/// How many places of an order of deletion are told.
const MOST_PLACES: usize = 1_000;

/// The manager of this process that leads.
pub(crate) struct Local(pub(crate) Teller);

impl Local {
    fn leader(&self) -> Result<(Explainer, Role), Unseen> {
        (self.0)().ok_or_else(|| Unseen("No manager leads at the moment.".to_owned()))
    }
}

fn unseen(error: impl std::fmt::Display) -> Unseen {
    Unseen(format!("{error}."))
}

impl Insight for Local {
    fn inside(&self) -> BoxFuture<'_, Result<Inside, Unseen>> {
        async move {
            let (explainer, role) = self.leader()?;
            explainer.inside(role).map_err(unseen)
        }
        .boxed()
    }

    fn explain<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<Explanation, Unseen>> {
        async move {
            let (explainer, role) = self.leader()?;
            explainer.explain(kind, key, role, MOST_PLACES).map_err(unseen)
        }
        .boxed()
    }

    fn history<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<History, Unseen>> {
        async move {
            let (explainer, role) = self.leader()?;
            explainer.history(kind, key, role, None).map_err(unseen)
        }
        .boxed()
    }
}

/// How long what a manager told is told again: its endpoint answers a few at a time.
const TOLD_FOR: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many answers are kept.
const MOST_KEPT: usize = 256;

/// What a manager told, or why it told nothing.
type Told = Result<Value, Unseen>;

/// A manager elsewhere.
pub(crate) struct Remote {
    manager: Manager,
    /// What it told last, by the path.
    kept: Mutex<HashMap<String, (Instant, Told)>>,
}

impl Remote {
    /// Asks this manager.
    pub(crate) fn new(manager: Manager) -> Self {
        Self { manager, kept: Mutex::default() }
    }

    async fn ask<T: DeserializeOwned>(&self, path: String) -> Result<T, Unseen> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = kept().get(&path).filter(|(at, _)| at.elapsed() < TOLD_FOR).map(|(_, told)| told.clone());
        let told = match fresh {
            Some(told) => told,
            None => {
                let answer = tokio::time::timeout(PATIENCE, self.manager.get(&path)).await;
                let late = |_| Err(unseen("The manager does not answer"));
                let told = answer.map_or_else(late, |answer| answer.map_err(|error| unseen(format!("{error:#}"))));
                let mut kept = kept();
                kept.retain(|_, (at, _)| at.elapsed() < TOLD_FOR);
                if kept.len() < MOST_KEPT {
                    kept.insert(path, (Instant::now(), told.clone()));
                }
                told
            }
        };
        read(told?)
    }
}

/// What a manager told, as it is to be read here.
fn read<T: DeserializeOwned>(told: Value) -> Result<T, Unseen> {
    if told["kind"] == "ShadowHistory" {
        return Err(unseen("the manager is a shadow, which has no syncs of its own (see muster explain --history)"));
    }
    serde_json::from_value(told).map_err(|error| unseen(format!("the manager is of another version: {error}")))
}

impl Insight for Remote {
    fn inside(&self) -> BoxFuture<'_, Result<Inside, Unseen>> {
        self.ask("/inside".to_owned()).boxed()
    }

    fn explain<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<Explanation, Unseen>> {
        self.ask(path(kind, key)).boxed()
    }

    fn history<'a>(&'a self, kind: Kind, key: &'a ObjectKey) -> BoxFuture<'a, Result<History, Unseen>> {
        self.ask(format!("{}?history=true", path(kind, key))).boxed()
    }
}

fn path(kind: Kind, key: &ObjectKey) -> String {
    format!("/explain/{}/{}/{}", kind.resource().plural, key.namespace, key.name)
}

impl muster_page::Stage for Stage {
    fn hold(&self, resource: &str, time: Duration) -> Result<String, String> {
        let (resource, time) = (Resource::of(resource)?, HoldTime::of(time)?);
        Self::hold(self, resource, time);
        Ok(format!("the managers' watches of {} are held for {:?}", resource.plural(), time.get()))
    }

    fn cut(&self, resource: Option<&str>) -> Result<String, String> {
        let count = Self::cut(self, resource.map(Resource::of).transpose()?);
        Ok(format!("{count} watches of the managers were cut"))
    }

    fn kill_leader(&self) -> Result<String, String> {
        let killed = Self::kill_leader(self).map_err(|error| error.to_string())?;
        Ok(format!("{killed} was killed; another manager leads once its Lease has run out"))
    }

    fn managers(&self) -> Vec<(String, bool)> {
        self.seen().managers.into_iter().map(|manager| (manager.identity, manager.leading)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Contract: PG-02
    #[test]
    fn what_is_no_history_is_told_with_the_reason() {
        let cases = [
            (json!({"kind": "ShadowHistory", "format": 1, "lines": []}), "the manager is a shadow, "),
            (json!({"kind": "Story"}), "the manager is of another version: missing field"),
        ];
        for (told, expected) in cases {
            let Unseen(why) = read::<History>(told).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
