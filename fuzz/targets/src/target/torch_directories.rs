//! PyTorch's directories: distributed checkpoints and those of DeepSpeed, with any options.

use crate::check;
use crate::files::Case;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_torch::Torch;
    let Some(case) = Case::parse(data) else { return };
    let Some(options) = case.options(codec) else { return };
    check::read(codec, &case.input(), &options);
}
