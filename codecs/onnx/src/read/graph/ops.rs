//! Reads one node: which operator it is, and what becomes of its attributes.

use super::composed::integers::bits;
use super::values::{Attributes, Read, Reader};
use crate::format::dtype;
use crate::format::message::Node;
use crate::format::operators::{SAME, UNARY};
use ckpt_api::{Attribute, Node as Layer, Op};
use ckpt_graph::shape::broadcast_all;
use ckpt_graph::{Length, infer};

/// Further ones that are only read as they are: a written `Swish` is spelled out, and truth values are written apart.
const READ_UNARY: [(&str, &[&str]); 3] = [("Swish", &["alpha"]), ("Not", &[]), ("IsNaN", &[])];

/// Operators of several inputs, elementwise, that are the same in the contract.
const ELEMENTWISE: [&str; 18] = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Max",
    "Min",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
    "And",
    "Or",
    "Xor",
    "Where",
    "PRelu",
    "Mod",
];

/// Those whose results can leave the range of their inputs.
const WRAPPING: [&str; 5] = ["Add", "Sub", "Mul", "Div", "Mod"];

/// Why sums of such integers are not read.
const NARROW: &str = "computes with integers of fewer than 32 bits, which wrap around";

impl<'a> Reader<'a> {
    /// Reads a node; an error says what could not be read of it, as a clause.
    pub(super) fn node(&mut self, node: &'a Node) -> Read<()> {
        if WRAPPING.contains(&node.op.as_str()) && node.inputs.iter().any(|name| self.is_narrow(name)) {
            return self.wrapping(node);
        }
        if self.fold(node)? {
            if self.is_open(node) {
                self.keep_open(node);
            }
            return Ok(());
        }
        self.with_computed_attributes(node)
    }

    /// Reads a node by its operator.
    pub(super) fn operator(&mut self, node: &'a Node) -> Read<()> {
        if let Some((_, numbers)) = UNARY.iter().chain(&READ_UNARY).find(|(name, _)| *name == node.op) {
            return self.unary(node, numbers);
        }
        if ELEMENTWISE.contains(&node.op.as_str()) {
            return self.elementwise(node);
        }
        if let Some((_, names)) = SAME.iter().find(|(name, _)| *name == node.op) {
            return self.same(node, names, &[]);
        }
        match node.op.as_str() {
            "Dropout" => self.dropout(node),
            "Gelu" => {
                let approximate = node.text("approximate").unwrap_or("none").to_owned();
                self.plain(
                    node,
                    Op::Gelu,
                    Attributes::new().with("approximate", Attribute::Text(approximate)),
                )
            }
            "Sum" => self.sum(node),
            "Clip" => self.clip(node),
            "Cast" => self.cast(node),
            "CastLike" => self.cast_like(node),
            "Gemm" => self.gemm(node),
            "MatMul" => self.mat_mul(node),
            "Conv" | "ConvTranspose" => self.conv(node),
            "Gather" => self.gather(node),
            "Einsum" => self.einsum(node),
            "MaxPool" if node.input(0).and_then(|x| self.dtype(x)).is_some_and(|own| !own.is_float()) => {
                self.composed(node)
            }
            "MaxPool" | "AveragePool" => self.pool(node),
            "GlobalAveragePool" | "GlobalMaxPool" => self.global_pool(node),
            "BatchNormalization" => self.batch_normalization(node),
            "LayerNormalization" | "InstanceNormalization" | "GroupNormalization" | "RMSNormalization" => {
                self.normalization(node)
            }
            "LRN" => self.same(node, &["size"], &["alpha", "beta", "bias"]),
            "Softmax" | "LogSoftmax" => self.softmax(node),
            "Resize" | "Upsample" => self.resize(node),
            "DepthToSpace" | "SpaceToDepth" => self.blocks(node),
            "Flatten" => self.flatten(node),
            "Reshape" => self.reshape(node),
            "Transpose" => self.transpose(node),
            "Squeeze" | "Unsqueeze" => self.squeeze(node),
            "Expand" => self.expand(node),
            "Range" => self.range(node),
            "Tile" => self.tile(node),
            "Concat" => self.concat(node),
            "Split" => self.split(node),
            "Slice" => self.slice(node),
            "Pad" => self.pad(node),
            "CumSum" | "CumProd" => self.cum_sum(node),
            "Trilu" => self.trilu(node),
            "TopK" => self.top_k(node),
            "OptionalGetElement" => self.plain(node, Op::Identity, Attributes::new()),
            "Scatter" => self.same(node, &["axis"], &[]),
            "If" => self.choice(node),
            "Loop" => self.repeated(node),
            "LSTM" | "GRU" | "RNN" => self.recurrent(node),
            name if name.starts_with("Reduce") => self.reduce(node),
            _ => self.composed(node),
        }
    }

    /// A node with its inputs and outputs as they are.
    pub(super) fn plain(&mut self, node: &Node, op: Op, attributes: Attributes) -> Read<()> {
        let inputs = node.input(0).ok_or("lacks its input")?;
        let input = self.operand(inputs)?;
        let shape = self.shape(inputs);
        self.emit_one(node, op, vec![input], attributes, shape)
    }

    /// A node of one output, whose shape is noted.
    pub(super) fn emit_one(
        &mut self,
        node: &Node,
        op: Op,
        inputs: Vec<String>,
        attributes: Attributes,
        shape: Option<Vec<Length>>,
    ) -> Read<()> {
        let output = node.outputs.first().filter(|name| !name.is_empty()).ok_or("lacks its output")?;
        self.emit_as(node.layer(), op, inputs, vec![output.clone()], attributes);
        self.set_shape(output, shape);
        Ok(())
    }

    /// A node whose outputs are those of the model's node, and whose shapes follow from its inputs.
    pub(super) fn emit(
        &mut self,
        node: &Node,
        op: Op,
        inputs: Vec<String>,
        attributes: Attributes,
    ) -> Read<()> {
        if node.outputs.first().is_none_or(String::is_empty) {
            return Err("lacks its output".to_owned());
        }
        let mut layer = Layer::new(String::new(), op);
        (layer.inputs, layer.outputs, layer.attributes) = (inputs, node.outputs.clone(), attributes.0);
        if layer.op != Op::Split {
            layer.outputs.truncate(1);
        }
        let shapes = infer::infer(&layer, self);
        self.push(node.layer(), layer);
        for (output, shape) in node.outputs.iter().zip(shapes) {
            self.set_shape(output, shape);
        }
        Ok(())
    }

    fn unary(&mut self, node: &Node, numbers: &[&str]) -> Read<()> {
        let mut attributes = Attributes::new();
        for name in numbers {
            if let Some(value) = node.float(name) {
                attributes = attributes.with(name, Attribute::Float(value.into()));
            }
        }
        self.plain(node, Op::from(node.op.clone()), attributes)
    }

    /// A node whose inputs, and attributes of these names, are the same in the contract.
    fn same(&mut self, node: &Node, names: &[&str], floats: &[&str]) -> Read<()> {
        let mut attributes = Attributes::new();
        for name in names {
            attributes = match (node.int(name), node.text(name)) {
                (Some(value), _) => attributes.int(name, value),
                (_, Some(text)) => attributes.with(name, Attribute::Text(text.to_owned())),
                _ => attributes,
            };
        }
        let is_sum = matches!(node.text("reduction"), Some("add" | "mul"));
        if is_sum && node.inputs.iter().any(|name| self.is_narrow(name)) {
            return Err(NARROW.to_owned());
        }
        for name in floats {
            attributes = match node.float(name) {
                Some(value) => attributes.with(name, Attribute::Float(value.into())),
                None => attributes,
            };
        }
        let shape = node.input(0).and_then(|x| self.shape(x));
        let inputs = self.operands(node)?;
        let op = if node.op == "Scatter" { Op::ScatterElements } else { Op::from(node.op.as_str()) };
        match op {
            Op::GatherElements | Op::GatherND | Op::ArgMax | Op::ArgMin => {
                self.emit(node, op, inputs, attributes)
            }
            _ => self.emit_one(node, op, inputs, attributes, shape),
        }
    }

    pub(super) fn operands(&mut self, node: &Node) -> Read<Vec<String>> {
        node.inputs.iter().map(|name| self.operand(name)).collect()
    }

    fn elementwise(&mut self, node: &'a Node) -> Read<()> {
        if node.has("broadcast") {
            return Err("has the attribute 'broadcast' of an old operator set".to_owned());
        }
        if node.op == "Add" && self.fuse_bias(node)? {
            return Ok(());
        }
        let mut attributes = Attributes::new();
        if node.op == "Mod" && node.int("fmod") == Some(1) {
            attributes = attributes.int("fmod", 1);
        }
        let is_int =
            |at| node.input(at).and_then(|name| self.dtype(name)).is_some_and(|dtype| bits(dtype).is_some());
        if node.op == "Pow" && (is_int(0) || is_int(1)) {
            return self.composed(node);
        }
        let inputs = self.operands(node)?;
        let shape = self.broadcast_shape(&node.inputs);
        self.emit_one(node, Op::from(node.op.as_str()), inputs, attributes, shape)
    }

    /// Whether a value has integers of fewer than 32 bits.
    fn is_narrow(&self, name: &str) -> bool {
        self.dtype(name).is_some_and(|dtype| bits(dtype).is_some_and(|bits| bits.1 < 32))
    }

    fn broadcast_shape(&self, names: &[String]) -> Option<Vec<Length>> {
        let shapes: Vec<Vec<Length>> = names.iter().map(|name| self.shape(name)).collect::<Option<_>>()?;
        broadcast_all(shapes.iter().map(Vec::as_slice))
    }

    /// Dropout passes its input on when the model runs.
    fn dropout(&mut self, node: &'a Node) -> Read<()> {
        if node.outputs.get(1).is_some_and(|mask| self.uses(mask) > 0) {
            return self.composed(node);
        }
        if let Some(mode) = node.input(2) {
            let is_off = self.ints(mode).is_some_and(|ints| ints.values == [Length::Known(0)]);
            if !is_off {
                return self.composed(node);
            }
        }
        self.plain(node, Op::Identity, Attributes::new())
    }

    /// A sum of any number of values is one addition after the other.
    fn sum(&mut self, node: &'a Node) -> Read<()> {
        let shape = self.broadcast_shape(&node.inputs);
        let inputs = self.operands(node)?;
        let Some((first, rest)) = inputs.split_first() else { return Err("lacks its inputs".to_owned()) };
        let output = node.outputs.first().ok_or("lacks its output")?;
        if rest.is_empty() {
            return self.emit_one(node, Op::Identity, inputs, Attributes::new(), shape);
        }
        let mut sum = first.clone();
        for (at, next) in rest.iter().enumerate() {
            let is_last = at + 1 == rest.len();
            let result = if is_last { output.clone() } else { self.fresh_value(output) };
            self.emit_as(
                node.layer(),
                Op::Add,
                vec![sum, next.clone()],
                vec![result.clone()],
                Attributes::new(),
            );
            sum = result;
        }
        self.set_shape(output, shape);
        Ok(())
    }

    fn clip(&mut self, node: &'a Node) -> Read<()> {
        let mut attributes = Attributes::new();
        let is_computed = |name: &str| self.number(name).is_none();
        if [1, 2].into_iter().any(|at| node.input(at).is_some_and(is_computed)) {
            return self.clip_between(node);
        }
        for (at, name) in [(1, "min"), (2, "max")] {
            let bound = match node.input(at) {
                Some(input) => self.number(input),
                None => node.float(name).map(f64::from),
            };
            if let Some(bound) = bound {
                attributes = attributes.with(name, Attribute::Float(bound));
            }
        }
        self.plain(node, Op::Clip, attributes)
    }

    /// Bounds that the graph computes: `min(max(x, least), most)`.
    fn clip_between(&mut self, node: &'a Node) -> Read<()> {
        let x = node.input(0).ok_or("lacks its input")?;
        let shape = self.shape(x);
        let output = node.outputs.first().ok_or("lacks its output")?;
        let mut value = self.operand(x)?;
        let most = node.input(2);
        if let Some(least) = node.input(1) {
            let inputs = vec![value, self.operand(least)?];
            if most.is_none() {
                return self.emit_one(node, Op::Max, inputs, Attributes::new(), shape);
            }
            value = self.near(node, Op::Max, inputs, Attributes::new(), &format!("{output}/raised"));
        }
        let inputs = vec![value, self.operand(most.ok_or("lacks its bounds")?)?];
        self.emit_one(node, Op::Min, inputs, Attributes::new(), shape)
    }

    /// One number that is known.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match (self.floats(name), self.ints(name)) {
            (Some((floats, _)), _) if floats.len() == 1 => floats.first().copied(),
            (_, Some(ints)) => ints.only()?.known().map(|int| int as f64),
            _ => None,
        }
    }

    fn cast(&mut self, node: &'a Node) -> Read<()> {
        let number = node.int("to").unwrap_or(0);
        let wanted = dtype(number).ok_or_else(|| format!("makes numbers of type {number}"))?;
        if let Some(output) = node.outputs.first() {
            self.dtypes.insert(output, number);
        }
        self.converted(node, wanted)
    }

    fn cast_like(&mut self, node: &'a Node) -> Read<()> {
        let like = node.input(1).ok_or("lacks its second input")?;
        let wanted = self.dtype(like).ok_or("makes numbers of a type that the model does not state")?;
        self.converted(node, wanted)
    }

    /// A node of a layer that is several, and the name of its value.
    fn near(
        &mut self,
        node: &Node,
        op: Op,
        inputs: Vec<String>,
        attributes: Attributes,
        wanted: &str,
    ) -> String {
        let value = self.fresh_value(wanted);
        self.emit_as(node.layer(), op, inputs, vec![value.clone()], attributes);
        value
    }
}
