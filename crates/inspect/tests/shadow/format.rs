//! The format of the log: what is written is read again, and stays as it is documented.

use muster_inspect::shadow::Totals;
use muster_inspect::shadow::record::{Agreement, Difference, Line, Record, Subject};
use muster_inspect::shadow::totals::Counts;
use muster_objects::Timestamp;
use muster_objects::meta::{ObjectKey, ResourceVersion, Uid};
use serde_json::json;

fn subject() -> Subject {
    Subject::new("ReplicaSet", &ObjectKey::new("default", "web"), &Uid::new("u"), ResourceVersion(812))
}

fn difference(row: Option<&str>) -> Record {
    Record::Difference(Difference {
        subject: subject(),
        action: "delete-pod".to_owned(),
        would: "delete web-1".to_owned(),
        did: "deleted pod web-3".to_owned(),
        why: "no state had a plan with it".to_owned(),
        row: row.map(str::to_owned),
    })
}

fn agreement() -> Record {
    Record::Agreement(Agreement {
        subject: subject(),
        action: "create-pod".to_owned(),
        did: "created pod web-x2v4b".to_owned(),
    })
}

#[test]
fn a_line_is_as_documented_and_reads_back() {
    let line = Line::new(Timestamp::from_seconds(1_767_225_605), agreement());
    let written = serde_json::to_value(&line).unwrap();
    assert_eq!(
        written,
        json!({"version": 1, "time": "2026-01-01T00:00:05.000000Z", "record": "agreement", "kind": "ReplicaSet",
            "namespace": "default", "name": "web", "uid": "u", "resourceVersion": 812, "action": "create-pod",
            "did": "created pod web-x2v4b"})
    );
    let mut newer = written;
    newer["somethingNew"] = json!({"a": 1});
    assert_eq!(serde_json::from_value::<Line>(newer).unwrap(), line, "unknown fields are skipped");
    let difference = Line::new(Timestamp::from_seconds(1), difference(Some("B-22")));
    let text = serde_json::to_string(&difference).unwrap();
    assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), difference);
}

#[test]
fn the_tally_counts_what_can_be_counted() {
    let mut totals = Totals::default();
    for record in [agreement(), agreement(), difference(None), difference(Some("B-22"))] {
        totals.add(&record);
    }
    totals.add(&Record::Summary(totals.clone()));
    let Counts { agreed, by_row, unexplained, others } = totals.total();
    assert_eq!((agreed, unexplained, others), (2, 1, 0));
    assert_eq!(by_row.get("B-22"), Some(&1));
    assert_eq!(totals.kinds["ReplicaSet"]["delete-pod"].differed(), 2);
}
