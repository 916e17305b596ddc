//! Texts: names, sizes, numbers of things, misspelled words, names that occur twice.

pub mod base64_text;
mod name;
mod nearest;
mod repeated;
mod size;
mod words;

pub use name::Name;
pub(crate) use nearest::all_alike;
pub use nearest::nearest;
pub use repeated::first_repeated;
pub use size::parse_size;
pub use words::{count, first_few};
