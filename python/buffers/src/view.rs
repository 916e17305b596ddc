//! Memory that Python owns.

use pyo3::ffi;
use pyo3::prelude::*;
use std::os::raw::c_int;

/// The bytes of a contiguous object with the buffer protocol, which stays alive and in place meanwhile.
///
/// The bytes are those of the object: another thread that writes to it while they are read changes what is read.
pub struct View {
    raw: Box<ffi::Py_buffer>,
}

/// As [`View`], of an object that is writable.
pub struct ViewMut(View);

// SAFETY: the buffer belongs to an object that the view holds a reference to; the fields are not changed, and the
// release takes the GIL.
unsafe impl Send for View {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for View {}

impl View {
    /// The bytes of `object`, in the order of C.
    ///
    /// # Errors
    /// `BufferError`, `ValueError` or `TypeError` where it has none, or they do not lie side by side.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with_flags(object, ffi::PyBUF_SIMPLE)
    }

    fn with_flags(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        // SAFETY: the GIL is held, and `raw` is a fresh buffer. It is boxed, since some exporters keep its address.
        let code = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, flags) };
        if code != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(View { raw })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = usize::try_from(self.raw.len).unwrap_or(0);
        if len == 0 {
            return &[];
        }
        // SAFETY: the exporter guarantees `len` bytes at `buf` until the release; a simple buffer is contiguous.
        unsafe { std::slice::from_raw_parts(self.raw.buf.cast(), len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // At the interpreter's end nothing is released any more.
        let _ = Python::try_attach(|_| {
            // SAFETY: the GIL is held, and the buffer was filled by `PyObject_GetBuffer`; this is the only release.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.raw) };
        });
    }
}

impl ViewMut {
    /// The bytes of `object`, in the order of C.
    ///
    /// # Errors
    /// As [`View::get`]; also where it is read-only.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        View::with_flags(object, ffi::PyBUF_WRITABLE).map(ViewMut)
    }

    /// The bytes, which nobody else reads or writes as long as the caller does.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = usize::try_from(self.0.raw.len).unwrap_or(0);
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as `View::bytes`, and the exporter agreed to writing.
        unsafe { std::slice::from_raw_parts_mut(self.0.raw.buf.cast(), len) }
    }
}
