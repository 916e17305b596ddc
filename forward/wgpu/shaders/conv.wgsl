// ckpt_forward::kernel::Conv

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    inputs: u32,
    outputs: u32,
    group_inputs: u32,
    group_outputs: u32,
    weight_output: u32,
    weight_input: u32,
    weight_row: u32,
    weight_column: u32,
    has_bias: u32,
    window: Window,
}

@group(0) @binding(3) var<storage, read> x: array<u32>;
@group(0) @binding(4) var<storage, read> weight: array<u32>;
@group(0) @binding(5) var<storage, read> bias: array<u32>;

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let window = params.window;
    let column = i % window.output_columns;
    let row = i / window.output_columns % window.output_rows;
    let plane = i / window.output_columns / window.output_rows;
    let o = plane % params.outputs;
    let image = plane / params.outputs;
    let first = image * params.inputs + o / params.group_outputs * params.group_inputs;
    var sum = nothing();
    for (var channel = 0u; channel < params.group_inputs; channel++) {
        for (var ky = 0u; ky < window.kernel_rows; ky++) {
            let y = covered_row(row, ky);
            if y >= window.input_rows {
                continue;
            }
            let start = ((first + channel) * window.input_rows + y) * window.input_columns;
            let weights = o * params.weight_output + channel * params.weight_input + ky * params.weight_row;
            for (var kx = 0u; kx < window.kernel_columns; kx++) {
                let place = covered_column(column, kx);
                if place >= window.input_columns {
                    continue;
                }
                let w = load(weight[weights + kx * params.weight_column]);
                sum = add(sum, multiply(load(x[start + place]), w));
            }
        }
    }
    if params.has_bias != 0u {
        sum = add(sum, load(bias[o]));
    }
    store(i, sum);
}
