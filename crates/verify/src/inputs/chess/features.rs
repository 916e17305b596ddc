//! The sparse inputs and output buckets of a chess network, computed from positions.

use super::position::{KING, MAX_PIECES, Piece, Position};
use ckpt_api::{Attribute, Axis, Checkpoint, Error, Graph, Node, Result, text};
use ckpt_engine::settings;
use ckpt_forward::op;
use std::collections::BTreeMap;

/// Shape and row-major elements of an integer input.
pub type Indices = (Vec<usize>, Vec<i32>);

/// How a network numbers its features.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FeatureSet {
    /// Bucket of each king square, as the king's owner sees the board; empty if there is only one bucket.
    buckets: Vec<i32>,
    /// Whether left and right are exchanged while the king is on the right.
    mirrored: bool,
}

/// Features of one bucket: 6 kinds of 2 colors on 64 squares.
const FEATURES: i32 = 768;

/// Returns a graph's inputs for these positions, by name: `stm` and `ntm` (`[positions, slots]`, padded with −1), and
/// `bucket` (`[positions]`), as far as the graph has them.
///
/// # Errors
/// [`ckpt_api::Kind::Unsupported`] for a graph whose inputs are not chess features, or that does not record its
/// buckets.
pub fn inputs(checkpoint: &Checkpoint, positions: &[Position]) -> Result<BTreeMap<String, Indices>> {
    let graph = checkpoint.graph.as_ref().ok_or_else(|| not_chess("no graph"))?;
    let set = FeatureSet::of(checkpoint, graph)?;
    let lists: Vec<[Vec<i32>; 2]> = positions.iter().map(|position| features(position, &set)).collect();
    let slots = positions.iter().map(|position| position.pieces().len()).max().unwrap_or(0);
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
                let row = |lists: &[Vec<i32>; 2]| {
                    let mut row = lists.get(side).cloned().unwrap_or_default();
                    row.resize(slots, -1);
                    row
                };
                (vec![positions.len(), slots], lists.iter().flat_map(row).collect())
            }
            None => {
                let count = output_buckets(checkpoint, graph)?;
                let buckets =
                    positions.iter().map(|position| i32::try_from(material_bucket(position, count)));
                let buckets = buckets.collect::<Result<Vec<i32>, _>>();
                (vec![positions.len()], buckets.map_err(|_| not_chess("bucket"))?)
            }
        };
        found.insert(input.name.clone(), indices);
    }
    Ok(found)
}

fn not_chess(found: &str) -> Error {
    Error::unsupported("chess positions cannot be converted to this model's inputs")
        .found(found)
        .expected("sparse inputs stm and ntm of 768 features each, and optionally bucket")
        .help(text!["give the feature indices with ", settings::INPUTS])
}

/// Returns the features for both sides, in ascending order of squares as the side to move sees the board.
fn features(position: &Position, set: &FeatureSet) -> [Vec<i32>; 2] {
    let black_to_move = position.black_to_move();
    let flip = if black_to_move { 56 } else { 0 };
    // The square of the king of the side to move, or of the other side, as its owner sees the board.
    let king = |other: bool| {
        let owner = black_to_move != other;
        let king = position.pieces().iter().find(|piece| piece.kind == KING && piece.black == owner);
        king.map_or(0, |king| king.square ^ if owner { 56 } else { 0 })
    };
    let shift = [false, true].map(|other| {
        let square = king(other);
        let bucket = set.buckets.get(usize::from(square)).copied().unwrap_or(0);
        (bucket * FEATURES, if set.mirrored && square % 8 > 3 { 7 } else { 0 })
    });
    let mut pieces: Vec<(u8, Piece)> =
        position.pieces().iter().map(|piece| (piece.square ^ flip, *piece)).collect();
    pieces.sort_by_key(|(square, _)| *square);
    let mut found = [Vec::with_capacity(pieces.len()), Vec::with_capacity(pieces.len())];
    for (square, piece) in pieces {
        let theirs = piece.black != black_to_move;
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

/// Selects one of `count` output buckets by the number of pieces.
fn material_bucket(position: &Position, count: usize) -> usize {
    position.pieces().len().saturating_sub(2) / MAX_PIECES.div_ceil(count.max(1))
}

impl FeatureSet {
    /// Returns the feature set that all of the graph's feature transformers share.
    fn of(checkpoint: &Checkpoint, graph: &Graph) -> Result<Self> {
        let nodes = graph.nodes.iter().filter(|node| node.op.name() == op::FEATURE_TRANSFORMER);
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
            return Err(Error::unsupported("the model does not record which bucket a king's square selects")
                .help("state the layout of the input buckets in the architecture file"));
        };
        let bucket = |square: usize| {
            let at = match (layout.len(), mirrored) {
                (32, true) => square / 8 * 4 + [0, 1, 2, 3, 3, 2, 1, 0].get(square % 8).copied().unwrap_or(0),
                _ => square,
            };
            let bucket = layout.get(at).filter(|bucket| u64::try_from(**bucket).is_ok_and(|b| b < count));
            let bucket = bucket.and_then(|bucket| i32::try_from(*bucket).ok());
            // The largest feature index must fit, too.
            bucket
                .filter(|bucket| bucket.checked_add(1).and_then(|next| next.checked_mul(FEATURES)).is_some())
        };
        let buckets = (0..64).map(bucket).collect::<Option<Vec<i32>>>();
        let buckets =
            buckets.ok_or_else(|| not_chess("a layout that does not assign a bucket to each square"))?;
        Ok(FeatureSet { buckets, mirrored })
    }
}

/// Returns the number of output buckets of a graph in which the number of pieces selects the bucket.
fn output_buckets(checkpoint: &Checkpoint, graph: &Graph) -> Result<usize> {
    let bucketed: Vec<&Node> =
        graph.nodes.iter().filter(|node| node.op.name() == op::BUCKETED_GEMM).collect();
    let other = || {
        Error::unsupported("the model does not record that the number of pieces selects the output bucket")
            .help(text![
                "state the kind of the output buckets in the architecture file, or give bucket with ",
                settings::INPUTS
            ])
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
        let [own, other] = features(&Position::parse(START).unwrap(), &set);
        assert_eq!(own[..9], [192, 65, 130, 259, 324, 133, 70, 199, 8]);
        assert_eq!(other[..9], [632, 505, 570, 699, 764, 573, 510, 639, 432]);
        assert_eq!((own.len(), other.len()), (32, 32));
    }

    #[test]
    fn black_to_move_sees_the_board_from_its_side() {
        let set = FeatureSet { buckets: Vec::new(), mirrored: false };
        let features = |fen: &str| features(&Position::parse(fen).unwrap(), &set);
        let white = features("4k3/8/8/8/8/8/P7/R3K3 w - - 0 1");
        assert_eq!(white, features("r3k3/p7/8/8/8/8/8/4K3 b - - 0 1"));
    }

    #[test]
    fn a_king_on_the_right_mirrors_the_board_and_selects_the_bucket_of_its_mirror_image() {
        let buckets = (0..64).map(|square| i32::from(square % 8 == 1 || square % 8 == 6)).collect();
        let set = FeatureSet { buckets, mirrored: true };
        let features = |fen: &str| features(&Position::parse(fen).unwrap(), &set)[0].clone();
        let mut left = features("4k3/8/8/8/8/8/8/RK6 w - - 0 1");
        let mut right = features("3k4/8/8/8/8/8/8/6KR w - - 0 1");
        left.sort_unstable();
        right.sort_unstable();
        assert_eq!(left, right);
        assert!(left.iter().all(|feature| (768..2 * 768).contains(feature)));
    }

    #[test]
    fn the_number_of_pieces_selects_the_output_bucket() {
        let start = Position::parse(START).unwrap();
        assert_eq!([1, 2, 7, 8].map(|count| material_bucket(&start, count)), [0, 1, 6, 7]);
        let kings = Position::parse("4k3/8/8/8/8/8/8/4K3 w - -").unwrap();
        assert_eq!(material_bucket(&kings, 8), 0);
    }
}
