//! A tensor as JSON, printed while it is read.

use super::element::{Element, Elements, shortest};
use super::output::Output;
use crate::cli::render::harmless;
use ckpt_api::{Error, Quantization, Result};
use ckpt_engine::source::TensorRef;
use ckpt_engine::words::hex;
use serde_json::json;
use std::ops::Range;

/// Bytes of the longest string.
const LONGEST: u64 = 64 << 20;

/// Prints what is known of `tensor`, and the elements of `shown`, which has these `rows` of it, as nested lists.
pub(super) fn write(
    tensor: &TensorRef<'_>,
    shown: &TensorRef<'_>,
    rows: Option<&Range<u64>>,
    output: &mut Output<'_>,
) -> Result<()> {
    let mut elements = Elements::new(shown, LONGEST)?;
    let (name, shape) = (text(tensor.name())?, json!(&tensor.shape()[..]));
    let rows = rows.map(|rows| format!(", \"rows\": {}", json!([rows.start, rows.end]))).unwrap_or_default();
    let affine = tensor.quantization().and_then(Quantization::affine);
    let affine = affine.map(|own| format!(", \"quantization\": {}", json!(own))).unwrap_or_default();
    output.write(
        format!(
            "{{\"name\": {name}, \"dtype\": \"{}\"{affine}, \"shape\": {shape}{rows}, \"values\": ",
            tensor.dtype()
        )
        .as_bytes(),
    )?;
    let count = shown.shape().elements();
    if count == 0 {
        output.write(b"[]")?;
    }
    let strides: Vec<u64> =
        (0..shown.shape().rank()).map(|axis| super::output::stride(shown, axis)).collect();
    let ending = |index: u64| strides.iter().filter(|stride| index.is_multiple_of(**stride)).count();
    for index in 0..count {
        let Some(element) = elements.next()? else { break };
        if index > 0 {
            output.write(if ending(index) > 0 { b",\n" } else { b", " })?;
        }
        let brackets = "[".repeat(ending(index)) + &value(&element)? + &"]".repeat(ending(index + 1));
        output.write(brackets.as_bytes())?;
        if output.is_closed {
            break;
        }
    }
    output.write(b"}\n")?;
    output.finish()
}

fn value(element: &Element) -> Result<String> {
    Ok(match element {
        // Readers take it for a 64-bit float: the digits that stand for it in fewer bits are those of another number.
        Element::Float(value, _) => number(&shortest(value)),
        Element::Int(number) => number.to_string(),
        Element::Bool(value) => value.to_string(),
        Element::Complex([real, imaginary]) => format!("[{}, {}]", number(real), number(imaginary)),
        Element::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(string) => text(string)?,
            Err(_) => json!({ "hex": hex(bytes) }).to_string(),
        },
    })
}

/// JSON has no NaN and no infinity: they are strings.
fn number(text: &str) -> String {
    match text {
        "NaN" => "\"NaN\"".to_owned(),
        "inf" => "\"Infinity\"".to_owned(),
        "-inf" => "\"-Infinity\"".to_owned(),
        text => text.to_owned(),
    }
}

fn text(string: &str) -> Result<String> {
    let quoted = serde_json::to_string(string)
        .map_err(|error| Error::unsupported("the text cannot be written as JSON").found(error.to_string()))?;
    Ok(harmless(&quoted, true).into_owned())
}
