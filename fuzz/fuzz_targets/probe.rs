//! Every codec is asked about every input, under names that make each of them look closer.
#![no_main]

const NAMES: [&str; 9] = [
    "x",
    "x.bin",
    "quantised.bin",
    "x.nn",
    "x.npz",
    "x.safetensors",
    "x.safetensors.index.json",
    "x.index",
    "checkpoint",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // bullet's sign is at the end of a file and the others' at its beginning: both can be there.
    if data[data.len().saturating_sub(64)..].windows(6).any(|bytes| bytes == b"bullet") {
        return;
    }
    let codecs: [&dyn ckpt_api::Codec; 6] = [
        &ckpt_bullet::Bullet,
        &ckpt_cnn2::Cnn2,
        &ckpt_nn::Nn,
        &ckpt_npz::Npz,
        &ckpt_safetensors::Safetensors,
        &ckpt_tf2::Tf2,
    ];
    for name in NAMES {
        let input = ckpt_fuzz::single(name, data);
        let certain = codecs.iter().filter(|codec| {
            let verdict = codec.probe(&input).expect("memory can always be read");
            matches!(verdict, ckpt_api::Match::Certain(_))
        });
        assert!(certain.count() <= 1, "two codecs are certain of the same input");
    }
});
