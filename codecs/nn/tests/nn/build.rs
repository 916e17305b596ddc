//! Builds `.nn` files byte by byte, independently of the codec.

use ckpt_api::{Checkpoint, Codec, Contents, Input, Options, OutputLayout, Result, Side};
use ckpt_nn::Nn;
use std::collections::BTreeMap;

/// 3 → 4 → ReLU → 2 → Softmax as dialect b describes it.
pub const JSON_B: &str = r#"{"device":"cpu","layers":[{"in_features":3,"name":"layer0","out_features":4,"trainable":true,"type":"Linear"},{"name":"layer1","type":"ReLU"},{"in_features":4,"name":"layer1","out_features":2,"trainable":true,"type":"Linear"},{"name":"layer3","type":"Softmax"}],"training":{"accuracy_history":null,"epochs":null,"loss":null,"loss_history":null,"optimizer":null,"stages":[],"val_accuracy_history":null,"val_loss_history":null}}"#;

/// One Linear layer 3 → 2, and no more than DataCode's loader needs.
pub const JSON_SMALL: &str = r#"{"layers": [{"type": "Linear", "in_features": 3, "out_features": 2}]}"#;

/// The same net as dialect a describes it.
pub fn json_a() -> String {
    let second = r#""name":"layer1","out_features":2"#;
    assert!(JSON_B.contains(second));
    JSON_B.replace(second, r#""name":"layer2","out_features":2"#)
}

pub fn mlp_b() -> Vec<u8> {
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[4, 3]),
        ("layer0.bias", &[4]),
        ("layer1.weight", &[2, 4]),
        ("layer1.bias", &[2]),
    ];
    file(JSON_B, &tensors)
}

pub fn mlp_a() -> Vec<u8> {
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[3, 4]),
        ("layer0.bias", &[1, 4]),
        ("layer2.weight", &[4, 2]),
        ("layer2.bias", &[1, 2]),
    ];
    file(&json_a(), &tensors)
}

/// A convolution as DataCode stores it, with the Linear layer after it.
pub fn convolution() -> Vec<u8> {
    let json = r#"{"device":"cpu","layers":[{"in_features":0,"name":"layer0","out_features":0,"trainable":true,"type":"Linear"},{"name":"layer1","type":"Flatten"},{"in_features":8,"name":"layer1","out_features":2,"trainable":true,"type":"Linear"}],"training":null}"#;
    let tensors: [(&str, &[u32]); 4] = [
        ("layer0.weight", &[2, 1, 3, 3]),
        ("layer0.bias", &[2]),
        ("layer1.weight", &[2, 8]),
        ("layer1.bias", &[2]),
    ];
    file(json, &tensors)
}

/// A file with these tensors; every value of the file is another one.
pub fn file(json: &str, tensors: &[(&str, &[u32])]) -> Vec<u8> {
    let mut bytes = b"DATACODE\x01\0\0\0".to_vec();
    put(&mut bytes, json.len());
    bytes.extend_from_slice(json.as_bytes());
    put(&mut bytes, tensors.len());
    let mut value = 0.5f32;
    for (name, dims) in tensors {
        put(&mut bytes, name.len());
        bytes.extend_from_slice(name.as_bytes());
        put(&mut bytes, dims.len());
        dims.iter().for_each(|dim| put(&mut bytes, *dim as usize));
        for _ in 0..dims.iter().product() {
            bytes.extend_from_slice(&value.to_le_bytes());
            value += 1.0;
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, value: usize) {
    bytes.extend_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
}

pub fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn read(bytes: &[u8], options: &[(&str, &str)]) -> Result<(Contents, Vec<Vec<u8>>)> {
    let input = Input::memory("m.nn", BTreeMap::from([("m.nn".to_owned(), bytes.to_vec())]));
    ckpt_conformance::read(&Nn, &input, &pairs(options))
}

pub fn write(checkpoint: &Checkpoint, values: &[Vec<u8>], options: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut files = ckpt_conformance::write(&Nn, checkpoint, values, "m.nn", &pairs(options))?;
    let bytes = files.remove("m.nn").expect("the file has the name that was asked for");
    assert!(files.is_empty(), "only one file is written");
    Ok(bytes)
}

/// Reads and writes again.
pub fn rewrite(bytes: &[u8], reading: &[(&str, &str)], writing: &[(&str, &str)]) -> Result<Vec<u8>> {
    let (contents, values) = read(bytes, reading)?;
    write(&contents.checkpoint, &values, writing)
}

pub fn place(checkpoint: &Checkpoint, options: &[(&str, &str)]) -> Result<OutputLayout> {
    let options = Options::parse("nn", Nn.info().options, Side::Write, &pairs(options))?;
    let placed = Nn.place(checkpoint, "m.nn", &options)?;
    placed.check(checkpoint)?;
    Ok(placed)
}

/// The JSON block of a file.
pub fn json_of(bytes: &[u8]) -> String {
    let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    String::from_utf8(bytes[16..16 + len].to_vec()).unwrap()
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}
