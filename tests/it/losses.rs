//! Losses that the engine declares by itself, whatever the target's codec says.

use crate::common::workplace::Workplace;
use ckpt::api::{
    Axis, Checkpoint, Codec, Contents, DType, Encoding, Extent, FileId, FormatInfo, Graph, Input, Kind,
    Limits, LossKind, Match, Network, Node, Op, Options, OutputFile, OutputLayout, Placement, Quantization,
    Result, Role, Shape, Slot, Tensor, TensorId,
};
use ckpt::{Conversion, Execution, OpenOptions, Policy, Registry, Source};
use std::collections::BTreeMap;

/// Reads any file as the same checkpoint, whose tensors are one after the other.
struct Given(Checkpoint);

/// Stores every tensor as f16 without a word.
struct Halves;

/// Stores tensors of f32 alone.
struct Floats;

const fn info(id: &'static str) -> FormatInfo {
    FormatInfo::new(id, "for tests").with_reads(Network::ALL).with_writes(Network::ALL).with_free_names()
}

static GIVEN: FormatInfo = info("given");
static HALVES: FormatInfo = info("halves");
static FLOATS: FormatInfo = info("floats").with_dtypes(&[DType::F32]);

/// Placements of tensors one after the other, and the bytes that they take.
fn in_a_row(tensors: &[Tensor], dtype: impl Fn(&Tensor) -> DType) -> (Vec<Placement>, u64) {
    let mut offset = 0;
    let place = |(id, tensor): (usize, &Tensor)| {
        let encoding = Encoding::row_major(tensor).with_dtype(dtype(tensor));
        let len = encoding.stored_len(tensor.shape.elements()).unwrap();
        let extent = Extent::new(FileId(0), offset, len);
        offset += len;
        Placement::new(TensorId(id), &tensor.name, vec![extent], encoding)
    };
    let placements = tensors.iter().enumerate().map(place).collect();
    (placements, offset)
}

impl Codec for Given {
    fn info(&self) -> &FormatInfo {
        &GIVEN
    }

    fn probe(&self, _: &Input) -> Result<Match> {
        Ok(Match::No)
    }

    fn read(&self, input: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        let (placements, _) = in_a_row(&self.0.tensors, |tensor| tensor.dtype);
        let files = vec![input.entry().to_owned()];
        Ok(Contents::default().with_checkpoint(self.0.clone()).with_files(files).with_placements(placements))
    }

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
        Ok(OutputLayout::default())
    }
}

impl Codec for Halves {
    fn info(&self) -> &FormatInfo {
        &HALVES
    }

    fn probe(&self, _: &Input) -> Result<Match> {
        Ok(Match::No)
    }

    fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        Ok(Contents::default())
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let (placements, len) = in_a_row(&checkpoint.tensors, |_| DType::F16);
        let files = vec![OutputFile::new(name, len)];
        Ok(OutputLayout::default().with_files(files).with_placements(placements))
    }
}

impl Codec for Floats {
    fn info(&self) -> &FormatInfo {
        &FLOATS
    }

    fn probe(&self, _: &Input) -> Result<Match> {
        Ok(Match::No)
    }

    fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        Ok(Contents::default())
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let floats: Vec<Tensor> =
            checkpoint.tensors.iter().filter(|tensor| tensor.dtype == DType::F32).cloned().collect();
        let (placements, len) = in_a_row(&floats, |_| DType::F32);
        let files = vec![OutputFile::new(name, len)];
        Ok(OutputLayout::default().with_files(files).with_placements(placements))
    }
}

fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
    Tensor::new(name, dtype, Shape::new(shape).unwrap())
}

/// Opens a file of these bytes as the checkpoint.
fn open(checkpoint: &Checkpoint, bytes: &[u8]) -> (Registry, Source) {
    let mut registry = Registry::builtin();
    registry.add(Given(checkpoint.clone())).unwrap();
    registry.add(Halves).unwrap();
    let input = Input::memory("x", BTreeMap::from([("x".to_owned(), bytes.to_vec())]));
    let options = OpenOptions::new().format("given");
    let source = Source::open(&registry, input, &options).unwrap();
    (registry, source)
}

fn conversion(to: &str, set: &[(&str, &str)]) -> Conversion {
    set.iter().fold(Conversion::new().to(to), |conversion, (key, value)| conversion.set(*key, *value))
}

/// The kinds and subjects of the losses of a conversion to `to`, sorted.
fn losses(checkpoint: &Checkpoint, to: &str, set: &[(&str, &str)], output: &str) -> Vec<(String, String)> {
    let (registry, source) = open(checkpoint, &[0; 4096]);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join(output);
    let planned = conversion(to, set).plan_unjudged(&registry, &source, output).unwrap();
    let losses = planned.plan().losses.iter();
    let mut losses: Vec<_> = losses.map(|loss| (loss.kind.name().to_owned(), loss.subject.clone())).collect();
    losses.sort();
    losses
}

fn expect(found: Vec<(String, String)>, expected: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = found.iter().map(|(kind, subject)| (&**kind, &**subject)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_codec_that_narrows_without_a_word_is_stopped() {
    let checkpoint = Checkpoint { tensors: vec![tensor("w", DType::F32, &[1])], ..Checkpoint::default() };
    let (registry, source) = open(&checkpoint, &1e-9f32.to_le_bytes());
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let error = conversion("halves", &[]).plan(&registry, &source, &output).unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy);
    assert!(error.to_string().contains("narrowed 'w' (f32 is stored as f16)"), "{error}");

    let allowed = conversion("halves", &[]).allow(LossKind::Narrowed);
    let planned = allowed.plan(&registry, &source, &output).unwrap();
    let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    assert_eq!(std::fs::read(output).unwrap(), [0, 0]);
    assert_eq!(summary.largest_rounding().unwrap().largest_error, f64::from(1e-9f32));
}

/// Weights of a layer with something of every aspect, and tensors of other roles.
fn described() -> Checkpoint {
    let mut weight = tensor("w", DType::F32, &[2, 3]).with_axes([Axis::In, Axis::Out]);
    weight.metadata.insert("other", "key", "value");
    let mut moment = tensor("m", DType::F32, &[2, 3]).with_role(Role::Optimizer);
    moment.slot = Some(Box::new(Slot { variable: "w".into(), name: "m".into() }));
    let mut scaled = tensor("q", DType::I16, &[2]);
    scaled.quantization = Some(Quantization::Units { scale: 64.try_into().unwrap() });
    let tensors =
        vec![weight, moment, scaled, tensor("half", DType::Bf16, &[2]), tensor("c", DType::C128, &[1])];
    let node = Node::new("fc", Op::Gemm).parameter("weight", "w");
    let graph = Graph::sequential("mlp", vec![None, Some(2)], vec![None, Some(3)], vec![node]);
    let mut checkpoint = Checkpoint { graph: Some(graph), tensors, ..Checkpoint::default() };
    checkpoint.metadata.insert("other", "key", "value");
    checkpoint
}

#[test]
fn npz_loses_all_but_names_dtypes_shapes_and_values() {
    let expected = [
        ("graph-dropped", "mlp"),
        ("metadata-dropped", "axes"),
        ("metadata-dropped", "metadata of tensors"),
        ("metadata-dropped", "other"),
        ("metadata-dropped", "roles"),
        ("metadata-dropped", "slots"),
        ("retyped", "half"),
        ("scale-dropped", "q"),
    ];
    expect(losses(&described(), "npz", &[], "out.npz"), &expected);
}

#[test]
fn safetensors_loses_what_it_has_no_dtype_for_and_without_metadata_every_aspect() {
    expect(losses(&described(), "safetensors", &[], "out"), &[("weight-dropped", "c")]);
    let expected = [
        ("graph-dropped", "mlp"),
        ("metadata-dropped", "axes"),
        ("metadata-dropped", "metadata of tensors"),
        ("metadata-dropped", "other"),
        ("metadata-dropped", "roles"),
        ("metadata-dropped", "slots"),
        ("scale-dropped", "q"),
        ("weight-dropped", "c"),
    ];
    expect(losses(&described(), "safetensors", &[("metadata", "none")], "out"), &expected);
}

#[test]
fn tf2_infers_axes_and_roles_and_loses_scales_and_metadata() {
    let found = losses(&described(), "tf2", &[("names", "plain")], "out");
    let expected = [
        ("graph-dropped", "graph"),
        ("metadata-dropped", "m"),
        ("metadata-dropped", "metadata of tensors"),
        ("metadata-dropped", "other"),
        ("metadata-dropped", "w"),
        ("scale-dropped", "q"),
    ];
    expect(found, &expected);
}

/// One dense layer of 64-bit floats, and tensors that it does not use.
fn dense() -> Checkpoint {
    let mut checkpoint = described();
    let mut bias = tensor("b", DType::F64, &[3]).with_axes([Axis::Out]);
    bias.metadata.insert("other", "key", "value");
    checkpoint.tensors.push(bias);
    let graph = checkpoint.graph.as_mut().unwrap();
    graph.nodes[0].parameters.insert("bias".into(), "b".into());
    checkpoint
}

#[test]
fn nn_keeps_the_layers_and_loses_what_no_layer_uses() {
    let expected = [
        ("metadata-dropped", "metadata of tensors"),
        ("metadata-dropped", "other"),
        ("names-dropped", "names"),
        ("narrowed", "b"),
        ("optimizer-dropped", "m"),
        ("weight-dropped", "c"),
        ("weight-dropped", "half"),
        ("weight-dropped", "q"),
    ];
    expect(losses(&dense(), "nn", &[], "out.nn"), &expected);
}

#[test]
fn bullet_quantizes_and_names_what_it_has_no_place_for() {
    let weight = |name: &str, dims: &[u64]| tensor(name, DType::F32, dims);
    let mut first = weight("l0w", &[1, 768]);
    first.metadata.insert("other", "key", "value");
    let counter = tensor("step", DType::I64, &[1]).with_role(Role::Counter);
    let tensors = vec![
        first,
        weight("l0b", &[1]),
        weight("l1w", &[1, 2]),
        weight("l1b", &[1]),
        weight("more", &[1]),
        counter,
    ];
    let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
    let set = [("arch", "simple:768x1x1"), ("content", "quantised")];
    let expected = [
        ("counter-dropped", "step"),
        ("metadata-dropped", "metadata of tensors"),
        ("quantized", "l0b"),
        ("quantized", "l0w"),
        ("quantized", "l1b"),
        ("quantized", "l1w"),
        ("weight-dropped", "more"),
    ];
    expect(losses(&checkpoint, "bullet", &set, "quantised.bin"), &expected);
}

#[test]
fn every_kind_that_changes_the_function_stops_and_no_other() {
    let (registry, source) = open(&dense(), &[0; 4096]);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.nn");
    let mut nn = conversion("nn", &[]);
    for kind in [LossKind::WeightDropped, LossKind::Narrowed] {
        let error = nn.plan(&registry, &source, &output).unwrap_err();
        assert!(error.to_string().contains(kind.name()), "{error}");
        nn = nn.allow(kind);
    }
    nn.plan(&registry, &source, &output).unwrap();
    let strict = Policy::new().strict(true).allow(LossKind::WeightDropped).allow(LossKind::Narrowed);
    let error = nn.policy(strict).plan(&registry, &source, &output).unwrap_err();
    assert!(error.to_string().contains("metadata-dropped"), "{error}");
}

#[test]
fn dropping_a_scale_stops_until_it_is_allowed() {
    let scaled = described().tensors.remove(2);
    let checkpoint = Checkpoint { tensors: vec![scaled], ..Checkpoint::default() };
    let (registry, source) = open(&checkpoint, &[1, 0, 2, 0]);
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out.npz");
    let npz = conversion("npz", &[]);
    let error = npz.plan(&registry, &source, &output).unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy);
    assert!(error.to_string().contains("scale-dropped 'q' (scale of 64 per 1.0"), "{error}");
    npz.allow(LossKind::ScaleDropped).plan(&registry, &source, &output).unwrap();
}

#[test]
fn a_tensor_of_a_dtype_that_the_format_lacks_is_lost_with_the_dtype_named() {
    let checkpoint = Checkpoint { tensors: vec![tensor("n", DType::I64, &[1])], ..Checkpoint::default() };
    let (mut registry, source) = open(&checkpoint, &[0; 8]);
    registry.add(Floats).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    let planned = conversion("floats", &[]).plan_unjudged(&registry, &source, output).unwrap();
    let losses = &planned.plan().losses;
    assert_eq!(losses[0].detail, "format 'floats' cannot store i64 tensors");
}

#[test]
fn numbers_of_a_model_that_are_no_tensors_stop_a_conversion_that_loses_them() {
    let place = crate::common::workplace::Workplace::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/onnx/accept/numbers_in_attributes.onnx");
    let convert = |source: &str, target: &str, more: &[&str]| {
        place.ckpt(&[&["convert", source, target, "--no-sync"], more].concat())
    };
    // Also by way of a format that carries them.
    assert!(convert(model, "carried.safetensors", &[]).status.success());
    for source in [model, "carried.safetensors"] {
        let refused = convert(source, "o.npz", &[]);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(told.contains("weight-dropped 'onnx'"), "{told}");
        assert!(told.contains("keys_tensor of LabelEncoder"), "{told}");
        assert!(!place.path("o.npz").exists(), "{source}");
        assert!(convert(source, "o.onnx", &["--force", "--strict"]).status.success(), "{source}");
        assert_eq!(std::fs::read(place.path("o.onnx")).unwrap(), std::fs::read(model).unwrap(), "{source}");
    }
    assert!(convert(model, "o.npz", &["--allow", "weight-dropped"]).status.success());
}

#[test]
fn a_scale_and_zero_point_stop_every_target_that_does_not_keep_them() {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::builtin();
    let input = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/torch/accept/quantized.pt");
    let source = Source::open(&registry, input, &OpenOptions::new()).unwrap();
    let plain = [("metadata", "none")];
    let targets = [
        ("npz", "out.npz", &[][..]),
        ("gguf", "out.gguf", &[]),
        ("tf2", "out", &[]),
        ("keras", "out.h5", &[]),
        ("safetensors", "out.safetensors", &plain),
        ("torch", "out.pt", &[]),
    ];
    for (format, name, options) in targets {
        let output = directory.path().join(name);
        let stopped = conversion(format, options).plan(&registry, &source, &output).unwrap_err();
        assert_eq!(stopped.kind(), Kind::Lossy, "{format}: {stopped}");
        for part in [
            "scale-dropped 'q' (scale 0.5, zero point 3",
            "'rows' (2 scales on axis 0: 0.1 0.25; zero points 0 7",
        ] {
            assert!(stopped.to_string().contains(part), "{format}: {stopped}");
        }
        conversion(format, options).allow(LossKind::ScaleDropped).plan(&registry, &source, &output).unwrap();
    }
    // Kept under the key of safetensors.
    let output = directory.path().join("kept.safetensors");
    let kept = conversion("safetensors", &[]).plan(&registry, &source, &output).unwrap();
    kept.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    let kept = Source::open(&registry, output, &OpenOptions::new()).unwrap();
    let hash = |source: &Source| ckpt::digest::digest(source, 1).unwrap().sha256;
    assert_eq!(hash(&kept), hash(&source));
    assert!(ckpt::diff::diff(&source, &kept, None).unwrap().agrees());
}

#[test]
fn what_llama_cpp_needs_beside_the_tensors_of_a_mapping_is_unloadable_if_the_configuration_says_so() {
    let place = Workplace::new();
    std::fs::create_dir(place.path("hf")).unwrap();
    place.checkpoint("hf/model.safetensors", &[("model.norm.weight".to_owned(), vec![2], vec![1.0, 2.0])]);
    let unloadable = |mapping: &str, config: &str| -> Vec<String> {
        place.write("hf/config.json", config);
        let summary = place.json(&["convert", "hf", "out.gguf", "--map", mapping, "--force"]);
        let losses = summary["losses"].as_array().unwrap().iter();
        let losses = losses.filter(|loss| loss["detail"].as_str().unwrap().contains("rotary frequencies"));
        assert!(losses.clone().all(|loss| loss["kind"] == "unloadable"));
        losses.map(|loss| loss["subject"].as_str().unwrap().to_owned()).collect()
    };
    let llama = "llama-hf-to-gguf,heads=2,kv_heads=2";
    for config in [
        r#"{"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}"#,
        r#"{"rope_scaling": {"type": "llama3"}}"#,
        r#"{"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}"#,
    ] {
        assert_eq!(unloadable(llama, config), ["rope_freqs.weight"], "{config}");
    }
    for config in
        ["{}", r#"{"rope_scaling": null}"#, r#"{"rope_scaling": {"rope_type": "linear"}}"#, "no JSON"]
    {
        assert_eq!(unloadable(llama, config), [""; 0], "{config}");
    }
    let long = r#"{"rope_scaling": {"type": "longrope"}}"#;
    let factors = ["rope_factors_long.weight", "rope_factors_short.weight"];
    assert_eq!(unloadable("phi3-hf-to-gguf", long), factors);
    let refused = place.ckpt(&["convert", "hf", "strict.gguf", "--map", "phi3-hf-to-gguf", "--strict"]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && text.contains("rope_factors_long.weight"), "{text}");
}
