//! One version of one object: every byte that is read is of this version.

use super::client::Client;
use super::location::Scheme;
use super::problem::{Failure, Problem, chain};
use super::transfer_buffer::TransferBuffer;
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStoreExt};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the first read: the headers of most files.
pub(super) const HEAD: u64 = 64 << 10;
/// How often a range is asked for whose answer ends early.
const ATTEMPTS: u32 = 5;

/// An object, as it was when it was looked up.
pub(super) struct Object {
    /// No other object of the process has this number.
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) address: String,
    pub(super) scheme: Scheme,
    client: Client,
    path: Path,
    etag: Option<String>,
    /// Milliseconds since 1970, if the server says when it was written.
    modified: i64,
    /// Where the last read ended that nobody had announced, and how many followed each other before it.
    pub(super) last: AtomicU64,
    pub(super) streak: AtomicU64,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("address", &self.address).field("size", &self.size).finish()
    }
}

/// What an address has.
pub(super) enum Looked {
    Nothing,
    /// An object and its first bytes.
    Object(Object, TransferBuffer),
    /// A file that the server sends as a whole.
    Whole(Whole),
}

/// Looks an object up by reading its first bytes: the answer has its size and its version, too.
pub(super) async fn look(
    client: Client,
    path: Path,
    address: String,
    scheme: Scheme,
) -> Result<Looked, Problem> {
    let mut attempt = 0;
    loop {
        let options = GetOptions { range: Some(GetRange::Bounded(0..HEAD)), ..GetOptions::default() };
        let problem = match client.objects.get_opts(&path, options).await {
            Ok(answer) => {
                let meta = answer.meta.clone();
                match body(answer, meta.size.min(HEAD)).await {
                    Ok(head) => {
                        return Ok(Looked::Object(Object::new(client, path, address, scheme, meta), head));
                    }
                    Err(problem) => problem,
                }
            }
            Err(error) => {
                let problem = Problem::from(error);
                match problem.failure {
                    Failure::Missing => return Ok(Looked::Nothing),
                    Failure::NoRanges => {
                        let known = client.objects.head(&path).await.ok();
                        return Ok(Looked::Whole(Whole {
                            address,
                            scheme,
                            client,
                            path,
                            known,
                            file: OnceLock::new(),
                        }));
                    }
                    Failure::Denied => return Err(problem),
                    // No range of an empty object can be read.
                    _ => match client.objects.head(&path).await {
                        Ok(meta) if meta.size == 0 => {
                            return Ok(Looked::Object(
                                Object::new(client, path, address, scheme, meta),
                                TransferBuffer::Small(Vec::new()),
                            ));
                        }
                        _ => return Err(problem),
                    },
                }
            }
        };
        attempt += 1;
        if attempt >= ATTEMPTS {
            return Err(problem);
        }
        pause(attempt).await;
    }
}

impl Object {
    fn new(client: Client, path: Path, address: String, scheme: Scheme, meta: ObjectMeta) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Object {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            size: meta.size,
            address,
            scheme,
            client,
            path,
            etag: meta.e_tag,
            modified: meta.last_modified.timestamp_millis(),
            last: AtomicU64::new(0),
            streak: AtomicU64::new(0),
        }
    }

    /// What the version is known by.
    pub(super) fn identity(&self) -> String {
        identity_of(self.size, self.etag.as_deref(), self.modified)
    }

    /// The bytes of a range, all of this version. An answer that ends early is asked for again.
    pub(super) async fn fetch(&self, range: Range<u64>) -> Result<TransferBuffer, Problem> {
        let mut attempt = 0;
        loop {
            match self.fetch_once(range.clone()).await {
                Err(problem) if problem.failure == Failure::Short && attempt + 1 < ATTEMPTS => attempt += 1,
                fetched => return fetched,
            }
            pause(attempt).await;
        }
    }

    async fn fetch_once(&self, range: Range<u64>) -> Result<TransferBuffer, Problem> {
        let len = range.end.saturating_sub(range.start);
        // A weak ETag identifies no bytes, and no server compares it.
        let condition =
            self.etag.clone().filter(|etag| self.client.has_conditions && !etag.starts_with("W/"));
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: condition,
            ..GetOptions::default()
        };
        let answer = self.client.objects.get_opts(&self.path, options).await?;
        self.check(&answer.meta)?;
        body(answer, len).await
    }

    /// Refuses the answer about another version.
    fn check(&self, meta: &ObjectMeta) -> Result<(), Problem> {
        let changed = |what: String| Err(Problem::new(Failure::Changed, what));
        if meta.size != self.size {
            return changed(format!("it had {} bytes, and has {} now", self.size, meta.size));
        }
        match (&self.etag, &meta.e_tag) {
            (Some(before), Some(now)) if before != now => {
                changed(format!("its ETag was {before}, and is {now} now"))
            }
            (None, None)
                if self.modified != meta.last_modified.timestamp_millis() && self.modified_is_known(meta) =>
            {
                changed("it was written since".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether both answers say when the object was written: where one does not, it gets the beginning of all time.
    fn modified_is_known(&self, meta: &ObjectMeta) -> bool {
        self.modified != 0 && meta.last_modified.timestamp_millis() != 0
    }
}

/// The body of an answer, which must have this length: some answers are shorter, and look complete.
async fn body(answer: GetResult, len: u64) -> Result<TransferBuffer, Problem> {
    let short = |found: usize| {
        Problem::new(Failure::Short, format!("the answer has {found} bytes, and {len} were asked for"))
    };
    let size = usize::try_from(len).map_err(|_| short(0))?;
    let mut bytes =
        TransferBuffer::zeroed(size).map_err(|error| Problem::new(Failure::Other, error.to_string()))?;
    let mut filled = 0_usize;
    let mut stream = answer.into_stream();
    while let Some(more) = stream.next().await {
        let more = more.map_err(|error| Problem::new(Failure::Short, chain(&error)))?;
        let end = filled.saturating_add(more.len());
        let Some(place) = bytes.get_mut(filled..end) else { return Err(short(end)) };
        place.copy_from_slice(&more);
        filled = end;
    }
    if filled == size { Ok(bytes) } else { Err(short(filled)) }
}

/// Waits before the next attempt: longer each time, and not as long as others that failed at the same moment.
pub(super) async fn pause(attempt: u32) {
    let longest = Duration::from_millis(100 << attempt.min(6));
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), attempt);
    tokio::time::sleep(longest / 2 + longest.mul_f64((random % 512) as f64 / 1024.0)).await;
}

/// What a version is known by: its ETag, or when it was written if there is none.
fn identity_of(size: u64, etag: Option<&str>, modified: i64) -> String {
    match etag {
        Some(etag) => format!("{size:x}-{etag}"),
        None => format!("{size:x}-{modified:x}"),
    }
}

fn identity_of_meta(meta: &ObjectMeta) -> String {
    identity_of(meta.size, meta.e_tag.as_deref(), meta.last_modified.timestamp_millis())
}

/// A file of a server that sends no ranges: it is downloaded to this machine when it is first read.
pub(super) struct Whole {
    pub(super) address: String,
    pub(super) scheme: Scheme,
    client: Client,
    path: Path,
    /// What the server says of the file without sending it.
    known: Option<ObjectMeta>,
    file: OnceLock<Result<(fs::File, String), Problem>>,
}

impl fmt::Debug for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Whole {
    /// The file on this machine.
    pub(super) fn file(&self) -> Result<&fs::File, Problem> {
        self.downloaded().map(|(file, _)| file)
    }

    fn downloaded(&self) -> Result<&(fs::File, String), Problem> {
        let downloaded = self.file.get_or_init(|| {
            let download = download(self.client.clone(), self.path.clone());
            let waited = super::runtime::wait(download);
            let (file, identity) =
                waited.map_err(|error| Problem::new(Failure::Other, error.to_string()))??;
            match self.known.as_ref().map(identity_of_meta) {
                Some(known) if known != identity => {
                    Err(Problem::new(Failure::Changed, format!("it was {known}, and is {identity} now")))
                }
                _ => Ok((file, identity)),
            }
        });
        downloaded.as_ref().map_err(Clone::clone)
    }

    /// Bytes in it.
    pub(super) fn size(&self) -> Result<u64, Problem> {
        let measure = |file: &fs::File| file.metadata().map(|meta| meta.len());
        match &self.known {
            Some(known) => Ok(known.size),
            None => measure(self.file()?).map_err(|error| Problem::new(Failure::Other, error.to_string())),
        }
    }

    /// What the version is known by.
    pub(super) fn identity(&self) -> Option<String> {
        match &self.known {
            Some(known) => Some(identity_of_meta(known)),
            None => self.downloaded().ok().map(|(_, identity)| identity.clone()),
        }
    }
}

/// Copies all of an object to a file that has no name; returns what its version is known by, too.
async fn download(client: Client, path: Path) -> Result<(fs::File, String), Problem> {
    let mut attempt = 0;
    loop {
        let answer = client.objects.get_opts(&path, GetOptions::default()).await?;
        let (meta, mut file) = (answer.meta.clone(), tempfile::tempfile().map_err(cannot_keep)?);
        let problem = match copy(answer, &mut file).await {
            Ok(written) if written == meta.size => return Ok((file, identity_of_meta(&meta))),
            Ok(written) => Problem::new(Failure::Short, format!("{written} of {} bytes came", meta.size)),
            Err(problem) => problem,
        };
        attempt += 1;
        if problem.failure != Failure::Short || attempt >= ATTEMPTS {
            return Err(problem);
        }
        pause(attempt).await;
    }
}

/// Writes the body of an answer to a file, and returns its length.
async fn copy(answer: GetResult, file: &mut fs::File) -> Result<u64, Problem> {
    let mut written = 0_u64;
    let mut stream = answer.into_stream();
    while let Some(more) = stream.next().await {
        let more = more.map_err(|error| Problem::new(Failure::Short, chain(&error)))?;
        file.write_all(&more).map_err(cannot_keep)?;
        written = written.saturating_add(more.len() as u64);
    }
    Ok(written)
}

fn cannot_keep(error: io::Error) -> Problem {
    let place = std::env::temp_dir();
    Problem::new(Failure::Other, format!("cannot write a temporary file in {}: {error}", place.display()))
}
