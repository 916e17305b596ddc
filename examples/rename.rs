//! Renames tensors by rules, and derives the way back: `cargo run --example rename`.

use ckpt::mapping::Mapping;
use ckpt_api::Limits;

fn main() -> ckpt::Result<()> {
    let rules = r#"
        ignore = ["save_counter"]
        [[rule]]
        from = "digits/{layer}/{part}"
        to = "{layer}.{part}"
    "#;
    let mapping = Mapping::from_toml(rules, "inline")?;
    let applied =
        mapping.apply(&["digits/hidden/kernel", "digits/hidden/bias", "save_counter"], &Limits::default())?;
    for (from, to) in applied.plain() {
        println!("{from} becomes {to}");
    }
    println!("the way back:\n{}", applied.inverse?.to_toml());
    Ok(())
}
