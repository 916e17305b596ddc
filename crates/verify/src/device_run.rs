//! Compares the second graph on one device with the first graph on the CPU.

use super::compare::{Criterion, ErrorBound, RELATIVE_L2, StorageChanges, argmax, compare};
use super::diagnose::Checkpoints;
use super::layers::{LayerComparison, LayerResults, Pair, ReferenceRun};
use super::options::Options;
use super::parameters::RoundedParameters;
use super::report::{Check, OutputReport, Rule, RuleName, Run, Verdict};
use super::shapes::{are_comparable, reshaped};
use ckpt_api::{Error, Graph, Result};
use ckpt_forward::{Arithmetic, Backend, Cpu, Program, Value};
use std::collections::{BTreeMap, HashMap};

/// The check of outputs that must have the bits of the reference with its weights rounded.
const OF_ROUNDED: &str = "elements with different bits than the rounded weights give";

/// Everything that a run on a device needs.
pub(super) struct DeviceRun<'a, 'c> {
    pub(super) options: &'a Options,
    pub(super) changes: &'a StorageChanges,
    pub(super) checkpoints: &'a Checkpoints<'c>,
    pub(super) a: (&'a Graph, &'a Program<'a>),
    pub(super) b: (&'a Graph, &'a Program<'a>),
    pub(super) pairs: &'a [Pair],
    pub(super) inputs: (&'a BTreeMap<String, Value>, &'a BTreeMap<String, Value>),
    /// Names of the first graph's inputs, by the second graph's.
    pub(super) names: &'a HashMap<String, String>,
}

impl DeviceRun<'_, '_> {
    /// Runs the second graph on `device`. Layers are compared only if they are needed: for the report, for the
    /// rule, or to find the first that diverges.
    ///
    /// # Errors
    /// Whatever running or reading reports; [`ckpt_api::Kind::Mismatch`] for outputs that do not correspond.
    pub(super) fn run(&self, device: &mut dyn Backend) -> Result<Run> {
        let rule = self.changes.rule(device.info(), self.options.tolerance);
        let is_exact = rule.name == RuleName::Bits;
        let mut cpu = Cpu::new(if is_exact { Arithmetic::F32 } else { Arithmetic::F64 });
        let found = self.b.1.run(device, self.inputs.1, &mut ())?;
        // The bound of the outputs is the sum of the layers' bounds.
        let layers_first =
            self.options.per_layer || rule.name == RuleName::Bound || !self.tensors_agree(&rule)?;
        let mut reference = self.reference(&mut cpu, layers_first)?;
        let mut results = match layers_first {
            true => self.layers(&rule, &reference, device)?,
            false => LayerResults::default(),
        };
        let mut outputs = self.outputs(&rule, &reference, &found, &results)?;
        let agree = outputs.iter().all(|output| output.comparison.verdict.passes());
        if !agree && !layers_first {
            reference = self.reference(&mut cpu, true)?;
            results = self.layers(&rule, &reference, device)?;
        }
        if agree && self.changes.errors.is_empty() {
            results.excuse_differences_of_structure();
        }
        let holds = agree && results.layers.iter().all(|layer| layer.verdict != Verdict::Fail);
        if !holds && rule.name == RuleName::Bound && !results.has_differing_tensors() {
            self.accept_rounded(&found, &mut outputs, &mut results, device)?;
        }
        let agree = outputs.iter().all(|output| output.comparison.verdict.passes());
        let mut layers = results.layers;
        let first_divergence = layers.iter().position(|layer| layer.verdict == Verdict::Fail);
        let verdict = Verdict::of(agree && first_divergence.is_none());
        if !self.options.per_layer && verdict.passes() {
            layers.clear();
        }
        let (reference, device) = (cpu.info().clone(), device.info().clone());
        Ok(Run { reference, device, rule, outputs, layers, first_divergence, verdict })
    }

    /// Whether corresponding tensors are equal, if equal bits are demanded. The results do not show a difference behind
    /// a neuron that never fires.
    fn tensors_agree(&self, rule: &Rule) -> Result<bool> {
        for pair in self.pairs {
            if let (Pair::Both(ia, ib), RuleName::Bits) = (pair, rule.name)
                && let (Some(a), Some(b)) = (self.a.0.nodes.get(*ia), self.b.0.nodes.get(*ib))
                && !self.checkpoints.differing(a, b)?.is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Accepts outputs that have the very bits that the first graph gives with its weights rounded as they are stored: then
    /// rounding is all that happened, whatever becomes of it, and however the graphs are written.
    fn accept_rounded(
        &self,
        found: &BTreeMap<String, Value>,
        outputs: &mut [OutputReport],
        results: &mut LayerResults,
        device: &dyn Backend,
    ) -> Result<()> {
        if !device.info().is_reference() || self.changes.errors.is_empty() || !self.changes.only_rounds() {
            return Ok(());
        }
        let parameters = RoundedParameters { parameters: self.checkpoints.a, kinds: &self.changes.rounded };
        let shapes = self.a.1.inputs().map(|input| (input.name.to_owned(), input.shape.to_vec())).collect();
        let program = Program::within(self.a.0, &parameters, &shapes, self.options.bounds())?;
        let rounded = program.run(&mut Cpu::new(Arithmetic::F32), self.inputs.0, &mut ())?;
        let mut checks = Vec::with_capacity(outputs.len());
        for output in &*outputs {
            let pair = rounded.get(&output.a).zip(found.get(&output.b));
            let pair = pair.and_then(|(a, b)| Some((a, reshaped(b, &a.shape)?)));
            let Some((a, b)) = pair.filter(|(a, b)| are_comparable(a, b)) else { return Ok(()) };
            let metrics = compare(a, &b, &Criterion::Bits).metrics;
            if metrics.differing > 0 {
                return Ok(());
            }
            checks.push(Check::new(OF_ROUNDED, 0.0, 0.0));
        }
        for (output, check) in outputs.iter_mut().zip(checks) {
            (output.comparison.checks, output.comparison.verdict) = (vec![check], Verdict::Pass);
        }
        results.excuse_bounds();
        Ok(())
    }

    fn reference(&self, cpu: &mut Cpu, keep: bool) -> Result<ReferenceRun> {
        ReferenceRun::new(self.a.1, cpu, self.inputs.0, keep.then_some(self.options.memory))
    }

    fn layers(
        &self,
        rule: &Rule,
        reference: &ReferenceRun,
        device: &mut dyn Backend,
    ) -> Result<LayerResults> {
        let comparison = LayerComparison {
            checkpoints: self.checkpoints,
            a: self.a,
            b: self.b,
            pairs: self.pairs,
            rule: rule.name,
            tolerance: self.options.tolerance,
            activations: &reference.activations,
            inputs: self.names,
        };
        comparison.run(device)
    }

    fn outputs(
        &self,
        rule: &Rule,
        reference: &ReferenceRun,
        found: &BTreeMap<String, Value>,
        results: &LayerResults,
    ) -> Result<Vec<OutputReport>> {
        let (own, theirs) = (&self.a.0.outputs, &self.b.0.outputs);
        if own.len() != theirs.len() {
            return Err(Error::mismatch("the graphs have different numbers of outputs")
                .found(format!("{} in the second", theirs.len()))
                .expected(format!("{}, as in the first", own.len())));
        }
        let mut reports = Vec::new();
        for (own, theirs) in own.iter().zip(theirs) {
            let (Some(a), Some(b)) = (reference.outputs.get(&own.name), found.get(&theirs.name)) else {
                continue;
            };
            let b = reshaped(b, &a.shape).filter(|b| are_comparable(a, b)).ok_or_else(|| {
                Error::mismatch("the graphs' outputs have different shapes")
                    .field(&own.name)
                    .found(format!("{:?}", b.shape))
                    .expected(format!("{:?}", a.shape))
            })?;
            let criterion = self.output_criterion(rule, &own.name, a, results);
            let mut comparison = compare(a, &b, &criterion);
            let argmax = argmax(a, &b, criterion.allowed(a));
            if argmax.is_some_and(|argmax| argmax.decided != argmax.decided_agreeing) {
                comparison.verdict = Verdict::Fail;
            }
            reports.push(OutputReport { a: own.name.clone(), b: theirs.name.clone(), comparison, argmax });
        }
        if reports.iter().all(|report| report.comparison.shape.contains(&0)) {
            return Err(Error::usage("nothing can be compared, because the outputs have no elements")
                .help("pass at least one example as input"));
        }
        Ok(reports)
    }

    /// What the rule demands of the output called `name`.
    fn output_criterion(
        &self,
        rule: &Rule,
        name: &str,
        reference: &Value,
        results: &LayerResults,
    ) -> Criterion {
        match (rule.name, self.options.tolerance) {
            (RuleName::Bits, _) => Criterion::Bits,
            (RuleName::Given, Some(tolerance)) => Criterion::Given(tolerance),
            _ => {
                let norms = results.norms.get(name).copied();
                let norms = norms.unwrap_or_else(|| ErrorBound::default().norms(&reference.array.to_f64()));
                Criterion::Output { limit: RELATIVE_L2 + results.storage, norms }
            }
        }
    }
}
