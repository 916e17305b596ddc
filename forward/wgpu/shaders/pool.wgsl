// ckpt_forward::kernel::Pool

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    kind: u32,
    window: Window,
    padded_rows: u32,
    padded_columns: u32,
}

// In the order of the host's list.
const MAXIMUM: u32 = 0u;
const AVERAGE: u32 = 1u;
const AVERAGE_PADDED: u32 = 2u;

@group(0) @binding(3) var<storage, read> x: array<u32>;

// Kernel elements within the padded image.
fn counted(p: u32, length: u32, stride: u32, dilation: u32, padded: u32) -> u32 {
    var count = 0u;
    for (var k = 0u; k < length; k++) {
        if p * stride + k * dilation < padded {
            count += 1u;
        }
    }
    return count;
}

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    let window = params.window;
    let column = i % window.output_columns;
    let row = i / window.output_columns % window.output_rows;
    let image = i / window.output_columns / window.output_rows;
    var value = 0.0;
    var count = 0u;
    for (var ky = 0u; ky < window.kernel_rows; ky++) {
        let y = covered_row(row, ky);
        if y >= window.input_rows {
            continue;
        }
        for (var kx = 0u; kx < window.kernel_columns; kx++) {
            let place = covered_column(column, kx);
            if place >= window.input_columns {
                continue;
            }
            let next = load(x[(image * window.input_rows + y) * window.input_columns + place]);
            if params.kind != MAXIMUM {
                value = add(value, next);
            } else if count == 0u {
                value = next;
            } else {
                value = greater(value, next);
            }
            count += 1u;
        }
    }
    if params.kind == AVERAGE_PADDED {
        count = counted(row, window.kernel_rows, window.stride_rows, window.dilation_rows, params.padded_rows)
            * counted(column, window.kernel_columns, window.stride_columns, window.dilation_columns, params.padded_columns);
    }
    if params.kind != MAXIMUM {
        value = divide(value, from_unsigned(count));
    }
    store(i, value);
}
