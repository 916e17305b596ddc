//! B-trees of version 2: those of dense links and attributes, and of chunks.

use super::space::{Block, Fields, Space};
use ckpt_api::fields::{le, skip};
use ckpt_api::{Error, Result};
use nom::sequence::terminated;
use std::collections::HashSet;

/// Signature, version and kind before the records, and the checksum.
const PREFIX: u64 = 6;
const OVERHEAD: u64 = PREFIX + 4;

/// What a tree is about, by the number that it states.
pub(crate) const LINKS_BY_NAME: u8 = 5;
pub(crate) const ATTRIBUTES_BY_NAME: u8 = 8;
pub(crate) const CHUNKS: u8 = 10;
pub(crate) const FILTERED_CHUNKS: u8 = 11;

/// A tree's header.
pub(crate) struct Tree {
    kind: u8,
    node: u64,
    /// Bytes of one record.
    pub(crate) record: u64,
    depth: u16,
    root: Option<u64>,
    root_records: u64,
}

impl Tree {
    /// Reads the header of a tree of one of these kinds.
    pub(crate) fn read(space: &Space<'_>, address: u64, kinds: &[u8]) -> Result<Self> {
        let len = 22 + u64::from(space.sizes.address) + u64::from(space.sizes.length);
        let block = space.block(address, len, "a B-tree's header")?;
        let mut fields = block.signed(*b"BTHD")?;
        block.check_sum()?;
        fields.version("a B-tree", &[0])?;
        let (kind, node, record, depth) =
            fields.parse(terminated((le::<u8>, le::<u32>, le::<u16>, le::<u16>), skip(2)))?;
        let (node, record) = (node.into(), record.into());
        let root = fields.address()?;
        let root_records = fields.parse(le::<u16>)?.into();
        let tree = Tree { kind, node, record, depth, root, root_records };
        if !kinds.contains(&kind) || record == 0 || node < OVERHEAD || depth > 32 {
            return Err(Error::corrupt("a B-tree is not what it should be").offset(block.at).found(format!(
                "kind {kind}, depth {depth}, records of {} in nodes of {}",
                ckpt_api::count(record, "byte"),
                ckpt_api::count(node, "byte")
            )));
        }
        Ok(tree)
    }

    pub(crate) fn kind(&self) -> u8 {
        self.kind
    }

    /// Calls `visit` with each record. No node is visited twice.
    pub(crate) fn walk(
        &self,
        space: &Space<'_>,
        mut visit: impl FnMut(&mut Fields<'_>) -> Result<()>,
    ) -> Result<()> {
        let levels = self.levels(space);
        let mut seen = HashSet::new();
        let mut waiting: Vec<(u64, u64, u16)> =
            self.root.map(|root| (root, self.root_records, self.depth)).into_iter().collect();
        while let Some((address, records, depth)) = waiting.pop() {
            let block = self.node(space, &levels, address, records, depth)?;
            if !seen.insert(address) {
                return Err(Error::corrupt("a node of a B-tree is named twice").offset(block.at));
            }
            let mut fields = block.fields();
            fields.skip(PREFIX)?;
            for _ in 0..records {
                let record = fields.bytes(self.record)?;
                visit(&mut Fields::new(record, block.at, space.sizes))?;
            }
            if let Some(depth_below) = depth.checked_sub(1) {
                let below = levels.get(usize::from(depth_below)).copied().unwrap_or_default();
                for _ in 0..=records {
                    let child = fields.some_address("a child of a B-tree node")?;
                    let count = fields.number(below.count_bytes)?;
                    fields.skip(below.total_bytes.into())?;
                    waiting.push((child, count, depth_below));
                }
            }
        }
        Ok(())
    }

    /// Reads a node, and checks its checksum.
    fn node(
        &self,
        space: &Space<'_>,
        levels: &[Level],
        address: u64,
        records: u64,
        depth: u16,
    ) -> Result<Block> {
        let pointers = match depth.checked_sub(1).and_then(|below| levels.get(usize::from(below))) {
            Some(below) => below.pointer.saturating_mul(records.saturating_add(1)),
            None => 0,
        };
        let len = records.saturating_mul(self.record).saturating_add(pointers).saturating_add(OVERHEAD);
        let block = space.block(address, len.min(self.node), "a B-tree node")?;
        block.signed(if depth == 0 { *b"BTLF" } else { *b"BTIN" })?;
        if len > self.node {
            return Err(
                Error::corrupt("a B-tree node has more records than it has room for").offset(block.at)
            );
        }
        block.check_sum()?;
        Ok(block)
    }

    /// The sizes of pointers to nodes of each depth.
    fn levels(&self, space: &Space<'_>) -> Vec<Level> {
        let most_in_leaf = (self.node - OVERHEAD) / self.record;
        let count_bytes = bytes_for(most_in_leaf);
        let mut total = most_in_leaf;
        let mut levels = Vec::new();
        for depth in 0..self.depth {
            let total_bytes = if depth == 0 { 0 } else { bytes_for(total) };
            let pointer = u64::from(space.sizes.address) + u64::from(count_bytes) + u64::from(total_bytes);
            levels.push(Level { count_bytes, total_bytes, pointer });
            let most = self.node.saturating_sub(OVERHEAD + pointer) / (self.record + pointer);
            total = most.saturating_add(1).saturating_mul(total).saturating_add(most);
        }
        levels
    }
}

/// How a node is pointed to.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    count_bytes: u8,
    total_bytes: u8,
    /// Bytes of address and counts.
    pointer: u64,
}

/// Bytes of a number that is at most this.
pub(crate) fn bytes_for(most: u64) -> u8 {
    (most.max(1).ilog2() / 8 + 1) as u8
}
