//! Files that no codec reads or writes, recognized by their first bytes or their names, so that the error can say what
//! to do.

use ckpt_api::{Input, Result, Setting};
use flate2::read::GzDecoder;
use std::io::Read as _;

/// What to do with an input that is not recognized.
///
/// # Errors
/// [`ckpt_api::Kind::Io`] where it cannot be read.
pub(crate) fn advice(input: &Input) -> Result<String> {
    let name_it = format!(
        "name its format with {}; the new error says what is wrong with the file",
        Setting::SourceFormat
    );
    if input.is_directory() {
        return Ok(format!(
            "name the checkpoint in the directory; if the directory is the checkpoint, {name_it}"
        ));
    }
    if input.main()?.is_empty() {
        return Ok("the file is empty: make it again, or copy it again".to_owned());
    }
    if let Some(index) = index_of_data(input.entry()) {
        return Ok(format!(
            "it has the name of a data file of a TensorFlow checkpoint: name the checkpoint's index, '{index}', without \
             which the data cannot be read"
        ));
    }
    if let Some(advice) = input.head::<64>()?.and_then(|head| in_zip(&head)) {
        return Ok(advice.to_owned());
    }
    if let Some(advice) = of_this_program(input)? {
        return Ok(advice);
    }
    let head = input.head::<8>()?.unwrap_or_default();
    if let Some(advice) = by_head(&head) {
        return Ok(advice);
    }
    Ok(match input.head::<262>()? {
        Some(head) if head.ends_with(b"ustar") => "it is a tar archive: unpack it first".to_owned(),
        _ => format!("if you know what it is, {name_it}; for another format, use {}", Setting::MoreFormats),
    })
}

/// What to do with a receipt or a plan.
fn of_this_program(input: &Input) -> Result<Option<String>> {
    /// Most bytes read of a file: enough for the start of a compressed one.
    const READ: u64 = 1024;
    /// Most bytes of a text that are looked at.
    const START: u64 = 128;
    let file = input.main()?;
    let mut start = file.bytes(0, file.len().min(READ))?;
    if start.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        // What follows is cut off, which is an error after the start was decompressed.
        let _ = GzDecoder::new(&*start).take(START).read_to_end(&mut text);
        start = text;
    }
    // As they are written, but for spaces.
    start.truncate(START as usize);
    start.retain(|byte| !byte.is_ascii_whitespace());
    Ok(if start.starts_with(b"{\"ckpt\":\"") {
        Some(format!("it is the receipt of a conversion: check its files with {}", Setting::CheckReceipt))
    } else if start.starts_with(b"{\"version\":") && contains(&start, b",\"program\":\"ckpt") {
        Some(format!("it is the plan of a conversion: run it with {}", Setting::RunPlan))
    } else if start.starts_with(b"{\"plan\":\"") && contains(&start, b"\",\"staging\":\"") {
        Some(format!("it is the receipt of an item of a plan: its directory is for {}", Setting::RunPlan))
    } else {
        None
    })
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The name of the index to whose checkpoint a data file of this name belongs.
fn index_of_data(name: &str) -> Option<String> {
    let (prefix, numbers) = name.rsplit_once(".data-")?;
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split_once("-of-").filter(|(shard, count)| is_number(shard) && is_number(count))?;
    Some(format!("{prefix}.index"))
}

/// What a zip archive is, by the name of its first member, and what to do.
fn in_zip(head: &[u8; 64]) -> Option<&'static str> {
    let len = usize::from(u16::from_le_bytes([head[26], head[27]]));
    let name = head.get(30..(30 + len).min(head.len())).filter(|_| head.starts_with(b"PK\x03\x04"))?;
    let is_of_torch = |name: &[u8]| name.ends_with(b"/data.pkl") || name.ends_with(b"/.format_version");
    is_of_torch(name).then_some(
        "it is a PyTorch file: load it in Python with torch.load, and save its tensors with \
         safetensors.torch.save_file",
    )
}

/// What the first bytes are the sign of, and what to do.
fn by_head(head: &[u8]) -> Option<String> {
    let advice = match head {
        [0x1f, 0x8b, ..] => "it is compressed with gzip: decompress it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed with zstd: decompress it first",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => "it is compressed with xz: decompress it first",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "it is compressed with bzip2: decompress it first",
        [b'P', b'K', 3, 4, ..] => {
            "it is a zip archive, but not a NumPy archive: unpack it; if it is a PyTorch .pt file, save its tensors \
             with safetensors.torch.save_file"
        }
        [0x80, 2..=5, ..] => {
            "it is a Python pickle, which is a program and is never run here: save the tensors in Python, with \
             safetensors or numpy.savez"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// What to do about a format that no codec has, by its extension or its name: which formats serve in its place.
pub(crate) fn instead(name: &str) -> Option<&'static str> {
    Some(match name {
        "ort" => {
            "the format of ONNX Runtime is not supported: use the .onnx model that the file was made from"
        }
        "pkl" | "pickle" => {
            "pickles are not supported, because they are programs: use .safetensors, or a file that torch.save wrote"
        }
        "pb" | "tflite" | "savedmodel" => {
            "graphs of TensorFlow are not written: use a TensorFlow checkpoint (.index)"
        }
        "ggml" => "GGUF has replaced GGML: use .gguf",
        "msgpack" | "orbax" | "flax" => "checkpoints of Flax are not supported: use .safetensors or .npz",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ckpt_api::{LibraryWords, Vocabulary};
    use std::collections::BTreeMap;

    fn of(bytes: &[u8]) -> String {
        let input = Input::memory("m", BTreeMap::from([("m".to_owned(), bytes.to_vec())]));
        LibraryWords.resolve(&advice(&input).unwrap()).into_owned()
    }

    #[test]
    fn what_a_file_is_instead_is_said_with_what_to_do() {
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, said) in [
            (&b"\x1f\x8b\x08\0\0\0\0\0\0\0"[..], "gzip"),
            (b"PK\x03\x04\x14\0\0\0\0\0", "safetensors.torch.save_file"),
            (b"\x80\x02}q\0X\0\0\0\0", "pickle"),
            (&tar, "tar"),
            (b"hello, world", "`OpenOptions::format`"),
            (b"", "the file is empty"),
            (&zip("archive/data.pkl"), "it is a PyTorch file"),
            (&zip("readme.txt"), "it is a zip archive"),
        ] {
            assert!(of(bytes).contains(said), "{said}: {}", of(bytes));
        }
    }

    /// The start of an archive whose first member has this name.
    fn zip(name: &str) -> Vec<u8> {
        let mut head = b"PK\x03\x04".to_vec();
        head.resize(26, 0);
        head.extend((name.len() as u32).to_le_bytes());
        head.extend(name.as_bytes());
        head.resize(300, 0);
        head
    }

    #[test]
    fn of_a_data_file_the_index_is_named() {
        let told = |name: &str| {
            let input = Input::memory(name, BTreeMap::from([(name.to_owned(), vec![1; 300])]));
            advice(&input).unwrap()
        };
        assert!(told("ckpt-1.data-00000-of-00001").contains("'ckpt-1.index'"));
        assert!(!told("ckpt-1.data-0-of-1").contains(".index"));
    }

    #[test]
    fn of_a_directory_the_checkpoint_in_it_is_asked_for() {
        assert!(advice(&Input::memory("", BTreeMap::new())).unwrap().contains("in the directory"));
    }
}
