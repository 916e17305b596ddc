//! The first checkpoint with its flattened images in the order of the second.
//!
//! Its dense layers add in another order then, so a comparison bit by bit takes the reordered checkpoint as the
//! reference. That it computes what the original computes is checked here, in f64.

use super::{Options, run};
use ckpt_api::{Error, Graph, Result};
use ckpt_engine::formats::Formats;
use ckpt_engine::source::Source;
use ckpt_engine::words::number;
use ckpt_forward::{Arithmetic, Cpu, Value};

/// The reference, and its note in the report.
pub(super) struct Reordered {
    /// The first checkpoint, reordered.
    pub(super) source: Source,
    /// Whether its tensors have the names of the second one.
    pub(super) is_renamed: bool,
    pub(super) note: &'static str,
}

const BY_MAPPING: &str = "the mapping reorders flattened images: the reference is the first checkpoint with this order, which was \
                          run in f64 and gives the same outputs as the original";

const BY_GRAPHS: &str = "the second checkpoint takes flattened images in another order: the reference is the first checkpoint with \
                         this order, which was run in f64 and gives the same outputs as the original";

/// The largest error of the outputs relative to their norm: that of another order of additions in f64, with much to
/// spare.
const LIMIT: f64 = 1e-9;

/// The least norm that errors are relative to: smaller outputs are the rest of terms that cancel.
const LEAST: f64 = 1e-3;

/// Returns the first checkpoint with its flattened images as the mapping of `options` reorders them, or else as the
/// graph of the second checkpoint takes them.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] if it computes something else than the original; whatever keeps a graph from running.
pub(super) fn reordered(
    formats: &Formats,
    source: &Source,
    theirs: &Graph,
    options: &Options,
) -> Result<Option<Reordered>> {
    let by_mapping = options.mapping.as_ref().filter(|named| named.mapping.reorders_images());
    let found = match by_mapping {
        Some(named) => Some(source.renamed(&named.mapping, &options.limits)?.0),
        // Without this reference, the comparison shows how the checkpoints differ.
        None => source.with_images_as_in(theirs).ok().flatten(),
    };
    let Some(mapped) = found.filter(|mapped| mapped.checkpoint().graph.is_some()) else { return Ok(None) };
    let outputs = |source: &Source| {
        let mut cpu = Cpu::new(Arithmetic::F64);
        run(formats, source, &options.inputs, None, &mut cpu, options.memory).map(|pass| pass.outputs)
    };
    for ((name, own), (_, found)) in outputs(source)?.iter().zip(&outputs(&mapped)?) {
        let error = relative_error(own, found);
        let is_equal = error.is_some_and(|error| error <= LIMIT);
        if !is_equal && by_mapping.is_none() {
            return Ok(None);
        }
        if !is_equal {
            return Err(Error::mismatch("the reordered images change what the model computes")
                .field(name)
                .found(error.map_or("a NaN or an infinity".to_owned(), |error| {
                    format!("a relative error of {}", number(error, 3))
                }))
                .expected(format!("at most {LIMIT:e}, in f64"))
                .help("check the channels in the mapping's step 'flatten_order' or 'unflatten_order'"));
        }
    }
    let (is_renamed, note) =
        (by_mapping.is_some(), if by_mapping.is_some() { BY_MAPPING } else { BY_GRAPHS });
    Ok(Some(Reordered { source: mapped, is_renamed, note }))
}

/// The norm of the difference, relative to that of the reference, or to [`LEAST`]; `None` if only one is finite.
fn relative_error(reference: &Value, found: &Value) -> Option<f64> {
    let (own, theirs) = (reference.array.to_f64(), found.array.to_f64());
    if own.len() != theirs.len() {
        return None;
    }
    let (mut difference, mut norm) = (0.0, 0.0);
    for (x, y) in own.iter().zip(theirs.iter()) {
        if x == y || (x.is_nan() && y.is_nan()) {
            norm += if x.is_finite() { x * x } else { 0.0 };
            continue;
        }
        if !x.is_finite() || !y.is_finite() {
            return None;
        }
        difference += (x - y) * (x - y);
        norm += x * x;
    }
    Some(if difference == 0.0 { 0.0 } else { difference.sqrt() / norm.sqrt().max(LEAST) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_forward::Array;

    fn value(numbers: &[f64]) -> Value {
        Value::new(vec![numbers.len()], Array::F64(numbers.to_vec())).unwrap()
    }

    #[test]
    fn the_error_is_relative_to_the_norm_and_nan_equals_nan_alone() {
        let error = |a: &[f64], b: &[f64]| relative_error(&value(a), &value(b));
        assert_eq!(error(&[3.0, 4.0], &[3.0, 4.0]), Some(0.0));
        assert_eq!(error(&[3.0, 4.0], &[3.0, 9.0]), Some(1.0));
        assert_eq!(error(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY]), Some(0.0));
        assert_eq!(error(&[f64::NAN], &[1.0]), None);
        assert_eq!(error(&[1.0], &[1.0, 2.0]), None);
        // What is left where terms cancel.
        assert!(error(&[0.0], &[1e-17]).unwrap() < LIMIT);
        assert!(error(&[0.0], &[1e-6]).unwrap() > LIMIT);
    }
}
