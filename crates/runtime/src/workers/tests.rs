//! Workers and their queue under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use muster_controllers::plan::Failure;
use tokio::time::Instant;

use super::*;
use crate::shutdown;

type Body = dyn Fn(&ObjectKey) -> (Duration, Synced) + Send + Sync;

/// Syncs that wait and return by a script, and record when.
struct Scripted {
    start: Instant,
    log: Mutex<Vec<String>>,
    running: AtomicUsize,
    most: AtomicUsize,
    body: Box<Body>,
}

impl Scripted {
    fn new(body: impl Fn(&ObjectKey) -> (Duration, Synced) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            log: Mutex::default(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            body: Box::new(body),
        })
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn write(&self, what: &str, key: &ObjectKey) {
        self.log.lock().unwrap().push(format!("{} {what} {}", self.start.elapsed().as_millis(), key.name));
    }
}

impl Controller for Scripted {
    fn sync<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        Box::pin(async move {
            self.write("begin", key);
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            let (wait, synced) = (self.body)(key);
            tokio::time::sleep(wait).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.write("end", key);
            synced
        })
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn done() -> Synced {
    Synced::Done(Verdict::done(Requeue::None))
}

fn failed() -> Synced {
    Synced::Done(Verdict::failed(Failure::local("no")))
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn start(controller: &Arc<Scripted>, workers: usize) -> (Queue, shutdown::Trigger, tokio::task::JoinHandle<()>) {
    let clock = Clock::system();
    let queue = Queue::new("replicaset", clock, &Metrics::new(clock));
    let (trigger, stop) = shutdown::channel();
    let (running, controller) = (queue.clone(), Arc::clone(controller));
    let task = tokio::spawn(async move { running.work(controller, workers, stop).await });
    (queue, trigger, task)
}

/// A sync that waits for nothing, as one that finds nothing to do.
#[derive(Clone, Default)]
struct AtOnce(Arc<AtomicUsize>);

impl Controller for AtOnce {
    fn sync<'a>(&'a self, _key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(done()))
    }
}

#[tokio::test(start_paused = true)]
async fn many_syncs_that_wait_for_nothing_leave_room_for_other_tasks() {
    const KEYS: usize = 1_000;
    let clock = Clock::system();
    let (queue, controller) = (Queue::new("replicaset", clock, &Metrics::new(clock)), AtOnce::default());
    queue.add((0..KEYS).map(|number| key(&number.to_string())));
    let (_trigger, stop) = shutdown::channel();
    let working = {
        let (queue, controller) = (queue.clone(), controller.clone());
        tokio::spawn(async move { queue.work(controller, 1, stop).await })
    };
    let mut synced = 0;
    for _ in 0..KEYS {
        let before = std::mem::replace(&mut synced, controller.0.load(Ordering::SeqCst));
        assert!(synced - before < KEYS / 2, "{} syncs at a stretch", synced - before);
        tokio::task::yield_now().await;
    }
    assert_eq!(synced, KEYS);
    working.abort();
}

/// Contract: WQ-01
#[tokio::test(start_paused = true)]
async fn a_key_is_never_in_two_workers_and_comes_again_if_added_meanwhile() {
    let controller = Scripted::new(|_| (millis(10), done()));
    let (queue, _trigger, _task) = start(&controller, 5);
    queue.add([key("a"), key("a")]);
    tokio::time::sleep(millis(5)).await;
    queue.add([key("a")]);
    queue.add([key("b")]);
    tokio::time::sleep(millis(100)).await;
    assert_eq!(controller.log(), ["0 begin a", "5 begin b", "10 end a", "10 begin a", "15 end b", "20 end a"]);
}

/// Contract: WQ-01
#[tokio::test(start_paused = true)]
async fn keys_of_one_batch_are_shared_among_the_workers() {
    let controller = Scripted::new(|_| (millis(10), done()));
    let (queue, _trigger, _task) = start(&controller, 3);
    tokio::time::sleep(millis(1)).await;
    queue.add(["a", "b", "c", "d"].map(key));
    tokio::time::sleep(millis(50)).await;
    assert_eq!(controller.most.load(Ordering::SeqCst), 3);
    assert_eq!(controller.log().last().unwrap(), "21 end d");
}

/// Syncs `long` for 75 s and everything else in no time.
fn one_long_sync() -> Arc<Scripted> {
    Scripted::new(|key| (if &*key.name == "long" { Duration::from_secs(75) } else { Duration::ZERO }, done()))
}

/// Contract: WQ-01
#[tokio::test(start_paused = true)]
async fn idle_workers_are_woken_beside_one_in_a_long_sync() {
    let controller = one_long_sync();
    let (queue, _trigger, _task) = start(&controller, 5);
    tokio::time::sleep(millis(1)).await;
    // More keys than workers, one at a time: each worker would have its turn to be woken.
    for name in ["long", "a", "b", "c", "d", "e", "f"] {
        queue.add([key(name)]);
        tokio::time::sleep(millis(1)).await;
    }
    let begins: Vec<String> = controller.log().into_iter().filter(|line| line.contains("begin")).collect();
    let expected = ["1 long", "2 a", "3 b", "4 c", "5 d", "6 e", "7 f"];
    assert_eq!(begins, expected.map(|line| line.replace(' ', " begin ")));
}

/// Contract: WQ-02
#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_for_by_an_idle_worker_when_the_one_that_knew_of_it_is_busy() {
    let controller = one_long_sync();
    let (queue, _trigger, _task) = start(&controller, 5);
    tokio::time::sleep(millis(1)).await;
    // One wake-up for both, so that only one of the workers knows of either.
    queue.with(|queue, now| {
        queue.add_after(key("long"), millis(100), now);
        queue.add_after(key("a"), millis(200), now);
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(controller.log(), ["101 begin long", "201 begin a", "201 end a"]);
}

/// What came while another manager led counts as added by the start.
///
/// Contract: SH-07, B-12
#[tokio::test(start_paused = true)]
async fn a_change_comes_before_what_was_queued_when_the_workers_started() {
    let controller = Scripted::new(|_| (millis(10), done()));
    let (queue, _trigger, _task) = start(&controller, 1);
    queue.add(["a", "b", "c"].map(key));
    tokio::time::sleep(millis(5)).await;
    queue.add(["d", "c"].map(key));
    tokio::time::sleep(millis(100)).await;
    let begins: Vec<String> = controller.log().into_iter().filter(|line| line.contains("begin")).collect();
    assert_eq!(begins, ["0 begin a", "10 begin d", "20 begin c", "30 begin b"]);
}

/// Contract: WQ-03, WQ-04
#[tokio::test(start_paused = true)]
async fn a_failed_sync_is_retried_without_limit_and_a_success_forgets() {
    let count = AtomicUsize::new(0);
    let controller = Scripted::new(move |_| {
        let tries = count.fetch_add(1, Ordering::SeqCst) + 1;
        (Duration::ZERO, if tries <= 20 { failed() } else { done() })
    });
    let (queue, _trigger, _task) = start(&controller, 2);
    queue.add([key("a")]);
    tokio::time::sleep(millis(100)).await;
    assert_eq!(queue.num_requeues(&key("a")), 5);
    let begins: Vec<String> = controller.log().into_iter().filter(|line| line.contains("begin")).collect();
    assert_eq!(begins, ["0 begin a", "5 begin a", "15 begin a", "35 begin a", "75 begin a"]);
    tokio::time::sleep(Duration::from_secs(5_000)).await;
    assert_eq!(controller.log().len(), 42);
    assert_eq!(queue.num_requeues(&key("a")), 0);
}

/// A delay of its own forgets them; a change that was not seen does not, so that the pauses grow.
///
/// Contract: WQ-03, B-02
#[tokio::test(start_paused = true)]
async fn what_a_success_that_is_looked_at_again_does_to_the_failures_before() {
    for (requeue, begun) in
        [(Requeue::After(millis(1_000)), [0, 5, 15, 35, 1_035, 1_040]), (Requeue::AGAIN, [0, 5, 15, 35, 75, 155])]
    {
        let count = AtomicUsize::new(0);
        let controller = Scripted::new(move |_| {
            let synced = match count.fetch_add(1, Ordering::SeqCst) {
                0..3 | 4 => failed(),
                3 => Synced::Done(Verdict::done(requeue)),
                _ => done(),
            };
            (Duration::ZERO, synced)
        });
        let (queue, _trigger, _task) = start(&controller, 1);
        queue.add([key("a")]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let begins: Vec<u64> =
            controller.log().iter().filter_map(|line| line.strip_suffix(" begin a")?.parse().ok()).collect();
        assert_eq!(begins, begun, "{requeue:?}");
    }
}

/// Has one deadline, and remembers when it was told that it may have passed.
struct Expiring {
    deadline: Mutex<Option<Moment>>,
    expired: Mutex<Vec<Moment>>,
}

impl Controller for Expiring {
    fn sync<'a>(&'a self, _key: &'a ObjectKey) -> BoxFuture<'a, Synced> {
        Box::pin(std::future::ready(done()))
    }

    fn deadline(&self) -> Option<Moment> {
        *self.deadline.lock().unwrap()
    }

    fn expire(&self, now: Moment) {
        *self.deadline.lock().unwrap() = None;
        self.expired.lock().unwrap().push(now);
    }
}

/// Contract: B-17
#[tokio::test(start_paused = true)]
async fn a_deadline_is_served_though_no_key_comes() {
    let clock = Clock::system();
    let deadline = clock.moment() + Duration::from_secs(10);
    let controller = Arc::new(Expiring { deadline: Mutex::new(Some(deadline)), expired: Mutex::default() });
    let queue = Queue::new("replicaset", clock, &Metrics::new(clock));
    let (_trigger, stop) = shutdown::channel();
    let served = Arc::clone(&controller);
    let _task = tokio::spawn(async move { queue.work(served, 2, stop).await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let expired = controller.expired.lock().unwrap().clone();
    assert_eq!(expired.len(), 1);
    assert!(expired[0] >= deadline && expired[0] <= deadline + millis(1), "at {:?}", expired[0]);
}

/// Contract: B-09
#[tokio::test(start_paused = true)]
async fn a_refusal_whose_cause_can_end_is_retried_within_the_minute() {
    let quota = || Failure {
        code: 403,
        reason: "Forbidden".into(),
        ..Failure::local("pods \"a\" is forbidden: exceeded quota: q")
    };
    let controller = Scripted::new(move |_| (Duration::ZERO, Synced::Done(Verdict::failed(quota()))));
    let (queue, _trigger, _task) = start(&controller, 1);
    queue.add([key("a")]);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let begins: Vec<u64> =
        controller.log().iter().filter_map(|line| line.strip_suffix(" begin a")?.parse().ok()).collect();
    let gaps: Vec<u64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps.iter().max(), Some(&60_000), "{gaps:?}");
    assert!(begins.last().unwrap() > &3_500_000);
}

/// Contract: WQ-02
#[tokio::test(start_paused = true)]
async fn of_several_delays_the_earliest_counts() {
    let controller = Scripted::new(|_| (Duration::ZERO, done()));
    let (queue, _trigger, _task) = start(&controller, 2);
    tokio::time::sleep(millis(1)).await;
    queue.add_after(key("a"), millis(500));
    queue.add_after(key("a"), millis(100));
    queue.add_after(key("a"), millis(900));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(controller.log(), ["101 begin a", "101 end a"]);
}

/// Contract: B-17
#[tokio::test(start_paused = true)]
async fn a_sync_put_off_spends_no_retry() {
    let controller = Scripted::new(|_| (Duration::ZERO, Synced::PutOff));
    let (queue, _trigger, _task) = start(&controller, 1);
    queue.add([key("a")]);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(controller.log().len(), 2, "nothing brings it back but who put it off");
    assert_eq!(queue.num_requeues(&key("a")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_of_its_key_alone() {
    let count = AtomicUsize::new(0);
    let controller = Scripted::new(move |key| {
        assert!(&*key.name != "a" || count.fetch_add(1, Ordering::SeqCst) > 0, "first time");
        (Duration::ZERO, done())
    });
    let (queue, _trigger, task) = start(&controller, 1);
    queue.add(["a", "b"].map(key));
    tokio::time::sleep(millis(50)).await;
    assert_eq!(controller.log(), ["0 begin a", "0 begin b", "0 end b", "5 begin a", "5 end a"]);
    assert!(!task.is_finished());
}

/// Contract: WQ-05, CM-07
#[tokio::test(start_paused = true)]
async fn a_shutdown_takes_no_new_key_and_waits_for_the_sync_in_flight() {
    let controller = Scripted::new(|_| (millis(1_000), done()));
    let (queue, trigger, task) = start(&controller, 1);
    queue.add(["a", "b"].map(key));
    tokio::time::sleep(millis(10)).await;
    trigger.stop();
    tokio::time::sleep(millis(10)).await;
    queue.add([key("c")]);
    task.await.unwrap();
    assert_eq!(controller.log(), ["0 begin a", "1000 end a"]);
}
