use super::*;
use ckpt_api::{
    Added, AddedAxis, Affine, Aspect, Axis, Blocks, Checkpoint, Checksum, ChecksumAlgorithm, Compression,
    Contents, DType, Decoder, Encoding, Error, Extent, FileId, FinishState, Graph, Input, InputSpec, Kind,
    Limit, Limits, Literal, Loss, LossKind, MissingGraph, Node, Op, OpCall, OpShapes, OpSpec, OptionKind,
    OptionSpec, Options, OutputFile, OutputLayout, ParameterSpec, Phases, Placement, Quantization, Reading,
    Region, Repair, Role, Setting, Shape, ShapeMismatch, Side, Slot, Tensor, TensorId, Ties, Window, Written,
    text,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::num::NonZeroU64;

fn tensors() -> Vec<Tensor> {
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    let mut quantized = Tensor::new("q", DType::I8, shape(&[2, 3]));
    quantized.quantization = Some(Quantization::from(Affine::new([0.5; 3], [1.0; 3], Some(1)).unwrap()));
    let mut annotated = Tensor::new("m", DType::F32, shape(&[1]));
    annotated.metadata.insert("toy", "bytes", b"\x00\xff".to_vec());
    annotated.metadata.insert("toy", "nan", f32::NAN);
    let slot = Slot { variable: "w".into(), name: "momentum".to_owned() };
    vec![
        Tensor::new("w", DType::F32, shape(&[2, 3])).with_axes([Axis::Out, Axis::In]),
        Tensor::new("é/b", DType::F16, shape(&[3])),
        Tensor::new("step", DType::I64, Shape::scalar()).with_role(Role::Counter),
        Tensor::new("empty", DType::F32, shape(&[0, 5])),
        Tensor::new("words", DType::String, shape(&[2])).with_lengths(vec![3, 4]),
        quantized,
        annotated,
        Tensor::new("v", DType::F32, shape(&[2, 3])).with_role(Role::Optimizer).with_slot(slot),
    ]
}

fn placements() -> Vec<Placement> {
    let tensors = tensors();
    let at = |place: usize, extents: Vec<Extent>| {
        let encoding = Encoding::row_major(&tensors[place]);
        Placement::new(TensorId(place), format!("stored/{place}"), extents, encoding)
    };
    let extent = |offset, len| Extent::new(FileId(0), offset, len);
    let crc = |value| Checksum { algorithm: ChecksumAlgorithm::Crc32, seed: 7, value };
    let region = Region { start: vec![1, 0], shape: Shape::new([1, 3]).unwrap() };
    let blocks = Blocks::opaque("toy.q8", 32, 34);
    vec![
        at(0, vec![extent(0, 12), extent(64, 12).with_region(region)]),
        at(1, vec![extent(12, 6).with_checksum(crc(Some(9)))]),
        at(2, vec![extent(u64::MAX, 8).with_checksum(crc(None))]),
        at(3, vec![]),
        at(4, vec![extent(1, 7).with_compression(Compression::new(Decoder::REPEATED, 2))]),
        at(5, vec![extent(40, 6)]).with_window(Window::new(vec![0, 0], Shape::new([4, 3]).unwrap())),
        at(6, vec![extent(0, 4)])
            .with_encoding(Encoding::new(DType::F32, vec![0]).big_endian().in_blocks(blocks)),
        at(7, vec![extent(1 << 40, 24)]).with_added(vec![Added {
            tensor: TensorId(1),
            axes: vec![AddedAxis::Every, AddedAxis::Along(0)],
        }]),
    ]
}

fn graph() -> Graph {
    let node = Node::new("dense", Op::Gemm).parameter("weight", "w");
    Graph { name: "g".to_owned(), nodes: vec![node], ..Graph::default() }
}

fn contents() -> Contents {
    let mut checkpoint = Checkpoint { graph: Some(graph()), tensors: tensors(), ..Checkpoint::default() };
    checkpoint.metadata.insert("toy", "epoch", 7u32);
    let mut contents = Contents::default()
        .with_checkpoint(checkpoint)
        .with_files(vec!["a.toy".to_owned(), "b.toy".to_owned()])
        .with_placements(placements())
        .with_repairs(vec![Repair { subject: "s".to_owned(), detail: "d".to_owned() }])
        .with_losses(vec![Loss::new(LossKind::Partial, "m", "part 1 of 2")])
        .with_notes([text!["read with ", Setting::READ_OPTION.of("lenient=true"), " only"]])
        .with_working_memory(99);
    contents.graph_notes.push("assumed".into());
    contents.training_only.push("dense (dropout)".to_owned());
    contents.example_shapes.insert("x".to_owned(), vec![None, Some(3)]);
    let help = Some(text!["give ", Setting::ARCHITECTURE]);
    contents.missing_graph = Some(MissingGraph { reason: "no graph".into(), is_unstated: true, help });
    let shape = |dims: &[u64]| Shape::new(dims).unwrap();
    contents.misfit = Some(ShapeMismatch { tensor: "w".into(), found: shape(&[2]), expected: shape(&[3]) });
    contents.outline = Some(Box::new(graph()));
    contents.adopts_model = true;
    contents
}

fn layout() -> OutputLayout {
    let reading = Reading {
        entry: "a.toy".to_owned(),
        options: vec![("k".to_owned(), "v".to_owned())],
        architecture: None,
    };
    OutputLayout::default()
        .with_files(vec![OutputFile::new("a.toy", 100), OutputFile::of_unknown_length("b.toy")])
        .with_literals(vec![Literal { file: FileId(1), offset: 4, bytes: vec![0, 255, 7] }])
        .with_placements(placements())
        .with_losses(vec![Loss::new(LossKind::Narrowed, "w", "to f16")])
        .with_asked(&[LossKind::Narrowed])
        .with_left_out([(Aspect::Graph, "an option leaves it out".to_owned())].into())
        .with_whole_units(vec![TensorId(5)])
        .with_finish(FinishState::new(vec![1u64, 2]))
        .with_readings(vec![reading])
        .with_working_memory(3)
}

/// What a form is after a stay in either representation.
fn both_ways<T: Serialize + DeserializeOwned>(form: &T) -> [T; 2] {
    let json = serde_json::to_string(form).unwrap();
    [decode(&encode(form).unwrap()).unwrap(), serde_json::from_str(&json).unwrap()]
}

#[test]
fn contents_come_back_as_they_were() {
    for form in both_ways(&ContentsForm::from(contents())) {
        assert_eq!(form.into_contents(&Limits::default()).unwrap(), contents());
    }
}

#[test]
fn a_layout_comes_back_as_it_was() {
    for form in both_ways(&OutputLayoutForm::from(layout())) {
        let read = form.into_layout(&Limits::default()).unwrap();
        assert_eq!(read, layout());
        assert_eq!(*read.finish.get::<Vec<u64>>().unwrap(), [1, 2]);
    }
}

#[test]
fn a_checkpoint_and_its_ties_come_back() {
    let ties = Ties::of_pairs([(TensorId(7), TensorId(0))]).unwrap();
    let checkpoint = Checkpoint { ties, ..contents().checkpoint };
    for form in both_ways(&CheckpointForm::from(checkpoint.clone())) {
        assert_eq!(form.into_checkpoint(&Limits::default()).unwrap(), checkpoint);
    }
}

#[test]
fn settings_in_texts_are_named_by_the_program_that_shows_them() {
    #[derive(Debug)]
    struct Keywords;
    impl ckpt_api::Vocabulary for Keywords {
        fn words(&self, setting: &str, value: &str) -> Option<String> {
            Some(format!("<{setting}={value}>"))
        }
    }
    let text = text!["try ", Setting::DTYPE.of("f32"), " or ", Setting::new("depth", "Options::depth"), "."];
    let form: TextForm = decode(&encode(&TextForm::from(&text)).unwrap()).unwrap();
    let read = ckpt_api::Text::from(form);
    assert_eq!(read, text);
    // A setting that the program does not know has the words of the codec.
    assert_eq!(read.in_words(&Keywords), "try <dtype=f32> or `Options::depth`.");
}

#[test]
fn errors_keep_their_place_and_whether_something_is_missing() {
    let error = Error::corrupt("the magic number is wrong")
        .file("m.toy")
        .offset(4)
        .field("magic")
        .tensor("w")
        .found("1")
        .expected("2")
        .help(text!["use ", Setting::READ_OPTION.of("lenient=true")]);
    let missing = Error::io("cannot open the file", std::io::ErrorKind::NotFound.into());
    for error in [error, missing] {
        for form in both_ways(&ErrorForm::from(&error)) {
            let read = Error::from(form);
            assert_eq!((read.to_string(), read.kind()), (error.to_string(), error.kind()));
            assert_eq!(read.is_missing(), error.is_missing());
        }
    }
}

const SPECS: &[OptionSpec] = &[
    OptionSpec::lenient("accepts what can be mended"),
    OptionSpec::new("dialect", OptionKind::Choice(&["a", "b"]), Side::Both, "which dialect; default a"),
];

#[test]
fn options_are_checked_again_where_they_arrive() {
    let pairs = [("dialect".to_owned(), "B".to_owned()), ("lenient".to_owned(), "true".to_owned())];
    let options = Options::parse("toy", SPECS, Side::Read, &pairs)
        .unwrap()
        .with_dtype(Some(DType::F16))
        .with_framework(Some("pt"))
        .with_phases(Some(Phases::new(NonZeroU64::new(4096).unwrap(), vec![Some(5), None])))
        .with_model(Some(std::sync::Arc::new(contents().checkpoint)));
    for form in both_ways(&OptionsForm::from(&options)) {
        let read = form.clone().into_options("toy", SPECS, &Limits::default()).unwrap();
        assert!(read.flag("lenient") && read.text("dialect") == Some("b"));
        assert_eq!((read.dtype(), read.framework()), (Some(DType::F16), Some("pt")));
        assert_eq!((read.phases(), read.model()), (options.phases(), options.model()));
        assert_eq!(form.into_options("toy", &[], &Limits::default()).unwrap_err().kind(), Kind::Usage);
    }
}

#[test]
fn limits_verdicts_and_checksums_come_back() {
    let limits = Limits::default().with(Limit::Tensors, 3);
    for form in both_ways(&LimitsForm::from(&limits)) {
        assert_eq!(Limits::from(form), limits);
    }
    let verdict = ckpt_api::Match::Certain("magic".to_owned());
    for form in both_ways(&MatchForm::from(verdict.clone())) {
        assert_eq!(ckpt_api::Match::from(form), verdict);
    }
    let written = Written { checksums: vec![None, Some(3)].into() };
    for form in both_ways(&WrittenForm::from(&written)) {
        assert_eq!(Written::from(form), written);
    }
    let input = InputForm::from(&Input::memory("a.toy", [("a.toy".to_owned(), vec![1])].into()));
    assert_eq!(both_ways(&input), [input.clone(), input]);
}

fn description() -> Description {
    let format = FormatForm {
        id: "toy".to_owned(),
        title: "Toy format".to_owned(),
        extensions: vec!["toy".to_owned()],
        reads: vec!["all".to_owned()],
        options: SPECS.iter().map(OptionForm::from).collect(),
        keeps: vec![Document(Aspect::Graph)],
        dtypes: vec![Document(DType::F32)],
        ..FormatForm::default()
    };
    Description {
        version: "0.1.0".to_owned(),
        format,
        blocks: vec![Document(Blocks::opaque("toy.q8", 32, 34))],
        decoders: vec![DecoderForm { name: "runs".to_owned(), kind: DecoderKindForm::Whole, memory: 0 }],
        operators: vec![OperatorForm::from(&OP)],
    }
}

/// An operator with everything that one can have.
static OP: OpSpec = OpSpec::new("toy.Select", |shapes| Ok(shapes.input(0).to_vec()), |_, _| Ok(()))
    .inputs(&[InputSpec::index("table", &[Axis::In]).padded(), InputSpec::real().optional()])
    .parameters(&[ParameterSpec::new("table", &[Axis::In, Axis::Out]).optional_axes(&[Axis::In]).optional()])
    .attributes(&["scale"]);

#[test]
fn an_operator_comes_back_as_it_was() {
    for form in both_ways(&OperatorForm::from(&OP)) {
        let inputs: Vec<_> = form.inputs.into_iter().map(OpInputForm::into_spec).collect();
        let parameters: Vec<_> = form.parameters.into_iter().map(OpParameterForm::into_spec).collect();
        assert_eq!((&*form.name, inputs, parameters), (OP.name, OP.inputs.to_vec(), OP.parameters.to_vec()));
        assert_eq!(form.attributes, OP.attributes);
    }
}

#[test]
fn a_call_comes_back_as_it_was() {
    let node = Node::new("n", Op::custom("toy.Select"));
    let (inputs, parameters) = ([Some(vec![2]), None], [("table", vec![1, 3])]);
    let shapes = OpShapes::new(&node, &inputs, &parameters);
    for form in both_ways(&OpShapesForm::from(&shapes)) {
        let read = form.into_shapes(&OP).unwrap();
        let read = read.shapes();
        assert_eq!((read.node(), read.inputs(), read.parameters()), (&node, &inputs[..], &parameters[..]));
    }
    let call = OpCall::new(shapes, &[&[0.0, -1.0], &[]], &[&[1.5, f64::MIN_POSITIVE, f64::INFINITY]]);
    for form in both_ways(&OpValuesForm::from(&call)) {
        let floats = |all: Vec<Bytes>| all.iter().map(Bytes::floats).collect::<Vec<_>>();
        assert_eq!(floats(form.inputs), call.inputs());
        assert_eq!(floats(form.parameters), call.parameters());
    }
}

#[test]
fn a_call_with_a_role_that_the_operator_lacks_is_refused() {
    let node = Node::new("n", Op::custom("toy.Select"));
    let form = OpShapesForm::from(&OpShapes::new(&node, &[], &[("bias", vec![3])]));
    let error = form.into_shapes(&OP).unwrap_err();
    assert!(error.to_string().contains("'bias'"), "{error}");
}

#[test]
fn a_description_becomes_that_of_a_format() {
    for read in both_ways(&description()) {
        read.check().unwrap();
        let info = read.format.clone().into_info().unwrap();
        assert_eq!((info.id, info.extensions, info.options.len()), ("toy", &["toy"][..], 2));
        assert_eq!(FormatForm::from(info), read.format);
    }
}

#[test]
fn a_description_that_no_program_could_use_is_refused() {
    type Damage = fn(&mut Description);
    let damages: &[(&str, Damage)] = &[
        ("an id that cannot be used", |d| d.format.id = "Toy Format".to_owned()),
        ("an id that cannot be used", |d| d.format.id.clear()),
        ("cannot be shown", |d| d.format.title = "a\nb".to_owned()),
        ("cannot be shown", |d| d.version = "1\u{1b}[2J".to_owned()),
        ("ending of file names", |d| d.format.extensions = vec![".toy".to_owned()]),
        ("ending of file names", |d| d.format.extensions = vec!["TOY".to_owned()]),
        ("a name twice", |d| d.format.options.push(d.format.options[0].clone())),
        ("cannot be shown", |d| d.format.options[0].help.clear()),
        ("too many names", |d| d.format.reads = (0..2000).map(|n| n.to_string()).collect()),
        ("a name twice", |d| d.decoders.push(d.decoders[0].clone())),
        ("name of another format", |d| d.blocks = vec![Document(Blocks::opaque("gguf.q8", 32, 34))]),
    ];
    for (message, damage) in damages {
        let mut description = description();
        damage(&mut description);
        let info = description.format.clone().into_info();
        let error = info.and_then(|_| description.check()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains(message), "{message}: {error}");
    }
}

#[test]
fn a_message_that_is_cut_or_goes_on_is_refused() {
    let message = encode(&ContentsForm::from(contents())).unwrap();
    for len in 0..message.len() {
        let read = decode::<ContentsForm>(&message[..len]);
        assert_eq!(read.unwrap_err().kind(), Kind::Unsupported, "{len}");
    }
    let longer: Vec<u8> = message.iter().copied().chain([0]).collect();
    assert!(decode::<ContentsForm>(&longer).unwrap_err().to_string().contains("1 byte behind its end"));
}

#[test]
fn a_changed_message_is_refused_or_makes_other_contents() {
    let message = encode(&ContentsForm::from(contents())).unwrap();
    let mut refused = 0;
    for at in 0..message.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = message.clone();
            changed[at] ^= change;
            let read =
                decode::<ContentsForm>(&changed).and_then(|form| form.into_contents(&Limits::default()));
            match read {
                Ok(read) => drop(read.check(&Limits::default())),
                Err(error) => {
                    refused += 1;
                    assert!(
                        matches!(error.kind(), Kind::Unsupported | Kind::Limit | Kind::Corrupt),
                        "{error}"
                    );
                }
            }
        }
    }
    assert!(refused > message.len(), "{refused} of {} changes were refused", 3 * message.len());
}

#[test]
fn limits_come_before_memory() {
    let limits = Limits::default().with(Limit::Tensors, 7);
    for form in both_ways(&ContentsForm::from(contents())) {
        assert_eq!(form.into_contents(&limits).unwrap_err().kind(), Kind::Limit);
    }
    let limits = Limits::default().with(Limit::Slices, 1);
    let form: ContentsForm = decode(&encode(&ContentsForm::from(contents())).unwrap()).unwrap();
    assert_eq!(form.into_contents(&limits).unwrap_err().kind(), Kind::Limit);
    let limits = Limits::default().with(Limit::Files, 1);
    for form in both_ways(&OutputLayoutForm::from(layout())) {
        assert_eq!(form.into_layout(&limits).unwrap_err().kind(), Kind::Limit);
    }
}

#[test]
fn what_crosses_is_what_the_schema_describes() {
    let schemas = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas");
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(format!("{schemas}/{name}")).unwrap()).unwrap()
    };
    let base = "file:///schemas/";
    let registry = ["plan.schema.json", "codec.schema.json"]
        .iter()
        .fold(jsonschema::Registry::new(), |all, name| all.add(format!("{base}{name}"), read(name)).unwrap());
    let registry = registry.prepare().unwrap();
    let accepts = |form: &str, value: Value| {
        let schema = serde_json::json!({ "$ref": format!("{base}codec.schema.json#/$defs/{form}") });
        let schema = jsonschema::options().with_registry(&registry).build(&schema).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{form}: {}", errors.join("\n"));
    };
    let json = |value: Result<Value, serde_json::Error>| value.unwrap();
    accepts("contents", json(serde_json::to_value(ContentsForm::from(contents()))));
    accepts("checkpoint", json(serde_json::to_value(CheckpointForm::from(contents().checkpoint))));
    accepts("output_layout", json(serde_json::to_value(OutputLayoutForm::from(layout()))));
    accepts("description", json(serde_json::to_value(description())));
    accepts("options", json(serde_json::to_value(OptionsForm::default())));
    accepts("written", json(serde_json::to_value(WrittenForm { checksums: vec![None, Some(3)] })));
    for verdict in
        [MatchForm::No, MatchForm::Possible("why".to_owned()), MatchForm::Certain("why".to_owned())]
    {
        accepts("match", json(serde_json::to_value(verdict)));
    }
    accepts("error", json(serde_json::to_value(ErrorForm::from(&Error::usage("no such option").field("k")))));
}
