//! The compiled half of the Python package: `ckpt._ckpt`.
//!
//! The other half, `python/ckpt/*.py`, is what users see. Functions here take and return plain values: paths, lists,
//! JSON texts, and arrays. Every function releases the GIL while it works.

#![forbid(unsafe_code)]

mod cli;
mod codecs;
mod compare;
mod convert;
mod elements;
mod errors;
mod forward;
mod options;
mod planned;
mod safetensors;
mod save;
mod source;
mod stores;
mod words;
mod work;

use pyo3::prelude::*;

/// The module `ckpt._ckpt`.
#[pymodule]
fn _ckpt(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<ckpt_buffers::Array>()?;
    module.add_class::<ckpt_buffers::Exporter>()?;
    module.add_class::<codecs::CodecInput>()?;
    module.add_class::<source::Source>()?;
    module.add_class::<planned::Planned>()?;
    module.add_class::<safetensors::SafetensorsFile>()?;
    module.add_function(wrap_pyfunction!(cli::main, module)?)?;
    module.add_function(wrap_pyfunction!(codecs::load_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(codecs::register_codec, module)?)?;
    module.add_function(wrap_pyfunction!(compare::check_receipt, module)?)?;
    module.add_function(wrap_pyfunction!(compare::diff, module)?)?;
    module.add_function(wrap_pyfunction!(compare::verify, module)?)?;
    module.add_function(wrap_pyfunction!(convert::divide_options, module)?)?;
    module.add_function(wrap_pyfunction!(convert::plan, module)?)?;
    module.add_function(wrap_pyfunction!(planned::discard_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planned::load_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planned::read_plan, module)?)?;
    module.add_function(wrap_pyfunction!(forward::run, module)?)?;
    module.add_function(wrap_pyfunction!(options::formats, module)?)?;
    module.add_function(wrap_pyfunction!(options::mappings, module)?)?;
    module.add_function(wrap_pyfunction!(safetensors::encode_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(safetensors::decode_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(safetensors::write_safetensors, module)?)?;
    module.add_function(wrap_pyfunction!(save::save, module)?)?;
    module.add_function(wrap_pyfunction!(stores::list_files, module)?)?;
    module.add_function(wrap_pyfunction!(stores::make_directory, module)?)?;
    module.add_function(wrap_pyfunction!(stores::read_text, module)?)?;
    module.add_function(wrap_pyfunction!(stores::remove_files, module)?)?;
    module.add_function(wrap_pyfunction!(stores::set_store_options, module)?)?;
    Ok(())
}
