//! Steps: what happens to elements between a source placement and a target placement.
//!
//! Every step states how it touches memory and its inverse. [`steps`] derives them from two encodings;
//! [`apply_elementwise`] applies those that look at one element at a time to a chunk.

mod cast;
mod pack;
mod permute;

pub use cast::{cast, castable, exact, for_each_number};
pub use pack::{pack, unpack};
pub use permute::permute;

use ckpt_api::{DType, Encoding, Endian, Error, Packing, Result, Shape};
use serde::Serialize;

/// One transformation of a tensor's elements or their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
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
    /// Reorders stored axes: axis `k` of the result is axis `order[k]` of what comes in. Inverse: the inverse permutation.
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
    },
    /// Puts stored slices together into the whole tensor. Inverse: cutting at the same places.
    Assemble {
        /// How many.
        slices: usize,
    },
    /// Converts every element; round to nearest even. The inverse is exact where `exact`.
    Cast {
        /// Element type before.
        from: DType,
        /// Element type after.
        to: DType,
        /// Whether every value survives.
        exact: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A chunk at a time, in order.
    Stream,
    /// A slab of the result at a time, gathered from many places.
    Tile,
}

impl Step {
    /// How this step touches memory.
    pub fn access(&self) -> Access {
        match self {
            Step::Permute { .. } | Step::Assemble { .. } | Step::Cut { .. } => Access::Tile,
            _ => Access::Stream,
        }
    }

    /// The step that undoes this one; `None` where values were rounded.
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
            Step::Cast { exact: false, .. } | Step::Assemble { .. } | Step::Cut { .. } => return None,
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
            Step::Cut { start, shape, whole } => format!("cut {shape} at {start:?} of {whole}"),
            Step::Assemble { slices } => format!("assemble {slices} slices"),
            Step::Cast { from, to, .. } => format!("cast {from} to {to}"),
        }
    }
}

/// The permutation that undoes `order`.
pub fn inverse_permutation(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    for (k, axis) in order.iter().enumerate() {
        inverse[*axis] = k;
    }
    inverse
}

/// The steps that lead from one encoding to another, in the order in which they are applied. `slices` is the number of
/// stored pieces of the source that have regions; 0 for none.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] where no cast exists between the dtypes.
pub fn steps(from: &Encoding, to: &Encoding, slices: usize) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let raw = from.dtype == to.dtype && from.packing == to.packing;
    if raw && from.packing == Packing::Bits && from.order == to.order && slices == 0 {
        return Ok(steps);
    }
    let component = from.dtype.component_bytes();
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
    if from.dtype == to.dtype {
        if from.endian != to.endian && component > 1 {
            steps.push(Step::SwapBytes { component });
        }
    } else {
        if !castable(from.dtype, to.dtype) {
            return Err(Error::unsupported(format!(
                "no conversion from {} to {} exists",
                from.dtype, to.dtype
            )));
        }
        if from.endian == Endian::Big && component > 1 {
            steps.push(Step::SwapBytes { component });
        }
        steps.push(Step::Cast { from: from.dtype, to: to.dtype, exact: exact(from.dtype, to.dtype) });
        let component = to.dtype.component_bytes();
        if to.endian == Endian::Big && component > 1 {
            steps.push(Step::SwapBytes { component });
        }
    }
    if to.packing == Packing::Bits && to.dtype.bits().is_some_and(|bits| bits < 8) {
        steps.push(Step::Pack { dtype: to.dtype });
    }
    Ok(steps)
}

/// Axis `k` of the result, `to[k]`, is which axis of `from`?
fn relative_order(from: &[usize], to: &[usize]) -> Vec<usize> {
    let position = inverse_permutation(from);
    to.iter().map(|axis| position[*axis]).collect()
}

/// Applies the elementwise steps of `steps` to a chunk of whole elements, in place of `bytes`.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] from a cast.
pub fn apply_elementwise(steps: &[Step], bytes: &mut Vec<u8>, spare: &mut Vec<u8>) -> Result<()> {
    for step in steps {
        match step {
            Step::SwapBytes { component } => swap_bytes(bytes, *component),
            Step::Cast { from, to, .. } => {
                cast(*from, *to, bytes, spare)?;
                std::mem::swap(bytes, spare);
            }
            Step::Unpack { dtype } => {
                unpack(*dtype, bytes, spare);
                std::mem::swap(bytes, spare);
            }
            Step::Pack { dtype } => {
                pack(*dtype, bytes, spare);
                std::mem::swap(bytes, spare);
            }
            Step::Permute { .. } | Step::Assemble { .. } | Step::Cut { .. } | Step::Reshape { .. } => {}
        }
    }
    Ok(())
}

fn swap_bytes(bytes: &mut [u8], component: usize) {
    match component {
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|chunk| chunk.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|chunk| chunk.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|chunk| chunk.reverse()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(dtype: DType, endian: Endian, order: &[usize], packing: Packing) -> Encoding {
        Encoding { dtype, endian, order: order.to_vec(), packing }
    }

    #[test]
    fn equal_encodings_need_no_step() {
        let e = encoding(DType::F4E2m1, Endian::Little, &[1, 0], Packing::Bits);
        assert_eq!(steps(&e, &e, 0).unwrap(), []);
    }

    #[test]
    fn a_big_endian_transposed_cast_takes_three_steps_in_order() {
        let from = encoding(DType::F64, Endian::Big, &[0, 1], Packing::Bytes);
        let to = encoding(DType::F32, Endian::Little, &[1, 0], Packing::Bytes);
        let names: Vec<String> = steps(&from, &to, 0).unwrap().iter().map(Step::describe).collect();
        assert_eq!(names, ["transpose", "swap bytes", "cast f64 to f32"]);
    }

    #[test]
    fn a_permutation_is_relative_to_the_stored_order() {
        let from = encoding(DType::U8, Endian::Little, &[2, 0, 1], Packing::Bytes);
        let to = encoding(DType::U8, Endian::Little, &[0, 1, 2], Packing::Bytes);
        assert_eq!(steps(&from, &to, 0).unwrap(), [Step::Permute { order: vec![1, 2, 0] }]);
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
    fn strings_have_no_cast() {
        let from = encoding(DType::String, Endian::Little, &[], Packing::Bytes);
        let to = encoding(DType::F32, Endian::Little, &[], Packing::Bytes);
        assert_eq!(steps(&from, &to, 0).unwrap_err().kind(), ckpt_api::Kind::Unsupported);
    }
}
