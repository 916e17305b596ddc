//! Tensors of which only some elements are stored.
//!
//! The axes, and blocks on them, are levels of a tree. A dense level has a branch for each index; a sparse one lists, for
//! each branch of the level before, the indices that have branches. A leaf is a stored element.

use crate::decode::{Level, Tree};
use crate::flat::Table;
use ckpt_api::{Error, Result, Shape};

/// Numbers of the fields of sparsity, and of a level.
const ORDER: u64 = 0;
const BLOCK_MAP: u64 = 1;
const LEVELS: u64 = 2;
const FORMAT: u64 = 0;
const DENSE_SIZE: u64 = 1;
/// The types and tables of a level's segments and indices.
const SEGMENTS: [u64; 2] = [2, 3];
const INDICES: [u64; 2] = [4, 5];

/// Reads which elements of a tensor are stored, and checks that they are elements of it.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for levels that do not fit the shape or each other.
pub(crate) fn tree(table: &Table<'_>, shape: &Shape) -> Result<Tree> {
    tree_at(table, shape).map_err(|error| error.offset(table.at).field("sparsity"))
}

fn tree_at(table: &Table<'_>, shape: &Shape) -> Result<Tree> {
    let (rank, order) = (shape.rank(), table.i32s(ORDER)?);
    let blocks: Vec<usize> = positions(&table.i32s(BLOCK_MAP)?, rank, "a block is on an axis")?;
    let order = positions(&order, rank.saturating_add(blocks.len()), "the order has a level")?;
    let mut is_new = vec![true; order.len()];
    let is_complete = order.iter().all(|at| is_new.get_mut(*at).is_some_and(std::mem::take));
    let axes_first = order.iter().take(rank).all(|at| *at < rank);
    if order.len() != rank.saturating_add(blocks.len()) || !is_complete || !axes_first {
        return Err(Error::corrupt("the order of the levels is not one of the tensor's axes and blocks")
            .found(format!("{order:?}"))
            .expected(format!("each of {rank} axes, and then each of {} blocks", blocks.len())));
    }
    let tables = table.tables(LEVELS)?.filter(|tables| tables.len == order.len() as u64);
    let tables = tables.ok_or_else(|| {
        Error::corrupt("the levels are not as many as their order has").expected(order.len().to_string())
    })?;
    let levels = (0..tables.len).map(|index| tables.table(index)).collect::<Result<Vec<_>>>()?;
    let sizes = sizes(&levels, &order, &blocks, shape)?;
    let strides = strides(&order, &blocks, &sizes, shape);
    let (mut tree, mut branches) = (Tree::default(), 1u64);
    for (index, table) in levels.iter().enumerate() {
        let at = |all: &[u64]| all.get(index).copied().unwrap_or(1);
        let level = level(table, at(&sizes), at(&strides), &mut branches);
        tree.levels.push(level.map_err(|error| error.field(format!("sparsity level {index}")))?);
    }
    tree.elements = branches;
    Ok(tree)
}

/// Numbers that are less than `end`.
fn positions(numbers: &[i32], end: usize, what: &str) -> Result<Vec<usize>> {
    let position = |number: &i32| usize::try_from(*number).ok().filter(|number| *number < end);
    numbers
        .iter()
        .map(|number| {
            position(number).ok_or_else(|| {
                Error::corrupt(format!("{what} that does not exist"))
                    .found(number.to_string())
                    .expected(format!("less than {end}"))
            })
        })
        .collect()
}

/// The number of indices of each level: those of blocks are stated, and an axis has as many as blocks leave of it.
fn sizes(levels: &[Table<'_>], order: &[usize], blocks: &[usize], shape: &Shape) -> Result<Vec<u64>> {
    let mut sizes = vec![0; order.len()];
    let mut rest: Vec<u64> = shape.to_vec();
    for ((level, at), size) in levels.iter().zip(order).zip(&mut sizes) {
        let Some(axis) = at.checked_sub(shape.rank()).and_then(|block| blocks.get(block)) else { continue };
        let stated = u64::try_from(level.i32(DENSE_SIZE, 0)?).ok();
        let len =
            rest.get_mut(*axis).filter(|len| stated.is_some_and(|size| len.checked_rem(size) == Some(0)));
        let (Some(stated), Some(len)) = (stated, len) else {
            return Err(Error::corrupt("blocks do not divide their axis")
                .found(format!("blocks of {} on axis {axis}", stated.unwrap_or_default()))
                .expected(format!("a divisor of axis {axis} of {shape}")));
        };
        (*size, *len) = (stated, len.checked_div(stated).unwrap_or_default());
    }
    for (at, size) in order.iter().zip(&mut sizes) {
        if let Some(len) = rest.get(*at) {
            *size = *len;
        }
    }
    Ok(sizes)
}

/// How many elements of the tensor the next index of each level is further on.
fn strides(order: &[usize], blocks: &[usize], sizes: &[u64], shape: &Shape) -> Vec<u64> {
    let mut next: Vec<u64> = vec![1; shape.rank()];
    let mut product = 1u64;
    for (stride, len) in next.iter_mut().zip(&shape[..]).rev() {
        *stride = product;
        product = product.saturating_mul(*len);
    }
    let mut strides = vec![1; order.len()];
    // The last block on an axis has its neighboring elements.
    for ((at, size), stride) in order.iter().zip(sizes).zip(&mut strides).rev() {
        let axis = at.checked_sub(shape.rank()).and_then(|block| blocks.get(block)).unwrap_or(at);
        if let Some(next) = next.get_mut(*axis) {
            *stride = *next;
            *next = next.saturating_mul(*size);
        }
    }
    strides
}

/// Reads a level; `branches` are those of the level before, and then its own.
fn level(table: &Table<'_>, size: u64, stride: u64, branches: &mut u64) -> Result<Level> {
    if table.i8(FORMAT, 0)? == 0 {
        let stated = table.i32(DENSE_SIZE, 0)?;
        if u64::try_from(stated).ok() != Some(size) {
            return Err(Error::corrupt("a dense level does not fit the tensor")
                .found(stated.to_string())
                .expected(size.to_string()));
        }
        *branches =
            branches.checked_mul(size).ok_or_else(|| Error::corrupt("a level has too many branches"))?;
        return Ok(Level::Dense { size, stride });
    }
    let segments = list(table, SEGMENTS)?;
    let indices = list(table, INDICES)?;
    let expected = branches.checked_add(1);
    if Some(segments.len() as u64) != expected || segments.first() != Some(&0) {
        return Err(Error::corrupt("the segments of a level do not fit the level before")
            .found(format!("{} from {:?}", ckpt_api::count(segments.len(), "bound"), segments.first()))
            .expected(format!("{} from 0", ckpt_api::count(branches.saturating_add(1), "bound"))));
    }
    if let Some(pair) = segments.windows(2).find(|pair| !pair.is_sorted()) {
        return Err(Error::corrupt("the segments of a level go back")
            .found(format!("{pair:?}"))
            .expected("bounds that do not fall"));
    }
    let last = segments.last().copied().unwrap_or_default();
    if indices.len() as u64 != u64::from(last) {
        return Err(Error::corrupt("the indices of a level are not as many as its segments state")
            .found(indices.len().to_string())
            .expected(last.to_string()));
    }
    if let Some(index) = indices.iter().find(|index| u64::from(**index) >= size) {
        return Err(Error::corrupt("an index is outside its axis")
            .found(index.to_string())
            .expected(format!("less than {size}")));
    }
    *branches = last.into();
    Ok(Level::Sparse { stride, segments, indices })
}

/// The numbers of a level: a vector of integers of 32 signed, or 16 or 8 unsigned bits, in a table of its own.
fn list(table: &Table<'_>, [kind, vector]: [u64; 2]) -> Result<Vec<u32>> {
    let wrong = || Error::corrupt("a sparse level lacks its numbers");
    let own = table.table(vector)?.ok_or_else(wrong)?;
    match table.u8(kind, 0)? {
        1 => own
            .i32s(0)?
            .into_iter()
            .map(|number| {
                u32::try_from(number)
                    .map_err(|_| Error::corrupt("a number of a level is negative").found(number.to_string()))
            })
            .collect(),
        2 => {
            let bytes = own.vector(0, 2)?.ok_or_else(wrong)?.bytes(2)?;
            Ok(bytes.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes).into()).collect())
        }
        3 => {
            let bytes = own.vector(0, 1)?.ok_or_else(wrong)?.bytes(1)?;
            Ok(bytes.into_iter().map(u32::from).collect())
        }
        other => Err(Error::corrupt("the numbers of a level have an unknown type").found(other.to_string())),
    }
}
