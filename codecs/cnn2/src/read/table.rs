//! The layer table: the sizes of each layer, and where its weights are.

use super::header::Header;
use crate::format::weight_name;
use crate::layer::LayerShape;
use ckpt_api::{Error, Fields, File, Limit, Limits, Result, Rules};
use nom::Parser;
use nom::number::streaming::le_u32;

/// One entry of the table.
pub(super) struct Entry {
    pub(super) index: usize,
    /// The offset of the entry.
    at: u64,
    pub(super) shape: LayerShape,
    /// `weight_offset`: the first weight, counted from the first of the file.
    pub(super) start: u64,
    /// `weight_count`.
    pub(super) weights: u64,
}

/// Parses the table of a file that contains it, and checks every entry.
pub(super) fn read(file: &File, header: &Header, limits: &Limits, rules: &mut Rules) -> Result<Vec<Entry>> {
    limits
        .check(Limit::Tensors, header.layers.into())
        .map_err(|error| error.field("num_layers").offset(8))?;
    let start = header.version.header_bytes();
    let mut fields = Fields::range(file, start, header.data.saturating_sub(start))?;
    let mut entries = Vec::new();
    while fields.remaining() > 0 {
        entries.push(Entry::parse(entries.len(), &mut fields)?);
    }
    let mut previous = None;
    for entry in &entries {
        entry.check(previous, header.weights.into(), rules)?;
        previous = Some(entry.shape.outputs);
    }
    check_overlaps(&entries)?;
    check_order(&entries, header.weights.into(), rules)?;
    Ok(entries)
}

impl Entry {
    fn parse(index: usize, fields: &mut Fields<'_>) -> Result<Self> {
        let at = fields.position();
        let [kernel, inputs, outputs, start, weights] = fields.parse(|input| {
            let (input, numbers) = (le_u32, le_u32, le_u32, le_u32, le_u32).parse(input)?;
            Ok((input, <[u32; 5]>::from(numbers).map(u64::from)))
        })?;
        Ok(Entry { index, at, shape: LayerShape { kernel, inputs, outputs }, start, weights })
    }

    /// The weight after the last.
    fn end(&self) -> u64 {
        self.start.saturating_add(self.weights)
    }

    /// Adds the entry's location to an error.
    fn locate(&self, error: Error, field: &str) -> Error {
        error.field(format!("layers[{}].{field}", self.index)).offset(self.at).tensor(weight_name(self.index))
    }

    /// Checks the entry against the layer before it, which outputs `previous` channels, and the file's `total` of
    /// weights.
    fn check(&self, previous: Option<u64>, total: u64, rules: &mut Rules) -> Result<()> {
        for breach in self.shape.breaches(previous) {
            let error = Error::corrupt(breach.rule).found(breach.found).expected(breach.expected);
            let error = self.locate(error, breach.field);
            if breach.is_fatal {
                return Err(error);
            }
            rules.mend(weight_name(self.index), "the tensors are read, but there is no graph", error)?;
        }
        let LayerShape { kernel, inputs, outputs } = self.shape;
        if self.shape.weights() != Some(self.weights) {
            let expected =
                self.shape.weights().map_or("fewer than 2^64".to_owned(), |weights| weights.to_string());
            let error = Error::corrupt("the number of weights does not fit the layer")
                .found(self.weights.to_string())
                .expected(format!("{expected}: {outputs} · {inputs} · {kernel} · {kernel}"));
            return Err(self.locate(error, "weight_count"));
        }
        if self.end() > total {
            let error = Error::corrupt("the layer's weights extend beyond the last weight of the file")
                .found(format!("weights {} to {}", self.start, self.end()))
                .expected(format!("at most total_weights, {total}"));
            return Err(self.locate(error, "weight_offset"));
        }
        Ok(())
    }
}

fn check_overlaps(entries: &[Entry]) -> Result<()> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.start);
    match sorted.windows(2).find(|pair| matches!(pair, [a, b] if b.start < a.end())) {
        Some([a, b]) => {
            let error = Error::corrupt("two layers share weights")
                .found(format!("{} starts at weight {}", weight_name(b.index), b.start))
                .expected(format!("at least {}, where {} ends", a.end(), weight_name(a.index)));
            Err(b.locate(error, "weight_offset"))
        }
        _ => Ok(()),
    }
}

/// Checks that the weights are in the order of the table, without gaps.
fn check_order(entries: &[Entry], total: u64, rules: &mut Rules) -> Result<()> {
    let mut next = 0;
    for entry in entries {
        if entry.start != next {
            let error = Error::corrupt("the layer's weights do not follow those of the layer before")
                .found(entry.start.to_string())
                .expected(next.to_string());
            let error = entry.locate(error, "weight_offset");
            rules.mend(
                weight_name(entry.index),
                "they are read from the offset that the table states",
                error,
            )?;
        }
        next = entry.end();
    }
    let last = entries.iter().map(Entry::end).max().unwrap_or(0);
    if last < total {
        let unused = total.saturating_sub(last);
        let error = Error::corrupt("there are weights after those of the last layer")
            .field("total_weights")
            .offset(12)
            .found(total.to_string())
            .expected(last.to_string());
        rules.mend(
            "total_weights",
            &format!("without the last {}", ckpt_api::count(unused, "weight")),
            error,
        )?;
    }
    Ok(())
}
