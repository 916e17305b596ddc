//! HDF5 files: where the bytes of datasets are, and files as `h5py` writes them.
//!
//! This crate is no codec: it has what codecs of formats need that store their tensors in HDF5. It depends on nothing but
//! `ckpt-api` and `ckpt-containers`, and opens no other file than the one that it is given.
//!
//! [`read`] lists groups, datasets and attributes. It reads superblocks of the versions 0 to 3, object headers, links and
//! attributes of both generations, and every layout of datasets but virtual ones and those in other files: compact,
//! contiguous, and chunks with any index, with the filters deflate, lzf, shuffle and fletcher32: a codec registers the
//! decoders [`ZLIB`](ckpt_containers::decoders::ZLIB) and [`LZF`](ckpt_containers::decoders::LZF). Elements are not read:
//! [`Stored`] says where they are. What is left out is listed in [`Tree::left`], with the reason.
//!
//! Hostile files are normal. Every address and length is checked against the file. No node, header or object is read
//! twice, so that circles come to an end, and a budget in proportion to the file's length bounds everything that is
//! read. Soft links are not followed; links to other files, virtual datasets and external storage never are.
//!
//! ```
//! use ckpt_api::{DType, Encoding, Input, Limits, Shape, Tensor};
//! let tensor = Tensor::new("w", DType::F32, Shape::new([2u64])?);
//! let mut draft = ckpt_hdf5::Draft::default();
//! draft.dataset("layers/dense/vars/0", ckpt_hdf5::Datatype::little(DType::F32), tensor.shape.clone())?;
//! let plan = draft.place()?;
//! let mut bytes = vec![0; plan.len as usize];
//! for (offset, block) in &plan.blocks {
//!     bytes[*offset as usize..][..block.len()].copy_from_slice(block);
//! }
//! let file = Input::memory("w.h5", [("w.h5".to_owned(), bytes)].into()).main()?;
//! let tree = ckpt_hdf5::read(&file, &Limits::default())?;
//! assert_eq!(tree.datasets[0].path, "layers/dense/vars/0");
//! assert_eq!(tree.datasets[0].stored.extents[0].offset, plan.datasets[0]);
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod datatype;
mod format;
mod read;
mod tree;
mod write;

pub use datatype::Datatype;
pub use tree::{Attribute, AttributeValue, Dataset, Group, Left, Stored, Tree, attribute};
pub use write::{Draft, Plan};

use ckpt_api::{File, Limits, Result};

/// Reads everything but the elements of datasets.
///
/// # Errors
/// [`ckpt_api::Kind::Corrupt`] for a file that breaks the format's rules; [`ckpt_api::Kind::Limit`];
/// [`ckpt_api::Kind::Unsupported`] for what concerns the whole file. What concerns one object is in [`Tree::left`].
pub fn read(file: &File, limits: &Limits) -> Result<Tree> {
    read::read(file, limits).map_err(|error| error.file(file.name()))
}

/// Whether the file has the signature of HDF5, at its beginning or after a user block of at most `longest` bytes. Each look
/// beyond a file's first bytes may be a request to a store far away.
///
/// # Errors
/// [`ckpt_api::Kind::Io`].
pub fn is_hdf5(file: &File, longest: u64) -> Result<bool> {
    Ok(read::superblock::find(file, longest)?.is_some())
}
