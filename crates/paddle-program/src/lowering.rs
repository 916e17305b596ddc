//! What is known while a program is read.

use crate::json::Operation;
use crate::parameter::Read;
use ckpt_api::{Axis, Node, Tensor, Value};
use ckpt_graph::shape::{MAX_RANK, of_sizes};
use ckpt_graph::{Builder, Dims, GraphResult, Length};
use std::collections::HashMap;
use std::rc::Rc;

/// Integers that an operation takes, at most: two for each axis of a value.
const MOST_INTS: usize = 2 * MAX_RANK;

/// A value of the graph.
pub(crate) type Val = ckpt_graph::Val<()>;

/// What is known of a value of the program.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Val(Val),
    /// A tensor of the checkpoint, by its number.
    Parameter(usize),
    /// A vector of the checkpoint that stands for the channels of images.
    PerChannel(usize, Dims),
    Ints(Vec<i64>),
    Number(f64),
    /// Numbers of values. Many operations may take the same list.
    List(Rc<[u64]>),
}

/// What is known of the values of a program while it is read.
pub(crate) struct Lowering<'a> {
    /// The tensors of the checkpoint, whose axes get names.
    pub(crate) tensors: &'a mut [Tensor],
    /// Tensors by name.
    ids: HashMap<String, usize>,
    pub(crate) builder: Builder<()>,
    pub(crate) known: HashMap<u64, Known>,
    /// How often each value is taken.
    pub(crate) uses: HashMap<u64, usize>,
    /// The types of the values, as `f32`.
    dtypes: HashMap<u64, &'a str>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<GraphResult>,
    /// Free axes so far.
    free: usize,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(operations: &'a [Operation<'_>], tensors: &'a mut [Tensor]) -> Self {
        let ids = tensors.iter().enumerate().map(|(id, tensor)| (tensor.name.to_string(), id)).collect();
        let mut uses = HashMap::new();
        for input in operations.iter().flat_map(|own| own.inputs.iter().flatten()) {
            *uses.entry(*input).or_default() += 1;
        }
        let outputs = operations.iter().flat_map(|own| &own.outputs);
        Lowering {
            tensors,
            ids,
            builder: Builder::naming_lengths(),
            known: HashMap::new(),
            uses,
            dtypes: outputs.map(|output| (output.number, output.dtype.as_str())).collect(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            free: 0,
        }
    }

    /// Lowers an operation, and remembers its results.
    pub(crate) fn operation(&mut self, own: &Operation<'_>) -> Read<()> {
        if own.is_passing() {
            return Ok(());
        }
        if let Some(name) = own.parameter() {
            let id = self
                .ids
                .get(name)
                .copied()
                .ok_or_else(|| format!("'{}' has no record", name.escape_debug()))?;
            return self.remember(own, Known::Parameter(id));
        }
        match own.name {
            "data" => {
                let val = self.input(own)?;
                self.remember(own, Known::Val(val))
            }
            "fetch" => self.output(own),
            "full_int_array" => self.remember(own, Known::Ints(own.ints("value")?)),
            "full" => self.full(own),
            "combine" => {
                let all = own.inputs.iter().copied().collect::<Option<Vec<u64>>>();
                self.remember(own, Known::List(all.ok_or("joins a value that is left out")?.into()))
            }
            "split" if own.input(1).is_none() => {
                let all = self.list(own, 0)?;
                for (output, from) in own.outputs.iter().zip(&*all) {
                    let known = self.known.get(from).cloned().ok_or("takes a value that was not made")?;
                    self.known.insert(output.number, known);
                }
                Ok(())
            }
            _ => self.computed(own),
        }
    }

    fn computed(&mut self, own: &Operation<'_>) -> Read<()> {
        if self.reshaped_parameter(own)? {
            return Ok(());
        }
        if let Some(parts) = self.parts(own)? {
            return self.remember_parts(own, parts);
        }
        let made = match self.layer(own)? {
            Some(made) => Some(made),
            None => self.elementwise(own)?,
        };
        let made = match made {
            Some(made) => Some(made),
            None => self.moved(own)?,
        };
        let made = made.ok_or_else(|| "is not supported".to_owned())?;
        self.remember(own, Known::Val(made))
    }

    pub(crate) fn remember(&mut self, own: &Operation<'_>, known: Known) -> Read<()> {
        let number = own.output()?.number;
        self.known.insert(number, known);
        Ok(())
    }

    /// Remembers a list of values as one; its parts get numbers that no value of a program has.
    fn remember_parts(&mut self, own: &Operation<'_>, parts: Vec<Val>) -> Read<()> {
        let base = u64::MAX - u64::try_from(self.known.len()).unwrap_or(0);
        let numbers: Vec<u64> = (0..parts.len() as u64).map(|at| base.saturating_sub(at)).collect();
        for (number, part) in numbers.iter().zip(parts) {
            self.known.insert(*number, Known::Val(part));
        }
        self.remember(own, Known::List(numbers.into()))
    }

    /// An input of the graph: −1 is a free length.
    fn input(&mut self, own: &Operation<'_>) -> Read<Val> {
        let name = own.text("name").ok_or("has no name")?;
        let shape: Vec<Option<u64>> =
            own.ints("shape")?.into_iter().map(|len| u64::try_from(len).ok()).collect();
        if shape.len() > MAX_RANK {
            return Err(format!("has more than {MAX_RANK} axes"));
        }
        let mut dims = Dims::new();
        for len in &shape {
            dims.push(match len {
                Some(len) => Length::from(*len),
                None => {
                    self.free = self.free.saturating_add(1);
                    Length::free(self.free.saturating_sub(1))
                }
            });
        }
        let val = self.builder.input(name, dims);
        self.inputs.push(Value::new(val.name.clone(), shape));
        Ok(val)
    }

    fn output(&mut self, own: &Operation<'_>) -> Read<()> {
        let name = own.text("name").unwrap_or_default();
        name.clone_into(&mut self.builder.place);
        let val = self.take(own, 0)?;
        self.outputs.push(self.builder.result(val, name)?);
        Ok(())
    }

    fn full(&mut self, own: &Operation<'_>) -> Read<()> {
        let value = own.float("value")?;
        match own.ints("shape")?.iter().all(|len| *len == 1) {
            true => self.remember(own, Known::Number(value)),
            false => Err("fills a tensor, which is not supported".to_owned()),
        }
    }

    /// The value of input `index`: tensors of the checkpoint and numbers become constants.
    pub(crate) fn take(&mut self, own: &Operation<'_>, index: usize) -> Read<Val> {
        let number = own.input(index).ok_or_else(|| format!("lacks input {index}"))?;
        self.value(number)
    }

    pub(crate) fn value(&mut self, number: u64) -> Read<Val> {
        let known =
            self.known.get(&number).cloned().ok_or("takes a value that no operation before it makes")?;
        let val = match known {
            Known::Val(val) => return Ok(val),
            Known::Number(value) => return self.builder.scalar(value),
            Known::Parameter(id) => self.stored(id)?,
            Known::PerChannel(id, dims) => {
                let stored = self.stored(id)?;
                self.builder.reshape(&stored, dims)?
            }
            Known::Ints(_) | Known::List(_) => return Err("takes a list as a tensor".to_owned()),
        };
        self.known.insert(number, Known::Val(val.clone()));
        Ok(val)
    }

    fn stored(&mut self, id: usize) -> Read<Val> {
        let tensor = self.tensors.get(id).ok_or("takes a parameter that does not exist")?;
        if !tensor.dtype.is_float() {
            return Err(format!("takes '{}' of {} as numbers", tensor.name.escape_debug(), tensor.dtype));
        }
        let (name, dims) = (tensor.name.to_string(), of_sizes(&tensor.shape));
        self.builder.stored(&name, dims)
    }

    /// The tensor that input `index` is.
    pub(crate) fn parameter(&self, own: &Operation<'_>, index: usize) -> Option<(usize, &Tensor)> {
        match self.known.get(&own.input(index)?)? {
            Known::Parameter(id) => Some((*id, self.tensors.get(*id)?)),
            _ => None,
        }
    }

    /// Names the axes of the tensor that input `index` is; returns its name and shape.
    pub(crate) fn claim(
        &mut self,
        own: &Operation<'_>,
        index: usize,
        axes: &[Axis],
    ) -> Read<(String, Vec<u64>)> {
        let id = self.parameter(own, index).map(|(id, _)| id);
        self.claim_tensor(id.ok_or_else(|| format!("has no parameter as input {index}"))?, axes)
    }

    /// Names the axes of a tensor, which another operation may not take in another way.
    pub(crate) fn claim_tensor(&mut self, id: usize, axes: &[Axis]) -> Read<(String, Vec<u64>)> {
        let tensor = self.tensors.get_mut(id).ok_or("has no parameter")?;
        if tensor.shape.rank() != axes.len() {
            return Err(format!("has a parameter of shape {}", tensor.shape));
        }
        match tensor.axes.as_deref() {
            Some(own) if own != axes => {
                return Err(format!(
                    "takes '{}' otherwise than another operation",
                    tensor.name.escape_debug()
                ));
            }
            Some(_) => {}
            None => tensor.axes = Some(axes.into()),
        }
        Ok((tensor.name.to_string(), tensor.shape.to_vec()))
    }

    /// A node with the vector that input `index` is, if there is one.
    pub(crate) fn with_vector(
        &mut self,
        node: Node,
        role: &str,
        own: &Operation<'_>,
        index: usize,
    ) -> Read<Node> {
        match own.input(index) {
            Some(_) => Ok(node.parameter(role, self.claim(own, index, &[Axis::Out])?.0)),
            None => Ok(node),
        }
    }

    /// The integers of input `index`, which must be known: axes, or lengths of axes.
    pub(crate) fn ints(&self, own: &Operation<'_>, index: usize) -> Read<Vec<i64>> {
        match own.input(index).and_then(|number| self.known.get(&number)) {
            Some(Known::Ints(ints)) if ints.len() > MOST_INTS => {
                Err(format!("takes {} integers as input {index}, which are too many", ints.len()))
            }
            _ => self.many_ints(own, index),
        }
    }

    /// The integers of input `index`, which must be known, however many they are.
    pub(crate) fn many_ints(&self, own: &Operation<'_>, index: usize) -> Read<Vec<i64>> {
        match own.input(index).and_then(|number| self.known.get(&number)) {
            Some(Known::Ints(ints)) => Ok(ints.clone()),
            Some(Known::Number(_)) => self.number(own, index).and_then(|number| Ok(vec![whole(number)?])),
            _ => Err(format!("takes input {index} from what the model computes")),
        }
    }

    /// The one number of input `index`, which must be known.
    pub(crate) fn number(&self, own: &Operation<'_>, index: usize) -> Read<f64> {
        match own.input(index).and_then(|number| self.known.get(&number)) {
            Some(Known::Number(value)) => Ok(*value),
            _ => Err(format!("takes input {index} from what the model computes")),
        }
    }

    /// The one integer of input `index`, which must be known.
    pub(crate) fn int(&self, own: &Operation<'_>, index: usize) -> Read<i64> {
        whole(self.number(own, index)?)
    }

    /// The values of the list that input `index` is.
    pub(crate) fn list(&self, own: &Operation<'_>, index: usize) -> Read<Rc<[u64]>> {
        match own.input(index).and_then(|number| self.known.get(&number)) {
            Some(Known::List(all)) => Ok(Rc::clone(all)),
            _ => Err(format!("takes no list as input {index}")),
        }
    }

    /// The type of input `index`, as `f32`.
    pub(crate) fn dtype(&self, own: &Operation<'_>, index: usize) -> &'a str {
        own.input(index).and_then(|number| self.dtypes.get(&number).copied()).unwrap_or_default()
    }

    /// Whether only one operation takes input `index`.
    pub(crate) fn is_only_use(&self, own: &Operation<'_>, index: usize) -> bool {
        own.input(index).is_some_and(|number| self.uses.get(&number) == Some(&1))
    }
}

/// A number as an integer.
fn whole(number: f64) -> Read<i64> {
    let text = format!("{number}");
    text.parse().map_err(|_| format!("takes {text} for an integer"))
}
