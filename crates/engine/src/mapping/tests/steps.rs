//! Numbers, roles, steps, and rules over several tensors.

use super::super::default_limit;
use super::{apply, assert_says, fails, mapping, refused, rule, target};
use crate::mapping::{Applied, Mapping};
use ckpt_api::Kind;
use ckpt_api::Limit;

/// `name = sources: recipe`, one for each target.
fn shown(applied: &Applied) -> Vec<String> {
    let one = |target: &crate::recipe::Target| {
        let words = format!("{} = {}: {}", target.name, target.sources.join(" + "), target.recipe.describe());
        words.trim_end_matches([':', ' ']).to_owned()
    };
    applied.targets.iter().map(one).collect()
}

/// Asserts that the inverse makes the sources again, as rules and as a table, after a round trip through a file.
fn assert_round_trip(applied: &Applied, sources: &[&str]) {
    let targets: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
    for inverse in [applied.inverse.as_ref().unwrap(), &applied.inverse_table().unwrap()] {
        let back = apply(&mapping(&inverse.to_toml()), &targets);
        let names: Vec<&str> = back.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, sources, "{}", inverse.to_toml());
    }
}

fn inverse_error(mapping: &Mapping) -> String {
    mapping.inverse().unwrap_err().to_string()
}

#[test]
fn parts_may_take_turns_and_have_steps_of_their_own() {
    let toml = "[parameters.heads]\ndefault = '2'\n[[rule]]\nfrom = 'a{n:int}'\nto = ['k{n}', 'v{n}']\nsplit = 1\n\
                sizes = [3, 4]\nwhole = ['reshape _ -> {heads} _']\npart_steps = [['permute 0 2 1'], []]\n\
                [[rule]]\nfrom = 'b{n:int}'\nto = ['x{n}', 'y{n}']\nsplit = 2\ninterleaved = true\nsteps = ['permute 0 2 1']";
    let applied = apply(&mapping(toml).with_parameter("heads", 2).unwrap(), &["a1", "b1"]);
    assert_eq!(
        shown(&applied),
        [
            "k1 = a1: reshape _ -> 2 _, part 1 of 2 along axis 1, permute 0 2 1",
            "v1 = a1: reshape _ -> 2 _, part 2 of 2 along axis 1",
            "x1 = b1: part 1 of 2 along axis 2, interleaved, permute 0 2 1",
            "y1 = b1: part 2 of 2 along axis 2, interleaved, permute 0 2 1",
        ]
    );
    assert_round_trip(&applied, &["a1", "b1"]);
    let back = apply(applied.inverse.as_ref().unwrap(), &["k1", "v1", "x1", "y1"]);
    assert_eq!(
        shown(&back),
        [
            "a1 = k1 + v1: part 1: permute 0 2 1, merged along axis 1, reshape 2 _ -> _",
            "b1 = x1 + y1: permute 0 2 1, merged along axis 2, interleaved",
        ]
    );
}

#[test]
fn numbers_that_are_dequantized_may_be_split() {
    let toml = "[[rule]]\nfrom = ['{n:int}_blocks', '{n:int}_scales']\nto = ['x{n}', 'y{n}']\ndequantize = 'mxfp4'\n\
                dtype = 'bf16'\nsplit = 1\ninterleaved = true";
    let mapping = mapping(toml);
    let applied = apply(&mapping, &["1_blocks", "1_scales"]);
    assert_eq!(
        shown(&applied),
        [
            "x1 = 1_blocks + 1_scales: dequantized from MXFP4 to bf16, part 1 of 2 along axis 1, interleaved",
            "y1 = 1_blocks + 1_scales: dequantized from MXFP4 to bf16, part 2 of 2 along axis 1, interleaved",
        ]
    );
    assert_eq!(Mapping::from_toml(&mapping.to_toml(), "again").unwrap().to_toml(), mapping.to_toml());
}

#[test]
fn steps_of_parts_are_for_rules_that_split_or_merge() {
    let split = "[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 0\n";
    for (rule, says) in [
        (
            "[[rule]]\nfrom = 'a'\nto = 'b'\nwhole = ['transpose']".to_owned(),
            "a rule has whole, but no split",
        ),
        (
            "[[rule]]\nfrom = 'a'\nto = 'b'\ninterleaved = true".to_owned(),
            "a rule has interleaved, but no split",
        ),
        (format!("{split}interleaved = true\nsizes = [1, 2]"), "remove 'sizes'"),
        (format!("{split}whole = ['scale 2']"), "'scale 2'"),
        (format!("{split}part_steps = [['transpose']]"), "a list for each of 2 parts"),
        (
            format!("{split}part_steps = [[], ['transpose']]\nsteps = ['transpose']"),
            "no steps or role beside it",
        ),
    ] {
        assert_says(&refused(&rule).to_string(), &[says]);
    }
}

#[test]
fn a_padded_int_has_exactly_this_many_digits() {
    let padded = rule("h{n:int3}", "{n}");
    for (name, number) in [("h000", "0"), ("h007", "7"), ("h123", "123")] {
        assert_eq!(target(&padded, name).as_deref(), Some(number));
    }
    for name in ["h7", "h07", "h0007", "h", "h-01", "h0x1"] {
        assert_eq!(target(&padded, name), None, "{name}");
    }
    for width in 2..=9 {
        let name = format!("{:0>width$}", 5);
        assert_eq!(target(&rule(&format!("{{n:int{width}}}"), "{n}"), &name).as_deref(), Some("5"));
    }
    for width in ["int1", "int10", "int0"] {
        assert_says(
            &refused(&format!("[[rule]]\nfrom = '{{n:{width}}}'\nto = 'x'")).to_string(),
            &["unknown type"],
        );
    }
}

#[test]
fn to_pads_and_shifts_numbers() {
    let both = rule("h{n:int}/{m:int2}", "{n+1:int3}.{m-2}.{n}");
    assert_eq!(target(&both, "h9/12").as_deref(), Some("010.10.9"));
}

#[test]
fn a_number_that_does_not_fit_its_padding_is_an_error() {
    let error = fails(&rule("h{n:int}", "{n:int2}"), &["h99", "h100"]);
    assert_says(
        &error,
        &["more digits than its padding", "'n' is 100", "at most 2 digits", "rule 1 at line 2"],
    );
    assert_eq!(target(&rule("h{n:int}", "{n:int2}"), "h99").as_deref(), Some("99"));
}

#[test]
fn a_shift_below_zero_is_an_error() {
    let error = fails(&rule("h{n:int}", "{n-1}"), &["h1", "h0"]);
    assert_says(&error, &["is out of range", "tensor h0", "'n' is 0", "rule 1 at line 2"]);
    assert_says(&fails(&rule("h{n:int}", "{n+1}"), &["h18446744073709551615"]), &["is out of range"]);
    assert_says(&fails(&rule("h{n:int}", "{n+1}"), &["h18446744073709551616"]), &["too large to shift"]);
}

#[test]
fn only_numbers_are_padded_or_shifted() {
    for to in ["{x+1}", "{x:int2}", "{x:word}"] {
        let error = refused(&format!("[[rule]]\nfrom = '{{x}}'\nto = '{to}'")).to_string();
        assert_says(&error, &["not a number", "of type segment", "line 3, rule 1, to"]);
    }
    for to in ["{n+}", "{n+-1}", "{n--1}", "{n+1x}", "{n+1000001}", "{n+99999999999999999999}"] {
        let error = refused(&format!("[[rule]]\nfrom = '{{n:int}}'\nto = '{to}'")).to_string();
        assert_says(&error, &["a shift is not a number"]);
    }
    assert_says(&refused("[[rule]]\nfrom = '{n:int}'\nto = '{n:int}'").to_string(), &["int2 to int9"]);
    assert_says(&refused("[[rule]]\nfrom = '{n+1:int}'\nto = 'x'").to_string(), &["shift in 'to'"]);
}

#[test]
fn the_inverse_undoes_padding_and_shifts() {
    for (from, to, sources) in [
        ("h{n:int3}", "{n}", ["h007", "h012"]),
        ("h{n:int}", "{n:int3}", ["h12", "h7"]),
        ("h{n:int}", "{n-1}", ["h1", "h12"]),
        ("h{n:int2}", "x{n+5:int4}", ["h00", "h99"]),
    ] {
        assert_round_trip(&apply(&rule(from, to), &sources), &sources);
    }
    assert_says(
        &rule("h{n:int3}", "{n-1}").inverse().unwrap().to_toml(),
        &["from = \"{n:int}\"", "to = \"h{n+1:int3}\""],
    );
}

#[test]
fn a_rule_takes_the_steps_of_its_role_or_its_own() {
    let text = "[roles]\nkernel = ['permute 3 2 0 1', 'squeeze 0']\n[[rule]]\nfrom = 'k{n:int}'\nto = '{n}.w'\n\
                role = 'kernel'\n[[rule]]\nfrom = 'v'\nto = 'u'\nsteps = ['transpose']";
    let applied = apply(&mapping(text), &["k1", "v"]);
    assert_eq!(shown(&applied), ["1.w = k1: permute 3 2 0 1, squeeze 0", "u = v: transpose"]);
    assert_eq!(applied.plain().count(), 0);
    assert_round_trip(&applied, &["k1", "v"]);
    let inverse = applied.inverse.unwrap();
    assert_says(
        &inverse.to_toml(),
        &["\"kernel\" = [\"unsqueeze 0\", \"permute 2 3 1 0\"]", "role = \"kernel\""],
    );
    let back = apply(&inverse, &["1.w", "u"]);
    assert_eq!(shown(&back), ["k1 = 1.w: unsqueeze 0, permute 2 3 1 0", "v = u: transpose"]);
}

#[test]
fn a_role_must_exist_be_used_and_exclude_steps() {
    let kernel = "[roles]\nkernel = ['transpose']\n";
    let with = |line: &str| refused(&format!("{kernel}[[rule]]\nfrom = 'a'\nto = 'b'\n{line}")).to_string();
    assert_says(&with("role = 'kernal'"), &["line 2, roles, 'kernel'", "no rule uses this role"]);
    let unknown = format!(
        "{kernel}[[rule]]\nfrom = 'a'\nto = 'b'\nrole = 'kernel'\n[[rule]]\nfrom = 'c'\nto = 'd'\nrole = 'kernal'"
    );
    assert_says(
        &refused(&unknown).to_string(),
        &["line 10, rule 2, role", "'kernal'", "did you mean 'kernel'"],
    );
    assert_says(
        &with("role = 'kernel'\nsteps = ['transpose']"),
        &["line 6, rule 1, role", "both a role and steps"],
    );
}

#[test]
fn a_wrong_step_is_refused_with_its_line_and_the_nearest() {
    let error = refused("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = ['transpoze']").to_string();
    assert_says(&error, &["line 4, rule 1, steps", "did you mean 'transpose'"]);
    let error = refused("[roles]\nr = ['squeeze']\n[[rule]]\nfrom = 'a'\nto = 'b'\nrole = 'r'").to_string();
    assert_says(&error, &["line 2, roles, 'r'", "squeeze 0"]);
    let many = vec!["'transpose'"; default_limit(Limit::RuleSteps) + 1].join(",");
    let error = refused(&format!("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = [{many}]"));
    assert_eq!(error.kind(), Kind::Limit);
}

const SPLIT: &str = "[[rule]]\nfrom = 'h{n:int}/qkv'\nto = ['{n}.q', '{n}.k', '{n}.v']\nsplit = 1\n";

#[test]
fn a_split_makes_each_target_a_part() {
    let applied = apply(&mapping(&format!("{SPLIT}steps = ['transpose']")), &["h3/qkv"]);
    let parts = [
        "3.k = h3/qkv: part 2 of 3 along axis 1, transpose",
        "3.q = h3/qkv: part 1 of 3 along axis 1, transpose",
        "3.v = h3/qkv: part 3 of 3 along axis 1, transpose",
    ];
    assert_eq!(shown(&applied), parts);
    assert_round_trip(&applied, &["h3/qkv"]);
    let back = apply(applied.inverse.as_ref().unwrap(), &["3.k", "3.q", "3.v"]);
    assert_eq!(shown(&back), ["h3/qkv = 3.q + 3.k + 3.v: transpose, merged along axis 1"]);
}

const MERGE: &str = "[[rule]]\nfrom = ['l{n:int}/q', 'l{n:int}/k']\nto = '{n}.qk'\nmerge = 0\n";

#[test]
fn a_merge_takes_its_sources_in_the_order_of_the_rule() {
    let names = ["l0/k", "l0/q", "l1/k", "l1/q"];
    let applied = apply(&mapping(MERGE), &names);
    assert_eq!(
        shown(&applied),
        ["0.qk = l0/q + l0/k: merged along axis 0", "1.qk = l1/q + l1/k: merged along axis 0"]
    );
    assert_round_trip(&applied, &names);
}

#[test]
fn the_inverse_keeps_sizes() {
    let text = format!("{SPLIT}sizes = [768, 64, 64]");
    let inverse = mapping(&text).inverse().unwrap();
    assert_says(&inverse.to_toml(), &["merge = 1", "sizes = [768, 64, 64]"]);
    assert_eq!(inverse.inverse().unwrap().to_toml(), mapping(&text).to_toml());
}

#[test]
fn a_merge_that_lacks_a_source_names_it_unless_all_are_missing() {
    let error = fails(&mapping(MERGE), &["l0/k", "l0/q", "l1/k"]);
    assert_says(
        &error,
        &["only some of its sources", "'l1/k', but not 'l1/q'", "rule 1 at line 2", "names.toml"],
    );
    assert!(apply(&mapping(&format!("identity = true\n{MERGE}")), &["other"]).unused.len() == 1);
}

#[test]
fn padding_is_kept_in_the_name_of_a_missing_source() {
    let text = "[[rule]]\nfrom = ['a{n:int3}', 'b{n:int3}']\nto = '{n}'\nmerge = 0";
    assert_says(&fails(&mapping(text), &["a007"]), &["'a007', but not 'b007'"]);
}

#[test]
fn a_tie_gives_one_tensor_several_names_and_reads_the_first_of_them_back() {
    let tie = mapping("[[rule]]\nfrom = 'wte'\nto = ['wte.weight', 'lm_head.weight']\ntie = true");
    let applied = apply(&tie, &["wte"]);
    assert_eq!(shown(&applied), ["lm_head.weight = wte", "wte.weight = wte"]);
    assert_eq!(applied.plain().count(), 2);
    assert_round_trip(&applied, &["wte"]);
    let back = apply(applied.inverse.as_ref().unwrap(), &["lm_head.weight", "wte.weight"]);
    assert_eq!(shown(&back), ["wte = wte.weight + lm_head.weight: the first of equal tensors"]);
    let error = fails(applied.inverse.as_ref().unwrap(), &["lm_head.weight"]);
    assert_says(&error, &["but not 'wte.weight'"]);
}

#[test]
fn one_of_several_targets_collides_like_any_other() {
    let text = format!("{SPLIT}[[rule]]\nfrom = 'x'\nto = '3.k'");
    assert_says(
        &fails(&mapping(&text), &["h3/qkv", "x"]),
        &["tensor 3.k", "'h3/qkv' by rule 1", "'x' by rule 2"],
    );
}

#[test]
fn the_names_of_from_have_the_same_captures() {
    for (from, words) in [
        ("'a{n:int}', 'b'", ["none", "{n:int}"]),
        ("'a{n:int}', 'b{m:int}'", ["{m:int}", "{n:int}"]),
        ("'a{n:int}', 'b{n:int3}'", ["{n:int3}", "{n:int}"]),
        ("'a{n}', 'b{n:word}'", ["{n:word}", "{n:segment}"]),
    ] {
        let error = refused(&format!("[[rule]]\nfrom = [{from}]\nto = 'x'\nmerge = 0")).to_string();
        assert_says(&error, &["different captures", "line 2, rule 1, from", words[0], words[1]]);
    }
}

#[test]
fn the_names_of_a_list_differ() {
    let error = refused("[[rule]]\nfrom = ['a{n}', 'a{n}']\nto = 'x'\nmerge = 0").to_string();
    assert_says(&error, &["match exactly the same names", "rule 1, from"]);
    let error = refused("[[rule]]\nfrom = 'a'\nto = ['x', 'x']\nsplit = 0").to_string();
    assert_says(&error, &["'to' has the same name twice", "line 3, rule 1, to"]);
    let text = "[[rule]]\nfrom = ['{n}/x', 'y/{n}']\nto = '{n}'\nmerge = 0";
    assert_says(&fails(&mapping(text), &["y/x"]), &["two patterns of one rule", "tensor y/x"]);
}

#[test]
fn split_merge_and_tie_need_their_number_of_names() {
    let list = "['a', 'b']";
    for (from, to, relation, words) in [
        (list, "'x'", "", ["a rule has the wrong number", "a list needs split"]),
        ("'x'", list, "", ["a rule has the wrong number", "2 in 'to'"]),
        ("'x'", list, "tie = false", ["a rule has the wrong number", "2 in 'to'"]),
        ("'x'", "'y'", "split = 0", ["a split", "to: a list"]),
        (list, "'y'", "split = 0", ["a split", "2 in 'from'"]),
        ("'x'", "'y'", "merge = 0", ["a merge", "from: a list"]),
        ("'x'", list, "merge = 0", ["a merge", "from: a list"]),
        ("'x'", "'y'", "tie = true", ["a tie", "1 in 'to'"]),
        (list, "['x', 'y']", "tie = true", ["a tie", "2 in 'from'"]),
        ("[]", "'x'", "merge = 0", ["a merge", "0 in 'from'"]),
        ("'x'", "['y']", "split = 0", ["a split", "1 in 'to'"]),
    ] {
        let error = refused(&format!("[[rule]]\nfrom = {from}\nto = {to}\n{relation}")).to_string();
        assert_says(&error, &["line 2, rule 1", words[0], words[1]]);
    }
    let many: Vec<String> = (0..=default_limit(Limit::RuleNames)).map(|n| format!("'{n}'")).collect();
    let error = refused(&format!("[[rule]]\nfrom = 'x'\nto = [{}]\nsplit = 0", many.join(",")));
    assert_eq!(error.kind(), Kind::Limit);
}

#[test]
fn a_rule_is_a_split_or_a_merge_or_a_tie() {
    for both in ["split = 0\nmerge = 0", "split = 0\ntie = true", "merge = 0\ntie = true"] {
        let error = refused(&format!("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\n{both}")).to_string();
        assert_says(
            &error,
            &["more than one of split, merge, stack, unstack, tie and sum", "line 2, rule 1"],
        );
    }
}

#[test]
fn an_axis_is_a_small_number() {
    for axis in ["64", "18446744073709551615"] {
        let text = format!("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = {axis}");
        refused(&text);
    }
    assert_says(
        &refused("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 64").to_string(),
        &["line 4, rule 1, split", "below 64"],
    );
    assert_says(&refused("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = -1").to_string(), &["line 4"]);
    assert_says(&refused("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 'all'").to_string(), &["line 4"]);
}

#[test]
fn sizes_are_one_for_each_part() {
    let with = |sizes: &str| refused(&format!("{SPLIT}sizes = {sizes}")).to_string();
    assert_says(&with("[1, 2]"), &["line 5, rule 1, sizes", "found 2, expected 3"]);
    assert_says(&with("[1, 0, 2]"), &["numbers of at least 1"]);
    assert_says(
        &with("[9223372036854775807, 9223372036854775807, 9223372036854775807]"),
        &["not valid lengths"],
    );
    let error = refused("[[rule]]\nfrom = 'a'\nto = 'b'\nsizes = [1]").to_string();
    assert_says(&error, &["no split or merge", "line 4"]);
}

#[test]
fn a_wrong_type_is_refused_with_its_line() {
    for (text, words) in [
        ("identity = 'yes'", vec!["line 1", "boolean", "true or false"]),
        ("lookup = 3", vec!["line 1", "write a table"]),
        ("[[rule]]\nfrom = 7\nto = 'a'", vec!["line 2", "write a name or a list of names"]),
        ("[[rule]]\nfrom = 'a'\nto = [7]", vec!["line 3", "string", "quotation marks"]),
        (
            "[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = 'transpose'",
            vec!["line 4", "sequence", "a list in brackets"],
        ),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\ntie = 1", vec!["line 4", "boolean"]),
        ("[lookup]\na = ['b']", vec!["line 2", "string"]),
        ("[roles]\na = 'b'", vec!["line 2", "sequence"]),
    ] {
        assert_says(&refused(text).to_string(), &words);
    }
}

#[test]
fn an_unknown_key_names_the_nearest() {
    assert_says(&refused("identify = true").to_string(), &["did you mean 'identity'", "line 1"]);
    let error = refused("[[rule]]\nfrom = 'a'\nto = 'b'\nstep = []").to_string();
    assert_says(&error, &["did you mean 'steps'", "line 4"]);
}

#[test]
fn a_rule_that_can_never_decide_is_refused() {
    let error = refused("[lookup]\na = 'x'\n[[rule]]\nfrom = 'a'\nto = 'y'").to_string();
    assert_says(&error, &["never applies", "rule 1 at line 4", "'a' is in [lookup]: lookup at line 2"]);
    let error =
        refused("ignore = ['opt/**']\n[[rule]]\nfrom = ['a', 'opt/b']\nto = 'y'\nmerge = 0").to_string();
    assert_says(
        &error,
        &["never applies", "rule 1 at line 3", "ignore 'opt/**' at line 1 drops all of 'opt/b'"],
    );
}

#[test]
fn a_rule_is_hidden_by_what_matches_all_its_names_and_by_nothing_less() {
    let rule = |from: &str| format!("[[rule]]\nfrom = '{from}'\nto = 'y'\n");
    for (ignore, from) in [
        ("adam/**", "adam/{x}/m"),
        ("**", "{p:path}"),
        ("h{n:int}/*", "h{n:int}/w"),
        ("{w:word}", "{n:int3}"),
        ("{p:path}", "a/{x:word}"),
    ] {
        let hidden = format!("ignore = ['{ignore}']\n{}", rule(from));
        assert_says(&refused(&hidden).to_string(), &["never applies", "ignore '", "rule 1 at line 3"]);
    }
    for (ignore, from) in [
        ("adam/*", "adam/{p:path}"),
        ("h7/**", "h{n:int}/w"),
        ("{n:int}", "{n:int3}"),
        ("{w:word}", "{x}"),
        ("a*", "{x}"),
        // An int has no leading zeros, but two ints in a row can have.
        ("{n:int}", "{a:int}{b:int}"),
        ("h{n:int}", "h{a:int}1"),
    ] {
        mapping(&format!("ignore = ['{ignore}']\n{}", rule(from)));
    }
    let (wide, narrow) = (rule("{x}/w"), rule("h{n:int}/w"));
    let error = refused(&format!("ordered = true\n{wide}{narrow}")).to_string();
    assert_says(&error, &["never applies", "rule 2 at line 6", "rule 1 at line 3", "comes first"]);
    mapping(&format!("ordered = true\n{narrow}{wide}"));
    mapping(&format!("{wide}{narrow}"));
}

#[test]
fn a_rule_that_is_hidden_backwards_has_no_inverse() {
    let text = "ordered = true\n[[rule]]\nfrom = '{x}'\nto = '{x}'\n[[rule]]\nfrom = '/{n:int}'\nto = '{n}'";
    assert_says(
        &inverse_error(&mapping(text)),
        &["never applies", "rule 2", "rule 1", "inverse of names.toml"],
    );
    let text = "[lookup]\na = 'x'\n[[rule]]\nfrom = 'b'\nto = 'x'";
    assert_says(&inverse_error(&mapping(text)), &["never applies", "rule 1", "'x' is in [lookup]"]);
}

#[test]
fn a_lookup_error_has_its_line() {
    assert_says(&refused("[lookup]\na = 'x'\n\nb = 'x'").to_string(), &["line 4, lookup, 'b'"]);
}

#[test]
fn every_message_about_an_entry_of_a_file_has_its_line() {
    let text = "ignore = [\n  'a',\n  'b',\n]\n[lookup]\nc = 'd'\n[[rule]]\nfrom = '{x}/e'\nto = '{x}'";
    let mapping = mapping(text);
    assert_says(&fails(&mapping, &["x"]), &["line 6"]);
    assert_says(&fails(&mapping, &["c", "d/e"]), &["'c' by lookup at line 6", "rule 1 at line 8"]);
    assert_says(&fails(&mapping, &["c", "cc"]), &["nearest: lookup at line 6, 'c'"]);
    assert_eq!(apply(&mapping, &["a", "c"]).unused[1..], ["ignore 'b' at line 3"]);
    assert_says(&refused("ignore = [\n'a',\n'{b']").to_string(), &["line 3, ignore, '{b'"]);
    assert_says(&fails(&mapping.inverse().unwrap(), &["e"]), &["lookup at line 6", "inverse of names.toml"]);
}

#[test]
fn ignore_roles_takes_every_role_but_weight() {
    use ckpt_api::{DType, Role, Shape, Tensor};
    let tensor = |(name, role)| Tensor::new(name, DType::F32, Shape::scalar()).with_role(role);
    let tensors = [("a", Role::Weight), ("m", Role::Optimizer), ("n", Role::Counter)].map(tensor);
    let mapping = mapping("identity = true\nignore_roles = ['optimizer']\n");
    let applied = mapping.apply_to(&tensors, &ckpt_api::Limits::default()).unwrap();
    assert_eq!((applied.targets.len(), &applied.dropped[..]), (2, &["m".to_owned()][..]));
    let error = refused("ignore_roles = [\n'counter',\n'optimiser']").to_string();
    assert_says(&error, &["line 3, ignore_roles", "'optimiser'", "did you mean 'optimizer'"]);
    assert_says(&refused("ignore_roles = ['weight']").to_string(), &["list them in 'ignore'"]);
    assert_says(&mapping.to_toml(), &["ignore_roles = [\"optimizer\"]"]);
    assert!(mapping.inverse().unwrap().ignored_roles().is_empty(), "dropped names do not come back");
}

#[test]
fn two_names_may_change_places() {
    let swap = mapping("[lookup]\na = 'b'\nb = 'a'");
    assert_round_trip(&apply(&swap, &["a", "b"]), &["a", "b"]);
    let chain = mapping("[lookup]\na = 'b'\nb = 'c'");
    assert_round_trip(&apply(&chain, &["a", "b"]), &["a", "b"]);
}

#[test]
fn rules_whose_inverses_make_other_names_have_no_inverse_on_those_names() {
    let text = "ordered = true\n[[rule]]\nfrom = 'a{x}'\nto = 'p{x}'\n[[rule]]\nfrom = 'b{x}'\nto = '{x}q'";
    assert!(apply(&mapping(text), &["az", "bz"]).inverse.is_ok());
    let applied = apply(&mapping(text), &["bpz"]);
    assert_says(
        &applied.inverse.unwrap_err().to_string(),
        &["cannot be inverted for these names", "inverse of names.toml"],
    );
}

#[test]
fn a_rule_can_declare_that_it_has_no_inverse() {
    let text = "[[rule]]\nfrom = '{x}/{n:int}'\nto = '{n}'\ninverse = false";
    let error = inverse_error(&mapping(text));
    assert_says(&error, &["rule 1 at line 2", "inverse = false", "names.toml"]);
    let applied = apply(&mapping(text), &["a/1"]);
    assert!(applied.inverse.is_err());
    assert_eq!(target(&applied.inverse_table().unwrap(), "1").as_deref(), Some("a/1"));
    assert_says(&mapping(text).to_toml(), &["inverse = false"]);
}

#[test]
fn every_name_of_to_has_every_capture_or_the_rule_has_no_inverse() {
    let error = inverse_error(&mapping("[[rule]]\nfrom = '{n:int}'\nto = ['a{n}', 'b']\nsplit = 0"));
    assert_says(&error, &["'n' does not appear", "rule 1 at line 2", "`Applied::inverse_table`"]);
    let error = inverse_error(&mapping("[[rule]]\nfrom = '{n:int}'\nto = ['a{n}', 'b{n+1}']\nsplit = 0"));
    assert_says(&error, &["'n' in different ways"]);
}

#[test]
fn a_table_with_a_title_keeps_it() {
    let titled = mapping("title = \"A \\\"to\\\" B\"\nidentity = true");
    assert_eq!(titled.title(), Some("A \"to\" B"));
    assert_eq!(mapping(&titled.to_toml()).title(), titled.title());
}

#[test]
fn the_description_of_a_rule_has_its_steps() {
    let words: Vec<String> = mapping(&format!("{SPLIT}steps = ['transpose']\n{MERGE}steps = ['squeeze 0']"))
        .rules()
        .into_iter()
        .flat_map(|report| [report.rule, report.inverse.unwrap()])
        .collect();
    assert_says(&words[0], &["rule 1 at line 2", "'{n}.v', split along axis 1, transpose"]);
    assert_says(&words[1], &["-> 'h{n}/qkv', transpose, merged along axis 1"]);
    assert_says(&words[2], &["squeeze 0, merged along axis 0"]);
    assert_says(&words[3], &["split along axis 0, unsqueeze 0"]);
}

#[test]
fn an_explanation_has_the_decision_and_the_result_of_the_inverse() {
    use crate::mapping::{Back, Decision};
    let text = format!("ignore = ['opt/*']\n[lookup]\na = 'b'\n{SPLIT}");
    let explain = |name: &str| mapping(&text).explain(name, &ckpt_api::Limits::default()).unwrap();
    assert_eq!(explain("a").decision, Decision::Lookup { line: Some(3) });
    assert_eq!(explain("opt/m").decision, Decision::Ignored { pattern: "opt/*".to_owned(), line: Some(1) });
    let split = explain("h12/qkv");
    assert_eq!((split.captures["n"].as_str(), split.targets.len()), ("12", 3));
    let Some(Back::Leads(back)) = split.back else { panic!("{:?}", split.back) };
    assert_eq!((back[0].name.as_str(), back[0].sources.len()), ("h12/qkv", 3));
    let Decision::Nothing { nearest: Some(nearest) } = explain("h12/qkx").decision else { panic!() };
    assert_eq!((nearest.fits.as_str(), nearest.rest.as_str()), ("h12/qk", "x"));
    let Decision::Nothing { nearest: Some(nearest) } = explain("h").decision else { panic!() };
    assert_eq!((nearest.fits.as_str(), nearest.rest.as_str()), ("h", ""));
    assert_eq!(explain("zzz").decision, Decision::Nothing { nearest: None });
}

#[test]
fn an_explanation_names_all_sources_of_a_merge() {
    let explained = mapping(MERGE).explain("l3/k", &ckpt_api::Limits::default()).unwrap();
    assert_eq!(explained.targets[0].sources, ["l3/q", "l3/k"]);
}

#[test]
fn a_table_takes_names_with_stars_and_braces_and_of_any_length() {
    let name = format!("{{*}} {}", "x".repeat(70_000));
    let applied = apply(&mapping("[[rule]]\nfrom = '{x}'\nto = 'b.{x}'\nsteps = ['transpose']"), &[&name]);
    let table = applied.inverse_table().unwrap();
    let reread = mapping(&table.to_toml());
    assert_round_trip(&apply(&reread, &[&format!("b.{name}")]), &[&format!("b.{name}")]);
}
