//! Products and convolutions give the bits of plain loops, whatever the size.

use ckpt_forward::kernel::{Conv, Gemm, GemmStrides, Window};
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Element, Kernel, MathMode, Random};

/// Runs a kernel on the CPU.
fn run(arithmetic: Arithmetic, kernel: &Kernel, operands: &[Array]) -> Array {
    let mut cpu = Cpu::new(arithmetic);
    let is_integer = matches!(operands[0], Array::I32(_));
    let element = if is_integer { operands[0].element() } else { arithmetic.element() };
    let ids: Vec<_> = operands
        .iter()
        .map(|operand| cpu.upload(&operand.clone().into_real(arithmetic.element())).unwrap())
        .collect();
    let output = cpu.zeros(element, kernel.outputs()).unwrap();
    cpu.run(kernel, &ids, output).unwrap();
    cpu.download(output).unwrap()
}

/// Sums products in the order of `terms`, then adds the bias, as `arithmetic` states.
fn sum(arithmetic: Arithmetic, terms: impl Iterator<Item = (f64, f64)>, bias: Option<f64>) -> f64 {
    if arithmetic == Arithmetic::F32 {
        let mut sum = 0f32;
        for (x, w) in terms {
            sum += x as f32 * w as f32;
        }
        return f64::from(bias.map_or(sum, |bias| sum + bias as f32));
    }
    let mut sum = 0f64;
    for (x, w) in terms {
        sum += x * w;
    }
    let sum = bias.map_or(sum, |bias| sum + bias);
    if arithmetic == Arithmetic::F64 { sum } else { f64::from(sum as f32) }
}

fn reals(random: &mut Random, len: usize) -> Vec<f64> {
    (0..len).map(|_| random.real()).collect()
}

#[track_caller]
fn assert_same_bits(found: &Array, expected: &[f64], what: &dyn std::fmt::Debug) {
    let found = found.to_f64();
    assert_eq!(found.len(), expected.len(), "{what:?}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.to_bits(), expected.to_bits(), "{found} {expected} at {place}: {what:?}");
    }
}

/// As [`sum`] of 32-bit floats, but each product is rounded together with the sum that it is added to.
fn fused_sum(terms: impl Iterator<Item = (f64, f64)>) -> f64 {
    f64::from(terms.fold(0f32, |sum, (x, w)| (x as f32).mul_add(w as f32, sum)))
}

const ARITHMETICS: [Arithmetic; 3] = [Arithmetic::F64, Arithmetic::F32, Arithmetic::F32InF64];

/// A product of random lengths: around those of tiles, and with many rows and few.
fn product(random: &mut Random) -> Gemm {
    let rows = match random.between(0, 2) {
        0 => random.between(1, 14),
        _ => random.between(55, 140),
    };
    // Sums longer than those that are added at a time, too.
    let deep = if random.chance(4) { 600 } else { 50 };
    let (inner, outputs) = (random.between(0, deep), random.between(1, 150));
    let buckets = if random.chance(3) { random.between(1, 4) } else { 0 };
    let [inner_stride, output] = if random.chance(2) { [outputs, 1] } else { [1, inner] };
    let weight = GemmStrides { bucket: inner * outputs, inner: inner_stride, output };
    let bias = (!random.chance(3)).then_some(GemmStrides { bucket: outputs, inner: 0, output: 1 });
    Gemm { rows, inner, outputs, weight, bias, buckets }
}

#[test]
fn a_product_of_any_size_has_the_bits_of_a_plain_loop() {
    let mut random = Random::new(1);
    let (mut with_buckets, mut with_few_rows) = (0, 0);
    for round in 0..150 {
        let gemm = product(&mut random);
        with_buckets += usize::from(gemm.buckets > 0);
        with_few_rows += usize::from(gemm.rows <= 14);
        let sets = gemm.buckets.max(1);
        let x = reals(&mut random, gemm.rows * gemm.inner);
        let weight = reals(&mut random, sets * gemm.inner * gemm.outputs);
        let bias = reals(&mut random, sets * gemm.outputs);
        let bucket: Vec<usize> = (0..gemm.rows).map(|_| random.between(0, sets - 1)).collect();
        let arithmetic = ARITHMETICS[round % 3];
        let mut expected = Vec::new();
        for (row, set) in bucket.iter().enumerate() {
            let set = if gemm.buckets > 0 { *set } else { 0 };
            for o in 0..gemm.outputs {
                let terms = (0..gemm.inner).map(|k| {
                    let at = set * gemm.weight.bucket + k * gemm.weight.inner + o * gemm.weight.output;
                    (x[row * gemm.inner + k], weight[at])
                });
                let bias = gemm.bias.map(|strides| bias[set * strides.bucket + o * strides.output]);
                expected.push(sum(arithmetic, terms, bias));
            }
        }
        let mut operands = vec![Array::F64(x), Array::F64(weight)];
        operands.extend(gemm.bias.map(|_| Array::F64(bias)));
        if gemm.buckets > 0 {
            operands.push(Array::I32(bucket.iter().map(|set| *set as i32).collect()));
        }
        let found = run(arithmetic, &Kernel::Gemm(gemm.clone()), &operands);
        assert_same_bits(&found, &expected, &(arithmetic, gemm));
    }
    assert!(with_buckets > 20 && with_few_rows > 20, "{with_buckets} {with_few_rows}");
}

#[test]
fn fused_products_have_the_bits_of_a_plain_loop_that_rounds_once() {
    let mut random = Random::new(3);
    let (rows, inner, outputs) = (70, 33, 70);
    let (x, weight) = (reals(&mut random, rows * inner), reals(&mut random, inner * outputs));
    let operands =
        [Array::F64(x.clone()), Array::F64(weight.clone())].map(|array| array.into_real(Element::F32));
    let terms = |at: usize| {
        let (row, output) = (at / outputs, at % outputs);
        let (x, weight) = (&x, &weight);
        (0..inner).map(move |k| (x[row * inner + k], weight[k * outputs + output]))
    };
    let weights = GemmStrides { bucket: 0, inner: outputs, output: 1 };
    let gemm = Kernel::Gemm(Gemm { rows, inner, outputs, weight: weights, bias: None, buckets: 0 });
    let run = |mut cpu: Cpu| {
        let ids = operands.each_ref().map(|operand| cpu.upload(operand).unwrap());
        let output = cpu.zeros(Element::F32, rows * outputs).unwrap();
        cpu.run(&gemm, &ids, output).unwrap();
        (cpu.info().math, cpu.download(output).unwrap())
    };
    let (math, found) = run(Cpu::fused());
    let expected = |is_fused| -> Vec<f64> {
        let of = |at| if is_fused { fused_sum(terms(at)) } else { sum(Arithmetic::F32, terms(at), None) };
        (0..rows * outputs).map(of).collect()
    };
    assert_same_bits(&found, &expected(math == MathMode::Contracted), &math);
    let rounded_twice = expected(false);
    assert_ne!(expected(true), rounded_twice);
    assert_same_bits(&run(Cpu::new(Arithmetic::F32)).1, &rounded_twice, &"strict");
}

#[test]
fn a_product_of_integers_is_exact_and_refuses_what_exceeds_32_bits() {
    let mut random = Random::new(2);
    let gemm = Gemm {
        rows: 70,
        inner: 33,
        outputs: 19,
        weight: GemmStrides { bucket: 0, inner: 19, output: 1 },
        bias: None,
        buckets: 0,
    };
    let mut integers =
        |len: usize| -> Vec<i32> { (0..len).map(|_| random.between(0, 2000) as i32 - 1000).collect() };
    let (x, mut weight) = (integers(70 * 33), integers(33 * 19));
    let at = |r: usize, o: usize| (0..33).map(|k| x[r * 33 + k] * weight[k * 19 + o]).sum::<i32>();
    let expected: Vec<i32> = (0..70 * 19).map(|i| at(i / 19, i % 19)).collect();
    let operands = [Array::I32(x.clone()), Array::I32(weight.clone())];
    assert_eq!(run(Arithmetic::F64, &Kernel::Gemm(gemm.clone()), &operands), Array::I32(expected));
    weight.fill(i32::MAX);
    let mut cpu = Cpu::new(Arithmetic::F64);
    let ids = [Array::I32(x), Array::I32(weight)].map(|operand| cpu.upload(&operand).unwrap());
    let output = cpu.zeros(ckpt_forward::Element::I32, 70 * 19).unwrap();
    let error = cpu.run(&Kernel::Gemm(gemm), &ids, output).unwrap_err().to_string();
    assert!(error.contains("exceeds 32 bits"), "{error}");
}

/// A convolution of random lengths: with many places and few, and any number of groups.
fn convolution(random: &mut Random) -> Conv {
    let groups = random.between(1, 3);
    // Also more taps than are added at a time.
    let most = if random.chance(5) { 90 } else { 4 };
    let (inputs, outputs) = (groups * random.between(1, most), groups * random.between(1, 9));
    let is_pointwise = random.chance(4);
    let least = |kernel: [usize; 3]| if is_pointwise { [1; 3] } else { kernel };
    let planes = if random.chance(2) { 1 } else { random.between(1, 3) };
    let kernel = least([planes, random.between(1, 3), random.between(1, 4)]);
    let stride = least([random.between(1, planes), random.between(1, 3), random.between(1, 2)]);
    let dilation = [random.between(1, 2), random.between(1, 2), random.between(1, 3)];
    let before = if is_pointwise {
        [0; 3]
    } else {
        [random.between(0, planes - 1), random.between(0, 2), random.between(0, 3)]
    };
    let axes = [0, 1, 2];
    let reach = axes.map(|axis| (kernel[axis] - 1) * dilation[axis] + 1);
    let input = axes.map(|axis| reach[axis] + random.between(0, [2, 12, 20][axis]));
    let after = if is_pointwise { 0 } else { random.between(0, 2) };
    let output = axes.map(|axis| (input[axis] + before[axis] + after - reach[axis]) / stride[axis] + 1);
    let [plane, row, column] = [kernel[1] * kernel[2], kernel[2], 1];
    let taps = kernel[0] * kernel[1] * kernel[2];
    let channels = inputs / groups * outputs;
    let weight = match random.chance(2) {
        true => [inputs / groups * taps, taps, plane, row, column],
        false => [1, outputs, plane * channels, row * channels, channels],
    };
    let window = Window { input, output, kernel, stride, dilation, before };
    Conv { batch: random.between(1, 3), groups, inputs, outputs, window, weight, bias: random.chance(2) }
}

/// Returns what a convolution computes, by loops over places and taps.
fn convolve(arithmetic: Arithmetic, conv: &Conv, x: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let Conv { window, .. } = conv;
    let ([depth, height, width], [planes, rows, columns]) = (window.input, window.output);
    let each = conv.inputs / conv.groups;
    let place = |axis: usize, p: usize, k: usize| {
        let place = (p * window.stride[axis] + k * window.dilation[axis]) as i64 - window.before[axis] as i64;
        usize::try_from(place).ok().filter(|place| *place < window.input[axis])
    };
    let mut y = Vec::new();
    for i in 0..conv.batch * conv.outputs * planes * rows * columns {
        let (plane, row, column) = (i / columns / rows % planes, i / columns % rows, i % columns);
        let (image, output) =
            (i / columns / rows / planes / conv.outputs, i / columns / rows / planes % conv.outputs);
        let group = output / (conv.outputs / conv.groups);
        let mut terms = Vec::new();
        for input in 0..each {
            for kz in 0..window.kernel[0] {
                for ky in 0..window.kernel[1] {
                    for kx in 0..window.kernel[2] {
                        let (Some(pz), Some(py), Some(px)) =
                            (place(0, plane, kz), place(1, row, ky), place(2, column, kx))
                        else {
                            continue;
                        };
                        let first = (image * conv.inputs + group * each + input) * depth * height * width;
                        let [so, si, sz, sy, sx] = conv.weight;
                        let at = output * so + input * si + kz * sz + ky * sy + kx * sx;
                        terms.push((x[first + (pz * height + py) * width + px], weight[at]));
                    }
                }
            }
        }
        y.push(sum(arithmetic, terms.into_iter(), conv.bias.then(|| bias[output])));
    }
    y
}

#[test]
fn a_convolution_of_any_size_has_the_bits_of_plain_loops() {
    let mut random = Random::new(3);
    let (mut in_tiles, mut with_infinity) = (0, 0);
    for round in 0..200 {
        let conv = convolution(&mut random);
        let taps = conv.window.kernel.iter().product::<usize>();
        let places = conv.window.input.iter().product::<usize>();
        let x = reals(&mut random, conv.batch * conv.inputs * places);
        let mut weight = reals(&mut random, conv.outputs * conv.inputs / conv.groups * taps);
        in_tiles += usize::from(conv.outputs / conv.groups >= 4);
        if round % 5 == 0 {
            // Padding adds nothing, not `0·∞`.
            weight[0] = f64::INFINITY;
            with_infinity += usize::from(conv.window.before != [0; 3]);
        }
        let bias = reals(&mut random, conv.outputs);
        let arithmetic = ARITHMETICS[round % 3];
        let expected = convolve(arithmetic, &conv, &x, &weight, &bias);
        let mut operands = vec![Array::F64(x), Array::F64(weight)];
        if conv.bias {
            operands.push(Array::F64(bias));
        }
        let found = run(arithmetic, &Kernel::Conv(conv.clone()), &operands);
        assert_same_bits(&found, &expected, &(arithmetic, conv));
    }
    assert!(in_tiles > 50 && with_infinity > 10, "{in_tiles} {with_infinity}");
}
