//! Settings that texts name, and the words of each interface for them.
//!
//! An error that says "give it with --arch" is right on a command line and wrong in a library. A [`Text`](crate::Text)
//! therefore names a [`Setting`], and a [`Vocabulary`] says what an interface calls it:
//!
//! ```
//! use ckpt_api::{Error, Setting, text};
//! let error = Error::usage("the source does not describe its layers")
//!     .help(text!["describe them in an architecture file, given with ", Setting::ARCHITECTURE]);
//! assert!(error.to_string().ends_with("given with `OpenOptions::architecture`"));
//! ```

use crate::LossKind;
use std::fmt;

/// Something that a user sets, whatever the interface calls it.
///
/// A crate that has settings of its own defines them as constants.
///
/// ```
/// use ckpt_api::{Setting, text};
/// const DEPTH: Setting =
///     Setting::new("depth", "Options::depth").with_words(|value| format!("a depth of {value}"));
/// assert_eq!(text!["try ", DEPTH].as_str(), "try `Options::depth`");
/// assert_eq!(text!["try ", DEPTH.of("3")].as_str(), "try a depth of 3");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    name: &'static str,
    item: &'static str,
    words: Option<fn(&str) -> String>,
}

impl Setting {
    /// The architecture file.
    pub const ARCHITECTURE: Setting = Setting::new("architecture", "OpenOptions::architecture");
    /// An option for reading, as `key=value`.
    pub const READ_OPTION: Setting =
        Setting::new("read-option", "OpenOptions::option").with_words(the_option);
    /// An option for writing, as `key=value`.
    pub const WRITE_OPTION: Setting =
        Setting::new("write-option", "Conversion::option").with_words(the_option);
    /// A limit, as `name=value`.
    pub const LIMIT: Setting =
        Setting::new("limit", "Limits").with_words(|limit| match limit.split_once('=') {
            Some((name, value)) if !value.is_empty() => format!("the limit `{name}` of {value}"),
            Some((name, _)) => format!("the limit `{name}`"),
            None => format!("the limit `{limit}`"),
        });
    /// Losses that are accepted: names of kinds, separated by commas.
    pub const ALLOW: Setting = Setting::new("allow", "Conversion::allow").with_words(allowed);
    /// Patterns of the tensors to keep.
    pub const INCLUDE: Setting = Setting::new("include", "Conversion::include");
    /// Patterns of the tensors to leave out.
    pub const EXCLUDE: Setting = Setting::new("exclude", "Conversion::exclude");
    /// The mapping of names.
    pub const MAPPING: Setting = Setting::new("mapping", "Mapping");
    /// The dtype that floating-point weights become.
    pub const DTYPE: Setting = Setting::new("dtype", "Conversion::dtype")
        .with_words(|name| format!("`Conversion::dtype` of {name}"));
    /// The list of a checkpoint's tensors.
    pub const TENSOR_NAMES: Setting = Setting::new("tensor-names", "Source::tensors");
    /// A feature that the program is built with.
    pub const FEATURE: Setting =
        Setting::new("feature", "features").with_words(|name| format!("the feature `{name}`"));

    /// Every setting that this crate defines.
    pub const ALL: &'static [Setting] = &[
        Setting::ARCHITECTURE,
        Setting::READ_OPTION,
        Setting::WRITE_OPTION,
        Setting::LIMIT,
        Setting::ALLOW,
        Setting::INCLUDE,
        Setting::EXCLUDE,
        Setting::MAPPING,
        Setting::DTYPE,
        Setting::TENSOR_NAMES,
        Setting::FEATURE,
    ];

    /// Returns a setting: the name by which a [`Vocabulary`] knows it, and the library's item that sets it.
    pub const fn new(name: &'static str, item: &'static str) -> Self {
        Setting { name, item, words: None }
    }

    /// Returns the setting with the library's words for one of its values.
    #[must_use]
    pub const fn with_words(mut self, words: fn(&str) -> String) -> Self {
        self.words = Some(words);
        self
    }

    /// Returns the name by which a [`Vocabulary`] knows the setting.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the library's words.
    pub(super) fn in_library(self, value: &str) -> String {
        match self.words {
            Some(words) if !value.is_empty() => words(value),
            _ => format!("`{}`", self.item),
        }
    }
}

fn the_option(option: &str) -> String {
    format!("the option `{option}`")
}

fn allowed(kinds: &str) -> String {
    let kinds = kinds.split(',').map(|name| match LossKind::from_name(name) {
        Some(kind) => format!("`Conversion::allow(LossKind::{kind:?})`"),
        None => format!("`Conversion::allow` of {name}"),
    });
    kinds.collect::<Vec<_>>().join(" and ")
}

/// What an interface calls settings.
///
/// ```
/// use ckpt_api::{Setting, Vocabulary, text};
/// #[derive(Debug)]
/// struct Keywords;
/// impl Vocabulary for Keywords {
///     fn words(&self, setting: &str, value: &str) -> Option<String> {
///         match setting {
///             "dtype" => Some(format!("dtype={value:?}")),
///             _ => None,
///         }
///     }
/// }
/// let text = text!["convert with ", Setting::DTYPE.of("f32"), ", or set ", Setting::MAPPING];
/// assert_eq!(text.in_words(&Keywords), "convert with dtype=\"f32\", or set `Mapping`");
/// ```
pub trait Vocabulary: fmt::Debug + Send + Sync {
    /// Returns what a user of the interface writes to give the setting of this name the value, or to set it if the
    /// value is empty; `None` if the library's words are right.
    fn words(&self, setting: &str, value: &str) -> Option<String>;
}

/// The words of the Rust library: what [`Error`](crate::Error) displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryWords;

impl Vocabulary for LibraryWords {
    fn words(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_names_its_items_options_and_limits() {
        for (text, words) in [
            (Setting::ARCHITECTURE.of(""), "`OpenOptions::architecture`"),
            (Setting::READ_OPTION.of("activations=relu,softmax"), "the option `activations=relu,softmax`"),
            (Setting::LIMIT.of("tensors=40"), "the limit `tensors` of 40"),
            (Setting::ALLOW.of("weight-dropped"), "`Conversion::allow(LossKind::WeightDropped)`"),
            (Setting::ALLOW.of(""), "`Conversion::allow`"),
            (Setting::DTYPE.of("f32"), "`Conversion::dtype` of f32"),
            (Setting::FEATURE.of("cuda"), "the feature `cuda`"),
        ] {
            assert_eq!(text.as_str(), words);
        }
    }
}
