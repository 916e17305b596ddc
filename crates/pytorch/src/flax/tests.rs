//! One small tree for each rule.

use super::kinds::Kinds;
use super::translate;
use ckpt_api::{DType, Kind, LibraryWords, Role, Shape, Tensor};
use ckpt_engine::mapping::Translation;

type Named<'a> = (&'a str, &'a [u64]);

fn tensors(described: &[Named<'_>]) -> Vec<Tensor> {
    let tensor = |(name, shape): &Named<'_>| Tensor::new(*name, DType::F32, Shape::new(*shape).unwrap());
    described.iter().map(tensor).collect()
}

fn translated(described: &[Named<'_>], settings: &[(&str, &str)]) -> Translation {
    let kinds = settings.iter().fold(Kinds::default(), |kinds, (key, value)| kinds.with(key, value).unwrap());
    translate(&tensors(described), &kinds).unwrap()
}

/// What the mapping makes: each target with its sources and its recipe. The inverse gives the sources back.
fn made_as(described: &[Named<'_>], settings: &[(&str, &str)]) -> Vec<String> {
    let translation = translated(described, settings);
    let applied = translation.mapping.apply_to(&tensors(described), &ckpt_api::Limits::default()).unwrap();
    assert!(applied.inverse.is_ok(), "{:?}", applied.inverse.err());
    let line = |target: &ckpt_engine::recipe::Target| {
        let steps = match target.recipe.describe() {
            steps if steps.is_empty() => steps,
            steps => format!(": {steps}"),
        };
        format!("{} <- {}{steps}", target.name, target.sources.join(" + "))
    };
    applied.targets.iter().map(line).collect()
}

fn made(described: &[Named<'_>]) -> Vec<String> {
    made_as(described, &[])
}

fn notes(translation: &Translation) -> String {
    translation.notes.iter().map(|note| note.in_words(&LibraryWords).to_string() + "\n").collect()
}

#[test]
fn a_dense_layer_is_transposed() {
    assert_eq!(
        made(&[("params.Dense_0.kernel", &[2, 3]), ("params.Dense_0.bias", &[3])]),
        ["Dense_0.bias <- params.Dense_0.bias", "Dense_0.weight <- params.Dense_0.kernel: transpose"]
    );
}

#[test]
fn collections_and_what_holds_them_and_the_value_of_nnx_are_no_modules() {
    for name in
        ["params.d.kernel", "params.params.d.kernel", "state.params.d.kernel", "d.kernel", "d.kernel.value"]
    {
        assert_eq!(made(&[(name, &[2, 3])]), [format!("d.weight <- {name}: transpose")]);
    }
    // Without a collection, the first part of a name is a module.
    assert_eq!(made(&[("model.d.kernel", &[2, 3])]), ["model.d.weight <- model.d.kernel: transpose"]);
    // An attention layer has a module called `value`.
    assert_eq!(made(&[("params.value.kernel", &[2, 3])]), ["value.weight <- params.value.kernel: transpose"]);
}

#[test]
fn tensors_of_other_collections_keep_their_names() {
    let described: [Named<'_>; 2] = [("params.d.kernel", &[2, 3]), ("ema.d.kernel", &[2, 3])];
    assert_eq!(made(&described)[1], "ema.d.kernel <- ema.d.kernel");
    assert!(
        notes(&translated(&described, &[])).contains("another collection"),
        "{}",
        notes(&translated(&described, &[]))
    );
}

#[test]
fn the_input_and_output_axes_of_a_convolution_come_first() {
    for (kernel, steps) in [
        (&[5, 2, 4][..], "permute 2 1 0"),
        (&[5, 6, 2, 4], "permute 3 2 0 1"),
        (&[5, 6, 7, 2, 4], "permute 4 3 0 1 2"),
        (&[3, 3, 1, 12], "permute 3 2 0 1"),
    ] {
        let out = kernel[kernel.len() - 1];
        assert_eq!(
            made(&[("params.Conv_0.bias", &[out]), ("params.Conv_0.kernel", kernel)])[1],
            format!("Conv_0.weight <- params.Conv_0.kernel: {steps}")
        );
    }
}

#[test]
fn a_transposed_convolution_has_its_pixels_reversed_unless_it_has_transpose_kernel() {
    let kernel = |kernel: &[u64], bias: &[u64]| {
        made(&[("params.ConvTranspose_0.bias", bias), ("params.ConvTranspose_0.kernel", kernel)])[1].clone()
    };
    assert_eq!(
        kernel(&[3, 2, 6, 4], &[4]),
        "ConvTranspose_0.weight <- params.ConvTranspose_0.kernel: reshape 3 2 -> 6, parts 5 4 3 2 1 0 on 0, \
         reshape 6 -> 3 2, permute 2 3 0 1"
    );
    assert_eq!(
        kernel(&[3, 6, 4], &[4]),
        "ConvTranspose_0.weight <- params.ConvTranspose_0.kernel: parts 2 1 0 on 0, permute 1 2 0"
    );
    assert_eq!(
        kernel(&[3, 2, 4, 6], &[4]),
        "ConvTranspose_0.weight <- params.ConvTranspose_0.kernel: permute 3 2 0 1"
    );
}

#[test]
fn a_transposed_convolution_whose_kernel_shows_nothing_is_noted_and_can_be_stated() {
    let square: [Named<'_>; 1] = [("params.ConvTranspose_0.kernel", &[3, 4, 4])];
    let said = notes(&translated(&square, &[]));
    assert!(said.contains("without transpose_kernel") && said.contains("ConvTranspose_0"), "{said}");
    let stated = [("ConvTranspose_0", "transpose_kernel")];
    assert_eq!(notes(&translated(&square, &stated)), "");
    assert_eq!(
        made_as(&square, &stated),
        ["ConvTranspose_0.weight <- params.ConvTranspose_0.kernel: permute 2 1 0"]
    );
}

#[test]
fn a_convolution_that_no_name_shows_is_assumed_aloud_and_another_kind_can_be_stated() {
    let described: [Named<'_>; 1] = [("up.kernel", &[2, 2, 3, 4])];
    assert_eq!(made(&described), ["up.weight <- up.kernel: permute 3 2 0 1"]);
    assert!(notes(&translated(&described, &[])).contains("taken for a convolution's"));
    let stated = made_as(&described, &[("u*", "conv_transpose")]);
    assert_eq!(
        stated,
        ["up.weight <- up.kernel: reshape 2 2 -> 4, parts 3 2 1 0 on 0, reshape 4 -> 2 2, permute 2 3 0 1"]
    );
    assert_eq!(made_as(&described, &[("up", "keep")]), ["up.kernel <- up.kernel"]);
}

#[test]
fn a_kernel_of_three_axes_keeps_them_unless_something_tells_what_it_is() {
    let described: [Named<'_>; 1] = [("params.mix.kernel", &[3, 4, 5])];
    assert_eq!(made(&described), ["mix.kernel <- params.mix.kernel"]);
    let said = notes(&translated(&described, &[]));
    assert!(said.contains("state which") && said.contains("params.mix.kernel"), "{said}");
    assert_eq!(made_as(&described, &[("mix", "conv")]), ["mix.weight <- params.mix.kernel: permute 2 1 0"]);
    // A dense layer without a bias: nothing shows which axes are the output's.
    assert_eq!(made_as(&described, &[("mix", "dense")]), ["mix.kernel <- params.mix.kernel"]);
    let biased: [Named<'_>; 2] = [("params.mix.kernel", &[3, 4, 5]), ("params.mix.bias", &[4, 5])];
    assert_eq!(
        made(&biased),
        [
            "mix.bias <- params.mix.bias: reshape 4 5 -> 20",
            "mix.weight <- params.mix.kernel: reshape 4 5 -> 20 on 1, transpose"
        ]
    );
    let reduced: [Named<'_>; 2] =
        [("params.DenseGeneral_0.kernel", &[3, 4, 5]), ("params.DenseGeneral_0.bias", &[5])];
    assert_eq!(
        made(&reduced)[1],
        "DenseGeneral_0.weight <- params.DenseGeneral_0.kernel: reshape 3 4 -> 12, transpose"
    );
}

#[test]
fn normalizations_have_weights_and_the_epsilon_is_noted() {
    let described: [Named<'_>; 3] = [
        ("params.LayerNorm_0.scale", &[4]),
        ("params.LayerNorm_0.bias", &[4]),
        ("params.RMSNorm_0.scale", &[4]),
    ];
    assert_eq!(
        made(&described),
        [
            "LayerNorm_0.bias <- params.LayerNorm_0.bias",
            "LayerNorm_0.weight <- params.LayerNorm_0.scale",
            "RMSNorm_0.weight <- params.RMSNorm_0.scale"
        ]
    );
    assert!(notes(&translated(&described, &[])).contains("eps=1e-6"));
}

#[test]
fn a_batch_normalization_is_in_two_collections_and_has_a_counter_in_pytorch() {
    let described: [Named<'_>; 4] = [
        ("params.BatchNorm_0.scale", &[4]),
        ("params.BatchNorm_0.bias", &[4]),
        ("batch_stats.BatchNorm_0.mean", &[4]),
        ("batch_stats.BatchNorm_0.var", &[4]),
    ];
    assert_eq!(
        made(&described),
        [
            "BatchNorm_0.bias <- params.BatchNorm_0.bias",
            "BatchNorm_0.running_mean <- batch_stats.BatchNorm_0.mean",
            "BatchNorm_0.running_var <- batch_stats.BatchNorm_0.var",
            "BatchNorm_0.weight <- params.BatchNorm_0.scale"
        ]
    );
    let translation = translated(&described, &[]);
    assert_eq!(translation.counters, ["BatchNorm_0.num_batches_tracked"]);
    assert!(!notes(&translation).contains("eps="), "its epsilon is PyTorch's");
}

#[test]
fn embeddings_and_slopes_are_weights() {
    assert_eq!(
        made(&[("params.Embed_0.embedding", &[9, 4]), ("params.PReLU_0.negative_slope", &[])]),
        [
            "Embed_0.weight <- params.Embed_0.embedding",
            "PReLU_0.weight <- params.PReLU_0.negative_slope: unsqueeze 0"
        ]
    );
}

fn attention<'a>(names: &'a [String], kernels: [&'a [u64]; 4]) -> Vec<Named<'a>> {
    names.iter().map(String::as_str).zip(kernels).collect()
}

#[test]
fn heads_of_the_width_become_one_matrix_and_others_dense_layers() {
    let names = ["query", "key", "value", "out"].map(|name| format!("a.{name}.kernel"));
    let square = attention(&names, [&[8, 2, 4], &[8, 2, 4], &[8, 2, 4], &[2, 4, 8]]);
    assert_eq!(
        made(&square),
        [
            "a.in_proj_weight <- a.query.kernel + a.key.kernel + a.value.kernel: reshape 2 4 -> 8 on 1, transpose, \
             merged along axis 0",
            "a.out_proj.weight <- a.out.kernel: reshape 2 4 -> 8, transpose"
        ]
    );
    assert!(
        notes(&translated(&square, &[]))
            .contains("nn.MultiheadAttention(8, 2, bias=False, batch_first=True): a")
    );
    let cross = attention(&names, [&[8, 2, 4], &[6, 2, 4], &[6, 2, 4], &[2, 4, 8]]);
    let weights: Vec<String> =
        made(&cross).iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(weights, ["a.k_proj_weight", "a.out_proj.weight", "a.q_proj_weight", "a.v_proj_weight"]);
    let narrow = attention(&names, [&[8, 2, 3], &[8, 2, 3], &[8, 2, 3], &[2, 3, 8]]);
    assert_eq!(
        made(&narrow)[1..3],
        [
            "a.out.weight <- a.out.kernel: reshape 2 3 -> 6, transpose",
            "a.query.weight <- a.query.kernel: reshape 2 3 -> 6 on 1, transpose"
        ]
    );
}

#[test]
fn the_gates_of_an_lstm_are_stacked_and_its_first_bias_is_zeros() {
    let mut described = Vec::new();
    let names: Vec<String> = "ifgo"
        .chars()
        .flat_map(|gate| {
            [
                format!("rnn.cell.i{gate}.kernel"),
                format!("rnn.cell.h{gate}.kernel"),
                format!("rnn.cell.h{gate}.bias"),
            ]
        })
        .collect();
    for name in &names {
        let shape: &[u64] = match (name.ends_with("bias"), name.contains(".i")) {
            (true, _) => &[4],
            (_, true) => &[6, 4],
            _ => &[4, 4],
        };
        described.push((name.as_str(), shape));
    }
    let found = made(&described);
    assert_eq!(found.len(), 4);
    let sources = |kind: &str| {
        "ifgo"
            .chars()
            .map(|gate| format!("rnn.cell.{kind}").replace('*', &gate.to_string()))
            .collect::<Vec<_>>()
            .join(" + ")
    };
    let bias = sources("h*.bias");
    assert_eq!(
        found,
        [
            format!("rnn.bias_hh_l0 <- {bias}: merged along axis 0"),
            format!("rnn.bias_ih_l0 <- {bias}: merged along axis 0, 4 of 4 as zeros"),
            format!("rnn.weight_hh_l0 <- {}: transpose, merged along axis 0", sources("h*.kernel")),
            format!("rnn.weight_ih_l0 <- {}: transpose, merged along axis 0", sources("i*.kernel")),
        ]
    );
    assert!(notes(&translated(&described, &[])).contains("nn.LSTM(6, 4, batch_first=True): rnn"));
}

#[test]
fn only_the_new_state_of_a_gru_has_a_second_bias() {
    let described: [Named<'_>; 10] = [
        ("GRUCell_0.ir.kernel", &[6, 4]),
        ("GRUCell_0.ir.bias", &[4]),
        ("GRUCell_0.iz.kernel", &[6, 4]),
        ("GRUCell_0.iz.bias", &[4]),
        ("GRUCell_0.in.kernel", &[6, 4]),
        ("GRUCell_0.in.bias", &[4]),
        ("GRUCell_0.hr.kernel", &[4, 4]),
        ("GRUCell_0.hz.kernel", &[4, 4]),
        ("GRUCell_0.hn.kernel", &[4, 4]),
        ("GRUCell_0.hn.bias", &[4]),
    ];
    let biases = "GRUCell_0.ir.bias + GRUCell_0.iz.bias + GRUCell_0.in.bias + GRUCell_0.hn.bias";
    assert_eq!(
        made(&described)[..2],
        [
            format!("GRUCell_0.bias_hh_l0 <- {biases}: merged along axis 0, 2 of 3 as zeros"),
            format!("GRUCell_0.bias_ih_l0 <- {biases}: merged along axis 0"),
        ]
    );
}

#[test]
fn the_lengths_of_a_cell_of_nnx_show_its_class() {
    for (gates, class) in [(4, "LSTM"), (3, "GRU"), (1, "RNN")] {
        let described: [Named<'_>; 2] =
            [("r.dense_i.kernel", &[6, gates * 4]), ("r.dense_h.kernel", &[4, gates * 4])];
        assert_eq!(made(&described)[1], "r.weight_ih_l0 <- r.dense_i.kernel: transpose");
        let said = notes(&translated(&described, &[]));
        assert!(said.contains(&format!("nn.{class}(6, 4, bias=False, batch_first=True): r")), "{said}");
    }
    // Two gates are no cell of PyTorch: two dense layers.
    assert_eq!(
        made(&[("r.dense_i.kernel", &[6, 8]), ("r.dense_h.kernel", &[4, 8])])[1],
        "r.dense_i.weight <- r.dense_i.kernel: transpose"
    );
}

#[test]
fn cells_of_two_directions_are_one_module() {
    let names: Vec<String> = ["forward_rnn", "backward_rnn"]
        .iter()
        .flat_map(|own| ["dense_i", "dense_h"].map(|part| format!("both.{own}.cell.{part}.kernel")))
        .collect();
    let described: Vec<Named<'_>> = names
        .iter()
        .map(|name| (name.as_str(), if name.contains("dense_i") { &[6, 16] } else { &[4u64, 16][..] }))
        .collect();
    let targets: Vec<String> =
        made(&described).iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        targets,
        ["both.weight_hh_l0", "both.weight_hh_l0_reverse", "both.weight_ih_l0", "both.weight_ih_l0_reverse"]
    );
    assert!(notes(&translated(&described, &[])).contains("bidirectional=True: both"));
}

#[test]
fn scanned_layers_are_numbered_modules() {
    let described: [Named<'_>; 4] = [
        ("params.layers.Dense_0.kernel", &[2, 3, 4]),
        ("params.layers.Dense_0.bias", &[2, 4]),
        ("params.layers.LayerNorm_0.scale", &[2, 4]),
        ("params.head.kernel", &[4, 5]),
    ];
    assert_eq!(
        made(&described),
        [
            "head.weight <- params.head.kernel: transpose",
            "layers.0.Dense_0.bias <- params.layers.Dense_0.bias: element 0 of axis 0",
            "layers.0.Dense_0.weight <- params.layers.Dense_0.kernel: transpose, element 0 of axis 0",
            "layers.0.LayerNorm_0.weight <- params.layers.LayerNorm_0.scale: element 0 of axis 0",
            "layers.1.Dense_0.bias <- params.layers.Dense_0.bias: element 1 of axis 0",
            "layers.1.Dense_0.weight <- params.layers.Dense_0.kernel: transpose, element 1 of axis 0",
            "layers.1.LayerNorm_0.weight <- params.layers.LayerNorm_0.scale: element 1 of axis 0",
        ]
    );
}

#[test]
fn kernels_alone_are_scanned_only_if_a_name_or_the_user_says_so() {
    let kernel: &[u64] = &[2, 3, 4];
    assert_eq!(made(&[("b.x.kernel", kernel), ("b.y.kernel", kernel)])[0], "b.x.kernel <- b.x.kernel");
    assert_eq!(
        made(&[("ScanBlock_0.x.kernel", kernel), ("ScanBlock_0.y.kernel", kernel)])[0],
        "ScanBlock_0.0.x.weight <- ScanBlock_0.x.kernel: transpose, element 0 of axis 0"
    );
    assert_eq!(
        made_as(&[("b.x.kernel", kernel), ("b.y.kernel", kernel)], &[("b", "scan")])[0],
        "b.0.x.weight <- b.x.kernel: transpose, element 0 of axis 0"
    );
}

#[test]
fn layers_that_are_stated_to_be_scanned_and_are_not_are_refused() {
    let kinds = Kinds::default().with("b", "scan").unwrap();
    let described = tensors(&[("b.x.kernel", &[2, 3, 4]), ("b.y.kernel", &[3, 3, 4])]);
    assert_eq!(translate(&described, &kinds).map(drop).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn layers_of_different_numbers_are_not_scanned() {
    let described: [Named<'_>; 2] = [("l.LayerNorm_0.scale", &[2, 4]), ("l.LayerNorm_1.scale", &[3, 4])];
    assert_eq!(
        made(&described),
        [
            "l.LayerNorm_0.0.weight <- l.LayerNorm_0.scale: element 0 of axis 0",
            "l.LayerNorm_0.1.weight <- l.LayerNorm_0.scale: element 1 of axis 0",
            "l.LayerNorm_1.0.weight <- l.LayerNorm_1.scale: element 0 of axis 0",
            "l.LayerNorm_1.1.weight <- l.LayerNorm_1.scale: element 1 of axis 0",
            "l.LayerNorm_1.2.weight <- l.LayerNorm_1.scale: element 2 of axis 0",
        ]
    );
    // More layers than any model has: the axis is something else.
    assert_eq!(made(&[("n.scale", &[1 << 40, 4])]), ["n.scale <- n.scale"]);
}

#[test]
fn parameters_that_belong_to_no_layer_keep_their_axes() {
    let described: [Named<'_>; 2] = [("params.position", &[1, 5, 4]), ("params.lora.lora_a", &[6, 2])];
    assert_eq!(made(&described), ["lora.lora_a <- params.lora.lora_a", "position <- params.position"]);
    assert!(notes(&translated(&described, &[])).contains("no layer that is known"));
}

#[test]
fn states_of_random_generators_and_of_optimizers_are_dropped() {
    let described: [Named<'_>; 3] =
        [("d.kernel.value", &[2, 3]), ("drop.rngs.default.key.value", &[2]), ("opt", &[3])];
    let mut tensors = tensors(&described);
    tensors[2].role = Role::Optimizer;
    let translation = translate(&tensors, &Kinds::default()).unwrap();
    let applied = translation.mapping.apply_to(&tensors, &ckpt_api::Limits::default()).unwrap();
    assert_eq!(applied.dropped, ["drop.rngs.default.key.value", "opt"]);
    assert!(notes(&translation).contains("random generators"));
}

#[test]
fn kinds_and_layers_that_do_not_exist_are_refused() {
    assert_eq!(Kinds::default().with("a", "upsampling").map(drop).unwrap_err().kind(), Kind::Usage);
    let kinds = Kinds::default().with("decoder.*", "conv").unwrap();
    let error = translate(&tensors(&[("encoder.up.kernel", &[2, 2, 3, 4])]), &kinds).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("decoder.*"), "{error}");
}

#[test]
fn names_may_be_anything_and_shapes_empty() {
    let described: [Named<'_>; 7] = [
        ("", &[]),
        (".", &[0]),
        ("params", &[2]),
        ("params.", &[2]),
        ("value", &[2]),
        ("a..kernel", &[0, 0]),
        ("a.query.kernel", &[0, 0, 0]),
    ];
    translated(&described, &[]);
}
