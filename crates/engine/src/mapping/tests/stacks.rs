//! Rules that make one tensor of numbered ones, and back.

use super::{apply, assert_says, fails, mapping, refused};
use crate::mapping::Mapping;
use crate::recipe::{AxisStep, Join};
use ckpt_api::{DType, Kind, Limits, Shape, Tensor};

const EXPERTS: &str = "
    [[rule]]
    from = ['l{layer:int}.e{expert:int}.w1', 'l{layer:int}.e{expert:int}.w3']
    to = 'l.{layer}.gate_up'
    merge = 0
    stack = 'expert'
    [[rule]]
    from = 'l{layer:int}.e{expert:int}.w2'
    to = 'l.{layer}.down'
    stack = 'expert'
    stack_axis = 1
    steps = ['transpose']";

fn names(layers: usize, experts: usize) -> Vec<String> {
    let parts = |layer, expert| ["w1", "w2", "w3"].map(|part| format!("l{layer}.e{expert}.{part}"));
    (0..layers).flat_map(|layer| (0..experts).flat_map(move |expert| parts(layer, expert))).collect()
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn tensor(name: &str, shape: &[u64]) -> Tensor {
    Tensor::new(name, DType::F32, Shape::new(shape).unwrap())
}

#[test]
fn a_stack_takes_its_elements_in_the_order_of_their_numbers() {
    let applied = apply(&mapping(EXPERTS), &texts(&names(2, 12)));
    let found: Vec<&str> = applied.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(found, ["l.0.down", "l.0.gate_up", "l.1.down", "l.1.gate_up"]);
    let [down, gate_up, ..] = &applied.targets[..] else { panic!("{found:?}") };
    let expected: Vec<String> = (0..12).map(|expert| format!("l0.e{expert}.w2")).collect();
    assert_eq!(down.sources, expected);
    assert_eq!(down.recipe.describe(), "transpose, stacked along axis 1");
    assert_eq!(gate_up.sources[..4], ["l0.e0.w1", "l0.e0.w3", "l0.e1.w1", "l0.e1.w3"]);
    assert_eq!(gate_up.recipe.describe(), "each 2 merged along axis 0, stacked along axis 0");
}

#[test]
fn stacks_side_by_side_have_as_many_elements() {
    let mut sources = names(2, 4);
    sources.retain(|name| name != "l1.e3.w2");
    let error = fails(&mapping(EXPERTS), &texts(&sources));
    let says = ["lacks elements", "3 elements, but not 'l1.e3.w2'", "4 elements, as from 'l1.e0.w1' on"];
    assert_says(&error, &says);
    // Another layer may have fewer.
    sources.retain(|name| !name.starts_with("l1.e3."));
    assert_eq!(apply(&mapping(EXPERTS), &texts(&sources)).targets.len(), 4);
}

#[test]
fn the_inverse_of_a_stack_takes_the_number_of_elements_from_the_shape() {
    let sources = names(2, 5);
    let inverse = apply(&mapping(EXPERTS), &texts(&sources)).inverse.unwrap();
    let inverse = mapping(&inverse.to_toml());
    let stacks = [
        tensor("l.0.gate_up", &[5, 8, 4]),
        tensor("l.1.gate_up", &[5, 8, 4]),
        tensor("l.0.down", &[4, 5, 4]),
        tensor("l.1.down", &[4, 5, 4]),
    ];
    let back = inverse.apply_to(&stacks, &Limits::default()).unwrap();
    let mut found: Vec<String> = back.targets.iter().map(|target| target.name.clone()).collect();
    let mut expected = sources;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let third = back.targets.iter().find(|target| target.name == "l1.e3.w3").unwrap();
    assert_eq!(third.sources, ["l.1.gate_up"]);
    assert!(matches!(third.recipe.join, Join::Element { axis: 0, index: 3, .. }), "{:?}", third.recipe);
    assert_eq!(third.recipe.describe(), "element 3 of axis 0, part 2 of 2 along axis 0");
    let down = back.targets.iter().find(|target| target.name == "l1.e3.w2").unwrap();
    assert_eq!((down.recipe.steps.as_slice(), down.recipe.join.number()), (&[AxisStep::Transpose][..], 3));
    let again = back.inverse.unwrap().apply(&texts(&expected), &Limits::default()).unwrap();
    assert_eq!(again.targets.len(), 4);
    assert_says(&fails(&inverse, &["l.0.down"]), &["names alone", "axis 1"]);
}

#[test]
fn a_stack_has_no_limit_below_4096_elements() {
    let names: Vec<String> = (0..4096).map(|expert| format!("l0.e{expert}.w2")).collect();
    let applied = apply(&mapping(EXPERTS), &texts(&names));
    assert_eq!(applied.targets[0].sources.len(), 4096);
    applied.inverse.unwrap();
}

#[test]
fn gaps_and_missing_parts_of_a_stack_are_errors_that_name_them() {
    let experts = mapping(EXPERTS);
    let all = names(1, 4);
    let without = |left_out: &[&str]| -> Vec<&str> {
        all.iter().map(String::as_str).filter(|name| !left_out.contains(name)).collect()
    };
    let gap = fails(&experts, &without(&["l0.e2.w2"]));
    assert_says(&gap, &["gap", "3 elements, up to number 3", "'l0.e2.w2'", "rule 2 at line 8"]);
    let first = fails(&experts, &without(&["l0.e0.w1", "l0.e0.w3"]));
    assert_says(&first, &["gap", "'l0.e0.w1'"]);
    let part = fails(&experts, &without(&["l0.e1.w3"]));
    assert_says(&part, &["only some of its sources", "'l0.e1.w1', but not 'l0.e1.w3'"]);
    let large = fails(&experts, &["l0.e99999999999999999999.w2"]);
    assert_says(&large, &["too large", "l0.e99999999999999999999.w2"]);
    let far = fails(&experts, &["l0.e0.w2", "l0.e18446744073709551615.w2"]);
    assert_says(&far, &["gap", "'l0.e1.w2'"]);
}

#[test]
fn two_sources_of_one_element_are_an_error_that_names_both() {
    let text = "[[rule]]\nfrom = '{side:word}.e{expert:int}'\nto = 'all'\nstack = 'expert'";
    let twice = fails(&mapping(text), &["a.e0", "b.e0"]);
    assert_says(&twice, &["same element of a stack", "'a.e0'", "'b.e0'"]);
}

#[test]
fn a_stack_of_no_elements_is_an_error() {
    let unstack = mapping("[[rule]]\nfrom = 'all'\nto = 'e{expert}'\nunstack = 'expert'");
    let of = |shape: &[u64]| {
        unstack.apply_to(&[tensor("all", shape)], &Limits::default()).map(|applied| applied.targets.len())
    };
    assert_eq!(of(&[3, 2]).unwrap(), 3);
    assert_says(&of(&[0, 2]).unwrap_err().to_string(), &["no elements", "'all'"]);
    assert_eq!(of(&[]).unwrap_err().kind(), Kind::Mapping);
    let error = of(&[1 << 40]).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
}

#[test]
fn a_stack_rule_names_a_number_of_the_right_side() {
    let wrong = |keys: &str| refused(&format!("[[rule]]\n{keys}")).to_string();
    assert_says(&wrong("from = 'e{x}'\nto = 's'\nstack = 'x'"), &["'stack'", "{expert:int}"]);
    assert_says(&wrong("from = 'e{x:int}'\nto = 's'\nstack = 'y'"), &["'stack'", "'y'"]);
    assert_says(&wrong("from = 'e{x:int}'\nto = 's{x}'\nstack = 'x'"), &["leave it out"]);
    assert_says(&wrong("from = 's'\nto = 'e'\nunstack = 'x'"), &["need their number"]);
    assert_says(&wrong("from = 's'\nto = 'e{x+1}'\nunstack = 'x'"), &["without a shift"]);
    assert_says(&wrong("from = 's{x:int}'\nto = 'e{x}'\nunstack = 'x'"), &["'unstack'"]);
    assert_says(&wrong("from = 's'\nto = 'e{x}'\nunstack = 'x'\nmerge = 0"), &["more than one of"]);
    assert_says(&wrong("from = 's'\nto = 'e'\nstack_axis = 1"), &["stack_axis"]);
    assert_says(&wrong("from = ['e{x:int}', 'f{x:int}']\nto = 's'\nstack = 'x'"), &["without merge"]);
}

#[test]
fn explaining_an_element_shows_its_stack_and_the_way_back() {
    let explained = mapping(EXPERTS).explain("l0.e7.w3", &Limits::default()).unwrap();
    assert_eq!(explained.captures["expert"], "7");
    assert_eq!(explained.targets[0].name, "l.0.gate_up");
    let inverse: Mapping = mapping(EXPERTS).inverse().unwrap();
    let explained = inverse.explain("l.0.gate_up", &Limits::default()).unwrap();
    assert_eq!(explained.targets[0].name, "l0.e0.w1");
}

const COUNTED: &str = "
    [[rule]]
    from = 'l{layer:int}.router'
    to = 'l{layer}.gate'
    [[rule]]
    from = 'l{layer:int}.e{expert:int}.w'
    to = 'l{layer}.w'
    stack = 'expert'
    stack_count = 'l{layer}.router'";

/// Experts of layer 0 with these numbers, and a router of this shape.
fn routed(experts: &[u64], router: &[u64]) -> Vec<Tensor> {
    let experts = experts.iter().map(|expert| tensor(&format!("l0.e{expert}.w"), &[3, 2]));
    experts.chain([tensor("l0.router", router)]).collect()
}

#[test]
fn a_stack_has_as_many_elements_as_the_tensor_that_counts_them() {
    let of = |experts: &[u64], router: &[u64]| {
        mapping(COUNTED)
            .apply_to(&routed(experts, router), &Limits::default())
            .map(|applied| applied.targets.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(of(&[0, 1, 2], &[3, 5]), Ok(2));
    let last = of(&[0, 1, 2], &[4, 5]).unwrap_err();
    let says =
        ["lacks elements at its end", "3 elements, but not 'l0.e3.w'", "4 elements", "'l0.router'", "rule 2"];
    assert_says(&last, &says);
    let more = of(&[0, 1, 2], &[2, 5]).unwrap_err();
    assert_says(&more, &["more elements", "3 elements, up to 'l0.e2.w'", "2 elements, the length of axis 0"]);
    let gap = of(&[0, 2], &[4, 5]).unwrap_err();
    assert_says(
        &gap,
        &["gap", "2 elements, up to number 2, but not 'l0.e1.w'", "4 elements, the length of axis 0"],
    );
    assert_says(&of(&[0], &[]).unwrap_err(), &["more elements", "0 elements", "stack_count"]);
    assert_says(&of(&[0], &[0, 5]).unwrap_err(), &["more elements", "0 elements"]);
}

#[test]
fn a_stack_whose_counting_tensor_is_absent_has_the_elements_that_the_names_show() {
    let experts = mapping(COUNTED);
    let mut tensors = routed(&[0, 1, 2], &[8, 5]);
    tensors.pop();
    assert_eq!(experts.apply_to(&tensors, &Limits::default()).unwrap().targets.len(), 1);
    // Names have no lengths.
    assert_eq!(apply(&experts, &["l0.e0.w", "l0.router"]).targets.len(), 2);
}

#[test]
fn a_count_is_a_name_for_the_whole_stack_of_a_rule_that_stacks() {
    let wrong = |keys: &str| refused(&format!("[[rule]]\n{keys}")).to_string();
    let of_element = wrong("from = 'e{x:int}'\nto = 's'\nstack = 'x'\nstack_count = 'r{x}'");
    assert_says(&of_element, &["'stack_count'", "'r{x}'", "the name of one tensor"]);
    let unknown = wrong("from = 'e{x:int}'\nto = 's'\nstack = 'x'\nstack_count = 'r{y}'");
    assert_says(&unknown, &["stack_count", "'{y}'"]);
    for keys in ["to = 'e{x}'\nunstack = 'x'", "to = 't'"] {
        let alone = wrong(&format!("from = 's'\n{keys}\nstack_count = 'r'"));
        assert_says(&alone, &["stack_count, but no stack"]);
    }
}

#[test]
fn a_count_is_printed_and_the_inverse_takes_the_length_of_the_axis() {
    let experts = mapping(COUNTED);
    let text = experts.to_toml();
    assert!(text.contains("stack_count = \"l{layer}.router\"\n"), "{text}");
    assert_eq!(mapping(&text).to_toml(), text);
    let applied = experts.apply_to(&routed(&[0, 1, 2], &[3, 5]), &Limits::default()).unwrap();
    let inverse = applied.inverse.unwrap();
    assert!(!inverse.to_toml().contains("stack_count"));
    let stacked = [tensor("l0.w", &[3, 3, 2]), tensor("l0.gate", &[3, 5])];
    assert_eq!(inverse.apply_to(&stacked, &Limits::default()).unwrap().targets.len(), 4);
}
