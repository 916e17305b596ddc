//! Checkpoints that bullet wrote, in the directory that `CKPT_CASES` names.

use crate::build::{Files, numbers, read, write};
use crate::list::CASES;
use ckpt_api::{Axis, Contents};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let Some(cases) = std::env::var_os("CKPT_CASES") else {
        eprintln!("skipped: CKPT_CASES is not set");
        return None;
    };
    let folder = PathBuf::from(cases).join("bullet");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let directories = entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert!(directories >= CASES.len(), "only {directories} cases");
    Some(folder)
}

fn files(root: &Path) -> Files {
    let mut files = Files::new();
    for folder in ["", "optimiser_state/"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap().to_str().unwrap();
                files.insert(format!("{folder}{name}"), std::fs::read(&path).unwrap());
            }
        }
    }
    assert!(files.len() >= 5, "{}", root.display());
    files
}

pub fn each(check: impl Fn(&str, &str, &Files, &Path)) {
    let Some(folder) = folder() else { return };
    for (name, preset) in CASES {
        check(name, preset, &files(&folder.join(name)), &folder);
    }
}

fn description(folder: &Path, name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn a_directory_comes_back_byte_for_byte_with_both_networks_made_from_the_weights() {
    each(|name, preset, files, _| {
        let (contents, values) =
            read("", files, &[("arch", preset)]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written =
            write(&contents.checkpoint, &values, "", &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(written.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{name}");
        for (file, bytes) in files {
            assert!(written[file] == *bytes, "{name}: {file} differs");
        }
    });
}

#[test]
fn both_networks_match_the_weights() {
    each(|name, preset, files, _| {
        let checked = |files: &Files| read("", files, &[("arch", preset), ("check", "true")]);
        checked(files).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut damaged = files.clone();
        *damaged.get_mut("raw.bin").unwrap().last_mut().unwrap() ^= 1;
        assert!(checked(&damaged).is_err(), "{name}");
    });
}

#[test]
fn without_an_architecture_the_optimizers_files_come_back_and_a_preset_is_proposed() {
    each(|name, preset, files, _| {
        let (contents, values) = read("", files, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(contents.checkpoint.tensors.iter().all(|tensor| tensor.shape.rank() == 1), "{name}");
        let written = write(&contents.checkpoint, &values, "", &[]).unwrap();
        assert!(
            written.keys().all(|file| file.starts_with("optimiser_state/") || file == "quantised.bin"),
            "{name}"
        );
        for (file, bytes) in &written {
            assert!(files[file] == *bytes, "{name}: {file} differs");
        }
        let proposed = contents.notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n");
        let sizes = preset.split_once(',').map_or(preset, |(sizes, _)| sizes);
        assert!(proposed.contains(sizes), "{name}: {proposed}");
        let buckets = preset.contains("buckets=8");
        assert_eq!(proposed.contains(",buckets=8"), buckets, "{name}: {proposed}");
    });
}

#[test]
fn each_single_file_comes_back_byte_for_byte() {
    each(|name, preset, files, _| {
        let single = files.iter().filter(|(file, bytes)| file.ends_with(".bin") && !bytes.is_empty());
        let mut seen = 0;
        for (file, bytes) in single {
            let base = file.rsplit('/').next().unwrap();
            let alone = Files::from([(base.to_owned(), bytes.clone())]);
            let (contents, values) = read(base, &alone, &[("arch", preset)])
                .unwrap_or_else(|error| panic!("{name}/{file}: {error}"));
            let written = write(&contents.checkpoint, &values, base, &[]);
            assert!(
                written.unwrap_or_else(|error| panic!("{name}/{file}: {error}")) == alone,
                "{name}: {file} differs"
            );
            seen += 1;
        }
        assert!(seen >= 4, "{name}");
    });
}

#[test]
fn an_empty_quantised_bin_is_refused_with_its_cause() {
    let Some(folder) = folder() else { return };
    let empty = Files::from([(
        "quantised.bin".to_owned(),
        std::fs::read(folder.join("simple_failquant/quantised.bin")).unwrap(),
    )]);
    assert!(empty["quantised.bin"].is_empty());
    let error = read("quantised.bin", &empty, &[("arch", "simple:768x32x1")]).unwrap_err().to_string();
    assert!(error.contains("could not quantize") && error.contains("0 bytes"), "{error}");
}

#[test]
fn sections_match_an_independent_description() {
    let mut seen = 0;
    let Some(folder) = folder() else { return };
    for (name, preset) in CASES {
        let Some(described) = description(&folder, name) else { continue };
        let all = files(&folder.join(name));
        for (file, prefix) in [("raw.bin", "raw"), ("quantised.bin", "quantised")] {
            let alone = Files::from([(file.to_owned(), all[file].clone())]);
            let (contents, _) = read(file, &alone, &[("arch", preset)]).unwrap();
            let sections = described["sections"].as_array().unwrap();
            assert_eq!(contents.placements.len(), sections.len(), "{name}");
            for (placement, section) in contents.placements.iter().zip(sections) {
                assert_eq!(placement.name, section["id"].as_str().unwrap(), "{name}");
                let extent = &placement.extents[0];
                assert_eq!(extent.offset, section[format!("{prefix}_offset")].as_u64().unwrap(), "{name}");
                assert_eq!(extent.len, section[format!("{prefix}_bytes")].as_u64().unwrap(), "{name}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 2 * (4 * 4 + 8));
}

/// A forward pass over logical tensors in 32-bit floats, which sums in bullet's order.
struct Net<'a> {
    contents: &'a Contents,
    values: &'a [Vec<u8>],
}

/// The order in which bullet's compiled graph sums the products of the layer after the accumulators.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    /// All products, then the bias.
    Whole,
    /// The products of each perspective, the sum of both, then the bias.
    Halves,
    /// The products of the first perspective, the bias, the products of the second.
    BiasBetween,
}

impl Net<'_> {
    fn numbers(&self, name: &str) -> Vec<f32> {
        numbers(self.contents, self.values, name)
    }

    /// The bias plus the columns of `l0w`, to each of which `l0f` is added; axes are [bucket,] out, feature.
    fn accumulator(&self, features: &[u64]) -> Vec<f32> {
        let (_, tensor) = self.contents.checkpoint.tensor("l0w").unwrap();
        let (size, per) = (
            tensor.shape[tensor.axis(Axis::Out).unwrap()],
            tensor.shape[tensor.axis(Axis::Feature).unwrap()],
        );
        let weights = self.numbers("l0w");
        let shared = self.contents.checkpoint.tensor("l0f").map(|_| self.numbers("l0f"));
        let at = |table: &[f32], bucket: u64, out: u64, feature: u64| {
            table[((bucket * size + out) * per + feature) as usize]
        };
        let bias = self.numbers("l0b");
        let neuron = |out: u64| {
            features.iter().fold(bias[out as usize], |sum, feature| {
                let own = at(&weights, feature / per, out, feature % per);
                sum + shared.as_ref().map_or(own, |shared| own + at(shared, 0, out, feature % per))
            })
        };
        (0..size).map(neuron).collect()
    }

    /// Layer `index`, whose weight has the axes [bucket,] out, in.
    fn affine(&self, index: usize, bucket: usize, input: &[f32], order: Sum) -> Vec<f32> {
        let (_, bias) = self.contents.checkpoint.tensor(&format!("l{index}b")).unwrap();
        let size = bias.shape[bias.axis(Axis::Out).unwrap()] as usize;
        let (weights, biases) = (self.numbers(&format!("l{index}w")), self.numbers(&format!("l{index}b")));
        let dot = |row: &[f32], input: &[f32]| row.iter().zip(input).fold(0.0, |sum, (w, x)| sum + w * x);
        let neuron = |out: usize| {
            let row = &weights[(bucket * size + out) * input.len()..][..input.len()];
            let bias = biases[bucket * size + out];
            let ((row1, row2), (input1, input2)) =
                (row.split_at(row.len() / 2), input.split_at(row.len() / 2));
            match order {
                Sum::Whole => dot(row, input) + bias,
                Sum::Halves => (dot(row1, input1) + dot(row2, input2)) + bias,
                Sum::BiasBetween => (dot(row1, input1) + bias) + dot(row2, input2),
            }
        };
        (0..size).map(neuron).collect()
    }
}

fn crelu(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| value.clamp(0.0, 1.0)).collect()
}

fn screlu(values: Vec<f32>) -> Vec<f32> {
    crelu(values).into_iter().map(|value| value * value).collect()
}

fn pairwise(values: &[f32]) -> Vec<f32> {
    let (first, second) = values.split_at(values.len() / 2);
    first.iter().zip(second).map(|(a, b)| a * b).collect()
}

/// The same operations in the same order give the same bits.
#[test]
fn positions_evaluate_to_the_same_bits_as_in_bullet() {
    let Some(folder) = folder() else { return };
    let mut seen = 0;
    for (name, preset) in CASES {
        let Some(described) = description(&folder, name) else { continue };
        let (contents, values) = read("", &files(&folder.join(name)), &[("arch", preset)]).unwrap();
        assert!(contents.checkpoint.graph.is_some(), "{name}");
        let net = Net { contents: &contents, values: &values };
        let order = match name {
            "simple" => Sum::BiasBetween,
            "buckets8" | "tb_buckets8_notranspose" => Sum::Halves,
            _ => Sum::Whole,
        };
        for position in described["positions"].as_array().unwrap() {
            let features = |key: &str| -> Vec<u64> {
                position[key].as_array().unwrap().iter().map(|feature| feature.as_u64().unwrap()).collect()
            };
            let bucket = position["bucket"].as_u64().unwrap() as usize;
            let sides = ["stm_features", "nstm_features"].map(|key| net.accumulator(&features(key)));
            let output = if name == "multi" {
                let hidden: Vec<f32> = sides.into_iter().flat_map(|side| pairwise(&crelu(side))).collect();
                let hidden = screlu(net.affine(1, bucket, &hidden, order));
                let hidden = screlu(net.affine(2, bucket, &hidden, order));
                net.affine(3, bucket, &hidden, order)[0]
            } else {
                let hidden: Vec<f32> = sides.into_iter().flat_map(screlu).collect();
                net.affine(1, bucket, &hidden, order)[0]
            };
            let expected = position["raw_output_bits"][0].as_u64().unwrap();
            assert_eq!(u64::from(output.to_bits()), expected, "{name}: {output}, {}", position["raw_output"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 60);
}

/// Integer inference as in bullet's example engine: i32, truncating.
fn integer_evaluation(net: &[Vec<i32>; 4], scales: [i32; 2], sides: [Vec<usize>; 2], bucket: usize) -> i32 {
    let [l0w, l0b, l1w, l1b] = net;
    let ([qa, qb], size, features) = (scales, l0b.len(), l0w.len() / l0b.len());
    let neuron = |side: &[usize], out: usize| {
        let sum = l0b[out] + side.iter().map(|feature| l0w[out * features + feature]).sum::<i32>();
        sum.clamp(0, qa).pow(2)
    };
    let hidden = sides.iter().flat_map(|side| (0..size).map(move |out| neuron(side, out)));
    let weights = &l1w[bucket * 2 * size..][..2 * size];
    let sum: i32 = hidden.zip(weights).map(|(x, w)| x * w).sum();
    (sum / qa + l1b[bucket]) * 400 / (qa * qb)
}

#[test]
fn positions_evaluate_in_integers_as_in_bullets_example_engine() {
    let Some(folder) = folder() else { return };
    let mut seen = 0;
    for (name, preset) in CASES {
        let Some(described) = description(&folder, name) else { continue };
        let file =
            Files::from([("quantised.bin".to_owned(), files(&folder.join(name))["quantised.bin"].clone())]);
        let options = [("arch", preset), ("integers", "true")];
        let (contents, values) = read("quantised.bin", &file, &options).unwrap();
        let tensor = |name: &str| {
            let (id, tensor) = contents.checkpoint.tensor(name).unwrap();
            let integers =
                values[id.0].as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes).into());
            (integers.collect::<Vec<i32>>(), tensor.scale().map_or(1, |scale| scale.get().cast_signed()))
        };
        for position in described["positions"].as_array().unwrap() {
            let Some(expected) = position.get("example_integer_eval").and_then(Value::as_i64) else {
                continue;
            };
            let ids = ["l0w", "l0b", "l1w", "l1b"].map(tensor);
            let sides = ["stm_features", "nstm_features"].map(|key| {
                let features = position[key].as_array().unwrap().iter();
                features.map(|feature| feature.as_u64().unwrap() as usize).collect()
            });
            let scales = [ids[0].1, ids[2].1];
            let bucket = position["bucket"].as_u64().unwrap() as usize;
            let found = integer_evaluation(&ids.map(|(integers, _)| integers), scales, sides, bucket);
            assert_eq!(i64::from(found), expected, "{name}: {}", position["fen"]);
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen}");
}
