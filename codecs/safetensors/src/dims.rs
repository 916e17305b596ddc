//! The lengths of axes as a header states them.

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Lengths of a tensor's axes, unchecked. It is a slice; up to two take no memory of their own, for a header can describe a
/// million tensors.
///
/// ```
/// use ckpt_safetensors::Dims;
/// assert_eq!(Dims::from(vec![2, 3])[..], [2, 3]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dims(SmallVec<[u64; 2]>);

impl Deref for Dims {
    type Target = [u64];
    fn deref(&self) -> &[u64] {
        &self.0
    }
}

impl From<&[u64]> for Dims {
    fn from(dims: &[u64]) -> Self {
        Dims(dims.into())
    }
}

impl From<Vec<u64>> for Dims {
    fn from(dims: Vec<u64>) -> Self {
        Dims(dims.into())
    }
}

impl FromIterator<u64> for Dims {
    fn from_iter<I: IntoIterator<Item = u64>>(dims: I) -> Self {
        Dims(dims.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a u64;
    type IntoIter = std::slice::Iter<'a, u64>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Serialize for Dims {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self[..].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(DimsVisitor)
    }
}

struct DimsVisitor;

impl<'de> Visitor<'de> for DimsVisitor {
    type Value = Dims;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Dims, A::Error> {
        let mut dims = SmallVec::new();
        while let Some(dim) = list.next_element()? {
            dims.push(dim);
        }
        Ok(Dims(dims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_list() {
        for (dims, json) in [(&[][..], "[]"), (&[7][..], "[7]"), (&[1, 2, 3, 4][..], "[1,2,3,4]")] {
            assert_eq!(serde_json::to_string(&Dims::from(dims)).unwrap(), json);
            assert_eq!(serde_json::from_str::<Dims>(json).unwrap()[..], *dims);
        }
        assert!(serde_json::from_str::<Dims>("[-1]").is_err());
        assert!(serde_json::from_str::<Dims>("7").is_err());
    }
}
