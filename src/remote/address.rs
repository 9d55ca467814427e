//! Private addresses, to which a public server must not redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::url::WebUrl;

/// Returns whether an address is one of this host or of its network.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_private_v4(address),
            None => is_private_v6(address),
        },
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [one, two, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_unspecified()
        || address.is_broadcast()
        || one == 0
        // Shared by the customers of a provider.
        || one == 100 && (64..128).contains(&two)
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_unique_local() || address.is_unicast_link_local()
}

/// Returns whether a URL leads to a private address. A name that is not found is not private.
pub(super) fn leads_to_private(url: &WebUrl) -> bool {
    let host = url.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(address) => is_private(address),
        Err(_) => (host, url.port())
            .to_socket_addrs()
            .is_ok_and(|mut addresses| addresses.any(|address| is_private(address.ip()))),
    }
}

/// Finds public addresses only. The check is where the connection is made: a name may have another address next time.
#[derive(Debug, Default)]
pub(super) struct PublicResolver(DefaultResolver);

/// The message of an address that is refused.
pub(super) const REFUSED: &str = "the address is private";

impl Resolver for PublicResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let addresses = self.0.resolve(uri, config, timeout)?;
        if addresses.iter().any(|address| is_private(address.ip())) {
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
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8"] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn the_address_of_a_connection_is_checked() {
        let config = ureq::Agent::config_builder().build();
        let resolve = |uri: &str| PublicResolver::default().resolve(&uri.parse().unwrap(), &config, Default::default());
        assert!(matches!(resolve("http://127.0.0.1:1/"), Err(Error::Tls(REFUSED))));
        assert!(matches!(resolve("http://localhost:1/"), Err(Error::Tls(REFUSED))));
        assert!(resolve("http://8.8.8.8:1/").is_ok());
        assert!(leads_to_private(&WebUrl::parse("http://localhost/").unwrap()));
        assert!(!leads_to_private(&WebUrl::parse("http://8.8.8.8/").unwrap()));
    }
}
