//! Names and numbers of the format.

mod dtype;
mod operators;

pub(crate) use dtype::{NATIVE, Stored, dtype_number, stored_dtype};
pub(crate) use operators::Operator;

/// Id of the format, and its metadata namespace.
pub(crate) const NAMESPACE: &str = "tflite";
/// The file's identifier, at offset 4.
pub(crate) const IDENTIFIER: [u8; 4] = *b"TFL3";
/// The version of the schema.
pub(crate) const VERSION: u32 = 3;
/// Extension of a model's file.
pub(crate) const ENDING: &str = ".tflite";

/// Numbers of the fields of tables.
pub(crate) mod field {
    /// Fields of a model.
    pub(crate) mod model {
        pub(crate) const VERSION: u64 = 0;
        pub(crate) const OPERATOR_CODES: u64 = 1;
        pub(crate) const SUBGRAPHS: u64 = 2;
        pub(crate) const DESCRIPTION: u64 = 3;
        pub(crate) const BUFFERS: u64 = 4;
        pub(crate) const METADATA: u64 = 6;
        pub(crate) const SIGNATURES: u64 = 7;
    }

    /// Fields of a subgraph.
    pub(crate) mod subgraph {
        pub(crate) const TENSORS: u64 = 0;
        pub(crate) const INPUTS: u64 = 1;
        pub(crate) const OUTPUTS: u64 = 2;
        pub(crate) const OPERATORS: u64 = 3;
        pub(crate) const NAME: u64 = 4;
    }

    /// Fields of a tensor.
    pub(crate) mod tensor {
        pub(crate) const SHAPE: u64 = 0;
        pub(crate) const TYPE: u64 = 1;
        pub(crate) const BUFFER: u64 = 2;
        pub(crate) const NAME: u64 = 3;
        pub(crate) const QUANTIZATION: u64 = 4;
        pub(crate) const IS_VARIABLE: u64 = 5;
        pub(crate) const SPARSITY: u64 = 6;
        pub(crate) const SHAPE_SIGNATURE: u64 = 7;
        pub(crate) const EXTERNAL_BUFFER: u64 = 10;
    }

    /// Fields of an operator.
    pub(crate) mod operator {
        pub(crate) const CODE: u64 = 0;
        pub(crate) const INPUTS: u64 = 1;
        pub(crate) const OUTPUTS: u64 = 2;
        pub(crate) const OPTIONS_TYPE: u64 = 3;
        pub(crate) const OPTIONS: u64 = 4;
    }
}
