//! The entries of a recipe, each with its place.

use crate::models::{Constant, Method, Parameters, Placed, Setting};
use ckpt_api::{Error, Result, nearest};
use ckpt_containers::yaml::{Node, Value};

/// The entries of a mapping.
pub(super) struct Entries<'n> {
    node: &'n Node,
    what: &'static str,
    entries: &'n [(Node, Node)],
}

impl<'n> Entries<'n> {
    /// The entries of a mapping, which may have these keys.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for another value, and for keys that are unknown, or there twice; [`ckpt_api::Kind::Unsupported`] for
    /// those of `unsupported`.
    pub(super) fn of(
        node: &'n Node,
        what: &'static str,
        known: &[&str],
        unsupported: &[&str],
    ) -> Result<Self> {
        let Value::Mapping(entries) = &node.value else {
            return Err(Error::usage(format!("{what} is no mapping of keys to values")).field(node.place()));
        };
        let mut seen = Vec::new();
        for (key, value) in entries {
            let name = key.text().unwrap_or_default();
            if unsupported.contains(&name) && value.value != Value::Null {
                return Err(Error::unsupported("a recipe has a key that cannot be followed")
                    .field(key.place())
                    .found(format!("'{name}'")));
            }
            if !known.contains(&name) && !unsupported.contains(&name) {
                return Err(Error::usage(format!("{what} has an unknown key"))
                    .field(key.place())
                    .found(format!("'{}'", name.escape_debug()))
                    .expected(known.join(", "))
                    .help(nearest(name, known.iter().copied())));
            }
            if seen.contains(&name) {
                return Err(Error::usage(format!("{what} has a key twice"))
                    .field(key.place())
                    .found(format!("'{name}'")));
            }
            seen.push(name);
        }
        Ok(Entries { node, what, entries })
    }

    /// The value of a key; `None` without it, and for a null.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        let found = self.entries.iter().find(|(key, _)| key.text() == Some(name));
        found.map(|(_, value)| value).filter(|value| value.value != Value::Null)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'n str>> {
        self.get(name).map(|node| node.text().ok_or_else(|| wrong(node, name, "a text"))).transpose()
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<&'n [Node]>> {
        let list = |node: &'n Node| match &node.value {
            Value::List(items) => Ok(&items[..]),
            _ => Err(wrong(node, name, "a list")),
        };
        self.get(name).map(list).transpose()
    }

    /// Two whole numbers.
    pub(super) fn range(&self, name: &str) -> Result<[u64; 2]> {
        let node = self.get(name).ok_or_else(|| self.lacks(name))?;
        let expected = "two numbers of layers, such as [0, 16]";
        let items = self.list(name)?.unwrap_or_default();
        let numbers: Option<Vec<u64>> = items.iter().map(|item| item.text()?.parse().ok()).collect();
        match numbers.as_deref() {
            Some([start, end]) => Ok([*start, *end]),
            _ => Err(wrong(node, name, expected)),
        }
    }

    /// The error for a key that is missing.
    pub(super) fn lacks(&self, name: &str) -> Error {
        Error::usage(format!("{} lacks a key", self.what)).field(self.node.place()).expected(name)
    }

    /// An error with the place of a key's value.
    pub(super) fn at(&self, name: &str, error: Error) -> Error {
        error
            .field(self.get(name).map_or_else(|| name.to_owned(), |node| format!("{name}, {}", node.place())))
    }
}

/// The parameters in an entry: those that models have each, or any.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for parameters that the method does not take, or not here, and for other values.
pub(super) fn parameters(entries: &Entries<'_>, method: Method, is_of_model: bool) -> Result<Parameters> {
    let Some(node) = entries.get("parameters") else { return Ok(Parameters::new()) };
    let Value::Mapping(given) = &node.value else { return Err(wrong(node, "parameters", "a mapping")) };
    let mut parameters = Parameters::new();
    for (key, value) in given {
        let name = key.text().unwrap_or_default();
        let at = |error: Error| error.field(key.place());
        method.check_parameter(name).map_err(at)?;
        if is_of_model && !Method::is_of_models(name) {
            return Err(at(Error::usage("a parameter is not one of each model")
                .found(format!("'{name}'"))
                .help("state it for the whole recipe, or for a slice")));
        }
        let placed = Placed { setting: setting(value, name)?, place: format!("{name}, {}", value.place()) };
        if parameters.insert(name.to_owned(), placed).is_some() {
            return Err(at(Error::usage("a parameter is set twice").found(format!("'{name}'"))));
        }
    }
    Ok(parameters)
}

/// A value, a list of values, or values for filters.
fn setting(node: &Node, name: &str) -> Result<Setting> {
    let conditions = match &node.value {
        Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Mapping(_))) => &items[..],
        Value::Mapping(_) => std::slice::from_ref(node),
        _ => return plain_setting(node, name),
    };
    let condition = |node: &Node| {
        let entries = Entries::of(node, "a value with a filter", &["filter", "value"], &[])?;
        let value = entries.get("value").ok_or_else(|| entries.lacks("value"))?;
        Ok((entries.text("filter")?.map(str::to_owned), plain_setting(value, name)?))
    };
    conditions.iter().map(condition).collect::<Result<_>>().map(Setting::Filtered)
}

fn plain_setting(node: &Node, name: &str) -> Result<Setting> {
    match &node.value {
        Value::List(items) if items.is_empty() => Err(wrong(node, name, "at least one value")),
        Value::List(items) => {
            items.iter().map(|item| constant(item, name)).collect::<Result<_>>().map(Setting::Gradient)
        }
        _ => constant(node, name).map(Setting::Constant),
    }
}

fn constant(node: &Node, name: &str) -> Result<Constant> {
    match &node.value {
        Value::Plain(text) => Ok(Constant::of_plain(text)),
        Value::Text(text) => Ok(Constant::Text(text.clone())),
        _ => Err(wrong(node, name, "a number, true or false")),
    }
}

fn wrong(node: &Node, name: &str, expected: &str) -> Error {
    let found = match &node.value {
        Value::Null => "nothing",
        Value::Plain(text) | Value::Text(text) => text,
        Value::List(_) => "a list",
        Value::Mapping(_) => "a mapping",
        _ => "an alias, which is not followed",
    };
    Error::usage("a recipe has a value of another kind")
        .field(format!("{name}, {}", node.place()))
        .found(found.escape_debug().to_string())
        .expected(expected)
}
