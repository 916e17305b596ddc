//! Tests of the generated code.

mod generated;
