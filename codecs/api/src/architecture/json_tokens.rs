//! Counts the tokens of a JSON text.

/// Returns the number of strings, numbers, words, brackets, colons and commas. Where the text is no JSON, returns some
/// number.
pub(super) fn count(json: &str) -> u64 {
    let (mut count, mut inside) = (0, Inside::Space);
    for byte in json.bytes() {
        inside = match (inside, byte) {
            (Inside::Text, b'\\') => Inside::Escape,
            (Inside::Text, b'"') => Inside::Space,
            (Inside::Text | Inside::Escape, _) => Inside::Text,
            (_, b' ' | b'\t' | b'\n' | b'\r') => Inside::Space,
            (_, b'{' | b'}' | b'[' | b']' | b':' | b',') => {
                count += 1;
                Inside::Space
            }
            (_, b'"') => {
                count += 1;
                Inside::Text
            }
            (Inside::Word, _) => Inside::Word,
            (Inside::Space, _) => {
                count += 1;
                Inside::Word
            }
        };
    }
    count
}

/// What the last byte was part of.
#[derive(Clone, Copy)]
enum Inside {
    /// Nothing that goes on.
    Space,
    /// A number or a word.
    Word,
    Text,
    /// A string, after a backslash.
    Escape,
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn a_token_is_a_string_a_word_or_a_sign() {
        for (json, tokens) in [
            ("", 0),
            (" \n\t", 0),
            ("[]", 2),
            ("-1.5e3", 1),
            ("true false", 2),
            (r#"{"a": [1, null], "b,:[": "\"]\\"}"#, 13),
            (r#""never closed, [["#, 1),
        ] {
            assert_eq!(count(json), tokens, "{json}");
        }
    }
}
