//! Inside a manager, and why: the two views that need one of ours.

use crate::opened::{Opened, example};

/// Contract: PG-02
pub(crate) fn the_diagram_is_alive_and_a_key_is_followed_through_it() {
    let page = Opened::start(&["-f", &example("deployment.yaml")]);
    let browser = &page.browser;
    page.visit("/inside");
    let stages = browser.text("[...document.querySelectorAll('.diagram .stage h2')].map(it => it.textContent).join()");
    assert_eq!(stages, "Informers,Cache,Queue,Workers,Decision,Expectations,Writes");
    browser
        .until("plans", "document.querySelector('#plans .keys a[href=\"/inside/deployments/default/web\"]') !== null");
    let objects = || {
        browser
            .text("document.querySelector('.stage[data-stage=cache] b').textContent")
            .parse::<i64>()
            .expect("a number")
    };
    // The pods, the ReplicaSet and the Deployment.
    browser.look("all objects", || (objects() == 12).then_some(()));
    page.cluster.kubectl(&["scale", "deployment/web", "--replicas=14"]);
    browser.look("more objects", || (objects() == 16).then_some(()));
    let writes = browser.text("document.querySelector('.stage[data-stage=write]').textContent");
    assert!(writes.contains("a second") && !writes.contains(" 0 in all"), "{writes}");

    page.cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=300s"]);
    browser.click("#plans .keys a[href='/inside/deployments/default/web']");
    browser
        .until("its way", "document.querySelector('.follow h2')?.textContent === 'The way of Deployment default/web'");
    browser.until("its steps", "document.querySelectorAll('ol.steps li').length > 3");
    browser.click_text("Play slowly");
    let lit = "document.querySelector('li.stage.lit')?.dataset.stage";
    let first = browser.until("a stage that is lit", lit);
    browser.until("the next one", &format!("{lit} && {lit} !== {first}"));
    // The steps change with the history: what is said is one of them as they are.
    let said = "[...document.querySelectorAll('ol.steps li')].some(it => it.textContent === document.querySelector('#said').textContent)";
    browser.until("what is said of a step", said);
    page.is_clean();
}

/// Contract: PG-02
pub(crate) fn a_timeline_leads_to_the_rules() {
    let page = Opened::start(&["-f", &example("deployment.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/deployments/default/web");
    browser.until("the rollout's end", "document.querySelector('.rank.complete') !== null");
    browser.click_text("Why?");
    browser.until("the timeline", "document.querySelectorAll('#history .timeline > li').length > 1");
    let next = browser.text("document.querySelector('#next').textContent");
    assert!(next.contains("What would happen next") && next.contains("said by the manager"), "{next}");
    let rule = browser.text("document.querySelector('.timeline a.rule').textContent");
    browser.click(".timeline a.rule");
    browser.until(
        "the rule",
        &format!(
            "location.pathname === '/rules/{rule}' && document.querySelector('main').textContent.includes('{rule}')"
        ),
    );
    // A whole row of the contract, not its name alone.
    browser.until("its text", "document.querySelector('main').textContent.length > 80");
    page.visit("/why/deployments/default/none");
    browser.until("an answer", "document.querySelector('#next .note') !== null");
    page.is_clean();
}
