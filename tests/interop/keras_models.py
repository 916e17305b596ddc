"""Models of all layers that a configuration can describe, for Keras 3 and tf_keras.

Each function takes the module `keras` or `tf_keras` and returns a model. ONLY3 are those that tf_keras cannot make.
"""

import numpy as np

MODELS = {}
ONLY3 = set()
REFUSED = {}


def model(function):
    MODELS[function.__name__] = function
    return function


def only3(function):
    ONLY3.add(function.__name__)
    return model(function)


def refused(reason):
    def register(function):
        REFUSED[function.__name__] = reason
        return model(function)
    return register


def sequential(k, shape, *layers, dtype=None):
    return k.Sequential([k.Input(shape, dtype=dtype), *layers])


@model
def dense(k):
    L = k.layers
    return sequential(k, (8,), L.Dense(16, activation="relu"), L.Dense(5, use_bias=False), L.Dense(4, "softmax"))


@model
def dense_of_sequences(k):
    L = k.layers
    return sequential(k, (5, 8), L.Dense(6, "tanh"), L.Dense(3))


@model
def activations(k):
    L = k.layers
    x = k.Input((7,))
    names = ["relu", "sigmoid", "tanh", "elu", "selu", "softplus", "softsign", "softmax", "gelu", "swish", "exponential",
             "hard_sigmoid", "linear"]
    return k.Model(x, [L.Activation(name)(x) for name in names])


@only3
def activations_of_keras_3(k):
    L = k.layers
    x = k.Input((7,))
    names = ["relu6", "log_softmax", "mish", "leaky_relu", "celu", "hard_silu", "hard_tanh", "log_sigmoid", "tanh_shrink",
             "silu"]
    return k.Model(x, [L.Dense(7, activation=name)(x) for name in names])


@model
def activation_layers(k):
    L = k.layers
    x = k.Input((4, 7))
    layers = [L.ReLU(), L.ReLU(max_value=1.0), L.ReLU(negative_slope=0.1), L.ReLU(1.5, 0.2, 0.3), L.LeakyReLU(),
              L.ELU(0.7), L.Softmax(), L.Softmax(axis=1), L.PReLU(), L.PReLU(shared_axes=[1])]
    return k.Model(x, [layer(x) for layer in layers])


@only3
def relu_of_its_limits(k):
    """Whole numbers, so that values lie at the threshold and at the largest value."""
    L = k.layers
    x = k.Input((4, 7))
    y = k.ops.round(x * 2)
    return k.Model(x, [L.ReLU(2.0, 0.5, 1.0)(y), L.ReLU(threshold=1.0)(y), L.ReLU(2.0, threshold=0.5)(y), L.ReLU(1.0, 0.1)(y)])


@only3
def integers_where_layers_compute_with_real_numbers(k):
    L = k.layers
    x = k.Input((5,), dtype="int32")
    return k.Model(x, [L.Dense(3)(x), L.BatchNormalization()(x), L.Activation("tanh")(x), k.ops.expand_dims(x, (1, 3)) * 0.5])


@model
def activation_given_as_layer(k):
    L = k.layers
    return sequential(k, (6,), L.Dense(5, activation=L.LeakyReLU()), L.Dense(3))


@model
def conv2d(k):
    L = k.layers
    return sequential(k, (12, 10, 3), L.Conv2D(8, 3, padding="same", activation="relu"), L.Conv2D(6, (3, 2), strides=2),
                      L.MaxPooling2D(2), L.Flatten(), L.Dense(4))


@model
def conv2d_same_strided(k):
    L = k.layers
    return sequential(k, (11, 14, 4), L.Conv2D(8, 3, strides=2, padding="same"), L.Conv2D(4, 5, 3, padding="same"),
                      L.Conv2D(4, 3, dilation_rate=2, padding="same"))


@model
def conv2d_free_size(k):
    L = k.layers
    return sequential(k, (None, None, 3), L.Conv2D(4, 3, padding="same"), L.Conv2D(4, 3, strides=2, padding="same"),
                      L.Conv2D(4, 3), L.GlobalAveragePooling2D(), L.Dense(3))


@model
def conv2d_groups(k):
    L = k.layers
    return sequential(k, (8, 8, 4), L.Conv2D(8, 3, groups=2), L.Conv2D(8, 1, groups=4))


@model
def conv1d(k):
    L = k.layers
    return sequential(k, (20, 3), L.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu"),
                      L.Conv1D(5, 4, strides=2, padding="same"), L.MaxPooling1D(2), L.AveragePooling1D(2, 1, "same"),
                      L.Conv1D(4, 3), L.GlobalMaxPooling1D())


@model
def conv3d(k):
    L = k.layers
    return sequential(k, (6, 7, 8, 2), L.Conv3D(4, 3, padding="same"), L.MaxPooling3D(2), L.Conv3D(3, 2),
                      L.AveragePooling3D((1, 2, 2)), L.GlobalAveragePooling3D())


@model
def depthwise(k):
    L = k.layers
    return sequential(k, (9, 9, 3), L.DepthwiseConv2D(3, depth_multiplier=2, padding="same", activation="relu"),
                      L.DepthwiseConv2D(3, strides=2, use_bias=False), L.Conv2D(4, 1))


@model
def depthwise1d(k):
    L = k.layers
    return sequential(k, (12, 4), L.DepthwiseConv1D(3, padding="same", depth_multiplier=2), L.DepthwiseConv1D(2))


@model
def separable(k):
    L = k.layers
    return sequential(k, (9, 9, 3), L.SeparableConv2D(6, 3, padding="same", depth_multiplier=2, activation="relu"),
                      L.SeparableConv2D(4, 3, use_bias=False), L.Reshape((49, 4)), L.SeparableConv1D(5, 3, padding="same"))


@model
def transposed2d(k):
    L = k.layers
    return sequential(k, (5, 6, 3), L.Conv2DTranspose(4, 3, 2, padding="same", activation="relu"),
                      L.Conv2DTranspose(4, 4, 2), L.Conv2DTranspose(3, 2, 3), L.Conv2DTranspose(2, 2, 3, padding="same"))


@model
def transposed_output_padding(k):
    L = k.layers
    return sequential(k, (5, 6, 3), L.Conv2DTranspose(4, 3, 2, padding="same", output_padding=1),
                      L.Conv2DTranspose(2, 3, 2, padding="valid", output_padding=1))


@model
def transposed1d(k):
    L = k.layers
    return sequential(k, (7, 3), L.Conv1DTranspose(4, 3, 2, padding="same"), L.Conv1DTranspose(2, 4, 3))


@model
def transposed3d(k):
    L = k.layers
    return sequential(k, (3, 4, 5, 2), L.Conv3DTranspose(3, 3, 2, padding="same"), L.Conv3DTranspose(2, 2))


@model
def pooling(k):
    L = k.layers
    x = k.Input((9, 8, 3))
    layers = [L.MaxPooling2D(3, 2, "same"), L.AveragePooling2D(3, 2, "same"), L.AveragePooling2D((2, 3)),
              L.GlobalMaxPooling2D(), L.GlobalAveragePooling2D(keepdims=True), L.GlobalMaxPooling2D(keepdims=True)]
    return k.Model(x, [layer(x) for layer in layers])


@model
def global_pooling_of_sequences(k):
    L = k.layers
    x = k.Input((9, 4))
    layers = [L.GlobalAveragePooling1D(), L.GlobalMaxPooling1D(keepdims=True), L.GlobalMaxPooling1D()]
    return k.Model(x, [layer(x) for layer in layers])


@model
def padding_and_cropping(k):
    L = k.layers
    return sequential(k, (6, 7, 2), L.ZeroPadding2D(((1, 2), (0, 3))), L.Conv2D(3, 2), L.Cropping2D(((1, 0), (2, 1))),
                      L.ZeroPadding2D(1), L.ZeroPadding2D((2, 1)), L.Cropping2D(1))


@model
def padding_of_sequences(k):
    L = k.layers
    return sequential(k, (6, 2), L.ZeroPadding1D((1, 2)), L.Cropping1D((2, 1)), L.ZeroPadding1D(1), L.UpSampling1D(3))


@model
def upsampling(k):
    L = k.layers
    return sequential(k, (4, 5, 3), L.UpSampling2D(2), L.UpSampling2D((2, 3), interpolation="bilinear"), L.Conv2D(2, 3))


@model
def upsampling3d(k):
    L = k.layers
    return sequential(k, (2, 3, 2, 2), L.UpSampling3D((2, 1, 3)), L.ZeroPadding3D(1), L.Cropping3D(((1, 0), (0, 1), (1, 1))))


@model
def batch_norm(k):
    L = k.layers
    return sequential(k, (6, 6, 3), L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(), L.BatchNormalization(center=False),
                      L.BatchNormalization(scale=False, epsilon=0.01), L.Flatten(), L.BatchNormalization(), L.Dense(3))


@model
def batch_norm_other_axes(k):
    L = k.layers
    return sequential(k, (4, 6, 3), L.BatchNormalization(axis=1), L.BatchNormalization(axis=2), L.BatchNormalization(axis=3))


@model
def layer_norm(k):
    L = k.layers
    return sequential(k, (5, 6), L.LayerNormalization(), L.LayerNormalization(axis=[1, 2]), L.LayerNormalization(axis=1),
                      L.LayerNormalization(center=False, epsilon=1e-5), L.Dense(3))


@model
def group_norm(k):
    L = k.layers
    return sequential(k, (5, 6, 8), L.GroupNormalization(4), L.Conv2D(6, 3), L.GroupNormalization(-1),
                      L.GroupNormalization(3, scale=False), L.GroupNormalization(3, axis=1, center=False) if k.__name__ == "keras" else L.ReLU())


@only3
def rms_norm(k):
    L = k.layers
    return sequential(k, (5, 6), L.RMSNormalization(), L.Dense(4), L.RMSNormalization(epsilon=1e-4))


@only3
def rms_norm_of_another_axis(k):
    """Keras multiplies by the scale along the last axis all the same."""
    return sequential(k, (4, 4), k.layers.RMSNormalization(axis=1), k.layers.Dense(3))


@model
def unit_norm(k):
    L = k.layers
    return sequential(k, (5, 6), L.UnitNormalization(), L.UnitNormalization(axis=1))


@model
def embedding(k):
    L = k.layers
    return sequential(k, (9,), L.Embedding(7, 5), L.Conv1D(4, 3, activation="relu"), L.GlobalMaxPooling1D(), L.Dense(2))


@model
def embedding_of_integers(k):
    L = k.layers
    return sequential(k, (9,), L.Embedding(7, 5), L.LSTM(4), L.Dense(2, "sigmoid"), dtype="int32")


@model
def embedding_functional(k):
    L = k.layers
    x = k.Input((6,), dtype="int32")
    y = L.Add()([L.Embedding(7, 4)(x), L.Embedding(7, 4)(x)])
    return k.Model(x, L.Flatten()(y))


@model
def lstm(k):
    L = k.layers
    return sequential(k, (7, 3), L.LSTM(5, return_sequences=True), L.LSTM(4, go_backwards=True, return_sequences=True),
                      L.LSTM(6, use_bias=False, go_backwards=True))


@model
def gru(k):
    L = k.layers
    return sequential(k, (7, 3), L.GRU(5, return_sequences=True), L.GRU(4, reset_after=False, return_sequences=True),
                      L.GRU(6, use_bias=False))


@model
def gru_without_reset_after(k):
    L = k.layers
    return sequential(k, (None, 3), L.GRU(5, reset_after=False), L.Dense(2))


@model
def simple_rnn(k):
    L = k.layers
    return sequential(k, (None, 3), L.SimpleRNN(5, return_sequences=True), L.SimpleRNN(4, activation="relu"))


@model
def recurrent_activations(k):
    L = k.layers
    return sequential(k, (6, 3), L.LSTM(4, activation="relu", recurrent_activation="hard_sigmoid", return_sequences=True),
                      L.GRU(4, activation="softsign", recurrent_activation="hard_sigmoid"))


@model
def recurrent_states(k):
    L = k.layers
    x = k.Input((6, 3))
    y, h, c = L.LSTM(4, return_sequences=True, return_state=True)(x)
    z, s = L.GRU(4, return_state=True)(y, initial_state=h)
    w = L.LSTM(4)(y, initial_state=[h, c])
    return k.Model(x, [y, h, c, z, s, w])


@model
def bidirectional(k):
    L = k.layers
    x = k.Input((6, 3))
    return k.Model(x, [
        L.Bidirectional(L.LSTM(4, return_sequences=True))(x),
        L.Bidirectional(L.GRU(4))(x),
        L.Bidirectional(L.SimpleRNN(4, return_sequences=True), merge_mode="sum")(x),
        L.Bidirectional(L.LSTM(4), merge_mode="ave")(x),
        L.Bidirectional(L.LSTM(4), merge_mode="mul")(x),
        *L.Bidirectional(L.GRU(4, return_sequences=True), merge_mode=None)(x),
        *L.Bidirectional(L.LSTM(4, return_state=True))(x),
        L.Bidirectional(L.LSTM(4, return_sequences=True), backward_layer=L.GRU(4, return_sequences=True, go_backwards=True))(x),
    ])


@model
def rnn_cells(k):
    L = k.layers
    return sequential(k, (6, 3), L.RNN(L.LSTMCell(4), return_sequences=True),
                      L.RNN([L.GRUCell(4), L.SimpleRNNCell(5), L.GRUCell(3)], return_sequences=True), L.RNN(L.GRUCell(2)))


@model
def time_distributed(k):
    L = k.layers
    return sequential(k, (3, 6, 6, 2), L.TimeDistributed(L.Conv2D(4, 3, activation="relu")), L.TimeDistributed(L.MaxPooling2D(2)),
                      L.TimeDistributed(L.Flatten()), L.TimeDistributed(L.Dense(5)), L.LSTM(3))


@model
def attention(k):
    L = k.layers
    x, y = k.Input((5, 8)), k.Input((7, 6))
    z = L.MultiHeadAttention(2, 4)(x, x)
    w = L.MultiHeadAttention(3, 4, value_dim=5, output_shape=9)(x, y)
    v = L.MultiHeadAttention(2, 4, use_bias=False)(query=x, value=y, key=y)
    return k.Model([x, y], [z, w, v])


@model
def causal_attention(k):
    L = k.layers
    x = k.Input((5, 8))
    y, scores = L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True, return_attention_scores=True)
    return k.Model(x, [y, scores, L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)])


@model
def attention_mask(k):
    L = k.layers
    x, m = k.Input((5, 8)), k.Input((5, 5), dtype="int32")
    return k.Model([x, m], L.MultiHeadAttention(2, 4)(x, x, attention_mask=m))


@only3
def grouped_attention(k):
    L = k.layers
    x, y = k.Input((5, 8)), k.Input((7, 8))
    return k.Model([x, y], L.GroupQueryAttention(4, 6, 2)(x, y))


@model
def plain_attention(k):
    L = k.layers
    q, v, w = k.Input((5, 8)), k.Input((7, 8)), k.Input((7, 8))
    return k.Model([q, v, w], [L.Attention()([q, v]), L.Attention(use_scale=True)([q, v, w]), L.AdditiveAttention()([q, v])])


@model
def transformer_block(k):
    L = k.layers
    x = k.Input((6, 8))
    a = L.Add()([x, L.Dropout(0.1)(L.MultiHeadAttention(2, 4, dropout=0.1)(x, x))])
    a = L.LayerNormalization(epsilon=1e-6)(a)
    f = L.Dense(8)(L.Dense(16, activation="gelu")(a))
    return k.Model(x, L.LayerNormalization(epsilon=1e-6)(L.Add()([a, f])))


@model
def einsum_dense(k):
    L = k.layers
    x = k.Input((5, 6))
    E = L.EinsumDense
    return k.Model(x, [
        E("abc,cd->abd", output_shape=(None, 7), bias_axes="d")(x), E("...x,xy->...y", output_shape=4, bias_axes="y")(x),
        E("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")(x), E("abc,bd->adc", output_shape=(4, None))(x),
        E("abc,dc->abd", output_shape=(None, 7), activation="relu")(x), E("abc,cde->abde", output_shape=(5, 2, 3), bias_axes="d")(x),
    ])


@model
def merges(k):
    L = k.layers
    x, y = k.Input((4, 6)), k.Input((4, 6))
    pair = [L.Dense(6)(x), y]
    layers = [L.Add(), L.Subtract(), L.Multiply(), L.Average(), L.Maximum(), L.Minimum(), L.Concatenate(), L.Concatenate(axis=1)]
    return k.Model([x, y], [layer(pair) for layer in layers] + [L.Add()([x, y, x]), L.Average()([x, y, x])])


@model
def merges_of_images(k):
    L = k.layers
    x = k.Input((6, 6, 4))
    a, b = L.Conv2D(4, 3, padding="same")(x), L.Conv2D(4, 1)(x)
    s = L.GlobalAveragePooling2D()(a)
    s = L.Reshape((1, 1, 4))(L.Dense(4, "sigmoid")(s))
    return k.Model(x, L.Concatenate()([L.Add()([a, b]), x, L.Multiply()([a, s])]))


@model
def merges_of_other_ranks(k):
    L = k.layers
    x, y = k.Input((4, 6)), k.Input((6,))
    return k.Model([x, y], [L.Add()([x, y]), L.Multiply()([y, x])])


@model
def dot(k):
    L = k.layers
    x, y, u, v = k.Input((4, 6)), k.Input((5, 6)), k.Input((6,)), k.Input((6,))
    return k.Model([x, y, u, v], [L.Dot(axes=2)([x, y]), L.Dot(axes=1)([u, v]), L.Dot(axes=1, normalize=True)([u, v]),
                                  L.Dot(axes=(2, 1))([x, u])])


@model
def shapes(k):
    L = k.layers
    return sequential(k, (4, 6, 2), L.Permute((3, 1, 2)), L.Reshape((8, -1)), L.Permute((2, 1)), L.Flatten(),
                      L.RepeatVector(3), L.Reshape((-1,)), L.Reshape((3, 48)))


@model
def flatten_of_convolution(k):
    L = k.layers
    return sequential(k, (5, 6, 2), L.Conv2D(3, 2), L.Dropout(0.5), L.SpatialDropout2D(0.1), L.Flatten(), L.GaussianNoise(0.1),
                      L.GaussianDropout(0.1), L.Dense(4), L.ActivityRegularization(0.1))


@model
def preprocessing(k):
    L = k.layers
    x = k.Input((5, 6, 3))
    y = L.Rescaling(1 / 127.5, offset=-1.0)(x)
    n = L.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 2.0, 0.5])(y)
    i = L.Normalization(mean=0.5, variance=2.0, invert=True, axis=None)(n) if k.__name__ == "keras" else n
    return k.Model(x, [n, i, L.Resizing(8, 4)(y), L.Resizing(3, 9, interpolation="nearest")(y)])


@model
def normalization_with_variables(k):
    L = k.layers
    one, two = L.Normalization(), L.Normalization(axis=1)
    random = np.random.default_rng(5)
    one.adapt(random.normal(size=(40, 3, 4)).astype("float32"))
    two.adapt(random.normal(size=(40, 3, 4)).astype("float32"))
    return sequential(k, (3, 4), one, two, L.Dense(2))


@model
def augmentation(k):
    L = k.layers
    return sequential(k, (6, 6, 3), L.RandomFlip(), L.RandomRotation(0.1), L.RandomZoom(0.1), L.Conv2D(2, 3))


@model
def shared_layer(k):
    L = k.layers
    x, y = k.Input((6,)), k.Input((6,))
    d = L.Dense(4, activation="relu")
    return k.Model([x, y], L.Dense(2)(L.Concatenate()([d(x), d(y)])))


@model
def nested(k):
    L = k.layers
    inner = k.Sequential([k.Input((4,)), L.Dense(5, activation="relu"), L.Dense(5)], name="inner")
    a = k.Input((4,))
    funk = k.Model(a, L.BatchNormalization()(L.Dense(4)(a)), name="funk")
    x = k.Input((4,))
    y = inner(funk(x))
    return k.Model(x, [L.Dense(3)(y), inner(x)])


@model
def nested_whose_results_are_outputs_and_inputs(k):
    L = k.layers
    i = k.Input((4,))
    inner = k.Model(i, L.Dense(4, "tanh")(i))
    x = k.Input((4,))
    first = inner(x)
    second = inner(first)
    return k.Model(x, [L.Dense(2)(first), L.Dense(3)(second), first, second])


@model
def sequential_of_models(k):
    L = k.layers
    base = k.Sequential([k.Input((8, 8, 3)), L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(), L.GlobalAveragePooling2D()])
    base.trainable = False
    return k.Sequential([k.Input((8, 8, 3)), base, L.Dense(3)])


@model
def several_inputs_and_outputs(k):
    L = k.layers
    x, y = k.Input((4,), name="left"), k.Input((5,), name="right")
    z = L.Concatenate()([L.Dense(3)(x), L.Dense(3)(y)])
    return k.Model({"left": x, "right": y}, {"one": L.Dense(2, name="one")(z), "two": L.Dense(1, "sigmoid", name="two")(z)})


@model
def residual(k):
    L = k.layers
    x = k.Input((8, 8, 3))
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, padding="same", use_bias=False)(x)))
    z = L.BatchNormalization()(L.Conv2D(4, 3, padding="same", use_bias=False)(y))
    y = L.ReLU()(L.Add()([z, y]))
    return k.Model(x, L.Dense(3, "softmax")(L.GlobalAveragePooling2D()(y)))


@model
def masking(k):
    L = k.layers
    return sequential(k, (4, 3), L.Masking(0.0), L.Dense(2))


@model
def rotated_images(k):
    """Cubes, so that axes in a wrong order still fit; each value is used in both of its orders."""
    L = k.layers
    x = k.Input((6, 6, 6))
    to_first, to_last = L.Permute((3, 1, 2)), L.Permute((2, 3, 1))
    y = L.Conv2D(6, 1)(x)
    return k.Model(x, [L.Conv2D(3, 2)(x), L.Dense(3)(to_last(x)), L.Conv2D(4, 2)(to_first(x)), L.Dense(4)(L.Flatten()(to_last(y))),
                       L.Conv2D(2, 3)(to_first(y)), L.BatchNormalization()(to_last(to_last(y))), L.Dense(2)(to_first(to_last(y)))])


@model
def mixed_orders(k):
    L = k.layers
    c = dict(data_format="channels_first")
    return sequential(k, (6, 6, 6), L.ZeroPadding2D(1, **c), L.Conv2D(4, 3), L.UpSampling2D(2, **c), L.DepthwiseConv2D(3, padding="same"),
                      L.Cropping2D(1, **c), L.BatchNormalization(axis=1), L.Conv2D(6, 1), L.MaxPooling2D(2), L.Flatten(**c), L.Dense(3))


@model
def channels_first(k):
    L = k.layers
    c = dict(data_format="channels_first")
    x = k.Input((3, 8, 9))
    # TensorFlow cannot run convolutions of such images on the CPU, but pads, pools by reductions and flattens them.
    y = L.Flatten(**c)(L.ZeroPadding2D(1, **c)(x))
    return k.Model(x, [L.GlobalAveragePooling2D(**c)(x), L.GlobalMaxPooling2D(keepdims=True, **c)(x), y,
                       L.BatchNormalization(axis=1)(x), L.UpSampling2D(2, **c)(x), L.Cropping2D(1, **c)(x)])


@model
def arithmetic(k):
    L = k.layers
    x = k.Input((4, 6))
    y = L.Dense(6)(x) * 2.0 + 1.0 - x
    z = 1.0 - y / 3.0
    return k.Model(x, [y, z, -z, z ** 2, y[:, 1:, ::2], y[:, 0], y[:, -1:, :3]])


@only3
def operations(k):
    o = k.ops
    x = k.Input((4, 6))
    y = o.concatenate([x, o.relu(x)], axis=-1)
    return k.Model(x, [
        o.reshape(y, (-1, 48)), o.transpose(y, (0, 2, 1)), o.mean(y, axis=1), o.sum(y, axis=[1, 2], keepdims=True),
        o.max(y, axis=-1), o.matmul(x, o.transpose(x, (0, 2, 1))), o.expand_dims(y, 1), o.squeeze(o.expand_dims(y, 1), 1),
        o.stack([x, x], axis=1), o.exp(x), o.sqrt(o.abs(x)), o.square(x), o.rsqrt(o.abs(x) + 1.0), o.softmax(x, axis=1),
        o.clip(x, -0.5, 0.5), o.maximum(x, 0.1), o.minimum(x, y[..., :6]), o.gelu(x), o.gelu(x, approximate=False),
        o.leaky_relu(x, 0.1), o.elu(x, 0.5), o.flip(x, axis=1), o.swapaxes(x, 1, 2), o.where(x > 0.2, x, -x), o.log(o.abs(x)),
        o.sigmoid(x), o.silu(x), x * np.arange(6, dtype="float32"), o.cast(x, "int32"),
    ])


@only3
def small_resnet_like(k):
    L = k.layers
    x = k.Input((16, 16, 3))
    y = L.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    y = L.Activation("swish")(L.BatchNormalization()(y))
    for filters, stride in [(8, 1), (16, 2)]:
        z = L.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(y)
        z = L.Activation("swish")(L.BatchNormalization()(z))
        s = L.GlobalAveragePooling2D(keepdims=True)(z)
        s = L.Conv2D(z.shape[-1], 1, activation="sigmoid")(L.Conv2D(2, 1, activation="swish")(s))
        z = L.BatchNormalization()(L.Conv2D(filters, 1, use_bias=False)(L.Multiply()([z, s])))
        y = L.Add()([y, z]) if stride == 1 else z
    return k.Model(x, L.Dense(5)(L.GlobalAveragePooling2D()(y)))


@refused("Lambda")
def lambda_layer(k):
    return sequential(k, (4,), k.layers.Lambda(lambda x: x * 2))


@refused("mask")
def masked_lstm(k):
    L = k.layers
    return sequential(k, (4,), L.Embedding(7, 3, mask_zero=True), L.LSTM(2))


@refused("CategoryEncoding")
def category(k):
    return sequential(k, (4,), k.layers.CategoryEncoding(7))


@refused("ConvLSTM2D")
def conv_lstm(k):
    return sequential(k, (3, 6, 6, 2), k.layers.ConvLSTM2D(2, 3))
