//! Archives of many members: how often they are read, and what they are known to lack.

use ckpt_api::{File, Limits, ReadAt, Writer};
use ckpt_containers::zip::{self, record};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes, how often they were read, and how many of them.
#[derive(Debug)]
struct Counting(Vec<u8>, AtomicU64, AtomicU64);

impl ReadAt for Counting {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buffer)?;
        self.1.fetch_add(1, Ordering::Relaxed);
        self.2.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// An archive of so many stored members of `len` bytes.
fn archive(members: u32, len: u32) -> Vec<u8> {
    let (mut bytes, mut directory) = (Writer::new(), Writer::new());
    for number in 0..members {
        let name = format!("archive/data/{number}");
        let at = bytes.len() as u32;
        let name_len = name.len() as u16;
        bytes.bytes(&record::LOCAL).numbers(&[0u16; 5]).numbers(&[7, len, len]).numbers(&[name_len, 0]);
        bytes.bytes(name.as_bytes()).bytes(&vec![number as u8; len as usize]);
        directory.bytes(&record::CENTRAL).numbers(&[0u16; 6]).numbers(&[7, len, len]);
        directory.numbers(&[name_len, 0, 0, 0, 0]).numbers(&[0, at]).bytes(name.as_bytes());
    }
    let (start, size) = (bytes.len() as u32, directory.len() as u32);
    bytes.bytes(&directory.into_bytes()).bytes(&record::END).numbers(&[0u16, 0]);
    bytes.numbers(&[members as u16; 2]).numbers(&[size, start]).number(0u16);
    bytes.into_bytes()
}

fn open(bytes: Vec<u8>) -> (Arc<Counting>, File) {
    let counting = Arc::new(Counting(bytes, AtomicU64::new(0), AtomicU64::new(0)));
    let file = File::new(Arc::clone(&counting) as Arc<dyn ReadAt>, "a.zip").unwrap();
    (counting, file)
}

#[test]
fn small_members_are_located_with_few_reads_and_large_ones_without_reading_their_bytes() {
    for (len, most_reads, most_bytes) in [(1000, 16, 650_000), (100_000, 520, 300_000)] {
        let (counting, file) = open(archive(500, len));
        let (entries, directory) = zip::entries(&file, &Limits::default()).unwrap();
        let members = zip::members(&file, &entries, directory).unwrap();
        let (reads, bytes) = (counting.1.load(Ordering::Relaxed), counting.2.load(Ordering::Relaxed));
        assert!(reads <= most_reads && bytes <= most_bytes, "{len}: {reads} reads of {bytes} bytes");
        assert_eq!(members.len(), 500);
        for (number, member) in members.iter().enumerate() {
            assert_eq!(file.bytes(member.start, member.len).unwrap(), vec![number as u8; len as usize]);
        }
    }
}

#[test]
fn a_text_is_found_in_the_directory_alone() {
    let (counting, file) = open(archive(500, 1000));
    let found = |texts: &[&str]| zip::has_any_text(&file, &Limits::default(), texts).unwrap();
    assert!(found(&["data/499"]) && found(&["a/a"]) == found(&["aa"]) && found(&[""]));
    assert!(!found(&["data/500", ".npy"]) && found(&["data/500", "data/0"]) && !found(&[]));
    let bytes = counting.2.load(Ordering::Relaxed);
    assert!(bytes < 7 * 110_000, "{bytes} bytes were read");
    assert!(zip::has_any_text(&open(vec![0; 100]).1, &Limits::default(), &["a"]).is_err());
}
