//! The conformance kit, on one sample of each kind of file.

use crate::build::{self, Files, PRESET, directory, one, within};
use ckpt_api::DType;
use ckpt_bullet::Bullet;
use ckpt_conformance::{Sample, check};

const ARCH: (&str, &str) = ("arch", PRESET);

fn sample(name: &'static str, entry: &str, files: Files, read: &[(&str, &str)]) -> Sample {
    let sample = Sample::new(name, entry, files);
    read.iter().fold(sample, |sample, (key, value)| sample.reading(key, value))
}

/// The tensors of [`build::net`] under these names, in logical order, with every number as `stored` has it.
fn with_net(sample: Sample, prefix: &str, stored: impl Fn(f32, f32) -> f32) -> Sample {
    NET.iter().fold(sample, |sample, (name, shape, scale, values)| {
        let values: Vec<f32> = values.iter().map(|value| stored(*value, *scale)).collect();
        sample.floats(&format!("{prefix}{name}"), shape, &values)
    })
}

/// Name, shape, units per 1.0 in quantised.bin, numbers: `[out, in]`, `[out]`, `[bucket, out, in]`, `[bucket, out]`.
type Weight = (&'static str, &'static [u64], f32, &'static [f32]);
const NET: [Weight; 4] = [
    ("l0w", &[2, 3], 255.0, &[0.5, 0.1, 0.7, -0.25, -0.1, 1.3]),
    ("l0b", &[2], 255.0, &[0.01, -0.02]),
    ("l1w", &[2, 1, 4], 64.0, &[0.9, 0.3, 0.6, -0.6, -0.9, -0.3, 0.2, -0.2]),
    ("l1b", &[2, 1], 16320.0, &[0.001, -0.002]),
];

/// Weights, and what AdamW keeps for each.
fn trained(sample: Sample) -> Sample {
    let sample = with_net(sample, "", |value, _| value);
    let sample = with_net(sample, "momentum/", |value, _| value * 0.5);
    let sample = with_net(sample, "velocity/", |value, _| value * 0.25);
    sample.ignoring("raw.bin", .., "it has the values of the weights; the option 'check' compares them")
}

fn rounded(value: f32, scale: f32) -> f32 {
    ((f64::from(scale) * f64::from(value)).round() / f64::from(scale)) as f32
}

/// A quantised.bin read as integers.
fn with_integers(sample: Sample) -> Sample {
    NET.iter().fold(sample, |sample, (name, shape, scale, values)| {
        let integer = |value: &f32| (f64::from(*scale) * f64::from(*value)).round() as i16;
        let values: Vec<u8> = values.iter().flat_map(|value| integer(value).to_le_bytes()).collect();
        sample.tensor(name, DType::I16, shape, values)
    })
}

#[test]
fn the_codec_keeps_the_contract() {
    // The kit expects an error from a file that is cut to nothing, but an empty quantised.bin beside weights is valid.
    let mut whole = directory();
    whole.remove("quantised.bin");
    let mut radam = whole.clone();
    radam.insert("optimiser_state/step.txt".into(), b"l0b,7\nl0w,7\nl1w,7\nl1b,8\n".to_vec());
    let mut ranger = whole.clone();
    ranger.insert("optimiser_state/slow.bin".into(), build::records(&build::times(&build::net(), 2.0)));
    let state = |write, weights| within("optimiser_state/", build::state(write, weights));
    let raw = one("raw.bin", build::headerless(&build::net()));
    let integers = one("quantised.bin", build::quantized(b"bullet"));
    let plain = [("profile", "plain"), ("content", "engine")];
    let (read, values) = build::read("", &directory(), &[ARCH]).unwrap();
    let made = build::write(&read.checkpoint, &values, "quantised.bin", &plain).unwrap();
    let records = |name: &'static str, prefix| {
        with_net(sample(name, name, one(name, build::records(&build::net())), &[ARCH]), prefix, |value, _| {
            value
        })
    };
    let samples = [
        sample("an engine's", "quantised.bin", made, &[&[ARCH][..], &plain].concat())
            .unknown_values("the codec made the file: tests/engine.rs compares it with loops")
            .writing("content", "engine")
            .headerless(),
        trained(sample("AdamW", "", whole, &[ARCH])),
        trained(sample("RAdam", "", radam, &[ARCH, ("optimiser", "radam")])),
        with_net(
            trained(sample("Ranger", "", ranger, &[ARCH, ("optimiser", "ranger")])),
            "slow/",
            |value, _| value * 2.0,
        ),
        trained(sample("rows and columns", "", state(build::old_records, "weights.bin"), &[ARCH])),
        with_net(sample("quantised.bin", "quantised.bin", integers.clone(), &[ARCH]), "", rounded),
        with_integers(sample("integers", "quantised.bin", integers, &[ARCH, ("integers", "true")])),
        records("weights.bin", ""),
        records("momentum.bin", "momentum/"),
        with_net(sample("raw.bin", "raw.bin", raw, &[ARCH]), "", |value, _| value).headerless(),
        trained(sample("before 2024-10", "", state(build::headerless, "params.bin"), &[ARCH])).headerless(),
    ];
    check(&Bullet, &samples);
}
