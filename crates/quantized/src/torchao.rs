//! torchao: the tensors of its subclasses, as its support for safetensors flattens them.
//!
//! A weight `M.weight` is stored as `M._weight_qdata`, `M._weight_scale` and so on. The metadata of the file has a JSON object
//! under the name of the weight: the subclass, its attributes, and the names of its tensors.

use crate::fp8::{NVFP4_BLOCK, whole};
use crate::mxfp4;
use crate::numbers::{Blocks, FLOATS, Weight, numbers, numbers_as};
use crate::parts::{Part, Parts};
use ckpt_api::{DType, Encoding, Error, Operation, Packing, Result, Shape};
use ckpt_engine::formats::Group;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Namespace of the metadata of safetensors.
const NAMESPACE: &str = "safetensors";
const KNOWN: &str = "Float8Tensor, Int8Tensor, IntxUnpackedToInt8Tensor, MXTensor, NVFP4Tensor";
/// Tensors beside the elements; all but the first three concern activations.
const OTHERS: [&str; 6] = [
    "scale",
    "zero_point",
    "per_tensor_scale",
    "act_quant_scale",
    "act_quant_zero_point",
    "act_per_tensor_scale",
];

/// What the metadata states of a weight.
#[derive(Deserialize)]
struct Stated {
    #[serde(rename = "_type")]
    class: String,
    #[serde(rename = "_data", default)]
    attributes: Map<String, Value>,
}

/// The weight whose tensors have names that begin with `stem`.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for parts that are missing or do not fit each other; [`ckpt_api::Kind::Unsupported`] for a subclass
/// or a layout that is not known, and if the metadata does not state it.
pub(crate) fn weight(stem: &str, parts: &Parts<'_>) -> Result<Option<Group>> {
    let elements = parts.need(stem, "_qdata", "_scale")?;
    let name = stem.rsplit_once("._").map(|(module, parameter)| format!("{module}.{parameter}"));
    let Some((name, text)) = name.and_then(|name| Some((name.clone(), parts.metadata(NAMESPACE, &name)?)))
    else {
        return Err(Error::unsupported("the file does not state how a weight of torchao is quantized")
            .tensor(&elements.tensor.name)
            .found("no metadata of the weight")
            .expected("what torchao's support for safetensors writes"));
    };
    let Stated { class, attributes } = serde_json::from_str(text).map_err(|error| {
        elements.wrong(
            "the metadata of a quantized weight is not valid",
            error.to_string(),
            "JSON with _type and _data".to_owned(),
        )
    })?;
    if parts.has(stem, "_act_pre_scale") {
        return Err(Error::unsupported("a quantized weight belongs to inputs that are scaled first")
            .tensor(format!("{stem}_act_pre_scale")));
    }
    let others = OTHERS.iter().map(|other| parts.find(stem, &format!("_{other}")));
    let others = others.collect::<Result<Vec<_>>>()?;
    let own = Flattened { stem, name, parts, elements, attributes };
    let weight = match class.as_str() {
        "Float8Tensor" => own.floats()?,
        "Int8Tensor" | "IntxUnpackedToInt8Tensor" => own.integers()?,
        "MXTensor" => own.mx()?,
        "NVFP4Tensor" => own.nvfp4()?,
        other => {
            return Err(Error::unsupported("a weight has a layout of torchao that is not known")
                .tensor(own.name)
                .found(format!("'{other}'"))
                .expected(KNOWN));
        }
    };
    weight.of([&own.elements].into_iter().chain(others.iter().flatten())).map(Some)
}

/// The tensors of a weight, and the attributes of its subclass.
struct Flattened<'a> {
    stem: &'a str,
    name: String,
    parts: &'a Parts<'a>,
    elements: Part<'a>,
    attributes: Map<String, Value>,
}

impl Flattened<'_> {
    fn need(&self, other: &str) -> Result<Part<'_>> {
        self.parts.need(self.stem, &format!("_{other}"), "_qdata")
    }

    /// 8-bit floats times the scale of their block: as many blocks as there are scales.
    fn floats(&self) -> Result<Weight> {
        let scales = self.need("scale")?;
        self.elements.is_of(&[DType::F8E4m3, DType::F8E5m2])?;
        scales.is_of(&FLOATS)?;
        let shape = self.elements.shape();
        let is_one = scales.shape().elements() == 1;
        let block =
            |(len, scales): (&u64, &u64)| len.checked_div(*scales).filter(|block| block * scales == *len);
        let blocks: Option<Vec<u64>> = match is_one {
            true => Some(whole(shape)),
            false if scales.shape().rank() != shape.rank() => None,
            false => shape.iter().zip(scales.shape().iter()).map(block).collect(),
        };
        let blocks = blocks.ok_or_else(|| {
            scales.wrong(
                "the scales do not fit the weight",
                format!("scales of shape {} for {shape}", scales.shape()),
                "a scale for each of equal blocks".to_owned(),
            )
        })?;
        let blocks: Vec<u64> = blocks.into_iter().map(|len| len.max(1)).collect();
        let title = format!("torchao fp8 {}", self.elements.dtype().name().trim_start_matches("f8_"));
        let multiply = Operation::MultiplyBlocks(Blocks::new(shape, blocks).of(&scales, numbers(&scales)));
        Ok(self.weight(shape, numbers(&self.elements), vec![multiply], title))
    }

    /// 8-bit integers, perhaps less a zero point, times the scale of their block.
    fn integers(&self) -> Result<Weight> {
        let scales = self.need("scale")?;
        let zeros = self.parts.find(self.stem, "_zero_point")?;
        self.elements.is_of(&[DType::I8])?;
        scales.is_of(&FLOATS)?;
        let shape = self.elements.shape();
        let block = self.block_size(shape)?;
        let count: u64 = shape.iter().zip(&block).map(|(len, block)| len / block).product();
        if scales.shape().elements() != count {
            return Err(scales.wrong(
                "the scales do not fit the weight",
                format!("scales of shape {} for {shape}", scales.shape()),
                format!("{count}, one for each block of {block:?}"),
            ));
        }
        let blocks = Blocks::new(shape, block);
        let multiply = Operation::MultiplyBlocks(blocks.of(&scales, numbers(&scales)));
        let mut operations = vec![multiply.clone()];
        let mut rounded = None;
        if let Some(zeros) = &zeros {
            zeros.is_of(&[DType::I8, DType::F16, DType::Bf16, DType::F32])?;
            zeros.has_shape(scales.shape(), "a zero point for each scale")?;
            operations.insert(0, Operation::SubtractBlocks(blocks.of(zeros, numbers(zeros))));
            // The library subtracts in the dtype of the weight; integers are exact in it.
            if let Some(dtype) = self.dtype("dtype").filter(|_| zeros.dtype() != DType::I8) {
                let round = Operation::Round(dtype);
                let zeros_in_dtype = numbers(zeros).with_operations(vec![round.clone()]);
                let subtract = Operation::SubtractBlocks(blocks.of(zeros, zeros_in_dtype));
                rounded = Some((dtype, vec![subtract, round, multiply]));
            }
        }
        let bits = self.text("target_dtype").and_then(|name| name.strip_prefix("int")).unwrap_or("8");
        let mut weight =
            self.weight(shape, numbers(&self.elements), operations, format!("torchao int{bits}"));
        weight.rounded = rounded;
        Ok(weight)
    }

    /// Floats of 4 or 8 bits, with a power of two for each 32.
    fn mx(&self) -> Result<Weight> {
        self.is_in_order()?;
        let scales = self.need("scale")?;
        scales.is_of(&[DType::F8E8m0, DType::U8])?;
        let block = self.attributes.get("block_size").and_then(Value::as_u64);
        if block != Some(mxfp4::BLOCK) {
            return Err(self.unknown("block_size", "32"));
        }
        let (elements, in_byte, title) = match self.text("elem_dtype") {
            Some("float8_e4m3fn") => (DType::F8E4m3, 1, "mxfp8 e4m3"),
            Some("float8_e5m2") => (DType::F8E5m2, 1, "mxfp8 e5m2"),
            Some("float4_e2m1fn_x2") => (DType::F4E2m1, 2, "mxfp4"),
            _ => return Err(self.unknown("elem_dtype", "float8_e4m3fn, float8_e5m2 or float4_e2m1fn_x2")),
        };
        let exponents = numbers_as(&scales, Encoding::new(DType::F8E8m0, vec![0]));
        let shape = self.unpacked(elements, in_byte)?;
        let blocks = self.of_rows(&shape, &scales, mxfp4::BLOCK)?;
        let multiply = Operation::MultiplyBlocks(blocks.of(&scales, exponents));
        let packing = if in_byte == 2 { Packing::Bits } else { Packing::Bytes };
        let own = numbers_as(&self.elements, Encoding::new(elements, vec![0]).with_packing(packing));
        Ok(self.weight(&shape, own, vec![multiply], format!("torchao {title}")))
    }

    /// Floats of 4 bits with an 8-bit scale for each 16, perhaps times one for the whole weight or for each expert.
    fn nvfp4(&self) -> Result<Weight> {
        self.is_in_order()?;
        let scales = self.need("scale")?;
        scales.is_of(&[DType::F8E4m3])?;
        let shape = self.unpacked(DType::F4E2m1, 2)?;
        let blocks = self.of_rows(&shape, &scales, NVFP4_BLOCK)?;
        let mut of_scales = numbers(&scales);
        let all = self.parts.find(self.stem, "_per_tensor_scale")?;
        if let Some(all) = &all {
            all.is_of(&[DType::F32])?;
            let mut block = whole(scales.shape());
            if let ([experts, 1, 1], [own, ..]) = (&all.shape()[..], &scales.shape()[..])
                && experts == own
                && let Some(first) = block.first_mut()
            {
                *first = 1;
            } else if all.shape().elements() != 1 {
                all.has_shape(&[], "one scale for the whole weight, or one for each expert")?;
            }
            let of_all = Blocks::new(scales.shape(), block).of(all, numbers(all));
            of_scales = of_scales.with_operations(vec![Operation::MultiplyBlocks(of_all)]);
        }
        let multiply = Operation::MultiplyBlocks(blocks.of(&scales, of_scales));
        let elements = Encoding::new(DType::F4E2m1, vec![0]).with_packing(Packing::Bits);
        Ok(self.weight(&shape, numbers_as(&self.elements, elements), vec![multiply], "torchao nvfp4".into()))
    }

    fn weight(
        &self,
        shape: &Shape,
        numbers: ckpt_api::Computed,
        operations: Vec<Operation>,
        title: String,
    ) -> Weight {
        Weight::new(self.name.as_str(), shape.clone(), numbers.with_operations(operations), title)
    }

    /// Fails if the scales are in the order of a kernel.
    fn is_in_order(&self) -> Result<()> {
        match self.attributes.get("is_swizzled_scales") {
            None | Some(Value::Null | Value::Bool(false)) => Ok(()),
            Some(_) => Err(self.unknown("is_swizzled_scales", "false")),
        }
    }

    /// The shape of elements of which a byte has one or two.
    fn unpacked(&self, elements: DType, in_byte: u64) -> Result<Shape> {
        let is_bytes = self.elements.dtype() == DType::U8 && self.elements.encoding.packing == Packing::Bytes;
        let mut lens = self.elements.shape().to_vec();
        match in_byte {
            1 => self.elements.is_of(&[elements])?,
            // Floats of 4 bits may be stored as such.
            _ if self.elements.dtype() == elements => return Ok(self.elements.shape().clone()),
            _ if is_bytes => {}
            _ => self.elements.is_of(&[DType::U8])?,
        }
        if let Some(last) = lens.last_mut() {
            *last = last.saturating_mul(in_byte);
        }
        Shape::new(lens)
    }

    /// Blocks of a row that have a scale each.
    fn of_rows<'s>(&self, shape: &'s Shape, scales: &Part<'_>, len: u64) -> Result<Blocks<'s>> {
        let (mut block, mut blocks) = (vec![1; shape.rank()], shape.to_vec());
        if let (Some(block), Some(blocks)) = (block.last_mut(), blocks.last_mut()) {
            (*block, *blocks) = (len, blocks.div_ceil(len));
        }
        scales.has_shape(&blocks, &format!("a scale for each {len} elements of a row"))?;
        Ok(Blocks::new(shape, block))
    }

    /// The lengths of the blocks, which divide those of the weight.
    fn block_size(&self, shape: &Shape) -> Result<Vec<u64>> {
        let stated = self.attributes.get("block_size").and_then(Value::as_array);
        let lens: Option<Vec<u64>> = stated.and_then(|lens| lens.iter().map(Value::as_u64).collect());
        let fits = |lens: &Vec<u64>| {
            lens.len() == shape.rank()
                && shape.iter().zip(lens).all(|(len, block)| *block > 0 && len.is_multiple_of(*block))
        };
        lens.filter(fits).ok_or_else(|| {
            let found = self.attributes.get("block_size").map_or("nothing".to_owned(), Value::to_string);
            self.elements.wrong(
                "the blocks of a quantized weight do not divide it",
                format!("block_size {found} for {shape}"),
                "a length for each axis that divides it".to_owned(),
            )
        })
    }

    /// The name of a dtype, or of a member of an enumeration, that an attribute states.
    fn text(&self, attribute: &str) -> Option<&str> {
        let value = self.attributes.get(attribute)?;
        value.get("_data").unwrap_or(value).as_str()
    }

    fn dtype(&self, attribute: &str) -> Option<DType> {
        match self.text(attribute)? {
            "float16" => Some(DType::F16),
            "bfloat16" => Some(DType::Bf16),
            _ => None,
        }
    }

    fn unknown(&self, attribute: &str, known: &str) -> Error {
        let found = self.attributes.get(attribute).map_or("nothing".to_owned(), Value::to_string);
        Error::unsupported("a weight has a layout of torchao that is not known")
            .tensor(self.name.as_str())
            .field(attribute)
            .found(found)
            .expected(known)
    }
}
