//! Templates of architectures: graphs with repeats, whose parameters are read off the tensors of a checkpoint.
//!
//! A template is data: a TOML or JSON file, of which `data/architectures` has those that come with the program. It
//! names the tensors of one convention; its expressions read lengths and numbers of layers off their shapes, and what
//! the shapes do not show comes from the model's configuration, or from the user.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod builtin;
mod description;
mod document;
mod expand;
mod expression;
mod functions;
mod inputs;
mod known;
mod lexer;
mod parameters;
mod rotary;
mod scope;
mod signature;
mod tensors;
#[cfg(test)]
mod tests;
mod value;

pub use description::Described;
pub use description::Template;
pub use known::BuiltinArchitectures;
pub use signature::Signature;
