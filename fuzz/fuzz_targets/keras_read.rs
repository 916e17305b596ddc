//! HDF5 files and archives of Keras, with and without `lenient`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_keras::Keras;
    let (strict, lenient) =
        (ckpt_fuzz::options(codec, &[]), ckpt_fuzz::options(codec, &[("lenient", "true")]));
    for name in ["m.weights.h5", "m.weights.json"] {
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &strict);
    }
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.keras", data), &lenient);
});
