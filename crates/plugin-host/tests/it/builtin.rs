//! The program's own codecs as plugins: over all files of the corpus, and over the cases, they do the same as in the program.
//!
//! `tests/plugins/build.sh` builds the plugins into the folder that `CKPT_BUILT_PLUGINS` names.

use ckpt_api::{
    Codec, Contents, Error, Input, Node, Op, OpCall, OpShapes, OpSpec, Options, OutputView, Result, Side,
    TensorId, Values,
};
use ckpt_forms::OperatorForm;
use ckpt_plugin_host::Plugin;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Bytes of a file that is compared: values are in memory, and a plugin decodes slowly.
const MOST: u64 = 4 << 20;

fn plugin(name: &str) -> Option<Plugin> {
    let Some(folder) = env::var_os("CKPT_BUILT_PLUGINS") else {
        eprintln!(
            "skipped: CKPT_BUILT_PLUGINS does not name the folder of plugins that tests/plugins/build.sh built"
        );
        return None;
    };
    let path = Path::new(&folder).join(format!("{name}.wasm"));
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(Plugin::load(&bytes, &path.display().to_string()).unwrap())
}

/// The files below folders, sorted.
fn files_below(folders: &[PathBuf]) -> Vec<PathBuf> {
    let (mut left, mut files) = (folders.to_vec(), Vec::new());
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// What a codec makes of an input: the verdict, the contents and values, and the files that it writes of them.
#[derive(Debug, PartialEq)]
struct Outcome {
    verdict: String,
    read: std::result::Result<(Contents, Vec<Vec<u8>>), String>,
    written: Option<std::result::Result<BTreeMap<String, Vec<u8>>, String>>,
}

fn outcome(codec: &dyn Codec, input: &Input, name: &str) -> Outcome {
    let text = |error: ckpt_api::Error| format!("{:?}: {error}", error.kind());
    let read = ckpt_conformance::read(codec, input, &[]);
    let written = read.as_ref().ok().filter(|_| !codec.info().writes.is_empty()).map(|(contents, values)| {
        ckpt_conformance::write(codec, &contents.checkpoint, values, name, &[]).map_err(text)
    });
    Outcome { verdict: format!("{:?}", codec.probe(input).map_err(text)), read: read.map_err(text), written }
}

/// Compares a codec with the same one as a plugin; returns how many files were read by both, and how many were refused.
fn compare(codec: &dyn Codec) -> Option<(usize, usize)> {
    let id = codec.info().id;
    let plugin = plugin(id)?;
    assert_eq!(serde_json::to_value(plugin.info()).unwrap(), serde_json::to_value(codec.info()).unwrap());
    let operators = |codec: &dyn Codec| codec.ops().iter().map(OperatorForm::from).collect::<Vec<_>>();
    assert_eq!(operators(&plugin), operators(codec));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(id);
    let cases = env::var_os("CKPT_CASES").map(PathBuf::from);
    let folders: Vec<PathBuf> = [corpus.clone()].into_iter().chain(cases).collect();
    let is_own = |path: &&PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let extensions = codec.info().extensions;
        // Networks of Stockfish end as another format's files do.
        let is_named = extensions.contains(&ending) || extensions.is_empty() && path.starts_with(&corpus);
        is_named && fs::metadata(path).is_ok_and(|meta| meta.len() <= MOST)
    };
    let (mut read, mut refused) = (0, 0);
    for path in files_below(&folders).iter().filter(is_own) {
        let input = Input::open(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (native, hosted) = (outcome(codec, &input, name), outcome(&plugin, &input, name));
        assert!(native == hosted, "{}: {}", path.display(), difference(&native, &hosted));
        match native.read {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    eprintln!("{id}: {read} files read alike, {refused} refused alike");
    Some((read, refused))
}

fn difference(native: &Outcome, hosted: &Outcome) -> String {
    if native.verdict != hosted.verdict {
        return format!("{} in the program, {} in the plugin", native.verdict, hosted.verdict);
    }
    match (&native.read, &hosted.read) {
        (Ok((native, _)), Ok((hosted, _))) if native != hosted => format!("{native:?}\n{hosted:?}"),
        (Ok(_), Ok(_)) => match (&native.written, &hosted.written) {
            (Some(Err(native)), Some(Err(hosted))) => format!("writing: {native}\n{hosted}"),
            _ => "other bytes are read or written".to_owned(),
        },
        (native, hosted) => format!(
            "{:?} in the program, {:?} in the plugin",
            native.as_ref().map(|_| "read").map_err(String::as_str),
            hosted.as_ref().map(|_| "read").map_err(String::as_str)
        ),
    }
}

macro_rules! alike {
    ($($name:ident: $codec:expr, at least $read:literal and $refused:literal;)*) => {
        $(#[test]
        fn $name() {
            let Some((read, refused)) = compare(&$codec) else { return };
            assert!(read >= $read && refused >= $refused, "{read} files were read, {refused} were refused");
        })*
    };
}

alike! {
    caffe_is_the_same_as_a_plugin: ckpt_caffe::Caffe, at least 3 and 3;
    cnn2_is_the_same_as_a_plugin: ckpt_cnn2::Cnn2, at least 3 and 3;
    darknet_is_the_same_as_a_plugin: ckpt_darknet::Darknet, at least 3 and 3;
    gguf_is_the_same_as_a_plugin: ckpt_gguf::Gguf, at least 3 and 3;
    mxnet_is_the_same_as_a_plugin: ckpt_mxnet::Mxnet, at least 3 and 3;
    nn_is_the_same_as_a_plugin: ckpt_nn::Nn, at least 3 and 3;
    nnue_is_the_same_as_a_plugin: ckpt_nnue::Nnue, at least 3 and 3;
    npz_is_the_same_as_a_plugin: ckpt_npz::Npz, at least 3 and 3;
    paddle_is_the_same_as_a_plugin: ckpt_paddle::Paddle, at least 3 and 3;
    safetensors_is_the_same_as_a_plugin: ckpt_safetensors::Safetensors, at least 3 and 3;
    torch7_is_the_same_as_a_plugin: ckpt_torch7::Torch7, at least 3 and 3;
}

/// The files alone: no codec here asks for values.
struct Files(Input);

impl Values for Files {
    fn input(&self) -> &Input {
        &self.0
    }

    fn numbers(&self, _: TensorId, _: &mut dyn FnMut(&[f32])) -> Result<()> {
        Err(Error::unsupported("there are no values"))
    }
}

#[test]
fn nnue_compresses_the_same_arrays_as_a_plugin() {
    let Some(plugin) = plugin("nnue") else { return };
    let wanted = [("compression".to_owned(), "leb128".to_owned())];
    let options = Options::parse("nnue", plugin.info().options, Side::Write, &wanted).unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/nnue/accept");
    let mut compressed = 0;
    for path in files_below(&[corpus]) {
        let values = Files(Input::open(&path).unwrap());
        let (native, hosted): (&dyn Codec, &dyn Codec) = (&ckpt_nnue::Nnue, &plugin);
        let Ok(contents) = native.read(&values.0, &Options::default(), values.0.limits()) else { continue };
        let both = [native, hosted].map(|codec| codec.prepare(&values, &contents, &options).unwrap());
        assert_eq!(both[0], both[1], "{}", path.display());
        for prepared in both.iter().flatten() {
            let decoders = prepared.placements.iter().flat_map(|placement| &placement.extents);
            assert!(decoders.into_iter().all(ckpt_api::Extent::has_decoder), "{}", path.display());
            compressed += 1;
        }
    }
    assert!(compressed >= 4, "{compressed}");
}

#[test]
fn an_operator_of_cnn2_computes_the_same_as_a_plugin() {
    let Some(plugin) = plugin("cnn2") else { return };
    let image: Vec<f64> = (0..2 * 4 * 3 * 5).map(|number| f64::from(number) / 7.0).collect();
    let node = Node::new("n", Op::custom("ckpt.StaticFeatures"));
    let computed = |spec: &OpSpec, inputs: &[Option<Vec<usize>>]| {
        let shapes = OpShapes::new(&node, inputs, &[]);
        let shape = spec.shape(&shapes).map_err(|error| error.to_string())?;
        let mut values = vec![0.0; shape.iter().product()];
        let images = [image.as_slice()];
        let call = OpCall::new(shapes, &images, &[]);
        spec.compute(&call, &mut OutputView::new(&shape, &mut values)).map_err(|error| error.to_string())?;
        // Two libraries' sines may differ in the last bit of 64.
        let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        Ok::<_, String>((shape, values))
    };
    let both = [ckpt_cnn2::Cnn2.ops(), plugin.ops()].map(|specs| &specs[0]);
    let [native, hosted] = both.map(|spec| computed(spec, &[Some(vec![2, 4, 3, 5])]).unwrap());
    assert_eq!(native.0, [2, 8, 3, 5]);
    assert_eq!(native, hosted);
    let [native, hosted] = both.map(|spec| computed(spec, &[Some(vec![2, 3, 3, 5])]).unwrap_err());
    assert_eq!(native, hosted);
}
