//! DLPack 1.0: how array libraries pass memory to each other.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_void};

/// DLPack's number of the processor, and of the device.
pub(crate) const CPU: (i32, i32) = (1, 0);

/// The type of an element, in DLPack's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ElementType {
    /// 0 signed integers, 1 unsigned ones, 2 floats, 4 bfloat, 5 complex numbers, 6 booleans.
    pub code: u8,
    /// Bits of one.
    pub bits: u8,
    lanes: u16,
}

impl ElementType {
    /// The type with this code and so many bits.
    pub fn new(code: u8, bits: u8) -> Self {
        ElementType { code, bits, lanes: 1 }
    }
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    ndim: i32,
    element: ElementType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a tensor points to, until its consumer deletes it.
struct Context {
    shape: Box<[i64]>,
    /// In elements.
    strides: Box<[i64]>,
    /// Keeps the memory alive.
    owner: Option<Py<PyAny>>,
}

impl Drop for Context {
    fn drop(&mut self) {
        let owner = self.owner.take();
        // A consumer may delete without the GIL. After the interpreter's end the memory is left as it is.
        match Python::try_attach(|_| ()) {
            Some(()) => Python::attach(|_| drop(owner)),
            None => std::mem::forget(owner),
        }
    }
}

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// A capsule of the elements from `start` on, in the order of C, of an array with these lengths.
///
/// # Safety
/// The elements are in memory that anyone may read and write while `owner` is alive.
pub(crate) unsafe fn capsule<'py>(
    owner: Bound<'py, PyAny>,
    (start, lens): (*mut c_void, &[isize]),
    element: ElementType,
    versioned: bool,
) -> PyResult<Bound<'py, PyCapsule>> {
    let py = owner.py();
    let shape: Box<[i64]> = lens.iter().map(|len| *len as i64).collect();
    let later = (0..shape.len()).map(|axis| shape.iter().skip(axis + 1));
    let strides = later.map(|lens| lens.fold(1, |product: i64, len| product.saturating_mul(*len))).collect();
    let mut context = Box::new(Context { shape, strides, owner: Some(owner.unbind()) });
    let tensor = Tensor {
        data: start,
        device: CPU,
        ndim: i32::try_from(context.shape.len()).unwrap_or(0),
        element,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast();
    let (pointer, name, destructor): (*mut c_void, _, ffi::PyCapsule_Destructor) = match versioned {
        true => {
            let made =
                Versioned { version: (1, 0), context, deleter: Some(delete_versioned), flags: 0, tensor };
            (Box::into_raw(Box::new(made)).cast(), VERSIONED, destroy_versioned)
        }
        false => {
            let made = Managed { tensor, context, deleter: Some(delete_plain) };
            (Box::into_raw(Box::new(made)).cast(), PLAIN, destroy_plain)
        }
    };
    // SAFETY: the GIL is held; the capsule owns `pointer`, which its destructor or its consumer deletes.
    let made = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an error set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    Ok(made.cast_into()?)
}

/// Deletes what a plain capsule points to.
///
/// # Safety
/// Called once, with what [`capsule`] made.
unsafe extern "C" fn delete_plain(managed: *mut Managed) {
    // SAFETY: made by `Box::into_raw` in `capsule`.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.context.cast::<Context>()) });
}

/// Deletes what a versioned capsule points to.
///
/// # Safety
/// As [`delete_plain`].
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: made by `Box::into_raw` in `capsule`.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.context.cast::<Context>()) });
}

/// Of a capsule that nobody consumed: a consumer gives it another name.
///
/// # Safety
/// Called by Python, with a capsule of [`capsule`].
unsafe extern "C" fn destroy_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: the GIL is held by whoever destroys an object; the pointer is one of `capsule`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

/// As [`destroy_plain`].
///
/// # Safety
/// As [`destroy_plain`].
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `destroy_plain`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
