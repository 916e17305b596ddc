//! Tables of placements.

use super::columns::{Column, Kinds, Texts, index, malformed};
use super::document::Document;
use ckpt_api::{
    Checksum, ChecksumAlgorithm, Encoding, Extent, Extents, FileId, Limit, Limits, Placement, Result,
    TensorId,
};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The form of a list of placements: a map for each for people, columns in binary messages.
#[derive(Clone, Debug)]
pub struct PlacementsForm(Table);

#[derive(Clone, Debug)]
enum Table {
    Rows(Vec<Placement>),
    Columns(Box<Columns>),
}

/// The columns of a table of placements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Columns {
    tensor: Column<u32>,
    names: Texts,
    encodings: Vec<Document<Encoding>>,
    encoding: Column<u32>,
    /// Extents of each placement.
    extents: Column<u32>,
    files: Column<u32>,
    offsets: Column<u64>,
    lens: Column<u64>,
    checksums: Checksums,
    /// The extents, counted from the first one of the first placement, that have more than the columns say.
    other_extents: Vec<(u32, Document<Extent>)>,
    /// The placements that have more than the columns say: these have no extents there.
    others: Vec<(u32, Document<Placement>)>,
}

/// The checksums of extents; empty if no extent has one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Checksums {
    algorithms: Vec<Document<ChecksumAlgorithm>>,
    /// For each extent: 0 for none, else the number of the algorithm, counted from 1.
    algorithm: Column<u32>,
    /// Of those that have one: the seed, and the value, `u64::MAX` for none.
    seeds: Column<u32>,
    values: Column<u64>,
}

const NO_VALUE: u64 = u64::MAX;

impl Default for PlacementsForm {
    fn default() -> Self {
        PlacementsForm(Table::Rows(Vec::new()))
    }
}

impl From<Vec<Placement>> for PlacementsForm {
    fn from(placements: Vec<Placement>) -> Self {
        PlacementsForm(Table::Rows(placements))
    }
}

impl PlacementsForm {
    /// The placements.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Limit`] for more placements than [`Limit::Tensors`] allows, with [`Limit::Slices`] extents each;
    /// [`ckpt_api::Kind::Unsupported`] for columns that contradict each other.
    pub fn into_placements(self, limits: &Limits) -> Result<Vec<Placement>> {
        match self.0 {
            Table::Rows(placements) => {
                limits.check(Limit::Tensors, placements.len() as u64)?;
                Ok(placements)
            }
            Table::Columns(columns) => columns.into_placements(limits),
        }
    }
}

impl Columns {
    fn of(placements: &[Placement]) -> Result<Self> {
        let (mut columns, mut encodings, mut algorithms) = (Columns::default(), Kinds::new(), Kinds::new());
        let has_checksums = placements
            .iter()
            .flat_map(|placement| &placement.extents)
            .any(|extent| extent.checksum.is_some());
        for (place, placement) in placements.iter().enumerate() {
            columns.tensor.0.push(index(placement.tensor.0)?);
            columns.names.push(&placement.name)?;
            columns.encoding.0.push(encodings.number(&placement.encoding)?);
            if placement.shape().is_some() || placement.window().is_some() || !placement.added().is_empty() {
                columns.extents.0.push(0);
                columns.others.push((index(place)?, Document(placement.clone())));
                continue;
            }
            columns.extents.0.push(index(placement.extents.len())?);
            for extent in placement.extents.iter() {
                if extent.region().is_some() || extent.compression().is_some() || extent.is_computed() {
                    columns.other_extents.push((index(columns.files.0.len())?, Document(extent.clone())));
                }
                columns.files.0.push(index(extent.file.0)?);
                columns.offsets.0.push(extent.offset);
                columns.lens.0.push(extent.len);
                if has_checksums {
                    columns.checksums.push(extent.checksum.as_ref(), &mut algorithms)?;
                }
            }
        }
        columns.encodings = encodings.into_kinds().into_iter().map(Document).collect();
        columns.checksums.algorithms = algorithms.into_kinds().into_iter().map(Document).collect();
        Ok(columns)
    }

    fn into_placements(self, limits: &Limits) -> Result<Vec<Placement>> {
        let rows = self.tensor.0.len();
        limits.check(Limit::Tensors, rows as u64)?;
        if [self.names.len(), self.encoding.0.len(), self.extents.0.len()] != [rows; 3] {
            return Err(malformed("the columns of placements have different lengths"));
        }
        let mut placements = Vec::with_capacity(rows);
        let mut others = self.others.iter().peekable();
        let mut extents = ExtentRows::of(&self)?;
        let columns = self.tensor.0.iter().zip(self.names.iter());
        for (place, (tensor, name)) in columns.enumerate() {
            let count = self.extents.0.get(place).copied().unwrap_or_default();
            if let Some((_, other)) = others.next_if(|(other, _)| usize::try_from(*other) == Ok(place)) {
                placements.push(other.0.clone());
                continue;
            }
            let encoding = number(&self.encoding, place).and_then(|encoding| self.encodings.get(encoding));
            let Document(encoding) =
                encoding.ok_or_else(|| malformed("a placement's encoding is missing"))?;
            let tensor = TensorId(usize::try_from(*tensor).unwrap_or(usize::MAX));
            let own = extents.take(count, limits)?;
            placements.push(Placement::new(tensor, name?, own, encoding.clone()));
        }
        match extents.is_done() && others.peek().is_none() {
            true => Ok(placements),
            false => Err(malformed("extents or placements are left over")),
        }
    }
}

fn number(column: &Column<u32>, place: usize) -> Option<usize> {
    usize::try_from(*column.0.get(place)?).ok()
}

/// The extents of a table, from the first to the last.
struct ExtentRows<'a> {
    columns: &'a Columns,
    others: std::iter::Peekable<std::slice::Iter<'a, (u32, Document<Extent>)>>,
    next: usize,
    next_checksum: usize,
}

impl<'a> ExtentRows<'a> {
    fn of(columns: &'a Columns) -> Result<Self> {
        let (rows, checksums) = (columns.files.0.len(), &columns.checksums);
        let summed = checksums.algorithm.0.iter().filter(|algorithm| **algorithm > 0).count();
        let fits = [columns.offsets.0.len(), columns.lens.0.len()] == [rows; 2]
            && [0, rows].contains(&checksums.algorithm.0.len())
            && [checksums.seeds.0.len(), checksums.values.0.len()] == [summed; 2];
        match fits {
            true => {
                let others = columns.other_extents.iter().peekable();
                Ok(ExtentRows { columns, others, next: 0, next_checksum: 0 })
            }
            false => Err(malformed("the columns of extents have different lengths")),
        }
    }

    /// The next so many.
    fn take(&mut self, count: u32, limits: &Limits) -> Result<Extents> {
        // One is always allowed, and a limit of 0 is for more.
        if count > 1 {
            limits.check(Limit::Slices, count.into())?;
        }
        (0..count).map(|_| self.extent()).collect()
    }

    fn extent(&mut self) -> Result<Extent> {
        let (place, columns) = (self.next, self.columns);
        let row = columns.files.0.get(place).zip(columns.offsets.0.get(place)).zip(columns.lens.0.get(place));
        let ((file, offset), len) = row.ok_or_else(|| malformed("a placement's extents are missing"))?;
        self.next = place.saturating_add(1);
        let checksum = self.checksum(place)?;
        if let Some((_, other)) = self.others.next_if(|(other, _)| usize::try_from(*other) == Ok(place)) {
            return Ok(other.0.clone());
        }
        let file = FileId(usize::try_from(*file).unwrap_or(usize::MAX));
        Ok(Extent::new(file, *offset, *len).with_checksum(checksum))
    }

    fn checksum(&mut self, place: usize) -> Result<Option<Checksum>> {
        let checksums = &self.columns.checksums;
        let Some(known) = number(&checksums.algorithm, place).and_then(|number| number.checked_sub(1)) else {
            return Ok(None);
        };
        let algorithm = checksums.algorithms.get(known).map(|Document(algorithm)| *algorithm);
        let stored =
            checksums.seeds.0.get(self.next_checksum).zip(checksums.values.0.get(self.next_checksum));
        let (algorithm, (seed, value)) =
            algorithm.zip(stored).ok_or_else(|| malformed("an extent's checksum is missing"))?;
        self.next_checksum = self.next_checksum.saturating_add(1);
        let value = match *value {
            NO_VALUE => None,
            value => Some(u32::try_from(value).map_err(|_| malformed("a checksum has more than 32 bits"))?),
        };
        Ok(Some(Checksum { algorithm, seed: *seed, value }))
    }

    fn is_done(&mut self) -> bool {
        self.next == self.columns.files.0.len() && self.others.peek().is_none()
    }
}

impl Checksums {
    fn push(&mut self, checksum: Option<&Checksum>, algorithms: &mut Kinds<ChecksumAlgorithm>) -> Result<()> {
        let Some(Checksum { algorithm, seed, value }) = checksum else {
            self.algorithm.0.push(0);
            return Ok(());
        };
        self.algorithm.0.push(algorithms.number(algorithm)?.saturating_add(1));
        self.seeds.0.push(*seed);
        self.values.0.push(value.map_or(NO_VALUE, u64::from));
        Ok(())
    }
}

impl Serialize for PlacementsForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.0, serializer.is_human_readable()) {
            (Table::Rows(placements), true) => placements.serialize(serializer),
            (Table::Rows(placements), false) => {
                Columns::of(placements).map_err(S::Error::custom)?.serialize(serializer)
            }
            (Table::Columns(columns), true) => {
                let placements = columns.clone().into_placements(&Limits::default());
                placements.map_err(S::Error::custom)?.serialize(serializer)
            }
            (Table::Columns(columns), false) => columns.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PlacementsForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Vec::deserialize(deserializer).map(|placements| PlacementsForm(Table::Rows(placements)));
        }
        let columns = Columns::deserialize(deserializer)?;
        let is_sorted = columns.others.is_sorted_by(|(one, _), (next, _)| one < next)
            && columns.other_extents.is_sorted_by(|(one, _), (next, _)| one < next);
        match is_sorted {
            true => Ok(PlacementsForm(Table::Columns(Box::new(columns)))),
            false => Err(D::Error::custom("extents or placements are not in the order of their places")),
        }
    }
}
