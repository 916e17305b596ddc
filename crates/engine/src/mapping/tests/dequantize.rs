//! Rules that make numbers of quantized elements and their scales.

use super::{assert_says, mapping, refused};
use crate::recipe::Join;
use ckpt_api::{DType, Error, Kind, Limits, Shape, Tensor};

const FP8: &str = "
    separator = '.'
    [[rule]]
    from = ['{name:path}.weight', '{name:path}.weight_scale_inv']
    to = '{name}.numbers'
    dequantize = 'scaled'
    block = [128, 128]
    dtype = 'bf16'";

fn tensors(names: &[(&str, DType)]) -> Vec<Tensor> {
    names.iter().map(|(name, dtype)| Tensor::new(*name, *dtype, Shape::new([2, 2]).unwrap())).collect()
}

fn error(names: &[(&str, DType)]) -> Error {
    mapping(FP8).apply_to(&tensors(names), &Limits::default()).unwrap_err()
}

#[test]
fn elements_and_scales_become_one_tensor_and_what_is_not_quantized_only_gets_its_name() {
    let (fp8, f32) = (DType::F8E4m3, DType::F32);
    let names = [("a.weight", fp8), ("a.weight_scale_inv", f32), ("norm.weight", DType::Bf16)];
    let applied = mapping(FP8).apply_to(&tensors(&names), &Limits::default()).unwrap();
    let [numbers, norm] = &applied.targets[..] else { panic!("{:?}", applied.targets) };
    assert_eq!(
        (&numbers.name[..], &numbers.sources[..]),
        ("a.numbers", &["a.weight".into(), "a.weight_scale_inv".into()][..])
    );
    let Join::Dequantized(how) = &numbers.recipe.join else { panic!("{numbers:?}") };
    assert_eq!((how.block.as_deref(), how.dtype), (Some(&[128, 128][..]), DType::Bf16));
    assert!(norm.name == "norm.numbers" && norm.recipe.is_plain());
}

#[test]
fn missing_scales_and_missing_elements_are_errors_of_their_own() {
    let lonely = error(&[("a.weight", DType::F8E4m3)]);
    assert_says(&lonely.to_string(), &["a quantized tensor has no scales", "not 'a.weight_scale_inv'"]);
    let orphan = error(&[("b.weight_scale_inv", DType::F32)]);
    assert_says(&orphan.to_string(), &["scales belong to no tensor", "not 'b.weight'"]);
    assert!([lonely, orphan].iter().all(|error| error.kind() == Kind::Mapping));
}

#[test]
fn such_a_rule_is_written_as_it_is_read_and_has_no_inverse() {
    let text = mapping(FP8).to_toml();
    assert_says(&text, &["dequantize = \"scaled\"\nblock = [128, 128]\ndtype = \"bf16\"\n"]);
    assert_eq!(mapping(&text).to_toml(), text);
    let inverse = mapping(FP8).inverse().unwrap_err().to_string();
    assert_says(&inverse, &["cannot be inverted", "the scales are not kept"]);
}

#[test]
fn keys_that_do_not_fit_a_rule_that_dequantizes_are_refused() {
    let rule =
        |from: &str, keys: &str| refused(&format!("[[rule]]\nfrom = {from}\nto = 'c'\n{keys}")).to_string();
    let wrong = |keys: &str| rule("['a', 'b']", keys);
    assert_says(&wrong("dequantize = 'mxfp'"), &["unknown format", "did you mean 'mxfp4'"]);
    assert_says(&wrong("dequantize = 'scaled'\nmerge = 0"), &["also merges, stacks", "line 4"]);
    assert_says(
        &wrong("dequantize = 'scaled'\nblock = [0]"),
        &["the lengths of a block are wrong", "line 5"],
    );
    assert_says(&wrong("dequantize = 'mxfp4'\nblock = [32]"), &["MXFP4 has blocks of 32 elements"]);
    assert_says(
        &wrong("dequantize = 'scaled'\ndtype = 'i8'"),
        &["cannot dequantize to this dtype", "f32, bf16 or f16"],
    );
    assert_says(&wrong("merge = 0\ndtype = 'bf16'"), &["a rule has dtype, but no dequantize"]);
    assert_says(&rule("'a'", "dequantize = 'scaled'"), &["the wrong number of names", "1 in 'from'"]);
}
