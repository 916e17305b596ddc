//! Reads the messages of a model, within limits.

use crate::format::WIRE;
use ckpt_api::{Error, File, Limit, Limits, Result};
use ckpt_containers::protobuf::{Field, Value, Wire};
use std::ops::Range;

/// Reads messages wherever they are in the file.
pub(super) struct Parser<'a> {
    wire: Wire<'a>,
    file: &'a File,
    pub(super) limits: &'a Limits,
    /// Bytes that were passed so far, up to where the last message was entered, and there.
    passed: u64,
    entered: u64,
    /// Those of them that were not read.
    data: u64,
    nodes: u64,
}

impl<'a> Parser<'a> {
    pub(super) fn new(file: &'a File, limits: &'a Limits) -> Self {
        Parser {
            wire: Wire::new(file, limits, &WIRE),
            file,
            limits,
            passed: 0,
            entered: 0,
            data: 0,
            nodes: 0,
        }
    }

    /// Goes on with the message in this range.
    pub(super) fn enter(&mut self, range: &Range<u64>) -> Result<()> {
        self.passed = self.passed.saturating_add(self.wire.position().saturating_sub(self.entered));
        self.wire = Wire::within(self.file, self.limits, &WIRE, range.clone())?;
        self.entered = range.start;
        Ok(())
    }

    /// The next field of the message that ends at `end`, while the structure keeps to the limit of headers.
    pub(super) fn next(&mut self, end: u64) -> Result<Option<Field>> {
        let own = self.wire.position().saturating_sub(self.entered);
        self.limits.check(Limit::HeaderBytes, self.passed.saturating_add(own).saturating_sub(self.data))?;
        let at = self.wire.position();
        self.wire.field(end).map_err(|error| placed(error, at))
    }

    /// Moves to the end of a field. A field that nothing was read of is no structure.
    pub(super) fn skip(&mut self, field: &Field) -> Result<()> {
        let left = field.span.end.saturating_sub(self.wire.position());
        if self.is_unread(field) {
            self.data = self.data.saturating_add(left);
        }
        self.wire.skip(field).map_err(|error| placed(error, field.span.start))
    }

    fn is_unread(&self, field: &Field) -> bool {
        matches!(&field.value, Value::Bytes(range) if range.start == self.wire.position())
    }

    pub(super) fn range(&self, field: &Field) -> Result<Range<u64>> {
        self.wire.range(field).map_err(|error| placed(error, field.span.start))
    }

    pub(super) fn text(&mut self, field: &Field) -> Result<String> {
        self.wire.text(field).map_err(|error| placed(error, field.span.start))
    }

    pub(super) fn unsigned(&self, field: &Field) -> Result<u64> {
        let number = self.wire.int(field).map_err(|error| placed(error, field.span.start))?;
        Ok(number.cast_unsigned())
    }

    pub(super) fn integers(&mut self, field: &Field, to: &mut Vec<i64>) -> Result<()> {
        self.wire.ints(field, to).map_err(|error| placed(error, field.span.start))
    }

    pub(super) fn floats(&mut self, field: &Field, to: &mut Vec<f32>) -> Result<()> {
        self.wire.floats(field, to).map_err(|error| placed(error, field.span.start))
    }

    /// Counts bytes that are made of those of the file, among those of headers.
    pub(super) fn count_bytes(&mut self, len: u64) -> Result<()> {
        self.passed = self.passed.saturating_add(len);
        self.limits.check(Limit::HeaderBytes, self.passed.saturating_sub(self.data))
    }

    /// Counts something that takes memory.
    pub(super) fn count_node(&mut self) -> Result<()> {
        self.nodes = self.nodes.saturating_add(1);
        self.limits.check(Limit::GraphNodes, self.nodes)
    }
}

/// The same error, which says what was found and expected.
fn placed(error: Error, at: u64) -> Error {
    let context = error.context();
    let (is_placed, has_found, has_expected) =
        (context.offset.is_some(), context.found.is_some(), context.expected.is_some());
    let error = if is_placed { error } else { error.offset(at) };
    let error = if has_found { error } else { error.found("bytes that are none") };
    if has_expected { error } else { error.expected("a field of a message of Core ML") }
}
