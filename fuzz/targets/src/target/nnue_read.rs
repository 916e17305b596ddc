//! Networks of Stockfish, with compressed arrays as values and as bytes.

use crate::{check, inputs};

pub(super) fn fuzz(data: &[u8]) {
    let input = inputs::single("n.nnue", data);
    let codec = &ckpt_nnue::Nnue;
    for options in [&[][..], &[("leb128", "bytes")], &[("weights", "numbers"), ("layers", "8,32")]] {
        check::read(codec, &input, &check::options(codec, options));
    }
}
