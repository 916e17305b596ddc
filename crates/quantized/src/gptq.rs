//! GPTQ and AWQ: integers of 2 to 8 bits, packed into 32-bit words beside scales and zero points.
//!
//! Both store the matrix [in, out]. GPTQ packs weights along the inputs, AWQ along the outputs; both pack zero points along the
//! outputs.

use crate::numbers::{Blocks, FLOATS, Weight, numbers, packed};
use crate::parts::{Part, Parts};
use crate::stated::Stated;
use ckpt_api::{Along, BlockIndex, DType, FieldOrder, Operation, PackedIntegers, Result, Shape};
use ckpt_engine::formats::Group;

/// Widths for which a layout is defined.
const WIDTHS: [u32; 4] = [2, 3, 4, 8];
/// The width of AWQ.
const AWQ_BITS: u32 = 4;

/// What the configuration states.
pub(crate) struct Settings {
    bits: u32,
    /// Inputs that share a scale; `None` for all.
    group: Option<u64>,
    /// Whether a zero point is stored minus one.
    is_minus_one: bool,
    /// Whether modules may have widths of their own, which only the tensors' shapes show.
    is_mixed: bool,
}

impl Settings {
    /// Reads those of GPTQ.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a width or a layout that is not known; [`ckpt_api::Kind::Corrupt`] for fields of
    /// other types.
    pub(crate) fn gptq(stated: &Stated<'_>) -> Result<Self> {
        let bits = stated.integer("bits")?.ok_or_else(|| stated.wrong("bits", "2, 3, 4 or 8"))?;
        let bits = u32::try_from(bits).ok().filter(|bits| WIDTHS.contains(bits));
        let bits = bits.ok_or_else(|| {
            let found = stated.object.get("bits").map(ToString::to_string).unwrap_or_default();
            stated.unknown("bits", &found, "2, 3, 4 or 8")
        })?;
        let format = stated.text("checkpoint_format")?.unwrap_or("gptq");
        let is_minus_one = match format {
            "gptq" => true,
            "gptq_v2" => false,
            other => return Err(stated.unknown("checkpoint_format", other, "gptq or gptq_v2")),
        };
        if stated.flag("is_marlin_format")? == Some(true) {
            return Err(stated.unknown("is_marlin_format", "true", "false"));
        }
        let is_mixed = stated.inner("dynamic").is_some_and(|dynamic| !dynamic.object.is_empty());
        Ok(Settings { bits, group: group(stated)?, is_minus_one, is_mixed })
    }

    /// Reads those of AWQ.
    ///
    /// # Errors
    /// As [`Settings::gptq`].
    pub(crate) fn awq(stated: &Stated<'_>) -> Result<Self> {
        let version = stated.text("version")?.unwrap_or("gemm").to_ascii_lowercase();
        if version != "gemm" {
            return Err(stated.unknown("version", &version, "gemm"));
        }
        match stated.integer("bits")?.or(stated.integer("w_bit")?) {
            None | Some(4) => {}
            Some(other) => return Err(stated.unknown("bits", &other.to_string(), "4")),
        }
        Ok(Settings { bits: AWQ_BITS, group: group(stated)?, is_minus_one: false, is_mixed: false })
    }
}

/// Reads how many inputs share a scale: −1 for all.
fn group(stated: &Stated<'_>) -> Result<Option<u64>> {
    let key = if stated.object.contains_key("group_size") { "group_size" } else { "q_group_size" };
    match stated.integer(key)? {
        None | Some(-1) => Ok(None),
        Some(size) => match u64::try_from(size) {
            Ok(size) if size > 0 => Ok(Some(size)),
            _ => Err(stated.wrong(key, "-1, or at least 1")),
        },
    }
}

/// A weight of GPTQ.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other.
pub(crate) fn gptq(stem: &str, parts: &Parts<'_>, settings: &Settings) -> Result<Group> {
    let weights = parts.need(stem, ".qweight", ".scales")?;
    let (scales, zeros) =
        (parts.need(stem, ".scales", ".qweight")?, parts.need(stem, ".qzeros", ".qweight")?);
    let index = parts.find(stem, ".g_idx")?.filter(|index| index.shape().elements() > 0);
    weights.is_of(&[DType::I32, DType::U32])?;
    let [words, outputs] = weights.matrix()?;
    let bits = width(&weights, words, index.as_ref(), settings)?;
    let inputs = words.saturating_mul(32) / u64::from(bits);
    let shape = Shape::new([inputs, outputs])?;
    let numbers =
        packed(&weights, PackedIntegers::new(bits, [inputs, outputs], Along::Column, FieldOrder::Dense));
    let increments = if settings.is_minus_one { ones(bits) } else { Vec::new() };
    let zero_points = |groups| {
        PackedIntegers::new(bits, [groups, outputs], Along::Row, FieldOrder::Dense)
            .with_increments(increments)
    };
    let zero_words = outputs.saturating_mul(u64::from(bits)).div_ceil(32);
    let group = Columns { inputs, outputs, zero_words, index, group: settings.group };
    let title = format!("gptq int{bits}{}", group.title());
    group.weight(stem, (&weights, &scales, &zeros), (shape, numbers), zero_points, title)
}

/// The bits of an integer: as stated, or as wide as the shapes make it if modules may differ.
fn width(weights: &Part<'_>, words: u64, index: Option<&Part<'_>>, settings: &Settings) -> Result<u32> {
    let bits = settings.bits;
    let of_index = index.map(|index| index.shape().elements());
    let own =
        of_index.filter(|_| settings.is_mixed).and_then(|inputs| words.checked_mul(32)?.checked_div(inputs));
    let own = own.and_then(|bits| u32::try_from(bits).ok()).filter(|bits| WIDTHS.contains(bits));
    let bits = own.unwrap_or(bits);
    if !words.saturating_mul(32).is_multiple_of(u64::from(bits)) {
        return Err(weights.wrong(
            "packed integers do not fill their words",
            format!("{words} rows of 32-bit words"),
            format!("rows that hold whole integers of {bits} bits"),
        ));
    }
    Ok(bits)
}

/// What adds one to each integer of `bits` bits in a row of words, as the library does: a field that is full spills into the
/// next one of its word.
fn ones(bits: u32) -> Vec<u32> {
    let words = if bits == 3 { 3 } else { 1 };
    let word = |index: u32| {
        (0..32).filter(|bit| (32 * index + bit).is_multiple_of(bits)).fold(0, |word, bit| word | 1 << bit)
    };
    (0..words).map(word).collect()
}

/// A weight of AWQ.
///
/// # Errors
/// As [`gptq`].
pub(crate) fn awq(stem: &str, parts: &Parts<'_>, settings: &Settings) -> Result<Group> {
    let weights = parts.need(stem, ".qweight", ".scales")?;
    let (scales, zeros) =
        (parts.need(stem, ".scales", ".qweight")?, parts.need(stem, ".qzeros", ".qweight")?);
    weights.is_of(&[DType::I32, DType::U32])?;
    let [inputs, words] = weights.matrix()?;
    let outputs = words.saturating_mul(32 / u64::from(AWQ_BITS));
    let shape = Shape::new([inputs, outputs])?;
    let integers = |rows| PackedIntegers::new(AWQ_BITS, [rows, outputs], Along::Row, FieldOrder::EvenOdd);
    let group = Columns { inputs, outputs, zero_words: words, index: None, group: settings.group };
    let title = format!("awq int{AWQ_BITS}{}", group.title());
    group.weight(
        stem,
        (&weights, &scales, &zeros),
        (shape, packed(&weights, integers(inputs))),
        integers,
        title,
    )
}

/// A matrix [in, out] whose columns have a scale for each group of inputs.
struct Columns<'p> {
    inputs: u64,
    outputs: u64,
    /// Words of a row of zero points.
    zero_words: u64,
    /// The group of each input.
    index: Option<Part<'p>>,
    /// Inputs that share a scale if there is no index.
    group: Option<u64>,
}

impl Columns<'_> {
    fn title(&self) -> String {
        match (&self.index, self.group) {
            (_, Some(group)) => format!(" g{group}"),
            (Some(_), None) => " by index".to_owned(),
            (None, None) => String::new(),
        }
    }

    fn weight(
        self,
        stem: &str,
        (weights, scales, zeros): (&Part<'_>, &Part<'_>, &Part<'_>),
        (shape, numbers_of_weights): (Shape, ckpt_api::Computed),
        zero_points: impl FnOnce(u64) -> PackedIntegers,
        title: String,
    ) -> Result<Group> {
        let Columns { inputs, outputs, zero_words, index, group } = self;
        scales.is_of(&FLOATS)?;
        zeros.is_of(&[DType::I32, DType::U32])?;
        let [groups, _] = scales.matrix()?;
        scales.has_shape(&[groups, outputs], "a scale for each group and output")?;
        zeros.has_shape(&[groups, zero_words], "a zero point for each group and output")?;
        let block = group.unwrap_or(inputs).max(1);
        let mut blocks = Blocks::new(&shape, [block, 1]);
        match &index {
            Some(index) => {
                index.is_of(&[DType::I32, DType::I64])?;
                index.has_shape(&[inputs], "a group for each input")?;
                if let Some(extent) = &index.extent {
                    let (name, encoding) = (index.tensor.name.to_string(), index.encoding.clone());
                    blocks.index = Some(BlockIndex::new(name, 0, groups, extent.clone(), encoding));
                }
            }
            None => scales.has_shape(
                &[inputs.div_ceil(block), outputs],
                &format!("a scale for each {block} of {inputs} inputs"),
            )?,
        }
        let operations = vec![
            Operation::SubtractBlocks(blocks.of(zeros, packed(zeros, zero_points(groups)))),
            Operation::MultiplyBlocks(blocks.of(scales, numbers(scales))),
        ];
        let computed = numbers_of_weights.with_operations(operations);
        let mut weight = Weight::new(format!("{stem}.weight"), shape.clone(), computed, title);
        weight.axes = Some(vec![1, 0]);
        weight.of([weights, scales, zeros].into_iter().chain(&index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_at_the_lowest_bit_of_every_field() {
        assert_eq!(ones(4), [0x1111_1111]);
        assert_eq!(ones(2), [0x5555_5555]);
        assert_eq!(ones(8), [0x0101_0101]);
        assert_eq!(ones(3), [0x4924_9249, 0x9249_2492, 0x2492_4924]);
    }
}
