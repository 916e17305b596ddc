//! Any tensors of GGUF's dtypes come back as they were, from one file and from a set.

use crate::generate::{self, Given};
use crate::round_trip::round_trip;
use arbitrary::{Result, Unstructured};
use ckpt_api::{Codec, LossKind, Options, Side};
use ckpt_gguf::Gguf;

const NAMES: [&str; 7] = ["", "a", "w", "/", ".", "ä\0", "attn_q.weight"];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let given = generate::tensors(u, Gguf.info().dtypes, &NAMES)?;
    let size = u.int_in_range(1..=600)?.to_string();
    let size = [("shard_size", size.as_str())];
    let is_set = u.arbitrary()?;
    let write = if is_set { &size[..] } else { &[] };
    let entry = match is_set {
        true => first_file(&given, write),
        false => "m.gguf".to_owned(),
    };
    let back = round_trip(&Gguf, &given, ["m.gguf", &entry], [write, &[]]);
    // A file without the keys of a model, which llama.cpp does not load.
    assert!(back.losses.iter().all(|loss| loss.kind == LossKind::Unloadable), "{:?}", back.losses);
    assert_eq!(back.given.checkpoint, given.checkpoint);
    assert_eq!(back.given.values, given.values);
    Ok(())
}

/// The name of the first file, which depends on their number.
fn first_file(given: &Given, write: &[(&str, &str)]) -> String {
    let write: Vec<_> = write.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let info = Gguf.info();
    let options = Options::parse(info.id, info.options, Side::Write, &write).expect("known options");
    let placed = Gguf.place(&given.checkpoint, "m.gguf", &options).expect("the format can hold it");
    placed.files[0].name.clone()
}
