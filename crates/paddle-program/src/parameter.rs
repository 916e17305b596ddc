//! Parameters of programs, and why a program cannot be read.

/// What a program could not be read for: a clause that follows the operation's name.
pub(crate) type Read<T> = Result<T, String>;

/// A parameter of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its shape, if the program states it.
    pub shape: Option<Vec<u64>>,
}
