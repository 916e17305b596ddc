//! Reads and writes GGUF files, as llama.cpp and its tools write them.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod blocks;

use ckpt_api::{
    Checkpoint, Codec, Contents, Error, FormatInfo, Input, Limits, Match, Options, OutputLayout, Result,
};

/// The codec of the format `gguf`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gguf;

static INFO: FormatInfo = FormatInfo::new("gguf", "GGUF file").with_extensions(&["gguf"]);

impl Codec for Gguf {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.head::<4>()? == Some(*b"GGUF");
        Ok(if found { Match::Certain("it begins with GGUF".into()) } else { Match::No })
    }

    fn read(&self, _: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        Err(Error::unsupported("GGUF files are not read yet"))
    }

    fn place(&self, _: &Checkpoint, _: &str, _: &Options) -> Result<OutputLayout> {
        Err(Error::unsupported("GGUF files are not written yet"))
    }
}
