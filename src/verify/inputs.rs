//! What goes into the graphs: arrays from files, chess positions, or numbers that look random.

use super::chess::{self, Position};
use super::idx;
use super::parameters::SourceParameters;
use super::report::InputSummary;
use crate::registry::Registry;
use crate::source::{OpenOptions, Source};
use ckpt_api::{Checkpoint, Error, Graph, Input, Limits, Result};
use ckpt_forward::{Array, Numbers, Parameters, Program, Value, default_shapes};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What goes into the graphs. Without files and positions: numbers that look random.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Arrays.
    pub files: Vec<InputFile>,
    /// What the numbers of the files are divided by, in binary32: 255 makes 0..1 of bytes.
    pub divide: Option<f32>,
    /// Positions for chess networks.
    pub positions: Vec<Position>,
    /// Of the random numbers.
    pub seed: u64,
    /// Examples, where inputs are random.
    pub batch: usize,
}

impl Default for Inputs {
    fn default() -> Self {
        Inputs { files: Vec::new(), divide: None, positions: Vec::new(), seed: 0, batch: 8 }
    }
}

/// A file of arrays: any format that can be read, or IDX.
#[derive(Clone, Debug, Default)]
pub struct InputFile {
    /// The input that it is for; where it is left out, by the arrays' names, or the only one that is left.
    pub input: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// The array of several in the file.
    pub key: Option<String>,
    /// Bounds on what the file may make the process do.
    pub limits: Limits,
}

/// Arrays for a graph's inputs, by name, and where they come from.
#[derive(Debug, Default)]
pub(super) struct Given {
    values: BTreeMap<String, (Value, String)>,
}

impl Inputs {
    /// Whether there is anything but random numbers.
    pub(super) fn are_given(&self) -> bool {
        !self.files.is_empty() || !self.positions.is_empty()
    }

    /// Reads what is to go into `checkpoint`'s graph. Real numbers stay in the type that they are stored in.
    pub(super) fn read(
        &self,
        registry: &Registry,
        checkpoint: &Checkpoint,
        graph: &Graph,
        memory: u64,
    ) -> Result<Given> {
        let mut given = Given::default();
        if !self.positions.is_empty() {
            for (name, (shape, indices)) in chess::inputs(checkpoint, &self.positions)? {
                let origin = crate::words::count(self.positions.len(), "chess position");
                given.values.insert(name, (Value::new(shape, Array::I32(indices))?, origin));
            }
        }
        for file in &self.files {
            let shown = file.path.display().to_string();
            self.read_file(registry, file, graph, memory, &mut given).map_err(|error| error.file(shown))?;
        }
        Ok(given)
    }

    fn read_file(
        &self,
        registry: &Registry,
        file: &InputFile,
        graph: &Graph,
        memory: u64,
        given: &mut Given,
    ) -> Result<()> {
        let shown = file.path.display().to_string();
        for (key, shape, array) in arrays(registry, file, memory)? {
            let array = match self.divide {
                Some(by) => divided(array, by),
                None => array,
            };
            let name = input_for(&key, file, graph, given)?;
            let input = graph.inputs.iter().find(|input| input.name == name);
            let shape = input.and_then(|input| fitted(&shape, &input.shape)).unwrap_or(shape);
            given.values.insert(name, (Value::new(shape, array)?, shown.clone()));
        }
        Ok(())
    }
}

/// The only array of a file, or the one that `file` names; `memory` bytes may be taken.
///
/// # Errors
/// [`ckpt_api::Kind::Usage`] for a file of several; whatever keeps it from being read.
pub fn read_array(registry: &Registry, file: &InputFile, memory: u64) -> Result<Value> {
    let shown = file.path.display().to_string();
    let mut arrays = arrays(registry, file, memory).map_err(|error| error.file(shown.as_str()))?;
    match (arrays.pop(), arrays.is_empty()) {
        (Some((_, shape, array)), true) => Value::new(shape, array),
        (last, _) => Err(Error::usage("the file has not one array")
            .file(shown)
            .found((arrays.len() + usize::from(last.is_some())).to_string())),
    }
}

/// The arrays that are meant: their names, shapes and elements.
fn arrays(registry: &Registry, file: &InputFile, memory: u64) -> Result<Vec<(String, Vec<usize>, Array)>> {
    let input = Input::open_within(&file.path, &file.limits)?;
    if input.is_file() {
        let main = input.main()?;
        if idx::is_idx(&main) {
            if main.len() > memory / 4 {
                return Err(Error::limit("the file takes more memory than the forward pass may")
                    .found(format!("{} elements", main.len()))
                    .help("allow more with --max-memory"));
            }
            let (shape, array) = idx::read(&main)?;
            return Ok(vec![(String::new(), shape, array)]);
        }
    }
    let source = Source::read(
        registry,
        input,
        &OpenOptions { limits: file.limits.clone(), ..OpenOptions::default() },
    )?;
    let parameters = SourceParameters::new(&source, memory);
    let tensors = source.checkpoint().tensors.iter();
    let meant: Vec<&str> = match &file.key {
        Some(key) => vec![key],
        None => tensors.map(|tensor| tensor.name.as_str()).collect(),
    };
    let load = |name: &str| {
        let array = parameters.load(name)?;
        let shape = parameters.tensor(name).map(|tensor| tensor.shape.to_vec()).unwrap_or_default();
        let shape = shape.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| Error::limit("too large for this machine").tensor(name))?;
        Ok((name.to_owned(), shape, array))
    };
    meant.into_iter().map(load).collect()
}

/// Which input an array is for.
fn input_for(key: &str, file: &InputFile, graph: &Graph, given: &Given) -> Result<String> {
    let names = || graph.inputs.iter().map(|input| input.name.as_str());
    if let Some(name) = &file.input {
        return match names().any(|known| known == name) {
            true => Ok(name.clone()),
            false => Err(Error::usage("the graph does not take such an input")
                .field(name)
                .help(ckpt_api::nearest(name, names()))),
        };
    }
    if names().any(|name| name == key) && file.key.is_none() {
        return Ok(key.to_owned());
    }
    let mut left = names().filter(|name| !given.values.contains_key(*name));
    match (left.next(), left.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        _ => Err(Error::usage("it is not clear which input an array is for")
            .tensor(key)
            .expected(format!("one of {}", names().collect::<Vec<_>>().join(", ")))
            .help("say it with --input INPUT=FILE, or --input FILE:ARRAY where the file has several arrays")),
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes and pixels fit; larger integers are rounded once")]
fn divided(array: Array, by: f32) -> Array {
    match array {
        Array::F64(values) => Array::F64(values.into_iter().map(|value| value / f64::from(by)).collect()),
        Array::F32(values) => Array::F32(values.into_iter().map(|value| value / by).collect()),
        Array::I32(values) => Array::F32(values.into_iter().map(|value| value as f32 / by).collect()),
    }
}

/// The shape that the input states, where the array has as many elements: an image for each row becomes a row of pixels, one
/// example a batch of one.
pub(super) fn fitted(shape: &[usize], stated: &[Option<u64>]) -> Option<Vec<usize>> {
    let matches = |shape: &[usize], stated: &[Option<u64>]| {
        let fits = |(len, stated): (&usize, &Option<u64>)| stated.is_none_or(|stated| stated == *len as u64);
        shape.len() == stated.len() && shape.iter().zip(stated).all(fits)
    };
    if matches(shape, stated) {
        return None;
    }
    let (first, rest) = stated.split_first()?;
    if matches(shape, rest) {
        return first.is_none_or(|first| first == 1).then(|| [&[1], shape].concat());
    }
    let rest: Vec<usize> = rest.iter().map(|len| usize::try_from((*len)?).ok()).collect::<Option<_>>()?;
    let (batch, own) = shape.split_first()?;
    let product = |lens: &[usize]| lens.iter().try_fold(1usize, |product, len| product.checked_mul(*len));
    let fits = first.is_none_or(|first| first == *batch as u64) && product(own) == product(&rest);
    fits.then(|| [&[*batch], &rest[..]].concat())
}

impl Given {
    /// The shapes that the graph is to be run with: those of what is given, or else of `batch` random examples.
    pub(super) fn shapes(
        &self,
        graph: &Graph,
        parameters: &dyn Parameters,
        inputs: &Inputs,
    ) -> BTreeMap<String, Vec<usize>> {
        if self.values.is_empty() {
            return default_shapes(graph, parameters, inputs.batch);
        }
        self.values.iter().map(|(name, (value, _))| (name.clone(), value.shape.clone())).collect()
    }

    /// The values that go into `program`, and what a report says of them.
    pub(super) fn finish(
        self,
        program: &Program,
        inputs: &Inputs,
    ) -> Result<(BTreeMap<String, Value>, Vec<InputSummary>)> {
        let mut values = self.values;
        if values.is_empty() {
            let origin = format!("random, seed {}", inputs.seed);
            let random = program.random_inputs(inputs.seed).into_iter();
            values = random.map(|(name, value)| (name, (value, origin.clone()))).collect();
        }
        let (mut taken, mut summaries) = (BTreeMap::new(), Vec::new());
        for info in program.inputs() {
            // What is missing, the program has found already.
            let Some((value, origin)) = values.remove(info.name) else { continue };
            let array = match (value.array, info.numbers) {
                #[expect(clippy::cast_precision_loss, reason = "larger integers are rounded once")]
                (Array::I32(values), Numbers::Real) => {
                    Array::F32(values.into_iter().map(|value| value as f32).collect())
                }
                (array, Numbers::Integer) if !matches!(array, Array::I32(_)) => {
                    return Err(Error::usage("an input takes indices, and is given real numbers")
                        .field(info.name)
                        .help("store it as integers"));
                }
                (array, _) => array,
            };
            summaries.push(InputSummary { name: info.name.to_owned(), shape: value.shape.clone(), origin });
            taken.insert(info.name.to_owned(), Value::new(value.shape, array)?);
        }
        Ok((taken, summaries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_become_rows_and_one_example_a_batch_of_one() {
        let rows = [None, Some(784)];
        assert_eq!(fitted(&[10, 28, 28], &rows), Some(vec![10, 784]));
        assert_eq!(fitted(&[784], &rows), Some(vec![1, 784]));
        assert_eq!(fitted(&[10, 784], &rows), None);
        assert_eq!(fitted(&[10, 785], &rows), None);
        assert_eq!(fitted(&[10, 28, 28], &[None, Some(1), Some(28), Some(28)]), Some(vec![10, 1, 28, 28]));
        assert_eq!(fitted(&[3, 4], &[None, None, None]), Some(vec![1, 3, 4]));
    }
}
