// SPDX-License-Identifier: MIT
// The full stencil of an operator of links (poisson/discrete/full_stencil.py: star).
#include <algorithm>
#include <memory>

#include "stencils/full.h"

namespace {

// Of each axis a row of the flows to the next nodes, one of the control widths and one of the flows to walls.
struct Along {
    const double *flows, *widths, *walls;
    const int32_t *below, *above;  // the links whose mean leads to a wall; null without any

    Along(const double* tables, const int32_t* numbers, int64_t nodes)
        : flows(tables),
          widths(tables + nodes),
          walls(tables + 2 * nodes),
          below(numbers),
          above(numbers ? numbers + nodes : nullptr) {}
};

// Where the neighbours of a node along an axis lie, counted from its own place, and whether there are any.
struct Steps {
    int64_t above, below;
    bool has_above, has_below;

    Steps(const Line& line, int64_t at, int64_t stride)
        : above(line.node(at + 1)), below(line.node(at - 1)), has_above(above >= 0), has_below(below >= 0) {
        above = has_above ? stride * (above - at) : 0;
        below = has_below ? stride * (below - at) : 0;
    }
};

template <class T, class C>
class Star {
public:
    Star(const poisson_operator& a, bool masked, const Along (&along)[3], C* out)
        : a(a), nodes(a), masked(masked), c(static_cast<const T*>(a.c_values)), along(along), out(out) {}

    void write() {
        POISSON_THREADS(number, nodes.rows(), nodes.count() * 8, (), ()) {
            write_row(number % nodes.y.nodes, number / nodes.y.nodes);
        }
    }

private:
    void write_row(int64_t j, int64_t k) {
        const int64_t nx = nodes.x.nodes, row = nodes.row(j, k);
        const bool three = a.dimension == 3;
        const std::unique_ptr<double[]> excess(new double[nx]);
        const double y = along[1].widths[j], z = three ? along[2].widths[k] : 1.0, between = three ? y : 1.0;
        const double* const x = along[0].widths;
        const double slowest = three ? z : y;
#pragma omp simd
        for (int64_t i = 0; i < nx; ++i)
            excess[i] = slowest * (x[i] * between) * (c ? std::max(double(c[row + i]), 0.0) : a.c);
        C* link = out + row;
        if (nodes.x.nodes > 1) link += nodes.values();
        C* const first = nodes.x.nodes > 1 ? link : nullptr;
        for (int64_t i : {int64_t(0), nx - 1}) along_x(first, excess.get(), row, i, i + 1, y * z);
        along_x(first, excess.get(), row, 1, nx - 1, y * z);
        for (int axis = 1; axis < a.dimension; ++axis) {
            const Line& line = axis == 1 ? nodes.y : nodes.z;
            const Along& own = along[axis];
            const int64_t at = axis == 1 ? j : k, stride = axis == 1 ? nodes.pitch : nodes.pitch * nodes.y.nodes;
            const Steps to(line, at, stride);
            if (line.nodes > 1) link += nodes.values();
            C* const here = line.nodes > 1 ? link : nullptr;
            const double beside = axis == 1 ? z : y, below = to.has_below ? own.flows[line.node(at - 1)] : 0.0;
            const auto visit = [&](int64_t i) {
                const Walls walls =
                    own.below ? Walls{own.walls[at], stride * (own.below[at] - at), stride * (own.above[at] - at)}
                              : Walls{};
                at_node(here, excess.get(), links_of(axis), row, i, own.flows[at], below, x[i] * beside, to, walls);
            };
#pragma omp simd
            for (int64_t i = 0; i < nx; ++i) visit(i);
        }
        C* const to_excess = out + row;
#pragma omp simd
        for (int64_t i = 0; i < nx; ++i) to_excess[i] = masked && c[row + i] < 0 ? C(0) : C(excess[i]);
    }

    // The nodes [first, last) of a row, which have neighbours at the same distances.
    void along_x(C* link, double* excess, int64_t row, int64_t first, int64_t last, double others) {
        if (first >= last) return;
        const Along& own = along[0];
        const Steps to(nodes.x, first, 1);
        const T* const links = links_of(0);
#pragma omp simd
        for (int64_t i = first; i < last; ++i) {
            const Walls walls = own.below ? Walls{own.walls[i], own.below[i] - i, own.above[i] - i} : Walls{};
            const double below = to.has_below ? own.flows[i + to.below] : 0.0;
            at_node(link, excess, links, row, i, own.flows[i], below, others, to, walls);
        }
    }

    // The flow to a wall, and where the links are whose mean leads there.
    struct Walls {
        double flow;
        int64_t below, above;
    };

    // flow, below: of the links to the next node and from the one before, before `others` and the links themselves.
    POISSON_INLINE void at_node(C* link, double* excess, const T* links, int64_t row, int64_t i, double flow,
                                double below, double others, const Steps& to, const Walls& walls) const {
        const int64_t n = row + i;
        double up = flow * others, down = below * others, wall = walls.flow * others;
        if (links) {
            up *= double(links[n]);
            down *= double(links[n + to.below]);
            wall *= (double(links[n + walls.below]) + double(links[n + walls.above])) / 2.0;
        }
        if (masked) {
            const bool above_held = to.has_above && c[n + to.above] < 0,
                       below_held = to.has_below && c[n + to.below] < 0;
            wall += (above_held ? up : 0.0) + (below_held ? down : 0.0);
            if (above_held || c[n] < 0) up = 0;
        }
        if (link) link[i] = C(up);
        excess[i] += wall;
    }

    const T* links_of(int axis) const { return static_cast<const T*>(a.a[axis]); }

    const poisson_operator& a;
    const Nodes nodes;
    const bool masked;
    const T* const c;
    const Along (&along)[3];
    C* const out;
};

template <class T>
void write(const poisson_operator& a, bool masked, const Along (&along)[3], bool single, void* out) {
    if (single)
        Star<T, float>(a, masked, along, static_cast<float*>(out)).write();
    else
        Star<T, double>(a, masked, along, static_cast<double*>(out)).write();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status poisson_star(const poisson_operator* a, int32_t single,
                                                                              int32_t masked,
                                                                              const double* const* tables,
                                                                              const int32_t* const* numbers,
                                                                              int32_t of_single, void* out) {
    if (!a || !tables || !numbers || !out || (masked && !a->c_values)) return POISSON_BAD_ARGUMENT;
    use_threads(a);
    const Along along[3] = {{tables[0], numbers[0], a->shape[0]},
                            {tables[1], numbers[1], a->shape[1]},
                            {tables[2], numbers[2], a->shape[2]}};
    if (single)
        write<float>(*a, masked, along, of_single, out);
    else
        write<double>(*a, masked, along, of_single, out);
    return POISSON_SUCCESS;
}
