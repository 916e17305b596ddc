//! Tensors in slices: what a target cuts otherwise than the source, and what it cuts the same way.

use ckpt::{Conversion, Execution, OpenOptions, Plan, Planned, Registry, Resources, Source};
use ckpt_api::{
    Checkpoint, Codec, Contents, DType, Encoding, Error, Extent, FileId, FormatInfo, Input, Limits, Literal,
    Match, Network, Options, OutputFile, OutputLayout, Placement, Region, Result, Shape, Tensor, TensorId,
};

/// `SLC1`, a letter (`f` for f32, `h` for f16), columns u8, count u8, the rows of each slice u8, then the slices.
/// Writes slices of these rows.
struct Sliced(&'static [u8]);

static INFO: FormatInfo = FormatInfo::new("slc", "Slices")
    .with_extensions(&["slc"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::F32, DType::F16])
    .with_free_names();

fn head(dtype: DType, columns: u8, rows: &[u8]) -> Vec<u8> {
    let letter = if dtype == DType::F32 { b'f' } else { b'h' };
    [&b"SLC1"[..], &[letter, columns, rows.len() as u8], rows].concat()
}

/// Slices of whole rows that follow each other.
fn slices(dtype: DType, columns: u8, rows: &[u8]) -> Vec<Extent> {
    let (mut first, mut offset) = (0, head(dtype, columns, rows).len() as u64);
    let slice = |rows: &u8| {
        let shape = Shape::new([u64::from(*rows), u64::from(columns)]).unwrap();
        let len = shape.elements() * dtype.bytes().unwrap();
        let extent = Extent::new(FileId(0), offset, len).with_region(Region { start: vec![first, 0], shape });
        (first, offset) = (first + u64::from(*rows), offset + len);
        extent
    };
    rows.iter().map(slice).collect()
}

impl Codec for Sliced {
    fn info(&self) -> &FormatInfo {
        &INFO
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let found = input.is_file() && input.main()?.bytes(0, 4).is_ok_and(|magic| magic == b"SLC1");
        Ok(if found { Match::Certain("it begins with SLC1".into()) } else { Match::No })
    }

    fn read(&self, input: &Input, _: &Options, _: &Limits) -> Result<Contents> {
        let file = input.main()?;
        let [letter, columns, count] = file.bytes(4, 3)?[..] else { return Err(Error::corrupt("no head")) };
        let rows = file.bytes(7, u64::from(count))?;
        let dtype = if letter == b'f' { DType::F32 } else { DType::F16 };
        let all: u64 = rows.iter().map(|rows| u64::from(*rows)).sum();
        let tensor = Tensor::new("w", dtype, Shape::new([all, u64::from(columns)])?);
        let encoding = Encoding::row_major(&tensor);
        let placement = Placement::new(TensorId(0), "w", slices(dtype, columns, &rows), encoding);
        let mut contents = Contents::default().with_files(vec![input.entry().to_owned()]);
        contents.placements.push(placement);
        contents.checkpoint.tensors.push(tensor);
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let tensor = &checkpoint.tensors[0];
        let (dtype, columns) = (tensor.dtype, tensor.shape[1] as u8);
        let bytes = head(dtype, columns, self.0);
        let files = vec![OutputFile::new(name, bytes.len() as u64 + tensor.value_bytes())];
        let encoding = Encoding::row_major(tensor);
        let placement = Placement::new(TensorId(0), "w", slices(dtype, columns, self.0), encoding);
        Ok(OutputLayout::default()
            .with_files(files)
            .with_literals(vec![Literal { file: FileId(0), offset: 0, bytes }])
            .with_placements(vec![placement]))
    }
}

#[test]
fn a_target_may_have_some_of_the_sources_slices_and_cut_the_rest_otherwise() {
    let work = tempfile::tempdir().unwrap();
    let (input, output) = (work.path().join("in.slc"), work.path().join("out.slc"));
    let numbers: Vec<u8> = (0..18u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    std::fs::write(&input, [head(DType::F32, 3, &[2, 4]), numbers.clone()].concat()).unwrap();
    let halves: Vec<u8> =
        (0..18u8).flat_map(|number| half::f16::from_f32(f32::from(number)).to_le_bytes()).collect();
    for rows in [&[2, 1, 3][..], &[2, 4], &[1, 1, 4], &[3, 3]] {
        let mut registry = Registry::empty();
        registry.add(Sliced(rows)).unwrap();
        for (dtype, values) in [(None, &numbers), (Some(DType::F16), &halves)] {
            let mut conversion = Conversion::new().overwrite(true).resources(Resources::new().item_size(1));
            conversion.dtype = dtype;
            let source = Source::open(&registry, &input, &OpenOptions::default()).unwrap();
            let planned = conversion.plan(&registry, &source, &output).unwrap();
            let text = planned.plan().to_json().unwrap();
            let plan = Plan::from_json(&text, &Limits::default())
                .unwrap_or_else(|error| panic!("{rows:?}, {dtype:?}: {error}"));
            let expected = [head(dtype.unwrap_or(DType::F32), 3, rows), values.clone()].concat();
            for planned in [planned, Planned::resume(&registry, plan).unwrap()] {
                planned.execute(&Execution::new().sync(false), &|_| ()).unwrap();
                assert_eq!(std::fs::read(&output).unwrap(), expected, "{rows:?}, {dtype:?}");
            }
        }
    }
}
