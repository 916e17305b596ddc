//! Tensors that are stored in blocks.

use ckpt_api::{
    Blocks, Checkpoint, Codec, Contents, DType, Encoding, Error, Extent, FileId, FormatInfo, Input, Limit,
    Limits, Literal, Match, Network, Options, OutputFile, OutputLayout, Placement, Result, Shape, Tensor,
    TensorId,
};
use ckpt_conformance::Sample;

/// `BLKS`, then 3 blocks: a factor and 4 integers, all of 8 bits.
struct Scaled;

const MAGIC: &[u8; 4] = b"BLKS";
const BLOCKS: Blocks = Blocks::decoded("scaled.q8", 4, 5, |block, numbers| {
    for (number, integer) in numbers.iter_mut().zip(&block[1..]) {
        *number = f32::from(block[0]) * f32::from(*integer as i8);
    }
});

static INFO: FormatInfo = FormatInfo::new("scaled", "Scaled blocks")
    .with_extensions(&["blocks"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[])
    .with_options(&[]);

fn placement(tensor: &Tensor) -> Placement {
    let encoding = Encoding::row_major(tensor).in_blocks(BLOCKS);
    Placement::new(TensorId(0), &tensor.name, vec![Extent::new(FileId(0), 4, 15)], encoding)
}

impl Codec for Scaled {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.head()?.is_some_and(|head: [u8; 4]| head == *MAGIC);
        Ok(if found { Match::Certain("it begins with BLKS".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        input.read_alone("a file of blocks", |file| {
            if file.bytes(0, 4)? != MAGIC || file.len() != 19 {
                return Err(Error::corrupt("not 3 blocks"));
            }
            limits.check(Limit::Tensors, 1)?;
            let mut tensor = Tensor::new("w", DType::F32, Shape::new([12])?);
            tensor.blocks = Some(Box::new(BLOCKS));
            let mut contents = Contents::default();
            contents.placements.push(placement(&tensor));
            contents.checkpoint.tensors.push(tensor);
            Ok(contents)
        })
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let [tensor] = &checkpoint.tensors[..] else {
            return Err(Error::unsupported("not one tensor"));
        };
        if tensor.blocks.as_deref() != Some(&BLOCKS) {
            return Err(Error::unsupported("only its own blocks are stored").tensor(&tensor.name));
        }
        let mut placed = OutputLayout::default();
        placed.literals.push(Literal { file: FileId(0), offset: 0, bytes: MAGIC.to_vec() });
        placed.placements.push(placement(tensor));
        placed.files.push(OutputFile::new(name.to_owned(), 19));
        Ok(placed)
    }
}

#[test]
fn blocks_are_values_that_are_read_and_written_as_they_are() {
    let blocks: Vec<u8> = (1..=15).collect();
    let files = [("m.blocks".to_owned(), [&MAGIC[..], &blocks].concat())].into();
    let sample = Sample::new("three blocks", "m.blocks", files).tensor("w", DType::F32, &[12], blocks);
    assert_eq!(crate::complaint(&Scaled, &sample), None);
}
