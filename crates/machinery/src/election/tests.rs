//! Tables for what an attempt does, and whole elections between skewed clocks over a bad network.

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Moment {
    Moment::ORIGIN + Duration::from_millis(millis)
}

fn wall(millis: u64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000) + Duration::from_millis(millis)
}

fn candidate(identity: &str) -> Election {
    Election::new(Config::new("kube-system", "muster", identity.to_owned())).unwrap()
}

/// A lease as the server would give it.
fn lease(holder: &str, seconds: i32, transitions: i32, renewed: u64) -> Lease {
    let mut lease = Lease::new("kube-system", "muster");
    lease.metadata.insert("resourceVersion".to_owned(), renewed.to_string().into());
    lease.spec.holder_identity = Some(holder.to_owned());
    lease.spec.lease_duration_seconds = Some(seconds);
    lease.spec.lease_transitions = Some(transitions);
    lease.spec.acquire_time = Some(wall(1).micro());
    lease.spec.renew_time = Some(wall(renewed).micro());
    lease
}

/// Gives the attempt's request the lease that it wrote as its answer.
fn accept(election: &mut Election, request: Request, millis: u64) -> ElectionStep {
    let (Request::Create(written) | Request::Replace(written)) = request else { panic!("{request:?} writes nothing") };
    election.answered(Answer::Lease(written), at(millis), wall(millis))
}

/// A leader from `millis` on, by a new Lease.
fn leader(identity: &str, millis: u64) -> Election {
    let mut election = candidate(identity);
    assert_eq!(election.attempt(at(millis), wall(millis)), Request::Get);
    let ElectionStep::Send(create) = election.answered(Answer::NotFound, at(millis), wall(millis)) else {
        panic!("create")
    };
    assert_eq!(accept(&mut election, create, millis), ElectionStep::Leading);
    election
}

/// Contract: CM-04
#[test]
fn durations_that_do_not_keep_leaders_apart_are_refused() {
    let seconds = Duration::from_secs;
    let config = |lease, renew, retry| {
        let config = Config::new("kube-system", "muster", "a".to_owned());
        Election::new(Config { lease_duration: lease, renew_deadline: renew, retry_period: retry, ..config })
    };
    assert!(config(seconds(15), seconds(10), seconds(2)).is_ok());
    for (lease, renew, retry, expected) in [
        (10, 10, 2, "the lease duration (10s) must be longer than the renew deadline (10s)"),
        (15, 10, 9, "the renew deadline (10s) must be longer than 1.2 retry periods (9s each)"),
        (0, 0, 1, "the lease duration (0ns) must be whole seconds, 1 to 2147483647 of them"),
        (15, 10, 0, "the retry period must be longer than zero"),
    ] {
        let error = config(seconds(lease), seconds(renew), seconds(retry)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(matches!(config(Duration::from_millis(1500), seconds(1), seconds(0)), Err(ConfigError::RetryPeriod)));
    let fraction = config(Duration::from_millis(1500), seconds(1), Duration::from_millis(100));
    assert!(matches!(fraction, Err(ConfigError::Seconds(_))));
    let nobody = Election::new(Config::new("kube-system", "muster", String::new()));
    assert_eq!(nobody.unwrap_err(), ConfigError::Identity);
}

/// Contract: CM-04
#[test]
fn a_lease_that_is_not_there_is_created() {
    let mut election = candidate("a");
    election.attempt(at(0), wall(0));
    let ElectionStep::Send(Request::Create(created)) = election.answered(Answer::NotFound, at(5), wall(5)) else {
        panic!("a create")
    };
    assert_eq!(created.metadata["namespace"], "kube-system");
    assert_eq!(created.metadata["name"], "muster");
    let spec = &created.spec;
    assert_eq!(spec.holder_identity.as_deref(), Some("a"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(0));
    assert_eq!((spec.acquire_time, spec.renew_time), (Some(wall(5).micro()), Some(wall(5).micro())));
    assert!(!election.leads(at(5)), "not before the server says so");
    assert_eq!(election.answered(Answer::Lease(created), at(20), wall(20)), ElectionStep::Leading);
    // Measured from when the write was sent, not from when it was answered.
    assert!(election.leads(at(10_004)));
    assert!(!election.leads(at(10_005)));
}

/// Contract: CM-04
#[test]
fn anothers_lease_is_judged_by_when_it_was_seen_to_change() {
    // Its timestamps are years in the past or in the future: neither matters.
    for renewed in [0, 100_000_000_000] {
        let mut election = candidate("b");
        let mut held = lease("a", 15, 3, renewed);
        // Of a coordinated election before this one nothing is left.
        held.spec.other = [("strategy", "OldestEmulationVersion"), ("preferredHolder", "c"), ("new", "field")]
            .map(|(field, value)| (field.to_owned(), value.into()))
            .into_iter()
            .collect();
        for (millis, leads) in [(1_000, false), (8_000, false), (15_999, false), (16_000, true)] {
            assert_eq!(election.attempt(at(millis), wall(millis)), Request::Get);
            match election.answered(Answer::Lease(held.clone()), at(millis), wall(millis)) {
                ElectionStep::Again => assert!(!leads, "{millis}"),
                ElectionStep::Send(Request::Replace(taken)) => {
                    assert!(leads, "{millis}");
                    assert_eq!(taken.spec.holder_identity.as_deref(), Some("b"));
                    assert_eq!(taken.spec.lease_transitions, Some(4));
                    assert_eq!(taken.spec.other.keys().collect::<Vec<_>>(), ["new"]);
                    assert_eq!(taken.spec.acquire_time, Some(wall(millis).micro()));
                    assert_eq!(taken.metadata["resourceVersion"], renewed.to_string(), "only what was looked at");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Contract: CM-04
#[test]
fn a_change_of_the_record_starts_the_wait_again_and_one_of_the_metadata_does_not() {
    let mut election = candidate("b");
    let mut look = |lease: &Lease, millis| {
        election.attempt(at(millis), wall(millis));
        election.answered(Answer::Lease(lease.clone()), at(millis), wall(millis))
    };
    assert_eq!(look(&lease("a", 15, 0, 1), 0), ElectionStep::Again);
    assert_eq!(look(&lease("a", 15, 0, 2), 10_000), ElectionStep::Again);
    let mut labelled = lease("a", 15, 0, 2);
    labelled.metadata.insert("labels".to_owned(), serde_json::json!({"a": "b"}));
    labelled.metadata.insert("resourceVersion".to_owned(), "77".into());
    assert_eq!(look(&labelled, 24_000), ElectionStep::Again);
    let ElectionStep::Send(Request::Replace(taken)) = look(&labelled, 25_000) else { panic!("a take-over") };
    assert_eq!(taken.metadata, labelled.metadata);
    assert_eq!(election.runs_out(), Some(at(25_000)));
    assert_eq!(leader("b", 0).runs_out(), None, "its own");
}

/// Contract: CM-04
#[test]
fn a_released_lease_is_taken_at_once_and_its_own_duration_counts() {
    for (held, expected) in [(lease("", 1, 7, 5), true), (lease("a", 0, 7, 5), true), (lease("a", 1, 7, 5), false)] {
        let mut election = candidate("b");
        election.attempt(at(0), wall(0));
        match election.answered(Answer::Lease(held.clone()), at(0), wall(0)) {
            ElectionStep::Send(Request::Replace(taken)) => {
                assert!(expected, "{held:?}");
                assert_eq!(taken.spec.lease_transitions, Some(8));
            }
            next => assert!(!expected && next == ElectionStep::Again, "{held:?}: {next:?}"),
        }
    }
}

/// Contract: CM-04
#[test]
fn a_renewal_keeps_the_time_of_acquisition_and_the_count_of_transitions() {
    let mut election = leader("a", 1_000);
    let Request::Replace(renewed) = election.attempt(at(3_000), wall(3_000)) else { panic!("without a look before") };
    assert_eq!(renewed.spec.acquire_time, Some(wall(1_000).micro()));
    assert_eq!(renewed.spec.renew_time, Some(wall(3_000).micro()));
    assert_eq!(renewed.spec.lease_transitions, Some(0));
    assert_eq!(election.answered(Answer::Lease(renewed), at(3_010), wall(3_010)), ElectionStep::Leading);
    let term = election.term().unwrap();
    assert_eq!((term.renewed, term.until, term.wall_until), (at(3_000), at(13_000), wall(13_000)));
}

/// Contract: CM-04, CM-05
#[test]
fn a_renewal_that_fails_looks_again_and_finds_out() {
    let refused = |found: Answer| {
        let mut election = leader("a", 0);
        election.attempt(at(2_000), wall(2_000));
        assert_eq!(election.answered(Answer::Failed, at(2_100), wall(2_100)), ElectionStep::Send(Request::Get));
        let next = election.answered(found, at(2_200), wall(2_200));
        (next, election)
    };
    // Its own, changed by somebody else: written again with the version read.
    let (next, mut election) = refused(Answer::Lease(lease("a", 15, 0, 9)));
    let ElectionStep::Send(Request::Replace(renewed)) = next else { panic!("{next:?}") };
    assert_eq!(renewed.metadata["resourceVersion"], "9");
    assert_eq!(renewed.spec.acquire_time, Some(wall(1).micro()));
    assert_eq!(election.answered(Answer::Lease(renewed), at(2_300), wall(2_300)), ElectionStep::Leading);
    assert_eq!(election.term().unwrap().renewed, at(2_200));
    // Held by another or by none: lost at once.
    for holder in ["b", ""] {
        let (next, election) = refused(Answer::Lease(lease(holder, 15, 1, 9)));
        assert_eq!(next, ElectionStep::Lost);
        assert_eq!(election.term(), None);
    }
    // No answer: it leads until its deadline.
    let (next, election) = refused(Answer::Failed);
    assert_eq!(next, ElectionStep::Again);
    assert!(election.leads(at(9_999)) && !election.leads(at(10_000)));
    // Deleted: created again.
    let (next, _) = refused(Answer::NotFound);
    assert!(matches!(next, ElectionStep::Send(Request::Create(_))), "{next:?}");
}

/// Contract: CM-05
#[test]
fn a_lease_that_was_deleted_is_not_taken_before_its_holder_must_have_noticed() {
    let mut election = candidate("b");
    election.attempt(at(0), wall(0));
    election.answered(Answer::Lease(lease("a", 15, 0, 1)), at(0), wall(0));
    election.attempt(at(2_000), wall(2_000));
    assert_eq!(election.answered(Answer::NotFound, at(2_000), wall(2_000)), ElectionStep::Again);
    election.attempt(at(15_000), wall(15_000));
    let next = election.answered(Answer::NotFound, at(15_000), wall(15_000));
    assert!(matches!(next, ElectionStep::Send(Request::Create(_))), "{next:?}");
}

/// Contract: CM-05
#[test]
fn an_answer_that_came_after_the_deadline_gives_no_leave_to_write() {
    let mut election = candidate("a");
    election.attempt(at(0), wall(0));
    let ElectionStep::Send(create) = election.answered(Answer::NotFound, at(0), wall(0)) else { panic!("a create") };
    assert_eq!(accept(&mut election, create, 10_000), ElectionStep::Again);
    assert_eq!(election.term(), None);
    // The lease is still its own, and the next attempt finds it so.
    election.attempt(at(12_000), wall(12_000));
    let next = election.answered(Answer::Lease(lease("a", 15, 0, 1)), at(12_000), wall(12_000));
    let ElectionStep::Send(Request::Replace(renewed)) = next else { panic!("{next:?}") };
    assert_eq!(renewed.spec.lease_transitions, Some(0));
}

/// Contract: CM-05
#[test]
fn a_term_ends_with_the_earlier_of_two_clocks() {
    let term = leader("a", 0).term().unwrap();
    assert!(term.allows(at(9_999), wall(9_999)));
    assert!(!term.allows(at(10_000), wall(0)), "a wall clock that was set back");
    assert!(!term.allows(at(1), wall(10_000)), "a monotonic clock that stood still");
}

/// Its creation was answered to nobody, and others have ended it since.
///
/// Contract: SH-02
#[test]
fn a_lease_of_its_own_that_was_ended_is_not_taken_again() {
    for (own, lost) in [(false, false), (true, true)] {
        let mut election = candidate("a");
        if own {
            election = election.own();
        }
        election.attempt(at(0), wall(0));
        let next = election.answered(Answer::NotFound, at(0), wall(0));
        assert!(matches!(next, ElectionStep::Send(Request::Create(_))));
        assert_eq!(election.answered(Answer::Failed, at(10), wall(10)), ElectionStep::Again);
        election.attempt(at(20_000), wall(20_000));
        let next = election.answered(Answer::Lease(lease("", 1, 1, 19_000)), at(20_000), wall(20_000));
        assert_eq!(next == ElectionStep::Lost, lost, "{next:?}");
    }
}

#[test]
fn each_write_has_in_its_metadata_what_is_carried() {
    let mut election = leader("a", 0);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    election.carry(Carried {
        labels: [pair("label", "1")].into(),
        annotations: [("set".to_owned(), Some("2".to_owned())), ("gone".to_owned(), None)].into(),
    });
    let Request::Replace(mut renewed) = election.attempt(at(2_000), wall(2_000)) else { panic!("a renewal") };
    assert_eq!((renewed.label("label"), renewed.annotation("set")), (Some("1"), Some("2")));
    renewed.set_annotation("gone", Some("by others"));
    renewed.set_annotation("theirs", Some("3"));
    assert_eq!(election.answered(Answer::Lease(renewed), at(2_010), wall(2_010)), ElectionStep::Leading);
    let Request::Replace(again) = election.attempt(at(4_000), wall(4_000)) else { panic!("a renewal") };
    assert_eq!((again.annotation("gone"), again.annotation("theirs")), (None, Some("3")));
    // One that was deleted is made with all of it.
    election.answered(Answer::NotFound, at(4_010), wall(4_010));
    let next = election.answered(Answer::NotFound, at(4_020), wall(4_020));
    let ElectionStep::Send(Request::Create(made)) = next else { panic!("{next:?}") };
    assert_eq!((made.label("label"), made.annotation("set")), (Some("1"), Some("2")));
}

/// Contract: CM-07
#[test]
fn a_release_clears_the_holder_and_ends_the_term() {
    let mut election = leader("a", 0);
    let Some(Request::Replace(released)) = election.release(at(5_000), wall(5_000)) else { panic!("a release") };
    let spec = &released.spec;
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
    assert_eq!((spec.lease_transitions, spec.renew_time), (Some(0), Some(wall(5_000).micro())));
    assert!(!election.leads(at(5_000)));
    assert_eq!(election.release(at(5_000), wall(5_000)), None, "once");
    assert_eq!(leader("a", 0).release(at(10_000), wall(10_000)), None, "an expired lease is not released");
    assert_eq!(candidate("b").release(at(0), wall(0)), None);
}

/// A candidate in a world of its own time.
struct Player {
    election: Election,
    /// Its monotonic clock's reading at the world's start, and how fast it goes, in thousandths.
    origin: u64,
    rate: u64,
    /// What it is doing: sleeping until, or waiting for an answer due then.
    until: u64,
    flight: Option<(Request, Answer)>,
    led: bool,
}

impl Player {
    fn now(&self, world: u64) -> (Moment, Timestamp) {
        let local = self.origin + world * self.rate / 1_000;
        // Walls differ by days.
        (at(local), wall(local + self.origin * 1_000))
    }
}

/// The server's one Lease.
#[derive(Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
}

impl Server {
    fn serve(&mut self, request: &Request) -> Answer {
        let version = |lease: &Lease| lease.metadata.get("resourceVersion").cloned();
        match (request, &self.lease) {
            (Request::Get, None) | (Request::Replace(_), None) => Answer::NotFound,
            (Request::Get, Some(lease)) => Answer::Lease(lease.clone()),
            (Request::Create(_), Some(_)) => Answer::Failed,
            (Request::Replace(new), Some(old)) if version(new) != version(old) => Answer::Failed,
            (Request::Create(new) | Request::Replace(new), _) => {
                self.version += 1;
                let mut new = new.clone();
                new.metadata.insert("resourceVersion".to_owned(), self.version.to_string().into());
                self.lease = Some(new.clone());
                Answer::Lease(new)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Contract: CM-04, CM-05
    #[test]
    fn no_two_candidates_may_write_at_once(
        skews in prop::array::uniform3((0_u64..1_000_000, 900_u64..1_100)),
        draws in prop::collection::vec((0_u64..1_000, 0_u64..1_000), 200..400),
    ) {
        let mut players: Vec<Player> = skews.iter().enumerate().map(|(number, (origin, rate))| Player {
            election: candidate(&number.to_string()),
            origin: *origin, rate: *rate, until: 0, flight: None, led: false,
        }).collect();
        let (mut server, mut draws) = (Server::default(), draws.into_iter().cycle());
        let mut terms = 0;
        for world in (0..300_000_u64).step_by(50) {
            for player in &mut players {
                if world < player.until {
                    continue;
                }
                let (now, wall) = player.now(world);
                let next = match player.flight.take() {
                    Some((_, answer)) => player.election.answered(answer, now, wall),
                    None => ElectionStep::Send(player.election.attempt(now, wall)),
                };
                let (kind, delay) = draws.next().expect("an endless cycle");
                match next {
                    ElectionStep::Send(request) => {
                        // Of ten requests one is lost on its way, one answer is lost, and some are slow.
                        let answer = match kind {
                            0..100 => Answer::Failed,
                            100..200 => { server.serve(&request); Answer::Failed }
                            _ => server.serve(&request),
                        };
                        player.until = world + if kind % 10 == 0 { delay * 12 } else { delay / 4 };
                        player.flight = Some((request, answer));
                    }
                    ElectionStep::Leading => {
                        terms += u64::from(!player.led);
                        player.led = true;
                        // Some leaders stop for longer than any lease.
                        player.until = world + if kind < 40 { 20_000 + delay } else { 2_000 };
                    }
                    ElectionStep::Again => player.until = world + 2_000 + delay * 2,
                    ElectionStep::Lost => {
                        player.led = false;
                        player.until = world + 2_000;
                    }
                }
            }
            let writers = players.iter().filter(|player| {
                let (now, wall) = player.now(world);
                player.election.term().is_some_and(|term| term.allows(now, wall))
            }).count();
            prop_assert!(writers <= 1, "{} writers after {} ms", writers, world);
        }
        prop_assert!(terms > 0, "somebody led");
    }
}
