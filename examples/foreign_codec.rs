//! Registers a codec from outside the tree, and converts with it: `cargo run --example foreign_codec`.

#[path = "../tests/toy/mod.rs"]
mod toy;

use ckpt::{Conversion, Execution, OpenOptions, Registry, Source};
use ckpt_api::Input;
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::builtin();
    registry.add(toy::Toy)?;
    let files = BTreeMap::from([("m.toy".to_owned(), toy::file(&[("weights", &[2, 3])]))]);
    let source = Source::open(&registry, Input::memory("m.toy", files), &OpenOptions::default())?;
    println!("read as {}: {}", source.format(), source.reason());
    let scratch = tempfile::tempdir()?;
    let planned = Conversion::default().plan(&registry, &source, scratch.path().join("m.safetensors"))?;
    let summary = planned.execute(&Execution::default(), &|_bytes| ())?;
    println!("wrote {} tensor, {} bytes", summary.tensors, summary.bytes);
    Ok(())
}
