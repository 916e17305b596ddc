//! Attributes of groups and datasets.

use super::header::Message;
use super::heap::{FractalHeap, GlobalHeap};
use super::message::Dataspace;
use super::space::{Fields, Space};
use super::tree2::{ATTRIBUTES_BY_NAME, Tree};
use crate::datatype::{Datatype, Described};
use crate::format::message;
use crate::tree::{Attribute, AttributeValue};
use ckpt_api::fields::{le, numbers};
use ckpt_api::{Endian, Error, Result};

/// Reads the attributes of an object, sorted by name. One whose datatype is not read is there, too.
pub(crate) fn attributes(
    space: &Space<'_>,
    heap: &mut GlobalHeap,
    messages: &[Message],
) -> Result<Vec<Attribute>> {
    let mut attributes = Vec::new();
    for message in messages {
        match message.kind {
            message::ATTRIBUTE => attributes.push(attribute(space, heap, message)?),
            message::ATTRIBUTE_INFO => dense(space, heap, message, &mut attributes)?,
            _ => {}
        }
    }
    attributes.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some([twice, _]) = attributes.windows(2).find(|pair| matches!(pair, [a, b] if a.name == b.name)) {
        return Err(Error::corrupt("two attributes of an object have the same name")
            .found(format!("'{}'", twice.name)));
    }
    Ok(attributes)
}

/// Reads attributes that have a heap of their own.
fn dense(
    space: &Space<'_>,
    texts: &mut GlobalHeap,
    message: &Message,
    attributes: &mut Vec<Attribute>,
) -> Result<()> {
    let mut fields = message.fields()?;
    fields.version("the information on attributes", &[0])?;
    let flags = fields.parse(le::<u8>)?;
    fields.skip(if flags & 1 != 0 { 2 } else { 0 })?;
    let Some(heap) = fields.address()? else { return Ok(()) };
    let tree = fields.some_address("the index of an object's attributes")?;
    let mut heap = FractalHeap::read(space, heap)?;
    Tree::read(space, tree, &[ATTRIBUTES_BY_NAME])?.walk(space, |record| {
        let id = record.bytes(heap.id_len())?;
        let (bytes, at) = heap.object(space, id)?;
        let message = Message::new(message::ATTRIBUTE, bytes, at, space.sizes);
        attributes.push(attribute(space, texts, &message)?);
        Ok(())
    })
}

fn attribute(space: &Space<'_>, heap: &mut GlobalHeap, message: &Message) -> Result<Attribute> {
    let mut fields = message.fields()?;
    let version = fields.version("an attribute", &[1, 2, 3])?;
    let (shared, lens) = fields.parse((le::<u8>, numbers::<u16, 3>(Endian::Little)))?;
    let [name, datatype, dataspace] = lens.map(u64::from);
    fields.skip(if version == 3 { 1 } else { 0 })?;
    let mut part = |len: u64| {
        let at = fields.position();
        let padded = if version == 1 { len.next_multiple_of(8) } else { len };
        let bytes = fields.bytes(padded)?;
        Ok::<_, Error>((bytes.get(..len as usize).unwrap_or(bytes), at))
    };
    let (name, at) = part(name)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = name.get(..end).and_then(|name| String::from_utf8(name.to_vec()).ok());
    let name = name.ok_or_else(|| Error::corrupt("the name of an attribute is not UTF-8").offset(at))?;
    let (datatype, datatype_at) = part(datatype)?;
    let (dataspace, dataspace_at) = part(dataspace)?;
    if version > 1 && shared & 3 != 0 {
        let other = Datatype::Other("a committed datatype");
        return Ok(Attribute { name, value: AttributeValue::Other(other) });
    }
    let described = Described::read(&mut Fields::new(datatype, datatype_at, space.sizes))?;
    let dataspace = Dataspace::read(&mut Fields::new(dataspace, dataspace_at, space.sizes), space.limits)?;
    let value = value(space, heap, described, &dataspace, &mut fields).map_err(|error| error.field(&name))?;
    Ok(Attribute { name, value })
}

fn value(
    space: &Space<'_>,
    heap: &mut GlobalHeap,
    described: Described,
    dataspace: &Dataspace,
    fields: &mut Fields<'_>,
) -> Result<AttributeValue> {
    let Some(shape) = &dataspace.shape else { return Ok(AttributeValue::Other(described.datatype)) };
    let count = shape.elements();
    // Of what is no text, the values are of no use; but no elements are no elements.
    let is_text = matches!(described.datatype, Datatype::Text | Datatype::FixedText { .. });
    if shape.rank() > 1 || !(is_text || count == 0) {
        return Ok(AttributeValue::Other(described.datatype));
    }
    if count.checked_mul(described.size.into()).is_none_or(|len| len > fields.remaining()) {
        return Err(Error::corrupt("an attribute is cut short")
            .offset(fields.position())
            .found(ckpt_api::count(fields.remaining(), "byte"))
            .expected(format!("{count} elements of {}", ckpt_api::count(described.size, "byte"))));
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(match described.datatype {
            Datatype::FixedText { size, has_spaces } => fixed_text(fields.bytes(size.into())?, has_spaces),
            _ => heap_text(space, heap, fields)?,
        });
    }
    match (shape.rank(), texts.pop()) {
        (0, Some(text)) => Ok(AttributeValue::Text(text)),
        (_, last) => {
            texts.extend(last);
            Ok(AttributeValue::Texts(texts))
        }
    }
}

fn heap_text(space: &Space<'_>, heap: &mut GlobalHeap, fields: &mut Fields<'_>) -> Result<Vec<u8>> {
    let len = u64::from(fields.parse(le::<u32>)?);
    let address = fields.address()?;
    let number = fields.parse(le::<u32>)?;
    let Some(address) = address.filter(|address| *address != 0 && len > 0) else { return Ok(Vec::new()) };
    let bytes = heap.object(space, address, number, len)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Ok(bytes.get(..end).unwrap_or_default().to_vec())
}

fn fixed_text(bytes: &[u8], has_spaces: bool) -> Vec<u8> {
    let padding = if has_spaces { b' ' } else { 0 };
    let end = match has_spaces {
        true => bytes.iter().rposition(|byte| *byte != padding).map_or(0, |last| last + 1),
        false => bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()),
    };
    bytes.get(..end).unwrap_or_default().to_vec()
}
