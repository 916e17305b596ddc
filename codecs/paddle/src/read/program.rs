//! The program beside the parameters of an inference model: it has their names, sorted, and the graph.

use crate::format::{JSON, NAMESPACE, OLD_PROGRAM, OLD_RECORDS, OPTION_PROGRAM, PROTOBUF, RECORDS};
use ckpt_api::{Contents, Error, Input, Limit, Limits, MetadataValue, MissingGraph, Options, Result, Tensor};
use ckpt_paddle_program::{Parameter, Program};

/// Key of metadata: the names of records, in their order.
const KEY_NAMES: &str = "names";

/// Names the tensors of records, and reads the graph, if there is a program.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for an option that does not fit; those of the file system.
pub(super) fn read(contents: &mut Contents, input: &Input, options: &Options, limits: &Limits) -> Result<()> {
    let name = match options.text(OPTION_PROGRAM) {
        Some(name) if !input.has_file(name) => {
            return Err(Error::usage("the program is not beside the parameters")
                .field(OPTION_PROGRAM)
                .found(name.to_owned())
                .expected("the name of a file in the same folder"));
        }
        Some(name) => Some(name.to_owned()),
        None => beside(input.entry()).into_iter().find(|name| input.has_file(name)),
    };
    let Some(name) = name else {
        contents.add_notes(["no program is beside the parameters, so that they have no names".to_owned()]);
        return Ok(());
    };
    let file = input.file(&name)?;
    limits.check(Limit::TextBytes, file.len()).map_err(|error| error.file(file.name()))?;
    let bytes = file.bytes(0, file.len())?;
    let program = Program::parse(&bytes, limits).and_then(|program| {
        check(program.parameters(), &contents.checkpoint.tensors)?;
        Ok(program)
    });
    let shown = name.escape_debug();
    let program = match program {
        Ok(program) => program,
        Err(reason) => {
            contents.add_notes([format!("'{shown}' does not name the parameters: {reason}")]);
            return Ok(());
        }
    };
    let names: Vec<String> = program.parameters().iter().map(|own| own.name.clone()).collect();
    contents.checkpoint.metadata.insert(
        NAMESPACE,
        KEY_NAMES,
        MetadataValue::List(names.iter().map(|name| name.as_str().into()).collect()),
    );
    apply(contents, names);
    match program.graph(&mut contents.checkpoint.tensors) {
        Ok(graph) => contents.checkpoint.graph = Some(graph),
        Err(reason) => {
            contents.checkpoint.tensors.iter_mut().for_each(|tensor| tensor.axes = None);
            let reason = format!("'{shown}': {reason}").into();
            contents.missing_graph = Some(MissingGraph { reason, is_unstated: false, help: None });
        }
    }
    Ok(())
}

/// Gives records the names that metadata keeps.
pub(crate) fn rename(contents: &mut Contents, metadata: &ckpt_api::Metadata) -> Option<()> {
    let names = metadata.value(NAMESPACE, KEY_NAMES)?.as_list()?;
    let names = names.iter().map(|name| name.as_text().map(str::to_owned)).collect::<Option<Vec<_>>>()?;
    (names.len() == contents.checkpoint.tensors.len()).then(|| apply(contents, names))
}

fn apply(contents: &mut Contents, names: Vec<String>) {
    let tensors = contents.checkpoint.tensors.iter_mut().zip(&mut contents.placements);
    for ((tensor, placement), name) in tensors.zip(names) {
        tensor.name = name.as_str().into();
        placement.name = tensor.name.clone();
    }
}

/// Checks that the parameters of a program are the records.
fn check(parameters: &[Parameter], tensors: &[Tensor]) -> std::result::Result<(), String> {
    if parameters.len() != tensors.len() {
        return Err(format!(
            "it has {}, and the file {}",
            ckpt_api::count(parameters.len() as u64, "parameter"),
            ckpt_api::count(tensors.len() as u64, "record")
        ));
    }
    let mut pairs = parameters.iter().zip(tensors);
    match pairs.find(|(own, tensor)| own.shape.as_ref().is_some_and(|shape| shape[..] != tensor.shape[..])) {
        Some((own, tensor)) => Err(format!(
            "'{}' has the shape {:?}, and record {} {}",
            own.name.escape_debug(),
            own.shape.as_deref().unwrap_or_default(),
            tensor.name,
            tensor.shape
        )),
        None => Ok(()),
    }
}

/// Names that the program of a file may have.
fn beside(entry: &str) -> Vec<String> {
    match entry.strip_suffix(RECORDS) {
        Some(stem) => [JSON, PROTOBUF].map(|ending| format!("{stem}{ending}")).to_vec(),
        None if entry == OLD_RECORDS => vec![OLD_PROGRAM.to_owned()],
        None => Vec::new(),
    }
}
