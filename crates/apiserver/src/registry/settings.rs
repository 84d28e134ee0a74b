//! What a server is told of its cluster: which plug-ins admit, what Services are given, how long events stay, and where
//! webhooks behind Services are.

use std::time::Duration;

use super::services::network::Network;
use crate::admission::plugins::Plugins;
use crate::webhook::hosts::Hosts;

/// The settings of a registry.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The plug-ins of admission.
    pub plugins: Plugins,
    /// What Services are given, and where that of the server itself leads.
    pub network: Network,
    /// How long events stay; an hour where it does not say.
    pub event_lifetime: Option<Duration>,
    /// Where webhooks are that name a Service.
    pub webhook_hosts: Hosts,
    /// For how many seconds a pod stays on a node that is not ready, and on one that is unreachable, where it does not
    /// say.
    pub toleration_seconds: [i64; 2],
    /// A watch that does not say how long it lasts ends after this, and up to as long again.
    pub shortest_watch: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plugins: Plugins::default(),
            network: Network::default(),
            event_lifetime: None,
            webhook_hosts: Hosts::default(),
            toleration_seconds: [300, 300],
            shortest_watch: Duration::from_secs(1800),
        }
    }
}
