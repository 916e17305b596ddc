// ckpt_forward::kernel::Binary

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    rank: u32,
    shape: array<vec4<u32>, 2>,
    a_strides: array<vec4<u32>, 2>,
    b_strides: array<vec4<u32>, 2>,
    multiplies: u32,
}

@group(0) @binding(3) var<storage, read> a: array<u32>;
@group(0) @binding(4) var<storage, read> b: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    var rest = i;
    var a_place = 0u;
    var b_place = 0u;
    for (var axis = params.rank; axis > 0u; axis--) {
        let k = axis - 1u;
        let length = params.shape[k / 4u][k % 4u];
        let at = rest % length;
        rest /= length;
        a_place += at * params.a_strides[k / 4u][k % 4u];
        b_place += at * params.b_strides[k / 4u][k % 4u];
    }
    if params.multiplies != 0u {
        store(i, multiply(load(a[a_place]), load(b[b_place])));
    } else {
        store(i, add(load(a[a_place]), load(b[b_place])));
    }
}
