//! A rollout by the page's buttons, watched to its end, looked back at, broken and undone.

use crate::opened::{Opened, example, shell};

/// A rollout's numbers are noted whenever the page changes.
const NOTE: &str = "
    window.most = 0;
    window.least = Infinity;
    const number = (name) => Number(document.querySelector(`#numbers .${name} dd`).textContent);
    const note = () => {
        window.most = Math.max(window.most, number('created'));
        window.least = Math.min(window.least, number('available'));
    };
    note();
    new MutationObserver(note).observe(document.querySelector('main'), {subtree: true, childList: true});
";

/// The top of a line or an area of the chart: the smallest of its heights on the screen.
const TOPS: &str = "
    const top = (path) => Math.min(...path.getAttribute('d').match(/-?[\\d.]+ -?[\\d.]+/g).map((pair) => Number(pair.split(' ')[1])));
    const tops = (selector) => [...document.querySelectorAll(selector)].map(top);
    return [Math.max(...tops('svg.chart path.most')), Math.min(...tops('svg.chart path.area:not(.terminating)'))];
";

/// Contract: PG-02, PG-05
pub(crate) fn a_rollout_is_watched_to_its_end_and_looked_back_at() {
    let page = Opened::start(&["-f", &example("deployment.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/deployments/default/web");
    browser.until("the first rollout's end", "document.querySelector('.rank.complete') !== null");
    browser.until("ten cells", "document.querySelectorAll('.cell.ready').length === 10");
    let strategy = browser.text("document.querySelector('#numbers .note').textContent");
    assert!(
        strategy.contains("at most 13 pods (maxSurge 25%), at least 8 available (maxUnavailable 25%)"),
        "{strategy}"
    );

    browser.run(NOTE);
    browser.fill("form[data-act=image] input[name=image]:not([type=hidden])", "nginx:1.31");
    let command = shown_command(&page, "Change the image");
    let kubeconfig = page.cluster.kubeconfig().display().to_string();
    assert_eq!(
        command,
        format!("kubectl set image deployment/web nginx=nginx:1.31 -n default --kubeconfig {kubeconfig}")
    );
    browser.click_text("Change the image");
    browser.until("what the button did", "document.querySelector('#said.done')?.textContent.includes('nginx:1.31')");
    browser.until("both revisions", "document.querySelectorAll('.part').length === 2");
    browser.until(
        "the second rollout's end",
        "document.querySelector('.part h2').textContent.startsWith('Revision 2') && document.querySelector('.rank.complete')
         && document.querySelectorAll('.cell').length === 10",
    );
    let (most, least) = (browser.eval("window.most"), browser.eval("window.least"));
    // How many of its numbers a slow browser shows is left to it; the bounds themselves are reached in the next test.
    assert!((10..=13).contains(&most.as_i64().expect("a number")), "{most} pods at most");
    assert!((8..=10).contains(&least.as_i64().expect("a number")), "{least} available at least");
    let tops = browser.run(TOPS);
    let (line, area) = (tops[0].as_f64().expect("a height"), tops[1].as_f64().expect("a height"));
    assert!(area >= line, "an area reaches {area}, above the line at {line}");
    let image = &page.api(&["deploy/web"])["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "nginx:1.31");

    // Back in time, by keys.
    browser.eval("document.querySelector('#slider').focus()");
    browser.press(HOME);
    browser.until("the past", "document.querySelector('.past')?.textContent.startsWith('This is the past')");
    browser.until("the cells of that time", "[...document.querySelectorAll('.part')].some(it => it.textContent.includes('Revision 1') && it.querySelectorAll('.cell.ready').length === 10)");
    assert_eq!(browser.eval("document.querySelector('svg.chart path.now') !== null"), true);
    let told = browser.text("document.querySelector('#slider').getAttribute('aria-valuetext')");
    assert!(told.ends_with(" s before"), "{told}");
    browser.press(PAGE_UP);
    // The second ReplicaSet was made half a second to one and a half before that, for it is told in whole seconds: its pods take
    // 500 ms to 1500 ms to turn ready, and come in turns.
    let sets = page.api(&["rs"]);
    let made = |set: &serde_json::Value| set["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    let second = sets["items"].as_array().expect("a list").iter().filter_map(made).max().expect("two ReplicaSets");
    browser.run(&format!(
        "const slider = document.querySelector('#slider');
         const {{from, to}} = document.querySelector('main figure').dataset;
         slider.value = Math.round(1000 * (Date.parse('{second}') + 1500 - from) / (to - from));
         slider.dispatchEvent(new Event('input', {{bubbles: true}}));"
    ));
    browser.until(
        "a time between",
        "[...document.querySelectorAll('.part')].filter(it => it.querySelector('.cell')).length === 2",
    );
    browser.click_text("Back to now");
    page.is_live();
    browser.until(
        "now",
        "document.querySelector('.past') === null && document.querySelectorAll('.cell.ready').length === 10",
    );
    page.is_clean();
}

/// Contract: PG-02, PG-05
pub(crate) fn a_broken_rollout_tells_why_and_is_undone() {
    let page = Opened::start(&["-f", &example("deployment.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/deployments/default/web");
    browser.until("the first rollout's end", "document.querySelector('.rank.complete') !== null");
    browser.click_text("Break it");
    browser.until(
        "the reason",
        "document.querySelector('.rank.stuck') && /ImagePullBackOff|ErrImagePull/.test(document.querySelector('#head .sentence').textContent)",
    );
    // It stands at its bounds: 8 old pods and 5 new ones.
    browser.until("the bounds", "document.querySelectorAll('.cell.broken').length === 5 && document.querySelectorAll('.cell.ready').length === 8");
    // Each of those that are to go has its number, and the rule.
    let old = "[...document.querySelectorAll('.part')].find(it => it.textContent.includes('Revision 1'))";
    browser.until("the order", &format!("{old}.querySelectorAll('.cell.goes small').length === 8"));
    let numbers = browser.text(&format!(
        "[...{old}.querySelectorAll('.cell.goes small')].map(it => Number(it.textContent)).sort((a, b) => a - b).join()"
    ));
    assert_eq!(numbers, "1,2,3,4,5,6,7,8");
    browser
        .eval(&format!("[...{old}.querySelectorAll('.cell.goes')].find(it => it.textContent.includes('2')).focus()"));
    let told = browser.until(
        "the rule",
        "/DEL-/.test(document.querySelector('#said').textContent) && document.querySelector('#said').textContent",
    );
    // Which number it is changes as the pods age.
    let told = told.as_str().unwrap_or_default();
    assert!(told.contains("ready, on node-") && told.contains("would be number "), "{told}");
    assert!(told.contains(" of 8 to go by DEL-"), "{told}");

    let command = shown_command(&page, "Undo");
    assert!(command.starts_with("kubectl rollout undo deployment/web -n default --kubeconfig "), "{command}");
    browser.click_text("Undo");
    browser.until("it is whole again", "document.querySelector('.rank.complete') && document.querySelectorAll('.cell.ready').length === 10 && document.querySelectorAll('.cell').length === 10");
    assert_eq!(page.api(&["deploy/web"])["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    page.is_clean();
}

/// Contract: PG-05
pub(crate) fn the_command_beside_a_button_does_the_same() {
    let page = Opened::start(&["-f", &example("deployment.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/deployments/default/web");
    browser.until("the rollout's end", "document.querySelector('.rank.complete') !== null");
    let ready = |count: usize| {
        let same = format!(
            "document.querySelectorAll('.cell.ready').length === {count} && document.querySelectorAll('.cell').length === {count}"
        );
        browser.until("that many pods", &same);
    };
    browser.fill("form[data-act=scale] input[name=replicas]", "4");
    let scale = shown_command(&page, "Scale");
    browser.click_text("Scale");
    ready(4);
    shell(&scale.replace("--replicas=4", "--replicas=6"));
    ready(6);
    shell(&scale);
    ready(4);

    // A pod is chosen by its cell.
    browser.click(".cell.ready");
    let pod = browser.text("document.querySelector('[data-chosen]').value");
    let kill = shown_command(&page, "Kill the pod");
    assert!(kill.starts_with(&format!("kubectl delete pod {pod} -n default ")), "{kill}");
    browser.click_text("Kill the pod");
    browser.until("it is gone", &format!("document.getElementById('pod-{pod}') === null"));
    ready(4);
    browser.click(".cell.ready");
    let pod = browser.text("document.querySelector('[data-chosen]').value");
    shell(&shown_command(&page, "Kill the pod"));
    browser.until("it is gone", &format!("document.getElementById('pod-{pod}') === null"));
    ready(4);

    shell(&shown_command(&page, "Break it"));
    browser.until("a broken one", "document.querySelector('.rank.stuck') !== null");
    shell(&shown_command(&page, "Undo"));
    browser.until("a whole one", "document.querySelector('.rank.complete') !== null");

    // A node is emptied, and the pods come back elsewhere.
    page.visit("/");
    // Of three nodes some may have none of the four pods.
    let pods = page.api(&["pods"]);
    let mut stay =
        pods["items"].as_array().expect("pods").iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let node = stay.next().and_then(|pod| pod["spec"]["nodeName"].as_str()).expect("a pod on a node");
    browser.choose("form[data-act=drain] select", node);
    let drain = shown_command(&page, "Drain");
    assert!(drain.starts_with(&format!("kubectl drain {node} --ignore-daemonsets ")), "{drain}");
    let there = || {
        page.api(&["pods", "--field-selector", &format!("spec.nodeName={node}")])["items"]
            .as_array()
            .expect("pods")
            .len()
    };
    browser.click_text("Drain");
    browser.until("what was done", "document.querySelector('#said.done')?.textContent.includes('takes no pods')");
    browser.look("an empty node", || (there() == 0).then_some(()));
    assert_eq!(page.api(&[&format!("node/{node}")])["spec"]["unschedulable"], true);
    browser.choose("form[data-act=uncordon] select", node);
    browser.click_text("Uncordon");
    browser.look("it takes pods again", || {
        page.api(&[&format!("node/{node}")])["spec"]["unschedulable"].is_null().then_some(())
    });
    shell(&drain);
    assert_eq!(page.api(&[&format!("node/{node}")])["spec"]["unschedulable"], true);
    page.is_clean();
}

/// The command beside a button.
fn shown_command(page: &Opened, button: &str) -> String {
    let find = format!(
        "[...document.querySelectorAll('form.act')].find(it => it.querySelector('button').textContent === '{button}')"
    );
    page.browser.text(&format!("{find}.querySelector('code').textContent"))
}

/// Keys, as the driver takes them.
const HOME: char = '\u{e011}';
const PAGE_UP: char = '\u{e00e}';
