//! B-trees of version 1: those of symbol tables, and of chunks.

use super::space::{Fields, Space};
use ckpt_api::fields::{array, le};
use ckpt_api::{Error, Result};
use std::collections::HashSet;

/// Bytes before the first key.
const PREFIX: u64 = 8;

/// What a tree is about, by the number that its nodes state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Group,
    /// Chunks of so many axes.
    Chunks(usize),
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Group => 0,
            Kind::Chunks(_) => 1,
        }
    }

    fn key_bytes(self, lengths: u8) -> u64 {
        match self {
            Kind::Group => lengths.into(),
            Kind::Chunks(rank) => 8 + 8 * (rank as u64 + 1),
        }
    }
}

/// Calls `visit` for each child of a leaf, with the fields of its key, and its address. No node is visited twice.
pub(crate) fn walk(
    space: &Space<'_>,
    root: u64,
    kind: Kind,
    mut visit: impl FnMut(&mut Fields<'_>, u64) -> Result<()>,
) -> Result<()> {
    let mut seen = HashSet::new();
    let mut waiting = vec![(root, None::<u8>)];
    let key_bytes = kind.key_bytes(space.sizes.length);
    let entry = key_bytes.saturating_add(space.sizes.address.into());
    while let Some((address, expected)) = waiting.pop() {
        let header = PREFIX + 2 * u64::from(space.sizes.address);
        let head = space.block(address, header, "a B-tree node")?;
        let mut fields = head.signed(*b"TREE")?;
        let ([number, level], count) = fields.parse((array, le::<u16>))?;
        let is_expected = expected.is_none_or(|expected| expected == level);
        if number != kind.number() || !is_expected || !seen.insert(address) {
            return Err(Error::corrupt("the nodes of a B-tree contradict each other")
                .offset(head.at)
                .found(format!("kind {number}, level {level}")));
        }
        let start = address.saturating_add(header);
        let block = space.block(start, u64::from(count).saturating_mul(entry), "a B-tree node")?;
        let mut fields = block.fields();
        let mut children = Vec::new();
        for _ in 0..count {
            let key = fields.bytes(key_bytes)?;
            let child = fields.some_address("a child of a B-tree node")?;
            match level {
                0 => visit(&mut Fields::new(key, block.at, space.sizes), child)?,
                _ => children.push((child, Some(level - 1))),
            }
        }
        waiting.extend(children.into_iter().rev());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{Input, Limits};

    /// The address of the second node; the first is at 0.
    const SECOND: u64 = 64;

    /// Two nodes of a group's tree: of each its level, and its child.
    fn walked(nodes: [(u8, u64); 2]) -> Result<Vec<u64>> {
        let mut bytes = Vec::new();
        for (level, child) in nodes {
            bytes.extend(*b"TREE");
            bytes.extend([0, level, 1, 0]);
            // No siblings, and a key.
            bytes.extend([0xff; 16]);
            bytes.extend([0; 8]);
            bytes.extend(child.to_le_bytes());
            bytes.resize(bytes.len().next_multiple_of(SECOND as usize), 0);
        }
        let file = Input::memory("f", [("f".to_owned(), bytes)].into()).main()?;
        let limits = Limits::default();
        let mut leaves = Vec::new();
        walk(&Space::new(&file, &limits), 0, Kind::Group, |_, child| {
            leaves.push(child);
            Ok(())
        })?;
        Ok(leaves)
    }

    #[test]
    fn a_node_leads_to_nodes_of_the_level_below_it() {
        assert_eq!(walked([(1, SECOND), (0, 7)]).unwrap(), [7]);
        for nodes in [[(2, SECOND), (0, 7)], [(1, SECOND), (1, 0)], [(1, 0), (0, 7)]] {
            let error = walked(nodes).unwrap_err();
            assert!(error.to_string().contains("contradict each other"), "{nodes:?}: {error}");
        }
    }
}
