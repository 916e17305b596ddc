//! The conformance kit, on one sample of each kind of file.

use crate::build::{self, Files, PRESET, directory, one, within};
use ckpt_api::conformance::{Sample, check};
use ckpt_bullet::Bullet;

fn sample(name: &'static str, entry: &str, files: Files, read: &[(&str, &str)]) -> Sample {
    let mut sample = Sample::new(name, entry, files);
    sample.read = read.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    sample
}

#[test]
fn the_codec_keeps_the_contract() {
    let arch = ("arch", PRESET);
    // The kit expects an error from a file that is cut to nothing, but an empty quantised.bin beside weights is valid.
    let mut whole = directory();
    whole.remove("quantised.bin");
    let mut radam = whole.clone();
    radam.insert("optimiser_state/step.txt".into(), b"l0b,7\nl0w,7\nl1w,7\nl1b,8\n".to_vec());
    let mut ranger = whole.clone();
    ranger.insert("optimiser_state/slow.bin".into(), build::records(&build::times(&build::net(), 2.0)));
    let state = |write, weights| within("optimiser_state/", build::state(write, weights));
    let raw = one("raw.bin", build::headerless(&build::net()));
    let mut headerless = sample("raw.bin", "raw.bin", raw, &[arch]);
    headerless.headerless = true;
    let mut params = sample("before 2024-10", "", state(build::headerless, "params.bin"), &[arch]);
    params.headerless = true;
    let plain = [("profile", "plain"), ("content", "engine")];
    let (read, values) = build::read("", &directory(), &[arch]).unwrap();
    let made = build::write(&read.checkpoint, &values, "quantised.bin", &plain).unwrap();
    let mut engine = sample("an engine's", "quantised.bin", made, &[&[arch][..], &plain].concat());
    engine.headerless = true;
    engine.write = vec![("content".to_owned(), "engine".to_owned())];
    let samples = [
        engine,
        sample("AdamW", "", whole, &[arch]),
        sample("RAdam", "", radam, &[arch, ("optimiser", "radam")]),
        sample("Ranger", "", ranger, &[arch, ("optimiser", "ranger")]),
        sample("rows and columns", "", state(build::old_records, "weights.bin"), &[arch]),
        sample("quantised.bin", "quantised.bin", one("quantised.bin", build::quantized(b"bullet")), &[arch]),
        sample(
            "integers",
            "quantised.bin",
            one("quantised.bin", build::quantized(b"bullet")),
            &[arch, ("integers", "true")],
        ),
        sample("weights.bin", "weights.bin", one("weights.bin", build::records(&build::net())), &[arch]),
        sample("momentum.bin", "momentum.bin", one("momentum.bin", build::records(&build::net())), &[arch]),
        headerless,
        params,
    ];
    check(&Bullet, &samples);
}
