//! The names that programs other than peft give the tensors of a LoRA: those of kohya's scripts, and those of diffusers.

/// What a tensor is for its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    A,
    B,
    EmbeddingA,
    EmbeddingB,
    Magnitudes,
    Bias,
    Alpha,
}

/// A name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<'n> {
    /// Which of several models that are one pipeline, such as `unet`; empty if the name does not say.
    pub(crate) model: &'n str,
    pub(crate) module: String,
    pub(crate) part: Part,
}

/// How kohya's names begin.
const KOHYA: &str = "lora_";
/// What kohya calls the models of a pipeline; a name begins with the first of them that fits.
const KOHYA_MODELS: [&str; 6] =
    ["lora_unet_", "lora_te1_", "lora_te2_", "lora_te3_", "lora_te_", "lora_transformer_"];
/// What diffusers calls them.
const DIFFUSERS_MODELS: [&str; 5] =
    ["unet", "text_encoder", "text_encoder_2", "text_encoder_3", "transformer"];
/// How kohya's names end, behind the module.
const KOHYA_ENDS: [(&str, Part); 3] =
    [("lora_down.weight", Part::A), ("lora_up.weight", Part::B), ("alpha", Part::Alpha)];
/// How those of diffusers end.
const DIFFUSERS_ENDS: [(&str, Part); 9] = [
    (".lora_A.weight", Part::A),
    (".lora_B.weight", Part::B),
    (".lora.down.weight", Part::A),
    (".lora.up.weight", Part::B),
    (".lora_linear_layer.down.weight", Part::A),
    (".lora_linear_layer.up.weight", Part::B),
    ("_lora.down.weight", Part::A),
    ("_lora.up.weight", Part::B),
    (".alpha", Part::Alpha),
];
/// What old names of diffusers have before the projections of an attention.
const PROCESSOR: &str = ".processor.";

/// Whether names are kohya's, which have underscores in the place of dots.
pub(crate) fn is_kohya<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    names.any(|name| name.starts_with(KOHYA) && name.contains(".lora_down."))
}

/// Whether names are those of diffusers.
pub(crate) fn is_diffusers<'n>(mut names: impl Iterator<Item = &'n str>) -> bool {
    names.any(|name| diffusers(name).is_some_and(|named| named.part == Part::A))
}

/// A name of kohya's, such as `lora_unet_mid_block_attentions_0_proj_in.lora_down.weight`.
pub(crate) fn kohya(name: &str) -> Option<Named<'_>> {
    let (module, end) = name.split_once('.')?;
    let (_, part) = KOHYA_ENDS.iter().find(|(own, _)| *own == end)?;
    let model = KOHYA_MODELS.iter().find(|model| module.starts_with(**model)).copied().unwrap_or(KOHYA);
    Some(Named { model, module: module.strip_prefix(model)?.to_owned(), part: *part })
}

/// A name of diffusers', such as `unet.mid_block.attentions.0.proj_in.lora_A.weight`.
pub(crate) fn diffusers(name: &str) -> Option<Named<'_>> {
    let (module, part) =
        DIFFUSERS_ENDS.iter().find_map(|(end, part)| Some((name.strip_suffix(end)?, *part)))?;
    let (model, module) = match module.split_once('.') {
        Some((model, rest)) if DIFFUSERS_MODELS.contains(&model) => (model, rest),
        _ => ("", module),
    };
    let module = match module.split_once(PROCESSOR) {
        // The output is the first of a list of two modules.
        Some((attention, "to_out")) => format!("{attention}.to_out.0"),
        Some((attention, projection)) => format!("{attention}.{projection}"),
        None => module.to_owned(),
    };
    Some(Named { model, module, part })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(model: &'static str, module: &str, part: Part) -> Option<Named<'static>> {
        Some(Named { model, module: module.to_owned(), part })
    }

    #[test]
    fn kohyas_names_have_a_model_and_a_module_with_underscores() {
        let module = "mid_block_attentions_0_proj_in";
        for (end, part) in KOHYA_ENDS {
            assert_eq!(kohya(&format!("lora_unet_{module}.{end}")), named("lora_unet_", module, part));
        }
        assert_eq!(kohya("lora_te2_a.alpha"), named("lora_te2_", "a", Part::Alpha));
        assert_eq!(kohya("lora_a.alpha"), named("lora_", "a", Part::Alpha));
        assert_eq!([kohya("lora_unet_a.lora_mid.weight"), kohya("lora_unet_a.dora_scale")], [None, None]);
    }

    #[test]
    fn the_names_of_diffusers_have_a_model_and_a_module() {
        let module = "mid_block.attentions.0.proj_in";
        for (end, part) in DIFFUSERS_ENDS {
            assert_eq!(diffusers(&format!("unet.{module}{end}")), named("unet", module, part));
        }
        assert_eq!(diffusers("a.b.lora_A.weight"), named("", "a.b", Part::A));
        let old =
            ["unet.attn1.processor.to_q_lora.down.weight", "unet.attn1.processor.to_out_lora.up.weight"];
        assert_eq!(
            old.map(diffusers),
            [named("unet", "attn1.to_q", Part::A), named("unet", "attn1.to_out.0", Part::B)]
        );
    }
}
