//! A pod's place in the network: names, DNS, host ports.

use crate::field::FieldError;
use crate::model::{Object, fields::Fields};
use crate::validation::{Errors, Path, complain, ip, name};

use super::{Context, shown_list};

/// Name servers of one pod may be at most so many.
const NAMESERVERS_MAX: usize = 3;
/// Search domains of one pod may be at most so many.
const SEARCHES_MAX: usize = 32;
/// All search domains together, with a space between each, may be at most so long.
const SEARCHES_LENGTH_MAX: usize = 2048;
/// A host name may be at most so long.
const HOSTNAME_MAX: usize = 64;

/// On the host's network a container's port is the host's.
pub(super) fn validate_host_ports(context: &Context<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !context.spec.flag("hostNetwork") {
        return;
    }
    let list = path.child("containers");
    for (i, container) in context.spec.items("containers").enumerate() {
        for (j, port) in container.items("ports").enumerate() {
            let (host, own) = (port.int("hostPort"), port.int("containerPort"));
            // In a template it may still be open.
            if (context.options.is_pod || host != 0) && host != own {
                errors.push(FieldError::invalid(
                    list.index(i).child("ports").index(j).child("hostPort"),
                    host,
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
}

/// Checks `dnsConfig`.
pub(super) fn validate_dns(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let config = spec.object("dnsConfig");
    let servers = path.child("nameservers");
    if spec.text("dnsPolicy") == "None" {
        match config {
            None => {
                errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
                return;
            }
            Some(config) if config.list("nameservers").is_empty() => {
                errors.push(FieldError::required(
                    servers,
                    "must provide at least one DNS nameserver when `dnsPolicy` is None",
                ));
                return;
            }
            Some(_) => {}
        }
    }
    let Some(config) = config else { return };
    if config.list("nameservers").len() > NAMESERVERS_MAX {
        errors.push(FieldError::invalid(
            servers,
            shown_list(config, "nameservers"),
            format!("must not have more than {NAMESERVERS_MAX} nameservers"),
        ));
    }
    for (i, server) in config.strings("nameservers").enumerate() {
        ip::validate_legacy_ip(server, &[], &servers.index(i), errors);
    }
    let searches = path.child("searches");
    if config.list("searches").len() > SEARCHES_MAX {
        errors.push(FieldError::invalid(
            searches,
            shown_list(config, "searches"),
            format!("must not have more than {SEARCHES_MAX} search paths"),
        ));
    }
    let length: usize = config.strings("searches").map(|s| s.len() + 1).sum();
    if length > SEARCHES_LENGTH_MAX + 1 {
        errors.push(FieldError::invalid(
            searches,
            shown_list(config, "searches"),
            format!("must not have more than {SEARCHES_LENGTH_MAX} characters (including spaces) in the search list"),
        ));
    }
    for (i, search) in config.strings("searches").enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            complain(search, name::is_dns1123_subdomain_with_underscore(search), &searches.index(i), errors);
        }
    }
    let options = path.child("options");
    for (i, option) in config.items("options").enumerate() {
        if option.text("name").is_empty() {
            errors.push(FieldError::required(options.index(i), "must not be empty"));
        }
    }
}

/// Checks `hostnameOverride`.
pub(super) fn validate_hostname_override(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(hostname) = spec.maybe_text("hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    if spec.flag("setHostnameAsFQDN") {
        errors.push(FieldError::forbidden(path, "may not be specified when setHostnameAsFQDN is true"));
    }
    if spec.flag("hostNetwork") {
        errors.push(FieldError::forbidden(path, "may not be specified when hostNetwork is true"));
    }
    if hostname.len() > HOSTNAME_MAX {
        errors.push(FieldError::too_long(path, HOSTNAME_MAX));
    }
    complain(hostname, name::is_dns1123_subdomain(hostname), &path, errors);
}

/// Checks `hostAliases`.
pub(super) fn validate_host_aliases(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (i, alias) in spec.items("hostAliases").enumerate() {
        let at = path.index(i);
        ip::validate_legacy_ip(alias.text("ip"), &[], &at.child("ip"), errors);
        let names = at.child("hostnames");
        for (j, hostname) in alias.strings("hostnames").enumerate() {
            complain(hostname, name::is_dns1123_subdomain(hostname), &names.index(j), errors);
        }
    }
}
