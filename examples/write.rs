//! Writes tensors from memory: `cargo run --example write [OUT]`. The extension chooses the format.

use ckpt::api::{Axis, DType};
use std::borrow::Cow;

/// A tensor of some other library.
struct Matrix {
    rows: Vec<[f32; 2]>,
}

impl ckpt::View for Matrix {
    fn dtype(&self) -> DType {
        DType::F32
    }

    fn shape(&self) -> Vec<u64> {
        vec![self.rows.len() as u64, 2]
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        self.rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let output = std::env::args().nth(1).map_or_else(|| scratch.path().join("out.safetensors"), Into::into);
    let weights = [0.5_f32, -1.0, 2.0, 0.25, 0.0, 1.0];
    let matrix = Matrix { rows: vec![[1.0, 2.0], [3.0, 4.0]] };
    let summary = ckpt::Writer::to(&output)
        .tensor("w", &[2, 3], &weights)?
        .axes(&[Axis::Out, Axis::In])?
        .iter("ramp", &[4], 0..4_i64)?
        .view("matrix", &matrix)?
        .finish()?;
    println!("wrote {} tensors, {} bytes", summary.tensors, summary.bytes);
    assert_eq!(ckpt::open(&output)?.tensor("w")?.read::<f32>()?, weights);
    Ok(())
}
