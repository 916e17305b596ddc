//! One test for each rule of the `.cfg` and of the weights.

use crate::build::{files, header, input};
use ckpt_api::{Codec, Contents, Graph, Input, Limits, Match, Options, Result, Side};
use ckpt_darknet::Darknet;

const NET: &str = "[net]\nchannels=2\nheight=4\nwidth=4\n";

fn read_with(input: &Input, options: &[(&str, &str)]) -> Result<Contents> {
    let pairs: Vec<_> = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = Options::parse("darknet", Darknet.info().options, Side::Read, &pairs)?;
    let contents = Darknet.read(input, &options, &Limits::default())?;
    contents.check(&Limits::default())?;
    Ok(contents)
}

/// Reads layers that have so many numbers.
fn read(layers: &str, count: u16) -> Result<Contents> {
    read_with(&input(&format!("{NET}{layers}"), count), &[])
}

fn graph(layers: &str, count: u16) -> Graph {
    let contents = read(layers, count).unwrap();
    let missing = contents.missing_graph.clone();
    contents.checkpoint.graph.unwrap_or_else(|| panic!("{missing:?}"))
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

fn output(graph: &Graph) -> (&str, &[Option<u64>]) {
    let [output] = &graph.outputs[..] else { panic!("{:?}", graph.outputs) };
    (&output.name, &output.shape)
}

#[test]
fn a_cfg_that_does_not_fit_says_by_how_many_numbers() {
    let layers = "[convolutional]\nfilters=3\nactivation=linear\n";
    assert_eq!(read(layers, 9).unwrap().checkpoint.tensors.len(), 2);
    for (count, says) in [(7, "2 numbers fewer"), (10, "1 number more")] {
        let error = read(layers, count).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("expected 9 numbers, by m.cfg"), "{error}");
    }
}

#[test]
fn weights_that_end_behind_a_layer_are_read_if_the_option_says_so() {
    let layers = "[convolutional]\nfilters=3\nactivation=linear\n[maxpool]\nstride=2\n\
                  [convolutional]\nfilters=2\nactivation=linear\n";
    let input = input(&format!("{NET}{layers}"), 9);
    let error = read_with(&input, &[]).unwrap_err().to_string();
    assert!(error.contains("layers=1"), "{error}");
    let contents = read_with(&input, &[("layers", "1")]).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 2);
    assert!(contents.all_notes().any(|note| note.contains("the first 1 layer of m.cfg alone")));
    assert_eq!(output(contents.checkpoint.graph.as_ref().unwrap()).0, "conv_0");
    assert!(read_with(&input, &[("layers", "4")]).is_err() && read_with(&input, &[("layers", "0")]).is_err());
}

#[test]
fn the_name_of_a_prefix_states_its_layers() {
    let layers = "[convolutional]\nfilters=3\nactivation=linear\n[convolutional]\nfilters=2\n";
    let mut files = files(&format!("{NET}{layers}"), &header(), 9);
    let weights = files.remove("m.weights").unwrap();
    files.insert("m.conv.1".to_owned(), weights);
    let input = Input::memory("m.conv.1", files);
    assert!(matches!(Darknet.probe(&input).unwrap(), Match::Certain(_)));
    assert_eq!(read_with(&input, &[]).unwrap().checkpoint.tensors.len(), 2);
}

#[test]
fn an_output_that_is_named_as_a_prefix_has_its_layers_alone() {
    let layers = "[convolutional]\nfilters=3\nactivation=linear\n[convolutional]\nfilters=2\n";
    let whole = read(layers, 17).unwrap().checkpoint;
    let len = |name: &str| {
        let layout = Darknet.place(&whole, name, &Options::default()).unwrap();
        (layout.placements.len(), layout.files[1].len, layout.readings.len())
    };
    assert_eq!(len("m.weights"), (4, Some(20 + 17 * 4), 0));
    assert_eq!(len("m.conv.1"), (2, Some(20 + 9 * 4), 0));
}

#[test]
fn the_option_names_another_cfg_beside_the_weights() {
    let mut files = files(&format!("{NET}[convolutional]\nfilters=3\n"), &header(), 9);
    let cfg = files.remove("m.cfg").unwrap();
    files.insert("other.cfg".to_owned(), cfg);
    let input = Input::memory("m.weights", files);
    assert!(matches!(Darknet.probe(&input).unwrap(), Match::Possible(_)));
    let error = read_with(&input, &[]).unwrap_err().to_string();
    assert!(error.contains("no file 'm.cfg' beside them") && error.contains("cfg=FILE"), "{error}");
    assert_eq!(read_with(&input, &[("cfg", "other.cfg")]).unwrap().checkpoint.tensors.len(), 2);
}

#[test]
fn other_files_of_this_name_are_not_taken_for_weights() {
    let cfg = format!("{NET}[convolutional]\nfilters=3\n");
    let archive = b"PK\x03\x04 an archive of some length, which is no header".to_vec();
    let files = [("m.cfg".to_owned(), cfg.into_bytes()), ("m.weights".to_owned(), archive)];
    assert_eq!(Darknet.probe(&Input::memory("m.weights", files.into())).unwrap(), Match::No);
    let files = self::files(&format!("{NET}[convolutional]\nfilters=3\n"), &header(), 8);
    assert!(matches!(Darknet.probe(&Input::memory("m.weights", files)).unwrap(), Match::Possible(_)));
}

#[test]
fn windows_of_a_maximum_reach_over_the_end_of_the_image() {
    let layers = "[convolutional]\nfilters=1\nactivation=linear\n[maxpool]\nsize=2\nstride=1\n";
    let graph = graph(layers, 3);
    assert_eq!(output(&graph), ("pool_1", &[None, Some(1), Some(4), Some(4)][..]));
    let pads = graph.nodes[1].ints("pads").unwrap();
    assert_eq!(pads, Some(&[0, 0, 1, 1][..]));
}

#[test]
fn a_normalized_convolution_has_its_bias_in_the_normalization() {
    let graph = graph("[convolutional]\nfilters=1\nbatch_normalize=1\nactivation=leaky\n", 6);
    assert_eq!(ops(&graph), ["Conv", "BatchNormalization", "LeakyRelu"]);
    assert_eq!(graph.nodes[0].parameters.len(), 1);
    assert_eq!(graph.nodes[1].parameters["bias"], "000.convolutional.bias");
    assert_eq!(output(&graph).0, "leaky_1");
}

#[test]
fn an_activation_that_is_not_stated_is_logistic() {
    assert_eq!(ops(&graph("[convolutional]\n", 3)), ["Conv", "Sigmoid"]);
    let contents = read("[convolutional]\nactivation=plse\n", 3).unwrap();
    assert!(contents.missing_graph.unwrap().reason.as_str().contains("the activation 'plse'"));
}

#[test]
fn results_that_no_layer_takes_are_outputs() {
    let layers = "[convolutional]\nactivation=linear\n[convolutional]\nactivation=linear\nfilters=2\n\
                  [route]\nlayers=0\n[upsample]\n";
    let graph = graph(layers, 7);
    let outputs: Vec<&str> = graph.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(outputs, ["conv_1", "upsample_3"]);
    assert_eq!(graph.outputs[1].shape, [None, Some(1), Some(8), Some(8)]);
}

#[test]
fn a_shortcut_adds_the_channels_that_both_have() {
    let layers = |first: u8| {
        format!(
            "[convolutional]\nactivation=linear\nfilters={first}\n[convolutional]\nactivation=linear\nfilters=2\n\
             [shortcut]\nfrom=-2\nactivation=leaky\n"
        )
    };
    assert_eq!(ops(&graph(&layers(2), 12)), ["Conv", "Conv", "Add", "LeakyRelu"]);
    assert_eq!(ops(&graph(&layers(3), 17)), ["Conv", "Conv", "Slice", "Add", "LeakyRelu"]);
    assert_eq!(ops(&graph(&layers(1), 7)), ["Conv", "Conv", "Pad", "Add", "LeakyRelu"]);
}

#[test]
fn a_reorg_makes_channels_of_places_and_back() {
    let layers = "[convolutional]\nfilters=4\nactivation=linear\n[reorg]\nstride=2\n";
    let forwards = graph(layers, 12);
    assert_eq!(ops(&forwards), ["Conv", "Reshape", "SpaceToDepth", "Reshape"]);
    assert_eq!(output(&forwards).1, [None, Some(16), Some(2), Some(2)]);
    let backwards = graph(&format!("{layers}reverse=1\n"), 12);
    assert_eq!(output(&backwards).1, [None, Some(1), Some(8), Some(8)]);
}

#[test]
fn detections_are_boxes_or_the_maps_that_they_are_made_of() {
    let layers = "[convolutional]\nfilters=12\nactivation=linear\n[yolo]\nmask=1,2\nanchors=1,2, 3,4, 5,6\n\
                  classes=1\nnum=3\n";
    let input = input(&format!("{NET}{layers}"), 36);
    let boxes = read_with(&input, &[]).unwrap();
    assert_eq!(output(boxes.checkpoint.graph.as_ref().unwrap()), ("yolo_1", &[None, Some(6)][..]));
    assert!(boxes.all_notes().any(|note| note.contains("at most 0.2")));
    let maps = read_with(&input, &[("detections", "maps")]).unwrap();
    let shape = [None, Some(12), Some(4), Some(4)];
    assert_eq!(output(maps.checkpoint.graph.as_ref().unwrap()), ("yolo_1", &shape[..]));
    let error = read(&layers.replace("classes=1", "classes=2"), 36).unwrap_err().to_string();
    assert!(error.contains("12 channels") && error.contains("2 boxes · 7 numbers"), "{error}");
}

#[test]
fn layers_that_no_file_of_weights_can_have_are_refused() {
    for (layers, field) in [
        ("[convolutional]\nsize=5\n", "size of [convolutional], line 5"),
        ("[convolutional]\ngroups=3\n", "groups of [convolutional], line 5"),
        ("[convolutional]\nfilters=0\n", "filters of [convolutional], line 5"),
        ("[route]\nlayers=-1\n", "layers of [route], line 5"),
        ("[convolutional]\n[route]\nlayers=1\n", "layers of [route], line 6"),
        ("[convolutional]\n[maxpool]\nstride=2\n[route]\nlayers=0,1\n", "layers of [route], line 8"),
        (
            "[convolutional]\nfilters=1\n[convolutional]\nshare_index=0\n",
            "share_index of [convolutional], line 7",
        ),
        ("[lstm]\noutput=2\n", "[lstm], line 5"),
    ] {
        let error = read(layers, 3).unwrap_err();
        assert_eq!(error.context().field, Some(field), "{layers}");
    }
}

#[test]
fn a_few_words_do_not_stand_for_memory_without_bound() {
    let net = |rest: &str| format!("[net]\nchannels=2000000000\nheight=1\nwidth=1\n{rest}");
    for (layers, field) in [
        ("[region]\nnum=400000000\nclasses=0\n", "num of [region], line 5"),
        ("[yolo]\nnum=400000000\nclasses=0\n", "num of [yolo], line 5"),
    ] {
        let error = read_with(&input(&net(layers), 3), &[]).unwrap_err();
        assert_eq!(error.context().field, Some(field));
    }
    let layers = format!("[connected]\n{}", "[route]\nlayers=0,0,0,0,0,0,0,0\n".repeat(250_000));
    let error = read(&layers, 33).unwrap_err();
    assert_eq!(error.kind(), ckpt_api::Kind::Limit);
}

#[test]
fn the_places_of_all_maps_together_are_bounded() {
    let detection = "[route]\nlayers=0\n[yolo]\nnum=1\nclasses=0\n";
    let net = |count| {
        let layers = "[convolutional]\nfilters=5\nactivation=linear\n".to_owned() + &detection.repeat(count);
        read_with(&input(&format!("[net]\nchannels=1\nheight=800\nwidth=800\n{layers}"), 10), &[]).unwrap()
    };
    assert!(net(1).checkpoint.graph.is_some());
    assert!(net(2).missing_graph.unwrap().reason.as_str().contains("no usual size"));
}

#[test]
fn many_options_and_many_layers_that_ask_for_them_take_linear_time() {
    let options: String = (0..100_000).map(|number| format!("option{number}=1\n")).collect();
    let layers = "[yolo]\nclasses=1\n".repeat(20_000);
    let cfg = format!("[net]\nchannels=6\n{options}height=1\nwidth=1\n{layers}[connected]\n");
    let contents = read_with(&input(&cfg, 7), &[("detections", "maps")]).unwrap();
    assert_eq!(contents.checkpoint.tensors.len(), 2);
}

#[test]
fn a_crop_leaves_an_image_of_the_size_that_it_states() {
    let layers = "[crop]\ncrop_height=3\ncrop_width=2\n[connected]\n";
    let contents = read(layers, 13).unwrap();
    assert_eq!(contents.checkpoint.tensors[1].shape[..], [1, 12]);
    assert!(contents.missing_graph.unwrap().reason.as_str().contains("000.crop: is not supported"));
}
