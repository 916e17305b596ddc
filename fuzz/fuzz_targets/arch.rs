//! Architecture files, as bullet's nets and as chains of layers. Of the bytes: JSON until the first 0, then the bytes that a
//! net's file holds.
#![no_main]

use ckpt_api::{ArchitectureFile, Checkpoint, DType, Shape, Tensor};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (text, rest) = data.split_at(end);
    let Ok(file) = std::str::from_utf8(text)
        .map_err(drop)
        .and_then(|text| ArchitectureFile::from_json(text).map_err(drop))
    else {
        return;
    };
    layers(&file);
    if ckpt_bullet::check_architecture(&file).is_ok() {
        net(&file, rest.get(1..).unwrap_or_default());
    }
});

/// Every file that the architecture describes.
fn net(file: &ArchitectureFile, bytes: &[u8]) {
    let codec = &ckpt_bullet::Bullet;
    for (name, options) in [
        ("weights.bin", &[][..]),
        ("raw.bin", &[]),
        ("quantised.bin", &[]),
        ("quantised.bin", &[("integers", "true")]),
        ("net.nnue", &[("content", "engine")]),
        ("net.nnue", &[("content", "engine"), ("integers", "true")]),
    ] {
        let options = ckpt_fuzz::options(codec, options).with_architecture(Some(file.clone()));
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, bytes), &options);
    }
}

/// The file as one for tensors without a graph of their own.
fn layers(file: &ArchitectureFile) {
    let Ok(architecture) = file.layers() else { return };
    let tensor = |name: &str, dims: &[u64]| Tensor::new(name, DType::F32, Shape::new(dims).expect("small"));
    let tensors =
        vec![tensor("k", &[3, 3, 4, 2]), tensor("c", &[2]), tensor("w", &[2, 5]), tensor("b", &[5])];
    let mut checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    if architecture.apply(&mut checkpoint).is_ok() {
        let graph = checkpoint.graph.expect("an architecture gives a graph");
        graph.check().expect("which can run");
    }
}
