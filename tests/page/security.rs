//! Who is let in: the browser that opened the link, and no other program, user, name or page.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::http::{Answer, ask, port, serve, session};
use crate::opened::{Opened, example, next_link, origin, served};
use crate::outside::{muster, text};

/// Contract: PG-01
pub(crate) fn only_who_opened_the_link_is_answered() {
    let (mut cluster, link) = served(&[]);
    let port = port(&origin(&link));
    let host = format!("Host: 127.0.0.1:{port}");
    let own = format!("Origin: http://127.0.0.1:{port}");
    let views =
        ["/", "/inside", "/tour", "/rollout/deployments/default/web", "/why/deployments/default/web", "/rules/RS-09"];
    let files = ["/page.js", "/worker.js", "/enter.js", "/style.css", "/icon.svg"];
    let act = json!({"act": "drain", "node": "node-0"}).to_string();

    // Another user of the machine has no cookie.
    let guess = format!("/open/{}", "0".repeat(64));
    for target in views.iter().chain(&files).chain(&["/live", "/else", &*guess]) {
        let answer = ask(port, "GET", target, &[&host], "");
        assert_eq!(answer.status, 401, "{target}");
        assert!(answer.body.len() < 200, "{target} tells more than a refusal: {}", text(&answer.body));
    }
    for target in ["/act", "/views"] {
        assert_eq!(ask(port, "POST", target, &[&host, &own], &act).status, 401);
    }

    // The link works once.
    let target = link.strip_prefix(&origin(&link)).expect("a path");
    let entered = ask(port, "GET", target, &[&host], "");
    assert_eq!(entered.status, 200);
    let set = entered.header("set-cookie").expect("a cookie");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
    let (cookie, key) = session(&entered);
    let again = ask(port, "GET", target, &[&host], "");
    assert_eq!((again.status, again.header("set-cookie")), (401, None));

    for target in views.iter().chain(&files) {
        let answer = ask(port, "GET", target, &[&host, &cookie], "");
        assert_eq!(answer.status, 200, "{target}");
        guarded(target, &answer);
    }

    // A cookie is shown to whoever listens on another port of this machine: alone it opens an empty frame.
    let pod = "/place/replicasets/default/web/web-1";
    for target in ["/live", pod] {
        assert_eq!(ask(port, "GET", target, &[&host, &cookie], "").status, 401, "{target}");
        assert_eq!(ask(port, "GET", target, &[&host, &key], "").status, 401, "{target}");
    }
    for target in ["/act", "/views"] {
        assert_eq!(ask(port, "POST", target, &[&host, &cookie, &own], &act).status, 401, "{target}");
        assert_eq!(ask(port, "POST", target, &[&host, &cookie, &own, "x-muster-key: 0"], &act).status, 401, "{target}");
    }

    // Under another name it is not served: a name that somebody else's DNS lets lead here.
    for name in ["evil.example", "127.0.0.1", "127.0.0.1:1", "[::1]", "0.0.0.0"] {
        let other = format!("Host: {name}");
        assert_eq!(ask(port, "GET", "/", &[&other, &cookie], "").status, 421, "{name}");
        assert_eq!(ask(port, "POST", "/act", &[&other, &cookie, &key, &own], &act).status, 421, "{name}");
    }
    assert_eq!(ask(port, "GET", "/", &[&host, "Host: evil.example", &cookie], "").status / 100, 4);

    // And not to another origin's page.
    for other in ["http://evil.example", "null", "http://127.0.0.1:1", &own.replace("Origin: http", "https")] {
        let other = format!("Origin: {other}");
        assert_eq!(ask(port, "GET", "/", &[&host, &cookie, &other], "").status, 403, "{other}");
        assert_eq!(ask(port, "GET", "/live", &[&host, &cookie, &key, &other], "").status, 403, "{other}");
        assert_eq!(ask(port, "POST", "/act", &[&host, &cookie, &key, &other], &act).status, 403, "{other}");
    }
    assert_eq!(ask(port, "POST", "/act", &[&host, &cookie, &key], &act).status, 403, "without Origin");
    for site in ["cross-site", "same-site"] {
        let site = format!("Sec-Fetch-Site: {site}");
        assert_eq!(ask(port, "GET", "/", &[&host, &cookie, &site], "").status, 403, "{site}");
    }

    // Nothing of all this was done; the same from the page itself is.
    let unschedulable = || cluster.kubectl(&["get", "node", "node-0", "-o", "jsonpath={.spec.unschedulable}"]);
    assert_eq!(unschedulable(), "");
    let done = ask(port, "POST", "/act", &[&host, &cookie, &key, &own], &act);
    assert_eq!((done.status, &*unschedulable()), (200, "true"), "{}", text(&done.body));

    // Another browser gets in by the next link, and the first one stays.
    let next = next_link(&mut cluster);
    let next = next.strip_prefix(&origin(&link)).expect("a path");
    assert_eq!(ask(port, "GET", next, &[&host], "").status, 200);
    assert_eq!(ask(port, "GET", "/", &[&host, &cookie], "").status, 200);
}

/// What a browser is told with every answer: nobody frames it, reads it or keeps it, and it asks nobody else.
fn guarded(target: &str, answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap_or_default();
    for rule in [
        "default-src 'none'",
        "connect-src 'self'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(rule), "{target}: {policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{target}: {policy}");
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{target}: {name}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), None, "{target}");
}

/// Contract: PG-01
pub(crate) fn it_listens_on_loopback_only() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let kubeconfig = folder.path().join("kubeconfig").display().to_string();
        let arguments =
            ["up", "--listen", "127.0.0.1:0", "--page", "--page-listen", address, "--kubeconfig", &*kubeconfig];
        let output = muster(&arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains("--page-listen") && said.contains(address), "{said}");
    }
}

/// What a page of another origin tries: each outcome is told under a name, `refused` where it came to nothing.
const ATTACK: &str = r#"<!DOCTYPE html><title>waiting</title><body><script>
const page = "PAGE";
const act = JSON.stringify({act: "scale", kind: "deployments", namespace: "default", name: "web", replicas: 1});
const results = {};
const attempt = async (name, what) => {
  try { results[name] = await what(); } catch { results[name] = "refused"; }
};
const element = (tag, attributes) => new Promise((done, failed) => {
  const it = Object.assign(document.createElement(tag), attributes);
  it.onload = () => done(it);
  it.onerror = failed;
  document.body.append(it);
});
const stream = (options) => new Promise((done, failed) => {
  const source = new EventSource(page + "/live", options);
  source.onopen = () => done("open");
  source.onmessage = () => done("read");
  source.onerror = () => { source.close(); failed(); };
});
const credentials = "include";
const post = (more) => fetch(page + "/act", {method: "POST", body: act, credentials, ...more});
(async () => {
  await attempt("fetch", async () => (await fetch(page + "/", {credentials})).text());
  await attempt("opaque fetch", async () => (await fetch(page + "/style.css", {credentials, mode: "no-cors"})).type);
  await attempt("stream", () => stream({withCredentials: true}));
  await attempt("stream without cookies", () => stream({}));
  await attempt("post", async () => (await post({})).text());
  await attempt("post of JSON", async () => (await post({headers: {"Content-Type": "application/json"}})).text());
  await attempt("script", async () => (await element("script", {src: page + "/page.js"})).src);
  await attempt("module", async () => (await element("script", {src: page + "/page.js", type: "module"})).src);
  await attempt("style", async () => (await element("link", {rel: "stylesheet", href: page + "/style.css"})).href);
  await attempt("image", async () => (await element("img", {src: page + "/icon.svg"})).src);
  await attempt("worker", () => new Promise((done, failed) => {
    const worker = new SharedWorker(page + "/worker.js");
    worker.onerror = failed;
    worker.port.onmessage = () => done("told");
    worker.port.postMessage({view: "/"});
  }));
  await attempt("frame", async () => {
    const frame = await element("iframe", {src: page + "/"});
    return frame.contentDocument === null ? Promise.reject() : frame.contentDocument.body.innerText;
  });
  // These tell nothing of what became of them: the cluster does.
  await attempt("blind post", async () => (await post({mode: "no-cors"})).type);
  results["beacon"] = navigator.sendBeacon(page + "/act", act);
  const frame = await element("iframe", {name: "target"});
  const sent = new Promise((done) => { frame.onload = done; });
  const form = Object.assign(document.createElement("form"), {action: page + "/act", method: "post", enctype: "text/plain", target: "target"});
  const field = Object.assign(document.createElement("input"), {name: act.slice(0, -1) + ',"more":"', value: '"}'});
  form.append(field);
  document.body.append(form);
  form.submit();
  await sent;
  window.results = results;
})();
</script>"#;

/// Contract: PG-01
pub(crate) fn a_page_of_another_origin_reads_and_changes_nothing() {
    let (cluster, link) = served(&["-f", &example("deployment.yaml")]);
    let page = origin(&link);
    // Two names that lead to the page's own machine.
    let browser = Browser::start_with("MAP localhost 127.0.0.1 , MAP evil.example 127.0.0.1 ,");
    browser.go(&link);
    let live = "document.querySelector('#connection.live') && document.querySelector('.rank.complete') && true";
    browser.until("a live page", live);
    let home = browser.this_tab();
    let before = cluster.kubectl(&["get", "deploy/web", "-o", "jsonpath={.metadata.generation} {.spec.replicas}"]);
    assert_eq!(before, "1 10");
    let attacker = serve(ATTACK.replace("PAGE", &page));
    // One whose cookies are the page's own, since ports do not part them, and one of another site.
    for host in ["127.0.0.1", "localhost", "evil.example"] {
        browser.tab();
        browser.log("performance");
        browser.go(&format!("http://{host}:{attacker}/"));
        let results = browser.until("the end of the attack", "window.results");
        for (name, outcome) in results.as_object().expect("results") {
            let blind = matches!(name.as_str(), "blind post" | "beacon");
            assert!(blind || outcome == "refused", "from {host}, {name}: {outcome}");
        }
        let statuses = answers(&browser, &page);
        assert!(statuses.len() > 3, "from {host}: only {statuses:?} was asked of the page; {results}");
        assert!(statuses.iter().all(|(status, _)| matches!(status, 401 | 403)), "from {host}: {statuses:?}");
    }
    // The page by the other name.
    browser.tab();
    browser.go(&page.replace("127.0.0.1", "evil.example"));
    assert!(browser.text("document.body.innerText").contains("421"));

    let after = cluster.kubectl(&["get", "deploy/web", "-o", "jsonpath={.metadata.generation} {.spec.replicas}"]);
    assert_eq!(before, after);
    browser.switch(&home);
    browser.until("the page goes on", live);
}

/// What was answered to this tab by the page: statuses and addresses.
fn answers(browser: &Browser, page: &str) -> Vec<(u64, String)> {
    let entries = browser.log("performance");
    let messages = entries.iter().filter_map(|entry| serde_json::from_str::<Value>(entry["message"].as_str()?).ok());
    let (mut asked, mut statuses) = (HashMap::new(), Vec::new());
    for message in messages {
        let (method, told) = (&message["message"]["method"], &message["message"]["params"]);
        let id = told["requestId"].as_str().unwrap_or_default().to_owned();
        // The status of an answer that the script may not see; it may be told before its request is.
        if method == "Network.responseReceivedExtraInfo" {
            statuses.push((id, told["statusCode"].as_u64().unwrap_or_default()));
        } else if method == "Network.requestWillBeSent" {
            asked.insert(id, told["request"]["url"].as_str().unwrap_or_default().to_owned());
        }
    }
    let address = |id: &str| asked.get(id).cloned().unwrap_or_default();
    let mut answers: Vec<_> = statuses.into_iter().map(|(id, status)| (status, address(&id))).collect();
    answers.retain(|(_, address)| address.starts_with(page));
    answers
}

/// Contract: PG-01
pub(crate) fn a_browser_that_was_not_let_in_says_so() {
    let page = Opened::start(&[]);
    // A tab of the same browser is let in by the cookie; one without it is told what to do.
    page.browser.tab();
    page.visit("/");
    page.browser.devtools("Storage.clearCookies", &json!({}));
    page.browser.go(&page.origin);
    let said = page.browser.text("document.body.innerText");
    assert!(said.contains("401") && said.contains("open the link"), "{said}");
}
