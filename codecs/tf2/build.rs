//! Compiles the `.proto` files with protox, so that nobody needs `protoc`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=schemas");
    let mut protos: Vec<PathBuf> = std::fs::read_dir("schemas")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    protos.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    protos.sort();
    let descriptors = protox::compile(&protos, ["schemas"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
