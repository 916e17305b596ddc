//! Converts a SavedModel to a DataCode model: `cargo run --example convert [IN OUT]`.

use ckpt::{Conversion, Execution, OpenOptions, Registry, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let input = arguments.next().unwrap_or_else(|| "examples/data/digits_saved_model".to_owned());
    let output = arguments.next().map_or_else(|| scratch.path().join("digits.nn"), Into::into);

    let registry = Registry::builtin();
    let source = Source::open(&registry, input, &OpenOptions::default())?;
    let planned = Conversion::default().plan(&registry, &source, output)?;
    for loss in &planned.plan().losses {
        println!("not carried over: {} ({})", loss.subject, loss.kind.name());
    }
    let summary = planned.execute(&Execution::default(), &|_bytes| ())?;
    println!("wrote {} tensors, {} bytes: {:?}", summary.tensors, summary.bytes, summary.files);
    Ok(())
}
