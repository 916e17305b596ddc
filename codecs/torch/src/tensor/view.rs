//! What a pickle states of a tensor: a view of a storage.

use crate::container::StorageId;
use crate::format::Element;
use ckpt_api::{DType, Endian, Error, Shape, Signs};
use ckpt_containers::pickle::{Id, numpy};

/// A tensor as the pickle describes it: a view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) storage: StorageId<'a>,
    pub(crate) element: Element,
    /// First element in the storage, in elements of `element`.
    pub(crate) offset: u64,
    pub(crate) shape: Shape,
    /// Elements from one index of an axis to the next.
    pub(crate) strides: Vec<u64>,
    pub(crate) quantizer: Option<Quantizer>,
    pub(crate) turned: Option<Turned>,
    /// Of which distributed tensor it is what one rank has.
    pub(crate) distributed: Option<Box<Distributed>>,
}

/// Which parts of a view's floats are stored with the other sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// All: a negated view.
    All,
    /// The imaginary parts: a conjugated view.
    Imaginary,
    /// The real parts: a conjugated view that is negated.
    Real,
}

impl Turned {
    /// Returns what these flags mean for a type; `None` if it has no signs that are bits of their own.
    pub(super) fn new(dtype: DType, is_conjugated: bool, is_negated: bool) -> Option<Self> {
        match dtype {
            DType::C64 | DType::C128 if is_conjugated && is_negated => Some(Turned::Real),
            DType::C64 | DType::C128 if is_conjugated => Some(Turned::Imaginary),
            DType::C64 | DType::C128 | DType::F64 | DType::F32 | DType::F16 | DType::Bf16
                if !is_conjugated =>
            {
                Some(Turned::All)
            }
            _ => None,
        }
    }

    /// Returns where the signs are in numbers of this type.
    pub(crate) fn signs(self, dtype: DType, endian: Endian) -> Option<Signs> {
        let part = u8::try_from(dtype.component_bytes()).ok()?;
        let upper = match endian {
            Endian::Little => part.checked_sub(1)?,
            Endian::Big => 0,
        };
        match self {
            Turned::All => Signs::new(part, upper),
            Turned::Real => Signs::new(part.checked_mul(2)?, upper),
            Turned::Imaginary => Signs::new(part.checked_mul(2)?, part.checked_add(upper)?),
        }
    }
}

/// What the integers of a quantized tensor stand for: `(integer - zero_point) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantizer {
    Tensor {
        scale: f64,
        zero_point: i64,
    },
    /// Scales and zero points, which are tensors, along an axis.
    Channel {
        scales: Id,
        zero_points: Id,
        axis: u64,
    },
}

/// What a rank's file states of a distributed tensor of which the rank has a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Distributed {
    /// Length of each axis of the whole tensor.
    pub(crate) whole: Shape,
    /// The axis along which the ranks cut it, in their order; `None` if they cut it along several.
    pub(crate) axis: Option<usize>,
    /// How it is placed on the ranks, for messages: `Shard(0)`.
    pub(crate) placements: String,
}

/// What a call makes.
#[derive(Debug)]
pub(crate) enum Made<'a> {
    /// No tensor.
    Other,
    Tensor(Box<View<'a>>),
    /// An array of NumPy.
    /// An array, and the dtype of the tensor that was saved as it, if it was one.
    Array(Box<numpy::Array>, Option<DType>),
    /// A tensor without data, on the device `meta`.
    Meta,
    /// A tensor that cannot be represented.
    Unsupported(Error),
}
