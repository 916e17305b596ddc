//! Tensors in memory, as the engine reads them.

use ckpt_api::{DType, ReadAt};
use ckpt_engine::Element;
use std::borrow::Cow;
use std::io;

/// A tensor of another library, which [`Writer::view`](crate::Writer::view) writes.
///
/// ```
/// use ckpt::api::DType;
/// use std::borrow::Cow;
///
/// struct Matrix {
///     rows: Vec<[f32; 2]>,
/// }
///
/// impl ckpt::View for Matrix {
///     fn dtype(&self) -> DType {
///         DType::F32
///     }
///     fn shape(&self) -> Vec<u64> {
///         vec![self.rows.len() as u64, 2]
///     }
///     fn bytes(&self) -> Cow<'_, [u8]> {
///         self.rows.iter().flatten().flat_map(|number| number.to_le_bytes()).collect()
///     }
/// }
///
/// # fn main() -> ckpt::Result<()> {
/// let memory = ckpt::store::MemoryStore::new();
/// let matrix = Matrix { rows: vec![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] };
/// ckpt::Writer::to(memory.at("m.npy")).view("m", &matrix)?.finish()?;
/// assert_eq!(ckpt::open(memory.at("m.npy"))?.tensor("m")?.shape()[..], [3, 2]);
/// # Ok(())
/// # }
/// ```
pub trait View {
    /// The type of the elements.
    fn dtype(&self) -> DType;

    /// The length of each axis.
    fn shape(&self) -> Vec<u64>;

    /// The elements: row-major, little-endian, each in whole bytes. Borrowed bytes are not copied before they are
    /// written.
    fn bytes(&self) -> Cow<'_, [u8]>;
}

/// Elements, as a file of their little-endian bytes.
#[derive(Debug)]
pub(crate) struct Elements<'a, T: Element>(pub(crate) Cow<'a, [T]>);

impl<T: Element> ReadAt for Elements<'_, T> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64 * T::SIZE as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(usize::try_from(offset).map_or(0, |offset| T::encode(&self.0, offset, buffer)))
    }
}
