// Half a level of multigrid in one pass over memory: smooth, on the host.
//
// A tile marches along the slowest axis, GROUP rows (planes) at a time. Level 0 is u with the coarse correction; level
// t, the iterate after t sweeps, works one row (plane) behind level t - 1 on the same tile; behind the last of them
// comes the residual, and behind that the rows of the coarse grid that it is restricted to. What later levels need
// stays in rings of rows in the cache: memory gives u, f and the coarse correction once, and takes the result and the
// coarse residual once. A level covers as many nodes around the tile as those behind it need: neighbouring tiles
// compute these too, and need nothing from each other.
#ifndef POISSON_SMOOTH_H
#define POISSON_SMOOTH_H

#include "core/kept.h"
#include "multigrid/grids.h"
#include "multigrid/levels.h"

// What smooth is asked for, in the type of the arrays. The scales are omega / diag(A), or omega alone where the
// diagonal varies.
template <class T>
struct Smoothing {
    Coefficients<T> arrays;
    const T *u, *f;
    T* out;
    const T* scales;
    int64_t count;
    const Grids<T>* correction;
    const T* coarse_correction;
    const Grids<T>* restriction;
    T* coarse_residual;
    bool norm, stream;

    bool residual() const { return restriction || norm; }
    // Whether the first level is 0 or a scaled source, and whether level 0 is kept in a ring.
    bool from_zero() const { return !u && !correction && count > 0; }
    bool keeps_start() const { return correction || count == 0; }
};

// A pass over one tile.
template <int DIMENSION, Varies VARIES, class T>
class SmoothingPass {
public:
    SmoothingPass(const Local<T>& a, const Smoothing<T>& task, const SmoothingTiles<DIMENSION, T>& tiles)
        : a(a),
          task(task),
          x{a.nx, a.rule(0), a.rule(1)},
          mid(DIMENSION == 3 ? Reach{a.ny, a.rule(2), a.rule(3)} : Reach{1, WRAP, WRAP}),
          march(DIMENSION == 3 ? Reach{a.nz, a.rule(4), a.rule(5)} : Reach{a.ny, a.rule(2), a.rule(3)}) {
        if (task.restriction) {
            reach_x = task.restriction->x.pairing.reach();
            reach_mid = DIMENSION == 3 ? task.restriction->y.reach() : 0;
            reach_march = DIMENSION == 3 ? task.restriction->z.reach() : task.restriction->y.reach();
        }
        const int64_t widest = round_up(tiles.width, W) + 2 * round_up(margin(0, reach_x), W);
        // An odd number of lines, so that rows do not meet in the sets of the cache.
        stride = (widest / W + 2) * W;
        stride += stride / W % 2 ? 0 : W;
        lines = tiles.rows + (DIMENSION == 3 ? 2 * margin(0, reach_mid) : 0);
        plane = stride * lines;
    }

    // Bytes of memory that the pass works in.
    int64_t workspace() const {
        const int64_t values = W + plane * (RING * (task.count + 1) + RESIDUAL_RING) + 2 * stride;
        return bytes_of_covers() + values * int64_t(sizeof(T));
    }

    void run(const Tile& at, char* memory, double& sum, double& maximum) {
        tile = at;
        levels = reinterpret_cast<Cover*>(memory);
        rings = reinterpret_cast<T*>(memory + bytes_of_covers()) + W;
        scratch = rings + plane * (RING * (task.count + 1) + RESIDUAL_RING) + W;
        LineNorms<T> norms;
        const int64_t last = task.count + (task.residual() ? 1 : 0);
        for (int64_t t = 0; t <= task.count + 1; ++t) levels[t] = cover(t);
        origin = planes(0).start;
        // Rings count planes from a place before all of them.
        plane_origin = origin - (last + 2) * RESIDUAL_RING * RING;
        line_origin = rows(0).start;
        if (task.restriction) {
            const Grids<T>& grids = *task.restriction;
            coarse_planes = slow(grids).within({tile.start, tile.stop});
            coarse_rows = DIMENSION == 3 ? grids.y.within({tile.low, tile.high}) : Span{0, 1};
            coarse_columns = grids.x.pairing.within({tile.first, tile.last});
        }
        for (base = origin;; base += GROUP) {
            if (task.keeps_start()) start_level();
            for (int64_t t = 1; t <= task.count; ++t) sweep_level(t, norms);
            if (task.residual()) residual_level(norms);
            if (task.restriction) restrict_planes();
            if (base - last + GROUP >= planes(last).stop) break;
        }
        norms.join(sum, maximum);
    }

private:
    static constexpr int64_t W = WIDE<T>, GROUP = DIMENSION == 2 ? 4 : 2, RING = GROUP + 2, RESIDUAL_RING = GROUP + 4;

    const Local<T>& a;
    const Smoothing<T>& task;
    const Reach x, mid, march;
    int64_t reach_x = 0, reach_mid = 0, reach_march = 0, stride, lines, plane;
    Tile tile;
    T *rings, *scratch;
    // The first planes of level 0 and of its group; where the rings count planes and rows from.
    int64_t origin, base, plane_origin, line_origin;
    // What is still to come of the coarse grid.
    Span coarse_planes, coarse_rows, coarse_columns;

    // What a level covers: its planes, its rows of the middle axis and its columns.
    struct Cover {
        Span planes, rows;
        Stretch columns;
    };
    Cover* levels;

    int64_t bytes_of_covers() const { return round_up((task.count + 2) * int64_t(sizeof(Cover)), 64); }

    // A plane, from row 0 of the middle axis and column 0 on, in a ring or in memory.
    template <class V>
    struct Sheet {
        V* at;
        int64_t step;

        V* row(int64_t j) const { return at + step * j; }
    };

    // ---- what a level covers; count + 1 is the residual

    int64_t margin(int64_t t, int64_t reach) const {
        if (t > task.count) return reach;
        return task.count - t + (task.residual() ? 1 + reach : 0);
    }
    Cover cover(int64_t t) const {
        const int64_t around = margin(t, reach_x);
        const int64_t start = round_down(std::max<int64_t>(tile.first - around, 0), W);
        const int64_t stop = round_up(std::min(tile.last + around, a.nx), W);
        const Stretch columns = {start,
                                 stop - start,
                                 tile.first,
                                 round_up(tile.last, W),
                                 x.lower == FIXED ? 0 : -Stretch::NOWHERE,
                                 x.upper == FIXED ? a.nx - 1 : Stretch::NOWHERE,
                                 a.nx,
                                 x.wraps() ? a.nx - 1 : 1,
                                 x.wraps() ? 0 : a.nx - 2};
        return {march.around({tile.start, tile.stop}, margin(t, reach_march)),
                mid.around({tile.low, tile.high}, DIMENSION == 3 ? margin(t, reach_mid) : 0), columns};
    }
    const Span& planes(int64_t t) const { return levels[t].planes; }
    const Span& rows(int64_t t) const { return levels[t].rows; }
    const Stretch& columns(int64_t t) const { return levels[t].columns; }
    static const Pairing& slow(const Grids<T>& grids) { return DIMENSION == 3 ? grids.z : grids.y; }

    // ---- where rows are

    Sheet<T> ring(int64_t t, int64_t p) const {
        const uint64_t number = uint64_t(p - plane_origin);
        const int64_t place = int64_t(t > task.count ? number % RESIDUAL_RING : number % RING);
        return {rings + plane * (t * RING + place) - stride * line_origin - columns(0).start, stride};
    }
    template <class V>
    Sheet<V> memory(V* values, int64_t p) const {
        const int64_t node = march.node(p);
        return DIMENSION == 3 ? Sheet<V>{values + a.row(0, node), a.pitch} : Sheet<V>{values + a.row(node, 0), 0};
    }
    // What level t is computed from.
    bool reads_memory(int64_t t) const { return t == 1 && !task.keeps_start(); }
    Sheet<const T> input(int64_t t, int64_t p) const {
        if (reads_memory(t)) return memory<const T>(task.u, p);
        const Sheet<T> sheet = ring(t - 1, p);
        return {sheet.at, sheet.step};
    }
    int64_t input_row(int64_t t, int64_t j) const { return reads_memory(t) ? mid.node(j) : j; }
    bool owned(int64_t j, int64_t p) const {
        return tile.low <= j && j < tile.high && tile.start <= p && p < tile.stop;
    }
    bool fixed(int64_t j, int64_t p) const { return march.fixed(p) || (DIMENSION == 3 && mid.fixed(j)); }

    // ---- level 0

    void start_level() {
        const Span &span = planes(0), &across = rows(0);
        for (int64_t p = std::max(base, span.start); p < std::min(base + GROUP, span.stop); ++p) {
            const Sheet<T> sheet = ring(0, p), out = memory(task.out, p);
            for (int64_t j = across.start; j < across.stop; ++j) {
                start_row(sheet.row(j), j, p);
                if (task.count == 0 && owned(j, p)) write_row(sheet.row(j), out.row(j));
            }
        }
    }
    void start_row(T* row, int64_t j, int64_t p) const {
        const Stretch& at = columns(0);
        const T* u = task.u ? memory<const T>(task.u, p).row(mid.node(j)) : nullptr;
        const int64_t stop = std::min(at.start + at.width, a.nx);
        if (!task.correction || fixed(j, p)) {
            if (u)
                std::copy(u + at.start, u + at.start + at.width, row + at.start);
            else
                std::fill(row + at.start, row + at.start + at.width, T(0));
            return;
        }
        const Grids<T>& grids = *task.correction;
        const Pairing& along = grids.x.pairing;
        const int64_t first = round_down(along.below(at.start), W);
        const int64_t last = std::min(along.below(stop - 1) + 2, along.coarse);
        T* coarse = scratch - first;
        const Mix<T> mix = DIMENSION == 3 ? grids.above(task.coarse_correction, mid.node(j), march.node(p))
                                          : grids.above(task.coarse_correction, march.node(p), 0);
        add_up(mix, first, round_up(last - first, W), scratch);
        if (along.wraps) coarse[along.coarse] = coarse[0];
        prolong_along_x(grids.x, coarse, u, row, at.start, stop);
        if (at.start == 0 && x.lower == FIXED) row[0] = u ? u[0] : T(0);
        if (stop == a.nx && x.upper == FIXED) row[a.nx - 1] = u ? u[a.nx - 1] : T(0);
    }
    // The tile's own columns of a row, to memory, and zeros behind the last node.
    void write_row(const T* row, T* out) const {
        for (int64_t i = tile.first; i < tile.last; i += W) {
            Line<T> line = load<W>(row + i);
            if (i + W > a.nx) line = lane_numbers<T, W>() < T(a.nx - i) ? line : Line<T>{};
            put_line(out + i, line, task.stream);
        }
    }

    // ---- sweeps and the residual

    void sweep_level(int64_t t, LineNorms<T>& norms) {
        if (t == 1 && task.from_zero()) return scale_level();
        const bool last = t == task.count;
        if (!last) return visit_level<Task<false, true, false, false>>(t, norms);
        if (task.residual()) return visit_level<Task<false, true, true, false>>(t, norms);
        visit_level<Task<false, false, true, false>>(t, norms);
    }
    void residual_level(LineNorms<T>& norms) {
        if (task.norm) return visit_level<Task<true, true, false, true>>(task.count + 1, norms);
        visit_level<Task<true, true, false, false>>(task.count + 1, norms);
    }

    template <class K>
    void visit_level(int64_t t, LineNorms<T>& norms) {
        const Span& span = planes(t);
        const int64_t first = base - t, last = first + GROUP;
        if (last <= span.start || first >= span.stop) return;
        const bool together = first >= span.start && last <= span.stop && march.inner({first, last}) &&
                              ((!K::OUT && !K::NORM) || (tile.start <= first && last <= tile.stop));
        if (together) return visit_planes<K, GROUP>(t, first, norms);
        for (int64_t p = std::max(first, span.start); p < std::min(last, span.stop); ++p) {
            if (march.fixed(p)) {
                for (int64_t j = rows(t).start; j < rows(t).stop; ++j) keep_row<K>(t, j, p);
            } else {
                visit_planes<K, 1>(t, p, norms);
            }
        }
    }

    template <class K, int64_t G>
    void visit_planes(int64_t t, int64_t first, LineNorms<T>& norms) {
        const Stretch& at = columns(t);
        const Span& across = rows(t);
        const T scale = K::RESIDUAL ? T(0) : task.scales[t - 1];
        Sheet<const T> centre[G + 2], source[G];
        Sheet<T> kept[G], out[G];
        centre[0] = input(t, march.before(first));
        centre[G + 1] = input(t, march.behind(first + G - 1));
        for (int64_t g = 0; g < G; ++g) {
            centre[g + 1] = input(t, first + g);
            source[g] = memory(task.f, first + g);
            kept[g] = K::KEPT ? ring(t, first + g) : Sheet<T>{};
            out[g] = K::OUT ? memory(task.out, first + g) : Sheet<T>{};
        }
        // Each level asks for one of the next planes.
        const int64_t next = std::min(base + GROUP + (t - 1) % GROUP, planes(0).stop - 1);
        const T* const arrays[] = {task.f, task.u, task.arrays.c, task.arrays.x, task.arrays.y, task.arrays.z};
        Sheet<const T> soon[AHEAD<DIMENSION, VARIES>];
        for (int n = 0; n < AHEAD<DIMENSION, VARIES>; ++n) soon[n] = memory(arrays[n] ? arrays[n] : task.f, next);
        for (int64_t j = across.start; j < across.stop; ++j) {
            if (DIMENSION == 3 && mid.fixed(j)) {
                for (int64_t g = 0; g < G; ++g) keep_row<K>(t, j, first + g);
                continue;
            }
            const int64_t node = mid.node(j), row = input_row(t, j);
            Bundle<G, T> bundle;
            BundleLinks<G, T> links;
            if constexpr (VARIES != NOTHING) find_links(first, j, at.start, links);
            for (int64_t g = 0; g < G + 2; ++g) bundle.centre[g] = centre[g].row(row) + at.start;
            for (int64_t g = 0; g < G; ++g) {
                bundle.lower[g] = bundle.upper[g] = nullptr;
                if (DIMENSION == 3) {
                    bundle.lower[g] = centre[g + 1].row(input_row(t, mid.before(j))) + at.start;
                    bundle.upper[g] = centre[g + 1].row(input_row(t, mid.behind(j))) + at.start;
                }
                bundle.f[g] = source[g].row(node) + at.start;
                bundle.kept[g] = K::KEPT ? kept[g].row(j) + at.start : nullptr;
                bundle.out[g] = K::OUT ? out[g].row(node) + at.start : nullptr;
            }
            const T* ahead[AHEAD<DIMENSION, VARIES>];
            for (int n = 0; n < AHEAD<DIMENSION, VARIES>; ++n) ahead[n] = soon[n].row(node) + at.start;
            if ((K::OUT || K::NORM) && !owned(j, first)) {
                // Some rows at the edge of a tile are not its own.
                LineNorms<T> others;
                visit_bundle<DIMENSION, VARIES, Task<K::RESIDUAL, true, false, false>>(a, bundle, links, scale, at,
                                                                                       false, ahead, others);
            } else {
                visit_bundle<DIMENSION, VARIES, K>(a, bundle, links, scale, at, task.stream, ahead, norms);
            }
        }
    }

    // The coefficients of rows j of the G planes from `first` on, from column `start` on.
    template <int64_t G>
    void find_links(int64_t first, int64_t j, int64_t start, BundleLinks<G, T>& links) const {
        const Coefficients<T>& arrays = task.arrays;
        const int64_t node = mid.node(j);
        for (int64_t g = 0; g < G; ++g) {
            links.c[g] = arrays.c ? memory(arrays.c, first + g).row(node) + start : nullptr;
            if (VARIES != LINKS) continue;
            links.x[g] = memory(arrays.x, first + g).row(node) + start;
            if (DIMENSION == 3) {
                links.lower[g] = memory(arrays.y, first + g).row(mid.link_before(j)) + start;
                links.upper[g] = memory(arrays.y, first + g).row(mid.link_behind(j)) + start;
            }
        }
        if (VARIES != LINKS) return;
        const T* const slowest = DIMENSION == 3 ? arrays.z : arrays.y;
        links.slow[0] = memory(slowest, march.link_before(first)).row(node) + start;
        for (int64_t g = 0; g < G; ++g)
            links.slow[g + 1] = memory(slowest, march.link_behind(first + g)).row(node) + start;
    }

    // A row of fixed nodes.
    template <class K>
    void keep_row(int64_t t, int64_t j, int64_t p) {
        const Stretch& at = columns(t);
        if (K::RESIDUAL) {
            T* to = ring(t, p).row(j) + at.start;
            std::fill(to, to + at.width, T(0));
            return;
        }
        const T* from = input(t, p).row(input_row(t, j));
        if (K::KEPT) std::copy(from + at.start, from + at.start + at.width, ring(t, p).row(j) + at.start);
        if (K::OUT && owned(j, p)) write_row(from, memory(task.out, p).row(j));
    }

    // The first sweep from zero.
    void scale_level() {
        const Span &span = planes(1), &across = rows(1);
        const Stretch& at = columns(1);
        for (int64_t p = std::max(base - 1, span.start); p < std::min(base - 1 + GROUP, span.stop); ++p) {
            const Sheet<const T> source = memory(task.f, p);
            const Sheet<T> kept = ring(1, p), out = memory(task.out, p);
            for (int64_t j = across.start; j < across.stop; ++j) {
                const T* f = source.row(mid.node(j));
                T* row = kept.row(j);
                if (fixed(j, p)) {
                    std::fill(row + at.start, row + at.start + at.width, T(0));
                } else {
                    BundleLinks<1, T> links;
                    if constexpr (VARIES != NOTHING) find_links(p, j, 0, links);
                    scale_row<DIMENSION, VARIES>(a, links, task.scales[0], at, f, row);
                }
                if (at.begins() && x.lower == FIXED) row[0] = 0;
                if (at.ends() && x.upper == FIXED) row[a.nx - 1] = 0;
                if (task.count == 1 && owned(j, p)) write_row(row, out.row(j));
            }
        }
    }

    // ---- restriction

    // The coarse planes whose fine planes are all there now.
    void restrict_planes() {
        const Grids<T>& grids = *task.restriction;
        const int64_t t = task.count + 1, end = planes(t).stop, there = std::min(base - t + GROUP, end);
        for (; coarse_planes.start < coarse_planes.stop; ++coarse_planes.start) {
            const int64_t node = coarse_planes.start;
            const Span from = slow(grids).around(node);
            if (std::min(from.stop, end) > there) return;
            Sheet<T> sheets[Mix<T>::MOST];
            double weights[Mix<T>::MOST];
            for (int64_t p = from.start; p < from.stop; ++p) {
                sheets[p - from.start] = ring(t, march.seen(p));
                weights[p - from.start] = slow(grids).weight(p, node);
            }
            for (int64_t j = coarse_rows.start; j < coarse_rows.stop; ++j) {
                T* to = task.coarse_residual + (DIMENSION == 3 ? grids.coarse.row(j, node) : grids.coarse.row(node, 0));
                if (DIMENSION == 3 ? grids.fixed_row(j, node) : grids.fixed_row(node, 0)) {
                    std::fill(to + coarse_columns.start, to + coarse_columns.stop, T(0));
                    continue;
                }
                const Span across = DIMENSION == 3 ? grids.y.around(j) : Span{0, 1};
                Mix<T> mix;
                for (int64_t p = 0; p < from.stop - from.start; ++p)
                    for (int64_t row = across.start; row < across.stop; ++row)
                        mix.add(sheets[p].row(mid.seen(row)),
                                weights[p] * (DIMENSION == 3 ? grids.y.weight(row, j) : 1));
                restrict_row(mix, to);
            }
        }
    }
    void restrict_row(const Mix<T>& mix, T* to) const {
        const Stretch& at = columns(task.count + 1);
        T* sums = scratch - at.start;
        add_up(mix, at.start, at.width, scratch);
        if (at.begins() && x.lower != FIXED) sums[-1] = x.wraps() ? sums[a.nx - 1] : sums[1];
        if (at.ends() && x.upper != FIXED) sums[a.nx] = x.wraps() ? sums[0] : sums[a.nx - 2];
        task.restriction->restrict_row(sums, to, coarse_columns.start, coarse_columns.stop);
    }
};

template <int DIMENSION, Varies VARIES, class T>
poisson_status smooth_tiles(const Local<T>& a, const Smoothing<T>& task, double* result) {
    const SmoothingTiles<DIMENSION, T> tiles(a);
    const SmoothingPass<DIMENSION, VARIES, T> any(a, task, tiles);
    const int64_t count = tiles.count();
    double* partial = result ? partial_results(count) : nullptr;
    if (result && !partial) return POISSON_OUT_OF_MEMORY;
    const WorkingRows memory(count, any.workspace());
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, count, a.nx * a.ny * a.nz, (), ()) {
        SmoothingPass<DIMENSION, VARIES, T> mine = any;
        double sum = 0, maximum = 0;
        mine.run(tiles.tile(number), memory.row<char>(number), sum, maximum);
        if (result) keep_pair(partial, number, count, sum, maximum, result);
        if (task.stream) store_fence();
    }
    if (result) join_partials(partial, count, result);
    return POISSON_SUCCESS;
}

template <Varies VARIES, class T>
poisson_status smooth_as(const Local<T>& a, const Smoothing<T>& task, double* result) {
    return a.dimension == 2 ? smooth_tiles<2, VARIES>(a, task, result) : smooth_tiles<3, VARIES>(a, task, result);
}

// Where a or c varies; in smooth_varying.cpp.
template <class T>
poisson_status smooth_varying(const Local<T>& a, const Smoothing<T>& task, double* result);

#endif
