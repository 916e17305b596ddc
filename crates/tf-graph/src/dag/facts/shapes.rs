//! Infers the shapes of results, where TensorFlow's statement leaves lengths open.

use super::attributes::{int, is_channels_first, is_channels_last, keeps_dims};
use super::fact::Fact;
use super::selection::selections;
use super::window::{kernel, window};
use crate::node::{attribute, flag, text};
use crate::proto::NodeDef;
use ckpt_graph::integers::Selection;
use ckpt_graph::order::rotated;
use ckpt_graph::shape::{
    MAX_RANK, broadcast, broadcast_all, joined, product_of_matrices, reduced, remaining, resolve,
    resolve_all, sliced, unsqueezed,
};
use ckpt_graph::{Dims, Length};

/// Returns the shapes of an operation's results; nothing for an operation that is not known here.
pub(super) fn infer(op: &NodeDef, inputs: &[&Fact]) -> Vec<Option<Dims>> {
    match op.op.as_str() {
        "Unpack" => {
            let Some((dims, axis)) = unpacked(op, inputs) else { return Vec::new() };
            let count = dims.get(axis).and_then(|len| len.known()).and_then(|len| usize::try_from(len).ok());
            let mut item = dims;
            item.remove(axis);
            vec![Some(item); count.unwrap_or(0).min(1 << 12)]
        }
        "Split" | "SplitV" => split(op, inputs).unwrap_or_default(),
        "TopKV2" => vec![greatest(inputs); 2],
        name if name.starts_with("TensorList") => vec![list(op, inputs)],
        _ => vec![one(op, inputs)],
    }
}

/// Infers the shape of an operation on lists; a list has that of its items, joined along a first axis.
fn list(op: &NodeDef, inputs: &[&Fact]) -> Option<Dims> {
    let dims = |at: usize| inputs.get(at).and_then(|fact| fact.dims.clone());
    match op.op.as_str() {
        "TensorListFromTensor" => dims(0),
        "TensorListReserve" => Some(vec![inputs.get(1)?.ints.as_ref()?.only()?]),
        "TensorListSetItem" => Some([&dims(0)?[..1], &dims(2)?].concat()),
        "TensorListStack" => dims(0).filter(|dims| dims.len() > 1),
        "TensorListGetItem" => dims(0).filter(|dims| dims.len() > 1)?.get(1..).map(<[_]>::to_vec),
        _ => None,
    }
}

/// Returns the shape of the greatest elements of the last axis.
fn greatest(inputs: &[&Fact]) -> Option<Dims> {
    let mut dims = inputs.first()?.dims.clone()?;
    *dims.last_mut()? = inputs.get(1)?.ints.as_ref()?.only()?;
    Some(dims)
}

fn one(op: &NodeDef, inputs: &[&Fact]) -> Option<Dims> {
    let dims = |at: usize| inputs.get(at).and_then(|fact| fact.dims.clone());
    let ints = |at: usize| inputs.get(at).and_then(|fact| fact.ints.clone());
    let axis = |at: usize, rank: usize| resolve(ints(at)?.only()?.known()?, rank);
    match op.op.as_str() {
        "Relu" | "Relu6" | "Sigmoid" | "Tanh" | "Softmax" | "LogSoftmax" | "Elu" | "Selu" | "Softplus"
        | "Softsign" | "LeakyRelu" | "Exp" | "Expm1" | "Log" | "Log1p" | "Sqrt" | "Rsqrt" | "Square"
        | "Neg" | "Abs" | "Sign" | "Erf" | "Erfc" | "Sin" | "Cos" | "Floor" | "Ceil" | "Round" | "Cast"
        | "BiasAdd" | "LRN" | "ReverseV2" | "LogicalNot" | "ZerosLike" | "OnesLike" | "FusedBatchNormV3"
        | "FusedBatchNormV2" | "FusedBatchNorm" | "Cumsum" | "Reciprocal" | "Inv" | "IsNan" | "IsInf"
        | "IsFinite" | "MatrixBandPart" | "Tan" => dims(0),
        name if name.starts_with("TensorScatter") => dims(0),
        "AddV2" | "Add" | "Sub" | "Mul" | "RealDiv" | "Div" | "DivNoNan" | "FloorDiv" | "FloorMod"
        | "Maximum" | "Minimum" | "Pow" | "SquaredDifference" | "Less" | "LessEqual" | "Greater"
        | "GreaterEqual" | "Equal" | "NotEqual" | "LogicalAnd" | "LogicalOr" | "Xdivy" => {
            broadcast(&dims(0)?, &dims(1)?)
        }
        "AddN" => dims(0),
        "SelectV2" => broadcast_all([&dims(0)?[..], &dims(1)?, &dims(2)?]),
        "Select" => dims(1),
        "MatMul" => matrices(&dims(0)?, &dims(1)?, flag(op, "transpose_a"), flag(op, "transpose_b")),
        "BatchMatMulV2" | "BatchMatMul" | "BatchMatMulV3" => {
            matrices(&dims(0)?, &dims(1)?, flag(op, "adj_x"), flag(op, "adj_y"))
        }
        "Conv2D" | "Conv3D" => convolution(op, &dims(0)?, &dims(1)?, false),
        "DepthwiseConv2dNative" => convolution(op, &dims(0)?, &dims(1)?, true),
        "Conv2DBackpropInput" | "Conv3DBackpropInputV2" => Some(ints(0)?.values.clone()),
        "MaxPool" | "AvgPool" | "MaxPool3D" | "AvgPool3D" => {
            let dims = dims(0)?;
            let channels = if is_channels_first(op) { dims.get(1) } else { dims.last() };
            windowed(op, &dims, &kernel(op, dims.len())?, *channels?)
        }
        "Reshape" => reshape(&dims(0)?, &ints(1)?.values),
        "Transpose" => {
            let (dims, perm) = (dims(0)?, ints(1)?.known()?);
            perm.iter().map(|axis| dims.get(usize::try_from(*axis).ok()?).copied()).collect()
        }
        "ExpandDims" => {
            let dims = dims(0)?;
            Some(unsqueezed(&dims, &[axis(1, dims.len() + 1)?]))
        }
        "Squeeze" => {
            let dims = dims(0)?;
            squeezed(op, &dims)?.into_iter().map(|axis| dims.get(axis).copied()).collect()
        }
        "Pack" => {
            let mut dims = dims(0)?;
            let axis = resolve(int(op, "axis").unwrap_or(0), dims.len() + 1)?;
            dims.insert(axis, Length::from(inputs.len()));
            Some(dims)
        }
        "ConcatV2" => {
            let last = inputs.len().checked_sub(1)?;
            let all = (0..last).map(dims).collect::<Option<Vec<Dims>>>()?;
            joined(axis(last, all.first()?.len())?, all.iter().map(Vec::as_slice))
        }
        "StridedSlice" => strided(op, &dims(0)?, inputs),
        "Slice" => {
            let (dims, begin, size) = (dims(0)?, ints(1)?, ints(2)?);
            let part = |(axis, len): (usize, &Length)| match size.values.get(axis)? {
                Length::Known(-1) => Some(*len - *begin.values.get(axis)?),
                size => Some(*size),
            };
            dims.iter().enumerate().map(part).collect()
        }
        "GatherV2" => {
            let (data, indices) = (dims(0)?, dims(1)?);
            let axis = axis(2, data.len())?;
            let batch = usize::try_from(int(op, "batch_dims").unwrap_or(0)).ok()?;
            Some([data.get(..axis)?, indices.get(batch..)?, data.get(axis + 1..)?].concat())
        }
        "GatherNd" => {
            let (data, indices) = (dims(0)?, dims(1)?);
            let (depth, places) = indices.split_last()?;
            let depth = usize::try_from(depth.known()?).ok()?;
            Some([places, data.get(depth..)?].concat())
        }
        "ScatterNd" => Some(ints(2)?.values.clone()),
        "ResourceGather" => Some([&dims(1)?[..], dims(0)?.get(1..)?].concat()),
        "Mean" | "Sum" | "Max" | "Min" | "Prod" | "All" | "Any" | "EuclideanNorm" => {
            let dims = dims(0)?;
            let axes = resolve_all(&ints(1)?.known()?, dims.len())?;
            Some(reduced(&dims, &axes, keeps_dims(op)))
        }
        "ArgMax" | "ArgMin" => {
            let mut dims = dims(0)?;
            let axis = axis(1, dims.len())?;
            dims.remove(axis);
            Some(dims)
        }
        "Pad" | "PadV2" | "MirrorPad" => {
            let (dims, pads) = (dims(0)?, ints(1)?);
            let pairs = dims.iter().zip(pads.values.as_chunks().0);
            Some(pairs.map(|(len, [begin, end])| *len + *begin + *end).collect())
        }
        "Tile" => {
            let (dims, repeats) = (dims(0)?, ints(1)?);
            Some(dims.iter().zip(&repeats.values).map(|(len, count)| *len * *count).collect())
        }
        "Fill" | "BroadcastTo" => {
            let at = usize::from(op.op == "BroadcastTo");
            Some(ints(at)?.values.clone())
        }
        "Range" => {
            let (start, end, step) = (ints(0)?.only()?, ints(1)?.only()?, ints(2)?.only()?);
            (start.known() == Some(0) && step.known() == Some(1)).then(|| vec![end])
        }
        "Einsum" => einsum(op, &[dims(0)?, dims(1)?]),
        "ResizeBilinear" | "ResizeNearestNeighbor" | "ResizeBicubic" | "ResizeArea" => {
            let (dims, size) = (dims(0)?, ints(1)?);
            match (&dims[..], &size.values[..]) {
                ([batch, _, _, channels], [rows, columns]) => Some(vec![*batch, *rows, *columns, *channels]),
                _ => None,
            }
        }
        "SpaceToBatchND" | "BatchToSpaceND" => {
            let (mut dims, blocks, pairs) = (dims(0)?, ints(1)?.known()?, ints(2)?.known()?);
            for ((at, block), pair) in blocks.iter().enumerate().zip(pairs.chunks_exact(2)) {
                let (block, sum) = (Length::Known(*block), Length::Known(pair[0].checked_add(pair[1])?));
                let (batch, len) = (*dims.first()?, *dims.get(at + 1)?);
                let is_cut = op.op == "SpaceToBatchND";
                dims[0] = if is_cut { batch * block } else { batch.floor_div(block) };
                dims[at + 1] = if is_cut { (len + sum).floor_div(block) } else { len * block - sum };
            }
            Some(dims)
        }
        "OneHot" => {
            let (mut dims, depth) = (dims(0)?, ints(1)?.only()?);
            let axis = resolve(int(op, "axis").unwrap_or(-1), dims.len() + 1)?;
            dims.insert(axis, depth);
            Some(dims)
        }
        _ => None,
    }
}

fn matrices(a: &[Length], b: &[Length], transpose_a: bool, transpose_b: bool) -> Option<Dims> {
    let turned = |dims: &[Length], is_turned: bool| {
        let mut dims = dims.to_vec();
        let rank = dims.len();
        if is_turned && rank > 1 {
            dims.swap(rank - 2, rank - 1);
        }
        dims
    };
    product_of_matrices(&turned(a, transpose_a), &turned(b, transpose_b))
}

fn convolution(op: &NodeDef, dims: &[Length], kernel: &[Length], is_depthwise: bool) -> Option<Dims> {
    let [sides @ .., input, output] = kernel else { return None };
    let channels = if is_depthwise { *input * *output } else { *output };
    let sides = sides.iter().map(|side| side.size()).collect::<Option<Vec<_>>>()?;
    windowed(op, dims, &sides, channels)
}

fn windowed(op: &NodeDef, dims: &[Length], kernel: &[u64], channels: Length) -> Option<Dims> {
    let is_first = is_channels_first(op);
    if !(is_channels_last(op) || is_first) || kernel.len() + 2 != dims.len() {
        return None;
    }
    let window = window(op, dims.len())?;
    let dims = if is_first { rotated(dims, true) } else { dims.to_vec() };
    let mut found = dims.clone();
    for (side, kernel) in kernel.iter().enumerate() {
        found[side + 1] = window.side(side, *kernel, dims[side + 1])?.out;
    }
    *found.last_mut()? = channels;
    Some(if is_first { rotated(&found, false) } else { found })
}

fn reshape(dims: &[Length], wanted: &[Length]) -> Option<Dims> {
    let mut shape = wanted.to_vec();
    if let Some(open) = shape.iter().position(|len| len.known() == Some(-1)) {
        let others = [&wanted[..open], &wanted[open + 1..]].concat();
        shape[open] = remaining(dims, &others);
    }
    (wanted.len() <= MAX_RANK).then_some(shape)
}

/// Returns the axes that a `Squeeze` keeps.
pub(in crate::dag) fn squeezed(op: &NodeDef, dims: &[Length]) -> Option<Vec<usize>> {
    let stated = match attribute(op, "squeeze_dims") {
        Some(crate::proto::attr_value::Value::List(list)) => list.i.clone(),
        _ => Vec::new(),
    };
    if stated.is_empty() {
        // A free length is not 1, as TensorFlow's own statement has it.
        return Some((0..dims.len()).filter(|axis| dims[*axis].known() != Some(1)).collect());
    }
    let removed = resolve_all(&stated, dims.len())?;
    Some((0..dims.len()).filter(|axis| !removed.contains(axis)).collect())
}

fn strided(op: &NodeDef, dims: &[Length], inputs: &[&Fact]) -> Option<Dims> {
    let mut found = Vec::new();
    for selection in selections(op, dims, inputs)? {
        match selection {
            Selection::New => found.push(Length::Known(1)),
            Selection::Index { .. } => {}
            Selection::Range { axis, begin, end, step } => {
                found.push(sliced(*dims.get(axis)?, begin, end, step))
            }
        }
    }
    Some(found)
}

fn unpacked(op: &NodeDef, inputs: &[&Fact]) -> Option<(Dims, usize)> {
    let dims = inputs.first()?.dims.clone()?;
    let axis = resolve(int(op, "axis").unwrap_or(0), dims.len())?;
    Some((dims, axis))
}

fn split(op: &NodeDef, inputs: &[&Fact]) -> Option<Vec<Option<Dims>>> {
    let is_sized = op.op == "SplitV";
    let (value, axis) = if is_sized { (0, 2) } else { (1, 0) };
    let dims = inputs.get(value)?.dims.clone()?;
    let axis = resolve(inputs.get(axis)?.ints.as_ref()?.only()?.known()?, dims.len())?;
    let lens: Vec<Length> = if is_sized {
        inputs.get(1)?.ints.as_ref()?.values.clone()
    } else {
        let count = int(op, "num_split")?;
        let parts = usize::try_from(count).ok().filter(|parts| *parts <= 1 << 12)?;
        vec![dims[axis].floor_div(Length::Known(count)); parts]
    };
    let known: Length = lens.iter().copied().filter(|len| len.known() != Some(-1)).sum();
    let part = |len: &Length| {
        let mut part = dims.clone();
        part[axis] = if len.known() == Some(-1) { dims[axis] - known } else { *len };
        Some(part)
    };
    Some(lens.iter().map(part).collect())
}

/// The subscripts of an equation: those of each operand, and of the result. The axes that an ellipsis stands for in
/// operands of these ranks get letters of their own.
pub(in crate::dag) fn subscripts(equation: &str, ranks: &[usize]) -> Option<(Vec<Vec<char>>, Vec<char>)> {
    const MAX_LEN: usize = 128;
    let (operands, result) = equation.split_once("->").filter(|_| equation.len() <= MAX_LEN)?;
    let operands: Vec<&str> = operands.split(',').collect();
    let count = |text: &str| text.chars().filter(char::is_ascii_alphabetic).count();
    let of_ellipsis = |text: &str, rank: usize| match text.contains("...") {
        true => rank.checked_sub(count(text)),
        false => Some(0),
    };
    let own = operands.iter().zip(ranks).map(|(text, rank)| of_ellipsis(text, *rank));
    let own: Vec<usize> = own.collect::<Option<_>>()?;
    let most = own.iter().copied().max().unwrap_or(0);
    let spare: String =
        ('a'..='z').chain('A'..='Z').filter(|letter| !equation.contains(*letter)).take(most).collect();
    let plain = |text: &str, axes: usize| {
        let text = text.replacen("...", spare.get(most.checked_sub(axes)?..)?, 1);
        let letters: Vec<char> = text.chars().filter(|letter| *letter != ' ').collect();
        letters.iter().all(char::is_ascii_alphabetic).then_some(letters)
    };
    let lists =
        operands.iter().zip(&own).map(|(text, axes)| plain(text, *axes)).collect::<Option<Vec<_>>>()?;
    (lists.len() == operands.len() && spare.len() == most).then_some((lists, plain(result, most)?))
}

fn einsum(op: &NodeDef, inputs: &[Dims]) -> Option<Dims> {
    let ranks: Vec<usize> = inputs.iter().map(Vec::len).collect();
    let (operands, result) = subscripts(text(op, "equation")?, &ranks)?;
    let len = |letter: &char| {
        let own = operands.iter().zip(inputs).find_map(|(letters, dims)| {
            letters.iter().position(|own| own == letter).and_then(|at| dims.get(at)).copied()
        });
        own.or(Some(Length::Unknown))
    };
    result.iter().map(len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axes_of_an_ellipsis_get_letters_that_the_equation_does_not_use() {
        let letters = |equation, ranks: &[usize]| {
            let (operands, result) = subscripts(equation, ranks)?;
            let text = |list: &Vec<char>| list.iter().collect::<String>();
            Some(format!("{}->{}", operands.iter().map(text).collect::<Vec<_>>().join(","), text(&result)))
        };
        assert_eq!(letters("abc, cd -> abd", &[3, 2]).unwrap(), "abc,cd->abd");
        assert_eq!(letters("...a,ab->...b", &[3, 2]).unwrap(), "cda,ab->cdb");
        // The axes of the shorter ellipsis are the last ones of the longer.
        assert_eq!(letters("...ij,...jk->...ik", &[4, 3]).unwrap(), "abij,bjk->abik");
        assert_eq!(letters("...a,a->...", &[1, 1]).unwrap(), "a,a->");
        for (equation, ranks) in
            [("...ab,b->...a", [1, 1]), ("..a,a->..", [2, 1]), ("......a,a->...", [3, 1])]
        {
            assert_eq!(letters(equation, &ranks), None);
        }
        assert_eq!(letters("...a,a->...", &[60, 1]), None);
    }
}
