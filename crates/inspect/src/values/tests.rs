//! Tests of reading values: parts, threads, checksums.

use super::{Stats, Values};
use ckpt::Writer;
use ckpt_api::{Kind, Result, TensorId};
use ckpt_engine::source::Source;
use ckpt_engine::store::MemoryStore;

/// A tensor of each kind of reading: sequences of several sizes, an empty one, one without numbers.
fn store(format: &str) -> MemoryStore {
    let store = MemoryStore::new();
    let floats: Vec<f32> =
        (0..20_000u32).map(|k| k.wrapping_mul(2_654_435_761) as f32 / 4e9 - 0.25).collect();
    let mut special: Vec<f64> = (0..3_000).map(|k| f64::from(k) * 1e-3 - 1.0).collect();
    // Not among the first values: a NaN equals none.
    special[17] = f64::NAN;
    special[1_500] = f64::INFINITY;
    special[2_999] = 1e30;
    let bytes: Vec<u8> = (0..5_000u32).map(|k| (k * 7 % 251) as u8).collect();
    let halves: Vec<half::f16> = (0..2_500u16).map(|k| half::f16::from_bits(k * 13)).collect();
    Writer::to(store.at(format!("m.{format}")))
        .tensor("floats", &[200, 100], &floats)
        .and_then(|writer| writer.tensor("special", &[3_000], &special))
        .and_then(|writer| writer.tensor("bytes", &[50, 100], &bytes))
        .and_then(|writer| writer.tensor("halves", &[2_500], &halves))
        .and_then(|writer| writer.tensor("empty", &[0, 4], &[0f32; 0]))
        .and_then(|writer| writer.tensor("flags", &[2_000], &[true; 2_000]))
        .and_then(|writer| writer.tensor("one", &[], &[-0.0f32]))
        .and_then(Writer::finish)
        .unwrap();
    store
}

fn read(source: &Source, threads: usize, part: u64) -> Result<Vec<(String, Option<Values>)>> {
    let tensors = &source.checkpoint().tensors;
    let ids: Vec<TensorId> = (0..tensors.len()).map(TensorId).collect();
    let values = super::read(source, &ids, threads, part)?;
    Ok(tensors.iter().map(|tensor| tensor.name.to_string()).zip(values).collect())
}

fn open(store: &MemoryStore, name: &str) -> Source {
    Source::open(&ckpt::Registry::builtin(), store.at(name), &Default::default()).unwrap()
}

#[test]
fn statistics_are_the_same_numbers_for_any_number_of_threads() {
    for format in ["safetensors", "npz"] {
        let store = store(format);
        let source = open(&store, &format!("m.{format}"));
        for part in [1_000, 4_096, u64::MAX] {
            let one = read(&source, 1, part).unwrap();
            assert_eq!(one.len(), 7);
            for threads in 2..=4 {
                assert_eq!(read(&source, threads, part).unwrap(), one, "{format} {part} {threads}");
            }
        }
    }
}

#[test]
fn parts_change_no_more_than_the_last_digits_of_mean_and_spread() {
    let store = store("safetensors");
    let source = open(&store, "m.safetensors");
    let whole = read(&source, 1, u64::MAX).unwrap();
    let mut compared = 0;
    for ((name, whole), (_, parts)) in whole.into_iter().zip(read(&source, 2, 999).unwrap()) {
        let (Some((whole, histogram, preview)), Some(parts)) = (whole, parts) else {
            assert_eq!(name, "flags");
            continue;
        };
        let exact = |stats: Stats| Stats { mean: None, std: None, ..stats };
        assert_eq!((exact(whole), histogram, preview), (exact(parts.0), parts.1, parts.2), "{name}");
        for (a, b) in [(whole.mean, parts.0.mean), (whole.std, parts.0.std)] {
            let (a, b) = (a.unwrap_or(0.0), b.unwrap_or(0.0));
            assert!((a - b).abs() <= 1e-13 * a.abs(), "{name}: {a} {b}");
        }
        compared += 1;
    }
    assert_eq!(compared, 6);
}

#[test]
fn a_changed_byte_is_found_by_the_checksum_of_a_tensor_that_is_read_in_parts() {
    for tensor in ["floats", "flags"] {
        let store = store("npz");
        let mut bytes = store.get("m.npz").unwrap();
        let name = format!("{tensor}.npy");
        let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        bytes[at + 1_900] ^= 1;
        let changed = MemoryStore::new();
        changed.put("m.npz", bytes);
        let source = open(&changed, "m.npz");
        for threads in [1, 3] {
            let error = read(&source, threads, 1_000).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.to_string().contains(tensor), "{error}");
        }
    }
}
