//! Requests to web servers: connections, redirects, and what may be tried again.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::{HeaderMap, Request, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, BodyReader, Timeout};

use super::address::{PublicResolver, REFUSED, leads_to_private};
use super::traffic;
use super::url::WebUrl;

/// A GET request.
pub(super) struct Get<'r> {
    pub(super) url: &'r WebUrl,
    /// The first and the last byte.
    pub(super) range: Option<(u64, u64)>,
    /// The strong entity tag that the object must have.
    pub(super) if_match: Option<&'r str>,
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
    /// Adds what the headers of an answer say, unless an earlier one did.
    fn add(&mut self, headers: &HeaderMap) {
        let hex = |name: &str, len: usize| {
            let value = text(headers, name)?.trim_matches('"');
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
        let (head, body) = send(&agent(url.is_https(), is_public), get, &url, token)?.into_parts();
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
        let target = text(&head.headers, "location").ok_or_else(|| Failed::lasting("it redirects to nowhere"))?;
        let next = url.join(target).map_err(|what| Failed::lasting(format!("it redirects to a bad URL: {what}")))?;
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

/// Sends one request.
fn send(agent: &Agent, get: &Get<'_>, url: &WebUrl, token: Option<&str>) -> Result<Response<Body>, Failed> {
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
    traffic::add_request();
    agent.run(request.body(()).map_err(malformed)?).map_err(failed)
}

/// Returns the text of a header.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Returns the failure that a status means.
pub(super) fn failed_status(status: StatusCode, headers: &HeaderMap) -> Failed {
    let kind = match status.as_u16() {
        401 | 403 | 407 => io::ErrorKind::PermissionDenied,
        404 | 410 => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let error = io::Error::new(kind, format!("the server answers {}{reason}", status.as_u16()));
    let is_passing = matches!(status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504);
    if !is_passing {
        return Failed::Lasting(error);
    }
    let asked = text(headers, "retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let error = match asked {
        Some(asked) if asked > Retries::LONGEST => {
            io::Error::new(kind, format!("{error}; it may be asked again in {} s", asked.as_secs()))
        }
        _ => error,
    };
    Failed::Passing(error, asked)
}

/// The time for making a connection, and for waiting for the next byte.
const CONNECT: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(30);

fn failed(error: ureq::Error) -> Failed {
    match error {
        ureq::Error::Io(error) => failed_io(error),
        ureq::Error::Timeout(timeout) => {
            let message = match timeout {
                Timeout::Resolve | Timeout::Connect => format!("no connection within {} s", CONNECT.as_secs()),
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
        ureq::Error::ConnectProxyFailed(_) => Failed::lasting("the proxy refuses the connection"),
        ureq::Error::InvalidProxyUrl => Failed::lasting("the URL of the proxy is malformed"),
        // Their messages do not have the URL.
        ureq::Error::Protocol(error) => Failed::passing(format!("the answer is malformed: {error}")),
        _ => Failed::lasting("the request failed"),
    }
}

/// Converts an error of the network. A broken pipe would be taken for one of standard output.
fn failed_io(error: io::Error) -> Failed {
    match error.downcast::<ureq::Error>() {
        Ok(error) => failed(error),
        Err(error) => {
            let kind = match error.kind() {
                io::ErrorKind::BrokenPipe => io::ErrorKind::ConnectionReset,
                // A missing file is none of the network.
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => io::ErrorKind::Other,
                kind => kind,
            };
            // An invalid certificate, and a name that the standard library does not find, which has no kind.
            let is_unknown = error.to_string().starts_with("failed to lookup address information");
            let is_lasting = kind == io::ErrorKind::InvalidData || is_unknown;
            let kind = if is_unknown { io::ErrorKind::HostUnreachable } else { kind };
            let error = io::Error::new(kind, format!("the connection failed: {error}"));
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

/// An agent, and what it is for.
struct AgentOf {
    process: u32,
    is_https: bool,
    is_public: bool,
    agent: Agent,
}

/// Returns the agent of this process, with its open connections.
///
/// A process made by `fork` has agents of its own: two processes cannot share a connection.
fn agent(is_https: bool, is_public: bool) -> Agent {
    /// Agents of other processes stay: closing their connections could tell the server.
    static AGENTS: Mutex<Vec<AgentOf>> = Mutex::new(Vec::new());
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
        let is_it = |of: &&AgentOf| (of.process, of.is_https, of.is_public) == (process, is_https, is_public);
        if let Some(found) = agents.iter().find(is_it) {
            return found.agent.clone();
        }
        let agent = new_agent(is_https, is_public, READ);
        agents.push(AgentOf { process, is_https, is_public, agent: agent.clone() });
        return agent;
    }
    new_agent(is_https, is_public, READ)
}

fn new_agent(is_https: bool, is_public: bool, read: Duration) -> Agent {
    /// As many connections as there are requests at once.
    const IDLE: usize = 32;

    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("tensorfile/", env!("CARGO_PKG_VERSION")))
        // Offsets are those of the file, not of its compressed form.
        .accept_encoding("identity")
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(read))
        .timeout_per_write(Some(read))
        .max_idle_connections(IDLE)
        .max_idle_connections_per_host(IDLE);
    if is_https {
        config = config.tls_config(TlsConfig::builder().root_certs(root_certificates()).build());
    }
    let config: Config = config.build();
    if is_public {
        Agent::with_parts(config, DefaultConnector::default(), PublicResolver::default())
    } else {
        Agent::with_parts(config, DefaultConnector::default(), DefaultResolver::default())
    }
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
        let agent = new_agent(false, false, Duration::from_millis(100));
        match send(&agent, &get, &url, None) {
            Err(Failed::Passing(error, None)) => assert_eq!(error.to_string(), "no byte for 30 s"),
            _ => panic!("the server does not answer"),
        }
    }
}
