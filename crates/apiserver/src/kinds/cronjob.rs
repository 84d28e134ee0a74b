//! CronJob.

use super::job::{failure_patterns, spec_warnings};
use super::{AGE_COLUMN, Column, NAME_COLUMN, Object, Part, Resource, Row, Subresource, cells, defaults};
use crate::model::Fields as _;
use crate::model::column::since;
use crate::validation::{Path, cronjob as rules, workload as templates};

/// Jobs at times.
pub(super) fn kind() -> Row {
    Row {
        counts_spec: true,
        default,
        prepare,
        part_metadata: false,
        validate: rules::validate,
        warnings,
        columns: &COLUMNS,
        ..Row::new(
            Resource::namespaced("batch", "v1", "CronJob", "cronjobs")
                .short(&["cj"])
                .in_all()
                .parts(&[Subresource::Status]),
        )
    }
}

static COLUMNS: [Column; 10] = [
    NAME_COLUMN,
    Column::text("Schedule", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron.").at("/spec/schedule"),
    Column::text(
        "Timezone",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
    )
    .by(|object, _| object.part("spec").maybe_text("timeZone").unwrap_or("<none>").into()),
    Column::flag(
        "Suspend",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.",
    )
    .by(|object, _| match object.part("spec").maybe_flag("suspend") {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }),
    Column::number("Active", "A list of pointers to currently running jobs.").count("/status/active"),
    Column::text("Last Schedule", "Information when was the last time the job was successfully scheduled.").by(
        |object, now| match object.part("status").maybe_text("lastScheduleTime") {
            Some(time) => since(time, now).into(),
            None => "<none>".into(),
        },
    ),
    AGE_COLUMN,
    cells::CONTAINERS,
    cells::IMAGES,
    Column::wide_text(
        "Selector",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    )
    .by(|object, _| cells::label_selector(job_spec(object).object("selector")).into()),
];

fn job_spec(object: &Object) -> &Object {
    object.part("spec").part("jobTemplate").part("spec")
}

fn default(object: &mut Object) {
    let spec = object.object_or_new("spec");
    spec.set_if_empty("concurrencyPolicy", "Allow");
    spec.set_if_absent("suspend", false);
    spec.set_if_absent("successfulJobsHistoryLimit", 3);
    spec.set_if_absent("failedJobsHistoryLimit", 1);
    let job = spec.object_or_new("jobTemplate").object_or_new("spec");
    defaults::template(job, "template");
    failure_patterns(job);
}

fn prepare(part: Part, object: &mut Object, _: Option<&Object>) {
    if part == Part::Main {
        let template = object.object_or_new("spec").object_or_new("jobTemplate");
        defaults::drop_disabled_template(template);
    }
}

fn warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let (spec, template) = (Path::new("spec"), "jobTemplate");
    let template = spec.child(template);
    let mut warnings = templates::new_name_warning(object, old);
    warnings.extend(spec_warnings(object, old, &template.child("spec"), job_spec));
    if old.is_some() && object.part("spec").text("schedule").contains("TZ") {
        // The path is the reference's.
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}
