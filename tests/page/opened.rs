//! A cluster of its own whose page is open in a browser of its own.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::browser::Browser;
use crate::outside::{Cluster, MUSTER, text};

/// A `muster up --page`, and a browser that has opened its link.
pub(crate) struct Opened {
    pub(crate) browser: Browser,
    pub(crate) cluster: Cluster,
    /// Such as `http://127.0.0.1:4000`.
    pub(crate) origin: String,
}

impl Opened {
    /// Opens the page of a cluster that is started with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let (mut cluster, link) = served(arguments);
        let browser = Browser::start();
        browser.go(&link);
        // Its use makes a new one.
        let next = next_link(&mut cluster);
        assert_ne!(link, next);
        let opened = Self { browser, cluster, origin: origin(&link) };
        opened.is_live();
        opened
    }

    /// Goes to a view, and waits until it shows something.
    pub(crate) fn visit(&self, path: &str) {
        self.browser.go(&format!("{}{path}", self.origin));
        self.is_live();
    }

    /// Waits until the view shows something, and is up to date.
    pub(crate) fn is_live(&self) {
        self.browser.until(
            "a live view",
            "document.querySelector('#connection.live') && document.querySelector('main [data-fragment]:not(#wait)') !== null",
        );
    }

    /// The number that a view tells under a name.
    pub(crate) fn number(&self, within: &str, name: &str) -> i64 {
        let value = self.browser.eval(&format!("Number(document.querySelector('{within} .{name} dd').textContent)"));
        value.as_i64().unwrap_or_else(|| panic!("{within} {name}: found {value}"))
    }

    /// What the API says of an object.
    pub(crate) fn api(&self, arguments: &[&str]) -> Value {
        let said = self.cluster.kubectl(&[&["get", "-o", "json"], arguments].concat());
        serde_json::from_str(&said).expect("JSON of kubectl")
    }

    /// What every test of a view ends with.
    pub(crate) fn is_clean(&self) {
        self.browser.is_clean(&self.origin);
    }
}

/// A cluster with a page, and the first link to it.
pub(crate) fn served(arguments: &[&str]) -> (Cluster, String) {
    let mut cluster = Cluster::start(&[&["--page", "--output", "json"], arguments].concat());
    let link = next_link(&mut cluster);
    (cluster, link)
}

/// The link that is told next.
pub(crate) fn next_link(cluster: &mut Cluster) -> String {
    let line: Value = serde_json::from_str(&cluster.line_with("\"link\"")).expect("a JSON object a line");
    line["link"].as_str().expect("a link").to_owned()
}

/// The origin of a link.
pub(crate) fn origin(link: &str) -> String {
    link.split("/open/").next().expect("a part").to_owned()
}

/// The path of a file of examples.
pub(crate) fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    path.canonicalize().unwrap_or_else(|error| panic!("{name}: {error}")).to_string_lossy().into_owned()
}

/// Runs commands as a person does who has copied them.
pub(crate) fn shell(commands: &str) {
    let ours = Path::new(MUSTER).parent().expect("a folder").display();
    let path = format!("{ours}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    let output = command.args(["-ec", commands]).env("PATH", path).env_remove("KUBECONFIG").output().expect("a shell");
    assert!(output.status.success(), "{commands}\n{}{}", text(&output.stdout), text(&output.stderr));
}
