//! A case is data: it is written, read and replayed, and each of its faults stands by itself.

use std::path::PathBuf;
use std::time::Duration;

use muster_simulation::case::{Act, Case, End, Played, Profile, Sieve, Sieved, shrink, story};
use muster_simulation::faults::{Fault, Rule, Struck, Verb};
use muster_simulation::weather::Weather;

use crate::common::{each, seeds, weather};
use crate::{lines, told, told as told_of};

/// What is read from a case's YAML is the case, and its history the same, byte for byte.
///
/// Contract: SI-01
#[test]
fn a_case_is_written_and_read_and_replayed_byte_for_byte() {
    let weather = weather();
    let seeds = seeds(12);
    let differ = each(&seeds, |seed| {
        let case = Profile::Rollouts.case(*seed, Some(&weather));
        let yaml = case.written();
        let read = Case::read(&yaml).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{yaml}"));
        assert_eq!(read, case, "seed {seed}:\n{yaml}");
        lines(&told(&case)) != lines(&told(&read))
    });
    assert!(!differ.contains(&true));
}

/// Of every profile, and whatever strikes in it: a restore has no nodes for a while.
///
/// Contract: SI-01
#[test]
fn a_case_of_every_weather_is_read_as_it_was_written() {
    let profiles = [Profile::Rollouts, Profile::Scaling, Profile::Deletions, Profile::Failover];
    for (profile, weather) in
        profiles.into_iter().flat_map(|profile| weather().into_iter().map(move |one| (profile, one)))
    {
        let case = profile.case(1, Some(&[weather]));
        let yaml = case.written();
        let read = Case::read(&yaml).unwrap_or_else(|error| panic!("{}: {error}\n{yaml}", weather.name));
        assert_eq!(read, case, "{}", weather.name);
    }
}

/// What has struck by chance, written down as one fault for each strike, gives the same history again. Without one of them, the
/// others still strike what they struck before that one.
///
/// Contract: SI-01
#[test]
fn what_has_struck_can_be_named_one_by_one() {
    let weather = weather();
    let seeds = seeds(12);
    let named = each(&seeds, |seed| {
        let case = Profile::Rollouts.case(*seed, Some(&weather));
        let played = told(&case);
        let until = case.faults.iter().filter_map(|rule| rule.until).max();
        let faults: Vec<Rule> = played.struck.iter().map(|struck| Rule { until, ..struck.rule() }).collect();
        if faults.is_empty() {
            return 0;
        }
        let again = told(&Case { faults: faults.clone(), ..case.clone() });
        let [one, two] = [&played, &again].map(lines);
        for (at, (one, two)) in one.iter().zip(&two).enumerate() {
            assert_eq!(one, two, "seed {seed}, write {at}");
        }
        // How long is looked on when all is over depends on which faults there are, struck or not.
        assert!(two.len() <= one.len() && two.len() > one.len() / 3, "seed {seed}: {} of {}", two.len(), one.len());

        let last = faults.len() - 1;
        let fewer = told(&Case { faults: faults[..last].to_vec(), ..case });
        let struck: Vec<_> = played.struck.iter().take(last).map(|struck| (struck.at, struck.rule())).collect();
        let then: Vec<_> = fewer.struck.iter().take(last).map(|struck| (struck.at, struck.rule())).collect();
        assert_eq!(struck, then, "seed {seed}");
        faults.len()
    });
    assert!(seeds.len() < MANY || named.iter().sum::<usize>() > 100, "{named:?}");
}

/// Of so many histories some are struck.
const MANY: usize = 12;

/// Contract: SI-01
#[test]
fn a_file_that_is_no_case_is_told_what_is_wrong_with_it() {
    let case = Profile::Rollouts.case(1, None).written();
    for (text, said) in [
        (case.replacen("seed: 1", "seed: one", 1), "seed"),
        (case.replacen("podShutdown", "podShutDown", 1), "podShutDown"),
        (case.replacen("at: 0s", "at: soon", 1), "soon"),
        (case.replacen("at: 0s", "at: 1h", 1), "operations[1].at"),
        (case.clone() + "- {at: 9000h, do: compact}\n", "expected at most a year"),
        (case.clone() + "- {at: 100h, do: {nodes: 20000}}\n", "nodes: found 20000"),
        (
            case.clone() + "- {at: 100h, do: {scale: {deployment: web, replicas: 10001}}}\n",
            "operations[11]: found 10001 replicas, expected at most 10000",
        ),
        (case.clone() + "- {at: 100h, do: {freeze-manager: {manager: 0, for: 48h}}}\n", "for: found 172800s"),
        (case.clone() + "- {at: 100h, do: {scale: {deployment: web, replicas: 3, replica: 4}}}\n", "replica"),
        (
            case.clone() + &"- {at: 100h, do: {kill-manager: 0}}\n".repeat(5) + "managers: {count: 60}\n",
            "managers: found 65",
        ),
        (case.replacen("podShutdown: 1s", "podShutdown: 25h", 1), "podShutdown: found 90000s"),
        (case.clone() + "faults: [{fault: {reorder: 10000}}]\n", "faults[0].fault: found 10000 turns"),
        (case.clone() + "faults: [{fault: reset, nth: 0}]\n", "faults[0].nth: found 0"),
        (case.clone() + "faults: [{fault: reset}, {fault: {lag: 0s..9000h}}]\n", "faults[1].fault: found"),
        (case.clone() + "faults: [{fault: reset, from: 2s, until: 2s}]\n", "faults[0].until: found 2s, expected later"),
        ("- 1".to_owned(), "expected mapping"),
    ] {
        let error = Case::read(&text).expect_err(&text).to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
}

/// What matters is one creation without an answer: of a long case with many faults there remain the Deployment, of one pod,
/// and that fault.
///
/// Contract: SI-03
#[test]
fn what_does_not_matter_is_taken_out_of_a_case() {
    let mixed =
        ["lost-answers", "slow-requests", "slow-watches", "errors"].map(|name| Weather::named(name).expect(name));
    let case = Profile::Rollouts.case(LONG, Some(&mixed));
    assert!(case.operations.len() > 4 && case.faults.len() > 2, "{}", case.written());
    let is_lost = |struck: &Struck| {
        let target = &struck.target;
        let created = target.verb == Verb::Create && target.resource == "pods";
        struck.fault == Fault::AnswerLost && created && *struck.who == *"controllers"
    };
    let bad = |played: &Played| played.struck.iter().any(is_lost);
    let mut sizes = Vec::new();
    let mut told = |case: &Case, _: usize| {
        sizes.push(case.operations.len() + case.faults.len());
        true
    };
    let shrunk = shrink(&case, &bad, 2, 1_000, &mut told).expect("a world").expect("it is so at first");
    assert!(shrunk.smallest);
    let Case { operations, faults, pod_startup, pod_shutdown, .. } = &shrunk.case;
    assert_eq!((operations.len(), faults.len()), (1, 1), "{}", shrunk.case.written());
    assert_eq!((pod_startup.end, *pod_shutdown), (Duration::ZERO, Duration::ZERO));
    assert!(matches!(&operations[0].act, Act::Create(web) if web["spec"]["replicas"] == 1), "{operations:?}");
    assert!(sizes.first() > Some(&2) && sizes.last() == Some(&2), "{sizes:?}");
    assert!(bad(&told_of(&shrunk.case)));
    // Whoever does not want to wait gets what there is by then.
    for (most, patience) in [(5, usize::MAX), (1_000, 5)] {
        let cut = shrink(&case, &bad, 2, most, &mut |_, tried| tried < patience)
            .expect("a world")
            .expect("it is so at first");
        assert_eq!((cut.tried, cut.smallest), (5, false));
        assert!(bad(&told_of(&cut.case)) && cut.case != shrunk.case);
    }

    let story = story(&shrunk.case, &shrunk.played);
    let at = |word: &str| story.find(word).unwrap_or_else(|| panic!("{word}:\n{story}"));
    assert!(at("done     {\"create\"") < at("struck   answer-lost: controllers create pods"), "{story}");
    assert!(at("struck   ") < at("Pod "), "{story}");
}

/// A word that is written wrong by hand does not pass for a case in which nothing went wrong.
#[test]
fn a_story_tells_what_was_not_done_and_which_faults_struck_nothing() {
    let mut case = Profile::Rollouts.case(1, None);
    case.operations.truncate(1);
    let operations = case.written()
        + "- {at: 1s, do: {scale: {deployment: web, replicas: 2}}}\n\
        - {at: 1s, do: {scale: {deployment: we b?, replicas: 2}}}\n\
        - {at: 2s, do: {patch: {name: wbe, merge: {spec: {replicas: 3}}}}}\n\
        - {at: 3s, do: restore}\n- {at: 4s, do: {kill-manager: 0}}\n\
        - {at: 5s, do: {apply: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replica: 3}}}}\n\
        - {at: 6s, do: {delete: {name: wbe, propagation: foreground}}}\n";
    let faults = "faults:\n- {fault: reset, client: controllers, resources: [pod]}\n\
        - {fault: reset, client: controllers, resources: [pods], verbs: [create], from: 50s, until: 51s}\n";
    let case = Case::read(&(operations + faults)).expect("a case");
    let played = told(&case);
    assert_eq!(played.broken, []);
    let story = story(&case, &played);
    for said in [
        "never    faults[0] struck: no request was about it\n",
        ", none at its time, with its number and by its chance\n",
        r#"not done {"patch":{"name":"wbe","merge":{"spec":{"replicas":3}}}}: deployments.apps "wbe" not found"#,
        r#"not done {"scale":{"deployment":"we b?","replicas":2}}: deployments.apps "we b?" not found"#,
        r#"not done "restore": there is no version to restore"#,
        r#"not done {"kill-manager":0}: there is no manager that has a Lease"#,
        r#"unknown field "spec.replica""#,
        r#"not done {"delete":{"name":"wbe","propagation":"foreground"}}: deployments.apps "wbe" not found"#,
    ] {
        assert!(story.contains(said), "{said}:\n{story}");
    }
}

/// A seed with a mixture of these in which creations of pods lose their answers.
const LONG: u64 = 112;

/// Contract: SI-03
#[test]
fn a_case_that_breaks_no_law_is_not_made_smaller() {
    let case = Profile::Rollouts.case(1, None);
    let found = shrink(&case, &|played| !played.broken.is_empty(), 1, 10, &mut |_, _| true).expect("a world");
    assert!(found.is_none());
}

/// What happens to a cluster is not mixed, so that no history goes without what was asked for.
#[test]
fn a_mixture_is_of_faults_of_requests() {
    let named = |names: &[&str]| names.iter().map(|name| Weather::named(name).expect(name)).collect::<Vec<_>>();
    let incidents = named(&["node-loss", "compaction"]);
    for (seed, name) in [(1, "compaction"), (2, "node-loss"), (3, "compaction"), (4, "compaction"), (8, "node-loss")] {
        assert_eq!(Profile::Rollouts.weather_of(seed, &incidents), name, "{seed}");
        assert!(!Profile::Rollouts.case(seed, Some(&incidents)).is_undisturbed(), "{seed}");
    }
    assert_eq!(Profile::Rollouts.weather_of(4, &named(&["errors", "resets", "node-loss"])), "a mixture");
    assert_eq!(Profile::Rollouts.weather_of(4, &named(&["errors", "node-loss"])), "node-loss");
}

/// Cases that broke a law once, or break one where what they are about is taken out of the controllers.
///
/// Contract: SI-01, SI-02, RS-18, RS-19, DEP-12, B-18, B-19
#[test]
fn no_case_of_the_corpus_breaks_a_law() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rollouts/corpus");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).expect("a folder").map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 6, "{files:?}");
    let played = each(&files, |file| {
        let text = std::fs::read_to_string(file).expect("a file");
        assert!(text.starts_with("# "), "{}: says what it is about", file.display());
        let case = Case::read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let played = told(&case);
        (case, played)
    });
    for (file, (case, played)) in files.iter().zip(&played) {
        // A good template ends complete, or breaks a law.
        assert_eq!((played.end.is_some(), played.not_created(case)), (true, None), "{}", file.display());
        assert!(played.broken.is_empty(), "{}: {:?}", file.display(), played.broken);
        assert!(played.rules.get("RS-09") > Some(&0), "{}: {:?}", file.display(), played.rules);
    }
}

/// Each event by itself late, lost or twice: every one of them strikes, and the rollout ends. With an event late or twice it keeps
/// its bounds; one that is lost is found out by a resync, and what was done before that is not judged.
///
/// Contract: B-07
#[test]
fn every_event_of_a_rollout_may_come_late_or_twice_or_be_lost() {
    let rollout = Case::read(ROLLOUT).expect("a case");
    let cases: Vec<_> = Sieve::of(&rollout).expect("a world").cases().collect();
    let found = each(&cases, |(sieved, case)| (*sieved, told(case)));
    for sieved in [Sieved::Late, Sieved::Lost, Sieved::Twice] {
        let of: Vec<&Played> = found.iter().filter(|(kind, _)| *kind == sieved).map(|(_, played)| played).collect();
        assert!(of.len() > 30, "{sieved:?}: {} events", of.len());
        let broken: Vec<_> = of.iter().flat_map(|played| &played.broken).collect();
        assert!(broken.is_empty(), "{sieved:?}: {broken:?}");
        assert!(of.iter().all(|played| played.end == Some(End::Complete)), "{sieved:?}");
        let struck = of.iter().filter(|played| played.struck.len() == 1).count();
        // Bookmarks are neither lost nor told twice here.
        assert!(struck + 6 >= of.len() && struck > 30, "{sieved:?}: {struck} of {}", of.len());
    }
}

/// What one of several managers is told of is an event too.
#[test]
fn the_events_of_several_managers_are_all_disturbed() {
    let sieve = Sieve::of(&Profile::Failover.case(1, None)).expect("a world");
    let of = |resource: &str| sieve.cases().filter(|(_, case)| case.faults[0].resources == [resource]).count();
    let counts = ["pods", "replicasets", "deployments"].map(of);
    assert!(counts.iter().all(|count| *count > 30), "{counts:?}");
}

const ROLLOUT: &str = "
seed: 5
operations:
- at: 0s
  do:
    create:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 2
        selector: {matchLabels: {app: web}}
        progressDeadlineSeconds: 60
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: c, image: 'nginx:1'}]}
- at: 5s
  do: {patch: {name: web, merge: {spec: {template: {spec: {containers: [{name: c, image: 'nginx:2'}]}}}}}}
";
