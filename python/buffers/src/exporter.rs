//! A base class for what has the bytes of an array that it makes when it is asked.

use pyo3::ffi;
use pyo3::prelude::*;
use std::os::raw::c_int;

/// A base class with the buffer protocol: the buffer is that of what the method `_array` returns. Python's own
/// `__buffer__` exists from version 3.12 on.
#[pyclass(subclass, frozen, module = "ckpt._ckpt")]
#[derive(Debug)]
pub struct Exporter;

#[pymethods]
impl Exporter {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, pyo3::types::PyTuple>, _kwargs: Option<&Bound<'_, PyAny>>) -> Self {
        Exporter
    }

    /// # Safety
    /// Python calls it with a buffer to be filled.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let fill = || {
            let array = slf.call_method0("_array")?;
            // SAFETY: the GIL is held, and `view` is Python's. It becomes a buffer of `array`, which it keeps alive.
            match unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), view, flags) } {
                0 => Ok(()),
                _ => Err(PyErr::fetch(slf.py())),
            }
        };
        fill().inspect_err(|_| {
            // SAFETY: as the protocol asks for after an error.
            unsafe { (*view).obj = std::ptr::null_mut() }
        })
    }
}
