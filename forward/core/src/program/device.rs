//! The buffers of a run.

use super::parts::no_such;
use crate::kernel::{Copy, Kernel, View};
use crate::lower::Info;
use crate::{Array, Backend, BufferId};
use ckpt_api::{Error, Result};
use std::collections::{BTreeSet, HashMap};

/// The buffers of the values that are on the device, by the values' indices. Values that are the same elements share one.
#[derive(Default)]
pub(super) struct Held {
    buffers: HashMap<usize, BufferId>,
    uses: HashMap<BufferId, usize>,
}

impl Held {
    pub(super) fn get(&self, id: usize) -> Result<BufferId> {
        self.buffers.get(&id).copied().ok_or_else(|| no_such("value", id))
    }

    pub(super) fn insert(&mut self, id: usize, buffer: BufferId) {
        self.buffers.insert(id, buffer);
        *self.uses.entry(buffer).or_default() += 1;
    }

    /// Removes a value, and returns its buffer if no other value has it.
    pub(super) fn remove(&mut self, id: usize) -> Option<BufferId> {
        let buffer = self.buffers.remove(&id)?;
        let uses = self.uses.get_mut(&buffer)?;
        *uses -= 1;
        (*uses == 0).then(|| {
            self.uses.remove(&buffer);
            buffer
        })
    }
}

/// A backend and its buffers in use, which are freed when this is dropped.
pub(super) struct Device<'b> {
    pub(super) backend: &'b mut dyn Backend,
    used: BTreeSet<BufferId>,
    /// Nodes that loops computed so far.
    pub(super) looped: u64,
    /// Operations so far.
    pub(super) operations: u64,
}

impl<'b> Device<'b> {
    pub(super) fn new(backend: &'b mut dyn Backend) -> Self {
        Device { backend, used: BTreeSet::new(), looped: 0, operations: 0 }
    }

    pub(super) fn upload(&mut self, array: Array) -> Result<BufferId> {
        let array = array.into_real(self.backend.arithmetic().element());
        let buffer = self.backend.upload_owned(array)?;
        self.used.insert(buffer);
        Ok(buffer)
    }

    pub(super) fn zeros_like(&mut self, infos: &[Info]) -> Result<Vec<BufferId>> {
        let mut buffers = Vec::with_capacity(infos.len());
        for info in infos {
            let element = info.numbers.element(self.backend.arithmetic());
            let buffer = self.backend.zeros(element, info.len())?;
            self.used.insert(buffer);
            buffers.push(buffer);
        }
        Ok(buffers)
    }

    /// Returns the only element of a buffer of integers.
    pub(super) fn integer(&mut self, buffer: BufferId) -> Result<i32> {
        match self.backend.download(buffer)? {
            Array::I32(values) if values.len() == 1 => Ok(values.first().copied().unwrap_or(0)),
            other => Err(Error::corrupt("a branch or a loop needs one integer")
                .found(format!("{:?}", other.element()))),
        }
    }

    /// Copies a value to a buffer of its own.
    pub(super) fn copied(&mut self, from: BufferId, info: &Info) -> Result<BufferId> {
        let made = self.zeros_like(std::slice::from_ref(info))?;
        let to = made.first().copied().ok_or_else(|| no_such("value", 0))?;
        self.copy(from, to, info.len(), 0)?;
        Ok(to)
    }

    /// Copies a value to its place among those that are stacked.
    pub(super) fn place(&mut self, part: BufferId, whole: BufferId, info: &Info, at: u64) -> Result<()> {
        let len: usize = info.shape.iter().skip(1).product();
        let offset = usize::try_from(at).ok().and_then(|at| at.checked_mul(len));
        self.copy(part, whole, len, offset.ok_or_else(|| no_such("value", len))?)
    }

    fn copy(&mut self, from: BufferId, to: BufferId, len: usize, offset: usize) -> Result<()> {
        let view = |offset: usize| View { offset, strides: vec![1] };
        let kernel = Copy { shape: vec![len], from: view(0), to: view(offset) };
        self.backend.run(&Kernel::Copy(kernel), &[from], to)
    }

    pub(super) fn free(&mut self, buffer: BufferId) {
        self.used.remove(&buffer);
        self.backend.free(buffer);
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        for buffer in std::mem::take(&mut self.used) {
            self.backend.free(buffer);
        }
    }
}
