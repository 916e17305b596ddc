//! Where values are printed, and in which steps they are counted.

use ckpt_api::{Error, Result};
use ckpt_engine::execute::interrupted;
use ckpt_engine::source::TensorRef;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes for stdout, or for a file. After whoever reads stdout has seen enough, they are left out.
pub(super) struct Output<'a> {
    writer: BufWriter<Box<dyn Write + 'a>>,
    canceled: Option<&'a AtomicBool>,
    pub(super) is_closed: bool,
}

impl<'a> Output<'a> {
    pub(super) fn stdout() -> Self {
        Output {
            writer: BufWriter::new(Box::new(std::io::stdout().lock())),
            canceled: None,
            is_closed: false,
        }
    }

    pub(super) fn file(file: &'a mut File, canceled: &'a AtomicBool) -> Self {
        Output { writer: BufWriter::new(Box::new(file)), canceled: Some(canceled), is_closed: false }
    }

    /// Whether what is written could be seen by a person as it is.
    pub(super) fn is_terminal(&self) -> bool {
        self.canceled.is_none() && std::io::stdout().is_terminal()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.canceled.is_some_and(|canceled| canceled.load(Ordering::Relaxed)) {
            return Err(interrupted());
        }
        let written = if self.is_closed { Ok(()) } else { self.writer.write_all(bytes) };
        self.judge(written)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        let flushed = if self.is_closed { Ok(()) } else { self.writer.flush() };
        self.judge(flushed)
    }

    fn judge(&mut self, written: std::io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => return Err(Error::io("cannot write the result", error)),
            Ok(()) => {}
        }
        Ok(())
    }
}

/// The elements in one entry of each axis from `axis` on.
pub(super) fn stride(tensor: &TensorRef<'_>, axis: usize) -> u64 {
    tensor.shape().iter().skip(axis).product()
}
