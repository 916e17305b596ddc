//! One test for each rule, on the smallest files that show it.

use crate::directory::{Directory, assert_error, bpe_keys, changed, numbers, texts};
use ckpt_api::{Input, Kind, Limit, Limits, MetadataMap, MetadataValue};
use ckpt_tokenizers::{Request, SpacePrefix, TokenizerKind, from_gguf, to_gguf};
use serde_json::{Value, json};

#[test]
fn an_id_without_a_token_is_padded() {
    let keys = bpe_keys(&changed(|_| {}), 6).unwrap();
    assert_eq!(texts(&keys, "tokenizer.ggml.tokens"), ["a", "b", "ab", "<s>", "[PAD4]", "[PAD5]"]);
    assert_eq!(numbers(&keys, "tokenizer.ggml.token_type"), [1, 1, 1, 3, 5, 5]);
}

#[test]
fn a_token_that_looks_special_is_one_and_others_have_spaces() {
    let directory = changed(|json| {
        let tokens = ["<|x|>", "<｜y｜>", "<unused7>", "<pad>", "▁▁"];
        let added = tokens.iter().zip(3..).map(|(text, id)| json!({"id": id, "content": text}));
        json["added_tokens"] = added.collect();
    });
    let keys = bpe_keys(&directory, 8).unwrap();
    assert_eq!(numbers(&keys, "tokenizer.ggml.token_type")[3..], [3, 3, 3, 3, 4]);
    assert_eq!(texts(&keys, "tokenizer.ggml.tokens")[7], "  ");
}

#[test]
fn more_tokens_than_rows_are_refused() {
    let error = bpe_keys(&changed(|_| {}), 3).unwrap_err();
    assert_error(
        error,
        Kind::Corrupt,
        &["tokenizer.json", "found 4 tokens", "at most 3, which is vocab_size"],
    );
}

#[test]
fn two_tokens_with_one_id_are_refused() {
    let twice = changed(|json| json["model"]["vocab"]["b"] = 0.into());
    assert_error(bpe_keys(&twice, 4).unwrap_err(), Kind::Corrupt, &["the same id", "id 0", "token 'a'"]);
    let added = changed(|json| json["added_tokens"][0]["id"] = 2.into());
    assert_error(bpe_keys(&added, 4).unwrap_err(), Kind::Corrupt, &["token '<s>'", "id 2", "token 'ab'"]);
}

#[test]
fn two_tokens_with_one_text_are_refused() {
    let error = bpe_keys(&changed(|json| json["added_tokens"][0]["content"] = "ab".into()), 4).unwrap_err();
    assert_error(error, Kind::Corrupt, &["the same text", "token 'ab'", "id 3"]);
}

#[test]
fn a_merge_needs_its_parts_and_its_result() {
    for (left, right, missing) in [("c", "b", "'c'"), ("a", "c", "'c'"), ("b", "a", "'ba'")] {
        let directory = changed(|json| json["model"]["merges"] = json!([["a", "b"], [left, right]]));
        let error = bpe_keys(&directory, 4).unwrap_err();
        assert_error(error, Kind::Corrupt, &["merge 1", &format!("no token {missing}"), "model.vocab"]);
    }
}

#[test]
fn merges_are_texts_or_pairs_and_a_space_in_one_is_encoded() {
    let directory = changed(|json| {
        json["model"]["vocab"] = json!({"a": 0, "b": 1, "ab": 2, " ": 4, "a ": 5});
        json["model"]["merges"] = json!(["a b", ["a", " "]]);
    });
    assert_eq!(texts(&bpe_keys(&directory, 6).unwrap(), "tokenizer.ggml.merges"), ["a b", "a Ġ"]);
    for wrong in [json!(["ab"]), json!(["a b c"]), json!([["a"]]), json!([["a", "b", "c"]]), json!([5])] {
        let directory = changed(|json| json["model"]["merges"] = wrong.clone());
        assert_eq!(bpe_keys(&directory, 4).unwrap_err().kind(), Kind::Corrupt, "{wrong}");
    }
}

#[test]
fn merges_come_from_a_file_of_their_own_if_the_model_has_none() {
    let directory = changed(|json| json["model"]["merges"] = json!([]));
    let file = directory.clone().with("merges.txt", "#version: 0.2\na b\n");
    assert_eq!(texts(&bpe_keys(&file, 4).unwrap(), "tokenizer.ggml.merges"), ["a b"]);
    assert_error(bpe_keys(&directory, 4).unwrap_err(), Kind::Corrupt, &["no merges", "merges.txt"]);
    let wrong = directory.with("merges.txt", "a b\nab\n");
    assert_error(bpe_keys(&wrong, 4).unwrap_err(), Kind::Corrupt, &["merges.txt", "line 2"]);
}

#[test]
fn a_regular_expression_that_llama_cpp_does_not_have_is_refused_and_shown() {
    let directory = changed(|json| {
        let split =
            json!({"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false});
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [split, bytes]});
    });
    let error = bpe_keys(&directory, 4).unwrap_err();
    assert_error(error, Kind::Unsupported, &["tokenizer.json", "the regular expression x+", "pre=NAME"]);
    let chosen = |pre: &'static str| {
        let config = json!({"vocab_size": 4});
        directory.keys_of(&[TokenizerKind::Bpe], config, |request| Request { pre: Some(pre), ..request })
    };
    assert_eq!(chosen("qwen2").unwrap().pairs.get("tokenizer.ggml.pre"), Some(&"qwen2".into()));
    assert_error(chosen("qwen3").unwrap_err(), Kind::Usage, &["'qwen3'", "did you mean 'qwen"]);
}

#[test]
fn the_family_chooses_among_names_of_the_same_rules() {
    for (family, name) in [("olmo", "olmo"), ("qwen2", "gpt-2")] {
        let config = json!({"vocab_size": 4});
        let kinds = [TokenizerKind::Bpe];
        let request =
            Request { vocab_size: Some(4), family_pre: Some(family), ..Request::new(&kinds, &config) };
        let keys = to_gguf(&Input::memory("", changed(|_| {}).0), &request, &Limits::default()).unwrap();
        assert_eq!(keys.pairs.get("tokenizer.ggml.pre"), Some(&name.into()), "{family}");
    }
}

#[test]
fn a_space_before_each_text_is_noted() {
    let keys = bpe_keys(&changed(|json| json["pre_tokenizer"]["add_prefix_space"] = true.into()), 4).unwrap();
    assert!(keys.notes[0].contains("adds a space before each text"), "{:?}", keys.notes);
}

#[test]
fn a_normalizer_that_has_no_key_is_noted() {
    let directory = changed(|json| {
        json["normalizer"] =
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]});
    });
    let keys = bpe_keys(&directory, 4).unwrap();
    assert!(keys.notes[0].contains("(NFC)"), "{:?}", keys.notes);
    assert_eq!(keys.pairs.get("tokenizer.ggml.normalizer.lowercase"), Some(&true.into()));
}

#[test]
fn a_directory_without_a_tokenizer_says_what_it_needs() {
    let kinds = [TokenizerKind::SentencePiece, TokenizerKind::Bpe];
    let error = Directory::default().keys_of(&kinds, json!({}), |request| request).unwrap_err();
    assert_error(error, Kind::Usage, &["no tokenizer", "tokenizer.model, or tokenizer.json"]);
}

#[test]
fn a_model_of_an_unknown_type_is_named() {
    let error = bpe_keys(&changed(|json| json["model"]["type"] = "Foo".into()), 4).unwrap_err();
    assert_error(error, Kind::Unsupported, &["unknown type", "model.type", "'Foo'"]);
    let error = bpe_keys(&changed(|json| json["model"]["type"] = "WordPiece".into()), 4).unwrap_err();
    assert_error(error, Kind::Unsupported, &["another kind", "'WordPiece'"]);
}

#[test]
fn a_file_that_is_not_json_or_has_other_fields_is_refused() {
    for (content, says) in
        [("version https://git-lfs", "Git LFS"), ("{\"model\"", "not JSON"), ("[5]", "fields")]
    {
        let error = bpe_keys(&Directory::default().with("tokenizer.json", content), 4).unwrap_err();
        assert_error(error, Kind::Corrupt, &["tokenizer.json", says]);
    }
}

#[test]
fn nesting_and_the_number_of_values_are_limited() {
    let nested =
        format!("{{\"pre_tokenizer\":{}1{}}}", "{\"pretokenizers\":[".repeat(5000), "]}".repeat(5000));
    assert_eq!(
        bpe_keys(&Directory::default().with("tokenizer.json", nested), 4).unwrap_err().kind(),
        Kind::Corrupt
    );
    let input = Input::memory("", changed(|_| {}).0);
    let (config, kinds) = (json!({}), [TokenizerKind::Bpe]);
    let request = |size| Request { vocab_size: Some(size), ..Request::new(&kinds, &config) };
    let limits = Limits::default().with(Limit::MetadataEntries, 100);
    assert!(to_gguf(&input, &request(100), &limits).is_ok());
    assert_eq!(to_gguf(&input, &request(101), &limits).unwrap_err().kind(), Kind::Limit);
    let few = Limits::default().with(Limit::MetadataEntries, 10);
    assert_eq!(to_gguf(&input, &request(4), &few).unwrap_err().kind(), Kind::Limit);
    let small = Limits::default().with(Limit::HeaderBytes, 10);
    assert_error(
        to_gguf(&input, &request(4), &small).unwrap_err(),
        Kind::Limit,
        &["header_bytes", "tokenizer.json"],
    );
}

/// The flags of a post-processor, in order.
fn flags(processor: Value, config: Value) -> Vec<(String, bool)> {
    let directory = changed(|json| {
        let tokens = ["<s>", "</s>", "<sep>"].iter().zip(3..);
        json["added_tokens"] =
            tokens.map(|(text, id)| json!({"id": id, "content": text, "special": true})).collect();
        json["post_processor"] = processor;
    });
    let keys = bpe_keys(&directory.json("tokenizer_config.json", &config), 6).unwrap();
    let flags = keys.pairs.iter().filter(|(key, _)| key.contains(".add_"));
    flags.map(|(key, value)| (key["tokenizer.ggml.".len()..].to_owned(), value.as_bool().unwrap())).collect()
}

fn template(single: &[&str], pair: &[&str]) -> Value {
    let piece = |text: &&str| match *text {
        "A" | "B" => json!({"Sequence": {"id": text}}),
        _ => json!({"SpecialToken": {"id": text}}),
    };
    let pieces = |texts: &[&str]| texts.iter().map(piece).collect::<Value>();
    json!({"type": "TemplateProcessing", "single": pieces(single), "pair": pieces(pair)})
}

#[test]
fn the_flags_follow_from_the_post_processor_and_then_from_the_configuration() {
    let tokens = json!({"bos_token": "<s>", "eos_token": "</s>", "sep_token": "<sep>"});
    let with = |key: &str, flag: bool| {
        let mut config = tokens.clone();
        config[key] = flag.into();
        config
    };
    let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 4], "cls": ["<s>", 3]});
    let begin = template(&["<s>", "A"], &["<s>", "A", "B"]);
    for (processor, config, expected) in [
        (json!(null), tokens.clone(), &[][..]),
        (json!(null), with("add_eos_token", true), &[("eos", true)]),
        (json!({"type": "ByteLevel"}), with("add_bos_token", true), &[("bos", false), ("eos", false)]),
        (roberta, tokens.clone(), &[("bos", true), ("eos", true), ("sep", true)]),
        (begin.clone(), with("add_eos_token", false), &[("bos", true), ("eos", false)]),
        (begin, with("bos_token", false), &[("bos", true)]),
        (
            template(&["A", "</s>"], &["A", "</s>", "B", "</s>"]),
            tokens.clone(),
            &[("eos", true), ("sep", false)],
        ),
        (
            template(&["<s>", "A"], &["<s>", "A", "<sep>", "B"]),
            tokens.clone(),
            &[("bos", true), ("sep", true)],
        ),
        (
            template(&["<s>", "A"], &["<s>", "A", "<s>", "B"]),
            tokens.clone(),
            &[("bos", true), ("sep", false)],
        ),
        (
            template(&["<s>", "A", "</s>"], &["<s>", "A", "</s>", "</s>", "B", "</s>"]),
            tokens.clone(),
            &[("bos", true), ("eos", true), ("sep", true)],
        ),
    ] {
        let expected: Vec<_> =
            expected.iter().map(|(name, flag)| (format!("add_{name}_token"), *flag)).collect();
        assert_eq!(flags(processor.clone(), config), expected, "{processor}");
    }
}

#[test]
fn an_id_comes_from_the_tokenizer_before_the_model() {
    let config = json!({"bos_token": {"content": "<s>"}, "eos_token": "nowhere"});
    let directory = changed(|_| {}).json("tokenizer_config.json", &config);
    let model = json!({
        "vocab_size": 4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": [1], "sep_token_id": null,
        "text_config": {"sep_token_id": 0},
    });
    let keys = directory.keys(TokenizerKind::Bpe, model).unwrap();
    assert!(
        keys.notes[0].starts_with("eos_token") && keys.notes[0].contains("'nowhere'"),
        "{:?}",
        keys.notes
    );
    let ids = keys.pairs.iter().filter(|(key, _)| key.ends_with("_token_id"));
    let ids: Vec<_> = ids.map(|(key, value)| (key, value.clone())).collect();
    assert_eq!(
        ids,
        [
            ("tokenizer.ggml.bos_token_id", MetadataValue::U32(3)),
            ("tokenizer.ggml.eos_token_id", MetadataValue::U32(2)),
            ("tokenizer.ggml.seperator_token_id", MetadataValue::U32(0)),
        ]
    );
    let negative = json!({"vocab_size": 4, "bos_token_id": -1});
    assert_error(
        changed(|_| {}).keys(TokenizerKind::Bpe, negative).unwrap_err(),
        Kind::Corrupt,
        &["config.json", "bos_token_id", "-1"],
    );
}

#[test]
fn a_token_that_no_file_states_is_looked_up_by_its_text() {
    let directory = changed(|_| {}).json("tokenizer_config.json", &json!({"eos_token": "<s>"}));
    let config = json!({"vocab_size": 4, "pad_token_id": 0});
    const TOKENS: &[(&str, &str)] = &[("eos", "ab"), ("eot", "<s>"), ("eom", "nowhere"), ("bos", "<s>")];
    let kinds = [TokenizerKind::Bpe];
    let keys = directory.keys_of(&kinds, config, |request| Request { fallback_tokens: TOKENS, ..request });
    let keys = keys.unwrap();
    let ids = keys.pairs.iter().filter(|(key, _)| key.ends_with("_token_id"));
    let ids: Vec<_> = ids.map(|(key, value)| (key, value.as_u64().unwrap())).collect();
    assert_eq!(
        ids,
        [
            ("tokenizer.ggml.eos_token_id", 3),
            ("tokenizer.ggml.padding_token_id", 0),
            ("tokenizer.ggml.eot_token_id", 3),
            ("tokenizer.ggml.bos_token_id", 3),
        ]
    );
}

#[test]
fn chat_templates_are_a_text_a_list_or_files() {
    let of = |config: Value, files: &[(&str, &str)]| -> Vec<(String, String)> {
        let mut directory = changed(|_| {}).json("tokenizer_config.json", &config);
        for (name, text) in files {
            directory = directory.with(name, text);
        }
        let keys = bpe_keys(&directory, 4).unwrap();
        let pairs = keys.pairs.iter().filter(|(key, _)| key.contains("chat_template"));
        pairs.map(|(key, value)| (key["tokenizer.".len()..].to_owned(), value.to_string())).collect()
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let file = [("chat_template.jinja", "f\r\n")];
    assert_eq!(of(json!({}), &file), [pair("chat_template", "\"f\\n\"")]);
    assert_eq!(of(json!({"chat_template": "t"}), &file), [pair("chat_template", "\"t\"")]);
    assert_eq!(
        of(json!({}), &[("chat_template.json", "{\"chat_template\": \"j\"}")]),
        [pair("chat_template", "\"j\"")]
    );
    let named = [("chat_template.jinja", "f"), ("additional_chat_templates/a-b.jinja", "g")];
    let both = [
        pair("chat_template.a_b", "\"g\""),
        pair("chat_templates", "[\"a_b\"]"),
        pair("chat_template", "\"f\""),
    ];
    assert_eq!(of(json!({}), &named), both);
    let list = json!([{"name": "default", "template": "f"}, {"name": "a b", "template": "g"}]);
    assert_eq!(of(json!({"chat_template": list}), &[]), both);
}

/// A model of SentencePiece: pieces with their scores and types.
fn sentence_piece(pieces: &[(&str, f32, u8)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (text, score, kind) in pieces {
        let mut piece = vec![0x0a, text.len() as u8];
        piece.extend(text.as_bytes());
        piece.push(0x15);
        piece.extend(score.to_le_bytes());
        piece.extend([0x18, *kind]);
        file.extend([0x0a, piece.len() as u8]);
        file.extend(piece);
    }
    // trainer_spec.model_type = BPE, and an empty normalizer_spec
    file.extend([0x12, 2, 0x18, 2, 0x1a, 0]);
    file
}

fn spm() -> Directory {
    let pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("a", -1.0, 1), ("▁u", -2.0, 4)];
    Directory::default().with("tokenizer.model", sentence_piece(&pieces))
}

#[test]
fn a_user_defined_piece_is_a_normal_token_and_an_added_one_replaces_a_piece() {
    let decoder = json!({"1": {"content": "<b>", "special": true}, "6": {"content": "▁x", "special": false}});
    let directory = spm()
        .json("added_tokens.json", &json!({"t": 4}))
        .json("tokenizer_config.json", &json!({"added_tokens_decoder": decoder}));
    let keys = directory.keys(TokenizerKind::SentencePiece, json!({"vocab_size": 7})).unwrap();
    assert_eq!(texts(&keys, "tokenizer.ggml.tokens"), ["<unk>", "<b>", "a", "▁u", "t", "[PAD5]", " x"]);
    assert_eq!(numbers(&keys, "tokenizer.ggml.token_type"), [2, 3, 1, 1, 4, 5, 4]);
    let scores: MetadataValue = [0.0f32, -1000.0, -1.0, -2.0, -1000.0, -10000.0, -1000.0].into();
    assert_eq!(keys.pairs.get("tokenizer.ggml.scores"), Some(&scores));
}

#[test]
fn an_added_token_without_a_row_is_left_out_and_noted() {
    let directory = spm().json("added_tokens.json", &json!({"t": 4}));
    let keys = directory.keys(TokenizerKind::SentencePiece, json!({"vocab_size": 4})).unwrap();
    assert_eq!(texts(&keys, "tokenizer.ggml.tokens").len(), 4);
    assert!(keys.notes[0].contains("token 't'") && keys.notes[0].contains("id 4"), "{:?}", keys.notes);
}

#[test]
fn a_model_that_is_cut_short_is_refused_with_its_offset() {
    let whole = sentence_piece(&[("<unk>", 0.0, 2), ("ab", -1.0, 1)]);
    for len in 0..whole.len() {
        let directory = Directory::default().with("tokenizer.model", &whole[..len]);
        let error = directory.keys(TokenizerKind::SentencePiece, json!({"vocab_size": 2})).unwrap_err();
        assert_error(error, Kind::Corrupt, &["tokenizer.model"]);
    }
    for (len, says) in
        [(20, "bytes left"), (whole.len() - 6, "no trainer_spec"), (whole.len() - 2, "no normalizer_spec")]
    {
        let directory = Directory::default().with("tokenizer.model", &whole[..len]);
        let error = directory.keys(TokenizerKind::SentencePiece, json!({"vocab_size": 2})).unwrap_err();
        assert_error(error, Kind::Corrupt, &["cut short", "offset", says]);
    }
}

#[test]
fn a_token_of_phi_3_is_special_only_if_its_files_say_so() {
    let added =
        json!([{"id": 4, "content": "<|a|>", "special": false}, {"id": 5, "content": "▁b", "special": true}]);
    let directory = spm().json("tokenizer.json", &json!({"added_tokens": added}));
    let keys = directory.keys(TokenizerKind::Phi3SentencePiece, json!({"vocab_size": 6})).unwrap();
    assert_eq!(texts(&keys, "tokenizer.ggml.tokens")[4..], ["<|a|>", "▁b"]);
    assert_eq!(numbers(&keys, "tokenizer.ggml.token_type")[4..], [4, 3]);
}

#[test]
fn more_pieces_than_rows_and_pieces_of_one_text_are_refused() {
    let error = spm().keys(TokenizerKind::SentencePiece, json!({"vocab_size": 3})).unwrap_err();
    assert_error(error, Kind::Corrupt, &["tokenizer.model", "found 4 tokens", "at most 3"]);
    let twice = Directory::default().with("tokenizer.model", sentence_piece(&[("a", 0.0, 2), ("a", 0.0, 1)]));
    let error = twice.keys(TokenizerKind::SentencePiece, json!({})).unwrap_err();
    assert_error(error, Kind::Corrupt, &["two pieces", "piece 1"]);
}

#[test]
fn the_key_for_a_space_is_first_last_or_not_there() {
    let config = json!({"add_prefix_space": true});
    let directory = spm().json("tokenizer_config.json", &config);
    let names = |space_prefix| -> Vec<String> {
        let kinds = [TokenizerKind::SentencePiece];
        let keys =
            directory.keys_of(&kinds, json!({}), |request| Request { space_prefix, ..request }).unwrap();
        keys.pairs.iter().map(|(key, _)| key.to_owned()).collect()
    };
    let key = "tokenizer.ggml.add_space_prefix";
    assert_eq!(names(SpacePrefix::Stated)[0], key);
    assert_eq!(names(SpacePrefix::False).last().unwrap(), key);
    assert!(!names(SpacePrefix::Unset).iter().any(|name| name == key));
}

#[test]
fn the_first_kind_whose_files_are_there_is_taken() {
    let kinds = [TokenizerKind::SentencePiece, TokenizerKind::LlamaBpe, TokenizerKind::Bpe];
    let kind = |directory: &Directory| directory.keys_of(&kinds, json!({}), |request| request).unwrap().kind;
    let fallback = changed(|json| {
        json["model"]["byte_fallback"] = true.into();
        json["decoder"] = json!({"type": "Sequence", "decoders": []});
    });
    assert_eq!(kind(&changed(|_| {})), TokenizerKind::Bpe);
    assert_eq!(kind(&fallback), TokenizerKind::LlamaBpe);
    assert_eq!(
        kind(&Directory([spm().0, fallback.0].into_iter().flatten().collect())),
        TokenizerKind::SentencePiece
    );
}

/// Directories in which one bit is another one, and keys of which one has another value.
#[test]
fn no_changed_file_and_no_changed_key_ends_the_program() {
    let (mut accepted, mut refused) = (0, 0);
    let kinds = [
        ("bpe_llama3", TokenizerKind::Bpe, "tokenizer.json"),
        ("roberta", TokenizerKind::Bpe, "tokenizer_config.json"),
        ("llama_bpe", TokenizerKind::LlamaBpe, "tokenizer.json"),
        ("sentence_piece", TokenizerKind::SentencePiece, "tokenizer.model"),
        ("unigram", TokenizerKind::Unigram, "spiece.model"),
        ("word_piece", TokenizerKind::WordPiece, "tokenizer.json"),
    ];
    for (name, kind, changed) in kinds {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let mut directory = Directory::default();
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            directory =
                directory.with(entry.file_name().to_str().unwrap(), std::fs::read(entry.path()).unwrap());
        }
        let len = directory.0[changed].len();
        for position in (0..len).step_by(len / 150 + 1) {
            let mut directory = directory.clone();
            directory.0.get_mut(changed).unwrap()[position] ^= 1 << (position % 8);
            match directory.keys(kind, json!({})) {
                Ok(keys) => {
                    accepted += 1;
                    let _ = from_gguf(&keys.pairs, &Limits::default());
                }
                Err(_) => refused += 1,
            }
        }
        let keys: MetadataMap = serde_json::from_slice(&directory.0["keys.json"]).unwrap();
        let values: [MetadataValue; 8] = [
            5u32.into(),
            (-1i32).into(),
            "x".into(),
            true.into(),
            ["a"].into(),
            [9i32].into(),
            [f32::NAN].into(),
            MetadataValue::Null,
        ];
        for (key, _) in keys.iter() {
            for value in &values {
                let mut keys = keys.clone();
                keys.insert(key, value.clone());
                match from_gguf(&keys, &Limits::default()) {
                    Ok(_) => accepted += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(accepted > 300 && refused > 300, "{accepted} {refused}");
}

#[test]
fn scores_follow_from_the_merges_of_a_ranked_tokenizer() {
    let directory = changed(|json| {
        json["model"]["byte_fallback"] = true.into();
        json["model"]["vocab"]["ba"] = 4.into();
        json["model"]["merges"] = json!([["b", "a"], ["a", "b"]]);
        json["decoder"] = json!({"type": "Sequence", "decoders": []});
    });
    let keys = directory.keys(TokenizerKind::RankedBpe, json!({"vocab_size": 5})).unwrap();
    let scores: MetadataValue = [-2.0f32, -2.0, -1.0, -1000.0, 0.0].into();
    assert_eq!(keys.pairs.get("tokenizer.ggml.scores"), Some(&scores));
    let files = from_gguf(&keys.pairs, &Limits::default()).unwrap().files;
    let json: Value = serde_json::from_slice(&files["tokenizer.json"]).unwrap();
    assert_eq!(json["model"]["merges"], json!([["b", "a"], ["a", "b"]]));
}

fn pairs(change: impl FnOnce(&mut MetadataMap)) -> MetadataMap {
    let mut pairs = bpe_keys(&changed(|_| {}), 4).unwrap().pairs;
    change(&mut pairs);
    pairs
}

#[test]
fn keys_that_contradict_each_other_are_refused() {
    let error = |change: fn(&mut MetadataMap)| from_gguf(&pairs(change), &Limits::default()).unwrap_err();
    assert_error(error(|p| drop(p.remove("tokenizer.ggml.model"))), Kind::Usage, &["no tokenizer"]);
    assert_error(error(|p| drop(p.insert("tokenizer.ggml.model", "rwkv"))), Kind::Unsupported, &["'rwkv'"]);
    assert_error(
        error(|p| drop(p.insert("tokenizer.ggml.token_type", [1i32, 1]))),
        Kind::Corrupt,
        &["token_type", "2 values", "4 values"],
    );
    assert_error(
        error(|p| drop(p.insert("tokenizer.ggml.token_type", [1i32, 1, 9, 1]))),
        Kind::Corrupt,
        &["token_type[2]", "from 1 to 6"],
    );
    assert_error(error(|p| drop(p.insert("tokenizer.ggml.merges", ["ab"]))), Kind::Corrupt, &["merges[0]"]);
    assert_error(error(|p| drop(p.insert("tokenizer.ggml.tokens", 5u32))), Kind::Corrupt, &["tokens"]);
    assert_error(
        error(|p| drop(p.insert("tokenizer.ggml.bos_token_id", "a"))),
        Kind::Corrupt,
        &["bos_token_id", "an id below 4"],
    );
}

#[test]
fn what_the_keys_do_not_suffice_for_is_noted() {
    let notes = |change: fn(&mut MetadataMap)| from_gguf(&pairs(change), &Limits::default()).unwrap();
    let unknown = notes(|p| drop(p.insert("tokenizer.ggml.pre", "default")));
    assert!(!unknown.files.contains_key("tokenizer.json") && unknown.notes[0].contains("'default'"));
    let other = notes(|p| drop(p.insert("tokenizer.ggml.fim_pre_token_id", 1u32)));
    assert!(other.notes[0].contains("fim_pre_token_id"), "{:?}", other.notes);
    // llama.cpp warns of it, and takes its default.
    let beyond = notes(|p| drop(p.insert("tokenizer.ggml.bos_token_id", 4u32)));
    assert!(
        beyond.notes[0].contains("bos_token_id is left out: 4 is no id of a token"),
        "{:?}",
        beyond.notes
    );
}

#[test]
fn a_hostile_name_of_a_template_names_no_file() {
    let files =
        from_gguf(&pairs(|p| drop(p.insert("tokenizer.chat_template.../../x", "t"))), &Limits::default());
    let files = files.unwrap().files;
    assert!(files.keys().all(|name| !name.contains('/')), "{:?}", files.keys());
    assert!(String::from_utf8_lossy(&files["tokenizer_config.json"]).contains("../../x"));
}

#[test]
fn added_tokens_that_the_library_would_number_otherwise_are_in_the_vocabulary() {
    let vocabulary = |added: Value| -> Value {
        let keys = bpe_keys(&changed(|json| json["added_tokens"] = added), 6).unwrap();
        let files = from_gguf(&keys.pairs, &Limits::default()).unwrap().files;
        serde_json::from_slice::<Value>(&files["tokenizer.json"]).unwrap()["model"]["vocab"].clone()
    };
    let token = |id: u64, text: &str| json!({"id": id, "content": text, "special": true});
    assert_eq!(vocabulary(json!([token(3, "x"), token(4, "y")])), json!({"a": 0, "b": 1, "ab": 2}));
    assert_eq!(vocabulary(json!([token(4, "x")])), json!({"a": 0, "b": 1, "ab": 2, "x": 4}));
}
