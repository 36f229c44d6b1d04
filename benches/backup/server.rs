//! A server of static pages on the loopback: it does nothing but find the page
//! and write it, over kept connections.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::account::Site;

/// A running server; it ends with the program.
pub struct Server {
    pub url: String,
    site: Arc<Mutex<Arc<Site>>>,
}

impl Server {
    pub fn start(site: Site) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(Mutex::new(Arc::new(site)));
        let shared = Arc::clone(&site);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = Arc::clone(&shared.lock().unwrap());
                std::thread::spawn(move || serve(&stream, &site));
            }
        });
        Self { url, site }
    }

    /// Serves `site` to all who connect from now on.
    pub fn publish(&self, site: Site) {
        *self.site.lock().unwrap() = Arc::new(site);
    }
}

fn serve(stream: &TcpStream, site: &Site) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    let (mut request, mut header) = (String::new(), String::new());
    loop {
        request.clear();
        if reader.read_line(&mut request).ok()? == 0 {
            return None;
        }
        loop {
            header.clear();
            reader.read_line(&mut header).ok()?;
            if header.trim_end().is_empty() {
                break;
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let answer = site.answer(path).unwrap_or(NOT_FOUND);
        (&mut &*stream).write_all(answer).ok()?;
    }
}

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
