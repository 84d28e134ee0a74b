//! What other controllers did, held against what these would have done: each way to agree and to differ.

mod format;
mod history;
mod replicas;
mod rollout;
mod stage;
mod unmet;
