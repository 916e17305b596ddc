//! Shapes of inputs, which symbols do not state.

use crate::elementwise::is_arithmetic;
use crate::lowering::Lowering;
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::Tensor;
use ckpt_graph::Length;

/// Nodes that are looked at to find the shape of an input, at most.
const MOST_STEPS: usize = 256;

/// Inputs of each of them that are looked at, at most: layers and sums take few.
const MOST_INPUTS: usize = 8;

impl Lowering<'_> {
    /// The shape of an input: stated by the user or the symbol, or that which the first layer needs.
    pub(crate) fn input_shape(&mut self, number: usize) -> Read<Vec<Option<u64>>> {
        let symbol = self.symbol;
        let step = symbol.steps.get(number).ok_or("takes an input that does not exist")?;
        if let Some(shape) = self.shapes.get(&step.name) {
            return Ok(shape.clone());
        }
        if let Some(stated) = step.ints("__shape__")?.filter(|stated| !stated.is_empty()) {
            let len =
                |(axis, len): (usize, &i64)| u64::try_from(*len).ok().filter(|len| axis > 0 && *len > 0);
            return Ok(stated.iter().enumerate().map(len).collect());
        }
        self.needed_shape(number).ok_or_else(|| {
            let name = step.name.escape_debug();
            format!("takes the input '{name}', whose shape the symbol does not state: give it with shape={name}:0,…")
        })
    }

    /// The shape that the first layer needs to which an input leads.
    fn needed_shape(&mut self, number: usize) -> Option<Vec<Option<u64>>> {
        let symbol = self.symbol;
        let mut found = vec![number];
        for (at, step) in symbol.steps.iter().enumerate().skip(number).take(MOST_STEPS) {
            let mut inputs = step.inputs.iter().take(MOST_INPUTS);
            let taken = inputs.position(|(input, result)| *result == 0 && found.contains(input));
            let Some(index) = taken else { continue };
            match self.shape_for(step, index) {
                Some(shape) => return Some(shape),
                None if keeps_channels(&step.op) => found.push(at),
                None => {}
            }
        }
        None
    }

    fn shape_for(&mut self, step: &Step, index: usize) -> Option<Vec<Option<u64>>> {
        let weight = |at: usize| self.parameter_of(step, at).map(|(_, tensor)| -> &Tensor { tensor });
        let image = |channels: u64, sides: usize| {
            [None, Some(channels)].into_iter().chain(std::iter::repeat_n(None, sides)).collect()
        };
        match (step.op.as_str(), index) {
            ("Convolution" | "Convolution_v1", 0) => {
                let weight = weight(1)?;
                let groups = u64::try_from(step.int("num_group", 1).ok()?).ok()?;
                let [_, channels, sides @ ..] = &weight.shape[..] else { return None };
                Some(image(channels.checked_mul(groups)?, sides.len()))
            }
            ("Deconvolution", 0) => {
                let [channels, _, sides @ ..] = &weight(1)?.shape[..] else { return None };
                Some(image(*channels, sides.len()))
            }
            ("FullyConnected", 0) => {
                let [_, features] = weight(1)?.shape[..] else { return None };
                Some(vec![None, Some(features)])
            }
            ("Embedding", 0) => Some(vec![None, None]),
            _ => None,
        }
    }

    /// The lengths of an input in the builder's terms.
    pub(crate) fn lengths(&mut self, shape: &[Option<u64>]) -> Vec<Length> {
        let mut length = |len: &Option<u64>| match len {
            Some(len) => Length::from(*len),
            None => {
                self.free = self.free.saturating_add(1);
                Length::free(self.free.saturating_sub(1))
            }
        };
        shape.iter().map(&mut length).collect()
    }
}

/// Whether the result of an operator has as many axes as what it takes first, and as many channels.
fn keeps_channels(op: &str) -> bool {
    is_arithmetic(op)
        || matches!(
            op,
            "Activation"
                | "BatchNorm"
                | "BatchNorm_v1"
                | "BlockGrad"
                | "Cast"
                | "CuDNNBatchNorm"
                | "Dropout"
                | "InstanceNorm"
                | "LRN"
                | "LeakyReLU"
                | "Pooling"
                | "Pooling_v1"
                | "_copy"
                | "amp_cast"
                | "cast"
                | "clip"
                | "identity"
                | "square"
        )
}
