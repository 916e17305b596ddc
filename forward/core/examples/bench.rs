#![allow(missing_docs)]
use ckpt_forward::kernel::*;
use ckpt_forward::*;
use std::time::Instant;
fn main() {
    for arithmetic in [Arithmetic::F32, Arithmetic::F64, Arithmetic::F32InF64] {
        let mut cpu = Cpu::new(arithmetic);
        let mut random = Random::new(1);
        let mut v =
            |n: usize| Array::F64((0..n).map(|_| random.real()).collect()).into_real(arithmetic.element());
        let (x, w) = (cpu.upload(&v(10000 * 784)).unwrap(), cpu.upload(&v(784 * 128)).unwrap());
        let y = cpu.zeros(arithmetic.element(), 10000 * 128).unwrap();
        let g = Gemm {
            rows: 10000,
            inner: 784,
            outputs: 128,
            weight: GemmStrides { bucket: 0, inner: 1, output: 784 },
            bias: None,
            buckets: 0,
        };
        let t = Instant::now();
        cpu.run(&Kernel::Gemm(g), &[x, w], y).unwrap();
        let s = t.elapsed().as_secs_f64();
        println!("{arithmetic:?} gemm {s:.3} s {:.2} GFLOP/s", 2.0 * 10000.0 * 784.0 * 128.0 / s / 1e9);
        let (x, w) = (cpu.upload(&v(8 * 32 * 64 * 64)).unwrap(), cpu.upload(&v(64 * 32 * 9)).unwrap());
        let y = cpu.zeros(arithmetic.element(), 8 * 64 * 64 * 64).unwrap();
        let c = Conv {
            batch: 8,
            groups: 1,
            inputs: 32,
            outputs: 64,
            bias: false,
            weight: [288, 9, 3, 1],
            window: Window {
                input: [64, 64],
                output: [64, 64],
                kernel: [3, 3],
                stride: [1, 1],
                dilation: [1, 1],
                before: [1, 1],
            },
        };
        let t = Instant::now();
        cpu.run(&Kernel::Conv(c), &[x, w], y).unwrap();
        let s = t.elapsed().as_secs_f64();
        println!("{arithmetic:?} conv {s:.3} s {:.2} GFLOP/s", 2.0 * 8.0 * 64.0 * 4096.0 * 288.0 / s / 1e9);
    }
}
