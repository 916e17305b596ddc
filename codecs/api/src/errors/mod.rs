//! Errors, the settings that they name, and the limits that they report.

mod error;
mod limits;
mod setting;
mod text;

pub use error::{Context, Error, ErrorTexts, Kind, Result};
pub use limits::{Limit, Limits};
pub use setting::{LibraryWords, Setting, Vocabulary};
pub use text::{Segment, Text};
