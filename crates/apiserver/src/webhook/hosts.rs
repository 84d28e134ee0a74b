//! Where webhooks are whose configurations name a Service, for a test that runs them outside of the cluster.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Hosts in the place of Services, which go before their endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(BTreeMap<(String, String), (String, u16)>);

/// The host and port of one Service, written `NAMESPACE/NAME=HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceHost {
    service: (String, String),
    host: String,
    port: u16,
}

/// A host of a Service that is not written like one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?}, expected NAMESPACE/NAME=HOST:PORT")]
pub struct HostError(String);

impl FromStr for ServiceHost {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let read = || {
            let (service, place) = text.split_once('=')?;
            let (namespace, name) = service.split_once('/')?;
            let (host, port) = place.rsplit_once(':')?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let named = !namespace.is_empty() && !name.is_empty() && !name.contains('/') && !host.is_empty();
            named.then(|| Self { service: (namespace.to_owned(), name.to_owned()), host: host.to_owned(), port })
        };
        read().ok_or_else(|| HostError(text.to_owned()))
    }
}

impl FromIterator<ServiceHost> for Hosts {
    fn from_iter<I: IntoIterator<Item = ServiceHost>>(all: I) -> Self {
        Self(all.into_iter().map(|one| (one.service, (one.host, one.port))).collect())
    }
}

impl Hosts {
    /// The host and port in the place of a Service.
    pub(super) fn of(&self, service: &(String, String)) -> Option<&(String, u16)> {
        self.0.get(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-33
    #[test]
    fn a_host_names_its_service() {
        let hosts: Hosts =
            ["a/b=127.0.0.1:9443", "a/c=[::1]:1"].map(|text| text.parse().expect("a host")).into_iter().collect();
        let of = |name: &str| hosts.of(&("a".to_owned(), name.to_owned())).cloned();
        assert_eq!(of("b"), Some(("127.0.0.1".to_owned(), 9443)));
        assert_eq!(of("c"), Some(("::1".to_owned(), 1)));
        assert_eq!(of("d"), None);
        for bad in ["", "a=b:1", "a/b=c", "a/b=:1", "a/b=c:0", "/b=c:1", "a/b/c=d:1", "a/b=c:70000"] {
            assert_eq!(bad.parse::<ServiceHost>(), Err(HostError(bad.to_owned())));
        }
    }
}
