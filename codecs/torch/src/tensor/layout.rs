//! Where a view of a storage is in the file, as extents.

use super::view::View;
use crate::container::Record;
use ckpt_api::{
    Checksum, ChecksumAlgorithm, Compression, Encoding, Endian, Error, Extent, FileId, Limit, Limits,
    Placement, Result, Shape, Tensor, TensorId, Window,
};

/// Bytes that a view may have however often it repeats its elements.
const FREE_REPEATED: u64 = 64 << 20;

/// How a placement uses its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reading the tensor reads all bytes, and compares their checksum.
    Whole,
    /// Someone else must compare the checksum.
    Part,
}

/// Places a tensor whose storage is `record`.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for elements beyond the storage; [`ckpt_api::Kind::Unsupported`] for a view that repeats
/// its elements too often, and for a conjugated or negated one of a storage that is compressed.
pub(crate) fn place(
    (id, tensor): (TensorId, &Tensor),
    view: &View<'_>,
    record: &Record,
    endian: Endian,
    limits: &Limits,
) -> Result<(Placement, Use)> {
    let (placement, use_) = as_stored((id, tensor), view, record, endian, limits)?;
    let Some(turned) = view.turned.filter(|_| tensor.shape.elements() > 0) else {
        return Ok((placement, use_));
    };
    let signs = turned.signs(tensor.dtype, endian);
    let signs = signs.ok_or_else(|| Error::defect("numbers without signs are negated"))?;
    let turn = |extent: &Extent| match extent.compression() {
        Some(_) => Err(Error::unsupported(
            "the tensor is a conjugated or negated view of a storage that is compressed",
        )
        .help("save it again with torch.save, which does not compress")),
        None => {
            let compression = Compression::flipping(signs, extent.len);
            Ok(extent.clone().with_checksum(None).with_compression(compression))
        }
    };
    let extents = placement.extents.iter().map(turn).collect::<Result<Vec<Extent>>>()?;
    Ok((placement.with_extents(extents), Use::Part))
}

/// Places the elements of a view as they are in the storage.
fn as_stored(
    (id, tensor): (TensorId, &Tensor),
    view: &View<'_>,
    record: &Record,
    endian: Endian,
    limits: &Limits,
) -> Result<(Placement, Use)> {
    let storage = Storage::new(view, record)?;
    storage.check(view)?;
    let encoding = Encoding::row_major(tensor).with_endian(endian);
    let build = |extents, encoding| Placement::new(id, &tensor.name, extents, encoding);
    if tensor.shape.elements() == 0 {
        return Ok((build(vec![storage.extent(0, 0)], encoding), Use::Part));
    }
    if is_row_major(view) {
        let (extent, use_) = storage.dense(view.offset, tensor.shape.elements());
        return Ok((build(vec![extent], encoding), use_));
    }
    let axes = Axes::new(view);
    let order = axes.order();
    let encoding = encoding.with_order(order);
    let inner = axes.inner_elements();
    if inner == tensor.shape.elements() {
        let (extent, use_) = storage.dense(view.offset, inner);
        return Ok((build(vec![extent], encoding), use_));
    }
    if let Some((window, first, elements)) =
        axes.window(view).filter(|(_, first, elements)| storage.holds(*first, *elements))
    {
        let extents = vec![storage.extent(first, elements)];
        return Ok((build(extents, encoding).with_window(window), Use::Part));
    }
    let window = axes.strided(view);
    let extent = storage.extent(view.offset, window.reach().unwrap_or(0));
    let times = tensor.value_bytes() / extent.len.max(1);
    if tensor.value_bytes() > FREE_REPEATED && times > limits.get(Limit::Slices) {
        return Err(Error::unsupported("the tensor repeats the elements of its storage too often")
            .found(format!(
                "{} of {}",
                ckpt_api::count(tensor.value_bytes(), "byte"),
                ckpt_api::count(extent.len, "byte")
            ))
            .expected(format!("at most {} times as many", limits.get(Limit::Slices)))
            .help("save the tensor without the axes along which it is expanded"));
    }
    Ok((build(vec![extent], encoding).with_window(window), Use::Part))
}

/// Whether the elements are one behind the other in row-major order, as those of most tensors do.
fn is_row_major(view: &View<'_>) -> bool {
    let mut step = 1u64;
    view.shape.iter().zip(&view.strides).rev().all(|(len, stride)| {
        let fits = *len == 1 || *stride == step;
        step = step.saturating_mul(*len);
        fits
    })
}

/// A storage, in elements of the tensor.
struct Storage<'a> {
    record: &'a Record,
    /// Byte of the record at which the storage begins; 0 but for a part of another storage.
    base: u64,
    /// Bytes.
    len: u64,
    bytes: u64,
}

impl<'a> Storage<'a> {
    fn new(view: &View<'_>, record: &'a Record) -> Result<Self> {
        let own = view.storage.class.element().bytes;
        let stated = view.storage.elements.checked_mul(own);
        if stated != Some(record.len) {
            let expected =
                stated.map_or("more than can be counted".to_owned(), |len| ckpt_api::count(len, "byte"));
            return Err(Error::corrupt("the storage has another size than the pickle states")
                .offset(record.start)
                .found(ckpt_api::count(record.len, "byte"))
                .expected(expected)
                .help("the file is damaged or was changed: get it again"));
        }
        let (base, len) = match view.storage.part {
            None => (Some(0), Some(record.len)),
            Some((first, count)) => (first.checked_mul(own), count.checked_mul(own)),
        };
        let inside =
            base.zip(len).filter(|(base, len)| base.checked_add(*len).is_some_and(|end| end <= record.len));
        let (base, len) = inside.ok_or_else(|| Error::corrupt("a part of a storage lies outside of it"))?;
        Ok(Storage { record, base, len, bytes: view.element.bytes })
    }

    /// Checks that the storage has every element of the view.
    fn check(&self, view: &View<'_>) -> Result<()> {
        if view.shape.elements() == 0 {
            return Ok(());
        }
        let mut steps = view.shape.iter().zip(&view.strides);
        let last = steps.try_fold(view.offset, |last, (len, stride)| {
            last.checked_add(len.saturating_sub(1).checked_mul(*stride)?)
        });
        let count = last.and_then(|last| last.checked_add(1));
        if count.is_some_and(|count| self.holds(0, count)) {
            return Ok(());
        }
        Err(Error::corrupt("the tensor reaches beyond its storage")
            .found(format!("shape {}, strides {:?} from element {}", view.shape, view.strides, view.offset))
            .expected(format!("a storage of {}", ckpt_api::count(self.len / self.bytes.max(1), "element"))))
    }

    fn holds(&self, first: u64, elements: u64) -> bool {
        let end = first.checked_add(elements).and_then(|end| end.checked_mul(self.bytes));
        end.is_some_and(|end| end <= self.len)
    }

    /// Elements that are one behind the other: with the record's checksum if they are all of it.
    fn dense(&self, first: u64, elements: u64) -> (Extent, Use) {
        let extent = self.extent(first, elements);
        let record = self.record;
        let is_whole = extent.offset == record.start && extent.len == record.len && self.base == 0;
        let sum = record.crc.filter(|_| is_whole).map(|crc| Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            seed: 0,
            value: Some(crc),
        });
        let use_ = if sum.is_some() || record.crc.is_none() { Use::Whole } else { Use::Part };
        (extent.with_checksum(sum), use_)
    }

    /// Elements that the storage [`holds`](Self::holds).
    fn extent(&self, first: u64, elements: u64) -> Extent {
        let skipped = self.base.saturating_add(first.saturating_mul(self.bytes));
        let len = elements.saturating_mul(self.bytes);
        match self.record.compression.clone() {
            None => Extent::new(FileId(0), self.record.start.saturating_add(skipped), len),
            Some(compression) => {
                Extent::new(FileId(0), self.record.start, len).with_compression(compression.skipping(skipped))
            }
        }
    }
}

/// The axes of a view, the ones with the longest steps first.
struct Axes {
    /// Index, length and stride of each axis.
    axes: Vec<(usize, u64, u64)>,
    rank: usize,
    /// How many of the last axes are densely in the storage.
    dense: usize,
}

impl Axes {
    fn new(view: &View<'_>) -> Self {
        let lens = view.shape.iter().zip(&view.strides).enumerate();
        // The stride of an axis of one element means nothing.
        let mut axes: Vec<_> =
            lens.map(|(k, (len, stride))| (k, *len, if *len == 1 { 0 } else { *stride })).collect();
        let rank = axes.len();
        // Repeated axes come first; axes of one element stay where they are, so that a plain tensor has a plain order.
        let longest = |(_, len, stride): &(usize, u64, u64)| match (len, stride) {
            (1, _) => None,
            (_, 0) => Some(u64::MAX),
            _ => Some(*stride),
        };
        let mut long: Vec<_> = axes.iter().copied().filter(|axis| longest(axis).is_some()).collect();
        long.sort_by_key(|axis| std::cmp::Reverse(longest(axis)));
        let mut sorted = long.into_iter();
        for axis in axes.iter_mut().filter(|axis| axis.1 != 1) {
            *axis = sorted.next().unwrap_or(*axis);
        }
        let mut step = 1u64;
        let dense = axes
            .iter()
            .rev()
            .take_while(|(_, len, stride)| {
                let fits = *len == 1 || *stride == step;
                step = step.saturating_mul(*len);
                fits
            })
            .count();
        Axes { axes, rank, dense }
    }

    fn order(&self) -> Vec<usize> {
        self.axes.iter().map(|(axis, ..)| *axis).collect()
    }

    fn inner(&self) -> &[(usize, u64, u64)] {
        self.axes.get(self.rank.saturating_sub(self.dense)..).unwrap_or_default()
    }

    /// Elements of each dense piece.
    fn inner_elements(&self) -> u64 {
        self.inner().iter().map(|(_, len, _)| *len).product()
    }

    /// A whole, as dense as the storage, that the view is a box of: the window, its first element, and its elements.
    /// `None` if some steps do not divide each other.
    fn window(&self, view: &View<'_>) -> Option<(Window, u64, u64)> {
        let long: Vec<_> = self.axes.iter().copied().filter(|(_, len, _)| *len != 1).collect();
        let (first, last) = (long.first()?, long.last()?);
        if last.2 != 1 || first.2 == 0 {
            return None;
        }
        let mut whole = vec![1; self.rank];
        let mut start = vec![0; self.rank];
        let (axis, len, longest) = *first;
        *whole.get_mut(axis)? = len;
        let mut rest = view.offset % longest;
        let begin = view.offset - rest;
        for pair in long.windows(2) {
            let [(_, _, above), (axis, len, stride)] = pair else { return None };
            if *stride == 0 || !above.is_multiple_of(*stride) {
                return None;
            }
            let index = rest / stride;
            if index.checked_add(*len)? > above / stride {
                return None;
            }
            *whole.get_mut(*axis)? = above / stride;
            *start.get_mut(*axis)? = index;
            rest %= stride;
        }
        let whole = Shape::new(whole).ok()?;
        let elements = whole.elements();
        (rest == 0).then_some((Window::new(start, whole), begin, elements))
    }

    /// The view as a whole whose elements are at the distances of its strides.
    fn strided(&self, view: &View<'_>) -> Window {
        let mut strides = vec![0; self.rank];
        for (axis, _, stride) in &self.axes {
            if let Some(place) = strides.get_mut(*axis) {
                *place = *stride;
            }
        }
        Window::new(vec![0; self.rank], view.shape.clone()).with_strides(strides)
    }
}
