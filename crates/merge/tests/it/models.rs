//! Merges of models with each other.

use crate::fixture::{Array, Tensors, array, model, registry, rounded, tensors, written};
use ckpt_api::{DType, Kept, Kind, Result};
use ckpt_engine::Conversion;
use ckpt_engine::resources::Resources;
use ckpt_engine::source::Source;
use ckpt_merge::{Method, Model, Settings, merge_models};

/// What is drawn by.
const SEED: u64 = 11;

fn weights(seed: usize) -> Tensors {
    tensors([("q.weight", array(seed, &[9, 371])), ("norm.weight", array(seed + 1, &[9]))])
}

fn merged(method: &str, models: &[(&Tensors, f32)], base: Option<&Tensors>, dtype: DType) -> Result<Tensors> {
    merged_with(method, models, base, dtype, &[])
}

fn merged_with(
    method: &str,
    models: &[(&Tensors, f32)],
    base: Option<&Tensors>,
    dtype: DType,
    parameters: &[(&str, &str)],
) -> Result<Tensors> {
    let models: Vec<Model> =
        models.iter().map(|(own, weight)| Model::new(model(own, dtype), *weight)).collect();
    let base: Option<Source> = base.map(|base| model(base, dtype));
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let settings = Settings::default().with_parameters(parameters.collect()).with_seed(SEED);
    let source = merge_models(method.parse()?, &models, base.as_ref(), &settings)?;
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

/// What is left of the changes of a model: the largest magnitudes, and of equal ones the first.
fn largest(base: &Array, model: &Array, density: f64) -> Array {
    let changes = each([base, model], |[base, model]| model - base);
    let mut order: Vec<usize> = (0..changes.numbers.len()).collect();
    order.sort_by(|a, b| changes.numbers[*b].abs().total_cmp(&changes.numbers[*a].abs()));
    let count = (density * order.len() as f64) as usize;
    order.truncate(if density > 0.0 { count.max(1) } else { 0 });
    let number = |index: usize| if order.contains(&index) { changes.numbers[index] } else { 0.0 };
    Array { shape: changes.shape.clone(), numbers: (0..changes.numbers.len()).map(number).collect() }
}

/// `base + Σ / Σ w` over the products of `w` and changes that have the sign of their sum.
fn agreeing(base: &Array, changes: [&Array; 2], weights: [f32; 2], is_mean: bool) -> Array {
    each([base, changes[0], changes[1]], |[base, a, b]| {
        let products = [a * weights[0], b * weights[1]];
        let is_positive = products[0] + products[1] >= 0.0;
        let agrees = |product: f32| if is_positive { product > 0.0 } else { product < 0.0 };
        let agreeing = || products.into_iter().zip(weights).filter(|(product, _)| agrees(*product));
        let divisor: f32 = agreeing().map(|(_, weight)| weight).sum();
        let sum: f32 = agreeing().map(|(product, _)| product).fold(0.0, |sum, product| sum + product);
        base + sum / if is_mean && divisor != 0.0 { divisor } else { 1.0 }
    })
}

#[test]
fn ties_adds_the_largest_changes_that_agree() {
    let (base, mut a, b) = (weights(1), weights(3), weights(5));
    // Many changes of one magnitude.
    let steps =
        each([&base["q.weight"], &a["q.weight"]], |[base, a]| base + ((a - base) * 2.0).round() / 2.0);
    a.insert("q.weight".to_owned(), steps);
    for density in ["1", "0.6", "0.05", "0"] {
        let parameters = [("density", density)];
        let found =
            merged_with("ties", &[(&a, 0.8), (&b, 0.4)], Some(&base), DType::F32, &parameters).unwrap();
        for name in ["q.weight", "norm.weight"] {
            let density = density.parse().unwrap();
            let changes = [&a, &b].map(|model| largest(&base[name], &model[name], density));
            let expected = agreeing(&base[name], changes.each_ref(), [0.8, 0.4], true);
            assert_eq!(found[name], expected, "{name} at {density}");
        }
    }
}

/// What is drawn of the changes of a model, by the generator that the guide states.
fn drawn(base: &Array, model: &Array, (position, name): (usize, &str), density: f64) -> Array {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let key = format!("{SEED}\n{position}\n{name}").bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    let kept = Kept::drawn(key, density);
    let changes = each([base, model], |[base, model]| model - base);
    let number = |(element, number): (usize, &f32)| match kept.keeps(element as u64, *number) {
        true => *number,
        false => 0.0,
    };
    Array { shape: changes.shape.clone(), numbers: changes.numbers.iter().enumerate().map(number).collect() }
}

#[test]
fn dare_adds_changes_that_are_drawn_and_made_larger() {
    let (base, a, b) = (weights(1), weights(3), weights(5));
    let size = |array: &Array| array.numbers.iter().map(|number| f64::from(number.abs())).sum::<f64>();
    let merge = |method: &str, parameters: &[(&str, &str)]| {
        merged_with(method, &[(&a, 0.8), (&b, 0.4)], Some(&base), DType::F32, parameters).unwrap()
    };
    let plain = merge("dare_linear", &[("density", "0.3"), ("rescale", "false")]);
    let by_density = merge("dare", &[("density", "0.3"), ("rescale", "density")]);
    let by_magnitudes = merge("dare_linear", &[("density", "0.3")]);
    let ties = merge("dare_ties", &[("density", "0.3"), ("rescale", "false")]);
    for name in ["q.weight", "norm.weight"] {
        let models = [(0, &a[name]), (1, &b[name])];
        let own = models.map(|(position, model)| drawn(&base[name], model, (position, name), 0.3));
        let sum = |scales: [f32; 2]| {
            each([&base[name], &own[0], &own[1]], |[base, a, b]| {
                (a * scales[0] * 0.8 + b * scales[1] * 0.4) + base
            })
        };
        assert_eq!(plain[name], sum([1.0; 2]), "{name}");
        assert_eq!(by_density[name], sum([(1.0 / 0.3) as f32; 2]), "{name}");
        let all =
            [&a, &b].map(|model| size(&each([&base[name], &model[name]], |[base, model]| model - base)));
        let scales = [0, 1].map(|model| (all[model] / size(&own[model])) as f32);
        assert_eq!(by_magnitudes[name], sum(scales), "{name}");
        assert_eq!(ties[name], agreeing(&base[name], own.each_ref(), [0.8, 0.4], false), "{name}");
    }
}

#[test]
fn what_is_drawn_depends_on_the_seed_alone() {
    let (base, a) = (weights(1), weights(3));
    let merge = |seed, threads, item| {
        let settings = Settings::default().with_parameters(vec![("density".to_owned(), "0.5".to_owned())]);
        let models = [Model::new(model(&a, DType::F32), 1.0)];
        let base = model(&base, DType::F32);
        let source = merge_models(Method::DareTies, &models, Some(&base), &settings.with_seed(seed)).unwrap();
        let resources = Resources::new().threads(threads).item_size(item);
        written(&source, &Conversion::new().resources(resources)).unwrap().1
    };
    let first = merge(3, 1, 1 << 20);
    assert_eq!(first, merge(3, 3, 512));
    assert_ne!(first, merge(4, 1, 1 << 20));
}

#[test]
fn a_name_may_have_any_number_of_a_layer() {
    let a = tensors([("model.layers.18446744073709551615.q.weight", array(1, &[2, 3]))]);
    assert_eq!(merged("linear", &[(&a, 1.0)], None, DType::F32).unwrap(), a);
}

#[test]
fn a_density_is_a_share() {
    let a = weights(1);
    for density in ["-0.1", "1.5", "nan"] {
        let error =
            merged_with("ties", &[(&a, 1.0)], Some(&a), DType::F32, &[("density", density)]).unwrap_err();
        assert!(error.kind() == Kind::Usage && error.to_string().contains("density"), "{density}: {error}");
    }
}

#[test]
fn passthrough_is_one_model_times_a_scale() {
    let a = weights(1);
    assert_eq!(merged("passthrough", &[(&a, 1.0)], None, DType::Bf16).unwrap(), a);
    let found = merged("passthrough", &[(&a, 0.5)], None, DType::F32).unwrap();
    assert_eq!(found["q.weight"], each([&a["q.weight"]], |[a]| a * 0.5));
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
    let merged = merge_models(Method::Linear, &models, None, &Settings::default()).unwrap();
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
        ("ties", &both[..], None, "base"),
        ("passthrough", &both[..], None, "one model"),
        ("linear", &[(&a, 1.0), (&b, -1.0)][..], None, "no mean"),
        ("linear", &[(&a, f32::NAN), (&b, 1.0)][..], None, "not finite"),
        ("slerp", &[(&a, 1.0)][..], None, "two models"),
        ("slerp", &[(&a, 0.5), (&b, 0.6)][..], None, "add up to 1"),
    ] {
        let (kind, text) = refused(method, models, base);
        assert_eq!(kind, Kind::Usage, "{text}");
        assert!(text.contains(says), "{text} does not say {says}");
    }
    for (method, name, value, says) in [
        ("ties", "densty", "0.5", "density"),
        ("ties", "t", "0.5", "weight, density"),
        ("ties", "density", "half", "half"),
        ("ties", "density", "-0.5", "0 to 1"),
        ("ties", "normalize", "perhaps", "true or false"),
        ("dare_linear", "lambda", "1e300", "not finite, or too large"),
    ] {
        let error = merged_with(method, &both, Some(&a), DType::F32, &[(name, value)]).unwrap_err();
        let text = error.to_string();
        assert!(error.kind() == Kind::Usage && text.contains(says), "{text} does not say {says}");
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
