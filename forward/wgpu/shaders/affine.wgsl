// ckpt_forward::kernel::Affine

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    channels: u32,
    inner: u32,
    epsilon: f32,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;
@group(0) @binding(4) var<storage, read> scale: array<u32>;
@group(0) @binding(5) var<storage, read> bias: array<u32>;
@group(0) @binding(6) var<storage, read> mean: array<u32>;
@group(0) @binding(7) var<storage, read> variance: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let channel = i / params.inner % params.channels;
    let deviation = square_root(add(load(variance[channel]), params.epsilon));
    let normal = divide(subtract(load(x[i]), load(mean[channel])), deviation);
    store(i, add(multiply(normal, load(scale[channel])), load(bias[channel])));
}
