//! What one call of a codec parsed, handed to the next one.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// At most one value that was parsed from a file. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Handed(Arc<Mutex<Option<Parsed>>>);

struct Parsed {
    file: String,
    identity: String,
    value: Box<dyn Any + Send>,
}

impl Handed {
    /// Keeps a value, in place of what was kept before.
    pub(crate) fn keep<T: Send + 'static>(&self, file: &str, identity: String, value: T) {
        let parsed = Parsed { file: file.to_owned(), identity, value: Box::new(value) };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(parsed);
    }

    /// Takes the value, if it is of this type, of this file, and of the content with this identity.
    pub(crate) fn take<T: 'static>(&self, file: &str, identity: Option<String>) -> Option<T> {
        let parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let is_same = parsed.file == file && identity.is_some_and(|identity| identity == parsed.identity);
        parsed.value.downcast().ok().filter(|_| is_same).map(|value| *value)
    }
}

impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::io::read_at::ReadAt;
    use crate::{File, Input, Limits};
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A file whose content has a version.
    #[derive(Debug, Default)]
    struct Versioned(AtomicU64);

    impl ReadAt for Versioned {
        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn identity(&self) -> Option<String> {
            Some(self.0.load(Ordering::Relaxed).to_string())
        }
    }

    fn input() -> (Input, Arc<Versioned>, [File; 2]) {
        let version = Arc::new(Versioned::default());
        let file = |name: &str| (name.to_owned(), version.clone() as Arc<dyn ReadAt>);
        let input = Input::of("a", BTreeMap::from([file("a"), file("b")]));
        let files = ["a", "b"].map(|name| input.file(name).unwrap());
        (input, version, files)
    }

    #[test]
    fn what_was_parsed_is_handed_over_once_to_clones_too() {
        let (input, _, [file, _]) = input();
        input.keep(&file, file.identity(), 7u8);
        assert_eq!(input.clone().take::<u8>(&file), Some(7));
        assert_eq!(input.take::<u8>(&file), None);
    }

    #[test]
    fn what_is_not_the_same_is_not_handed_over() {
        let (input, version, [file, other]) = input();
        input.keep(&file, file.identity(), 7u8);
        assert_eq!(input.take::<u8>(&other), None, "of another file");
        input.keep(&file, file.identity(), 7u8);
        assert_eq!(input.take::<u16>(&file), None, "of another type");
        input.keep(&file, file.identity(), 7u8);
        version.0.store(1, Ordering::Relaxed);
        assert_eq!(input.take::<u8>(&file), None, "of another content");
        let before = file.identity();
        version.0.store(2, Ordering::Relaxed);
        input.keep(&file, before, 7u8);
        assert_eq!(input.take::<u8>(&file), None, "changed while it was parsed");
        input.keep(&file, file.identity(), 7u8);
        assert_eq!(input.within(&Limits::default()).take::<u8>(&file), None, "within other limits");
    }

    #[test]
    fn nothing_is_kept_of_a_file_that_cannot_be_identified() {
        let input = Input::memory("a", [("a".to_owned(), Vec::new())].into());
        let file = input.main().unwrap();
        input.keep(&file, file.identity(), 7u8);
        assert_eq!(input.take::<u8>(&file), None);
    }
}
