//! One rule at a time, each beside what would happen without it: when a shard may be opened, and when another cut made.

use super::*;

/// A member that has taken both shards, each by a write that was answered at 200 ms, and has opened none. Another one
/// renewed the group's Lease: this one has a term of it where `renewed`.
fn taken(renewed: bool) -> Player {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    player.shelf.member(ME, 0);
    player.shelf.shard(0, "", 1);
    player.shelf.shard(1, "", 1);
    let answer_shards = |player: &mut Player, steps: Vec<Step>, millis: u64| {
        for step in steps {
            let Step::Write(Request::Create(lease) | Request::Replace(lease)) = &step else { continue };
            if lease.name().contains("-shard-") {
                let answer = player.shelf.serve(&step);
                player.group.answered(lease.name(), answer, (at(millis), wall(millis)), at(millis));
            }
        }
    };
    player.look(0);
    if renewed {
        player.shelf.group("group/blue", 1, 100);
    }
    let steps = player.look(200);
    answer_shards(&mut player, steps, 200);
    assert_eq!(player.shelf.leases["muster-blue-shard-001"].holder(), ME);
    player
}

fn opened(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Open { .. })).count()
}

/// Contract: SH-02
#[test]
fn a_shard_is_opened_by_a_list_that_was_sent_after_its_taking_was_answered() {
    let list = |player: &Player| player.shelf.leases.values().cloned().collect::<Vec<_>>();
    let mut player = taken(true);
    // It was on its way while the taking was answered, and comes after that.
    player.group.listed(list(&player), None, (at(199), wall(199)), at(300));
    assert_eq!(opened(&player.group.decide(at(300), wall(300))), 0);
    player.group.listed(list(&player), None, (at(200), wall(200)), at(301));
    assert_eq!(opened(&player.group.decide(at(301), wall(301))), 2);
}

/// What is read by name is read after the list: a cut that came between the two is not in force for what was listed.
///
/// Contract: SH-02
#[test]
fn a_shard_is_not_opened_by_a_list_without_the_groups_lease() {
    let mut player = taken(true);
    let (group, leases): (Vec<_>, Vec<_>) =
        player.shelf.leases.values().cloned().partition(|lease| lease.name() == "muster");
    player.group.listed(leases, group.into_iter().next(), (at(400), wall(400)), at(400));
    assert_eq!(opened(&player.group.decide(at(400), wall(400))), 0);
    assert_eq!(opened(&player.look(500)), 2);
}

/// Contract: SH-02
#[test]
fn a_shard_is_not_opened_without_a_term_of_the_groups_lease() {
    let mut player = taken(false);
    assert_eq!(opened(&player.look(400)), 0, "nobody has renewed it since it was first seen");
    player.shelf.group("group/blue", 1, 450);
    assert_eq!(opened(&player.look(500)), 2);

    let mut late = taken(true);
    // The list of 0 is the one before that which showed the renewal: the term of 10 s began then.
    assert_eq!(opened(&late.look(10_000)), 0);
}

/// Its Lease counts as held for the Lease's time, and then it is anybody's: only a Lease that this member has made says
/// that it is its own.
///
/// Contract: SH-02
#[test]
fn a_shard_whose_lease_is_deleted_before_it_is_opened_is_taken_again_first() {
    let mut player = taken(true);
    player.shelf.leases.remove("muster-blue-shard-001");
    let mut before = Vec::new();
    for millis in (1_000..40_000).step_by(1_000) {
        player.shelf.member(ME, millis);
        player.shelf.group("group/blue", 1, millis);
        let steps = player.look(millis);
        let makes = written(&steps).contains(&pair("muster-blue-shard-001", ME));
        let opens = steps.iter().any(|step| matches!(step, Step::Open { shard: 1, .. }));
        assert!(!opens, "opened at {millis} without a Lease");
        if makes {
            before.push(millis);
        }
    }
    assert_eq!(before.first(), Some(&16_000), "{before:?}");
}

/// Who holds a shard under an earlier cut may still write for what it was: nobody cuts again before that has ended.
///
/// Contract: SH-01, SH-02
#[test]
fn nobody_cuts_anew_while_a_shard_is_held_under_an_earlier_cut() {
    let mut player = Player { group: Group::new(config(ME, 3)).unwrap(), shelf: Shelf::default() };
    let names = Names::new("kube-system", "muster", "blue");
    let mut weighed = Vec::new();
    for second in (0..140).step_by(2) {
        let millis = second * 1_000;
        // The cut in force has two shards, and this member was told three.
        let mut me = names.make(&names.member(ME));
        me.set_annotation(SHARDS, Some("3"));
        player.shelf.put(record::held_by(&me, ME, 15, wall(millis)));
        let mut other = names.make(&names.member("other"));
        other.set_annotation(SHARDS, Some("3"));
        player.shelf.put(record::held_by(&other, "other", 15, wall(millis)));
        player.shelf.group("group/blue", 2, millis);
        player.shelf.shard(0, ME, 2);
        player.shelf.shard(1, if second < 100 { "other" } else { "" }, if second < 100 { 1 } else { 2 });
        if player.look(millis).contains(&Step::Weigh) {
            weighed.push(second);
        }
    }
    assert_eq!(weighed.first(), Some(&100), "{weighed:?}");
}
