//! Axes that one side stores as several become several for both: then every stored order is one of whole axes.

use super::add::Addend;
use ckpt_api::{AddedAxis, Encoding, Error, Placement, Region, Result, Shape, Tensor, Window};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// What a stream needs to know, without tiles.
pub(crate) struct Untiled<'a> {
    pub(crate) tensor: Tensor,
    pub(crate) source: Placement,
    pub(crate) target: Encoding,
    pub(crate) region: Option<Region>,
    pub(crate) addends: Vec<Addend<'a>>,
}

/// Cuts every axis wherever one side cuts it; `None` where no side does.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] where the parts of the two sides do not nest, or a slice ends within one.
pub(crate) fn untile<'a>(
    tensor: &Tensor,
    source: &Placement,
    addends: &[Addend<'a>],
    target: &Encoding,
    region: Option<&Region>,
) -> Result<Option<Untiled<'a>>> {
    let mut encodings =
        [&source.encoding, target].into_iter().chain(addends.iter().map(|addend| &addend.source.encoding));
    if encodings.all(|encoding| encoding.tiles.is_empty()) {
        return Ok(None);
    }
    let cuts = Cuts::new(tensor.shape.rank(), &source.encoding, target, addends)
        .map_err(|error| error.tensor(&tensor.name))?;
    let cut = || -> Result<Untiled<'a>> {
        Ok(Untiled {
            tensor: cuts.tensor(tensor)?,
            source: cuts.placement(source)?,
            target: cuts.encoding(target),
            region: region.map(|region| cuts.region(region)).transpose()?,
            addends: addends.iter().map(|addend| cuts.addend(addend)).collect::<Result<Vec<_>>>()?,
        })
    };
    cut().map(Some).map_err(|error| error.tensor(&tensor.name))
}

/// For every logical axis the distances between neighbors of its parts, the slowest first; the last is 1.
struct Cuts(Vec<Vec<u64>>);

/// Distances between neighbors of an axis's parts, the slowest first.
fn strides(tile: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64];
    for len in tile.iter().rev() {
        strides.push(strides.last().map_or(1, |stride| stride.saturating_mul(*len)));
    }
    strides.reverse();
    strides
}

impl Cuts {
    fn new(rank: usize, source: &Encoding, target: &Encoding, addends: &[Addend]) -> Result<Self> {
        let axis_cuts = |axis: usize| {
            let mut all: BTreeSet<u64> =
                [source, target].iter().flat_map(|e| strides(e.tile(axis))).collect();
            for addend in addends {
                if let Some(AddedAxis::Along(own)) = addend.axes.get(axis) {
                    all.extend(strides(addend.source.encoding.tile(*own)));
                }
            }
            let cuts: Vec<u64> = all.into_iter().rev().collect();
            if cuts.windows(2).all(|pair| pair[0].is_multiple_of(pair[1])) {
                return Ok(cuts);
            }
            Err(Error::unsupported("the parts in which the two sides store an axis do not nest")
                .found(format!("axis {axis} in parts of {cuts:?}"))
                .expected("sizes of which each divides the next")
                .help("convert by way of a format that stores the axis as one, such as safetensors"))
        };
        (0..rank).map(axis_cuts).collect::<Result<Vec<_>>>().map(Cuts)
    }

    /// The number of an axis's first part.
    fn base(&self, axis: usize) -> usize {
        self.0.iter().take(axis).map(Vec::len).sum()
    }

    fn tensor(&self, tensor: &Tensor) -> Result<Tensor> {
        let shape = self.range(&vec![0; tensor.shape.rank()], &tensor.shape)?.1;
        Ok(Tensor { shape, axes: None, ..tensor.clone() })
    }

    /// A box, as one of the parts.
    fn range(&self, start: &[u64], shape: &Shape) -> Result<(Vec<u64>, Shape)> {
        let (mut starts, mut lens) = (Vec::new(), Vec::new());
        for ((cuts, first), len) in self.0.iter().zip(start).zip(shape.iter()) {
            let parts = split(*first, *len, cuts).ok_or_else(|| {
                Error::unsupported("a slice ends within a part in which an axis is stored")
                    .found(format!("{start:?}+{shape}"))
                    .expected(format!("multiples of {:?}", cuts.first()))
                    .help("convert by way of a format that stores tensors whole, such as safetensors")
            })?;
            starts.extend(parts.iter().map(|(start, _)| *start));
            lens.extend(parts.iter().map(|(_, len)| *len));
        }
        Ok((starts, Shape::new(lens)?))
    }

    fn region(&self, region: &Region) -> Result<Region> {
        let (start, shape) = self.range(&region.start, &region.shape)?;
        Ok(Region { start, shape })
    }

    fn placement(&self, placement: &Placement) -> Result<Placement> {
        let mut placement = placement.clone();
        placement.encoding = self.encoding(&placement.encoding);
        for region in placement.extents.iter_mut().filter_map(|extent| extent.region.as_mut()) {
            **region = self.region(region)?;
        }
        if let Some(Window { start, whole }) = placement.window.as_deref_mut() {
            *whole = self.range(&vec![0; whole.rank()], whole)?.1;
            *start = self.range(start, &Shape::new(vec![1; start.len()])?)?.0;
        }
        Ok(placement)
    }

    /// The same order, of the parts.
    fn encoding(&self, encoding: &Encoding) -> Encoding {
        let parts = encoding.parts(self.0.len());
        let mut order = Vec::new();
        for part in encoding.order.iter().filter_map(|number| parts.get(*number)) {
            let own = strides(encoding.tile(part.axis));
            let least = own.get(part.part).copied().unwrap_or(1);
            let below = part.part.checked_sub(1).and_then(|slower| own.get(slower)).copied();
            let cuts = self.0.get(part.axis).into_iter().flatten().enumerate();
            let within = cuts.filter(|(_, cut)| **cut >= least && below.is_none_or(|below| **cut < below));
            order.extend(within.map(|(k, _)| self.base(part.axis) + k));
        }
        Encoding { order, tiles: Vec::new(), ..encoding.clone() }
    }

    fn addend<'a>(&self, addend: &Addend<'a>) -> Result<Addend<'a>> {
        let mut own = vec![vec![1]; addend.tensor.shape.rank()];
        for (axis, cuts) in addend.axes.iter().zip(&self.0) {
            if let AddedAxis::Along(along) = axis
                && let Some(slot) = own.get_mut(*along)
            {
                slot.clone_from(cuts);
            }
        }
        let own = Cuts(own);
        let mut axes = Vec::new();
        for (axis, cuts) in addend.axes.iter().zip(&self.0) {
            let parts = 0..cuts.len();
            match *axis {
                AddedAxis::Every => axes.extend(parts.map(|_| AddedAxis::Every)),
                AddedAxis::Along(along) => axes.extend(parts.map(|k| AddedAxis::Along(own.base(along) + k))),
                AddedAxis::At(index) => {
                    let digits = split(index, 1, cuts).unwrap_or_default();
                    axes.extend(digits.iter().map(|(digit, _)| AddedAxis::At(*digit)));
                }
            }
        }
        Ok(Addend {
            tensor: Cow::Owned(own.tensor(&addend.tensor)?),
            source: Cow::Owned(own.placement(&addend.source)?),
            axes: Cow::Owned(axes),
        })
    }
}

/// A range of an axis as ranges of its parts, the slowest first; `None` where it is none.
fn split(start: u64, len: u64, cuts: &[u64]) -> Option<Vec<(u64, u64)>> {
    let (mut start, mut len) = (start, len);
    let mut parts = Vec::with_capacity(cuts.len());
    for pair in cuts.windows(2).rev() {
        let part = pair[0].checked_div(pair[1])?;
        let digit = start.checked_rem(part)?;
        if digit == 0 && len.is_multiple_of(part) {
            parts.push((0, part));
            len /= part;
        } else if digit.saturating_add(len) <= part {
            parts.push((digit, len));
            len = 1;
        } else {
            return None;
        }
        start /= part;
    }
    parts.push((start, len));
    parts.reverse();
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Budget, Files, TensorStream};
    use ckpt_api::{Checkpoint, Contents, DType, Extent, FileId, Input, Kind, TensorId, Tile};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// For every stored position, slowest axis first, the number of the element that lies there.
    fn stored(shape: &Shape, encoding: &Encoding) -> Vec<f32> {
        let mut out = vec![f32::NAN; shape.elements() as usize];
        for number in 0..shape.elements() {
            let (mut rest, mut digits) = (number, Vec::new());
            for axis in (0..shape.rank()).rev() {
                let mut index = rest % shape[axis];
                rest /= shape[axis];
                for len in encoding.tile(axis).iter().rev() {
                    digits.push((index % len, *len));
                    index /= len;
                }
                let inner: u64 = encoding.tile(axis).iter().product();
                digits.push((index, shape[axis] / inner));
            }
            digits.reverse();
            let position = encoding.order.iter().fold(0, |position, axis| {
                let (digit, len) = digits[*axis];
                position * len + digit
            });
            out[position as usize] = number as f32;
        }
        out
    }

    fn bytes(numbers: &[f32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// A file that holds the tensors one behind the other, and what describes it.
    fn contents(tensors: &[(Tensor, Encoding)], values: &[Vec<u8>]) -> (Contents, Files) {
        let mut contents = Contents { files: vec!["f".into()], ..Contents::default() };
        let mut offset = 0;
        for (id, ((tensor, encoding), value)) in tensors.iter().zip(values).enumerate() {
            let len = value.len() as u64;
            let extent = Extent { file: FileId(0), offset, len, region: None, checksum: None };
            offset += len;
            contents.placements.push(Placement::new(TensorId(id), "t", vec![extent], encoding.clone()));
            contents.checkpoint.tensors.push(tensor.clone());
        }
        let input = Input::memory("f", BTreeMap::from([("f".to_owned(), values.concat())]));
        let files = Files::new(&input, &contents);
        (contents, std::sync::Arc::into_inner(files).unwrap())
    }

    fn converted(from: (&Tensor, &Encoding), value: Vec<u8>, to: &Encoding, budget: Budget) -> Vec<u8> {
        let (contents, files) = contents(&[(from.0.clone(), from.1.clone())], &[value]);
        let Contents { checkpoint: Checkpoint { tensors, .. }, placements, .. } = &contents;
        let mut stream = TensorStream::new(&files, &tensors[0], &placements[0], to, None, budget).unwrap();
        stream.read_all().unwrap()
    }

    /// Axes of `a·b·c`, in tiles of none, `[c]` or `[b, c]`, in any order.
    fn encodings(axes: &[(u64, u64, u64)]) -> impl Strategy<Value = Encoding> + use<> {
        let axes = axes.to_vec();
        let shape: Vec<u64> = axes.iter().map(|(a, b, c)| a * b * c).collect();
        let kinds = prop::collection::vec(0usize..3, axes.len());
        kinds
            .prop_flat_map(move |kinds| {
                let tile = |(axis, kind): (usize, &usize)| {
                    let (_, b, c) = axes[axis];
                    let lens = [vec![], vec![c], vec![b, c]][*kind].clone();
                    (!lens.is_empty()).then_some(Tile { axis, lens })
                };
                let tiles: Vec<Tile> = kinds.iter().enumerate().filter_map(tile).collect();
                let rank = axes.len() + tiles.iter().map(|tile| tile.lens.len()).sum::<usize>();
                (Just(tiles), Just((0..rank).collect::<Vec<usize>>()).prop_shuffle())
            })
            .prop_map(move |(tiles, order)| {
                let tensor = Tensor::new("t", DType::F32, Shape::new(shape.clone()).unwrap());
                Encoding { tiles, order, ..Encoding::row_major(&tensor) }
            })
    }

    type Case = (Vec<(u64, u64, u64)>, Encoding, Encoding, Encoding);

    fn cases() -> impl Strategy<Value = Case> {
        prop::collection::vec((0u64..4, 1u64..4, 1u64..5), 1..4).prop_flat_map(|axes| {
            (Just(axes.clone()), encodings(&axes), encodings(&axes), encodings(&axes[..1]))
        })
    }

    proptest! {
        #[test]
        fn tiles_on_either_side_give_what_plain_loops_give_and_come_back(
            (axes, from, to, _) in cases(), slab in 16u64..400,
        ) {
            let shape = Shape::new(axes.iter().map(|(a, b, c)| a * b * c).collect::<Vec<_>>()).unwrap();
            let tensor = Tensor::new("t", DType::F32, shape.clone());
            let budget = Budget { chunk: 48, tile: slab };
            let (source, expected) = (bytes(&stored(&shape, &from)), bytes(&stored(&shape, &to)));
            let out = converted((&tensor, &from), source.clone(), &to, budget);
            prop_assert_eq!(&out, &expected);
            prop_assert_eq!(converted((&tensor, &to), out, &from, budget), source);
        }

        #[test]
        fn what_is_added_may_be_stored_in_tiles(
            (axes, from, to, extra) in cases(), slab in 16u64..400, along in any::<bool>(), at in 0u64..36,
        ) {
            let shape = Shape::new(axes.iter().map(|(a, b, c)| a * b * c).collect::<Vec<_>>()).unwrap();
            prop_assume!(shape.elements() > 0);
            let tensor = Tensor::new("t", DType::F32, shape.clone());
            let own = Tensor::new("a", DType::F32, Shape::new(vec![shape[0]]).unwrap());
            // Added along the first axis; at one index, or at every, of the others.
            let mut places = vec![AddedAxis::Along(0)];
            places.extend(shape[1..].iter().map(|len| if along { AddedAxis::Every } else { AddedAxis::At(at % len) }));
            let values = [bytes(&stored(&shape, &from)), bytes(&stored(&own.shape, &extra))];
            let (contents, files) = contents(&[(tensor.clone(), from), (own, extra)], &values);
            let addend = Addend::new(&contents.checkpoint.tensors[1], &contents.placements[1], &places);
            let budget = Budget { chunk: 48, tile: slab };
            let stream = TensorStream::sum(&files, &tensor, &contents.placements[0], vec![addend], &to, None, budget);
            let inner: u64 = shape[1..].iter().product();
            let hit = |number: u64| along || (1..shape.rank()).all(|axis| {
                let stride: u64 = shape[axis + 1..].iter().product();
                number / stride % shape[axis] == at % shape[axis]
            });
            let sum = |number: f32| number + if hit(number as u64) { (number as u64 / inner) as f32 } else { 0.0 };
            let expected: Vec<f32> = stored(&shape, &to).into_iter().map(sum).collect();
            prop_assert_eq!(stream.unwrap().read_all().unwrap(), bytes(&expected));
        }

        #[test]
        fn a_range_is_one_of_its_parts_or_none(start in 0u64..40, len in 0u64..40, b in 1u64..4, c in 1u64..5) {
            let numbers: Vec<u64> = (start..start + len).collect();
            let Some(parts) = split(start, len, &[b * c, c, 1]) else {
                prop_assert!(len > 1);
                return Ok(());
            };
            let within = |(first, count): (u64, u64)| first..first + count;
            let mut found = Vec::new();
            for i in within(parts[0]) {
                for j in within(parts[1]) {
                    found.extend(within(parts[2]).map(|k| i * b * c + j * c + k));
                }
            }
            prop_assert_eq!(found, numbers);
        }
    }

    #[test]
    fn parts_that_do_not_nest_are_refused() {
        let tensor = Tensor::new("t", DType::F32, Shape::new(vec![12]).unwrap());
        let tiled = |len| {
            let tiles = vec![Tile { axis: 0, lens: vec![len] }];
            Encoding { tiles, order: vec![1, 0], ..Encoding::row_major(&tensor) }
        };
        let (contents, files) = contents(&[(tensor.clone(), tiled(4))], &[vec![0; 48]]);
        let source = &contents.placements[0];
        let refused = TensorStream::new(&files, &tensor, source, &tiled(6), None, Budget::default());
        assert_eq!(refused.err().unwrap().kind(), Kind::Unsupported);
    }
}
