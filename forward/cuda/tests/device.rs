//! The conformance kit on an NVIDIA GPU; says that it is skipped if there is none. `CKPT_REQUIRE_CUDA` makes that a
//! failure. All of it runs also on a driver in software, which needs a C++ compiler only.

#[cfg(target_os = "linux")]
#[path = "host/compile.rs"]
mod compile;

use ckpt_api::Kind;
use ckpt_cuda::Cuda;
use ckpt_forward::conformance::{cases, compare};
use ckpt_forward::kernel::{Binary, Function, Pairwise, Unary};
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
    assert_eq!(cuda.download(y).unwrap_err().message(), "an integer exceeds 32 bits");
    cuda.run(&Kernel::Unary(Unary { len: 1, function: Function::Relu }), &[a], y).unwrap();
    assert_eq!(cuda.download(y).unwrap(), Array::I32(vec![i32::MAX]));
}

#[test]
fn an_output_that_is_an_operand_is_refused() {
    let Some(mut cuda) = open(Arithmetic::F32) else { return };
    let x = cuda.upload(&Array::F32(vec![1.0])).unwrap();
    let relu = Kernel::Unary(Unary { len: 1, function: Function::Relu });
    assert_eq!(cuda.run(&relu, &[x], x).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(cuda.download(x).unwrap(), Array::F32(vec![1.0]));
}

#[test]
fn a_buffer_of_nothing_is_held_and_given_back() {
    let Some(mut cuda) = open(Arithmetic::F64) else { return };
    for empty in [Array::F64(vec![]), Array::F32(vec![]), Array::I32(vec![])] {
        let uploaded = cuda.upload(&empty).unwrap();
        let zeros = cuda.zeros(empty.element(), 0).unwrap();
        assert_eq!(cuda.download(uploaded).unwrap(), empty);
        assert_eq!(cuda.download(zeros).unwrap(), empty);
    }
}

#[test]
fn more_outputs_than_a_grid_has_threads_are_all_computed() {
    let Some(mut cuda) = open(Arithmetic::F32) else { return };
    let len = (1 << 24) + 12_345;
    let x = cuda.upload(&Array::I32(vec![-3; len])).unwrap();
    let y = cuda.zeros(Element::I32, len).unwrap();
    cuda.run(&Kernel::Unary(Unary { len, function: Function::Square }), &[x], y).unwrap();
    assert_eq!(cuda.download(y).unwrap(), Array::I32(vec![9; len]));
}

#[test]
fn what_does_not_fit_into_memory_is_a_limit() {
    let Some(mut cuda) = open(Arithmetic::F64) else { return };
    for len in [1 << 50, usize::MAX] {
        assert_eq!(cuda.zeros(Element::F64, len).unwrap_err().kind(), Kind::Limit);
    }
    let x = cuda.upload(&Array::F64(vec![1.5])).unwrap();
    assert_eq!(cuda.download(x).unwrap(), Array::F64(vec![1.5]), "and the device goes on");
}

#[test]
fn a_buffer_that_was_freed_is_an_error() {
    let Some(mut cuda) = open(Arithmetic::F64) else { return };
    let x = cuda.upload(&Array::F64(vec![1.5])).unwrap();
    cuda.free(x);
    assert!(cuda.download(x).is_err());
    assert!(cuda.run(&Kernel::Unary(Unary { len: 1, function: Function::Relu }), &[x], x).is_err());
}

/// What the host does is tested also without a GPU: a driver in software runs the kernels as host C++.
#[cfg(target_os = "linux")]
#[test]
fn on_a_driver_in_software_every_test_here_passes_and_a_missing_device_is_told() {
    use std::process::Command;
    const INSIDE: &str = "CKPT_CUDA_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    let options = ["-shared", "-fPIC", "-Wl,-z,defs"];
    let Some(library) = compile::compile("libcuda.cpp", "libcuda.so", &options) else { return };
    let tests = |filter: &str, variable: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("LD_LIBRARY_PATH", library.parent().unwrap()).env(INSIDE, "1").env(variable, "1");
        let output = command.args([filter, "--nocapture", "--test-threads", "1"]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (passed, text) = tests("", "CKPT_REQUIRE_CUDA");
    assert!(passed && text.contains("cuda (no GPU: kernels.cu as host C++"), "{text}");
    let (passed, text) = tests("every_kernel", "CKPT_NO_DEVICE");
    assert!(passed && text.contains("the NVIDIA driver finds no device"), "{text}");
}
