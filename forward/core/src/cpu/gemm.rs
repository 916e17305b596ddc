//! Matrix products.

use super::moves::each_row_of;
use super::number::{Number, Stored};
use super::parallel;
use super::product::{DEPTH, Job, Lanes, Product, Tile, pack};
use super::vectors::{ROWS, Sums, Used};
use crate::kernel::{Gemm, GemmStrides, MatMul};

/// Rows that are few enough that threads divide the columns, not the rows.
const FEW: usize = 64;

/// Bytes of the rows that one panel after the other is multiplied with: a part of an L2 cache.
const GROUP_BYTES: usize = 1 << 20;

/// Bytes of the packed weight that is held at a time.
const PACKED_BYTES: usize = 16 << 20;

/// The operands of a [`Gemm`].
pub(super) struct Operands<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) bias: Option<&'a [T]>,
    pub(super) bucket: Option<&'a [i32]>,
}

pub(super) fn gemm<T, A>(gemm: &Gemm, from: &Operands<T>, is_fused: bool, y: &mut [T]) -> Option<()>
where
    T: Stored<A> + Default,
    A: Product,
{
    A::dispatch(Multiplication { matrices: Matrices::new(gemm, from, is_fused), y })
}

struct Multiplication<'a, T> {
    matrices: Matrices<'a, T>,
    y: &'a mut [T],
}

impl<T, A> Job<A> for Multiplication<'_, T>
where
    T: Stored<A> + Default,
    A: Product,
{
    fn run<const C: usize>(self) -> Option<()>
    where
        A: Tile<C>,
    {
        let Gemm { buckets, rows, .. } = *self.matrices.gemm;
        match buckets == 0 && rows <= FEW {
            true => self.matrices.by_columns::<A, C>(self.y),
            false => self.matrices.by_rows::<A, C>(self.y),
        }
    }
}

/// Neighboring panels of columns.
struct Part {
    start: usize,
    count: usize,
}

struct Matrices<'a, T> {
    gemm: &'a Gemm,
    from: &'a Operands<'a, T>,
    /// [`Used::is_fused`].
    is_fused: bool,
    /// Distance of each element of a column of the weight from its first.
    steps: Vec<usize>,
}

impl<'a, T: Copy + Default + Send + Sync> Matrices<'a, T> {
    fn new(gemm: &'a Gemm, from: &'a Operands<'a, T>, is_fused: bool) -> Self {
        Matrices { gemm, from, is_fused, steps: (0..gemm.inner).map(|k| k * gemm.weight.inner).collect() }
    }

    /// This thread computes everything.
    fn alone<A, const C: usize>(&self, packed: &mut Packed<A, C>, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
        A: Tile<C>,
    {
        let Gemm { inner, outputs, .. } = *self.gemm;
        let part = Part { start: 0, count: outputs.div_ceil(C) };
        packed.columns.resize(part.count * inner, [A::ZERO; C]);
        for (panel, columns) in packed.columns.chunks_exact_mut(inner.max(1)).enumerate() {
            self.pack_columns(0, panel, columns);
        }
        self.rows_of(0, &part, &packed.columns, &mut packed.rows, y)
    }

    /// Each thread computes some rows. All columns are packed before.
    fn by_rows<A, const C: usize>(&self, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
        A: Tile<C>,
    {
        let Gemm { inner, outputs, .. } = *self.gemm;
        let sets = self.gemm.buckets.max(1);
        let panels = outputs.div_ceil(C);
        // Of a wide weight, a part at a time: packed, it is not held as a whole.
        let each = (PACKED_BYTES / (sets * inner.max(1) * C * size_of::<A>()).max(1)).clamp(1, panels.max(1));
        let mut columns = vec![[A::ZERO; C]; sets * each * inner];
        for start in (0..panels).step_by(each) {
            let part = Part { start, count: each.min(panels - start) };
            let columns = &mut columns[..sets * part.count * inner];
            parallel::rows(columns, inner, sets * part.count * inner * C, |first, columns| {
                for (panel, columns) in (first..).zip(columns.chunks_exact_mut(inner)) {
                    self.pack_columns(panel / part.count, part.start + panel % part.count, columns);
                }
                Some(())
            })?;
            parallel::rows(y, outputs, self.work(), |first, y| {
                self.rows_of(first, &part, columns, &mut Vec::new(), y)
            })?;
        }
        Some(())
    }

    /// Computes the columns of some packed panels for the rows of `y`, of which `first` is the first.
    fn rows_of<A, const C: usize>(
        &self,
        first: usize,
        part: &Part,
        columns: &[[A; C]],
        group: &mut Vec<[A; ROWS]>,
        y: &mut [T],
    ) -> Option<()>
    where
        T: Stored<A>,
        A: Tile<C>,
    {
        let Gemm { inner, outputs, .. } = *self.gemm;
        let mut sums = Vec::new();
        for (set, rows) in self.runs(first..first + y.len() / outputs)? {
            for rows in rows.chunks(self.rows_of_group::<A>()) {
                self.pack_rows(rows, group);
                for panel in 0..part.count {
                    let columns = &columns[(set * part.count + panel) * inner..][..inner];
                    let column = (part.start + panel) * C;
                    let used = Used { rows: rows.len(), columns: outputs - column, is_fused: self.is_fused };
                    sum(group, columns, used, &mut sums);
                    for (row, sums) in rows.iter().zip(sums.as_flattened()) {
                        let y = &mut y[(row - first) * outputs..][..outputs][column..];
                        self.store(sums, set, column, y)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Each thread computes some columns, and packs these alone.
    fn by_columns<A, const C: usize>(&self, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
        A: Tile<C>,
    {
        let Gemm { inner, outputs, rows, .. } = *self.gemm;
        let mut packed = Vec::new();
        self.pack_rows(&(0..rows).collect::<Vec<_>>(), &mut packed);
        let panels = outputs.div_ceil(C);
        let mut computed = vec![T::default(); panels * rows * C];
        parallel::rows(&mut computed, rows * C, self.work(), |first, part| {
            let (mut columns, mut sums) = (vec![[A::ZERO; C]; inner], Vec::new());
            for (panel, part) in (first..).zip(part.chunks_exact_mut(rows * C)) {
                self.pack_columns(0, panel, &mut columns);
                let used = Used { rows, columns: outputs - panel * C, is_fused: self.is_fused };
                sum(&packed, &columns, used, &mut sums);
                for (sums, part) in sums.as_flattened().iter().zip(part.chunks_exact_mut(C)) {
                    self.store(sums, 0, panel * C, &mut part[..C.min(used.columns)])?;
                }
            }
            Some(())
        })?;
        for (panel, computed) in computed.chunks_exact((rows * C).max(1)).enumerate() {
            for (y, computed) in y.chunks_exact_mut(outputs).zip(computed.chunks_exact(C)) {
                let y = &mut y[panel * C..];
                let count = C.min(y.len());
                y[..count].copy_from_slice(&computed[..count]);
            }
        }
        Some(())
    }

    /// Multiplications.
    fn work(&self) -> usize {
        self.gemm.rows.saturating_mul(self.gemm.inner).saturating_mul(self.gemm.outputs)
    }

    /// Rows whose packed elements fit [`GROUP_BYTES`].
    fn rows_of_group<A>(&self) -> usize {
        let tile = ROWS * self.gemm.inner.max(1) * size_of::<A>();
        (GROUP_BYTES / tile).max(1) * ROWS
    }

    /// The parameter sets that these rows choose, each with its rows.
    fn runs(&self, rows: std::ops::Range<usize>) -> Option<Vec<(usize, Vec<usize>)>> {
        let Some(bucket) = self.from.bucket else { return Some(vec![(0, rows.collect())]) };
        let mut runs = vec![Vec::new(); self.gemm.buckets];
        for row in rows {
            runs.get_mut(usize::try_from(bucket[row]).ok()?)?.push(row);
        }
        Some(runs.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()).collect())
    }

    fn pack_columns<A: Number, const C: usize>(&self, set: usize, panel: usize, columns: &mut [[A; C]])
    where
        T: Stored<A>,
    {
        let strides = self.gemm.weight;
        let lanes = Lanes {
            first: set * strides.bucket + panel * C * strides.output,
            lane: strides.output,
            count: self.gemm.outputs - panel * C,
            steps: &self.steps,
        };
        pack(columns, self.from.weight, &lanes);
    }

    /// Packs rows in tiles of [`ROWS`].
    fn pack_rows<A: Number>(&self, rows: &[usize], packed: &mut Vec<[A; ROWS]>)
    where
        T: Stored<A>,
    {
        let inner = self.gemm.inner;
        packed.resize(rows.len().div_ceil(ROWS) * inner, [A::ZERO; ROWS]);
        for (rows, packed) in rows.chunks(ROWS).zip(packed.chunks_exact_mut(inner.max(1))) {
            for (l, row) in rows.iter().enumerate() {
                let x = &self.from.x[row * inner..][..inner];
                packed.iter_mut().zip(x).for_each(|(packed, x)| packed[l] = x.widen());
            }
        }
    }

    /// Stores sums of a row, the first one of which is column `first`.
    fn store<A: Number>(&self, sums: &[A], set: usize, first: usize, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
    {
        let bias = self.from.bias.zip(self.gemm.bias);
        for (column, (y, sum)) in (first..).zip(y.iter_mut().zip(sums)) {
            *y = T::narrow(match bias {
                Some((bias, strides)) => {
                    sum.add(bias[set * strides.bucket + column * strides.output].widen())
                }
                None => *sum,
            })?;
        }
        Some(())
    }
}

/// Sums the products of packed rows and the columns of a panel, in tiles.
fn sum<A: Tile<C>, const C: usize>(
    packed: &[[A; ROWS]],
    panel: &[[A; C]],
    used: Used,
    sums: &mut Vec<Sums<A, C>>,
) {
    sums.clear();
    sums.resize(used.rows.div_ceil(ROWS), [[A::ZERO; C]; ROWS]);
    let inner = panel.len();
    for (block, panel) in panel.chunks(DEPTH).enumerate() {
        for (tile, sums) in sums.iter_mut().enumerate() {
            let packed = &packed[tile * inner + block * DEPTH..][..panel.len()];
            A::tile(packed, panel, Used { rows: used.rows - tile * ROWS, ..used }, sums);
        }
    }
}

/// Multiplies the matrices of each index of the batch.
pub(super) fn mat_mul<T, A>(product: &MatMul, of: [&[T]; 2], is_fused: bool, y: &mut [T]) -> Option<()>
where
    T: Stored<A> + Default,
    A: Product,
{
    A::dispatch(Batch { product, of, is_fused, y })
}

struct Batch<'a, T> {
    product: &'a MatMul,
    of: [&'a [T]; 2],
    is_fused: bool,
    y: &'a mut [T],
}

impl<T, A> Job<A> for Batch<'_, T>
where
    T: Stored<A> + Default,
    A: Product,
{
    fn run<const C: usize>(self) -> Option<()>
    where
        A: Tile<C>,
    {
        let Batch { product, of: [a, b], is_fused, y } = self;
        let MatMul { rows, inner, columns, .. } = *product;
        let axes = product.batch.len();
        let (a_batch, a_own) = product.a.split_at_checked(axes)?;
        let (b_batch, b_own) = product.b.split_at_checked(axes)?;
        let (&[a_row, a_inner], &[b_inner, b_column]) = (a_own, b_own) else { return None };
        let weight = GemmStrides { bucket: 0, inner: b_inner, output: b_column };
        let gemm = Gemm { rows, inner, outputs: columns, weight, bias: None, buckets: 0 };
        let count = product.batch.iter().product::<usize>();
        let is_wide = count >= parallel::most_threads();
        let each = |first: usize, y: &mut [T]| {
            let mut own = vec![T::default(); rows * inner];
            let mut packed = Packed { rows: Vec::new(), columns: Vec::<[A; C]>::new() };
            let batch = first..first + y.len().checked_div(rows * columns).unwrap_or(0);
            each_row_of(batch, &product.batch, [a_batch, b_batch], |batch, starts, steps| {
                for (i, index) in batch.enumerate() {
                    let [a_first, b_first] = [0, 1].map(|side| starts[side] + i * steps[side]);
                    for (row, own) in own.chunks_exact_mut(inner.max(1)).enumerate() {
                        let a = &a[a_first + row * a_row..];
                        own.iter_mut().zip(a.iter().step_by(a_inner.max(1))).for_each(|(own, a)| *own = *a);
                    }
                    let from = Operands { x: &own, weight: &b[b_first..], bias: None, bucket: None };
                    let y = &mut y[(index - first) * rows * columns..][..rows * columns];
                    match is_wide {
                        true => Matrices::new(&gemm, &from, is_fused).alone(&mut packed, y)?,
                        false => self::gemm(&gemm, &from, is_fused, y)?,
                    }
                }
                Some(())
            })
        };
        match is_wide {
            true => {
                let work = gemm.rows.saturating_mul(inner).saturating_mul(columns).saturating_mul(count);
                parallel::rows(y, rows * columns, work, each)
            }
            false => each(0, y),
        }
    }
}

/// The packed operands of a product, which the next product overwrites.
struct Packed<A, const C: usize> {
    rows: Vec<[A; ROWS]>,
    columns: Vec<[A; C]>,
}
