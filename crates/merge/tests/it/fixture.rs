//! Checkpoints in memory.

use ckpt_api::{DType, Input, Result};
use ckpt_engine::formats::Formats;
use ckpt_engine::resources::Resources;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_engine::store::MemoryStore;
use ckpt_engine::{Conversion, Registry};
use ckpt_merge::{Adapter, merge_adapters};
use half::{bf16, f16};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A tensor: its shape and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub numbers: Vec<f32>,
}

/// Tensors by name.
pub type Tensors = BTreeMap<String, Array>;

/// A tensor of numbers that no other seed has, of both signs, which have few digits.
pub fn array(seed: usize, shape: &[usize]) -> Array {
    let number = |index: usize| ((index * 7919 + seed * 104_729 + 13) as f32 * 0.618_034).fract() * 2.0 - 1.0;
    let count = shape.iter().product();
    Array { shape: shape.to_vec(), numbers: (0..count).map(|k| bf16::from_f32(number(k)).to_f32()).collect() }
}

pub fn tensors<const N: usize>(named: [(&str, Array); N]) -> Tensors {
    named.into_iter().map(|(name, array)| (name.to_owned(), array)).collect()
}

/// A safetensors file.
pub fn file(tensors: &Tensors, dtype: DType) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, Array { shape, numbers }) in tensors {
        let start = data.len();
        for number in numbers {
            match dtype {
                DType::F32 => data.extend(number.to_le_bytes()),
                DType::F16 => data.extend(f16::from_f32(*number).to_le_bytes()),
                _ => data.extend(bf16::from_f32(*number).to_le_bytes()),
            }
        }
        let dtype = dtype.name().to_ascii_uppercase();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
        header.insert(name.clone(), entry);
    }
    let header = Value::from(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

pub fn registry() -> Registry {
    Registry::of(Formats::with(vec![Arc::new(ckpt_safetensors::Safetensors)], Vec::new()))
}

/// A file of these tensors, opened.
pub fn model(tensors: &Tensors, dtype: DType) -> Source {
    let files = BTreeMap::from([("model.safetensors".to_owned(), file(tensors, dtype))]);
    Source::open(&registry(), Input::memory("model.safetensors", files), &OpenOptions::new()).unwrap()
}

/// The files of an adapter, whose names lack what peft puts first.
pub fn adapter_files(config: &Value, tensors: &Tensors) -> BTreeMap<String, Vec<u8>> {
    let named = tensors.iter().map(|(name, array)| (format!("base_model.model.{name}"), array.clone()));
    [
        ("adapter_config.json".to_owned(), config.to_string().into_bytes()),
        ("adapter_model.safetensors".to_owned(), file(&named.collect(), DType::F32)),
    ]
    .into()
}

/// An adapter with these settings beside its kind.
pub fn adapter(settings: Value, tensors: &Tensors, weight: f32) -> Result<Adapter> {
    let mut config = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 2});
    for (key, value) in settings.as_object().unwrap() {
        config[key] = value.clone();
    }
    let input = Input::memory("", adapter_files(&config, tensors));
    Adapter::open(&registry(), input, weight, &OpenOptions::new())
}

/// The tensors of a checkpoint, after it was converted.
pub fn written(source: &Source, conversion: &Conversion) -> Result<(Tensors, Vec<u8>)> {
    let memory = MemoryStore::new();
    let planned = conversion.plan(&registry(), source, memory.at("out.safetensors"))?;
    planned.execute(&Default::default(), &|_| ())?;
    let back = Source::open(&registry(), memory.at("out.safetensors"), &OpenOptions::new())?;
    let array = |tensor: ckpt_engine::source::TensorRef<'_>| {
        let shape = tensor.shape().iter().map(|len| *len as usize).collect();
        (tensor.name().to_owned(), Array { shape, numbers: tensor.read::<f32>().unwrap() })
    };
    let file = back.input().main()?;
    Ok((back.tensors().map(array).collect(), file.bytes(0, file.len())?))
}

/// The tensors of a base with adapters, each item of the plan small.
pub fn merged(base: &Source, adapters: &[Adapter]) -> Result<Tensors> {
    let source = merge_adapters(base, adapters)?;
    let resources = Resources::new().threads(2).item_size(4096);
    Ok(written(&source, &Conversion::new().resources(resources).verify(true))?.0)
}

/// `W + scale · (left · right)`, each sum in order: `left` has the shape `[rows, rank]`.
pub fn plus_product(base: &Array, left: &Array, right: &Array, scale: f32) -> Array {
    let (rows, rank) = (left.shape[0], left.shape[1]);
    let columns = right.numbers.len() / rank;
    let element = |index: usize| {
        let (row, column) = (index / columns, index % columns);
        let term = |k: usize| left.numbers[row * rank + k] * right.numbers[k * columns + column];
        base.numbers[index] + scale * (0..rank).map(term).fold(0.0, |sum: f32, term| sum + term)
    };
    Array { shape: base.shape.clone(), numbers: (0..rows * columns).map(element).collect() }
}

pub fn transposed(array: &Array) -> Array {
    let (rows, columns) = (array.shape[0], array.shape[1]);
    let index = |k: usize| (k % rows) * columns + k / rows;
    Array {
        shape: vec![columns, rows],
        numbers: (0..rows * columns).map(|k| array.numbers[index(k)]).collect(),
    }
}

/// The nearest numbers of a dtype.
pub fn rounded(array: &Array, dtype: DType) -> Array {
    let round = |number: &f32| match dtype {
        DType::F16 => f16::from_f32(*number).to_f32(),
        DType::Bf16 => bf16::from_f32(*number).to_f32(),
        _ => *number,
    };
    Array { shape: array.shape.clone(), numbers: array.numbers.iter().map(round).collect() }
}
