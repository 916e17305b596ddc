//! Steps: what happens to elements between a source's encoding and a target's.
//!
//! Each step states how it touches memory and its inverse. [`steps`] derives them from two encodings.

use super::permutation::{inverse_permutation, relative_order};
use crate::transform::{castable, exact};
use ckpt_api::{Blocks, DType, Encoding, Endian, Error, Packing, Result, Rounding, Scaling, Shape};
use serde::{Deserialize, Serialize};

/// One transformation of a tensor's elements or their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Step {
    /// Reverses the bytes of every component. Its own inverse.
    SwapBytes {
        /// Bytes reversed together.
        component: usize,
    },
    /// Spreads bit-packed elements to whole bytes. Inverse: [`Step::Pack`].
    Unpack {
        /// Element type.
        dtype: DType,
    },
    /// Reorders stored axes: axis `k` of the result is axis `order[k]` of what comes in. Inverse: the inverse
    /// permutation.
    Permute {
        /// The permutation.
        order: Vec<usize>,
    },
    /// Takes one box of what is stored as one. Inverse: putting the parts together, which needs the others.
    Cut {
        /// First index on each axis.
        start: Vec<u64>,
        /// Length on each axis.
        shape: Shape,
        /// Length of the whole on each axis.
        whole: Shape,
        /// Elements from one index of each axis to the next, where the whole skips or repeats what is stored; else empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        strides: Vec<u64>,
    },
    /// Puts stored slices together into the whole tensor. Inverse: cutting at the same places.
    Assemble {
        /// How many.
        slices: usize,
    },
    /// Converts every element; round to nearest even. A finite number that would not be finite is an error. The inverse
    /// is exact where `exact`.
    Cast {
        /// Element type before.
        from: DType,
        /// Element type after.
        to: DType,
        /// Whether every value survives.
        exact: bool,
    },
    /// Adds other tensors, in 32-bit floats. Its inverse needs them.
    Add {
        /// Their names.
        tensors: Vec<String>,
        /// How every number becomes whole units before they are added; `None` if they are added as they are.
        #[serde(skip_serializing_if = "Option::is_none")]
        rounded: Option<Scaling>,
    },
    /// Stores numbers as integers; an integer that does not fit is an error. Inverse: [`Step::Dequantize`], off by less
    /// than one unit of the scale (half of one where it rounds to nearest), but for numbers that a limit clips.
    Quantize {
        /// Integer type.
        to: DType,
        /// Scale and rounding.
        #[serde(flatten)]
        scaling: Scaling,
    },
    /// Reads integers as the numbers that they stand for. Inverse: [`Step::Quantize`], exact when it rounds to nearest
    /// and the integers have 16 bits or fewer.
    Dequantize {
        /// Integer type.
        from: DType,
        /// Scale and rounding.
        #[serde(flatten)]
        scaling: Scaling,
    },
    /// Computes 32-bit floats from stored elements, each by itself, when these are read. No inverse: results are
    /// rounded.
    Compute {
        /// Element type that is stored.
        from: DType,
        /// What happens to each number, in order.
        operations: Vec<String>,
    },
    /// Reads the numbers of blocks as 32-bit floats. No inverse: blocks round.
    DecodeBlocks {
        /// The blocks.
        blocks: Blocks,
    },
    /// Stores 32-bit floats in blocks; a number that no block can hold is an error. No inverse: blocks round.
    EncodeBlocks {
        /// The blocks.
        blocks: Blocks,
    },
    /// States another shape for the same elements in the same order: no byte changes. Inverse: with the shapes swapped.
    Reshape {
        /// Stored shape before.
        from: Shape,
        /// Stored shape after.
        to: Shape,
    },
    /// Packs elements smaller than a byte. Inverse: [`Step::Unpack`].
    Pack {
        /// Element type.
        dtype: DType,
    },
}

/// How a step touches memory: what the budget is planned from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Access {
    /// A chunk at a time, in order.
    #[default]
    Stream,
    /// A tile of the result at a time, gathered from many places.
    Tile,
}

impl Step {
    /// How this step touches memory.
    pub fn access(&self) -> Access {
        match self {
            Step::Permute { .. } | Step::Assemble { .. } | Step::Cut { .. } | Step::Add { .. } => {
                Access::Tile
            }
            _ => Access::Stream,
        }
    }

    /// The step that undoes this one; `None` if values were rounded.
    pub fn inverse(&self) -> Option<Step> {
        Some(match self {
            Step::SwapBytes { .. } => self.clone(),
            Step::Unpack { dtype } => Step::Pack { dtype: *dtype },
            Step::Pack { dtype } => Step::Unpack { dtype: *dtype },
            Step::Permute { order } => Step::Permute { order: inverse_permutation(order) },
            Step::Reshape { from, to } => Step::Reshape { from: to.clone(), to: from.clone() },
            Step::Cast { from, to, exact: true } => {
                Step::Cast { from: *to, to: *from, exact: exact(*to, *from) }
            }
            Step::Quantize { to, scaling } => Step::Dequantize { from: *to, scaling: *scaling },
            Step::Dequantize { from, scaling } => Step::Quantize { to: *from, scaling: *scaling },
            Step::DecodeBlocks { .. }
            | Step::EncodeBlocks { .. }
            | Step::Compute { .. }
            | Step::Cast { exact: false, .. }
            | Step::Assemble { .. }
            | Step::Cut { .. }
            | Step::Add { .. } => {
                return None;
            }
        })
    }

    /// A few words for people.
    pub fn describe(&self) -> String {
        match self {
            Step::SwapBytes { .. } => "swap bytes".to_owned(),
            Step::Unpack { .. } => "unpack bits".to_owned(),
            Step::Pack { .. } => "pack bits".to_owned(),
            Step::Permute { order } if order[..] == [1, 0] => "transpose".to_owned(),
            Step::Permute { order } => format!("permute {order:?}"),
            Step::Reshape { from, to } => format!("reshape {from} to {to}"),
            Step::Cut { start, shape, whole, strides } if strides.is_empty() => {
                format!("cut {shape} at {start:?} of {whole}")
            }
            Step::Cut { start, shape, strides, .. } => {
                format!("gather {shape} at {start:?} by strides {strides:?}")
            }
            Step::Add { tensors, rounded: None } => format!("add {}", tensors.join(", ")),
            Step::Add { tensors, rounded: Some(Scaling { scale, .. }) } => {
                format!("add {}, each rounded at {scale}", tensors.join(", "))
            }
            Step::Quantize { to, scaling: Scaling { scale, limit: Some(limit), .. } } => {
                format!("quantize to {to} at {scale}, clipped at ±{limit}")
            }
            Step::Quantize { to, scaling } => format!("quantize to {to} at {}", scaling.scale),
            Step::Dequantize { from, scaling } => format!("dequantize {from} at {}", scaling.scale),
            Step::DecodeBlocks { blocks } => format!("read blocks of {blocks}"),
            Step::EncodeBlocks { blocks } => format!("store in blocks of {blocks}"),
            Step::Compute { from, operations } if operations.is_empty() => format!("read {from} as f32"),
            Step::Compute { operations, .. } => operations.join(", "),
            Step::Assemble { slices } => format!("assemble {slices} slices"),
            Step::Cast { from, to, .. } => format!("cast {from} to {to}"),
        }
    }
}

/// The steps that lead from one encoding to another, in the order in which they are applied. `slices` is the number of
/// stored pieces of the source that have regions, 0 for none; `is_part` says whether the tensor is a part of what the
/// source stores; `added` names what is added.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] if no conversion exists between the dtypes, or to or from the blocks.
pub(crate) fn steps(
    from: &Encoding,
    to: &Encoding,
    slices: usize,
    is_part: bool,
    added: &[String],
) -> Result<Vec<Step>> {
    let moved = from.order == to.order && slices == 0 && !is_part && added.is_empty();
    let (mut before, mut after) = (None, None);
    match (from.blocks(), to.blocks()) {
        (None, None) => {}
        (Some(own), Some(wanted)) if own == wanted && moved => return Ok(Vec::new()),
        (own, wanted) => {
            before = own.map(|own| decoded(own, to)).transpose()?;
            after = wanted.map(encoded).transpose()?;
        }
    }
    let mut steps = Vec::from_iter(before);
    // Blocks are of little-endian floats, whatever the byte order of their files.
    let plain = |encoding: &Encoding| match encoding.blocks() {
        Some(_) => encoding.clone().in_blocks(None).with_endian(Endian::Little),
        None => encoding.clone(),
    };
    plain_steps(&plain(from), &plain(to), slices, added, &mut steps)?;
    steps.extend(after);
    Ok(steps)
}

/// The step that reads the numbers of blocks.
fn decoded(blocks: &Blocks, to: &Encoding) -> Result<Step> {
    if !blocks.is_opaque() {
        return Ok(Step::DecodeBlocks { blocks: blocks.clone() });
    }
    Err(blocks.refusal().found(match to.blocks() {
        Some(other) if other == blocks => "elements in another order, or parts of the tensor".to_owned(),
        Some(other) => format!("a target in blocks of {other}"),
        None => format!("a target of {}", to.dtype),
    }))
}

/// The step that stores numbers in blocks.
fn encoded(blocks: &Blocks) -> Result<Step> {
    match blocks.is_encodable() {
        true => Ok(Step::EncodeBlocks { blocks: blocks.clone() }),
        false => Err(blocks.no_encoder()),
    }
}

/// The steps between two encodings without blocks.
fn plain_steps(
    from: &Encoding,
    to: &Encoding,
    slices: usize,
    added: &[String],
    steps: &mut Vec<Step>,
) -> Result<()> {
    let same = from.dtype == to.dtype && from.scaling() == to.scaling() && added.is_empty();
    let raw = same && from.packing == to.packing && from.packing == Packing::Bits;
    if raw && from.order == to.order && slices == 0 {
        return Ok(());
    }
    if slices > 0 {
        steps.push(Step::Assemble { slices });
    }
    if from.packing == Packing::Bits && from.dtype.bits().is_some_and(|bits| bits < 8) {
        steps.push(Step::Unpack { dtype: from.dtype });
    }
    let permuted = relative_order(&from.order, &to.order);
    if permuted.iter().enumerate().any(|(k, axis)| k != *axis) {
        steps.push(Step::Permute { order: permuted });
    }
    if !same || from.endian != to.endian {
        convert(from, to, same, added, steps)?;
    }
    if to.packing == Packing::Bits && to.dtype.bits().is_some_and(|bits| bits < 8) {
        steps.push(Step::Pack { dtype: to.dtype });
    }
    Ok(())
}

/// The steps that change elements: to numbers of this machine's kind, from type to type, and to the target's kind.
fn convert(
    from: &Encoding,
    to: &Encoding,
    same: bool,
    added: &[String],
    steps: &mut Vec<Step>,
) -> Result<()> {
    let swap = |encoding: &Encoding| {
        let component = encoding.dtype.component_bytes();
        (component > 1 && (same || encoding.endian == Endian::Big)).then_some(Step::SwapBytes { component })
    };
    if same {
        steps.extend(swap(from));
        return Ok(());
    }
    let cast = |from: DType, to: DType| match castable(from, to) {
        _ if from == to => Ok(None),
        true => Ok(Some(Step::Cast { from, to, exact: exact(from, to) })),
        false => Err(Error::unsupported(format!("no conversion from {from} to {to} exists"))),
    };
    steps.extend(swap(from));
    let mut dtype = from.dtype;
    if let Some(scaling) = from.scaling() {
        steps.push(Step::Dequantize { from: dtype, scaling });
        dtype = DType::F32;
    }
    if !added.is_empty() {
        steps.extend(cast(dtype, DType::F32)?);
        let rounded = to.scaling().filter(|scaling| scaling.each_term);
        steps.push(Step::Add { tensors: added.to_vec(), rounded });
        dtype = DType::F32;
    }
    match to.scaling() {
        Some(mut scaling) => {
            steps.extend(cast(dtype, DType::F32)?);
            if scaling.each_term && !added.is_empty() {
                // They are whole units already: truncation would take one from what is a rounding error below.
                scaling.rounding = Rounding::Nearest;
            }
            steps.push(Step::Quantize { to: to.dtype, scaling });
        }
        None => steps.extend(cast(dtype, to.dtype)?),
    }
    steps.extend(swap(to));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(dtype: DType, endian: Endian, order: &[usize], packing: Packing) -> Encoding {
        Encoding::new(dtype, order.to_vec()).with_endian(endian).with_packing(packing)
    }

    #[test]
    fn equal_encodings_need_no_step() {
        let e = encoding(DType::F4E2m1, Endian::Little, &[1, 0], Packing::Bits);
        assert_eq!(steps(&e, &e, 0, false, &[]).unwrap(), []);
    }

    #[test]
    fn a_big_endian_transposed_cast_takes_three_steps_in_order() {
        let from = encoding(DType::F64, Endian::Big, &[0, 1], Packing::Bytes);
        let to = encoding(DType::F32, Endian::Little, &[1, 0], Packing::Bytes);
        let names: Vec<String> =
            steps(&from, &to, 0, false, &[]).unwrap().iter().map(Step::describe).collect();
        assert_eq!(names, ["transpose", "swap bytes", "cast f64 to f32"]);
    }

    #[test]
    fn a_permutation_is_relative_to_the_stored_order() {
        let from = encoding(DType::U8, Endian::Little, &[2, 0, 1], Packing::Bytes);
        let to = encoding(DType::U8, Endian::Little, &[0, 1, 2], Packing::Bytes);
        assert_eq!(steps(&from, &to, 0, false, &[]).unwrap(), [Step::Permute { order: vec![1, 2, 0] }]);
    }

    #[test]
    fn every_invertible_step_is_undone_by_its_inverse() {
        let step = Step::Permute { order: vec![2, 0, 1] };
        assert_eq!(step.inverse().unwrap(), Step::Permute { order: vec![1, 2, 0] });
        assert_eq!(step.inverse().unwrap().inverse().unwrap(), step);
        let shape = |dims: &[u64]| Shape::new(dims).unwrap();
        let reshape = Step::Reshape { from: shape(&[4]), to: shape(&[1, 4]) };
        assert_eq!(reshape.inverse().unwrap(), Step::Reshape { from: shape(&[1, 4]), to: shape(&[4]) });
        let lossy = Step::Cast { from: DType::F32, to: DType::F16, exact: false };
        assert_eq!(lossy.inverse(), None);
    }

    #[test]
    fn what_is_added_is_added_as_floats_between_reading_and_storing_integers() {
        let scaling = |scale: u32| {
            Some(Scaling {
                scale: scale.try_into().unwrap(),
                rounding: ckpt_api::Rounding::Nearest,
                limit: None,
                each_term: false,
            })
        };
        let plain = encoding(DType::I16, Endian::Little, &[0], Packing::Bytes);
        let from = plain.clone().with_scaling(scaling(255));
        let to = plain.with_scaling(scaling(64)).with_dtype(DType::I8);
        let words = |from: &Encoding, to: &Encoding, added: &[&str]| {
            let added: Vec<String> = added.iter().map(|name| (*name).to_owned()).collect();
            steps(from, to, 0, false, &added)
                .unwrap()
                .iter()
                .map(Step::describe)
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(words(&from, &to, &["l0f"]), "dequantize i16 at 255, add l0f, quantize to i8 at 64");
        assert_eq!(words(&from, &from, &[]), "");
        assert_eq!(words(&from, &from, &["b"]), "dequantize i16 at 255, add b, quantize to i16 at 255");
        let half = encoding(DType::F16, Endian::Big, &[0], Packing::Bytes);
        assert_eq!(words(&half, &to, &[]), "swap bytes, cast f16 to f32, quantize to i8 at 64");
        assert_eq!(
            words(&half, &half, &["b"]),
            "swap bytes, cast f16 to f32, add b, cast f32 to f16, swap bytes"
        );
    }

    #[test]
    fn strings_have_no_cast() {
        let from = encoding(DType::String, Endian::Little, &[], Packing::Bytes);
        let to = encoding(DType::F32, Endian::Little, &[], Packing::Bytes);
        assert_eq!(steps(&from, &to, 0, false, &[]).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
    }
}
