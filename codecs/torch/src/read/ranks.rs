//! Joins the files of all ranks of a sharded training, `model_world_size_2_rank_0.pt`: each has a part of every distributed
//! tensor, and the same of all others.

use super::file;
use super::part::number_after;
use crate::container::{self, Sign};
use crate::format::keys::ZIP;
use crate::tensor::dtensor::is_distributed;
use crate::tensor::view::Distributed;
use ckpt_api::{
    Contents, Error, File, FileId, Input, Kind, Limit, Limits, Name, Placement, Region, Result, Rules, Shape,
    Tensor, TensorId, first_few,
};
use ckpt_containers::pickle::Names;
use std::collections::{BTreeMap, HashMap};

const WORLD: &str = "world_size_";
const RANK: &str = "_rank_";
/// Names that a message lists.
const SHOWN: usize = 8;

/// The files of all ranks, in their order, if these are the files of one training, or some are those of a model.
pub(super) fn set(names: &[String]) -> Option<Vec<String>> {
    let (count, files) = ranks(names)?;
    let is_whole = files.len() as u64 == count && files.keys().copied().eq(0..count);
    is_whole.then(|| files.into_values().cloned().collect())
}

/// The number of ranks that the names of one training state, and its files by their ranks.
fn ranks(names: &[String]) -> Option<(u64, BTreeMap<u64, &String>)> {
    let mut sets: BTreeMap<(&str, u64), BTreeMap<u64, &String>> = BTreeMap::new();
    for name in names {
        let numbers = number_after(name, WORLD).zip(number_after(name, RANK));
        if let Some(((stem, _), (count, rank))) = name.split_once(WORLD).zip(numbers) {
            sets.entry((stem, count)).or_default().insert(rank, name);
        }
    }
    if sets.len() > 1 {
        sets.retain(|(stem, _), _| stem.starts_with("model"));
    }
    let mut sets = sets.into_iter();
    let ((_, count), files) = sets.next().filter(|_| sets.next().is_none())?;
    Some((count, files))
}

/// The error of several files of which some are those of ranks, but not all by their names. `None` if none is.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub(super) fn unnamed(input: &Input, names: &[String]) -> Result<Option<Error>> {
    if names.len() < 2 {
        return Ok(None);
    }
    let wrong = |what: &str| Error::unsupported(what).file(input.display(""));
    let Some((count, files)) = ranks(names) else {
        let [first, ..] = names else { return Ok(None) };
        return Ok(has_distributed(&input.file(first)?, input.limits())?.then(|| {
            wrong("the files are those of ranks, and their names do not say of which")
                .found(first_few(names, SHOWN))
                .expected("model_world_size_2_rank_0.pt, and so on, for all ranks")
                .help("give the files of all ranks these names back, with the number of ranks and that of each rank")
        }));
    };
    let missing = (0..count).filter(|rank| !files.contains_key(rank)).take(SHOWN);
    let named = |rank: u64| {
        let (_, first) = files.first_key_value()?;
        let (before, after) = first.split_once(RANK)?;
        Some(format!(
            "{before}{RANK}{rank}{}",
            after.trim_start_matches(|digit: char| digit.is_ascii_digit())
        ))
    };
    let missing: Vec<String> = missing.filter_map(named).collect();
    let others: Vec<&String> = names.iter().filter(|name| !files.values().any(|file| file == name)).collect();
    let help = match others.is_empty() {
        true => "copy the files of all ranks into the directory",
        false => {
            "if one of these files is that of a rank, rename it back; otherwise, copy the files of all ranks"
        }
    };
    let found = match others.is_empty() {
        true => format!("{} of {count} ranks", files.len()),
        false => format!("{} of {count} ranks, and {}", files.len(), first_few(&others, SHOWN)),
    };
    let error = wrong("files of ranks of the distributed model are missing").found(found);
    Ok((!missing.is_empty()).then(|| error.expected(first_few(&missing, SHOWN)).help(help)))
}

/// Whether a file has parts of distributed tensors.
fn has_distributed(file: &File, limits: &Limits) -> Result<bool> {
    if container::sign(file, limits)? != Sign::Checkpoint {
        return Ok(false);
    }
    match container::open(file, limits) {
        Ok(saved) => Ok(Names::of(&saved.tree).has(is_distributed)),
        Err(error) if error.kind() == Kind::Io => Err(error),
        Err(_) => Ok(false),
    }
}

/// Reads the files of all ranks, in their order.
///
/// # Errors
/// Those of reading the files; [`ckpt_api::Kind::Corrupt`] for parts that do not fit each other;
/// [`ckpt_api::Kind::Unsupported`] for tensors that are cut otherwise than along one axis.
pub(super) fn read(input: &Input, names: &[String], rules: &mut Rules, limits: &Limits) -> Result<Contents> {
    limits.check(Limit::Files, names.len() as u64)?;
    input.will_open(names);
    let mut all = Contents::default();
    let mut joined: Vec<Joined> = Vec::new();
    let mut by_name: HashMap<Name, usize> = HashMap::new();
    for (rank, name) in names.iter().enumerate() {
        let file = input.file(name)?;
        let on_file = |error: Error| error.file(file.name());
        let (mut contents, mut parts) = file::read_rank(&file, None, rules, limits).map_err(on_file)?;
        all.files.push(name.clone());
        all.notes.append(&mut contents.notes);
        all.losses.append(&mut contents.losses);
        if rank == 0 {
            // What one file was written with says nothing of a set.
            contents.checkpoint.metadata.remove(ZIP);
            all.checkpoint.metadata = contents.checkpoint.metadata;
            all.missing_graph = contents.missing_graph;
        }
        for (tensor, mut placement) in contents.checkpoint.tensors.into_iter().zip(contents.placements) {
            placement.extents.iter_mut().for_each(|extent| extent.file = FileId(rank));
            let part = parts.remove(tensor.name.as_str());
            let name = tensor.name.clone();
            let on_tensor = |error: Error| on_file(error).tensor(&name);
            match by_name.get(&name).and_then(|place| joined.get_mut(*place)) {
                Some(joined) => joined.add(tensor, placement, part).map_err(on_tensor)?,
                None => {
                    by_name.insert(name.clone(), joined.len());
                    joined.push(Joined::new(tensor, placement, part).map_err(on_tensor)?);
                }
            }
        }
    }
    for own in joined {
        own.finish(&mut all)?;
    }
    all.notes.sort();
    all.notes.dedup();
    Ok(all)
}

/// A tensor of which some ranks were read.
struct Joined {
    tensor: Tensor,
    placement: Placement,
    cut: Option<Cut>,
}

/// Along which axis a tensor is cut, and how much of that was read.
struct Cut {
    axis: usize,
    read: u64,
}

impl Joined {
    fn new(mut tensor: Tensor, mut placement: Placement, part: Option<Distributed>) -> Result<Self> {
        let Some(part) = part else { return Ok(Joined { tensor, placement, cut: None }) };
        let whole = part.whole.clone();
        let mut cut = Cut { axis: axis(&part)?, read: 0 };
        cut.place(&whole, &tensor.shape, &mut placement)?;
        tensor.shape = whole;
        Ok(Joined { tensor, placement, cut: Some(cut) })
    }

    fn add(&mut self, tensor: Tensor, mut placement: Placement, part: Option<Distributed>) -> Result<()> {
        let differ = || Error::corrupt("the files of the ranks have different tensors of one name");
        if tensor.dtype != self.tensor.dtype || tensor.quantization != self.tensor.quantization {
            return Err(differ().found(format!("{} and {}", self.tensor.dtype, tensor.dtype)));
        }
        match (&mut self.cut, part) {
            // Every rank has it.
            (None, None) if tensor.shape == self.tensor.shape => Ok(()),
            (Some(cut), Some(part)) if axis(&part)? == cut.axis && part.whole == self.tensor.shape => {
                cut.place(&part.whole, &tensor.shape, &mut placement)?;
                if tensor.shape.elements() > 0 && self.placement.extents.is_empty() {
                    self.placement = placement;
                } else if tensor.shape.elements() > 0 {
                    if placement.encoding != self.placement.encoding {
                        return Err(Error::unsupported(
                            "the ranks store the parts of the tensor differently",
                        ));
                    }
                    self.placement.extents.extend(placement.extents);
                }
                Ok(())
            }
            _ => Err(differ().found(format!("{} and {}", self.tensor.shape, tensor.shape))),
        }
    }

    fn finish(mut self, all: &mut Contents) -> Result<()> {
        if let Some(cut) = self.cut {
            let len = self.tensor.shape.get(cut.axis).copied().unwrap_or(0);
            if cut.read != len {
                let detail = format!(
                    "{} of {len} indices of axis {} are in the files of the ranks",
                    cut.read, cut.axis
                );
                return Err(Error::corrupt("the parts of a distributed tensor do not make it whole")
                    .tensor(&self.tensor.name)
                    .found(detail));
            }
        }
        self.placement.tensor = TensorId(all.checkpoint.tensors.len());
        all.checkpoint.tensors.push(self.tensor);
        all.placements.push(self.placement);
        Ok(())
    }
}

impl Cut {
    /// Makes a part's extents those of the whole tensor, after the parts that were read.
    fn place(&mut self, whole: &Shape, part: &Shape, placement: &mut Placement) -> Result<()> {
        let unfit =
            || Error::corrupt("a part of a distributed tensor does not fit it").found(part.to_string());
        let len = part.get(self.axis).copied().ok_or_else(unfit)?;
        let end = self.read.checked_add(len).ok_or_else(unfit)?;
        let fits = |(axis, (whole, part)): (usize, (&u64, &u64))| match axis == self.axis {
            true => end <= *whole,
            false => whole == part,
        };
        if part.rank() != whole.rank() || !whole.iter().zip(part.iter()).enumerate().all(fits) {
            return Err(unfit().expected(format!("a part of {whole} along axis {}", self.axis)));
        }
        if placement.window().is_some() || placement.extents.iter().any(|extent| extent.region().is_some()) {
            return Err(Error::unsupported("a part of a distributed tensor is a view of a larger storage"));
        }
        let mut start = vec![0; whole.rank()];
        start.iter_mut().skip(self.axis).take(1).for_each(|start| *start = self.read);
        self.read = end;
        match part.elements() {
            0 => placement.extents = Vec::new().into(),
            _ => placement.extents.iter_mut().for_each(|extent| {
                extent.set_region(Region { start: start.clone(), shape: part.clone() });
            }),
        }
        Ok(())
    }
}

fn axis(part: &Distributed) -> Result<usize> {
    part.axis.ok_or_else(|| {
        Error::unsupported("a distributed tensor is cut otherwise than along one axis")
            .found(&part.placements)
            .expected("one placement, such as Shard(0)")
            .help("save it with torch.distributed.checkpoint, or save full_tensor() of it")
    })
}
