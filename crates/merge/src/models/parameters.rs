//! Parameters of a merge, which may differ by layer and by tensor.

use ckpt_api::{Error, Result};
use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Number(f64),
    Flag(bool),
    Text(String),
}

/// What a parameter is set to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    Constant(Constant),
    /// Values at equal distances from the first layer to the last, and between these what is between them.
    Gradient(Vec<Constant>),
    /// The first one of which the tensor's name has the filter counts.
    Filtered(Vec<(Option<String>, Setting)>),
}

/// A setting, and where it was made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) setting: Setting,
    pub(crate) place: String,
}

/// Settings by the names of parameters.
pub(crate) type Parameters = BTreeMap<String, Placed>;

/// Some parameters, those that count first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scopes<'p>(pub(crate) [Option<&'p Parameters>; 3]);

impl Scopes<'_> {
    /// The number that a parameter has for a tensor in a layer, which is at `t` of the way from the first layer to the last;
    /// `None` if it is not set.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for what is no number.
    pub(crate) fn number(&self, name: &str, tensor: &str, t: f64) -> Result<Option<f64>> {
        self.find(name, tensor, |setting| setting.number(t))
    }

    /// Whether a parameter is set for a tensor; `None` if the recipe does not set it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for what is neither `true` nor `false`.
    pub(crate) fn flag(&self, name: &str, tensor: &str, t: f64) -> Result<Option<bool>> {
        self.find(name, tensor, |setting| setting.nearest(t)?.flag().map(Some))
    }

    /// Whether it is set to this text.
    pub(crate) fn is_text(&self, name: &str, tensor: &str, wanted: &str) -> bool {
        let is_wanted =
            |setting: &Setting| Ok(Some(*setting == Setting::Constant(Constant::Text(wanted.to_owned()))));
        self.find(name, tensor, is_wanted).ok().flatten() == Some(true)
    }

    fn find<T>(
        &self,
        name: &str,
        tensor: &str,
        get: impl Fn(&Setting) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for placed in self.0.iter().flatten().filter_map(|parameters| parameters.get(name)) {
            let Some(setting) = placed.setting.of(tensor) else { continue };
            if let Some(value) = get(setting).map_err(|error| error.field(placed.place.as_str()))? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl Setting {
    /// The number or the gradient for a tensor of this name.
    fn of(&self, tensor: &str) -> Option<&Setting> {
        let Setting::Filtered(conditions) = self else { return Some(self) };
        let matches = |filter: &Option<String>| {
            filter.as_ref().is_none_or(|filter| filter == "*" || tensor.contains(filter))
        };
        conditions.iter().find(|(filter, _)| matches(filter)).map(|(_, setting)| setting)
    }

    fn number(&self, t: f64) -> Result<Option<f64>> {
        match self {
            Setting::Constant(constant) => constant.number().map(Some),
            Setting::Gradient(values) => {
                let values = values.iter().map(Constant::number).collect::<Result<Vec<f64>>>()?;
                let Some(last) = values.len().checked_sub(1) else { return Ok(None) };
                let scaled = t * last as f64;
                let from = (scaled as usize).min(last);
                let to = (from + 1).min(last);
                let share = scaled - from as f64;
                Ok(Some((1.0 - share) * values[from] + share * values[to]))
            }
            Setting::Filtered(_) => Err(Error::usage("filters are within filters")),
        }
    }

    /// The value of a gradient that is not between two.
    fn nearest(&self, t: f64) -> Result<&Constant> {
        let missing = || Error::usage("a parameter has no value");
        match self {
            Setting::Constant(constant) => Ok(constant),
            Setting::Gradient(values) => {
                let last = values.len().checked_sub(1).ok_or_else(missing)?;
                values.get((t * last as f64) as usize).ok_or_else(missing)
            }
            Setting::Filtered(_) => Err(Error::usage("filters are within filters")),
        }
    }

    /// Every value.
    fn constants(&self) -> Vec<&Constant> {
        match self {
            Setting::Constant(constant) => vec![constant],
            Setting::Gradient(values) => values.iter().collect(),
            Setting::Filtered(conditions) => {
                conditions.iter().flat_map(|(_, setting)| setting.constants()).collect()
            }
        }
    }

    /// Whether any value is neither absent nor false.
    pub(crate) fn is_on(&self) -> bool {
        self.constants().iter().any(|constant| constant.flag().unwrap_or(true))
    }
}

impl Constant {
    /// The value of a text, as YAML reads it.
    pub(crate) fn of_plain(text: &str) -> Self {
        match text {
            "true" | "True" | "TRUE" => Constant::Flag(true),
            "false" | "False" | "FALSE" => Constant::Flag(false),
            _ => match number(text) {
                Some(number) => Constant::Number(number),
                None => Constant::Text(text.to_owned()),
            },
        }
    }

    fn number(&self) -> Result<f64> {
        match self {
            Constant::Number(number) => Ok(*number),
            Constant::Flag(flag) => Ok(f64::from(u8::from(*flag))),
            Constant::Text(text) => number(text).ok_or_else(|| self.wrong("a number")),
        }
    }

    fn flag(&self) -> Result<bool> {
        let wrong = || self.wrong("true or false");
        match self {
            Constant::Flag(flag) => Ok(*flag),
            Constant::Number(number) if *number == 0.0 || *number == 1.0 => Ok(*number == 1.0),
            Constant::Number(_) => Err(wrong()),
            Constant::Text(text) => match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" => Ok(true),
                "no" | "off" | "false" => Ok(false),
                _ => Err(wrong()),
            },
        }
    }

    fn wrong(&self, expected: &str) -> Error {
        let found = match self {
            Constant::Number(number) => number.to_string(),
            Constant::Flag(flag) => flag.to_string(),
            Constant::Text(text) => format!("'{}'", text.escape_debug()),
        };
        Error::usage("a parameter has a value of another kind").found(found).expected(expected)
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(setting: Setting) -> Parameters {
        [("weight".to_owned(), Placed { setting, place: "here".to_owned() })].into()
    }

    fn numbers(values: &[f64]) -> Setting {
        Setting::Gradient(values.iter().copied().map(Constant::Number).collect())
    }

    fn of(parameters: &[&Parameters], tensor: &str, t: f64) -> Option<f64> {
        let scopes = Scopes([parameters.first().copied(), parameters.get(1).copied(), None]);
        scopes.number("weight", tensor, t).unwrap()
    }

    #[test]
    fn a_gradient_is_interpolated_over_the_layers() {
        let gradient = scope(numbers(&[0.0, 0.5, 1.0]));
        let found = [0.0, 0.25, 0.5, 0.9, 1.0].map(|t| of(&[&gradient], "a", t).unwrap());
        assert_eq!(found, [0.0, 0.25, 0.5, 0.9, 1.0]);
        assert_eq!(of(&[&scope(numbers(&[3.0]))], "a", 1.0), Some(3.0));
        assert_eq!(of(&[&scope(numbers(&[]))], "a", 1.0), None);
    }

    #[test]
    fn the_first_filter_that_a_name_has_counts_and_further_scopes_if_none_does() {
        let number = |number| Setting::Constant(Constant::Number(number));
        let filtered = scope(Setting::Filtered(vec![
            (Some("self_attn".to_owned()), numbers(&[0.0, 1.0])),
            (Some("mlp".to_owned()), number(2.0)),
        ]));
        let outer = scope(Setting::Filtered(vec![(None, number(3.0))]));
        let found = |tensor| of(&[&filtered, &outer], tensor, 0.5);
        assert_eq!(
            [found("l.self_attn.q"), found("l.mlp.up"), found("norm")],
            [Some(0.5), Some(2.0), Some(3.0)]
        );
        assert_eq!(of(&[&filtered], "norm", 0.0), None);
    }

    #[test]
    fn texts_are_numbers_and_flags_as_yaml_has_them() {
        assert_eq!(Constant::of_plain("1e-3"), Constant::Number(1e-3));
        assert_eq!(Constant::of_plain("True"), Constant::Flag(true));
        let texts = ["yes", "off", "x"].map(|text| Constant::Text(text.to_owned()).flag().ok());
        assert_eq!(texts, [Some(true), Some(false), None]);
        let wrong = scope(Setting::Constant(Constant::Text("half".to_owned())));
        let error = Scopes([Some(&wrong), None, None]).number("weight", "a", 0.0).unwrap_err().to_string();
        assert!(error.contains("here") && error.contains("half"), "{error}");
    }
}
