//! How the elements of a chunk become its bytes.

use ckpt_api::{Endian, Error, Result};

/// How a chunk is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chain {
    /// Axes of the chunk in stored order, slowest first: what zarr calls a transposition.
    pub(crate) order: Vec<usize>,
    pub(crate) step: Step,
}

/// How elements, in their order, become bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// One after the other; then these codecs, in the order of writing.
    Bytes { endian: Endian, codecs: Vec<ByteCodec> },
    /// In chunks of their own, with an index.
    Sharding(Box<Sharding>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharding {
    /// Lengths of a chunk within the shard, for each axis in stored order.
    pub(crate) chunk: Vec<u64>,
    pub(crate) chain: Chain,
    pub(crate) index: IndexPlace,
}

/// How the index of a shard is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPlace {
    pub(crate) endian: Endian,
    pub(crate) has_checksum: bool,
    pub(crate) is_at_start: bool,
}

/// A codec from bytes to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteCodec {
    Zstd,
    Gzip,
    Zlib,
    Crc32c,
    Blosc,
}

/// The order of axes that leaves them as they are.
pub(crate) fn row_major(rank: usize) -> Vec<usize> {
    (0..rank).collect()
}

/// Axes in an order, put into another order.
pub(crate) fn composed(order: &[usize], then: &[usize]) -> Vec<usize> {
    then.iter().filter_map(|axis| order.get(*axis).copied()).collect()
}

/// Lengths of axes, in an order.
pub(crate) fn permuted(lens: &[u64], order: &[usize]) -> Vec<u64> {
    order.iter().filter_map(|axis| lens.get(*axis).copied()).collect()
}

/// The order that undoes another.
pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut axes = row_major(order.len());
    axes.sort_by_key(|axis| order.get(*axis).copied());
    axes
}

/// Checks that an order has each axis once.
pub(crate) fn check_order(order: &[usize], rank: usize) -> Result<()> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    match sorted == row_major(rank) {
        true => Ok(()),
        false => Err(Error::corrupt("the order of axes has not each of them once")
            .field("transpose")
            .found(format!("{order:?}"))
            .expected(format!("the numbers from 0 to {rank} (exclusive)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_composed_and_undone() {
        let order = [2, 0, 1];
        assert_eq!(permuted(&[5, 6, 7], &order), [7, 5, 6]);
        assert_eq!(composed(&order, &inverse(&order)), [0, 1, 2]);
        assert!(check_order(&order, 3).is_ok() && check_order(&[0, 0, 1], 3).is_err());
    }
}
