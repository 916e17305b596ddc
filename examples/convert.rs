//! Converts a SavedModel to a DataCode model: `cargo run --example convert [IN OUT]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let mut arguments = std::env::args().skip(1);
    let input = arguments.next().unwrap_or_else(|| "examples/data/digits_saved_model".to_owned());
    let output = arguments.next().map_or_else(|| scratch.path().join("digits.nn"), Into::into);
    let summary = ckpt::convert_with(input, output, &ckpt::Conversion::new().verify(true))?;
    println!("wrote {} tensors, {} bytes: {:?}", summary.tensors, summary.bytes, summary.files);
    Ok(())
}
