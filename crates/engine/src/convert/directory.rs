//! Models that are written as a directory.

use super::Conversion;
use crate::registry::Registry;
use crate::source::Source;
use crate::store::Destination;
use ckpt_api::{Error, FormatInfo, OutputLayout, Result, text};

/// What the name of an index ends with, after that of the main file.
const INDEX: &str = ".index.json";
/// Files that an error lists.
const SHOWN: u64 = 3;

impl Conversion {
    /// The same conversion to a directory, if the source is a model and the output's name is that of a directory: it has no
    /// extension that a format claims.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for a directory that holds other files, unless they may be replaced.
    pub(super) fn as_directory(
        &self,
        registry: &Registry,
        source: &Source,
        output: &Destination,
    ) -> Result<Self> {
        let mut conversion = self.clone();
        if self.to.is_none() {
            let format = registry.directory_format(source.input(), &output.name)?;
            conversion.directory |= format.is_some();
            conversion.to = format.map(str::to_owned);
        }
        if conversion.directory {
            check_empty(output, self.overwrite)?;
        }
        Ok(conversion)
    }

    /// What the codec calls its main file: what the output is called, or the file of a directory that other programs open.
    pub(super) fn file_name<'a>(&'a self, info: &FormatInfo, output: &'a Destination) -> &'a str {
        match self.main_file.as_deref().or(info.directory_file).filter(|_| self.directory) {
            Some(name) => name,
            None => &output.name,
        }
    }
}

/// Puts the files of an output into a directory.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a format that other programs do not open in a directory.
pub(super) fn enter(info: &FormatInfo, output: &Destination, placed: &mut OutputLayout) -> Result<()> {
    let Some(main) = info.directory_file else {
        return Err(Error::usage("a model of this format is no directory")
            .found(format!("format '{}'", info.id))
            .help("name the output with the format's extension"));
    };
    let directory = output.name.trim_end_matches('/');
    check_stale(main, directory, output, placed)?;
    if directory.is_empty() {
        return Ok(());
    }
    let within = |name: &mut String| *name = format!("{directory}/{name}");
    placed.files.iter_mut().for_each(|file| within(&mut file.name));
    placed.readings.iter_mut().for_each(|reading| within(&mut reading.entry));
    Ok(())
}

/// Refuses a directory where a file of other tensors stays, which programs would open in place of those that are written.
fn check_stale(main: &str, directory: &str, output: &Destination, placed: &OutputLayout) -> Result<()> {
    let index = format!("{main}{INDEX}");
    let path =
        |name: &str| if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
    let is_written = |name: &str| placed.files.iter().any(|file| file.name == name);
    let stale = [main, &index].into_iter().find(|name| !is_written(name) && output.store.has(&path(name)));
    match stale {
        None => Ok(()),
        Some(name) => Err(Error::usage("the output's directory has the tensors of another model")
            .file(output.store.display(&path(name)))
            .found("a file that is not replaced, and that other programs would open")
            .help("remove it, or choose another directory")),
    }
}

/// Refuses a directory with files, unless they may be replaced.
pub(super) fn check_empty(output: &Destination, overwrite: bool) -> Result<()> {
    let directory = output.name.trim_end_matches('/');
    if overwrite || !output.store.has_directory(directory) {
        return Ok(());
    }
    let mut names = output.store.list(directory, SHOWN)?;
    names.retain(|name| !name.starts_with('.'));
    if names.is_empty() {
        return Ok(());
    }
    names.sort();
    Err(Error::usage("the output's directory is not empty")
        .file(output.store.display(directory))
        .found(ckpt_api::first_few(names.iter().map(String::as_str), 3))
        .help(text![
            "choose another directory; ",
            crate::settings::OVERWRITE,
            " replaces files of the same names, and leaves the others"
        ]))
}
