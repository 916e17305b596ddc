//! The order of an engine's numbers in memory: `["bucket", "in/4", "out", "in%4"]`.

use crate::architecture::invalid;
use crate::parameter::Parameter;
use ckpt_api::{AxisPart, Encoding, Error, Result, Tile};

/// Which part of which axis is stored in which place, slowest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    tiles: Vec<Tile>,
    stored: Vec<AxisPart>,
}

/// `index / divisor % modulus`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digit {
    axis: usize,
    divisor: u64,
    /// `None` for the slowest part of an axis.
    modulus: Option<u64>,
}

impl Layout {
    /// Parses one word for every stored axis, slowest first: `axis`, `axis/d`, `axis%m` or `axis/d%m`. The words of an
    /// axis must name every index of it once.
    pub(crate) fn parse(words: &[String], parameter: &Parameter) -> Result<Self> {
        let located = |error: Error| error.help(format!("the tensor is {}", parameter.describe()));
        if words.len() > MOST {
            return Err(located(invalid("a layout has too many parts").expected(format!("at most {MOST}"))));
        }
        let digits = words.iter().map(|word| Digit::parse(word, parameter));
        let digits = digits.collect::<Result<Vec<_>>>().map_err(located)?;
        let mut tiles = Vec::new();
        for (axis, len) in parameter.shape.iter().enumerate() {
            let lens = tile(&digits, axis, *len).map_err(|error| {
                located(error.found(format!("'{}' of length {len}", parameter.axis_name(axis))))
            })?;
            if !lens.is_empty() {
                tiles.push(Tile { axis, lens });
            }
        }
        // The part of an axis is how many of its digits are slower; of those of length 1, which are equal, the later ones.
        let part = |(place, digit): (usize, &Digit)| {
            let slower = |(other_place, other): &(usize, &Digit)| {
                other.axis == digit.axis && (other.key(), *other_place) > (digit.key(), place)
            };
            AxisPart { axis: digit.axis, part: digits.iter().enumerate().filter(slower).count() }
        };
        Ok(Layout { stored: digits.iter().enumerate().map(part).collect(), tiles })
    }

    /// An encoding in this order, of a tensor of which axis `axes[k]` is the parameter's axis `k`.
    pub(crate) fn apply(&self, encoding: Encoding, axes: &[usize]) -> Encoding {
        let own = |axis: usize| axes.get(axis).copied().unwrap_or(axis);
        let tiles = self.tiles.iter().map(|tile| Tile { axis: own(tile.axis), lens: tile.lens.clone() });
        let stored = self.stored.iter().map(|part| AxisPart { axis: own(part.axis), ..*part });
        let stored: Vec<AxisPart> = stored.collect();
        encoding.with_stored(axes.len(), tiles.collect(), &stored)
    }
}

/// Most words of a layout.
const MOST: usize = 32;

impl Digit {
    fn parse(word: &str, parameter: &Parameter) -> Result<Self> {
        let wrong = || {
            invalid("a part of a layout cannot be read")
                .found(format!("'{}'", word.escape_debug()))
                .expected("an axis of the tensor, such as out, out/8, out%8 or out/8%2")
        };
        let (rest, modulus) = match word.split_once('%') {
            Some((rest, modulus)) => (rest, Some(number(modulus).ok_or_else(wrong)?)),
            None => (word, None),
        };
        let (name, divisor) = match rest.split_once('/') {
            Some((name, divisor)) => (name, number(divisor).ok_or_else(wrong)?),
            None => (rest, 1),
        };
        let axis = (0..parameter.shape.rank()).find(|axis| parameter.axis_name(*axis) == name);
        Ok(Digit { axis: axis.ok_or_else(wrong)?, divisor, modulus })
    }

    /// The greater, the slower.
    fn key(&self) -> (u64, u64) {
        (self.divisor, self.modulus.unwrap_or(u64::MAX))
    }
}

fn number(text: &str) -> Option<u64> {
    // A plus sign would be read, too.
    text.parse().ok().filter(|number| *number > 0 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The lengths of an axis's parts but the slowest.
fn tile(digits: &[Digit], axis: usize, len: u64) -> Result<Vec<u64>> {
    let mut own: Vec<&Digit> = digits.iter().filter(|digit| digit.axis == axis).collect();
    own.sort_by_key(|digit| digit.key());
    let incomplete = || {
        invalid("the layout does not name every index of an axis once")
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
        false => Err(invalid("the blocks of a layout do not divide the axis")
            .expected(format!("a multiple of {inner}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;
    use ckpt_api::{DType, Tensor};

    /// `l1w` of 2 buckets, 8 outputs and 64 inputs.
    fn parameter() -> Parameter {
        let net = crate::preset::parse("multi:3x64x8x1,buckets=2").unwrap();
        Architecture::new(net).unwrap().parameter("l1w").unwrap().clone()
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
        // Parts of length 1 stand anywhere, and more than once.
        assert_eq!(parse("in%1 bucket in out").unwrap().order, [3, 0, 2, 1]);
        let twice = parse("in%1 bucket in%1 in out").unwrap();
        assert_eq!((&twice.order[..], twice.tile(2)), (&[4, 0, 3, 2, 1][..], &[1, 1][..]));
    }

    #[test]
    fn a_layout_that_does_not_name_every_index_once_is_refused() {
        for (words, reason) in [
            ("bucket in", "every index"),
            ("bucket in out out", "every index"),
            ("bucket in/4 out", "every index"),
            ("bucket in/4 out in%2", "every index"),
            ("bucket in/8 out in%4", "every index"),
            ("bucket in/4%8 out in%4", "every index"),
            ("bucket out in%64 in/64 in/64", "every index"),
            ("bucket in/5 out in%5", "do not divide"),
            ("bucket in/128 out in%128", "do not divide"),
            ("bucket in/0 out in%4", "cannot be read"),
            ("bucket in/x out in%4", "cannot be read"),
            ("bucket in/+4 out in%4", "cannot be read"),
            ("bucket feature out in", "cannot be read"),
            ("bucket  out in", "cannot be read"),
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Usage);
            assert!(error.to_string().contains(reason), "{words}: {error}");
        }
        let many = vec!["in".to_owned(); if cfg!(miri) { 1000 } else { 100_000 }];
        assert!(Layout::parse(&many, &parameter()).is_err());
    }
}
