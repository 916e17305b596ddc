// Runs launches that come on standard input, and answers on standard output; numbers are of this machine's byte order.
//
// Launch: length of the entry's name (u32), its bytes; WORDS words; five operands and the output, each its length in
// bytes (i64, -1 for none) and its bytes. Answer: 1 or 0, whether there is such an entry (u32); the faults (2 x u32);
// the output.

#include "shim.h"

#include "kernels.cu"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

// Fewer threads than most launches have outputs, so that the loops over the grid turn.
static const unsigned BLOCKS = 3, THREADS = 5;

static bool read_all(void *to, size_t len) { return fread(to, 1, len, stdin) == len; }

static void must(bool is_so) {
    if (!is_so) abort();
}

// A buffer of exactly its length, so that the sanitizer sees a byte beyond.
static std::unique_ptr<char[]> read_buffer(long long &len) {
    must(read_all(&len, sizeof len));
    if (len < 0) return nullptr;
    std::unique_ptr<char[]> buffer(new char[len]);
    must(read_all(buffer.get(), len));
    return buffer;
}

static void run(Entry entry, const void *const *operands, void *y, unsigned *faults, const void *params) {
    gridDim.x = BLOCKS;
    blockDim.x = THREADS;
    for (blockIdx.x = 0; blockIdx.x < BLOCKS; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < THREADS; threadIdx.x++) entry(operands, y, faults, 1, params);
    }
}

int main() {
    unsigned name_len;
    while (read_all(&name_len, sizeof name_len)) {
        std::string name(name_len, ' ');
        long long params[WORDS], len;
        must(read_all(&name[0], name_len) && read_all(params, sizeof params));
        std::unique_ptr<char[]> buffers[6];
        const void *operands[5];
        for (int i = 0; i < 6; i++) {
            buffers[i] = read_buffer(len);
            if (i < 5) operands[i] = buffers[i].get();
        }
        auto entry = entries().find(name);
        unsigned answer[3] = {entry != entries().end(), 0, 0};
        if (answer[0]) run(entry->second, operands, buffers[5].get(), answer + 1, params);
        fwrite(answer, sizeof answer, 1, stdout);
        fwrite(buffers[5].get(), 1, len, stdout);
        fflush(stdout);
    }
}
