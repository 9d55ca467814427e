//! Private addresses, to which a public server must not redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::url::WebUrl;
use crate::remote::environment::is_in;

/// Networks that are not on the internet, or whose addresses stand for others: their length in bits, and the first
/// address.
///
/// From the registries of special-purpose addresses of IANA. Two are missing: the prefix of NAT64, and addresses of
/// IPv4 in IPv6, stand for the address in their last bits.
const PRIVATE: &[(u32, IpAddr)] = &[
    (8, v4(0, 0, 0, 0)),
    (8, v4(10, 0, 0, 0)),
    // Shared by the customers of a provider.
    (10, v4(100, 64, 0, 0)),
    (8, v4(127, 0, 0, 0)),
    (16, v4(169, 254, 0, 0)),
    (12, v4(172, 16, 0, 0)),
    (24, v4(192, 0, 0, 0)),
    (24, v4(192, 0, 2, 0)),
    // Relays of 6to4.
    (24, v4(192, 88, 99, 0)),
    (16, v4(192, 168, 0, 0)),
    // Networks for benchmarks.
    (15, v4(198, 18, 0, 0)),
    (24, v4(198, 51, 100, 0)),
    (24, v4(203, 0, 113, 0)),
    // Multicast, addresses reserved for the future, and broadcast.
    (3, v4(224, 0, 0, 0)),
    (128, v6(0, 0, 0)),
    (128, IpAddr::V6(Ipv6Addr::LOCALHOST)),
    // NAT64 of a local network.
    (48, v6(0x64, 0xff9b, 1)),
    (64, v6(0x100, 0, 0)),
    // Teredo, benchmarks, ORCHID and its successor, the drone protocol, documentation.
    (32, v6(0x2001, 0, 0)),
    (48, v6(0x2001, 2, 0)),
    (28, v6(0x2001, 0x10, 0)),
    (28, v6(0x2001, 0x20, 0)),
    (28, v6(0x2001, 0x30, 0)),
    (32, v6(0x2001, 0xdb8, 0)),
    // 6to4.
    (16, v6(0x2002, 0, 0)),
    (20, v6(0x3fff, 0, 0)),
    // Segment routing.
    (16, v6(0x5f00, 0, 0)),
    // Unique local, link-local, site-local, multicast.
    (7, v6(0xfc00, 0, 0)),
    (10, v6(0xfe80, 0, 0)),
    (10, v6(0xfec0, 0, 0)),
    (8, v6(0xff00, 0, 0)),
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(a: u16, b: u16, c: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
}

/// Returns whether an address belongs to this host, to its network, or to nobody.
pub(super) fn is_private(address: IpAddr) -> bool {
    let address = stands_for(address).unwrap_or(address);
    PRIVATE.iter().any(|(bits, network)| is_in(address, *network, *bits))
}

/// Returns the address of IPv4 for which one of IPv6 stands. In a network without IPv4, names lead to NAT64.
fn stands_for(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let [.., a, b, c, d] = address.octets();
    let is_mapped = match address.segments() {
        // Mapped, compatible, and translated.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => true,
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => false,
        [0, 0, 0, 0, 0, 0, ..] => true,
        segments => is_nat64(segments),
    };
    is_mapped.then_some(v4(a, b, c, d))
}

fn is_nat64(segments: [u16; 8]) -> bool {
    matches!(segments, [0x64, 0xff9b, 0, 0, 0, 0, ..])
}

/// Returns whether a URL leads to a private address. A name that is not found is not private.
///
/// An address of NAT64 in a URL is one, as only a resolver writes them.
pub(super) fn leads_to_private(url: &WebUrl) -> bool {
    let host = url.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse() {
        Ok(IpAddr::V6(address)) if is_nat64(address.segments()) => true,
        Ok(address) => is_private(address),
        Err(_) => (host, url.port())
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.any(|address| is_private(address.ip()))),
    }
}

/// Finds the addresses of hosts, and of a proxy, which may have a private one. The check is where the connection is
/// made: a name may have another address next time.
#[derive(Debug)]
pub(super) struct HostResolver {
    resolver: DefaultResolver,
    /// Private addresses of hosts are refused.
    is_public: bool,
    proxy: Option<Uri>,
}

impl HostResolver {
    pub(super) fn new(is_public: bool, proxy: Option<Uri>) -> Self {
        Self { resolver: DefaultResolver::default(), is_public, proxy }
    }
}

/// The message of an address that is refused.
pub(super) const REFUSED: &str = "the address is private";

impl Resolver for HostResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        // Behind a proxy, nothing else is connected to. It knows hosts that are not known here.
        let is_proxied = self.proxy.is_some();
        let addresses = self.resolver.resolve(self.proxy.as_ref().unwrap_or(uri), config, timeout)?;
        if self.is_public && !is_proxied && addresses.iter().any(|address| is_private(address.ip())) {
            return Err(Error::Tls(REFUSED));
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_networks_are_private() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:0:10.0.0.1",
            "::10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2002:7f00:1::",
            "2002:808:808::1",
            "2001::1",
            "2001:db8::1",
            "fec0::1",
            "feff:ffff::",
            "febf::1",
            "ff02::1",
            "198.18.0.1",
            "198.19.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2001:4860::1",
            "2003::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_address_of_a_connection_is_checked() {
        let config = ureq::Agent::config_builder().build();
        let resolver = HostResolver::new(true, None);
        let resolve = |uri: &str| resolver.resolve(&uri.parse().unwrap(), &config, Default::default());
        assert!(matches!(resolve("http://127.0.0.1:1/"), Err(Error::Tls(REFUSED))));
        assert!(matches!(resolve("http://localhost:1/"), Err(Error::Tls(REFUSED))));
        assert!(resolve("http://8.8.8.8:1/").is_ok());
        assert!(leads_to_private(&WebUrl::parse("http://localhost/").unwrap()));
        for (host, expected) in [
            ("8.8.8.8", false),
            ("127.0.0.1.", true),
            ("[::1]", true),
            ("[64:ff9b::808:808]", true),
            ("[2002:808:808::]", true),
            ("[2606:4700::1]", false),
        ] {
            assert_eq!(leads_to_private(&WebUrl::parse(&format!("http://{host}/")).unwrap()), expected, "{host}");
        }
    }
}
