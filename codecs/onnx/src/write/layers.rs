//! Writes layers with weights.

use super::builder::{Builder, Kind, Setting};
use super::ops::{Settings, allow, ints};
use ckpt_api::{Axis, Error, Node, Result, Tensor};
use ckpt_graph::axes;

/// Axes of windows of three, two and one dimensions.
const KERNEL: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];

impl Builder<'_> {
    pub(super) fn gemm(&mut self, node: &Node) -> Result<()> {
        allow(node, &[])?;
        roles(node, &["weight", "bias"])?;
        let (x, rank) = self.input(node)?;
        let (id, weight) = self.required(node, "weight")?;
        let order = axes::order(weight, &[Axis::In, Axis::Out])?;
        let (inputs, outputs) = (len(weight, &order, 0), len(weight, &order, 1));
        if self.kind(&x) != Kind::Real || !weight.dtype.is_float() {
            return Err(Error::unsupported("a layer of integers has no counterpart in ONNX")
                .found(weight.dtype.name()));
        }
        let bias = self.bias(node, outputs)?;
        if rank != Some(2) {
            let weight = self.tensor(id, order, vec![inputs, outputs])?;
            return match bias {
                None => self.finish(node, "MatMul", vec![x, weight], Vec::new(), None),
                Some(bias) => {
                    let product = self.step("MatMul", vec![x, weight], []);
                    self.finish(node, "Add", vec![product, bias], Vec::new(), None)
                }
            };
        }
        // As it is stored: the operator takes both orders.
        let is_turned = order.first() > order.get(1);
        let mut settings: Settings = Vec::new();
        let weight = match is_turned {
            true => {
                settings.push(("transB", Setting::Int(1)));
                let mut turned = order;
                turned.swap(0, 1);
                self.tensor(id, turned, vec![outputs, inputs])?
            }
            false => self.tensor(id, order, vec![inputs, outputs])?,
        };
        let inputs = [Some(x), Some(weight), bias].into_iter().flatten().collect();
        self.finish(node, "Gemm", inputs, settings, None)
    }

    /// The bias of so many outputs, if the layer has one.
    fn bias(&mut self, node: &Node, outputs: u64) -> Result<Option<String>> {
        let Some((id, tensor)) = self.parameter(node, "bias")? else { return Ok(None) };
        let order = axes::order(tensor, &[Axis::Out])?;
        if tensor.shape.elements() != outputs {
            return Err(Error::corrupt("a tensor does not fit the layer")
                .tensor(&tensor.name)
                .found(tensor.shape.to_string())
                .expected(outputs.to_string()));
        }
        self.tensor(id, order, vec![outputs]).map(Some)
    }

    pub(super) fn conv(&mut self, node: &Node) -> Result<()> {
        let names = [
            "strides",
            "pads",
            "dilations",
            "group",
            "auto_pad",
            "kernel_shape",
            "output_padding",
            "output_shape",
        ];
        allow(node, &names)?;
        roles(node, &["weight", "bias"])?;
        let (x, rank) = self.input(node)?;
        let is_transposed = node.op.name() == "ConvTranspose";
        let op = if is_transposed { "ConvTranspose" } else { "Conv" };
        if node.inputs.len() > 1 {
            roles(node, &[])?;
            let inputs = self.inputs(node)?;
            let inputs = self.all_of(inputs, Kind::Real);
            return self.finish(node, op, inputs, ints(node, &names)?, rank);
        }
        let (id, weight) = self.required(node, "weight")?;
        let has = |axis: Axis| weight.axis(axis).is_some();
        let kernel: Vec<Axis> = KERNEL.into_iter().filter(|axis| has(*axis)).collect();
        let mut settings = ints(node, &names)?;
        let (order, dims, outputs) = if has(Axis::Multiplier) && !is_transposed {
            // Each input channel has outputs of its own: a group for each.
            let order = axes::order(weight, &[&[Axis::In, Axis::Multiplier][..], &kernel].concat())?;
            let channels = len(weight, &order, 0);
            let outputs = channels.saturating_mul(len(weight, &order, 1));
            settings.retain(|(name, _)| *name != "group");
            settings.push(("group", Setting::Int(i64::try_from(channels).unwrap_or(i64::MAX))));
            let window = (2..2 + kernel.len()).map(|at| len(weight, &order, at));
            let dims: Vec<u64> = [outputs, 1].into_iter().chain(window).collect();
            (order, dims, outputs)
        } else {
            let first = if is_transposed { [Axis::In, Axis::Out] } else { [Axis::Out, Axis::In] };
            let order = axes::order(weight, &[&first[..], &kernel].concat())?;
            let dims: Vec<u64> = (0..2 + kernel.len()).map(|at| len(weight, &order, at)).collect();
            let group = u64::try_from(node.int("group", 1)?).unwrap_or(1);
            let outputs = if is_transposed {
                len(weight, &order, 1).saturating_mul(group)
            } else {
                len(weight, &order, 0)
            };
            (order, dims, outputs)
        };
        let weight = self.tensor(id, order, dims)?;
        let bias = self.bias(node, outputs)?;
        let inputs = [Some(x), Some(weight), bias].into_iter().flatten().collect();
        self.finish(node, op, inputs, settings, rank)
    }

    pub(super) fn gather(&mut self, node: &Node) -> Result<()> {
        allow(node, &["axis"])?;
        roles(node, &["weight"])?;
        if node.parameters.is_empty() {
            let inputs = self.inputs(node)?;
            let ranks: Vec<Option<usize>> = inputs.iter().map(|input| self.rank(input)).collect();
            let rank = match ranks[..] {
                [Some(data), Some(indices)] => (data + indices).checked_sub(1),
                _ => None,
            };
            self.finish(node, "Gather", inputs, vec![("axis", Setting::Int(node.int("axis", 0)?))], rank)?;
            return self.ranked(node, rank);
        }
        let (indices, rank) = self.input(node)?;
        let (id, weight) = self.required(node, "weight")?;
        let order = axes::order(weight, &[Axis::Feature, Axis::Out])?;
        let dims = vec![len(weight, &order, 0), len(weight, &order, 1)];
        let table = self.tensor(id, order, dims)?;
        let indices = self.all_of(vec![indices], Kind::Int).pop().unwrap_or_default();
        self.finish(node, "Gather", vec![table, indices], vec![("axis", Setting::Int(0))], None)?;
        self.ranked(node, rank.map(|rank| rank + 1))
    }

    /// Sets the rank of the layer's output, or that it is not known.
    fn ranked(&mut self, node: &Node, rank: Option<usize>) -> Result<()> {
        if let Some(output) = node.outputs.first() {
            let name = self.value(output)?;
            self.set_rank(&name, rank);
        }
        Ok(())
    }

    pub(super) fn batch_normalization(&mut self, node: &Node) -> Result<()> {
        allow(node, &["epsilon", "momentum", "training_mode"])?;
        roles(node, &["scale", "bias", "mean", "variance"])?;
        let (x, _) = self.input(node)?;
        let (_, mean) = self.required(node, "mean")?;
        let channels = mean.shape.elements();
        let mut inputs = vec![x];
        for (role, default) in [("scale", 1.0), ("bias", 0.0), ("mean", 0.0), ("variance", 1.0)] {
            inputs.push(self.per_channel(node, role, channels, default)?);
        }
        self.finish(node, "BatchNormalization", inputs, epsilon(node)?, None)
    }

    /// One number for each channel: a tensor, or the default for each.
    fn per_channel(&mut self, node: &Node, role: &str, channels: u64, default: f64) -> Result<String> {
        match self.parameter(node, role)? {
            Some((id, tensor)) => {
                let order = axes::order(tensor, &[Axis::Out])?;
                self.tensor(id, order, vec![tensor.shape.elements()])
            }
            None => {
                let count =
                    usize::try_from(channels).map_err(|_| Error::limit("a layer has too many channels"))?;
                Ok(self.reals(role, &vec![default; count], vec![channels]))
            }
        }
    }

    pub(super) fn normalization(&mut self, node: &Node) -> Result<()> {
        allow(node, &["axis", "epsilon", "stash_type", "num_groups"])?;
        roles(node, &["scale", "bias"])?;
        let (x, _) = self.input(node)?;
        let known = [self.parameter(node, "scale")?, self.parameter(node, "bias")?];
        let channels = known.iter().flatten().map(|(_, tensor)| tensor.shape.elements()).next();
        let channels = channels.ok_or_else(|| {
            Error::unsupported(
                "a normalization without scale and bias is not written to ONNX: it needs one of them",
            )
        })?;
        let scale = self.per_channel(node, "scale", channels, 1.0)?;
        let is_layer = node.op.name() == "LayerNormalization";
        let mut inputs = vec![x, scale];
        if !is_layer || node.parameters.contains_key("bias") {
            inputs.push(self.per_channel(node, "bias", channels, 0.0)?);
        }
        let mut settings = epsilon(node)?;
        settings.extend(ints(node, &["num_groups"])?);
        let op = match node.op.name() {
            "InstanceNormalization" => "InstanceNormalization",
            "GroupNormalization" => "GroupNormalization",
            _ => {
                settings.push(("axis", Setting::Int(node.int("axis", -1)?)));
                "LayerNormalization"
            }
        };
        self.finish(node, op, inputs, settings, None)
    }

    /// `x / √(mean(x²) + epsilon) · scale`, spelled out: ONNX has an operator for it from operator set 23 on.
    pub(super) fn rms_normalization(&mut self, node: &Node) -> Result<()> {
        allow(node, &["axis", "epsilon", "stash_type"])?;
        roles(node, &["scale"])?;
        if node.int("axis", -1)? != -1 {
            return Err(Error::unsupported("a normalization over several axes is not written to ONNX"));
        }
        let (x, _) = self.input(node)?;
        let square = self.step("Mul", vec![x.clone(), x.clone()], []);
        let axes = self.ints("axes", &[-1]);
        let mean = self.step("ReduceMean", vec![square, axes], [("keepdims", Setting::Int(1))]);
        let epsilon = self.real("epsilon", node.float("epsilon", 1e-5)?)?;
        let sum = self.step("Add", vec![mean, epsilon], []);
        let root = self.step("Sqrt", vec![sum], []);
        match self.parameter(node, "scale")? {
            None => self.finish(node, "Div", vec![x, root], Vec::new(), None),
            Some((id, tensor)) => {
                let order = axes::order(tensor, &[Axis::Out])?;
                let scale = self.tensor(id, order, vec![tensor.shape.elements()])?;
                let normalized = self.step("Div", vec![x, root], []);
                self.finish(node, "Mul", vec![normalized, scale], Vec::new(), None)
            }
        }
    }
}

/// The length of the axis that is stored at a place.
pub(super) fn len(tensor: &Tensor, order: &[usize], at: usize) -> u64 {
    order.get(at).and_then(|axis| tensor.shape.get(*axis)).copied().unwrap_or(1)
}

fn epsilon(node: &Node) -> Result<Settings> {
    Ok(vec![("epsilon", Setting::Float(node.float("epsilon", 1e-5)? as f32))])
}

/// Fails for a tensor in a role that the operator has not.
pub(super) fn roles(node: &Node, known: &[&str]) -> Result<()> {
    match node.parameters.keys().find(|role| !known.contains(&role.as_str())) {
        Some(role) => Err(Error::unsupported(format!("{} has a tensor in an unknown role", node.op))
            .found(format!("'{role}'"))),
        None => Ok(()),
    }
}
