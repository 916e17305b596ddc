//! Formats without a magic number, recognized by the structure of their first bytes.

/// Whether bytes begin as a graph of TensorFlow with its collections does: with the list of its operators.
pub(super) fn is_meta_graph(start: &[u8]) -> bool {
    let list = message(start, 1).and_then(|info| {
        let own = message(info, 1).filter(|version| is_word(version)).and_then(|_| after(info));
        message(own.unwrap_or(info), 2)
    });
    let name = list.and_then(|list| message(list, 1)).and_then(|op| message(op, 1));
    name.is_some_and(is_word)
}

/// Whether bytes begin as the description of a network of OpenVINO does.
pub(super) fn is_open_vino(start: &[u8]) -> bool {
    start.starts_with(b"<?xml") && contains(start, b"<net ")
}

pub(super) fn is_bzip2(start: &[u8]) -> bool {
    matches!(start, [b'B', b'Z', b'h', b'1'..=b'9', ..])
}

/// Whether bytes begin as a record of Burn in MessagePack does: with the name of what recorded it.
pub(super) fn is_burn(start: &[u8]) -> bool {
    matches!(start, [0x82, ..]) && contains(start, b"burn_core::record::")
}

/// Whether bytes begin as a tar archive of NeMo does: with its configuration or its weights.
pub(super) fn is_nemo(start: &[u8]) -> bool {
    let name = start.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_own = |name: &[u8]| [&b"model_config.yaml"[..], b"model_weights.ckpt"].contains(&name);
    let is_tar = start.get(257..262) == Some(b"ustar");
    // A folder has an entry of its own before its files.
    is_tar && (is_own(name.strip_prefix(b"./").unwrap_or(name)) || contains(start, b"model_config.yaml"))
}

/// Whether bytes begin as a network of Leela Chess Zero does.
pub(super) fn is_lc0(start: &[u8]) -> bool {
    start.starts_with(&[0x0d, 0xc0, 0x01, 0, 0])
}

/// Whether bytes begin as a network of KataGo does: with a name, a version, and the mark of the first numbers.
pub(super) fn is_katago(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n');
    let is_named = lines.next().is_some_and(is_word);
    let is_number = |line: &[u8]| (1..=3).contains(&line.len()) && line.iter().all(u8::is_ascii_digit);
    is_named && lines.next().is_some_and(is_number) && contains(start, b"@BIN@")
}

/// Whether bytes are a pickle that names a class of scikit-learn near its beginning.
pub(super) fn is_scikit_learn(start: &[u8]) -> bool {
    is_pickle(start) && contains(start, b"sklearn.")
}

pub(super) fn is_pickle(start: &[u8]) -> bool {
    matches!(start, [0x80, 2..=5, ..])
}

pub(super) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The bytes, as far as they are there, of the protobuf message or text with which `bytes` begin, if it is field `number`.
fn message(bytes: &[u8], number: u64) -> Option<&[u8]> {
    let (tag, rest) = varint(bytes)?;
    if tag != number << 3 | 2 {
        return None;
    }
    let (len, rest) = varint(rest)?;
    let len = usize::try_from(len).ok()?;
    rest.get(..len.min(rest.len()))
}

/// What follows the protobuf message with which `bytes` begin.
fn after(bytes: &[u8]) -> Option<&[u8]> {
    let (_, rest) = varint(bytes)?;
    let (len, rest) = varint(rest)?;
    rest.get(usize::try_from(len).ok()?..)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Whether bytes are a name: printable ASCII, and not too much of it.
fn is_word(bytes: &[u8]) -> bool {
    (1..=256).contains(&bytes.len()) && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of protobuf with these bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let tag =
            if number < 16 { vec![number << 3 | 2] } else { vec![(number & 15) << 3 | 0x82, number >> 4] };
        [&tag[..], &[bytes.len() as u8], bytes].concat()
    }

    fn fields(parts: &[(u8, &[u8])]) -> Vec<u8> {
        parts.iter().flat_map(|(number, bytes)| field(*number, bytes)).collect()
    }

    #[test]
    fn networks_of_programs_are_recognized_by_how_they_begin() {
        let mut archive = b"./model_config.yaml".to_vec();
        archive.resize(512, 0);
        archive[257..262].copy_from_slice(b"ustar");
        type Is = fn(&[u8]) -> bool;
        let all: [(Is, &[u8]); 5] = [
            (is_burn, b"\x82\xa8metadata\x85\xa6format\xd9\x30burn_core::record::file::NamedMpkFileRecorder"),
            (is_nemo, &archive),
            (is_lc0, b"\x0d\xc0\x01\0\0\x12\x03GPL"),
            (is_katago, b"b18c384nbt\n14\n22\n19\ntrunk\n@BIN@\0\0"),
            (is_scikit_learn, b"\x80\x04\x95\0\0\0\0\0\0\0\0\x8c\x1bsklearn.linear_model._base"),
        ];
        for (own, bytes) in all {
            assert!(own(bytes));
            assert_eq!(all.iter().filter(|(other, _)| other(bytes)).count(), 1);
            assert!(!own(b"") && !own(&bytes[bytes.len() / 2..]) && !own(&[0; 600]));
        }
    }

    #[test]
    fn each_structure_is_recognized_and_no_other() {
        let op = field(1, &fields(&[(1, b"Add"), (2, b"x")]));
        type Is = fn(&[u8]) -> bool;
        let all: [(Is, Vec<u8>); 2] = [
            (is_meta_graph, field(1, &field(2, &op))),
            (is_meta_graph, field(1, &[field(1, b"v1"), field(2, &op)].concat())),
        ];
        for (k, (own, bytes)) in all.iter().enumerate() {
            assert!(own(bytes), "{k}");
            let others = all.iter().filter(|(is, _)| *is as usize != *own as usize);
            assert!(others.into_iter().all(|(is, _)| !is(bytes)), "{k}");
            for len in 0..bytes.len() {
                let _ = own(&bytes[..len]);
            }
        }
        // A model of ONNX begins with a version and its producer's name.
        let onnx = [vec![8, 8], fields(&[(2, b"pytorch"), (3, b"2.9")])].concat();
        assert!(all.iter().all(|(is, _)| !is(&onnx) && !is(b"") && !is(&[0; 64]) && !is(b"{\"a\": 1}")));
    }
}
