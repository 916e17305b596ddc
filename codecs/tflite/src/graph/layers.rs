//! Layers with weights, and pooling.

use super::known::Val;
use super::lowering::{Lowering, Read};
use super::step::Operation;
use ckpt_api::{Attribute, Axis, Node, Op};
use ckpt_graph::shape::{product_of_matrices, show};
use ckpt_graph::{Builder, Dims, Layout, Length, Padding, Window, int, ints};

/// Numbers of activations that an operator applies to its result.
const NONE: u8 = 0;
const RELU: u8 = 1;
const RELU_N1_TO_1: u8 = 2;
const RELU6: u8 = 3;
const TANH: u8 = 4;
/// The padding that keeps the size, but for strides.
const SAME: u8 = 0;

impl Lowering<'_> {
    /// Lowers a layer; `None` if it is another operator.
    pub(super) fn layer(&mut self, operation: &Operation<'_>) -> Read<Option<Val>> {
        let (made, activation) = match operation.name.as_str() {
            "CONV_2D" => (self.conv(operation)?, operation.code(3)?),
            "DEPTHWISE_CONV_2D" => (self.depthwise(operation)?, operation.code(4)?),
            "TRANSPOSE_CONV" => (self.transposed(operation)?, operation.code(3)?),
            "FULLY_CONNECTED" => (self.dense(operation)?, operation.code(0)?),
            "AVERAGE_POOL_2D" => (self.pool(operation, Op::AveragePool)?, operation.code(5)?),
            "MAX_POOL_2D" => (self.pool(operation, Op::MaxPool)?, operation.code(5)?),
            "BATCH_MATMUL" => (self.product(operation)?, NONE),
            _ => return Ok(None),
        };
        self.activated(made, activation).map(Some)
    }

    /// Applies the activation that an operator has.
    pub(super) fn activated(&mut self, val: Val, code: u8) -> Read<Val> {
        let clip = |builder: &Builder<()>, min: f64, max: f64| {
            let node = builder.node(Op::Clip).attribute("min", Attribute::Float(min));
            node.attribute("max", Attribute::Float(max))
        };
        let mut node = match code {
            NONE => return Ok(val),
            RELU => self.builder.node(Op::Relu),
            RELU_N1_TO_1 => clip(&self.builder, -1.0, 1.0),
            RELU6 => clip(&self.builder, 0.0, 6.0),
            TANH => self.builder.node(Op::Tanh),
            other => return Err(format!("has the activation {other}, which is not supported")),
        };
        node.name = format!("{}/activation", self.builder.place);
        self.builder.map(node, &val)
    }

    /// A window: `strides` and `dilations` are the numbers of options, columns first.
    fn window(operation: &Operation<'_>, strides: [u64; 2], dilations: Option<[u64; 2]>) -> Read<Window> {
        let list = |numbers: [u64; 2]| -> Read<Vec<u64>> {
            let [columns, rows] = numbers.map(|number| operation.int_or(number, 1));
            [rows?, columns?]
                .into_iter()
                .map(|number| u64::try_from(number).ok().filter(|number| *number > 0))
                .collect::<Option<_>>()
                .ok_or_else(|| "has a window that does not move".to_owned())
        };
        let padding = if operation.code(0)? == SAME { Padding::Same } else { Padding::Valid };
        let dilations = dilations.map_or(Ok(vec![1, 1]), list)?;
        Ok(Window { strides: list(strides)?, dilations, padding })
    }

    /// A node with its weight and its bias, the input `bias` of the operator.
    fn weighted(&mut self, operation: &Operation<'_>, op: Op, weight: String, bias: usize) -> Read<Node> {
        let node = self.builder.node(op).parameter("weight", weight);
        Ok(match operation.input(bias) {
            Some(bias) => {
                let (bias, _) = self.claim(bias, &[Axis::Out])?;
                node.parameter("bias", bias)
            }
            None => node,
        })
    }

    fn conv(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.image(operation, 0)?;
        let axes = [Axis::Out, Axis::KernelY, Axis::KernelX, Axis::In];
        let (weight, shape) = self.claim(operation.required(1)?, &axes)?;
        let [_, rows, columns, own] = shape[..] else { return Err("has no kernel of four axes".to_owned()) };
        let channels = x.known_features()?;
        if own == 0 || !channels.is_multiple_of(own) {
            return Err(format!("has a kernel of {own} channels, and an image of {channels}"));
        }
        let window = Self::window(operation, [1, 2], Some([4, 5]))?;
        self.convolution(
            operation,
            (weight, [rows, columns]),
            &window,
            &x,
            (shape.first().copied(), channels / own),
        )
    }

    fn depthwise(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.image(operation, 0)?;
        let channels = x.known_features()?;
        let kernel = operation.required(1)?;
        let made = self.weight(kernel).and_then(|(_, tensor)| tensor.shape.last().copied());
        // One result for each channel, or several side by side.
        let axes = match made == Some(channels) {
            true => [Axis::Multiplier, Axis::KernelY, Axis::KernelX, Axis::In],
            false => [Axis::In, Axis::KernelY, Axis::KernelX, Axis::Out],
        };
        let (weight, shape) = self.claim(kernel, &axes)?;
        let [1, rows, columns, made] = shape[..] else {
            return Err(format!("has a kernel of shape {shape:?}"));
        };
        if channels == 0 || !made.is_multiple_of(channels) {
            return Err(format!("has a kernel of {made} results, and an image of {channels} channels"));
        }
        let window = Self::window(operation, [1, 2], Some([5, 6]))?;
        self.convolution(operation, (weight, [rows, columns]), &window, &x, (Some(made), channels))
    }

    fn convolution(
        &mut self,
        operation: &Operation<'_>,
        (weight, sides): (String, [u64; 2]),
        window: &Window,
        x: &Val,
        (features, groups): (Option<u64>, u64),
    ) -> Read<Val> {
        let x = self.builder.first(x)?;
        let node = self.weighted(operation, Op::Conv, weight, 2)?;
        let (mut node, mut dims) = Builder::windowed(node, window, &sides, &x)?;
        if groups != 1 {
            node = node.attribute("group", Attribute::Int(int(groups)?));
        }
        if let Some(last) = dims.last_mut() {
            *last = Length::from(features);
        }
        let name = self.builder.push(node, vec![x.name])?;
        Ok(self.builder.val(name, Layout::First, dims, ()))
    }

    fn transposed(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let x = self.image(operation, 2)?;
        let axes = [Axis::Out, Axis::KernelY, Axis::KernelX, Axis::In];
        let (weight, shape) = self.claim(operation.required(1)?, &axes)?;
        let [features, rows, columns, _] = shape[..] else {
            return Err("has no kernel of four axes".to_owned());
        };
        let out = self.known_ints(operation.required(0)?);
        let out = out
            .filter(|out| out.values.len() == 4)
            .ok_or("makes an image whose size depends on the input")?;
        let window = Self::window(operation, [1, 2], None)?;
        let mut dims = x.dims.clone();
        let mut sides = Vec::new();
        for (side, kernel) in [rows, columns].into_iter().enumerate() {
            let axis = side.saturating_add(1);
            let stride = window.strides.get(side).copied().unwrap_or(1);
            let wanted = out.values.get(axis).copied().unwrap_or(Length::Unknown);
            let covered = (x.len(axis) - 1) * int(stride)? + int(kernel)?;
            let cut = (covered - wanted).known();
            let cut = cut.ok_or("makes an image whose size depends on the input")?;
            let total = cut.max(0);
            let begin = total / 2;
            sides.push([begin, total.saturating_sub(begin), cut.saturating_neg().max(0)]);
            if let Some(len) = dims.get_mut(axis) {
                *len = wanted;
            }
        }
        if let Some(last) = dims.last_mut() {
            *last = Length::from(features);
        }
        let x = self.builder.first(&x)?;
        let node = self.weighted(operation, Op::ConvTranspose, weight, 3)?;
        let node = Builder::<()>::transposed_windowed(node, &window, &sides)?;
        let name = self.builder.push(node, vec![x.name])?;
        Ok(self.builder.val(name, Layout::First, dims, ()))
    }

    fn pool(&mut self, operation: &Operation<'_>, op: Op) -> Read<Val> {
        let x = self.image(operation, 0)?;
        let window = Self::window(operation, [1, 2], None)?;
        let side = |number: u64| u64::try_from(operation.int(number).unwrap_or(0)).unwrap_or(0);
        let sides = [side(4), side(3)];
        if sides.contains(&0) {
            return Err("has a window without a side".to_owned());
        }
        let x = self.builder.first(&x)?;
        let node = self.builder.node(op).attribute("kernel_shape", ints(&sides)?);
        let (node, dims) = Builder::windowed(node, &window, &sides, &x)?;
        self.builder.same(node, &x, dims)
    }

    /// Input `index` of an operator, which has the axes of images.
    fn image(&mut self, operation: &Operation<'_>, index: usize) -> Read<Val> {
        let x = self.take(operation, index)?;
        match x.rank() {
            4 => Ok(x),
            _ => Err(format!("takes a value of shape {}, which is no image", show(&x.dims))),
        }
    }

    fn dense(&mut self, operation: &Operation<'_>) -> Read<Val> {
        if operation.code(1)? != 0 {
            return Err("has weights in an order of their own (4 by 16, shuffled)".to_owned());
        }
        let x = self.take(operation, 0)?;
        let x = self.builder.last(&x)?;
        let kernel = operation.required(1)?;
        if self.weight(kernel).is_none() {
            return self.computed_dense(operation, &x);
        }
        let (weight, shape) = self.claim(kernel, &[Axis::Out, Axis::In])?;
        let [out, features] = shape[..] else { return Err("has no matrix of weights".to_owned()) };
        let x = self.rows(operation, x, features)?;
        let node = self.weighted(operation, Op::Gemm, weight, 2)?;
        let mut dims = x.dims.clone();
        if let Some(last) = dims.last_mut() {
            *last = Length::from(out);
        }
        self.builder.plain(node, &[&x], dims)
    }

    /// The input of a dense layer: rows of `features` numbers, unless the layer keeps the axes.
    fn rows(&mut self, operation: &Operation<'_>, x: Val, features: u64) -> Read<Val> {
        let is_kept = operation.flag(2)? && x.features() == Length::from(features);
        if is_kept || (x.rank() == 2 && x.features() == Length::from(features)) {
            return Ok(x);
        }
        let total = x.dims.iter().fold(Length::Known(1), |product, len| product * *len);
        let rows = total.divide(Length::from(features));
        let rows = match rows {
            // One free length, and what is left of the others.
            Length::Unknown => self.remaining_rows(&x, features).unwrap_or(Length::Unknown),
            rows => rows,
        };
        self.builder.reshaped(&x, vec![rows, Length::from(features)])
    }

    /// The number of rows of `features` numbers, if these are the last axes.
    fn remaining_rows(&self, x: &Val, features: u64) -> Option<Length> {
        (x.features() == Length::from(features)).then(|| {
            let others = x.dims.split_last().map_or(&[][..], |(_, others)| others);
            others.iter().fold(Length::Known(1), |product, len| product * *len)
        })
    }

    /// A dense layer whose weights are computed: a product of matrices.
    fn computed_dense(&mut self, operation: &Operation<'_>, x: &Val) -> Read<Val> {
        let kernel = self.take(operation, 1)?;
        let turned = self.builder.transpose(&kernel, &[1, 0])?;
        let made = self.multiplied(x, &turned)?;
        match operation.input(2) {
            Some(bias) => {
                let bias = self.operand(bias)?;
                self.builder.apply(Op::Add, &[&made, &bias])
            }
            None => Ok(made),
        }
    }

    fn product(&mut self, operation: &Operation<'_>) -> Read<Val> {
        let (mut a, mut b) = (self.take(operation, 0)?, self.take(operation, 1)?);
        if operation.flag(0)? {
            a = self.swapped(&a)?;
        }
        if operation.flag(1)? {
            b = self.swapped(&b)?;
        }
        self.multiplied(&a, &b)
    }

    fn multiplied(&mut self, a: &Val, b: &Val) -> Read<Val> {
        let (a, b) = (self.builder.last(a)?, self.builder.last(b)?);
        let dims: Option<Dims> = product_of_matrices(&a.dims, &b.dims);
        let dims = dims.ok_or_else(|| {
            format!("multiplies matrices of shapes {} and {}", show(&a.dims), show(&b.dims))
        })?;
        let node = self.builder.node(Op::MatMul);
        self.builder.plain(node, &[&a, &b], dims)
    }

    /// Exchanges the last two axes.
    fn swapped(&mut self, val: &Val) -> Read<Val> {
        let rank = val.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        let Some([.., a, b]) = order.get_mut(..).filter(|order| order.len() > 1) else {
            return Err("multiplies values that are no matrices".to_owned());
        };
        std::mem::swap(a, b);
        self.builder.transpose(val, &order)
    }
}
