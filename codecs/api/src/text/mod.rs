//! Texts: names, sizes, numbers of things, misspelled words.

pub mod base64_text;
mod name;
mod nearest;
mod size;
mod words;

pub use name::Name;
pub(crate) use nearest::all_alike;
pub use nearest::nearest;
pub use size::parse_size;
pub use words::{count, first_few};
