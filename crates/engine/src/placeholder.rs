//! Texts in the place of files: pointers of version control, and answers of servers that were saved under the name of
//! what was asked for.

use ckpt_api::{Error, File, Input, Kind, Result};
use serde_json::{Map, Value};

/// Bytes of a file that show whether it is text.
const FIRST: u64 = 64;
/// Most bytes of a file that are looked at.
const LOOKED_AT: u64 = 64 << 10;
/// Bytes of the longest file that is looked at before its bytes are read as numbers.
const LONGEST: u64 = 1 << 20;
/// Characters of an answer that an error shows.
const SHOWN: usize = 200;
/// Keys of the JSON that servers answer with.
const ANSWERS: [&str; 8] =
    ["error", "errors", "message", "detail", "error_description", "error_message", "Message", "msg"];

/// Explains an error by a text in the place of one of the files that were opened, if there is one: first by the file that
/// the error names.
pub(crate) fn explain(error: Error, input: &Input) -> Error {
    // A file that is missing may be one that only a whole checkpoint has beside it.
    if error.kind() == Kind::Defect || is_failure(&error) {
        return error;
    }
    let mut names = input.opened();
    if input.is_file() && !names.iter().any(|name| name == input.entry()) {
        names.push(input.entry().to_owned());
    }
    let named = error.context().file.map(str::to_owned);
    let is_named = |name: &String| named.as_deref() == Some(&*input.display(name));
    let knows_file = names.iter().any(is_named);
    names.sort_by_key(|name| !is_named(name));
    for name in &names {
        let file = match input.file(name) {
            Ok(file) => file,
            Err(error) if is_failure(&error) => return error,
            Err(_) => continue,
        };
        let is_suspect = !knows_file || is_named(name);
        match error_for(&file, is_suspect) {
            Ok(Some(found)) => return found,
            Err(error) if is_failure(&error) => return error,
            _ => {}
        }
        if is_suspect && file.is_empty() && is_plain(&error) {
            return Error::corrupt("the file is empty")
                .file(file.name())
                .help("make it again, or copy it again");
        }
    }
    error
}

/// Explains the error of parsing a file: a text in the place of the file, such as a pointer of Git LFS, is named as that.
/// [`Source::open`](crate::source::Source::open) does the same for all files of a checkpoint.
///
/// ```
/// use ckpt::api::{Error, File};
/// let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";
/// let file = File::new(std::sync::Arc::new(pointer.to_vec()), "m.safetensors")?;
/// let error = ckpt::explain_file(Error::corrupt("the header is longer than the file"), &file);
/// assert_eq!(error.message(), "this is a Git LFS pointer, not the file itself");
/// # Ok::<(), ckpt::Error>(())
/// ```
pub fn explain_file(error: Error, file: &File) -> Error {
    match error.kind() {
        Kind::Io | Kind::Defect => error,
        _ => error_for(file, true).map_or_else(|failure| failure, |found| found.unwrap_or(error)),
    }
}

/// Whether an error says of an empty file no more than that bytes are missing.
fn is_plain(error: &Error) -> bool {
    error.kind() == Kind::Corrupt && !error.message().contains("empty")
}

/// Refuses a short file of numbers that is a text in the place of one.
///
/// # Errors
/// [`Kind::Corrupt`], naming the file and saying what it is.
pub(crate) fn refuse(file: &File) -> Result<()> {
    if file.len() > LONGEST {
        return Ok(());
    }
    error_for(file, false)?.map_or(Ok(()), Err)
}

/// Whether reading itself fails: that says more than what was read before.
fn is_failure(error: &Error) -> bool {
    error.kind() == Kind::Io && !error.is_missing()
}

/// The error for a file that is a text in the place of one. Texts that other files could be, too, count only in one that is
/// `suspect`.
///
/// # Errors
/// [`Kind::Io`].
fn error_for(file: &File, suspect: bool) -> Result<Option<Error>> {
    if !is_text(&file.bytes(0, file.len().min(FIRST))?) {
        return Ok(None);
    }
    let bytes = file.bytes(0, file.len().min(LOOKED_AT))?;
    Ok(recognize(file.name(), &bytes, file.len(), suspect).filter(|_| is_text(&bytes)).map(|found| {
        let error = Error::corrupt(format!("this is {}, not the file itself", found.what));
        let error = error.file(file.name()).help(found.help);
        if found.text.is_empty() { error } else { error.found(found.text) }
    }))
}

/// What a text is.
#[derive(Debug)]
struct Found {
    what: &'static str,
    /// What it says.
    text: String,
    help: &'static str,
}

/// What to do about an answer.
const AGAIN: &str = "download the file again, and look at what the server answers: the address may be wrong, or the file may \
                     need a login";

fn recognize(name: &str, start: &[u8], len: u64, suspect: bool) -> Option<Found> {
    let start = without_mark(start);
    let text = String::from_utf8_lossy(start);
    pointer(&text, len)
        .or_else(|| document(name, &text))
        .or_else(|| answer(start, len))
        .or_else(|| suspect.then(|| sentence(&text, len)).flatten())
}

/// Whether bytes may begin a text: numbers hardly do, and texts have no zeros.
fn is_text(start: &[u8]) -> bool {
    let is_first = without_mark(start).first().is_some_and(u8::is_ascii_graphic);
    is_first && !start.iter().take(FIRST as usize).any(|byte| *byte == 0)
}

/// A text without a byte order mark and the spaces that it begins with.
fn without_mark(start: &[u8]) -> &[u8] {
    start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start()
}

/// A pointer of Git LFS, git-annex or DVC.
fn pointer(text: &str, len: u64) -> Option<Found> {
    let first = text.lines().next()?;
    let number = |key: &str| {
        text.lines().find_map(|line| line.trim_start().strip_prefix(key)?.trim().parse::<u64>().ok())
    };
    let (what, size, help) = if first.starts_with("version http")
        && ["git-lfs", "hawser", "git-media"].iter().any(|program| first.contains(program))
    {
        ("a Git LFS pointer", number("size "), "fetch the file with `git lfs pull`")
    } else if let Some(key) = first.strip_prefix("/annex/objects/") {
        let size = key.split('-').find_map(|part| part.strip_prefix('s')?.parse().ok());
        ("a pointer of git-annex", size, "fetch the file with `git annex get`")
    } else if ["outs:", "md5:", "wdir:"].iter().any(|key| first.starts_with(key))
        && ["md5:", "path:"].iter().all(|key| text.contains(key))
    {
        let help = "fetch the file with `dvc pull`, and name the file itself";
        ("a pointer of DVC", number("size:"), help)
    } else {
        return None;
    };
    let size = size.map_or_else(|| "another file".to_owned(), |size| format!("a file of {size} bytes"));
    let text = format!("{} of text that stand for {size}", ckpt_api::count(len, "byte"));
    Some(Found { what, text, help })
}

/// A page of HTML, or a document in XML.
fn document(name: &str, text: &str) -> Option<Found> {
    let is_named = |endings: &[&str]| {
        endings
            .iter()
            .any(|ending| name.rsplit_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(ending)))
    };
    if !text.starts_with('<') || is_named(&["html", "htm", "xhtml", "xml"]) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    const BEGIN: [&str; 8] =
        ["<!doctype html", "<html", "<head", "<body", "<title", "<script", "<meta", "<h1"];
    let begins = |starts: &[&str]| starts.iter().any(|start| lower.starts_with(start));
    let is_page = begins(&BEGIN) || (begins(&["<!--", "<?xml", "<!doctype"]) && lower.contains("<html"));
    if is_page {
        let title = within(text, &lower, "title").map(|title| format!("the title {}", quoted(title)));
        return Some(Found { what: "an HTML page", text: title.unwrap_or_default(), help: AGAIN });
    }
    begins(&["<?xml", "<error", "<!--"]).then(|| {
        let parts = ["code", "message"].iter().filter_map(|tag| within(text, &lower, tag));
        let said: Vec<&str> = parts.collect();
        let text = if said.is_empty() { String::new() } else { quoted(&said.join(": ")) };
        Found { what: "an answer of a server in XML", text, help: AGAIN }
    })
}

/// What is between the first tags of this lowercase name. `lower` is the text in lowercase letters.
fn within<'t>(text: &'t str, lower: &str, tag: &str) -> Option<&'t str> {
    let open = lower.find(&format!("<{tag}"))?;
    let start = open + lower.get(open..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find('<')?;
    text.get(start..end).map(str::trim).filter(|text| !text.is_empty())
}

/// An answer in JSON: an object that has little more than an error.
fn answer(start: &[u8], len: u64) -> Option<Found> {
    if start.first() != Some(&b'{') || len > LOOKED_AT {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_slice(start).ok()?;
    let said = ANSWERS.iter().find_map(|key| message(object.get(*key)?))?;
    let is_answer = object.len() <= 12;
    is_answer.then(|| Found { what: "an answer of a server in JSON", text: quoted(said), help: AGAIN })
}

/// The words of an error in JSON: a text, or the text in an object or in a list of them.
fn message(value: &Value) -> Option<&str> {
    let mut value = value;
    // As deep as the answers of known servers are.
    for _ in 0..3 {
        value = match value {
            Value::String(text) => return Some(text),
            Value::Array(list) => list.first()?,
            Value::Object(object) => {
                ["message", "detail", "msg", "reason", "title"].iter().find_map(|key| object.get(*key))?
            }
            _ => return None,
        };
    }
    value.as_str()
}

/// A line of words, as `404: Not Found` is.
fn sentence(text: &str, len: u64) -> Option<Found> {
    let line = text.trim_end();
    let is_line = len <= SHOWN as u64
        && (line.contains(' ') || ["Forbidden", "Unauthorized"].contains(&line))
        && line.chars().all(|c| c.is_alphanumeric() || " .,:;!?'/()-_".contains(c))
        && line.contains(|c: char| c.is_ascii_lowercase());
    is_line.then(|| Found { what: "a line of text", text: quoted(line), help: AGAIN })
}

fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("'{}…'", &line[..end]),
        None => format!("'{line}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const LFS: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n";

    fn of(text: &str, suspect: bool) -> Option<String> {
        let file = File::new(Arc::new(text.as_bytes().to_vec()), "m.pt").unwrap();
        error_for(&file, suspect).unwrap().map(|error| error.to_string())
    }

    #[test]
    fn a_text_in_place_of_a_file_is_named_with_what_it_says() {
        for (text, says) in [
            (
                LFS,
                &[
                    "a Git LFS pointer",
                    "73 bytes of text that stand for a file of 12345678 bytes",
                    "lfs pull",
                ][..],
            ),
            (
                "version https://hawser.github.com/spec/v1\r\noid sha256:00\r\nsize 7\r\n",
                &["Git LFS", "of 7 bytes"],
            ),
            ("/annex/objects/SHA256E-s42--00.pt\n", &["git-annex", "of 42 bytes", "git annex get"]),
            ("outs:\n- md5: 00\n  size: 42\n  path: m.pt\n", &["DVC", "of 42 bytes", "dvc pull"]),
            (
                "\u{feff}\n<!DOCTYPE html>\n<html><title>Not\nfound</title></html>",
                &["an HTML page", "title 'Not found'"],
            ),
            ("<HTML><body>403</body></HTML>", &["an HTML page"]),
            ("<?xml version='1.0'?><html xmlns='x'></html>", &["an HTML page"]),
            (
                "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>",
                &["in XML", "'AccessDenied: no'"],
            ),
            ("<Error><Code>NoSuchKey</Code></Error>", &["in XML", "'NoSuchKey'"]),
            ("{\"error\":\"Repository not found\"}", &["in JSON", "'Repository not found'"]),
            ("{\"error\":{\"code\":403,\"message\":\"no\"}}", &["in JSON", "'no'"]),
            ("{\"errors\":[{\"message\":\"Not Found\"}],\"data\":null}", &["in JSON", "'Not Found'"]),
        ] {
            let found = of(text, false).unwrap_or_else(|| panic!("{text}"));
            assert!(says.iter().all(|says| found.contains(says)), "{found}");
            assert!(found.contains("not the file itself") && found.contains("file m.pt"), "{found}");
        }
        for text in ["Entry not found", "404: Not Found", "Invalid username or password.", "Forbidden\n"] {
            assert!(of(text, true).unwrap().contains("a line of text"), "{text}");
            assert_eq!(of(text, false), None, "{text}");
        }
    }

    #[test]
    fn other_files_are_what_they_are() {
        for text in [
            "",
            " ",
            "{\"weight_map\":{\"error\":\"m.safetensors\"}}",
            "{\"error\":1.5}",
            "model_checkpoint_path: \"ckpt-1\"\n",
            "global_step1000",
            "\0\0\0\0<html>",
            "a,b\n1,2 3\n",
        ] {
            assert_eq!(of(text, true), None, "{text}");
        }
        let floats: Vec<u8> = (0..64u8).flat_map(|k| (f32::from(k) / 7.0).to_le_bytes()).collect();
        assert!(recognize("w", &floats, 256, true).is_none());
        assert!(recognize("page.html", b"<!DOCTYPE html>", 15, true).is_none());
        assert!(recognize("net.xml", b"<?xml version='1.0'?><net/>", 27, true).is_none());
    }

    #[test]
    fn what_an_answer_says_is_cut_where_nobody_reads_on() {
        let long = format!("{{\"error\":\"{}\"}}", "é\\u001b".repeat(1000));
        let found = of(&long, false).unwrap();
        assert!(found.chars().count() < 600 && found.contains('…'), "{found}");
    }

    #[test]
    fn an_error_is_explained_by_the_file_that_it_names_before_others() {
        let files = [("a", LFS), ("b", "{\"error\":\"gone\"}"), ("c", "weights"), ("d", "")];
        let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
        let input = Input::memory("c", BTreeMap::from(files)).remembering();
        let explained = |name: &str| explain(Error::corrupt("cut short").file(name), &input).to_string();
        assert!(explained("c").starts_with("cut short"));
        for name in ["a", "b", "c", "d"] {
            input.file(name).unwrap();
        }
        assert!(explained("b").contains("in JSON, not the file itself (file b)"), "{}", explained("b"));
        assert!(
            explained("c").contains("Git LFS pointer, not the file itself (file a)"),
            "{}",
            explained("c")
        );
        assert!(explained("d").starts_with("the file is empty (file d)"), "{}", explained("d"));
        let io = explain(Error::io("cannot open", std::io::Error::other("x")), &input);
        assert_eq!(io.kind(), Kind::Io);
    }
}
