// ckpt_forward::kernel::Window

struct Window {
    input_rows: u32,
    input_columns: u32,
    output_rows: u32,
    output_columns: u32,
    kernel_rows: u32,
    kernel_columns: u32,
    stride_rows: u32,
    stride_columns: u32,
    dilation_rows: u32,
    dilation_columns: u32,
    before_rows: u32,
    before_columns: u32,
}

// The input place that kernel element `k` covers for output place `p`; in the padding, one that is too large.
fn covered_row(p: u32, k: u32) -> u32 {
    return p * params.window.stride_rows + k * params.window.dilation_rows - params.window.before_rows;
}

fn covered_column(p: u32, k: u32) -> u32 {
    return p * params.window.stride_columns + k * params.window.dilation_columns - params.window.before_columns;
}
