//! Writes raw.bin, quantised.bin and engine files.

use super::bind::Binding;
use super::context::{Context, missing};
use super::output::Output;
use crate::format::{Content, RAW, WEIGHTS, encoding, padded};
use crate::net::architecture::Architecture;
use crate::net::entry::Entry;
use crate::net::layout::Layout;
use crate::net::parameter::Parameter;
use crate::net::section::Section;
use crate::net::sections::sections;
use ckpt_api::{Added, DType, Encoding, Error, FileId, Result, Rounding, Scaling, Setting, text};

/// Adds a file with this content.
pub(super) fn write(
    context: &Context<'_>,
    output: &mut Output,
    content: Content,
    architecture: &Architecture,
) -> Result<()> {
    let is_quantised = content == Content::Quantised;
    let sections = sections(architecture, content)?;
    let end = sections.end;
    let name = context.target.path("", if is_quantised { context.network() } else { RAW });
    let file = output.add_file(name, if is_quantised { padded(end) } else { end });
    if content == Content::Engine {
        require_engine(architecture)?;
    }
    for constant in &sections.constants {
        output.add_block(file, constant.offset, constant.bytes.to_vec());
    }
    for section in &sections.weights {
        write_section(context, output, file, section, content)?;
    }
    if is_quantised {
        output.add_block(file, end, context.padding.bytes(end));
    }
    Ok(())
}

fn require_engine(architecture: &Architecture) -> Result<()> {
    match &architecture.net.engine {
        Some(_) => Ok(()),
        None => Err(Error::usage("the architecture does not describe an engine file").help(text![
            "describe it under 'engine' in the architecture file, or name a profile: ",
            Setting::WRITE_OPTION.of("profile=plain")
        ])),
    }
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
        let source = source(context, section, parameter, content)?;
        match source {
            None => output.add_filled(WEIGHTS, &parameter.id),
            Some(source) => {
                let (encoding, added) = match content {
                    Content::Raw => (floats(source.binding)?, Vec::new()),
                    _ => quantised(context, &source, section.entry)?,
                };
                let name = section.tensor_name(parameter);
                output.add_tensor(source.binding, &name, (file, offset, len), encoding, added);
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

/// The values of a weight in an entry.
struct SectionSource<'c, 'a> {
    binding: &'c Binding<'a>,
    /// The entry that they were read from, if that is known.
    origin: Option<&'c Entry>,
    /// Whether they were read from this very entry, which is not the one that the weight was read from.
    is_copy: bool,
}

/// Returns the values to write into an entry: those that were read from it, or else the weight's; `None` for zeros.
fn source<'c, 'a>(
    context: &'c Context<'a>,
    section: &Section<'c>,
    parameter: &Parameter,
    content: Content,
) -> Result<Option<SectionSource<'c, 'a>>> {
    let copy = context.bindings.copy(&parameter.id, section.number);
    if let Some(binding) = copy.filter(|_| context.origin.has_copy(content, section.entry, section.number)) {
        return Ok(Some(SectionSource { binding, origin: Some(section.entry), is_copy: true }));
    }
    let binding = context.source_of(WEIGHTS, &parameter.id)?;
    Ok(binding.map(|binding| SectionSource {
        binding,
        origin: context.origin.entry(&parameter.id),
        is_copy: false,
    }))
}

/// Returns the encoding of a weight in quantised.bin or an engine file, and the tensor that is merged into it.
fn quantised(
    context: &Context<'_>,
    source: &SectionSource<'_, '_>,
    entry: &Entry,
) -> Result<(Encoding, Vec<Added>)> {
    let (binding, dtype) = (source.binding, entry.kind.dtype());
    let mut encoding = encoding(dtype, binding.order(entry.transpose)?);
    if let Some(parameter) = binding.parameter
        && let Some(layout) = Layout::of(entry, parameter)?
    {
        encoding = binding.lay_out(encoding, &layout)?;
    }
    let tensor = binding.source;
    let scale = tensor.scale();
    let is_clipped =
        source.origin.is_some_and(|origin| origin.limit() == entry.limit() && origin.scale == entry.scale);
    let limit = entry.limit().filter(|_| !is_clipped);
    if tensor.dtype == dtype && entry.scale.is_some() && scale == entry.scale && limit.is_none() {
        // The source has these very integers.
        return Ok((encoding, Vec::new()));
    }
    binding.require_f32()?;
    encoding.set_scaling(entry.scaling().map(|scaling| match binding.is_quantised_as(entry) {
        // integer / scale · scale may be slightly below the integer: truncation would lose one.
        true => Scaling { rounding: Rounding::Nearest, limit, ..scaling },
        false => Scaling { limit, ..scaling },
    }));
    let added = if source.is_copy { Vec::new() } else { merged(context, binding, entry)? };
    Ok((encoding, added))
}

/// Returns the tensor that is added to a weight before it is stored.
fn merged(context: &Context<'_>, binding: &Binding<'_>, entry: &Entry) -> Result<Vec<Added>> {
    let Some(id) = &entry.merge else { return Ok(Vec::new()) };
    match context.bindings.get(WEIGHTS, id) {
        Some(other) => {
            other.require_f32()?;
            Ok(vec![Added { tensor: other.tensor, axes: binding.broadcast(other)? }])
        }
        None if context.includes(binding, id) => Ok(Vec::new()),
        None => Err(missing(id)),
    }
}
