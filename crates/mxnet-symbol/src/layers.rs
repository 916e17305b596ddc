//! Layers with weights.

use crate::attributes::wrong;
use crate::lowering::{Lowering, Val};
use crate::stated::Read;
use crate::symbol::Step;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::shape::show;
use ckpt_graph::{Dims, Length, Padding, Window, int, ints};

/// Axes of a kernel's sides: as many of the last ones as it has.
const SIDES: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];

impl Lowering<'_> {
    /// Lowers a layer; `None` if it is another operator.
    pub(crate) fn layer(&mut self, step: &Step) -> Read<Option<Val>> {
        Ok(Some(match step.op.as_str() {
            "FullyConnected" => self.dense(step)?,
            "Convolution" | "Convolution_v1" => self.convolution(step)?,
            "Deconvolution" => self.transposed(step)?,
            "Embedding" => self.embedding(step)?,
            "Pooling" | "Pooling_v1" => self.pooling(step)?,
            _ => return Ok(None),
        }))
    }

    fn dense(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let (weight, shape) = self.claim(step, 1, &[Axis::Out, Axis::In])?;
        let (out, features) = (shape.first().copied(), shape.last().copied());
        let x = if step.flag("flatten", true)? { self.flat(&x, features)? } else { x };
        if x.features().size().is_some_and(|own| Some(own) != features) {
            return Err(format!(
                "has weights for {} inputs, and takes {}",
                features.unwrap_or(0),
                show(&x.dims)
            ));
        }
        let node = self.builder.node(Op::Gemm).parameter("weight", weight);
        let node = self.biased(node, step)?;
        let mut dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = Length::from(out);
        }
        self.builder.plain(node, &[&x], dims)
    }

    /// All axes but the first as one.
    pub(crate) fn flat(&mut self, x: &Val, features: Option<u64>) -> Read<Val> {
        match x.rank() {
            2 => return Ok(x.clone()),
            0 => return Err("takes a single number".to_owned()),
            _ => {}
        }
        let product = x.dims.iter().skip(1).product::<Length>();
        let product = if product.known().is_some() { product } else { Length::from(features) };
        let node = self.builder.node(Op::Flatten);
        let dims = vec![x.len(0), product];
        self.builder.plain(node, &[x], dims)
    }

    fn biased(&mut self, node: Node, step: &Step) -> Read<Node> {
        // Deconvolutions have no bias unless they say so.
        match step.flag("no_bias", step.op == "Deconvolution")? {
            true => Ok(node),
            false => self.with_vector(node, "bias", step, 2),
        }
    }

    fn convolution(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let (sides, kernel) = Self::kernel(step, &x)?;
        let axes = [&[Axis::Out, Axis::In], SIDES.get(3 - sides..).unwrap_or_default()].concat();
        let (weight, shape) = self.claim(step, 1, &axes)?;
        if shape.get(2..) != Some(&kernel[..]) {
            return Err(format!("has a kernel {kernel:?}, and weights of shape {shape:?}"));
        }
        let window = Self::window(step, sides)?;
        let mut dims = vec![x.len(0), Length::from(shape.first().copied())];
        for (at, kernel) in kernel.iter().enumerate() {
            let side = window.side(at, *kernel, x.len(at.saturating_add(2)));
            dims.push(side.ok_or("has a window that is larger than the image")?.out);
        }
        let node = self.builder.node(Op::Conv).parameter("weight", weight);
        let node = attributes(node, &window, step)?;
        let node = self.biased(node, step)?;
        self.builder.plain(node, &[&x], dims)
    }

    fn transposed(&mut self, step: &Step) -> Read<Val> {
        let x = self.take(step, 0)?;
        let (sides, kernel) = Self::kernel(step, &x)?;
        if step.sizes("target_shape", sides, 0)?.iter().any(|len| *len > 0) {
            return Err("states the size of its result (target_shape), which is not supported".to_owned());
        }
        let axes = [&[Axis::In, Axis::Out], SIDES.get(3 - sides..).unwrap_or_default()].concat();
        let (weight, shape) = self.claim(step, 1, &axes)?;
        if shape.get(2..) != Some(&kernel[..]) {
            return Err(format!("has a kernel {kernel:?}, and weights of shape {shape:?}"));
        }
        let window = Self::window(step, sides)?;
        let added = step.sizes("adj", sides, 0)?;
        let groups = u64::try_from(step.int("num_group", 1)?).unwrap_or(1);
        let out = shape.get(1).and_then(|out| out.checked_mul(groups));
        let mut dims: Dims = vec![x.len(0), Length::from(out)];
        for at in 0..sides {
            let get = |all: &[u64]| all.get(at).copied().map_or(Length::Unknown, Length::from);
            let pad = pads(&window).get(at).copied().unwrap_or_default();
            let reach = kernel.get(at).and_then(|kernel| window.reach(at, *kernel));
            let len = (x.len(at.saturating_add(2)) - 1) * get(&window.strides);
            let len = len + Length::from(reach) + 1 - Length::from(pad) - Length::from(pad);
            dims.push(len + get(&added));
        }
        let node = self.builder.node(Op::ConvTranspose).parameter("weight", weight);
        let mut node = attributes(node, &window, step)?;
        if added.iter().any(|len| *len > 0) {
            node = node.attribute("output_padding", ints(&added)?);
        }
        let node = self.biased(node, step)?;
        self.builder.plain(node, &[&x], dims)
    }

    /// The number of sides of a window, and their sizes.
    pub(crate) fn kernel(step: &Step, x: &Val) -> Read<(usize, Vec<u64>)> {
        step.only("layout", &["NCW", "NCHW", "NCDHW"])?;
        let sides = x.rank().checked_sub(2).filter(|sides| (1..=3).contains(sides));
        let sides =
            sides.ok_or_else(|| format!("takes a value of shape {}, which is no image", show(&x.dims)))?;
        let kernel = step.sizes("kernel", sides, 0)?;
        Ok((sides, kernel))
    }

    /// Strides, dilations and padding.
    pub(crate) fn window(step: &Step, sides: usize) -> Read<Window> {
        let pads = step.sizes("pad", sides, 0)?.into_iter().map(|pad| [pad, pad]).collect();
        let window = Window {
            strides: step.sizes("stride", sides, 1)?,
            dilations: step.sizes("dilate", sides, 1)?,
            padding: Padding::Explicit(pads),
        };
        match window.strides.contains(&0) || window.dilations.contains(&0) {
            true => Err("has a window that does not move".to_owned()),
            false => Ok(window),
        }
    }

    fn embedding(&mut self, step: &Step) -> Read<Val> {
        step.only("sparse_grad", &["True", "False", "0", "1"])?;
        let indices = self.take(step, 0)?;
        let (weight, shape) = self.claim(step, 1, &[Axis::Feature, Axis::Out])?;
        let out = Length::from(shape.last().copied());
        let dims: Dims = indices.dims.iter().copied().chain([out]).collect();
        let node = self.builder.node(Op::Gather).parameter("weight", weight);
        self.builder.plain(node, &[&indices], dims)
    }
}

/// What is added before each side of an image, and after it.
pub(crate) fn pads(window: &Window) -> Vec<u64> {
    match &window.padding {
        Padding::Explicit(pairs) => pairs.iter().map(|[before, _]| *before).collect(),
        _ => Vec::new(),
    }
}

/// Gives a node the attributes of its window and its groups.
fn attributes(node: Node, window: &Window, step: &Step) -> Read<Node> {
    let pads = pads(window);
    let mut node = node.attribute("strides", ints(&window.strides)?);
    node = node.attribute("pads", ints(&[&pads[..], &pads].concat())?);
    if window.dilations.iter().any(|dilation| *dilation != 1) {
        node = node.attribute("dilations", ints(&window.dilations)?);
    }
    match step.int("num_group", 1)? {
        1 => Ok(node),
        groups if groups > 1 => Ok(node.attribute("group", Attribute::Int(int(groups)?))),
        other => Err(wrong("num_group", &other.to_string())),
    }
}
