//! The rows of the contract, for who wants to know what a rule says: docs/contract, as it was when this was built.

use std::collections::HashMap;
use std::sync::OnceLock;

use maud::html;

use crate::view::Fragment;

const FILES: [&str; 4] = [
    include_str!("../../../docs/contract/controllers.md"),
    include_str!("../../../docs/contract/beyond.md"),
    include_str!("../../../docs/contract/api-server.md"),
    include_str!("../../../docs/contract/fleet.md"),
];

/// The text of a row, such as `RS-07`.
pub(crate) fn find(row: &str) -> Option<&'static str> {
    static ROWS: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let lines = FILES.iter().flat_map(|file| file.lines());
        lines.filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")).collect()
    });
    rows.get(row).copied().filter(|_| row.contains('-'))
}

/// A row.
pub(crate) fn render(row: &str) -> Vec<Fragment> {
    let markup = html! {
        article {
            h1 { (row) }
            p.ruletext { (plain(find(row).unwrap_or_default())) }
            p.note { "A row of the contract: what each controller is held to, and what its tests cite." }
        }
    };
    vec![Fragment::new("view", "rule", markup.into_string())]
}

/// Without Markdown's marks.
fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "").replace("\\|", "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found() {
        for row in ["RS-07", "DEP-07", "B-01", "API-19", "PG-01"] {
            assert!(find(row).is_some_and(|text| text.len() > 20), "{row}");
        }
        assert_eq!(find("Row"), None);
        assert_eq!(find("RS-999"), None);
    }
}
