//! Hashes and compares two checkpoints: `cargo run --example diff [A B]`.

use ckpt::diff::{Tolerance, diff};
use ckpt::digest::digest;

fn main() -> ckpt::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_else(|| "examples/data/digits".to_owned());
    let (a, b) = (ckpt::open(next())?, ckpt::open(next())?);
    println!("{}\n{}", digest(&a, 0)?.sha256, digest(&b, 0)?.sha256);
    let difference = diff(&a, &b, Some(Tolerance { absolute: 1e-6, relative: 0.0 }))?;
    println!("they {}", if difference.agrees() { "agree" } else { "differ" });
    Ok(())
}
