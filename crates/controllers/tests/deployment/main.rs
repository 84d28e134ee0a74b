//! The Deployment controller against its contract: tables, laws, and whole rollouts against a server in memory.

mod books;
mod bounds;
mod creation;
mod decide;
mod fixtures;
mod handlers;
mod history;
mod progress;
mod recreate;
mod revision;
mod rollback;
mod rolling;
mod rollouts;
mod scaling;
mod sets;
mod status;
mod sync;
mod update;
mod world;
