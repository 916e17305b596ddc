//! The mapping language, rule by rule.

mod dequantize;
mod parameters;
mod properties;
mod stacks;
mod steps;

use super::default_limit;
use super::{Applied, Mapping};
use ckpt_api::{Error, Kind, Limit, Limits};
use std::collections::{BTreeMap, BTreeSet};

fn mapping(text: &str) -> Mapping {
    Mapping::from_toml(text, "names.toml").unwrap()
}

fn rule(from: &str, to: &str) -> Mapping {
    mapping(&format!("[[rule]]\nfrom = '{from}'\nto = '{to}'"))
}

/// Returns the error of a file; it must name the file.
fn refused(text: &str) -> Error {
    let error = Mapping::from_toml(text, "names.toml").unwrap_err();
    assert!(error.to_string().contains("file names.toml"), "{error}");
    error
}

fn apply(mapping: &Mapping, names: &[&str]) -> Applied {
    mapping.apply(names, &Limits::default()).unwrap()
}

/// Returns the target of each source that is only renamed.
fn renamed(applied: &Applied) -> BTreeMap<String, String> {
    applied.plain().map(|(source, target)| (source.to_owned(), target.to_owned())).collect()
}

fn fails(mapping: &Mapping, names: &[&str]) -> String {
    let error = mapping.apply(names, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Mapping, "{error}");
    error.to_string()
}

fn target(mapping: &Mapping, name: &str) -> Option<String> {
    renamed(&mapping.apply(&[name], &Limits::default()).ok()?).remove(name)
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
}

#[test]
fn a_rule_carries_its_captures_into_the_target() {
    let mapping = rule("model/h{layer:int}/attn/{part}", "h.{layer}.{part}");
    assert_eq!(target(&mapping, "model/h11/attn/bias").as_deref(), Some("h.11.bias"));
}

#[test]
fn a_pattern_matches_the_whole_name_only() {
    let mapping = rule("a/{x}", "{x}");
    for name in ["za/b", "a/b/c", "a/", "a"] {
        assert_eq!(target(&mapping, name), None, "{name}");
    }
}

#[test]
fn an_int_is_decimal_digits_without_leading_zeros() {
    let mapping = rule("h{x:int}", "{x}");
    assert_eq!(target(&mapping, "h0").as_deref(), Some("0"));
    assert_eq!(target(&mapping, "h10").as_deref(), Some("10"));
    for name in ["h00", "h01", "h", "h-1", "h1x", "h١"] {
        assert_eq!(target(&mapping, name), None, "{name}");
    }
}

#[test]
fn a_segment_is_not_empty_and_has_no_separator() {
    for from in ["a/{x}/b", "a/{x:segment}/b"] {
        let mapping = rule(from, "{x}");
        assert_eq!(target(&mapping, "a/ü.1-2/b").as_deref(), Some("ü.1-2"));
        assert_eq!(target(&mapping, "a//b"), None);
        assert_eq!(target(&mapping, "a/x/y/b"), None);
    }
}

#[test]
fn a_word_is_ascii_letters_digits_and_underscores() {
    let mapping = rule("a/{x:word}", "{x}");
    assert_eq!(target(&mapping, "a/c_Attn1").as_deref(), Some("c_Attn1"));
    assert_eq!(target(&mapping, "a/c-attn"), None);
    assert_eq!(target(&mapping, "a/é"), None);
}

#[test]
fn a_path_is_nonempty_segments_with_their_separators() {
    let mapping = rule("a/{x:path}", "{x}");
    assert_eq!(target(&mapping, "a/b").as_deref(), Some("b"));
    assert_eq!(target(&mapping, "a/b/c/d").as_deref(), Some("b/c/d"));
    for name in ["a/", "a//b", "a/b/", "a/b//c"] {
        assert_eq!(target(&mapping, name), None, "{name}");
    }
}

#[test]
fn a_path_takes_the_targets_separator() {
    let mapping = mapping("target_separator = '.'\n[[rule]]\nfrom = 'model/{x:path}'\nto = '{x}'");
    assert_eq!(target(&mapping, "model/dense/kernel").as_deref(), Some("dense.kernel"));
}

#[test]
fn targets_have_the_separator_of_sources_by_default() {
    let mapping = mapping("separator = '.'\n[[rule]]\nfrom = 'm.{x:path}'\nto = '{x}'");
    assert_eq!(target(&mapping, "m.a.b").as_deref(), Some("a.b"));
}

#[test]
fn the_separator_bounds_segments() {
    let mapping = mapping("separator = '.'\n[[rule]]\nfrom = 'a.{x}'\nto = '{x}'");
    assert_eq!(target(&mapping, "a.b/c").as_deref(), Some("b/c"));
    assert_eq!(target(&mapping, "a.b.c"), None);
}

#[test]
fn a_separator_is_one_punctuation_character() {
    for wrong in ["", "::", "a", "7", "_", "{", "*", "?", "\\n"] {
        assert_says(&refused(&format!("separator = \"{wrong}\"")).to_string(), &["separator"]);
        assert_says(&refused(&format!("target_separator = \"{wrong}\"")).to_string(), &["target_separator"]);
    }
}

#[test]
fn doubled_braces_are_braces_of_the_name() {
    let mapping = rule("{{a}}/{x}", "}}{x}{{");
    assert_eq!(target(&mapping, "{a}/b").as_deref(), Some("}b{"));
}

#[test]
fn single_braces_must_pair() {
    for from in ["{x", "x}", "{x}}", "{", "}", "{{x}"] {
        assert_says(&refused(&format!("[[rule]]\nfrom = '{from}'\nto = 'y'")).to_string(), &["rule 1, from"]);
    }
}

#[test]
fn ambiguity_goes_to_the_shortest_first_capture() {
    let mapping = rule("{a}-{b}", "{b}-{a}");
    assert_eq!(target(&mapping, "1-2-3").as_deref(), Some("2-3-1"));
    let mapping = rule("{a:int}{b:int}", "{a}.{b}");
    assert_eq!(target(&mapping, "123").as_deref(), Some("1.23"));
    assert_eq!(target(&mapping, "100").as_deref(), Some("10.0"));
}

#[test]
fn captures_never_split_a_character() {
    assert_eq!(target(&rule("{a}{b}", "{b}{a}"), "éü").as_deref(), Some("üé"));
    assert_eq!(target(&rule("{a}{b}", "{b}{a}"), "é"), None);
}

#[test]
fn one_star_stays_within_a_segment_and_two_cross() {
    let mapping = mapping("identity = true\nignore = ['a/*', 'b/**', '*_counter']");
    let applied = apply(&mapping, &["a/", "a/x", "a/x/y", "b", "b/x/y", "save_counter", "x/save_counter"]);
    assert_eq!(applied.dropped, ["a/", "a/x", "b/x/y", "save_counter"]);
}

#[test]
fn a_question_mark_is_one_character_of_a_segment_in_ignore_and_itself_in_a_rule() {
    let mapping = mapping("identity = true\nignore = ['h?', 'a{?}']\n[[rule]]\nfrom = 'r?'\nto = 's?'");
    let applied = apply(&mapping, &["h1", "h12", "h/", "a?", "ab", "r?", "rx"]);
    assert_eq!(applied.dropped, ["a?", "h1"]);
    assert_eq!(renamed(&applied)["r?"], "s?");
    assert_eq!(renamed(&applied)["rx"], "rx");
}

#[test]
fn ignore_takes_captures_too() {
    let mapping = mapping("identity = true\nignore = ['h{n:int}/**/bias']");
    assert_eq!(apply(&mapping, &["h1/a/b/bias", "hx/a/bias"]).dropped, ["h1/a/b/bias"]);
}

#[test]
fn a_star_outside_ignore_is_refused() {
    for (from, to) in [("a/*", "b"), ("a", "b/*")] {
        let error = refused(&format!("[[rule]]\nfrom = '{from}'\nto = '{to}'"));
        assert_says(&error.to_string(), &["'*'", "ignore", "rule 1"]);
    }
    refused("ignore = ['a***']");
}

#[test]
fn a_star_in_braces_is_a_star_of_the_name() {
    let mapping = mapping("ignore = ['{*}*{*}']\n[[rule]]\nfrom = '{n:int}{*}'\nto = '{*}{{{*}}}{n}'");
    let applied = apply(&mapping, &["3*", "*ab*"]);
    assert_eq!((applied.targets[0].name.as_str(), &applied.dropped[..]), ("*{*}3", &["*ab*".to_owned()][..]));
    assert_eq!(mapping.to_toml().matches("{*}").count(), 5);
}

#[test]
fn a_capture_has_a_name_and_a_known_type() {
    for from in ["{}", "{:int}", "{1x}", "{a b}", "{a:}", "{é}"] {
        refused(&format!("[[rule]]\nfrom = '{from}'\nto = 'y'"));
    }
    let error = refused("[[rule]]\nfrom = '{x:integer}'\nto = '{x}'").to_string();
    assert_says(&error, &["did you mean 'int'", "rule 1, from"]);
}

#[test]
fn a_capture_stands_once_in_from() {
    assert_says(&refused("[[rule]]\nfrom = '{x}/{x:int}'\nto = '{x}'").to_string(), &["two captures", "'x'"]);
}

#[test]
fn to_uses_only_captures_of_from_and_no_types() {
    let error = refused("[[rule]]\nfrom = '{layer}'\nto = '{laier}'").to_string();
    assert_says(&error, &["did you mean 'layer'", "rule 1, to"]);
    assert_says(&refused("[[rule]]\nfrom = '{x}'\nto = '{x:int}'").to_string(), &["types belong in 'from'"]);
}

#[test]
fn an_empty_pattern_or_name_is_refused() {
    refused("[[rule]]\nfrom = ''\nto = 'y'");
    refused("[[rule]]\nfrom = 'x'\nto = ''");
    refused("ignore = ['']");
    refused("[lookup]\n'' = 'x'");
    assert_says(&refused("[lookup]\nx = ''").to_string(), &["ignore"]);
}

#[test]
fn lookup_goes_before_ignore_before_rules_before_identity() {
    let mapping = mapping(
        "identity = true\nignore = ['a/*']\n[lookup]\n'a/1' = 'one'\n[[rule]]\nfrom = '{x}/{y}'\nto = 'r.{y}'",
    );
    let applied = apply(&mapping, &["a/1", "a/2", "b/3", "c"]);
    assert_eq!(
        applied.plain().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
        [("a/1", "one"), ("b/3", "r.3"), ("c", "c")]
    );
    assert_eq!(applied.dropped, ["a/2"]);
}

#[test]
fn a_name_that_nothing_matches_is_an_error_with_the_nearest_entries() {
    let mapping = mapping("[lookup]\n'model/wte' = 'w'\n[[rule]]\nfrom = 'model/h{n:int}/b'\nto = '{n}'");
    let error = fails(&mapping, &["model/wte", "model/hx/b", "model/wt"]);
    assert_says(&error, &["2 source names", "'model/hx/b' (nearest: rule 1 at line 4, 'model/h{n:int}/b')"]);
    assert_says(
        &error,
        &["'model/wt' (nearest: lookup at line 2, 'model/wte')", "identity = true", "names.toml"],
    );
}

#[test]
fn an_error_lists_only_the_first_few_names() {
    let names: Vec<String> = (0..100).map(|n| format!("n{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = fails(&rule("m", "m"), &names);
    assert_says(&error, &["100 source names", "'n04'", "and 95 more"]);
    assert!(!error.contains("'n05'"), "{error}");
}

#[test]
fn a_lookup_without_its_source_lists_the_nearest_names() {
    let mapping = mapping("identity = true\n[lookup]\n'model/wtee' = 'x'");
    let error = fails(&mapping, &["model/wpe", "model/wte"]);
    assert_says(&error, &["1 name that the source lacks", "'model/wtee'", "did you mean 'model/wte'"]);
}

#[test]
fn two_sources_on_one_target_name_both_and_their_rules() {
    let mapping = mapping("[lookup]\n'q' = 'z.1'\n[[rule]]\nfrom = '{x}/{n:int}'\nto = 'z.{n}'");
    assert_says(
        &fails(&mapping, &["a/1", "q"]),
        &["tensor z.1", "'a/1' by rule 1 at line 4 ('{x}/{n:int}' -> 'z.{n}')", "'q' by lookup"],
    );
    assert_says(&fails(&mapping, &["q", "a/2", "b/2"]), &["'a/2' by rule 1", "'b/2' by rule 1"]);
}

#[test]
fn identity_collides_like_every_other_entry() {
    let mapping = Mapping::lookup([("a", "b")]).unwrap();
    assert_says(&fails(&mapping, &["a", "b"]), &["'a' by lookup", "'b' by identity"]);
}

const OVERLAP: &str = "[[rule]]\nfrom = 'a/{x}'\nto = '1.{x}'\n[[rule]]\nfrom = '{y}/b'\nto = '2.{y}'";

#[test]
fn two_rules_on_one_name_are_an_error_that_lists_both() {
    let error = fails(&mapping(OVERLAP), &["a/b"]);
    assert_says(
        &error,
        &["tensor a/b", "rule 1 at line 2 ('a/{x}'", "rule 2 at line 5 ('{y}/b'", "ordered = true"],
    );
    assert_eq!(apply(&mapping(OVERLAP), &["a/c", "c/b"]).targets.len(), 2);
}

#[test]
fn with_ordered_the_first_rule_wins() {
    let applied = apply(&mapping(&format!("ordered = true\n{OVERLAP}")), &["a/b"]);
    assert_eq!(renamed(&applied)["a/b"], "1.b");
    assert_eq!(applied.unused, ["rule 2 at line 6 ('{y}/b' -> '2.{y}')"]);
}

#[test]
fn rules_that_match_exactly_the_same_names_are_refused() {
    let text = "ordered = true\n[[rule]]\nfrom = '{a}/x'\nto = '{a}'\n[[rule]]\nfrom = '{b}/x'\nto = 'c'";
    assert_says(&refused(text).to_string(), &["rules 1 and 2"]);
}

#[test]
fn a_rule_or_ignore_that_matches_nothing_is_reported() {
    let mapping =
        mapping("identity = true\nignore = ['opt/**', 'a']\n[[rule]]\nfrom = 'x{n:int}'\nto = 'y{n}'");
    assert_eq!(
        apply(&mapping, &["a"]).unused,
        ["rule 1 at line 4 ('x{n:int}' -> 'y{n}')", "ignore 'opt/**' at line 2"]
    );
}

#[test]
fn an_ignore_that_would_match_with_two_stars_says_so() {
    let mapping = mapping("identity = true\nignore = ['opt/*', 'x*']");
    let unused =
        ["ignore 'opt/*' at line 2; 'opt/**' would match 1 name, such as 'opt/a/b'", "ignore 'x*' at line 2"];
    assert_eq!(apply(&mapping, &["opt/a/b"]).unused, unused);
}

#[test]
fn a_source_name_given_twice_is_an_error() {
    assert_says(&fails(&Mapping::identity(), &["a", "a"]), &["two tensors of one name", "tensor a"]);
}

#[test]
fn two_lookups_with_one_target_are_refused() {
    assert_says(&refused("[lookup]\na = 'x'\nb = 'x'").to_string(), &["'a' and 'b'", "'x'"]);
    assert!(Mapping::lookup([("a", "x"), ("b", "x")]).is_err());
    assert!(Mapping::lookup([("a", "x"), ("a", "y")]).is_err());
}

#[test]
fn a_lookup_made_in_code_keeps_all_other_names() {
    let applied = apply(&Mapping::lookup([("a", "b"), ("b", "a")]).unwrap(), &["a", "b", "c"]);
    assert_eq!(renamed(&applied).into_values().collect::<Vec<_>>(), ["b", "a", "c"]);
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    let error = refused("identity = true\nseperator = '.'");
    assert_eq!(error.kind(), Kind::Mapping);
    assert_says(&error.to_string(), &["seperator", "target_separator", "line 2"]);
    assert_says(
        &refused("[[rule]]\nfrom = 'a'\nto = 'b'\nignore = []").to_string(),
        &["ignore", "before the first"],
    );
    assert_says(&refused("[[rule]]\nfrom = 'a'").to_string(), &["`to`", "needs from"]);
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    assert_says(&refused("\n\nidentity = maybe").to_string(), &["line 3", "offset"]);
    assert_says(&refused("[lookup]\na = 'x'\na = 'y'").to_string(), &["line 3", "remove one of the two"]);
    assert_says(
        &refused("[[rule]]\nfrom = '{n:ints}'\nto = 'a'").to_string(),
        &["did you mean 'int'?", "int2 to int9"],
    );
    refused(&"[".repeat(100_000));
    refused(&format!("ignore = {}", "[".repeat(100_000)));
}

#[test]
fn sizes_are_bounded() {
    let long = format!("{}{{x}}", "x".repeat(default_limit(Limit::PatternBytes)));
    let many: String =
        (0..=default_limit(Limit::Rules)).map(|n| format!("[[rule]]\nfrom='{n}'\nto='{n}'\n")).collect();
    let captures: String = (0..=default_limit(Limit::Captures)).map(|n| format!("{{x{n}}}/")).collect();
    for text in [
        format!("[[rule]]\nfrom = '{long}'\nto = 'x'"),
        format!("[[rule]]\nfrom = '{{x}}'\nto = '{long}'"),
        format!("ignore = ['{long}']"),
        format!("[[rule]]\nfrom = '{captures}'\nto = 'x'"),
        format!("ignore = ['{}']", "*a".repeat(default_limit(Limit::Captures) + 1)),
        format!("[lookup]\na = '{}'", "x".repeat((1 << 20) + 1)),
        "\n".repeat(default_limit(Limit::TextTokens) + 1),
        many,
    ] {
        assert_eq!(refused(&text).kind(), Kind::Limit);
    }
}

#[test]
fn names_are_bounded_before_they_are_built() {
    let mut limits = Limits::default();
    limits.set(Limit::NameBytes, 8);
    let doubling = rule("{x}", "{x}{x}");
    assert!(doubling.apply(&["abcd"], &limits).is_ok());
    assert_eq!(doubling.apply(&["abcde"], &limits).unwrap_err().kind(), Kind::Limit);
    assert_eq!(Mapping::identity().apply(&["abcdefghi"], &limits).unwrap_err().kind(), Kind::Limit);
    limits.set(Limit::Tensors, 1);
    assert_eq!(Mapping::identity().apply(&["a", "b"], &limits).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn the_inverse_maps_the_targets_to_the_sources() {
    let text = "identity = true\ntarget_separator = '.'\n[lookup]\n'a/b' = 'q'\n[[rule]]\n\
                from = 'm{n:int}/{x:path}'\nto = '{x}.at.{n}'";
    let applied = apply(&mapping(text), &["a/b", "m7/u/v", "rest"]);
    let targets: Vec<&str> = applied.plain().map(|(_, target)| target).collect();
    let inverse = applied.inverse.as_ref().unwrap();
    for back in [apply(inverse, &targets), apply(&applied.inverse_table().unwrap(), &targets)] {
        assert_eq!(back.targets.len(), 3);
        assert!(back.plain().all(|(target, source)| renamed(&applied)[source] == *target));
    }
    assert_says(&inverse.to_toml(), &["from = \"{x:path}.at.{n:int}\"", "to = \"m{n}/{x}\""]);
}

#[test]
fn a_capture_that_the_target_lacks_or_repeats_has_no_inverse() {
    let lost = rule("{x}/{n:int}", "{x}");
    assert_says(
        &lost.inverse().unwrap_err().to_string(),
        &["rule 1", "'n'", "does not appear", "names.toml"],
    );
    assert!(apply(&lost, &["a/1"]).inverse.is_err());
    assert_says(&rule("{x}", "{x}{x}").inverse().unwrap_err().to_string(), &["'x'", "more than once"]);
}

#[test]
fn rules_that_write_targets_of_one_form_have_no_inverse() {
    let text = "[[rule]]\nfrom = 'a/{x}'\nto = 'n.{x}'\n[[rule]]\nfrom = 'b/{y}'\nto = 'n.{y}'";
    assert_says(&mapping(text).inverse().unwrap_err().to_string(), &["rules 1 and 2"]);
}

#[test]
fn an_inverse_that_makes_other_names_is_refused_on_the_actual_names() {
    let mapping = rule("{a}/{b}", "{a}.{b}");
    assert!(mapping.inverse().is_ok());
    assert!(apply(&mapping, &["x/y.z"]).inverse.is_ok());
    let applied = apply(&mapping, &["x.y/z"]);
    let error = applied.inverse.as_ref().unwrap_err().to_string();
    assert_says(&error, &["'x/y.z'", "'x.y/z'", "inverse of names.toml"]);
    assert_eq!(target(&applied.inverse_table().unwrap(), "x.y.z").as_deref(), Some("x.y/z"));
}

#[test]
fn errors_show_names_on_one_line_and_shortened() {
    let name = format!("\x1b[31m\n{}", "x".repeat(5000));
    let error = fails(&rule("m", "m"), &[&name]);
    assert!(error.len() < 1000 && !error.contains(['\x1b', '\n']), "{error}");
}

#[test]
fn the_schema_has_exactly_the_keys_that_the_parser_knows() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../schemas/mapping.schema.json")).unwrap();
    for (pointer, text) in [("/properties", "? = 1"), ("/$defs/rule/properties", "[[rule]]\n? = 1")] {
        let keys: BTreeSet<&str> =
            schema.pointer(pointer).unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        let error = refused(&text.replace('?', "unknown")).message().to_owned();
        let known: BTreeSet<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(keys, known, "{error}");
    }
}
