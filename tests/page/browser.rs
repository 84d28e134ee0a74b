//! A Chromium under a driver, as a test uses it: step by step, each waited for in the page.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::Duration;

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::wd::{Capabilities, WebDriverCompatibleCommand, WindowHandle};
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use url::{ParseError, Url};

use crate::outside::line_with;

/// How often it is looked for something before a test gives up, ten times a second. Looks are counted and not time, which
/// may pass in one leap.
const LOOKS: usize = 1800;
const PAUSE: Duration = Duration::from_millis(100);

/// The driver, as long as a browser needs it.
struct Driver {
    child: Child,
    url: String,
}

impl Driver {
    /// The one that runs, or a new one.
    fn get() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Driver>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let driver = Arc::new(Self::start());
            *running = Arc::downgrade(&driver);
            driver
        })
    }

    fn start() -> Self {
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let line = line_with(&mut said, "started successfully on port ");
        let port = line.trim_end().trim_end_matches('.').rsplit(' ').next().expect("a port").to_owned();
        // Ends with the process.
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(drop));
        Self { child, url: format!("http://127.0.0.1:{port}") }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser with a profile of its own. Ended when dropped.
pub(crate) struct Browser {
    client: Option<Client>,
    runtime: Runtime,
    _driver: Arc<Driver>,
    _profile: TempDir,
}

impl Browser {
    /// One that finds 127.0.0.1 only.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// One that finds other hosts as these rules of Chromium's say, such as `MAP localhost 127.0.0.1:4000 ,`.
    pub(crate) fn start_with(rules: &str) -> Self {
        let driver = Driver::get();
        let profile = tempfile::tempdir().expect("a temporary folder");
        let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let mut arguments = vec![
            "--headless=new".to_owned(),
            "--window-size=1280,800".to_owned(),
            // The shared memory of a container is small.
            "--disable-dev-shm-usage".to_owned(),
            "--disable-gpu".to_owned(),
            "--force-color-profile=srgb".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
            format!("--host-resolver-rules={rules} MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
        ];
        if root {
            arguments.push("--no-sandbox".to_owned());
        }
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), json!({ "args": arguments }));
        capabilities.insert("goog:loggingPrefs".to_owned(), json!({"browser": "ALL", "performance": "ALL"}));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&driver.url).await
        });
        let client = Some(client.unwrap_or_else(|error| panic!("Chromium does not start: {error}")));
        Self { client, runtime, _driver: driver, _profile: profile }
    }

    fn client(&self) -> &Client {
        self.client.as_ref().expect("it is there until it is dropped")
    }

    fn done<T>(&self, what: &str, does: impl Future<Output = Result<T, CmdError>>) -> T {
        self.runtime.block_on(does).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    pub(crate) fn go(&self, url: &str) {
        self.done(url, self.client().goto(url));
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        self.done(expression, self.client().execute(&format!("return ({expression})"), Vec::new()))
    }

    /// What a script returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.done("a script", self.client().execute(script, Vec::new()))
    }

    /// The value of an expression, as text.
    pub(crate) fn text(&self, expression: &str) -> String {
        match self.eval(expression) {
            Value::String(text) => text,
            other => panic!("{expression}: found {other}, expected a text"),
        }
    }

    /// Looks until an expression has a value that counts as true, and gives it.
    pub(crate) fn until(&self, what: &str, expression: &str) -> Value {
        self.look(what, || {
            let script = format!("return ({expression})");
            // While another page is being loaded there is nothing to ask.
            let found = self.runtime.block_on(self.client().execute(&script, Vec::new())).unwrap_or_default();
            let holds = !matches!(&found, Value::Null | Value::Bool(false))
                && found.as_str() != Some("")
                && found.as_f64() != Some(0.0);
            holds.then_some(found)
        })
    }

    /// Looks until something is found.
    pub(crate) fn look<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return found;
            }
            sleep(PAUSE);
        }
        let shown = self.eval("location.href + '\\n' + document.body.innerText");
        panic!("{what} does not come; this is shown:\n{}", shown.as_str().unwrap_or_default());
    }

    /// Clicks on the first element of this CSS selector, as soon as that can be done.
    pub(crate) fn click(&self, selector: &str) {
        self.click_on(Locator::Css(selector));
    }

    /// Clicks on the button or link that says this.
    pub(crate) fn click_text(&self, text: &str) {
        self.click_on(Locator::XPath(&format!(
            "//*[self::button or self::a or self::summary][normalize-space()=\"{text}\"]"
        )));
    }

    fn click_on(&self, what: Locator<'_>) {
        // What is shown is replaced as it changes.
        self.look(&format!("a click on {what:?}"), || {
            let click = async {
                let element = self.client().find(what).await?;
                // Where nothing that stays at an edge of the window covers it.
                let middle = "arguments[0].scrollIntoView({block: 'center'})";
                self.client().execute(middle, vec![serde_json::to_value(&element)?]).await?;
                element.click().await
            };
            self.runtime.block_on(click).ok()
        });
    }

    /// Types into a field in place of what it has.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        self.look(&format!("a text in {selector}"), || {
            let fill = async {
                let field = self.client().find(Locator::Css(selector)).await?;
                field.clear().await?;
                field.send_keys(text).await
            };
            self.runtime.block_on(fill).ok()
        });
    }

    /// Chooses a value of a list, with the event that a browser sends when a person does.
    pub(crate) fn choose(&self, selector: &str, value: &str) {
        let choose = format!(
            "(list => {{ if (!list) return false; list.value = '{value}'; \
             list.dispatchEvent(new Event('input', {{ bubbles: true }})); return list.value === '{value}'; }})\
             (document.querySelector('{selector}'))"
        );
        self.until(&format!("{value} in {selector}"), &choose);
    }

    /// Presses a key where the focus is.
    pub(crate) fn press(&self, key: char) {
        let keys = KeyActions::new("keys".to_owned());
        let keys = keys.then(KeyAction::Down { value: key }).then(KeyAction::Up { value: key });
        self.done("a key", self.client().perform_actions(keys));
    }

    /// A command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.done(command, self.client().issue_cmd(Extra { path: "goog/cdp/execute", body }))
    }

    /// What was logged since the last time, of the kind `browser` (the console) or `performance` (the network).
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let command = Extra { path: "se/log", body: json!({ "type": kind }) };
        match self.done(kind, self.client().issue_cmd(command)) {
            Value::Array(entries) => entries,
            other => panic!("the log {kind}: found {other}"),
        }
    }

    /// A size of the page in CSS pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Whether it is dark.
    pub(crate) fn darken(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// A PNG of what is to be seen.
    pub(crate) fn picture(&self) -> Vec<u8> {
        self.done("a picture", self.client().screenshot())
    }

    /// Opens another tab and looks at it from now on.
    pub(crate) fn tab(&self) -> WindowHandle {
        let open = async {
            let tab = self.client().new_window(true).await?.handle;
            self.client().switch_to_window(tab.clone()).await?;
            Ok(tab)
        };
        self.done("a tab", open)
    }

    pub(crate) fn switch(&self, tab: &WindowHandle) {
        self.done("a tab", self.client().switch_to_window(tab.clone()));
    }

    /// Closes all tabs but this one, and looks at it.
    #[allow(dead_code, reason = "the bench of the page uses it")]
    pub(crate) fn close_others(&self, kept: &WindowHandle) {
        let close = async {
            for tab in self.client().windows().await? {
                if tab != *kept {
                    self.client().switch_to_window(tab).await?;
                    self.client().close_window().await?;
                }
            }
            self.client().switch_to_window(kept.clone()).await
        };
        self.done("closing tabs", close);
    }

    /// The tab that is looked at.
    pub(crate) fn this_tab(&self) -> WindowHandle {
        self.done("this tab", self.client().window())
    }

    /// Goes through what the page and all of its scripts logged and asked for: no error, and no host but this origin.
    pub(crate) fn is_clean(&self, origin: &str) {
        let errors: Vec<Value> = self.log("browser").into_iter().filter(|entry| entry["level"] == "SEVERE").collect();
        assert!(errors.is_empty(), "errors in the console: {errors:?}");
        let requests = self.requests();
        assert!(!requests.is_empty(), "no request was logged");
        let astray: Vec<_> = requests.iter().filter(|url| !url.starts_with(origin) && *url != "data:,").collect();
        assert!(astray.is_empty(), "requests to elsewhere than {origin}: {astray:?}");
    }

    /// The addresses that were asked for since the last time.
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.log("performance");
        let messages =
            entries.iter().filter_map(|entry| serde_json::from_str::<Value>(entry["message"].as_str()?).ok());
        let sent = messages.filter(|message| message["message"]["method"] == "Network.requestWillBeSent");
        // The browser's own first page is none of ours.
        let ours = sent.filter(|message| {
            !message["message"]["params"]["documentURL"].as_str().is_some_and(|url| url.starts_with("chrome:"))
        });
        ours.filter_map(|message| Some(message["message"]["params"]["request"]["url"].as_str()?.to_owned())).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.close());
        }
    }
}

/// A command of Chromium's driver beyond the standard.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
