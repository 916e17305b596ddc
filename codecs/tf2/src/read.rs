//! Reading: from an input to tensors and where their bytes are.

use crate::bundle::{Index, Keyed};
use crate::describe::{self, Description, Sources};
use crate::format::{Entry, Header, OBJECT_GRAPH, shard_name};
use crate::kept::{self, Bundle};
use crate::locate::{Location, locate};
use crate::slices::{self, Joined, Part};
use crate::strings::{self, Elements, Run};
use crate::{finish, names};
use base64::prelude::{BASE64_STANDARD, Engine};
use ckpt_api::{
    Contents, DType, Encoding, Endian, Error, Extent, File, FileId, Input, Limit, Limits, Metadata, Options,
    Placement, Region, Result, Tensor, TensorId,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Reads everything but tensor data, and of that the lengths of strings and the object graph.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let location = locate(input)?;
    let file = open_index(input, &location)?;
    let index = Index::read(&file, limits, options.flag("lenient"))?;
    let is_slice = index.slices(limits).map_err(|error| error.file(file.name()))?;
    let mut reader = Reader::new(input, &location, &index, limits);
    let mut contents = Contents { notes: location.notes.clone(), ..Contents::default() };
    let entries = index.entries.iter().zip(&is_slice).filter(|(_, is_slice)| !**is_slice);
    let entries: Vec<&Keyed> = entries.map(|(keyed, _)| keyed).collect();
    contents.checkpoint.tensors.reserve_exact(entries.len());
    contents.placements.reserve_exact(entries.len());
    for &(key, entry) in &entries {
        let name = names::text(key);
        let (mut tensor, placement) =
            reader
                .tensor(TensorId(contents.placements.len()), &name, key, entry)
                .map_err(|error| located(error, &file, entry).tensor(names::shown(key)))?;
        if let Cow::Owned(name) = name {
            tensor.metadata.insert("tf2", "escaped", name);
        }
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    let object_graph = reader.object_graph(&contents)?;
    contents.files = reader.files;
    contents.checkpoint.metadata = metadata(&index.header, object_graph.as_deref());
    let bundle = Bundle {
        input,
        prefix: &location.prefix,
        file: &file,
        index: &index,
        entries: &entries,
        object_graph: object_graph.as_deref(),
        limits,
    };
    let by_key = kept::keep(&mut contents, &bundle)?;
    contents.repairs = index.repairs;
    // The tensors have all of it, and what follows takes as much memory again.
    drop(entries);
    let keys = index.entries.into_iter().zip(is_slice).filter(|(_, is_slice)| !is_slice);
    for (((key, _), _), number) in keys.zip(&by_key) {
        if let Some(placement) = contents.placements.get_mut(*number) {
            placement.name = names::into_text(key);
        }
    }
    let tensors = by_key.into_iter().filter_map(|number| contents.checkpoint.tensors.get(number));
    let description = description(input, &location, tensors, object_graph.as_deref(), options, limits)?;
    finish::finish(&mut contents, description, options)?;
    Ok(contents)
}

/// An error in what an entry says is where the entry is; any other says itself where it is.
fn located(error: Error, index: &File, entry: &Entry) -> Error {
    match error.context().file.is_some() {
        true => error,
        false => error.file(index.name()).offset(entry.at),
    }
}

fn open_index(input: &Input, location: &Location) -> Result<File> {
    input.file(&location.index).map_err(|error| match error.kind() {
        ckpt_api::Kind::Io => error.expected("the index of a TensorFlow v2 checkpoint").help(
            "a checkpoint is PREFIX.index and PREFIX.data-…: copy the index beside its data, or name its prefix",
        ),
        _ => error,
    })
}

fn metadata(header: &Header, object_graph: Option<&[u8]>) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert("tf2", "producer", header.producer);
    let endian = if header.endian == Endian::Big { "big" } else { "little" };
    metadata.insert("tf2", "endian", endian);
    if let Some(bytes) = object_graph {
        metadata.insert("tf2", "object_graph", BASE64_STANDARD.encode(bytes));
    }
    metadata
}

/// What other sources say of `tensors`, which come in the order of their keys: of two that say the same, the first is
/// the one that counts.
fn description<'a>(
    input: &Input,
    location: &Location,
    tensors: impl Iterator<Item = &'a Tensor>,
    object_graph: Option<&[u8]>,
    options: &Options,
    limits: &Limits,
) -> Result<Description> {
    let read = |name: &Option<String>| -> Result<Option<Vec<u8>>> {
        let Some(name) = name else { return Ok(None) };
        let file = input.file(name)?;
        limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
        file.bytes(0, file.len()).map(Some)
    };
    let (saved_model, keras_metadata) = (read(&location.saved_model)?, read(&location.keras_metadata)?);
    let entries: Vec<describe::Entry> = tensors
        .map(|tensor| describe::Entry { key: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape })
        .collect();
    let file = input.display(&location.index);
    let sources = Sources {
        object_graph,
        saved_model: saved_model.as_deref(),
        keras_metadata: keras_metadata.as_deref(),
        chained: options.list("activations").is_some(),
        file: &file,
    };
    describe::describe(&entries, &sources, limits)
}

/// Data files kept open.
const MOST_OPEN: usize = 16;

struct Reader<'a> {
    input: &'a Input,
    index: &'a Index,
    limits: &'a Limits,
    /// Names of the data files that hold anything.
    files: Vec<String>,
    /// Their numbers.
    ids: BTreeMap<u32, FileId>,
    open: BTreeMap<u32, File>,
    /// Elements with a length each, over all tensors: many tensors can lie in the same bytes.
    string_elements: u64,
    /// Bytes of what is not left to the executor, and of what is held for each element, over all tensors.
    scanned: u64,
}

impl<'a> Reader<'a> {
    fn new(input: &'a Input, location: &Location, index: &'a Index, limits: &'a Limits) -> Self {
        // Of no variants there are no bytes, but a checksum.
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

    fn tensor(&mut self, id: TensorId, name: &str, key: &[u8], entry: &Entry) -> Result<(Tensor, Placement)> {
        let mut tensor = Tensor::new(name, entry.dtype, entry.shape.clone());
        let extents = match (entry.slices.is_empty(), entry.dtype.bytes().is_some()) {
            (true, true) => {
                slices::check_size(entry)?;
                self.extents(entry, [slices::run(entry)], None)?
            }
            (true, false) => {
                let Elements { lengths, runs } = self.elements(entry)?;
                tensor.lengths = Some(lengths);
                self.extents(entry, runs, None)?
            }
            (false, true) => {
                let mut extents = Vec::with_capacity(entry.slices.len());
                let slices = slices::of(self.index, key, entry)?;
                slices::check_cover(&entry.shape, slices.iter().map(|slice| &slice.region))?;
                for slice in slices {
                    slices::check_size(slice.entry).map_err(|error| error.offset(slice.entry.at))?;
                    let run = [slices::run(slice.entry)];
                    extents.extend(self.extents(slice.entry, run, Some(slice.region))?);
                }
                extents
            }
            (false, false) => {
                let (lengths, extents) = self.string_slices(key, entry)?;
                tensor.lengths = Some(lengths);
                extents
            }
        };
        let encoding = Encoding { endian: self.index.header.endian, ..Encoding::row_major(&tensor) };
        // Its name is the key, once nothing else needs that.
        Ok((tensor, Placement::new(id, String::new(), extents, encoding)))
    }

    /// Extents for runs of bytes in the entry's data file; none for a run without bytes.
    fn extents(
        &self,
        entry: &Entry,
        runs: impl IntoIterator<Item = Run>,
        region: Option<Region>,
    ) -> Result<Vec<Extent>> {
        let runs = runs.into_iter().filter(|run| run.len > 0);
        let extent = |run: Run| {
            let file = self.ids.get(&entry.shard).copied().ok_or_else(|| Error::corrupt("no data file"))?;
            let Run { offset, len, checksum } = run;
            Ok(Extent { file, offset, len, region: region.clone().map(Box::new), checksum })
        };
        // Most tensors have one: what grows by itself begins with room for four.
        let mut extents = Vec::with_capacity(1);
        for run in runs {
            extents.push(extent(run)?);
        }
        Ok(extents)
    }

    fn elements(&mut self, entry: &Entry) -> Result<Elements> {
        self.string_elements = self.string_elements.saturating_add(entry.shape.elements());
        // Before the file is opened: what cannot fit is wrong whether the data is here or not.
        strings::check_room(entry)?;
        self.limits.check(Limit::StringElements, self.string_elements)?;
        if entry.dtype == DType::Variant {
            self.scan(entry.size)?;
            self.hold_extents(entry)?;
        }
        let endian = self.index.header.endian;
        let file = self.data(entry.shard)?;
        match entry.dtype {
            DType::Variant => strings::variants(&file, entry, endian),
            _ => strings::strings(&file, entry, endian),
        }
    }

    fn string_slices(&mut self, key: &[u8], entry: &Entry) -> Result<(Vec<u64>, Vec<Extent>)> {
        slices::refuse_variants(entry)?;
        self.hold_extents(entry)?;
        let slices = slices::of(self.index, key, entry)?;
        let mut parts = Vec::with_capacity(slices.len());
        for slice in &slices {
            let elements = self.elements(slice.entry)?;
            parts.push(Part { region: slice.region.clone(), elements });
        }
        slices::check_cover(&entry.shape, parts.iter().map(|part| &part.region))?;
        let shard = |number: usize| slices.get(number).map(|slice| slice.entry);
        let missing = || Error::corrupt("a slice is not in the index");
        let Joined { lengths, runs } = slices::join(&entry.shape, parts, |number, runs| {
            self.scan(runs.iter().map(|run| run.len).sum())?;
            let file = self.data(shard(number).ok_or_else(missing)?.shard)?;
            strings::verify(&file, runs)
        })?;
        let mut extents = Vec::with_capacity(runs.len());
        for (number, run) in runs {
            extents.extend(self.extents(shard(number).ok_or_else(missing)?, [run], None)?);
        }
        Ok((lengths, extents))
    }

    /// Makes room for an extent for each element, as many as there can be.
    fn hold_extents(&mut self, entry: &Entry) -> Result<()> {
        self.scan(entry.shape.elements().saturating_mul(size_of::<Extent>() as u64))
    }

    /// Takes `bytes` from what may be read or held here.
    fn scan(&mut self, bytes: u64) -> Result<()> {
        self.scanned = self.scanned.saturating_add(bytes);
        self.limits.check(Limit::HeaderBytes, self.scanned)
    }

    /// A data file, kept open.
    fn data(&mut self, shard: u32) -> Result<File> {
        if let Some(file) = self.open.get(&shard) {
            return Ok(file.clone());
        }
        let id = self.ids.get(&shard).and_then(|id| self.files.get(id.0));
        let name = id.ok_or_else(|| Error::corrupt("no data file"))?;
        let file = self.input.file(name).map_err(|error| {
            error.help("the lengths of strings lie in the data file: copy it beside the index")
        })?;
        // A process has few files to open, and a checkpoint may have many.
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        self.open.insert(shard, file.clone());
        Ok(file)
    }

    /// The bytes of the object graph, verified.
    fn object_graph(&mut self, contents: &Contents) -> Result<Option<Vec<u8>>> {
        let position = self.index.find(OBJECT_GRAPH.as_bytes());
        let Some((key, entry)) = position.and_then(|at| self.index.entries.get(at)) else { return Ok(None) };
        let text = |tensor: &Tensor| tensor.dtype == DType::String && tensor.shape.rank() == 0;
        let found = contents.checkpoint.tensor(OBJECT_GRAPH).filter(|(_, tensor)| text(tensor));
        let placement = found.and_then(|(id, _)| contents.placements.get(id.0));
        let Some([extent]) = placement.map(|placement| &placement.extents[..]) else { return Ok(None) };
        self.limits.check(Limit::HeaderBytes, extent.len).map_err(|error| error.tensor(names::shown(key)))?;
        let file = self.data(entry.shard)?;
        let checksum = extent.checksum.clone();
        let mut run = [Run { offset: extent.offset, len: extent.len, checksum }];
        strings::verify(&file, &mut run).map_err(|error| error.tensor(names::shown(key)))?;
        file.bytes(extent.offset, extent.len).map(Some)
    }
}
