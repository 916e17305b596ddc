//! Packages of Core ML with any files.

use crate::check;
use crate::files::Case;

pub(super) fn fuzz(data: &[u8]) {
    let codec = &ckpt_coreml::CoreMl;
    let Some(case) = Case::parse(data) else { return };
    let Some(options) = case.options(codec) else { return };
    check::read(codec, &case.input(), &options);
}
