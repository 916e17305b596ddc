//! Reading: finds the tensors of a checkpoint, and where their bytes are.

use crate::describe::{self, Description, GraphConstant, OPTIMIZER_NUMBER, Sources, TensorInfo};
use crate::format::{Entry, Header, OBJECT_GRAPH, shard_name};
use crate::index::{Index, KeyedEntry};
use crate::key::Key;
use crate::key_text;
use crate::locate::{Location, locate};
use crate::round_trip::{self, ReadBundle};
use crate::slices;
use crate::string_slices::{JoinedStrings, StringSlice, join};
use crate::strings::{self, ByteRange, Elements};
use crate::tf1::options::OUTPUTS;
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{
    Contents, DType, Encoding, Endian, Error, Extent, File, FileId, Input, Limit, Limits, Metadata, Name,
    Options, Placement, Region, Result, Rules, Tensor, TensorId, Text,
};
use prost::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Reads everything except tensor data; of the data, it reads the lengths of strings and the object graph.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let location = locate(input)?;
    if location.is_without_variables {
        return constants(input, &location, options, limits);
    }
    let file = open_index(input, &location)?;
    let index = Index::read(&file, limits, Rules::new(options).lenient)?;
    let is_slice = index.slices(limits).map_err(|error| error.file(file.name()))?;
    let mut reader = Reader::new(input, &location, &index, limits);
    let mut contents = Contents::default().with_notes(location.notes.clone());
    let entries = index.entries.iter().zip(&is_slice).filter(|(_, is_slice)| !**is_slice);
    let entries: Vec<&KeyedEntry> = entries.map(|(keyed, _)| keyed).collect();
    contents.checkpoint.tensors.reserve_exact(entries.len());
    contents.placements.reserve_exact(entries.len());
    for &(key, entry) in &entries {
        let name = key.text();
        let (mut tensor, placement) = reader
            .tensor(TensorId(contents.placements.len()), name.clone(), key, entry)
            .map_err(|error| locate_error(error, &file, entry).tensor(key_text::abbreviate(key)))?;
        if matches!(key, Key::Bytes(_)) {
            tensor.metadata.insert("tf2", "escaped", name.as_str());
        }
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    let object_graph = reader.object_graph(&contents)?;
    contents.files = reader.files;
    contents.checkpoint.metadata = metadata(&index.header, object_graph.as_deref());
    let bundle = ReadBundle {
        input,
        prefix: &location.prefix,
        file: &file,
        index: &index,
        entries: &entries,
        object_graph: object_graph.as_deref(),
        limits,
    };
    let by_key = round_trip::record(&mut contents, &bundle)?;
    contents.repairs = index.repairs;
    // The description takes as much memory as the entries, which are not needed any more.
    drop(entries);
    drop(index.entries);
    let tensors = by_key.into_iter().filter_map(|number| contents.checkpoint.tensors.get(number));
    let mut description = description(input, &location, tensors, object_graph.as_deref(), options, limits)?;
    if let Some(file) = location.saved_model.or(location.meta_graph) {
        add_constants(std::mem::take(&mut description.constants), file, &mut contents);
    }
    apply(description, &mut contents, options)?;
    Ok(contents)
}

/// Reads a SavedModel without variables: the weights of its graph are constants.
fn constants(input: &Input, location: &Location, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut contents = Contents::default();
    let mut description = description(input, location, [].iter(), None, options, limits)?;
    if description.constants.is_empty() {
        let why = description.missing_graph.map_or_else(|| "no constants".into(), |missing| missing.reason);
        return Err(Error::unsupported("the SavedModel has no variables")
            .file(input.display(location.saved_model.as_deref().unwrap_or_default()))
            .found(why)
            .expected(format!("{} beside it, or constants that are weights of its graph", location.index))
            .help("copy the folder 'variables', too"));
    }
    let file = location.saved_model.clone().unwrap_or_default();
    add_constants(std::mem::take(&mut description.constants), file, &mut contents);
    apply(description, &mut contents, options)?;
    Ok(contents)
}

/// Adds the constants of the graph that are weights, whose bytes are in the file of the graph, after all other tensors.
fn add_constants(constants: Vec<GraphConstant>, file: String, contents: &mut Contents) {
    if constants.is_empty() {
        return;
    }
    let id = FileId(contents.files.len());
    contents.files.push(file);
    for constant in constants {
        constant.add_to(id, contents);
    }
}

/// Locates an error that names no file at the entry.
fn locate_error(error: Error, index: &File, entry: &Entry) -> Error {
    match error.context().file.is_some() {
        true => error,
        false => error.file(index.name()).offset(entry.at),
    }
}

fn open_index(input: &Input, location: &Location) -> Result<File> {
    input.file(&location.index).map_err(|error| match error.kind() {
        ckpt_api::Kind::Io => error.expected("the index of a TensorFlow v2 checkpoint").help(
            "a checkpoint consists of PREFIX.index and PREFIX.data-…: put the index beside its data, or pass the \
             prefix",
        ),
        _ => error,
    })
}

fn metadata(header: &Header, object_graph: Option<&[u8]>) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert("tf2", "producer", i64::from(header.producer));
    let endian = if header.endian == Endian::Big { "big" } else { "little" };
    metadata.insert("tf2", "endian", endian);
    if let Some(bytes) = object_graph {
        metadata.insert("tf2", "object_graph", BASE64_STANDARD.encode(bytes));
    }
    metadata
}

/// Describes `tensors` from the object graph and the files beside the index. The tensors are in the order of their
/// keys, because the first of two copies counts as the original.
fn description<'a>(
    input: &Input,
    location: &Location,
    tensors: impl Iterator<Item = &'a Tensor>,
    object_graph: Option<&[u8]>,
    options: &Options,
    limits: &Limits,
) -> Result<Description> {
    let read = |name: &Option<String>| -> Result<Option<Bytes>> {
        let Some(name) = name else { return Ok(None) };
        let file = input.file(name)?;
        limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
        file.bytes(0, file.len()).map(|bytes| Some(Bytes::from(bytes)))
    };
    let (saved_model, keras_metadata) = (read(&location.saved_model)?, read(&location.keras_metadata)?);
    let meta_graph = read(&location.meta_graph)?;
    let outputs = options.list(OUTPUTS);
    let infos: Vec<TensorInfo> = tensors
        .map(|tensor| TensorInfo { key: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape })
        .collect();
    let file = input.display(&location.index);
    let sources = Sources {
        object_graph,
        saved_model: saved_model.as_ref(),
        meta_graph: meta_graph.as_ref().map(|bytes| (bytes, outputs.as_deref())),
        keras_metadata: keras_metadata.as_deref(),
        assume_chain: options.list("activations").is_some(),
        file: &file,
    };
    describe::describe(&infos, &sources, limits)
}

/// Gives the tensors, whose names are their keys until now, the names, roles, axes and graph of the description.
fn apply(description: Description, contents: &mut Contents, options: &Options) -> Result<()> {
    let Description {
        names,
        roles,
        axes,
        slots,
        numbers,
        graph,
        constants: _,
        is_nested,
        notes,
        graph_notes,
        missing_graph,
    } = description;
    contents.add_notes(notes);
    contents.graph_notes.extend(graph_notes.into_iter().map(Text::from));
    contents.missing_graph = missing_graph;
    for tensor in &mut contents.checkpoint.tensors {
        tensor.role = roles.get(tensor.name.as_str()).copied().unwrap_or_default();
        tensor.slot = slots.get(tensor.name.as_str()).cloned().map(Box::new);
        if let Some(number) = numbers.get(tensor.name.as_str()) {
            tensor.metadata.insert("tf2", OPTIMIZER_NUMBER, *number);
        }
        let named = axes.get(tensor.name.as_str()).filter(|axes| axes.len() == tensor.shape.rank());
        tensor.axes = named.map(|axes| axes[..].into());
    }
    contents.checkpoint.graph = graph;
    if is_nested {
        contents.checkpoint.metadata.insert("tf2", describe::NESTED, true);
    }
    if !options.flag("keys") && !names.is_empty() {
        for tensor in &mut contents.checkpoint.tensors {
            // The key is used for writing only while the tensor has this name.
            if let Some(name) = names.get(tensor.name.as_str()).filter(|name| **name != tensor.name) {
                tensor.metadata.insert("tf2", "key", tensor.name.as_str());
                tensor.metadata.insert("tf2", "name", name.as_str());
            }
        }
        contents.checkpoint.rename(&names)?;
    }
    match options.list("activations") {
        Some(names) => contents.checkpoint.specify(names).map_err(|error| error.field("activations")),
        None => Ok(()),
    }
}

/// Most data files kept open. A process may open only so many files, and a checkpoint may have many.
const MAX_OPEN_FILES: usize = 16;

struct Reader<'a> {
    input: &'a Input,
    index: &'a Index,
    limits: &'a Limits,
    /// Names of the data files that hold tensor data.
    files: Vec<String>,
    /// Numbers of these files by shard.
    ids: BTreeMap<u32, FileId>,
    /// Open data files by shard.
    open: BTreeMap<u32, File>,
    /// Number of strings and variants in all tensors so far. Many tensors can share the same bytes.
    string_elements: u64,
    /// Bytes read, and memory reserved for single elements, for all tensors so far.
    scanned: u64,
}

impl<'a> Reader<'a> {
    fn new(input: &'a Input, location: &Location, index: &'a Index, limits: &'a Limits) -> Self {
        // Variants are read even if there are none, since their checksum must match.
        let is_read = |entry: &Entry| entry.size > 0 || entry.dtype == DType::Variant;
        let stored = index.entries.iter().filter(|(_, entry)| entry.slices.is_empty() && is_read(entry));
        let shards: BTreeSet<u32> = stored.map(|(_, entry)| entry.shard).collect();
        let name = |shard: &u32| shard_name(&location.prefix, *shard, index.header.shards);
        Reader {
            input,
            index,
            limits,
            files: shards.iter().map(name).collect(),
            ids: shards.iter().enumerate().map(|(id, shard)| (*shard, FileId(id))).collect(),
            open: BTreeMap::new(),
            string_elements: 0,
            scanned: 0,
        }
    }

    fn tensor(&mut self, id: TensorId, name: Name, key: &[u8], entry: &Entry) -> Result<(Tensor, Placement)> {
        let mut tensor = Tensor::new(name, entry.dtype, entry.shape.clone());
        let extents = match (entry.slices.is_empty(), entry.dtype.bytes().is_some()) {
            (true, true) => {
                entry.check_size()?;
                self.extents(entry, [ByteRange::of_entry(entry)], None)?
            }
            (true, false) => {
                let Elements { lengths, ranges } = self.elements(entry)?;
                tensor.lengths = Some(lengths.into());
                self.extents(entry, ranges, None)?
            }
            (false, true) => {
                let mut extents = Vec::with_capacity(entry.slices.len());
                let slices = slices::find(self.index, key, entry)?;
                slices::check_cover(&entry.shape, slices.iter().map(|slice| &slice.region))?;
                for slice in slices {
                    slice.entry.check_size().map_err(|error| error.offset(slice.entry.at))?;
                    let range = [ByteRange::of_entry(slice.entry)];
                    extents.extend(self.extents(slice.entry, range, Some(slice.region))?);
                }
                extents
            }
            (false, false) => {
                let (lengths, extents) = self.string_slices(key, entry)?;
                tensor.lengths = Some(lengths.into());
                extents
            }
        };
        let encoding = Encoding::row_major(&tensor).with_endian(self.index.header.endian);
        let placement = Placement::new(id, &tensor.name, extents, encoding);
        Ok((tensor, placement))
    }

    /// Turns byte ranges of the entry's data file into extents, and skips empty ranges.
    fn extents(
        &self,
        entry: &Entry,
        ranges: impl IntoIterator<Item = ByteRange>,
        region: Option<Region>,
    ) -> Result<Vec<Extent>> {
        let ranges = ranges.into_iter().filter(|range| range.len > 0);
        let extent = |range: ByteRange| {
            let file = self.ids.get(&entry.shard).copied().ok_or_else(missing_file)?;
            let ByteRange { offset, len, checksum } = range;
            Ok(Extent::new(file, offset, len).with_region(region.clone()).with_checksum(checksum))
        };
        // Most tensors have one extent; `collect` would reserve memory for four.
        let mut extents = Vec::with_capacity(1);
        for range in ranges {
            extents.push(extent(range)?);
        }
        Ok(extents)
    }

    fn elements(&mut self, entry: &Entry) -> Result<Elements> {
        self.string_elements = self.string_elements.saturating_add(entry.shape.elements());
        // Before the data file is opened, so that an impossible size is an error even without the file.
        strings::check_size(entry)?;
        self.limits.check(Limit::StringElements, self.string_elements)?;
        if entry.dtype == DType::Variant {
            self.count_scanned(entry.size)?;
            self.reserve_extents(entry)?;
        }
        let endian = self.index.header.endian;
        let file = self.data(entry.shard)?;
        match entry.dtype {
            DType::Variant => strings::read_variants(&file, entry, endian),
            _ => strings::read_strings(&file, entry, endian),
        }
    }

    fn string_slices(&mut self, key: &[u8], entry: &Entry) -> Result<(Vec<u64>, Vec<Extent>)> {
        if entry.dtype == DType::Variant {
            return Err(Error::unsupported("a variant tensor is stored in slices"));
        }
        self.reserve_extents(entry)?;
        let slices = slices::find(self.index, key, entry)?;
        let mut strings = Vec::with_capacity(slices.len());
        for slice in &slices {
            let elements = self.elements(slice.entry)?;
            strings.push(StringSlice { region: slice.region.clone(), elements });
        }
        slices::check_cover(&entry.shape, strings.iter().map(|slice| &slice.region))?;
        let slice_entry =
            |number: usize| slices.get(number).map(|slice| slice.entry).ok_or_else(missing_file);
        let JoinedStrings { lengths, ranges } = join(&entry.shape, strings, |number, ranges| {
            self.count_scanned(ranges.iter().map(|range| range.len).sum())?;
            let file = self.data(slice_entry(number)?.shard)?;
            strings::verify(&file, ranges)
        })?;
        let mut extents = Vec::with_capacity(ranges.len());
        for (number, range) in ranges {
            extents.extend(self.extents(slice_entry(number)?, [range], None)?);
        }
        Ok((lengths, extents))
    }

    /// Counts the memory that one extent for each element takes, which is the most there can be.
    fn reserve_extents(&mut self, entry: &Entry) -> Result<()> {
        self.count_scanned(entry.shape.elements().saturating_mul(size_of::<Extent>() as u64))
    }

    /// Counts bytes that are read, or reserved, while the checkpoint is opened.
    fn count_scanned(&mut self, bytes: u64) -> Result<()> {
        self.scanned = self.scanned.saturating_add(bytes);
        self.limits.check(Limit::HeaderBytes, self.scanned)
    }

    /// Opens a data file, and keeps it open.
    fn data(&mut self, shard: u32) -> Result<File> {
        if let Some(file) = self.open.get(&shard) {
            return Ok(file.clone());
        }
        let id = self.ids.get(&shard).and_then(|id| self.files.get(id.0));
        let name = id.ok_or_else(missing_file)?;
        let file = self.input.file(name).map_err(|error| {
            error.help("the data file holds the lengths of strings: put it beside the index")
        })?;
        if self.open.len() >= MAX_OPEN_FILES {
            self.open.clear();
        }
        self.open.insert(shard, file.clone());
        Ok(file)
    }

    /// Reads and verifies the object graph.
    fn object_graph(&mut self, contents: &Contents) -> Result<Option<Vec<u8>>> {
        let position = self.index.find(OBJECT_GRAPH.as_bytes());
        let Some((key, _)) = position.and_then(|at| self.index.entries.get(at)) else { return Ok(None) };
        let is_scalar_string = |tensor: &Tensor| tensor.dtype == DType::String && tensor.shape.rank() == 0;
        let found = contents.checkpoint.tensor(OBJECT_GRAPH).filter(|(_, tensor)| is_scalar_string(tensor));
        let placement = found.and_then(|(id, _)| contents.placements.get(id.0));
        let Some([extent]) = placement.map(|placement| &placement.extents[..]) else { return Ok(None) };
        self.limits
            .check(Limit::HeaderBytes, extent.len)
            .map_err(|error| error.tensor(key_text::abbreviate(key)))?;
        let shard = self.ids.iter().find(|(_, id)| **id == extent.file).map(|(shard, _)| *shard);
        let file = self.data(shard.ok_or_else(missing_file)?)?;
        let checksum = extent.checksum.clone();
        let mut range = [ByteRange { offset: extent.offset, len: extent.len, checksum }];
        strings::verify(&file, &mut range).map_err(|error| error.tensor(key_text::abbreviate(key)))?;
        file.bytes(extent.offset, extent.len).map(Some)
    }
}

fn missing_file() -> Error {
    Error::defect("a tensor's data file was not registered")
}
