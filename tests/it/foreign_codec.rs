//! A codec from outside the tree is registered, kept to the contract, and converted to and from.

use crate::toy::{self, Toy};
use ckpt::{Conversion, Execution, OpenOptions, Registry, Resources, Source};
use ckpt_api::Input;
use ckpt_conformance::{Sample, check};
use std::collections::BTreeMap;
use std::path::Path;

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Toy).unwrap();
    registry
}

fn open(bytes: &[u8]) -> Source {
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), bytes.to_vec())]));
    Source::open(&registry(), input, &OpenOptions::default()).unwrap()
}

fn convert(source: Source, to: &str, output: &Path, resources: Resources) {
    let conversion = Conversion::new().to(to).resources(resources).verify(true);
    let planned = conversion.plan(&registry(), &source, output).unwrap();
    planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
}

/// The values of [`toy::file`].
fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|k| k as f32).collect()
}

#[test]
fn a_foreign_codec_keeps_the_contract() {
    let file = |tensors: &[(&str, &[u16])]| BTreeMap::from([("m.toy".to_owned(), toy::file(tensors))]);
    let samples = [
        Sample::new("no tensors", "m.toy", file(&[])).without_tensors(),
        Sample::new(
            "several ranks",
            "m.toy",
            file(&[("a", &[2, 3]), ("b", &[]), ("c", &[4, 0]), ("d", &[2, 3, 4])]),
        )
        .floats("a", &[2, 3], &counting(6))
        .floats("b", &[], &counting(1))
        .floats("c", &[4, 0], &[])
        .floats("d", &[2, 3, 4], &counting(24)),
    ];
    check(&Toy, &samples);
}

#[test]
fn a_codec_cannot_take_the_id_of_another() {
    assert_eq!(registry().add(Toy).unwrap_err().kind(), ckpt::Kind::Usage);
    assert_eq!(registry().codec("toy").unwrap().info().title, "Toy format");
}

/// A codec that writes a file under a name from its source.
struct Stray;

impl ckpt::Codec for Stray {
    fn info(&self) -> &ckpt_api::FormatInfo {
        static INFO: std::sync::LazyLock<ckpt_api::FormatInfo> =
            std::sync::LazyLock::new(|| Toy.info().clone().with_id("stray"));
        &INFO
    }

    fn probe(&self, _: &Input) -> ckpt::Result<ckpt_api::Match> {
        Ok(ckpt_api::Match::No)
    }

    fn read(
        &self,
        input: &Input,
        options: &ckpt_api::Options,
        limits: &ckpt_api::Limits,
    ) -> ckpt::Result<ckpt_api::Contents> {
        Toy.read(input, options, limits)
    }

    fn place(
        &self,
        checkpoint: &ckpt_api::Checkpoint,
        name: &str,
        options: &ckpt_api::Options,
    ) -> ckpt::Result<ckpt_api::OutputLayout> {
        let mut placed = Toy.place(checkpoint, name, options)?;
        placed.files.push(ckpt_api::OutputFile::new(&*checkpoint.tensors[0].name, 0));
        Ok(placed)
    }
}

#[test]
fn a_name_of_an_output_file_that_does_not_follow_from_the_outputs_is_refused() {
    let mut registry = registry();
    registry.add(Stray).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let convert = |tensor: &str, output: &str| {
        let conversion = Conversion::new().to("stray");
        conversion.plan(&registry, &open(&toy::file(&[(tensor, &[2])])), folder.path().join(output)).map(drop)
    };
    for tensor in [".bashrc", "sub/x", "outer.toy"] {
        let error = convert(tensor, "out.toy").unwrap_err();
        let told = error.to_string();
        assert!(error.kind() == ckpt::Kind::Defect && told.contains("does not follow"), "{told}");
    }
    for (tensor, output) in [("out.toy.index", "out.toy"), ("out/x", "out")] {
        convert(tensor, output).unwrap();
    }
}

/// Another format, with the same operator.
struct Copy;

impl ckpt::Codec for Copy {
    fn info(&self) -> &ckpt_api::FormatInfo {
        static INFO: std::sync::LazyLock<ckpt_api::FormatInfo> =
            std::sync::LazyLock::new(|| Toy.info().clone().with_id("copy"));
        &INFO
    }
    fn probe(&self, input: &Input) -> ckpt::Result<ckpt_api::Match> {
        Toy.probe(input)
    }
    fn read(
        &self,
        input: &Input,
        options: &ckpt_api::Options,
        limits: &ckpt_api::Limits,
    ) -> ckpt::Result<ckpt_api::Contents> {
        Toy.read(input, options, limits)
    }
    fn place(
        &self,
        checkpoint: &ckpt_api::Checkpoint,
        name: &str,
        options: &ckpt_api::Options,
    ) -> ckpt::Result<ckpt_api::OutputLayout> {
        Toy.place(checkpoint, name, options)
    }
    fn ops(&self) -> &'static [ckpt_api::OpSpec] {
        Toy.ops()
    }
}

#[test]
fn two_codecs_cannot_define_an_operator_of_the_same_name() {
    let mut registry = registry();
    let error = registry.add(Copy).unwrap_err();
    assert_eq!(error.kind(), ckpt::Kind::Usage);
    let text = error.to_string();
    assert!(["toy.ScaledPower", "'toy'", "'copy'"].iter().all(|part| text.contains(part)), "{text}");
    assert!(registry.codec("copy").is_err());
    assert_eq!(registry.op("toy.ScaledPower").unwrap().attributes, ["power"]);
}

#[test]
fn values_are_row_major_whatever_order_they_are_stored_in() {
    let source = open(&toy::file(&[("a", &[2, 3])]));
    let numbers: Vec<u8> = (0..6).flat_map(|k| (k as f32).to_le_bytes()).collect();
    assert_eq!(source.tensor("a").unwrap().bytes().unwrap(), numbers);
    let error = source.tensor("b").unwrap_err().to_string();
    assert!(error.contains("known: a"), "{error}");
}

#[test]
fn a_foreign_format_converts_to_safetensors_and_back_to_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let original = toy::file(&[("a", &[30, 50]), ("b", &[7]), ("c", &[3, 5, 4]), ("d", &[])]);
    let middle = directory.path().join("m.safetensors");
    convert(open(&original), "safetensors", &middle, Resources::default());
    let back = directory.path().join("back.toy");
    let source = Source::open(&registry(), &middle, &OpenOptions::default()).unwrap();
    assert_eq!(source.format(), "safetensors");
    convert(source, "toy", &back, Resources::default());
    assert_eq!(std::fs::read(back).unwrap(), original);
}

#[test]
fn every_budget_and_thread_count_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let original = toy::file(&[("big", &[701, 503]), ("cube", &[40, 50, 60]), ("small", &[3])]);
    let mut results = Vec::new();
    for (max_memory, threads) in [(7 << 20, 1), (8 << 20, 2), (16 << 20, 3), (256 << 20, 1), (256 << 20, 4)] {
        let output = directory.path().join(format!("{max_memory}-{threads}.safetensors"));
        convert(
            open(&original),
            "safetensors",
            &output,
            Resources::new().max_memory(max_memory).threads(threads).item_size(threads as u64 * 100),
        );
        results.push(std::fs::read(output).unwrap());
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(results.len(), 5);
}

#[cfg(feature = "forward")]
mod operator {
    use super::*;
    use ckpt::api::{Attribute, Axis, Checkpoint, DType, Graph, Node, Op, Shape, Tensor};
    use ckpt::verify::{DEFAULT_MEMORY, Inputs, Options, RuleName, devices, run, verify};

    /// A safetensors file that carries the graph `scale·x²`, its scale stored as `dtype`.
    fn network(dtype: DType, scale: [f32; 3]) -> Source {
        let node = Node::new("power", Op::custom("toy.ScaledPower"))
            .parameter("scale", "s")
            .attribute("power", Attribute::Float(2.0));
        let graph = Graph::sequential("g", vec![None, Some(3)], vec![None, Some(3)], vec![node]);
        let tensor = Tensor::new("s", dtype, Shape::new([3]).unwrap()).with_axes([Axis::Out]);
        let checkpoint = Checkpoint { graph: Some(graph), tensors: vec![tensor], ..Checkpoint::default() };
        let bytes: Vec<u8> = scale.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut stored = Vec::new();
        ckpt::transform::cast(DType::F32, dtype, 0, &bytes, &mut stored).unwrap();
        let codec = registry().writer("safetensors").unwrap();
        let files = ckpt_conformance::write(&*codec, &checkpoint, &[stored], "m.safetensors", &[]).unwrap();
        let input = Input::memory("m.safetensors", files);
        Source::open(&registry(), input, &OpenOptions::default()).unwrap()
    }

    #[test]
    fn a_graph_with_the_operator_of_a_foreign_codec_is_run_and_verified() {
        let (a, b) = (network(DType::F32, [1.0, 2.0, 3.0]), network(DType::F32, [1.0, 2.0, 4.0]));
        let mut cpu = devices::open("cpu", Default::default()).unwrap();
        let pass = run(&registry(), &a, &Inputs::default(), None, &mut *cpu, DEFAULT_MEMORY).unwrap();
        assert_eq!(pass.outputs[0].1.shape[1], 3);
        assert!(pass.outputs[0].1.array.to_f64().iter().all(|value| *value >= 0.0));

        let report = verify(&registry(), &a, &a, &Options::default()).unwrap();
        assert!(report.verdict.passes() && report.runs[0].rule.name == RuleName::Bits);
        let report = verify(&registry(), &a, &b, &Options::default()).unwrap();
        assert!(!report.verdict.passes());
        assert_eq!(report.runs[0].layers[0].op, "toy.ScaledPower");
    }

    #[test]
    fn without_its_codec_the_operator_is_named_as_unsupported() {
        let a = network(DType::F32, [1.0, 2.0, 3.0]);
        let error = verify(&Registry::builtin(), &a, &a, &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ckpt::Kind::Unsupported);
        assert!(error.to_string().contains("toy.ScaledPower"), "{error}");
    }

    #[test]
    fn less_precise_tensors_of_such_an_operator_need_a_tolerance() {
        let (wide, narrow) = (network(DType::F32, [0.1, 0.2, 0.3]), network(DType::F16, [0.1, 0.2, 0.3]));
        let error = verify(&registry(), &wide, &narrow, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("toy.ScaledPower") && error.contains("tolerance"), "{error}");
        let tolerance = Some(ckpt::diff::Tolerance { absolute: 1e-3, relative: 0.0 });
        let options = Options { tolerance, ..Options::default() };
        assert!(verify(&registry(), &wide, &narrow, &options).unwrap().verdict.passes());
    }
}
