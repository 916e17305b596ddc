//! Reads the list of arrays, and locates their data.

use crate::format::{ENDING, ID, KEY_HEADER, KEY_VERSION, OPTION, UNTYPED};
use crate::header::{MAGIC, Stored, Version};
use ckpt_api::{
    Checksum, ChecksumAlgorithm, Contents, DType, Endian, Error, Extent, File, FileId, Input, Kind, Limit,
    Limits, Match, MetadataValue, Options, Placement, Result, Rules, Tensor, TensorId,
};
use ckpt_containers::zip::record::{END, LOCAL};
use ckpt_containers::zip::{self, Entry, Member};

/// Recognizes an array by its magic number, and an archive that has only arrays.
pub(crate) fn probe(input: &Input) -> Result<Match> {
    if input.head()? == Some(MAGIC) {
        return Ok(Match::Certain("begins with the magic number of a NumPy array".to_owned()));
    }
    if !input.head()?.is_some_and(|head| [LOCAL, END].contains(&head)) {
        return Ok(Match::No);
    }
    let file = input.main()?;
    // Other archives may have many thousand members, such as PyTorch's.
    if input.head()? == Some(LOCAL) {
        match zip::has_any_text(&file, input.limits(), &[ENDING]) {
            Ok(false) => return Ok(Match::No),
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Ok(true) | Err(_) => {}
        }
    }
    Ok(match zip::entries_of_any_name(&file, input.limits()) {
        Err(error) if error.kind() == Kind::Io => return Err(error),
        Err(_) => Match::Possible("begins as a zip archive does".to_owned()),
        Ok((entries, _)) => {
            let arrays = entries.iter().filter(|entry| entry.name.ends_with(ENDING)).count();
            let members = ckpt_api::count(entries.len(), "member");
            let are = if arrays == 1 { "is an array" } else { "are arrays" };
            let reason = match arrays == entries.len() {
                true => format!("a zip archive of {}", ckpt_api::count(arrays, "array")),
                false => format!("a zip archive of {members}, of which {arrays} {are}"),
            };
            match entries.len() {
                0 => Match::Possible("an empty zip archive".to_owned()),
                count if arrays == count => Match::Certain(reason),
                _ if arrays > 0 => Match::Possible(reason),
                _ => Match::No,
            }
        }
    })
}

/// Reads everything except the arrays' data.
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    input.read_alone("a NumPy archive or array", |file| {
        let rules = Rules::new(options);
        let named = |(name, _): &&(&str, DType)| Some(*name) == options.text(OPTION);
        let untyped = UNTYPED.iter().find(named).map(|(_, dtype)| *dtype);
        let mut reader = Reader { file, limits, rules, untyped, contents: Contents::default() };
        match input.head()? == Some(MAGIC) {
            true => reader.single(input.entry())?,
            false => reader.archive()?,
        }
        Ok(reader.contents.with_repairs(reader.rules.repairs))
    })
}

struct Reader<'a> {
    file: &'a File,
    limits: &'a Limits,
    rules: Rules,
    /// The dtype of elements for which NumPy has no name.
    untyped: Option<DType>,
    contents: Contents,
}

impl Reader<'_> {
    /// Adds the array of a `.npy` file; it has the name of the file.
    fn single(&mut self, entry: &str) -> Result<()> {
        let name = entry.strip_suffix(ENDING).unwrap_or(entry);
        let whole = Member { start: 0, len: self.file.len(), compression: None };
        self.add(name, &whole, None).map_err(|error| error.tensor(name))
    }

    fn archive(&mut self) -> Result<()> {
        let (entries, directory) = zip::entries_of_any_name(self.file, self.limits)?;
        let members = zip::members(self.file, &entries, directory)?;
        for (entry, member) in entries.iter().zip(&members) {
            let Err(error) = self.member(entry, member) else { continue };
            if error.kind() != Kind::Unsupported {
                return Err(error);
            }
            self.rules.mend(&entry.name, "it is left out", error)?;
        }
        if self.contents.checkpoint.tensors.is_empty() && !entries.is_empty() {
            return Err(Error::unsupported("no member of the archive is an array of numbers")
                .found(ckpt_api::count(entries.len(), "member")));
        }
        Ok(())
    }

    fn member(&mut self, entry: &Entry, member: &Member) -> Result<()> {
        let Some(name) = entry.name.strip_suffix(ENDING) else {
            return Err(Error::unsupported("a member of the archive is not an array")
                .offset(member.start)
                .field(&entry.name)
                .expected(format!("a name that ends in {ENDING}")));
        };
        let added = self.add(name, member, Some(entry.crc));
        // A damaged header can look like one of strings, or like a long one: only a header that is as it was written is
        // judged. Nothing is decompressed for that which is longer than a header may be.
        let is_read = member.compression.is_none() || member.len <= self.limits.get(Limit::HeaderBytes);
        let is_judged = |error: &Error| is_read && !matches!(error.kind(), Kind::Corrupt | Kind::Io);
        let judged = match &added {
            Err(error) if is_judged(error) => member.check_crc(self.file, entry.crc),
            _ => Ok(()),
        };
        judged.and(added).map_err(|error| error.tensor(name))
    }

    /// Adds the array in these bytes; `crc` is their CRC-32, if known.
    fn add(&mut self, name: &str, member: &Member, crc: Option<u32>) -> Result<()> {
        let (file, start) = member.open(self.file)?;
        let stored = Stored::read(&file, start, member.len, self.untyped, self.limits)?;
        let header = &stored.header;
        let mut tensor = Tensor::new(name, header.dtype, header.shape.clone());
        let encoding = header.encoding();
        let len = encoding.stored_len(header.shape.elements());
        if len.and_then(|len| len.checked_add(stored.len())) != Some(member.len) {
            let has = member.len.saturating_sub(stored.len());
            return Err(Error::corrupt("the array's data do not fit its shape")
                .offset(member.start)
                .found(ckpt_api::count(has, "byte"))
                .expected(format!("{} of {}", header.shape, header.dtype))
                .help("the file is cut short or was changed: copy or write it again"));
        }
        let checksum = crc.map(|value| Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            seed: ChecksumAlgorithm::Crc32.append(0, &stored.bytes()),
            value: Some(value),
        });
        let len = len.unwrap_or(0);
        let extent = match member.compression.clone() {
            Some(compression) => {
                Extent::new(FileId(0), member.start, len).with_compression(compression.skipping(stored.len()))
            }
            None => Extent::new(FileId(0), member.start.saturating_add(stored.len()), len),
        };
        let extent = extent.with_checksum(checksum);
        let id = TensorId(self.contents.checkpoint.tensors.len());
        self.contents.placements.push(Placement::new(id, &tensor.name, extent, encoding));
        remember(&mut tensor, &stored);
        self.contents.checkpoint.tensors.push(tensor);
        Ok(())
    }
}

/// Keeps the header in the tensor's metadata if writing would produce a different one.
fn remember(tensor: &mut Tensor, stored: &Stored) {
    // A header of elements without a name cannot be read again without being told what they are.
    if UNTYPED.iter().any(|(_, dtype)| *dtype == stored.header.dtype) {
        return;
    }
    let plain =
        crate::header::Header { endian: Endian::Little, fortran_order: false, ..stored.header.clone() };
    if Stored::new(plain).as_ref() == Some(stored) {
        return;
    }
    tensor.metadata.insert(ID, KEY_HEADER, stored.text.as_str());
    if stored.version != Version::One {
        tensor.metadata.insert(ID, KEY_VERSION, MetadataValue::integer(stored.version.number().into()));
    }
}
