//! What the host sends to a device for a kernel: pure data, so that it can be checked, and run elsewhere, without a
//! device.

mod moves;
mod reals;
mod run;
mod sizes;
mod sums;

use ckpt_api::Result;
use ckpt_forward::{Element, Kernel, not_on_device};
pub use run::{Dispatch, Requirement};
pub use sizes::MAX_ELEMENTS;
use sizes::Sizes;

impl Dispatch {
    /// What runs for `kernel` into a buffer of `output`.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if a size or an index leaves [`MAX_ELEMENTS`]; [`ckpt_api::Kind::Unsupported`] for
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
}

#[cfg(test)]
mod tests {
    use super::run::integers;
    use super::*;
    use ckpt_api::Kind;
    use ckpt_forward::kernel::{
        Binary, Compare, Copy, Function, Gather, Pairwise, Reduce, Reduction, Relation, Select, Unary, View,
    };

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
