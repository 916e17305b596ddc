//! The order in which an engine stores a parameter: `["bucket", "in/4", "out", "in%4"]`.

use super::entry::Entry;
use super::parameter::Parameter;
use ckpt_api::{AxisPart, Encoding, Error, Result, Tile};

/// The most words of a layout.
const MAX_WORDS: usize = 32;

/// The stored order of a parameter's axes, some of which are split into parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    tiles: Vec<Tile>,
    /// The parts in stored order, slowest first.
    stored: Vec<AxisPart>,
}

/// A part of an axis, as one word of a layout writes it: `index / divisor % modulus`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digit {
    axis: usize,
    divisor: u64,
    /// `None` for the slowest part of an axis.
    modulus: Option<u64>,
}

impl Layout {
    /// The layout of an entry; `None` if the entry is stored in bullet's order.
    pub(crate) fn of(entry: &Entry, parameter: &Parameter) -> Result<Option<Self>> {
        if entry.layout.is_empty() {
            return Ok(None);
        }
        let layout = Self::parse(&entry.layout, parameter);
        layout
            .map(Some)
            .map_err(|error| error.help(format!("the tensor has the axes {}", parameter.describe())))
    }

    /// Parses one word for each stored axis, slowest first: `axis`, `axis/d`, `axis%m` or `axis/d%m`. The words of an
    /// axis must cover each of its indices exactly once.
    fn parse(words: &[String], parameter: &Parameter) -> Result<Self> {
        if words.len() > MAX_WORDS {
            return Err(Error::usage("the layout has too many words")
                .found(words.len().to_string())
                .expected(format!("at most {MAX_WORDS}")));
        }
        let digits = words.iter().map(|word| Digit::parse(word, parameter)).collect::<Result<Vec<_>>>()?;
        let mut tiles = Vec::new();
        for (axis, len) in parameter.shape.iter().enumerate() {
            let lens = tile(&digits, axis, *len)
                .map_err(|error| error.found(format!("'{}' of length {len}", parameter.axis_name(axis))))?;
            if !lens.is_empty() {
                tiles.push(Tile { axis, lens });
            }
        }
        // A part is numbered by how many digits of its axis are slower. Digits of length 1 can have equal keys: the
        // later one counts as slower.
        let part = |(position, digit): (usize, &Digit)| {
            let is_slower = |(other_position, other): &(usize, &Digit)| {
                other.axis == digit.axis && (other.key(), *other_position) > (digit.key(), position)
            };
            AxisPart { axis: digit.axis, part: digits.iter().enumerate().filter(is_slower).count() }
        };
        Ok(Layout { stored: digits.iter().enumerate().map(part).collect(), tiles })
    }

    /// Applies the layout to the encoding of a tensor whose axis `axes[k]` is the parameter's axis `k`.
    pub(crate) fn apply(&self, encoding: Encoding, axes: &[usize]) -> Encoding {
        let own = |axis: usize| axes.get(axis).copied().unwrap_or(axis);
        let tiles = self.tiles.iter().map(|tile| Tile { axis: own(tile.axis), lens: tile.lens.clone() });
        let stored = self.stored.iter().map(|part| AxisPart { axis: own(part.axis), ..*part });
        let stored: Vec<AxisPart> = stored.collect();
        encoding.with_stored(axes.len(), tiles.collect::<Vec<_>>(), &stored)
    }
}

impl Digit {
    fn parse(word: &str, parameter: &Parameter) -> Result<Self> {
        let invalid = || {
            Error::usage("a word of the layout is invalid")
                .found(format!("'{}'", word.escape_debug()))
                .expected("an axis of the tensor or a part of one, such as out, out/8, out%8 or out/8%2")
        };
        let (rest, modulus) = match word.split_once('%') {
            Some((rest, modulus)) => (rest, Some(positive(modulus).ok_or_else(invalid)?)),
            None => (word, None),
        };
        let (name, divisor) = match rest.split_once('/') {
            Some((name, divisor)) => (name, positive(divisor).ok_or_else(invalid)?),
            None => (rest, 1),
        };
        let axis = (0..parameter.shape.rank()).find(|axis| parameter.axis_name(*axis) == name);
        Ok(Digit { axis: axis.ok_or_else(invalid)?, divisor, modulus })
    }

    /// Orders the digits of an axis: the greater key varies more slowly.
    fn key(&self) -> (u64, u64) {
        (self.divisor, self.modulus.unwrap_or(u64::MAX))
    }
}

fn positive(text: &str) -> Option<u64> {
    // `parse` would accept a plus sign.
    text.parse().ok().filter(|number| *number > 0 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The lengths of an axis's parts, slowest first, without the slowest one.
fn tile(digits: &[Digit], axis: usize, len: u64) -> Result<Vec<u64>> {
    let mut own: Vec<&Digit> = digits.iter().filter(|digit| digit.axis == axis).collect();
    own.sort_by_key(|digit| digit.key());
    let incomplete = || {
        Error::usage("the layout does not cover every index of an axis exactly once")
            .expected("parts such as out/32, out/8%4 and out%8")
    };
    let (slowest, faster) = own.split_last().ok_or_else(incomplete)?;
    let (mut lens, mut inner) = (Vec::new(), 1u64);
    for digit in faster {
        let modulus = digit.modulus.filter(|_| digit.divisor == inner).ok_or_else(incomplete)?;
        inner = inner.checked_mul(modulus).ok_or_else(incomplete)?;
        lens.insert(0, modulus);
    }
    let rest = len.checked_div(inner).unwrap_or(0);
    if slowest.divisor != inner || slowest.modulus.is_some_and(|modulus| modulus != rest) {
        return Err(incomplete());
    }
    match len.is_multiple_of(inner) {
        true => Ok(lens),
        false => Err(Error::usage("the block size of the layout does not divide the axis")
            .expected(format!("a multiple of {inner}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::parameter::parameters;
    use ckpt_api::{DType, Kind, Tensor};
    use serde_json::json;

    /// `l1w` of 2 buckets, 8 outputs and 64 inputs.
    fn parameter() -> Parameter {
        let net = serde_json::from_value(json!({
            "format": "bullet", "input": { "features": 3 }, "output_buckets": { "count": 2 }, "saved": [],
            "layers": [{ "size": 64, "pairwise": true }, { "size": 8 }],
        }));
        let mut all = parameters(&net.unwrap()).unwrap();
        all.swap_remove(all.iter().position(|parameter| parameter.id == "l1w").unwrap())
    }

    fn parse(words: &str) -> Result<Encoding> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let plain = Encoding::row_major(&Tensor::new("t", DType::I8, parameter().shape));
        Layout::parse(&words, &parameter()).map(|layout| layout.apply(plain, &[0, 1, 2]))
    }

    #[test]
    fn parts_are_numbered_slowest_first() {
        let packed = parse("bucket in/4 out in%4").unwrap();
        assert_eq!((&packed.order[..], packed.tile(2)), (&[0, 2, 1, 3][..], &[4][..]));
        let blocks = parse("out bucket in/32 in/8%2 in/16%2 in%8").unwrap();
        assert_eq!((&blocks.order[..], blocks.tile(2)), (&[1, 0, 2, 4, 3, 5][..], &[2, 2, 8][..]));
        assert_eq!(parse("in bucket out").unwrap().order, [2, 0, 1]);
        // Parts of length 1 can stand anywhere, and more than once.
        assert_eq!(parse("in%1 bucket in out").unwrap().order, [3, 0, 2, 1]);
        let twice = parse("in%1 bucket in%1 in out").unwrap();
        assert_eq!((&twice.order[..], twice.tile(2)), (&[4, 0, 3, 2, 1][..], &[1, 1][..]));
    }

    #[test]
    fn a_layout_that_does_not_cover_every_index_once_is_refused() {
        for (words, reason) in [
            ("bucket in", "every index"),
            ("bucket in out out", "every index"),
            ("bucket in/4 out", "every index"),
            ("bucket in/4 out in%2", "every index"),
            ("bucket in/8 out in%4", "every index"),
            ("bucket in/4%8 out in%4", "every index"),
            ("bucket out in%64 in/64 in/64", "every index"),
            ("bucket in/5 out in%5", "does not divide"),
            ("bucket in/128 out in%128", "does not divide"),
            ("bucket in/0 out in%4", "is invalid"),
            ("bucket in/x out in%4", "is invalid"),
            ("bucket in/+4 out in%4", "is invalid"),
            ("bucket feature out in", "is invalid"),
            ("bucket  out in", "is invalid"),
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(reason), "{words}: {error}");
        }
        let many = vec!["in".to_owned(); if cfg!(miri) { 1000 } else { 100_000 }];
        assert!(Layout::parse(&many, &parameter()).is_err());
    }
}
