//! The state file `checkpoint`: a protobuf text message that names the latest checkpoint of its directory.

use ckpt_api::{Error, File, Result};

/// Limit on the length of a state file, far above what the names of a directory's checkpoints take.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the path of the latest checkpoint, as written in the state file.
pub(crate) fn latest(file: &File) -> Result<String> {
    if file.len() > MAX_BYTES {
        return Err(Error::limit("the state file is too long")
            .file(file.name())
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(format!("at most {MAX_BYTES}")));
    }
    let bytes = file.bytes(0, file.len())?;
    let invalid = || {
        Error::corrupt("the file 'checkpoint' does not name the latest checkpoint")
            .file(file.name())
            .expected("model_checkpoint_path: \"…\"")
            .help("pass the checkpoint itself: its PREFIX or PREFIX.index")
    };
    let path = String::from_utf8(parse(&bytes).ok_or_else(invalid)?).map_err(|_| invalid())?;
    if path.is_empty() { Err(invalid()) } else { Ok(path) }
}

/// Encodes a state file that names one checkpoint, as TensorFlow writes it, but without time stamps.
pub(crate) fn encode(prefix: &str) -> Vec<u8> {
    let quoted = quoted(prefix);
    format!("model_checkpoint_path: \"{quoted}\"\nall_model_checkpoint_paths: \"{quoted}\"\n").into_bytes()
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\'' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out
}

/// Normalizes a path relative to the state file's directory. Returns `None` for an absolute path and for one that
/// leaves the directory.
pub(crate) fn relative(path: &str) -> Option<String> {
    if path.starts_with(['/', '\\']) || path.get(1..2) == Some(":") {
        return None;
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Returns the last component of a path of any operating system.
pub(crate) fn file_name(path: &str) -> Option<&str> {
    let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

/// Parses the value of `model_checkpoint_path` at the top level: the last one, if it is repeated.
fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let mut tokens = Tokens { rest: text };
    let (mut depth, mut field, mut found) = (0u32, false, None);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Word(word) => field = depth == 0 && word == b"model_checkpoint_path",
            Token::Mark(b':') => {}
            Token::Mark(b'{' | b'<' | b'[') => (depth, field) = (depth.checked_add(1)?, false),
            Token::Mark(b'}' | b'>' | b']') => (depth, field) = (depth.checked_sub(1)?, false),
            Token::Mark(_) => field = false,
            Token::Text(text) if field => {
                let mut whole = text;
                // Adjacent literals are concatenated.
                while let Some(more) = tokens.text()? {
                    whole.extend(more);
                }
                (found, field) = (Some(whole), false);
            }
            Token::Text(_) => {}
        }
    }
    found.filter(|_| depth == 0)
}

enum Token<'a> {
    Word(&'a [u8]),
    Text(Vec<u8>),
    Mark(u8),
}

struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// Returns `Some(None)` at the end, and `None` for an invalid token.
    fn next(&mut self) -> Option<Option<Token<'a>>> {
        self.space();
        let token = match self.rest {
            [] => return Some(None),
            [b'"' | b'\'', ..] => Token::Text(self.text()??),
            [mark @ (b':' | b'{' | b'}' | b'<' | b'>' | b'[' | b']' | b',' | b';'), rest @ ..] => {
                self.rest = rest;
                Token::Mark(*mark)
            }
            _ => {
                let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.+-/".contains(byte);
                let len = self.rest.iter().take_while(|byte| word(byte)).count();
                let (word, rest) = self.rest.split_at_checked(len).filter(|(word, _)| !word.is_empty())?;
                self.rest = rest;
                Token::Word(word)
            }
        };
        Some(Some(token))
    }

    fn space(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if self.rest.first() != Some(&b'#') {
                return;
            }
            let line = self.rest.iter().take_while(|byte| **byte != b'\n').count();
            self.rest = self.rest.get(line..).unwrap_or_default();
        }
    }

    /// Reads a quoted string if one comes next. Returns `None` for an unterminated one.
    fn text(&mut self) -> Option<Option<Vec<u8>>> {
        self.space();
        let Some((quote, mut rest)) =
            self.rest.split_first().filter(|(byte, _)| matches!(byte, b'"' | b'\''))
        else {
            return Some(None);
        };
        let mut text = Vec::new();
        loop {
            let (byte, tail) = rest.split_first()?;
            rest = tail;
            match byte {
                byte if byte == quote => break,
                b'\n' => return None,
                b'\\' => text.push(escape(&mut rest)?),
                byte => text.push(*byte),
            }
        }
        self.rest = rest;
        Some(Some(text))
    }
}

fn escape(rest: &mut &[u8]) -> Option<u8> {
    let (byte, tail) = rest.split_first()?;
    *rest = tail;
    Some(match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'x' | b'X' => digits(rest, 16, 2)?,
        b'0'..=b'7' => {
            let first = byte - b'0';
            match rest.first() {
                Some(b'0'..=b'7') => octal(first, rest)?,
                _ => first,
            }
        }
        other => *other,
    })
}

fn octal(first: u8, rest: &mut &[u8]) -> Option<u8> {
    let mut value = u32::from(first);
    for _ in 0..2 {
        let Some((digit @ b'0'..=b'7', tail)) = rest.split_first() else { break };
        value = value * 8 + u32::from(digit - b'0');
        *rest = tail;
    }
    u8::try_from(value).ok()
}

fn digits(rest: &mut &[u8], radix: u32, most: usize) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(radix);
    let len = rest.iter().take(most).take_while(|byte| digit(byte).is_some()).count();
    let (text, tail) = rest.split_at_checked(len).filter(|(text, _)| !text.is_empty())?;
    *rest = tail;
    u8::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Option<String> {
        parse(text.as_bytes()).and_then(|path| String::from_utf8(path).ok())
    }

    #[test]
    fn the_latest_checkpoint_is_found_among_other_fields() {
        let text = "# written by hand\nmodel_checkpoint_path: \"ckpt-5\"\n\
                    all_model_checkpoint_paths: [\"ckpt-3\", 'ckpt-4']\nall_model_checkpoint_timestamps: 1.5e9\n\
                    extra { model_checkpoint_path: \"no\" }\n";
        assert_eq!(path(text).unwrap(), "ckpt-5");
    }

    #[test]
    fn escapes_and_adjacent_literals_are_read() {
        assert_eq!(path(r#"model_checkpoint_path: "a\"\x62\143\303\244" 'd'"#).unwrap(), "a\"bc\u{e4}d");
    }

    #[test]
    fn an_invalid_text_message_names_no_checkpoint() {
        for text in [
            "",
            "model_checkpoint_path",
            "model_checkpoint_path: \"a",
            "model_checkpoint_path: \"a\" }",
            "\u{1}",
        ] {
            assert_eq!(path(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_path_that_leaves_the_directory_is_not_relative_to_it() {
        assert_eq!(relative("./a/../b/c").unwrap(), "b/c");
        for outside in ["../a", "a/../../b", "/a", "C:\\a", "\\\\host\\a", ".", ""] {
            assert_eq!(relative(outside), None, "{outside}");
        }
        assert_eq!(file_name("C:\\run\\ckpt-1").unwrap(), "ckpt-1");
        assert_eq!(file_name("/a/../"), None);
    }

    #[test]
    fn a_written_state_file_names_its_checkpoint() {
        assert_eq!(
            String::from_utf8(encode("ckpt-1")).unwrap(),
            "model_checkpoint_path: \"ckpt-1\"\nall_model_checkpoint_paths: \"ckpt-1\"\n"
        );
        for prefix in ["a \"b\" 'c' \\d", "\u{e4}1\u{20ac}", "tab\tline\n\u{1}7"] {
            assert_eq!(path(std::str::from_utf8(&encode(prefix)).unwrap()).unwrap(), prefix);
        }
    }
}
