//! PyTorch's directories: distributed checkpoints and those of DeepSpeed, with any options.
#![no_main]

use ckpt_fuzz::files::Case;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_torch::Torch;
    let Some(case) = Case::parse(data) else { return };
    let Some(options) = case.options(codec) else { return };
    ckpt_fuzz::read(codec, &case.input(), &options);
});
