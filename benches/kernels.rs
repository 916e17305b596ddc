//! How fast the loops over elements are, beside `memcpy`, `ndarray`, the `transpose` crate, `half` and plain loops:
//! `cargo bench --bench kernels [FILTER]`. Throughput is of the bytes that are read. Peers give the same bytes, which is
//! asserted before anything is measured.

use ckpt::api::{Checksum, ChecksumAlgorithm, DType, Rounding, Scaling};
use ckpt::transform::{cast, dequantize, permute, quantize};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::hint::black_box;
use std::time::Duration;

/// Elements that are in the L2 cache, and that are not.
const SIZES: [(&str, usize); 2] = [("cached", 1 << 15), ("memory", 1 << 23)];

fn copies(c: &mut Criterion) {
    let mut group = c.benchmark_group("copy");
    for (place, elements) in SIZES {
        let source = floats(elements);
        let mut out = vec![0; source.len()];
        group.throughput(Throughput::Bytes(source.len() as u64));
        group.bench_function(BenchmarkId::new("memcpy", place), |b| {
            b.iter(|| black_box(&mut out).copy_from_slice(black_box(&source)));
        });
        let checksum = Checksum { algorithm: ChecksumAlgorithm::MaskedCrc32c, seed: 0, value: None };
        group.bench_function(BenchmarkId::new("crc32c", place), |b| {
            b.iter(|| {
                let mut running = checksum.start();
                running.update(black_box(&source));
                running.finish()
            });
        });
        group.bench_function(BenchmarkId::new("crc32c by rows of 4 KiB in any order", place), |b| {
            b.iter(|| {
                let mut scattered = checksum.start_scattered(source.len() as u64);
                for half in [1, 0] {
                    let rows = source.chunks(4096).enumerate().filter(|(row, _)| row % 2 == half);
                    rows.for_each(|(row, bytes)| scattered.update(row as u64 * 4096, bytes));
                }
                scattered.finish()
            });
        });
    }
}

fn permutes(c: &mut Criterion) {
    let mut group = c.benchmark_group("permute");
    let cases: [(&str, &[usize], &[usize]); 8] = [
        ("matrix 256x256", &[256, 256], &[1, 0]),
        ("matrix 4096x4096", &[4096, 4096], &[1, 0]),
        ("matrix 4093x2039", &[4093, 2039], &[1, 0]),
        ("matrix 50257x64", &[50_257, 64], &[1, 0]),
        ("HWIO to OIHW 3x3x256x256", &[3, 3, 256, 256], &[3, 2, 0, 1]),
        ("OIHW to HWIO 256x256x3x3", &[256, 256, 3, 3], &[2, 3, 1, 0]),
        ("buckets 768x8x32", &[768, 8, 32], &[1, 2, 0]),
        ("heads 64x32x512, the last axis stays", &[64, 32, 512], &[1, 0, 2]),
    ];
    for (name, shape, order) in cases {
        for size in [1, 2, 4, 8] {
            let bytes = shape.iter().product::<usize>() * size;
            let source: Vec<u8> = (0..bytes).map(|k| (k % 251) as u8).collect();
            let mut out = Vec::new();
            group.throughput(Throughput::Bytes(bytes as u64));
            group.bench_function(BenchmarkId::new(name, format!("{size} bytes")), |b| {
                b.iter(|| permute(black_box(&source), shape, order, size, &mut out));
            });
        }
    }
}

/// Transposes of f32 by others.
fn transposes(c: &mut Criterion) {
    let mut group = c.benchmark_group("transpose of f32");
    for (rows, columns) in [(256, 256), (4096, 4096), (4093, 2039), (50_257, 64), (7, 1 << 20)] {
        let size = format!("{rows}x{columns}");
        let source = floats(rows * columns);
        let numbers = as_floats(&source);
        let mut ours = Vec::new();
        permute(&source, &[rows, columns], &[1, 0], 4, &mut ours);
        let mut out = vec![0f32; numbers.len()];
        group.throughput(Throughput::Bytes(source.len() as u64));
        group.bench_function(BenchmarkId::new("ckpt", &size), |b| {
            let mut out = Vec::new();
            b.iter(|| permute(black_box(&source), &[rows, columns], &[1, 0], 4, &mut out));
        });
        peer(&mut group, BenchmarkId::new("transpose crate", &size), &ours, &mut out, |out| {
            transpose::transpose(black_box(&numbers), out, columns, rows);
        });
        peer(&mut group, BenchmarkId::new("ndarray", &size), &ours, &mut out, |out| {
            let from = ndarray::ArrayView2::from_shape((rows, columns), black_box(&numbers)).unwrap();
            ndarray::ArrayViewMut2::from_shape((columns, rows), out).unwrap().assign(&from.t());
        });
        peer(&mut group, BenchmarkId::new("plain loop", &size), &ours, &mut out, |out| {
            let from = black_box(&numbers);
            for (column, out) in out.chunks_exact_mut(rows).enumerate() {
                out.iter_mut()
                    .zip(from[column..].iter().step_by(columns))
                    .for_each(|(out, from)| *out = *from);
            }
        });
    }
}

/// Measures what writes the same bytes as `ours` into `out`.
fn peer<T: Number>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    id: BenchmarkId,
    ours: &[u8],
    out: &mut [T],
    mut work: impl FnMut(&mut [T]),
) {
    work(out);
    assert!(out.iter().flat_map(|number| number.bytes()).eq(ours.iter().copied()), "other bytes");
    group.bench_function(id, |b| b.iter(|| work(black_box(out))));
}

trait Number {
    fn bytes(&self) -> impl Iterator<Item = u8>;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Number for $number {
            fn bytes(&self) -> impl Iterator<Item = u8> {
                self.to_le_bytes().into_iter()
            }
        })*
    };
}
numbers!(f32, f16, bf16, i16);

fn casts(c: &mut Criterion) {
    use DType::{Bf16, F16, F32, F64};
    let mut group = c.benchmark_group("cast");
    for (place, elements) in SIZES {
        for (from, to) in [
            (F32, F16),
            (F32, Bf16),
            (F32, F64),
            (F16, F32),
            (Bf16, F32),
            (F64, F32),
            (F16, Bf16),
            (Bf16, F16),
        ] {
            let (mut source, mut out) = (Vec::new(), Vec::new());
            cast(F32, from, 0, &floats(elements), &mut source).unwrap();
            group.throughput(Throughput::Bytes(source.len() as u64));
            group.bench_function(BenchmarkId::new(format!("{from} to {to}"), place), |b| {
                b.iter(|| cast(from, to, 0, black_box(&source), &mut out).unwrap());
            });
        }
        casts_by_half(&mut group, place, elements);
    }
}

fn casts_by_half(group: &mut BenchmarkGroup<'_, WallTime>, place: &str, elements: usize) {
    let source = floats(elements);
    let numbers = as_floats(&source);
    let (mut ours, mut back) = (Vec::new(), Vec::new());
    macro_rules! by_half {
        ($half:ident, $dtype:ident) => {
            let mut out = vec![$half::ZERO; elements];
            cast(DType::F32, DType::$dtype, 0, &source, &mut ours).unwrap();
            group.throughput(Throughput::Bytes(source.len() as u64));
            let id = BenchmarkId::new(format!("f32 to {} by half", DType::$dtype), place);
            peer(group, id, &ours, &mut out, |out| out.convert_from_f32_slice(black_box(&numbers)));
            let mut floats = vec![0f32; elements];
            cast(DType::$dtype, DType::F32, 0, &ours, &mut back).unwrap();
            group.throughput(Throughput::Bytes(ours.len() as u64));
            let id = BenchmarkId::new(format!("{} to f32 by half", DType::$dtype), place);
            peer(group, id, &back, &mut floats, |floats| black_box(&out).convert_to_f32_slice(floats));
        };
    }
    by_half!(f16, F16);
    by_half!(bf16, Bf16);
}

fn quantizes(c: &mut Criterion) {
    let mut group = c.benchmark_group("quantize");
    for (place, elements) in SIZES {
        let source = floats(elements);
        for (name, rounding, limit) in [
            ("truncate", Rounding::Truncate, None),
            ("nearest", Rounding::Nearest, None),
            ("nearest, clip", Rounding::Nearest, 100.try_into().ok()),
        ] {
            for dtype in [DType::I16, DType::I8] {
                let scaling = Scaling { scale: 64.try_into().unwrap(), rounding, limit, each_term: false };
                let mut out = Vec::new();
                group.throughput(Throughput::Bytes(source.len() as u64));
                group.bench_function(BenchmarkId::new(format!("f32 to {dtype}, {name}"), place), |b| {
                    b.iter(|| quantize(dtype, scaling, 0, black_box(&source), &mut out).unwrap());
                });
            }
        }
        let scaling = Scaling {
            scale: 64.try_into().unwrap(),
            rounding: Rounding::Nearest,
            limit: None,
            each_term: false,
        };
        let numbers = as_floats(&source);
        let mut plain = vec![0i16; elements];
        let (mut integers, mut out) = (Vec::new(), Vec::new());
        quantize(DType::I16, scaling, 0, &source, &mut integers).unwrap();
        group.throughput(Throughput::Bytes(source.len() as u64));
        let id = BenchmarkId::new("f32 to i16, nearest, by a plain loop", place);
        peer(&mut group, id, &integers, &mut plain, |out| {
            for (out, number) in out.iter_mut().zip(black_box(&numbers)) {
                let integer = (f64::from(*number) * 64.0).round();
                assert!((-32768.0..=32767.0).contains(&integer));
                *out = integer as i16;
            }
        });
        group.throughput(Throughput::Bytes(integers.len() as u64));
        group.bench_function(BenchmarkId::new("i16 to f32", place), |b| {
            b.iter(|| dequantize(DType::I16, scaling, black_box(&integers), &mut out).unwrap());
        });
    }
}

/// Numbers between -1 and 1.
fn floats(elements: usize) -> Vec<u8> {
    (0..elements).flat_map(|k| ((k as f32 * 0.618_034).fract() * 2.0 - 1.0).to_le_bytes()).collect()
}

fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = copies, permutes, transposes, casts, quantizes
}
criterion_main!(kernels);
