//! Files of TensorFlow 1 that hold a model by themselves: frozen graphs, and V1 checkpoints.

mod frozen;
pub(crate) mod options;
mod stored;
mod v1;

pub(crate) use v1::begins as is_v1;

use ckpt_api::{
    Aspect, Checkpoint, Codec, Contents, Decoder, Error, FormatInfo, Input, Limits, Match, Network, Options,
    OutputLayout, Result,
};
use ckpt_containers::decoders::PROTOBUF;

/// The codec for frozen graphs (`.pb`) and V1 checkpoints (one file without an index) of TensorFlow 1.
///
/// A frozen graph is a `GraphDef` whose weights are constants. A V1 checkpoint is a table that has the values themselves,
/// as `tf.train.Saver` wrote them until 2016, and with `write_version=V1` since.
///
/// ```
/// use ckpt_api::{Codec, Input, Match};
/// // A constant, without its value.
/// let graph = b"\x0a\x0a\x0a\x01w\x12\x05Const".to_vec();
/// let input = Input::memory("frozen.pb", [("frozen.pb".to_owned(), graph)].into());
/// assert!(matches!(ckpt_tf2::Tf1.probe(&input)?, Match::Certain(_)));
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Tf1;

static INFO: FormatInfo = FormatInfo::new("tf1", "Frozen graph or V1 checkpoint of TensorFlow 1")
    .with_extensions(&["pb"])
    .with_reads(Network::ALL)
    .with_keeps(&[Aspect::Graph, Aspect::Axes])
    .with_options(options::OPTIONS);

impl Codec for Tf1 {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        if !input.is_file() {
            return Ok(Match::No);
        }
        let file = input.main()?;
        if v1::begins(&file)? {
            return Ok(Match::Certain("a table of SavedTensorSlices, which is a V1 checkpoint".to_owned()));
        }
        Ok(match frozen::begins(&file)? {
            true => Match::Certain("a message that begins with the node of a graph".to_owned()),
            false => Match::No,
        })
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        let file = input.main()?;
        let name = input.entry().to_owned();
        let contents = match v1::begins(&file)? {
            true => v1::read(&file, limits),
            false => frozen::read(&file, options, limits),
        };
        let contents = contents.map_err(|error| error.file(file.name()))?;
        Ok(contents.with_files(vec![name]))
    }

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
        Err(Error::unsupported("frozen graphs and V1 checkpoints are not written")
            .help("write tf2, which TensorFlow reads"))
    }

    fn decoders(&self) -> &'static [&'static Decoder] {
        &[PROTOBUF, v1::BLOCK]
    }
}
