//! Lowers layers with weights.

use super::super::super::no_chain::NoChain;
use super::super::linear::{Linear, LinearKind, kernel_lens};
use super::super::normalization::{BatchNorm, LayerNorm};
use super::super::reach::Edge;
use super::lowering::{Lowering, layer, lost, scope};
use super::values::Val;
use crate::catalog::{last, path};
use crate::proto::NodeDef;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::order::rotated;
use ckpt_graph::shape::{of_sizes, show};
use ckpt_graph::{Builder, Layout, Length, Padding, Window};

/// Axes of kernels, from the first: of sequences, images, volumes.
fn kernel_axes(sides: usize) -> Option<Vec<Axis>> {
    match sides {
        1 => Some(vec![Axis::KernelX]),
        2 => Some(vec![Axis::KernelY, Axis::KernelX]),
        3 => Some(vec![Axis::KernelZ, Axis::KernelY, Axis::KernelX]),
        _ => None,
    }
}

impl Lowering<'_> {
    pub(super) fn linear(
        &mut self,
        op: &NodeDef,
        edge: Edge,
        linear: &Linear,
        inputs: &[Val],
    ) -> Result<Val, NoChain> {
        let [x] = inputs else { return Err(lost()) };
        let mut dims = self.dims(edge)?;
        let row = match linear.is_row {
            true => {
                dims.remove(1);
                Some(self.values.squeeze(x, &[1])?)
            }
            false => None,
        };
        let turned = if linear.is_first { Some(self.values.as_channels_last(x)?) } else { None };
        if linear.is_first {
            dims = rotated(&dims, true);
        }
        let x = row.as_ref().or(turned.as_ref()).unwrap_or(x);
        self.scopes.insert(model_scope(&op.name).to_owned());
        let made = match &linear.kind {
            LinearKind::Dense { is_transposed } => self.dense(linear, *is_transposed, x)?,
            LinearKind::Conv(window) => self.conv(linear, window, false, x)?,
            LinearKind::Depthwise(window) => self.conv(linear, window, true, x)?,
            LinearKind::Transposed(window) => self.transposed(linear, window, x, &dims)?,
        };
        let (name, layout) = made;
        if let Some(bias) = &linear.bias {
            self.values.axes.insert(bias.clone(), vec![Axis::Out]);
        }
        let tag = layer(&name, op);
        let made = self.values.val(name, layout, dims, tag);
        match (linear.is_row, linear.is_first) {
            (true, _) => Ok(self.values.unsqueeze(&made, &[1])?),
            (_, true) => Ok(self.values.restored_first(&made)?),
            _ => Ok(made),
        }
    }

    /// Names a node after its layer, and gives it its parameters.
    fn weighted(&mut self, op: Op, kind: &'static str, linear: &Linear) -> Node {
        let name = self.values.layer(&linear.weight, kind);
        let node = Node::new(name, op).parameter("weight", linear.weight.as_str());
        match &linear.bias {
            Some(bias) => node.parameter("bias", bias.as_str()),
            None => node,
        }
    }

    fn dense(&mut self, linear: &Linear, is_transposed: bool, x: &Val) -> Result<(String, Layout), NoChain> {
        let shape = self.values.shape(&linear.weight)?;
        if shape.rank() != 2 {
            return Err(NoChain::unsupported(format!(
                "'{}' has shape {shape}, but the layer needs a matrix",
                path(&linear.weight)
            )));
        }
        let axes = if is_transposed { vec![Axis::Out, Axis::In] } else { vec![Axis::In, Axis::Out] };
        self.stated(&linear.weight, axes)?;
        let x = self.values.last(x)?;
        let node = self.weighted(Op::Gemm, "dense", linear);
        Ok((self.values.push(node, vec![x.name])?, Layout::Last))
    }

    /// States the axes of a weight, which may be used twice in the same way only.
    fn stated(&mut self, key: &str, axes: Vec<Axis>) -> Result<(), NoChain> {
        match self.values.axes.get(key) {
            Some(known) if *known != axes => Err(NoChain::unsupported(format!(
                "'{}' is used with its axes in two orders, which is not supported",
                path(key)
            ))),
            _ => {
                self.values.axes.insert(key.to_owned(), axes);
                Ok(())
            }
        }
    }

    fn conv(
        &mut self,
        linear: &Linear,
        window: &Window,
        is_depthwise: bool,
        x: &Val,
    ) -> Result<(String, Layout), NoChain> {
        let shape = self.values.shape(&linear.weight)?.to_vec();
        let lens = of_sizes(&shape);
        let misfit =
            || NoChain::unsupported(format!("'{}' is no kernel for {}", path(&linear.weight), show(&x.dims)));
        let (sides, input, _) = kernel_lens(&lens).ok_or_else(misfit)?;
        if sides.len() + 2 != x.rank() {
            return Err(misfit());
        }
        let mut axes = kernel_axes(sides.len())
            .ok_or_else(|| NoChain::unsupported("a kernel of more than three sides is not supported"))?;
        axes.extend(if is_depthwise { [Axis::In, Axis::Multiplier] } else { [Axis::In, Axis::Out] });
        self.stated(&linear.weight, axes)?;
        let channels = x.features().size().unwrap_or(input);
        if input == 0 || !channels.is_multiple_of(input) {
            return Err(misfit());
        }
        let x = self.values.first(x)?;
        let kind = if is_depthwise { "depthwise_conv2d" } else { "conv" };
        let node = self.weighted(Op::Conv, kind, linear);
        let (mut node, _) = Builder::windowed(node, window, &sides, &x)?;
        let groups = if is_depthwise { channels } else { channels / input };
        if groups != 1 {
            node = node.attribute("group", Attribute::Int(int(groups)?));
        }
        Ok((self.values.push(node, vec![x.name])?, Layout::First))
    }

    fn transposed(
        &mut self,
        linear: &Linear,
        window: &Window,
        x: &Val,
        dims: &[Length],
    ) -> Result<(String, Layout), NoChain> {
        let shape = self.values.shape(&linear.weight)?.to_vec();
        let lens = of_sizes(&shape);
        let misfit =
            || NoChain::unsupported(format!("'{}' is no kernel for {}", path(&linear.weight), show(&x.dims)));
        let (sides, _, _) = kernel_lens(&lens).ok_or_else(misfit)?;
        if sides.len() + 2 != x.rank()
            || dims.len() != x.rank()
            || window.dilations.iter().any(|value| *value != 1)
        {
            return Err(misfit());
        }
        let mut axes = kernel_axes(sides.len())
            .ok_or_else(|| NoChain::unsupported("a kernel of more than three sides is not supported"))?;
        axes.extend([Axis::Out, Axis::In]);
        self.stated(&linear.weight, axes)?;
        let mut pads = Vec::new();
        for (side, kernel) in sides.iter().enumerate() {
            let stride = *window.strides.get(side).ok_or_else(misfit)?;
            let (len, out) = (x.dims[side + 1], dims[side + 1]);
            let covered = (len - 1) * int(stride)? + int(*kernel)?;
            let cut = (covered - out).known().ok_or_else(|| {
                NoChain::unsupported(
                    "the size of its result depends on the input in a way that is not supported",
                )
            })?;
            pads.push(transposed_pads(window, side, cut).ok_or_else(|| {
                NoChain::unsupported("its explicit padding does not fit the size of its result")
            })?);
        }
        let x = self.values.first(x)?;
        let node = self.weighted(Op::ConvTranspose, "conv2d_transpose", linear);
        let node = Builder::<()>::transposed_windowed(node, window, &pads)?;
        Ok((self.values.push(node, vec![x.name])?, Layout::First))
    }

    /// Lowers a normalization by stored statistics.
    pub(super) fn batch_norm(
        &mut self,
        op: &NodeDef,
        norm: &BatchNorm,
        inputs: &[Val],
    ) -> Result<Val, NoChain> {
        let [x] = inputs else { return Err(lost()) };
        let features = x.features().size();
        for (_, key) in &norm.parameters {
            let shape = self.values.shape(key)?;
            if shape.rank() != 1 || features.is_some_and(|features| shape[0] != features) {
                return Err(NoChain::unsupported(format!(
                    "'{}' has shape {shape}, but the layer needs one number per channel",
                    path(key)
                )));
            }
            self.values.axes.insert(key.clone(), vec![Axis::Out]);
        }
        let x = if x.rank() > 2 { self.values.first(x)? } else { self.values.last(x)? };
        let by_role = |role: &str| norm.parameters.iter().find(|(own, _)| *own == role);
        let first = by_role("scale").or_else(|| by_role("bias")).or_else(|| by_role("mean"));
        let name = self.values.layer(first.map_or("", |(_, key)| key), "batch_normalization");
        let mut node =
            Node::new(name, Op::BatchNormalization).attribute("epsilon", Attribute::Float(norm.epsilon));
        for (role, key) in &norm.parameters {
            node = node.parameter(role, key.as_str());
        }
        let name = self.values.push(node, vec![x.name.clone()])?;
        Ok(Val { tag: layer(&name, op), name, ..x })
    }

    /// Lowers a normalization by the statistics of the last axis.
    pub(super) fn layer_norm(
        &mut self,
        op: &NodeDef,
        norm: &LayerNorm,
        inputs: &[Val],
    ) -> Result<Val, NoChain> {
        let [x] = inputs else { return Err(lost()) };
        let x = self.values.last(x)?;
        let (kind, name) = match norm.is_rms {
            true => ("RMSNormalization", "rms_normalization"),
            false => ("LayerNormalization", "layer_normalization"),
        };
        let parameters = [("scale", &norm.scale), ("bias", &norm.bias)];
        let first = parameters.iter().find_map(|(_, key)| key.as_deref());
        let name = match first {
            Some(key) => self.values.layer(key, name),
            None => self.values.place.clone(),
        };
        let mut node = Node::new(name, Op::from(kind.to_owned()));
        node =
            node.attribute("axis", Attribute::Int(-1)).attribute("epsilon", Attribute::Float(norm.epsilon));
        for (role, key) in parameters {
            if let Some(key) = key {
                self.values.axes.insert(key.clone(), vec![Axis::Out]);
                node = node.parameter(role, key.as_str());
            }
        }
        let name = self.values.push(node, vec![x.name.clone()])?;
        Ok(Val { tag: layer(&name, op), name, ..x })
    }

    /// Lowers an activation: within its layer's scope, it is named after it.
    pub(super) fn activation(
        &mut self,
        op: &NodeDef,
        mut node: Node,
        inputs: &[Val],
    ) -> Result<Val, NoChain> {
        let [x] = inputs else { return Err(lost()) };
        node.name = match x.tag.0.as_deref() {
            Some((name, own)) if within(own, scope(&op.name)) => format!("{name}/activation"),
            _ => self.values.place.clone(),
        };
        Ok(self.values.map(node, x)?)
    }
}

/// Returns what precedes the layer in the name of an operation: the model and, if it is one, the models around it.
fn model_scope(operation: &str) -> &str {
    /// Scopes that TensorFlow adds within that of a layer.
    const WITHIN: [&str; 7] =
        ["Tensordot", "convolution", "einsum", "depthwise", "separable_conv2d", "Conv1D", "conv_transpose"];
    let mut layer = scope(operation);
    while WITHIN.contains(&last(layer)) {
        layer = scope(layer);
    }
    scope(layer)
}

/// Whether a scope is another or is within it.
fn within(outer: &str, inner: &str) -> bool {
    !outer.is_empty()
        && inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the padding before and after side `side` of a transposed convolution, and what its result is longer at the
/// end. Without padding, the result would be `cut` longer. `None` if the padding does not fit.
fn transposed_pads(window: &Window, side: usize, cut: i64) -> Option<[i64; 3]> {
    let Padding::Explicit(pairs) = &window.padding else {
        let total = cut.max(0);
        return Some([total / 2, total - total / 2, cut.checked_neg()?.max(0)]);
    };
    let [begin, end] = *pairs.get(side)?;
    let (begin, end) = (i64::try_from(begin).ok()?, i64::try_from(end).ok()?);
    let open = begin.checked_add(end)?.checked_sub(cut)?;
    let stride = i64::try_from(*window.strides.get(side)?).ok()?;
    (0..stride).contains(&open).then_some([begin, end, open])
}

pub(super) fn int(value: u64) -> Result<i64, NoChain> {
    i64::try_from(value).map_err(|_| NoChain::unsupported(format!("a size of {value} is too large")))
}
