//! Kubernetes' own libraries: quantities, URLs, addresses, versions and named formats.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use muster_schema::quantity::{Amount, Quantity};

use super::{Outcome, Semver, error};
use crate::cel::eval::Failure;
use crate::cel::url;
use crate::cel::value::{Map, Value};
use crate::custom::formats;
use crate::field::go_quote;
use crate::model::NameRule;
use crate::validation::name;

pub(super) fn call<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    match args {
        [Value::Quantity(own), rest @ ..] => quantity(name, own, rest),
        [Value::Url(own)] => url_part(name, own),
        [Value::Ip(own)] => address(name, *own),
        [Value::Cidr(own, prefix), rest @ ..] => network(name, *own, *prefix, rest),
        [Value::Semver(own), rest @ ..] => version(name, own, rest),
        [Value::Format(own), Value::String(text)] if name == "validate" => Some(validate(own, text)),
        [Value::String(text), rest @ ..] => of_text(name, text, rest),
        [] => name.strip_prefix("format.").and_then(named).map(|format| Ok(Value::Format(format))),
        _ => None,
    }
}

fn order<'a>(order: Ordering) -> Value<'a> {
    Value::Int(order as i64)
}

fn of_text<'a>(name: &str, text: &str, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let lenient = matches!(rest, [Value::Bool(true)]);
    Some(match name {
        "quantity" => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
            Err(why) => error(why.to_string()),
        },
        "isQuantity" => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        "url" => match url::parse(text) {
            Some(url) => Ok(Value::Url(Arc::new(url))),
            None => error(format!(
                "URL parse error during conversion from string: parse {}: invalid URI for request",
                go_quote(text)
            )),
        },
        "jsonpatch.escapeKey" => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        "isURL" => Ok(Value::Bool(url::parse(text).is_some())),
        "ip" => match parse_ip(text) {
            Ok(ip) => Ok(Value::Ip(ip)),
            Err(why) => error(format!("IP Address {why}")),
        },
        "isIP" => Ok(Value::Bool(parse_ip(text).is_ok())),
        "ip.isCanonical" => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(ip.to_string() == text)),
            Err(why) => error(format!("IP Address {why}")),
        },
        "cidr" => match parse_cidr(text) {
            Ok((ip, prefix)) => Ok(Value::Cidr(ip, prefix)),
            // The reference says where it failed twice.
            Err(why) => error(format!("network address parse error during conversion from string: {why}")),
        },
        "isCIDR" => Ok(Value::Bool(parse_cidr(text).is_ok())),
        "semver" => match Semver::parse(text, lenient) {
            Ok(version) => Ok(Value::Semver(Arc::new(version))),
            Err(why) => error(why),
        },
        "isSemver" => Ok(Value::Bool(Semver::parse(text, lenient).is_ok())),
        "format.named" => Ok(Value::Optional(named(text).map(|format| Arc::new(Value::Format(format))))),
        _ => return None,
    })
}

fn quantity<'a>(name: &str, own: &Arc<Quantity>, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    let made = |quantity: Quantity| Ok(Value::Quantity(Arc::new(quantity)));
    let negated = |quantity: &Quantity| {
        let text = quantity.amount_text();
        Quantity::of(&text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned))
    };
    Some(match (name, rest) {
        ("sign", []) => Ok(Value::Int(i64::from(own.is_positive()) - i64::from(own.is_negative()))),
        ("isGreaterThan", [Value::Quantity(other)]) => Ok(Value::Bool(own.compare(other) == Ordering::Greater)),
        ("isLessThan", [Value::Quantity(other)]) => Ok(Value::Bool(own.compare(other) == Ordering::Less)),
        ("compareTo", [Value::Quantity(other)]) => Ok(order(own.compare(other))),
        ("asApproximateFloat", []) => {
            #[expect(clippy::cast_precision_loss, reason = "approximate is what it is called")]
            let float = own.nanos().map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9);
            Ok(Value::Double(float))
        }
        ("isInteger", []) => Ok(Value::Bool(integer(own).is_some())),
        ("asInteger", []) => match integer(own) {
            Some(number) => Ok(Value::Int(number)),
            None => error("cannot convert value to integer"),
        },
        ("add", [Value::Quantity(other)]) => made(own.plus(other)),
        ("add", [Value::Int(other)]) => made(own.plus(&Quantity::of(&other.to_string()))),
        ("sub", [Value::Quantity(other)]) => made(own.plus(&negated(other))),
        ("sub", [Value::Int(other)]) => made(own.plus(&negated(&Quantity::of(&other.to_string())))),
        _ => return None,
    })
}

fn url_part<'a>(name: &str, own: &url::Url) -> Option<Outcome<'a>> {
    Some(Ok(match name {
        "getScheme" => Value::text(own.scheme.as_str()),
        "getHost" => Value::text(own.host.as_str()),
        "getHostname" => Value::text(own.hostname()),
        "getPort" => Value::text(own.port()),
        "getEscapedPath" => Value::text(own.escaped_path()),
        "getQuery" => {
            let pairs = own
                .queries()
                .into_iter()
                .map(|(key, values)| (Value::text(key), Value::list(values.into_iter().map(Value::text).collect())));
            Value::Map(Map::Made(Arc::new(pairs.collect())))
        }
        _ => return None,
    }))
}

/// The whole number that a quantity is; `None` for one that Go holds with a fraction, or not in 64 bits.
fn integer(own: &Quantity) -> Option<i64> {
    match own.amount()? {
        Amount::Small { value, scale } => value.checked_mul(10_i64.checked_pow(u32::try_from(scale).ok()?)?),
        Amount::Large { .. } => None,
    }
}

/// An address, strictly: no zone, no leading zeros, no IPv4 in IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let quoted = go_quote(text);
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(format!("{quoted} is an IPv4-mapped IPv6 address, which is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => {
            Err(format!("{quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"))
        }
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = |why: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({}): {why}",
            go_quote(text)
        )
    };
    let (ip, prefix) = text.split_once('/').ok_or_else(|| wrong("no '/'"))?;
    let ip = parse_ip(ip).map_err(|_| wrong("unable to parse IP"))?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let digits =
        !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
    let prefix = prefix.parse::<u8>().ok().filter(|prefix| digits && *prefix <= most);
    Ok((ip, prefix.ok_or_else(|| wrong("bad bits after slash"))?))
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// Whether an address is in a network.
fn is_in(ip: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    ip.is_ipv4() == network.is_ipv4() && bits(ip) & mask == bits(network) & mask
}

fn address<'a>(name: &str, own: IpAddr) -> Option<Outcome<'a>> {
    Some(Ok(match name {
        "family" => Value::Int(if own.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(own.is_unspecified()),
        "isLoopback" => Value::Bool(own.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(match own {
            IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }),
        "isLinkLocalUnicast" => Value::Bool(link_local(own)),
        "isGlobalUnicast" => {
            let broadcast = matches!(own, IpAddr::V4(ip) if ip.is_broadcast());
            let special = own.is_unspecified() || own.is_loopback() || own.is_multicast() || link_local(own);
            Value::Bool(!broadcast && !special)
        }
        "string" => Value::text(own.to_string()),
        _ => return None,
    }))
}

fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn network<'a>(name: &str, own: IpAddr, prefix: u8, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, rest) {
        ("containsIP", [Value::Ip(ip)]) => Ok(Value::Bool(is_in(*ip, own, prefix))),
        ("containsIP", [Value::String(text)]) => match parse_ip(text) {
            Ok(ip) => Ok(Value::Bool(is_in(ip, own, prefix))),
            Err(why) => error(format!("IP Address {why}")),
        },
        ("containsCIDR", [Value::Cidr(ip, inner)]) => Ok(Value::Bool(*inner >= prefix && is_in(*ip, own, prefix))),
        ("containsCIDR", [Value::String(text)]) => match parse_cidr(text) {
            Ok((ip, inner)) => Ok(Value::Bool(inner >= prefix && is_in(ip, own, prefix))),
            Err(why) => error(why),
        },
        ("ip", []) => Ok(Value::Ip(own)),
        ("prefixLength", []) => Ok(Value::Int(i64::from(prefix))),
        ("masked", []) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let masked = bits(own) & mask;
            let ip = match own {
                IpAddr::V4(_) => IpAddr::V4(u32::try_from(masked >> 96).unwrap_or_default().into()),
                IpAddr::V6(_) => IpAddr::V6(masked.into()),
            };
            Ok(Value::Cidr(ip, prefix))
        }
        _ => return None,
    })
}

fn version<'a>(name: &str, own: &Semver, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, rest) {
        ("isGreaterThan", [Value::Semver(other)]) => Value::Bool(own.compare(other) == Ordering::Greater),
        ("isLessThan", [Value::Semver(other)]) => Value::Bool(own.compare(other) == Ordering::Less),
        ("compareTo", [Value::Semver(other)]) => order(own.compare(other)),
        ("major" | "minor" | "patch", []) => {
            let at = ["major", "minor", "patch"].iter().position(|part| *part == name).unwrap_or_default();
            Value::Int(i64::try_from(own.numbers[at]).unwrap_or(i64::MAX))
        }
        _ => return None,
    }))
}

/// The format with a name.
fn named(text: &str) -> Option<&'static str> {
    const FORMATS: &[&str] = &[
        "dns1123Label",
        "dns1123Subdomain",
        "dns1035Label",
        "qualifiedName",
        "dns1123LabelPrefix",
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ];
    FORMATS.iter().find(|format| **format == text).copied()
}

fn validate<'a>(format: &str, text: &str) -> Outcome<'a> {
    let prefix = |rule| name::by_rule(rule, text, true);
    let plain = |format: &str, complaint: &str| {
        if formats::check(format, text) == Some(true) { Vec::new() } else { vec![complaint.to_owned()] }
    };
    let complaints = match format {
        "dns1123Label" => name::is_dns1123_label(text),
        "dns1123Subdomain" => name::is_dns1123_subdomain(text),
        "dns1035Label" => name::is_dns1035_label(text),
        "qualifiedName" => name::is_qualified_name(text),
        "dns1123LabelPrefix" => prefix(NameRule::Label),
        "dns1123SubdomainPrefix" => prefix(NameRule::Subdomain),
        "dns1035LabelPrefix" => prefix(NameRule::Label1035),
        "labelValue" => name::is_label_value(text),
        "uri" => match url::parse(text) {
            Some(_) => Vec::new(),
            None => vec![format!("parse {}: invalid URI for request", go_quote(text))],
        },
        "uuid" => plain("uuid", "does not match the UUID format"),
        "byte" => plain("byte", "invalid base64"),
        "date" => plain("date", "invalid date"),
        "datetime" => plain("date-time", "invalid datetime"),
        _ => return Err(Failure::no_overload()),
    };
    let list =
        (!complaints.is_empty()).then(|| Arc::new(Value::list(complaints.into_iter().map(Value::text).collect())));
    Ok(Value::Optional(list))
}
