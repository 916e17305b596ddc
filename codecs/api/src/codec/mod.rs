//! What a codec is given and returns.

mod contents;
mod copies;
mod find_ties;
mod finish;
mod format;
mod options;
mod output_layout;
mod output_name;
mod part;
mod phases;

pub use contents::{Contents, MissingGraph, Repair, Rules, ShapeMismatch};
pub use copies::{add_parts, add_unlisted};
pub use finish::FinishState;
pub use format::{Codec, FormatInfo, Match, Network, Provenance, Values};
pub use options::{OptionKind, OptionSpec, Options, Side};
pub use output_layout::{Literal, OutputFile, OutputLayout, Reading, Written};
pub use part::{PartName, PartSet, weights_left_elsewhere};
pub use phases::Phases;
