//! Texts that name settings.

use ckpt_api::{Segment, Setting, Text};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The form of a [`Text`]: a string for people, whose settings have the library's words; binary messages keep the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextForm(pub Vec<SegmentForm>);

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentForm {
    /// Words.
    Words(String),
    /// A setting.
    Setting {
        /// Its name.
        name: String,
        /// Its value; empty for the setting itself.
        value: String,
        /// What the library calls it, for a program that does not know the setting.
        words: String,
    },
}

impl From<&Text> for TextForm {
    fn from(text: &Text) -> Self {
        let segment = |segment: Segment<'_>| match segment {
            Segment::Words(words) => SegmentForm::Words(words.to_owned()),
            Segment::Setting { name, value, words } => SegmentForm::Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                words: words.to_owned(),
            },
        };
        TextForm(text.segments().into_iter().map(segment).collect())
    }
}

impl From<TextForm> for Text {
    fn from(form: TextForm) -> Self {
        let text = |segment| match segment {
            SegmentForm::Words(words) => Text::from(words),
            SegmentForm::Setting { name, value, words } => {
                match Setting::ALL.iter().find(|setting| setting.name() == name) {
                    Some(setting) => setting.of(&value),
                    None => Text::from(words),
                }
            }
        };
        form.0.into_iter().map(text).fold(Text::default(), Text::and)
    }
}

impl Serialize for TextForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.0.serialize(serializer);
        }
        let words = self.0.iter().map(|segment| match segment {
            SegmentForm::Words(words) | SegmentForm::Setting { words, .. } => words.as_str(),
        });
        serializer.serialize_str(&words.collect::<String>())
    }
}

impl<'de> Deserialize<'de> for TextForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => Ok(TextForm(vec![SegmentForm::Words(String::deserialize(deserializer)?)])),
            false => Vec::deserialize(deserializer).map(TextForm),
        }
    }
}
