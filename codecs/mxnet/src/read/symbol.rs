//! The symbol beside a file of parameters.

use crate::format::{ENDING, OPTION_SHAPE, OPTION_SYMBOL, SYMBOL_ENDING};
use ckpt_api::{Contents, Error, Input, Limit, Limits, MissingGraph, Options, Result};

/// Digits of an epoch in the name of a file, at least.
const EPOCH_DIGITS: usize = 4;

/// Reads the graph of the symbol, if there is one.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for an option that does not fit; those of the file system.
pub(super) fn read(contents: &mut Contents, input: &Input, options: &Options, limits: &Limits) -> Result<()> {
    let stated = options.text(OPTION_SYMBOL);
    let shapes = ckpt_mxnet_symbol::stated_shapes(options.text(OPTION_SHAPE).unwrap_or_default())?;
    let name = match stated {
        Some(name) if !input.has_file(name) => {
            return Err(Error::usage("the symbol is not beside the parameters")
                .field(OPTION_SYMBOL)
                .found(name.to_owned())
                .expected("the name of a file in the same folder"));
        }
        Some(name) => Some(name.to_owned()),
        None => beside(input.entry()).into_iter().find(|name| input.has_file(name)),
    };
    let Some(name) = name else { return Ok(()) };
    let file = input.file(&name)?;
    limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(file.name()))?;
    let json = file.bytes(0, file.len())?;
    match ckpt_mxnet_symbol::read(&json, &mut contents.checkpoint.tensors, &shapes, limits) {
        Ok(graph) => contents.checkpoint.graph = Some(graph),
        Err(reason) => {
            contents.checkpoint.tensors.iter_mut().for_each(|tensor| tensor.axes = None);
            let reason = format!("'{}': {reason}", name.escape_debug()).into();
            contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
        }
    }
    Ok(())
}

/// Names that the symbol of a file may have: of `m-0003.params` first `m-symbol.json`.
fn beside(entry: &str) -> Vec<String> {
    let Some(stem) = entry.strip_suffix(ENDING) else { return Vec::new() };
    let epoch = stem.rsplit_once('-').filter(|(_, epoch)| {
        epoch.len() >= EPOCH_DIGITS && epoch.bytes().all(|digit| digit.is_ascii_digit())
    });
    let stems = epoch.map(|(stem, _)| stem).into_iter().chain([stem]);
    stems.map(|stem| format!("{stem}{SYMBOL_ENDING}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_has_the_name_of_its_parameters_without_the_epoch() {
        assert_eq!(beside("m-0003.params"), ["m-symbol.json", "m-0003-symbol.json"]);
        assert_eq!(beside("m-12345.params"), ["m-symbol.json", "m-12345-symbol.json"]);
        assert_eq!(beside("m-v2.params"), ["m-v2-symbol.json"]);
        assert_eq!(beside("m.bin"), Vec::<String>::new());
    }
}
