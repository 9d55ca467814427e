//! Proxies of the environment.
//!
//! ```text
//! http_proxy, https_proxy    by the scheme of the URL
//! all_proxy                  for both
//! no_proxy                   hosts that are asked directly: names, of which subdomains count, addresses, networks, `*`
//! ```
//!
//! In small letters or in capitals, as of curl. A proxy that cannot be used is an error: whoever sets one does not want
//! to be seen without it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A variable with the URL of a proxy.
pub(super) struct ProxyVariable {
    pub(super) name: &'static str,
    /// It begins with `http://` or `https://`.
    pub(super) url: String,
}

impl ProxyVariable {
    /// Returns the proxy for a host, by the variables of an environment. The error is a whole message.
    pub(super) fn of(
        is_https: bool,
        host: &str,
        port: u16,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let get = |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        // A header `Proxy` of a request to a CGI program is that variable in capitals.
        let is_cgi = get("REQUEST_METHOD").is_some();
        let names = if is_https {
            ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        } else {
            ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        };
        let mut set = names.into_iter().filter(|name| !(is_cgi && *name == "HTTP_PROXY"));
        let Some((name, value)) = set.find_map(|name| Some((name, get(name)?))) else { return Ok(None) };
        let no_proxy = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        if is_excepted(&no_proxy, host, port) {
            return Ok(None);
        }
        let Some((scheme, _)) = value.split_once("://") else {
            return Ok(Some(Self { name, url: format!("http://{value}") }));
        };
        if !["http", "https"].iter().any(|own| own.eq_ignore_ascii_case(scheme)) {
            return Err(format!(
                "the proxy of {name} begins with `{}://`, which is not supported; it is an http or https proxy, and \
                 no_proxy lists hosts to ask directly",
                scheme.escape_debug()
            ));
        }
        Ok(Some(Self { name, url: value }))
    }
}

/// Returns whether a host is listed as one to ask directly.
fn is_excepted(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let address: Option<IpAddr> = host.parse().ok();
    let is_host = |entry: &str| {
        let entry = entry.trim_start_matches('[').trim_end_matches(']');
        if let Some(address) = address {
            return match entry.split_once('/') {
                Some((network, bits)) => match (network.parse(), bits.parse()) {
                    (Ok(network), Ok(bits)) => is_in(address, network, bits),
                    _ => false,
                },
                None => entry.parse().is_ok_and(|entry: IpAddr| entry == address),
            };
        }
        let name = entry.trim_start_matches('*').trim_matches('.');
        let split = host.len().checked_sub(name.len()).filter(|_| !name.is_empty());
        split
            .and_then(|split| Some((host.get(..split)?, host.get(split..)?)))
            .is_some_and(|(before, end)| end.eq_ignore_ascii_case(name) && (before.is_empty() || before.ends_with('.')))
    };
    list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty()).any(|entry| {
        let with_port = entry.rsplit_once(':').filter(|(name, _)| !name.contains(':') || name.ends_with(']'));
        entry == "*"
            || is_host(entry)
            || with_port.is_some_and(|(name, of)| of.parse() == Ok(port) && (name == "*" || is_host(name)))
    })
}

/// Returns whether an address begins with the first bits of another one.
pub(super) fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let differ = |one: u128, other: u128, len: u32| {
        let left = len.saturating_sub(bits);
        (one ^ other).checked_shr(left).unwrap_or(0) != 0
    };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            !differ(u32::from(address).into(), u32::from(network).into(), Ipv4Addr::BITS)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => !differ(address.into(), network.into(), Ipv6Addr::BITS),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(is_https: bool, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let found = ProxyVariable::of(is_https, "host.example", 80, &get)?;
        Ok(found.map(|proxy| format!("{} of {}", proxy.url, proxy.name)))
    }

    #[test]
    fn the_scheme_of_a_url_finds_its_proxy() {
        for (is_https, variables, expected) in [
            (false, &[][..], None),
            (false, &[("https_proxy", "http://p:1")], None),
            (true, &[("HTTP_PROXY", "http://p:1")], None),
            (false, &[("HTTP_PROXY", "p:1")], Some("http://p:1 of HTTP_PROXY")),
            (false, &[("HTTP_PROXY", "p:1"), ("http_proxy", "q:2")], Some("http://q:2 of http_proxy")),
            (false, &[("HTTP_PROXY", "p:1"), ("REQUEST_METHOD", "GET")], None),
            (true, &[("all_proxy", "p:1"), ("HTTPS_PROXY", "https://u:s@q")], Some("https://u:s@q of HTTPS_PROXY")),
            (true, &[("ALL_PROXY", "p"), ("https_proxy", " ")], Some("http://p of ALL_PROXY")),
            (true, &[("ALL_PROXY", "p"), ("no_proxy", "example")], None),
            (true, &[("ALL_PROXY", "socks5://p"), ("no_proxy", "*")], None),
            (false, &[("https_proxy", "socks5://p")], None),
        ] {
            assert_eq!(proxy(is_https, variables), Ok(expected.map(str::to_owned)), "{variables:?}");
        }
        for scheme in ["socks5", "socks5h", "socks4", "socks", "nonsense"] {
            let error = proxy(false, &[("ALL_PROXY", &format!("{scheme}://user:secret@p"))]).unwrap_err();
            assert!(
                error.starts_with(&format!("the proxy of ALL_PROXY begins with `{scheme}://`, which is not")),
                "{error}"
            );
            assert!(!error.contains("secret"));
        }
    }

    #[test]
    fn hosts_are_asked_directly() {
        for (list, host, expected) in [
            ("", "a", false),
            ("*", "a", true),
            ("a", "a", true),
            ("b, A", "a", true),
            ("b A", "a", true),
            ("a.b", "x.a.b", true),
            (".a.b", "x.a.b", true),
            (".a.b", "a.b", true),
            ("*.a.b", "x.a.b", true),
            ("a.b", "xa.b", false),
            ("x.a.b", "a.b", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.10", false),
            (".1", "10.0.0.1", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "name", false),
            ("::1", "[::1]", true),
            ("[::1]:80", "[::1]", true),
            ("fd00::/8", "[fd12::1]", true),
            ("a:80", "a", true),
            ("a:81", "a", false),
            ("*:80", "a", true),
            ("ü", "a", false),
            (".", "a", false),
            (",", "a", false),
        ] {
            assert_eq!(is_excepted(list, host, 80), expected, "{list} for {host}");
        }
    }
}
