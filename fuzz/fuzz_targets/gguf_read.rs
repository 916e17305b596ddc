//! GGUF files, with and without `lenient`, alone and as the first of a set whose second file has the same bytes.
#![no_main]

use ckpt_api::Input;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_gguf::Gguf;
    let (strict, lenient) =
        (ckpt_fuzz::options(codec, &[]), ckpt_fuzz::options(codec, &[("lenient", "true")]));
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.gguf", data), &strict);
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.gguf", data), &lenient);
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    let files = names.map(|name| (name.to_owned(), data.to_vec())).into();
    ckpt_fuzz::read(codec, &Input::memory(names[0], files), &strict);
});
