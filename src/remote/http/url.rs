//! URLs of web servers: parsing, relative references, and the text for messages.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};
use ureq::http::Uri;

/// An absolute URL of a web server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct WebUrl {
    is_https: bool,
    /// `user:password`, as it was given.
    user: Option<String>,
    /// The host in lower case. An IPv6 address is in brackets.
    host: String,
    port: Option<u16>,
    /// The path, which begins with a slash.
    path: String,
    query: Option<String>,
}

/// Characters that a user may type, but that a request cannot have.
const UNSAFE: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');

/// All characters that have a meaning in a path or before it.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl WebUrl {
    /// Parses a URL. The error is the end of a message.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("`{}` is not `http` or `https`", scheme.escape_debug()));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (host, None),
        };
        let parse_port = |port: &str| port.parse().map_err(|_| format!("`{}` is not a port", port.escape_debug()));
        let port = port.filter(|port| !port.is_empty()).map(parse_port).transpose()?;
        if host.is_empty() {
            return Err("it has no host".to_owned());
        }
        if !host.is_ascii() {
            return Err("the host is not ASCII; its ASCII form begins with `xn--`".to_owned());
        }
        let mut url = Self { is_https, user, host: host.to_ascii_lowercase(), port, path: String::new(), query: None };
        url.set_target(target);
        // The client checks the rest.
        url.uri().map_err(|_| "it is malformed".to_owned()).map(|_| url)
    }

    /// Sets the path and the query.
    fn set_target(&mut self, target: &str) {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let encode = |text: &str| utf8_percent_encode(text, UNSAFE).to_string();
        self.path = without_dots(&encode(path));
        self.query = query.map(encode);
    }

    /// Returns the URL of a reference in an answer, such as the target of a redirect. Other bytes than ASCII are
    /// encoded.
    pub(super) fn join_bytes(&self, reference: &[u8]) -> Result<Self, String> {
        match std::str::from_utf8(reference) {
            Ok(reference) => self.join(reference),
            // Each byte of a control character or of another encoding; the rest is ASCII.
            Err(_) => self.join(&percent_encode(reference, CONTROLS).to_string()),
        }
    }

    /// Returns the URL of a relative reference, by RFC 3986, section 5.2.
    pub(super) fn join(&self, reference: &str) -> Result<Self, String> {
        let reference = reference.split('#').next().unwrap_or_default().trim();
        let scheme_end = reference.find(':').filter(|end| !reference[..*end].contains(['/', '?']));
        if scheme_end.is_some() {
            return Self::parse(reference);
        }
        let scheme = if self.is_https { "https" } else { "http" };
        if reference.starts_with("//") {
            return Self::parse(&format!("{scheme}:{reference}"));
        }
        let mut url = self.clone();
        if reference.is_empty() {
            return Ok(url);
        }
        if let Some(query) = reference.strip_prefix('?') {
            url.query = Some(utf8_percent_encode(query, UNSAFE).to_string());
        } else if reference.starts_with('/') {
            url.set_target(reference);
        } else {
            let folder = &self.path[..=self.path.rfind('/').unwrap_or(0)];
            url.set_target(&format!("{folder}{reference}"));
        }
        url.uri().map_err(|_| "it is malformed".to_owned()).map(|_| url)
    }

    /// Returns the URL of a file in the same folder. The query is not inherited, because a signature is valid for one
    /// file.
    pub(super) fn sibling(&self, name: &str) -> Self {
        let folder = &self.path[..=self.path.rfind('/').unwrap_or(0)];
        Self { path: format!("{folder}{}", encode_segment(name)), query: None, ..self.clone() }
    }

    /// Returns whether a secret for one may be sent to the other.
    pub(super) fn has_origin_of(&self, other: &Self) -> bool {
        let origin = |url: &Self| (url.is_https, url.port(), url.host.clone());
        origin(self) == origin(other)
    }

    /// Removes the user, whose password is not for another server.
    pub(super) fn without_user(self) -> Self {
        Self { user: None, ..self }
    }

    /// Returns the user of `other`, if both have one origin.
    pub(super) fn with_user_of(self, other: &Self) -> Self {
        if self.user.is_none() && self.has_origin_of(other) { Self { user: other.user.clone(), ..self } } else { self }
    }

    /// Returns the user and the password, decoded.
    pub(super) fn user(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let user = self.user.as_deref()?;
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        Some((percent_decode_str(user).collect(), percent_decode_str(password).collect()))
    }

    pub(super) fn is_https(&self) -> bool {
        self.is_https
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_https { 443 } else { 80 })
    }

    /// Returns the URL for the client, with all secrets.
    pub(super) fn uri(&self) -> Result<Uri, ureq::http::uri::InvalidUri> {
        self.text(true).parse()
    }

    fn text(&self, with_secrets: bool) -> String {
        let mut text = if self.is_https { "https://" } else { "http://" }.to_owned();
        if let Some(user) = self.user.as_ref().filter(|_| with_secrets) {
            text += &format!("{user}@");
        }
        text += &self.host;
        if let Some(port) = self.port {
            text += &format!(":{port}");
        }
        text += &self.path;
        if let Some(query) = self.query.as_ref().filter(|_| with_secrets) {
            text += &format!("?{query}");
        }
        text
    }
}

/// Resolves the segments `.` and `..` of a path. No `..` leads out of the root.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment == ".." {
            kept.pop();
        } else if segment != "." {
            kept.push(segment);
            continue;
        }
        // The folder itself.
        if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

/// Encodes one segment of a path.
pub(super) fn encode_segment(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

impl fmt::Display for WebUrl {
    /// Prints the URL without its secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn urls_are_parsed() {
        for (text, expected) in [
            ("https://Host.example/a/b.npy?q=1#f", "https://host.example/a/b.npy?q=1"),
            ("http://host", "http://host/"),
            ("http://host?q", "http://host/?q"),
            ("http://user:pass@host:81/a", "http://user:pass@host:81/a"),
            ("http://[::1]:81/a", "http://[::1]:81/a"),
            ("http://[::1]/a", "http://[::1]/a"),
            ("http://host/größe 1%20.npy", "http://host/gr%C3%B6%C3%9Fe%201%20.npy"),
            ("http://host/a/./b/../../c?d/../e", "http://host/c?d/../e"),
        ] {
            assert_eq!(url(text).text(true), expected);
        }
        for (text, expected) in [
            ("http://", "it has no host"),
            ("http:///a", "it has no host"),
            ("http://host:99999/a", "`99999` is not a port"),
            ("ftp://host/a", "`ftp` is not `http` or `https`"),
            ("http://größe/a", "the host is not ASCII; its ASCII form begins with `xn--`"),
            ("http://a b/", "it is malformed"),
        ] {
            assert_eq!(WebUrl::parse(text).err().as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn references_are_joined() {
        let base = url("https://user@host/a/b?q=1");
        for (reference, expected) in [
            ("c", "https://user@host/a/c"),
            ("c?r", "https://user@host/a/c?r"),
            ("/c:d", "https://user@host/c:d"),
            ("?r", "https://user@host/a/b?r"),
            ("//other/c", "https://other/c"),
            ("http://other:1/c#f", "http://other:1/c"),
            ("", "https://user@host/a/b?q=1"),
        ] {
            assert_eq!(base.join(reference).unwrap().text(true), expected);
        }
        // The examples of RFC 3986, sections 5.4.1 and 5.4.2.
        let example = url("http://a/b/c/d;p?q");
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            (";x", "http://a/b/c/;x"),
            ("g;x=1/../y", "http://a/b/c/y"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
        ] {
            assert_eq!(example.join(reference).unwrap().text(true), expected, "{reference}");
        }
        let joined = |reference: &[u8]| base.join_bytes(reference).map(|url| url.text(true));
        assert_eq!(joined("/é b".as_bytes()).as_deref(), Ok("https://user@host/%C3%A9%20b"));
        assert_eq!(joined(b"/\xe9 b").as_deref(), Ok("https://user@host/%E9%20b"));
        assert!(joined(b"//\xe9/b").is_err());
        assert!(base.join("file:///etc/passwd").is_err());
        assert_eq!(base.sibling("m 1?.npy").text(true), "https://user@host/a/m%201%3F.npy");
    }

    #[test]
    fn origins_are_compared() {
        let base = url("https://host/a");
        assert!(base.has_origin_of(&url("https://HOST:443/b")));
        for other in ["http://host/a", "https://host:444/a", "https://host.example/a"] {
            assert!(!base.has_origin_of(&url(other)), "{other}");
        }
    }
}
