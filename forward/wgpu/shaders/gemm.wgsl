// ckpt_forward::kernel::Gemm

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    inner: u32,
    outputs: u32,
    weight_bucket: u32,
    weight_inner: u32,
    weight_output: u32,
    has_bias: u32,
    bias_bucket: u32,
    bias_output: u32,
    buckets: u32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> bias: array<u32>;
@group(0) @binding(6) var<storage, read> bucket: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let r = i / params.outputs;
    let o = i % params.outputs;
    var chosen = 0u;
    if params.buckets != 0u {
        chosen = bucket[r];
        if chosen >= params.buckets {
            atomicOr(&status, OUT_OF_RANGE);
            return;
        }
    }
    var x_place = r * params.inner;
    var weight_place = chosen * params.weight_bucket + o * params.weight_output;
    let end = x_place + params.inner;
    let step = params.weight_inner;
    var sum = nothing();
    while x_place < end {
        sum = add(sum, multiply(load(x[x_place]), load(weight[weight_place])));
        x_place += 1u;
        weight_place += step;
    }
    if params.has_bias != 0u {
        sum = add(sum, load(bias[chosen * params.bias_bucket + o * params.bias_output]));
    }
    store(i, sum);
}
