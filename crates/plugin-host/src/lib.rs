//! Codecs that are WebAssembly modules.
//!
//! [`Plugin::load`] makes a [`Codec`](ckpt_api::Codec) of a module that the crate `ckpt-plugin` built. The module is not trusted:
//! it is interpreted, its steps and its memory are metered ([`Limit::PluginSteps`](ckpt_api::Limit), [`Limit::PluginMemory`](ckpt_api::Limit)), and it
//! can do nothing but read the files of the input that it is asked about. What it returns is checked as what any codec returns
//! is. Each call begins with a new instance, so that the same call has the same result; but reading goes on in the instance that
//! probed the same input, so that a header is parsed once, and decoders are used again.
//!
//! # The interface
//! A module exports `memory` and four functions:
//!
//! | function | what it does |
//! |---|---|
//! | `ckpt_version() -> i32` | returns the [version](ckpt_plugin::VERSION) of the interface |
//! | `ckpt_reserve(len: i32) -> i32` | makes room for a message; returns its address |
//! | `ckpt_call(function: i32, len: i32) -> i64` | calls a [`Function`](ckpt_forms::Function) with the message; returns address and length of the answer, in the upper and the lower half |
//! | `ckpt_prepare(len: i32) -> i64` | prepares tensors, as `ckpt_call` calls other functions; optional |
//! | `ckpt_problem() -> i64` | returns, so, why the module stopped; optional |
//!
//! It may import, from the module `ckpt`:
//!
//! | function | what it does |
//! |---|---|
//! | `list(name: i32, len: i32, what: i32) -> i64` | lists the files (0) or directories (1) of a directory beside the input, or says whether a file exists (2); returns the length of an answer, or 1 or 0 |
//! | `open(name: i32, len: i32) -> i64` | opens a file; returns the length of an answer: its number, its length, its identity |
//! | `take(to: i32)` | copies the answer to memory |
//! | `read(file: i32, offset: i64, to: i32, len: i32)` | copies bytes of an open file to memory |
//! | `pull(to: i32, len: i32) -> i32` | copies the next stored bytes of a stream that is decoded |
//! | `numbers(tensor: i64, to: i32, len: i32) -> i64` | while tensors are prepared: copies at most so many of the next values of a tensor, 32-bit floats; returns how many, 0 at the end, or less for an error: the length of an answer, negated |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod codec;
mod decoders;
mod imports;
mod instance;
mod module;
mod operators;
mod pool;
mod prepare;

pub use codec::Plugin;
