//! What must hold of every backend that runs the shaders.

use ckpt_forward::conformance::{Case, Outcome, cases, compare, distance, expected, run};
use ckpt_forward::kernel::{
    Affine, Binary, Function, Gather, Gemm, GemmStrides, Pairwise, Pool, PoolKind, Unary, Window,
};
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Element, Kernel};
use std::collections::BTreeMap;

/// Rounds of the kit: with fewer, not every function is tried.
pub const ROUNDS: usize = 150;

/// Every kernel of the kit gives the CPU's bits, the transcendental ones included, but for the sine, which may be off
/// by one.
pub fn every_kernel_agrees_with_the_cpu(backend: &mut dyn Backend) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, case) in cases(5, ROUNDS).iter().enumerate() {
        let outcome = compare(backend, case).unwrap_or_else(|error| panic!("case {i}: {error}"));
        let allowed = u64::from(matches!(case.kernel, Kernel::StaticFeatures(_)));
        assert!(outcome.ulps <= allowed, "case {i}, {:?}: {outcome:?}", case.kernel);
        *seen.entry(case.kernel.name()).or_default() += outcome.elements;
    }
    assert_eq!(seen.len(), 14, "{seen:?}");
    assert!(seen.values().all(|elements| *elements > 200), "{seen:?}");
}

/// What only moves elements, and the convolution, with the kit's shapes and integers in place of numbers.
pub fn kernels_that_integers_share_agree_with_the_cpu(backend: &mut dyn Backend) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let shared = |case: &Case| {
        matches!(case.kernel, Kernel::Copy(_) | Kernel::Pad(_) | Kernel::Gather(_) | Kernel::Conv(_))
    };
    for mut case in cases(6, ROUNDS / 2).into_iter().filter(shared) {
        for operand in &mut case.operands {
            if let Array::F64(values) = operand {
                *operand = Array::I32(values.iter().map(|value| (value * 300.0) as i32).collect());
            }
        }
        case.output.0 = Element::I32;
        let outcome = compare(backend, &case).unwrap();
        assert_eq!(outcome.different, 0, "{:?}", case.kernel);
        *seen.entry(case.kernel.name()).or_default() += outcome.elements;
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.values().all(|elements| *elements > 200), "{seen:?}");
}

fn unary(function: Function, values: &[f32]) -> Case {
    let x = Array::F64(values.iter().map(|x| f64::from(*x)).collect());
    let kernel = Kernel::Unary(Unary { len: values.len(), function });
    Case { kernel, operands: vec![x], output: (Element::F64, values.len()) }
}

/// Signs, zeros, subnormal numbers, infinities and NaN.
const SPECIAL: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    -1e-45,
    1e-39,
    -1e-39,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    -f32::NAN,
];

/// What only compares or moves is exact for every number, whatever the device does to subnormal ones.
pub fn comparisons_are_exact(backend: &mut dyn Backend) {
    for function in [
        Function::Relu,
        Function::Clip { min: -0.5, max: 1e-40 },
        Function::Clip { min: -1e-42, max: f64::INFINITY },
        Function::LeakyRelu { alpha: 1.0 },
    ] {
        // A slope of 1 is a multiplication, which may flush.
        let is_flushing = matches!(function, Function::LeakyRelu { .. });
        let values: Vec<f32> = SPECIAL.into_iter().filter(|x| !is_flushing || !x.is_subnormal()).collect();
        let outcome = compare(backend, &unary(function, &values)).unwrap();
        assert_eq!((outcome.elements, outcome.different), (values.len(), 0), "{function:?}");
    }
    let pairs: Vec<f64> =
        SPECIAL.iter().flat_map(|a| SPECIAL.map(|b| [f64::from(*a), f64::from(b)])).flatten().collect();
    let window = Window {
        input: [1, 1, 2],
        output: [1, 1, 1],
        kernel: [1, 1, 2],
        stride: [1; 3],
        dilation: [1; 3],
        before: [0; 3],
    };
    let images = pairs.len() / 2;
    let kernel = Kernel::Pool(Pool { images, window, kind: PoolKind::Maximum });
    let case = Case { kernel, operands: vec![Array::F64(pairs)], output: (Element::F64, images) };
    assert_eq!(compare(backend, &case).unwrap().different, 0);
}

/// A payload in a NaN survives what only moves numbers.
pub fn moved_numbers_keep_their_bits(backend: &mut dyn Backend) {
    let bits = [0x7fc0_1234u32, 0xffa0_0001, 0x8000_0000, 1, 0x807f_ffff, 0x7f80_0000];
    let table = backend.upload(&Array::F32(bits.map(f32::from_bits).to_vec())).unwrap();
    let index = backend.upload(&Array::I32(vec![5, 4, 3, 2, 1, 0])).unwrap();
    let output = backend.zeros(Element::F32, 6).unwrap();
    let gather = Gather { rows: 6, columns: 1, table: 6, strides: [1, 1] };
    backend.run(&Kernel::Gather(gather), &[table, index], output).unwrap();
    let Array::F32(found) = backend.download(output).unwrap() else { panic!("it was uploaded as binary32") };
    let found: Vec<u32> = found.into_iter().map(f32::to_bits).collect();
    assert_eq!(found, bits.into_iter().rev().collect::<Vec<_>>());
}

/// Numbers of every magnitude whose parts look random; the same every time.
pub fn many_numbers(count: u32) -> Vec<f32> {
    (0..count).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9) ^ (i >> 7))).collect()
}

/// Quotients and roots are rounded as IEEE 754 states it, for numbers of all magnitudes.
pub fn quotients_and_roots_are_correctly_rounded(backend: &mut dyn Backend) {
    let numbers: Vec<f32> = many_numbers(40_000).into_iter().filter(|x| x.is_normal()).collect();
    let half = numbers.len() / 2;
    let (x, variance) = (&numbers[..half], numbers[half..2 * half].iter().map(|x| x.abs()));
    let constant = |value: f64| Array::F64(vec![value; half]);
    let operands = vec![
        Array::F64(x.iter().map(|x| f64::from(*x)).collect()),
        constant(1.0),
        constant(0.0),
        constant(0.0),
        Array::F64(variance.map(f64::from).collect()),
    ];
    let kernel = Kernel::Affine(Affine { outer: 1, channels: half, inner: 1, epsilon: 0.0 });
    let case = Case { kernel, operands, output: (Element::F64, half) };
    let (right, found) = (expected(Arithmetic::F32, &case).unwrap(), run(backend, &case).unwrap());
    let (Array::F32(right), Array::F32(found)) = (right, found) else {
        panic!("the kit's arithmetic is binary32")
    };
    let mut compared = 0;
    for (right, found) in right.iter().zip(&found).filter(|(right, _)| !right.is_subnormal()) {
        assert_eq!(right.to_bits(), found.to_bits(), "{right:e} {found:e}");
        compared += 1;
    }
    assert!(compared > 15_000, "{compared}");
}

/// The greatest distance of each transcendental function from the same in binary64, in ULP of binary32, and its bound.
pub fn functions_keep_their_bounds(backend: &mut dyn Backend) {
    let bounds = [
        (Function::Elu { alpha: 1.0 }, 1),
        (Function::Tanh, 2),
        (Function::Sigmoid, 3),
        (Function::Softplus, 2),
    ];
    let values: Vec<f32> =
        many_numbers(200_000).into_iter().filter(|x| x.is_normal() && x.abs() < 80.0).collect();
    assert!(values.len() > 50_000);
    for function in [Function::Gelu { tanh: false }, Function::Gelu { tanh: true }] {
        // Where the sum with 1 cancels they are far from binary64, on the CPU, too.
        assert_eq!(compare(backend, &unary(function, &values)).unwrap().different, 0, "{function:?}");
    }
    for (function, bound) in bounds {
        let case = unary(function, &values);
        let exact = expected(Arithmetic::F64, &case).unwrap().into_real(Element::F32);
        let found = run(backend, &case).unwrap();
        let Outcome { ulps, .. } = distance(&exact, &found);
        println!("{function:?}: {ulps} ULP from binary64");
        assert!(ulps <= bound, "{function:?}: {ulps} ULP");
        assert_eq!(distance(&expected(Arithmetic::F32, &case).unwrap(), &found).different, 0, "{function:?}");
    }
}

/// An integer that leaves 32 bits is an error at the latest when a result is read, and is forgotten then.
pub fn an_overflow_is_an_error(backend: &mut dyn Backend) {
    let gemm = |inner| {
        let weight = GemmStrides { bucket: 0, inner: 1, output: inner };
        Kernel::Gemm(Gemm { rows: 1, inner, outputs: 1, weight, bias: None, buckets: 0 })
    };
    let large = i32::MAX;
    let cases = [
        (gemm(3), vec![vec![large, large, -large], vec![1, 1, 1]], None),
        (gemm(2), vec![vec![large, large], vec![1, 1]], Some("exceeds 32 bits")),
        (gemm(2), vec![vec![large, large], vec![large, -large]], None),
        (gemm(2), vec![vec![i32::MIN; 2], vec![i32::MIN; 2]], Some("exceeds 32 bits")),
        (square(), vec![vec![46341]], Some("exceeds 32 bits")),
        (square(), vec![vec![-46340]], None),
        (scale(large, large), vec![vec![-large]], None),
        (scale(-1, 1), vec![vec![i32::MIN]], Some("exceeds 32 bits")),
        (scale(i32::MIN, i32::MIN), vec![vec![i32::MIN]], None),
        (scale(i32::MIN, 3), vec![vec![5]], Some("exceeds 32 bits")),
    ];
    for (i, (kernel, operands, error)) in cases.into_iter().enumerate() {
        let operands = operands.into_iter().map(Array::I32).collect();
        let case = Case { kernel, operands, output: (Element::I32, 1) };
        let cpu = run(&mut Cpu::new(Arithmetic::F32), &case);
        match (run(backend, &case), error) {
            (Ok(found), None) => assert_eq!(found, cpu.unwrap(), "case {i}"),
            (Err(found), Some(words)) => {
                assert!(found.to_string().contains(words), "case {i}: {found}");
                assert!(cpu.is_err(), "case {i}");
            }
            (found, _) => panic!("case {i}: {found:?}, on the CPU {cpu:?}"),
        }
    }
}

fn square() -> Kernel {
    Kernel::Unary(Unary { len: 1, function: Function::Square })
}

fn scale(multiply: i32, divide: i32) -> Kernel {
    Kernel::Unary(Unary { len: 1, function: Function::Scale { multiply, divide } })
}

/// Nothing is done for nothing, and without complaint.
pub fn sizes_of_0_work(backend: &mut dyn Backend) {
    let kernel = Kernel::Binary(Binary {
        shape: vec![3, 0, 2],
        strides: [vec![0, 2, 1], vec![2, 2, 1]],
        function: Pairwise::Add,
    });
    let case = Case { kernel, operands: vec![Array::F64(vec![]); 2], output: (Element::F64, 0) };
    assert_eq!(run(backend, &case).unwrap(), Array::F32(vec![]));
    let weight = GemmStrides { bucket: 0, inner: 1, output: 0 };
    let bias = Some(GemmStrides { bucket: 0, inner: 0, output: 1 });
    let gemm = Kernel::Gemm(Gemm { rows: 2, inner: 0, outputs: 2, weight, bias, buckets: 0 });
    let operands = vec![Array::F64(vec![]), Array::F64(vec![]), Array::F64(vec![3.0, -0.0])];
    let case = Case { kernel: gemm, operands, output: (Element::F64, 4) };
    assert_eq!(run(backend, &case).unwrap(), Array::F32(vec![3.0, 0.0, 3.0, 0.0]));
}
