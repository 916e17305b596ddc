//! Whether the keys of a model and the shapes of its tensors agree. llama.cpp refuses a file in which they differ.

use crate::config::Config;
use crate::family::{Family, Key};
use ckpt_api::{Error, MetadataMap, Result, Tensor};
use ckpt_engine::words::printable;

/// The matrix of the embeddings: a row for each token.
const EMBEDDINGS: &str = "token_embd.weight";
/// The list of tokens.
const TOKENS: &str = "tokenizer.ggml.tokens";
/// Lengths along the last axis: what a layer of this name takes in.
const INPUTS: [(&str, &str); 2] =
    [("embedding_length", "attn_q.weight"), ("feed_forward_length", "ffn_down.weight")];
/// Projections of attention, with the keys of the number of their heads and of the length of each.
const HEADS: [(&str, &str, &str); 3] = [
    ("attn_q.weight", HEAD_COUNT, "attention.key_length"),
    ("attn_k.weight", KV_HEAD_COUNT, "attention.key_length"),
    ("attn_v.weight", KV_HEAD_COUNT, "attention.value_length"),
];
const HEAD_COUNT: &str = "attention.head_count";
const KV_HEAD_COUNT: &str = "attention.head_count_kv";
/// Models with this key store heads of another length than they attend with.
const COMPRESSED: &str = "attention.key_length_mla";

/// What keys and tensors are compared of.
pub(crate) struct Agreement<'a> {
    pub(crate) family: &'a Family,
    /// The keys that most architectures have.
    pub(crate) common: &'a [Key],
    pub(crate) config: &'a Config,
    /// The keys of the file.
    pub(crate) pairs: &'a MetadataMap,
    /// The tensors of the file, by their names in GGUF.
    pub(crate) tensors: &'a [Tensor],
}

impl Agreement<'_> {
    /// Compares the lengths that keys state with those of tensors.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for the first two that differ: the file, the key of the configuration, both numbers.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_blocks()?;
        for tensor in self.tensors {
            let (Some(&rows), Some(&columns)) = (tensor.shape.first(), tensor.shape.last()) else { continue };
            let name: &str = &tensor.name;
            if name == EMBEDDINGS {
                self.check_length("embedding_length", columns, tensor)?;
                self.check_tokens(rows, tensor)?;
            }
            let Some(layer) = layer_name(name).filter(|_| tensor.shape.rank() == 2) else { continue };
            for (key, _) in INPUTS.into_iter().filter(|(_, of)| *of == layer) {
                self.check_length(key, columns, tensor)?;
            }
            for (_, count, width) in HEADS.into_iter().filter(|(of, ..)| *of == layer) {
                self.check_heads(count, width, rows, tensor)?;
            }
        }
        Ok(())
    }

    /// The number of blocks is one more than the highest index.
    fn check_blocks(&self) -> Result<()> {
        let blocks = self.tensors.iter().filter_map(|tensor| block(&tensor.name)).max();
        let (Some(last), Some(stated)) = (blocks, self.number("block_count")) else { return Ok(()) };
        let found = last.saturating_add(1);
        if stated == found {
            return Ok(());
        }
        Err(self.differs("block_count", stated, format!("{found}, the number of blocks that have tensors")))
    }

    fn check_length(&self, key: &str, found: u64, tensor: &Tensor) -> Result<()> {
        match self.number(key) {
            Some(stated) if stated != found => {
                let expected =
                    format!("{found}, the last axis of '{}' {}", printable(&tensor.name), tensor.shape);
                Err(self.differs(key, stated, expected))
            }
            _ => Ok(()),
        }
    }

    /// A row of the embeddings for each token.
    fn check_tokens(&self, rows: u64, tensor: &Tensor) -> Result<()> {
        let listed =
            self.pairs.get(TOKENS).and_then(|tokens| tokens.as_list()).map(|tokens| tokens.len() as u64);
        for stated in [self.number("vocab_size"), listed].into_iter().flatten() {
            if stated != rows {
                let expected = format!("{rows}, the rows of '{}' {}", printable(&tensor.name), tensor.shape);
                return Err(self.differs("vocab_size", stated, expected));
            }
        }
        Ok(())
    }

    /// The rows of a projection are its heads, one after the other.
    fn check_heads(&self, count: &str, width: &str, rows: u64, tensor: &Tensor) -> Result<()> {
        let heads = self.number(count).or_else(|| self.number(HEAD_COUNT));
        let Some(heads) = heads.filter(|_| self.number(COMPRESSED).is_none()) else { return Ok(()) };
        let (key, width) = match self.number(width) {
            Some(stated) => (width, Some(stated)),
            None => (count, self.divided()),
        };
        let stated = width.and_then(|width| heads.checked_mul(width));
        if stated.is_none_or(|stated| stated == rows) {
            return Ok(());
        }
        let of = printable(&tensor.name);
        let width = width.unwrap_or_default();
        Err(self
            .contradiction(key)
            .found(format!("{heads} heads of {width}, which are {} rows", stated.unwrap_or_default()))
            .expected(format!("{rows}, the rows of '{of}' {}", tensor.shape)))
    }

    /// The length of a head that no key states.
    fn divided(&self) -> Option<u64> {
        self.number("embedding_length")?.checked_div(self.number(HEAD_COUNT)?)
    }

    /// The number that a key of the architecture states.
    fn number(&self, key: &str) -> Option<u64> {
        self.pairs.get(&format!("{}.{key}", self.family.architecture))?.as_u64()
    }

    fn differs(&self, key: &str, stated: u64, expected: String) -> Error {
        self.contradiction(key).found(stated.to_string()).expected(expected)
    }

    /// The error for a key of the file, under the name that the configuration gives it.
    fn contradiction(&self, key: &str) -> Error {
        let named = self.family.keys.iter().chain(self.common).filter(|known| known.name == key);
        let stated = named.flat_map(|known| &known.config).find(|name| self.config.first(&[name]).is_some());
        Error::mapping("the configuration contradicts the tensors")
            .file(self.config.shown())
            .field(stated.map_or(key, String::as_str))
            .help("the weights and config.json are of different models, or one was edited: take both from one place")
    }
}

/// `attn_q.weight` of `blk.3.attn_q.weight`
fn layer_name(name: &str) -> Option<&str> {
    name.strip_prefix("blk.")?.split_once('.').map(|(_, layer)| layer)
}

/// 3 of `blk.3.attn_q.weight`
fn block(name: &str) -> Option<u64> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}
