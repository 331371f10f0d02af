// SPDX-License-Identifier: MIT
// The graph of groups of nodes, and the one on aggregates of another's (poisson/discrete/contracted.py).
#include <algorithm>
#include <cmath>

#include "stencils/joined.h"
#include "stencils/neighbours.h"

namespace {

// The links of one node of a graph: those to the same node add up, in the order in which they come.
class Links {
public:
    explicit Links(int64_t count) : places(some<int32_t>(1, count)), entries(some<Entry>(1, count)) {
        if (places) std::fill_n(places.get(), count, -1);
    }
    explicit operator bool() const { return places && entries; }
    void add(int32_t column, double link) {
        int32_t& place = places[column];
        if (place < 0) {
            place = length;
            entries[length++] = {column, 0.0};
        }
        entries[place].link += link;
    }
    // Writes them with ascending columns, and forgets them; how many there were.
    int32_t write(int32_t* columns, double* links) {
        Entry* const first = entries.get();
        std::sort(first, first + length,
                  [](const Entry& one, const Entry& other) { return one.column < other.column; });
        for (int32_t n = 0; n < length; ++n) {
            columns[n] = first[n].column;
            links[n] = first[n].link;
            places[first[n].column] = -1;
        }
        const int32_t written = length;
        length = 0;
        return written;
    }

private:
    struct Entry {
        int32_t column;
        double link;
    };
    std::unique_ptr<int32_t[], Release> places;
    std::unique_ptr<Entry[], Release> entries;
    int32_t length = 0;
};

template <class C>
class Contraction {
public:
    Contraction(const poisson_stencil& s, int64_t groups, const int32_t* members, const int64_t* starts)
        : s(s), nodes(s.lattice), groups(groups), members(members), starts(starts), numbers(some<int32_t>(nodes)) {}
    explicit operator bool() const { return bool(numbers); }

    // The group of each node, or -1.
    void number_nodes() {
        const int64_t nx = nodes.x.nodes;
        POISSON_THREADS(number, nodes.rows(), nodes.count(), (), ()) {
            std::fill_n(numbers.get() + nx * number, nx, -1);
        }
        POISSON_THREADS(part, parts, nodes.count(), (), ()) {
            for (int64_t group = first_of(part); group < first_of(part + 1); ++group)
                for (int64_t n = starts[group]; n < starts[group + 1]; ++n) numbers[members[n]] = int32_t(group);
        }
    }

    // Whether there was memory for it.
    bool write(int32_t* entries, int32_t* columns, double* links, double* excess) {
        bool done = true;
        POISSON_THREADS(part, parts, nodes.count() * (1 + s.offsets), (), ()) {
            Links row(groups);
            int64_t place = room_of(part);
            if (!row) __atomic_store_n(&done, false, __ATOMIC_RELAXED);
            for (int64_t group = first_of(part); row && group < first_of(part + 1); ++group) {
                excess[group] = gather(int32_t(group), row);
                entries[group + 1] = row.write(columns + place, links + place);
                place += entries[group + 1];
            }
        }
        if (!done) return false;
        // Parts have written where there was room for all links, and follow one another now.
        for (int64_t group = 0; group < groups; ++group) entries[group + 1] += entries[group];
        for (int part = 1; part < parts; ++part) {
            const int64_t first = entries[first_of(part)], last = entries[first_of(part + 1)], from = room_of(part);
            std::copy(columns + from, columns + from + last - first, columns + first);
            std::copy(links + from, links + from + last - first, links + first);
        }
        return true;
    }

private:
    // The links of a group to others; its excess, with the links to nodes that are in none.
    double gather(int32_t group, Links& links) {
        const int64_t nx = nodes.x.nodes;
        Row<double, C> row;
        row.count = 0;
        double sum = 0;
        for (int64_t place = starts[group], before = -1; place < starts[group + 1]; ++place) {
            const int32_t number = members[place] / int32_t(nx), i = members[place] % int32_t(nx);
            if (number != before)
                row = row_at<double, C>(s, nodes, static_cast<const double*>(s.coefficients), number % nodes.y.nodes,
                                        number / nodes.y.nodes);
            before = number;
            double out = 0;
            for (int n = 0; n < row.count; ++n) {
                const Neighbour<double, C>& to = row.neighbours[n];
                const int64_t there = nodes.x.node(i + to.across);
                if (there < 0) continue;
                const double link = double(to.link[to.stored_there ? there - to.across : i]);
                const int32_t other = numbers[nx * row.rows[n] + there];
                if (link == 0 || other == group) continue;
                if (other < 0)
                    out += link;
                else
                    links.add(other, link);
            }
            sum += double(row.excess[i]) + out;
        }
        return sum;
    }
    // The groups of a part have about as many members as those of another.
    int64_t first_of(int64_t part) const {
        return std::lower_bound(starts, starts + groups, starts[groups] * part / parts) - starts;
    }
    int64_t room_of(int64_t part) const { return 2 * s.offsets * starts[first_of(part)]; }

    const poisson_stencil& s;
    const Nodes nodes;
    const int64_t groups;
    const int32_t* const members;
    const int64_t* const starts;
    const int parts = nodes.count() < SMALL_WORK ? 1 : team_size;
    std::unique_ptr<int32_t[], Release> numbers;
};

template <class C>
poisson_status contract(const poisson_stencil* s, int64_t groups, const int32_t* members, const int64_t* starts,
                        int32_t* entries, int32_t* columns, double* links, double* excess) {
    entries[0] = 0;
    if (groups == 0) return POISSON_SUCCESS;
    Contraction<C> contraction(*s, groups, members, starts);
    if (!contraction) return POISSON_OUT_OF_MEMORY;
    contraction.number_nodes();
    return contraction.write(entries, columns, links, excess) ? POISSON_SUCCESS : POISSON_OUT_OF_MEMORY;
}

struct Graph {
    int64_t nodes;
    const int32_t* starts;
    const int32_t* columns;
    const double* links;
    const double* excess;
};

constexpr double STRONG = 0.11;

// Aggregates of the nodes of a graph, which has few of them beside those of the grid: one thread makes them.
class Aggregates {
public:
    explicit Aggregates(const Graph& g)
        : g(g),
          order(some<int32_t>(1, g.nodes)),
          beside(some<int32_t>(1, std::max(1, g.starts[g.nodes]))),
          largest(some<double>(1, g.nodes)),
          joined(some<int32_t>(1, g.nodes)),
          aggregate(some<int32_t>(1, g.nodes)),
          near(some<uint8_t>(1, g.nodes)),
          row(g.nodes) {}
    explicit operator bool() const { return order && beside && largest && joined && aggregate && near && row; }

    // The aggregate of each node, from 1 on, or 0 for one without links; how many there are.
    int32_t find() {
        const auto mixed = [](int32_t n) { return uint64_t(n) * 0x9E3779B97F4A7C15u; };
        for (int32_t n = 0; n < g.nodes; ++n) order[n] = n;
        std::sort(order.get(), order.get() + g.nodes,
                  [&](int32_t one, int32_t other) { return mixed(one) > mixed(other); });
        find_strong();
        // A node is no root if it or a neighbour of it is one before it or beside one.
        std::fill_n(near.get(), g.nodes, 0);
        std::fill_n(joined.get(), g.nodes, 0);
        for (int64_t place = 0; place < g.nodes; ++place) {
            const int32_t n = order[place];
            bool free = !near[n] && g.starts[n] < g.starts[n + 1];
            for (int32_t entry = g.starts[n]; free && entry < g.starts[n + 1]; ++entry) free = !near[beside[entry]];
            if (!free) continue;
            joined[n] = near[n] = 1;
            for (int32_t entry = g.starts[n]; entry < g.starts[n + 1]; ++entry) near[beside[entry]] = 1;
        }
        int32_t count = 0;
        for (int32_t n = 0; n < g.nodes; ++n) aggregate[n] = joined[n] ? ++count : 0;
        for (int32_t n = 0; n < g.nodes; ++n)
            for (int32_t entry = g.starts[n]; joined[n] && entry < g.starts[n + 1]; ++entry)
                aggregate[beside[entry]] = aggregate[n];
        std::copy_n(aggregate.get(), g.nodes, joined.get());
        // The others follow the strongest link to a node that has joined a root, the last one of several.
        for (int32_t n = 0; n < g.nodes; ++n) {
            if (joined[n]) continue;
            double strongest = 0;
            for (int32_t entry = g.starts[n]; entry < g.starts[n + 1]; ++entry) {
                const double link = std::abs(g.links[entry]);
                if (!joined[beside[entry]] || link < strongest) continue;
                strongest = link;
                aggregate[n] = joined[beside[entry]];
            }
        }
        return count;
    }

    void write(int32_t count, int32_t* groups, int32_t* members, int32_t* starts, int32_t* columns, double* links,
               double* excess) {
        std::fill_n(groups, count + 1, 0);
        for (int32_t n = 0; n < g.nodes; ++n) groups[aggregate[n]] += aggregate[n] > 0;
        for (int32_t n = 0; n < count; ++n) groups[n + 1] += groups[n];
        for (int32_t n = 0; n < g.nodes; ++n)
            if (aggregate[n]) members[groups[aggregate[n] - 1]++] = n;
        // Each begins where the one before it has ended.
        std::copy_backward(groups, groups + count, groups + count + 1);
        groups[0] = starts[0] = 0;
        for (int32_t own = 1; own <= count; ++own) {
            double sum = 0;
            for (int32_t place = groups[own - 1]; place < groups[own]; ++place) {
                const int32_t n = members[place];
                sum += g.excess[n];
                for (int32_t entry = g.starts[n]; entry < g.starts[n + 1]; ++entry) {
                    const int32_t other = aggregate[g.columns[entry]];
                    if (other != own) row.add(other - 1, g.links[entry]);
                }
            }
            excess[own - 1] = sum;
            starts[own] = starts[own - 1] + row.write(columns + starts[own - 1], links + starts[own - 1]);
        }
    }

private:
    // Ends of strong links; others lead back to where they begin.
    void find_strong() {
        for (int32_t n = 0; n < g.nodes; ++n) {
            largest[n] = 0;
            for (int32_t entry = g.starts[n]; entry < g.starts[n + 1]; ++entry)
                largest[n] = std::max(largest[n], g.links[entry]);
        }
        for (int32_t n = 0; n < g.nodes; ++n)
            for (int32_t entry = g.starts[n]; entry < g.starts[n + 1]; ++entry) {
                const int32_t other = g.columns[entry];
                const bool strong = g.links[entry] * g.links[entry] > STRONG * STRONG * largest[n] * largest[other];
                beside[entry] = strong ? other : n;
            }
    }

    const Graph& g;
    std::unique_ptr<int32_t[], Release> order, beside;
    std::unique_ptr<double[], Release> largest;
    std::unique_ptr<int32_t[], Release> joined, aggregate;
    std::unique_ptr<uint8_t[], Release> near;
    Links row;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) poisson_status
poisson_contract_clusters(const poisson_stencil* s, int64_t groups, const int32_t* members, const int64_t* starts,
                          int32_t* entries, int32_t* columns, double* links, double* excess) {
    if (!s || !s->coefficients || s->offsets > MOST / 2 || groups < 0 || !members || !starts || !entries || !columns ||
        !links || !excess)
        return POISSON_BAD_ARGUMENT;
    use_threads(lattice_of(s));
    return s->single ? contract<float>(s, groups, members, starts, entries, columns, links, excess)
                     : contract<double>(s, groups, members, starts, entries, columns, links, excess);
}

extern "C" __attribute__((visibility("default"))) poisson_status
poisson_aggregate_graph(int64_t nodes, const int32_t* starts, const int32_t* columns, const double* links,
                        const double* excess, int32_t* groups, int32_t* members, int32_t* coarse_starts,
                        int32_t* coarse_columns, double* coarse_links, double* coarse_excess, int64_t* count) {
    if (nodes < 1 || !starts || !columns || !links || !excess || !groups || !members || !coarse_starts ||
        !coarse_columns || !coarse_links || !coarse_excess || !count)
        return POISSON_BAD_ARGUMENT;
    const Graph graph = {nodes, starts, columns, links, excess};
    Aggregates aggregates(graph);
    if (!aggregates) return POISSON_OUT_OF_MEMORY;
    const int32_t found = aggregates.find();
    aggregates.write(found, groups, members, coarse_starts, coarse_columns, coarse_links, coarse_excess);
    *count = found;
    return POISSON_SUCCESS;
}
