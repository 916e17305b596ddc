// As much of Metal's standard library as the translated shaders use, so that they compile as C++ and run on the host: threads
// one after the other, arithmetic as IEEE 754 states it (-ffp-contract=off).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#define kernel
#define device
#define constant const

typedef uint32_t uint;

namespace metal {

using ::uint;

struct uint3 {
    uint x, y, z;
};

template <class T>
struct vector4 {
    T lanes[4];
    T operator[](uint lane) const { return lanes[lane]; }
};

typedef vector4<uint> uint4;
typedef vector4<int> int4;

struct atomic_uint {
    uint value;
};

enum memory_order { memory_order_relaxed };

inline uint atomic_fetch_or_explicit(atomic_uint* object, uint operand, memory_order) {
    uint before = object->value;
    object->value |= operand;
    return before;
}

template <class T>
T select(T if_false, T if_true, bool condition) {
    return condition ? if_true : if_false;
}

template <class T>
T min(T a, T b) {
    return b < a ? b : a;
}

template <class T>
T max(T a, T b) {
    return a < b ? b : a;
}

inline int clamp(int x, int low, int high) {
    return min(max(x, low), high);
}

// Literals without a suffix are of type double here, and float there.
inline float clamp(float x, float low, float high) {
    return min(max(x, low), high);
}

inline uint clz(uint x) {
    return x == 0 ? 32 : uint(__builtin_clz(x));
}

}  // namespace metal

template <class To, class From>
To as_type(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// Below: what runs a shader with buffers that come from standard input, as 32-bit words in the host's order.

typedef std::vector<uint> Words;

const uint WORKGROUP = 64;

// Calls the entry point for every thread; `Slots` are the buffers of its arguments.
template <size_t... Slots>
struct Runner {
    template <class... Arguments>
    static void run(void (*entry)(metal::uint3, Arguments...), uint columns, uint rows, std::vector<Words>& buffers) {
        for (uint y = 0; y < rows; y++) {
            for (uint x = 0; x < columns * WORKGROUP; x++) {
                entry(
                    metal::uint3{x, y, 0},
                    *reinterpret_cast<typename std::remove_reference<Arguments>::type*>(buffers[Slots].data())...);
            }
        }
    }
};

// By number.
void run_shader(uint shader, uint columns, uint rows, std::vector<Words>& buffers);

static bool read_words(Words& words, size_t count) {
    words.resize(count);
    return std::fread(words.data(), sizeof(uint), count, stdin) == count;
}

static bool write_words(const Words& words) {
    return std::fwrite(words.data(), sizeof(uint), words.size(), stdout) == words.size();
}

// A request is the shader's number, columns and rows of workgroups, the number of buffers; then for each its length and its
// words. The answer is buffers 1 and 2, the output and the status.
static int serve() {
    Words head;
    while (read_words(head, 4)) {
        std::vector<Words> buffers(head[3]);
        for (Words& buffer : buffers) {
            Words length;
            if (!read_words(length, 1) || !read_words(buffer, length[0])) {
                return 1;
            }
        }
        run_shader(head[0], head[1], head[2], buffers);
        if (!write_words(buffers[1]) || !write_words(buffers[2]) || std::fflush(stdout) != 0) {
            return 1;
        }
    }
    return 0;
}
