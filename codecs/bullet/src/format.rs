//! File names, metadata keys and the fixed vocabularies of the format.

use ckpt_api::{DType, Encoding, Error, Extent, FileId, Result};

/// The format's id, and the namespace of its metadata.
pub(crate) const ID: &str = "bullet";

/// Metadata: the architecture file.
pub(crate) const KEY_ARCHITECTURE: &str = "architecture";
/// Metadata: the list of what was read, as [`Content::name`]; a directory has several.
pub(crate) const KEY_PARTS: &str = "parts";
/// Metadata: the padding of quantised.bin, if it is not [`Padding::Name`].
pub(crate) const KEY_PADDING: &str = "padding";
/// Metadata: the text of step.txt.
pub(crate) const KEY_STEP: &str = "step";
/// Metadata: the text of log.txt.
pub(crate) const KEY_LOG: &str = "log";
/// Metadata: the form of the optimizer's records, if it is not [`RecordForm::Current`].
pub(crate) const KEY_RECORDS: &str = "records";
/// Metadata: [`STATE`] if files of the form [`RecordForm::Headerless`] were read from there, and not from the directory
/// itself, where bullet had them.
pub(crate) const KEY_FOLDER: &str = "folder";
/// Metadata: the name of the quantized net beside files of the form [`RecordForm::Headerless`], which was that of the
/// checkpoint, such as `simple-10.bin`.
pub(crate) const KEY_NETWORK: &str = "network";
/// Metadata of a tensor: its id in the net.
pub(crate) const KEY_ID: &str = "id";
/// Metadata of a tensor that the file stores besides the weight with its id: which of the entries with this id it is,
/// from 1.
pub(crate) const KEY_NUMBER: &str = "number";
/// Metadata of a tensor: the number of rows that its record of the form [`RecordForm::Rows`] states.
pub(crate) const KEY_ROWS: &str = "rows";
/// Metadata of a tensor: the scale of the integers that its values come from, or 0 for none. The values include what
/// the file merges into them.
pub(crate) const KEY_QUANTISED: &str = "quantised";
/// Metadata of a tensor with [`KEY_QUANTISED`]: `true` if 32-bit floats cannot represent all of the integers.
pub(crate) const KEY_INEXACT: &str = "inexact";

/// The weights as 32-bit floats, without names or shapes.
pub(crate) const RAW: &str = "raw.bin";
/// The weights as the architecture's entries store them, without names or shapes.
pub(crate) const QUANTISED: &str = "quantised.bin";
/// RAdam's step counters.
pub(crate) const STEP: &str = "step.txt";
/// The losses of the training so far: superbatch, batch, loss.
pub(crate) const LOG: &str = "log.txt";
/// The folder of the optimizer's files.
pub(crate) const STATE: &str = "optimiser_state/";

/// quantised.bin is padded to a multiple of this many bytes.
const ALIGNMENT: u64 = 64;
const FILLER: &[u8] = b"bullet";

/// One of the optimizer's files: the weights, or one slot of every weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateFile {
    /// The file's name.
    pub(crate) name: &'static str,
    /// The prefix of its tensors' names.
    pub(crate) prefix: &'static str,
    /// The slot's name; `None` for the weights themselves.
    pub(crate) slot: Option<&'static str>,
}

pub(crate) const WEIGHTS: StateFile = StateFile { name: "weights.bin", prefix: "", slot: None };
/// The name of weights.bin before 2024-10.
pub(crate) const PARAMS: StateFile = StateFile { name: "params.bin", prefix: "", slot: None };
pub(crate) const MOMENTUM: StateFile =
    StateFile { name: "momentum.bin", prefix: "momentum/", slot: Some("m") };
pub(crate) const VELOCITY: StateFile =
    StateFile { name: "velocity.bin", prefix: "velocity/", slot: Some("v") };
pub(crate) const SLOW: StateFile = StateFile { name: "slow.bin", prefix: "slow/", slot: Some("slow") };

/// The optimizer's slots, in the order in which they are read and written.
pub(crate) const SLOTS: [StateFile; 3] = [MOMENTUM, VELOCITY, SLOW];

impl StateFile {
    /// The optimizer's file with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [WEIGHTS, PARAMS].into_iter().chain(SLOTS).find(|file| file.name == name)
    }
}

/// The form of the records in the optimizer's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordForm {
    /// Id and count before the values.
    #[default]
    Current,
    /// Id, rows and columns before the values: 2024-10 to 2025-02-12.
    Rows,
    /// Values only, in the order of the layers: before 2024-10.
    Headerless,
}

impl RecordForm {
    pub(crate) const NAMES: [&str; 3] = ["current", "rows", "headerless"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            RecordForm::Current => "current",
            RecordForm::Rows => "rows",
            RecordForm::Headerless => "headerless",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let all = [RecordForm::Current, RecordForm::Rows, RecordForm::Headerless];
        all.into_iter().find(|form| form.name() == name)
    }

    /// The form of params.bin, of which the option `records` may state no other.
    pub(crate) fn of_params(given: Option<Self>) -> Result<Self> {
        match given {
            None | Some(RecordForm::Headerless) => Ok(RecordForm::Headerless),
            Some(other) => Err(Error::usage("params.bin has no records")
                .field("records")
                .found(other.name())
                .expected(RecordForm::Headerless.name())
                .help("leave the option out; the file with records is weights.bin")),
        }
    }
}

/// What a file, or one part of a directory, contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// raw.bin.
    Raw,
    /// quantised.bin.
    Quantised,
    /// An empty quantised.bin, which bullet leaves behind if a value does not fit its integer type.
    Failed,
    /// Files of optimiser_state.
    State,
    /// A chess engine's network file.
    Engine,
}

impl Content {
    /// The contents that the option `content` can name.
    pub(crate) const NAMES: [&str; 4] = ["raw", "quantised", "state", "engine"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Content::Raw => "raw",
            Content::Quantised => "quantised",
            Content::Failed => "failed",
            Content::State => "state",
            Content::Engine => "engine",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let all = [Content::Raw, Content::Quantised, Content::Failed, Content::State, Content::Engine];
        all.into_iter().find(|content| content.name() == name)
    }
}

/// The bytes that pad quantised.bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Padding {
    /// bullet's name, repeated.
    #[default]
    Name,
    /// Zeros: before 2024-03-22.
    Zero,
}

impl Padding {
    pub(crate) const NAMES: [&str; 2] = ["bullet", "zero"];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Padding::Name => "bullet",
            Padding::Zero => "zero",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Padding::Name, Padding::Zero].into_iter().find(|padding| padding.name() == name)
    }

    /// The bytes that follow a payload of this many bytes.
    pub(crate) fn bytes(self, payload: u64) -> Vec<u8> {
        let len = usize::try_from(padded(payload).saturating_sub(payload)).unwrap_or(0);
        match self {
            Padding::Name => FILLER.iter().copied().cycle().take(len).collect(),
            Padding::Zero => vec![0; len],
        }
    }
}

/// The size of a quantised.bin whose entries take this many bytes.
pub(crate) fn padded(payload: u64) -> u64 {
    payload.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// The encoding of elements in this axis order, slowest first: bullet stores everything little-endian.
pub(crate) fn encoding(dtype: DType, order: Vec<usize>) -> Encoding {
    Encoding::new(dtype, order)
}

/// A contiguous tensor in a file.
pub(crate) fn extent(file: FileId, offset: u64, len: u64) -> Extent {
    Extent::new(file, offset, len)
}
