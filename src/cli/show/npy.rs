//! A tensor as a NumPy array, written while it is read.

use super::output::Output;
use ckpt_api::{Checkpoint, Error, Options, Result, Tensor};
use ckpt_engine::Registry;
use ckpt_engine::source::TensorRef;
use ckpt_engine::transform::cast;

/// Writes the array in the dtype in which the format `npz` stores the tensor's.
pub(super) fn write(registry: &Registry, tensor: &TensorRef<'_>, output: &mut Output<'_>) -> Result<()> {
    if output.is_terminal() {
        return Err(Error::usage("a NumPy array is no text for a terminal")
            .field("--format npy")
            .help("write it to a file: --output tensor.npy"));
    }
    let from = tensor.dtype();
    if from.bytes().is_none() {
        return Err(Error::unsupported("a NumPy array has no elements of different lengths")
            .tensor(tensor.name())
            .found(from.name())
            .help("print it as text or as JSON"));
    }
    let one = Checkpoint {
        tensors: vec![Tensor::new("array", from, tensor.shape().clone())],
        ..Checkpoint::default()
    };
    let placed = registry.writer("npz")?.place(&one, "array.npy", &Options::default())?;
    let (Some(header), Some(placement)) = (placed.literals.first(), placed.placements.first()) else {
        return Err(Error::unsupported("NumPy cannot hold the tensor")
            .tensor(tensor.name())
            .found(from.name()));
    };
    output.write(&header.bytes)?;
    let to = placement.encoding.dtype;
    let mut converted = Vec::new();
    for bytes in tensor.byte_chunks()? {
        let bytes = bytes?;
        if from == to {
            output.write(&bytes)?;
        } else {
            cast(from, to, 0, &bytes, &mut converted).map_err(|error| error.tensor(tensor.name()))?;
            output.write(&converted)?;
        }
        if output.is_closed {
            break;
        }
    }
    output.finish()
}
