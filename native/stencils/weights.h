// SPDX-License-Identifier: MIT
// Both grids of a transfer by weights: which coarse nodes a fine one takes from, and where their weights are.
#ifndef POISSON_WEIGHTS_H
#define POISSON_WEIGHTS_H

#include "stencils/full.h"

// A weight in parts of 32768.
struct Part {
    uint16_t parts;

    static constexpr int32_t WHOLE = 32768;
    explicit operator float() const { return float(int32_t(parts)) * (1.0f / WHOLE); }
    explicit operator double() const { return double(int32_t(parts)) * (1.0 / WHOLE); }
};

// One axis of both grids.
struct Pair {
    Line fine, coarse;
    bool halved;

    Pair(const poisson_weighted& w, int axis)
        : fine(w.fine.lattice, axis), coarse(w.coarse.lattice, axis), halved(w.halved[axis]) {}
    // The fine node in a direction of a coarse one, or -1 where none lies between coarse ones there.
    int64_t beside(int64_t index, int64_t direction) const {
        if (!halved) return fine.node(index + direction);
        const bool seam = fine.wraps && fine.nodes % 2 == 1;
        if (seam && (direction > 0 ? index == coarse.nodes - 1 : direction < 0 && index == 0)) return -1;
        return 2 * index < fine.nodes ? fine.node(2 * index + direction) : -1;
    }
    // The coarse nodes that a fine one takes from, which may be images, and its directions from them: how many.
    int sources(int64_t index, int64_t (&from)[2], int (&direction)[2]) const {
        const int64_t turns = fine.wraps ? (index < 0 ? -1 : index >= fine.nodes ? 1 : 0) : 0;
        const int64_t here = index - turns * fine.nodes, image = turns * coarse.nodes;
        if (here < 0 || here >= fine.nodes) return 0;
        from[0] = image + (halved ? here / 2 : here);
        direction[0] = halved && here % 2;
        if (!direction[0]) return 1;
        from[1] = from[0] + 1;
        direction[1] = -1;
        return coarse.node(from[1]) < 0 ? 1 : 2;
    }
};

struct Pairs {
    Pair x, y, z;

    explicit Pairs(const poisson_weighted& w) : x(w, 0), y(w, 1), z(w, 2) {}
    static int reach(const Pair& pair) { return pair.halved ? 1 : 0; }
    // How many directions there are, and the number of one among their arrays: the middle, which has none, has -1.
    int directions() const { return span(x) * span(y) * span(z) - 1; }
    int number(int dx, int dy, int dz) const {
        const int place = ((dz + reach(z)) * span(y) + dy + reach(y)) * span(x) + dx + reach(x),
                  middle = directions() / 2;
        return place == middle ? -1 : place - (place > middle);
    }

private:
    static int span(const Pair& pair) { return pair.halved ? 3 : 1; }
};

#endif
