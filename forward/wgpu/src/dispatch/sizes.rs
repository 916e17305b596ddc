//! Checked sizes, strides and constants of kernels, as the shaders hold them.

use super::run::Requirement;
use crate::shader::Shader;
use ckpt_api::{Error, Result};
use ckpt_forward::kernel::{MAX_RANK, Window};
use ckpt_forward::{Element, Kernel, not_on_device};

/// The most elements of a buffer, and the greatest size or stride: so that every index that a shader computes fits 32
/// bits.
pub const MAX_ELEMENTS: usize = (1 << 30) - 1;

/// Checked sizes of a kernel.
#[derive(Clone, Copy)]
pub(super) struct Sizes<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) element: Element,
}

impl Sizes<'_> {
    pub(super) fn too_large(self, found: impl std::fmt::Display) -> Error {
        Error::limit("a kernel is too large for a GPU's 32-bit indices")
            .found(format!("{found} in kernel {}", self.kernel.name()))
            .expected(format!("at most {MAX_ELEMENTS}"))
            .help("run it on the CPU, or in smaller batches")
    }

    pub(super) fn contradiction(self, what: &str) -> Error {
        Error::unsupported("a kernel got sizes that do not fit")
            .found(format!("{what} in kernel {}", self.kernel.name()))
    }

    pub(super) fn word(self, value: usize) -> Result<u32> {
        if value > MAX_ELEMENTS {
            return Err(self.too_large(value));
        }
        u32::try_from(value).map_err(|_| self.too_large(value))
    }

    pub(super) fn words<const N: usize>(self, values: [usize; N]) -> Result<[u32; N]> {
        let mut words = [0; N];
        for (word, value) in words.iter_mut().zip(values) {
            *word = self.word(value)?;
        }
        Ok(words)
    }

    pub(super) fn product(self, lengths: &[usize]) -> Result<usize> {
        if lengths.contains(&0) {
            return Ok(0);
        }
        let product = lengths.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
        product
            .filter(|product| *product <= MAX_ELEMENTS)
            .ok_or_else(|| self.too_large(format!("{lengths:?}")))
    }

    /// Elements that a buffer must have for indices `offset + Σ iₐ·strideₐ`, `iₐ` below each length.
    pub(super) fn reach(self, offset: usize, axes: &[(usize, usize)]) -> Result<usize> {
        if axes.iter().any(|(len, _)| *len == 0) {
            return Ok(0);
        }
        let last = axes.iter().try_fold(offset, |last, (len, stride)| {
            (len - 1).checked_mul(*stride).and_then(|step| last.checked_add(step))
        });
        last.filter(|last| *last < MAX_ELEMENTS)
            .map(|last| last + 1)
            .ok_or_else(|| self.too_large(format!("lengths and strides {axes:?}")))
    }

    /// The same real or integer element as the output's.
    pub(super) fn like_output(self, len: usize) -> Requirement {
        Requirement { element: self.element, len }
    }

    /// One shader for real numbers, one for integers.
    pub(super) fn by_element(self, real: Shader, integer: Shader) -> Result<Shader> {
        match self.element {
            Element::F32 => Ok(real),
            Element::I32 => Ok(integer),
            Element::F64 => Err(self.no_binary64()),
        }
    }

    pub(super) fn real(self) -> Result<()> {
        match self.element {
            Element::F32 => Ok(()),
            Element::F64 => Err(self.no_binary64()),
            Element::I32 => Err(self.refused("this operation supports only real numbers")),
        }
    }

    pub(super) fn no_binary64(self) -> Error {
        self.refused("shaders have no f64")
    }

    /// The field is the caller's, who knows the node's name.
    pub(super) fn refused(self, message: &str) -> Error {
        Error::unsupported(message).found(format!("kernel {}", self.kernel.name()))
    }
}

/// Lengths or strides as the shaders hold them.
pub(super) fn axes(sizes: Sizes, rank: usize, values: &[usize]) -> Result<[u32; MAX_RANK]> {
    if values.len() != rank || rank > MAX_RANK {
        return Err(sizes.contradiction(&format!("{} axes beside {rank}", values.len())));
    }
    let mut words = [0; MAX_RANK];
    for (word, value) in words.iter_mut().zip(values) {
        *word = sizes.word(*value)?;
    }
    Ok(words)
}

/// Lengths and strides in pairs.
pub(super) fn pairs(lengths: &[usize], strides: &[usize]) -> Vec<(usize, usize)> {
    lengths.iter().copied().zip(strides.iter().copied()).collect()
}

/// The shaders' `Window`, which has no planes.
pub(super) fn window(sizes: Sizes, window: &Window) -> Result<Vec<u32>> {
    if !window.is_flat() {
        return Err(not_on_device(sizes.kernel));
    }
    let mut words = Vec::with_capacity(12);
    let fields = [window.input, window.output, window.kernel, window.stride, window.dilation, window.before];
    for [_, rows, columns] in fields {
        words.extend(sizes.words([rows, columns])?);
    }
    for axis in [1, 2] {
        // The furthest place must be an index, too, though it may be in the padding.
        sizes.reach(
            0,
            &[(window.output[axis], window.stride[axis]), (window.kernel[axis], window.dilation[axis])],
        )?;
    }
    Ok(words)
}

/// A constant's bits; it is rounded to binary32, as on the CPU.
#[expect(clippy::cast_possible_truncation, reason = "constants are rounded to binary32")]
pub(super) fn bits(value: f64) -> u32 {
    (value as f32).to_bits()
}

#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
pub(super) fn count_bits(len: usize) -> u32 {
    bits(len as f64)
}
