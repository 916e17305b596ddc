//! Lowers activations: layers of their own, and those that other layers apply.

use super::lowering::{Lowering, Site};
use super::values::Val;
use crate::layer::Reason;
use crate::model::Generation;
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::cells::CellActivation;
use ckpt_graph::{Layout, Length};
use serde_json::Value;

/// Why a softmax without an axis is none that the graph can state.
pub(super) const OVER_ALL: &str =
    "it takes the softmax over all values together, those of other examples, too";

impl Lowering {
    /// Applies the activation that a layer's option names.
    pub(super) fn activate(&mut self, site: Site, key: &str, x: Val) -> Result<Val, Reason> {
        let place = self.values.place.clone();
        self.values.place = format!("{place}/activation");
        let made = self.activation(site.layer, key, x);
        self.values.place = place;
        made
    }

    /// Applies the activation that a layer's option names, at the current place.
    fn activation(&mut self, layer: &Layer, key: &str, x: Val) -> Result<Val, Reason> {
        let Some(value) = layer.option(key) else { return Ok(x) };
        if let Some(name) = activation_name(value) {
            return self.function(name, x);
        }
        match Layer::parse(value).filter(Layer::is_builtin) {
            Some(inner) => self.activation_layer(&inner, &x)?.ok_or_else(|| unknown(&inner.class)),
            None => Err(format!("its option '{key}' is no function of Keras")),
        }
    }

    /// Applies a function of `keras.activations`.
    pub(super) fn function(&mut self, name: &str, x: Val) -> Result<Val, Reason> {
        let number = |value: f64| Attribute::Float(value);
        let values = &mut self.values;
        let node = match name {
            "linear" => return Ok(x),
            "relu" => values.node(Op::Relu),
            "relu6" => values.node(Op::Clip).attribute("min", number(0.0)).attribute("max", number(6.0)),
            "sigmoid" => values.node(Op::Sigmoid),
            "tanh" => values.node(Op::Tanh),
            "elu" => values.node(Op::Elu),
            "selu" => values.node(Op::Selu),
            "celu" => values.node(Op::Celu),
            "softplus" => values.node(Op::Softplus),
            "softsign" => values.node(Op::Softsign),
            "gelu" => values.node(Op::Gelu),
            "swish" | "silu" => values.node(Op::Swish),
            "mish" => values.node(Op::Mish),
            "exponential" => values.node(Op::Exp),
            "leaky_relu" => values.node(Op::LeakyRelu).attribute("alpha", number(0.2)),
            "hard_tanh" => values.node(Op::Clip).attribute("min", number(-1.0)).attribute("max", number(1.0)),
            "hard_silu" | "hard_swish" => values.node(Op::HardSwish),
            "hard_sigmoid" => {
                let slope = self.hard_sigmoid();
                self.values
                    .node(Op::HardSigmoid)
                    .attribute("alpha", number(slope))
                    .attribute("beta", number(0.5))
            }
            "softmax" => return self.over(Op::Softmax, &x, &[-1]),
            "log_softmax" => return self.over(Op::LogSoftmax, &x, &[-1]),
            "log_sigmoid" => {
                let negative = values.apply(Op::Neg, &[&x])?;
                let sum = values.apply(Op::Softplus, &[&negative])?;
                return values.apply(Op::Neg, &[&sum]);
            }
            "tanh_shrink" => {
                let curve = values.apply(Op::Tanh, &[&x])?;
                return values.apply(Op::Sub, &[&x, &curve]);
            }
            other => return Err(unknown(other)),
        };
        self.values.map(node, &x)
    }

    /// The slope of the hard sigmoid.
    pub(super) fn hard_sigmoid(&self) -> f64 {
        if self.generation == Generation::Keras3 { 1.0 / 6.0 } else { 0.2 }
    }

    /// Applies a softmax over axes in Keras's order.
    pub(super) fn over(&mut self, op: Op, x: &Val, axes: &[i64]) -> Result<Val, Reason> {
        let mut axes = axes.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        axes.dedup();
        let [axis] = axes[..] else {
            return self.over_several(op, x, &axes);
        };
        let node = self.values.node(op);
        let is_last = x.layout == Layout::Last && axis + 1 == x.rank();
        let at = ckpt_graph::int(x.axis(axis))?;
        let node = if is_last { node } else { node.attribute("axis", Attribute::Int(at)) };
        self.values.map(node, x)
    }

    /// Applies a softmax over the last axes together.
    fn over_several(&mut self, op: Op, x: &Val, axes: &[usize]) -> Result<Val, Reason> {
        let first = x.rank() - axes.len();
        if !axes.iter().copied().eq(first..x.rank()) || axes.is_empty() {
            return Err("its axes are not the last ones".to_owned());
        }
        let x = self.values.last(x)?;
        let (before, last) = x.dims.split_at_checked(first).unwrap_or_default();
        let flat = self.reshape(&x, [before, &[last.iter().product()]].concat())?;
        let made = self.over(op, &flat, &[-1])?;
        self.reshape(&made, x.dims)
    }

    /// Lowers a layer that is an activation; `None` if it is another one.
    pub(super) fn activation_layer(&mut self, layer: &Layer, x: &Val) -> Result<Option<Val>, Reason> {
        let float = |key: &str, default: f64| layer.float(key, default);
        let alpha = |default: f64| match layer.option("alpha") {
            Some(_) => layer.float("alpha", default),
            None => layer.float("negative_slope", default),
        };
        let node = |lowering: &Self, op: Op, slope: f64| {
            lowering.values.node(op).attribute("alpha", Attribute::Float(slope))
        };
        let made = match layer.class.as_str() {
            "Activation" => return self.activation(layer, "activation", x.clone()).map(Some),
            "LeakyReLU" => node(self, Op::LeakyRelu, alpha(0.3)?),
            "ELU" => node(self, Op::Elu, float("alpha", 1.0)?),
            "ThresholdedReLU" => node(self, Op::ThresholdedRelu, float("theta", 1.0)?),
            "Softmax" if layer.config.get("axis").is_some_and(serde_json::Value::is_null) => {
                return Err(OVER_ALL.to_owned());
            }
            "Softmax" => {
                let axes = layer.ints("axis")?.unwrap_or_else(|| vec![-1]);
                return self.over(Op::Softmax, x, &axes).map(Some);
            }
            "ReLU" => return self.rectified(layer, x).map(Some),
            _ => return Ok(None),
        };
        self.values.map(made, x).map(Some)
    }

    /// Lowers `ReLU`: `x > threshold ? clip(x, 0, max) : slope·(x − threshold)`, where 0 and `max` limit `x` if there is
    /// a `max`.
    fn rectified(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        let slope = layer.float("negative_slope", 0.0)?;
        let threshold = layer.float("threshold", 0.0)?;
        let max = layer.option("max_value").map(|_| layer.float("max_value", 0.0)).transpose()?;
        let number = |value: f64| Attribute::Float(value);
        let clip =
            |max: f64| move |node: Node| node.attribute("min", number(0.0)).attribute("max", number(max));
        let node: Node = match (slope == 0.0, threshold == 0.0, max) {
            (true, true, None) => self.values.node(Op::Relu),
            (true, true, Some(max)) => clip(max)(self.values.node(Op::Clip)),
            (false, true, None) => self.values.node(Op::LeakyRelu).attribute("alpha", number(slope)),
            _ => {
                let limit = self.values.scalar(threshold)?;
                let is_high = self.values.apply(Op::Less, &[&limit, x])?;
                let high = match max {
                    Some(max) => {
                        let node = clip(max)(self.values.node(Op::Clip));
                        self.values.map(node, x)?
                    }
                    None => x.clone(),
                };
                let factor = self.values.scalar(slope)?;
                let low = match slope == 0.0 {
                    true => factor,
                    false => {
                        let moved = self.values.apply(Op::Sub, &[x, &limit])?;
                        self.values.apply(Op::Mul, &[&moved, &factor])?
                    }
                };
                return self.values.apply(Op::Where, &[&is_high, &high, &low]);
            }
        };
        self.values.map(node, x)
    }

    /// Lowers `PReLU`, whose slope has an axis for each of the value's but the batch.
    pub(super) fn parametric(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let shared = site.layer.ints("shared_axes")?.unwrap_or_default();
        let len = |axis: usize| match i64::try_from(axis).is_ok_and(|axis| shared.contains(&axis)) {
            true => Length::Known(1),
            false => x.len(axis),
        };
        let dims = (1..x.rank()).map(len).collect();
        let slope = self.values.stored(&site.variable("alpha"), dims)?;
        let slope = self.values.unsqueeze(&slope, &[0])?;
        self.values.apply(Op::PRelu, &[x, &slope])
    }

    /// Returns a recurrent layer's activation.
    pub(super) fn recurrent_activation(
        &self,
        layer: &Layer,
        key: &str,
        default: &str,
    ) -> Result<CellActivation, Reason> {
        let name = match layer.config.get(key) {
            None => default,
            Some(Value::Null) => "linear",
            Some(value) => {
                activation_name(value).ok_or_else(|| format!("its option '{key}' is no function of Keras"))?
            }
        };
        Ok(match name {
            "sigmoid" => CellActivation::plain("Sigmoid"),
            "tanh" => CellActivation::plain("Tanh"),
            "relu" => CellActivation::plain("Relu"),
            "elu" => CellActivation::plain("Elu"),
            "softplus" => CellActivation::plain("Softplus"),
            "softsign" => CellActivation::plain("Softsign"),
            "hard_sigmoid" => CellActivation { name: "HardSigmoid", line: Some((self.hard_sigmoid(), 0.5)) },
            other => {
                return Err(format!(
                    "its option '{key}' is '{}', which recurrent layers of a graph lack",
                    shown_name(other)
                ));
            }
        })
    }
}

/// Returns the name of a function of Keras: as a text, or as an object that names it.
fn activation_name(value: &Value) -> Option<&str> {
    match value {
        Value::String(name) => Some(name),
        Value::Object(map) => {
            let is_function = map.get("class_name").and_then(Value::as_str) == Some("function");
            let module = map.get("module").and_then(Value::as_str);
            let is_own = module.is_none_or(|module| module == "builtins" || module.starts_with("keras"));
            let name = map.get("config").and_then(Value::as_str);
            name.filter(|_| is_function && is_own)
        }
        _ => None,
    }
}

fn unknown(name: &str) -> Reason {
    format!("its activation '{}' is not supported", shown_name(name))
}
