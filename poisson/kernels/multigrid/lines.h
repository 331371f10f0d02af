// SPDX-License-Identifier: MIT
// The passes of passes.h in 2D: a group of 32 lanes has a line of nodes along x and marches along y.
//
// Everything between the stages lives in registers: a lane has WIDTH neighbouring nodes of a line, and its neighbours
// along x come from the next lanes. Groups share nothing and wait for nobody; the BLOCK_Y groups of a block lie side by
// side along x.

#if DIMENSION == 2

// So many lines ahead of its need a line is asked for; on its way it passes through shared memory, in rings of slots.
#ifndef AHEAD
#define AHEAD (RESIDUAL && STAGES > 1 ? 4 : 2)
#endif
#define U_SLOTS (AHEAD + 1)
#define F_SLOTS (AHEAD + STAGES + ZERO)
#define COARSE_SLOTS (HALVE_S ? AHEAD / 2 + 2 : AHEAD + 1)
#define SLOT(s, slots) ((unsigned)((s) + 2 * STAGES + 4) % (slots))  // the lowest line asked for is -STAGES - 2

// The slots of a group: each lane reads only what it copied itself, so nobody waits for anybody.
struct Slots {
    Pack u[ZERO ? 1 : U_SLOTS][LANES];
    Pack f[SOURCE && STAGES + ZERO > 0 ? F_SLOTS : 1][LANES];
    CoarsePack coarse[CORRECT ? COARSE_SLOTS : 1][LANES];
};

// As load_nodes: at an edge where there are images the nodes of a lane are copied one by one.
template <bool EDGE, class Nodes, int COUNT>
__device__ __forceinline__ void fill_slot(Nodes& slot, const real* __restrict__ row, const int (&place)[COUNT]) {
    if (EDGE && IMAGES_X) {
#pragma unroll
        for (int n = 0; n < COUNT; ++n) copy_ahead(&slot.node[n], row + place[n]);
    } else {
        copy_ahead(&slot, reinterpret_cast<const Nodes*>(row + place[0]));
    }
}

// The lines first to last - 1, at a strip whose first node is `strip`.
template <bool EDGE, bool NORM>
__device__ __forceinline__ void march(const real* u, const real* __restrict__ f, real* out, const Operator& a,
                                      const Coarser& coarser, const Scales& scale, int strip, int first, int last,
                                      Slots& slots, Norms& norms) {
    const int nx = a.nx, ny = a.ny, lane = threadIdx.x;
    const Columns<EDGE> own(strip, nx);
    const CoarseColumns<EDGE> coarse_own(own.column, coarser.nx);
    const LaneWeights weights(coarser, own.column, nx);
    Links links = {};
    load_along_x(a, own.column, links);
    // Before `begin` no stage needs a line, nor from `end` on. Behind the last line a restriction sees its image.
    const int begin = first - STAGES - FURTHER_S;
    const int end = last + (FURTHER_S ? last % 2 : 0) + STAGES;
    const auto ask_for_coarse = [&](int j) {
        const real* const row = coarser.correction + coarser.pitch * image(j, coarser.ny, RULE_SL, RULE_SU);
        fill_slot<EDGE>(slots.coarse[SLOT(j, COARSE_SLOTS)][lane], row, coarse_own.place);
    };
    // Line s of u, what will be added to it, and the line of f that is needed beside it.
    const auto ask_for = [&](int s) {
        const int s_f = ZERO ? s : s - 1;
        if (!BLANK)
            fill_slot<EDGE>(slots.u[SLOT(s, U_SLOTS)][lane], u + a.pitch * image(s, ny, RULE_SL, RULE_SU), own.place);
        if (SOURCE && STAGES + ZERO > 0)
            fill_slot<EDGE>(slots.f[SLOT(s_f, F_SLOTS)][lane], f + a.pitch * image(s_f, ny, RULE_SL, RULE_SU),
                            own.place);
        if (CORRECT && HALVE_S) {
            if (s == begin) ask_for_coarse(s >> 1);
            if (s % 2 != 0) ask_for_coarse((s + 1) >> 1);
        } else if (CORRECT) {
            ask_for_coarse(s);
        }
        copies_committed();
    };
    // What is added to line s. Between two coarse lines it is their mean.
    const auto correction = [&](int s) {
        const int j = HALVE_S ? s >> 1 : s;
        CoarsePack sum = slots.coarse[SLOT(j, COARSE_SLOTS)][lane];
        if (HALVE_S && s % 2 != 0) {
            const CoarsePack next = slots.coarse[SLOT(j + 1, COARSE_SLOTS)][lane];
#pragma unroll
            for (int n = 0; n < COARSE_WIDTH; ++n) {
#if WEIGHTED_S
                sum.node[n] = weight_along(coarser, FROM_LOWER, true, s, ny) * sum.node[n] +
                              weight_along(coarser, FROM_UPPER, true, s, ny) * next.node[n];
#else
                sum.node[n] = (real)0.5 * (sum.node[n] + next.node[n]);
#endif
            }
        }
        return interpolate_line(sum, weights);
    };
    const auto store_line = [&](int j, const Pack& line) {
        if (own.owned && own.column < nx && j >= first && j < last)
            store_streaming(out + a.pitch * j + own.column, line);
    };
    CoarsePack gathered = {};
    const auto store_gathered = [&](int j) {
        if (!(own.owned && j >= 0 && j < coarser.ny)) return;
        store_coarse<EDGE>(coarser, coarser.pitch * j, gathered, coarse_own.column,
                           is_fixed(j, coarser.ny, RULE_SL, RULE_SU));
    };
    // Takes line j of the residual. Its even lines are those of the coarser grid; the odd ones count for two.
    const auto restrict_along = [&](int j, const Pack& line) {
        const CoarsePack restricted = restrict_line(line, weights);
        if (!HALVE_S) {
            gathered = restricted;
            if (j >= first && j < last) store_gathered(j);
            return;
        }
        const bool odd = j % 2 != 0;
        add(gathered, restricted, weight_along(coarser, TO_LOWER, odd, j, ny));
        if (odd) {
            if (j > first) store_gathered(j >> 1);
            gathered = CoarsePack{};
            add(gathered, restricted, weight_along(coarser, TO_UPPER, true, j, ny));
        }
    };

    Pack lower[STAGES > 0 ? STAGES : 1] = {};
    Pack centre[STAGES > 0 ? STAGES : 1] = {};
#pragma unroll
    for (int ahead = 0; ahead < AHEAD; ++ahead) ask_for(begin + ahead);

#pragma unroll UNROLL
    for (int s = begin; s < end; ++s) {
        ask_for(s + AHEAD);
        copies_arrived<AHEAD>();
        Pack upper = {}, change = {};
        if (!BLANK) upper = slots.u[SLOT(s, U_SLOTS)][lane];
        if (ZERO) {
            Pack source = {};
            if (SOURCE) source = slots.f[SLOT(s, F_SLOTS)][lane];
            load_along_y(a, s, links);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
                change.node[n] = scale_at(a, Place{0, own.column, s, 0}, links, n, scale.of[0]) * source.node[n];
        }
        if (CORRECT) change = correction(s);
        if (ZERO || CORRECT) {
            const bool fixed_line = is_fixed(image(s, ny, RULE_SL, RULE_SU), ny, RULE_SL, RULE_SU);
            Links masked;
#if MASKED
            masked.c = load_nodes<EDGE, Pack>(a.reaction + a.pitch * image(s, ny, RULE_SL, RULE_SU), own.place);
#endif
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
                upper.node[n] += fixed_line || own.fixed[n] || is_masked(masked, n) ? (real)0 : change.node[n];
        }
#pragma unroll
        for (int t = 0; t < STAGES; ++t) {
            if (WRITES && RESIDUAL && t == SWEEPS) store_line(s - SWEEPS, upper);
            const int j = s - t - 1;
            const bool fixed_line = is_fixed(image(j, ny, RULE_SL, RULE_SU), ny, RULE_SL, RULE_SU);
            const Pack& middle = centre[t];
            const Place at{0, own.column, j, 0};
            Pack source = {};
            if (SOURCE) source = slots.f[SLOT(j, F_SLOTS)][lane];
            const real from_left = lane_below(middle.node[WIDTH - 1], 1);
            const real from_right = lane_above(middle.node[0], 1);
            Pack relaxed, residual;
            load_along_y(a, j, links);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) {
                const real left = n == 0 ? from_left : middle.node[n > 0 ? n - 1 : 0];
                const real right = n == WIDTH - 1 ? from_right : middle.node[n < WIDTH - 1 ? n + 1 : 0];
                const bool holds = fixed_line || own.fixed[n];
                const real source_weight = SOURCE_WEIGHT(t);
                if (BY_SUM && !(RESIDUAL && t == SWEEPS) && !(NORM && t == STAGES - 1)) {
                    const real neighbour[6] = {left, right, lower[t].node[n], upper.node[n]};
                    const real value = sweep_by_sum(a, at, links, n, source.node[n], middle.node[n], neighbour,
                                                    scale.of[t + ZERO], source_weight);
                    relaxed.node[n] = holds ? middle.node[n] : value;
                    continue;
                }
                const real au = apply_at(a, at, links, n, middle.node[n], left, right, lower[t].node[n], upper.node[n],
                                         (real)0, (real)0);
                const real r = residual.node[n] = holds ? (real)0 : residual_of(source_weight * source.node[n], au);
                relaxed.node[n] =
                    RESIDUAL && t == SWEEPS ? r : relax_at(a, at, links, n, middle.node[n], r, scale.of[t + ZERO]);
            }
            if (NORM && t == STAGES - 1 && own.owned && j >= first && j < last && counts(j, 0, ny, 1)) {
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    if (!EDGE || own.column + n < nx) norms.add(residual.node[n]);
                }
            }
            lower[t] = centre[t];
            centre[t] = upper;
            upper = relaxed;
        }
        if (WRITES && !RESIDUAL) store_line(s - SWEEPS, upper);
        if (RESTRICT && s - STAGES >= first - FURTHER_S) restrict_along(s - STAGES, upper);
    }
}

template <bool NORM>
__device__ __forceinline__ void pass(const real* u, const real* __restrict__ f, real* out, const Operator& a,
                                     const Coarser& coarser, const Scales& scale, double* partial, double* result) {
    const int strip = (blockIdx.x * BLOCK_Y + threadIdx.y) * OWNED - MARGIN;
    const int first = a.block.y * MARCH;
    const int last = first + MARCH < a.ny ? first + MARCH : a.ny;
    __shared__ Slots slots[BLOCK_Y];
    Norms norms;
    if (strip + MARGIN < a.nx) {
        if (strip <= 0 || strip + STRIP >= a.nx)
            march<true, NORM>(u, f, out, a, coarser, scale, strip, first, last, slots[threadIdx.y], norms);
        else
            march<false, NORM>(u, f, out, a, coarser, scale, strip, first, last, slots[threadIdx.y], norms);
    }
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result, a.block);
}

#endif
