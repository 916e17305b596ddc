//! Lowers layers that multiply by stored weights.

use super::lowering::{Lowering, Site};
use super::values::{Kind, Val};
use super::windows::Kernel;
use crate::einsum::Equation;
use crate::kernels::sides;
use crate::layer::{Reason, lens};
use crate::model::Layer;
use crate::naming::shown_name;
use ckpt_api::{Attribute, Node, Op};
use ckpt_graph::shape::show;
use ckpt_graph::{Builder, Dims, Length, int};

impl Lowering {
    pub(super) fn dense(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let units = match site.layer.option("units") {
            Some(_) => site.layer.size("units")?,
            None => site.layer.size("output_dim")?,
        };
        let x = self.values.last(x)?;
        let node = bound(site, self.values.node(Op::Gemm), "kernel", has_bias(site.layer));
        let mut dims = x.dims.clone();
        *dims.last_mut().ok_or("its input has no axes")? = units.into();
        let made = self.values.same(node, &x, dims)?;
        self.activate(site, "activation", made)
    }

    pub(super) fn embedding(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let outputs = site.layer.size("output_dim")?;
        let x = self.values.last(x)?;
        let x = if x.tag.is_integer { x } else { self.cast(&x, "int")? };
        let node = self.values.node(Op::Gather).parameter("weight", site.variable("embeddings"));
        let dims = [&x.dims[..], &[outputs.into()]].concat();
        let made = self.values.same(node, &x, dims)?;
        let tag = Kind { has_mask: site.layer.flag("mask_zero", false), ..Kind::default() };
        Ok(Val { tag, ..made })
    }

    /// Converts elements to another type: `float`, `int` or `bool`.
    pub(super) fn cast(&mut self, x: &Val, to: &str) -> Result<Val, Reason> {
        let node = self.values.node(Op::Cast).attribute("to", Attribute::Text(to.to_owned()));
        let made = self.values.map(node, x)?;
        Ok(Val { tag: Kind { is_integer: to != "float", is_narrow: false, ..made.tag }, ..made })
    }

    pub(super) fn einsum_dense(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let text = layer.text("equation").unwrap_or_default();
        let unsupported = || format!("its equation '{}' is not supported", shown_name(text));
        let equation = Equation::parse(text).ok_or_else(unsupported)?;
        let biases: Vec<char> = layer.text("bias_axes").unwrap_or_default().chars().collect();
        let x = self.values.last(x)?;
        let free =
            x.rank().checked_sub(equation.left.trim_start_matches("...").len()).ok_or_else(unsupported)?;
        let stated = stated_output(layer)?;
        let is_last = equation
            .result
            .chars()
            .next_back()
            .map_or(&[][..], |last| if biases == [last] { &[true] } else { &[] });
        if equation.dense().is_some() && (biases.is_empty() || is_last == [true]) {
            let out = stated.last().copied().flatten().ok_or_else(unsupported)?;
            let node = bound(site, self.values.node(Op::Gemm), "kernel", !biases.is_empty());
            let mut dims = x.dims.clone();
            *dims.last_mut().ok_or_else(unsupported)? = out.into();
            let made = self.values.same(node, &x, dims)?;
            return self.activate(site, "activation", made);
        }
        let lens = Lens::of(&equation, &x, free, &stated).ok_or_else(unsupported)?;
        let kernel = lens.dims(&equation.right);
        let made = self.projection(site, &x, (&equation, free), (kernel, &lens))?;
        let made = match biases.is_empty() {
            true => made,
            false => {
                let mut shape = Dims::new();
                for letter in equation.result.trim_start_matches("...").chars() {
                    let is_bias = biases.contains(&letter);
                    if is_bias || !shape.is_empty() {
                        shape.push(if is_bias { lens.len(letter) } else { Length::Known(1) });
                    }
                }
                let bias = self.values.stored(&site.variable("bias"), shape)?;
                self.values.apply(Op::Add, &[&made, &bias])?
            }
        };
        self.activate(site, "activation", made)
    }

    /// Multiplies a value by a stored kernel, as an equation states.
    fn projection(
        &mut self,
        site: Site,
        x: &Val,
        (equation, free): (&Equation, usize),
        (kernel, lens): (Dims, &Lens),
    ) -> Result<Val, Reason> {
        let kernel = self.values.stored(&site.variable("kernel"), kernel)?;
        let Equation { left, right, result } = equation;
        let node = self
            .values
            .node(Op::Einsum)
            .attribute("equation", Attribute::Text(format!("{left},{right}->{result}")));
        let before = if result.starts_with("...") { x.dims.get(..free).unwrap_or_default() } else { &[] };
        let dims = [before, &lens.dims(result.trim_start_matches("..."))[..]].concat();
        self.values.plain(node, &[x, &kernel], dims)
    }

    /// Lowers `Conv1D` to `Conv3D`.
    pub(super) fn convolution(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let filters = first_size(layer, &["filters", "nb_filter"])?;
        let kernel = Kernel::of_convolution(layer, sides(&layer.class).unwrap_or(2))?;
        let group = layer.int("groups", 1)?;
        let made = self.images(layer, x, |lowering, x| {
            let node = bound(site, lowering.values.node(Op::Conv), "kernel", has_bias(layer));
            lowering.convolved(node, &kernel, &x, group, filters)
        })?;
        self.activate(site, "activation", made)
    }

    /// Lowers `DepthwiseConv1D` and `DepthwiseConv2D`.
    pub(super) fn depthwise(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let kernel = Kernel::of_convolution(layer, sides(&layer.class).unwrap_or(2))?;
        let role = match self.generation {
            super::Generation::Keras3 => "kernel",
            _ => "depthwise_kernel",
        };
        let made = self.images(layer, x, |lowering, x| {
            let node = bound(site, lowering.values.node(Op::Conv), role, has_bias(layer));
            let (channels, outputs) = multiplied(layer, &x)?;
            lowering.convolved(node, &kernel, &x, int(channels)?, outputs)
        })?;
        self.activate(site, "activation", made)
    }

    /// Lowers `SeparableConv1D` and `SeparableConv2D`: a depthwise convolution, and one of single places.
    pub(super) fn separable(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let count = sides(&layer.class).unwrap_or(2);
        let filters = first_size(layer, &["filters", "nb_filter"])?;
        let kernel = Kernel::of_convolution(layer, count)?;
        let made = self.images(layer, x, |lowering, x| {
            let node = lowering.values.node(Op::Conv).parameter("weight", site.variable("depthwise_kernel"));
            let (channels, outputs) = multiplied(layer, &x)?;
            let x = lowering.convolved(node, &kernel, &x, int(channels)?, outputs)?;
            let node = bound(site, lowering.values.node(Op::Conv), "pointwise_kernel", has_bias(layer));
            lowering.convolved(node, &Kernel::single(count), &x, 1, filters)
        })?;
        self.activate(site, "activation", made)
    }

    /// Runs a function on images with their channels last.
    pub(super) fn images(
        &mut self,
        layer: &Layer,
        x: &Val,
        make: impl FnOnce(&mut Self, Val) -> Result<Val, Reason>,
    ) -> Result<Val, Reason> {
        let count = sides(&layer.class).unwrap_or(2);
        if x.rank() != count + 2 {
            return Err(format!("it takes images of {count} sides, but its input is {}", show(&x.dims)));
        }
        if !layer.is_channels_first() {
            return make(self, x.clone());
        }
        let x = self.values.as_channels_last(x)?;
        let made = make(self, x)?;
        self.values.restored_first(&made)
    }

    fn convolved(
        &mut self,
        node: Node,
        kernel: &Kernel,
        x: &Val,
        group: i64,
        outputs: u64,
    ) -> Result<Val, Reason> {
        let x = self.values.first(x)?;
        let (node, mut dims) = Builder::windowed(node, &kernel.window, &kernel.sizes, &x)?;
        let node = if group == 1 { node } else { node.attribute("group", Attribute::Int(group)) };
        *dims.last_mut().ok_or("its input has no axes")? = outputs.into();
        self.values.same(node, &x, dims)
    }

    /// Lowers `Conv1DTranspose` to `Conv3DTranspose`.
    pub(super) fn transposed(&mut self, site: Site, x: &Val) -> Result<Val, Reason> {
        let layer = site.layer;
        let count = sides(&layer.class).unwrap_or(2);
        let filters = first_size(layer, &["filters", "nb_filter"])?;
        let kernel = Kernel::of_convolution(layer, count)?;
        let added = match layer.option("output_padding") {
            None => None,
            Some(_) => {
                let sizes = layer.ints("output_padding")?.unwrap_or_default();
                Some(if sizes.len() == 1 { vec![sizes.first().copied().unwrap_or(0); count] } else { sizes })
            }
        };
        let made = self.images(layer, x, |lowering, x| {
            let x = lowering.values.first(&x)?;
            let mut dims = x.dims.clone();
            let mut cuts = Vec::with_capacity(count);
            for (side, len) in dims.iter_mut().skip(1).take(count).enumerate() {
                let stated = added.as_ref().map(|added| added.get(side).copied().unwrap_or(0));
                let (cut, out) = kernel.transposed(side, stated, *len)?;
                cuts.push(cut);
                *len = out;
            }
            let node = bound(site, lowering.values.node(Op::ConvTranspose), "kernel", has_bias(layer));
            let node = Builder::<Kind>::transposed_windowed(node, &kernel.window, &cuts)?;
            *dims.last_mut().ok_or("its input has no axes")? = filters.into();
            lowering.values.same(node, &x, dims)
        })?;
        self.activate(site, "activation", made)
    }
}

/// The lengths of an equation's axes, by letter.
struct Lens(Vec<(char, Length)>);

impl Lens {
    fn of(equation: &Equation, x: &Val, free: usize, stated: &[Option<u64>]) -> Option<Lens> {
        let has_points = equation.left.starts_with("...");
        let letters = equation.left.trim_start_matches("...");
        if !has_points && free != 0 || has_points != equation.result.starts_with("...") {
            return None;
        }
        let input = letters.chars().zip(x.dims.iter().skip(free).copied());
        // The output's shape is stated without the batch; with points, only its last axes.
        let result: Vec<char> = equation.result.trim_start_matches("...").chars().collect();
        let skipped = result.len().saturating_sub(stated.len());
        let output =
            result.iter().skip(skipped).copied().zip(stated.iter().rev().take(result.len() - skipped).rev());
        // A length that the output leaves open is the input's.
        let output = output.map(|(letter, len)| (letter, Length::from(*len)));
        let mut all: Vec<(char, Length)> = input.collect();
        for (letter, len) in output {
            match all.iter_mut().find(|(own, _)| *own == letter) {
                Some((_, Length::Known(_))) => {}
                Some((_, open)) if len.known().is_some() => *open = len,
                Some(_) => {}
                None => all.push((letter, len)),
            }
        }
        let lens = Lens(all);
        equation
            .right
            .chars()
            .chain(result)
            .all(|letter| lens.0.iter().any(|(own, _)| *own == letter))
            .then_some(lens)
    }

    fn len(&self, letter: char) -> Length {
        self.0.iter().find(|(own, _)| *own == letter).map_or(Length::Unknown, |(_, len)| *len)
    }

    fn dims(&self, letters: &str) -> Dims {
        letters.chars().map(|letter| self.len(letter)).collect()
    }
}

/// Returns the lengths that `EinsumDense` states of its result's axes, without the batch.
fn stated_output(layer: &Layer) -> Result<Vec<Option<u64>>, Reason> {
    match layer.option("output_shape") {
        None => Ok(Vec::new()),
        Some(value) => match (lens(value), value.as_u64()) {
            (Some(lens), _) => Ok(lens),
            (None, Some(len)) => Ok(vec![Some(len)]),
            (None, None) => Err("its option 'output_shape' is not valid".to_owned()),
        },
    }
}

/// Gives a node the weight and the bias of a layer.
fn bound(site: Site, node: Node, weight: &str, has_bias: bool) -> Node {
    let node = node.parameter("weight", site.variable(weight));
    if has_bias { node.parameter("bias", site.variable("bias")) } else { node }
}

fn has_bias(layer: &Layer) -> bool {
    layer.flag("use_bias", layer.flag("bias", true))
}

fn first_size(layer: &Layer, keys: &[&str]) -> Result<u64, Reason> {
    let key = keys.iter().find(|key| layer.option(key).is_some()).or(keys.first());
    layer.size(key.unwrap_or(&"filters"))
}

/// Returns the number of channels that a depthwise layer takes and makes.
fn multiplied(layer: &Layer, x: &Val) -> Result<(u64, u64), Reason> {
    let channels = x.known_features()?;
    let multiplier = layer.option("depth_multiplier").map_or(Ok(1), |_| layer.size("depth_multiplier"))?;
    let outputs = channels.checked_mul(multiplier).ok_or("a size is too large")?;
    Ok((channels, outputs))
}
