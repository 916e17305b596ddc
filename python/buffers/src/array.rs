//! An array that Python sees.

use crate::dlpack::{self, ElementType};
use crate::storage::Storage;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::{CString, c_void};
use std::os::raw::c_int;
use std::ptr::NonNull;

/// Elements in memory, in the order of C: `numpy.asarray` and `torch.from_dlpack` take them without a copy.
#[pyclass(frozen, module = "ckpt._ckpt")]
#[derive(Debug)]
pub struct Array {
    /// The memory. Rust does not touch it again: from here on it is Python's.
    _storage: Storage,
    start: NonNull<u8>,
    len: isize,
    item: isize,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
    format: CString,
    element: Option<ElementType>,
}

// SAFETY: Rust only hands out the pointer; what reads and writes behind it is Python's, as for any writable buffer.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}

impl Array {
    /// An array of this shape. `format` is the code of the module `struct` for an element of `item` bytes, and
    /// `element` its DLPack type, if it has one.
    ///
    /// # Errors
    /// `BufferError` where the shape does not fit the memory.
    pub fn new(
        mut storage: Storage,
        shape: &[u64],
        item: usize,
        format: &str,
        element: Option<ElementType>,
    ) -> PyResult<Self> {
        let unfit = || PyBufferError::new_err("the shape does not fit the memory");
        let bytes = storage.as_mut_slice();
        let elements = shape.iter().try_fold(1u64, |product, len| product.checked_mul(*len));
        let wanted = elements.and_then(|count| count.checked_mul(item as u64)).ok_or_else(unfit)?;
        if wanted != bytes.len() as u64 {
            return Err(unfit());
        }
        let start = NonNull::from(&mut *bytes).cast::<u8>();
        let len = isize::try_from(bytes.len()).map_err(|_| unfit())?;
        let item = isize::try_from(item).map_err(|_| unfit())?;
        let shape = shape.iter().map(|len| isize::try_from(*len).map_err(|_| unfit()));
        let shape = shape.collect::<PyResult<Box<[isize]>>>()?;
        let mut stride = item;
        let mut strides = vec![0; shape.len()].into_boxed_slice();
        for (of_axis, len) in strides.iter_mut().zip(&shape).rev() {
            *of_axis = stride;
            stride = stride.saturating_mul(*len);
        }
        let format = CString::new(format).map_err(|_| unfit())?;
        Ok(Array { _storage: storage, start, len, item, shape, strides, format, element })
    }

    fn start(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

#[pymethods]
impl Array {
    /// The length of each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> isize {
        self.len
    }

    fn __repr__(&self) -> String {
        format!("<ckpt._ckpt.Array of {} bytes>", self.len)
    }

    /// The DLPack device: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    /// A DLPack capsule of the memory, which is writable and not copied.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some() || dl_device.is_some_and(|device| device != dlpack::CPU) || copy == Some(true) {
            return Err(PyBufferError::new_err(
                "the memory is the processor's: stream must be None, dl_device (1, 0), and copy not True",
            ));
        }
        let element = slf
            .get()
            .element
            .ok_or_else(|| PyBufferError::new_err("DLPack has no type for these elements"))?;
        let array = slf.get();
        let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let owner = slf.clone().into_any();
        // SAFETY: `new` checked that the shape fits the memory, which is Python's while the array is alive.
        unsafe { dlpack::capsule(owner, (array.start(), &array.shape), element, is_versioned) }
    }

    /// # Safety
    /// Python calls it with a buffer to be filled.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let asks = |flag: c_int| flags & flag == flag;
        let array = slf.get();
        // SAFETY: `view` is Python's, to be filled. The pointers lie in the object, which the view keeps alive.
        unsafe {
            (*view).obj = std::ptr::null_mut();
            if asks(ffi::PyBUF_F_CONTIGUOUS) && array.shape.len() > 1 {
                return Err(PyBufferError::new_err("the elements are in the order of C"));
            }
            (*view).buf = array.start();
            (*view).len = array.len;
            (*view).readonly = 0;
            (*view).itemsize = array.item;
            (*view).ndim = c_int::try_from(array.shape.len()).unwrap_or(0);
            let format = array.format.as_ptr().cast_mut();
            (*view).format = if asks(ffi::PyBUF_FORMAT) { format } else { std::ptr::null_mut() };
            let shape = array.shape.as_ptr().cast_mut();
            (*view).shape = if asks(ffi::PyBUF_ND) { shape } else { std::ptr::null_mut() };
            let strides = array.strides.as_ptr().cast_mut();
            (*view).strides = if asks(ffi::PyBUF_STRIDES) { strides } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.clone().into_any().into_ptr();
        }
        Ok(())
    }
}
