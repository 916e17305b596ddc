//! TensorFlow's operations, from a function's result back to its input, as steps of a chain.
//!
//! Every operand that is not the value at hand must be a variable or a constant: then the steps are all that the
//! function computes. An operation that is not known ends the reading.

use super::chain::{Dims, Step, Why, Window};
use super::functions::{Functions, Place, Source, attribute, constant, decimal, flag, lengths, text};
use crate::proto::attr_value::Value;
use ckpt_api::{Attribute, Op};

/// What a function computes.
pub(super) struct Computed {
    /// The shape of its input, where stated.
    pub input: Option<Dims>,
    /// First to last.
    pub steps: Vec<Step>,
    /// Whether values are narrowed to 16 bits on their way.
    pub half: bool,
}

/// Reads the function called `name`.
pub(super) fn steps(functions: &mut Functions, name: &str) -> Result<Computed, Why> {
    let mut source = functions.enter(name)?;
    let (mut steps, mut half) = (Vec::new(), false);
    loop {
        match source {
            Source::Input(at) => {
                steps.reverse();
                return Ok(Computed { input: functions.input_shape(at), steps, half });
            }
            Source::Variable(key) => return Err(Why(format!("the function returns the variable '{key}'"))),
            Source::Node(place) => {
                half |= matches!(attribute(place.node, "DstT"), Some(Value::Type(14 | 19)));
                let (step, before) = step(functions, place)?;
                steps.extend(step);
                source = before;
            }
        }
    }
}

type Read<'a> = (Option<Step>, Source<'a>);

fn step<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Read<'a>, Why> {
    let apply = |op| Some(Step::Apply(op, Vec::new()));
    let step = match place.node.op.as_str() {
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
            let alpha = match attribute(place.node, "alpha") {
                Some(Value::F(alpha)) => decimal(*alpha),
                _ => 0.2,
            };
            Some(Step::Apply(Op::LeakyRelu, vec![("alpha", Attribute::Float(alpha))]))
        }
        "Cast" if is_float_cast(place) => None,
        "MatMul" | "Conv2D" => return linear(functions, place, None),
        "BiasAdd" | "AddV2" | "Add" => return add(functions, place),
        "MaxPool" => Some(pool(place, Op::MaxPool)?),
        "AvgPool" => Some(pool(place, Op::AveragePool)?),
        "Mean" => Some(mean(functions, place)?),
        "Reshape" => Some(flatten(functions, place)?),
        "FusedBatchNormV3" => Some(fused_normalization(functions, place)?),
        "Mul" => return gelu(functions, place),
        _ => return Err(unknown(place)),
    };
    Ok((step, functions.operand(place, 0)?))
}

fn unknown(place: Place) -> Why {
    Why(format!(
        "the operation {} ('{}') is not one that a chain of layers has",
        place.node.op, place.node.name
    ))
}

/// A change between float types; it narrows what flows, and changes no layer.
fn is_float_cast(place: Place) -> bool {
    // float, double, bfloat16, half
    matches!(attribute(place.node, "DstT"), Some(Value::Type(1 | 2 | 14 | 19)))
}

/// The variable that an operand is, through casts; for a bias, through reshaping to `[1, …, n]` and back.
fn variable<'a>(
    functions: &mut Functions<'a>,
    place: Place<'a>,
    at: usize,
    reshaped: bool,
) -> Result<Option<String>, Why> {
    let mut source = functions.operand(place, at)?;
    loop {
        match source {
            Source::Variable(key) => return Ok(Some(key)),
            Source::Node(inner) => {
                let pass = match inner.node.op.as_str() {
                    "Cast" => is_float_cast(inner),
                    "Squeeze" => reshaped,
                    "Reshape" => reshaped && ends_in_its_length(functions, inner)?,
                    _ => false,
                };
                if !pass {
                    return Ok(None);
                }
                source = functions.operand(inner, 0)?;
            }
            Source::Input(_) => return Ok(None),
        }
    }
}

fn ends_in_its_length<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<bool, Why> {
    let shape = number(functions, place, 1)?;
    Ok(shape.is_some_and(|dims| {
        dims.split_last().is_some_and(|(_, before)| before.iter().all(|dim| *dim == 1.0))
    }))
}

/// The constant that an operand is.
fn number<'a>(functions: &mut Functions<'a>, place: Place<'a>, at: usize) -> Result<Option<Vec<f64>>, Why> {
    Ok(match functions.operand(place, at)? {
        Source::Node(inner) => constant(inner.node),
        _ => None,
    })
}

/// The operation that an operand is, if it is called `op`.
fn node<'a>(
    functions: &mut Functions<'a>,
    place: Place<'a>,
    at: usize,
    op: &[&str],
) -> Result<Option<Place<'a>>, Why> {
    Ok(match functions.operand(place, at)? {
        Source::Node(inner) if op.contains(&inner.node.op.as_str()) => Some(inner),
        _ => None,
    })
}

fn linear<'a>(
    functions: &mut Functions<'a>,
    place: Place<'a>,
    bias: Option<String>,
) -> Result<Read<'a>, Why> {
    let Some(weight) = variable(functions, place, 1, false)? else {
        return Err(Why(format!("the weight of {} ('{}') is no variable", place.node.op, place.node.name)));
    };
    let step = if place.node.op == "Conv2D" {
        Step::Conv { name: None, weight, bias, window: window(place)? }
    } else if flag(place.node, "transpose_a") || flag(place.node, "adj_x") {
        return Err(unknown(place));
    } else {
        Step::Dense { name: None, weight, bias, transposed: flag(place.node, "transpose_b") }
    };
    Ok((Some(step), functions.operand(place, 0)?))
}

/// A bias after a linear layer, or the last operation of an unfused batch normalization.
fn add<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Read<'a>, Why> {
    channels_last(place)?;
    let sides: &[(usize, usize)] = if place.node.op == "BiasAdd" { &[(0, 1)] } else { &[(0, 1), (1, 0)] };
    for (value, bias) in sides {
        let Some(bias) = variable(functions, place, *bias, true)? else { continue };
        return match node(functions, place, *value, &["MatMul", "Conv2D"])? {
            Some(inner) => linear(functions, inner, Some(bias)),
            None => Err(Why(format!("'{bias}' is added to what no layer with a weight makes"))),
        };
    }
    match normalization(functions, place)? {
        Some(read) => Ok(read),
        None => Err(unknown(place)),
    }
}

fn channels_last(place: Place) -> Result<(), Why> {
    match text(place.node, "data_format") {
        None | Some("NHWC") => Ok(()),
        Some(other) => Err(Why(format!("'{}' has its channels in the order {other}", place.node.name))),
    }
}

fn window(place: Place) -> Result<Window, Why> {
    channels_last(place)?;
    let odd = || Why(format!("'{}' has strides or padding of another kind", place.node.name));
    let inner = |name: &str| match lengths(place.node, name)?[..] {
        [1, rows, columns, 1] => Some([rows, columns]),
        _ => None,
    };
    let dilations = match attribute(place.node, "dilations") {
        None => [1, 1],
        Some(_) => inner("dilations").ok_or_else(odd)?,
    };
    let same = match text(place.node, "padding") {
        Some("SAME") => true,
        Some("VALID") => false,
        _ => return Err(odd()),
    };
    Ok(Window { strides: inner("strides").ok_or_else(odd)?, dilations, same })
}

fn pool(place: Place, op: Op) -> Result<Step, Why> {
    match lengths(place.node, "ksize").as_deref() {
        Some([1, rows, columns, 1]) => {
            Ok(Step::Pool { op, kernel: [*rows, *columns], window: window(place)? })
        }
        _ => Err(unknown(place)),
    }
}

fn mean<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Step, Why> {
    match number(functions, place, 1)?.as_deref() {
        Some([1.0, 2.0]) => Ok(Step::GlobalAveragePool { keep: flag(place.node, "keep_dims") }),
        _ => Err(unknown(place)),
    }
}

/// A reshaping to `[-1, n]`, or to `[batch, n]` with the batch taken from the value's own shape.
fn flatten<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Step, Why> {
    let features = match number(functions, place, 1)?.as_deref() {
        Some([-1.0, features]) => Some(*features),
        _ => match node(functions, place, 1, &["Pack"])? {
            Some(pack) if pack.node.input.len() >= 2 && is_batch(functions, place, pack)? => {
                match number(functions, pack, 1)?.as_deref() {
                    Some([features]) if attribute(pack.node, "N") == Some(&Value::I(2)) => Some(*features),
                    _ => None,
                }
            }
            _ => None,
        },
    };
    match features {
        // Exact: a constant of 32 bits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Some(features) if features >= 1.0 => Ok(Step::Flatten(Some(features as u64))),
        Some(-1.0) => Ok(Step::Flatten(None)),
        _ => Err(unknown(place)),
    }
}

/// Whether the first item of `pack` is the batch of what `reshape` takes: `shape(x)[0]`, or -1.
fn is_batch<'a>(functions: &mut Functions<'a>, reshape: Place<'a>, pack: Place<'a>) -> Result<bool, Why> {
    if number(functions, pack, 0)?.as_deref() == Some(&[-1.0]) {
        return Ok(true);
    }
    let Some(slice) = node(functions, pack, 0, &["StridedSlice"])? else { return Ok(false) };
    let Some(shape) = node(functions, slice, 0, &["Shape"])? else { return Ok(false) };
    let same = functions.operand(shape, 0)? == functions.operand(reshape, 0)?;
    let first = number(functions, slice, 1)?.as_deref() == Some(&[0.0]);
    Ok(same && first && number(functions, slice, 2)?.as_deref() == Some(&[1.0]))
}

fn fused_normalization<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Step, Why> {
    channels_last(place)?;
    let mut parameters = Vec::new();
    for (at, role) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
        parameters.push((role, variable(functions, place, at, false)?.ok_or_else(|| unknown(place))?));
    }
    let epsilon = match attribute(place.node, "epsilon") {
        Some(Value::F(epsilon)) => decimal(*epsilon),
        _ => 0.0001,
    };
    // Left out, it is true: the batch's own statistics.
    if attribute(place.node, "is_training") != Some(&Value::B(false)) {
        return Err(unknown(place));
    }
    Ok(Step::Normalize { name: None, parameters, epsilon, axis: None })
}

/// `x·s + (beta − mean·s)` with `s = rsqrt(variance + epsilon)·gamma`.
fn normalization<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Option<Read<'a>>, Why> {
    let Some(scaled) = node(functions, place, 0, &["Mul"])? else { return Ok(None) };
    let Some(shift) = node(functions, place, 1, &["Sub"])? else { return Ok(None) };
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

/// Gelu spelled out: `0.5·x·erfc(−x/√2)`, `0.5·x·(1 + erf(x/√2))` or `0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
fn gelu<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Read<'a>, Why> {
    let product = product(functions, place)?;
    let [first, second] = &product.factors[..] else { return Err(unknown(place)) };
    if !near(product.constant, 0.5) {
        return Err(unknown(place));
    }
    for (value, gate) in [(first, second), (second, first)] {
        let Source::Node(gate) = gate else { continue };
        if let Some(tanh) = gate_of(functions, *gate, value)? {
            let approximate = tanh.then(|| ("approximate", Attribute::Text("tanh".into())));
            return Ok((Some(Step::Apply(Op::Gelu, approximate.into_iter().collect())), value.clone()));
        }
    }
    Err(unknown(place))
}

/// Whether `gate` is what Gelu multiplies `value` by, and then whether it is the approximation.
fn gate_of<'a>(
    functions: &mut Functions<'a>,
    gate: Place<'a>,
    value: &Source<'a>,
) -> Result<Option<bool>, Why> {
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

/// Whether the operand of `place` is `value` times `factor`.
fn is_multiple<'a>(
    functions: &mut Functions<'a>,
    place: Place<'a>,
    value: &Source<'a>,
    factor: f64,
) -> Result<bool, Why> {
    let Source::Node(inner) = functions.operand(place, 0)? else { return Ok(false) };
    let product = product(functions, inner)?;
    Ok(product.factors[..] == [value.clone()] && near(product.constant, factor))
}

/// Whether the operand of `place` is `√(2/π)·(x + 0.044715·x³)`.
fn is_cubic<'a>(functions: &mut Functions<'a>, place: Place<'a>, value: &Source<'a>) -> Result<bool, Why> {
    let Source::Node(inner) = functions.operand(place, 0)? else { return Ok(false) };
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

struct Product<'a> {
    constant: f64,
    factors: Vec<Source<'a>>,
}

/// A product's constant and its other factors, through signs and division by constants.
fn product<'a>(functions: &mut Functions<'a>, place: Place<'a>) -> Result<Product<'a>, Why> {
    const MOST: usize = 16;
    let mut product = Product { constant: 1.0, factors: Vec::new() };
    let mut open = vec![Source::Node(place)];
    let mut read = 0;
    while let Some(source) = open.pop() {
        read += 1;
        if read > MOST {
            return Err(unknown(place));
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

/// Equal as far as a float32 constant can say it.
fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected.abs() * 1e-6
}
