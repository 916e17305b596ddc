//! Kernels of real numbers alone, and the functions of one integer.

use super::run::{Dispatch, Requirement};
use super::sizes::{Sizes, bits, count_bits, window};
use crate::shader;
use ckpt_api::Result;
use ckpt_forward::kernel::{
    Affine, Function, LayerNorm, Pool, PoolKind, Reduce, Reduction, Softmax, StaticFeatures, Unary,
};
use ckpt_forward::{Element, not_on_device};

pub(super) fn unary(sizes: Sizes, unary: &Unary) -> Result<Dispatch> {
    let shader = sizes.by_element(shader::UNARY, shader::UNARY_INTEGER)?;
    let (words, element) = match sizes.element {
        Element::I32 => (integer_function(sizes, unary.function)?, Element::I32),
        _ => real_function(sizes, unary.function)?,
    };
    let operands = vec![Some(Requirement { element, len: unary.len })];
    Ok(Dispatch::assemble(shader, sizes.word(unary.len)?, &words, operands, sizes.like_output(unary.len)))
}

/// The function's number in `unary.wgsl` and its constants; what it reads.
fn real_function(sizes: Sizes, function: Function) -> Result<([u32; 3], Element)> {
    let words = match function {
        Function::Relu => [0, 0, 0],
        Function::LeakyRelu { alpha } => [1, bits(alpha), 0],
        Function::Elu { alpha } => [2, bits(alpha), 0],
        Function::Gelu { tanh: false } => [3, 0, 0],
        Function::Gelu { tanh: true } => [4, 0, 0],
        Function::Softplus => [5, 0, 0],
        Function::Sigmoid => [6, 0, 0],
        Function::Tanh => [7, 0, 0],
        Function::Clip { min, max } => [8, bits(min), bits(max)],
        Function::Square => [9, 0, 0],
        Function::Dequantize { divide } => return Ok(([10, bits(divide), 0], Element::I32)),
        Function::Scale { .. } => {
            return Err(sizes.refused("this operation supports only integers"));
        }
        _ => return Err(not_on_device(sizes.kernel)),
    };
    Ok((words, Element::F32))
}

/// The function's number in `unary_integer.wgsl` and its constants.
fn integer_function(sizes: Sizes, function: Function) -> Result<[u32; 3]> {
    Ok(match function {
        Function::Relu => [0, 0, 0],
        Function::Clip { min, max } => {
            [1, bound(sizes, min.ceil())?.cast_unsigned(), bound(sizes, max.floor())?.cast_unsigned()]
        }
        Function::Square => [2, 0, 0],
        Function::Scale { divide: 0, .. } => return Err(sizes.contradiction("a division by 0")),
        Function::Scale { multiply, divide } => [3, multiply.cast_unsigned(), divide.cast_unsigned()],
        function if function.has_integers() => return Err(not_on_device(sizes.kernel)),
        _ => {
            sizes.real()?;
            [0; 3]
        }
    })
}

/// An integer's bound; one beyond all integers is their end.
#[expect(clippy::cast_possible_truncation, reason = "it is an integer, and the conversion saturates")]
fn bound(sizes: Sizes, value: f64) -> Result<i32> {
    if value.is_nan() { Err(sizes.contradiction("a bound that is no number")) } else { Ok(value as i32) }
}

pub(super) fn pool(sizes: Sizes, pool: &Pool) -> Result<Dispatch> {
    sizes.real()?;
    let (kind, padded) = match &pool.kind {
        PoolKind::Maximum => (0, [0; 2]),
        PoolKind::Average => (1, [0; 2]),
        PoolKind::AveragePadded { padded: [_, rows, columns] } => (2, [*rows, *columns]),
    };
    let mut words = vec![kind];
    words.extend(window(sizes, &pool.window)?);
    words.extend(sizes.words(padded)?);
    let ([_, height, width], [_, rows, columns]) = (pool.window.input, pool.window.output);
    let operands = vec![Some(sizes.like_output(sizes.product(&[pool.images, height, width])?))];
    let written = sizes.product(&[pool.images, rows, columns])?;
    Ok(Dispatch::assemble(shader::POOL, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn affine(sizes: Sizes, affine: &Affine) -> Result<Dispatch> {
    sizes.real()?;
    let [channels, inner] = sizes.words([affine.channels, affine.inner])?;
    let words = [channels, inner, bits(affine.epsilon)];
    let written = sizes.product(&[affine.outer, affine.channels, affine.inner])?;
    let channel = Some(sizes.like_output(affine.channels));
    let operands = vec![Some(sizes.like_output(written)), channel, channel, channel, channel];
    Ok(Dispatch::assemble(shader::AFFINE, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn layer_norm(sizes: Sizes, norm: &LayerNorm) -> Result<Dispatch> {
    sizes.real()?;
    let words = [sizes.word(norm.len)?, count_bits(norm.len), bits(norm.epsilon), u32::from(norm.bias)];
    let written = sizes.product(&[norm.rows, norm.len])?;
    let operands = vec![
        Some(sizes.like_output(written)),
        Some(sizes.like_output(norm.len)),
        norm.bias.then_some(sizes.like_output(norm.len)),
    ];
    let threads = if written == 0 { 0 } else { sizes.word(norm.rows)? };
    Ok(Dispatch::assemble(shader::LAYER_NORM, threads, &words, operands, sizes.like_output(written)))
}

pub(super) fn softmax(sizes: Sizes, softmax: &Softmax) -> Result<Dispatch> {
    sizes.real()?;
    let [length, inner] = sizes.words([softmax.len, softmax.inner])?;
    let words = [length, inner, u32::from(softmax.log)];
    let written = sizes.product(&[softmax.outer, softmax.len, softmax.inner])?;
    let rows = if written == 0 { 0 } else { sizes.product(&[softmax.outer, softmax.inner])? };
    let operands = vec![Some(sizes.like_output(written))];
    Ok(Dispatch::assemble(shader::SOFTMAX, sizes.word(rows)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn reduce(sizes: Sizes, mean: &Reduce) -> Result<Dispatch> {
    if mean.function != Reduction::Mean {
        return Err(not_on_device(sizes.kernel));
    }
    sizes.real()?;
    if mean.len == 0 {
        return Err(sizes.contradiction("the mean of nothing"));
    }
    let words = [sizes.word(mean.len)?, count_bits(mean.len)];
    let operands = vec![Some(sizes.like_output(sizes.product(&[mean.rows, mean.len])?))];
    let output = sizes.like_output(mean.rows);
    Ok(Dispatch::assemble(shader::MEAN, sizes.word(mean.rows)?, &words, operands, output))
}

pub(super) fn static_features(sizes: Sizes, image: &StaticFeatures) -> Result<Dispatch> {
    sizes.real()?;
    let words = sizes.words([image.height, image.width])?;
    let read = sizes.product(&[image.batch, 4, image.height, image.width])?;
    let written = sizes.product(&[image.batch, 8, image.height, image.width])?;
    let operands = vec![Some(sizes.like_output(read))];
    let output = sizes.like_output(written);
    Ok(Dispatch::assemble(shader::STATIC_FEATURES, sizes.word(written)?, &words, operands, output))
}
