//! What a browser loads.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::http::{ask, port, session, stream};
use crate::opened::{Opened, example, next_link, origin, served};

/// How much a view with three pods may weigh, with all of the page's files and heads.
const MOST_BYTES: usize = 150 * 1024;
const FILES: [&str; 5] = ["/page.js", "/enter.js", "/worker.js", "/style.css", "/icon.svg"];

/// Contract: PG-01
pub(crate) fn a_view_with_three_pods_is_small() {
    let (mut cluster, link) = served(&["-f", &example("recreate.yaml")]);
    cluster.kubectl(&["rollout", "status", "deployment/ledger", "--timeout=300s"]);
    let origin = origin(&link);
    let port = port(&origin);
    let host = format!("Host: 127.0.0.1:{port}");
    let enter = |link: &str| ask(port, "GET", link.strip_prefix(&origin).expect("a path"), &[&host], "");
    let entered = enter(&link);
    next_link(&mut cluster);
    let (cookie, key) = session(&entered);
    let headers = [&*host, &*cookie, &*key, &*format!("Origin: {origin}")];
    let get = |target: &str| {
        let answer = ask(port, "GET", target, &headers, "");
        assert_eq!(answer.status, 200, "{target}");
        answer.head.len() + answer.body.len()
    };
    let files: usize = FILES.iter().map(|file| get(file)).sum();
    let mut events = stream(port, "/live", &headers);
    let id = event(&mut events, "event: stream").0;
    for view in [
        "/",
        "/rollout/deployments/default/ledger",
        "/why/deployments/default/ledger",
        "/inside",
        "/inside/deployments/default/ledger",
        "/tour",
        "/rules/RS-09",
    ] {
        let body = json!({"stream": id, "views": [view]}).to_string();
        let asked = ask(port, "POST", "/views", &headers, &body);
        assert_eq!(asked.status, 200, "{view}");
        let (frame, size) = loop {
            // A frame of the view before may be on its way.
            let (frame, size) = event(&mut events, "data: {");
            if frame["view"] == view && frame["html"].as_object().is_some_and(|html| !html.contains_key("wait")) {
                break (frame, size);
            }
        };
        assert!(frame["html"].as_object().is_some_and(|html| !html.is_empty()), "{view}: {frame}");
        let all = entered.head.len() + entered.body.len() + files + get(view) + size;
        assert!(all < MOST_BYTES, "{view}: {all} bytes");
    }
}

/// Contract: PG-01
pub(crate) fn a_browser_loads_no_other_files() {
    let page = Opened::start(&["-f", &example("recreate.yaml")]);
    page.visit("/rollout/deployments/default/ledger");
    let loaded = page.browser.requests();
    let paths: BTreeSet<&str> = loaded.iter().filter_map(|url| url.strip_prefix(&page.origin)).collect();
    for path in &paths {
        let view = *path == "/" || path.starts_with("/rollout/") || path.starts_with("/open/");
        assert!(view || FILES.contains(path), "{path} is loaded, and is not weighed");
    }
    assert!(paths.contains("/page.js") && paths.contains("/style.css"), "{paths:?}");
}

/// Reads the next line of a stream that begins so, with what it tells as JSON; gives how many bytes its event had.
fn event(events: &mut BufReader<TcpStream>, begin: &str) -> (Value, usize) {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(events.read_line(&mut line).expect("a stream") > 0, "the stream ended");
        if line.starts_with("event: stream") && begin == line.trim_end() {
            line.clear();
            events.read_line(&mut line).expect("a stream");
            break;
        }
        if line.starts_with(begin) {
            break;
        }
    }
    let told = line.trim_start_matches("data: ");
    (serde_json::from_str(told).unwrap_or_else(|error| panic!("{error}: {line}")), line.len())
}
