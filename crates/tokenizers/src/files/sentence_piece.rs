//! `tokenizer.model`: the protocol buffer `ModelProto` of SentencePiece.

use super::protobuf::{Fields, Message, Value};
use crate::token::TokenType;
use ckpt_api::{Error, Input, Limit, Limits, Result};
use std::collections::HashSet;

/// How the model segments words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelType {
    Unigram,
    Bpe,
    Other(u64),
}

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) score: f32,
    pub(crate) piece_type: TokenType,
}

/// The parts of a model that decide keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SentencePieceModel {
    /// In the order of ids.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) model_type: ModelType,
    pub(crate) byte_fallback: bool,
    /// A table of the normalizer; empty if it changes nothing.
    pub(crate) charsmap: Vec<u8>,
    pub(crate) add_dummy_prefix: bool,
    pub(crate) remove_extra_whitespaces: bool,
}

impl Default for SentencePieceModel {
    /// The schema's defaults.
    fn default() -> Self {
        SentencePieceModel {
            pieces: Vec::new(),
            model_type: ModelType::Unigram,
            byte_fallback: false,
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
        }
    }
}

impl SentencePieceModel {
    /// Reads a file of a directory, and returns it with its name in messages. `None` if there is none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Corrupt`] with the offset; [`ckpt_api::Kind::Limit`].
    pub(crate) fn from_directory(
        directory: &Input,
        name: &str,
        limits: &Limits,
    ) -> Result<Option<(Self, String)>> {
        if !directory.has_file(name) {
            return Ok(None);
        }
        let file = directory.file(name)?;
        let named = |error: Error| error.file(file.name());
        limits.check(Limit::HeaderBytes, file.len()).map_err(named)?;
        let model = Self::parse(&file.bytes(0, file.len())?, limits).map_err(named)?;
        Ok(Some((model, file.name().to_owned())))
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// As [`SentencePieceModel::from_directory`], without the file.
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let mut model = SentencePieceModel::default();
        let (mut has_trainer, mut has_normalizer) = (false, false);
        let mut fields = Fields::new(bytes, 0);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(bytes, offset)) => {
                    limits.check(Limit::MetadataEntries, model.pieces.len() as u64 + 1)?;
                    let piece =
                        piece(bytes, offset).map_err(|error| error.field(piece_field(model.pieces.len())))?;
                    model.pieces.push(piece);
                }
                (2, Value::Bytes(bytes, offset)) => {
                    model.trainer(bytes, offset)?;
                    has_trainer = true;
                }
                (3, Value::Bytes(bytes, offset)) => {
                    model.normalizer(bytes, offset)?;
                    has_normalizer = true;
                }
                _ => {}
            }
        }
        model.check()?;
        // They follow the pieces, so a file that is cut short between two pieces lacks them.
        for (name, is_there) in [("trainer_spec", has_trainer), ("normalizer_spec", has_normalizer)] {
            if !is_there {
                return Err(Error::corrupt("the file is cut short")
                    .offset(bytes.len() as u64)
                    .field(name)
                    .found(format!(
                        "{} and no {name} after them",
                        ckpt_api::count(model.pieces.len(), "piece")
                    ))
                    .help("copy the file again"));
            }
        }
        Ok(model)
    }

    fn trainer(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut fields = Fields::new(bytes, offset);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (3, Value::Varint(1)) => self.model_type = ModelType::Unigram,
                (3, Value::Varint(2)) => self.model_type = ModelType::Bpe,
                (3, Value::Varint(other)) => self.model_type = ModelType::Other(other),
                (35, Value::Varint(flag)) => self.byte_fallback = flag != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn normalizer(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut fields = Fields::new(bytes, offset);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (2, Value::Bytes(table, _)) => self.charsmap = table.to_vec(),
                (3, Value::Varint(flag)) => self.add_dummy_prefix = flag != 0,
                (4, Value::Varint(flag)) => self.remove_extra_whitespaces = flag != 0,
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks what SentencePiece checks, too.
    fn check(&self) -> Result<()> {
        if self.pieces.is_empty() {
            return Err(Error::corrupt("the file has no pieces")
                .expected("a model of SentencePiece")
                .help("copy the file again; a small text file is a pointer of Git LFS: fetch it"));
        }
        let mut texts = HashSet::with_capacity(self.pieces.len());
        match self.pieces.iter().position(|piece| !texts.insert(piece.text.as_str())) {
            Some(id) => Err(Error::corrupt("two pieces have the same text")
                .field(piece_field(id))
                .found(format!("'{}'", self.pieces.get(id).map_or("", |piece| &piece.text).escape_debug()))),
            None => Ok(()),
        }
    }

    /// Returns the bytes of a file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut file = Message::default();
        for piece in &self.pieces {
            let mut message = Message::default();
            message.bytes(1, piece.text.as_bytes()).float(2, piece.score);
            if piece.piece_type != TokenType::Normal {
                message.varint(3, piece.piece_type as u64);
            }
            file.bytes(1, &message.0);
        }
        let mut trainer = Message::default();
        let number = match self.model_type {
            ModelType::Unigram => 1,
            ModelType::Bpe => 2,
            ModelType::Other(number) => number,
        };
        trainer.varint(3, number).varint(4, self.pieces.len() as u64).varint(35, self.byte_fallback.into());
        let mut normalizer = Message::default();
        if !self.charsmap.is_empty() {
            normalizer.bytes(2, &self.charsmap);
        }
        normalizer.varint(3, self.add_dummy_prefix.into()).varint(4, self.remove_extra_whitespaces.into());
        file.bytes(2, &trainer.0).bytes(3, &normalizer.0);
        file.0
    }
}

fn piece_field(id: usize) -> String {
    format!("piece {id}")
}

fn piece(bytes: &[u8], offset: u64) -> Result<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, piece_type: TokenType::Normal };
    let mut fields = Fields::new(bytes, offset);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(text, start)) => {
                let text = str::from_utf8(text);
                piece.text =
                    text.map_err(|_| Error::corrupt("a piece is not UTF-8").offset(start))?.to_owned();
            }
            (2, Value::Fixed32(bits)) => piece.score = f32::from_bits(bits),
            (3, Value::Varint(number)) => {
                let known = i64::try_from(number).ok().and_then(TokenType::from_number);
                piece.piece_type = known.ok_or_else(|| {
                    Error::corrupt("a piece has an unknown type")
                        .offset(offset)
                        .found(number.to_string())
                        .expected("a type from 1 to 6")
                })?;
            }
            _ => {}
        }
    }
    Ok(piece)
}
