//! Symbol tables: the B-tree, the heap of names, and the nodes of a group.

use super::encode::UNDEFINED;
use ckpt_api::Writer;

/// Half of the symbols that a node holds, and half of the children of a tree's node: what the superblock states.
pub(super) const HALF_SYMBOLS: usize = 4;
pub(super) const HALF_CHILDREN: usize = 16;
const SYMBOLS: usize = 2 * HALF_SYMBOLS;
const CHILDREN: usize = 2 * HALF_CHILDREN;

const HEAP: u64 = 32;
const SYMBOL_NODE: u64 = 8 + 40 * SYMBOLS as u64;
const TREE_NODE: u64 = 24 + 16 * CHILDREN as u64 + 8;
/// The name that comes before all others is empty.
const EMPTY_NAME: u64 = 8;
/// There is no free space in the heap.
const NOTHING_FREE: u64 = 1;

/// A member of a group.
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    /// Offset of its object header.
    pub(super) header: u64,
    /// The tree and heap of a group.
    pub(super) table: Option<Places>,
}

/// Where the parts of a symbol table are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) heap: u64,
    /// The root of the tree.
    pub(super) tree: u64,
}

impl Places {
    /// The parts of a symbol table that begins at this offset.
    pub(super) fn after(at: u64) -> Self {
        Places { heap: at, tree: at + HEAP }
    }
}

/// Bytes of a name in the heap.
fn name_len(name: &str) -> u64 {
    (name.len() as u64 + 1).next_multiple_of(8)
}

/// The numbers of nodes of each level: nodes of symbols first, the root last.
fn levels(members: usize) -> Vec<usize> {
    let mut levels = vec![members.div_ceil(SYMBOLS), members.div_ceil(SYMBOLS).div_ceil(CHILDREN).max(1)];
    while let Some(last) = levels.last().filter(|last| **last > 1) {
        levels.push(last.div_ceil(CHILDREN));
    }
    levels
}

/// Bytes of the symbol table of a group with these members.
pub(super) fn len<'a>(names: impl Iterator<Item = &'a str>) -> u64 {
    let (mut heap, mut members) = (EMPTY_NAME, 0);
    for name in names {
        heap += name_len(name);
        members += 1;
    }
    let levels = levels(members);
    let (symbols, trees) =
        levels.split_first().map(|(first, rest)| (*first, rest.iter().sum())).unwrap_or((0, 0usize));
    HEAP + TREE_NODE * trees as u64 + heap + SYMBOL_NODE * symbols as u64
}

/// The bytes of a symbol table: the heap's header, the tree from the root down, names, nodes of symbols.
pub(super) fn bytes(symbols: &[Symbol<'_>], places: &Places) -> Vec<u8> {
    let mut names = Writer::new();
    names.number(0u64);
    let mut offsets = Vec::with_capacity(symbols.len());
    for symbol in symbols {
        offsets.push(names.len());
        names.bytes(symbol.name.as_bytes());
        names.bytes(&vec![0; name_len(symbol.name) as usize - symbol.name.len()]);
    }
    let levels = levels(symbols.len());
    let trees: usize = levels.iter().skip(1).sum();
    let names_at = places.tree + TREE_NODE * trees as u64;
    let symbols_at = names_at + names.len();
    let mut bytes = Writer::new();
    bytes.bytes(b"HEAP").number(0u32).numbers(&[names.len(), NOTHING_FREE, names_at]);
    tree(&mut bytes, &levels, &offsets, places.tree, symbols_at);
    bytes.bytes(&names.into_bytes());
    for (symbols, offsets) in symbols.chunks(SYMBOLS).zip(offsets.chunks(SYMBOLS)) {
        symbol_node(&mut bytes, symbols, offsets);
    }
    bytes.into_bytes()
}

/// Writes the nodes of the tree, the root first.
fn tree(bytes: &mut Writer, levels: &[usize], names: &[u64], root: u64, symbols_at: u64) {
    let mut at = root;
    for (level, count) in levels.iter().enumerate().skip(1).rev() {
        let below = levels.get(level - 1).copied().unwrap_or_default();
        let (children_at, child_len) = match level {
            1 => (symbols_at, SYMBOL_NODE),
            _ => (at + TREE_NODE * *count as u64, TREE_NODE),
        };
        // Symbols below each child.
        let reach = SYMBOLS.saturating_mul(CHILDREN.saturating_pow(level as u32 - 1));
        // The greatest name below a child: the key after it.
        let last_name = |child: usize| {
            let last = (child + 1).saturating_mul(reach).min(names.len());
            last.checked_sub(1).and_then(|last| names.get(last)).copied().unwrap_or(0)
        };
        for node in 0..*count {
            let sibling = |number: Option<usize>| match number.filter(|number| number < count) {
                Some(number) => at + TREE_NODE * number as u64,
                None => UNDEFINED,
            };
            let children = node * CHILDREN..((node + 1) * CHILDREN).min(below);
            let start = bytes.len();
            bytes.bytes(b"TREE").bytes(&[0, level as u8 - 1]).number(children.len() as u16);
            bytes.numbers(&[sibling(node.checked_sub(1)), sibling(Some(node + 1))]);
            bytes.number(children.start.checked_sub(1).map_or(0, last_name));
            for child in children {
                bytes.number(children_at + child_len * child as u64).number(last_name(child));
            }
            let rest = TREE_NODE.saturating_sub(bytes.len() - start);
            bytes.bytes(&vec![0; rest as usize]);
        }
        at = children_at;
    }
}

fn symbol_node(bytes: &mut Writer, symbols: &[Symbol<'_>], names: &[u64]) {
    let start = bytes.len();
    bytes.bytes(b"SNOD").bytes(&[1, 0]).number(symbols.len() as u16);
    for (symbol, name) in symbols.iter().zip(names) {
        bytes.numbers(&[*name, symbol.header]);
        match &symbol.table {
            Some(table) => bytes.numbers(&[1u32, 0]).numbers(&[table.tree, table.heap]),
            None => bytes.numbers(&[0u32, 0]).numbers(&[0u64, 0]),
        };
    }
    let rest = SYMBOL_NODE.saturating_sub(bytes.len() - start);
    bytes.bytes(&vec![0; rest as usize]);
}
