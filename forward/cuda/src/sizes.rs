//! Checks that a kernel reads and writes within its buffers.

use ckpt_api::{Error, Result};
use ckpt_forward::kernel::{MAX_RANK, Window};
use ckpt_forward::{Element, Kernel};

/// Number of operands that every entry takes; those that a kernel does not have are null.
pub const SLOTS: usize = 5;

/// The type and length of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Element type.
    pub element: Element,
    /// Number of elements.
    pub len: usize,
}

/// The operands of a kernel, taken one after the other.
pub(crate) struct Sizes<'a> {
    kernel: &'a Kernel,
    operands: &'a [Operand],
    output: Operand,
    taken: usize,
    slots: [Option<usize>; SLOTS],
    threads: u64,
}

impl<'a> Sizes<'a> {
    pub(crate) fn new(kernel: &'a Kernel, operands: &'a [Operand], output: Operand) -> Self {
        Sizes { kernel, operands, output, taken: 0, slots: [None; SLOTS], threads: 0 }
    }

    /// The next operand goes to `slot`, and has at least `len` elements of this type.
    pub(crate) fn take(&mut self, slot: usize, element: Element, len: Option<u64>) -> Result<()> {
        let Some(operand) = self.operands.get(self.taken) else {
            return Err(self.wrong_operands(self.taken + 1));
        };
        if operand.element != element {
            return Err(self.no_fit(format!("{:?}", operand.element), format!("{element:?}")));
        }
        self.holds(operand.len, len)?;
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(self.taken);
        }
        self.taken += 1;
        Ok(())
    }

    /// The output has just as many elements, each computed by a thread.
    pub(crate) fn output(&mut self, len: Option<u64>) -> Result<()> {
        if len.and_then(|len| usize::try_from(len).ok()) != Some(self.output.len) {
            let expected =
                len.map_or("fewer than 2^63 elements".into(), |len| ckpt_api::count(len, "element"));
            return Err(self.no_fit(ckpt_api::count(self.output.len, "element"), expected));
        }
        self.output_within(len, len)
    }

    /// The output has at least `len` elements, and `threads` write to it.
    pub(crate) fn output_within(&mut self, len: Option<u64>, threads: Option<u64>) -> Result<()> {
        self.holds(self.output.len, len)?;
        self.threads = self.limit(threads)?;
        Ok(())
    }

    fn holds(&self, found: usize, len: Option<u64>) -> Result<()> {
        let len = self.limit(len)?;
        if u64::try_from(found).is_ok_and(|found| found >= len) {
            return Ok(());
        }
        Err(self.no_fit(ckpt_api::count(found, "element"), ckpt_api::count(len, "element")))
    }

    /// A number that kernels compute with as a signed one.
    pub(crate) fn limit(&self, len: Option<u64>) -> Result<u64> {
        len.filter(|len| i64::try_from(*len).is_ok()).ok_or_else(|| does_not_fit(self.kernel))
    }

    pub(crate) fn must(&self, is_so: bool) -> Result<()> {
        if is_so { Ok(()) } else { Err(does_not_fit(self.kernel)) }
    }

    /// Lists of one length, which is at most [`MAX_RANK`].
    pub(crate) fn same_rank(&self, ranks: &[usize]) -> Result<()> {
        self.must(ranks.iter().all(|rank| *rank <= MAX_RANK && Some(rank) == ranks.first()))
    }

    /// No two indices are written to one element: each stride is beyond what the smaller ones reach.
    pub(crate) fn written_once(&self, shape: &[usize], strides: &[usize]) -> Result<()> {
        if shape.contains(&0) {
            return Ok(());
        }
        let mut axes: Vec<_> = shape.iter().zip(strides).filter(|(len, _)| **len > 1).collect();
        axes.sort_by_key(|(_, stride)| **stride);
        let mut reach = Some(0u64);
        for (len, stride) in axes {
            let (last, stride) = (as_u64(*len)?.saturating_sub(1), as_u64(*stride)?);
            self.must(reach.is_some_and(|reach| stride > reach))?;
            reach = reach.and_then(|reach| last.checked_mul(stride)?.checked_add(reach));
        }
        Ok(())
    }

    /// Every place that the window reaches is a signed number.
    pub(crate) fn window(&self, window: &Window) -> Result<()> {
        for axis in [1, 2] {
            let reach = extent(
                0,
                &[window.output[axis], window.kernel[axis]],
                &[window.stride[axis], window.dilation[axis]],
            );
            self.limit(reach)?;
            self.limit(Some(as_u64(window.before[axis])?))?;
        }
        Ok(())
    }

    /// Every place of the output covers a place of the input.
    pub(crate) fn covers(&self, window: &Window) -> Result<()> {
        for axis in [1, 2] {
            let covers = |p| (0..window.kernel[axis]).any(|k| window.place(axis, p, k).is_some());
            self.must((0..window.output[axis]).all(covers))?;
        }
        Ok(())
    }

    /// The operand for each slot, and the number of threads.
    pub(crate) fn finish(self) -> Result<([Option<usize>; SLOTS], u64)> {
        if self.taken < self.operands.len() {
            return Err(self.wrong_operands(self.taken));
        }
        Ok((self.slots, self.threads))
    }

    fn wrong_operands(&self, expected: usize) -> Error {
        self.no_fit(format!("{} operands", self.operands.len()), format!("{expected}"))
    }

    fn no_fit(&self, found: String, expected: String) -> Error {
        does_not_fit(self.kernel).found(found).expected(expected)
    }
}

/// The error for sizes that do not fit.
pub(crate) fn does_not_fit(kernel: &Kernel) -> Error {
    Error::unsupported("a kernel got operands or sizes that do not fit")
        .found(format!("in the kernel {}", kernel.name()))
}

fn as_u64(len: usize) -> Result<u64> {
    u64::try_from(len).map_err(|_| Error::unsupported("a size exceeds 64 bits").found(len.to_string()))
}

/// How many elements the kernel computes; `None` if they cannot be counted.
pub(crate) fn outputs(kernel: &Kernel) -> Option<u64> {
    match kernel {
        Kernel::Copy(copy) => product(&copy.shape),
        Kernel::Pad(pad) => product(&pad.output),
        Kernel::Unary(unary) => product(&[unary.len]),
        Kernel::Binary(binary) => product(&binary.shape),
        Kernel::Gemm(gemm) => product(&[gemm.rows, gemm.outputs]),
        Kernel::Conv(conv) => {
            let [planes, height, width] = conv.window.output;
            product(&[conv.batch, conv.outputs, planes, height, width])
        }
        Kernel::Pool(pool) => {
            let [planes, height, width] = pool.window.output;
            product(&[pool.images, planes, height, width])
        }
        Kernel::Affine(affine) => product(&[affine.outer, affine.channels, affine.inner]),
        Kernel::LayerNorm(norm) => product(&[norm.rows, norm.len]),
        Kernel::Softmax(softmax) => product(&[softmax.outer, softmax.len, softmax.inner]),
        Kernel::Reduce(reduce) => product(&[reduce.rows]),
        Kernel::Compare(compare) => product(&compare.shape),
        Kernel::Select(select) => product(&select.shape),
        Kernel::MatMul(matrices) => {
            product(&matrices.batch)?.checked_mul(product(&[matrices.rows, matrices.columns])?)
        }
        Kernel::Recurrence(kernel) => {
            product(&[kernel.batch, kernel.cell.states(), kernel.steps, kernel.hidden])
        }
        Kernel::Scan(scan) => product(&[scan.outer, scan.len, scan.inner]),
        Kernel::Ranking(ranking) => product(&[ranking.outer, ranking.count, ranking.inner]),
        Kernel::Gather(gather) => product(&[gather.rows, gather.columns]),
        Kernel::Scatter(scatter) => product(&[scatter.table, scatter.columns]),
        Kernel::SparseSum(sum) => product(&[sum.rows, sum.outputs]),
        Kernel::StaticFeatures(image) => product(&[image.batch, 8, image.height, image.width]),
    }
}

/// How many elements there are; `None` if they cannot be counted.
pub(crate) fn product(shape: &[usize]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |product, len| product.checked_mul(u64::try_from(*len).ok()?))
}

/// How many elements a strided view needs from the buffer's first on.
pub(crate) fn extent(offset: usize, shape: &[usize], strides: &[usize]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let first = u64::try_from(offset).ok()?.checked_add(1)?;
    shape.iter().zip(strides).try_fold(first, |extent, (len, stride)| {
        let (last, stride) = (u64::try_from(*len).ok()?.checked_sub(1)?, u64::try_from(*stride).ok()?);
        extent.checked_add(last.checked_mul(stride)?)
    })
}
