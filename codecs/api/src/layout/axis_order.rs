//! The order in which a file stores a tensor's axes, and the parts that it stores of one axis.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;

/// A stored axis order: stored axis `k`, slowest first, is logical axis `order[k]`. It is a slice of numbers.
///
/// Row-major order takes no memory of its own: most of many thousand tensors have it.
///
/// ```
/// use ckpt_api::AxisOrder;
/// let order = AxisOrder::row_major(3);
/// assert_eq!(order, [0, 1, 2]);
/// assert_eq!(order.reversed(), AxisOrder::from(vec![2, 1, 0]));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Vec<usize>")]
pub struct AxisOrder(Stored);

/// Equal orders have equal forms: [`AxisOrder::from`] makes them.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Stored {
    /// So many axes, at most as many as [`IDENTITY`] has numbers.
    RowMajor(u8),
    Other(Box<[usize]>),
}

/// Row-major orders are the beginning of this: as many axes as any format allows, and a few more.
const IDENTITY: [usize; 255] = {
    let mut order = [0; 255];
    let mut axis = 0;
    while axis < order.len() {
        order[axis] = axis;
        axis += 1;
    }
    order
};

impl AxisOrder {
    /// The last of `rank` axes is the fastest.
    pub fn row_major(rank: usize) -> Self {
        match u8::try_from(rank) {
            Ok(rank) => AxisOrder(Stored::RowMajor(rank)),
            Err(_) => AxisOrder(Stored::Other((0..rank).collect())),
        }
    }

    /// The same axes in reverse order.
    #[must_use]
    pub fn reversed(&self) -> Self {
        self.iter().rev().copied().collect()
    }
}

impl Deref for AxisOrder {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        match &self.0 {
            Stored::RowMajor(rank) => IDENTITY.get(..usize::from(*rank)).unwrap_or(&IDENTITY),
            Stored::Other(order) => order,
        }
    }
}

impl From<Vec<usize>> for AxisOrder {
    fn from(order: Vec<usize>) -> Self {
        match order.iter().copied().eq(0..order.len()) {
            true => AxisOrder::row_major(order.len()),
            false => AxisOrder(Stored::Other(order.into())),
        }
    }
}

impl From<AxisOrder> for Vec<usize> {
    fn from(order: AxisOrder) -> Self {
        order.to_vec()
    }
}

impl Serialize for AxisOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self[..].serialize(serializer)
    }
}

impl FromIterator<usize> for AxisOrder {
    fn from_iter<I: IntoIterator<Item = usize>>(axes: I) -> Self {
        axes.into_iter().collect::<Vec<usize>>().into()
    }
}

impl<'a> IntoIterator for &'a AxisOrder {
    type Item = &'a usize;
    type IntoIter = std::slice::Iter<'a, usize>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<S: AsRef<[usize]> + ?Sized> PartialEq<S> for AxisOrder {
    fn eq(&self, other: &S) -> bool {
        self[..] == *other.as_ref()
    }
}

impl fmt::Debug for AxisOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// A logical axis that is stored as several: an index on it is written as digits, the slowest first.
///
/// An axis of length 32 with `lens` 2 and 4 is stored as three axes of lengths 4, 2 and 4: index 23 is 2, 1, 3.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// The logical axis.
    pub axis: usize,
    /// Lengths of all parts but the slowest, which takes what is left: their product divides the axis's length.
    pub lens: Vec<u64>,
}

/// Which part, the slowest being 0, of which logical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisPart {
    /// The logical axis.
    pub axis: usize,
    /// The part.
    pub part: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_orders_are_equal_however_they_are_made() {
        for rank in [0, 1, 4, 254, 255, 256, 300] {
            let order = AxisOrder::row_major(rank);
            assert_eq!(order, AxisOrder::from((0..rank).collect::<Vec<usize>>()));
            assert_eq!(order, (0..rank).collect::<Vec<usize>>());
            assert_eq!(order.reversed().reversed(), order);
        }
        assert_ne!(AxisOrder::row_major(2), AxisOrder::from(vec![1, 0]));
    }

    #[test]
    fn an_order_is_a_list_of_numbers_in_json() {
        for json in ["[]", "[0,1,2]", "[1,0]"] {
            let order: AxisOrder = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&order).unwrap(), json);
        }
    }
}
