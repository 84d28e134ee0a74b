//! CronJobs (API-25).

use crate::field::FieldError;
use crate::model::{
    Object,
    fields::{Fields, metadata},
};

use super::{Errors, Path, cron, job, non_negative, selector, zone};

const SPEC: Path<'_> = Path::new("spec");
/// What is left of a Job's 63 characters when the controller has added the time.
const NAME_MAX: usize = 52;

/// Checks a CronJob.
pub fn validate(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = object.part("spec");
    let before = old.map(|old| old.part("spec"));
    let path = SPEC.child("schedule");
    match spec.text("schedule") {
        "" => errors.push(FieldError::required(path, "")),
        schedule => {
            let zoned = before.is_some_and(|before| before.text("schedule").contains("TZ"));
            validate_schedule(schedule, zoned, spec.contains_key("timeZone"), &path, errors);
        }
    }
    let count = |field: &str, errors: &mut Errors| non_negative(spec.int(field), &SPEC.child(field), errors);
    count("startingDeadlineSeconds", errors);
    if let Some(zone) = spec.maybe_text("timeZone")
        && before.is_none_or(|before| before.maybe_text("timeZone") != Some(zone))
    {
        validate_zone(zone, &SPEC.child("timeZone"), errors);
    }
    let path = SPEC.child("concurrencyPolicy");
    match spec.text("concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(FieldError::required(path, "")),
        other => errors.push(FieldError::not_supported(path, other, &["Allow", "Forbid", "Replace"])),
    }
    validate_template(spec.part("jobTemplate"), before.map(|b| b.part("jobTemplate")), errors);
    count("successfulJobsHistoryLimit", errors);
    count("failedJobsHistoryLimit", errors);
    let own = metadata(object).text("name");
    if old.is_none() && own.len() > NAME_MAX {
        let meta = Path::new("metadata");
        errors.push(FieldError::invalid(meta.child("name"), own, "must be no more than 52 characters"));
    }
}

fn validate_schedule(schedule: &str, zoned: bool, has_zone: bool, path: &Path<'_>, errors: &mut Errors) {
    if let Err(why) = cron::check(schedule) {
        errors.push(FieldError::invalid(path, schedule, why));
    }
    if schedule.contains("TZ") {
        // A schedule that had a time zone of its own before there was a field for it may keep it.
        let why = match (zoned, has_zone) {
            (true, false) => return,
            (true, true) => "cannot use both timeZone field and TZ or CRON_TZ in schedule",
            (false, _) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        };
        errors.push(FieldError::invalid(path, schedule, why));
    }
}

fn validate_zone(zone: &str, path: &Path<'_>, errors: &mut Errors) {
    if zone.is_empty() {
        errors.push(FieldError::invalid(path, zone, "timeZone must be nil or non-empty string"));
        return;
    }
    let fine = |part: &str| {
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_+".contains(&c))
    };
    if !zone.split('/').all(fine) {
        errors.push(FieldError::invalid(path, zone, format!("unknown time zone {zone}")));
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(path, zone, why));
    }
    if let Err(why) = zone::check(zone) {
        errors.push(FieldError::invalid(path, zone, why));
    }
}

fn validate_template(template: &Object, before: Option<&Object>, errors: &mut Errors) {
    let spec = template.part("spec");
    let template_path = SPEC.child("jobTemplate");
    let path = template_path.child("spec");
    job::validate_spec(spec, before.map(|b| b.part("spec")), &path, errors);
    if spec.contains_key("selector") {
        let shown = selector::shown(spec.object("selector"));
        errors.push(FieldError::invalid(path.child("selector"), shown, "`selector` will be auto-generated"));
    }
    if spec.flag("manualSelector") {
        errors.push(FieldError::not_supported(path.child("manualSelector"), true, &["nil", "false"]));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::json;

    use super::*;

    /// Contract: API-25
    #[test]
    fn zones_by_the_table() {
        let unknown = |zone: &str| vec![format!("spec.timeZone: Invalid value: \"{zone}\": unknown time zone {zone}")];
        let local = |zone: &str| {
            format!(
                "spec.timeZone: Invalid value: \"{zone}\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
            )
        };
        let cases = [
            ("Europe/Berlin", vec![]),
            ("UTC", vec![]),
            ("America/Argentina/Buenos_Aires", vec![]),
            ("Etc/GMT+5", vec![]),
            ("", vec!["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string".to_owned()]),
            ("Mars/Base", unknown("Mars/Base")),
            ("europe/berlin", unknown("europe/berlin")),
            ("/UTC", unknown("/UTC")),
            ("../UTC", unknown("../UTC")),
            ("America/ThisIsMuchTooLong", unknown("America/ThisIsMuchTooLong")),
            ("Local", vec![local("Local")]),
            ("local", vec![local("local"), unknown("local").remove(0)]),
        ];
        for (zone, want) in cases {
            let mut errors = Errors::new();
            validate_zone(zone, &SPEC.child("timeZone"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want, "{zone}");
        }
    }

    /// Contract: API-25
    #[test]
    fn a_schedule_keeps_the_time_zone_that_it_has() {
        let job = |schedule: &str, zone: Option<&str>| {
            let mut spec = json!({"schedule": schedule, "concurrencyPolicy": "Allow"});
            if let Some(zone) = zone {
                spec["timeZone"] = zone.into();
            }
            json!({"metadata": {"name": "c"}, "spec": spec})
        };
        let of_schedule = |new: &muster_tree::Value, old: Option<&muster_tree::Value>| -> Vec<String> {
            let mut errors = Errors::new();
            validate(new.as_object().expect("object"), old.and_then(|o| o.as_object()), &mut errors);
            errors.iter().filter(|e| e.field == "spec.schedule").map(|e| e.detail.clone()).collect()
        };
        let zoned = job("TZ=UTC 0 0 * * *", None);
        assert_eq!(of_schedule(&zoned, None), ["cannot use TZ or CRON_TZ in schedule, use timeZone field instead"]);
        assert_eq!(of_schedule(&job("CRON_TZ=UTC 0 1 * * *", None), Some(&zoned)), Vec::<String>::new());
        assert_eq!(
            of_schedule(&job("TZ=UTC 0 0 * * *", Some("UTC")), Some(&zoned)),
            ["cannot use both timeZone field and TZ or CRON_TZ in schedule"]
        );
    }
}
