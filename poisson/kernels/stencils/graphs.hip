// SPDX-License-Identifier: MIT
// Graphs of clusters: aggregates of their nodes, tables of a cycle on them, and the cycle;
// poisson/discrete/contracted.py has what they are.
//
// A graph has the links of each node from `starts` on, with the nodes at their other ends in `columns`, ascending, and
// those at which they stand in `rows`. Sums have the same bits at every run.
//
// Options: ROW_TEAM (lanes of a node in the cycle).

#ifndef ROW_TEAM
#define ROW_TEAM 4
#endif

// No node has a number.
KERNEL poisson_graph_none(int* __restrict__ numbers, int nodes) {
    const index_t node = NUMBER_OF_THREAD;
    if (node < nodes) numbers[node] = -1;
}

// ---- from entries to a graph: a key has the row of an entry in the upper half, and its column

// The places in sorted keys at which one first comes.
KERNEL poisson_graph_heads(const index_t* __restrict__ keys, index_t count, index_t* heads, count_t* length) {
    const index_t at = NUMBER_OF_THREAD;
    const bool is_head = at < count && keys[at] != NO_KEY && (at == 0 || keys[at] != keys[at - 1]);
    append(is_head, at, heads, length);
}

// The entries of a graph, from sorted keys and their heads.
KERNEL poisson_graph_rows(const index_t* __restrict__ keys, const index_t* __restrict__ heads, int entries, int nodes,
                          int* __restrict__ starts, int* __restrict__ rows, int* __restrict__ columns) {
    const index_t at = NUMBER_OF_THREAD;
    if (at > entries) return;
    const index_t key = at < entries ? keys[heads[at]] : 0;
    const int row = at < entries ? (int)(key >> 32) : nodes, before = at > 0 ? (int)(keys[heads[at - 1]] >> 32) : -1;
    for (int node = before + 1; node <= row; ++node) starts[node] = (int)at;
    if (at == entries) return;
    rows[at] = row;
    columns[at] = (int)(key & 0xffffffff);
}

// ---- aggregates: roots have no neighbour in common, and every node with a link joins one near it; `beside` are the
// ends of strong links

#define STRONG 0.11
#define ROOT 0xffffffffffffffffull

// The largest link of each node.
KERNEL poisson_graph_largest(const int* __restrict__ starts, const double* __restrict__ links, int nodes,
                             double* __restrict__ largest) {
    const index_t node = NUMBER_OF_THREAD;
    if (node >= nodes) return;
    double found = 0;
    for (int entry = starts[node]; entry < starts[node + 1]; ++entry)
        found = links[entry] > found ? links[entry] : found;
    largest[node] = found;
}

// The ends of strong links; others lead back to where they begin.
KERNEL poisson_graph_beside(const int* __restrict__ rows, const int* __restrict__ columns,
                            const double* __restrict__ links, const double* __restrict__ largest, int entries,
                            int* __restrict__ beside) {
    const index_t at = NUMBER_OF_THREAD;
    if (at >= entries) return;
    const int own = rows[at], other = columns[at];
    beside[at] = links[at] * links[at] > STRONG * STRONG * largest[own] * largest[other] ? other : own;
}

// Adds how many threads count to a number. Every thread of the block must call it.
__device__ __forceinline__ void count(bool counts, count_t* number) {
    __shared__ double slot[2];
    reduce_block(counts, 0, slot);
    if (threadIdx.x + threadIdx.y == 0 && slot[0] > 0) atomicAdd(number, (count_t)slot[0]);
}

// The numbers of nodes in an order that has nothing to do with the grid; 0 for those without links. linked: how many
// have some.
KERNEL poisson_graph_begin(const int* __restrict__ starts, count_t* __restrict__ ranks, int nodes, count_t* linked) {
    const index_t node = NUMBER_OF_THREAD;
    const bool has_links = node < nodes && starts[node] < starts[node + 1];
    if (node < nodes) ranks[node] = has_links ? (count_t)node * 0x9e3779b97f4a7c15ull + 1 : 0;
    count(has_links, linked);
}

__device__ __forceinline__ count_t largest_near(const count_t* __restrict__ values, index_t node,
                                                const int* __restrict__ starts, const int* __restrict__ beside) {
    count_t largest = values[node];
    for (int entry = starts[node]; entry < starts[node + 1]; ++entry) {
        const count_t value = values[beside[entry]];
        largest = value > largest ? value : largest;
    }
    return largest;
}

KERNEL poisson_graph_near(const count_t* __restrict__ ranks, count_t* __restrict__ near, const int* __restrict__ starts,
                          const int* __restrict__ beside, int nodes) {
    const index_t node = NUMBER_OF_THREAD;
    if (node < nodes) near[node] = largest_near(ranks, node, starts, beside);
}

// A free node is left without a rank where a root is near it, and becomes a root where no other free one has a larger
// rank. counts: the roots, and all nodes that are no longer free.
KERNEL poisson_graph_choose(count_t* __restrict__ ranks, const count_t* __restrict__ near,
                            const int* __restrict__ starts, const int* __restrict__ beside, int nodes, int* roots,
                            count_t* counts) {
    const index_t node = NUMBER_OF_THREAD;
    const count_t rank = node < nodes ? ranks[node] : 0;
    const bool free = rank != 0 && rank != ROOT;
    const count_t largest = free ? largest_near(near, node, starts, beside) : 0;
    const bool is_root = free && largest == rank, covered = free && largest == ROOT;
    if (is_root || covered) ranks[node] = is_root ? ROOT : 0;
    append(is_root, (int)node, roots, counts);
    count(is_root || covered, counts + 1);
}

// Each root and its neighbours have its number.
KERNEL poisson_graph_join(const int* __restrict__ roots, int aggregates, const int* __restrict__ starts,
                          const int* __restrict__ beside, int* __restrict__ joined) {
    const index_t number = NUMBER_OF_THREAD;
    if (number >= aggregates) return;
    const int root = roots[number];
    joined[root] = (int)number;
    for (int entry = starts[root]; entry < starts[root + 1]; ++entry) joined[beside[entry]] = (int)number;
}

// The others follow the strongest link to one that has joined, the last one of several. Keys have the aggregate of each
// node in the upper half, and the node.
KERNEL poisson_graph_follow(const int* __restrict__ joined, const int* __restrict__ starts,
                            const int* __restrict__ beside, const double* __restrict__ links, int nodes,
                            int* __restrict__ aggregates, index_t* __restrict__ keys) {
    const index_t node = NUMBER_OF_THREAD;
    if (node >= nodes) return;
    int own = joined[node];
    double strongest = 0;
    for (int entry = starts[node]; joined[node] < 0 && entry < starts[node + 1]; ++entry) {
        const int other = joined[beside[entry]];
        if (other < 0 || fabs(links[entry]) < strongest) continue;
        strongest = fabs(links[entry]);
        own = other;
    }
    aggregates[node] = own;
    keys[node] = own < 0 ? NO_KEY : (index_t)own << 32 | node;
}

// The members of each aggregate, from the sorted keys of so many nodes.
KERNEL poisson_graph_members(const index_t* __restrict__ keys, int nodes, int* __restrict__ members,
                             int* __restrict__ groups) {
    const index_t at = NUMBER_OF_THREAD;
    if (at > nodes) return;
    const int before = at > 0 ? (int)(keys[at - 1] >> 32) : -1;
    const int own = at < nodes ? (int)(keys[at] >> 32) : before + 1;
    if (own != before) groups[own] = (int)at;
    if (at < nodes) members[at] = (int)(keys[at] & 0xffffffff);
}

// The keys of the links between aggregates.
KERNEL poisson_graph_entries(const int* __restrict__ aggregates, const int* __restrict__ rows,
                             const int* __restrict__ columns, int entries, index_t* __restrict__ keys) {
    const index_t at = NUMBER_OF_THREAD;
    if (at >= entries) return;
    const int own = aggregates[rows[at]], other = aggregates[columns[at]];
    keys[at] = own == other ? NO_KEY : (index_t)own << 32 | other;
}

// The links between aggregates, each a sum over the members of that one which has fewer, and the excess of each.
KERNEL poisson_graph_links(const int* __restrict__ groups, const int* __restrict__ members,
                           const int* __restrict__ aggregates, const int* __restrict__ starts,
                           const int* __restrict__ columns, const double* __restrict__ links,
                           const double* __restrict__ excess, const int* __restrict__ coarse_rows,
                           const int* __restrict__ coarse_columns, int entries, int nodes, double* __restrict__ sums,
                           double* __restrict__ coarse_excess) {
    const index_t at = NUMBER_OF_THREAD;
    if (at < nodes) {
        double sum = 0;
        for (int place = groups[at]; place < groups[at + 1]; ++place) sum += excess[members[place]];
        coarse_excess[at] = sum;
    }
    if (at >= entries) return;
    int one = coarse_rows[at], other = coarse_columns[at];
    const int own = groups[one + 1] - groups[one], beyond = groups[other + 1] - groups[other];
    if (beyond < own || (beyond == own && other < one)) {
        const int swapped = one;
        one = other;
        other = swapped;
    }
    double sum = 0;
    for (int place = groups[one]; place < groups[one + 1]; ++place) {
        const int member = members[place];
        for (int entry = starts[member]; entry < starts[member + 1]; ++entry)
            if (aggregates[columns[entry]] == other) sum += links[entry];
    }
    sums[at] = sum;
}

// ---- the cycle: its nodes have numbers one graph after the other

// The tables of a graph among those of all, with its first node, its first entry and its first member there.
KERNEL poisson_graph_table(const int* __restrict__ starts, const int* __restrict__ columns,
                           const double* __restrict__ links, const double* __restrict__ excess,
                           const int* __restrict__ groups, const int* __restrict__ members, int nodes, int aggregates,
                           int linked, double omega, int first_node, int first_entry, int first_aggregate,
                           int first_member, int* __restrict__ all_starts, int* __restrict__ all_columns,
                           float* __restrict__ all_links, float* __restrict__ all_excess,
                           float* __restrict__ all_sweeps, int* __restrict__ all_groups,
                           int* __restrict__ all_members) {
    const index_t at = NUMBER_OF_THREAD;
    if (at > nodes) return;
    all_starts[first_node + at] = first_entry + starts[at];
    if (at <= aggregates) all_groups[first_aggregate + at] = first_member + (aggregates ? groups[at] : 0);
    if (at == nodes) return;
    if (at < linked) all_members[first_member + at] = first_node + members[at];
    double held = 0, sizes = 0;
    for (int entry = starts[at]; entry < starts[at + 1]; ++entry) {
        held += links[entry];
        sizes += fabs(links[entry]);
        all_columns[first_entry + entry] = first_node + columns[entry];
        all_links[first_entry + entry] = (float)links[entry];
    }
    sizes += fabs(held + excess[at]);
    all_excess[first_node + at] = (float)excess[at];
    all_sweeps[first_node + at] = sizes > 0 ? (float)((starts[at] < starts[at + 1] ? omega : 1.0) / sizes) : 0.0f;
}

// The aggregate of each node that has one, of all graphs.
KERNEL poisson_graph_parents(const int* __restrict__ groups, const int* __restrict__ members, int count, int first,
                             int* __restrict__ parents) {
    const index_t at = NUMBER_OF_THREAD;
    if (at >= count) return;
    for (int place = groups[at]; place < groups[at + 1]; ++place) parents[members[place]] = first + (int)at;
}

#define CYCLE_PARAMETERS                                                                                     \
    double *f, double *x, double *y, const int *__restrict__ entries, const int *__restrict__ columns,       \
        const float *__restrict__ links, const float *__restrict__ excess, const float *__restrict__ sweeps, \
        const int *__restrict__ groups, const int *__restrict__ members, const double *__restrict__ inverse, \
        const int *__restrict__ parents, int finest
#define CYCLE \
    Cycle { f, x, y, entries, columns, links, excess, sweeps, groups, members, inverse, parents, finest }

// The steps of a cycle: to the aggregates, with the first sweep there; x = a sweep on y; y = a sweep on x, and on x
// with what the next graph has found; and y by the inverse.
enum CycleStep { RESTRICT, AGAIN, SWEEP, RETURN, SOLVE };

// The graphs, and what a cycle has on each node: f, the values before the coarse correction, and those it ends with.
struct Cycle {
    double *f, *x, *y;
    const int *entries, *columns;
    const float *links, *excess, *sweeps;
    const int *groups, *members;
    const double* inverse;
    const int* parents;
    int finest;

    // What one of some lanes has of f - G v at a node.
    template <class Value>
    __device__ __forceinline__ double left(int node, int lane, int lanes, Value v) const {
        const double own = v(node);
        double sum = lane == 0 ? f[node] - (double)excess[node] * own : 0;
        for (int entry = entries[node] + lane; entry < entries[node + 1]; entry += lanes)
            sum -= (double)links[entry] * (own - v(columns[entry]));
        return sum;
    }
    // A step at one of the nodes from `first` to `last` by the lanes of a team, which all call it; without `works` the
    // node is any.
    __device__ __forceinline__ void visit(int step, int node, int first, int last, int lane, bool works) const {
        double sum = 0;
        const auto before = [&](int other) { return x[other]; };
        const auto again = [&](int other) { return y[other]; };
        const auto corrected = [&](int other) {
            const int parent = parents[other];
            return parent < 0 ? x[other] : x[other] + y[parent];
        };
        if (step == RESTRICT) {
            for (int place = groups[node - finest] + lane; place < groups[node - finest + 1]; place += ROW_TEAM)
                sum += left(members[place], 0, 1, before);
        } else if (step == SOLVE) {
            for (int other = lane; other < last - first; other += ROW_TEAM)
                sum += inverse[(node - first) * (last - first) + other] * f[first + other];
        } else if (step == AGAIN) {
            sum = left(node, lane, ROW_TEAM, again);
        } else if (step == SWEEP) {
            sum = left(node, lane, ROW_TEAM, before);
        } else {
            sum = left(node, lane, ROW_TEAM, corrected);
        }
        for (int other = ROW_TEAM / 2; other > 0; other /= 2) sum += lane_across(sum, other);
        if (!works || lane != 0) return;
        if (step == SOLVE) {
            y[node] = sum;
        } else if (step == RESTRICT) {
            f[node] = sum;
            x[node] = (double)sweeps[node] * sum;
        } else if (step == AGAIN) {
            x[node] = y[node] + (double)sweeps[node] * sum;
        } else {
            y[node] = (step == SWEEP ? x[node] : corrected(node)) + (double)sweeps[node] * sum;
        }
    }
};

// A step at the nodes from `first` to `last`.
KERNEL poisson_graph_step(CYCLE_PARAMETERS, int step, int first, int last) {
    const Cycle cycle = CYCLE;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y, lane = thread % ROW_TEAM;
    const int node = first + (int)(blockIdx.x * (THREADS / ROW_TEAM)) + thread / ROW_TEAM;
    cycle.visit(step, node < last ? node : first, first, last, lane, node < last);
}

// All visits of a graph, and of those below it, from the first sweep on: by one block. Graphs but the first are visited
// twice down to the number `twice`, and once below.
KERNEL poisson_graph_visits(CYCLE_PARAMETERS, const int* __restrict__ levels, int graphs, int top, int twice,
                            int solved) {
    const Cycle cycle = CYCLE;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y, lane = thread % ROW_TEAM;
    const auto run = [&](int step, int level) {
        const int first = levels[level], last = levels[level + 1];
        for (int begin = first; begin < last; begin += THREADS / ROW_TEAM) {
            const int node = begin + thread / ROW_TEAM;
            cycle.visit(step, node < last ? node : first, first, last, lane, node < last);
        }
        __syncthreads();
    };
    const int bottom = solved ? graphs - 2 : graphs - 1;  // the last graph that is swept
    if (bottom < top) {
        run(SOLVE, top);
        return;
    }
    for (int level = top, again = 0;;) {  // again: a bit for each graph in its second visit
        if (level < bottom) {
            run(RESTRICT, ++level);
            continue;
        }
        if (solved) {
            run(RESTRICT, level + 1);
            run(SOLVE, level + 1);
        }
        run(solved ? RETURN : SWEEP, level);
        for (; level == 0 || level > twice || again >> level & 1; run(RETURN, level)) {
            if (level == top) return;
            again &= ~(1 << level--);
        }
        again |= 1 << level;
        run(AGAIN, level);
    }
}
