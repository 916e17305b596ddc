//! Writes pieces to the files of an output.

mod piece;
mod writer;

pub(crate) use piece::PieceWriter;
pub(crate) use writer::Writer;
