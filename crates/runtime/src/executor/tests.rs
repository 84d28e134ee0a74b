//! Plans performed against a scripted writer that records its requests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use muster_controllers::plan::{EventText, EventTexts, Ownership, Requeue};
use muster_objects::{Selector, meta::Uid};
use serde_json::{Value, json};

use super::*;

/// Answers each request by its line, the first answer first; what is not scripted succeeds.
#[derive(Clone, Default)]
struct Script {
    inner: Arc<Mutex<ScriptInner>>,
}

#[derive(Default)]
struct ScriptInner {
    asked: Vec<String>,
    bodies: Vec<Value>,
    answers: BTreeMap<String, VecDeque<Result<Value, Failure>>>,
    created: u64,
    in_flight: u32,
    /// The most requests that were on their way at once since last asked.
    widest: u32,
    waves: Vec<u32>,
}

impl Script {
    fn on(&self, line: &str, answer: Result<Value, Failure>) -> &Self {
        self.inner.lock().unwrap().answers.entry(line.to_owned()).or_default().push_back(answer);
        self
    }

    fn asked(&self) -> Vec<String> {
        self.inner.lock().unwrap().asked.clone()
    }

    /// How many requests were on their way together, wave by wave.
    fn waves(&self) -> Vec<u32> {
        self.inner.lock().unwrap().waves.clone()
    }

    async fn answer(&self, line: String, body: Value) -> Result<Value, Failure> {
        {
            let mut inner = self.inner.lock().unwrap();
            inner.asked.push(line.clone());
            inner.bodies.push(body);
            inner.in_flight += 1;
            inner.widest = inner.widest.max(inner.in_flight);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut inner = self.inner.lock().unwrap();
        inner.in_flight -= 1;
        if inner.in_flight == 0 {
            let widest = std::mem::take(&mut inner.widest);
            inner.waves.push(widest);
        }
        let scripted = inner.answers.get_mut(&line).and_then(VecDeque::pop_front);
        scripted.unwrap_or_else(|| {
            inner.created += 1;
            let number = inner.created;
            Ok(json!({"name": format!("n{number}"), "rv": 100 + number}))
        })
    }
}

impl Writer for Script {
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Written, Failure>> {
        let (line, body) = match write {
            Write::Create { resource, namespace, body } => (format!("create {} {namespace}", resource.plural), body),
            Write::Delete { key, options, .. } => (format!("delete {key}"), options),
            Write::Patch { key, subresource, body, .. } => {
                (format!("patch {key} {}", subresource.unwrap_or("-")), body)
            }
        };
        let body = serde_json::from_slice(body).unwrap();
        Box::pin(async move {
            let answer = self.answer(line, body).await?;
            Ok(Written {
                name: answer["name"].as_str().unwrap_or_default().into(),
                uid: Uid::default(),
                resource_version: answer["rv"].as_u64().map(ResourceVersion),
            })
        })
    }

    fn read<'a>(&'a self, resource: &'a Resource, key: &'a ObjectKey) -> BoxFuture<'a, Result<Bytes, Failure>> {
        let line = format!("read {} {key}", resource.plural);
        Box::pin(async move { Ok(self.answer(line, Value::Null).await?.to_string().into()) })
    }
}

#[derive(Default)]
struct Book(Mutex<Vec<String>>);

impl Book {
    fn write(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|found| found.starts_with(line)).count()
    }
}

impl Ledger for Book {
    fn expect(&self, _: &Owner, expectation: &Expectation) {
        self.write(match expectation {
            Expectation::Creations(count) => format!("expect {count} creations"),
            Expectation::Deletions(keys) => format!("expect {} deletions", keys.len()),
        });
    }

    fn lower_creations(&self, _: &Owner, count: u32) {
        self.write(format!("lower {count} creations"));
    }

    fn lower_deletion(&self, _: &Owner, key: &ObjectKey) {
        self.write(format!("lower deletion {key}"));
    }

    fn wrote(&self, _: &Owner, resource: &Resource, version: ResourceVersion) {
        self.write(format!("wrote {} {version}", resource.plural));
    }

    fn round_ended(&self, _: &Owner, outcome: &Outcome) {
        self.write(format!("round ended, accounted for {}", outcome.is_accounted_for()));
    }

    fn announce(&self, _: &Owner, announcement: Announcement) {
        let kind = if announcement.warning { "Warning" } else { "Normal" };
        self.write(format!("{kind} {}: {}", announcement.reason, announcement.message));
    }

    fn remark(&self, _: &Owner, remark: &Remark) {
        self.write(format!("{remark:?}"));
    }
}

/// A sync that wants one thing and then is done.
struct Once {
    owner: Owner,
    next: Option<Next>,
    report: Option<Report>,
}

impl SyncSteps for Once {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn puts_counts_off(&self) -> bool {
        false
    }

    fn next(&mut self, report: Report, _: Timestamp) -> Next {
        match self.next.take() {
            Some(next) => next,
            None => {
                self.report = Some(report);
                Next::Done(Verdict::done(Requeue::None))
            }
        }
    }
}

fn uid(n: u8) -> Uid {
    Uid::from_bytes([n; 16])
}

fn owner() -> Owner {
    Owner {
        resource: Resource::REPLICA_SETS,
        key: ObjectKey::new("ns", "web"),
        uid: uid(1),
        resource_version: ResourceVersion(5),
        generation: 1,
        component: "replicaset-controller",
    }
}

async fn run(next: Next, script: &Script) -> (Report, Book) {
    let book = Book::default();
    let mut sync = Once { owner: owner(), next: Some(next), report: None };
    perform(&mut sync, script, &book, || Timestamp::UNIX_EPOCH).await;
    (sync.report.unwrap(), book)
}

async fn round(steps: Vec<Step>, expectation: Option<Expectation>, script: &Script) -> (Outcome, Book) {
    let plan = Plan { expectation, steps, ..Plan::nothing(owner()) };
    match run(Next::Perform(Box::new(plan)), script).await {
        (Report::Performed(outcome), book) => (outcome, book),
        (other, _) => panic!("{other:?}"),
    }
}

fn creation(count: u32) -> Creation {
    Creation {
        resource: Resource::PODS,
        namespace: "ns".into(),
        count,
        body: Bytes::from_static(br#"{"metadata":{"generateName":"web-"}}"#),
        name: None,
        events: EventTexts {
            success: Some(("SuccessfulCreate", EventText::Before("Created pod: "))),
            failure: Some(("FailedCreate", EventText::Before("Error creating: "))),
            error_context: None,
        },
    }
}

fn deletion(name: &str) -> Deletion {
    Deletion {
        resource: Resource::PODS,
        key: ObjectKey::new("ns", name),
        uid: uid(9),
        resource_version: ResourceVersion(7),
        ownership: Arc::new(Ownership {
            owner: uid(1),
            selector: Selector::parse("app=web").unwrap(),
            generation: None,
        }),
        unready: false,
        events: EventTexts {
            success: Some(("SuccessfulDelete", EventText::Before("Deleted pod: "))),
            failure: Some(("FailedDelete", EventText::Before("Error deleting: "))),
            error_context: Some("unable to delete pods"),
        },
    }
}

fn refusal(code: u16, reason: &str) -> Failure {
    Failure { code, reason: reason.into(), ..Failure::local(format!("{reason}!")) }
}

/// A pod of ours as it is read again.
fn fresh(uid: &Uid, owner: &Uid, version: u64) -> Value {
    json!({"metadata": {
        "name": "a", "uid": uid, "resourceVersion": version.to_string(), "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": true}
        ],
    }})
}

/// Contract: RS-09, EX-01, RS-19
#[tokio::test(start_paused = true)]
async fn creations_go_in_doubling_batches_each_side_by_side() {
    let script = Script::default();
    let steps = vec![Step::Create(creation(11))];
    let (outcome, book) = round(steps, Some(Expectation::Creations(11)), &script).await;
    assert_eq!(script.waves(), [1, 2, 4, 4]);
    assert_eq!((outcome.created, outcome.error, outcome.not_tried), (11, None, 0));
    let lines = book.lines();
    assert_eq!(lines[0], "expect 11 creations", "before the first write");
    assert_eq!(lines[1..3], ["Normal SuccessfulCreate: Created pod: n1", "wrote pods 101"]);
    assert_eq!(book.count("wrote pods"), 11);
    assert_eq!(lines.last().unwrap(), "round ended, accounted for true");
}

/// Contract: RS-09, RS-11, EX-05
#[tokio::test(start_paused = true)]
async fn a_batch_with_a_failure_is_the_last_and_the_rest_is_no_longer_expected() {
    let script = Script::default();
    for answer in [Ok(json!({"name": "x", "rv": 1})), Err(refusal(403, "Forbidden"))] {
        script.on("create pods ns", answer);
    }
    let (outcome, book) = round(vec![Step::Create(creation(10))], Some(Expectation::Creations(10)), &script).await;
    assert_eq!(script.waves(), [1, 2], "the batch of the failure is finished, the next is not begun");
    assert_eq!((outcome.created, outcome.failed, outcome.not_tried), (2, 1, 7));
    assert_eq!(outcome.error.unwrap().message, "Forbidden!");
    assert_eq!(book.count("lower 1 creations"), 1, "the one that failed");
    assert_eq!(book.count("lower 7 creations"), 1, "those never tried");
    assert_eq!(book.count("Warning FailedCreate: Error creating: Forbidden!"), 1);
}

/// Contract: RS-12
#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_is_no_error_and_no_event() {
    let script = Script::default();
    let terminating = Failure { causes: vec!["NamespaceTerminating".into()], ..refusal(403, "Forbidden") };
    script.on("create pods ns", Err(terminating));
    let (outcome, book) = round(vec![Step::Create(creation(5))], Some(Expectation::Creations(5)), &script).await;
    assert_eq!((outcome.error, outcome.not_needed, outcome.not_tried), (None, 1, 4));
    assert_eq!(book.count("Warning"), 0);
    assert_eq!(book.count("lower"), 2, "all five are no longer expected: {:?}", book.lines());
}

/// If pods were deleted by somebody else the owner is read first. One that is gone, is another object or is being
/// deleted gets no pods, and nothing is expected of the round.
///
/// Contract: B-23
#[tokio::test(start_paused = true)]
async fn an_owner_is_confirmed_before_anything_is_created() {
    let metadata = |uid: &str, deleted: Value| json!({"metadata": {"uid": uid, "deletionTimestamp": deleted}});
    let plan = || Plan {
        confirm_owner: true,
        expectation: Some(Expectation::Creations(2)),
        steps: vec![Step::Create(creation(2))],
        ..Plan::nothing(owner())
    };
    let uid = owner().uid.to_string();
    let gone = refusal(404, "NotFound");
    for (name, answer, not_needed) in [
        ("there", Ok(metadata(&uid, Value::Null)), None),
        ("being deleted", Ok(metadata(&uid, json!("2026-01-01T00:00:00Z"))), Some(2)),
        ("another", Ok(metadata("another", Value::Null)), Some(2)),
        ("gone", Err(gone), Some(2)),
        ("not to be read", Err(refusal(500, "InternalError")), Some(0)),
    ] {
        let (script, book) = (Script::default(), Book::default());
        let read = format!("read {} {}", owner().resource.plural, owner().key);
        script.on(&read, answer);
        let owner = owner();
        let outcome = Run { owner: &owner, writer: &script, ledger: &book }.round(&plan()).await;
        assert_eq!(script.asked()[0], read, "{name}");
        let found = outcome.unconfirmed.then_some(outcome.not_needed);
        assert_eq!((found, outcome.created), (not_needed, if not_needed.is_none() { 2 } else { 0 }), "{name}");
        assert_eq!(outcome.error.is_some(), not_needed == Some(0), "{name}");
        assert_eq!(book.count("expect"), usize::from(not_needed.is_none()), "{name}");
    }
}

/// A name that is taken ends the round without an Event: the later steps were planned for an object that does not
/// exist. An Event alone sends no request.
///
/// Contract: DEP-02, DEP-05
#[tokio::test(start_paused = true)]
async fn a_taken_name_ends_the_round_and_an_event_alone_sends_nothing() {
    let script = Script::default();
    script.on("create pods ns", Err(refusal(409, "AlreadyExists")));
    let told = Announcement { warning: true, reason: "SelectingAll", message: "everything".into() };
    let named = Creation { name: Some("web".into()), ..creation(1) };
    let steps = vec![Step::Tell(told), Step::Create(named), Step::Delete(vec![deletion("a")])];
    let holder = json!({"metadata": {"name": "web", "uid": "other", "resourceVersion": "7", "ownerReferences": []}});
    script.on("read pods ns/web", Ok(holder));
    let (outcome, book) = round(steps, None, &script).await;
    assert_eq!(script.asked(), ["create pods ns", "read pods ns/web"]);
    assert!(outcome.name_taken.is_some_and(|failure| failure.is_already_exists()));
    assert_eq!((outcome.error, outcome.deleted), (None, 0));
    let holder = outcome.holder.expect("it was read");
    assert_eq!((holder.uid, holder.controller), (Uid::new("other"), None));
    assert_eq!(book.count("wrote pods 7"), 1, "the next sync waits for a cache that knows of it");
    assert_eq!(book.lines()[0], "Warning SelectingAll: everything");
    assert_eq!(book.count("Warning"), 1);
}

/// Contract: DEP-10, B-04
#[tokio::test(start_paused = true)]
async fn patches_go_one_by_one_up_to_the_first_that_fails() {
    let patch = |name: &str| Patch {
        resource: Resource::REPLICA_SETS,
        key: ObjectKey::new("ns", name),
        subresource: None,
        patch_type: PatchType::Json,
        body: Bytes::from_static(b"[]"),
        events: EventTexts::SILENT,
        purpose: "scale".into(),
    };
    let script = Script::default();
    script.on("patch ns/b -", Err(refusal(409, "Conflict")));
    let (outcome, book) = round(vec![Step::Patch(["a", "b", "c"].map(patch).into())], None, &script).await;
    assert_eq!((script.asked(), script.waves()), (vec!["patch ns/a -".into(), "patch ns/b -".into()], vec![1, 1]));
    assert_eq!((outcome.patched, outcome.failed), (1, 1));
    assert_eq!(book.count("wrote replicasets 101"), 1);
}

/// Contract: EX-05, B-01
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_leaves_the_round_unaccounted() {
    let script = Script::default();
    script.on("create pods ns", Err(Failure::unanswered("connection reset")));
    let (outcome, book) = round(vec![Step::Create(creation(1))], None, &script).await;
    assert!(!outcome.is_accounted_for());
    assert_eq!(book.lines().last().unwrap(), "round ended, accounted for false");
}

/// Contract: RS-13, RS-11, EX-05
#[tokio::test(start_paused = true)]
async fn deletions_go_all_at_once_and_one_already_gone_is_no_error() {
    let script = Script::default();
    script.on("delete ns/b", Err(refusal(404, "NotFound")));
    script.on("delete ns/c", Err(refusal(500, "InternalError")));
    let victims = ["a", "b", "c", "d"].map(deletion).to_vec();
    let (outcome, book) = round(vec![Step::Delete(victims)], None, &script).await;
    assert_eq!(script.waves(), [4]);
    assert_eq!((outcome.deleted, outcome.already_gone, outcome.failed), (2, 1, 1));
    assert_eq!(outcome.error.unwrap().message, "unable to delete pods: InternalError!");
    assert_eq!(book.count("lower deletion ns/b"), 1);
    assert_eq!(book.count("lower deletion ns/c"), 1);
    assert_eq!(book.count("lower"), 2);
    assert_eq!(book.count("Normal SuccessfulDelete: Deleted pod: a"), 1);
    assert_eq!(book.count("Warning FailedDelete: Error deleting: InternalError!"), 1);
}

/// Contract: B-02
#[tokio::test(start_paused = true)]
async fn a_deletion_names_what_it_believes_and_looks_again_at_a_conflict() {
    let script = Script::default();
    script.on("delete ns/a", Err(refusal(409, "Conflict")));
    script.on("read pods ns/a", Ok(fresh(&uid(9), &uid(1), 8)));
    let (outcome, _) = round(vec![Step::Delete(vec![deletion("a")])], None, &script).await;
    assert_eq!(outcome.deleted, 1);
    assert_eq!(script.asked(), ["delete ns/a", "read pods ns/a", "delete ns/a"]);
    let bodies = script.inner.lock().unwrap().bodies.clone();
    assert_eq!(bodies[0]["preconditions"], json!({"uid": uid(9), "resourceVersion": "7"}));
    assert_eq!(bodies[2]["preconditions"], json!({"uid": uid(9), "resourceVersion": "8"}));
}

/// Contract: B-02
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_recreated_or_orphaned_in_between_lives() {
    for read in [Ok(fresh(&uid(8), &uid(1), 8)), Ok(fresh(&uid(9), &uid(2), 8)), Err(refusal(404, "NotFound"))] {
        let script = Script::default();
        script.on("delete ns/a", Err(refusal(409, "Conflict")));
        script.on("read pods ns/a", read);
        let (outcome, book) = round(vec![Step::Delete(vec![deletion("a")])], None, &script).await;
        assert_eq!((outcome.deleted, outcome.error), (0, None));
        assert_eq!(script.asked(), ["delete ns/a", "read pods ns/a"]);
        assert_eq!(book.count("lower deletion ns/a"), 1, "it will not be seen to go");
    }
}

/// Contract: B-02
#[tokio::test(start_paused = true)]
async fn a_pod_that_never_holds_still_is_left_to_the_next_sync() {
    let script = Script::default();
    for version in 8..40 {
        script.on("delete ns/a", Err(refusal(409, "Conflict")));
        script.on("read pods ns/a", Ok(fresh(&uid(9), &uid(1), version)));
    }
    let (outcome, _) = round(vec![Step::Delete(vec![deletion("a")])], None, &script).await;
    assert_eq!(outcome.failed, 1);
    let deletes = script.asked().iter().filter(|line| line.starts_with("delete")).count();
    assert_eq!(deletes, Deletion::MOST_ATTEMPTS as usize);
}

fn claims() -> ClaimPlan {
    let reference = muster_objects::meta::ControllerRef {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web".into(),
        uid: uid(1),
    };
    let patch = |action, name: &str, n| {
        ClaimPatch::new(action, Resource::PODS, ObjectKey::new("ns", name), &uid(n), &reference)
    };
    let adopt = |name, n| patch(ClaimAction::Adopt, name, n);
    let release = |name, n| patch(ClaimAction::Release, name, n);
    ClaimPlan {
        owner: owner(),
        resource: Resource::PODS,
        patches: vec![adopt("a", 10), release("b", 11), adopt("c", 12), release("d", 13)],
    }
}

async fn claimed(plan: ClaimPlan, script: &Script) -> (ClaimOutcome, Book) {
    match run(Next::Claim(plan), script).await {
        (Report::Claimed(outcome), book) => (outcome, book),
        (other, _) => panic!("{other:?}"),
    }
}

/// Contract: RS-07, RS-08
#[tokio::test(start_paused = true)]
async fn the_owner_is_read_once_before_the_first_adoption() {
    let script = Script::default();
    script.on("read replicasets ns/web", Ok(json!({"metadata": {"name": "web", "uid": uid(1)}})));
    let (outcome, book) = claimed(claims(), &script).await;
    let asked = script.asked();
    assert_eq!(asked[0], "read replicasets ns/web");
    assert_eq!(asked.iter().filter(|line| line.starts_with("read")).count(), 1);
    assert_eq!(asked[1..], ["patch ns/a -", "patch ns/b -", "patch ns/c -", "patch ns/d -"]);
    assert_eq!(outcome.adopted.keys().cloned().collect::<Vec<_>>(), [uid(10), uid(12)]);
    assert_eq!(book.count("wrote pods"), 4);
    let bodies = script.inner.lock().unwrap().bodies.clone();
    assert_eq!(bodies[1]["metadata"]["uid"], json!(uid(10)), "the patch names the pod it means");
    assert_eq!(bodies[1]["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], json!(true));
}

/// Contract: RS-07
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_another_or_being_deleted_adopts_nothing_but_releases() {
    for owner in [
        json!({"metadata": {"name": "web", "uid": uid(2)}}),
        json!({"metadata": {"name": "web", "uid": uid(1), "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    ] {
        let script = Script::default();
        script.on("read replicasets ns/web", Ok(owner));
        let (outcome, _) = claimed(claims(), &script).await;
        assert_eq!(script.asked(), ["read replicasets ns/web", "patch ns/b -", "patch ns/d -"]);
        assert!(outcome.adopted.is_empty());
        assert_eq!(outcome.failures.len(), 2);
        assert!(outcome.failures[0].message.starts_with("can't adopt Pod ns/a"), "{}", outcome.failures[0]);
    }
}

/// Contract: RS-08
#[tokio::test(start_paused = true)]
async fn errors_of_claims_are_collected_after_every_pod_was_tried() {
    let script = Script::default();
    script.on("read replicasets ns/web", Ok(json!({"metadata": {"name": "web", "uid": uid(1)}})));
    script.on("patch ns/a -", Err(refusal(500, "InternalError")));
    script.on("patch ns/b -", Err(refusal(422, "Invalid")));
    script.on("patch ns/c -", Err(refusal(404, "NotFound")));
    script.on("patch ns/d -", Err(refusal(403, "Forbidden")));
    let (outcome, _) = claimed(claims(), &script).await;
    assert_eq!(script.asked().len(), 5);
    let told: Vec<&str> = outcome.failures.iter().map(|failure| &*failure.message).collect();
    assert_eq!(told, ["InternalError!", "Forbidden!"], "in the order of the pods");
}

fn status() -> StatusWrite {
    StatusWrite {
        resource: Resource::REPLICA_SETS,
        key: ObjectKey::new("ns", "web"),
        uid: uid(1),
        resource_version: Some(ResourceVersion(5)),
        can_wait: false,
        status: json!({"replicas": 3, "observedGeneration": 1}),
        annotations: std::collections::BTreeMap::new(),
    }
}

async fn status_written(script: &Script) -> (Result<Written, Failure>, Book) {
    match run(Next::WriteStatus(status()), script).await {
        (Report::StatusWritten(result), book) => (result, book),
        (other, _) => panic!("{other:?}"),
    }
}

/// Contract: RS-17, RS-19
#[tokio::test(start_paused = true)]
async fn a_failed_status_is_written_once_more_after_a_fresh_read() {
    let script = Script::default();
    script.on("patch ns/web status", Err(refusal(409, "Conflict")));
    script.on(
        "read replicasets ns/web",
        Ok(json!({"metadata": {"name": "web", "uid": uid(1), "resourceVersion": "8", "generation": 2}})),
    );
    let (result, book) = status_written(&script).await;
    assert!(result.is_ok());
    assert_eq!(script.asked(), ["patch ns/web status", "read replicasets ns/web", "patch ns/web status"]);
    let bodies = script.inner.lock().unwrap().bodies.clone();
    assert_eq!(bodies[0]["metadata"]["resourceVersion"], json!("5"));
    assert_eq!(bodies[2]["metadata"]["resourceVersion"], json!("8"));
    assert_eq!(bodies[2]["status"]["observedGeneration"], json!(1), "a spec seen by the read alone is not observed");
    assert_eq!(book.lines(), ["wrote replicasets 101"]);

    let script = Script::default();
    for _ in 0..3 {
        script.on("patch ns/web status", Err(refusal(409, "Conflict")));
    }
    script.on("read replicasets ns/web", Ok(json!({"metadata": {"uid": uid(1), "resourceVersion": "8"}})));
    let (result, _) = status_written(&script).await;
    assert!(result.unwrap_err().is_conflict(), "the second failure is the sync's");
    assert_eq!(script.asked().len(), 3);
}

/// Contract: RS-17
#[tokio::test(start_paused = true)]
async fn the_status_of_a_deleted_owner_is_not_written_to_a_new_one_of_its_name() {
    let script = Script::default();
    script.on("patch ns/web status", Err(refusal(409, "Conflict")));
    script.on("read replicasets ns/web", Ok(json!({"metadata": {"uid": uid(2), "resourceVersion": "8"}})));
    let (result, _) = status_written(&script).await;
    assert!(result.unwrap_err().message.contains("is gone"));
    assert_eq!(script.asked().len(), 2);
}
