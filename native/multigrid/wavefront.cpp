// SPDX-License-Identifier: MIT
// A pass over memory, tile by tile.
//
// A tile marches along the slowest axis, a group of rows (planes) at a time. Stage 0 is what the sweeps start from;
// stage t, the iterate after t sweeps, works one row (plane) behind stage t - 1 on the same tile; behind the last of
// them comes the residual, and behind that its restriction to rows of the coarse grid. What the next stage still needs
// stays in rings of rows in the cache: u, f and the coarse correction come from memory once, and the result and the
// coarse residual go there once. A stage covers the nodes around the tile that later stages need.
//
// In 3D the stages take turns plane by plane, or, where there are many, row by row of the middle axis, each a row
// behind the one before it: then fewer rows lie between what a stage leaves and what the next one takes.
#include "multigrid/wavefront.h"

#include "core/kept.h"
#include "multigrid/stages.h"
#include "multigrid/whole_rows.h"

namespace {

template <class T>
class Wavefront {
public:
    Wavefront(const Local<T>& a, const Passage<T>& task, const Steps<T>& steps, const Tiles& tiles)
        : a(a),
          task(task),
          steps(steps),
          group(steps.together),
          passing(group - KEPT),
          last(task.steps()),
          x{a.nx, a.rule(0), a.rule(1)},
          solid(a.dimension == 3),
          mid(solid ? Reach{a.ny, a.rule(2), a.rule(3)} : Reach{1, WRAP, WRAP}),
          march(solid ? Reach{a.nz, a.rule(4), a.rule(5)} : Reach{a.ny, a.rule(2), a.rule(3)}),
          counted_rows(solid ? Span{a.halo_width(0), a.ny - a.halo_width(1)} : Span{0, 1}),
          counted_planes(solid ? Span{a.halo_width(2), a.nz - a.halo_width(3)}
                               : Span{a.halo_width(0), a.ny - a.halo_width(1)}),
          whole_rows(tiles.columns == 1),
          tables(a, task.arrays) {
        if (task.restriction) {
            reach_x = task.restriction->x.pairing.reach();
            reach_mid = solid ? task.restriction->y.reach() : 0;
            reach_march = slow(*task.restriction).reach();
        }
        const int64_t widest = round_up(tiles.width, W) + 2 * round_up(margin(0, reach_x), W);
        // An odd number of lines, so that rows do not meet in the sets of the cache.
        stride = ((widest / W + 2) | 1) * W;
        lines = tiles.rows + (solid ? 2 * margin(0, reach_mid) : 0);
        slots = steps.by_rows ? lines + 3 : 2 * lines;
        const bool may_keep_source = task.f && x.wraps() && !whole_rows;
        source_slots = may_keep_source ? lines * divide_up(task.count, group) + lines : 0;
        const int64_t passing_rows = steps.by_rows ? 4 * (task.count + 1) : 2 * lines;
        passing_at = W + stride * KEPT * slots * (task.count + 1);
        sources_at = passing_at + stride * passing * passing_rows;
        residuals_at = sources_at + stride * group * source_slots;
        zeros_at = residuals_at + (task.residual ? stride * lines * residual_planes() : 0);
        sums_at = zeros_at + stride + W;
    }

    // Bytes of memory that the pass works in.
    int64_t workspace() const {
        return bytes_of_stages() + bytes_of_offsets() + (sums_at + 2 * stride) * int64_t(sizeof(T));
    }

    void run(const Tile& at, char* memory, double& sum, double& maximum) {
        place(at, memory);
        LineNorms<T> norms;
        for (int64_t number = 0;; ++number) {
            base = stages[0].planes.start + number * group;
            slot = number * lines % slots;
            if (sources_kept) source_slot = number * lines % source_slots;
            for (int64_t t = 0; t <= last; ++t) prepare(t);
            for (int64_t n = 0; n < stages[0].rows.stop - first_line; ++n) offsets[n] = offsets_at(n);
            const int64_t first_stage = keeps_start() || sources_kept ? 0 : 1;
            if (steps.by_rows) {
                for (int64_t line = first_line; line < first_line + lines + last; ++line)
                    for (int64_t t = first_stage; t <= last; ++t)
                        if (stages[t].rows.holds(line - t)) take_step(t, {line - t, line - t + 1}, norms);
            } else {
                for (int64_t t = first_stage; t <= last; ++t) take_step(t, stages[t].rows, norms);
            }
            if (task.restriction) restrict_planes();
            if (base - last + group >= stages[last].planes.stop) break;
        }
        norms.join(sum, maximum);
    }

private:
    // The first planes of a group are needed only while the next stage works on it, the last KEPT for one group more.
    static constexpr int64_t W = WIDE<T>, KEPT = 2;
    // So many rows before they are needed, rows are asked for where stages take turns row by row.
    static constexpr int64_t AHEAD = 3;
    using Stage = ::Stage<T>;

    const Local<T>& a;
    const Passage<T>& task;
    const Steps<T>& steps;
    const int64_t group, passing, last;
    const Reach x;
    // Whether there is a middle axis.
    const bool solid;
    const Reach mid, march;
    // The nodes whose residuals count: those that are in no halo.
    const Span counted_rows, counted_planes;
    // Whether rows are not cut into tiles, so that the ends of one that wraps have each other.
    const bool whole_rows;
    const TablesOf<T> tables;
    int64_t reach_x = 0, reach_mid = 0, reach_march = 0;
    // Values of a row, rows of a plane and places of the rings; where the parts of the memory begin.
    int64_t stride, lines, slots, source_slots, passing_at, sources_at, residuals_at, zeros_at, sums_at;
    Tile tile;
    // Whether rows are read where they are; a tile that holds images along x needs copies with them, of f too.
    bool direct, sources_kept;
    Stage* stages;
    // Of the rows of the middle axis from `first_line` on, for the group that the pass is at.
    Offsets* offsets;
    T *values, *zeros, *sums;
    // The first column and the first row of the middle axis that the rings have.
    int64_t first_column, first_line;
    // The first plane of stage 0's group, and the places of the first row of the middle axis in the rings.
    int64_t base, slot, source_slot;
    // What is still to come of the coarse grid.
    Span coarse_planes, coarse_rows, coarse_columns;

    int64_t bytes_of_stages() const { return round_up((last + 1) * int64_t(sizeof(Stage)), 64); }
    int64_t bytes_of_offsets() const { return round_up(lines * int64_t(sizeof(Offsets)), 64); }
    int64_t residual_planes() const { return group + std::max<int64_t>(4, 2 * reach_march); }
    const Pairing& slow(const Grids<T>& grids) const { return solid ? grids.z : grids.y; }
    bool from_zero(int64_t t) const { return t == 1 && task.from_zero(); }
    bool keeps_start() const { return task.correction || task.count == 0 || !direct; }

    // ---- what a stage covers; count + 1 is the residual

    int64_t margin(int64_t t, int64_t reach) const {
        return t > task.count ? reach : task.count - t + (task.residual ? 1 + reach : 0);
    }
    __attribute__((noinline)) void place(const Tile& at, char* memory) {
        tile = at;
        stages = reinterpret_cast<Stage*>(memory);
        offsets = reinterpret_cast<Offsets*>(memory + bytes_of_stages());
        values = reinterpret_cast<T*>(memory + bytes_of_stages() + bytes_of_offsets());
        zeros = values + zeros_at;
        sums = values + sums_at;
        if (!task.f) std::fill(zeros, zeros + stride, T(0));
        for (int64_t t = 0; t <= last; ++t) {
            Stage& stage = stages[t];
            stage.planes = march.around({tile.start, tile.stop}, margin(t, reach_march));
            stage.rows = solid ? mid.around({tile.low, tile.high}, margin(t, reach_mid)) : Span{0, 1};
            stage.columns = stretch_of<T>(x, tile, margin(t, reach_x), whole_rows, t == last);
            stage.result = t == task.count;
            stage.kept = t < task.count || task.residual;
            stage.scale = 0 < t && t <= task.count ? task.scales[t - 1] : T(0);
            stage.source_weight = stage.result ? task.source_weight : T(1);
            stage.visits = from_zero(t)     ? Visits<T>{steps.from_zero, steps.from_zero}
                           : t > task.count ? steps.residual
                           : t < task.count ? steps.sweep
                                            : steps.last_sweep;
        }
        const Stretch& widest = stages[0].columns;
        direct = widest.start >= 0 && (!x.wraps() || whole_rows || widest.start + widest.width <= a.nx);
        sources_kept = task.f && !direct;
        first_column = widest.start;
        first_line = stages[0].rows.start;
        for (int64_t t = 0; t <= last; ++t) place_rows(t);
        if (task.restriction) {
            const Grids<T>& grids = *task.restriction;
            coarse_planes = slow(grids).within({tile.start, tile.stop});
            coarse_rows = solid ? grids.y.within({tile.low, tile.high}) : Span{0, 1};
            coarse_columns = grids.x.pairing.within({tile.first, tile.last});
        }
    }
    // Where a stage's rows are in the rings, and what it asks memory for: the stages share the rows of f, u and the
    // coefficients that are to come.
    void place_rows(int64_t t) {
        Stage& stage = stages[t];
        const int64_t column = stage.columns.start, whole = divide_up(task.count, group);
        const bool to_ring = stage.kept || t == 0 || from_zero(t);
        stage.in_memory = t <= 1 || stage.result || t > task.count || !sources_kept || task.arrays.x || task.arrays.c;
        for (int64_t n = 0; n < group + 2 && t > 0; ++n) stage.from[n] = ring_plane<const T>(t - 1, n - KEPT, column);
        for (int64_t g = 0; g < group; ++g) {
            stage.to[g] = ring_plane<T>(t, g, column);
            if (t > task.count || !to_ring) stage.to[g].where = t > task.count ? RESIDUALS : MEMORY;
            const int64_t p = g - t + whole * group;
            stage.source_back[g] = (whole - p / group) * lines;
            stage.source_row[g] = p % group;
        }
        const T* const arrays[] = {task.f, task.u, task.arrays.c, task.arrays.x, task.arrays.y, task.arrays.z};
        const int64_t count = std::max<int64_t>(steps.soon, 2);
        for (int64_t n = 0; n < steps.soon; ++n) {
            const int64_t number = std::max<int64_t>(t - 1, 0) * steps.soon + n;
            const T* const array = arrays[number % count];
            stage.soon[n] = (array ? array : task.f ? task.f : task.u) + stage.columns.start;
            stage.soon_plane[n] = number / count % group;
        }
    }
    // What a stage does at the group of planes that the pass is at.
    __attribute__((noinline)) void prepare(int64_t t) {
        Stage& stage = stages[t];
        stage.first = base - t;
        stage.begin = std::max<int64_t>(stage.planes.start - stage.first, 0);
        stage.end = std::min(stage.planes.stop - stage.first, group);
        if (stage.begin >= stage.end) return;
        const int64_t first = stage.first, stop = first + group, column = stage.columns.start;
        const bool all_own = tile.start <= first && stop <= tile.stop;
        const bool some_count = t > task.count ? task.norm : stage.result;
        stage.together = stage.end - stage.begin == group && march.inner({first, stop}) && (all_own || !some_count) &&
                         (!task.norm || (counted_planes.start <= first && stop <= counted_planes.stop));
        for (int64_t n = 0; n < steps.soon; ++n) {
            const int64_t p = base + stage.soon_plane[n] + (steps.by_rows ? 0 : group);
            stage.soon_offset[n] = plane_offset(std::min(p, stages[0].planes.stop - 1));
        }
        if (!stage.in_memory) return;
        for (int64_t n = 0; n < group + 2; ++n) stage.offset[n] = plane_offset(first + n - 1);
        if (t == 1 && !keeps_start() && !from_zero(t))
            for (int64_t n = 0; n < group + 2; ++n) stage.from[n] = {task.u + stage.offset[n] + column, MEMORY};
        if (t > task.count)
            for (int64_t g = 0; g < group; ++g) stage.to[g].at = residual_plane(first + g) + column - first_column;
        else if (stage.to[0].where == MEMORY)
            for (int64_t g = 0; g < group; ++g) stage.to[g].at = task.out + stage.offset[g + 1] + column;
        if (!task.arrays.x) return;
        for (int64_t g = 0; g < group; ++g) stage.link_offset[g] = plane_offset(march.link_behind(first + g));
    }
    bool owned(int64_t j, int64_t p) const {
        return tile.low <= j && j < tile.high && tile.start <= p && p < tile.stop;
    }
    bool fixed(int64_t j, int64_t p) const { return march.fixed(p) || (solid && mid.fixed(j)); }

    // ---- where rows are

    int64_t plane_offset(int64_t p) const { return solid ? a.row(0, march.node(p)) : a.row(march.node(p), 0); }
    int64_t row_offset(int64_t j) const { return solid ? a.row(mid.node(j), 0) : 0; }
    static int64_t wrapped(int64_t index, int64_t size) {
        return index < 0 ? index + size : index >= size ? index - size : index;
    }
    Offsets offsets_at(int64_t number) const {
        // The group before is `lines` places before.
        const int64_t now = wrapped(slot + number, slots), before = wrapped(now - lines, slots);
        return {{row_offset(first_line + number), stride * now, stride * before,
                 stride * passing * (steps.by_rows ? number & 3 : number), stride * number}};
    }
    const Offsets& offsets_of(int64_t j) const { return offsets[j - first_line]; }
    // Plane p of a stage's group; -2 and -1 are the last two of the group before it.
    template <class V>
    Plane<V> ring_plane(int64_t t, int64_t p, int64_t column) const {
        T* const at = values + column - first_column;
        if (p < 0) return {at + W + stride * slots * (KEPT * t + p + KEPT), BEFORE};
        if (p < passing)
            return {at + passing_at + stride * passing * (steps.by_rows ? 4 * t : t % 2 * lines) + stride * p, PASSING};
        return {at + W + stride * slots * (KEPT * t + p - passing), NOW};
    }
    T* residual_plane(int64_t p) const {
        // Planes are counted from a place before all of them.
        const int64_t number = p - stages[0].planes.start + (last + 2) * residual_planes();
        return values + residuals_at + stride * lines * (number % residual_planes());
    }
    // Where row j of f would be that is read for stage 0 now, and row j of f for plane g of a stage.
    int64_t source_place(int64_t j) const { return wrapped(source_slot + j - first_line, source_slots); }
    T* source(const Stage& stage, int64_t place, int64_t g) const {
        const int64_t at = wrapped(place - stage.source_back[g], source_slots);
        return values + sources_at + stride * (group * at + stage.source_row[g]) + stage.columns.start - first_column;
    }

    // ---- stage 0, and f

    __attribute__((noinline)) void start_rows(int64_t j) {
        const Stage& stage = stages[0];
        const int64_t column = stage.columns.start;
        const Offsets& at = offsets_of(j);
        for (int64_t g = stage.begin; g < stage.end; ++g) {
            const int64_t from = stage.offset[g + 1] + at.of[MEMORY];
            if (sources_kept) load_row(task.f + from, source(stage, source_place(j), g) - column);
            if (!keeps_start()) continue;
            T* const to = stage.to[g].row(at) - column;
            start_row(to, task.u ? task.u + from : nullptr, j, stage.first + g);
            if (stage.result && owned(j, stage.first + g)) write_row(to, task.out + from);
        }
    }
    // Rows are counted from their column 0.
    void start_row(T* to, const T* u, int64_t j, int64_t p) const {
        const Stretch& at = stages[0].columns;
        if (!task.correction || fixed(j, p)) {
            if (u)
                load_row(u, to);
            else
                std::fill(to + at.start, to + at.start + at.width, T(0));
            return;
        }
        const Grids<T>& grids = *task.correction;
        const Mix<T> mix = solid ? grids.above(task.coarse_correction, mid.node(j), march.node(p))
                                 : grids.above(task.coarse_correction, march.node(p), 0);
        const int64_t stop = std::min(at.start + at.width, a.nx);
        prolong_sum(grids, mix, u, to, at.start, stop, sums);
        if (at.begins && x.lower == FIXED) to[0] = u ? u[0] : T(0);
        if (at.ends && x.upper == FIXED) to[a.nx - 1] = u ? u[a.nx - 1] : T(0);
        if (task.arrays.mask) hold_masked(task.arrays.mask + plane_offset(p) + row_offset(j), u, to, at.start, stop);
    }
    void load_row(const T* from, T* to) const {
        const Stretch& at = stages[0].columns;
        const int64_t stop = at.start + at.width;
        const Span inner =
            direct ? Span{at.start, stop} : Span{std::clamp<int64_t>(0, at.start, stop), std::min(stop, a.nx)};
        int64_t i = at.start;
        for (; i < inner.start; ++i) to[i] = from[x.node(i)];
        for (; i + W <= inner.stop; i += W) store(to + i, load<W>(from + i));
        for (; i < stop; ++i) to[i] = from[x.node(i)];
    }
    // The tile's own columns of a row, to memory, and zeros behind the last node.
    __attribute__((noinline)) void write_row(const T* from, T* out) const {
        for (int64_t i = tile.first; i < tile.last; i += W) {
            Line<T> values = load<W>(from + i);
            if (i + W > a.nx) values = lane_numbers<T, W>() < T(a.nx - i) ? values : Line<T>{};
            put_line(out + i, values, task.stream);
        }
    }

    // ---- sweeps and the residual

    // These rows of the middle axis of a stage's group.
    void take_step(int64_t t, Span across, LineNorms<T>& norms) {
        const Stage& stage = stages[t];
        if (stage.begin >= stage.end) return;
        if (t == 0) {
            for (int64_t j = across.start; j < across.stop; ++j) start_rows(j);
        } else if (!stage.together) {
            for (int64_t g = stage.begin; g < stage.end; ++g) visit<1>(t, across, g, stage.visits.alone, norms);
        } else if (group == 2) {
            visit<2>(t, across, 0, stage.visits.together, norms);
        } else {
            visit<MOST_ROWS>(t, across, 0, stage.visits.together, norms);
        }
    }
    // The same of the planes [begin, begin + COUNT) of the group.
    template <int64_t COUNT>
    __attribute__((noinline)) void visit(int64_t t, Span across, int64_t begin, Visit<T> step,
                                         LineNorms<T>& norms) const {
        const Stage& stage = stages[t];
        const int64_t column = stage.columns.start, first = stage.first + begin;
        const bool zero = from_zero(t), fixed_planes = COUNT == 1 && march.fixed(first);
        const Plane<const T> below = stage.from[march.before(first) - stage.first + 1],
                             above = stage.from[march.behind(first + COUNT - 1) - stage.first + 1];
        const bool own_planes = tile.start <= first && first + COUNT <= tile.stop;
        const bool counts_planes = counted_planes.start <= first && first + COUNT <= counted_planes.stop;
        LineNorms<T> of_others;
        Bundle<T> rows;
        rows.count = COUNT;
        rows.stream = stage.to[0].where == MEMORY && task.stream;
        rows.stream_also = task.stream;
        rows.masked = task.arrays.mask;
        rows.source_weight = stage.source_weight;
        if (task.arrays.tables) {
            int64_t planes[MOST_ROWS];
            for (int64_t n = 0; n < COUNT; ++n) planes[n] = march.node(first + n);
            rows.find_planes(tables, column, planes);
        }
        for (int64_t j = across.start; j < across.stop; ++j) {
            const Offsets& at = offsets_of(j);
            if (fixed_planes || (solid && mid.fixed(j))) {
                for (int64_t n = 0; n < COUNT; ++n) keep_row(t, j, at, begin + n);
                continue;
            }
            const bool own = own_planes && tile.low <= j && j < tile.high;
            const int64_t place = at.of[MEMORY] + column;
            rows.both = stage.result && stage.kept && own && !zero;
            const bool counts = counts_planes && (!solid || counted_rows.holds(j));
            rows.norm = task.norm && own && counts;
            if (!zero) {
                rows.centre[0] = below.row(at);
                for (int64_t n = 0; n < COUNT; ++n) rows.centre[n + 1] = stage.from[begin + n + 1].row(at);
                rows.centre[COUNT + 1] = above.row(at);
                if (solid) {
                    const Offsets &before = offsets_of(mid.before(j)), &behind = offsets_of(mid.behind(j));
                    for (int64_t n = 0; n < COUNT; ++n) {
                        rows.lower[n] = stage.from[begin + n + 1].row(before);
                        rows.upper[n] = stage.from[begin + n + 1].row(behind);
                    }
                }
            }
            for (int64_t n = 0; n < COUNT; ++n) rows.to[n] = stage.to[begin + n].row(at);
            if (sources_kept)
                for (int64_t n = 0; n < COUNT; ++n) rows.f[n] = source(stage, source_place(j), begin + n);
            else
                for (int64_t n = 0; n < COUNT; ++n)
                    rows.f[n] = task.f ? task.f + stage.offset[begin + n + 1] + place : zeros;
            if (rows.both)
                for (int64_t n = 0; n < COUNT; ++n) rows.also[n] = task.out + stage.offset[begin + n + 1] + place;
            if (task.arrays.c)
                for (int64_t n = 0; n < COUNT; ++n) rows.c[n] = task.arrays.c + stage.offset[begin + n + 1] + place;
            if (task.arrays.x) find_links<COUNT>(stage, j, place, begin, rows);
            if (task.arrays.tables) rows.find_row(tables, solid ? mid.node(j) : 0, a.c, stage.scale);
            const int64_t soon = steps.by_rows ? row_offset(j + t + AHEAD) : at.of[MEMORY];
            for (int64_t n = 0; n < steps.soon; ++n) rows.soon[n] = stage.soon[n] + stage.soon_offset[n] + soon;
            for (int64_t n = 0; n < COUNT && solid && !task.stream && stage.result && own; ++n)
                ask_to_write(task.out + stage.offset[begin + n + 1] + row_offset(j + 2) + column, stage.columns.width);
            step(a, rows, stage.columns, stage.scale, counts ? norms : of_others);
            if (zero) end_first_sweep(stage, j, at, begin, rows);
        }
    }
    void end_first_sweep(const Stage& stage, int64_t j, const Offsets& at, int64_t begin, const Bundle<T>& rows) const {
        for (int64_t n = 0; n < rows.count; ++n) {
            T* const to = rows.to[n] - stage.columns.start;
            if (stage.columns.begins && x.lower == FIXED) to[0] = 0;
            if (stage.columns.ends && x.upper == FIXED) to[a.nx - 1] = 0;
            if (stage.result && owned(j, stage.first + begin + n)) write_row(to, result_row(stage, at, begin + n));
        }
    }
    template <int64_t COUNT>
    void find_links(const Stage& stage, int64_t j, int64_t across, int64_t begin, Bundle<T>& rows) const {
        const Coefficients<T>& arrays = task.arrays;
        for (int64_t n = 0; n < COUNT; ++n) {
            const int64_t plane = stage.offset[begin + n + 1];
            rows.x_link[n] = arrays.x + plane + across;
            if (solid) {
                const T* const links = arrays.y + plane + stage.columns.start;
                rows.lower_link[n] = links + row_offset(mid.link_before(j));
                rows.upper_link[n] = links + row_offset(mid.link_behind(j));
            }
        }
        const T* const slowest = (solid ? arrays.z : arrays.y) + across;
        rows.slow_link[0] = slowest + plane_offset(march.link_before(stage.first + begin));
        for (int64_t n = 0; n < COUNT; ++n) rows.slow_link[n + 1] = slowest + stage.link_offset[begin + n];
    }
    // A row of fixed nodes.
    __attribute__((noinline)) void keep_row(int64_t t, int64_t j, const Offsets& at, int64_t g) const {
        const Stage& stage = stages[t];
        T* const to = stage.to[g].row(at);
        const bool zero = t > task.count || from_zero(t);
        const T* const from = zero ? to : stage.from[g + 1].row(at);
        if (zero)
            std::fill_n(to, stage.columns.width, T(0));
        else if (stage.kept)
            std::copy_n(from, stage.columns.width, to);
        if (stage.result && owned(j, stage.first + g)) write_row(from - stage.columns.start, result_row(stage, at, g));
    }
    T* result_row(const Stage& stage, const Offsets& at, int64_t g) const {
        return task.out + stage.offset[g + 1] + at.of[MEMORY];
    }

    // ---- restriction

    // The coarse planes whose fine planes are all there now.
    __attribute__((noinline)) void restrict_planes() {
        const Grids<T>& grids = *task.restriction;
        const int64_t end = stages[last].planes.stop, there = std::min(base - last + group, end);
        for (; coarse_planes.start < coarse_planes.stop; ++coarse_planes.start) {
            const int64_t node = coarse_planes.start;
            const Span planes = slow(grids).around(node);
            if (std::min(planes.stop, end) > there) return;
            const T* from[Mix<T>::MOST];
            double weights[Mix<T>::MOST];
            for (int64_t p = planes.start; p < planes.stop; ++p) {
                from[p - planes.start] = residual_plane(march.seen(p)) - stride * first_line - first_column;
                weights[p - planes.start] = slow(grids).weight(p, node);
            }
            for (int64_t j = coarse_rows.start; j < coarse_rows.stop; ++j) {
                T* to = task.coarse_residual + (solid ? grids.coarse.row(j, node) : grids.coarse.row(node, 0));
                if (solid ? grids.fixed_row(j, node) : grids.fixed_row(node, 0)) {
                    std::fill(to + coarse_columns.start, to + coarse_columns.stop, T(0));
                    continue;
                }
                const Span across = solid ? grids.y.around(j) : Span{0, 1};
                Mix<T> mix;
                for (int64_t p = 0; p < planes.stop - planes.start; ++p)
                    for (int64_t row = across.start; row < across.stop; ++row)
                        mix.add(from[p] + stride * mid.seen(row), weights[p] * (solid ? grids.y.weight(row, j) : 1));
                restrict_row(mix, to - task.coarse_residual);
            }
        }
    }
    void restrict_row(const Mix<T>& mix, int64_t to) const {
        const Stretch& at = stages[last].columns;
        restrict_sum(*task.restriction, mix, at.start, at.width, at.begins, at.ends, task.coarse_residual, to,
                     coarse_columns, sums);
    }
};

}  // namespace

template <class T>
poisson_status take_passage(const Local<T>& a, const Passage<T>& task, const Steps<T>& steps, const Tiles& tiles,
                            int64_t work, double* result) {
    const Wavefront<T> any(a, task, steps, tiles);
    const int64_t count = tiles.count();
    double* partial = result ? partial_results(count) : nullptr;
    if (result && !partial) return POISSON_OUT_OF_MEMORY;
    const WorkingRows memory(count, any.workspace());
    if (!memory) return POISSON_OUT_OF_MEMORY;
    POISSON_THREADS(number, count, work, (), ()) {
        Wavefront<T> mine = any;
        double sum = 0, maximum = 0;
        mine.run(tiles.tile(number), memory.row<char>(number), sum, maximum);
        if (result) keep_pair(partial, number, count, sum, maximum, result);
        if (task.stream) store_fence();
    }
    if (result) join_partials(partial, count, result);
    return POISSON_SUCCESS;
}

template poisson_status take_passage<float>(const Local<float>&, const Passage<float>&, const Steps<float>&,
                                            const Tiles&, int64_t, double*);
template poisson_status take_passage<double>(const Local<double>&, const Passage<double>&, const Steps<double>&,
                                             const Tiles&, int64_t, double*);
