//! NumPy's files through the engine: every other format, checksums, and the real files.

use crate::common::{cases, convert, files, open};
use ckpt::{Conversion, Execution, Kind, Registry, digest};
use std::path::{Path, PathBuf};

fn corpus(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(path)
}

fn to(format: &str) -> Conversion {
    Conversion::new().to(format).overwrite(true)
}

#[test]
fn a_header_and_its_orders_survive_a_stay_in_safetensors() {
    let work = tempfile::tempdir().unwrap();
    let (between, back) = (work.path().join("a.safetensors"), work.path().join("b.npy"));
    let arrays = files(&corpus("npz/accept"), ".npy");
    for array in &arrays {
        convert(open(array, &[]), &between, &to("safetensors"));
        convert(open(&between, &[]), &back, &to("npz"));
        assert_eq!(std::fs::read(&back).unwrap(), std::fs::read(array).unwrap(), "{}", array.display());
    }
    assert_eq!(arrays.len(), 8);
}

#[test]
fn safetensors_files_come_back_from_an_archive_with_the_same_tensors() {
    let work = tempfile::tempdir().unwrap();
    let (between, back) = (work.path().join("a.npz"), work.path().join("b.safetensors"));
    let mut seen = 0;
    for name in ["header_unsorted", "many", "shapes", "two_tensors"] {
        let source = || open(&corpus("safetensors/accept").join(format!("{name}.safetensors")), &[]);
        convert(source(), &between, &to("npz"));
        convert(open(&between, &[]), &back, &to("safetensors"));
        let sum = |source| digest::digest(&source, 1).unwrap().sha256;
        assert_eq!(sum(open(&between, &[])), sum(source()), "{name}");
        assert_eq!(sum(open(&back, &[])), sum(source()), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

#[test]
fn a_wrong_checksum_stops_the_conversion_also_where_axes_are_turned() {
    let work = tempfile::tempdir().unwrap();
    let (array, archive) = (corpus("npz/accept/column_major.npy"), work.path().join("in.npz"));
    convert(open(&array, &[]), &archive, &to("npz"));
    let mut bytes = std::fs::read(&archive).unwrap();
    let last = bytes.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap() - 1;
    bytes[last] ^= 1;
    std::fs::write(&archive, bytes).unwrap();
    for (format, name) in [("safetensors", "a.safetensors"), ("npz", "a.npz")] {
        let output = work.path().join(name);
        let planned = to(format).plan(&Registry::builtin(), &open(&archive, &[]), &output).unwrap();
        let error = planned.execute(&Execution::default(), &|_| ()).unwrap_err();
        assert!(error.kind() == Kind::Corrupt && error.to_string().contains("checksum"), "{error}");
        assert!(!output.exists());
    }
}

#[test]
fn what_numpy_wrote_beside_the_cases_comes_back_byte_for_byte_unless_it_was_deflated() {
    let Some(root) = cases("") else { return };
    let work = tempfile::tempdir().unwrap();
    let back = work.path().join("back.npz");
    let (mut folders, mut stored, mut deflated) = (vec![root], 0, 0);
    while let Some(folder) = folders.pop() {
        let inside = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(inside.filter(|path| path.is_dir()));
        for archive in files(&folder, ".npz") {
            // Some files beside the cases only have the name of an archive.
            if !std::fs::read(&archive).unwrap().starts_with(b"PK") {
                continue;
            }
            convert(open(&archive, &[]), &back, &to("npz"));
            // The method of the first member.
            if std::fs::read(&archive).unwrap()[8] == 8 {
                let sum = |path: &Path| digest::digest(&open(path, &[]), 1).unwrap().sha256;
                assert_eq!(sum(&back), sum(&archive), "{}", archive.display());
                deflated += 1;
            } else {
                assert_eq!(
                    std::fs::read(&back).unwrap(),
                    std::fs::read(&archive).unwrap(),
                    "{}",
                    archive.display()
                );
                stored += 1;
            }
        }
    }
    assert!(stored >= 10 && deflated >= 10, "{stored} stored and {deflated} deflated archives");
}
