//! Recurrent layers: `nn.LSTM`, `nn.GRU` and `nn.RNN`.
//!
//! Keras keeps one bias of an LSTM where PyTorch adds two: the second is 0. A GRU with `reset_after` has two in both.

use super::attributes::{int, text};
use super::layers::{reshape, vector_steps};
use super::program::{Made, Module, Piece, Statement, ValueId, Weight, text as written};
use super::refusal::refuse;
use super::translate::Translator;
use super::views::View;
use ckpt_api::{Attribute, Axis, Loss, LossKind, Node, Op, Result, Tensor};
use ckpt_engine::mapping::Relation;
use ckpt_engine::recipe::AxisStep;
use ckpt_graph::cells::{CellDefaults, INPUT_FORGET_CELL_OUTPUT, defaults, gate_order};

/// What PyTorch's module of an operator is.
struct Kind {
    class: &'static str,
    /// PyTorch's order of the gates, in the letters of the graph.
    gates: &'static str,
    /// What a graph has that does not state it.
    defaults: CellDefaults,
}

fn kind(node: &Node, op: &str) -> Result<Kind> {
    let defaults = defaults(op).ok_or_else(|| refuse(node, "is no recurrent layer"))?;
    let (class, gates) = match op {
        "LSTM" => ("LSTM", INPUT_FORGET_CELL_OUTPUT),
        "GRU" => ("GRU", "rzh"),
        _ => ("RNN", defaults.gates),
    };
    Ok(Kind { class, gates, defaults })
}

/// The lengths of a recurrent layer.
struct Lens {
    inputs: u64,
    hidden: u64,
}

impl<'g> Translator<'g> {
    /// A layer of one direction.
    pub(super) fn recurrent(&mut self, node: &'g Node) -> Result<()> {
        let kind = kind(node, node.op.name())?;
        let (lens, weights, more) = self.cell(node, &kind, ["", ""])?;
        if text(node, "direction", "forward")? != "forward" || int(node, "layout", 0)? != 0 {
            return Err(refuse(node, "has a direction or a layout that the generated module does not have"));
        }
        let view = self.view(node, 0)?;
        let batch_first = view.axes.as_deref() == Some(&[Some(1), Some(0), Some(2)][..]);
        let x = if batch_first { view.base } else { self.input(node, 0)? };
        let first = if batch_first { ", batch_first=True" } else { "" };
        let made = format!("nn.{}({}, {}{first}{more})", kind.class, lens.inputs, lens.hidden);
        let module =
            Module { layer: node.name.clone(), made: Made::Call(made), weights, missing: Vec::new() };
        let states =
            (1..node.inputs.len()).map(|at| self.input(node, at)).collect::<Result<Vec<ValueId>>>()?;
        let [all, hidden, memory] = self.run(node, module, x, &states, kind.class == "LSTM");
        let axes = match batch_first {
            true => [Some(1), None, Some(0), Some(2)],
            false => [Some(0), None, Some(1), Some(2)],
        };
        let views = [
            View { base: all, axes: Some(axes.to_vec()) },
            View { base: hidden, axes: Some(vec![None, Some(0), Some(1)]) },
            View { base: memory, axes: Some(vec![None, Some(0), Some(1)]) },
        ];
        for (output, view) in node.outputs.iter().zip(views) {
            self.views.set(output, view);
        }
        Ok(())
    }

    /// Calls the module. Returns all hidden states, and the last hidden state and the last memory, `[batch, hidden]`.
    fn run(
        &mut self,
        node: &Node,
        module: Module,
        x: ValueId,
        states: &[ValueId],
        has_memory: bool,
    ) -> [ValueId; 3] {
        let name = module.layer.clone();
        let module = self.program.module(module);
        let (all, hidden, memory) =
            (self.program.value(&name), self.program.value("hidden"), self.program.value("memory"));
        let value = Piece::Value;
        let target = match has_memory {
            true => {
                vec![value(all), written(", ("), value(hidden), written(", "), value(memory), written(")")]
            }
            false => vec![value(all), written(", "), value(hidden)],
        };
        let given = match states {
            [] => Vec::new(),
            [one] => vec![written(", "), value(*one)],
            [one, two, ..] => vec![written(", ("), value(*one), written(", "), value(*two), written(")")],
        };
        let call = vec![Piece::Module(module), written("("), value(x)];
        let pieces = [call, given, vec![written(")")]].concat();
        self.program.statements.push(Statement { target, pieces, comment: None, module: None });
        let is_used = |at: usize| {
            node.outputs.get(at).is_some_and(|name| self.all_takers(name).is_none_or(|own| !own.is_empty()))
        };
        let used = [is_used(1), is_used(2)];
        let last = |state: ValueId, used: bool, program: &mut super::program::Program| match used {
            true => program.assign(&name, super::program::pieces("{}[-1]", &[state])),
            false => state,
        };
        [all, last(hidden, used[0], &mut self.program), last(memory, used[1], &mut self.program)]
    }

    /// A layer of two directions, whose results are side by side.
    pub(super) fn bidirectional(&mut self, node: &'g Node) -> Result<()> {
        let kind = kind(node, text(node, "cell", "RNN")?)?;
        let (lens, mut weights, more) = self.cell(node, &kind, ["", ""])?;
        weights.extend(self.cell(node, &kind, ["reverse_", "_reverse"])?.1);
        let made = format!(
            "nn.{}({}, {}, batch_first=True, bidirectional=True{more})",
            kind.class, lens.inputs, lens.hidden
        );
        let layer = node.name.clone();
        let module =
            self.program.module(Module { layer, made: Made::Call(made), weights, missing: Vec::new() });
        let x = self.input(node, 0)?;
        let (all, hidden) = (self.program.value(&node.name), self.program.value("hidden"));
        let value = Piece::Value;
        let target = match kind.class {
            "LSTM" => vec![value(all), written(", ("), value(hidden), written(", _)")],
            _ => vec![value(all), written(", "), value(hidden)],
        };
        let pieces = vec![Piece::Module(module), written("("), value(x), written(")")];
        self.program.statements.push(Statement { target, pieces, comment: None, module: None });
        match int(node, "sequences", 1)? {
            1 => self.put(node, all),
            _ => self.put_expression(node, "torch.cat([{}[0], {}[1]], 1)", &[hidden, hidden]),
        }
        Ok(())
    }

    /// The lengths and tensors of one direction: the prefix of its roles, and the suffix of its names.
    fn cell(
        &mut self,
        node: &'g Node,
        kind: &Kind,
        [prefix, suffix]: [&str; 2],
    ) -> Result<(Lens, Vec<Weight>, String)> {
        let mut more = self.check(node, kind)?.to_owned();
        let order = reordering(node, kind)?;
        let mut weights = Vec::new();
        let mut lens = Lens { inputs: 0, hidden: 0 };
        for (role, target) in [("weight", "weight_ih_l0"), ("recurrent_weight", "weight_hh_l0")] {
            let tensor = self.tensor(node, &format!("{prefix}{role}"))?;
            let mut steps = match tensor.axes.as_deref() {
                Some([Axis::In, Axis::Out]) => vec![AxisStep::Transpose],
                Some([Axis::Out, Axis::In]) => Vec::new(),
                _ => {
                    return Err(refuse(node, "has a weight whose axes are not known, or several directions")
                        .tensor(&tensor.name));
                }
            };
            let inputs = tensor.axis(Axis::In).and_then(|axis| tensor.shape.get(axis)).copied().unwrap_or(0);
            if role == "weight" {
                lens.inputs = inputs
            } else {
                lens.hidden = inputs
            };
            steps.extend(order.clone().map(|order| AxisStep::Parts { order, axis: 0 }));
            weights.push(Weight::one(&tensor.name, &format!("{target}{suffix}"), steps));
        }
        let role = format!("{prefix}bias");
        match node.parameters.contains_key(&role) {
            true => {
                let bias = self.tensor(node, &role)?;
                let recurrent = node
                    .parameters
                    .get(&format!("{prefix}recurrent_bias"))
                    .and_then(|name| self.tensors.get(name));
                weights.extend(biases(bias, recurrent, order, suffix));
            }
            false => more += ", bias=False",
        }
        Ok((lens, weights, more))
    }

    /// Checks that the cell computes what PyTorch's does. Returns the argument for another activation.
    fn check(&mut self, node: &Node, kind: &Kind) -> Result<&'static str> {
        if kind.class == "GRU" && int(node, "linear_before_reset", 0)? == 0 {
            let why = "a GRU with reset_after=False multiplies the state by the reset gate before the product; \
                       PyTorch's nn.GRU does so after it, and has no equivalent";
            if !self.remarks.conventions.iter().any(|loss| loss.subject == node.name) {
                self.remarks.conventions.push(Loss::new(LossKind::Convention, &node.name, why));
            }
            self.failure.get_or_insert(refuse(
                node,
                "is a GRU with reset_after=False, for which PyTorch has no module",
            ));
        }
        let stated: Option<Vec<&str>> = match node.attributes.get("activations") {
            Some(Attribute::Texts(names)) => Some(names.iter().map(String::as_str).collect()),
            _ => None,
        };
        match stated.as_deref() {
            None => Ok(""),
            Some(["Relu"]) if kind.class == "RNN" => Ok(", nonlinearity=\"relu\""),
            Some(names) if names == kind.defaults.activations => Ok(""),
            Some(names) => Err(refuse(node, "has activations that PyTorch's module does not have")
                .found(names.join(", "))
                .expected(kind.defaults.activations.join(", "))),
        }
    }
}

/// The order in which the gates are taken to be in PyTorch's; `None` if they are.
fn reordering(node: &Node, kind: &Kind) -> Result<Option<Vec<usize>>> {
    let stored = text(node, "gates", kind.defaults.gates)?;
    let order = gate_order(stored, kind.gates)
        .ok_or_else(|| refuse(node, "has gates that are not known").found(format!("gates '{stored}'")))?;
    Ok((!order.is_sorted()).then_some(order))
}

/// The two biases of PyTorch: of one that both share, or of two.
fn biases(bias: &Tensor, recurrent: Option<&Tensor>, order: Option<Vec<usize>>, suffix: &str) -> Vec<Weight> {
    let names = [format!("bias_ih_l0{suffix}"), format!("bias_hh_l0{suffix}")];
    let parts = order.map(|order| AxisStep::Parts { order, axis: 0 });
    if let Some(recurrent) = recurrent {
        let one = |tensor: &Tensor, name: &String| {
            Weight::one(&tensor.name, name, vector_steps(tensor).into_iter().chain(parts.clone()).collect())
        };
        return vec![one(bias, &names[0]), one(recurrent, &names[1])];
    }
    let is_pair = bias.shape.rank() == 2 && bias.shape.first() == Some(&2);
    let (relation, first) = match is_pair {
        true => {
            let each = bias.shape.get(1).copied().unwrap_or(0);
            (Relation::Split { axis: 0, sizes: None }, Some(reshape(&[1, each], &[each], 0)))
        }
        false => (Relation::Terms, None),
    };
    vec![Weight {
        sources: vec![bias.name.to_string()],
        targets: names.to_vec(),
        relation,
        steps: first.into_iter().chain(parts).collect(),
    }]
}

/// Whether an operator is recurrent.
pub(super) fn is_recurrent(op: &Op) -> bool {
    matches!(op, Op::LSTM | Op::GRU | Op::RNN)
}
