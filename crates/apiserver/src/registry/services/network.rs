//! The addresses and ports that a cluster has for Services, and where that of the server itself leads.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// The largest network has a prefix of this length, as in the reference.
const SHORTEST_PREFIX: u32 = 12;
/// The smallest one has eight addresses.
const LONGEST_PREFIX: u32 = 29;

/// What Services are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    first: Ipv4Addr,
    prefix: u32,
    /// The ports of nodes.
    pub node_ports: RangeInclusive<u16>,
    /// Where pods would reach the server.
    pub server: (IpAddr, u16),
}

impl Default for Network {
    fn default() -> Self {
        Self {
            first: Ipv4Addr::new(10, 96, 0, 0),
            prefix: 12,
            node_ports: 30000..=32767,
            // The gateway of the simulated nodes' network, for endpoints on a loopback address are not valid.
            server: (IpAddr::V4(Ipv4Addr::new(172, 18, 0, 1)), 6443),
        }
    }
}

/// Why a range cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// It is none.
    #[error("found {0:?}, expected a range of IPv4 addresses such as 10.0.0.0/24")]
    Cidr(String),
    /// It has too many or too few addresses.
    #[error("found {0:?}, expected a prefix from /{SHORTEST_PREFIX} to /{LONGEST_PREFIX}")]
    Size(String),
    /// It is none of ports.
    #[error("found {0:?}, expected a range of ports such as 30000-32767")]
    Ports(String),
}

impl Network {
    /// The same with the cluster IPs of a range, such as `10.0.0.0/24`.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn with_addresses(self, cidr: &str) -> Result<Self, NetworkError> {
        let none = || NetworkError::Cidr(cidr.to_owned());
        let (address, prefix) = cidr.split_once('/').ok_or_else(none)?;
        let address: Ipv4Addr = address.parse().map_err(|_| none())?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(none)?;
        if !(SHORTEST_PREFIX..=LONGEST_PREFIX).contains(&prefix) {
            return Err(NetworkError::Size(cidr.to_owned()));
        }
        let first = Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - prefix)));
        Ok(Self { first, prefix, ..self })
    }

    /// The same with the node ports of a range, such as `30000-32767` or `30000+100`.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn with_node_ports(self, range: &str) -> Result<Self, NetworkError> {
        let port = |text: &str| text.trim().parse::<u16>().ok();
        let ports = match (range.split_once('-'), range.split_once('+')) {
            (Some((first, last)), _) => port(first).zip(port(last)),
            (None, Some((first, more))) => {
                port(first).zip(port(more)).and_then(|(first, more)| Some((first, first.checked_add(more)?)))
            }
            (None, None) => port(range).map(|only| (only, only)),
        };
        let (first, last) = ports
            .filter(|(first, last)| 0 < *first && first <= last)
            .ok_or_else(|| NetworkError::Ports(range.to_owned()))?;
        Ok(Self { node_ports: first..=last, ..self })
    }

    /// How the range of addresses is written.
    #[must_use]
    pub fn cidr(&self) -> String {
        format!("{}/{}", self.first, self.prefix)
    }

    /// The network's own address, which is not given.
    pub(super) fn first(&self) -> Ipv4Addr {
        self.first
    }

    /// How many addresses it has, the first and the last included.
    pub(super) fn size(&self) -> u32 {
        1 << (32 - self.prefix)
    }

    /// The address at a place; that of the Service `kubernetes` is at 1.
    #[must_use]
    pub fn at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first).wrapping_add(offset))
    }

    /// Whether an address may be given.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        let offset = u32::from(ip).wrapping_sub(u32::from(self.first));
        (1..self.size() - 1).contains(&offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-36
    #[test]
    fn ranges_are_read_and_checked() {
        let network = |cidr: &str| Network::default().with_addresses(cidr);
        let small = network("10.0.0.77/24").expect("a range");
        assert_eq!(
            (small.cidr(), small.size(), small.at(1)),
            ("10.0.0.0/24".to_owned(), 256, Ipv4Addr::new(10, 0, 0, 1))
        );
        for (ip, has) in [("10.0.0.0", false), ("10.0.0.1", true), ("10.0.0.254", true), ("10.0.0.255", false)] {
            assert_eq!(small.has(ip.parse().expect("an address")), has, "{ip}");
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/x", "10.0.0.0/33", "fd00::/108", "10.0.0.0/24,10.1.0.0/24"] {
            assert_eq!(network(bad), Err(NetworkError::Cidr(bad.to_owned())));
        }
        for bad in ["10.0.0.0/8", "10.0.0.0/30"] {
            assert_eq!(network(bad), Err(NetworkError::Size(bad.to_owned())));
        }
        let ports = |range: &str| Network::default().with_node_ports(range).map(|network| network.node_ports);
        assert_eq!(ports("30000-30010"), Ok(30000..=30010));
        assert_eq!(ports("30000+10"), Ok(30000..=30010));
        assert_eq!(ports("30000"), Ok(30000..=30000));
        for bad in ["", "0", "2-1", "a-b", "65535+1", "1-70000"] {
            assert_eq!(ports(bad), Err(NetworkError::Ports(bad.to_owned())));
        }
    }
}
