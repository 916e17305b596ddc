//! Tensors that share their bytes: a format that can share them does, and one that cannot says so.

use ckpt::api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Codec, Contents, DType, Encoding, Error, Extent, FileId,
    FinishState, FormatInfo, Input, Kind, Limit, Limits, Literal, LossKind, Match, Network, Options,
    OutputFile, OutputLayout, Placement, Result, Shape, Tensor, TensorId, Written,
};
use ckpt::mapping::Mapping;
use ckpt::plan::Plan;
use ckpt::{Commit, Conversion, Execution, OpenOptions, Planned, Policy, Registry, Source};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// `TIED` · count u8 · per tensor: name length u8, name, elements u8, offset u8 · data, f32 · CRC-32C of each tensor,
/// u32.
struct Tied;

const MAGIC: &[u8; 4] = b"TIED";

static INFO: FormatInfo = FormatInfo::new("tied", "tensors that may share bytes")
    .with_extensions(&["tied"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32])
    .with_free_names();

fn checksum(value: Option<u32>) -> Option<Checksum> {
    Some(Checksum { algorithm: ChecksumAlgorithm::Crc32c, seed: 0, value })
}

fn placement(id: usize, tensor: &Tensor, offset: u64, value: Option<u32>) -> Placement {
    let len = tensor.value_bytes();
    let extent = Extent::new(FileId(0), offset, len).with_checksum(checksum(value));
    Placement::new(TensorId(id), &tensor.name, vec![extent], Encoding::row_major(tensor))
}

impl Codec for Tied {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.is_file() && input.main()?.bytes(0, 4).is_ok_and(|magic| magic == MAGIC);
        Ok(if found { Match::Certain("it begins with TIED".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        let file = input.main()?;
        if file.bytes(0, 4)? != MAGIC {
            return Err(Error::corrupt("not a tied file").file(file.name()));
        }
        let byte = |at| file.bytes(at, 1).map(|bytes| u64::from(bytes[0]));
        limits.check(Limit::Tensors, byte(4)?)?;
        let (mut at, mut tensors) = (5, Vec::new());
        for _ in 0..byte(4)? {
            let len = byte(at)?;
            let name = String::from_utf8(file.bytes(at + 1, len)?)
                .map_err(|_| Error::corrupt("no UTF-8").file(file.name()))?;
            let tensor = Tensor::new(name, DType::F32, Shape::new([byte(at + 1 + len)?])?);
            tensors.push((tensor, byte(at + 2 + len)?));
            at += 3 + len;
        }
        let ends = tensors.iter().map(|(tensor, offset)| at + offset + tensor.value_bytes());
        let mut sums = ends.max().unwrap_or(at);
        let mut contents = Contents::default().with_files(vec![input.entry().to_owned()]);
        for (id, (tensor, offset)) in tensors.into_iter().enumerate() {
            let sum = file.bytes(sums, 4)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            contents.placements.push(placement(id, &tensor, at + offset, Some(sum)));
            contents.checkpoint.tensors.push(tensor);
            sums += 4;
        }
        if sums != file.len() {
            return Err(Error::corrupt("bytes after the last checksum").file(file.name()));
        }
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let holds = |tensor: &&Tensor| tensor.dtype == DType::F32 && tensor.shape.rank() == 1;
        if let Some(tensor) = checkpoint.tensors.iter().find(|tensor| !holds(tensor)) {
            return Err(Error::unsupported("only vectors of floats").tensor(&tensor.name));
        }
        let small = |number: u64| u8::try_from(number).map_err(|_| Error::unsupported("too large"));
        let mut header = MAGIC.to_vec();
        header.push(small(checkpoint.tensors.len() as u64)?);
        let (mut offsets, mut data) = (HashMap::new(), 0);
        for (id, tensor) in checkpoint.tensors.iter().enumerate() {
            let first = checkpoint.ties.first_of(TensorId(id));
            let offset = *offsets.entry(first).or_insert_with(|| {
                data += tensor.value_bytes();
                data - tensor.value_bytes()
            });
            header.push(small(tensor.name.len() as u64)?);
            header.extend(tensor.name.bytes());
            header.extend([small(tensor.shape.elements())?, small(offset)?]);
        }
        let start = header.len() as u64;
        let mut placed = OutputLayout::default();
        for (id, tensor) in checkpoint.tensors.iter().enumerate() {
            let offset = offsets.get(&checkpoint.ties.first_of(TensorId(id))).copied().unwrap_or_default();
            placed.placements.push(placement(id, tensor, start + offset, None));
        }
        let sums = start + data;
        placed.finish = FinishState::new(sums);
        let len = sums + 4 * checkpoint.tensors.len() as u64;
        placed.files = vec![OutputFile::new(name, len)];
        placed.literals = vec![Literal { file: FileId(0), offset: 0, bytes: header }];
        Ok(placed)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let offset = *placed.finish.get::<u64>()?;
        let sums = written.iter().flat_map(|written| written.checksums.iter().flatten());
        let bytes = sums.flat_map(|sum| sum.to_le_bytes()).collect();
        Ok(vec![Literal { file: FileId(0), offset, bytes }])
    }
}

/// A file of tensors, each with the number of its data.
fn file(tensors: &[(&str, u8)]) -> Vec<u8> {
    let mut bytes = [MAGIC, &[tensors.len() as u8][..]].concat();
    for (name, data) in tensors {
        bytes.push(name.len() as u8);
        bytes.extend(name.bytes());
        bytes.extend([2, data * 8]);
    }
    let values = |data: u8| [f32::from(data), 0.5].map(f32::to_le_bytes).concat();
    let most = tensors.iter().map(|(_, data)| *data).max().unwrap();
    (0..=most).for_each(|data| bytes.extend(values(data)));
    for (_, data) in tensors {
        let mut running = checksum(None).unwrap().start();
        running.update(&values(*data));
        bytes.extend(running.finish().to_le_bytes());
    }
    bytes
}

/// The input embedding and the output layer are one matrix.
const MODEL: [(&str, u8); 3] = [("embed", 0), ("hidden", 1), ("out", 0)];

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Tied).unwrap();
    registry
}

fn open(path: &Path) -> Source {
    Source::open(&registry(), path, &OpenOptions::default()).unwrap()
}

/// A directory with the model.
fn place() -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.tied");
    std::fs::write(&path, file(&MODEL)).unwrap();
    let source = open(&path);
    (directory, source)
}

fn unsynced() -> Execution {
    Execution::new().sync(false)
}

fn verifying() -> Conversion {
    Conversion::new().verify(true)
}

fn untied(planned: &Planned) -> Vec<&str> {
    let losses = planned.plan().losses.iter();
    losses.filter(|loss| loss.kind == LossKind::Untied).map(|loss| loss.subject.as_str()).collect()
}

#[test]
fn the_codec_keeps_the_contract() {
    let files = BTreeMap::from([("m.tied".to_owned(), file(&MODEL))]);
    let sample = ckpt_conformance::Sample::new("two ties", "m.tied", files).sharing("ties");
    let tied =
        |sample: ckpt_conformance::Sample, name: &str, first: f32| sample.floats(name, &[2], &[first, 0.5]);
    let sample = MODEL.iter().fold(sample, |sample, (name, data)| tied(sample, name, f32::from(*data)));
    ckpt_conformance::check(&Tied, &[sample]);
}

#[test]
fn ties_stay_shared_where_the_target_can_and_are_written_once() {
    let (directory, source) = place();
    let output = directory.path().join("out.tied");
    let planned = verifying().plan(&registry(), &source, &output).unwrap();
    assert_eq!((planned.plan().bytes_read, planned.plan().bytes_written), (16, 16));
    assert_eq!(untied(&planned), [""; 0]);
    let summary = planned.execute(&unsynced(), &|_| ()).unwrap();
    assert_eq!((summary.tensors, summary.verification.unwrap().equal), (3, 3));
    assert_eq!(std::fs::read(&output).unwrap(), file(&MODEL));
}

#[test]
fn ties_that_the_target_stores_apart_are_named_and_stop_a_strict_conversion() {
    let (directory, source) = place();
    let output = directory.path().join("out.safetensors");
    let planned = verifying().plan(&registry(), &source, &output).unwrap();
    assert_eq!(untied(&planned), ["out"]);
    planned.execute(&unsynced(), &|_| ()).unwrap();
    let difference = ckpt::diff::diff(&source, &open(&output), None).unwrap();
    assert!(difference.agrees(), "{difference:?}");

    let strict = verifying().policy(Policy::new().strict(true));
    let error = strict.plan(&registry(), &source, directory.path().join("no.safetensors")).unwrap_err();
    assert_eq!(error.kind(), Kind::Lossy);
    assert!(error.to_string().contains("untied 'out' (shares its bytes with 'embed'"), "{error}");
}

#[test]
fn ties_are_shared_by_a_plan_that_is_read_back_and_run_in_parts() {
    let (directory, source) = place();
    let output = directory.path().join("out.tied");
    let json = verifying().plan(&registry(), &source, &output).unwrap().plan().to_json().unwrap();
    let planned = Planned::resume(&registry(), Plan::from_json(&json, &Limits::default()).unwrap()).unwrap();
    let receipts = std::sync::Mutex::new(Vec::new());
    let count = planned.plan().items().len();
    let save = |receipt: &_| {
        receipts.lock().unwrap().push(Clone::clone(receipt));
        Ok(())
    };
    planned.run_items(0..count, &[], &unsynced(), &|_| (), &save).unwrap();
    planned.commit(&receipts.into_inner().unwrap(), &Commit::default(), &unsynced()).unwrap();
    assert_eq!(std::fs::read(&output).unwrap(), file(&MODEL));
}

#[test]
fn ties_survive_new_names_and_go_with_the_tensors_that_are_left_out() {
    let (directory, source) = place();
    let output = directory.path().join("out.tied");
    let mapping = "[[rule]]\nfrom = \"{name}\"\nto = \"model/{name}\"\n";
    let renamed = verifying().mapping(Mapping::from_toml(mapping, "map.toml").unwrap());
    renamed.plan(&registry(), &source, &output).unwrap().execute(&unsynced(), &|_| ()).unwrap();
    let expected = [("model/embed", 0), ("model/hidden", 1), ("model/out", 0)];
    assert_eq!(std::fs::read(&output).unwrap(), file(&expected));

    let alone = verifying().exclude("embed");
    let planned = alone.plan(&registry(), &source, directory.path().join("out.safetensors")).unwrap();
    assert_eq!(untied(&planned), [""; 0]);
}

#[test]
fn a_cast_keeps_ties() {
    let (directory, source) = place();
    let conversion = verifying().dtype(DType::F64);
    let planned = conversion.plan(&registry(), &source, directory.path().join("out.npz")).unwrap();
    assert_eq!(untied(&planned), ["out"]);
}
