//! The input of a network, layers with vectors, other shapes, and normalizations.

use super::builder::{Builder, Layer, Made, Of, Val};
use ckpt_api::{Attribute, Op};
use ckpt_graph::int;
use ckpt_torch7_objects::Id;

impl Builder<'_> {
    /// The input: what the first layer that states it takes.
    pub(super) fn input(&mut self, network: Id) -> Result<Of, String> {
        let mut open = vec![network];
        let mut dims = None;
        while let Some(id) = open.pop() {
            let layer = self.layer(id)?;
            match layer.kind {
                "Sequential" | "Concat" | "ConcatTable" => {
                    let modules =
                        self.modules(&layer).map_err(|why| format!("{} {why}", self.shown(&layer)))?;
                    self.spend(modules.len())?;
                    open.extend(modules.into_iter().rev());
                }
                "Linear" => {
                    dims = self.tensor(&layer, "weight").map(|(_, shape)| vec![None, shape.last().copied()])
                }
                "BatchNormalization" => dims = Some(vec![None, None]),
                "Reshape" | "View" => {
                    let size = layer.integers("size")?.iter().map(|len| u64::try_from(*len).ok());
                    dims = Some(vec![None, size.reduce(|all, len| all?.checked_mul(len?)).flatten()]);
                }
                kind if kind.starts_with("Spatial") => {
                    dims = Some(vec![None, layer.size("nInputPlane")?, None, None]);
                }
                _ => {}
            }
            if dims.is_some() {
                break;
            }
        }
        let dims = dims.ok_or("no layer states what the network takes")?;
        Ok(Of { name: self.nodes.unique("input"), dims })
    }

    pub(super) fn linear(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let (weight, shape) = self.tensor(layer, "weight").ok_or("has no weight")?;
        let [outputs, inputs] = *shape else { return Err(format!("has a weight of shape {shape:?}")) };
        match x.dims[..] {
            [_, Some(own)] if own != inputs => {
                return Err(format!("takes {own} numbers, and needs {inputs}"));
            }
            [_, _] => {}
            _ => return Err(format!("takes a value of {} axes, and needs vectors", x.dims.len())),
        }
        let mut node = self.nodes.node("", Op::Gemm, &[&x.name]).parameter("weight", weight);
        if self.tensor(layer, "bias").is_some() {
            node = node.parameter("bias", self.vector(layer, "bias", outputs)?);
        }
        Ok(Of { name: self.nodes.add(node), dims: vec![None, Some(outputs)] })
    }

    /// Another shape for each element of the batch.
    pub(super) fn reshape(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let size = layer.integers("size")?;
        // Without a stated mode, the layer keeps a batch of several.
        match layer.flag("batchMode", true)? {
            true => self.shaped(x, &[&[0], size].concat()),
            false => self.shaped(x, size),
        }
    }

    /// As [`Self::reshape`]: the batch is what the shape, or a number of axes, leaves of a value.
    pub(super) fn view(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let size = layer.integers("size")?;
        let axes = layer.size("numInputDims")?;
        let is_open = size.iter().any(|len| *len < 0);
        match axes {
            Some(axes) if axes.saturating_add(1) != x.dims.len() as u64 => {
                Err(format!("takes {axes} axes beside the batch, of {}", x.dims.len().saturating_sub(1)))
            }
            None if is_open && size.len() < 2 => {
                Err("makes one vector of the whole batch; setNumInputDims keeps the batch".to_owned())
            }
            None if is_open => self.shaped(x, size),
            _ => self.shaped(x, &[&[0], size].concat()),
        }
    }

    /// The same numbers in this shape, in which 0 keeps a length and −1 is what remains.
    fn shaped(&mut self, x: &Of, shape: &[i64]) -> Made {
        let mut dims = Vec::with_capacity(shape.len());
        for (axis, len) in shape.iter().enumerate() {
            dims.push(match (axis, u64::try_from(*len)) {
                (0, _) | (_, Err(_)) => None,
                (_, Ok(0)) => return Err("makes a value without elements".to_owned()),
                (_, Ok(len)) => Some(len),
            });
        }
        if dims.is_empty() || shape.iter().filter(|len| **len < 0).count() > 1 {
            return Err("makes a shape that no value has".to_owned());
        }
        let is_flat = matches!(shape, [0, _]) && x.dims.len() > 1;
        let name = match is_flat {
            true => self.nodes.push("", Op::Flatten, &[&x.name], []),
            false => {
                let shape = shape.iter().map(|len| (*len).max(-1)).collect();
                self.nodes.push("", Op::Reshape, &[&x.name], [("shape", Attribute::Ints(shape))])
            }
        };
        Ok(Of { name, dims })
    }

    /// Values one after the other along an axis.
    pub(super) fn join(&mut self, table: &Val, dimension: i64, has_batch: bool) -> Made {
        let Val::Table(values) = table else { return Err("joins a single value".to_owned()) };
        let first = values.first().ok_or("joins no values")?;
        if values.iter().any(|value| value.dims.len() != first.dims.len()) {
            return Err("joins values of several ranks".to_owned());
        }
        let axis = first.axis(dimension, has_batch)?;
        let mut dims = first.dims.clone();
        if let Some(own) = dims.get_mut(axis) {
            let lens = values.iter().map(|value| value.dims.get(axis).copied().flatten());
            *own = lens.reduce(|sum, len| sum?.checked_add(len?)).flatten();
        }
        let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
        let name = self.nodes.push("", Op::Concat, &names, [("axis", Attribute::Int(int(axis)?))]);
        Ok(Of { name, dims })
    }

    /// A slope below 0 for each channel, or one for all.
    pub(super) fn parametric(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let slope = match layer.size("nOutputPlane")?.unwrap_or(0) {
            0 => self.nodes.tensor("slope", self.vector(layer, "weight", 1)?, &[1])?,
            channels => self.along(layer, "weight", channels, x)?,
        };
        Ok(Of { name: self.nodes.push("", Op::PRelu, &[&x.name, &slope], []), dims: x.dims.clone() })
    }

    /// `(x − mean) / √(variance + ε) · weight + bias`. Layers of before 2015 store the factor of the deviation.
    pub(super) fn normalization(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        let (_, shape) = self.tensor(layer, "running_mean").ok_or("has no running_mean")?;
        let channels = shape.iter().product();
        if x.channels().is_some_and(|own| own != channels) {
            return Err(format!("takes {} channels, and needs {channels}", x.channels().unwrap_or(0)));
        }
        let dims = x.dims.iter().enumerate().map(|(axis, len)| if axis == 1 { Some(channels) } else { *len });
        let dims = dims.collect();
        let epsilon = layer.number_or("eps", 1e-5)?;
        let is_affine = self.tensor(layer, "weight").is_some();
        let has_variance = self.tensor(layer, "running_var").is_some();
        if is_affine && has_variance {
            let roles = [
                ("scale", "weight"),
                ("bias", "bias"),
                ("mean", "running_mean"),
                ("variance", "running_var"),
            ];
            let mut node = self.nodes.node("", Op::BatchNormalization, &[&x.name]);
            for (role, field) in roles {
                node = node.parameter(role, self.vector(layer, field, channels)?);
            }
            let name = self.nodes.add(node.attribute("epsilon", Attribute::Float(epsilon)));
            return Ok(Of { name, dims });
        }
        let mean = self.along(layer, "running_mean", channels, x)?;
        let mut name = self.nodes.push("centered", Op::Sub, &[&x.name, &mean], []);
        if has_variance {
            let variance = self.along(layer, "running_var", channels, x)?;
            let epsilon = self.nodes.scalar("epsilon", epsilon);
            let variance = self.nodes.push("stable", Op::Add, &[&variance, &epsilon], []);
            let deviation = self.nodes.push("deviation", Op::Sqrt, &[&variance], []);
            name = self.nodes.push("normalized", Op::Div, &[&name, &deviation], []);
        } else {
            let factor = self.along(layer, "running_std", channels, x)?;
            name = self.nodes.push("normalized", Op::Mul, &[&name, &factor], []);
        }
        if is_affine {
            let factor = self.along(layer, "weight", channels, x)?;
            name = self.nodes.push("scaled", Op::Mul, &[&name, &factor], []);
            let bias = self.along(layer, "bias", channels, x)?;
            name = self.nodes.push("", Op::Add, &[&name, &bias], []);
        }
        Ok(Of { name, dims })
    }

    /// A tensor with a number for each channel, as it is broadcast with a value.
    fn along(&mut self, layer: &Layer<'_>, field: &str, channels: u64, x: &Of) -> Result<String, String> {
        let tensor = self.vector(layer, field, channels)?;
        let shape = [&[channels][..], &vec![1; x.dims.len().saturating_sub(2)]].concat();
        self.nodes.tensor(field, tensor, &shape)
    }

    pub(super) fn local_response(&mut self, layer: &Layer<'_>, x: &Of) -> Made {
        x.check_image(None)?;
        let size = layer.positive("size")?;
        if size % 2 == 0 {
            return Err("has no middle of its channels".to_owned());
        }
        let attributes = [
            ("size", Attribute::Int(int(size)?)),
            ("alpha", Attribute::Float(layer.number_or("alpha", 1e-4)?)),
            ("beta", Attribute::Float(layer.number_or("beta", 0.75)?)),
            ("bias", Attribute::Float(layer.number_or("k", 1.0)?)),
        ];
        Ok(Of { name: self.nodes.push("", Op::LRN, &[&x.name], attributes), dims: x.dims.clone() })
    }
}
