//! Lowers normalizations.

use super::lowering::{Lowering, Site};
use super::values::Val;
use crate::layer::Reason;
use crate::model::Layer;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::{Dims, Length};

/// What Keras divides by at least.
const LEAST_DEVIATION: f64 = 1e-7;

impl Lowering {
    pub(super) fn batch_norm(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        if layer.flag("renorm", false) {
            return Err("its option 'renorm' is not supported".to_owned());
        }
        if layer.int("mode", 0)? == 1 {
            return Err("its option 'mode' is not supported".to_owned());
        }
        let axis = single_axis(layer, x)?;
        let mut node = self.values.node(Op::BatchNormalization).attribute("epsilon", epsilon(layer, 1e-3)?);
        node = node.attribute("momentum", Attribute::Float(layer.float("momentum", 0.99)?));
        for (role, name, is_there) in [
            ("scale", "gamma", layer.flag("scale", true)),
            ("bias", "beta", layer.flag("center", true)),
            ("mean", "moving_mean", true),
            ("variance", "moving_variance", true),
        ] {
            if is_there {
                node = node.parameter(role, site.variable(name));
            }
        }
        self.per_channel(node, x, axis)
    }

    pub(super) fn group_norm(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let axis = single_axis(layer, x)?;
        let groups = match layer.int("groups", 32)? {
            -1 => x.len(axis).known().ok_or("the number of its channels is not stated")?,
            groups => groups,
        };
        let node = self.values.node(Op::GroupNormalization).attribute("epsilon", epsilon(layer, 1e-3)?);
        let node = node.attribute("num_groups", Attribute::Int(groups));
        self.per_channel(scaled(node, site), x, axis)
    }

    /// Applies a node whose channels are the second axis; they are `axis` of the value.
    fn per_channel(&mut self, node: Node, x: &Val, axis: usize) -> Result<Val, Reason> {
        let rank = x.rank();
        if axis + 1 == rank {
            let x = if rank > 2 { self.values.first(x)? } else { self.values.last(x)? };
            return self.values.map(node, &x);
        }
        if axis == 1 {
            let x = self.values.as_channels_last(x)?;
            let made = self.values.map(node, &x)?;
            return self.values.restored_first(&made);
        }
        let (to_last, back) = moved(rank, axis);
        let turned = self.values.transpose(x, &to_last)?;
        let turned = self.values.first(&turned)?;
        let made = self.values.map(node, &turned)?;
        self.values.transpose(&made, &back)
    }

    pub(super) fn layer_norm(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let is_rms = layer.class == "RMSNormalization";
        if layer.flag("rms_scaling", false) {
            return Err("its option 'rms_scaling' is not supported".to_owned());
        }
        let (op, default) =
            if is_rms { (Op::RMSNormalization, 1e-6) } else { (Op::LayerNormalization, 1e-3) };
        let stated = layer.ints("axis")?.unwrap_or_else(|| vec![-1]);
        let mut axes = stated.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?;
        axes.sort_unstable();
        let node = self.values.node(op).attribute("epsilon", epsilon(layer, default)?);
        let x = self.values.last(x)?;
        let rank = x.rank();
        match axes[..] {
            [axis] => {
                let node = node.attribute("axis", Attribute::Int(-1));
                if axis + 1 == rank {
                    return self.values.map(scaled(node, site), &x);
                }
                let len = x.len(axis);
                // Keras's RMSNormalization multiplies by its scale along the last axis all the same.
                let node = if is_rms { node } else { scaled(node, site) };
                let (to_last, back) = moved(rank, axis);
                let turned = self.values.transpose(&x, &to_last)?;
                let turned = self.values.last(&turned)?;
                let made = self.values.map(node, &turned)?;
                let made = self.values.transpose(&made, &back)?;
                match is_rms {
                    true => {
                        let scale = self.values.stored(&site.variable("scale"), vec![len])?;
                        self.values.apply(Op::Mul, &[&made, &scale])
                    }
                    false => Ok(made),
                }
            }
            [first, ..] if axes.iter().copied().eq(first..rank) => {
                let node = node.attribute("axis", Attribute::Int(ckpt_graph::int(first)?));
                let mut made = self.values.map(node, &x)?;
                let dims: Dims = axes.iter().map(|axis| x.len(*axis)).collect();
                for (name, op) in norm_roles(layer)
                    .into_iter()
                    .map(|(_, name)| (name, if name == "beta" { Op::Add } else { Op::Mul }))
                {
                    let stored = self.values.stored(&site.variable(name), dims.clone())?;
                    made = self.values.apply(op, &[&made, &stored])?;
                }
                Ok(made)
            }
            _ => Err("its axes are not the last ones".to_owned()),
        }
    }

    pub(super) fn unit_norm(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        let stated = layer.ints("axis")?.unwrap_or_else(|| vec![-1]);
        let [axis] = stated[..] else { return Err("it normalizes several axes together".to_owned()) };
        let at = x.axis(x.resolve(axis)?);
        let node = self.values.node(Op::LpNormalization).attribute("p", Attribute::Int(2));
        let node = node.attribute("axis", Attribute::Int(ckpt_graph::int(at)?));
        self.values.map(node, x)
    }

    /// Lowers `Normalization`: `(x − mean) / max(√variance, 1e-7)`, or its inverse.
    pub(super) fn standardize(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let axes = match layer.config.get("axis") {
            None => vec![-1],
            Some(_) => layer.ints("axis")?.unwrap_or_default(),
        };
        let axes = axes.iter().map(|axis| x.resolve(*axis)).collect::<Result<Vec<_>, _>>()?;
        let kept: Dims = axes.iter().map(|axis| x.len(*axis)).collect();
        let broadcast: Dims = (0..x.rank())
            .map(|axis| if axes.contains(&axis) { x.len(axis) } else { Length::Known(1) })
            .collect();
        let is_suffix = axes.iter().copied().eq(x.rank() - axes.len().min(x.rank())..x.rank());
        let mut found = Vec::new();
        for name in ["mean", "variance"] {
            let (val, is_stored) = match layer.floats(name)? {
                None => (self.values.stored(&site.variable(name), kept.clone())?, true),
                Some(values) => (self.statistics(name, &kept, values)?, false),
            };
            let is_plain = val.rank() == 0 || is_suffix;
            found.push((if is_plain { val } else { self.reshape(&val, broadcast.clone())? }, is_stored));
        }
        let [(mean, _), (variance, is_stored)] =
            <[_; 2]>::try_from(found).map_err(|_| "it lacks its statistics")?;
        let deviation = match is_stored {
            true => {
                let root = self.values.apply(Op::Sqrt, &[&variance])?;
                let least = self.values.scalar(LEAST_DEVIATION)?;
                self.values.apply(Op::Max, &[&root, &least])?
            }
            false => variance,
        };
        let x = if x.tag.is_integer { self.cast(x, "float")? } else { x.clone() };
        if layer.flag("invert", false) {
            let scaled = self.values.apply(Op::Mul, &[&x, &deviation])?;
            return self.values.apply(Op::Add, &[&mean, &scaled]);
        }
        let centered = self.values.apply(Op::Sub, &[&x, &mean])?;
        self.values.apply(Op::Div, &[&centered, &deviation])
    }

    /// Makes the value of a mean that the configuration states, or of the deviation of a variance.
    fn statistics(&mut self, name: &str, kept: &Dims, values: Vec<f64>) -> Result<Val, Reason> {
        let is_mean = name == "mean";
        let values: Vec<f64> = values
            .into_iter()
            .map(|value| if is_mean { value } else { value.sqrt().max(LEAST_DEVIATION) })
            .collect();
        if let [value] = values[..] {
            return self.values.scalar(value);
        }
        let shape = kept
            .iter()
            .map(|len| len.size())
            .collect::<Option<Vec<u64>>>()
            .ok_or("the shape of its input is not stated")?;
        let count = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
        if count != u64::try_from(values.len()).ok() {
            return Err(format!("its option '{name}' does not fit its input"));
        }
        let name = self.values.constant_name();
        self.values.floats(&name, &shape, values)
    }

    /// Lowers `Rescaling`: `x·scale + offset`.
    pub(super) fn rescale(&mut self, layer: &Layer, x: &Val) -> Result<Val, Reason> {
        let mut made = if x.tag.is_integer { self.cast(x, "float")? } else { x.clone() };
        for (key, neutral, op) in [("scale", 1.0, Op::Mul), ("offset", 0.0, Op::Add)] {
            let values = layer.floats(key)?.unwrap_or_else(|| vec![neutral]);
            let constant = match values[..] {
                [value] if value == neutral => continue,
                [value] => self.values.scalar(value)?,
                _ => {
                    let len = u64::try_from(values.len()).map_err(|_| "a size is too large")?;
                    let name = self.values.constant_name();
                    self.values.floats(&name, &[len], values)?
                }
            };
            made = self.values.apply(op, &[&made, &constant])?;
        }
        Ok(made)
    }
}

/// The variables of a normalization over the last axes, by their roles in the graph.
fn norm_roles(layer: &Layer) -> Vec<(&'static str, &'static str)> {
    if layer.class == "RMSNormalization" {
        return vec![("scale", "scale")];
    }
    let all = [("scale", "gamma", "scale"), ("bias", "beta", "center")];
    all.into_iter()
        .filter(|(.., option)| layer.flag(option, true))
        .map(|(role, name, _)| (role, name))
        .collect()
}

fn scaled(node: Node, site: Site) -> Node {
    norm_roles(site.layer)
        .into_iter()
        .fold(node, |node, (role, name)| node.parameter(role, site.variable(name)))
}

fn epsilon(layer: &Layer, default: f64) -> Result<Attribute, Reason> {
    layer.float("epsilon", default).map(Attribute::Float)
}

fn single_axis(layer: &Layer, x: &Val) -> Result<usize, Reason> {
    match layer.ints("axis")?.as_deref() {
        None => x.resolve(-1),
        Some([axis]) => x.resolve(*axis),
        Some(_) => Err("it normalizes several axes".to_owned()),
    }
}

/// Returns the order of axes that moves one to the end, and the order that moves it back.
fn moved(rank: usize, axis: usize) -> (Vec<usize>, Vec<usize>) {
    let to_last: Vec<usize> = (0..rank).filter(|other| *other != axis).chain([axis]).collect();
    let mut back = vec![0; rank];
    for (to, from) in to_last.iter().enumerate() {
        if let Some(place) = back.get_mut(*from) {
            *place = to;
        }
    }
    (to_last, back)
}
