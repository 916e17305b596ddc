// ckpt_forward::kernel::SparseSum

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    slots: u32,
    outputs: u32,
    features: u32,
    // Indices are below it.
    indices: u32,
    weight_set: u32,
    weight_feature: u32,
    weight_output: u32,
    has_factoriser: u32,
    factoriser_feature: u32,
    factoriser_output: u32,
    has_bias: u32,
    bias_bucket: u32,
    bias_output: u32,
    bias_buckets: u32,
}

@group(0) @binding(3) var<storage, read> index: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> factoriser: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<u32>;
@group(0) @binding(7) var<storage, read> bucket: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let r = i / params.outputs;
    let o = i % params.outputs;
    var sum = nothing();
    if params.has_bias != 0u {
        var chosen = 0u;
        if params.bias_buckets != 0u {
            chosen = bucket[r];
            if chosen >= params.bias_buckets {
                atomicOr(&status, OUT_OF_RANGE);
                return;
            }
        }
        sum = load(bias[chosen * params.bias_bucket + o * params.bias_output]);
    }
    for (var slot = 0u; slot < params.slots; slot++) {
        let chosen = index[r * params.slots + slot];
        if (chosen & SIGN) != 0u {
            continue;
        }
        if chosen >= params.indices {
            atomicOr(&status, OUT_OF_RANGE);
            return;
        }
        let feature = chosen % params.features;
        let place = chosen / params.features * params.weight_set + feature * params.weight_feature;
        var w = load(weight[place + o * params.weight_output]);
        if params.has_factoriser != 0u {
            let shared_place = feature * params.factoriser_feature + o * params.factoriser_output;
            w = add(w, load(factoriser[shared_place]));
        }
        sum = add(sum, w);
    }
    store(i, sum);
}
