//! Merges of models with each other.

use crate::fixture::{Array, Tensors, array, model, registry, rounded, tensors, written};
use ckpt_api::{DType, Kind, Result};
use ckpt_engine::Conversion;
use ckpt_engine::resources::Resources;
use ckpt_engine::source::Source;
use ckpt_merge::{Method, Model, merge_models};

fn weights(seed: usize) -> Tensors {
    tensors([("q.weight", array(seed, &[9, 371])), ("norm.weight", array(seed + 1, &[9]))])
}

fn merged(method: &str, models: &[(&Tensors, f32)], base: Option<&Tensors>, dtype: DType) -> Result<Tensors> {
    let models: Vec<Model> =
        models.iter().map(|(own, weight)| Model::new(model(own, dtype), *weight)).collect();
    let base: Option<Source> = base.map(|base| model(base, dtype));
    let source = merge_models(method.parse()?, &models, base.as_ref())?;
    let resources = Resources::new().threads(2).item_size(4096);
    Ok(written(&source, &Conversion::new().resources(resources).verify(true))?.0)
}

/// A tensor of the numbers that `element` makes of those of several tensors.
fn each<const N: usize>(of: [&Array; N], element: impl Fn([f32; N]) -> f32) -> Array {
    let number = |index: usize| element(of.map(|array| array.numbers[index]));
    Array { shape: of[0].shape.clone(), numbers: (0..of[0].numbers.len()).map(number).collect() }
}

#[test]
fn linear_is_the_mean_with_these_weights_rounded_once() {
    let (a, b) = (weights(1), weights(3));
    for dtype in [DType::F32, DType::Bf16] {
        let found = merged("linear", &[(&a, 0.3), (&b, 0.5)], None, dtype).unwrap();
        for name in ["q.weight", "norm.weight"] {
            let mean = each([&a[name], &b[name]], |[a, b]| (a * 0.3 + b * 0.5) / (0.3 + 0.5));
            assert_eq!(found[name], rounded(&mean, dtype), "{name}");
        }
    }
}

#[test]
fn task_arithmetic_adds_what_models_changed_of_the_base() {
    let (base, a, b) = (weights(1), weights(3), weights(5));
    for method in ["task", "task_arithmetic"] {
        let found = merged(method, &[(&a, 0.8), (&b, -0.4)], Some(&base), DType::F32).unwrap();
        for name in ["q.weight", "norm.weight"] {
            let sum = |[base, a, b]: [f32; 3]| ((a - base) * 0.8 + (b - base) * -0.4) + base;
            assert_eq!(found[name], each([&base[name], &a[name], &b[name]], sum), "{name}");
        }
    }
}

#[test]
fn slerp_follows_the_arc_between_two_tensors() {
    let dot = |a: &Array, b: &Array| -> f64 {
        a.numbers.iter().zip(&b.numbers).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let (a, mut b) = (weights(1), weights(3));
    // This one points the same way, so that there is no arc.
    b.insert("norm.weight".to_owned(), each([&a["norm.weight"]], |[a]| a * 2.0));
    let found = merged("slerp", &[(&a, 0.75), (&b, 0.25)], None, DType::F32).unwrap();
    let line = each([&a["norm.weight"], &b["norm.weight"]], |[a, b]| a * 0.75 + b * 0.25);
    assert_eq!(found["norm.weight"], line);
    let [a, b] = [&a["q.weight"], &b["q.weight"]];
    let angle = (dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())).acos();
    let [of_a, of_b] = [0.75, 0.25].map(|t: f64| ((t * angle).sin() / angle.sin()) as f32);
    assert_eq!(found["q.weight"], each([a, b], |[a, b]| a * of_a + b * of_b));
    let length = |array: &Array| dot(array, array).sqrt();
    let mean = each([a, b], |[a, b]| a * 0.75 + b * 0.25);
    assert!(length(&found["q.weight"]) > length(&mean), "the arc is longer than the chord");
}

#[test]
fn tensors_that_are_no_floats_are_the_first_models() {
    let source = |first: u8| {
        let header = r#"{"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#;
        let file =
            [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[first, 0, 0, 0, 0, 0, 0, 0]]
                .concat();
        let input = ckpt_api::Input::memory("m.safetensors", [("m.safetensors".to_owned(), file)].into());
        Source::open(&registry(), input, &Default::default()).unwrap()
    };
    let models = [Model::new(source(7), 0.5), Model::new(source(9), 0.5)];
    let merged = merge_models(Method::Linear, &models, None).unwrap();
    assert_eq!(merged.tensor("n").unwrap().read::<i64>().unwrap(), [7]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (a, b) = (weights(1), weights(3));
    let refused = |method: &str, models: &[(&Tensors, f32)], base: Option<&Tensors>| {
        let error = merged(method, models, base, DType::F32).unwrap_err();
        (error.kind(), error.to_string())
    };
    let both = [(&a, 0.5), (&b, 0.5)];
    for (method, models, base, says) in [
        ("tie", &both[..], None, "linear"),
        ("task", &both[..], None, "base"),
        ("linear", &both[..], Some(&a), "takes no base"),
        ("linear", &[(&a, 1.0), (&b, -1.0)][..], None, "no mean"),
        ("linear", &[(&a, f32::NAN), (&b, 1.0)][..], None, "not finite"),
        ("slerp", &[(&a, 1.0)][..], None, "two models"),
        ("slerp", &[(&a, 0.5), (&b, 0.6)][..], None, "add up to 1"),
    ] {
        let (kind, text) = refused(method, models, base);
        assert_eq!(kind, Kind::Usage, "{text}");
        assert!(text.contains(says), "{text} does not say {says}");
    }
    let mut other = b.clone();
    other.insert("norm.weight".to_owned(), array(1, &[8]));
    let (kind, text) = refused("linear", &[(&a, 0.5), (&other, 0.5)], None);
    assert!(kind == Kind::Mapping && text.contains("[8]") && text.contains("norm.weight"), "{text}");
    for [first, second] in [[&a, &b], [&b, &a]] {
        let mut less = second.clone();
        less.remove("norm.weight");
        let (kind, text) = refused("linear", &[(first, 0.5), (&less, 0.5)], None);
        assert!(kind == Kind::Mapping && text.contains("norm.weight"), "{text}");
        let (kind, text) = refused("linear", &[(&less, 0.5), (first, 0.5)], None);
        assert!(kind == Kind::Mapping && text.contains("norm.weight"), "{text}");
    }
}
