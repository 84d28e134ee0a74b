//! An explanation as text.

use std::fmt;

use super::ranking::short;
use super::{
    Again, Change, Explanation, Memory, NextSync, Ranking, Replicas, Reported, Role, Rollout, Shard, Source, Stale,
    Subject, View,
};

/// The state, what would be done and why, and for a ReplicaSet the order of deletion.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.object)?;
        write_source(f, self)?;
        write_shard(f, self.shard.as_ref())?;
        match &self.view {
            View::Stale(stale) => {
                write_memory(f, self.memory.as_ref())?;
                write_stale(f, stale)
            }
            View::InvalidSelector { error } => {
                write_memory(f, self.memory.as_ref())?;
                writeln!(f, "\nNext: nothing, until it changes")?;
                writeln!(f, "  RS-20  its selector cannot be parsed: {error}")
            }
            View::Replicas(replicas) => {
                write_replicas(f, replicas)?;
                write_memory(f, self.memory.as_ref())?;
                write_next(f, &replicas.next)?;
                write_ranking(f, &replicas.ranking)?;
                write_reported(f, &replicas.conditions)
            }
            View::Rollout(rollout) => {
                write_rollout(f, rollout)?;
                write_memory(f, self.memory.as_ref())?;
                write_next(f, &rollout.next)?;
                write_sets(f, rollout)?;
                write_conditions(f, rollout)
            }
        }
    }
}

/// `ReplicaSet default/web (uid 1f0c, version 812, generation 2)`
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, uid, resource_version, generation, .. } = self;
        write!(f, "{kind} {namespace}/{name} (uid {uid}, version {resource_version}, generation {generation})")
    }
}

/// The line about the shard, where there is one.
pub(crate) fn write_shard(f: &mut fmt::Formatter<'_>, shard: Option<&Shard>) -> fmt::Result {
    shard.map_or(Ok(()), |shard| writeln!(f, "  Manager: {shard}"))
}

fn write_source(f: &mut fmt::Formatter<'_>, explanation: &Explanation) -> fmt::Result {
    let at = explanation.at;
    match &explanation.source {
        Source::Api => writeln!(f, "  Source:  computed afresh from the API at {at}"),
        Source::Manager { role: Role::Leader } => writeln!(f, "  Source:  the manager that leads, at {at}"),
        Source::Manager { role: Role::Standby } => writeln!(
            f,
            "  Source:  a manager that stands by, at {at}: it writes nothing, and what it remembers is not the leader's"
        ),
        Source::Manager { role: Role::Unelected } => {
            writeln!(f, "  Source:  a manager that runs without an election, at {at}")
        }
        Source::Manager { role: Role::Member } => {
            writeln!(f, "  Source:  the manager that has its shard, at {at}")
        }
    }
}

fn write_replicas(f: &mut fmt::Formatter<'_>, replicas: &Replicas) -> fmt::Result {
    let Replicas { spec, pods, .. } = replicas;
    let deleted = if spec.being_deleted { ", being deleted" } else { "" };
    writeln!(
        f,
        "  Spec:    {} replicas, available after {}s ready, selecting {}{deleted}",
        spec.replicas, spec.min_ready_seconds, spec.selector
    )?;
    writeln!(
        f,
        "  Pods:    {} claimed, {} ready, {} available, {} terminating",
        pods.claimed, pods.ready, pods.available, pods.terminating
    )?;
    if !pods.adopted.is_empty() {
        writeln!(f, "  Adopts:  {}", pods.adopted.join(", "))?;
    }
    if !pods.released.is_empty() {
        writeln!(f, "  Releases:  {}", pods.released.join(", "))?;
    }
    Ok(())
}

fn write_memory(f: &mut fmt::Formatter<'_>, memory: Option<&Memory>) -> fmt::Result {
    let Some(memory) = memory else {
        return writeln!(
            f,
            "  Memory:  expectations, stale-cache record, backoff and queue are a running manager's, and not known here"
        );
    };
    let mut parts = Vec::new();
    if let Some(expectations) = &memory.expectations {
        parts.push(match expectations.expires_in_seconds {
            None => "nothing expected".to_owned(),
            Some(left) => format!(
                "expecting {} creations and {} deletions, given up in {}",
                expectations.creations,
                expectations.deletions.len(),
                time(left)
            ),
        });
    }
    match memory.written.as_deref() {
        None => {}
        Some([]) => parts.push("no write unseen".to_owned()),
        Some(written) => {
            let each = written.iter().map(|it| format!("{} {} (cache at {})", it.kind, it.version, it.cache));
            parts.push(format!("wrote {}", each.collect::<Vec<_>>().join(", ")));
        }
    }
    if let Some(wait) = memory.creations_wait_seconds {
        parts.push(format!("creations wait {}", time(wait)));
    }
    let queue = &memory.queue;
    if queue.in_work {
        parts.push("being synced".to_owned());
    }
    if queue.waiting {
        parts.push("waiting in the queue".to_owned());
    }
    if let Some(due) = queue.due_in_seconds {
        parts.push(format!("queued again in {}", time(due)));
    }
    if queue.failures > 0 {
        parts.push(format!("{} failures in a row", queue.failures));
    }
    writeln!(f, "  Memory:  {}", parts.join("; "))
}

fn write_stale(f: &mut fmt::Formatter<'_>, stale: &Stale) -> fmt::Result {
    let Stale { kind, wrote, read, retried } = stale;
    let how = if *retried { "retry by the queue's rate limit" } else { "wait for the cache" };
    writeln!(f, "\nNext: {how}")?;
    writeln!(f, "  RS-19  the cache of {kind} is at {read}, {wrote} was written")
}

fn write_next(f: &mut fmt::Formatter<'_>, next: &NextSync) -> fmt::Result {
    writeln!(f, "\nNext: {}", next.summary)?;
    for reason in &next.why {
        writeln!(f, "  {:<7}{}", reason.rule, reason.text)?;
    }
    for remark in &next.remarks {
        writeln!(f, "  note   {remark}")?;
    }
    for write in &next.writes {
        write!(f, "  {:<7}", write.action)?;
        let mut words = Vec::new();
        if write.count > 1 {
            words.push(write.count.to_string());
        }
        words.extend([&write.kind].into_iter().filter(|kind| !kind.is_empty()).cloned());
        words.extend(write.name.clone());
        let subject = words.join(" ");
        match &write.purpose {
            Some(purpose) if subject.is_empty() => writeln!(f, "{purpose}")?,
            Some(purpose) => writeln!(f, "{subject}: {purpose}")?,
            None => writeln!(f, "{subject}")?,
        }
    }
    if let Some(status) = &next.status {
        write!(f, "  status {}", status.patch)?;
        status.annotations.iter().try_for_each(|(key, value)| write!(f, ", annotation {key}={value}"))?;
        writeln!(f)?;
    }
    match &next.again {
        Again::OnChange => writeln!(f, "  again  when something changes"),
        Again::AfterSeconds(delay) => writeln!(f, "  again  after {}, or when something changes", time(*delay)),
        Again::Backoff => writeln!(f, "  again  after a backoff"),
    }
}

fn write_ranking(f: &mut fmt::Formatter<'_>, ranking: &Ranking) -> fmt::Result {
    if ranking.order.is_empty() {
        return Ok(());
    }
    if ranking.all_go {
        writeln!(f, "\nAll pods go, and none is compared with another (DEL-05):")?;
    } else {
        writeln!(f, "\nOrder of deletion, the first to go first:")?;
    }
    let mut rows = vec![["#", "POD", "GOES", "NODE", "BEHIND THE ONE BEFORE BY"].map(str::to_owned)];
    for place in &ranking.order {
        let adopted = if place.adopted { " (adopted)" } else { "" };
        rows.push([
            place.place.to_string(),
            format!("{}{adopted}", place.pod),
            if place.goes { "yes" } else { "-" }.to_owned(),
            place.node.clone().unwrap_or_else(|| "-".to_owned()),
            place.decided_by.as_ref().map_or_else(
                || "-".to_owned(),
                |by| format!("{} {}: {}, then {}", by.rule, by.first, by.before, by.this),
            ),
        ]);
    }
    write_table(f, &rows)?;
    if ranking.omitted > 0 {
        writeln!(f, "  and {} more", ranking.omitted)?;
    }
    Ok(())
}

/// The conditions of a status.
fn write_reported(f: &mut fmt::Formatter<'_>, conditions: &[Reported]) -> fmt::Result {
    if conditions.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nConditions, as the last sync left them:")?;
    let mut rows = vec![["TYPE", "STATUS", "REASON", "MESSAGE"].map(str::to_owned)];
    rows.extend(
        conditions.iter().map(|told| [&told.kind, &told.status, &told.reason, &told.message].map(Clone::clone)),
    );
    write_table(f, &rows)
}

fn write_rollout(f: &mut fmt::Formatter<'_>, rollout: &Rollout) -> fmt::Result {
    let Rollout { spec, bounds, pods, progress, .. } = rollout;
    write!(f, "  Spec:    {} replicas, {}", spec.replicas, spec.strategy)?;
    if let (Some(surge), Some(unavailable)) = (&spec.max_surge, &spec.max_unavailable) {
        write!(f, " (maxSurge {surge}, maxUnavailable {unavailable})")?;
    }
    write!(f, ", available after {}s ready, selecting {}", spec.min_ready_seconds, spec.selector)?;
    for (is, words) in [(spec.paused, ", paused"), (spec.being_deleted, ", being deleted")] {
        if is {
            f.write_str(words)?;
        }
    }
    writeln!(f)?;
    writeln!(f, "  Bounds:  at most {} pods, at least {} available", bounds.most_pods, bounds.least_available)?;
    write!(
        f,
        "  Pods:    {} wanted by its ReplicaSets, {} there, {} updated, {} ready, {} available",
        pods.wanted, pods.reported, pods.updated, pods.ready, pods.available
    )?;
    match pods.terminating {
        None | Some(0) => writeln!(f)?,
        Some(terminating) => writeln!(f, ", {terminating} terminating")?,
    }
    let deadline = match (progress.complete, progress.timed_out, progress.left_seconds, progress.deadline_seconds) {
        (true, ..) => "complete".to_owned(),
        (_, true, ..) => "the deadline has passed without progress".to_owned(),
        (_, _, Some(left), Some(deadline)) => {
            format!("{} left of {} in which it must get on", time(left), time(deadline))
        }
        (_, _, None, Some(deadline)) => format!("no deadline runs now; it is {}", time(deadline)),
        (_, _, _, None) => "no deadline".to_owned(),
    };
    writeln!(f, "  Rollout: {deadline}")?;
    if !rollout.released.is_empty() {
        writeln!(f, "  Releases:  {}", rollout.released.join(", "))?;
    }
    Ok(())
}

fn write_sets(f: &mut fmt::Formatter<'_>, rollout: &Rollout) -> fmt::Result {
    if rollout.sets.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nReplicaSets, oldest first:")?;
    let titles = ["REPLICASET", "REVISION", "HASH", "IS", "REPLICAS", "THEN", "THERE", "READY", "AVAILABLE", "REPORT"];
    let mut rows = vec![titles.map(str::to_owned)];
    for set in &rollout.sets {
        let adopted = if set.adopted { ", adopted" } else { "" };
        rows.push([
            set.name.clone(),
            set.revision.map_or_else(|| "-".to_owned(), |revision| revision.to_string()),
            set.hash.clone(),
            format!("{}{adopted}", if set.new { "new" } else { "old" }),
            if set.created { "-".to_owned() } else { set.replicas.to_string() },
            set.replicas_after.map_or_else(|| "deleted".to_owned(), |replicas| replicas.to_string()),
            set.reported.to_string(),
            set.ready.to_string(),
            set.available.to_string(),
            if set.observed { "current" } else { "behind" }.to_owned(),
        ]);
    }
    write_table(f, &rows)
}

fn write_conditions(f: &mut fmt::Formatter<'_>, rollout: &Rollout) -> fmt::Result {
    if rollout.conditions.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nConditions:")?;
    let mut rows = vec![["TYPE", "STATUS", "REASON", "CHANGE", "MESSAGE"].map(str::to_owned)];
    for condition in &rollout.conditions {
        let change = match condition.change {
            Change::Kept => "-",
            Change::Written => "written",
            Change::Removed => "removed",
        };
        let [kind, status, reason] = [&condition.kind, &condition.status, &condition.reason].map(Clone::clone);
        rows.push([kind, status, reason, change.to_owned(), condition.message.clone()]);
    }
    write_table(f, &rows)
}

/// Aligned columns, two spaces apart; the last one is not padded. A row is one line, whatever a message has in it.
fn write_table<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &[[String; N]]) -> fmt::Result {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| std::array::from_fn(|at| row[at].replace(['\n', '\r'], " "))).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    for row in &rows {
        let mut line = String::from("  ");
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

fn time(seconds: f64) -> String {
    // The number comes from JSON and may be out of range.
    std::time::Duration::try_from_secs_f64(seconds).map_or_else(|_| format!("{seconds}s"), short)
}
