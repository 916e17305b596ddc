//! Tests of the host: hostile modules, and the program's own codecs as plugins.

mod builtin;
mod host;
mod hostile;
mod module;
mod well;
