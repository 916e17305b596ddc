//! Storage that grows in chunks: no element moves, and at most one chunk is unused.

/// Elements of a chunk.
const CHUNK: usize = 4096;

/// A list that is only appended to.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { chunks: Vec::new() }
    }
}

impl<T> Arena<T> {
    /// Appends an element and returns its index; `None` if there are as many as an index of 31 bits counts.
    pub(crate) fn push(&mut self, element: T) -> Option<u32> {
        let index = u32::try_from(self.len()).ok().filter(|index| *index < 1 << 31)?;
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(element),
            None => {
                // The first chunk grows, for most pickles have few values.
                let mut chunk = if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(CHUNK) };
                chunk.push(element);
                self.chunks.push(chunk);
            }
        }
        Some(index)
    }

    /// Appends elements and returns the index of the first one, as [`Arena::push`] does.
    pub(crate) fn extend(&mut self, elements: &[T]) -> Option<u32>
    where
        T: Copy,
    {
        let index = u32::try_from(self.len()).ok()?;
        let end = self.len().checked_add(elements.len()).filter(|end| *end <= 1 << 31);
        end?;
        let mut rest = elements;
        while let Some((first, more)) = rest.split_first() {
            self.push(*first)?;
            let chunk = self.chunks.last_mut()?;
            let (fitting, left) = more.split_at(more.len().min(CHUNK - chunk.len()));
            chunk.extend_from_slice(fitting);
            rest = left;
        }
        Some(index)
    }

    pub(crate) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.chunks.get_mut(index as usize / CHUNK)?.get_mut(index as usize % CHUNK)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.len() * size_of::<T>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "pushing each element takes a minute")]
    fn elements_are_found_by_the_index_that_pushing_them_returned() {
        let mut arena = Arena::default();
        let count = 2 * CHUNK as u32 + 3;
        for number in 0..count {
            assert_eq!(arena.push(number), Some(number));
        }
        assert_eq!(arena.len(), count as usize);
        assert!((0..count).all(|index| arena.get(index) == Some(&index)));
        assert_eq!((arena.get(CHUNK as u32), arena.get(count)), (Some(&(CHUNK as u32)), None));
    }

    #[test]
    #[cfg_attr(miri, ignore = "its elements take long")]
    fn elements_that_are_appended_together_follow_each_other() {
        let mut arena = Arena::default();
        let all: Vec<u32> = (0..3 * CHUNK as u32).collect();
        for (start, end) in [(0, 1), (1, 1), (1, CHUNK - 1), (CHUNK - 1, 3 * CHUNK)] {
            assert_eq!(arena.extend(&all[start..end]), Some(start as u32));
        }
        assert!(all.iter().all(|index| arena.get(*index) == Some(index)));
        assert_eq!(arena.len(), all.len());
    }
}
