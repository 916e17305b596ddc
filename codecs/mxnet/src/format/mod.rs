//! Names and numbers of the format.

mod dtype;

pub(crate) use dtype::{NATIVE, dtype, dtype_number, holder};

/// Id of the format, and its metadata namespace.
pub(crate) const NAMESPACE: &str = "mxnet";
/// The first number of a file.
pub(crate) const MAGIC: u64 = 0x112;
/// The second one, which stands for nothing.
pub(crate) const RESERVED: u64 = 0;
/// Extension of a file of parameters.
pub(crate) const ENDING: &str = ".params";
/// How the name of a symbol's file ends.
pub(crate) const SYMBOL_ENDING: &str = "-symbol.json";
/// Option: the file of the graph.
pub(crate) const OPTION_SYMBOL: &str = "symbol";
/// Option: shapes of the graph's inputs.
pub(crate) const OPTION_SHAPE: &str = "shape";
/// The most axes of an array.
pub(crate) const MOST_AXES: u64 = 32;
/// The type of the device that a written array names: a CPU.
pub(crate) const CPU: i32 = 1;

/// First numbers of the layouts of an array; any other is the rank of the oldest layout.
pub(crate) mod magic {
    pub(crate) const V1: u32 = 0xF993_FAC8;
    pub(crate) const V2: u32 = 0xF993_FAC9;
    pub(crate) const V3: u32 = 0xF993_FACA;
}

/// How an array is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// All elements.
    Dense,
    /// Some rows, and their indices.
    RowSparse,
    /// Some elements of a matrix row by row, where each row begins, and their columns.
    Csr,
}

impl Storage {
    /// The storage of a number.
    pub(crate) fn of(number: i32) -> Option<Self> {
        [Storage::Dense, Storage::RowSparse, Storage::Csr].get(usize::try_from(number).ok()?).copied()
    }

    /// Its name in MXNet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Storage::Dense => "default",
            Storage::RowSparse => "row_sparse",
            Storage::Csr => "csr",
        }
    }
}
