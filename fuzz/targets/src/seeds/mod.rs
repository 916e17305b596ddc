//! Seeds: what a target begins with, made of the files of this repository.
//!
//! `fuzz/seed.sh` writes them where cargo-fuzz looks for them, and adds seeds that scripts make.

mod cases;
mod messages;
mod repository;

pub use repository::{Seeds, bytes, files, root};

use crate::TARGETS;
use repository::{Result, flat, push};
use serde_json::Value;
use std::collections::BTreeMap;

/// The formats of the corpus; a target each is called `FORMAT_read`.
const FORMATS: [&str; 22] = [
    "bullet",
    "caffe",
    "cnn2",
    "coreml",
    "darknet",
    "flax",
    "gguf",
    "keras",
    "mxnet",
    "nn",
    "nnue",
    "npz",
    "onnx",
    "orbax",
    "paddle",
    "safetensors",
    "tf1",
    "tf2",
    "tfjs",
    "tflite",
    "torch",
    "torch7",
];

/// Targets that make their cases of any bytes. With a zero in front, the bytes of two of them are a case itself.
const ANY_BYTES: [&str; 11] = [
    "bullet_round_trip",
    "cnn2_round_trip",
    "gguf_round_trip",
    "nn_round_trip",
    "npz_round_trip",
    "plan",
    "safetensors_round_trip",
    "tf2_round_trip",
    "tf2_saved_model",
    "tf2_table",
    "transform",
];

/// How many inputs each of these gets.
const SOME: u64 = 64;

/// A mapping with a pattern on both sides.
const RULES: &str = "\
[[rule]]
from = \"model/h{layer:int}/attn/{part}\"
to = \"h.{layer}.{part}\"
";

/// Returns the seeds of all targets.
///
/// # Errors
/// A file of the repository cannot be read, or is not what it has to be.
pub fn all() -> Result<Seeds> {
    let mut seeds: Seeds = TARGETS.iter().map(|target| (target.name, BTreeMap::new())).collect();
    corpus(&mut seeds)?;
    cases::add(&mut seeds)?;
    messages::add(&mut seeds)?;
    configurations(&mut seeds)?;
    architectures(&mut seeds)?;
    mappings(&mut seeds)?;
    for target in ANY_BYTES {
        for number in 0..SOME {
            push(&mut seeds, target, &format!("some-{number:02}"), some(target, number));
        }
    }
    Ok(seeds)
}

/// Each file of the corpus by itself.
fn corpus(seeds: &mut Seeds) -> Result<()> {
    for format in FORMATS {
        let folder = root().join("corpus").join(format);
        let reads = TARGETS.iter().find(|target| target.name.strip_suffix("_read") == Some(format));
        for path in files(&folder)? {
            let (name, seed) = (flat(&path, &folder)?, bytes(&path)?);
            match (format, reads) {
                // Its target takes index and data in one.
                ("tf2", _) | (_, None) => {}
                (_, Some(target)) => push(seeds, target.name, &name, seed.clone()),
            }
            if format == "keras" && path.extension().is_some_and(|extension| extension == "h5") {
                push(seeds, "hdf5_read", &name, seed.clone());
            }
            if format == "safetensors" {
                push(seeds, "safetensors_peer", &name, seed.clone());
                // It gives a header its length itself, too.
                let header = seed.get(8..).unwrap_or_default().to_vec();
                push(seeds, "safetensors_peer", &format!("{name}-header"), header);
            }
            push(seeds, "probe", &format!("{format}-{name}"), seed);
        }
    }
    Ok(())
}

/// The configurations of the tests of ckpt-keras.
fn configurations(seeds: &mut Seeds) -> Result<()> {
    let folder = root().join("codecs/keras/tests/it/config/models");
    for path in files(&folder)? {
        let mut model: Value = serde_json::from_slice(&bytes(&path)?)?;
        let name = flat(&path, &folder)?;
        push(
            seeds,
            "keras_config",
            name.trim_end_matches(".json"),
            serde_json::to_vec(&model["config"].take())?,
        );
    }
    Ok(())
}

/// The architectures of the examples, each before as many zeros as a small net has; and names of activations.
fn architectures(seeds: &mut Seeds) -> Result<()> {
    let folder = root().join("examples/data/architecture");
    for path in files(&folder)? {
        let seed = [bytes(&path)?, vec![0; 65]].concat();
        push(seeds, "arch", &format!("example-{}", flat(&path, &folder)?), seed);
    }
    push(seeds, "arch", "example-names", b"relu,linear".to_vec());
    Ok(())
}

/// The built-in mappings.
fn mappings(seeds: &mut Seeds) -> Result<()> {
    let folder = root().join("data/mappings");
    for path in files(&folder)? {
        push(seeds, "mapping", &flat(&path, &folder)?, bytes(&path)?);
    }
    push(seeds, "mapping", "rules.toml", RULES.into());
    Ok(())
}

/// Two to 1024 bytes that depend on the target and the number.
fn some(target: &str, number: u64) -> Vec<u8> {
    let seed = target.bytes().fold(number, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let byte =
        |k: u64| (seed ^ k << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(seed | 1);
    (0..2 << (number % 10)).map(|k| (byte(k) >> 56) as u8).collect()
}
