//! Converts with new names, and derives the way back: `cargo run --example rename`.

use ckpt::mapping::Mapping;
use ckpt::{Conversion, store::MemoryStore};

fn main() -> ckpt::Result<()> {
    let rules = r#"
        identity = true # other names stay
        [[rule]]
        from = "digits/{layer}/{part}"
        to = "{layer}.{part}"
    "#;
    let mapping = Mapping::from_toml(rules, "inline")?;
    println!("the way back:\n{}", mapping.inverse()?.to_toml());

    let memory = MemoryStore::new();
    let conversion = Conversion::new().mapping(mapping);
    ckpt::convert_with("examples/data/digits", memory.at("digits.safetensors"), &conversion)?;
    for tensor in ckpt::open(memory.at("digits.safetensors"))?.tensors() {
        println!("{}", tensor.name());
    }
    Ok(())
}
