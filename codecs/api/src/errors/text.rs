//! Texts as segments: words, and settings that each interface names in its own words.

use super::setting::{Setting, Vocabulary};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Deref;

/// A text that may name settings.
///
/// The macro [`text!`](crate::text) joins parts: strings, settings and other texts. A text cannot be formatted, because
/// `format!` would forget its settings. It reads as the library words it, until [`Text::in_words`] or [`Text::settle`]
/// chooses others.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// In the words of the library.
    shown: String,
    /// In order of their places; empty if the words are chosen.
    settings: Vec<Named>,
}

/// A piece of a [`Text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Words.
    Words(&'a str),
    /// A setting.
    Setting {
        /// Its name.
        name: &'a str,
        /// Its value; empty for the setting itself.
        value: &'a str,
        /// What the library calls it.
        words: &'a str,
    },
}

/// A setting in a text.
#[derive(Clone, Debug)]
struct Named {
    setting: Setting,
    value: String,
    /// The bytes of the text that are the library's words for it.
    start: usize,
    end: usize,
}

/// Joins parts to a [`Text`](crate::Text): strings, [settings](crate::Setting) and other texts.
///
/// ```
/// use ckpt_api::{Setting, text};
/// let name = "a";
/// let text = text![format!("rename {name} with "), Setting::MAPPING, ", or leave it out with ", Setting::EXCLUDE];
/// assert_eq!(text.as_str(), "rename a with `Mapping`, or leave it out with `Conversion::exclude`");
/// ```
#[macro_export]
macro_rules! text {
    ($($part:expr),+ $(,)?) => { $crate::Text::default()$(.and($part))+ };
}

impl Text {
    /// Returns the text, followed by another one.
    #[must_use]
    pub fn and(mut self, next: impl Into<Text>) -> Self {
        let Text { shown, settings } = next.into();
        let start = self.shown.len();
        self.shown.push_str(&shown);
        self.settings.extend(settings.into_iter().map(|named| Named {
            start: start + named.start,
            end: start + named.end,
            ..named
        }));
        self
    }

    /// Returns texts, one after the other, with `separator` in between.
    pub fn join(texts: impl IntoIterator<Item = Text>, separator: &str) -> Self {
        let mut texts = texts.into_iter();
        let first = texts.next().unwrap_or_default();
        texts.fold(first, |joined, next| joined.and(separator).and(next))
    }

    /// Returns the text in the words of the library.
    pub fn as_str(&self) -> &str {
        &self.shown
    }

    /// Returns the text in these words.
    pub fn in_words(&self, words: &dyn Vocabulary) -> Cow<'_, str> {
        if self.settings.is_empty() {
            return Cow::Borrowed(&self.shown);
        }
        let (mut text, mut done) = (String::new(), 0);
        for Named { setting, value, start, end } in &self.settings {
            text.push_str(self.shown.get(done..*start).unwrap_or_default());
            match words.words(setting.name(), value) {
                Some(words) => text.push_str(&words),
                None => text.push_str(self.shown.get(*start..*end).unwrap_or_default()),
            }
            done = *end;
        }
        text.push_str(self.shown.get(done..).unwrap_or_default());
        Cow::Owned(text)
    }

    /// Returns the words and the settings, in order.
    ///
    /// ```
    /// use ckpt_api::{Segment, Setting, text};
    /// let text = text!["try ", Setting::DTYPE.of("f32")];
    /// let setting = Segment::Setting { name: "dtype", value: "f32", words: "`Conversion::dtype` of f32" };
    /// assert_eq!(text.segments(), [Segment::Words("try "), setting]);
    /// ```
    pub fn segments(&self) -> Vec<Segment<'_>> {
        let (mut segments, mut done) = (Vec::new(), 0);
        let between = |range: std::ops::Range<usize>| {
            self.shown.get(range).filter(|words| !words.is_empty()).map(Segment::Words)
        };
        for Named { setting, value, start, end } in &self.settings {
            segments.extend(between(done..*start));
            let words = self.shown.get(*start..*end).unwrap_or_default();
            segments.push(Segment::Setting { name: setting.name(), value, words });
            done = *end;
        }
        segments.extend(between(done..self.shown.len()));
        segments
    }

    /// Chooses the words, from now on.
    pub fn settle(&mut self, words: &dyn Vocabulary) {
        if let Cow::Owned(text) = self.in_words(words) {
            *self = Text::from(text);
        }
    }
}

impl Setting {
    /// Returns the text that names the setting with this value; an empty one stands for the setting itself.
    pub fn of(self, value: &str) -> Text {
        let shown = self.in_library(value);
        let named = Named { setting: self, value: value.to_owned(), start: 0, end: shown.len() };
        Text { shown, settings: vec![named] }
    }
}

impl From<Setting> for Text {
    fn from(setting: Setting) -> Self {
        setting.of("")
    }
}

impl From<String> for Text {
    fn from(shown: String) -> Self {
        Text { shown, settings: Vec::new() }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::from(text.to_owned())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Text::from(text.clone())
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        Text::from(text.into_owned())
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.shown
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.shown
    }
}

/// Texts are compared as they read in the words of the library.
impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.shown.cmp(&other.shown)
    }
}

impl<T: AsRef<str> + ?Sized> PartialEq<&T> for Text {
    fn eq(&self, other: &&T) -> bool {
        self.shown == other.as_ref()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.shown == other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.shown == *other
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Text::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting as its name and value are written.
    #[derive(Debug)]
    struct Plain;

    impl Vocabulary for Plain {
        fn words(&self, setting: &str, value: &str) -> Option<String> {
            (setting != "mapping").then(|| format!("<{setting} {value}>"))
        }
    }

    #[test]
    fn every_setting_in_a_text_is_named_and_the_rest_stays() {
        let text = text![
            Setting::EXCLUDE,
            ", é ",
            Setting::DTYPE.of("f32"),
            Setting::MAPPING,
            " or :",
            Setting::INCLUDE
        ];
        assert_eq!(text.in_words(&Plain), "<exclude >, é <dtype f32>`Mapping` or :<include >");
        assert!(matches!(Text::from("as it is").in_words(&Plain), Cow::Borrowed("as it is")));
    }

    #[test]
    fn a_text_within_a_text_keeps_its_settings() {
        let inner = text!["give it with ", Setting::ARCHITECTURE];
        let text = text!["first: ", inner, "; then stop"];
        assert_eq!(text.as_str(), "first: give it with `OpenOptions::architecture`; then stop");
        assert_eq!(text.in_words(&Plain), "first: give it with <architecture >; then stop");
    }

    #[test]
    fn words_are_chosen_once() {
        let mut text = text!["set ", Setting::EXCLUDE];
        text.settle(&Plain);
        assert_eq!(
            (text.as_str(), text.in_words(&crate::LibraryWords)),
            ("set <exclude >", "set <exclude >".into())
        );
    }

    #[test]
    fn texts_are_joined_with_what_is_between_them() {
        let texts = ["a=1", "a=2"].map(|option| Setting::READ_OPTION.of(option));
        assert_eq!(Text::join(texts, " or ").in_words(&Plain), "<read-option a=1> or <read-option a=2>");
        assert_eq!(Text::join([], " or "), "");
    }
}
