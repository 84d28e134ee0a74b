//! IP addresses and CIDRs, as the API's older fields accept them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::{FieldError, Shown, go_quote};

use super::{Errors, Path};

/// Parses an address as Go's forgiving parser does: leading zeros in IPv4 octets are decimal, and there may be more of
/// them in a group of IPv6 than fit.
#[must_use]
pub fn parse_sloppy(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        let (head, tail) = match value.rfind(':') {
            Some(colon) if value[colon..].contains('.') => value.split_at(colon + 1),
            _ => (value, ""),
        };
        // Of a group the zeros before it do not count.
        let group = |text: &'_ str| match text.len().checked_sub(4) {
            Some(more) if text.bytes().take(more).all(|byte| byte == b'0') => text.split_at(more).1.to_owned(),
            _ => text.to_owned(),
        };
        let head = head.split(':').map(group).collect::<Vec<_>>().join(":");
        let tail = if tail.is_empty() { String::new() } else { parse_v4_sloppy(tail)?.to_string() };
        return format!("{head}{tail}").parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    parse_v4_sloppy(value).map(IpAddr::V4)
}

fn parse_v4_sloppy(value: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse::<u32>().ok().and_then(|n| u8::try_from(n).ok())?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// Whether the text also passes the strict parser (no leading zeros).
fn is_strict(value: &str) -> bool {
    value.parse::<IpAddr>().is_ok()
}

/// An address as Go writes it: an IPv4-mapped one as IPv4.
fn go_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string()),
        IpAddr::V4(v4) => v4.to_string(),
    }
}

/// Checks the address of an older field: strictly, unless the old object already had it.
pub fn validate_legacy_ip(value: &str, old: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if old.contains(&value) {
        return;
    }
    match parse_sloppy(value) {
        None => errors.push(FieldError::invalid(
            path,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )),
        Some(ip) => {
            if !is_strict(value) {
                errors.push(FieldError::invalid(path, value, "must not have leading 0s"));
            }
            if matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
                errors.push(FieldError::invalid(path, value, "must not be an IPv4-mapped IPv6 address"));
            }
        }
    }
}

/// Checks an address strictly: one way of writing it, no other.
pub fn validate_strict_ip(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let found = errors.len();
    validate_legacy_ip(value, &[], path, errors);
    let Some(ip) = parse_sloppy(value).filter(|_| errors.len() == found) else { return };
    if ip.to_string() != value {
        let why = format!("must be in canonical form ({})", go_quote(&ip.to_string()));
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// Checks that traffic can be sent to an address: that it is no address of a machine itself or of its link.
pub fn validate_endpoint_ip(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(ip) = parse_sloppy(value) else {
        return errors.push(FieldError::invalid(path, value, "must be a valid IP address"));
    };
    let (link, link_multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    let special = [
        (ip.is_unspecified(), format!("may not be unspecified ({value})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (link_multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned()),
    ];
    for (_, why) in special.into_iter().filter(|(is, _)| *is) {
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// Warnings for an address that is not written in the usual form.
#[must_use]
pub fn ip_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(ip) = parse_sloppy(value) else { return Vec::new() };
    let mapped = matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if !is_strict(value) || mapped {
        return vec![format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            go_quote(value),
            go_quote(&go_text(ip))
        )];
    }
    if ip.is_ipv6() && ip.to_string() != value {
        return vec![format!(
            "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            go_quote(value),
            go_quote(&ip.to_string())
        )];
    }
    Vec::new()
}

/// A network: its address as written and the length of its prefix.
#[derive(Debug, Clone, Copy)]
pub struct Cidr {
    ip: IpAddr,
    prefix: u32,
}

impl Cidr {
    /// Reads one such as `10.0.0.0/24`, as Go's forgiving parser does.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (ip, prefix) = value.split_once('/')?;
        let ip = parse_sloppy(ip)?;
        let max = if ip.is_ipv4() { 32 } else { 128 };
        if prefix.is_empty() || !prefix.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let prefix: u32 = prefix.parse().ok()?;
        (prefix <= max).then_some(Self { ip, prefix })
    }

    /// Whether a network lies within this one, or is the same.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.overlaps(other)
    }

    /// Whether the two have addresses in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let prefix = self.prefix.min(other.prefix);
        let network = |cidr: Self| Self { prefix, ..cidr }.network();
        self.ip.is_ipv4() == other.ip.is_ipv4() && network(self) == network(other)
    }

    /// Whether an address of it can be given to somebody: neither the first one, nor of IPv4 the last one.
    #[must_use]
    pub fn gives(self, ip: IpAddr) -> bool {
        let is_last = match (ip, self.network()) {
            (IpAddr::V4(ip), IpAddr::V4(first)) => {
                u32::from(ip) == u32::from(first) | u32::MAX.checked_shr(self.prefix).unwrap_or(0)
            }
            _ => false,
        };
        let max = if ip.is_ipv4() { 32 } else { 128 };
        ip != self.network() && !is_last && self.contains(Self { ip, prefix: max })
    }

    fn network(self) -> IpAddr {
        match self.ip {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        }
    }
}

/// Checks a CIDR of an older field, strictly.
pub fn validate_legacy_cidr(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(cidr) = Cidr::parse(value) else {
        errors.push(FieldError::invalid(
            path,
            value,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ));
        return;
    };
    let (ip, prefix) = value.split_once('/').unwrap_or((value, ""));
    if !is_strict(ip) || (prefix.len() > 1 && prefix.starts_with('0')) {
        errors.push(FieldError::invalid(path, value, "must not have leading 0s in IP or prefix length"));
    } else if matches!(cidr.ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) {
        errors.push(FieldError::invalid(path, value, "must not have an IPv4-mapped IPv6 address"));
    } else if cidr.network() != cidr.ip {
        errors.push(FieldError::invalid(path, value, "must not have bits set beyond the prefix length"));
    }
}

/// Checks a CIDR strictly: one way of writing it, no other.
pub fn validate_strict_cidr(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let found = errors.len();
    validate_legacy_cidr(value, path, errors);
    let Some(cidr) = Cidr::parse(value).filter(|_| errors.len() == found) else { return };
    let canonical = format!("{}/{}", cidr.ip, cidr.prefix);
    if canonical != value {
        let why = format!("must be in canonical form ({})", go_quote(&canonical));
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// Checks the address of an interface: an address and the length of its network's prefix, in one way of writing it.
pub fn validate_interface_address(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(Cidr { ip, prefix }) = Cidr::parse(value) else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return errors.push(FieldError::invalid(path, value, why));
    };
    let is_mapped = matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let prefix = if is_mapped && prefix > 32 { i64::from(prefix) - 96 } else { i64::from(prefix) };
    let canonical = format!("{}/{prefix}", go_text(ip));
    if canonical != value {
        let why = format!("must be in canonical form ({})", go_quote(&canonical));
        errors.push(FieldError::invalid(path, value, why));
    }
}

/// Complains of addresses (or networks) that are not one of each family, where they are several: `families` says of each
/// whether it is IPv6, or what is said of one that cannot be read.
pub fn one_of_each_family(
    families: &[Result<bool, String>],
    (path, found, what): (&Path<'_>, Shown, &str),
    cannot: &str,
    errors: &mut Errors,
) {
    if families.len() < 2 {
        return;
    }
    let unread = families.iter().find_map(|family| family.as_ref().err());
    if let Some(why) = unread {
        errors.push(FieldError::internal(path, format!("{cannot} dual stack with error:{why}")));
    }
    let dual = unread.is_none() && families.contains(&Ok(true)) && families.contains(&Ok(false));
    if !dual || families.len() > 2 {
        let why = format!("may specify no more than one {what} for each IP family");
        errors.push(FieldError::invalid(path, found, why));
    }
}

/// Whether an address is IPv6: an IPv4-mapped one is not.
#[must_use]
pub fn is_ipv6(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none())
}

/// Whether the CIDR is IPv6; `None` where it is no CIDR.
#[must_use]
pub fn cidr_is_ipv6(value: &str) -> Option<bool> {
    Cidr::parse(value).map(|cidr| is_ipv6(cidr.ip))
}

/// Whether a network lies within another one and is smaller than it; `None` where either is no CIDR.
#[must_use]
pub fn is_strictly_within(value: &str, other: &str) -> Option<bool> {
    let (inner, outer) = (Cidr::parse(value)?, Cidr::parse(other)?);
    Some(outer.contains(inner) && inner.prefix > outer.prefix)
}

/// Warnings for a CIDR that is not written in the usual form.
#[must_use]
pub fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse(value) else { return Vec::new() };
    let network = format!("{}/{}", go_text(cidr.network()), cidr.prefix);
    let mut warnings = Vec::new();
    if cidr.network() != cidr.ip {
        let max = if cidr.ip.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            go_quote(value),
            go_quote(&network),
            go_quote(&format!("{}/{max}", go_text(cidr.ip)))
        ));
    }
    let (ip, prefix) = value.split_once('/').unwrap_or((value, ""));
    let strict = is_strict(ip) && !(prefix.len() > 1 && prefix.starts_with('0'));
    let mapped = matches!(cidr.ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    if !strict || mapped {
        warnings.push(format!(
            "{path}: non-standard CIDR value {} is invalid: use {}",
            go_quote(value),
            go_quote(&network)
        ));
    } else if warnings.is_empty() && cidr.ip.is_ipv6() && format!("{}/{}", cidr.ip, cidr.prefix) != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            go_quote(value),
            go_quote(&format!("{}/{}", cidr.ip, cidr.prefix))
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-41
    #[test]
    fn which_networks_have_an_address() {
        let cidr = |value: &str| Cidr::parse(value).expect("a network");
        for (network, ip, gives) in [
            ("10.0.0.0/24", "10.0.0.0", false),
            ("10.0.0.0/24", "10.0.0.1", true),
            ("10.0.0.0/24", "10.0.0.255", false),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("10.0.0.0/32", "10.0.0.0", false),
            ("0.0.0.0/0", "255.255.255.255", false),
            ("0.0.0.0/0", "255.255.255.254", true),
            ("fd00::/112", "fd00::", false),
            ("fd00::/112", "fd00::ffff", true),
            ("fd00::/112", "10.0.0.1", false),
        ] {
            assert_eq!(cidr(network).gives(ip.parse().expect("an address")), gives, "{network} {ip}");
        }
        for (outer, inner, contains, overlaps) in [
            ("10.0.0.0/16", "10.0.3.0/24", true, true),
            ("10.0.3.0/24", "10.0.0.0/16", false, true),
            ("10.0.0.0/16", "10.0.0.0/16", true, true),
            ("10.0.0.0/16", "10.1.0.0/24", false, false),
            ("::/0", "0.0.0.0/0", false, false),
        ] {
            let (outer, inner) = (cidr(outer), cidr(inner));
            assert_eq!((outer.contains(inner), outer.overlaps(inner)), (contains, overlaps), "{outer:?} {inner:?}");
        }
    }

    /// Contract: API-17
    #[test]
    fn addresses_and_networks() {
        let path = Path::new("ip");
        for (value, want) in [
            ("10.0.0.1", None),
            ("::1", None),
            ("010.0.0.1", Some("must not have leading 0s")),
            ("::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            ("1.2.3", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            ("", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        ] {
            let mut errors = Errors::new();
            validate_legacy_ip(value, &[], &path, &mut errors);
            assert_eq!(errors.first().map(|e| e.detail.as_str()), want, "{value}");
        }
        for (value, want) in [
            ("10.0.0.0/8", None),
            ("10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            ("10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            ("10.0.0.0/33", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
        ] {
            let mut errors = Errors::new();
            validate_legacy_cidr(value, &path, &mut errors);
            assert_eq!(errors.first().map(|e| e.detail.as_str()), want, "{value}");
        }
        assert_eq!(
            ip_warnings(&path, "FE80::1"),
            ["ip: IPv6 address \"FE80::1\" should be in RFC 5952 canonical format (\"fe80::1\")"]
        );
    }
}
