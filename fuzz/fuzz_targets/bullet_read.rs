//! bullet's files, with and without an architecture; the whole input as a preset, too.
#![no_main]

const ARCH: (&str, &str) = ("arch", "simple:3x2x1,buckets=2");
/// A factoriser in the first columns.
const COLUMNS: (&str, &str) = ("arch", "builder:2x1x1,inputs=2,factoriser=true,psqt=true");

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_bullet::Bullet;
    for (name, options) in [
        ("weights.bin", &[][..]),
        ("weights.bin", &[ARCH]),
        ("momentum.bin", &[ARCH]),
        ("raw.bin", &[ARCH]),
        ("quantised.bin", &[ARCH]),
        ("quantised.bin", &[ARCH, ("integers", "true")]),
        ("net.nnue", &[ARCH, ("profile", "plain"), ("content", "engine")]),
        ("weights.bin", &[COLUMNS]),
        ("quantised.bin", &[COLUMNS]),
    ] {
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &ckpt_fuzz::options(codec, options));
    }
    let Ok(preset) = std::str::from_utf8(data) else { return };
    let input = ckpt_fuzz::single("raw.bin", &[0; 72]);
    ckpt_fuzz::read(codec, &input, &ckpt_fuzz::options(codec, &[("arch", preset)]));
});
