//! That the past is told as it was, and how much of it is kept.

use muster_objects::{Interner, Object as _};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A pod of one of two owners, or of none, in one of some states.
fn seen(name: usize, owner: usize, state: usize, life: u64) -> Arc<Seen> {
    let mut pod = json!({
        "metadata": {"name": format!("p{name}"), "namespace": "a", "uid": format!("uid-{name}-{life}")},
        "spec": {}, "status": {"phase": "Pending"},
    });
    if owner < 2 {
        let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": format!("o{owner}"), "controller": true});
        pod["metadata"]["ownerReferences"] = json!([reference]);
    }
    match state {
        0 => {}
        1 => pod["spec"]["nodeName"] = json!("n"),
        2 => pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
        _ => pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
    }
    Arc::new(Seen::decode(pod.to_string().as_bytes(), &mut Interner::new()).unwrap())
}

type Past = BTreeMap<String, State>;

fn told(book: &Book, owner: &Uid, at: Option<Millis>) -> Past {
    book.states(owner, at).into_iter().map(|(name, (state, ..))| (name.to_string(), state)).collect()
}

proptest! {
    /// What was can be told at any time: the pods, and how many they were.
    #[test]
    fn the_past_is_what_it_was(
        first in prop::collection::vec((0..4_usize, 0..3_usize, 0..4_usize), 0..4),
        changes in prop::collection::vec((0..4_usize, 0..3_usize, 0..5_usize, any::<bool>()), 0..60),
    ) {
        let owners = [Uid::new("o0"), Uid::new("o1")];
        let mut book = Book::default();
        let mut now: HashMap<usize, (Arc<Seen>, u64)> = HashMap::new();
        for (name, owner, state) in first {
            let pod = seen(name, owner, state, 0);
            let old = now.insert(name, (Arc::clone(&pod), 0)).map(|(old, _)| old);
            book.pod(0, true, old.as_ref(), Some(&pod));
        }
        let mut past = vec![owners.each_ref().map(|owner| told(&book, owner, None))];
        for (at, (name, owner, state, anew)) in changes.into_iter().enumerate() {
            let old = now.get(&name).cloned();
            // A pod that is made anew under its name is another one.
            let life = old.as_ref().map_or(0, |(_, life)| life + u64::from(anew));
            let new = (state < 4).then(|| seen(name, owner, state, life));
            match &new {
                Some(new) => drop(now.insert(name, (Arc::clone(new), life))),
                None => drop(now.remove(&name)),
            }
            book.pod(at as Millis + 1, false, old.as_ref().map(|(old, _)| old), new.as_ref());
            past.push(owners.each_ref().map(|owner| told(&book, owner, None)));
        }
        let times: Vec<Millis> = (0..past.len() as Millis).collect();
        let columns = book.counts_at(&[&owners[0], &owners[1]], &times);
        for (at, was) in past.iter().enumerate() {
            for (owner, was) in was.iter().enumerate() {
                prop_assert_eq!(&told(&book, &owners[owner], Some(at as Millis)), was, "at {}", at);
                for state in State::ALL {
                    let count = was.values().filter(|is| **is == state).count() as i64;
                    prop_assert_eq!(columns[at][owner][state as usize], count, "at {}", at);
                }
            }
        }
    }
}

#[test]
fn the_logs_are_bounded() {
    let mut book = Book { since: 5, ..Book::default() };
    let (one, two) = (seen(0, 0, 0, 0), seen(0, 0, 2, 0));
    book.pod(10, false, None, Some(&one));
    assert_eq!(book.known_since(), 5);
    for at in 0..MOST_STEPS as Millis {
        let (old, new) = if at % 2 == 0 { (&one, &two) } else { (&two, &one) };
        book.pod(11 + at, false, Some(old), Some(new));
        book.mark(Mark { at, owner: Uid::new("o0"), what: What::goes_on("") });
        book.line(&Uid::new("o0"), at, Lines::default());
    }
    assert_eq!((book.steps.len(), book.marks.len()), (MOST_STEPS, MOST_MARKS));
    assert_eq!(book.lines(&Uid::new("o0")).len(), MOST_LINES);
    // The oldest one is gone: what was before it cannot be told any more.
    assert_eq!(book.known_since(), 11);
}
