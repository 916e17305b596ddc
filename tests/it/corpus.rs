//! Replays the corpus: every file that a codec must accept gives the digest that its maker computed, and every file
//! that it must refuse gives the documented kind of error. `corpus/generate.py` makes both.

use crate::common::corpus::{Case, manifest, root};
use ckpt_api::{Codec, Contents, Error, Kind, Match, Quantization};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

const CODECS: [(&str, &dyn Codec, usize, usize); 22] = [
    ("bullet", &ckpt_bullet::Bullet, 13, 40),
    ("caffe", &ckpt_caffe::Caffe, 12, 28),
    ("cnn2", &ckpt_cnn2::Cnn2, 15, 36),
    ("coreml", &ckpt_coreml::CoreMl, 27, 49),
    ("darknet", &ckpt_darknet::Darknet, 8, 24),
    ("flax", &ckpt_orbax::Flax, 4, 18),
    ("gguf", &ckpt_gguf::Gguf, 16, 42),
    ("keras", &ckpt_keras::Keras, 30, 50),
    ("mxnet", &ckpt_mxnet::Mxnet, 11, 27),
    ("nn", &ckpt_nn::Nn, 13, 36),
    ("nnue", &ckpt_nnue::Nnue, 3, 14),
    ("npz", &ckpt_npz::Npz, 21, 57),
    ("onnx", &ckpt_onnx::Onnx, 15, 29),
    ("orbax", &ckpt_orbax::Orbax, 17, 54),
    ("paddle", &ckpt_paddle::Paddle, 14, 26),
    ("safetensors", &ckpt_safetensors::Safetensors, 19, 34),
    ("tf1", &ckpt_tf2::Tf1, 27, 24),
    ("tf2", &ckpt_tf2::Tf2, 38, 59),
    ("tfjs", &ckpt_tfjs::Tfjs, 10, 38),
    ("tflite", &ckpt_tflite::Tflite, 12, 34),
    ("torch", &ckpt_torch::Torch, 32, 66),
    ("torch7", &ckpt_torch7::Torch7, 21, 33),
];

#[test]
fn the_manifest_lists_every_file_with_its_checksum() {
    let mut listed = BTreeSet::new();
    for case in manifest() {
        let path = root().join(&case.path);
        for (name, sha256) in &case.sha256 {
            let path = if case.entry.is_some() { path.join(name) } else { path.clone() };
            let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(&hex(&Sha256::digest(bytes)), sha256, "{}", path.display());
            assert!(listed.insert(path), "listed twice: {}", case.path);
        }
    }
    let mut found = BTreeSet::new();
    for (codec, ..) in CODECS {
        collect(&root().join(codec), &mut found);
    }
    let difference: Vec<_> = found.symmetric_difference(&listed).collect();
    assert!(difference.is_empty(), "on one side only: {difference:?}");
}

#[test]
fn what_must_be_accepted_gives_the_expected_tensors() {
    replay("accept", |case, codec| {
        let input = case.input().map_err(|error| error.to_string())?;
        match (codec.probe(&input), case.is_told()) {
            (Ok(Match::Certain(_)), true) | (Ok(Match::No | Match::Possible(_)), false) => {}
            (other, _) => return Err(format!("probe says {other:?}")),
        }
        let (contents, values) = read(case, codec).map_err(|error| error.to_string())?;
        let (simple, hashed) = (digest(&contents, &values), hash(case).map_err(|error| error.to_string())?);
        let describe =
            |tensor: &ckpt_api::Tensor| format!("{} {}{}", tensor.name, tensor.dtype, tensor.shape);
        let tensors: Vec<_> = contents.checkpoint.tensors.iter().map(describe).collect();
        match case.digest.as_deref().unwrap_or_default() {
            expected if simple != expected => Err(format!("digest {simple}; tensors {tensors:?}")),
            expected if hashed != expected => Err(format!("`ckpt hash` says {hashed}; tensors {tensors:?}")),
            _ => Ok(()),
        }
    });
}

#[test]
fn what_must_be_refused_gives_the_documented_kind_of_error() {
    replay("reject", |case, codec| {
        let Err(error) = read(case, codec) else { return Err("accepted".to_owned()) };
        let (found, expected) = (kind_name(error.kind()), case.kind.as_deref().unwrap_or_default());
        if found == expected { Ok(()) } else { Err(format!("{found} instead of {expected}: {error}")) }
    });
}

/// Runs `check` on every case with this outcome; fails with all that failed, a panic included.
fn replay(outcome: &str, check: fn(&Case, &dyn Codec) -> Result<(), String>) {
    let mut failures = Vec::new();
    for (id, codec, accepted, refused) in CODECS {
        let cases = manifest().into_iter().filter(|case| case.codec == id && case.outcome == outcome);
        let mut seen = 0;
        for case in cases {
            let run = || check(&case, codec);
            let result = catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(Err("panic".to_owned()));
            failures.extend(result.err().map(|error| format!("{} ({}): {error}", case.path, case.why)));
            seen += 1;
        }
        assert_eq!(seen, if outcome == "accept" { accepted } else { refused }, "cases of {id}");
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// What reading a case gives, in memory.
fn read(case: &Case, codec: &dyn Codec) -> Result<(Contents, Vec<Vec<u8>>), Error> {
    ckpt_conformance::read(codec, &case.input()?, &case.pairs())
}

/// The digest as `ckpt hash` computes it.
fn hash(case: &Case) -> Result<String, Error> {
    let source = ckpt::Source::open(&ckpt::Registry::builtin(), case.input()?, &case.opening())?;
    Ok(ckpt::digest::digest(&source, 1)?.sha256)
}

/// As `digest` in `corpus/common.py`.
fn digest(contents: &Contents, values: &[Vec<u8>]) -> String {
    let mut tensors: Vec<_> = contents.checkpoint.tensors.iter().zip(values).collect();
    tensors.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut total = Sha256::new();
    for (tensor, value) in tensors {
        for text in [tensor.name.as_str(), tensor.dtype.name()] {
            total.update((text.len() as u64).to_le_bytes());
            total.update(text);
        }
        for number in [tensor.shape.rank() as u64].into_iter().chain(tensor.shape.iter().copied()) {
            total.update(number.to_le_bytes());
        }
        let mut hasher = Sha256::new();
        let mut rest = value.as_slice();
        for len in tensor.lengths.iter().flatten() {
            let (element, later) = rest.split_at(usize::try_from(*len).unwrap());
            hasher.update(len.to_le_bytes());
            hasher.update(element);
            rest = later;
        }
        hasher.update(rest);
        total.update(hasher.finalize());
        let affine = tensor.quantization.as_ref().and_then(Quantization::affine);
        if let Some(own) = affine.filter(|own| !own.is_identity()) {
            let axis = own.axis().map_or(u64::MAX, |axis| axis as u64);
            let numbers = own.scales().iter().chain(own.zero_points()).map(|number| number.to_bits());
            for number in [u64::MAX - 1, axis, own.scales().len() as u64].into_iter().chain(numbers) {
                total.update(number.to_le_bytes());
            }
        }
    }
    hex(&total.finalize())
}

fn kind_name(kind: Kind) -> String {
    serde_json::to_value(kind).unwrap().as_str().unwrap().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { assert!(files.insert(path)) }
    }
}
