//! The server from outside, and its kinds as a real Kubernetes took them.

mod access;
mod admission;
mod authentication;
mod authorization;
mod custom_definitions;
mod custom_objects;
mod evictions;
mod first;
mod front_door;
mod kept;
mod kinds;
mod lists;
mod mutating_policies;
mod openapi;
mod pod_security;
mod protobuf;
mod quotas;
mod refusals;
mod services;
mod sharding;
mod support;
mod topology;
mod watches;
mod wire;
mod workloads;
mod writes;
