// SPDX-License-Identifier: MIT
// The library's identity, its device, and memory on it.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef POISSON_CUDA
#include <dlfcn.h>
#endif

#include "core/regions.h"

#ifndef POISSON_OFFLOAD_NAME
#define POISSON_OFFLOAD_NAME "host"
#endif

namespace {

#ifdef POISSON_OFFLOAD
constexpr int64_t STAGING_BYTES = int64_t{64} << 20;

// Zeros, because what lies behind a row goes to the device with it; null where there is no memory.
std::unique_ptr<char[]> zeroed(int64_t bytes) { return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]()); }

int device() { return omp_get_default_device(); }

#ifdef POISSON_CUDA

// Calls a function of a library; whether it was there and returned zero.
template <class... Arguments>
bool called(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    return function && function(arguments...) == 0;
}

// OpenMP's run time has CUDA put a thread that waits to sleep, and to wake it takes longer than many a region runs.
// This sets CUDA's own default, by which a thread polls unless there are more contexts than cores. Without CUDA nothing
// changes.
void wait_by_polling() {
    void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) return;
    int ordinal;
    void* context;
    if (called(cuda, "cuInit", 0u) && called(cuda, "cuDeviceGet", &ordinal, device()) &&
        called(cuda, "cuDevicePrimaryCtxSetFlags_v2", ordinal, 0u))
        called(cuda, "cuDevicePrimaryCtxRetain", &context, ordinal);
}

#endif
#else
constexpr int64_t PAGE = 4096, CACHE_LINE = 64;
#ifdef POISSON_SANITIZE
// Every array has a block of its own, which ends a line behind it: what lies further away is not to be touched.
constexpr int64_t HUGE_PAGE = INT64_MAX, KEPT = INT64_MAX, PLACES = 1, STEP = CACHE_LINE;
#else
constexpr int64_t HUGE_PAGE = int64_t{2} << 20;
// Blocks from this size on are kept when they are released.
constexpr int64_t KEPT = 16 * PAGE;
// Arrays begin at one of so many places in a page, so far from one another.
constexpr int64_t PLACES = 7, STEP = 9 * CACHE_LINE;
#endif
// The end of a row that may be padding, which flat loops work on, too.
constexpr int64_t ROW_END = 2 * CACHE_LINE;

// What lies in the line ahead of an array: the block that it is in.
struct Block {
    void* start;
    int64_t bytes;
    void* whole = nullptr;  // where the block begins that it was cut from

#ifdef MADV_HUGEPAGE
    // A block of huge pages can be cut.
    bool huge() const { return bytes % HUGE_PAGE == 0; }
#else
    bool huge() const { return false; }
#endif
    // `needed`: of its bytes, those from the start that are used.
    void reserve(int64_t needed) {
#ifdef MADV_HUGEPAGE
        if (huge()) {
            char* const from = static_cast<char*>(
                mmap(nullptr, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            const int64_t ahead = -reinterpret_cast<intptr_t>(from) & (HUGE_PAGE - 1);
            start = whole = from == MAP_FAILED ? nullptr : from + ahead;
            if (!start) return;
            if (ahead) munmap(from, ahead);
            munmap(from + ahead + bytes, HUGE_PAGE - ahead);
            // The system clears a whole page where one byte is written.
            const int64_t filled = needed % HUGE_PAGE < HUGE_PAGE / 2 ? needed / HUGE_PAGE * HUGE_PAGE : bytes;
            madvise(start, filled, MADV_HUGEPAGE);
            return;
        }
#endif
        start = std::aligned_alloc(bytes % PAGE == 0 ? PAGE : CACHE_LINE, bytes);
    }
    const void* end() const { return static_cast<const char*>(start) + bytes; }
    void release() const {
#ifdef MADV_HUGEPAGE
        if (huge()) return void(munmap(start, bytes));
#endif
        std::free(start);
    }
    // Where an array begins, with a line ahead of it that keeps the block. Arrays that begin at the same place in a
    // page make loads of one wait for stores to another (their addresses agree in the bits that are compared first): so
    // each begins a few cache lines later than the one before.
    char* array() const {
        static std::atomic<int64_t> arrays{0};
        char* const base = static_cast<char*>(start) + CACHE_LINE + arrays++ % PLACES * STEP;
        std::memcpy(base - CACHE_LINE, this, sizeof *this);
        return base;
    }
};

// Blocks that were released, for the next arrays of their size: to get a page from the system and to write it for the
// first time takes several times as long as to write it again, and many times where a hypervisor has to find it. Until
// then the system may take them.
class ReleasedBlocks {
public:
    // The array in a block of this size, or in one that is cut off the smallest that is larger; null where there is
    // none.
    void* take(int64_t bytes) {
        const std::lock_guard<std::mutex> guard(mutex);
        int best = -1;
        for (int n = count - 1; n >= 0; --n) {
            const Block block = block_of(arrays[n]);
            if (block.bytes != bytes && !(block.bytes > bytes && block.huge() && Block{nullptr, bytes}.huge()))
                continue;
            if (best < 0 || block.bytes < block_of(arrays[best]).bytes) best = n;
        }
        if (best < 0) return nullptr;
        char* const array = static_cast<char*>(arrays[best]);
        Block block = block_of(array);
        if (block.bytes > bytes) {
            arrays[best] = Block{static_cast<char*>(block.start) + bytes, block.bytes - bytes, block.whole}.array();
#ifdef MADV_HUGEPAGE
            // Its rows belong to other threads than those of the array before.
            static const bool near_and_far = access("/sys/devices/system/node/node1", F_OK) == 0;
            if (near_and_far) madvise(block.start, bytes, MADV_DONTNEED);
#endif
        } else
            std::copy(arrays + best + 1, arrays + count--, arrays + best);
        block.bytes = bytes;
        std::memcpy(array - CACHE_LINE, &block, sizeof block);
        held -= bytes;
        return array;
    }
    void give(void* array) {
        Block block = block_of(array);
        const std::lock_guard<std::mutex> guard(mutex);
        if (block.bytes > MOST_BYTES) return block.release();
        while (count > 0 && (count == MOST || held + block.bytes > MOST_BYTES)) drop_oldest();
#ifdef MADV_FREE
        // Of small blocks there are too few to matter, and it would take as long as a solution. The page with the line
        // ahead of the array stays.
        const int64_t page = block.bytes > HUGE_PAGE ? HUGE_PAGE : PAGE;
        if (block.bytes > LEFT) madvise(static_cast<char*>(block.start) + page, block.bytes - page, MADV_FREE);
#endif
        // Those beside it that were cut from the same one become one again.
        for (int n = 0; n < count && block.huge(); ++n) {
            const Block other = block_of(arrays[n]);
            const bool below = other.end() == block.start, above = block.end() == other.start;
            if (!(below || above) || other.whole != block.whole) continue;
            std::copy(arrays + n + 1, arrays + count--, arrays + n);
            held -= other.bytes;
            block = {below ? other.start : block.start, block.bytes + other.bytes, block.whole};
            array = block.array();
            n = -1;
        }
        arrays[count++] = array;
        held += block.bytes;
    }
    void drop_all() {
        const std::lock_guard<std::mutex> guard(mutex);
        while (count > 0) drop_oldest();
    }
    void hold() { mutex.lock(); }
    void let_go() { mutex.unlock(); }
    static Block block_of(const void* array) {
        Block block;
        std::memcpy(&block, static_cast<const char*>(array) - CACHE_LINE, sizeof block);
        return block;
    }

private:
    static constexpr int MOST = 128;
    static constexpr int64_t LEFT = int64_t{1} << 19;
    static constexpr int64_t MOST_BYTES = int64_t{2} << 30;
    std::mutex mutex;
    void* arrays[MOST];
    int count = 0;
    int64_t held = 0;

    void drop_oldest() {
        const Block block = block_of(arrays[0]);
        std::copy(arrays + 1, arrays + count--, arrays);
        held -= block.bytes;
        block.release();
    }
};

ReleasedBlocks released;

// Write to every page of a row, and zeros to its end or all of it.
void first_write(char* row, int64_t bytes, bool all) {
    if (!all)
        for (int64_t at = 0; at < bytes; at += PAGE) row[at] = 0;
    const int64_t zeros = all ? bytes : std::min(bytes, ROW_END);
    std::memset(row + bytes - zeros, 0, zeros);
}
#endif

// What one thread copies or writes first: an array of so many bytes is one that one thread works on.
constexpr int64_t SMALL_BYTES = SMALL_WORK * int64_t(sizeof(double));

void copy_rows(char* to, int64_t to_pitch, const char* from, int64_t from_pitch, int64_t row_bytes, int64_t rows) {
#pragma omp parallel for schedule(static) num_threads(team_size) if (rows * row_bytes > SMALL_BYTES)
    for (int64_t row = 0; row < rows; ++row) std::memcpy(to + row * to_pitch, from + row * from_pitch, row_bytes);
}

}  // namespace

#ifdef POISSON_OFFLOAD
void hold_released_memory() {}
void let_released_memory_go() {}
#else
void hold_released_memory() { released.hold(); }
void let_released_memory_go() { released.let_go(); }
#endif

extern "C" int32_t poisson_abi_version(void) { return POISSON_ABI_VERSION; }

extern "C" const char* poisson_build(void) { return POISSON_OFFLOAD_NAME ", " POISSON_COMPILER; }

extern "C" int32_t poisson_devices(void) {
#ifdef POISSON_OFFLOAD
    const int32_t devices = omp_get_num_devices();
#ifdef POISSON_CUDA
    static std::once_flag once;
    if (devices > 0) std::call_once(once, wait_by_polling);
#endif
    return devices;
#else
    return 1;
#endif
}

poisson_status allocate(int64_t rows, int64_t row_bytes, void** memory) {
    if (!memory || rows < 1 || row_bytes < 1 || row_bytes > INT64_MAX / rows) return POISSON_BAD_ARGUMENT;
    const int64_t bytes = rows * row_bytes;
#ifdef POISSON_OFFLOAD
    if (omp_get_num_devices() < 1) return POISSON_NO_DEVICE;
    // Flat regions work on packs of 16 bytes.
    *memory = omp_target_alloc((bytes + 15) / 16 * 16, device());
    return *memory ? POISSON_SUCCESS : POISSON_OUT_OF_MEMORY;
#else
    // A stencil may read a line before the first row and one after the last.
    const int64_t needed = bytes + PLACES * STEP + CACHE_LINE;
    const int64_t alignment = needed > HUGE_PAGE ? HUGE_PAGE : needed > KEPT ? PAGE : CACHE_LINE;
    Block block = {nullptr, (needed + alignment - 1) / alignment * alignment};
    char* base = block.bytes > KEPT ? static_cast<char*>(released.take(block.bytes)) : nullptr;
    if (!base) {
        block.reserve(needed);
        if (!block.start) {
            released.drop_all();
            block.reserve(needed);
        }
        if (!block.start) return POISSON_OUT_OF_MEMORY;
        base = block.array();
    }
    // A page comes to live beside the core that first writes it: the thread that will work on these rows.
#pragma omp parallel for schedule(static) num_threads(team_size) if (bytes > SMALL_BYTES)
    for (int64_t row = 0; row < rows; ++row) first_write(base + row * row_bytes, row_bytes, bytes <= KEPT);
    *memory = base;
    return POISSON_SUCCESS;
#endif
}

extern "C" poisson_status poisson_allocate(int64_t rows, int64_t row_bytes, int32_t threads, void** memory) {
    use_threads(threads);
    return allocate(rows, row_bytes, memory);
}

extern "C" void poisson_release(void* memory) {
#ifdef POISSON_OFFLOAD
    omp_target_free(memory, device());
#else
    if (!memory) return;
    const Block block = ReleasedBlocks::block_of(memory);
    if (block.bytes > KEPT)
        released.give(memory);
    else
        block.release();
#endif
}

extern "C" poisson_status poisson_upload(void* array, int64_t pitch_bytes, const void* values, int64_t row_bytes,
                                         int64_t rows, int32_t threads) {
    if (!array || !values || row_bytes > pitch_bytes) return POISSON_BAD_ARGUMENT;
    use_threads(threads);
    const char* from = static_cast<const char*>(values);
#ifdef POISSON_OFFLOAD
    // One transfer a row would cost more than the data: rows are padded on the host and go together.
    const int64_t chunk = std::max<int64_t>(1, STAGING_BYTES / pitch_bytes);
    const auto staging = zeroed(std::min(chunk, rows) * pitch_bytes);
    if (!staging) return POISSON_OUT_OF_MEMORY;
    for (int64_t row = 0; row < rows; row += chunk) {
        const int64_t count = std::min(chunk, rows - row);
        copy_rows(staging.get(), pitch_bytes, from + row * row_bytes, row_bytes, row_bytes, count);
        if (omp_target_memcpy(array, staging.get(), count * pitch_bytes, row * pitch_bytes, 0, device(),
                              omp_get_initial_device()))
            return POISSON_COPY_FAILED;
    }
#else
    copy_rows(static_cast<char*>(array), pitch_bytes, from, row_bytes, row_bytes, rows);
#endif
    return POISSON_SUCCESS;
}

extern "C" poisson_status poisson_download(void* values, int64_t row_bytes, const void* array, int64_t pitch_bytes,
                                           int64_t rows, int32_t threads) {
    if (!array || !values || row_bytes > pitch_bytes) return POISSON_BAD_ARGUMENT;
    use_threads(threads);
    char* to = static_cast<char*>(values);
#ifdef POISSON_OFFLOAD
    const int64_t chunk = std::max<int64_t>(1, STAGING_BYTES / pitch_bytes);
    const auto staging = zeroed(std::min(chunk, rows) * pitch_bytes);
    if (!staging) return POISSON_OUT_OF_MEMORY;
    for (int64_t row = 0; row < rows; row += chunk) {
        const int64_t count = std::min(chunk, rows - row);
        if (omp_target_memcpy(staging.get(), array, count * pitch_bytes, 0, row * pitch_bytes, omp_get_initial_device(),
                              device()))
            return POISSON_COPY_FAILED;
        copy_rows(to + row * row_bytes, row_bytes, staging.get(), pitch_bytes, row_bytes, count);
    }
#else
    copy_rows(to, row_bytes, static_cast<const char*>(array), pitch_bytes, row_bytes, rows);
#endif
    return POISSON_SUCCESS;
}

extern "C" int64_t poisson_result_bytes(void) { return 2 * GROUPS * sizeof(double); }

extern "C" poisson_status poisson_read(const double* result, double* sum_and_maximum) {
    if (!result || !sum_and_maximum) return POISSON_BAD_ARGUMENT;
    double groups[2 * GROUPS];
#ifdef POISSON_OFFLOAD
    if (omp_target_memcpy(groups, result, sizeof groups, 0, 0, omp_get_initial_device(), device()))
        return POISSON_COPY_FAILED;
#else
    std::memcpy(groups, result, sizeof groups);
#endif
    double sum = 0, maximum = 0;
    for (int64_t group = 0; group < GROUPS; ++group) {
        sum += groups[2 * group];
        maximum = std::max(maximum, groups[2 * group + 1]);
    }
    sum_and_maximum[0] = sum;
    sum_and_maximum[1] = maximum;
    return POISSON_SUCCESS;
}

double* partial_results(int64_t count) {
    static thread_local KeptMemory kept;
#ifdef POISSON_BARE
    count = GROUPS / 2 + (count + TEAM - 1) / TEAM;
    const int64_t before = kept.bytes();
#endif
    if (!kept.reserve(count, 2 * sizeof(double))) return nullptr;
#ifdef POISSON_BARE
    const double zeros[GROUPS] = {};
    if (kept.bytes() != before &&
        omp_target_memcpy(kept.get(), zeros, sizeof zeros, 0, 0, device(), omp_get_initial_device())) {
        kept.release();
        return nullptr;
    }
#endif
    return static_cast<double*>(kept.get());
}

#ifndef POISSON_BARE

void join_partials(const double* partial, int64_t count, double* result) {
    // A group takes every GROUPS-th pair, in order.
    POISSON_REGION(count, (count), (partial, result))
    for (int64_t group = 0; group < GROUPS; ++group) {
        double sum = 0, maximum = 0;
        for (int64_t n = group; n < count; n += GROUPS) {
            sum += partial[2 * n];
            maximum = partial[2 * n + 1] > maximum ? partial[2 * n + 1] : maximum;
        }
        result[2 * group] = sum;
        result[2 * group + 1] = maximum;
    }
}

#endif
