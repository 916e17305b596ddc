//! Settings that texts name, and the words of each interface for them.
//!
//! An error that says "give it with --arch" is right on a command line and wrong in a library. Texts therefore name a
//! [`Setting`], and a [`Vocabulary`] says what an interface calls it:
//!
//! ```
//! use ckpt_api::{Error, Setting};
//! let error = Error::usage("the source does not describe its layers")
//!     .help(format!("describe them in an architecture file, given with {}", Setting::Architecture));
//! assert!(error.to_string().ends_with("given with `OpenOptions::architecture`"));
//! ```

use crate::LossKind;
use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

macro_rules! settings {
    ($($(#[$doc:meta])* $variant:ident $(($value:ident))? = $name:literal;)*) => {
        /// Something that a user sets, whatever the interface calls it.
        ///
        /// Its `Display` writes a mark for an [`Error`](crate::Error), a [`Loss`](crate::Loss), a repair or a note; an
        /// empty value stands for the setting itself. A mark contains a number that the process draws at random, so
        /// no text that comes from a file is ever taken for one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Setting<'a> { $($(#[$doc])* $variant $((settings!(@type $value 'a)))?,)* }

        impl<'a> Setting<'a> {
            /// The setting's name, and its value; empty for a setting without one.
            fn parts(self) -> (&'static str, &'a str) {
                match self {
                    $(Setting::$variant $(($value))? => ($name, settings!(@value $($value)?)),)*
                }
            }

            fn from_parts(name: &str, value: &'a str) -> Option<Self> {
                Some(match name {
                    $($name => settings!(@variant $variant value $($value)?),)*
                    _ => return None,
                })
            }
        }
    };
    (@type $value:ident $lifetime:lifetime) => { &$lifetime str };
    (@value) => { "" };
    (@value $value:ident) => { $value };
    (@variant $variant:ident $given:ident) => { Setting::$variant };
    (@variant $variant:ident $given:ident $value:ident) => { Setting::$variant($given) };
}

settings! {
    /// The architecture file.
    Architecture = "architecture";
    /// An option for reading, as `key=value`.
    ReadOption(value) = "read-option";
    /// An option for writing, as `key=value`.
    WriteOption(value) = "write-option";
    /// An option that both formats have, given for reading the source, as `key=value`.
    SourceOption(value) = "source-option";
    /// An option that both formats have, given for writing the target, as `key=value`.
    TargetOption(value) = "target-option";
    /// The format of the source.
    SourceFormat = "source-format";
    /// The format of the target: its id.
    TargetFormat(value) = "target-format";
    /// A limit, as `name=value`.
    Limit(value) = "limit";
    /// An option of stores that are opened by address, as `key=value`.
    StoreOption(value) = "store-option";
    /// Losses that are accepted: names of kinds, separated by commas.
    Allow(value) = "allow";
    /// Whether every loss stops the conversion.
    Strict = "strict";
    /// Patterns of the tensors to keep.
    Include = "include";
    /// Patterns of the tensors to leave out.
    Exclude = "exclude";
    /// The mapping of names.
    Mapping = "mapping";
    /// The dtype that floating-point weights become.
    Dtype(value) = "dtype";
    /// The memory of a conversion: a size.
    Memory(value) = "memory";
    /// The memory of a forward pass.
    ForwardMemory = "forward-memory";
    /// Whether an existing output is replaced.
    Overwrite = "overwrite";
    /// Whether a killed conversion goes on.
    Resume = "resume";
    /// Whether the output is read back and compared with its source.
    Verify = "verify";
    /// Whether a verification reports every layer.
    PerLayer = "per-layer";
    /// The tolerance of a comparison.
    Tolerance = "tolerance";
    /// The device that a graph runs on.
    Device = "device";
    /// The inputs of a graph: which, and from where.
    Inputs(value) = "inputs";
    /// The directory that a receipt's relative paths are looked up in.
    ReceiptRoot = "receipt-root";
    /// What checks the files of a receipt.
    CheckReceipt = "check-receipt";
    /// What runs the items of a plan and finishes its output.
    RunPlan = "run-plan";
    /// The list of a checkpoint's tensors.
    TensorNames = "tensor-names";
    /// The inverse of a mapping as a table of one checkpoint's names.
    InverseTable = "inverse-table";
    /// The value of a mapping's parameter, as `name=value`.
    MappingParameter(value) = "mapping-parameter";
    /// Formats beside those that are known.
    MoreFormats = "more-formats";
    /// A feature that the program is built with.
    Feature(value) = "feature";
}

/// Opens a mark: a character of a private-use plane, and this process's number.
fn opening() -> &'static str {
    static OPENING: OnceLock<String> = OnceLock::new();
    OPENING.get_or_init(|| {
        let [a, b] = [0, 1].map(|_| RandomState::new().build_hasher().finish());
        format!("\u{f0000}{a:016x}{b:016x}")
    })
}

/// `OPENING name length:value`, where the length is that of the value in bytes.
impl fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = self.parts();
        write!(f, "{} {name} {}:{value}", opening(), value.len())
    }
}

impl From<Setting<'_>> for String {
    fn from(setting: Setting<'_>) -> String {
        setting.to_string()
    }
}

impl<'t> Setting<'t> {
    /// The setting that `text`, which follows an opening, names, and what comes after its mark.
    fn parse(text: &'t str) -> Option<(Self, &'t str)> {
        let (name, rest) = text.strip_prefix(' ')?.split_once(' ')?;
        let (len, rest) = rest.split_once(':')?;
        let (value, rest) = rest.split_at_checked(len.parse().ok()?)?;
        Some((Setting::from_parts(name, value)?, rest))
    }
}

/// What an interface calls settings.
///
/// ```
/// use ckpt_api::{Setting, Vocabulary};
/// #[derive(Debug)]
/// struct Keywords;
/// impl Vocabulary for Keywords {
///     fn name(&self, setting: Setting<'_>) -> String {
///         match setting {
///             Setting::Overwrite => "overwrite=True".to_owned(),
///             other => ckpt_api::LibraryWords.name(other),
///         }
///     }
/// }
/// let text = format!("replace it with {}", Setting::Overwrite);
/// assert_eq!(Keywords.resolve(&text), "replace it with overwrite=True");
/// ```
pub trait Vocabulary: fmt::Debug + Send + Sync {
    /// The words for a setting: what a user of the interface writes to set it.
    fn name(&self, setting: Setting<'_>) -> String;

    /// The text with the words for every setting that it names.
    fn resolve<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !has_settings(text) {
            return Cow::Borrowed(text);
        }
        let (mut resolved, mut left) = (String::new(), text);
        while let Some((before, marked)) = left.split_once(opening()) {
            resolved.push_str(before);
            left = marked;
            if let Some((setting, rest)) = Setting::parse(marked) {
                resolved.push_str(&self.name(setting));
                left = rest;
            }
        }
        resolved.push_str(left);
        Cow::Owned(resolved)
    }

    /// Puts the words into the text in place of every setting that it names.
    fn settle(&self, text: &mut String) {
        if let Cow::Owned(resolved) = self.resolve(text) {
            *text = resolved;
        }
    }
}

/// Whether a text names a setting.
pub(crate) fn has_settings(text: &str) -> bool {
    text.contains(opening())
}

/// The words of the Rust library: what [`Error`](crate::Error) displays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryWords;

impl Vocabulary for LibraryWords {
    fn name(&self, setting: Setting<'_>) -> String {
        let item = match setting {
            Setting::ReadOption(option) | Setting::WriteOption(option) => {
                return format!("the option `{option}`");
            }
            Setting::SourceOption(option) => {
                return format!("the option `{option}` of `OpenOptions`");
            }
            Setting::TargetOption(option) => {
                return format!("the option `{option}` of `Conversion`");
            }
            Setting::StoreOption(option) => return format!("the option `{option}` of `RemoteOptions`"),
            Setting::Limit(limit) => {
                let (name, value) = limit.split_once('=').unwrap_or((limit, ""));
                let of = if value.is_empty() { "" } else { " of " };
                return format!("the limit `{name}`{of}{value}");
            }
            Setting::Allow(kinds) if !kinds.is_empty() => return allowed(kinds),
            Setting::TargetFormat(id) if !id.is_empty() => return format!("`Conversion::to(\"{id}\")`"),
            Setting::Dtype(name) if !name.is_empty() => return format!("`Conversion::dtype` of {name}"),
            Setting::Memory(size) if !size.is_empty() => return format!("`Resources::max_memory` of {size}"),
            Setting::Feature(name) => return format!("the feature `{name}`"),
            Setting::Architecture => "OpenOptions::architecture",
            Setting::SourceFormat => "OpenOptions::format",
            Setting::TargetFormat(_) => "Conversion::to",
            Setting::Allow(_) => "Conversion::allow",
            Setting::Strict => "Policy::strict",
            Setting::Include => "Conversion::include",
            Setting::Exclude => "Conversion::exclude",
            Setting::Mapping => "Mapping",
            Setting::Dtype(_) => "Conversion::dtype",
            Setting::Memory(_) => "Resources::max_memory",
            Setting::ForwardMemory => "verify::Options::memory",
            Setting::Overwrite => "Conversion::overwrite",
            Setting::Resume => "Conversion::resume",
            Setting::Verify => "Conversion::verify",
            Setting::PerLayer => "verify::Options::per_layer",
            Setting::Tolerance => "verify::Options::tolerance",
            Setting::Device => "verify::devices",
            Setting::Inputs(_) => "verify::Inputs",
            Setting::ReceiptRoot => "root",
            Setting::CheckReceipt => "receipt::check",
            Setting::RunPlan => "Planned::resume",
            Setting::TensorNames => "Source::tensors",
            Setting::MoreFormats => "Registry::add",
            Setting::InverseTable => "Applied::inverse_table",
            Setting::MappingParameter(_) => "Mapping::with_parameter",
        };
        format!("`{item}`")
    }
}

fn allowed(kinds: &str) -> String {
    let kinds = kinds.split(',').map(|name| match LossKind::from_name(name) {
        Some(kind) => format!("`Conversion::allow(LossKind::{kind:?})`"),
        None => format!("`Conversion::allow` of {name}"),
    });
    kinds.collect::<Vec<_>>().join(" and ")
}

/// Every setting stays a mark: for a text that becomes part of another one.
#[derive(Debug)]
pub(crate) struct Marks;

impl Vocabulary for Marks {
    fn name(&self, setting: Setting<'_>) -> String {
        setting.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Setting<'static>] = &[
        Setting::Architecture,
        Setting::ReadOption("activations=relu,softmax"),
        Setting::WriteOption("zero_bias=true"),
        Setting::SourceFormat,
        Setting::TargetFormat(""),
        Setting::TargetFormat("npz"),
        Setting::Limit("tensors=40"),
        Setting::StoreOption("region=eu"),
        Setting::Allow(""),
        Setting::Allow("weight-dropped,narrowed"),
        Setting::Memory("7m"),
        Setting::Dtype("f32"),
        Setting::Inputs("INPUT=FILE"),
        Setting::Feature("cuda"),
    ];

    /// A setting as its variant and value are written.
    #[derive(Debug)]
    struct Plain;

    impl Vocabulary for Plain {
        fn name(&self, setting: Setting<'_>) -> String {
            format!("<{setting:?}>")
        }
    }

    #[test]
    fn every_setting_in_a_text_is_named_and_the_rest_stays() {
        for a in ALL.iter().step_by(if cfg!(miri) { 8 } else { 1 }) {
            for b in ALL {
                let text = format!("{a}, {b} or :{a}");
                assert_eq!(Plain.resolve(&text), format!("<{a:?}>, <{b:?}> or :<{a:?}>"));
            }
        }
        assert!(matches!(Plain.resolve("as it is"), Cow::Borrowed("as it is")));
    }

    #[test]
    fn a_value_may_contain_anything_even_a_mark() {
        let mark = Setting::Overwrite.to_string();
        for value in ["", " 3:x", "é\u{f0000}", &mark] {
            let setting = Setting::ReadOption(value);
            assert_eq!(Plain.resolve(&format!("{setting} end")), format!("<{setting:?}> end"));
        }
    }

    #[test]
    fn a_text_from_a_file_is_no_mark() {
        let mark = Setting::Overwrite.to_string();
        // All that another process, or a reader of this source, can know of a mark.
        let forged =
            [mark.replace(opening(), "\u{f0000}0123456789abcdef0123456789abcdef"), mark[4..].to_owned()];
        for text in forged {
            assert_eq!(LibraryWords.resolve(&text), text);
        }
    }

    #[test]
    fn a_text_within_a_text_keeps_its_settings() {
        let text = format!("give it with {}", Setting::Architecture);
        assert_eq!(Marks.resolve(&text), text);
    }

    #[test]
    fn the_library_names_its_items_options_and_limits() {
        for (setting, words) in [
            (Setting::Architecture, "`OpenOptions::architecture`"),
            (Setting::ReadOption("activations=relu,softmax"), "the option `activations=relu,softmax`"),
            (Setting::SourceOption("arch=a"), "the option `arch=a` of `OpenOptions`"),
            (Setting::TargetOption("arch=a"), "the option `arch=a` of `Conversion`"),
            (Setting::StoreOption("region=eu"), "the option `region=eu` of `RemoteOptions`"),
            (Setting::Limit("tensors=40"), "the limit `tensors` of 40"),
            (Setting::Allow("weight-dropped"), "`Conversion::allow(LossKind::WeightDropped)`"),
            (Setting::Memory("7m"), "`Resources::max_memory` of 7m"),
        ] {
            assert_eq!(LibraryWords.name(setting), words);
        }
    }

    #[test]
    fn no_words_of_the_library_are_those_of_a_command_line() {
        for setting in ALL {
            assert!(!LibraryWords.name(*setting).contains("--"), "{setting:?}");
        }
    }
}
