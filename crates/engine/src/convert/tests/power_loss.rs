//! What the power that fails may leave of an output: what was not waited for may be on the disk, or not. Then the names
//! have what they had or what they should, and the next conversion makes the output whole.

use super::super::*;
use super::{Found, Place, resuming, to};
use crate::store::{Disk, LocalStore, Os};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::SystemTime;
use tempfile::{PathPersistError, TempPath};

/// Number of a file on its file system.
type Inode = u64;

/// Bytes of a file, and when they were written.
type Content = (Vec<u8>, SystemTime);

/// What there was before a call.
#[derive(Clone, Debug, Default)]
struct Moment {
    names: BTreeMap<String, Inode>,
    contents: BTreeMap<Inode, Content>,
    /// What is on the disk of each file, whatever happens.
    durable: BTreeMap<Inode, Vec<u8>>,
    /// The moment whose names are on the disk, whatever happens.
    names_of: usize,
}

/// Looks at the output's directory before each call.
#[derive(Debug)]
struct Witness {
    out: PathBuf,
    /// Holds every file under its number, so that none is lost.
    kept: PathBuf,
    moments: Mutex<Vec<Moment>>,
}

impl Witness {
    fn new(place: &Place) -> Arc<Self> {
        let (out, kept) = (place.out(), place.out().with_file_name("kept"));
        drop(fs::remove_dir_all(&kept));
        fs::create_dir(&kept).unwrap();
        let witness = Witness { out, kept, moments: Mutex::default() };
        // What was there is on the disk.
        let mut before = witness.look(Moment::default());
        before.durable = before.contents.iter().map(|(inode, (bytes, _))| (*inode, bytes.clone())).collect();
        witness.moments.lock().unwrap().push(before);
        Arc::new(witness)
    }

    /// The present after `last`.
    fn look(&self, last: Moment) -> Moment {
        let (mut names, mut contents) = (BTreeMap::new(), BTreeMap::new());
        for entry in fs::read_dir(&self.out).unwrap().map(|entry| entry.unwrap()) {
            let meta = entry.metadata().unwrap();
            names.insert(entry.file_name().into_string().unwrap(), meta.ino());
            contents.insert(meta.ino(), (fs::read(entry.path()).unwrap(), meta.modified().unwrap()));
            let kept = self.kept.join(meta.ino().to_string());
            if !kept.exists() {
                fs::hard_link(entry.path(), kept).unwrap();
            }
        }
        Moment { names, contents, ..last }
    }

    fn call(&self) {
        let mut moments = self.moments.lock().unwrap();
        let now = self.look(moments.last().unwrap().clone());
        moments.push(now);
    }

    /// Puts a moment's names there, with such contents.
    fn put(&self, names: &BTreeMap<String, Inode>, contents: &BTreeMap<Inode, Content>) {
        fs::remove_dir_all(&self.out).unwrap();
        fs::create_dir(&self.out).unwrap();
        for (name, inode) in names {
            let kept = self.kept.join(inode.to_string());
            let (bytes, modified) = &contents[inode];
            fs::write(&kept, bytes).unwrap();
            OpenOptions::new().write(true).open(&kept).unwrap().set_modified(*modified).unwrap();
            fs::hard_link(kept, self.out.join(name)).unwrap();
        }
    }
}

impl Disk for Witness {
    fn open(&self, path: &Path, options: &OpenOptions) -> io::Result<File> {
        self.call();
        Os.open(path, options)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.call();
        Os.set_len(file, len)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.call();
        Os.write_at(file, offset, bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.call();
        let mut moments = self.moments.lock().unwrap();
        let number = moments.len() - 1;
        let now = moments.last_mut().unwrap();
        if file.metadata()?.is_dir() {
            now.names_of = number;
        } else {
            let inode = file.metadata()?.ino();
            now.durable.insert(inode, now.contents[&inode].0.clone());
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        Os.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        Os.hard_link(from, to)
    }

    fn persist(
        &self,
        file: TempPath,
        to: &Path,
        overwrite: bool,
    ) -> std::result::Result<(), PathPersistError> {
        self.call();
        Os.persist(file, to, overwrite)
    }
}

/// How much is on the disk of what was written, and not waited for.
#[derive(Clone, Copy, Debug)]
enum Written {
    All,
    Nothing,
    /// The length, and zeros.
    Length,
    /// Some blocks, and zeros.
    Some(u64),
}

const BLOCK: usize = 512;

impl Written {
    fn of(self, moment: &Moment) -> BTreeMap<Inode, Content> {
        let known = |inode: &Inode| moment.durable.get(inode).cloned().unwrap_or_default();
        let left = moment.contents.iter().map(|(inode, (now, modified))| {
            let durable = known(inode);
            let bytes = match self {
                Written::All => now.clone(),
                _ if durable == *now => durable,
                Written::Nothing => durable,
                Written::Length => blocks(now, &durable, || false),
                Written::Some(seed) => {
                    let mut state = seed << 32 ^ inode | 1;
                    blocks(now, &durable, || {
                        // Knuth's generator; the upper bits are the random ones.
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        state >> 63 == 1
                    })
                }
            };
            (*inode, (bytes, *modified))
        });
        left.collect()
    }
}

/// `now` where a block `is_written`, else what was there before.
fn blocks(now: &[u8], before: &[u8], mut is_written: impl FnMut() -> bool) -> Vec<u8> {
    let mut bytes = before.to_vec();
    bytes.resize(now.len(), 0);
    for (block, now) in bytes.chunks_mut(BLOCK).zip(now.chunks(BLOCK)) {
        if is_written() {
            block.copy_from_slice(now);
        }
    }
    bytes
}

fn execute(place: &Place, conversion: &Conversion, disk: Arc<dyn Disk>) -> Result<Summary> {
    let output = Destination::within(Arc::new(LocalStore::on(disk, place.out())), "o");
    let planned = conversion.plan(&Registry::for_tests(), &place.source(), output).unwrap();
    planned.execute(&Execution::default(), &|_| ())
}

/// Nothing waits for the disk here: what is on it is of no interest any more.
fn again(place: &Place, conversion: &Conversion) -> Result<Summary> {
    let planned = conversion.plan(&Registry::for_tests(), &place.source(), place.out().join("o")).unwrap();
    planned.execute(&Execution { sync: false, ..Execution::default() }, &|_| ())
}

/// What has a final name: all that is old, all that is new, or parts to which no index leads.
fn is_old_or_new(found: &Found, old: &Found, complete: &Found) -> bool {
    let of = |all: &Found| found.iter().filter(|file| all.contains(file)).count();
    let is_last = |name: &str| name == "receipt" || complete.len() == 1;
    let last = complete.iter().find(|(name, _)| is_last(name));
    let last = last.or_else(|| complete.iter().find(|(name, _)| name.ends_with(".index")));
    let Some((last, _)) = last else { return false };
    let leads = found.iter().any(|(name, _)| name == last);
    !leads || of(complete) == complete.len() || of(old) == old.len()
}

/// What the power may leave that fails.
struct Left<'a> {
    /// Which that is, for messages.
    told: String,
    names: &'a BTreeMap<String, Inode>,
    contents: BTreeMap<Inode, Content>,
}

/// What may be left at this moment: which names, and how much of what was not waited for. Of all pairs a few: the
/// neighbors have the others.
fn left(moments: &[Moment], number: usize) -> Vec<Left<'_>> {
    let moment = &moments[number];
    let written = [Written::Nothing, Written::Length, Written::Some(number as u64), Written::All][number % 4];
    let names_of = [moment.names_of, usize::midpoint(moment.names_of, number), number];
    let left = names_of.into_iter().map(|at| {
        // What has no name any more lay as it was.
        let mut contents = moments[at].contents.clone();
        contents.extend(written.of(moment));
        let names = &moments[at].names;
        Left { told: format!("at {number}, names of {at}, {written:?}: {:?}", names.keys()), names, contents }
    });
    left.collect()
}

#[test]
fn whenever_the_power_fails_the_names_have_the_old_or_the_new_and_the_next_conversion_makes_it_whole() {
    let place = Place::new();
    let mut tried = 0;
    let receipt = Some(place.out().join("receipt"));
    let with_receipt = Conversion { receipt: receipt.clone(), ..to("npz", &[]) };
    let sharded = Conversion { receipt, ..to("tf2", &[("shard_size", "16k")]) };
    let plain = [to("safetensors", &[]), to("tf2", &[("shard_size", "4k")]), to("npz", &[])];
    for mut conversion in plain.into_iter().chain([with_receipt, sharded]) {
        conversion.overwrite = true;
        conversion.exclude.push("adam/*".into());
        let resuming = resuming(&conversion);
        place.put(&Vec::new());
        execute(&place, &conversion, Arc::new(Os)).unwrap();
        let complete = place.found();
        let old: Found = complete.iter().map(|(name, _)| (name.clone(), b"old".to_vec())).collect();
        for before in [&Found::new(), &old] {
            place.put(before);
            let witness = Witness::new(&place);
            execute(&place, &conversion, witness.clone()).unwrap();
            witness.call();
            let moments = std::mem::take(&mut *witness.moments.lock().unwrap());
            for Left { told, names, contents } in (0..moments.len()).flat_map(|number| left(&moments, number))
            {
                let told = format!("{:?} {told}", conversion.to);
                witness.put(names, &contents);
                let found = place.found().into_iter().filter(|(name, _)| !name.starts_with('.')).collect();
                assert!(is_old_or_new(&found, before, &complete), "{told}");
                let result = again(&place, if tried % 2 == 0 { &conversion } else { &resuming });
                assert!(result.is_ok(), "{told}: {result:?}");
                assert!(place.found() == complete, "{told}");
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn killed_at_any_call_a_conversion_with_a_receipt_goes_on_to_what_it_would_have_given() {
    let (place, mut tried) = (Place::new(), 0);
    let receipt = Some(place.out().join("receipt"));
    for format in ["npz", "tf2"] {
        let mut conversion = Conversion { receipt: receipt.clone(), ..to(format, &[]) };
        conversion.exclude.push("adam/*".into());
        place.put(&Vec::new());
        let witness = Witness::new(&place);
        execute(&place, &conversion, witness.clone()).unwrap();
        let complete = place.found();
        witness.call();
        let moments = std::mem::take(&mut *witness.moments.lock().unwrap());
        for (number, moment) in moments.iter().enumerate() {
            // What was written is there: it is not the power that fails.
            witness.put(&moment.names, &Written::All.of(moment));
            let result = again(&place, &resuming(&conversion));
            let told = format!("{format} at {number}, {:?}: {result:?}", moment.names.keys());
            let done = moment.names.len() == complete.len()
                && moment.names.keys().all(|name| !name.starts_with('.'));
            assert!(result.is_ok() || done, "{told}");
            assert!(place.found() == complete, "{told}");
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried}");
}
