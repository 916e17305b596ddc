//! The dense layers behind the transformer: their sizes, which no field states, and the hash that tells them.

/// Rows of weights are filled up with zeros to a multiple of so many inputs.
const ALIGNMENT: u64 = 32;
/// Sizes of layers that are tried.
const MOST_OUTPUTS: u32 = 256;
/// Sizes that networks of Stockfish have: several sizes have one hash.
const KNOWN: [[u32; 2]; 3] = [[32, 32], [16, 32], [8, 32]];

const INPUT_HASH: u32 = 0xEC42_E90D;
const DENSE_HASH: u32 = 0xCC03_DAE4;
const CLIPPED_HASH: u32 = 0x538D_24C7;

/// Three dense layers. The last has one output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// Inputs of each, filled up.
    pub(crate) inputs: [u64; 3],
    /// Outputs of the first and of the second.
    pub(crate) outputs: [u32; 2],
}

/// The hash of layers behind a transformer of `l1` neurons.
pub(crate) fn hash(l1: u32, outputs: [u32; 2]) -> u32 {
    let input = INPUT_HASH ^ l1.wrapping_mul(2);
    outputs.into_iter().chain([1]).fold(input, step)
}

impl Layers {
    /// The names of the layers, in order.
    pub(crate) const NAMES: [&'static str; 3] = ["layer_1", "layer_2", "output"];

    /// Outputs and filled up inputs of each.
    pub(crate) fn shapes(self) -> [[u64; 2]; 3] {
        let [first, second] = self.outputs.map(u64::from);
        let [a, b, c] = self.inputs;
        [[first, a], [second, b], [1, c]]
    }

    /// Bytes of a stack: its hash, and for each layer biases of 32 bits and weights of 8.
    pub(crate) fn bytes(self) -> u64 {
        // The shapes may be those of any tensors: no stack has as many bytes as a sum that is too large.
        let bytes = |[outputs, inputs]: [u64; 2]| outputs.saturating_mul(inputs.saturating_add(4));
        self.shapes().into_iter().map(bytes).fold(4, u64::saturating_add)
    }

    /// The layers that have this hash and fill a stack of so many bytes, those of Stockfish first.
    ///
    /// The first layer takes the products of pairs of neurons, or the neurons of both sides. The second takes the outputs of
    /// the first, perhaps without the last, or these and their squares; the last takes those of the second, or all that came
    /// before with squares.
    pub(crate) fn find(l1: u32, hash: u32, bytes: u64) -> Vec<Layers> {
        let mut found: Vec<Layers> = Vec::new();
        let known = KNOWN.into_iter().filter(|outputs| self::hash(l1, *outputs) == hash);
        for outputs in known.chain(all(l1, hash)) {
            let [first, second] = outputs.map(u64::from);
            for a in [l1.into(), 2 * u64::from(l1)] {
                for b in [2 * first, 2 * (first - 1), first, first - 1] {
                    for c in [2 * (first + second), second] {
                        let layers = Layers { inputs: [a, b, c].map(filled_up), outputs };
                        if layers.bytes() == bytes && !found.contains(&layers) {
                            found.push(layers);
                        }
                    }
                }
            }
        }
        found
    }

    /// Whether networks of Stockfish have these sizes.
    pub(crate) fn is_known(&self) -> bool {
        KNOWN.contains(&self.outputs)
    }
}

/// The outputs of the two first layers with which a network has this hash. Each step of the hash can be undone, so that the
/// outputs of the first layer tell those of the second.
fn all(l1: u32, hash: u32) -> impl Iterator<Item = [u32; 2]> {
    let last = (hash ^ DENSE_HASH.wrapping_add(1)).rotate_left(1).wrapping_sub(CLIPPED_HASH);
    (2..=MOST_OUTPUTS).filter_map(move |first| {
        let before = step(INPUT_HASH ^ l1.wrapping_mul(2), first);
        let second = (last ^ before.rotate_right(1)).wrapping_sub(DENSE_HASH);
        (2..=MOST_OUTPUTS).contains(&second).then_some([first, second])
    })
}

/// The hash of a layer with so many outputs behind others.
fn step(before: u32, outputs: u32) -> u32 {
    let hash = DENSE_HASH.wrapping_add(outputs) ^ before.rotate_right(1);
    if outputs == 1 { hash } else { hash.wrapping_add(CLIPPED_HASH) }
}

fn filled_up(inputs: u64) -> u64 {
    inputs.next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_stockfish() {
        // Stockfish 19: the network's hash is 0xa85b2205, the transformer's 0xcb685313.
        assert_eq!(hash(1024, [32, 32]), 0xA85B_2205 ^ 0xCB68_5313);
    }

    #[test]
    fn sizes_are_found_by_hash_and_bytes() {
        for (l1, outputs, inputs) in [
            (1024, [32, 32], [1024, 64, 128]),
            (3072, [16, 32], [3072, 32, 32]),
            (512, [16, 32], [1024, 32, 32]),
            (256, [32, 32], [512, 32, 32]),
            (128, [31, 17], [128, 64, 96]),
        ] {
            let layers = Layers { inputs, outputs };
            let found = Layers::find(l1, hash(l1, outputs), layers.bytes());
            assert!(found.contains(&layers), "{layers:?}: {found:?}");
            assert!(!layers.is_known() || found.first() == Some(&layers), "{found:?}");
        }
        assert_eq!(Layers::find(1024, 1, 100_000), []);
        let endless = Layers { inputs: [u64::from(u32::MAX); 3], outputs: [u32::MAX; 2] };
        assert_eq!(endless.bytes(), u64::MAX);
    }
}
