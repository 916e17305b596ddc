//! Which bytes of a file become one array: small tensors that lie side by side share one.

use ckpt::api::DType;

/// Bytes of an array that tensors share, at most. All of it stays as long as one of them does.
const SHARED: u64 = 256 << 10;

/// A range of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first tensor in it.
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A whole tensor in a file.
pub(super) struct Whole<'h> {
    pub(super) name: &'h str,
    pub(super) dtype: DType,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Where a tensor lies: in which span, and how many bytes after its start.
pub(super) type Place = (usize, u64);

/// The spans of tensors in their order, and the place of each tensor. An element never straddles a multiple of its size.
pub(super) fn spans<'h>(tensors: impl Iterator<Item = Whole<'h>>) -> (Vec<Span>, Vec<Place>) {
    let mut spans: Vec<Span> = Vec::new();
    let mut places = Vec::with_capacity(tensors.size_hint().0);
    for Whole { name, dtype, offset, len } in tensors {
        let size = dtype.bits().map_or(1, |bits| bits.div_ceil(8));
        let continues = |span: &&mut Span| {
            span.offset.checked_add(span.len) == Some(offset)
                && span.len.is_multiple_of(size.into())
                && span.len.checked_add(len).is_some_and(|len| len <= SHARED)
        };
        match spans.last_mut().filter(continues) {
            Some(span) => {
                let within = span.len;
                span.len = span.len.saturating_add(len);
                places.push((spans.len() - 1, within));
            }
            None => {
                spans.push(Span { name: name.to_owned(), offset, len });
                places.push((spans.len() - 1, 0));
            }
        }
    }
    (spans, places)
}
