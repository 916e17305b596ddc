//! Layers with weights, pooling, and products of matrices.

use crate::constants::{integer, shown};
use crate::model::Program;
use crate::operator::{Binary, Operator, Reduction, Unary, Window};
use crate::unsupported;
use crate::values::{Builder, Constant, Kind, Numbers, Val, Value};
use ckpt_api::{Axis, DType, Node, Op, Result, Tensor};
use ckpt_graph::axes;
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Dims, Length, Padding};

/// Groups of a convolution that become convolutions of their own, at most.
const MOST_GROUPS: u64 = 64;

impl Builder<'_> {
    /// Writes a layer; `None` for another operator.
    pub(super) fn layer_node(&mut self, node: &Node) -> Result<Option<Val>> {
        Ok(Some(match node.op {
            Op::Gemm => self.dense(node)?,
            Op::Conv => self.conv(node)?,
            Op::ConvTranspose => self.transposed_conv(node)?,
            Op::MaxPool => self.pool(node, false)?,
            Op::AveragePool => self.pool(node, true)?,
            Op::GlobalAveragePool => self.pool_globally(node, Reduction::Mean)?,
            Op::GlobalMaxPool => self.pool_globally(node, Reduction::Max)?,
            Op::MatMul => self.product(node)?,
            Op::Einsum => self.einsum(node)?,
            Op::Gather => self.gather(node)?,
            Op::BatchNormalization => self.batch_norm(node)?,
            _ => return Ok(None),
        }))
    }

    /// The tensor in a role that a layer must have.
    pub(super) fn required(&self, node: &Node, role: &str) -> Result<(usize, &Tensor)> {
        self.parameter(node, role)?.ok_or_else(|| unsupported(node, "its weights are computed, or missing"))
    }

    /// The bias of a layer. If it has none: zeros for TensorFlow Lite, some of whose operators need one.
    fn bias(&mut self, node: &Node, outputs: u64) -> Result<Option<usize>> {
        match self.parameter(node, "bias")? {
            Some((id, tensor)) => {
                let order = axes::order(tensor, &[Axis::Out])?;
                self.weight(id, order, vec![outputs]).map(Some)
            }
            None if self.program == Program::JavaScript => Ok(None),
            None => self.zeros(outputs).map(Some),
        }
    }

    /// A vector of zeros.
    pub(super) fn zeros(&mut self, len: u64) -> Result<usize> {
        let bytes = usize::try_from(len.saturating_mul(4)).unwrap_or_default();
        self.literal(vec![0; bytes], vec![len], DType::F32)
    }

    fn dense(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let (id, tensor) = self.required(node, "weight")?;
        let wanted = match self.program {
            Program::Lite => [Axis::Out, Axis::In],
            Program::JavaScript => [Axis::In, Axis::Out],
        };
        let order = axes::order(tensor, &wanted)?;
        let shape: Vec<u64> =
            order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).take(2).collect();
        let len =
            |axis: Axis| wanted.iter().position(|own| *own == axis).and_then(|at| shape.get(at)).copied();
        let (outputs, inputs) = (len(Axis::Out).unwrap_or(1), len(Axis::In).unwrap_or(1));
        let dims = self.result(node)?;
        let weight = self.weight(id, order, shape)?;
        let bias = self.bias(node, outputs)?;
        if x.rank() != 1 {
            return self.emit_layer(Operator::Dense, [x.tensor, weight], bias, (dims, false, Kind::Real));
        }
        // The operator takes rows.
        let row = self.reshaped(&x, vec![Length::Known(1), Length::from(inputs)])?;
        let result = (of_sizes(&[1, outputs]), false, Kind::Real);
        let made = self.emit_layer(Operator::Dense, [row.tensor, weight], bias, result)?;
        self.reshaped(&made, dims)
    }

    /// Adds a layer of a value, a kernel and perhaps a bias.
    pub(super) fn emit_layer(
        &mut self,
        operator: Operator,
        inputs: [usize; 2],
        bias: Option<usize>,
        result: (Dims, bool, Kind),
    ) -> Result<Val> {
        let inputs: Vec<usize> = inputs.into_iter().chain(bias).collect();
        self.emit_active(operator, &inputs, result)
    }

    /// The input of a layer of images or volumes, with its channels last. A sequence is an image of one row.
    fn image(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        match x.rank() {
            3 => {
                let x = self.turned(&x)?;
                let dims = with_row(&x.dims);
                self.reshaped(&x, dims)
            }
            4 | 5 => self.turned(&x),
            _ => {
                let why = "only windows over sequences, images and volumes are written";
                Err(unsupported(node, why).field(shown(&x)))
            }
        }
    }

    /// The lengths of a node's result as an image.
    fn image_dims(&self, node: &Node) -> Result<Dims> {
        let dims = self.result(node)?;
        Ok(if dims.len() == 3 { with_row(&dims) } else { dims })
    }

    /// The result of a layer of images: a sequence if the node's is one.
    fn of_image(&mut self, node: &Node, made: Val) -> Result<Val> {
        let dims = self.result(node)?;
        match dims.len() {
            3 => self.reshaped(&made, dims),
            _ => Ok(made),
        }
    }

    /// The window of a node with this kernel, over an image; explicit padding is added to the image first, as `filler`.
    fn window(&mut self, node: &Node, kernel: &[u64], x: Val, filler: f64) -> Result<(Window, Val)> {
        let sides = kernel.len();
        let of = |name: &str| each_side(node, name, sides).map(|all| all.unwrap_or_else(|| vec![1; sides]));
        let (strides, dilations) = (of("strides")?, of("dilations")?);
        let over_one = |all: &[i64]| all.iter().any(|one| *one > 1);
        if self.program == Program::JavaScript && over_one(&strides) && over_one(&dilations) {
            return Err(unsupported(node, "TensorFlow.js has no window with strides and dilations"));
        }
        let window =
            |is_padded| Window { strides: narrow(&strides), dilations: narrow(&dilations), is_padded };
        match node.text("auto_pad")? {
            Some("SAME_UPPER") => return Ok((window(true), x)),
            None | Some("NOTSET" | "VALID") => {}
            Some(_) => return Err(unsupported(node, "it pads the beginning more than the end")),
        }
        let pads: Vec<[i64; 2]> = match node.ints("pads")? {
            None => vec![[0; 2]; sides],
            Some([left, right]) if sides == 2 => vec![[0; 2], [*left, *right]],
            Some(all) if all.len() == sides.saturating_mul(2) => {
                all.iter().zip(all.iter().skip(sides)).map(|(begin, end)| [*begin, *end]).collect()
            }
            Some(_) => return Err(unsupported(node, "it pads other axes")),
        };
        if pads.iter().all(|own| *own == [0; 2]) {
            return Ok((window(false), x));
        }
        let unsigned =
            |all: &[i64]| all.iter().map(|value| u64::try_from(*value).unwrap_or(1)).collect::<Vec<u64>>();
        let same = ckpt_graph::Window {
            strides: unsigned(&strides),
            dilations: unsigned(&dilations),
            padding: Padding::Same,
        };
        let is_same = pads.iter().enumerate().all(|(side, own)| {
            let len = x.dims.get(side.saturating_add(2)).copied().unwrap_or(Length::Unknown);
            let found = same.side(side, kernel.get(side).copied().unwrap_or(1), len);
            let pads = found
                .and_then(|found| found.pads)
                .map(|pads| pads.map(|pad| i64::try_from(pad).unwrap_or(-1)));
            pads == Some(*own)
        });
        if is_same {
            return Ok((window(true), x));
        }
        let pairs: Vec<[i64; 2]> = [[0; 2]; 2].into_iter().chain(pads).collect();
        let x = self.padded(node, &x, &pairs, filler)?;
        Ok((window(false), x))
    }

    fn conv(&mut self, node: &Node) -> Result<Val> {
        let x = self.image(node)?;
        let (id, tensor) = self.required(node, "weight")?;
        let groups = u64::try_from(node.int("group", 1)?).unwrap_or(1);
        let has_multiplier = tensor.axis(Axis::Multiplier).is_some();
        let sides = kernel_axes(x.rank());
        let len = |axis: Axis| tensor.axis(axis).and_then(|at| tensor.shape.get(at)).copied().unwrap_or(1);
        let kernel: Vec<u64> = sides.iter().map(|axis| len(*axis)).collect();
        let dims = self.image_dims(node)?;
        let channels = match has_multiplier {
            true => len(Axis::In),
            false => x.dims.get(1).and_then(|len| len.size()).unwrap_or(0),
        };
        if has_multiplier && x.rank() != 4 {
            return Err(unsupported(node, "it has kernels of single channels over volumes"));
        }
        let is_depthwise =
            x.rank() == 4 && (has_multiplier || (groups > 1 && groups == channels && len(Axis::In) == 1));
        let (inputs, outputs) = match has_multiplier {
            true => (1, len(Axis::In).saturating_mul(len(Axis::Multiplier))),
            false => (len(Axis::In), len(Axis::Out)),
        };
        // Volumes have their kernels as TensorFlow does in either program.
        let is_lite = self.program == Program::Lite && x.rank() == 4;
        let multiplier = outputs.checked_div(channels).unwrap_or(1);
        let (order, lens) = match (has_multiplier, is_depthwise, is_lite) {
            (true, ..) => (
                Self::window_order(tensor, &sides, &[], &[Axis::In, Axis::Multiplier])?,
                [channels, multiplier],
            ),
            (false, true, _) => {
                (Self::window_order(tensor, &sides, &[], &[Axis::In, Axis::Out])?, [channels, multiplier])
            }
            (false, false, true) => {
                (Self::window_order(tensor, &sides, &[Axis::Out], &[Axis::In])?, [inputs, 0])
            }
            _ => (Self::window_order(tensor, &sides, &[], &[Axis::In, Axis::Out])?, [inputs, outputs]),
        };
        let shape = match (is_depthwise, is_lite) {
            (true, true) => [&[1], &kernel[..], &[outputs]].concat(),
            (false, true) => [&[outputs], &kernel[..], &[inputs]].concat(),
            _ => [&kernel[..], &lens].concat(),
        };
        let weight = self.weight(id, order, shape)?;
        let bias = self.bias(node, outputs)?;
        let (window, x) = self.window(node, &kernel, x, 0.0)?;
        let result = (dims, true, Kind::Real);
        let made = match is_depthwise {
            true => {
                let multiplier = i32::try_from(multiplier).unwrap_or(1);
                let operator = Operator::DepthwiseConv { window, multiplier };
                self.emit_layer(operator, [x.tensor, weight], bias, result)?
            }
            false if groups > 1 && !is_lite => {
                self.conv_of_groups(node, (x, weight, bias), (window, &kernel, [inputs, outputs]), groups)?
            }
            false => self.emit_layer(Operator::Conv(window), [x.tensor, weight], bias, result)?,
        };
        self.of_image(node, made)
    }

    /// A convolution for each group of channels, whose results are joined.
    fn conv_of_groups(
        &mut self,
        node: &Node,
        (x, weight, bias): (Val, usize, Option<usize>),
        (window, kernel, [inputs, outputs]): (Window, &[u64], [u64; 2]),
        groups: u64,
    ) -> Result<Val> {
        if groups > MOST_GROUPS || !outputs.is_multiple_of(groups) {
            return Err(unsupported(node, "it has too many groups"));
        }
        let dims = self.image_dims(node)?;
        let own = outputs / groups;
        let count = usize::try_from(groups).unwrap_or_default();
        let with_channels = |dims: &Dims, len: u64| {
            let mut dims = dims.clone();
            dims.iter_mut().skip(1).take(1).for_each(|own| *own = Length::from(len));
            dims
        };
        let part = (with_channels(&x.dims, inputs), true, Kind::Real);
        let images = self.parts(&x, x.rank().saturating_sub(1), &vec![part; count])?;
        let whole: Vec<u64> = [kernel, &[inputs, outputs]].concat();
        let whole = Val { tensor: weight, dims: of_sizes(&whole), is_turned: false, kind: Kind::Real };
        let part = (of_sizes(&[kernel, &[inputs, own]].concat()), false, Kind::Real);
        let kernels = self.parts(&whole, whole.rank().saturating_sub(1), &vec![part; count])?;
        let mut made = Vec::with_capacity(count);
        for (image, kernel) in images.iter().zip(&kernels) {
            let result = (with_channels(&dims, own), true, Kind::Real);
            let inputs = [image.tensor, kernel.tensor];
            made.push(self.emit(Operator::Conv(window.clone()), &inputs, result)?.tensor);
        }
        let axis = i32::try_from(x.rank().saturating_sub(1)).unwrap_or(0);
        let joined = self.emit(Operator::Concat { axis }, &made, (dims.clone(), true, Kind::Real))?;
        match bias {
            None => Ok(joined),
            Some(bias) => {
                let add = Operator::Binary(Binary::Add);
                self.emit_active(add, &[joined.tensor, bias], (dims, true, Kind::Real))
            }
        }
    }

    fn transposed_conv(&mut self, node: &Node) -> Result<Val> {
        let x = self.image(node)?;
        if x.rank() > 4 {
            return Err(unsupported(node, "it is one of volumes"));
        }
        let (id, tensor) = self.required(node, "weight")?;
        let sides = kernel_axes(x.rank());
        let len = |axis: Axis| tensor.axis(axis).and_then(|at| tensor.shape.get(at)).copied().unwrap_or(1);
        let (inputs, outputs) = (len(Axis::In), len(Axis::Out));
        let kernel: Vec<u64> = sides.iter().map(|axis| len(*axis)).collect();
        let (order, shape) = match self.program {
            Program::Lite => (
                Self::window_order(tensor, &sides, &[Axis::Out], &[Axis::In])?,
                [&[outputs], &kernel[..], &[inputs]].concat(),
            ),
            Program::JavaScript => (
                Self::window_order(tensor, &sides, &[], &[Axis::Out, Axis::In])?,
                [&kernel[..], &[outputs, inputs]].concat(),
            ),
        };
        if node.int("group", 1)? != 1
            || node.ints("dilations")?.is_some_and(|all| all.iter().any(|one| *one != 1))
        {
            return Err(unsupported(node, "it has groups or dilations"));
        }
        let dims = self.image_dims(node)?;
        let (window, out) = self.transposed_window(node, &x, &dims, &kernel)?;
        let mut wanted = out.clone();
        wanted.push(i64::try_from(outputs).unwrap_or(i64::MAX));
        let batch = match x.dims.first().and_then(|len| len.known()) {
            Some(batch) => self.ints(&[&[batch], &wanted[..]].concat())?,
            None => self.free_shape(&x, &wanted)?,
        };
        let weight = self.weight(id, order, shape)?;
        let inputs = [batch, weight, x.tensor].into_iter().chain(self.bias(node, outputs)?);
        let inputs: Vec<usize> = inputs.collect();
        let made = self.emit_active(Operator::ConvTranspose(window), &inputs, (dims, true, Kind::Real))?;
        self.of_image(node, made)
    }

    /// The window of a transposed convolution, and the lengths of its result: the operator computes the padding from these.
    fn transposed_window(
        &self,
        node: &Node,
        x: &Val,
        dims: &Dims,
        kernel: &[u64],
    ) -> Result<(Window, Vec<i64>)> {
        let strides = each_side(node, "strides", kernel.len())?.unwrap_or_else(|| vec![1; kernel.len()]);
        let len = |dims: &Dims, axis: usize| dims.get(axis).and_then(|len| len.known());
        let wrong = || unsupported(node, "its padding is neither none nor that which keeps the size");
        let mut out = Vec::new();
        let (mut is_valid, mut is_same) = (true, true);
        for (axis, (kernel, stride)) in kernel.iter().zip(&strides).enumerate() {
            let (Some(from), Some(to)) = (len(&x.dims, axis + 2), len(dims, axis + 2)) else {
                return Err(unsupported(node, "the size of its result is not known"));
            };
            let kernel = i64::try_from(*kernel).unwrap_or(i64::MAX);
            let full = from.saturating_sub(1).saturating_mul(*stride).saturating_add(kernel);
            let begin = match node.ints("pads")? {
                Some([begin, _]) if axis == 1 => *begin,
                Some([top, left, _, _]) => [*top, *left][axis.min(1)],
                _ => 0,
            };
            let cut = full.saturating_sub(to);
            is_valid &= cut == 0;
            is_same &= from.saturating_mul(*stride) == to;
            // The operator cuts half of it, rounded down, from the beginning.
            if cut < 0 || begin != cut / 2 {
                return Err(wrong());
            }
            out.push(to);
        }
        if !is_valid && !is_same {
            return Err(wrong());
        }
        let dilations = vec![1; kernel.len()];
        Ok((Window { strides: narrow(&strides), dilations, is_padded: !is_valid }, out))
    }

    /// A shape whose first length is that of a value, and others are known.
    pub(super) fn free_shape(&mut self, x: &Val, others: &[i64]) -> Result<usize> {
        let of = |len: usize| (of_sizes(&[len as u64]), false, Kind::Int);
        let shape = self.emit(Operator::Shape, &[x.tensor], of(x.rank()))?;
        let (begin, end, step) = (self.ints(&[0])?, self.ints(&[1])?, self.ints(&[1])?);
        let slice = Operator::StridedSlice { begin_mask: 0, end_mask: 0 };
        let first = self.emit(slice, &[shape.tensor, begin, end, step], of(1))?;
        let rest = self.ints(others)?;
        let joined = self.emit(Operator::Concat { axis: 0 }, &[first.tensor, rest], of(others.len() + 1))?;
        Ok(joined.tensor)
    }

    fn pool(&mut self, node: &Node, is_mean: bool) -> Result<Val> {
        let x = self.image(node)?;
        let sides = x.rank().saturating_sub(2);
        let kernel = each_side(node, "kernel_shape", sides)?
            .ok_or_else(|| unsupported(node, "it does not state its window"))?;
        let lens: Vec<u64> = kernel.iter().map(|len| u64::try_from(*len).unwrap_or(1)).collect();
        if node.int("ceil_mode", 0)? != 0
            || node.ints("dilations")?.is_some_and(|all| all.iter().any(|one| *one != 1))
        {
            return Err(unsupported(node, "its window is dilated, or may be cut at the end"));
        }
        let counts_padding = node.int("count_include_pad", 0)? != 0;
        let dims = self.image_dims(node)?;
        let filler = if is_mean { 0.0 } else { f64::from(f32::MIN) };
        let (window, x) = self.window(node, &lens, x, filler)?;
        let is_padded =
            window.is_padded || node.ints("pads")?.is_some_and(|pads| pads.iter().any(|pad| *pad != 0));
        if is_mean && is_padded && counts_padding == window.is_padded {
            return Err(unsupported(node, "it counts padding in another way"));
        }
        let kernel = narrow(&kernel);
        let made = match sides {
            3 if self.program == Program::Lite => self.pool_volumes(&x, is_mean, &kernel, &window, dims)?,
            _ => {
                let operator = Operator::Pool { is_mean, kernel, window };
                self.emit_active(operator, &[x.tensor], (dims, true, Kind::Real))?
            }
        };
        self.of_image(node, made)
    }

    /// Pools volumes as images: first the rows and columns of each layer, then the layers. Means stay means, because each
    /// window has as many elements in every layer.
    fn pool_volumes(
        &mut self,
        x: &Val,
        is_mean: bool,
        kernel: &[i32],
        window: &Window,
        dims: Dims,
    ) -> Result<Val> {
        let ([batch, channels, depth, rows, columns], [_, _, to, out_rows, out_columns]) =
            (fixed(&x.dims)?, fixed(&dims)?);
        let of = |kernel: [i32; 2], strides: [i32; 2]| Operator::Pool {
            is_mean,
            kernel: kernel.to_vec(),
            window: Window { strides: strides.to_vec(), dilations: vec![1; 2], is_padded: window.is_padded },
        };
        let at = |all: &[i32], side: usize| all.get(side).copied().unwrap_or(1);
        let images = self.reshaped(x, vec![batch * depth, channels, rows, columns])?;
        let sides = of([at(kernel, 1), at(kernel, 2)], [at(&window.strides, 1), at(&window.strides, 2)]);
        let pooled = (vec![batch * depth, channels, out_rows, out_columns], true, Kind::Real);
        let made = self.emit(sides, &[images.tensor], pooled)?;
        let layers = self.reshaped(&made, vec![batch, channels, depth, out_rows * out_columns])?;
        let sides = of([at(kernel, 0), 1], [at(&window.strides, 0), 1]);
        let pooled = (vec![batch, channels, to, out_rows * out_columns], true, Kind::Real);
        let made = self.emit(sides, &[layers.tensor], pooled)?;
        self.reshaped(&made, dims)
    }

    fn pool_globally(&mut self, node: &Node, by: Reduction) -> Result<Val> {
        let x = self.image(node)?;
        let dims = self.image_dims(node)?;
        let axes: Vec<i64> = (1..).take(x.rank().saturating_sub(2)).collect();
        let axes = self.ints(&axes)?;
        let reduce = Operator::Reduce { by, keeps: true };
        let made = self.emit(reduce, &[x.tensor, axes], (dims, true, Kind::Real))?;
        self.of_image(node, made)
    }

    fn product(&mut self, node: &Node) -> Result<Val> {
        let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
        let (a, b) = (self.plain(&a)?, self.plain(&b)?);
        if a.rank() < 2 || b.rank() < 2 {
            return Err(unsupported(node, "it multiplies vectors"));
        }
        let dims = self.result(node)?;
        self.emit(Operator::BatchMatMul, &[a.tensor, b.tensor], (dims, false, Kind::Real))
    }

    fn gather(&mut self, node: &Node) -> Result<Val> {
        let dims = self.result(node)?;
        let (data, indices, axis, kind) = match self.parameter(node, "weight")? {
            Some((id, tensor)) => {
                let order = axes::order(tensor, &[Axis::Feature, Axis::Out])?;
                let shape = order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).collect();
                (self.weight(id, order, shape)?, self.input(node, 0)?, 0, Kind::Real)
            }
            None => {
                let (data, indices) = (self.input(node, 0)?, self.input(node, 1)?);
                let data = self.plain(&data)?;
                let axis = ckpt_graph::shape::resolve(node.int("axis", 0)?, data.rank());
                let axis = axis.ok_or_else(|| unsupported(node, "its axis does not exist"))?;
                let indices = match data.dims.get(axis).and_then(|len| len.known()) {
                    Some(len) => self.without_negatives(node, indices, len)?,
                    None => indices,
                };
                (data.tensor, indices, i32::try_from(axis).unwrap_or(0), data.kind)
            }
        };
        let indices = self.plain(&indices)?;
        self.emit(Operator::Gather { axis }, &[data, indices.tensor], (dims, false, kind))
    }

    /// Indices of an axis of this length, in which negative ones count from the end: the operator takes no negative ones.
    fn without_negatives(&mut self, node: &Node, indices: Val, len: i64) -> Result<Val> {
        let name = node.inputs.get(1).map_or("", String::as_str);
        if let Some(Value::Constant(constant)) = self.values.get(name)
            && let Numbers::Bytes(all) = &constant.numbers
        {
            let numbers: Vec<i64> = all.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect();
            if numbers.iter().all(|number| *number >= 0) {
                return Ok(indices);
            }
            let numbers =
                numbers.iter().map(|number| integer(if *number < 0 { number + len } else { *number }));
            let numbers = Numbers::Bytes(numbers.collect::<Result<_>>()?);
            let constant = Constant { numbers, ..constant.clone() };
            let rank = constant.dims.len();
            return self.placed(&constant, rank, false);
        }
        let indices = self.plain(&indices)?;
        let result = |kind: Kind| (indices.dims.clone(), false, kind);
        let zero = self.literal(vec![0; 4], Vec::new(), DType::I32)?;
        let end = self.literal(integer(len)?.to_vec(), Vec::new(), DType::I32)?;
        let is_negative =
            self.emit(Operator::Binary(Binary::Less), &[indices.tensor, zero], result(Kind::Bool))?;
        let moved = self.emit(Operator::Binary(Binary::Add), &[indices.tensor, end], result(Kind::Int))?;
        let inputs = [is_negative.tensor, moved.tensor, indices.tensor];
        self.emit(Operator::Select, &inputs, result(Kind::Int))
    }

    /// `(x − mean) · scale / √(variance + epsilon) + bias`, whose numbers the interpreter computes.
    fn batch_norm(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = if x.rank() > 2 { self.turned(&x)? } else { x };
        let dims = self.result(node)?;
        let vector = |builder: &mut Self, role: &str| -> Result<Option<(usize, Dims)>> {
            let Some((id, tensor)) = builder.parameter(node, role)? else { return Ok(None) };
            let order = axes::order(tensor, &[Axis::Out])?;
            let shape = vec![tensor.shape.elements()];
            Ok(Some((builder.weight(id, order, shape.clone())?, of_sizes(&shape))))
        };
        let missing = || unsupported(node, "it lacks its statistics");
        let (variance, own) = vector(self, "variance")?.ok_or_else(missing)?;
        let (mean, _) = vector(self, "mean")?.ok_or_else(missing)?;
        let variance = Val { tensor: variance, dims: own, is_turned: false, kind: Kind::Real };
        let sum = self.with_scalar(Binary::Add, &variance, node.float("epsilon", 1e-5)?)?;
        let root = self.unary(Unary::Sqrt, &sum)?;
        let result = (dims, x.is_turned, Kind::Real);
        let centered = self.emit(Operator::Binary(Binary::Sub), &[x.tensor, mean], result.clone())?;
        // Divided, then scaled, as the layer is defined: so results have the same bits.
        let (scale, bias) = (vector(self, "scale")?, vector(self, "bias")?);
        let steps = [
            (Binary::Div, Some(root.tensor)),
            (Binary::Mul, scale.map(|(scale, _)| scale)),
            (Binary::Add, bias.map(|(bias, _)| bias)),
        ];
        let mut made = centered;
        for (own, operand) in steps {
            if let Some(operand) = operand {
                made = self.emit_active(Operator::Binary(own), &[made.tensor, operand], result.clone())?;
            }
        }
        Ok(made)
    }
}

/// The lengths of a sequence as those of an image of one row.
fn with_row(dims: &[Length]) -> Dims {
    let mut dims = dims.to_vec();
    dims.insert(2.min(dims.len()), Length::Known(1));
    dims
}

/// The numbers of a window's sides, of a sequence with 1 for its row; `None` if they are not stated.
fn each_side(node: &Node, name: &str, sides: usize) -> Result<Option<Vec<i64>>> {
    match node.ints(name)? {
        None => Ok(None),
        Some([columns]) if sides == 2 => Ok(Some(vec![1, *columns])),
        Some(all) if all.len() == sides => Ok(Some(all.to_vec())),
        Some(_) => Err(unsupported(node, "its window has another number of sides than its images")),
    }
}

/// The axes of a kernel over images or volumes of this rank.
fn kernel_axes(rank: usize) -> Vec<Axis> {
    let all = [Axis::KernelZ, Axis::KernelY, Axis::KernelX];
    all.into_iter().skip(5usize.saturating_sub(rank)).collect()
}

/// The lengths of volumes.
fn fixed(dims: &[Length]) -> Result<[Length; 5]> {
    dims.try_into().map_err(|_| ckpt_api::Error::defect("a volume has five axes"))
}

fn narrow(all: &[i64]) -> Vec<i32> {
    all.iter().map(|value| i32::try_from(*value).unwrap_or(i32::MAX)).collect()
}
