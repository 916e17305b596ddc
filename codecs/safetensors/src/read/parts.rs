//! Files that are parts of a set without an index: by their names, or by what each states of the parts of tensors that a
//! rank saved (`HuggingFaceStorageWriter` of `torch.distributed.checkpoint`).

use super::tensor::describe;
use crate::format::{Entry, Header, NAMESPACE};
use ckpt_api::{
    Contents, Error, FileId, Input, Limit, Limits, Loss, LossKind, Name, PartName, PartSet, Placement,
    Region, Result, Shape, Tensor, TensorId, add_parts, first_few,
};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// Number of names that a message lists.
pub(super) const SHOWN: usize = 8;
/// Key of `__metadata__`: for each tensor, where the part that the file has of it begins.
const SHARDING: &str = "DCP_SHARDING_INFO";
const VERSION: &str = "DCP_VERSION";

#[derive(Deserialize)]
struct Saved {
    saved_offsets: Vec<u64>,
}

/// Where the parts of tensors begin that a file has, by name; `None` if the file has whole tensors.
fn offsets(header: &Header) -> Result<Option<HashMap<String, Vec<u64>>>> {
    let Some(text) = header.pairs.as_ref().and_then(|pairs| pairs.get(SHARDING)) else { return Ok(None) };
    let parsed: HashMap<String, Saved> = serde_json::from_str(text).map_err(|error| {
        Error::corrupt("the parts that the file has of tensors are not described as expected")
            .field(SHARDING)
            .found(error.to_string())
            .expected("for each tensor a list saved_offsets")
    })?;
    Ok(Some(parsed.into_iter().map(|(name, saved)| (name, saved.saved_offsets)).collect()))
}

/// The losses of reading one file alone. The format's own library reads a file that describes its parts in another form: that
/// is a loss, too, and no error.
pub(crate) fn losses(name: &str, header: &Header) -> Vec<Loss> {
    let offsets = match offsets(header) {
        Ok(Some(offsets)) => offsets,
        Ok(None) => return PartName::parse(name).and_then(|part| part.loss(name)).into_iter().collect(),
        Err(error) => {
            let found = error.context().found.unwrap_or_default();
            let why = format!("{SHARDING} says that it has parts of tensors, not which ones: {found}");
            return vec![Loss::new(LossKind::Partial, name, why)];
        }
    };
    let loss = |(tensor, entry): &(Name, Entry)| {
        let start = offsets.get(tensor.as_str())?;
        let range = |(start, len): (&u64, &u64)| format!("{start}..{}", start.saturating_add(*len));
        let ranges: Vec<String> = start.iter().zip(&entry.shape[..]).map(range).collect();
        let part = format!("the part [{}] that a rank saved of a tensor", ranges.join(", "));
        Some(Loss::new(
            LossKind::Partial,
            tensor,
            format!("{part}; name the directory with the files of all ranks"),
        ))
    };
    header.tensors.iter().filter_map(loss).collect()
}

/// Reads all files of a directory, of which none is an index.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for files that are not parts of one set; [`ckpt_api::Kind::Unsupported`] for two tensors of one
/// name; those of reading the files.
pub(crate) fn read(input: &Input, names: &[String], limits: &Limits) -> Result<Contents> {
    limits.check(Limit::Files, names.len() as u64)?;
    input.will_open(names);
    let set = PartSet::of(names);
    let mut contents = Contents::default();
    let (mut whole, mut joined) = (Vec::new(), Joined::default());
    for name in names {
        let file = input.file(name)?;
        let on_file = |error: Error| error.file(file.name());
        let (header, start) = Header::read(&file, limits)?;
        let offsets = offsets(&header).map_err(on_file)?;
        if set.is_none() && offsets.is_none() {
            return Err(several(input, names));
        }
        let id = FileId(contents.files.len());
        contents.files.push(name.clone());
        let Header { tensors, pairs } = header;
        for (key, value) in pairs.unwrap_or_default() {
            let metadata = &mut contents.checkpoint.metadata;
            if ![SHARDING, VERSION].contains(&key.as_str()) && metadata.value(NAMESPACE, &key).is_none() {
                metadata.insert(NAMESPACE, &key, value);
            }
        }
        match offsets {
            None => {
                let described = |(name, entry)| describe(TensorId(0), id, start, name, entry);
                let described: Result<Vec<_>> = tensors.into_iter().map(described).collect();
                whole.extend(described.map_err(on_file)?);
            }
            Some(offsets) => {
                for (name, entry) in tensors {
                    let at = offsets.get(name.as_str());
                    let described = describe(TensorId(0), id, start, name, entry).map_err(on_file)?;
                    joined.add(described, at).map_err(on_file)?;
                }
            }
        }
    }
    add_parts(input, &mut contents, whole)?;
    joined.finish(&mut contents)?;
    contents.losses.extend(set.and_then(|set| set.loss(&input.display(""))));
    Ok(contents)
}

pub(crate) fn several(input: &Input, names: &[String]) -> Error {
    Error::usage("the directory contains several safetensors checkpoints")
        .file(input.display(""))
        .found(first_few(names, SHOWN))
        .expected("one file, an index, or the parts of one set, such as model-00001-of-00002.safetensors")
        .help("name the one to read, or put the files of one set into a directory of their own")
}

/// Tensors that ranks saved in parts.
#[derive(Default)]
struct Joined {
    tensors: Vec<Parts>,
    by_name: HashMap<Name, usize>,
}

struct Parts {
    tensor: Tensor,
    placement: Placement,
    /// The boxes that the parts are.
    regions: BTreeMap<Vec<u64>, Shape>,
}

impl Joined {
    fn add(&mut self, (tensor, placement): (Tensor, Placement), at: Option<&Vec<u64>>) -> Result<()> {
        let name = tensor.name.clone();
        let start = at.cloned().unwrap_or_else(|| vec![0; tensor.shape.rank()]);
        let wrong = |what: &str| Error::corrupt(format!("the parts of a tensor {what}")).tensor(&name);
        if start.len() != tensor.shape.rank() {
            return Err(wrong("begin at places of another rank").field(SHARDING));
        }
        let end = |(start, len): (&u64, &u64)| start.checked_add(*len);
        let ends: Option<Vec<u64>> = start.iter().zip(&tensor.shape[..]).map(end).collect();
        let ends = ends.ok_or_else(|| wrong("end beyond all numbers"))?;
        let region = Region { start: start.clone(), shape: tensor.shape.clone() };
        let number = *self.by_name.entry(name.clone()).or_insert(self.tensors.len());
        let Some(parts) = self.tensors.get_mut(number) else {
            let shape = Shape::new(ends).map_err(|error| error.tensor(&name))?;
            let mut placement = placement;
            placement.extents.iter_mut().for_each(|extent| extent.set_region(Some(region.clone())));
            let regions = BTreeMap::from([(start, region.shape)]);
            self.tensors.push(Parts { tensor: tensor.with_shape(shape), placement, regions });
            return Ok(());
        };
        if parts.tensor.dtype != tensor.dtype || parts.tensor.shape.rank() != tensor.shape.rank() {
            return Err(wrong("have different dtypes or ranks"));
        }
        match parts.regions.insert(start, region.shape.clone()) {
            // Several ranks saved the same part.
            Some(same) if same == region.shape => return Ok(()),
            Some(_) => return Err(wrong("begin at one place and have different shapes")),
            None => {}
        }
        let lens = parts.tensor.shape.iter().zip(ends).map(|(len, end)| (*len).max(end));
        parts.tensor.shape = Shape::new(lens.collect::<Vec<u64>>()).map_err(|error| error.tensor(&name))?;
        for mut extent in placement.extents.iter().cloned() {
            extent.set_region(Some(region.clone()));
            parts.placement.extents.push(extent);
        }
        Ok(())
    }

    /// Adds the tensors to the contents.
    fn finish(self, contents: &mut Contents) -> Result<()> {
        for Parts { tensor, mut placement, regions } in self.tensors {
            let found = regions.values().fold(0u64, |sum, shape| sum.saturating_add(shape.elements()));
            if found != tensor.shape.elements() {
                return Err(Error::unsupported("the parts of a tensor do not make it whole")
                    .tensor(&tensor.name)
                    .found(ckpt_api::count(found, "element"))
                    .expected(format!("{}, of shape {}", tensor.shape.elements(), tensor.shape))
                    .help("copy the files of all ranks into the directory"));
            }
            if let [extent] = &mut placement.extents[..] {
                extent.set_region(None);
            }
            placement.tensor = TensorId(contents.checkpoint.tensors.len());
            contents.checkpoint.tensors.push(tensor);
            contents.placements.push(placement);
        }
        Ok(())
    }
}
