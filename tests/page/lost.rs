//! The connection: lost and found again, and one for many tabs.

use crate::browser::Browser;
use crate::http::{Wire, port};
use crate::opened::{Opened, example, origin, served};

const LIVE: &str = "document.querySelector('#connection.live') !== null";

/// Contract: PG-02
pub(crate) fn a_lost_connection_comes_back_with_what_changed_meanwhile() {
    let (cluster, link) = served(&["-f", &example("recreate.yaml")]);
    let page = port(&origin(&link));
    // The page answers to the name localhost too, which leads this browser over a wire that can be cut.
    let wire = Wire::to(page);
    let browser = Browser::start_with(&format!("MAP localhost 127.0.0.1:{} ,", wire.port));
    browser.go(&link.replace("127.0.0.1", "localhost"));
    browser.until("a live page", LIVE);
    browser.go(&format!("http://localhost:{page}/rollout/deployments/default/ledger"));
    let pods = |count: usize| {
        let all = format!(
            "{LIVE} && document.querySelectorAll('.cell.ready').length === {count} && document.querySelectorAll('.cell').length === {count}"
        );
        browser.until("all pods", &all);
    };
    pods(3);
    for (replicas, count) in [("7", 7), ("2", 2)] {
        wire.cut();
        browser.until(
            "that it is lost",
            "document.querySelector('#connection.lost')?.textContent.startsWith('Connection lost')",
        );
        cluster.kubectl(&["scale", "deployment/ledger", "--replicas", replicas]);
        cluster.kubectl(&["rollout", "status", "deployment/ledger", "--timeout=300s"]);
        // What is done meanwhile fails in words.
        browser.click_text("Scale");
        browser.until("a failure in words", "document.querySelector('#said.wrong')?.textContent.includes('lost')");
        assert_ne!(browser.eval("document.querySelectorAll('.cell').length"), count, "nothing can have come");
        wire.mend();
        pods(count);
    }
    // What goes on after it has come back is seen too.
    cluster.kubectl(&["scale", "deployment/ledger", "--replicas", "5"]);
    pods(5);
}

/// Contract: PG-02
pub(crate) fn a_page_that_ended_is_told_lost() {
    let page = Opened::start(&[]);
    let Opened { browser, cluster, .. } = page;
    assert_eq!(cluster.interrupt(), Some(0), "an open page does not hold the end up");
    browser.until("that it is lost", "document.querySelector('#connection.lost') !== null");
}

/// Contract: PG-02
pub(crate) fn twenty_tabs_are_live_by_one_stream() {
    let page = Opened::start(&["-f", &example("recreate.yaml")]);
    let browser = &page.browser;
    let mut tabs = vec![browser.this_tab()];
    for at in 1..20 {
        tabs.push(browser.tab());
        let views = ["/", "/rollout/deployments/default/ledger", "/why/deployments/default/ledger", "/inside"];
        browser.go(&format!("{}{}", page.origin, views[at % 4]));
    }
    for tab in &tabs {
        browser.switch(tab);
        page.is_live();
    }
    let targets = browser.devtools("Target.getTargets", &serde_json::json!({}));
    let kinds = targets["targetInfos"]
        .as_array()
        .expect("targets")
        .iter()
        .filter(|it| it["url"].as_str().is_some_and(|url| url.starts_with(&page.origin)));
    let workers = kinds.filter(|it| it["type"] == "shared_worker").count();
    assert_eq!(workers, 1, "{targets}");
    page.cluster.kubectl(&["scale", "deployment/ledger", "--replicas", "6"]);
    for (at, tab) in tabs.iter().enumerate() {
        browser.switch(tab);
        match at % 4 {
            0 => browser.until("the bar", "document.querySelector('#line-Deployment_default_ledger svg').getAttribute('aria-label').startsWith('6 desired, 6 created, 6 ready')"),
            1 => browser.until("the cells", "document.querySelectorAll('.cell.ready').length === 6"),
            2 => browser.until("the sync", "document.querySelector('#history').textContent.includes('scale') && document.querySelector('#connection.live')"),
            _ => browser.until("the plan", "document.querySelector('#plans').textContent.includes('ledger') && document.querySelector('#connection.live')"),
        };
    }
    page.is_clean();
}
