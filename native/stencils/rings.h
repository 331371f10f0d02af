// SPDX-License-Identifier: MIT
// The rows of both grids around a row of coarse nodes, in double precision, laid out so that what belongs to one coarse
// node after the other lies side by side; beyond the ends of a row are images, or zeros.
#ifndef POISSON_RINGS_H
#define POISSON_RINGS_H

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "stencils/weights.h"

// Numbers of the kinds that weights have. Which one it is costs nothing beside what is done with a row of them.
struct Numbers {
    const void* all;
    int32_t kind;

    Numbers from(int64_t first) const {
        if (kind == 2) return {static_cast<const Part*>(all) + first, kind};
        if (kind) return {static_cast<const float*>(all) + first, kind};
        return {static_cast<const double*>(all) + first, kind};
    }
    double operator[](int64_t i) const {
        if (kind == 2) return double(static_cast<const Part*>(all)[i]);
        return kind ? double(static_cast<const float*>(all)[i]) : static_cast<const double*>(all)[i];
    }
};

// From a coarse node to a fine one beside it: at most 2 fine nodes along each axis.
struct Step {
    int x, y, z;
};

// Rows that stay from one coarse row to the next: SIDE of them along y and z, each with `arrays` of `length` values.
template <int SIDE>
class Ring {
public:
    // Values before the first of an array.
    static constexpr int64_t GHOSTS = LANES;

    Ring(int64_t arrays, int64_t nodes) : length((nodes + LANES - 1) / LANES * LANES + 2 * GHOSTS), arrays_(arrays) {
        memory.reset(static_cast<double*>(std::calloc((SIDE * SIDE + 1) * arrays * length, sizeof(double))));
        std::fill(held, held + SIDE * SIDE, -2);
    }
    explicit operator bool() const { return bool(memory); }
    // The row that belongs at these places of the axes, which count on where an axis wraps; fill(row) is called if it
    // is not there. `number` tells rows apart.
    template <class Fill>
    const double* at(int64_t y, int64_t z, int64_t number, Fill fill) {
        const int64_t slot = part(y) + SIDE * part(z);
        double* const row = place(slot);
        if (held[slot] != number) fill(row);
        held[slot] = number;
        return row;
    }
    // A row of zeros.
    const double* none() const { return place(SIDE * SIDE); }
    const int64_t length;

private:
    static int64_t part(int64_t place) { return (place % SIDE + SIDE) % SIDE; }
    double* place(int64_t slot) const { return memory.get() + slot * arrays_ * length + GHOSTS; }
    struct Free {
        void operator()(double* memory) const { std::free(memory); }
    };
    std::unique_ptr<double[], Free> memory;
    int64_t arrays_, held[SIDE * SIDE];
};

// Copies values(i) of a row of fine nodes: to every coarse node those at it, and behind these those above it.
template <class Values>
inline void lay_out(const Pair& x, int64_t length, double* to, Values values) {
    const int64_t stop = x.coarse.nodes + 1, n = x.fine.nodes;
    const auto at = [&](int64_t index) {
        const int64_t node = x.fine.node(index);
        return node < 0 ? 0.0 : values(node);
    };
    if (!x.halved) {
        for (int64_t i = 0; i < n; ++i) to[i] = values(i);
        to[-1] = at(-1);
        to[n] = at(n);
        return;
    }
    const int64_t inner = n / 2;
    double* const above = to + length;
    for (int64_t i = 0; i < inner; ++i) {
        to[i] = values(2 * i);
        above[i] = values(2 * i + 1);
    }
    for (int64_t i = inner; i < stop; ++i) {
        to[i] = at(2 * i);
        above[i] = at(2 * i + 1);
    }
    to[-1] = at(-2);
    above[-1] = at(-1);
}

// The fine rows around coarse ones: the excess, the links to each offset, whether a node is free, and the row sums of
// P.
class FineRows {
public:
    enum { EXCESS = 0, LINKS = 1 };

    FineRows(const poisson_weighted& w, const Pairs& pairs, bool sums)
        : w(w),
          pairs(pairs),
          nodes(w.fine.lattice),
          coarse(w.coarse.lattice),
          links(w.fine.offsets),
          ring(2 * (3 + w.fine.offsets), pairs.x.coarse.nodes),
          row_sums(sums ? static_cast<double*>(std::calloc(nodes.pitch + coarse.pitch, sizeof(double))) : nullptr) {}
    ~FineRows() { std::free(row_sums); }
    FineRows(const FineRows&) = delete;
    FineRows& operator=(const FineRows&) = delete;
    explicit operator bool() const { return bool(ring); }
    int64_t free() const { return LINKS + links; }
    int64_t sums() const { return free() + 1; }
    // Where the values of an array at a fine node lie in its row, for the first coarse node.
    int64_t place(int64_t array, int x) const {
        if (!pairs.x.halved) return 2 * array * ring.length + x;
        return (2 * array + (x & 1)) * ring.length + (x - (x & 1)) / 2;
    }
    // The rows around a coarse row.
    void go_to(int64_t j, int64_t k) {
        const int reach_y = pairs.y.halved ? 2 : pairs.y.fine.nodes > 1,
                  reach_z = pairs.z.halved ? 2 : pairs.z.fine.nodes > 1;
        const int64_t y = pairs.y.halved ? 2 * j : j, z = pairs.z.halved ? 2 * k : k;
        for (int dz = -reach_z; dz <= reach_z; ++dz) {
            for (int dy = -reach_y; dy <= reach_y; ++dy) {
                const int64_t fj = pairs.y.fine.node(y + dy), fk = pairs.z.fine.node(z + dz);
                const bool there = fj >= 0 && fk >= 0;
                base[dz + 2][dy + 2] = there ? ring.at(y + dy, z + dz, fj + pairs.y.fine.nodes * fk,
                                                       [&](double* row) { fill(row, fj, fk); })
                                             : ring.none();
            }
        }
    }
    const double* at(int64_t array, const Step& step) const {
        return base[step.z + 2][step.y + 2] + place(array, step.x);
    }
    const double* none() const { return ring.none(); }

private:
    void fill(double* row, int64_t j, int64_t k) {
        const Numbers from = Numbers{w.fine.coefficients, w.fine.single != 0}.from(nodes.row(j, k));
        for (int64_t array = 0; array <= links; ++array) {
            const Numbers values = from.from(array * nodes.values());
            lay_out(pairs.x, ring.length, row + 2 * array * ring.length, [=](int64_t i) { return values[i]; });
        }
        const bool free_row = nodes.free(j, k);
        lay_out(pairs.x, ring.length, row + 2 * free() * ring.length,
                [&](int64_t i) { return free_row && nodes.x.free(i) ? 1.0 : 0.0; });
        if (!row_sums) return;
        add_up(j, k);
        lay_out(pairs.x, ring.length, row + 2 * sums() * ring.length, [&](int64_t i) { return row_sums[i]; });
    }
    // The row sums of P at the nodes of a row.
    void add_up(int64_t j, int64_t k) {
        std::fill(row_sums, row_sums + nodes.x.nodes, 0.0);
        int64_t from_y[2], from_z[2];
        int dy[2], dz[2];
        const int along_y = pairs.y.sources(j, from_y, dy), along_z = pairs.z.sources(k, from_z, dz);
        const int64_t nx = coarse.x.nodes, stride = pairs.x.halved ? 2 : 1;
        for (int m = 0; m < along_z; ++m) {
            for (int n = 0; n < along_y; ++n) {
                const int64_t row = coarse.row(from_y[n], from_z[m]);
                if (row < 0) continue;
                for (int dx = -Pairs::reach(pairs.x); dx <= Pairs::reach(pairs.x); ++dx) {
                    const int number = pairs.number(dx, dy[n], dz[m]);
                    const Numbers weights =
                        Numbers{w.weights, w.kind}.from((number < 0 ? 0 : number) * coarse.values() + row);
                    const bool free_row = coarse.free(coarse.y.node(from_y[n]), coarse.z.node(from_z[m]));
                    const auto weight = [&](int64_t i) {
                        return number < 0 ? double(free_row && coarse.x.free(i)) : weights[i];
                    };
                    // The last one may have no node of the fine grid there.
                    int64_t start = dx < 0 ? 1 : 0, stop = nx - 1;
                    if (dx < 0 && nx > 0) add_sum(pairs.x.beside(0, dx), weight(0));
                    for (int64_t i = start; i < stop; ++i) row_sums[stride * i + dx] += weight(i);
                    if (stop >= start) add_sum(pairs.x.beside(stop, dx), weight(stop));
                }
            }
        }
    }
    void add_sum(int64_t node, double weight) {
        if (node >= 0) row_sums[node] += weight;
    }

    const poisson_weighted& w;
    const Pairs& pairs;
    const Nodes nodes, coarse;
    const int64_t links;
    Ring<5> ring;
    double* row_sums;
    const double* base[5][5];
};

// The weights of the coarse rows around one of them; in the middle of the directions whether a node is free.
class WeightRows {
public:
    WeightRows(const poisson_weighted& w, const Pairs& pairs)
        : w(w), pairs(pairs), nodes(w.coarse.lattice), ring(pairs.directions() + 1, nodes.x.nodes) {}
    explicit operator bool() const { return bool(ring); }
    void go_to(int64_t j, int64_t k) {
        const int reach_y = pairs.y.fine.nodes > 1, reach_z = pairs.z.fine.nodes > 1;
        for (int dz = -reach_z; dz <= reach_z; ++dz) {
            for (int dy = -reach_y; dy <= reach_y; ++dy) {
                const int64_t row = nodes.row(j + dy, k + dz);
                base[dz + 1][dy + 1] =
                    row < 0 ? ring.none()
                            : ring.at(
                                  j + dy, k + dz, row,
                                  [&](double* to) {
                                      fill(to, row, nodes.free(nodes.y.node(j + dy), nodes.z.node(k + dz)));
                                  });
            }
        }
    }
    // The weights, in a direction, of the coarse nodes in a direction of the row's.
    const double* at(const Step& from, const Step& direction) const {
        const int number = pairs.number(direction.x, direction.y, direction.z);
        return base[from.z + 1][from.y + 1] + (number + 1) * ring.length + from.x;
    }
    const double* none() const { return ring.none(); }

private:
    void fill(double* to, int64_t row, bool free_row) const {
        const int64_t nx = nodes.x.nodes;
        for (int number = -1; number < pairs.directions(); ++number) {
            double* const values = to + (number + 1) * ring.length;
            const Numbers weights = Numbers{w.weights, w.kind}.from(number * nodes.values() + row);
            for (int64_t i = 0; i < nx; ++i) values[i] = number < 0 ? double(free_row && nodes.x.free(i)) : weights[i];
            values[-1] = nodes.x.wraps ? values[nx - 1] : 0.0;
            values[nx] = nodes.x.wraps ? values[0] : 0.0;
        }
    }
    const poisson_weighted& w;
    const Pairs& pairs;
    const Nodes nodes;
    Ring<3> ring;
    const double* base[3][3];
};

#endif
