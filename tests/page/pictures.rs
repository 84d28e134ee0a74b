//! Pictures of each view, for the README: `MUSTER_PICTURES=docs/images cargo test -p muster --test page -- pictures`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::opened::{Opened, example};

/// How large a picture may be.
const MOST_BYTES: usize = 150 * 1024;
/// What a PNG begins with.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Contract: PG-04
pub(crate) fn pictures_of_each_view() {
    let files = ["deployment.yaml", "replicationcontroller.yaml", "scale-down.yaml", "web.yaml"].map(example);
    let mut arguments: Vec<&str> = files.iter().flat_map(|file| ["-f", file]).collect();
    arguments.extend(["--pod-startup", "2s..4s"]);
    let page = Opened::start(&arguments);
    let browser = &page.browser;
    let take = |name: &str, width: u32, height: u32| {
        browser.resize(width, height);
        let picture = browser.picture();
        assert!(picture.starts_with(PNG), "{name} is no PNG");
        assert!(picture.len() < MOST_BYTES, "{name} has {} bytes", picture.len());
        if let Some(folder) = folder() {
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(format!("{name}.png")), picture).expect("a file");
        }
        browser.resize(1280, 800);
    };
    browser.resize(1280, 800);
    browser.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    browser.until("all are complete", "document.querySelectorAll('.line .rank').length === 6 && [...document.querySelectorAll('.line .rank')].every(it => it.textContent === 'complete')");

    page.visit("/rollout/deployments/default/web");
    browser.fill("form[data-act=image] input[name=image]:not([type=hidden])", "nginx:1.30");
    browser.click_text("Change the image");
    browser.until("the middle of it", "document.querySelectorAll('.part').length === 2 && document.querySelector('.part').querySelectorAll('.cell.ready').length >= 4 && document.querySelector('.pace')");
    browser.eval("scrollTo(0, 0)");
    take("rollout", 1280, 800);
    browser.until("its end", "document.querySelector('.rank.complete') !== null");

    browser.click_text("Break it");
    browser.until("the bounds", "document.querySelectorAll('.cell.broken').length === 5");
    browser.eval("scrollTo(0, 0)");
    take("broken", 1280, 800);
    browser.darken(true);
    take("dark", 360, 740);
    browser.darken(false);

    page.visit("/");
    browser.until("the stuck one", "document.querySelector('.line.stuck .sentence') !== null");
    take("overview", 1280, 720);
    page.visit("/why/deployments/default/web");
    browser.until("the timeline", "document.querySelectorAll('.timeline > li').length > 3");
    take("why", 1000, 700);
    page.visit("/inside/deployments/default/web");
    browser.until("the way", "document.querySelectorAll('ol.steps li').length > 3");
    browser.click_text("Play slowly");
    browser.until("a stage", "document.querySelector('li.stage.lit') !== null");
    browser.eval("scrollTo(0, 0)");
    take("inside", 1000, 700);
    page.visit("/tour");
    browser.click_text("Scale it to 15");
    browser.until(
        "its first pods",
        "document.querySelector('#seen svg')?.getAttribute('aria-label').startsWith('15 desired, 15 created')",
    );
    take("tour", 1000, 700);
}

/// Where the pictures go, if they are wanted: a folder, from the root of the sources on.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("MUSTER_PICTURES")?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder))
}
