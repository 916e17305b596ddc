//! What is no tensor: headers, directories, checksums.

use super::Writer;
use crate::store::Stage;
use ckpt_api::{Error, Literal, OutputFile, Result};

/// Writes literals to the staged files. Those that follow each other become one write, in whatever order they come: an
/// archive of 20,000 tensors has 100,000 of them. Where two overlap at the same first byte, the later one stays.
///
/// # Errors
/// [`ckpt_api::Kind::Defect`] for bytes outside their file, which finishing a document's plan can give.
pub(crate) fn write_literals<'a>(
    stage: &dyn Stage,
    files: &[OutputFile],
    literals: impl Iterator<Item = &'a Literal>,
) -> Result<()> {
    let mut literals: Vec<&Literal> = literals.collect();
    literals.sort_by_key(|literal| (literal.file, literal.offset));
    for literals in literals.chunk_by(|one, next| one.file == next.file) {
        let Some(first) = literals.first() else { continue };
        check_inside(files, literals)?;
        let file = stage.file(first.file)?;
        let mut writer = Writer::new(&*file);
        for (number, literal) in literals.iter().enumerate() {
            let next = literals.get(number + 1);
            // Each byte is written once where that is simple: a store may have sent the first ones already.
            if next
                .is_some_and(|next| next.offset == literal.offset && next.bytes.len() >= literal.bytes.len())
            {
                continue;
            }
            writer.write_at(literal.offset, &literal.bytes)?;
        }
        writer.flush()?;
    }
    Ok(())
}

/// Checks that literals of one file end within it. A file whose length only they decide has no bytes but theirs.
fn check_inside(files: &[OutputFile], literals: &[&Literal]) -> Result<()> {
    let Some(file) = literals.first().and_then(|literal| files.get(literal.file.0)) else { return Ok(()) };
    let all = literals.iter().fold(0u64, |sum, literal| sum.saturating_add(literal.bytes.len() as u64));
    let len = file.len.unwrap_or(all);
    let is_outside = |literal: &&&Literal| {
        literal.offset.checked_add(literal.bytes.len() as u64).is_none_or(|end| end > len)
    };
    match literals.iter().find(is_outside) {
        None => Ok(()),
        Some(literal) => Err(Error::defect("bytes lie outside their file")
            .file(&file.name)
            .offset(literal.offset)
            .found(ckpt_api::count(literal.bytes.len(), "byte"))
            .expected(format!("a file of {len}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, StageRequest, Store};
    use ckpt_api::{FileId, OutputFile};

    #[test]
    fn literals_lie_where_they_belong_in_whatever_order_they_come() {
        let files = [OutputFile::new("a", 9), OutputFile::new("b", 3)];
        let stage = MemoryStore::new().stage(&StageRequest::new("a", &files)).unwrap();
        let literal =
            |file, offset, bytes: &[u8]| Literal { file: FileId(file), offset, bytes: bytes.to_vec() };
        let literals = [
            literal(0, 7, b"89"),
            literal(1, 0, b"abc"),
            literal(0, 0, b"...4"),
            literal(0, 5, b""),
            literal(0, 0, b"123"),
        ];
        write_literals(&*stage, &files, literals.iter()).unwrap();
        let written = |file| {
            let file = stage.open(FileId(file)).unwrap();
            let mut bytes = vec![0; file.size().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(written(0), b"1234\0\0\089");
        assert_eq!(written(1), b"abc");
    }

    #[test]
    fn a_literal_outside_its_file_is_refused_before_anything_is_written() {
        let files = [OutputFile::new("a", 9), OutputFile::of_unknown_length("b")];
        let stage = MemoryStore::new().stage(&StageRequest::new("a", &files)).unwrap();
        let write = |file, offset| {
            let literal = Literal { file: FileId(file), offset, bytes: b"abc".to_vec() };
            write_literals(&*stage, &files, std::iter::once(&literal))
        };
        for (file, offset) in [(0, 7), (0, 99_999_999_999), (0, u64::MAX), (1, 1 << 40)] {
            let error = write(file, offset).unwrap_err();
            assert!(
                error.kind() == ckpt_api::Kind::Defect && error.to_string().contains("outside"),
                "{error}"
            );
        }
        write(0, 6).unwrap();
        write(1, 0).unwrap();
    }
}
