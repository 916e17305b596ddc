//! A web server that does what a test tells it to.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is wrong with the next answer.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The body lacks its last bytes, and the header says that it has no more.
    Short(usize),
    /// The connection is closed half-way through the body.
    Cut,
    /// Another status, with a text.
    Status(u16, &'static str),
    /// Nothing comes after the header.
    Stall,
    /// The answer is right.
    Nothing,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) files: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(super) faults: Mutex<VecDeque<Fault>>,
    /// The requests so far: the first line, and the value of the header `Range`, if any.
    pub(super) requests: Mutex<Vec<(String, String)>>,
    /// Part of every ETag: another one for every version.
    pub(super) version: AtomicUsize,
    pub(super) ignores_ranges: AtomicBool,
    pub(super) ignores_conditions: AtomicBool,
    pub(super) delay: Mutex<Duration>,
    busy: AtomicUsize,
    pub(super) most_busy: AtomicUsize,
}

/// A server on a port of its own, for as long as the test runs.
pub(super) struct Server {
    pub(super) shared: Arc<Shared>,
    port: u16,
}

impl Server {
    pub(super) fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        shared
            .files
            .lock()
            .unwrap()
            .extend(files.iter().map(|(name, bytes)| (format!("/{name}"), bytes.clone())));
        let own = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = own.clone();
                std::thread::spawn(move || drop(answer(&shared, stream)));
            }
        });
        Server { shared, port }
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(super) fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.shared.faults.lock().unwrap().extend(faults);
    }

    /// Replaces the content of a file by one of the same length.
    pub(super) fn change(&self, name: &str) {
        let mut files = self.shared.files.lock().unwrap();
        files.get_mut(&format!("/{name}")).unwrap().iter_mut().for_each(|byte| *byte = !*byte);
        self.shared.version.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn requests(&self) -> Vec<(String, String)> {
        self.shared.requests.lock().unwrap().clone()
    }
}

fn answer(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let range = headers.get("range").cloned().unwrap_or_default();
    shared.requests.lock().unwrap().push((first.trim().to_owned(), range.clone()));
    let busy = shared.busy.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most_busy.fetch_max(busy, Ordering::SeqCst);
    let delay = *shared.delay.lock().unwrap();
    std::thread::sleep(delay);
    shared.busy.fetch_sub(1, Ordering::SeqCst);
    let fault = shared.faults.lock().unwrap().pop_front().unwrap_or(Fault::Nothing);
    if let Fault::Status(status, text) = fault {
        return write!(
            stream,
            "HTTP/1.1 {status} Fault\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
    }
    let path =
        first.split_whitespace().nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let Some(bytes) = shared.files.lock().unwrap().get(&path).cloned() else {
        return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    let etag = format!("\"v{}\"", shared.version.load(Ordering::SeqCst));
    let is_other = headers.get("if-match").is_some_and(|wanted| *wanted != etag);
    if is_other && !shared.ignores_conditions.load(Ordering::SeqCst) {
        return write!(
            stream,
            "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let is_whole = range.is_empty() || shared.ignores_ranges.load(Ordering::SeqCst);
    let (status, own, content_range) = match parse(&range).filter(|_| !is_whole) {
        Some((start, _)) if start >= bytes.len() => {
            return write!(stream, "HTTP/1.1 416 Range\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        Some((start, end)) => {
            let end = end.min(bytes.len() - 1);
            let header = format!("Content-Range: bytes {start}-{end}/{}\r\n", bytes.len());
            ("206 Partial Content", &bytes[start..=end], header)
        }
        None => ("200 OK", &bytes[..], String::new()),
    };
    let sent = match fault {
        Fault::Short(less) => own.len().saturating_sub(less),
        _ => own.len(),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nETag: {etag}\r\n{content_range}Content-Length: {sent}\r\nConnection: close\r\n\r\n"
    )?;
    match fault {
        Fault::Stall => {
            // Until the client gives up.
            let _ = reader.read(&mut [0; 1]);
            Ok(())
        }
        Fault::Cut => stream.write_all(&own[..sent / 2]),
        _ if first.starts_with("HEAD") => Ok(()),
        _ => stream.write_all(&own[..sent]),
    }
}

/// `bytes=0-9`: the first and the last byte.
fn parse(range: &str) -> Option<(usize, usize)> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}
