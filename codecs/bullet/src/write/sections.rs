//! Writes raw.bin, quantised.bin and engine files.

use super::bind::Binding;
use super::context::{Context, missing};
use super::output::Output;
use crate::format::{Content, QUANTISED, RAW, WEIGHTS, encoding, padded};
use crate::net::architecture::Architecture;
use crate::net::entry::Entry;
use crate::net::layout::Layout;
use crate::net::section::{Section, sections};
use ckpt_api::{Added, DType, Encoding, Error, FileId, Result, Rounding, Scaling, Setting};

/// Adds a file with this content.
pub(super) fn write(
    context: &Context<'_>,
    output: &mut Output,
    content: Content,
    architecture: &Architecture,
) -> Result<()> {
    let is_quantised = content == Content::Quantised;
    let (sections, end) = sections(architecture, content)?;
    let name = context.target.path("", if is_quantised { QUANTISED } else { RAW });
    let file = output.add_file(name, if is_quantised { padded(end) } else { end });
    if content == Content::Engine {
        let engine = architecture.net.engine.as_ref().ok_or_else(|| {
            Error::usage("the architecture does not describe an engine file").help(format!(
                "describe it under 'engine' in the architecture file, or name a profile: {}",
                Setting::WriteOption("profile=plain")
            ))
        })?;
        output.add_block(file, 0, engine.header.0.clone());
    }
    for section in &sections {
        write_section(context, output, file, section, content)?;
    }
    if is_quantised {
        output.add_block(file, end, context.padding.bytes(end));
    }
    Ok(())
}

fn write_section(
    context: &Context<'_>,
    output: &mut Output,
    file: FileId,
    section: &Section<'_>,
    content: Content,
) -> Result<()> {
    let size = section.dtype.bytes().unwrap_or(1);
    let mut offset = section.offset;
    for parameter in &section.stored.parts {
        // The section's end fits into 64 bits, and the parameters are within the section.
        let len = parameter.elements().saturating_mul(size);
        match context.source_of(WEIGHTS, &parameter.id)? {
            None => output.add_filled(WEIGHTS, &parameter.id),
            Some(binding) => {
                let (encoding, added) = match content {
                    Content::Raw => (floats(binding)?, Vec::new()),
                    _ => quantised(context, binding, section.entry)?,
                };
                output.add_tensor(binding, &parameter.id, (file, offset, len), encoding, added);
            }
        }
        offset = offset.saturating_add(len);
    }
    Ok(())
}

/// Returns the encoding of a tensor of 32-bit floats, column by column.
pub(super) fn floats(binding: &Binding<'_>) -> Result<Encoding> {
    binding.require_f32()?;
    Ok(encoding(DType::F32, binding.order(false)?))
}

/// Returns the encoding of a weight in quantised.bin or an engine file, and the tensor that is merged into it.
fn quantised(context: &Context<'_>, binding: &Binding<'_>, entry: &Entry) -> Result<(Encoding, Vec<Added>)> {
    let (source, dtype) = (binding.source, entry.kind.dtype());
    let mut encoding = encoding(dtype, binding.order(entry.transpose)?);
    if let Some(parameter) = binding.parameter
        && let Some(layout) = Layout::of(entry, parameter)?
    {
        encoding = binding.lay_out(encoding, &layout)?;
    }
    let scale = source.quantization.as_ref().map(|quantization| quantization.scale);
    let was_clipped = context
        .clipped
        .iter()
        .any(|other| other.id == entry.id && other.limit() == entry.limit() && other.scale == entry.scale);
    let limit = entry.limit().filter(|_| !was_clipped);
    if source.dtype == dtype && entry.scale.is_some() && scale == entry.scale && limit.is_none() {
        // The source has these very integers.
        return Ok((encoding, Vec::new()));
    }
    binding.require_f32()?;
    encoding.scaling = entry.scaling().map(|scaling| match binding.is_quantised_as(entry) {
        // integer / scale · scale may be slightly below the integer: truncation would lose one.
        true => Scaling { rounding: Rounding::Nearest, limit, ..scaling },
        false => Scaling { limit, ..scaling },
    });
    Ok((encoding, merged(context, binding, entry)?))
}

/// Returns the tensor that is added to a weight before it is stored.
fn merged(context: &Context<'_>, binding: &Binding<'_>, entry: &Entry) -> Result<Vec<Added>> {
    let Some(id) = &entry.merge else { return Ok(Vec::new()) };
    match context.bindings.get(WEIGHTS, id) {
        Some(other) => {
            other.require_f32()?;
            Ok(vec![Added { tensor: other.tensor, axes: binding.broadcast(other)? }])
        }
        // The values include it already.
        None if binding.quantised().is_some() => Ok(Vec::new()),
        None => Err(missing(id)),
    }
}
