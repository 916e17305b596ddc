//! `ckpt merge`.

use super::common::{Reading, pairs, read_text, until_the_end};
use super::convert::{execute, finished};
use super::plan::{Target, dtype, resources, save_plan, show_plan, threads};
use super::render;
use super::report::{Report, print_after, to_json};
use super::stderr::tell;
use super::verbose;
use super::width::Layout;
use crate::Writer;
use ckpt_api::{DType, Error, Limit, Limits, Result};
use ckpt_engine::plan::Policy;
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_engine::store::IntoDestination;
use ckpt_engine::words::count;
use ckpt_engine::{Conversion, Registry};
use ckpt_merge::{Adapter, Method, Model, Recipe, Settings, extract_adapter, merge_adapters, merge_models};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args)]
pub(super) struct Arguments {
    /// The model to merge into, and the checkpoint to write. With --method: the models, each with its weight, such as a=0.5, and
    /// the checkpoint to write. With neither --lora nor --method: a recipe in YAML, as mergekit has them, and the checkpoint to write
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Adapter that is added to the base's weights, as peft writes it: a directory, or the file of its weights. A number
    /// behind it, as in adapter=0.8, is a factor of what it adds. May be given several times
    #[arg(long, value_name = "ADAPTER[=FACTOR]", conflicts_with = "method")]
    lora: Vec<String>,
    /// Make an adapter that leads from a model to this one: the paths are the model and the adapter's directory
    #[arg(long, value_name = "TUNED", conflicts_with_all = ["lora", "method", "plan", "dry_run", "resume", "verify", "receipt"])]
    extract_lora: Option<PathBuf>,
    /// With --extract-lora, the rank of the adapter's products
    #[arg(long, value_name = "N", default_value_t = 16, requires = "extract_lora")]
    rank: u64,
    /// Merge models: linear (their mean with these weights), task (what they changed of the base, added up), ties (the largest
    /// changes, where they agree), dare_linear and dare_ties (changes drawn at random), slerp (between two, by the second one's
    /// weight), passthrough (one, times a scale)
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// With --method task, ties and dare, the model that the others were trained from
    #[arg(long, value_name = "PATH", requires = "method")]
    base: Option<PathBuf>,
    /// Parameter of the method, as mergekit calls it: density=0.3, normalize=false, rescale=false, lambda=0.5. May be given several
    /// times
    #[arg(long, value_name = "KEY=VALUE", requires = "method")]
    parameter: Vec<String>,
    /// Number that --method dare draws by, for other draws of the same models
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    reading: Reading,
    /// Format of the output; that of the base if left out. `hf` is a directory that transformers opens
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Option for writing the output
    #[arg(long, value_name = "KEY=VALUE")]
    to_set: Vec<String>,
    /// What floating-point weights become: f32, f16, bf16; the dtype that the base has if left out
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Bytes per output file, for formats that can be sharded
    #[arg(long, value_name = "SIZE")]
    shard_size: Option<String>,
    /// Accept a kind of loss that changes what the model computes; or `all`
    #[arg(long, value_name = "KIND")]
    allow: Vec<String>,
    /// Stop at every loss
    #[arg(long)]
    strict: bool,
    /// Memory to stay within
    #[arg(long, value_name = "SIZE", default_value = "256m")]
    max_memory: String,
    /// Threads; as many as there are processors, at most 4, if left out
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<usize>,
    /// Bytes of one item, the unit of work that resume and run-plan know (default: a thirty-second of the output,
    /// within 1m and 64m)
    #[arg(long, value_name = "SIZE")]
    item_size: Option<String>,
    /// Show the plan and stop
    #[arg(long, conflicts_with_all = ["receipt", "verify", "no_sync", "quiet"])]
    dry_run: bool,
    /// Write the plan to this file, for run-plan and commit, and stop
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "receipt", "verify", "no_sync", "resume"])]
    plan: Option<PathBuf>,
    /// Replace existing output
    #[arg(long)]
    force: bool,
    /// Go on where the same merge was killed: keep what it had written, if its checksums are right
    #[arg(long)]
    resume: bool,
    /// Read the output back and compare every tensor with what is merged before the output gets its name
    #[arg(long)]
    verify: bool,
    /// Write what was done, with the hashes of all files; `ckpt verify --receipt` checks them
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Do not wait until the output is on the disk
    #[arg(long)]
    no_sync: bool,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    #[command(flatten)]
    layout: Layout,
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    let started = Instant::now();
    let limits = arguments.reading.limits()?;
    let (first, output) = arguments.ends()?;
    if let Some(method) = &arguments.method {
        let method = method.parse().map_err(|error: Error| error.field("--method"))?;
        let (first, merged) = models(registry, arguments, method)?;
        let conversion = conversion(registry, arguments, (&first, output), None)?;
        return write(registry, arguments, &conversion, (&merged, output), (started, json));
    }
    if let Some(tuned) = &arguments.extract_lora {
        return extract(registry, arguments, (tuned, first, output), (started, json));
    }
    if arguments.lora.is_empty() {
        let (first, merged, dtype) = by_recipe(registry, arguments, first, &limits)?;
        let conversion = conversion(registry, arguments, (&first, output), dtype)?;
        return write(registry, arguments, &conversion, (&merged, output), (started, json));
    }
    let base = arguments.reading.open(registry, first, Vec::new(), false)?;
    let mut options = OpenOptions::new().limits(limits);
    options.vocabulary = base.options().vocabulary.clone();
    let adapters = arguments.lora.iter().map(|given| open_adapter(registry, given, &options));
    let merged = merge_adapters(&base, &adapters.collect::<Result<Vec<_>>>()?)?;
    let conversion = conversion(registry, arguments, (first, output), None)?;
    write(registry, arguments, &conversion, (&merged, output), (started, json))
}

impl Arguments {
    /// What is named first and last.
    fn ends(&self) -> Result<(&Path, &Path)> {
        match &self.paths[..] {
            [first, output] => Ok((first, output)),
            [first, .., output] if self.method.is_some() => Ok((first, output)),
            [_] => Err(Error::usage("an argument is missing").expected("the checkpoint to write")),
            _ => Err(Error::usage("adapters are merged into one model")
                .found(format!("{} paths", self.paths.len()))
                .expected("the model, and the checkpoint to write")),
        }
    }
}

/// Opens the models that are merged: returns the path of the one that gives all else, and the merged checkpoint.
fn models(registry: &Registry, arguments: &Arguments, method: Method) -> Result<(PathBuf, Source)> {
    let open = |path: &Path| arguments.reading.open(registry, path, Vec::new(), false);
    let base = arguments.base.as_deref().map(open).transpose()?;
    let given = arguments.paths.split_last().map(|(_, models)| models).unwrap_or_default();
    let named = given.iter().map(|given| {
        let text = given
            .to_str()
            .ok_or_else(|| Error::usage("the path is not UTF-8").file(given.display().to_string()))?;
        let (path, weight) = with_number(text);
        let weight = weight.or((method == Method::Passthrough).then_some(1.0)).ok_or_else(|| {
            Error::usage("a model has no weight")
                .found(format!("'{text}'"))
                .expected(format!("such as {text}=0.5"))
        })?;
        Ok((path, Model::new(open(path)?, weight)))
    });
    let named = named.collect::<Result<Vec<_>>>()?;
    let models: Vec<Model> = named.iter().map(|(_, model)| model.clone()).collect();
    let settings =
        Settings::default().with_parameters(pairs(&arguments.parameter)?).with_seed(arguments.seed);
    let merged = merge_models(method, &models, base.as_ref(), &settings)?;
    let first = arguments.base.as_deref().or(named.first().map(|(path, _)| *path));
    Ok((first.unwrap_or(Path::new("")).to_owned(), merged))
}

/// Opens the models of a recipe: returns the path of the one that gives all else, the merged checkpoint, and its dtype.
fn by_recipe(
    registry: &Registry,
    arguments: &Arguments,
    path: &Path,
    limits: &Limits,
) -> Result<(PathBuf, Source, Option<DType>)> {
    let is_recipe = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if !is_recipe {
        return Err(Error::usage("there is nothing to merge")
            .found(path.display().to_string())
            .expected("--lora ADAPTER, --method METHOD, or a recipe whose name ends in .yaml or .yml"));
    }
    let shown = path.display().to_string();
    let recipe = read_text(registry.addresses(), path, limits, Limit::TextBytes)
        .and_then(|text| Recipe::parse(&text))
        .map_err(|error| error.file(shown.as_str()))?;
    let open = |path: &String| arguments.reading.open(registry, Path::new(path), Vec::new(), false);
    let models = recipe.models().iter().map(open).collect::<Result<Vec<_>>>()?;
    let first = recipe.models().first().map(PathBuf::from).unwrap_or_default();
    let dtype = recipe.dtype();
    Ok((first, recipe.merge(models, arguments.seed)?, dtype))
}

/// Opens the adapter that an argument names, perhaps with a factor.
fn open_adapter(registry: &Registry, given: &str, options: &OpenOptions) -> Result<Adapter> {
    let (path, factor) = with_number(given);
    let started = Instant::now();
    let adapter = Adapter::open(registry, path, factor.unwrap_or(1.0), options)?;
    verbose::opened(path, adapter.source(), started);
    Ok(adapter)
}

/// Splits `PATH=NUMBER`, unless all of it is the path of something.
fn with_number(given: &str) -> (&Path, Option<f32>) {
    let divided = given.rsplit_once('=').filter(|_| !Path::new(given).exists());
    match divided.and_then(|(path, number)| Some((path, number.parse().ok()?))) {
        Some((path, number)) => (Path::new(path), Some(number)),
        None => (Path::new(given), None),
    }
}

/// What peft calls the files of an adapter.
const ADAPTER: &str = "adapter_model.safetensors";
const ADAPTER_CONFIG: &str = "adapter_config.json";

/// Writes an adapter of the difference of two models.
fn extract(
    registry: &Registry,
    arguments: &Arguments,
    (tuned, base, output): (&Path, &Path, &Path),
    (started, is_json): (Instant, bool),
) -> Result<Report> {
    let open = |path: &Path| arguments.reading.open(registry, path, Vec::new(), false);
    let directory = output.into_destination(registry.addresses())?;
    let adapter = extract_adapter(&open(tuned)?, &open(base)?, arguments.rank, threads(arguments.threads)?)?;
    let config = serde_json::to_vec_pretty(&adapter.config)
        .map_err(|error| Error::defect("the configuration cannot be written").found(error.to_string()))?;
    let item_size = arguments.item_size.as_deref();
    let mut writer = Writer::to(directory)
        .directory(ADAPTER)
        .format("safetensors")
        .dtype(arguments.dtype.as_deref().map(dtype).transpose()?)
        .resources(resources(&arguments.max_memory, arguments.threads, item_size)?)
        .overwrite(arguments.force)
        .companion(ADAPTER_CONFIG, config);
    for tensor in &adapter.tensors {
        writer = writer.tensor(&tensor.name, &tensor.shape, &tensor.numbers)?;
    }
    let summary = writer.finish()?;
    let files: Vec<String> = summary.files.iter().map(|file| file.display().to_string()).collect();
    if is_json {
        let report = json!({"files": files, "tensors": summary.tensors, "bytes": summary.bytes,
            "products": adapter.products, "whole": adapter.whole});
        return print_after(&files, &to_json(&report)?, true);
    }
    if !arguments.quiet {
        let written = files.iter().map(|file| format!("wrote {}\n", render::plain(file)));
        let products = count(adapter.products, "product");
        let whole = count(adapter.whole, "module");
        let seconds = started.elapsed().as_secs_f64();
        tell(&format!(
            "{}extracted {products} of rank {}, and {whole} as a whole, in {seconds:.2} s\n",
            written.collect::<String>(),
            arguments.rank
        ));
    }
    Ok(String::new().into())
}

/// How the merged checkpoint is written.
fn conversion(
    registry: &Registry,
    arguments: &Arguments,
    (input, output): (&Path, &Path),
    stated: Option<DType>,
) -> Result<Conversion> {
    let limits = arguments.reading.limits()?;
    let target = Target::of(registry, arguments.to.as_deref(), (input, &limits), output)?;
    let mut options = pairs(&arguments.to_set)?;
    options.extend(target.shard_size(arguments.shard_size.as_deref())?);
    let mut policy = Policy::new();
    policy.strict = arguments.strict;
    arguments.allow.iter().flat_map(|kinds| kinds.split(',')).try_for_each(|kind| policy.accept(kind))?;
    let item_size = arguments.item_size.as_deref();
    let mut conversion = Conversion::new()
        .to(target.codec.info().id)
        .set_all(options)
        .policy(policy)
        .resources(resources(&arguments.max_memory, arguments.threads, item_size)?)
        .limits(limits);
    conversion.directory = target.is_directory;
    conversion.dtype = arguments.dtype.as_deref().map(dtype).transpose()?.or(stated);
    conversion.overwrite = arguments.force;
    conversion.resume = arguments.resume;
    conversion.verify = arguments.verify;
    conversion.receipt.clone_from(&arguments.receipt);
    Ok(conversion)
}

/// Writes the merged checkpoint, or what was asked for in its place.
fn write(
    registry: &Registry,
    arguments: &Arguments,
    conversion: &Conversion,
    (merged, output): (&Source, &Path),
    (started, json): (Instant, bool),
) -> Result<Report> {
    let planning = Instant::now();
    let planned = conversion.plan_unjudged(registry, merged, output)?;
    verbose::planned(planned.plan(), planning);
    if arguments.dry_run {
        planned.check_output()?;
        return show_plan(conversion, &planned, json, &arguments.layout);
    }
    conversion.judge(planned.plan())?;
    if let Some(path) = &arguments.plan {
        planned.check_output()?;
        return save_plan(registry, planned.plan(), path, arguments.force, json);
    }
    let planned = until_the_end(planned);
    let summary = execute(&planned, arguments.quiet, !arguments.no_sync)?;
    finished(planned.plan(), &summary, started, arguments.quiet, json)
}
