//! A token of the vocabulary, as GGUF stores it.

/// The numbers of `tokenizer.ggml.token_type`, which are those of SentencePiece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum TokenType {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

impl TokenType {
    /// Returns the type with this number.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        use TokenType::*;
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|kind| *kind as i64 == number)
    }
}

/// A token, at the position of its id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) token_type: TokenType,
    /// Larger is earlier. 0 for kinds without scores.
    pub(crate) score: f32,
}

/// The score of an added token.
pub(crate) const ADDED_SCORE: f32 = -1000.0;
/// The score of an id without a token.
pub(crate) const PADDING_SCORE: f32 = -10000.0;

impl Token {
    /// The token of an id that has none.
    pub(crate) fn padding(id: usize) -> Self {
        Token { text: format!("[PAD{id}]"), token_type: TokenType::Unused, score: PADDING_SCORE }
    }

    /// Whether this is what [`Token::padding`] returns for the id.
    pub(crate) fn is_padding(&self, id: usize) -> bool {
        let number = self.text.strip_prefix("[PAD").and_then(|rest| rest.strip_suffix(']'));
        self.token_type == TokenType::Unused && number.is_some_and(|number| number == id.to_string())
    }
}
