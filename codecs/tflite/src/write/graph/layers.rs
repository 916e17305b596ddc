//! Layers with weights, pooling, and products of matrices.

use super::super::flat::Field;
use super::constants::shown;
use super::unsupported;
use super::values::{Builder, Kind, Val, options};
use ckpt_api::{Axis, DType, Node, Op, Result, Tensor};
use ckpt_graph::shape::of_sizes;
use ckpt_graph::{Dims, Length, Padding, Window};

/// The paddings that keep the size but for strides, and that add nothing.
const SAME: i8 = 0;
const VALID: i8 = 1;

/// A window over the rows and columns of an image.
struct Sides {
    kernel: [u64; 2],
    strides: [i32; 2],
    dilations: [i32; 2],
    padding: i8,
}

impl Builder<'_> {
    /// Writes a layer; `None` for another operator.
    pub(super) fn layer_node(&mut self, node: &Node) -> Result<Option<Val>> {
        Ok(Some(match node.op {
            Op::Gemm => self.dense(node)?,
            Op::Conv => self.conv(node)?,
            Op::ConvTranspose => self.transposed_conv(node)?,
            Op::MaxPool => self.pool(node, 17)?,
            Op::AveragePool => self.pool(node, 1)?,
            Op::GlobalAveragePool => self.pool_globally(node, 40)?,
            Op::GlobalMaxPool => self.pool_globally(node, 82)?,
            Op::MatMul => self.product(node)?,
            Op::Einsum => self.einsum(node)?,
            Op::Gather => self.gather(node)?,
            Op::BatchNormalization => self.batch_norm(node)?,
            _ => return Ok(None),
        }))
    }

    /// The tensor in a role that a layer must have.
    fn required(&self, node: &Node, role: &str) -> Result<(usize, &Tensor)> {
        self.parameter(node, role)?.ok_or_else(|| unsupported(node, "its weights are computed, or missing"))
    }

    /// The bias of a layer; zeros if it has none, for some operators need one.
    fn bias(&mut self, node: &Node, outputs: u64) -> Result<usize> {
        match self.parameter(node, "bias")? {
            Some((id, tensor)) => {
                let order = Self::order(tensor, &[Axis::Out])?;
                self.weight(id, order, vec![outputs])
            }
            None => {
                let bytes = usize::try_from(outputs.saturating_mul(4)).unwrap_or_default();
                self.literal(vec![0; bytes], vec![outputs], DType::F32)
            }
        }
    }

    fn dense(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = self.plain(&x)?;
        let (id, tensor) = self.required(node, "weight")?;
        let order = Self::order(tensor, &[Axis::Out, Axis::In])?;
        let len = |at: usize| order.get(at).and_then(|axis| tensor.shape.get(*axis)).copied().unwrap_or(1);
        let (outputs, inputs) = (len(0), len(1));
        let dims = self.result(node)?;
        let weight = self.weight(id, order, vec![outputs, inputs])?;
        let bias = self.bias(node, outputs)?;
        let keeps = x.rank() > 2;
        let (x, dims) = match x.rank() {
            // The operator takes rows.
            1 => (self.reshaped(&x, vec![Length::Known(1), Length::from(inputs)])?, dims),
            _ => (x, dims),
        };
        let options = options(8, [(2, Field::Flag(keeps))]);
        let inputs = [Some(x.tensor), Some(weight), Some(bias)];
        self.emit_active(9, &inputs, (options, 0), (dims, false, Kind::Real))
    }

    /// The input of a layer of images, with its channels last. A sequence is an image of one row.
    fn image(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        match x.rank() {
            3 => {
                let x = self.turned(&x)?;
                let dims = with_row(&x.dims);
                self.reshaped(&x, dims)
            }
            4 => self.turned(&x),
            _ => {
                Err(unsupported(node, "only windows over sequences and images are written").field(shown(&x)))
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
    fn sides(&mut self, node: &Node, kernel: [u64; 2], x: Val, filler: f64) -> Result<(Sides, Val)> {
        let pair = |name: &str| pair(node, name).map(|pair| pair.unwrap_or([1, 1]));
        let narrow = |pair: [i64; 2]| pair.map(|value| i32::try_from(value).unwrap_or(i32::MAX));
        let (strides, dilations) = (pair("strides")?, pair("dilations")?);
        let sides =
            |padding| Sides { kernel, strides: narrow(strides), dilations: narrow(dilations), padding };
        match node.text("auto_pad")? {
            Some("SAME_UPPER") => return Ok((sides(SAME), x)),
            None | Some("NOTSET" | "VALID") => {}
            Some(_) => return Err(unsupported(node, "it pads the beginning more than the end")),
        }
        let [top, left, bottom, right] = match node.ints("pads")? {
            None => [0; 4],
            Some([left, right]) => [0, *left, 0, *right],
            Some([top, left, bottom, right]) => [*top, *left, *bottom, *right],
            Some(_) => return Err(unsupported(node, "it pads other axes")),
        };
        if [top, left, bottom, right] == [0; 4] {
            return Ok((sides(VALID), x));
        }
        let unsigned = |pair: [i64; 2]| pair.map(|value| u64::try_from(value).unwrap_or(1)).to_vec();
        let window =
            Window { strides: unsigned(strides), dilations: unsigned(dilations), padding: Padding::Same };
        let is_same = [(0, 2, [top, bottom]), (1, 3, [left, right])].into_iter().all(|(side, axis, own)| {
            let len = x.dims.get(axis).copied().unwrap_or(Length::Unknown);
            let found = window.side(side, kernel.get(side).copied().unwrap_or(1), len);
            let pads = found
                .and_then(|found| found.pads)
                .map(|pads| pads.map(|pad| i64::try_from(pad).unwrap_or(-1)));
            pads == Some(own)
        });
        if is_same {
            return Ok((sides(SAME), x));
        }
        let pairs = [[0, 0], [0, 0], [top, bottom], [left, right]];
        let x = self.padded(node, &x, &pairs, filler)?;
        Ok((sides(VALID), x))
    }

    fn conv(&mut self, node: &Node) -> Result<Val> {
        let x = self.image(node)?;
        let (id, tensor) = self.required(node, "weight")?;
        let groups = u64::try_from(node.int("group", 1)?).unwrap_or(1);
        let has = |axis: Axis| tensor.axis(axis).is_some();
        let kernel = [Axis::KernelY, Axis::KernelX];
        let len = |axis: Axis| tensor.axis(axis).and_then(|at| tensor.shape.get(at)).copied().unwrap_or(1);
        let [rows, columns] = kernel.map(len);
        let dims = self.image_dims(node)?;
        let channels = x.dims.get(1).and_then(|len| len.size()).unwrap_or(0);
        let is_depthwise = has(Axis::Multiplier) || (groups > 1 && groups == channels && len(Axis::In) == 1);
        let (order, shape, outputs) = match (has(Axis::Multiplier), is_depthwise) {
            (true, _) => {
                let order =
                    Self::window_order(tensor, &[Axis::KernelY, Axis::KernelX, Axis::In, Axis::Multiplier])?;
                let outputs = len(Axis::In).saturating_mul(len(Axis::Multiplier));
                (order, vec![1, rows, columns, outputs], outputs)
            }
            (false, true) => {
                let order = Self::window_order(tensor, &[Axis::In, Axis::KernelY, Axis::KernelX, Axis::Out])?;
                (order, vec![1, rows, columns, len(Axis::Out)], len(Axis::Out))
            }
            (false, false) => {
                let order = Self::window_order(tensor, &[Axis::Out, Axis::KernelY, Axis::KernelX, Axis::In])?;
                (order, vec![len(Axis::Out), rows, columns, len(Axis::In)], len(Axis::Out))
            }
        };
        let weight = self.weight(id, order, shape)?;
        let bias = self.bias(node, outputs)?;
        let (sides, x) = self.sides(node, [rows, columns], x, 0.0)?;
        let Sides { strides: [down, across], dilations: [rows, columns], padding, .. } = sides;
        let window = [(0, Field::I8(padding)), (1, Field::I32(across)), (2, Field::I32(down))];
        let inputs = [Some(x.tensor), Some(weight), Some(bias)];
        let result = (dims, true, Kind::Real);
        if is_depthwise {
            let multiplier =
                outputs.checked_div(channels).and_then(|own| i32::try_from(own).ok()).unwrap_or(1);
            let more = [(3, Field::I32(multiplier)), (5, Field::I32(columns)), (6, Field::I32(rows))];
            let options = options(2, window.into_iter().chain(more));
            let made = self.emit_active(4, &inputs, (options, 4), result)?;
            return self.of_image(node, made);
        }
        let more = [(4, Field::I32(columns)), (5, Field::I32(rows))];
        let made = self.emit_active(3, &inputs, (options(1, window.into_iter().chain(more)), 3), result)?;
        self.of_image(node, made)
    }

    fn transposed_conv(&mut self, node: &Node) -> Result<Val> {
        let x = self.image(node)?;
        let (id, tensor) = self.required(node, "weight")?;
        let order = Self::window_order(tensor, &[Axis::Out, Axis::KernelY, Axis::KernelX, Axis::In])?;
        let len = |axis: Axis| tensor.axis(axis).and_then(|at| tensor.shape.get(at)).copied().unwrap_or(1);
        let [outputs, rows, columns] = [Axis::Out, Axis::KernelY, Axis::KernelX].map(len);
        let shape = vec![outputs, rows, columns, len(Axis::In)];
        if node.int("group", 1)? != 1
            || node.ints("dilations")?.is_some_and(|all| all.iter().any(|one| *one != 1))
        {
            return Err(unsupported(node, "it has groups or dilations"));
        }
        let dims = self.image_dims(node)?;
        let strides = pair(node, "strides")?.unwrap_or([1, 1]);
        // The operator takes the size of its result, and computes the padding from it.
        let len = |dims: &Dims, axis: usize| dims.get(axis).and_then(|len| len.known());
        let mut out = Vec::new();
        let mut is_valid = true;
        for (axis, (kernel, stride)) in [rows, columns].into_iter().zip(strides).enumerate() {
            let (Some(from), Some(to)) = (len(&x.dims, axis + 2), len(&dims, axis + 2)) else {
                return Err(unsupported(node, "the size of its result is not known"));
            };
            let kernel = i64::try_from(kernel).unwrap_or(i64::MAX);
            let full = from.saturating_sub(1).saturating_mul(stride).saturating_add(kernel);
            is_valid &= full == to;
            let pads = match node.ints("pads")? {
                Some([begin, end]) if axis == 1 => [*begin, *end],
                Some([top, left, bottom, right]) => [[*top, *bottom], [*left, *right]][axis],
                _ => [0, 0],
            };
            let total = full.saturating_sub(to);
            let is_same = from.saturating_mul(stride) == to && total >= 0;
            let split = [total / 2, total.saturating_sub(total / 2)];
            if full != to && (!is_same || (pads != split && node.text("auto_pad")?.is_none())) {
                return Err(unsupported(node, "its padding is neither none nor that which keeps the size"));
            }
            out.push(to);
        }
        let batch = match x.dims.first().and_then(|len| len.known()) {
            Some(batch) => self.ints(&[batch, out[0], out[1], i64::try_from(outputs).unwrap_or(i64::MAX)])?,
            None => self.free_shape(&x, &[out[0], out[1], i64::try_from(outputs).unwrap_or(i64::MAX)])?,
        };
        let weight = self.weight(id, order, shape)?;
        let bias = self.bias(node, outputs)?;
        let padding = if is_valid { VALID } else { SAME };
        let narrow = strides.map(|stride| i32::try_from(stride).unwrap_or(i32::MAX));
        let options =
            options(49, [(0, Field::I8(padding)), (1, Field::I32(narrow[1])), (2, Field::I32(narrow[0]))]);
        let inputs = [Some(batch), Some(weight), Some(x.tensor), Some(bias)];
        let made = self.emit_active(67, &inputs, (options, 3), (dims, true, Kind::Real))?;
        self.of_image(node, made)
    }

    /// A shape whose first length is that of a value, and others are known.
    fn free_shape(&mut self, x: &Val, others: &[i64]) -> Result<usize> {
        let shape =
            self.emit(77, &[x.tensor], options(55, [(0, Field::I8(2))]), (of_sizes(&[4]), false, Kind::Int))?;
        let (begin, end, step) = (self.ints(&[0])?, self.ints(&[1])?, self.ints(&[1])?);
        let inputs = [shape.tensor, begin, end, step];
        let first = self.emit(45, &inputs, options(32, []), (of_sizes(&[1]), false, Kind::Int))?;
        let rest = self.ints(others)?;
        let joined =
            self.emit(2, &[first.tensor, rest], options(10, []), (of_sizes(&[4]), false, Kind::Int))?;
        Ok(joined.tensor)
    }

    fn pool(&mut self, node: &Node, code: i32) -> Result<Val> {
        let x = self.image(node)?;
        let kernel =
            pair(node, "kernel_shape")?.ok_or_else(|| unsupported(node, "it does not state its window"))?;
        let kernel = kernel.map(|len| u64::try_from(len).unwrap_or(1));
        if node.int("ceil_mode", 0)? != 0
            || node.ints("dilations")?.is_some_and(|all| all.iter().any(|one| *one != 1))
        {
            return Err(unsupported(node, "its window is dilated, or may be cut at the end"));
        }
        let counts_padding = node.int("count_include_pad", 0)? != 0;
        let dims = self.image_dims(node)?;
        let is_mean = code == 1;
        let filler = if is_mean { 0.0 } else { f64::from(f32::MIN) };
        let (sides, x) = self.sides(node, kernel, x, filler)?;
        let is_padded = node.ints("pads")?.is_some_and(|pads| pads.iter().any(|pad| *pad != 0));
        if is_mean && is_padded && (counts_padding == (sides.padding == SAME)) {
            return Err(unsupported(node, "it counts padding in another way"));
        }
        let [down, across] = sides.strides;
        let [rows, columns] = sides.kernel.map(|len| i32::try_from(len).unwrap_or(i32::MAX));
        let fields = [
            (0, Field::I8(sides.padding)),
            (1, Field::I32(across)),
            (2, Field::I32(down)),
            (3, Field::I32(columns)),
            (4, Field::I32(rows)),
        ];
        let result = (dims, true, Kind::Real);
        let made = self.emit_active(code, &[Some(x.tensor)], (options(5, fields), 5), result)?;
        self.of_image(node, made)
    }

    fn pool_globally(&mut self, node: &Node, code: i32) -> Result<Val> {
        let x = self.image(node)?;
        let dims = self.image_dims(node)?;
        let axes = self.ints(&[1, 2])?;
        let keeps = options(27, [(0, Field::Flag(true))]);
        let made = self.emit(code, &[x.tensor, axes], keeps, (dims, true, Kind::Real))?;
        self.of_image(node, made)
    }

    fn product(&mut self, node: &Node) -> Result<Val> {
        let (a, b) = (self.input(node, 0)?, self.input(node, 1)?);
        let (a, b) = (self.plain(&a)?, self.plain(&b)?);
        if a.rank() < 2 || b.rank() < 2 {
            return Err(unsupported(node, "it multiplies vectors"));
        }
        let dims = self.result(node)?;
        self.emit(126, &[a.tensor, b.tensor], options(101, []), (dims, false, Kind::Real))
    }

    fn gather(&mut self, node: &Node) -> Result<Val> {
        let dims = self.result(node)?;
        let (data, indices, axis, kind) = match self.parameter(node, "weight")? {
            Some((id, tensor)) => {
                let order = Self::order(tensor, &[Axis::Feature, Axis::Out])?;
                let shape = order.iter().filter_map(|axis| tensor.shape.get(*axis).copied()).collect();
                (self.weight(id, order, shape)?, self.input(node, 0)?, 0, Kind::Real)
            }
            None => {
                let (data, indices) = (self.input(node, 0)?, self.input(node, 1)?);
                let data = self.plain(&data)?;
                let axis = ckpt_graph::shape::resolve(node.int("axis", 0)?, data.rank());
                let axis = axis.ok_or_else(|| unsupported(node, "its axis does not exist"))?;
                (data.tensor, indices, i32::try_from(axis).unwrap_or(0), data.kind)
            }
        };
        let indices = self.plain(&indices)?;
        self.emit(36, &[data, indices.tensor], options(23, [(0, Field::I32(axis))]), (dims, false, kind))
    }

    /// `(x − mean) · scale / √(variance + epsilon) + bias`, whose numbers the interpreter computes.
    fn batch_norm(&mut self, node: &Node) -> Result<Val> {
        let x = self.input(node, 0)?;
        let x = if x.rank() > 2 { self.turned(&x)? } else { x };
        let dims = self.result(node)?;
        let vector = |builder: &mut Self, role: &str| -> Result<Option<(usize, Dims)>> {
            let Some((id, tensor)) = builder.parameter(node, role)? else { return Ok(None) };
            let order = Self::order(tensor, &[Axis::Out])?;
            let shape = vec![tensor.shape.elements()];
            Ok(Some((builder.weight(id, order, shape.clone())?, of_sizes(&shape))))
        };
        let missing = || unsupported(node, "it lacks its statistics");
        let (variance, own) = vector(self, "variance")?.ok_or_else(missing)?;
        let (mean, _) = vector(self, "mean")?.ok_or_else(missing)?;
        let epsilon = self.scalar(node.float("epsilon", 1e-5)?)?;
        let of = |dims: &Dims, is_turned: bool| (dims.clone(), is_turned, Kind::Real);
        let sum = self.emit(0, &[variance, epsilon], options(11, []), of(&own, false))?;
        let root = self.emit(75, &[sum.tensor], None, of(&own, false))?;
        let centered = self.emit(41, &[x.tensor, mean], options(28, []), of(&dims, x.is_turned))?;
        // Divided, then scaled, as the layer is defined: so results have the same bits.
        let (scale, bias) = (vector(self, "scale")?, vector(self, "bias")?);
        let inputs = [Some(centered.tensor), Some(root.tensor)];
        let mut made = self.emit_active(42, &inputs, (options(29, []), 0), of(&dims, x.is_turned))?;
        if let Some((scale, _)) = scale {
            let inputs = [Some(made.tensor), Some(scale)];
            made = self.emit_active(18, &inputs, (options(21, []), 0), of(&dims, x.is_turned))?;
        }
        match bias {
            Some((bias, _)) => {
                let inputs = [Some(made.tensor), Some(bias)];
                self.emit_active(0, &inputs, (options(11, []), 0), of(&dims, x.is_turned))
            }
            None => Ok(made),
        }
    }
}

/// The lengths of a sequence as those of an image of one row.
fn with_row(dims: &[Length]) -> Dims {
    let mut dims = dims.to_vec();
    dims.insert(2.min(dims.len()), Length::Known(1));
    dims
}

/// The numbers of a window's sides, of a sequence with 1 for its row; `None` if they are not stated.
fn pair(node: &Node, name: &str) -> Result<Option<[i64; 2]>> {
    match node.ints(name)? {
        None => Ok(None),
        Some([columns]) => Ok(Some([1, *columns])),
        Some([rows, columns]) => Ok(Some([*rows, *columns])),
        Some(_) => Err(unsupported(node, "its window has not two sides")),
    }
}
