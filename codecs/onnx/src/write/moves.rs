//! Writes layers that move elements, and constants.

use super::builder::{Builder, Kind, Setting};
use super::ops::{allow, ints};
use ckpt_api::{Attribute, DType, Error, Node, Result};

impl Builder<'_> {
    /// An axis that is kept is one of length 1 in ONNX.
    pub(super) fn expand(&mut self, node: &Node) -> Result<()> {
        allow(node, &["shape"])?;
        let lacks = || Error::corrupt("the layer lacks its attribute 'shape'");
        let shape: Vec<i64> = node
            .ints("shape")?
            .ok_or_else(lacks)?
            .iter()
            .map(|len| if *len == -1 { 1 } else { *len })
            .collect();
        let (x, own) = self.input(node)?;
        let list = self.ints("shape", &shape);
        self.finish(node, "Expand", vec![x, list], Vec::new(), own.map(|own| own.max(shape.len())))
    }

    pub(super) fn split(&mut self, node: &Node) -> Result<()> {
        allow(node, &["axis", "split"])?;
        let (x, rank) = self.input(node)?;
        let kind = self.kind(&x);
        let mut inputs = vec![x];
        let mut settings = vec![("axis", Setting::Int(node.int("axis", 0)?))];
        match node.ints("split")? {
            Some(lens) => inputs.push(self.ints("split", lens)),
            None => {
                settings.push(("num_outputs", Setting::Int(i64::try_from(node.outputs.len()).unwrap_or(1))))
            }
        }
        let outputs: Vec<String> = node.outputs.iter().map(|output| self.declare(output)).collect();
        self.push("Split", inputs, outputs.clone(), settings);
        for (own, output) in node.outputs.iter().zip(outputs) {
            self.define(own, output, kind, rank);
        }
        Ok(())
    }

    pub(super) fn slice(&mut self, node: &Node) -> Result<()> {
        allow(node, &["starts", "ends", "axes", "steps"])?;
        let lacks = || Error::corrupt("the layer lacks its attribute 'starts'");
        let count = node.ints("starts")?.ok_or_else(lacks)?.len();
        let mut inputs = vec![self.input(node)?.0];
        let all: Vec<i64> = (0..count).filter_map(|axis| i64::try_from(axis).ok()).collect();
        for name in ["starts", "ends", "axes", "steps"] {
            let values = match node.ints(name)? {
                Some(values) => values.to_vec(),
                None if name == "axes" => all.clone(),
                None if name == "steps" => vec![1; count],
                None => return Err(lacks()),
            };
            inputs.push(self.ints(name, &values));
        }
        self.finish(node, "Slice", inputs, Vec::new(), None)
    }

    pub(super) fn pad(&mut self, node: &Node) -> Result<()> {
        allow(node, &["pads", "mode", "value"])?;
        let (x, _) = self.input(node)?;
        let lacks = || Error::corrupt("the layer lacks its attribute 'pads'");
        let pads = node.ints("pads")?.ok_or_else(lacks)?;
        let mode = node.text("mode")?.unwrap_or("constant").to_owned();
        if !["constant", "edge", "reflect", "wrap"].contains(&mode.as_str()) {
            return Err(Error::unsupported("the source does not state with which values it pads").found(mode));
        }
        let list = self.ints("pads", pads);
        let mut inputs = vec![x.clone(), list];
        let value = node.float("value", 0.0)?;
        if value != 0.0 {
            inputs.push(if self.kind(&x) == Kind::Int {
                self.int("value", value as i64)
            } else {
                self.real("value", value)?
            });
        }
        self.finish(node, "Pad", inputs, vec![("mode", Setting::Text(mode))], None)
    }

    pub(super) fn cum_sum(&mut self, node: &Node) -> Result<()> {
        allow(node, &["axis", "exclusive", "reverse"])?;
        let axis = self.int("axis", node.int("axis", 0)?);
        let x = self.input(node)?.0;
        let x = self.numeric(x);
        self.finish(node, "CumSum", vec![x, axis], ints(node, &["exclusive", "reverse"])?, None)
    }

    pub(super) fn trilu(&mut self, node: &Node) -> Result<()> {
        allow(node, &["upper", "k"])?;
        let k = self.int("k", node.int("k", 0)?);
        let x = self.input(node)?.0;
        self.finish(node, "Trilu", vec![x, k], ints(node, &["upper"])?, None)
    }

    pub(super) fn top_k(&mut self, node: &Node) -> Result<()> {
        allow(node, &["k", "axis", "largest", "sorted"])?;
        let k = node.int("k", 1)?;
        let k = self.ints("k", &[k]);
        let (x, rank) = self.input(node)?;
        let x = self.numeric(x);
        let kind = self.kind(&x);
        let settings = ints(node, &["axis", "largest", "sorted"])?;
        let [values, indices] = [0, 1].map(|at| node.outputs.get(at).cloned().unwrap_or_default());
        let outputs: Vec<String> = [&values, &indices]
            .iter()
            .map(|output| if output.is_empty() { self.declare("unused") } else { self.declare(output) })
            .collect();
        self.push("TopK", vec![x, k], outputs.clone(), settings);
        for ((own, output), kind) in [values, indices].into_iter().zip(outputs).zip([kind, Kind::Int]) {
            self.define(&own, output, kind, rank);
        }
        Ok(())
    }

    pub(super) fn resize(&mut self, node: &Node) -> Result<()> {
        allow(node, &["mode", "sizes", "scales", "coordinate_transformation_mode", "nearest_mode"])?;
        let (x, _) = self.input(node)?;
        let settings = ints(node, &["mode", "coordinate_transformation_mode", "nearest_mode"])?;
        let Some(sizes) = node.ints("sizes")? else {
            let lacks = || Error::corrupt("the layer has neither sizes nor scales");
            let scales = node.floats("scales")?.ok_or_else(lacks)?;
            let raw = scales.iter().flat_map(|scale| (*scale as f32).to_le_bytes()).collect();
            let list = self.literal("scales", 1, vec![scales.len() as u64], raw, Kind::Real);
            return self.finish(node, "Resize", vec![x, String::new(), list], settings, None);
        };
        let list = self.sizes(&x, sizes);
        self.finish(node, "Resize", vec![x, String::new(), String::new(), list], settings, None)
    }

    /// A list of lengths, of which negative ones are those of a value. ONNX's `axes` could leave these out, but onnxruntime
    /// 1.32 refuses that beside a Transpose.
    fn sizes(&mut self, x: &str, sizes: &[i64]) -> String {
        let mut parts = Vec::new();
        let mut start = 0;
        for run in sizes.chunk_by(|a, b| (*a < 0) == (*b < 0)) {
            let end = start + run.len();
            parts.push(match run.iter().all(|len| *len < 0) {
                false => self.ints("sizes", run),
                true => {
                    let part = self.declare(&format!("{x}/lengths"));
                    let ends = [("start", start), ("end", end)];
                    let settings =
                        ends.map(|(name, at)| (name, Setting::Int(i64::try_from(at).unwrap_or(i64::MAX))));
                    self.push("Shape", vec![x.to_owned()], vec![part.clone()], settings);
                    part
                }
            });
            start = end;
        }
        if parts.len() > 1 {
            let joined = self.declare(&format!("{x}/sizes"));
            self.push(
                "Concat",
                std::mem::take(&mut parts),
                vec![joined.clone()],
                [("axis", Setting::Int(0))],
            );
            parts.push(joined);
        }
        parts.pop().unwrap_or_default()
    }

    pub(super) fn constant(&mut self, node: &Node) -> Result<()> {
        let own = node.outputs.first().ok_or_else(|| Error::corrupt("the layer lacks its output"))?.clone();
        if let Some((id, tensor)) = self.parameter(node, "value")? {
            let name = self.tensor(id, (0..tensor.shape.rank()).collect(), tensor.shape.to_vec())?;
            let rank = Some(tensor.shape.rank());
            let (name, kind) = match tensor.dtype {
                dtype if dtype.is_float() => (name, Kind::Real),
                DType::I64 => (name, Kind::Int),
                DType::Bool => (name, Kind::Bool),
                _ => (self.cast_to(name, Kind::Int), Kind::Int),
            };
            self.define(&own, name, kind, rank);
            return Ok(());
        }
        let name = match node.attributes.iter().find(|(name, _)| *name != "shape") {
            Some((_, Attribute::Int(value))) => self.int("value", *value),
            Some((_, Attribute::Float(value))) => self.real("value", *value)?,
            Some((_, Attribute::Ints(values))) => {
                let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
                let dims = node.ints("shape")?.map_or_else(|| vec![count], <[i64]>::to_vec);
                let dims: Vec<u64> = dims.iter().filter_map(|dim| u64::try_from(*dim).ok()).collect();
                let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                self.literal("value", 7, dims, raw, Kind::Int)
            }
            Some((_, Attribute::Floats(values))) => {
                let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
                let dims = node.ints("shape")?.map_or_else(|| vec![count], <[i64]>::to_vec);
                let dims = dims.iter().filter_map(|dim| u64::try_from(*dim).ok()).collect();
                self.reals("value", values, dims)
            }
            _ => return Err(Error::corrupt("the layer has no value")),
        };
        let (kind, rank) = (self.kind(&name), self.rank(&name));
        self.define(&own, name, kind, rank);
        Ok(())
    }
}
