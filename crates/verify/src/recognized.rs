//! Finds the graph of a checkpoint that stores none: the built-in architecture whose tensor names it has.

use super::graphs::in_file;
use super::options::{NamedMapping, Options};
use super::report::{Report, Run};
use ckpt_api::{Error, Limits, Result, Setting, first_few, text};
use ckpt_architectures::{Described, Signature, Template};
use ckpt_engine::formats::{Formats, GraphForm};
use ckpt_engine::mapping::Mapping;
use ckpt_engine::recipe::Target;
use ckpt_engine::source::{Configuration, Source, template_choices};
use ckpt_engine::words::printable;
use std::collections::HashMap;

/// Two checkpoints to compare.
pub(super) struct Prepared {
    pub(super) a: Source,
    pub(super) b: Source,
    /// Whether one of them has the names of an architecture in place of its own.
    pub(super) is_renamed: bool,
    /// Why an architecture was not used.
    refusals: Vec<Refusal>,
    /// What the tensors of each are made of, by the name that a mapping gives them.
    origins: [Origins; 2],
}

/// An architecture that was not used.
struct Refusal {
    source: Source,
    error: Error,
}

type Origins = HashMap<String, String>;

/// The names that a source is recognized by.
struct Named {
    source: Source,
    template: Template,
    /// The mapping that gives it the names.
    mapping: Option<String>,
    /// What the source itself states of the model.
    configuration: Option<Configuration>,
    origins: Origins,
}

/// Returns the source with the graph of the architecture whose names it has, or a built-in mapping gives it; `None` if
/// it has a graph, or no such names.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for parameters that neither the tensors nor the configuration show;
/// [`ckpt_api::Kind::Unsupported`] for a model that only has the names of an architecture.
pub(super) fn with_graph(formats: &Formats, source: &Source) -> Result<Option<Source>> {
    if source.checkpoint().graph.is_some() {
        return Ok(None);
    }
    named(formats, source, None)?.map(|named| by_configuration(named, source)).transpose()
}

/// Returns the source with the graph of the architecture whose names it has itself; `None` if it has a graph, or no such names.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for parameters that neither the tensors nor the configuration show;
/// [`ckpt_api::Kind::Unsupported`] for a model that only has the names of an architecture.
pub fn with_graph_of_own_names(source: &Source) -> Result<Option<Source>> {
    if source.checkpoint().graph.is_some() {
        return Ok(None);
    }
    let named = recognized(source).map(|template| Named::new(source.clone(), template));
    named.map(|named| by_configuration(named, source)).transpose()
}

fn by_configuration(named: Named, source: &Source) -> Result<Source> {
    let limits = &source.options().limits;
    let configuration = named.configuration(source, limits)?;
    named.described(configuration.as_ref(), limits)
}

/// Gives both checkpoints the graphs of the architectures whose names they have, if neither lacks one then; `None` if
/// they have graphs already, or not both get one.
pub(super) fn prepare(formats: &Formats, a: &Source, b: &Source, options: &Options) -> Option<Prepared> {
    if a.checkpoint().graph.is_some() && b.checkpoint().graph.is_some() {
        return None;
    }
    let mapping = options.mapping.as_ref();
    let inverse = mapping.and_then(|given| {
        let mapping = given.mapping.inverse().ok()?;
        Some(NamedMapping { name: given.name.clone(), mapping })
    });
    let unchanged = |errors: [Option<Error>; 2]| {
        let refusals = [a, b].into_iter().zip(errors);
        let refusals =
            refusals.filter_map(|(source, error)| Some(Refusal { source: source.clone(), error: error? }));
        let (a, b) = (a.clone(), b.clone());
        Prepared { a, b, is_renamed: false, refusals: refusals.collect(), origins: Default::default() }
    };
    let found =
        [(a, mapping), (b, inverse.as_ref())].map(|(source, mapping)| match source.checkpoint().graph {
            Some(_) => Ok(Some(None)),
            None => named(formats, source, mapping).map(|named| named.map(Some)),
        });
    let [of_a, of_b] = match found {
        [Ok(Some(a)), Ok(Some(b))] => [a, b],
        [Ok(_), Ok(_)] => return None,
        [a, b] => return Some(unchanged([a.err(), b.err()])),
    };
    let configurations = [(a, &of_a), (b, &of_b)].map(|(source, named)| match named {
        Some(named) => named.configuration(source, &options.limits),
        None => Ok(None),
    });
    let is_renamed = [&of_a, &of_b].into_iter().flatten().any(|named| named.mapping.is_some());
    let origins =
        [&of_a, &of_b].map(|named| named.as_ref().map(|named| named.origins.clone()).unwrap_or_default());
    let [a_config, b_config] = match configurations {
        [Ok(a), Ok(b)] => [a, b],
        [a, b] => return Some(unchanged([a.err(), b.err()])),
    };
    // Both are the same model.
    let described = |named: Option<Named>, source: &Source, own: &Option<Configuration>, other| match named {
        Some(named) => named.described(own.as_ref().or(other), &options.limits),
        None => Ok(source.clone()),
    };
    let a_described = described(of_a, a, &a_config, b_config.as_ref());
    let b_described = described(of_b, b, &b_config, a_config.as_ref());
    Some(match (a_described, b_described) {
        (Ok(a), Ok(b)) => Prepared { a, b, is_renamed, refusals: Vec::new(), origins },
        (a, b) => unchanged([a.err(), b.err()]),
    })
}

/// Finds the architecture whose names a source has, or gets by the mapping, or, without one, by its kind of models or a built-in
/// mapping.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a model of a kind without an architecture; whatever its kind needs and the source does not
/// state.
fn named(formats: &Formats, source: &Source, mapping: Option<&NamedMapping>) -> Result<Option<Named>> {
    if let Some(template) = recognized(source) {
        return Ok(Some(Named::new(source.clone(), template)));
    }
    let by = |name: &str, mapping: &Mapping| {
        let (renamed, targets) = source.renamed(mapping, &source.options().limits).ok()?;
        let template = recognized(&renamed)?;
        Some(Named::new(renamed, template).by_mapping(name, &targets))
    };
    if let Some(given) = mapping {
        return Ok(by(&given.name, &given.mapping));
    }
    let of_kind = named_by_kind(formats, source);
    if let Ok(Some(named)) = of_kind {
        return Ok(Some(named));
    }
    let names_of = |signature: &Signature| {
        signature.mappings().iter().find_map(|name| by(name, &formats.mapping(name)?))
    };
    match Signature::automatic().find_map(|signature| names_of(&signature)) {
        Some(named) => Ok(Some(named)),
        None => of_kind,
    }
}

/// Finds the architecture of a model under the names and the configuration of its kind; `None` for a source that is no model.
fn named_by_kind(formats: &Formats, source: &Source) -> Result<Option<Named>> {
    let form = formats.model_kinds().map(|kinds| kinds.graph_form(formats, source)).transpose()?.flatten();
    let Some(GraphForm { mapping, exclude, configuration }) = form else { return Ok(None) };
    let limits = &source.options().limits;
    let (renamed, targets) = match &mapping {
        Some(mapping) => source.without(&exclude).renamed(mapping, limits)?,
        None => (source.clone(), Vec::new()),
    };
    let signature = Signature::recognized(&renamed.checkpoint().tensors, |_| Some(configuration.clone()));
    let template = signature.and_then(|signature| signature.template()).ok_or_else(|| {
        let model_type = configuration.get("model_type").and_then(|name| name.as_str()).unwrap_or_default();
        Error::unsupported("no graph is known for this family of models")
            .field("model_type")
            .found(format!("'{}'", printable(model_type)))
            .help(text!["describe its graph in a file, and pass it with ", Setting::ARCHITECTURE])
    })?;
    let named = Named { configuration: Some(configuration), ..Named::new(renamed, template) };
    Ok(Some(match mapping.as_ref().and_then(Mapping::origin) {
        Some(origin) => named.by_mapping(origin, &targets),
        None => named,
    }))
}

fn recognized(source: &Source) -> Option<Template> {
    let recognized = Signature::recognized(&source.checkpoint().tensors, |signature| {
        signature.configuration(source.input(), &source.options().limits).ok().flatten()
    });
    recognized?.template()
}

/// The tensors that a target is made of, and how.
fn origin(target: &Target) -> String {
    let (sources, steps) = (first_few(target.sources.iter(), 4), target.recipe.describe());
    if steps.is_empty() { sources } else { format!("{sources}: {steps}") }
}

impl Prepared {
    /// Adds notes on what was not used to a report.
    ///
    /// # Errors
    /// Why an architecture was not used, if nothing else was compared.
    pub(super) fn complete(self, report: &mut Report) -> Result<()> {
        self.explain(&mut report.runs);
        let is_empty = report.tensors.as_ref().is_some_and(|tensors| tensors.difference.tensors.is_empty());
        for Refusal { source, error } in self.refusals {
            if is_empty {
                return Err(in_file(&source)(error));
            }
            report.notes.push(note(&source, error).into());
        }
        Ok(())
    }

    /// Adds to each tensor of the layers what it is made of.
    fn explain(&self, runs: &mut [Run]) {
        let [of_a, of_b] = &self.origins;
        for pair in runs.iter_mut().flat_map(|run| &mut run.layers).flat_map(|layer| &mut layer.tensors) {
            for (side, origins) in [(&mut pair.a, of_a), (&mut pair.b, of_b)] {
                let Some(side) = side else { continue };
                side.stored_as = origins.get(&side.name).cloned();
            }
        }
    }
}

impl Named {
    fn new(source: Source, template: Template) -> Self {
        Named { source, template, mapping: None, configuration: None, origins: Origins::new() }
    }

    /// The same, with its names given by a mapping.
    fn by_mapping(self, name: &str, targets: &[Target]) -> Self {
        let origins = targets.iter().map(|target| (target.name.clone(), origin(target))).collect();
        Named { mapping: Some(name.to_owned()), origins, ..self }
    }

    /// The configuration that the source states, or that is beside it.
    fn configuration(&self, source: &Source, limits: &Limits) -> Result<Option<Configuration>> {
        match &self.configuration {
            Some(stated) => Ok(Some(stated.clone())),
            None => self.template.configuration(source.input(), limits),
        }
    }

    fn described(self, configuration: Option<&Configuration>, limits: &Limits) -> Result<Source> {
        let choices = template_choices(self.source.options());
        let described =
            self.template.describe(&self.source.checkpoint().tensors, configuration, &choices, limits)?;
        self.refuse_others(&described)?;
        let mut contents = self.source.contents().clone();
        described.apply(&self.template, &mut contents);
        contents
            .graph_notes
            .extend(self.mapping.map(|name| format!("its tensors are named by the mapping {name}").into()));
        Ok(self.source.with_contents(contents))
    }

    /// Fails for a model that has weights beyond those of the architecture: it computes something else.
    fn refuse_others(&self, described: &Described) -> Result<()> {
        if described.unused.is_empty() {
            return Ok(());
        }
        let name = self.template.name();
        Err(Error::unsupported(format!(
            "the tensors are named as those of architecture {name}, which does not use all of them"
        ))
        .found(format!("also {}", first_few(described.unused.iter(), 4)))
        .help(text![
            format!("to run it without these tensors, name the architecture {name} with "),
            Setting::ARCHITECTURE
        ]))
    }
}

/// The note on an architecture that was not used.
fn note(source: &Source, error: Error) -> String {
    let shown = source.shown();
    let error = error.in_words(&*source.options().vocabulary);
    let context = error.context();
    let mut note = format!("{shown}: {}", error.message());
    for detail in [context.found, context.help].into_iter().flatten() {
        note += &format!("; {detail}");
    }
    note
}
