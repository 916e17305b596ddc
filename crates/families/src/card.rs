//! The model card of a directory: the values at the beginning of `README.md`, in YAML between two lines of dashes.

use crate::companions;
use ckpt_api::{Input, Limits, Result};
use ckpt_containers::yaml::{self, Node};

/// The file's name.
pub(crate) const FILE: &str = "README.md";
/// The line before the values and behind them.
const FENCE: &str = "---";

/// The values of a model card that are texts, lists of texts, or lists of mappings of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Card {
    entries: Vec<(String, Value)>,
}

/// A value of a model card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Item>),
}

/// An item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Text(String),
    Mapping(Vec<(String, String)>),
}

impl Card {
    /// Reads the card of a directory: an empty one if there is none; with a note if its values are no YAML.
    ///
    /// # Errors
    /// Whatever keeps the file from being read.
    pub(crate) fn beside(input: &Input, limits: &Limits) -> Result<(Self, Option<String>)> {
        if !input.has_file(FILE) {
            return Ok((Card::default(), None));
        }
        let bytes = companions::read(input, FILE, limits)?;
        Ok(Card::of(&String::from_utf8_lossy(&bytes)))
    }

    /// The card of a text: an empty one if it begins with no values; with a note if they are no YAML.
    pub(crate) fn of(text: &str) -> (Self, Option<String>) {
        let Some(values) = front(text) else { return (Card::default(), None) };
        match Card::parse(&values) {
            Ok(card) => (card, None),
            Err(reason) => {
                let note = format!(
                    "the values of the model card ({FILE}) are left out, because they are no YAML: {reason}"
                );
                (Card::default(), Some(note))
            }
        }
    }

    fn parse(values: &str) -> std::result::Result<Self, String> {
        let root = yaml::parse(values).map_err(|malformed| malformed.reason)?;
        let entry = |(key, value): &(Node, Node)| Some((key.text()?.to_owned(), Value::of(value)?));
        let entries = root.map(|root| mapping(&root).iter().filter_map(entry).collect());
        Ok(Card { entries: entries.unwrap_or_default() })
    }

    /// The first text under one of these names.
    pub(crate) fn text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| match self.get(name)? {
            Value::Text(text) => Some(text.as_str()),
            Value::List(_) => None,
        })
    }

    /// The value under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        // The last of several counts.
        self.entries.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// The lines between the first two of dashes; `None` if the text does not begin with one.
fn front(text: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next()? != FENCE {
        return None;
    }
    let lines: Vec<String> =
        lines.take_while(|line| *line != FENCE).map(|line| line.replace('\t', "  ")).collect();
    Some(lines.join("\n") + "\n")
}

impl Value {
    /// A text, or a list; deeper values are passed over.
    fn of(node: &Node) -> Option<Self> {
        let yaml::Value::List(items) = &node.value else {
            return node.text().map(str::to_owned).map(Value::Text);
        };
        Some(Value::List(items.iter().filter_map(Item::of).collect()))
    }
}

impl Item {
    fn of(node: &Node) -> Option<Self> {
        let yaml::Value::Mapping(entries) = &node.value else {
            return node.text().map(str::to_owned).map(Item::Text);
        };
        let pair = |(key, value): &(Node, Node)| Some((key.text()?.to_owned(), value.text()?.to_owned()));
        Some(Item::Mapping(entries.iter().filter_map(pair).collect()))
    }
}

/// The entries of a mapping; none of another value.
fn mapping(node: &Node) -> &[(Node, Node)] {
    match &node.value {
        yaml::Value::Mapping(entries) => entries,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(text: &str) -> Card {
        Card::parse(&front(text).unwrap()).unwrap()
    }

    #[test]
    fn texts_and_lists_are_read_and_deeper_values_passed_over() {
        let card = card(
            "---\nlicense: apache-2.0\nname:\nlanguage:\n- en\n- no\ntags: [a, 'b c']\nbase_model:\n  - name: X\n    version: 1.5\n\
             model-index:\n- name: m\n  results:\n  - task: {type: t}\n    metrics: [[1], {a: [b]}]\n---\nlicense: mit\n",
        );
        assert_eq!(card.text(&["name", "license"]), Some("apache-2.0"));
        let texts =
            |texts: &[&str]| Value::List(texts.iter().map(|text| Item::Text((*text).to_owned())).collect());
        assert_eq!(card.get("language"), Some(&texts(&["en", "no"])));
        assert_eq!(card.get("tags"), Some(&texts(&["a", "b c"])));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let model = Item::Mapping(vec![pair("name", "X"), pair("version", "1.5")]);
        assert_eq!(card.get("base_model"), Some(&Value::List(vec![model])));
        assert_eq!(card.get("model-index"), Some(&Value::List(vec![Item::Mapping(vec![pair("name", "m")])])));
    }

    #[test]
    fn a_text_without_dashes_has_no_values_and_one_that_is_no_yaml_is_an_error() {
        assert_eq!(front("# A model\n---\na: b\n---\n"), None);
        assert!(Card::parse(&front("---\na: [b\n---\n").unwrap()).is_err());
        assert!(Card::parse(&"[".repeat(200)).unwrap_err().contains("deep"));
    }

    #[test]
    fn an_alias_is_no_text() {
        let card = card("---\na: &x [1, 2]\nb: *x\nc: [*x]\nd: e\n---\n");
        assert_eq!((card.get("b"), card.text(&["d"])), (None, Some("e")));
        assert_eq!(card.get("c"), Some(&Value::List(Vec::new())));
    }
}
