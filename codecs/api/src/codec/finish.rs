//! The state that a codec passes from `place` to `finish`.

use crate::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

/// What [`crate::Codec::finish`] needs beside the placements: a value of a type of the codec.
///
/// In one process the value stays as it is. Where a plan travels, the plan's document contains it as JSON, and
/// [`FinishState::get`] deserializes it again.
///
/// ```
/// use ckpt_api::FinishState;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Sums {
///     offset: u64,
/// }
/// let state = FinishState::new(Sums { offset: 12 });
/// assert_eq!(state.get::<Sums>()?.offset, 12);
/// let document = serde_json::to_string(&state).unwrap();
/// let state: FinishState = serde_json::from_str(&document).unwrap();
/// assert_eq!(state.get::<Sums>()?.offset, 12);
/// # Ok::<(), ckpt_api::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct FinishState(State);

#[derive(Clone, Default)]
enum State {
    /// Nothing: the codec's files have no bytes that depend on what was written.
    #[default]
    Empty,
    Typed(Typed),
    /// Read from a document.
    Json(Arc<Value>),
}

/// A value of a type that only the codec knows.
#[derive(Clone)]
struct Typed {
    value: Arc<dyn Any + Send + Sync>,
    to_json: fn(&dyn Any) -> Result<Value>,
    /// Bytes of memory.
    bytes: u64,
}

impl FinishState {
    /// A state that contains `value`.
    pub fn new<T: Serialize + DeserializeOwned + Send + Sync + 'static>(value: T) -> Self {
        let bytes = size_of::<T>() as u64;
        FinishState(State::Typed(Typed { value: Arc::new(value), to_json: to_json::<T>, bytes }))
    }

    /// Sets the bytes that the value takes in memory, for the estimate of the plan. Worth calling if they grow with the
    /// checkpoint.
    #[must_use]
    pub fn of_size(mut self, bytes: u64) -> Self {
        if let State::Typed(typed) = &mut self.0 {
            typed.bytes = bytes;
        }
        self
    }

    /// Returns the value.
    ///
    /// # Errors
    /// [`crate::Kind::Defect`] if [`crate::Codec::place`] left no value or one of another type;
    /// [`crate::Kind::Usage`] if a document contains something else than a `T`.
    pub fn get<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>> {
        let of_another_type = |found: &str| {
            Error::defect("the codec finishes with a different state than it returned from layout")
                .found(found)
                .expected(type_name::<T>())
        };
        match &self.0 {
            State::Empty => Err(of_another_type("none")),
            State::Typed(typed) => {
                Arc::clone(&typed.value).downcast().map_err(|_| of_another_type("another type"))
            }
            State::Json(value) => T::deserialize(&**value).map(Arc::new).map_err(|error| {
                Error::usage("the plan's state for finishing is not what the codec writes")
                    .field("finish")
                    .found(error.to_string())
                    .caused_by(error)
            }),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, State::Empty)
    }

    /// Returns the bytes that the value takes in memory, about.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            State::Empty => 0,
            State::Typed(typed) => typed.bytes,
            State::Json(value) => value.to_string().len() as u64,
        }
    }

    /// The document's form. Its maps are sorted, so that one that was read is written again as it was.
    fn to_json(&self) -> Result<Value> {
        match &self.0 {
            State::Empty => Ok(Value::Null),
            State::Typed(typed) => (typed.to_json)(&*typed.value),
            State::Json(value) => Ok(Value::clone(value)),
        }
    }
}

fn to_json<T: Serialize + 'static>(value: &dyn Any) -> Result<Value> {
    let value = value.downcast_ref::<T>();
    serde_json::to_value(value).map_err(|error| {
        Error::defect("the codec's state for finishing has no JSON form").found(error.to_string())
    })
}

impl fmt::Debug for FinishState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FinishState({} bytes)", self.bytes())
    }
}

/// Two states are equal if their documents are.
impl PartialEq for FinishState {
    fn eq(&self, other: &Self) -> bool {
        self.to_json().ok() == other.to_json().ok()
    }
}

impl Eq for FinishState {}

impl Serialize for FinishState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FinishState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(FinishState(match Value::deserialize(deserializer)? {
            Value::Null => State::Empty,
            value => State::Json(Arc::new(value)),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sums {
        offsets: Vec<u64>,
        file: u64,
    }

    fn state() -> FinishState {
        FinishState::new(Sums { offsets: vec![4, 8], file: 1 })
    }

    fn read(json: &str) -> FinishState {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_state_comes_back_from_a_document_and_is_written_again_as_it_was() {
        let json = serde_json::to_string(&state()).unwrap();
        assert_eq!(json, r#"{"file":1,"offsets":[4,8]}"#);
        assert_eq!(read(&json).get::<Sums>().unwrap(), state().get::<Sums>().unwrap());
        assert_eq!(serde_json::to_string(&read(&json)).unwrap(), json);
        assert_eq!(read(&json), state());
    }

    #[test]
    fn an_altered_state_is_refused() {
        for json in ["7", r#"{"file":1}"#, r#"{"file":-1,"offsets":[]}"#] {
            assert_eq!(read(json).get::<Sums>().unwrap_err().kind(), Kind::Usage, "{json}");
        }
    }

    #[test]
    fn a_state_of_another_type_is_a_defect() {
        assert_eq!(state().get::<u64>().unwrap_err().kind(), Kind::Defect);
        assert_eq!(FinishState::default().get::<u64>().unwrap_err().kind(), Kind::Defect);
        assert!(read("null").is_empty());
    }
}
