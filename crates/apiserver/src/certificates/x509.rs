//! X.509, as far as the server has to read it: names, keys, and who a certificate is for.

#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a reader of one lifetime is asked for, methods have two"
)]

use muster_objects::time::Timestamp;
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_BMPSTRING, TAG_IA5STRING, TAG_PRINTABLESTRING, TAG_UTCTIME, TAG_UTF8STRING};
use yasna::{ASN1Error, ASN1ErrorKind, ASN1Result, BERReader, Tag, TagClass};

/// `O`
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// `CN`
const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
/// Kubernetes' own for a user's uid.
const UID: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];
/// `subjectAltName`
pub(super) const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];
/// `keyUsage`
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
/// `basicConstraints`
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
/// `extKeyUsage`
const PURPOSES: &[u64] = &[2, 5, 29, 37];
/// The purpose that is every purpose.
const ANY_PURPOSE: &[u64] = &[2, 5, 29, 37, 0];
/// `subjectKeyIdentifier`
pub(super) const KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 14];

/// A distinguished name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    /// As it is written.
    pub der: Vec<u8>,
    attributes: Vec<(Vec<u64>, String)>,
}

impl Name {
    /// The organisations, which are a user's groups.
    #[must_use]
    pub fn organizations(&self) -> Vec<String> {
        self.all(ORGANIZATION).map(str::to_owned).collect()
    }

    /// The common name, which is a user's name; empty where there is none.
    #[must_use]
    pub fn common_name(&self) -> &str {
        self.all(COMMON_NAME).last().unwrap_or_default()
    }

    /// The uids of the user.
    #[must_use]
    pub fn uids(&self) -> Vec<&str> {
        self.all(UID).collect()
    }

    fn all<'a>(&'a self, kind: &'a [u64]) -> impl Iterator<Item = &'a str> {
        self.attributes.iter().filter(move |(own, _)| own == kind).map(|(_, value)| value.as_str())
    }
}

/// Other names of a subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlternativeNames {
    /// Of hosts.
    pub dns: Vec<String>,
    /// Addresses.
    pub ip: Vec<Vec<u8>>,
    /// Addresses of mail.
    pub email: Vec<String>,
    /// URIs.
    pub uri: Vec<String>,
}

/// `TeletexString`, which old certificates have.
const TELETEX: Tag = Tag { tag_class: TagClass::Universal, tag_number: 20 };

/// An extension, by its kind and value.
pub(super) type Extension = (Vec<u64>, Vec<u8>);

/// What a certificate is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be a server.
    Server,
    /// To be a client.
    Client,
}

/// What the server reads of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is.
    pub subject: Name,
    /// From when it is good.
    pub from: Timestamp,
    /// Until when it is good.
    pub until: Timestamp,
    /// Its public key, with its kind, as they are written.
    pub public_key: Vec<u8>,
    /// The identifier of its key, where it has one.
    pub key_identifier: Option<Vec<u8>>,
    /// Whether what its key has signed may be a certificate.
    pub may_sign: bool,
    /// What it is for; everything where it does not say.
    purposes: Option<Vec<Vec<u64>>>,
}

impl Certificate {
    /// Whether it may be shown for a purpose, or sign what is.
    #[must_use]
    pub fn is_for(&self, purpose: Purpose) -> bool {
        let wanted = match purpose {
            Purpose::Server => [1, 3, 6, 1, 5, 5, 7, 3, 1],
            Purpose::Client => [1, 3, 6, 1, 5, 5, 7, 3, 2],
        };
        let purposes = self.purposes.as_deref();
        purposes.is_none_or(|purposes| purposes.iter().any(|one| *one == wanted || one == ANY_PURPOSE))
    }
}

/// Reads a certificate in DER.
///
/// # Errors
/// When it is none.
pub fn certificate(der: &[u8]) -> ASN1Result<Certificate> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let certificate = reader.next().read_sequence(|reader| {
                let version =
                    reader.read_optional(|reader| reader.read_tagged(Tag::context(0), |reader| reader.read_i64()))?;
                reader.next().read_bigint_bytes()?;
                reader.next().read_der()?;
                reader.next().read_der()?;
                let (from, until) =
                    reader.next().read_sequence(|reader| Ok((time(reader.next())?, time(reader.next())?)))?;
                let subject = name(reader.next())?;
                let public_key = reader.next().read_der()?;
                for unique in [1, 2] {
                    reader.read_optional(|reader| {
                        reader.read_tagged_implicit(Tag::context(unique), |reader| reader.read_bytes())
                    })?;
                }
                let extensions =
                    reader.read_optional(|reader| reader.read_tagged(Tag::context(3), extensions))?.unwrap_or_default();
                let key_identifier = value(&extensions, KEY_IDENTIFIER, |reader| reader.read_bytes())?;
                let purposes = value(&extensions, PURPOSES, |reader| {
                    reader.collect_sequence_of(|reader| Ok(components(&reader.read_oid()?)))
                })?;
                let may_sign = may_sign(version, &extensions)?;
                Ok(Certificate { subject, from, until, public_key, key_identifier, may_sign, purposes })
            })?;
            reader.next().read_der()?;
            reader.next().read_bitvec_bytes()?;
            Ok(certificate)
        })
    })
}

/// Whether a certificate with these extensions is one of an authority: only since version 3 (2 as it is written) must that
/// be said.
fn may_sign(version: Option<i64>, extensions: &[Extension]) -> ASN1Result<bool> {
    let is_authority = value(extensions, BASIC_CONSTRAINTS, |reader| {
        reader.read_sequence(|reader| {
            let is_authority = reader.read_default(false, |reader| reader.read_bool())?;
            reader.read_optional(|reader| reader.read_i64())?;
            Ok(is_authority)
        })
    })?;
    let usage = value(extensions, KEY_USAGE, |reader| Ok(reader.read_bitvec_bytes()?.0))?.unwrap_or_default();
    // The sixth bit, from the first on, is `keyCertSign`.
    let usage_is_right = usage.iter().all(|byte| *byte == 0) || usage[0] & 0b100 != 0;
    Ok(is_authority.unwrap_or(version != Some(2)) && usage_is_right)
}

/// The value of an extension of a kind, where there is one.
fn value<T>(
    extensions: &[Extension],
    kind: &[u64],
    read: impl FnOnce(BERReader<'_, '_>) -> ASN1Result<T>,
) -> ASN1Result<Option<T>> {
    let found = extensions.iter().find(|(own, _)| own == kind);
    found.map(|(_, value)| yasna::parse_der(value, read)).transpose()
}

/// Reads a distinguished name.
pub(super) fn name(reader: BERReader<'_, '_>) -> ASN1Result<Name> {
    let der = reader.read_der()?;
    let mut attributes = Vec::new();
    yasna::parse_der(&der, |reader| {
        reader.read_sequence_of(|reader| {
            reader.read_set_of(|reader| {
                reader.read_sequence(|reader| {
                    let kind = reader.next().read_oid()?;
                    if let Some(value) = text(reader.next())? {
                        attributes.push((components(&kind), value));
                    }
                    Ok(())
                })
            })
        })
    })?;
    Ok(Name { der, attributes })
}

/// Reads extensions.
pub(super) fn extensions(reader: BERReader<'_, '_>) -> ASN1Result<Vec<Extension>> {
    reader.collect_sequence_of(|reader| {
        reader.read_sequence(|reader| {
            let kind = reader.next().read_oid()?;
            reader.read_default(false, |reader| reader.read_bool())?;
            Ok((components(&kind), reader.next().read_bytes()?))
        })
    })
}

/// Reads the value of `subjectAltName`.
pub(super) fn alternative_names(der: &[u8]) -> ASN1Result<AlternativeNames> {
    let mut names = AlternativeNames::default();
    yasna::parse_der(der, |reader| {
        reader.read_sequence_of(|reader| {
            let tag = reader.lookahead_tag()?;
            let known = [1, 2, 6, 7].into_iter().find(|number| tag == Tag::context(*number));
            let Some(known) = known else { return reader.read_der().map(drop) };
            let value = reader.read_tagged_implicit(tag, |reader| reader.read_bytes())?;
            let text = || String::from_utf8_lossy(&value).into_owned();
            match known {
                1 => names.email.push(text()),
                2 => names.dns.push(text()),
                6 => names.uri.push(text()),
                _ => names.ip.push(value),
            }
            Ok(())
        })
    })?;
    Ok(names)
}

/// Reads a text of any of the usual kinds; `None` for anything else.
fn text(reader: BERReader<'_, '_>) -> ASN1Result<Option<String>> {
    let tag = reader.lookahead_tag()?;
    if [TAG_UTF8STRING, TAG_PRINTABLESTRING, TAG_IA5STRING, TELETEX].contains(&tag) {
        let bytes = reader.read_tagged_implicit(tag, |reader| reader.read_bytes())?;
        return String::from_utf8(bytes).map(Some).map_err(|_| ASN1Error::new(ASN1ErrorKind::Invalid));
    }
    if tag == TAG_BMPSTRING {
        return reader.read_bmp_string().map(Some);
    }
    reader.read_der().map(|_| None)
}

/// Reads a time of either kind; one that is too late to be told is the last that can be.
fn time(reader: BERReader<'_, '_>) -> ASN1Result<Timestamp> {
    let invalid = || ASN1Error::new(ASN1ErrorKind::Invalid);
    let tag = reader.lookahead_tag()?;
    let text =
        String::from_utf8(reader.read_tagged_implicit(tag, |reader| reader.read_bytes())?).map_err(|_| invalid())?;
    let text = match (tag == TAG_UTCTIME, text.as_bytes().first()) {
        // Two digits are a year from 1950 to 2049.
        (true, Some(b'5'..)) => format!("19{text}"),
        (true, _) => format!("20{text}"),
        (false, _) => text,
    };
    if text.len() != 15 || !text.is_ascii() {
        return Err(invalid());
    }
    if text.as_str() >= "2262" {
        return Ok(Timestamp::from_nanos(i64::MAX));
    }
    let (date, clock) = text.split_at(8);
    let (year, rest) = date.split_at(4);
    let (month, day) = rest.split_at(2);
    let said = format!("{year}-{month}-{day}T{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]);
    Timestamp::parse(&said).map_err(|_| invalid())
}

pub(super) fn components(oid: &ObjectIdentifier) -> Vec<u64> {
    oid.components().clone()
}
