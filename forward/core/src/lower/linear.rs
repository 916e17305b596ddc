//! Products with a matrix, and sums of its columns.

use super::attributes::wrong;
use super::weight::{Strided, Weight};
use super::{Info, Operand, Site, misfit};
use crate::Kernel;
use crate::kernel::{Binary, Gather, Gemm, GemmStrides, Pairwise, SparseSum};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Result};

/// Each row of `x` times one matrix.
pub(super) fn gemm(site: &mut Site) -> Result<()> {
    site.knows(&["transB", "alpha", "beta"])?;
    for (name, one) in [("alpha", 1.0), ("beta", 1.0), ("transB", 0.0)] {
        let found = site.float(name, one)?;
        if found != one {
            return Err(wrong(name, &Attribute::Float(found), "1, and the weight's axes in place of transB"));
        }
    }
    let [x] = site.takes()?;
    product(site, x, false)
}

/// Each row of `x` times the matrix that its bucket chooses.
pub(super) fn bucketed_gemm(site: &mut Site) -> Result<()> {
    site.knows(&["kind"])?;
    let [x, bucket] = site.takes()?;
    if x.shape.len() != 2 || bucket.shape != x.shape[..1] {
        return Err(misfit(&bucket.shape, format!("one bucket for each row of {:?}", x.shape)));
    }
    product(site, x, true)
}

fn product(site: &mut Site, x: &Info, bucketed: bool) -> Result<()> {
    site.roles(&["weight", "bias"])?;
    let (inner, leading) = match x.shape.split_last() {
        Some((inner, leading)) if !leading.is_empty() => (*inner, leading),
        _ => return Err(misfit(&x.shape, "a batch of rows")),
    };
    let (sets, axes): (_, &[Axis]) = match bucketed {
        true => (Some(Axis::Bucket), &[Axis::Bucket, Axis::In, Axis::Out]),
        false => (None, &[Axis::In, Axis::Out]),
    };
    let weight = site.needs("weight", axes, x.numbers)?;
    let out = weight.axis(Axis::Out)?;
    let over = weight.axis(Axis::In)?;
    if over.len != inner {
        return Err(misfit(&x.shape, format!("{} features, as the weight's axis in", over.len)));
    }
    let set = sets.map(|axis| weight.axis(axis)).transpose()?;
    let bias_axes: &[Axis] = if bucketed { &[Axis::Bucket, Axis::Out] } else { &[Axis::Out] };
    let bias = site.weight("bias", bias_axes, x.numbers)?;
    let bias_strides = match &bias {
        None => None,
        Some(bias) => {
            let bucket = match set {
                Some(set) => bias.axis_of(Axis::Bucket, set.len)?.stride,
                None => 0,
            };
            Some(GemmStrides { bucket, inner: 0, output: bias.axis_of(Axis::Out, out.len)?.stride })
        }
    };
    let output = site.output([leading, &[out.len]].concat(), x.numbers)?;
    let mut operands = vec![Operand::Input(0), weight.operand];
    operands.extend(bias.map(|bias| bias.operand));
    if let Some(set) = set {
        site.index(1, set.len, false)?;
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
    site.call(Kernel::Gemm(kernel), operands, output);
    Ok(())
}

/// The columns of a matrix that the indices list, summed.
pub(super) fn feature_transformer(site: &mut Site) -> Result<()> {
    site.knows(&["features", "mirrored", "layout", "arithmetic"])?;
    site.roles(&["weight", "factoriser", "bias"])?;
    let numbers = arithmetic(site)?;
    let x = site.input(0)?;
    let &[rows, slots] = &x.shape[..] else {
        return Err(misfit(&x.shape, "[N, K]: the indices of each example's features"));
    };
    let weight = site.needs("weight", &[Axis::Bucket, Axis::Feature, Axis::Out], numbers)?;
    let set = weight.find(Axis::Bucket).unwrap_or(Strided { len: 1, stride: 0 });
    let (feature, out) = (weight.axis(Axis::Feature)?, weight.axis(Axis::Out)?);
    check_features(site, feature.len)?;
    let factoriser = site.weight("factoriser", &[Axis::Feature, Axis::Out], numbers)?;
    let shared = |weight: &Weight| -> Result<[usize; 2]> {
        let feature = weight.axis_of(Axis::Feature, feature.len)?;
        Ok([feature.stride, weight.axis_of(Axis::Out, out.len)?.stride])
    };
    let factoriser_strides = factoriser.as_ref().map(shared).transpose()?;
    let bias = site.weight("bias", &[Axis::Bucket, Axis::Out], numbers)?;
    let biases = bias.as_ref().and_then(|bias| bias.find(Axis::Bucket));
    let bias_strides = match &bias {
        None => None,
        Some(bias) => {
            let out = bias.axis_of(Axis::Out, out.len)?;
            Some([biases.map_or(0, |bucket| bucket.stride), out.stride])
        }
    };
    let bound = elements_of(set.len, feature.len)?;
    site.index(0, bound, true)?;
    let mut operands = vec![Operand::Input(0), weight.operand];
    operands.extend(factoriser.map(|factoriser| factoriser.operand));
    operands.extend(bias.map(|bias| bias.operand));
    match biases {
        Some(biases) => operands.push(bucket(site, rows, biases.len)?),
        None if site.inputs.len() > 1 => {
            return Err(Error::corrupt("the layer takes a bucket, and its bias has none"));
        }
        None => {}
    }
    let output = site.output(vec![rows, out.len], numbers)?;
    let kernel = SparseSum {
        rows,
        slots,
        outputs: out.len,
        features: feature.len,
        sets: set.len,
        weight: [set.stride, feature.stride, out.stride],
        factoriser: factoriser_strides,
        bias: bias_strides,
        bias_buckets: biases.map_or(0, |biases| biases.len),
    };
    site.call(Kernel::SparseSum(kernel), operands, output);
    Ok(())
}

fn check_features(site: &Site, len: usize) -> Result<()> {
    let stated = site.int("features", -1)?;
    if stated == -1 || usize::try_from(stated).ok() == Some(len) {
        return Ok(());
    }
    Err(wrong("features", &Attribute::Int(stated), &format!("{len}, as the weight's axis feature")))
}

fn elements_of(a: usize, b: usize) -> Result<usize> {
    super::elements(&[a, b])
}

/// The second input: one bucket for each of `rows`.
fn bucket(site: &mut Site, rows: usize, buckets: usize) -> Result<Operand> {
    let bucket = site.index(1, buckets, false)?;
    if bucket.shape != [rows] {
        return Err(misfit(&bucket.shape, format!("[{rows}]: one bucket for each example")));
    }
    Ok(Operand::Input(1))
}

/// What a node that takes indices makes.
fn arithmetic(site: &Site) -> Result<Numbers> {
    match site.text("arithmetic")? {
        None | Some("real") => Ok(Numbers::Real),
        Some("integer") => Ok(Numbers::Integer),
        Some(other) => Err(wrong("arithmetic", &Attribute::Text(other.to_owned()), "'real' or 'integer'")),
    }
}

/// Rows of a table.
pub(super) fn gather(site: &mut Site) -> Result<()> {
    site.knows(&["arithmetic"])?;
    site.roles(&["weight"])?;
    let numbers = arithmetic(site)?;
    let [index] = site.takes()?;
    let weight = site.needs("weight", &[Axis::Feature, Axis::Out], numbers)?;
    let (feature, out) = (weight.axis(Axis::Feature)?, weight.axis(Axis::Out)?);
    site.index(0, feature.len, false)?;
    let output = site.output([&index.shape[..], &[out.len]].concat(), numbers)?;
    let kernel = Gather {
        rows: index.len(),
        columns: out.len,
        table: feature.len,
        strides: [feature.stride, out.stride],
    };
    site.call(Kernel::Gather(kernel), [weight.operand, Operand::Input(0)], output);
    Ok(())
}

/// A bias by itself.
pub(super) fn bias(site: &mut Site) -> Result<()> {
    site.knows(&[])?;
    site.roles(&["bias"])?;
    let x = site.input(0)?;
    let Some((len, leading)) = x.shape.split_last() else {
        return Err(misfit(&x.shape, "at least one axis"));
    };
    let rows = leading.iter().product();
    let bias = site.needs("bias", &[Axis::Bucket, Axis::Out], x.numbers)?;
    let out = bias.axis_of(Axis::Out, *len)?;
    let (operand, row_stride, out_stride) = match bias.find(Axis::Bucket) {
        None if site.inputs.len() > 1 => {
            return Err(Error::corrupt("the layer takes a bucket, and its bias has none"));
        }
        None => (bias.operand, 0, out.stride),
        Some(set) => {
            let chosen = bucket(site, rows, set.len)?;
            let each = site.temporary(vec![rows, out.len], x.numbers)?;
            let strides = [set.stride, out.stride];
            let kernel = Gather { rows, columns: out.len, table: set.len, strides };
            site.call(Kernel::Gather(kernel), [bias.operand, chosen], each);
            (each, out.len, 1)
        }
    };
    let output = site.output(x.shape.clone(), x.numbers)?;
    let kernel = Binary {
        shape: vec![rows, out.len],
        strides: [vec![out.len, 1], vec![row_stride, out_stride]],
        function: Pairwise::Add,
    };
    site.call(Kernel::Binary(kernel), [Operand::Input(0), operand], output);
    Ok(())
}
