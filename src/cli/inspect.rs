//! `ckpt inspect`.

use super::common::{Inputs, until_the_end, write_new};
use super::cut::{columns_of, cut, cut_end};
use super::graph_names::GraphNames;
use super::order::{Order, sort};
use super::paths::check_new;
use super::progress::while_reading;
use super::render;
use super::report::{Report, print_after, to_json};
use super::table::{Column, Table, table};
use super::width::{Layout, Width};
use ckpt_api::{Error, Graph, MetadataValue, Result, TensorId};
use ckpt_engine::Registry;
use ckpt_engine::pattern::Selector;
use ckpt_engine::source::Source;
use ckpt_engine::words;
use ckpt_inspect::{
    FileSummary, Group, Inspection, Stats, TensorSummary, describe, groups, html, ids, inspect, overview,
    placement_bytes, summaries,
};
use clap::{Args, ValueEnum};
use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::fmt::Write;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    names: GraphNames,
    #[command(flatten)]
    shown: Shown,
    /// Read all values: minimum, maximum, mean, standard deviation, zeros, NaN, infinities
    #[arg(long)]
    stats: bool,
    /// Show the layers only
    #[arg(long, conflicts_with_all = ["include", "exclude", "sort", "depth", "stats"])]
    graph: bool,
    /// Read all values, and write a self-contained HTML page to a new file; print no table
    #[arg(long, value_name = "FILE", conflicts_with_all = ["include", "exclude", "sort", "depth", "graph"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    layout: Layout,
}

/// Which tensors are shown, and how.
#[derive(Args)]
struct Shown {
    /// Show only tensors whose name matches: `**` is any text, `*` any text without a `/`, `?` one character but `/`
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave out tensors whose name matches; patterns as for --include
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Sort the tensors; left out, they stand as in the checkpoint, but layer2 before layer10
    #[arg(long, value_enum)]
    sort: Option<Sort>,
    /// Group the tensors by the first N parts of their names
    #[arg(long, value_name = "N")]
    depth: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// By name, layer2 before layer10
    Name,
    /// The largest first
    Size,
    /// As the checkpoint has them
    File,
}

impl Shown {
    /// Chooses tensors, and puts them in order. Programs get the checkpoint's own unless they ask for another.
    fn ids(&self, source: &Source, json: bool) -> Result<Vec<TensorId>> {
        let contents = source.contents();
        let mut ids: Vec<TensorId> = ids(source).collect();
        if !self.include.is_empty() || !self.exclude.is_empty() {
            let names: Vec<&str> =
                contents.checkpoint.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            let mut chosen = Selector::choose(&self.include, &self.exclude, &names)?.into_iter();
            ids.retain(|_| chosen.next().unwrap_or(false));
        }
        let order = match self.sort {
            None if json => Order::Stored,
            None => Order::Readable,
            Some(Sort::Name) => Order::Name,
            Some(Sort::Size) => Order::Size,
            Some(Sort::File) => Order::Stored,
        };
        let bytes = |id: &TensorId| contents.placements.get(id.0).map_or(0, placement_bytes);
        sort(&mut ids, &contents.checkpoint, order, bytes);
        Ok(ids)
    }
}

pub(super) fn run(registry: &Registry, arguments: &Arguments, json: bool) -> Result<Report> {
    if arguments.html.is_some() && arguments.inputs.paths.len() > 1 {
        return Err(Error::usage("one page shows one checkpoint")
            .field("--html")
            .found(format!("{} checkpoints", arguments.inputs.paths.len()))
            .help("write a page for each: run the command once for each checkpoint"));
    }
    if let Some(path) = &arguments.html {
        // Before all values are read for it.
        check_new(path, false)?;
    }
    if !json && let (Some(_), true) = (arguments.shown.depth, arguments.stats) {
        return Err(Error::usage("these arguments cannot be used together")
            .field("--depth")
            .found("--stats")
            .help("a table of groups has no statistics; --format json has both"));
    }
    let mapping = arguments.names.mapping(registry, &arguments.inputs.reading.limits()?)?;
    arguments.inputs.report(registry, json, "\n", mapping.as_ref(), |_, source| match &arguments.html {
        Some(path) => {
            // Without what the architecture needs, the page has no layers, and a note.
            let recognized = with_layers(&source).ok().flatten();
            with_page(&until_the_end(recognized.unwrap_or(source)), path, json)
        }
        None if arguments.graph => {
            let recognized = with_layers(&source)?;
            described(recognized.unwrap_or(source), arguments, json)
        }
        None => described(source, arguments, json),
    })
}

/// The source with the graph of the built-in architecture whose names it has.
#[cfg(feature = "forward")]
fn with_layers(source: &Source) -> Result<Option<Source>> {
    ckpt_verify::with_graph_of_own_names(source)
}

/// Without the forward pass, architectures have no use.
#[cfg(not(feature = "forward"))]
fn with_layers(_: &Source) -> Result<Option<Source>> {
    Ok(None)
}

fn described(source: Source, arguments: &Arguments, json: bool) -> Result<String> {
    let owned = until_the_end(source);
    let source = &*owned;
    let ids = arguments.shown.ids(source, json)?;
    let (stats, depth) = (arguments.stats, arguments.shown.depth.map(NonZeroUsize::get));
    let with_stats = || while_reading(&[source], || describe(source, &ids, true));
    let graph = source.checkpoint().graph.as_ref();
    if json && arguments.graph {
        return to_json(&graph);
    }
    let mut inspection = until_the_end(overview(source));
    if json {
        inspection.graph = graph.cloned();
        inspection.tensors = match stats {
            true => with_stats()?,
            false => describe(source, &ids, false)?,
        };
        inspection.groups = depth.map(|depth| groups(&inspection.tensors, depth));
        return to_json(&*inspection);
    }
    let width = arguments.layout.width();
    if arguments.graph {
        return Ok(graph.map_or("no graph\n".to_owned(), |graph| layers(graph, width)));
    }
    // One by one: there can be many thousands.
    let tensors = match (depth, stats) {
        (Some(depth), _) => Listed::groups(&groups(summaries(source, &ids), depth), width),
        (None, false) => Listed::tensors(summaries(source, &ids), false, width),
        (None, true) => Listed::tensors(&*until_the_end(with_stats()?), true, width),
    };
    let all = source.contents().placements.len();
    let shown_of = (ids.len() < all).then_some(all);
    if graph.is_none() {
        // The text of many tensors takes the place of what describes them.
        drop(ManuallyDrop::into_inner(owned));
        return Ok(arguments.layout.folded(text(&inspection, None, tensors, shown_of, width)));
    }
    Ok(arguments.layout.folded(text(&inspection, graph, tensors, shown_of, width)))
}

/// Writes the page, which needs statistics.
fn with_page(source: &Source, path: &Path, json: bool) -> Result<String> {
    let inspection = until_the_end(while_reading(&[source], || inspect(source, true))?);
    let page = html::page(&inspection);
    let (len, shown) = (page.len() as u64, path.display().to_string());
    write_new(path, page)?;
    let text = match json {
        true => to_json(&serde_json::json!({ "html": shown, "bytes": len }))?,
        false => format!("wrote {}: {}\n", render::plain(&shown), render::bytes(len)),
    };
    print_after(&[shown], &text, json).map(|_| String::new())
}

/// Describes `inspection`, its `graph` and its `tensors`, which are some of `all`.
fn text(
    inspection: &Inspection,
    graph: Option<&Graph>,
    tensors: Listed,
    all: Option<usize>,
    width: Width,
) -> String {
    let mut text = format!(
        "{}: {} ({})\n",
        render::plain(&inspection.path),
        inspection.title,
        render::plain(&inspection.reason)
    );
    let size = render::bytes(tensors.bytes);
    let _ = match all {
        None => writeln!(text, "\n{}, {size}", words::count(tensors.count, "tensor")),
        Some(all) => writeln!(text, "\n{} of {}, {size}", tensors.count, words::count(all, "tensor")),
    };
    if tensors.count > 0 {
        tensors.table.append_to(&mut text);
    }
    if !tensors.scales.is_empty() {
        text += "\nscales: an integer n stands for (n - zero point) * scale\n";
        tensors.scales.iter().for_each(|line| text += &format!("  {line}\n"));
        if tensors.scaled > SCALES_SHOWN {
            text += &format!("  and {} more; --format json shows all\n", tensors.scaled - SCALES_SHOWN);
        }
    }
    if let Some(graph) = graph {
        let _ = write!(text, "\nlayers\n{}", layers(graph, width));
    }
    if !inspection.files.is_empty() {
        text += "\nfiles\n";
        files(&inspection.files, width).append_to(&mut text);
    }
    text + &metadata(inspection, width)
}

/// A table of tensors or of groups, the number of tensors, and the sum of their bytes.
struct Listed {
    table: Table<'static>,
    count: usize,
    bytes: u64,
    /// What integers stand for, a line for each of the first tensors.
    scales: Vec<String>,
    /// Tensors that have scales and zero points.
    scaled: usize,
}

/// Tensors whose scales are listed.
const SCALES_SHOWN: usize = 20;

const TENSORS: [Column; 6] = [
    Column::text("name"),
    Column::word("dtype"),
    Column::text("shape"),
    Column::text("axes").optional(2),
    Column::number("bytes").optional(1),
    Column::word("role").optional(3),
];

const TENSORS_WITH_STATS: [Column; 13] = {
    let number = Column::number;
    let [name, dtype, shape, axes, bytes, role] = TENSORS;
    let (axes, bytes, role) = (axes.optional(9), bytes.optional(8), role.optional(10));
    let (dtype, shape) = (dtype.optional(7), shape.optional(6));
    let (min, max, mean) = (number("min"), number("max"), number("mean").optional(1));
    let (std, zeros) = (number("std").optional(4), number("zeros").optional(5));
    let (nan, inf) = (number("nan").optional(2), number("inf").optional(3));
    [name, dtype, shape, axes, bytes, role, min, max, mean, std, zeros, nan, inf]
};

const GROUPS: [Column; 5] = [
    Column::text("name"),
    Column::number("tensors"),
    Column::number("elements").optional(2),
    Column::number("bytes"),
    Column::text("dtypes").optional(1),
];

impl Listed {
    fn new(table: Table<'static>) -> Self {
        Listed { table, count: 0, bytes: 0, scales: Vec::new(), scaled: 0 }
    }

    fn tensors(tensors: impl IntoIterator<Item: Borrow<TensorSummary>>, stats: bool, width: Width) -> Self {
        let columns: &[Column] = if stats { &TENSORS_WITH_STATS } else { &TENSORS };
        let mut listed = Listed::new(Table::new(columns, width));
        for tensor in tensors {
            let (tensor, table) = (tensor.borrow(), &mut listed.table);
            let axes = tensor.axes.iter().flatten().map(|axis| axis.name());
            table.text(&render::plain(&tensor.name));
            match &tensor.quantization {
                Some(_) => table.text(&format!("{} scaled", tensor.dtype)),
                None => table.text(&tensor.shown_dtype()),
            }
            table.cell(&tensor.shape);
            table.text(&axes.collect::<Vec<_>>().join(" "));
            table.cell(render::bytes(tensor.bytes));
            table.text(tensor.role.name());
            if stats {
                stat_cells(tensor.stats.as_deref()).iter().for_each(|cell| table.text(cell));
            }
            table.end_row();
            if let Some(affine) = &tensor.quantization {
                listed.scaled += 1;
                if listed.scaled <= SCALES_SHOWN {
                    listed.scales.push(format!("{}: {affine}", render::plain(&tensor.name)));
                }
            }
            listed.count += 1;
            listed.bytes = listed.bytes.saturating_add(tensor.bytes);
        }
        listed
    }

    fn groups(groups: &[Group], width: Width) -> Self {
        let mut listed = Listed::new(Table::new(&GROUPS, width));
        for group in groups {
            let table = &mut listed.table;
            table.text(&render::plain(&group.name));
            table.cell(group.tensors);
            table.cell(group.elements);
            table.cell(render::bytes(group.bytes));
            table.text(&group.dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(" "));
            table.end_row();
            listed.count += group.tensors;
            listed.bytes = listed.bytes.saturating_add(group.bytes);
        }
        listed
    }
}

fn files(files: &[FileSummary], width: Width) -> Table<'static> {
    const COLUMNS: [Column; 3] = [Column::text("name"), Column::number("size"), Column::number("tensors")];
    let mut table = Table::new(&COLUMNS, width);
    for file in files {
        table.text(&render::plain(&file.name));
        match file.bytes {
            Some(bytes) => table.cell(render::bytes(bytes)),
            None => table.text("missing"),
        }
        table.cell(file.tensors);
        table.end_row();
    }
    table
}

fn stat_cells(stats: Option<&Stats>) -> [String; 7] {
    let Some(stats) = stats else { return Default::default() };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| render::number(value, 5));
    [
        number(stats.min),
        number(stats.max),
        number(stats.mean),
        number(stats.std),
        stats.zeros.to_string(),
        stats.nan.to_string(),
        stats.infinite.to_string(),
    ]
}

fn layers(graph: &Graph, width: Width) -> String {
    const COLUMNS: [Column; 4] =
        [Column::text("layer"), Column::text("op"), Column::text("inputs"), Column::text("tensors")];
    // The layer that makes a value: of a layer with one output, its name says more than the value's.
    let single = graph.nodes.iter().filter(|node| node.outputs.len() == 1);
    let makers: HashMap<&str, &str> =
        single.flat_map(|node| Some((node.outputs.first()?.as_str(), node.name.as_str()))).collect();
    let rows = graph.nodes.iter().map(|node| {
        let parameters: Vec<String> =
            node.tensors().map(|(role, name)| format!("{role}={}", render::plain(name))).collect();
        let op = if node.op == ckpt_api::Op::Unspecified { "(activation unknown)" } else { node.op.name() };
        let inputs = node.inputs.iter().filter(|input| !input.is_empty());
        let inputs = inputs.map(|input| makers.get(input.as_str()).copied().unwrap_or(input));
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        vec![
            render::plain(&node.name).into_owned(),
            op.to_owned(),
            render::plain(&inputs).into_owned(),
            parameters.join(" "),
        ]
    });
    table(&COLUMNS, width, rows)
}

fn metadata(inspection: &Inspection, width: Width) -> String {
    /// Columns of a value: at most, and at least of a long one.
    const SHOWN: usize = 100;
    const LEAST: usize = 26;
    let mut text = String::new();
    if !inspection.metadata.is_empty() {
        text += "\nmetadata (shortened; --format json shows all)\n";
        for (namespace, values) in inspection.metadata.iter() {
            for (key, value) in values.iter() {
                let value = match value {
                    MetadataValue::Text(text) => text.clone(),
                    MetadataValue::Bytes(bytes) if bytes.len() > SHOWN => {
                        ckpt_api::count(bytes.len() as u64, "byte")
                    }
                    value => value.to_string(),
                };
                let key = format!("{namespace}.{}", render::plain(key));
                // Of a long key and a long value, the value gets half of the line.
                let line = width.columns().saturating_sub("  : ".len());
                let kept = columns_of(&render::plain(&value)).min((line / 2).clamp(LEAST, SHOWN));
                let key = cut(&key, line.saturating_sub(kept).max(8));
                let shown = shortened(&value, line.saturating_sub(columns_of(&key)).min(SHOWN));
                let _ = writeln!(text, "  {key}: {shown}");
            }
        }
    }
    for repair in &inspection.repairs {
        let _ = writeln!(
            text,
            "\nrepaired {}: {}",
            render::plain(&repair.subject),
            render::plain(&repair.detail)
        );
    }
    for note in &inspection.notes {
        let _ = writeln!(text, "\nnote: {}", render::plain(note));
    }
    text
}

/// The beginning of a value, and how long it is if that is not all.
fn shortened(value: &str, columns: usize) -> Cow<'_, str> {
    let value = render::plain(value);
    if columns_of(&value) <= columns {
        return value;
    }
    let length = format!(" ({} characters)", value.chars().count());
    let beginning = cut_end(&value, columns.saturating_sub(length.len()).max(8));
    Cow::Owned(format!("{beginning}{length}"))
}
