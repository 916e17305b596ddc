//! CNN2 files through the engine: other formats, other dtypes, other orders of axes.

use crate::common::{convert, files, open};
use ckpt::api::{Attribute, Axis, Checkpoint, DType, Graph, LossKind, Node, Op, Shape, Tensor, Value};
use ckpt::{Computed, Conversion, Execution, Kind, Registry};
use std::path::{Path, PathBuf};

fn accepted() -> Vec<PathBuf> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cnn2/accept"), ".bin")
}

fn is_strict(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy();
    !["gaps", "other_order"].contains(&&*name) && !name.ends_with("_lenient")
}

#[test]
fn a_file_comes_back_byte_for_byte_by_way_of_safetensors() {
    let work = tempfile::tempdir().unwrap();
    let (between, back) = (work.path().join("a.safetensors"), work.path().join("b.bin"));
    let files: Vec<PathBuf> = accepted().into_iter().filter(|path| is_strict(path)).collect();
    for path in &files {
        for options in [&[][..], &[("border", "clamp"), ("activation", "relu")]] {
            let to = |format: &str| Conversion::new().to(format).overwrite(true);
            convert(open(path, options), &between, &to("safetensors"));
            convert(open(&between, &[]), &back, &to("cnn2"));
            assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(path).unwrap(), "{}", path.display());
        }
    }
    assert_eq!(files.len(), 9);
}

/// `layer1.weight` of one 1×1 layer.
fn one_layer(path: &Path, values: [f32; 8]) {
    let header = r#"{"layer1.weight":{"dtype":"F32","shape":[1,8,1,1],"data_offsets":[0,32]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

fn narrowing() -> Conversion {
    Conversion::new().to("cnn2").allow(LossKind::Narrowed)
}

#[test]
fn f32_is_rounded_to_nearest_even_and_only_if_narrowing_is_allowed() {
    let work = tempfile::tempdir().unwrap();
    let (input, output) = (work.path().join("a.safetensors"), work.path().join("b.bin"));
    // Half way between two halves, a little off, the smallest subnormal and half of it, −0, the largest.
    let values = [1.000_488_3f32, 1.001_464_8, 1.000_489, 5.960_464_5e-8, 2.980_232_2e-8, -0.0, 65504.0, 0.1];
    let halves: [u16; 8] = [0x3c00, 0x3c02, 0x3c01, 0x0001, 0x0000, 0x8000, 0x7bff, 0x2e66];
    one_layer(&input, values);

    let unasked = Conversion::new().to("cnn2");
    let refused = unasked.plan(&Registry::builtin(), &open(&input, &[]), &output);
    let error = refused.expect_err("narrowing is not allowed unasked");
    assert!(error.to_string().contains("LossKind::Narrowed"), "{error}");
    let planned = narrowing().plan(&Registry::builtin(), &open(&input, &[]), &output).unwrap();
    let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    let written = std::fs::read(&output).unwrap();
    let found: Vec<u16> =
        written[36..].chunks_exact(2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]])).collect();
    assert_eq!(found, halves);
    // The second value is just below the middle of 1.0009765625 and 1.001953125.
    let largest_error = f64::from(1.001_953_1 - values[1]);
    let [rounded] = &summary.rounding[..] else { panic!("{:?}", summary.rounding) };
    assert_eq!((rounded.tensor.as_str(), rounded.largest_error), ("layer1.weight", largest_error));
}

#[test]
fn a_weight_that_f16_cannot_hold_stops_the_conversion() {
    let work = tempfile::tempdir().unwrap();
    let (input, output) = (work.path().join("a.safetensors"), work.path().join("b.bin"));
    one_layer(&input, [1.0, 2.0, 3.0, -70_000.5, f32::INFINITY, f32::NAN, 7.0, 65_520.0]);
    let planned = narrowing().plan(&Registry::builtin(), &open(&input, &[]), &output).unwrap();
    let error = planned.execute(&Execution::default(), &|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy);
    for word in ["layer1.weight", "element 3", "-70000.5", "65504"] {
        assert!(error.to_string().contains(word), "'{word}' is not in: {error}");
    }
    assert!(!output.exists());
}

/// Two layers with biases, `[ky, kx, in, out]` as Keras stores them; the second takes the static features, too.
fn biased() -> (Checkpoint, Vec<Vec<f32>>) {
    let image = |name: &str, channels| Value::new(name, vec![None, Some(channels), None, None]);
    let node = |name: &str, op, inputs: [&str; 2]| {
        let mut node = Node::new(name, op);
        node.inputs = inputs.iter().filter(|input| !input.is_empty()).map(|input| (*input).into()).collect();
        node.outputs = vec![name.into()];
        node
    };
    let conv = |name: &str, input: &str, pad: i64| {
        node(name, Op::Conv, [input, ""])
            .parameter("weight", format!("{name}/kernel"))
            .parameter("bias", format!("{name}/bias"))
            .attribute("pads", Attribute::Ints(vec![pad; 4]))
    };
    let join = node("join", Op::Concat, ["a", "x"]).attribute("axis", Attribute::Int(1));
    let graph = Graph {
        name: String::new(),
        inputs: vec![image("x", 8)],
        outputs: vec![image("b", 3)],
        nodes: vec![conv("a", "x", 1), join, conv("b", "join", 0)],
    };
    let axes = [Axis::KernelY, Axis::KernelX, Axis::In, Axis::Out];
    let kernel =
        |name: &str, dims: [u64; 4]| Tensor::new(name, DType::F32, Shape::new(dims).unwrap()).with_axes(axes);
    let bias = |name: &str, len| Tensor::new(name, DType::F32, Shape::new([len]).unwrap());
    let tensors = vec![
        kernel("a/kernel", [3, 3, 8, 2]),
        bias("a/bias", 2),
        kernel("b/kernel", [1, 1, 10, 3]),
        bias("b/bias", 3),
    ];
    // Sums that f16 holds exactly.
    let values = tensors.iter().enumerate().map(|(n, tensor)| {
        (0..tensor.shape.elements()).map(|k| (1 + k) as f32 * 0.5 + 100.0 * n as f32).collect()
    });
    let values = values.collect();
    (Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() }, values)
}

/// A half that is zero or normal.
fn half(bits: u16) -> f32 {
    let magnitude = f32::from(bits & 0x3ff | 0x400) * 2f32.powi(i32::from(bits >> 10 & 0x1f) - 25);
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    if bits & 0x7fff == 0 { 0.0 } else { sign * magnitude }
}

#[test]
fn biases_become_the_center_taps_of_the_constant_channel() {
    let work = tempfile::tempdir().unwrap();
    let (input, output) = (work.path().join("in.safetensors"), work.path().join("out.bin"));
    let (checkpoint, values) = biased();
    let bytes: Vec<Vec<u8>> =
        values.iter().map(|floats| floats.iter().flat_map(|value| value.to_le_bytes()).collect()).collect();
    let registry = Registry::builtin();
    let codec = registry.codec("safetensors").unwrap();
    let files = ckpt_conformance::write(&*codec, &checkpoint, &bytes, "in.safetensors", &[]).unwrap();
    std::fs::write(&input, &files["in.safetensors"]).unwrap();

    let conversion = narrowing();
    let planned = conversion.plan(&registry, &open(&input, &[]), &output).unwrap();
    let losses = planned.plan().losses.iter();
    let merged: Vec<&str> =
        losses.filter(|loss| loss.kind == LossKind::Merged).map(|loss| &*loss.subject).collect();
    assert_eq!(merged, ["a/bias", "b/bias"]);
    let verified = conversion.verify(true);
    let planned = verified.plan(&registry, &open(&input, &[]), &output).unwrap();
    let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    // Random inputs are not 1 in the constant channel.
    assert!(
        matches!(summary.verification.unwrap().computed, Computed::NotRun { reason } if reason.contains("folded"))
    );

    let written = open(&output, &[]);
    for (name, weight, bias, [kernel, inputs, outputs], constant) in [
        ("layer1.weight", &values[0], &values[1], [3, 8, 2], 7),
        ("layer2.weight", &values[2], &values[3], [1, 10, 3], 9),
    ] {
        let mut expected = Vec::new();
        for (o, i) in (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i))) {
            for (y, x) in (0..kernel).flat_map(|y| (0..kernel).map(move |x| (y, x))) {
                let is_constant = i == constant && y == kernel / 2 && x == kernel / 2;
                let added = if is_constant { bias[o] } else { 0.0 };
                expected.push(weight[((y * kernel + x) * inputs + i) * outputs + o] + added);
            }
        }
        let found = written.tensor(name).unwrap().bytes().unwrap();
        let found: Vec<f32> =
            found.chunks_exact(2).map(|bytes| half(u16::from_le_bytes([bytes[0], bytes[1]]))).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn what_the_target_cannot_say_comes_before_what_the_source_does_not_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cnn2/accept/version_2_mip_0.bin");
    let refusal = |options: &[(&str, &str)]| {
        let conversion = Conversion::new().to("nn");
        let planned = conversion.plan(&Registry::builtin(), &open(&path, options), "o");
        planned.expect_err("one holds convolutions, the other none").to_string()
    };
    assert_eq!(refusal(&[]), refusal(&[("activation", "relu"), ("border", "zero")]));
}

#[cfg(feature = "tf2")]
#[test]
fn keras_has_the_kernels_as_it_wants_them_and_all_inputs_as_one_image() {
    let work = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cnn2/accept/example.bin");
    let conversion = Conversion::new().to("tf2").set("names", "keras3");
    let out = work.path().join("ckpt");
    convert(open(&example, &[("border", "zero"), ("activation", "relu")]), &out, &conversion);
    let (found, source) = (open(&out, &[]), open(&example, &[]));
    let (_, kernel) = found.checkpoint().tensor("layer1/kernel").unwrap();
    assert_eq!(kernel.shape.to_vec(), [3, 3, 15, 8]);
    let (stored, weight) = (
        found.tensor("layer1/kernel").unwrap().bytes().unwrap(),
        source.tensor("layer1.weight").unwrap().bytes().unwrap(),
    );
    for (index, half) in stored.chunks_exact(2).enumerate() {
        let (at, out) = (index / 8, index % 8);
        let (pixel, channel) = (at / 15, at % 15);
        assert_eq!(half, &weight[((out * 15 + channel) * 9 + pixel) * 2..][..2]);
    }
    assert_eq!(stored.len(), weight.len());
    // Keras knows no other border than zeros.
    for (border, said) in [(None, "border=zero"), (Some(("border", "clamp")), "Pad")] {
        let given: Vec<(&str, &str)> = [("activation", "relu")].into_iter().chain(border).collect();
        let planned = conversion.plan(&Registry::builtin(), &open(&example, &given), &out);
        let error = planned.expect_err("the border is not Keras's").to_string();
        assert!(error.contains("layer1/pad") && error.contains(said), "{error}");
    }
}
