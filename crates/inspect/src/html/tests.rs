use super::blocks::{Block, Folded, Group, Repeat};
use super::constants::{Layers, separate};
use super::fold::{BOXES, each, fold as fold_layers};
use super::layout::{HEIGHT, WIDTH, layout};
use super::scopes::Uses;
use super::tensors;
use super::*;
use crate::{Histogram, Preview, Stats, inspect};
use ckpt_api::{DType, Metadata, Node, Op, Shape, Value};
use ckpt_engine::source::{OpenOptions, Source};
use ckpt_html::rules::{stands_alone, tags, well_formed};

/// Names as a hostile file would have them.
const HOSTILE: [&str; 4] = [
    "<script>alert('x')</script>",
    "\"><img src=https://example.com/x.png>",
    "a & b' onmouseover=\"x\"</title></template></style>",
    "\u{202e}\u{0}\x1b[31m",
];

fn hostile(number: usize) -> String {
    format!("{}{number}", HOSTILE[number % HOSTILE.len()])
}

fn harmless(number: usize) -> String {
    format!("block{}/layer{number}", number / 10)
}

/// Folds a graph whose tensors all have the same shape.
fn fold(graph: &Graph) -> Folded {
    fold_shapes(graph, |_| String::new())
}

/// Folds a graph whose tensors have these shapes.
fn fold_shapes(graph: &Graph, shape: impl Fn(&str) -> String) -> Folded {
    let layers = layers_of(graph);
    fold_layers(&layers, &Uses::of(&layers.graph), shape)
}

/// The layers of a graph whose tensors are unknown.
fn layers_of(graph: &Graph) -> Layers {
    separate(graph, &HashMap::new())
}

fn value(name: String) -> Value {
    Value::new(name, vec![None, Some(64)])
}

/// A chain of layers, each with a weight, in which every third also takes from two before it.
fn graph(layers: usize, name: impl Fn(usize) -> String) -> Graph {
    let made = |index: usize| format!("v{index}");
    let node = |index: usize| {
        let mut node = Node::new(name(index), Op::Gemm).parameter("weight", format!("{}/w", name(index)));
        node.inputs = vec![made(index)];
        if index % 3 == 2 {
            node.inputs.push(made(index - 2));
        }
        node.outputs = vec![made(index + 1)];
        node
    };
    let graph = Graph {
        name: name(0),
        inputs: vec![value(made(0))],
        outputs: vec![value(made(layers))],
        nodes: (0..layers).map(node).collect(),
    };
    graph.check().unwrap();
    graph
}

fn tensor(name: String, number: usize) -> TensorSummary {
    let mut counts = [0; Histogram::BINS];
    counts.iter_mut().zip(0u16..).for_each(|(count, part)| *count = (part * 7 + 3) % 23);
    let samples = counts.iter().map(|count| u64::from(*count)).sum();
    TensorSummary {
        key: None,
        dtype: DType::F32,
        logical_dtype: None,
        blocks: None,
        scheme: None,
        scale: None,
        quantization: None,
        shape: Shape::new([300, 64]).unwrap(),
        axes: None,
        role: [Role::Weight, Role::Optimizer][number % 2],
        bytes: 4 * 300 * 64,
        extents: 1,
        stats: Some(Box::new(Stats { min: Some(-1.5), max: Some(2.0), finite: 19200, ..Stats::default() })),
        histogram: Some(Box::new(Histogram { counts, samples })),
        preview: Some(Box::new(Preview {
            first: vec![-1.5, 0.25],
            sampled: [32, 32],
            levels: (0..1024u16).filter(|_| number < Preview::MAPS).map(|level| (level % 64) as u8).collect(),
            largest: 2.0,
        })),
        name: name.into(),
    }
}

fn inspection(layers: usize, name: impl Fn(usize) -> String) -> Inspection {
    let mut metadata = Metadata::default();
    metadata.insert("nn", &name(1), name(2));
    let names = (0..layers).map(|index| format!("{}/w", name(index)));
    Inspection {
        path: name(0),
        format: "nn",
        title: "a format",
        reason: name(1),
        evidence: vec![],
        files: vec![FileSummary { name: name(2), bytes: Some(5), tensors: 1 }],
        tensors: names.enumerate().map(|(number, name)| tensor(name, number)).collect(),
        groups: None,
        graph: (layers > 0).then(|| graph(layers, &name)),
        metadata,
        repairs: vec![ckpt_api::Repair { subject: name(3), detail: name(0) }],
        notes: vec![name(1)],
    }
}

#[test]
fn a_page_is_well_formed_whatever_its_names_and_stands_alone() {
    for layers in [0, 1, 9, 47, 48, 49, 300] {
        well_formed(&page(&inspection(layers, hostile)));
        stands_alone(&page(&inspection(layers, harmless)));
    }
}

#[test]
fn a_name_is_text_whatever_it_contains() {
    let names = |page: &str| -> Vec<String> { tags(page).into_iter().map(|(name, _)| name).collect() };
    let page = page(&inspection(9, hostile));
    // The same tags as with harmless names: no name became one.
    assert_eq!(names(&page), names(&super::page(&inspection(9, |number| format!("name{number}")))));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;0/w"));
    assert!(page.contains("\\u{202e}\\u{0}\\u{1b}[31m"));
    assert!(!page.contains(['\u{202e}', '\0', '\x1b']));
}

#[test]
fn a_page_states_what_the_checkpoint_holds_and_what_it_leaves_out() {
    let page = page(&inspection(300, harmless));
    for words in [
        "<dt>weights</dt><dd>2,880,000 numbers</dd>",
        "<dt>dtypes</dt><dd>300 f32</dd>",
        "for 300 tensors (marked ≈), an even sample of at most 16,384",
        "The first 200 of 300 rows",
        "data-find=\"block7/layer71\"",
        "32 of 300 rows, 32 of 64 columns",
        "data-first=\"-1.5  0.25 …\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(super::page(&inspection(0, harmless)).contains("There are no tensors."));
    let long = super::page(&inspection(3, |number| format!("{number}{}", "x".repeat(1 << 20))));
    assert!(long.len() < 100_000 && long.contains("… (1048577 characters)"), "{}", long.len());
}

#[test]
fn integers_have_no_decimals_and_notes_are_shown() {
    let mut inspection = inspection(1, harmless);
    inspection.tensors[0].dtype = DType::I64;
    let stats = inspection.tensors[0].stats.as_mut().unwrap();
    (stats.min, stats.max, stats.mean) = (Some(-1.0), Some(16384.0), Some(2.5));
    let page = page(&inspection);
    assert!(page.contains("<td>-1</td><td>16384</td><td>2.5</td>"), "{page}");
    assert!(page.contains("<dt>note</dt><dd>") && page.contains("<dt>repaired</dt><dd>"));
}

#[test]
fn the_page_of_twenty_thousand_tensors_has_a_few_megabytes() {
    let page = page(&inspection(20_000, |number| format!("model/block{}/layer{number}", number / 9)));
    assert!(page.len() < 20 << 20, "{}", page.len());
    let (first, _) = page.split_once("<template>").unwrap();
    assert!(first.matches("<tr").count() < 500, "what is laid out at once stays small");
}

#[test]
fn a_page_is_deterministic_and_has_a_histogram_for_each_tensor_of_numbers() {
    let made = || {
        let path = "examples/data/digits";
        let source = Source::open(&ckpt::Registry::builtin(), path, &OpenOptions::default()).unwrap();
        page(&inspect(&source, true).unwrap())
    };
    let page = made();
    assert_eq!(page, made());
    assert_eq!(page.matches("class=\"spark\"").count(), 15, "all but the object graph, which is text");
    well_formed(&page);
}

/// A chain of blocks of a layer with an activation and a layer without.
fn blocks(count: usize, name: impl Fn(usize, &str) -> String) -> Graph {
    let layer = |block: usize, part: &str, op: Op| Node::new(name(block, part), op);
    let nodes = (0..count).flat_map(|block| {
        let up = layer(block, "up", Op::Gemm).parameter("weight", name(block, "up.w"));
        let down = layer(block, "down", Op::Gemm).parameter("weight", name(block, "down.w"));
        [up, layer(block, "act", Op::Relu), down]
    });
    Graph::sequential("", vec![None, Some(4)], vec![None, Some(4)], nodes.collect())
}

#[test]
fn an_activation_is_drawn_in_its_layers_box_unless_something_else_uses_the_layer() {
    let chain = blocks(2, |block, part| format!("{part}{block}"));
    let ranges = |graph: &Graph| -> Vec<std::ops::Range<usize>> {
        let drawn = each(&layers_of(graph)).unwrap();
        drawn.blocks.iter().map(Block::layers).filter(|layers| !layers.is_empty()).collect()
    };
    assert_eq!(ranges(&chain), [0..2, 2..3, 3..5, 5..6]);
    let mut shared = chain;
    let value = shared.nodes[0].outputs[0].clone();
    shared.nodes[2].inputs.push(value);
    assert_eq!(ranges(&shared), [0..1, 1..2, 2..3, 3..5, 5..6]);
}

#[test]
fn repeated_blocks_are_one_box_and_one_with_another_shape_is_not() {
    let graph = blocks(60, |block, part| format!("model.layers.{block}.{part}"));
    let repeat = |layers, first: usize, last: usize, times| {
        let name = |number| format!("model.layers.{number}");
        let start = 3 * first;
        let inside = [start..start + 2, start + 2..start + 3].map(Block::Layers).to_vec();
        Block::Repeat(Repeat { layers, first: name(first), last: name(last), times, inside })
    };
    let folded = fold(&graph);
    assert_eq!(folded.blocks, [Block::Input(0), repeat(0..180, 0, 59, 60), Block::Output(0)]);
    let odd = fold_shapes(&graph, |tensor| (tensor == "model.layers.7.up.w").to_string());
    let inside = [21..23, 23..24].map(Block::Layers).to_vec();
    let group = Group { layers: 21..24, name: "layers.7".into(), inside };
    let expected = [repeat(0..21, 0, 6, 7), Block::Group(group), repeat(24..180, 8, 59, 52)];
    assert_eq!(odd.blocks[1..4], expected);
}

/// A chain of a stem and `count` blocks of a layer and a normalization with an activation, as Keras names them.
fn keras(count: usize, name: impl Fn(&str, usize) -> String) -> Graph {
    let stem = Node::new("stem", Op::Conv).parameter("weight", "stem/kernel");
    let block = |number: usize| {
        let (conv, bn) = (name("conv", number), name("bn", number));
        let weight = format!("{conv}/kernel");
        [
            Node::new(conv, Op::Conv).parameter("weight", weight),
            Node::new(bn, Op::BatchNormalization),
            Node::new(name("relu", number), Op::Relu),
        ]
    };
    let nodes: Vec<Node> = [stem].into_iter().chain((0..count).flat_map(block)).collect();
    Graph::sequential("", vec![None, Some(4)], vec![None, Some(4)], nodes)
}

fn repeats(folded: &Folded) -> Vec<(std::ops::Range<usize>, &str, &str, usize)> {
    let repeat = |block| match block {
        &Block::Repeat(Repeat { ref layers, ref first, ref last, times, .. }) => {
            Some((layers.clone(), first.as_str(), last.as_str(), times))
        }
        _ => None,
    };
    folded.blocks.iter().filter_map(repeat).collect()
}

#[test]
fn blocks_of_keras_layers_fold_though_their_names_have_no_common_start() {
    let numbered = fold(&keras(60, |layer, number| format!("{layer}_{number}")));
    assert_eq!(repeats(&numbered), [(1..181, "conv_0", "conv_59", 60)]);
    let by_block = fold(&keras(60, |layer, number| format!("block{number}_{layer}")));
    assert_eq!(repeats(&by_block), [(1..181, "block0", "block59", 60)]);
    let automatic = |layer: &str, number| match number {
        0 => layer.to_owned(),
        number => format!("{layer}_{number}"),
    };
    let automatic = fold(&keras(60, automatic));
    assert_eq!(repeats(&automatic), [(1..181, "conv", "conv_59", 60)]);
    let mut inspection = inspection(3, harmless);
    inspection.graph = Some(keras(60, |layer, number| format!("{layer}_{number}")));
    let page = page(&inspection);
    assert!(page.contains(">conv_0 … conv_59</text>") && page.contains(">× 60 · 3 layers each</text>"));
}

#[test]
fn blocks_with_other_wiring_or_attributes_do_not_fold() {
    let named = |layer: &str, number| format!("{layer}_{number}");
    let mut strided = keras(60, named);
    strided.nodes[1 + 3 * 30].attributes.insert("strides".into(), ckpt_api::Attribute::Ints(vec![2, 2]));
    let found: Vec<usize> = repeats(&fold(&strided)).iter().map(|repeat| repeat.3).collect();
    assert_eq!(found, [30, 29]);
    // Block 30 takes from the stem.
    let mut wired = keras(60, named);
    wired.nodes[1 + 3 * 30].inputs = wired.nodes[0].outputs.clone();
    let found: Vec<usize> = repeats(&fold(&wired)).iter().map(|repeat| repeat.3).collect();
    assert_eq!(found, [30, 29]);
}

#[test]
fn residual_blocks_fold_where_one_value_passes() {
    // Blocks of two layers and a sum with what the block took; a value of each block is used in the next alone.
    let mut nodes = vec![Node::new("stem", Op::Conv)];
    let mut last = "x0".to_owned();
    nodes[0].inputs = vec!["in".into()];
    nodes[0].outputs = vec![last.clone()];
    for block in 0..8 {
        let mut add = |name: &str, op: Op, inputs: [&str; 2]| {
            let mut node = Node::new(format!("{name}{}", nodes.len()), op);
            let number = nodes.len();
            node.inputs =
                inputs.iter().filter(|input| !input.is_empty()).map(|input| input.to_string()).collect();
            node.outputs = vec![format!("x{number}")];
            nodes.push(node);
            format!("x{number}")
        };
        let first = add("a", Op::Conv, [&last, ""]);
        let second = add("b", Op::Conv, [&first, ""]);
        last = add("sum", Op::Add, [&second, &last]);
        assert_eq!(last, format!("x{}", 3 * block + 3));
    }
    let graph =
        Graph { name: "".into(), inputs: vec![value("in".into())], outputs: vec![value(last)], nodes };
    graph.check().unwrap();
    let folded = fold(&graph);
    assert_eq!(repeats(&folded), [(1..25, "a1", "a22", 8)]);
    assert_eq!(folded.lines.len(), 3, "in, stem, blocks, out");
}

#[test]
fn tensors_of_keras_blocks_share_a_group() {
    let mut own = inspection(0, harmless);
    let parts = |block: usize| [format!("conv_{block}/kernel"), format!("bn_{block}/gamma")];
    own.tensors = (0..12).flat_map(parts).map(|name| tensor(name, 0)).collect();
    let page = page(&own);
    assert!(page.contains("<code>conv_0 … conv_11</code> <span class=\"badge\">× 12</span>"), "{page}");
    assert_eq!(page.matches("class=\"leaf\"").count(), 2, "the tensors of one of them");
}

#[test]
fn layer2_comes_before_layer10_where_the_checkpoint_sorts_names() {
    let mut own = inspection(0, harmless);
    let mut names: Vec<String> = (0..12).map(|number| format!("layer{number}/w")).collect();
    names.sort();
    own.tensors = names.into_iter().map(|name| tensor(name, 0)).collect();
    let (text, rows) = (page(&own), 12);
    let places: Vec<usize> =
        (0..rows).map(|number| text.find(&format!("<td><code>layer{number}/w</code>")).unwrap()).collect();
    assert!(places.is_sorted());
}

/// A page of tensors without a graph that have these names.
fn page_of(names: impl IntoIterator<Item = String>) -> String {
    let mut own = inspection(0, harmless);
    own.tensors = names.into_iter().map(|name| tensor(name, 0)).collect();
    page(&own)
}

#[test]
fn groups_whose_names_are_numbers_are_in_their_order_however_long_the_numbers() {
    // Beyond 64 bits, and out of alphabetical order.
    let numbers = ["100000000000000000000", "7", "20000000000000000000", "10", "9"];
    let page = page_of(numbers.iter().map(|number| format!("part.{number}.w{number}")));
    let places = ["7", "9", "10", "20000000000000000000", "100000000000000000000"]
        .map(|number| page.find(&format!("<summary><code>{number}</code>")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn groups_beside_one_that_is_no_number_stay_in_the_checkpoints_order() {
    let page = page_of(["5.w", "stem.wide", "0.long", "head.longer"].map(|name| format!("part.{name}")));
    let places =
        ["5", "stem", "0", "head"].map(|part| page.find(&format!("<summary><code>{part}</code>")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn the_structure_of_a_checkpoint_ends_after_a_number_of_lines_and_says_so_only_where_more_follows() {
    use super::tree::LINES;
    let lines = |page: &str| {
        let tree = &page[page.find("<div class=\"tree\">").unwrap()..page.find("<h2>Tensors").unwrap()];
        tree.matches("<details").count() + tree.matches("class=\"leaf\"").count()
    };
    const CUT: &str = "The list ends after 3,000 lines.";
    // One line of each is the group's own.
    let of_one_group = |tensors: usize| page_of((0..tensors).map(|number| format!("all.tensor{number}")));
    let full = of_one_group(LINES - 1);
    assert_eq!((lines(&full), full.contains(CUT)), (LINES, false));
    for more in [LINES, 2 * LINES] {
        let cut = of_one_group(more);
        assert_eq!((lines(&cut), cut.contains(CUT)), (LINES, true), "{more}");
    }
    // Two lines of each group; groups with other contents are not folded.
    let of_groups = |groups: usize| page_of((0..groups).map(|number| format!("{number}.w{number}")));
    let full = of_groups(LINES / 2);
    assert_eq!((lines(&full), full.contains(CUT)), (LINES, false));
    let cut = of_groups(LINES / 2 + 1);
    assert_eq!((lines(&cut), cut.contains(CUT)), (LINES, true));
}

#[test]
fn names_without_visible_characters_are_seen() {
    let mut own = inspection(3, |number| " ".repeat(number));
    own.tensors[0].name = "a//w".into();
    let text = page(&own);
    assert!(text.contains("<code>&#39; &#39;</code>") && text.contains(">&#39;  &#39;</text>"));
    own.graph = None;
    assert!(page(&own).contains("<code>&#39;&#39;</code>"));
}

#[test]
fn no_line_of_a_box_touches_its_border() {
    let mut graph = keras(60, |layer, number| format!("{layer}_{number}"));
    graph.nodes[0].name = "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM".into();
    let mut own = inspection(3, harmless);
    own.graph = Some(graph);
    let text = page(&own);
    assert!(!text.contains("MMMMMMMMMMMM</text>") && text.contains("…MMMM"));
}

#[test]
fn a_page_with_repeated_blocks_has_a_folded_drawing_that_opens_to_one_block_and_one_of_all_layers() {
    let mut inspection = inspection(3, harmless);
    inspection.graph = Some(blocks(60, |block, part| format!("model.layers.{block}.{part}")));
    let page = page(&inspection);
    for words in [
        "All 180 layers",
        "× 60 · 3 layers each",
        "model.layers.0 … 59",
        "<a href=\"#part1\">",
        "<div id=\"part1\"",
        "id=\"box177\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    well_formed(&page);
}

#[test]
fn numbers_in_a_box_are_never_cut() {
    let mut inspection = inspection(1, |number| format!("{number}{}", "x".repeat(99)));
    inspection.tensors[0].shape = Shape::new([1_234_567, 12_345_678]).unwrap();
    inspection.tensors[0].axes = Some([ckpt_api::Axis::Out, ckpt_api::Axis::In].into());
    assert!(page(&inspection).contains(">12,345,678→1,234,567</text>"));
}

#[test]
fn columns_without_values_are_left_out() {
    let heads = |inspection: &Inspection| {
        let tensors: Vec<&TensorSummary> = inspection.tensors.iter().collect();
        let (text, _) = tensors::section(&tensors, inspection.graph.as_ref());
        ["dtype", "NaN", "mean", "layer or role"].map(|head| text.contains(&format!(">{head}</th>")))
    };
    let mut own = inspection(3, harmless);
    assert_eq!(heads(&own), [true, false, false, true]);
    own.tensors[2].stats.as_mut().unwrap().nan = 1;
    assert_eq!(heads(&own), [true, true, false, true]);
    own.graph = None;
    own.tensors.iter_mut().for_each(|tensor| (tensor.role, tensor.stats) = (Role::Weight, None));
    assert_eq!(heads(&own), [true, false, false, false]);
}

#[test]
fn tensors_without_a_graph_are_grouped_by_name_and_equal_groups_share_one() {
    let mut own = inspection(0, harmless);
    let names = (0..12).flat_map(|block| ["w", "b"].map(|part| format!("bert.layer.{block}.{part}")));
    own.tensors = names.map(|name| tensor(name, 0)).collect();
    let page = page(&own);
    assert!(page.contains("<code>0 … 11</code> <span class=\"badge\">× 12</span>"));
    assert_eq!(page.matches("class=\"leaf\"").count(), 2, "the tensors of one of them");
    own.tensors[5].shape = Shape::new([7]).unwrap();
    let page = super::page(&own);
    assert!(page.contains("<code>0 … 1</code>") && page.contains("<code>3 … 11</code>"));
}

#[test]
fn too_many_layers_are_folded_by_their_prefixes_or_else_in_equal_groups() {
    for name in
        [|number: usize| format!("layer{number}"), |number| format!("part{}/of/{number}", number / 500)]
    {
        let folded = fold(&graph(BOXES + 500, name));
        let runs: Vec<usize> = folded.blocks.iter().map(|block| block.layers().len()).collect();
        assert!(runs.len() < 60 && runs.iter().sum::<usize>() == BOXES + 500, "{runs:?}");
    }
}

#[test]
fn the_longest_path_is_straight_and_lines_beside_it_pass_no_box() {
    let lines = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 5), (0, 6), (5, 6), (6, 7)].into();
    let placed = layout(&[HEIGHT; 8], &lines);
    let main = [0, 1, 3, 5, 6, 7].map(|index| placed.boxes[index].0);
    assert!(main.iter().all(|x| *x == main[0]), "{placed:?}");
    let lane = placed.lines[lines.iter().position(|line| *line == (0, 6)).unwrap()][1].0;
    assert!(placed.boxes.iter().all(|(x, _)| (x - lane).abs() > WIDTH / 2.0));
}

#[test]
fn every_line_leads_to_a_later_box() {
    for layers in [1, 9, 60, 500] {
        let folded = fold(&graph(layers, harmless));
        assert!(folded.lines.iter().all(|(from, to)| from < to));
        let reached: std::collections::BTreeSet<usize> = folded.lines.iter().map(|(_, to)| *to).collect();
        assert_eq!(reached.len(), folded.blocks.len() - 1, "all but the input take from something");
    }
}

#[test]
fn no_two_boxes_overlap_and_lines_lead_downwards() {
    let wide: Folded = Folded { lines: (1..9).flat_map(|k| [(0, k), (k, 9)]).collect(), ..Folded::default() };
    let real = fold(&graph(30, harmless));
    for (count, lines) in [(10, &wide.lines), (real.blocks.len(), &real.lines)] {
        let placed = layout(&vec![HEIGHT; count], lines);
        for (a, one) in placed.boxes.iter().enumerate() {
            assert!(one.0 - WIDTH / 2.0 >= 0.0 && one.0 + WIDTH / 2.0 <= placed.width);
            assert!(one.1 >= 0.0 && one.1 + HEIGHT <= placed.height);
            for other in &placed.boxes[a + 1..] {
                let apart = (one.0 - other.0).abs() >= WIDTH || (one.1 - other.1).abs() >= HEIGHT;
                assert!(apart, "{one:?} {other:?}");
            }
        }
        assert_eq!(placed.lines.len(), lines.len());
        assert!(placed.lines.iter().all(|points| points.windows(2).all(|pair| pair[0].1 < pair[1].1)));
        assert_eq!(placed, layout(&vec![HEIGHT; count], lines));
    }
}

/// A graph of nodes: name, operator, inputs. Each makes a value of its name; the first input is the graph's.
fn wired(nodes: &[(&str, Op, &[&str])], output: &str) -> Graph {
    let node = |(name, op, inputs): &(&str, Op, &[&str])| {
        let mut node = Node::new(*name, op.clone());
        node.inputs = inputs.iter().map(ToString::to_string).collect();
        node.outputs = vec![name.to_string()];
        node
    };
    let (inputs, outputs) = (vec![value("in".into())], vec![value(output.into())]);
    let graph = Graph { name: String::new(), inputs, outputs, nodes: nodes.iter().map(node).collect() };
    graph.check().unwrap();
    graph
}

/// An attention block of Keras between two layers: `mha`, `mha#2`, … with constants.
fn attention() -> Graph {
    let mut graph = wired(
        &[
            ("embedding", Op::Gemm, &["in"]),
            ("mha/query/kernel", Op::Constant, &[]),
            ("mha", Op::Einsum, &["embedding", "mha/query/kernel"]),
            ("mha/constant", Op::Constant, &[]),
            ("mha#2", Op::Mul, &["mha", "mha/constant"]),
            ("mha#3", Op::Transpose, &["embedding"]),
            ("mha#4", Op::MatMul, &["mha#2", "mha#3"]),
            ("add", Op::Add, &["embedding", "mha#4"]),
        ],
        "add",
    );
    graph.nodes[1].parameters.insert("value".into(), "query".into());
    graph.nodes[3].attributes.insert("value_float".into(), ckpt_api::Attribute::Float(0.5));
    graph
}

fn groups(blocks: &[Block]) -> Vec<(&str, usize)> {
    let group = |block| match block {
        &Block::Group(Group { ref name, ref inside, .. }) => Some((name.as_str(), inside.len())),
        _ => None,
    };
    blocks.iter().filter_map(group).collect()
}

#[test]
fn a_constant_is_a_line_in_the_box_of_the_layer_that_uses_it() {
    let mut own = inspection(1, harmless);
    own.tensors[0].name = "query".into();
    own.graph = Some(attention());
    let page = page(&own);
    assert!(!page.contains("<g class=\"box weighted\"><title>mha/query/kernel"));
    for (layer, line) in [("mha\nEinsum", "query/kernel 300 × 64"), ("mha#2\nMul", "constant 0.5")] {
        assert!(page.contains(&format!("<title>{layer}\n{line}</title>")), "{line}");
        assert!(page.contains(&format!(">{line}</text>")), "{line}");
    }
    assert!(page.contains("<a href=\"#tensors\" data-find=\"mha/query/kernel\"><g class=\"box weighted\""));
    well_formed(&page);
}

#[test]
fn a_constant_of_several_layers_is_a_line_in_the_box_of_each_and_its_casts_and_transposes_have_no_box() {
    let mut graph = wired(
        &[
            ("w", Op::Constant, &[]),
            ("turned", Op::Transpose, &["w"]),
            ("cast", Op::Cast, &["turned"]),
            ("one", Op::MatMul, &["in", "turned"]),
            ("two", Op::MatMul, &["one", "cast"]),
        ],
        "two",
    );
    graph.nodes[0].attributes.insert("value_floats".into(), ckpt_api::Attribute::Floats(vec![1.5, 2.0]));
    let layers = layers_of(&graph);
    let names: Vec<&str> = layers.graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(layers.constants.iter().all(|constants| constants.lines() == ["w [1.5, 2]"]));
}

#[test]
fn a_box_lists_three_constants_and_counts_the_others() {
    let constants: Vec<(&str, Op, &[&str])> =
        ["a", "b", "c", "d", "e"].map(|name| (name, Op::Constant, &[][..])).to_vec();
    let sum: &[(&str, Op, &[&str])] = &[("sum", Op::Add, &["in", "a", "b", "c", "d", "e"])];
    let layers = layers_of(&wired(&[&constants[..], sum].concat(), "sum"));
    assert_eq!(layers.constants[0].lines(), ["a", "b", "c", "and 2 more"]);
}

#[test]
fn a_constant_that_is_an_output_or_that_nothing_uses_has_a_box() {
    let graph = wired(
        &[("unused", Op::Constant, &[]), ("out", Op::Constant, &[]), ("sum", Op::Add, &["in", "out"])],
        "out",
    );
    let layers = layers_of(&graph);
    assert_eq!(layers.graph, graph);
    assert!(layers.constants.iter().all(|constants| constants.count == 0));
}

#[test]
fn a_scope_is_one_box_that_opens_and_nothing_else_of_the_page_changes() {
    let folded = fold(&attention());
    assert_eq!(groups(&folded.blocks), [("mha", 4)]);
    let lines: Vec<(usize, usize)> = folded.lines.iter().copied().collect();
    assert_eq!(lines, [(0, 1), (1, 2), (1, 3), (2, 3), (3, 4)], "input, embedding, mha, add, output");
    let mut own = inspection(1, harmless);
    own.graph = Some(attention());
    let page = page(&own);
    let (_, opened) =
        page.split_once("<summary><code>mha</code> <span class=\"muted\">4 layers</span></summary>").unwrap();
    let (opened, _) = opened.split_once("</svg>").unwrap();
    // What comes from and goes to other layers, and the layers.
    for words in
        ["id=\"part1\"", "<title>embedding\ninput</title>", "<title>add\noutput</title>", "mha#4\nMatMul"]
    {
        assert!(opened.contains(words), "{words}");
    }
    assert!(page.contains("<a href=\"#part1\"><g class=\"box fold\">") && page.contains("All 6 layers"));
}

#[test]
fn scopes_are_boxes_in_boxes_whatever_separates_their_names() {
    for separator in ["/", "."] {
        let name = |parts: &[&str]| parts.join(separator);
        let names = [
            name(&["stem"]),
            name(&["enc", "a", "q"]),
            name(&["enc", "a", "k"]),
            name(&["enc", "b", "q"]),
            name(&["enc", "b", "k"]),
            name(&["head"]),
        ];
        let nodes = names.iter().map(|name| Node::new(name, Op::Gemm)).collect();
        let folded = fold(&Graph::sequential("", vec![], vec![], nodes));
        assert_eq!(groups(&folded.blocks), [("enc", 2)], "{separator}");
        let Block::Group(group) = &folded.blocks[2] else { panic!("{folded:?}") };
        assert_eq!(groups(&group.inside), [("a", 2), ("b", 2)]);
    }
}

#[test]
fn a_scope_of_one_layer_of_all_layers_or_of_layers_apart_is_no_box() {
    let of = |names: &[&str]| {
        let nodes = names.iter().map(|name| Node::new(*name, Op::Gemm)).collect();
        let folded = fold(&Graph::sequential("", vec![], vec![], nodes));
        groups(&folded.blocks).into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert!(of(&["stem", "a/one", "b/one", "head"]).is_empty());
    assert!(of(&["model/one", "model/two", "model/three"]).is_empty());
    assert!(of(&["stem", "a/one", "a/two", "b", "a/three"]).is_empty(), "b takes from a, and a from b");
    assert_eq!(of(&["stem", "a/b/one", "a/b/two", "head"]), ["b"], "a has nothing else");
    let most = ["stem", "m/a/1", "m/a/2", "m/b/1", "m/b/2", "m/c/1", "m/c/2", "m/d/1", "m/d/2"];
    assert_eq!(of(&most), ["a", "b", "c", "d"], "a box of nearly everything shows nothing");
}

#[test]
fn a_scope_with_many_values_across_is_no_box() {
    let graph = wired(
        &[
            ("qkv/q", Op::Gemm, &["in"]),
            ("qkv/k", Op::Gemm, &["in"]),
            ("qkv/v", Op::Gemm, &["in"]),
            ("scores", Op::MatMul, &["qkv/q", "qkv/k"]),
            ("mixed", Op::MatMul, &["scores", "qkv/v"]),
        ],
        "mixed",
    );
    assert!(groups(&fold(&graph).blocks).is_empty());
}

#[test]
fn scopes_that_repeat_are_one_box_that_opens_to_the_first_and_a_scope_of_nothing_else_is_none() {
    let parts = ["attn.q", "attn.k", "mlp.up", "mlp.down"];
    let names = (0..6).flat_map(|block| parts.map(|part| format!("layers.{block}.{part}")));
    let names = ["stem".to_owned()].into_iter().chain(names).chain(["head".to_owned()]);
    let nodes = names.map(|name| Node::new(name, Op::Gemm)).collect();
    let folded = fold(&Graph::sequential("", vec![], vec![], nodes));
    assert_eq!(repeats(&folded), [(1..25, "layers.0", "layers.5", 6)]);
    let Block::Repeat(repeat) = &folded.blocks[2] else { panic!("{folded:?}") };
    assert_eq!(groups(&repeat.inside), [("attn", 2), ("mlp", 2)]);
}

#[test]
fn scopes_that_are_wired_differently_do_not_repeat() {
    let mut nodes: Vec<(String, Op, Vec<String>)> = Vec::new();
    let mut last = "in".to_owned();
    for block in 0..6 {
        let name = |part: &str| format!("b{block}/{part}");
        let inner = if block == 3 { last.clone() } else { name("one") };
        nodes.push((name("one"), Op::Gemm, vec![last]));
        nodes.push((name("two"), Op::Gemm, vec![name("one")]));
        nodes.push((name("sum"), Op::Add, vec![name("two"), inner]));
        last = name("sum");
    }
    let nodes: Vec<(&str, Op, Vec<&str>)> = nodes
        .iter()
        .map(|(name, op, inputs)| (name.as_str(), op.clone(), inputs.iter().map(String::as_str).collect()))
        .collect();
    let nodes: Vec<(&str, Op, &[&str])> =
        nodes.iter().map(|(name, op, inputs)| (*name, op.clone(), &inputs[..])).collect();
    let folded = fold(&wired(&nodes, &last));
    assert_eq!(repeats(&folded), [(0..9, "b0", "b2", 3), (12..18, "b4", "b5", 2)]);
}

#[test]
fn drawings_of_scopes_have_as_many_boxes_as_one_drawing_may_have() {
    let mut own = inspection(1, harmless);
    // Scopes of different sizes do not fold.
    let name = |number: usize| {
        let scope = (2 * number).isqrt();
        format!("scope{scope}/layer{number}")
    };
    own.graph = Some(graph(3 * BOXES, name));
    let page = page(&own);
    let boxes = page.matches("<g class=\"box").count();
    assert!(page.contains("id=\"part9\"") && boxes < 2 * BOXES, "{boxes}");
    well_formed(&page);
}

#[test]
fn a_box_of_many_lines_is_higher_and_touches_no_other() {
    let lines = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 5), (0, 5)].into();
    let heights = [HEIGHT, HEIGHT, HEIGHT + 48.0, HEIGHT, HEIGHT + 16.0, HEIGHT];
    let placed = layout(&heights, &lines);
    let bottom = |index: usize| placed.boxes[index].1 + heights[index];
    assert!(placed.boxes[5].1 > bottom(2) && placed.boxes[2].1 == placed.boxes[3].1);
    for ((from, to), points) in lines.iter().zip(&placed.lines) {
        assert_eq!((points[0].1, points[points.len() - 1].1), (bottom(*from), placed.boxes[*to].1));
        assert!(points.windows(2).all(|pair| pair[0].1 < pair[1].1), "{points:?}");
    }
}

#[test]
fn a_drawing_is_as_wide_as_a_narrow_window() {
    let page = page(&inspection(30, harmless));
    assert!(page.contains(".graph:not(.pan) svg { max-width: 100%; }"));
}
