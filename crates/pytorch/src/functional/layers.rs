//! Layers with weights.

use super::Emitter;
use super::attributes::truth;
use crate::arguments::{list, named, tuple};
use crate::attributes::{float, int, ints, sizes, text};
use crate::names::{number, string};
use crate::refusal::refuse;
use ckpt_api::{Axis, Node, Op, Result, Tensor};

impl<'g> Emitter<'g> {
    /// The expression of a layer with weights, or of pooling; `None` for another node.
    pub(super) fn layer(&mut self, node: &Node) -> Result<Option<String>> {
        Ok(Some(match &node.op {
            Op::Gemm => self.gemm(node)?,
            Op::Gather if node.parameters.contains_key("weight") => self.embedding(node)?,
            Op::Conv => self.conv(node)?,
            Op::ConvTranspose => self.conv_transpose(node)?,
            Op::MaxPool | Op::AveragePool => self.pool(node)?,
            Op::GlobalAveragePool => self.over_sides(node, "mean")?,
            Op::GlobalMaxPool => self.over_sides(node, "amax")?,
            Op::BatchNormalization => {
                let [mean, variance, scale, bias] =
                    self.roles(node, ["mean", "variance", "scale", "bias"])?;
                let epsilon = number(float(node, "epsilon", 1e-5)?);
                let x = self.input(node, 0)?;
                format!("F.batch_norm({x}, {mean}, {variance}, {scale}, {bias}, False, 0.0, {epsilon})")
            }
            Op::LayerNormalization | Op::RMSNormalization => self.layer_norm(node)?,
            Op::GroupNormalization | Op::InstanceNormalization => {
                let [scale, bias] = self.roles(node, ["scale", "bias"])?;
                let (x, epsilon) = (self.input(node, 0)?, number(float(node, "epsilon", 1e-5)?));
                let groups = match node.op {
                    Op::GroupNormalization => int(node, "num_groups", 1)?.to_string(),
                    _ => format!("{x}.shape[1]"),
                };
                format!("F.group_norm({x}, {groups}, {scale}, {bias}, {epsilon})")
            }
            Op::LRN => {
                let size = int(node, "size", 1)?;
                if size % 2 == 0 {
                    return Err(refuse(
                        node,
                        "takes an even number of channels, which PyTorch places otherwise",
                    ));
                }
                let [alpha, beta, bias] = [("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)]
                    .map(|(name, default)| float(node, name, default).map(number));
                format!(
                    "F.local_response_norm({}, {size}, {}, {}, {})",
                    self.input(node, 0)?,
                    alpha?,
                    beta?,
                    bias?
                )
            }
            Op::LpNormalization => {
                let (p, axis) = (int(node, "p", 2)?, int(node, "axis", -1)?);
                format!("F.normalize({}, {p}.0, {axis})", self.input(node, 0)?)
            }
            _ => return Ok(None),
        }))
    }

    /// The tensors in roles; `None` of Python for those that the node lacks.
    fn roles<const N: usize>(&mut self, node: &Node, roles: [&str; N]) -> Result<[String; N]> {
        let mut found = roles.map(|_| "None".to_owned());
        for (found, role) in found.iter_mut().zip(roles) {
            if let Some(tensor) = self.tensor(node, role)? {
                *found = self.read(tensor)?;
            }
        }
        Ok(found)
    }

    fn required(&self, node: &Node, role: &str) -> Result<&'g Tensor> {
        self.tensor(node, role)?.ok_or_else(|| refuse(node, &format!("has no tensor for its {role}")))
    }

    /// A weight with its axes in this order.
    fn ordered_as(&mut self, node: &Node, role: &str, wanted: &[Axis]) -> Result<(String, Vec<u64>)> {
        let tensor = self.required(node, role)?;
        let order: Option<Vec<usize>> = wanted.iter().map(|axis| tensor.axis(*axis)).collect();
        let order = order.filter(|order| order.len() == tensor.shape.rank());
        let order = order.ok_or_else(|| refuse(node, &format!("has a {role} of other axes")))?;
        let lens = order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).collect();
        let read = self.read(tensor)?;
        let is_same = order.iter().enumerate().all(|(at, axis)| at == *axis);
        let order: Vec<String> = order.iter().map(usize::to_string).collect();
        Ok((if is_same { read } else { format!("{read}.permute({})", order.join(", ")) }, lens))
    }

    /// The path of a module of these tensors, whose names are those that PyTorch gives them; `None` if they are others.
    fn module(&mut self, node: &Node, made: &str) -> Option<String> {
        let weight = self.tensors.get(node.parameters.get("weight")?)?;
        let path = self.keys.get(&weight.name)?.strip_suffix(".weight")?.to_owned();
        let bias = format!("{path}.bias");
        // A bias that another node adds would be added twice.
        let is_own = match node.parameters.get("bias") {
            Some(own) => self.keys.get(own)? == bias,
            None => self.tensors.get(&bias).is_none(),
        };
        is_own.then_some(())?;
        match self.places.get(&path).and_then(|place| self.modules.get(*place)) {
            Some((_, own)) => (own == made).then_some(path),
            None => {
                self.places.insert(path.clone(), self.modules.len());
                self.modules.push((path.clone(), made.to_owned()));
                self.owned.insert(format!("{path}.weight"));
                if node.parameters.contains_key("bias") {
                    self.owned.insert(bias);
                }
                Some(path)
            }
        }
    }

    fn module_or(
        &mut self,
        node: &Node,
        made: &str,
        function: impl FnOnce(&mut Self) -> Result<String>,
    ) -> Result<String> {
        match self.module(node, made) {
            Some(path) => Ok(format!("self.get_submodule({})({})", string(&path), self.input(node, 0)?)),
            None => function(self),
        }
    }

    fn gemm(&mut self, node: &Node) -> Result<String> {
        let weight = self.required(node, "weight")?;
        let has_bias = truth(node.parameters.contains_key("bias"));
        let lens = [Axis::In, Axis::Out]
            .map(|axis| weight.axis(axis).and_then(|axis| weight.shape.get(axis)).copied());
        let is_module =
            weight.axes.as_deref() == Some(&[Axis::Out, Axis::In]) && weight.dtype == ckpt_api::DType::F32;
        let function = |emitter: &mut Self| {
            let (read, _) = emitter.ordered_as(node, "weight", &[Axis::Out, Axis::In])?;
            let [bias] = emitter.roles(node, ["bias"])?;
            Ok(format!("F.linear({}, {read}, {bias})", emitter.input(node, 0)?))
        };
        match (lens, is_module) {
            ([Some(input), Some(output)], true) => {
                self.module_or(node, &format!("nn.Linear({input}, {output}, bias={has_bias})"), function)
            }
            _ => function(self),
        }
    }

    fn embedding(&mut self, node: &Node) -> Result<String> {
        let (read, lens) = self.ordered_as(node, "weight", &[Axis::Feature, Axis::Out])?;
        let rows = lens.first().copied().unwrap_or(0);
        let places = self.input(node, 0)?;
        Ok(format!("F.embedding(torch.where({places} < 0, {places} + {rows}, {places}).long(), {read})"))
    }

    /// A kernel, with its axes in PyTorch's order; the lengths of its sides, and the number of groups.
    fn kernel(&mut self, node: &Node, axes: [Axis; 2]) -> Result<(String, Vec<u64>, i64)> {
        let groups = int(node, "group", 1)?;
        let weight = self.required(node, "weight")?;
        let sides: Vec<Axis> = [Axis::KernelZ, Axis::KernelY, Axis::KernelX]
            .into_iter()
            .filter(|axis| weight.axis(*axis).is_some())
            .collect();
        if weight.axis(Axis::Multiplier).is_some() && node.op == Op::Conv {
            let (read, lens) =
                self.ordered_as(node, "weight", &[&[Axis::In, Axis::Multiplier], &sides[..]].concat())?;
            let groups = lens.first().and_then(|len| i64::try_from(*len).ok()).unwrap_or(1);
            return Ok((
                format!("{read}.flatten(0, 1).unsqueeze(1)"),
                lens.get(2..).unwrap_or_default().to_vec(),
                groups,
            ));
        }
        let (read, lens) = self.ordered_as(node, "weight", &[&axes, &sides[..]].concat())?;
        Ok((read, lens.get(2..).unwrap_or_default().to_vec(), groups))
    }

    fn conv(&mut self, node: &Node) -> Result<String> {
        let x = self.input(node, 0)?;
        if !node.parameters.contains_key("weight") {
            let (weight, bias) =
                (self.input(node, 1)?, self.variable(node.inputs.get(2).map_or("", String::as_str))?);
            let pads = ints(node, "pads")?.unwrap_or_default();
            if text(node, "auto_pad", "NOTSET")?.starts_with("SAME")
                || pads.is_empty() && node.attributes.contains_key("pads")
            {
                return Err(refuse(
                    node,
                    "has a kernel that is computed, and a padding that follows from it",
                ));
            }
            let call = self.convolved(node, x, &weight, &bias, None, int(node, "group", 1)?)?;
            return Ok(call);
        }
        let weight = self.required(node, "weight")?;
        let (own, f32) = (weight.axes.clone(), weight.dtype == ckpt_api::DType::F32);
        let (read, kernel, groups) = self.kernel(node, [Axis::Out, Axis::In])?;
        let kernel: Vec<i64> = kernel.iter().filter_map(|len| i64::try_from(*len).ok()).collect();
        let sides = kernel.len();
        let pads = sizes(node, "pads", sides * 2, 0, 0)?;
        let (begins, ends) = pads.split_at(sides);
        let auto = text(node, "auto_pad", "NOTSET")?;
        let is_plain = begins == ends
            && matches!(auto, "NOTSET" | "VALID")
            && matches!(own.as_deref(), Some([Axis::Out, Axis::In, ..]));
        let weight = self.required(node, "weight")?;
        let lens: Vec<u64> = weight.shape.iter().copied().take(2).collect();
        if let ([outputs, inputs], true, true) = (&lens[..], is_plain, f32) {
            let inputs = inputs.saturating_mul(u64::try_from(groups).unwrap_or(1));
            let mut arguments = vec![inputs.to_string(), outputs.to_string(), tuple(&kernel)];
            arguments.extend(named("stride", &sizes(node, "strides", sides, 1, 1)?, 1));
            arguments.extend(named("padding", begins, 0));
            arguments.extend(named("dilation", &sizes(node, "dilations", sides, 1, 1)?, 1));
            arguments.push(format!("groups={groups}, bias={}", truth(node.parameters.contains_key("bias"))));
            let made = format!("nn.Conv{sides}d({})", arguments.join(", "));
            if let Some(path) = self.module(node, &made) {
                return Ok(format!("self.get_submodule({})({x})", string(&path)));
            }
        }
        let [bias] = self.roles(node, ["bias"])?;
        self.convolved(node, x, &read, &bias, Some(kernel), groups)
    }

    /// A convolution as a function; the sides are padded before it if they differ.
    fn convolved(
        &mut self,
        node: &Node,
        x: String,
        weight: &str,
        bias: &str,
        kernel: Option<Vec<i64>>,
        groups: i64,
    ) -> Result<String> {
        let stated =
            ["kernel_shape", "strides", "dilations"].iter().find_map(|name| ints(node, name).ok().flatten());
        let sides = kernel.as_ref().map(Vec::len).or(stated.map(<[i64]>::len));
        let sides = sides.or(ints(node, "pads")?.map(|pads| pads.len() / 2));
        let sides = sides.ok_or_else(|| refuse(node, "has a kernel whose number of sides is not stated"))?;
        let (strides, dilations) =
            (sizes(node, "strides", sides, 1, 1)?, sizes(node, "dilations", sides, 1, 1)?);
        let (x, padding) = self.sides_padded(node, x, kernel.as_deref(), sides, "0.0")?;
        Ok(format!(
            "F.conv{sides}d({x}, {weight}, {bias}, {}, {}, {}, {groups})",
            list(&strides),
            list(&padding),
            list(&dilations)
        ))
    }

    /// A value padded where the sides differ, and what is left to pad on both ends of each side.
    fn sides_padded(
        &mut self,
        node: &Node,
        x: String,
        kernel: Option<&[i64]>,
        sides: usize,
        fill: &str,
    ) -> Result<(String, Vec<i64>)> {
        match (text(node, "auto_pad", "NOTSET")?, kernel) {
            (same @ ("SAME_UPPER" | "SAME_LOWER"), Some(kernel)) => {
                let (strides, dilations) =
                    (sizes(node, "strides", sides, 1, 1)?, sizes(node, "dilations", sides, 1, 1)?);
                let lower = truth(same == "SAME_LOWER");
                let arguments = [x, list(kernel), list(&strides), list(&dilations), lower, fill.to_owned()];
                Ok((self.call("same", &arguments), vec![0; sides]))
            }
            ("NOTSET" | "" | "VALID", _) => {
                let pads = match text(node, "auto_pad", "NOTSET")? {
                    "VALID" => vec![0; sides * 2],
                    _ => sizes(node, "pads", sides * 2, 0, 0)?,
                };
                let (begins, ends) = pads.split_at(sides);
                if begins == ends && fill == "0.0" {
                    return Ok((x, begins.to_vec()));
                }
                let flat: Vec<i64> =
                    begins.iter().zip(ends).rev().flat_map(|(begin, end)| [*begin, *end]).collect();
                Ok((format!("F.pad({x}, {}, value={fill})", list(&flat)), vec![0; sides]))
            }
            _ => Err(refuse(node, "pads in a way that is not known")),
        }
    }

    fn conv_transpose(&mut self, node: &Node) -> Result<String> {
        if !node.parameters.contains_key("weight") || ints(node, "output_shape")?.is_some() {
            return Err(refuse(node, "has a kernel that is computed, or states the size of its result"));
        }
        let (weight, kernel, groups) = self.kernel(node, [Axis::In, Axis::Out])?;
        let sides = kernel.len();
        if !matches!(text(node, "auto_pad", "NOTSET")?, "NOTSET" | "VALID" | "") {
            return Err(refuse(node, "pads in a way that follows from the size of its input"));
        }
        let pads = sizes(node, "pads", sides * 2, 0, 0)?;
        let (begins, ends) = pads.split_at(sides);
        let (strides, dilations) =
            (sizes(node, "strides", sides, 1, 1)?, sizes(node, "dilations", sides, 1, 1)?);
        let added = sizes(node, "output_padding", sides, 0, 0)?;
        let [bias] = self.roles(node, ["bias"])?;
        let x = self.input(node, 0)?;
        let call = |padding: &[i64]| {
            let lists = [list(&strides), list(padding), list(&added)].join(", ");
            format!(
                "F.conv_transpose{sides}d({x}, {weight}, {bias}, {lists}, {groups}, {})",
                list(&dilations)
            )
        };
        if begins == ends {
            return Ok(call(begins));
        }
        let whole = call(&vec![0; sides]);
        let flat: Vec<i64> = begins.iter().zip(ends).rev().flat_map(|(begin, end)| [-begin, -end]).collect();
        Ok(format!("F.pad({whole}, {})", list(&flat)))
    }

    fn pool(&mut self, node: &Node) -> Result<String> {
        let kernel = ints(node, "kernel_shape")?.ok_or_else(|| refuse(node, "has no window"))?.to_vec();
        let sides = kernel.len();
        let strides = sizes(node, "strides", sides, 1, 1)?;
        let dilations = sizes(node, "dilations", sides, 1, 1)?;
        let up = truth(int(node, "ceil_mode", 0)? != 0);
        let x = self.input(node, 0)?;
        let pads = sizes(node, "pads", sides * 2, 0, 0)?;
        let (begins, ends) = pads.split_at(sides);
        // Padding that PyTorch's functions take: a window never begins within the one behind.
        let is_plain = matches!(text(node, "auto_pad", "NOTSET")?, "NOTSET" | "")
            && begins == ends
            && begins.iter().zip(&kernel).all(|(pad, len)| pad.saturating_mul(2) <= *len);
        if !is_plain && up == "True" && pads.iter().any(|pad| *pad != 0) {
            return Err(refuse(node, "rounds up sides that are padded unevenly"));
        }
        if is_plain && node.op == Op::MaxPool {
            return Ok(format!(
                "F.max_pool{sides}d({x}, {}, {}, {}, {}, {up})",
                list(&kernel),
                list(&strides),
                list(begins),
                list(&dilations)
            ));
        }
        if node.op == Op::MaxPool {
            let (x, _) = self.sides_padded(node, x, Some(&kernel), sides, "float(\"-inf\")")?;
            return Ok(format!(
                "F.max_pool{sides}d({x}, {}, {}, 0, {}, {up})",
                list(&kernel),
                list(&strides),
                list(&dilations)
            ));
        }
        let counts = truth(int(node, "count_include_pad", 0)? != 0);
        if dilations.iter().any(|dilation| *dilation != 1) {
            return Err(refuse(node, "takes the mean over places that are not side by side"));
        }
        if is_plain {
            let (kernel, strides, pads) = (list(&kernel), list(&strides), list(begins));
            return Ok(format!("F.avg_pool{sides}d({x}, {kernel}, {strides}, {pads}, {up}, {counts})"));
        }
        match text(node, "auto_pad", "NOTSET")? {
            "NOTSET" | "" => {
                let arguments = [x, list(&kernel), list(&strides), list(&pads), up, counts];
                Ok(self.call("mean_pooled", &arguments))
            }
            "VALID" => Ok(format!("F.avg_pool{sides}d({x}, {}, {}, 0, {up})", list(&kernel), list(&strides))),
            _ => {
                let (sums, _) = self.sides_padded(node, x.clone(), Some(&kernel), sides, "0.0")?;
                let pooled =
                    |x: &str| format!("F.avg_pool{sides}d({x}, {}, {})", list(&kernel), list(&strides));
                let sums = pooled(&sums);
                if counts == "True" {
                    return Ok(sums);
                }
                let (ones, _) =
                    self.sides_padded(node, format!("torch.ones_like({x})"), Some(&kernel), sides, "0.0")?;
                Ok(format!("{sums} / {}", pooled(&ones)))
            }
        }
    }

    /// A number for each channel of a whole image.
    fn over_sides(&mut self, node: &Node, function: &str) -> Result<String> {
        let x = self.input(node, 0)?;
        Ok(format!("{x}.{function}(tuple(range(2, {x}.dim())), keepdim=True)"))
    }

    fn layer_norm(&mut self, node: &Node) -> Result<String> {
        let (x, axis) = (self.input(node, 0)?, int(node, "axis", -1)?);
        let epsilon = number(float(node, "epsilon", 1e-5)?);
        let [scale, bias] = self.roles(node, ["scale", "bias"])?;
        let mut made = match node.op {
            Op::LayerNormalization => format!("F.layer_norm({x}, {x}.shape[{axis}:], None, None, {epsilon})"),
            _ => format!(
                "{x} * torch.rsqrt({x}.square().mean(tuple(range({axis} % {x}.dim(), {x}.dim())), keepdim=True) + {epsilon})"
            ),
        };
        if scale != "None" {
            made = format!("{made} * {scale}");
        }
        Ok(if bias == "None" { made } else { format!("{made} + {bias}") })
    }
}
