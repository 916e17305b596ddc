//! Groups: the names of their members, and what they link to.

use super::header::Message;
use super::heap::{FractalHeap, LocalHeap};
use super::space::{Fields, Space};
use super::tree1::{self, Kind};
use super::tree2::{LINKS_BY_NAME, Tree};
use crate::format::message;
use ckpt_api::fields::{bytes, le, skip};
use ckpt_api::{Error, Result};
use nom::sequence::{preceded, terminated};

/// A member of a group.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// What a link leads to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The address of an object header.
    Hard(u64),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External(String),
    /// A kind of link that a program of its own resolves.
    UserDefined(u8),
}

/// Whether these are the messages of a group.
pub(crate) fn is_group(messages: &[Message]) -> bool {
    let of_groups = [message::SYMBOL_TABLE, message::LINK_INFO, message::LINK, message::GROUP_INFO];
    messages.iter().any(|message| of_groups.contains(&message.kind))
}

/// Lists the members of a group, sorted by name.
pub(crate) fn links(space: &Space<'_>, messages: &[Message]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in messages {
        match message.kind {
            message::SYMBOL_TABLE => symbol_table(space, message, &mut links)?,
            message::LINK => links.push(link(&mut message.fields()?)?),
            message::LINK_INFO => dense(space, message, &mut links)?,
            _ => {}
        }
    }
    links.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some([twice, _]) = links.windows(2).find(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        return Err(
            Error::corrupt("two members of a group have the same name").found(format!("'{}'", twice.name))
        );
    }
    Ok(links)
}

fn symbol_table(space: &Space<'_>, message: &Message, links: &mut Vec<Link>) -> Result<()> {
    let mut fields = message.fields()?;
    let tree = fields.some_address("a group's B-tree")?;
    let heap = LocalHeap::read(space, fields.some_address("a group's heap")?)?;
    tree1::walk(space, tree, Kind::Group, |_, node| symbols(space, &heap, node, links))
}

/// Reads a node of a symbol table.
fn symbols(space: &Space<'_>, heap: &LocalHeap, node: u64, links: &mut Vec<Link>) -> Result<()> {
    let head = space.block(node, 8, "a symbol table node")?;
    let mut fields = head.signed(*b"SNOD")?;
    fields.version("a symbol table node", &[1])?;
    let count = u64::from(fields.parse(preceded(skip(1), le::<u16>))?);
    let len = count.saturating_mul(24 + 2 * u64::from(space.sizes.address));
    let block = space.block(node.saturating_add(8), len, "a symbol table node")?;
    let mut fields = block.fields();
    for _ in 0..count {
        let name = heap.text(fields.number(space.sizes.address)?)?;
        space.spend(name.len() as u64)?;
        let at = fields.position();
        let object = fields.address()?;
        let (kind, scratch) = fields.parse((terminated(le::<u32>, skip(4)), bytes(16)))?;
        let target = match (kind, object) {
            (0 | 1, Some(object)) => Target::Hard(object),
            (2, _) => {
                let offset = Fields::new(scratch, at, space.sizes).parse(le::<u32>)?;
                Target::Soft(heap.text(offset.into())?)
            }
            _ => {
                return Err(Error::corrupt("a member of a group leads nowhere")
                    .offset(at)
                    .found(format!("'{name}'")));
            }
        };
        links.push(Link { name, target });
    }
    Ok(())
}

/// Reads a message that is one link.
fn link(fields: &mut Fields<'_>) -> Result<Link> {
    let at = fields.position();
    fields.version("a link", &[1])?;
    let flags = fields.parse(le::<u8>)?;
    let kind = if flags & 8 != 0 { fields.parse(le::<u8>)? } else { 0 };
    fields.skip(if flags & 4 != 0 { 8 } else { 0 })?;
    fields.skip(if flags & 16 != 0 { 1 } else { 0 })?;
    let len = fields.number(1 << (flags & 3))?;
    let name = text(fields, len)?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let target = match kind {
        0 => Target::Hard(fields.some_address("a link")?),
        1 => Target::Soft(shown(value(fields)?)),
        // Flags, the file's name and the object's, each with a NUL.
        64 => {
            let bytes = value(fields)?;
            let names = bytes.get(1..).unwrap_or_default().split(|byte| *byte == 0).next();
            Target::External(shown(names.unwrap_or_default()))
        }
        65.. => Target::UserDefined(kind),
        _ => return Err(Error::corrupt("a link has an unknown kind").offset(at).found(kind.to_string())),
    };
    Ok(Link { name, target })
}

/// Reads a length of 16 bits, and as many bytes.
fn value<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8]> {
    let len = fields.parse(le::<u16>)?;
    fields.bytes(len.into())
}

fn text(fields: &mut Fields<'_>, len: u64) -> Result<String> {
    let at = fields.position();
    String::from_utf8(fields.bytes(len)?.to_vec())
        .map_err(|_| Error::corrupt("a name is not UTF-8").offset(at))
}

/// Reads the links of a group that has so many that they have a heap of their own.
fn dense(space: &Space<'_>, message: &Message, links: &mut Vec<Link>) -> Result<()> {
    let mut fields = message.fields()?;
    fields.version("the information on links", &[0])?;
    let flags = fields.parse(le::<u8>)?;
    fields.skip(if flags & 1 != 0 { 8 } else { 0 })?;
    let Some(heap) = fields.address()? else { return Ok(()) };
    let tree = fields.some_address("the index of a group's links")?;
    let mut heap = FractalHeap::read(space, heap)?;
    Tree::read(space, tree, &[LINKS_BY_NAME])?.walk(space, |record| {
        record.skip(4)?;
        let id = record.bytes(heap.id_len())?;
        let (bytes, at) = heap.object(space, id)?;
        links.push(link(&mut Fields::new(&bytes, at, space.sizes))?);
        Ok(())
    })
}
