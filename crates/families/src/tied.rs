//! The output layer that is the embeddings again: files of PyTorch hold it twice, and models need it once.

use crate::config::Config;
use ckpt_api::Result;
use ckpt_engine::formats::ModelTranslation;
use ckpt_engine::source::{Source, TensorRef};

/// The matrix of the output layer, and the end of the name of the embeddings.
const OUTPUT: &str = "lm_head.weight";
const EMBEDDINGS: &str = "embed_tokens.weight";

/// Leaves out an output layer that repeats the embeddings, if the configuration says that both are one.
///
/// # Errors
/// Whatever keeps two tensors that do not share their bytes from being read and compared.
pub(crate) fn leave_out(source: &Source, config: &Config, translation: &mut ModelTranslation) -> Result<()> {
    if let Some(name) = repeated_output(source, config)? {
        translation.exclude.push(name.to_owned());
        translation
            .notes
            .push(format!("left out: '{name}', which is the embeddings again (tie_word_embeddings)").into());
    }
    Ok(())
}

/// The name of an output layer that repeats the embeddings.
///
/// # Errors
/// Whatever keeps two tensors that do not share their bytes from being read and compared.
fn repeated_output(source: &Source, config: &Config) -> Result<Option<&'static str>> {
    let is_tied = config.first(&["tie_word_embeddings"]).and_then(serde_json::Value::as_bool) == Some(true);
    let Some(output) = source.find(OUTPUT).filter(|_| is_tied) else { return Ok(None) };
    let mut named = source.tensors().filter(|tensor| tensor.name().ends_with(EMBEDDINGS));
    let (Some(embeddings), None) = (named.next(), named.next()) else { return Ok(None) };
    let ties = &source.checkpoint().ties;
    let shares = source.find(embeddings.name()).is_some_and(|id| ties.first_of(id) == ties.first_of(output));
    let repeats = shares || is_equal(&source.tensor(OUTPUT)?, &embeddings)?;
    Ok(repeats.then_some(OUTPUT))
}

/// Whether two tensors have the same dtype, shape and bytes; chunk by chunk.
fn is_equal(a: &TensorRef<'_>, b: &TensorRef<'_>) -> Result<bool> {
    if a.dtype() != b.dtype() || a.shape() != b.shape() || a.opaque_blocks().is_some() {
        return Ok(false);
    }
    let (mut left, mut right) = (a.byte_chunks()?, b.byte_chunks()?);
    // Chunks need not be cut alike.
    let (mut own, mut other) = (Vec::new(), Vec::new());
    loop {
        if own.is_empty() {
            own = left.next().transpose()?.unwrap_or_default();
        }
        if other.is_empty() {
            other = right.next().transpose()?.unwrap_or_default();
        }
        let len = own.len().min(other.len());
        if len == 0 || own[..len] != other[..len] {
            return Ok(own.is_empty() && other.is_empty());
        }
        own.drain(..len);
        other.drain(..len);
    }
}
