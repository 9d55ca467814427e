//! Connections through proxies.
//!
//! `https://` goes through a tunnel (`CONNECT`). `http://` is asked for by its whole URL: most proxies refuse tunnels
//! to other ports than 443.

use std::env;

use ureq::Error;
use ureq::http::Uri;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport};

use super::url::WebUrl;
use crate::remote::environment::ProxyVariable;

/// A proxy, and the variable that names it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) url: WebUrl,
    pub(super) variable: &'static str,
}

impl Proxy {
    /// Returns the proxy for a URL, if there is one. The error is a whole message.
    pub(super) fn of(url: &WebUrl) -> Result<Option<Self>, String> {
        let found = ProxyVariable::of(url.is_https(), url.host(), url.port(), &|name| env::var(name).ok())?;
        let Some(ProxyVariable { name: variable, url }) = found else { return Ok(None) };
        let url = WebUrl::parse(&url).map_err(|what| format!("the URL of the proxy in {variable} is wrong: {what}"))?;
        Ok(Some(Self { url, variable }))
    }

    /// Returns the header with its user and password.
    pub(super) fn authorization(&self) -> Option<String> {
        let (user, password) = self.url.user()?;
        Some(format!("Basic {}", base64(&[&user[..], b":", &password].concat())))
    }
}

/// Encodes bytes in letters, as headers have them.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Connects to servers, or to a proxy that is asked for whole URLs.
#[derive(Debug)]
pub(super) struct ServerConnector {
    pub(super) connector: DefaultConnector,
    /// The proxy for `http://`. A tunnel is a setting of the client.
    pub(super) forward: Option<Uri>,
}

impl Connector<()> for ServerConnector {
    type Out = ServerTransport;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<ServerTransport>, Error> {
        let ConnectionDetails { uri, config, .. } = details;
        let most = config.input_buffer_size();
        let Some(proxy) = self.forward.as_ref().filter(|_| uri.scheme_str() == Some("http")) else {
            let transport = self.connector.connect(details, None)?;
            return Ok(transport.map(|transport| ServerTransport { transport, origin: None, most }));
        };
        let through = ConnectionDetails {
            uri: proxy,
            addrs: details.addrs.clone(),
            config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        let transport = self.connector.connect(&through, None)?;
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        let origin = Some(format!("http://{host}{port}").into_bytes());
        Ok(transport.map(|transport| ServerTransport { transport, origin, most }))
    }
}

/// A connection, on which answers have short headers.
#[derive(Debug)]
pub(super) struct ServerTransport {
    transport: Box<dyn Transport>,
    /// The text before the path of a request to a proxy.
    origin: Option<Vec<u8>>,
    /// The most bytes of an answer that are looked at together.
    most: usize,
}

impl Transport for ServerTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.transport.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        const METHOD: &[u8] = b"GET ";

        let output = self.transport.buffers().output();
        let (Some(origin), Some(path)) = (&self.origin, output[..amount].strip_prefix(METHOD)) else {
            return self.transport.transmit_output(amount, timeout);
        };
        // All of a request is written at once, and it has no body.
        let request = [METHOD, origin, path].concat();
        let most = output.len();
        for piece in request.chunks(most) {
            self.transport.buffers().output()[..piece.len()].copy_from_slice(piece);
            self.transport.transmit_output(piece.len(), timeout)?;
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        // Headers, or a line, without an end. The client would take it for the end of the connection.
        let found = self.transport.buffers().input().len();
        if found >= self.most {
            return Err(Error::LargeResponseHeader(found, self.most));
        }
        self.transport.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.transport.is_open()
    }

    fn is_tls(&self) -> bool {
        self.transport.is_tls()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_encoded() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("user:pä", "dXNlcjpww6Q="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), expected);
        }
        let url = WebUrl::parse("http://u%3A:a%2fb@p").unwrap();
        let proxy = Proxy { url, variable: "http_proxy" };
        assert_eq!(proxy.authorization(), Some(format!("Basic {}", base64(b"u::a/b"))));
    }
}
