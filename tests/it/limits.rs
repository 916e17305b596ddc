//! One test for each limit: what is at it passes, one more is refused with the limit's name and how to raise it.

use crate::plugins::toy;
use ckpt::mapping::Mapping;
use ckpt::{Conversion, Execution, Kind, OpenOptions, Registry, Source};
use ckpt_api::{
    ArchitectureFile, Compression, Contents, DType, Encoding, Extent, File, FileId, Limit, Limits, Placement,
    Result, Shape, Tensor, TensorId,
};
use ckpt_containers::{
    decoders::{DEFLATE, ZLIB},
    zip::Member,
};
use ckpt_plugin_host::Plugin;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every limit has a test below that is called after it.
const TESTED: [&str; 24] = [
    "header_bytes",
    "header_ratio",
    "block_bytes",
    "chunk_bytes",
    "tensors",
    "rank",
    "name_bytes",
    "slices",
    "string_elements",
    "graph_nodes",
    "files",
    "text_bytes",
    "text_tokens",
    "rules",
    "rule_names",
    "rule_steps",
    "captures",
    "pattern_bytes",
    "metadata_entries",
    "metadata_bytes",
    "operations",
    "plugin_bytes",
    "plugin_steps",
    "plugin_memory",
];

#[test]
fn every_limit_is_tested() {
    let names: Vec<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
    assert_eq!(names, TESTED);
    for name in names {
        assert!(
            include_str!("limits.rs").contains(&format!("\nfn {name}_")),
            "no test is called after {name}"
        );
    }
}

#[test]
fn header_bytes_bounds_what_is_parsed_as_a_whole() {
    let one = |name: &str, offset: usize, bytes: usize| {
        let file = fs::read(corpus(name)).unwrap();
        file[offset..][..bytes].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    // The length of the JSON, of the JSON, of the array's header.
    let lengths = [
        (
            "safetensors/accept/two_tensors.safetensors",
            one("safetensors/accept/two_tensors.safetensors", 0, 8),
        ),
        ("nn/accept/b_mlp.nn", one("nn/accept/b_mlp.nn", 12, 4)),
        ("npz/accept/matrix.npy", one("npz/accept/matrix.npy", 8, 2)),
    ];
    for (name, length) in lengths {
        assert_eq!(bound("header_bytes", &corpus(name), &[]), length, "{name}");
    }
    let index = "safetensors/accept/sharded/model.safetensors.index.json";
    let index_bytes = fs::metadata(corpus(index)).unwrap().len();
    assert_eq!(bound("header_bytes", &corpus(index), &[]), index_bytes);
    for name in ["npz/accept/one.npz", "tf2/accept/basic", "tf2/accept/object_graph"] {
        assert!(bound("header_bytes", &entry(name), &[]) > 0, "{name}");
    }
    for file in ["saved_model.pb", "variables/variables.index"] {
        let len = fs::metadata(example("digits_saved_model").join(file)).unwrap().len();
        assert!(bound("header_bytes", &example("digits_saved_model"), &[]) >= len, "{file}");
    }
    let options = [("arch", "simple:3x2x1,buckets=2"), ("optimiser", "radam")];
    let steps = fs::metadata(corpus("bullet/accept/radam/optimiser_state/step.txt")).unwrap().len();
    assert_eq!(bound("header_bytes", &corpus("bullet/accept/radam"), &options), steps);
}

#[test]
fn header_ratio_bounds_what_a_small_archive_decompresses_to() {
    let file = File::new(Arc::new(vec![0; 1000]), "f").unwrap();
    let check = |len: u64, is_compressed: bool, ratio: u64| {
        let compression = is_compressed.then(|| Compression::new(DEFLATE, 900));
        Member { start: 50, len, compression }
            .check_header(&file, &Limits::default().with(Limit::HeaderRatio, ratio))
    };
    let free = 4 << 20;
    check(free, true, 0).unwrap();
    check(free + 32_000, true, 32).unwrap();
    check(free + 32_001, false, 32).unwrap();
    let error = check(free + 32_001, true, 32).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("header_ratio"), "{error}");
}

#[test]
fn block_bytes_bounds_a_block_as_it_is_and_what_snappy_makes_of_it() {
    // Made with blocks that end once they have 256 bytes, and 1024, which snappy makes less than half of.
    let plain = bound("block_bytes", &entry("tf2/accept/many_blocks"), &[]);
    assert!((256..400).contains(&plain), "{plain}");
    let made = bound("block_bytes", &entry("tf2/accept/snappy"), &[]);
    assert!((1024..1100).contains(&made), "{made}");
}

#[test]
fn chunk_bytes_bounds_a_shuffled_chunk() {
    let tensor = Tensor::new("w", DType::F32, Shape::new([100]).unwrap());
    let four = std::num::NonZeroU32::new(4).unwrap();
    let extent = Extent::new(FileId(0), 0, 400).with_compression(Compression::new(ZLIB, 400).shuffled(four));
    let placement = Placement::new(TensorId(0), "w", vec![extent], Encoding::row_major(&tensor));
    let mut contents = Contents::default().with_files(vec!["f".to_owned()]).with_placements(vec![placement]);
    contents.checkpoint.tensors.push(tensor);
    let check = |bytes: u64| contents.check(&Limits::default().with(Limit::ChunkBytes, bytes));
    check(400).unwrap();
    let error = check(399).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("chunk_bytes"), "{error}");
}

#[test]
fn operations_bounds_the_arithmetic_of_a_run() {
    use ckpt::verify::{DEFAULT_MEMORY, Inputs, Options, devices, run, verify};
    let registry = Registry::builtin();
    let run_within = |operations: u64| {
        let limits = Limits::default().with(Limit::Operations, operations);
        let source = open(&example("digits_saved_model"), &[], &limits)?;
        let mut cpu = devices::open("cpu", ckpt_forward::Arithmetic::F32).unwrap();
        run(&registry, &source, &Inputs::default(), None, &mut *cpu, DEFAULT_MEMORY).map(drop)
    };
    // Eight examples: the products of 64 × 32 and 32 × 10, and some elements beside them.
    let products = 8 * (64 * 32 + 32 * 10);
    run_within(2 * products).unwrap();
    let error = run_within(products).unwrap_err();
    let told = error.to_string();
    assert!(error.kind() == Kind::Limit && told.contains("operations"), "{told}");
    assert!(told.contains("found 2") && told.contains("expected at most 18944"), "{told}");
    let source = open(&example("digits_saved_model"), &[], &Limits::default()).unwrap();
    let limits = Limits::default().with(Limit::Operations, products);
    let error = verify(&registry, &source, &source, &Options { limits, ..Options::default() }).unwrap_err();
    assert!(error.kind() == Kind::Limit && error.to_string().contains("operations"), "{error}");
}

#[test]
fn tensors_bounds_them_in_every_format() {
    for (path, options) in every_format() {
        let count = open(&path, &options, &Limits::default()).unwrap().checkpoint().tensors.len() as u64;
        assert_eq!(bound("tensors", &path, &options), count, "{}", path.display());
    }
}

#[test]
fn rank_bounds_it_in_every_format() {
    for (path, options) in every_format() {
        let source = open(&path, &options, &Limits::default()).unwrap();
        let most = source.checkpoint().tensors.iter().map(|tensor| tensor.shape.rank() as u64).max();
        assert_eq!(Some(bound("rank", &path, &options)), most, "{}", path.display());
    }
}

#[test]
fn name_bytes_bounds_a_name_in_every_format() {
    for (path, options) in every_format() {
        let source = open(&path, &options, &Limits::default()).unwrap();
        let longest = source.checkpoint().tensors.iter().map(|tensor| tensor.name.len() as u64).max();
        let bound = bound("name_bytes", &path, &options);
        assert!(longest.is_some_and(|longest| bound >= longest), "{}: {bound}", path.display());
    }
    assert_eq!(mapping_bound("name_bytes", "[lookup]\na = 'long'"), 4);
    assert_eq!(mapping_bound("name_bytes", "ignore = ['abcde']"), 5);
}

#[test]
fn slices_bounds_those_of_one_tensor() {
    let path = entry("tf2/accept/slices");
    let source = open(&path, &[], &Limits::default()).unwrap();
    let most = source.contents().placements.iter().map(|placement| placement.extents.len() as u64).max();
    assert_eq!(Some(bound("slices", &path, &[])), most);
}

#[test]
fn string_elements_bounds_them_over_all_tensors() {
    let path = entry("tf2/accept/strings");
    let source = open(&path, &[], &Limits::default()).unwrap();
    let lengths = source.checkpoint().tensors.iter().filter_map(|tensor| tensor.lengths.as_ref());
    assert_eq!(
        bound("string_elements", &path, &[]),
        lengths.map(|lengths| lengths.len() as u64).sum::<u64>()
    );
}

#[test]
fn graph_nodes_bounds_the_nodes_of_every_kind_of_graph() {
    let mut graphs = 0;
    for (path, options) in every_format() {
        let source = open(&path, &options, &Limits::default()).unwrap();
        let Some(graph) = &source.checkpoint().graph else { continue };
        // TensorFlow's object graph and functions have more nodes than the graph that they describe.
        assert!(bound("graph_nodes", &path, &options) >= graph.nodes.len() as u64, "{}", path.display());
        graphs += 1;
    }
    assert!(graphs >= 5, "{graphs} formats with graphs");
    let layers = r#"{ "layers": [ { "type": "flatten" }, { "type": "flatten" }, { "type": "flatten" } ] }"#;
    let architecture = ArchitectureFile::from_json(layers).unwrap();
    let with_layers = |limits: &Limits| {
        let path = corpus("npz/accept/matrix.npy");
        let options = OpenOptions::new().architecture(architecture.clone()).limits(limits.clone());
        Source::open(&Registry::builtin(), path, &options).map(|_| ())
    };
    let mut limits = Limits::default();
    limits.set(Limit::GraphNodes, 2);
    refused("graph_nodes", with_layers(&limits));
    limits.set(Limit::GraphNodes, 3);
    assert_ne!(with_layers(&limits).err().map(|error| error.kind()), Some(Kind::Limit));
}

#[test]
fn files_bounds_shards_and_the_files_of_a_directory() {
    for (name, options, files) in [
        ("safetensors/accept/sharded", &[][..], 3),
        ("safetensors/accept/sharded/model.safetensors.index.json", &[], 2),
        ("tf2/accept/two_shards", &[], 3),
        ("bullet/accept/adamw", &[("arch", "simple:3x2x1,buckets=2")], 3),
    ] {
        let path = if name.starts_with("tf2") { entry(name) } else { corpus(name) };
        assert_eq!(bound("files", &path, options), files, "{name}");
    }
}

#[test]
fn text_bytes_bounds_what_people_write() {
    assert_eq!(mapping_bound("text_bytes", "identity = true\n"), 16);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let architecture = write("net.json", r#"{ "layers": [] }"#);
    let mapping = write("map.toml", "identity = true\n");
    let (npy, digits) = (corpus("npz/accept/matrix.npy"), example("digits"));
    let (npy, digits) = (npy.to_str().unwrap(), digits.to_str().unwrap());
    for command in [
        &["inspect", npy, "--arch", &architecture][..],
        &["diff", npy, npy, "--a-arch", &architecture],
        &["verify", npy, npy, "--map", &mapping],
        &["map", "explain", &mapping, "a"],
        &["map", "check", &mapping, digits],
        &["map", "invert", &mapping],
        &["plan", digits, "x.npz", "--map", &mapping],
        &["convert", digits, "x.npz", "--map", &mapping, "--dry-run"],
    ] {
        let run = |limit: &str| {
            let mut ckpt = std::process::Command::new(env!("CARGO_BIN_EXE_ckpt"));
            let output =
                ckpt.args(command).args(["--limit", limit]).current_dir(folder.path()).output().unwrap();
            String::from_utf8(output.stderr).unwrap()
        };
        let refusal = run("text_bytes=15");
        assert!(
            refusal.contains("exceeds the limit 'text_bytes'") && refusal.contains("--limit text_bytes="),
            "{refusal}"
        );
        assert!(!run("text_bytes=16").contains("text_bytes"), "{command:?}");
    }
}

#[test]
fn an_architecture_file_of_too_many_tokens_is_refused_before_it_is_parsed() {
    let limits = Limits::default().with(Limit::TextTokens, 11);
    let layers = |rest: &str| format!("{{\"layers\": [{{\"a\": 0}}{rest}]}}");
    assert!(ArchitectureFile::from_json_within(&layers(""), &limits).is_ok());
    for rest in [",", ", {}", "no JSON"] {
        let error = ArchitectureFile::from_json_within(&layers(rest), &limits).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit, "{error}");
        assert!(error.to_string().contains("text_tokens"), "{error}");
    }
}

#[test]
fn text_tokens_bounds_keys_strings_punctuation_spaces_and_lines_of_a_mapping() {
    assert_eq!(mapping_bound("text_tokens", "ignore = ['a', 'b']\n"), 11);
}

#[test]
fn rules_bounds_rules_patterns_and_roles() {
    let many = |text: &dyn Fn(usize) -> String| (0..9).map(text).collect::<String>();
    let rules = many(&|n| format!("[[rule]]\nfrom = '{n}'\nto = '{n}'\n"));
    assert_eq!(mapping_bound("rules", &rules), 9);
    assert_eq!(mapping_bound("rules", &format!("ignore = [{}]", many(&|n| format!("'{n}',")))), 9);
    let roles = many(&|n| format!("r{n} = []\n"));
    let used = many(&|n| format!("[[rule]]\nfrom = '{n}'\nto = '{n}'\nrole = 'r{n}'\n"));
    assert_eq!(mapping_bound("rules", &format!("[roles]\n{roles}{used}")), 9);
}

#[test]
fn rule_names_bounds_the_names_on_either_side() {
    let names = "['a', 'b', 'c', 'd', 'e']";
    assert_eq!(mapping_bound("rule_names", &format!("[[rule]]\nfrom = 'x'\nto = {names}\nsplit = 0")), 5);
    assert_eq!(mapping_bound("rule_names", &format!("[[rule]]\nfrom = {names}\nto = 'x'\nmerge = 0")), 5);
}

#[test]
fn rule_steps_bounds_those_of_a_rule_and_of_a_role() {
    let steps = "['transpose', 'transpose', 'transpose']";
    assert_eq!(mapping_bound("rule_steps", &format!("[[rule]]\nfrom = 'x'\nto = 'y'\nsteps = {steps}")), 3);
    let role = format!("[roles]\nr = {steps}\n[[rule]]\nfrom = 'x'\nto = 'y'\nrole = 'r'");
    assert_eq!(mapping_bound("rule_steps", &role), 3);
}

#[test]
fn captures_bounds_captures_and_wildcards() {
    assert_eq!(mapping_bound("captures", "[[rule]]\nfrom = '{a}/{b:int}/{c}'\nto = '{a}{b}{c}'"), 3);
    assert_eq!(mapping_bound("captures", "ignore = ['a*/**/*']"), 3);
}

#[test]
fn pattern_bytes_bounds_a_pattern_that_is_no_mere_name() {
    assert_eq!(mapping_bound("pattern_bytes", "ignore = ['abc*', 'a_longer_name_without_a_star']"), 4);
    assert_eq!(mapping_bound("pattern_bytes", "[[rule]]\nfrom = '{abc}'\nto = 'x{abc}y'"), 7);
}

#[test]
fn metadata_entries_bounds_the_values_of_all_metadata() {
    // The JSON and the dialect.
    assert_eq!(bound("metadata_entries", &corpus("nn/accept/b_mlp.nn"), &[]), 2);
}

#[test]
fn metadata_bytes_bounds_keys_and_texts() {
    let path = corpus("nn/accept/b_mlp.nn");
    let source = open(&path, &[], &Limits::default()).unwrap();
    let text = source.checkpoint().metadata.text("nn", "json").unwrap();
    let bytes = text.len() + "json".len() + "dialect".len() + "b".len();
    assert_eq!(bound("metadata_bytes", &path, &[]), bytes as u64);
}

/// The least value of the limit with which the checkpoint is read; with one less it must be refused, and by what the
/// help says it must be possible to get there.
fn bound(name: &'static str, path: &Path, options: &[(&str, &str)]) -> u64 {
    least(name, |limits| open(path, options, limits).map(|_| ()))
}

fn mapping_bound(name: &'static str, text: &str) -> u64 {
    least(name, |limits| Mapping::from_toml_within(text, "map.toml", limits).map(|_| ()))
}

fn least(name: &'static str, read: impl Fn(&Limits) -> Result<()>) -> u64 {
    let with = |value: u64| {
        let mut limits = Limits::default();
        limits.set_by_name(name, &value.to_string()).unwrap();
        read(&limits)
    };
    read(&Limits::default()).unwrap();
    let (mut fails, mut works) = (0, 1 << 28);
    refused(name, with(fails));
    while works - fails > 1 {
        let middle = (fails + works) / 2;
        match with(middle) {
            Ok(()) => works = middle,
            error => {
                refused(name, error);
                fails = middle;
            }
        }
    }
    let mut raised = 1;
    for _ in 0..64 {
        match with(raised) {
            Ok(()) => return works,
            error => raised = refused(name, error),
        }
    }
    panic!("{name}: the help leads nowhere, {raised} at last");
}

/// It must be this limit; the value that the help proposes.
fn refused(name: &str, outcome: Result<()>) -> u64 {
    let error = outcome.expect_err("the limit is exceeded");
    assert_eq!(error.kind(), Kind::Limit, "{error}");
    assert!(error.message().contains(&format!("'{name}'")), "{error}");
    let help = error.context().help.unwrap();
    let value = help.split(&format!("the limit `{name}` of ")).nth(1).unwrap_or_else(|| panic!("{help}"));
    value.parse().unwrap()
}

fn open(path: &Path, options: &[(&str, &str)], limits: &Limits) -> Result<Source> {
    let options = OpenOptions::new().set_all(options.iter().copied()).limits(limits.clone());
    Source::open(&Registry::builtin(), path, &options)
}

type Given = (PathBuf, Vec<(&'static str, &'static str)>);

/// A checkpoint of every format, with options to read it.
fn every_format() -> Vec<Given> {
    let bullet = (corpus("bullet/accept/adamw"), vec![("arch", "simple:3x2x1,buckets=2")]);
    let others = ["cnn2/accept/example.bin", "nn/accept/b_mlp.nn", "npz/accept/every_dtype.npz"];
    let others = others.map(|name| (corpus(name), Vec::new()));
    let tf2 = [example("digits"), example("digits_saved_model")].map(|path| (path, Vec::new()));
    let mut all = vec![bullet, (with_graph(), Vec::new())];
    all.extend(others);
    all.extend(tf2);
    all
}

/// A safetensors file that carries a graph.
fn with_graph() -> PathBuf {
    static MADE: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::builtin();
        let source = Source::open(&registry, example("digits_saved_model"), &OpenOptions::default()).unwrap();
        let conversion = Conversion::new().to("safetensors");
        let planned = conversion.plan(&registry, &source, folder.path().join("digits.safetensors")).unwrap();
        planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
        folder
    });
    folder.path().join("digits.safetensors")
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(name)
}

/// What a user names of a folder that holds one TensorFlow checkpoint, or a file.
fn entry(name: &str) -> PathBuf {
    let path = corpus(name);
    if path.is_file() {
        return path;
    }
    let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let mut indexes = names.filter(|path| path.extension().is_some_and(|extension| extension == "index"));
    indexes.next().unwrap().with_extension("")
}

/// Loads a plugin within a limit of another value than the usual one.
fn plugin_within(limit: Limit, value: u64) -> Result<Plugin> {
    Plugin::load_within(&toy().bytes(), "toy.wasm", &Limits::default().with(limit, value))
}

fn is_exceeded(loaded: Result<Plugin>, limit: Limit) -> bool {
    loaded.is_err_and(|error| error.kind() == Kind::Limit && error.to_string().contains(limit.name()))
}

#[test]
fn plugin_bytes_bounds_a_module() {
    let len = toy().bytes().len() as u64;
    plugin_within(Limit::PluginBytes, len).unwrap();
    assert!(is_exceeded(plugin_within(Limit::PluginBytes, len - 1), Limit::PluginBytes));
}

#[test]
fn plugin_steps_bounds_what_a_call_computes() {
    plugin_within(Limit::PluginSteps, 1_000_000).unwrap();
    assert!(is_exceeded(plugin_within(Limit::PluginSteps, 1), Limit::PluginSteps));
}

#[test]
fn plugin_memory_bounds_what_a_module_has() {
    let pages = 4 << 16;
    plugin_within(Limit::PluginMemory, pages).unwrap();
    assert!(is_exceeded(plugin_within(Limit::PluginMemory, pages - 1), Limit::PluginMemory));
}
