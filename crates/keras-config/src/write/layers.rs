//! Layers with weights: products, tables, normalizations.

use super::emit::Request;
use super::emitter::{Arg, Bound, Emitter, Held, Item, invalid};
use crate::einsum::Equation;
use ckpt_api::{Axis, Error, Node, Op, Result};
use serde_json::{Value, json};

impl Emitter<'_> {
    /// Lowers a node with weights that takes no images; `None` if it is another one.
    pub(super) fn weighted(&mut self, node: &Node) -> Result<Option<Held>> {
        Ok(Some(match &node.op {
            Op::Gemm => self.dense(node)?,
            Op::Gather if node.parameters.contains_key("weight") => self.embedding(node)?,
            Op::BatchNormalization => self.batch_norm(node)?,
            Op::LayerNormalization | Op::RMSNormalization => self.layer_norm(node)?,
            Op::GroupNormalization | Op::InstanceNormalization => self.group_norm(node)?,
            _ => return Ok(None),
        }))
    }

    fn dense(&mut self, node: &Node) -> Result<Held> {
        self.allow_roles(node, &["weight", "bias"])?;
        let kernel = self.required(node, "weight", &[Axis::In, Axis::Out])?;
        let bias = self.role(node, "bias", &[Axis::Out])?;
        let held = self.input(node, 0)?;
        let held =
            match held.axes.last() == Some(&held.dims.len().checked_sub(1)) && !held.axes.contains(&None) {
                true => held,
                false => self.materialized(&node.name, &held)?,
            };
        let units = kernel.shape.last().copied().ok_or_else(invalid)?;
        let layer =
            self.layer(&node.name, "Dense", json!({"units": units, "use_bias": bias.is_some()}), &held);
        self.bind(layer, "kernel", &kernel);
        if let Some(bias) = &bias {
            self.bind(layer, "bias", bias);
        }
        let mut dims = held.dims.clone();
        *dims.last_mut().ok_or_else(invalid)? = Some(units);
        Ok(Held { layer, result: 0, dims, ..held })
    }

    fn embedding(&mut self, node: &Node) -> Result<Held> {
        let table = self.required(node, "weight", &[Axis::Feature, Axis::Out])?;
        let held = self.input(node, 0)?;
        let held = self.materialized(&node.name, &held)?;
        let [rows, width] = table.shape[..] else { return Err(invalid()) };
        let layer =
            self.layer(&node.name, "Embedding", json!({"input_dim": rows, "output_dim": width}), &held);
        self.bind(layer, "embeddings", &table);
        Ok(Held::plain(layer, 0, [&held.dims[..], &[Some(width)]].concat()))
    }

    /// Returns a node's input, and the axis in Keras of its channels, the second axis of the graph.
    fn channels(&mut self, node: &Node) -> Result<(Held, usize)> {
        let held = self.input(node, 0)?;
        let held = if held.axes.contains(&None) { self.materialized(&node.name, &held)? } else { held };
        let axis = held.axis(1)?;
        Ok((held, axis))
    }

    /// Adds a normalization whose parameters are vectors.
    fn normalization(
        &mut self,
        node: &Node,
        held: Held,
        class: &'static str,
        mut options: Value,
        roles: &[(&str, &'static str, Option<&str>)],
    ) -> Result<Held> {
        let known: Vec<&str> = roles.iter().map(|(role, ..)| *role).collect();
        self.allow_roles(node, &known)?;
        let mut found = Vec::new();
        for (role, variable, option) in roles {
            let bound = match option {
                None => Some(self.required(node, role, &[Axis::Out])?),
                Some(_) => self.role(node, role, &[Axis::Out])?,
            };
            if let (Some(option), Some(map)) = (option, options.as_object_mut()) {
                map.insert((*option).to_owned(), Value::Bool(bound.is_some()));
            }
            found.extend(bound.map(|bound| (*variable, bound)));
        }
        let layer = self.layer(&node.name, class, options, &held);
        for (variable, bound) in &found {
            self.bind(layer, variable, bound);
        }
        Ok(Held { layer, result: 0, ..held })
    }

    fn batch_norm(&mut self, node: &Node) -> Result<Held> {
        let (held, axis) = self.channels(node)?;
        let options = json!({
            "axis": axis, "epsilon": node.float("epsilon", 1e-5)?, "momentum": node.float("momentum", 0.9)?,
        });
        let roles = [
            ("scale", "gamma", Some("scale")),
            ("bias", "beta", Some("center")),
            ("mean", "moving_mean", None),
            ("variance", "moving_variance", None),
        ];
        self.normalization(node, held, "BatchNormalization", options, &roles)
    }

    fn group_norm(&mut self, node: &Node) -> Result<Held> {
        let (held, axis) = self.channels(node)?;
        let groups = if node.op == Op::InstanceNormalization { -1 } else { node.int("num_groups", 1)? };
        let options = json!({"axis": axis, "epsilon": node.float("epsilon", 1e-5)?, "groups": groups});
        let roles = [("scale", "gamma", Some("scale")), ("bias", "beta", Some("center"))];
        self.normalization(node, held, "GroupNormalization", options, &roles)
    }

    fn layer_norm(&mut self, node: &Node) -> Result<Held> {
        let held = self.input(node, 0)?;
        let held = if held.axes.contains(&None) { self.materialized(&node.name, &held)? } else { held };
        let axis = held.axis(node.int("axis", -1)?)?;
        if held.axes.last() != Some(&Some(axis)) {
            return Err(Error::unsupported("Keras's layer has a number for each element of several axes")
                .expected("a normalization of the last axis"));
        }
        let epsilon = node.float("epsilon", 1e-5)?;
        if node.op == Op::RMSNormalization {
            if self.generation != crate::model::Generation::Keras3 {
                return Err(
                    Error::unsupported("Keras 2 has no layer for this operator").found(node.op.name())
                );
            }
            let options = json!({"axis": axis, "epsilon": epsilon});
            return self.normalization(node, held, "RMSNormalization", options, &[("scale", "scale", None)]);
        }
        let roles = [("scale", "gamma", Some("scale")), ("bias", "beta", Some("center"))];
        let options = json!({"axis": axis, "epsilon": epsilon});
        self.normalization(node, held, "LayerNormalization", options, &roles)
    }

    /// Lowers sums of products: with a stored kernel, and a bias that only this node's result takes, a layer.
    pub(super) fn einsum(&mut self, at: usize, node: &Node) -> Result<Held> {
        let text = node.text("equation")?.ok_or_else(invalid)?.to_owned();
        let operands: Vec<Option<&Item>> =
            node.inputs.iter().map(|name| self.values.get(name.as_str())).collect();
        let kernel = match operands[..] {
            [Some(Item::Value(_)), Some(Item::Stored(kernel))] => *kernel,
            [Some(Item::Value(_)), Some(Item::Value(_))] => {
                let both = [self.input(node, 0)?, self.input(node, 1)?];
                let both =
                    [self.materialized(&node.name, &both[0])?, self.materialized(&node.name, &both[1])?];
                let args = both.iter().map(Arg::of).collect();
                let layer = self.operation(
                    &node.name,
                    "keras.src.ops.numpy",
                    "Einsum",
                    json!({ "subscripts": text }),
                    args,
                )?;
                let dims = result_dims(&text, &[&both[0].dims, &both[1].dims]).ok_or_else(invalid)?;
                return Ok(Held::plain(layer, 0, dims));
            }
            _ => return Err(Error::unsupported("Keras's layer multiplies a value by one kernel")),
        };
        let held = self.input(node, 0)?;
        let held = self.materialized(&node.name, &held)?;
        let kernel = self.whole(kernel)?;
        let lens: Vec<Option<u64>> = kernel.shape.iter().map(|len| Some(*len)).collect();
        let dims = result_dims(&text, &[&held.dims, &lens]).ok_or_else(invalid)?;
        let equation = Equation::parse(&text).ok_or_else(invalid)?;
        let bias = self.bias_of(at, node, &equation, &dims)?;
        let options = json!({
            "equation": text, "output_shape": dims.get(1..).unwrap_or_default(),
            "bias_axes": bias.as_ref().map(|(axes, ..)| axes.clone()),
        });
        let request = Request {
            name: &node.name,
            class: "EinsumDense",
            module: None,
            options,
            args: vec![Arg::of(&held)],
        };
        let layer = self.add(request);
        self.bind(layer, "kernel", &kernel);
        let made = Held::plain(layer, 0, dims);
        if let Some((_, bound, taker)) = bias {
            self.bind(layer, "bias", &bound);
            self.absorbed.insert(taker);
            if let Some(sum) = self.graph.nodes.get(taker) {
                for name in &sum.outputs {
                    self.values.insert(name, Item::Value(made.clone()));
                }
            }
        }
        Ok(made)
    }

    /// Returns the bias that is added to a node's result alone, with the letters of its axes and the node that adds it.
    fn bias_of(
        &self,
        at: usize,
        node: &Node,
        equation: &Equation,
        dims: &[Option<u64>],
    ) -> Result<Option<(String, Bound, usize)>> {
        let Some(name) = node.outputs.first() else { return Ok(None) };
        let takers = self.takers.get(name.as_str()).map_or(&[][..], Vec::as_slice);
        let [taker] = takers else { return Ok(None) };
        let Some(sum) = self.graph.nodes.get(*taker).filter(|sum| sum.op == Op::Add && *taker > at) else {
            return Ok(None);
        };
        let other = sum.inputs.iter().find(|input| *input != name);
        let Some(other) = other.filter(|_| !self.results.contains(name.as_str())) else {
            return Ok(None);
        };
        // A constant may stand behind the node.
        let Some(tensor) = self.constants.get(other.as_str()) else { return Ok(None) };
        let bound = self.whole(self.tensor(tensor)?)?;
        let letters: Vec<char> = equation.result.trim_start_matches("...").chars().collect();
        let first = letters.len().checked_sub(bound.shape.len());
        let Some(first) = first else { return Ok(None) };
        let offset = dims.len().saturating_sub(letters.len());
        let mut axes = String::new();
        for (place, len) in bound.shape.iter().enumerate() {
            let own = dims.get(offset + first + place).copied().flatten();
            match own == Some(*len) {
                true => axes.extend(letters.get(first + place)),
                false if *len == 1 && !axes.is_empty() => {}
                false => return Ok(None),
            }
        }
        Ok((!axes.is_empty()).then_some((axes, bound, *taker)))
    }
}

/// Returns the lengths of the result of an equation of two operands.
fn result_dims(text: &str, operands: &[&[Option<u64>]; 2]) -> Option<Vec<Option<u64>>> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, result) = text.split_once("->")?;
    let (left, right) = inputs.split_once(',')?;
    let pairs = [(left, operands[0]), (right, operands[1])];
    let len = |letter: char| {
        pairs.iter().find_map(|(letters, dims)| {
            let plain = letters.trim_start_matches("...");
            let skipped = dims.len().checked_sub(plain.len())?;
            let place = plain.chars().position(|own| own == letter)?;
            dims.get(skipped + place).copied().flatten()
        })
    };
    let before = match result.strip_prefix("...") {
        Some(_) => {
            operands[0].get(..operands[0].len().checked_sub(left.trim_start_matches("...").len())?)?.to_vec()
        }
        None => Vec::new(),
    };
    Some(before.into_iter().chain(result.trim_start_matches("...").chars().map(len)).collect())
}
