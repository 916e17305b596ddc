//! Reads TensorFlow's operations, from a function's result back to its input, as steps of a chain.
//!
//! All operands of an operation but one must be variables or constants, so that the steps are all that the function
//! computes. An unknown operation stops the reading.

use super::chain::{Dims, LocatedStep, Step, Window};
use super::functions::{
    Functions, OpRef, Source, attribute, constant, decimal, describe, flag, lengths, text, unsupported,
};
use super::no_chain::NoChain;
use super::path;
use crate::proto::attr_value::Value;
use ckpt_api::{Attribute, Op};
use std::collections::{HashMap, HashSet};

/// The steps that a function computes.
pub(super) struct FunctionSteps {
    /// Shape of the input, if stated.
    pub input: Option<Dims>,
    /// The steps, first to last.
    pub steps: Vec<LocatedStep>,
    /// Whether some steps compute in 16 bits.
    pub is_half: bool,
    /// Whether layers are within other layers.
    pub is_nested: bool,
}

/// Reads the function `name`.
pub(super) fn steps(functions: &mut Functions, name: &str) -> Result<FunctionSteps, NoChain> {
    let mut source = functions.enter(name)?;
    let (mut steps, mut is_half, mut scopes) = (Vec::new(), false, HashSet::new());
    loop {
        match source {
            Source::Input(at) => {
                steps.reverse();
                let is_nested = is_nested(&scopes);
                return Ok(FunctionSteps { input: functions.input_shape(at), steps, is_half, is_nested });
            }
            Source::Variable(key) => {
                return Err(NoChain::unsupported(format!("the result is the variable '{}'", path(&key))));
            }
            Source::Node(op) => {
                is_half |= ["DstT", "T"].iter().any(|name| is_of_16_bits(attribute(op.node, name)));
                let (step, before) = step(functions, op)?;
                if matches!(step, Some(Step::Dense { .. } | Step::Conv { .. })) {
                    scopes.insert((op.frame, model_scope(&op.node.name)));
                }
                steps.extend(step.map(|step| LocatedStep { step, place: describe(op.node) }));
                source = before;
            }
        }
    }
}

/// Whether a type is bfloat16 or half.
fn is_of_16_bits(of: Option<&Value>) -> bool {
    matches!(of, Some(Value::Type(14 | 19)))
}

/// Returns what precedes `LAYER/OPERATION` in the name of an operation: the model and, if it is a layer, the models
/// around it.
fn model_scope(operation: &str) -> &str {
    let layer = operation.rsplit_once('/').map_or("", |(layer, _)| layer);
    layer.rsplit_once('/').map_or("", |(model, _)| model)
}

/// Whether a function's layers have several models, or a model within a model.
fn is_nested(scopes: &HashSet<(usize, &str)>) -> bool {
    let mut frames = HashMap::new();
    scopes.iter().any(|(frame, scope)| scope.contains('/') || *frames.entry(frame).or_insert(scope) != scope)
}

/// The step of an operation, if it is one, and the source of its input.
type StepAndInput<'a> = (Option<Step>, Source<'a>);

fn step<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<StepAndInput<'a>, NoChain> {
    let apply = |op| Some(Step::Apply(op, Vec::new()));
    let step = match op.node.op.as_str() {
        "Relu" => apply(Op::Relu),
        "Relu6" => {
            let limits = [("min", 0.0), ("max", 6.0)].map(|(name, limit)| (name, Attribute::Float(limit)));
            Some(Step::Apply(Op::Clip, limits.into()))
        }
        "Sigmoid" => apply(Op::Sigmoid),
        "Tanh" => apply(Op::Tanh),
        "Softmax" => apply(Op::Softmax),
        "LogSoftmax" => apply(Op::LogSoftmax),
        "Elu" => apply(Op::Elu),
        "Softplus" => apply(Op::Softplus),
        "LeakyRelu" => {
            let alpha = match attribute(op.node, "alpha") {
                Some(Value::F(alpha)) => decimal(*alpha),
                _ => 0.2,
            };
            Some(Step::Apply(Op::LeakyRelu, vec![("alpha", Attribute::Float(alpha))]))
        }
        "Cast" if is_float_cast(op) => None,
        "MatMul" | "Conv2D" => return linear(functions, op, None),
        "BiasAdd" | "AddV2" | "Add" => return add(functions, op),
        "MaxPool" => Some(pool(op, Op::MaxPool)?),
        "AvgPool" => Some(pool(op, Op::AveragePool)?),
        "Mean" => Some(mean(functions, op)?),
        "Reshape" => Some(flatten(functions, op)?),
        "FusedBatchNormV3" => Some(fused_normalization(functions, op)?),
        "Mul" => return gelu(functions, op),
        _ => return Err(unsupported(op.node)),
    };
    Ok((step, functions.operand(op, 0)?))
}

/// The error for an operation that is supported in one role alone.
fn misplaced(op: OpRef, expected: &str) -> NoChain {
    NoChain::unsupported(format!("{} is supported only as {expected}", describe(op.node)))
}

/// Whether the operation casts between float types, which changes the precision but no layer.
fn is_float_cast(op: OpRef) -> bool {
    // float, double, bfloat16, half
    matches!(attribute(op.node, "DstT"), Some(Value::Type(1 | 2 | 14 | 19)))
}

/// Returns the variable that an operand is, possibly cast. With `may_reshape`, it may also be reshaped to `[1, …, n]`
/// and back, as a bias is.
fn variable<'a>(
    functions: &mut Functions<'a>,
    op: OpRef<'a>,
    at: usize,
    may_reshape: bool,
) -> Result<Option<String>, NoChain> {
    let mut source = functions.operand(op, at)?;
    loop {
        match source {
            Source::Variable(key) => return Ok(Some(key)),
            Source::Node(inner) => {
                let is_passed = match inner.node.op.as_str() {
                    "Cast" => is_float_cast(inner),
                    "Squeeze" => may_reshape,
                    "Reshape" => may_reshape && keeps_last_axis(functions, inner)?,
                    _ => false,
                };
                if !is_passed {
                    return Ok(None);
                }
                source = functions.operand(inner, 0)?;
            }
            Source::Input(_) => return Ok(None),
        }
    }
}

/// Whether the operation reshapes to `[1, …, n]`.
fn keeps_last_axis<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<bool, NoChain> {
    let shape = number(functions, op, 1)?;
    Ok(shape.is_some_and(|dims| {
        dims.split_last().is_some_and(|(_, before)| before.iter().all(|dim| *dim == 1.0))
    }))
}

/// Returns the values of an operand that is a constant.
fn number<'a>(functions: &mut Functions<'a>, op: OpRef<'a>, at: usize) -> Result<Option<Vec<f64>>, NoChain> {
    Ok(match functions.operand(op, at)? {
        Source::Node(inner) => constant(inner.node),
        _ => None,
    })
}

/// Returns the operation that computes an operand, if it has one of these names.
fn node<'a>(
    functions: &mut Functions<'a>,
    op: OpRef<'a>,
    at: usize,
    names: &[&str],
) -> Result<Option<OpRef<'a>>, NoChain> {
    Ok(match functions.operand(op, at)? {
        Source::Node(inner) if names.contains(&inner.node.op.as_str()) => Some(inner),
        _ => None,
    })
}

/// Reads a matrix product or a convolution.
fn linear<'a>(
    functions: &mut Functions<'a>,
    op: OpRef<'a>,
    bias: Option<String>,
) -> Result<StepAndInput<'a>, NoChain> {
    let Some(weight) = variable(functions, op, 1, false)? else {
        return Err(NoChain::unsupported(format!("the weight of {} is not a variable", describe(op.node))));
    };
    let step = if op.node.op == "Conv2D" {
        Step::Conv { name: None, weight, bias, window: window(op)? }
    } else if flag(op.node, "transpose_a") || flag(op.node, "adj_x") {
        return Err(unsupported(op.node));
    } else {
        Step::Dense { name: None, weight, bias, is_transposed: flag(op.node, "transpose_b") }
    };
    Ok((Some(step), functions.operand(op, 0)?))
}

/// Reads an addition: of the bias of a linear layer, or the last one of an unfused batch normalization.
fn add<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<StepAndInput<'a>, NoChain> {
    check_channels_last(op)?;
    let sides: &[(usize, usize)] = if op.node.op == "BiasAdd" { &[(0, 1)] } else { &[(0, 1), (1, 0)] };
    for (value, bias) in sides {
        let Some(bias) = variable(functions, op, *bias, true)? else { continue };
        return match node(functions, op, *value, &["MatMul", "Conv2D"])? {
            Some(inner) => linear(functions, inner, Some(bias)),
            None => Err(no_bias(functions, op, *value, &bias)),
        };
    }
    match normalization(functions, op)? {
        Some(read) => Ok(read),
        None => Err(misplaced(op, "the sum with a bias, or of a batch normalization with scale and center")),
    }
}

/// The error for the sum of a variable and something other than the result of a dense layer or convolution.
fn no_bias<'a>(functions: &mut Functions<'a>, op: OpRef<'a>, value: usize, bias: &str) -> NoChain {
    let sum = describe(op.node);
    let other = match functions.operand(op, value) {
        Ok(Source::Node(inner)) => describe(inner.node),
        Ok(Source::Variable(key)) => format!("the variable '{}'", path(&key)),
        Ok(Source::Input(_)) => "the input".to_owned(),
        Err(error) => return error,
    };
    NoChain::unsupported(format!(
        "{sum} adds the variable '{}' to the result of {other}, and only sums with MatMul and Conv2D are supported",
        path(bias)
    ))
}

/// Checks that images have their channels last.
fn check_channels_last(op: OpRef) -> Result<(), NoChain> {
    match text(op.node, "data_format") {
        None | Some("NHWC") => Ok(()),
        Some(other) => {
            Err(NoChain::unsupported(format!("{} has the data format {other}, not NHWC", describe(op.node))))
        }
    }
}

fn window(op: OpRef) -> Result<Window, NoChain> {
    check_channels_last(op)?;
    let unsupported = || {
        NoChain::unsupported(format!("{} has strides or padding that are not supported", describe(op.node)))
    };
    let inner = |name: &str| match lengths(op.node, name)?[..] {
        [1, rows, columns, 1] => Some([rows, columns]),
        _ => None,
    };
    let dilations = match attribute(op.node, "dilations") {
        None => [1, 1],
        Some(_) => inner("dilations").ok_or_else(unsupported)?,
    };
    let is_same = match text(op.node, "padding") {
        Some("SAME") => true,
        Some("VALID") => false,
        _ => return Err(unsupported()),
    };
    Ok(Window { strides: inner("strides").ok_or_else(unsupported)?, dilations, is_same })
}

fn pool(op: OpRef, kind: Op) -> Result<Step, NoChain> {
    match lengths(op.node, "ksize").as_deref() {
        Some([1, rows, columns, 1]) => {
            Ok(Step::Pool { op: kind, kernel: [*rows, *columns], window: window(op)? })
        }
        _ => Err(unsupported(op.node)),
    }
}

fn mean<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<Step, NoChain> {
    match number(functions, op, 1)?.as_deref() {
        Some([1.0, 2.0]) => Ok(Step::GlobalAveragePool { keep_dims: flag(op.node, "keep_dims") }),
        _ => Err(misplaced(op, "the mean over the rows and columns of images")),
    }
}

/// Reads a reshaping to `[-1, n]`, or to `[batch, n]` with the batch size of the value itself.
fn flatten<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<Step, NoChain> {
    let features = match number(functions, op, 1)?.as_deref() {
        Some([-1.0, features]) => Some(*features),
        _ => match node(functions, op, 1, &["Pack"])? {
            Some(pack) if pack.node.input.len() >= 2 && is_batch(functions, op, pack)? => {
                match number(functions, pack, 1)?.as_deref() {
                    Some([features]) if attribute(pack.node, "N") == Some(&Value::I(2)) => Some(*features),
                    _ => None,
                }
            }
            _ => None,
        },
    };
    match features {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "exact, since the constant has 32 bits"
        )]
        Some(features) if features >= 1.0 => Ok(Step::Flatten(Some(features as u64))),
        Some(-1.0) => Ok(Step::Flatten(None)),
        _ => Err(misplaced(op, "a flattening to [batch, features]")),
    }
}

/// Whether the first item of `pack` is -1, or the batch size `shape(x)[0]` of the operand of `reshape`.
fn is_batch<'a>(functions: &mut Functions<'a>, reshape: OpRef<'a>, pack: OpRef<'a>) -> Result<bool, NoChain> {
    if number(functions, pack, 0)?.as_deref() == Some(&[-1.0]) {
        return Ok(true);
    }
    let Some(slice) = node(functions, pack, 0, &["StridedSlice"])? else { return Ok(false) };
    let Some(shape) = node(functions, slice, 0, &["Shape"])? else { return Ok(false) };
    let is_same = functions.operand(shape, 0)? == functions.operand(reshape, 0)?;
    let is_first = number(functions, slice, 1)?.as_deref() == Some(&[0.0]);
    Ok(is_same && is_first && number(functions, slice, 2)?.as_deref() == Some(&[1.0]))
}

fn fused_normalization<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<Step, NoChain> {
    check_channels_last(op)?;
    let mut parameters = Vec::new();
    for (at, role) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
        parameters.push((role, variable(functions, op, at, false)?.ok_or_else(|| unsupported(op.node))?));
    }
    let epsilon = match attribute(op.node, "epsilon") {
        Some(Value::F(epsilon)) => decimal(*epsilon),
        _ => 0.0001,
    };
    // The default is true, which normalizes with the statistics of the batch.
    if attribute(op.node, "is_training") != Some(&Value::B(false)) {
        return Err(NoChain::unsupported(format!(
            "{} normalizes by the statistics of the batch",
            describe(op.node)
        )));
    }
    Ok(Step::Normalize { name: None, parameters, epsilon, axis: None })
}

/// Reads an unfused batch normalization: `x·s + (beta − mean·s)` with `s = rsqrt(variance + epsilon)·gamma`.
fn normalization<'a>(
    functions: &mut Functions<'a>,
    op: OpRef<'a>,
) -> Result<Option<StepAndInput<'a>>, NoChain> {
    let Some(scaled) = node(functions, op, 0, &["Mul"])? else { return Ok(None) };
    let Some(shift) = node(functions, op, 1, &["Sub"])? else { return Ok(None) };
    let Some(moved) = node(functions, shift, 1, &["Mul"])? else { return Ok(None) };
    let Some(scale) = node(functions, scaled, 1, &["Mul"])? else { return Ok(None) };
    let Some(root) = node(functions, scale, 0, &["Rsqrt"])? else { return Ok(None) };
    let Some(sum) = node(functions, root, 0, &["AddV2", "Add"])? else { return Ok(None) };
    if functions.operand(moved, 1)? != Source::Node(scale) {
        return Ok(None);
    }
    let found = [
        ("scale", variable(functions, scale, 1, false)?),
        ("bias", variable(functions, shift, 0, false)?),
        ("mean", variable(functions, moved, 0, false)?),
        ("variance", variable(functions, sum, 0, false)?),
    ];
    let parameters = found.into_iter().map(|(role, key)| Some((role, key?))).collect::<Option<Vec<_>>>();
    let epsilon = number(functions, sum, 1)?
        .filter(|values| values.len() == 1)
        .and_then(|values| values.first().copied());
    let (Some(parameters), Some(epsilon)) = (parameters, epsilon) else { return Ok(None) };
    let step = Step::Normalize { name: None, parameters, epsilon, axis: None };
    Ok(Some((Some(step), functions.operand(scaled, 0)?)))
}

/// Reads an unfused Gelu: `0.5·x·erfc(−x/√2)`, `0.5·x·(1 + erf(x/√2))` or `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
fn gelu<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<StepAndInput<'a>, NoChain> {
    let product = product(functions, op)?;
    let [first, second] = &product.factors[..] else { return Err(misplaced(op, GELU)) };
    if !near(product.constant, 0.5) {
        return Err(misplaced(op, GELU));
    }
    for (value, gate) in [(first, second), (second, first)] {
        let Source::Node(gate) = gate else { continue };
        if let Some(is_approximate) = gate_of(functions, *gate, value)? {
            let approximate = is_approximate.then(|| ("approximate", Attribute::Text("tanh".into())));
            return Ok((Some(Step::Apply(Op::Gelu, approximate.into_iter().collect())), value.clone()));
        }
    }
    Err(misplaced(op, GELU))
}

/// The only product that is supported.
const GELU: &str = "the product of a Gelu";

/// Returns whether Gelu is the approximation, if `gate` is the factor that Gelu multiplies `value` by.
fn gate_of<'a>(
    functions: &mut Functions<'a>,
    gate: OpRef<'a>,
    value: &Source<'a>,
) -> Result<Option<bool>, NoChain> {
    const HALF_ROOT: f64 = std::f64::consts::FRAC_1_SQRT_2;
    if gate.node.op == "Erfc" {
        return Ok(is_multiple(functions, gate, value, -HALF_ROOT)?.then_some(false));
    }
    if !matches!(gate.node.op.as_str(), "AddV2" | "Add") {
        return Ok(None);
    }
    for (one, other) in [(0, 1), (1, 0)] {
        if number(functions, gate, one)?.as_deref() != Some(&[1.0]) {
            continue;
        }
        if let Some(erf) = node(functions, gate, other, &["Erf"])? {
            return Ok(is_multiple(functions, erf, value, HALF_ROOT)?.then_some(false));
        }
        if let Some(tanh) = node(functions, gate, other, &["Tanh"])? {
            return Ok(is_cubic(functions, tanh, value)?.then_some(true));
        }
    }
    Ok(None)
}

/// Whether the operand of `op` is `value` times `factor`.
fn is_multiple<'a>(
    functions: &mut Functions<'a>,
    op: OpRef<'a>,
    value: &Source<'a>,
    factor: f64,
) -> Result<bool, NoChain> {
    let Source::Node(inner) = functions.operand(op, 0)? else { return Ok(false) };
    let product = product(functions, inner)?;
    Ok(product.factors[..] == [value.clone()] && near(product.constant, factor))
}

/// Whether the operand of `op` is `√(2/π)·(x + 0.044715·x³)`.
fn is_cubic<'a>(functions: &mut Functions<'a>, op: OpRef<'a>, value: &Source<'a>) -> Result<bool, NoChain> {
    let Source::Node(inner) = functions.operand(op, 0)? else { return Ok(false) };
    let outer = product(functions, inner)?;
    let [Source::Node(sum)] = &outer.factors[..] else { return Ok(false) };
    let root = (2.0 / std::f64::consts::PI).sqrt();
    if !near(outer.constant, root) || !matches!(sum.node.op.as_str(), "AddV2" | "Add") {
        return Ok(false);
    }
    for (first, other) in [(0, 1), (1, 0)] {
        let Source::Node(cube) = functions.operand(*sum, other)? else { continue };
        if functions.operand(*sum, first)? == *value {
            let cube = product(functions, cube)?;
            let cubed = match &cube.factors[..] {
                [Source::Node(power)] if power.node.op == "Pow" => {
                    functions.operand(*power, 0)? == *value
                        && number(functions, *power, 1)?.as_deref() == Some(&[3.0])
                }
                [a, b, c] => a == value && b == value && c == value,
                _ => false,
            };
            return Ok(cubed && near(cube.constant, 0.044_715));
        }
    }
    Ok(false)
}

/// A constant times other factors.
struct Product<'a> {
    constant: f64,
    factors: Vec<Source<'a>>,
}

/// Collects the factors of a product, through signs and divisions by constants.
fn product<'a>(functions: &mut Functions<'a>, op: OpRef<'a>) -> Result<Product<'a>, NoChain> {
    const MAX_OPERATIONS: usize = 16;
    let mut product = Product { constant: 1.0, factors: Vec::new() };
    let mut open = vec![Source::Node(op)];
    let mut read = 0;
    while let Some(source) = open.pop() {
        read += 1;
        if read > MAX_OPERATIONS {
            return Err(unsupported(op.node));
        }
        let Source::Node(inner) = source else {
            product.factors.push(source);
            continue;
        };
        if let Some([value]) = constant(inner.node).as_deref() {
            product.constant *= value;
            continue;
        }
        match inner.node.op.as_str() {
            "Mul" => open.extend([functions.operand(inner, 0)?, functions.operand(inner, 1)?]),
            "Neg" => {
                product.constant = -product.constant;
                open.push(functions.operand(inner, 0)?);
            }
            "RealDiv" => match number(functions, inner, 1)?.as_deref() {
                Some([divisor]) => {
                    product.constant /= divisor;
                    open.push(functions.operand(inner, 0)?);
                }
                _ => product.factors.push(source),
            },
            _ => product.factors.push(source),
        }
    }
    Ok(product)
}

/// Whether two numbers are equal in the precision of a float32 constant.
fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected.abs() * 1e-6
}
