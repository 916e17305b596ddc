//! Files that no codec reads or writes, recognized by their first bytes or their names, so that the error can say what
//! they are and what to do.

mod formats;
mod signs;

use ckpt_api::{Error, Input, Kind, Result, Text, text};
use ckpt_containers::zip;
use ckpt_engine::formats::UnreadFormats;
use ckpt_engine::settings;
use flate2::read::GzDecoder;
use formats::{BESIDE, CONTAINERS, FORMATS, Format, Sign};
use std::fs;
use std::io::Read as _;

/// Bytes of a file in which signs are looked for.
const LOOKED_AT: u64 = 16 << 10;
/// Bytes that are looked at of what gzip compressed.
const UNPACKED: u64 = 4 << 10;
/// Folders of a directory in which files are looked for.
const FOLDERS: usize = 256;
/// Files of a directory that are looked at.
const FILES: usize = 64;

/// The formats that this program knows and does not read.
#[derive(Debug)]
pub(crate) struct ForeignFormats;

impl UnreadFormats for ForeignFormats {
    fn known(&self, input: &Input) -> Result<Option<Error>> {
        let looked = Looked::at(input)?;
        Ok(FORMATS.iter().find(|format| looked.has_sign(format)).map(|format| unread(input, format)))
    }

    fn known_weights(&self, input: &Input) -> Result<Option<Error>> {
        let looked = Looked::at(input)?;
        let format = FORMATS.iter().find(|format| format.help != BESIDE && looked.has_sign(format));
        Ok(format.map(|format| unread(input, format)))
    }

    fn unrecognized(&self, input: &Input, endings: &[&str], formats: &str) -> Result<Error> {
        let name = input.display(input.entry());
        if let Some(format) = by_ending(&name) {
            return Ok(unread(input, format));
        }
        if let Some(error) = in_directory(input)? {
            return Ok(error);
        }
        let looked = Looked::at(input)?;
        let error = || Error::unsupported("the input's format is not recognized").file(name.as_str());
        if let Some(advice) = of_this_program(input)? {
            return Ok(error().expected(format!("one of: {formats}")).help(advice));
        }
        if let Some(format) = CONTAINERS.iter().find(|format| looked.has_sign(format)) {
            return Ok(unread(input, format));
        }
        if let Some(members) = &looked.members {
            return Ok(Error::unsupported("the input is a zip archive, and no checkpoint itself")
                .file(name)
                .help(in_archive(members, endings)));
        }
        Ok(error().expected(format!("one of: {formats}")).help(advice(input, &looked, endings)?))
    }

    fn instead(&self, name: &str) -> Option<&'static str> {
        formats::instead(name)
    }
}

/// The format that the ending of a name stands for.
fn by_ending(name: &str) -> Option<&'static Format> {
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    FORMATS.iter().find(|format| format.endings.contains(&&*ending))
}

/// The error for the first file of a directory that has weights in a format that no codec reads.
fn in_directory(input: &Input) -> Result<Option<Error>> {
    if !input.is_directory() {
        return Ok(None);
    }
    for name in input.list("")?.iter().take(FILES) {
        let file = Input::within_store(input.store().clone(), name);
        let looked = Looked::at(&file)?;
        let format = FORMATS.iter().find(|format| looked.has_sign(format)).or_else(|| by_ending(name));
        if let Some(format) = format.filter(|format| format.help != BESIDE) {
            return Ok(Some(unread(&file, format)));
        }
    }
    Ok(None)
}

fn unread(input: &Input, format: &Format) -> Error {
    Error::unsupported(format!("the input is {}", format.what))
        .file(input.display(input.entry()))
        .help(format.help)
}

/// What was looked at.
struct Looked<'a> {
    input: &'a Input,
    /// The first bytes of a file.
    start: Vec<u8>,
    /// Those of what a file of gzip holds.
    unpacked: Vec<u8>,
    /// The names in a zip archive: none of one whose directory cannot be read.
    members: Option<Vec<String>>,
    /// The folders of a directory.
    folders: Vec<String>,
}

impl<'a> Looked<'a> {
    fn at(input: &'a Input) -> Result<Self> {
        let mut looked =
            Looked { input, start: Vec::new(), unpacked: Vec::new(), members: None, folders: Vec::new() };
        if input.is_file() {
            let file = input.main()?;
            looked.start = file.bytes(0, file.len().min(LOOKED_AT))?;
            looked.unpacked = unpacked(&looked.start, UNPACKED);
            if looked.start.starts_with(&zip::record::LOCAL) {
                let entries = match zip::entries(&file, input.limits()) {
                    Ok((entries, _)) => entries,
                    Err(error) if error.kind() == Kind::Io => return Err(error),
                    Err(_) => Vec::new(),
                };
                looked.members = Some(entries.into_iter().map(|entry| entry.name).collect());
            }
        } else if let Some(directory) = input.directory().filter(|_| input.is_directory()) {
            let entries = fs::read_dir(directory).into_iter().flatten().take(FOLDERS);
            let folders = entries.filter_map(|entry| entry.ok().filter(|entry| entry.path().is_dir()));
            looked.folders = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            looked.folders.sort_unstable();
        }
        Ok(looked)
    }

    /// The files of this name in a directory and in its folders.
    fn held(&self, name: &'static str) -> impl Iterator<Item = String> {
        let below = self.folders.iter().map(move |folder| format!("{folder}/{name}"));
        let all = std::iter::once(name.to_owned()).chain(below);
        all.filter(|path| self.input.is_directory() && self.input.has_file(path))
    }

    fn has_sign(&self, format: &Format) -> bool {
        format.signs.iter().any(|sign| self.has(sign))
    }

    fn has(&self, sign: &Sign) -> bool {
        match sign {
            Sign::Bytes(offset, bytes) => {
                self.start.get(*offset..).is_some_and(|start| start.starts_with(bytes))
            }
            Sign::Json(words) => {
                let text = self.start.trim_ascii_start();
                text.first().is_some_and(|first| b"{[".contains(first))
                    && words.iter().all(|word| signs::contains(text, word.as_bytes()))
            }
            Sign::Holds(name) => self.held(name).next().is_some(),
            Sign::Member(end) => self.members.iter().flatten().any(|name| name.ends_with(end)),
            Sign::Parses(parses) => parses(&self.start),
            Sign::Unpacked(parses) => parses(&self.unpacked),
        }
    }
}

/// What to do with an archive of these members.
fn in_archive(members: &[String], endings: &[&str]) -> String {
    let is_read = |name: &&String| {
        name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&&*ending.to_ascii_lowercase()))
    };
    match (members.iter().find(is_read), members.is_empty()) {
        (Some(name), _) => format!("unpack it, and name the file '{}' in it", name.escape_debug()),
        (None, true) => "its list of members is missing or damaged: copy or download it again; a program that is interrupted while it \
                         saves leaves such a file"
            .to_owned(),
        (None, false) => "unpack it, and name the checkpoint in it".to_owned(),
    }
}

/// What to do with an input of which nothing is known.
fn advice(input: &Input, looked: &Looked<'_>, endings: &[&str]) -> Result<Text> {
    let name_it = text![
        "name its format with ",
        settings::SOURCE_FORMAT,
        "; the new error says what is wrong with the file"
    ];
    if input.is_directory() {
        let other = "name the checkpoint in the directory; if the directory is the checkpoint";
        return Ok(match looked.folders.is_empty() && input.list("")?.is_empty() {
            true => "the directory is empty".into(),
            false => text![other, ", ", name_it],
        });
    }
    if looked.start.is_empty() {
        return Ok("the file is empty: make it again, or copy it again".into());
    }
    if let Some(index) = index_of_data(input.entry()) {
        return Ok(format!(
            "it has the name of a data file of a TensorFlow checkpoint: name the checkpoint's index, '{index}', without \
             which the data cannot be read"
        )
        .into());
    }
    let is_known = input.entry().rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending));
    if looked.start.iter().all(|byte| *byte == 0) && is_known {
        return Ok("it begins with zeros, as a file whose download did not end: download it again".into());
    }
    Ok(text!["if you know what it is, ", name_it, "; for another format, use ", settings::MORE_FORMATS])
}

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of what gzip compressed; none of another file.
fn unpacked(start: &[u8], most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if start.starts_with(&GZIP) {
        // What follows is cut off, which is an error after the start was decompressed.
        let _ = GzDecoder::new(start).take(most).read_to_end(&mut bytes);
    }
    bytes
}

/// What to do with a receipt or a plan.
fn of_this_program(input: &Input) -> Result<Option<Text>> {
    /// Most bytes read of a file: enough for the start of a compressed one.
    const READ: u64 = 1024;
    /// Most bytes of a text that are looked at.
    const START: u64 = 128;
    if !input.is_file() {
        return Ok(None);
    }
    let file = input.main()?;
    let mut start = file.bytes(0, file.len().min(READ))?;
    if start.starts_with(&GZIP) {
        start = unpacked(&start, START);
    }
    // As they are written, but for spaces.
    start.truncate(START as usize);
    start.retain(|byte| !byte.is_ascii_whitespace());
    Ok(if start.starts_with(b"{\"ckpt\":\"") {
        Some(text!["it is the receipt of a conversion: check its files with ", settings::CHECK_RECEIPT])
    } else if start.starts_with(b"{\"version\":") && signs::contains(&start, b",\"program\":\"ckpt") {
        Some(text!["it is the plan of a conversion: run it with ", settings::RUN_PLAN])
    } else if start.starts_with(b"{\"plan\":\"") && signs::contains(&start, b"\",\"staging\":\"") {
        Some(text!["it is the receipt of an item of a plan: its directory is for ", settings::RUN_PLAN])
    } else {
        None
    })
}

/// The name of the index to whose checkpoint a data file of this name belongs.
fn index_of_data(name: &str) -> Option<String> {
    let (prefix, numbers) = name.rsplit_once(".data-")?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split_once("-of-").filter(|(shard, count)| is_number(shard) && is_number(count))?;
    Some(format!("{prefix}.index"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write as _;

    fn named(name: &str, bytes: &[u8]) -> String {
        let input = Input::memory(name, BTreeMap::from([(name.to_owned(), bytes.to_vec())]));
        let error = match ForeignFormats.known(&input).unwrap() {
            Some(error) => error,
            None => ForeignFormats.unrecognized(&input, &["ckpt", "npz"], "npz").unwrap(),
        };
        error.to_string()
    }

    fn of(bytes: &[u8]) -> String {
        named("m", bytes)
    }

    #[test]
    fn what_a_file_is_instead_is_said_with_what_to_do() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, says) in [
            (&b"\x1f\x8b\x08\0\0\0\0\0\0\0"[..], "gzip"),
            (b"\x80\x02}q\0X\0\0\0\0", "pickle"),
            (&tar, "tar"),
            (b"tjgg\x03\0\0\0", "GGML"),
            (b"{\"model_type\": \"bert\"}", "the configuration of a model"),
            (b"\xba\x16\x4f\x2f\x0c\0\0\0", "get_input_matrix"),
            (b"#Parameter# /_0 {3,4} 99 ZERO_GRAD", "DyNet"),
            (b"\x0d\xc0\x01\0\0\x12\x03GPL", "leela2onnx"),
            (b"\x80\x04\x95\0\0\0\0\0\0\0\0\x8c\x1bsklearn.linear_model", "skl2onnx"),
            (b"PK\x03\x04\x14\0\0\0\0\0", "members is missing"),
            (b"hello, world", "`OpenOptions::format`"),
            (b"", "the file is empty"),
        ] {
            assert!(of(bytes).contains(says), "{says}: {}", of(bytes));
        }
    }

    #[test]
    fn a_name_decides_if_nothing_else_does() {
        for (name, says) in [("model.engine", "TensorRT"), ("model.ckpt-1.meta", "index beside it")] {
            assert!(named(name, &[1; 300]).contains(says), "{}", named(name, &[1; 300]));
        }
        assert!(named("m.ckpt", &[0; 300]).contains("begins with zeros"));
    }

    #[test]
    fn what_gzip_compressed_is_named() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"b18c384nbt\n14\n22\n19\ntrunk\n@BIN@\0\0").unwrap();
        let says = named("net.bin.gz", &packed.finish().unwrap());
        assert!(says.contains("KataGo"), "{says}");
    }

    #[test]
    fn of_a_zip_archive_the_checkpoint_in_it_is_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let help = |members: &[&str]| in_archive(&names(members), &["ckpt"]);
        assert!(help(&["readme.md", "run/pl.ckpt"]).contains("'run/pl.ckpt'"));
        assert!(help(&["readme.md"]).contains("the checkpoint in it"));
    }

    #[test]
    fn of_a_data_file_the_index_is_named() {
        let told = |name: &str| named(name, &[1; 300]);
        assert!(told("ckpt-1.data-00000-of-00001").contains("'ckpt-1.index'"));
        assert!(!told("ckpt-1.data-0-of-1").contains(".index"));
    }

    #[test]
    fn of_a_directory_the_checkpoint_in_it_is_asked_for() {
        let files = BTreeMap::from([("readme".to_owned(), Vec::new())]);
        let error = ForeignFormats.unrecognized(&Input::memory("", files), &[], "npz").unwrap();
        assert!(error.to_string().contains("in the directory"), "{error}");
        let error = ForeignFormats.unrecognized(&Input::memory("", BTreeMap::new()), &[], "npz").unwrap();
        assert!(error.to_string().contains("the directory is empty"), "{error}");
    }
}
