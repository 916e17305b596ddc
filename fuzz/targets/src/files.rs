//! Inputs of several files, with options.

use ckpt_api::{Codec, Input, Options, Side};
use std::collections::BTreeMap;

/// What stands before every file.
const MARK: &[u8] = b"\n=== ";

/// Several files, and how they are to be read.
pub struct Case<'a> {
    /// `name=value`, separated by spaces.
    options: &'a str,
    /// What the user names; empty for the directory.
    pub entry: &'a str,
    /// Bytes by name.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl<'a> Case<'a> {
    /// Of the bytes: a line of options, the line that the user names, and for every file `=== name`, the end of the line,
    /// its bytes, the end of a line. `None` for other bytes.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, mut rest) = until(bytes, MARK);
        let (options, entry) = std::str::from_utf8(head).ok()?.split_once('\n')?;
        let mut files = BTreeMap::new();
        while !rest.is_empty() {
            let (file, next) = until(rest, MARK);
            let (name, data) = until(file, b"\n");
            files.insert(std::str::from_utf8(name).ok()?.to_owned(), data.to_vec());
            rest = next;
        }
        Some(Case { options, entry, files })
    }

    /// The options, if the codec has them.
    pub fn options(&self, codec: &dyn Codec) -> Option<Options> {
        let pairs = self.options.split(' ').filter_map(|pair| pair.split_once('='));
        let pairs: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let info = codec.info();
        Options::parse(info.id, info.options, Side::Read, &pairs).ok()
    }

    /// The files.
    pub fn input(self) -> Input {
        Input::memory(self.entry, self.files)
    }
}

/// What stands before the first `mark`, and behind it.
fn until<'a>(bytes: &'a [u8], mark: &[u8]) -> (&'a [u8], &'a [u8]) {
    match bytes.windows(mark.len()).position(|window| window == mark) {
        Some(at) => (&bytes[..at], &bytes[at + mark.len()..]),
        None => (bytes, &[]),
    }
}
