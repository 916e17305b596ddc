//! Reads one file: its tensors, and where their bytes are.

use super::{losses, notes};
use crate::container::{self, Record, Saved};
use crate::format::{ID, LOADER, StorageClass};
use crate::object::children::Work;
use crate::object::walk::{Found, branch, keys, walk_script};
use crate::roles::pickled as roles;
use crate::tensor::layout::Use;
use crate::tensor::rebuild::{has_attributes, made};
use crate::tensor::stored::{Source, Stored};
use crate::tensor::view::{Distributed, Made};
use crate::write;
use ckpt_api::Viewed;
use ckpt_api::{
    Contents, DType, Endian, Error, Extent, File, FileId, Kind, Limit, Limits, MissingGraph, Result, Rules,
    TensorId,
};
use ckpt_containers::pickle::numpy::Array;
use ckpt_containers::pickle::{Id, Tree};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Reads one file. `root` is the path of the part to read.
pub(crate) fn read(file: &File, root: Option<&str>, rules: &mut Rules, limits: &Limits) -> Result<Contents> {
    let (mut contents, parts) = read_rank(file, root, rules, limits)?;
    contents.losses.extend(losses::of_parts(&contents.checkpoint.tensors, &parts));
    Ok(contents)
}

/// Reads one file, which may be that of a rank: returns the distributed tensors of which it has a part, by name.
pub(crate) fn read_rank(
    file: &File,
    root: Option<&str>,
    rules: &mut Rules,
    limits: &Limits,
) -> Result<(Contents, HashMap<String, Distributed>)> {
    let saved = container::open(file, limits)?;
    saved.names.check_danger(rules, LOADER)?;
    let start = root.map_or(Ok(saved.tree.root()), |root| branch(&saved.tree, root))?;
    let mut found = walk_script(&saved.tree, start, ID, &saved.classes)?;
    for (name, _) in found.tensors.iter().filter(|(_, id)| has_attributes(&saved.tree, *id)) {
        found.dropped.add(name, || "attributes of the tensor".to_owned());
    }
    limits.check(Limit::Tensors, found.tensors.len() as u64)?;
    check_names(&saved.tree, start, &found)?;
    let mut reader = Reader {
        source: Source { file, saved: &saved, limits },
        contents: Contents::default(),
        viewed: Viewed::default(),
        partly: BTreeMap::new(),
        wholly: Vec::with_capacity(found.tensors.len()),
        meta: Vec::new(),
        unswapped: Vec::new(),
        widened: Vec::new(),
        parts: HashMap::new(),
        work: Work::new(&saved.tree),
    };
    reader.viewed.open(file.len(), saved.records.values().map(|record| record.len));
    for (name, id) in &found.tensors {
        let done = reader.add(name, *id).map_err(|error| error.tensor(name));
        match done {
            Err(error) if error.kind() == Kind::Unsupported => rules.mend(name, "it is left out", error)?,
            done => done?,
        }
    }
    reader.check_partly_read()?;
    let Reader { mut contents, meta, parts, unswapped, widened, .. } = reader;
    roles::assign(&saved.tree, &found.optimizers, &mut contents.checkpoint.tensors);
    contents.notes = notes::of(&saved, &found, root);
    contents.add_notes(notes::unswapped(&unswapped));
    contents.add_notes(notes::widened(&widened));
    contents.losses = losses::of(&saved, &found, &contents.checkpoint.tensors, meta);
    contents.missing_graph = missing_graph(&saved, &found);
    contents.checkpoint.metadata = found.metadata;
    if root.is_none() {
        write::keep(&saved, &mut contents, &found.tensors, found.containers, limits)?;
    }
    Ok((contents, parts))
}

/// Checks that no two tensors have one name, which keys with dots make possible.
fn check_names(tree: &Tree, start: Id, found: &Found) -> Result<()> {
    // Names in order differ: then no set of many thousand is made.
    if found.tensors.is_sorted_by(|(name, _), (next, _)| name < next) {
        return Ok(());
    }
    let mut names = HashSet::with_capacity(found.tensors.len());
    match found.tensors.iter().find(|(name, _)| !names.insert(name.as_str())) {
        None => Ok(()),
        Some((name, _)) => {
            Err(Error::unsupported("two tensors have the same name: their keys, joined with dots, are equal")
                .tensor(name)
                .found(keys(tree, start, name).join(" and "))
                .help("read one branch alone (--set root=BRANCH), or save the tensors under other keys"))
        }
    }
}

fn missing_graph(saved: &Saved, found: &Found) -> Option<MissingGraph> {
    let reason = match (saved.is_script, found.modules) {
        (true, _) => "a TorchScript archive states its layers as code, which is not read",
        (false, 0) => return None,
        _ => "a pickled module states its layers as classes of Python, which are not read",
    };
    Some(MissingGraph { reason: reason.into(), is_unstated: true, help: None })
}

struct Reader<'a> {
    source: Source<'a>,
    contents: Contents,
    /// Bytes of the tensors, which share storages.
    viewed: Viewed,
    /// Storages whose checksum no tensor covers, by their first byte.
    partly: BTreeMap<u64, &'a Record>,
    /// First bytes of the storages whose checksum some tensor covers.
    wholly: Vec<u64>,
    /// Names of tensors without data.
    meta: Vec<String>,
    /// Names of big-endian tensors whose bytes PyTorch leaves as they are on a little-endian machine.
    unswapped: Vec<String>,
    /// Tensors of devices whose values were saved with another dtype.
    widened: Vec<String>,
    /// Distributed tensors of which the file has a part, by name.
    parts: HashMap<String, Distributed>,
    /// Texts of arrays that may still be looked at: arrays may share them.
    work: Work,
}

impl<'a> Reader<'a> {
    fn add(&mut self, name: &str, id: Id) -> Result<()> {
        let view = match made(&self.source.saved.tree, id)? {
            Made::Tensor(view) => view,
            Made::Array(array, stated) => return self.add_array(name, &array, stated),
            Made::Meta => {
                self.meta.push(name.to_owned());
                return Ok(());
            }
            Made::Unsupported(error) => return Err(error),
            Made::Other => return Err(Error::defect("a tensor is none on second sight")),
        };
        let id = TensorId(self.contents.checkpoint.tensors.len());
        let Stored { tensor, placement, used, record } = self.source.stored(&view, id, name)?;
        let is_part = |extent: &Extent| extent.len != record.len;
        let is_whole = placement.window().is_none() && !placement.extents.iter().any(is_part);
        if record.compression.is_some() && !is_whole && tensor.shape.elements() > 0 {
            return Err(Error::unsupported("the tensor is a part of a storage that is compressed")
                .help("save it again with torch.save, which does not compress"));
        }
        self.viewed.add(&tensor)?;
        let is_untyped = view.storage.class == StorageClass::Untyped && view.element.bytes > 1;
        if is_untyped && self.source.saved.endian == Endian::Big {
            self.unswapped.push(name.to_owned());
        }
        match used {
            Use::Whole => self.wholly.push(record.start),
            Use::Part => drop(self.partly.insert(record.start, record)),
        }
        if let Some(own) = view.distributed.filter(|own| own.whole != tensor.shape) {
            self.parts.insert(name.to_owned(), *own);
        }
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.placements.push(placement);
        Ok(())
    }

    fn add_array(&mut self, name: &str, array: &Array, stated: Option<DType>) -> Result<()> {
        self.work.spend(&self.source.saved.tree, array.cost())?;
        let id = TensorId(self.contents.checkpoint.tensors.len());
        let saved = self.source.saved;
        let start = saved.pickle_start.ok_or_else(|| {
            Error::unsupported("the array is in a pickle that another tool compressed")
                .help("save it again with torch.save, which does not compress")
        })?;
        let (tensor, placement) = array.place(&saved.tree, (FileId(0), start), id, name)?;
        self.viewed.add(&tensor)?;
        if let Some(stated) = stated.filter(|stated| *stated != tensor.dtype) {
            self.widened.push(format!("{name} ({stated} as {})", tensor.dtype));
        }
        self.contents.checkpoint.tensors.push(tensor);
        self.contents.placements.push(placement);
        Ok(())
    }

    /// Compares the checksums that no tensor's extents have: of storages that tensors share in part.
    fn check_partly_read(&mut self) -> Result<()> {
        if !self.partly.is_empty() {
            self.wholly.sort_unstable();
        }
        for (start, record) in &self.partly {
            if self.wholly.binary_search(start).is_err() {
                self.source.check_crc(record)?;
            }
        }
        Ok(())
    }
}
