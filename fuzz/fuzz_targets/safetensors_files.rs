//! Sets of safetensors files, by their directory, their index or one of them. A file begins with its header, to the last
//! brace: its length is put before it.
#![no_main]

use ckpt_fuzz::files::Case;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(mut case) = Case::parse(data) else { return };
    for (_, file) in case.files.iter_mut().filter(|(name, _)| !name.ends_with("json")) {
        let header = file.iter().rposition(|byte| *byte == b'}').map_or(0, |last| last + 1);
        file.splice(..0, (header as u64).to_le_bytes());
    }
    let codec = &ckpt_safetensors::Safetensors;
    ckpt_fuzz::read(codec, &case.input(), &ckpt_fuzz::options(codec, &[]));
});
