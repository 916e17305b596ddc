//! Writes pieces, and what is no tensor, to the files of an output.

mod literals;
mod piece;
mod writer;

pub(crate) use literals::write_literals;
pub(crate) use piece::PieceWriter;
pub(crate) use writer::Writer;
