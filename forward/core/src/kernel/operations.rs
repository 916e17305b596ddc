//! How much arithmetic a kernel does, from its sizes.

use super::{Kernel, Window};

impl Kernel {
    /// Returns the number of multiply-adds, or of elements where elements are computed one by one or moved; `u64::MAX`
    /// for more. A window counts its places in the padding, too: some devices look at them.
    pub fn operations(&self) -> u64 {
        match self {
            Kernel::Gemm(gemm) => product(&[gemm.rows, gemm.inner, gemm.outputs]),
            Kernel::MatMul(matrices) => {
                let each = product(&[matrices.rows, matrices.inner, matrices.columns]);
                product(&matrices.batch).saturating_mul(each)
            }
            Kernel::Conv(conv) => {
                let inputs = conv.inputs.checked_div(conv.groups).unwrap_or(0);
                product(&[conv.batch, conv.outputs, inputs]).saturating_mul(taps(&conv.window))
            }
            Kernel::Pool(pool) => (pool.images as u64).saturating_mul(taps(&pool.window)),
            Kernel::Reduce(reduce) => product(&[reduce.rows, reduce.len]),
            Kernel::Recurrence(recurrence) => {
                let units = product(&[recurrence.batch, recurrence.steps, recurrence.cell.gates()]);
                units.saturating_mul(product(&[recurrence.hidden, recurrence.hidden.saturating_add(1)]))
            }
            Kernel::Ranking(ranking) => {
                // Elements are selected, and the selected ones sorted.
                let levels = u64::from(usize::BITS - ranking.count.leading_zeros());
                let sorted = product(&[ranking.outer, ranking.count, ranking.inner]).saturating_mul(levels);
                product(&[ranking.outer, ranking.len, ranking.inner]).saturating_add(sorted)
            }
            Kernel::Scatter(scatter) => product(&[scatter.table, scatter.columns])
                .saturating_add(product(&[scatter.rows, scatter.columns])),
            Kernel::SparseSum(sum) => product(&[sum.rows, sum.slots, sum.outputs]),
            Kernel::Copy(_)
            | Kernel::Pad(_)
            | Kernel::Unary(_)
            | Kernel::Binary(_)
            | Kernel::Compare(_)
            | Kernel::Select(_)
            | Kernel::Affine(_)
            | Kernel::LayerNorm(_)
            | Kernel::Softmax(_)
            | Kernel::Scan(_)
            | Kernel::Gather(_)
            | Kernel::StaticFeatures(_) => self.outputs() as u64,
        }
    }
}

/// The places of a window's elements, for all places of the output.
fn taps(window: &Window) -> u64 {
    product(&window.output).saturating_mul(product(&window.kernel))
}

fn product(lengths: &[usize]) -> u64 {
    lengths.iter().fold(1, |product: u64, len| product.saturating_mul(*len as u64))
}
