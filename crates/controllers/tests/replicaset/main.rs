//! The ReplicaSet controller against its contract: tables, laws, and whole syncs against a server in memory.

mod adapter;
mod books;
mod claiming;
mod counting;
mod decide;
mod fixtures;
mod handlers;
mod plan;
mod ranking;
mod status;
mod sync;
mod world;
