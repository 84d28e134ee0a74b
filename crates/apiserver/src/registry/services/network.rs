//! The addresses and ports that a cluster has for Services, and where that of the server itself leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// The largest network has a prefix of this length, as in the reference.
const SHORTEST_PREFIX: u32 = 12;
/// The smallest one has eight addresses.
const LONGEST_PREFIX: u32 = 29;

/// A range of IPv4 addresses. Its first one is the network's and its last one for broadcasts: neither is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    first: Ipv4Addr,
    prefix: u32,
}

impl Addresses {
    /// Reads a range such as `10.0.0.0/24`; `None` where it is none of IPv4.
    #[must_use]
    pub fn parse(cidr: &str) -> Option<Self> {
        let (address, prefix) = cidr.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
        let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
        Some(Self { first: Ipv4Addr::from(u32::from(address) & mask), prefix })
    }

    /// The network's own address, which is not given.
    pub(super) fn first(self) -> Ipv4Addr {
        self.first
    }

    /// How many addresses may be given.
    pub(super) fn count(self) -> u64 {
        self.size().saturating_sub(2)
    }

    /// How many of the lowest are given only where no other is free, so that whoever names one finds it free: a sixteenth,
    /// from 16 up to 256 (KEP-3070).
    pub(super) fn set_aside(self) -> u64 {
        if self.size() <= 16 { 0 } else { (self.size() / 16).clamp(16, 256) }
    }

    /// The address at a place; that of the Service `kubernetes` is at 1.
    #[must_use]
    pub fn at(self, offset: u64) -> Ipv4Addr {
        // Places beyond the range are never asked for.
        #[allow(clippy::cast_possible_truncation)]
        Ipv4Addr::from(u32::from(self.first).wrapping_add(offset as u32))
    }

    /// Whether an address may be given.
    pub(super) fn has(self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip else { return false };
        let offset = u32::from(ip).wrapping_sub(u32::from(self.first));
        (1..=self.count()).contains(&u64::from(offset))
    }

    fn size(self) -> u64 {
        1 << (32 - self.prefix)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// What Services are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// The cluster IPs of the first ServiceCIDR.
    pub addresses: Addresses,
    /// The ports of nodes.
    pub node_ports: RangeInclusive<u16>,
    /// Where pods would reach the server.
    pub server: (IpAddr, u16),
}

impl Default for Network {
    fn default() -> Self {
        Self {
            addresses: Addresses { first: Ipv4Addr::new(10, 96, 0, 0), prefix: 12 },
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
        let addresses = Addresses::parse(cidr).ok_or_else(|| NetworkError::Cidr(cidr.to_owned()))?;
        if !(SHORTEST_PREFIX..=LONGEST_PREFIX).contains(&addresses.prefix) {
            return Err(NetworkError::Size(cidr.to_owned()));
        }
        Ok(Self { addresses, ..self })
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: API-41
    #[test]
    fn the_lowest_addresses_are_set_aside() {
        for (cidr, count, aside) in [
            ("0.0.0.0/0", (1 << 32) - 2, 256),
            ("10.96.0.0/12", (1 << 20) - 2, 256),
            ("10.96.0.0/22", 1022, 64),
            ("10.96.0.0/27", 30, 16),
            ("10.96.0.0/28", 14, 0),
            ("10.96.0.0/30", 2, 0),
            ("10.96.0.0/31", 0, 0),
            ("10.96.0.0/32", 0, 0),
        ] {
            let range = Addresses::parse(cidr).expect("a range");
            assert_eq!((range.count(), range.set_aside()), (count, aside), "{cidr}");
            assert!(!range.has(range.first().into()) && range.has(range.at(1).into()) == (count > 0), "{cidr}");
        }
    }

    /// Contract: API-36
    #[test]
    fn ranges_are_read_and_checked() {
        let network = |cidr: &str| Network::default().with_addresses(cidr);
        let small = network("10.0.0.77/24").expect("a range").addresses;
        assert_eq!(
            (small.to_string(), small.count(), small.at(1)),
            ("10.0.0.0/24".to_owned(), 254, Ipv4Addr::new(10, 0, 0, 1))
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
