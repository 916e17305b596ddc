//! `.nn` files, with and without `lenient`, and as either dialect; what can be read can be read as the other dialect, too,
//! once it is written so.

use crate::{check, inputs};
use ckpt_api::{Codec, Input, Limits};

pub(super) fn fuzz(data: &[u8]) {
    let input = inputs::single("model.nn", data);
    let codec = &ckpt_nn::Nn;
    check::read(codec, &input, &check::options(codec, &[]));
    check::read(codec, &input, &check::options(codec, &[("lenient", "true")]));
    for dialect in ["a", "b"] {
        let options = check::options(codec, &[("lenient", "true"), ("dialect", dialect)]);
        let _ = codec.read(&input, &options, &Limits::default());
    }
    let Ok((contents, values)) = ckpt_conformance::read(codec, &input, &[]) else { return };
    for dialect in ["a", "b"].map(|dialect| [("dialect".to_owned(), dialect.to_owned())]) {
        let Ok(files) = ckpt_conformance::write(codec, &contents.checkpoint, &values, "model.nn", &dialect)
        else {
            continue;
        };
        let written = Input::memory("model.nn", files);
        ckpt_conformance::read(codec, &written, &dialect).expect("what was written can be read");
    }
}
