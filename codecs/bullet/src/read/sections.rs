//! raw.bin, quantised.bin and engine files, whose sections only the architecture knows.

use super::reader::Reader;
use super::{compare, engine, fit};
use crate::format::{
    Content, ID, KEY_ID, KEY_INEXACT, KEY_NETWORK, KEY_NUMBER, KEY_PADDING, KEY_QUANTISED, Padding,
    QUANTISED, RAW, encoding, extent, padded,
};
use crate::net::architecture::Architecture;
use crate::net::entry::{Entry, EntryType};
use crate::net::layout::Layout;
use crate::net::parameter::Parameter;
use crate::net::section::Section;
use crate::net::sections::{Sections, sections};
use ckpt_api::{DType, Encoding, Error, File, FileId, MetadataValue, Quantization, Result, Role, Tensor};
use std::num::NonZeroU32;

/// Bytes read at once.
const CHUNK: u64 = 1 << 20;

/// The largest integer that division by its scale as a 32-bit float is sure to preserve: a float has 24 bits, of which
/// rounding costs one.
const MAX_EXACT: u32 = 1 << 23;

/// Reads the tensors of a file.
pub(super) fn read(reader: &mut Reader<'_>, name: &str, content: Content) -> Result<()> {
    let source = reader.input.file(name)?;
    if content == Content::Quantised && source.is_empty() {
        return Err(Error::corrupt("bullet could not quantize the net and left the file empty")
            .file(source.name())
            .found("0 bytes")
            .help("clip the weights or choose smaller scales, for a value did not fit its integer type; raw.bin and \
                   optimiser_state of the same checkpoint are complete"));
    }
    let architecture = reader.architecture.ok_or_else(|| fit::needs_architecture(&source))?;
    let sections = match content {
        Content::Engine => engine::check(architecture, &source)?,
        _ => check(reader, architecture, &source, content)?,
    };
    fit::check_weights(&source, &sections)?;
    let file = reader.add_file(name);
    for section in &sections.weights {
        read_section(reader, &source, file, section, content)?;
    }
    reader.parts.push(content);
    Ok(())
}

/// Checks a file that stores weights which another file of the directory provided.
pub(super) fn check_beside(reader: &mut Reader<'_>, content: Content) -> Result<()> {
    let network = reader.contents.checkpoint.metadata.text(ID, KEY_NETWORK).unwrap_or(QUANTISED).to_owned();
    let file = reader.input.file(if content == Content::Raw { RAW } else { &network })?;
    if content == Content::Quantised && file.is_empty() {
        reader.note(format!(
            "{network} is empty: bullet leaves it so if a value does not fit its integer type"
        ));
        reader.parts.push(Content::Failed);
        return Ok(());
    }
    match reader.architecture {
        Some(architecture) => {
            let sections = check(reader, architecture, &file, content)?;
            if reader.compares {
                let weights = compare::Weights::new(reader.input, &reader.contents);
                compare::compare(architecture, content, &file, &sections, &weights)?;
            }
        }
        None if reader.compares => return Err(fit::needs_architecture(&file)),
        None => {}
    }
    reader.parts.push(content);
    Ok(())
}

/// Checks that a file ends where its last entry does, and keeps which padding follows.
fn check<'a>(
    reader: &mut Reader<'_>,
    architecture: &'a Architecture,
    file: &File,
    content: Content,
) -> Result<Sections<'a>> {
    let sections = sections(architecture, content)?;
    let end = sections.end;
    fit::check_constants(file, &sections)?;
    fit::check_lengths(file, &sections)?;
    let expected = if content == Content::Quantised { padded(end) } else { end };
    if file.len() > expected {
        return Err(fit::too_long(file, end));
    }
    if file.len() < expected {
        return Err(Error::corrupt("the file is not padded to a multiple of 64 bytes")
            .file(file.name())
            .offset(end)
            .found(ckpt_api::count(file.len(), "byte"))
            .expected(ckpt_api::count(expected, "byte")));
    }
    let found = file.bytes(end, expected - end)?;
    match [Padding::Name, Padding::Zero].into_iter().find(|padding| padding.bytes(end) == found) {
        _ if found.is_empty() => {}
        Some(Padding::Name) => {}
        Some(Padding::Zero) => reader.keep(KEY_PADDING, Padding::Zero.name()),
        None => {
            return Err(Error::corrupt("the padding after the last entry does not follow bullet's format")
                .file(file.name())
                .offset(end)
                .found(format!("\"{}\"", found.escape_ascii()))
                .expected("the text bullet, repeated, or zeros")
                .help("the architecture may describe a different net"));
        }
    }
    Ok(sections)
}

fn read_section(
    reader: &mut Reader<'_>,
    source: &File,
    file: FileId,
    section: &Section<'_>,
    content: Content,
) -> Result<()> {
    let Section { entry, stored, dtype, .. } = section;
    let is_float = entry.kind == EntryType::I32 && !reader.keeps_integers && content != Content::Raw;
    let is_inexact = is_float && has_inexact(source, section)?;
    if is_inexact {
        reader.note(format!(
            "'{}' has integers that a 32-bit float cannot represent; integers=true keeps them",
            entry.id
        ));
    }
    if let Some(merged) = section.merged {
        reader.note(format!("'{merged}' is merged into '{}' and cannot be separated from it", entry.id));
    }
    reader.has_integers |= content != Content::Raw && entry.scale.is_some();
    let mut offset = section.offset;
    for parameter in &stored.parts {
        let name = section.tensor_name(parameter);
        let mut tensor = parameter.tensor(&name);
        tensor.metadata.insert(ID, KEY_ID, parameter.id.as_str());
        if section.is_copy {
            tensor.role = Role::Duplicate;
            tensor.metadata.insert(ID, KEY_NUMBER, MetadataValue::integer(section.number));
        }
        let encoding = match content {
            Content::Raw => encoding(DType::F32, parameter.order(false)),
            _ => quantised(entry, parameter, &mut tensor, reader.keeps_integers)?,
        };
        if is_inexact {
            tensor.metadata.insert(ID, KEY_INEXACT, MetadataValue::from(true));
        }
        // The section is within the file, and the parameters are within the section.
        let len = parameter.elements().saturating_mul(dtype.bytes().unwrap_or(1));
        reader.add_tensor(tensor, &name, extent(file, offset, len), encoding);
        offset = offset.saturating_add(len);
    }
    Ok(())
}

/// Returns the encoding of a parameter in quantised.bin or an engine file, and describes the tensor accordingly.
fn quantised(
    entry: &Entry,
    parameter: &Parameter,
    tensor: &mut Tensor,
    keeps_integers: bool,
) -> Result<Encoding> {
    let mut encoding = encoding(entry.kind.dtype(), parameter.order(entry.transpose));
    if let Some(layout) = Layout::of(entry, parameter)? {
        let axes: Vec<usize> = (0..parameter.shape.rank()).collect();
        encoding = layout.apply(encoding, &axes);
    }
    match entry.scale.filter(|_| keeps_integers) {
        Some(scale) => {
            tensor.dtype = entry.kind.dtype();
            tensor.quantization = Some(Quantization::Units { scale });
        }
        None => encoding.set_scaling(entry.scaling()),
    }
    if entry.scale.is_some() || entry.merge.is_some() {
        let scale = entry.scale.map_or(0, NonZeroU32::get);
        tensor.metadata.insert(ID, KEY_QUANTISED, MetadataValue::integer(scale.into()));
    }
    Ok(encoding)
}

/// Whether a section has 32-bit integers that floats may not preserve.
fn has_inexact(file: &File, section: &Section<'_>) -> Result<bool> {
    let end = section.offset.saturating_add(section.len);
    let mut at = section.offset;
    while at < end {
        let bytes = file.bytes(at, (end - at).min(CHUNK))?;
        let mut integers = bytes.as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes));
        if integers.any(|integer| integer.unsigned_abs() > MAX_EXACT) {
            return Ok(true);
        }
        at = at.saturating_add(CHUNK);
    }
    Ok(false)
}
