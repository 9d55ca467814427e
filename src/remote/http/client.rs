//! Requests to web servers: connections, redirects, and what may be tried again.

use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, SystemTime};

use ureq::config::Config;
use ureq::http::{HeaderMap, Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, BodyReader, Timeout};

use super::address::{HostResolver, REFUSED, leads_to_private};
use super::http_date;
use super::proxy::{Proxy, ServerConnector};
use super::url::WebUrl;
use crate::error::{Error, ErrorKind};
use crate::remote::traffic;

/// A GET request.
pub(super) struct Get<'r> {
    pub(super) url: &'r WebUrl,
    /// The first and the last byte.
    pub(super) range: Option<(u64, u64)>,
    /// The strong entity tag that the object must have.
    pub(super) if_match: Option<&'r [u8]>,
    /// For the origin of the URL only.
    pub(super) token: Option<&'r str>,
    /// Private addresses are refused, as the URL is from a public server.
    pub(super) is_public: bool,
}

/// The answer to a request, after redirects.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: BodyReader<'static>,
    /// The URL that answered, and whether private addresses were refused there.
    pub(super) url: WebUrl,
    pub(super) is_public: bool,
    pub(super) linked: Linked,
}

/// Headers of the Hugging Face hub about the object to which it redirects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Linked {
    /// The SHA-256 of a large file.
    pub(super) sha256: Option<String>,
    /// The commit of the revision.
    pub(super) commit: Option<String>,
}

impl Linked {
    /// Adds facts from the headers of an answer, unless an earlier answer stated them.
    fn add(&mut self, headers: &HeaderMap) {
        let hex = |name: &str, len: usize| {
            let value = std::str::from_utf8(value(headers, name)?).ok()?.trim_matches('"');
            (value.len() == len && value.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| value.to_owned())
        };
        self.sha256 = self.sha256.take().or_else(|| hex("x-linked-etag", 64));
        self.commit = self.commit.take().or_else(|| hex("x-repo-commit", 40));
    }
}

/// The reason that there is no answer, or not all of it.
pub(super) enum Failed {
    /// It may help to try again, perhaps not before some time.
    Passing(io::Error, Option<Duration>),
    Lasting(io::Error),
}

impl Failed {
    pub(super) fn lasting(message: impl Into<String>) -> Self {
        Self::Lasting(io::Error::other(message.into()))
    }

    pub(super) fn passing(message: impl Into<String>) -> Self {
        Self::Passing(io::Error::other(message.into()), None)
    }

    /// The body ended too early.
    pub(super) fn cut_off(found: u64, expected: u64) -> Self {
        let message = format!("the connection ended after {found} of {expected} bytes");
        Self::Passing(io::Error::new(io::ErrorKind::UnexpectedEof, message), None)
    }

    /// Returns whether the connection ended before the answer did.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Passing(error, _) if error.kind() == io::ErrorKind::UnexpectedEof)
    }

    /// Adds the proxy, which may be what fails.
    fn with_proxy(self, proxy: &Proxy) -> Self {
        let add = |error: io::Error| {
            let Proxy { url, variable } = proxy;
            io::Error::new(error.kind(), format!("{error}; the proxy is {url}, of {variable}"))
        };
        match self {
            Self::Passing(error, asked) => Self::Passing(add(error), asked),
            Self::Lasting(error) => Self::Lasting(add(error)),
        }
    }
}

/// Attempts that are left after a failure.
pub(super) struct Retries {
    left: u32,
    delay: Duration,
}

impl Retries {
    /// The longest wait that a server may ask for.
    const LONGEST: Duration = Duration::from_secs(30);

    pub(super) fn new() -> Self {
        Self { left: 4, delay: Duration::from_millis(50) }
    }

    /// Waits before the next attempt. Returns the error if there is none.
    pub(super) fn wait(&mut self, failed: Failed) -> io::Result<()> {
        let (error, asked) = match failed {
            Failed::Lasting(error) => return Err(error),
            Failed::Passing(error, asked) => (error, asked),
        };
        if self.left == 0 || asked.is_some_and(|asked| asked > Self::LONGEST) {
            return Err(error);
        }
        self.left -= 1;
        std::thread::sleep(asked.unwrap_or(self.delay));
        self.delay *= 4;
        Ok(())
    }
}

/// The most redirects to follow.
const REDIRECTS: usize = 10;

/// Sends a request, and follows redirects.
pub(super) fn get(get: &Get<'_>) -> Result<Reply, Failed> {
    let (mut url, mut is_public, mut linked) = (get.url.clone(), get.is_public, Linked::default());
    for _ in 0..=REDIRECTS {
        let token = get.token.filter(|_| url.has_origin_of(get.url));
        let (head, body) = send_by_proxy(get, &url, token, is_public)?.into_parts();
        linked.add(&head.headers);
        if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(Reply {
                status: head.status,
                headers: head.headers,
                body: body.into_reader(),
                url,
                is_public,
                linked,
            });
        }
        let target = value(&head.headers, "location").ok_or_else(|| Failed::lasting("it redirects to nowhere"))?;
        let next =
            url.join_bytes(target).map_err(|what| Failed::lasting(format!("it redirects to a bad URL: {what}")))?;
        let next = if next.has_origin_of(&url) { next.with_user_of(&url) } else { next.without_user() };
        let refused = |why: &str| Failed::lasting(format!("it redirects to {next}, which is refused: {why}"));
        if url.is_https() && !next.is_https() {
            return Err(refused("it is not https"));
        }
        // A name may be unknown here if a proxy finds it.
        is_public = is_public || !leads_to_private(&url);
        if is_public && leads_to_private(&next) {
            return Err(refused(REFUSED));
        }
        url = next;
    }
    Err(Failed::lasting(format!("it redirects more than {REDIRECTS} times")))
}

/// Sends one request, through the proxy for its URL if there is one.
fn send_by_proxy(get: &Get<'_>, url: &WebUrl, token: Option<&str>, is_public: bool) -> Result<Response<Body>, Failed> {
    let proxy = Proxy::of(url).map_err(Failed::lasting)?;
    let agent = agent(AgentUse { is_https: url.is_https(), is_public, proxy: proxy.clone() })?;
    let forward = proxy.as_ref().filter(|_| !url.is_https());
    let sent = send(&agent, get, url, token, forward.and_then(Proxy::authorization));
    let Some(proxy) = proxy else { return sent };
    sent.map_err(|error| error.with_proxy(&proxy))
}

/// Sends one request.
fn send(
    agent: &Agent,
    get: &Get<'_>,
    url: &WebUrl,
    token: Option<&str>,
    for_proxy: Option<String>,
) -> Result<Response<Body>, Failed> {
    let malformed = |_| Failed::lasting("it is malformed");
    let mut request = Request::get(url.uri().map_err(|_| Failed::lasting("it is malformed"))?);
    if let Some((first, last)) = get.range {
        request = request.header("range", format!("bytes={first}-{last}"));
    }
    if let Some(tag) = get.if_match {
        request = request.header("if-match", tag);
    }
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if let Some(authorization) = for_proxy {
        request = request.header("proxy-authorization", authorization);
    }
    traffic::add_request();
    agent.run(request.body(()).map_err(malformed)?).map_err(|error| failed(error, Some(url)))
}

/// Returns the first value of a header, as bytes.
pub(super) fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    headers.get(name).map(|value| value.as_bytes().trim_ascii())
}

/// Returns all values of a header, as one list.
pub(super) fn values(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    let mut all: Vec<&[u8]> = headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii()).collect();
    all.dedup();
    (!all.is_empty()).then(|| all.join(&b", "[..]))
}

/// Returns the items of a header that is a list, in small letters.
pub(super) fn items(headers: &HeaderMap, name: &str) -> Vec<String> {
    let all = values(headers, name).unwrap_or_default();
    let items = all.split(|byte| *byte == b',').map(|item| item.trim_ascii().to_ascii_lowercase());
    items.filter(|item| !item.is_empty()).map(|item| String::from_utf8_lossy(&item).into_owned()).collect()
}

/// The status of an answer without bytes, inside of an [`io::Error`].
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The reason of the Hugging Face hub.
    pub(super) reason: Option<HubReason>,
    message: String,
}

impl Refusal {
    /// Returns the refusal behind an error.
    pub(super) fn of(error: &Error) -> Option<&Self> {
        let ErrorKind::Io(error) = error.kind() else { return None };
        error.get_ref()?.downcast_ref()
    }

    /// Returns the error with more words.
    pub(super) fn because(&self, why: &str) -> Error {
        let Self { status, reason, message } = self;
        let refusal = Self { status: *status, reason: *reason, message: format!("{message}: {why}") };
        io::Error::new(kind_of(*status), refusal).into()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// A reason of the Hugging Face hub, from the headers of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HubReason {
    Gated,
    Disabled,
    BadToken,
    NoRepository,
    NoRevision,
    NoFile,
}

impl HubReason {
    /// Compares the words that `huggingface_hub` compares. No other text of a server is shown.
    fn new(headers: &HeaderMap) -> Option<Self> {
        match value(headers, "x-error-code") {
            Some(b"GatedRepo") => Some(Self::Gated),
            Some(b"RepoNotFound") => Some(Self::NoRepository),
            Some(b"RevisionNotFound") => Some(Self::NoRevision),
            Some(b"EntryNotFound") => Some(Self::NoFile),
            _ => match value(headers, "x-error-message")? {
                b"Access to this resource is disabled." => Some(Self::Disabled),
                b"Invalid credentials in Authorization header" | b"Invalid username or password." => {
                    Some(Self::BadToken)
                }
                _ => None,
            },
        }
    }
}

fn kind_of(status: StatusCode) -> io::ErrorKind {
    match status.as_u16() {
        401 | 403 | 407 => io::ErrorKind::PermissionDenied,
        404 | 410 => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    }
}

/// Returns the failure that a status means.
pub(super) fn failed_status(status: StatusCode, headers: &HeaderMap) -> Failed {
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let message = format!("the server answers {}{reason}", status.as_u16());
    let is_passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
    let asked = retry_after(headers).filter(|_| is_passing);
    let message = match asked {
        Some(asked) if asked > Retries::LONGEST => format!("{message}; it may be asked again in {} s", asked.as_secs()),
        _ => message,
    };
    let error = io::Error::new(kind_of(status), Refusal { status, reason: HubReason::new(headers), message });
    if is_passing { Failed::Passing(error, asked) } else { Failed::Lasting(error) }
}

/// Returns the time before which a server does not want to be asked again.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let get = |name| std::str::from_utf8(value(headers, name)?).ok();
    let text = get("retry-after")?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    // The server's clock may be another one.
    let now = get("date").and_then(http_date::parse).unwrap_or_else(SystemTime::now);
    Some(http_date::parse(text)?.duration_since(now).unwrap_or_default())
}

/// The time for making a connection, and for waiting for the next byte.
const CONNECT: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(30);

/// The time for the headers of an answer, which may come a byte at a time, or after others that say nothing.
const HEADERS: Duration = Duration::from_secs(60);

/// The most bytes of headers.
const LONGEST_HEADERS: usize = 128 << 10;

/// Converts an error of a request to a URL, or of the body of its answer.
fn failed(error: ureq::Error, url: Option<&WebUrl>) -> Failed {
    match error {
        ureq::Error::Io(error) => failed_io(error),
        ureq::Error::Timeout(timeout) => {
            let message = match timeout {
                Timeout::Resolve | Timeout::Connect => format!("no connection within {} s", CONNECT.as_secs()),
                Timeout::RecvResponse => format!("no whole headers within {} s", HEADERS.as_secs()),
                _ => format!("no byte for {} s", READ.as_secs()),
            };
            Failed::Passing(io::Error::new(io::ErrorKind::TimedOut, message), None)
        }
        ureq::Error::HostNotFound => {
            Failed::Lasting(io::Error::new(io::ErrorKind::HostUnreachable, "the host is not found"))
        }
        ureq::Error::ConnectionFailed => {
            Failed::Passing(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection failed"), None)
        }
        ureq::Error::Rustls(error) => Failed::lasting(format!("no secure connection: {error}")),
        ureq::Error::Tls(REFUSED) => Failed::lasting(format!("it redirects to a server that is refused: {REFUSED}")),
        ureq::Error::ConnectProxyFailed(why) => {
            // Such as `proxy server responded 403/403`.
            let status = why.rsplit_once('/').filter(|(_, status)| status.bytes().all(|byte| byte.is_ascii_digit()));
            let status = status.map(|(_, status)| format!(": it answers {status}")).unwrap_or_default();
            Failed::lasting(format!("the proxy refuses the connection{status}"))
        }
        ureq::Error::InvalidProxyUrl => Failed::lasting("the URL of the proxy is malformed"),
        ureq::Error::LargeResponseHeader(..) => {
            Failed::lasting(format!("the headers of the answer take more than {} KiB", LONGEST_HEADERS >> 10))
        }
        // Its message has no text of the server.
        ureq::Error::Protocol(error) => {
            let error = error.to_string();
            let is_other = url.is_some_and(|url| !url.is_https()) && error.starts_with("http parse fail");
            let advice = if is_other { "; if it is a server for https, the URL begins with `https://`" } else { "" };
            Failed::passing(format!("the answer is malformed: {error}{advice}"))
        }
        ureq::Error::BodyStalled => Failed::passing("the answer is malformed: its body does not go on"),
        ureq::Error::Http(_) | ureq::Error::BadUri(_) => Failed::lasting("the URL is malformed"),
        ureq::Error::Pem(_) | ureq::Error::Tls(_) | ureq::Error::TlsRequired => Failed::lasting("no secure connection"),
        _ => Failed::lasting("the request failed, for a reason that has no name"),
    }
}

/// Converts an error of the network. A broken pipe would be taken for one of standard output.
fn failed_io(error: io::Error) -> Failed {
    match error.downcast::<ureq::Error>() {
        Ok(error) => failed(error, None),
        Err(error) => {
            let kind = match error.kind() {
                io::ErrorKind::BrokenPipe => io::ErrorKind::ConnectionReset,
                // These kinds would be taken for errors about a file on disk.
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => io::ErrorKind::Other,
                kind => kind,
            };
            // An invalid certificate, and a name that the standard library does not find, which has no kind.
            let is_unknown = error.to_string().starts_with("failed to lookup address information");
            let is_lasting = kind == io::ErrorKind::InvalidData || is_unknown;
            let kind = if is_unknown { io::ErrorKind::HostUnreachable } else { kind };
            let is_plain = is_lasting && error.to_string().contains("InvalidContentType");
            let message = if is_plain {
                "no secure connection: the server does not speak TLS; its URL may begin with `http://`".to_owned()
            } else if kind == io::ErrorKind::UnexpectedEof {
                "the server closed the connection before its answer ended".to_owned()
            } else {
                format!("the connection failed: {error}")
            };
            let error = io::Error::new(kind, message);
            if is_lasting { Failed::Lasting(error) } else { Failed::Passing(error, None) }
        }
    }
}

/// Reads some bytes of a body.
pub(super) fn read_body(body: &mut BodyReader<'static>, bytes: &mut [u8]) -> Result<usize, Failed> {
    loop {
        match body.read(bytes) {
            Ok(read) => {
                traffic::add_bytes(read);
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed_io(error)),
        }
    }
}

/// The purpose of an agent.
#[derive(Clone, PartialEq, Eq)]
struct AgentUse {
    is_https: bool,
    is_public: bool,
    proxy: Option<Proxy>,
}

/// Returns the agent of this process, with its open connections.
///
/// A forked process makes new agents, because two processes cannot share a connection.
fn agent(of: AgentUse) -> Result<Agent, Failed> {
    /// Agents of other processes stay: closing their connections could tell the server.
    static AGENTS: Mutex<Vec<(u32, AgentUse, Agent)>> = Mutex::new(Vec::new());
    /// How often to look whether the lock is free. One held by a thread that `fork` left behind never is.
    const LOOKS: u32 = 1000;

    let process = std::process::id();
    for _ in 0..LOOKS {
        let mut agents = match AGENTS.try_lock() {
            Ok(agents) => agents,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        if let Some((.., agent)) = agents.iter().find(|(owner, known, _)| *owner == process && *known == of) {
            return Ok(agent.clone());
        }
        let agent = new_agent(&of, READ)?;
        agents.push((process, of, agent.clone()));
        return Ok(agent);
    }
    new_agent(&of, READ)
}

fn new_agent(AgentUse { is_https, is_public, proxy }: &AgentUse, read: Duration) -> Result<Agent, Failed> {
    /// As many connections as there are requests at once.
    const IDLE: usize = 32;

    let malformed = |variable| Failed::lasting(format!("the URL of the proxy in {variable} is malformed"));
    let (mut tunnel, mut forward) = (None, None);
    if let Some(Proxy { url, variable }) = proxy {
        let uri = url.uri().map_err(|_| malformed(variable))?;
        if *is_https {
            tunnel = Some(ureq::Proxy::new(&uri.to_string()).map_err(|_| malformed(variable))?);
        }
        forward = Some(uri);
    }
    let mut config = Agent::config_builder()
        .proxy(tunnel)
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("tensorfile/", env!("CARGO_PKG_VERSION")))
        // Our offsets count uncompressed bytes.
        .accept_encoding("identity")
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(HEADERS))
        .timeout_per_read(Some(read))
        .timeout_per_write(Some(read))
        // The client counts what follows an answer without a body, such as `103 Early Hints`, as headers.
        .max_response_header_size(LONGEST_HEADERS)
        .input_buffer_size(LONGEST_HEADERS)
        .max_idle_connections(IDLE)
        .max_idle_connections_per_host(IDLE);
    if *is_https || proxy.as_ref().is_some_and(|proxy| proxy.url.is_https()) {
        config = config.tls_config(TlsConfig::builder().root_certs(root_certificates()).build());
    }
    let config: Config = config.build();
    let resolver = HostResolver::new(*is_public, forward.clone());
    let forward = forward.filter(|_| !is_https);
    let connector = ServerConnector { connector: DefaultConnector::default(), forward };
    Ok(Agent::with_parts(config, connector, resolver))
}

/// Returns the certificates of the system, or the bundled ones if it has none.
fn root_certificates() -> RootCerts {
    let found = rustls_native_certs::load_native_certs().certs;
    let certificates: Vec<_> = found.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
    if certificates.is_empty() { RootCerts::WebPki } else { RootCerts::Specific(Arc::new(certificates)) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_silent_server_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = WebUrl::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let get = Get { url: &url, range: None, if_match: None, token: None, is_public: false };
        let of = AgentUse { is_https: false, is_public: false, proxy: None };
        let agent = new_agent(&of, Duration::from_millis(100)).ok().unwrap();
        match send(&agent, &get, &url, None, None) {
            Err(Failed::Passing(error, None)) => assert_eq!(error.to_string(), "no byte for 30 s"),
            _ => panic!("the server does not answer"),
        }
    }

    #[test]
    fn servers_say_when_to_ask_again() {
        let after = |headers: &[(&'static str, &str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            retry_after(&map).map(|after| after.as_secs())
        };
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (text, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(after(&[("retry-after", text), date]), expected, "{text}");
        }
        assert_eq!(after(&[date]), None);
        assert!(after(&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")]) > Some(1 << 32));
    }
}
