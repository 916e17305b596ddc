use super::fold::{BOXES, Block, Folded, fold};
use super::layout::{HEIGHT, WIDTH, layout};
use super::*;
use crate::html::tests::{stands_alone, tags, well_formed};
use crate::inspect::inspect;
use crate::{OpenOptions, Registry, Source};
use ckpt_api::{DType, Metadata, Node, Op, Shape, Value};

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

fn value(name: String) -> Value {
    Value { name, shape: vec![None, Some(64)] }
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
        scale: None,
        shape: Shape::new([300, 64]).unwrap(),
        axes: None,
        role: [Role::Weight, Role::Optimizer][number % 2],
        bytes: 4 * 300 * 64,
        extents: 1,
        stats: Some(Box::new(Stats { min: Some(-1.5), max: Some(2.0), finite: 19200, ..Stats::default() })),
        histogram: Some(Box::new(Histogram { counts, samples })),
        name,
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
        "<dt>weights</dt><dd>2880000 numbers</dd>",
        "<dt>dtypes</dt><dd>300 f32</dd>",
        "300 layers, drawn as 30 boxes",
        "for 300 tensors (marked ≈), an even sample of at most 16384",
        "The first 200 of 300 rows",
        "data-find=\"block7\"",
        "10 layers</text>",
        "10 Gemm</text>",
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
    assert!(page.contains("<td>-1</td><td>16384</td><td>2.50</td>"));
    assert!(page.contains("<dt>note</dt><dd>") && page.contains("<dt>repaired</dt><dd>"));
}

#[test]
fn the_page_of_twenty_thousand_tensors_has_a_few_megabytes() {
    let page = page(&inspection(20_000, |number| format!("model/block{}/layer{number}", number / 9)));
    assert!(page.len() < 20 << 20, "{}", page.len());
    let (first, _) = page.split_once("<template>").unwrap();
    assert!(first.matches("<tr>").count() < 500, "what is laid out at once stays small");
}

#[test]
fn a_page_is_deterministic_and_has_a_histogram_for_each_tensor_of_numbers() {
    let made = || {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits");
        let source = Source::open(&Registry::builtin(), path, &OpenOptions::default()).unwrap();
        page(&inspect(&source, true).unwrap())
    };
    let page = made();
    assert_eq!(page, made());
    assert_eq!(page.matches("class=\"spark\"").count(), 15, "all but the object graph, which is text");
    well_formed(&page);
}

#[test]
fn few_layers_are_drawn_as_a_box_each() {
    let folded = fold(&graph(BOXES, harmless));
    assert_eq!(folded.blocks.len(), BOXES + 2);
    assert!(
        folded.blocks[1..=BOXES].iter().all(|block| matches!(block, Block::Layers(run) if run.len() == 1))
    );
    assert_eq!(
        (folded.blocks[0].clone(), folded.blocks[BOXES + 1].clone()),
        (Block::Input(0), Block::Output(0))
    );
}

#[test]
fn layers_are_folded_by_their_common_prefixes_or_else_in_equal_groups() {
    let runs = |folded: Folded| -> Vec<usize> {
        let layers = |block: &Block| if let Block::Layers(run) = block { Some(run.len()) } else { None };
        folded.blocks.iter().filter_map(layers).collect()
    };
    assert_eq!(runs(fold(&graph(100, harmless))), [10; 10]);
    let apart = runs(fold(&graph(1000, |number| format!("layer{number}"))));
    assert!(apart.len() <= BOXES && apart.iter().sum::<usize>() == 1000, "{apart:?}");
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
        let placed = layout(count, lines);
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
        assert_eq!(placed, layout(count, lines));
    }
}
