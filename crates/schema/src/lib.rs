//! What Kubernetes types are made of, as data: one table, and what is read off it.
//!
//! ```text
//!   table.deflate (written by tools/schema) --> table --> apiserver: decoding, patches, OpenAPI
//!                                                 |
//!   a pod template's raw JSON ------------------> template --> its hash, its equality
//! ```
//!
//! The table knows every field of every kind by name, type and place; nothing here knows a kind by
//! itself. Nothing here does I/O, reads a clock or draws a random number.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod quantity;
pub mod table;
pub mod template;
