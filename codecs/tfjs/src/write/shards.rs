//! Cuts the weights into shards.

use ckpt_api::{Encoding, Error, Extent, FileId, Limit, Region, Result, Shape, Tensor};

/// The files that have the weights, as far as they are laid out: their lengths in bytes.
#[derive(Debug)]
pub(super) struct Shards {
    /// Bytes of a file, at most.
    most: u64,
    pub(super) lens: Vec<u64>,
}

impl Shards {
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for files without a byte.
    pub(super) fn new(most: u64) -> Result<Self> {
        match most {
            0 => Err(Error::usage("a shard must hold at least one byte").field("shard_size").found("0")),
            _ => Ok(Shards { most, lens: Vec::new() }),
        }
    }

    /// Places the elements of a tensor. One that is larger than a shard is cut into boxes, of which each is one run of its
    /// elements.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] if an element is larger than a shard, and for too many boxes or shards.
    pub(super) fn place(&mut self, tensor: &Tensor, encoding: &Encoding) -> Result<Vec<Extent>> {
        let elements = tensor.shape.elements();
        let len = encoding.stored_len(elements).ok_or_else(too_large)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        if len <= self.most {
            return Ok(vec![self.next(len)?]);
        }
        let size = len / elements;
        let boxes = boxes(&tensor.shape, self.most / size).ok_or_else(|| {
            Error::usage("the shards are too small for the tensor")
                .field("shard_size")
                .found(crate::format::bytes(self.most))
                .help("choose a larger shard_size")
        })?;
        let place = |region: Region| {
            let len = region.shape.elements().checked_mul(size).ok_or_else(too_large)?;
            Ok(self.next(len)?.with_region(region))
        };
        boxes.into_iter().map(place).collect()
    }

    /// Places bytes that stay together: behind what the last shard has, or at the beginning of the next one.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for too many shards.
    pub(super) fn next(&mut self, len: u64) -> Result<Extent> {
        let room = self.lens.last().map_or(0, |own| self.most.saturating_sub(*own));
        if self.lens.is_empty() || len > room {
            let limit = Limit::Files.default_value();
            if self.lens.len() as u64 + 1 >= limit {
                return Err(Error::usage("there would be too many shards")
                    .field("shard_size")
                    .expected(format!("fewer than {limit}"))
                    .help("choose a larger shard_size"));
            }
            self.lens.push(0);
        }
        let file = FileId(self.lens.len().saturating_sub(1));
        let end = self.lens.last_mut().ok_or_else(too_large)?;
        let extent = Extent::new(file, *end, len);
        *end = end.checked_add(len).ok_or_else(too_large)?;
        Ok(extent)
    }
}

/// Cuts a shape into boxes of at most `most` elements, of which each is a run of elements, in their order; `None` if that takes
/// no element at all, or too many boxes.
fn boxes(shape: &Shape, most: u64) -> Option<Vec<Region>> {
    // The axis that is cut: one index of it fits.
    let mut below = 1u64;
    let mut axis = shape.rank();
    while axis > 0 {
        let wider = shape.get(axis - 1)?.checked_mul(below)?;
        axis -= 1;
        if wider > most {
            break;
        }
        below = wider;
    }
    let rows = most.checked_div(below).filter(|rows| *rows > 0)?;
    let len = *shape.get(axis)?;
    let before: u64 = shape.iter().take(axis).product();
    let count = before.checked_mul(len.div_ceil(rows))?;
    if count > Limit::Slices.default_value() {
        return None;
    }
    let mut boxes = Vec::new();
    let mut index = vec![0; axis];
    for _ in 0..before {
        let mut first = 0;
        while first < len {
            let taken = rows.min(len - first);
            let start = index.iter().copied().chain([first]).chain(shape.iter().skip(axis + 1).map(|_| 0));
            let lens = index.iter().map(|_| 1).chain([taken]).chain(shape.iter().skip(axis + 1).copied());
            boxes
                .push(Region { start: start.collect(), shape: Shape::new(lens.collect::<Vec<u64>>()).ok()? });
            first += taken;
        }
        for (at, whole) in index.iter_mut().zip(shape.iter()).rev() {
            *at += 1;
            if *at < *whole {
                break;
            }
            *at = 0;
        }
    }
    Some(boxes)
}

pub(super) fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{DType, check_cover};

    fn tensor(shape: &[u64]) -> Tensor {
        Tensor::new("w", DType::F32, Shape::new(shape).unwrap())
    }

    fn placed(shards: &mut Shards, shape: &[u64]) -> Vec<Extent> {
        let tensor = tensor(shape);
        shards.place(&tensor, &Encoding::row_major(&tensor)).unwrap()
    }

    #[test]
    fn a_tensor_that_fits_a_shard_stays_in_one() {
        let mut shards = Shards::new(40).unwrap();
        let places: Vec<(usize, u64)> = [5u64, 5, 1, 9, 10]
            .iter()
            .map(|len| placed(&mut shards, &[*len]))
            .map(|extents| (extents[0].file.0, extents[0].offset))
            .collect();
        assert_eq!(places, [(0, 0), (0, 20), (1, 0), (1, 4), (2, 0)]);
        assert_eq!(shards.lens, [40, 40, 40]);
    }

    #[test]
    fn a_larger_one_is_cut_into_runs_of_its_elements() {
        for shape in [&[100u64][..], &[7, 30], &[2, 3, 50], &[3, 40, 2], &[25, 1, 8]] {
            let mut shards = Shards::new(64).unwrap();
            let extents = placed(&mut shards, shape);
            let regions: Vec<&Region> = extents.iter().map(|extent| extent.region().unwrap()).collect();
            check_cover(&Shape::new(shape).unwrap(), &regions).unwrap();
            assert!(shards.lens.iter().all(|len| *len <= 64) && extents.len() > 1, "{shape:?}");
            let first = |region: &&Region| {
                region.start.iter().zip(shape).fold(0, |sum, (start, len)| sum * len + start)
            };
            assert!(regions.iter().map(first).is_sorted(), "{shape:?}");
        }
    }

    #[test]
    fn an_element_that_is_larger_than_a_shard_is_refused() {
        let mut shards = Shards::new(3).unwrap();
        let own = tensor(&[2]);
        assert!(shards.place(&own, &Encoding::row_major(&own)).is_err() && Shards::new(0).is_err());
    }
}
