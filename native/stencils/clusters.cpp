// SPDX-License-Identifier: MIT
// The correction of strong clusters: each group of nodes gets the weighted sum of the residual there, times its factor.
#include <algorithm>

#include "stencils/full.h"

namespace {

// Nodes of which one thread makes a sum, so that a large group has those of many: the sums do not depend on the
// threads.
constexpr int64_t BLOCK = 8192;

// Nodes of a graph that a thread takes at once.
constexpr int64_t ROWS = 64;

// Links of a node that are worked on together.
constexpr int64_t LINKS = 4;

// Whether all control volumes but those of fixed nodes are the same.
bool has_one_width(const poisson_operator& a) {
    for (int face = 0; face < 2 * a.dimension; ++face)
        if (a.rule[face] == MIRROR) return false;
    return !a.widths;
}

template <class T>
class Groups {
public:
    Groups(const poisson_clusters* c, const T* r, T* u, bool one_width)
        : nodes(c->lattice), c(c), r(r), u(u), one_width(one_width) {}

    double sum(int64_t first, int64_t last) const {
        double total[4] = {};
        if (one_width) {
            int64_t n = first;
            for (; n + 4 <= last; n += 4)
                for (int lane = 0; lane < 4; ++lane) total[lane] += double(r[c->places[n + lane]]);
            for (; n < last; ++n) total[0] += double(r[c->places[n]]);
        } else {
            for (int64_t n = first; n < last; ++n) {
                const int64_t place = c->places[n], row = place / nodes.pitch;
                const double width = nodes.width_of_row(row % nodes.y.nodes, row / nodes.y.nodes);
                total[0] += width * nodes.width(place % nodes.pitch) * double(r[place]);
            }
        }
        return (total[0] + total[1]) + (total[2] + total[3]);
    }
    void add(int64_t first, int64_t last, T value) const {
        for (int64_t n = first; n < last; ++n) u[c->places[n]] += value;
    }

private:
    const Nodes nodes;
    const poisson_clusters* c;
    const T* r;
    T* u;
    const bool one_width;
};

// The first group from a place on.
int64_t first_from(const poisson_clusters* c, int64_t place) {
    int64_t low = 0, high = c->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (c->starts[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Calls small(n) for groups of at most BLOCK nodes, by the thread of the block in which the first node lies, and
// large(n, blocks, end_of) for each other one, whose nodes up to end_of(k) belong to its block k.
template <class Small, class Large>
void for_each_group(const poisson_clusters* c, const Small& small, const Large& large) {
    const int32_t* const starts = c->starts;
    const int64_t members = starts[c->count], blocks = (members + BLOCK - 1) / BLOCK;
    POISSON_THREADS(number, blocks, 4 * members, (), ()) {
        const int64_t end = first_from(c, (number + 1) * BLOCK);
        for (int64_t n = first_from(c, number * BLOCK); n < end; ++n)
            if (starts[n + 1] - starts[n] <= BLOCK) small(n);
    }
    for (int64_t n = 0; n < c->count; ++n) {
        const int64_t first = starts[n], size = starts[n + 1] - first, parts = (size + BLOCK - 1) / BLOCK;
        if (size > BLOCK)
            large(n, parts, [=](int64_t part) { return first + (part + 1 < parts ? (part + 1) * BLOCK : size); });
    }
}

// The sum of a large group, from those of its blocks in their order.
template <class T, class End>
double sum_of_blocks(const Groups<T>& groups, int64_t first, int64_t parts, const End& end_of, double* partial) {
    POISSON_THREADS(part, parts, 4 * BLOCK * parts, (), ()) {
        partial[2 * part] = groups.sum(first + part * BLOCK, end_of(part));
    }
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += partial[2 * part];
    return sum;
}

// Groups that have a cycle have nearly all nodes, which are gone through as they lie. The rows of a strip are added up
// by one thread, in places of the strip's own: one for each group that begins there, and behind these one for each
// guest, a group that reaches there from an earlier strip; the first guest gets what belongs to no group. A node has
// the number of its place.
template <class T>
class Strips {
public:
    Strips(const poisson_clusters* c, const T* r, T* u, bool one_width)
        : c(c), nodes(c->lattice), sums(c->values + c->first[c->levels]), r(r), u(u), one_width(one_width) {}

    void add_up() const {
        const int64_t teams = (c->strips + TOGETHER - 1) / TOGETHER;
        POISSON_THREADS(team, teams, 2 * nodes.count(), (), ()) { add_up_strips(team * TOGETHER); }
        for (int64_t strip = 0; strip < c->strips; ++strip) {
            const double* const own = sums + begin(strip);
            std::copy(own, own + owned(strip), c->values + c->firsts[strip]);
            for (int64_t guest = c->guests[strip]; guest < c->guests[strip + 1]; ++guest)
                if (c->hosts[guest] >= 0) c->values[c->hosts[guest]] += place_of(strip, guest);
        }
    }
    // The corrections have taken the places of the groups among the values.
    void spread() const {
        POISSON_THREADS(strip, c->strips, nodes.count(), (), ()) {
            const double* const found = c->values + c->firsts[strip];
            std::copy(found, found + owned(strip), sums + begin(strip));
            for (int64_t guest = c->guests[strip]; guest < c->guests[strip + 1]; ++guest)
                place_of(strip, guest) = c->hosts[guest] < 0 ? 0.0 : c->values[c->hosts[guest]];
            const double* const places = sums + begin(strip);
            for (int64_t row = strip * c->height; row < end_of(strip); ++row) {
                const uint16_t* const label = labels(row);
                T* const out = u + nodes.pitch * row;
                for (int64_t i = 0; i < nodes.x.nodes; ++i) out[i] += T(places[label[i]]);
            }
        }
    }

private:
    // Strips that a thread adds up at a time, because an addition to a sum waits for the one before it.
    static constexpr int TOGETHER = 4;

    int64_t begin(int64_t strip) const { return c->firsts[strip] + c->guests[strip]; }
    int64_t owned(int64_t strip) const { return c->firsts[strip + 1] - c->firsts[strip]; }
    int64_t end_of(int64_t strip) const { return std::min((strip + 1) * c->height, nodes.rows()); }
    double& place_of(int64_t strip, int64_t guest) const { return sums[c->firsts[strip + 1] + guest]; }
    const uint16_t* labels(int64_t row) const { return c->labels + nodes.x.nodes * row; }
    void add_up_strips(int64_t first) const {
        const int64_t last = std::min<int64_t>(first + TOGETHER, c->strips), nx = nodes.x.nodes;
        std::fill(sums + begin(first), sums + begin(last), 0.0);
        int64_t together = 0;
        if (one_width && last == first + TOGETHER) {
            together = end_of(last - 1) - (last - 1) * c->height;
            double *const one = sums + begin(first), *const two = sums + begin(first + 1),
                          *const three = sums + begin(first + 2), *const four = sums + begin(first + 3);
            const int64_t next = c->height * nx, step = c->height * nodes.pitch;
            for (int64_t height = 0; height < together; ++height) {
                const int64_t row = first * c->height + height;
                const uint16_t* const label = labels(row);
                const T* const from = r + nodes.pitch * row;
                for (int64_t i = 0; i < nx; ++i) {
                    one[label[i]] += double(from[i]);
                    two[label[i + next]] += double(from[i + step]);
                    three[label[i + 2 * next]] += double(from[i + 2 * step]);
                    four[label[i + 3 * next]] += double(from[i + 3 * step]);
                }
            }
        }
        for (int64_t strip = first; strip < last; ++strip) {
            double* const places = sums + begin(strip);
            for (int64_t row = strip * c->height + together; row < end_of(strip); ++row) {
                const double width = one_width ? 1.0 : nodes.width_of_row(row % nodes.y.nodes, row / nodes.y.nodes);
                const uint16_t* const label = labels(row);
                const T* const from = r + nodes.pitch * row;
                for (int64_t i = 0; i < nx; ++i)
                    places[label[i]] += (one_width ? width : width * nodes.width(i)) * double(from[i]);
            }
        }
    }

    const poisson_clusters* c;
    const Nodes nodes;
    double* const sums;
    const T* r;
    T* u;
    const bool one_width;
};

// The cycle on the graphs of the groups: f are the sums of the groups, and at the end their corrections.
class Cycle {
public:
    explicit Cycle(const poisson_clusters* c)
        : c(c), nodes(c->first[c->levels]), last(c->levels - 1), f(c->values), x(f + nodes), found(x + nodes) {}

    void run() const {
        visit(0, false);
        std::copy(found, found + c->first[1], f);
    }

private:
    // What a graph has for its f, from zero, or from what an earlier visit has found.
    void visit(int64_t level, bool again) const {
        if (level == last && c->inverse) return solve();
        if (again)
            sweep(level, found, x);
        else
            for_each(level, [&](int64_t n) { x[n] = double(c->sweeps[n]) * f[n]; });
        if (level < last) {
            // Members are far apart, and links would come from memory one by one.
            for_each(level, [&](int64_t n) { found[n] = left(n, x); });
            for_each(level + 1, [&](int64_t aggregate) {
                double sum = 0;
                for_each_member(aggregate, [&](int64_t n) { sum += found[n]; });
                f[aggregate] = sum;
            });
            for (int number = 0; number < c->visits[level + 1]; ++number) visit(level + 1, number > 0);
            for_each(level + 1, [&](int64_t aggregate) {
                for_each_member(aggregate, [&](int64_t n) { x[n] += found[aggregate]; });
            });
        }
        sweep(level, x, found);
    }
    void sweep(int64_t level, const double* from, double* to) const {
        for_each(level, [&](int64_t n) { to[n] = from[n] + double(c->sweeps[n]) * left(n, from); });
    }
    void solve() const {
        const int64_t first = c->first[last], count = nodes - first;
        for (int64_t n = 0; n < count; ++n) {
            double sum = 0;
            for (int64_t other = 0; other < count; ++other) sum += c->inverse[n * count + other] * f[first + other];
            found[first + n] = sum;
        }
    }
    // f - G x.
    double left(int64_t n, const double* x) const {
        double flows[LINKS] = {};
        const double own = x[n];
        for (int64_t entry = LINKS * c->entries[n]; entry < LINKS * c->entries[n + 1]; entry += LINKS)
            for (int64_t lane = 0; lane < LINKS; ++lane)
                flows[lane] += double(c->links[entry + lane]) * (own - x[c->columns[entry + lane]]);
        return f[n] - double(c->excess[n]) * own - ((flows[0] + flows[1]) + (flows[2] + flows[3]));
    }
    template <class Visit>
    void for_each_member(int64_t aggregate, const Visit& visit) const {
        const int32_t* const group = c->groups + (aggregate - c->first[1]);
        for (int64_t place = group[0]; place < group[1]; ++place) visit(c->members[place]);
    }
    template <class Visit>
    void for_each(int64_t level, const Visit& visit) const {
        const int64_t first = c->first[level], last = c->first[level + 1], blocks = (last - first + ROWS - 1) / ROWS;
        const int64_t work = 4 * LINKS * (c->entries[last] - c->entries[first]);
        POISSON_THREADS(block, blocks, work, (), ()) {
            const int64_t stop = std::min(last, first + (block + 1) * ROWS);
            for (int64_t n = first + block * ROWS; n < stop; ++n) visit(n);
        }
    }

    const poisson_clusters* c;
    const int64_t nodes, last;
    double *const f, *const x, *const found;
};

template <class T>
poisson_status correct(const poisson_clusters* c, const T* r, T* u) {
    if (!c || !r || !u) return POISSON_BAD_ARGUMENT;
    if (c->count == 0) return POISSON_SUCCESS;
    if (c->levels) {
        if (!c->labels || !c->hosts || !c->values) return POISSON_BAD_ARGUMENT;
        const Strips<T> strips(c, r, u, has_one_width(c->lattice));
        strips.add_up();
        Cycle(c).run();
        strips.spread();
        return POISSON_SUCCESS;
    }
    if (!c->places || !c->starts || !c->factors) return POISSON_BAD_ARGUMENT;
    const Groups<T> groups(c, r, u, has_one_width(c->lattice));
    const int32_t* const starts = c->starts;
    double* const partial = partial_results(starts[c->count] / BLOCK + 1);
    if (!partial) return POISSON_OUT_OF_MEMORY;
    for_each_group(
        c,
        [&](int64_t n) {
            groups.add(starts[n], starts[n + 1], T(c->factors[n] * groups.sum(starts[n], starts[n + 1])));
        },
        [&](int64_t n, int64_t parts, const auto& end_of) {
            const T value = T(c->factors[n] * sum_of_blocks(groups, starts[n], parts, end_of, partial));
            POISSON_THREADS(part, parts, 4 * BLOCK * parts, (), ()) {
                groups.add(starts[n] + part * BLOCK, end_of(part), value);
            }
        });
    return POISSON_SUCCESS;
}

}  // namespace

POISSON_EXPORT(correct_clusters, (const poisson_clusters* c, const real* r, real* u), lattice_of(c), correct(c, r, u))
