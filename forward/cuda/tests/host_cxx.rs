//! `kernels.cu` as host C++, under the address and undefined-behavior sanitizers, against the CPU.
//!
//! The launches are those of the GPU. All of them are skipped, saying so, if there is no C++ compiler;
//! `CKPT_REQUIRE_CXX` makes that a failure.

mod host;

use ckpt_forward::conformance::{Case, Outcome, Random, cases, compare, run};
use ckpt_forward::kernel::*;
use ckpt_forward::{Arithmetic, Array, Element, Kernel};
use host::HostCxx;
use std::collections::BTreeMap;

const ARITHMETICS: [Arithmetic; 3] = [Arithmetic::F64, Arithmetic::F32, Arithmetic::F32InF64];
const ROUNDS: usize = 150;

fn same_bits(host: &mut HostCxx, case: &Case) -> usize {
    let outcome: Outcome = compare(host, case).unwrap();
    assert_eq!(outcome.different, 0, "{outcome:?} {:?}", case.kernel);
    outcome.elements
}

#[test]
fn every_kernel_has_the_bits_of_the_cpu_in_every_arithmetic() {
    for arithmetic in ARITHMETICS {
        let Some(mut host) = HostCxx::open(arithmetic) else { return };
        let mut elements = BTreeMap::new();
        for case in cases(5, ROUNDS) {
            *elements.entry(case.kernel.name()).or_insert(0) += same_bits(&mut host, &case);
        }
        assert_eq!(elements.len(), 14, "{elements:?}");
        assert!(elements.values().all(|elements| *elements > 300), "{elements:?}");
    }
}

#[test]
fn every_function_has_the_bits_of_the_cpu_on_numbers_of_every_magnitude() {
    let functions = [
        Function::Relu,
        Function::LeakyRelu { alpha: 0.3 },
        Function::Elu { alpha: 1.5 },
        Function::Gelu { tanh: false },
        Function::Gelu { tanh: true },
        Function::Softplus,
        Function::Sigmoid,
        Function::Tanh,
        Function::Clip { min: -1.0, max: 1.0 },
        Function::Square,
    ];
    for arithmetic in ARITHMETICS {
        let Some(mut host) = HostCxx::open(arithmetic) else { return };
        let mut random = Random::new(7);
        for function in functions {
            let values = every_magnitude(&mut random);
            let len = values.len();
            let kernel = Kernel::Unary(Unary { len, function });
            let operands = vec![Array::F64(values)];
            same_bits(&mut host, &Case { kernel, operands, output: (Element::F64, len) });
        }
    }
}

/// Any bits of binary32, of binary64, and numbers of the sizes that functions are computed at.
fn every_magnitude(random: &mut Random) -> Vec<f64> {
    let mut values = Vec::new();
    for _ in 0..4000 {
        let bits = random.bits();
        values.push(f64::from(f32::from_bits((bits >> 32) as u32)));
        values.push(f64::from_bits(bits));
        values.extend([1e-3, 1.0, 8.0, 120.0, 1000.0].map(|scale| scale * random.real()));
    }
    values
}

#[test]
fn logarithm_and_exponential_of_a_softmax_have_the_bits_of_the_cpu_on_any_row() {
    for arithmetic in ARITHMETICS {
        let Some(mut host) = HostCxx::open(arithmetic) else { return };
        let mut random = Random::new(8);
        for round in 0..200 {
            let (len, log) = (random.between(1, 60), round % 2 == 0);
            let scale = [1e-4, 1.0, 100.0, 1e4][random.between(0, 3)];
            let mut x: Vec<f64> = (0..len).map(|_| scale * random.real()).collect();
            if random.chance(8) {
                x[0] = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN][random.between(0, 2)];
            }
            let kernel = Kernel::Softmax(Softmax { outer: 1, len, inner: 1, log });
            same_bits(
                &mut host,
                &Case { kernel, operands: vec![Array::F64(x)], output: (Element::F64, len) },
            );
        }
    }
}

#[test]
fn the_sine_has_the_bits_of_the_cpu_in_every_column_of_wide_images() {
    for arithmetic in ARITHMETICS {
        let Some(mut host) = HostCxx::open(arithmetic) else { return };
        for width in [1, 2, 3, 640, 1000, 4096] {
            let kernel = Kernel::StaticFeatures(StaticFeatures { batch: 1, height: 1, width });
            let operands = vec![Array::F64(vec![0.25; 4 * width])];
            same_bits(&mut host, &Case { kernel, operands, output: (Element::F64, 8 * width) });
        }
    }
}

/// The same kernel on integers.
fn in_integers(mut case: Case) -> Case {
    for operand in &mut case.operands {
        if let Array::F64(values) = operand {
            *operand =
                Array::I32(values.iter().map(|value| (1000.0 * value).clamp(-1e4, 1e4) as i32).collect());
        }
    }
    case.output.0 = Element::I32;
    case
}

#[test]
fn integers_are_moved_and_summed_as_by_the_cpu() {
    let Some(mut host) = HostCxx::open(Arithmetic::F32) else { return };
    let mut elements = BTreeMap::new();
    let shared = ["copy", "pad", "gather", "binary", "gemm", "conv", "sparse_sum"];
    for case in cases(6, 60).into_iter().filter(|case| shared.contains(&case.kernel.name())) {
        let name = case.kernel.name();
        *elements.entry(name).or_insert(0) += same_bits(&mut host, &in_integers(case));
    }
    assert_eq!(elements.len(), shared.len());
    assert!(elements.values().all(|elements| *elements > 100), "{elements:?}");
}

#[test]
fn a_sum_that_leaves_32_bits_is_an_error() {
    let Some(mut host) = HostCxx::open(Arithmetic::F32) else { return };
    let sum = |a: i32, b: i32| Case {
        kernel: Kernel::Binary(Binary {
            shape: vec![1],
            strides: [vec![0], vec![0]],
            function: Pairwise::Add,
        }),
        operands: vec![Array::I32(vec![a]), Array::I32(vec![b])],
        output: (Element::I32, 1),
    };
    assert_eq!(run(&mut host, &sum(i32::MAX, 0)).unwrap(), Array::I32(vec![i32::MAX]));
    assert!(run(&mut host, &sum(i32::MAX, 1)).is_err());
    assert!(run(&mut host, &sum(i32::MIN, -1)).is_err());
}

#[test]
fn a_sum_that_leaves_64_bits_is_an_error_and_does_not_wrap() {
    let Some(mut host) = HostCxx::open(Arithmetic::F32) else { return };
    let inner = 8;
    let stride = GemmStrides { bucket: 0, inner: 1, output: 0 };
    let case = Case {
        kernel: Kernel::Gemm(Gemm { rows: 1, inner, outputs: 1, weight: stride, bias: None, buckets: 0 }),
        operands: vec![Array::I32(vec![i32::MIN; inner]), Array::I32(vec![i32::MIN; inner])],
        output: (Element::I32, 1),
    };
    assert!(run(&mut host, &case).is_err());
}

#[test]
fn an_index_out_of_range_is_an_error_and_reads_nothing() {
    let Some(mut host) = HostCxx::open(Arithmetic::F32) else { return };
    let gather = |index: i32| Case {
        kernel: Kernel::Gather(Gather { rows: 1, columns: 2, table: 3, strides: [2, 1] }),
        operands: vec![Array::F64(vec![0.0; 6]), Array::I32(vec![index])],
        output: (Element::F64, 2),
    };
    let stride = GemmStrides { bucket: 1, inner: 1, output: 1 };
    let gemm = |bucket: i32| Case {
        kernel: Kernel::Gemm(Gemm { rows: 1, inner: 1, outputs: 1, weight: stride, bias: None, buckets: 3 }),
        operands: vec![Array::F64(vec![1.0]), Array::F64(vec![0.0; 3]), Array::I32(vec![bucket])],
        output: (Element::F64, 1),
    };
    let sum = |index: i32| Case {
        kernel: Kernel::SparseSum(SparseSum {
            rows: 1,
            slots: 1,
            outputs: 1,
            features: 3,
            sets: 1,
            weight: [3, 1, 1],
            factoriser: None,
            bias: None,
            bias_buckets: 0,
        }),
        operands: vec![Array::I32(vec![index]), Array::F64(vec![0.0; 3])],
        output: (Element::F64, 1),
    };
    for (index, is_right) in [(0, true), (2, true), (3, false), (i32::MAX, false)] {
        for case in [gather(index), gemm(index), sum(index)] {
            assert_eq!(run(&mut host, &case).is_ok(), is_right, "{index} {:?}", case.kernel);
        }
    }
    assert!(run(&mut host, &gather(-1)).is_err());
    assert!(run(&mut host, &gemm(-1)).is_err());
    assert!(run(&mut host, &sum(-1)).is_ok(), "a negative index is none");
}
