//! Lowers recurrent layers: a product for the inputs of all steps, and the steps of each direction.

use super::copies::copy;
use super::lowering::{Lowering, Operand, elements, misfit};
use super::strides::row_major;
use super::weight::{StridedAxis, Weight};
use crate::Kernel;
use crate::kernel::{Binary, Cell, Function, Gemm, GemmStrides, Pairwise, Recurrence, View};
use crate::value::Numbers;
use ckpt_api::{Attribute, Axis, Error, Op, Result};

/// Lowers ONNX's `LSTM`, `GRU` and `RNN`.
pub(super) fn recurrent(lowering: &mut Lowering) -> Result<()> {
    lowering.allow_attributes(&[
        "gates",
        "hidden_size",
        "direction",
        "activations",
        "activation_alpha",
        "activation_beta",
        "clip",
        "layout",
        "linear_before_reset",
        "input_forget",
    ])?;
    lowering.allow_roles(&["weight", "recurrent_weight", "bias", "recurrent_bias"])?;
    lowering.at_most(6)?;
    if lowering.node.op != Op::LSTM && lowering.inputs.get(2).copied().flatten().is_some() {
        return Err(Error::corrupt("the layer has a cell state").found(format!("{}", lowering.node.op)));
    }
    if lowering.node.flag("input_forget")? {
        return Err(Error::unsupported("coupled gates are not supported").found("input_forget 1"));
    }
    let layer = Layer::of(lowering)?;
    let outputs = layer.outputs(lowering)?;
    for direction in 0..layer.directions.len() {
        let states = layer.run(lowering, direction)?;
        layer.store(lowering, direction, states, &outputs)?;
    }
    Ok(())
}

/// A recurrent layer.
struct Layer {
    steps: usize,
    batch: usize,
    features: usize,
    hidden: usize,
    /// Whether the batch comes first.
    batch_first: bool,
    /// Each direction: whether it is reversed, and its equations.
    directions: Vec<(bool, Cell)>,
    gates: Vec<usize>,
    clip: Option<f64>,
    weight: Weight,
    recurrent: Weight,
    bias: Biases,
}

/// The biases of all directions.
#[derive(Clone, Copy)]
struct Biases {
    input: Option<Stored>,
    recurrent: Option<Stored>,
}

/// The part of a tensor that one direction has.
#[derive(Clone, Copy)]
struct Stored {
    operand: Operand,
    offset: usize,
    /// From one direction to the next.
    stride: usize,
}

impl Layer {
    fn of(lowering: &mut Lowering) -> Result<Self> {
        let x = lowering.real(0)?;
        let &[first, second, features] = &x.shape[..] else {
            return Err(misfit(&x.shape, "three axes: time, batch and features"));
        };
        let batch_first = lowering.node.flag("layout")?;
        let (steps, batch) = if batch_first { (second, first) } else { (first, second) };
        if steps == 0 {
            return Err(misfit(&x.shape, "at least one step"));
        }
        let directions = directions(lowering)?;
        let gates = gates(lowering)?;
        let axes = [Axis::Direction, Axis::Out, Axis::In];
        let mut weight = |role, index| match lowering.computed(role, index, &axes, Numbers::Real)? {
            Some(weight) => Ok(weight),
            None => lowering.required_weight(role, &axes, Numbers::Real),
        };
        let (weight, recurrent) = (weight("weight", 3)?, weight("recurrent_weight", 4)?);
        let hidden = recurrent.axis(Axis::In)?.len;
        let units = elements(&[gates.len(), hidden])?;
        for tensor in [&weight, &recurrent] {
            tensor.axis_of(Axis::Out, units)?;
            if directions.len() > 1 || tensor.find(Axis::Direction).is_some() {
                tensor.axis_of(Axis::Direction, directions.len())?;
            }
        }
        weight.axis_of(Axis::In, features)?;
        let stated = lowering.node.int("hidden_size", -1)?;
        if stated != -1 && usize::try_from(stated) != Ok(hidden) {
            let expected = format!("{hidden}, the length of the recurrent weight's axis in");
            return Err(Attribute::Int(stated).invalid("hidden_size", expected));
        }
        let clip = match lowering.node.float("clip", 0.0)? {
            0.0 => None,
            clip if clip > 0.0 => Some(clip),
            clip => return Err(Attribute::Float(clip).invalid("clip", "a number of at least 0")),
        };
        let bias = Biases::of(lowering, directions.len(), units)?;
        Ok(Layer {
            steps,
            batch,
            features,
            hidden,
            batch_first,
            directions,
            gates,
            clip,
            weight,
            recurrent,
            bias,
        })
    }

    /// Adds the outputs that the node has, with their shapes.
    fn outputs(&self, lowering: &mut Lowering) -> Result<Vec<(Operand, Vec<usize>)>> {
        let Layer { steps, batch, hidden, .. } = *self;
        let count = self.directions.len();
        let (all, last) = match self.batch_first {
            true => (vec![batch, steps, count, hidden], vec![batch, count, hidden]),
            false => (vec![steps, count, batch, hidden], vec![count, batch, hidden]),
        };
        let shapes = [all, last.clone(), last];
        let most = if lowering.node.op == Op::LSTM { 3 } else { 2 };
        let wanted = lowering.node.outputs.len().min(most);
        let made = |shape: Vec<usize>| Ok((lowering.output(shape.clone(), Numbers::Real)?, shape));
        shapes.into_iter().take(wanted).map(made).collect()
    }

    /// Runs a direction and returns its states, `[batch, states, steps, hidden]`.
    fn run(&self, lowering: &mut Lowering, direction: usize) -> Result<Operand> {
        let Layer { steps, batch, features, hidden, .. } = *self;
        let (reverse, cell) = self.directions.get(direction).copied().ok_or_else(no_direction)?;
        let units = elements(&[cell.gates(), hidden])?;
        let (weight, [unit, feature]) = self.part(lowering, &self.weight, direction)?;
        let keeps_recurrent = matches!(cell, Cell::Gru { linear_before_reset: true, .. });
        let (bias, recurrent_bias) = self.bias.part(lowering, direction, units, keeps_recurrent)?;
        let projected = lowering.temporary(vec![steps, batch, units], Numbers::Real)?;
        let product = Gemm {
            rows: elements(&[steps, batch])?,
            inner: features,
            outputs: units,
            weight: GemmStrides { bucket: 0, inner: feature, output: unit },
            bias: bias.map(|_| GemmStrides { bucket: 0, inner: 0, output: 1 }),
            buckets: 0,
        };
        let operands: Vec<Operand> = [Operand::Input(0), weight].into_iter().chain(bias).collect();
        lowering.call(Kernel::Gemm(product), operands, projected);
        let (recurrent, strides) = self.part(lowering, &self.recurrent, direction)?;
        let first = [self.initial(lowering, 1, direction)?, self.initial(lowering, 2, direction)?];
        let kernel = Recurrence {
            cell,
            steps,
            batch,
            hidden,
            x: if self.batch_first { [units, steps * units] } else { [batch * units, units] },
            weight: strides,
            gates: self.gates.clone(),
            reverse,
            clip: self.clip,
            bias: recurrent_bias.is_some(),
            initial_hidden: first[0].is_some(),
            initial_cell: first[1].is_some(),
        };
        let states = lowering.temporary(vec![batch, cell.states(), steps, hidden], Numbers::Real)?;
        let operands = [projected, recurrent].into_iter().chain(recurrent_bias);
        let operands: Vec<Operand> = operands.chain(first.into_iter().flatten()).collect();
        lowering.call(Kernel::Recurrence(kernel), operands, states);
        Ok(states)
    }

    /// The part of a weight that a direction has, with its strides: unit of a gate, input.
    fn part(
        &self,
        lowering: &mut Lowering,
        weight: &Weight,
        direction: usize,
    ) -> Result<(Operand, [usize; 2])> {
        let (out, input) = (weight.axis(Axis::Out)?, weight.axis(Axis::In)?);
        if self.directions.len() == 1 {
            return Ok((weight.operand, [out.stride, input.stride]));
        }
        let StridedAxis { stride, .. } = weight.axis(Axis::Direction)?;
        let shape = vec![out.len, input.len];
        let made = lowering.temporary(shape.clone(), Numbers::Real)?;
        let from = View { offset: direction * stride, strides: vec![out.stride, input.stride] };
        let to = View { offset: 0, strides: vec![input.len, 1] };
        copy(lowering, &shape, (weight.operand, from), (made, to))?;
        Ok((made, [input.len, 1]))
    }

    /// The first state of a direction, `[batch, hidden]`, that input `index` gives.
    fn initial(&self, lowering: &mut Lowering, index: usize, direction: usize) -> Result<Option<Operand>> {
        let Some(given) = lowering.inputs.get(index).copied().flatten() else { return Ok(None) };
        lowering.check_numbers(given, Numbers::Real)?;
        let Layer { batch, hidden, .. } = *self;
        let count = self.directions.len();
        let expected = if self.batch_first { [batch, count, hidden] } else { [count, batch, hidden] };
        if given.shape != expected {
            return Err(misfit(&given.shape, format!("{expected:?}: a first state")));
        }
        if count == 1 {
            return Ok(Some(Operand::Input(index)));
        }
        let shape = vec![batch, hidden];
        let made = lowering.temporary(shape.clone(), Numbers::Real)?;
        let (offset, stride) = if self.batch_first {
            (direction * hidden, count * hidden)
        } else {
            (direction * batch * hidden, hidden)
        };
        let from = View { offset, strides: vec![stride, 1] };
        let to = View { offset: 0, strides: row_major(&shape) };
        copy(lowering, &shape, (Operand::Input(index), from), (made, to))?;
        Ok(Some(made))
    }

    /// Copies a direction's states to the outputs.
    fn store(
        &self,
        lowering: &mut Lowering,
        direction: usize,
        states: Operand,
        outputs: &[(Operand, Vec<usize>)],
    ) -> Result<()> {
        let Layer { steps, batch, hidden, .. } = *self;
        let (reverse, cell) = self.directions.get(direction).copied().ok_or_else(no_direction)?;
        let example = cell.states() * steps * hidden;
        let last = if reverse { 0 } else { steps - 1 };
        for (index, (output, shape)) in outputs.iter().enumerate() {
            let own = row_major(shape);
            // The first output has all steps, the others the last one of a state.
            let (places, offset) = match (index, self.batch_first) {
                (0, true) => (vec![(batch, example, own[0]), (steps, hidden, own[1])], direction * own[2]),
                (0, false) => (vec![(batch, example, own[2]), (steps, hidden, own[0])], direction * own[1]),
                (_, true) => (vec![(batch, example, own[0])], direction * own[1]),
                (_, false) => (vec![(batch, example, own[1])], direction * own[0]),
            };
            let places = [places, vec![(hidden, 1, 1)]].concat();
            let first = if index == 0 { 0 } else { ((index - 1) * steps + last) * hidden };
            let lens: Vec<usize> = places.iter().map(|(len, ..)| *len).collect();
            let from = View { offset: first, strides: places.iter().map(|(_, from, _)| *from).collect() };
            let to = View { offset, strides: places.iter().map(|(.., to)| *to).collect() };
            copy(lowering, &lens, (states, from), (*output, to))?;
        }
        Ok(())
    }
}

fn no_direction() -> Error {
    Error::corrupt("the layer has no directions")
}

impl Biases {
    fn of(lowering: &mut Lowering, directions: usize, units: usize) -> Result<Self> {
        let mut bias = Biases { input: None, recurrent: None };
        for role in ["bias", "recurrent_bias"] {
            let computed = lowering.inputs.get(5).copied().flatten().filter(|_| role == "bias");
            let has_tensor = lowering.node.parameters.contains_key(role);
            let (shape, numbers, operand) = match computed {
                Some(info) if !has_tensor => (info.shape.clone(), info.numbers, Operand::Input(5)),
                _ if has_tensor => lowering.stored(role)?,
                _ => continue,
            };
            let (len, one) = (elements(&shape)?, elements(&[directions, units])?);
            let refuse = |expected: String| Err(misfit(&shape, format!("{expected} in the tensor '{role}'")));
            if numbers != Numbers::Real {
                return refuse("real numbers".to_owned());
            }
            let stored = |offset, stride| Some(Stored { operand, offset, stride });
            match (role, len) {
                ("bias", len) if len == one => bias.input = stored(0, units),
                ("bias", len)
                    if len == 2 * one && !lowering.node.parameters.contains_key("recurrent_bias") =>
                {
                    (bias.input, bias.recurrent) = (stored(0, 2 * units), stored(units, 2 * units));
                }
                ("recurrent_bias", len) if len == one => bias.recurrent = stored(0, units),
                ("bias", _) => return refuse(format!("{one} or {} numbers", 2 * one)),
                _ => return refuse(format!("{one} numbers")),
            }
        }
        Ok(bias)
    }

    /// The biases of a direction: the input's and the recurrent one, or their sum unless `keeps_recurrent`.
    fn part(
        self,
        lowering: &mut Lowering,
        direction: usize,
        units: usize,
        keeps_recurrent: bool,
    ) -> Result<(Option<Operand>, Option<Operand>)> {
        let mut part = |stored: Option<Stored>| -> Result<Option<Operand>> {
            let Some(Stored { operand, offset, stride }) = stored else { return Ok(None) };
            let made = lowering.temporary(vec![units], Numbers::Real)?;
            let from = View { offset: offset + direction * stride, strides: vec![1] };
            copy(lowering, &[units], (operand, from), (made, View { offset: 0, strides: vec![1] }))?;
            Ok(Some(made))
        };
        let (input, recurrent) = (part(self.input)?, part(self.recurrent)?);
        match (input, recurrent) {
            (input, recurrent) if keeps_recurrent => Ok((input, recurrent)),
            (Some(input), Some(recurrent)) => {
                let sum = lowering.temporary(vec![units], Numbers::Real)?;
                let function = Pairwise::Add;
                let kernel = Binary { shape: vec![units], strides: [vec![1], vec![1]], function };
                lowering.call(Kernel::Binary(kernel), [input, recurrent], sum);
                Ok((Some(sum), None))
            }
            (input, recurrent) => Ok((input.or(recurrent), None)),
        }
    }
}

/// The place of each gate among the stored ones.
fn gates(lowering: &Lowering) -> Result<Vec<usize>> {
    let own = match lowering.node.op {
        Op::LSTM => "iofc",
        Op::GRU => "zrh",
        _ => "h",
    };
    let stated = lowering.node.text("gates")?.unwrap_or(own);
    let places: Option<Vec<usize>> = own.chars().map(|gate| stated.find(gate)).collect();
    let places = places.filter(|_| stated.len() == own.len());
    places.ok_or_else(|| {
        Attribute::Text(stated.to_owned()).invalid("gates", format!("each letter of '{own}' once"))
    })
}

/// The directions, each with whether it is reversed and its equations.
fn directions(lowering: &Lowering) -> Result<Vec<(bool, Cell)>> {
    let reversed = match lowering.node.text("direction")?.unwrap_or("forward") {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => {
            let expected = "forward, reverse or bidirectional";
            return Err(Attribute::Text(other.to_owned()).invalid("direction", expected));
        }
    };
    let defaults: &[&str] = match lowering.node.op {
        Op::LSTM => &["Sigmoid", "Tanh", "Tanh"],
        Op::GRU => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    let names: Vec<String> = match lowering.node.texts("activations")? {
        Some(names) => names.to_vec(),
        None => defaults
            .iter()
            .map(|name| (*name).to_owned())
            .cycle()
            .take(defaults.len() * reversed.len())
            .collect(),
    };
    if names.len() != defaults.len() * reversed.len() {
        let expected = format!("{} names", defaults.len() * reversed.len());
        return Err(Attribute::Texts(names).invalid("activations", expected));
    }
    let alphas = lowering.node.floats("activation_alpha")?.unwrap_or_default();
    let betas = lowering.node.floats("activation_beta")?.unwrap_or_default();
    let (mut alphas, mut betas) = (alphas.into_iter(), betas.into_iter());
    let functions = names.iter().map(|name| activation(name, &mut alphas, &mut betas));
    let functions = functions.collect::<Result<Vec<Function>>>()?;
    let linear_before_reset = lowering.node.flag("linear_before_reset")?;
    let cells = functions.chunks(defaults.len()).map(|functions| match *functions {
        [gate, input, output] => Ok(Cell::Lstm { gate, input, output }),
        [gate, input] => Ok(Cell::Gru { gate, input, linear_before_reset }),
        [function] => Ok(Cell::Rnn { function }),
        _ => Err(no_direction()),
    });
    reversed.into_iter().zip(cells).map(|(reverse, cell)| Ok((reverse, cell?))).collect()
}

/// A function by ONNX's name; those that need numbers take the next ones.
fn activation(
    name: &str,
    alphas: &mut impl Iterator<Item = f64>,
    betas: &mut impl Iterator<Item = f64>,
) -> Result<Function> {
    let mut alpha = |default: f64| alphas.next().unwrap_or(default);
    Ok(match name.to_ascii_lowercase().as_str() {
        "relu" => Function::Relu,
        "tanh" => Function::Tanh,
        "sigmoid" => Function::Sigmoid,
        "hardsigmoid" => Function::HardSigmoid { alpha: alpha(0.2), beta: betas.next().unwrap_or(0.5) },
        "leakyrelu" => Function::LeakyRelu { alpha: alpha(0.01) },
        "thresholdedrelu" => Function::ThresholdedRelu { alpha: alpha(1.0) },
        "elu" => Function::Elu { alpha: alpha(1.0) },
        "softsign" => Function::Softsign,
        "softplus" => Function::Softplus,
        _ => {
            return Err(Error::unsupported("a recurrent layer has an unknown activation")
                .found(format!("'{}'", name.escape_debug()))
                .expected(
                    "Relu, Tanh, Sigmoid, HardSigmoid, LeakyRelu, ThresholdedRelu, Elu, Softsign or Softplus",
                ));
        }
    })
}
