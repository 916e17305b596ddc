//! Writes the outputs of a forward pass to a file.

use crate::cli::convert::execution;
use crate::convert::Conversion;
use crate::registry::Registry;
use crate::source::{OpenOptions, Source};
use crate::verify::ForwardPass;
use ckpt_api::{Input, Result};
use ckpt_forward::Array;
use std::path::Path;

/// Name of the archive in memory.
const ENTRY: &str = "outputs.safetensors";

/// Writes each output as a tensor of its name to `path`, in the format of the path's extension.
///
/// # Errors
/// As [`Conversion::plan`] and [`crate::Planned::execute`].
pub(super) fn write(pass: &ForwardPass, registry: &Registry, path: &Path) -> Result<()> {
    let input = Input::memory(ENTRY, [(ENTRY.to_owned(), archive(pass))].into());
    let options = OpenOptions { format: Some("safetensors".to_owned()), ..OpenOptions::default() };
    let source = Source::open(registry, input, &options)?;
    let planned = Conversion::default().plan(registry, &source, path)?;
    planned.execute(&execution(true), &|_| ()).map(|_| ())
}

/// The outputs as a safetensors file.
fn archive(pass: &ForwardPass) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, value) in &pass.outputs {
        let start = data.len();
        let dtype = match &value.array {
            Array::F32(values) => {
                data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                "F32"
            }
            Array::F64(values) => {
                data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                "F64"
            }
            Array::I32(values) => {
                data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                "I32"
            }
        };
        let entry = serde_json::json!({
            "dtype": dtype, "shape": value.shape, "data_offsets": [start, data.len()],
        });
        header.insert(name.clone(), entry);
    }
    let mut header = serde_json::Value::Object(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes(), &header[..], &data].concat()
}
