//! Manifests: which root node is the newest.

use super::body::Body;
use super::envelope::{self, MANIFEST_MAGIC, MOST_DECODED};
use super::paths::{Budget, DataFile, table};
use ckpt_api::{Error, Result};

/// Where an object is in a data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) file: DataFile,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The root of a version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) location: Location,
    pub(super) height: u8,
}

#[derive(Debug)]
pub(super) struct Manifest {
    /// Whether the versions are in numbered manifests beside this one.
    pub(super) is_numbered: bool,
    /// How many versions it lists.
    pub(super) versions: usize,
    /// The root of the newest version; `None` for a database without keys.
    pub(super) root: Option<Root>,
}

/// Offset and length of the root that an empty database has.
const NOTHING: (u64, u64) = (u64::MAX, u64::MAX);

/// Versions within one node are at most 2 to the power of this.
const MOST_ARITY: u8 = 16;

impl Manifest {
    pub(super) fn parse(bytes: &[u8], budget: &mut Budget) -> Result<Manifest> {
        let body = envelope::open(bytes, MANIFEST_MAGIC, "a manifest", MOST_DECODED)?;
        let mut body = Body::new(&body);
        let config = Config::parse(&mut body)?;
        if config.is_numbered {
            body.end("a manifest that numbered ones continue")?;
            return Ok(Manifest { is_numbered: true, versions: 0, root: None });
        }
        let files = table(&mut body, "", budget)?;
        let (versions, root) = newest(&mut body, &files, config.most_versions)?;
        skip_version_nodes(&mut body)?;
        body.end("a manifest")?;
        Ok(Manifest { is_numbered: false, versions, root })
    }
}

struct Config {
    is_numbered: bool,
    most_versions: u64,
}

impl Config {
    fn parse(body: &mut Body<'_>) -> Result<Config> {
        body.array::<16>("uuid")?;
        let at = body.offset();
        let kind = body.byte("manifest kind")?;
        if kind > 1 {
            return Err(Error::unsupported("the kind of the manifest is unknown")
                .offset(at)
                .found(kind.to_string())
                .expected("0 (single) or 1 (numbered)"));
        }
        body.number("bytes of inline values")?;
        body.number("bytes of nodes")?;
        let at = body.offset();
        let arity = body.byte("arity of version nodes")?;
        if !(1..=MOST_ARITY).contains(&arity) {
            return Err(Error::corrupt("the arity of version nodes is impossible")
                .offset(at)
                .found(arity.to_string())
                .expected(format!("1 to {MOST_ARITY}")));
        }
        let at = body.offset();
        match body.number("compression")? {
            0 => {}
            1 => drop(body.array::<4>("compression level")?),
            other => {
                return Err(Error::unsupported("the compression of the database is unknown")
                    .offset(at)
                    .found(other.to_string())
                    .expected("0 (none) or 1 (zstd)"));
            }
        }
        Ok(Config { is_numbered: kind == 1, most_versions: 1 << arity })
    }
}

/// Parses the versions, of which the last is what the database holds.
fn newest(body: &mut Body<'_>, files: &[DataFile], most: u64) -> Result<(usize, Option<Root>)> {
    let len = body.count("versions", most)?;
    body.skip_column("generations", len)?;
    let heights = body.bytes("root heights", len as u64)?;
    let places = Places::parse(body, len)?;
    for name in ["keys", "bytes of trees", "bytes of values"] {
        body.skip_column(name, len)?;
    }
    body.bytes("commit times", 8 * len as u64)?;
    let Some(last) = len.checked_sub(1) else { return Ok((0, None)) };
    let height = heights.get(last).copied().unwrap_or_default();
    if places.is_nothing(last) {
        return Ok((len, None));
    }
    Ok((len, Some(Root { location: places.get(last, files)?, height })))
}

fn skip_version_nodes(body: &mut Body<'_>) -> Result<()> {
    let len = body.count("version nodes", u64::MAX)?;
    for name in ["generations", "files", "offsets", "lengths", "counts"] {
        body.skip_column(name, len)?;
    }
    body.bytes("commit times", 8 * len as u64)?;
    body.bytes("heights", len as u64)?;
    Ok(())
}

/// Columns of places in data files.
pub(super) struct Places {
    files: Vec<u64>,
    offsets: Vec<u64>,
    lens: Vec<u64>,
}

impl Places {
    pub(super) fn parse(body: &mut Body<'_>, len: usize) -> Result<Places> {
        Ok(Places {
            files: body.column("files", len)?,
            offsets: body.column("offsets", len)?,
            lens: body.column("lengths", len)?,
        })
    }

    fn is_nothing(&self, index: usize) -> bool {
        (self.offsets.get(index).copied(), self.lens.get(index).copied())
            == (Some(NOTHING.0), Some(NOTHING.1))
    }

    pub(super) fn get(&self, index: usize, files: &[DataFile]) -> Result<Location> {
        let number = |column: &[u64]| column.get(index).copied().unwrap_or(u64::MAX);
        location(files, number(&self.files), number(&self.offsets), number(&self.lens))
    }
}

/// A place in a data file of the table.
pub(super) fn location(files: &[DataFile], file: u64, offset: u64, len: u64) -> Result<Location> {
    let known = usize::try_from(file).ok().and_then(|file| files.get(file));
    let known = known.filter(|file| !file.path.is_empty()).ok_or_else(|| {
        Error::corrupt("a data file is not in the table")
            .found(file.to_string())
            .expected(format!("a number below {}", files.len()))
    })?;
    if offset.checked_add(len).is_none_or(|end| end >= 1 << 63) {
        return Err(Error::corrupt("a place in a data file is beyond every file")
            .found(format!("{len} bytes from offset {offset}"))
            .expected("an end below 2^63"));
    }
    Ok(Location { file: known.clone(), offset, len })
}
