//! What processes that write one output tell each other, and the one that commits it: which parts they sent, and where the
//! bytes are of parts that no process wrote alone.

use super::runtime;
use super::sender::{SMALLEST_PART, part_size};
use super::spool::{Spool, Writing};
use super::staging::{Staging, VERSION, unique};
use bytes::Bytes;
use ckpt_api::{Error, FileId, ReadStore, Result};
use ckpt_engine::ranges::{add, missing};
use ckpt_engine::store::WriteAt;
use object_store::{ObjectStoreExt, PutMode, PutPayload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of an object of bytes, at most.
const PACK: u64 = SMALLEST_PART;
/// Objects that are opened at once.
const OPENED: usize = 32;
const PREFIX: &str = "wrote-";
const SUFFIX: &str = ".json";

/// What a process had written at one time, and had not told before.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    token: u64,
    /// Milliseconds since 1970.
    made: u64,
    /// Parts that were sent: file, number, name in the store.
    parts: Vec<(usize, u64, String)>,
    /// For each object of bytes, the ranges that follow each other in it.
    packs: Vec<Vec<FileBytes>>,
}

/// Bytes of a file: file, first byte, length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FileBytes(usize, u64, u64);

impl FileBytes {
    fn range(self) -> Range<u64> {
        self.1..self.1.saturating_add(self.2)
    }
}

fn pack_name(id: &str, number: usize) -> String {
    format!("bytes-{id}-{number}")
}

impl Staging {
    /// Puts into the store what was written and is not there, and tells others: from then on, nothing of it is lost with this
    /// process.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`]; [`ckpt_api::Kind::Usage`] if the output was committed or discarded.
    pub(super) fn settle(&self, spools: &[Arc<Spool>]) -> Result<()> {
        let _alone = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        spools.iter().try_for_each(|spool| spool.wait_for_parts())?;
        let mut packing = Packing { staging: self, id: unique(), packs: Vec::new(), now: Pack::default() };
        for (file, spool) in spools.iter().enumerate() {
            spool.unsettled().into_iter().try_for_each(|range| packing.add(file, spool, range))?;
        }
        packing.send()?;
        let Packing { id, packs, .. } = packing;
        // After the bytes: a part that became whole meanwhile is here, if its bytes are gone.
        let parts = spools.iter().enumerate().flat_map(|(file, spool)| {
            let parts = spool.unsettled_parts();
            parts.into_iter().map(move |(number, name)| (file, number, name))
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let made = u64::try_from(now.as_millis()).unwrap_or_default();
        let manifest =
            Manifest { version: VERSION, token: self.token(), made, parts: parts.collect(), packs };
        if manifest.parts.is_empty() && manifest.packs.is_empty() {
            return Ok(());
        }
        let name = format!("{PREFIX}{id}{SUFFIX}");
        self.put(&name, &manifest, PutMode::Overwrite)?
            .map_err(|problem| self.store.failed(&problem, "cannot write the output", &self.within(&name)))?;
        if let Err(error) = self.check() {
            let packs = (0..manifest.packs.len()).map(|number| pack_name(&id, number));
            let left = self.remove(packs.chain([name]).collect());
            return Err(ckpt_engine::store::leaving(error, &left));
        }
        for FileBytes(file, start, len) in manifest.packs.iter().flatten() {
            spools.get(*file).into_iter().for_each(|spool| spool.settle(*start..start.saturating_add(*len)));
        }
        for (file, number, _) in &manifest.parts {
            spools.get(*file).into_iter().for_each(|spool| spool.settle_part(*number));
        }
        Ok(())
    }
}

/// Bytes on their way into objects.
struct Packing<'a> {
    staging: &'a Staging,
    id: String,
    packs: Vec<Vec<FileBytes>>,
    now: Pack,
}

#[derive(Default)]
struct Pack {
    ranges: Vec<FileBytes>,
    bytes: Vec<u8>,
}

impl Packing<'_> {
    fn add(&mut self, file: usize, spool: &Spool, range: Range<u64>) -> Result<()> {
        let mut start = range.start;
        while start < range.end {
            let room = PACK.saturating_sub(self.now.bytes.len() as u64);
            if room == 0 {
                self.send()?;
                continue;
            }
            let end = range.end.min(start.saturating_add(room));
            // What is gone from here was sent with its part.
            let Some(bytes) = spool.read_if_kept(start..end)? else { return Ok(()) };
            self.now.ranges.push(FileBytes(file, start, end - start));
            self.now.bytes.extend_from_slice(&bytes);
            start = end;
        }
        Ok(())
    }

    /// Puts the object.
    fn send(&mut self) -> Result<()> {
        let Pack { ranges, bytes } = std::mem::take(&mut self.now);
        if ranges.is_empty() {
            return Ok(());
        }
        let Staging { store, writer, .. } = self.staging;
        let name = self.staging.within(&pack_name(&self.id, self.packs.len()));
        let (writer, key) = (writer.clone(), store.key_of(&name)?);
        let _taken = store.0.sending.take(bytes.len() as u64);
        let put = async move { writer.put(&key, PutPayload::from(Bytes::from(bytes))).await };
        runtime::wait(put)?.map_err(|error| store.failed(&error.into(), "cannot write the output", &name))?;
        self.packs.push(ranges);
        Ok(())
    }
}

/// What all processes told of an output.
#[derive(Debug)]
pub(super) struct Told {
    /// For each file, the names in the store of parts that were sent.
    parts: Vec<BTreeMap<u64, String>>,
    /// Objects of bytes, and the ranges that follow each other in them.
    packs: Vec<(String, Vec<FileBytes>)>,
    /// For each file, what is in the store.
    covered: Vec<Vec<Range<u64>>>,
    is_fetched: Mutex<bool>,
}

impl Told {
    /// Reads all of it.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`]; [`ckpt_api::Kind::Corrupt`] for what does not fit the output.
    pub(super) fn read(staging: &Staging, files: usize) -> Result<Self> {
        let mut told = Told {
            parts: vec![BTreeMap::new(); files],
            packs: Vec::new(),
            covered: vec![Vec::new(); files],
            is_fetched: Mutex::new(false),
        };
        let mut names = staging.list()?;
        names.retain(|name| id_of(name).is_some());
        let mut manifests = Vec::new();
        for names in names.chunks(OPENED) {
            staging.store.forget();
            staging.store.will_open(&names.iter().map(|name| staging.within(name)).collect::<Vec<_>>());
            for name in names {
                manifests.push((name, read(staging, name)?));
            }
        }
        manifests.retain(|(_, manifest)| manifest.token == staging.token());
        // A part that was sent twice has the name that it got last.
        manifests.sort_by_key(|(_, manifest)| manifest.made);
        for (name, manifest) in manifests {
            told.add(staging, name, manifest)?;
        }
        Ok(told)
    }

    fn add(&mut self, staging: &Staging, name: &str, manifest: Manifest) -> Result<()> {
        let misfit = |what: String| staging.malformed(name, &what);
        for (file, number, id) in manifest.parts {
            let len = staging.file(file).and_then(|(len, is_large)| len.filter(|_| is_large));
            let start = number.saturating_mul(part_size(len.unwrap_or(0)));
            let (Some(len), Some(parts), Some(covered)) =
                (len.filter(|len| start < *len), self.parts.get_mut(file), self.covered.get_mut(file))
            else {
                return Err(misfit(format!("part {number} of file {file}")));
            };
            parts.insert(number, id);
            add(covered, start..start.saturating_add(part_size(len)).min(len));
        }
        let id = id_of(name).unwrap_or_default();
        for (number, ranges) in manifest.packs.into_iter().enumerate() {
            let mut total = 0_u64;
            for &FileBytes(file, start, len) in &ranges {
                let size = staging.file(file).and_then(|(len, _)| len).unwrap_or(0);
                total = total.saturating_add(len);
                let fits = start.checked_add(len).is_some_and(|end| end <= size) && total <= PACK && len > 0;
                match self.covered.get_mut(file).filter(|_| fits) {
                    Some(covered) => add(covered, start..start.saturating_add(len)),
                    None => return Err(misfit(format!("{len} bytes at {start} of file {file}"))),
                }
            }
            self.packs.push((pack_name(id, number), ranges));
        }
        Ok(())
    }

    /// Whether all bytes of a range are in the store.
    pub(super) fn holds(&self, file: FileId, range: Range<u64>) -> bool {
        self.covered.get(file.0).is_some_and(|covered| missing(covered, range).is_empty())
    }

    /// Tells the files which parts were sent.
    pub(super) fn adopt(&self, spools: &[Arc<Spool>]) {
        for (parts, spool) in self.parts.iter().zip(spools) {
            parts.iter().for_each(|(number, id)| spool.adopt(*number, id.clone()));
        }
    }

    /// Writes what is in objects of bytes to the files, once. Parts that are whole then are sent.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Io`]; [`ckpt_api::Kind::Corrupt`] for an object whose size is not the noted one.
    pub(super) fn fetch(&self, staging: &Staging, spools: &[Arc<Spool>]) -> Result<()> {
        let mut is_fetched = self.is_fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_fetched {
            return Ok(());
        }
        let mut here: Vec<Vec<Range<u64>>> = Vec::with_capacity(spools.len());
        for (parts, spool) in self.parts.iter().zip(spools) {
            let mut ranges = Vec::new();
            parts.keys().for_each(|number| add(&mut ranges, spool.range_of(*number)));
            if spool.is_closed() {
                add(&mut ranges, 0..u64::MAX);
            }
            here.push(ranges);
        }
        let mut wanted = self.packs.iter().map(|(name, ranges)| (name, wanted(ranges, &mut here)));
        loop {
            let some: Vec<_> =
                wanted.by_ref().filter(|(_, wanted)| !wanted.is_empty()).take(OPENED).collect();
            if some.is_empty() {
                break;
            }
            fetch(staging, spools, &self.sizes(), &some)?;
        }
        *is_fetched = true;
        Ok(())
    }

    fn sizes(&self) -> BTreeMap<&str, u64> {
        let size = |ranges: &[FileBytes]| ranges.iter().map(|range| range.2).sum();
        self.packs.iter().map(|(name, ranges)| (name.as_str(), size(ranges))).collect()
    }
}

/// Bytes of an object that are needed: where they are in it, and what they are.
type Wanted = (u64, FileBytes);

/// What of an object's ranges is not here yet, and is then.
fn wanted(ranges: &[FileBytes], here: &mut [Vec<Range<u64>>]) -> Vec<Wanted> {
    let (mut at, mut wanted) = (0_u64, Vec::new());
    for range in ranges {
        let FileBytes(file, start, len) = *range;
        if let Some(here) = here.get_mut(file) {
            let left = missing(here, range.range()).into_iter();
            let place = |left: &Range<u64>| at.saturating_add(left.start.saturating_sub(start));
            wanted
                .extend(left.map(|left| (place(&left), FileBytes(file, left.start, left.end - left.start))));
            add(here, range.range());
        }
        at = at.saturating_add(len);
    }
    wanted
}

/// Reads objects of bytes, several at a time, and writes what is needed of them to the files.
fn fetch(
    staging: &Staging,
    spools: &[Arc<Spool>],
    sizes: &BTreeMap<&str, u64>,
    packs: &[(&String, Vec<Wanted>)],
) -> Result<()> {
    let input = ckpt_api::Input::within_store(Arc::new(staging.store.clone()), "");
    let names: Vec<String> = packs.iter().map(|(name, _)| staging.within(name)).collect();
    staging.store.forget();
    input.will_open(&names);
    let mut opened = Vec::with_capacity(packs.len());
    for ((name, wanted), within) in packs.iter().zip(&names) {
        let file = input.file(within)?;
        let expected = sizes.get(name.as_str()).copied().unwrap_or(0);
        if file.len() != expected {
            return Err(staging
                .malformed(name, &ckpt_engine::words::count(file.len(), "byte"))
                .expected(expected.to_string()));
        }
        let range = |(at, bytes): &Wanted| *at..at.saturating_add(bytes.2);
        file.will_read(&wanted.iter().map(range).collect::<Vec<_>>());
        opened.push((file, wanted));
    }
    for (file, wanted) in opened {
        for (at, FileBytes(number, start, len)) in wanted {
            let spool = spools.get(*number).ok_or_else(|| Error::defect("the output has no such file"))?;
            Writing(spool.clone()).write_at(*start, &file.bytes(*at, *len)?)?;
        }
    }
    Ok(())
}

/// The part of a manifest's name that its objects of bytes have, too.
fn id_of(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

fn read(staging: &Staging, name: &str) -> Result<Manifest> {
    /// Bytes of the largest manifest.
    const LARGEST: u64 = 64 << 20;
    let within = staging.within(name);
    let file = ckpt_api::File::new(staging.store.open(&within)?, &staging.store.display(&within))?;
    if file.len() > LARGEST {
        return Err(staging.malformed(name, &ckpt_engine::words::count(file.len(), "byte")));
    }
    let manifest: Manifest = staging.parse(name, &file.bytes(0, file.len())?)?;
    match manifest.version {
        VERSION => Ok(manifest),
        version => Err(staging.malformed(name, &format!("version {version}"))),
    }
}
