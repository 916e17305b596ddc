//! Reads the tensors of a model's files.

use super::part::Untagged;
use super::{Files, Part, describe};
use crate::config::Model;
use ckpt_api::{Contents, DType, Error, Limits, Result, Rules};
use std::cell::OnceCell;

/// Reads the tensors of opened files, and what their configuration says of them. Opaque elements whose dataset does not state
/// its dtype have the chosen one, or that of the model's layers.
pub(crate) fn read_files(
    files: &Files,
    chosen: Option<DType>,
    rules: &mut Rules,
    limits: &Limits,
) -> Result<Contents> {
    let mut contents = Contents::default().with_files(files.names.clone());
    let model = OnceCell::new();
    let has_bfloat16 = || {
        let parse = |text: &str| Model::parse(text, files.version.as_deref(), limits).ok();
        *model.get_or_init(|| files.config.as_deref().and_then(parse).is_some_and(|own| own.holds_bfloat16()))
    };
    let untagged = Untagged { chosen, has_bfloat16: &has_bfloat16 };
    for part in &files.parts {
        part.add_to(&mut contents, &untagged, rules).map_err(|error| error.file(&part.shown))?;
    }
    let is_lacking = |part: &Part| !part.tree.left.is_empty() || !part.tree.datasets.is_empty();
    if contents.checkpoint.tensors.is_empty() && files.parts.iter().any(is_lacking) {
        return Err(Error::unsupported("the files have no tensor that can be read"));
    }
    describe::describe(files, &mut contents, limits)?;
    Ok(contents)
}
