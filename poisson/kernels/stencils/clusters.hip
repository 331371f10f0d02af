// SPDX-License-Identifier: MIT
// Strong clusters: how they are found, and their correction, u + factor times the sum of w r over the nodes of each.
//
// Nodes have numbers in C order, without padding. The nodes of one cluster after the other are `members`, and `starts`
// has where each begins. A small cluster has a team of TEAM lanes, and a large one a block for each piece of PIECE
// members, of which the last to come joins the sums. Sums are in float64, and have the same bits at every run.
//
// Options: TEAM, SMALL (the most members of a small cluster), PIECE.

#ifndef TEAM
#define TEAM 8
#define SMALL 64
#define PIECE 4096
#endif

#define GROUPS_PARAMETERS                                                                                    \
    const int *__restrict__ members, const index_t *__restrict__ starts, const index_t *__restrict__ pieces, \
        const int *__restrict__ small, int few, int blocks_of_teams, double *sums, unsigned *counters
#define GROUPS(nodes) \
    Groups { nodes, members, starts, pieces, small, few, blocks_of_teams, reinterpret_cast<Partial*>(sums), counters }
#define GROUPED_NODES (Nodes{nx, ny, nz EACH_WIDTH})

// What a piece of a large cluster is: the number of the first one, how many there are, and the members of this one.
struct Piece {
    int cluster, first, count;
    index_t begin, end;
};

struct Groups {
    Nodes nodes;
    const int* members;
    const index_t* starts;
    const index_t* pieces;  // of each its cluster, in the upper half, and which of the pieces of that it is
    const int* small;       // the clusters of teams
    int few, blocks_of_teams;
    Partial* sums;       // of pieces
    unsigned* counters;  // of the pieces that have come, at the first one of a cluster

    // Where a member is; its offset is its number.
    __device__ __forceinline__ Place place(index_t member) const {
        const int number = members[member], row = number / nodes.nx, k = DIMENSION == 3 ? row / nodes.ny : 0;
        return Place{number, number - row * nodes.nx, row - k * nodes.ny, k};
    }
    __device__ __forceinline__ Piece piece(int number) const {
        const int cluster = (int)(pieces[number] >> 32), part = (int)(pieces[number] & 0xffffffff);
        const index_t from = starts[cluster], to = starts[cluster + 1];
        const index_t begin = from + (index_t)PIECE * part, end = begin + PIECE < to ? begin + PIECE : to;
        return Piece{cluster, number - part, (int)((to - from + PIECE - 1) / PIECE), begin, end};
    }
    __device__ __forceinline__ index_t offset(const Place& at, index_t pitch) const {
        return at.i + pitch * (at.j + (index_t)nodes.ny * at.k);
    }
};

// Sums value(place), a Partial of two sums, over the members of each cluster. The threads of a team or of a block that
// have a whole cluster call finish(cluster, sums, first, last, step) with the members of each; one thread calls
// left(piece, sums) for a cluster of several pieces.
template <bool BOTH, class Value, class Finish, class Left>
__device__ __forceinline__ void sum_clusters(const Groups& groups, Value value, Finish finish, Left left) {
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    const auto sum_of = [&](index_t first, index_t last, int step) {
        Partial total{0, 0};
        for (index_t member = first; member < last; member += step) {
            const Partial part = value(groups.place(member));
            total.sum += part.sum;
            if (BOTH) total.maximum += part.maximum;
        }
        return total;
    };
    if ((int)blockIdx.x < groups.blocks_of_teams) {
        const int team = (int)(blockIdx.x * (THREADS / TEAM)) + thread / TEAM;
        const bool works = team < groups.few;
        const int cluster = works ? groups.small[team] : 0;
        const index_t first = groups.starts[cluster] + thread % TEAM, last = works ? groups.starts[cluster + 1] : 0;
        Partial total = sum_of(first, last, TEAM);
        for (int other = TEAM / 2; other > 0; other /= 2) {
            total.sum += lane_across(total.sum, other);
            if (BOTH) total.maximum += lane_across(total.maximum, other);
        }
        if (works) finish(cluster, total, first, last, TEAM);
        return;
    }
    const int number = (int)blockIdx.x - groups.blocks_of_teams;
    const Piece piece = groups.piece(number);
    __shared__ double slot[2];
    __shared__ bool last;
    Partial total = sum_of(piece.begin + thread, piece.end, THREADS);
    reduce_block(total.sum, total.maximum, slot);
    __syncthreads();
    if (piece.count == 1) {
        finish(piece.cluster, Partial{slot[0], slot[1]}, piece.begin + thread, piece.end, THREADS);
        return;
    }
    if (thread == 0) {
        groups.sums[number] = Partial{slot[0], slot[1]};
        __threadfence();
        last = atomicAdd(groups.counters + piece.first, 1u) == piece.count - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    total = Partial{0, 0};
    for (int other = thread; other < piece.count; other += THREADS) {
        const Partial part = load_partial(groups.sums + piece.first + other);
        total.sum += part.sum;
        total.maximum += part.maximum;
    }
    reduce_block(total.sum, total.maximum, slot);
    if (thread != 0) return;
    left(piece, Partial{slot[0], slot[1]});
    groups.counters[piece.first] = 0;
}

// The correction of a cluster of several pieces is left for the kernel below.
KERNEL poisson_correct_clusters(const real* __restrict__ r, real* u, const double* __restrict__ factors,
                                double* corrections, int nx, int ny, int nz, index_t pitch,
                                GROUPS_PARAMETERS WIDTH_PARAMETERS) {
    const Groups groups = GROUPS(GROUPED_NODES);
    sum_clusters<false>(
        groups,
        [&](const Place& at) {
            const double volume = volume_of(groups.nodes, at.i, at.j, at.k);
            return Partial{volume * (double)r[groups.offset(at, pitch)], 0};
        },
        [&](int cluster, const Partial& total, index_t first, index_t last, int step) {
            const real change = (real)(factors[cluster] * total.sum);
            for (index_t member = first; member < last; member += step)
                u[groups.offset(groups.place(member), pitch)] += change;
        },
        [&](const Piece& piece, const Partial& total) {
            corrections[piece.first] = factors[piece.cluster] * total.sum;
        });
}

// The corrections of clusters of several pieces.
KERNEL poisson_clusters_add(real* u, const double* __restrict__ corrections, int nx, int ny, int nz, index_t pitch,
                            GROUPS_PARAMETERS WIDTH_PARAMETERS) {
    const Groups groups = GROUPS(GROUPED_NODES);
    const Piece piece = groups.piece(blockIdx.x);
    if (piece.count == 1) return;
    const real change = (real)corrections[piece.first];
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    for (index_t member = piece.begin + thread; member < piece.end; member += THREADS)
        u[groups.offset(groups.place(member), pitch)] += change;
}

// ---- corrections of all clusters together, by the cycle of their graph: poisson/discrete/contracted.py

// The sum of each cluster, at its number in f, and the first sweep of the cycle.
KERNEL poisson_clusters_sum(const real* __restrict__ r, const float* __restrict__ sweeps, double* f, double* x, int nx,
                            int ny, int nz, index_t pitch, GROUPS_PARAMETERS WIDTH_PARAMETERS) {
    const Groups groups = GROUPS(GROUPED_NODES);
    const auto begin = [&](int cluster, double sum) {
        f[cluster] = sum;
        x[cluster] = (double)sweeps[cluster] * sum;
    };
    sum_clusters<false>(
        groups,
        [&](const Place& at) {
            const double volume = volume_of(groups.nodes, at.i, at.j, at.k);
            return Partial{volume * (double)r[groups.offset(at, pitch)], 0};
        },
        [&](int cluster, const Partial& total, index_t first, index_t, int) {
            if (first == starts[cluster]) begin(cluster, total.sum);
        },
        [&](const Piece& piece, const Partial& total) { begin(piece.cluster, total.sum); });
}

// Calls emit(cluster, member) for each member.
template <class Emit>
__device__ __forceinline__ void for_each_member(const Groups& groups, Emit emit) {
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    const auto over = [&](int cluster, index_t first, index_t last, int step) {
        for (index_t member = first; member < last; member += step) emit(cluster, member);
    };
    if ((int)blockIdx.x < groups.blocks_of_teams) {
        const int team = (int)(blockIdx.x * (THREADS / TEAM)) + thread / TEAM;
        if (team >= groups.few) return;
        const int cluster = groups.small[team];
        over(cluster, groups.starts[cluster] + thread % TEAM, groups.starts[cluster + 1], TEAM);
        return;
    }
    const Piece piece = groups.piece((int)blockIdx.x - groups.blocks_of_teams);
    over(piece.cluster, piece.begin + thread, piece.end, THREADS);
}

// The correction of each cluster, at its number in `values`, to its nodes.
KERNEL poisson_clusters_spread(real* u, const double* __restrict__ values, int nx, int ny, int nz, index_t pitch,
                               GROUPS_PARAMETERS WIDTH_PARAMETERS) {
    const Groups groups = GROUPS(GROUPED_NODES);
    for_each_member(groups, [&](int cluster, index_t member) {
        u[groups.offset(groups.place(member), pitch)] += (real)values[cluster];
    });
}

// ---- the graph of clusters: poisson/kernels/stencils/graphs.hip goes on with it

// The cluster of each node; those in none keep -1.
KERNEL poisson_clusters_number(int* __restrict__ numbers, int nx, int ny, int nz, GROUPS_PARAMETERS) {
    const Groups groups = GROUPS((Nodes{nx, ny, nz}));
    for_each_member(groups, [&](int cluster, index_t member) { numbers[members[member]] = cluster; });
}

// The keys of the links of each member to other clusters: the own one in the upper half, and the other.
KERNEL poisson_clusters_entries(const int* __restrict__ numbers, index_t* __restrict__ keys, STENCIL_LINKS_PARAMETERS,
                                GROUPS_PARAMETERS) {
    const StencilLinks a = STENCIL_LINKS;
    const Groups groups = GROUPS(a.nodes);
    const int links = 2 * slots_of(offsets);
    for_each_member(groups, [&](int cluster, index_t member) {
        const Place at = groups.place(member);
        index_t place = links * member;
        for_each_link(a, at.i, at.j, at.k, [&](const Step& to, double link) {
            const int other = numbers[number_of(a.nodes, to.i, to.j, to.k)];
            if (link != 0 && other >= 0 && other != cluster) keys[place++] = (index_t)cluster << 32 | other;
        });
        while (place < links * (member + 1)) keys[place++] = NO_KEY;
    });
}

// The links between clusters, each a sum over the members of that one which has fewer.
KERNEL poisson_clusters_links(const int* __restrict__ numbers, const int* __restrict__ rows,
                              const int* __restrict__ columns, int entries, double* __restrict__ values,
                              STENCIL_LINKS_PARAMETERS, GROUPS_PARAMETERS) {
    const StencilLinks a = STENCIL_LINKS;
    const Groups groups = GROUPS(a.nodes);
    const index_t entry = NUMBER_OF_THREAD;
    if (entry >= entries) return;
    int one = rows[entry], other = columns[entry];
    const index_t own = starts[one + 1] - starts[one], beyond = starts[other + 1] - starts[other];
    if (beyond < own || (beyond == own && other < one)) {
        const int swapped = one;
        one = other;
        other = swapped;
    }
    double sum = 0;
    for (index_t member = starts[one]; member < starts[one + 1]; ++member) {
        const Place at = groups.place(member);
        for_each_link(a, at.i, at.j, at.k, [&](const Step& to, double link) {
            if (numbers[number_of(a.nodes, to.i, to.j, to.k)] == other) sum += link;
        });
    }
    values[entry] = sum;
}

// The excess of each cluster, with the links to nodes that are in none.
KERNEL poisson_clusters_excess(const int* __restrict__ numbers, double* __restrict__ found, STENCIL_LINKS_PARAMETERS,
                               GROUPS_PARAMETERS) {
    const StencilLinks a = STENCIL_LINKS;
    const Groups groups = GROUPS(a.nodes);
    sum_clusters<false>(
        groups,
        [&](const Place& at) {
            double excess = a.at(0, at.i, at.j, at.k);
            for_each_link(a, at.i, at.j, at.k, [&](const Step& to, double link) {
                if (numbers[number_of(a.nodes, to.i, to.j, to.k)] < 0) excess += link;
            });
            return Partial{excess, 0};
        },
        [&](int cluster, const Partial& total, index_t first, index_t, int) {
            if (first == starts[cluster]) found[cluster] = total.sum;
        },
        [&](const Piece& piece, const Partial& total) { found[piece.cluster] = total.sum; });
}

// The nodes of clusters of so many or more, each as a group of its own.
KERNEL poisson_clusters_apart(int* nodes, index_t* alone, count_t* length, int count, int clusters, int fewest,
                              const int* __restrict__ members, const index_t* __restrict__ starts) {
    const index_t member = NUMBER_OF_THREAD;
    int low = 0, high = clusters;  // the cluster lies between
    while (member < count && high - low > 1) {
        const int middle = (low + high) / 2;
        if (starts[middle] <= member)
            low = middle;
        else
            high = middle;
    }
    if (member <= count) alone[member] = member;
    append(member < count && starts[low + 1] - starts[low] >= fewest, member < count ? members[member] : 0, nodes,
           length);
}

// ---- how they are found: labels are joined along strong links

#define NO_ROOT 1e300

// By how much the links of a slot count.
__device__ __forceinline__ double scale_of(const double* __restrict__ scales, int slot) {
    return scales ? scales[slot] : 1;
}

// The root of the diagonal of each node, or with `scales` of the sum of its links; where that is fixed or has no
// equation, more than any strong link allows.
KERNEL poisson_clusters_roots(double* __restrict__ roots, STENCIL_LINKS_PARAMETERS, const double* __restrict__ scales) {
    const StencilLinks a = STENCIL_LINKS;
    NODE_OF_THREAD(a.nodes);
    double diagonal = scales ? 0 : a.at(0, i, j, k);
    for_each_link(a, i, j, k, [&](const Step& to, double link) { diagonal += scale_of(scales, to.slot) * link; });
    roots[here] = diagonal > 0 && !is_fixed_node(a.nodes, i, j, k) ? sqrt(diagonal) : NO_ROOT;
}

// Every node has the number of the first one of its run of strong links along x.
KERNEL poisson_clusters_begin(const double* __restrict__ roots, int* __restrict__ labels, unsigned* __restrict__ sizes,
                              STENCIL_LINKS_PARAMETERS, const double* __restrict__ scales, double threshold) {
    const StencilLinks a = STENCIL_LINKS;
    NODE_OF_THREAD(a.nodes);
    const bool follows = a.has(0) && i + 1 < nx;
    const bool joined = follows && scale_of(scales, 0) * a.at(1, i, j, k) > threshold * roots[here] * roots[here + 1];
    labels[here] = first_of_run(here, joined);
    sizes[here] = 0;
}

// Join the ends of strong links.
KERNEL poisson_clusters_join(const double* __restrict__ roots, int* labels, STENCIL_LINKS_PARAMETERS,
                             const double* __restrict__ scales, double threshold) {
    const StencilLinks a = STENCIL_LINKS;
    NODE_OF_THREAD(a.nodes);
    const double least = threshold * roots[here];
    int array = 0;
#pragma unroll
    for (int slot = 0; slot < SLOTS; ++slot) {
        if (!a.has(slot)) continue;
        int p = i, q = j, s = k;
        const bool there = moved(a.nodes, p, q, s, step_of(slot, 0), step_of(slot, 1), step_of(slot, 2));
        const int other = there ? number_of(a.nodes, p, q, s) : here;
        ++array;
        join_once(labels, there && scale_of(scales, slot) * a.at(array, i, j, k) > least * roots[other], here, other);
    }
}

// Give every node the smallest number of its cluster, and that one the number of its nodes.
KERNEL poisson_clusters_label(int* labels, unsigned* sizes, int nx, int ny, int nz) {
    const Nodes nodes{nx, ny, nz};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const bool there = i < nx && j < ny, first = threadIdx.x + threadIdx.y == 0;
    const int lane = threadIdx.x % 32, none = nx * ny * nz;
    __shared__ int least;
    __shared__ unsigned count;
    if (first) {
        least = none;
        count = 0;
    }
    int label = none;
    if (there) {
        const int here = number_of(nodes, i, j, k);
        label = end_of<false>(labels, here);
        if (label != here) put(labels + here, label);
    }
    // The last lane of those with the same label counts them all.
    const int begin = begin_of_run(lane_below(label, 1) == label);
    const bool goes_on = lane_above(label, 1) == label && lane < 31;
    // A large cluster has nodes in most blocks, which would wait for one another: each counts those of its least label.
    const bool counts = there && !goes_on;
    __syncthreads();
    if (counts && label < look(&least)) atomicMin(&least, label);
    __syncthreads();
    if (counts) atomicAdd(label == least ? &count : sizes + label, (unsigned)(lane - begin + 1));
    __syncthreads();
    if (first && least < none) atomicAdd(sizes + least, count);
}

// ---- lists of them

// The nodes of clusters of `fewest`, one or two, or more, but not of more than `most`: their labels, in the upper half,
// and their numbers.
KERNEL poisson_clusters_collect(const int* __restrict__ labels, const unsigned* __restrict__ sizes,
                                const double* __restrict__ roots, index_t* keys, count_t* length, int nodes, int fewest,
                                double most) {
    const index_t here = NUMBER_OF_THREAD;
    const int label = here < nodes ? labels[here] : 0;
    const unsigned size = here < nodes ? sizes[label] : 0;
    const bool alone = size == 1 && fewest == 1 && roots[here] < NO_ROOT;
    append((size > 1 || alone) && (double)size <= most, (index_t)label << 32 | here, keys, length);
}

// Of clusters of so many nodes or more: their nodes, the sum of the squares of these for each cluster, and how many of
// the nodes beside each are theirs.
KERNEL poisson_clusters_large(const int* __restrict__ labels, const unsigned* __restrict__ sizes, int nx, int ny,
                              int nz, int fewest, count_t* counts) {
    const Nodes nodes{nx, ny, nz};
    const int i = blockIdx.x * BLOCK_X + threadIdx.x, j = blockIdx.y * BLOCK_Y + threadIdx.y, k = blockIdx.z;
    const auto size_at = [&](int x, int y, int z) {
        const unsigned size = x < nx && y < ny && z < nz ? sizes[labels[number_of(nodes, x, y, z)]] : 0;
        return size >= (unsigned)fewest ? size : 0;
    };
    const unsigned size = size_at(i, j, k);
    const auto pairs = [&](int x, int y, int z) { return size > 0 && size_at(x, y, z) > 0 ? 2 : 0; };
    const int beside = pairs(i + 1, j, k) + pairs(i, j + 1, k) + (DIMENSION == 3 ? pairs(i, j, k + 1) : 0);
    __shared__ double slot[2];
    reduce_block(size > 0, size, slot);
    if (threadIdx.x + threadIdx.y == 0) {
        atomicAdd(counts, (count_t)slot[0]);
        atomicAdd(counts + 1, (count_t)slot[1]);
    }
    __syncthreads();
    reduce_block(beside, 0, slot);
    if (threadIdx.x + threadIdx.y == 0) atomicAdd(counts + 2, (count_t)slot[0]);
}

// Of sorted keys the nodes, and where each cluster begins and the last one ends.
KERNEL poisson_clusters_start(const index_t* __restrict__ keys, int count, int* members, index_t* starts,
                              count_t* length) {
    const index_t at = NUMBER_OF_THREAD;
    if (at < count) members[at] = (int)(keys[at] & 0xffffffff);
    const bool begins = at == 0 || at == count || (at < count && keys[at] >> 32 != keys[at - 1] >> 32);
    append(begins, at, starts, length);
}

// The small clusters, and the pieces of the others. counts: of both, of the clusters of several pieces, and the sum of
// the squares of the members of each cluster.
KERNEL poisson_clusters_divide(const index_t* __restrict__ starts, int clusters, int* small, index_t* pieces,
                               count_t* counts) {
    const index_t cluster = NUMBER_OF_THREAD;
    const index_t members = cluster < clusters ? starts[cluster + 1] - starts[cluster] : 0;
    append(0 < members && members <= SMALL, (int)cluster, small, counts);
    if (members > SMALL) {
        const index_t parts = (members + PIECE - 1) / PIECE, begin = (index_t)atomicAdd(counts + 1, (count_t)parts);
        for (index_t part = 0; part < parts; ++part) pieces[begin + part] = cluster << 32 | part;
        if (parts > 1) atomicAdd(counts + 2, (count_t)1);
    }
    __shared__ double slot[2];
    reduce_block((double)members * (double)members, 0, slot);
    if (threadIdx.x + threadIdx.y == 0) atomicAdd(counts + 3, (count_t)slot[0]);
}

// The factor of each cluster, from its excess and the links that leave it. One that only rounding holds is to be left
// out: as one of no nodes.
KERNEL poisson_clusters_hold(double* __restrict__ factors, const int* __restrict__ labels, unsigned* sizes,
                             count_t* left_out, double damping, double loose, STENCIL_LINKS_PARAMETERS,
                             GROUPS_PARAMETERS) {
    const StencilLinks a = STENCIL_LINKS;
    const Groups groups = GROUPS(a.nodes);
    const auto hold = [&](int cluster, const Partial& total) {
        factors[cluster] = damping / total.sum;
        if (total.sum > loose * total.maximum) return;
        sizes[members[starts[cluster]]] = 0;
        atomicAdd(left_out, (count_t)1);
    };
    sum_clusters<true>(
        groups,
        [&](const Place& at) {
            const double excess = a.at(0, at.i, at.j, at.k);
            Partial held{excess, excess};
            for_each_link(a, at.i, at.j, at.k, [&](const Step& to, double link) {
                if (labels[number_of(a.nodes, to.i, to.j, to.k)] != labels[at.offset]) held.sum += link;
                held.maximum += link;
            });
            return held;
        },
        [&](int cluster, const Partial& total, index_t first, index_t, int) {
            if (first == starts[cluster]) hold(cluster, total);
        },
        [&](const Piece& piece, const Partial& total) { hold(piece.cluster, total); });
}
