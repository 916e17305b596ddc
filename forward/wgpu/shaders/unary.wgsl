// ckpt_forward::kernel::Unary, of real numbers

struct Params {
    threads: u32,
    row: u32,
    zero: u32,
    function: u32,
    first: f32,
    second: f32,
}

// In the order of the host's list.
const RELU: u32 = 0u;
const LEAKY_RELU: u32 = 1u;
const ELU: u32 = 2u;
const GELU: u32 = 3u;
const GELU_TANH: u32 = 4u;
const SOFTPLUS: u32 = 5u;
const SIGMOID: u32 = 6u;
const TANH: u32 = 7u;
const CLIP: u32 = 8u;
const SQUARE: u32 = 9u;
const DEQUANTIZE: u32 = 10u;

@group(0) @binding(3) var<storage, read> x: array<u32>;

fn gelu(value: f32) -> f32 {
    let inner = add(1.0, error_function(divide(value, 1.41421356237309504880f)));
    return multiply(multiply(0.5, value), inner);
}

fn gelu_tanh(value: f32) -> f32 {
    let cube = multiply(multiply(multiply(0.044715f, value), value), value);
    // √(2/π)
    let inner = multiply(0.79788456080286535588f, add(value, cube));
    return multiply(multiply(0.5, value), add(1.0, hyperbolic_tangent(inner)));
}

fn softplus(value: f32) -> f32 {
    let decay = exponential(negate(magnitude(value)));
    return add(select(0.0, value, is_less(0.0, value)), logarithm_of_one_plus(decay));
}

fn sigmoid(value: f32) -> f32 {
    let decay = exponential(negate(magnitude(value)));
    return divide(select(1.0, decay, is_less(value, 0.0)), add(1.0, decay));
}

fn clip(value: f32) -> f32 {
    if is_less(value, params.first) {
        return params.first;
    }
    if is_less(params.second, value) {
        return params.second;
    }
    return value;
}

fn function_of(value: f32) -> f32 {
    switch params.function {
        case RELU: {
            return select(0.0, value, is_less(0.0, value));
        }
        case LEAKY_RELU: {
            if is_less(value, 0.0) {
                return multiply(params.first, value);
            }
            return value;
        }
        case ELU: {
            if is_less(value, 0.0) {
                return multiply(params.first, exponential_minus_one(value));
            }
            return value;
        }
        case GELU: {
            return gelu(value);
        }
        case GELU_TANH: {
            return gelu_tanh(value);
        }
        case SOFTPLUS: {
            return softplus(value);
        }
        case SIGMOID: {
            return sigmoid(value);
        }
        case TANH: {
            return hyperbolic_tangent(value);
        }
        case CLIP: {
            return clip(value);
        }
        case SQUARE, default: {
            return multiply(value, value);
        }
    }
}

@compute @workgroup_size(64)
fn compute(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = thread(id);
    if i >= params.threads {
        return;
    }
    if params.function == DEQUANTIZE {
        store(i, divide(from_signed(x[i]), params.first));
    } else if is_nan(load(x[i])) {
        output[i] = x[i];
    } else {
        store(i, function_of(load(x[i])));
    }
}
