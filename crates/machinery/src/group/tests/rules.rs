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

/// Also a shard that has the same range in both: others may have opened it by the new cut, once its Lease is free.
///
/// Contract: SH-01, SH-02
#[test]
fn another_cut_closes_every_shard() {
    let mut player = Player::working();
    player.shelf.member(ME, 1_500);
    player.shelf.group("group/blue", 2, 1_500);
    assert_eq!(player.turn(1_500), [Step::Close(0), Step::Close(1)]);
    assert_eq!(player.permits(1_600), [0, 1], "what was begun is finished");
    player.group.closed(0);
    let steps = player.look(1_700);
    assert_eq!(written(&steps), [pair("muster-blue-shard-000", ME)], "it is taken again under the new cut");
    let Some(Step::Write(Request::Replace(lease))) = steps.first() else { panic!("{steps:?}") };
    assert_eq!(record::count(record::generation(lease)), 2);
    player.turn(1_800);
    assert_eq!(opened(&player.look(1_900)), 0, "shard 1 is still held under the old cut");
    player.group.closed(1);
    player.turn(2_000);
    assert_eq!(opened(&player.look(2_100)), 2);
}

/// Contract: SH-02
#[test]
fn nobody_founds_a_group_while_somebody_has_a_shard() {
    let mut player = Player::new();
    player.group.weighed(Weights::default());
    for millis in (0..60_000).step_by(2_000) {
        player.shelf.member(ME, millis);
        player.shelf.member("other", millis);
        player.shelf.shard(0, "other", 1);
        assert_eq!(written(&player.look(millis)), [], "{millis}");
    }
    player.shelf.shard(0, "", 1);
    assert_eq!(written(&player.look(60_000)), [pair("muster", "group/blue")]);
}

/// Who founds a group makes the Leases that there never were. One that another member made meanwhile, and that somebody
/// deleted, may be held.
///
/// Contract: SH-02
#[test]
fn a_founder_makes_no_lease_that_there_has_been() {
    let mut player = Player::new();
    player.shelf.member(ME, 0);
    player.group.weighed(Weights::default());
    player.turn(100);
    assert_eq!(player.shelf.leases["muster"].holder(), "group/blue");
    player.shelf.shard(1, "other", 1);
    player.look(200);
    player.shelf.leases.remove("muster-blue-shard-001");
    for (millis, made) in [(300, false), (8_000, false), (15_299, false), (15_300, true)] {
        player.shelf.member(ME, millis);
        let written = written(&player.look(millis));
        assert_eq!(written.contains(&pair("muster-blue-shard-001", ME)), made, "{millis}: {written:?}");
    }
}

/// Somebody gives a shard to another member by hand.
///
/// Contract: SH-02
#[test]
fn what_another_holds_is_not_written_for_whether_it_is_open_or_being_closed() {
    let mut open = Player::working();
    open.shelf.shard(0, "other", 1);
    assert_eq!(open.look(1_100), [Step::Close(0)]);
    assert_eq!(open.permits(1_200), [1]);

    let mut closing = Player::working();
    closing.shelf.member("other", 1_000);
    let steps = closing.turn(1_100);
    let [Step::Close(shard)] = steps[..] else { panic!("{steps:?}") };
    assert_eq!(closing.permits(1_200), [0, 1]);
    closing.shelf.shard(shard, "other", 1);
    closing.look(1_300);
    assert_eq!(closing.permits(1_400), [1 - shard]);
}

/// Contract: SH-02
#[test]
fn a_lease_that_was_deleted_while_its_shard_was_closed_is_made_again_within_its_term_only() {
    for (millis, made) in [(1_300, true), (10_999, true), (11_100, false)] {
        let mut player = Player::working();
        player.shelf.member("other", 1_000);
        let steps = player.turn(1_050);
        let [Step::Close(shard)] = steps[..] else { panic!("{steps:?}") };
        let name = format!("muster-blue-shard-00{shard}");
        // The list of 1,050 was the last one that showed it.
        player.shelf.leases.remove(&name);
        player.shelf.member("other", millis);
        player.shelf.group("group/blue", 1, millis);
        player.look(millis);
        player.group.closed(shard);
        let written = written(&player.group.decide(at(millis), wall(millis)));
        assert_eq!(written.contains(&pair(&name, "")), made, "{millis}: {written:?}");
    }
}

/// Contract: SH-01
#[test]
fn another_cut_is_made_where_a_shard_has_twice_its_part_and_would_have_a_quarter_less() {
    let now = Cut::parse("4000000000000000,8000000000000000,c000000000000000").unwrap();
    let parted = Cut::parse("0000000000000002,4000000000000000,8000000000000000").unwrap();
    // The two namespaces in the first shard, which the other cut parts; and what is in each of two others.
    for (together, others, yields) in [
        ([75, 25], 0, true),
        ([76, 24], 0, false),
        ([60, 40], 49, true),
        ([60, 40], 50, false),
        // Too light to be worth it.
        ([24, 25], 0, false),
        ([25, 25], 0, true),
    ] {
        let weights = Weights::new([(1, together[0]), (2, together[1]), (1 << 62, others), (1 << 63, others)]);
        assert_eq!(now.yields_to(&parted, &weights), yields, "{together:?} {others}");
    }
}

/// Contract: SH-03
#[test]
fn who_is_leaving_is_given_nothing() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    player.shelf.member(ME, 0);
    player.shelf.member("other", 0);
    player.announce("other", YES);
    player.shelf.shard(0, "", 1);
    player.shelf.shard(1, "", 1);
    let written = written(&player.look(0));
    assert!((0..2).all(|shard| written.contains(&pair(&format!("muster-blue-shard-00{shard}"), ME))), "{written:?}");
}

/// The group's Lease was deleted, and with it the number of the last cut: those of the shards tell of it.
///
/// Contract: SH-02
#[test]
fn a_group_that_is_founded_again_gives_its_cut_a_number_that_no_shard_has_had() {
    let mut player = Player::new();
    player.shelf.member(ME, 0);
    player.shelf.shard(0, "", 7);
    player.group.weighed(Weights::default());
    player.turn(0);
    assert_eq!(record::count(record::generation(&player.shelf.leases["muster"])), 8);
}
