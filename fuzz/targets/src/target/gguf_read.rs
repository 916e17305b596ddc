//! GGUF files, with and without `lenient`, alone and as the first of a set whose second file has the same bytes.

use crate::{check, inputs};
use ckpt_api::Input;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_gguf::Gguf;
    let (strict, lenient) = (check::options(codec, &[]), check::options(codec, &[("lenient", "true")]));
    check::read(codec, &inputs::single("m.gguf", data), &strict);
    check::read(codec, &inputs::single("m.gguf", data), &lenient);
    let names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
    let files = names.map(|name| (name.to_owned(), data.to_vec())).into();
    check::read(codec, &Input::memory(names[0], files), &strict);
}
