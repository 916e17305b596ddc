//! Reads a distributed checkpoint (`torch.distributed.checkpoint`): a directory with `.metadata` and a file for each
//! rank, in which every chunk of a tensor is a file of its own, as `torch.save` writes it.

mod companions;
mod join;

use crate::container::{self, Saved, section};
use crate::format::keys::COMPANIONS;
use crate::format::metadata::{self, Chunk, FILE, Location, Metadata, Sharded};
use crate::format::{ID, LOADER};
use crate::object::dropped::Dropped;
use crate::object::values::{Budget, convert};
use crate::roles::named as roles;
use crate::tensor::layout;
use crate::tensor::rebuild::made;
use crate::tensor::stored::{Source, Stored};
use crate::tensor::view::Made;
use crate::write::distributed as write;
use ckpt_api::Viewed;
use ckpt_api::{
    Contents, Encoding, Error, Extent, File, FileId, Input, Limits, MetadataMap, Placement, Region, Result,
    Rules, Shape, Tensor, TensorId, first_few,
};
use ckpt_containers::pickle::{Feed, Names, Tree, parse};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Ending of the files with the chunks.
const ENDING: &str = ".distcp";
/// Names that a message lists.
const SHOWN: usize = 5;

/// Whether the input is a distributed checkpoint, even one without its metadata.
///
/// # Errors
/// [`ckpt_api::Kind::Io`], and those of [`Input::list`].
pub(crate) fn is_distributed(input: &Input) -> Result<bool> {
    if !input.is_directory() && input.entry() != FILE {
        return Ok(false);
    }
    if input.has_file(FILE) && is_metadata(&input.file(FILE)?)? {
        return Ok(true);
    }
    if !input.is_directory() {
        return Ok(false);
    }
    let names = input.list("")?;
    let Some(shard) = names.iter().find(|name| name.ends_with(ENDING)) else { return Ok(false) };
    Ok(container::sign(&input.file(shard)?, input.limits())? == container::Sign::Checkpoint)
}

/// Whether a file begins as a pickle that names the module of the metadata.
fn is_metadata(file: &File) -> Result<bool> {
    const LOOKED_AT: u64 = 256;
    let head = file.bytes(0, file.len().min(LOOKED_AT))?;
    let module = metadata::MODULE.as_bytes();
    Ok(head.first() == Some(&0x80) && head.windows(module.len()).any(|bytes| bytes == module))
}

/// Reads everything but the tensors' data. `root` is the branch to read.
pub(crate) fn read(
    input: &Input,
    root: Option<&str>,
    rules: &mut Rules,
    limits: &Limits,
) -> Result<Contents> {
    if !input.has_file(FILE) {
        return Err(no_metadata(input)?);
    }
    let file = input.file(FILE)?;
    let on_metadata = |error: Error| error.file(file.name());
    let tree = parse(Feed::new(&file, 0, file.len(), limits)).map_err(on_metadata)?;
    let names = Names::of(&tree);
    // PyTorch loads `.metadata` and the values that are no tensors without `weights_only`.
    names.check_danger(rules, LOADER).map_err(on_metadata)?;
    let mut metadata = metadata::parse(&tree, limits).map_err(on_metadata)?;
    let mut contents = Contents::default();
    match root {
        Some(root) => metadata = metadata.branch(root).map_err(on_metadata)?,
        None => write::keep(&tree, file.len(), &mut contents.checkpoint.metadata),
    }
    drop(tree);
    check_files(input, &metadata)?;
    let ties = ties(input, &metadata)?;
    let names = names.without(write::is_described);
    let mut reader = Reader {
        input,
        limits,
        rules,
        names,
        files: Vec::new(),
        opened: HashMap::new(),
        ties,
        read: HashMap::new(),
        viewed: Viewed::default(),
    };
    for sharded in &metadata.tensors {
        let id = TensorId(contents.placements.len());
        let (tensor, placement) = reader.tensor(id, sharded).map_err(|error| error.tensor(&sharded.name))?;
        reader.viewed.add(&tensor).map_err(|error| error.tensor(&sharded.name))?;
        contents.checkpoint.tensors.push(tensor);
        contents.placements.push(placement);
    }
    reader.values(&metadata.values, &mut contents)?;
    let others = companions::read(input, reader.rules, limits, &mut contents)?;
    reader.names.merge(others);
    contents.add_notes(reader.names.note());
    contents.files = reader.files;
    let values: Vec<String> = metadata.values.into_iter().map(|(name, _)| name).collect();
    roles::assign(&mut contents.checkpoint.tensors, &values);
    Ok(contents)
}

/// The error of a directory that has shards alone.
fn no_metadata(input: &Input) -> Result<Error> {
    let (shards, others): (Vec<String>, Vec<String>) =
        input.list("")?.into_iter().partition(|name| name.ends_with(ENDING));
    let is_renamed = |name: &&String| input.file(name).and_then(|file| is_metadata(&file)).unwrap_or(false);
    let error = Error::corrupt("the distributed checkpoint has no file '.metadata'").file(input.display(""));
    Ok(match others.iter().take(SHOWN).find(is_renamed) {
        Some(name) => error
            .found(format!("it as '{}'", name.escape_debug()))
            .help("rename the file back to '.metadata'"),
        None => error.found(first_few(&shards, SHOWN)).help(
            "the file says which tensors the shards hold: copy it, too; it is hidden, so that '*' omits it",
        ),
    })
}

/// Checks that no file is missing, and names all that are.
fn check_files(input: &Input, metadata: &Metadata) -> Result<()> {
    let chunks = metadata.tensors.iter().flat_map(|tensor| &tensor.chunks).map(|chunk| &chunk.at);
    let all = chunks.chain(metadata.values.iter().map(|(_, at)| at));
    let named: BTreeSet<&str> = all.map(|at| &*at.path).collect();
    input.will_open(&named.iter().collect::<Vec<_>>());
    let mut missing = Vec::new();
    for name in &named {
        if !input.has_file(name) {
            // A name that leaves the directory is an error of its own.
            match input.file(name) {
                Err(error) if error.kind() == ckpt_api::Kind::Io => missing.push((*name).to_owned()),
                opened => drop(opened?),
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let others = other_shards(input, &named)?;
    let error = Error::corrupt("files of the distributed checkpoint are missing").file(input.display(""));
    Err(match others.is_empty() {
        true => error
            .found(format!("no {}", first_few(&missing, SHOWN)))
            .expected(ckpt_api::count(named.len(), "file"))
            .help("copy the files of all ranks into one directory"),
        false => error
            .found(format!(
                "no {}, and {}, which '.metadata' does not name",
                first_few(&missing, SHOWN),
                first_few(&others, SHOWN)
            ))
            .expected("the names that '.metadata' has for the files")
            .help("if the files were renamed, rename each back to the name that '.metadata' has for it; otherwise, copy the files of all ranks into one directory"),
    })
}

/// The files of the directory that begin as shards do, and that the metadata does not name.
fn other_shards(input: &Input, named: &BTreeSet<&str>) -> Result<Vec<String>> {
    const LOOKED_AT: usize = 64;
    let is_other = |name: &String| !name.starts_with('.') && !named.contains(name.as_str());
    let mut others: Vec<String> = input.list("")?.into_iter().filter(is_other).take(LOOKED_AT).collect();
    let is_saved = |name: &String| {
        let sign = input.file(name).and_then(|file| container::sign(&file, input.limits()));
        sign.is_ok_and(|sign| sign == container::Sign::Checkpoint)
    };
    let is_companion = |name: &String| COMPANIONS.iter().any(|(own, _)| name == own);
    others.retain(|name| name.contains(ENDING) || !is_companion(name) && is_saved(name));
    Ok(others)
}

/// Returns the chunks that several tensors have, which are ties: PyTorch writes each one, and this crate writes one. Checks
/// that no other bytes belong to two chunks or values.
fn ties<'a>(input: &Input, metadata: &'a Metadata) -> Result<HashSet<&'a Location>> {
    let chunks = metadata
        .tensors
        .iter()
        .flat_map(|tensor| tensor.chunks.iter().map(|chunk| (tensor.name.as_str(), &chunk.at, true)));
    let values = metadata.values.iter().map(|(name, at)| (name.as_str(), at, false));
    let mut all: Vec<(&str, &Location, bool)> = chunks.chain(values).collect();
    all.sort_by(|(_, a, _), (_, b, _)| (&a.path, a.offset).cmp(&(&b.path, b.offset)));
    let mut ties = HashSet::new();
    for pair in all.windows(2) {
        let [(first, before, is_chunk), (second, at, is_other)] = pair else { continue };
        if before == at && *is_chunk && *is_other && first != second {
            ties.insert(*at);
        } else if before.path == at.path && before.offset.saturating_add(before.len) > at.offset {
            return Err(Error::corrupt("two chunks of the distributed checkpoint share bytes")
                .file(input.display(&at.path))
                .offset(at.offset)
                .tensor(*second)
                .found(format!("a chunk of '{}' from byte {} on", first.escape_debug(), before.offset))
                .expected("bytes of its own for each chunk, or all of them for a tie")
                .help("the file '.metadata' was changed or is of another checkpoint: get it again"));
        }
    }
    Ok(ties)
}

/// The files of a checkpoint.
struct Reader<'a> {
    input: &'a Input,
    limits: &'a Limits,
    rules: &'a mut Rules,
    /// Classes and functions that the pickles name.
    names: Names,
    files: Vec<String>,
    opened: HashMap<String, (FileId, File)>,
    /// Chunks that several tensors have, and those of them that were read: each is opened once.
    ties: HashSet<&'a Location>,
    read: HashMap<Location, (Tensor, Placement)>,
    /// Bytes of the tensors, which are more than those of the files if there are ties.
    viewed: Viewed,
}

impl Reader<'_> {
    /// The tensor of a chunk's archive.
    fn saved(&mut self, name: &str, chunk: &Chunk, own: &File) -> Result<(Tensor, Placement)> {
        if let Some(read) = self.read.get(&chunk.at) {
            return Ok(read.clone());
        }
        let saved = container::open(own, self.limits)?;
        self.scan(&saved.tree)?;
        let read = saved_tensor(&saved, own, name, self.limits)?;
        if self.ties.contains(&chunk.at) {
            self.read.insert(chunk.at.clone(), read.clone());
        }
        Ok(read)
    }

    fn tensor(&mut self, id: TensorId, sharded: &Sharded) -> Result<(Tensor, Placement)> {
        let parts =
            sharded.chunks.iter().map(|chunk| self.part(sharded, chunk)).collect::<Result<Vec<_>>>()?;
        let Some((tensor, first)) = parts.first() else {
            return Err(Error::defect("a tensor has no chunk on second sight"));
        };
        check_quantizers(sharded, &parts)?;
        let mut whole = Tensor::new(&sharded.name, tensor.dtype, sharded.shape.clone());
        whole.quantization = tensor.quantization.clone();
        // Axes of one element have no place in the order: the chunk with the fewest of them tells most.
        let longest = parts.iter().max_by_key(|(part, _)| part.shape.iter().filter(|len| **len > 1).count());
        let encoding = longest.map_or(first, |(_, longest)| longest).encoding.clone();
        let is_whole = parts.len() == 1 && first.extents.iter().all(|extent| covers(extent, sharded));
        let mut extents = Vec::with_capacity(parts.len());
        for (part, placement) in parts {
            check_encoding(&encoding, &part.shape, &placement.encoding)?;
            extents.extend(placement.extents);
        }
        if is_whole || sharded.shape.elements() == 0 {
            extents.truncate(1);
            extents.iter_mut().for_each(|extent| extent.set_region(None));
        }
        join::join(&mut extents, &sharded.shape, &encoding.order);
        let placement = Placement::new(id, &whole.name, extents, encoding);
        Ok((whole, placement))
    }

    /// A chunk, and where its bytes are: regions of the whole tensor.
    fn part(&mut self, sharded: &Sharded, chunk: &Chunk) -> Result<(Tensor, Placement)> {
        let (id, file) = self.open(&chunk.at.path)?;
        let own = section(&file, chunk.at.offset, chunk.at.len)?;
        let on_chunk = |error: Error| {
            let at = error.context().offset.unwrap_or(0).saturating_add(chunk.at.offset);
            error.file(file.name()).offset(at)
        };
        let (tensor, placement) = self.saved(&sharded.name, chunk, &own).map_err(on_chunk)?;
        if let Some(stated) =
            sharded.element.and_then(|element| element.dtype).filter(|own| *own != tensor.dtype)
        {
            let quantized = if tensor.quantization.is_none() { "" } else { ", quantized with a scale" };
            return Err(on_chunk(
                Error::corrupt("the chunk has another dtype than the metadata states")
                    .found(format!("{}{quantized}", tensor.dtype))
                    .expected(stated.to_string()),
            ));
        }
        if tensor.shape != chunk.region.shape {
            return Err(on_chunk(
                Error::corrupt("the chunk has another shape than the metadata states")
                    .found(tensor.shape.to_string())
                    .expected(chunk.region.shape.to_string()),
            ));
        }
        if placement.window().is_some() {
            return Err(on_chunk(Error::unsupported("the chunk is a view of a larger tensor")));
        }
        let moved = |extent: Extent| {
            let region = moved(&chunk.region, extent.region());
            let mut extent = extent.with_region(region);
            extent.file = id;
            extent.offset = extent.offset.saturating_add(chunk.at.offset);
            extent
        };
        let extents: Vec<_> = placement.extents.iter().cloned().map(moved).collect();
        Ok((tensor, placement.with_extents(extents)))
    }

    /// Adds the values that are no tensors to the metadata, and notes those that have no form there.
    fn values(&mut self, values: &[(String, Location)], contents: &mut Contents) -> Result<()> {
        let mut budget = Budget::default();
        let mut dropped = Dropped::default();
        let mut objects = MetadataMap::new();
        for (name, at) in values {
            let (_, file) = self.open(&at.path)?;
            let on_value = |error: Error| error.file(file.name()).field(name.escape_debug().to_string());
            let section = section(&file, at.offset, at.len).map_err(on_value)?;
            let saved = container::open(&section, self.limits).map_err(on_value)?;
            self.scan(&saved.tree).map_err(on_value)?;
            let root = saved.tree.root();
            if let Some(value) = convert(&saved.tree, root, name, &mut budget, &mut dropped) {
                write::keep_object(&saved.tree, name, &value, &mut objects);
                contents.checkpoint.metadata.insert(ID, name, value);
            }
        }
        write::keep_objects(objects, &mut contents.checkpoint.metadata);
        if dropped.count > 0 {
            let count = ckpt_api::count(dropped.count, "value that is no tensor");
            contents.notes.push(format!("{count} left out: {dropped}").into());
        }
        Ok(())
    }

    /// Remembers what a pickle names.
    fn scan(&mut self, tree: &Tree) -> Result<()> {
        let names = Names::of(tree);
        names.check_danger(self.rules, LOADER)?;
        self.names.merge(names);
        Ok(())
    }

    fn open(&mut self, path: &str) -> Result<(FileId, File)> {
        if let Some(opened) = self.opened.get(path) {
            return Ok(opened.clone());
        }
        let opened = (FileId(self.files.len()), self.input.file(path)?);
        self.files.push(path.to_owned());
        self.viewed.open(opened.1.len(), std::iter::empty());
        self.opened.insert(path.to_owned(), opened.clone());
        Ok(opened)
    }
}

/// The tensor of a file that holds one.
fn saved_tensor(saved: &Saved, file: &File, name: &str, limits: &Limits) -> Result<(Tensor, Placement)> {
    let view = match made(&saved.tree, saved.tree.root())? {
        Made::Tensor(view) => view,
        Made::Unsupported(error) => return Err(error),
        Made::Meta | Made::Array(..) | Made::Other => {
            return Err(Error::corrupt("the chunk is not a tensor with data"));
        }
    };
    let source = Source { file, saved, limits };
    let Stored { tensor, placement, used, record } = source.stored(&view, TensorId(0), name)?;
    if used == layout::Use::Part {
        source.check_crc(record)?;
    }
    Ok((tensor, placement))
}

/// The box of the whole tensor that a box of a chunk is.
fn moved(chunk: &Region, own: Option<&Region>) -> Region {
    let Some(own) = own else { return chunk.clone() };
    let start = chunk.start.iter().zip(&own.start).map(|(start, own)| start.saturating_add(*own)).collect();
    Region { start, shape: own.shape.clone() }
}

fn covers(extent: &Extent, sharded: &Sharded) -> bool {
    let from_start = |region: &Region| region.start.iter().all(|start| *start == 0);
    extent.region().is_some_and(|region| from_start(region) && region.shape == sharded.shape)
}

/// Checks that the integers of all chunks stand for the same numbers: a tensor has one scale, or a list of them along an
/// axis.
fn check_quantizers(sharded: &Sharded, parts: &[(Tensor, Placement)]) -> Result<()> {
    let Some((first, _)) = parts.first() else { return Ok(()) };
    let is_cut = |tensor: &Tensor| {
        let axis = tensor.quantization.as_ref().and_then(|own| own.affine()?.axis());
        let len = |shape: &Shape| axis.and_then(|axis| shape.get(axis).copied());
        len(&tensor.shape) != len(&sharded.shape)
    };
    if parts.iter().all(|(tensor, _)| tensor.quantization == first.quantization && !is_cut(tensor)) {
        return Ok(());
    }
    Err(Error::unsupported("the chunks of the quantized tensor have scales or zero points of their own")
        .expected("the same for all chunks")
        .help("dequantize the tensor before it is saved"))
}

/// Checks that a chunk of this shape is stored as the whole tensor is, but for axes of one element.
fn check_encoding(whole: &Encoding, shape: &Shape, own: &Encoding) -> Result<()> {
    let is_long = |axis: &usize| shape.elements() > 0 && shape.get(*axis).is_none_or(|len| *len != 1);
    let order =
        |encoding: &Encoding| -> Vec<usize> { encoding.order.iter().copied().filter(is_long).collect() };
    if order(whole) == order(own) && own.clone().with_order(whole.order.clone()) == *whole {
        return Ok(());
    }
    let what =
        |encoding: &Encoding| format!("{} with axes in the order {:?}", encoding.dtype, encoding.order);
    Err(Error::unsupported("the chunks of the tensor are stored differently")
        .found(what(own))
        .expected(what(whole)))
}
