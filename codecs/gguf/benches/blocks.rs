//! How fast blocks are decoded and encoded on one core: `cargo bench -p ckpt-gguf --bench blocks [FILTER]`. Throughput is of
//! the numbers, as 32-bit floats.

use ckpt_gguf::blocks::{BlockType, decode, encode};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;

/// Numbers that the L2 cache holds.
const ELEMENTS: usize = 1 << 16;

fn decoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Bytes(4 * ELEMENTS as u64));
    for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_decodable()) {
        let len = ELEMENTS / block_type.elements() as usize * block_type.bytes() as usize;
        // Bytes below 0x7c: wherever a scale is stored, it is finite.
        let blocks: Vec<u8> = (0..len).map(|k| (k * 31 % 0x7c) as u8).collect();
        let mut numbers = vec![0.0; ELEMENTS];
        group.bench_function(block_type.name(), |b| {
            b.iter(|| decode(*block_type, black_box(&blocks), black_box(&mut numbers)));
        });
    }
}

fn encoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Bytes(4 * ELEMENTS as u64));
    let numbers: Vec<f32> = (0..ELEMENTS).map(|k| (k as f32 * 0.618_034).fract() * 2.0 - 1.0).collect();
    for block_type in BlockType::ALL.iter().filter(|block_type| block_type.is_encodable()) {
        let mut blocks = Vec::new();
        group.bench_function(block_type.name(), |b| {
            b.iter(|| {
                blocks.clear();
                encode(*block_type, black_box(&numbers), &mut blocks)
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = decoding, encoding
}
criterion_main!(benches);
