//! Makes a codec a plugin: a WebAssembly module that `ckpt` loads at run time.
//!
//! ```
//! use ckpt_api::{Checkpoint, Codec, Contents, FormatInfo, Input, Limits, Match, Network, Options, OutputLayout, Result};
//!
//! #[derive(Clone, Copy, Debug, Default)]
//! pub struct Toy;
//!
//! static INFO: FormatInfo = FormatInfo::new("toy", "Toy format").with_extensions(&["toy"]).with_reads(Network::ALL);
//!
//! impl Codec for Toy {
//!     fn info(&self) -> &FormatInfo {
//!         &INFO
//!     }
//!
//!     fn probe(&self, input: &Input) -> Result<Match> {
//!         Ok(match input.head()? == Some(*b"TOY1") {
//!             true => Match::Certain("it begins with TOY1".into()),
//!             false => Match::No,
//!         })
//!     }
//! #    fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> {
//! #        Ok(Contents::default())
//! #    }
//! #    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
//! #        Ok(OutputLayout::default())
//! #    }
//!     // `read` and `place` follow.
//! }
//!
//! ckpt_plugin::export!(Toy);
//! # fn main() {}
//! ```
//!
//! A crate of the type `cdylib` with this, built for `wasm32-unknown-unknown`, is a plugin. Built for any other target, the macro
//! adds nothing, and the codec is one like all others.
//!
//! # What a plugin can do
//! It reads the files that the user named, and those beside them, in so far as [`Input`](ckpt_api::Input) lets any codec. It has
//! no clock, no random numbers, no network, no environment, no other files: the same input gives the same result. Each call
//! begins with the memory as the module states it, so that nothing is left of the calls before.
//!
//! # What crosses
//! Each function of a codec gets and returns a message ([`ckpt_forms`]). The bytes of tensors do not cross: the program moves
//! them. Only blocks, and compressed bytes, that the codec decodes itself come to the plugin, in pieces of a bounded size, and the
//! values that its own operators take, or that it prepares tensors by.

#![deny(missing_docs)]

mod guest;
#[cfg(target_family = "wasm")]
mod memory;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod wasm;

pub use guest::{Guest, Numbers, Surroundings};

/// The version of the interface between `ckpt` and its plugins: the functions of both sides, and [`ckpt_forms::VERSION`].
pub const VERSION: u32 = ckpt_forms::VERSION;

/// Makes a codec, given as a constant expression, the one of this plugin. Once in a crate. The plugin's version is the crate's.
///
/// Only `export!(MyCodec, prepare)` lets the program call [`Codec::prepare`](ckpt_api::Codec::prepare): it costs a message with all
/// tensors for each output.
#[macro_export]
macro_rules! export {
    ($codec:expr, prepare) => {
        $crate::export!($codec);
        #[cfg(target_family = "wasm")]
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn ckpt_prepare(len: u32) -> u64 {
                $crate::wasm::prepare(const { &$codec }, env!("CARGO_PKG_VERSION"), len)
            }
        };
    };
    ($codec:expr) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn ckpt_version() -> u32 {
                $crate::VERSION
            }

            #[unsafe(no_mangle)]
            extern "C" fn ckpt_reserve(len: u32) -> u32 {
                $crate::wasm::reserve(len)
            }

            #[unsafe(no_mangle)]
            extern "C" fn ckpt_call(function: u32, len: u32) -> u64 {
                $crate::wasm::call(const { &$codec }, env!("CARGO_PKG_VERSION"), function, len)
            }

            #[unsafe(no_mangle)]
            extern "C" fn ckpt_problem() -> u64 {
                $crate::wasm::problem()
            }
        };
    };
}
