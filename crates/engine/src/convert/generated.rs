//! What a mapping that is made of a graph adds to a conversion: its remarks, and the program beside the output.

use super::Conversion;
use crate::formats::{Formats, RegisteredMapping};
use crate::map::Mapped;
use crate::mapping::{Generated, Translation};
use crate::source::ModelGraph;
use crate::store::Destination;
use crate::words::{printable, quote};
use ckpt_api::{Error, FileId, Literal, LossKind, OutputFile, OutputLayout, Result};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Layers that the note on training names.
const SHOWN: usize = 8;

/// A program that is written beside the output.
pub(super) struct Code {
    name: String,
    text: String,
}

impl Code {
    /// Adds the program to the files of the output: all of them appear, or none.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for the name of another file of the output.
    pub(super) fn place(self, placed: &mut OutputLayout) -> Result<()> {
        if placed.files.iter().any(|file| file.name == self.name) {
            return Err(
                Error::usage("the generated code has the name of a file of the output").file(self.name)
            );
        }
        let file = FileId(placed.files.len());
        let bytes = self.text.into_bytes();
        placed.files.push(OutputFile::new(self.name, bytes.len() as u64));
        placed.literals.push(Literal { file, offset: 0, bytes });
        Ok(())
    }
}

/// The program that a conversion asks for.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`], naming the layer that has no form in the target's framework; [`ckpt_api::Kind::Usage`] for a name
/// that is not beside the output.
pub(super) fn code(
    conversion: &Conversion,
    generated: &Generated,
    translation: &mut Translation,
    output: &Destination,
) -> Result<Option<Code>> {
    let Some(given) = &conversion.code else { return Ok(None) };
    let path = Path::new(given);
    let parent = |path: &Path| path.parent().map(Path::to_path_buf).unwrap_or_default();
    let location = output.store.location().map(std::path::PathBuf::from);
    let is_beside =
        parent(path).as_os_str().is_empty() || location.is_some_and(|own| same(&own, &parent(path)));
    let name = path.file_name().and_then(|name| name.to_str()).filter(|_| is_beside);
    let Some(name) = name else {
        return Err(Error::usage("the generated code is written beside the output")
            .field("code")
            .found(quote(given))
            .expected("the name of a file, such as model.py"));
    };
    if generated.is_inverse {
        let framework = generated.generator.target_framework();
        return Err(
            Error::usage(format!("only a conversion to {framework} has generated code")).field("code")
        );
    }
    let text = std::mem::replace(&mut translation.code, Ok(String::new()))?;
    Ok(Some(Code { name: name.to_owned(), text }))
}

fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Refuses a program where no mapping makes one.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`].
pub(super) fn check_none(conversion: &Conversion, formats: &Formats) -> Result<()> {
    let Some(name) = &conversion.code else { return Ok(()) };
    let has_code = |mapping: &&RegisteredMapping| match mapping {
        RegisteredMapping::Generated(generator) => generator.needs_graph(),
        RegisteredMapping::File { .. } => false,
    };
    let generated = formats.mappings().filter(has_code);
    let names: Vec<&str> = generated.map(RegisteredMapping::name).collect();
    Err(Error::usage("only a mapping that is made of a graph has generated code")
        .field("code")
        .found(quote(name))
        .help(format!("convert with the mapping {}, or leave out the code", names.join(" or "))))
}

/// Checks that the way back makes every tensor of the checkpoint that gives the names, in its shape.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for one that is not made, or in another shape.
pub(super) fn check(
    translation: &Translation,
    model: &ModelGraph,
    mapped: &mut Mapped,
    file: &str,
) -> Result<()> {
    let left_out: HashSet<&str> =
        translation.mapping.ignore.iter().filter_map(|ignore| ignore.pattern.as_literal()).collect();
    let contents = Arc::make_mut(&mut mapped.contents);
    model.check(&mut contents.checkpoint, None, (file, &|name| left_out.contains(name)))
}

/// Adds what the graph shows to what mapping found. The program states conventions, which are lost without it. On the way
/// back, the graph shows the order of each image: nothing has to be guessed from shapes.
pub(super) fn report(translation: &Translation, generated: &Generated, mapped: &mut Mapped, has_code: bool) {
    if generated.is_inverse {
        mapped.losses.retain(|loss| loss.kind != LossKind::Convention);
        return;
    }
    mapped.losses.extend(translation.losses.iter().cloned());
    let contents = Arc::make_mut(&mut mapped.contents);
    if !contents.training_only.is_empty() {
        let layers = contents.training_only.iter().map(|layer| printable(layer));
        let layers = ckpt_api::first_few(layers, SHOWN);
        let framework = generated.generator.target_framework();
        contents
            .notes
            .push(format!("{framework} gets nothing of what acts only in training: {layers}").into());
    }
    contents.add_notes(translation.dtype_note.clone());
    if has_code {
        mapped.losses.retain(|loss| loss.kind != LossKind::Convention);
        return;
    }
    mapped.losses.extend(translation.conventions.iter().cloned());
    let notes = translation.notes.iter().cloned();
    Arc::make_mut(&mut mapped.contents).add_notes(notes);
}
