//! Zip archives: their end, their central directory, and where the bytes of each member lie.
//!
//! ```
//! use ckpt_api::{Input, Limits, zip};
//! // An archive without members.
//! let mut bytes = b"PK\x05\x06".to_vec();
//! bytes.extend([0; 18]);
//! let file = Input::memory("a.zip", [("a.zip".to_owned(), bytes)].into()).main()?;
//! let (entries, directory) = zip::entries(&file, &Limits::default())?;
//! assert_eq!((entries.len(), directory), (0, 0));
//! # Ok::<(), ckpt_api::Error>(())
//! ```

mod archive;
pub mod record;

pub use archive::{
    Entry, INSIDE, Member, entries, entries_of_any_name, has_any_text, len_before_others, members,
    stays_inside,
};
