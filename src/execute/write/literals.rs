//! What is no tensor: headers, directories, checksums.

use super::Writer;
use crate::store::Stage;
use ckpt_api::{Literal, Result};

/// Writes literals to the staged files. Those that follow each other become one write, in whatever order they come: an
/// archive of 20,000 tensors has 100,000 of them. Where two overlap at the same first byte, the later one stays.
pub(crate) fn write_literals<'a>(
    stage: &dyn Stage,
    literals: impl Iterator<Item = &'a Literal>,
) -> Result<()> {
    let mut literals: Vec<&Literal> = literals.collect();
    literals.sort_by_key(|literal| (literal.file, literal.offset));
    for literals in literals.chunk_by(|one, next| one.file == next.file) {
        let Some(first) = literals.first() else { continue };
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
        write_literals(&*stage, literals.iter()).unwrap();
        let written = |file| {
            let file = stage.open(FileId(file)).unwrap();
            let mut bytes = vec![0; file.size().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(written(0), b"1234\0\0\089");
        assert_eq!(written(1), b"abc");
    }
}
