//! Elements in blocks through the engine: moved as they are, decoded where a target has no blocks, refused by name
//! where nobody can read them.

use ckpt::mapping::Mapping;
use ckpt::recipe::Transform;
use ckpt::{Conversion, Execution, Kind, OpenOptions, Plan, Planned, Registry, Source, diff, digest};
use ckpt_api::{
    Added, AddedAxis, Blocks, Checkpoint, Codec, Compression, Contents, DType, Encoding, Error, Extent,
    FileId, FormatInfo, Input, Limits, Literal, LossKind, Match, Misfit, Network, Options, OutputFile,
    OutputLayout, Placement, Result, Shape, Tensor, TensorId, Tile,
};
use ckpt_containers::decoders::DEFLATE;
use flate2::write::DeflateEncoder;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Blocks of 4 elements in 5 bytes: a scale, and integers.
const SCALED: Blocks = Blocks::decoded("blk.scaled", 4, 5, |block, numbers| {
    for (number, integer) in numbers.iter_mut().zip(&block[1..]) {
        *number = f32::from(block[0]) * f32::from(*integer);
    }
});
/// The same, of which nobody knows what they mean.
const SECRET: Blocks = Blocks::opaque("blk.secret", 4, 5);

/// Blocks of the same sizes, which numbers can be stored in: their count of numbers that are not 0, and their integers.
const BYTES: Blocks = Blocks::encoded(
    "blk.bytes",
    4,
    5,
    |block, numbers| {
        numbers.iter_mut().zip(&block[1..]).for_each(|(number, integer)| *number = f32::from(*integer));
    },
    |numbers, blocks| {
        if let Some(position) = numbers.iter().position(|number| !(0.0..=255.0).contains(number)) {
            return Err(Misfit::new(position, "numbers from 0 to 255"));
        }
        for (numbers, block) in numbers.chunks(4).zip(blocks.chunks_mut(5)) {
            block[0] = numbers.iter().filter(|number| **number != 0.0).count() as u8;
            block[1..].iter_mut().zip(numbers).for_each(|(integer, number)| *integer = number.round() as u8);
        }
        Ok(())
    },
);

/// `BLK1`, the first letter of the blocks' name, rows u16, columns u16, then the blocks. `z` for those with a name that
/// are deflated, `p` for those of two tensors.
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
        static KNOWN: [Blocks; 3] = [SCALED, SECRET, BYTES];
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
        let blocks = match head[0] {
            b's' => SECRET,
            b'e' => BYTES,
            _ => SCALED,
        };
        let dim = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let tensor = Tensor::new("w", DType::F32, Shape::new([dim(1), dim(3)])?);
        let encoding = Encoding::row_major(&tensor).in_blocks(blocks);
        let len =
            encoding.stored_len(tensor.shape.elements()).ok_or_else(|| Error::corrupt("half a block"))?;
        let mut contents = Contents::default().with_files(vec![input.entry().to_owned()]);
        let deflated = (head[0] == b'z').then(|| Compression::new(DEFLATE, file.len() - 9));
        let names: &[&str] = if head[0] == b'p' { &["w", "v"] } else { &["w"] };
        for (number, name) in names.iter().enumerate() {
            let extent =
                Extent::new(FileId(0), 9 + len * number as u64, len).with_compression(deflated.clone());
            let placement = Placement::new(TensorId(number), *name, vec![extent], encoding.clone());
            contents.placements.push(placement);
            contents.checkpoint.tensors.push(Tensor::new(*name, DType::F32, tensor.shape.clone()));
        }
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let [tensor] = &checkpoint.tensors[..] else { return Err(Error::unsupported("one tensor")) };
        let missing = if name.contains("bytes") { BYTES } else { SCALED };
        let blocks = tensor.blocks.as_deref().cloned().unwrap_or(missing);
        let letter = [(SCALED, b'd'), (BYTES, b'e')].into_iter().find(|(known, _)| *known == blocks);
        let letter = letter.map_or(b's', |(_, letter)| letter);
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

/// The sum of two tensors, for writing only; with the columns four by four, if the name says so.
struct Sum;

static SUM: FormatInfo = FormatInfo::new("sum", "Sums")
    .with_extensions(&["sum"])
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32])
    .with_free_names()
    .with_keeps(ckpt_api::Aspect::ALL);

impl Codec for Sum {
    fn info(&self) -> &FormatInfo {
        &SUM
    }

    fn probe(&self, _: &Input) -> Result<Match> {
        Ok(Match::No)
    }

    fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        Err(Error::unsupported("sums are not read"))
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let tensor = &checkpoint.tensors[0];
        let mut encoding = Encoding::row_major(tensor);
        if name.contains("tiled") {
            encoding = encoding.with_tiles(vec![Tile { axis: 1, lens: vec![4] }]).with_order(vec![1, 0, 2]);
        }
        let added = Added { tensor: TensorId(1), axes: vec![AddedAxis::Along(0), AddedAxis::Along(1)] };
        let extent = Extent::new(FileId(0), 0, tensor.value_bytes());
        let placement = Placement::new(TensorId(0), "sum", vec![extent], encoding).with_added(vec![added]);
        let files = vec![OutputFile::new(name, tensor.value_bytes())];
        Ok(OutputLayout::default().with_files(files).with_placements(vec![placement]))
    }
}

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Blocky).unwrap();
    registry.add(Sum).unwrap();
    registry
}

/// A file of `rows` by `columns` elements, and their numbers.
fn written(folder: &Path, letter: u8, [rows, columns]: [u16; 2]) -> (PathBuf, Vec<f32>) {
    let mut bytes = b"BLK1".to_vec();
    bytes.push(letter);
    bytes.extend(rows.to_le_bytes());
    bytes.extend(columns.to_le_bytes());
    let (mut numbers, mut blocks) = (Vec::new(), Vec::new());
    for block in 0..u32::from(rows) * u32::from(columns) / 4 {
        let own: Vec<u8> = (0..5).map(|at| (block * 7 + at * 31) as u8).collect();
        numbers.extend(own[1..].iter().map(|integer| f32::from(own[0]) * f32::from(*integer)));
        blocks.extend(own);
    }
    match letter {
        b'z' => bytes.extend(deflated(&blocks)),
        b'p' => bytes.extend(blocks.repeat(2)),
        _ => bytes.extend(blocks),
    }
    let path = folder.join("in.blk");
    std::fs::write(&path, bytes).unwrap();
    (path, numbers)
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
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
fn the_elements_of_opaque_blocks_cannot_be_read_or_shown() {
    let work = tempfile::tempdir().unwrap();
    let (input, _) = written(work.path(), b's', [8, 8]);
    let source = open(&input);
    let tensor = source.tensor("w").unwrap();
    let error = tensor.read::<f32>().unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("blk.secret"), "{error}");
    let file = std::fs::read(&input).unwrap();
    assert!(file.ends_with(&tensor.bytes().unwrap()), "the blocks themselves can be");
    let path = input.to_str().unwrap();
    let code = ckpt::cli::run(&registry(), ["ckpt", "show", path, "w"].map(Into::into));
    assert_eq!(code, std::process::ExitCode::FAILURE);
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
fn numbers_are_stored_in_blocks_that_have_an_encoder_in_the_order_of_the_target() {
    let work = tempfile::tempdir().unwrap();
    let rows =
        (0..200u32).map(|row| (0..300).map(move |column| ((row * 7 + column * 31) % 256) as f32 / 2.0));
    let numbers: Vec<f32> = rows.flatten().collect();
    let plain = work.path().join("plain.safetensors");
    ckpt::Writer::to(&plain).tensor("w", &[200, 300], &numbers).unwrap().finish().unwrap();
    for turned in [false, true] {
        let output = work.path().join("bytes.blk");
        let mut conversion = to("blk").allow(LossKind::Quantized);
        conversion.verify = true;
        if turned {
            conversion.transforms = vec![Transform::parse("w: transpose").unwrap()];
        }
        let planned = conversion.plan(&registry(), &open(&plain), &output).unwrap();
        let kinds: Vec<LossKind> = planned.plan().losses.iter().map(|loss| loss.kind).collect();
        assert_eq!(kinds, [LossKind::Quantized]);
        let plan = Plan::from_json(&planned.plan().to_json().unwrap(), &Limits::default()).unwrap();
        planned.execute(&Execution::default(), &|_| ()).unwrap();
        let expected = std::fs::read(&output).unwrap();
        let own = if turned { transposed(&numbers, 300) } else { numbers.clone() };
        for (block, own) in expected[9..].chunks(5).zip(own.chunks(4)) {
            assert_eq!(block[0] as usize, own.iter().filter(|number| **number != 0.0).count());
            assert_eq!(block[1..], own.iter().map(|number| number.round() as u8).collect::<Vec<u8>>());
        }
        std::fs::remove_file(&output).unwrap();
        Planned::resume(&registry(), plan).unwrap().execute(&Execution::default(), &|_| ()).unwrap();
        assert!(std::fs::read(&output).unwrap() == expected, "a plan that was written down gives the same");
    }
}

#[test]
fn numbers_are_not_stored_in_blocks_without_an_encoder() {
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

#[test]
fn a_plan_that_was_written_down_finds_its_decoders_wherever_blocks_are_read() {
    let work = tempfile::tempdir().unwrap();
    let (input, numbers) = written(work.path(), b'p', [16, 64]);
    let tied = "[[rule]]\nfrom = [\"w\", \"v\"]\nto = \"w\"\ntie = true\n";
    let compared = to("safetensors").mapping(Mapping::from_toml(tied, "map.toml").unwrap());
    for (conversion, name) in
        [(compared, "compared.safetensors"), (to("sum"), "out.sum"), (to("sum"), "tiled.sum")]
    {
        let output = work.path().join(name);
        let planned = conversion.plan(&registry(), &open(&input), &output).unwrap();
        planned.execute(&Execution::default(), &|_| ()).unwrap();
        let expected = std::fs::read(&output).unwrap();
        if name == "out.sum" {
            let sums: Vec<u8> = numbers.iter().flat_map(|number| (number + number).to_le_bytes()).collect();
            assert!(expected == sums);
        }
        std::fs::remove_file(&output).unwrap();
        let plan = Plan::from_json(&planned.plan().to_json().unwrap(), &Limits::default()).unwrap();
        let resumed = Planned::resume(&registry(), plan).unwrap();
        resumed.execute(&Execution::default(), &|_| ()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(std::fs::read(&output).unwrap() == expected, "{name}");
    }
}

#[test]
fn blocks_that_are_compressed_together_are_decoded_as_those_that_are_not() {
    let work = tempfile::tempdir().unwrap();
    let output = work.path().join("out.safetensors");
    for dtype in [None, Some(DType::F64)] {
        let [plain, deflated] = [b'd', b'z'].map(|letter| {
            let (input, _) = written(work.path(), letter, [300, 700]);
            let mut conversion = to("safetensors");
            conversion.dtype = dtype;
            run(&conversion, &input, &output);
            std::fs::read(&output).unwrap()
        });
        assert!(plain == deflated, "{dtype:?}");
    }
}
