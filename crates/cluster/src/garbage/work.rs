//! The collector's requests: looking owners up, deleting, orphaning, taking finalizers away.

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use muster_objects::{OwnerReference, ResourceVersion, Uid};
use muster_runtime::client::{Client, ClientError, Form, PatchType};
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{Case, Identity, Owner, coordinates};
use crate::kinds::{Kind, Kinds};
use crate::metadata::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

/// How many dependents of an owner are orphaned at once.
const ORPHANS: usize = 16;
/// How often a finalizer is taken away anew when others write to the object.
const CONFLICTS: usize = 5;

/// A job that takes requests.
#[derive(Debug)]
pub(super) enum Job {
    /// See whether something that only references name is there.
    LookUp(Identity),
    /// Take the foreground finalizer away.
    Finish(Identity),
    /// Classify an object's references and act on them.
    Settle(Case),
    /// Take the references to the owner from these, then the owner's orphan finalizer.
    Orphan(Identity, Vec<Identity>),
}

/// What a job found out.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Owners that do not exist.
    pub(super) absent: Vec<Identity>,
    /// The object itself does not exist.
    pub(super) gone: Option<Identity>,
    /// It has to be done again later.
    pub(super) again: bool,
    /// It need not be done again whatever happens.
    pub(super) hopeless: bool,
}

/// Why a job did not come to its end.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Perhaps a kind that is yet to be served.
    #[error("the server has no kind {kind} in {api_version}")]
    NoKind { api_version: String, kind: String },
    /// An object without a namespace names an owner in one: that cannot be, and does not pass.
    #[error("an object without a namespace cannot be owned by one that has one")]
    WrongScope,
}

impl Job {
    /// The job for an object whose references are to be classified; none where the graph knows enough to
    /// leave it alone.
    pub(super) fn of(case: Case) -> Option<Self> {
        let settled = case.owners.iter().all(|(_, owner)| *owner == Owner::Solid);
        (!settled).then_some(Self::Settle(case))
    }

    pub(super) async fn run(self, client: &Client, kinds: &Kinds) -> Found {
        let mut found = Found::default();
        let (what, name) = match &self {
            Self::LookUp(identity) => ("look up an owner", identity.name.clone()),
            Self::Finish(identity) => ("end a foreground deletion", identity.name.clone()),
            Self::Settle(case) => ("collect", case.identity.name.clone()),
            Self::Orphan(identity, _) => ("orphan the dependents", identity.name.clone()),
        };
        let work = Work { client, kinds };
        let result = match self {
            Self::LookUp(identity) => work.look_up(identity, &mut found).await,
            Self::Finish(identity) => work.take_finalizer(&identity, FOREGROUND_FINALIZER).await,
            Self::Settle(case) => work.settle(case, &mut found).await,
            Self::Orphan(owner, dependents) => work.orphan(&owner, &dependents).await,
        };
        match result {
            Ok(()) => {}
            Err(Trouble::WrongScope) => found.hopeless = true,
            Err(error) => {
                tracing::debug!(what, %name, %error, "will be tried again");
                found.again = true;
            }
        }
        found
    }
}

struct Work<'a> {
    client: &'a Client,
    kinds: &'a Kinds,
}

/// An object as it is now.
#[derive(Deserialize)]
struct Live {
    metadata: LiveMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LiveMeta {
    uid: Uid,
    #[serde(default)]
    resource_version: ResourceVersion,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
    #[serde(default)]
    finalizers: Vec<String>,
}

impl Work<'_> {
    async fn look_up(&self, identity: Identity, found: &mut Found) -> Result<(), Trouble> {
        if self.live(&identity).await?.is_none() {
            found.gone = Some(identity);
        }
        Ok(())
    }

    async fn settle(&self, case: Case, found: &mut Found) -> Result<(), Trouble> {
        let Case { identity, version, owners, finalizers, has_dependents, in_cycle } = case;
        let (mut solid, mut dangling, mut waiting) = (false, Vec::new(), Vec::new());
        for (reference, known) in &owners {
            let state = match known {
                Owner::Unknown => self.owner(&identity, reference, found).await?,
                known => *known,
            };
            match state {
                Owner::Solid | Owner::Unknown => solid = true,
                Owner::Absent => dangling.push(reference.uid.clone()),
                Owner::Waiting => waiting.push(reference.uid.clone()),
            }
        }
        let references: Vec<OwnerReference> = owners.into_iter().map(|(reference, _)| reference).collect();
        if solid {
            // Others still own it. Those that wait would wait for ever, so they lose it as the absent do.
            let lost: Vec<Uid> = dangling.into_iter().chain(waiting).collect();
            if !lost.is_empty() {
                self.drop_references(&identity, &lost).await?;
            }
            return Ok(());
        }
        let policy = if !waiting.is_empty() && has_dependents {
            if in_cycle {
                self.unblock(&identity, &references).await?;
            }
            "Foreground"
        } else if finalizers.orphan {
            "Orphan"
        } else if finalizers.foreground {
            "Foreground"
        } else {
            "Background"
        };
        if !self.delete(&identity, version, &references, policy).await? {
            found.gone = Some(identity);
        }
        Ok(())
    }

    /// What the server says of an owner of which the graph does not know enough.
    async fn owner(&self, object: &Identity, reference: &OwnerReference, found: &mut Found) -> Result<Owner, Trouble> {
        let kind = self.kind(&reference.api_version, &reference.kind)?;
        if kind.namespaced && object.namespace.is_empty() {
            return Err(Trouble::WrongScope);
        }
        let namespace = if kind.namespaced { &*object.namespace } else { "" };
        let identity = coordinates(reference, namespace);
        Ok(match self.live(&identity).await? {
            None => {
                found.absent.push(identity);
                Owner::Absent
            }
            Some(live)
                if live.deletion_timestamp.is_some() && live.finalizers.iter().any(|f| f == FOREGROUND_FINALIZER) =>
            {
                Owner::Waiting
            }
            Some(_) => Owner::Solid,
        })
    }

    /// Deletes the object as it was at `version`. Where it has changed since, but not its owners, whatever
    /// version it has. Says whether it was there.
    async fn delete(
        &self,
        identity: &Identity,
        version: ResourceVersion,
        owners: &[OwnerReference],
        policy: &str,
    ) -> Result<bool, Trouble> {
        let path = self.path(identity)?;
        let options = |version: Option<ResourceVersion>| {
            let version = version.map(|version| format!(r#","resourceVersion":"{version}""#)).unwrap_or_default();
            Bytes::from(format!(
                r#"{{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"{policy}","preconditions":{{"uid":"{}"{version}}}}}"#,
                identity.uid
            ))
        };
        match self.client.delete(&path, Some(options(Some(version)))).await {
            Ok(_) => return Ok(true),
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) if !error.is_conflict() => return Err(error.into()),
            Err(_) => {}
        }
        match self.live(identity).await? {
            None => Ok(false),
            Some(live) if live.owner_references == owners => {
                match self.client.delete(&path, Some(options(None))).await {
                    Ok(_) => Ok(true),
                    Err(error) if error.is_not_found() => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            // Its owners changed: the watch brings it up again, with what they are now.
            Some(_) => Ok(true),
        }
    }

    async fn orphan(&self, owner: &Identity, dependents: &[Identity]) -> Result<(), Trouble> {
        let lost = std::slice::from_ref(&owner.uid);
        let mut releases: Vec<BoxFuture<'_, Result<(), Trouble>>> = Vec::with_capacity(dependents.len());
        for dependent in dependents {
            releases.push(Box::pin(self.release(dependent, lost)));
        }
        let mut releases = futures::stream::iter(releases).buffer_unordered(ORPHANS);
        while let Some(released) = releases.next().await {
            released?;
        }
        self.take_finalizer(owner, ORPHAN_FINALIZER).await
    }

    /// The same of an object that may be gone.
    async fn release(&self, identity: &Identity, owners: &[Uid]) -> Result<(), Trouble> {
        match self.drop_references(identity, owners).await {
            Err(Trouble::Client(error)) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Takes the references to these owners from an object.
    async fn drop_references(&self, identity: &Identity, owners: &[Uid]) -> Result<(), Trouble> {
        let gone: Vec<Value> = owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid.to_string()})).collect();
        let patch = json!({"metadata": {"ownerReferences": gone, "uid": identity.uid.to_string()}});
        self.patch(identity, patch, |live| {
            live.owner_references.iter().filter(|reference| !owners.contains(&reference.uid)).cloned().collect()
        })
        .await
    }

    /// Makes an object's references block nothing.
    async fn unblock(&self, identity: &Identity, references: &[OwnerReference]) -> Result<(), Trouble> {
        let unblocked = |reference: &OwnerReference| {
            let mut reference = reference.clone();
            reference.block_owner_deletion = Some(false);
            reference
        };
        let blocking = references.iter().filter(|reference| reference.block_owner_deletion == Some(true));
        let blocking: Vec<OwnerReference> = blocking.map(unblocked).collect();
        let patch = json!({"metadata": {"ownerReferences": blocking, "uid": identity.uid.to_string()}});
        self.patch(identity, patch, |live| live.owner_references.iter().map(unblocked).collect()).await
    }

    /// Patches an object's references: strategically, or, for a kind that does not take that, by replacing
    /// the whole list of the object as it is.
    async fn patch(
        &self,
        identity: &Identity,
        patch: Value,
        whole: impl Fn(&LiveMeta) -> Vec<OwnerReference>,
    ) -> Result<(), Trouble> {
        let path = self.path(identity)?;
        let body = Bytes::from(patch.to_string());
        match self.client.patch_metadata(&path, PatchType::StrategicMerge, body).await {
            Err(error) if error.code() == Some(415) => {}
            answer => return Ok(answer.map(drop)?),
        }
        let Some(live) = self.live(identity).await? else { return Ok(()) };
        let patch = json!({"metadata": {
            "resourceVersion": live.resource_version.to_string(),
            "ownerReferences": whole(&live),
        }});
        self.client.patch_metadata(&path, PatchType::Merge, Bytes::from(patch.to_string())).await?;
        Ok(())
    }

    async fn take_finalizer(&self, identity: &Identity, finalizer: &str) -> Result<(), Trouble> {
        let path = self.path(identity)?;
        let mut conflicts = 0;
        loop {
            let Some(live) = self.live(identity).await? else { return Ok(()) };
            let kept: Vec<&String> = live.finalizers.iter().filter(|f| *f != finalizer).collect();
            if kept.len() == live.finalizers.len() {
                return Ok(());
            }
            let version = live.resource_version.to_string();
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": kept}});
            match self.client.patch_metadata(&path, PatchType::Merge, Bytes::from(patch.to_string())).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() && conflicts < CONFLICTS => conflicts += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The object as it is now; none where there is none, or another one by that name.
    async fn live(&self, identity: &Identity) -> Result<Option<LiveMeta>, Trouble> {
        let path = self.path(identity)?;
        let answer = match self.client.get_as(&path, Form::Metadata).await {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let live: Live = serde_json::from_slice(&answer.body).map_err(|source| ClientError::Answer {
            method: http::Method::GET,
            path,
            source: Box::new(source),
        })?;
        Ok((live.metadata.uid == identity.uid).then_some(live.metadata))
    }

    fn path(&self, identity: &Identity) -> Result<String, Trouble> {
        let kind = self.kind(&identity.api_version, &identity.kind)?;
        if kind.namespaced && identity.namespace.is_empty() {
            return Err(Trouble::WrongScope);
        }
        Ok(kind.path(&identity.namespace, &identity.name))
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<&Kind, Trouble> {
        let unknown = || Trouble::NoKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        self.kinds.get(api_version, kind).ok_or_else(unknown)
    }
}
