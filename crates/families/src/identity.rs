//! Who made a model, of what, and under which license: keys of a GGUF file from the model card, the names of the model and the
//! number of its weights.

use crate::card::{Card, Item, Value};
use crate::config::insert;
use crate::name::{Parts, Weights, title};
use ckpt_api::{MetadataMap, MetadataValue, Tensor};

/// Where the names of models and datasets are pages.
const HUB: &str = "https://huggingface.co/";
/// How texts begin that are addresses, not names.
const ADDRESSES: [&str; 3] = ["http://", "https://", "ssh://"];
/// What a key states of another model or dataset, in the order of the file.
const RELATED: [&str; 9] =
    ["name", "author", "version", "organization", "description", "url", "doi", "uuid", "repo_url"];

/// What is known of a model beyond its configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) card: Card,
    /// What the model is called, the most trusted name first: `organization/name`, or the name alone.
    pub(crate) names: Vec<String>,
}

impl Identity {
    /// Adds the keys, in the order of llama.cpp's converter: the card's word first, then what the names say.
    pub(crate) fn add(&self, tensors: &[Tensor], pairs: &mut MetadataMap) {
        let weights = Weights::of(tensors);
        let names: Vec<Parts> = self.names.iter().map(|name| Parts::of(name, weights.total)).collect();
        let from_name = |part: fn(&Parts) -> Option<String>| names.iter().find_map(part);
        let card = |names: &[&str]| self.card.text(names).map(str::to_owned);
        let mut add = |key: &str, value: Option<String>| insert(pairs, format!("general.{key}"), value);

        add("name", card(&["name", "model_name"]).or_else(|| from_name(|parts| Some(title(&parts.name)))));
        add("author", card(&["author", "model_author", "model_creator"]));
        let version = card(&["version", "model_version"]);
        add("version", version.or_else(|| from_name(|parts| parts.version.clone())));
        let organization = card(&["organization", "model_organization"]);
        add(
            "organization",
            organization.or_else(|| from_name(|parts| parts.organization.as_deref().map(title))),
        );
        let purpose = card(&["finetune", "model_finetune"]);
        add("finetune", purpose.or_else(|| from_name(|parts| parts.purpose.clone())));
        let base = card(&["basename", "model_basename", "model_type"]);
        add("basename", base.or_else(|| from_name(|parts| parts.base.clone())));
        add("description", card(&["description", "model_description"]));
        let size =
            card(&["size_label", "model_size_label"]).or_else(|| from_name(|parts| parts.size.clone()));
        add("size_label", size.or_else(|| (weights.total > 0).then(|| weights.label())));
        let license = self.card.get("license").map(|license| texts(license).join(","));
        add("license", license);
        add("license.name", card(&["license_name"]));
        add("license.link", card(&["license_link"]));
        for (key, own) in [("url", "url"), ("doi", "doi"), ("uuid", "uuid"), ("repo_url", "repo_url")] {
            add(&format!("source.{key}"), card(&[own, &format!("model_{own}")]));
        }
        let bases = ["base_model", "base_models", "base_model_sources"];
        self.add_related("base_model", &bases, weights.total, pairs);
        self.add_related("dataset", &["datasets", "dataset", "dataset_sources"], weights.total, pairs);
        self.add_list("tags", &["tags", "pipeline_tag"], pairs);
        self.add_list("languages", &["languages", "language"], pairs);
    }

    /// Adds keys of the models or datasets that the card names under the first of these names.
    fn add_related(&self, kind: &str, names: &[&str], total: u128, pairs: &mut MetadataMap) {
        let Some(value) = names.iter().find_map(|name| self.card.get(name)) else { return };
        let text;
        let items = match value {
            Value::List(items) => items.as_slice(),
            Value::Text(own) => {
                text = [Item::Text(own.clone())];
                &text
            }
        };
        insert(pairs, format!("general.{kind}.count"), u32::try_from(items.len()).ok());
        for (number, item) in items.iter().enumerate() {
            let known = match item {
                Item::Text(text) => named(text, total),
                Item::Mapping(own) => own.clone(),
            };
            for key in RELATED {
                let value = known.iter().find(|(own, _)| own == key).map(|(_, value)| value.clone());
                insert(pairs, format!("general.{kind}.{number}.{key}"), value);
            }
        }
    }

    /// Adds a list of the texts under these names.
    fn add_list(&self, key: &str, names: &[&str], pairs: &mut MetadataMap) {
        let found: Vec<&Value> = names.iter().filter_map(|name| self.card.get(name)).collect();
        if !found.is_empty() {
            let all = found.into_iter().flat_map(texts);
            let list = MetadataValue::List(all.map(|text| MetadataValue::from(text.as_str())).collect());
            insert(pairs, format!("general.{key}"), Some(list));
        }
    }
}

/// Texts of a card, by their names there, and the keys that hold them.
const TEXTS: [(&str, &str); 14] = [
    ("author", "author"),
    ("version", "version"),
    ("organization", "organization"),
    ("finetune", "finetune"),
    ("basename", "basename"),
    ("description", "description"),
    ("size_label", "size_label"),
    ("license", "license"),
    ("license_name", "license.name"),
    ("license_link", "license.link"),
    ("url", "source.url"),
    ("doi", "source.doi"),
    ("uuid", "source.uuid"),
    ("repo_url", "source.repo_url"),
];
/// Lists of a card, likewise.
const LISTS: [(&str, &str); 2] = [("tags", "tags"), ("language", "languages")];
/// Other models and datasets, likewise.
const KINDS: [(&str, &str); 2] = [("base_model", "base_model"), ("datasets", "dataset")];
/// The key that follows from the tensors if no card states another one.
const SIZE: &str = "size_label";

/// Whether a model card holds what this key says.
pub(crate) fn is_on_card(key: &str) -> bool {
    let Some(key) = key.strip_prefix("general.") else { return false };
    let is_own = |(_, own): &(&str, &str)| *own == key;
    let is_related =
        |(_, kind): &(&str, &str)| key.strip_prefix(kind).is_some_and(|rest| rest.starts_with('.'));
    TEXTS.iter().chain(&LISTS).any(is_own) || KINDS.iter().any(is_related)
}

/// The model card that says what these keys do; `None` if they say nothing.
pub(crate) fn card_of(pairs: &MetadataMap, tensors: &[Tensor]) -> Option<String> {
    let weights = Weights::of(tensors);
    let value = |key: &str| pairs.get(&format!("general.{key}"));
    let mut lines = Vec::new();
    for (name, key) in TEXTS {
        let text = value(key).and_then(MetadataValue::as_text);
        if let Some(text) = text.filter(|text| key != SIZE || *text != weights.label()) {
            lines.push(format!("{name}: {}", quoted(text)));
        }
    }
    for (name, kind) in KINDS {
        let Some(count) = value(&format!("{kind}.count")).and_then(MetadataValue::as_u64) else { continue };
        lines.push(format!("{name}:{}", if count == 0 { " []" } else { "" }));
        // A file has no more keys than it has bytes: what it counts beyond them is not there.
        for number in 0..count.min(pairs.len() as u64) {
            let known = RELATED.iter().filter_map(|key| {
                let text = value(&format!("{kind}.{number}.{key}"))?.as_text()?;
                Some(((*key).to_owned(), text.to_owned()))
            });
            lines.extend(related_lines(known.collect(), weights.total));
        }
    }
    for (name, key) in LISTS {
        if let Some(list) = value(key).and_then(MetadataValue::as_list) {
            let texts: Vec<String> = list.iter().filter_map(|item| item.as_text().map(quoted)).collect();
            lines.push(format!("{name}: [{}]", texts.join(", ")));
        }
    }
    (!lines.is_empty()).then(|| format!("---\n{}\n---\n", lines.join("\n")))
}

/// An item of a list of models: its name on the hub, if that says all that is known of it.
fn related_lines(known: Vec<(String, String)>, total: u128) -> Vec<String> {
    let page = known.iter().find(|(key, _)| key == "repo_url").and_then(|(_, page)| page.strip_prefix(HUB));
    if let Some(id) = page.filter(|id| named(id, total) == known) {
        return vec![format!("- {}", quoted(id))];
    }
    if known.is_empty() {
        return vec!["- {}".to_owned()];
    }
    let beginnings = std::iter::once("- ").chain(std::iter::repeat("  "));
    beginnings
        .zip(known)
        .map(|(beginning, (key, text))| format!("{beginning}{key}: {}", quoted(&text)))
        .collect()
}

/// A text of JSON, which is one of YAML, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The texts of a value.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Text(text) => vec![text.clone()],
        Value::List(items) => items
            .iter()
            .filter_map(|item| match item {
                Item::Text(text) => Some(text.clone()),
                Item::Mapping(_) => None,
            })
            .collect(),
    }
}

/// What the name or address of a model or dataset says of it.
fn named(text: &str, total: u128) -> Vec<(String, String)> {
    let is_address = ADDRESSES.iter().any(|beginning| text.starts_with(beginning));
    let id = match is_address {
        true => text.strip_prefix("http://huggingface.co/").or_else(|| text.strip_prefix(HUB)),
        false => Some(text),
    };
    let id = id
        .filter(|id| !is_address || id.split('/').count() == 2 && id.split('/').all(|part| !part.is_empty()));
    let parts = id.map(|id| Parts::of(id, total)).unwrap_or_default();
    let page = parts.organization.as_ref().map(|organization| format!("{HUB}{organization}/{}", parts.name));
    let known = [
        ("name", id.map(|_| title(&parts.name))),
        ("version", parts.version.clone()),
        ("organization", parts.organization.as_deref().map(title)),
        ("repo_url", if is_address { Some(text.to_owned()) } else { page }),
    ];
    let known = known.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    // A path of the machine that trained it begins with no organization.
    known.filter(|(_, value)| !value.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Vec<String> {
        named(text, 0).into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn what_a_card_says_is_in_the_keys_and_comes_back() {
        let (card, _) = Card::of(
            "---\nlicense: [mit, other]\nlanguage: en\ntags: [a, \"b: c\"]\npipeline_tag: d\nauthor: \"A \\\"B\\\"\"\nbase_model: meta-llama/Llama-3.2-1B\n\
             datasets:\n- https://example.com/d\n- name: D\n  version: '2'\n---\n",
        );
        let identity = Identity { card, names: vec!["org/tiny-7B-chat".to_owned(), "other-v2".to_owned()] };
        let mut pairs = MetadataMap::default();
        identity.add(&[], &mut pairs);
        let text = |key: &str| pairs.get(&format!("general.{key}")).and_then(MetadataValue::as_text);
        assert_eq!(
            [text("license"), text("organization"), text("version")],
            [Some("mit,other"), Some("Org"), Some("v2")]
        );
        assert_eq!([text("base_model.0.name"), text("dataset.1.name")], [Some("Llama 3.2 1B"), Some("D")]);
        assert!(pairs.iter().all(|(key, _)| is_on_card(key) || key == "general.name"));
        let (card, note) = Card::of(&card_of(&pairs, &[]).unwrap());
        assert_eq!((note, card.text(&["author"])), (None, Some("A \"B\"")));
        let mut again = MetadataMap::default();
        Identity { card, names: vec!["Tiny 7B Chat".to_owned()] }.add(&[], &mut again);
        assert_eq!(again, pairs);
        assert_eq!(card_of(&MetadataMap::default(), &[]), None);
    }

    #[test]
    fn a_model_is_known_by_its_name_or_its_address_on_the_hub() {
        let expected = [
            "name=Llama 3.2 1B",
            "organization=Meta Llama",
            "repo_url=https://huggingface.co/meta-llama/Llama-3.2-1B",
        ];
        assert_eq!(known("meta-llama/Llama-3.2-1B"), expected);
        assert_eq!(known("https://huggingface.co/meta-llama/Llama-3.2-1B"), expected);
        assert_eq!(known("https://example.com/a/b"), ["repo_url=https://example.com/a/b"]);
        assert_eq!(known("tiny-v2"), ["name=Tiny v2", "version=v2"]);
    }
}
