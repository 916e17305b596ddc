//! Names and numbers of the format.

mod dtype;

pub(crate) use dtype::{NATIVE, code, dtype, dtype_number, holder, holder_in_record};

/// Id of the format, and its metadata namespace.
pub(crate) const NAMESPACE: &str = "paddle";
/// Endings of pickles.
pub(crate) const PICKLES: [&str; 2] = [".pdparams", ".pdopt"];
/// Ending of the parameters of an inference model.
pub(crate) const RECORDS: &str = ".pdiparams";
/// Names of the parameters and of the program of a model before version 2.
pub(crate) const OLD_RECORDS: &str = "__params__";
pub(crate) const OLD_PROGRAM: &str = "__model__";
/// Endings of programs.
pub(crate) const JSON: &str = ".json";
pub(crate) const PROTOBUF: &str = ".pdmodel";
/// A key that stands beside parameters: the names that they have in the program.
pub(crate) const PARAMETER_NAMES: &str = "StructuredToParameterName@@";
/// A key of the root: which slices are those of large arrays.
pub(crate) const SLICES: &str = "UnpackBigParamInfor@@";
/// Keys of the description of an array in slices.
pub(crate) const SLICED_SHAPE: &str = "OriginShape";
pub(crate) const SLICED_PARTS: &str = "slices";
/// Option: arrays of u16 are bf16.
pub(crate) const OPTION_BF16: &str = "bf16";
/// Option: the file of the program.
pub(crate) const OPTION_PROGRAM: &str = "program";
/// Key of metadata: what a pickle has beside arrays.
pub(crate) const KEY_VALUES: &str = "values";
/// The most axes of a tensor in a record.
pub(crate) const MOST_AXES: usize = 32;
