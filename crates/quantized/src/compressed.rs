//! compressed-tensors: packed integers, 8-bit integers and floats, NVFP4 and MXFP4, as `config_groups` state them.

use crate::fp8::{self, nvfp4, nvfp4_weight};
use crate::mxfp4;
use crate::names::Targets;
use crate::numbers::{Blocks, FLOATS, Weight, numbers, numbers_as, packed};
use crate::parts::{Part, Parts};
use crate::stated::Stated;
use ckpt_api::{
    Along, BlockIndex, Computed, DType, Encoding, Error, FieldOrder, Limits, Operation, PackedIntegers,
    Packing, Result, Scalar, Shape,
};
use ckpt_engine::formats::Group;

/// Formats that are decoded.
const KNOWN: &str = "pack-quantized, int-quantized, float-quantized, naive-quantized, nvfp4-pack-quantized, \
                     mxfp4-pack-quantized or mxfp8-quantized";

/// What the configuration states.
pub(crate) struct Settings {
    groups: Vec<ConfigGroup>,
    ignored: Targets,
    file: String,
}

/// How the modules of one group are quantized.
struct ConfigGroup {
    targets: Targets,
    format: String,
    bits: u32,
    is_symmetric: bool,
    group: Option<u64>,
    block: Option<[u64; 2]>,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] for fields of other types; [`ckpt_api::Kind::Unsupported`] for a pattern of modules that cannot
    /// be read.
    pub(crate) fn new(stated: &Stated<'_>, limits: &Limits) -> Result<Self> {
        let format = stated.text("format")?.unwrap_or("dense");
        let named =
            stated.inner("config_groups").ok_or_else(|| stated.wrong("config_groups", "an object"))?;
        let groups = named.object.keys().filter_map(|key| named.inner(key));
        let groups = groups.map(|group| ConfigGroup::new(&group, format, limits)).collect::<Result<_>>()?;
        let ignored = Targets::new(stated.texts("ignore"), limits)?;
        Ok(Settings { groups, ignored, file: stated.file.to_owned() })
    }

    /// The group of a module: the first that names it, or else the first that names a class.
    fn group(&self, module: &str) -> Option<&ConfigGroup> {
        let named = self.groups.iter().find(|group| group.targets.have(module));
        named.or_else(|| self.groups.iter().find(|group| group.targets.have_class()))
    }
}

impl ConfigGroup {
    fn new(stated: &Stated<'_>, format: &str, limits: &Limits) -> Result<Self> {
        let weights = stated.inner("weights").ok_or_else(|| stated.wrong("weights", "an object"))?;
        let bits = weights.integer("num_bits")?.unwrap_or(8);
        let bits = u32::try_from(bits).ok().filter(|bits| (1..=16).contains(bits));
        let whole = |key: &str| match weights.integer(key)? {
            None | Some(-1) => Ok(None),
            Some(size) => match u64::try_from(size) {
                Ok(size) if size > 0 => Ok(Some(size)),
                _ => Err(weights.wrong(key, "at least 1")),
            },
        };
        let lens: Vec<u64> = weights
            .object
            .get("block_structure")
            .and_then(|lens| lens.as_array())
            .map(|lens| lens.iter().filter_map(serde_json::Value::as_u64).collect())
            .unwrap_or_default();
        let block = match lens[..] {
            [rows, columns] if rows > 0 && columns > 0 => Some([rows, columns]),
            [] => None,
            _ => return Err(weights.wrong("block_structure", "two lengths of at least 1")),
        };
        Ok(ConfigGroup {
            targets: Targets::new(stated.texts("targets"), limits)?,
            format: stated.text("format")?.unwrap_or(format).to_owned(),
            bits: bits.ok_or_else(|| weights.wrong("num_bits", "1 to 16"))?,
            is_symmetric: weights.flag("symmetric")?.unwrap_or(true),
            group: whole("group_size")?,
            block,
        })
    }
}

/// The weight of a module; `None` if the configuration ignores it, or if it is not quantized.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other; [`ckpt_api::Kind::Unsupported`] for a format
/// that is not known.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>, settings: &Settings) -> Result<Option<Group>> {
    if settings.ignored.have(stem) {
        return Ok(None);
    }
    let Some(group) = settings.group(stem) else { return Ok(None) };
    let module = Module { stem, name: format!("{stem}.weight"), parts, group };
    let unknown = |format: &str| {
        Error::unsupported("the weights are quantized in a way that is not known")
            .file(settings.file.as_str())
            .field("format")
            .found(format!("'{format}'"))
            .expected(KNOWN)
    };
    match group.format.as_str() {
        "pack-quantized" => module.integers_in_words(),
        "int-quantized" | "float-quantized" | "naive-quantized" => module.plain(),
        "nvfp4-pack-quantized" => module.nvfp4(),
        "mxfp4-pack-quantized" => module.mxfp4(),
        "mxfp8-quantized" => module.mxfp8(),
        // Several formats, of which each group has its own: the tensors show which one.
        "mixed-precision" if parts.has(stem, ".weight_global_scale") => module.nvfp4(),
        "mixed-precision" if parts.has(stem, ".weight_packed") => module.integers_in_words(),
        "mixed-precision" => module.plain(),
        other => Err(unknown(other)),
    }
    .map(Some)
}

/// The tensors of a module.
struct Module<'a> {
    stem: &'a str,
    name: String,
    parts: &'a Parts<'a>,
    group: &'a ConfigGroup,
}

impl<'a> Module<'a> {
    fn need(&self, ending: &str, beside: &str) -> Result<Part<'a>> {
        self.parts.need(self.stem, ending, beside)
    }

    /// Integers of 1 to 8 bits that are packed into words along the rows, each more by half of what a field holds.
    fn integers_in_words(&self) -> Result<Group> {
        let (bits, stem) = (self.group.bits, self.stem);
        let weights = self.need(".weight_packed", ".weight_scale")?;
        let scales = self.need(".weight_scale", ".weight_packed")?;
        let lens = self.need(".weight_shape", ".weight_packed")?;
        weights.is_of(&[DType::I32])?;
        scales.is_of(&FLOATS)?;
        if bits > 8 {
            return Err(weights.wrong(
                "packed integers are too wide",
                format!("{bits} bits"),
                "1 to 8".into(),
            ));
        }
        let shape = self.parts.shape(&lens)?;
        let (Some((columns, leading)), Some((words, of_words))) =
            (shape.split_last(), weights.shape().split_last())
        else {
            return Err(lens.wrong("packed integers have no axis", shape.to_string(), "a matrix".into()));
        };
        let dense = columns.saturating_mul(u64::from(bits)).div_ceil(32);
        let whole = columns.div_ceil(u64::from(32 / bits));
        // Older versions leave bits of a word unused.
        let order = match *words {
            words if words == dense => FieldOrder::Dense,
            words if words == whole => FieldOrder::Whole,
            _ => {
                weights.has_shape(
                    &[leading, &[dense]].concat(),
                    &format!("{bits} bits for each element of {shape}"),
                )?;
                FieldOrder::Dense
            }
        };
        if of_words != leading {
            weights.has_shape(&[leading, &[*words]].concat(), &format!("rows as {shape} has"))?;
        }
        let rows: u64 = leading.iter().product();
        let half = f32::from(1_u8 << (bits - 1));
        let minus_half =
            Operation::Add(Scalar::new(-half).ok_or_else(|| Error::defect("half a field is not finite"))?);
        let (blocks, groups) = self.row_blocks(&shape, &scales)?;
        let zeros = self.parts.find(stem, ".weight_zero_point")?;
        let mut operations = vec![minus_half.clone()];
        match &zeros {
            Some(zeros) if zeros.dtype() == DType::I32 && !self.is_plain_zero(zeros, &scales) => {
                // Packed along the rows.
                let last = leading.last().copied().unwrap_or(1);
                let outer: u64 = leading.iter().rev().skip(1).product();
                if outer != 1 {
                    return Err(Error::unsupported("packed zero points of more than two axes are not known")
                        .tensor(&zeros.tensor.name)
                        .found(zeros.shape().to_string()));
                }
                let in_words = match order {
                    FieldOrder::Dense => last.saturating_mul(u64::from(bits)).div_ceil(32),
                    _ => last.div_ceil(u64::from(32 / bits)),
                };
                zeros.has_shape(&[in_words, groups], "a zero point for each row and group")?;
                let own = PackedIntegers::new(bits, [last, groups], Along::Column, order);
                let zero_points = packed(zeros, own).with_operations(vec![minus_half]);
                operations.push(Operation::SubtractBlocks(blocks.of(zeros, zero_points)));
            }
            Some(zeros) => {
                zeros.has_shape(scales.shape(), "a zero point for each scale")?;
                operations.push(Operation::SubtractBlocks(blocks.of(zeros, numbers(zeros))));
            }
            None if !self.group.is_symmetric => {
                return Err(self
                    .need(".weight_zero_point", ".weight_packed")
                    .err()
                    .unwrap_or_else(|| Error::defect("a zero point was not there and is")));
            }
            None => {}
        }
        operations.push(Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales))));
        let integers = PackedIntegers::new(bits, [rows, *columns], Along::Row, order);
        let computed = packed(&weights, integers).with_operations(operations);
        let title = format!("compressed-tensors int{bits}{}", self.title());
        let index = self.parts.find(stem, ".weight_g_idx")?;
        let members = [&weights, &scales, &lens].into_iter().chain(&zeros).chain(&index);
        Weight::new(&*self.name, shape.clone(), computed, title).of(members)
    }

    /// Whether zero points are integers of their own, and not packed.
    fn is_plain_zero(&self, zeros: &Part<'_>, scales: &Part<'_>) -> bool {
        zeros.shape() == scales.shape() && zeros.shape().first() != Some(&1)
    }

    /// 8-bit integers or floats.
    fn plain(&self) -> Result<Group> {
        let weights = self.need(".weight", ".weight_scale")?;
        let scales = self.need(".weight_scale", ".weight")?;
        weights.is_of(&[DType::I8, DType::F8E4m3])?;
        scales.is_of(&FLOATS)?;
        let shape = weights.shape().clone();
        let (blocks, _) = match self.group.block {
            Some(block) => (Blocks::new(&shape, fp8::block_of(&weights, &scales, block)?.0), 0),
            None => self.row_blocks(&shape, &scales)?,
        };
        let zeros = self.parts.find(self.stem, ".weight_zero_point")?;
        let mut operations = Vec::new();
        match zeros.as_ref().filter(|_| !self.group.is_symmetric) {
            Some(zeros) => {
                zeros.is_of(&[DType::I8, DType::I32, DType::F16, DType::Bf16, DType::F32])?;
                zeros.has_shape(scales.shape(), "a zero point for each scale")?;
                operations.push(Operation::SubtractBlocks(blocks.of(zeros, numbers(zeros))));
            }
            None if !self.group.is_symmetric => {
                self.need(".weight_zero_point", ".weight_scale")?;
            }
            None => {}
        }
        operations.push(Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales))));
        let kind = if weights.dtype() == DType::I8 { "int8" } else { "fp8" };
        let title = format!("compressed-tensors {kind}{}", self.title());
        let index = self.parts.find(self.stem, ".weight_g_idx")?;
        let computed = numbers(&weights).with_operations(operations);
        let members = [&weights, &scales].into_iter().chain(&zeros).chain(&index);
        Weight::new(&*self.name, shape.clone(), computed, title).of(members)
    }

    /// Blocks of a row that have a scale each, and the number of blocks in a row.
    fn row_blocks<'s>(&self, shape: &'s Shape, scales: &Part<'_>) -> Result<(Blocks<'s>, u64)> {
        let of_scales = scales.shape();
        if of_scales.elements() == 1 && shape.elements() > 0 {
            return Ok((Blocks::new(shape, fp8::whole(shape)), 1));
        }
        let Some((columns, leading)) = shape.split_last() else {
            return Err(scales.wrong("a quantized weight has no axis", shape.to_string(), "a matrix".into()));
        };
        let index = self.parts.find(self.stem, ".weight_g_idx")?.filter(|index| index.shape().elements() > 0);
        let size = self.group.group.unwrap_or(*columns).max(1);
        let groups = columns.div_ceil(size);
        // A scale for each row may be a vector.
        if groups != 1 || of_scales[..] != *leading {
            let why = format!("a scale for each {size} of {columns} elements of a row");
            scales.has_shape(&[leading, &[groups]].concat(), &why)?;
        }
        let mut block = vec![1; shape.rank()];
        if let Some(last) = block.last_mut() {
            *last = size;
        }
        let mut blocks = Blocks::new(shape, block);
        if let Some(index) = index {
            index.is_of(&[DType::I32, DType::I64])?;
            index.has_shape(&[*columns], "a group for each element of a row")?;
            let extent = index.extent.clone().ok_or_else(|| Error::defect("an index has no bytes"))?;
            let (name, encoding) = (index.tensor.name.to_string(), index.encoding.clone());
            blocks.index = Some(BlockIndex::new(name, shape.rank() - 1, groups, extent, encoding));
        }
        Ok((blocks, groups))
    }

    /// Floats of 4 bits, whose 8-bit scales are divided by one for the whole weight.
    fn nvfp4(&self) -> Result<Group> {
        let (weights, scales) =
            (self.need(".weight_packed", ".weight_scale")?, self.need(".weight_scale", ".weight_packed")?);
        let global = self.need(".weight_global_scale", ".weight_packed")?;
        global.is_of(&[DType::F32])?;
        global.has_shape(&[1], "one scale for the whole weight")?;
        let (shape, of_scales) = nvfp4(&weights, &scales)?;
        let one = Blocks::new(scales.shape(), fp8::whole(scales.shape()));
        let of_scales =
            of_scales.with_operations(vec![Operation::DivideBlocks(one.of(&global, numbers(&global)))]);
        let weight = nvfp4_weight(
            self.name.clone(),
            (&weights, &scales),
            &shape,
            of_scales,
            "compressed-tensors nvfp4",
        );
        weight.of([&weights, &scales, &global])
    }

    /// Floats of 4 bits, with a power of two for each 32.
    fn mxfp4(&self) -> Result<Group> {
        let (weights, scales) =
            (self.need(".weight_packed", ".weight_scale")?, self.need(".weight_scale", ".weight_packed")?);
        weights.is_of(&[DType::U8])?;
        let elements = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
        self.with_exponents((&weights, 2), &scales, elements, "mxfp4")
    }

    /// Floats of 8 bits, with a power of two for each 32.
    fn mxfp8(&self) -> Result<Group> {
        let (weights, scales) =
            (self.need(".weight", ".weight_scale")?, self.need(".weight_scale", ".weight")?);
        weights.is_of(&[DType::F8E4m3])?;
        self.with_exponents((&weights, 1), &scales, weights.encoding.clone(), "mxfp8")
    }

    fn with_exponents(
        &self,
        (weights, in_byte): (&Part<'_>, u64),
        scales: &Part<'_>,
        elements: Encoding,
        kind: &str,
    ) -> Result<Group> {
        scales.is_of(&[DType::U8, DType::F8E8m0])?;
        let mut lens = weights.shape().to_vec();
        if let Some(last) = lens.last_mut() {
            *last = last.saturating_mul(in_byte);
        }
        let (shape, mut blocks, mut block) = (Shape::new(lens.clone())?, lens.clone(), vec![1; lens.len()]);
        if let (Some(blocks), Some(block)) = (blocks.last_mut(), block.last_mut()) {
            (*blocks, *block) = (blocks.div_ceil(mxfp4::BLOCK), mxfp4::BLOCK);
        }
        scales.has_shape(&blocks, "an exponent for each 32 elements of a row")?;
        let exponents: Computed = numbers_as(scales, Encoding::new(DType::F8E8m0, vec![0]));
        let multiply = Operation::MultiplyBlocks(Blocks::new(&shape, block).of(scales, exponents));
        let computed = numbers_as(weights, elements).with_operations(vec![multiply]);
        Weight::new(&*self.name, shape.clone(), computed, format!("compressed-tensors {kind}"))
            .of([weights, scales])
    }

    fn title(&self) -> String {
        match (self.group.block, self.group.group) {
            (Some([rows, columns]), _) => format!(" {rows}x{columns}"),
            (None, Some(group)) => format!(" g{group}"),
            (None, None) => String::new(),
        }
    }
}
