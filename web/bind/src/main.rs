//! Makes the JavaScript that loads ckpt's WebAssembly: `ckpt-web-bind IN.wasm OUT_DIRECTORY`.

use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else {
        anyhow::bail!("usage: ckpt-web-bind IN.wasm OUT_DIRECTORY")
    };
    Bindgen::new()
        .web(true)?
        .input_path(input)
        .out_name("ckpt")
        .typescript(false)
        .omit_default_module_path(true)
        .remove_producers_section(true)
        .remove_name_section(true)
        .generate(output)
}
