//! The README's table of what converts to what: what the codecs say of themselves, every cell tried.

use ckpt::api::{ArchitectureFile, DType};
use ckpt::{Conversion, Execution, Kind, OpenOptions, Registry, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A checkpoint of one kind of network, which some formats hold alone.
struct Network {
    format: &'static str,
    path: &'static str,
    /// Options to read it with.
    options: &'static [(&'static str, &'static str)],
    /// Its layers, for formats that keep none.
    layers: Option<&'static str>,
}

const NETWORKS: [Network; 13] = [
    Network {
        format: "bullet",
        path: "corpus/bullet/accept/adamw",
        options: &[("arch", "simple:3x2x1,buckets=2")],
        layers: None,
    },
    Network {
        format: "cnn2",
        path: "corpus/cnn2/accept/example.bin",
        options: &[("border", "zero"), ("activation", "sigmoid,relu,sigmoid")],
        layers: None,
    },
    // What is only read, or written only of what was read, begins with each kind of network.
    Network { format: "caffe", path: "corpus/caffe/accept/dense/m.caffemodel", options: &[], layers: None },
    Network {
        format: "caffe",
        path: "corpus/caffe/accept/one_convolution/m.caffemodel",
        options: &[],
        layers: None,
    },
    Network { format: "darknet", path: "corpus/darknet/accept/dense/m.weights", options: &[], layers: None },
    Network {
        format: "darknet",
        path: "corpus/darknet/accept/one_convolution/m.weights",
        options: &[],
        layers: None,
    },
    Network { format: "nnue", path: "corpus/nnue/accept/pawn_pairs.nnue", options: &[], layers: None },
    Network {
        format: "nnue",
        path: "corpus/nnue/accept/pawn_pairs.nnue",
        options: &[("weights", "numbers")],
        layers: None,
    },
    Network { format: "tf1", path: "corpus/tf1/accept/layers.pb", options: &[], layers: None },
    Network { format: "tf1", path: "corpus/tf1/accept/cnn2_names.pb", options: &[], layers: None },
    Network { format: "torch7", path: "corpus/torch7/accept/dense.t7", options: &[], layers: None },
    Network { format: "torch7", path: "corpus/torch7/accept/one_convolution.t7", options: &[], layers: None },
    Network {
        format: "tf2",
        path: "examples/data/digits_saved_model",
        options: &[],
        layers: Some(
            r#"{ "layers": [
              { "type": "dense", "weight": "digits/hidden/kernel", "bias": "digits/hidden/bias",
                "weight_axes": ["in", "out"], "activation": "relu" },
              { "type": "dense", "weight": "digits/digit/kernel", "bias": "digits/digit/bias",
                "weight_axes": ["in", "out"], "activation": "softmax" } ] }"#,
        ),
    },
];

/// One conversion.
struct Attempt<'a> {
    from: (&'a str, &'a Path),
    options: &'a [(&'a str, &'a str)],
    layers: Option<&'a str>,
    to: (&'a str, &'a Path),
}

impl Attempt<'_> {
    /// Converts as the tensors are, or as the 32-bit floats that some formats hold alone; with the layers said where
    /// that is needed. Weights and layers must survive.
    fn run(&self) -> Result<(), ckpt::Error> {
        let plain = self.run_as(None, false).or_else(|_| self.run_as(Some(DType::F32), false));
        plain.or_else(|error| if self.layers.is_some() { self.run_as(None, true) } else { Err(error) })
    }

    fn run_as(&self, dtype: Option<DType>, with_layers: bool) -> Result<(), ckpt::Error> {
        let registry = Registry::builtin();
        let layers = self.layers.filter(|_| with_layers);
        let layers = layers.map(|layers| ArchitectureFile::from_json(layers).unwrap());
        let open = OpenOptions::new().format(self.from.0).set_all(self.options.iter().copied());
        let open = layers.into_iter().fold(open, OpenOptions::architecture);
        let source = Source::open(&registry, self.from.1, &open)?;
        let conversion = Conversion::new().to(self.to.0).verify(true);
        let conversion = dtype.into_iter().fold(conversion, Conversion::dtype);
        let execution = Execution::new().sync(false);
        conversion.plan(&registry, &source, self.to.1)?.execute(&execution, &|_| ()).map(drop)
    }
}

fn output(directory: &Path, format: &str) -> PathBuf {
    directory.join(match format {
        "caffe" => "out.caffemodel",
        "cnn2" => "out.bin",
        "coreml" => "out.mlpackage",
        "darknet" => "out.weights",
        "flax" => "out.msgpack",
        "gguf" => "out.gguf",
        "keras" => "out.h5",
        "nn" => "out.nn",
        "nnue" => "out.nnue",
        "npz" => "out.npz",
        "onnx" => "out.onnx",
        "safetensors" => "out.safetensors",
        _ => "out",
    })
}

/// From each network to every format, and from there to every format again; `None` if one of the ways went.
fn tried() -> BTreeMap<(String, String), Option<String>> {
    let formats: Vec<String> = Registry::builtin().codecs().map(|codec| codec.info().id.to_owned()).collect();
    let mut cells = BTreeMap::new();
    let mut note = |from: &str, to: &str, result: Result<(), ckpt::Error>| {
        let cell = cells.entry((from.to_owned(), to.to_owned())).or_insert_with(|| Some(String::new()));
        match (result, cell) {
            (Ok(()), cell) => *cell = None,
            (Err(error), Some(why)) => *why = error.to_string(),
            (Err(_), None) => {}
        }
    };
    for Network { format, path, options, layers } in &NETWORKS {
        for middle in &formats {
            let work = tempfile::tempdir().unwrap();
            let (start, first) = (Path::new(ROOT).join(path), output(work.path(), middle));
            let to = (middle.as_str(), first.as_path());
            let made = Attempt { from: (format, &start), options, layers: None, to }.run();
            let went = made.is_ok();
            note(format, middle, made);
            for target in formats.iter().filter(|_| went) {
                let other = tempfile::tempdir().unwrap();
                let second = output(other.path(), target);
                let (from, to) = ((middle.as_str(), first.as_path()), (target.as_str(), second.as_path()));
                note(middle, target, Attempt { from, options: &[], layers: *layers, to }.run());
            }
        }
    }
    cells
}

#[test]
fn every_cell_that_the_codecs_declare_is_what_a_conversion_does() {
    let registry = Registry::builtin();
    let matrix = registry.matrix();
    let tried = tried();
    for ((from, to), why) in &tried {
        assert_eq!(matrix.converts(from, to), why.is_none(), "{from} to {to}: {why:?}");
    }
    assert_eq!(tried.len(), registry.codecs().count().pow(2));
}

#[test]
fn the_readme_has_the_matrix_that_the_codecs_declare() {
    let readme = std::fs::read_to_string(format!("{ROOT}/README.md")).unwrap();
    let lines = readme.lines().skip_while(|line| !line.starts_with("| from \\ to"));
    let found: Vec<&str> = lines.take_while(|line| line.starts_with('|')).collect();
    let matrix = Registry::builtin().matrix().to_string();
    assert_eq!(found, matrix.lines().collect::<Vec<_>>(), "`ckpt formats --matrix` gives it");
}

/// Why a network does not become a checkpoint of another format.
fn refusal(from: &str, path: &str, options: &[(&str, &str)], to: &str) -> ckpt::Error {
    let work = tempfile::tempdir().unwrap();
    let (start, target) = (Path::new(ROOT).join(path), output(work.path(), to));
    let error = Attempt { from: (from, &start), options, layers: None, to: (to, &target) }
        .run_as(None, false)
        .unwrap_err();
    assert!(!target.exists(), "{from} to {to}");
    error
}

#[test]
fn an_nnue_is_refused_by_nn_with_the_layer_and_the_reason() {
    let Network { format, path, options, .. } = &NETWORKS[0];
    let error = refusal(format, path, options, "nn").to_string();
    assert!(error.contains("'l0/stm'") && error.contains("FeatureTransformer"), "{error}");
}

#[test]
fn an_nnue_is_refused_by_cnn2_with_the_layer_and_the_reason() {
    let Network { format, path, options, .. } = &NETWORKS[0];
    let error = refusal(format, path, options, "cnn2").to_string();
    assert!(error.contains("'l0/stm'") && error.contains("FeatureTransformer"), "{error}");
}

#[test]
fn a_convolution_is_refused_by_nn_with_the_layer_and_the_reason() {
    let error = refusal("cnn2", "corpus/cnn2/accept/version_2_mip_0.bin", &[], "nn").to_string();
    assert!(error.contains("'layer1'") && error.contains("Conv"), "{error}");
}

#[test]
fn a_dense_net_is_refused_by_cnn2_with_the_layer_and_the_reason() {
    for (from, path, layer) in [
        ("nn", "corpus/nn/accept/b_mlp.nn", "'layer0'"),
        ("tf2", "examples/data/digits_saved_model", "'hidden'"),
    ] {
        let error = refusal(from, path, &[], "cnn2");
        assert_eq!(error.kind(), Kind::Lossy, "{error}");
        assert!(error.to_string().contains(layer) && error.to_string().contains("Gemm"), "{error}");
    }
}
