//! NumPy archives and arrays, with and without `lenient`, and with checksums as they must be.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let codec = &ckpt_npz::Npz;
    let lenient = [("lenient".to_owned(), "true".to_owned())];
    for name in ["m.npz", "m.npy"] {
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &[]);
        ckpt_fuzz::read(codec, &ckpt_fuzz::single(name, data), &lenient);
    }
    // Whatever the bytes are, as the data of a member.
    ckpt_fuzz::read(codec, &ckpt_fuzz::single("m.npz", &ckpt_fuzz::archive(data)), &lenient);
});
