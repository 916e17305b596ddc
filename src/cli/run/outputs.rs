//! Writes the outputs of a forward pass to a file.

use crate::cli::convert::executing;
use crate::cli::paths::check_new;
use ckpt_api::{Error, Input, Kind, Network, Result};
use ckpt_engine::Registry;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_engine::{Conversion, Planned};
use ckpt_forward::{Array, Value};
use std::path::Path;

/// Name of the archive in memory.
const ENTRY: &str = "outputs.safetensors";

/// Finds out whether outputs can be written to `path`, before a graph runs for them.
///
/// # Errors
/// [`Kind::Usage`] if something is there already or the extension is unknown, [`Kind::Unsupported`] for a format
/// that does not store arrays.
pub(super) fn check(registry: &Registry, path: &Path, force: bool) -> Result<()> {
    if !force {
        check_new(path, true)?;
    }
    let one = Value::new([1, 1], Array::F32(vec![0.0]))?;
    plan(&[("output".to_owned(), one)], registry, path, force).map(|_| ())
}

/// Refuses an output in place of a file of the model.
///
/// # Errors
/// [`Kind::Usage`].
pub(super) fn check_source(source: &Source, path: &Path) -> Result<()> {
    let Ok(output) = path.canonicalize() else { return Ok(()) };
    let input = source.input();
    let files = source.contents().files.iter().map(String::as_str).chain([input.entry()]);
    let is_output =
        |name: &str| Path::new(&input.display(name)).canonicalize().is_ok_and(|own| own == output);
    match files.into_iter().any(is_output) {
        true => Err(Error::usage("the output would replace the model")
            .file(path.display().to_string())
            .help("choose another name")),
        false => Ok(()),
    }
}

/// Writes each output as a tensor of its name to `path`, in the format of the path's extension.
///
/// # Errors
/// As [`Conversion::plan`] and [`crate::Planned::execute`].
pub(super) fn write(
    outputs: &[(String, Value)],
    registry: &Registry,
    path: &Path,
    force: bool,
) -> Result<()> {
    let planned = plan(outputs, registry, path, force)?;
    executing(true, |execution| planned.execute(execution, &|_| ())).map(|_| ())
}

fn plan(outputs: &[(String, Value)], registry: &Registry, path: &Path, force: bool) -> Result<Planned> {
    let name = path.display().to_string();
    let unknown = || {
        Error::usage("the name of the output does not show a format for arrays").found(format!("'{name}'"))
    };
    let codec = registry.for_extension(&name).map_err(|_| unknown().help(advice(registry)))?;
    let info = codec.info();
    if info.writes != Network::ALL {
        return Err(Error::unsupported(
            "outputs are arrays, and the format stores networks of certain layers only",
        )
        .file(name)
        .found(format!("{}, by the name's extension", info.title))
        .help(advice(registry)));
    }
    let destination = registry.addresses().destination(path)?;
    let input = Input::memory(ENTRY, [(ENTRY.to_owned(), archive(outputs))].into());
    let options = OpenOptions::new().format("safetensors");
    let source = Source::open(registry, input, &options)?;
    // What other commands advise are options that this one does not have.
    Conversion::default().overwrite(force).plan(registry, &source, destination).map_err(|error| {
        match error.kind() {
            Kind::Usage | Kind::Unsupported | Kind::Lossy => {
                error.with_help(|_| advice(registry)).help(advice(registry)).file(name)
            }
            _ => error,
        }
    })
}

/// Which names show a format that stores any array.
fn advice(registry: &Registry) -> String {
    let known = ["safetensors", "npz", "npy"]
        .into_iter()
        .filter(|extension| registry.for_extension(&format!("outputs.{extension}")).is_ok());
    let names: Vec<String> = known.map(|extension| format!("outputs.{extension}")).collect();
    format!("choose a name such as {}; an .npy file holds one output", names.join(" or "))
}

/// The outputs as a safetensors file.
fn archive(outputs: &[(String, Value)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, value) in outputs {
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
