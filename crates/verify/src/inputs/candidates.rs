//! Shapes of random inputs, of which some may not suit a network.
//!
//! A graph says which axes are free, not which lengths work: a state may have a batch of 1, and a network that halves its
//! image six times needs more than 32 pixels.

use super::values::{GivenValues, Inputs};
use ckpt_api::{Error, Graph, Kind, Result, text};
use ckpt_engine::settings;
use ckpt_engine::source::Source;
use ckpt_forward::{Parameters, default_shapes, shapes_of_length};
use std::collections::BTreeMap;

/// Lengths of free axes that are tried after the default ones.
const LENGTHS: [usize; 9] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

/// How many numbers the inputs have at most if their lengths are chosen here.
const MOST_NUMBERS: usize = 1 << 22;

type Shapes = BTreeMap<String, Vec<usize>>;

/// Shapes of a graph's inputs, in the order in which they are tried.
pub(crate) struct Candidates(Vec<Shapes>);

impl GivenValues {
    /// Returns the shapes to run the graph with, the first that it runs with: those of the given values, or else of random
    /// examples.
    pub(crate) fn shapes(
        &self,
        graph: &Graph,
        source: &Source,
        parameters: &dyn Parameters,
        inputs: &Inputs,
    ) -> Candidates {
        if self.0.is_empty() {
            return Candidates::random(graph, source, parameters, inputs);
        }
        let given = self.0.iter().map(|(name, input)| (name.clone(), input.value.shape.clone()));
        Candidates::of(given.collect())
    }
}

impl Candidates {
    pub(super) fn of(shapes: Shapes) -> Self {
        Candidates(vec![shapes])
    }

    /// Shapes of random inputs: of the number of examples that is wanted or of one, and of growing lengths unless one is
    /// given.
    pub(super) fn random(
        graph: &Graph,
        source: &Source,
        parameters: &dyn Parameters,
        inputs: &Inputs,
    ) -> Self {
        let shapes = |batch: usize, length: Option<usize>| {
            let mut shapes = match length {
                Some(length) => shapes_of_length(graph, parameters, batch, length),
                None => default_shapes(graph, parameters, batch),
            };
            for (name, example) in source.contents().example_shapes.iter().filter(|_| inputs.length.is_none())
            {
                let lens = shapes.get_mut(name).into_iter().flatten().zip(example);
                let known = lens.filter_map(|(len, known)| Some((len, usize::try_from((*known)?).ok()?)));
                known.for_each(|(len, known)| *len = known);
            }
            for input in &graph.inputs {
                for (axis, len) in shapes.get_mut(&input.name).into_iter().flatten().enumerate() {
                    let size = input.axis_name(axis).and_then(|name| inputs.sizes.get(name));
                    *len = size.copied().unwrap_or(*len);
                }
            }
            shapes
        };
        let mut candidates = vec![shapes(inputs.batch, inputs.length)];
        if inputs.batch > 1 {
            candidates.push(shapes(1, inputs.length));
        }
        if inputs.length.is_none() {
            let numbers = |shapes: &Shapes| {
                let product = |lens: &Vec<usize>| lens.iter().fold(1, |a: usize, b| a.saturating_mul(*b));
                shapes.values().map(product).fold(0, usize::saturating_add)
            };
            let batch = inputs.batch.min(1);
            // The free axis of a fixed state's batch may be another than the first.
            candidates.push(shapes(batch, Some(1)));
            let longer = LENGTHS.iter().map(|length| shapes(batch, Some(*length)));
            candidates.extend(longer.take_while(|shapes| numbers(shapes) <= MOST_NUMBERS));
        }
        candidates.dedup();
        Candidates(candidates)
    }

    /// Returns a value for each of the shapes.
    pub(crate) fn each<T>(&self, make: impl Fn() -> T) -> Vec<T> {
        self.0.iter().map(|_| make()).collect()
    }

    /// Returns what `build` makes of the first shapes that it does not refuse; it is given their place, too.
    ///
    /// # Errors
    /// That of the first shapes if there are no others, if it is [`Kind::Unsupported`], or if all are refused in the same words; or else
    /// [`Kind::Unsupported`]: it is the choice of the inputs that is wrong, not the graph.
    pub(crate) fn first<T>(&self, mut build: impl FnMut(usize, &Shapes) -> Result<T>) -> Result<T> {
        let mut refused: Vec<Error> = Vec::new();
        for (place, shapes) in self.0.iter().enumerate() {
            match build(place, shapes) {
                Ok(built) => return Ok(built),
                Err(error) => {
                    let is_of_shapes =
                        matches!(error.kind(), Kind::Corrupt | Kind::Usage | Kind::Unsupported);
                    refused.push(error);
                    if !is_of_shapes {
                        break;
                    }
                }
            }
        }
        let same = refused.windows(2).all(|pair| matches!(pair, [a, b] if words(a) == words(b)));
        match refused.into_iter().next() {
            Some(first) if same || first.kind() == Kind::Unsupported => Err(first),
            Some(first) => Err(none_runs(&first)),
            None => Err(no_shapes()),
        }
    }
}

/// What an error says.
fn words(error: &Error) -> (Kind, &str, [Option<&str>; 3]) {
    let context = error.context();
    (error.kind(), error.message(), [context.field, context.found, context.expected])
}

/// The error for a graph without shapes to run it with.
pub(crate) fn no_shapes() -> Error {
    Error::usage("there are no shapes to run the graph with")
}

fn none_runs(first: &Error) -> Error {
    let context = first.context();
    let place = context.field.map_or_else(String::new, |field| format!(" ('{field}')"));
    let found = context.found.map_or_else(String::new, |found| format!(": {found}"));
    let error = Error::unsupported("the graph runs on none of the random inputs that were tried")
        .found(format!("with the first of them, {}{place}{found}", first.message()))
        .help(text!["pass inputs of a shape that the model takes, with ", settings::INPUTS]);
    match context.file {
        Some(file) => error.file(file),
        None => error,
    }
}
