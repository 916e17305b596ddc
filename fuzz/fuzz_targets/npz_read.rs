//! NumPy archives and arrays, with and without `lenient`, and with checksums as they must be.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_npz::Npz;
    let (strict, lenient) =
        (ckpt_fuzz::options(codec, &[]), ckpt_fuzz::options(codec, &[("lenient", "true")]));
    // Under the name of a single array, an archive would be written as one and lose its member's name.
    let names: &[&str] = if data.starts_with(b"PK") { &["m.npz"] } else { &["m.npz", "m.npy"] };
    for name in names {
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &strict);
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &lenient);
    }
    // Whatever the bytes are, as the data of a member.
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.npz", &ckpt_fuzz::archive(data)), &lenient);
});
