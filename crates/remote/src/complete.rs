//! Completes an upload in parts only if nothing has its name: a request of S3 for which the client has no function.

use super::problem::{Failure, Problem};
use super::web;
use object_store::path::Path as Key;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use quick_xml::escape::escape;
use reqwest::header::IF_NONE_MATCH;
use std::fmt::Write;
use std::time::Duration;

/// How long a signature is good: S3 takes minutes to put ten thousand parts together, and answers then.
const VALID: Duration = Duration::from_secs(900);

/// Makes an object of the parts of an upload if its name is free. `None` if the store does not know such a condition, or
/// parts have checksums, which only the client can repeat: then nothing was made.
///
/// # Errors
/// [`Failure::Exists`] where the name is not free.
pub(super) async fn complete_new(
    signer: &dyn Signer,
    key: &Key,
    id: &str,
    parts: &[String],
) -> Result<Option<()>, Problem> {
    let Some(list) = list(parts) else { return Ok(None) };
    let options = SignedUrlOptions::new().with_query([("uploadId", id)]);
    let url = signer.signed_url_opts(Method::POST, key, VALID, &options).await?;
    let client = web::client(url.scheme() == "http")?;
    let request = client.post(url).timeout(VALID).header(IF_NONE_MATCH, "*").body(list);
    let answer = web::answer(request, "the store").await?;
    match answer.status {
        409 | 412 => Err(Problem::new(Failure::Exists, "another writer has created it")),
        // A store that does not know the condition.
        400 | 501 => Ok(None),
        _ => {
            let body = String::from_utf8_lossy(&answer.granted("the store")?.body).into_owned();
            // S3 answers before it has put the parts together, and says at the end what went wrong.
            match body.contains("<Error>") {
                true => Err(Problem::new(Failure::Other, super::redacted::cleaned_answer(&body))),
                false => Ok(Some(())),
            }
        }
    }
}

/// The parts as S3 wants to be told of them; `None` for parts with checksums.
fn list(parts: &[String]) -> Option<String> {
    let mut text = "<CompleteMultipartUpload>".to_owned();
    for (number, part) in parts.iter().enumerate() {
        if part.contains('<') {
            return None;
        }
        let _ = write!(
            text,
            "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>",
            number + 1,
            escape(part.as_str())
        );
    }
    Some(text + "</CompleteMultipartUpload>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_one_and_named_by_their_etags() {
        assert_eq!(
            list(&["\"a\"".to_owned(), "b&c".to_owned()]).unwrap(),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag></Part>\
             <Part><PartNumber>2</PartNumber><ETag>b&amp;c</ETag></Part></CompleteMultipartUpload>"
        );
    }

    #[test]
    fn parts_with_checksums_are_left_to_the_client() {
        assert_eq!(list(&["<PartMetadata/>".to_owned()]), None);
    }
}
