//! Lists that nearly always have one element: there can be a million of them.

use crate::Extent;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// The extents of one placement.
pub type Extents = MostlyOne<Extent>;

/// A list that nearly always has one element, and takes no memory of its own then. It is a slice.
///
/// ```
/// use ckpt_api::{Extent, Extents, FileId};
/// let extent = Extent::new(FileId(0), 0, 8);
/// assert_eq!(Extents::from(extent.clone()), Extents::from(vec![extent]));
/// ```
#[derive(Clone, Deserialize)]
#[serde(from = "Vec<T>")]
pub struct MostlyOne<T>(List<T>);

#[derive(Clone)]
enum List<T> {
    One(T),
    /// Boxed, so that the list is no larger than its element where that has a value to spare.
    #[expect(clippy::box_collection)]
    Others(Option<Box<Vec<T>>>),
}

impl<T> MostlyOne<T> {
    /// Adds an element at the end.
    pub fn push(&mut self, element: T) {
        self.0 = match std::mem::take(self).0 {
            List::One(first) => List::Others(Some(Box::new(vec![first, element]))),
            List::Others(None) => List::One(element),
            List::Others(Some(mut list)) => {
                list.push(element);
                List::Others(Some(list))
            }
        };
    }

    /// Keeps the elements for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        if let List::Others(Some(list)) = &mut self.0 {
            list.retain(keep);
        } else {
            self.0 = match std::mem::take(self).0 {
                List::One(element) if keep(&element) => List::One(element),
                _ => List::Others(None),
            };
        }
    }
}

impl<T: Serialize> Serialize for MostlyOne<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self[..].serialize(serializer)
    }
}

impl<T> Default for MostlyOne<T> {
    fn default() -> Self {
        MostlyOne(List::Others(None))
    }
}

impl<T> Deref for MostlyOne<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.0 {
            List::One(element) => std::slice::from_ref(element),
            List::Others(list) => list.as_deref().map_or(&[], Vec::as_slice),
        }
    }
}

impl<T> DerefMut for MostlyOne<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            List::One(element) => std::slice::from_mut(element),
            List::Others(list) => list.as_deref_mut().map_or(&mut [], Vec::as_mut_slice),
        }
    }
}

impl From<Extent> for Extents {
    fn from(extent: Extent) -> Self {
        MostlyOne(List::One(extent))
    }
}

impl<T> From<Vec<T>> for MostlyOne<T> {
    fn from(mut list: Vec<T>) -> Self {
        MostlyOne(match list.len() {
            1 => list.pop().map_or(List::Others(None), List::One),
            0 => List::Others(None),
            _ => List::Others(Some(Box::new(list))),
        })
    }
}

impl<T> From<MostlyOne<T>> for Vec<T> {
    fn from(list: MostlyOne<T>) -> Self {
        match list.0 {
            List::One(element) => vec![element],
            List::Others(list) => list.map_or_else(Vec::new, |list| *list),
        }
    }
}

impl<T> FromIterator<T> for MostlyOne<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        match (elements.next(), elements.next()) {
            (Some(first), Some(second)) => {
                [first, second].into_iter().chain(elements).collect::<Vec<T>>().into()
            }
            (first, _) => first.map_or_else(MostlyOne::default, |first| MostlyOne(List::One(first))),
        }
    }
}

impl<T> Extend<T> for MostlyOne<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T> IntoIterator for MostlyOne<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;
    fn into_iter(self) -> Self::IntoIter {
        let (one, others) = match self.0 {
            List::One(element) => (Some(element), None),
            List::Others(list) => (None, list),
        };
        one.into_iter().chain(others.map_or_else(Vec::new, |list| *list))
    }
}

impl<'a, T> IntoIterator for &'a MostlyOne<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut MostlyOne<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: PartialEq> PartialEq for MostlyOne<T> {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl<T: Eq> Eq for MostlyOne<T> {}

impl<T: std::hash::Hash> std::hash::Hash for MostlyOne<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for MostlyOne<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn one_extent_lies_in_the_list_itself() {
        let one = Extents::from(vec![Extent::new(FileId(0), 0, 8)]);
        assert!(matches!(one.0, List::One(_)));
        assert_eq!(size_of::<Extents>(), size_of::<Extent>());
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(json, r#"[{"file":0,"offset":0,"len":8}]"#);
        assert_eq!(serde_json::from_str::<Extents>(&json).unwrap(), one);
    }

    #[test]
    fn a_list_has_what_a_vector_has() {
        for len in 0..5 {
            let mut pushed = MostlyOne::default();
            (0..len).for_each(|number| pushed.push(number));
            let mut all: Vec<i32> = (0..len).collect();
            let mut list = MostlyOne::from(all.clone());
            assert_eq!(list, pushed);
            assert_eq!(list, (0..len).collect::<MostlyOne<i32>>());
            assert_eq!((&list[..], list.iter().len()), (&all[..], all.len()));
            list.iter_mut().chain(&mut all).for_each(|number| *number *= 3);
            list.retain(|number| number % 2 == 0);
            all.retain(|number| number % 2 == 0);
            assert_eq!(list.clone().into_iter().collect::<Vec<i32>>(), all);
            assert_eq!(Vec::from(list), all);
        }
    }

    #[test]
    fn an_emptied_list_equals_an_empty_one() {
        let mut list = MostlyOne::from(vec![1, 2]);
        list.retain(|_| false);
        assert_eq!(list, MostlyOne::default());
        assert_eq!(serde_json::to_string(&list).unwrap(), "[]");
    }
}
