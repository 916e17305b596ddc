//! Parameters as words, in the order of the structs in `kernels.cu`.

use ckpt_forward::Kernel;
use ckpt_forward::kernel::{Border, Function, MAX_RANK, Pairwise, PoolKind, Unary, View, Window};

/// As many as the struct has; `threads` are those of the launch.
pub(crate) fn words(kernel: &Kernel, threads: u64) -> Vec<u64> {
    let mut words = Words(Vec::new());
    match kernel {
        Kernel::Copy(copy) => {
            words.word(threads).size(copy.shape.len()).axes(&copy.shape).view(&copy.from).view(&copy.to)
        }
        Kernel::Pad(pad) => {
            words.word(threads).size(pad.input.len()).axes(&pad.input).axes(&pad.output);
            words.before(&pad.before).flag(pad.border == Border::Nearest)
        }
        Kernel::Unary(unary) => words.word(threads).unary(unary),
        Kernel::Binary(binary) => {
            let [a, b] = &binary.strides;
            words.word(threads).size(binary.shape.len()).axes(&binary.shape).axes(a).axes(b);
            words.flag(binary.function == Pairwise::Multiply)
        }
        Kernel::Gemm(gemm) => {
            let (weight, bias) = (gemm.weight, gemm.bias.map_or([0, 0], |bias| [bias.bucket, bias.output]));
            words.sizes(&[gemm.rows, gemm.inner, gemm.outputs, gemm.buckets]);
            words.sizes(&[weight.bucket, weight.inner, weight.output]).sizes(&bias)
        }
        Kernel::Conv(conv) => {
            words.sizes(&[conv.batch, conv.groups, conv.inputs, conv.outputs]);
            let [output, input, _, row, column] = conv.weight;
            words.window(&conv.window).sizes(&[output, input, row, column])
        }
        Kernel::Pool(pool) => {
            let (kind, padded) = match &pool.kind {
                PoolKind::Maximum => (0, [0, 0]),
                PoolKind::Average => (1, [0, 0]),
                PoolKind::AveragePadded { padded: [_, rows, columns] } => (2, [*rows, *columns]),
            };
            words.size(pool.images).window(&pool.window).word(kind).sizes(&padded)
        }
        Kernel::Affine(affine) => {
            words.sizes(&[affine.outer, affine.channels, affine.inner]).real(affine.epsilon)
        }
        Kernel::LayerNorm(norm) => words.sizes(&[norm.rows, norm.len]).real(norm.epsilon),
        Kernel::Softmax(softmax) => {
            words.sizes(&[softmax.outer, softmax.len, softmax.inner]).flag(softmax.log)
        }
        Kernel::Reduce(mean) => words.sizes(&[mean.rows, mean.len]),
        // The device has no entry for them.
        Kernel::Compare(_)
        | Kernel::Select(_)
        | Kernel::MatMul(_)
        | Kernel::Scan(_)
        | Kernel::Ranking(_)
        | Kernel::Scatter(_)
        | Kernel::Recurrence(_) => &mut words,
        Kernel::Gather(gather) => {
            words.sizes(&[gather.rows, gather.columns, gather.table]).sizes(&gather.strides)
        }
        Kernel::SparseSum(sum) => {
            words.sizes(&[sum.rows, sum.slots, sum.outputs, sum.features, sum.sets]).sizes(&sum.weight);
            words.sizes(&sum.factoriser.unwrap_or_default()).sizes(&sum.bias.unwrap_or_default());
            words.size(sum.bias_buckets)
        }
        Kernel::StaticFeatures(image) => words.sizes(&[image.batch, image.height, image.width]),
    };
    words.0
}

struct Words(Vec<u64>);

impl Words {
    fn word(&mut self, word: u64) -> &mut Self {
        self.0.push(word);
        self
    }

    fn size(&mut self, size: usize) -> &mut Self {
        self.word(size as u64)
    }

    fn sizes(&mut self, sizes: &[usize]) -> &mut Self {
        self.0.extend(sizes.iter().map(|size| *size as u64));
        self
    }

    fn integer(&mut self, value: i64) -> &mut Self {
        self.word(value.cast_unsigned())
    }

    fn real(&mut self, value: f64) -> &mut Self {
        self.word(value.to_bits())
    }

    fn flag(&mut self, is_set: bool) -> &mut Self {
        self.word(u64::from(is_set))
    }

    /// One for each of [`MAX_RANK`] axes.
    fn axes(&mut self, axes: &[usize]) -> &mut Self {
        let end = self.0.len() + MAX_RANK;
        self.sizes(axes).0.resize(end, 0);
        self
    }

    fn view(&mut self, view: &View) -> &mut Self {
        self.size(view.offset).axes(&view.strides)
    }

    /// Numbers beyond any size are brought nearer, so that a difference to an index stays within 64 bits.
    fn before(&mut self, before: &[i64]) -> &mut Self {
        let end = self.0.len() + MAX_RANK;
        for value in before {
            self.integer((*value).clamp(-(1 << 61), 1 << 61));
        }
        self.0.resize(end, 0);
        self
    }

    /// Of a flat window, without its plane.
    fn window(&mut self, window: &Window) -> &mut Self {
        let fields =
            [window.input, window.output, window.kernel, window.stride, window.dilation, window.before];
        for [_, rows, columns] in fields {
            self.sizes(&[rows, columns]);
        }
        self
    }

    fn unary(&mut self, unary: &Unary) -> &mut Self {
        let (function, [a, b], [c, d]) = function(unary.function).unwrap_or_default();
        self.word(function).real(a).real(b).integer(c).integer(d)
    }
}

/// The function's number in `functions.cuh`, two real numbers, and two integers; `None` for one that the device lacks.
#[expect(clippy::cast_possible_truncation, reason = "a bound beyond the integers is their end")]
pub(crate) fn function(function: Function) -> Option<(u64, [f64; 2], [i64; 2])> {
    Some(match function {
        Function::Relu => (0, [0.0, 0.0], [0, 0]),
        Function::LeakyRelu { alpha } => (1, [alpha, 0.0], [0, 0]),
        Function::Elu { alpha } => (2, [alpha, 0.0], [0, 0]),
        Function::Gelu { tanh } => (3 + u64::from(tanh), [0.0, 0.0], [0, 0]),
        Function::Softplus => (5, [0.0, 0.0], [0, 0]),
        Function::Sigmoid => (6, [0.0, 0.0], [0, 0]),
        Function::Tanh => (7, [0.0, 0.0], [0, 0]),
        Function::Clip { min, max } => (8, [min, max], [min.ceil() as i64, max.floor() as i64]),
        Function::Square => (9, [0.0, 0.0], [0, 0]),
        Function::Scale { multiply, divide } => (10, [0.0, 0.0], [i64::from(multiply), i64::from(divide)]),
        // An entry of its own.
        Function::Dequantize { divide } => (0, [divide, 0.0], [0, 0]),
        _ => return None,
    })
}
