// SPDX-License-Identifier: MIT
// What NODES neighbouring nodes of a grid take along an axis from a coarser one, by tables with so many entries for
// each node: LENGTH places that lie side by side, and weights for them. The source has no more nodes than the target;
// `HALVES` says that it has half the intervals and the first node is even.
template <int ENTRIES_EACH, int NODES, bool HALVES>
struct Window {
    static constexpr int LENGTH = ENTRIES_EACH + (HALVES ? (NODES - 1) / 2 : NODES - 1);
    int place[LENGTH];
    real weight[NODES][LENGTH];

    __device__ __forceinline__ Window(const int* __restrict__ index, const real* __restrict__ weights, int first, int n,
                                      int source_n, bool wraps) {
        const int nearest = index[ENTRIES_EACH * first];
#pragma unroll
        for (int l = 0; l < LENGTH; ++l) {
            const int at = nearest + l;
            const bool inside = at < source_n || (HALVES && l < ENTRIES_EACH && !wraps);
            place[l] = inside ? at : wraps ? at % source_n : source_n - 1;
        }
#pragma unroll
        for (int m = 0; m < NODES; ++m) {
            const int at = first + m < n ? first + m : n - 1;
            const int ahead = index[ENTRIES_EACH * at] - nearest, offset = ahead < 0 ? ahead + source_n : ahead;
#pragma unroll
            for (int l = 0; l < LENGTH; ++l) {
                const int entry = l - offset;
                weight[m][l] = entry >= 0 && entry < ENTRIES_EACH ? weights[ENTRIES_EACH * at + entry] : (real)0;
            }
        }
    }
};
