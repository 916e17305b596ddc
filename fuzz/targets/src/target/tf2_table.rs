//! The codec's table reader against a straightforward one: both refuse a table, or find the same in it. After a zero, the
//! bytes are the table; else they say how one is made.

use crate::check::options;
use crate::inputs::bundle_of;
use crate::table;
use arbitrary::{Result, Unstructured};
use ckpt_api::{Codec, Limits, Placement, Tensor};
use ckpt_tf2::Tf2;
use std::collections::BTreeMap;

/// A float without axes, as TensorFlow writes it.
const FLOAT: &[u8] = &[0x08, 1, 0x12, 0, 0x28, 4, 0x35, 0, 0, 0, 0];

pub(super) fn fuzz(data: &[u8]) {
    match data.split_first() {
        Some((0, table)) => compare(table),
        _ => {
            if let Ok(table) = made(&mut Unstructured::new(data)) {
                compare(&table);
            }
        }
    }
}

fn made(u: &mut Unstructured) -> Result<Vec<u8>> {
    let mut entries = BTreeMap::from([(Vec::new(), table::HEADER.to_vec())]);
    for _ in 0..u.int_in_range(0..=12)? {
        let key = (0..u.int_in_range(1..=4)?).map(|_| u.choose(b"ab/\x7f").copied());
        entries.insert(key.collect::<Result<_>>()?, FLOAT.to_vec());
    }
    table::arbitrary(u, &entries)
}

fn compare(file: &[u8]) {
    let plain = table::read(file).map(|entries| table::canonical(&entries.into_iter().collect()));
    match (found(file), plain) {
        (None, None) => {}
        (None, Some(plain)) => assert_eq!(found(&plain), None, "refused, but not what it holds"),
        (Some(_), None) => panic!("accepted, but it breaks a rule"),
        (Some(found_here), Some(plain)) => assert_eq!(Some(found_here), found(&plain)),
    }
}

/// What the codec makes of an index, by its keys.
fn found(index: &[u8]) -> Option<(Vec<Tensor>, Vec<Placement>)> {
    let input = bundle_of(index, &[0; 64]);
    let contents = Tf2.read(&input, &options(&Tf2, &[("keys", "true")]), &Limits::default()).ok()?;
    Some((contents.checkpoint.tensors, contents.placements))
}
