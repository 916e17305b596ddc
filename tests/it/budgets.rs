//! Whole conversions of random checkpoints: whatever the budget and the threads, the output has the same bytes.

use ckpt::recipe::Transform;
use ckpt::{Conversion, Error, Execution, OpenOptions, Registry, Resources, Source};
use ckpt_api::{Checkpoint, DType, Input, Shape, Tensor};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;

/// A checkpoint, and what becomes of it.
#[derive(Clone, Debug)]
struct Case {
    tensors: Vec<Random>,
    to: &'static str,
    dtype: Option<DType>,
}

#[derive(Clone, Debug)]
struct Random {
    dtype: DType,
    shape: Vec<u64>,
    /// Where the first axis is cut in two slices.
    cut: Option<u64>,
    /// The order that its axes get.
    order: Vec<usize>,
}

const DTYPES: [DType; 6] = [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I32, DType::U8];

impl Random {
    fn tensor(&self, number: usize) -> Tensor {
        let mut tensor =
            Tensor::new(format!("t{number}"), self.dtype, Shape::new(self.shape.clone()).unwrap());
        if let (Some(cut), Some(first)) = (self.cut, self.shape.first())
            && 0 < cut
            && cut < *first
        {
            let rest = ":-".repeat(self.shape.len() - 1);
            let slices = [format!("0,{cut}{rest}"), format!("{cut},{}{rest}", first - cut)];
            tensor.metadata.insert("tf2", "slices", slices.to_vec());
        }
        tensor
    }

    /// Small numbers, which every dtype holds or rounds.
    fn value(&self) -> Vec<u8> {
        let elements: u64 = self.shape.iter().product();
        let number = |k: u64| (k.wrapping_mul(2_654_435_761) >> 7) as u16 & 0x3fff;
        let element = |k: u64| -> Vec<u8> {
            let number = number(k);
            match self.dtype {
                DType::F32 => (f32::from(number) / 3.0).to_le_bytes().into(),
                DType::F64 => (f64::from(number) / 3.0).to_le_bytes().into(),
                DType::I32 => i32::from(number).to_le_bytes().into(),
                DType::U8 => vec![number as u8],
                // Any bits below the exponents of infinities.
                _ => number.to_le_bytes().into(),
            }
        };
        (0..elements).flat_map(element).collect()
    }
}

impl Case {
    /// A TensorFlow checkpoint of these tensors.
    fn source(&self) -> Source {
        let tensors = self.tensors.iter().enumerate().map(|(number, random)| random.tensor(number)).collect();
        let values: Vec<Vec<u8>> = self.tensors.iter().map(Random::value).collect();
        let checkpoint = Checkpoint { tensors, ..Checkpoint::default() };
        let files = ckpt_conformance::write(&ckpt_tf2::Tf2, &checkpoint, &values, "m", &[]).unwrap();
        Source::open(&Registry::builtin(), Input::memory("m", files), &OpenOptions::default()).unwrap()
    }

    fn conversion(&self, resources: Resources) -> Conversion {
        let permuted = self.tensors.iter().enumerate().filter(|(_, random)| !random.order.is_sorted());
        let transform = |(number, random): (usize, &Random)| {
            let order: Vec<String> = random.order.iter().map(usize::to_string).collect();
            Transform::parse(&format!("t{number}: permute {}", order.join(" "))).unwrap()
        };
        let policy = ckpt::Policy::new().allow_all(true);
        let conversion = Conversion::new().to(self.to).policy(policy).resources(resources);
        let conversion = permuted.map(transform).fold(conversion, Conversion::transform);
        self.dtype.into_iter().fold(conversion, Conversion::dtype)
    }

    /// Every file of the output.
    fn files(&self, resources: Resources) -> Result<BTreeMap<String, Vec<u8>>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let planned = self.conversion(resources).plan(
            &Registry::builtin(),
            &self.source(),
            folder.path().join("out"),
        )?;
        planned.execute(&Execution::new().sync(false), &|_| ())?;
        let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        Ok(files
            .map(|path| (path.display().to_string(), path))
            .map(|(_, path)| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
            })
            .collect())
    }
}

/// Up to more than a hundred thousand elements: several chunks and tiles of the least budget.
fn randoms() -> impl Strategy<Value = Random> {
    let dims = prop_oneof![
        4 => prop::collection::vec(0u64..7, 0..5),
        2 => prop::collection::vec(40u64..90, 2..4),
        1 => prop::collection::vec(150u64..400, 1..3),
    ];
    (prop::sample::select(&DTYPES[..]), dims, prop::option::of(1u64..60)).prop_flat_map(
        |(dtype, shape, cut)| {
            let axes: Vec<usize> = (0..shape.len()).collect();
            let order = prop_oneof![Just(axes.clone()), Just(axes).prop_shuffle()];
            order.prop_map(move |order| Random { dtype, shape: shape.clone(), cut, order })
        },
    )
}

fn cases() -> impl Strategy<Value = Case> {
    let to = prop::sample::select(&["safetensors", "tf2", "npz"][..]);
    let dtype = prop::option::of(prop::sample::select(&[DType::F16, DType::F32, DType::F64][..]));
    (prop::collection::vec(randoms(), 1..5), to, dtype).prop_map(|(tensors, to, dtype)| Case {
        tensors,
        to,
        dtype,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_depends_on_the_budget_or_the_threads(
        case in cases(), kib in prop_oneof![400u64..3000, 3000u64..100_000], threads in 1usize..6,
        item_size in prop_oneof![Just(0u64), 1u64..100_000],
    ) {
        let expected = case.files(Resources::new().threads(1)).unwrap();
        // The process itself takes 6 MiB of the budget.
        let max_memory = (6 << 20) + (kib << 10);
        let found = case.files(Resources::new().max_memory(max_memory).threads(threads).item_size(item_size)).unwrap();
        prop_assert!(!expected.is_empty());
        prop_assert!(found == expected, "{:?}", found.keys());
    }

    #[test]
    fn rows_of_a_sliced_tensor_are_those_of_the_whole(case in cases(), from: prop::sample::Index, to: prop::sample::Index) {
        let source = case.source();
        for tensor in source.tensors().filter(|tensor| tensor.shape().rank() > 0) {
            let (all, count) = (tensor.bytes().unwrap(), tensor.shape()[0] as usize);
            let (a, b) = (from.index(count + 1), to.index(count + 1));
            let (start, end) = (a.min(b), a.max(b));
            let row = all.len() / count.max(1);
            let found = tensor.rows(start as u64..end as u64).unwrap().bytes().unwrap();
            prop_assert_eq!(&found, &all[start * row..end * row]);
        }
    }
}

/// A matrix of 4 MiB as so many ranks of PyTorch store it, each its own rows.
#[cfg(feature = "torch")]
fn sharded(ranks: u64) -> Source {
    let tensor = Tensor::new("w", DType::F32, Shape::new([1024, 1024]).unwrap());
    let values = vec![(0..1u32 << 20).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()];
    let checkpoint = Checkpoint { tensors: vec![tensor], ..Checkpoint::default() };
    let options = [("form", "dcp".to_owned()), ("ranks", ranks.to_string())];
    let options = options.map(|(key, value)| (key.to_owned(), value));
    let files = ckpt_conformance::write(&ckpt_torch::Torch, &checkpoint, &values, "m", &options).unwrap();
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|(name, bytes)| (name.trim_start_matches("m/").to_owned(), bytes)).collect();
    let shards = files.keys().filter(|name| name.ends_with(".distcp")).count();
    assert_eq!(shards as u64, ranks, "{:?}", files.keys());
    Source::open(&Registry::builtin(), Input::memory(".metadata", files), &OpenOptions::default()).unwrap()
}

#[cfg(feature = "torch")]
#[test]
fn the_memory_for_a_sharded_checkpoint_does_not_grow_with_its_shards() {
    /// What describes a shard of a tensor, and its file.
    const EACH: u64 = 1024;
    let folder = tempfile::tempdir().unwrap();
    let planned = |ranks: u64| {
        let output = folder.path().join("out.safetensors");
        let conversion = Conversion::new().resources(Resources::new().threads(2));
        conversion.plan(&Registry::builtin(), &sharded(ranks), output).unwrap()
    };
    let peaks = [2u64, 8, 32, 128].map(|ranks| (ranks, planned(ranks).plan().peak_memory));
    let (least, first) = peaks[0];
    for (ranks, peak) in peaks {
        assert!(first <= peak && peak <= first + EACH * (ranks - least), "{ranks} ranks: {peaks:?}");
    }
    // Two chunks of each thread: what is streamed, and no tile of a tensor.
    assert!(first < 16 << 20, "{peaks:?}");
}
