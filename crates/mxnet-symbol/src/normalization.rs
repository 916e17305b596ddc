//! Normalizations.

use crate::attributes::wrong;
use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::shape::show;
use ckpt_graph::{Length, int};

impl Lowering<'_> {
    /// Lowers a normalization; `None` if it is another operator.
    pub(crate) fn normalized(&mut self, step: &Step) -> Read<Option<Val>> {
        Ok(Some(match step.op.as_str() {
            "BatchNorm" | "BatchNorm_v1" | "CuDNNBatchNorm" => self.batch(step)?,
            "LayerNorm" => self.layer_norm(step)?,
            "InstanceNorm" => self.instance(step)?,
            "GroupNorm" => self.group(step)?,
            "LRN" => self.response(step)?,
            "L2Normalization" => self.unit(step)?,
            _ => return Ok(None),
        }))
    }

    fn batch(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let axis = x.resolve(step.int("axis", 1)?)?;
        let mut node = self.builder.node(Op::BatchNormalization);
        node = node.attribute("epsilon", Attribute::Float(step.single("eps", 1e-3)?));
        // By default, gamma counts as 1 whatever is stored.
        if !step.flag("fix_gamma", true)? {
            node = self.with_vector(node, "scale", step, 1)?;
        }
        node = self.with_vector(node, "bias", step, 2)?;
        for (index, role, ending) in [(3, "mean", "_moving_mean"), (4, "variance", "_moving_var")] {
            // Versions before 0.9 did not list them.
            node = match step.inputs.len() > index {
                true => self.with_vector(node, role, step, index)?,
                false => {
                    let name = format!("{}{ending}", step.name);
                    let id = self.parameter_named(&name).ok_or_else(|| format!("lacks '{name}'"))?;
                    node.parameter(role, self.claim_tensor(id, &[Axis::Out])?.0)
                }
            };
        }
        if axis == 1 {
            return self.builder.map(node, &x);
        }
        let mut order: Vec<usize> = (0..x.rank()).collect();
        order.swap(1, axis);
        let turned = self.builder.transpose(&x, &order)?;
        let made = self.builder.map(node, &turned)?;
        self.builder.transpose(&made, &order)
    }

    fn layer_norm(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let axis = x.resolve(step.int("axis", -1)?)?;
        if axis.checked_add(1) != Some(x.rank()) {
            return Err("normalizes another axis than the last".to_owned());
        }
        let node = self.scaled(Op::LayerNormalization, step, 1e-5)?;
        self.builder.map(node, &x)
    }

    fn instance(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let node = self.scaled(Op::InstanceNormalization, step, 1e-3)?;
        self.builder.map(node, &x)
    }

    fn group(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let groups = step.int("num_groups", 1)?;
        let channels = x.len(1).known().filter(|channels| groups > 0 && channels % groups == 0);
        let channels = channels.ok_or_else(|| format!("divides {} into {groups} groups", show(&x.dims)))?;
        let node = self.builder.node(Op::GroupNormalization);
        let node = node.attribute("epsilon", Attribute::Float(step.single("eps", 1e-5)?));
        let made = self.builder.map(node.attribute("num_groups", Attribute::Int(groups)), &x)?;
        let scale = self.for_groups(step, 1, groups, channels, x.rank())?;
        let made = self.builder.apply(Op::Mul, &[&made, &scale])?;
        let bias = self.for_groups(step, 2, groups, channels, x.rank())?;
        self.builder.apply(Op::Add, &[&made, &bias])
    }

    /// One number for each group, as one for each channel.
    fn for_groups(
        &mut self,
        step: &Step,
        index: usize,
        groups: i64,
        channels: i64,
        rank: usize,
    ) -> Read<Val> {
        let own = self.take(step, index)?;
        let own = match own.dims[..] == [Length::Known(groups)] {
            true => {
                let own = self.builder.unsqueeze(&own, &[1])?;
                let times = channels.checked_div(groups).unwrap_or(1);
                let node = self.builder.node(Op::Tile).attribute("repeats", Attribute::Ints(vec![1, times]));
                let own =
                    self.builder.plain(node, &[&own], vec![Length::Known(groups), Length::Known(times)])?;
                self.builder.reshape(&own, vec![Length::Known(channels)])?
            }
            false => own,
        };
        self.builder.unsqueeze(&own, &(1..rank.saturating_sub(1)).collect::<Vec<usize>>())
    }

    /// A node with an epsilon, gamma and beta.
    fn scaled(&mut self, op: Op, step: &Step, epsilon: f32) -> Read<Node> {
        let node = self.builder.node(op).attribute("epsilon", Attribute::Float(step.single("eps", epsilon)?));
        let node = self.with_vector(node, "scale", step, 1)?;
        self.with_vector(node, "bias", step, 2)
    }

    fn response(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let size = step.int("nsize", 0)?;
        if size < 1 || size % 2 == 0 {
            return Err(wrong("nsize", &size.to_string()));
        }
        let mut node = self.builder.node(Op::LRN).attribute("size", Attribute::Int(size));
        for (own, key, default) in [("alpha", "alpha", 1e-4), ("beta", "beta", 0.75), ("bias", "knorm", 2.0)]
        {
            node = node.attribute(own, Attribute::Float(step.single(key, default)?));
        }
        self.builder.map(node, &x)
    }

    /// Divides by the norm over some axes.
    fn unit(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let axes: Vec<usize> = match step.text("mode").unwrap_or("instance") {
            "instance" => (1..x.rank()).collect(),
            "channel" => vec![1],
            "spatial" => (2..x.rank()).collect(),
            other => return Err(wrong("mode", other)),
        };
        let square = self.builder.apply(Op::Mul, &[&x, &x])?;
        let sum = self.builder.reduce(Op::ReduceSum, &square, &axes, true)?;
        let epsilon = self.builder.scalar(step.single("eps", 1e-10)?)?;
        let sum = self.builder.apply(Op::Add, &[&sum, &epsilon])?;
        let norm = self.builder.apply(Op::Sqrt, &[&sum])?;
        self.builder.apply(Op::Div, &[&x, &norm])
    }

    /// Softmax over the axis that an operator names, of values that are divided by its temperature.
    pub(crate) fn softmax(&mut self, step: &Step, op: Op) -> Read<Val> {
        if step.flag("use_length", false)? || step.inputs.len() > 1 {
            return Err("has lengths of its rows, which are not supported".to_owned());
        }
        let x = self.take(step, 0)?;
        let axis = x.resolve(step.int("axis", -1)?)?;
        let temperature = step.float("temperature", 1.0)?;
        let x = match (temperature - 1.0).abs() > 0.0 {
            true => {
                let temperature = self.builder.scalar(temperature)?;
                self.builder.apply(Op::Div, &[&x, &temperature])?
            }
            false => x,
        };
        self.softmax_of(&x, op, axis)
    }

    pub(crate) fn softmax_of(&mut self, x: &Val, op: Op, axis: usize) -> Read<Val> {
        let node = self.builder.node(op).attribute("axis", Attribute::Int(int(axis)?));
        self.builder.map(node, x)
    }

    /// Softmax over all axes but the first.
    pub(crate) fn softmax_of_rows(&mut self, x: &Val) -> Read<Val> {
        if x.rank() == 2 {
            return self.softmax_of(x, Op::Softmax, 1);
        }
        let flat = self.flat(x, None)?;
        let made = self.softmax_of(&flat, Op::Softmax, 1)?;
        self.builder.reshape(&made, x.dims.clone())
    }
}
