//! How fast strict products and convolutions are on one core and on all, beside `ndarray`, which sums in any order:
//! `cargo bench -p ckpt-forward --bench products [FILTER]`. Throughput is of additions and multiplications.

use ckpt_forward::kernel::{Conv, Gemm, GemmStrides, Window};
use ckpt_forward::{Arithmetic, Array, Backend, BufferId, Cpu, Kernel, Random};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use ndarray::Array2;
use std::time::Duration;

/// Rows, summands, outputs: a square, the two products of BERT's feed-forward layer, and one row.
const PRODUCTS: [[usize; 3]; 4] = [[1024, 1024, 1024], [1024, 768, 3072], [1024, 3072, 768], [1, 4096, 4096]];

/// Inputs, outputs, side, kernel, stride, groups: layers of ResNet-50, and a depthwise one, on 8 images.
const CONVOLUTIONS: [[usize; 6]; 6] = [
    [3, 64, 224, 7, 2, 1],
    [64, 64, 56, 3, 1, 1],
    [64, 256, 56, 1, 1, 1],
    [512, 512, 7, 3, 1, 1],
    [1024, 2048, 14, 1, 2, 1],
    [256, 256, 56, 3, 1, 256],
];

const BATCH: usize = 8;

/// A kernel with its operands on the device.
struct Ready {
    cpu: Cpu,
    kernel: Kernel,
    operands: Vec<BufferId>,
    output: BufferId,
}

impl Ready {
    fn new(mut cpu: Cpu, kernel: Kernel, lens: [usize; 2]) -> Self {
        let arithmetic = cpu.arithmetic();
        let operands = lens.map(|len| {
            let values = Array::F32(numbers(len)).into_real(arithmetic.element());
            cpu.upload(&values).expect("a device in memory takes any array")
        });
        let output = cpu.zeros(arithmetic.element(), kernel.outputs()).expect("memory");
        Ready { cpu, kernel, operands: operands.to_vec(), output }
    }

    fn measure(mut self, group: &mut BenchmarkGroup<'_, WallTime>, name: String) {
        group.bench_function(name, |b| {
            b.iter(|| self.cpu.run(&self.kernel, &self.operands, self.output).expect("the operands fit"));
        });
    }
}

/// The arithmetics that are measured.
fn devices() -> [(Cpu, &'static str); 3] {
    [(Cpu::new(Arithmetic::F32), "f32"), (Cpu::fused(), "fast"), (Cpu::new(Arithmetic::F64), "f64")]
}

fn numbers(len: usize) -> Vec<f32> {
    let mut random = Random::new(1);
    (0..len).map(|_| random.real() as f32).collect()
}

fn products(c: &mut Criterion) {
    let mut group = c.benchmark_group("product");
    for [rows, inner, outputs] in PRODUCTS {
        let size = format!("{rows}x{inner}x{outputs}");
        group.throughput(Throughput::Elements(2 * (rows * inner * outputs) as u64));
        let layouts = [("in, out", outputs, 1), ("out, in", 1, inner)];
        for (layout, inner_stride, output) in layouts {
            let weight = GemmStrides { bucket: 0, inner: inner_stride, output };
            let gemm = Gemm { rows, inner, outputs, weight, bias: None, buckets: 0 };
            for (cpu, arithmetic) in devices() {
                let name = format!("{size}, {layout}, {arithmetic}");
                let lens = [rows * inner, inner * outputs];
                Ready::new(cpu, Kernel::Gemm(gemm.clone()), lens).measure(&mut group, name);
            }
        }
        let matrix = |rows, columns| {
            Array2::from_shape_vec((rows, columns), numbers(rows * columns)).expect("the lengths fit")
        };
        let (x, weight) = (matrix(rows, inner), matrix(inner, outputs));
        group.bench_function(format!("{size}, ndarray, f32"), |b| b.iter(|| x.dot(&weight)));
    }
}

fn convolutions(c: &mut Criterion) {
    let mut group = c.benchmark_group("convolution");
    for [inputs, outputs, side, kernel, stride, groups] in CONVOLUTIONS {
        let (taps, before) = (kernel * kernel, kernel / 2);
        let places = (side + 2 * before - kernel) / stride + 1;
        let window = Window {
            input: [1, side, side],
            output: [1, places, places],
            kernel: [1, kernel, kernel],
            stride: [1, stride, stride],
            dilation: [1; 3],
            before: [0, before, before],
        };
        let each = inputs / groups;
        let weight = [each * taps, taps, 0, kernel, 1];
        let conv = Conv { batch: BATCH, groups, inputs, outputs, window, weight, bias: false };
        let sums = BATCH * outputs * places * places;
        group.throughput(Throughput::Elements(2 * (sums * each * taps) as u64));
        let lens = [BATCH * inputs * side * side, outputs * each * taps];
        for (cpu, arithmetic) in devices() {
            let size = format!("{inputs} to {outputs}, {kernel}x{kernel} on {side}x{side}, stride {stride}");
            let name = format!("{size}, {arithmetic}");
            Ready::new(cpu, Kernel::Conv(conv.clone()), lens).measure(&mut group, name);
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = products, convolutions
}
criterion_main!(benches);
