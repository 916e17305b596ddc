//! The classes and functions that a pickle names: what a scanner of pickles reports.

use super::safety::{is_dangerous, is_getter};
use super::{Id, Object, Tree, Value};
use ckpt_api::{Error, Result, Rules, Setting, first_few, text};
use std::collections::{BTreeMap, HashSet};

/// Names that a note lists.
const SHOWN: usize = 12;

/// Every class and function of a pickle, by module and name.
#[derive(Debug, Default)]
pub struct Names {
    uses: BTreeMap<(String, String), Use>,
    danger: Option<Danger>,
}

/// What a pickle does with a class or function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// It is a value like any other.
    Named,
    /// Whoever unpickles the file calls it.
    Called,
}

/// A call that could do anything to whoever unpickles the file.
#[derive(Clone, Debug)]
pub struct Danger {
    name: String,
    /// The called function, if the dangerous one is its argument.
    through: Option<String>,
}

impl Names {
    /// The names of a pickle, and its first dangerous call.
    pub fn of(tree: &Tree) -> Names {
        let mut names = Names::default();
        let mut seen = HashSet::new();
        let (mut called, mut last) = (HashSet::new(), [Id::NONE; 2]);
        let mut attributes = Attributes::default();
        for id in tree.ids() {
            if let Some((module, name)) = tree.global(id) {
                names.add(module, name, Use::Named);
            }
            let Some(object) = tree.object(id) else { continue };
            // A pickle calls few functions, each of them often, and mostly the same two in turn.
            let is_recent = last.contains(&object.callable);
            let is_new = !is_recent && called.insert(object.callable);
            if !is_recent {
                let [first, _] = last;
                last = [object.callable, first];
            }
            let function = if is_new { tree.callable(object) } else { None };
            if let Some((module, name)) = function {
                names.add(module, name, Use::Called);
            }
            if function.is_some_and(|(module, name)| is_getter(module, name)) {
                attributes.getters.insert(object.callable);
            }
            if names.danger.is_none() {
                let function = match attributes.add(tree, id, object) {
                    None => function,
                    Some(true) => None,
                    Some(false) => tree.global(object.callable),
                };
                names.danger = danger(tree, object, function, &attributes, &mut seen);
            }
        }
        names
    }

    /// The names that are none of these.
    pub fn without(mut self, is_one: impl Fn(&str, &str) -> bool) -> Names {
        self.uses.retain(|(module, name), _| !is_one(module, name));
        self
    }

    /// Adds the names of another pickle.
    pub fn merge(&mut self, other: Names) {
        for ((module, name), use_) in other.uses {
            let entry = self.uses.entry((module, name)).or_insert(use_);
            *entry = (*entry).max(use_);
        }
        self.danger = self.danger.take().or(other.danger);
    }

    fn add(&mut self, module: &str, name: &str, use_: Use) {
        let entry = self.uses.entry((module.to_owned(), name.to_owned())).or_insert(use_);
        *entry = (*entry).max(use_);
    }

    /// Whether one of the names, by its module and itself, is such a one.
    pub fn has(&self, is_one: impl Fn(&str, &str) -> bool) -> bool {
        self.uses.keys().any(|(module, name)| is_one(module, name))
    }

    /// The names, each with its use, as people should see them.
    pub fn iter(&self) -> impl Iterator<Item = (String, Use)> {
        self.uses.iter().map(|((module, name), use_)| (shown(module, name), *use_))
    }

    /// The first dangerous call.
    pub fn danger(&self) -> Option<&Danger> {
        self.danger.as_ref()
    }

    /// Checks that the pickle calls nothing with which it can run any program. `loader` is the function that would run it,
    /// for the message.
    ///
    /// # Errors
    /// That of the first dangerous call, unless the rules are lenient.
    pub fn check_danger(&self, rules: &mut Rules, loader: &str) -> Result<()> {
        match self.danger() {
            Some(danger) => rules.mend(
                "pickle",
                "nothing is called, and what it would make is left out",
                danger.error(loader),
            ),
            None => Ok(()),
        }
    }

    /// The report of a scanner of pickles.
    pub fn note(&self) -> Option<String> {
        let all = |use_: Use| {
            let mut all: Vec<String> =
                self.iter().filter(|(_, own)| *own == use_).map(|(name, _)| name).collect();
            // What is worth a look comes first, so that it is never among those that are only counted.
            all.sort_by_key(|name| {
                ["torch.", "collections.", "__builtin__."].iter().any(|own| name.starts_with(own))
            });
            all
        };
        let [called, named] = [all(Use::Called), all(Use::Named)];
        let mut parts = Vec::new();
        if !called.is_empty() {
            parts.push(format!("calls {}", first_few(&called, SHOWN)));
        }
        if !named.is_empty() {
            parts.push(format!("names {}", first_few(&named, SHOWN)));
        }
        (!parts.is_empty()).then(|| format!("the pickle {}; nothing of it is run", parts.join(", and ")))
    }
}

impl Danger {
    /// The error of a pickle with such a call, which `loader` would run.
    pub fn error(&self, loader: &str) -> Error {
        let found = match &self.through {
            Some(through) => format!("{through}, which is given {}", self.name),
            None => self.name.clone(),
        };
        Error::unsupported("the pickle calls a function that can run any program")
            .found(found)
            .expected("tensors and plain values")
            .help(text![
                format!(
                    "nothing was run, but {loader} would run it: do not load the file, and ask for one from a \
                     source that you trust; to read the tensors beside it, use "
                ),
                Setting::READ_OPTION.of("lenient=true"),
            ])
    }
}

/// Attributes that a pickle gets of its objects and classes: bound methods. Nobody may call them.
#[derive(Default)]
struct Attributes {
    /// The functions that get them.
    getters: HashSet<Id>,
    all: HashSet<Id>,
}

impl Attributes {
    /// Adds the attribute that a call gets, and returns whether getting it is harmless, which differs from call to call;
    /// `None` if it is another call.
    fn add(&mut self, tree: &Tree, id: Id, object: Object) -> Option<bool> {
        if !self.getters.contains(&object.callable) {
            return None;
        }
        self.all.insert(id);
        Some(tree.attribute(object).is_some())
    }
}

/// What a call is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Given {
    Arguments,
    Keywords,
    State,
}

/// The danger of a call of a function that was not looked at, or with arguments that are dangerous. `seen` has the long
/// lists that other calls are given, too: each is looked at once.
fn danger(
    tree: &Tree,
    object: Object,
    function: Option<(&str, &str)>,
    attributes: &Attributes,
    seen: &mut HashSet<(Given, Id)>,
) -> Option<Danger> {
    const SHORT: usize = 8;
    let mut is_new = |given: Given, id: Id, len: usize| len <= SHORT || seen.insert((given, id));
    // Whoever is given an attribute may call it.
    let getter = |id: Id| attributes.all.contains(&id).then_some(("builtins", "getattr"));
    let named =
        |id: Id| tree.global(id).filter(|(module, name)| is_dangerous(module, name)).or_else(|| getter(id));
    if let Some((module, name)) = getter(object.callable) {
        return Some(Danger { name: format!("what {} returns", shown(module, name)), through: None });
    }
    if let Some((module, name)) = function.filter(|(module, name)| is_dangerous(module, name)) {
        return Some(Danger { name: shown(module, name), through: None });
    }
    let arguments = match tree.value(object.arguments) {
        Value::Tuple(list) if is_new(Given::Arguments, object.arguments, list.len()) => {
            Some(tree.items(list))
        }
        _ => None,
    };
    let keywords = match tree.value(object.keywords) {
        Value::Dict(list) if is_new(Given::Keywords, object.keywords, list.len()) => {
            Some(tree.entries(list).map(|(_, value)| value))
        }
        _ => None,
    };
    // A method such as __setstate__ that unpickling itself calls.
    let methods = object.state.and_then(|state| match tree.value(state) {
        Value::Dict(list) if is_new(Given::State, state, list.len()) => {
            Some(tree.entries(list).filter(|(key, _)| is_method(tree, *key)))
        }
        _ => None,
    });
    let mut methods = methods.into_iter().flatten().map(|(_, value)| value);
    let mut given = arguments.into_iter().flatten().chain(keywords.into_iter().flatten());
    // A state may be newer than its object, and so may an attribute in it.
    let method = |id: Id| {
        let object = tree.object(id).filter(|object| tree.is_attribute(*object));
        named(id).or_else(|| tree.global(object?.callable))
    };
    let (module, name) = given.find_map(named).or_else(|| methods.find_map(method))?;
    let called = tree.callable(object).map(|(module, name)| shown(module, name));
    Some(Danger { name: shown(module, name), through: called.or(Some("another call".to_owned())) })
}

fn is_method(tree: &Tree, key: Id) -> bool {
    tree.text(key).is_some_and(|key| key.len() > 4 && key.starts_with("__") && key.ends_with("__"))
}

/// A module and a name as one, in which nothing moves a terminal's cursor.
pub fn shown(module: &str, name: &str) -> String {
    const MOST: usize = 200;
    let all = format!("{module}.{name}").escape_debug().to_string();
    match all.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", all.get(..end).unwrap_or_default()),
        None => all,
    }
}
