//! Kernels that integers have, too: products, sums of columns, elementwise arithmetic.

use super::run::{Dispatch, integers};
use super::sizes::{Sizes, axes, pairs, window};
use crate::shader;
use ckpt_api::Result;
use ckpt_forward::kernel::{Binary, Conv, Gemm, GemmStrides, Pairwise, SparseSum};
use ckpt_forward::not_on_device;

pub(super) fn binary(sizes: Sizes, binary: &Binary) -> Result<Dispatch> {
    if !matches!(binary.function, Pairwise::Add | Pairwise::Multiply) {
        return Err(not_on_device(sizes.kernel));
    }
    let shader = sizes.by_element(shader::BINARY, shader::BINARY_INTEGER)?;
    let rank = binary.shape.len();
    let mut words = vec![sizes.word(rank)?];
    words.extend(axes(sizes, rank, &binary.shape)?);
    let mut operands = Vec::with_capacity(2);
    for strides in &binary.strides {
        words.extend(axes(sizes, rank, strides)?);
        operands.push(Some(sizes.like_output(sizes.reach(0, &pairs(&binary.shape, strides))?)));
    }
    words.push(u32::from(binary.function == Pairwise::Multiply));
    let written = sizes.product(&binary.shape)?;
    Ok(Dispatch::assemble(shader, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn gemm(sizes: Sizes, gemm: &Gemm) -> Result<Dispatch> {
    let shader = sizes.by_element(shader::GEMM, shader::GEMM_INTEGER)?;
    let sets = gemm.buckets.max(1);
    let none = GemmStrides { bucket: 0, inner: 0, output: 0 };
    let bias = gemm.bias.unwrap_or(none);
    let words = sizes.words([
        gemm.inner,
        gemm.outputs,
        gemm.weight.bucket,
        gemm.weight.inner,
        gemm.weight.output,
        usize::from(gemm.bias.is_some()),
        bias.bucket,
        bias.output,
        gemm.buckets,
    ])?;
    let weight =
        [(sets, gemm.weight.bucket), (gemm.inner, gemm.weight.inner), (gemm.outputs, gemm.weight.output)];
    let bias = sizes.reach(0, &[(sets, bias.bucket), (gemm.outputs, bias.output)])?;
    let operands = vec![
        Some(sizes.like_output(sizes.product(&[gemm.rows, gemm.inner])?)),
        Some(sizes.like_output(sizes.reach(0, &weight)?)),
        gemm.bias.map(|_| sizes.like_output(bias)),
        (gemm.buckets > 0).then_some(integers(gemm.rows)),
    ];
    let written = sizes.product(&[gemm.rows, gemm.outputs])?;
    Ok(Dispatch::assemble(shader, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn conv(sizes: Sizes, conv: &Conv) -> Result<Dispatch> {
    let shader = sizes.by_element(shader::CONV, shader::CONV_INTEGER)?;
    if conv.groups == 0
        || !(conv.inputs.is_multiple_of(conv.groups) && conv.outputs.is_multiple_of(conv.groups))
    {
        return Err(sizes.contradiction("groups that do not divide the channels"));
    }
    let inside = conv.inputs / conv.groups;
    let [_, height, width] = conv.window.input;
    let [_, rows, columns] = conv.window.output;
    let [_, kernel_rows, kernel_columns] = conv.window.kernel;
    let [output, input, _, row, column] = conv.weight;
    let mut words = sizes.words([conv.inputs, conv.outputs, inside, conv.outputs / conv.groups])?.to_vec();
    words.extend(sizes.words([output, input, row, column])?);
    words.push(u32::from(conv.bias));
    words.extend(window(sizes, &conv.window)?);
    let weight = [(conv.outputs, output), (inside, input), (kernel_rows, row), (kernel_columns, column)];
    let operands = vec![
        Some(sizes.like_output(sizes.product(&[conv.batch, conv.inputs, height, width])?)),
        Some(sizes.like_output(sizes.reach(0, &weight)?)),
        conv.bias.then_some(sizes.like_output(conv.outputs)),
    ];
    let written = sizes.product(&[conv.batch, conv.outputs, rows, columns])?;
    Ok(Dispatch::assemble(shader, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}

pub(super) fn sparse_sum(sizes: Sizes, sum: &SparseSum) -> Result<Dispatch> {
    let shader = sizes.by_element(shader::SPARSE_SUM, shader::SPARSE_SUM_INTEGER)?;
    let [set, feature, output] = sum.weight;
    let factoriser = sum.factoriser.unwrap_or([0; 2]);
    let bias = sum.bias.unwrap_or([0; 2]);
    let indices = sizes.product(&[sum.sets, sum.features])?;
    let words = sizes.words([
        sum.slots,
        sum.outputs,
        sum.features,
        indices,
        set,
        feature,
        output,
        usize::from(sum.factoriser.is_some()),
        factoriser[0],
        factoriser[1],
        usize::from(sum.bias.is_some()),
        bias[0],
        bias[1],
        sum.bias_buckets,
    ])?;
    let weight = [(sum.sets, set), (sum.features, feature), (sum.outputs, output)];
    let shared = sizes.reach(0, &[(sum.features, factoriser[0]), (sum.outputs, factoriser[1])])?;
    let biases = sizes.reach(0, &[(sum.bias_buckets.max(1), bias[0]), (sum.outputs, bias[1])])?;
    let operands = vec![
        Some(integers(sizes.product(&[sum.rows, sum.slots])?)),
        Some(sizes.like_output(sizes.reach(0, &weight)?)),
        sum.factoriser.map(|_| sizes.like_output(shared)),
        sum.bias.map(|_| sizes.like_output(biases)),
        (sum.bias_buckets > 0).then_some(integers(sum.rows)),
    ];
    let written = sizes.product(&[sum.rows, sum.outputs])?;
    Ok(Dispatch::assemble(shader, sizes.word(written)?, &words, operands, sizes.like_output(written)))
}
