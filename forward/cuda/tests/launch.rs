//! Sizes are checked before anything is launched: what a launch reads and writes is within its buffers.

use ckpt_api::Kind;
use ckpt_cuda::{Launch, Operand};
use ckpt_forward::conformance::{Case, Random, cases};
use ckpt_forward::kernel::*;
use ckpt_forward::{Arithmetic, Element, Kernel};
use std::collections::BTreeSet;

const ROUNDS: usize = 60;

fn held(element: Element, len: usize) -> Operand {
    Operand { element: if element == Element::I32 { element } else { Element::F32 }, len }
}

fn buffers(case: &Case) -> (Vec<Operand>, Operand) {
    let operands = case.operands.iter().map(|array| held(array.element(), array.len())).collect();
    (operands, held(case.output.0, case.output.1))
}

fn launch(kernel: &Kernel, operands: &[Operand], output: Operand) -> ckpt_api::Result<Launch> {
    Launch::new(Arithmetic::F32, kernel, operands, output)
}

#[track_caller]
fn is_refused(kernel: &Kernel, operands: &[Operand], output: Operand) {
    let error = launch(kernel, operands, output).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{kernel:?}");
}

#[test]
fn every_case_of_the_kit_has_a_thread_for_each_output() {
    for case in cases(1, ROUNDS) {
        let (operands, output) = buffers(&case);
        let launch = launch(&case.kernel, &operands, output).unwrap();
        assert_eq!(launch.threads, case.kernel.outputs() as u64);
    }
}

#[test]
fn a_buffer_that_is_one_element_short_is_refused() {
    let mut refused = BTreeSet::new();
    for case in cases(2, ROUNDS) {
        let (operands, output) = buffers(&case);
        for short in 0..operands.len() {
            let mut operands = operands.clone();
            // What a view of an empty tensor is an offset into is not read.
            if operands[short].len == 0 || (case.kernel.name() == "copy" && case.kernel.outputs() == 0) {
                continue;
            }
            operands[short].len -= 1;
            is_refused(&case.kernel, &operands, output);
            refused.insert((case.kernel.name(), short));
        }
        if output.len > 0 && case.kernel.name() != "copy" {
            is_refused(&case.kernel, &operands, Operand { len: output.len - 1, ..output });
        }
    }
    assert_eq!(refused.len(), 31, "{refused:?}");
}

#[test]
fn operands_of_another_type_or_number_are_refused() {
    for case in cases(3, ROUNDS) {
        let (operands, output) = buffers(&case);
        is_refused(&case.kernel, &operands[1..], output);
        is_refused(&case.kernel, &[&operands[..], &[operands[0]]].concat(), output);
        is_refused(&case.kernel, &operands, Operand { element: Element::F64, ..output });
        for wrong in 0..operands.len() {
            let mut operands = operands.clone();
            operands[wrong].element = Element::F64;
            is_refused(&case.kernel, &operands, output);
        }
    }
}

#[test]
fn a_copy_that_writes_an_element_twice_is_refused() {
    let copy = |shape: &[usize], strides: &[usize]| {
        let from = View { offset: 0, strides: vec![0; shape.len()] };
        let to = View { offset: 0, strides: strides.to_vec() };
        Kernel::Copy(Copy { shape: shape.to_vec(), from, to })
    };
    let (x, y) = (held(Element::F32, 1), held(Element::F32, 100));
    assert!(launch(&copy(&[3, 4], &[4, 1]), &[x], y).is_ok());
    assert!(launch(&copy(&[3, 4], &[1, 3]), &[x], y).is_ok());
    assert!(launch(&copy(&[1, 4], &[0, 1]), &[x], y).is_ok());
    is_refused(&copy(&[3, 4], &[3, 1]), &[x], y);
    is_refused(&copy(&[2], &[0]), &[x], y);
}

#[test]
fn a_window_that_covers_nothing_is_refused() {
    let window = |before, output| Window {
        input: [1, 2, 2],
        output: [1, output, 1],
        kernel: [1, 2, 2],
        stride: [1; 3],
        dilation: [1; 3],
        before: [0, before, 0],
    };
    let pool = |window| Kernel::Pool(Pool { images: 1, window, kind: PoolKind::Maximum });
    let x = held(Element::F32, 4);
    assert!(launch(&pool(window(1, 3)), &[x], held(Element::F32, 3)).is_ok());
    is_refused(&pool(window(2, 3)), &[x], held(Element::F32, 3));
    is_refused(&pool(window(1, 4)), &[x], held(Element::F32, 4));
}

#[test]
fn sizes_beyond_any_memory_are_refused_and_do_not_overflow() {
    let huge = usize::MAX / 3;
    let x = held(Element::F32, 8);
    let stride = GemmStrides { bucket: huge, inner: huge, output: huge };
    let kernels = [
        Kernel::Copy(Copy {
            shape: vec![huge, huge],
            from: View { offset: huge, strides: vec![huge, 1] },
            to: View { offset: huge, strides: vec![huge, 1] },
        }),
        Kernel::Pad(Pad {
            input: vec![huge, 3],
            output: vec![huge, 9],
            before: vec![i64::MIN, 0],
            border: Border::Nearest,
        }),
        Kernel::Binary(Binary {
            shape: vec![2, 4],
            strides: [vec![huge, huge], vec![0, 0]],
            function: Pairwise::Add,
        }),
        Kernel::Gemm(Gemm { rows: 1, inner: 8, outputs: 8, weight: stride, bias: None, buckets: 0 }),
        Kernel::Gemm(Gemm { rows: huge, inner: huge, outputs: huge, weight: stride, bias: None, buckets: 0 }),
        Kernel::Softmax(Softmax { outer: huge, len: huge, inner: huge, log: false }),
        Kernel::Reduce(Reduce { rows: huge, len: huge, function: Reduction::Mean }),
        Kernel::StaticFeatures(StaticFeatures { batch: huge, height: huge, width: 1 }),
    ];
    for kernel in kernels {
        is_refused(&kernel, &[x, x], x);
        is_refused(&kernel, &[x], x);
    }
}

#[test]
fn more_axes_than_there_are_words_for_are_refused() {
    let mut random = Random::new(4);
    let shape = vec![1; MAX_RANK + random.between(1, 9)];
    let kernel = Kernel::Binary(Binary {
        strides: [shape.clone(), shape.clone()],
        shape,
        function: Pairwise::Multiply,
    });
    let x = held(Element::F32, 1);
    is_refused(&kernel, &[x, x], x);
}

#[test]
fn a_function_of_integers_alone_is_refused_for_numbers_and_the_other_way_round() {
    let unary = |function| Kernel::Unary(Unary { len: 1, function });
    let (real, integer) = (held(Element::F32, 1), held(Element::I32, 1));
    is_refused(&unary(Function::Scale { multiply: 1, divide: 2 }), &[real], real);
    is_refused(&unary(Function::Scale { multiply: 1, divide: 0 }), &[integer], integer);
    is_refused(&unary(Function::Tanh), &[integer], integer);
    is_refused(&unary(Function::Dequantize { divide: 2.0 }), &[integer], integer);
    is_refused(&Kernel::Reduce(Reduce { rows: 1, len: 1, function: Reduction::Mean }), &[integer], integer);
}

#[test]
fn what_the_device_has_no_kernel_for_is_an_error_that_says_so() {
    let x = held(Element::F32, 1);
    let shape = vec![1];
    let strides = [vec![1], vec![1]];
    let kernels = [
        Kernel::Unary(Unary { len: 1, function: Function::Mish }),
        Kernel::Reduce(Reduce { rows: 1, len: 1, function: Reduction::Sum }),
        Kernel::Binary(Binary {
            shape: shape.clone(),
            strides: strides.clone(),
            function: Pairwise::Subtract,
        }),
        Kernel::Compare(Compare { shape: shape.clone(), strides, relation: Relation::Less }),
        Kernel::Select(Select { shape, strides: [vec![1], vec![1], vec![1]] }),
    ];
    for kernel in kernels {
        let error = Launch::new(Arithmetic::F32, &kernel, &[x, x, x], x).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("this device has no kernel") && text.contains(kernel.name()), "{text}");
    }
}
