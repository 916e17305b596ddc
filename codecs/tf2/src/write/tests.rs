//! What the tests of writing share.

use ckpt_api::{Options, Side};

/// Options for writing.
pub(super) fn options_of(pairs: &[(&str, &str)]) -> Options {
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Options::parse("tf2", crate::OPTIONS, Side::Write, &pairs).unwrap()
}
