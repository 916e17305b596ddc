//! Windows that move over images.

use super::{Lowering, Read, Val};
use crate::read::Operation;
use ckpt_api::{Attribute, Node};
use ckpt_graph::{Length, int, ints};

/// Where a window is.
struct Moves {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Before and after each side, if the operation states it.
    pads: Option<Vec<[i64; 2]>>,
    is_same_lower: bool,
}

impl Lowering<'_, '_> {
    fn moves(&self, operation: &Operation, sides: usize) -> Read<Moves> {
        let list = |name: &str| -> Read<Vec<i64>> {
            let all = self.optional_ints(operation, name)?.unwrap_or_else(|| vec![1; sides]);
            match all.len() == sides && all.iter().all(|own| *own > 0) {
                true => Ok(all),
                false => Err(format!("has {name} {all:?} for {sides} sides")),
            }
        };
        let kind = self.text(operation, "pad_type");
        let pads = match kind.as_str() {
            "valid" | "" => Some(vec![[0, 0]; sides]),
            "custom" => {
                let pads = self.ints(operation, "pad")?;
                let pairs = pads.as_chunks::<2>().0.to_vec();
                (pairs.len() == sides).then_some(pairs).map(Some).ok_or("has a padding of other sides")?
            }
            "same" | "same_lower" => None,
            other => return Err(format!("has the padding '{other}'")),
        };
        let is_same_lower = kind == "same_lower";
        Ok(Moves { strides: list("strides")?, dilations: list("dilations")?, pads, is_same_lower })
    }

    /// Gives a node the attributes of its window.
    pub(super) fn windowed(
        &self,
        operation: &Operation,
        node: Node,
        x: &Val,
        kernel: &[u64],
        made: &[Length],
    ) -> Read<Node> {
        let moves = self.moves(operation, kernel.len())?;
        let mut pairs = Vec::with_capacity(kernel.len());
        for (side, kernel) in kernel.iter().enumerate() {
            pairs.push(match moves.pads.as_ref().and_then(|pads| pads.get(side)) {
                Some(pair) => *pair,
                None => {
                    let axis = side.saturating_add(2);
                    let lens = (x.len(axis).known(), made.get(axis).and_then(|len| len.known()));
                    let (Some(len), Some(made)) = lens else {
                        return Err("keeps the size of an image whose size is not stated".to_owned());
                    };
                    let reach = (int(*kernel)?.saturating_sub(1)).saturating_mul(moves.dilation(side));
                    let covered = made.saturating_sub(1).saturating_mul(moves.stride(side));
                    let total = covered.saturating_add(reach).saturating_add(1).saturating_sub(len).max(0);
                    moves.halved(total)
                }
            });
        }
        let node = node.attribute("strides", ints(&moves.strides)?).attribute("pads", pads(&pairs));
        moves.dilated(node)
    }

    /// Gives a node the attributes of a transposed convolution, whose result has these lengths.
    pub(super) fn transposed_window(
        &self,
        operation: &Operation,
        node: Node,
        x: &Val,
        kernel: &[u64],
        made: &[Length],
    ) -> Read<Node> {
        let moves = self.moves(operation, kernel.len())?;
        let (mut pairs, mut added) = (Vec::new(), Vec::new());
        for (side, kernel) in kernel.iter().enumerate() {
            let axis = side.saturating_add(2);
            let lens = (x.len(axis).known(), made.get(axis).and_then(|len| len.known()));
            let (Some(len), Some(made)) = lens else {
                return Err("makes an image whose size is not stated".to_owned());
            };
            let reach = (int(*kernel)?.saturating_sub(1)).saturating_mul(moves.dilation(side));
            let whole = len.saturating_sub(1).saturating_mul(moves.stride(side));
            let whole = whole.saturating_add(reach).saturating_add(1);
            let pair = match moves.pads.as_ref().and_then(|pads| pads.get(side)) {
                Some(pair) => *pair,
                None => moves.halved(whole.saturating_sub(made).max(0)),
            };
            let [begin, end] = pair;
            added.push(made.saturating_sub(whole.saturating_sub(begin).saturating_sub(end)));
            pairs.push(pair);
        }
        if added.iter().any(|own| *own < 0) {
            return Err("makes an image that is smaller than its window leaves".to_owned());
        }
        let node = node.attribute("strides", ints(&moves.strides)?).attribute("pads", pads(&pairs));
        let node = match added.iter().any(|own| *own > 0) {
            true => node.attribute("output_padding", Attribute::Ints(added)),
            false => node,
        };
        moves.dilated(node)
    }
}

impl Moves {
    fn stride(&self, side: usize) -> i64 {
        self.strides.get(side).copied().unwrap_or(1)
    }

    fn dilation(&self, side: usize) -> i64 {
        self.dilations.get(side).copied().unwrap_or(1)
    }

    /// A padding on both sides; one more at the end, or at the beginning.
    fn halved(&self, total: i64) -> [i64; 2] {
        let less = total / 2;
        let more = total.saturating_sub(less);
        if self.is_same_lower { [more, less] } else { [less, more] }
    }

    fn dilated(&self, node: Node) -> Read<Node> {
        match self.dilations.iter().any(|own| *own != 1) {
            true => Ok(node.attribute("dilations", ints(&self.dilations)?)),
            false => Ok(node),
        }
    }
}

/// All begins before all ends.
fn pads(pairs: &[[i64; 2]]) -> Attribute {
    let begins = pairs.iter().map(|[begin, _]| *begin);
    Attribute::Ints(begins.chain(pairs.iter().map(|[_, end]| *end)).collect())
}
