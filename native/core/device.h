// SPDX-License-Identifier: MIT
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

// Threads of a team of tiles, of a team of flat units, and of a warp, within which values pass from register to
// register (half a wavefront on AMD).
constexpr int32_t TEAM = 128, FLAT_TEAM = 256, WARP = 32;
// The threads of a team that lie side by side, and those on the next axis.
constexpr int32_t TEAM_X = 32, TEAM_Y = TEAM / TEAM_X;
// Nodes of a tile along the slowest axis.
constexpr int32_t MARCH_2D = 32, MARCH_3D = 32;

// A loop over `count` threads of one iteration each, in teams of `team`.
#ifdef POISSON_BARE
#define POISSON_TEAMS(team, number, count, values, pointers)                                            \
    POISSON_PRAGMA(omp target teams ompx_bare num_teams(((count) + team - 1) / team) thread_limit(team) \
                       firstprivate values is_device_ptr pointers)                                      \
    for (int64_t number = int64_t(ompx_block_id_x()) * team + ompx_thread_id_x(); number < (count); number = (count))
#else
#define POISSON_TEAMS(team, number, count, values, pointers)                                       \
    POISSON_PRAGMA(omp target teams distribute parallel for num_teams(((count) + team - 1) / team) \
                       thread_limit(team) firstprivate values is_device_ptr pointers)              \
    for (int64_t number = 0; number < (count); ++number)
#endif
#define POISSON_THREADS(number, count, work, values, pointers) POISSON_TEAMS(TEAM, number, count, values, pointers)
#define POISSON_UNITS(number, count, values, pointers) POISSON_TEAMS(FLAT_TEAM, number, count, values, pointers)

// Neighbouring values that a thread loads and stores as one access of 16 bytes. Rows begin on such boundaries.
template <class T>
constexpr int32_t WIDTH = 16 / sizeof(T);

#if defined(__NVPTX__) && defined(__has_builtin)
#if __has_builtin(__nvvm_ldg_d2) && __has_builtin(__nvvm_ldg_f4)
#define POISSON_LOADS_CONSTANTS
#endif
#endif

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

// Loads of values that no thread writes while the region runs: they may overtake its stores, and so be under way
// together with those behind them.
template <class T>
inline Pack<T> load_constant(const T* from) {
#ifdef POISSON_LOADS_CONSTANTS
    if constexpr (sizeof(T) == 8)
        return __nvvm_ldg_d2(reinterpret_cast<const Pack<T>*>(from));
    else
        return __nvvm_ldg_f4(reinterpret_cast<const Pack<T>*>(from));
#else
    return load(from);
#endif
}

template <class T>
inline T load_constant_value(const T* from) {
#ifdef POISSON_LOADS_CONSTANTS
    if constexpr (sizeof(T) == 8)
        return __nvvm_ldg_d(from);
    else
        return __nvvm_ldg_f(from);
#else
    return *from;
#endif
}

template <class T>
inline Pack<T> spread(T value) {
    return Pack<T>{} + value;
}

template <class P>
inline P inverse_of(P x) {
    return 1 / x;
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
          march(solid ? MARCH_3D : MARCH_2D),
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

#ifdef POISSON_BARE

// The groups of pairs of a result.
constexpr int64_t GROUPS = 256;

template <class Visit>
inline void for_each_tile(const Tiling& tiling, int64_t number, int64_t, Visit visit) {
    if (number < tiling.count()) visit(tiling.tile(number));
}

// A thread a tile; every group has a team.
inline int64_t reduction_threads(int64_t tiles) { return tiles > GROUPS * TEAM ? tiles : GROUPS * TEAM; }

// The pairs of the threads of a team, added up in a fixed order, are left to its thread 0. Every thread must call it.
static inline void add_up_team(int32_t thread, double& sum, double& maximum) {
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
}

// How many teams of a group came before this one to this place, where memory has what each of them wrote.
static inline uint32_t arrivals(uint32_t* counter) {
    uint32_t before;
#pragma omp flush
#pragma omp atomic capture
    before = (*counter)++;
#pragma omp flush
    return before;
}

// The pairs of the threads of a region, added up. A team leaves its pair in `partial`, behind a counter for each group
// of the teams that have done so; the last team of a group joins those of the group, in the order of the teams, into
// its place in the result. The counters are zero before and after. Every thread must call it.
static inline void keep_pair(double* partial, int64_t number, int64_t threads, double sum, double maximum,
                             double* result) {
    const int32_t thread = int32_t(number % TEAM);
    const uint32_t team = uint32_t(number / TEAM), teams = uint32_t((threads + TEAM - 1) / TEAM);
    const uint32_t group = team % GROUPS;
    uint32_t* const counter = reinterpret_cast<uint32_t*>(partial) + group;
    double* const pairs = partial + GROUPS;
    [[clang::loader_uninitialized]] static bool last;
#pragma omp allocate(last) allocator(omp_pteam_mem_alloc)
    add_up_team(thread, sum, maximum);
    if (thread == 0) {
        pairs[2 * int64_t(team)] = sum;
        pairs[2 * int64_t(team) + 1] = maximum;
        last = arrivals(counter) == (teams - 1 - group) / GROUPS;
    }
    ompx_sync_block_acq_rel();
    if (!last) return;
    sum = maximum = 0;
    for (uint32_t other = group + GROUPS * thread; other < teams; other += GROUPS * TEAM) {
        sum += pairs[2 * int64_t(other)];
        maximum = pairs[2 * int64_t(other) + 1] > maximum ? pairs[2 * int64_t(other) + 1] : maximum;
    }
    add_up_team(thread, sum, maximum);
    if (thread > 0) return;
    result[2 * group] = sum;
    result[2 * group + 1] = maximum;
    *counter = 0;
}

#else

// The groups of pairs of a result, and the threads of a reduction, whatever the grid.
constexpr int64_t GROUPS = 2048;
inline int64_t reduction_threads(int64_t) { return GROUPS * TEAM; }

#endif

#endif
