//! Any tensors of TensorFlow's dtypes come back from a checkpoint as they were, however it is cut, aligned and compressed.

use crate::generate;
use crate::round_trip::{assert_same, round_trip};
use arbitrary::{Result, Unstructured};
use ckpt_api::Codec;
use ckpt_tf2::Tf2;

const NAMES: [&str; 8] = ["a", "w", "/", ".ATTRIBUTES/VARIABLE_VALUE", "\0", "\u{1}", "ä", "kernel/part_0"];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let mut given = generate::tensors(u, Tf2.info().dtypes, &NAMES)?;
    for (index, tensor) in given.checkpoint.tensors.iter_mut().enumerate() {
        // The empty key is the header's, and one that begins with a zero may be a slice's.
        if tensor.name.is_empty() || tensor.name.starts_with('\0') {
            tensor.name = format!("t{index}{}", tensor.name).into();
        }
    }
    let (name, state) = (*u.choose(&["m", "\"ä\" '1'\n\r\t"])?, u.arbitrary()?);
    let mut write = vec![("state", bool::to_string(&state))];
    match u.int_in_range(0..=2)? {
        1 => write.push(("shards", number(u, 4)?)),
        2 => write.push(("shard_size", number(u, 500)?)),
        _ => {}
    }
    if u.arbitrary()? {
        write.push(("alignment", number(u, 70)?));
    }
    for (name, values) in
        [("compression", ["none", "snappy"]), ("endian", ["little", "big"]), ("names", ["stored", "plain"])]
    {
        if u.arbitrary()? {
            write.push((name, (*u.choose(&values)?).to_owned()));
        }
    }
    let write: Vec<(&str, &str)> = write.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let read = [("keys", "true")];
    let read = if u.arbitrary()? { &read[..] } else { &[] };
    let entry = if state { "checkpoint".to_owned() } else { format!("{name}.index") };
    let back = round_trip(&Tf2, &given, [name, &entry], [&write, read]);
    assert_same(&given, &back.given);
    Ok(())
}

fn number(u: &mut Unstructured, most: u64) -> Result<String> {
    Ok(u.int_in_range(1..=most)?.to_string())
}
