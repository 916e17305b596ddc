//! Reads and writes NumPy's `.npz` archives and `.npy` arrays, as `np.savez` and `np.save` do.
//!
//! An `.npz` file is a zip archive of `.npy` members. The codec reads stored and deflated members (`np.savez`,
//! `np.savez_compressed`), and writes stored ones. An array has the name of its member without `.npy`; the array of a
//! single `.npy` file has the name of the file. The codec reads arrays of real and complex numbers, integers and
//! booleans, little- and big-endian, row- and column-major. It does not read strings and objects, and never unpickles
//! anything. It verifies the checksum of every member.
//!
//! The **metadata** of a tensor, namespace `npz`, has two keys: `header`, the text of its array's header, and
//! `version`. A tensor has them only if they differ from what NumPy 2 writes for a row-major little-endian array.
//! Writing uses them if dtype and shape are unchanged. So byte order and axis order are preserved, and a file that
//! `np.savez` wrote is written again byte for byte.
//!
//! Files store only names, dtypes, shapes and values. Everything else is reported as a loss.
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

mod format;
mod header;
mod read;
mod write;

use ckpt_api::{
    Checkpoint, Codec, Contents, Decoder, FormatInfo, Input, Limits, Literal, Match, Network, OptionKind,
    OptionSpec, Options, OutputLayout, Result, Side, Written,
};
use ckpt_containers::decoders::DEFLATE;

/// The codec of the format `npz`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Npz;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        format::OPTION,
        OptionKind::Choice(&format::UNTYPED_NAMES),
        Side::Read,
        "dtype of ml_dtypes of the arrays for which NumPy has no dtype ('<V2', '<V1', '<f1')",
    ),
    OptionSpec::lenient(
        "leave out strings, objects and other members that are no numbers, reporting each (default false)",
    ),
];

static INFO: FormatInfo = FormatInfo::new(format::ID, "NumPy archive (.npz) or array (.npy)")
    .with_extensions(&["npz", "npy"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&format::NATIVE)
    .with_free_names()
    .with_unnamed_array("npy")
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

    fn decoders(&self) -> &'static [&'static Decoder] {
        &[DEFLATE]
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
        write::place(checkpoint, name, options.phases())
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        write::finish(placed, written)
    }
}
