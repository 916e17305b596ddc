//! What goes wrong with a request, for people: the whole chain of causes, and no secret of any of them.

use super::location::Scheme;
use super::redacted::{cleaned, secrets};
use ckpt_api::{Error, Text, text};
use ckpt_engine::settings;
use std::error::Error as StdError;
use std::io;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Missing,
    Denied,
    /// The object is another one than when it was opened.
    Changed,
    /// The object exists, and should not.
    Exists,
    /// The server answers with the whole file where a range was asked for.
    NoRanges,
    /// The answer ended early: asking again may help.
    Short,
    Other,
}

/// Why a request failed. Several readers may wait for one request, so it can be cloned.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) failure: Failure,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(failure: Failure, text: impl Into<String>) -> Self {
        Problem { failure, text: text.into() }
    }

    /// The error about the file at `address`; `doing` is what failed, as in "cannot read the file".
    pub(super) fn error(&self, doing: &str, address: &str, scheme: Scheme) -> Error {
        let text = self.text.as_str();
        let because = |kind: io::ErrorKind| io::Error::new(kind, text);
        let error = match self.failure {
            Failure::Missing => {
                Error::io(doing, io::Error::new(io::ErrorKind::NotFound, "nothing has this address"))
            }
            Failure::Denied => {
                Error::io(doing, because(io::ErrorKind::PermissionDenied)).help(credentials(scheme))
            }
            Failure::Changed => {
                Error::io("the file changed while it was being read", because(io::ErrorKind::Other))
                    .help("run the command again when nothing writes to it")
            }
            Failure::Exists => Error::usage("the output exists").found(text),
            Failure::NoRanges => Error::io(doing, because(io::ErrorKind::Unsupported))
                .help("the server sends whole files only: download the file first"),
            Failure::Short => Error::io(doing, because(io::ErrorKind::UnexpectedEof)),
            Failure::Other => Error::io(doing, because(io::ErrorKind::Other)),
        };
        let error = if text.contains("No CA certificates") {
            error.help("install the system's CA certificates (package ca-certificates), or name a file of them in SSL_CERT_FILE")
        } else {
            error
        };
        error.file(address)
    }
}

impl From<object_store::Error> for Problem {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        let failure = match &error {
            E::NotFound { .. } => Failure::Missing,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Failure::Denied,
            E::Precondition { .. } | E::NotModified { .. } => Failure::Changed,
            E::AlreadyExists { .. } => Failure::Exists,
            E::NotSupported { .. } => Failure::NoRanges,
            _ => Failure::Other,
        };
        Problem { failure, text: chain(&error) }.or_without_credentials()
    }
}

impl Problem {
    /// Where nothing else gives credentials, a client asks the machine's metadata, which only machines of a vendor have.
    fn or_without_credentials(self) -> Self {
        const METADATA: [&str; 3] = ["//169.254.169.254", "//169.254.170.2", "//metadata.google.internal"];
        match METADATA.iter().any(|server| self.text.contains(server)) {
            true => Problem::new(Failure::Denied, format!("no credentials were found: {}", self.text)),
            false => self,
        }
    }
}

impl From<reqwest::Error> for Problem {
    fn from(error: reqwest::Error) -> Self {
        Problem { failure: Failure::Other, text: chain(&error.without_url()) }
    }
}

/// Where credentials of a store come from.
fn credentials(scheme: Scheme) -> Text {
    let own = match scheme {
        Scheme::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials",
        Scheme::Gs => "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS",
        Scheme::Az => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or another of Azure's variables"
        }
        Scheme::Hub => {
            "a private or gated repository needs a token: run `hf auth login`, or set HF_TOKEN; look whether the repository's \
             name is right, too"
        }
        Scheme::Http | Scheme::Https => "the server asks for credentials: download the file first",
        Scheme::Memory => "stores in memory refuse nothing",
    };
    match scheme {
        Scheme::S3 | Scheme::Gs => {
            text![own, "; for a public bucket, use ", settings::STORE_OPTION.of("skip_signature=true")]
        }
        _ => own.into(),
    }
}

/// The messages of an error and its causes, each once, without secrets.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let message = next.to_string();
        if !text.contains(message.trim()) {
            text = format!("{text}: {message}");
        }
        cause = next.source();
    }
    cleaned(&text, &secrets())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Layer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|layer| layer as _)
        }
    }

    #[test]
    fn an_error_shows_every_cause_once() {
        let error = Layer(
            "error sending request",
            Some(Box::new(Layer("sending request", Some(Box::new(Layer("connection refused", None)))))),
        );
        assert_eq!(chain(&error), "error sending request: connection refused");
    }

    #[test]
    fn a_machine_without_credentials_is_told_how_to_give_them() {
        let text = "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden";
        let error = Problem::new(Failure::Other, text).or_without_credentials();
        let error = error.error("cannot open the input", "s3://b/m.npz", Scheme::S3).to_string();
        assert!(
            error.contains("no credentials were found") && error.contains("AWS_ACCESS_KEY_ID"),
            "{error}"
        );
    }

    #[test]
    fn a_signature_in_a_query_is_not_shown() {
        let text = "GET https://host/m.npz?X-Amz-Signature=secret failed; see (http://other/?sig=x) and why?";
        assert_eq!(cleaned(text, &[]), "GET https://host/m.npz failed; see (http://other/) and why?");
    }

    #[test]
    fn of_an_answer_in_xml_the_code_and_the_message_are_shown() {
        let text = "403: <?xml version=\"1.0\"?><Error><Code>Denied</Code><Message>No.</Message><Key>secret</Key></Error> end";
        assert_eq!(cleaned(text, &[]), "403: Denied: No. end");
    }

    #[test]
    fn credentials_of_the_environment_are_not_shown() {
        assert_eq!(
            cleaned("the token hf_12345678 is wrong", &["hf_12345678".to_owned()]),
            "the token … is wrong"
        );
    }

    #[test]
    fn a_long_answer_is_cut() {
        assert!(cleaned(&"é ".repeat(1000), &[]).chars().count() <= 501);
    }
}
