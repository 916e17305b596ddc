//! What a forward pass gave, as a file.

use super::forward::Ran;
use crate::convert::{Conversion, Execution};
use crate::registry::Registry;
use crate::source::{OpenOptions, Source};
use ckpt_api::{Input, Result};
use ckpt_forward::Array;
use std::path::Path;

/// The entry of the archive in memory.
const ENTRY: &str = "outputs.safetensors";

impl Ran {
    /// Writes the outputs to `path`, in the format that its extension says: each a tensor of the output's name.
    ///
    /// # Errors
    /// As [`Conversion::plan`] and [`crate::Planned::execute`].
    pub fn write(&self, registry: &Registry, path: &Path) -> Result<()> {
        let input = Input::memory(ENTRY, [(ENTRY.to_owned(), self.archive())].into());
        let options = OpenOptions { format: Some("safetensors".to_owned()), ..OpenOptions::default() };
        let source = Source::read(registry, input, &options)?;
        let planned = Conversion::default().plan(registry, &source, path)?;
        planned.execute(&Execution::default(), &|_| ()).map(|_| ())
    }

    /// The outputs as a safetensors file.
    fn archive(&self) -> Vec<u8> {
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, value) in &self.outputs {
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
}
