//! llama.cpp's mixes: most tensors of a file have one type, and some get one of more bits.
//!
//! The rules are those of `llama-quantize`. They go by the name of a tensor, by the number of its layer, and by what the keys
//! of the model state.

use super::order;
use crate::blocks::BlockType::{
    self, IQ3_S, IQ4_NL, IQ4_XS, MXFP4, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_0, TQ1_0, TQ2_0,
};
use ckpt_api::{Error, MetadataMap, MetadataValue, Result, Setting, Shape, text};

/// A mix, by its name in llama.cpp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names are those of llama.cpp")]
pub(crate) enum Mix {
    Q2_K,
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    IQ3_S,
    IQ3_M,
    TQ1_0,
    TQ2_0,
    MXFP4_MOE,
}

impl Mix {
    /// Returns the type of most tensors.
    pub(crate) const fn base(self) -> BlockType {
        match self {
            Mix::Q2_K => Q2_K,
            Mix::Q3_K_S | Mix::Q3_K_M | Mix::Q3_K_L => Q3_K,
            Mix::Q4_K_S | Mix::Q4_K_M => Q4_K,
            Mix::Q5_K_S | Mix::Q5_K_M => Q5_K,
            Mix::Q6_K => Q6_K,
            Mix::IQ4_NL => IQ4_NL,
            Mix::IQ4_XS => IQ4_XS,
            Mix::IQ3_S | Mix::IQ3_M => IQ3_S,
            Mix::TQ1_0 => TQ1_0,
            Mix::TQ2_0 => TQ2_0,
            Mix::MXFP4_MOE => MXFP4,
        }
    }
}

/// What a tensor is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Category {
    Output,
    Embedding,
    /// Values, alone or with others.
    AttentionV,
    AttentionK,
    AttentionOutput,
    Down,
    Other,
}

impl Category {
    fn of(name: &str) -> Self {
        let has = |part: &str| name.contains(part);
        match name {
            "output.weight" => Category::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Category::Embedding,
            _ if has("attn_qkv.weight") || has("attn_kv_b.weight") || has("attn_v.weight") => {
                Category::AttentionV
            }
            _ if has("attn_k.weight") => Category::AttentionK,
            _ if has("attn_q.weight") => Category::Other,
            _ if has("attn_output.weight") => Category::AttentionOutput,
            _ if has("ffn_up") || has("ffn_gate") => Category::Other,
            _ if has("ffn_down") => Category::Down,
            _ => Category::Other,
        }
    }
}

/// Chooses the types of tensors, which come in llama.cpp's order.
pub(crate) struct Chooser<'a> {
    mix: Mix,
    model: Model<'a>,
    /// Whether the embeddings are the output's weights, too.
    is_tied: bool,
    experts: u64,
    /// The number of tensors of values, and how many of them came already.
    values: u64,
    values_before: u64,
    /// How many tensors came that lead down from a feed-forward layer.
    downs_before: u64,
}

impl<'a> Chooser<'a> {
    /// For tensors of these names, in a model of these keys.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a number of experts that is none.
    pub(crate) fn new<'n>(
        mix: Mix,
        pairs: &'a MetadataMap,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<Self> {
        let model = Model::new(pairs);
        let count = |category| names.clone().filter(|name| Category::of(name) == category).count() as u64;
        Ok(Chooser {
            mix,
            is_tied: count(Category::Output) == 0,
            experts: model.number("expert_count")?.unwrap_or_default(),
            model,
            values: count(Category::AttentionV),
            values_before: 0,
            downs_before: 0,
        })
    }

    /// Returns the type of a tensor of whole rows. Its shape is row-major.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if the model lacks a key that the mix needs.
    pub(crate) fn choose(&mut self, name: &str, shape: &Shape) -> Result<BlockType> {
        let base = self.mix.base();
        let category = Category::of(name);
        if category == Category::Output || (category == Category::Embedding && self.is_tied) {
            let row = shape.last().copied().unwrap_or(1);
            let is_short = !row.is_multiple_of(base.elements().into());
            let is_whole = self.mix == Mix::MXFP4_MOE || self.model.is_falcon() || is_short;
            return Ok(if is_whole { Q8_0 } else { Q6_K });
        }
        if self.mix == Mix::MXFP4_MOE {
            let is_stack = shape.rank() > 2 && shape[shape.rank() - 3] > 1;
            return Ok(if is_stack { MXFP4 } else { Q8_0 });
        }
        match category {
            Category::Embedding if matches!(self.mix, Mix::TQ1_0 | Mix::TQ2_0) => Ok(Q4_K),
            Category::AttentionV => self.value(),
            Category::AttentionK if self.experts == 8 => Ok(Q8_0),
            Category::AttentionOutput => Ok(self.attention_output()),
            Category::Down => self.down(name),
            _ => Ok(base),
        }
    }

    fn value(&mut self) -> Result<BlockType> {
        let number = self.values_before;
        self.values_before += 1;
        let base = self.mix.base();
        let own = match self.mix {
            Mix::Q2_K if self.model.heads_share_values()? => Q4_K,
            Mix::Q2_K => Q3_K,
            Mix::IQ3_S if self.model.heads_share_values()? => Q4_K,
            Mix::IQ3_M => Q4_K,
            Mix::Q3_K_M if number < 2 => Q5_K,
            Mix::Q3_K_M => Q4_K,
            Mix::Q3_K_L => Q5_K,
            Mix::IQ4_NL | Mix::IQ4_XS if self.model.heads_share_values()? => Q5_K,
            Mix::Q4_K_M | Mix::Q5_K_M if gets_more(number, self.values) => Q6_K,
            Mix::Q4_K_S if number < 4 => Q5_K,
            _ => base,
        };
        let is_large = matches!(own, Q3_K | Q4_K) && self.model.is_70b()?;
        Ok(match (self.experts, is_large) {
            (8, _) => Q8_0,
            (_, true) => Q5_K,
            _ => own,
        })
    }

    fn attention_output(&self) -> BlockType {
        match (self.mix, self.model.is_falcon(), self.experts) {
            (Mix::Q3_K_L, true, _) => Q4_K,
            (_, true, _) => self.mix.base(),
            (
                Mix::Q2_K
                | Mix::Q3_K_S
                | Mix::Q3_K_M
                | Mix::Q4_K_S
                | Mix::Q4_K_M
                | Mix::IQ4_NL
                | Mix::IQ4_XS
                | Mix::IQ3_S
                | Mix::IQ3_M,
                _,
                8,
            ) => Q5_K,
            (_, _, 8) => self.mix.base(),
            (Mix::Q2_K, ..) => Q3_K,
            (Mix::Q3_K_M | Mix::IQ3_M, ..) => Q4_K,
            (Mix::Q3_K_L, ..) => Q5_K,
            _ => self.mix.base(),
        }
    }

    fn down(&mut self, name: &str) -> Result<BlockType> {
        let before = self.downs_before;
        self.downs_before += 1;
        let base = self.mix.base();
        if matches!(self.mix, Mix::Q3_K_S | Mix::Q5_K_S | Mix::Q6_K | Mix::IQ3_S | Mix::TQ1_0 | Mix::TQ2_0) {
            return Ok(base);
        }
        let is_falcon = self.model.is_falcon();
        match self.mix {
            Mix::Q2_K => return Ok(Q3_K),
            Mix::Q3_K_L => return Ok(if is_falcon { Q4_K } else { Q5_K }),
            _ => {}
        }
        let layers = self.model.needed("block_count")?;
        // Shared experts and those of the layer itself come one after the other: their number is in the name.
        let layer = if self.experts > 1 { self.layer(name, layers)? } else { before };
        let gets_more = gets_more(layer, layers);
        Ok(match self.mix {
            Mix::Q3_K_M if layer < layers / 16 => Q5_K,
            Mix::Q3_K_M if is_falcon && !gets_more => Q3_K,
            Mix::Q3_K_M => Q4_K,
            Mix::IQ3_M if layer < layers / 8 || (self.experts == 8 && gets_more) => Q4_K,
            Mix::Q4_K_M if is_falcon && layer < layers / 16 => Q6_K,
            Mix::Q4_K_M if is_falcon => {
                if gets_more {
                    Q5_K
                } else {
                    Q4_K
                }
            }
            Mix::Q4_K_M | Mix::Q5_K_M if gets_more => Q6_K,
            Mix::IQ4_NL | Mix::IQ4_XS if layer < layers / 8 => Q5_K,
            Mix::Q4_K_S if !is_falcon && layer < layers / 8 => Q5_K,
            _ => base,
        })
    }

    fn layer(&self, name: &str, layers: u64) -> Result<u64> {
        order::layer(name)
            .and_then(|layer| u64::try_from(layer).ok())
            .filter(|layer| *layer < layers)
            .ok_or_else(|| {
                Error::usage("the name of an expert does not state its layer")
                    .tensor(name)
                    .expected(format!("blk.N., with N from 0 to {}", layers.saturating_sub(1)))
                    .help("give the tensors GGUF's names with a mapping")
            })
    }
}

/// Whether a layer is among those that a mix stores with more bits: the first and the last eighth, and every third between.
fn gets_more(layer: u64, layers: u64) -> bool {
    let first = layers / 8;
    layer < first || layer >= layers.saturating_mul(7) / 8 || (layer - first) % 3 == 2
}

/// What the keys state of a model.
struct Model<'a> {
    pairs: &'a MetadataMap,
    architecture: &'a str,
}

/// Architectures whose largest models share values among heads, and the number of layers by which llama.cpp knows them.
const LARGE: [(&str, u64); 5] = [("llama", 80), ("qwen2", 80), ("deci", 80), ("olmo", 80), ("jais2", 68)];

impl<'a> Model<'a> {
    fn new(pairs: &'a MetadataMap) -> Self {
        let architecture = pairs.get("general.architecture").and_then(MetadataValue::as_text);
        Model { pairs, architecture: architecture.unwrap_or_default() }
    }

    fn is_falcon(&self) -> bool {
        self.architecture == "falcon"
    }

    /// Returns a number of the model: that of the first layer, if there is one for each.
    fn number(&self, name: &str) -> Result<Option<u64>> {
        let key = format!("{}.{name}", self.architecture);
        let Some(value) = self.pairs.get(&key) else { return Ok(None) };
        let first = value.as_list().map_or(Some(value), <[MetadataValue]>::first);
        let number = first.and_then(|value| value.as_u64().or_else(|| value.as_i64()?.try_into().ok()));
        number.map(Some).ok_or_else(|| {
            Error::usage("a key of the model has another type than llama.cpp reads")
                .field(key)
                .found(value.to_string().chars().take(80).collect::<String>())
                .expected("a number from 0 on")
        })
    }

    fn needed(&self, name: &str) -> Result<u64> {
        self.number(name)?.ok_or_else(|| {
            let prefix = if self.architecture.is_empty() { "ARCHITECTURE" } else { self.architecture };
            Error::usage("the type needs a key of the model that is not there")
                .field(format!("{prefix}.{name}"))
                .expected("general.architecture, and the keys of that architecture")
                .help(text![
                    "give the model's keys with ",
                    Setting::WRITE_OPTION.of("metadata=FILE"),
                    " or ",
                    Setting::WRITE_OPTION.of("like=FILE"),
                ])
        })
    }

    /// Whether four heads or more have the same keys and values, which are small then.
    fn heads_share_values(&self) -> Result<bool> {
        let heads = self.needed("attention.head_count")?;
        let of_values = self.number("attention.head_count_kv")?.unwrap_or(heads);
        Ok(heads.checked_div(of_values).is_some_and(|shared| shared >= 4))
    }

    /// Whether the model is one of those that llama.cpp calls "70B".
    fn is_70b(&self) -> Result<bool> {
        let Some((name, layers)) = LARGE.iter().find(|(name, _)| *name == self.architecture) else {
            return Ok(false);
        };
        if self.needed("block_count")? != *layers {
            return Ok(false);
        }
        let heads = self.number("attention.head_count")?;
        Ok(*name != "llama"
            || self.number("attention.head_count_kv")?.is_some_and(|number| Some(number) != heads))
    }
}

#[cfg(test)]
mod tests;
