//! Finds the graph of a checkpoint that stores none: the built-in architecture whose tensor names it has.

use super::options::{NamedMapping, Options};
use super::report::Run;
use ckpt_api::{Error, Limits, Result, Setting, first_few, text};
use ckpt_architectures::{Described, Signature, Template};
use ckpt_engine::formats::Formats;
use ckpt_engine::mapping::Mapping;
use ckpt_engine::recipe::Target;
use ckpt_engine::source::{Configuration, Source, template_choices};
use std::collections::HashMap;

/// Two checkpoints to compare.
pub(super) struct Prepared {
    pub(super) a: Source,
    pub(super) b: Source,
    /// Whether one of them has the names of an architecture in place of its own.
    pub(super) is_renamed: bool,
    /// Why an architecture was not used.
    pub(super) notes: Vec<String>,
    /// What the tensors of each are made of, by the name that a mapping gives them.
    origins: [Origins; 2],
}

type Origins = HashMap<String, String>;

/// The names that a source is recognized by.
struct Named {
    source: Source,
    template: Template,
    /// The mapping that gives it the names.
    mapping: Option<String>,
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
    named(formats, source, None).map(|named| by_configuration(named, source)).transpose()
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
    with_own_names(source).map(|named| by_configuration(named, source)).transpose()
}

fn by_configuration(named: Named, source: &Source) -> Result<Source> {
    let limits = &source.options().limits;
    let configuration = named.template.configuration(source.input(), limits)?;
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
    let found = [(a, mapping), (b, inverse.as_ref())].map(|(source, mapping)| {
        source.checkpoint().graph.is_none().then(|| named(formats, source, mapping).ok_or(())).transpose()
    });
    let [Ok(of_a), Ok(of_b)] = found else { return None };
    let templates = [(a, &of_a), (b, &of_b)];
    let configurations = templates.map(|(source, named)| match named {
        Some(named) => named.template.configuration(source.input(), &options.limits),
        None => Ok(None),
    });
    let is_renamed = [&of_a, &of_b].into_iter().flatten().any(|named| named.mapping.is_some());
    let unchanged = |notes: Vec<String>| Prepared {
        a: a.clone(),
        b: b.clone(),
        is_renamed: false,
        notes,
        origins: Default::default(),
    };
    let origins =
        [&of_a, &of_b].map(|named| named.as_ref().map(|named| named.origins.clone()).unwrap_or_default());
    let [a_config, b_config] = match configurations {
        [Ok(a), Ok(b)] => [a, b],
        [Err(error), _] | [_, Err(error)] => return Some(unchanged(vec![note(a, error)])),
    };
    // Both are the same model.
    let described = |named: Option<Named>, source: &Source, own: &Option<Configuration>, other| match named {
        Some(named) => {
            named.described(own.as_ref().or(other), &options.limits).map_err(|error| note(source, error))
        }
        None => Ok(source.clone()),
    };
    let a_described = described(of_a, a, &a_config, b_config.as_ref());
    let b_described = described(of_b, b, &b_config, a_config.as_ref());
    Some(match (a_described, b_described) {
        (Ok(a), Ok(b)) => Prepared { a, b, is_renamed, notes: Vec::new(), origins },
        (a, b) => unchanged(a.err().into_iter().chain(b.err()).collect()),
    })
}

/// Finds the architecture whose names a source has, or gets by the mapping, or, without one, by a built-in mapping.
fn named(formats: &Formats, source: &Source, mapping: Option<&NamedMapping>) -> Option<Named> {
    if let Some(named) = with_own_names(source) {
        return Some(named);
    }
    let by = |name: &str, mapping: &Mapping| {
        let (renamed, targets) = source.renamed(mapping, &source.options().limits).ok()?;
        let template = recognized(&renamed)?;
        let origins = targets.iter().map(|target| (target.name.clone(), origin(target))).collect();
        Some(Named { source: renamed, template, mapping: Some(name.to_owned()), origins })
    };
    if let Some(given) = mapping {
        return by(&given.name, &given.mapping);
    }
    let names_of = |signature: &Signature| {
        signature.mappings().iter().find_map(|name| by(name, &formats.mapping(name)?))
    };
    Signature::automatic().find_map(|signature| names_of(&signature))
}

fn with_own_names(source: &Source) -> Option<Named> {
    let template = recognized(source)?;
    Some(Named { source: source.clone(), template, mapping: None, origins: Origins::new() })
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
    /// Adds to each tensor of the layers what it is made of.
    pub(super) fn explain(&self, runs: &mut [Run]) {
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
