//! Checkpoints of bullet's of several files, by their directory or one of them, with any options.
#![no_main]

use ckpt_fuzz::files::Case;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_bullet::Bullet;
    let Some(case) = Case::parse(data) else { return };
    let Some(options) = case.options(codec) else { return };
    ckpt_fuzz::read(codec, &case.input(), &options);
});
