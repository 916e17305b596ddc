//! Zip archives: their end, their central directory, and where the bytes of each member are; and their records, as
//! Python and PyTorch write them.
//!
//! ```
//! use ckpt_api::{Input, Limits};
//! use ckpt_containers::zip;
//! // An archive without members.
//! let mut bytes = b"PK\x05\x06".to_vec();
//! bytes.extend([0; 18]);
//! let file = Input::memory("a.zip", [("a.zip".to_owned(), bytes)].into()).main()?;
//! let (entries, directory) = zip::entries(&file, &Limits::default())?;
//! assert_eq!((entries.len(), directory), (0, 0));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

mod archive;
mod python;
mod pytorch;
pub mod record;

pub use archive::{
    Entry, INSIDE, Member, entries, entries_of_any_name, has_any_text, len_before_others, members,
    stays_inside,
};
pub use python::{PythonMember, python_directory};
pub use pytorch::{DESCRIPTOR_CRC, PYTORCH_ALIGNMENT, PyTorchRecord, pytorch_end};

use ckpt_api::Error;

/// The error for members that have more bytes than a file can hold.
pub fn too_large() -> Error {
    Error::unsupported("the tensors have more bytes than a file can hold")
}
