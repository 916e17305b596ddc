//! Lowers recurrent layers.

use super::arguments::{Arg, Args};
use super::lowering::{Lowering, Site};
use super::values::{Kind, Val};
use crate::kernels::{cell_name, stacked};
use crate::layer::Reason;
use crate::model::Generation;
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::cells::{INPUT_FORGET_CELL_OUTPUT, with_activations};
use ckpt_graph::shape::show;
use ckpt_graph::{Dims, Length, Range, int};

/// A cell, and where its variables are.
struct Cell<'a> {
    layer: &'a Layer,
    scope: String,
}

/// What a recurrent layer makes.
struct Made {
    /// The outputs of all steps, or of the last one.
    output: Val,
    states: Vec<Val>,
}

impl Lowering {
    /// Lowers `LSTM`, `GRU`, `SimpleRNN` and `RNN`.
    pub(super) fn recurrent(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let (x, states) = sequence(args)?;
        let extra = args.kwargs.iter().find(|(name, arg)| {
            !matches!(name.as_str(), "initial_state" | "sequences" | "inputs") && !arg.all().is_empty()
        });
        if let Some((name, _)) = extra {
            return Err(format!("it takes a value as its argument '{name}'"));
        }
        let layer = site.layer;
        let (returns_all, returns_states) =
            (layer.flag("return_sequences", false), layer.flag("return_state", false));
        let made = self.sequence(site, &x, &states, returns_all)?;
        let states = if returns_states { made.states } else { Vec::new() };
        Ok([made.output].into_iter().chain(states).collect())
    }

    /// Runs a recurrent layer over a sequence.
    fn sequence(&mut self, site: Site, x: &Val, states: &[Val], returns_all: bool) -> Result<Made, Reason> {
        let layer = site.layer;
        if layer.flag("time_major", false) {
            return Err("its option 'time_major' is not supported".to_owned());
        }
        if x.rank() != 3 {
            return Err(format!("it takes sequences of three axes, but its input is {}", show(&x.dims)));
        }
        let reverse = layer.flag("go_backwards", false);
        let outer;
        let inner;
        let cells: Vec<Cell> = if layer.class == "RNN" {
            outer = layer.wrapped("cell").ok_or("it has no cell")?;
            if outer.class == "StackedRNNCells" {
                inner = stacked(&outer)?;
                let cell = |inner| Cell {
                    layer: inner,
                    scope: format!("{}/{}/{}", site.scope, outer.name, inner.name),
                };
                inner.iter().map(cell).collect()
            } else {
                vec![Cell { layer: &outer, scope: format!("{}/{}", site.scope, outer.name) }]
            }
        } else {
            vec![Cell { layer, scope: format!("{}/{}", site.scope, cell_name(&layer.class)) }]
        };
        if cells.len() > 1 && (!states.is_empty() || layer.flag("return_state", false)) {
            return Err("the states of stacked cells are not supported".to_owned());
        }
        let x = self.values.last(x)?;
        let x = self.values.transpose(&x, &[1, 0, 2])?;
        let mut sequence = if reverse { self.values.slice(&x, &[Range::backwards(0)])? } else { x };
        let count = cells.len();
        let mut last = None;
        for (at, cell) in cells.iter().enumerate() {
            let made = self.run_cell(cell, &sequence, states, returns_all || at + 1 < count)?;
            sequence = made.output.clone();
            last = Some(made);
        }
        let made = last.ok_or("it has no cells")?;
        let output = if returns_all { self.values.transpose(&made.output, &[1, 0, 2])? } else { made.output };
        Ok(Made { output, ..made })
    }

    /// Runs a cell over a sequence `[time, batch, features]`.
    fn run_cell(&mut self, cell: &Cell, x: &Val, states: &[Val], returns_all: bool) -> Result<Made, Reason> {
        let class = cell.layer.class.strip_suffix("Cell").unwrap_or(&cell.layer.class);
        let (op, count) = match class {
            "LSTM" => (Op::LSTM, 2),
            "GRU" => (Op::GRU, 1),
            "SimpleRNN" => (Op::RNN, 1),
            other => return Err(format!("its cell '{}' is not supported", shown_name(other))),
        };
        if !states.is_empty() && states.len() != count {
            return Err(format!("it has {count} states, but is given {}", states.len()));
        }
        let units = match cell.layer.option("units") {
            Some(_) => cell.layer.size("units")?,
            None => cell.layer.size("output_dim")?,
        };
        let mut inputs = vec![x.name.clone()];
        for state in states {
            inputs.push(self.values.unsqueeze(state, &[0])?.name);
        }
        let mut node = self.cell_node(cell, op, units)?;
        node.name.clone_from(&self.values.place);
        let names = self.values.recurrent(node, inputs, count)?;
        let (steps, batch, one, width) = (x.len(0), x.len(1), Length::Known(1), units.into());
        let mut val = |at: usize, dims: Dims, axis: usize| -> Result<Val, Reason> {
            let name = names.get(at).cloned().ok_or("it lacks a result")?;
            let tag = Kind { is_integer: false, is_narrow: false, ..x.tag };
            self.values.squeeze(&Val { name, dims, tag, ..x.clone() }, &[axis])
        };
        let kept = |batch| vec![one, batch, width];
        let output =
            if returns_all { val(0, vec![steps, one, batch, width], 1)? } else { val(1, kept(batch), 0)? };
        let states = (1..=count).map(|at| val(at, kept(batch), 0)).collect::<Result<Vec<_>, _>>()?;
        let unmasked = |val: Val| Val { tag: Kind { has_mask: false, ..val.tag }, ..val };
        Ok(Made { output, states: states.into_iter().map(unmasked).collect() })
    }

    /// Returns the node of a cell, with its parameters.
    fn cell_node(&self, cell: &Cell, op: Op, units: u64) -> Result<Node, Reason> {
        let layer = cell.layer;
        let variable = |role: &str| format!("{}/{role}", cell.scope);
        let mut node = Node::new("", op.clone())
            .attribute("hidden_size", Attribute::Int(int(units)?))
            .parameter("weight", variable("kernel"))
            .parameter("recurrent_weight", variable("recurrent_kernel"));
        if layer.flag("use_bias", true) {
            node = node.parameter("bias", variable("bias"));
        }
        let gate = if self.generation == Generation::Keras1 { "hard_sigmoid" } else { "sigmoid" };
        let key = if layer.config.contains_key("inner_activation") {
            "inner_activation"
        } else {
            "recurrent_activation"
        };
        let cell_activation = self.recurrent_activation(layer, "activation", "tanh")?;
        let activations = match op {
            Op::RNN => vec![cell_activation],
            Op::GRU => vec![self.recurrent_activation(layer, key, gate)?, cell_activation],
            _ => vec![self.recurrent_activation(layer, key, gate)?, cell_activation, cell_activation],
        };
        match op {
            Op::LSTM => node = node.attribute("gates", Attribute::Text(INPUT_FORGET_CELL_OUTPUT.into())),
            Op::GRU => {
                let flag = layer.flag("reset_after", self.generation == Generation::Keras3);
                node = node.attribute("linear_before_reset", Attribute::Int(i64::from(flag)));
            }
            _ => {}
        }
        Ok(with_activations(node, &activations))
    }

    /// Lowers `Bidirectional`: two layers, of which the second takes the sequence backwards.
    pub(super) fn bidirectional(&mut self, site: Site, args: &Args) -> Result<Vec<Val>, Reason> {
        let (x, initial) = sequence(args)?;
        let forward = site.layer.wrapped("layer").ok_or("it wraps no layer")?;
        let mut backward = site.layer.wrapped("backward_layer").unwrap_or_else(|| forward.clone());
        if site.layer.option("backward_layer").is_none() {
            let reverse = !forward.flag("go_backwards", false);
            backward.config.insert("go_backwards".to_owned(), reverse.into());
        }
        let returns_all = forward.flag("return_sequences", false);
        let returns_states = forward.flag("return_state", false);
        let (first, second) = initial.split_at(initial.len() / 2);
        let mut made = Vec::new();
        for (layer, way, states) in [(&forward, "forward", first), (&backward, "backward", second)] {
            let own = layer.name.trim_start_matches(&format!("{way}_")).to_owned();
            let scope = format!("{}/{way}_{own}", site.scope);
            self.values.place = format!("{}/{way}", site.layer.name);
            if !matches!(layer.class.as_str(), "LSTM" | "GRU" | "SimpleRNN" | "RNN") || !layer.is_builtin() {
                return Err(format!("it wraps '{}', which is not supported", shown_name(&layer.class)));
            }
            made.push(self.sequence(Site { layer, scope: &scope }, &x, states, returns_all)?);
        }
        self.values.place.clone_from(&site.layer.name);
        let [ahead, back] = <[Made; 2]>::try_from(made).map_err(|_| "it has not two layers")?;
        let behind =
            if returns_all { self.values.slice(&back.output, &[Range::backwards(1)])? } else { back.output };
        let both = [&ahead.output, &behind];
        let mode = match site.layer.config.get("merge_mode") {
            None => Some("concat"),
            Some(mode) => mode.as_str(),
        };
        let mut results = match mode {
            Some("concat") => {
                let axis = ahead.output.rank() - 1;
                vec![self.values.join(axis, &[ahead.output.clone(), behind.clone()])?]
            }
            Some("sum") => vec![self.values.apply(Op::Add, &both)?],
            Some("mul") => vec![self.values.apply(Op::Mul, &both)?],
            Some("ave") => {
                let sum = self.values.apply(Op::Add, &both)?;
                let half = self.values.scalar(0.5)?;
                vec![self.values.apply(Op::Mul, &[&sum, &half])?]
            }
            Some(other) => return Err(format!("its option 'merge_mode' is '{}'", shown_name(other))),
            None => vec![ahead.output.clone(), behind.clone()],
        };
        if returns_states {
            results.extend(ahead.states.into_iter().chain(back.states));
        }
        Ok(results)
    }

    /// Lowers `TimeDistributed`: a layer for each step of a sequence.
    pub(super) fn distributed(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let inner = site.layer.wrapped("layer").ok_or("it wraps no layer")?;
        if inner.class == "Sequential" || inner.class == "Functional" || inner.class == "Model" {
            return Err(format!("it wraps a model ('{}'), which is not supported", shown_name(&inner.name)));
        }
        let inner = Site { layer: &inner, scope: site.scope };
        let run = |lowering: &mut Self, x: Val| {
            let made = lowering.apply_within(inner, &Args::of(x))?;
            let [only] =
                <[Val; 1]>::try_from(made).map_err(|_| "its layer has several results".to_owned())?;
            Ok::<Val, Reason>(only)
        };
        if matches!(
            inner.layer.class.as_str(),
            "Dense" | "Dropout" | "Activation" | "ReLU" | "LeakyReLU" | "Rescaling"
        ) {
            return run(self, x.clone());
        }
        let steps = x.len(1).size().ok_or("it takes sequences of a length that is not stated")?;
        let x = self.values.last(x)?;
        let rows = [&[Length::Unknown], x.dims.get(2..).unwrap_or_default()].concat();
        let batch = x.len(0);
        let flat = self.flattened(&x, rows)?;
        let made = run(self, flat)?;
        let made = self.values.last(&made)?;
        let rest = made.dims.get(1..).unwrap_or_default();
        let dims = [&[batch, steps.into()], rest].concat();
        let lens = [&[Length::Unknown, steps.into()], rest].concat();
        let made = self.flattened(&made, lens)?;
        Ok(Val { dims, ..made })
    }

    /// Reshapes a value to lengths of which the first is what remains.
    fn flattened(&mut self, x: &Val, dims: Dims) -> Result<Val, Reason> {
        let lens: Option<Vec<i64>> = dims.iter().skip(1).map(|len| len.known()).collect();
        let lens = lens.ok_or("the shape of its input is not stated")?;
        let spec = [-1].into_iter().chain(lens).collect();
        let node = self.values.node(Op::Reshape).attribute("shape", Attribute::Ints(spec));
        self.values.same(node, x, dims)
    }
}

/// Returns the sequence and the first states of a call. Keras 2 has both in its first argument.
fn sequence(args: &Args) -> Result<(Val, Vec<Val>), Reason> {
    let first = args.get(0, "sequences").or_else(|| args.get(0, "inputs")).map(Arg::all).unwrap_or_default();
    let mut first = first.into_iter();
    let x = first.next().ok_or("it takes no sequence")?;
    match args.get(1, "initial_state") {
        None => Ok((x, first.collect())),
        Some(Arg::Constant(_)) => Err("its argument 'initial_state' is a constant".to_owned()),
        Some(arg) => Ok((x, first.chain(arg.all()).collect())),
    }
}
