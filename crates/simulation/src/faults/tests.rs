//! Each fault, as a client of an embedded server meets it.

use futures::StreamExt as _;
use http::Method;
use muster_apiserver::{ApiServer, Options as ServerOptions};
use muster_objects::Timestamp;
use muster_runtime::client::{Client, ClientError, Form, Options, PatchType, Received};
use muster_tree::{Value, json};

use super::*;
use crate::history::{History, Recorded};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1";
const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    client: Client,
    faults: Faults,
    history: History,
}

fn scene() -> Scene {
    let epoch = Timestamp::from_seconds(1_767_225_600);
    let server = ApiServer::new(ServerOptions::seeded(1, epoch));
    let (clock, history, faults) = (Clock::starting_at(epoch), History::default(), Faults::seeded(1));
    let service = Recorded::new(server.service(), "test", clock, history.clone());
    let options = Options { clock, protobuf: false, ..Options::default() };
    let client = Client::in_process(Faulty::new(service, "test", faults.clone()), &options);
    Scene { client, faults, history }
}

impl Scene {
    async fn create(&self, name: &str) -> Result<u16, ClientError> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client.post(MAPS, Bytes::from(map.to_string())).await.map(|answer| answer.status.as_u16())
    }

    fn creates(&self) -> usize {
        self.history.len()
    }

    async fn names(&self, query: &str) -> Vec<String> {
        let list = self.client.get(&format!("{MAPS}{query}")).await.unwrap();
        let list: Value = serde_json::from_slice(&list.body).unwrap();
        let names = list["items"].as_array().unwrap().iter();
        names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn is_perhaps(answer: &Result<u16, ClientError>) -> bool {
    matches!(answer, Err(ClientError::Transport { received: Received::Perhaps, .. }))
}

#[tokio::test(start_paused = true)]
async fn on_the_way_time_passes_before_and_after_the_server_has_acted() {
    let scene = scene();
    scene.faults.add(Rule::always(Fault::Delay(millis(300)..millis(301))));
    scene.faults.add(Rule::always(Fault::Slow(millis(500)..millis(501))));
    let start = Instant::now();
    assert_eq!(scene.create("a").await.unwrap(), 201);
    assert_eq!(start.elapsed(), millis(800));
    let acted = scene.history.since(0)[0].millis;
    assert_eq!(acted - 1_767_225_600_000, 300);
}

#[tokio::test(start_paused = true)]
async fn what_is_on_its_way_arrives_although_its_sender_is_gone() {
    let scene = scene();
    scene.faults.add(Rule::always(Fault::Delay(SECOND..SECOND * 2)));
    assert!(tokio::time::timeout(millis(10), scene.create("a")).await.is_err());
    assert_eq!(scene.creates(), 0);
    tokio::time::sleep(SECOND * 3).await;
    assert_eq!(scene.creates(), 1);
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn a_creation_without_an_answer_is_not_sent_again() {
    for (fault, arrives) in [(Fault::AnswerLost, 1), (Fault::Reset, 0), (Fault::Lost, 0)] {
        let scene = scene();
        scene.faults.add(Rule::always(fault.clone()));
        assert!(is_perhaps(&scene.create("a").await), "{fault:?}");
        tokio::time::sleep(SECOND * 600).await;
        assert_eq!((scene.creates(), scene.faults.struck().len()), (arrives, 1), "{fault:?}");
    }
}

/// Contract: CM-03
#[tokio::test(start_paused = true)]
async fn refusals_are_answered_as_kubernetes_does_and_sent_again_only_where_they_surely_were_refused() {
    let retried = 11;
    for (refusal, code, reason, posts, patches) in [
        (Refusal::Conflict, 409, "Conflict", 1, 1),
        (Refusal::Expired, 410, "Expired", 1, 1),
        (Refusal::Invalid, 422, "Invalid", 1, 1),
        (Refusal::TooManyRequests { retry_after: 1 }, 429, "TooManyRequests", retried, retried),
        // A wait of more than 10 s in all is left to the caller.
        (Refusal::TooManyRequests { retry_after: 7 }, 429, "TooManyRequests", 2, 2),
        (Refusal::InternalError, 500, "InternalError", 1, 1),
        (Refusal::Unavailable { retry_after: None }, 503, "ServiceUnavailable", 1, 1),
        (Refusal::Unavailable { retry_after: Some(1) }, 503, "ServiceUnavailable", 1, retried),
        (Refusal::Timeout, 504, "Timeout", 1, 1),
    ] {
        let scene = scene();
        scene.faults.add(Rule::always(Fault::Refuse(refusal)));
        let start = Instant::now();
        let refused = scene.create("a").await.unwrap_err();
        let api = refused.api().unwrap();
        assert_eq!((api.code, &*api.reason), (code, reason));
        assert_eq!(api.retry_after(), refusal.retry_after().map(|seconds| SECOND * seconds));
        assert_eq!(scene.faults.struck().len(), posts, "{refusal:?}");
        if posts == retried {
            assert_eq!(start.elapsed(), SECOND * 10);
        }
        let patch = scene.client.patch(&format!("{MAPS}/a"), PatchType::Merge, Bytes::from_static(b"{}")).await;
        patch.unwrap_err();
        assert_eq!(scene.faults.struck().len(), posts + patches, "{refusal:?}");
        assert_eq!(scene.creates(), 0, "nothing has arrived");
    }
    let scene = scene();
    scene.faults.add(Rule::always(Fault::ActAndRefuse(Refusal::Timeout)));
    assert_eq!(scene.create("a").await.unwrap_err().code(), Some(504));
    assert_eq!(scene.creates(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rule_strikes_where_when_and_as_often_as_it_says() {
    let scene = scene();
    let rule = Rule::always(Fault::Reset).verbs(&[Verb::Create]).resources(&["configmaps"]).within(SECOND..SECOND * 2);
    scene.faults.add(rule);
    scene.faults.add(Rule::always(Fault::Reset).of("another"));
    assert_eq!(scene.create("before").await.unwrap(), 201);
    tokio::time::sleep(SECOND).await;
    assert!(is_perhaps(&scene.create("within").await));
    assert_eq!(scene.names("").await, ["before"]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(scene.create("after").await.unwrap(), 201);

    scene.faults.end();
    scene.faults.add(Rule::always(Fault::Reset).per_mille(300));
    let mut broken = 0;
    for number in 0..1_000 {
        broken += i32::from(scene.create(&format!("map-{number}")).await.is_err());
    }
    assert!((250..350).contains(&broken), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_cut_in_the_middle_of_an_event() {
    let scene = scene();
    scene.create("a").await.unwrap();
    let (mut quietly, mut broken, mut whole) = (0, 0, 0);
    scene.faults.add(Rule::always(Fault::Cut));
    for _ in 0..40 {
        let mut watch = scene.client.watch(WATCH, Form::Full).await.unwrap();
        match watch.next().await {
            None => quietly += 1,
            Some(Err(_)) => broken += 1,
            Some(Ok(_)) => whole += 1,
        }
    }
    assert_eq!(whole, 0, "no event came whole");
    assert!(quietly > 5 && broken > 5, "{quietly} {broken}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_lags_in_order_or_stalls() {
    let scene = scene();
    scene.faults.add(Rule::always(Fault::Lag(SECOND..SECOND * 9)).within(Duration::ZERO..SECOND * 30));
    scene.faults.add(Rule::always(Fault::Stall).within(SECOND * 60..SECOND * 61));
    let mut watch = scene.client.watch(WATCH, Form::Full).await.unwrap();
    let start = Instant::now();
    for name in ["a", "b", "c"] {
        scene.create(name).await.unwrap();
        tokio::time::sleep(millis(10)).await;
    }
    for name in ["a", "b", "c"] {
        let event: Value = serde_json::from_slice(&watch.next().await.unwrap().unwrap()).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], name);
        assert!(start.elapsed() >= SECOND, "{name}");
    }
    tokio::time::sleep_until(start + SECOND * 60).await;
    scene.create("d").await.unwrap();
    tokio::time::sleep(SECOND * 10).await;
    scene.create("e").await.unwrap();
    assert!(tokio::time::timeout(SECOND * 600, watch.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_waits_can_be_let_go() {
    let scene = scene();
    let of = |fault, resource| Rule::always(fault).resources(&[resource]);
    scene.faults.add(of(Fault::Lost, "configmaps").verbs(&[Verb::Create]).within(SECOND..SECOND * 2));
    scene.faults.add(of(Fault::Lag(SECOND * 600..SECOND * 601), "configmaps").within(SECOND * 2..SECOND * 9));
    scene.faults.add(of(Fault::Slow(SECOND * 20..SECOND * 21), "configmaps").verbs(&[Verb::List]));
    scene.faults.add(of(Fault::Stall, "secrets"));
    scene.faults.add(of(Fault::Behind(SECOND * 900..SECOND * 901), "leases"));
    let start = Instant::now();
    let mut lags = scene.client.watch(WATCH, Form::Full).await.unwrap();
    let mut stalls = scene
        .client
        .watch(
            "/api/v1/secrets?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
        &resourceVersionMatch=NotOlderThan",
            Form::Full,
        )
        .await
        .unwrap();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let mut behind = scene.client.watch(&format!("{leases}?watch=true&resourceVersion=1"), Form::Full).await.unwrap();
    let faults = scene.faults.clone();
    tokio::spawn(async move {
        tokio::time::sleep(SECOND * 9).await;
        faults.end();
        faults.release();
    });
    tokio::time::sleep(SECOND).await;
    let lease = async |name: &str| {
        let lease = json!({"metadata": {"name": name}, "spec": {}});
        scene.client.post(leases, Bytes::from(lease.to_string())).await.unwrap();
    };
    let stale = async {
        lease("before").await;
        assert!(behind.next().await.unwrap().is_ok());
        let came = start.elapsed();
        lease("after").await;
        (came, behind.next().await.unwrap().is_ok(), start.elapsed())
    };
    let lost = async {
        let answer = scene.create("lost").await;
        (is_perhaps(&answer), start.elapsed())
    };
    let late = async {
        tokio::time::sleep(SECOND * 2).await;
        scene.create("late").await.unwrap();
        let event = lags.next().await.unwrap().is_ok();
        let came = start.elapsed();
        // Nor do those that follow wait behind it.
        scene.create("next").await.unwrap();
        (event, came, lags.next().await.unwrap().is_ok(), start.elapsed())
    };
    let stalled = async { (stalls.next().await.unwrap().is_err(), start.elapsed()) };
    let slow = async {
        let names = scene.names("").await;
        (names.len(), start.elapsed())
    };
    let at = SECOND * 9;
    let (lost, late, stalled, slow, stale) = tokio::join!(lost, late, stalled, slow, stale);
    assert_eq!((lost, late, stalled, slow), ((true, at), (true, at, true, at), (true, at), (0, at)));
    assert_eq!(stale, (at, true, at));
}

/// Events are told apart although the server sends them at once.
#[tokio::test(start_paused = true)]
async fn one_event_of_a_watch_is_lost_and_one_comes_twice() {
    let scene = scene();
    for name in ["a", "b", "c", "d"] {
        scene.create(name).await.unwrap();
    }
    scene.faults.add(Rule { nth: Some(2), ..Rule::always(Fault::EventLost) });
    scene.faults.add(Rule { nth: Some(4), ..Rule::always(Fault::EventTwice) });
    let watch = scene.client.watch(WATCH, Form::Full).await.unwrap();
    let events = watch.take(4).map(|line| serde_json::from_slice::<Value>(&line.unwrap()).unwrap());
    let names = events.map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    assert_eq!(names.collect::<Vec<_>>().await, ["a", "c", "d", "d"]);
    assert_eq!(scene.faults.strikes(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_breaks_every_connection() {
    let scene = scene();
    let mut watch = scene.client.watch(WATCH, Form::Full).await.unwrap();
    scene.faults.add(Rule::always(Fault::Slow(SECOND..SECOND * 2)));
    let faults = scene.faults.clone();
    tokio::spawn(async move {
        tokio::time::sleep(millis(500)).await;
        faults.go_away();
    });
    assert!(is_perhaps(&scene.create("a").await), "it went with the answer");
    assert!(watch.next().await.unwrap().is_ok(), "what had come before");
    assert!(watch.next().await.unwrap().is_err());
    assert!(is_perhaps(&scene.create("b").await));
    scene.faults.end();
    assert_eq!(scene.names("").await, ["a"]);
}

/// Whatever hangs or is late breaks with the rest.
#[tokio::test(start_paused = true)]
async fn what_waits_breaks_with_the_server() {
    let scene = scene();
    let of = |fault, resource| Rule::always(fault).resources(&[resource]);
    scene.faults.add(of(Fault::Lost, "configmaps").verbs(&[Verb::Create]));
    scene.faults.add(of(Fault::Lag(SECOND * 600..SECOND * 601), "namespaces"));
    scene.faults.add(of(Fault::Stall, "secrets"));
    let (faults, start) = (scene.faults.clone(), Instant::now());
    tokio::spawn(async move {
        tokio::time::sleep(SECOND * 9).await;
        faults.go_away();
    });
    let listed = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let watch = async |resource: &str| {
        let mut watch = scene.client.watch(&format!("/api/v1/{resource}?{listed}"), Form::Full).await.unwrap();
        let broken = watch.next().await.unwrap().is_err();
        (broken, start.elapsed(), watch.next().await.is_none())
    };
    let lost = async { (is_perhaps(&scene.create("lost").await), start.elapsed()) };
    let (late, stalled, lost) = tokio::join!(watch("namespaces"), watch("secrets"), lost);
    let at = SECOND * 9;
    assert_eq!((late, stalled, lost), ((true, at, true), (true, at, true), (true, at)));
}

#[tokio::test(start_paused = true)]
async fn only_a_list_that_may_be_old_is() {
    let scene = scene();
    scene.faults.add(Rule::always(Fault::Stale).verbs(&[Verb::List]));
    scene.create("a").await.unwrap();
    assert_eq!(scene.names("").await, ["a"]);
    scene.create("b").await.unwrap();
    assert_eq!(scene.names("?resourceVersion=0").await, ["a"], "as it was");
    assert_eq!(scene.names("").await, ["a", "b"], "consistent");
}

#[tokio::test(start_paused = true)]
async fn answers_have_the_time_of_the_given_clock() {
    let scene = scene();
    let ahead = Clock::starting_at(Timestamp::from_seconds(1_767_225_600 + 3_600));
    scene.faults.tell_time(Some(ahead));
    scene.names("").await;
    let off = scene.client.server_now().as_nanos() - scene.client.clock().now().as_nanos();
    assert!((3_599_000_000_000..3_601_000_000_000).contains(&off), "{off}");
}

/// Contract: API-39
#[tokio::test(start_paused = true)]
async fn what_comes_to_nothing_beside_another_fault_is_not_told() {
    let (slow, delay) = (Fault::Slow(SECOND..SECOND), Fault::Delay(SECOND..SECOND));
    let refused = || Fault::Refuse(Refusal::Conflict);
    for (added, expected) in [
        (vec![refused(), Fault::AnswerLost], vec![refused()]),
        (vec![slow.clone(), delay.clone(), refused(), Fault::Mutate], vec![delay, refused()]),
        (vec![Fault::AnswerLost, slow.clone()], vec![Fault::AnswerLost, slow]),
    ] {
        let faults = Faults::seeded(1);
        added.iter().for_each(|fault| faults.add(Rule::always(fault.clone())));
        let target = Target::of(&Method::PATCH, &"/api/v1/namespaces/default/pods/web".parse().unwrap());
        faults.fate(&"test".into(), &target);
        let told: Vec<Fault> = faults.struck().into_iter().map(|struck| struck.fault).collect();
        assert_eq!(told, expected, "{added:?}");
    }
}

/// A fault strikes the same requests, in the same way, whatever other rules and other requests there are.
///
/// Contract: SI-01
#[test]
fn what_a_rule_strikes_depends_on_no_other_rule_and_no_other_request() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _guard = runtime.enter();
    let slow = || Rule::always(Fault::Slow(millis(0)..SECOND)).resources(&["pods"]).per_mille(300);
    let target = |name: &str, verb: Method| {
        Target::of(&verb, &format!("/api/v1/namespaces/default/pods/{name}").parse().unwrap())
    };
    let struck = |others: bool| {
        let faults = Faults::seeded(9);
        if others {
            faults.add(Rule::always(Fault::AnswerLost).per_mille(500));
            faults.add(Rule::always(Fault::Cut));
        }
        faults.add(slow());
        for nth in 0..300 {
            if others && nth % 3 == 0 {
                faults.fate(&"test".into(), &target("other", Method::PATCH));
                faults.fate(&"another".into(), &target("web", Method::PATCH));
            }
            faults.fate(&"test".into(), &target("web", Method::PATCH));
        }
        let struck = faults.struck().into_iter().filter(|struck| matches!(struck.fault, Fault::Slow(_)));
        let mine = struck.filter(|struck| struck.target.name == "web" && &*struck.who == "test");
        mine.map(|struck| (struck.nth, struck.fault)).collect::<Vec<_>>()
    };
    let alone = struck(false);
    assert!((60..120).contains(&alone.len()), "{alone:?}");
    assert_eq!(alone, struck(true));
}

/// What a fault cannot strike is not counted.
#[tokio::test(start_paused = true)]
async fn the_first_of_those_that_a_fault_can_strike_is_struck() {
    let scene = scene();
    scene.faults.add(Rule { nth: Some(2), ..Rule::always(Fault::Mutate) });
    scene.names("").await;
    for name in ["a", "b", "c"] {
        scene.names("").await;
        scene.create(name).await.unwrap();
    }
    let struck: Vec<_> = scene.faults.struck().into_iter().map(|struck| struck.target.name).collect();
    assert_eq!(struck, ["b"]);
}

/// Contract: SI-01
#[test]
fn a_rule_is_written_and_read() {
    for yaml in [
        "fault: reset\n",
        "fault:\n  delay: 0s..2s\nperMille: 50\n",
        "fault:\n  refuse:\n    too-many-requests:\n      retry-after: 1\nclient: controllers\nverbs:\n- create\n- patch\n",
        "fault:\n  refuse: conflict\nresources:\n- pods\nname: web\nsubresource: status\nnth: 3\nfrom: 1.5s\nuntil: 20s\n",
        "fault:\n  cut-at:\n    bytes: 17\n    quietly: true\nnamespace: default\n",
    ] {
        let rule: Rule = serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
        let written = serde_saphyr::to_string(&rule).unwrap();
        assert_eq!(serde_saphyr::from_str::<Rule>(&written).unwrap(), rule, "{written}");
        assert_eq!(Value::of(&rule).unwrap(), serde_saphyr::from_str::<Value>(yaml).unwrap());
    }
    for (yaml, said) in [
        ("fault: resett", "resett"),
        ("fault: {delay: soon}", "soon"),
        ("fault: {delay: 2s..1s}", "shorter"),
        ("fault: reset\nverb: create", "verb"),
        ("fault: reset\nverbs: [creates]", "creates"),
    ] {
        let error = serde_saphyr::from_str::<Rule>(yaml).unwrap_err().to_string();
        assert!(error.contains(said), "{yaml}: {error}");
    }
}
