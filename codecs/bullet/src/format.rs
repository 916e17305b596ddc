//! The format's names and constants, and the metadata that this codec keeps.

use crate::architecture::{Architecture, Entry};
use ckpt_api::{Error, Result};

/// The format's id, and the namespace of its metadata.
pub(crate) const ID: &str = "bullet";

/// Metadata: the architecture file.
pub(crate) const KEY_ARCHITECTURE: &str = "architecture";
/// Metadata: what was read, of [`Part::name`]; a directory has several.
pub(crate) const KEY_PARTS: &str = "parts";
/// Metadata: what fills quantised.bin up, where that is not bullet's name.
pub(crate) const KEY_PADDING: &str = "padding";
/// Metadata: the text of step.txt.
pub(crate) const KEY_STEP: &str = "step";
/// Metadata: the text of log.txt.
pub(crate) const KEY_LOG: &str = "log";
/// Metadata: the form of the optimizer's records, where that is not the current one.
pub(crate) const KEY_RECORDS: &str = "records";
/// Metadata of a tensor: its id, under which the net knows it.
pub(crate) const KEY_ID: &str = "id";
/// Metadata of a tensor: how many rows its old record states.
pub(crate) const KEY_ROWS: &str = "rows";
/// Metadata of a tensor: that its values come from quantised.bin, so that they are whole multiples of its scale, and
/// hold what is merged into them.
pub(crate) const KEY_QUANTISED: &str = "quantised";

pub(crate) const RAW: &str = "raw.bin";
pub(crate) const QUANTIZED: &str = "quantised.bin";
pub(crate) const STEP: &str = "step.txt";
/// The losses of the training so far: superbatch, batch, loss.
pub(crate) const LOG: &str = "log.txt";
/// The folder of the optimizer's files.
pub(crate) const STATE: &str = "optimiser_state/";

/// bullet's name fills quantised.bin up to a multiple of this.
const ALIGNMENT: u64 = 64;
const FILLER: &[u8] = b"bullet";

/// One of the optimizer's files: the weights, or what it keeps for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Name of the file.
    pub(crate) file: &'static str,
    /// What its tensors' names begin with.
    pub(crate) prefix: &'static str,
    /// Name of the slot; `None` for the weights themselves.
    pub(crate) slot: Option<&'static str>,
}

pub(crate) const WEIGHTS: State = State { file: "weights.bin", prefix: "", slot: None };
/// As it was called before 2024-10.
pub(crate) const PARAMS: State = State { file: "params.bin", prefix: "", slot: None };
pub(crate) const MOMENTUM: State = State { file: "momentum.bin", prefix: "momentum/", slot: Some("m") };
pub(crate) const VELOCITY: State = State { file: "velocity.bin", prefix: "velocity/", slot: Some("v") };
pub(crate) const SLOW: State = State { file: "slow.bin", prefix: "slow/", slot: Some("slow") };

/// What the optimizer keeps, in the order in which it is read and written.
pub(crate) const SLOTS: [State; 3] = [MOMENTUM, VELOCITY, SLOW];

/// How the optimizer's files are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Id and count before the values.
    #[default]
    Current,
    /// Id, rows and columns before the values: 2024-10 to 2025-02-12.
    Rows,
    /// The values alone, in the order of the layers: before 2024-10.
    Headerless,
}

impl Form {
    pub(crate) const ALL: [Form; 3] = [Form::Current, Form::Rows, Form::Headerless];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Current => "current",
            Form::Rows => "rows",
            Form::Headerless => "headerless",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// What a file, or a part of a directory, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Raw,
    Quantized,
    /// A quantised.bin without bytes, as bullet leaves it when a number does not fit.
    Failed,
    /// Files of optimiser_state.
    State,
    /// An engine's file.
    Engine,
}

impl Part {
    pub(crate) const ALL: [Part; 5] = [Part::Raw, Part::Quantized, Part::Failed, Part::State, Part::Engine];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Part::Raw => "raw",
            Part::Quantized => "quantised",
            Part::Failed => "failed",
            Part::State => "state",
            Part::Engine => "engine",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// What fills quantised.bin up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Padding {
    /// bullet's name, again and again.
    #[default]
    Name,
    /// Zero bytes: before 2024-03-22.
    Zero,
}

impl Padding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Padding::Name => "bullet",
            Padding::Zero => "zero",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Padding::Name, Padding::Zero].into_iter().find(|padding| padding.name() == name)
    }

    /// The bytes that follow `payload` bytes.
    pub(crate) fn bytes(self, payload: u64) -> Vec<u8> {
        let len = usize::try_from(padded(payload).saturating_sub(payload)).unwrap_or(0);
        match self {
            Padding::Name => FILLER.iter().copied().cycle().take(len).collect(),
            Padding::Zero => vec![0; len],
        }
    }
}

/// Bytes of a quantised.bin with this many bytes of entries.
pub(crate) fn padded(payload: u64) -> u64 {
    payload.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

/// One entry of raw.bin or quantised.bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Index in the list of entries.
    pub(crate) entry: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// What a file of this part's holds, in its order.
pub(crate) fn entries(architecture: &Architecture, part: Part) -> &[Entry] {
    match (part, &architecture.net.engine) {
        (Part::Engine, Some(engine)) => &engine.members,
        (Part::Engine, None) => &[],
        _ => &architecture.net.saved,
    }
}

/// Where the entries lie, of raw.bin, quantised.bin or an engine's file, and where the last one ends; an engine's file ends
/// at a multiple of its alignment.
pub(crate) fn sections(architecture: &Architecture, part: Part) -> Result<(Vec<Section>, u64)> {
    let engine = architecture.net.engine.as_ref().filter(|_| part == Part::Engine);
    let align = engine.map(|engine| engine.align).unwrap_or_default();
    let mut sections = Vec::new();
    let mut end = engine.map_or(0, |engine| engine.header.0.len() as u64);
    for (index, entry) in entries(architecture, part).iter().enumerate() {
        let size = if part == Part::Raw { Some(4) } else { entry.kind.dtype().bytes() };
        let elements = architecture.stored_as(entry, part)?.elements();
        let len = size.zip(elements).and_then(|(size, elements)| elements.checked_mul(size));
        let place = align.up(end).zip(len);
        let place = place.and_then(|(offset, len)| Some((offset, len, offset.checked_add(len)?)));
        let (offset, len, after) = place.ok_or_else(|| too_large(&entry.id))?;
        sections.push(Section { entry: index, offset, len });
        end = after;
    }
    Ok((sections, align.up(end).ok_or_else(|| too_large("the last member"))?))
}

/// A file that no computer can hold.
pub(crate) fn too_large(id: &str) -> Error {
    Error::usage("the architecture describes files that are too large").tensor(id)
}
