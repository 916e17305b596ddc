//! Follows rounding errors through the steps of a recurrent layer.

use super::bounded::compute;
use super::rounding::{of_intermediates, of_one, slope};
use crate::kernel::{Cell, Function, Kernel, Recurrence, Unary};
use crate::{Array, Element};
use ckpt_api::Result;

/// Numbers with bounds on their errors, in units of the unit roundoff.
#[derive(Clone)]
pub(super) struct Numbers {
    pub(super) values: Vec<f64>,
    pub(super) errors: Vec<f64>,
}

/// A number with the bound on its error.
#[derive(Clone, Copy, Default)]
struct Number {
    value: f64,
    error: f64,
}

impl Number {
    /// The sum, rounded.
    fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        Number { value, error: self.error + other.error + 2.0 * value.abs() }
    }

    /// The product, rounded.
    fn times(self, other: Self) -> Self {
        let value = self.value * other.value;
        let error = self.value.abs() * other.error + other.value.abs() * self.error;
        Number { value, error: error + 2.0 * value.abs() }
    }
}

impl Numbers {
    fn at(&self, place: usize) -> Number {
        let of = |numbers: &[f64]| numbers.get(place).copied().unwrap_or_default();
        Number { value: of(&self.values), error: of(&self.errors) }
    }
}

/// The operands of a [`Recurrence`].
pub(super) struct Operands {
    pub(super) x: Numbers,
    pub(super) weight: Numbers,
    pub(super) bias: Option<Numbers>,
    pub(super) hidden: Option<Numbers>,
    pub(super) cell: Option<Numbers>,
}

/// Returns the bound on the error of each state, `[batch, states, steps, hidden]`.
pub(super) fn errors(kernel: &Recurrence, from: &Operands) -> Result<Vec<f64>> {
    let (units, states) = (kernel.hidden, kernel.cell.states());
    let mut errors = vec![0.0; kernel.batch * kernel.example()];
    for (example, errors) in errors.chunks_exact_mut(kernel.example().max(1)).enumerate() {
        let first = |given: &Option<Numbers>| -> Vec<Number> {
            let at =
                |unit| given.as_ref().map_or(Number::default(), |given| given.at(example * units + unit));
            (0..units).map(at).collect()
        };
        let mut state = [first(&from.hidden), first(&from.cell)];
        for step in kernel.order() {
            state = Step { kernel, from, example, step }.next(&state)?;
            for (place, state) in state.iter().enumerate().take(states) {
                let first = (place * kernel.steps + step) * units;
                for (error, number) in errors.iter_mut().skip(first).zip(state) {
                    *error = number.error;
                }
            }
        }
    }
    Ok(errors)
}

/// One step of one example.
struct Step<'a> {
    kernel: &'a Recurrence,
    from: &'a Operands,
    example: usize,
    step: usize,
}

impl Step<'_> {
    fn next(&self, [h, c]: &[Vec<Number>; 2]) -> Result<[Vec<Number>; 2]> {
        let argument = |gate: usize, by: &[Number]| -> Vec<Number> {
            self.sums(gate, by)
                .into_iter()
                .enumerate()
                .map(|(j, sum)| self.input(gate, j).plus(sum))
                .collect()
        };
        let each = |a: Vec<Number>, b: &[Number], of: fn(Number, Number) -> Number| -> Vec<Number> {
            a.into_iter().zip(b).map(|(a, b)| of(a, *b)).collect()
        };
        let kept = |c: &[Number]| c.to_vec();
        Ok(match self.kernel.cell {
            Cell::Lstm { gate, input, output } => {
                let [i, o, f] = [0, 1, 2].map(|place| self.apply(gate, argument(place, h)));
                let added = each(i?, &self.apply(input, argument(3, h))?, Number::times);
                let c = each(each(f?, c, Number::times), &added, Number::plus);
                [each(function_of(output, &c)?, &o?, Number::times), c]
            }
            Cell::Gru { gate, input, linear_before_reset } => {
                let z = self.apply(gate, argument(0, h))?;
                let r = self.apply(gate, argument(1, h))?;
                let a = match linear_before_reset {
                    true => {
                        let reset = each(r, &self.sums(2, h), Number::times);
                        reset.into_iter().enumerate().map(|(j, sum)| self.input(2, j).plus(sum)).collect()
                    }
                    false => argument(2, &each(r, h, Number::times)),
                };
                let one = Number { value: 1.0, error: 0.0 };
                let rest = z.iter().map(|z| one.plus(Number { value: -z.value, error: z.error }));
                let new = each(rest.collect(), &self.apply(input, a)?, Number::times);
                [each(new, &each(z, h, Number::times), Number::plus), kept(c)]
            }
            Cell::Rnn { function } => [self.apply(function, argument(0, h))?, kept(c)],
        })
    }

    /// The input's part of a gate.
    fn input(&self, gate: usize, unit: usize) -> Number {
        let Recurrence { hidden, x: [by_step, by_example], ref gates, .. } = *self.kernel;
        let place = gates.get(gate).copied().unwrap_or(gate);
        self.from.x.at(self.step * by_step + self.example * by_example + place * hidden + unit)
    }

    /// The sums of a gate over these hidden units, with its bias.
    #[expect(clippy::cast_precision_loss, reason = "lengths are below 2^53")]
    fn sums(&self, gate: usize, h: &[Number]) -> Vec<Number> {
        let Recurrence { hidden, weight: [unit, inner], ref gates, .. } = *self.kernel;
        let first = gates.get(gate).copied().unwrap_or(gate) * hidden;
        let sum = |j: usize| {
            let mut sum = Number::default();
            let mut sizes = 0.0;
            for (k, h) in h.iter().enumerate() {
                let weight = self.from.weight.at((first + j) * unit + k * inner);
                sum.value += h.value * weight.value;
                sum.error += h.error * weight.value.abs() + h.value.abs() * weight.error;
                sizes += (h.value * weight.value).abs();
            }
            sum.error += 2.0 * (hidden as f64).sqrt() * sizes + 2.0 * sum.value.abs();
            self.from.bias.as_ref().map_or(sum, |bias| sum.plus(bias.at(first + j)))
        };
        (0..hidden).map(sum).collect()
    }

    /// A function of each number, after the clip.
    fn apply(&self, function: Function, mut x: Vec<Number>) -> Result<Vec<Number>> {
        if let Some(clip) = self.kernel.clip {
            x.iter_mut().for_each(|x| x.value = x.value.clamp(-clip, clip));
        }
        function_of(function, &x)
    }
}

/// A function of each number.
#[expect(clippy::cast_precision_loss, reason = "numbers of summands are small")]
fn function_of(function: Function, x: &[Number]) -> Result<Vec<Number>> {
    let values: Vec<f64> = x.iter().map(|x| x.value).collect();
    let kernel = Kernel::Unary(Unary { len: x.len(), function });
    let made = compute(&kernel, &[&Array::F64(values)], &Array::zeros(Element::F64, x.len()))?;
    let factor = 2.0 * (of_one(function) as f64).sqrt();
    let number = |(x, y): (&Number, f64)| {
        let own = factor * (y.abs() + of_intermediates(function, x.value.abs(), y.abs())) + 2.0 * y.abs();
        Number { value: y, error: slope(function, x.value, y) * x.error + own }
    };
    Ok(x.iter().zip(made.as_f64().iter().copied()).map(number).collect())
}
