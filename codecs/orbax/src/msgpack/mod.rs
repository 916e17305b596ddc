//! msgpack as Flax writes it: trees whose leaves may be arrays, which are found and not read.

mod array_bytes;
mod flax_array;
mod token;
mod tree;

pub(crate) use flax_array::{CHUNKED, FlaxArray, array_of};
pub(crate) use tree::{Id, Tree, Value};

use ckpt_api::{File, Limits, Result};

/// Bytes that tell a tree.
pub(crate) const HEAD: u64 = 1024;

/// Whether bytes begin as a tree of Flax does: a map from texts to a map, a list, bytes or an array, perhaps after some
/// numbers.
pub(crate) fn begins_as_tree(head: &[u8]) -> bool {
    /// Keys that are looked at.
    const KEYS: usize = 8;
    let mut rest = match head {
        [0x81..=0x8f, rest @ ..] | [0xde, _, _, rest @ ..] | [0xdf, _, _, _, _, rest @ ..] => rest,
        _ => return false,
    };
    for _ in 0..KEYS {
        let (len, text) = match rest {
            [len @ 0xa1..=0xbf, text @ ..] => (usize::from(len - 0xa0), text),
            [0xd9, len, text @ ..] => (usize::from(*len), text),
            _ => return false,
        };
        let Some((key, [kind, value @ ..])) = text.split_at_checked(len) else { return false };
        if str::from_utf8(key).is_ok_and(|key| key.chars().any(char::is_control)) {
            return false;
        }
        let len = match kind {
            0x80..=0x9f | 0xc4..=0xc9 | 0xd4..=0xd8 | 0xdc..=0xdf => return true,
            0xa0..=0xbf => usize::from(kind - 0xa0),
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 0,
            0xcc | 0xd0 => 1,
            0xcd | 0xd1 => 2,
            0xca | 0xce | 0xd2 => 4,
            0xcb | 0xcf | 0xd3 => 8,
            _ => return false,
        };
        let Some(next) = value.get(len..) else { return false };
        rest = next;
    }
    false
}

/// Parses a file of these bytes; for fuzzing. Returns how many values it has.
///
/// # Errors
/// Those of reading a checkpoint.
pub fn parse_tree(file: &File, limits: &Limits) -> Result<usize> {
    Tree::parse(file, limits).map(|tree| tree.values.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_known_by_its_first_keys() {
        for tree in [
            &b"\x81\xa6params\x81\xa1w\xc0"[..],
            b"\x83\xa4step\x00\xa4rate\xca\0\0\0\0\xa6params\x81\xa1w\xc0",
        ] {
            assert!(begins_as_tree(tree));
        }
        for other in [
            &b""[..],
            &[0; 64],
            b"\x80\x02}q\0",
            b"{\"a\": 1}",
            b"model_checkpoint_path: \"a\"",
            b"\x81\xa1a\x01",
        ] {
            assert!(!begins_as_tree(other), "{other:?}");
        }
    }
}
