// Several Jacobi sweeps in one pass over memory: sweeps.
//
// On the host a tile marches along the slowest axis, GROUP rows (planes) at a time. Level 0 is u; level t, the iterate
// after t sweeps, works one row behind level t - 1 on the same tile, and in 3D one row of the middle axis behind it as
// well. What the next level still needs stays in a ring of rows in the cache: memory gives u and f once, and takes the
// last level once. Level t covers as many nodes around the tile as there are sweeps to come: neighbouring tiles compute
// these too, and need nothing from each other.
//
// Beyond a mirror or wrap face a tile holds the images of the nodes inside, which evolve as the nodes do; beyond a
// fixed face it holds nothing. So the rules matter where rows are read from memory, and not in the sweeps.
//
// On a GPU the sweeps are launches of their own, between the result and an array that the library keeps.
#include <algorithm>

#include "core/kept.h"
#ifdef POISSON_OFFLOAD
#include "core/regions.h"
#else
#include "multigrid/blocked.h"
#endif

namespace {

poisson_status sweep(const poisson_operator* a, const float* u, const float* f, float* out, double omega,
                     double* result) {
    return poisson_sweep_f32(a, u, f, out, omega, result);
}
poisson_status sweep(const poisson_operator* a, const double* u, const double* f, double* out, double omega,
                     double* result) {
    return poisson_sweep_f64(a, u, f, out, omega, result);
}

#ifdef POISSON_OFFLOAD

// Sweeps between two reads of a norm, which costs more than a launch.
constexpr int32_t DEPTH = 8;

template <class T>
int32_t depth(const poisson_operator*) {
    return DEPTH;
}

template <class T>
poisson_status repeat(const poisson_operator* a, const T* u, const T* f, T* out, const double* weights, int32_t count,
                      double* result) {
    const int64_t values = a->pitch * a->shape[1] * a->shape[2];
    const WorkingRows memory(count > 1, values * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    T* const between = count > 1 ? memory.row<T>(0) : out;
    const T* from = u;
    for (int32_t left = count; left > 0; --left) {
        T* to = left % 2 ? out : between;
        const poisson_status status = sweep(a, from, f, to, weights[count - left], left > 1 ? nullptr : result);
        if (status) return status;
        from = to;
    }
    return POISSON_SUCCESS;
}

#else

// Rows or planes of a level that are computed together.
constexpr int64_t GROUP = 4;

// A pass of `depth` sweeps over one tile.
template <int DIMENSION, bool NORM, bool STREAM, class T>
class Pass {
public:
    Pass(const Local<T>& a, const T* u, const T* f, T* out, const T* scales, int64_t depth,
         const Blocks<DIMENSION, T>& blocks)
        : a(a),
          u(u),
          f(f),
          out(out),
          scales(scales),
          depth(depth),
          x(a.nx, a.rule(0), a.rule(1)),
          mid(DIMENSION == 3 ? Axis(a.ny, a.rule(2), a.rule(3)) : Axis(1, WRAP, WRAP)),
          march(DIMENSION == 3 ? Axis(a.nz, a.rule(4), a.rule(5)) : Axis(a.ny, a.rule(2), a.rule(3))),
          stride(round_up(blocks.width + 2 * (round_up(depth, W) + W), 2 * W) + W),
          rows(blocks.rows + 2 * LAG * depth),
          slots(rows + 1 + 2 * LAG),
          f_slots(rows * divide_up(depth, GROUP) + LAG * depth + 1) {}

    // Values of memory that the pass works in.
    int64_t workspace() const { return stride * (depth * (2 * slots + SCRATCH) + GROUP * f_slots + 1); }

    void run(const Tile& at, T* memory, double& sum, double& maximum) {
        place(at, memory);
        PackNorms norms;
        const Span span = lines(0);
        for (group = 0; base(depth) < tile.stop; ++group) {
            for (line = span.start; line < span.stop + LAG * depth; ++line) {
                slot = (group * rows + line - span.start) % slots;
                f_slot = (group * rows + line - span.start) % f_slots;
                if (!direct && line < span.stop) load_rows();
                if (depth > 1) {
                    if (direct && f)
                        relax_level<Level<true, false, false, false>>(1, norms);
                    else
                        relax_level<Level<false, false, false, false>>(1, norms);
                }
                for (int64_t t = 2; t < depth; ++t) relax_level<Level<false, false, false, false>>(t, norms);
                relax_level<Level<false, true, NORM, STREAM>>(depth, norms);
            }
        }
        norms.join(sum, maximum);
    }

private:
    // A level is LAG rows of the middle axis behind the one before it.
    static constexpr int64_t LAG = DIMENSION == 3 ? 1 : 0, W = WIDE<T>;
    // The first rows of a group are needed only while the next level works on it, the last two for one group more.
    static constexpr int64_t PASSING = GROUP - 2, SCRATCH = PASSING * (DIMENSION == 3 ? 4 : 1);

    const Local<T>& a;
    const T *u, *f;
    T* out;
    // omega / diag(A) of each sweep.
    const T* const scales;
    const int64_t depth;
    const Axis x, mid, march;
    const int64_t stride, rows, slots, f_slots;
    Tile tile;
    // Whether the first level reads its rows where they are; a tile that holds images along x needs copies with them.
    bool direct;
    int64_t origin, first_march;
    T *levels, *scratch, *sources, *zeros;
    // Where the pass is: level 0 at this group along the slowest axis and this row of the middle axis, which have these
    // places in the rings of the levels and of f.
    int64_t group, line, slot, f_slot;

    void place(const Tile& at, T* memory) {
        tile = at;
        const Span all = columns(0);
        direct = all.start >= 0 && (all.stop <= a.nx || x.high == a.nx - 1);
        origin = all.start;
        first_march = march.around({tile.start, tile.stop}, depth).start;
        levels = memory + W;
        scratch = levels + stride * depth * 2 * slots;
        sources = scratch + stride * depth * SCRATCH;
        zeros = sources + stride * GROUP * f_slots;
        std::fill(zeros, zeros + stride - W, T(0));
    }

    // The columns that a level computes, in whole lines of the cache, and its rows of the middle axis.
    Span columns(int64_t t) const {
        const Span needed = x.around({tile.first, tile.last}, depth - t);
        return {round_down(needed.start, W), round_up(needed.stop, W)};
    }
    Span lines(int64_t t) const { return mid.around({tile.low, tile.high}, LAG * (depth - t)); }

    // The first row of the group of a level along the slowest axis.
    int64_t base(int64_t t) const { return first_march + group * GROUP - t; }
    int64_t memory_row(int64_t j, int64_t v) const {
        return DIMENSION == 3 ? a.row(mid.node(j), march.node(v)) : a.row(march.node(v), 0);
    }
    static int64_t wrapped(int64_t index, int64_t size) {
        return index < 0 ? index + size : index >= size ? index - size : index;
    }

    // Row p of the group of a level, `back` rows behind `line`, from column `origin` on; -2 and -1 are the last two
    // rows of the group before it.
    T* row(int64_t t, int64_t back, int64_t p) const {
        if (p >= 0 && p < PASSING)
            return scratch + stride * (PASSING * (DIMENSION == 3 ? 4 * t + ((line - back) & 3) : t & 1) + p);
        // One group before is `rows` places before, which is as many after as the ring is longer.
        const int64_t at = wrapped(slot - back + (p < 0 ? slots - rows : 0), slots);
        return levels + stride * (2 * (t * slots + at) + (p < 0 ? p + 2 : p - PASSING));
    }
    // The same of what level t is computed from.
    const T* input(int64_t t, int64_t back, int64_t p) const {
        return direct && t == 1 ? u + memory_row(line - back, base(0) + p) + origin : row(t - 1, back, p);
    }
    // Row g of f for a level.
    T* source(int64_t t, int64_t back, int64_t g) const {
        const int64_t whole = divide_up(depth, GROUP), p = g - t + whole * GROUP;
        const int64_t at = wrapped(f_slot - back - (whole - p / GROUP) * rows, f_slots);
        return sources + stride * (GROUP * at + p % GROUP);
    }

    void load_rows() const {
        const Span span = march.around({tile.start, tile.stop}, depth);
        for (int64_t g = 0; g < GROUP; ++g) {
            const int64_t v = base(0) + g;
            if (!span.holds(v)) continue;
            const int64_t from = memory_row(line, v);
            load_row(u + from, row(0, 0, g));
            if (f) load_row(f + from, source(0, 0, g));
        }
    }
    void load_row(const T* from, T* to) const {
        const Span all = columns(0), inner = {std::clamp<int64_t>(0, all.start, all.stop), std::min(all.stop, a.nx)};
        to -= origin;
        for (int64_t i = all.start; i < inner.start; ++i) to[i] = from[x.node(i)];
        int64_t i = inner.start;
        for (; i + W <= inner.stop; i += W) store(to + i, load<W>(from + i));
        for (; i < all.stop; ++i) to[i] = from[x.node(i)];
    }

    template <class L>
    void relax_level(int64_t t, PackNorms& norms) const {
        const Span needed = march.around({tile.start, tile.stop}, depth - t);
        const int64_t first = base(t), back = LAG * t, j = line - back;
        if (first + GROUP <= needed.start || first >= needed.stop || !lines(t).holds(j)) return;
        const Span across = columns(t);
        const int64_t shift = across.start - origin;
        if (mid.fixed(j)) {
            for (int64_t g = 0; g < GROUP; ++g)
                if (needed.holds(first + g)) keep<L>(input(t, back, g - 1) + shift, target<L>(t, g), across);
            return;
        }
        Group<GROUP, T> at;
        for (int64_t g = 0; g < GROUP + 2; ++g) at.centre[g] = input(t, back, g - 2) + shift;
        for (int64_t g = 0; g < GROUP; ++g) {
            at.lower[g] = at.upper[g] = nullptr;
            if (DIMENSION == 3) {
                at.lower[g] = input(t, back + 1, g - 1) + shift;
                at.upper[g] = input(t, back - 1, g - 1) + shift;
            }
            at.kept[g] = source(t, back, g) + shift;
            at.f[g] = !f ? zeros + shift : direct && t == 1 ? f + memory_row(j, first + g) + across.start : at.kept[g];
            at.out[g] = target<L>(t, g);
        }
        const Columns numbered = {across.stop - across.start, x.low - across.start, x.high - across.start,
                                  tile.last - across.start};
        const T* ahead = next_row(t) + across.start;
        if (first >= needed.start && first + GROUP <= needed.stop && first > march.low && first + GROUP <= march.high) {
            relax_group<DIMENSION, L>(a, at, scales[t - 1], numbered, ahead, norms);
            return;
        }
        for (int64_t g = 0; g < GROUP; ++g) {
            if (!needed.holds(first + g)) continue;
            if (march.fixed(first + g)) {
                keep<L>(at.centre[g + 1], at.out[g], across);
                continue;
            }
            const Group<1, T> one = {{at.centre[g], at.centre[g + 1], at.centre[g + 2]},
                                     {at.lower[g]},
                                     {at.upper[g]},
                                     {at.f[g]},
                                     {at.out[g]},
                                     {at.kept[g]}};
            relax_group<DIMENSION, L>(a, one, scales[t - 1], numbered, ahead, norms);
        }
    }

    // Where row g of a level goes, from the first column of that level on.
    template <class L>
    T* target(int64_t t, int64_t g) const {
        if (!L::LAST) return row(t, LAG * t, g) + columns(t).start - origin;
        return out + memory_row(line - LAG * t, base(t) + g) + tile.first;
    }
    // A row of fixed nodes.
    template <class L>
    void keep(const T* from, T* to, Span across) const {
        std::copy(from, from + (L::LAST ? tile.last : across.stop) - across.start, to);
    }
    // The row of memory that level t asks for, so that the loads of the first level find it in the cache: the levels
    // share the rows of u and f of the next group.
    const T* next_row(int64_t t) const {
        const int64_t number = (t - 1) % (2 * GROUP), g = number / 2;
        const T* from = number % 2 && f ? f : u;
        return from + (DIMENSION == 2 ? memory_row(0, base(0) + GROUP + g) : memory_row(line + AHEAD, base(0) + g));
    }
    static constexpr int64_t AHEAD = 3;
};

template <int DIMENSION, bool NORM, bool STREAM, class T>
poisson_status pass(const poisson_operator* operator_, const T* u, const T* f, T* out, const double* weights,
                    int32_t count, double* result) {
    const Local<T> a = local<T>(operator_);
    T scales[Limits<DIMENSION, T>::DEPTH];
    for (int32_t sweep = 0; sweep < count; ++sweep) scales[sweep] = T(weights[sweep] / operator_->diagonal);
    const Blocks<DIMENSION, T> blocks(a);
    const Pass<DIMENSION, NORM, STREAM, T> any(a, u, f, out, scales, count, blocks);
    const int64_t tiles = blocks.count();
    double* partial = NORM ? partial_results(tiles) : nullptr;
    if (NORM && !partial) return POISSON_OUT_OF_MEMORY;
    const WorkingRows memory(tiles, any.workspace() * int64_t(sizeof(T)));
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, tiles, count * a.nx * a.ny * a.nz, (), ()) {
        Pass<DIMENSION, NORM, STREAM, T> mine = any;
        double sum = 0, maximum = 0;
        mine.run(blocks.tile(number), memory.row<T>(number), sum, maximum);
        if (NORM) keep_pair(partial, number, tiles, sum, maximum, result);
        if (STREAM) store_fence();
    }
    if (NORM) join_partials(partial, tiles, result);
    return POISSON_SUCCESS;
}

template <int DIMENSION, class T>
poisson_status pass_with(const poisson_operator* a, const T* u, const T* f, T* out, const double* weights,
                         int32_t count, double* result) {
    const bool stream = goes_around_cache(a->pitch * a->shape[1] * a->shape[2] * int64_t(sizeof(T)));
    if (result)
        return stream ? pass<DIMENSION, true, true>(a, u, f, out, weights, count, result)
                      : pass<DIMENSION, true, false>(a, u, f, out, weights, count, result);
    return stream ? pass<DIMENSION, false, true>(a, u, f, out, weights, count, result)
                  : pass<DIMENSION, false, false>(a, u, f, out, weights, count, result);
}

template <class T>
int32_t depth(const poisson_operator* a) {
    if (varies(*a) || a->shape[1] == 1) return 1;
    return a->dimension == 2 ? Limits<2, T>::DEPTH : Limits<3, T>::DEPTH;
}

template <class T>
poisson_status repeat(const poisson_operator* a, const T* u, const T* f, T* out, const double* weights, int32_t count,
                      double* result) {
    if (depth<T>(a) == 1) return sweep(a, u, f, out, weights[0], result);
    return a->dimension == 2 ? pass_with<2>(a, u, f, out, weights, count, result)
                             : pass_with<3>(a, u, f, out, weights, count, result);
}

#endif

template <class T>
poisson_status sweeps(const poisson_operator* a, const T* u, const T* f, T* out, const double* weights, int32_t count,
                      double* result) {
    if (!a || !u || !out || !weights || count < 1 || count > depth<T>(a)) return POISSON_BAD_ARGUMENT;
    return repeat(a, u, f, out, weights, count, result);
}

}  // namespace

#define POISSON_DEFINE(real, suffix)                                                                           \
    extern "C" int32_t poisson_depth_##suffix(const poisson_operator* a) { return a ? depth<real>(a) : 0; }    \
    extern "C" poisson_status poisson_sweeps_##suffix(const poisson_operator* a, const real* u, const real* f, \
                                                      real* out, const double* weights, int32_t count,         \
                                                      double* result) {                                        \
        use_threads(a);                                                                                        \
        return sweeps(a, u, f, out, weights, count, result);                                                   \
    }

POISSON_DEFINE(float, f32)
POISSON_DEFINE(double, f64)
