//! Arguments that several subcommands share.

use super::flags::Flags;
use super::paths::{check_input, existing};
use super::report::Report;
use super::verbose;
use crate::{architecture, architectures};
use ckpt_api::{Address, ArchitectureFile, Codec, Error, Limit, Limits, Result, nearest};
use ckpt_engine::Registry;
use ckpt_engine::diff::Tolerance;
use ckpt_engine::execute::interrupted;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::source::{ModelGraph, OpenOptions, Source};
use ckpt_engine::store::Addresses;
use ckpt_engine::store::refuse_own;
use ckpt_engine::text_file;
use clap::Args;
use std::fs;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Extensions of models that give their graphs to another checkpoint; a SavedModel is a directory.
const GRAPH_EXTENSIONS: [&str; 8] =
    ["onnx", "keras", "h5", "hdf5", "pb", "safetensors", "msgpack", "pdparams"];

/// A checkpoint that is only read.
#[derive(Args)]
pub(super) struct OneInput {
    /// Checkpoint to read
    pub(super) path: PathBuf,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Option for reading; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Read the tensors that are stored for quantized weights, and not the numbers that they stand for
    #[arg(long)]
    parts: bool,
}

impl OneInput {
    /// Opens it.
    pub(super) fn open(&self, registry: &Registry) -> Result<Source> {
        self.reading.open(registry, &self.path, pairs(&self.set)?, self.parts)
    }
}

/// Checkpoints that are only read, one or more, each in the same way.
#[derive(Args)]
pub(super) struct Inputs {
    /// Checkpoints to read
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) reading: Reading,
    /// Option for reading; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Read the tensors that are stored for quantized weights, and not the numbers that they stand for
    #[arg(long)]
    parts: bool,
}

impl Inputs {
    /// Reports on each. Of several, the texts are printed as soon as they are known, with `between` them; JSON is one
    /// array. One of several that cannot be read is reported on stderr, in JSON also in its place, and the rest
    /// follows.
    pub(super) fn report(
        &self,
        registry: &Registry,
        json: bool,
        between: &str,
        mapping: Option<&Arc<Mapping>>,
        report: impl Fn(&Path, Source) -> Result<String>,
    ) -> Result<Report> {
        let report = |path: &Path| {
            let more = (pairs(&self.set)?, self.parts);
            report(path, self.reading.open_mapped(registry, path, more, mapping.cloned())?)
        };
        match &self.paths[..] {
            [path] => report(path).map(Report::from),
            paths => {
                let (mut code, mut texts) = (0, Vec::new());
                for path in paths {
                    match report(path).map_err(|error| error.in_words(&Flags::One)) {
                        Ok(text) if json => texts.push(text.trim_end().to_owned()),
                        Ok(text) => {
                            let before = if texts.is_empty() { "" } else { between };
                            super::report::print(&format!("{before}{text}"), false)?;
                            texts.push(String::new());
                        }
                        Err(error) => {
                            let failed = super::report::fail(&error, json);
                            code = if code == 0 { failed } else { code };
                            texts.extend(json.then(|| super::problem::json(&error)));
                        }
                    }
                }
                let text = if json { format!("[\n{}\n]\n", texts.join(",\n")) } else { String::new() };
                Ok(Report { text, code })
            }
        }
    }
}

/// Two checkpoints that are only read.
#[derive(Args)]
pub(super) struct TwoInputs {
    /// First checkpoint
    a: PathBuf,
    /// Second checkpoint
    b: PathBuf,
    /// Format of the first checkpoint; found from its content if left out
    #[arg(long, value_name = "FORMAT")]
    a_from: Option<String>,
    /// Format of the second checkpoint; found from its content if left out
    #[arg(long, value_name = "FORMAT")]
    b_from: Option<String>,
    /// Option for reading the first checkpoint
    #[arg(long, value_name = "KEY=VALUE")]
    a_set: Vec<String>,
    /// Option for reading the second checkpoint
    #[arg(long, value_name = "KEY=VALUE")]
    b_set: Vec<String>,
    /// Architecture of the first checkpoint: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE|NAME")]
    a_arch: Option<PathBuf>,
    /// Architecture of the second checkpoint: a file, or the name of a built-in one
    #[arg(long, value_name = "FILE|NAME")]
    b_arch: Option<PathBuf>,
    /// Read the tensors that are stored for quantized weights, and not the numbers that they stand for
    #[arg(long)]
    parts: bool,
}

/// What files may make the process do.
#[derive(Args)]
pub(super) struct Bounds {
    /// Set a limit on what an input may contain; the guide's page "Limits" lists the names
    #[arg(long, value_name = "NAME=N")]
    limit: Vec<String>,
}

impl Bounds {
    pub(super) fn limits(&self) -> Result<Limits> {
        limits(&self.limit)
    }
}

/// The usual limits, but for those that are named: `NAME=N`.
pub(super) fn limits(named: &[String]) -> Result<Limits> {
    let mut limits = Limits::default();
    for (name, value) in pairs(named)? {
        limits.set_by_name(&name, &value)?;
    }
    Ok(limits)
}

impl TwoInputs {
    /// Opens both.
    pub(super) fn open(&self, registry: &Registry, limits: &Limits) -> Result<(Source, Source)> {
        self.open_to_run(registry, limits, &[], [None, None])
    }

    /// As [`TwoInputs::open`], to run both with these inputs. The mappings lead from the names of each to those of the
    /// model that gives it its graph.
    pub(super) fn open_to_run(
        &self,
        registry: &Registry,
        limits: &Limits,
        inputs: &[String],
        [a, b]: [Option<Arc<Mapping>>; 2],
    ) -> Result<(Source, Source)> {
        let open = |path: &Path,
                    format: &Option<String>,
                    set: &[String],
                    arch: &Option<PathBuf>,
                    graph_mapping: Option<Arc<Mapping>>,
                    words: Flags| {
            let arch = arch.as_deref();
            let mut options = OpenOptions::new().inputs(inputs).limits(limits.clone()).vocabulary(words);
            options.format.clone_from(format);
            options.options = pairs(set)?;
            options.architecture =
                arch.and_then(|path| read_architecture(registry, path, limits)).transpose()?;
            options.graph = arch.and_then(|path| read_graph(registry, path, limits)).transpose()?;
            options.graph_mapping = graph_mapping;
            options.parts = self.parts;
            open_one(registry, path, &options).map_err(|error| error.in_words(&words))
        };
        Ok((
            open(&self.a, &self.a_from, &self.a_set, &self.a_arch, a, Flags::First)?,
            open(&self.b, &self.b_from, &self.b_set, &self.b_arch, b, Flags::Second)?,
        ))
    }

    /// The error, which names the flags of the checkpoint whose file it names.
    #[cfg(feature = "forward")]
    pub(super) fn located(&self, error: Error) -> Error {
        let b = self.b.display().to_string();
        let is_b = |file: &str| file.starts_with(&b) && self.a != self.b;
        let is_b = error.context().file.is_some_and(is_b);
        error.in_words(if is_b { &Flags::Second } else { &Flags::First })
    }
}

/// How to read the input.
#[derive(Args)]
pub(super) struct Reading {
    /// Format of the input; found from its content if left out
    #[arg(long, value_name = "FORMAT")]
    pub(super) from: Option<String>,
    /// Option for reading the input; `ckpt formats` lists them
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) from_set: Vec<String>,
    /// Architecture: a file (JSON, or TOML by its name), the name of a built-in one, such as gpt2, or a model of the
    /// same network, as a SavedModel or in ONNX, whose graph it takes; for the way back to Flax, a checkpoint of the model
    #[arg(long, value_name = "FILE|NAME")]
    pub(super) arch: Option<PathBuf>,
    #[command(flatten)]
    bounds: Bounds,
}

impl Reading {
    /// Opens `path`; `more` are options that name no side, and `parts` says whether quantized weights are read as they are
    /// stored.
    pub(super) fn open(
        &self,
        registry: &Registry,
        path: &Path,
        more: Vec<(String, String)>,
        parts: bool,
    ) -> Result<Source> {
        let options = self.options(registry, more, self.architecture(registry)?)?;
        open_one(registry, path, &options.parts(parts))
    }

    /// As [`Reading::open`], under the names of the model that gives the graph, to which the mapping leads.
    pub(super) fn open_mapped(
        &self,
        registry: &Registry,
        path: &Path,
        (more, parts): (Vec<(String, String)>, bool),
        mapping: Option<Arc<Mapping>>,
    ) -> Result<Source> {
        let mut options = self.options(registry, more, self.architecture(registry)?)?.parts(parts);
        options.graph_mapping = mapping;
        let source = open_one(registry, path, &options)?;
        Ok(source.under_graph_names()?.unwrap_or(source))
    }

    /// As [`Reading::open_mapped`], to run it with these inputs.
    #[cfg(feature = "forward")]
    pub(super) fn open_to_run(
        &self,
        registry: &Registry,
        path: &Path,
        (more, parts): (Vec<(String, String)>, bool),
        inputs: Vec<String>,
        mapping: Option<Arc<Mapping>>,
    ) -> Result<Source> {
        let options = self.options(registry, more, self.architecture(registry)?)?;
        let mut options = options.inputs(inputs).parts(parts);
        options.graph_mapping = mapping;
        let source = open_one(registry, path, &options)?;
        Ok(source.under_graph_names()?.unwrap_or(source))
    }

    /// Opens `path` with this architecture file in place of its own.
    pub(super) fn open_with(
        &self,
        registry: &Registry,
        path: &Path,
        more: Vec<(String, String)>,
        architecture: Option<ArchitectureFile>,
        graph_mapping: Option<Arc<Mapping>>,
    ) -> Result<Source> {
        let mut options = self.options(registry, more, architecture)?;
        options.graph_mapping = graph_mapping;
        open_one(registry, path, &options)
    }

    fn options(
        &self,
        registry: &Registry,
        more: Vec<(String, String)>,
        architecture: Option<ArchitectureFile>,
    ) -> Result<OpenOptions> {
        let limits = self.limits()?;
        let mut options =
            OpenOptions::new().set_all(pairs(&self.from_set)?).set_all(more).vocabulary(Flags::One);
        options.format.clone_from(&self.from);
        options.architecture = architecture;
        options.graph =
            self.arch.as_deref().and_then(|path| read_graph(registry, path, &limits)).transpose()?;
        Ok(options.limits(limits))
    }

    /// The architecture file, if one was given.
    pub(super) fn architecture(&self, registry: &Registry) -> Result<Option<ArchitectureFile>> {
        let limits = self.limits()?;
        self.arch.as_deref().and_then(|path| read_architecture(registry, path, &limits)).transpose()
    }

    pub(super) fn limits(&self) -> Result<Limits> {
        self.bounds.limits()
    }

    /// The format of the input.
    pub(super) fn codec(&self, registry: &Registry, path: &Path) -> Result<Arc<dyn Codec>> {
        let mut options = OpenOptions::new().limits(self.limits()?);
        options.format.clone_from(&self.from);
        options.architecture = self.architecture(registry)?;
        Source::codec(registry, path, &options)
    }
}

fn open_one(registry: &Registry, path: &Path, options: &OpenOptions) -> Result<Source> {
    let started = Instant::now();
    let source = Source::open(registry, path, options)?;
    verbose::opened(path, &source, started);
    Ok(source)
}

/// The graph of the model that is given in place of an architecture file; `None` for a file that is one.
fn read_graph(registry: &Registry, path: &Path, limits: &Limits) -> Option<Result<Arc<ModelGraph>>> {
    let options = OpenOptions::new().limits(limits.clone());
    let read = || Source::open(registry, path, &options).map(|model| Arc::new(ModelGraph::of(&model)));
    is_model(path).then(read)
}

fn is_model(path: &Path) -> bool {
    let is_own = |extension: &std::ffi::OsStr| GRAPH_EXTENSIONS.iter().any(|own| extension == *own);
    path.extension().is_some_and(is_own)
        || (path.is_dir() && architecture(&path.display().to_string()).is_none())
}

/// The architecture in a file; `None` for a model, which gives its graph.
fn read_architecture(registry: &Registry, path: &Path, limits: &Limits) -> Option<Result<ArchitectureFile>> {
    (!is_model(path)).then(|| parse_architecture(registry, path, limits))
}

/// JSON, or TOML if the name ends in `.toml`.
fn parse_architecture(registry: &Registry, path: &Path, limits: &Limits) -> Result<ArchitectureFile> {
    let name = Address::display(path);
    if let Some(builtin) = architecture(&name).filter(|_| !path.is_file()) {
        return Ok(builtin);
    }
    let text = read_text(registry.addresses(), path, limits, Limit::TextBytes)
        .map_err(|error| unknown_architecture(error, path))?;
    let file = match path.extension().is_some_and(|extension| extension == "toml") {
        true => ckpt_engine::mapping::check_tokens(&text, limits).and_then(|()| {
            toml::from_str::<toml::Table>(&text)
                .map_err(|error| not_toml(&text, &error))
                .and_then(|document| ArchitectureFile::new(&document))
        }),
        false => ArchitectureFile::from_json_within(&text, limits),
    };
    Ok(file.map_err(|error| error.file(name.as_str()))?.named(name))
}

/// The error for an architecture that is no file: if it is a bare name, with the names of the built-in architectures.
fn unknown_architecture(error: Error, path: &Path) -> Error {
    let is_name = path.extension().is_none() && path.components().count() == 1 && !path.exists();
    match path.to_str().filter(|_| is_name) {
        Some(name) => error.help(nearest(name, architectures())),
        None => error,
    }
}

/// The error for an architecture file that is not TOML: the message, and the line that it is about.
fn not_toml(text: &str, error: &toml::de::Error) -> Error {
    let wrong = Error::usage("the architecture file is not valid").found(error.message().trim());
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return wrong };
    wrong.field(format!("line {}", before.matches('\n').count() + 1))
}

/// A text file of as many bytes as the limit called `limit` allows.
pub(super) fn read_text(addresses: &Addresses, path: &Path, limits: &Limits, limit: Limit) -> Result<String> {
    check_input(path)?;
    text_file::read_text(addresses, path, limits, limit)
}

/// A file of as many bytes as the limit called `limit` allows.
pub(super) fn read_bytes(
    addresses: &Addresses,
    path: &Path,
    limits: &Limits,
    limit: Limit,
) -> Result<Vec<u8>> {
    check_input(path)?;
    text_file::read_bytes(addresses, path, limits, limit)
}

/// What is not dropped: the process ends after its command, and to give back what describes many thousand tensors,
/// piece by piece, takes up to a tenth of the time.
pub(super) fn until_the_end<T>(value: T) -> ManuallyDrop<T> {
    ManuallyDrop::new(value)
}

/// Writes a file that must not exist; half of one is worse than none, also if a signal comes.
pub(super) fn write_new(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    write_new_with(path, |file, _| {
        file.write_all(bytes.as_ref()).map_err(|error| Error::io("cannot write the file", error))
    })
}

/// Writes a file in the place of the one that has its name, which stays until the new one is complete.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else { return write_new(path, bytes) };
    let shown = || path.display().to_string();
    if !meta.is_file() {
        return Err(Error::usage("the output is not a regular file")
            .file(shown())
            .help("choose another name: only a file is replaced"));
    }
    refuse_own(path)?;
    let canceled: Arc<AtomicBool> = Arc::default();
    super::signals::watch(&canceled);
    let failed = |error: std::io::Error| Error::io("cannot write the file", error).file(shown());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let create = |path: &Path| fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = tempfile::Builder::new().make_in(directory, create).map_err(failed)?;
    file.as_file().set_permissions(meta.permissions()).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    if canceled.load(Ordering::Relaxed) {
        return Err(interrupted());
    }
    file.persist(path).map_err(|error| failed(error.error)).map(drop)
}

/// [`write_new`], with what `write` puts into the file. A signal sets the flag, which `write` may look at.
pub(super) fn write_new_with(
    path: &Path,
    write: impl FnOnce(&mut fs::File, &AtomicBool) -> Result<()>,
) -> Result<()> {
    refuse_own(path)?;
    let canceled: Arc<AtomicBool> = Arc::default();
    super::signals::watch(&canceled);
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => existing(path, false),
        _ => Error::io("cannot write the file", error).file(shown.as_str()),
    };
    if let Some(address) = Address::of(path).filter(|_| path.parent().is_none_or(|parent| !parent.is_dir())) {
        return Err(address.unwritable());
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let written = write(&mut file, &canceled).map_err(|error| match error.context().file {
        None => error.file(shown.as_str()),
        Some(_) => error,
    });
    let written = written.and_then(|()| file.sync_all().map_err(failed));
    let written = written.and_then(|()| match canceled.load(Ordering::Relaxed) {
        true => Err(interrupted()),
        false => Ok(()),
    });
    written.map_err(|error| match fs::remove_file(path) {
        Ok(()) => error,
        Err(left) => error.help(format!("a part of it is left, because it cannot be removed: {left}")),
    })
}

/// The tolerance of `--atol` and `--rtol`; `None` if neither is given.
pub(super) fn tolerance(atol: Option<f64>, rtol: Option<f64>) -> Result<Option<Tolerance>> {
    Tolerance::given(("--atol", atol), ("--rtol", rtol))
}

/// Splits `key=value` arguments.
pub(super) fn pairs(arguments: &[String]) -> Result<Vec<(String, String)>> {
    let split = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Error::usage("an option must look like key=value").found(format!("'{text}'"))),
    };
    arguments.iter().map(split).collect()
}
