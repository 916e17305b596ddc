//! Opens a checkpoint and reads tensors: `cargo run --example open [PATH]`.

fn main() -> ckpt::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "examples/data/digits".to_owned());
    let model = ckpt::open(path)?;
    println!("{}: {}", model.format(), model.reason());
    for tensor in model.tensors() {
        println!("{} {} {}", tensor.name(), tensor.dtype(), tensor.shape());
    }
    for tensor in model.tensors().filter(|tensor| tensor.dtype().is_float() && tensor.shape().rank() > 0) {
        let first: Vec<f64> = tensor.rows(0..1)?.read()?;
        let mut sum = 0.0;
        for chunk in tensor.chunks::<f64>()? {
            sum += chunk?.iter().sum::<f64>();
        }
        println!("{} begins with {:.4}, and its sum is {sum:.4}", tensor.name(), first[0]);
    }
    Ok(())
}
