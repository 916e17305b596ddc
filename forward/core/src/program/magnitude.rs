//! Bounds rounding errors.

use super::build::Program;
use super::control::Control;
use super::enclosed;
use super::propagate::{self, Bounded, Fetch};
use super::run::{Device, check, indices};
use super::step::Step;
use crate::kernel::{Function, Gemm, Kernel, LayerNorm, Pairwise, PoolKind, Reduction, Softmax, Update};
use crate::lower::{Call, Load, Task};
use crate::value::Value;
use crate::{Arithmetic, Array, Cpu, Element};
use ckpt_api::{Error, Result};

/// Unit roundoff of binary32.
pub(super) const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// In place of `k` for up to two transcendental functions, each within 4 ULP: the bound becomes 18u·S.
const OF_FUNCTIONS: usize = 64;

/// In place of `k` for the six roundings of a batch normalization.
const OF_AFFINE: usize = 9;

/// The size of the numbers that a node rounds, which bounds its rounding error.
///
/// On the same inputs and tensors, a correct result in an arithmetic of unit roundoff `u` (2⁻²⁴ for binary32) is within
/// `2·√k·u·S + 2u|y|` of the result in binary64.
#[derive(Clone, Debug, PartialEq)]
pub struct Magnitude {
    /// `S` for each element: for a sum of products `Σ|x||w| + |b|`.
    pub sums: Vec<f64>,
    /// `k`: the number of summands, or an equivalent for other functions.
    pub summands: usize,
    /// Whether the errors of several kernels were followed: then `S` is half of their bound, and no size of summands.
    pub is_followed: bool,
}

impl Magnitude {
    /// One summand of half the error gives the same bound. `None` if all errors are 0.
    fn of_errors(errors: Vec<f64>) -> Option<Self> {
        let is_exact = errors.iter().all(|error| *error == 0.0);
        let sums = || errors.iter().map(|error| error / 2.0).collect();
        (!is_exact).then(|| Magnitude { sums: sums(), summands: 1, is_followed: true })
    }
}

impl Program<'_> {
    /// Returns the magnitude of each output of the node at index `node` on `inputs`; `None` if a result is exact: integers,
    /// and elements that are moved, looked up or chosen (concatenation, embedding, ReLU, maximum).
    ///
    /// # Errors
    /// As [`Program::run_node`].
    pub fn magnitudes(&self, node: usize, inputs: &[Value]) -> Result<Vec<Option<Magnitude>>> {
        let (found, step) = self.step(node)?;
        self.measure(step, inputs).map_err(|error| error.field(&found.name))
    }

    fn measure(&self, step: &Step, inputs: &[Value]) -> Result<Vec<Option<Magnitude>>> {
        for (id, value) in step.inputs.iter().flatten().zip(inputs) {
            check(value, self.info(*id)?)?;
        }
        let load = |load: &Load| Ok((self.fetch_load(load)?, None));
        if let Some(control) = &step.control {
            let errors = Self::enclosed_errors(control, step, inputs, &load)?;
            return Ok(errors.into_iter().map(Magnitude::of_errors).collect());
        }
        if step.lowered.outputs.iter().any(|info| info.numbers == crate::Numbers::Integer) {
            return Ok(vec![None; step.lowered.outputs.len()]);
        }
        if propagate::is_needed(&step.lowered) {
            let errors = propagate::errors(&step.lowered, &present(step, inputs)?, &load)?;
            return Ok(errors.into_iter().map(Magnitude::of_errors).collect());
        }
        Ok(vec![self.of_kernels(step, inputs)?; step.lowered.outputs.len()])
    }

    /// Returns the magnitude of a node that only sums, or has one kernel.
    fn of_kernels(&self, step: &Step, inputs: &[Value]) -> Result<Option<Magnitude>> {
        let calls = &step.lowered.calls[..];
        let summands = calls.iter().map(|call| summands(&call.task)).fold(0, usize::saturating_add);
        let x = || inputs.first().map(|value| value.array.to_f64()).unwrap_or_default();
        let load = |place: usize| match step.lowered.loads.get(place) {
            Some(load) => self.fetch_load(load).map(|array| array.to_f64()),
            None => Ok(Vec::new()),
        };
        let sums = match calls {
            _ if summands == 0 => return Ok(None),
            [.., Call { task: Task::Reference(_), .. }] => self.of_result(step, inputs)?,
            [Call { task: Task::Kernel(kernel), .. }] => match kernel {
                Kernel::Unary(unary) => self.of_function(unary.function, step, inputs)?,
                Kernel::Binary(binary) => self.of_pairs(binary.function, step, inputs)?,
                Kernel::Softmax(softmax) => of_softmax(softmax, &x()),
                Kernel::LayerNorm(norm) => of_layer_norm(norm, &x(), &load(0)?, &load(1)?),
                Kernel::StaticFeatures(image) => {
                    of_static_features(image.height, image.width, kernel.outputs())
                }
                _ => self.of_absolutes(step, inputs)?,
            },
            _ => self.of_absolutes(step, inputs)?,
        };
        Ok(Some(Magnitude { sums, summands, is_followed: false }))
    }

    /// Returns a bound on the error of each output of the node at index `node`, where the node's tensors have
    /// errors; with the errors of rounding in binary32. `errors` is a program of the same graph, whose tensors are
    /// bounds on the errors of this program's tensors.
    ///
    /// Returns `None` for a node whose result is a sum of products: there, the result of `errors` on the sizes of the
    /// inputs is the bound.
    ///
    /// # Errors
    /// As [`Program::run_node`].
    pub fn tensor_errors(
        &self,
        node: usize,
        inputs: &[Value],
        errors: &Program,
    ) -> Result<Option<Vec<Vec<f64>>>> {
        let (found, step) = self.step(node)?;
        if step.control.is_none() && !propagate::is_needed(&step.lowered) {
            return Ok(None);
        }
        let load = |load: &Load| {
            let error = match load {
                Load::Tensor { .. } => Some(errors.fetch_load(load)?.to_f64()),
                _ => None,
            };
            let units = |error: Vec<f64>| error.into_iter().map(|error| error.abs() / UNIT).collect();
            Ok((self.fetch_load(load)?, error.map(units)))
        };
        let made = match &step.control {
            Some(control) => Self::enclosed_errors(control, step, inputs, &load),
            None => propagate::errors(&step.lowered, &present(step, inputs)?, &load),
        };
        let made = made.map_err(|error| error.field(&found.name))?;
        let absolute = |errors: Vec<f64>| errors.into_iter().map(|error| error * UNIT).collect();
        Ok(Some(made.into_iter().map(absolute).collect()))
    }

    /// Returns the bounds on the errors of each output of a node with graphs of its own.
    fn enclosed_errors(
        control: &Control,
        step: &Step,
        inputs: &[Value],
        load: Fetch,
    ) -> Result<Vec<Vec<f64>>> {
        let given =
            present(step, inputs)?.into_iter().map(|input| input.map(Bounded::exact)).collect::<Vec<_>>();
        let made = enclosed::errors(control, step, &given, load, &mut 0)?;
        Ok(made.into_iter().map(|made| made.error).collect())
    }

    /// Returns `|y|` of a node whose arithmetic is unknown.
    fn of_result(&self, step: &Step, inputs: &[Value]) -> Result<Vec<f64>> {
        let mut cpu = Cpu::new(Arithmetic::F64);
        let load = |_, load: &Load| self.fetch_load(load);
        let made = self.run_alone(step, &mut Device::new(&mut cpu), inputs, &load)?;
        let result = made.first().map(|value| value.array.to_f64()).unwrap_or_default();
        Ok(result.into_iter().map(f64::abs).collect())
    }

    /// Returns `|y|` of an elementwise function, or more where `y` is computed from larger numbers.
    fn of_function(&self, function: Function, step: &Step, inputs: &[Value]) -> Result<Vec<f64>> {
        let results = self.of_result(step, inputs)?;
        let x = inputs.first().map(|value| value.array.to_f64()).unwrap_or_default();
        Ok(x.iter().zip(results).map(|(x, y)| y + of_intermediates(function, x.abs(), y)).collect())
    }

    /// Returns `|y|` of a function of two numbers; of a difference, the sum of their sizes.
    fn of_pairs(&self, function: Pairwise, step: &Step, inputs: &[Value]) -> Result<Vec<f64>> {
        if function != Pairwise::Subtract {
            return self.of_result(step, inputs);
        }
        let negated = inputs.iter().enumerate().map(|(place, value)| {
            let sign = if place == 1 { -1.0 } else { 1.0 };
            let sizes = value.array.to_f64().into_iter().map(|x| sign * x.abs());
            Value { shape: value.shape.clone(), array: Array::F64(sizes.collect()) }
        });
        self.of_result(step, &negated.collect::<Vec<_>>())
    }

    /// Runs the node's kernels on absolute values.
    fn of_absolutes(&self, step: &Step, inputs: &[Value]) -> Result<Vec<f64>> {
        let mut cpu = Cpu::new(Arithmetic::F64);
        let mut device = Device::new(&mut cpu);
        let absolute = |array: Array| match array {
            Array::I32(indices) => Array::I32(indices),
            reals => Array::F64(reals.to_f64().into_iter().map(f64::abs).collect()),
        };
        let is_affine =
            matches!(&step.lowered.calls[..], [Call { task: Task::Kernel(Kernel::Affine(_)), .. }]);
        let load = |place: usize, load: &Load| {
            let array = absolute(self.fetch_load(load)?);
            Ok(match array {
                // The mean is subtracted: negated, its absolute value is added.
                Array::F64(means) if is_affine && place == 2 => {
                    Array::F64(means.into_iter().map(|x| -x).collect())
                }
                array => array,
            })
        };
        let values: Vec<Value> = inputs
            .iter()
            .map(|value| Value { shape: value.shape.clone(), array: absolute(value.array.clone()) })
            .collect();
        let made = self.run_alone(step, &mut device, &values, &load)?;
        let sums = made.first().map(|value| value.array.to_f64());
        sums.ok_or_else(|| Error::unsupported("a node without outputs has no magnitude"))
    }
}

/// The values of a node's inputs in binary64, as its kernels take them; `None` for one that is left out.
fn present(step: &Step, inputs: &[Value]) -> Result<Vec<Option<Array>>> {
    let mut given = inputs.iter();
    let array = |value: &Value| value.array.clone().into_real(Element::F64);
    let mut present: Vec<Option<Array>> =
        step.inputs.iter().map(|id| id.and_then(|_| given.next()).map(array)).collect();
    for check in &step.lowered.checks {
        if let Some(Some(slot)) = present.get_mut(check.input)
            && let Some(resolved) = indices(slot, check)?
        {
            *slot = resolved;
        }
    }
    Ok(present)
}

/// The number of summands of one element; 0 for a kernel that is exact.
pub(super) fn summands(task: &Task) -> usize {
    let kernel = match task {
        Task::Kernel(kernel) => kernel,
        // One rounding, of a result in binary64, and the effect of rounded inputs and tensors.
        Task::Reference(_) => return OF_FUNCTIONS,
    };
    match kernel {
        Kernel::Copy(_) | Kernel::Pad(_) | Kernel::Gather(_) => 0,
        Kernel::Gemm(Gemm { inner, bias, .. }) => inner + usize::from(bias.is_some()),
        Kernel::Conv(conv) => {
            let taps: usize = conv.window.kernel.iter().product();
            conv.inputs / conv.groups.max(1) * taps + usize::from(conv.bias)
        }
        Kernel::SparseSum(sum) => {
            sum.slots * (1 + usize::from(sum.factoriser.is_some())) + usize::from(sum.bias.is_some())
        }
        Kernel::Pool(pool) if pool.kind == PoolKind::Maximum => 0,
        Kernel::Pool(pool) => {
            let sides = pool.window.kernel.iter().zip(pool.window.input);
            sides.map(|(kernel, input)| *kernel.min(&input)).product()
        }
        Kernel::Reduce(reduce) => match reduce.function {
            Reduction::Maximum | Reduction::Minimum => 0,
            Reduction::Sum | Reduction::Mean | Reduction::Product => reduce.len,
        },
        Kernel::MatMul(product) => product.inner,
        Kernel::Compare(_) | Kernel::Select(_) | Kernel::Ranking(_) => 0,
        Kernel::Scan(scan) => scan.len,
        Kernel::Scatter(scatter) => match scatter.function {
            None | Some(Update::Maximum | Update::Minimum) => 0,
            // All updates may be those of one element.
            Some(Update::Add | Update::Multiply) => scatter.rows.saturating_add(1),
        },
        Kernel::Recurrence(kernel) => OF_FUNCTIONS.max(kernel.hidden),
        Kernel::Affine(_) => OF_AFFINE,
        Kernel::Binary(binary) => match binary.function {
            Pairwise::Maximum | Pairwise::Minimum | Pairwise::Remainder => 0,
            Pairwise::Add | Pairwise::Subtract => 2,
            Pairwise::Multiply | Pairwise::Divide | Pairwise::Modulo => 1,
            Pairwise::Power => OF_FUNCTIONS,
        },
        Kernel::Unary(unary) => of_one(unary.function),
        Kernel::LayerNorm(LayerNorm { len, .. }) | Kernel::Softmax(Softmax { len, .. }) => {
            OF_FUNCTIONS.max(*len)
        }
        Kernel::StaticFeatures(_) => OF_FUNCTIONS,
    }
}

pub(super) fn of_one(function: Function) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "this tests whether binary32 holds the bound")]
    let is_short = |bound: f64| f64::from(bound as f32) == bound;
    match function {
        Function::Relu
        | Function::ThresholdedRelu { .. }
        | Function::Abs
        | Function::Negate
        | Function::Sign
        | Function::Floor
        | Function::Ceil
        | Function::Round
        | Function::ToFloat16
        | Function::ToBfloat16
        | Function::Not
        | Function::Truncate => 0,
        Function::Clip { min, max } if is_short(min) && is_short(max) => 0,
        Function::Clip { .. } | Function::LeakyRelu { .. } | Function::Square => 1,
        Function::Scale { .. } | Function::Dequantize { .. } => 1,
        Function::Reciprocal | Function::Sqrt => 1,
        Function::Softsign => 2,
        Function::HardSigmoid { .. } => 3,
        Function::HardSwish => 4,
        _ => OF_FUNCTIONS,
    }
}

/// What the errors of intermediate results add to `|y|`, for an input of size `x`.
pub(super) fn of_intermediates(function: Function, x: f64, y: f64) -> f64 {
    match function {
        // The argument's own error is relative to it, and becomes one of the exponential.
        Function::Celu { .. } => x,
        Function::Swish { alpha } => y * (alpha * x).abs(),
        Function::Gelu { .. } | Function::Mish => x,
        Function::HardSigmoid { alpha, beta } => (alpha * x).abs() + beta.abs(),
        Function::HardSwish => x * (x / 6.0 + 0.5),
        _ => 0.0,
    }
}

/// An error of the difference `x − m` is a relative error of its exponential. In the sum, each is weighted by its
/// share.
pub(super) fn of_softmax(softmax: &Softmax, x: &[f64]) -> Vec<f64> {
    let Softmax { outer, len, inner, log } = *softmax;
    let mut sums = vec![0.0; x.len()];
    for row in 0..outer * inner {
        let first = row / inner * len * inner + row % inner;
        let places = || (0..len).map(|i| first + i * inner);
        let at = |place: usize| x.get(place).copied().unwrap_or(f64::NAN);
        let greatest = places().map(at).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = places().map(|place| (at(place) - greatest).exp()).sum();
        let share = |place: usize| (at(place) - greatest).exp() / sum;
        let distance = |place: usize| (at(place) - greatest).abs();
        let weighted: f64 = places().map(|place| share(place) * distance(place)).sum();
        for place in places() {
            let own = 1.0 + distance(place) + weighted;
            if let Some(slot) = sums.get_mut(place) {
                *slot = if log { own + sum.ln().abs() } else { own * share(place) };
            }
        }
    }
    sums
}

/// A deviation has the errors of the element and of the mean; the variance has those of all deviations.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
pub(super) fn of_layer_norm(norm: &LayerNorm, x: &[f64], scale: &[f64], bias: &[f64]) -> Vec<f64> {
    let len = norm.len as f64;
    let mut sums = Vec::with_capacity(x.len());
    for row in x.chunks_exact(norm.len.max(1)) {
        let mean = row.iter().sum::<f64>() / len;
        let size = row.iter().map(|x| x.abs()).sum::<f64>() / len;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len;
        let squares = (row.iter().map(|x| x * x).sum::<f64>() / len).sqrt();
        let root = (variance + norm.epsilon).sqrt();
        let of_variance = (squares + size) * variance.sqrt() / (variance + norm.epsilon);
        for (x, place) in row.iter().zip(0..) {
            let own = x.abs() + size + (x - mean).abs() * (1.0 + of_variance);
            let at = |values: &[f64]| values.get(place).map_or(0.0, |value: &f64| value.abs());
            sums.push(own / root * at(scale) + at(bias));
        }
    }
    sums
}

/// The image's own channels and the constant are exact. The argument of the sine is at most 10.
#[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
fn of_static_features(height: usize, width: usize, len: usize) -> Vec<f64> {
    let plane = (height * width).max(1);
    let magnitude = |i: usize| {
        let (channel, place) = (i / plane % 8, i % plane);
        let u = ((place % width.max(1)) as f64 + 0.5) / width as f64;
        match channel {
            4 => u,
            5 => ((place / width.max(1)) as f64 + 0.5) / height as f64,
            6 => 1.0 + 10.0 * u,
            _ => 0.0,
        }
    };
    (0..len).map(magnitude).collect()
}
