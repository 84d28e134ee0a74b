//! What holds for every view: contrast in light and dark, names for all that can be used, nothing wider than the window.

use serde_json::{Value, json};

use crate::opened::{Opened, example};

/// Widths of windows: a telephone, a laptop, a wall.
const WIDTHS: [u32; 3] = [360, 1280, 3840];
/// The roles of what a person can use, and of pictures, as Chromium tells them.
const NAMED: &[&str] = &[
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "spinbutton",
    "slider",
    "checkbox",
    "radio",
    "listbox",
    "menuitem",
    "DisclosureTriangle",
    "image",
    "img",
    "graphics-document",
    "table",
    "navigation",
];

/// Contract: PG-01, PG-04
pub(crate) fn every_view_can_be_read_at_every_width() {
    let page = Opened::start(&["-f", &example("deployment.yaml"), "-f", &example("fates.yaml")]);
    let browser = &page.browser;
    page.visit("/rollout/deployments/default/web");
    browser.until("a complete rollout", "document.querySelector('.rank.complete') !== null");
    page.cluster.kubectl(&["replace", "-f", &example("broken-rollout.yaml")]);
    browser.until("a broken one", "document.querySelector('.rank.stuck') !== null");
    let set = page.api(&["rs", "-l", "app=web"])["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let views = [
        "/".to_owned(),
        "/?q=nothing-has-this-name".to_owned(),
        "/rollout/deployments/default/web".to_owned(),
        "/rollout/deployments/default/web?all=1&at=1".to_owned(),
        format!("/rollout/replicasets/default/{set}"),
        "/rollout/deployments/default/none".to_owned(),
        "/inside".to_owned(),
        "/inside/deployments/default/web".to_owned(),
        "/why/deployments/default/web".to_owned(),
        "/tour".to_owned(),
        "/tour?step=8".to_owned(),
        "/rules/RS-09".to_owned(),
    ];
    let mut found = Vec::new();
    for view in &views {
        page.visit(view);
        for dark in [false, true] {
            browser.darken(dark);
            for width in WIDTHS {
                browser.resize(width, 800);
                let audit = browser.run(include_str!("audit.js"));
                assert!(audit["texts"].as_u64().is_some_and(|texts| texts > 5), "{view}: {audit}");
                let lines = audit["found"].as_array().expect("lines").iter().filter_map(Value::as_str);
                let place = format!("{view}, {width} wide, {}", if dark { "dark" } else { "light" });
                found.extend(lines.map(|line| format!("{place}: {line}")));
            }
        }
        browser.darken(false);
        browser.resize(1280, 800);
        found.extend(nameless(&page).into_iter().map(|line| format!("{view}: {line}")));
    }
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
    page.is_clean();
}

/// What has a role that needs a name, and has none.
fn nameless(page: &Opened) -> Vec<String> {
    let tree = page.browser.devtools("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("the nodes of the tree");
    let seen = nodes.iter().filter(|node| node["ignored"] != true);
    let roles = seen.filter_map(|node| Some((node["role"]["value"].as_str()?, node)));
    let needy: Vec<_> = roles.filter(|(role, _)| NAMED.contains(role)).collect();
    assert!(needy.len() > 3, "the tree has {} nodes with a name", needy.len());
    let bad =
        needy.into_iter().filter(|(_, node)| node["name"]["value"].as_str().is_none_or(|name| name.trim().is_empty()));
    bad.map(|(role, node)| format!("a {role} without a name: {node}")).collect()
}
