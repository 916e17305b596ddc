// The kernels of ckpt_forward::kernel, one entry for each type of numbers. One thread computes one output by the
// operations stated there, in their order; there are no atomics, no shared memory and no fused operations.
//
// NVRTC compiles it without other headers; tests compile it as host C++ behind tests/host/shim.h.
//
// T is the type of the elements in buffers, A that in which they are computed: float and double, or int and long long.
// The host has checked every size against the buffers (src/launch.rs); what depends on values is checked here.

#include "functions.cuh"

typedef long long i64;

#define MAX_RANK 8

// Every parameter is one word of 8 bytes, so that the host packs an array of words. Must match src/pack.rs.
#define WORDS 32

struct View { i64 offset, strides[MAX_RANK]; };
struct CopyParams { i64 len, rank, shape[MAX_RANK]; View from, to; };
struct PadParams { i64 len, rank, input[MAX_RANK], output[MAX_RANK], before[MAX_RANK], edge; };
struct UnaryParams { i64 len, function; double real[2]; i64 integer[2]; };
struct BinaryParams { i64 len, rank, shape[MAX_RANK], a[MAX_RANK], b[MAX_RANK], multiply; };
struct GemmParams { i64 rows, inner, outputs, sets, weight[3], bias[2]; };
struct Window { i64 input[2], output[2], kernel[2], stride[2], dilation[2], before[2]; };
struct ConvParams { i64 batch, groups, inputs, outputs; Window window; i64 weight[4]; };
struct PoolParams { i64 images; Window window; i64 kind, padded[2]; };
struct AffineParams { i64 outer, channels, inner; double epsilon; };
struct LayerNormParams { i64 rows, len; double epsilon; };
struct SoftmaxParams { i64 outer, len, inner, log; };
struct MeanParams { i64 rows, len; };
struct GatherParams { i64 rows, columns, table, strides[2]; };
struct SparseSumParams { i64 rows, slots, outputs, features, sets, weight[3], factoriser[2], bias[2], buckets; };
struct StaticFeaturesParams { i64 batch, height, width; };

#define FITS(P) static_assert(sizeof(P) <= 8 * WORDS, "more words than the host packs")
FITS(CopyParams);
FITS(PadParams);
FITS(UnaryParams);
FITS(BinaryParams);
FITS(GemmParams);
FITS(ConvParams);
FITS(PoolParams);
FITS(SparseSumParams);

// Must match src/pack.rs.
enum Function { RELU, LEAKY_RELU, ELU, GELU, GELU_TANH, SOFTPLUS, SIGMOID, TANH, CLIP, SQUARE, SCALE };
enum PoolKind { MAXIMUM, AVERAGE, AVERAGE_PADDED };

// What a kernel finds only in values: of each fault the first launch that has it, counted from 1, is kept. All threads
// of a launch write the same number, so it does not matter which is first.
enum Fault { OVERFLOW, INDEX };
struct Faults {
    unsigned *first;
    unsigned launch;

    __device__ void set(Fault fault) const {
        if (first[fault] == 0) first[fault] = launch;
    }
};

// Grid-stride: any grid computes every output.
#define FOR_EACH(i, len)                                                                                             \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, end_##i = (len); i < end_##i;                           \
         i += (i64)gridDim.x * blockDim.x)

// ---- Numbers

__device__ inline float add(float a, float b) { return a + b; }
__device__ inline double add(double a, double b) { return a + b; }
// Saturates, so that a sum which leaves 64 bits is noticed when it is stored.
__device__ inline i64 add(i64 a, i64 b) {
    i64 sum = (i64)((unsigned long long)a + (unsigned long long)b);
    if (((a ^ sum) & (b ^ sum)) >= 0) return sum;
    return a < 0 ? -0x7fffffffffffffffLL - 1 : 0x7fffffffffffffffLL;
}

__device__ inline void store(float *y, float value, const Faults &) { *y = value; }
__device__ inline void store(double *y, double value, const Faults &) { *y = value; }
__device__ inline void store(float *y, double value, const Faults &) { *y = (float)value; }
__device__ inline void store(int *y, i64 value, const Faults &faults) {
    if (value < -0x80000000LL || value > 0x7fffffffLL) return faults.set(OVERFLOW);
    *y = (int)value;
}

// NaN if one is NaN; the first of equal ones.
template <typename A> __device__ inline A greater(A a, A b) { return a != a || a >= b ? a : b; }

// ---- Moving

__device__ __noinline__ i64 place(i64 i, i64 rank, const i64 *shape, const i64 *strides) {
    i64 place = 0;
    #pragma unroll 1
    for (i64 axis = rank - 1; axis >= 0; axis--) {
        place += i % shape[axis] * strides[axis];
        i /= shape[axis];
    }
    return place;
}

template <typename T> __device__ void copy(const T *x, T *y, const CopyParams &p) {
    FOR_EACH(i, p.len) {
        y[p.to.offset + place(i, p.rank, p.shape, p.to.strides)] =
            x[p.from.offset + place(i, p.rank, p.shape, p.from.strides)];
    }
}

template <typename T> __device__ void pad(const T *x, T *y, const PadParams &p) {
    FOR_EACH(i, p.len) {
        i64 rest = i, from = 0, step = 1;
        bool inside = true;
        #pragma unroll 1
        for (i64 axis = p.rank - 1; axis >= 0; axis--) {
            i64 len = p.input[axis], at = rest % p.output[axis] - p.before[axis];
            rest /= p.output[axis];
            if (p.edge && at >= len) at = len - 1;
            if (p.edge && at < 0) at = 0;
            if (at < 0 || at >= len) inside = false;
            if (inside) from += at * step;
            step *= len;
        }
        y[i] = inside ? x[from] : T(0);
    }
}

template <typename T>
__device__ void gather(const T *table, const int *index, T *y, const GatherParams &p, const Faults &faults) {
    FOR_EACH(i, p.rows * p.columns) {
        i64 row = index[i / p.columns];
        if (row < 0 || row >= p.table) {
            faults.set(INDEX);
            continue;
        }
        y[i] = table[row * p.strides[0] + i % p.columns * p.strides[1]];
    }
}

// ---- Sums, also of integers

template <typename T, typename A>
__device__ void binary(const T *a, const T *b, T *y, const BinaryParams &p, const Faults &faults) {
    FOR_EACH(i, p.len) {
        A left = a[place(i, p.rank, p.shape, p.a)], right = b[place(i, p.rank, p.shape, p.b)];
        store(y + i, p.multiply ? left * right : add(left, right), faults);
    }
}

// The parameter set that a row chooses; 0 where there is nothing to choose, -1 where it is out of range.
__device__ inline i64 chosen(const int *bucket, i64 row, i64 sets, const Faults &faults) {
    if (!bucket) return 0;
    i64 set = bucket[row];
    if (set >= 0 && set < sets) return set;
    faults.set(INDEX);
    return -1;
}

template <typename T, typename A>
__device__ void gemm(const T *x, const T *weight, const T *bias, const int *bucket, T *y, const GemmParams &p,
                     const Faults &faults) {
    FOR_EACH(i, p.rows * p.outputs) {
        i64 row = i / p.outputs, output = i % p.outputs;
        i64 set = chosen(bucket, row, p.sets, faults);
        if (set < 0) continue;
        const T *weights = weight + set * p.weight[0] + output * p.weight[2];
        A sum = 0;
        #pragma unroll 1
        for (i64 k = 0; k < p.inner; k++) {
            sum = add(sum, (A)x[row * p.inner + k] * (A)weights[k * p.weight[1]]);
        }
        if (bias) sum = add(sum, (A)bias[set * p.bias[0] + output * p.bias[1]]);
        store(y + i, sum, faults);
    }
}

template <typename T, typename A>
__device__ void sparse_sum(const int *index, const T *weight, const T *factoriser, const T *bias, const int *bucket,
                           T *y, const SparseSumParams &p, const Faults &faults) {
    FOR_EACH(i, p.rows * p.outputs) {
        i64 row = i / p.outputs, output = i % p.outputs;
        i64 set = chosen(bucket, row, p.buckets, faults);
        if (set < 0) continue;
        A sum = 0;
        if (bias) sum = bias[set * p.bias[0] + output * p.bias[1]];
        #pragma unroll 1
        for (i64 slot = 0; slot < p.slots; slot++) {
            i64 at = index[row * p.slots + slot];
            if (at < 0) continue;
            if (at >= p.sets * p.features) {
                faults.set(INDEX);
                continue;
            }
            i64 feature = at % p.features;
            A w = weight[at / p.features * p.weight[0] + feature * p.weight[1] + output * p.weight[2]];
            if (factoriser) w = add(w, (A)factoriser[feature * p.factoriser[0] + output * p.factoriser[1]]);
            sum = add(sum, w);
        }
        store(y + i, sum, faults);
    }
}

// The input place under kernel element k for output place `at`; negative or beyond the input in the padding.
__device__ inline i64 covered(const Window &w, int axis, i64 at, i64 k) {
    return at * w.stride[axis] + k * w.dilation[axis] - w.before[axis];
}

template <typename T, typename A>
__device__ void conv(const T *x, const T *weight, const T *bias, T *y, const ConvParams &p, const Faults &faults) {
    const Window &w = p.window;
    i64 plane = w.output[0] * w.output[1], inputs = p.inputs / p.groups, outputs = p.outputs / p.groups;
    FOR_EACH(i, p.batch * p.outputs * plane) {
        i64 image = i / plane / p.outputs, output = i / plane % p.outputs;
        i64 row = i % plane / w.output[1], column = i % w.output[1];
        i64 first = image * p.inputs + output / outputs * inputs;
        A sum = 0;
        #pragma unroll 1
        for (i64 input = 0; input < inputs; input++) {
            #pragma unroll 1
            for (i64 ky = 0; ky < w.kernel[0]; ky++) {
                i64 py = covered(w, 0, row, ky);
                if (py < 0 || py >= w.input[0]) continue;
                for (i64 kx = 0; kx < w.kernel[1]; kx++) {
                    i64 px = covered(w, 1, column, kx);
                    if (px < 0 || px >= w.input[1]) continue;
                    i64 at = output * p.weight[0] + input * p.weight[1] + ky * p.weight[2] + kx * p.weight[3];
                    sum = add(sum, (A)x[((first + input) * w.input[0] + py) * w.input[1] + px] * (A)weight[at]);
                }
            }
        }
        if (bias) sum = add(sum, (A)bias[output]);
        store(y + i, sum, faults);
    }
}

// ---- Elementwise

template <typename T, typename A> __device__ void unary(const T *x, T *y, const UnaryParams &p, const Faults &faults) {
    A alpha = (A)p.real[0], low = (A)p.real[0], high = (A)p.real[1];
    FOR_EACH(i, p.len) {
        A v = x[i], value = v;
        if (v == v) switch (p.function) {
            case RELU: value = v > 0 ? v : (A)0; break;
            case LEAKY_RELU: value = v < 0 ? alpha * v : v; break;
            case CLIP: value = v < low ? low : v > high ? high : v; break;
            case SQUARE: value = v * v; break;
        }
        store(y + i, value, faults);
    }
}

__device__ inline void integer_unary(const int *x, int *y, const UnaryParams &p, const Faults &faults) {
    FOR_EACH(i, p.len) {
        i64 v = x[i], value = v;
        switch (p.function) {
            case RELU: value = v > 0 ? v : 0; break;
            case CLIP: value = v < p.integer[0] ? p.integer[0] : v > p.integer[1] ? p.integer[1] : v; break;
            case SQUARE: value = v * v; break;
            case SCALE: value = v * p.integer[0] / p.integer[1]; break;
        }
        store(y + i, value, faults);
    }
}

template <typename T, typename A>
__device__ void dequantize(const int *x, T *y, const UnaryParams &p, const Faults &faults) {
    FOR_EACH(i, p.len) { store(y + i, (A)x[i] / (A)p.real[0], faults); }
}

template <typename T, typename A>
__device__ void transcendental(const T *x, T *y, const UnaryParams &p, const Faults &faults) {
    const A one = 1, half = (A)0.5, zero = 0;
    FOR_EACH(i, p.len) {
        A v = x[i], value = v;
        if (v == v) switch (p.function) {
            case ELU: value = v < 0 ? (A)p.real[0] * expm1_(v) : v; break;
            case GELU: value = half * v * (one + erf_(v / (A)1.4142135623730951)); break;
            case GELU_TANH: {
                A cube = (A)0.044715 * v * v * v;
                value = half * v * (one + tanh_((A)0.7978845608028654 * (v + cube)));
                break;
            }
            case SOFTPLUS: {
                A tail = log1p_(exp_(zero - (v < 0 ? -v : v)));
                value = v > 0 ? v + tail : tail;
                break;
            }
            case SIGMOID: value = v < 0 ? exp_(v) / (one + exp_(v)) : one / (one + exp_(zero - v)); break;
            case TANH: value = tanh_(v); break;
        }
        store(y + i, value, faults);
    }
}

// ---- Real numbers alone

template <typename T, typename A>
__device__ A maximum_of(const T *x, const Window &w, i64 row, i64 column) {
    A value = 0;
    bool first = true;
    #pragma unroll 1
    for (i64 ky = 0; ky < w.kernel[0]; ky++) {
        i64 py = covered(w, 0, row, ky);
        if (py < 0 || py >= w.input[0]) continue;
        for (i64 kx = 0; kx < w.kernel[1]; kx++) {
            i64 px = covered(w, 1, column, kx);
            if (px < 0 || px >= w.input[1]) continue;
            A v = x[py * w.input[1] + px];
            value = first ? v : greater(value, v);
            first = false;
        }
    }
    return value;
}

template <typename T, typename A>
__device__ A sum_of(const T *x, const Window &w, i64 row, i64 column, i64 &places) {
    A sum = 0;
    #pragma unroll 1
    for (i64 ky = 0; ky < w.kernel[0]; ky++) {
        i64 py = covered(w, 0, row, ky);
        if (py < 0 || py >= w.input[0]) continue;
        for (i64 kx = 0; kx < w.kernel[1]; kx++) {
            i64 px = covered(w, 1, column, kx);
            if (px < 0 || px >= w.input[1]) continue;
            sum = sum + (A)x[py * w.input[1] + px];
            places++;
        }
    }
    return sum;
}

// Elements of a window that lie in the padded image.
__device__ inline i64 counted(const Window &w, int axis, i64 at, i64 padded) {
    i64 count = 0;
    #pragma unroll 1
    for (i64 k = 0; k < w.kernel[axis]; k++) count += at * w.stride[axis] + k * w.dilation[axis] < padded;
    return count;
}

template <typename T, typename A> __device__ void pool(const T *x, T *y, const PoolParams &p, const Faults &faults) {
    const Window &w = p.window;
    i64 plane = w.output[0] * w.output[1];
    FOR_EACH(i, p.images * plane) {
        i64 row = i % plane / w.output[1], column = i % w.output[1], places = 0;
        const T *image = x + i / plane * w.input[0] * w.input[1];
        if (p.kind == MAXIMUM) {
            store(y + i, maximum_of<T, A>(image, w, row, column), faults);
            continue;
        }
        A sum = sum_of<T, A>(image, w, row, column, places);
        if (p.kind == AVERAGE_PADDED) {
            places = counted(w, 0, row, p.padded[0]) * counted(w, 1, column, p.padded[1]);
        }
        store(y + i, sum / (A)places, faults);
    }
}

template <typename T, typename A>
__device__ void affine(const T *x, const T *scale, const T *bias, const T *mean, const T *variance, T *y,
                       const AffineParams &p, const Faults &faults) {
    FOR_EACH(i, p.outer * p.channels * p.inner) {
        i64 c = i / p.inner % p.channels;
        A normal = ((A)x[i] - (A)mean[c]) / sqrt_((A)variance[c] + (A)p.epsilon);
        store(y + i, normal * (A)scale[c] + (A)bias[c], faults);
    }
}

template <typename T, typename A> __device__ A mean_of(const T *x, i64 len) {
    A sum = 0;
    #pragma unroll 1
    for (i64 k = 0; k < len; k++) sum = sum + (A)x[k];
    return sum / (A)len;
}

template <typename T, typename A> __device__ void mean(const T *x, T *y, const MeanParams &p, const Faults &faults) {
    FOR_EACH(i, p.rows) { store(y + i, mean_of<T, A>(x + i * p.len, p.len), faults); }
}

template <typename T, typename A>
__device__ void layer_norm(const T *x, const T *scale, const T *bias, T *y, const LayerNormParams &p,
                           const Faults &faults) {
    FOR_EACH(i, p.rows * p.len) {
        i64 column = i % p.len;
        const T *row = x + (i - column);
        A mean = mean_of<T, A>(row, p.len), squares = 0;
        #pragma unroll 1
        for (i64 k = 0; k < p.len; k++) {
            A d = (A)row[k] - mean;
            squares = squares + d * d;
        }
        A root = sqrt_(squares / (A)p.len + (A)p.epsilon);
        A value = ((A)row[column] - mean) / root * (A)scale[column];
        store(y + i, bias ? value + (A)bias[column] : value, faults);
    }
}

template <typename T, typename A>
__device__ void softmax(const T *x, T *y, const SoftmaxParams &p, const Faults &faults) {
    FOR_EACH(i, p.outer * p.len * p.inner) {
        const T *row = x + i / p.inner / p.len * p.len * p.inner + i % p.inner;
        A m = row[0], sum = 0;
        #pragma unroll 1
        for (i64 k = 1; k < p.len; k++) m = greater(m, (A)row[k * p.inner]);
        #pragma unroll 1
        for (i64 k = 0; k < p.len; k++) sum = sum + exp_((A)row[k * p.inner] - m);
        A shifted = (A)x[i] - m;
        store(y + i, p.log ? shifted - log_(sum) : exp_(shifted) / sum, faults);
    }
}

template <typename T, typename A>
__device__ void static_features(const T *x, T *y, const StaticFeaturesParams &p, const Faults &faults) {
    i64 plane = p.height * p.width;
    FOR_EACH(i, p.batch * 8 * plane) {
        i64 image = i / plane / 8, channel = i / plane % 8, at = i % plane;
        A u = ((A)(at % p.width) + (A)0.5) / (A)p.width, v = ((A)(at / p.width) + (A)0.5) / (A)p.height;
        A value = channel == 4 ? u : channel == 5 ? v : channel == 6 ? sin_((A)10 * u) : (A)1;
        if (channel < 4) value = x[(image * 4 + channel) * plane + at];
        store(y + i, value, faults);
    }
}

// ---- Entries: every one takes five operands, of which those that are not there are null

#ifndef REGISTER
#define REGISTER(name, Params)
#endif

#define FAULTS (Faults{first, launch})

#define ENTRY(name, Params, call)                                                                                    \
    extern "C" __global__ void name(const void *a, const void *b, const void *c, const void *d, const void *e,       \
                                    void *y, unsigned *first, unsigned launch, Params p) {                           \
        (void)a, (void)b, (void)c, (void)d, (void)e, (void)first, (void)launch;                                      \
        call;                                                                                                        \
    }                                                                                                                \
    REGISTER(name, Params)

#define MOVES(suffix, T)                                                                                             \
    ENTRY(copy_##suffix, CopyParams, copy((const T *)a, (T *)y, p))                                                  \
    ENTRY(pad_##suffix, PadParams, pad((const T *)a, (T *)y, p))                                                     \
    ENTRY(gather_##suffix, GatherParams, gather((const T *)a, (const int *)b, (T *)y, p, FAULTS))

#define SUMS(suffix, T, A)                                                                                           \
    ENTRY(binary_##suffix, BinaryParams, (binary<T, A>((const T *)a, (const T *)b, (T *)y, p, FAULTS)))              \
    ENTRY(gemm_##suffix, GemmParams,                                                                                 \
          (gemm<T, A>((const T *)a, (const T *)b, (const T *)c, (const int *)d, (T *)y, p, FAULTS)))                 \
    ENTRY(sparse_sum_##suffix, SparseSumParams,                                                                      \
          (sparse_sum<T, A>((const int *)a, (const T *)b, (const T *)c, (const T *)d, (const int *)e, (T *)y, p,     \
                            FAULTS)))                                                                                \
    ENTRY(conv_##suffix, ConvParams, (conv<T, A>((const T *)a, (const T *)b, (const T *)c, (T *)y, p, FAULTS)))

#define REALS(suffix, T, A)                                                                                          \
    SUMS(suffix, T, A)                                                                                               \
    ENTRY(unary_##suffix, UnaryParams, (unary<T, A>((const T *)a, (T *)y, p, FAULTS)))                               \
    ENTRY(dequantize_##suffix, UnaryParams, (dequantize<T, A>((const int *)a, (T *)y, p, FAULTS)))                   \
    ENTRY(transcendental_##suffix, UnaryParams, (transcendental<T, A>((const T *)a, (T *)y, p, FAULTS)))             \
    ENTRY(pool_##suffix, PoolParams, (pool<T, A>((const T *)a, (T *)y, p, FAULTS)))                                  \
    ENTRY(affine_##suffix, AffineParams,                                                                             \
          (affine<T, A>((const T *)a, (const T *)b, (const T *)c, (const T *)d, (const T *)e, (T *)y, p, FAULTS)))   \
    ENTRY(layer_norm_##suffix, LayerNormParams,                                                                      \
          (layer_norm<T, A>((const T *)a, (const T *)b, (const T *)c, (T *)y, p, FAULTS)))                           \
    ENTRY(softmax_##suffix, SoftmaxParams, (softmax<T, A>((const T *)a, (T *)y, p, FAULTS)))                         \
    ENTRY(mean_##suffix, MeanParams, (mean<T, A>((const T *)a, (T *)y, p, FAULTS)))                                  \
    ENTRY(static_features_##suffix, StaticFeaturesParams, (static_features<T, A>((const T *)a, (T *)y, p, FAULTS)))

MOVES(b32, unsigned)
MOVES(b64, unsigned long long)
SUMS(i32, int, i64)
ENTRY(unary_i32, UnaryParams, integer_unary((const int *)a, (int *)y, p, FAULTS))
REALS(f64, double, double)
REALS(f32, float, float)
REALS(f32_in_f64, float, double)
