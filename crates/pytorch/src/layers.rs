//! Layers with weights as modules.

use super::arguments::{list, named, tuple};
use super::attributes::{float, int, ints, text};
use super::names::number;
use super::program::{Made, Module, ValueId, Weight};
use super::refusal::refuse;
use super::tensors::window_axes;
use super::translate::{Flattened, Translator};
use super::window::{Window, padding};
use ckpt_api::{Axis, Loss, LossKind, Node, Result, Tensor};
use ckpt_engine::recipe::{AxisStep, FlattenedImage, Length, Reshape};

/// Keras's momentum of a batch normalization, where a graph does not state it.
const KERAS_MOMENTUM: f64 = 0.99;

impl<'g> Translator<'g> {
    /// A dense layer: `nn.Linear`.
    pub(super) fn linear(&mut self, node: &'g Node) -> Result<()> {
        let weight = self.tensor(node, "weight")?;
        let (input, output) = match weight.axes.as_deref() {
            Some([Axis::In, Axis::Out]) => (0, 1),
            Some([Axis::Out, Axis::In]) => (1, 0),
            _ => return Err(no_axes(node, weight)),
        };
        let lens = [weight.shape.get(input), weight.shape.get(output)].map(|len| len.copied().unwrap_or(0));
        let mut steps = self.flatten_steps(node, Some(input));
        if input == 0 {
            steps.push(AxisStep::Transpose);
        }
        let mut weights = vec![Weight::one(&weight.name, "weight", steps)];
        let has_bias = self.bias(node, &mut weights)?;
        let x = self.input(node, 0)?;
        self.apply(node, linear(&node.name, lens, has_bias, weights), x);
        Ok(())
    }

    /// A product with a tensor of any axes, of which the first ones are summed over: `nn.Linear`.
    pub(super) fn projection(&mut self, node: &'g Node) -> Result<()> {
        let weight = self.tensor(node, "weight")?;
        let (steps, lens) = projection(node, weight)?;
        let mut weights = vec![Weight::one(&weight.name, "weight", steps)];
        let has_bias = self.bias(node, &mut weights)?;
        let x = self.input(node, 0)?;
        self.apply(node, linear(&node.name, lens, has_bias, weights), x);
        Ok(())
    }

    /// Adds the bias of a node, if it has one.
    pub(super) fn bias(&self, node: &Node, weights: &mut Vec<Weight>) -> Result<bool> {
        if !node.parameters.contains_key("bias") {
            return Ok(false);
        }
        let bias = self.tensor(node, "bias")?;
        weights.push(Weight::one(&bias.name, "bias", vector_steps(bias)));
        Ok(true)
    }

    /// The step that brings an axis to the order in which the module's input is flattened.
    pub(super) fn flatten_steps(&self, node: &Node, axis: Option<usize>) -> Vec<AxisStep> {
        let flattened = node.inputs.first().and_then(|input| self.flattened.get(input.as_str()));
        let step = |Flattened { pixels, channels }: &Flattened| {
            AxisStep::FlattenOrder(FlattenedImage::new(vec![*pixels, *channels], axis))
        };
        flattened.map(step).into_iter().collect()
    }

    /// A convolution of any number of sides, of groups or depthwise: `nn.Conv2d` and the like.
    pub(super) fn conv(&mut self, node: &'g Node) -> Result<()> {
        let weight = self.tensor(node, "weight")?;
        let kernel = kernel(node, weight)?;
        let sides = kernel.len();
        let window = Window::of(node, &kernel)?;
        let input = weight.axis(Axis::In).ok_or_else(|| no_axes(node, weight))?;
        let len = |axis: usize| weight.shape.get(axis).copied().unwrap_or(0);
        let mut groups = u64::try_from(int(node, "group", 1)?).unwrap_or(1);
        let (mut steps, channels, outputs) = match (weight.axis(Axis::Out), weight.axis(Axis::Multiplier)) {
            (Some(out), _) => (permute(weight, &[out, input]), len(input).saturating_mul(groups), len(out)),
            (None, Some(each)) => {
                groups = len(input);
                let outputs = len(input).saturating_mul(len(each));
                let mut steps = permute(weight, &[input, each]);
                steps.push(reshape(&[len(input), len(each)], &[outputs, 1], 0));
                (steps, len(input), outputs)
            }
            _ => return Err(no_axes(node, weight)),
        };
        steps.retain(|step| !is_nothing(step));
        let mut weights = vec![Weight::one(&weight.name, "weight", steps)];
        let has_bias = self.bias(node, &mut weights)?;
        let x = self.input(node, 0)?;
        let (x, pads) = self.padded(node, &window, x, "0")?;
        let mut arguments =
            vec![channels.to_string(), outputs.to_string(), format!("kernel_size={}", tuple(&kernel))];
        arguments.extend(named("stride", &window.strides, 1));
        arguments.extend(named("padding", &pads, 0));
        arguments.extend(named("dilation", &window.dilations, 1));
        arguments.extend((groups != 1).then(|| format!("groups={groups}")));
        arguments.extend((!has_bias).then(|| "bias=False".to_owned()));
        let made = Made::Call(format!("nn.Conv{sides}d({})", arguments.join(", ")));
        let layer = self.conv_name(node, weight);
        self.apply(node, Module { layer, made, weights, missing: Vec::new() }, x);
        Ok(())
    }

    /// The name of a convolution: its layer's, with what it is in a separable one.
    fn conv_name(&self, node: &Node, weight: &Tensor) -> String {
        let (scope, own) = super::layer_names::split(&weight.name);
        let has = |name: &str| self.tensors.get(&format!("{scope}/{name}")).is_some();
        let plain = || node.name.split('#').next().unwrap_or_default();
        match own {
            "depthwise_kernel" if has("pointwise_kernel") => format!("{}_depthwise", plain()),
            "pointwise_kernel" if has("depthwise_kernel") => format!("{}_pointwise", plain()),
            _ => node.name.clone(),
        }
    }

    /// A value as a module's window needs it: padded by a statement where the sides differ. Returns what is left to the
    /// module to pad.
    pub(super) fn padded(
        &mut self,
        node: &Node,
        window: &Window,
        x: ValueId,
        fill: &str,
    ) -> Result<(ValueId, Vec<i64>)> {
        let none = vec![0; window.kernel.len()];
        let lens =
            node.inputs.first().and_then(|input| self.shapes.get(input)).and_then(|dims| dims.get(2..));
        let lens = lens.map(<[Option<u64>]>::to_vec).unwrap_or_default();
        let value = if fill == "0" { String::new() } else { format!(", value={fill}") };
        let Some(pads) = padding(node, window, &lens)? else {
            self.program.pads_same = true;
            self.convention(
                node,
                "its padding depends on the size of its input, as 'same' of Keras with strides does",
            );
            let reach: Vec<i64> = (0..window.kernel.len()).filter_map(|side| window.reach(side)).collect();
            let lower = text(node, "auto_pad", "")? == "SAME_LOWER";
            let lower = if lower { ", lower=True" } else { "" };
            let call = format!("pad_same({{}}, {}, {}{lower}{value})", list(&reach), list(&window.strides));
            let padded = self.program.assign(&node.name, super::program::pieces(&call, &[x]));
            return Ok((padded, none));
        };
        if pads.iter().all(|(begin, end)| begin == end) {
            return Ok((x, pads.into_iter().map(|(begin, _)| begin).collect()));
        }
        let why = format!(
            "it pads {} before and behind each side, which no 'padding' of PyTorch states",
            show(&pads)
        );
        self.convention(node, &why);
        let flat: Vec<String> =
            pads.iter().rev().flat_map(|(begin, end)| [begin.to_string(), end.to_string()]).collect();
        let call = format!("F.pad({{}}, ({}){value})", flat.join(", "));
        let module = format!("nn.ConstantPad{}d(({}), {fill})", window.kernel.len(), flat.join(", "));
        let padded = self.program.assign_as(&node.name, x, super::program::pieces(&call, &[x]), module);
        Ok((padded, none))
    }

    /// Remarks what a module alone cannot state.
    pub(super) fn convention(&mut self, node: &Node, why: &str) {
        self.remarks.conventions.push(Loss::new(LossKind::Convention, &node.name, why));
    }

    /// A transposed convolution: `nn.ConvTranspose2d` and the like.
    pub(super) fn conv_transpose(&mut self, node: &'g Node) -> Result<()> {
        let weight = self.tensor(node, "weight")?;
        let kernel = kernel(node, weight)?;
        let sides = kernel.len();
        let window = Window::of(node, &kernel)?;
        let axes = weight.axis(Axis::In).zip(weight.axis(Axis::Out));
        let (input, output) = axes.ok_or_else(|| no_axes(node, weight))?;
        let len = |axis: usize| weight.shape.get(axis).copied().unwrap_or(0);
        let groups = u64::try_from(int(node, "group", 1)?).unwrap_or(1);
        if ints(node, "output_shape")?.is_some() {
            return Err(refuse(node, "states the size of its result, which PyTorch's module does not"));
        }
        let mut steps = permute(weight, &[input, output]);
        steps.retain(|step| !is_nothing(step));
        let mut weights = vec![Weight::one(&weight.name, "weight", steps)];
        let has_bias = self.bias(node, &mut weights)?;
        let cuts = cuts(node, &window)?;
        let paddings: Vec<i64> = cuts.iter().map(|cut| cut.padding).collect();
        let added: Vec<i64> = cuts.iter().map(|cut| cut.added).collect();
        let channels = len(output).saturating_mul(groups);
        let mut arguments =
            vec![len(input).to_string(), channels.to_string(), format!("kernel_size={}", tuple(&kernel))];
        arguments.extend(named("stride", &window.strides, 1));
        arguments.extend(named("padding", &paddings, 0));
        arguments.extend(named("output_padding", &added, 0));
        arguments.extend((groups != 1).then(|| format!("groups={groups}")));
        arguments.extend((!has_bias).then(|| "bias=False".to_owned()));
        arguments.extend(named("dilation", &window.dilations, 1));
        let made = Made::Call(format!("nn.ConvTranspose{sides}d({})", arguments.join(", ")));
        let x = self.input(node, 0)?;
        let module = Module { layer: node.name.clone(), made, weights, missing: Vec::new() };
        let value = self.apply(node, module, x);
        if cuts.iter().any(|cut| cut.begin != 0 || cut.end != 0) {
            let why = "its result is cut by another length before than behind, which no 'padding' of PyTorch states";
            self.convention(node, why);
            let slices: Vec<String> = cuts.iter().map(Cut::slice).collect();
            self.put_expression(node, &format!("{{}}[:, :, {}]", slices.join(", ")), &[value]);
        }
        Ok(())
    }

    /// A normalization by stored statistics: `nn.BatchNorm2d` and the like.
    pub(super) fn batch_norm(&mut self, node: &'g Node) -> Result<()> {
        let mean = self.tensor(node, "mean")?;
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input));
        let class = match rank {
            Some(2 | 3) => 1,
            Some(4) => 2,
            Some(5) => 3,
            _ => {
                return Err(refuse(
                    node,
                    "takes a value whose number of axes is not known, or not from 2 to 5",
                ));
            }
        };
        let epsilon = float(node, "epsilon", 1e-5)?;
        let momentum = match node.attributes.contains_key("momentum") {
            true => float(node, "momentum", 0.9)?,
            false => KERAS_MOMENTUM,
        };
        let channels = mean.shape.elements();
        // 1 − 0.99 is 0.010000000000000009 in binary.
        let momentum = ((1.0 - momentum) * 1e9).round() / 1e9;
        self.setting(
            node,
            &format!("eps={}, momentum={}", number(epsilon), number(momentum)),
            "1e-5 and 0.1",
        );
        let roles =
            [("scale", "weight"), ("bias", "bias"), ("mean", "running_mean"), ("variance", "running_var")];
        let (weights, missing) = self.vectors(node, &roles)?;
        let mut arguments = vec![
            channels.to_string(),
            format!("eps={}", number(epsilon)),
            format!("momentum={}", number(momentum)),
        ];
        let missing = without_affine(&mut arguments, missing, "affine=False");
        let made = Made::Call(format!("nn.BatchNorm{class}d({})", arguments.join(", ")));
        let x = self.input(node, 0)?;
        self.apply(node, Module { layer: node.name.clone(), made, weights, missing }, x);
        self.keep_order(node);
        Ok(())
    }

    /// A normalization over the last axes: `nn.LayerNorm` or `nn.RMSNorm`.
    pub(super) fn layer_norm(&mut self, node: &'g Node) -> Result<()> {
        let is_rms = node.op == ckpt_api::Op::RMSNormalization;
        let rank = node.inputs.first().and_then(|input| self.shapes.rank(input));
        let axis = int(node, "axis", -1)?;
        let axis = rank.and_then(|rank| ckpt_graph::shape::resolve(axis, rank)).zip(rank);
        let dims = node.inputs.first().and_then(|input| self.shapes.get(input));
        let lens: Option<Vec<u64>> =
            axis.zip(dims).and_then(|((axis, _), dims)| dims.get(axis..)?.iter().copied().collect());
        let stated = node.parameters.get("scale").or(node.parameters.get("bias"));
        let stated = stated.and_then(|name| self.tensors.shape(name)).map(|shape| shape.to_vec());
        let lens = match (lens, stated) {
            (Some(lens), Some(stated)) if lens != stated => {
                return Err(refuse(
                    node,
                    "normalizes other axes than its scale has, which PyTorch's module cannot",
                ));
            }
            (None, None) => return Err(refuse(node, "normalizes an axis whose length is not known")),
            (lens, stated) => stated.or(lens).unwrap_or_default(),
        };
        let lens = match &lens[..] {
            [one] => one.to_string(),
            several => format!("({})", several.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let epsilon = float(node, "epsilon", 1e-5)?;
        self.setting(node, &format!("eps={}", number(epsilon)), "1e-5");
        let roles: &[(&str, &'static str)] =
            if is_rms { &[("scale", "weight")] } else { &[("scale", "weight"), ("bias", "bias")] };
        let (weights, missing) = self.vectors(node, roles)?;
        let mut arguments = vec![lens, format!("eps={}", number(epsilon))];
        let missing = match (&missing[..], is_rms) {
            (["weight"], true) => {
                without_affine(&mut arguments, vec!["weight", "bias"], "elementwise_affine=False")
            }
            _ => without_affine(&mut arguments, missing, "elementwise_affine=False"),
        };
        let class = if is_rms { "RMSNorm" } else { "LayerNorm" };
        let made = Made::Call(format!("nn.{class}({})", arguments.join(", ")));
        let x = self.input(node, 0)?;
        self.apply(node, Module { layer: node.name.clone(), made, weights, missing }, x);
        self.keep_order(node);
        Ok(())
    }

    /// A normalization of groups of channels: `nn.GroupNorm`.
    pub(super) fn group_norm(&mut self, node: &'g Node) -> Result<()> {
        let dims = node.inputs.first().and_then(|input| self.shapes.get(input));
        let of_input = dims.and_then(|dims| dims.get(1).copied().flatten());
        let stated = node.parameters.get("scale").or(node.parameters.get("bias"));
        let channels =
            stated.and_then(|name| self.tensors.shape(name)).map(|shape| shape.elements()).or(of_input);
        let channels =
            channels.ok_or_else(|| refuse(node, "normalizes channels whose number is not known"))?;
        let groups = match node.op {
            ckpt_api::Op::InstanceNormalization => channels,
            _ => u64::try_from(int(node, "num_groups", 1)?).unwrap_or(1),
        };
        let epsilon = float(node, "epsilon", 1e-5)?;
        self.setting(node, &format!("eps={}", number(epsilon)), "1e-5");
        let (weights, missing) = self.vectors(node, &[("scale", "weight"), ("bias", "bias")])?;
        let mut arguments =
            vec![groups.to_string(), channels.to_string(), format!("eps={}", number(epsilon))];
        let missing = without_affine(&mut arguments, missing, "affine=False");
        let made = Made::Call(format!("nn.GroupNorm({})", arguments.join(", ")));
        let x = self.input(node, 0)?;
        self.apply(node, Module { layer: node.name.clone(), made, weights, missing }, x);
        Ok(())
    }

    /// Rows of a table: `nn.Embedding`.
    pub(super) fn embedding(&mut self, node: &'g Node) -> Result<()> {
        let weight = self.tensor(node, "weight")?;
        let axes = weight.axis(Axis::Feature).zip(weight.axis(Axis::Out));
        let (rows, output) =
            axes.filter(|_| weight.shape.rank() == 2).ok_or_else(|| no_axes(node, weight))?;
        let len = |axis: usize| weight.shape.get(axis).copied().unwrap_or(0);
        let steps = if rows == 0 { Vec::new() } else { vec![AxisStep::Transpose] };
        let made = Made::Call(format!("nn.Embedding({}, {})", len(rows), len(output)));
        let weights = vec![Weight::one(&weight.name, "weight", steps)];
        let x = self.input(node, 0)?;
        let module =
            self.program.module(Module { layer: node.name.clone(), made, weights, missing: Vec::new() });
        let call = [vec![super::program::Piece::Module(module)], super::program::pieces("({}.long())", &[x])]
            .concat();
        let value = self.program.assign(&node.name, call);
        self.put(node, value);
        Ok(())
    }

    /// The vectors of these roles, by their names in a module, and the names of those that the node lacks.
    fn vectors(
        &self,
        node: &Node,
        roles: &[(&str, &'static str)],
    ) -> Result<(Vec<Weight>, Vec<&'static str>)> {
        let (mut weights, mut missing) = (Vec::new(), Vec::new());
        for (role, target) in roles {
            if !node.parameters.contains_key(*role) {
                missing.push(*target);
                continue;
            }
            let tensor = self.tensor(node, role)?;
            let steps = self.flatten_steps(node, Some(0));
            weights.push(Weight::one(&tensor.name, target, steps));
        }
        Ok((weights, missing))
    }

    /// A node's result has its elements in the order of its input.
    pub(super) fn keep_order(&mut self, node: &'g Node) {
        let flattened = node.inputs.first().and_then(|input| self.flattened.get(input.as_str())).copied();
        if let (Some(flattened), Some(output)) = (flattened, node.outputs.first()) {
            self.flattened.insert(output, flattened);
        }
    }

    fn setting(&mut self, node: &Node, setting: &str, default: &str) {
        let text = format!("{} needs {setting}; PyTorch's default is {default}", node.op);
        self.remarks.setting(text, &node.name);
    }
}

/// `nn.Linear` of these lengths: inputs, outputs.
pub(super) fn linear(
    layer: &str,
    [inputs, outputs]: [u64; 2],
    has_bias: bool,
    weights: Vec<Weight>,
) -> Module {
    let bias = if has_bias { "" } else { ", bias=False" };
    let made = Made::Call(format!("nn.Linear({inputs}, {outputs}{bias})"));
    Module { layer: layer.to_owned(), made, weights, missing: Vec::new() }
}

/// The steps from a tensor whose first axes are summed over to the weight of `nn.Linear`, and its inputs and outputs.
pub(super) fn projection(node: &Node, weight: &Tensor) -> Result<(Vec<AxisStep>, [u64; 2])> {
    let summed = usize::try_from(int(node, "summed", 1)?).unwrap_or(1);
    let (inputs, outputs) = weight.shape.split_at_checked(summed).unwrap_or_default();
    let product = |lens: &[u64]| lens.iter().fold(1u64, |product, len| product.saturating_mul(*len));
    let lens = [product(inputs), product(outputs)];
    let mut steps =
        vec![reshape(outputs, &lens[1..], summed), reshape(inputs, &lens[..1], 0), AxisStep::Transpose];
    steps.retain(|step| !is_nothing(step));
    Ok((steps, lens))
}

/// The step that makes a vector of a tensor.
pub(super) fn vector_steps(tensor: &Tensor) -> Vec<AxisStep> {
    let step = reshape(&tensor.shape, &[tensor.shape.elements()], 0);
    if is_nothing(&step) { Vec::new() } else { vec![step] }
}

/// The step that replaces the lengths of the axes from `axis` on.
pub(super) fn reshape(from: &[u64], to: &[u64], axis: usize) -> AxisStep {
    let lens = |lens: &[u64]| lens.iter().map(|len| Length::Of(*len)).collect();
    AxisStep::Reshape(Reshape::new(lens(from), lens(to), axis))
}

fn is_nothing(step: &AxisStep) -> bool {
    match step {
        AxisStep::Permute(order) => order.is_sorted(),
        AxisStep::Reshape(reshape) => reshape.from == reshape.to,
        _ => false,
    }
}

/// The step that puts these axes first, and those of the window behind them.
fn permute(weight: &Tensor, first: &[usize]) -> Vec<AxisStep> {
    vec![AxisStep::Permute(first.iter().copied().chain(window_axes(weight)).collect())]
}

/// The lengths of a kernel.
fn kernel(node: &Node, weight: &Tensor) -> Result<Vec<i64>> {
    let sides = window_axes(weight);
    let lens: Vec<i64> = sides
        .iter()
        .filter_map(|axis| {
            i64::try_from(*weight.shape.get(*axis)?).ok().filter(|len| *len <= i64::from(u32::MAX))
        })
        .collect();
    if (1..=3).contains(&lens.len()) && lens.len() == sides.len() && weight.shape.rank() == lens.len() + 2 {
        return Ok(lens);
    }
    Err(no_axes(node, weight))
}

fn no_axes(node: &Node, weight: &Tensor) -> ckpt_api::Error {
    refuse(node, "has a weight whose axes are not known")
        .tensor(&weight.name)
        .expected("named axes, as a format with a graph states them: in, out, and those of the kernel")
}

/// Of the parameters that a module lacks, those that no argument turns off.
fn without_affine(
    arguments: &mut Vec<String>,
    missing: Vec<&'static str>,
    argument: &str,
) -> Vec<&'static str> {
    if missing == ["weight", "bias"] {
        arguments.push(argument.to_owned());
        return Vec::new();
    }
    missing
}

/// How one side of a transposed convolution's result is cut.
struct Cut {
    /// What the module cuts on both ends, and adds behind.
    padding: i64,
    added: i64,
    /// What is left to cut before and behind.
    begin: i64,
    end: i64,
}

impl Cut {
    fn slice(&self) -> String {
        let begin = if self.begin == 0 { String::new() } else { self.begin.to_string() };
        let end = if self.end == 0 { String::new() } else { format!("-{}", self.end) };
        format!("{begin}:{end}")
    }
}

fn cuts(node: &Node, window: &Window) -> Result<Vec<Cut>> {
    let sides = window.kernel.len();
    let added = super::attributes::sizes(node, "output_padding", sides, 0, 0)?;
    let auto = text(node, "auto_pad", "NOTSET")?;
    let pads = match auto {
        "SAME_UPPER" | "SAME_LOWER" => {
            let pair = |side: usize| {
                let (reach, stride) =
                    (window.reach(side).unwrap_or(1), window.strides.get(side).copied().unwrap_or(1));
                let total =
                    reach.saturating_add(added.get(side).copied().unwrap_or(0)).saturating_sub(stride);
                let (total, open) = (total.max(0), total.saturating_neg().max(0));
                let (small, large) = (total / 2, total - total / 2);
                // Where the window is smaller than the stride, the result is longer behind.
                if auto == "SAME_UPPER" { (small, large - open) } else { (large, small - open) }
            };
            (0..sides).map(pair).collect()
        }
        _ => padding(node, window, &[])?.unwrap_or_default(),
    };
    let cut = |(side, (begin, end)): (usize, (i64, i64))| {
        let end = end.saturating_sub(added.get(side).copied().unwrap_or(0));
        // The module adds what is missing behind; it cuts both ends alike.
        let both = begin.min(end).max(0);
        match end {
            ..0 => Cut { padding: 0, added: end.saturating_neg(), begin, end: 0 },
            _ if end < begin && begin - end < *window.strides.get(side).unwrap_or(&1) => {
                Cut { padding: begin, added: begin - end, begin: 0, end: 0 }
            }
            _ => Cut { padding: both, added: 0, begin: begin - both, end: end - both },
        }
    };
    Ok(pads.into_iter().enumerate().map(cut).collect())
}

fn show(pads: &[(i64, i64)]) -> String {
    pads.iter().map(|(begin, end)| format!("{begin} and {end}")).collect::<Vec<_>>().join(", ")
}
