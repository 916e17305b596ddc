//! Which file holds what, where no directory was read.

use super::parts::{Part, Parts, Shard};
use crate::write::fresh::Stored;
use crate::write::set;
use ckpt_api::{Error, Limit, Options, Region, Result, Shape};
use std::collections::HashSet;

/// Distributes the parts over files with the names that PyTorch gives them, `__0_0.distcp`. The option `ranks` cuts
/// tensors into equal parts of their first axis, as FSDP does; `shard_size` gives each file whole tensors. `lens` has the
/// bytes of each storage.
pub(super) fn distribute(parts: &Parts<'_>, lens: &[u64], options: &Options) -> Result<Vec<Shard>> {
    let room = set::shard_size(options)?;
    let ranks = options.count("ranks");
    let mut files: Vec<Vec<Part>> = match ranks {
        Some(_) if options.text("shard_size").is_some() => {
            return Err(
                Error::usage("ranks and shard_size both state how many files there are").field("ranks")
            );
        }
        Some(ranks) => {
            let most = Limit::Files.default_value();
            if !(1..most).contains(&ranks) {
                return Err(Error::usage("the number of ranks is out of range")
                    .field("ranks")
                    .found(ranks.to_string())
                    .expected(format!("1 to {}", most.saturating_sub(1))));
            }
            cut(parts, ranks)
        }
        None => whole(parts, lens, room),
    };
    let objects = (0..parts.objects.len()).map(Part::Object);
    match files.first_mut() {
        Some(first) => drop(first.splice(..0, objects)),
        None => files.push(objects.collect()),
    }
    let most = Limit::Files.default_value();
    if files.len() as u64 >= most {
        return Err(Error::usage("there would be too many shards")
            .field("shard_size")
            .found(ckpt_api::count(files.len(), "shard"))
            .expected(format!("fewer than {most}"))
            .help("choose a larger shard_size"));
    }
    let named = files.into_iter().enumerate();
    Ok(named.map(|(rank, parts)| Shard { path: format!("__{rank}_0.distcp"), parts }).collect())
}

/// The numbers of the tensors that are the first ones with their storages.
fn firsts<'a>(tensors: &'a [Stored<'_>]) -> impl Iterator<Item = usize> + use<'a> {
    let mut seen = HashSet::new();
    tensors
        .iter()
        .enumerate()
        .filter(move |(_, stored)| seen.insert(stored.storage))
        .map(|(number, _)| number)
}

fn whole(parts: &Parts<'_>, lens: &[u64], room: u64) -> Vec<Vec<Part>> {
    let of_storage = set::distribute(room, lens);
    let mut files: Vec<Vec<Part>> = Vec::new();
    for number in firsts(&parts.tensors) {
        let Some(stored) = parts.tensors.get(number) else { continue };
        let file = of_storage.get(stored.storage).copied().unwrap_or(0);
        if files.len() <= file {
            files.resize_with(file.saturating_add(1), Vec::new);
        }
        if let Some(file) = files.get_mut(file) {
            file.push(Part::Chunk(number, all(&stored.tensor.shape)));
        }
    }
    files
}

fn cut(parts: &Parts<'_>, ranks: u64) -> Vec<Vec<Part>> {
    let mut files: Vec<Vec<Part>> = Vec::new();
    for number in firsts(&parts.tensors) {
        let Some(stored) = parts.tensors.get(number) else { continue };
        for (rank, region) in rows(&stored.tensor.shape, ranks).into_iter().enumerate() {
            if files.len() <= rank {
                files.resize_with(rank.saturating_add(1), Vec::new);
            }
            if let Some(file) = files.get_mut(rank) {
                file.push(Part::Chunk(number, region));
            }
        }
    }
    files
}

/// Cuts a shape into so many boxes of equally many rows, of which the last ones may have fewer or none.
fn rows(shape: &Shape, ranks: u64) -> Vec<Region> {
    let Some(len) = shape.first().copied().filter(|_| shape.elements() > 0) else { return vec![all(shape)] };
    let each = len.div_ceil(ranks.max(1)).max(1);
    let rank = |rank: u64| {
        let first = rank.saturating_mul(each);
        let mut region = all(shape);
        region.shape = Shape::new(
            shape.iter().enumerate().map(|(axis, len)| if axis == 0 { each.min(len - first) } else { *len }),
        )
        .ok()?;
        region.start.first_mut().into_iter().for_each(|start| *start = first);
        Some(region)
    };
    (0..len.div_ceil(each)).filter_map(rank).collect()
}

/// The box of a whole tensor.
fn all(shape: &Shape) -> Region {
    Region { start: vec![0; shape.rank()], shape: shape.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(dims: &[u64], ranks: u64) -> Vec<(u64, u64)> {
        let all = rows(&Shape::new(dims).unwrap(), ranks);
        all.iter()
            .map(|region| (region.start.first().copied().unwrap_or(0), region.shape.elements()))
            .collect()
    }

    #[test]
    fn rows_are_cut_as_pytorch_cuts_them() {
        assert_eq!(starts(&[7, 2], 3), [(0, 6), (3, 6), (6, 2)]);
        assert_eq!(starts(&[4, 2], 3), [(0, 4), (2, 4)]);
        assert_eq!(starts(&[2], 8), [(0, 1), (1, 1)]);
        assert_eq!(starts(&[], 2), [(0, 1)]);
        assert_eq!(starts(&[0, 3], 2), [(0, 0)]);
        assert_eq!(starts(&[5], 1), [(0, 5)]);
    }
}
