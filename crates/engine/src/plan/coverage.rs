//! Whether a plan's items write every byte of the output once.

use super::document::contradiction;
use super::{FileRange, Item, Piece, Plan};
use crate::layout::{Cut, Origins};
use ckpt_api::{Error, Result};

impl Plan {
    /// Checks that every item writes something, and that the pieces of all items are the bytes of every extent that is
    /// written, each of them once, from where they are in the source. Takes the time of sorting the pieces, and a few
    /// bytes for each.
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Unsupported`].
    pub(super) fn check_pieces(&self) -> Result<()> {
        let mut all: Vec<(&FileRange, &Piece)> = Vec::new();
        for item in &self.items {
            let Item::Write(range) = item else { continue };
            if range.pieces.is_empty() {
                return Err(contradiction("an item that writes nothing"));
            }
            all.extend(range.pieces.iter().map(|piece| (range, piece)));
        }
        all.sort_unstable_by_key(|(_, piece)| (piece.tensor, piece.extent, piece.at));
        let mut left = &all[..];
        for (number, cut) in self.cuts() {
            let count = left.iter().take_while(|(_, piece)| piece.tensor == number).count();
            let (own, rest) = left.split_at_checked(count).unwrap_or_default();
            check_cover(&cut, own).map_err(|error| error.tensor(cut.transfer.tensor))?;
            left = rest;
        }
        if left.is_empty() { Ok(()) } else { Err(nowhere()) }
    }
}

/// Checks the pieces of one tensor, which are sorted by their places.
fn check_cover(cut: &Cut<'_>, mut left: &[(&FileRange, &Piece)]) -> Result<()> {
    let origins = Origins::of(cut).map_err(|error| contradiction(error.quoted()))?;
    for (number, extent) in (0u32..).zip(&cut.target.extents) {
        let (mut at, mut done) = (0, false);
        while let Some(((range, piece), rest)) =
            left.split_first().filter(|((_, piece), _)| piece.extent == number)
        {
            left = rest;
            if done || piece.at < at {
                return Err(contradiction("bytes that are written twice"));
            }
            if piece.at > at {
                return Err(unwritten());
            }
            let end = piece.at.checked_add(piece.len).filter(|end| *end <= extent.len).ok_or_else(nowhere)?;
            let place = (extent.offset.checked_add(piece.at), extent.offset.checked_add(end));
            let inside = matches!(place, (Some(start), Some(end)) if range.range.start <= start && end <= range.range.end);
            if extent.file != range.file || !inside || !origins.has(piece) {
                return Err(nowhere());
            }
            if piece.len == 0 && extent.len > 0 {
                return Err(contradiction("a piece that writes nothing"));
            }
            (at, done) = (end, end == extent.len);
        }
        if at < extent.len {
            return Err(unwritten());
        }
    }
    if left.is_empty() { Ok(()) } else { Err(nowhere()) }
}

fn nowhere() -> Error {
    contradiction("a piece that has no place")
}

fn unwritten() -> Error {
    contradiction("bytes that no item writes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Part;
    use crate::recipe::Transform;
    use crate::resources::Resources;
    use crate::source::{OpenOptions, Source};
    use crate::store::MemoryStore;
    use crate::{Conversion, Registry};
    use ckpt_api::{Kind, Limits};
    use std::sync::Arc;

    /// A plan of many items, with pieces in sequence and boxes.
    fn plan() -> Plan {
        let registry = Registry::for_tests();
        let path = "examples/data/digits";
        let source = Source::open(&registry, path, &OpenOptions::default()).unwrap();
        let mut conversion = Conversion::new().resources(Resources::new().item_size(1024));
        conversion.transforms.push(Transform::parse("**/kernel: transpose").unwrap());
        let output = MemoryStore::new().at("out.safetensors");
        conversion.plan(&registry, &source, output).unwrap().plan().clone()
    }

    /// The plan as somebody else would write it, with the right SHA-256.
    fn read_back(plan: &Plan) -> Result<Plan> {
        Plan::from_json(&plan.to_json().unwrap(), &Limits::default())
    }

    /// Every piece of the plan that writes something, by number.
    fn piece(plan: &mut Plan, number: usize) -> Option<&mut Piece> {
        let ranges = plan.items.iter_mut().filter_map(|item| match item {
            Item::Write(range) => Some(range),
            Item::Compare(_) => None,
        });
        ranges.flat_map(|range| &mut range.pieces).filter(|piece| piece.len > 0).nth(number)
    }

    fn is_refused(plan: &Plan, found: &[&str]) {
        let error = read_back(plan).unwrap_err();
        let said = error.to_string();
        assert!(
            error.kind() == Kind::Unsupported && found.iter().any(|found| said.contains(found)),
            "{said}"
        );
    }

    #[test]
    fn a_plan_that_lacks_an_item_or_has_one_twice_is_refused() {
        let plan = plan();
        assert!(plan.items.len() > 10 && read_back(&plan).is_ok());
        for number in 0..plan.items.len() {
            let (mut without, mut twice) = (plan.clone(), plan.clone());
            let item = without.items.remove(number);
            is_refused(&without, &["bytes that no item writes"]);
            twice.items.push(item);
            is_refused(&twice, &["bytes that are written twice"]);
        }
        let mut empty = plan.clone();
        let mut item = empty.items[0].clone();
        if let Item::Write(range) = &mut item {
            range.pieces.clear();
        }
        empty.items.push(item);
        is_refused(&empty, &["an item that writes nothing"]);
        let mut none = plan;
        none.items.truncate(3);
        is_refused(&none, &["bytes that no item writes"]);
    }

    #[test]
    fn a_piece_that_reads_or_writes_elsewhere_is_refused() {
        let changes: [fn(&mut Piece); 7] = [
            |piece| piece.at += 4,
            |piece| piece.at = u64::MAX,
            |piece| piece.len -= 4,
            |piece| piece.len = 0,
            |piece| piece.extent += 1,
            |piece| piece.tensor = u32::MAX,
            |piece| match &mut piece.part {
                Part::Sequence { bytes, .. } => *bytes = bytes.start + 4..bytes.end + 4,
                Part::Box(region) => region.start.iter_mut().for_each(|start| *start += 1),
            },
        ];
        let (original, mut seen) = (plan(), [0; 2]);
        let mut plan = original.clone();
        for number in 0.. {
            let Some(before) = piece(&mut plan, number).map(|piece| piece.clone()) else { break };
            seen[usize::from(matches!(before.part, Part::Box(_)))] += 1;
            for change in changes {
                change(piece(&mut plan, number).unwrap());
                is_refused(&plan, &["no item writes", "written twice", "no place", "writes nothing"]);
                plan = original.clone();
            }
        }
        assert!(seen[0] >= 3 && seen[1] >= 3, "{seen:?}");
    }

    #[test]
    fn a_plan_of_a_file_that_is_much_longer_than_what_is_written_is_refused() {
        let mut plan = plan();
        for (len, is_refused_then) in [(1u64 << 20, false), (1 << 40, true), (u64::MAX, true)] {
            Arc::make_mut(&mut plan.placed).files[0].len = Some(len);
            match is_refused_then {
                true => is_refused(&plan, &["bytes that nothing is written to"]),
                // Zeros between tensors: the alignment of a format, or a weight that the source lacks.
                false => drop(read_back(&plan).unwrap()),
            }
        }
    }

    #[test]
    fn what_a_plan_makes_a_codec_do_wrong_is_the_plans_fault() {
        let of_codec = Error::defect("bytes are written beyond the end of the output");
        let error = crate::plan::blame_document(of_codec);
        let told = error.to_string();
        assert!(error.kind() == Kind::Unsupported && told.contains("the plan contradicts itself"), "{told}");
        assert!(told.contains("beyond the end"), "{told}");
        let other = crate::plan::blame_document(Error::usage("the output exists"));
        assert_eq!(other.kind(), Kind::Usage);
    }

    #[test]
    fn two_boxes_of_one_size_do_not_change_places() {
        let mut plan = plan();
        let boxes: Vec<usize> = (0..)
            .map_while(|number| Some((number, piece(&mut plan, number)?.clone())))
            .filter(|(_, piece)| matches!(piece.part, Part::Box(_)))
            .map(|(number, _)| number)
            .collect();
        let pair = boxes.windows(2).find_map(|pair| {
            let (a, b) = (piece(&mut plan, pair[0])?.clone(), piece(&mut plan, pair[1])?.clone());
            (a.tensor == b.tensor && a.len == b.len).then_some((pair[0], pair[1], a, b))
        });
        let (first, second, a, b) = pair.unwrap();
        piece(&mut plan, first).unwrap().part = b.part;
        piece(&mut plan, second).unwrap().part = a.part;
        is_refused(&plan, &["a piece that has no place"]);
    }
}
