//! Layers with weights, normalizations and pooling.

use crate::json::Operation;
use crate::lowering::{Known, Lowering, Val};
use crate::parameter::Read;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::shape::{product_of_matrices, show};
use ckpt_graph::{Builder, Dims, Length, Padding, Window, int, ints};

/// Axes of a kernel's sides: as many of the last ones as it has.
const SIDES: [Axis; 3] = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];

impl Lowering<'_> {
    /// Lowers a layer; `None` if it is another operation.
    pub(crate) fn layer(&mut self, own: &Operation<'_>) -> Read<Option<Val>> {
        Ok(Some(match own.name {
            "conv2d" | "conv3d" | "depthwise_conv2d" => self.convolution(own)?,
            "conv2d_transpose" | "conv3d_transpose" | "depthwise_conv2d_transpose" => self.transposed(own)?,
            "matmul" | "bmm" => self.product(own)?,
            "embedding" => self.embedding(own)?,
            "batch_norm_" | "batch_norm" => self.batch(own)?,
            "layer_norm" => self.layer_norm(own)?,
            "group_norm" => {
                let node = self.builder.node(Op::GroupNormalization);
                let node = node.attribute("num_groups", Attribute::Int(own.int("groups")?));
                self.normalized(own, node)?
            }
            "instance_norm" => self.normalized(own, self.builder.node(Op::InstanceNormalization))?,
            "pool2d" => {
                let kernel = self.ints(own, 1)?;
                self.pool(own, &kernel)?
            }
            "pool3d" | "max_pool2d_with_index" | "max_pool3d_with_index" => {
                let kernel = own.ints("kernel_size")?;
                self.pool(own, &kernel)?
            }
            _ => return Ok(None),
        }))
    }

    fn convolution(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.image(own)?;
        let sides = x.rank().saturating_sub(2);
        let axes = [&[Axis::Out, Axis::In], SIDES.get(3 - sides..).unwrap_or_default()].concat();
        let (node, shape, computed) = self.kernel(self.builder.node(Op::Conv), own, &axes)?;
        let (out, kernel) = (shape.first().copied(), shape.get(2..).unwrap_or_default());
        let window = window(own, sides)?;
        let (node, lens) = windowed(node, &window, kernel, &x, true)?;
        let node = grouped(node, own)?;
        let dims = [vec![x.len(0), Length::from(out)], lens].concat();
        let inputs: Vec<&Val> = [&x].into_iter().chain(&computed).collect();
        self.builder.plain(node, &inputs, dims)
    }

    /// Gives a node its kernel; returns it with the kernel's shape, and the kernel if it is no parameter: that of a
    /// convolution of one side gets an axis.
    fn kernel(
        &mut self,
        node: Node,
        own: &Operation<'_>,
        axes: &[Axis],
    ) -> Read<(Node, Vec<u64>, Option<Val>)> {
        if self.parameter(own, 1).is_some() {
            let (weight, shape) = self.claim(own, 1, axes)?;
            return Ok((node.parameter("weight", weight), shape, None));
        }
        let weight = self.take(own, 1)?;
        let shape = weight.dims.iter().map(|len| len.size()).collect::<Option<Vec<u64>>>();
        let shape = shape.filter(|shape| shape.len() == axes.len());
        Ok((node, shape.ok_or("has a kernel whose size is computed")?, Some(weight)))
    }

    fn transposed(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.image(own)?;
        let sides = x.rank().saturating_sub(2);
        let axes = [&[Axis::In, Axis::Out], SIDES.get(3 - sides..).unwrap_or_default()].concat();
        let (node, shape, computed) = self.kernel(self.builder.node(Op::ConvTranspose), own, &axes)?;
        if own.input(2).is_some() && !self.ints(own, 2)?.is_empty() {
            return Err("states the size of its result, which is not supported".to_owned());
        }
        let window = window(own, sides)?;
        let Padding::Explicit(pairs) = &window.padding else {
            return Err("pads to the size of the image, which is not supported".to_owned());
        };
        let mut added = own.sizes("output_padding")?;
        added.resize(sides, 0);
        let groups = u64::try_from(own.int("groups")?).unwrap_or(1);
        let out = shape.get(1).and_then(|out| out.checked_mul(groups));
        let mut dims: Dims = vec![x.len(0), Length::from(out)];
        let mut lens = Vec::new();
        for at in 0..sides {
            let [before, after] = pairs.get(at).copied().unwrap_or_default();
            let stride = window.strides.get(at).copied().unwrap_or(1);
            let extra = added.get(at).copied().unwrap_or_default();
            let kernel = shape.get(at.saturating_add(2)).copied().unwrap_or(1);
            let reach = Length::from(window.reach(at, kernel));
            let covered = (x.len(at.saturating_add(2)) - 1) * Length::from(stride) + reach + 1;
            dims.push(covered - Length::from(before) - Length::from(after) + Length::from(extra));
            lens.push([int(before)?, int(after)?, int(extra)?]);
        }
        let node = Builder::<()>::transposed_windowed(node, &window, &lens)?;
        let node = grouped(node, own)?;
        let inputs: Vec<&Val> = [&x].into_iter().chain(&computed).collect();
        self.builder.plain(node, &inputs, dims)
    }

    /// Input 0 of an operation, which is an image of one to three sides.
    fn image(&mut self, own: &Operation<'_>) -> Read<Val> {
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        match x.rank() {
            3..=5 => Ok(x),
            _ => Err(format!("takes a value of shape {}, which is no image", show(&x.dims))),
        }
    }

    /// A product of matrices; with a parameter, a dense layer.
    fn product(&mut self, own: &Operation<'_>) -> Read<Val> {
        let is_turned = own.flag("transpose_y");
        let axes = if is_turned { [Axis::Out, Axis::In] } else { [Axis::In, Axis::Out] };
        // A matrix that another operation takes in another way, as a shared embedding is, is multiplied as it is.
        let is_dense = self.parameter(own, 1).is_some_and(|(_, tensor)| {
            tensor.shape.rank() == 2 && tensor.axes.as_deref().is_none_or(|own| own == axes)
        });
        let x = self.take(own, 0)?;
        if is_dense && !own.flag("transpose_x") && x.rank() > 1 {
            let (weight, shape) = self.claim(own, 1, &axes)?;
            let out = if is_turned { shape.first() } else { shape.last() };
            let mut dims = x.dims.clone();
            if let Some(last) = dims.last_mut() {
                *last = Length::from(out.copied());
            }
            let node = self.builder.node(Op::Gemm).parameter("weight", weight);
            return self.builder.plain(node, &[&x], dims);
        }
        let y = self.take(own, 1)?;
        let x = if own.flag("transpose_x") { self.swapped(&x)? } else { x };
        let y = if is_turned { self.swapped(&y)? } else { y };
        let dims = product_of_matrices(&x.dims, &y.dims);
        let dims = dims
            .ok_or_else(|| format!("multiplies values of shapes {} and {}", show(&x.dims), show(&y.dims)))?;
        self.builder.plain(self.builder.node(Op::MatMul), &[&x, &y], dims)
    }

    /// Exchanges the last two axes.
    fn swapped(&mut self, val: &Val) -> Read<Val> {
        let mut order: Vec<usize> = (0..val.rank()).collect();
        let last = val.rank().checked_sub(2).ok_or("multiplies values that are no matrices")?;
        order.swap(last, last.saturating_add(1));
        self.builder.transpose(val, &order)
    }

    /// Adds a bias to the layer that has just been made; `None` for another sum.
    pub(crate) fn biased(&mut self, own: &Operation<'_>) -> Read<Option<Val>> {
        let (Some(a), Some(b)) = (own.input(0), own.input(1)) else { return Ok(None) };
        let (Some(Known::Val(val)), Some(bias)) = (self.known.get(&a).cloned(), self.known.get(&b)) else {
            return Ok(None);
        };
        if !self.is_only_use(own, 0) {
            return Ok(None);
        }
        let (id, of_images) = match bias {
            Known::Parameter(id) => (*id, false),
            Known::PerChannel(id, dims) if dims.len() == val.rank() => (*id, true),
            _ => return Ok(None),
        };
        let channels = if of_images { val.len(1) } else { val.features() };
        let is_fit = self.tensors.get(id).is_some_and(|bias| {
            bias.shape.rank() == 1 && channels == Length::from(bias.shape.elements()) && bias.axes.is_none()
        });
        let is_layer = |node: &Node| {
            let is_fit_op = match of_images {
                true => matches!(node.op, Op::Conv | Op::ConvTranspose),
                false => node.op == Op::Gemm,
            };
            let is_free = !node.parameters.contains_key("bias") && node.inputs.len() == 1;
            is_fit_op && is_free && node.outputs.contains(&val.name)
        };
        if !is_fit || !self.builder.nodes.last().is_some_and(is_layer) {
            return Ok(None);
        }
        let (bias, _) = self.claim_tensor(id, &[Axis::Out])?;
        if let Some(node) = self.builder.nodes.last_mut() {
            node.parameters.insert("bias".to_owned(), bias);
        }
        Ok(Some(val))
    }

    fn embedding(&mut self, own: &Operation<'_>) -> Read<Val> {
        if own.int("padding_idx")? != -1 {
            return Err("has rows that count as zeros (padding_idx), which is not supported".to_owned());
        }
        let indices = self.take(own, 0)?;
        let (weight, shape) = self.claim(own, 1, &[Axis::Feature, Axis::Out])?;
        let out = Length::from(shape.last().copied());
        let dims: Dims = indices.dims.iter().copied().chain([out]).collect();
        let node = self.builder.node(Op::Gather).parameter("weight", weight);
        self.builder.plain(node, &[&indices], dims)
    }

    fn batch(&mut self, own: &Operation<'_>) -> Read<Val> {
        if !own.flag("is_test") && !own.flag("use_global_stats") {
            return Err("normalizes by the batch, as in training".to_owned());
        }
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        let mut node = self.builder.node(Op::BatchNormalization);
        node = node.attribute("epsilon", Attribute::Float(own.float("epsilon")?));
        for (role, index) in [("mean", 1), ("variance", 2), ("scale", 3), ("bias", 4)] {
            node = self.with_vector(node, role, own, index)?;
        }
        self.builder.map(node, &x)
    }

    fn layer_norm(&mut self, own: &Operation<'_>) -> Read<Val> {
        let x = self.take(own, 0)?;
        let axis = x.resolve(own.int("begin_norm_axis")?)?;
        let node = self.builder.node(Op::LayerNormalization);
        let node = node.attribute("axis", Attribute::Int(int(axis)?));
        self.normalized(own, node)
    }

    fn normalized(&mut self, own: &Operation<'_>, node: Node) -> Read<Val> {
        own.has_channels_first()?;
        let x = self.take(own, 0)?;
        let node = node.attribute("epsilon", Attribute::Float(own.float("epsilon")?));
        let node = self.with_vector(node, "scale", own, 1)?;
        let node = self.with_vector(node, "bias", own, 2)?;
        self.builder.map(node, &x)
    }

    fn pool(&mut self, own: &Operation<'_>, kernel: &[i64]) -> Read<Val> {
        let x = self.image(own)?;
        let sides = x.rank().saturating_sub(2);
        let is_average = match own.text("pooling_type").unwrap_or("max") {
            "avg" => true,
            "max" => false,
            other => return Err(format!("pools by '{}'", other.escape_debug())),
        };
        let is_adaptive = own.flag("adaptive");
        if own.flag("global_pooling") || (is_adaptive && kernel.iter().all(|len| *len == 1)) {
            let op = if is_average { Op::GlobalAveragePool } else { Op::GlobalMaxPool };
            let mut dims = x.dims.clone();
            dims.iter_mut().skip(2).for_each(|len| *len = Length::Known(1));
            return self.builder.plain(self.builder.node(op), &[&x], dims);
        }
        let sizes = kernel.iter().map(|len| u64::try_from(*len).ok().filter(|len| *len > 0));
        let sizes = sizes.collect::<Option<Vec<u64>>>().filter(|sizes| sizes.len() == sides);
        let sizes = sizes.ok_or_else(|| format!("has a window of {kernel:?}"))?;
        let (sizes, window) = match is_adaptive {
            true => adaptive(&x, &sizes)?,
            false => {
                let window = Window { dilations: vec![1; sides], ..window(own, sides)? };
                (sizes, window)
            }
        };
        let is_ceil = own.flag("ceil_mode");
        let is_inclusive = is_average && own.attribute_is_false("exclusive");
        if is_ceil && is_inclusive {
            return Err("counts padding in windows that are rounded up, which is not supported".to_owned());
        }
        // Of what is added behind a side, only as much counts as is added before it.
        let is_counted = |(at, size): (usize, &u64)| {
            let side = window.side(at, *size, x.len(at.saturating_add(2)));
            side.is_none_or(|side| side.pads.is_some_and(|[before, after]| before >= after))
        };
        if is_inclusive && !sizes.iter().enumerate().all(is_counted) {
            return Err(
                "counts padding of which more is behind a side than before it, which is not supported"
                    .to_owned(),
            );
        }
        let op = if is_average { Op::AveragePool } else { Op::MaxPool };
        let mut node = self.builder.node(op).attribute("kernel_shape", ints(&sizes)?);
        if is_inclusive {
            node = node.attribute("count_include_pad", Attribute::Int(1));
        }
        if is_ceil {
            node = node.attribute("ceil_mode", Attribute::Int(1));
        }
        let (node, lens) = windowed(node, &window, &sizes, &x, !is_ceil)?;
        let lens = match is_ceil {
            true => rounded_up(&window, &sizes, &x)?,
            false => lens,
        };
        let dims = [vec![x.len(0), x.len(1)], lens].concat();
        self.builder.plain(node, &[&x], dims)
    }
}

/// Windows that divide an image into so many parts.
fn adaptive(x: &Val, parts: &[u64]) -> Read<(Vec<u64>, Window)> {
    let size = |(at, parts): (usize, &u64)| {
        let len = x.len(at.saturating_add(2)).size()?;
        (len % parts == 0).then(|| len / parts).filter(|len| *len > 0)
    };
    let sizes = parts.iter().enumerate().map(size).collect::<Option<Vec<u64>>>();
    let sizes =
        sizes.ok_or("divides an image into parts of several sizes, or of a size that is not known")?;
    Ok((sizes.clone(), Window { strides: sizes, ..Window::single(parts.len()) }))
}

/// The numbers of windows, rounded up.
fn rounded_up(window: &Window, kernel: &[u64], x: &Val) -> Read<Dims> {
    let Padding::Explicit(pairs) = &window.padding else {
        return Err("rounds its size up, and pads".to_owned());
    };
    let mut lens = Dims::new();
    for (at, kernel) in kernel.iter().enumerate() {
        let [before, after] = pairs.get(at).copied().unwrap_or_default();
        let stride = window.strides.get(at).copied().unwrap_or(1);
        let Some(len) = x.len(at.saturating_add(2)).size() else {
            if stride.saturating_add(after) > *kernel {
                return Err("may have a last window that covers only padding".to_owned());
            }
            lens.push(Length::Unknown);
            continue;
        };
        let free = len.saturating_add(before).saturating_add(after).saturating_sub(*kernel);
        let steps = free.div_ceil(stride);
        if steps.saturating_mul(stride) >= len.saturating_add(before) {
            return Err("has a last window that covers only padding".to_owned());
        }
        lens.push(Length::from(steps.saturating_add(1)));
    }
    Ok(lens)
}

/// Strides, dilations and padding.
fn window(own: &Operation<'_>, sides: usize) -> Read<Window> {
    let sizes = |name: &str| -> Read<Vec<u64>> {
        let sizes = own.sizes(name)?;
        match sizes.len() == sides && !sizes.contains(&0) {
            true => Ok(sizes),
            false => Err(format!("has {name} {sizes:?}")),
        }
    };
    let dilations = if own.has("dilations") { sizes("dilations")? } else { vec![1; sides] };
    let padding = match own.text("padding_algorithm").unwrap_or("EXPLICIT") {
        "SAME" => Padding::Same,
        "VALID" => Padding::Valid,
        _ => {
            let pads = own.sizes("paddings")?;
            match pads.len() {
                len if len == sides => Padding::Explicit(pads.into_iter().map(|pad| [pad, pad]).collect()),
                len if len == sides.saturating_mul(2) => Padding::Explicit(pads.as_chunks().0.to_vec()),
                _ => return Err(format!("has the padding {pads:?}")),
            }
        }
    };
    // Padding to the same size takes no notice of dilations.
    let dilations = if padding == Padding::Same { vec![1; sides] } else { dilations };
    Ok(Window { strides: sizes("strides")?, dilations, padding })
}

/// Gives a node the attributes of a window; returns it with the lengths of its result, if they count.
fn windowed(node: Node, window: &Window, kernel: &[u64], x: &Val, checks: bool) -> Read<(Node, Dims)> {
    let (mut lens, mut pairs) = (Dims::new(), Some(Vec::new()));
    for (at, kernel) in kernel.iter().enumerate() {
        let side = window.side(at, *kernel, x.len(at.saturating_add(2)));
        let Some(side) = side else {
            if checks {
                return Err("has a window that is larger than the image".to_owned());
            }
            continue;
        };
        lens.push(side.out);
        match (side.pads, &mut pairs) {
            (Some(pads), Some(pairs)) => pairs.push(pads),
            _ => pairs = None,
        }
    }
    let node = node.attribute("strides", ints(&window.strides)?);
    let node = match pairs {
        Some(pairs) => {
            let begins = pairs.iter().map(|[begin, _]| *begin);
            let pads: Vec<u64> = begins.chain(pairs.iter().map(|[_, end]| *end)).collect();
            node.attribute("pads", ints(&pads)?)
        }
        None => node.attribute("auto_pad", Attribute::Text("SAME_UPPER".into())),
    };
    Ok(match window.dilations.iter().any(|dilation| *dilation != 1) {
        true => (node.attribute("dilations", ints(&window.dilations)?), lens),
        false => (node, lens),
    })
}

fn grouped(node: Node, own: &Operation<'_>) -> Read<Node> {
    match own.int("groups")? {
        1 => Ok(node),
        groups if groups > 1 => Ok(node.attribute("group", Attribute::Int(groups))),
        other => Err(format!("has {other} groups")),
    }
}
