//! The faults of a running `muster up`: what strikes whoever comes over HTTP, taken up from plans and changed while it runs.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use muster_apiserver::ApiServer;
use muster_objects::Timestamp;
use muster_runtime::clock::Clock;
use muster_simulation::faults::{Faults, Struck, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::plan::{Incident, Plan, Step, Wrong};

/// How many strikes can be asked for, the newest.
const KEPT: usize = 10_000;

/// Faults, and what they are done to. Cloning shares them.
#[derive(Clone)]
pub(crate) struct LiveFaults(Arc<Shared>);

struct Shared {
    server: ApiServer,
    faults: Faults,
    /// Of their chance.
    seed: u64,
    /// Whether its objects are kept on a disk.
    on_disk: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What happens, by times from the start of the server; past ones too.
    steps: Vec<Step>,
    tasks: Vec<JoinHandle<()>>,
    /// How often all was taken away: what is late from before that does not happen.
    cleared: u64,
    clock: Option<Wrong>,
    /// The version to restore.
    remembered: Option<u64>,
}

/// What there is at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeenFaults {
    /// What is taken up: times are counted from the start of the server.
    pub(crate) plan: Plan,
    /// What their chance comes from: `muster up --seed`, or what was drawn in its place.
    #[serde(default)]
    pub(crate) seed: u64,
    /// How many requests and pieces of watches each of its faults was about, whether it struck them or not.
    #[serde(default)]
    pub(crate) met: Vec<u64>,
    /// How many requests and pieces of watches were struck.
    pub(crate) strikes: u64,
    /// Whether the server is away.
    pub(crate) away: bool,
}

impl LiveFaults {
    /// None yet. Their chance comes from the seed.
    pub(crate) fn new(server: &ApiServer, seed: u64, on_disk: bool) -> Self {
        let faults = Faults::seeded(seed);
        faults.keep(KEPT);
        Self(Arc::new(Shared { server: server.clone(), faults, seed, on_disk, state: Mutex::default() }))
    }

    /// For who stands in front of the server.
    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Has each strike be written as a line of JSON at once.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub(crate) fn log_to(&self, path: &Path) -> Result<()> {
        let mut file = File::create(path).with_context(|| format!("--faults-log {}", path.display()))?;
        let (path, mut failed) = (path.to_owned(), false);
        self.0.faults.hear(move |struck| {
            if let Err(error) = file.write_all(format!("{}\n", line(struck)).as_bytes())
                && !std::mem::replace(&mut failed, true)
            {
                tracing::warn!(%error, path = %path.display(), "strikes are not logged");
            }
        });
        Ok(())
    }

    /// Adds what a plan says to what there is, from now on.
    ///
    /// # Errors
    /// Where the plan asks for what is not possible here.
    pub(crate) fn take_up(&self, plan: Plan) -> Result<()> {
        plan.check()?;
        if self.0.on_disk && plan.operations.iter().any(|step| step.incident == Incident::Restore) {
            bail!(
                "operations: found restore, which is not possible with --data-dir: what is on a disk does not go back"
            );
        }
        let mut state = self.lock();
        let now = self.0.faults.elapsed();
        if let Some(at) = plan.restores_nothing(&state.steps, now) {
            bail!("operations[{at}]: found restore, expected remember before it: there would be nothing to go back to");
        }
        let Plan { faults, operations, clock } = plan;
        let begun = Instant::now();
        for rule in faults {
            self.0.faults.add(rule.later(now));
        }
        for step in operations {
            state.steps.push(Step { at: step.at.saturating_add(now), ..step.clone() });
            let happening = tokio::spawn(self.clone().happen(step, begun, state.cleared));
            state.tasks.push(happening);
        }
        if let Some(wrong) = clock {
            state.clock = Some(wrong);
            self.0.faults.tell_time(Some(clock_that_is(wrong)));
        }
        Ok(())
    }

    async fn happen(self, step: Step, begun: Instant, cleared: u64) {
        let mut due = begun + step.at;
        loop {
            sleep_until(due).await;
            let mut state = self.lock();
            if state.cleared != cleared {
                return;
            }
            self.do_now(step.incident, &mut state);
            drop(state);
            let Some(every) = step.every else { return };
            due += every;
        }
    }

    fn do_now(&self, incident: Incident, state: &mut State) {
        let storage = &self.0.server.registry().storage;
        match incident {
            Incident::Compact => storage.compact(),
            Incident::Remember => state.remembered = Some(storage.version()),
            Incident::Restore => {
                let Some(version) = state.remembered else {
                    return tracing::warn!("not restored: no version was remembered");
                };
                if let Err(oldest) = storage.restore(version) {
                    return tracing::warn!(
                        version,
                        oldest,
                        "not restored: the server does not know that version any more"
                    );
                }
            }
            Incident::ServerAway => self.0.faults.go_away(),
            Incident::ServerBack => self.0.faults.come_back(),
        }
        tracing::info!(?incident, "happened by a plan of faults");
    }

    /// Takes all faults away: what was late comes at once, and what hangs ends as by a connection that breaks. What has struck is still told.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.tasks.drain(..).for_each(|task| task.abort());
        state.steps.clear();
        state.clock = None;
        state.remembered = None;
        state.cleared += 1;
        self.0.faults.tell_time(None);
        self.0.faults.end();
        self.0.faults.release();
    }

    /// What there is now.
    pub(crate) fn seen(&self) -> SeenFaults {
        let state = self.lock();
        let faults = &self.0.faults;
        let plan = Plan { faults: faults.rules(), operations: state.steps.clone(), clock: state.clock };
        let met = faults.met().iter().map(|met| met.times).collect();
        SeenFaults { plan, seed: self.0.seed, met, strikes: faults.strikes(), away: faults.is_away() }
    }

    /// The last strikes, the oldest first.
    pub(crate) fn strikes(&self) -> Vec<Value> {
        self.0.faults.struck().iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A strike with its request, as it is logged.
fn line(struck: &Struck) -> Value {
    let Struck { at, who, target, nth, fault } = struck;
    let Target { user, verb, resource, namespace, name, subresource, resumes: _ } = target;
    json!({
        "at": at.as_secs_f64(), "client": **who, "user": user, "verb": verb, "resource": resource, "namespace": namespace,
        "name": name, "subresource": subresource, "nth": nth, "fault": fault,
    })
}

fn clock_that_is(wrong: Wrong) -> Clock {
    let by = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    let now = Clock::system().now().as_nanos();
    Clock::starting_at(Timestamp::from_nanos(match wrong {
        Wrong::Ahead(duration) => now.saturating_add(by(duration)),
        Wrong::Behind(duration) => now.saturating_sub(by(duration)),
    }))
}
