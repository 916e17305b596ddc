//! An open file of a remote store.

use super::blocks::Blocks;
use super::object::{Object, Whole};
use super::problem::Problem;
use ckpt_api::ReadAt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An object, read through what the store keeps of it.
#[derive(Debug)]
pub(super) struct RemoteFile {
    pub(super) object: Arc<Object>,
    pub(super) blocks: Arc<Blocks>,
}

/// An error that [`ckpt_api::File`] hands on as it is.
fn failed(problem: &Problem, address: &str, scheme: super::location::Scheme) -> io::Error {
    io::Error::other(problem.error("cannot read the file", address, scheme))
}

impl ReadAt for RemoteFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.object.size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Object { address, scheme, .. } = &*self.object;
        self.blocks.read(&self.object, offset, buffer).map_err(|problem| failed(&problem, address, *scheme))
    }

    fn identity(&self) -> Option<String> {
        Some(self.object.identity())
    }

    fn will_read(&self, ranges: &[Range<u64>]) {
        self.blocks.announce(&self.object, ranges);
    }
}

/// A file that the server sends as a whole.
#[derive(Debug)]
pub(super) struct WholeFile(pub(super) Arc<Whole>);

impl WholeFile {
    fn failed(&self, problem: &Problem) -> io::Error {
        failed(problem, &self.0.address, self.0.scheme)
    }
}

impl ReadAt for WholeFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size().map_err(|problem| self.failed(&problem))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        ReadAt::read_at(self.0.file().map_err(|problem| self.failed(&problem))?, offset, buffer)
    }

    fn identity(&self) -> Option<String> {
        self.0.identity()
    }
}
