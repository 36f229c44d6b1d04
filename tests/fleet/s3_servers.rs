//! Real S3 servers for tests, on ports of their own.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::programs::{find, free_port};
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

    pub fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
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

/// Sends a request with a signature that moto does not check.
pub fn http(method: &str, url: &str) -> (u16, String) {
    let agent = ureq::Agent::new_with_config(
        ureq::Agent::config_builder().http_status_as_error(false).build(),
    );
    let auth = (
        "Authorization",
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
    );
    let answer = match method {
        "PUT" => agent.put(url).header(auth.0, auth.1).send_empty(),
        _ => agent.get(url).header(auth.0, auth.1).call(),
    };
    let mut answer = answer.unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
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
