//! Real S3 servers for tests, on ports of their own.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::programs::{find, free_port, free_ports};
use crate::support::until;

/// A server that stops when it is dropped.
pub struct S3Server {
    process: Child,
    pub url: String,
    /// The files of a server that serves a folder.
    pub files: TempDir,
}

impl S3Server {
    /// moto, which checks the conditions of puts. `None` where it is not installed.
    pub fn moto() -> Option<Self> {
        Self::start("moto_server", |port, _| {
            ["-H", "127.0.0.1", "-p", port].map(OsString::from).into()
        })
    }

    /// `rclone serve s3`, which ignores them. `None` where it is not installed.
    pub fn rclone() -> Option<Self> {
        Self::start("rclone", |port, files| {
            let address = format!("127.0.0.1:{port}");
            let mut arguments =
                ["serve", "s3", "--config", "", "--addr", &address].map(OsString::from).to_vec();
            arguments.push(files.into());
            arguments
        })
    }

    fn start(name: &str, arguments: impl Fn(&str, &Path) -> Vec<OsString>) -> Option<Self> {
        let program = find(name)?;
        let files = tempfile::tempdir().unwrap();
        std::fs::create_dir(files.path().join("vaults")).unwrap();
        let port = free_port();
        let process = Command::new(program)
            .args(arguments(&port.to_string(), files.path()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { process, url: format!("http://127.0.0.1:{port}"), files })
    }
}

/// SeaweedFS, an S3 server that keeps its objects in a folder and checks the conditions of puts. It
/// stops when it is dropped.
pub struct DurableS3Server {
    command: Command,
    process: Child,
    pub url: String,
    /// Has the objects.
    _files: TempDir,
}

impl DurableS3Server {
    /// `None` where it is not installed.
    pub fn start() -> Option<Self> {
        let program = find("weed")?;
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        let names = ["master", "volume", "filer", "s3"].map(|it| [it.into(), format!("{it}.grpc")]);
        let ports: [u16; 8] = free_ports();
        let ports = names.iter().flatten().zip(&ports);
        let mut command = Command::new(program);
        command
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"])
            .args(ports.clone().map(|(name, port)| match name.split_once('.') {
                None => format!("-{name}.port={port}"),
                Some((name, kind)) => format!("-{name}.port.{kind}={port}"),
            }))
            // Without these it would listen on further fixed ports, and send figures to its makers.
            .args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"])
            .args(["-master.electionTimeout=1s", "-master.volumeSizeLimitMB=64", "-volume.max=64"])
            .arg(format!("-filer.localSocket={}", path("filer.sock")))
            .arg(format!("-s3.localSocket={}", path("s3.sock")))
            .arg(format!("-dir={}", path("")))
            .current_dir(files.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let port = ports.clone().find(|(name, _)| *name == "s3").unwrap().1;
        let url = format!("http://127.0.0.1:{port}");
        let process = command.spawn().unwrap();
        Some(Self { command, process, url, _files: files })
    }

    /// Waits until objects can be put into the bucket `vaults`. It accepts connections some seconds before that.
    pub fn wait(&self) {
        until("SeaweedFS is ready", || self.is_ready());
    }

    /// Whether objects can be put into the bucket, which is created if it is missing.
    pub fn is_ready(&self) -> bool {
        let put = |path, body| try_http("PUT", &format!("{}/{path}", self.url), body);
        put("vaults", "").is_ok() && put("vaults/ready", "1").is_ok_and(|it| it.0 == 200)
    }

    /// Kills it, and starts it with the same ports and objects.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = self.command.spawn().unwrap();
    }

    pub fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }
}

impl Drop for DurableS3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The address of a server that answers requests by their method.
pub fn answering(answer: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut lines = std::iter::from_fn(|| request.next()?.ok());
            let Some(first) = lines.next() else { continue };
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            let method = first.split(' ').next().unwrap_or_default();
            let _ = stream.write_all(answer(method).as_bytes());
        }
    });
    url
}

/// A signature that moto and SeaweedFS do not check.
pub const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Sends a request.
pub fn http(method: &str, url: &str) -> (u16, String) {
    try_http(method, url, "").unwrap()
}

/// As [`http`]; an error if there is no answer.
fn try_http(method: &str, url: &str, body: &str) -> Result<(u16, String), ureq::Error> {
    let agent = ureq::Agent::new_with_config(
        ureq::Agent::config_builder().http_status_as_error(false).build(),
    );
    let auth = ("Authorization", AUTHORIZATION);
    let answer = match method {
        "PUT" => agent.put(url).header(auth.0, auth.1).send(body),
        _ => agent.get(url).header(auth.0, auth.1).call(),
    };
    let mut answer = answer?;
    Ok((answer.status().as_u16(), answer.body_mut().read_to_string()?))
}

/// Creates a bucket on a server.
pub fn create_bucket(server: &str, name: &str) {
    assert_eq!(http("PUT", &format!("{server}/{name}")).0, 200);
}

/// The answer of a server that refuses a request.
pub fn refusal(status: &str, code: &str, message: &str) -> String {
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
