//! Chess positions as the sparse inputs of an NNUE.

use ckpt_api::{Attribute, Axis, Checkpoint, Error, Graph, Node, Op, Result};
use std::collections::BTreeMap;

/// A position, as far as networks look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Square (a1 is 0, h1 is 7, h8 is 63), color and kind of every piece.
    pieces: Vec<Piece>,
    black_to_move: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    square: u8,
    black: bool,
    /// Pawn 0, knight 1, bishop 2, rook 3, queen 4, king 5.
    kind: u8,
}

const PAWN: u8 = 0;
const KING: u8 = 5;
const KINDS: [char; 6] = ['p', 'n', 'b', 'r', 'q', 'k'];

/// What the sparse input of a network lists for a position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FeatureSet {
    /// The bucket of a king's square as its owner sees it; empty where there is one set of features.
    buckets: Vec<i32>,
    /// Left and right are exchanged where the king is on the right.
    mirrored: bool,
}

/// Features of one set: 6 kinds of 2 colors on 64 squares.
const FEATURES: i32 = 768;

/// Most pieces of a position, and of one color.
const MOST: (usize, usize) = (32, 16);

/// Integers, row-major, and their shape.
pub type Indices = (Vec<usize>, Vec<i32>);

impl Position {
    /// Parses Forsyth–Edwards Notation: placement, side to move, castling rights and en-passant square, and both move counters or
    /// none. Every field must be well-formed; there is one king of each color, and no pawn on the first or last rank.
    ///
    /// ```
    /// use ckpt::verify::chess::Position;
    /// let position = Position::parse("8/8/8/4k3/8/8/4P3/4K3 w - - 0 1")?;
    /// assert!(Position::parse("8/8/8/4k3/8/8/4P3/8 w - - 0 1").is_err());
    /// # Ok::<(), ckpt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ckpt_api::Kind::Usage`], naming the field, what was found and what was expected.
    pub fn parse(fen: &str) -> Result<Self> {
        let shown: String = fen.chars().take(120).flat_map(char::escape_debug).collect();
        Self::fields(fen).map_err(|error| error.found(format!("'{shown}'")))
    }

    fn fields(fen: &str) -> Result<Self> {
        let fields: Vec<&str> = fen.split(' ').collect();
        let (placement, side, castling, passant, counters) = match fields[..] {
            [placement, side, castling, passant] => (placement, side, castling, passant, None),
            [placement, side, castling, passant, half, full] => {
                (placement, side, castling, passant, Some((half, full)))
            }
            _ => {
                return Err(wrong("fields", "6 fields with one space between them, or the first 4"));
            }
        };
        let pieces = placed(placement)?;
        let black_to_move = match side {
            "w" => false,
            "b" => true,
            _ => return Err(wrong("side to move", "w or b")),
        };
        check_castling(castling)?;
        let rank = if black_to_move { b'3' } else { b'6' };
        let passes = matches!(passant.as_bytes(), [b'-'])
            || matches!(passant.as_bytes(), [b'a'..=b'h', found] if *found == rank);
        if !passes {
            return Err(wrong("en-passant square", "- or a square behind a pawn that has just moved"));
        }
        if let Some((half, full)) = counters {
            let number = |text: &str| {
                text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten()
            };
            if number(half).is_none() || number(full).is_none_or(|full| full == 0) {
                return Err(wrong("move counters", "two numbers, of which the second begins at 1"));
            }
        }
        Ok(Position { pieces, black_to_move })
    }

    /// The indices for both sides' sparse inputs, in ascending order of squares as the side to move sees the board.
    fn features(&self, set: &FeatureSet) -> [Vec<i32>; 2] {
        let flip = if self.black_to_move { 56 } else { 0 };
        // Of the side to move, then of the other: where its king is, as it sees the board.
        let king = |other: bool| {
            let owner = self.black_to_move != other;
            let king = self.pieces.iter().find(|piece| piece.kind == KING && piece.black == owner);
            king.map_or(0, |king| king.square ^ if owner { 56 } else { 0 })
        };
        let shift = [false, true].map(|other| {
            let square = king(other);
            let bucket = set.buckets.get(usize::from(square)).copied().unwrap_or(0);
            (bucket * FEATURES, if set.mirrored && square % 8 > 3 { 7 } else { 0 })
        });
        let mut pieces: Vec<(u8, Piece)> =
            self.pieces.iter().map(|piece| (piece.square ^ flip, *piece)).collect();
        pieces.sort_by_key(|(square, _)| *square);
        let mut found = [Vec::with_capacity(pieces.len()), Vec::with_capacity(pieces.len())];
        for (square, piece) in pieces {
            let theirs = piece.black != self.black_to_move;
            let kind = 64 * i32::from(piece.kind);
            let side = |theirs: bool| if theirs { FEATURES / 2 } else { 0 };
            let own = side(theirs) + kind + i32::from(square);
            let other = side(!theirs) + kind + i32::from(square ^ 56);
            for ((list, (base, mirror)), feature) in found.iter_mut().zip(shift).zip([own, other]) {
                list.push(base + (feature ^ mirror));
            }
        }
        found
    }

    /// Which of `count` output buckets its number of pieces chooses.
    fn material_bucket(&self, count: usize) -> usize {
        self.pieces.len().saturating_sub(2) / MOST.0.div_ceil(count.max(1))
    }
}

fn wrong(field: &str, expected: &str) -> Error {
    Error::usage("a position is not valid FEN").field(field).expected(expected)
}

fn placed(placement: &str) -> Result<Vec<Piece>> {
    let placement_error = |expected: &str| wrong("placement", expected);
    let ranks: Vec<&str> = placement.split('/').collect();
    if ranks.len() != 8 {
        return Err(placement_error("8 ranks, from the eighth to the first, with / between them"));
    }
    let mut pieces = Vec::new();
    for (rank, text) in (0u8..8).rev().zip(ranks) {
        let (mut file, mut after_gap) = (0u8, false);
        for c in text.chars() {
            let gap = c.to_digit(10).and_then(|gap| u8::try_from(gap).ok());
            let kind = (0u8..).zip(KINDS).find(|(_, kind)| *kind == c.to_ascii_lowercase());
            match (gap, kind) {
                (Some(gap @ 1..=8), _) if !after_gap => file += gap,
                (_, Some((kind, _))) if file < 8 => {
                    pieces.push(Piece { square: rank * 8 + file, black: c.is_ascii_lowercase(), kind });
                    file += 1;
                }
                _ => return Err(placement_error("pieces PNBRQK and pnbrqk, and numbers of empty squares")),
            }
            after_gap = gap.is_some();
            if file > 8 {
                break;
            }
        }
        if file != 8 {
            return Err(placement_error("8 squares on each rank"));
        }
    }
    for black in [false, true] {
        let own = || pieces.iter().filter(|piece| piece.black == black);
        if own().filter(|piece| piece.kind == KING).count() != 1 {
            return Err(placement_error("one king of each color"));
        }
        if own().count() > MOST.1 {
            return Err(placement_error("at most 16 pieces of each color"));
        }
    }
    if pieces.iter().any(|piece| piece.kind == PAWN && matches!(piece.square / 8, 0 | 7)) {
        return Err(placement_error("no pawns on the first and the last rank"));
    }
    Ok(pieces)
}

fn check_castling(text: &str) -> Result<()> {
    let mut left = "KQkq".chars();
    let in_order = !text.is_empty() && text.chars().all(|c| left.any(|right| right == c));
    match text == "-" || in_order {
        true => Ok(()),
        false => Err(wrong("castling rights", "- or some of KQkq, in this order")),
    }
}

/// The graph's inputs for these positions, by name: `stm` and `ntm` (`[positions, slots]`, padded with −1), and `bucket`
/// (`[positions]`), as far as the graph has them.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a graph whose features are none of chess, or whose buckets it does not explain.
pub fn inputs(checkpoint: &Checkpoint, positions: &[Position]) -> Result<BTreeMap<String, Indices>> {
    let graph = checkpoint.graph.as_ref().ok_or_else(|| not_chess("no graph"))?;
    let set = FeatureSet::of(checkpoint, graph)?;
    let features: Vec<[Vec<i32>; 2]> = positions.iter().map(|position| position.features(&set)).collect();
    let slots = positions.iter().map(|position| position.pieces.len()).max().unwrap_or(0);
    let mut found = BTreeMap::new();
    for input in &graph.inputs {
        let side = match input.name.as_str() {
            "stm" => Some(0),
            "ntm" => Some(1),
            "bucket" => None,
            name => return Err(not_chess(name)),
        };
        let indices = match side {
            Some(side) => {
                let row = |features: &[Vec<i32>; 2]| {
                    let mut row = features.get(side).cloned().unwrap_or_default();
                    row.resize(slots, -1);
                    row
                };
                (vec![positions.len(), slots], features.iter().flat_map(row).collect())
            }
            None => {
                let count = output_buckets(checkpoint, graph)?;
                let buckets = positions.iter().map(|position| i32::try_from(position.material_bucket(count)));
                let buckets = buckets.collect::<Result<Vec<i32>, _>>();
                (vec![positions.len()], buckets.map_err(|_| not_chess("bucket"))?)
            }
        };
        found.insert(input.name.clone(), indices);
    }
    Ok(found)
}

fn not_chess(found: &str) -> Error {
    Error::unsupported(
        "the model's inputs are not those of a chess network that positions can be turned into",
    )
    .found(found)
    .expected("sparse inputs stm and ntm of 768 features each, and perhaps bucket")
    .help("give the indices themselves with --input")
}

impl FeatureSet {
    /// What the graph's feature transformers say; they must all say the same.
    fn of(checkpoint: &Checkpoint, graph: &Graph) -> Result<Self> {
        let nodes = graph.nodes.iter().filter(|node| node.op == Op::FeatureTransformer);
        let mut sets =
            nodes.map(|node| Self::of_node(checkpoint, node).map_err(|error| error.field(&node.name)));
        let first = sets.next().ok_or_else(|| not_chess("no sparse input"))??;
        for set in sets {
            if set? != first {
                return Err(not_chess("two different sets of features"));
            }
        }
        Ok(first)
    }

    fn of_node(checkpoint: &Checkpoint, node: &Node) -> Result<Self> {
        let weight = node.parameters.get("weight").and_then(|name| checkpoint.tensor(name));
        let (_, weight) = weight.ok_or_else(|| not_chess("no weight"))?;
        let len = |axis| weight.axis(axis).and_then(|axis| weight.shape.get(axis).copied());
        if len(Axis::Feature) != Some(768) {
            return Err(not_chess(&format!("{:?} features", len(Axis::Feature).unwrap_or(0))));
        }
        let mirrored = node.attributes.get("mirrored") == Some(&Attribute::Int(1));
        let Some(count) = len(Axis::Bucket) else { return Ok(FeatureSet { buckets: Vec::new(), mirrored }) };
        let Some(Attribute::Ints(layout)) = node.attributes.get("layout") else {
            return Err(Error::unsupported("the model does not say which bucket a king's square chooses")
                .help("state the layout of the input buckets in the architecture file"));
        };
        let bucket = |square: usize| {
            let at = match (layout.len(), mirrored) {
                (32, true) => square / 8 * 4 + [0, 1, 2, 3, 3, 2, 1, 0].get(square % 8).copied().unwrap_or(0),
                _ => square,
            };
            let bucket = layout.get(at).filter(|bucket| u64::try_from(**bucket).is_ok_and(|b| b < count));
            let bucket = bucket.and_then(|bucket| i32::try_from(*bucket).ok());
            // The largest index must fit, too.
            bucket
                .filter(|bucket| bucket.checked_add(1).and_then(|next| next.checked_mul(FEATURES)).is_some())
        };
        let buckets = (0..64).map(bucket).collect::<Option<Vec<i32>>>();
        let buckets = buckets.ok_or_else(|| not_chess("a layout that does not give each square a bucket"))?;
        Ok(FeatureSet { buckets, mirrored })
    }
}

/// How many output buckets there are, where the number of pieces chooses them.
fn output_buckets(checkpoint: &Checkpoint, graph: &Graph) -> Result<usize> {
    let bucketed: Vec<&Node> = graph.nodes.iter().filter(|node| node.op == Op::BucketedGemm).collect();
    let other = || {
        Error::unsupported("the model does not say that the number of pieces chooses the output bucket").help(
            "state the kind of the output buckets in the architecture file, or give bucket with --input",
        )
    };
    let material = Attribute::Text("material_count".to_owned());
    if bucketed.is_empty() || bucketed.iter().any(|node| node.attributes.get("kind") != Some(&material)) {
        return Err(other());
    }
    let count = bucketed.iter().find_map(|node| {
        let (_, weight) = checkpoint.tensor(node.parameters.get("weight")?)?;
        usize::try_from(*weight.shape.get(weight.axis(Axis::Bucket)?)?).ok()
    });
    count.filter(|count| *count > 0).ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

    #[test]
    fn the_initial_position_has_the_indices_that_bullet_gives_it() {
        let set = FeatureSet { buckets: Vec::new(), mirrored: false };
        let [own, other] = Position::parse(START).unwrap().features(&set);
        assert_eq!(own[..9], [192, 65, 130, 259, 324, 133, 70, 199, 8]);
        assert_eq!(other[..9], [632, 505, 570, 699, 764, 573, 510, 639, 432]);
        assert_eq!((own.len(), other.len()), (32, 32));
    }

    #[test]
    fn black_to_move_sees_the_board_from_its_side() {
        let set = FeatureSet { buckets: Vec::new(), mirrored: false };
        let features = |fen: &str| Position::parse(fen).unwrap().features(&set);
        let white = features("4k3/8/8/8/8/8/P7/R3K3 w - - 0 1");
        assert_eq!(white, features("r3k3/p7/8/8/8/8/8/4K3 b - - 0 1"));
    }

    #[test]
    fn a_king_on_the_right_mirrors_the_board_and_chooses_the_bucket_of_its_mirror_image() {
        let buckets = (0..64).map(|square| i32::from(square % 8 == 1 || square % 8 == 6)).collect();
        let set = FeatureSet { buckets, mirrored: true };
        let features = |fen: &str| Position::parse(fen).unwrap().features(&set)[0].clone();
        let mut left = features("4k3/8/8/8/8/8/8/RK6 w - - 0 1");
        let mut right = features("3k4/8/8/8/8/8/8/6KR w - - 0 1");
        left.sort_unstable();
        right.sort_unstable();
        assert_eq!(left, right);
        assert!(left.iter().all(|feature| (768..2 * 768).contains(feature)));
    }

    #[test]
    fn the_number_of_pieces_chooses_the_output_bucket() {
        let start = Position::parse(START).unwrap();
        assert_eq!([1, 2, 7, 8].map(|count| start.material_bucket(count)), [0, 1, 6, 7]);
        let kings = Position::parse("4k3/8/8/8/8/8/8/4K3 w - -").unwrap();
        assert_eq!(kings.material_bucket(8), 0);
    }

    #[test]
    fn what_is_no_fen_is_refused_with_the_field() {
        for (fen, field) in [
            ("", "fields"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0", "fields"),
            ("4k3/8/8/8/8/8/8/4K3  w - - 0 1", "fields"),
            ("4k3/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/9/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/44/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k4/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k2/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4x3/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("8/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/3KK3 w - - 0 1", "placement"),
            ("4k2p/8/8/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/P3K3 w - - 0 1", "placement"),
            ("4k3/nnnnnnnn/nnnnnnnn/8/8/8/8/4K3 w - - 0 1", "placement"),
            ("4k3/8/8/8/8/8/8/4K3 x - - 0 1", "side to move"),
            ("4k3/8/8/8/8/8/8/4K3 w qk - 0 1", "castling rights"),
            ("4k3/8/8/8/8/8/8/4K3 w KK - 0 1", "castling rights"),
            ("4k3/8/8/8/8/8/8/4K3 w - e3 0 1", "en-passant square"),
            ("4k3/8/8/8/8/8/8/4K3 w - i6 0 1", "en-passant square"),
            ("4k3/8/8/8/8/8/8/4K3 w - - -1 1", "move counters"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 0", "move counters"),
            ("4k3/8/8/8/8/8/8/4K3 w - - 0 99999", "move counters"),
        ] {
            let error = Position::parse(fen).unwrap_err();
            assert_eq!(error.kind(), ckpt_api::Kind::Usage);
            assert_eq!(error.context().field, Some(field), "{fen}");
        }
    }
}
