//! Templates of architectures: graphs with repeats, whose parameters are read off the tensors of a checkpoint.
//!
//! A template is data: a TOML or JSON file, of which `schemas/architectures` has those that come with the program. It
//! names the tensors of one convention; its expressions read lengths and numbers of layers off their shapes, and what
//! the shapes do not show comes from the model's configuration, or from the user.

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

#[cfg(any(test, feature = "forward"))]
pub(crate) use description::Described;
pub(crate) use description::Template;
pub(crate) use known::BuiltinArchitectures;
pub(crate) use signature::Signature;
