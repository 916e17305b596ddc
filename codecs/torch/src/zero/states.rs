//! What the files of the ranks state: shapes and order of the parameters, and where the flat tensors are.

use super::flat::{Flat, Joined};
use crate::container::{self, Record, Saved};
use crate::object::children::Work;
use crate::tensor::call::is_tensor;
use crate::tensor::layout::Use;
use crate::tensor::rebuild::made;
use crate::tensor::stored::{Source, Stored};
use crate::tensor::view::Made;
use ckpt_api::{Error, Extent, File, FileId, Limits, Placement, Result, Shape, Tensor, TensorId};
use ckpt_containers::pickle::{Id, Tree, Value};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// The key of what the optimizer saves.
pub(super) const OPTIMIZER: &str = "optimizer_state_dict";

/// Names and shapes of parameters, in the order in which they are stored.
pub(crate) type Shapes = Vec<(String, Shape)>;

/// A file of one rank.
pub(crate) struct States<'a> {
    saved: Saved,
    file: File,
    id: FileId,
    limits: &'a Limits,
    /// First bytes of the storages whose checksum was compared.
    checked: RefCell<HashSet<u64>>,
    /// What may still be looked at: values may be shared.
    work: RefCell<Work>,
}

impl<'a> States<'a> {
    pub(crate) fn open(file: &File, id: FileId, limits: &'a Limits) -> Result<Self> {
        let saved = container::open(file, limits).map_err(|error| error.file(file.name()))?;
        let work = RefCell::new(Work::new(&saved.tree));
        Ok(States { saved, file: file.clone(), id, limits, checked: RefCell::default(), work })
    }

    /// The value at a path of keys.
    pub(crate) fn value(&self, path: &[&str]) -> Option<Id> {
        let tree = &self.saved.tree;
        let found = path.iter().try_fold(tree.root(), |id, key| tree.entry(id, key))?;
        (found != Id::NONE).then_some(found)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.saved.tree
    }

    /// An integer, or the greatest of a list; of an enumeration, its value.
    pub(crate) fn number(&self, path: &[&str]) -> Option<u64> {
        let id = self.value(path)?;
        let id = match self.tree().object(id) {
            Some(object) => self.tree().tuple::<1>(object.arguments)?.first().copied()?,
            None => id,
        };
        let natural = |id| self.tree().int(id).and_then(|number| u64::try_from(number).ok());
        match self.tree().value(id) {
            Value::List(list) | Value::Tuple(list) => self.tree().items(list).filter_map(natural).max(),
            _ => natural(id),
        }
    }

    /// Texts of a list; none if there is no such list.
    pub(crate) fn texts(&self, path: &[&str]) -> Result<Vec<String>> {
        let items = self.value(path).map_or(Ok(Vec::new()), |id| self.items(id))?;
        let texts = items.into_iter().filter_map(|id| self.tree().text(id));
        texts.map(|text| self.owned(text)).collect()
    }

    /// Pairs of texts of a dict; none if there is no such dict.
    pub(crate) fn pairs(&self, path: &[&str]) -> Result<Vec<(String, String)>> {
        let entries = self.value(path).map_or(Ok(Vec::new()), |id| self.entries(id))?;
        let texts = entries.into_iter().filter_map(|(key, value)| Some((key, self.tree().text(value)?)));
        texts.map(|(key, text)| Ok((key, self.owned(text)?))).collect()
    }

    /// Names and shapes, for each group.
    pub(crate) fn groups(&self, key: &'static str) -> Result<Vec<Shapes>> {
        let id = self.value(&[key]).ok_or_else(|| lacks(key))?;
        let groups = match self.tree().value(id) {
            Value::List(_) | Value::Tuple(_) => self.items(id)?,
            _ => vec![id],
        };
        groups.into_iter().map(|group| self.shapes(group, key)).collect()
    }

    /// Names and shapes of a dict; none if there is no such dict.
    pub(crate) fn frozen(&self) -> Result<Shapes> {
        const KEY: &str = "frozen_param_shapes";
        self.value(&[KEY]).map_or(Ok(Shapes::new()), |id| self.shapes(id, KEY))
    }

    fn shapes(&self, id: Id, key: &'static str) -> Result<Shapes> {
        let entries = self.entries(id)?;
        entries.into_iter().map(|(name, id)| Ok((name, self.shape(id, key)?))).collect()
    }

    fn shape(&self, id: Id, key: &'static str) -> Result<Shape> {
        let sizes = match self.tree().object(id) {
            Some(object) => self.tree().tuple::<1>(object.arguments).map(|[sizes]| sizes),
            None => Some(id),
        };
        let size = |id| self.tree().int(id).and_then(|size| u64::try_from(size).ok());
        let dims = self.items(sizes.ok_or_else(|| lacks(key))?)?.into_iter().map(size);
        let shape = dims.collect::<Option<Vec<u64>>>().and_then(|dims| Shape::new(dims).ok());
        shape.ok_or_else(|| lacks(key))
    }

    /// Numbers of a list of lists; none if there is no such list.
    pub(crate) fn paddings(&self, path: &[&str]) -> Result<Vec<Vec<u64>>> {
        let natural = |id| self.tree().int(id).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let groups = self.value(path).map_or(Ok(Vec::new()), |id| self.items(id))?;
        groups.into_iter().map(|group| Ok(self.items(group)?.into_iter().map(natural).collect())).collect()
    }

    /// The flat tensors of a list, one for each group.
    pub(crate) fn flats(&self, path: &[&str]) -> Result<Option<Vec<Flat>>> {
        let Some(id) = self.value(path) else { return Ok(None) };
        let mut flats = Vec::new();
        for id in self.items(id)? {
            flats.push(self.flat(id)?);
        }
        Ok(Some(flats))
    }

    /// A tensor whose elements are one behind the other, row-major. Its checksum is compared here, because the
    /// parameters that are cut out of it have none.
    pub(crate) fn flat(&self, id: Id) -> Result<Flat> {
        let (stored, placement) = self.stored(id, "")?;
        self.check_crc(stored.record)?;
        let tensor = stored.tensor;
        if tensor.quantization.is_some() {
            return Err(Error::unsupported("a rank stores its parameters as a quantized tensor"));
        }
        let rows = placement.encoding.order.iter().copied().eq(0..tensor.shape.rank());
        match (&placement.extents[..], rows, placement.window()) {
            ([extent], true, None) if extent.region().is_none() => Ok(Flat {
                dtype: tensor.dtype,
                encoding: placement.encoding.clone().with_order(vec![0]),
                extent: extent.clone(),
                elements: tensor.shape.elements(),
            }),
            _ => Err(Error::unsupported("a rank stores its parameters as a view that is not contiguous")),
        }
    }

    /// A tensor, and where its bytes are.
    pub(crate) fn tensor(&self, id: Id, name: &str) -> Result<(Tensor, Placement)> {
        let (stored, placement) = self.stored(id, name)?;
        if stored.used == Use::Part {
            self.check_crc(stored.record)?;
        }
        Ok((stored.tensor, placement))
    }

    /// Compares the checksum of a storage, once.
    fn check_crc(&self, record: &Record) -> Result<()> {
        match self.checked.borrow_mut().insert(record.start) {
            true => self.source().check_crc(record),
            false => Ok(()),
        }
    }

    fn source(&self) -> Source<'_> {
        Source { file: &self.file, saved: &self.saved, limits: self.limits }
    }

    /// What the tensor is, and where its bytes are in all files.
    fn stored(&self, id: Id, name: &str) -> Result<(Stored<'_>, Placement)> {
        let view = match made(self.tree(), id)? {
            Made::Tensor(view) => view,
            Made::Unsupported(error) => return Err(error),
            Made::Meta | Made::Array(..) | Made::Other => {
                return Err(Error::corrupt("a value is not a tensor with data"));
            }
        };
        let stored = self.source().stored(&view, TensorId(0), name)?;
        let own = |extent: &Extent| {
            let mut extent = extent.clone();
            extent.file = self.id;
            extent
        };
        let extents: Vec<_> = stored.placement.extents.iter().map(own).collect();
        let placement = stored.placement.clone().with_extents(extents);
        Ok((stored, placement))
    }

    /// The number of elements of a tensor; `None` for other values.
    pub(crate) fn elements(&self, id: Id) -> Option<u64> {
        match made(self.tree(), id) {
            Ok(Made::Tensor(view)) => Some(view.shape.elements()),
            _ => None,
        }
    }

    /// The values of a list, or of a dict in the order of its keys, which are numbers.
    pub(crate) fn numbered(&self, id: Id) -> Result<Vec<Id>> {
        let Value::Dict(list) = self.tree().value(id) else { return self.items(id) };
        self.work.borrow_mut().take(self.tree(), id)?;
        let number = |(key, value)| Some((self.tree().int(key)?, value));
        let mut all: Vec<(i64, Id)> = self.tree().entries(list).filter_map(number).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, value)| value).collect())
    }

    /// Takes a cost for each of some things.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] if values share others so often that looking at them takes too long.
    pub(crate) fn spend(&self, cost: usize) -> Result<()> {
        self.work.borrow_mut().spend(self.tree(), cost as u64)
    }

    fn owned(&self, text: &str) -> Result<String> {
        self.spend(text.len())?;
        Ok(text.to_owned())
    }

    fn items(&self, id: Id) -> Result<Vec<Id>> {
        self.work.borrow_mut().take(self.tree(), id)?;
        Ok(match self.tree().value(id) {
            Value::List(list) | Value::Tuple(list) => self.tree().items(list).collect(),
            _ => Vec::new(),
        })
    }

    /// Entries of a dict whose keys are texts.
    pub(crate) fn entries(&self, id: Id) -> Result<Vec<(String, Id)>> {
        self.work.borrow_mut().take(self.tree(), id)?;
        let list = match self.tree().value(id) {
            Value::Dict(list) => list,
            Value::Object(object) => object.entries,
            _ => return Ok(Vec::new()),
        };
        let named = |(key, value)| Some((self.tree().text(key)?, value));
        let entries = self.tree().entries(list).filter_map(named);
        entries.map(|(key, value)| Ok((self.owned(key)?, value))).collect()
    }

    /// The values of the dict at a path, by key.
    pub(crate) fn by_key(&self, path: &[&str]) -> HashMap<&str, Id> {
        self.pairs_at(path).into_iter().collect()
    }

    /// The tensors of the dict at a path, in its order.
    pub(crate) fn tensors(&self, path: &[&str]) -> Vec<(&str, Id)> {
        let tree = self.tree();
        let has_tensor = |id: Id| tree.object(id).is_some_and(|object| is_tensor(tree, object));
        self.pairs_at(path).into_iter().filter(|(_, id)| has_tensor(*id)).collect()
    }

    fn pairs_at(&self, path: &[&str]) -> Vec<(&str, Id)> {
        let list = match self.value(path).map(|id| self.tree().value(id)) {
            Some(Value::Dict(list)) => list,
            Some(Value::Object(object)) => object.entries,
            _ => return Vec::new(),
        };
        self.tree().entries(list).filter_map(|(key, value)| Some((self.tree().text(key)?, value))).collect()
    }
}

/// Appends a flat tensor to the row with this number, which may be the next one.
pub(super) fn push(rows: &mut Vec<Joined>, number: usize, flat: Flat) -> Result<()> {
    if rows.len() == number {
        rows.push(Joined::default());
    }
    rows.get_mut(number).ok_or_else(|| lacks("fp32 groups"))?.push(flat)
}

pub(crate) fn lacks(key: &'static str) -> Error {
    Error::corrupt("a file of the ZeRO checkpoint lacks what describes its parameters").field(key)
}
