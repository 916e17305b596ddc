//! NumPy's `.npz` archives and single `.npy` arrays: what `np.savez` and `np.save` write and `np.load` reads.
//!
//! An `.npz` file is a zip archive of `.npy` members. Stored and deflated ones are read (`np.savez`,
//! `np.savez_compressed`), stored ones written. An array's name is its member's without
//! `.npy`; a single `.npy` file's array is called as the file is. Arrays of real and complex numbers, integers and
//! booleans are read, little- and big-endian, row- and column-major; strings and objects are not, and nothing is ever
//! unpickled. The checksum of every member is verified.
//!
//! **Metadata** of a tensor, namespace `npz`: `header`, the text of its array's header, and `version`, where these are not
//! what NumPy 2 writes for a row-major little-endian array. Writing uses them while dtype and shape are the same, so that
//! byte and axis order come back as they were, and a file that `np.savez` wrote comes back byte for byte.
//!
//! Files say nothing but names, dtypes, shapes and values: all else is named as a loss.
//!
//! ```
//! use ckpt_api::{Codec, Input, Limits, Options};
//! let mut file = b"\x93NUMPY\x01\0\x37\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}".to_vec();
//! file.extend([0; 8]);
//! let input = Input::memory("w.npy", [("w.npy".to_owned(), file)].into());
//! let contents = ckpt_npz::Npz.read(&input, &Options::default(), &Limits::default())?;
//! assert_eq!(contents.checkpoint.tensors[0].name, "w");
//! # Ok::<(), ckpt_api::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod archive;
mod directory;
mod format;
mod header;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Literal, Match, Network, OptionSpec, Options,
    OutputLayout, Result, Written,
};

/// The codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Npz;

const OPTIONS: &[OptionSpec] = &[OptionSpec::lenient(
    "leave out strings, objects and other members that are no numbers, reporting each (default false)",
)];

static INFO: FormatInfo = FormatInfo::new(format::ID, "NumPy archive (.npz) or array (.npy)")
    .with_extensions(&["npz", "npy"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_options(OPTIONS);

impl Codec for Npz {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        read::probe(input)
    }

    fn read(&self, input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
        read::read(input, options, limits)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        let _ = options;
        write::place(checkpoint, name)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        write::finish(placed, written)
    }
}
