//! The conformance kit notices every way in which a codec can break the contract: one small codec, many faults.

use ckpt_api::{
    Aspect, Checkpoint, Checksum, ChecksumAlgorithm, Codec, Contents, DType, Encoding, Error, Extent, FileId,
    FinishState, FormatInfo, Input, Limit, Limits, Literal, Loss, LossKind, Match, Network, OptionKind,
    OptionSpec, Options, OutputFile, OutputLayout, Placement, Result, Shape, Side, Tensor, TensorId, Written,
};
use ckpt_conformance::{Sample, check};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

/// What is wrong with the codec.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    OptionTwice,
    DottedExtension,
    ProbesEverything,
    ProbesByName,
    NeverSure,
    ReadsForeign,
    AcceptsTruncation,
    NeedsNoData,
    AnonymousError,
    PanicsOnText,
    PanicsOnLimits,
    IgnoresLimits,
    TakesAnothersNamespace,
    PanicsOnPlacing,
    ReadsUnstably,
    ShiftsValues,
    SwapsTensors,
    Renames,
    LosesSilently,
    LosesAloud,
    CriesWolf,
    WritesUnstably,
    ForgetsToFinish,
    FinishesWithTheWrongSum,
    Overlaps,
    LeavesTheDirectory,
    KeepsLessThanItDeclares,
}

/// `MINI` · tensor count u8 · per tensor: name length u8, name, bytes u8 · all values · masked CRC-32C of each, u32.
struct Mini(Fault, AtomicU8);

const MAGIC: &[u8; 4] = b"MINI";

const OPTION: OptionSpec = OptionSpec::new("color", OptionKind::Text, Side::Both, "has no effect");

const INFO: FormatInfo = FormatInfo::new("mini", "Mini format")
    .with_extensions(&["mini"])
    .with_reads(Network::ALL)
    .with_writes(Network::ALL)
    .with_dtypes(&[DType::U8])
    .with_free_names()
    .with_options(&[OPTION]);
static SOUND: FormatInfo = INFO;
static TWICE: FormatInfo = INFO.with_options(&[OPTION, OPTION]);
static DOTTED: FormatInfo = INFO.with_extensions(&[".mini"]);
static BOASTFUL: FormatInfo = INFO.with_keeps(Aspect::ALL);

impl Mini {
    fn is(&self, fault: Fault) -> bool {
        self.0 == fault
    }

    /// Another number at every call.
    fn tick(&self) -> u8 {
        self.1.fetch_add(1, Ordering::Relaxed)
    }
}

impl Codec for Mini {
    fn info(&self) -> &FormatInfo {
        match self.0 {
            Fault::OptionTwice => &TWICE,
            Fault::DottedExtension => &DOTTED,
            Fault::KeepsLessThanItDeclares => &BOASTFUL,
            _ => &SOUND,
        }
    }

    fn probe(&self, input: &Input) -> Result<Match> {
        let named = self.is(Fault::ProbesByName) && input.entry().ends_with(".mini");
        let begins = input.is_file() && input.main()?.bytes(0, 4).is_ok_and(|magic| magic == MAGIC);
        Ok(match begins || named || self.is(Fault::ProbesEverything) {
            true if self.is(Fault::NeverSure) => Match::Possible("it begins with MINI".into()),
            true => Match::Certain("it begins with MINI".into()),
            false => Match::No,
        })
    }

    fn read(&self, input: &Input, _: &Options, limits: &Limits) -> Result<Contents> {
        if self.is(Fault::PanicsOnLimits) {
            limits.check(Limit::Tensors, 1).unwrap();
        }
        let file = match input.main() {
            Err(_) if self.is(Fault::NeedsNoData) => return Ok(Contents::default()),
            file => file?,
        };
        let anonymous = |error: Error| match self.is(Fault::AnonymousError) {
            true => Error::corrupt(error.message()),
            false => error,
        };
        if file.bytes(0, 4).map_err(anonymous)? != MAGIC {
            if self.is(Fault::ReadsForeign) {
                return Ok(Contents::default());
            }
            return Err(Error::corrupt("not a mini file").file(file.name()).offset(0));
        }
        if !self.is(Fault::IgnoresLimits) {
            limits.check(Limit::Tensors, u64::from(file.bytes(4, 1)?[0]))?;
        }
        let byte = |at| file.bytes(at, 1).map(|bytes| bytes[0]);
        let (mut at, mut tensors) = (5, Vec::new());
        for _ in 0..byte(4)? {
            if self.is(Fault::AcceptsTruncation) && byte(at).is_err() {
                break;
            }
            let len = u64::from(byte(at)?);
            let name = match String::from_utf8(file.bytes(at + 1, len)?) {
                Err(error) if self.is(Fault::PanicsOnText) => panic!("{error}"),
                name => name.map_err(|_| Error::corrupt("no UTF-8").file(file.name()).offset(at + 1))?,
            };
            tensors.push((name, u64::from(byte(at + 1 + len)?)));
            at += 2 + len;
        }
        if self.is(Fault::ReadsUnstably) && !self.tick().is_multiple_of(2) {
            tensors.iter_mut().for_each(|(name, _)| name.push('?'));
        }
        let data: u64 = tensors.iter().map(|(_, len)| len).sum();
        let mut sums = at + data;
        let shift = u64::from(self.is(Fault::ShiftsValues));
        let mut contents = Contents::default().with_files(vec![input.entry().to_owned()]);
        if self.is(Fault::TakesAnothersNamespace) {
            contents.checkpoint.metadata.insert("minimal", "comment", "none");
        }
        for (id, (name, len)) in tensors.into_iter().enumerate() {
            let stored = file.bytes(sums, 4)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            let tensor = Tensor::new(&name, DType::U8, Shape::new(vec![len])?);
            let checksum = (shift == 0).then_some(checksum(Some(stored)));
            contents.placements.push(placement(id, &tensor, at - shift, checksum));
            contents.checkpoint.tensors.push(tensor);
            (at, sums) = (at + len, sums + 4);
        }
        if sums != file.len() && !self.is(Fault::AcceptsTruncation) {
            return Err(Error::corrupt("bytes after the last checksum").file(file.name()).offset(sums));
        }
        Ok(contents)
    }

    fn place(&self, checkpoint: &Checkpoint, name: &str, _: &Options) -> Result<OutputLayout> {
        let mut placed = OutputLayout::default();
        let holds = |tensor: &&Tensor| tensor.dtype == DType::U8 && tensor.shape.rank() == 1;
        if let Some(tensor) = checkpoint.tensors.iter().find(|tensor| !holds(tensor)) {
            return Err(Error::unsupported("a mini file holds vectors of bytes alone").tensor(&tensor.name));
        }
        let mut tensors: Vec<(usize, &Tensor)> = checkpoint.tensors.iter().enumerate().collect();
        match self.0 {
            Fault::SwapsTensors => tensors.reverse(),
            Fault::LosesSilently | Fault::LosesAloud => drop(tensors.pop()),
            Fault::PanicsOnPlacing => assert!(tensors[0].1.name.starts_with('f')),
            _ => {}
        }
        if let (Fault::LosesAloud, Some(last)) = (self.0, checkpoint.tensors.last()) {
            placed.losses.push(Loss::new(LossKind::CounterDropped, &last.name, "why not"));
        }
        if let (Fault::CriesWolf, Some(last)) = (self.0, checkpoint.tensors.last()) {
            placed.losses.push(Loss::new(LossKind::WeightDropped, &last.name, "not true"));
        }
        let small = |len: u64| u8::try_from(len).map_err(|_| Error::unsupported("too much for a mini file"));
        let mut header = MAGIC.to_vec();
        header.push(small(tensors.len() as u64)?);
        for (k, (_, tensor)) in tensors.iter().enumerate() {
            // Swapped are the values only: the header keeps the order.
            let tensor = if self.is(Fault::SwapsTensors) { &checkpoint.tensors[k] } else { *tensor };
            let mut name = tensor.name.as_bytes().to_vec();
            match self.0 {
                Fault::Renames => name.push(b'!'),
                Fault::WritesUnstably => name.push(b'a' + self.tick() % 26),
                _ => {}
            }
            header.push(small(name.len() as u64)?);
            header.extend(name);
            header.push(small(tensor.value_bytes())?);
        }
        let mut at = header.len() as u64 - u64::from(self.is(Fault::Overlaps));
        for (id, tensor) in &tensors {
            placed.placements.push(placement(*id, tensor, at, Some(checksum(None))));
            at += tensor.value_bytes();
        }
        placed.literals.push(Literal { file: FileId(0), offset: 0, bytes: header });
        let parent = if self.is(Fault::LeavesTheDirectory) { "../" } else { "" };
        let len = at + 4 * tensors.len() as u64;
        placed.files.push(OutputFile::new(format!("{parent}{name}"), len));
        placed.finish = FinishState::new(at);
        Ok(placed)
    }

    fn finish(&self, placed: &OutputLayout, written: &[Written]) -> Result<Vec<Literal>> {
        let offset = *placed.finish.get::<u64>()?;
        let wrong = u32::from(self.is(Fault::FinishesWithTheWrongSum));
        let sums = written.iter().flat_map(|written| written.checksums.iter().flatten());
        let bytes = sums.flat_map(|sum| (sum ^ wrong).to_le_bytes()).collect();
        let block = Literal { file: FileId(0), offset, bytes };
        Ok(if self.is(Fault::ForgetsToFinish) { Vec::new() } else { vec![block] })
    }
}

fn checksum(value: Option<u32>) -> Checksum {
    Checksum { algorithm: ChecksumAlgorithm::MaskedCrc32c, seed: 0, value }
}

fn placement(id: usize, tensor: &Tensor, offset: u64, checksum: Option<Checksum>) -> Placement {
    let extent = Extent::new(FileId(0), offset, tensor.value_bytes()).with_checksum(checksum);
    let encoding = Encoding::row_major(tensor);
    Placement::new(TensorId(id), tensor.name.clone(), vec![extent], encoding)
}

fn sample() -> Sample {
    let tensors: [(&str, &[u8]); 3] = [("first", b"abc"), ("second", b"xyz"), ("none", b"")];
    let mut bytes = MAGIC.to_vec();
    bytes.push(3);
    for (name, values) in tensors {
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.extend(name.bytes());
        bytes.push(u8::try_from(values.len()).unwrap());
    }
    tensors.iter().for_each(|(_, values)| bytes.extend(*values));
    for (_, values) in tensors {
        let mut running = checksum(None).start();
        running.update(values);
        bytes.extend(running.finish().to_le_bytes());
    }
    let sample = Sample::new("three tensors", "m.mini", BTreeMap::from([("m.mini".to_owned(), bytes)]));
    let add = |sample: Sample, (name, values): (&str, &[u8])| {
        sample.tensor(name, DType::U8, &[values.len() as u64], values)
    };
    tensors.into_iter().fold(sample, add)
}

/// What the kit reports of a codec with this fault; `None` if it passes.
fn complaint(fault: Fault) -> Option<String> {
    crate::complaint(&Mini(fault, AtomicU8::new(0)), &sample())
}

#[test]
fn a_codec_that_keeps_the_contract_passes() {
    assert_eq!(complaint(Fault::None), None);
}

#[test]
fn every_fault_is_noticed_and_named() {
    let faults = [
        (Fault::OptionTwice, "declared twice"),
        (Fault::DottedExtension, "has a dot"),
        (Fault::ProbesEverything, "are taken for mini"),
        (Fault::ProbesByName, "in 'm.mini' are taken for mini"),
        (Fault::NeverSure, "instead of Certain"),
        (Fault::ReadsForeign, "are read as mini"),
        (Fault::AcceptsTruncation, "is accepted"),
        (Fault::NeedsNoData, "the checkpoint without m.mini is accepted"),
        (Fault::AnonymousError, "does not say which file"),
        (Fault::PanicsOnText, "utf-8"),
        (Fault::PanicsOnLimits, "exceeds the limit 'tensors'"),
        (Fault::IgnoresLimits, "limits of 0 is no error"),
        (Fault::TakesAnothersNamespace, "under 'minimal', which belongs to another format"),
        (Fault::PanicsOnPlacing, "starts_with('f')"),
        (Fault::ReadsUnstably, "reading twice"),
        (Fault::ShiftsValues, "is read as"),
        (Fault::SwapsTensors, "cannot be read"),
        (Fault::Renames, "the checkpoint changed on the way: tensor 'first': its name was"),
        (Fault::LosesSilently, "lost silently"),
        (Fault::LosesAloud, "the checkpoint changed on the way: tensor 'none' is missing"),
        (Fault::CriesWolf, "declares a loss"),
        (Fault::WritesUnstably, "writing twice"),
        (Fault::ForgetsToFinish, "cannot be read"),
        (Fault::FinishesWithTheWrongSum, "the checksum does not match"),
        (Fault::Overlaps, "overlap"),
        (Fault::LeavesTheDirectory, "outside the output's directory"),
        (Fault::KeepsLessThanItDeclares, "and no loss says so"),
    ];
    for (fault, expected) in faults {
        let complaint = complaint(fault).unwrap_or_else(|| panic!("{fault:?} is not noticed"));
        assert!(complaint.contains(expected), "{fault:?}: {complaint}");
    }
}

#[test]
#[should_panic(expected = "no samples")]
fn no_samples_is_a_failure() {
    check(&Mini(Fault::None, AtomicU8::new(0)), &[]);
}
