//! The steps of recurrent layers.

use super::Function;
use serde::Serialize;

/// The steps of one direction of a recurrent layer. Operands: `x`, the input's part of every gate for every step and
/// example; `weight`; `bias` (one number for each gate and unit) if `bias` is set; `h`, the first hidden state,
/// `[batch, hidden]`, if `initial_hidden` is set, or else 0; `c`, the first cell state, likewise.
///
/// `y` is `[batch, states, steps, hidden]`: the hidden state after each step, and for an LSTM the cell state as a
/// second one, each at the place of its step. Both are rounded to `T`. For each step, from the first one on, or from
/// the last with `reverse`, gate `q` of unit `j` has `s = Σ h[k]·weight[…]` for ascending `k`, plus `bias[…]` if there
/// is one, and `a = x[…] + s`. With `clip`, each `a` is brought to `−clip..clip` first; `c'` is not, as in onnxruntime.
/// - LSTM, gates i, o, f, c: `c' = gate(a_f)·c + gate(a_i)·input(a_c)`, `h' = gate(a_o)·output(c')`.
/// - GRU, gates z, r, h: `h' = (1 − z)·input(a_h) + z·h` with `z = gate(a_z)`, `r = gate(a_r)`. For gate h, `s` is a
///   sum over `(r[k]·h[k])·weight[…]`, or with `linear_before_reset`, `a_h = x[…] + r·s`.
/// - RNN, one gate: `h' = function(a)`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recurrence {
    /// The equations.
    pub cell: Cell,
    /// Steps.
    pub steps: usize,
    /// Examples.
    pub batch: usize,
    /// Units.
    pub hidden: usize,
    /// Strides of `x`: step, example. The gates of an example are side by side, each with all of its units.
    pub x: [usize; 2],
    /// Strides of the weight: unit of a gate, hidden unit `k`.
    pub weight: [usize; 2],
    /// The place of each gate, in the order of the equations, among those of `x`, the weight and the bias.
    pub gates: Vec<usize>,
    /// Whether the last step comes first.
    pub reverse: bool,
    /// The greatest size of a gate's argument.
    pub clip: Option<f64>,
    /// Whether there is a bias.
    pub bias: bool,
    /// Whether the first hidden state is an operand.
    pub initial_hidden: bool,
    /// Whether the first cell state is an operand.
    pub initial_cell: bool,
}

/// The equations of a recurrent layer, with their functions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Long short-term memory.
    Lstm {
        /// Of the gates i, o and f.
        gate: Function,
        /// Of the gate c.
        input: Function,
        /// Of the cell state.
        output: Function,
    },
    /// Gated recurrent unit.
    Gru {
        /// Of the gates z and r.
        gate: Function,
        /// Of the gate h.
        input: Function,
        /// Whether the reset gate is multiplied after the sum over the hidden state.
        linear_before_reset: bool,
    },
    /// A layer of one gate.
    Rnn {
        /// Of the gate.
        function: Function,
    },
}

impl Cell {
    /// Returns the number of gates.
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm { .. } => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn { .. } => 1,
        }
    }

    /// Returns the number of states.
    pub fn states(self) -> usize {
        if matches!(self, Cell::Lstm { .. }) { 2 } else { 1 }
    }
}

impl Recurrence {
    /// Returns the number of elements that are computed for one example.
    pub fn example(&self) -> usize {
        self.cell.states() * self.steps * self.hidden
    }

    /// Returns the steps in their order.
    pub fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (steps, reverse) = (self.steps, self.reverse);
        (0..steps).map(move |step| if reverse { steps - 1 - step } else { step })
    }
}
