//! The text of a `.cfg`: sections with options.

use ckpt_api::{Error, Result};
use std::collections::HashMap;

/// A section and its options, in the order of the text.
pub(crate) struct Section<'a> {
    pub(crate) name: &'a str,
    /// The line of the text that it begins on, from 1 on.
    line: usize,
    /// Of several options with one key, Darknet takes the first.
    options: HashMap<&'a str, &'a str>,
}

impl<'a> Section<'a> {
    /// Parses a text into its sections.
    pub(crate) fn parse(text: &'a str) -> Result<Vec<Section<'a>>> {
        let mut sections: Vec<Section<'a>> = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, own) in (1..).zip(text.lines()) {
            if own.contains(|character: char| character.is_control() && character != '\t') {
                return Err(at_line("a line of the .cfg has control characters", line, own));
            }
            let own = own.trim();
            if own.is_empty() || own.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = own.strip_prefix('[') {
                let Some((name, _)) = rest.split_once(']') else {
                    return Err(at_line("the name of a section has no end", line, own).expected("[NAME]"));
                };
                sections.push(Section { name: name.trim(), line, options: HashMap::new() });
                continue;
            }
            // What follows a number is ignored by Darknet, and only comments do.
            let stated = own.split('#').next().unwrap_or_default();
            let option = stated.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let Some(option) = option.filter(|(key, value)| !key.is_empty() && !value.is_empty()) else {
                return Err(at_line("a line of the .cfg is no option", line, own).expected("KEY=VALUE"));
            };
            let Some(section) = sections.last_mut() else {
                return Err(at_line("an option comes before the first section", line, own).expected("[net]"));
            };
            section.options.entry(option.0).or_insert(option.1);
        }
        Ok(sections)
    }

    /// The text of an option.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.options.get(key).copied()
    }

    /// An integer that a C `int` holds.
    pub(crate) fn int(&self, key: &str, default: i64) -> Result<i64> {
        let Some(value) = self.text(key) else { return Ok(default) };
        let number = value.parse::<i32>().ok().map(i64::from);
        number.ok_or_else(|| self.wrong(key, "an integer of 32 bits"))
    }

    /// An integer of at least 0.
    pub(crate) fn count(&self, key: &str, default: u64) -> Result<u64> {
        let number = u64::try_from(self.int(key, default.try_into().unwrap_or(0))?).ok();
        number.ok_or_else(|| self.wrong(key, "at least 0"))
    }

    /// An integer of at least 1.
    pub(crate) fn positive(&self, key: &str, default: u64) -> Result<u64> {
        match self.count(key, default)? {
            0 => Err(self.wrong(key, "at least 1")),
            number => Ok(number),
        }
    }

    /// Whether a number is there and not 0.
    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        self.int(key, 0).map(|number| number != 0)
    }

    /// A number.
    pub(crate) fn float(&self, key: &str, default: f64) -> Result<f64> {
        let Some(value) = self.text(key) else { return Ok(default) };
        let number = value.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.wrong(key, "a number"))
    }

    /// The integers of a list; `None` without the option.
    pub(crate) fn ints(&self, key: &str) -> Result<Option<Vec<i64>>> {
        self.list(key, |item| item.parse::<i32>().ok().map(i64::from), "integers, with commas in between")
    }

    /// The numbers of a list; `None` without the option.
    pub(crate) fn floats(&self, key: &str) -> Result<Option<Vec<f64>>> {
        let number = |item: &str| item.parse().ok().filter(|number: &f64| number.is_finite());
        self.list(key, number, "numbers, with commas in between")
    }

    fn list<T>(&self, key: &str, item: impl Fn(&str) -> Option<T>, expected: &str) -> Result<Option<Vec<T>>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let items = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(item);
        let items: Option<Vec<T>> = items.collect();
        items.map(Some).ok_or_else(|| self.wrong(key, expected))
    }

    /// The error for an option whose value is not valid.
    pub(crate) fn wrong(&self, key: &str, expected: impl Into<String>) -> Error {
        let found = self.text(key).map_or("no such option".to_owned(), |value| {
            let shown: String = value.chars().take(60).collect();
            format!("{key}={}", shown.escape_debug())
        });
        self.located(Error::corrupt("an option of the .cfg is not valid"), key)
            .found(found)
            .expected(expected.into())
    }

    /// The error with the section and the option that it is about.
    pub(crate) fn located(&self, error: Error, key: &str) -> Error {
        let shown: String = self.name.chars().take(60).collect();
        let section = format!("[{}], line {}", shown.escape_debug(), self.line);
        error.field(if key.is_empty() { section } else { format!("{key} of {section}") })
    }
}

fn at_line(message: &'static str, line: usize, text: &str) -> Error {
    let shown: String = text.chars().take(60).collect();
    Error::corrupt(message).field(format!("line {line}")).found(format!("'{}'", shown.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_mean_nothing_and_the_first_of_equal_keys_counts() {
        let text = "# a\n\n[net]\n ; b\n width = 8 # pixels\r\nwidth=9\n[route]\nlayers = -1, 3\n";
        let sections = Section::parse(text).unwrap();
        assert_eq!(sections.iter().map(|section| section.name).collect::<Vec<_>>(), ["net", "route"]);
        assert_eq!(sections[0].positive("width", 0).unwrap(), 8);
        assert_eq!(sections[1].ints("layers").unwrap(), Some(vec![-1, 3]));
        assert_eq!(sections[1].float("scale", 1.5).unwrap(), 1.5);
    }

    #[test]
    fn lines_that_state_nothing_are_refused_with_their_number() {
        for text in ["[net]\nwidth", "[net]\n=3", "[net]\nwidth=", "[net]\n[route", "[net]\na\0=1"] {
            let error = Section::parse(text).err().unwrap();
            assert_eq!(error.context().field, Some("line 2"), "{text}");
        }
        assert!(Section::parse("width=1\n[net]\n").is_err());
    }

    #[test]
    fn a_number_is_one_as_a_whole() {
        let sections = Section::parse("[net]\na=four\nb=2147483648\nc=-1\nd=0\n").unwrap();
        let net = &sections[0];
        assert!(net.int("a", 0).is_err() && net.int("b", 0).is_err());
        assert!(net.count("c", 0).is_err() && net.positive("d", 1).is_err());
    }
}
