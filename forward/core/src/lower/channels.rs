//! Lowers normalizations over groups of channels, and those by the size of the elements.

use super::local::Local;
use super::lowering::{Info, Load, Lowering, Operand, elements, misfit};
use super::normalization::{epsilon, per_channel};
use crate::Kernel;
use crate::kernel::{Function, LayerNorm, Pairwise, Pool, PoolKind, Reduction, Relation, Window};
use crate::value::Numbers;
use ckpt_api::{Attribute, Error, Op, Result};

/// Lowers `GroupNormalization`, and `InstanceNormalization`, whose groups are the channels.
pub(super) fn group(lowering: &mut Lowering) -> Result<()> {
    let is_instance = lowering.node.op == Op::InstanceNormalization;
    match is_instance {
        true => lowering.allow_attributes(&["epsilon"])?,
        false => lowering.allow_attributes(&["epsilon", "num_groups", "stash_type"])?,
    }
    lowering.allow_roles(&["scale", "bias"])?;
    let epsilon = epsilon(lowering)?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[batch, channels, ref places @ ..] = &x.shape[..] else {
        return Err(misfit(&x.shape, "a batch and channels"));
    };
    let groups = if is_instance { channels } else { number_of_groups(lowering, channels)? };
    let rows = elements(&[batch, groups])?;
    let len = elements(&[channels.checked_div(groups).unwrap_or(0), elements(places)?])?;
    let ones = lowering.load(Load::Constant { value: 1.0, len });
    let normal = lowering.made(&x.shape[..], Numbers::Real)?;
    let kernel = LayerNorm { rows, len, bias: false, epsilon };
    lowering.call(Kernel::LayerNorm(kernel), [Operand::Input(0), ones], normal.operand);
    let mut shape = vec![channels];
    shape.resize(x.shape.len() - 1, 1);
    let value = affine(lowering, normal, channels, &shape)?;
    lowering.finish(&value, &x.shape[..])
}

fn number_of_groups(lowering: &Lowering, channels: usize) -> Result<usize> {
    let stated = lowering.node.int("num_groups", 1)?;
    let groups =
        usize::try_from(stated).ok().filter(|groups| *groups > 0 && channels.is_multiple_of(*groups));
    groups.ok_or_else(|| {
        Attribute::Int(stated).invalid("num_groups", format!("a divisor of the {channels} channels"))
    })
}

/// Multiplies with the tensor `scale` of this many elements and adds `bias`, if the node has them; `shape` is
/// theirs.
fn affine(lowering: &mut Lowering, value: Local, len: usize, shape: &[usize]) -> Result<Local> {
    let mut value = value;
    for (role, function) in [("scale", Pairwise::Multiply), ("bias", Pairwise::Add)] {
        if lowering.node.parameters.contains_key(role) {
            let operand = per_channel(lowering, role, len, None)?;
            let by = Local { operand, info: Info { shape: shape.to_vec(), numbers: Numbers::Real } };
            value = lowering.combine(function, &value, &by)?;
        }
    }
    Ok(value)
}

/// Lowers `x / √(mean(x²) + epsilon) · scale`, with the mean over `axis` and those behind it.
pub(super) fn root_mean_square(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "epsilon", "stash_type"])?;
    lowering.allow_roles(&["scale"])?;
    let epsilon = epsilon(lowering)?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let axis = lowering.axis(x, -1)?;
    let (rows, len) = (elements(&x.shape[..axis])?, elements(&x.shape[axis..])?);
    if len == 0 && rows > 0 {
        return Err(misfit(&x.shape, "elements on the axes that are normalized"));
    }
    let input = lowering.local(0)?.reshaped([rows, len]);
    let squares = lowering.apply(Function::Square, &input)?;
    let mean = lowering.reduced(Reduction::Mean, &squares, 1)?.reshaped([rows, 1]);
    let epsilon = lowering.number(epsilon);
    let sum = lowering.combine(Pairwise::Add, &mean, &epsilon)?;
    let root = lowering.apply(Function::Sqrt, &sum)?;
    let normal = lowering.combine(Pairwise::Divide, &input, &root)?;
    let value = affine(lowering, normal, len, &[len])?;
    lowering.finish(&value, &x.shape[..])
}

/// Lowers `x / (bias + alpha·m)^beta`, where `m` is the sum of the squares of `size` neighboring channels, divided by
/// `size`.
pub(super) fn local_response(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["size", "alpha", "beta", "bias"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let &[batch, channels, ref places @ ..] = &x.shape[..] else {
        return Err(misfit(&x.shape, "a batch and channels"));
    };
    let stated = lowering.node.int("size", 0)?;
    let size = usize::try_from(stated).ok().filter(|size| (1..1 << 16).contains(size));
    let size =
        size.ok_or_else(|| Attribute::Int(stated).invalid("size", "a number of channels, at least 1"))?;
    let [alpha, beta, bias] = [("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)]
        .map(|(name, default)| lowering.node.float(name, default));
    let [alpha, beta, bias] = [alpha?, beta?, bias?].map(|value| lowering.number(value));
    let columns = elements(places)?;
    let input = lowering.local(0)?;
    let squares = lowering.apply(Function::Square, &input)?;
    let window = Window {
        input: [1, channels, columns],
        output: [1, channels, columns],
        kernel: [1, size, 1],
        stride: [1; 3],
        dilation: [1; 3],
        before: [0, (size - 1) / 2, 0],
    };
    // All places of the window count: those beyond the channels are 0.
    let kind = PoolKind::AveragePadded { padded: [1, channels + size, columns] };
    let mean = lowering.made(&x.shape[..], Numbers::Real)?;
    let pool = Pool { images: batch, window, kind };
    lowering.call(Kernel::Pool(pool), [squares.operand], mean.operand);
    let scaled = lowering.combine(Pairwise::Multiply, &mean, &alpha)?;
    let sum = lowering.combine(Pairwise::Add, &scaled, &bias)?;
    let power = lowering.combine(Pairwise::Power, &sum, &beta)?;
    let value = lowering.combine(Pairwise::Divide, &input, &power)?;
    lowering.finish(&value, &x.shape[..])
}

/// Lowers `x / norm`, and 0 if the norm is 0: the sum of sizes for `p` 1, the root of the sum of squares for `p` 2.
pub(super) fn unit_norm(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["axis", "p"])?;
    lowering.allow_roles(&[])?;
    let [x] = lowering.exactly()?;
    lowering.real(0)?;
    let axis = lowering.axis(x, -1)?;
    let p = lowering.node.int("p", 2)?;
    let (first, last) = match p {
        1 => (Function::Abs, None),
        2 => (Function::Square, Some(Function::Sqrt)),
        other => return Err(Attribute::Int(other).invalid("p", "1 or 2")),
    };
    let rank = x.shape.len();
    let input = lowering.local(0)?;
    let sizes = lowering.apply(first, &input)?;
    let order: Vec<usize> = (0..rank).filter(|other| *other != axis).chain([axis]).collect();
    let turned = lowering.transposed(&sizes, &order)?;
    let mut norm = lowering.reduced(Reduction::Sum, &turned, 1)?;
    if let Some(function) = last {
        norm = lowering.apply(function, &norm)?;
    }
    let mut shape = x.shape.clone();
    *shape.get_mut(axis).ok_or_else(|| Error::corrupt("the value lacks an axis"))? = 1;
    let norm = norm.reshaped(shape);
    let zero = lowering.number(0.0);
    let is_zero = lowering.relate(Relation::Equal, &norm, &zero)?;
    let quotient = lowering.combine(Pairwise::Divide, &input, &norm)?;
    let value = lowering.choose(&is_zero, &zero, &quotient)?;
    lowering.finish(&value, &x.shape[..])
}
