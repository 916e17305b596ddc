//! The conformance kit on an NVIDIA GPU; says that it is skipped where there is none. `CKPT_REQUIRE_CUDA` makes that a
//! failure.

use ckpt_api::Kind;
use ckpt_cuda::Cuda;
use ckpt_forward::conformance::{cases, compare};
use ckpt_forward::kernel::{Binary, Function};
use ckpt_forward::kernel::{Pairwise, Unary};
use ckpt_forward::{Arithmetic, Array, Backend, Element, Kernel};
use std::collections::BTreeSet;

const ROUNDS: usize = 150;

fn open(arithmetic: Arithmetic) -> Option<Cuda> {
    match Cuda::open(arithmetic) {
        Ok(cuda) => Some(cuda),
        Err(error) => {
            assert!(std::env::var_os("CKPT_REQUIRE_CUDA").is_none(), "CKPT_REQUIRE_CUDA is set: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

#[test]
fn without_a_device_the_reason_is_told() {
    if let Err(error) = Cuda::open(Arithmetic::F32) {
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.message().starts_with("CUDA is unavailable: "), "{error}");
    }
}

#[test]
fn every_kernel_has_the_bits_of_the_cpu_in_every_arithmetic() {
    for arithmetic in [Arithmetic::F64, Arithmetic::F32, Arithmetic::F32InF64] {
        let Some(mut cuda) = open(arithmetic) else { return };
        println!("{}", cuda.info());
        let mut seen = BTreeSet::new();
        for case in cases(9, ROUNDS) {
            let outcome = compare(&mut cuda, &case).unwrap();
            assert_eq!(outcome.different, 0, "{outcome:?} {:?}", case.kernel);
            seen.insert(case.kernel.name());
        }
        assert_eq!(seen.len(), 14, "{seen:?}");
    }
}

#[test]
fn an_overflow_is_reported_at_the_next_download_and_only_there() {
    let Some(mut cuda) = open(Arithmetic::F32) else { return };
    let a = cuda.upload(&Array::I32(vec![i32::MAX])).unwrap();
    let y = cuda.zeros(Element::I32, 1).unwrap();
    let sum = Binary { shape: vec![1], strides: [vec![1], vec![1]], function: Pairwise::Add };
    cuda.run(&Kernel::Binary(sum), &[a, a], y).unwrap();
    assert_eq!(cuda.download(y).unwrap_err().message(), "an integer leaves 32 bits");
    assert_eq!(cuda.download(a).unwrap(), Array::I32(vec![i32::MAX]));
}

#[test]
fn an_output_that_is_an_operand_is_refused() {
    let Some(mut cuda) = open(Arithmetic::F32) else { return };
    let x = cuda.upload(&Array::F32(vec![1.0])).unwrap();
    let relu = Kernel::Unary(Unary { len: 1, function: Function::Relu });
    assert_eq!(cuda.run(&relu, &[x], x).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(cuda.download(x).unwrap(), Array::F32(vec![1.0]));
}
