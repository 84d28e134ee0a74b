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

/// What the server reads of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is.
    pub subject: Name,
    /// Until when it is good.
    pub until: Timestamp,
    /// Its public key, with its kind, as they are written.
    pub public_key: Vec<u8>,
    /// The identifier of its key, where it has one.
    pub key_identifier: Option<Vec<u8>>,
}

/// Reads a certificate in DER.
///
/// # Errors
/// When it is none.
pub fn certificate(der: &[u8]) -> ASN1Result<Certificate> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|reader| {
            let certificate = reader.next().read_sequence(|reader| {
                reader.read_optional(|reader| reader.read_tagged(Tag::context(0), |reader| reader.read_i64()))?;
                reader.next().read_bigint_bytes()?;
                reader.next().read_der()?;
                reader.next().read_der()?;
                let until = reader.next().read_sequence(|reader| {
                    time(reader.next())?;
                    time(reader.next())
                })?;
                let subject = name(reader.next())?;
                let public_key = reader.next().read_der()?;
                for unique in [1, 2] {
                    reader.read_optional(|reader| {
                        reader.read_tagged_implicit(Tag::context(unique), |reader| reader.read_bytes())
                    })?;
                }
                let extensions =
                    reader.read_optional(|reader| reader.read_tagged(Tag::context(3), extensions))?.unwrap_or_default();
                let identifier = extensions.into_iter().find(|(kind, _)| kind == KEY_IDENTIFIER);
                let key_identifier =
                    identifier.map(|(_, value)| yasna::parse_der(&value, |reader| reader.read_bytes()));
                Ok(Certificate { subject, until, public_key, key_identifier: key_identifier.transpose()? })
            })?;
            reader.next().read_der()?;
            reader.next().read_bitvec_bytes()?;
            Ok(certificate)
        })
    })
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
