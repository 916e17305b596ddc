//! The memory of a module: its many small values come from lists of free pieces, a list for each size.
//!
//! A codec makes several values for each tensor: to place 20,000 of them, the standard library's allocator took an eighth of the
//! time. It still gives large values their memory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Sizes of pieces are multiples of this many bytes, and so are their addresses.
const STEP: usize = 16;
/// Bytes of the largest piece.
const LARGEST: usize = 1024;
/// Bytes that are cut into pieces.
const CHUNK: usize = 64 << 10;
const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK, STEP) {
    Ok(layout) => layout,
    Err(_) => panic!("the step is no power of two"),
};

#[global_allocator]
static MEMORY: Memory =
    Memory(UnsafeCell::new(Pieces { free: [null_mut(); LARGEST / STEP + 1], rest: null_mut(), left: 0 }));

struct Memory(UnsafeCell<Pieces>);

struct Pieces {
    /// By size in steps: the first free piece, which holds the address of the next one.
    free: [*mut u8; LARGEST / STEP + 1],
    /// What is left of the last chunk.
    rest: *mut u8,
    left: usize,
}

// SAFETY: a module has one thread.
unsafe impl Sync for Memory {}

/// The size of a small value in steps; `None` for a large one.
fn class(size: usize, align: usize) -> Option<usize> {
    (size <= LARGEST && align <= STEP).then(|| size.div_ceil(STEP))
}

// SAFETY: a piece has at least the size and the alignment of its layout, and is in a list only while it is free. A layout always
// has the same class, so that a value goes back to where it came from.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = class(layout.size(), layout.align()) else {
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: nothing else refers to them, for no function that holds them calls another one of the allocator.
        let pieces = unsafe { &mut *self.0.get() };
        let first = pieces.free[class];
        if !first.is_null() {
            // SAFETY: a free piece holds an address.
            pieces.free[class] = unsafe { first.cast::<*mut u8>().read() };
            return first;
        }
        let size = class * STEP;
        if pieces.left < size {
            // The rest of the chunk before is lost: at most one piece.
            let chunk = unsafe { System.alloc(CHUNK_LAYOUT) };
            if chunk.is_null() {
                return chunk;
            }
            (pieces.rest, pieces.left) = (chunk, CHUNK);
        }
        let piece = pieces.rest;
        // SAFETY: the chunk has as many bytes left.
        pieces.rest = unsafe { piece.add(size) };
        pieces.left -= size;
        piece
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        let Some(class) = class(layout.size(), layout.align()) else {
            return unsafe { System.dealloc(piece, layout) };
        };
        // SAFETY: as above; a piece has room for an address.
        let pieces = unsafe { &mut *self.0.get() };
        unsafe { piece.cast::<*mut u8>().write(pieces.free[class]) };
        pieces.free[class] = piece;
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (class(layout.size(), layout.align()), class(size, layout.align()));
        if old.is_none() && new.is_none() {
            return unsafe { System.realloc(piece, layout, size) };
        }
        if old == new {
            return piece;
        }
        // SAFETY: the caller states a size that a layout can have.
        let moved = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both have as many bytes, and do not overlap.
            unsafe {
                moved.copy_from_nonoverlapping(piece, layout.size().min(size));
                self.dealloc(piece, layout);
            }
        }
        moved
    }
}
