//! The zip archive that `torch.save` writes since PyTorch 1.6, and TorchScript archives.

use super::differences::Records;
use super::saved::{Record, Saved};
use super::script::Classes;
use super::section::section;
use super::storage::check_ids;
use ckpt_api::fields::le;
use ckpt_api::{Endian, Error, Fields, File, Limits, Result};
use ckpt_containers::pickle::{Feed, Names, Tree, parse};
use ckpt_containers::zip::{self, Entry, Member};
use nom::Parser;
use nom::sequence::terminated;
use std::collections::HashMap;

const PICKLE: &str = "data.pkl";
/// Versions of the archive that are known.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=10;
/// Bytes of the longest text in a small member.
const LONGEST: u64 = 64;

/// What the first bytes of a zip archive tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// PyTorch wrote it: the first member is the pickle of a checkpoint, or the directory lists one.
    Checkpoint,
    /// Another archive.
    Other,
    /// Its directory cannot be read.
    Damaged,
}

/// Recognizes a checkpoint, even one that is damaged.
pub(crate) fn sign(file: &File, limits: &Limits) -> Result<Sign> {
    match first_name(file) {
        Ok(name) if is_pickle(&name) => return Ok(Sign::Checkpoint),
        Err(error) if error.kind() == ckpt_api::Kind::Io => return Err(error),
        _ => {}
    }
    match archive(file, limits) {
        Ok(Located { entries, .. }) if entries.iter().any(|entry| is_pickle(&entry.name)) => {
            Ok(Sign::Checkpoint)
        }
        Ok(_) => Ok(Sign::Other),
        Err(error) if error.kind() == ckpt_api::Kind::Io => Err(error),
        Err(_) => Ok(Sign::Damaged),
    }
}

fn is_pickle(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, name)| name == PICKLE)
}

fn first_name(file: &File) -> Result<String> {
    let mut fields = Fields::new(file);
    fields.skip(26)?;
    let extra_len = le::<u16>;
    let name_len = fields.parse(|input| terminated(le::<u16>, extra_len).parse(input))?;
    let name = fields.bytes(name_len.into())?;
    String::from_utf8(name).map_err(|_| Error::corrupt("the name is not UTF-8"))
}

/// An archive whose directory was read.
struct Located {
    /// The archive without what follows it.
    file: File,
    entries: Vec<Entry>,
    /// Offset of the directory.
    directory: u64,
}

/// Reads the directory of an archive. Bytes may follow its end: PyTorch ignores them.
fn archive(file: &File, limits: &Limits) -> Result<Located> {
    let error = match zip::entries(file, limits) {
        Ok((entries, directory)) => return Ok(Located { file: file.clone(), entries, directory }),
        Err(error) if error.kind() == ckpt_api::Kind::Io => return Err(error),
        Err(error) => error,
    };
    let Some(len) = zip::len_before_others(file)? else { return Err(error) };
    let archive = section(file, 0, len)?;
    match zip::entries(&archive, limits) {
        Ok((entries, directory)) => Ok(Located { file: archive, entries, directory }),
        Err(failed) if failed.kind() == ckpt_api::Kind::Io => Err(failed),
        Err(_) => Err(error),
    }
}

/// See [`super::open`].
pub(crate) fn open(file: &File, limits: &Limits) -> Result<Saved> {
    let Located { file: archive, entries, directory } = archive(file, limits)?;
    let followed_by = file.len().saturating_sub(archive.len());
    let file = &archive;
    let members = zip::members(file, &entries, directory)?;
    let archive = Archive::new(file, &entries, &members)?;
    archive.check_version()?;
    let endian = archive.endian()?;
    let (entry, pickle) = archive.required(PICKLE)?;
    let on_pickle = |error: Error| error.field(PICKLE);
    pickle.check_header(file, limits).map_err(on_pickle)?;
    let (source, start) = pickle.open(file)?;
    let end = start.saturating_add(pickle.len);
    // A few bytes can decompress to any number: their limit comes before the checksum, which reads them all.
    let feed = Feed::whole(&source, start, end, limits).map_err(on_pickle)?;
    if entry.crc != 0 {
        pickle.check_crc(file, entry.crc).map_err(on_pickle)?;
    }
    let tree = parse(feed).map_err(on_pickle)?;
    if tree.end() != end {
        return Err(Error::corrupt("bytes follow the pickle").field(PICKLE).offset(tree.end()));
    }
    check_ids(&tree).map_err(on_pickle)?;
    let constants = archive.find("constants.pkl");
    let is_script = constants.is_some();
    let (classes, constants) = match constants {
        None => (Classes::default(), None),
        Some(constants) => {
            let code = archive.code();
            let classes = Classes::read(&tree, file, |name| code.get(name).copied(), limits)?;
            (classes, Some(archive.pickle(constants, limits)?))
        }
    };
    Ok(Saved {
        names: Names::of(&tree),
        tree,
        pickle_start: pickle.compression.is_none().then_some(start),
        records: archive.records(),
        endian,
        is_script,
        classes,
        constants,
        folder: Some(archive.folder.to_owned()),
        differences: differences(&archive, &entries, &members, directory, is_script),
        followed_by,
    })
}

fn differences(
    archive: &Archive<'_>,
    entries: &[Entry],
    members: &[Member],
    directory: u64,
    is_script: bool,
) -> Vec<String> {
    if is_script {
        return vec!["it is a TorchScript archive, and is written as a state dict".to_owned()];
    }
    let mut records = Records {
        all: Vec::with_capacity(entries.len()),
        prefix: archive.folder.len() as u64 + 1,
        outside: Vec::new(),
        directory,
        len: archive.file.len(),
    };
    for (entry, member) in entries.iter().zip(members) {
        let name = entry.name.strip_prefix(archive.folder).and_then(|name| name.strip_prefix('/'));
        match name {
            Some(name) => records.all.push((name, entry, member)),
            None => records.outside.push(&entry.name),
        }
    }
    records.differences()
}

/// The members of an archive below its one folder.
struct Archive<'a> {
    file: &'a File,
    folder: &'a str,
    /// Each with its name in the folder. No two have the same.
    members: Vec<(&'a str, &'a Entry, &'a Member)>,
}

impl<'a> Archive<'a> {
    fn new(file: &'a File, entries: &'a [Entry], members: &'a [Member]) -> Result<Self> {
        let first = entries.first().ok_or_else(|| Error::corrupt("the archive is empty"))?;
        let (folder, _) = first.name.split_once('/').ok_or_else(|| {
            Error::corrupt("the archive is not a PyTorch checkpoint")
                .field(&first.name)
                .expected("members in one folder, such as 'archive/data.pkl'")
        })?;
        let own = |(entry, member): (&'a Entry, &'a Member)| {
            let name = entry.name.strip_prefix(folder)?.strip_prefix('/')?;
            Some((name, entry, member))
        };
        let mut found = Vec::with_capacity(entries.len());
        found.extend(entries.iter().zip(members).filter_map(own));
        Ok(Archive { file, folder, members: found })
    }

    /// Takes time linear in the number of members: for the few whose names are known.
    fn find(&self, name: &str) -> Option<(&'a Entry, &'a Member)> {
        let (_, entry, member) = self.members.iter().find(|(own, ..)| *own == name)?;
        Some((entry, member))
    }

    /// The members that have code, by name.
    fn code(&self) -> HashMap<&'a str, (&'a Entry, &'a Member)> {
        let is_code = |(name, ..): &&(&str, &Entry, &Member)| name.starts_with("code/");
        self.members.iter().filter(is_code).map(|(name, entry, member)| (*name, (*entry, *member))).collect()
    }

    fn required(&self, name: &str) -> Result<(&'a Entry, &'a Member)> {
        self.find(name).ok_or_else(|| {
            Error::corrupt("the archive lacks a member of a PyTorch checkpoint")
                .expected(format!("'{name}' in its folder"))
                .help("the file is damaged, or is another kind of archive")
        })
    }

    /// A pickle that is a member of its own.
    fn pickle(&self, (entry, member): (&Entry, &Member), limits: &Limits) -> Result<Tree> {
        member.check_header(self.file, limits).map_err(|error| error.field(&entry.name))?;
        if entry.crc != 0 {
            member.check_crc(self.file, entry.crc).map_err(|error| error.field(&entry.name))?;
        }
        let (source, start) = member.open(self.file)?;
        let end = start.saturating_add(member.len);
        parse(Feed::new(&source, start, end, limits)).map_err(|error| error.field(&entry.name))
    }

    /// A short text that is a member of its own.
    fn text(&self, (entry, member): (&Entry, &Member)) -> Result<String> {
        let wrong = || Error::corrupt("a member of the archive is not a short text").field(&entry.name);
        if member.len > LONGEST {
            return Err(wrong().found(ckpt_api::count(member.len, "byte")));
        }
        if entry.crc != 0 {
            member.check_crc(self.file, entry.crc).map_err(|error| error.field(&entry.name))?;
        }
        let (file, start) = member.open(self.file)?;
        String::from_utf8(file.bytes(start, member.len)?).map_err(|_| wrong())
    }

    fn check_version(&self) -> Result<()> {
        let member = match self.find("version") {
            Some(member) => member,
            None => self.find(".data/version").map_or_else(|| self.required("version"), Ok)?,
        };
        let text = self.text(member)?;
        let version = text.trim_end().parse::<u64>().ok();
        match version.filter(|version| VERSIONS.contains(version)) {
            Some(_) => Ok(()),
            None => Err(Error::unsupported("the version of the archive is unknown")
                .field("version")
                .found(format!("'{}'", text.escape_debug()))
                .expected(format!("{} to {}", VERSIONS.start(), VERSIONS.end()))),
        }
    }

    fn endian(&self) -> Result<Endian> {
        let Some(member) = self.find("byteorder") else { return Ok(Endian::Little) };
        let text = self.text(member)?;
        match text.as_str() {
            "little" => Ok(Endian::Little),
            "big" => Ok(Endian::Big),
            _ => Err(Error::corrupt("the byte order is unknown")
                .field("byteorder")
                .found(format!("'{}'", text.escape_debug()))
                .expected("'little' or 'big'")),
        }
    }

    fn records(&self) -> HashMap<String, Record> {
        // PyTorch 1.4 wrote another folder. Nothing reads it in an archive that has the usual one.
        let is_usual = self.members.iter().any(|(name, ..)| name.starts_with("data/"));
        let folder = if is_usual { "data/" } else { "tensors/" };
        let record = |(name, entry, member): &(&str, &Entry, &Member)| {
            let key = name.strip_prefix(folder)?;
            let record = Record {
                start: member.start,
                len: member.len,
                compression: member.compression.clone(),
                crc: Some(entry.crc).filter(|crc| *crc != 0),
            };
            Some((key.to_owned(), record))
        };
        let mut records = HashMap::with_capacity(self.members.len());
        records.extend(self.members.iter().filter_map(record));
        records
    }
}
