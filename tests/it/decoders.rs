//! A stranger's decoder, through the engine: a format with LZ4 blocks, written on the contract alone.

use ckpt::{Conversion, Execution, Kind, OpenOptions, Plan, Planned, Registry, Source};
use ckpt_api::Limits;
use std::path::{Path, PathBuf};

/// What a stranger writes: it uses `ckpt_api` and a library of the compression, and nothing else of the project.
mod lz4_file {
    use ckpt_api::fields::{le, numbers};
    use ckpt_api::{
        Checkpoint, Codec, Compression, Contents, DType, Decoder, Encoding, Endian, Error, Extent, Fields,
        FileId, FormatInfo, Input, Limit, Limits, Match, Network, Options, OutputLayout, Placement, Result,
        Shape, Tensor, TensorId,
    };
    use std::io;

    /// A block of LZ4: a byte adds at most 255 to a length.
    pub const LZ4: &Decoder = &Decoder::whole(
        "lz4",
        |stored, _| stored.saturating_mul(255),
        |stored, _, out| lz4_flex::block::decompress_into(stored, out).map_err(io::Error::other),
    );

    /// `LZ4T`, the number of tensors as a byte; for each of them its elements and its stored bytes as `u32`, and the
    /// stored bytes, which are `f32` elements in a block of LZ4.
    pub struct Lz4File(pub &'static [&'static Decoder]);

    const MAGIC: &[u8; 4] = b"LZ4T";

    static INFO: FormatInfo = FormatInfo::new("lz4t", "Tensors in LZ4 blocks")
        .with_extensions(&["lz4t"])
        .with_reads(Network::ALL)
        .with_dtypes(&[DType::F32])
        .with_free_names();

    impl Codec for Lz4File {
        fn info(&self) -> &FormatInfo {
            &INFO
        }

        fn decoders(&self) -> &'static [&'static Decoder] {
            self.0
        }

        fn probe(&self, input: &Input) -> Result<Match> {
            let is_own = input.head()?.is_some_and(|head: [u8; 4]| head == *MAGIC);
            Ok(if is_own { Match::Certain("it begins with LZ4T".to_owned()) } else { Match::No })
        }

        fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
            input.read_alone("tensors in LZ4 blocks", |file| {
                let mut fields = Fields::new(file);
                fields.skip(MAGIC.len() as u64)?;
                let count = fields.parse(le::<u8>)?;
                limits.check(Limit::Tensors, count.into())?;
                let mut contents = Contents::default();
                for number in 0..usize::from(count) {
                    let [elements, stored] = fields.parse(numbers::<u32, 2>(Endian::Little))?;
                    let tensor =
                        Tensor::new(format!("w{number}"), DType::F32, Shape::new([u64::from(elements)])?);
                    let extent = Extent::new(FileId(0), fields.position(), tensor.value_bytes())
                        .with_compression(Compression::new(LZ4, stored.into()));
                    fields.skip(stored.into())?;
                    let (id, encoding) = (TensorId(number), Encoding::row_major(&tensor));
                    contents.placements.push(Placement::new(id, &tensor.name, vec![extent], encoding));
                    contents.checkpoint.tensors.push(tensor);
                }
                Ok(contents)
            })
        }

        fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
            Err(Error::unsupported("tensors in LZ4 blocks are only read"))
        }
    }
}

use lz4_file::{LZ4, Lz4File};

fn registry() -> Registry {
    let mut registry = Registry::builtin();
    registry.add(Lz4File(&[LZ4])).unwrap();
    registry
}

/// Numbers that compress.
fn numbers(count: usize) -> Vec<u8> {
    (0..count).flat_map(|at| ((at / 3 % 1000) as f32).to_le_bytes()).collect()
}

/// A file of one tensor for each block, which states the elements.
fn file(work: &Path, tensors: &[(usize, Vec<u8>)]) -> PathBuf {
    let mut bytes = b"LZ4T".to_vec();
    bytes.push(tensors.len() as u8);
    for (elements, block) in tensors {
        bytes.extend((*elements as u32).to_le_bytes());
        bytes.extend((block.len() as u32).to_le_bytes());
        bytes.extend(block);
    }
    let path = work.join("in.lz4t");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn compressed(elements: usize) -> (usize, Vec<u8>) {
    (elements, lz4_flex::block::compress(&numbers(elements)))
}

fn open(path: &Path) -> Source {
    Source::open(&registry(), path, &OpenOptions::default()).unwrap()
}

fn plan(input: &Path, output: &Path) -> Planned {
    Conversion::new().to("safetensors").overwrite(true).plan(&registry(), &open(input), output).unwrap()
}

fn check_values(output: &Path, sizes: &[usize]) {
    let source = open(output);
    for (number, size) in sizes.iter().enumerate() {
        let found = source.tensor(&format!("w{number}")).unwrap().bytes().unwrap();
        assert!(found == numbers(*size), "w{number}");
    }
}

/// The second one is larger than what is kept decompressed without a limit.
const SIZES: [usize; 4] = [1000, 700_000, 1, 0];

#[test]
fn a_strangers_decoder_serves_a_conversion_and_a_plan_that_was_written_down() {
    let work = tempfile::tempdir().unwrap();
    let input = file(work.path(), &SIZES.map(compressed));
    let output = work.path().join("out.safetensors");
    let planned = plan(&input, &output);
    let json = planned.plan().to_json().unwrap();
    assert!(json.contains(r#""method": "lz4""#), "{json}");
    planned.execute(&Execution::default(), &|_| ()).unwrap();
    check_values(&output, &SIZES);
    let expected = std::fs::read(&output).unwrap();
    std::fs::remove_file(&output).unwrap();
    let read = Plan::from_json(&json, &Limits::default()).unwrap();
    let resumed = Planned::resume(&registry(), read).unwrap();
    assert_eq!(resumed.plan().peak_memory, plan(&input, &output).plan().peak_memory);
    resumed.execute(&Execution::default(), &|_| ()).unwrap();
    assert!(std::fs::read(&output).unwrap() == expected);
}

#[test]
fn blocks_that_are_decoded_at_once_count_as_memory() {
    let work = tempfile::tempdir().unwrap();
    let input = file(work.path(), &[compressed(8 << 20)]);
    let within = |max_memory| {
        let mut conversion = Conversion::new().to("safetensors");
        conversion.resources.max_memory = max_memory;
        conversion.plan(&registry(), &open(&input), work.path().join("out.safetensors"))
    };
    within(96 << 20).unwrap();
    let error = within(24 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Limit, "{error}");
}

#[test]
fn a_block_that_is_cut_or_holds_another_number_of_bytes_stops_before_any_output() {
    let work = tempfile::tempdir().unwrap();
    let (_, block) = compressed(1000);
    let cut = block[..block.len() - 4].to_vec();
    for (what, elements, block, expected) in [
        ("cut", 1000, cut, "damaged"),
        ("too much", 999, block.clone(), "damaged"),
        ("too little", 1001, block.clone(), "shorter than the tensor"),
        ("far too little", 1 << 30, block, "too short for the tensor"),
    ] {
        let input = file(work.path(), &[(elements, block)]);
        let output = work.path().join("out.safetensors");
        let conversion = Conversion::new().to("safetensors");
        let source = Source::open(&registry(), &input, &OpenOptions::default());
        let planned = source.and_then(|source| conversion.plan(&registry(), &source, &output));
        let result = planned.and_then(|planned| planned.execute(&Execution::default(), &|_| ()));
        let error = result.err().unwrap_or_else(|| panic!("{what}: it was converted"));
        let text = error.to_string();
        assert!(error.kind() == Kind::Corrupt && text.contains(expected), "{what}: {text}");
        assert!(text.contains("in.lz4t") && text.contains("w0"), "{what}: {text}");
        assert!(!output.exists(), "{what}");
    }
}

#[test]
fn a_plan_whose_decoder_nobody_registered_says_which_and_what_there_is() {
    const OTHER: &ckpt_api::Decoder =
        &ckpt_api::Decoder::whole("lz5", |stored, _| stored, |_, _, _| Err(std::io::Error::other("never")));
    let work = tempfile::tempdir().unwrap();
    let input = file(work.path(), &[compressed(1000)]);
    let json = plan(&input, &work.path().join("out.safetensors")).plan().to_json().unwrap();
    for (decoders, known) in
        [(&[OTHER][..], "a decoder of the codec 'lz4t': lz5"), (&[], "registers no decoders")]
    {
        let mut registry = Registry::builtin();
        registry.add(Lz4File(decoders)).unwrap();
        let read = Plan::from_json(&json, &Limits::default()).unwrap();
        let error = Planned::resume(&registry, read).map(drop).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), Kind::Unsupported, "{text}");
        for part in ["no decoder of this name", "in.lz4t", "w0", "lz4", known, "register a codec"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
