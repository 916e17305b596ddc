//! The checked-in protobuf code is what the schemas generate. `CKPT_PROTO=write` rewrites it.

use std::path::{Path, PathBuf};

/// The code that `prost-build` generates for all schemas, which are of the package `tensorflow`.
fn generate(schemas: &Path) -> String {
    let entries = std::fs::read_dir(schemas).unwrap();
    let mut protos: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    protos.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    protos.sort();
    let descriptors = protox::compile(&protos, [schemas]).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    prost_build::Config::new().bytes(["."]).out_dir(directory).compile_fds(descriptors).unwrap();
    std::fs::read_to_string(directory.join("tensorflow.rs")).unwrap()
}

#[test]
fn the_generated_code_is_that_of_the_schemas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (schemas, checked_in) = (root.join("schemas"), root.join("src/proto/generated.rs"));
    if !schemas.join("tensor_bundle.proto").is_file() {
        eprintln!("skipped: there is no {}", schemas.display());
        return;
    }
    let generated = generate(&schemas);
    if std::env::var_os("CKPT_PROTO").is_some_and(|value| value == "write") {
        std::fs::write(&checked_in, &generated).unwrap();
    }
    assert!(
        std::fs::read_to_string(&checked_in).unwrap() == generated,
        "{} is out of date: run CKPT_PROTO=write cargo test -p ckpt-tf-graph --test it generated",
        checked_in.display()
    );
}
