use super::*;

fn dims(lens: [Option<u64>; 4]) -> Dims {
    lens.iter().map(|len| len.map_or(Length::free(0), Length::from)).collect()
}

fn image(builder: &mut Builder<()>) -> Val<()> {
    builder.input("x", dims([None, Some(2), Some(3), Some(4)]))
}

fn ops(builder: &Builder<()>) -> Vec<&str> {
    builder.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn a_value_that_is_taken_in_another_order_is_turned_from_that() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let first = builder.first(&x).unwrap();
    assert_eq!(builder.last(&first).unwrap().name, x.name, "turning it back takes no node");
    // As the source has it, the same elements: their last axis is the second again.
    let permuted = builder.restored_first(&x).unwrap();
    assert_eq!((&permuted.name, permuted.layout), (&first.name, Layout::Last));
    let again = builder.first(&permuted).unwrap();
    assert!(again.name != x.name && again.name != first.name);
    let perms = builder.nodes.iter().map(|node| (&node.inputs[0], node.attributes.get("perm")));
    let order = ints(&[0, 3, 1, 2]).unwrap();
    assert!(perms.eq([(&x.name, Some(&order)), (&first.name, Some(&order))]));
}

#[test]
fn a_vector_is_raised_once_to_the_channels_of_images() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let x = builder.first(&x).unwrap();
    let bias = builder.floats("bias", &[4], vec![0.5; 4]).unwrap();
    let sum = builder.apply("Add", &[&x, &bias]).unwrap();
    builder.apply("Add", &[&sum, &bias]).unwrap();
    assert_eq!(ops(&builder), ["Transpose", "Constant", "Unsqueeze", "Add", "Add"]);
    assert_eq!(builder.nodes[2].attributes.get("axes"), Some(&Attribute::Ints(vec![1, 2])));
    assert_eq!((sum.layout, sum.dims), (Layout::First, x.dims));
}

#[test]
fn images_are_flattened_in_the_order_of_the_source() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let x = builder.first(&x).unwrap();
    let flat = builder.reshape(&x, vec![Length::free(0), 24_u64.into()]).unwrap();
    assert_eq!(builder.nodes.last().unwrap().inputs, ["x"], "the input has that order");
    let rows = builder.reshape(&flat, vec![Length::free(0), Length::Unknown, 4_u64.into()]).unwrap();
    assert_eq!(builder.nodes[2].attributes.get("shape"), Some(&Attribute::Ints(vec![0, -1, 4])));
    assert_eq!(builder.reshape(&flat, flat.dims.clone()).unwrap().name, flat.name);
    let why = builder.reshape(&rows, vec![Length::Unknown; 2]).unwrap_err();
    assert!(why.starts_with("it reshapes [?, ?, 4] to [?, ?]"), "{why}");
}

#[test]
fn one_pixel_needs_no_transpose_to_be_flattened() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let x = builder.first(&x).unwrap();
    let pooled = builder.pool_globally("GlobalAveragePool", &x).unwrap();
    builder.reshape(&pooled, vec![Length::free(0), 4_u64.into()]).unwrap();
    assert_eq!(ops(&builder), ["Transpose", "GlobalAveragePool", "Flatten"]);
}

#[test]
fn axes_of_values_with_channels_first_are_those_of_the_graph() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let first = builder.first(&x).unwrap();
    let sum = builder.join(3, &[first.clone(), x]).unwrap();
    assert_eq!(
        (sum.len(3), builder.nodes[1].attributes.get("axis")),
        (8_u64.into(), Some(&Attribute::Int(1)))
    );
    let part = builder.slice(&sum, &[Range::index(3, -1), Range::backwards(1)]).unwrap();
    assert_eq!((part.len(3), part.len(1)), (1_u64.into(), 2_u64.into()));
    assert_eq!(builder.nodes[2].attributes.get("axes"), Some(&Attribute::Ints(vec![1, 2])));
    let mean = builder.reduce("ReduceMean", &part, &[1, 2], false).unwrap();
    assert_eq!((mean.layout, mean.rank()), (Layout::Last, 2));
    assert_eq!(
        Builder::pads(&first, [[0, 0], [1, 2]].into_iter()),
        Attribute::Ints(vec![0, 0, 1, 0, 0, 0, 2, 0])
    );
}

#[test]
fn copies_of_a_length_that_is_named_are_equal() {
    let mut builder = Builder::<()>::naming_lengths();
    let x = builder.input("x", vec![Length::free(0), Length::Unknown, 8_u64.into()]);
    let heads = builder.reshape(&x, vec![x.len(0), x.len(1), 2_u64.into(), 4_u64.into()]).unwrap();
    assert_eq!(builder.nodes[0].attributes.get("shape"), Some(&Attribute::Ints(vec![0, 0, 2, 4])));
    assert!(heads.len(1).is(x.len(1)));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let other = builder.floats("other", &[3], vec![0.0; 3]).unwrap();
    let why = builder.apply("Add", &[&x, &other]).unwrap_err();
    assert_eq!(why, "it combines shapes that do not fit: [?, 2, 3, 4], [3]");
    assert!(builder.plain(builder.node("Identity"), &[&x], vec![Length::Known(1); 33]).is_err());
}

#[test]
fn an_input_that_is_a_result_is_copied() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    let copied = builder.result(x.clone(), "y").unwrap();
    assert_eq!((copied.name.as_str(), &copied.dims), ("y", &x.dims));
    assert_eq!((&builder.nodes[0].op, &builder.nodes[0].inputs[0]), (&Op::Identity, &x.name));
    let sum = builder.apply("Add", &[&x, &x]).unwrap();
    assert_eq!(builder.result(sum.clone(), "z").unwrap().value, sum.name);
    assert_eq!(builder.nodes.len(), 2, "another value is a result as it is");
}

#[test]
fn quotients_and_remainders_of_integers_are_rounded_down_without_real_numbers() {
    let mut builder = Builder::default();
    let x = image(&mut builder);
    builder.floor_div(&x, &x, false).unwrap();
    builder.floor_div(&x, &x, true).unwrap();
    assert_eq!(ops(&builder), ["Mod", "Sub", "Div", "Div", "Floor"]);
    assert!(!builder.nodes[0].attributes.contains_key("fmod"));
    builder.floor_mod(&x, &x, true).unwrap();
    assert_eq!(builder.nodes[5].attributes.get("fmod"), Some(&Attribute::Int(1)));
    assert_eq!(builder.nodes.last().unwrap().op.name(), "Where");
}
