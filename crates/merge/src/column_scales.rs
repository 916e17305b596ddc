//! DoRA of matrices whose outputs are columns: each column gets the norm that the adapter states. The norms before that are those of
//! whole columns, which a pass over the tensor measures when a merge is made.

use ckpt_api::{Error, Operation, Result, RunNumbers, TensorId, count};
use ckpt_engine::source::Source;
use std::collections::HashMap;

/// By what each output is multiplied, by the number of an adapter and a module.
pub(crate) type ColumnScales = HashMap<(usize, String), Box<[f64]>>;

/// A matrix that has its product, and not its norms yet.
#[derive(Clone, Debug)]
pub(crate) struct Unscaled {
    pub(crate) adapter: usize,
    pub(crate) module: String,
    /// The tensor.
    pub(crate) id: TensorId,
    /// The adapter's tensor of norms.
    pub(crate) magnitudes: TensorId,
    /// Rows and columns.
    pub(crate) lens: [u64; 2],
    /// The axis of the outputs.
    pub(crate) outputs: usize,
}

impl Unscaled {
    /// Multiplies each output by its own of these; the matrix may be stored column by column.
    pub(crate) fn scaling(&self, scales: &[f64], is_transposed: bool) -> Operation {
        let [rows, columns] = self.lens;
        let innermost = usize::from(!is_transposed);
        let of_other_axis = if self.outputs == 1 { rows } else { columns };
        let run = if self.outputs == innermost { 1 } else { of_other_axis };
        Operation::MultiplyRuns(RunNumbers { numbers: scales.into(), run })
    }
}

/// The scales of a matrix: the norms that its adapter states over those that its outputs have.
///
/// # Errors
/// [`ckpt_api::Kind::Mapping`] for norms of another number of outputs; whatever keeps the tensors from being read.
pub(crate) fn of(merged: &Source, adapter: &Source, matrix: &Unscaled) -> Result<Box<[f64]>> {
    let (tensor, _) = adapter.contents().tensor_at(matrix.magnitudes)?;
    let outputs = matrix.lens[matrix.outputs];
    if tensor.shape.elements() != outputs {
        return Err(Error::mapping("the magnitudes of the adapter do not fit the base")
            .file(adapter.shown())
            .tensor(&tensor.name)
            .found(tensor.shape.to_string())
            .expected(count(outputs, "number")));
    }
    let magnitudes = adapter.tensor(&tensor.name)?.read::<f32>()?;
    let mut squares = vec![0.0_f64; magnitudes.len()];
    let (before, _) = merged.contents().tensor_at(matrix.id)?;
    let [_, columns] = matrix.lens;
    let (mut row, mut column) = (0_u64, 0_u64);
    for chunk in merged.tensor(&before.name)?.chunks::<f32>()? {
        for number in chunk? {
            let output = if matrix.outputs == 1 { column } else { row };
            if let Some(sum) = usize::try_from(output).ok().and_then(|output| squares.get_mut(output)) {
                *sum += f64::from(number) * f64::from(number);
            }
            column += 1;
            if column == columns {
                (row, column) = (row + 1, 0);
            }
        }
    }
    let scale = |(magnitude, square): (&f32, &f64)| f64::from(magnitude / square.sqrt() as f32);
    let scales: Box<[f64]> = magnitudes.iter().zip(&squares).map(scale).collect();
    match scales.iter().all(|scale| scale.is_finite()) {
        true => Ok(scales),
        false => Err(Error::lossy("an output of a module has no norm").tensor(&before.name)),
    }
}
