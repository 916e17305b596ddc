//! The names that llama.cpp knows, by the rules that it has for them (version 0.5.0, `llama-vocab.cpp`).

use super::rules::{GPT2, Rule, canonical};

/// Names that stand for the same rules.
#[derive(Debug)]
pub(super) struct Class {
    /// In order.
    rules: &'static [&'static str],
    /// The most common one first.
    pub(super) names: &'static [Name],
}

/// A name of a pre-tokenizer.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) name: &'static str,
    /// Whether a word that is a token is taken without merging.
    pub(super) ignores_merges: bool,
}

const fn merging(name: &'static str) -> Name {
    Name { name, ignores_merges: false }
}

const fn ignoring(name: &'static str) -> Name {
    Name { name, ignores_merges: true }
}

impl Class {
    /// The rules.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let rule = |text: &&str| match *text {
            PUNCTUATION => Rule::Punctuation,
            regex => Rule::Isolate(canonical(regex)),
        };
        self.rules.iter().map(rule).collect()
    }

    /// Whether these are the rules.
    pub(super) fn has(&self, rules: &[Rule]) -> bool {
        self.rules.len() == rules.len() && self.rules() == rules
    }
}

/// Stands for [`Rule::Punctuation`].
const PUNCTUATION: &str = "";

const DIGIT: &str = r"\p{N}";
const THREE_DIGITS: &str = r"\p{N}{1,3}";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const UFAKZEKA: &str = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const CJK: &str = "[一-龥\u{3040}-ゟ゠-ヿ]+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const SPARK: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##;
const OLD_CJK: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
/// The letters of alphabets.
const LETTERS: &str = include_str!("letters.txt");
const WIDE_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";

/// Every class.
pub(super) const CLASSES: &[Class] = &[
    Class {
        rules: &[GPT2],
        names: &[
            merging("gpt-2"),
            merging("olmo"),
            merging("mpt"),
            merging("phi-2"),
            merging("jais"),
            merging("trillion"),
            merging("granite-docling"),
            merging("jina-es"),
            merging("jina-de"),
            merging("jina-v2-es"),
            merging("jina-v2-de"),
            merging("jina-v1-en"),
            merging("jina-v2-code"),
            merging("roberta-bpe"),
            merging("gigachat"),
            merging("a.x-4.0"),
            merging("mellum"),
            merging("modern-bert"),
            merging("exaone4"),
        ],
    },
    Class {
        rules: &[DIGIT, GPT2],
        names: &[
            merging("starcoder"),
            merging("smollm"),
            merging("command-r"),
            merging("refact"),
            merging("codeshell"),
            merging("exaone"),
            merging("minerva-7b"),
            merging("mellum2"),
        ],
    },
    Class {
        rules: &[LLAMA3],
        names: &[
            ignoring("llama-bpe"),
            ignoring("llama3"),
            ignoring("llama-v3"),
            ignoring("falcon3"),
            ignoring("falcon-h1"),
            ignoring("pixtral"),
            ignoring("midm-2.0"),
            ignoring("lfm2"),
            ignoring("jina-v5-nano"),
            ignoring("glm4"),
            merging("dbrx"),
            merging("smaug-bpe"),
            merging("chatglm-bpe"),
        ],
    },
    Class { rules: &[JAIS2], names: &[merging("jais-2")] },
    Class {
        rules: &[QWEN2],
        names: &[
            merging("qwen2"),
            merging("deepseek-r1-qwen"),
            merging("kormo"),
            merging("f2llmv2"),
            merging("megrez"),
            merging("stablelm2"),
            merging("hunyuan"),
            merging("solar-open"),
            merging("grok-2"),
            merging("bailingmoe"),
            merging("bailingmoe2"),
            merging("llada-moe"),
        ],
    },
    Class { rules: &[QWEN35], names: &[merging("qwen35")] },
    Class { rules: &[UFAKZEKA], names: &[merging("ufakzeka")] },
    Class { rules: &[SEED_CODER], names: &[merging("seed-coder")] },
    Class { rules: &[EXAONE_MOE], names: &[merging("exaone-moe")] },
    Class { rules: &[THREE_DIGITS, MINICPM5], names: &[ignoring("minicpm5")] },
    Class {
        rules: &[GPT4O],
        names: &[
            merging("gpt-4o"),
            merging("llama4"),
            merging("kanana2"),
            merging("talkie"),
            merging("minimax-m2"),
            ignoring("granite-embed-multi-97m"),
        ],
    },
    Class {
        rules: &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O],
        names: &[merging("tiny_aya"), merging("cohere2moe")],
    },
    Class { rules: &[TEKKEN], names: &[ignoring("tekken")] },
    Class {
        rules: &["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+", YOUTU],
        names: &[ignoring("youtu")],
    },
    Class {
        rules: &[THREE_DIGITS, CJK, DEEPSEEK3],
        names: &[merging("deepseek-v3"), merging("hunyuan-dense"), merging("joyai-llm"), merging("hy_v4")],
    },
    Class { rules: &[THREE_DIGITS, CJK, SPARK, DIGIT], names: &[merging("spark2_5")] },
    Class {
        rules: &[r"[\r\n]", LETTERS, WIDE_PUNCTUATION, r"\s+$", OLD_CJK, DIGIT],
        names: &[merging("deepseek-llm")],
    },
    Class {
        rules: &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", OLD_CJK, DIGIT],
        names: &[merging("deepseek-coder")],
    },
    Class { rules: &[PUNCTUATION, GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], names: &[merging("falcon")] },
    Class { rules: &[BLOOM], names: &[merging("bloom"), merging("poro-chat"), merging("gpt3-finnish")] },
    Class { rules: &[BLOOM, DIGIT], names: &[merging("viking")] },
    Class { rules: &[r"\p{N}+", r"(?=(\d{3})+(?!\d))"], names: &[merging("superbpe")] },
    Class { rules: &[r"[^\n]+|[\n]+", QWEN2], names: &[merging("laguna")] },
];
