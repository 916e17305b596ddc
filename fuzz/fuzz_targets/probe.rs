//! Every codec is asked about every input, under names that make each of them look closer.
#![no_main]

const NAMES: [&str; 7] =
    ["x", "x.bin", "x.nn", "x.safetensors", "x.safetensors.index.json", "x.index", "checkpoint"];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codecs: [&dyn ckpt_api::Codec; 4] =
        [&ckpt_cnn2::Cnn2, &ckpt_nn::Nn, &ckpt_safetensors::Safetensors, &ckpt_tf2::Tf2];
    for name in NAMES {
        let input = ckpt_fuzz::single(name, data);
        let certain = codecs.iter().filter(|codec| {
            let verdict = codec.probe(&input).expect("memory can always be read");
            matches!(verdict, ckpt_api::Match::Certain(_))
        });
        assert!(certain.count() <= 1, "two codecs are certain of the same input");
    }
});
