//! bullet's files, with and without an architecture; the whole input as a preset, too.

use crate::{check, inputs};

const ARCH: (&str, &str) = ("arch", "simple:3x2x1,buckets=2");
/// A factoriser in the first columns.
const COLUMNS: (&str, &str) = ("arch", "builder:2x1x1,inputs=2,factoriser=true,psqt=true");

pub(super) fn fuzz(data: &[u8]) {
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
        check::read(codec, &inputs::single(name, data), &check::options(codec, options));
    }
    let Ok(preset) = std::str::from_utf8(data) else { return };
    let input = inputs::single("raw.bin", &[0; 72]);
    check::read(codec, &input, &check::options(codec, &[("arch", preset)]));
}
