//! Files on nginx, by http, and by https with the server's own certificate. Without nginx, these tests print that they
//! are skipped; `tests/interop/setup.sh --nginx` installs it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{Session, plain, skipped, weights};

/// A running nginx, which serves the directory of a session.
struct Nginx {
    process: Child,
    http: u16,
    https: u16,
    certificate: PathBuf,
}

impl Nginx {
    fn start(session: &Session) -> Option<Self> {
        let find = |names: &[&'static str]| {
            names.iter().copied().find(|name| Command::new(name).arg("-v").stderr(Stdio::null()).status().is_ok())
        };
        let (Some(nginx), Some(openssl)) = (find(&["nginx", "/usr/sbin/nginx"]), find(&["openssl"])) else {
            skipped(format_args!("no nginx or openssl; tests/interop/setup.sh --nginx installs them"));
            return None;
        };
        let folder = session.path("nginx");
        fs::create_dir(&folder).unwrap();
        let (key, certificate) = (folder.join("key.pem"), folder.join("certificate.pem"));
        let made = Command::new(openssl)
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args([
                "-addext",
                "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .args(["-keyout".as_ref(), key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
            .stderr(Stdio::null())
            .status();
        assert!(made.unwrap().success());
        fs::write(session.path("nginx/users"), "me:{PLAIN}secret\n").unwrap();
        // Another test may take a port before nginx does.
        let start = || Self::start_at([free_port(), free_port()], nginx, session, &certificate);
        Some((0..5).find_map(|_| start()).expect("nginx starts"))
    }

    /// Starts nginx at ports for http and https. `None` if it ends, as it does if a port is taken.
    fn start_at([http, https]: [u16; 2], nginx: &str, session: &Session, certificate: &Path) -> Option<Self> {
        let folder = session.path("nginx");
        let (root, folder) = (session.folder.path().display(), folder.display());
        let config = format!(
            "daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; user root;
            events {{ worker_connections 128; }}
            http {{
                access_log {folder}/access.log; root {root};
                client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
                uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                server {{
                    listen 127.0.0.1:{http};
                    listen 127.0.0.1:{https} ssl;
                    ssl_certificate {folder}/certificate.pem;
                    ssl_certificate_key {folder}/key.pem;
                    location /old/ {{ rewrite ^/old/(.*)$ /$1 redirect; }}
                    location /downgrade {{ return 302 http://127.0.0.1:{http}/model.ptd; }}
                    location /private/ {{ auth_basic nginx; auth_basic_user_file {folder}/users; alias {root}/; }}
                }}
            }}"
        );
        let path = session.path("nginx/nginx.conf");
        fs::write(&path, config).unwrap();
        let process = Command::new(nginx)
            .args(["-c".as_ref(), path.as_os_str(), "-p".as_ref(), session.path("nginx").as_os_str()])
            .args(["-e", "stderr"])
            .stderr(Stdio::null())
            .spawn();
        let mut server = Self { process: process.unwrap(), http, https, certificate: certificate.to_owned() };
        let start = Instant::now();
        while [http, https].iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_err()) {
            assert!(start.elapsed() < Duration::from_secs(20), "nginx does not start");
            if server.process.try_wait().unwrap().is_some() {
                return None;
            }
            thread::sleep(Duration::from_millis(20));
        }
        server.process.try_wait().unwrap().is_none().then_some(server)
    }

    /// Runs command lines, in which `HTTP` and `HTTPS` are the server, and returns their output and exit codes.
    fn transcript(&self, session: &Session, certificate: Option<&Path>, lines: &[&str]) -> String {
        let [http, https] = [format!("http://127.0.0.1:{}", self.http), format!("https://localhost:{}", self.https)];
        let mut transcript = String::new();
        for line in lines {
            let line_of_server = line.replace("HTTPS", &https).replace("HTTP", &http);
            let mut command = session.command(&line_of_server.split(' ').collect::<Vec<_>>());
            command.envs(certificate.map(|certificate| ("SSL_CERT_FILE", certificate)));
            let output = plain(command.output().unwrap());
            let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let port = format!(":{}", self.http);
            let text = text.replace(&http, "HTTP").replace(&https, "HTTPS").replace(&port, ":PORT");
            let code = output.status.code().unwrap();
            let code = if code == 0 { String::new() } else { format!("[exit code {code}]\n") };
            transcript += &format!("$ tensorfile {line}\n{text}{code}\n");
        }
        transcript
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It ends its worker itself.
        let ended = Command::new("kill").arg(self.process.id().to_string()).status();
        if !ended.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn files_on_nginx_are_read() {
    let session = Session::new();
    let Some(nginx) = Nginx::start(&session) else { return };
    insta::assert_snapshot!(nginx.transcript(
        &session,
        Some(&nginx.certificate),
        &[
            "ls HTTP/model.ptd -v",
            "ls HTTPS/model.ptd?signature=secret -v",
            "show HTTPS/model.ptd halves",
            "stats HTTPS/sparse.btf",
            "hash HTTPS/model.ptd",
            "verify HTTP/model.ptd HTTPS/sparse.btf",
            "diff HTTPS/model.ptd model.ptd",
            "diff HTTPS/model.ptd HTTPS/model.ptd -v",
            "convert HTTPS/model.ptd copy.npz --filter head.*",
            "report HTTPS/model.ptd -o report.html",
            "ls HTTPS/old/model.ptd --filter head.* -v",
            "ls HTTPS/downgrade",
            "ls HTTPS/none.ptd",
            "ls HTTP/private/model.ptd",
        ]
    ));
    let user = format!("http://me:secret@127.0.0.1:{}/private/model.ptd", nginx.http);
    assert!(session.run(&["ls", &user]).status.success());
    let text = nginx.transcript(&session, None, &["ls HTTPS/model.ptd"]);
    assert!(text.contains("invalid peer certificate") && text.contains("[exit code 3]"), "{text}");
}

/// A real model if `tests/interop/setup.sh` was run, or another that takes many requests.
#[test]
fn a_model_on_nginx_is_what_it_is_on_disk() {
    let session = Session::new();
    let Some(nginx) = Nginx::start(&session) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = std::env::var_os("TENSORFILE_INTEROP").unwrap_or("target/interop".into());
    let model = root.join(folder).join("models/silero_vad_16k.safetensors");
    if fs::copy(&model, session.path("m.safetensors")).is_err() {
        let layers = (0..20).map(|i| (format!("layers.{i}.weight"), weights(&[100, 300 + i])));
        session.write("m.safetensors", &layers.collect());
    }
    for line in ["ls URL", "stats URL", "hash --tensors URL", "verify --payload URL", "info URL"] {
        let local = session.transcript(&[&line.replace("URL", "m.safetensors")]);
        let remote = nginx.transcript(&session, None, &[&line.replace("URL", "HTTP/m.safetensors")]);
        assert_eq!(remote.replace("HTTP/m.", "m."), local);
    }
    let lines = ["convert HTTP/m.safetensors m.ptd", "diff HTTP/m.safetensors m.ptd", "diff m.safetensors m.ptd"];
    let text = nginx.transcript(&session, None, &lines);
    assert!(text.matches(" equal\n").count() == 2 && !text.contains("exit code"), "{text}");
}
