//! Runs a program on a backend.

use super::device::{Device, Held};
use super::parts::{Program, Step, no_such};
use crate::lower::{IndexCheck, Info, Load, Negative, Operand, Task, show};
use crate::value::{Numbers, Value};
use crate::{Array, Backend, BufferId};
use ckpt_api::{Error, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Receives the values between nodes during a run.
///
/// Values that are not wanted stay on the device.
pub trait Observer {
    /// Whether [`Observer::observe`] is called for the outputs of this node.
    fn wants(&self, node: usize) -> bool {
        let _ = node;
        true
    }

    /// Receives an output of the node at index `node`.
    ///
    /// # Errors
    /// Any error ends the run.
    fn observe(&mut self, node: usize, name: &str, value: Value) -> Result<()>;
}

/// Wants no values.
impl Observer for () {
    fn wants(&self, _: usize) -> bool {
        false
    }

    fn observe(&mut self, _: usize, _: &str, _: Value) -> Result<()> {
        Ok(())
    }
}

/// Returns a node's tensors, by their index among its loads.
type Fetch<'f> = &'f dyn Fn(usize, &Load) -> Result<Array>;

impl Program<'_> {
    /// Runs the graph and returns its outputs. Real inputs are rounded to the backend's type.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`] for inputs that are missing, unknown or of another shape, and for indices out of range
    /// (naming the node, the index and the bound); whatever the backend, the parameters or the observer report.
    pub fn run(
        &self,
        backend: &mut dyn Backend,
        inputs: &BTreeMap<String, Value>,
        observer: &mut dyn Observer,
    ) -> Result<BTreeMap<String, Value>> {
        let mut device = Device::new(backend);
        let mut held = Held::default();
        let given = self.given(inputs)?;
        for (id, value) in given.iter().enumerate() {
            held.insert(id, device.upload(value.array.clone())?);
        }
        for (index, (node, step)) in self.graph.nodes.iter().zip(&self.steps).enumerate() {
            let load = |_, load: &Load| self.fetch_load(load);
            let run = self.run_step(&mut device, step, &mut held, &given, &load);
            run.map_err(|error| error.field(&node.name))?;
            if observer.wants(index) {
                for id in &step.outputs {
                    let (name, _) = self.values.get(*id).ok_or_else(|| no_such("value", *id))?;
                    observer.observe(index, name, self.fetch(&mut device, &held, *id)?)?;
                }
            }
            for id in self.lifetimes.ended(index, &step.inputs, &step.outputs) {
                if let Some(buffer) = held.remove(id) {
                    device.free(buffer);
                }
            }
        }
        let mut outputs = BTreeMap::new();
        for id in &self.outputs {
            let (name, _) = self.values.get(*id).ok_or_else(|| no_such("value", *id))?;
            outputs.insert(name.clone(), self.fetch(&mut device, &held, *id)?);
        }
        Ok(outputs)
    }

    /// Runs one node on the given values, one for each of its inputs in [`Program::nodes`], and returns its outputs.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_node(&self, node: usize, backend: &mut dyn Backend, inputs: &[Value]) -> Result<Vec<Value>> {
        let (found, step) = self.step(node)?;
        let load = |_, load: &Load| self.fetch_load(load);
        let run = self.run_alone(step, &mut Device::new(backend), inputs, &load);
        run.map_err(|error| error.field(&found.name))
    }

    /// Runs one node with the tensors that `fetch` returns.
    pub(super) fn run_alone(
        &self,
        step: &Step,
        device: &mut Device,
        inputs: &[Value],
        fetch: Fetch,
    ) -> Result<Vec<Value>> {
        // Not a slot for each value of the program: running every node alone would then take quadratic time.
        let mut held = Held::default();
        let taken: Vec<usize> = step.inputs.iter().flatten().copied().collect();
        if taken.len() != inputs.len() {
            return Err(Error::usage("a node gets a different number of values than it has inputs")
                .found(inputs.len().to_string())
                .expected(taken.len().to_string()));
        }
        for (id, value) in taken.into_iter().zip(inputs) {
            check(value, self.info(id)?)?;
            held.insert(id, device.upload(value.array.clone())?);
        }
        self.run_step(device, step, &mut held, &[], fetch)?;
        step.outputs.iter().map(|id| self.fetch(device, &held, *id)).collect()
    }

    /// Returns the given inputs in the graph's order, checked.
    fn given<'v>(&self, inputs: &'v BTreeMap<String, Value>) -> Result<Vec<&'v Value>> {
        let known: HashSet<&str> = self.input_values().iter().map(|(name, _)| name.as_str()).collect();
        if let Some(name) = inputs.keys().find(|name| !known.contains(name.as_str())) {
            return Err(Error::usage("the graph does not have this input").field(name));
        }
        self.input_values()
            .iter()
            .map(|(name, info)| {
                let value = inputs
                    .get(name)
                    .ok_or_else(|| Error::usage("an input of the graph is missing").field(name))?;
                check(value, info).map_err(|error| error.field(name))?;
                Ok(value)
            })
            .collect()
    }

    /// Runs a node's kernels on the buffers of `held`, and adds its outputs to them. `given` are the graph's inputs,
    /// if the host has them.
    pub(super) fn run_step(
        &self,
        device: &mut Device,
        step: &Step,
        held: &mut Held,
        given: &[&Value],
        fetch: Fetch,
    ) -> Result<()> {
        device.operations = device.operations.saturating_add(step.kernel_operations());
        self.bounds.check_operations(device.operations)?;
        if let Some(control) = &step.control {
            return control
                .run(step, device, held, &|device, program, given| program.run_within(device, given));
        }
        if let Some(id) = step.repeats(|id| self.info(id).ok()) {
            let buffer = held.get(id)?;
            step.outputs.iter().for_each(|output| held.insert(*output, buffer));
            return Ok(());
        }
        let mut replaced = HashMap::new();
        for check in &step.lowered.checks {
            let id = step.input(Operand::Input(check.input)).ok_or_else(|| no_such("input", check.input))?;
            let resolved = match given.get(id) {
                Some(value) => indices(&value.array, check)?,
                None => indices(&device.backend.download(held.get(id)?)?, check)?,
            };
            if let Some(indices) = resolved {
                replaced.insert(check.input, device.upload(indices)?);
            }
        }
        let loads = step.lowered.loads.iter().enumerate().map(|(place, load)| fetch(place, load));
        let loads = loads.map(|array| device.upload(array?)).collect::<Result<Vec<_>>>()?;
        let temporaries = device.zeros_like(&step.lowered.temporaries)?;
        let outputs = device.zeros_like(&step.lowered.outputs)?;
        let place = |operand: Operand| match operand {
            Operand::Input(index) => match replaced.get(&index) {
                Some(indices) => Ok(*indices),
                None => held.get(step.input(operand).unwrap_or(usize::MAX)),
            },
            Operand::Parameter(index) => loads.get(index).copied().ok_or_else(|| no_such("tensor", index)),
            Operand::Temporary(index) => {
                temporaries.get(index).copied().ok_or_else(|| no_such("value", index))
            }
            Operand::Output(index) => outputs.get(index).copied().ok_or_else(|| no_such("output", index)),
        };
        for call in &step.lowered.calls {
            let operands = call.operands.iter().map(|operand| place(*operand)).collect::<Result<Vec<_>>>()?;
            match &call.task {
                Task::Kernel(kernel) => device.backend.run(kernel, &operands, place(call.output)?)?,
                Task::Reference(op) => device.backend.run_reference(op, &operands, place(call.output)?)?,
            }
        }
        for (id, output) in step.outputs.iter().zip(&outputs) {
            held.insert(*id, *output);
        }
        loads
            .into_iter()
            .chain(temporaries)
            .chain(replaced.into_values())
            .for_each(|buffer| device.free(buffer));
        Ok(())
    }

    /// Runs the graph on the buffers of its inputs, and then those from around it, which stay as they are.
    fn run_within(&self, device: &mut Device, given: &[BufferId]) -> Result<Vec<BufferId>> {
        let mut held = Held::default();
        given.iter().enumerate().for_each(|(id, buffer)| held.insert(id, *buffer));
        for (index, (node, step)) in self.graph.nodes.iter().zip(&self.steps).enumerate() {
            let run = self.run_step(device, step, &mut held, &[], &|_, load| self.fetch_load(load));
            run.map_err(|error| error.field(&node.name))?;
            for id in self.lifetimes.ended(index, &step.inputs, &step.outputs).filter(|id| *id >= given.len())
            {
                if let Some(buffer) = held.remove(id) {
                    device.free(buffer);
                }
            }
        }
        let mut made = Vec::with_capacity(self.outputs.len());
        for id in &self.outputs {
            made.push(device.copied(held.get(*id)?, self.info(*id)?)?);
        }
        let own = given.len()..self.values.len();
        own.filter_map(|id| held.remove(id)).for_each(|buffer| device.free(buffer));
        Ok(made)
    }

    fn fetch(&self, device: &mut Device, held: &Held, id: usize) -> Result<Value> {
        Value::new(self.info(id)?.shape.clone(), device.backend.download(held.get(id)?)?)
    }

    /// Returns the values of a load, before they are rounded to the device's type.
    pub(super) fn fetch_load(&self, load: &Load) -> Result<Array> {
        match load {
            Load::Constant { value, len } => Ok(Array::F64(vec![*value; *len])),
            Load::Integers(values) => Ok(Array::I32(values.clone())),
            Load::Reals(values) => Ok(Array::F64(values.clone())),
            Load::Range { first, step, len } => range(*first, *step, *len),
            Load::Tensor { name, len, numbers, scale } => {
                let array = self.parameters.load(name).map_err(|error| error.tensor(name))?;
                let is_integer = matches!(array, Array::I32(_));
                let fits = is_integer == (*numbers == Numbers::Integer || scale.is_some());
                if !fits || array.len() != *len {
                    return Err(Error::corrupt("a tensor has different elements than its description")
                        .tensor(name)
                        .found(format!("{} of type {:?}", array.len(), array.element()))
                        .expected(format!("{len}")));
                }
                Ok(match scale {
                    Some(scale) => Array::F64(array.to_f64().into_iter().map(|x| x / scale).collect()),
                    None => array,
                })
            }
        }
    }
}

/// The integers `first`, `first + step` and so on.
fn range(first: i64, step: i64, len: usize) -> Result<Array> {
    let at = |i: i64| i32::try_from(step.checked_mul(i)?.checked_add(first)?).ok();
    let integers: Option<Vec<i32>> = (0..).take(len).map(at).collect();
    integers.map(Array::I32).ok_or_else(|| {
        Error::limit("a value has too many elements for integers of 32 bits").found(len.to_string())
    })
}

/// Fails if a value has another shape or kind than the program was built for.
pub(super) fn check(value: &Value, info: &Info) -> Result<()> {
    let is_integer = matches!(value.array, Array::I32(_));
    if value.shape != info.shape || value.array.len() != info.len() {
        return Err(Error::usage("a value has a different shape than the program was built for")
            .found(show(&value.shape))
            .expected(show(&info.shape)));
    }
    if is_integer != (info.numbers == Numbers::Integer) {
        return Err(Error::usage("a value has a different element type than the program was built for")
            .found(format!("{:?}", value.array.element()))
            .expected(if is_integer { "real numbers" } else { "integers" }));
    }
    Ok(())
}

/// Fails for indices that are out of range, for which kernels are not defined. Returns the indices with those that
/// count from the end resolved, if there are any.
pub(super) fn indices(array: &Array, check: &IndexCheck) -> Result<Option<Array>> {
    let Array::I32(indices) = array else {
        return Err(Error::corrupt("indices must be integers").found(format!("{:?}", array.element())));
    };
    let bounds: Vec<i64> =
        check.bounds.iter().map(|bound| i64::try_from(*bound).unwrap_or(i64::MAX)).collect();
    let least = |bound: i64| match check.negative {
        Negative::Nothing => 0,
        Negative::Padding => i64::MIN,
        Negative::FromEnd => -bound,
    };
    let is_wrong = |(_, (index, bound)): &(usize, (&i32, &i64))| {
        !(least(**bound)..**bound).contains(&i64::from(**index))
    };
    let bounded = || indices.iter().zip(bounds.iter().cycle());
    if let Some((place, (index, bound))) = bounded().enumerate().find(is_wrong) {
        let negative = match check.negative {
            Negative::Nothing => ", and not negative".to_owned(),
            Negative::Padding => ", or -1 for none".to_owned(),
            Negative::FromEnd => format!(", and at least {}", least(*bound)),
        };
        return Err(Error::usage("an index is out of range")
            .found(format!("{index} at element {place}"))
            .expected(format!("less than {bound}{negative}")));
    }
    if check.negative != Negative::FromEnd || indices.iter().all(|index| *index >= 0) {
        return Ok(None);
    }
    let resolve = |(index, bound): (&i32, &i64)| {
        let index = i64::from(*index);
        i32::try_from(if index < 0 { index + bound } else { index })
    };
    let resolved = bounded().map(resolve).collect::<std::result::Result<Vec<_>, _>>();
    resolved.map(|indices| Some(Array::I32(indices))).map_err(|_| {
        Error::limit("an axis is too long for negative indices").found(format!("{:?}", check.bounds))
    })
}
