//! The programs that envtest starts, from outside: a folder of them, their flags, and a server as a suite meets it.

#[path = "../real/api.rs"]
#[allow(dead_code, reason = "each target uses its part of this")]
mod api;
#[path = "../real/certificates.rs"]
#[allow(dead_code, reason = "each target uses its part of this")]
mod certificates;
#[path = "../harness/mod.rs"]
mod harness;
#[path = "../outside/mod.rs"]
mod outside;
mod plane;
mod programs;
mod server;
#[path = "../real/wait.rs"]
#[allow(dead_code, reason = "each target uses its part of this")]
mod wait;

harness::tests! {
    programs::a_folder_is_filled_and_nothing_of_others_is_lost,
    programs::the_help_has_every_flag_of_the_reference,
    programs::bad_flags_are_refused_by_name,
    programs::what_has_no_effect_is_told,
    programs::etcd_is_healthy_and_stores_nothing,
    server::it_is_ready_at_once_and_ends_at_once,
    server::a_file_says_what_needs_no_credential,
    server::certificates_are_users_and_groups,
    server::tokens_are_signed_by_the_given_key,
    server::garbage_and_namespaces_go_unless_asked_otherwise,
    server::services_are_given_what_the_flags_say,
    server::plugins_and_kinds_can_be_switched_off,
    server::controllers_and_nodes_by_the_environment,
    server::a_certificate_is_made_where_there_is_none,
}
