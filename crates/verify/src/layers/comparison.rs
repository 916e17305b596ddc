//! Compares the layers of two graphs, pair by pair.

use super::bounds::LayerBounds;
use super::pairing::Pair;
use super::wiring::Wiring;
use crate::compare::{Criterion, ErrorBound, Norms, compare};
use crate::diagnose::{Checkpoints, diagnose};
use crate::parameters::ErrorBounds;
use crate::report::{Comparison, Diagnosis, Layer, RuleName, TensorDiagnosis, TensorPair, Verdict};
use crate::shapes::{are_comparable, reshaped};
use ckpt_api::{Graph, Node, Op, Result};
use ckpt_engine::diff::Tolerance;
use ckpt_forward::{Arithmetic, Array, Backend, Cpu, Numbers, Program, Value};
use std::collections::HashMap;

/// Everything that comparing layers needs.
pub(crate) struct LayerComparison<'a, 'c> {
    pub(crate) checkpoints: &'a Checkpoints<'c>,
    pub(crate) a: (&'a Graph, &'a Program<'a>),
    pub(crate) b: (&'a Graph, &'a Program<'a>),
    pub(crate) pairs: &'a [Pair],
    pub(crate) rule: RuleName,
    /// The tolerance of [`RuleName::Given`].
    pub(crate) tolerance: Option<Tolerance>,
    /// Activations of the first graph.
    pub(crate) activations: &'a HashMap<String, Value>,
    /// Names of the first graph's inputs, by the second graph's.
    pub(crate) inputs: &'a HashMap<String, String>,
}

/// The result of comparing layers.
#[derive(Default)]
pub(crate) struct LayerResults {
    pub(crate) layers: Vec<Layer>,
    /// Indices of the layers that fail only because their inputs are connected differently.
    pub(crate) rewired: Vec<usize>,
    /// Sum over all layers of what storage may do to their results, relative to the results' norms.
    pub(crate) storage: f64,
    /// Norms of each value of the first graph.
    pub(crate) norms: HashMap<String, Norms>,
}

/// A pair of nodes, and the results of the first.
struct NodePair<'n> {
    a: &'n Node,
    b: &'n Node,
    reference: Vec<Value>,
    /// Results of the second node; `None` if it cannot run on the same inputs.
    found: Option<Vec<Value>>,
    /// What must hold for each result.
    criteria: Vec<Criterion>,
    tensors: Vec<TensorPair>,
    differing: Vec<TensorDiagnosis>,
    /// The difference between the nodes' inputs, if there is one.
    rewired: Option<String>,
}

impl LayerComparison<'_, '_> {
    /// Runs every pair of nodes on the first graph's activations, the second node on `device`.
    ///
    /// # Errors
    /// Whatever running or reading reports.
    pub(crate) fn run(&self, device: &mut dyn Backend) -> Result<LayerResults> {
        let mut results = LayerResults::default();
        let mut wiring = Wiring::new(self.a.0, self.b.0, self.pairs, self.inputs);
        let errors = self.checkpoints.errors;
        let parameters = ErrorBounds { parameters: self.checkpoints.a, errors };
        let shapes = self.a.1.inputs().map(|input| (input.name.to_owned(), input.shape.to_vec())).collect();
        let of_errors = match errors.is_empty() || self.rule != RuleName::Bound {
            true => None,
            false => Some(Program::within(self.a.0, &parameters, &shapes, self.a.1.bounds())?),
        };
        let (program, of_errors) = (self.a.1, of_errors.as_ref());
        let bounds = LayerBounds { program, parameters: self.checkpoints.a, errors, of_errors };
        let (nodes_a, nodes_b) = (&self.a.0.nodes, &self.b.0.nodes);
        for pair in self.pairs {
            match *pair {
                Pair::Both(ia, ib) => {
                    let (Some(a), Some(b)) = (nodes_a.get(ia), nodes_b.get(ib)) else { continue };
                    let rewired = wiring.follow(a, b);
                    self.compare_nodes((ia, a), (ib, b), rewired, &bounds, device, &mut results)?;
                }
                Pair::OnlyA(ia) => {
                    results.layers.push(self.unpaired(
                        nodes_a.get(ia),
                        None,
                        "only the reference has this layer",
                    ));
                }
                Pair::OnlyB(ib) => {
                    results.layers.push(self.unpaired(
                        None,
                        nodes_b.get(ib),
                        "the reference has no such layer",
                    ));
                }
            }
        }
        Ok(results)
    }

    fn compare_nodes(
        &self,
        (ia, a): (usize, &Node),
        (ib, b): (usize, &Node),
        rewired: Option<String>,
        bounds: &LayerBounds,
        device: &mut dyn Backend,
        results: &mut LayerResults,
    ) -> Result<()> {
        let Some(inputs) = self.inputs_of(ia) else { return Ok(()) };
        let arithmetic = if self.rule == RuleName::Bits { Arithmetic::F32 } else { Arithmetic::F64 };
        let reference = self.a.1.run_node(ia, &mut Cpu::new(arithmetic), &inputs)?;
        let bounds = match self.rule {
            RuleName::Bound => bounds.of(ia, a, &inputs)?,
            _ => vec![ErrorBound::default(); reference.len()],
        };
        results.accumulate(a, &inputs, &reference, &bounds);
        let criterion = |bound| match (self.rule, self.tolerance) {
            (RuleName::Given, Some(tolerance)) => Criterion::Given(tolerance),
            (RuleName::Bound, _) => Criterion::Node(bound),
            _ => Criterion::Bits,
        };
        let criteria = bounds.into_iter().map(criterion).collect();
        let found = match self.inputs_for_b(ib, &inputs) {
            Some(inputs) => Some(self.b.1.run_node(ib, device, &inputs)?),
            None => None,
        };
        let tensors = self.checkpoints.tensor_pairs(Some(a), Some(b));
        let differing = self.checkpoints.differing(a, b)?;
        self.report(NodePair { a, b, reference, found, criteria, tensors, differing, rewired }, results);
        Ok(())
    }

    /// Adds a layer to the results for each output of a node.
    fn report(&self, pair: NodePair, results: &mut LayerResults) {
        // A tolerance that the user gives is one of results, not of tensors.
        let tensors_fail = !pair.differing.is_empty() && self.rule != RuleName::Given;
        for (index, name) in pair.a.outputs.iter().enumerate() {
            let Some(own) = pair.reference.get(index) else { continue };
            let theirs = pair.found.as_ref().and_then(|found| found.get(index));
            let theirs = theirs.zip(pair.criteria.get(index));
            let comparison = theirs.and_then(|(theirs, criterion)| compare_values(own, theirs, criterion));
            let passes = comparison.as_ref().is_some_and(|comparison| comparison.verdict.passes());
            let fails = !passes || tensors_fail;
            if pair.rewired.is_some() && !fails {
                results.rewired.push(results.layers.len());
            }
            let diagnosis = pair.diagnosis(fails);
            results.layers.push(Layer {
                a: Some(pair.a.name.clone()),
                b: Some(pair.b.name.clone()),
                op: pair.a.op.name().to_owned(),
                value: name.clone(),
                tensors: pair.tensors.clone(),
                verdict: Verdict::of(diagnosis.is_none()),
                comparison,
                diagnosis,
            });
        }
    }

    fn unpaired(&self, a: Option<&Node>, b: Option<&Node>, reason: &str) -> Layer {
        let node = a.or(b);
        Layer {
            a: a.map(|node| node.name.clone()),
            b: b.map(|node| node.name.clone()),
            op: node.map(|node| node.op.name().to_owned()).unwrap_or_default(),
            value: node.and_then(|node| node.outputs.first()).cloned().unwrap_or_default(),
            tensors: self.checkpoints.tensor_pairs(a, b),
            comparison: None,
            verdict: Verdict::Fail,
            diagnosis: Some(Diagnosis { reason: reason.to_owned(), tensors: Vec::new() }),
        }
    }

    /// The activations that are inputs of a node of the first graph.
    fn inputs_of(&self, node: usize) -> Option<Vec<Value>> {
        let info = self.a.1.node(node)?;
        info.inputs.iter().map(|input| self.activations.get(input.name).cloned()).collect()
    }

    /// The same values in the shapes of the second graph's node; `None` if its inputs are others.
    fn inputs_for_b(&self, node: usize, values: &[Value]) -> Option<Vec<Value>> {
        let info = self.b.1.node(node)?;
        if info.inputs.len() != values.len() {
            return None;
        }
        let pairs = info.inputs.iter().zip(values);
        pairs
            .map(|(input, value)| {
                let fits = matches!(value.array, Array::I32(_)) == (input.numbers == Numbers::Integer);
                reshaped(value, input.shape).filter(|_| fits)
            })
            .collect()
    }
}

impl LayerResults {
    /// Accepts layers that only one graph has, and inputs that are connected differently, because the outputs agree:
    /// the graphs compute the same in other words. A bound that storage widens does not show that.
    pub(crate) fn excuse_differences_of_structure(&mut self) {
        for layer in self.layers.iter_mut().filter(|layer| layer.comparison.is_none()) {
            layer.verdict = Verdict::NotCompared;
        }
        for index in &self.rewired {
            if let Some(layer) = self.layers.get_mut(*index) {
                (layer.verdict, layer.diagnosis) = (Verdict::Pass, None);
            }
        }
    }

    /// Whether the tensors of a layer differ by more than their storage explains.
    pub(crate) fn has_differing_tensors(&self) -> bool {
        let mut diagnoses = self.layers.iter().filter_map(|layer| layer.diagnosis.as_ref());
        diagnoses.any(|diagnosis| !diagnosis.tensors.is_empty())
    }

    /// Accepts layers that exceed their bound, because the outputs have the bits that the weights as they are stored give.
    pub(crate) fn excuse_bounds(&mut self) {
        for layer in self.layers.iter_mut().filter(|layer| layer.verdict == Verdict::Fail) {
            (layer.verdict, layer.diagnosis) = (Verdict::NotCompared, None);
        }
    }

    /// Adds what storage does to a node's outputs: the most that it does to one of them.
    fn accumulate(&mut self, node: &Node, inputs: &[Value], reference: &[Value], bounds: &[ErrorBound]) {
        if let (Op::Softmax, Some(logits), Some(value)) = (&node.op, inputs.first(), reference.first()) {
            self.storage *= ErrorBound::softmax_factor(&logits.array.to_f64(), &value.array.to_f64());
        }
        let mut most = 0f64;
        for ((value, name), bound) in reference.iter().zip(&node.outputs).zip(bounds) {
            let norms = bound.norms(&value.array.to_f64());
            most = most.max(bound.relative_storage(norms));
            self.norms.insert(name.clone(), norms);
        }
        self.storage += most;
    }
}

/// Compares one output; `None` if the shapes or the kinds of numbers differ.
fn compare_values(reference: &Value, found: &Value, criterion: &Criterion) -> Option<Comparison> {
    let found = reshaped(found, &reference.shape)?;
    are_comparable(reference, &found).then(|| compare(reference, &found, criterion))
}

impl NodePair<'_> {
    fn diagnosis(&self, fails: bool) -> Option<Diagnosis> {
        let own = fails.then(|| diagnose(self.a, self.b, &self.tensors, self.differing.clone()));
        let Some(rewired) = &self.rewired else { return own };
        let reason = match own {
            Some(own) => format!("{rewired}; {}", own.reason),
            None => rewired.clone(),
        };
        Some(Diagnosis { reason, tensors: self.differing.clone() })
    }
}
