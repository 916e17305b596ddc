//! Recurrent layers: the weight is packed once for all steps.

use super::elementwise::real;
use super::number::{Real, Stored};
use super::parallel;
use super::product::{Job, Lanes, Product, Tile, pack};
use super::vectors::{ROWS, Used};
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
            let count = y.len() / kernel.example();
            Examples { kernel, from, first, count }.run(&early, &late, y)
        })
    }
}

/// The weight of some gates, packed for tiles.
struct Panels<A, const C: usize> {
    columns: Vec<[A; C]>,
    hidden: usize,
    gates: usize,
}

impl<A: Real + Tile<C>, const C: usize> Panels<A, C> {
    fn new<T: Stored<A>>(kernel: &Recurrence, weight: &[T], gates: std::ops::Range<usize>) -> Self {
        let Recurrence { hidden, weight: [unit, inner], .. } = *kernel;
        let steps: Vec<usize> = (0..hidden).map(|k| k * inner).collect();
        // A panel does not cross from one gate to the next, which may be elsewhere.
        let panels = hidden.div_ceil(C);
        let mut columns = vec![[A::ZERO; C]; gates.len() * panels * hidden];
        for (panel, columns) in columns.chunks_exact_mut(hidden.max(1)).enumerate() {
            let gate = gates.start + panel / panels;
            let (place, from) = (kernel.gates.get(gate).copied().unwrap_or(gate), panel % panels * C);
            let first = (place * hidden + from) * unit;
            pack(columns, weight, &Lanes { first, lane: unit, count: hidden - from, steps: &steps });
        }
        Panels { columns, hidden, gates: gates.len() }
    }

    /// Computes the products with tiles of `count` rows of hidden units, and stores them from gate `first` on.
    fn multiply(&self, rows: &[[A; ROWS]], first: usize, count: usize, sums: &mut Sums<A>) {
        let panels = self.hidden.div_ceil(C);
        // Each panel stays in the cache for all tiles.
        for (panel, columns) in self.columns.chunks_exact(self.hidden.max(1)).enumerate() {
            let from = panel % panels * C;
            let first = (first + panel / panels) * self.hidden + from;
            for (tile, rows) in rows.chunks_exact(self.hidden).enumerate() {
                let used = Used { rows: count - tile * ROWS, columns: self.hidden - from, is_fused: false };
                let mut computed = [[A::ZERO; C]; ROWS];
                A::tile(rows, columns, used, &mut computed);
                let sums = &mut sums.values[tile * sums.units + first..][..C.min(self.hidden - from)];
                for (lane, sums) in sums.iter_mut().enumerate() {
                    for (sum, row) in sums.iter_mut().zip(&computed) {
                        *sum = row[lane];
                    }
                }
            }
        }
    }
}

/// The sums of all gates, in tiles of [`ROWS`] examples.
struct Sums<A> {
    values: Vec<[A; ROWS]>,
    /// Gates times units.
    units: usize,
}

impl<A: Real> Sums<A> {
    fn at(&self, row: usize, unit: usize) -> A {
        self.values[row / ROWS * self.units + unit][row % ROWS]
    }
}

/// Some examples.
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
        let mut reset = if late.gates > 0 { state.clone() } else { Vec::new() };
        let units = (early.gates + late.gates) * hidden;
        let mut sums = Sums { values: vec![[A::ZERO; ROWS]; self.count.div_ceil(ROWS) * units], units };
        for step in self.kernel.order() {
            early.multiply(&state, 0, self.count, &mut sums);
            if late.gates > 0 {
                self.reset(step, &sums, &state, &mut reset)?;
                late.multiply(&reset, early.gates, self.count, &mut sums);
            }
            for row in 0..self.count {
                let y = &mut y[row * self.kernel.example()..][..self.kernel.example()];
                let (tile, lane) = (row / ROWS * hidden, row % ROWS);
                for unit in 0..hidden {
                    let (h, c) = (&mut state[tile + unit][lane], &mut cell[tile + unit][lane]);
                    let new = self.unit(step, (row, unit), &sums, [*h, *c])?;
                    let rounded = [T::narrow(new[0])?, T::narrow(new[1])?];
                    y[step * hidden + unit] = rounded[0];
                    if let Some(y) = y.get_mut((steps + step) * hidden + unit) {
                        *y = rounded[1];
                    }
                    (*h, *c) = (rounded[0].widen(), rounded[1].widen());
                }
            }
        }
        Some(())
    }

    /// A first state, in tiles: `[tile][hidden][row]`.
    fn initial<A: Real>(&self, given: Option<&[T]>) -> Vec<[A; ROWS]>
    where
        T: Stored<A>,
    {
        let hidden = self.kernel.hidden;
        let mut state = vec![[A::ZERO; ROWS]; self.count.div_ceil(ROWS) * hidden];
        let Some(given) = given else { return state };
        for row in 0..self.count {
            let given = &given[(self.first + row) * hidden..][..hidden];
            let state = &mut state[row / ROWS * hidden..][..hidden];
            state.iter_mut().zip(given).for_each(|(state, given)| state[row % ROWS] = given.widen());
        }
        state
    }

    /// The sum of a gate, with its bias.
    fn sum<A: Real>(&self, gate: usize, (row, unit): (usize, usize), sums: &Sums<A>) -> A
    where
        T: Stored<A>,
    {
        let hidden = self.kernel.hidden;
        let sum = sums.at(row, gate * hidden + unit);
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
        sums: &Sums<A>,
        state: &[[A; ROWS]],
        reset: &mut [[A; ROWS]],
    ) -> Option<()>
    where
        T: Stored<A>,
    {
        let Cell::Gru { gate, .. } = self.kernel.cell else { return Some(()) };
        for row in 0..self.count {
            let tile = row / ROWS * self.kernel.hidden..(row / ROWS + 1) * self.kernel.hidden;
            for (unit, (reset, state)) in reset[tile.clone()].iter_mut().zip(&state[tile]).enumerate() {
                let at = (row, unit);
                let r = self.apply(gate, self.input::<A>(step, 1, at).add(self.sum(1, at, sums)))?;
                reset[row % ROWS] = r.mul(state[row % ROWS]);
            }
        }
        Some(())
    }

    /// The hidden state and the cell state of a unit after a step.
    fn unit<A: Real>(&self, step: usize, at: (usize, usize), sums: &Sums<A>, [h, c]: [A; 2]) -> Option<[A; 2]>
    where
        T: Stored<A>,
    {
        let argument = |gate: usize| self.input::<A>(step, gate, at).add(self.sum(gate, at, sums));
        Some(match self.kernel.cell {
            Cell::Lstm { gate, input, output } => {
                let [i, o, f] = [argument(0), argument(1), argument(2)].map(|a| self.apply(gate, a));
                let c = f?.mul(c).add(i?.mul(self.apply(input, argument(3))?));
                [o?.mul(real(output, c)?), c]
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
