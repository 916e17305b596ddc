//! Layers of images: convolutions, pooling, padding, resizing.

use super::emitter::{Bound, Emitter, Held, invalid};
use crate::kernels::window_axes;
use ckpt_api::{Axis, Error, Node, Op, Result};
use serde_json::{Value, json};

/// What is added before and after each side.
pub(super) type Pairs = Vec<[i64; 2]>;

/// How a window is padded.
enum Padding {
    /// By an option of the layer: `valid`, `same`, `causal`.
    Named(&'static str),
    /// By a layer before it.
    Explicit(Pairs),
}

/// A window, as a node states it.
struct Window {
    kernel: Vec<u64>,
    strides: Vec<u64>,
    dilations: Vec<u64>,
}

impl Emitter<'_> {
    /// Lowers a node that takes images; `None` if it is another one.
    pub(super) fn image(&mut self, node: &Node) -> Result<Option<Held>> {
        Ok(Some(match &node.op {
            Op::Conv => self.convolution(node)?,
            Op::ConvTranspose => self.transposed(node)?,
            Op::MaxPool | Op::AveragePool => self.pool(node)?,
            Op::GlobalAveragePool | Op::GlobalMaxPool => self.global_pool(node)?,
            Op::Pad => self.pad(node)?,
            Op::Resize => self.resize(node)?,
            Op::DepthToSpace => self.depth_to_space(node)?,
            _ => return Ok(None),
        }))
    }

    /// Returns a node's input with its channels last in Keras, and the number of its sides.
    fn pictures(&mut self, node: &Node) -> Result<(Held, usize)> {
        let held = self.input(node, 0)?;
        if held.is_channels_first() && !held.is_reversed {
            let sides = held.dims.len() - 2;
            return Ok((held, sides));
        }
        let held = self.materialized(&node.name, &held)?;
        let rank = held.dims.len();
        if !(3..=5).contains(&rank) {
            return Err(Error::unsupported("Keras's layer takes images of one to three sides"));
        }
        // The channels come last in Keras.
        let order: Vec<usize> = (2..rank).chain([1]).collect();
        let layer =
            self.layer(&format!("{}/channels_last", node.name), "Permute", json!({ "dims": order }), &held);
        let dims = [0].into_iter().chain(order).map(|axis| held.len(axis)).collect();
        Ok((first(Held::plain(layer, 0, dims)), rank - 2))
    }

    fn convolution(&mut self, node: &Node) -> Result<Held> {
        self.allow_roles(node, &["weight", "bias"])?;
        let (held, sides) = self.pictures(node)?;
        let window_axes = window_axes(sides);
        let channels = held.dims.last().copied().flatten();
        let group = u64::try_from(node.int("group", 1)?).map_err(|_| invalid())?;
        let named = |last: [Axis; 2]| [&window_axes[..], &last].concat();
        let axes = node.parameters.get("weight").map(|name| self.tensor(name)).transpose()?;
        let axes = axes
            .map(|id| self.described(id))
            .transpose()?
            .and_then(|tensor| tensor.axes.as_deref())
            .unwrap_or_default();
        let has_multiplier = axes.contains(&Axis::Multiplier);
        let (kernel, depthwise) = if has_multiplier {
            (self.required(node, "weight", &named([Axis::In, Axis::Multiplier]))?, true)
        } else {
            let kernel = self.required(node, "weight", &named([Axis::In, Axis::Out]))?;
            let is_single = group > 1
                && kernel.shape.get(sides) == Some(&1)
                && kernel.shape.get(sides + 1) == Some(&group);
            match is_single && sides < 3 {
                // Each channel by itself, with one output: its outputs are Keras's inputs.
                true => (self.required(node, "weight", &named([Axis::Out, Axis::In]))?, true),
                false => (kernel, false),
            }
        };
        let bias = self.role(node, "bias", &[Axis::Out])?;
        let window = Window::of(node, kernel.shape.get(..sides).unwrap_or_default().to_vec())?;
        let (held, padding) = self.padded(node, held, &window, sides == 1 && !depthwise)?;
        let (outputs, class) = match (depthwise, &kernel.shape[..]) {
            (true, [.., input, multiplier]) => {
                let class = ["DepthwiseConv1D", "DepthwiseConv2D"].get(sides - 1).copied();
                let class = class
                    .ok_or_else(|| Error::unsupported("Keras has no depthwise convolution of volumes"))?;
                (input.checked_mul(*multiplier).ok_or_else(invalid)?, class)
            }
            (false, [.., output]) => {
                (*output, ["Conv1D", "Conv2D", "Conv3D"].get(sides - 1).copied().unwrap_or("Conv2D"))
            }
            _ => return Err(invalid()),
        };
        let mut options = window.options(padding);
        if let Some(map) = options.as_object_mut() {
            map.insert("kernel_size".to_owned(), json!(window.kernel));
            map.insert("dilation_rate".to_owned(), json!(window.dilations));
            map.insert("use_bias".to_owned(), json!(bias.is_some()));
            match depthwise {
                true => map.insert("depth_multiplier".to_owned(), json!(kernel.shape.last())),
                false => map.insert("filters".to_owned(), json!(outputs)),
            };
            if !depthwise && group > 1 {
                map.insert("groups".to_owned(), json!(group));
            }
        }
        if has_multiplier && channels.is_some_and(|channels| kernel.shape.get(sides) != Some(&channels)) {
            return Err(Error::corrupt("a convolution's channels do not fit its weight"));
        }
        let layer = self.layer(&node.name, class, options, &held);
        let is_old = self.generation != crate::model::Generation::Keras3;
        self.bind(layer, if depthwise && is_old { "depthwise_kernel" } else { "kernel" }, &kernel);
        self.bind_bias(layer, bias);
        window.applied(held, layer, padding, outputs)
    }

    fn bind_bias(&mut self, layer: usize, bias: Option<Bound>) {
        if let Some(bias) = &bias {
            self.bind(layer, "bias", bias);
        }
    }

    /// Chooses the padding of a window: an option of the layer, or a layer before it.
    fn padded(
        &mut self,
        node: &Node,
        held: Held,
        window: &Window,
        is_causal_known: bool,
    ) -> Result<(Held, &'static str)> {
        match window.padding(node, &held, is_causal_known)? {
            Padding::Named(name) => Ok((held, name)),
            Padding::Explicit(pairs) => {
                let made = self.zero_padding(&format!("{}/pad", node.name), held, &pairs)?;
                Ok((made, "valid"))
            }
        }
    }

    fn zero_padding(&mut self, name: &str, held: Held, pairs: &Pairs) -> Result<Held> {
        let classes = ["ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"];
        let class = classes.get(pairs.len().wrapping_sub(1)).copied().ok_or_else(invalid)?;
        let options = match &pairs[..] {
            [pair] => json!({ "padding": pair }),
            pairs => json!({ "padding": pairs }),
        };
        let layer = self.layer(name, class, options, &held);
        let mut dims = held.dims.clone();
        for (side, [before, after]) in pairs.iter().enumerate() {
            if let Some(Some(len)) = dims.get_mut(side + 1) {
                *len = len
                    .checked_add_signed(*before)
                    .and_then(|len| len.checked_add_signed(*after))
                    .ok_or_else(invalid)?;
            }
        }
        Ok(Held { layer, result: 0, dims, ..held })
    }

    fn transposed(&mut self, node: &Node) -> Result<Held> {
        self.allow_roles(node, &["weight", "bias"])?;
        let (held, sides) = self.pictures(node)?;
        if node.int("group", 1)? != 1 || node.attributes.contains_key("output_shape") {
            return Err(Error::unsupported(
                "Keras's transposed convolution has no groups and no stated size",
            ));
        }
        let kernel =
            self.required(node, "weight", &[&window_axes(sides)[..], &[Axis::Out, Axis::In]].concat())?;
        let bias = self.role(node, "bias", &[Axis::Out])?;
        let window = Window::of(node, kernel.shape.get(..sides).unwrap_or_default().to_vec())?;
        let outputs = kernel.shape.get(sides).copied().ok_or_else(invalid)?;
        let pads = pairs(node, sides)?.unwrap_or_else(|| vec![[0, 0]; sides]);
        let open = node.ints("output_padding")?.map_or_else(|| vec![0; sides], <[i64]>::to_vec);
        if node.text("auto_pad")?.is_some_and(|mode| mode != "NOTSET") {
            return Err(Error::unsupported("the padding of the transposed convolution is not stated"));
        }
        // What `same` cuts off, and what it adds.
        let mut is_same = true;
        for (side, [before, after]) in pads.iter().enumerate() {
            let cut = signed(window.reach(side)?)? - signed(window.stride(side))?;
            let total = cut.max(0);
            is_same &=
                [*before, *after] == [total / 2, total - total / 2] && open.get(side) == Some(&(-cut).max(0));
        }
        let crops: Pairs = if is_same { Vec::new() } else { pads.clone() };
        let mut options = json!({
            "filters": outputs, "kernel_size": window.kernel, "strides": window.strides,
            "padding": if is_same { "same" } else { "valid" }, "dilation_rate": window.dilations, "use_bias": bias.is_some(),
        });
        let is_default = (0..sides).all(|side| {
            open.get(side) == Some(&0) && window.reach(side).is_ok_and(|reach| reach >= window.stride(side))
        });
        if let Some(map) = options.as_object_mut().filter(|_| !is_same && !is_default) {
            map.insert("output_padding".to_owned(), json!(open));
        }
        let class = ["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"]
            .get(sides - 1)
            .copied()
            .ok_or_else(invalid)?;
        let layer = self.layer(&node.name, class, options, &held);
        self.bind(layer, "kernel", &kernel);
        self.bind_bias(layer, bias);
        let mut dims = held.dims.clone();
        for side in 0..sides {
            let (reach, stride) = (window.reach(side)?, window.stride(side));
            if let Some(Some(len)) = dims.get_mut(side + 1) {
                let whole =
                    len.saturating_sub(1).checked_mul(stride).and_then(|whole| whole.checked_add(reach));
                let added = open.get(side).copied().unwrap_or(0);
                let whole = whole.and_then(|whole| whole.checked_add_signed(added)).ok_or_else(invalid)?;
                *len = if is_same { len.checked_mul(stride).ok_or_else(invalid)? } else { whole };
            }
        }
        *dims.last_mut().ok_or_else(invalid)? = Some(outputs);
        let made = Held { layer, result: 0, dims, ..held };
        if crops.iter().all(|pair| *pair == [0, 0]) {
            return Ok(made);
        }
        self.cropped(&format!("{}/crop", node.name), made, &crops)
    }

    fn pool(&mut self, node: &Node) -> Result<Held> {
        let (held, sides) = self.pictures(node)?;
        let kernel = node.ints("kernel_shape")?.ok_or_else(invalid)?;
        let kernel =
            kernel.iter().map(|len| u64::try_from(*len)).collect::<std::result::Result<Vec<u64>, _>>();
        let window = Window::of(node, kernel.map_err(|_| invalid())?)?;
        if node.flag("ceil_mode")? || window.dilations.iter().any(|value| *value != 1) {
            return Err(Error::unsupported("Keras's pooling has no ceil_mode and no dilations"));
        }
        let is_max = node.op == Op::MaxPool;
        let counts_padding = !is_max && node.flag("count_include_pad")?;
        let (held, padding) = match window.padding(node, &held, false)? {
            Padding::Named("same") if counts_padding => {
                return Err(Error::unsupported("Keras's pooling does not count its padding"));
            }
            Padding::Named(name) => (held, name),
            Padding::Explicit(pairs) if counts_padding => {
                (self.zero_padding(&format!("{}/pad", node.name), held, &pairs)?, "valid")
            }
            Padding::Explicit(pairs) => {
                return Err(Error::unsupported("Keras's pooling pads its input evenly, or not at all")
                    .found(format!("padding {pairs:?}")));
            }
        };
        let classes = match is_max {
            true => ["MaxPooling1D", "MaxPooling2D", "MaxPooling3D"],
            false => ["AveragePooling1D", "AveragePooling2D", "AveragePooling3D"],
        };
        let class = classes.get(sides - 1).copied().ok_or_else(invalid)?;
        let mut options = window.options(padding);
        if let Some(map) = options.as_object_mut() {
            map.insert("pool_size".to_owned(), json!(window.kernel));
        }
        let layer = self.layer(&node.name, class, options, &held);
        let channels = held.dims.last().copied().flatten();
        let made = window.applied(held, layer, padding, 0)?;
        let mut dims = made.dims.clone();
        *dims.last_mut().ok_or_else(invalid)? = channels;
        Ok(Held { dims, ..made })
    }

    fn global_pool(&mut self, node: &Node) -> Result<Held> {
        let (held, sides) = self.pictures(node)?;
        let classes = match node.op {
            Op::GlobalMaxPool => ["GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D"],
            _ => ["GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D"],
        };
        let class = classes.get(sides - 1).copied().ok_or_else(invalid)?;
        let layer = self.layer(&node.name, class, json!({"keepdims": true}), &held);
        let last = held.dims.last().copied().flatten();
        let dims = [vec![None], vec![Some(1); sides], vec![last]].concat();
        Ok(Held { layer, result: 0, dims, ..held })
    }

    fn pad(&mut self, node: &Node) -> Result<Held> {
        if node.text("mode")?.is_some_and(|mode| mode != "constant") || node.float("value", 0.0)? != 0.0 {
            return Err(Error::unsupported("Keras's layer pads with zeros"));
        }
        let pads = node.ints("pads")?.ok_or_else(invalid)?;
        let (begins, ends) = pads.split_at_checked(pads.len() / 2).ok_or_else(invalid)?;
        let all: Pairs = begins.iter().zip(ends).map(|(begin, end)| [*begin, *end]).collect();
        let held = self.input(node, 0)?;
        let mut held = self.forwards(&node.name, &held)?;
        // An image whose channels are padded is one whose channels come first.
        let last = held.axes.iter().position(|axis| *axis == held.dims.len().checked_sub(1));
        if held.axes.contains(&None) || last.and_then(|at| all.get(at)).is_some_and(|pair| *pair != [0, 0]) {
            (held, _) = self.pictures(node)?;
        }
        let of = |axis: usize| {
            held.axes.iter().position(|own| *own == Some(axis)).and_then(|at| all.get(at)).copied()
        };
        let found = (0..held.dims.len()).map(of).collect::<Option<Pairs>>().ok_or_else(invalid)?;
        let ([batch, sides @ .., channels], true) = (&found[..], held.axes.len() == all.len()) else {
            return Err(invalid());
        };
        if *batch != [0, 0] || *channels != [0, 0] || sides.iter().flatten().any(|pad| *pad < 0) {
            return Err(Error::unsupported("Keras's layer adds zeros at the sides of images alone"));
        }
        self.zero_padding(&node.name, held, &sides.to_vec())
    }

    /// Removes what is before and after the sides of images.
    pub(super) fn cropped(&mut self, name: &str, held: Held, crops: &Pairs) -> Result<Held> {
        let class = ["Cropping1D", "Cropping2D", "Cropping3D"]
            .get(crops.len().wrapping_sub(1))
            .copied()
            .ok_or_else(invalid)?;
        let options = match &crops[..] {
            [pair] => json!({ "cropping": pair }),
            crops => json!({ "cropping": crops }),
        };
        let layer = self.layer(name, class, options, &held);
        let mut dims = held.dims.clone();
        for (side, [before, after]) in crops.iter().enumerate() {
            if let Some(Some(len)) = dims.get_mut(side + 1) {
                *len = cut(*len, *before).and_then(|len| cut(len, *after)).ok_or_else(invalid)?;
            }
        }
        Ok(Held { layer, result: 0, dims, ..held })
    }

    /// Resizes images of two sides to a stated size.
    fn resized(&mut self, node: &Node, held: Held, mode: &str, is_half: bool) -> Result<Held> {
        let sizes = node.ints("sizes")?.unwrap_or_default();
        let sizes: Option<Vec<u64>> = sizes.iter().skip(2).map(|size| u64::try_from(*size).ok()).collect();
        let rounds = mode != "nearest" || node.text("nearest_mode")? == Some("round_prefer_ceil");
        let (Some([rows, columns]), true) = (sizes.as_deref(), is_half && rounds) else {
            return Err(Error::unsupported(
                "Keras's layer makes images of a stated size, or several times as large",
            )
            .expected("sizes or whole factors, with centers of elements as coordinates"));
        };
        let options = json!({"height": rows, "width": columns, "interpolation": mode});
        let layer = self.layer(&node.name, "Resizing", options, &held);
        let dims = vec![None, Some(*rows), Some(*columns), held.len(3)];
        Ok(Held { layer, result: 0, dims, ..held })
    }

    /// Moves blocks of channels to places: a reshaping, a permutation, and a reshaping.
    fn depth_to_space(&mut self, node: &Node) -> Result<Held> {
        let (held, sides) = self.pictures(node)?;
        let block =
            u64::try_from(node.int("blocksize", 1)?).ok().filter(|block| *block > 0).ok_or_else(invalid)?;
        let [batch, rows, columns, channels] = held.dims[..] else {
            return Err(
                Error::unsupported("blocks of channels are moved in images").found(format!("{sides} sides"))
            );
        };
        let rest = channels.map(|channels| channels / block / block);
        let side = Some(block);
        // Where the rows, the columns and the channels of a block are among the channels.
        let (split, order) = match node.text("mode")? {
            Some("CRD") => ([batch, rows, columns, rest, side, side], [1, 4, 2, 5, 3]),
            _ => ([batch, rows, columns, side, side, rest], [1, 3, 2, 4, 5]),
        };
        let held = self.reshaped(&format!("{}/split", node.name), &held, split.to_vec())?;
        let layer = self.layer(&format!("{}/permute", node.name), "Permute", json!({ "dims": order }), &held);
        let dims = [0].into_iter().chain(order).map(|axis| held.len(axis)).collect();
        let times = |len: Option<u64>| len.and_then(|len| len.checked_mul(block));
        let joined = vec![batch, times(rows), times(columns), rest];
        self.reshaped(&node.name, &Held::plain(layer, 0, dims), joined).map(first)
    }

    fn resize(&mut self, node: &Node) -> Result<Held> {
        let (held, sides) = self.pictures(node)?;
        let mode = match node.text("mode")?.unwrap_or("nearest") {
            "nearest" => "nearest",
            "linear" => "bilinear",
            _ => return Err(Error::unsupported("Keras's layer resizes by the nearest element or linearly")),
        };
        let is_half = node.text("coordinate_transformation_mode")?.is_none_or(|mode| mode == "half_pixel");
        let mut factors = Vec::new();
        match (node.floats("scales")?, node.ints("sizes")?) {
            (Some(scales), _) => {
                for scale in scales.iter().skip(2) {
                    let is_whole = *scale >= 1.0 && scale.fract() == 0.0 && *scale < 1e9;
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "checked before"
                    )]
                    factors.push(is_whole.then_some(*scale as u64));
                }
            }
            (None, Some(sizes)) => {
                for (side, size) in sizes.iter().skip(2).enumerate() {
                    let (len, size) = (held.len(side + 1), u64::try_from(*size).ok());
                    let factor = len.zip(size).filter(|(len, size)| *len > 0 && size.is_multiple_of(*len));
                    factors.push(factor.map(|(len, size)| size / len));
                }
            }
            (None, None) => return Err(invalid()),
        }
        let factors =
            factors.into_iter().collect::<Option<Vec<u64>>>().filter(|factors| factors.len() == sides);
        // Whole multiples repeat each element, wherever the centers are.
        let Some(factors) = factors.filter(|_| is_half || mode == "nearest") else {
            return self.resized(node, held, mode, is_half);
        };
        let class =
            ["UpSampling1D", "UpSampling2D", "UpSampling3D"].get(sides - 1).copied().ok_or_else(invalid)?;
        let options = match (&factors[..], mode) {
            ([factor], "nearest") => json!({ "size": factor }),
            (_, _) if sides == 2 => json!({ "size": factors, "interpolation": mode }),
            (_, "nearest") => json!({ "size": factors }),
            _ => {
                return Err(Error::unsupported(
                    "Keras's layer resizes images of two sides linearly, and no others",
                ));
            }
        };
        let layer = self.layer(&node.name, class, options, &held);
        let mut dims = held.dims.clone();
        for (side, factor) in factors.iter().enumerate() {
            if let Some(Some(len)) = dims.get_mut(side + 1) {
                *len = len.checked_mul(*factor).ok_or_else(invalid)?;
            }
        }
        Ok(Held { layer, result: 0, dims, ..held })
    }
}

/// Returns a value of images with their channels last, as the graph has it: with its channels first.
fn first(held: Held) -> Held {
    let rank = held.dims.len();
    let axes = [0, rank - 1].into_iter().chain(1..rank - 1).map(Some).collect();
    Held { axes, ..held }
}

fn signed(len: u64) -> Result<i64> {
    i64::try_from(len).map_err(|_| invalid())
}

/// Returns the stated padding of each side.
fn pairs(node: &Node, sides: usize) -> Result<Option<Pairs>> {
    let Some(pads) = node.ints("pads")? else { return Ok(None) };
    let (begins, ends) =
        pads.split_at_checked(sides).filter(|(_, ends)| ends.len() == sides).ok_or_else(invalid)?;
    Ok(Some(begins.iter().zip(ends).map(|(begin, end)| [*begin, *end]).collect()))
}

impl Window {
    fn of(node: &Node, kernel: Vec<u64>) -> Result<Window> {
        let sides = kernel.len();
        let sizes = |name: &str| -> Result<Vec<u64>> {
            match node.ints(name)? {
                None => Ok(vec![1; sides]),
                Some(list) => {
                    let found = list
                        .iter()
                        .map(|len| u64::try_from(*len).ok().filter(|len| *len > 0))
                        .collect::<Option<Vec<_>>>();
                    found.filter(|found| found.len() == sides).ok_or_else(invalid)
                }
            }
        };
        Ok(Window { strides: sizes("strides")?, dilations: sizes("dilations")?, kernel })
    }

    fn stride(&self, side: usize) -> u64 {
        self.strides.get(side).copied().unwrap_or(1).max(1)
    }

    fn reach(&self, side: usize) -> Result<u64> {
        let of = |list: &[u64]| list.get(side).copied().unwrap_or(1);
        let span = of(&self.kernel).saturating_sub(1).checked_mul(of(&self.dilations));
        span.and_then(|span| span.checked_add(1)).ok_or_else(invalid)
    }

    /// Returns the padding for ⌈len / stride⌉ outputs.
    fn same(&self, side: usize, len: Option<u64>) -> Result<Option<[i64; 2]>> {
        let (reach, stride) = (self.reach(side)?, self.stride(side));
        let total = match len {
            Some(len) => {
                let covered =
                    len.div_ceil(stride).saturating_sub(1).saturating_mul(stride).saturating_add(reach);
                covered.saturating_sub(len)
            }
            None if stride == 1 => reach - 1,
            None => return Ok(None),
        };
        Ok(Some([signed(total / 2)?, signed(total - total / 2)?]))
    }

    fn padding(&self, node: &Node, held: &Held, is_causal_known: bool) -> Result<Padding> {
        match node.text("auto_pad")?.unwrap_or("NOTSET") {
            "SAME_UPPER" => return Ok(Padding::Named("same")),
            "VALID" => return Ok(Padding::Named("valid")),
            "NOTSET" => {}
            other => return Err(Error::unsupported("Keras has no such padding").found(other)),
        }
        let sides = self.kernel.len();
        let Some(pairs) = pairs(node, sides)?.filter(|pairs| pairs.iter().any(|pair| *pair != [0, 0])) else {
            return Ok(Padding::Named("valid"));
        };
        let mut is_same = true;
        for (side, pair) in pairs.iter().enumerate() {
            is_same &= self.same(side, held.len(side + 1))? == Some(*pair);
        }
        if is_same {
            return Ok(Padding::Named("same"));
        }
        if is_causal_known && pairs[..] == [[signed(self.reach(0)?)? - 1, 0]] {
            return Ok(Padding::Named("causal"));
        }
        if pairs.iter().flatten().any(|pad| *pad < 0) {
            return Err(Error::unsupported("Keras's layer adds zeros, and removes nothing")
                .found(format!("{pairs:?}")));
        }
        Ok(Padding::Explicit(pairs))
    }

    fn options(&self, padding: &str) -> Value {
        json!({"strides": self.strides, "padding": padding})
    }

    /// Returns the result of a window over images.
    fn applied(&self, held: Held, layer: usize, padding: &str, outputs: u64) -> Result<Held> {
        let mut dims = held.dims.clone();
        for side in 0..self.kernel.len() {
            let (reach, stride) = (self.reach(side)?, self.stride(side));
            if let Some(Some(len)) = dims.get_mut(side + 1) {
                *len = match padding {
                    "valid" => {
                        len.checked_sub(reach)
                            .ok_or_else(|| Error::corrupt("a window is larger than the image"))?
                            / stride
                            + 1
                    }
                    _ => len.div_ceil(stride),
                };
            }
        }
        *dims.last_mut().ok_or_else(invalid)? = Some(outputs);
        Ok(Held { layer, result: 0, dims, ..held })
    }
}

/// Removes elements from a length.
fn cut(len: u64, removed: i64) -> Option<u64> {
    len.checked_sub(u64::try_from(removed).ok()?)
}
