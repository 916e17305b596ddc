//! Recurrent layers, step by step: the operators of a cell, once for each step of a sequence.

use crate::model::Program;
use crate::operator::{Binary, Operator, Unary};
use crate::unsupported;
use crate::values::{Builder, Kind, Val};
use ckpt_api::{Axis, Node, Op, Result};
use ckpt_graph::axes;
use ckpt_graph::cells::defaults;
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Dims, Length};

/// Steps of a sequence, at most: each takes operators of its own.
const MOST_STEPS: u64 = 1024;
/// Tensors that a step makes, about.
const STEP_TENSORS: u64 = 16;
/// Bytes of the names of what all steps make, at most, and as many as a short one counts.
const MOST_NAMES: u64 = 64 << 20;
const SHORT_NAME: u64 = 64;

/// A recurrent layer: what its directions have in common.
struct Layer {
    steps: usize,
    batch: Length,
    units: u64,
    /// A letter for each gate, as they are stored.
    gates: Vec<char>,
    directions: usize,
    batch_first: bool,
    /// Whether a gated unit's state is multiplied before the reset gate is.
    resets_after: bool,
    /// What is applied, in ONNX's order, for each direction.
    activations: Vec<String>,
    /// The slope and the offset of a hard sigmoid.
    line: (f64, f64),
}

/// The weights of a direction. Biases are of the input, and of the state.
struct Weights {
    input: usize,
    state: usize,
    biases: [Option<usize>; 2],
}

/// The states of a direction; `None` for one that is zero.
type States = [Option<Val>; 2];

impl Builder<'_> {
    /// Writes ONNX's `LSTM`, `GRU` and `RNN`, and sets their results.
    pub(super) fn recurrent_node(&mut self, node: &Node) -> Result<()> {
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let layer = self.recurrent_layer(node, &x)?;
        let made = (layer.steps as u64).saturating_mul(layer.directions as u64).saturating_mul(STEP_TENSORS);
        let names = made.saturating_mul((node.name.len() as u64).max(SHORT_NAME));
        self.unrolled = self.unrolled.saturating_add(names);
        if self.unrolled > MOST_NAMES {
            return Err(unsupported(node, "the steps of all its sequences are too many"));
        }
        let weights = self.recurrent_weights(node, &layer)?;
        let mut all = Vec::new();
        let mut last: Vec<States> = Vec::new();
        for (direction, own) in weights.iter().enumerate() {
            let is_reversed = layer.directions > 1 && direction == 1 || is_reverse(node)?;
            let first = self.first_states(node, &layer, direction)?;
            let (outputs, states) =
                self.direction(node, &layer, (direction, is_reversed), (&x, own, first))?;
            all.push(outputs);
            last.push(states);
        }
        for (at, output) in node.outputs.iter().enumerate() {
            if output.is_empty() || !self.uses.contains_key(output.as_str()) {
                continue;
            }
            let made = match at {
                0 => self.all_steps(&layer, &all)?,
                _ => self.last_states(node, &layer, &last, at.saturating_sub(1))?,
            };
            self.set(output, made);
        }
        Ok(())
    }

    fn recurrent_layer(&self, node: &Node, x: &Val) -> Result<Layer> {
        if node.float("clip", 0.0)? != 0.0 || node.flag("input_forget")? {
            return Err(unsupported(node, "its gates are clipped or coupled"));
        }
        if node.parameters.keys().any(|role| !ROLES.contains(&role.as_str())) {
            return Err(unsupported(node, "it has other tensors than weights and biases"));
        }
        let batch_first = node.flag("layout")?;
        let [first, second, _] = x.dims[..] else {
            return Err(unsupported(node, "it takes a value that is no sequence"));
        };
        let (steps, batch) = if batch_first { (second, first) } else { (first, second) };
        let steps = steps.size().filter(|steps| (1..=MOST_STEPS).contains(steps));
        let steps = steps.and_then(|steps| usize::try_from(steps).ok());
        let steps = steps.ok_or_else(|| {
            unsupported(node, "the length of its sequence is not stated, or more than 1024")
                .help("give the model an input with a length: each step takes operators of its own")
        })?;
        let (_, recurrent) = self.required(node, "recurrent_weight")?;
        let units = recurrent.axis(Axis::In).and_then(|at| recurrent.shape.get(at)).copied();
        let own = defaults(node.op.name()).ok_or_else(|| unsupported(node, "it is no recurrent layer"))?;
        let directions = if node.text("direction")? == Some("bidirectional") { 2 } else { 1 };
        let names = match node.texts("activations")? {
            Some(names) => names.to_vec(),
            None => {
                let names = own.activations.repeat(directions);
                names.into_iter().map(str::to_owned).collect()
            }
        };
        let line = |name: &str, default: f64| -> Result<f64> {
            let all = node.floats(name)?.unwrap_or_default();
            let first = all.first().copied().unwrap_or(default);
            match all.iter().all(|own| *own == first) {
                true => Ok(first),
                false => Err(unsupported(node, "its activations have several slopes")),
            }
        };
        Ok(Layer {
            steps,
            batch,
            units: units.ok_or_else(|| unsupported(node, "its units are not known"))?,
            gates: node.text("gates")?.unwrap_or(own.gates).chars().collect(),
            directions,
            batch_first,
            resets_after: node.flag("linear_before_reset")?,
            activations: names,
            line: (line("activation_alpha", 0.2)?, line("activation_beta", 0.5)?),
        })
    }

    /// The weights of each direction.
    fn recurrent_weights(&mut self, node: &Node, layer: &Layer) -> Result<Vec<Weights>> {
        let input = self.matrices(node, layer, "weight")?;
        let state = self.matrices(node, layer, "recurrent_weight")?;
        let mut biases: Vec<[Option<usize>; 2]> = vec![[None; 2]; layer.directions];
        let width = layer.width();
        for (role, place) in [("bias", 0), ("recurrent_bias", 1)] {
            let Some((id, tensor)) = self.parameter(node, role)? else { continue };
            let rows = tensor.shape.elements().checked_div(width).and_then(|rows| usize::try_from(rows).ok());
            let rows = rows.unwrap_or_default();
            let order = (0..tensor.shape.rank()).collect();
            let count = rows.checked_div(layer.directions).unwrap_or_default();
            if !(1..=2).contains(&count) || tensor.shape.elements() != width.saturating_mul(rows as u64) {
                return Err(unsupported(node, "its biases do not fit its units"));
            }
            let whole = self.weight(id, order, vec![rows as u64, width])?;
            let rows = self.rows_of(whole, rows, width)?;
            for (at, row) in rows.into_iter().enumerate() {
                let direction = at.checked_div(count).and_then(|direction| biases.get_mut(direction));
                let own = place.max(at.checked_rem(count).unwrap_or_default());
                if let Some(own) = direction.and_then(|direction| direction.get_mut(own)) {
                    *own = Some(row);
                }
            }
        }
        let both = input.into_iter().zip(state).zip(biases);
        Ok(both.map(|((input, state), biases)| Weights { input, state, biases }).collect())
    }

    /// The matrix of a role for each direction, as the program has kernels of dense layers.
    fn matrices(&mut self, node: &Node, layer: &Layer, role: &str) -> Result<Vec<usize>> {
        let (id, tensor) = self.required(node, role)?;
        let wanted = match self.program {
            Program::Lite => [Axis::Out, Axis::In],
            Program::JavaScript => [Axis::In, Axis::Out],
        };
        let of = |axis: Axis| tensor.axis(axis).and_then(|at| tensor.shape.get(at)).copied().unwrap_or(1);
        let lens = wanted.map(of);
        if of(Axis::Out) != layer.width() {
            return Err(unsupported(node, "its weights do not fit its units"));
        }
        if layer.directions == 1 {
            let order = axes::order(tensor, &wanted)?;
            return Ok(vec![self.weight(id, order, lens.to_vec())?]);
        }
        let order = axes::order(tensor, &[Axis::Direction, wanted[0], wanted[1]])?;
        let whole = self.weight(id, order, [&[layer.directions as u64], &lens[..]].concat())?;
        let dims = of_sizes(&[&[layer.directions as u64], &lens[..]].concat());
        let whole = Val { tensor: whole, dims, is_turned: false, kind: Kind::Real };
        let part = (of_sizes(&[1, lens[0], lens[1]]), false, Kind::Real);
        let parts = self.parts(&whole, 0, &vec![part; layer.directions])?;
        parts.iter().map(|part| Ok(self.reshaped(part, of_sizes(&lens))?.tensor)).collect()
    }

    /// The rows of a matrix, as vectors.
    fn rows_of(&mut self, whole: usize, rows: usize, width: u64) -> Result<Vec<usize>> {
        let dims = of_sizes(&[rows as u64, width]);
        let whole = Val { tensor: whole, dims, is_turned: false, kind: Kind::Real };
        if rows == 1 {
            return Ok(vec![self.reshaped(&whole, of_sizes(&[width]))?.tensor]);
        }
        let part = (of_sizes(&[1, width]), false, Kind::Real);
        let parts = self.parts(&whole, 0, &vec![part; rows])?;
        parts.iter().map(|part| Ok(self.reshaped(part, of_sizes(&[width]))?.tensor)).collect()
    }

    /// The states that a direction begins with, `[batch, units]`.
    fn first_states(&mut self, node: &Node, layer: &Layer, direction: usize) -> Result<States> {
        let mut states = [None, None];
        for (at, state) in states.iter_mut().enumerate() {
            if node.inputs.get(at + 1).is_none_or(String::is_empty) {
                continue;
            }
            let given = self.input(node, at + 1)?;
            let mut given = self.plain(&given)?;
            let axis = usize::from(layer.batch_first);
            if layer.directions > 1 {
                let part = (with_one(&given.dims, axis), false, Kind::Real);
                let parts = self.parts(&given, axis, &vec![part; layer.directions])?;
                given =
                    parts.into_iter().nth(direction).ok_or_else(|| unsupported(node, "it lacks a state"))?;
            }
            *state = Some(self.reshaped(&given, layer.row(layer.units))?);
        }
        Ok(states)
    }

    /// Runs one direction: its outputs in the order of the sequence, and its last states.
    fn direction(
        &mut self,
        node: &Node,
        layer: &Layer,
        (direction, is_reversed): (usize, bool),
        (x, weights, first): (&Val, &Weights, States),
    ) -> Result<(Vec<Val>, States)> {
        let activations = layer.activations(direction);
        let mut inputs = self.projected(layer, x, weights)?;
        if is_reversed {
            inputs.reverse();
        }
        let mut states = first;
        let mut outputs = Vec::with_capacity(layer.steps);
        for input in inputs {
            states = match node.op {
                Op::LSTM => self.lstm_step(node, layer, activations, (input, weights, states))?,
                Op::GRU => self.gru_step(node, layer, activations, (input, weights, states))?,
                _ => {
                    let sum = self.with_state(layer, input, weights, &states)?;
                    [Some(self.cell_activation(node, layer, activations, 0, &sum)?), None]
                }
            };
            outputs.extend(states[0].clone());
        }
        if is_reversed {
            outputs.reverse();
        }
        Ok((outputs, states))
    }

    /// The products of all steps with the weights of the input, and their biases.
    fn projected(&mut self, layer: &Layer, x: &Val, weights: &Weights) -> Result<Vec<Val>> {
        let width = layer.width();
        let mut dims: Dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = Length::from(width);
        }
        let product = self.dense_of(x, weights.input, weights.biases[0], dims)?;
        // Unless the reset gate is applied to it, the bias of the state is one of the input.
        let product = match (weights.biases[1], layer.resets_after) {
            (Some(bias), false) => {
                let result = (product.dims.clone(), false, Kind::Real);
                self.emit(Operator::Binary(Binary::Add), &[product.tensor, bias], result)?
            }
            _ => product,
        };
        let axis = usize::from(layer.batch_first);
        let one = with_one(&product.dims, axis);
        let parts = match layer.steps {
            1 => vec![product],
            steps => self.parts(&product, axis, &vec![(one, false, Kind::Real); steps])?,
        };
        parts.iter().map(|part| self.reshaped(part, layer.row(width))).collect()
    }

    /// A value times a matrix of the program's form, with a bias or none.
    fn dense_of(&mut self, x: &Val, weight: usize, bias: Option<usize>, dims: Dims) -> Result<Val> {
        self.emit_layer(Operator::Dense, [x.tensor, weight], bias, (dims, false, Kind::Real))
    }

    /// The input of a step and the product of its state; the input alone if the state is zero.
    fn with_state(&mut self, layer: &Layer, input: Val, weights: &Weights, states: &States) -> Result<Val> {
        match &states[0] {
            None => Ok(input),
            Some(state) => {
                let product = self.dense_of(state, weights.state, None, layer.row(layer.width()))?;
                self.two(Binary::Add, &input, &product)
            }
        }
    }

    fn lstm_step(
        &mut self,
        node: &Node,
        layer: &Layer,
        activations: &[String],
        (input, weights, states): (Val, &Weights, States),
    ) -> Result<States> {
        let sum = self.with_state(layer, input, weights, &states)?;
        let gates = self.gates(layer, &sum)?;
        let of = |letter: char| layer.gate(node, &gates, letter);
        let enter = self.cell_activation(node, layer, activations, 0, of('i')?)?;
        let cell = self.cell_activation(node, layer, activations, 1, of('c')?)?;
        let mut cell = self.two(Binary::Mul, &enter, &cell)?;
        if let Some(before) = &states[1] {
            let forget = self.cell_activation(node, layer, activations, 0, of('f')?)?;
            let kept = self.two(Binary::Mul, &forget, before)?;
            cell = self.two(Binary::Add, &kept, &cell)?;
        }
        let out = self.cell_activation(node, layer, activations, 0, of('o')?)?;
        let shown = self.cell_activation(node, layer, activations, 2, &cell)?;
        Ok([Some(self.two(Binary::Mul, &out, &shown)?), Some(cell)])
    }

    fn gru_step(
        &mut self,
        node: &Node,
        layer: &Layer,
        activations: &[String],
        (input, weights, states): (Val, &Weights, States),
    ) -> Result<States> {
        let inputs = self.gates(layer, &input)?;
        let product = match (&states[0], layer.resets_after) {
            (Some(state), true) => {
                Some(self.dense_of(state, weights.state, weights.biases[1], layer.row(layer.width()))?)
            }
            (Some(state), false) => {
                Some(self.dense_of(state, weights.state, None, layer.row(layer.width()))?)
            }
            // The product of zeros is the bias alone.
            (None, true) => weights.biases[1].map(|bias| Val {
                tensor: bias,
                dims: of_sizes(&[layer.width()]),
                is_turned: false,
                kind: Kind::Real,
            }),
            (None, false) => None,
        };
        let of_state = product.map(|product| self.gates(layer, &product)).transpose()?;
        let sum = |builder: &mut Self, letter: char| -> Result<Val> {
            let own = layer.gate(node, &inputs, letter)?.clone();
            match &of_state {
                None => Ok(own),
                Some(of_state) => {
                    let other = layer.gate(node, of_state, letter)?;
                    builder.two(Binary::Add, &own, other)
                }
            }
        };
        let (update, reset) = (sum(self, 'z')?, sum(self, 'r')?);
        let update = self.cell_activation(node, layer, activations, 0, &update)?;
        let reset = self.cell_activation(node, layer, activations, 0, &reset)?;
        let own = layer.gate(node, &inputs, 'h')?.clone();
        let candidate = match (layer.resets_after, &of_state, &states[0]) {
            (true, Some(of_state), _) => {
                let other = layer.gate(node, of_state, 'h')?;
                let kept = self.two(Binary::Mul, &reset, other)?;
                self.two(Binary::Add, &own, &kept)?
            }
            (false, _, Some(state)) => {
                let kept = self.two(Binary::Mul, &reset, state)?;
                let product = self.dense_of(&kept, weights.state, None, layer.row(layer.width()))?;
                let gates = self.gates(layer, &product)?;
                self.two(Binary::Add, &own, layer.gate(node, &gates, 'h')?)?
            }
            _ => own,
        };
        let candidate = self.cell_activation(node, layer, activations, 1, &candidate)?;
        let one = self.scalar_val(1.0)?;
        let rest = self.two(Binary::Sub, &one, &update)?;
        let mut state = self.two(Binary::Mul, &rest, &candidate)?;
        if let Some(before) = &states[0] {
            let kept = self.two(Binary::Mul, &update, before)?;
            state = self.two(Binary::Add, &kept, &state)?;
        }
        Ok([Some(state), None])
    }

    /// The parts of a row that belong to the gates.
    fn gates(&mut self, layer: &Layer, row: &Val) -> Result<Vec<Val>> {
        let last = row.rank().saturating_sub(1);
        let mut dims = row.dims.clone();
        if let Some(len) = dims.get_mut(last) {
            *len = Length::from(layer.units);
        }
        self.parts(row, last, &vec![(dims, false, Kind::Real); layer.gates.len()])
    }

    fn cell_activation(
        &mut self,
        node: &Node,
        layer: &Layer,
        activations: &[String],
        at: usize,
        x: &Val,
    ) -> Result<Val> {
        let name = activations.get(at).map_or("", String::as_str).to_ascii_lowercase();
        match name.as_str() {
            "sigmoid" => self.unary(Unary::Sigmoid, x),
            "tanh" => self.unary(Unary::Tanh, x),
            "relu" => self.within(x, Some(0.0), None),
            "softsign" => self.softsign(x),
            "hardsigmoid" => self.hard_sigmoid(x, layer.line),
            "softplus" if self.program == Program::JavaScript => self.unary(Unary::Softplus, x),
            _ => Err(unsupported(node, "its activation is of another kind").found(name)),
        }
    }

    /// The outputs of all steps: `[steps, directions, batch, units]`, or with the batch first.
    fn all_steps(&mut self, layer: &Layer, all: &[Vec<Val>]) -> Result<Val> {
        let (one, units) = (Length::Known(1), Length::from(layer.units));
        let (of_step, time, way) = match layer.batch_first {
            true => (vec![layer.batch, one, one, units], 1, 2),
            false => (vec![one, one, layer.batch, units], 0, 1),
        };
        let mut joined = Vec::new();
        for outputs in all {
            let steps = outputs.iter().map(|output| self.reshaped(output, of_step.clone()));
            let steps = steps.collect::<Result<Vec<Val>>>()?;
            joined.push(self.concat(&steps, time)?);
        }
        self.concat(&joined, way)
    }

    /// The last states of all directions: `[directions, batch, units]`, or with the batch first.
    fn last_states(&mut self, node: &Node, layer: &Layer, last: &[States], state: usize) -> Result<Val> {
        let (one, units) = (Length::Known(1), Length::from(layer.units));
        let (dims, axis) = match layer.batch_first {
            true => (vec![layer.batch, one, units], 1),
            false => (vec![one, layer.batch, units], 0),
        };
        let mut rows = Vec::new();
        for states in last {
            let own = states.get(state).and_then(Option::as_ref);
            let own = own.ok_or_else(|| unsupported(node, "it has no such state"))?;
            rows.push(self.reshaped(own, dims.clone())?);
        }
        self.concat(&rows, axis)
    }

    /// Values one after the other, which are as long as the first.
    fn concat(&mut self, all: &[Val], axis: usize) -> Result<Val> {
        let [first, rest @ ..] = all else { return Err(crate::values::missing()) };
        if rest.is_empty() {
            return Ok(first.clone());
        }
        let mut dims = first.dims.clone();
        if let Some(len) = dims.get_mut(axis) {
            *len = *len * i64::try_from(all.len()).unwrap_or(i64::MAX);
        }
        let inputs: Vec<usize> = all.iter().map(|val| val.tensor).collect();
        let axis = i32::try_from(axis).unwrap_or(0);
        self.emit(Operator::Concat { axis }, &inputs, (dims, false, Kind::Real))
    }
}

/// The tensors that a layer may have.
const ROLES: [&str; 4] = ["weight", "recurrent_weight", "bias", "recurrent_bias"];

impl Layer {
    /// Numbers of all gates.
    fn width(&self) -> u64 {
        self.units.saturating_mul(self.gates.len() as u64)
    }

    /// The lengths of a row for each example.
    fn row(&self, len: u64) -> Dims {
        vec![self.batch, Length::from(len)]
    }

    fn activations(&self, direction: usize) -> &[String] {
        let count = self.activations.len().checked_div(self.directions).unwrap_or_default();
        self.activations.chunks(count.max(1)).nth(direction).unwrap_or_default()
    }

    fn gate<'v>(&self, node: &Node, gates: &'v [Val], letter: char) -> Result<&'v Val> {
        let at = self.gates.iter().position(|own| *own == letter);
        at.and_then(|at| gates.get(at)).ok_or_else(|| unsupported(node, "it lacks a gate"))
    }
}

/// Lengths of which one is 1.
fn with_one(dims: &[Length], axis: usize) -> Dims {
    dims.iter().enumerate().map(|(at, len)| if at == axis { Length::Known(1) } else { *len }).collect()
}

fn is_reverse(node: &Node) -> Result<bool> {
    Ok(node.text("direction")? == Some("reverse"))
}
