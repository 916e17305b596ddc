//! Elements in blocks through the engine: moved as they are, decoded where a target has no blocks, refused by name where
//! nobody can read them.

#![cfg(all(feature = "npz", feature = "safetensors"))]

mod common;

use ckpt::mapping::Mapping;
use ckpt::recipe::Transform;
use ckpt::{Conversion, Execution, Kind, OpenOptions, Plan, Planned, Registry, Source, diff, digest};
use ckpt_api::{
    Blocks, Checkpoint, Codec, Contents, DType, Encoding, Error, Extent, FileId, FormatInfo, Input, Limits,
    Literal, LossKind, Match, Network, Options, OutputFile, OutputLayout, Placement, Result, Shape, Tensor,
    TensorId,
};
use std::path::{Path, PathBuf};

/// Blocks of 4 elements in 5 bytes: a scale, and integers.
const SCALED: Blocks = Blocks::decoded("blk.scaled", 4, 5, |block, numbers| {
    for (number, integer) in numbers.iter_mut().zip(&block[1..]) {
        *number = f32::from(block[0]) * f32::from(*integer);
    }
});
/// The same, of which nobody knows what they mean.
const SECRET: Blocks = Blocks::opaque("blk.secret", 4, 5);

/// `BLK1`, the first letter of the blocks' name, rows u16, columns u16, then the blocks.
struct Blocky;

static INFO: FormatInfo = FormatInfo::new("blk", "Blocks")
    .with_extensions(&["blk"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32])
    .with_free_names()
    .with_keeps(ckpt_api::Aspect::ALL);

impl Codec for Blocky {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn block_encodings(&self) -> &'static [Blocks] {
        static KNOWN: [Blocks; 2] = [SCALED, SECRET];
        &KNOWN
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        Ok(match input.head()? {
            Some(head) if head == *b"BLK1" => Match::Certain("it begins with BLK1".to_owned()),
            _ => Match::No,
        })
    }

    fn read(&self, input: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        let file = input.main()?;
        let head = file.bytes(4, 5)?;
        let blocks = if head[0] == b'd' { SCALED } else { SECRET };
        let dim = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let tensor = Tensor::new("w", DType::F32, Shape::new([dim(1), dim(3)])?);
        let encoding = Encoding::row_major(&tensor).in_blocks(blocks);
        let len =
            encoding.stored_len(tensor.shape.elements()).ok_or_else(|| Error::corrupt("half a block"))?;
        let mut contents = Contents::default().with_files(vec![input.entry().to_owned()]);
        contents.placements.push(Placement::new(
            TensorId(0),
            "w",
            vec![Extent::new(FileId(0), 9, len)],
            encoding,
        ));
        contents.checkpoint.tensors.push(tensor);
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let [tensor] = &checkpoint.tensors[..] else { return Err(Error::unsupported("one tensor")) };
        let blocks = tensor.blocks.as_deref().cloned().unwrap_or(SCALED);
        let letter = if blocks == SCALED { b'd' } else { b's' };
        let encoding = Encoding::row_major(tensor).in_blocks(blocks);
        let len =
            encoding.stored_len(tensor.shape.elements()).ok_or_else(|| Error::unsupported("half a block"))?;
        let mut head = b"BLK1".to_vec();
        head.push(letter);
        head.extend(tensor.shape.iter().flat_map(|dim| (*dim as u16).to_le_bytes()));
        let mut placed = OutputLayout::default();
        placed.files.push(OutputFile::new(name, 9 + len));
        placed.literals.push(Literal { file: FileId(0), offset: 0, bytes: head });
        placed.placements.push(Placement::new(
            TensorId(0),
            "w",
            vec![Extent::new(FileId(0), 9, len)],
            encoding,
        ));
        Ok(placed)
    }
}

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Blocky).unwrap();
    registry
}

/// A file of `rows` by `columns` elements, and their numbers.
fn written(folder: &Path, letter: u8, [rows, columns]: [u16; 2]) -> (PathBuf, Vec<f32>) {
    let mut bytes = b"BLK1".to_vec();
    bytes.push(letter);
    bytes.extend(rows.to_le_bytes());
    bytes.extend(columns.to_le_bytes());
    let mut numbers = Vec::new();
    for block in 0..u32::from(rows) * u32::from(columns) / 4 {
        let own: Vec<u8> = (0..5).map(|at| (block * 7 + at * 31) as u8).collect();
        numbers.extend(own[1..].iter().map(|integer| f32::from(own[0]) * f32::from(*integer)));
        bytes.extend(own);
    }
    let path = folder.join("in.blk");
    std::fs::write(&path, bytes).unwrap();
    (path, numbers)
}

fn open(path: &Path) -> Source {
    Source::open(&registry(), path, &OpenOptions::default()).unwrap()
}

fn to(format: &str) -> Conversion {
    Conversion::new().to(format).overwrite(true)
}

fn run(conversion: &Conversion, input: &Path, output: &Path) {
    let planned = conversion.plan(&registry(), &open(input), output).unwrap();
    planned.execute(&Execution::default(), &|_| ()).unwrap();
}

fn numbers_of(path: &Path, name: &str) -> Vec<f32> {
    let bytes = open(path).tensor(name).unwrap().bytes().unwrap();
    bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

/// Columns of rows.
fn transposed(numbers: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| numbers.iter().skip(column).step_by(columns)).copied().collect()
}

#[test]
fn blocks_that_the_target_has_are_moved_as_they_are() {
    let work = tempfile::tempdir().unwrap();
    for letter in [b'd', b's'] {
        let (input, _) = written(work.path(), letter, [300, 700]);
        let output = work.path().join("out.blk");
        let mut conversion = to("blk");
        conversion.verify = true;
        let planned = conversion.plan(&registry(), &open(&input), &output).unwrap();
        assert!(planned.plan().losses.is_empty(), "{:?}", planned.plan().losses);
        planned.execute(&Execution::default(), &|_| ()).unwrap();
        assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(&input).unwrap());
    }
}

#[test]
fn a_target_without_blocks_gets_the_numbers_and_the_plan_says_so() {
    let work = tempfile::tempdir().unwrap();
    let (input, numbers) = written(work.path(), b'd', [300, 700]);
    let output = work.path().join("out.safetensors");
    let mut conversion = to("safetensors");
    conversion.verify = true;
    let planned = conversion.plan(&registry(), &open(&input), &output).unwrap();
    let kinds: Vec<LossKind> = planned.plan().losses.iter().map(|loss| loss.kind).collect();
    assert_eq!(kinds, [LossKind::Dequantized]);
    planned.execute(&Execution::default(), &|_| ()).unwrap();
    assert!(numbers_of(&output, "w") == numbers && numbers_of(&input, "w") == numbers);
    let difference = diff::diff(&open(&input), &open(&output), Default::default()).unwrap();
    assert!(difference.agrees() && difference.tensors.len() == 1);
    let sum = |path: &Path| digest::digest(&open(path), 1).unwrap().sha256;
    assert_eq!(sum(&input), sum(&output));
}

#[test]
fn blocks_are_decoded_where_axes_are_turned() {
    let work = tempfile::tempdir().unwrap();
    let (input, numbers) = written(work.path(), b'd', [300, 700]);
    let output = work.path().join("out.safetensors");
    let mut conversion = to("safetensors");
    conversion.transforms = vec![Transform::parse("w: transpose").unwrap()];
    conversion.resources.max_memory = 16 << 20;
    run(&conversion, &input, &output);
    assert!(numbers_of(&output, "w") == transposed(&numbers, 700));
}

#[test]
fn parts_of_a_tensor_may_begin_and_end_within_blocks() {
    let work = tempfile::tempdir().unwrap();
    let (input, numbers) = written(work.path(), b'd', [300, 700]);
    let output = work.path().join("out.safetensors");
    for (axis, sizes) in [(1, [3, 5, 692]), (0, [1, 298, 1])] {
        let text = format!(
            "[[rule]]\nfrom = \"w\"\nto = [\"a\", \"b\", \"c\"]\nsplit = {axis}\nsizes = {sizes:?}\n"
        );
        let mut conversion = to("safetensors");
        conversion.mapping = Some(Mapping::from_toml(&text, "map.toml").unwrap());
        run(&conversion, &input, &output);
        let mut start = 0;
        for (name, len) in ["a", "b", "c"].iter().zip(sizes) {
            let expected: Vec<f32> = match axis {
                0 => numbers[start * 700..(start + len) * 700].to_vec(),
                _ => numbers.chunks(700).flat_map(|row| row[start..start + len].to_vec()).collect(),
            };
            assert!(numbers_of(&output, name) == expected, "axis {axis}, {name}");
            start += len;
        }
    }
}

#[test]
fn what_needs_the_numbers_of_opaque_blocks_is_refused_by_name() {
    let work = tempfile::tempdir().unwrap();
    let (input, _) = written(work.path(), b's', [8, 8]);
    let transposing = || {
        let mut conversion = to("blk");
        conversion.transforms = vec![Transform::parse("w: transpose").unwrap()];
        conversion
    };
    let casting = || {
        let mut conversion = to("safetensors");
        conversion.dtype = Some(DType::F16);
        conversion
    };
    for (what, conversion) in
        [("numbers", to("safetensors")), ("a cast", casting()), ("a transpose", transposing())]
    {
        let output = work.path().join("out");
        let error = conversion.plan(&registry(), &open(&input), &output).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains("blk.s"), "{what}: {error}");
        assert!(!output.exists());
    }
}

#[test]
fn opaque_blocks_are_hashed_and_compared() {
    let work = tempfile::tempdir().unwrap();
    let (input, _) = written(work.path(), b's', [8, 8]);
    let changed = work.path().join("changed.blk");
    let mut bytes = std::fs::read(&input).unwrap();
    bytes[9 + 5 * 3 + 2] ^= 1;
    std::fs::write(&changed, bytes).unwrap();
    let sum = |path: &Path| digest::digest(&open(path), 1).unwrap().sha256;
    assert_ne!(sum(&input), sum(&changed));
    let difference = diff::diff(&open(&input), &open(&changed), Default::default()).unwrap();
    let diff::Outcome::Different(distance) = &difference.tensors[0].outcome else { panic!("{difference:?}") };
    assert_eq!((distance.differing, distance.first), (4, 12));
    assert!(diff::diff(&open(&input), &open(&input), Default::default()).unwrap().agrees());
}

#[test]
fn numbers_are_not_stored_in_blocks() {
    let work = tempfile::tempdir().unwrap();
    let (input, _) = written(work.path(), b'd', [8, 8]);
    let plain = work.path().join("plain.npz");
    run(&to("npz"), &input, &plain);
    let error = to("blk").plan(&registry(), &open(&plain), work.path().join("o.blk")).unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("blk.scaled"), "{error}");
}

#[test]
fn a_plan_that_was_written_down_finds_its_decoders() {
    let work = tempfile::tempdir().unwrap();
    let (input, numbers) = written(work.path(), b'd', [64, 64]);
    let output = work.path().join("out.safetensors");
    let planned = to("safetensors").plan(&registry(), &open(&input), &output).unwrap();
    let plan = Plan::from_json(&planned.plan().to_json().unwrap(), &Limits::default()).unwrap();
    Planned::resume(&registry(), plan).unwrap().execute(&Execution::default(), &|_| ()).unwrap();
    assert!(numbers_of(&output, "w") == numbers);
}
