//! Tables for single decisions, more of them in `rules`; whole groups over a bad network are in `model`.

mod model;
mod rules;

use muster_objects::lease::Lease;

use super::*;

const ME: &str = "me";

fn at(millis: u64) -> Moment {
    Moment::ORIGIN + Duration::from_millis(millis)
}

fn wall(millis: u64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000) + Duration::from_millis(millis)
}

fn config(identity: &str, shards: u32) -> Config {
    let election = election::Config::new("kube-system", "muster", identity.to_owned());
    Config { election, group: "blue".to_owned(), shards }
}

/// The Leases of a group, as a server keeps them.
#[derive(Default)]
struct Shelf {
    leases: BTreeMap<String, Lease>,
    version: u64,
}

impl Shelf {
    fn put(&mut self, mut lease: Lease) -> Lease {
        self.version += 1;
        lease.metadata.insert("resourceVersion".to_owned(), self.version.to_string().into());
        self.leases.insert(lease.name().to_owned(), lease.clone());
        lease
    }

    /// The Lease of a member that was renewed so often.
    fn member(&mut self, identity: &str, renewed: u64) {
        let names = Names::new("kube-system", "muster", "blue");
        let mut lease = names.make(&names.member(identity));
        lease.set_annotation(SHARDS, Some("2"));
        self.put(record::held_by(&lease, identity, 15, wall(renewed)));
    }

    fn shard(&mut self, number: u32, holder: &str, generation: u32) {
        let names = Names::new("kube-system", "muster", "blue");
        let of = record::numbered(generation, &Cut::of(&Weights::default(), 2));
        self.put(record::shard_of(&names.make(&names.shard(number)), holder, of, 15, wall(0)));
    }

    fn group(&mut self, holder: &str, generation: u32, renewed: u64) {
        let names = Names::new("kube-system", "muster", "blue");
        let lease = record::with_cut(&names.make("muster"), &Cut::of(&Weights::default(), 2), generation);
        self.put(record::held_by(&lease, holder, 15, wall(renewed)));
    }

    fn serve(&mut self, step: &Step) -> Answer {
        let version = |lease: &Lease| lease.resource_version().to_owned();
        match step {
            Step::Write(Request::Create(lease)) if !self.leases.contains_key(lease.name()) => {
                Answer::Lease(self.put(lease.clone()))
            }
            Step::Write(Request::Replace(lease))
                if self.leases.get(lease.name()).map(version) == Some(version(lease)) =>
            {
                Answer::Lease(self.put(lease.clone()))
            }
            _ => Answer::Failed,
        }
    }
}

/// A member that lists, and whose writes are answered at once.
struct Player {
    group: Group,
    shelf: Shelf,
}

impl Player {
    fn new() -> Self {
        Self { group: Group::new(config(ME, 2)).unwrap(), shelf: Shelf::default() }
    }

    /// Lists and decides; nothing is sent.
    fn look(&mut self, millis: u64) -> Vec<Step> {
        let leases = self.shelf.leases.values().cloned().collect();
        self.group.listed(leases, None, (at(millis), wall(millis)), at(millis));
        self.group.decide(at(millis), wall(millis))
    }

    /// The same, and what is written is answered; says what became of shards.
    fn turn(&mut self, millis: u64) -> Vec<Step> {
        let steps = self.look(millis);
        let (writes, others): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| matches!(step, Step::Write(_)));
        for step in writes {
            let Step::Write(Request::Create(lease) | Request::Replace(lease)) = &step else { continue };
            let answer = self.shelf.serve(&step);
            self.group.answered(lease.name(), answer, (at(millis), wall(millis)), at(millis));
        }
        others
    }

    /// A member that works for both shards since 1 s.
    fn working() -> Self {
        let mut player = Self::new();
        player.shelf.member(ME, 0);
        assert_eq!(player.turn(0), [Step::Weigh]);
        player.group.weighed(Weights::default());
        assert_eq!(player.turn(100), []);
        assert_eq!(player.turn(200), [], "the Leases of the shards are made");
        let early = player.group.decide(at(300), wall(300));
        assert_eq!(early, [], "no shard is opened before a list that was sent after its taking");
        let opened = player.turn(1_000);
        assert!(matches!(opened[..], [Step::Open { shard: 0, .. }, Step::Open { shard: 1, .. }]), "{opened:?}");
        player
    }

    /// Has a member's Lease say that it is leaving.
    fn announce(&mut self, identity: &str, says: &str) {
        let names = Names::new("kube-system", "muster", "blue");
        let mut lease = self.shelf.leases[&names.member(identity)].clone();
        lease.set_annotation(LEAVING, Some(says));
        self.shelf.put(lease);
    }

    fn permits(&self, millis: u64) -> Vec<u32> {
        let allows = |term: Term| term.allows(at(millis), wall(millis));
        (0..4).filter(|shard| self.group.permit(*shard).is_some_and(allows)).collect()
    }
}

fn written(steps: &[Step]) -> Vec<(String, String)> {
    let lease = |step: &Step| match step {
        Step::Write(Request::Create(lease) | Request::Replace(lease)) => {
            Some((lease.name().to_owned(), lease.holder().to_owned()))
        }
        _ => None,
    };
    steps.iter().filter_map(lease).collect()
}

fn pair(name: &str, holder: &str) -> (String, String) {
    (name.to_owned(), holder.to_owned())
}

/// Contract: SH-01
#[test]
fn settings_that_cannot_keep_members_apart_are_refused() {
    let refused = |config: Config| Group::new(config).unwrap_err().to_string();
    for name in ["", "-a", "a-", "A", "a.b", &"a".repeat(64)] {
        assert!(refused(Config { group: name.to_owned(), ..config(ME, 2) }).starts_with("the group"), "{name}");
    }
    for shards in [0, 1_025] {
        assert_eq!(refused(config(ME, shards)), format!("found {shards} shards, expected 1 to 1024"));
    }
    assert!(refused(config("group/blue", 2)).contains("must not begin with"));
    let mut short = config(ME, 2);
    short.election.lease_duration = Duration::from_secs(5);
    assert!(refused(short).contains("must be longer than the renew deadline"));
    assert!(Group::new(Config { group: "a".repeat(63), ..config(ME, 1_024) }).is_ok());
}

/// Contract: SH-01, SH-02
#[test]
fn a_founder_makes_the_leases_of_all_shards_and_opens_by_a_list_after_that() {
    let player = Player::working();
    assert_eq!(player.permits(1_001), [0, 1]);
    assert_eq!(
        player.group.holder_of("default"),
        Holder::Mine(player.group.cut().unwrap().shard_of(shard::hash("default")))
    );
    let lease = &player.shelf.leases["muster"];
    assert_eq!(
        (lease.holder(), lease.label(GROUP), record::count(record::generation(lease))),
        ("group/blue", Some("blue"), 1)
    );
    assert_eq!(player.shelf.leases["muster-blue-shard-001"].holder(), ME);
}

/// Contract: SH-02
#[test]
fn a_shards_writes_end_with_the_last_list_that_showed_it_and_with_the_groups_lease() {
    let mut player = Player::working();
    // The group's Lease was written at 100, lists showed the shards at 1,000.
    assert_eq!((player.permits(10_099), player.permits(10_100)), (vec![0, 1], vec![]));
    // Others renew it: what counts is the list before the one that shows that.
    player.shelf.member("other", 1);
    player.shelf.group("group/blue", 1, 5_000);
    player.look(8_000);
    assert_eq!((player.permits(10_999).len(), player.permits(11_000).len()), (2, 0));
    player.shelf.group("group/blue", 1, 9_000);
    player.look(10_000);
    assert_eq!((player.permits(17_999).len(), player.permits(18_000).len()), (2, 0));
}

/// Contract: SH-02
#[test]
fn a_deleted_lease_of_a_shard_is_made_again_by_its_holder_and_ends_its_writes_if_it_cannot_be() {
    let mut player = Player::working();
    player.shelf.leases.remove("muster-blue-shard-001");
    assert_eq!(written(&player.look(3_000)), [pair("muster", "group/blue"), pair("muster-blue-shard-001", ME)]);
    // The answer does not come; the list of 1,000 was the last one that showed it.
    player.turn(9_000);
    player.shelf.leases.remove("muster-blue-shard-001");
    let mut lost = Player::working();
    lost.shelf.leases.remove("muster-blue-shard-001");
    for millis in [3_000, 6_000, 9_000] {
        let steps = lost.look(millis);
        let answer = lost.shelf.serve(&steps[0]);
        lost.group.answered("muster", answer, (at(millis), wall(millis)), at(millis));
    }
    assert_eq!((lost.permits(10_999), lost.permits(11_000)), (vec![0, 1], vec![0]));
}

/// Contract: SH-02
#[test]
fn others_do_not_take_a_shard_whose_lease_is_missing_before_the_leases_time_is_over() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    player.shelf.member(ME, 0);
    player.shelf.shard(0, "", 1);
    for millis in [0, 7_000, 14_999] {
        player.shelf.member(ME, millis);
        let written = written(&player.look(millis));
        assert!(!written.contains(&pair("muster-blue-shard-001", ME)), "{millis}: {written:?}");
    }
    player.shelf.member(ME, 15_000);
    assert!(written(&player.look(15_000)).contains(&pair("muster-blue-shard-001", ME)));
}

/// It was made, taken and deleted while this member did not look.
///
/// Contract: SH-02
#[test]
fn a_lease_that_is_missing_again_after_a_long_time_without_a_look_counts_as_missing_from_then_on() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    player.shelf.shard(0, "", 1);
    let mut taken = |millis: u64| {
        player.shelf.member(ME, millis);
        written(&player.look(millis)).contains(&pair("muster-blue-shard-001", ME))
    };
    assert!(!taken(0));
    assert!(!taken(10_001), "10 s are the time of a term");
    for (millis, expected) in [(16_000, false), (22_000, false), (25_000, false), (25_001, true)] {
        assert_eq!(taken(millis), expected, "{millis}");
    }
}

/// Contract: SH-02, SH-03
#[test]
fn a_silent_member_is_ended_before_its_shards_are_taken() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    for (shard, holder) in [(0, "gone"), (1, "gone")] {
        player.shelf.shard(shard, holder, 1);
    }
    player.shelf.member("gone", 0);
    let gone = Names::new("kube-system", "muster", "blue").member("gone");
    for millis in [0, 5_000, 14_999] {
        player.shelf.member(ME, millis);
        let steps = player.turn(millis);
        assert_eq!((steps, player.shelf.leases[&gone].holder()), (vec![], "gone"), "{millis}");
    }
    player.shelf.member(ME, 15_000);
    // One write fails where the member was alive after all: that of its Lease.
    let steps = player.look(15_000);
    assert!(
        written(&steps).contains(&pair(&gone, "")) && !written(&steps).contains(&pair("muster-blue-shard-000", ME))
    );
    player.shelf.member("gone", 15_001);
    player.turn(15_100);
    assert_eq!(player.shelf.leases[&gone].holder(), "gone");
    player.shelf.member(ME, 30_000);
    player.turn(30_100);
    assert_eq!(player.shelf.leases[&gone].holder(), "");
    player.turn(30_200);
    assert_eq!(player.group.takeovers(), 2);
    assert_eq!(player.turn(30_300).len(), 2, "both are opened");
}

/// The last of them early enough: its own look can be a retry period late, and so can what it has seen.
///
/// Contract: SH-02, SH-03
#[test]
fn members_end_a_silent_one_and_renew_the_groups_lease_one_after_the_other() {
    let gone = Names::new("kube-system", "muster", "blue").member("gone");
    for (before, ends, renews) in [
        (&[][..], 15_000, 2_100),
        (&["a"][..], 16_000, 3_100),
        (&["a", "b"][..], 17_000, 4_100),
        (&["a", "b", "c"][..], 17_000, 4_100),
    ] {
        let mut player = Player::new();
        player.shelf.group("group/blue", 1, 0);
        player.shelf.member("gone", 0);
        let mut ended = |millis: u64| {
            before.iter().chain(&[ME]).for_each(|member| player.shelf.member(member, millis));
            written(&player.look(millis)).contains(&pair(&gone, ""))
        };
        assert_eq!([0, ends - 1, ends].map(&mut ended), [false, false, true], "after {before:?}");

        // Its Lease was written at 100.
        let mut player = Player::working();
        before.iter().for_each(|member| player.shelf.member(member, 1_000));
        let mut renewed = |millis: u64| written(&player.look(millis)).contains(&pair("muster", "group/blue"));
        assert_eq!([renews - 1, renews].map(&mut renewed), [false, true], "after {before:?}");
    }
}

/// Somebody clears the holder of a member's Lease by hand: that member may not know it yet.
///
/// Contract: SH-02
#[test]
fn a_member_that_was_ended_by_hand_is_respected_for_the_leases_time() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    player.shelf.shard(0, "gone", 1);
    player.shelf.shard(1, "", 1);
    let names = Names::new("kube-system", "muster", "blue");
    player.shelf.put(names.make(&names.member("gone")).released(wall(0)));
    for (millis, taken) in [(0, false), (14_999, false), (15_000, true)] {
        player.shelf.member(ME, millis);
        let written = written(&player.look(millis));
        assert_eq!(written.contains(&pair("muster-blue-shard-000", ME)), taken, "{millis}: {written:?}");
    }
}

/// Contract: SH-03
#[test]
fn a_shard_that_is_due_to_a_new_member_is_closed_and_released_after_its_last_write() {
    let mut player = Player::working();
    player.shelf.member("other", 1_000);
    let steps = player.turn(1_100);
    let [Step::Close(shard)] = steps[..] else { panic!("{steps:?}") };
    assert_eq!(player.permits(1_200), [0, 1], "what was begun is finished");
    assert_eq!(player.turn(1_300), []);
    player.group.closed(shard);
    assert_eq!(player.permits(1_400), [1 - shard]);
    let name = format!("muster-blue-shard-00{shard}");
    assert_eq!(written(&player.group.decide(at(1_400), wall(1_400))), [pair(&name, "")]);
}

/// Who begins after many were lost may be lost soon too, and nobody has the shards of a lost member for the Lease's time.
///
/// Contract: SH-03
#[test]
fn who_begins_after_many_were_lost_gets_no_shards_while_it_is_new() {
    let names = Names::new("kube-system", "muster", "blue");
    let marked = |player: &mut Player, identity: &str, mark: Option<&str>| {
        let mut lease = player.shelf.leases[&names.member(identity)].clone();
        lease.set_annotation(NEW, mark);
        player.shelf.put(lease);
    };
    let mut player = Player::working();
    player.shelf.member("other", 1_000);
    marked(&mut player, "other", Some(YES));
    assert_eq!(player.turn(1_100), []);
    marked(&mut player, "other", None);
    assert!(matches!(player.turn(1_200)[..], [Step::Close(_)]));

    // What a new one has it keeps.
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    for (shard, member) in [(0, ME), (1, "other")] {
        player.shelf.shard(shard, member, 1);
        player.shelf.member(member, 0);
        marked(&mut player, member, (member == ME).then_some(YES));
    }
    assert!(!written(&player.look(100)).contains(&pair("muster-blue-shard-000", "")));

    // Where all are new they share.
    let mut player = Player::new();
    player.shelf.group("group/blue", 1, 0);
    for shard in [0, 1] {
        player.shelf.shard(shard, "", 1);
    }
    for member in [ME, "other"] {
        player.shelf.member(member, 0);
        marked(&mut player, member, Some(YES));
    }
    player.turn(100);
    assert_eq!(player.turn(200).len(), 1, "one of two shards is opened");
}

/// Contract: SH-03
#[test]
fn a_member_is_new_for_the_leases_time_for_each_member_beyond_two_that_was_lost_before() {
    let names = Names::new("kube-system", "muster", "blue");
    for (lost, until) in [(0, 0), (2, 0), (3, 15_000), (5, 45_000), (30, 300_000)] {
        let mut player = Player::new();
        for number in 0..lost {
            let mut ended = names.make(&names.member(&format!("lost-{number}"))).released(wall(0));
            ended.set_annotation(ENDED, Some(YES));
            player.shelf.put(ended);
        }
        player.shelf.put(names.make(&names.member("left")).released(wall(0)));
        let new = |player: &Player, millis: u64| player.group.carried(0, 0, at(millis)).annotations[NEW].is_some();
        assert!(!new(&player, 500), "it has seen nothing");
        player.look(1_000);
        player.look(2_000);
        assert_eq!((new(&player, 999 + until), new(&player, 1_000 + until)), (lost > 2, false), "{lost}");
    }
}

/// Contract: SH-02
#[test]
fn a_shard_is_not_opened_while_another_is_held_under_another_cut() {
    let mut player = Player::new();
    player.shelf.group("group/blue", 2, 0);
    player.shelf.member(ME, 0);
    player.shelf.member("other", 0);
    player.shelf.shard(0, "", 1);
    player.shelf.shard(1, "other", 1);
    player.turn(0);
    assert_eq!(player.shelf.leases["muster-blue-shard-000"].holder(), ME, "it is taken");
    assert_eq!(player.turn(100), [], "and waits");
    player.shelf.shard(1, "other", 2);
    assert!(matches!(player.turn(200)[..], [Step::Open { shard: 0, .. }]));
}

/// Contract: SH-05
#[test]
fn a_group_waits_for_a_single_leader_and_gives_the_lease_back_when_its_last_member_leaves() {
    let mut player = Player::new();
    player.shelf.member(ME, 0);
    let single = |player: &mut Player, renewed| {
        let mut lease = Lease::new("kube-system", "muster");
        lease.set_label(GROUP, "blue");
        player.shelf.put(record::held_by(&lease, "single", 15, wall(renewed)));
    };
    for millis in [0, 10_000, 20_000] {
        single(&mut player, millis);
        player.shelf.member(ME, millis);
        assert_eq!(player.look(millis), [], "{millis}");
    }
    player.shelf.member(ME, 34_000);
    assert_eq!(player.look(34_999), []);
    assert_eq!(player.look(35_000), [Step::Weigh]);

    // Who leads goes on for a while where its Lease is deleted, and makes it again at its next renewal.
    let mut player = Player::new();
    player.shelf.member(ME, 0);
    single(&mut player, 0);
    assert_eq!(player.look(0), []);
    player.shelf.leases.remove("muster");
    assert_eq!(player.look(1_000), []);
    assert_eq!(player.look(8_000), []);
    player.shelf.member(ME, 10_000);
    assert_eq!(player.look(15_999), []);
    assert_eq!(player.group.due(at(15_999)), Some(at(16_000)));
    assert_eq!(player.look(16_000), [Step::Weigh]);
    // One that was given back is free, and whoever never saw it held waits for nobody.
    let mut player = Player::new();
    player.shelf.member(ME, 0);
    single(&mut player, 0);
    player.look(0);
    let released = player.shelf.leases["muster"].released(wall(500));
    player.shelf.put(released);
    assert_eq!(player.look(1_000), [Step::Weigh]);
    player.shelf.leases.remove("muster");
    assert_eq!(player.look(2_000), [Step::Weigh]);

    let mut player = Player::working();
    player.group.leave();
    assert_eq!(player.turn(1_100), [Step::Close(0), Step::Close(1)]);
    player.group.closed(0);
    player.group.closed(1);
    assert!(!player.group.has_left());
    player.turn(1_200);
    assert!(!player.group.has_left());
    player.turn(1_250);
    assert_eq!(player.shelf.leases["muster"].holder(), "group/blue", "its Events may still be sent");
    player.group.silenced();
    player.turn(1_300);
    assert_eq!(player.shelf.leases["muster"].holder(), "");
    assert!(!player.group.has_left(), "nobody has seen that it is leaving");
    player.announce(ME, YES);
    player.turn(1_400);
    assert!(player.group.has_left());
}

/// Contract: SH-05
#[test]
fn of_members_that_leave_at_the_same_time_one_gives_the_lease_back() {
    // What the other says, and whether this one goes before it; then with the other gone.
    for (other, says, goes) in [
        ("zoe", None, true),
        ("zoe", Some(YES), false),
        ("zoe", Some("last"), true),
        ("bob", Some(YES), false),
        ("bob", Some("last"), false),
    ] {
        let mut player = Player::working();
        player.group.leave();
        player.group.silenced();
        player.turn(1_100);
        player.group.closed(0);
        player.group.closed(1);
        let last = says.is_some();
        player.shelf.member(other, 1_200);
        if let Some(says) = says {
            player.announce(other, says);
        }
        player.announce(ME, YES);
        player.turn(1_300);
        player.turn(1_400);
        assert_eq!(player.group.has_left(), goes, "{other} {says:?}");
        assert_eq!(
            player.group.carried(0, 0, at(0)).annotations[LEAVING].as_deref(),
            Some(if last { "last" } else { YES })
        );
        assert_eq!(player.shelf.leases["muster"].holder(), "group/blue");
        if goes {
            continue;
        }
        let names = Names::new("kube-system", "muster", "blue");
        let gone = player.shelf.leases[&names.member(other)].released(wall(1_500));
        player.shelf.put(gone);
        player.turn(1_500);
        assert!(player.group.has_left(), "{other} {says:?}");
        assert_eq!(player.shelf.leases["muster"].holder(), "");
    }
}

/// Contract: SH-02
#[test]
fn a_groups_lease_that_is_deleted_is_made_again_by_those_who_may_write() {
    let mut player = Player::working();
    player.shelf.leases.remove("muster");
    player.turn(2_000);
    let lease = &player.shelf.leases["muster"];
    assert_eq!((lease.holder(), record::count(record::generation(lease))), ("group/blue", 1));
    assert_eq!(player.permits(11_999), [0, 1], "by a list of 2,000 and that write");
    assert_eq!(player.turn(2_100), []);
    // Who has never seen it waits while somebody has a shard.
    let mut other = Player { group: Group::new(config("other", 2)).unwrap(), shelf: player.shelf };
    other.shelf.member("other", 0);
    other.shelf.leases.remove("muster");
    assert!(!written(&other.look(0)).contains(&pair("muster", "group/blue")));
}

/// Ranges that somebody edits are another cut, whatever number they have: all that know the one before close their shards first.
///
/// Contract: SH-02
#[test]
fn ranges_that_no_member_wrote_are_another_cut_under_the_same_number() {
    for edited in ["0000000000000001", "c000000000000000", ""] {
        let mut player = Player::working();
        let known = player.group.cut().cloned();
        let mut lease = player.shelf.leases["muster"].clone();
        lease.set_annotation(record::CUT, Some(edited));
        player.shelf.put(lease);
        let closed = player.turn(2_000);
        assert_eq!(closed, [Step::Close(0), Step::Close(1)], "{edited}");
        [0, 1].into_iter().for_each(|shard| player.group.closed(shard));
        let opened: Vec<Step> = (21..30).flat_map(|tenth| player.turn(tenth * 100)).collect();
        let cut = Cut::parse(edited).unwrap();
        let open = |shard: u32| Step::Open { shard, range: cut.range(shard).unwrap() };
        assert_eq!(opened, (0..cut.shards()).map(open).collect::<Vec<_>>(), "{edited}");
        assert!(player.group.cut() == Some(&cut) && known.as_ref() != Some(&cut));
        // And whoever renews the Lease says which cut it is.
        player.turn(20_000);
        let marks: Vec<u64> =
            ["muster", "muster-blue-shard-000"].map(|name| record::generation(&player.shelf.leases[name])).to_vec();
        assert_eq!(marks, [record::numbered(1, &cut); 2], "{edited}");
    }
    // What is none is mended.
    for garbage in [",", "0000000000000001,", "xyz"] {
        let mut player = Player::working();
        let mut lease = player.shelf.leases["muster"].clone();
        lease.set_annotation(record::CUT, Some(garbage));
        player.shelf.put(lease);
        assert_eq!((player.turn(2_000), player.permits(2_000)), (vec![], vec![0, 1]), "{garbage}");
        player.turn(6_000);
        let lease = &player.shelf.leases["muster"];
        assert_eq!(record::cut(lease).map(|(_, cut)| cut).as_ref(), player.group.cut(), "{garbage}");
    }
}

/// A single leader waits for as long as the group's Lease says, whose writer may have been told another time.
///
/// Contract: SH-02, SH-05
#[test]
fn a_term_by_anothers_renewal_ends_before_a_single_leader_may_begin() {
    let mut long = config(ME, 2);
    (long.election.lease_duration, long.election.renew_deadline) = (Duration::from_secs(60), Duration::from_secs(40));
    let mut player = Player { group: Group::new(long).unwrap(), shelf: Shelf::default() };
    player.shelf.member(ME, 0);
    for renewed in [1_000, 2_000] {
        // Its Leases say 15 s, and this member's own margin is 20 s.
        player.shelf.group("group/blue", 1, renewed);
        player.look(renewed);
        assert!(!player.group.term().is_some_and(|term| term.allows(at(renewed), wall(renewed))), "{renewed}");
    }
    let mut alike = Player::new();
    alike.shelf.member(ME, 0);
    for renewed in [1_000, 2_000] {
        alike.shelf.group("group/blue", 1, renewed);
        alike.look(renewed);
    }
    let term = alike.group.term().unwrap();
    assert!(term.allows(at(10_999), wall(10_999)) && !term.allows(at(11_000), wall(11_000)), "since the list before");
}

/// A member whose looks are so far apart that a term by another's renewal would be over before the next one renews the Lease
/// itself.
///
/// Contract: SH-02
#[test]
fn long_retry_periods_leave_no_gaps_between_terms() {
    let mut slow = config("later", 2);
    slow.election.retry_period = Duration::from_secs(8);
    let mut player = Player { group: Group::new(slow).unwrap(), shelf: Shelf::default() };
    for look in 1..6_u64 {
        let now = look * 8_000;
        player.shelf.member("earlier", now);
        player.shelf.member("later", now);
        player.shelf.group("group/blue", 1, now - 100);
        player.turn(now);
        let term = player.group.term().filter(|_| look > 1);
        assert!(look == 1 || term.is_some_and(|term| term.allows(at(now + 7_900), wall(now + 7_900))), "{look}");
    }
}

/// Contract: SH-01
#[test]
fn the_youngest_members_number_of_shards_counts_and_only_after_a_while() {
    let mut player = Player::working();
    let names = Names::new("kube-system", "muster", "blue");
    let member = |player: &mut Player, identity: &str, shards: &str, acquired: u64, renewed: u64| {
        let mut lease = names.make(&names.member(identity));
        lease.set_annotation(SHARDS, Some(shards));
        let mut lease =
            record::held_by(&record::held_by(&lease, identity, 15, wall(acquired)), identity, 15, wall(renewed));
        lease.spec.acquire_time = Some(wall(acquired).micro());
        player.shelf.put(lease);
    };
    let mut looks = Vec::new();
    for second in (2..80).step_by(2) {
        member(&mut player, ME, "2", 1_000, second * 1_000);
        member(&mut player, "young", "3", 2_000, second * 1_000);
        for step in player.turn(second * 1_000) {
            match step {
                Step::Close(shard) => player.group.closed(shard),
                Step::Weigh => {
                    looks.push(second);
                    player.group.weighed(Weights::default());
                }
                _ => {}
            }
        }
        player.turn(second * 1_000 + 100);
    }
    assert_eq!(looks, [62], "once");
    assert_eq!(player.group.cut().map(Cut::shards), Some(3));
    assert_eq!(record::count(record::generation(&player.shelf.leases["muster"])), 2);
}

/// Contract: SH-01
#[test]
fn a_heavy_shard_is_reason_to_count_and_what_another_cut_does_not_mend_is_let_be() {
    let mut player = Player { group: Group::new(config(ME, 8)).unwrap(), shelf: Shelf::default() };
    player.group.weighed(Weights::default());
    let names = Names::new("kube-system", "muster", "blue");
    let mut looks = Vec::new();
    for second in (2..2_000).step_by(2) {
        let mut lease = names.make(&names.member(ME));
        for (key, value) in player.group.carried(1_000, 1_000, at(0)).annotations {
            lease.set_annotation(&key, value.as_deref());
        }
        player.shelf.put(record::held_by(&lease, ME, 15, wall(second * 1_000)));
        if player.turn(second * 1_000).contains(&Step::Weigh) {
            looks.push(second);
            player.group.weighed(Weights::new([(7, 1_000)]));
        }
    }
    assert_eq!(looks, [602, 1_204, 1_806]);
    assert_eq!(record::count(record::generation(&player.shelf.leases["muster"])), 1);
}

/// A count takes as long as it takes, and may fail each time: the group's Lease is renewed all the same, so that a member
/// without others goes on to write.
///
/// Contract: SH-01, SH-02
#[test]
fn a_group_goes_on_while_namespaces_are_counted() {
    let mut player = Player { group: Group::new(config(ME, 4)).unwrap(), shelf: Shelf::default() };
    player.group.weighed(Weights::default());
    let names = Names::new("kube-system", "muster", "blue");
    let mut counting = 0;
    for second in (2..700).step_by(2) {
        let mut lease = names.make(&names.member(ME));
        for (key, value) in player.group.carried(1_000, 1_000, at(0)).annotations {
            lease.set_annotation(&key, value.as_deref());
        }
        player.shelf.put(record::held_by(&lease, ME, 15, wall(second * 1_000)));
        counting += u32::from(player.turn(second * 1_000).contains(&Step::Weigh));
        assert!(second < 10 || player.permits(second * 1_000 + 3_000).len() == 4, "{second}");
    }
    assert!(counting > 40, "{counting}");
}

/// Contract: SH-01
#[test]
fn leases_that_nobody_needs_any_more_are_deleted_after_minutes() {
    let mut player = Player::working();
    let names = Names::new("kube-system", "muster", "blue");
    let mut ended = names.make(&names.member("gone")).released(wall(0));
    ended.set_annotation(ENDED, Some(YES));
    player.shelf.put(ended);
    player.shelf.shard(7, "gone", 1);
    let mut deleted = Vec::new();
    for second in (2..400).step_by(2) {
        player.shelf.member(ME, second * 1_000);
        for step in player.turn(second * 1_000) {
            let Step::Delete(lease) = step else { continue };
            player.shelf.leases.remove(lease.name());
            player.group.deleted(lease.name());
            deleted.push((second, lease.name().to_owned()));
        }
    }
    assert_eq!(deleted.len(), 2, "{deleted:?}");
    assert!(deleted.iter().all(|(second, _)| (300..=304).contains(second)), "{deleted:?}");
}

#[test]
fn a_renewal_is_no_news_and_another_holder_is() {
    let player = Player::working();
    let lease = |name: &str| player.shelf.leases[name].clone();
    let member = Names::new("kube-system", "muster", "blue").member(ME);
    for name in ["muster", "muster-blue-shard-000", &member] {
        let mut renewed = lease(name);
        renewed.spec.renew_time = Some(wall(9_000).micro());
        renewed.set_annotation(PODS, Some("9"));
        assert!(!player.group.is_news(&renewed), "{name}");
        assert!(player.group.is_news(&renewed.released(wall(9_000))), "{name}");
    }
    let mut leaving = lease(&member);
    leaving.set_annotation(LEAVING, Some(YES));
    assert!(player.group.is_news(&leaving));
    assert!(player.group.is_news(&record::with_cut(&lease("muster"), &Cut::of(&Weights::default(), 2), 2)));
    assert!(!player.group.is_news(&Lease::new("kube-system", "other")));
}
