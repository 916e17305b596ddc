//! Reading the files of an input, and parsing and making headers.

mod address;
pub mod fields;
mod file;
mod handed;
mod input;
mod joined;
mod links;
mod nearby;
mod read_at;
mod store;
mod writer;

pub use address::Address;
pub use fields::Fields;
pub use file::File;
pub(crate) use file::ends_before;
pub use input::Input;
pub use nearby::nearby;
pub use read_at::{ReadAt, read_exact_at};
pub(crate) use store::checked;
pub use store::{Directory, ReadStore, directories_of, open_regular};
pub use writer::{Number, Writer};
