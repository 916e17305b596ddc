//! The manifest: groups of weights, and the files that have their bytes.

use super::number::whole;
use super::{OPTIMIZER, dtype, path};
use ckpt_api::{DType, Error, Limit, Limits, Result, Shape};
use serde_json::{Map, Value};

/// Weights whose bytes follow each other in the concatenation of some files.
#[derive(Debug)]
pub(crate) struct Group {
    /// Names of the files in the model's folder, in order.
    pub(crate) files: Vec<String>,
    pub(crate) weights: Vec<Weight>,
}

/// A weight, as the manifest states it.
#[derive(Debug)]
pub(crate) struct Weight {
    pub(crate) name: String,
    /// What the program computes with.
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) quantization: Option<Quantization>,
    pub(crate) is_of_optimizer: bool,
}

/// How numbers are stored that are not stored as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Quantization {
    /// As 16-bit floats.
    Half,
    /// As integers `q`, of one or two bytes: `q · scale + min`.
    Affine { is_16_bit: bool, scale: f64, min: f64 },
}

impl Quantization {
    /// The name of the stored dtype.
    pub(crate) fn dtype(self) -> &'static str {
        match self {
            Quantization::Half => "float16",
            Quantization::Affine { is_16_bit: true, .. } => "uint16",
            Quantization::Affine { is_16_bit: false, .. } => "uint8",
        }
    }
}

/// Reads the value of the key `weightsManifest`.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`], with the field; [`ckpt_api::Kind::Limit`].
pub(crate) fn parse(value: &Value, limits: &Limits) -> Result<Vec<Group>> {
    let groups = list(value, "weightsManifest")?;
    let mut counts = Counts::default();
    groups.iter().enumerate().map(|(k, value)| group(k, value, &mut counts, limits)).collect()
}

/// Files and weights of all groups so far.
#[derive(Default)]
struct Counts {
    files: u64,
    weights: u64,
}

fn group(number: usize, value: &Value, counts: &mut Counts, limits: &Limits) -> Result<Group> {
    let field = format!("weightsManifest[{number}]");
    let map = object(value, &field)?;
    let (paths, weights) = (format!("{field}.paths"), format!("{field}.weights"));
    let listed = list(map.get("paths").unwrap_or(&Value::Null), &paths)?;
    let described = list(map.get("weights").unwrap_or(&Value::Null), &weights)?;
    counts.files = counts.files.saturating_add(listed.len() as u64);
    counts.weights = counts.weights.saturating_add(described.len() as u64);
    limits.check(Limit::Files, counts.files)?;
    limits.check(Limit::Tensors, counts.weights)?;
    let file = |(k, value): (usize, &Value)| {
        let field = format!("{paths}[{k}]");
        let text = value.as_str().ok_or_else(|| invalid(value, &field, "a path"))?;
        path::file_name(text).map_err(|error| error.field(field))
    };
    let files = listed.iter().enumerate().map(file).collect::<Result<_>>()?;
    let weight = |(k, value)| weight(&format!("{weights}[{k}]"), value, limits);
    let weights = described.iter().enumerate().map(weight).collect::<Result<_>>()?;
    Ok(Group { files, weights })
}

fn weight(field: &str, value: &Value, limits: &Limits) -> Result<Weight> {
    let map = object(value, field)?;
    let member = |name: &str| map.get(name).unwrap_or(&Value::Null);
    let of = |name: &str| format!("{field}.{name}");
    let name = member("name").as_str().ok_or_else(|| invalid(member("name"), &of("name"), "a text"))?;
    limits.check(Limit::NameBytes, name.len() as u64)?;
    let named = |error: Error| error.tensor(name);
    let shape = shape(member("shape"), &of("shape"), limits).map_err(named)?;
    let text = member("dtype").as_str();
    let dtype = text.and_then(dtype).ok_or_else(|| {
        named(invalid(member("dtype"), &of("dtype"), "float32, int32, bool, complex64 or string"))
    })?;
    let quantization = match map.get("quantization") {
        None => None,
        Some(value) => Some(quantization(value, &of("quantization"), dtype).map_err(named)?),
    };
    let is_of_optimizer = member("group").as_str() == Some(OPTIMIZER);
    Ok(Weight { name: name.to_owned(), dtype, shape, quantization, is_of_optimizer })
}

fn shape(value: &Value, field: &str, limits: &Limits) -> Result<Shape> {
    let lens = list(value, field)?;
    limits.check(Limit::Rank, lens.len() as u64)?;
    let len = |value: &Value| whole(value).ok_or_else(|| invalid(value, field, "lengths, none negative"));
    let lens = lens.iter().map(len).collect::<Result<Vec<u64>>>()?;
    Shape::new(lens).map_err(|error| error.field(field.to_owned()))
}

fn quantization(value: &Value, field: &str, dtype: DType) -> Result<Quantization> {
    let map = object(value, field)?;
    let member = |name: &str| map.get(name).unwrap_or(&Value::Null);
    let stored = member("dtype").as_str();
    let found = match (stored, dtype) {
        (Some("float16"), DType::F32) => return Ok(Quantization::Half),
        (Some(stored @ ("uint8" | "uint16")), DType::F32 | DType::I32) => stored,
        (Some("float16" | "uint8" | "uint16"), _) => {
            let fitting = if stored == Some("float16") { "float32" } else { "float32 or int32" };
            return Err(Error::corrupt("weights of this dtype are not quantized so")
                .field(field.to_owned())
                .found(format!("{} of {dtype}", stored.unwrap_or_default()))
                .expected(fitting));
        }
        _ => {
            return Err(invalid(member("dtype"), &format!("{field}.dtype"), "uint8, uint16 or float16"));
        }
    };
    let number = |name: &str| {
        let value = member(name);
        let number = value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| invalid(value, &format!("{field}.{name}"), "a number"))
    };
    Ok(Quantization::Affine { is_16_bit: found == "uint16", scale: number("scale")?, min: number("min")? })
}

fn object<'v>(value: &'v Value, field: &str) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| invalid(value, field, "an object"))
}

fn list<'v>(value: &'v Value, field: &str) -> Result<&'v [Value]> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| invalid(value, field, "a list"))
}

/// The error about a value that is missing, or is something else.
fn invalid(value: &Value, field: &str, expected: &str) -> Error {
    /// Characters that are shown.
    const SHOWN: usize = 60;
    let error = match value {
        Value::Null => Error::corrupt("the model's file lacks a field"),
        _ => {
            let found: String = value.to_string().chars().take(SHOWN).collect();
            Error::corrupt("the model's file has another value than a model of TensorFlow.js").found(found)
        }
    };
    error.field(field.to_owned()).expected(expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(weight: &Value) -> Result<Weight> {
        let value = json!([{ "paths": ["w.bin"], "weights": [weight] }]);
        parse(&value, &Limits::default()).map(|mut groups| groups.remove(0).weights.remove(0))
    }

    #[test]
    fn a_weight_has_a_name_a_shape_and_a_dtype() {
        let found = one(&json!({ "name": "w", "shape": [2, 3], "dtype": "float32" })).unwrap();
        assert_eq!((found.name.as_str(), found.dtype, &found.shape[..]), ("w", DType::F32, &[2, 3][..]));
        for lacking in ["name", "shape", "dtype"] {
            let mut value = json!({ "name": "w", "shape": [2, 3], "dtype": "float32" });
            value.as_object_mut().unwrap().remove(lacking);
            let error = one(&value).unwrap_err().to_string();
            assert!(error.contains(&format!("weights[0].{lacking}")), "{error}");
        }
    }

    #[test]
    fn stored_dtypes_are_those_that_the_program_widens() {
        let of = |dtype: &str, quantization: Value| {
            one(&json!({ "name": "w", "shape": [2], "dtype": dtype, "quantization": quantization }))
        };
        let affine = json!({ "dtype": "uint8", "scale": 1, "min": -1e0 });
        let found = of("int32", affine.clone()).unwrap().quantization;
        assert_eq!(found, Some(Quantization::Affine { is_16_bit: false, scale: 1.0, min: -1.0 }));
        let half = json!({ "dtype": "float16", "original_dtype": "float32" });
        assert_eq!(of("float32", half.clone()).unwrap().quantization, Some(Quantization::Half));
        assert!(of("int32", half).is_err() && of("bool", affine).is_err());
        assert!(of("float32", json!({ "dtype": "uint8", "scale": "1", "min": 0 })).is_err());
        assert!(of("float32", json!({ "dtype": "int4", "scale": 1, "min": 0 })).is_err());
    }

    #[test]
    fn files_and_weights_of_all_groups_are_counted_together() {
        let group = json!({ "paths": ["a", "b"], "weights": [] });
        let limits = Limits::default().with(Limit::Files, 3);
        assert!(parse(&json!([group]), &limits).is_ok());
        assert!(parse(&json!([group, group]), &limits).is_err());
    }
}
