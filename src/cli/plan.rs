//! `ckpt plan`, and what it shares with `ckpt convert`.

use super::common::{Reading, pairs, replace, write_new};
use super::map::read_mapping;
use super::paths::{check_new, existing};
use super::render;
use super::report::{Report, print_after, to_json};
use super::table::{Column, Table};
use super::verbose;
use super::width::Layout;
use ckpt_api::{Codec, DType, Error, Limits, Result, parse_size};
use ckpt_engine::Registry;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::natural::make_readable;
use ckpt_engine::plan::{Plan, Policy};
use ckpt_engine::recipe::Transform;
use ckpt_engine::resources::Resources;
use ckpt_engine::store::Addresses;
use ckpt_engine::words::{count, hex};
use ckpt_engine::{Conversion, Planned, SideOptions};
use ckpt_inspect::placement_bytes;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What people call a directory that transformers opens, and the format of its tensors.
const HUGGING_FACE: &str = "hf";
const SAFETENSORS: &str = "safetensors";

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    wanted: ConversionArguments,
    /// Checkpoint to write
    output: PathBuf,
    /// Write the plan to this file, for run-plan and commit: as JSON where it ends in .json, else compressed
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Let the plan replace existing output; also replaces the file of the plan
    #[arg(long)]
    force: bool,
}

/// What to convert, to what, and how.
#[derive(Args)]
pub(super) struct ConversionArguments {
    /// Checkpoint to read
    pub(super) input: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Format of the output; by its extension if left out. `hf` is a directory that transformers opens
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Option of whichever side's format knows it; `ckpt formats` lists them. With --map keras-to-torch also
    /// torch-names=layers|sequential|torchvision, and code=model.py
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Option for writing the output
    #[arg(long, value_name = "KEY=VALUE")]
    to_set: Vec<String>,
    /// Name mapping: a file, or the name of a built-in mapping
    #[arg(long, value_name = "FILE|NAME")]
    map: Option<String>,
    /// Apply the inverse of the mapping
    #[arg(long, requires = "map")]
    inverse: bool,
    /// Reorder the axes of tensors whose name, after mapping, matches: transpose, permute 3 2 0 1, squeeze 0, unsqueeze
    /// 0, flatten_order 4 4 8
    #[arg(long, value_name = "PATTERN: STEP")]
    transform: Vec<String>,
    /// Keep only tensors whose name matches: `**` is any text, `*` any text without a `/`, `?` one character but `/`
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out tensors whose name matches; patterns as for --include
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// What floating-point weights become: f64, f32, f16, bf16, f8_e4m3; also float16, half, bfloat16 and the like
    #[arg(long, value_name = "DTYPE")]
    dtype: Option<String>,
    /// Carry the tensors that are stored for quantized weights, and not the numbers that they stand for
    #[arg(long, conflicts_with = "dtype")]
    keep_quantized: bool,
    /// Accept a kind of loss that changes what the model computes; or `all`
    #[arg(long, value_name = "KIND")]
    allow: Vec<String>,
    /// Stop at every loss
    #[arg(long)]
    strict: bool,
    /// Bytes per output file, for formats that can be sharded
    #[arg(long, value_name = "SIZE")]
    shard_size: Option<String>,
    /// Share blocks with the source in place of copying their bytes: auto (where the file system can), never, always
    #[arg(long, value_name = "HOW", default_value = "auto")]
    clone: String,
    /// Do not compare the checksums that the source has
    #[arg(long)]
    no_check: bool,
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
    #[command(flatten)]
    layout: Layout,
}

impl ConversionArguments {
    /// How the plan is laid out.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    // A plan that is only shown may be of an output that exists.
    let overwrite = arguments.force || arguments.file.is_none();
    if let Some(path) = arguments.file.as_deref().filter(|_| !arguments.force) {
        match registry.addresses().remote_destination(path)? {
            Some(place) if place.store().has(place.name()) => return Err(existing(path, true)),
            Some(_) => {}
            None => check_new(path, true)?,
        }
    }
    let more = |conversion: &mut Conversion| conversion.overwrite = overwrite;
    let (conversion, planned) = prepare(registry, &arguments.wanted, &arguments.output, more)?;
    let Some(path) = &arguments.file else {
        return show_plan(&conversion, &planned, json, &arguments.wanted.layout);
    };
    conversion.judge(planned.plan())?;
    planned.check_output()?;
    save_plan(registry, planned.plan(), path, arguments.force, json)
}

/// Writes a plan to a file, and reports it.
pub(super) fn save_plan(
    registry: &Registry,
    plan: &Plan,
    path: &Path,
    force: bool,
    json: bool,
) -> Result<Report> {
    save(registry.addresses(), plan, path, force)?;
    let path = path.display().to_string();
    let items = plan.items().len();
    if json {
        let (sha256, bytes) = (hex(&plan.sha256()?), plan.bytes_written);
        let report = serde_json::json!({ "plan": path, "sha256": sha256, "items": items, "bytes": bytes });
        return print_after(&[path], &to_json(&report)?, json);
    }
    let (shown, bytes) = (render::plain(&path), render::bytes(plan.bytes_written));
    print_after(&[&path], &format!("wrote {shown}: {bytes} in {}\n", count(items, "item")), json)
}

fn save(addresses: &Addresses, plan: &Plan, path: &Path, force: bool) -> Result<()> {
    let bytes = plan.to_file(path)?;
    match addresses.remote_destination(path)? {
        Some(place) => place.write(&bytes, force),
        None if force => replace(path, &bytes),
        None => write_new(path, bytes),
    }
}

/// Plans what is wanted, for this output; `more` adds what planning alone does not know.
pub(super) fn prepare(
    registry: &Registry,
    arguments: &ConversionArguments,
    output: &Path,
    more: impl FnOnce(&mut Conversion),
) -> Result<(Conversion, Planned)> {
    let limits = arguments.reading.limits()?;
    let target = Target::of(registry, arguments.to.as_deref(), (&arguments.input, &limits), output)?;
    let (to, is_directory) = (target.codec.info(), target.is_directory);
    let mut read = Vec::new();
    let mut options = pairs(&arguments.to_set)?;
    let mapping = arguments.map.as_deref().map(|name| read_mapping(registry, name, &limits)).transpose()?;
    let (set, code, mapping) = of_mapping(&arguments.set, mapping)?;
    if !set.is_empty() {
        let from = arguments.reading.codec(registry, &arguments.input)?;
        let divided = SideOptions::divide(pairs(&set)?, from.info(), to)?;
        read = divided.read;
        options.extend(divided.write);
    }
    options.extend(target.shard_size(arguments.shard_size.as_deref())?);
    let given = arguments.reading.architecture(registry)?;
    let for_target = given.clone().filter(|file| file.format() == Some(to.id));
    // What is the target's own is the source's, too, only if both have one format.
    let for_source = match &for_target {
        Some(_) if arguments.reading.codec(registry, &arguments.input)?.info().id != to.id => None,
        _ => given,
    };
    let mut policy = Policy::new();
    policy.strict = arguments.strict;
    arguments.allow.iter().flat_map(|kinds| kinds.split(',')).try_for_each(|kind| policy.accept(kind))?;
    let mapping =
        if arguments.inverse { mapping.map(|mapping| mapping.inverse()).transpose()? } else { mapping };
    let to_graph = mapping.clone().map(Arc::new);
    let source = arguments.reading.open_with(registry, &arguments.input, read, for_source, to_graph)?;
    let clone = arguments.clone.parse().map_err(|error: Error| error.field("--clone"))?;
    let mut conversion = Conversion::new()
        .to(to.id)
        .set_all(options)
        .policy(policy)
        .resources(resources(&arguments.max_memory, arguments.threads, arguments.item_size.as_deref())?)
        .clone_blocks(clone)
        .unchecked(arguments.no_check)
        .limits(limits);
    conversion.architecture = for_target;
    conversion.keep_quantized = arguments.keep_quantized;
    conversion.directory = is_directory;
    conversion.mapping = mapping;
    conversion.code = code;
    conversion.transforms = transforms(&arguments.transform)?;
    conversion.include.clone_from(&arguments.include);
    conversion.exclude.clone_from(&arguments.exclude);
    conversion.dtype = arguments.dtype.as_deref().map(dtype).transpose()?;
    more(&mut conversion);
    let started = Instant::now();
    let planned = conversion.plan_unjudged(registry, &source, output)?;
    verbose::planned(planned.plan(), started);
    Ok((conversion, planned))
}

/// What is written.
pub(super) struct Target {
    pub(super) codec: Arc<dyn Codec>,
    /// Whether it is a directory, as other programs open a model.
    pub(super) is_directory: bool,
}

impl Target {
    /// The target that is named, or that fits the input and the name of the output.
    pub(super) fn of(
        registry: &Registry,
        to: Option<&str>,
        (input, limits): (&Path, &Limits),
        output: &Path,
    ) -> Result<Self> {
        let name = output.to_string_lossy();
        match to {
            Some(HUGGING_FACE) => Ok(Target { codec: registry.writer(SAFETENSORS)?, is_directory: true }),
            Some(id) => {
                let codec = registry.writer(id)?;
                let is_directory = name.ends_with('/') && codec.info().directory_file.is_some();
                Ok(Target { codec, is_directory })
            }
            None => {
                // An input that cannot be opened is reported when it is read.
                let input = registry.addresses().input(input, limits).ok();
                match input.map(|input| registry.directory_format(&input, &name)).transpose()?.flatten() {
                    Some(id) => Ok(Target { codec: registry.writer(id)?, is_directory: true }),
                    None => Ok(Target { codec: registry.for_extension(&name)?, is_directory: false }),
                }
            }
        }
    }
}

impl Target {
    /// The option for files of this size, if there is one.
    pub(super) fn shard_size(&self, size: Option<&str>) -> Result<Option<(String, String)>> {
        let info = self.codec.info();
        match size {
            Some(_) if !info.options.iter().any(|spec| spec.name == "shard_size") => {
                Err(Error::usage(format!("format '{}' cannot be sharded", info.id)).field("--shard-size"))
            }
            size => Ok(size.map(|size| ("shard_size".to_owned(), size.to_owned()))),
        }
    }
}

/// The options of a generated mapping apart from those of formats: the other options, the name of the code, and the
/// mapping with its own option.
fn of_mapping(
    set: &[String],
    mapping: Option<Mapping>,
) -> Result<(Vec<String>, Option<String>, Option<Mapping>)> {
    let mut mapping = match mapping {
        Some(mapping) if mapping.is_generated() => mapping,
        other => return Ok((set.to_vec(), None, other)),
    };
    let (mut rest, mut code) = (Vec::new(), None);
    for option in set {
        match option.split_once('=') {
            Some(("torch-names", names)) => mapping = mapping.with_names(names)?,
            Some(("code", name)) => code = Some(name.to_owned()),
            _ => rest.push(option.clone()),
        }
    }
    Ok((rest, code, Some(mapping)))
}

fn transforms(given: &[String]) -> Result<Vec<Transform>> {
    let parse = |text: &String| Transform::parse(text).map_err(|error| error.field("--transform"));
    given.iter().map(parse).collect()
}

/// The dtype of this name.
pub(super) fn dtype(name: &str) -> Result<DType> {
    name.parse().map_err(|error: Error| error.field("--dtype").help(ckpt_api::nearest(name, float_dtypes())))
}

/// Names of the dtypes that floating-point weights can become.
pub(super) fn float_dtypes() -> impl Iterator<Item = &'static str> {
    let written = |dtype: &&DType| dtype.is_float() && ckpt_engine::transform::castable(DType::F32, **dtype);
    DType::ALL.iter().filter(written).map(|dtype| dtype.name())
}

/// What a conversion may use.
pub(super) fn resources(
    max_memory: &str,
    given_threads: Option<usize>,
    item_size: Option<&str>,
) -> Result<Resources> {
    let max_memory = size(max_memory, "--max-memory")?;
    let item_size = item_size.map(|text| size(text, "--item-size")).transpose()?;
    let resources = Resources::new().max_memory(max_memory).threads(threads(given_threads)?);
    Ok(resources.item_size(item_size.unwrap_or(0)))
}

/// A number of threads; 0, which is the default, where none was given.
pub(super) fn threads(given: Option<usize>) -> Result<usize> {
    match given {
        Some(0) => Err(Error::usage("at least one thread is needed").field("--threads")),
        given => Ok(given.unwrap_or(0)),
    }
}

/// A number of bytes, as `256m`.
pub(super) fn size(text: &str, field: &str) -> Result<u64> {
    parse_size(text).ok_or_else(|| {
        Error::usage("not a size")
            .field(field)
            .found(format!("'{text}'"))
            .expected("a number such as 256m or 2g")
    })
}

/// What a person should know about a plan.
pub(super) fn remarks(plan: &Plan) -> String {
    let mut text = String::new();
    for repair in plan.repairs() {
        let _ =
            writeln!(text, "repaired {}: {}", render::plain(&repair.subject), render::plain(&repair.detail));
    }
    for note in plan.notes() {
        let _ = writeln!(text, "note: {}", render::plain(note));
    }
    if !plan.excluded.is_empty() {
        let _ = writeln!(text, "excluded: {}", count(plan.excluded.len(), "tensor"));
    }
    if !plan.losses.is_empty() {
        let _ = write!(text, "dropped or changed:\n{}", render::losses(&plan.losses));
    }
    text
}

pub(super) fn show_plan(
    conversion: &Conversion,
    planned: &Planned,
    json: bool,
    layout: &Layout,
) -> Result<Report> {
    let plan = planned.plan();
    let text = if json { to_json(plan)? } else { layout.folded(plan_text(plan, layout)) };
    if let Err(error) = conversion.judge(plan) {
        super::report::print(&text, json)?;
        return Err(error);
    }
    Ok(text.into())
}

fn plan_text(plan: &Plan, layout: &Layout) -> String {
    const COLUMNS: [Column; 4] =
        [Column::text("from"), Column::text("to"), Column::text("steps"), Column::number("bytes")];
    let mut text = format!("{} to {}\n", plan.from(), plan.to());
    let mut table = Table::new(&COLUMNS, layout.width());
    let mut entries: Vec<_> = plan.tensors().collect();
    make_readable(&mut entries, |entry| entry.tensor);
    for entry in entries {
        let steps = entry.steps.iter().map(|step| step.describe()).collect::<Vec<_>>().join(", ");
        table.text(&plan.sources_of(entry.tensor).map(render::plain).collect::<Vec<_>>().join(" + "));
        table.text(&render::plain(&entry.to.name));
        table.text(if steps.is_empty() { "copy" } else { &steps });
        table.cell(render::bytes(placement_bytes(entry.to)));
        table.end_row();
    }
    table.append_to(&mut text);
    for file in plan.files() {
        let len =
            file.len.map_or("size known only after writing".to_owned(), |len| render::bytes(len).to_string());
        let _ = writeln!(text, "file {} ({len})", render::plain(&file.name));
    }
    let _ = writeln!(
        text,
        "tensor data: reads {}, writes {}; {}, at most {} of memory",
        render::bytes(plan.bytes_read),
        render::bytes(plan.bytes_written),
        count(plan.threads, "thread"),
        render::bytes(plan.peak_memory)
    );
    let cloned = plan.cloned_bytes();
    if cloned > 0 {
        let _ = writeln!(text, "of that, {} share blocks with the source", render::bytes(cloned));
    }
    text + &remarks(plan)
}
