//! bullet's files, with and without an architecture; the whole input as an architecture file, too.
#![no_main]

const ARCH: &str = "simple:3x2x1,buckets=2";
/// A factoriser in the first columns.
const COLUMNS: &str = "builder:2x1x1,inputs=2,factoriser=true,psqt=true";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    for (name, options) in [
        ("weights.bin", &[][..]),
        ("weights.bin", &[("arch", ARCH)]),
        ("momentum.bin", &[("arch", ARCH)]),
        ("raw.bin", &[("arch", ARCH)]),
        ("quantised.bin", &[("arch", ARCH)]),
        ("quantised.bin", &[("arch", ARCH), ("integers", "true")]),
        ("net.nnue", &[("arch", ARCH), ("profile", "plain"), ("content", "engine")]),
        ("weights.bin", &[("arch", COLUMNS)]),
        ("quantised.bin", &[("arch", COLUMNS)]),
    ] {
        let input = ckpt_fuzz::single(name, data);
        ckpt_fuzz::read(&ckpt_bullet::Bullet, &input, &pairs(options));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(file) = ckpt_api::ArchitectureFile::from_json(text) {
        let _ = ckpt_bullet::check_architecture(&file);
    }
    let input = ckpt_fuzz::single("raw.bin", &[0; 72]);
    ckpt_fuzz::read(&ckpt_bullet::Bullet, &input, &pairs(&[("arch", text)]));
});
