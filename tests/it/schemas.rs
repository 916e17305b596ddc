//! What the program prints and reads is what its JSON Schemas say.

use crate::common::workplace::Workplace;
use jsonschema::Validator;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn schema(name: &str) -> Validator {
    let text = fs::read_to_string(Path::new(ROOT).join("schemas").join(name)).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    // Schemas refer to each other by their file names.
    let base = "file:///schemas/";
    let plan: Value =
        serde_json::from_str(&fs::read_to_string(format!("{ROOT}/schemas/plan.schema.json")).unwrap())
            .unwrap();
    let registry = jsonschema::Registry::new().add(format!("{base}plan.schema.json"), plan).unwrap();
    let registry = registry.prepare().unwrap();
    jsonschema::options()
        .with_base_uri(format!("{base}{name}"))
        .with_registry(&registry)
        .build(&schema)
        .unwrap()
}

fn accepts(schema: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> =
        schema.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{what}: {}", errors.join("\n"));
}

/// Checks a plan of another test.
#[cfg(all(feature = "cli", feature = "safetensors"))]
pub fn assert_plan(plan: &Value) {
    accepts(&schema("plan.schema.json"), plan, "a plan");
}

/// Checks a receipt of another test.
#[cfg(all(feature = "cli", feature = "safetensors"))]
pub fn assert_receipt(receipt: &Value) {
    accepts(&schema("receipt.schema.json"), receipt, "a receipt");
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The files of a folder with this extension; an empty folder must not pass for a checked one.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    files
}

fn ckpt(directory: &Path, arguments: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ckpt")).current_dir(directory).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

#[test]
fn plans_are_what_their_schema_says() {
    let (schema, place) = (schema("plan.schema.json"), tempfile::tempdir().unwrap());
    let digits = format!("{ROOT}/examples/data/digits");
    let nn = ["--set", "activations=relu,softmax"];
    ckpt(place.path(), &[&["convert", &digits, "m.nn", "-q"][..], &nn].concat());
    let plans: [&[&str]; 5] = [
        &["plan", &digits, "o.nn", nn[0], nn[1]],
        &["plan", &digits, "o.safetensors", "--exclude", "**momentum", "--shard-size", "4k"],
        &["plan", "m.nn", "o.safetensors", "--dtype", "f16"],
        &["plan", "m.nn", "o.safetensors", "--exclude", "layer0*"],
        &["convert", "--dry-run", "m.nn", "o.nn", "--to-set", "dialect=a"],
    ];
    let mut seen = Vec::new();
    for arguments in plans {
        let plan = ckpt(place.path(), &[arguments, &["--format", "json"]].concat());
        accepts(&schema, &plan, &format!("{arguments:?}"));
        seen.extend(
            plan["transfers"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|one| one["route"]["steps"].as_array().cloned().unwrap()),
        );
        assert!(plan["transfers"][0]["route"]["steps"].is_array());
    }
    let steps = |name: &str| seen.iter().filter(|step| step["step"] == name).count();
    for step in ["permute", "cast", "reshape"] {
        assert!(steps(step) > 0, "no plan has a {step}");
    }
}

#[test]
fn plans_of_computed_numbers_are_what_their_schema_says() {
    let (schema, place) = (schema("plan.schema.json"), tempfile::tempdir().unwrap());
    let mut sources = vec![
        (format!("{ROOT}/corpus/torch/accept/quantized.pt"), "multiply-runs"),
        (format!("{ROOT}/corpus/safetensors/accept/fp8_blocks.safetensors"), "multiply-blocks"),
    ];
    if let Some(cases) = crate::common::cases("quantized") {
        let real =
            [("gptq_4bit_act_order", "index"), ("bnb_nf4_double", "look-up"), ("ct_nvfp4", "divide-blocks")];
        sources.extend(real.map(|(name, part)| (cases.join(name).display().to_string(), part)));
    }
    for (source, part) in sources {
        let plan =
            ckpt(place.path(), &["plan", &source, "o.safetensors", "--dtype", "f32", "--format", "json"]);
        accepts(&schema, &plan, &source);
        assert!(plan["tensors"].to_string().contains(&format!("\"{part}\":")), "{source} without {part}");
    }
}

#[test]
fn plans_that_quantize_are_what_their_schema_says() {
    let (schema, place) = (schema("plan.schema.json"), Workplace::new());
    let model = crate::quantizing::model(&place, "llama").display().to_string();
    for (scheme, parts) in [
        ("fp8-blocks", ["largest-magnitude", "replace-zero"]),
        ("int8-channels", ["round-whole", "words"]),
        ("int4-groups", ["at-most", "literal"]),
        ("mlx-4bit", ["affine-scale", "affine-offset"]),
        ("nf4", ["count-below", "at-least"]),
    ] {
        let set = format!("quantize={scheme}");
        let plan = ckpt(place.directory(), &["plan", &model, "out/", "--set", &set, "--format", "json"]);
        accepts(&schema, &plan, scheme);
        let text = plan["tensors"].to_string();
        assert!(parts.iter().all(|part| text.contains(&format!("\"{part}\""))), "{scheme}");
    }
}

#[test]
fn receipts_are_what_their_schema_says() {
    let (schema, place) = (schema("receipt.schema.json"), tempfile::tempdir().unwrap());
    let digits = format!("{ROOT}/examples/data/digits");
    let adamw = format!("{ROOT}/corpus/bullet/accept/adamw");
    let arch = "arch=simple:3x2x1,buckets=2";
    fs::write(place.path().join("map.toml"), "identity = true\n[lookup]\n'layer0.weight' = 'w'\n").unwrap();
    let conversions: [&[&str]; 4] = [
        &[&digits, "m.nn", "--set", "activations=relu,softmax", "--verify"],
        &["m.nn", "m.safetensors", "--dtype", "f16", "--map", "map.toml", "--transform", "w: transpose"],
        &["m.safetensors", "n.safetensors", "--exclude", "layer0*", "--verify"],
        &[&adamw, "net", "--from", "bullet", "--to", "bullet", "--from-set", arch, "--verify"],
    ];
    let (mut errors, mut seen) = (0, 0);
    for arguments in conversions {
        ckpt(place.path(), &[&["convert", "-q", "--force", "--receipt", "r.json"], arguments].concat());
        let receipt = json(&place.path().join("r.json"));
        accepts(&schema, &receipt, &format!("{arguments:?}"));
        assert_eq!(receipt["verification"].is_object(), arguments.contains(&"--verify"));
        let checked = ckpt(place.path(), &["verify", "--receipt", "r.json", "--format", "json"]);
        let files = |side: &str| receipt[side]["files"].as_array().unwrap().len();
        assert_eq!(checked["files"], files("source") + files("target"));
        let tensors = receipt["tensors"].as_array().unwrap().iter();
        errors += tensors
            .filter(|tensor| tensor["largest_error"].as_f64().is_some_and(|error| error > 0.0))
            .count();
        seen += 1;
    }
    assert_eq!(seen, 4);
    assert!(errors > 1, "nothing was rounded");
    let mut receipt = json(&place.path().join("r.json"));
    receipt["when"] = "now".into();
    assert!(!schema.is_valid(&receipt));
}

#[test]
fn every_kind_of_loss_and_step_is_in_the_schema_of_plans() {
    use ckpt::api::{DType, LossKind};
    use ckpt::plan::Step;
    use ckpt_containers::decoders::ProtobufNumbers;
    let schema = schema("plan.schema.json");
    let shape = |dims: &[u64]| ckpt::api::Shape::new(dims).unwrap();
    let losses: Vec<Value> = LossKind::ALL
        .iter()
        .map(|kind| serde_json::json!({ "kind": kind, "subject": "w", "detail": "gone" }))
        .collect();
    let steps = DType::ALL.iter().flat_map(|dtype| {
        [
            Step::SwapBytes { component: 4 },
            Step::Unpack { dtype: *dtype },
            Step::Permute { order: vec![1, 0] },
            Step::Assemble { slices: 2 },
            Step::Cast { from: *dtype, to: DType::F16, exact: false },
            Step::Pack { dtype: *dtype },
            Step::Reshape { from: shape(&[4]), to: shape(&[1, 4]) },
            Step::Compute { from: *dtype, operations: vec!["scale 2".into()] },
        ]
    });
    let steps: Vec<Step> = steps.collect();
    let element_bytes = 4.try_into().unwrap();
    let protobuf = ProtobufNumbers { tag_bytes: 1, element_bytes, is_varint: true }.compression(4);
    let stored = serde_json::json!({ "file": 0, "offset": 8, "len": 1 });
    let plain =
        serde_json::json!({ "dtype": "f8_e4m3", "endian": "little", "order": [0], "packing": "bytes" });
    let numbers = serde_json::json!({ "stored": stored, "encoding": plain, "operations": [] });
    let index =
        serde_json::json!({ "name": "g", "axis": 0, "blocks": 1, "stored": stored, "encoding": plain });
    let blocks =
        serde_json::json!({ "name": "s", "numbers": numbers, "shape": [1], "block": [128], "index": index });
    let [left, right] = [false, true].map(|is_transposed| match is_transposed {
        true => serde_json::json!({ "numbers": numbers, "is_transposed": true }),
        false => serde_json::json!({ "numbers": numbers }),
    });
    let product = serde_json::json!({ "name": "p", "rows": 1, "columns": 1, "rank": 1, "factor": 2.0, "left": left, "right": right });
    let rows = serde_json::json!({ "name": "m", "rows": 1, "columns": 1, "numbers": numbers });
    let operations = serde_json::json!([{ "multiply": 0.5 }, { "divide": 3.0 }, { "add": -1.0 }, "exp", "log",
                                        { "round": "bf16" }, { "look-up": numbers }, { "add-blocks": blocks },
                                        { "subtract-blocks": blocks }, { "multiply-blocks": blocks },
                                        { "divide-blocks": blocks }, { "add-product": product }, { "scale-rows": rows }]);
    let packed = serde_json::json!({ "bits": 4, "rows": 1, "columns": 2, "along": "row", "order": "even-odd", "increments": [1] });
    let computed = serde_json::json!({ "stored": stored, "encoding": plain, "packed": packed, "operations": operations });
    // It is what a plan has.
    let parsed: ckpt::api::Computed = serde_json::from_value(computed.clone()).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), computed);
    let placement = serde_json::json!({
        "tensor": 0, "name": "w",
        "extents": [{ "file": 0, "offset": 0, "len": 4, "region": { "start": [0], "shape": [1] },
                      "checksum": { "algorithm": "crc32c", "seed": 0, "value": null } },
                    { "file": 0, "offset": 4, "len": 4, "compression": protobuf },
                    { "file": 0, "offset": 8, "len": 4, "computed": computed }],
        "encoding": { "dtype": "f32", "endian": "big", "order": [0], "packing": "bits" }, "shape": [1],
    });
    let scaled = ckpt::api::Tensor::new("w", DType::F32, shape(&[1]))
        .with_quantization(Some(ckpt::api::Quantization::Units { scale: 255.try_into().unwrap() }));
    let tensor = serde_json::to_value(&scaled).unwrap();
    let affine = ckpt::api::Affine::new([0.5], [3.0], Some(0)).unwrap();
    let affine = serde_json::to_value(scaled.with_quantization(Some(affine.into()))).unwrap();
    let route = serde_json::json!({ "steps": steps, "access": "tile" });
    let encoding = &placement["encoding"];
    let stored =
        serde_json::json!({ "tensor": tensor, "placement": placement, "encoding": encoding, "route": route });
    let part = serde_json::json!({ "sequence": { "extents": { "start": 0, "end": 1 }, "bytes": { "start": 0, "end": 4 } } });
    let piece = serde_json::json!({ "tensor": 0, "extent": 0, "at": 0, "len": 4, "part": part });
    let mut plan = serde_json::json!({
        "version": 1, "program": "ckpt", "sha256": "0".repeat(64),
        "source": { "format": "a", "location": "/x", "entry": "", "options": [["k", "v"]],
                    "files": [{ "name": "x", "size": 4, "identity": "1" }] },
        "target": { "format": "b", "name": "y", "options": [], "overwrite": false },
        "settings": { "transforms": [], "include": [], "exclude": [], "made_of": { "w": ["v"] } },
        "source_files": ["x"], "files": [{ "name": "y", "len": null }],
        "tensors": [{ "tensor": tensor, "from": placement }, { "tensor": affine, "from": placement }],
        "transfers": [{ "number": 0, "to": placement, "route": route }],
        "items": [
            { "do": "write", "file": 0, "range": { "start": 0, "end": 4 }, "pieces": [piece] },
            { "do": "compare", "name": "w", "first": stored, "other": stored },
        ],
        "literals": [{ "file": 0, "offset": 0, "base64": "AA==" }], "finish": {}, "readings": [],
        "excluded": [], "losses": losses, "repairs": [{ "subject": "s", "detail": "d" }], "notes": ["n"],
        "bytes_read": 4, "bytes_written": 4, "estimate": { "peak_memory": 1, "threads": 1, "cloned": 0 },
    });
    accepts(&schema, &plan, "a plan with everything");
    plan["losses"][0]["kind"] = "unheard-of".into();
    assert!(!schema.is_valid(&plan));
}

#[test]
fn the_schema_of_architecture_files_accepts_what_the_program_accepts() {
    let schema = schema("architecture.schema.json");
    let mut seen = 0;
    for (folder, valid) in [("valid", true), ("invalid", false)] {
        for path in files(&format!("examples/data/architecture/{folder}"), "json") {
            let parsed = ckpt::api::Architecture::from_json(&fs::read_to_string(&path).unwrap());
            assert_eq!(schema.is_valid(&json(&path)), valid, "{}", path.display());
            assert_eq!(parsed.is_ok(), valid, "{}: {parsed:?}", path.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 8);
    let place = tempfile::tempdir().unwrap();
    let found = ckpt(
        place.path(),
        &["inspect", &format!("{ROOT}/examples/data/digits_saved_model"), "--format", "json"],
    );
    let mut graph = serde_json::json!({ "graph": found["graph"], "axes": { "w": ["in", "out"] } });
    accepts(&schema, &graph, "the graph that inspect prints");
    graph["graph"]["nodes"][0]["inputs"] = Value::Null;
    assert!(!schema.is_valid(&graph));
}

#[test]
fn every_operator_and_attribute_is_read_back_from_the_architecture_file_that_its_graph_is() {
    use ckpt::api::{Attribute, Graph, Node, Op, Value as Port};
    let schema = schema("architecture.schema.json");
    let attributes = [
        ("int", Attribute::Int(i64::MIN)),
        ("float", Attribute::Float(1.0)),
        ("least", Attribute::Float(f64::NEG_INFINITY)),
        ("text", Attribute::Text("inf".to_owned())),
        ("ints", Attribute::Ints(vec![-1, i64::MAX])),
        ("none", Attribute::Ints(Vec::new())),
        ("floats", Attribute::Floats(vec![0.5, -2.0])),
        ("bounds", Attribute::Floats(vec![f64::NEG_INFINITY, 0.0, f64::INFINITY])),
        ("texts", Attribute::Texts(vec!["Sigmoid".to_owned(), "Tanh".to_owned()])),
    ];
    let mut seen = 0;
    for op in Op::known().chain([Op::custom("own.Op")]) {
        let name = op.name().to_owned();
        let mut node = Node::new("layer", op);
        node.inputs = vec!["x".to_owned(), String::new()];
        node.outputs = vec!["y".to_owned()];
        node.parameters.insert("weight".to_owned(), "w".to_owned());
        node.attributes.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let graph = Graph {
            name: "model".to_owned(),
            inputs: vec![Port::new("x", vec![None, Some(4)])],
            outputs: vec![Port::new("y", vec![None, Some(2)])],
            nodes: vec![node],
        };
        let file = serde_json::json!({ "graph": graph, "axes": { "w": ["in", "out"] } });
        accepts(&schema, &file, &name);
        let read: Graph = serde_json::from_value(file["graph"].clone()).unwrap();
        assert_eq!(read, graph, "{name}");
        let text = serde_json::to_string(&graph).unwrap();
        assert_eq!(serde_json::from_str::<Graph>(&text).unwrap(), graph, "{name}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn the_schema_of_architecture_files_accepts_the_built_in_templates() {
    let schema = schema("architecture.schema.json");
    let templates = files("data/architectures", "toml");
    let templates = templates.iter().filter(|path| path.file_stem().unwrap() != "blocks");
    let mut seen = 0;
    for path in templates {
        let mut template: Value = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        accepts(&schema, &template, &path.display().to_string());
        template["nodes"][0] = serde_json::json!({ "set": {}, "use": "both" });
        assert!(!schema.is_valid(&template), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 8, "{seen} templates");
}

#[cfg(feature = "bullet")]
#[test]
fn the_schema_of_bullets_architecture_files_accepts_what_the_program_accepts() {
    let schema = schema("bullet.schema.json");
    let mut seen = 0;
    for (folder, valid) in [("valid", true), ("invalid", false)] {
        for path in files(&format!("examples/data/architecture/bullet/{folder}"), "json") {
            let file = ckpt::api::ArchitectureFile::from_json(&fs::read_to_string(&path).unwrap()).unwrap();
            let checked = ckpt_bullet::check_architecture(&file);
            let errors: Vec<String> =
                schema.iter_errors(&json(&path)).map(|error| error.to_string()).collect();
            assert_eq!(errors.is_empty(), valid, "{}: {errors:?}", path.display());
            assert_eq!(checked.is_ok(), valid, "{}: {checked:?}", path.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 23);
    let profiles = files("data/profiles", "toml");
    assert_eq!(profiles.len(), 3);
    let mut net = json(&Path::new(ROOT).join("examples/data/architecture/bullet/valid/simple.json"));
    for path in profiles {
        net["engine"] = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        accepts(&schema, &net, &path.display().to_string());
    }
}

#[test]
fn the_schema_of_mappings_accepts_what_the_program_accepts() {
    let schema = schema("mapping.schema.json");
    let built_in = files("data/mappings", "toml");
    let texts = built_in.iter().map(|path| (fs::read_to_string(path).unwrap(), true));
    let own = [
        (
            "identity = true\nordered = false\nignore = ['a/**']\n[lookup]\na = 'b'\n[[rule]]\nfrom = '{x:int}'\nto = '{x}'",
            true,
        ),
        ("separator = '.'\ntarget_separator = '/'", true),
        ("identify = true", false),
        ("identity = 'yes'", false),
        ("[[rule]]\nfrom = 'a'", false),
        ("[lookup]\na = ''", false),
        ("separator = ''", false),
        (
            "title = 't'\n[roles]\nk = ['transpose', 'permute 3 2 0 1', 'squeeze 0', 'unsqueeze 1', 'flatten_order 4 4 8', 'unflatten_order 4 8 on 1']\n[[rule]]\nfrom = 'a'\nto = 'b'\nrole = 'k'",
            true,
        ),
        (
            "[[rule]]\nfrom = 'a{n:int3}'\nto = ['x{n+1}', 'y{n}']\nsplit = 1\nsizes = [3, 4]\nsteps = ['transpose']",
            true,
        ),
        ("[[rule]]\nfrom = ['x', 'y']\nto = 'a'\nmerge = 1\ninverse = false", true),
        (
            "[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 1\nwhole = ['transpose']\npart_steps = [['transpose'], []]",
            true,
        ),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 1\ninterleaved = true", true),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 1\ninterleaved = true\nsizes = [1, 2]", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 1\nsteps = []\npart_steps = [[], []]", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nwhole = ['transpose']", false),
        (
            "[[rule]]\nfrom = ['a', 's']\nto = ['x', 'y']\ndequantize = 'mxfp4'\nsplit = 1\ninterleaved = true",
            true,
        ),
        ("[[rule]]\nfrom = ['a', 's']\nto = ['x', 'y']\ndequantize = 'mxfp4'", false),
        ("[[rule]]\nfrom = ['a', 's']\nto = 'x'\ndequantize = 'mxfp4'\nsplit = 1", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\ninterleaved = true", false),
        ("identity = true\n[[needs]]\ntensor = 't'\nconfig = ['a.b']\nvalues = ['v']\nreason = 'r'", true),
        ("identity = true\n[[needs]]\ntensor = 't'\nconfig = []\nvalues = ['v']\nreason = 'r'", false),
        ("identity = true\n[[needs]]\ntensor = 't'", false),
        (
            "[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = ['reshape _ -> 32 2 _ on 1', 'reshape 4 4 -> 16', 'cast f32 -> bf16']",
            true,
        ),
        ("[[rule]]\nfrom = ['x{n:int}', 'y{n:int}']\nto = 'a'\nmerge = 1\nstack = 'n'", true),
        ("[[rule]]\nfrom = 'a'\nto = 'x{n}'\nunstack = 'n'\nstack_axis = 2", true),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = ['reshape 0 -> 0']", false),
        ("[[rule]]\nfrom = 'a'\nto = 'x{n}'\nunstack = 'n'\nmerge = 0", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nstack_axis = 2", false),
        ("[[rule]]\nfrom = 'x{n:int}'\nto = 'a'\nstack = 'n'\nstack_count = 'r'", true),
        ("[[rule]]\nfrom = 'a'\nto = 'x{n}'\nunstack = 'n'\nstack_count = 'r'", false),
        ("[[rule]]\nfrom = ['x', 'y']\nto = 'a'\ntie = true", true),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\ntie = true", true),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\ntie = false", true),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\ntie = true", false),
        ("[[rule]]\nfrom = ['x', 'y']\nto = ['a', 'b']\ntie = true", false),
        ("[[rule]]\nfrom = ['x', 'y']\nto = 'a'", false),
        ("[[rule]]\nfrom = ['x', 'y']\nto = 'a'\nsplit = 0", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nmerge = 0", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 0\ntie = true", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'x']\nsplit = 0", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x']\nsplit = 0", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 64", false),
        ("[[rule]]\nfrom = 'a'\nto = ['x', 'y']\nsplit = 0\nsizes = [0, 1]", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsizes = [1, 1]", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = ['transpoze']", false),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = 'transpose'", false),
        ("[roles]\nk = ['transpose']\n[[rule]]\nfrom = 'a'\nto = 'b'\nrole = 'k'\nsteps = []", false),
        ("[[rule]]\nfrom = 'a'\nto = 7", false),
    ];
    let given = own.len();
    let mut seen = 0;
    for (text, valid) in texts.chain(own.map(|(text, valid)| (text.to_owned(), valid))) {
        let value: Value = toml::from_str(&text).unwrap();
        assert_eq!(schema.is_valid(&value), valid, "{text}");
        assert_eq!(ckpt::mapping::Mapping::from_toml(&text, "m.toml").is_ok(), valid, "{text}");
        seen += 1;
    }
    assert_eq!(seen, built_in.len() + given);
}

#[test]
fn the_metadata_of_written_models_is_what_its_schema_says() {
    let (schema, place) = (schema("nn-metadata.schema.json"), tempfile::tempdir().unwrap());
    let digits = format!("{ROOT}/examples/data/digits");
    for dialect in ["a", "b"] {
        let option = format!("dialect={dialect}");
        let arguments = ["convert", &digits, "m.nn", "-q", "--force", "--set", "activations=relu,softmax"];
        ckpt(place.path(), &[&arguments[..], &["--to-set", &option]].concat());
        let inspection = ckpt(place.path(), &["inspect", "m.nn", "--format", "json"]);
        let text = inspection["metadata"]["nn"]["json"].as_str().unwrap();
        accepts(&schema, &serde_json::from_str(text).unwrap(), dialect);
    }
    assert!(!schema.is_valid(&serde_json::json!({ "device": "cpu" })));
}
