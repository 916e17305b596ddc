//! A format that stores every tensor in whatever way it was told.

use crate::generate::Given;
use arbitrary::{Result, Unstructured};
use ckpt_api::{
    Checkpoint, Checksum, ChecksumAlgorithm, Codec, Contents, DType, Encoding, Endian, Extent, FileId,
    FormatInfo, Input, Limits, Match, Network, Options, OutputFile, OutputLayout, Packing, Placement, Region,
    Rounding, Scaling, Shape, Tensor, TensorId, Tile,
};
use std::num::NonZeroU32;

/// Of one file, `x.loose`.
pub struct Loose {
    checkpoint: Checkpoint,
    placements: Vec<Placement>,
    len: u64,
}

static INFO: FormatInfo = FormatInfo::new("loose", "tensors stored in any way")
    .with_extensions(&["loose"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(DType::ALL)
    .with_free_names();

impl Codec for Loose {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> ckpt_api::Result<Match> {
        let own = input.entry().ends_with(".loose");
        Ok(if own { Match::Certain("it is called so".to_owned()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, _: &Limits) -> ckpt_api::Result<Contents> {
        let (checkpoint, placements) = (self.checkpoint.clone(), self.placements.clone());
        Ok(Contents::default()
            .with_checkpoint(checkpoint)
            .with_placements(placements)
            .with_files(vec![input.entry().to_owned()]))
    }

    fn place(&self, _: &Checkpoint, name: &str, _: &Options) -> ckpt_api::Result<OutputLayout> {
        let files = vec![OutputFile::new(name, self.len)];
        Ok(OutputLayout::default().with_files(files).with_placements(self.placements.clone()))
    }
}

impl Loose {
    /// Some way of storing these tensors, one after the other with gaps between.
    ///
    /// # Errors
    /// Where the input ends.
    pub fn arbitrary(u: &mut Unstructured, given: &Given) -> Result<Self> {
        let (mut placements, mut len) = (Vec::new(), 0);
        for (id, tensor) in given.checkpoint.tensors.iter().enumerate() {
            let encoding = encoding(u, tensor)?;
            let extents = extents(u, tensor, &encoding, &mut len)?;
            placements.push(Placement::new(TensorId(id), &tensor.name, extents, encoding));
        }
        Ok(Loose { checkpoint: given.checkpoint.clone(), placements, len })
    }
}

fn encoding(u: &mut Unstructured, tensor: &Tensor) -> Result<Encoding> {
    let mut encoding = Encoding::row_major(tensor);
    if tensor.dtype.bytes().is_none() {
        return Ok(encoding);
    }
    encoding.endian = *u.choose(&[Endian::Little, Endian::Big])?;
    if tensor.dtype == DType::F32 && u.arbitrary()? {
        encoding.dtype = *u.choose(&[DType::I8, DType::I16, DType::I32])?;
        let scale = NonZeroU32::new(u.int_in_range(1..=100)?).unwrap_or(NonZeroU32::MIN);
        // Every number fits, but NaN.
        let limit = NonZeroU32::new(100);
        encoding.set_scaling(Scaling { scale, rounding: Rounding::Nearest, limit, each_term: false });
    }
    let mut tiles = Vec::new();
    for (axis, len) in tensor.shape.iter().enumerate() {
        if u.ratio(1, 4)? && len % 2 == 0 {
            tiles.push(Tile { axis, lens: vec![2] });
        }
    }
    encoding.set_tiles(tiles);
    let mut order: Vec<usize> = (0..encoding.parts(tensor.shape.rank()).len()).collect();
    for k in 0..order.len() {
        let other = u.int_in_range(k..=order.len() - 1)?;
        order.swap(k, other);
    }
    encoding.order = order.into();
    let packed = encoding.clone().with_packing(Packing::Bits);
    // What does not take whole bytes is not reordered.
    let ordered = encoding.tiles().is_empty() && encoding.order.is_sorted();
    let fits = ordered && packed.stored_len(tensor.shape.elements()).is_some();
    Ok(if fits && u.arbitrary()? { packed } else { encoding })
}

/// One extent, several that follow each other, or slices across the first axis.
fn extents(u: &mut Unstructured, tensor: &Tensor, encoding: &Encoding, end: &mut u64) -> Result<Vec<Extent>> {
    let whole = encoding.stored_len(tensor.shape.elements()).unwrap_or_else(|| tensor.value_bytes());
    let rows = tensor.shape.first().copied().unwrap_or(0);
    let slices = rows > 1 && encoding.tiles().is_empty() && encoding.packing == Packing::Bytes && whole > 0;
    let mut extents = Vec::new();
    if slices && tensor.dtype.bytes().is_some() && u.arbitrary()? {
        let cut = u.int_in_range(1..=rows - 1)?;
        for [first, next] in [[0, cut], [cut, rows]] {
            let mut start = vec![0; tensor.shape.rank()];
            let mut dims = tensor.shape.to_vec();
            (start[0], dims[0]) = (first, next - first);
            let region = Region { start, shape: Shape::new(dims).expect("a part of the shape") };
            extents.push(extent(u, end, whole / rows * (next - first), Some(region))?);
        }
    } else {
        // Between elements.
        let size = encoding.dtype.bytes().unwrap_or(1).max(1);
        let cut = if u.arbitrary()? { u.int_in_range(0..=whole / size)? * size } else { whole };
        extents.push(extent(u, end, cut, None)?);
        if cut < whole {
            extents.push(extent(u, end, whole - cut, None)?);
        }
    }
    Ok(extents)
}

fn extent(u: &mut Unstructured, end: &mut u64, len: u64, region: Option<Region>) -> Result<Extent> {
    let offset = *end + u.int_in_range(0..=3)?;
    *end = offset + len;
    let checksum = u.arbitrary::<bool>()?.then_some(Checksum {
        algorithm: ChecksumAlgorithm::Crc32c,
        seed: 0,
        value: None,
    });
    Ok(Extent::new(FileId(0), offset, len).with_region(region).with_checksum(checksum))
}
