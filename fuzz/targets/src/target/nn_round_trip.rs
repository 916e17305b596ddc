//! Any chain of dense layers comes back from both dialects with the same layers and values.

use crate::generate::{self, Given};
use crate::round_trip::{permuted, round_trip};
use arbitrary::{Result, Unstructured};
use ckpt_api::{Axis, Op};
use ckpt_nn::Nn;

pub(super) fn fuzz(data: &[u8]) {
    let _ = run(&mut Unstructured::new(data));
}

fn run(u: &mut Unstructured) -> Result<()> {
    let given = generate::dense(u)?;
    for dialect in [&[][..], &[("dialect", "a")], &[("dialect", "b")]] {
        let back = round_trip(&Nn, &given, ["m.nn", "m.nn"], [dialect, &[]]);
        assert_eq!(ops(&back.given), ops(&given));
        assert_eq!(values(&back.given), values(&given));
    }
    Ok(())
}

fn ops(given: &Given) -> Vec<&Op> {
    given.checkpoint.graph.iter().flat_map(|graph| &graph.nodes).map(|node| &node.op).collect()
}

/// Of each tensor the values, those of a weight as `[in, out]`; a bias may have an axis of length 1 more.
fn values(given: &Given) -> Vec<Vec<u8>> {
    let pairs = given.checkpoint.tensors.iter().zip(&given.values);
    let values = pairs.map(|(tensor, values)| match (tensor.axis(Axis::In), tensor.axis(Axis::Out)) {
        (Some(input), Some(output)) => permuted(tensor, values, &[input, output]),
        _ => values.clone(),
    });
    values.collect()
}
