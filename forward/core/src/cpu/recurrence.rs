//! Recurrent layers: the weight is packed once for all steps.

use super::elementwise::real;
use super::number::{Real, Stored};
use super::parallel;
use super::product::{Job, Lanes, Product, ROWS, Tile, pack};
use crate::kernel::{Cell, Function, Recurrence};

/// The operands of a [`Recurrence`].
pub(super) struct Operands<'a, T> {
    pub(super) x: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) bias: Option<&'a [T]>,
    pub(super) hidden: Option<&'a [T]>,
    pub(super) cell: Option<&'a [T]>,
}

pub(super) fn recurrence<T, A>(kernel: &Recurrence, from: &Operands<T>, y: &mut [T]) -> Option<()>
where
    T: Stored<A> + Default,
    A: Real + Product,
{
    A::dispatch(Run { kernel, from, y })
}

struct Run<'a, T> {
    kernel: &'a Recurrence,
    from: &'a Operands<'a, T>,
    y: &'a mut [T],
}

impl<T, A> Job<A> for Run<'_, T>
where
    T: Stored<A> + Default,
    A: Real + Product,
{
    fn run<const C: usize>(self) -> Option<()>
    where
        A: Tile<C>,
    {
        let Run { kernel, from, y } = self;
        let gates = kernel.cell.gates();
        // The last gate of a GRU multiplies another vector.
        let late = usize::from(matches!(kernel.cell, Cell::Gru { linear_before_reset: false, .. }));
        let early = Panels::<A, C>::new(kernel, from.weight, 0..gates - late);
        let late = Panels::<A, C>::new(kernel, from.weight, gates - late..gates);
        let work = kernel.batch * kernel.steps * gates * kernel.hidden * kernel.hidden;
        parallel::rows(y, kernel.example(), work, |first, y| {
            for (tile, y) in y.chunks_mut(ROWS * kernel.example()).enumerate() {
                let count = y.len() / kernel.example();
                let examples = Examples { kernel, from, first: first + tile * ROWS, count };
                examples.run(&early, &late, y)?;
            }
            Some(())
        })
    }
}

/// The weight of some gates, packed for tiles.
struct Panels<A, const C: usize> {
    columns: Vec<[A; C]>,
    hidden: usize,
    /// Gates times units.
    len: usize,
}

impl<A: Real + Tile<C>, const C: usize> Panels<A, C> {
    fn new<T: Stored<A>>(kernel: &Recurrence, weight: &[T], gates: std::ops::Range<usize>) -> Self {
        let Recurrence { hidden, weight: [unit, inner], .. } = *kernel;
        let steps: Vec<usize> = (0..hidden).map(|k| k * inner).collect();
        let len = gates.len() * hidden;
        // A panel does not cross from one gate to the next, which may lie elsewhere.
        let panels = hidden.div_ceil(C);
        let mut columns = vec![[A::ZERO; C]; gates.len() * panels * hidden];
        for (panel, columns) in columns.chunks_exact_mut(hidden.max(1)).enumerate() {
            let gate = gates.start + panel / panels;
            let (place, from) = (kernel.gates.get(gate).copied().unwrap_or(gate), panel % panels * C);
            let first = (place * hidden + from) * unit;
            pack(columns, weight, &Lanes { first, lane: unit, count: hidden - from, steps: &steps });
        }
        Panels { columns, hidden, len }
    }

    /// Computes `sums[row][gate, unit]` of the products with rows of hidden units.
    fn multiply(&self, rows: &[[A; ROWS]], sums: &mut [[A; ROWS]]) {
        let panels = self.hidden.div_ceil(C);
        for (panel, columns) in self.columns.chunks_exact(self.hidden.max(1)).enumerate() {
            let tile = A::tile(rows, columns);
            let from = panel % panels * C;
            let first = panel / panels * self.hidden + from;
            for (lane, sums) in sums[first..][..C.min(self.hidden - from)].iter_mut().enumerate() {
                for (sum, row) in sums.iter_mut().zip(&tile) {
                    *sum = row[lane];
                }
            }
        }
    }
}

/// Some examples, at most [`ROWS`].
struct Examples<'a, T> {
    kernel: &'a Recurrence,
    from: &'a Operands<'a, T>,
    first: usize,
    count: usize,
}

impl<T: Copy + Default> Examples<'_, T> {
    /// Runs all steps, and stores the states in `y`, which is `[count, states, steps, hidden]`.
    fn run<A, const C: usize>(&self, early: &Panels<A, C>, late: &Panels<A, C>, y: &mut [T]) -> Option<()>
    where
        T: Stored<A>,
        A: Real + Tile<C>,
    {
        let Recurrence { hidden, steps, .. } = *self.kernel;
        let mut state = self.initial(self.from.hidden);
        let mut cell = self.initial(self.from.cell);
        let mut sums = vec![[A::ZERO; ROWS]; early.len + late.len];
        let mut reset = vec![[A::ZERO; ROWS]; if late.len > 0 { hidden } else { 0 }];
        for step in self.kernel.order() {
            early.multiply(&state, &mut sums);
            if late.len > 0 {
                self.reset(step, &sums, &state, &mut reset)?;
                late.multiply(&reset, &mut sums[early.len..]);
            }
            for row in 0..self.count {
                let y = &mut y[row * self.kernel.example()..][..self.kernel.example()];
                for unit in 0..hidden {
                    let old = [state[unit][row], cell[unit][row]];
                    let new = self.unit(step, (row, unit), &sums, old)?;
                    let rounded = [T::narrow(new[0])?, T::narrow(new[1])?];
                    y[step * hidden + unit] = rounded[0];
                    if let Some(y) = y.get_mut((steps + step) * hidden + unit) {
                        *y = rounded[1];
                    }
                    (state[unit][row], cell[unit][row]) = (rounded[0].widen(), rounded[1].widen());
                }
            }
        }
        Some(())
    }

    /// A first state, `[hidden][row]`.
    fn initial<A: Real>(&self, given: Option<&[T]>) -> Vec<[A; ROWS]>
    where
        T: Stored<A>,
    {
        let hidden = self.kernel.hidden;
        let mut state = vec![[A::ZERO; ROWS]; hidden];
        let Some(given) = given else { return state };
        for row in 0..self.count {
            let given = &given[(self.first + row) * hidden..][..hidden];
            state.iter_mut().zip(given).for_each(|(state, given)| state[row] = given.widen());
        }
        state
    }

    /// The sum of a gate, with its bias.
    fn sum<A: Real>(&self, gate: usize, (row, unit): (usize, usize), sums: &[[A; ROWS]]) -> A
    where
        T: Stored<A>,
    {
        let hidden = self.kernel.hidden;
        let sum = sums[gate * hidden + unit][row];
        self.from.bias.map_or(sum, |bias| sum.add(bias[self.kernel.gates[gate] * hidden + unit].widen()))
    }

    /// The input's part of a gate.
    fn input<A: Real>(&self, step: usize, gate: usize, (row, unit): (usize, usize)) -> A
    where
        T: Stored<A>,
    {
        let Recurrence { hidden, x: [by_step, by_example], .. } = *self.kernel;
        let first = step * by_step + (self.first + row) * by_example;
        self.from.x[first + self.kernel.gates[gate] * hidden + unit].widen()
    }

    fn apply<A: Real>(&self, function: Function, x: A) -> Option<A> {
        let x = match self.kernel.clip {
            Some(clip) => real(Function::Clip { min: -clip, max: clip }, x)?,
            None => x,
        };
        real(function, x)
    }

    /// The hidden state, multiplied with the reset gate of a GRU.
    fn reset<A: Real>(
        &self,
        step: usize,
        sums: &[[A; ROWS]],
        state: &[[A; ROWS]],
        reset: &mut [[A; ROWS]],
    ) -> Option<()>
    where
        T: Stored<A>,
    {
        let Cell::Gru { gate, .. } = self.kernel.cell else { return Some(()) };
        for row in 0..self.count {
            for (unit, (reset, state)) in reset.iter_mut().zip(state).enumerate() {
                let at = (row, unit);
                let r = self.apply(gate, self.input::<A>(step, 1, at).add(self.sum(1, at, sums)))?;
                reset[row] = r.mul(state[row]);
            }
        }
        Some(())
    }

    /// The hidden state and the cell state of a unit after a step.
    fn unit<A: Real>(
        &self,
        step: usize,
        at: (usize, usize),
        sums: &[[A; ROWS]],
        [h, c]: [A; 2],
    ) -> Option<[A; 2]>
    where
        T: Stored<A>,
    {
        let argument = |gate: usize| self.input::<A>(step, gate, at).add(self.sum(gate, at, sums));
        Some(match self.kernel.cell {
            Cell::Lstm { gate, input, output } => {
                let [i, o, f] = [argument(0), argument(1), argument(2)].map(|a| self.apply(gate, a));
                let c = f?.mul(c).add(i?.mul(self.apply(input, argument(3))?));
                [o?.mul(self.apply(output, c)?), c]
            }
            Cell::Gru { gate, input, linear_before_reset } => {
                let z = self.apply(gate, argument(0))?;
                let a = match linear_before_reset {
                    true => {
                        let r = self.apply(gate, argument(1))?;
                        self.input::<A>(step, 2, at).add(r.mul(self.sum(2, at, sums)))
                    }
                    false => argument(2),
                };
                let new = self.apply(input, a)?;
                [A::constant(1.0).sub(z).mul(new).add(z.mul(h)), c]
            }
            Cell::Rnn { function } => [self.apply(function, argument(0))?, c],
        })
    }
}
