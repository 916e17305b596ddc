use super::*;
use crate::{
    Check, Comparison, Diagnosis, Histogram, InputSummary, Layer, Metrics, MetricsBuilder, OutputReport,
    Precision, Rule, RuleName, TensorDiagnosis, TensorPair, TensorReport, TensorSide, Verdict,
};
use ckpt_api::{DType, Shape};
use ckpt_engine::diff::{Difference, Outcome, Tolerance, diff};
use ckpt_engine::store::MemoryStore;
use ckpt_forward::{Arithmetic, DeviceInfo, MathMode};
use ckpt_html::rules::{stands_alone, tags, well_formed};

/// Names from a hostile file.
const HOSTILE: [&str; 4] = [
    "<script>alert('x')</script>",
    "\"><img src=https://example.com/x.png>",
    "a & b' onmouseover=\"x\"",
    "\u{202e}\u{0}\x1b[31m",
];

fn hostile(number: usize) -> String {
    HOSTILE[number % HOSTILE.len()].to_owned()
}

fn comparison(seed: u32, verdict: Verdict) -> Comparison {
    let mut measure = MetricsBuilder::new(Precision::Single);
    for k in 0..400u32 {
        let number = f64::from((k * 7919 + seed * 104_729) % 1000) / 500.0 - 1.0;
        let error = f64::from((k * 31 + seed) % 97).powi(5) * 1e-16;
        let broken = !verdict.passes() && k == 77;
        measure.add(number, if broken { f64::NAN } else { number + if k % 3 == 0 { 0.0 } else { error } });
    }
    let (metrics, histogram) = measure.finish(&[20, 20]);
    let checks = vec![
        Check::new("|e| / bound", if verdict.passes() { 0.4 } else { 7.5 }, 1.0),
        Check::new("relative L2", metrics.relative_l2.unwrap_or_default(), 1e-5),
    ];
    Comparison { shape: vec![20, 20], metrics, histogram, checks, verdict }
}

fn device(api: &str, software: bool, math: MathMode) -> DeviceInfo {
    DeviceInfo {
        api: api.into(),
        device: "llvmpipe (LLVM 15.0.6, 256 bits)".into(),
        software,
        math,
        arithmetic: Arithmetic::F32,
    }
}

fn layer(index: usize, name: impl Fn(usize) -> String) -> Layer {
    let verdict = Verdict::of(index < 7 || index.is_multiple_of(3));
    let side = |letter: char, dtype| {
        let (name, shape) = (format!("{letter}{}", name(index)), Shape::new([32, 64]).unwrap());
        Some(TensorSide { name, stored_as: None, dtype, scale: (letter == 'b').then_some(255.0), shape })
    };
    Layer {
        a: Some(format!("layers.{index}.{}", name(index))),
        b: (index != 5).then(|| format!("block{index}/{}", name(index + 1))),
        op: ["Gemm", "Relu", "LayerNormalization"][index % 3].into(),
        value: format!("v{index}"),
        tensors: vec![TensorPair {
            role: "weight".into(),
            a: side('a', DType::F32),
            b: side('b', DType::I16),
            mapped_by: Some(format!("rule 3: {} to w", name(index))),
        }],
        comparison: (index != 5).then(|| comparison(u32::try_from(index).unwrap(), verdict)),
        verdict,
        diagnosis: (!verdict.passes()).then(|| Diagnosis {
            reason: format!("the weight differs by more than its scale explains: {}", name(2)),
            tensors: vec![TensorDiagnosis {
                role: "weight".into(),
                a: name(index),
                b: name(index + 1),
                differing: 1024,
                elements: 2048,
                max_absolute: Some(0.125),
                first: vec![0, 1],
                cause: Some("it is transposed".into()),
                mapped_by: Some(name(index + 2)),
            }],
        }),
    }
}

fn run(layers: usize, info: DeviceInfo, name: impl Fn(usize) -> String + Copy) -> Run {
    let layers: Vec<Layer> = (0..layers).map(|index| layer(index, name)).collect();
    let first_divergence = layers.iter().position(|layer| !layer.verdict.passes());
    let verdict = Verdict::of(first_divergence.is_none());
    Run {
        reference: DeviceInfo { arithmetic: Arithmetic::F64, ..device("cpu", false, MathMode::Strict) },
        device: info,
        rule: Rule {
            name: RuleName::Bound,
            reason: format!("'{}' is i16 at 255 and was f32", name(0)).into(),
            layers: "|y − ŷ| ≤ 2·√k·u·S + 2u|y| for each element, u = 2⁻²⁴, and relative L2 ≤ 1e-5".into(),
            outputs: "relative L2 ≤ 1e-3".into(),
        },
        outputs: vec![OutputReport {
            a: name(0),
            b: name(1),
            comparison: comparison(1, verdict),
            argmax: Some(Argmax { rows: 256, agreeing: 255, decided: 250, decided_agreeing: 250 }),
        }],
        layers,
        first_divergence,
        verdict,
    }
}

/// A difference with a tensor of every outcome.
fn difference(name: impl Fn(usize) -> String) -> Difference {
    let write = |close: f32, other: f32, rows: u64| {
        let memory = MemoryStore::new();
        let tensors = [[1.0; 6], [close; 6], [other; 6], [1.0; 6]];
        let mut writer = ckpt::Writer::to(memory.at("all.safetensors"));
        for (number, elements) in tensors.iter().enumerate() {
            let rows = if number == 3 { rows } else { 2 };
            // Names repeat after four.
            writer =
                writer.tensor(&format!("{}{number}", name(number)), &[rows, 6 / rows], elements).unwrap();
        }
        writer.finish().unwrap();
        ckpt::open(memory.at("all.safetensors")).unwrap()
    };
    let tolerance = Tolerance { absolute: 0.1, relative: 0.0 };
    let (a, b) = (write(1.0, 1.0, 2), write(1.01, f32::NAN, 3));
    let mut difference = diff(&a, &b, Some(tolerance)).unwrap();
    let is = |outcome: fn(&Outcome) -> bool| difference.tensors.iter().any(|tensor| outcome(&tensor.outcome));
    assert!(
        is(|outcome| matches!(outcome, Outcome::Equal)) && is(|outcome| matches!(outcome, Outcome::Close(_)))
    );
    assert!(is(
        |outcome| matches!(outcome, Outcome::Different(distance) if distance.max_absolute.is_infinite())
    ));
    assert!(is(|outcome| matches!(outcome, Outcome::Incomparable)));
    difference.only_in_a = vec![name(0)];
    difference.only_in_b = vec![name(3)];
    difference.incidental = vec![name(4)];
    difference
}

fn report(layers: usize, name: impl Fn(usize) -> String + Copy) -> Report {
    let model = |path: String, nodes| Model { path, format: "nn".into(), tensors: 14, nodes };
    let runs = vec![
        run(layers.min(6), device("cpu", false, MathMode::Strict), name),
        run(layers, device("vulkan", true, MathMode::Contracted), name),
    ];
    Report {
        verdict: Verdict::Fail,
        a: model(format!("models/{}", name(0)), Some(14)),
        b: model(format!("out/{}", name(1)), None),
        mapping: Some(name(2)),
        inputs: vec![InputSummary { name: name(1), shape: vec![256, 64], origin: "random, seed 1".into() }],
        runs,
        tensors: Some(TensorReport {
            reason: "the second has no graph".into(),
            difference: difference(name),
        }),
        notes: vec![name(2).into()],
    }
}

#[test]
fn a_page_is_well_formed() {
    for layers in [0, 1, 9, 200] {
        let links = well_formed(&page(&report(layers, hostile)));
        assert!(links >= layers + layers.min(6));
    }
}

#[test]
fn a_page_stands_alone_and_allows_only_its_own_script() {
    stands_alone(&page(&report(9, |number| format!("name{number}"))));
}

#[test]
fn a_name_is_text_whatever_it_contains() {
    let names = |page: String| -> Vec<String> { tags(&page).into_iter().map(|(name, _)| name).collect() };
    let page = page(&report(9, hostile));
    // The same tags as with harmless names: no name became one.
    assert_eq!(names(page.clone()), names(super::page(&report(9, |number| format!("name{number}")))));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
    assert!(page.contains("\\u{202e}\\u{0}\\u{1b}[31m"));
    assert!(!page.contains(['\u{202e}', '\0', '\x1b']));
}

#[test]
fn a_page_states_the_verdict_the_rule_the_devices_and_the_first_divergence() {
    let page = page(&report(9, |number| format!("name{number}")));
    for words in [
        "<title>fail: models/name0 and out/name1</title>",
        "<span class=\"badge fail\">fail</span>",
        "the CPU in f64",
        "vulkan (llvmpipe (LLVM 15.0.6, 256 bits), in software) in f32 with fused operations",
        "<strong>bound</strong>: &#39;name0&#39; is i16 at 255 and was f32",
        "The first layer that diverges on vulkan (llvmpipe (LLVM 15.0.6, 256 bits), in software) in f32 with fused operations is <a href=\"#run1-layer7\">",
        "<details><summary>Formulas</summary>",
        "first divergence</text>",
        "it is transposed",
        "in 255 of 256 rows, and in 250 of the 250 rows whose margin exceeds the allowed error.",
        "1 of 4 common tensors is equal.",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("first divergence</text>").count(), 1);
}

#[test]
fn the_verdict_and_the_first_divergence_come_first_and_once() {
    let page = page(&report(9, |number| format!("name{number}")));
    let place = |words: &str| page.find(words).unwrap();
    assert!(place("class=\"verdict\"") < place("The first layer that diverges"));
    assert!(place("The first layer that diverges") < place("<table"));
    assert_eq!(page.matches("The first layer that diverges").count(), 1);
}

/// Ids of the layers that a page has sections of.
fn sections(page: &str) -> Vec<String> {
    let ids = tags(page).into_iter().filter(|(name, _)| name == "details");
    ids.filter_map(|(_, attributes)| attributes.get("id").cloned()).collect()
}

fn many(layers: usize, fails: impl Fn(usize) -> bool) -> Report {
    let mut report = report(0, |_| "x".into());
    let passing = layer(1, |_| "x".into());
    report.runs = vec![run(0, device("cpu", false, MathMode::Strict), |_| "x".into())];
    report.runs[0].layers = (0..layers)
        .map(|index| Layer {
            verdict: Verdict::of(!fails(index)),
            a: Some(format!("layer{index}")),
            ..passing.clone()
        })
        .collect();
    report.runs[0].first_divergence = (0..layers).find(|index| fails(*index));
    report
}

#[test]
fn a_page_of_many_layers_shows_those_that_fail_and_a_sample_and_says_so() {
    let page = page(&many(20_000, |index| [7001, 19_999].contains(&index)));
    let shown = sections(&page);
    assert_eq!(shown.len(), layers::SHOWN);
    assert_eq!(shown[..2], ["run0-layer7001", "run0-layer19999"]);
    assert!(
        page.contains("This page shows 500 of 20,000 layers: the 2 that fail, and a sample of the others")
    );
    assert!(page.contains("Each mark is the largest error of 34 consecutive layers."));
    assert!(page.len() < 3 << 20, "{}", page.len());
    well_formed(&page);
    let all = super::page(&many(20_000, |_| true));
    assert!(all.contains("This page shows 500 of 20,000 layers: the first 500 of 20,000 that fail."));
    assert_eq!(sections(&super::page(&many(500, |_| false))).len(), 500);
}

#[test]
fn layers_that_fail_come_before_the_others() {
    let page = page(&many(9, |index| index == 6));
    assert_eq!(sections(&page)[..2], ["run0-layer6", "run0-layer0"]);
    let place = |words: &str| page.find(words).unwrap();
    assert!(place("id=\"run0-layer6\" open") < place("id=\"run0-layers\""), "even before the table");
    assert!(page.contains("Each layer that does not fail"));
}

#[test]
fn a_tensor_that_the_reason_describes_is_not_described_again() {
    let mut report = report(9, |_| "name".into());
    let described = |report: &Report| page(report).matches("1,024 of 2,048 elements differ").count();
    let before = described(&report);
    report.runs[1].layers[7].diagnosis.as_mut().unwrap().reason = "its tensor 'name' differs".into();
    assert_eq!(described(&report), before - 1);
}

#[test]
fn a_page_of_many_tensors_lists_those_that_fail_first_and_says_so() {
    let mut report = report(0, |_| "x".into());
    let difference = &mut report.tensors.as_mut().unwrap().difference;
    let mut tensors: Vec<_> = difference.tensors.iter().cycle().take(20_000).cloned().collect();
    tensors.iter_mut().enumerate().for_each(|(index, tensor)| tensor.name = format!("t{index}").into());
    difference.tensors = tensors;
    difference.only_in_a = (0..1000).map(|index| format!("only{index}")).collect();
    let page = page(&report);
    for words in [
        "10,000 of 20,000 common tensors differ; 1,000 tensors only in the reference",
        "the first 5,000 of 15,000 tensors that are not equal",
        "and 900 more",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.len() < 3 << 20, "{}", page.len());
    well_formed(&page);
}

#[test]
fn counts_are_whole_numbers_and_columns_without_values_are_left_out() {
    let mut report = many(3, |_| false);
    for layer in &mut report.runs[0].layers {
        let comparison = layer.comparison.as_mut().unwrap();
        comparison.checks = vec![Check::new("elements with different bits", 43.0, 0.0)];
        comparison.metrics.max_ulp = Some(2_081_645_432);
    }
    let page = page(&report);
    assert!(page.contains("<td class=\"number\">43</td><td class=\"number\">0</td>"));
    assert!(page.contains(">2,081,645,432</td>"));
    assert!(!page.contains(">of limit</th>"), "a limit of 0 has no share");
}

#[test]
fn what_is_not_finite_is_never_shown_as_an_error_of_zero() {
    let mut report = many(3, |index| index == 1);
    let metrics = &mut report.runs[0].layers[1].comparison.as_mut().unwrap().metrics;
    *metrics = Metrics { elements: 80, differing: 80, not_finite: 80, ..Metrics::default() };
    let page = page(&report);
    assert!(page.contains(">NaN, inf</text>") && page.contains(">NaN, inf</td>"));
    assert!(page.contains("<dt>not finite</dt><dd>80 on one side only</dd>"));
    assert!(!page.contains("<dd>0 absolute, 0 relative</dd>"));
}

#[test]
fn equal_layers_have_neither_figures_nor_a_plot() {
    let mut report = many(3, |_| false);
    for layer in &mut report.runs[0].layers {
        layer.comparison.as_mut().unwrap().metrics =
            Metrics { elements: 1500, relative_l2: Some(0.0), ..Metrics::default() };
    }
    report.runs[0].outputs.clear();
    let page = page(&report);
    assert!(
        page.contains("No layer that was compared differs.")
            && !page.contains("Relative error of each layer")
    );
    assert_eq!(page.matches("<dd>1,500, all equal bit for bit</dd>").count(), 3);
    assert!(!page.contains("<dt>RMS</dt>"));
}

#[test]
fn the_label_of_the_first_divergence_stays_within_the_plot() {
    let page = page(&many(30, |index| index == 29));
    assert!(page.contains("text-anchor=\"end\">first divergence</text>"));
}

#[test]
fn a_limit_of_zero_has_no_bar() {
    assert_eq!(plot::check(Some(0.5), 0.0), "");
    assert!(plot::check(Some(0.5), 1.0).contains("<rect"));
}

#[test]
fn errors_of_every_magnitude_can_be_drawn() {
    let decade = |exponent| crate::Decade { exponent, count: 1 };
    let wide = Histogram { exact: 1 << 60, decades: vec![decade(-324), decade(308)], not_finite: 5 };
    let drawn = plot::histogram(&wide);
    assert_eq!(drawn.matches("<rect").count(), 4);
    let mut layers: Vec<Layer> = (0..4).map(|index| layer(index, |_| "n".into())).collect();
    for (layer, error) in layers.iter_mut().zip([Some(0.0), Some(5e-324), Some(1e308), Some(f64::INFINITY)]) {
        let comparison = layer.comparison.as_mut().unwrap();
        comparison.metrics = Metrics { relative_l2: error, ..Metrics::default() };
    }
    let shown = (0..4).collect();
    let drawn = plot::errors(&layers, None, &shown, "x");
    assert_eq!(drawn.matches("<circle").count(), 3);
    let numbers = drawn.split('"').filter_map(|text| text.parse::<f64>().ok());
    assert!(numbers.into_iter().all(|number| (0.0..1e4).contains(&number)));
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    assert_eq!(plot::errors(&[], None, &shown, "x"), "");
}
