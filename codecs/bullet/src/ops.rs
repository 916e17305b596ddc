//! The operators beyond ONNX's that a network for chess needs, with their reference implementations.

use ckpt_api::{
    Attribute, Axis, Error, InputSpec, OpCall, OpShapes, OpSpec, OutputView, ParameterSpec, Result,
};

/// The sum of the columns of a matrix that a sparse input selects.
pub(crate) const FEATURE_TRANSFORMER: &str = "ckpt.FeatureTransformer";

/// A matrix product whose matrix and bias are selected for each example.
pub(crate) const BUCKETED_GEMM: &str = "ckpt.BucketedGemm";

/// The definitions of both operators.
pub(crate) static SPECS: [OpSpec; 2] = [
    // Inputs: the indices of each example's active features, `[N, K]`, padded with −1; the bias's bucket, `[N]`.
    // `features`, `mirrored` and `layout` describe how a position becomes features; the result does not depend on them.
    // `arithmetic` selects integers, which the reference implementation computes exactly.
    OpSpec::new(FEATURE_TRANSFORMER, transformed_shape, transform)
        .inputs(&[
            InputSpec::index("weight", &[Axis::Bucket, Axis::Feature]).padded(),
            InputSpec::index("bias", &[Axis::Bucket]).optional(),
        ])
        .parameters(&[
            ParameterSpec::new("weight", &[Axis::Bucket, Axis::Feature, Axis::Out])
                .optional_axes(&[Axis::Bucket]),
            // Added to the weight of every bucket.
            ParameterSpec::new("factoriser", &[Axis::Feature, Axis::Out]).optional(),
            ParameterSpec::new("bias", &[Axis::Bucket, Axis::Out]).optional_axes(&[Axis::Bucket]).optional(),
        ])
        .attributes(&["features", "mirrored", "layout", "arithmetic"]),
    // Inputs: `x`, `[N, in]`; the bucket of each example, `[N]`. `kind` describes how a position selects its bucket.
    OpSpec::new(BUCKETED_GEMM, product_shape, multiply)
        .inputs(&[InputSpec::real(), InputSpec::index("weight", &[Axis::Bucket])])
        .parameters(&[
            ParameterSpec::new("weight", &[Axis::Bucket, Axis::In, Axis::Out]),
            ParameterSpec::new("bias", &[Axis::Bucket, Axis::Out]).optional(),
        ])
        .attributes(&["kind"]),
];

fn transformed_shape(shapes: &OpShapes) -> Result<Vec<usize>> {
    let &[rows, _] = shapes.input(0) else {
        return Err(shapes.misfit(0, "[N, K]: the indices of each example's features"));
    };
    let &[_, features, outputs] = shapes.parameter("weight") else { return Err(no_weight()) };
    let stated = shapes.node().int("features", -1)?;
    if stated != -1 && usize::try_from(stated) != Ok(features) {
        let expected = format!("{features}, the length of the weight's axis feature");
        return Err(Attribute::Int(stated).invalid("features", expected));
    }
    shapes.check_parameter("factoriser", &[features, outputs])?;
    shapes.check_input(1, &[rows])?;
    if let &[buckets, _] = shapes.parameter("bias") {
        shapes.check_parameter("bias", &[buckets, outputs])?;
        if buckets > 1 && !shapes.has_input(1) {
            return Err(Error::corrupt("the layer's bias has buckets, but no input selects one"));
        }
    }
    Ok(vec![rows, outputs])
}

/// `y[n, o] = bias[bucket[n], o] + Σ (weight[f, o] + factoriser[f, o])` over the active features `f` of example `n`.
/// Feature `f` of several sets is feature `f mod features` of set `f div features`; the sets share the factoriser.
fn transform(call: &OpCall, y: &mut OutputView) -> Result<()> {
    let (active, bucket) = (call.input(0), call.input(1));
    let (weight, factoriser, bias) =
        (call.parameter("weight"), call.parameter("factoriser"), call.parameter("bias"));
    let (&[rows, slots], &[_, features, outputs]) = (active.shape(), weight.shape()) else {
        return Err(no_weight());
    };
    for row in 0..rows {
        let chosen = bucket.index_at([row]).unwrap_or(0);
        for out in 0..outputs {
            let mut sum = bias.at([chosen, out]);
            for index in (0..slots).filter_map(|slot| active.index_at([row, slot])) {
                let (set, feature) = (index / features.max(1), index % features.max(1));
                sum += weight.at([set, feature, out]) + factoriser.at([feature, out]);
            }
            y.set([row, out], sum);
        }
    }
    Ok(())
}

fn product_shape(shapes: &OpShapes) -> Result<Vec<usize>> {
    let &[rows, inner] = shapes.input(0) else { return Err(shapes.misfit(0, "[N, in]: a batch of rows")) };
    let &[buckets, length, outputs] = shapes.parameter("weight") else { return Err(no_weight()) };
    if inner != length {
        return Err(shapes.misfit(0, format!("{length} features, the length of the weight's axis in")));
    }
    shapes.check_input(1, &[rows])?;
    shapes.check_parameter("bias", &[buckets, outputs])?;
    Ok(vec![rows, outputs])
}

/// `y[n, o] = Σ x[n, k]·weight[bucket[n], k, o] + bias[bucket[n], o]`.
fn multiply(call: &OpCall, y: &mut OutputView) -> Result<()> {
    let (x, bucket) = (call.input(0), call.input(1));
    let (weight, bias) = (call.parameter("weight"), call.parameter("bias"));
    let (&[rows, inner], &[_, _, outputs]) = (x.shape(), weight.shape()) else { return Err(no_weight()) };
    for row in 0..rows {
        let chosen = bucket.index_at([row]).unwrap_or(0);
        for out in 0..outputs {
            let product: f64 = (0..inner).map(|k| x.at([row, k]) * weight.at([chosen, k, out])).sum();
            y.set([row, out], product + bias.at([chosen, out]));
        }
    }
    Ok(())
}

fn no_weight() -> Error {
    Error::corrupt("the layer lacks its weight")
}
