//! Attributes that the graph computes from the lengths of free axes.
//!
//! Arithmetic on shapes is known up to these lengths. What is no attribute therefore stays in the graph, as the model has
//! it: the nodes of the arithmetic, and inputs in place of attributes. Nodes that nothing takes in the end are left out.

use super::values::{Attributes, Known, Read, Reader};
use crate::format::message::Node;
use ckpt_api::{Attribute, Node as Layer, Op};
use ckpt_graph::shape::{broadcast, resolve};
use ckpt_graph::{Dims, Length};
use std::collections::HashSet;

impl<'a> Reader<'a> {
    /// Whether a node makes numbers that are known only up to the lengths of free axes.
    pub(super) fn is_open(&self, node: &Node) -> bool {
        node.outputs.first().is_some_and(|output| match self.known(output) {
            Known::Ints(ints) => ints.known().is_none(),
            Known::Filled { shape, .. } => shape.iter().any(|len| len.known().is_none()),
            _ => false,
        })
    }

    /// Reads a node by its operator; attributes that are not known become inputs.
    pub(super) fn with_computed_attributes(&mut self, node: &'a Node) -> Read<()> {
        let first = self.nodes.len();
        let refused = match self.operator(node) {
            Ok(()) => return Ok(()),
            Err(refused) => refused,
        };
        let begun = first..self.nodes.len();
        self.spare.extend(begun);
        match self.computed(node)? {
            true => Ok(()),
            false => Err(refused),
        }
    }

    /// Reads a node whose numbers are known only up to the lengths of free axes, for those that take them as they are.
    pub(super) fn keep_open(&mut self, node: &'a Node) {
        let (first, output) = (self.nodes.len(), node.outputs.first());
        let is_made = self.with_computed_attributes(node).is_ok();
        self.spare.extend(first..self.nodes.len());
        if is_made {
            self.open.extend(output.map(String::as_str));
        }
    }

    /// Reads a node with inputs in place of attributes; `false` for an operator that has none, or not all of them.
    fn computed(&mut self, node: &'a Node) -> Read<bool> {
        let op = match node.op.as_str() {
            "ConstantOfShape" => return self.filled_by_length(node).map(|()| true),
            "Upsample" => return Ok(false),
            name => Op::from(name),
        };
        let (first, names) = op.computed_attributes();
        let given = node.inputs.iter().skip(first).take(names.len());
        // What is refused though all of its numbers are known is refused for another reason.
        let is_known = |name: &String| {
            name.is_empty()
                || self.floats(name).is_some()
                || self.ints(name).is_some_and(|ints| ints.known().is_some())
        };
        if given.clone().all(is_known) {
            return Ok(false);
        }
        let Some(attributes) = self.other_attributes(node, &op)? else { return Ok(false) };
        let mut inputs = Vec::with_capacity(first + names.len());
        if first > 0 {
            inputs.push(self.operand(node.input(0).ok_or("lacks its input")?)?);
        }
        inputs.resize(first, String::new());
        for input in given {
            inputs.push(if input.is_empty() { String::new() } else { self.place(input)? });
        }
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        let shape = self.computed_shape(node, &op);
        let outputs: Vec<String> = node.outputs.clone();
        self.emit_as(node.layer(), op, inputs, outputs, attributes);
        for (output, shape) in node.outputs.iter().zip(std::iter::repeat(shape)) {
            self.set_shape(output, shape);
        }
        Ok(true)
    }

    /// The attributes that a node has beside those that are inputs; `None` if the graph lacks one of them.
    fn other_attributes(&self, node: &Node, op: &Op) -> Read<Option<Attributes>> {
        let mut attributes = Attributes::new();
        let names: &[&str] = match op {
            Op::Reshape => &["allowzero"],
            Op::Split => &["axis"],
            Op::TopK => &["axis", "largest", "sorted"],
            Op::Pad if node.input(3).is_some() => return Ok(None),
            Op::Resize if node.has("axes") || self.opset < 11 => return Ok(None),
            // Programs round lengths before or after they align corners.
            Op::Resize
                if node.input(3).is_none()
                    && node.text("coordinate_transformation_mode") == Some("align_corners") =>
            {
                return Ok(None);
            }
            Op::Pad => &["mode"],
            Op::Resize => return self.resize_attributes(node).map(Some),
            _ => &[],
        };
        for name in names {
            attributes = match (node.int(name), node.text(name)) {
                (Some(value), _) => attributes.int(name, value),
                (_, Some(text)) => attributes.with(name, Attribute::Text(text.to_owned())),
                _ => attributes,
            };
        }
        if let (Op::Pad, Some(input)) = (op, node.input(2)) {
            let value = self.number(input).ok_or("has a value that is not a constant")?;
            attributes = attributes.with("value", Attribute::Float(value));
        }
        Ok(Some(attributes))
    }

    /// A list of places on axes. One far beyond all axes stands for their end.
    fn place(&mut self, name: &'a str) -> Read<String> {
        let far = |value: &i64| i32::try_from(*value).is_err();
        let ints = self.ints(name).and_then(|ints| Some((ints.sizes(), ints.known()?)));
        let Some((shape, values)) = ints.filter(|(_, values)| values.iter().any(far)) else {
            return self.operand(name);
        };
        let near = |value: i64| value.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        let values = values.into_iter().map(near).collect();
        let value = self.fresh_value(name);
        let node = Layer::new(String::new(), Op::Constant)
            .attribute("value_ints", Attribute::Ints(values))
            .attribute("shape", super::values::signed(&shape));
        self.push(name, Layer { outputs: vec![value.clone()], ..node });
        Ok(value)
    }

    /// What is known of the shape of what such a node makes.
    fn computed_shape(&self, node: &Node, op: &Op) -> Option<Dims> {
        let wanted = |at: usize| self.ints(node.input(at)?).map(|ints| ints.values);
        let own = || self.shape(node.input(0)?);
        let unknown = |rank: usize| vec![Length::Unknown; rank];
        let listed = |at: usize| usize::try_from(self.shape(node.input(at)?)?.first()?.known()?).ok();
        match op {
            Op::Reshape => match wanted(1) {
                Some(lens) => {
                    let (copies, own) = (node.int("allowzero").unwrap_or(0) == 0, own());
                    let copied = |at: usize| own.as_ref().and_then(|own| own.get(at).copied());
                    let len = |(at, len)| match len {
                        Length::Known(-1) => Length::Unknown,
                        Length::Known(0) if copies => copied(at).unwrap_or(Length::Unknown),
                        len => len,
                    };
                    Some(lens.into_iter().enumerate().map(len).collect())
                }
                None => listed(1).map(unknown),
            },
            Op::Expand => match (own(), wanted(1)) {
                (Some(own), Some(wanted)) => broadcast(&own, &wanted),
                (Some(own), None) => listed(1).map(|rank| unknown(rank.max(own.len()))),
                _ => None,
            },
            Op::Slice => {
                let (mut dims, axes) = (own()?, wanted(3));
                let axes = axes.or_else(|| listed(1).map(|count| (0..count).map(Length::from).collect()))?;
                for axis in axes {
                    let at = resolve(axis.known()?, dims.len())?;
                    *dims.get_mut(at)? = Length::Unknown;
                }
                Some(dims)
            }
            Op::Split | Op::TopK => {
                let mut dims = own()?;
                let axis = node.int("axis").unwrap_or(if *op == Op::Split { 0 } else { -1 });
                let at = resolve(axis, dims.len())?;
                *dims.get_mut(at)? = Length::Unknown;
                Some(dims)
            }
            Op::Range => Some(unknown(1)),
            Op::Resize => match wanted(3) {
                Some(lens) => Some(lens),
                None => own().map(|own| unknown(own.len())),
            },
            _ => own().map(|own| unknown(own.len())),
        }
    }

    /// `ConstantOfShape`: a number, repeated.
    fn filled_by_length(&mut self, node: &'a Node) -> Read<()> {
        let lens = node.input(0).ok_or("lacks its shape")?;
        let number = match node.tensor("value") {
            None => Known::Floats(vec![0.0], Vec::new()),
            Some(tensor) => {
                let (numbers, _) = super::pieces::numbers(self.file(), tensor).ok_or("repeats no number")?;
                Known::of(numbers, Vec::new())
            }
        };
        let attribute = match &number {
            Known::Floats(floats, _) => floats.first().map(|value| ("value_float", Attribute::Float(*value))),
            Known::Ints(ints) => {
                ints.only().and_then(Length::known).map(|value| ("value_int", Attribute::Int(value)))
            }
            _ => None,
        };
        let (name, value) = attribute.ok_or("repeats no number")?;
        let one = self.fresh_value(&format!("{}/number", node.layer()));
        self.emit_as(
            node.layer(),
            Op::Constant,
            Vec::new(),
            vec![one.clone()],
            Attributes::new().with(name, value),
        );
        let lens = self.place(lens)?;
        let shape = node.input(0).and_then(|lens| self.ints(lens)).map(|lens| lens.values);
        self.emit_one(node, Op::Expand, vec![one, lens], Attributes::new(), shape)
    }

    /// Leaves out nodes that were made for what might take them, and that nothing takes. `results` are what the graph
    /// makes.
    pub(super) fn leave_out_spare(&mut self, results: &[ckpt_api::Value]) {
        if self.spare.is_empty() {
            return;
        }
        let mut needed: HashSet<&str> = results.iter().map(|value| value.name.as_str()).collect();
        let mut kept = vec![true; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let is_needed = node.outputs.iter().any(|output| needed.contains(output.as_str()));
            if self.spare.contains(&at) && !is_needed {
                kept[at] = false;
                continue;
            }
            needed.extend(node.inputs.iter().map(String::as_str));
            for level in node.graphs().flat_map(|(_, graph)| graph.levels()) {
                needed.extend(level.nodes.iter().flat_map(|node| &node.inputs).map(String::as_str));
                needed.extend(level.outputs.iter().map(|value| value.name.as_str()));
            }
        }
        let mut kept = kept.into_iter();
        self.nodes.retain(|_| kept.next().unwrap_or(true));
        self.spare.clear();
    }
}
