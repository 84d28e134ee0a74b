//! Custom resources: CustomResourceDefinitions, and the kinds that they define (API-28, API-29, API-30).
//!
//! ```text
//!   definition (the CRD as it is written) --> props (a schema as it is written) --> structural (compiled)
//!        |  validate, names, conditions                                               |
//!        v                                                                            v
//!   kinds that arrive at run time                      prune, default, metadata, lists, validate, rules
//! ```
//!
//! A schema is compiled once; everything that is done to an object walks the object and the compiled schema together.

pub mod columns;
pub mod conversion;
pub mod default;
pub mod definition;
pub mod family;
pub mod formats;
pub mod lists;
pub mod metadata;
pub mod path;
pub mod pattern;
pub mod props;
pub mod prune;
pub mod rules;
pub mod scale;
pub mod structural;
pub mod validate;
pub mod was;

/// A JSON object.
pub type Object = muster_tree::Map;
