//! Runs the first graph and keeps its activations.

use ckpt_api::{Error, Result, text};
use ckpt_engine::settings;
use ckpt_forward::{Backend, Element, Observer, Program, Value};
use std::collections::{BTreeMap, HashMap};

/// The outputs of the first graph and, if they are kept, its activations, rounded to binary32.
pub(crate) struct ReferenceRun {
    pub(crate) outputs: BTreeMap<String, Value>,
    pub(crate) activations: HashMap<String, Value>,
}

impl ReferenceRun {
    /// Runs `program`, and keeps activations in at most `keep` bytes, if that is given.
    ///
    /// # Errors
    /// Whatever running reports; [`ckpt_api::Kind::Limit`] for activations that do not fit.
    pub(crate) fn new(
        program: &Program,
        backend: &mut dyn Backend,
        inputs: &BTreeMap<String, Value>,
        keep: Option<u64>,
    ) -> Result<Self> {
        let Some(memory) = keep else {
            let outputs = program.run(backend, inputs, &mut ())?;
            return Ok(ReferenceRun { outputs, activations: HashMap::new() });
        };
        let mut kept = KeptActivations { left: memory, values: HashMap::new() };
        for (name, value) in inputs {
            kept.keep(name, value.clone())?;
        }
        let outputs = program.run(backend, inputs, &mut kept)?;
        Ok(ReferenceRun { outputs, activations: kept.values })
    }
}

/// Activations by name, in bounded memory.
struct KeptActivations {
    /// Bytes that are left.
    left: u64,
    values: HashMap<String, Value>,
}

impl KeptActivations {
    fn keep(&mut self, name: &str, value: Value) -> Result<()> {
        let bytes = (value.array.len() as u64).saturating_mul(4);
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Error::limit("the results of all layers need more memory than the forward pass may use")
                .field(name)
                .help(text!["compare fewer examples, or allow more with ", settings::FORWARD_MEMORY])
        })?;
        let array = value.array.into_real(Element::F32);
        self.values.insert(name.to_owned(), Value { shape: value.shape, array });
        Ok(())
    }
}

impl Observer for KeptActivations {
    fn observe(&mut self, _: usize, name: &str, value: Value) -> Result<()> {
        self.keep(name, value)
    }
}
