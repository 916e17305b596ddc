//! Bounds rounding errors.

use super::bounded::{Bounded, Fetch};
use super::rounding::{UNIT, of_intermediates, of_layer_norm, of_softmax, of_static_features, summands};
use super::{enclosed, propagate};
use crate::kernel::{Function, Kernel, Pairwise};
use crate::lower::{Call, Load, Task};
use crate::program::device::Device;
use crate::program::parts::{Control, Program, Step};
use crate::program::run::{check, indices};
use crate::value::Value;
use crate::{Arithmetic, Array, Cpu, Element};
use ckpt_api::{Error, Result};

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

    /// Returns a bound on the error of each output of the node at index `node`, if the node's tensors have
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
