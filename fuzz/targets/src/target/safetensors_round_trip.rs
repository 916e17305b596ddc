//! Any checkpoint whose dtypes safetensors has comes back as it was, with all that is said of it, in one file and in sets.

use crate::generate::{self, Given};
use crate::round_trip::round_trip;
use arbitrary::{Result, Unstructured};
use ckpt_api::{Codec, Metadata};
use ckpt_safetensors::Safetensors;

const NAMES: [&str; 8] = ["", "a", "w", "/", ".", "\"", "ä\0", "__metadata"];

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let mut given = match u.arbitrary()? {
        true => generate::dense(u)?,
        false => generate::tensors(u, Safetensors.info().dtypes, &NAMES)?,
    };
    let is_set = u.arbitrary()? && !given.values.is_empty();
    let name = if is_set { "m.safetensors.index.json" } else { "m.safetensors" };
    let size = u.int_in_range(1..=600)?.to_string();
    let size = [("shard_size", size.as_str())];
    let write = if is_set { &size[..] } else { &[] };
    if u.arbitrary()? {
        generate::describe(u, &mut given.checkpoint)?;
    }
    let back = round_trip(&Safetensors, &given, [name, name], [write, &[]]);
    assert_eq!(back.losses, []);
    assert_eq!(said(&back.given), said(&given));
    assert_eq!(back.given.checkpoint.graph, given.checkpoint.graph);
    assert_eq!(back.given.checkpoint.tensors, given.checkpoint.tensors);
    assert_eq!(back.given.values, given.values);
    Ok(())
}

fn said(given: &Given) -> &Metadata {
    &given.checkpoint.metadata
}
