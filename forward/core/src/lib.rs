#![doc = include_str!("../README.md")]

mod array;
mod backend;
pub mod conformance;
mod cpu;
mod integer;
pub mod kernel;
mod lower;
pub mod op;
mod program;
mod random;
mod reference;
mod value;

pub use array::{Array, Element};
pub use backend::{Arithmetic, Backend, BufferId, DeviceInfo, MathMode, not_on_device};
pub use cpu::Cpu;
pub use integer::integer_graph;
pub use kernel::Kernel;
pub use program::{
    Bounds, DEFAULT_MEMORY, Magnitude, NodeInfo, Observer, Program, ValueInfo, default_shapes,
    shapes_of_length, specialize,
};
pub use random::Random;
pub use reference::ReferenceCall;
pub use value::{Numbers, Parameters, Value};
