//! The unfinished uploads of a bucket, for which S3 can be asked.

use super::problem::{Failure, Problem};
use super::web;
use object_store::path::Path as Key;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use serde::Deserialize;
use std::time::Duration;

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
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) upload_id: String,
    /// When it was begun.
    #[serde(default)]
    pub(super) initiated: String,
}

/// The unfinished uploads of objects whose keys begin so.
pub(super) async fn uploads(signer: &dyn Signer, prefix: &str) -> Result<Vec<Upload>, Problem> {
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
}
