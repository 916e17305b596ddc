//! The first checkpoint after a mapping that reorders flattened images.
//!
//! Its dense layers add in another order then, so a comparison bit by bit takes the reordered checkpoint as the reference. That
//! it computes what the original computes is checked here, in f64.

use super::{Options, run};
use crate::registry::Registry;
use crate::source::Source;
use crate::words::number;
use ckpt_api::{Error, Result};
use ckpt_forward::{Arithmetic, Cpu, Value};

/// What the report says about the reference.
pub(super) const NOTE: &str = "the mapping reorders flattened images: the reference is the first checkpoint with this order, which \
                               was run in f64 and gives the same outputs as the original";

/// The largest error of the outputs relative to their norm: that of another order of additions in f64, with much to spare.
const LIMIT: f64 = 1e-9;

/// Returns the checkpoint as the mapping of `options` makes it, if that reorders flattened images.
///
/// # Errors
/// [`ckpt_api::Kind::Mismatch`] if it computes something else than the original; whatever keeps a graph from running.
pub(super) fn reordered(registry: &Registry, source: &Source, options: &Options) -> Result<Option<Source>> {
    let Some(named) = &options.mapping else { return Ok(None) };
    if !named.mapping.reorders_images() {
        return Ok(None);
    }
    let mapped = source.renamed(&named.mapping, &options.limits)?;
    if mapped.checkpoint().graph.is_none() {
        return Ok(None);
    }
    let outputs = |source: &Source| {
        let mut cpu = Cpu::new(Arithmetic::F64);
        run(registry, source, &options.inputs, None, &mut cpu, options.memory).map(|pass| pass.outputs)
    };
    for ((name, own), (_, found)) in outputs(source)?.iter().zip(&outputs(&mapped)?) {
        let error = relative_error(own, found);
        if !error.is_some_and(|error| error <= LIMIT) {
            return Err(Error::mismatch("the reordered images change what the model computes")
                .field(name)
                .found(error.map_or("a NaN or an infinity".to_owned(), |error| {
                    format!("a relative error of {}", number(error, 3))
                }))
                .expected(format!("at most {LIMIT:e}, in f64"))
                .help("check the channels in the mapping's step 'flatten_order'"));
        }
    }
    Ok(Some(mapped))
}

/// The norm of the difference, relative to that of the reference; `None` where only one is finite.
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
    Some(if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() })
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
    }
}
