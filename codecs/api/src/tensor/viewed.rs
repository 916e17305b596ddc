//! Bounds the bytes of tensors that share bytes of their files.

use crate::{Error, Result, Tensor};

/// Bytes of tensors that share storages, whatever the size of their files, and for each byte of the files.
const FREE: u64 = 1 << 30;
const PER_BYTE: u64 = 64;

/// Counts the bytes of all tensors of a checkpoint, those that share their storages with others included: a few bytes of
/// a header state another view of the same storage, and any number of views would be read and written in full. For codecs
/// of formats in which tensors can share bytes.
///
/// ```
/// use ckpt_api::{DType, Shape, Tensor, Viewed};
/// let mut viewed = Viewed::default();
/// viewed.open(1000, [800]);
/// let tensor = Tensor::new("w", DType::U8, Shape::new([800])?);
/// viewed.add(&tensor)?;
/// viewed.add(&tensor)?;
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Viewed {
    /// Bytes of the tensors so far.
    bytes: u64,
    /// Bytes of the files, and of their storages.
    files: u64,
    storages: u64,
}

impl Viewed {
    /// Counts the bytes of a file, and those of its storages, decompressed.
    pub fn open(&mut self, file: u64, storages: impl IntoIterator<Item = u64>) {
        self.files = self.files.saturating_add(file);
        self.storages = storages.into_iter().fold(self.storages, u64::saturating_add);
    }

    /// Counts a tensor.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] if the tensors have more bytes than the storages, and 64 times the files (at least
    /// 1 GiB) beside.
    pub fn add(&mut self, tensor: &Tensor) -> Result<()> {
        let bytes = tensor.value_bytes();
        let most = self.files.saturating_mul(PER_BYTE).max(FREE).saturating_add(self.storages);
        let total = self.bytes.checked_add(bytes).filter(|total| *total <= most || bytes == 0);
        self.bytes = total.ok_or_else(|| {
            Error::unsupported("the tensors repeat the elements of their storages too often")
                .found(format!("{} beside those of the tensors before", crate::count(bytes, "byte")))
                .expected(format!("at most {most} in all"))
                .help("save fewer views of each storage, and none that are expanded")
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Kind, Shape};

    fn tensor(bytes: u64) -> Tensor {
        Tensor::new("x", DType::U8, Shape::new([bytes]).unwrap())
    }

    #[test]
    fn tensors_may_have_64_times_the_bytes_of_large_files_and_1_gib_of_small_ones() {
        for (file, most) in [(1 << 20, 1 << 30), (1 << 30, 64 << 30)] {
            let mut viewed = Viewed::default();
            viewed.open(file, [file / 2, file / 2]);
            for _ in 0..64 {
                viewed.add(&tensor((most + file) / 64)).unwrap();
            }
            assert_eq!(viewed.add(&tensor(1)).unwrap_err().kind(), Kind::Unsupported);
            viewed.add(&tensor(0)).unwrap();
        }
    }

    #[test]
    fn bytes_that_a_storage_has_once_always_fit() {
        let mut viewed = Viewed::default();
        viewed.open(1 << 20, [1 << 40]);
        viewed.add(&tensor(1 << 40)).unwrap();
    }
}
