//! The page in a real browser: Chromium, driven by its driver.
//!
//! Each test has a cluster and a browser of its own. Nothing waits for a time: what is waited for is looked for in the page.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../outside/mod.rs"]
mod outside;

mod audit;
mod browser;
mod cells;
mod http;
mod insight;
mod lost;
mod opened;
mod overview;
mod pictures;
mod rollout;
mod security;
mod tour;
mod weight;

harness::tests! {
    overview::every_workload_is_a_bar_with_its_numbers: "chromedriver --version, chromium --version, kubectl",
    rollout::a_rollout_is_watched_to_its_end_and_looked_back_at: "chromedriver --version, chromium --version, kubectl",
    rollout::a_broken_rollout_tells_why_and_is_undone: "chromedriver --version, chromium --version, kubectl",
    rollout::the_command_beside_a_button_does_the_same: "chromedriver --version, chromium --version, kubectl",
    insight::the_diagram_is_alive_and_a_key_is_followed_through_it: "chromedriver --version, chromium --version, kubectl",
    insight::a_timeline_leads_to_the_rules: "chromedriver --version, chromium --version, kubectl",
    cells::three_pods_are_walked_by_keys: "chromedriver --version, chromium --version, kubectl",
    cells::three_thousand_pods_are_walked_by_keys: "chromedriver --version, chromium --version, kubectl",
    cells::those_that_are_to_go_have_numbers_and_rules: "chromedriver --version, chromium --version, kubectl",
    lost::a_lost_connection_comes_back_with_what_changed_meanwhile: "chromedriver --version, chromium --version, kubectl",
    lost::a_page_that_ended_is_told_lost: "chromedriver --version, chromium --version, kubectl",
    lost::twenty_tabs_are_live_by_one_stream: "chromedriver --version, chromium --version, kubectl",
    security::only_who_opened_the_link_is_answered: "kubectl",
    security::it_listens_on_loopback_only,
    security::a_page_of_another_origin_reads_and_changes_nothing: "chromedriver --version, chromium --version, kubectl",
    security::a_browser_that_was_not_let_in_says_so: "chromedriver --version, chromium --version, kubectl",
    audit::every_view_can_be_read_at_every_width: "chromedriver --version, chromium --version, kubectl",
    weight::a_view_with_three_pods_is_small: "kubectl",
    weight::a_browser_loads_no_other_files: "chromedriver --version, chromium --version, kubectl",
    tour::the_tour_is_taken_from_start_to_end: "chromedriver --version, chromium --version, kubectl",
    tour::the_tour_is_taken_by_the_commands_that_it_shows: "chromedriver --version, chromium --version, kubectl",
    pictures::pictures_of_each_view: "chromedriver --version, chromium --version, kubectl",
}
