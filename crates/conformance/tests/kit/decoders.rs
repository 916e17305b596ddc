//! Extents that a decoder of the codec's own decodes.

use ckpt_api::{
    Checkpoint, Codec, Compression, Contents, DType, Decoder, Encoding, Error, Extent, FileId, FormatInfo,
    Input, Limit, Limits, Match, Network, Options, OutputLayout, Placement, Result, Shape, Tensor, TensorId,
};
use ckpt_conformance::Sample;

/// `TWIN`, then 4 bytes, which follow each other twice in the tensor; and the decoders that the codec registers.
struct Twin(&'static [&'static Decoder]);

const MAGIC: &[u8; 4] = b"TWIN";
const TWICE: &Decoder = &Decoder::whole(
    "twice",
    |stored, _| 2 * stored,
    |stored, _, out| {
        out.chunks_mut(stored.len()).for_each(|half| half.copy_from_slice(stored));
        Ok(out.len())
    },
);

static INFO: FormatInfo = FormatInfo::new("twin", "Bytes that are there twice")
    .with_extensions(&["twin"])
    .with_reads(Network::ALL)
    .with_dtypes(&[DType::U8]);

impl Codec for Twin {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.head()?.is_some_and(|head: [u8; 4]| head == *MAGIC);
        Ok(if found { Match::Certain("it begins with TWIN".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        input.read_alone("a file of twins", |file| {
            if file.len() != 8 || file.bytes(0, 4)? != MAGIC {
                return Err(Error::corrupt("not 4 bytes"));
            }
            limits.check(Limit::Tensors, 1)?;
            let tensor = Tensor::new("w", DType::U8, Shape::new([8])?);
            let extent = Extent::new(FileId(0), 4, 8).with_compression(Compression::new(TWICE, 4));
            let placement = Placement::new(TensorId(0), "w", vec![extent], Encoding::row_major(&tensor));
            let mut contents = Contents::default().with_placements(vec![placement]);
            contents.checkpoint.tensors.push(tensor);
            Ok(contents)
        })
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        self.0
    }

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
        Err(Error::unsupported("twins are not written"))
    }
}

fn complaint(decoders: &'static [&'static Decoder]) -> Option<String> {
    let files = [("m.twin".to_owned(), [&MAGIC[..], &[1, 2, 3, 4]].concat())].into();
    let value = vec![1, 2, 3, 4, 1, 2, 3, 4];
    let sample = Sample::new("twins", "m.twin", files).tensor("w", DType::U8, &[8], value);
    crate::complaint(&Twin(decoders), &sample)
}

#[test]
fn extents_may_need_any_decoder_that_the_codec_registers() {
    assert_eq!(complaint(&[TWICE]), None);
}

#[test]
fn a_decoder_that_is_not_registered_or_twice_is_a_mistake() {
    let missing = complaint(&[]).unwrap_or_default();
    assert!(missing.contains("Codec::decoders lacks") && missing.contains("twice"), "{missing}");
    let again = complaint(&[TWICE, TWICE]).unwrap_or_default();
    assert!(again.contains("two decoders are called 'twice'"), "{again}");
}
