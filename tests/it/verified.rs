//! Output is read back before it gets its name, and receipts say what it is.

use crate::toy::{self, Toy};
use ckpt::api::{
    Axis, Checkpoint, Codec, Contents, Error, FileId, FormatInfo, Input, Kind, Limits, Literal, LossKind,
    Match, Op, Options, OutputLayout, Result, Written,
};
use ckpt::{Computed, Conversion, Execution, OpenOptions, Registry, Resources, Source, Summary};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What a codec may do wrong although it keeps the contract.
#[derive(Clone, Copy)]
enum Fault {
    None,
    /// A byte of a tensor is overwritten when all is written.
    Element,
    /// The elements of the second tensor, whose axes have no names, are written in another order than they are read.
    Order,
    /// The second tensor is looked for where the first one is.
    Place,
    /// The lengths of a tensor's axes are exchanged.
    Shape,
    /// The axes are read back by each other's names.
    Axes,
    /// The header cannot be read.
    Header,
    /// The file is not recognized.
    Magic,
}

struct Faulty(Fault);

impl Codec for Faulty {
    fn info(&self) -> &FormatInfo {
        Toy.info()
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        Toy.probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        let mut contents = Toy.read(input, options, limits)?;
        let tensors = &mut contents.checkpoint.tensors;
        for tensor in tensors.iter_mut().filter(|tensor| tensor.name == "kernel") {
            tensor.axes = Some([Axis::In, Axis::Out].into());
            match self.0 {
                Fault::Axes if input.directory().is_some() => {
                    tensor.axes = Some([Axis::Out, Axis::In].into())
                }
                Fault::Shape => tensor.shape = tensor.shape.permuted(&[1, 0]),
                _ => {}
            }
        }
        if let Fault::Place = self.0 {
            contents.placements[1].extents = contents.placements[0].extents.clone();
        }
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        let mut placed = Toy.place(checkpoint, name, options)?;
        if let Fault::Order = self.0 {
            let order = &mut placed.placements[1].encoding.order;
            *order = order.reversed();
        }
        Ok(placed)
    }

    fn finish(&self, placed: &OutputLayout, _: &[Written]) -> Result<Vec<Literal>> {
        let first = placed.placements[0].extents[0].offset;
        let block =
            |offset, bytes: &[u8]| Ok(vec![Literal { file: FileId(0), offset, bytes: bytes.to_vec() }]);
        match self.0 {
            // Element [1, 0] is the second of a column-major file.
            Fault::Element => block(first + 4, &[0x3f]),
            Fault::Header => block(4, &[200]),
            Fault::Magic => block(0, b"TOY2"),
            _ => Ok(Vec::new()),
        }
    }
}

fn registry(fault: Fault) -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Faulty(fault)).unwrap();
    registry
}

fn source() -> Source {
    let bytes = toy::file(&[("kernel", &[3, 3]), ("other", &[3, 3])]);
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), bytes)]));
    Source::open(&registry(Fault::None), input, &OpenOptions::default()).unwrap()
}

fn convert(fault: Fault, output: &Path, conversion: Conversion) -> Result<Summary> {
    let planned = conversion.plan(&registry(fault), &source(), output)?;
    planned.execute(&Execution::new().sync(false), &|_| ())
}

fn to_toy() -> Conversion {
    Conversion::new().to("toy")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn fact(error: &Error, label: &str) -> String {
    error
        .context()
        .pairs()
        .find(|(other, _)| *other == label)
        .map(|(_, text)| text.into_owned())
        .unwrap_or_default()
}

#[test]
fn output_that_is_not_what_the_source_holds_is_found_whatever_is_wrong_and_leaves_nothing() {
    let faults = [
        (Fault::Element, Kind::Mismatch, "differs from the source"),
        (Fault::Order, Kind::Defect, "axes are read back in a different order"),
        (Fault::Place, Kind::Defect, "not where the conversion wrote it"),
        (Fault::Axes, Kind::Defect, "axes are read back in a different order"),
        (Fault::Header, Kind::Mismatch, "cannot be read back"),
        (Fault::Magic, Kind::Defect, "not recognized as its own format"),
    ];
    for (fault, kind, message) in faults {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("o.toy");
        let receipt = place.path().join("r.json");
        let error = convert(fault, &output, to_toy().verify(true).receipt(receipt)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(message), "{message}: {error}");
        assert!(names(place.path()).is_empty(), "{message}: {:?}", names(place.path()));
        // Without a look at it, nobody would know.
        convert(fault, &output, to_toy()).unwrap();
        assert_eq!(names(place.path()), ["o.toy"]);
    }
}

#[test]
fn an_element_that_differs_is_named_with_its_place_on_both_sides() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("o.toy");
    let error = convert(Fault::Element, &output, to_toy().verify(true)).unwrap_err();
    assert_eq!(fact(&error, "tensor"), "kernel");
    assert_eq!(fact(&error, "field"), "element [1, 0]");
    // Behind the magic, the count, and name and axes of the first tensor.
    let offset = 4 + 1 + 1 + 6 + 1 + 4 + 4;
    assert_eq!((fact(&error, "file"), fact(&error, "offset")), ("m.toy".to_owned(), offset.to_string()));
    assert_eq!(fact(&error, "expected"), "3 (0x40400000)");
    let shown = format!("0.75 (0x3f400000) in {} at offset {offset}", output.display());
    assert_eq!(fact(&error, "found"), shown);
}

#[test]
fn a_tensor_of_another_shape_is_found() {
    let bytes = toy::file(&[("kernel", &[2, 5])]);
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), bytes)]));
    let source = Source::open(&registry(Fault::None), input, &OpenOptions::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let conversion = to_toy().verify(true);
    let planned = conversion.plan(&registry(Fault::Shape), &source, place.path().join("o.toy")).unwrap();
    let error = planned.execute(&Execution::default(), &|_| ()).unwrap_err();
    assert_eq!(fact(&error, "found"), "[2, 5] as stored");
    assert_eq!(fact(&error, "expected"), "[5, 2], as it was written");
    assert!(names(place.path()).is_empty());
}

#[test]
fn numbers_that_a_narrower_dtype_changes_are_those_that_rounding_gives_and_their_error_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let big = toy::file(&[("w", &[70, 70])]);
    let input = Input::memory("m.toy", BTreeMap::from([("m.toy".to_owned(), big)]));
    let source = Source::open(&registry(Fault::None), input, &OpenOptions::default()).unwrap();
    let conversion = Conversion::new().verify(true).dtype(ckpt::api::DType::F16);
    let planned =
        conversion.plan(&registry(Fault::None), &source, place.path().join("o.safetensors")).unwrap();
    let summary = planned.execute(&Execution::default(), &|_| ()).unwrap();
    let found = summary.verification.unwrap();
    assert_eq!((found.tensors, found.equal), (1, 0));
    // Above 4096 halves are 4 apart, and ties are 2 away from either.
    assert_eq!(found.largest_error().unwrap().largest_error, 2.0);
    assert_eq!(found.changed, summary.rounding);
}

/// Writes safetensors, and reads another function back: what a codec that stores graphs may do wrong.
#[cfg(all(feature = "forward", feature = "safetensors", feature = "tf2"))]
struct OtherFunction(ckpt_safetensors::Safetensors);

#[cfg(all(feature = "forward", feature = "safetensors", feature = "tf2"))]
impl Codec for OtherFunction {
    fn info(&self) -> &FormatInfo {
        static INFO: std::sync::OnceLock<FormatInfo> = std::sync::OnceLock::new();
        INFO.get_or_init(|| self.0.info().clone().with_id("other"))
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        self.0.probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        let mut contents = self.0.read(input, options, limits)?;
        let nodes = contents.checkpoint.graph.iter_mut().flat_map(|graph| &mut graph.nodes);
        nodes.filter(|node| node.op == Op::Relu).for_each(|node| node.op = Op::Tanh);
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        self.0.place(checkpoint, name, options)
    }
}

#[cfg(all(feature = "forward", feature = "safetensors", feature = "tf2"))]
#[test]
fn output_that_computes_something_else_is_found_in_its_layer_and_leaves_nothing() {
    let mut registry = Registry::builtin();
    registry.add(OtherFunction(ckpt_safetensors::Safetensors)).unwrap();
    let saved = format!("{ROOT}/examples/data/digits_saved_model");
    let source = Source::open(&Registry::builtin(), saved, &OpenOptions::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let conversion = Conversion::new().verify(true).to("other");
    let planned = conversion.plan(&registry, &source, place.path().join("o.safetensors")).unwrap();
    let error = planned.execute(&Execution::default(), &|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch, "{error}");
    assert!(error.message().contains("give different results"), "{error}");
    assert!(fact(&error, "field").contains("hidden"), "{error}");
    assert!(names(place.path()).is_empty());
}

#[cfg(all(feature = "forward", feature = "safetensors", feature = "tf2"))]
#[test]
fn both_graphs_are_run_where_both_are_stated_and_else_it_is_said_why_not() {
    let computed = |input: &str, activations: Option<&str>| {
        let options = OpenOptions::new().set_all(activations.map(|names| ("activations", names)));
        let source = Source::open(&Registry::builtin(), format!("{ROOT}/{input}"), &options);
        let place = tempfile::tempdir().unwrap();
        let conversion = Conversion::new().verify(true);
        let planned =
            conversion.plan(&Registry::builtin(), &source.unwrap(), place.path().join("o.safetensors"));
        planned.unwrap().execute(&Execution::default(), &|_| ()).unwrap().verification.unwrap().computed
    };
    match computed("examples/data/digits_saved_model", None) {
        Computed::Agree { rule, notes, .. } => assert_eq!((rule.as_str(), notes.len()), ("bits", 0)),
        other => panic!("{other:?}"),
    }
    match computed("examples/data/digits", Some("relu,softmax")) {
        Computed::Agree { notes, .. } => assert!(notes[0].contains("assumed to be dense"), "{notes:?}"),
        other => panic!("{other:?}"),
    }
    match computed("examples/data/digits", None) {
        Computed::NotRun { reason } => assert!(reason.contains("activations"), "{reason}"),
        other => panic!("the activations are not known, and yet {other:?}"),
    }
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// TensorFlow.js stores each text after its length, so what is read is decoded.
#[test]
fn texts_that_are_decoded_when_they_are_read_back_are_compared() {
    let place = tempfile::tempdir().unwrap();
    for name in ["tf2/accept/strings/m.index", "tf1/accept/texts.pb"] {
        let input = format!("{ROOT}/corpus/{name}");
        let source = Source::open(&Registry::builtin(), input, &OpenOptions::default()).unwrap();
        let conversion = Conversion::new().to("tfjs").allow(LossKind::MetadataDropped).verify(true);
        let planned = conversion.plan(&Registry::builtin(), &source, place.path().join(&name[..3])).unwrap();
        let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
        assert!(summary.verification.is_some(), "{name}");
    }
}

fn digits(to: &str, directory: &Path, conversion: Conversion) -> Value {
    let input = format!("{ROOT}/examples/data/digits");
    let source = Source::open(&Registry::builtin(), input, &OpenOptions::default()).unwrap();
    let receipt = directory.join("receipt.json");
    let conversion = conversion.receipt(&receipt).overwrite(true);
    let planned = conversion.plan(&Registry::builtin(), &source, directory.join(to)).unwrap();
    let summary = planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
    assert_eq!(summary.receipt, Some(receipt.clone()));
    serde_json::from_str(&std::fs::read_to_string(receipt).unwrap()).unwrap()
}

#[test]
fn a_receipt_is_the_same_with_any_budget_and_number_of_threads() {
    let place = tempfile::tempdir().unwrap();
    let mut receipts = Vec::new();
    for (max_memory, threads) in [(7 << 20, 1), (16 << 20, 3), (256 << 20, 4)] {
        let resources =
            Resources::new().max_memory(max_memory).threads(threads).item_size(threads as u64 * 100);
        digits("o.safetensors", place.path(), Conversion::new().resources(resources));
        receipts.push(std::fs::read_to_string(place.path().join("receipt.json")).unwrap());
    }
    assert_eq!(receipts.len(), 3);
    assert!(receipts.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn a_receipt_names_every_file_that_was_read_or_written_and_hashes_values_as_the_digest_does() {
    let place = tempfile::tempdir().unwrap();
    let receipt = digits("o.safetensors", place.path(), Conversion::default());
    let files = |side: &str| -> Vec<String> {
        let files = receipt[side]["files"].as_array().unwrap().iter();
        files.map(|file| file["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(files("source"), ["checkpoint", "ckpt-1.data-00000-of-00001", "ckpt-1.index"]);
    assert_eq!(files("target"), ["o.safetensors"]);
    let output = place.path().join("o.safetensors");
    let written = Source::open(&Registry::builtin(), output, &OpenOptions::default()).unwrap();
    let expected: BTreeMap<String, String> = ckpt::digest::digest(&written, 1)
        .unwrap()
        .tensors
        .into_iter()
        .map(|tensor| (tensor.name.into(), tensor.sha256))
        .collect();
    let tensors = receipt["tensors"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found: BTreeMap<String, String> =
        tensors.map(|tensor| (text(&tensor["name"]), text(&tensor["sha256"]))).collect();
    assert_eq!(found, expected);
    assert_eq!(found.len(), 15);
}

#[test]
fn a_receipt_says_of_what_a_tensor_was_made_by_the_sources_names() {
    let place = tempfile::tempdir().unwrap();
    let map = "identity = true\n[[rule]]\nfrom = ['digits/hidden/bias', 'digits/digit/bias']\nto = 'biases'\nmerge = 0\nsizes = [32, 10]\n";
    let mapping = ckpt::mapping::Mapping::from_toml(map, "names.toml").unwrap();
    let receipt = digits("o.safetensors", place.path(), Conversion::new().mapping(mapping));
    assert_eq!(receipt["mapping"]["name"], "names.toml");
    let merged = receipt["tensors"].as_array().unwrap().iter().find(|tensor| tensor["name"] == "biases");
    let merged = merged.unwrap();
    assert_eq!(merged["sources"], serde_json::json!(["digits/hidden/bias", "digits/digit/bias"]));
    assert_eq!(merged["steps"][0]["step"], "assemble");
}

#[test]
fn a_receipt_tells_which_file_is_not_what_it_was() {
    let place = tempfile::tempdir().unwrap();
    digits("o.safetensors", place.path(), Conversion::default());
    let text = std::fs::read_to_string(place.path().join("receipt.json")).unwrap();
    let check = || ckpt::receipt::check(&ckpt::Registry::builtin(), &text, None, &Limits::default());
    assert_eq!(check().unwrap().files, 4);
    let output = place.path().join("o.safetensors");
    let mut bytes = std::fs::read(&output).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&output, &bytes).unwrap();
    let error = check().unwrap_err();
    assert_eq!((error.kind(), fact(&error, "file")), (Kind::Mismatch, output.display().to_string()));
    bytes.pop();
    std::fs::write(&output, &bytes).unwrap();
    assert!(fact(&check().unwrap_err(), "found").ends_with(" bytes"));
    std::fs::remove_file(&output).unwrap();
    let error = check().unwrap_err();
    assert_eq!((error.kind(), fact(&error, "found")), (Kind::Mismatch, "no file".to_owned()));
    let error = ckpt::receipt::check(&ckpt::Registry::builtin(), "{}", None, &Limits::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

/// A file cannot be said to differ from a hash that is none.
#[test]
fn a_receipt_with_a_malformed_hash_is_corrupt() {
    let place = tempfile::tempdir().unwrap();
    let receipt = digits("o.safetensors", place.path(), Conversion::default());
    let good = receipt["target"]["files"][0]["sha256"].as_str().unwrap().to_owned();
    let upper = good.to_uppercase();
    for wrong in ["", "0", &good[1..], &format!("{good}0"), &upper, &good.replace(&good[..1], "g")] {
        let mut receipt = receipt.clone();
        receipt["target"]["files"][0]["sha256"] = wrong.into();
        let error =
            ckpt::receipt::check(&ckpt::Registry::builtin(), &receipt.to_string(), None, &Limits::default())
                .unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{wrong}: {error}");
        assert_eq!(fact(&error, "field"), "target.files[0].sha256");
        assert!(error.to_string().contains("the receipt is malformed"), "{error}");
    }
}

#[test]
fn a_receipt_takes_no_name_that_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("o.toy");
    let with = |name: &str| to_toy().receipt(place.path().join(name));
    let error = convert(Fault::None, &output, with("o.toy")).unwrap_err();
    assert!(error.message().contains("same name as a file of the output"), "{error}");
    std::fs::write(place.path().join("r.json"), "mine").unwrap();
    assert_eq!(convert(Fault::None, &output, with("r.json")).unwrap_err().kind(), Kind::Usage);
    assert_eq!(std::fs::read(place.path().join("r.json")).unwrap(), b"mine");
    convert(Fault::None, &output, with("r.json").overwrite(true)).unwrap();
    assert!(std::fs::read_to_string(place.path().join("r.json")).unwrap().starts_with("{\n"));
}

/// Runs `ckpt` in a directory; its exit code and what it says.
#[cfg(feature = "cli")]
fn ckpt(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ckpt"));
    let output = command.current_dir(directory).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), text)
}

/// Copies a directory with all that is below it.
#[cfg(all(feature = "cli", feature = "forward"))]
fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_all(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[cfg(all(feature = "cli", feature = "forward"))]
#[test]
fn the_command_line_says_what_was_verified_and_exits_with_4_where_files_changed() {
    let place = tempfile::tempdir().unwrap();
    copy_all(&Path::new(ROOT).join("examples/data/digits_saved_model"), &place.path().join("model"));
    let arguments = ["convert", "model", "m.nn", "--verify", "--receipt", "r.json", "--no-sync"];
    let (code, text) = ckpt(place.path(), &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains(
            "verified: 4 tensors read back, equal to the source bit for bit\nverified: both graphs"
        ),
        "{text}"
    );
    assert!(text.contains("\nreceipt r.json\n"), "{text}");
    let elsewhere = tempfile::tempdir().unwrap();
    let receipt = place.path().join("r.json").display().to_string();
    let root = place.path().display().to_string();
    let check = ["verify", "--receipt", &receipt, "--root", &root];
    let (code, text) = ckpt(elsewhere.path(), &check);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("4 files match the receipt"), "{text}");
    std::fs::write(place.path().join("m.nn"), "another").unwrap();
    let (code, text) = ckpt(elsewhere.path(), &check);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("m.nn\n  found     7 bytes\n"), "{text}");
    assert_eq!(ckpt(elsewhere.path(), &["verify"]).0, Some(2));
}

#[cfg(all(feature = "cli", feature = "forward"))]
#[test]
fn a_comparison_is_written_as_a_page_to_a_file_that_is_not_there_yet() {
    let place = tempfile::tempdir().unwrap();
    let model = format!("{ROOT}/examples/data/digits_saved_model");
    let arguments = ["verify", &model, &model, "--per-layer", "--html", "page.html"];
    let (code, text) = ckpt(place.path(), &arguments);
    assert_eq!(code, Some(0), "{text}");
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>\n") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("<details id=\"run0-layer").count(), 4);
    assert_ne!(ckpt(place.path(), &arguments).0, Some(0));
}
