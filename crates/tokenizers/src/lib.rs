//! Tokenizers: from the files of a Hugging Face directory to the keys of GGUF, and back.
//!
//! [`to_gguf`] returns the `tokenizer.*` keys in the order and with the types that llama.cpp's converter writes.
//! [`from_gguf`] returns the files that the keys are enough for, and says what they are not enough for.
//!
//! ```
//! use ckpt_api::{Input, Limits};
//! use ckpt_tokenizers::{Request, TokenizerKind, from_gguf, to_gguf};
//! let json = r#"{
//!     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
//!     "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
//! }"#;
//! let files = [("tokenizer.json".to_owned(), json.as_bytes().to_vec())];
//! let directory = Input::memory("", files.into());
//! let config = serde_json::json!({"eos_token_id": 1, "vocab_size": 4});
//! let request = Request { vocab_size: Some(4), ..Request::new(&[TokenizerKind::Bpe], &config) };
//! let keys = to_gguf(&directory, &request, &Limits::default())?;
//! assert_eq!(keys.pairs.get("tokenizer.ggml.pre").and_then(|pre| pre.as_text()), Some("gpt-2"));
//! let files = from_gguf(&keys.pairs, &Limits::default())?;
//! assert!(files.files.contains_key("tokenizer.json"));
//! # Ok::<(), ckpt_api::Error>(())
//! ```
//!
//! # Modules
//! | module | contents |
//! |---|---|
//! | `files` | reads and writes the files: JSON, and the protocol buffer `tokenizer.model` |
//! | `pre` | names of pre-tokenizers: which regular expressions llama.cpp runs under each |
//! | `keys` | from files to keys |
//! | `restore` | from keys to files |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod files;
mod key;
mod keys;
mod pre;
mod request;
mod restore;
mod token;

pub use key::id_key;
pub use keys::to_gguf;
pub use request::{Files, Keys, Request, SpacePrefix, TokenizerKind};
pub use restore::from_gguf;
