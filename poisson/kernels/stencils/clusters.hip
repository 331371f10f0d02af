// SPDX-License-Identifier: MIT
// The correction of strong clusters: u + factor times the sum of w r over the nodes of each, in float64.
//
// The nodes of one cluster after the other are members; starts has where each begins. A small cluster has a team of
// TEAM lanes, and a large one a block for each piece of PIECE members, of which the last to come joins the sums.
//
// Options: TEAM, PIECE.

#ifndef TEAM
#define TEAM 8
#define PIECE 4096
#endif

#define CLUSTER_PARAMETERS                                                                                       \
    int nx, int ny, int nz, index_t pitch, const int *__restrict__ members, const index_t *__restrict__ starts, \
        const int *__restrict__ clusters, const int *__restrict__ parts
#define CLUSTER_PIECES                                                                              \
    Pieces {                                                                                        \
        Members{Nodes{nx, ny, nz EACH_WIDTH}, pitch, members}, starts, clusters, parts \
    }

// The nodes of all clusters.
struct Members {
    Nodes nodes;
    index_t pitch;
    const int* numbers;

    // Where the node of a member is in an array.
    __device__ __forceinline__ Place place(index_t member) const {
        const int number = numbers[member], row = number / nodes.nx;
        const int k = DIMENSION == 3 ? row / nodes.ny : 0;
        return Place{number - row * nodes.nx + pitch * row, number - row * nodes.nx, row - k * nodes.ny, k};
    }

    // Every so manieth member of some, from one on.
    __device__ __forceinline__ double sum(const real* __restrict__ r, index_t first, index_t last, int step) const {
        double total = 0;
        for (index_t member = first; member < last; member += step) {
            const Place at = place(member);
            total += volume_of(nodes, at.i, at.j, at.k) * (double)r[at.offset];
        }
        return total;
    }
    __device__ __forceinline__ void add(real* u, real change, index_t first, index_t last, int step) const {
        for (index_t member = first; member < last; member += step) u[place(member).offset] += change;
    }
};

// The pieces of large clusters: the cluster of each, and which of its pieces it is.
struct Pieces {
    Members members;
    const index_t* starts;
    const int* clusters;
    const int* parts;
};

// One of them.
struct Piece {
    int cluster, first, count;  // the number of the first piece of the cluster, and how many it has
    index_t begin, end;
};

__device__ __forceinline__ Piece piece_of(const Pieces& pieces, int number) {
    const int cluster = pieces.clusters[number], part = pieces.parts[number];
    const index_t from = pieces.starts[cluster], to = pieces.starts[cluster + 1];
    const index_t begin = from + (index_t)PIECE * part, end = begin + PIECE < to ? begin + PIECE : to;
    return Piece{cluster, number - part, (int)((to - from + PIECE - 1) / PIECE), begin, end};
}

// Blocks of teams come first, then those of pieces. The correction of a cluster of several pieces is left for the
// kernel below, behind the sums of the pieces.
KERNEL poisson_correct_clusters(const real* __restrict__ r, real* u, CLUSTER_PARAMETERS,
                                const double* __restrict__ factors, const int* __restrict__ small, int few,
                                int blocks_of_teams, double* sums, double* corrections,
                                unsigned* counters WIDTH_PARAMETERS) {
    const Pieces pieces = CLUSTER_PIECES;
    const Members& all = pieces.members;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    if ((int)blockIdx.x < blocks_of_teams) {
        const int team = (int)(blockIdx.x * (THREADS / TEAM)) + thread / TEAM;
        const int cluster = team < few ? small[team] : 0;
        const index_t first = starts[cluster] + thread % TEAM, last = team < few ? starts[cluster + 1] : 0;
        double total = all.sum(r, first, last, TEAM);
        for (int other = TEAM / 2; other > 0; other /= 2) total += lane_across(total, other);
        all.add(u, (real)(factors[cluster] * total), first, last, TEAM);
        return;
    }
    const int number = (int)blockIdx.x - blocks_of_teams;
    const Piece piece = piece_of(pieces, number);
    Partial* const parts_of_sums = reinterpret_cast<Partial*>(sums);
    __shared__ double total[2];
    __shared__ bool last;
    reduce_block(all.sum(r, piece.begin + thread, piece.end, THREADS), 0, total);
    __syncthreads();
    if (piece.count == 1) {
        all.add(u, (real)(factors[piece.cluster] * total[0]), piece.begin + thread, piece.end, THREADS);
        return;
    }
    if (thread == 0) {
        parts_of_sums[number].sum = total[0];
        __threadfence();
        last = atomicAdd(counters + piece.first, 1u) == piece.count - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double sum = 0;
    for (int other = thread; other < piece.count; other += THREADS) sum += load_partial(parts_of_sums + piece.first + other).sum;
    reduce_block(sum, 0, total);
    if (thread != 0) return;
    corrections[piece.first] = factors[piece.cluster] * total[0];
    counters[piece.first] = 0;
}

// The corrections of clusters of several pieces.
KERNEL poisson_correct_clusters_add(real* u, CLUSTER_PARAMETERS,
                                    const double* __restrict__ corrections WIDTH_PARAMETERS) {
    const Pieces pieces = CLUSTER_PIECES;
    const Piece piece = piece_of(pieces, blockIdx.x);
    if (piece.count == 1) return;
    const int thread = threadIdx.x + BLOCK_X * threadIdx.y;
    pieces.members.add(u, (real)corrections[piece.first], piece.begin + thread, piece.end, THREADS);
}
