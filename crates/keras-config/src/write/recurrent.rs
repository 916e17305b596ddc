//! Recurrent layers.

use super::emit::Request;
use super::emitter::{Arg, Bound, Emitter, Held, Item, invalid};
use crate::kernels::cell_name;
use crate::model::Generation;
use ckpt_api::{Axis, DType, Error, Node, Op, Result};
use ckpt_graph::cells::{INPUT_FORGET_CELL_OUTPUT, defaults};
use serde_json::{Value, json};

impl<'a> Emitter<'a> {
    /// Adds a recurrent layer, and states all its results.
    pub(super) fn recurrent(&mut self, node: &'a Node) -> Result<()> {
        self.allow_roles(node, &["weight", "recurrent_weight", "bias", "recurrent_bias"])?;
        let (class, gates, states) = match node.op {
            Op::LSTM => ("LSTM", 4, 2),
            Op::GRU => ("GRU", 3, 1),
            _ => ("SimpleRNN", 1, 1),
        };
        let (held, is_reverse) = self.sequence(node)?;
        let kernel = self.required(node, "weight", &[Axis::In, Axis::Out])?;
        let recurrent = self.required(node, "recurrent_weight", &[Axis::In, Axis::Out])?;
        let units = recurrent.shape.first().copied().ok_or_else(invalid)?;
        if kernel.shape.last().copied() != units.checked_mul(gates) {
            return Err(Error::corrupt("a recurrent layer's weight does not fit its units"));
        }
        let mut options = self.cell(node, units)?;
        let bias = self.recurrent_bias(node)?;
        if let Some(bias) = &bias {
            let one = units * gates;
            let resets_after = options.get("reset_after") == Some(&Value::Bool(true));
            let expected = if resets_after { vec![2, one] } else { vec![one] };
            if bias.shape != expected {
                return Err(Error::unsupported("Keras's layer has another number of biases")
                    .found(format!("{:?}", bias.shape))
                    .expected(format!("{expected:?}")));
            }
        }
        let (all, last) = (self.is_used(node, 0), (1..=states).any(|at| self.is_used(node, at)));
        // A layer that does not return all steps returns its first state.
        let returns_state = last && all || states == 2 && self.is_used(node, 2);
        if let Some(map) = options.as_object_mut() {
            map.insert("use_bias".to_owned(), json!(bias.is_some()));
            map.insert("return_sequences".to_owned(), json!(all));
            map.insert("return_state".to_owned(), json!(returns_state));
            map.insert("go_backwards".to_owned(), json!(held.is_reversed != is_reverse));
        }
        let initial = self.initial_states(node, states)?;
        let request = Request { name: &node.name, class, module: None, options, args: vec![Arg::of(&held)] };
        let layer = self.add(request);
        if !initial.is_empty() {
            self.keyword("initial_state", Arg::List(initial));
        }
        let cell = cell_name(class);
        self.bind(layer, &format!("{cell}/kernel"), &kernel);
        self.bind(layer, &format!("{cell}/recurrent_kernel"), &recurrent);
        if let Some(bias) = &bias {
            self.bind(layer, &format!("{cell}/bias"), bias);
        }
        let steps = held.len(1);
        // [time, directions, batch, units] of the graph.
        let sequence = Held {
            layer,
            result: 0,
            dims: vec![None, steps, Some(units)],
            axes: vec![Some(1), None, Some(0), Some(2)],
            // Keras has the steps in the order in which the layer takes them.
            is_reversed: is_reverse,
        };
        self.set(node, 0, Item::Value(sequence));
        for at in 1..=states {
            let result = if returns_state { at } else { 0 };
            let state = Held {
                layer,
                result,
                dims: vec![None, Some(units)],
                axes: vec![None, Some(0), Some(1)],
                is_reversed: false,
            };
            self.set(node, at, Item::Value(state));
        }
        Ok(())
    }

    /// Returns the biases: the recurrent ones are added to the others.
    fn recurrent_bias(&self, node: &Node) -> Result<Option<Bound>> {
        let tensor = |role: &str| node.parameters.get(role).map(|name| self.tensor(name)).transpose();
        let (bias, recurrent) = (tensor("bias")?, tensor("recurrent_bias")?);
        let Some(bias) = bias.or(recurrent) else { return Ok(None) };
        let bound = self.whole(bias)?;
        let added = recurrent.filter(|recurrent| *recurrent != bias);
        if let Some(added) = added
            && (self.whole(added)?.shape != bound.shape || self.described(added)?.dtype != DType::F32)
        {
            return Err(Error::unsupported("Keras's layer has one bias, and the two do not add up")
                .tensor(&self.described(added)?.name));
        }
        Ok(Some(Bound { added, ..bound }))
    }

    /// Returns the sequence, whose batch comes first in Keras, and whether the layer takes it from its end.
    fn sequence(&mut self, node: &Node) -> Result<(Held, bool)> {
        let way = node.text("direction")?.unwrap_or("forward");
        if node.int("layout", 0)? != 0 || !matches!(way, "forward" | "reverse") {
            return Err(Error::unsupported("Keras's layer has one direction").found(way));
        }
        let held = self.input(node, 0)?;
        let is_turned = held.axes[..] == [Some(1), Some(0), Some(2)];
        if is_turned {
            return Ok((held, way == "reverse"));
        }
        Err(Error::unsupported("Keras's layer takes sequences whose batch comes first")
            .help("transpose the sequence before the layer, so that its batch comes first"))
    }

    fn cell(&self, node: &Node, units: u64) -> Result<Value> {
        let defaults = defaults(node.op.name())
            .ok_or_else(|| Error::unsupported("the operator is no recurrent layer"))?;
        let own = if node.op == Op::LSTM { INPUT_FORGET_CELL_OUTPUT } else { defaults.gates };
        let stated = node.text("gates")?.unwrap_or(defaults.gates);
        if stated != own {
            return Err(Error::unsupported(
                "the gates of a recurrent layer are stored in another order than Keras's",
            )
            .found(stated)
            .expected(own));
        }
        if node.float("clip", 0.0)? != 0.0 {
            return Err(Error::unsupported("Keras's layer does not clip").found("attribute 'clip'"));
        }
        let names = node.texts("activations")?.map(<[String]>::to_vec);
        let names =
            names.unwrap_or_else(|| defaults.activations.iter().map(|name| (*name).to_owned()).collect());
        let names: Vec<&str> = names.iter().map(|name| self.activation(node, name)).collect::<Result<_>>()?;
        let mut options = json!({ "units": units });
        let (gate, cell) = match (&names[..], &node.op) {
            ([gate, cell, output], Op::LSTM) if cell == output => (Some(*gate), *cell),
            ([gate, cell], Op::GRU) => (Some(*gate), *cell),
            ([cell], Op::RNN) => (None, *cell),
            _ => {
                return Err(Error::unsupported(
                    "Keras's layer has one activation for its cell and its output",
                ));
            }
        };
        if let Some(map) = options.as_object_mut() {
            map.insert("activation".to_owned(), json!(cell));
            if let Some(gate) = gate {
                map.insert("recurrent_activation".to_owned(), json!(gate));
            }
            if node.op == Op::GRU {
                map.insert("reset_after".to_owned(), json!(node.flag("linear_before_reset")?));
            }
        }
        Ok(options)
    }

    /// Returns Keras's name of a function.
    fn activation(&self, node: &Node, name: &str) -> Result<&'static str> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "sigmoid" => "sigmoid",
            "tanh" => "tanh",
            "relu" => "relu",
            "softplus" => "softplus",
            "softsign" => "softsign",
            "elu" => "elu",
            "hardsigmoid" => {
                let own = if self.generation == Generation::Keras3 { 1.0 / 6.0 } else { 0.2 };
                let slopes = node.floats("activation_alpha")?.unwrap_or_else(|| vec![0.2]);
                if slopes.iter().any(|slope| (slope - own).abs() > 1e-7) {
                    return Err(Error::unsupported("Keras's hard sigmoid has another slope")
                        .found(format!("{slopes:?}")));
                }
                "hard_sigmoid"
            }
            other => return Err(Error::unsupported("Keras has no such activation").found(other)),
        })
    }

    fn initial_states(&mut self, node: &Node, states: usize) -> Result<Vec<Arg>> {
        let mut found = Vec::new();
        for at in 1..=states {
            match node.inputs.get(at).filter(|name| !name.is_empty()) {
                None => continue,
                Some(name) => {
                    let held = self.value(name)?;
                    // Keras has no axis of directions.
                    let held = self.without_axes(&node.name, held, &[0])?;
                    let held = self.materialized(&node.name, &held)?;
                    found.push(Arg::of(&held));
                }
            }
        }
        if found.is_empty() || found.len() == states {
            return Ok(found);
        }
        Err(Error::unsupported("Keras's layer takes all first states, or none"))
    }
}
