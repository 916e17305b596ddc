//! Kernels that move elements of any type.

use super::run::{Dispatch, integers};
use super::sizes::{Sizes, axes, pairs};
use crate::shader;
use ckpt_api::Result;
use ckpt_forward::kernel::{Border, Copy, Gather, MAX_RANK, Pad};
use ckpt_forward::{Element, not_on_device};

fn moved(sizes: Sizes) -> Result<()> {
    if sizes.element == Element::F64 { Err(sizes.no_binary64()) } else { Ok(()) }
}

pub(super) fn copy(sizes: Sizes, copy: &Copy) -> Result<Dispatch> {
    moved(sizes)?;
    let rank = copy.shape.len();
    let mut words = vec![sizes.word(rank)?];
    for values in [&copy.shape, &copy.from.strides, &copy.to.strides] {
        words.extend(axes(sizes, rank, values)?);
    }
    words.extend(sizes.words([copy.from.offset, copy.to.offset])?);
    let read = sizes.reach(copy.from.offset, &pairs(&copy.shape, &copy.from.strides))?;
    let written = sizes.reach(copy.to.offset, &pairs(&copy.shape, &copy.to.strides))?;
    let threads = sizes.word(sizes.product(&copy.shape)?)?;
    let operands = vec![Some(sizes.like_output(read))];
    Ok(Dispatch::assemble(shader::COPY, threads, &words, operands, sizes.like_output(written)))
}

pub(super) fn pad(sizes: Sizes, pad: &Pad) -> Result<Dispatch> {
    moved(sizes)?;
    let rank = pad.input.len();
    let mut words = vec![sizes.word(rank)?];
    words.extend(axes(sizes, rank, &pad.input)?);
    words.extend(axes(sizes, rank, &pad.output)?);
    if pad.before.len() != rank {
        return Err(sizes.contradiction("a padding for other axes"));
    }
    let mut before = [0; MAX_RANK];
    for (word, value) in before.iter_mut().zip(&pad.before) {
        // No index is as large, so that what is further outside is outside in the same way.
        let value = i32::try_from(*value).unwrap_or(if *value < 0 { i32::MIN } else { i32::MAX });
        *word = value.clamp(-(1 << 30), 1 << 30).cast_unsigned();
    }
    words.extend(before);
    let is_edge = match pad.border {
        Border::Nearest => true,
        Border::Value(0.0) => false,
        _ => return Err(not_on_device(sizes.kernel)),
    };
    words.push(u32::from(is_edge));
    let (read, written) = (sizes.product(&pad.input)?, sizes.product(&pad.output)?);
    if is_edge && read == 0 && written > 0 {
        return Err(sizes.contradiction("an edge of nothing to repeat"));
    }
    let operands = vec![Some(sizes.like_output(read))];
    Ok(Dispatch::assemble(shader::PAD, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn gather(sizes: Sizes, gather: &Gather) -> Result<Dispatch> {
    moved(sizes)?;
    let [row, column] = gather.strides;
    let words = sizes.words([gather.columns, gather.table, row, column])?;
    let table = sizes.reach(0, &[(gather.table, row), (gather.columns, column)])?;
    let written = sizes.product(&[gather.rows, gather.columns])?;
    let operands = vec![Some(sizes.like_output(table)), Some(integers(sizes.product(&[gather.rows])?))];
    Ok(Dispatch::assemble(shader::GATHER, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}
