//! Options that are given without the format that they are for.

use crate::settings;
use crate::source::{ACTIVATIONS, template_parameter};
use ckpt_api::{Error, FormatInfo, OptionSpec, Result, Side, nearest, text};
use std::collections::BTreeSet;

/// Options of a conversion, by the side that takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SideOptions {
    /// Those for reading the source, for [`OpenOptions::set_all`](crate::source::OpenOptions::set_all).
    pub read: Vec<(String, String)>,
    /// Those for writing the target, for [`Conversion::set_all`](crate::Conversion::set_all).
    pub write: Vec<(String, String)>,
}

impl SideOptions {
    /// Gives each option to the side whose format knows it.
    ///
    /// ```
    /// # fn main() -> ckpt::Result<()> {
    /// let registry = ckpt::Registry::builtin();
    /// let (from, to) = (registry.reader("tf2")?, registry.writer("safetensors")?);
    /// let options = [("keys", "true"), ("shard_size", "5m")].map(|(key, value)| (key.into(), value.into()));
    /// let divided = ckpt::SideOptions::divide(options, from.info(), to.info())?;
    /// assert_eq!((divided.read[0].0.as_str(), divided.write[0].0.as_str()), ("keys", "shard_size"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for an option that neither knows, or both.
    pub fn divide(
        options: impl IntoIterator<Item = (String, String)>,
        from: &FormatInfo,
        to: &FormatInfo,
    ) -> Result<Self> {
        let (read, write) = (known(from, Side::Read), known(to, Side::Write));
        let mut divided = SideOptions::default();
        for (key, value) in options {
            let is_general = key == ACTIVATIONS || template_parameter(&key).is_some();
            let knows = |side: &[&OptionSpec]| side.iter().any(|spec| spec.name == key);
            match (is_general || knows(&read), knows(&write)) {
                (true, false) => divided.read.push((key, value)),
                (false, true) => divided.write.push((key, value)),
                (true, true) => return Err(ambiguous(key, &value)),
                (false, false) => return Err(unknown(key, &[read, write].concat())),
            }
        }
        Ok(divided)
    }
}

fn known(format: &FormatInfo, side: Side) -> Vec<&OptionSpec> {
    format.options.iter().filter(|spec| spec.side.includes(side)).collect()
}

fn ambiguous(key: String, value: &str) -> Error {
    let option = format!("{key}={value}");
    Error::usage("both the source's and the target's format have this option")
        .help(text![
            "say which is meant: ",
            settings::SOURCE_OPTION.of(&option),
            " for reading, ",
            settings::TARGET_OPTION.of(&option),
            " for writing"
        ])
        .field(key)
}

fn unknown(key: String, specs: &[&OptionSpec]) -> Error {
    let known: BTreeSet<&str> = specs.iter().map(|spec| spec.name).chain([ACTIVATIONS]).collect();
    let help = nearest(&key, known.into_iter());
    Error::usage("neither the source's nor the target's format has this option").field(key).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::OptionKind;

    const fn spec(name: &'static str, side: Side) -> OptionSpec {
        OptionSpec::new(name, OptionKind::Text, side, "")
    }

    const FROM: &[OptionSpec] = &[spec("keys", Side::Read), spec("dialect", Side::Both)];
    const TO: &[OptionSpec] =
        &[spec("dialect", Side::Both), spec("zero_bias", Side::Write), spec("lenient", Side::Read)];

    fn divide(key: &str) -> Result<[Vec<String>; 2]> {
        let format = |options| FormatInfo::new("a", "A").with_options(options);
        let given = [(key.to_owned(), "1".to_owned())];
        let divided = SideOptions::divide(given, &format(FROM), &format(TO))?;
        Ok([divided.read, divided.write].map(|side| side.into_iter().map(|(key, _)| key).collect()))
    }

    #[test]
    fn an_option_goes_to_the_side_that_knows_it() {
        let none: Vec<String> = Vec::new();
        assert_eq!(divide("keys").unwrap(), [vec!["keys".to_owned()], none.clone()]);
        assert_eq!(divide("zero_bias").unwrap(), [none, vec!["zero_bias".to_owned()]]);
    }

    #[test]
    fn every_source_takes_activations_and_parameters_of_architectures() {
        for key in ["activations", "arch.heads"] {
            assert_eq!(divide(key).unwrap(), [vec![key.to_owned()], Vec::new()]);
        }
    }

    #[test]
    fn an_option_that_both_sides_know_is_an_error_which_names_both() {
        let error = divide("dialect").unwrap_err();
        assert_eq!(
            error.to_string(),
            "both the source's and the target's format have this option (field dialect); \
             say which is meant: the option `dialect=1` of `OpenOptions` for reading, \
             the option `dialect=1` of `Conversion` for writing"
        );
    }

    #[test]
    fn an_option_that_neither_side_knows_is_an_error_with_the_nearest() {
        let error = divide("lenient").unwrap_err().to_string();
        assert!(error.contains("zero_bias") && error.contains("activations"), "{error}");
        assert!(divide("key").unwrap_err().to_string().contains("keys"));
    }
}
