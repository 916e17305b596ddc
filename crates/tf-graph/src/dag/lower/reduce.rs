//! Lowers reductions, pooling and normalizations of whole images.

use super::super::super::no_chain::NoChain;
use super::super::super::node::attribute;
use super::super::constant;
use super::super::facts::{int, is_channels_first, is_channels_last, keeps_dims, kernel, window};
use super::super::normalization::BatchNorm;
use super::super::pattern::float;
use super::super::reach::Edge;
use super::lowering::{Lowering, lost};
use super::values::Val;
use crate::proto::NodeDef;
use crate::proto::attr_value::Value;
use ckpt_api::{Attribute, Node};
use ckpt_graph::shape::{resolve, resolve_all};
use ckpt_graph::{Builder, Layout, Length, int as size, ints};

impl Lowering<'_> {
    /// Lowers a reduction, pooling or normalization; `None` if it is another operation.
    pub(super) fn reduced(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        inputs: &[Val],
    ) -> Result<Option<Val>, NoChain> {
        let [x] = inputs else { return Ok(None) };
        let made = match op.op.as_str() {
            "Mean" => self.reduce(op, edge, x, "ReduceMean", Some("GlobalAveragePool"))?,
            "Max" => self.reduce(op, edge, x, "ReduceMax", Some("GlobalMaxPool"))?,
            "Sum" => self.reduce(op, edge, x, "ReduceSum", None)?,
            "Min" | "All" => self.reduce(op, edge, x, "ReduceMin", None)?,
            "Any" => self.reduce(op, edge, x, "ReduceMax", None)?,
            "Prod" => self.reduce(op, edge, x, "ReduceProd", None)?,
            "EuclideanNorm" => {
                let squares = self.values.apply("Mul", &[x, x])?;
                let sum = self.reduce(op, edge, &squares, "ReduceSum", None)?;
                self.values.apply("Sqrt", &[&sum])?
            }
            "MaxPool" | "MaxPool3D" => self.pool(op, x, "MaxPool")?,
            "AvgPool" | "AvgPool3D" => self.pool(op, x, "AveragePool")?,
            "FusedBatchNormV3" | "FusedBatchNormV2" | "FusedBatchNorm" => self.fused(op, edge, x)?,
            "ArgMax" | "ArgMin" => {
                let axis = self.axis(edge, 1, x.rank())?;
                let x = self.values.last(x)?;
                let node = self.values.node(op.op.as_str()).attribute("axis", Attribute::Int(size(axis)?));
                let node = node.attribute("keepdims", Attribute::Int(0));
                let dims = self.dims(edge)?;
                self.values.plain(node, &[&x], dims)?
            }
            "LRN" => {
                let radius = int(op, "depth_radius").unwrap_or(5);
                let size = radius.checked_mul(2).and_then(|twice| twice.checked_add(1)).ok_or_else(lost)?;
                let [alpha, beta, bias] = [("alpha", 1.0), ("beta", 0.5), ("bias", 1.0)]
                    .map(|(name, default)| float(op, name, default));
                let x = self.values.first(x)?;
                // ONNX divides alpha by the size.
                #[expect(clippy::cast_precision_loss, reason = "a size is far below 2^53")]
                let alpha = alpha * size as f64;
                let node = self.values.node("LRN").attribute("size", Attribute::Int(size));
                let node = node
                    .attribute("alpha", Attribute::Float(alpha))
                    .attribute("beta", Attribute::Float(beta));
                let node = node.attribute("bias", Attribute::Float(bias));
                self.values.map(node, &x)?
            }
            _ => return Ok(None),
        };
        Ok(Some(made))
    }

    /// Returns the axis that input number `at` states.
    pub(super) fn axis(&self, edge: Edge, at: usize, rank: usize) -> Result<usize, NoChain> {
        let found = || {
            let axis = self.view.inputs(edge).get(at)?;
            resolve(self.view.facts.get(*axis).ints.as_ref()?.only()?.known()?, rank)
        };
        found().ok_or_else(|| NoChain::unsupported("its axis is not a constant"))
    }

    /// Returns the known integers of input number `at`.
    pub(super) fn list(&self, edge: Edge, at: usize) -> Result<Vec<i64>, NoChain> {
        let found = self.view.inputs(edge).get(at).and_then(|input| self.view.ints(*input));
        found.ok_or_else(|| NoChain::unsupported(format!("its input {at} is not a constant")))
    }

    fn reduce(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        x: &Val,
        kind: &str,
        global: Option<&str>,
    ) -> Result<Val, NoChain> {
        let axes = resolve_all(&self.list(edge, 1)?, x.rank());
        let mut axes = axes.ok_or_else(|| NoChain::unsupported("its axes do not exist"))?;
        axes.sort_unstable();
        axes.dedup();
        let keeps = keeps_dims(op);
        let Some(global) = global.filter(|_| x.rank() == 4 && axes == [1, 2]) else {
            return Ok(self.values.reduce(kind, x, &axes, keeps)?);
        };
        let x = self.values.first(x)?;
        let pooled = self.values.pool_globally(global, &x)?;
        if keeps {
            return Ok(pooled);
        }
        let dims = vec![pooled.len(0), pooled.features()];
        let node = self.values.node("Flatten");
        Ok(self.values.plain(node, &[&pooled], dims)?)
    }

    fn pool(&mut self, op: &NodeDef, x: &Val, kind: &str) -> Result<Val, NoChain> {
        let rank = x.rank();
        let misfit = || NoChain::unsupported("its window or layout is not supported");
        let is_first = is_channels_first(op);
        if !is_channels_last(op) && !is_first {
            return Err(misfit());
        }
        let turned = if is_first { self.values.as_channels_last(x)? } else { x.clone() };
        let (window, sides) = (window(op, rank).ok_or_else(misfit)?, kernel(op, rank).ok_or_else(misfit)?);
        let x = self.values.first(&turned)?;
        let node = self.values.node(kind).attribute("kernel_shape", ints(&sides)?);
        let (node, dims) = Builder::windowed(node, &window, &sides, &x)?;
        let made = self.values.same(node, &x, dims)?;
        if is_first { Ok(self.values.restored_first(&made)?) } else { Ok(made) }
    }

    /// Lowers a fused normalization: by stored statistics, or by those of each row, as tf_keras normalizes layers.
    fn fused(&mut self, op: &NodeDef, edge: Edge, x: &Val) -> Result<Val, NoChain> {
        let view = self.view;
        let epsilon = float(op, "epsilon", 0.0001);
        let is_training = attribute(op, "is_training") != Some(&Value::B(false));
        let [_, scale, bias, mean, variance] = view.inputs(edge) else { return Err(lost()) };
        let is_first = is_channels_first(op);
        if !is_training && (is_channels_last(op) || is_first) {
            let mut parameters = Vec::new();
            for (role, edge) in [("scale", scale), ("bias", bias), ("mean", mean), ("variance", variance)] {
                let neutral = if role == "scale" { 1.0 } else { 0.0 };
                if matches!(role, "scale" | "bias") && self.is_filled(*edge, neutral) {
                    continue;
                }
                match view.vector(*edge) {
                    Some(key) => parameters.push((role, key.to_owned())),
                    None => return Err(NoChain::unsupported(format!("its {role} is not a variable"))),
                }
            }
            let norm = BatchNorm { input: edge, parameters, epsilon };
            if !is_first {
                return self.batch_norm(op, &norm, std::slice::from_ref(x));
            }
            let x = self.values.as_channels_last(x)?;
            let made = self.batch_norm(op, &norm, &[x])?;
            return Ok(self.values.restored_first(&made)?);
        }
        // Each row of [1, rows, length, 1], with the rows as channels, is normalized by itself.
        let is_rows = matches!(x.dims[..], [Length::Known(1), _, _, Length::Known(1)]);
        let is_plain = self.is_filled(*scale, 1.0) && self.is_filled(*bias, 0.0);
        if is_training && !is_channels_last(op) && is_rows && is_plain && x.layout == Layout::Last {
            let node: Node = self.values.node("LayerNormalization").attribute("axis", Attribute::Int(2));
            let node = node.attribute("epsilon", Attribute::Float(epsilon));
            return Ok(self.values.plain(node, &[x], x.dims.clone())?);
        }
        Err(NoChain::unsupported("it normalizes by the statistics of the batch"))
    }

    /// Whether a value is a constant of one number.
    fn is_filled(&self, edge: Edge, number: f64) -> bool {
        let view = self.view;
        if view.kind(edge) == "Fill" {
            return view.inputs(edge).get(1).and_then(|value| view.number(*value)) == Some(number);
        }
        let reals = view.op(edge).and_then(|op| constant::reals(op, 1 << 12));
        reals.is_some_and(|reals| reals.values.iter().all(|value| *value == number))
    }
}
