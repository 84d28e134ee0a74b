//! Pods as cells: a few and thousands, by keyboard.

use crate::opened::{Opened, example};

/// Keys, as the driver takes them.
const TAB: char = '\u{e004}';
const RIGHT: char = '\u{e014}';
const LEFT: char = '\u{e012}';

/// Contract: PG-04
pub(crate) fn three_pods_are_walked_by_keys() {
    let page = Opened::start(&["-f", &example("recreate.yaml")]);
    page.visit("/rollout/deployments/default/ledger");
    walk(&page, 3);
    page.is_clean();
}

/// Contract: PG-02, PG-04
pub(crate) fn three_thousand_pods_are_walked_by_keys() {
    let page = Opened::start(&[
        "-f",
        &example("recreate.yaml"),
        "--nodes",
        "60",
        "--pod-startup",
        "0s",
        "--pod-shutdown",
        "0s",
    ]);
    page.visit("/rollout/deployments/default/ledger");
    page.browser.fill("form[data-act=scale] input[name=replicas]", "3000");
    page.browser.click_text("Scale");
    walk(&page, 3000);
    let browser = &page.browser;
    assert_eq!(page.number("#numbers", "available"), 3000);
    page.visit("/");
    browser.until("the bar", "document.querySelector('.line svg')?.getAttribute('aria-label').startsWith('3000 desired, 3000 created, 3000 ready')");
    for view in ["/inside", "/why/deployments/default/ledger", "/inside/deployments/default/ledger", "/tour"] {
        page.visit(view);
    }
    page.is_clean();
}

/// Contract: PG-02, PG-05
pub(crate) fn those_that_are_to_go_have_numbers_and_rules() {
    let page = Opened::start(&["-f", &example("scale-down.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/replicasets/default/keep");
    browser.until(
        "ten pods",
        "document.querySelectorAll('.cell.ready').length === 10 && document.querySelector('.rank.complete')",
    );
    assert_eq!(browser.eval("document.querySelectorAll('.cell.goes').length"), 0);
    // The controller does not see what the page sees, so that there is time to look at it.
    browser.eval("document.querySelector('form[data-act=hold] select').value = 'replicasets'");
    browser.fill("form[data-act=hold] input[name=seconds]", "300");
    browser.click_text("Hold the manager's watch");
    browser.until("what was done", "document.querySelector('#said.done') !== null");
    browser.fill("form[data-act=scale] input[name=replicas]", "4");
    browser.click_text("Scale");
    browser.until("those that go", "document.querySelectorAll('.cell.goes small').length === 6");
    let numbers = "[...document.querySelectorAll('.cell.goes small')].map(it => Number(it.textContent)).sort((a, b) => a - b).join()";
    assert_eq!(browser.text(numbers), "1,2,3,4,5,6");
    for at in 0..6 {
        browser.eval(&format!("document.querySelectorAll('.cell.goes')[{at}].focus()"));
        // Which number it is changes as the pods age.
        let rule = "/: ready, on node-.*; is number [1-6] of 10 to go by DEL-/.test(document.querySelector('#said').textContent)";
        browser.until("its rule", rule);
    }
    page.is_clean();
}

fn walk(page: &Opened, count: usize) {
    let browser = &page.browser;
    browser.until(
        "all pods",
        &format!(
            "document.querySelectorAll('.cell.ready').length === {count} && document.querySelector('.rank.complete')"
        ),
    );
    assert_eq!(browser.eval("document.querySelectorAll('.cells button[tabindex=\"0\"]').length"), 1);
    assert_eq!(browser.eval("document.querySelectorAll('.cells button:not([tabindex])').length"), 0);
    // From the link before them, one key leads to the cells, and the next one behind them.
    browser.eval("document.querySelector('.part h2 a').focus()");
    let on = || browser.text("document.activeElement.dataset.pod ?? ''");
    browser.press(TAB);
    let first = on();
    let next =
        browser.text("document.activeElement.closest('li').nextElementSibling.querySelector('.cell').dataset.pod");
    browser.press(RIGHT);
    let second = on();
    assert_eq!(second, next, "after {first}");
    let said = browser.text("document.querySelector('#said').textContent");
    assert!(said.starts_with(&format!("{second}: ready, on node-")), "{said}");
    browser.press(LEFT);
    assert_eq!(on(), first);
    browser.press(TAB);
    assert_eq!(on(), "", "the second Tab leaves the cells");
    // A click makes a cell the stop.
    browser.click(".cells li:last-child .cell");
    browser.press(LEFT);
    assert_eq!(browser.eval("document.querySelectorAll('.cells button[tabindex=\"0\"]').length"), 1);
    assert_eq!(on(), browser.text("document.querySelector('.cells li:nth-last-child(2) .cell').dataset.pod"));
}
