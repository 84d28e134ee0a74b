//! The overview: every workload as a bar, what is stuck first.

use crate::opened::{Opened, example};

/// The workloads of the examples, with the numbers of the API.
///
/// Contract: PG-02
pub(crate) fn every_workload_is_a_bar_with_its_numbers() {
    let files = ["deployment.yaml", "replicationcontroller.yaml", "scale-down.yaml", "web.yaml", "recreate.yaml"];
    let files: Vec<String> = files.map(example).into();
    let arguments: Vec<&str> = files.iter().flat_map(|file| ["-f", file]).collect();
    let page = Opened::start(&arguments);
    let browser = &page.browser;
    browser.until(
        "all are complete",
        "[...document.querySelectorAll('.line .rank')].every(it => it.textContent === 'complete')",
    );
    for (kind, namespace, name, pods) in [
        ("Deployment", "default", "web", 10),
        ("Deployment", "default", "ledger", 3),
        ("ReplicationController", "default", "classic", 3),
        ("ReplicaSet", "default", "keep", 10),
        ("ReplicaSet", "shop", "web", 5),
        ("ReplicaSet", "shop", "cache", 3),
    ] {
        let line = format!("#line-{kind}_{namespace}_{name}");
        let told = browser.text(&format!("document.querySelector('{line} svg[role=img]').getAttribute('aria-label')"));
        let all = format!("{pods} desired, {pods} created, {pods} ready, {pods} available, 0 terminating");
        assert_eq!(told, all, "{line}");
        let object = page.api(&[&format!("{kind}/{name}"), "-n", namespace]);
        for (number, field) in [
            ("desired", "/spec/replicas"),
            ("ready", "/status/readyReplicas"),
            ("available", "/status/availableReplicas"),
        ] {
            assert_eq!(
                Some(page.number(&line, number)),
                object.pointer(field).and_then(serde_json::Value::as_i64),
                "{line}"
            );
        }
        let to = browser.text(&format!("document.querySelector('{line} a').getAttribute('href')"));
        assert_eq!(to, format!("/rollout/{}s/{namespace}/{name}", kind.to_lowercase()));
    }
    // Those of a Deployment stand under it, and count once.
    assert_eq!(browser.eval("document.querySelectorAll('.line:not(.under)').length"), 6);
    assert_eq!(page.number(".sums", "desired"), 34);

    browser.fill("#q", "shop/");
    browser.until("those of the namespace", "document.querySelectorAll('.line').length === 2");
    assert_eq!(page.number(".sums", "desired"), 8);
    browser.fill("#q", "LEDG");
    browser.until(
        "the one of that name",
        "document.querySelectorAll('.line').length === 2 && document.querySelector('#line-Deployment_default_ledger')",
    );
    assert_eq!(browser.text("document.activeElement.id"), "q", "the field that is typed into keeps the focus");

    page.visit("/");
    page.cluster.kubectl(&["replace", "-f", &example("broken-rollout.yaml")]);
    let first = "document.querySelector('.line')";
    browser.until(
        "the stuck one comes first",
        &format!("{first}.id === 'line-Deployment_default_web' && {first}.classList.contains('stuck')"),
    );
    let sentence = browser.until(
        "its reason",
        &format!("/ImagePullBackOff|ErrImagePull/.test({first}.querySelector('.sentence').textContent) && {first}.querySelector('.sentence').textContent"),
    );
    assert!(sentence.as_str().is_some_and(|it| it.contains("container nginx: ") && it.ends_with('.')), "{sentence}");
    assert_eq!(page.number(".sums", "stuck"), 1);
    page.is_clean();
}
