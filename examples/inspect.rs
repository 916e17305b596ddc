//! Looks into a checkpoint: `cargo run --example inspect [PATH]`.

fn main() -> ckpt::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "examples/data/digits".to_owned());
    let inspection = ckpt::inspect::inspect(&ckpt::open(path)?, true)?;
    println!("{} ({})", inspection.title, inspection.reason);
    for tensor in &inspection.tensors {
        let mean = tensor.stats.as_ref().and_then(|stats| stats.mean);
        println!("{} {} {} mean {mean:?}", tensor.name, tensor.dtype, tensor.shape);
    }
    Ok(())
}
