//! Writing: which files there will be, and where every tensor goes in each of them.

mod bind;
mod context;
mod losses;
mod origin;
mod output;
mod sections;
mod state;
mod target;

use crate::format::{Content, ID, KEY_LOG, LOG, QUANTISED, RAW, WEIGHTS};
use crate::net::architecture::Architecture;
use crate::resolve;
use bind::Bindings;
use ckpt_api::{
    Checkpoint, Error, LossKind, Options, OutputLayout, Placement, Reading, Result, Setting, text,
};
use context::Context;
use output::Output;
use target::Target;

/// Says where every tensor goes. See [`ckpt_api::Codec::place`].
pub(crate) fn place(checkpoint: &Checkpoint, name: &str, options: &Options) -> Result<OutputLayout> {
    let architecture = resolve::for_writing(checkpoint, options)?;
    let mut output = Output::default();
    let bindings = Bindings::new(checkpoint, architecture.as_ref(), &mut output.placed.losses)?;
    let target = Target::new(checkpoint, name, options, architecture.as_ref())?;
    target.check_options(options)?;
    let context = Context::new(checkpoint, options, architecture.as_ref(), bindings, target)?;
    write(&context, &mut output)?;
    losses::report(&context, &mut output);
    require_numbers(checkpoint, &output.placed)?;
    Ok(output.placed)
}

fn write(context: &Context<'_>, output: &mut Output) -> Result<()> {
    let target = &context.target;
    for content in &target.parts {
        match (content, context.architecture) {
            (Content::Failed, _) => {
                output.add_file(target.path("", context.network()), 0);
            }
            (Content::State, _) => write_state(context, output)?,
            (Content::Raw | Content::Quantised | Content::Engine, Some(architecture)) => {
                sections::write(context, output, *content, architecture)?;
                let name =
                    target.path("", if *content == Content::Quantised { context.network() } else { RAW });
                add_reading(context, output, *content, name)?;
            }
            (Content::Raw | Content::Quantised, None)
                if target.source_parts.is_some() && target.parts.contains(&Content::State) =>
            {
                let name = if *content == Content::Raw { RAW } else { QUANTISED };
                let why = "not written: deriving it from the weights needs an architecture";
                output.add_loss(LossKind::MetadataDropped, name, why);
            }
            (Content::Raw | Content::Quantised | Content::Engine, None) => {
                return Err(Error::usage(
                    "raw.bin, quantised.bin and engine files cannot be written without an architecture",
                )
                .help(text![
                    "describe the net in an architecture file, or name a preset, such as ",
                    Setting::WRITE_OPTION.of("arch=simple:768x32x1"),
                    "; ",
                    Setting::WRITE_OPTION.of("parts=state"),
                    " needs neither"
                ]));
            }
        }
    }
    if output.placed.files.is_empty() {
        return Err(Error::usage("the option parts names nothing to write").field("parts"));
    }
    if let Some(text) = context.checkpoint.metadata.text(ID, KEY_LOG).filter(|_| !target.is_single) {
        output.add_text(target.path("", LOG), text);
    }
    Ok(())
}

fn write_state(context: &Context<'_>, output: &mut Output) -> Result<()> {
    let target = &context.target;
    if target.is_single {
        let state = target.state.unwrap_or(WEIGHTS);
        state::write_file(context, output, state, target.entry())?;
    } else {
        state::write_folder(context, output)?;
    }
    add_reading(context, output, Content::State, target.entry())
}

/// Adds how a file is read back, for the file does not state it.
fn add_reading(context: &Context<'_>, output: &mut Output, content: Content, entry: String) -> Result<()> {
    let architecture = context.architecture.map(Architecture::to_file).transpose()?;
    let is_state = content == Content::State;
    let records = is_state.then_some(("records", context.form.name()));
    let content = (context.target.is_single || !is_state).then_some(("content", content.name()));
    let options = [records, content].into_iter().flatten();
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    output.placed.readings.push(Reading { entry, options, architecture });
    Ok(())
}

/// Refuses records and files without a number: bullet would load them silently and keep its initial values.
fn require_numbers(checkpoint: &Checkpoint, placed: &OutputLayout) -> Result<()> {
    let is_empty = |placement: &&Placement| placement.extents.iter().all(|extent| extent.len == 0);
    if let Some(placement) = placed.placements.iter().find(is_empty) {
        let tensor = checkpoint.tensors.get(placement.tensor.0).map_or("", |tensor| tensor.name.as_str());
        return Err(Error::unsupported("bullet cannot store an empty weight")
            .tensor(tensor)
            .help(text!["leave it out with ", Setting::EXCLUDE]));
    }
    if placed.placements.is_empty() {
        return Err(Error::unsupported("there is no weight to write"));
    }
    Ok(())
}
