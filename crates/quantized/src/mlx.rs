//! MLX: integers of 1 to 8 bits with a scale and a bias for each group of a row; and MXFP4, MXFP8 and NVFP4.

use crate::fp8::NVFP4_BLOCK;
use crate::mxfp4;
use crate::numbers::{Blocks, FLOATS, Weight, numbers, numbers_as, packed};
use crate::parts::{Part, Parts};
use crate::stated::Stated;
use ckpt_api::{
    Along, DType, Encoding, Error, FieldOrder, Operation, PackedIntegers, Packing, Result, Shape,
};
use ckpt_engine::formats::Group;
use std::collections::HashMap;

/// Fields of the configuration that are not names of modules.
const FIELDS: [&str; 3] = ["group_size", "bits", "mode"];

/// What the configuration states.
pub(crate) struct Settings {
    all: Setting,
    /// Of modules that have their own; `None` if one is not quantized.
    own: HashMap<String, Option<Setting>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Setting {
    group: u64,
    bits: u32,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Affine,
    Mxfp4,
    Mxfp8,
    Nvfp4,
}

impl Settings {
    /// Reads the configuration.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`] for a mode that is not known; [`ckpt_api::Kind::Corrupt`] for fields of other types.
    pub(crate) fn new(stated: &Stated<'_>) -> Result<Self> {
        let all = setting(stated, None)?;
        let others = stated.object.keys().filter(|key| !FIELDS.contains(&key.as_str()));
        let own = others.filter_map(|key| match stated.inner(key) {
            Some(inner) => Some(setting(&inner, Some(all)).map(|setting| (key.clone(), Some(setting)))),
            None if stated.object.get(key).is_some_and(|value| value == false) => {
                Some(Ok((key.clone(), None)))
            }
            None => None,
        });
        let own = own.collect::<Result<_>>()?;
        Ok(Settings { all, own })
    }
}

fn setting(stated: &Stated<'_>, all: Option<Setting>) -> Result<Setting> {
    let whole = |key: &str, default: Option<u64>| {
        match stated.integer(key)? {
            Some(number) => u64::try_from(number).ok().filter(|number| *number > 0),
            None => default,
        }
        .map_or_else(|| Err(stated.wrong(key, "at least 1")), Ok)
    };
    let mode = match stated.text("mode")? {
        None => all.map_or(Mode::Affine, |all| all.mode),
        Some("affine") => Mode::Affine,
        Some("mxfp4") => Mode::Mxfp4,
        Some("mxfp8") => Mode::Mxfp8,
        Some("nvfp4") => Mode::Nvfp4,
        Some(other) => return Err(stated.unknown("mode", other, "affine, mxfp4, mxfp8 or nvfp4")),
    };
    let bits = whole("bits", Some(all.map_or(4, |all| u64::from(all.bits))))?;
    let bits = u32::try_from(bits).ok().filter(|bits| matches!(bits, 1..=6 | 8));
    let bits = bits.ok_or_else(|| stated.wrong("bits", "1, 2, 3, 4, 5, 6 or 8"))?;
    Ok(Setting { group: whole("group_size", Some(all.map_or(64, |all| all.group)))?, bits, mode })
}

/// The weight of a module; `None` if the tensors are none of MLX.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>, settings: &Settings) -> Result<Option<Group>> {
    let weights = parts.need(stem, ".weight", ".scales")?;
    if weights.dtype().is_float() {
        return Ok(None);
    }
    weights.is_of(&[DType::U32])?;
    let setting = match settings.own.get(stem) {
        Some(Some(own)) => *own,
        Some(None) => {
            return Err(weights.wrong(
                "a module is quantized that the configuration excludes",
                weights.dtype().name().to_owned(),
                "floats".to_owned(),
            ));
        }
        None => settings.all,
    };
    let scales = parts.need(stem, ".scales", ".weight")?;
    let Some((words, leading)) = weights.shape().split_last() else {
        return Err(weights.wrong("packed integers have no axis", "a scalar".into(), "a matrix".into()));
    };
    let bits = u64::from(setting.bits);
    let columns = words.saturating_mul(32) / bits;
    let lens = [leading, &[columns]].concat();
    let shape = Shape::new(lens)?;
    let group = match setting.mode {
        Mode::Affine => setting.group,
        Mode::Mxfp4 | Mode::Mxfp8 => mxfp4::BLOCK,
        Mode::Nvfp4 => NVFP4_BLOCK,
    };
    let expected = [leading, &[columns.div_ceil(group)]].concat();
    scales.has_shape(&expected, &format!("a scale for each {group} elements of a row"))?;
    let mut block = vec![1; shape.rank()];
    if let Some(last) = block.last_mut() {
        *last = group;
    }
    let module = Module { name: format!("{stem}.weight"), shape: &shape, blocks: Blocks::new(&shape, block) };
    match setting.mode {
        Mode::Affine => {
            let biases = parts.need(stem, ".biases", ".scales")?;
            module.affine((&weights, &scales, &biases), setting, &expected)
        }
        Mode::Mxfp4 => {
            module.floats(&weights, &scales, (DType::F4E2m1, DType::F8E8m0), (4, setting.bits), "mxfp4")
        }
        Mode::Mxfp8 => {
            module.floats(&weights, &scales, (DType::F8E4m3, DType::F8E8m0), (8, setting.bits), "mxfp8")
        }
        Mode::Nvfp4 => {
            module.floats(&weights, &scales, (DType::F4E2m1, DType::F8E4m3), (4, setting.bits), "nvfp4")
        }
    }
    .map(Some)
}

struct Module<'s> {
    name: String,
    shape: &'s Shape,
    blocks: Blocks<'s>,
}

impl Module<'_> {
    /// Integers times their scale, plus their bias.
    fn affine(
        self,
        (weights, scales, biases): (&Part<'_>, &Part<'_>, &Part<'_>),
        Setting { group, bits, .. }: Setting,
        expected: &[u64],
    ) -> Result<Group> {
        scales.is_of(&FLOATS)?;
        biases.is_of(&[scales.dtype()])?;
        biases.has_shape(expected, "a bias for each scale")?;
        let columns = self.shape.last().copied().unwrap_or(1);
        let rows = self.shape.elements() / columns.max(1);
        let integers = PackedIntegers::new(bits, [rows, columns], Along::Row, FieldOrder::Dense);
        let multiply = Operation::MultiplyBlocks(self.blocks.of(scales, numbers(scales)));
        let add = Operation::AddBlocks(self.blocks.of(biases, numbers(biases)));
        // The library computes in the dtype of the scales.
        let dtype = scales.dtype();
        let round = Operation::Round(dtype);
        let rounded = vec![multiply.clone(), round.clone(), add.clone(), round];
        let computed = packed(weights, integers).with_operations(vec![multiply, add]);
        let mut weight =
            Weight::new(self.name, self.shape.clone(), computed, format!("mlx int{bits} g{group}"));
        weight.rounded = (dtype != DType::F32).then_some((dtype, rounded));
        weight.of([weights, scales, biases])
    }

    /// Small floats times the scale of their block.
    fn floats(
        self,
        weights: &Part<'_>,
        scales: &Part<'_>,
        (elements, of_scales): (DType, DType),
        (bits, stated): (u32, u32),
        title: &str,
    ) -> Result<Group> {
        if bits != stated {
            return Err(Error::corrupt("the configuration of quantized weights contradicts itself")
                .tensor(&weights.tensor.name)
                .found(format!("{title} of {stated} bits"))
                .expected(format!("{bits} bits")));
        }
        scales.is_of(&[DType::U8, of_scales])?;
        let packing = if bits < 8 { Packing::Bits } else { Packing::Bytes };
        let elements = Encoding::new(elements, vec![0]).with_packing(packing);
        let exponents = numbers_as(scales, Encoding::new(of_scales, vec![0]));
        let multiply = Operation::MultiplyBlocks(self.blocks.of(scales, exponents));
        let computed = numbers_as(weights, elements).with_operations(vec![multiply]);
        Weight::new(self.name, self.shape.clone(), computed, format!("mlx {title}")).of([weights, scales])
    }
}
