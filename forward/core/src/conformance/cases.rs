//! Generators of cases, one for each kernel.

use super::{Case, Random};
use crate::kernel::*;
use crate::{Array, Element, Kernel};

type Generator = fn(&mut Random) -> Case;

const GENERATORS: [Generator; 17] = [
    copy,
    pad,
    unary,
    integer_unary,
    dequantize,
    binary,
    gemm,
    integer_gemm,
    conv,
    pool,
    affine,
    layer_norm,
    softmax,
    mean,
    gather,
    sparse_sum,
    static_features,
];

/// Returns `rounds` cases of every kernel, the same for the same seed.
pub fn cases(seed: u64, rounds: usize) -> Vec<Case> {
    let mut random = Random::new(seed);
    (0..rounds).flat_map(|_| GENERATORS).map(|generator| generator(&mut random)).collect()
}

fn reals(random: &mut Random, len: usize) -> Array {
    Array::F64((0..len).map(|_| random.real()).collect())
}

/// Edge cases of functions and comparisons: both zeros, infinities, NaN, large and small numbers.
fn hard(random: &mut Random, len: usize) -> Array {
    const HARD: [f64; 11] =
        [0.0, -0.0, 1.0, -1.0, 20.0, -20.0, 120.0, -120.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    Array::F64(
        (0..len)
            .map(
                |_| {
                    if random.chance(4) {
                        HARD[random.between(0, HARD.len() - 1)]
                    } else {
                        8.0 * random.real()
                    }
                },
            )
            .collect(),
    )
}

fn integers(random: &mut Random, len: usize, bound: usize) -> Array {
    let bound = i32::try_from(bound).unwrap_or(i32::MAX);
    Array::I32((0..len).map(|_| i32::try_from(random.between(0, 1 << 20)).unwrap_or(0) % bound).collect())
}

fn signed(random: &mut Random, len: usize) -> Array {
    Array::I32((0..len).map(|_| i32::try_from(random.between(0, 600)).unwrap_or(0) - 300).collect())
}

fn product(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Strides of `shape` stored in `order`, slowest first.
fn strides(shape: &[usize], order: &[usize]) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for axis in order.iter().rev() {
        strides[*axis] = step;
        step *= shape[*axis];
    }
    strides
}

fn stored(random: &mut Random, shape: &[usize]) -> Vec<usize> {
    strides(shape, &random.order(shape.len()))
}

fn copy(random: &mut Random) -> Case {
    let rank = random.between(0, 5);
    let shape = random.shape(rank);
    let (before, behind) = (random.between(0, 5), random.between(0, 5));
    let from = View { offset: random.between(0, 3), strides: stored(random, &shape) };
    let to = View { offset: before, strides: stored(random, &shape) };
    let x = reals(random, from.offset + product(&shape));
    let output = (Element::F64, before + product(&shape) + behind);
    Case { kernel: Kernel::Copy(Copy { shape, from, to }), operands: vec![x], output }
}

fn pad(random: &mut Random) -> Case {
    let rank = random.between(1, 4);
    let input: Vec<usize> = (0..rank).map(|_| random.between(1, 5)).collect();
    let before: Vec<i64> =
        input.iter().map(|_| i64::try_from(random.between(0, 4)).unwrap_or(0) - 1).collect();
    let output: Vec<usize> = input.iter().map(|len| len + random.between(0, 5)).collect();
    let x = reals(random, product(&input));
    let len = product(&output);
    let border = if random.chance(2) { Border::Nearest } else { Border::Value(0.0) };
    let pad = Pad { input, output, before, border };
    Case { kernel: Kernel::Pad(pad), operands: vec![x], output: (Element::F64, len) }
}

fn unary(random: &mut Random) -> Case {
    let functions = [
        Function::Relu,
        Function::LeakyRelu { alpha: 0.3 },
        Function::Elu { alpha: 1.5 },
        Function::Gelu { tanh: false },
        Function::Gelu { tanh: true },
        Function::Softplus,
        Function::Sigmoid,
        Function::Tanh,
        Function::Clip { min: 0.0, max: 1.0 },
        Function::Clip { min: f64::NEG_INFINITY, max: 0.5 },
        Function::Square,
    ];
    let function = functions[random.between(0, functions.len() - 1)];
    let len = random.between(0, 400);
    let x = hard(random, len);
    Case { kernel: Kernel::Unary(Unary { len, function }), operands: vec![x], output: (Element::F64, len) }
}

fn integer_unary(random: &mut Random) -> Case {
    let functions = [
        Function::Relu,
        Function::Clip { min: 0.0, max: 255.0 },
        Function::Square,
        Function::Scale { multiply: 400, divide: 16320 },
        Function::Scale { multiply: -1, divide: 255 },
    ];
    let function = functions[random.between(0, functions.len() - 1)];
    let len = random.between(0, 100);
    let x = signed(random, len);
    Case { kernel: Kernel::Unary(Unary { len, function }), operands: vec![x], output: (Element::I32, len) }
}

fn dequantize(random: &mut Random) -> Case {
    let len = random.between(0, 100);
    let x = signed(random, len);
    let function = Function::Dequantize { divide: 255.0 };
    Case { kernel: Kernel::Unary(Unary { len, function }), operands: vec![x], output: (Element::F64, len) }
}

fn binary(random: &mut Random) -> Case {
    let rank = random.between(0, 4);
    let shape = random.shape(rank);
    let side = |random: &mut Random| {
        let kept: Vec<usize> = shape.iter().map(|len| if random.chance(3) { 1 } else { *len }).collect();
        let mut strides = stored(random, &kept);
        for ((stride, kept), len) in strides.iter_mut().zip(&kept).zip(&shape) {
            if kept != len {
                *stride = 0;
            }
        }
        (strides, product(&kept))
    };
    let ((a, a_len), (b, b_len)) = (side(random), side(random));
    let function = if random.chance(2) { Pairwise::Add } else { Pairwise::Multiply };
    let is_integer = random.chance(4);
    let mut values = |len| if is_integer { signed(random, len) } else { hard(random, len) };
    let operands = vec![values(a_len), values(b_len)];
    let output = (if is_integer { Element::I32 } else { Element::F64 }, product(&shape));
    Case { kernel: Kernel::Binary(Binary { shape, strides: [a, b], function }), operands, output }
}

fn gemm(random: &mut Random) -> Case {
    gemm_of(random, reals)
}

fn integer_gemm(random: &mut Random) -> Case {
    gemm_of(random, signed)
}

fn gemm_of(random: &mut Random, values: fn(&mut Random, usize) -> Array) -> Case {
    let rows = random.between(0, 9);
    let inner = if random.chance(9) { 0 } else { random.between(1, 70) };
    let outputs = random.between(1, 37);
    let buckets = if random.chance(3) { random.between(1, 5) } else { 0 };
    let sets = buckets.max(1);
    let shape = stored(random, &[sets, inner, outputs]);
    let weight = GemmStrides { bucket: shape[0], inner: shape[1], output: shape[2] };
    let bias = random.chance(2).then_some(GemmStrides { bucket: outputs, inner: 0, output: 1 });
    let mut operands = vec![values(random, rows * inner), values(random, sets * inner * outputs)];
    if bias.is_some() {
        operands.push(values(random, sets * outputs));
    }
    if buckets > 0 {
        operands.push(integers(random, rows, buckets));
    }
    let element = operands[0].element();
    let kernel = Kernel::Gemm(Gemm { rows, inner, outputs, weight, bias, buckets });
    Case { kernel, operands, output: (element, rows * outputs) }
}

fn window(random: &mut Random, groups_pad: bool) -> Window {
    let mut axis = || {
        let kernel = random.between(1, 4);
        let (stride, dilation) = (random.between(1, 3), random.between(1, 3));
        let reach = (kernel - 1) * dilation + 1;
        // Less than the kernel, so that every window covers some place of the image.
        let before = if groups_pad { random.between(0, kernel - 1) * usize::from(dilation == 1) } else { 0 };
        let input = random.between(reach, reach + 6);
        let output = (input + before - reach) / stride + 1;
        (input, output, kernel, stride, dilation, before)
    };
    let (y, x) = (axis(), axis());
    Window {
        input: [1, y.0, x.0],
        output: [1, y.1, x.1],
        kernel: [1, y.2, x.2],
        stride: [1, y.3, x.3],
        dilation: [1, y.4, x.4],
        before: [0, y.5, x.5],
    }
}

fn conv(random: &mut Random) -> Case {
    let groups = random.between(1, 3);
    let (inside, outside) = (random.between(1, 3), random.between(1, 3));
    let (inputs, outputs) = (groups * inside, groups * outside);
    let batch = random.between(0, 2);
    let window = window(random, true);
    let [_, ky, kx] = window.kernel;
    let weight = stored(random, &[outputs, inside, ky, kx]);
    let bias = random.chance(2);
    let mut operands = vec![
        reals(random, batch * inputs * product(&window.input)),
        reals(random, outputs * inside * ky * kx),
    ];
    if bias {
        operands.push(reals(random, outputs));
    }
    let len = batch * outputs * window.places();
    let weight = [weight[0], weight[1], 0, weight[2], weight[3]];
    let kernel = Kernel::Conv(Conv { batch, groups, inputs, outputs, window, weight, bias });
    Case { kernel, operands, output: (Element::F64, len) }
}

fn pool(random: &mut Random) -> Case {
    let images = random.between(0, 5);
    let window = window(random, true);
    let padded = [0, 1, 2].map(|axis| window.before[axis] + window.input[axis]);
    let kind = match random.between(0, 2) {
        0 => PoolKind::Maximum,
        1 => PoolKind::Average,
        _ => PoolKind::AveragePadded { padded },
    };
    let len = images * product(&window.input);
    let x = if kind == PoolKind::Maximum { hard(random, len) } else { reals(random, len) };
    let output = (Element::F64, images * window.places());
    Case { kernel: Kernel::Pool(Pool { images, window, kind }), operands: vec![x], output }
}

fn affine(random: &mut Random) -> Case {
    let (outer, channels, inner) = (random.between(0, 4), random.between(1, 9), random.between(1, 9));
    let mut operands = vec![reals(random, outer * channels * inner)];
    for _ in 0..3 {
        operands.push(reals(random, channels));
    }
    operands.push(Array::F64((0..channels).map(|_| random.real().abs()).collect()));
    let kernel = Kernel::Affine(Affine { outer, channels, inner, epsilon: 1e-3 });
    Case { kernel, operands, output: (Element::F64, outer * channels * inner) }
}

fn layer_norm(random: &mut Random) -> Case {
    let (rows, len, bias) = (random.between(0, 5), random.between(1, 70), random.chance(2));
    let mut operands = vec![reals(random, rows * len), reals(random, len)];
    if bias {
        operands.push(reals(random, len));
    }
    let kernel = Kernel::LayerNorm(LayerNorm { rows, len, bias, epsilon: 1e-5 });
    Case { kernel, operands, output: (Element::F64, rows * len) }
}

fn softmax(random: &mut Random) -> Case {
    let (outer, len, inner) = (random.between(0, 4), random.between(1, 40), random.between(1, 5));
    let Array::F64(values) = reals(random, outer * len * inner) else { unreachable!("reals are binary64") };
    let x = Array::F64(values.into_iter().map(|x| 10.0 * x).map(|x| f64::from(x as f32)).collect());
    let kernel = Kernel::Softmax(Softmax { outer, len, inner, log: random.chance(2) });
    Case { kernel, operands: vec![x], output: (Element::F64, outer * len * inner) }
}

fn mean(random: &mut Random) -> Case {
    let (rows, len) = (random.between(0, 9), random.between(1, 60));
    let x = reals(random, rows * len);
    let function = Reduction::Mean;
    Case {
        kernel: Kernel::Reduce(Reduce { rows, len, function }),
        operands: vec![x],
        output: (Element::F64, rows),
    }
}

fn gather(random: &mut Random) -> Case {
    let (rows, columns, table) = (random.between(0, 9), random.between(1, 9), random.between(1, 9));
    let strides = stored(random, &[table, columns]);
    let operands = vec![reals(random, table * columns), integers(random, rows, table)];
    let kernel = Kernel::Gather(Gather { rows, columns, table, strides: [strides[0], strides[1]] });
    Case { kernel, operands, output: (Element::F64, rows * columns) }
}

fn sparse_sum(random: &mut Random) -> Case {
    let (rows, slots, outputs) = (random.between(0, 5), random.between(0, 8), random.between(1, 33));
    let (features, sets) = (random.between(1, 20), random.between(1, 4));
    let values = if random.chance(3) { signed } else { reals };
    let weight = stored(random, &[sets, features, outputs]);
    let factoriser = random.chance(2).then(|| stored(random, &[features, outputs]));
    let bias_buckets = if random.chance(3) { random.between(1, 3) } else { 0 };
    let bias =
        (bias_buckets > 0 || random.chance(2)).then(|| stored(random, &[bias_buckets.max(1), outputs]));
    let Array::I32(index) = integers(random, rows * slots, sets * features) else {
        unreachable!("integers are integers")
    };
    let index = index.into_iter().map(|index| if random.chance(4) { -1 } else { index }).collect();
    let mut operands = vec![Array::I32(index), values(random, sets * features * outputs)];
    if factoriser.is_some() {
        operands.push(values(random, features * outputs));
    }
    if bias.is_some() {
        operands.push(values(random, bias_buckets.max(1) * outputs));
    }
    if bias_buckets > 0 {
        operands.push(integers(random, rows, bias_buckets));
    }
    let element = operands[1].element();
    let kernel = Kernel::SparseSum(SparseSum {
        rows,
        slots,
        outputs,
        features,
        sets,
        weight: [weight[0], weight[1], weight[2]],
        factoriser: factoriser.map(|strides| [strides[0], strides[1]]),
        bias: bias.map(|strides| [strides[0], strides[1]]),
        bias_buckets,
    });
    Case { kernel, operands, output: (element, rows * outputs) }
}

fn static_features(random: &mut Random) -> Case {
    let (batch, height, width) = (random.between(0, 2), random.between(1, 9), random.between(1, 9));
    let x = reals(random, batch * 4 * height * width);
    let output = (Element::F64, batch * 8 * height * width);
    Case {
        kernel: Kernel::StaticFeatures(StaticFeatures { batch, height, width }),
        operands: vec![x],
        output,
    }
}
