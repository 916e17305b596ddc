//! The values that a pickle describes.

mod typed;

use super::arena::Arena;
use super::feed::Held;
use super::id::{Constant, Id};
use super::list::{List, Lists};
use super::opcode as op;
use ckpt_api::{Error, Result};

/// Memory that a tree and its pickle may take for each byte of the pickle, and whatever its size.
const BYTES_PER_BYTE: u64 = 8;
const FREE_BYTES: u64 = 16 << 20;
/// Classes and functions whose names a tree has at hand. Picklers name each one once.
const NAMED: u32 = 256;

/// What an [`Id`] stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// `None`.
    None,
    /// `True` and `False`.
    Bool(bool),
    /// An integer of at most 64 bits.
    Int(i64),
    /// An integer of more than 64 bits: its two's complement, little-endian.
    Long(&'a [u8]),
    /// A float.
    Float(f64),
    /// A `str`.
    Text(&'a str),
    /// `bytes`, `bytearray`, or a `str` of Python 2 that is no UTF-8.
    Bytes(&'a [u8]),
    /// Bytes that were left out ([`super::Feed::leaving_out`]): offset from the pickle's first byte on, and how many.
    Apart(u64, u64),
    /// A tuple.
    Tuple(List),
    /// A list.
    List(List),
    /// A set, also a frozen one.
    Set(List),
    /// Keys and values; [`Tree::entries`] lists them.
    Dict(List),
    /// A class or function: its module and its qualified name.
    Global(&'a str, &'a str),
    /// What Python would call.
    Object(Object),
    /// An object that is outside of the pickle, by its id.
    Persistent(Id),
    /// A buffer that is outside of the pickle (protocol 5).
    Buffer,
}

impl From<Constant> for Value<'_> {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::None => Value::None,
            Constant::Bool(flag) => Value::Bool(flag),
            Constant::Int(number) => Value::Int(number),
        }
    }
}

/// What Python would call, and what it would do with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The class or function.
    pub callable: Id,
    /// A tuple.
    pub arguments: Id,
    /// Keyword arguments (a dict), or `None`.
    pub keywords: Id,
    /// What `BUILD` sets; `None` if nothing does.
    pub state: Option<Id>,
    /// Elements that were appended.
    pub items: List,
    /// Keys and values that were set, alternating.
    pub entries: List,
}

/// What is stored for an id: 16 bytes.
#[derive(Clone, Copy, Debug)]
enum Node {
    Int(i64),
    Float(f64),
    /// Ranges of the pickle.
    Long(u32, u32),
    Text(u32, u32),
    Bytes(u32, u32),
    /// Index of `Tree::apart`.
    Apart(u32),
    /// Indexes of `Tree::decoded`.
    Decoded(u32),
    Tuple(List),
    List(List),
    Set(List),
    Dict(List),
    /// Module and name, and the index of [`Tree::named`], which the first ones have.
    Global(Id, Id, u32),
    Object(u32),
    Persistent(Id),
    Buffer,
}

/// Text or bytes that do not stand in the pickle as they are.
#[derive(Debug)]
pub enum Decoded {
    /// A `str`.
    Text(String),
    /// `bytes`.
    Bytes(Vec<u8>),
    /// Two's complement, little-endian.
    Long(Vec<u8>),
}

/// A pickle's values.
#[derive(Debug)]
pub struct Tree {
    /// What of the pickle is held.
    pickle: Held,
    /// Bytes that are not held: see [`Value::Apart`].
    apart: Vec<(u64, u64)>,
    nodes: Arena<Node>,
    lists: Lists,
    objects: Arena<Object>,
    decoded: Vec<Decoded>,
    decoded_bytes: u64,
    /// Modules and names of the first classes and functions: reading a text checks its UTF-8 each time.
    named: Vec<(String, String)>,
    /// Ids of those that come next in `named`.
    unnamed: Vec<(Id, Id)>,
    root: Id,
    end: u64,
}

impl Tree {
    /// The tree with room for more values: see [`Builder::into_tree`].
    pub fn into_builder(self) -> Builder {
        Builder(self)
    }

    /// The value of the whole pickle.
    pub fn root(&self) -> Id {
        self.root
    }

    /// Offset in the file of the first byte after the pickle.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Offset in the file of the pickle's first byte.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(self.pickle_bytes()).saturating_sub(self.pickle.left_out())
    }

    /// Where a text or bytes stand in the pickle: the first byte, and how many. `None` if they are written with
    /// escapes.
    pub fn range_of(&self, id: Id) -> Option<(u32, u32)> {
        match self.node(id)? {
            Node::Text(at, len) | Node::Bytes(at, len) => Some((*at, *len)),
            _ => None,
        }
    }

    /// Where the bytes of a text or of bytes are, also if they were left out: the offset from the pickle's first byte on,
    /// and how many. `None` as for [`Tree::range_of`].
    pub fn place_of(&self, id: Id) -> Option<(u64, u64)> {
        match self.node(id)? {
            Node::Apart(index) => self.apart.get(*index as usize).copied(),
            _ => self.range_of(id).map(|(at, len)| (self.pickle.offset(at), len.into())),
        }
    }

    /// Where the byte of this index of [`Tree::pickle`] is in the whole pickle.
    pub fn offset_of(&self, at: u32) -> u64 {
        self.pickle.offset(at)
    }

    /// Whether such a range is a string of Python 2, which is bytes.
    pub fn is_string(&self, (at, len): (u32, u32)) -> bool {
        let before =
            |count: u32| at.checked_sub(count).map(|start| self.range(start, count)).unwrap_or_default();
        let short = u8::try_from(len).is_ok_and(|len| before(2) == [op::SHORT_BINSTRING, len]);
        short || before(5).split_first() == Some((&op::BINSTRING, &len.to_le_bytes()[..]))
    }

    /// The bytes of such a range.
    pub fn raw(&self, (at, len): (u32, u32)) -> &[u8] {
        self.range(at, len)
    }

    /// The pickle itself, without what was left out.
    pub fn pickle(&self) -> &[u8] {
        &self.pickle.bytes
    }

    /// Bytes of the pickle, without those that were left out.
    pub fn pickle_bytes(&self) -> u64 {
        self.pickle.bytes.len() as u64
    }

    /// Ids of all values that are not stored in their ids, in the order in which the pickle describes them.
    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(0)).map(Id::node)
    }

    /// The number of those.
    pub fn value_count(&self) -> usize {
        self.nodes.len()
    }

    /// A small number for each of [`Tree::ids`], for tables of what is known of values; `None` for other ids.
    pub fn index(&self, id: Id) -> Option<usize> {
        id.index().map(|index| index as usize)
    }

    /// What an id stands for.
    pub fn value(&self, id: Id) -> Value<'_> {
        if let Some(constant) = id.constant() {
            return constant.into();
        }
        // Ids are only made for nodes.
        match self.node(id).unwrap_or(&Node::Buffer) {
            Node::Int(number) => Value::Int(*number),
            Node::Float(number) => Value::Float(*number),
            Node::Long(at, len) => Value::Long(self.range(*at, *len)),
            // The machine checked that it is UTF-8.
            Node::Text(at, len) => {
                Value::Text(std::str::from_utf8(self.range(*at, *len)).unwrap_or_default())
            }
            Node::Bytes(at, len) => Value::Bytes(self.range(*at, *len)),
            Node::Apart(index) => {
                self.apart.get(*index as usize).map_or(Value::Buffer, |(at, len)| Value::Apart(*at, *len))
            }
            Node::Decoded(index) => match self.decoded.get(*index as usize) {
                Some(Decoded::Text(text)) => Value::Text(text),
                Some(Decoded::Bytes(bytes)) => Value::Bytes(bytes),
                Some(Decoded::Long(bytes)) => Value::Long(bytes),
                None => Value::Buffer,
            },
            Node::Tuple(list) => Value::Tuple(*list),
            Node::List(list) => Value::List(*list),
            Node::Set(list) => Value::Set(*list),
            Node::Dict(list) => Value::Dict(*list),
            Node::Global(module, name, index) => {
                let (module, name) = self.names(*module, *name, *index);
                Value::Global(module, name)
            }
            Node::Object(index) => {
                self.objects.get(*index).map_or(Value::Buffer, |object| Value::Object(*object))
            }
            Node::Persistent(id) => Value::Persistent(*id),
            Node::Buffer => Value::Buffer,
        }
    }

    /// The values of a list.
    pub fn items(&self, list: List) -> impl Iterator<Item = Id> {
        self.lists.items(list)
    }

    /// The last value of a list.
    pub fn last(&self, list: List) -> Option<Id> {
        self.lists.last(list)
    }

    /// The pairs of a list of keys and values.
    pub fn entries(&self, list: List) -> impl Iterator<Item = (Id, Id)> {
        let mut items = self.items(list);
        (0..list.len() / 2).map_while(move |_| Some((items.next()?, items.next()?)))
    }

    fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(id.index()?)
    }

    fn names(&self, module: Id, name: Id, index: u32) -> (&str, &str) {
        match self.named.get(index as usize) {
            Some((module, name)) => (module, name),
            None => (self.text(module).unwrap_or_default(), self.text(name).unwrap_or_default()),
        }
    }

    /// Puts the names of the first classes and functions at hand.
    fn name(mut self) -> Self {
        let own = |id: Id| self.text(id).unwrap_or_default().to_owned();
        let names: Vec<_> = self.unnamed.iter().map(|(module, name)| (own(*module), own(*name))).collect();
        self.named.extend(names);
        self.unnamed.clear();
        self
    }

    fn range(&self, at: u32, len: u32) -> &[u8] {
        let rest = self.pickle.bytes.get(at as usize..).unwrap_or_default();
        rest.get(..len as usize).unwrap_or_default()
    }
}

/// A tree that is being made.
#[derive(Debug)]
pub struct Builder(Tree);

impl Default for Builder {
    fn default() -> Self {
        Builder::new()
    }
}

impl Builder {
    /// A tree without values.
    pub fn new() -> Self {
        Builder(Tree {
            pickle: Held::default(),
            apart: Vec::new(),
            nodes: Arena::default(),
            lists: Lists::default(),
            objects: Arena::default(),
            decoded: Vec::new(),
            decoded_bytes: 0,
            named: Vec::new(),
            unnamed: Vec::new(),
            root: Id::NONE,
            end: 0,
        })
    }

    /// The tree of a pickle that ends at `end` in its file.
    pub(super) fn finish(mut self, pickle: Held, root: Id, end: u64) -> Tree {
        (self.0.pickle, self.0.root, self.0.end) = (pickle, root, end);
        self.0.name()
    }

    /// The tree of the same pickle, with the values that were added.
    pub fn into_tree(self) -> Tree {
        self.0.name()
    }

    /// Puts the value of `to` in the place of `id`, which everything that refers to `id` then means.
    pub fn replace(&mut self, id: Id, to: Id) {
        let value = self.0.node(to).copied();
        if let Some((place, value)) = id.index().and_then(|index| self.0.nodes.get_mut(index)).zip(value) {
            *place = value;
        }
    }

    /// Checks the memory of the tree and of `other` bytes after so many bytes of the pickle.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for more than 8 times as many.
    pub fn check_memory(&self, taken: usize, other: usize) -> Result<()> {
        let tree = &self.0;
        let arenas = tree.nodes.bytes() + tree.lists.bytes() + tree.objects.bytes();
        let found =
            arenas + tree.decoded_bytes + size_of_val(&tree.apart[..]) as u64 + (taken + other) as u64;
        if found <= BYTES_PER_BYTE * taken as u64 + FREE_BYTES {
            return Ok(());
        }
        Err(Error::limit("the values of the pickle take too much memory")
            .found(ckpt_api::count(found, "byte"))
            .expected(format!("at most {BYTES_PER_BYTE} times the pickle's own size")))
    }

    fn node(&mut self, node: Node) -> Result<Id> {
        self.0.nodes.push(node).map(Id::node).ok_or_else(too_many)
    }

    /// Adds an integer.
    ///
    /// # Errors
    /// As all functions that add a value: [`ckpt_api::Kind::Limit`] for more values than can be counted.
    pub fn int(&mut self, number: i64) -> Result<Id> {
        Id::small(number).map_or_else(|| self.node(Node::Int(number)), Ok)
    }

    /// Adds a float.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn float(&mut self, number: f64) -> Result<Id> {
        self.node(Node::Float(number))
    }

    /// Adds an integer of more than 64 bits, which is a range of the pickle.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn long(&mut self, (at, len): (u32, u32)) -> Result<Id> {
        self.node(Node::Long(at, len))
    }

    /// Adds a range of the pickle that is UTF-8.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn text(&mut self, (at, len): (u32, u32)) -> Result<Id> {
        self.node(Node::Text(at, len))
    }

    /// Adds a range of the pickle that is bytes.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn bytes(&mut self, (at, len): (u32, u32)) -> Result<Id> {
        self.node(Node::Bytes(at, len))
    }

    /// Adds bytes that are not held, by their offset from the pickle's first byte on.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn apart(&mut self, (offset, len): (u64, u64)) -> Result<Id> {
        let index = u32::try_from(self.0.apart.len()).map_err(|_| too_many())?;
        self.0.apart.push((offset, len));
        self.node(Node::Apart(index))
    }

    /// Adds text or bytes that the pickle does not have as they are.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn decoded(&mut self, value: Decoded) -> Result<Id> {
        let index = u32::try_from(self.0.decoded.len()).map_err(|_| too_many())?;
        let len = match &value {
            Decoded::Text(text) => text.len(),
            Decoded::Bytes(bytes) | Decoded::Long(bytes) => bytes.len(),
        };
        self.0.decoded_bytes += (size_of::<Decoded>() + len) as u64;
        self.0.decoded.push(value);
        self.node(Node::Decoded(index))
    }

    /// Adds a tuple.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn tuple(&mut self, items: &[Id]) -> Result<Id> {
        let list = self.list_of(items)?;
        self.node(Node::Tuple(list))
    }

    /// Adds a list.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn list(&mut self, items: &[Id]) -> Result<Id> {
        let list = self.list_of(items)?;
        self.node(Node::List(list))
    }

    /// Adds a set.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn set(&mut self, items: &[Id]) -> Result<Id> {
        let list = self.list_of(items)?;
        self.node(Node::Set(list))
    }

    /// Adds a dict of keys and values that alternate.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn dict(&mut self, items: &[Id]) -> Result<Id> {
        let list = self.list_of(items)?;
        self.node(Node::Dict(list))
    }

    /// Adds a class or function, by the texts that name its module and itself.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn global(&mut self, module: Id, name: Id) -> Result<Id> {
        let index = (self.0.named.len() + self.0.unnamed.len()) as u32;
        if index < NAMED {
            self.0.unnamed.push((module, name));
        }
        self.node(Node::Global(module, name, index))
    }

    /// Adds an object that is outside of the pickle, by its id.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn persistent(&mut self, id: Id) -> Result<Id> {
        self.node(Node::Persistent(id))
    }

    /// Adds a buffer that is outside of the pickle.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn buffer(&mut self) -> Result<Id> {
        self.node(Node::Buffer)
    }

    /// Adds a call.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn call(&mut self, callable: Id, arguments: Id, keywords: Id) -> Result<Id> {
        let (items, entries, state) = (List::EMPTY, List::EMPTY, None);
        let object = Object { callable, arguments, keywords, state, items, entries };
        let index = self.0.objects.push(object).ok_or_else(too_many)?;
        self.node(Node::Object(index))
    }

    /// Appends to a list or an object; returns whether it can be appended to.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn append(&mut self, to: Id, items: &[Id]) -> Result<bool> {
        self.extend(to, items, |node, objects| match node {
            Node::List(list) => Some(list),
            Node::Object(index) => objects.get_mut(*index).map(|object| &mut object.items),
            _ => None,
        })
    }

    /// Adds to a set or an object; returns whether it can be added to.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn add(&mut self, to: Id, items: &[Id]) -> Result<bool> {
        self.extend(to, items, |node, objects| match node {
            Node::Set(list) => Some(list),
            Node::Object(index) => objects.get_mut(*index).map(|object| &mut object.items),
            _ => None,
        })
    }

    /// Sets keys and values, which alternate, in a dict or an object; returns whether it has entries.
    ///
    /// # Errors
    /// See [`Builder::int`].
    pub fn set_items(&mut self, of: Id, items: &[Id]) -> Result<bool> {
        self.extend(of, items, |node, objects| match node {
            Node::Dict(list) => Some(list),
            Node::Object(index) => objects.get_mut(*index).map(|object| &mut object.entries),
            _ => None,
        })
    }

    /// Sets the state of an object that has none; returns whether it is one.
    pub fn build(&mut self, of: Id, state: Id) -> bool {
        let Some(Node::Object(index)) = self.0.node(of) else {
            return false;
        };
        let Some(object) = self.0.objects.get_mut(*index).filter(|object| object.state.is_none()) else {
            return false;
        };
        object.state = Some(state);
        true
    }

    /// Whether Python can hash it, as far as its type tells.
    pub fn can_be_key(&self, id: Id) -> bool {
        !matches!(self.0.node(id), Some(Node::List(_) | Node::Dict(_) | Node::Set(_)))
    }

    /// Whether it is a tuple.
    pub fn is_tuple(&self, id: Id) -> bool {
        matches!(self.0.node(id), Some(Node::Tuple(_)))
    }

    /// Whether it is a dict.
    pub fn is_dict(&self, id: Id) -> bool {
        matches!(self.0.node(id), Some(Node::Dict(_)))
    }

    /// Bytes of a text; `None` for anything else.
    pub fn text_len(&self, id: Id) -> Option<usize> {
        match self.0.node(id)? {
            Node::Text(_, len) => Some(*len as usize),
            Node::Decoded(index) => match self.0.decoded.get(*index as usize)? {
                Decoded::Text(text) => Some(text.len()),
                Decoded::Bytes(_) | Decoded::Long(_) => None,
            },
            _ => None,
        }
    }

    /// Whether Python could call it: a class or function, what another call returns, or what is outside of the pickle.
    pub fn is_callable(&self, id: Id) -> bool {
        matches!(self.0.node(id), Some(Node::Global(..) | Node::Object(_) | Node::Persistent(_)))
    }

    fn extend(
        &mut self,
        id: Id,
        items: &[Id],
        list: impl for<'a> Fn(&'a mut Node, &'a mut Arena<Object>) -> Option<&'a mut List>,
    ) -> Result<bool> {
        let Tree { nodes, objects, lists, .. } = &mut self.0;
        let node = id.index().and_then(|index| nodes.get_mut(index));
        let Some(list) = node.and_then(|node| list(node, objects)) else { return Ok(false) };
        lists.append(list, items).ok_or_else(too_many)?;
        Ok(true)
    }

    fn list_of(&mut self, items: &[Id]) -> Result<List> {
        let mut list = List::EMPTY;
        self.0.lists.append(&mut list, items).ok_or_else(too_many)?;
        Ok(list)
    }
}

fn too_many() -> Error {
    Error::limit("the pickle has too many values").expected("at most 2^31")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_16_bytes_and_an_id_4() {
        assert_eq!((size_of::<Node>(), size_of::<Id>()), (16, 4));
    }

    #[test]
    fn small_integers_keep_their_sign_in_an_id() {
        for number in [0, 1, -1, (1 << 29) - 1, -(1 << 29)] {
            assert_eq!(Id::small(number).and_then(Id::constant), Some(Constant::Int(number)));
        }
        assert_eq!((Id::small(1 << 29), Id::small(-(1 << 29) - 1)), (None, None));
        assert_eq!(Id::NONE.constant(), Some(Constant::None));
    }
}
