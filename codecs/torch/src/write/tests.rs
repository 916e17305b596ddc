use super::*;
use crate::Torch;
use crate::format::ID;
use crate::format::keys::{KEY_FOLDER, KEY_MODULES, KEY_PICKLE};
use ckpt_api::{
    Affine, Aspect, ChecksumAlgorithm, DType, Encoding, Extent, FileId, MetadataMap, MetadataValue, Phases,
    Placement, Shape, Tensor, TensorId,
};
use sha2::{Digest, Sha256};

/// A tensor and its bytes.
type Given = (Tensor, Vec<u8>);

fn tensor(name: &str, dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Given {
    (Tensor::new(name, dtype, Shape::new(shape).unwrap()), bytes)
}

fn floats(name: &str, shape: &[u64], values: impl IntoIterator<Item = f32>) -> Given {
    let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
    tensor(name, DType::F32, shape, bytes)
}

fn ones(name: &str, len: u64) -> Given {
    floats(name, &[len], vec![1.0; len as usize])
}

/// Writes a file as the engine does.
fn file(checkpoint: &Checkpoint, data: &[Vec<u8>], name: &str) -> Vec<u8> {
    let mut checkpoint = checkpoint.clone();
    // PyTorch names the folder after the file.
    let folder = name.strip_suffix(".pt").filter(|name| name.is_ascii());
    checkpoint.metadata.insert(ZIP, KEY_FOLDER, folder.unwrap_or("archive"));
    let mut files = ckpt_conformance::write(&Torch, &checkpoint, data, name, &[]).unwrap();
    assert_eq!(files.len(), 1);
    files.remove(name).unwrap()
}

fn of(given: Vec<Given>) -> (Checkpoint, Vec<Vec<u8>>) {
    let (tensors, data) = given.into_iter().unzip();
    (Checkpoint { tensors, ..Checkpoint::default() }, data)
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `torch.save` of an `OrderedDict`, by PyTorch 2.15.
#[test]
#[cfg_attr(miri, ignore = "thousands of tensors")]
fn a_state_dict_is_written_byte_for_byte_as_pytorch_does() {
    let many = |id: u64| floats(&format!("layer.{id}.weight"), &[id % 5], vec![id as f32; (id % 5) as usize]);
    let counted = |id: u64| floats(&format!("k{id}"), &[3], [id as f32; 3]);
    let scalars = vec![
        floats("s", &[], [3.5]),
        floats("e", &[0], []),
        floats("e2", &[2, 0, 3], []),
        tensor("n", DType::I64, &[], 7i64.to_le_bytes().to_vec()),
    ];
    let plain = vec![floats("w", &[2, 3], (0u8..6).map(f32::from)), ones("b", 3)];
    let cases = [
        ("plain.pt", plain, "82e87a6a8361b105013a3fe86ee729bc3ea46de3007399317df560a728cb932c"),
        ("empty_dict.pt", vec![], "a62efdd425d85e8b9fbc8cef1f048d2076a4ad252f5df7cece61e0a2a17ea35e"),
        ("scalars.pt", scalars, "dba50076d293bc201753bb77734269496b43ee4bca805aae9e7bff9a0d5d2b3a"),
        (
            "shared_keys.pt",
            vec![ones("cpu", 1), ones("storage", 2), ones("0", 1)],
            "2cff8c8cb485376442509b4f3944e93e397332bfd7afbac70b469db35e6f407c",
        ),
        (
            "many.pt",
            (0..2001).map(many).collect(),
            "4ffe3f3a34ba6db48e1f312bac8fbdbb97c16120b3cc5950736a1c8a3c2cdc87",
        ),
        (
            "thousand_and_one.pt",
            (0..1001).map(counted).collect(),
            "522d05cb41bb25b5710c5a7ebf95e911310c013989432c7bf5a83d5d96e05478",
        ),
        ("a.b.pt", vec![ones("имя", 1)], "7bd8bb6253ce9b03e7506c4321f508c171a2a364d97e09b90c84ef4a4d913ef3"),
        ("ключ.pt", vec![ones("w", 1)], "eb1be71d81c004e19794a2340e1b248e4cb3cdc1a2fdfd0612553439a0a93f21"),
    ];
    for (name, given, expected) in cases {
        let (checkpoint, data) = of(given);
        assert_eq!(digest(&file(&checkpoint, &data, name)), expected, "{name}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "a file of many entries, hashed")]
fn every_dtype_is_written_as_pytorch_does() {
    let names = [
        "float64",
        "float32",
        "float16",
        "bfloat16",
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
        "complex64",
        "complex128",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "uint16",
        "uint32",
        "uint64",
    ];
    let one = |(name, dtype): (&str, DType)| {
        let bytes = (0..6 * dtype.bytes().unwrap()).map(|at| u8::from(at % 2 == 0)).collect();
        tensor(name, dtype, &[2, 3], bytes)
    };
    let (checkpoint, data) = of(names.into_iter().zip(NATIVE).map(one).collect());
    let expected = "4f4d4ad230db85c2e63333b8ce0aa3ef6c533d593b6f8caa0ccecf69aad3dee9";
    assert_eq!(digest(&file(&checkpoint, &data, "dtypes.pt")), expected);
}

#[test]
fn large_storages_begin_where_they_can_share_blocks_with_the_source() {
    let large = Phases::WORTH_A_GAP;
    let block = std::num::NonZeroU64::new(4096).unwrap();
    let floats = |len: u64| Tensor::new("", DType::F32, Shape::new([len / 4]).unwrap());
    let tensors = [large, 12, large, large, large].map(floats);
    let tensors =
        tensors.into_iter().zip(["a", "b", "c", "d", "e"]).map(|(tensor, name)| tensor.with_name(name));
    let mut checkpoint = Checkpoint { tensors: tensors.collect(), ..Checkpoint::default() };
    let placed = |checkpoint: &Checkpoint, phases: Vec<Option<u64>>| {
        let options = Options::default().with_phases(Some(Phases::new(block, phases)));
        let placed = place(checkpoint, "m.pt", &options).unwrap();
        let states_alignment = placed
            .literals
            .iter()
            .any(|literal| literal.bytes.windows(18).any(|bytes| bytes == b".storage_alignment"));
        let offsets = placed.placements.iter().map(|placement| placement.extents[0].offset).collect();
        (offsets, states_alignment)
    };
    let aligned: (Vec<u64>, bool) = placed(&checkpoint, vec![None; 5]);
    assert!(aligned.1 && aligned.0.iter().all(|offset| offset.is_multiple_of(64)));
    // Where the source has them as PyTorch stores them, nothing changes.
    assert_eq!(placed(&checkpoint, aligned.0.iter().copied().map(Some).collect()), aligned);
    assert_eq!(placed(&checkpoint, vec![None, Some(1000), None, None, None]), aligned);
    assert_eq!(placed(&checkpoint, vec![Some(7); 5]), aligned, "no number may begin there");
    // Numbers must be on multiples of their size; what the source does not store begins as in PyTorch's files.
    let (offsets, states_alignment) =
        placed(&checkpoint, vec![Some(104), Some(1000), Some(4096 + 20), Some(7), None]);
    assert!(!states_alignment, "PyTorch could compute other offsets from it");
    assert_eq!([offsets[0] % 4096, offsets[2] % 4096], [104, 20]);
    assert_eq!([1, 3, 4].map(|number| offsets[number] % 64), [0; 3]);
    checkpoint.metadata.insert(ZIP, KEY_FOLDER, "m");
    let (offsets, states_alignment) = placed(&checkpoint, vec![Some(104); 5]);
    assert!(states_alignment && offsets[0] % 64 == 0, "what was such a file is written as it was");
}

#[test]
fn tied_tensors_share_a_storage() {
    let matrix = |name| floats(name, &[7, 3], (0u8..21).map(f32::from));
    let (mut checkpoint, data) = of(vec![matrix("emb.weight"), ones("other", 2), matrix("head.weight")]);
    let place_at = |id: usize, offset| {
        let tensor = &checkpoint.tensors[id];
        let extent = Extent::new(FileId(0), offset, tensor.value_bytes());
        Placement::new(TensorId(id), tensor.name.as_str(), vec![extent], Encoding::row_major(tensor))
    };
    let mut contents = ckpt_api::Contents::default();
    contents.placements = vec![place_at(0, 0), place_at(1, 84), place_at(2, 0)];
    contents.checkpoint = checkpoint.clone();
    checkpoint.ties = ckpt_api::Ties::of(&contents);
    let expected = "fa8ffca406b307594a9aa17cc2c7fc686c63144b6cbddb1c8335279549b3187a";
    assert_eq!(digest(&file(&checkpoint, &data, "tied_state.pt")), expected);
}

#[test]
fn what_pytorch_records_of_modules_is_written_as_pytorch_does() {
    let (mut checkpoint, data) = of(vec![floats("0.weight", &[2, 3], [1.0; 6]), ones("0.bias", 2)]);
    let version = |number: i64| MetadataMap::from_iter([("version", number)]);
    let modules = [("", version(1)), ("0", version(1)), ("bn", version(2)), ("x", MetadataMap::new())];
    let modules: MetadataMap = modules.into_iter().collect();
    checkpoint.metadata.insert(ID, KEY_MODULES, MetadataValue::Map(modules));
    let expected = "6bf66ac1468c3e9481146bb3f40789a3e6f8b9075982a1068b5e419ef99c40cf";
    assert_eq!(digest(&file(&checkpoint, &data, "module_small.pt")), expected);
}

/// The records of a file of PyTorch 2.15 with a storage of 2^32 + 5 zeros, up to that storage's bytes and behind them.
#[test]
fn sizes_and_offsets_of_4_gib_are_written_as_pytorch_does() {
    let zeros = (1 << 32) + 5;
    let given = vec![ones("a", 3), tensor("big", DType::U8, &[zeros], vec![]), ones("after", 2)];
    let (mut checkpoint, data) = of(given);
    checkpoint.tensors.push(Tensor::new("empty", DType::F32, Shape::new([0]).unwrap()));
    checkpoint.metadata.insert(ZIP, KEY_FOLDER, "big");
    let placed = place(&checkpoint, "big.pt", &Options::default()).unwrap();
    let sum = |placement: &Placement| {
        let crc32 = ChecksumAlgorithm::Crc32;
        Some(match placement.extents[0].len {
            0 => return None,
            // Doubled 32 times, and 5 more.
            len if len == zeros => {
                let power = (0..32).fold(crc32.append(0, &[0]), |crc, k| crc32.combine(crc, crc, 1 << k));
                crc32.append(power, &[0; 5])
            }
            _ => crc32.append(0, &data[placement.tensor.0]),
        })
    };
    let written: Vec<Written> = placed
        .placements
        .iter()
        .map(|placement| Written { checksums: vec![sum(placement)].into() })
        .collect();
    let len = placed.files[0].len.unwrap();
    let mut parts = [(0, vec![0; 2048]), (1 << 32, vec![0; (len - (1 << 32)) as usize])];
    let literals = [placed.literals.clone(), finish(&placed, &written).unwrap()].concat();
    let data = placed.placements.iter().map(|placement| Literal {
        file: FileId(0),
        offset: placement.extents[0].offset,
        bytes: data.get(placement.tensor.0).cloned().unwrap_or_default(),
    });
    for literal in literals.into_iter().chain(data) {
        let part = &mut parts[usize::from(literal.offset >= 1 << 32)];
        part.1[(literal.offset - part.0) as usize..][..literal.bytes.len()].copy_from_slice(&literal.bytes);
    }
    let digests = parts.map(|(_, bytes)| digest(&bytes));
    assert_eq!((len, digests), (LARGE, DIGESTS.map(str::to_owned)));
}

const LARGE: u64 = 4_294_969_601;
const DIGESTS: [&str; 2] = [
    "dc3ba9b89d393e0fe512d0cb466235d28b0c45658f97ac8f6b7817d7555f96ec",
    "8ffb7a89c0b8ec0e7c9861eac4b0d121daca0b506dcfc2008df54fafe62fec4c",
];

/// The pickle of `{"model": OrderedDict(w=…), "epoch": 3, "lr": 0.5}`, where `w` is the transpose of a matrix.
const RUN: &[u8] = b"\x80\x02}q\x00(X\x05\x00\x00\x00modelq\x01ccollections\nOrderedDict\nq\x02)Rq\x03\
    X\x01\x00\x00\x00wq\x04ctorch._utils\n_rebuild_tensor_v2\nq\x05((X\x07\x00\x00\x00storageq\x06\
    ctorch\nFloatStorage\nq\x07X\x01\x00\x00\x000q\x08X\x03\x00\x00\x00cpuq\tK\x06tq\nQK\x00K\x03K\x02\x86q\x0b\
    K\x01K\x03\x86q\x0c\x89h\x02)Rq\rtq\x0eRq\x0fsX\x05\x00\x00\x00epochq\x10K\x03\
    X\x02\x00\x00\x00lrq\x11G?\xe0\x00\x00\x00\x00\x00\x00u.";

/// A checkpoint that was read from a file with this pickle, and the values of its tensor.
fn run(pickle: &[u8]) -> (Checkpoint, Vec<Vec<u8>>) {
    let (mut checkpoint, data) = of(vec![floats("model.w", &[3, 2], [0.0, 3.0, 1.0, 4.0, 2.0, 5.0])]);
    checkpoint.metadata.insert(ID, "epoch", 3i64);
    checkpoint.metadata.insert(ID, "lr", 0.5);
    checkpoint.metadata.insert(ZIP, KEY_PICKLE, MetadataValue::Bytes(pickle.to_vec()));
    (checkpoint, data)
}

/// Names and details of what writing loses.
fn lost(checkpoint: &Checkpoint) -> Vec<String> {
    let placed = place(checkpoint, "run.pt", &Options::default()).unwrap();
    placed.losses.into_iter().map(|loss| loss.subject).collect()
}

#[test]
fn a_pickle_that_was_read_is_written_again_with_all_that_it_holds() {
    let (checkpoint, data) = run(RUN);
    let written = file(&checkpoint, &data, "run.pt");
    assert_eq!(digest(&written), "df1ab29d287475c3e4999d415fa23399d4abbb5e11d1d3176818ba867ab84fe6");
    assert_eq!(lost(&checkpoint), Vec::<String>::new());
    let input = ckpt_api::Input::memory("run.pt", [("run.pt".to_owned(), written)].into());
    let (contents, values) = ckpt_conformance::read(&Torch, &input, &[]).unwrap();
    assert_eq!(values, data);
    assert_eq!(
        contents.checkpoint.metadata.value(ZIP, KEY_PICKLE),
        checkpoint.metadata.value(ZIP, KEY_PICKLE)
    );
}

#[test]
fn a_pickle_of_other_tensors_is_not_written_and_its_values_are_losses() {
    type Change = fn(&mut Checkpoint);
    let changes: [Change; 4] = [
        |checkpoint| checkpoint.tensors[0].name = "w".into(),
        |checkpoint| checkpoint.tensors[0].dtype = DType::I32,
        |checkpoint| checkpoint.tensors[0].shape = Shape::new([6]).unwrap(),
        |checkpoint| checkpoint.tensors.push(Tensor::new("b", DType::F32, Shape::scalar())),
    ];
    for change in changes {
        let (mut checkpoint, _) = run(RUN);
        change(&mut checkpoint);
        assert_eq!(lost(&checkpoint), ["epoch", "lr"]);
    }
}

#[test]
fn a_pickle_that_names_anything_but_tensors_and_plain_values_is_not_written() {
    let named = |from: &str, to: &str| {
        let text = RUN.iter().map(|byte| char::from(*byte)).collect::<String>();
        assert!(text.contains(from));
        text.replacen(from, to, 1).chars().map(|char| char as u8).collect::<Vec<u8>>()
    };
    let others = [
        named("collections\nOrderedDict", "os\nsystem"),
        named("collections\nOrderedDict", "argparse\nNamespace"),
        named("torch._utils\n_rebuild_tensor_v2", "torch.hub\nload"),
        named("torch\nFloatStorage", "evil\nFloatStorage"),
        named("\u{80}\u{2}", "\u{80}\u{4}"),
        [RUN, b"."].concat(),
        RUN[..RUN.len() - 1].to_vec(),
    ];
    let (checkpoint, data) = run(b"");
    let expected = file(&checkpoint, &data, "run.pt");
    // Each takes ten seconds under Miri.
    for pickle in others.into_iter().take(if cfg!(miri) { 1 } else { 7 }) {
        let (checkpoint, data) = run(&pickle);
        assert_eq!(file(&checkpoint, &data, "run.pt"), expected);
    }
}

#[test]
fn a_set_has_the_names_of_hugging_face_and_an_index() {
    let (checkpoint, data) = of(vec![ones("a", 4), ones("b", 4), ones("c", 1)]);
    let options = [("shard_size".to_owned(), "20".to_owned())];
    let files = ckpt_conformance::write(&Torch, &checkpoint, &data, "pytorch_model.bin", &options).unwrap();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let [first, second] = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
    assert_eq!(names, [first, second, "pytorch_model.bin.index.json"]);
    let index: serde_json::Value = serde_json::from_slice(&files["pytorch_model.bin.index.json"]).unwrap();
    let weights = serde_json::json!({"a": first, "b": second, "c": second});
    assert_eq!(index, serde_json::json!({"metadata": {"total_size": 36}, "weight_map": weights}));
}

#[test]
fn integers_of_a_quantized_tensor_lose_their_scale_in_a_plain_state_dict() {
    let (mut checkpoint, _) = of(vec![tensor("q", DType::I8, &[1], vec![1])]);
    checkpoint.tensors[0].quantization = Some(Affine::new([0.5], [0.0], None).unwrap().into());
    let placed = place(&checkpoint, "m.pt", &Options::default()).unwrap();
    assert!(placed.left_out.contains_key(&Aspect::Scales));
}
