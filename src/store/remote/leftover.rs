//! What processes that were killed left in a store: uploads in parts that nobody completes. They are invisible, and cost money.

use super::client::Uploading;
use super::directory::RemoteStore;
use super::location::{Location, Scheme};
use super::problem::{Failure, Problem};
use super::{runtime, web};
use chrono::{DateTime, Utc};
use ckpt_api::{Error, Result};
use object_store::path::Path as Key;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// An upload that was begun, and neither completed nor given up. Its process may still be running.
pub struct Leftover {
    store: RemoteStore,
    writer: Arc<dyn Uploading>,
    key: Key,
    upload: Upload,
}

impl std::fmt::Debug for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leftover").field("address", &self.address()).field("begun", &self.begun()).finish()
    }
}

impl Leftover {
    /// The address of the file that was being written.
    pub fn address(&self) -> String {
        format!(
            "{}://{}/{}",
            self.store.0.location.scheme.name(),
            self.store.0.location.root,
            self.upload.key
        )
    }

    /// When it was begun, as the store says it: `2026-11-20T10:00:00.000Z`.
    pub fn begun(&self) -> &str {
        &self.upload.initiated
    }

    /// How long ago that is; `None` where the store's time cannot be read.
    pub fn age(&self) -> Option<Duration> {
        let begun = DateTime::parse_from_rfc3339(&self.upload.initiated).ok()?;
        // A clock that is behind the store's makes nothing older.
        Some(Utc::now().signed_duration_since(begun).to_std().unwrap_or_default())
    }

    /// Removes it. A process that is still writing it fails.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`].
    pub fn remove(&self) -> Result<()> {
        let (writer, key, id) = (self.writer.clone(), self.key.clone(), self.upload.upload_id.clone());
        let removed =
            runtime::wait(async move { writer.abort_multipart(&key, &id).await.map_err(Problem::from) })?;
        match removed {
            // Somebody else was faster.
            Err(problem) if problem.failure == Failure::Missing => Ok(()),
            removed => removed.map_err(|problem| {
                problem.error(
                    "cannot remove an unfinished upload",
                    &self.address(),
                    self.store.0.location.scheme,
                )
            }),
        }
    }
}

/// The unfinished uploads of files whose addresses begin with `address`, in the order of their addresses. S3 alone can be
/// asked for them.
///
/// ```no_run
/// # fn main() -> ckpt::Result<()> {
/// for leftover in ckpt::store::leftovers("s3://bucket/run7/")? {
///     println!("{} {}", leftover.address(), leftover.begun());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for what is no address of a remote store, [`ckpt_api::Kind::Unsupported`] for a store that does
/// not say, [`ckpt_api::Kind::Io`].
pub fn leftovers(address: &str) -> Result<Vec<Leftover>> {
    let location = Location::parse(address)?.ok_or_else(|| {
        Error::usage("this is no address of a remote store")
            .file(address)
            .expected("an address such as s3://bucket/run7/")
            .help(
                "on a file system, the next conversion to the same output removes what a killed process left",
            )
    })?;
    let store = RemoteStore::open(location.split().0)?;
    let writer = store.writer()?;
    let Some(signer) = store.0.client.signer.clone() else { return Err(unasked(&location)) };
    let slash = if location.is_directory() && !location.path.is_empty() { "/" } else { "" };
    let prefix = format!("{}{slash}", location.path);
    let found = runtime::wait(async move { uploads(&*signer, &prefix).await })?;
    let failed = |problem: Problem| {
        problem.error("cannot list unfinished uploads", &location.address(), location.scheme)
    };
    let keyed = |upload: Upload| {
        let key = Key::parse(&upload.key).map_err(|error| Problem::from(object_store::Error::from(error)))?;
        Ok(Leftover { store: store.clone(), writer: writer.clone(), key, upload })
    };
    found.and_then(|found| found.into_iter().map(keyed).collect()).map_err(failed)
}

/// The error for a store that cannot be asked.
fn unasked(location: &Location) -> Error {
    let help = match location.scheme {
        Scheme::Az => "Azure removes what was not committed after a week",
        Scheme::Gs => "give the bucket a lifecycle rule with the action AbortIncompleteMultipartUpload",
        _ => "nothing of a killed process stays there",
    };
    Error::unsupported("this store does not list unfinished uploads").file(location.address()).help(help)
}

/// The answer of S3 to a request for unfinished uploads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Page {
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
    #[serde(rename = "Upload")]
    uploads: Vec<Upload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Upload {
    key: String,
    upload_id: String,
    #[serde(default)]
    initiated: String,
}

async fn uploads(signer: &dyn Signer, prefix: &str) -> Result<Vec<Upload>, Problem> {
    /// Each has up to a thousand.
    const PAGES: usize = 1000;
    /// How long a signature is good.
    const VALID: Duration = Duration::from_secs(300);
    let mut found = Vec::new();
    let (mut key, mut id) = (String::new(), String::new());
    for _ in 0..PAGES {
        let mut query = vec![("uploads", ""), ("prefix", prefix)];
        if !key.is_empty() {
            query.extend([("key-marker", key.as_str()), ("upload-id-marker", id.as_str())]);
        }
        let options = SignedUrlOptions::new().with_query(query);
        let url = signer.signed_url_opts(Method::GET, &Key::default(), VALID, &options).await?;
        let client = web::client(url.scheme() == "http")?;
        let answer = web::answer(client.get(url), "the store").await?.granted("the store")?;
        let page = read(&answer.body)?;
        found.extend(page.uploads);
        if !page.is_truncated || page.next_key_marker.is_empty() {
            return Ok(found);
        }
        (key, id) = (page.next_key_marker, page.next_upload_id_marker);
    }
    Err(Problem::new(Failure::Other, "there are more than a million unfinished uploads"))
}

fn read(body: &[u8]) -> Result<Page, Problem> {
    quick_xml::de::from_reader(body).map_err(|error| {
        Problem::new(Failure::Other, format!("the store's answer cannot be understood: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;

    #[test]
    fn an_answer_names_uploads_and_where_the_next_page_begins() {
        let page = read(
            b"<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
              <Bucket>b</Bucket><NextKeyMarker>m&amp;n</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker>\
              <IsTruncated>true</IsTruncated><Upload><Key>a</Key><UploadId>1</UploadId><Owner><ID>x</ID></Owner>\
              <Initiated>2026-11-20T10:00:00.000Z</Initiated></Upload><Upload><Key>m&amp;n</Key><UploadId>2</UploadId>\
              </Upload></ListMultipartUploadsResult>",
        )
        .unwrap();
        let keys: Vec<&str> = page.uploads.iter().map(|upload| upload.key.as_str()).collect();
        assert_eq!((keys, page.is_truncated), (vec!["a", "m&n"], true));
        assert_eq!((page.next_key_marker.as_str(), page.next_upload_id_marker.as_str()), ("m&n", "2"));
        assert_eq!(page.uploads[0].initiated, "2026-11-20T10:00:00.000Z");
        assert!(read(b"<ListMultipartUploadsResult/>").unwrap().uploads.is_empty());
    }

    #[test]
    fn an_answer_that_is_none_is_an_error() {
        for body in [&b""[..], b"no", b"<a><b></a>", b"<R><Upload><Key>a</Key></Upload></R>", b"\xff\xfe"] {
            assert!(read(body).is_err(), "{:?}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_store_that_does_not_list_uploads_and_a_path_are_refused() {
        assert_eq!(leftovers("memory://leftovers/a").unwrap_err().kind(), Kind::Unsupported);
        assert_eq!(leftovers("models/m.npz").unwrap_err().kind(), Kind::Usage);
        assert_eq!(leftovers("https://host/m.npz").unwrap_err().kind(), Kind::Unsupported);
    }
}
