//! What the host sends to a device for a kernel: pure data, so that it can be checked, and run elsewhere, without a
//! device.

mod moves;
mod reals;
mod sums;

use crate::shader::{Shader, WORKGROUP};
use ckpt_api::{Error, Result};
use ckpt_forward::{Element, Kernel, not_on_device};

/// The most elements of a buffer, and the greatest size or stride: so that every index that a shader computes fits 32
/// bits.
pub const MAX_ELEMENTS: usize = (1 << 30) - 1;

/// The most workgroups on one axis that every device has.
const MAX_GROUPS: u32 = 65535;

/// One run of a shader.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// What runs.
    pub shader: Shader,
    /// Threads that have something to do; 0 where nothing is to be run.
    pub threads: u32,
    /// The shader's `Params`.
    pub params: Vec<u32>,
    /// For each of the shader's operands what it needs; `None` for one that the kernel has not.
    pub operands: Vec<Option<Requirement>>,
    /// What the output must be.
    pub output: Requirement,
}

/// What a buffer must be for a kernel to stay within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// What its elements are.
    pub element: Element,
    /// The fewest elements.
    pub len: usize,
}

impl Dispatch {
    /// What runs for `kernel` into a buffer of `output`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] where a size or an index leaves [`MAX_ELEMENTS`]; [`ckpt_api::Kind::Unsupported`] for
    /// a function that has no such result, and for sizes that contradict each other.
    pub fn new(kernel: &Kernel, output: Element) -> Result<Self> {
        let sizes = Sizes { kernel, element: output };
        match kernel {
            Kernel::Copy(copy) => moves::copy(sizes, copy),
            Kernel::Pad(pad) => moves::pad(sizes, pad),
            Kernel::Gather(gather) => moves::gather(sizes, gather),
            Kernel::Binary(binary) => sums::binary(sizes, binary),
            Kernel::Gemm(gemm) => sums::gemm(sizes, gemm),
            Kernel::Conv(conv) => sums::conv(sizes, conv),
            Kernel::SparseSum(sum) => sums::sparse_sum(sizes, sum),
            Kernel::Unary(unary) => reals::unary(sizes, unary),
            Kernel::Pool(pool) => reals::pool(sizes, pool),
            Kernel::Affine(affine) => reals::affine(sizes, affine),
            Kernel::LayerNorm(norm) => reals::layer_norm(sizes, norm),
            Kernel::Softmax(softmax) => reals::softmax(sizes, softmax),
            Kernel::Reduce(reduce) => reals::reduce(sizes, reduce),
            Kernel::Compare(_)
            | Kernel::Select(_)
            | Kernel::MatMul(_)
            | Kernel::Scan(_)
            | Kernel::Ranking(_)
            | Kernel::Scatter(_)
            | Kernel::Recurrence(_) => Err(not_on_device(kernel)),
            Kernel::StaticFeatures(image) => reals::static_features(sizes, image),
        }
    }

    /// Puts the fields that all shaders have before `words`.
    pub(crate) fn assemble(
        shader: Shader,
        threads: u32,
        words: &[u32],
        operands: Vec<Option<Requirement>>,
        output: Requirement,
    ) -> Self {
        let row = groups(threads).0 * WORKGROUP;
        let mut params: Vec<u32> = [threads, row, 0].iter().chain(words).copied().collect();
        // A structure with vectors in it is as long as a multiple of them; Metal's structure of sizes fits, too.
        params.resize(params.len().next_multiple_of(8), 0);
        Dispatch { shader, threads, params, operands, output }
    }

    /// Workgroups on the two axes.
    pub fn groups(&self) -> (u32, u32) {
        groups(self.threads)
    }
}

/// A rectangle of workgroups for so many threads, with few too many.
fn groups(threads: u32) -> (u32, u32) {
    let groups = threads.div_ceil(WORKGROUP).max(1);
    let rows = groups.div_ceil(MAX_GROUPS);
    (groups.div_ceil(rows), rows)
}

/// Checked sizes of a kernel.
#[derive(Clone, Copy)]
struct Sizes<'a> {
    kernel: &'a Kernel,
    element: Element,
}

impl Sizes<'_> {
    fn too_large(self, found: impl std::fmt::Display) -> Error {
        Error::limit("a kernel is too large for a GPU's 32-bit indices")
            .found(format!("{found} in kernel {}", self.kernel.name()))
            .expected(format!("at most {MAX_ELEMENTS}"))
            .help("run it on the CPU, or in smaller batches")
    }

    fn contradiction(self, what: &str) -> Error {
        Error::unsupported("a kernel got sizes that do not fit")
            .found(format!("{what} in kernel {}", self.kernel.name()))
    }

    fn word(self, value: usize) -> Result<u32> {
        if value > MAX_ELEMENTS {
            return Err(self.too_large(value));
        }
        u32::try_from(value).map_err(|_| self.too_large(value))
    }

    fn words<const N: usize>(self, values: [usize; N]) -> Result<[u32; N]> {
        let mut words = [0; N];
        for (word, value) in words.iter_mut().zip(values) {
            *word = self.word(value)?;
        }
        Ok(words)
    }

    fn product(self, lengths: &[usize]) -> Result<usize> {
        if lengths.contains(&0) {
            return Ok(0);
        }
        let product = lengths.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
        product
            .filter(|product| *product <= MAX_ELEMENTS)
            .ok_or_else(|| self.too_large(format!("{lengths:?}")))
    }

    /// Elements that a buffer must have for indices `offset + Σ iₐ·strideₐ`, `iₐ` below each length.
    fn reach(self, offset: usize, axes: &[(usize, usize)]) -> Result<usize> {
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
    fn like_output(self, len: usize) -> Requirement {
        Requirement { element: self.element, len }
    }

    /// One shader for real numbers, one for integers.
    fn by_element(self, real: Shader, integer: Shader) -> Result<Shader> {
        match self.element {
            Element::F32 => Ok(real),
            Element::I32 => Ok(integer),
            Element::F64 => Err(self.no_binary64()),
        }
    }

    fn real(self) -> Result<()> {
        match self.element {
            Element::F32 => Ok(()),
            Element::F64 => Err(self.no_binary64()),
            Element::I32 => Err(self.refused("this operation supports only real numbers")),
        }
    }

    fn no_binary64(self) -> Error {
        self.refused("shaders have no f64")
    }

    /// The field is the caller's, who knows the node's name.
    fn refused(self, message: &str) -> Error {
        Error::unsupported(message).found(format!("kernel {}", self.kernel.name()))
    }
}

fn integers(len: usize) -> Requirement {
    Requirement { element: Element::I32, len }
}

/// A constant's bits; it is rounded to binary32, as on the CPU.
#[expect(clippy::cast_possible_truncation, reason = "constants are rounded to binary32")]
fn bits(value: f64) -> u32 {
    (value as f32).to_bits()
}

#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
fn count_bits(len: usize) -> u32 {
    bits(len as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::Kind;
    use ckpt_forward::kernel::{
        Binary, Compare, Copy, Function, Gather, Pairwise, Reduce, Reduction, Relation, Select, Unary, View,
    };

    #[test]
    fn a_rectangle_of_workgroups_has_enough_threads_and_few_too_many() {
        for threads in [0, 1, 64, 65, 64 * 65535, 64 * 65535 + 1, 64 * 65535 * 3 + 17, u32::MAX / 4] {
            let (columns, rows) = groups(threads);
            assert!(columns <= MAX_GROUPS && rows <= MAX_GROUPS && columns > 0 && rows > 0);
            let all = u64::from(columns) * u64::from(rows) * u64::from(WORKGROUP);
            assert!(all >= u64::from(threads), "{threads}");
            assert!(all < u64::from(threads) + u64::from(WORKGROUP) * u64::from(rows + 1), "{threads}");
        }
    }

    #[test]
    fn a_size_that_leaves_32_bits_is_a_limit() {
        let huge = usize::MAX / 2;
        let kernels = [
            Kernel::Unary(Unary { len: 1 << 30, function: Function::Relu }),
            Kernel::Reduce(Reduce { rows: 1 << 20, len: 1 << 20, function: Reduction::Mean }),
            Kernel::Gather(Gather { rows: 1, columns: 1, table: 3, strides: [huge, 1] }),
            Kernel::Copy(Copy {
                shape: vec![3, 3],
                from: View { offset: 0, strides: vec![huge, huge] },
                to: View { offset: 0, strides: vec![3, 1] },
            }),
        ];
        for kernel in kernels {
            let error = Dispatch::new(&kernel, Element::F32).unwrap_err();
            assert_eq!(error.kind(), Kind::Limit, "{error}");
        }
    }

    #[test]
    fn a_buffer_must_reach_to_the_last_element_that_is_read() {
        let gather = Gather { rows: 4, columns: 2, table: 5, strides: [3, 7] };
        let dispatch = Dispatch::new(&Kernel::Gather(gather), Element::I32).unwrap();
        assert_eq!(dispatch.operands, vec![Some(integers(4 * 3 + 7 + 1)), Some(integers(4))]);
        assert_eq!(dispatch.output, integers(8));
    }

    #[test]
    fn binary64_and_functions_that_integers_have_not_are_refused() {
        let unary = |function| Kernel::Unary(Unary { len: 1, function });
        for (kernel, element) in [
            (unary(Function::Relu), Element::F64),
            (unary(Function::Tanh), Element::I32),
            (unary(Function::Scale { multiply: 1, divide: 0 }), Element::I32),
            (unary(Function::Scale { multiply: 1, divide: 2 }), Element::F32),
            (Kernel::Reduce(Reduce { rows: 1, len: 1, function: Reduction::Mean }), Element::I32),
        ] {
            assert_eq!(Dispatch::new(&kernel, element).unwrap_err().kind(), Kind::Unsupported);
        }
    }

    #[test]
    fn what_the_device_has_no_kernel_for_is_an_error_that_says_so() {
        let (shape, strides) = (vec![1], [vec![1], vec![1]]);
        let kernels = [
            Kernel::Unary(Unary { len: 1, function: Function::Mish }),
            Kernel::Reduce(Reduce { rows: 1, len: 1, function: Reduction::Sum }),
            Kernel::Binary(Binary {
                shape: shape.clone(),
                strides: strides.clone(),
                function: Pairwise::Subtract,
            }),
            Kernel::Compare(Compare { shape: shape.clone(), strides, relation: Relation::Less }),
            Kernel::Select(Select { shape, strides: [vec![1], vec![1], vec![1]] }),
        ];
        for kernel in kernels {
            let error = Dispatch::new(&kernel, Element::F32).unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            let text = error.to_string();
            assert!(text.contains("this device has no kernel") && text.contains(kernel.name()), "{text}");
        }
    }
}
