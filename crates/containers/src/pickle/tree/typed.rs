//! A value as what the caller takes it for: `None` if it is something else.

use super::{Node, Object, Tree, Value};
use crate::pickle::id::{Constant, Id};
use crate::pickle::list::List;
use crate::pickle::safety::{has_harmless, is_dangerous, is_getter};

impl Tree {
    /// The elements of a tuple or list; of a tuple with `N` elements, all of them.
    pub fn tuple<const N: usize>(&self, id: Id) -> Option<[Id; N]> {
        let Some(Node::Tuple(list) | Node::List(list)) = self.node(id) else { return None };
        if list.len() != N {
            return None;
        }
        let mut items = self.items(*list);
        let mut all = [Id::NONE; N];
        for item in &mut all {
            *item = items.next()?;
        }
        Some(all)
    }

    /// The value of a key that is a text, in a dict or in an object that entries were set in: the last one, which
    /// Python keeps. Takes time linear in the number of entries.
    pub fn entry(&self, id: Id, key: &str) -> Option<Id> {
        let entries = match self.node(id)? {
            Node::Dict(entries) => *entries,
            Node::Object(index) => self.objects.get(*index)?.entries,
            _ => return None,
        };
        let own = self.entries(entries).filter(|(own, _)| self.is_text(*own, key));
        own.last().map(|(_, value)| value)
    }

    /// A text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.value(id) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value is this text: faster than comparing [`Tree::text`].
    pub fn is_text(&self, id: Id, text: &str) -> bool {
        self.text_bytes(id) == Some(text.as_bytes())
    }

    /// The UTF-8 of a text.
    pub fn text_bytes(&self, id: Id) -> Option<&[u8]> {
        match self.node(id)? {
            Node::Text(at, len) => Some(self.range(*at, *len)),
            Node::Decoded(_) => self.text(id).map(str::as_bytes),
            _ => None,
        }
    }

    /// The id of what is outside of the pickle.
    pub fn persistent(&self, id: Id) -> Option<Id> {
        match self.node(id)? {
            Node::Persistent(id) => Some(*id),
            _ => None,
        }
    }

    /// An integer of at most 64 bits.
    pub fn int(&self, id: Id) -> Option<i64> {
        match (id.constant(), self.node(id)) {
            (Some(Constant::Int(number)), _) => Some(number),
            (None, Some(Node::Int(number))) => Some(*number),
            _ => None,
        }
    }

    /// Module and qualified name of a class or function.
    pub fn global(&self, id: Id) -> Option<(&str, &str)> {
        match self.node(id)? {
            Node::Global(module, name, index) => Some(self.names(*module, *name, *index)),
            _ => None,
        }
    }

    /// What Python would call.
    pub fn object(&self, id: Id) -> Option<Object> {
        match self.node(id)? {
            Node::Object(index) => self.objects.get(*index).copied(),
            _ => None,
        }
    }

    /// Module and name of what an object calls, also if the class is named by a persistent id, as files that hold
    /// whole modules do it before PyTorch 1.6.
    pub fn callable(&self, object: Object) -> Option<(&str, &str)> {
        let class = match self.value(object.callable) {
            Value::Persistent(id) => {
                let [kind, class, _, _] = self.tuple(id)?;
                self.text(kind).filter(|kind| *kind == "module").map(|_| class)?
            }
            _ => object.callable,
        };
        self.global(class)
    }

    /// Whether a call gets an attribute of something.
    pub fn is_attribute(&self, object: Object) -> bool {
        self.global(object.callable).is_some_and(|(module, name)| is_getter(module, name))
    }

    /// What an attribute belongs to, and its name: of an object or a class of the checkpoint, such as a bound method.
    /// `None` if getting it, or what is done with it, could run something.
    pub fn attribute(&self, object: Object) -> Option<(Id, &str)> {
        let [of, attribute] = self.tuple(object.arguments).filter(|_| self.is_attribute(object))?;
        let attribute = self.text(attribute)?;
        let is_untouched =
            object.state.is_none() && object.items == List::EMPTY && object.entries == List::EMPTY;
        let is_harmless = match self.value(of) {
            Value::Global(module, name) => has_harmless(module, name, attribute),
            Value::Object(owner) => {
                !self.is_attribute(owner)
                    && self.callable(owner).is_some_and(|(module, name)| !is_dangerous(module, name))
            }
            _ => false,
        };
        (is_untouched && is_harmless && object.keywords == Id::NONE).then_some((of, attribute))
    }
}
