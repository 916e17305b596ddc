//! Builds bullet's files byte by byte, independently of the codec.

use ckpt_api::{
    ArchitectureFile, Checkpoint, Codec, Contents, Error, Input, Options, OutputLayout, Result, Side,
};
use ckpt_bullet::Bullet;
use std::collections::BTreeMap;

pub type Files = BTreeMap<String, Vec<u8>>;
/// For each weight its id, number of rows, and values in stored order.
pub type Net<'a> = [(&'a str, u64, Vec<f32>)];

/// (3→2)x2→1 with two output buckets; rounded, `l1w` transposed.
pub const PRESET: &str = "simple:3x2x1,buckets=2";

/// A net for [`PRESET`]. Rounding and truncating its values give different integers.
pub fn net() -> Vec<(&'static str, u64, Vec<f32>)> {
    vec![
        ("l0w", 2, vec![0.5, -0.25, 0.1, -0.1, 0.7, 1.3]),
        ("l0b", 2, vec![0.01, -0.02]),
        ("l1w", 2, vec![0.9, -0.9, 0.3, -0.3, 0.6, 0.2, -0.6, -0.2]),
        ("l1b", 2, vec![0.001, -0.002]),
    ]
}

pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Records of the current form.
pub fn records(net: &Net<'_>) -> Vec<u8> {
    let record = |(id, _, values): &(&str, u64, Vec<f32>)| {
        [format!("{id}\n").into_bytes(), (values.len() as u64).to_le_bytes().to_vec(), floats(values)]
            .concat()
    };
    net.iter().flat_map(record).collect()
}

/// Records of the form with rows and columns.
pub fn old_records(net: &Net<'_>) -> Vec<u8> {
    let record = |(id, rows, values): &(&str, u64, Vec<f32>)| {
        let columns = values.len() as u64 / rows;
        [
            format!("{id}\n").into_bytes(),
            rows.to_le_bytes().to_vec(),
            columns.to_le_bytes().to_vec(),
            floats(values),
        ]
        .concat()
    };
    net.iter().flat_map(record).collect()
}

/// Values without records.
pub fn headerless(net: &Net<'_>) -> Vec<u8> {
    net.iter().flat_map(|(.., values)| floats(values)).collect()
}

pub fn times(net: &[(&'static str, u64, Vec<f32>)], factor: f32) -> Vec<(&'static str, u64, Vec<f32>)> {
    let scaled = |values: &[f32]| values.iter().map(|value| value * factor).collect();
    net.iter().map(|(id, rows, values)| (*id, *rows, scaled(values))).collect()
}

/// quantised.bin of [`net`], padded with this text.
pub fn quantized(filler: &[u8]) -> Vec<u8> {
    let mut integers: Vec<i16> = Vec::new();
    for (id, rows, values) in net() {
        let scale = match id {
            "l1w" => 64.0,
            "l1b" => 16320.0,
            _ => 255.0,
        };
        let scaled = |value: f32| (scale * f64::from(value)).round() as i16;
        let columns = values.len() / rows as usize;
        match id {
            "l1w" => integers.extend(
                (0..rows as usize)
                    .flat_map(|row| (0..columns).map(move |column| column * 2 + row))
                    .map(|k| scaled(values[k])),
            ),
            _ => integers.extend(values.into_iter().map(scaled)),
        }
    }
    let mut bytes: Vec<u8> = integers.into_iter().flat_map(i16::to_le_bytes).collect();
    let filler = filler.iter().copied().cycle();
    bytes.extend(filler.take(64 - bytes.len() % 64).collect::<Vec<u8>>());
    bytes
}

/// The optimizer's files, without the folder.
pub fn state(write: fn(&Net<'_>) -> Vec<u8>, weights: &str) -> Files {
    // bullet's records come in the order of a hash table.
    let mut weight_order = net();
    if weights == "weights.bin" {
        weight_order.rotate_left(1);
    }
    [
        (weights, write(&weight_order)),
        ("momentum.bin", write(&times(&net(), 0.5))),
        ("velocity.bin", write(&times(&net(), 0.25))),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

pub fn within(folder: &str, files: Files) -> Files {
    files.into_iter().map(|(name, bytes)| (format!("{folder}{name}"), bytes)).collect()
}

/// A complete AdamW checkpoint.
pub fn directory() -> Files {
    let mut files = within("optimiser_state/", state(records, "weights.bin"));
    files.insert("raw.bin".into(), headerless(&net()));
    files.insert("quantised.bin".into(), quantized(b"bullet"));
    files
}

pub fn one(name: &str, bytes: Vec<u8>) -> Files {
    BTreeMap::from([(name.to_owned(), bytes)])
}

fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Reads a checkpoint and its values; `entry` is empty for a directory.
pub fn read(entry: &str, files: &Files, options: &[(&str, &str)]) -> Result<(Contents, Vec<Vec<u8>>)> {
    ckpt_conformance::read(&Bullet, &Input::memory(entry, files.clone()), &pairs(options))
}

/// As [`read`], with an architecture file.
pub fn read_all_with(
    entry: &str,
    files: &Files,
    json: &str,
    options: &[(&str, &str)],
) -> Result<(Contents, Vec<Vec<u8>>)> {
    let options = Options::parse("bullet", Bullet.info().options, Side::Read, &pairs(options))?;
    let options = options.with_architecture(Some(ArchitectureFile::from_json(json)?));
    ckpt_conformance::read_given(&Bullet, &Input::memory(entry, files.clone()), &options)
}

/// As [`read_all_with`], without the values.
pub fn read_with(entry: &str, files: &Files, json: &str) -> Result<Contents> {
    read_all_with(entry, files, json, &[]).map(|(contents, _)| contents)
}

pub fn write(
    checkpoint: &Checkpoint,
    values: &[Vec<u8>],
    name: &str,
    options: &[(&str, &str)],
) -> Result<Files> {
    ckpt_conformance::write(&Bullet, checkpoint, values, name, &pairs(options))
}

pub fn place(checkpoint: &Checkpoint, name: &str, options: &[(&str, &str)]) -> Result<OutputLayout> {
    let options = Options::parse("bullet", Bullet.info().options, Side::Write, &pairs(options))?;
    Bullet.place(checkpoint, name, &options)
}

/// The error of a result that must not be Ok.
pub fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

/// A tensor's numbers, row-major.
pub fn numbers(contents: &Contents, values: &[Vec<u8>], name: &str) -> Vec<f32> {
    let (id, _) = contents.checkpoint.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
    values[id.0].as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// A quantised.bin of zeros, padded.
pub fn filled(payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; payload];
    bytes.extend(b"bullet".iter().cycle().take(payload.next_multiple_of(64) - payload));
    bytes
}
