// A driver in software: the functions of libcuda.so that the backend calls, and launches that run kernels.cu as host
// C++. It is stricter than NVIDIA's where that costs nothing: memory is filled with rubbish, and what is wrong is not
// forgiven.

#include "shim.h"

#include "kernels.cu"

#include <cstdlib>
#include <cstring>
#include <set>

enum Result {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_IMAGE = 200,
    NOT_FOUND = 500,
};
typedef unsigned long long Pointer;

static const size_t MEMORY = 1 << 30;
static const char NAME[] = "no GPU: kernels.cu as host C++";
static bool is_initialised;
static int context, module, event;
static void *current;
static std::set<Pointer> allocated;

static Result allocate(Pointer *pointer, size_t len) {
    if (len == 0) return INVALID_VALUE;
    if (len > MEMORY) return OUT_OF_MEMORY;
    void *memory = memset(malloc(len), 0xa5, len);
    *pointer = (Pointer)memory;
    allocated.insert(*pointer);
    return SUCCESS;
}

static Result release(Pointer pointer) {
    if (allocated.erase(pointer) == 0) return INVALID_VALUE;
    free((void *)pointer);
    return SUCCESS;
}

extern "C" {
Result cuInit(unsigned) {
    is_initialised = true;
    return SUCCESS;
}
Result cuGetErrorString(Result, const char **text) {
    *text = "as the driver in software says";
    return SUCCESS;
}
Result cuDeviceGetCount(int *count) {
    if (!is_initialised) return NOT_INITIALIZED;
    *count = getenv("CKPT_NO_DEVICE") ? 0 : 1;
    return SUCCESS;
}
Result cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return SUCCESS;
}
Result cuDeviceGetName(char *name, int len, int) {
    strncpy(name, NAME, len);
    return SUCCESS;
}
// Compute capability 1.1, and memory pools.
Result cuDeviceGetAttribute(int *value, int, int) {
    *value = 1;
    return SUCCESS;
}
Result cuDevicePrimaryCtxRetain(void **made, int) {
    *made = &context;
    return SUCCESS;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return allocated.empty() ? SUCCESS : INVALID_VALUE; }
Result cuCtxGetCurrent(void **found) {
    *found = current;
    return SUCCESS;
}
Result cuCtxSetCurrent(void *set) {
    current = set;
    return SUCCESS;
}
Result cuModuleLoadData(void **made, const void *image) {
    *made = &module;
    return strstr((const char *)image, "\n.version ") ? SUCCESS : INVALID_IMAGE;
}
Result cuModuleUnload(void *) { return SUCCESS; }
Result cuModuleGetFunction(void **function, void *, const char *name) {
    auto entry = entries().find(name);
    if (entry == entries().end()) return NOT_FOUND;
    *function = (void *)entry->second;
    return SUCCESS;
}
Result cuMemAlloc_v2(Pointer *pointer, size_t len) { return allocate(pointer, len); }
Result cuMemAllocAsync(Pointer *pointer, size_t len, void *) { return allocate(pointer, len); }
Result cuMemFree_v2(Pointer pointer) { return release(pointer); }
Result cuMemFreeAsync(Pointer pointer, void *) { return release(pointer); }
Result cuMemsetD8Async(Pointer pointer, unsigned char value, size_t len, void *) {
    memset((void *)pointer, value, len);
    return SUCCESS;
}
Result cuMemcpyHtoDAsync_v2(Pointer to, const void *from, size_t len, void *) {
    memcpy((void *)to, from, len);
    return SUCCESS;
}
Result cuMemcpyDtoHAsync_v2(void *to, Pointer from, size_t len, void *) {
    memcpy(to, (void *)from, len);
    return SUCCESS;
}
Result cuStreamSynchronize(void *) { return SUCCESS; }
Result cuStreamWaitEvent(void *, void *, unsigned) { return SUCCESS; }
Result cuEventCreate(void **made, unsigned) {
    *made = &event;
    return SUCCESS;
}
Result cuEventRecord(void *, void *) { return SUCCESS; }
Result cuEventDestroy_v2(void *) { return SUCCESS; }

// Parameters are pointers to: five operands, the output, the faults, the launch's number, the words.
Result cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void *, void **params, void **extra) {
    if (!grid_x || !block_x || block_x > 1024) return INVALID_VALUE;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared || extra) return INVALID_VALUE;
    const void *operands[5];
    for (int i = 0; i < 7; i++) {
        Pointer pointer = *(Pointer *)params[i];
        if (i < 5) operands[i] = (const void *)pointer;
        if ((pointer || i >= 5) && !allocated.count(pointer)) return INVALID_VALUE;
    }
    void *y = *(void **)params[5];
    unsigned *faults = *(unsigned **)params[6], launch = *(unsigned *)params[7];
    gridDim.x = grid_x;
    blockDim.x = block_x;
    for (blockIdx.x = 0; blockIdx.x < grid_x; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < block_x; threadIdx.x++) {
            ((Entry)function)(operands, y, faults, launch, params[8]);
        }
    }
    return SUCCESS;
}
}
