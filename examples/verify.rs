//! Compares what two checkpoints compute: `cargo run --example verify [A B]`.

use ckpt::verify::{Options, Verdict, verify};
use ckpt::{Registry, store::MemoryStore};

fn main() -> ckpt::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let memory = MemoryStore::new();
    let a = ckpt::open(arguments.next().unwrap_or_else(|| "examples/data/digits_saved_model".to_owned()))?;
    let b = match arguments.next() {
        Some(path) => ckpt::open(path)?,
        None => {
            ckpt::convert("examples/data/digits_saved_model", memory.at("digits.nn"))?;
            ckpt::open(memory.at("digits.nn"))?
        }
    };
    let report = verify(&Registry::builtin(), &a, &b, &Options::default())?;
    for run in &report.runs {
        println!("rule for layers: {}", run.rule.layers);
    }
    println!("they {}", if report.verdict == Verdict::Fail { "differ" } else { "agree" });
    Ok(())
}
