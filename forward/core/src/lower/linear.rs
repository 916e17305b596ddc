//! Lowers matrix products, sums of columns, tables and biases.

use super::lowering::{Info, Lowering, Negative, Operand, elements, misfit};
use super::weight::StridedAxis;
use crate::Kernel;
use crate::kernel::{Binary, Gather, Gemm, GemmStrides, Pairwise, SparseSum};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Result};

/// Lowers the product of each row of `x` with one matrix.
pub(super) fn gemm(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["transB", "alpha", "beta"])?;
    for (name, one) in [("alpha", 1.0), ("beta", 1.0), ("transB", 0.0)] {
        let found = lowering.node.float(name, one)?;
        if found != one {
            return Err(
                Attribute::Float(found).invalid(name, "its default; the weight's axes replace transB")
            );
        }
    }
    let [x] = lowering.exactly()?;
    product(lowering, x, false)
}

/// Lowers the product of each row of `x` with the matrix that its bucket selects.
pub(super) fn bucketed_gemm(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["kind"])?;
    let [x, bucket] = lowering.exactly()?;
    if x.shape.len() != 2 || bucket.shape != x.shape[..1] {
        return Err(misfit(&bucket.shape, format!("one bucket for each row of {:?}", x.shape)));
    }
    product(lowering, x, true)
}

fn product(lowering: &mut Lowering, x: &Info, bucketed: bool) -> Result<()> {
    lowering.allow_roles(&["weight", "bias"])?;
    let (inner, leading) = match x.shape.split_last() {
        Some((inner, leading)) => (*inner, leading),
        None => return Err(misfit(&x.shape, "rows, on the last axis")),
    };
    let (sets, axes): (_, &[Axis]) = match bucketed {
        true => (Some(Axis::Bucket), &[Axis::Bucket, Axis::In, Axis::Out]),
        false => (None, &[Axis::In, Axis::Out]),
    };
    let weight = lowering.required_weight("weight", axes, x.numbers)?;
    let out = weight.axis(Axis::Out)?;
    let over = weight.axis(Axis::In)?;
    if over.len != inner {
        return Err(misfit(&x.shape, format!("{} features, the length of the weight's axis in", over.len)));
    }
    let set = sets.map(|axis| weight.axis(axis)).transpose()?;
    let (bias, bias_strides) = product_bias(lowering, x.numbers, set, out.len)?;
    let output = lowering.output([leading, &[out.len]].concat(), x.numbers)?;
    let mut operands = vec![Operand::Input(0), weight.operand];
    operands.extend(bias);
    if let Some(set) = set {
        lowering.index(1, set.len, Negative::Nothing)?;
        operands.push(Operand::Input(1));
    }
    let kernel = Gemm {
        rows: leading.iter().product(),
        inner,
        outputs: out.len,
        weight: GemmStrides {
            bucket: set.map_or(0, |set| set.stride),
            inner: over.stride,
            output: out.stride,
        },
        bias: bias_strides,
        buckets: set.map_or(0, |set| set.len),
    };
    lowering.call(Kernel::Gemm(kernel), operands, output);
    Ok(())
}

/// The bias of a product with `outputs` columns, if there is one, and its strides. `set` is the weight's bucket axis.
fn product_bias(
    lowering: &mut Lowering,
    numbers: Numbers,
    set: Option<StridedAxis>,
    outputs: usize,
) -> Result<(Option<Operand>, Option<GemmStrides>)> {
    let axes: &[Axis] = if set.is_some() { &[Axis::Bucket, Axis::Out] } else { &[Axis::Out] };
    let Some(bias) = lowering.weight("bias", axes, numbers)? else { return Ok((None, None)) };
    let bucket = match set {
        Some(set) => bias.axis_of(Axis::Bucket, set.len)?.stride,
        None => 0,
    };
    let output = bias.axis_of(Axis::Out, outputs)?.stride;
    Ok((Some(bias.operand), Some(GemmStrides { bucket, inner: 0, output })))
}

/// Lowers the sum of the matrix columns that the indices list.
pub(super) fn feature_transformer(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&["features", "mirrored", "layout", "arithmetic"])?;
    lowering.allow_roles(&["weight", "factoriser", "bias"])?;
    let numbers = arithmetic(lowering)?;
    let x = lowering.input(0)?;
    let &[rows, slots] = &x.shape[..] else {
        return Err(misfit(&x.shape, "[N, K]: the indices of each example's features"));
    };
    let weight = lowering.required_weight("weight", &[Axis::Bucket, Axis::Feature, Axis::Out], numbers)?;
    let set = weight.find(Axis::Bucket).unwrap_or(StridedAxis { len: 1, stride: 0 });
    let (feature, out) = (weight.axis(Axis::Feature)?, weight.axis(Axis::Out)?);
    check_features(lowering, feature.len)?;
    let factoriser = lowering.weight("factoriser", &[Axis::Feature, Axis::Out], numbers)?;
    let factoriser_strides = match &factoriser {
        Some(shared) => Some([
            shared.axis_of(Axis::Feature, feature.len)?.stride,
            shared.axis_of(Axis::Out, out.len)?.stride,
        ]),
        None => None,
    };
    let bias = SparseBias::of(lowering, out.len, numbers)?;
    let bound = elements(&[set.len, feature.len])?;
    lowering.index(0, bound, Negative::Padding)?;
    let mut operands = vec![Operand::Input(0), weight.operand];
    operands.extend(factoriser.map(|factoriser| factoriser.operand));
    operands.extend(bias.operand);
    match bias.buckets {
        Some(buckets) => operands.push(bucket(lowering, rows, buckets)?),
        None if lowering.inputs.len() > 1 => return Err(no_bucket_axis()),
        None => {}
    }
    let output = lowering.output(vec![rows, out.len], numbers)?;
    let kernel = SparseSum {
        rows,
        slots,
        outputs: out.len,
        features: feature.len,
        sets: set.len,
        weight: [set.stride, feature.stride, out.stride],
        factoriser: factoriser_strides,
        bias: bias.strides,
        bias_buckets: bias.buckets.unwrap_or(0),
    };
    lowering.call(Kernel::SparseSum(kernel), operands, output);
    Ok(())
}

fn check_features(lowering: &Lowering, len: usize) -> Result<()> {
    let stated = lowering.node.int("features", -1)?;
    if stated == -1 || usize::try_from(stated).ok() == Some(len) {
        return Ok(());
    }
    Err(Attribute::Int(stated).invalid("features", format!("{len}, the length of the weight's axis feature")))
}

/// The bias of a feature transformer.
struct SparseBias {
    operand: Option<Operand>,
    /// Strides: bucket, output.
    strides: Option<[usize; 2]>,
    /// Length of the bucket axis, if there is one.
    buckets: Option<usize>,
}

impl SparseBias {
    fn of(lowering: &mut Lowering, outputs: usize, numbers: Numbers) -> Result<Self> {
        let Some(bias) = lowering.weight("bias", &[Axis::Bucket, Axis::Out], numbers)? else {
            return Ok(SparseBias { operand: None, strides: None, buckets: None });
        };
        let out = bias.axis_of(Axis::Out, outputs)?;
        let set = bias.find(Axis::Bucket);
        Ok(SparseBias {
            operand: Some(bias.operand),
            strides: Some([set.map_or(0, |set| set.stride), out.stride]),
            buckets: set.map(|set| set.len),
        })
    }
}

fn no_bucket_axis() -> Error {
    Error::corrupt("the layer has an input of buckets, but its bias has no bucket axis")
}

/// Checks the second input: one bucket for each of `rows`.
fn bucket(lowering: &mut Lowering, rows: usize, buckets: usize) -> Result<Operand> {
    let bucket = lowering.index(1, buckets, Negative::Nothing)?;
    if bucket.shape != [rows] {
        return Err(misfit(&bucket.shape, format!("[{rows}]: one bucket for each example")));
    }
    Ok(Operand::Input(1))
}

/// The kind of numbers that a node makes of indices.
pub(super) fn arithmetic(lowering: &Lowering) -> Result<Numbers> {
    match lowering.node.text("arithmetic")? {
        None | Some("real") => Ok(Numbers::Real),
        Some("integer") => Ok(Numbers::Integer),
        Some(other) => Err(Attribute::Text(other.to_owned()).invalid("arithmetic", "'real' or 'integer'")),
    }
}

/// Lowers the addition of a bias.
pub(super) fn bias(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[])?;
    lowering.allow_roles(&["bias"])?;
    let x = lowering.input(0)?;
    let Some((len, leading)) = x.shape.split_last() else {
        return Err(misfit(&x.shape, "at least one axis"));
    };
    let rows = leading.iter().product();
    let bias = lowering.required_weight("bias", &[Axis::Bucket, Axis::Out], x.numbers)?;
    let out = bias.axis_of(Axis::Out, *len)?;
    let (operand, row_stride, out_stride) = match bias.find(Axis::Bucket) {
        None if lowering.inputs.len() > 1 => {
            return Err(no_bucket_axis());
        }
        None => (bias.operand, 0, out.stride),
        Some(set) => {
            let chosen = bucket(lowering, rows, set.len)?;
            let each = lowering.temporary(vec![rows, out.len], x.numbers)?;
            let strides = [set.stride, out.stride];
            let kernel = Gather { rows, columns: out.len, table: set.len, strides };
            lowering.call(Kernel::Gather(kernel), [bias.operand, chosen], each);
            (each, out.len, 1)
        }
    };
    let output = lowering.output(x.shape.clone(), x.numbers)?;
    let kernel = Binary {
        shape: vec![rows, out.len],
        strides: [vec![out.len, 1], vec![row_stride, out_stride]],
        function: Pairwise::Add,
    };
    lowering.call(Kernel::Binary(kernel), [Operand::Input(0), operand], output);
    Ok(())
}
