//! One test for each rule of the format.

use crate::build::{MADE, Made, compressed, input, integers, network};
use ckpt_api::{
    Codec, Contents, DType, Error, Input, Kind, Limits, Match, Options, OutputLayout, Result, Side, TensorId,
    Values,
};
use ckpt_nnue::Nnue;

const PSQT: &str = "transformer.PP_3Wide.psqt";

fn options(side: Side, options: &[(&str, &str)]) -> Options {
    let pairs: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Options::parse("nnue", Nnue.info().options, side, &pairs).unwrap()
}

fn read_with(input: &Input, pairs: &[(&str, &str)]) -> Result<Contents> {
    let contents = Nnue.read(input, &options(Side::Read, pairs), &Limits::default())?;
    contents.check(&Limits::default())?;
    Ok(contents)
}

/// The files of a source: the format reads no numbers of it.
struct Files<'a>(&'a Input);

impl Values for Files<'_> {
    fn input(&self) -> &Input {
        self.0
    }

    fn numbers(&self, _: TensorId, _: &mut dyn FnMut(&[f32])) -> Result<()> {
        Err(Error::unsupported("no numbers are read"))
    }
}

/// The error of a network of which some bytes are others.
fn refused(at: usize, bytes: &[u8]) -> Error {
    let mut file = network(MADE).0;
    file[at..at + bytes.len()].copy_from_slice(bytes);
    read_with(&input(file), &[]).unwrap_err()
}

/// What is written of the tensors, after they were prepared, and how it is read back.
fn written(input: &Input, mut contents: Contents, pairs: &[(&str, &str)]) -> Result<(Vec<u8>, OutputLayout)> {
    let options = options(Side::Write, pairs);
    contents = Nnue.prepare(&Files(input), &contents, &options)?.unwrap_or(contents);
    contents.check(&Limits::default())?;
    let layout = Nnue.place(&contents.checkpoint, "out.nnue", &options)?;
    layout.check(&contents.checkpoint)?;
    let mut file = vec![0; usize::try_from(layout.files[0].len.unwrap()).unwrap()];
    let mut put = |offset: u64, bytes: &[u8]| {
        let start = usize::try_from(offset).unwrap();
        file[start..start + bytes.len()].copy_from_slice(bytes);
    };
    layout.literals.iter().for_each(|literal| put(literal.offset, &literal.bytes));
    for placement in &layout.placements {
        let source = &contents.placements[placement.tensor.0];
        let name = &contents.files[source.extents[0].file.0];
        let values = source.extents[0].open(&input.file(name)?)?;
        put(placement.extents[0].offset, &values.bytes(0, values.len())?);
    }
    Ok((file, layout))
}

fn values(input: &Input, contents: &Contents, name: &str) -> Vec<u8> {
    let placement = contents.placements.iter().find(|placement| placement.name == name).unwrap();
    let values = placement.extents[0].open(&input.main().unwrap()).unwrap();
    values.bytes(0, values.len()).unwrap()
}

#[test]
fn sizes_are_found_by_the_hashes() {
    let contents = read_with(&input(network(MADE).0), &[]).unwrap();
    let text = |key| contents.checkpoint.metadata.text("nnue", key).unwrap().to_owned();
    assert_eq!(text("architecture"), "(4560 -> 2)x2 -> 8 -> 32 -> 1, 8 stacks");
    assert_eq!(text("features"), "PP_3Wide[4560]");
    assert_eq!(contents.checkpoint.tensors.len(), 3 + 8 * 6);
    assert!(contents.all_notes().any(|note| note.contains("2 arrays compressed")));
}

#[test]
fn a_network_is_recognized_by_its_version() {
    let probe = |file| Nnue.probe(&input(file)).unwrap();
    assert!(matches!(probe(network(MADE).0), Match::Certain(_)));
    assert_eq!(probe(network(MADE).0[..14].to_vec()), Match::No);
    assert_eq!(probe(vec![0; 64]), Match::No);
}

#[test]
fn a_wrong_hash_says_what_was_found_and_expected() {
    let error = refused(4, &[1, 2, 3, 4]);
    let context = error.context();
    assert_eq!((error.kind(), context.offset), (Kind::Corrupt, Some(4)));
    assert_eq!(context.found, Some("0x04030201"));
    assert!(context.expected.is_some_and(|hash| hash.starts_with("0x")), "{error}");
    let file = network(MADE).0;
    let stack = 4 + (8 + 32) * 4 + 8 * 32 + 32 * 32 + 4 + 96;
    let error = refused(file.len() - stack, &[0; 4]);
    assert_eq!(error.context().offset, Some((file.len() - stack) as u64), "{error}");
    assert!(error.to_string().contains("found 0x00000000"), "{error}");
}

#[test]
fn unknown_versions_and_inputs_are_named() {
    let error = refused(0, &0x7AF3_2F21u32.to_le_bytes());
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("0x7af32f21") && error.to_string().contains("0x6a448afa"), "{error}");
    let error = refused(16, &0x1234_5678u32.to_le_bytes());
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("0x12345678") && error.to_string().contains("HalfKAv2_hm"), "{error}");
}

#[test]
fn inputs_that_are_not_known_can_be_stated() {
    let small = input(network(Made { is_small: true, ..MADE }).0);
    let error = read_with(&small, &[]).unwrap_err();
    assert!(error.to_string().contains("inputs=FEATURESxNEURONS"), "{error}");
    let contents = read_with(&small, &[("inputs", "3x2"), ("layers", "2,3")]).unwrap();
    let (again, layout) = written(&small, contents, &[("layers", "2,3")]).unwrap();
    assert!(again == network(Made { is_small: true, ..MADE }).0);
    assert!(layout.readings[0].options.contains(&("inputs".to_owned(), "3x2".to_owned())));
    for (inputs, says) in
        [("40x2", "transformer.other"), ("3x0", "such as 768x128"), ("3", "such as 768x128")]
    {
        let error = read_with(&small, &[("inputs", inputs)]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn compressed_arrays_have_as_many_integers_as_they_should() {
    let psqt = network(MADE).0.windows(17).rposition(|bytes| bytes == b"COMPRESSED_LEB128").unwrap();
    let error = refused(psqt + 17, &1000u32.to_le_bytes());
    assert_eq!((error.context().tensor, error.context().found), (Some(PSQT), Some("1000 bytes")), "{error}");
    assert!(error.to_string().contains("36480 to 182400"), "{error}");
    // The count is right, and the bytes hold one integer more.
    let mut file = network(MADE).0;
    let data = psqt + 21;
    let long = file[data..].iter().position(|byte| byte & 0x80 != 0).unwrap();
    file[data + long] &= 0x7F;
    let input = input(file);
    let contents = read_with(&input, &[]).unwrap();
    let placement = contents.placements.iter().find(|placement| placement.name == PSQT).unwrap();
    let values = placement.extents[0].open(&input.main().unwrap()).unwrap();
    let error = values.bytes(0, values.len()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}

#[test]
fn a_network_comes_back_byte_for_byte() {
    for is_compressed in [true, false] {
        let (file, _) = network(Made { is_compressed, ..MADE });
        let input = input(file.clone());
        let (again, layout) = written(&input, read_with(&input, &[]).unwrap(), &[]).unwrap();
        assert!(again == file, "compressed: {is_compressed}");
        let bytes = layout.readings[0].options.contains(&("leb128".to_owned(), "bytes".to_owned()));
        assert_eq!(bytes, is_compressed);
        assert!(layout.losses.is_empty(), "{:?}", layout.losses);
    }
}

#[test]
fn plain_integers_are_compressed_as_they_were_or_as_the_option_says() {
    let (plain, _) = network(Made { is_compressed: false, ..MADE });
    let (file, _) = network(MADE);
    let input = input(plain.clone());
    let contents = read_with(&input, &[]).unwrap();
    assert!(written(&input, contents.clone(), &[("compression", "leb128")]).unwrap().0 == file);
    assert!(written(&input, contents.clone(), &[]).unwrap().0 == plain);
    // Without metadata, if the option says so.
    let mut fresh = contents;
    fresh.checkpoint.metadata.remove("nnue");
    let error = written(&input, fresh.clone(), &[]).unwrap_err().to_string();
    assert!(error.contains("compression=leb128"), "{error}");
    let (fresh, _) = written(&input, fresh, &[("compression", "leb128")]).unwrap();
    // All but the description.
    assert!(fresh[12..] == file[16..] && fresh[..8] == file[..8]);
}

#[test]
fn compressed_arrays_are_stored_as_they_are_if_the_option_says_so() {
    let (plain, _) = network(Made { is_compressed: false, ..MADE });
    let input = input(network(MADE).0);
    let (again, layout) =
        written(&input, read_with(&input, &[]).unwrap(), &[("compression", "none")]).unwrap();
    assert!(again == plain);
    assert_eq!(layout.losses[0].subject, "nnue.leb128");
}

#[test]
fn compressed_arrays_can_be_read_as_their_bytes() {
    let input = input(network(MADE).0);
    let contents = read_with(&input, &[("leb128", "bytes")]).unwrap();
    let psqt = contents.checkpoint.tensors.iter().find(|tensor| tensor.name == PSQT).unwrap();
    let expected = &compressed(&integers(36_480, 100_000))[21..];
    assert_eq!((psqt.dtype, psqt.shape.elements()), (DType::U8, expected.len() as u64));
    assert!(values(&input, &contents, PSQT) == expected);
    let error = written(&input, contents, &[("compression", "none")]).unwrap_err();
    assert!(error.to_string().contains("leb128=values"), "{error}");
}

#[test]
fn numbers_have_the_scales_of_the_current_version_alone() {
    let contents = read_with(&input(network(MADE).0), &[("weights", "numbers")]).unwrap();
    let scale = |name: &str| {
        let placement = contents.placements.iter().find(|placement| placement.name == name).unwrap();
        placement.encoding.scaling().unwrap().scale.get()
    };
    let names = [
        "transformer.bias",
        PSQT,
        "stacks.7.layer_1.bias",
        "stacks.7.layer_2.weight",
        "stacks.7.output.bias",
    ];
    assert_eq!(names.map(scale), [256, 9600, 128 * 128, 64, 128 * 128]);
    assert!(contents.checkpoint.tensors.iter().all(|tensor| tensor.dtype == DType::F32));
    let older = input(network(Made { version: 0x7AF3_2F20, ..MADE }).0);
    let error = read_with(&older, &[("weights", "numbers")]).unwrap_err();
    assert!(error.kind() == Kind::Unsupported && error.to_string().contains("0x7af32f20"), "{error}");
}

#[test]
fn numbers_are_written_with_the_scales_and_not_compressed() {
    let input = input(network(MADE).0);
    let contents = read_with(&input, &[("weights", "numbers")]).unwrap();
    let layout = Nnue.place(&contents.checkpoint, "out.nnue", &Options::default()).unwrap();
    assert_eq!(layout.placements[0].encoding.dtype, DType::I16);
    assert_eq!(layout.whole_units.len(), contents.placements.len());
    let options = options(Side::Write, &[("compression", "leb128")]);
    let error = Nnue.place(&contents.checkpoint, "out.nnue", &options).unwrap_err();
    assert!(error.to_string().contains("compression=none"), "{error}");
}

#[test]
fn other_networks_are_refused_by_name() {
    let mut contents = read_with(&input(network(MADE).0), &[]).unwrap();
    for tensor in &mut contents.checkpoint.tensors {
        *tensor = tensor.clone().with_name(tensor.name.replace("transformer.", "l0."));
    }
    let place = |contents: &Contents| Nnue.place(&contents.checkpoint, "out.nnue", &Options::default());
    let error = place(&contents).unwrap_err().to_string();
    assert!(error.contains("'l0.bias' of [2]") && error.contains("HalfKAv2_hm (22528 features)"), "{error}");
    let mut contents = read_with(&input(network(MADE).0), &[]).unwrap();
    contents.checkpoint.tensors.pop();
    let error = place(&contents).unwrap_err();
    assert_eq!(error.context().tensor, Some("stacks.7.output.weight"), "{error}");
}

#[test]
fn sizes_that_nothing_would_tell_are_refused() {
    let mut contents = read_with(&input(network(MADE).0), &[]).unwrap();
    contents.checkpoint.metadata.remove("nnue");
    let changed = |name: &str, shape: [u64; 2]| {
        let mut checkpoint = contents.checkpoint.clone();
        let tensor = checkpoint.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        tensor.shape = ckpt_api::Shape::new(shape).unwrap();
        Nnue.place(&checkpoint, "out.nnue", &Options::default()).unwrap_err().to_string()
    };
    let error = changed("stacks.0.layer_2.weight", [32, 7]);
    assert!(error.contains("nothing in the file would tell the sizes"), "{error}");
    let error = changed("transformer.PP_3Wide.weight", [4561, 2]);
    assert!(error.contains("not those of known inputs"), "{error}");
}
