// SPDX-License-Identifier: MIT
// A row from another one by tables of a few entries for each node, in lines: the entries of neighbouring nodes lie so
// near to each other that two lines of the other row have them all, and one instruction brings each to its lane.
#ifndef POISSON_BY_TABLES_H
#define POISSON_BY_TABLES_H

#include <memory>
#include <new>

#include "multigrid/tiles.h"

// Where the entries of the nodes of each group of `size` lie behind the group's `base`, and their weights: those of a
// group entry by entry, in a line each. Without instructions for it, or memory, there are none.
struct TableGroups {
    int64_t size = 0, nodes = 0;
    const int32_t *base = nullptr, *places = nullptr;
    const void* weights = nullptr;
};

#ifdef __AVX512VL__

inline Line<float> lanes_at(Line<float> first, Line<float> second, const int32_t* places) {
    return Line<float>(_mm512_permutex2var_ps(__m512(first), _mm512_loadu_si512(places), __m512(second)));
}
inline Line<double> lanes_at(Line<double> first, Line<double> second, const int32_t* places) {
    const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(places));
    return Line<double>(
        _mm512_permutex2var_pd(__m512d(first), _mm512_maskz_cvtepi32_epi64(0xff, narrow), __m512d(second)));
}

// The first `count` values at a place, and a line written there likewise.
inline Line<float> load_lanes(const float* from, int64_t count) {
    return Line<float>(_mm512_maskz_loadu_ps(__mmask16((1u << count) - 1), from));
}
inline Line<double> load_lanes(const double* from, int64_t count) {
    return Line<double>(_mm512_maskz_loadu_pd(__mmask8((1u << count) - 1), from));
}
inline void store_lanes(float* to, Line<float> line, int64_t count) {
    _mm512_mask_storeu_ps(to, __mmask16((1u << count) - 1), __m512(line));
}
inline void store_lanes(double* to, Line<double> line, int64_t count) {
    _mm512_mask_storeu_pd(to, __mmask8((1u << count) - 1), __m512d(line));
}

// to = the values of the nodes [start, stop) by groups, from the first one on, with u added if there is one. Returns
// how far it got: a group that begins before `start` or ends behind `stop`, or whose entries are too far apart, ends
// it.
template <int64_t E, class T>
__attribute__((noinline)) int64_t by_groups(const TableGroups tables, const T* from, const T* u, T* to, int64_t start,
                                            int64_t stop) {
    constexpr int64_t W = WIDE<T>;
    const int64_t size = tables.size;
    if (size == 0 || start % size != 0) return start;
    const int32_t *const base = tables.base + start / size, *places = tables.places + start / size * E * W;
    const T* weights = static_cast<const T*>(tables.weights) + start / size * E * W;
    for (int64_t group = 0; start < stop; ++group) {
        const int64_t count = std::min(size, tables.nodes - start);
        if (base[group] < 0 || start + count > stop) break;
        const Line<T> first = load<W>(from + base[group]), second = load<W>(from + base[group] + W);
        Line<T> sum = load<W>(weights) * lanes_at(first, second, places);
#pragma GCC unroll 4
        for (int64_t n = 1; n < E; ++n) sum += load<W>(weights + n * W) * lanes_at(first, second, places + n * W);
        places += E * W;
        weights += E * W;
        if (count == W)
            store(to + start, u ? load<W>(u + start) + sum : sum);
        else
            store_lanes(to + start, u ? load_lanes(u + start, count) + sum : sum, count);
        start += count;
    }
    return start;
}

#else

template <int64_t E, class T>
inline int64_t by_groups(const TableGroups&, const T*, const T*, T*, int64_t start, int64_t) {
    return start;
}

#endif

// The memory of such groups.
template <class T>
class KeptGroups {
public:
    // For `nodes` nodes with so many entries each; of few nodes none are made.
    TableGroups make([[maybe_unused]] const int32_t* index, [[maybe_unused]] const double* weight,
                     [[maybe_unused]] int64_t nodes, [[maybe_unused]] int64_t entries, [[maybe_unused]] int64_t size) {
#ifdef __AVX512VL__
        constexpr int64_t W = WIDE<T>, FEW = 48;
        const int64_t groups = divide_up(nodes, size), values = groups * entries * W;
        if (nodes < FEW) return {};
        base.reset(new (std::nothrow) int32_t[groups]);
        places.reset(new (std::nothrow) int32_t[values]());
        weights.reset(new (std::nothrow) T[values]());
        if (!base || !places || !weights) return {};
        for (int64_t group = 0; group < groups; ++group) {
            const int64_t first = group * size * entries, last = std::min(first + size * entries, nodes * entries);
            int32_t low = INT32_MAX, high = 0;
            for (int64_t n = first; n < last; ++n) {
                if (weight[n] == 0) continue;
                low = std::min(low, index[n]);
                high = std::max(high, index[n]);
            }
            base[group] = high - low < 2 * W ? low : -1;
            for (int64_t n = first; n < last && low <= high; ++n) {
                const int64_t at = (group * entries + n % entries) * W + (n - first) / entries;
                places[at] = weight[n] == 0 ? 0 : index[n] - low;
                weights[at] = T(weight[n]);
            }
        }
        return {size, nodes, base.get(), places.get(), weights.get()};
#else
        return {};
#endif
    }

private:
    std::unique_ptr<int32_t[]> base, places;
    std::unique_ptr<T[]> weights;
};

#endif
