//! Measures how similar two names are.

use ckpt_api::TensorId;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Words of different frameworks for one thing; the first stands for all.
const SYNONYMS: [&[&str]; 5] = [
    &["weight", "weights", "w", "kernel", "gamma", "g", "scale", "embeddings"],
    &["bias", "biases", "b", "beta", "offset"],
    &["running", "moving"],
    &["var", "variance"],
    &["attn", "attention"],
];

/// The words and numbers of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Name {
    words: BTreeMap<String, usize>,
    numbers: Vec<String>,
    /// The name without its last segment.
    parent: String,
    /// The last word.
    pub(super) last: String,
}

impl Name {
    pub(super) fn new(text: &str) -> Self {
        let mut name = Name { parent: parent(text).to_owned(), ..Name::default() };
        for token in tokens(text) {
            if token.starts_with(|c: char| c.is_ascii_digit()) {
                name.numbers.push(token);
            } else {
                name.last.clone_from(&token);
                *name.words.entry(token).or_default() += 1;
            }
        }
        name
    }
}

/// Parents that correspond to each other, learned from pairs that values decided.
#[derive(Default)]
pub(super) struct Parents(BTreeSet<(String, String)>);

impl Parents {
    pub(super) fn learn(&mut self, a: &Name, b: &Name) {
        if !a.parent.is_empty() && !b.parent.is_empty() {
            self.0.insert((a.parent.clone(), b.parent.clone()));
        }
    }

    /// Returns the parents in the second checkpoint that correspond to this one in the first.
    fn of(&self, parent: &str) -> impl Iterator<Item = &str> {
        let from = (parent.to_owned(), String::new());
        let own = self.0.range(from..).take_while(move |(a, _)| a == parent);
        own.map(|(_, b)| b.as_str())
    }

    /// Returns the similarity of two names: the proportion of shared words, plus 1 for equal numbers, plus 2 for
    /// parents that correspond; 0 if they share no word and no parents correspond.
    pub(super) fn similarity(&self, a: &Name, b: &Name) -> f64 {
        let shared: usize =
            a.words.iter().map(|(word, count)| b.words.get(word).map_or(0, |other| *count.min(other))).sum();
        let all: usize = a.words.values().chain(b.words.values()).sum();
        let known = self.0.contains(&(a.parent.clone(), b.parent.clone()));
        if shared == 0 && !known {
            return 0.0;
        }
        let words = if all == 0 { 0.0 } else { 2.0 * shared as f64 / all as f64 };
        words + if a.numbers == b.numbers { 1.0 } else { 0.0 } + if known { 2.0 } else { 0.0 }
    }
}

/// An index of names, for checkpoints with too many to compare each with each.
pub(super) struct Index<'n> {
    by_key: HashMap<Key<'n>, Vec<TensorId>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'n> {
    Numbers(&'n [String]),
    NumbersAndLast(&'n [String], &'n str),
    Parent(&'n str),
    ParentAndLast(&'n str, &'n str),
}

impl<'n> Index<'n> {
    pub(super) fn new(names: impl Iterator<Item = (TensorId, &'n Name)>) -> Self {
        let mut by_key: HashMap<Key, Vec<TensorId>> = HashMap::new();
        for (id, name) in names {
            for key in keys(&name.numbers, &name.parent, &name.last).into_iter().flatten() {
                by_key.entry(key).or_default().push(id);
            }
        }
        Index { by_key }
    }

    /// Returns the names with the numbers of `name`, and those whose parents correspond to its parent; none of a kind
    /// that has many.
    pub(super) fn near(&self, name: &'n Name, parents: &'n Parents) -> BTreeSet<TensorId> {
        const MOST: usize = 32;
        let known = parents.of(&name.parent).take(MOST);
        let wanted = known.map(|parent| (&[][..], parent)).chain([(&name.numbers[..], "")]);
        let found = wanted.filter_map(|(numbers, parent)| {
            let mut keys = keys(numbers, parent, &name.last).into_iter().flatten();
            keys.find_map(|key| self.by_key.get(&key).filter(|ids| ids.len() <= MOST))
        });
        found.flatten().copied().collect()
    }
}

/// Returns the keys of a name in the index, wider ones first.
fn keys<'n>(numbers: &'n [String], parent: &'n str, last: &'n str) -> [Option<Key<'n>>; 4] {
    let (numbers, parent) =
        ((!numbers.is_empty()).then_some(numbers), (!parent.is_empty()).then_some(parent));
    [
        numbers.map(Key::Numbers),
        numbers.map(|numbers| Key::NumbersAndLast(numbers, last)),
        parent.map(Key::Parent),
        parent.map(|parent| Key::ParentAndLast(parent, last)),
    ]
}

fn parent(text: &str) -> &str {
    text.rfind(['/', '.', ':']).and_then(|at| text.get(..at)).unwrap_or_default()
}

/// Splits a name into words in lower case, and numbers without leading zeros.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut before = None;
    for c in text.chars() {
        match (continues(c, before), tokens.last_mut()) {
            (None, _) => {}
            (Some(Continues::Yes), Some(token)) => token.extend(c.to_lowercase()),
            (Some(_), _) => tokens.push(c.to_lowercase().collect()),
        }
        before = Some(c);
    }
    tokens.into_iter().map(|token| standard(&token)).collect()
}

/// Whether a character continues the token before it.
enum Continues {
    Yes,
    No,
}

/// Returns `None` for a character between tokens. `layerNorm12` is three tokens.
fn continues(c: char, before: Option<char>) -> Option<Continues> {
    if !c.is_alphanumeric() {
        return None;
    }
    let before = before.filter(|c| c.is_alphanumeric());
    let is_same_token = before.is_some_and(|before| {
        let digits = before.is_ascii_digit() == c.is_ascii_digit();
        digits && !(before.is_lowercase() && c.is_uppercase())
    });
    Some(if is_same_token { Continues::Yes } else { Continues::No })
}

fn standard(token: &str) -> String {
    if token.bytes().all(|c| c.is_ascii_digit()) {
        let number = token.trim_start_matches('0');
        return if number.is_empty() { "0".to_owned() } else { number.to_owned() };
    }
    let known = SYNONYMS.iter().find(|words| words.contains(&token)).and_then(|words| words.first());
    known.map_or_else(|| token.to_owned(), |word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_into_words_and_numbers() {
        assert_eq!(tokens("model/h0/c_attn1/w"), ["model", "h", "0", "c", "attn", "1", "weight"]);
        assert_eq!(tokens("layerNorm12.LayerNorm.gamma"), ["layer", "norm", "12", "layer", "norm", "weight"]);
        assert_eq!(tokens("block007"), ["block", "7"]);
    }

    #[test]
    fn equal_numbers_and_known_parents_count_more_than_words() {
        let name = Name::new;
        let mut parents = Parents::default();
        let alike = |parents: &Parents, a: &str, b: &str| parents.similarity(&name(a), &name(b));
        assert!(alike(&parents, "h1/ln/g", "h.1.ln.weight") > alike(&parents, "h1/ln/g", "h.2.ln.weight"));
        assert!(alike(&parents, "h1/ln/g", "h.1.ln.weight") > alike(&parents, "h1/ln/g", "h.1.ln.bias"));
        assert_eq!(alike(&parents, "a/x", "c.y"), 0.0);
        parents.learn(&name("a/w"), &name("c.weight"));
        assert!(alike(&parents, "a/x", "c.y") > 2.0);
    }
}
