//! Assigns values to a graph's inputs: arrays, chess positions, or random numbers.

use super::chess::{self, Position};
use super::files::{InputFile, NamedArray};
use crate::report::InputSummary;
use crate::shapes::fit_shape;
use ckpt_api::{Checkpoint, Error, Graph, Result, text};
use ckpt_engine::formats::Formats;
use ckpt_engine::settings;
use ckpt_engine::words::count;
use ckpt_forward::{Array, Numbers, Program, Value};
use std::collections::BTreeMap;

/// The inputs to run graphs on: random numbers, unless files or positions are given.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Files of arrays.
    pub files: Vec<InputFile>,
    /// Arrays in memory: the name of the input, which may be left out where only one is left, and its value.
    pub arrays: Vec<(Option<String>, Value)>,
    /// Divisor for the numbers of the files, in binary32: 255 scales bytes to 0..1.
    pub divide: Option<f32>,
    /// Positions for chess networks.
    pub positions: Vec<Position>,
    /// Seed of random numbers.
    pub seed: u64,
    /// Number of random examples: the length of a free first axis.
    pub batch: usize,
    /// Length of the other free axes of random inputs; `None` for lengths with which the graph runs.
    pub length: Option<usize>,
    /// Lengths of free axes of random inputs by the names that the graph gives these axes.
    pub sizes: BTreeMap<String, usize>,
}

impl Default for Inputs {
    fn default() -> Self {
        Inputs {
            files: Vec::new(),
            arrays: Vec::new(),
            divide: None,
            positions: Vec::new(),
            seed: 0,
            batch: 8,
            length: None,
            sizes: BTreeMap::new(),
        }
    }
}

/// What reports call the origin of an array that is in no file.
const IN_MEMORY: &str = "memory";

/// A value for an input.
#[derive(Debug)]
pub(super) struct InputValue {
    pub(super) value: Value,
    /// As [`InputSummary::origin`].
    origin: String,
}

/// Values that were given for a graph's inputs, by name; empty if inputs are to be random.
#[derive(Debug, Default)]
pub(crate) struct GivenValues(pub(super) BTreeMap<String, InputValue>);

impl Inputs {
    /// Whether inputs are given, not random.
    pub(crate) fn are_given(&self) -> bool {
        !self.files.is_empty() || !self.arrays.is_empty() || !self.positions.is_empty()
    }

    /// Returns the names of the inputs that the files give, for [`OpenOptions::inputs`](ckpt_engine::source::OpenOptions::inputs).
    ///
    /// # Errors
    /// Whatever keeps a file from being read.
    pub fn names(&self, formats: &Formats) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.arrays.iter().filter_map(|(name, _)| name.clone()).collect();
        for file in &self.files {
            names.extend(file.names(formats).map_err(|error| error.file(file.shown()))?);
        }
        Ok(names)
    }

    /// Fails for a size of an axis that no input of the graph has.
    pub(crate) fn check_sizes(&self, graph: &Graph) -> Result<()> {
        let mut names: Vec<&str> = Vec::new();
        for input in &graph.inputs {
            names.extend((0..input.shape.len()).filter_map(|axis| input.axis_name(axis)));
        }
        match self.sizes.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(Error::usage("no input of the graph has an axis of this name")
                .found(format!("'{name}'"))
                .help(ckpt_api::nearest(name, names.iter().copied()))),
            None => Ok(()),
        }
    }

    /// Reads the given inputs of `checkpoint`'s graph. Real numbers keep the type in which they are stored.
    ///
    /// # Errors
    /// Whatever keeps a file from being read; [`ckpt_api::Kind::Usage`] for arrays that fit no input.
    pub(crate) fn read(
        &self,
        formats: &Formats,
        checkpoint: &Checkpoint,
        graph: &Graph,
        memory: u64,
    ) -> Result<GivenValues> {
        self.check_sizes(graph)?;
        let mut given = GivenValues::default();
        if !self.positions.is_empty() {
            for (name, (shape, indices)) in chess::inputs(checkpoint, &self.positions)? {
                let value = Value::new(shape, Array::I32(indices))?;
                given.0.insert(
                    name,
                    InputValue { value, origin: count(self.positions.len(), "chess position") },
                );
            }
        }
        for file in &self.files {
            let arrays = file.read(formats, memory);
            let added = arrays.and_then(|arrays| {
                fits_inputs(&arrays, file, graph, &given)?;
                arrays.into_iter().try_for_each(|array| self.add(array, file, graph, &mut given))
            });
            added.map_err(|error| error.file(file.shown()))?;
        }
        for (input, value) in &self.arrays {
            let file = InputFile { input: input.clone(), path: IN_MEMORY.into(), ..InputFile::default() };
            let Value { shape, array } = value.clone();
            self.add(NamedArray { name: String::new(), shape, array }, &file, graph, &mut given)?;
        }
        Ok(given)
    }

    fn add(&self, array: NamedArray, file: &InputFile, graph: &Graph, given: &mut GivenValues) -> Result<()> {
        let NamedArray { name, shape, array } = array;
        let array = match self.divide {
            Some(by) => divided(array, by),
            None => array,
        };
        let name = input_for(&name, file, graph, given)?;
        if let Some(earlier) = given.0.get(&name) {
            return Err(Error::usage("the input is given twice").field(&name).found(format!(
                "{}, then {}",
                earlier.origin,
                file.shown()
            )));
        }
        let input = graph.inputs.iter().find(|input| input.name == name);
        let shape = input.and_then(|input| fit_shape(&shape, &input.shape)).unwrap_or(shape);
        given.0.insert(name, InputValue { value: Value::new(shape, array)?, origin: file.shown() });
        Ok(())
    }
}

/// Fails if a file has more arrays than there are inputs for them.
fn fits_inputs(arrays: &[NamedArray], file: &InputFile, graph: &Graph, given: &GivenValues) -> Result<()> {
    let left = match &file.input {
        Some(_) => 1,
        None => graph.inputs.iter().filter(|input| !given.0.contains_key(&input.name)).count(),
    };
    let of_input = |array: &&NamedArray| graph.inputs.iter().any(|input| input.name == array.name);
    let several = arrays.len() > 1 && arrays.len() > left;
    let Some(one) = arrays.iter().find(of_input).or(arrays.first()).filter(|_| several) else {
        return Ok(());
    };
    let inputs = match &file.input {
        Some(input) => input.clone(),
        None => graph.inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", "),
    };
    let names = ckpt_api::first_few(arrays.iter().map(|array| &array.name), 8);
    let prefix = file.input.as_ref().map_or(String::new(), |input| format!("{input}="));
    let example = format!("{prefix}{}:{}", file.shown(), one.name);
    Err(Error::usage("the file has more arrays than there are inputs for them")
        .found(format!("{}: {names}", count(arrays.len(), "array")))
        .expected(format!("at most one for each input: {inputs}"))
        .help(text!["name the array, such as ", settings::INPUTS.of(&example)]))
}

/// The input that an array is for.
fn input_for(key: &str, file: &InputFile, graph: &Graph, given: &GivenValues) -> Result<String> {
    let names = || graph.inputs.iter().map(|input| input.name.as_str());
    if let Some(name) = &file.input {
        return match names().any(|known| known == name) {
            true => Ok(name.clone()),
            false => Err(Error::usage("the graph does not have this input")
                .field(name)
                .help(ckpt_api::nearest(name, names()))),
        };
    }
    if names().any(|name| name == key) && file.key.is_none() {
        return Ok(key.to_owned());
    }
    let mut left = names().filter(|name| !given.0.contains_key(*name));
    match (left.next(), left.next()) {
        (Some(only), None) => Ok(only.to_owned()),
        (None, _) => Err(Error::usage("every input has an array already")
            .found("one array more")
            .expected(format!("one for each input: {}", names().collect::<Vec<_>>().join(", ")))),
        _ => Err(Error::usage("an array fits more than one input")
            .tensor(key)
            .expected(format!("one of {}", names().collect::<Vec<_>>().join(", ")))
            .help(text![
                "name it with ",
                settings::INPUTS.of("INPUT=FILE"),
                ", or ",
                settings::INPUTS.of("FILE:ARRAY"),
                " where the file has several arrays"
            ])),
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

impl GivenValues {
    /// Returns the given inputs that are one integer: shapes may follow from them.
    pub(crate) fn numbers(&self) -> BTreeMap<String, Value> {
        let one = |value: &Value| matches!(&value.array, Array::I32(values) if values.len() == 1);
        let found = self.0.iter().filter(|(_, input)| one(&input.value));
        found.map(|(name, input)| (name.clone(), input.value.clone())).collect()
    }

    /// Returns the values for all inputs of `program`, with a summary for reports.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for real numbers if indices are needed.
    pub(crate) fn bind(
        &mut self,
        program: &Program,
        inputs: &Inputs,
    ) -> Result<(BTreeMap<String, Value>, Vec<InputSummary>)> {
        let mut given = std::mem::take(&mut self.0);
        if given.is_empty() {
            let origin = format!("random, seed {}", inputs.seed);
            let random = program.random_inputs(inputs.seed).into_iter();
            given =
                random.map(|(name, value)| (name, InputValue { value, origin: origin.clone() })).collect();
        }
        let (mut values, mut summaries) = (BTreeMap::new(), Vec::new());
        for info in program.inputs() {
            // The program has refused missing inputs.
            let Some(InputValue { value, origin }) = given.remove(info.name) else { continue };
            let array = converted(value.array, info.numbers).map_err(|error| error.field(info.name))?;
            summaries.push(InputSummary { name: info.name.to_owned(), shape: value.shape.clone(), origin });
            values.insert(info.name.to_owned(), Value::new(value.shape, array)?);
        }
        Ok((values, summaries))
    }
}

fn converted(array: Array, numbers: Numbers) -> Result<Array> {
    match (array, numbers) {
        #[expect(clippy::cast_precision_loss, reason = "larger integers are rounded once")]
        (Array::I32(values), Numbers::Real) => {
            Ok(Array::F32(values.into_iter().map(|value| value as f32).collect()))
        }
        (array, Numbers::Integer) if !matches!(array, Array::I32(_)) => {
            Err(Error::usage("an input of indices gets real numbers").help("store it as integers"))
        }
        (array, _) => Ok(array),
    }
}
