//! Opens the files of a model.

use super::Part;
use super::index::Index;
use crate::format::{
    CONFIG, Container, INDEX_END, METADATA, MODEL_CONFIG, NUMPY_WEIGHTS, TRAINING_CONFIG, WEIGHTS,
};
use ckpt_api::{Error, Extent, File, FileId, Input, Limit, Limits, Result};
use ckpt_containers::zip::{self, Entry, Member, record};
use ckpt_hdf5::{AttributeValue, attribute};

/// The files of a model.
pub(crate) struct Files {
    pub(crate) container: Container,
    /// Files in which tensors are.
    pub(crate) names: Vec<String>,
    /// HDF5 files, each in one of `names`.
    pub(crate) parts: Vec<Part>,
    /// The configuration of the model, and how it is trained, in JSON.
    pub(crate) config: Option<String>,
    /// The file that has the configuration, for people.
    pub(crate) config_file: Option<String>,
    pub(crate) training: Option<String>,
    /// What `metadata.json` or the attributes state.
    pub(crate) version: Option<String>,
    pub(crate) backend: Option<String>,
    pub(crate) saved: Option<String>,
    /// Places of the checksum of the weights in an archive.
    pub(crate) checksums: Vec<u64>,
    pub(crate) notes: Vec<String>,
    /// Whether the configuration is another file's, whose layers take the lists of weights in their order even if they have
    /// the names of the lists.
    pub(crate) joins_by_order: bool,
}

impl Files {
    fn new(container: Container) -> Self {
        Files {
            container,
            names: Vec::new(),
            parts: Vec::new(),
            config: None,
            config_file: None,
            training: None,
            version: None,
            backend: None,
            saved: None,
            checksums: Vec::new(),
            notes: Vec::new(),
            joins_by_order: false,
        }
    }

    /// Opens the files that an input names. Checksums of an archive are verified if `verifies`.
    pub(crate) fn open(input: &Input, limits: &Limits, verifies: bool) -> Result<Self> {
        if input.is_directory() {
            return Self::directory(input, limits);
        }
        let file = input.main()?;
        if input.entry().ends_with(INDEX_END) {
            return Self::sharded(input, &file, limits);
        }
        if input.head()?.is_some_and(|head| [record::LOCAL, record::END].contains(&head)) {
            return Self::archive(input, &file, limits, verifies).map_err(|error| error.file(file.name()));
        }
        let mut files = Files::new(Container::File);
        files.names.push(input.entry().to_owned());
        files.parts.push(Part::open(&file, file.name(), limits)?);
        files.take_attributes();
        Ok(files)
    }

    fn directory(input: &Input, limits: &Limits) -> Result<Self> {
        let mut files = Files::new(Container::Directory);
        let config = input.file(CONFIG)?;
        files.config = Some(text(&config, limits)?);
        files.config_file = Some(config.name().to_owned());
        if input.has_file(METADATA) {
            files.take_metadata(&text(&input.file(METADATA)?, limits)?)?;
        }
        let weights = input.file(WEIGHTS)?;
        files.names.push(WEIGHTS.to_owned());
        files.parts.push(Part::open(&weights, weights.name(), limits)?);
        Ok(files)
    }

    fn sharded(input: &Input, file: &File, limits: &Limits) -> Result<Self> {
        let index = Index::read(file, limits)?;
        limits.check(Limit::Files, index.groups.len() as u64)?;
        let mut files = Files::new(Container::Sharded);
        input.will_open(&index.groups.keys().collect::<Vec<_>>());
        for (name, groups) in index.groups {
            let shard = input.file(&name);
            let shard = shard.map_err(|error| error.help("the index names it: copy all files of the set"))?;
            let mut part = Part::open(&shard, shard.name(), limits)?;
            part.file = FileId(files.names.len());
            part.check_groups(&groups).map_err(|error| error.file(shard.name()))?;
            files.names.push(name);
            files.parts.push(part);
        }
        files.take_attributes();
        Ok(files)
    }

    fn archive(input: &Input, file: &File, limits: &Limits, verifies: bool) -> Result<Self> {
        let (entries, directory) = zip::entries(file, limits)?;
        let members = zip::members(file, &entries, directory)?;
        let find = |name: &str| entries.iter().zip(&members).find(|(entry, _)| entry.name == name);
        let mut files = Files::new(Container::Archive);
        files.names.push(input.entry().to_owned());
        if let Some((entry, member)) = find(CONFIG) {
            files.config = Some(member_text(file, entry, member, limits)?);
        }
        if let Some((entry, member)) = find(METADATA) {
            files.take_metadata(&member_text(file, entry, member, limits)?)?;
        }
        let Some((entry, member)) = find(WEIGHTS) else {
            let error = match find(NUMPY_WEIGHTS) {
                Some(_) => Error::unsupported("the weights are stored as NumPy arrays")
                    .help("save the model again: Keras writes model.weights.h5"),
                None => Error::corrupt("the archive has no weights"),
            };
            return Err(error.found(listed(&entries)).expected(WEIGHTS));
        };
        // Compressed weights are held in memory: their limit comes before the checksum, which decompresses them all.
        if member.compression.is_some() {
            limits.check(Limit::ChunkBytes, member.len).map_err(|error| error.field(WEIGHTS))?;
        }
        if verifies {
            member.check_crc(file, entry.crc).map_err(|error| error.field(WEIGHTS))?;
        }
        for other in
            entries.iter().filter(|entry| ![CONFIG, METADATA, WEIGHTS].contains(&entry.name.as_str()))
        {
            files.notes.push(format!("the member '{}' of the archive is not read", other.name));
        }
        files.checksums = vec![entry.local_at() + record::LOCAL_CRC, entry.at() + record::CENTRAL_CRC];
        files.parts.push(Part::of_member(file, member, limits).map_err(|error| error.field(WEIGHTS))?);
        Ok(files)
    }

    /// Takes what the attributes of an `.h5` file state.
    fn take_attributes(&mut self) {
        let Some(part) = self.parts.first() else { return };
        let groups = &part.tree.groups;
        let of = |path: &str, name: &str| {
            let group = groups.iter().find(|group| group.path == path)?;
            attribute(&group.attributes, name).and_then(AttributeValue::text).map(str::to_owned)
        };
        let anywhere = |name: &str| of("", name).or_else(|| of(crate::format::MODEL_WEIGHTS, name));
        self.config = of("", MODEL_CONFIG);
        self.training = of("", TRAINING_CONFIG);
        self.version = anywhere("keras_version");
        self.backend = anywhere("backend");
    }

    fn take_metadata(&mut self, text: &str) -> Result<()> {
        let wrong = |error: serde_json::Error| {
            Error::corrupt("the metadata is no valid JSON").field(METADATA).found(error.to_string())
        };
        let value: serde_json::Value = serde_json::from_str(text).map_err(wrong)?;
        let of = |key: &str| value.get(key).and_then(|value| value.as_str()).map(str::to_owned);
        self.version = of("keras_version");
        self.saved = of("date_saved");
        Ok(())
    }
}

fn listed(entries: &[Entry]) -> String {
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    ckpt_api::first_few(&names, 8)
}

fn text(file: &File, limits: &Limits) -> Result<String> {
    limits.check(Limit::HeaderBytes, file.len()).map_err(|error| error.file(file.name()))?;
    let bytes = file.bytes(0, file.len())?;
    String::from_utf8(bytes).map_err(|_| Error::corrupt("the text is not UTF-8").file(file.name()))
}

fn member_text(archive: &File, entry: &Entry, member: &Member, limits: &Limits) -> Result<String> {
    member.check_header(archive, limits).map_err(|error| error.field(&entry.name))?;
    member.check_crc(archive, entry.crc).map_err(|error| error.field(&entry.name))?;
    let whole = Extent::new(FileId(0), member.start, member.len).with_compression(member.compression.clone());
    text(&whole.open(archive)?, limits).map_err(|error| error.field(&entry.name))
}
