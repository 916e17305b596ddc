//! Reads a file, or all files of a split set.

use crate::format::{ENDING, FILE_NAMESPACE, ID, KEY_ENDIAN, KEY_UNPADDED, KEY_VERSION, MAGIC, VERSION};
use crate::header::{Header, Stored};
use crate::padding::Padding;
use crate::{original, split};
use ckpt_api::{
    Contents, Endian, Error, Extent, FileId, Input, Limit, Limits, Match, MetadataMap, Options, Placement,
    Result, Rules, TensorId, Text, first_few,
};

/// Number of names that a message lists.
const SHOWN: usize = 8;

/// See [`ckpt_api::Codec::probe`].
pub(crate) fn probe(input: &Input) -> Result<Match> {
    let name = match locate(input)? {
        Located::Nothing => return Ok(Match::No),
        Located::Several(names) => {
            return Ok(Match::Possible(format!(
                "the directory contains several: {}",
                first_few(&names, SHOWN)
            )));
        }
        Located::File(name) => name,
    };
    if !input.has_file(&name) {
        return Ok(Match::No);
    }
    let file = input.file(&name)?;
    let mut head = [0; 4];
    if file.len() < head.len() as u64 {
        return Ok(Match::No);
    }
    file.read_at(0, &mut head)?;
    Ok(if head == MAGIC { Match::Certain("it begins with GGUF".to_owned()) } else { Match::No })
}

/// See [`ckpt_api::Codec::read`].
pub(crate) fn read(input: &Input, options: &Options, limits: &Limits) -> Result<Contents> {
    let mut rules = Rules::new(options);
    match locate(input)? {
        Located::File(name) => read_set(input, name, limits, &mut rules),
        Located::Several(names) => Err(Error::usage("the directory contains several GGUF checkpoints")
            .file(input.display(""))
            .found(first_few(&names, SHOWN))
            .help("name the one to read")),
        Located::Nothing => Err(Error::usage("the directory contains no GGUF file")
            .file(input.display(""))
            .expected(format!("one file *{ENDING}, or the files of one split set"))),
    }
}

/// Returns the keys and values of a file.
pub(crate) fn file_pairs(path: &str) -> Result<MetadataMap> {
    let limits = Limits::default();
    let input = Input::open(path)?;
    let contents = read(&input, &Options::default(), &limits)?;
    Ok(contents.checkpoint.metadata.namespace(ID).cloned().unwrap_or_default())
}

enum Located {
    File(String),
    Several(Vec<String>),
    Nothing,
}

/// Finds the file that is named, or the only checkpoint of a directory.
fn locate(input: &Input) -> Result<Located> {
    if !input.is_directory() {
        return Ok(Located::File(input.entry().to_owned()));
    }
    let mut names = input.list("")?;
    names
        .retain(|name| name.ends_with(ENDING) && split::parse(name).is_none_or(|(_, number, _)| number == 1));
    Ok(match names.len() {
        0 => Located::Nothing,
        1 => Located::File(names.remove(0)),
        _ => Located::Several(names),
    })
}

/// Reads the named file and, if its metadata states that there are several, the others.
fn read_set(input: &Input, name: String, limits: &Limits, rules: &mut Rules) -> Result<Contents> {
    let header = read_header(input, &name, limits, rules)?;
    let count = split::count(&header.pairs).map_err(|error| error.file(input.display(&name)))?;
    let mut contents = Contents::default();
    if count == 1 {
        add(&mut contents, name, header, limits)?;
    } else {
        let (stem, own, named) =
            split::parse(&name).filter(|(.., named)| *named == count).ok_or_else(|| {
                Error::usage("the file is one of a split set, and its name does not tell the others")
                    .file(input.display(&name))
                    .expected(format!("a name such as {}", split::name("model", 1, count)))
                    .help("give all files of the set the names that they had")
            })?;
        limits.check(Limit::Files, named)?;
        let mut own = (own, Some(header));
        input.will_open(&(1..=named).map(|number| split::name(stem, number, named)).collect::<Vec<_>>());
        for number in 1..=named {
            let name = split::name(stem, number, named);
            let header = match own.1.take_if(|_| own.0 == number) {
                Some(header) => header,
                None => read_header(input, &name, limits, rules).map_err(|error| {
                    error
                        .help("all files of the set must lie in one directory, under the names that they had")
                })?,
            };
            check_number(&header, number, named).map_err(|error| error.file(input.display(&name)))?;
            add(&mut contents, name, header, limits)?;
        }
        check_total(&contents).map_err(|error| error.file(input.display(&name)))?;
        tidy(&mut contents);
    }
    contents.repairs = std::mem::take(&mut rules.repairs);
    Ok(contents)
}

fn read_header(input: &Input, name: &str, limits: &Limits, rules: &mut Rules) -> Result<Header> {
    let file = input.file(name)?;
    Header::read(&file, limits, rules).map_err(|error| error.file(file.name()))
}

/// Checks that a file has the number that its name states.
fn check_number(header: &Header, number: u64, count: u64) -> Result<()> {
    let stated = |key: &str| header.pairs.get(key).and_then(|value| value.as_u64());
    for (key, expected) in [(split::NUMBER, number - 1), (split::COUNT, count)] {
        if stated(key) != Some(expected) {
            return Err(Error::corrupt("the file is not the one that its name states")
                .field(key)
                .found(stated(key).map_or("none".to_owned(), |stated| stated.to_string()))
                .expected(expected.to_string())
                .help("the file belongs to another set, or was renamed"));
        }
    }
    Ok(())
}

/// Checks the number of tensors that the first file states.
fn check_total(contents: &Contents) -> Result<()> {
    let Some(stated) = contents.checkpoint.metadata.value(ID, split::TENSORS) else { return Ok(()) };
    let found = contents.placements.len() as u64;
    if stated.as_u64() == Some(found) {
        return Ok(());
    }
    Err(Error::corrupt("the files of the set have another number of tensors")
        .field(split::TENSORS)
        .found(ckpt_api::count(found, "tensor"))
        .expected(stated.to_string()))
}

/// Adds the tensors of a file. The metadata is that of the first file.
fn add(contents: &mut Contents, name: String, header: Header, limits: &Limits) -> Result<()> {
    let file = FileId(contents.files.len());
    let metadata = &mut contents.checkpoint.metadata;
    for (key, value) in header.pairs {
        if file == FileId(0) {
            metadata.insert(ID, &key, value);
        } else if !split::is_key(&key) && metadata.value(ID, &key) != Some(&value) {
            contents.notes.push(
                format!(
                    "'{name}' has another value for the key '{key}' than the first file: it is \
                                         left out"
                )
                .into(),
            );
        }
    }
    if file == FileId(0) {
        if header.version != VERSION {
            metadata.insert(FILE_NAMESPACE, KEY_VERSION, header.version);
        }
        if header.endian == Endian::Big {
            metadata.insert(FILE_NAMESPACE, KEY_ENDIAN, "big");
        }
        if header.is_unpadded {
            metadata.insert(FILE_NAMESPACE, KEY_UNPADDED, true);
        }
    }
    let header_padding = match file {
        FileId(0) => header.padding.note(metadata, "the header"),
        _ if header.padding == Padding::Zeros => None,
        _ => Some(format!("the padding behind the header of '{name}' is not zero: it is left out")),
    };
    contents.notes.extend(header_padding.map(Text::from));
    let shapes = metadata.namespace(ID).filter(|pairs| original::states_any(pairs));
    for Stored { mut tensor, mut encoding, offset, len, padding } in header.tensors {
        contents.notes.extend(
            shapes.and_then(|pairs| original::restore(&mut tensor, &mut encoding, pairs)).map(Text::from),
        );
        contents
            .notes
            .extend(padding.note(&mut tensor.metadata, &format!("'{}'", tensor.name)).map(Text::from));
        let id = TensorId(contents.placements.len());
        let extent = Extent::new(file, offset, len);
        contents.placements.push(Placement::new(id, &tensor.name, vec![extent], encoding));
        contents.checkpoint.tensors.push(tensor);
    }
    limits.check(Limit::Tensors, contents.placements.len() as u64)?;
    contents.files.push(name);
    Ok(())
}

/// Removes the keys that describe how the tensors are split.
fn tidy(contents: &mut Contents) {
    let metadata = &mut contents.checkpoint.metadata;
    let Some(pairs) = metadata.remove(ID) else { return };
    for (key, value) in pairs {
        if !split::is_key(&key) {
            metadata.insert(ID, &key, value);
        }
    }
}
