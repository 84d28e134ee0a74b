//! A shadow's history as a story with times: what the controllers here would have done, and what was done.

use std::fmt;

use super::history::ShadowHistory;
use super::record::{Agreement, Difference, Line, Other, Planned, Record};
use crate::explain::write_shard;
use crate::history::text::{date, time};

/// The object, then its lines, the oldest first. Several in a row that are about the same are one.
impl fmt::Display for ShadowHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, at, shard, oldest, lines, .. } = self;
        writeln!(f, "{} {}/{}", object.kind, object.namespace, object.name)?;
        writeln!(f, "  Source:  a shadow of the cluster's controllers, which writes nothing, at {at}")?;
        write_shard(f, shard.as_ref())?;
        match oldest {
            Some(oldest) => writeln!(f, "  Kept:    what was seen since {oldest}")?,
            None => writeln!(f, "  Kept:    nothing")?,
        }
        let mut day = String::new();
        for alike in lines.chunk_by(are_alike) {
            let Some((first, last)) = alike.first().zip(alike.last()) else { continue };
            if date(first.time.0) != day {
                day = date(first.time.0);
                writeln!(f, "\n{day}")?;
            }
            let Some(((voice, text), more)) = told(&first.record) else { continue };
            write!(f, "  {}  {voice:<17} {text}", time(first.time.0))?;
            match alike.len() {
                1 => writeln!(f)?,
                many => writeln!(f, ", and {} more like it until {}", many - 1, time(last.time.0))?,
            }
            for (name, text) in more {
                writeln!(f, "                  {name:<15} {text}")?;
            }
        }
        if lines.is_empty() {
            writeln!(f, "\nNothing that was seen of it is kept.")?;
        }
        Ok(())
    }
}

/// Whether two lines say the same of two objects, as where many pods are created.
fn are_alike(one: &Line, other: &Line) -> bool {
    match (&one.record, &other.record) {
        (Record::Agreement(one), Record::Agreement(other)) => one.action == other.action,
        (Record::Other(one), Record::Other(other)) => (&one.action, &one.why) == (&other.action, &other.why),
        _ => false,
    }
}

/// A text after what it is.
type Said<'r> = (&'r str, &'r str);

/// Whose voice a record is and what it says, and what there is to say beside it: a row of the contract for a reason.
fn told(record: &Record) -> Option<(Said<'_>, Vec<Said<'_>>)> {
    Some(match record {
        Record::Plan(Planned { would, why, .. }) => {
            (("Muster would", would), why.iter().map(|reason| (&*reason.rule, &*reason.text)).collect())
        }
        Record::Agreement(Agreement { did, .. }) => (("cluster agreed", did), Vec::new()),
        Record::Difference(Difference { would, did, why, row, .. }) => {
            let why = (row.as_deref().unwrap_or("because"), &**why);
            (("cluster differed", did), vec![why, ("Muster would", would)])
        }
        Record::Other(Other { did, why, .. }) => (("not judged", did), vec![("because", why)]),
        Record::Start(_) | Record::Summary(_) => return None,
    })
}
