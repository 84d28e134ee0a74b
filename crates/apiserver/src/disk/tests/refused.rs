//! What becomes of commits that a disk refuses, and of those that wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures::FutureExt as _;

use super::{Memory, draft, names, storage};
use crate::storage::disk::{Disk, Group, Keeper, WriteError};
use crate::storage::{Refused, Storage};

/// Waits until the disk has been tried again.
async fn recovered(storage: &Storage) {
    while storage.is_failing() {
        tokio::task::yield_now().await;
    }
}

/// A storage that is kept on a medium.
fn kept() -> (Memory, Arc<Storage>, Keeper) {
    let (memory, engine) = Memory::create();
    let storage = Arc::new(storage());
    let keeper = Keeper::start(&storage, Box::new(engine)).expect("a thread");
    (memory, storage, keeper)
}

/// Contract: API-37
#[tokio::test]
async fn a_full_disk_undoes_what_it_refuses_and_takes_more_when_there_is_space() {
    let (memory, storage, keeper) = kept();
    let table = storage.add_resource("/things", |_| None);
    let first = storage.create(table, draft("first", "1")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));

    memory.0.full.store(true, Ordering::Relaxed);
    let mut watch = storage.watch(table, "", first.version).expect("the present").for_others();
    let (undone, restores) = (storage.undone(), storage.restores());
    storage.create(table, draft("second", &"2".repeat(100_000))).expect("it is not known to fail");
    let error = storage.settled(undone, storage.version()).await.expect_err("the disk is full");
    assert!(error.full && error.message.contains("cannot write state"), "{error}");
    assert!(storage.restores() > restores, "who reads storage reads it anew");
    for _ in 0..3 {
        assert_eq!((storage.get(table, "n", "second"), storage.count(table)), (None, 1));
        assert_eq!(storage.get(table, "n", "first"), Some(Arc::clone(&first)));
        let refused = Refused::Unwritten(error.clone());
        assert_eq!(storage.create(table, draft("second", "2")).expect_err("it fails"), refused);
        assert_eq!(storage.update(table, draft("first", "2"), first.version).expect_err("it fails"), refused);
        assert_eq!(storage.delete(table, "n", "first", first.version).expect_err("it fails"), refused);
        // A read waits for nothing.
        assert_eq!(storage.settled(storage.undone(), storage.version()).now_or_never(), Some(Ok(())));
    }
    let mut seen = Vec::new();
    watch.read(&mut seen).expect("nothing is gone");
    assert!(seen.is_empty(), "nobody saw what was undone: {seen:?}");

    memory.0.full.store(false, Ordering::Relaxed);
    recovered(&storage).await;
    let undone = storage.undone();
    let third = storage.create(table, draft("third", "3")).expect("a new name");
    assert_eq!(storage.settled(undone, storage.version()).await, Ok(()));
    watch.read(&mut seen).expect("nothing is gone");
    assert_eq!(seen.iter().map(|event| event.version).collect::<Vec<_>>(), [third.version]);
    drop(keeper);
    let (_, contents) = memory.open().expect("a whole file");
    assert_eq!(names(&contents), [("/things/first".to_owned(), 1), ("/things/third".to_owned(), third.version)]);
}

/// Contract: API-37
#[tokio::test]
async fn a_sync_that_fails_refuses_and_what_it_may_have_left_is_taken_back() {
    let (memory, storage, keeper) = kept();
    let table = storage.add_resource("/things", |_| None);
    // All is written but for the last sync.
    memory.0.synced_first.store(1, Ordering::Relaxed);
    memory.0.unsynced.store(true, Ordering::Relaxed);
    let undone = storage.undone();
    storage.create(table, draft("lost", "1")).expect("a new name");
    assert!(!storage.settled(undone, storage.version()).await.expect_err("it is not on disk").full);
    // What was refused is on the medium, until that is found to take writes.
    assert_eq!(Memory::of(&memory.bytes()).open().expect("a whole file").1.stored.len(), 1);
    memory.0.unsynced.store(false, Ordering::Relaxed);
    recovered(&storage).await;
    assert_eq!(Memory::of(&memory.bytes()).open().expect("a whole file").1.stored.len(), 0);

    memory.0.synced_first.store(1, Ordering::Relaxed);
    memory.0.unsynced.store(true, Ordering::Relaxed);
    let undone = storage.undone();
    storage.create(table, draft("lost", "2")).expect("a new name");
    storage.settled(undone, storage.version()).await.expect_err("it is not on disk");
    memory.0.unsynced.store(false, Ordering::Relaxed);
    // The end does not wait for the end of a pause.
    drop(keeper);
    let (_, contents) = memory.open().expect("a whole file");
    assert_eq!(contents.stored.len(), 0, "{:?}", contents.stored);
    let refused = storage.create(table, draft("late", "1")).expect_err("nobody writes");
    assert!(matches!(refused, Refused::Unwritten(_)), "{refused:?}");
}

/// Contract: API-37
#[tokio::test]
async fn a_disk_that_panics_refuses_what_waits_for_it_and_all_that_comes() {
    #[derive(Debug)]
    struct Broken;
    impl Disk for Broken {
        fn write(&mut self, _: &Group) -> Result<(), WriteError> {
            panic!("on command");
        }
    }
    let storage = Arc::new(storage());
    let table = storage.add_resource("/things", |_| None);
    let keeper = Keeper::start(&storage, Box::new(Broken)).expect("a thread");
    let undone = storage.undone();
    storage.create(table, draft("a", "1")).expect("a new name");
    let error = storage.settled(undone, storage.version()).await.expect_err("it is not on disk");
    assert!(error.message.contains("the thread that writes to the disk has panicked"), "{error}");
    assert_eq!(storage.count(table), 0);
    assert_eq!(storage.settled(storage.undone(), storage.version()).now_or_never(), Some(Ok(())), "reads go on");
    assert_eq!(storage.create(table, draft("a", "1")).expect_err("nobody writes"), Refused::Unwritten(error));
    drop(keeper);
}

/// Contract: API-37
#[tokio::test]
async fn a_table_whose_removal_is_refused_comes_back_with_its_objects() {
    let (memory, storage, keeper) = kept();
    let (others, table) = (storage.add_resource("/others", |_| None), storage.add_resource("/things", |_| None));
    let first = storage.create(table, draft("first", "1")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));

    memory.0.full.store(true, Ordering::Relaxed);
    let undone = storage.undone();
    storage.create(table, draft("second", "2")).expect("a new name");
    storage.remove_resource(table, storage.undone());
    // Whether this comes before what is refused or after it: the definition is there again, and serves its kind.
    let again = storage.add_resource("/things", |_| None);
    storage.settled(undone, storage.version()).await.expect_err("the disk is full");
    assert_eq!((storage.get(again, "n", "first"), storage.count(again), storage.count(others)), (Some(first), 1, 0));

    memory.0.full.store(false, Ordering::Relaxed);
    recovered(&storage).await;
    storage.create(others, draft("other", "2")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));
    drop(keeper);
    let names: Vec<_> = names(&memory.open().expect("a whole file").1).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/others/other", "/things/first"]);
}

/// Contract: API-37
#[tokio::test]
async fn a_table_whose_removal_is_refused_waits_with_its_objects_for_whoever_serves_it_again() {
    let (memory, storage, keeper) = kept();
    let (others, table) = (storage.add_resource("/others", |_| None), storage.add_resource("/things", |_| None));
    let first = storage.create(table, draft("first", "1")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));

    memory.0.full.store(true, Ordering::Relaxed);
    let undone = storage.undone();
    storage.remove_resource(table, storage.undone());
    // One of its name comes and goes, and has nothing.
    let between = storage.add_resource("/things", |_| None);
    storage.remove_resource(between, storage.undone());
    while storage.undone() == undone {
        tokio::task::yield_now().await;
    }
    memory.0.full.store(false, Ordering::Relaxed);
    recovered(&storage).await;
    // Others write before anybody looks at the definitions.
    storage.create(others, draft("other", "1")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));
    let again = storage.add_resource("/things", |_| None);
    assert_eq!(storage.get(again, "n", "first"), Some(first));
    drop(keeper);
    let names: Vec<_> = names(&memory.open().expect("a whole file").1).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/others/other", "/things/first"]);
}

/// Contract: API-37
#[tokio::test]
async fn a_table_that_is_removed_for_what_is_undone_keeps_its_objects() {
    let (memory, storage, keeper) = kept();
    let table = storage.add_resource("/things", |_| None);
    let first = storage.create(table, draft("first", "1")).expect("a new name");
    assert_eq!(storage.settled(storage.undone(), storage.version()).await, Ok(()));
    memory.0.full.store(true, Ordering::Relaxed);
    let undone = storage.undone();
    storage.create(table, draft("second", "1")).expect("a new name");
    storage.settled(undone, storage.version()).await.expect_err("the disk is full");
    // Whoever does this saw a deletion that is undone.
    storage.remove_resource(table, undone);
    let again = storage.add_resource("/things", |_| None);
    assert_eq!(storage.get(again, "n", "first"), Some(Arc::clone(&first)));
    memory.0.full.store(false, Ordering::Relaxed);
    recovered(&storage).await;
    storage.remove_resource(again, undone);
    let again = storage.add_resource("/things", |_| None);
    assert_eq!(storage.get(again, "n", "first"), Some(first));
    drop(keeper);
    assert_eq!(names(&memory.open().expect("a whole file").1), [("/things/first".to_owned(), 1)]);
}

/// A disk that tells of each group, and then does with it what it is told.
#[derive(Debug)]
struct Gate(Sender<()>, Receiver<bool>);

impl Gate {
    fn new() -> (Self, Receiver<()>, Sender<bool>) {
        let ((entered, enters), (says, said)) = (channel(), channel());
        (Self(entered, said), enters, says)
    }
}

impl Disk for Gate {
    fn write(&mut self, _: &Group) -> Result<(), WriteError> {
        // A test that has ended wants nothing.
        let takes = self.0.send(()).is_ok_and(|()| self.1.recv().unwrap_or_default());
        if takes { Ok(()) } else { Err(WriteError { message: "the test refuses".to_owned(), full: false }) }
    }
}

/// Contract: API-24
#[tokio::test]
async fn a_commit_on_disk_is_not_refused_with_a_later_one() {
    let (gate, enters, says) = Gate::new();
    let storage = Arc::new(storage());
    let table = storage.add_resource("/things", |_| None);
    let keeper = Keeper::start(&storage, Box::new(gate)).expect("a thread");
    let undone = storage.undone();
    let first = storage.create(table, draft("first", "1")).expect("a new name");
    enters.recv().expect("the first group");
    let second = storage.create(table, draft("second", "1")).expect("a new name");
    says.send(true).expect("it waits");
    enters.recv().expect("the second group");
    says.send(false).expect("it waits");
    while storage.undone() == undone {
        tokio::task::yield_now().await;
    }
    // Both look only now.
    assert_eq!(storage.settled(undone, first.version).await, Ok(()));
    assert!(storage.settled(undone, second.version).await.is_err());
    drop((says, enters, keeper));
}

/// Contract: API-37
#[tokio::test]
async fn a_removal_on_disk_takes_only_the_objects_of_its_own_table() {
    let (gate, enters, says) = Gate::new();
    let storage = Arc::new(storage());
    let (others, first) = (storage.add_resource("/others", |_| None), storage.add_resource("/things", |_| None));
    let keeper = Keeper::start(&storage, Box::new(gate)).expect("a thread");
    storage.create(others, draft("other", "1")).expect("a new name");
    enters.recv().expect("the first group");
    storage.remove_resource(first, storage.undone());
    let second = storage.add_resource("/things", |_| None);
    let kept = storage.create(second, draft("kept", "1")).expect("a new name");
    says.send(true).expect("it waits");
    enters.recv().expect("the removal of the first, and what is in the second");
    let undone = storage.undone();
    storage.remove_resource(second, storage.undone());
    says.send(true).expect("it waits");
    enters.recv().expect("the removal of the second");
    says.send(false).expect("it waits");
    while storage.undone() == undone {
        tokio::task::yield_now().await;
    }
    let third = storage.add_resource("/things", |_| None);
    assert_eq!(storage.get(third, "n", "kept"), Some(kept));
    drop((says, enters, keeper));
}

/// Contract: API-24
#[tokio::test]
async fn a_watch_sees_nothing_that_is_not_on_disk() {
    let (gate, _enters, says) = Gate::new();
    let storage = Arc::new(storage());
    let table = storage.add_resource("/things", |_| None);
    let keeper = Keeper::start(&storage, Box::new(gate)).expect("a thread");
    let mut own = storage.watch(table, "", 0).expect("the beginning");
    let mut others = storage.watch(table, "", 0).expect("the beginning").for_others();
    storage.create(table, draft("a", "1")).expect("a new name");
    let mut seen = Vec::new();
    others.read(&mut seen).expect("nothing is gone");
    assert_eq!((seen.len(), others.version()), (0, 0));
    own.read(&mut seen).expect("nothing is gone");
    assert_eq!(seen.len(), 1, "what is derived from storage sees it at once");
    says.send(true).expect("it waits");
    let mut seen = Vec::new();
    others.next(&mut seen).await.expect("nothing is gone");
    assert_eq!(seen.len(), 1);
    assert_eq!(storage.settled(0, storage.version()).await, Ok(()));
    drop(keeper);
}
