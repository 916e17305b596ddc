//! Instances of a plugin, kept between calls.

use super::imports::misuse;
use super::instance::{Instance, named};
use super::module::Module;
use ckpt_api::{Limits, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Instances that are kept between calls.
const MOST_KEPT: usize = 16;

/// Instances that decode and compute: several threads have one each.
pub(crate) struct Pool {
    module: Arc<Module>,
    limits: Limits,
    idle: Mutex<Vec<Instance>>,
}

impl Pool {
    pub(crate) fn new(module: Arc<Module>, limits: Limits) -> Self {
        Pool { module, limits, idle: Mutex::default() }
    }

    /// An instance of which nothing else knows.
    pub(crate) fn fresh(&self) -> Result<Instance> {
        Instance::new(&self.module, None, &self.limits)
    }

    /// Lets an instance act. One that fails is not used again.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Instance) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut instance = match idle {
            Some(instance) => instance,
            None => self.fresh()?,
        };
        let result = act(&mut instance)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_KEPT {
            idle.push(instance);
        }
        Ok(result)
    }

    /// The error for a plugin that does not keep the interface.
    pub(crate) fn misuse(&self, what: &str) -> ckpt_api::Error {
        named(&self.module, misuse(what))
    }
}
