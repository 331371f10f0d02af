// How a region runs on a GPU: its threads, what a thread loads at once, its nodes, and how threads add up.
//
// With clang 19 or later a region is a bare kernel (ompx_bare): it starts without the state of OpenMP's run time, and
// the threads of a team add up in registers. Other compilers, or -DPOISSON_PORTABLE, get a loop of plain OpenMP over
// the same threads.
#ifndef POISSON_DEVICE_H
#define POISSON_DEVICE_H

#include <cstdint>

#if defined(__clang__) && __clang_major__ >= 19 && !defined(POISSON_PORTABLE)
#define POISSON_BARE
#include <omp.h>
#include <ompx.h>
#endif

// Threads of a team, and of a warp, within which values pass from register to register (half a wavefront on AMD).
constexpr int32_t TEAM = 128, WARP = 32;
// The threads of a team that lie side by side, and those on the next axis.
constexpr int32_t TEAM_X = 32, TEAM_Y = TEAM / TEAM_X;

// A loop over `count` threads of one iteration each, and one over `count` units.
#ifdef POISSON_BARE
#define POISSON_THREADS(number, count, work, values, pointers)                                          \
    POISSON_PRAGMA(omp target teams ompx_bare num_teams(((count) + TEAM - 1) / TEAM) thread_limit(TEAM) \
                       firstprivate values is_device_ptr pointers)                                      \
    for (int64_t number = int64_t(ompx_block_id_x()) * TEAM + ompx_thread_id_x(); number < (count); number = (count))
#else
#define POISSON_THREADS(number, count, work, values, pointers)                                     \
    POISSON_PRAGMA(omp target teams distribute parallel for num_teams(((count) + TEAM - 1) / TEAM)             \
                       thread_limit(TEAM) firstprivate values is_device_ptr pointers)              \
    for (int64_t number = 0; number < (count); ++number)
#endif
#define POISSON_UNITS(number, count, values, pointers) POISSON_THREADS(number, count, count, values, pointers)

// Neighbouring values that a thread loads and stores as one access of 16 bytes. Rows begin on such boundaries.
template <class T>
constexpr int32_t WIDTH = 16 / sizeof(T);

template <class T>
struct PackOf {
    typedef T type __attribute__((vector_size(16)));
};
template <class T>
using Pack = typename PackOf<T>::type;

template <class T>
inline Pack<T> load(const T* from) {
    return *reinterpret_cast<const Pack<T>*>(from);
}

template <class T>
inline Pack<T> spread(T value) {
    return Pack<T>{} + value;
}

template <class T>
inline void store(T* to, Pack<T> pack) {
    *reinterpret_cast<Pack<T>*>(to) = pack;
}

// A store of values that the region does not read again, so that they do not displace those that it does.
template <class T>
inline void store_streaming(T* to, Pack<T> pack) {
#ifdef __clang__
    __builtin_nontemporal_store(pack, reinterpret_cast<Pack<T>*>(to));
#else
    store(to, pack);
#endif
}

inline bool goes_around_cache(int64_t) { return true; }

// Flat regions work on packs of values; an allocation ends on the boundary of one.
template <class T>
using Unit = Pack<T>;
template <class T>
inline int64_t units(int64_t values) {
    return (values + WIDTH<T> - 1) / WIDTH<T>;
}
template <class T>
inline Unit<T> unit(T value) {
    return spread(value);
}

// The nodes of a grid, cut up for threads: a tile is `width` columns, `march` nodes long on the slowest axis; a team
// has TEAM_X of them side by side and TEAM_Y on the next axis.
struct Tiling {
    bool solid;
    int32_t nx, mid, slowest, march, width, columns, blocks, bands;

    template <class T>
    explicit Tiling(const Local<T>& a, int32_t columns_each = WIDTH<T>)
        : solid(a.dimension == 3),
          nx(int32_t(a.nx)),
          mid(solid ? int32_t(a.ny) : 1),
          slowest(int32_t(solid ? a.nz : a.ny)),
          march(solid ? 16 : 4),
          width(columns_each),
          columns((nx + width * TEAM_X - 1) / (width * TEAM_X)),
          blocks(solid ? (mid + TEAM_Y - 1) / TEAM_Y : 1),
          bands((slowest + rows_of_band() - 1) / rows_of_band()) {}
    int32_t rows_of_band() const { return solid ? march : march * TEAM_Y; }
    int64_t count() const { return int64_t(TEAM) * columns * blocks * bands; }
    int64_t nodes() const { return int64_t(nx) * mid * slowest; }
    Tile tile(int64_t number) const {
        // 32 bits, because a division of 64 takes a GPU a hundred instructions.
        const uint32_t team = uint32_t(number / TEAM), thread = uint32_t(number % TEAM);
        const uint32_t rest = team / columns, band = rest / blocks, y = thread / TEAM_X;
        Tile t;
        t.first = int64_t(team % columns * TEAM_X + thread % TEAM_X) * width;
        t.last = t.first + width < nx ? t.first + width : nx;
        t.low = solid ? rest % blocks * TEAM_Y + y : 0;
        t.high = t.low < mid ? t.low + 1 : t.low;
        t.start = int64_t(solid ? band : band * TEAM_Y + y) * march;
        t.stop = t.first >= nx ? t.start : t.start + march < slowest ? t.start + march : slowest;
        return t;
    }
};

// Where a thread gathers one node at a time.
template <class T>
inline Tiling tiling_by_node(const Local<T>& a) {
    return Tiling(a, 1);
}

// Calls visit(j, k) for each row of a tile. Unrolled, so that several loads are under way.
template <class T, class Visit>
inline void for_each_row(const Local<T>& a, const Tile& tile, Visit visit) {
    if (tile.low == tile.high) return;
#pragma GCC unroll 4
    for (int64_t s = tile.start; s < tile.stop; ++s) visit(a.dimension == 2 ? s : tile.low, a.dimension == 2 ? 0 : s);
}

// Reductions run on this many teams, whatever the grid, and each takes every GROUPS-th tile: so the sums are those of
// every run.
constexpr int64_t GROUPS = 2048;
inline int64_t reduction_threads(int64_t) { return GROUPS * TEAM; }

#ifdef POISSON_BARE

// The teams of a reduction leave their pairs in the result itself.
inline double* partial_results(int64_t, double* result) { return result; }
inline void join_partials(const double*, int64_t, double*) {}

// The pairs of the threads of a team, added up in a fixed order, go to the team's place in a result. Every thread of
// the team must call it.
static inline void keep_pair(double* result, int64_t number, double sum, double maximum) {
    const int32_t thread = int32_t(number % TEAM);
    for (int32_t offset = WARP / 2; offset > 0; offset /= 2) {
        sum += ompx_shfl_down_sync_d(~uint64_t{0}, sum, offset, WARP);
        const double other = ompx_shfl_down_sync_d(~uint64_t{0}, maximum, offset, WARP);
        maximum = other > maximum ? other : maximum;
    }
    [[clang::loader_uninitialized]] static double pairs[2 * TEAM / WARP];
#pragma omp allocate(pairs) allocator(omp_pteam_mem_alloc)
    if (thread % WARP == 0) {
        pairs[2 * (thread / WARP)] = sum;
        pairs[2 * (thread / WARP) + 1] = maximum;
    }
    ompx_sync_block_acq_rel();
    if (thread > 0) return;
    for (int32_t warp = 1; warp < TEAM / WARP; ++warp) {
        sum += pairs[2 * warp];
        maximum = pairs[2 * warp + 1] > maximum ? pairs[2 * warp + 1] : maximum;
    }
    result[2 * (number / TEAM)] = sum;
    result[2 * (number / TEAM) + 1] = maximum;
}

#endif

#endif
