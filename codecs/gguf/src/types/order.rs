//! Which tensors llama.cpp's quantizer changes, in which order it writes them, and what it stores if rows fill no blocks.

use crate::blocks::BlockType::{self, IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS};
use crate::blocks::BlockType::{Q2_K, Q3_K, Q4_0, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0, TQ1_0, TQ2_0};
use ckpt_api::Shape;
use std::cmp::Ordering;

/// Parts of names of matrices that keep their type.
const KEPT: [&str; 35] = [
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// Names of matrices that keep their type.
const KEPT_NAMES: [&str; 2] = ["position_embd.weight", "token_types.weight"];

/// Whether llama.cpp's quantizer changes the type of a tensor. Its shape is row-major.
pub(crate) fn is_quantized(name: &str, shape: &Shape) -> bool {
    let axes = shape.iter().skip_while(|len| **len == 1).count();
    let is_kept = KEPT_NAMES.contains(&name) || KEPT.iter().any(|part| name.contains(part));
    axes >= 2 && name.ends_with("weight") && !is_kept
}

/// Returns the number of the layer that a name begins with: `blk.7.attn_q.weight`.
pub(crate) fn layer(name: &str) -> Option<i64> {
    let rest = name.strip_prefix("blk.")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    digits.parse().ok()
}

/// Compares names in the order of llama.cpp's quantizer: those without a layer first, then by layer, then by their bytes.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}

/// Returns a type of smaller blocks, for rows that do not fill those of a type. `None` if its blocks are small.
pub(crate) const fn smaller(block_type: BlockType) -> Option<BlockType> {
    match block_type {
        IQ1_S | IQ1_M | IQ2_XXS | IQ2_XS | IQ2_S | IQ3_XXS | IQ3_S | IQ4_XS => Some(IQ4_NL),
        Q2_K | Q3_K | TQ1_0 | TQ2_0 => Some(Q4_0),
        Q4_K => Some(Q5_0),
        Q5_K => Some(Q5_1),
        Q6_K => Some(Q8_0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_norms_and_small_matrices_keep_their_type() {
        let is = |name: &str, lens: &[u64]| is_quantized(name, &Shape::new(lens).unwrap());
        assert!(is("blk.0.attn_q.weight", &[4, 4]) && is("blk.0.ffn_up_exps.weight", &[2, 4, 4]));
        assert!(!is("blk.0.attn_q.weight", &[1, 4]) && !is("blk.0.attn_q.weight", &[4]));
        for name in ["blk.0.attn_q_norm.weight", "blk.0.ffn_gate_inp.weight", "ssm_a", "position_embd.weight"]
        {
            assert!(!is(name, &[4, 4]), "{name}");
        }
    }

    #[test]
    fn names_without_a_layer_come_first_and_layers_in_the_order_of_their_numbers() {
        let mut names = ["blk.10.a", "blk.9.b", "blk.9.a", "token_embd", "blk.x", "output"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["blk.x", "output", "token_embd", "blk.9.a", "blk.9.b", "blk.10.a"]);
    }

    #[test]
    fn every_type_of_large_blocks_that_is_written_has_one_of_smaller_blocks() {
        for own in BlockType::ALL.iter().filter(|own| own.is_encodable()) {
            assert_eq!(smaller(*own).is_some(), own.elements() == 256, "{}", own.name());
            assert!(smaller(*own).is_none_or(|smaller| smaller.elements() == 32 && smaller.is_encodable()));
        }
    }
}
