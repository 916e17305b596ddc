//! One test for each rule of the formats that a file can break.

use crate::build::{Member, archive, end, header, matrix, read, refused, sample, versioned, with_end64};
use ckpt_api::Kind;

fn changed(change: fn(&mut Member)) -> Vec<u8> {
    let mut members = [Member::new("a.npy", matrix()), Member::new("b.npy", matrix())];
    change(&mut members[1]);
    archive(&members)
}

/// An error of this kind that says this.
fn assert_refused(bytes: &[u8], kind: Kind, said: &str) {
    let error = refused(bytes);
    assert!(error.kind() == kind && error.to_string().contains(said), "{said}: {:?} {error}", error.kind());
    let lenient = read("m.npz", bytes, true);
    assert_eq!(lenient.err().map(|error| error.kind()), Some(kind), "lenient: {said}");
}

#[test]
fn the_unchanged_archive_is_read() {
    assert_eq!(read("m.npz", &changed(|_| ()), false).unwrap().0.checkpoint.tensors.len(), 2);
}

#[test]
fn a_deflated_member_reads_as_a_stored_one() {
    let stored = read("m.npz", &archive(&sample()), false).unwrap();
    let (contents, values) = read("m.npz", &archive(&sample().map(Member::deflated)), false).unwrap();
    assert_eq!((contents.checkpoint, values), (stored.0.checkpoint, stored.1));
}

#[test]
fn a_member_that_is_compressed_otherwise_is_refused() {
    assert_refused(&changed(|member| member.method = 14), Kind::Unsupported, "method 14");
}

#[test]
fn an_archive_of_other_things_is_refused() {
    let bytes = archive(&[Member::new("data.pkl", b"hello".to_vec())]);
    assert_eq!(refused(&bytes).kind(), Kind::Unsupported);
    let error = read("m.npz", &bytes, true).unwrap_err();
    assert!(error.to_string().contains("no member of the archive"), "{error}");
}

#[test]
fn an_encrypted_member_is_refused() {
    assert_refused(&changed(|member| member.flags = 1), Kind::Unsupported, "encrypted");
    assert_refused(&changed(|member| member.flags = 1 << 13), Kind::Unsupported, "encrypted");
}

#[test]
fn a_name_is_no_path_as_numpy_reads_it() {
    for name in ["/a.npy", "../a.npy", "a/../../b.npy", "a\\b.npy"] {
        let (contents, _) = read("m.npz", &archive(&[Member::new(name, matrix())]), false).unwrap();
        assert_eq!(Some(contents.checkpoint.tensors[0].name.as_str()), name.strip_suffix(".npy"));
    }
    assert_refused(
        &archive(&[Member::new("a\0b.npy", matrix())]),
        Kind::Corrupt,
        "leads outside the archive",
    );
}

#[test]
fn two_members_of_one_name_are_refused() {
    let bytes = changed(|member| (member.name, member.local_name) = (b"a.npy".to_vec(), b"a.npy".to_vec()));
    assert_refused(&bytes, Kind::Corrupt, "same name");
}

#[test]
fn a_name_must_be_ascii_or_marked_as_utf8() {
    let name = "ä.npy".as_bytes().to_vec();
    let mut member = Member::new("a.npy", matrix());
    (member.name, member.local_name) = (name.clone(), name);
    assert_refused(&archive(&[member.clone()]), Kind::Unsupported, "neither ASCII nor UTF-8");
    (member.flags, member.name) = (1 << 11, b"\xff.npy".to_vec());
    assert_refused(&archive(&[member]), Kind::Unsupported, "neither ASCII nor UTF-8");
}

#[test]
fn a_member_that_shares_bytes_with_another_is_refused() {
    // The second array's local header is in the first one's data.
    let inner = archive(&[Member::new("b.npy", matrix())]);
    let inner = &inner[..inner.len() - 22 - 51];
    let mut outer =
        versioned(1, &format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({},)}}", inner.len()));
    let at = 30 + 5 + 20 + outer.len();
    outer.extend(inner);
    let mut hidden = Member::new("b.npy", matrix());
    hidden.at = Some(at as u32);
    assert_refused(&archive(&[Member::new("a.npy", outer), hidden]), Kind::Corrupt, "share bytes");
    assert_refused(&changed(|member| member.at = Some(0)), Kind::Corrupt, "differ in its name");
}

#[test]
fn data_that_reach_into_the_central_directory_are_refused() {
    let bytes = changed(|member| {
        let len = member.len + 20;
        (member.len, member.compressed, member.local_len) = (len, len, len);
    });
    assert_refused(&bytes, Kind::Corrupt, "share bytes");
}

#[test]
fn both_headers_of_a_member_say_the_same() {
    assert_refused(&changed(|member| member.local_crc ^= 1), Kind::Corrupt, "differ in its checksum");
    assert_refused(&changed(|member| member.local_len += 1), Kind::Corrupt, "differ in its length");
    assert_refused(&changed(|member| member.local_name[0] = b'c'), Kind::Corrupt, "differ in its name");
    assert_refused(&changed(|member| member.at = Some(1)), Kind::Corrupt, "differ in its place");
    assert_refused(&changed(|member| member.at = Some(u32::MAX - 1)), Kind::Corrupt, "cut short");
}

#[test]
fn a_stored_member_has_one_length() {
    assert_refused(&changed(|member| member.compressed += 1), Kind::Corrupt, "two lengths");
}

#[test]
fn sixty_four_bit_numbers_that_are_announced_must_be_there() {
    assert_refused(&changed(|member| member.at = Some(u32::MAX)), Kind::Corrupt, "cut short");
}

#[test]
fn every_byte_of_an_array_is_under_its_checksum() {
    let good = archive(&[Member::new("a.npy", matrix())]);
    let start = 30 + 5 + 20;
    let mut seen = 0;
    for at in start..start + matrix().len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        refused(&bytes);
        seen += 1;
    }
    assert_eq!(seen, 128 + 24);
}

/// Also if the changed header looks like one of strings, which a lenient reader leaves out.
#[test]
fn a_change_of_any_byte_of_a_header_is_corruption() {
    for member in [Member::new("a.npy", matrix()), Member::new("a.npy", matrix()).deflated()] {
        let other = Member::new("b.npy", matrix());
        let len = if member.method == 0 { 128 } else { member.data.len() };
        let flips = (0..8).map(|bit| 1 << bit).chain([0xff]);
        let changes = flips.flat_map(|flip| (0..len).map(move |at| (at, flip)));
        for ((at, flip), lenient) in changes.flat_map(|change| [(change, false), (change, true)]) {
            let mut changed = member.clone();
            changed.data[at] ^= flip;
            // The last bits of deflated data have no meaning.
            match read("m.npz", &archive(&[changed, other.clone()]), lenient) {
                Ok((contents, _)) => {
                    assert!(member.method != 0 && contents.checkpoint.tensors.len() == 2, "{at} ^ {flip}");
                }
                Err(error) => assert_eq!(error.kind(), Kind::Corrupt, "{at} ^ {flip}: {error}"),
            }
        }
    }
}

#[test]
fn an_unchanged_member_of_strings_is_unsupported_and_left_out_if_lenient() {
    let mut text = header("<U4", false, "(2,)", 20);
    text.extend([b'x', 0, 0, 0].repeat(8));
    for strings in [Member::new("s.npy", text.clone()), Member::new("s.npy", text).deflated()] {
        let bytes = archive(&[Member::new("a.npy", matrix()), strings]);
        assert_eq!(refused(&bytes).kind(), Kind::Unsupported);
        let (contents, _) = read("m.npz", &bytes, true).unwrap();
        assert_eq!((contents.checkpoint.tensors.len(), contents.repairs.len()), (1, 1));
    }
}

#[test]
fn an_archive_ends_where_its_end_says() {
    let good = archive(&[Member::new("a.npy", matrix())]);
    let (body, _) = good.split_at(good.len() - 22);
    let (start, size) = (body.len() as u32 - 51, 51);
    let with = |count, size, start| [body, &end(count, size, start)].concat();
    assert_eq!(with(1, size, start), good);
    assert_refused(&with(2, size, start), Kind::Corrupt, "a different number of members");
    assert_refused(&with(0, size, start), Kind::Corrupt, "a different number of members");
    assert_refused(&with(1, size - 1, start), Kind::Corrupt, "does not lie before");
    assert_refused(&with(1, size - 1, start + 1), Kind::Corrupt, "directory is damaged");
    assert_refused(&with(1, u32::MAX, start), Kind::Corrupt, "does not lie before");
    assert_refused(&[&b"#!"[..], &good].concat(), Kind::Corrupt, "does not lie before");
    assert_refused(&[&good[..], b"x"].concat(), Kind::Corrupt, "no end");
    assert_refused(&[body, &[0; 22]].concat(), Kind::Corrupt, "no end");
}

#[test]
fn an_archive_of_several_parts_is_refused() {
    assert_refused(&changed(|member| member.disk = 1), Kind::Unsupported, "several parts");
    let mut bytes = changed(|_| ());
    let at = bytes.len() - 22 + 4;
    bytes[at] = 1;
    assert_refused(&bytes, Kind::Corrupt, "contradicts itself");
}

#[test]
fn the_64_bit_end_must_be_where_its_locator_says_and_say_the_same() {
    let good = with_end64(changed(|_| ()));
    let changed_at = |from_end: usize| {
        let mut bytes = good.clone();
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        bytes
    };
    assert_refused(&changed_at(22 + 12), Kind::Corrupt, "not where its locator says");
    assert_refused(&changed_at(22 + 20 + 56), Kind::Corrupt, "not where its locator says");
    assert_refused(&changed_at(22 + 20 + 32), Kind::Corrupt, "several parts");
    assert_refused(&changed_at(22 + 20 + 16), Kind::Corrupt, "does not lie before");
    assert_refused(&changed_at(12), Kind::Corrupt, "contradicts itself");
}

#[test]
fn an_array_has_as_many_bytes_as_its_shape() {
    for (len, shape) in [(23, "(2, 3)"), (25, "(2, 3)"), (4, "(1152921504606846976,)")] {
        let mut bytes = header("<f4", false, shape, 20);
        bytes.extend(vec![0; len]);
        assert_refused(&bytes, Kind::Corrupt, "");
        assert_refused(&archive(&[Member::new("a.npy", bytes)]), Kind::Corrupt, "");
    }
}

#[test]
fn a_header_is_of_a_known_version_and_no_longer_than_its_array() {
    let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}";
    for version in [1, 2, 3] {
        assert!(read("m.npy", &versioned(version, dict), false).is_ok());
    }
    assert_refused(&versioned(4, dict), Kind::Unsupported, "4.0");
    let mut cut = versioned(2, dict);
    cut[8..12].fill(0xff);
    let error = refused(&cut);
    assert!(matches!(error.kind(), Kind::Corrupt | Kind::Limit), "{error}");
    assert_refused(&versioned(2, &format!("{dict}{}", " ".repeat(70_000))), Kind::Unsupported, "longer");
    assert_refused(&versioned(3, &dict.replace("<f4", "ä")), Kind::Unsupported, "ASCII");
}
