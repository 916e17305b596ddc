//! Every layer of two graphs, on the same inputs: the first graph's own activations.

use super::blame::{Sides, blame, tensor_pairs};
use super::compare::{Bound, Demand, Size, compare};
use super::inputs::fitted;
use super::normalized;
use super::pairing::Pair;
use super::parameters::{Errors, StorageError};
use super::report::{Blame, Layer, RuleName, Verdict};
use crate::diff::Tolerance;
use ckpt_api::{Error, Graph, Node, Op, Result};
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Element, Numbers, Observer, Parameters, Program, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The first graph's run: what it gives, and, where they are kept, its activations, rounded to binary32.
pub(super) struct Reference {
    pub(super) outputs: BTreeMap<String, Value>,
    pub(super) activations: HashMap<String, Value>,
}

impl Reference {
    /// Runs `program`; keeps activations where `keep` says how many bytes they may take.
    ///
    /// # Errors
    /// What running reports; [`ckpt_api::Kind::Limit`] for activations that take more than they may.
    pub(super) fn run(
        program: &Program,
        backend: &mut dyn Backend,
        inputs: &BTreeMap<String, Value>,
        keep: Option<u64>,
    ) -> Result<Self> {
        let Some(memory) = keep else {
            return Ok(Reference {
                outputs: program.run(backend, inputs, &mut ())?,
                activations: HashMap::new(),
            });
        };
        let mut kept = Kept { left: memory, values: HashMap::new() };
        for (name, value) in inputs {
            kept.keep(name, value.clone())?;
        }
        let outputs = program.run(backend, inputs, &mut kept)?;
        Ok(Reference { outputs, activations: kept.values })
    }
}

struct Kept {
    left: u64,
    values: HashMap<String, Value>,
}

impl Kept {
    fn keep(&mut self, name: &str, value: Value) -> Result<()> {
        let bytes = (value.array.len() as u64).saturating_mul(4);
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Error::limit("the activations of all layers take more memory than they may")
                .field(name)
                .help("compare fewer examples, or allow more with --max-memory")
        })?;
        let array = value.array.into_real(Element::F32);
        self.values.insert(name.to_owned(), Value { shape: value.shape, array });
        Ok(())
    }
}

impl Observer for Kept {
    fn observe(&mut self, _: usize, name: &str, value: Value) -> Result<()> {
        self.keep(name, value)
    }
}

/// What layers are compared by.
pub(super) struct Comparing<'a> {
    pub(super) sides: &'a Sides<'a>,
    pub(super) a: (&'a Graph, &'a Program<'a>),
    pub(super) b: (&'a Graph, &'a Program<'a>),
    pub(super) pairs: &'a [Pair],
    /// The rule, and its tolerance where that is given.
    pub(super) rule: RuleName,
    pub(super) tolerance: Option<Tolerance>,
    pub(super) activations: &'a HashMap<String, Value>,
    /// The inputs of the second graph, by name, and those of the first that go into them.
    pub(super) inputs: &'a HashMap<String, String>,
}

/// What comparing layers found.
#[derive(Default)]
pub(super) struct Compared {
    pub(super) layers: Vec<Layer>,
    /// Those that fail for what they take alone.
    pub(super) rewired: Vec<usize>,
    /// What storage may do to the results of all layers, relative to their size: the sum.
    pub(super) storage: f64,
    /// The size of each value of the first graph.
    pub(super) sizes: HashMap<String, Size>,
}

impl Comparing<'_> {
    /// Runs every pair of nodes on the first graph's activations; the second one's on `device`.
    ///
    /// # Errors
    /// What running or reading reports.
    pub(super) fn run(&self, device: &mut dyn Backend) -> Result<Compared> {
        let mut compared = Compared::default();
        let mut wiring = Wiring::new(self);
        // The size of a loaded model's errors, from its own parameters with errors in place of values.
        let errors = Errors { parameters: self.sides.a, errors: self.sides.errors.clone() };
        let shapes = self.a.1.inputs().map(|input| (input.name.to_owned(), input.shape.to_vec())).collect();
        let bounds = match self.sides.errors.is_empty() || self.rule != RuleName::Bound {
            true => None,
            false => Some(Program::new(self.a.0, &errors, &shapes)?),
        };
        for pair in self.pairs {
            match *pair {
                Pair::Both(ia, ib) => {
                    let (Some(a), Some(b)) = (self.a.0.nodes.get(ia), self.b.0.nodes.get(ib)) else {
                        continue;
                    };
                    let wired = wiring.follow(a, b);
                    self.both((ia, a), (ib, b), wired, bounds.as_ref(), device, &mut compared)?;
                }
                Pair::OnlyA(ia) => {
                    let node = self.a.0.nodes.get(ia);
                    compared.layers.extend(
                        node.map(|node| self.alone(Some(node), None, "only the reference has this layer")),
                    );
                }
                Pair::OnlyB(ib) => {
                    let node = self.b.0.nodes.get(ib);
                    compared.layers.extend(
                        node.map(|node| self.alone(None, Some(node), "the reference has no such layer")),
                    );
                }
            }
        }
        Ok(compared)
    }

    fn both(
        &self,
        (ia, a): (usize, &Node),
        (ib, b): (usize, &Node),
        wired: Option<String>,
        bounds: Option<&Program>,
        device: &mut dyn Backend,
        compared: &mut Compared,
    ) -> Result<()> {
        let Some(inputs) = self.inputs_of(ia) else { return Ok(()) };
        let arithmetic = if self.rule == RuleName::Bits { Arithmetic::F32 } else { Arithmetic::F64 };
        let reference = self.a.1.run_node(ia, &mut Cpu::new(arithmetic), &inputs)?;
        let bound = match self.rule {
            RuleName::Bound => self.bound(ia, a, &inputs, bounds)?,
            _ => Bound::default(),
        };
        if let (Some(value), Some(name)) = (reference.first(), a.outputs.first()) {
            let size = bound.size(&value.array.to_f64());
            if let (Op::Softmax, Some(logits)) = (&a.op, inputs.first()) {
                compared.storage *= Bound::of_softmax(&logits.array.to_f64(), &value.array.to_f64());
            }
            compared.storage += bound.relative_storage(size);
            compared.sizes.insert(name.clone(), size);
        }
        let demand = match (self.rule, self.tolerance) {
            (RuleName::Given, Some(tolerance)) => Demand::Given(tolerance),
            (RuleName::Bound, _) => Demand::Node(bound),
            _ => Demand::Bits,
        };
        let tensors = tensor_pairs(self.sides, Some(a), Some(b));
        let differing = self.sides.differing(a, b)?;
        // A tolerance that is given is one of results.
        let tensors_fail = !differing.is_empty() && self.rule != RuleName::Given;
        let found = match self.reshaped(ib, &inputs) {
            Some(inputs) => Some(self.b.1.run_node(ib, device, &inputs)?),
            None => None,
        };
        for (index, name) in a.outputs.iter().enumerate() {
            let (Some(own), theirs) =
                (reference.get(index), found.as_ref().and_then(|found| found.get(index)))
            else {
                continue;
            };
            let comparison = theirs.and_then(|theirs| {
                let theirs = as_shape(theirs, &own.shape)?;
                comparable(own, &theirs).then(|| compare(own, &theirs, &demand))
            });
            let passes = comparison.as_ref().is_some_and(|comparison| comparison.verdict.passes());
            let blame = || blame(a, b, &tensors, differing.clone());
            let mut blamed = (!passes || tensors_fail).then(blame);
            if let Some(wired) = &wired {
                if blamed.is_none() {
                    compared.rewired.push(compared.layers.len());
                }
                let own = blamed.take().map_or(String::new(), |blame| format!("; {}", blame.reason));
                blamed = Some(Blame { reason: format!("{wired}{own}"), tensors: differing.clone() });
            }
            compared.layers.push(Layer {
                a: Some(a.name.clone()),
                b: Some(b.name.clone()),
                op: a.op.name().to_owned(),
                value: name.clone(),
                tensors: tensors.clone(),
                verdict: Verdict::of(blamed.is_none()),
                comparison,
                blame: blamed,
            });
        }
        Ok(())
    }

    fn alone(&self, a: Option<&Node>, b: Option<&Node>, reason: &str) -> Layer {
        let node = a.or(b);
        Layer {
            a: a.map(|node| node.name.clone()),
            b: b.map(|node| node.name.clone()),
            op: node.map(|node| node.op.name().to_owned()).unwrap_or_default(),
            value: node.and_then(|node| node.outputs.first()).cloned().unwrap_or_default(),
            tensors: tensor_pairs(self.sides, a, b),
            comparison: None,
            verdict: Verdict::Fail,
            blame: Some(Blame { reason: reason.to_owned(), tensors: Vec::new() }),
        }
    }

    /// The activations that a node of the first graph takes.
    fn inputs_of(&self, node: usize) -> Option<Vec<Value>> {
        let info = self.a.1.nodes().nth(node)?;
        info.inputs.iter().map(|input| self.activations.get(input.name).cloned()).collect()
    }

    /// The same values as the second graph's node takes them; `None` where it takes others.
    fn reshaped(&self, node: usize, values: &[Value]) -> Option<Vec<Value>> {
        let info = self.b.1.nodes().nth(node)?;
        if info.inputs.len() != values.len() {
            return None;
        }
        let pairs = info.inputs.iter().zip(values);
        pairs
            .map(|(input, value)| {
                let integers = matches!(value.array, Array::I32(_)) == (input.numbers == Numbers::Integer);
                as_shape(value, input.shape).filter(|_| integers)
            })
            .collect()
    }

    fn bound(&self, node: usize, a: &Node, inputs: &[Value], bounds: Option<&Program>) -> Result<Bound> {
        let rounding = self.a.1.magnitude(node, inputs)?;
        let errors: Vec<StorageError> =
            a.parameters.values().filter_map(|name| self.sides.errors.get(name)).copied().collect();
        let storage = match (errors.is_empty(), bounds, &a.op) {
            (true, ..) | (_, None, _) => Vec::new(),
            (_, _, Op::BatchNormalization) => match inputs.first() {
                Some(x) => normalized::of_batch(a, self.sides.a, self.sides.errors, x)?,
                None => Vec::new(),
            },
            // Each of two tensors enters once, relative to the whole; what a row is normalized to is at most √n.
            (_, _, Op::LayerNormalization) => {
                let most = |of: fn(&StorageError) -> f64| errors.iter().map(of).fold(0.0, f64::max);
                let (relative, absolute) = (most(|error| error.relative), most(|error| error.absolute));
                let scale = a.parameters.get("scale").and_then(|name| self.sides.a.tensor(name));
                #[expect(clippy::cast_precision_loss, reason = "what is in memory is below 2^53")]
                let root = scale.map_or(1.0, |scale| (scale.shape.elements() as f64).sqrt());
                let sums = rounding.iter().flat_map(|rounding| &rounding.sums);
                sums.map(|sum| 2.0 * relative * sum + (1.0 + root) * absolute).collect()
            }
            (_, Some(bounds), _) => {
                let absolute =
                    |value: &Value| Value { shape: value.shape.clone(), array: absolute(&value.array) };
                let inputs: Vec<Value> = inputs.iter().map(absolute).collect();
                let made = bounds.run_node(node, &mut Cpu::new(Arithmetic::F64), &inputs)?;
                made.first().map(|value| value.array.to_f64()).unwrap_or_default()
            }
        };
        Ok(Bound { rounding, storage })
    }
}

fn absolute(array: &Array) -> Array {
    match array {
        Array::I32(indices) => Array::I32(indices.clone()),
        reals => Array::F64(reals.to_f64().into_iter().map(f64::abs).collect()),
    }
}

/// The same elements in a shape; `None` where it has more or fewer.
pub(super) fn as_shape(value: &Value, shape: &[usize]) -> Option<Value> {
    if value.shape == shape {
        return Some(value.clone());
    }
    // One graph has an image where another has a row; never another batch.
    let stated: Vec<Option<u64>> = shape.iter().map(|len| Some(*len as u64)).collect();
    let flat = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
    let alike = value.shape.first() == shape.first() && flat(&value.shape) == flat(shape);
    (alike || fitted(&value.shape, &stated).is_some())
        .then(|| Value::new(shape, value.array.clone()).ok())
        .flatten()
}

/// Whether both are numbers, or both are integers.
pub(super) fn comparable(a: &Value, b: &Value) -> bool {
    a.shape == b.shape && matches!(a.array, Array::I32(_)) == matches!(b.array, Array::I32(_))
}

/// Which value of the second graph is which of the first.
struct Wiring {
    /// By the second graph's names.
    same: HashMap<String, String>,
    /// What passes on what it takes, in either graph: what it makes, by name, and what it takes.
    passed: [HashMap<String, String>; 2],
}

impl Wiring {
    fn new(comparing: &Comparing) -> Self {
        let paired: [BTreeSet<usize>; 2] = [
            comparing
                .pairs
                .iter()
                .filter_map(|pair| if let Pair::Both(a, _) = pair { Some(*a) } else { None })
                .collect(),
            comparing
                .pairs
                .iter()
                .filter_map(|pair| if let Pair::Both(_, b) = pair { Some(*b) } else { None })
                .collect(),
        ];
        let graphs = [comparing.a.0, comparing.b.0];
        let mut passed = [HashMap::new(), HashMap::new()];
        for ((graph, paired), passed) in graphs.into_iter().zip(&paired).zip(&mut passed) {
            for (index, node) in graph.nodes.iter().enumerate() {
                let passes = matches!(node.op, Op::Identity | Op::Flatten) && !paired.contains(&index);
                if let (true, [from], [to]) = (passes, &node.inputs[..], &node.outputs[..]) {
                    // What comes first in the graph is resolved already.
                    let from = passed.get(from).unwrap_or(from).clone();
                    passed.insert(to.clone(), from);
                }
            }
        }
        Wiring { same: comparing.inputs.clone(), passed }
    }

    /// Whether a node takes what its counterpart takes; if not, in words. Then the one's results are the other's.
    fn follow(&mut self, a: &Node, b: &Node) -> Option<String> {
        let [in_a, in_b] = &self.passed;
        let source = |passed: &HashMap<String, String>, name: &str| {
            passed.get(name).map_or(name, String::as_str).to_owned()
        };
        let mut wrong = None;
        for (x, y) in a.inputs.iter().zip(&b.inputs) {
            let (own, theirs) = (source(in_a, x), source(in_b, y));
            if self.same.get(&theirs) != Some(&own) {
                wrong.get_or_insert_with(|| {
                    format!("it takes '{theirs}', and the reference '{own}', which is not the same")
                });
            }
        }
        if a.inputs.len() != b.inputs.len() {
            wrong = Some(format!("it takes {} values, and the reference {}", b.inputs.len(), a.inputs.len()));
        }
        self.same.extend(b.outputs.iter().cloned().zip(a.outputs.iter().cloned()));
        wrong
    }
}
