//! Converts without a disk: `cargo run --example memory`.

use ckpt::store::MemoryStore;

fn main() -> ckpt::Result<()> {
    let memory = MemoryStore::new();
    ckpt::convert("examples/data/digits", memory.at("digits.safetensors"))?;
    ckpt::convert(memory.at("digits.safetensors"), memory.at("digits.npz"))?;
    for name in memory.names() {
        println!("{name}: {} bytes", memory.get(&name).map_or(0, |bytes| bytes.len()));
    }
    Ok(())
}
