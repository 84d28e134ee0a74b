//! Pod templates: their hashes, their equality, and the hash label in their JSON.

mod equality;
mod hash;
mod label;
mod recorded;
