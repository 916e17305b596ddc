//! What the worker's JavaScript does for this module: `page/host.js`.

use std::io;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(raw_module = "./host.js")]
extern "C" {
    #[wasm_bindgen(catch, js_name = readInput)]
    fn read_input_of_host(file: u32, offset: u64, buffer: &mut [u8]) -> Result<u32, JsValue>;
    #[wasm_bindgen(catch, js_name = readOutput)]
    fn read_output_of_host(file: u32, offset: u64, buffer: &mut [u8]) -> Result<u32, JsValue>;
    #[wasm_bindgen(catch, js_name = writeOutput)]
    fn write_output_of_host(file: u32, offset: u64, bytes: &[u8]) -> Result<(), JsValue>;
    #[wasm_bindgen(catch, js_name = outputSize)]
    fn output_size_of_host(file: u32) -> Result<u64, JsValue>;
    fn progress(what: &str, bytes: u64);
    /// Keeps what a panic says: the module ends right after it.
    pub(crate) fn defect(message: &str);
}

/// Reads bytes of a file that the person chose, and returns how many.
pub(crate) fn read_input(file: u32, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let read = read_input_of_host(file, offset, buffer).map_err(failed)?;
    Ok((read as usize).min(buffer.len()))
}

/// Reads bytes back of an output's file, and returns how many.
pub(crate) fn read_output(file: u32, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let read = read_output_of_host(file, offset, buffer).map_err(failed)?;
    Ok((read as usize).min(buffer.len()))
}

/// Writes all of the bytes to an output's file.
pub(crate) fn write_output(file: u32, offset: u64, bytes: &[u8]) -> io::Result<()> {
    write_output_of_host(file, offset, bytes).map_err(failed)
}

/// Bytes in an output's file.
pub(crate) fn output_size(file: u32) -> io::Result<u64> {
    output_size_of_host(file).map_err(failed)
}

/// Tells the page that so many bytes more were read or written.
pub(crate) fn advanced(what: &str, bytes: u64) {
    progress(what, bytes);
}

/// The error that JavaScript threw: it throws texts.
fn failed(thrown: JsValue) -> io::Error {
    io::Error::other(thrown.as_string().unwrap_or_else(|| "the browser gives no reason".to_owned()))
}
