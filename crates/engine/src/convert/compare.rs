//! One tensor that was written, against its source.

use super::{Planned, stored_axes};
use crate::execute::{TensorStream, in_lockstep, interrupted};
use crate::layout::{Step, TargetLayout, compile, index_at, place_of};
use crate::plan::{TensorEntry, added};
use crate::resources::Budget;
use crate::source::Source;
use crate::transform::for_each_number;
use ckpt_api::{DType, Encoding, Error, Extent, Input, Placement, Result, Tensor, TensorId};
use std::sync::atomic::{AtomicBool, Ordering};

/// A tensor of a plan, and what it became, seen with the source's axes.
pub(super) struct Pair<'a> {
    planned: &'a Planned,
    entry: TensorEntry<'a>,
    tensor: &'a Tensor,
    written: &'a Source,
    back: Placement,
    budget: Budget,
    canceled: &'a AtomicBool,
}

impl<'a> Pair<'a> {
    /// # Errors
    /// [`ckpt_api::Kind::Defect`] if dtype, shape, or what the axes mean are not those that were written.
    pub(super) fn new(
        planned: &'a Planned,
        number: u32,
        (written, id): (&'a Source, TensorId),
        canceled: &'a AtomicBool,
    ) -> Result<Self> {
        let entry =
            planned.plan.tensor(number).ok_or_else(|| Error::defect("the plan has no such tensor"))?;
        let (tensor, _) = planned.plan.contents.tensor_at(entry.to.tensor)?;
        let (found, placement) = written.contents.tensor_at(id)?;
        let back = with_axes_of(tensor, &entry, found, placement).map_err(|error| {
            error
                .tensor(entry.tensor)
                .help("nothing was kept; the format's codec has a bug: please report it")
        })?;
        let budget = planned.plan.budget.of_two();
        Ok(Pair { planned, entry, tensor, written, back, budget, canceled })
    }

    /// Whether the codec reads back the very bytes that were written, in their order and encoding. Then equal bytes are equal
    /// values.
    pub(super) fn is_placed_as_planned(&self) -> bool {
        let (planned, written) = (self.planned.plan.files(), &self.written.contents.files);
        let same_file = |own: &Extent, back: &Extent| {
            let names = planned.get(own.file.0).zip(written.get(back.file.0));
            names.is_some_and(|(own, back)| own.name.ends_with(back.as_str()))
        };
        let same = |(own, back): (&Extent, &Extent)| {
            (own.offset, own.len, own.region()) == (back.offset, back.len, back.region())
                && !back.is_compressed()
                && !back.is_computed()
                && same_file(own, back)
        };
        let (own, back) = (&self.entry.to.extents, &self.back.extents);
        self.back.encoding == self.entry.to.encoding
            && self.back.window().is_none()
            && own.len() == back.len()
            && own.iter().zip(back).all(same)
    }

    /// Whether a number can be another one afterwards; then what was written is compared with what the steps make
    /// again.
    pub(super) fn changes_values(&self) -> bool {
        let changes = |step: &Step| {
            matches!(
                step,
                Step::Cast { exact: false, .. }
                    | Step::Quantize { .. }
                    | Step::Dequantize { .. }
                    | Step::DecodeBlocks { .. }
                    | Step::EncodeBlocks { .. }
                    | Step::Add { .. }
            )
        };
        self.entry.steps.iter().any(changes)
    }

    /// Compares every element: what was written, led back to the order in which the source stores it, with the
    /// source's, converted where the target holds other numbers. Numbers that were stored in blocks are stored in
    /// them again, and compared in the target's order.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mismatch`] for the first element that differs.
    pub(super) fn compare(&self) -> Result<()> {
        let from = &self.entry.from.encoding;
        let encoding = &self.entry.to.encoding;
        let (dtype, scaling, blocks) = (encoding.dtype, encoding.scaling(), encoding.blocks());
        let encodes = |step: &Step| matches!(step, Step::EncodeBlocks { .. });
        let common = match self.entry.steps.iter().any(encodes) {
            true => self.entry.to.encoding.clone(),
            false => Encoding::new(dtype, from.order.clone())
                .with_tiles(from.tiles())
                .with_scaling(scaling)
                .in_blocks(blocks.cloned()),
        };
        let together = self.each(&common, &common, |first, own, back| {
            match own.iter().zip(back).position(|(own, back)| own != back) {
                Some(at) => Err(self.differs(&common, first, at, own, back)),
                None => Ok(()),
            }
        })?;
        if together {
            Ok(())
        } else {
            Err(Error::mismatch("a tensor of the output has a different number of elements"))
        }
    }

    /// The largest absolute difference between a number of the source and what is stored for it.
    ///
    /// # Errors
    /// Whatever keeps either from being read.
    pub(super) fn error(&self) -> Result<f64> {
        let numbers = |encoding: &Encoding, sum: bool| {
            Encoding::new(
                if encoding.scaling().is_some() || sum { DType::F32 } else { encoding.dtype },
                self.entry.from.encoding.order.clone(),
            )
            .with_tiles(self.entry.from.encoding.tiles())
        };
        let own = numbers(&self.entry.from.encoding, !self.entry.added.is_empty());
        let back = numbers(&self.entry.to.encoding, false);
        let (mut largest, mut values) = (0f64, (Vec::new(), Vec::new()));
        self.each(&own, &back, |_, left, right| {
            values.0.clear();
            values.1.clear();
            for_each_number(own.dtype, left, |value| values.0.push(value));
            for_each_number(back.dtype, right, |value| values.1.push(value));
            // NaN, for which nothing is far off, is ignored by `max`.
            largest = values.0.iter().zip(&values.1).fold(largest, |max, (a, b)| max.max((a - b).abs()));
            Ok(())
        })?;
        Ok(largest)
    }

    /// Streams the source in one encoding and what was written in the other.
    fn each(
        &self,
        own: &Encoding,
        back: &Encoding,
        mut each: impl FnMut(u64, &[u8], &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let (contents, files) = (&self.planned.plan.contents, &self.planned.files);
        let added = added(contents, self.entry.to)?;
        let source = compile(self.tensor, self.entry.from, &TargetLayout::read(own), &added)?;
        let source = source.transfer(self.tensor, self.entry.from, own, &added);
        let mut source = TensorStream::whole(files, source, self.budget)?;
        let written = compile(self.tensor, &self.back, &TargetLayout::read(back), &[])?;
        let written = written.transfer(self.tensor, &self.back, back, &[]);
        let mut written = TensorStream::whole(&self.written.files, written, self.budget)?;
        // What is compared as it is stored is compared byte by byte.
        let unit = |encoding: &Encoding| if encoding.blocks().is_some() { DType::U8 } else { encoding.dtype };
        in_lockstep(&mut source, &mut written, (unit(own), unit(back)), |first, own, back| {
            if self.canceled.load(Ordering::Relaxed) {
                return Err(interrupted());
            }
            each(first, own, back)
        })
    }

    /// The error for the first byte that differs: where both are, and their values.
    fn differs(&self, common: &Encoding, first: u64, at: usize, own: &[u8], back: &[u8]) -> Error {
        let error = Error::mismatch("the output differs from the source").tensor(self.entry.tensor);
        let error =
            error.help("nothing was kept; check the disk and memory of this machine, and please report it");
        let size = common.dtype.bytes().filter(|_| common.blocks().is_none());
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            let what = common
                .blocks()
                .as_ref()
                .map_or("its strings".to_owned(), |blocks| format!("its blocks of {blocks}"));
            return error.field(format!("byte {} of {what}", first.saturating_add(at as u64)));
        };
        let k = at / size.max(1);
        let element =
            |bytes: &[u8]| shown(common.dtype, bytes.get(k * size..(k + 1) * size).unwrap_or_default());
        let position = first.saturating_add(k as u64);
        let index = index_at(common, &self.tensor.shape, position);
        let place = |input: &Input, names: &[String], placement: &Placement| {
            let (file, offset) = place_of(placement, &self.tensor.shape, index.as_ref()?)?;
            Some((input.display(names.get(file.0)?), offset))
        };
        let written = place(&self.written.input, &self.written.contents.files, &self.back);
        let written =
            written.map(|(file, offset)| format!(" in {file} at offset {offset}")).unwrap_or_default();
        let error = error
            .field(match &index {
                Some(index) => format!("element {index:?}"),
                None => format!("element {position}"),
            })
            .found(format!("{}{written}", element(back)))
            .expected(element(own));
        match place(&self.planned.input, self.planned.plan.sources(), self.entry.from) {
            Some((file, offset)) => error.file(file).offset(offset),
            None => error,
        }
    }
}

/// An element: its bits, and the number where it is one.
fn shown(dtype: DType, bytes: &[u8]) -> String {
    let bits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    let mut number = None;
    for_each_number(dtype, bytes, |value| number = Some(value));
    number.map_or_else(|| format!("0x{bits}"), |number| format!("{number} (0x{bits})"))
}

/// The placement that was read back, for a tensor with the source's axes.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] if what was read back is another kind of tensor.
fn with_axes_of(
    tensor: &Tensor,
    entry: &TensorEntry<'_>,
    found: &Tensor,
    placement: &Placement,
) -> Result<Placement> {
    let (to, encoding) = (&entry.to.encoding, &placement.encoding);
    if encoding.dtype != to.dtype {
        return Err(Error::defect("the tensor is read back with a different dtype")
            .found(encoding.dtype.name())
            .expected(to.dtype.name()));
    }
    if let (Some(found), Some(written)) = (encoding.scaling(), to.scaling())
        && found.scale != written.scale
    {
        return Err(Error::defect("the tensor is read back with a different scale")
            .found(found.scale.to_string())
            .expected(written.scale.to_string()));
    }
    if encoding.blocks() != to.blocks() {
        return Err(Error::defect("the tensor is read back with different blocks")
            .found(format!("{:?}", encoding.blocks()))
            .expected(format!("{:?}", to.blocks())));
    }
    if found.lengths != tensor.lengths {
        return Err(Error::defect("strings are read back with different lengths"));
    }
    stored_axes::check((tensor, to), (found, encoding))?;
    let axes = axes(tensor, to, found, encoding);
    let mut back = placement.clone();
    for region in back.extents.iter_mut().filter_map(|extent| extent.region_mut()) {
        let axes = axes.as_ref().filter(|axes| found.shape.permuted(axes) == tensor.shape);
        let axes = axes.ok_or_else(|| Error::defect("slices are read back with different axes"))?;
        region.start = axes.iter().filter_map(|axis| region.start.get(*axis).copied()).collect();
        region.shape = region.shape.permuted(axes);
    }
    back.encoding = to.clone().with_endian(encoding.endian).with_packing(encoding.packing);
    Ok(back)
}

/// For each axis of the source's tensor the axis of the one that was read back, by where they are stored; `None` where
/// they are not the same axes.
fn axes(tensor: &Tensor, to: &Encoding, found: &Tensor, encoding: &Encoding) -> Option<Vec<usize>> {
    if tensor.shape.rank() != found.shape.rank() || to.order.len() != encoding.order.len() {
        return None;
    }
    let (own, other) = (to.parts(tensor.shape.rank()), encoding.parts(found.shape.rank()));
    let mut axes = vec![None; tensor.shape.rank()];
    for (a, b) in to.order.iter().zip(&encoding.order) {
        let (own, other) = (own.get(*a)?, other.get(*b)?);
        if *axes.get_mut(own.axis)?.get_or_insert(other.axis) != other.axis {
            return None;
        }
    }
    let axes = axes.into_iter().collect::<Option<Vec<usize>>>()?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..tensor.shape.rank()).then_some(axes)
}
