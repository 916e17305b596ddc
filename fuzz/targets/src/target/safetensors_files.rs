//! Sets of safetensors files, by their directory, their index or one of them. A file begins with its header, to the last
//! brace: its length is put before it.

use crate::check;
use crate::files::Case;

pub(super) fn fuzz(data: &[u8]) {
    let Some(mut case) = Case::parse(data) else { return };
    for (_, file) in case.files.iter_mut().filter(|(name, _)| !name.ends_with("json")) {
        let header = file.iter().rposition(|byte| *byte == b'}').map_or(0, |last| last + 1);
        file.splice(..0, (header as u64).to_le_bytes());
    }
    let codec = &ckpt_safetensors::Safetensors;
    check::read(codec, &case.input(), &check::options(codec, &[]));
}
