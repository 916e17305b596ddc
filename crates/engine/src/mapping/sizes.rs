//! Sizes of parts that differ from model to model: products of numbers and parameters.

use crate::pattern::is_name;
use crate::words::quote;
use ckpt_api::{Error, Result};

/// A size as a mapping file has it: a number, or text such as `"{heads} * 64"`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(untagged)]
pub(super) enum SizeText {
    Number(u64),
    Text(String),
}

/// The length of a part: the product of factors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Size(Vec<SizeFactor>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SizeFactor {
    Of(u64),
    Parameter(String),
}

impl Size {
    /// # Errors
    /// [`ckpt_api::Kind::Mapping`] for text that is no product of numbers and of parameters in braces.
    pub(super) fn parse(text: &SizeText) -> Result<Self> {
        let text = match text {
            SizeText::Number(number) => return Ok(Size(vec![SizeFactor::Of(*number)])),
            SizeText::Text(text) => text,
        };
        let factor = |word: &str| match word.trim().strip_prefix('{') {
            Some(rest) => {
                let name = rest.strip_suffix('}').filter(|name| is_name(name))?;
                Some(SizeFactor::Parameter(name.to_owned()))
            }
            None => word.trim().parse().ok().map(SizeFactor::Of),
        };
        text.split('*').map(factor).collect::<Option<_>>().map(Size).ok_or_else(|| {
            Error::mapping("a size is neither a number nor a product of parameters")
                .found(quote(text))
                .expected("a number, or text such as \"{heads} * {head_dim}\"")
        })
    }

    /// The parameters that have no value yet.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|factor| match factor {
            SizeFactor::Parameter(name) => Some(name.as_str()),
            SizeFactor::Of(_) => None,
        })
    }

    pub(super) fn set(&mut self, parameter: &str, value: u64) {
        for factor in &mut self.0 {
            if matches!(factor, SizeFactor::Parameter(name) if name == parameter) {
                *factor = SizeFactor::Of(value);
            }
        }
    }

    /// The product; `None` while a parameter has no value, or if it does not fit 64 bits.
    pub(super) fn value(&self) -> Option<u64> {
        self.0.iter().try_fold(1u64, |product, factor| match factor {
            SizeFactor::Of(number) => product.checked_mul(*number),
            SizeFactor::Parameter(_) => None,
        })
    }
}

/// As a mapping file has it.
impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, factor) in self.0.iter().enumerate() {
            f.write_str(if number > 0 { " * " } else { "" })?;
            match factor {
                SizeFactor::Of(number) => write!(f, "{number}")?,
                SizeFactor::Parameter(name) => write!(f, "{{{name}}}")?,
            }
        }
        Ok(())
    }
}

/// Checks that every part has a length, and that their sum fits 64 bits.
pub(super) fn check_lengths(sizes: &[u64]) -> Result<()> {
    if sizes.contains(&0) || sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size)).is_none() {
        return Err(Error::mapping("the sizes are not valid lengths")
            .found(format!("{sizes:?}"))
            .expected("numbers of at least 1, whose sum fits 64 bits"));
    }
    Ok(())
}
