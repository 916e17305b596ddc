//! Attributes of operators, which are texts: numbers, `True`, tuples such as `(3, 3)`.

use crate::stated::Read;
use crate::symbol::Step;

impl Step {
    /// An attribute, if the node states it and does not leave it open.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let text = self.attributes.get(key).map(|text| text.trim());
        text.filter(|text| !matches!(*text, "None" | "()" | "[]" | ""))
    }

    pub(crate) fn flag(&self, key: &str, default: bool) -> Read<bool> {
        match self.text(key) {
            None => Ok(default),
            Some("True" | "true" | "1") => Ok(true),
            Some("False" | "false" | "0") => Ok(false),
            Some(other) => Err(wrong(key, other)),
        }
    }

    pub(crate) fn float(&self, key: &str, default: f64) -> Read<f64> {
        let Some(text) = self.text(key) else { return Ok(default) };
        text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| wrong(key, text))
    }

    /// A number as MXNet has it, in 32 bits.
    pub(crate) fn single(&self, key: &str, default: f32) -> Read<f64> {
        let Some(text) = self.text(key) else { return Ok(default.into()) };
        let number: Option<f32> = text.parse().ok();
        number.filter(|number| number.is_finite()).map(f64::from).ok_or_else(|| wrong(key, text))
    }

    pub(crate) fn int(&self, key: &str, default: i64) -> Read<i64> {
        let Some(text) = self.text(key) else { return Ok(default) };
        text.parse().map_err(|_| wrong(key, text))
    }

    /// A list of integers: a tuple, or one number.
    pub(crate) fn ints(&self, key: &str) -> Read<Option<Vec<i64>>> {
        let Some(all) = self.open_ints(key)? else { return Ok(None) };
        let all = all.into_iter().collect::<Option<Vec<i64>>>();
        all.map(Some).ok_or_else(|| wrong(key, self.text(key).unwrap_or_default()))
    }

    /// A list of integers, of which some may be `None`.
    pub(crate) fn open_ints(&self, key: &str) -> Read<Option<Vec<Option<i64>>>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let inner = text.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
        let entry = |entry: &str| match entry.trim().trim_end_matches('L') {
            "None" => Some(None),
            number => number.parse().ok().map(Some),
        };
        let entries = inner.split(',').filter(|entry| !entry.trim().is_empty());
        let entries = entries.map(entry).collect::<Option<Vec<_>>>();
        entries.map(Some).ok_or_else(|| wrong(key, text))
    }

    /// Sizes of the sides of a window: `default` for each of `sides` if they are not stated.
    pub(crate) fn sizes(&self, key: &str, sides: usize, default: u64) -> Read<Vec<u64>> {
        let Some(stated) = self.ints(key)? else { return Ok(vec![default; sides]) };
        let sizes = stated.iter().map(|size| u64::try_from(*size).ok()).collect::<Option<Vec<u64>>>();
        let sizes = sizes.filter(|sizes| sizes.len() == sides);
        sizes.ok_or_else(|| wrong(key, self.text(key).unwrap_or_default()))
    }

    /// Refuses an attribute with a value other than these.
    pub(crate) fn only(&self, key: &str, values: &[&str]) -> Read<()> {
        match self.text(key) {
            Some(other) if !values.contains(&other) => Err(wrong(key, other)),
            _ => Ok(()),
        }
    }
}

/// The reason for an attribute that is not known.
pub(crate) fn wrong(key: &str, found: &str) -> String {
    format!("has the attribute {key} = '{}', which is not supported", found.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(value: &str) -> Step {
        let attributes = [("a".to_owned(), value.to_owned())].into();
        Step { op: String::new(), name: String::new(), attributes, inputs: Vec::new() }
    }

    #[test]
    fn tuples_are_lists_of_integers() {
        assert_eq!(step("(3, 4)").ints("a"), Ok(Some(vec![3, 4])));
        assert_eq!(step("[3L,]").ints("a"), Ok(Some(vec![3])));
        assert_eq!(step("7").ints("a"), Ok(Some(vec![7])));
        assert_eq!(step("()").ints("a"), Ok(None));
        assert_eq!(step("(None, -1)").open_ints("a"), Ok(Some(vec![None, Some(-1)])));
        assert!(step("(None, -1)").ints("a").is_err());
        assert!(step("(3, x)").ints("a").is_err());
    }

    #[test]
    fn attributes_that_are_not_stated_have_their_defaults() {
        assert_eq!(step("None").int("a", 5), Ok(5));
        assert_eq!(step("True").flag("b", false), Ok(false));
        assert_eq!(step("(2,)").sizes("b", 2, 1), Ok(vec![1, 1]));
        assert!(step("(2,)").sizes("a", 2, 1).is_err());
    }
}
