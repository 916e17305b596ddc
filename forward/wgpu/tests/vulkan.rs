//! The shaders on whatever Vulkan adapter there is; Mesa's software one will do (`mesa-vulkan-drivers`).
//!
//! Without an adapter these tests say that they are skipped, unless `CKPT_REQUIRE_VULKAN` is set.

mod common;

use ckpt_api::{Axis, DType, Graph, Kind, Node, Op, Result, Shape, Tensor};
use ckpt_forward::conformance::distance;
use ckpt_forward::kernel::{Function, Gather, Unary};
use ckpt_forward::{
    Arithmetic, Array, Backend, Cpu, Element, Kernel, MathMode, Parameters, Program, Random, default_shapes,
};

fn backend() -> Option<Box<dyn Backend>> {
    match ckpt_wgpu::open("vulkan", Arithmetic::F32) {
        Ok(backend) => Some(backend),
        Err(error) if std::env::var_os("CKPT_REQUIRE_VULKAN").is_none() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("CKPT_REQUIRE_VULKAN is set, but {error}"),
    }
}

#[test]
fn the_device_says_what_it_is() {
    let Some(backend) = backend() else { return };
    let info = backend.info();
    println!("{info}");
    assert_eq!((info.api.as_str(), info.arithmetic), ("vulkan", Arithmetic::F32));
    assert_eq!(info.math, MathMode::Strict, "{info}");
    let is_llvmpipe = info.device.contains("llvmpipe");
    assert!(info.software || !is_llvmpipe);
    assert_eq!(info.to_string().contains(", in software)"), info.software);
}

#[test]
fn every_kernel_agrees_with_the_cpu() {
    let Some(mut backend) = backend() else { return };
    common::every_kernel_agrees_with_the_cpu(&mut *backend);
}

/// Two layers of a classifier.
struct Weights([Tensor; 2]);

impl Parameters for Weights {
    fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|tensor| tensor.name == name)
    }

    fn load(&self, name: &str) -> Result<Array> {
        let mut random = Random::new(name.len() as u64);
        let len = if name == "hidden" { 19 * 7 } else { 5 * 19 };
        Ok(Array::F32((0..len).map(|_| random.real() as f32).collect()))
    }
}

#[test]
fn a_graph_gives_the_bits_of_the_cpu() {
    let Some(mut backend) = backend() else { return };
    let tensor = |name, shape| {
        Tensor::new(name, DType::F32, Shape::new(shape).unwrap()).with_axes([Axis::Out, Axis::In])
    };
    let weights = Weights([tensor("hidden", vec![19, 7]), tensor("output", vec![5, 19])]);
    let layers = vec![
        Node::new("a", Op::Gemm).parameter("weight", "hidden"),
        Node::new("b", Op::Tanh),
        Node::new("c", Op::Gemm).parameter("weight", "output"),
        Node::new("d", Op::Softmax),
    ];
    let graph = Graph::sequential("", vec![None, Some(7)], vec![None, Some(5)], layers);
    let program = Program::new(&graph, &weights, &default_shapes(&graph, &weights, 33)).unwrap();
    let inputs = program.random_inputs(1);
    let right = program.run(&mut Cpu::new(Arithmetic::F32), &inputs, &mut ()).unwrap();
    let found = program.run(&mut *backend, &inputs, &mut ()).unwrap();
    assert_eq!(right["d"].shape, [33, 5]);
    assert_eq!(distance(&right["d"].array, &found["d"].array).different, 0);
}

#[test]
fn kernels_that_integers_share_agree_with_the_cpu() {
    let Some(mut backend) = backend() else { return };
    common::kernels_that_integers_share_agree_with_the_cpu(&mut *backend);
}

#[test]
fn comparisons_are_exact() {
    let Some(mut backend) = backend() else { return };
    common::comparisons_are_exact(&mut *backend);
}

#[test]
fn moved_numbers_keep_their_bits() {
    let Some(mut backend) = backend() else { return };
    common::moved_numbers_keep_their_bits(&mut *backend);
}

#[test]
fn quotients_and_roots_are_correctly_rounded() {
    let Some(mut backend) = backend() else { return };
    common::quotients_and_roots_are_correctly_rounded(&mut *backend);
}

#[test]
fn functions_keep_their_bounds() {
    let Some(mut backend) = backend() else { return };
    common::functions_keep_their_bounds(&mut *backend);
}

#[test]
fn an_overflow_is_an_error() {
    let Some(mut backend) = backend() else { return };
    common::an_overflow_is_an_error(&mut *backend);
}

#[test]
fn sizes_of_0_work() {
    let Some(mut backend) = backend() else { return };
    common::sizes_of_0_work(&mut *backend);
}

#[test]
fn more_workgroups_than_one_axis_has_are_dispatched() {
    let Some(mut backend) = backend() else { return };
    let len = 64 * 65535 + 100;
    let values: Vec<i32> = (0..).take(len).map(|i: i32| if i % 3 == 0 { -i } else { i }).collect();
    let x = backend.upload(&Array::I32(values.clone())).unwrap();
    let y = backend.zeros(Element::I32, len).unwrap();
    backend.run(&Kernel::Unary(Unary { len, function: Function::Relu }), &[x], y).unwrap();
    let right: Vec<i32> = values.into_iter().map(|x| x.max(0)).collect();
    assert!(backend.download(y).unwrap() == Array::I32(right));
}

#[test]
fn an_index_out_of_range_is_an_error_and_is_forgotten_then() {
    let Some(mut backend) = backend() else { return };
    let table = backend.upload(&Array::F32(vec![1.0, 2.0])).unwrap();
    let output = backend.zeros(Element::F32, 1).unwrap();
    let gather = Kernel::Gather(Gather { rows: 1, columns: 1, table: 2, strides: [1, 1] });
    for bad in [2, -1, i32::MIN] {
        let index = backend.upload(&Array::I32(vec![bad])).unwrap();
        backend.run(&gather, &[table, index], output).unwrap();
        let error = backend.download(output).unwrap_err();
        assert!(error.to_string().contains("out of range: found kernel gather"), "{error}");
        assert_eq!(backend.download(output).unwrap(), Array::F32(vec![0.0]));
    }
}

#[test]
fn what_does_not_fit_a_kernel_is_refused() {
    let Some(mut backend) = backend() else { return };
    let kernel = Kernel::Unary(Unary { len: 3, function: Function::Relu });
    let three = backend.upload(&Array::F32(vec![1.0; 3])).unwrap();
    let two = backend.upload(&Array::F32(vec![1.0; 2])).unwrap();
    let integers = backend.upload(&Array::I32(vec![1; 3])).unwrap();
    let output = backend.zeros(Element::F32, 3).unwrap();
    let freed = backend.zeros(Element::F32, 3).unwrap();
    backend.free(freed);
    let mut refused = |operands: &[_], output, words: &str| {
        let error = backend.run(&kernel, operands, output).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&[two], output, "found kernel unary with 2 elements of F32, expected at least 3 of F32");
    refused(&[integers], output, "with 3 elements of I32");
    refused(&[three], two, "with 2 elements");
    refused(&[], output, "fewer operands");
    refused(&[output], output, "is one of its operands");
    refused(&[freed], output, "no such buffer");
    refused(&[three], freed, "no such buffer");
}

#[test]
fn binary64_and_what_no_buffer_holds_are_refused() {
    let error = ckpt_wgpu::open("vulkan", Arithmetic::F64).err().unwrap();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("only in f32: found f64, expected f32"), "{error}");
    let Some(mut backend) = backend() else { return };
    assert_eq!(backend.upload(&Array::F64(vec![1.0])).unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(backend.zeros(Element::F32, 1 << 30).unwrap_err().kind(), Kind::Limit);
    assert_eq!(backend.zeros(Element::F32, usize::MAX).unwrap_err().kind(), Kind::Limit);
}

#[test]
fn metal_is_not_vulkan() {
    if cfg!(target_vendor = "apple") {
        return;
    }
    let error = ckpt_wgpu::open("metal", Arithmetic::F32).err().unwrap();
    assert!(error.to_string().starts_with("metal is unavailable, because"), "{error}");
}

/// What the test below sees in a process of its own.
fn open_and_tell() -> Result<()> {
    ckpt_wgpu::open("vulkan", Arithmetic::F32).map(|_| ())
}

#[test]
fn without_a_driver_the_reason_is_said() {
    const ALONE: &str = "CKPT_TEST_WITHOUT_A_DRIVER";
    if std::env::var_os(ALONE).is_some() {
        println!("opened: {:?}", open_and_tell().map_err(|error| error.to_string()));
        return;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "without_a_driver_the_reason_is_said", "--nocapture"])
        .envs([(ALONE, "1"), ("VK_DRIVER_FILES", "/nowhere.json"), ("VK_ICD_FILENAMES", "/nowhere.json")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("vulkan is unavailable, because no Vulkan driver was found"), "{said}");
}
