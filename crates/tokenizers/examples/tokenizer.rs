//! Converts a tokenizer between a directory and keys, as JSON: what `tests/interop/tokenizer_files.py` runs.
//!
//! ```sh
//! cargo run -p ckpt-tokenizers --example tokenizer -- keys KIND DIRECTORY > keys.json
//! cargo run -p ckpt-tokenizers --example tokenizer -- files keys.json DIRECTORY
//! ```

use ckpt_api::{Input, Limits, MetadataMap};
use ckpt_tokenizers::{Request, SpacePrefix, TokenizerKind, from_gguf, to_gguf};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["keys", kind, directory] => keys(kind, Path::new(directory)),
        ["files", keys, directory] => files(Path::new(keys), Path::new(directory)),
        _ => Err("usage: tokenizer keys KIND DIRECTORY | tokenizer files KEYS DIRECTORY".into()),
    }
}

/// Prints the keys of a directory's tokenizer.
fn keys(kind: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let kind = match kind {
        "bpe" => TokenizerKind::Bpe,
        "sentencepiece" => TokenizerKind::SentencePiece,
        "llama-bpe" => TokenizerKind::LlamaBpe,
        "ranked-bpe" => TokenizerKind::RankedBpe,
        "unigram" => TokenizerKind::Unigram,
        "wordpiece" => TokenizerKind::WordPiece,
        other => return Err(format!("unknown kind {other}").into()),
    };
    let config: Value = serde_json::from_slice(&fs::read(directory.join("config.json"))?)?;
    let kinds = [kind];
    let request = Request {
        vocab_size: config["vocab_size"].as_u64(),
        space_prefix: SpacePrefix::Stated,
        ..Request::new(&kinds, &config)
    };
    let keys = to_gguf(&Input::open(directory)?, &request, &Limits::default())?;
    keys.notes.iter().for_each(|note| eprintln!("note: {note}"));
    println!("{}", serde_json::to_string(&keys.pairs)?);
    Ok(())
}

/// Writes the files of a tokenizer.
fn files(keys: &Path, directory: &Path) -> Result<(), Box<dyn Error>> {
    let pairs: MetadataMap = serde_json::from_slice(&fs::read(keys)?)?;
    let files = from_gguf(&pairs, &Limits::default())?;
    files.notes.iter().for_each(|note| eprintln!("note: {note}"));
    fs::create_dir_all(directory)?;
    for (name, bytes) in &files.files {
        fs::write(directory.join(name), bytes)?;
    }
    fs::write(directory.join("config.json"), serde_json::to_vec(&files.config)?)?;
    Ok(())
}
