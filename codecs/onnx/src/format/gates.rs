//! The order of the gates of recurrent layers.
//!
//! ONNX has one order. A tensor whose gates have another one is stored in ONNX's, block by block, and the node has the
//! tensor's own order as a property: so the tensor is read as it was.

use ckpt_api::Extent;

/// Key of the property of a node that has the order of gates in which its tensors are read.
pub(crate) const PROPERTY: &str = "ckpt.gates";

/// ONNX's order of the gates of an operator; `None` for one that is no recurrent layer.
pub(crate) fn standard(op: &str) -> Option<&'static str> {
    ckpt_graph::cells::defaults(op).map(|own| own.gates)
}

/// Where blocks of elements of a tensor are stored: groups of one block for each gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Place in the group of each of its blocks.
    places: Vec<u64>,
    /// Elements of a block.
    elements: u64,
}

impl Gates {
    /// The blocks of `elements` elements each of gates in the order `own`; `None` if that is ONNX's, or is not an
    /// order of the same gates.
    pub(crate) fn of(own: &str, standard: &str, elements: u64) -> Option<Self> {
        if own == standard || own.len() != standard.len() {
            return None;
        }
        let mut places = Vec::with_capacity(own.len());
        for gate in own.chars() {
            let place = standard.chars().position(|other| other == gate)? as u64;
            (!places.contains(&place)).then(|| places.push(place))?;
        }
        (elements > 0).then_some(Gates { places, elements })
    }

    /// The pieces of an extent that holds elements of so many bytes, in the order of the tensor; `None` if the blocks
    /// do not fill it.
    pub(crate) fn pieces(&self, whole: &Extent, element_bytes: u64) -> Option<Vec<Extent>> {
        let block = self.elements.checked_mul(element_bytes)?;
        let group = block.checked_mul(self.places.len() as u64)?;
        let groups = whole.len.checked_div(group).filter(|_| whole.len.is_multiple_of(group))?;
        let mut pieces = Vec::new();
        for number in 0..groups {
            let first = whole.offset.checked_add(number.checked_mul(group)?)?;
            for place in &self.places {
                pieces.push(Extent::new(whole.file, first.checked_add(place.checked_mul(block)?)?, block));
            }
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::FileId;

    #[test]
    fn the_blocks_of_each_group_go_to_the_places_of_their_gates() {
        let gates = Gates::of("ifco", "iofc", 3).unwrap();
        let pieces = gates.pieces(&Extent::new(FileId(0), 100, 96), 4).unwrap();
        let offsets: Vec<u64> = pieces.iter().map(|piece| piece.offset).collect();
        assert_eq!(offsets, [100, 124, 136, 112, 148, 172, 184, 160]);
        assert!(pieces.iter().all(|piece| piece.len == 12));
        assert_eq!(gates.pieces(&Extent::new(FileId(0), 0, 95), 4), None);
    }

    #[test]
    fn what_is_no_order_of_the_same_gates_is_none() {
        for own in ["iofc", "ifc", "iifc", "zrho", "ifcx"] {
            assert_eq!(Gates::of(own, "iofc", 1), None, "{own}");
        }
        assert_eq!(Gates::of("ifco", "iofc", 0), None);
    }
}
