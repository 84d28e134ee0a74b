//! HTTP as bytes on a socket: what a browser would not send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// With the line of the status.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of the first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The headers of who has opened a link: the cookie, and the key that its page keeps.
pub(crate) fn session(entered: &Answer) -> (String, String) {
    let cookie = entered.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
    let body = String::from_utf8_lossy(&entered.body);
    let key = body.split("data-key=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a key");
    (format!("Cookie: {cookie}"), format!("x-muster-key: {key}"))
}

/// Sends a request to a port of loopback with these lines as its headers, and reads the answer.
pub(crate) fn ask(port: u16, method: &str, target: &str, headers: &[&str], body: &str) -> Answer {
    let mut stream = send(port, method, target, headers, body);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    Answer { status: status(&head), body: bytes.split_off(end + 4), head }
}

/// Sends a request whose answer does not end, and gives a reader behind its head.
pub(crate) fn stream(port: u16, target: &str, headers: &[&str]) -> BufReader<TcpStream> {
    let mut reader = BufReader::new(send(port, "GET", target, headers, ""));
    let mut head = String::new();
    while reader.read_line(&mut head).expect("a head") > 2 {}
    assert_eq!(status(&head), 200, "{head}");
    reader
}

fn send(port: u16, method: &str, target: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the page listens");
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request =
        format!("{method} {target} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the page reads");
    stream
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no status in {head:?}"))
}

/// The port of an origin.
pub(crate) fn port(origin: &str) -> u16 {
    origin.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Serves one page on a free port, whatever is asked for, for as long as the program runs.
pub(crate) fn serve(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let length = html.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{html}"
            );
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    port
}

/// What stands between a browser and a page, and can be cut.
pub(crate) struct Wire {
    pub(crate) port: u16,
    /// The open connections; none while it is cut.
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Wire {
    pub(crate) fn to(page: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = Arc::clone(&open);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let mut open = shared.lock().expect("no other thread panics");
                let Some(open) = open.as_mut() else { continue };
                let address = SocketAddr::from(([127, 0, 0, 1], page));
                let Ok(far) = TcpStream::connect(address) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (copy(from), copy(to));
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.extend([near, far]);
            }
        });
        Self { port, open }
    }

    /// Ends all connections, and refuses new ones.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().expect("no other thread panics").take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections be made again.
    pub(crate) fn mend(&self) {
        *self.open.lock().expect("no other thread panics") = Some(Vec::new());
    }
}

fn copy(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a socket can be copied")
}
