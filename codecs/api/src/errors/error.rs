//! The one error type: a kind, and the place where it was found.

use super::setting::Vocabulary;
use super::text::Text;
use crate::text;
use std::borrow::Cow;
use std::fmt;

/// What every fallible function of the project returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of problem an [`Error`] is; callers branch on it and the command line derives its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kind {
    /// The input's bytes break the rules of its format.
    Corrupt,
    /// The input is valid, but has something that is not supported.
    Unsupported,
    /// A configured limit ([`crate::Limits`]) or the memory budget was exceeded.
    Limit,
    /// The target cannot hold something that changes what the model computes.
    Lossy,
    /// The name mapping is wrong: an unused, missing or colliding name.
    Mapping,
    /// Two checkpoints, or an output and its source, differ although they must agree.
    Mismatch,
    /// The caller asked for something impossible: an unknown option, an existing output.
    Usage,
    /// The operating system, or a store, refused.
    Io,
    /// The program or a codec broke one of its own rules: not the fault of any input.
    Defect,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Corrupt => "corrupt input",
            Kind::Unsupported => "unsupported",
            Kind::Limit => "limit exceeded",
            Kind::Lossy => "lossy conversion",
            Kind::Mapping => "name mapping",
            Kind::Mismatch => "mismatch",
            Kind::Usage => "usage",
            Kind::Io => "input/output",
            Kind::Defect => "internal error",
        })
    }
}

/// Which file, offset, field or tensor; what was found; what was expected; what to do next.
///
/// Texts may name a [`Setting`](crate::Setting), which [`text!`](crate::text) joins to them. They show it in the words
/// of the library, until [`Error::in_words`] or [`Error::text_in`] chooses others.
///
/// ```
/// use ckpt_api::{Error, Kind};
/// let error = Error::corrupt("the file is cut short")
///     .file("model.nn")
///     .offset(16)
///     .found("3 bytes")
///     .expected("4 bytes")
///     .help("copy the file again");
/// assert_eq!(error.kind(), Kind::Corrupt);
/// assert_eq!(
///     error.to_string(),
///     "the file is cut short (file model.nn, offset 16): found 3 bytes, expected 4 bytes; copy the file again"
/// );
/// ```
pub struct Error(Box<Details>);

struct Details {
    kind: Kind,
    message: Text,
    file: Option<String>,
    offset: Option<u64>,
    field: Option<Text>,
    tensor: Option<String>,
    found: Option<Text>,
    expected: Option<Text>,
    help: Option<Text>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Everything in an [`Error`] beside its message, typed.
///
/// ```
/// let error = ckpt_api::Error::corrupt("the magic number is wrong").file("model.nn").offset(0);
/// assert_eq!((error.context().file, error.context().offset), (Some("model.nn"), Some(0)));
/// assert_eq!(error.context().tensor, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The file, as people should see it.
    pub file: Option<&'a str>,
    /// The byte in the file.
    pub offset: Option<u64>,
    /// The field, key or option.
    pub field: Option<&'a str>,
    /// The tensor's name.
    pub tensor: Option<&'a str>,
    /// What was found.
    pub found: Option<&'a str>,
    /// What was expected.
    pub expected: Option<&'a str>,
    /// What to do next.
    pub help: Option<&'a str>,
}

/// The texts of an [`Error`], which may name settings.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ErrorTexts<'a> {
    /// What went wrong.
    pub message: &'a Text,
    /// The field, key or option.
    pub field: Option<&'a Text>,
    /// What was found.
    pub found: Option<&'a Text>,
    /// What was expected.
    pub expected: Option<&'a Text>,
    /// What to do next.
    pub help: Option<&'a Text>,
}

impl<'a> Context<'a> {
    /// What is known, as (label, text) pairs in the order in which people should see them.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> + use<'a> {
        let borrowed = |text: Option<&'a str>| text.map(Cow::Borrowed);
        let pairs = [
            ("file", borrowed(self.file)),
            ("offset", self.offset.map(|offset| Cow::Owned(offset.to_string()))),
            ("field", borrowed(self.field)),
            ("tensor", borrowed(self.tensor)),
            ("found", borrowed(self.found)),
            ("expected", borrowed(self.expected)),
            ("help", borrowed(self.help)),
        ];
        pairs.into_iter().filter_map(|(label, text)| Some((label, text?)))
    }
}

/// As it follows a message: ` (file m.nn, offset 3): found 1, expected 2; copy it again`.
impl fmt::Display for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut places, mut tail, mut help) = (Vec::new(), Vec::new(), None);
        for (label, text) in self.pairs() {
            match label {
                "found" | "expected" => tail.push(format!("{label} {text}")),
                "help" => help = Some(text),
                _ => places.push(format!("{label} {text}")),
            }
        }
        if !places.is_empty() {
            write!(f, " ({})", places.join(", "))?;
        }
        if !tail.is_empty() {
            write!(f, ": {}", tail.join(", "))?;
        }
        help.map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl Error {
    /// An error of `kind` with this `message`; add the place with the methods below.
    pub fn new(kind: Kind, message: impl Into<Text>) -> Self {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            file: None,
            offset: None,
            field: None,
            tensor: None,
            found: None,
            expected: None,
            help: None,
            source: None,
        }))
    }

    /// [`Kind::Corrupt`].
    pub fn corrupt(message: impl Into<Text>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// [`Kind::Unsupported`].
    pub fn unsupported(message: impl Into<Text>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// [`Kind::Limit`].
    pub fn limit(message: impl Into<Text>) -> Self {
        Self::new(Kind::Limit, message)
    }

    /// [`Kind::Lossy`].
    pub fn lossy(message: impl Into<Text>) -> Self {
        Self::new(Kind::Lossy, message)
    }

    /// [`Kind::Mapping`].
    pub fn mapping(message: impl Into<Text>) -> Self {
        Self::new(Kind::Mapping, message)
    }

    /// [`Kind::Mismatch`].
    pub fn mismatch(message: impl Into<Text>) -> Self {
        Self::new(Kind::Mismatch, message)
    }

    /// [`Kind::Usage`].
    pub fn usage(message: impl Into<Text>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// [`Kind::Io`], keeping the operating system's error as the source.
    pub fn io(message: impl Into<Text>, source: std::io::Error) -> Self {
        let error = Self::new(Kind::Io, message).found(source.to_string());
        let error = if lacks_handles(&source) { error.help(MORE_HANDLES) } else { error };
        error.caused_by(source)
    }

    /// Whether the system found nothing of the name that it was asked for.
    pub fn is_missing(&self) -> bool {
        let source = self.0.source.as_ref().and_then(|source| source.downcast_ref::<std::io::Error>());
        source.is_some_and(|source| source.kind() == std::io::ErrorKind::NotFound)
    }

    /// Whether the process, or the system, may not open more files at once.
    pub fn is_out_of_handles(&self) -> bool {
        let source = self.0.source.as_ref().and_then(|source| source.downcast_ref::<std::io::Error>());
        source.is_some_and(lacks_handles)
    }

    /// [`Kind::Defect`]: asks for a report.
    pub fn defect(message: impl Into<Text>) -> Self {
        Self::new(Kind::Defect, message)
    }

    /// Keeps the error that caused this one, for [`std::error::Error::source`].
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Names the file; the first caller, who is nearest to the cause, wins.
    #[must_use]
    pub fn file(mut self, file: impl Into<String>) -> Self {
        self.0.file.get_or_insert_with(|| file.into());
        self
    }

    /// Names the byte offset in the file.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Names the field, key or option.
    #[must_use]
    pub fn field(mut self, field: impl Into<Text>) -> Self {
        self.0.field.get_or_insert_with(|| field.into());
        self
    }

    /// Names the tensor.
    #[must_use]
    pub fn tensor(mut self, tensor: impl Into<String>) -> Self {
        self.0.tensor.get_or_insert_with(|| tensor.into());
        self
    }

    /// Sets what was found.
    #[must_use]
    pub fn found(mut self, found: impl Into<Text>) -> Self {
        self.0.found.get_or_insert_with(|| found.into());
        self
    }

    /// Sets what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<Text>) -> Self {
        self.0.expected.get_or_insert_with(|| expected.into());
        self
    }

    /// Sets what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<Text>) -> Self {
        self.0.help.get_or_insert_with(|| help.into());
        self
    }

    /// The same error, whose help is what `reword` makes of it.
    #[must_use]
    pub fn with_help<T: Into<Text>>(mut self, reword: impl FnOnce(Text) -> T) -> Self {
        self.0.help = self.0.help.map(|help| reword(help).into());
        self
    }

    /// The same error, which names settings as `words` does from now on.
    ///
    /// ```
    /// use ckpt_api::{Error, LibraryWords, Setting, text};
    /// let error = Error::usage("the names differ").help(text!["rename tensors with ", Setting::MAPPING]);
    /// assert_eq!(error.in_words(&LibraryWords).context().help, Some("rename tensors with `Mapping`"));
    /// ```
    #[must_use]
    pub fn in_words(mut self, words: &dyn Vocabulary) -> Self {
        let Details { message, field, found, expected, help, .. } = &mut *self.0;
        let texts = [field, found, expected, help].into_iter().flatten();
        [message].into_iter().chain(texts).for_each(|text| text.settle(words));
        self
    }

    /// What the error displays, with settings named as `words` does.
    pub fn text_in(&self, words: &dyn Vocabulary) -> String {
        self.quoted().in_words(words).into_owned()
    }

    /// What the error displays, for a text of another error: its settings are named when the other's are.
    pub fn quoted(&self) -> Text {
        let Details { message, file, offset, field, tensor, found, expected, help, .. } = &*self.0;
        let labeled = |label: &str, text: Option<Text>| text.map(|text| text![label, " ", text]);
        let places = [
            labeled("file", file.as_ref().map(Text::from)),
            labeled("offset", offset.map(|offset| offset.to_string().into())),
            labeled("field", field.clone()),
            labeled("tensor", tensor.as_ref().map(Text::from)),
        ];
        let facts = [labeled("found", found.clone()), labeled("expected", expected.clone())];
        let mut text = message.clone();
        if places.iter().any(Option::is_some) {
            text = text![text, " (", Text::join(places.into_iter().flatten(), ", "), ")"];
        }
        if facts.iter().any(Option::is_some) {
            text = text![text, ": ", Text::join(facts.into_iter().flatten(), ", ")];
        }
        match help {
            Some(help) => text![text, "; ", help.clone()],
            None => text,
        }
    }

    /// A copy without what caused it: for what is found once and reported several times.
    #[must_use]
    pub fn without_cause(&self) -> Self {
        let Details { kind, message, file, offset, field, tensor, found, expected, help, source: _ } =
            &*self.0;
        Error(Box::new(Details {
            kind: *kind,
            message: message.clone(),
            file: file.clone(),
            offset: *offset,
            field: field.clone(),
            tensor: tensor.clone(),
            found: found.clone(),
            expected: expected.clone(),
            help: help.clone(),
            source: None,
        }))
    }

    /// Returns the texts of the error, in which settings are still to be named.
    pub fn texts(&self) -> ErrorTexts<'_> {
        let Details { message, field, found, expected, help, .. } = &*self.0;
        ErrorTexts {
            message,
            field: field.as_ref(),
            found: found.as_ref(),
            expected: expected.as_ref(),
            help: help.as_ref(),
        }
    }

    /// The sort of problem.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What went wrong, in one sentence without its place.
    pub fn message(&self) -> &str {
        self.0.message.as_str()
    }

    /// The place and the remedy.
    pub fn context(&self) -> Context<'_> {
        fn shown(text: &Option<Text>) -> Option<&str> {
            text.as_deref()
        }
        let details = &*self.0;
        Context {
            file: details.file.as_deref(),
            offset: details.offset,
            field: shown(&details.field),
            tensor: details.tensor.as_deref(),
            found: shown(&details.found),
            expected: shown(&details.expected),
            help: shown(&details.help),
        }
    }
}

const MORE_HANDLES: &str =
    "the process may not have more files open at once: raise its limit, such as with `ulimit -n 4096`";

/// Whether a call failed because too many files are open.
fn lacks_handles(error: &std::io::Error) -> bool {
    /// `ENFILE` and `EMFILE`; `ERROR_TOO_MANY_OPEN_FILES`.
    const CODES: &[i32] = if cfg!(windows) { &[4] } else { &[23, 24] };
    error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message(), self.context())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.kind()).field("message", &self.message());
        for (label, text) in self.context().pairs() {
            shown.field(label, &text);
        }
        shown.field("source", &self.0.source).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    #[test]
    fn the_place_nearest_to_the_cause_wins() {
        let error = Error::corrupt("x").file("inner").file("outer");
        assert_eq!(error.context(), Context { file: Some("inner"), ..Context::default() });
    }

    /// Every setting is called by this name.
    #[derive(Debug)]
    struct Called(&'static str);

    impl Vocabulary for Called {
        fn words(&self, _: &str, _: &str) -> Option<String> {
            Some(self.0.to_owned())
        }
    }

    fn naming() -> Error {
        let text = |word: &str| text![word, " ", Setting::EXCLUDE];
        Error::usage(text("m")).field(text("f")).found(text("a")).expected(text("b")).help(text("h"))
    }

    #[test]
    fn every_text_of_an_error_names_settings_in_the_words_that_were_chosen_first() {
        let says =
            |name: &str| format!("m {name} (field f {name}): found a {name}, expected b {name}; h {name}");
        assert_eq!(naming().to_string(), says("`Conversion::exclude`"));
        assert_eq!(naming().text_in(&Called("--exclude")), says("--exclude"));
        let error = naming().in_words(&Called("--exclude")).in_words(&Called("late"));
        assert_eq!(
            (error.to_string(), error.text_in(&Called("late"))),
            (says("--exclude"), says("--exclude"))
        );
        assert_eq!((error.message(), error.context().help), ("m --exclude", Some("h --exclude")));
    }

    #[test]
    fn an_error_within_an_error_names_settings_as_the_outer_one_does() {
        let outer = || Error::defect("x").found(naming().quoted());
        assert!(outer().to_string().contains("; h `Conversion::exclude`"), "{}", outer());
        let outer = outer().in_words(&Called("--exclude")).to_string();
        assert!(outer.contains("h --exclude") && !outer.contains("Conversion"), "{outer}");
    }

    #[test]
    fn help_that_is_reworded_keeps_its_settings() {
        let error = naming().with_help(|help| text![help, "!"]);
        assert_eq!(error.context().help, Some("h `Conversion::exclude`!"));
        assert_eq!(error.in_words(&Called("--exclude")).context().help, Some("h --exclude!"));
    }

    #[test]
    fn a_debug_output_shows_words() {
        let shown = format!("{:?}", naming());
        assert!(shown.contains("`Conversion::exclude`"), "{shown}");
    }

    #[cfg(unix)]
    #[test]
    fn too_many_open_files_are_told_with_the_way_out() {
        let error = |code| Error::io("cannot open", std::io::Error::from_raw_os_error(code));
        assert!(
            error(24).is_out_of_handles() && error(24).to_string().contains("ulimit -n"),
            "{}",
            error(24)
        );
        assert!(error(2).is_missing() && !error(2).is_out_of_handles() && !error(24).is_missing());
    }

    #[test]
    fn an_io_error_keeps_its_source_and_says_it() {
        let error = Error::io("cannot open", std::io::Error::other("boom"));
        assert_eq!(error.kind(), Kind::Io);
        assert!(std::error::Error::source(&error).is_some());
        assert!(error.to_string().contains("boom"));
    }
}
