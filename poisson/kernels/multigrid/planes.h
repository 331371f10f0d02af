// SPDX-License-Identifier: MIT
// The passes of passes.h in 3D: a block has a tile of nodes in x and y and marches along z.
//
// A lane has WIDTH neighbouring nodes of ROWS neighbouring lines, and the planes below and above them in registers. Its
// neighbours along x come from the next lanes; those along y from other threads of the block through shared memory, in
// two slots for each stage that are used in turn: a plane needs one barrier for all stages.

#if DIMENSION == 3

// Where a value is within a plane, in as few bits as are enough. For a residual that is restricted, and nothing before
// it, the compiler finds the shorter code with 64.
#if WIDE_PLANES || (RESIDUAL && RESTRICT && STAGES + ZERO == 1)
typedef index_t offset_t;
#else
typedef unsigned offset_t;
#endif

// Lines of a block, those of them below the ones that it owns, and those that it owns: an even number where they halve.
#define LINES (BLOCK_Y * ROWS)
#define SHOWN (ROWS > 1 ? 2 : 1)  // lines of a lane that others need: its outermost ones
#define LINES_BELOW (STAGES + FURTHER_L)
#define LINES_OWNED ((LINES - LINES_BELOW - STAGES) / (1 + FURTHER_L) * (1 + FURTHER_L))
#define FROM_F (SOURCE && STAGES + ZERO > 0)
// Whether the first line of every lane is even, or odd in all of them; then lanes load what their lines share only
// once.
#define ALIKE (HALVE_Y && LINES_OWNED % 2 == 0 && ROWS % 2 == 0)
#define ODD_FIRST (LINES_BELOW % 2 != 0)
// Coarse lines that a lane loads: those that its lines lie on or between, or two for each line.
#define COARSE_LINES (ALIKE ? ROWS / 2 + 1 : ROWS * (1 + HALVE_Y))

// The link inside that a link beyond the faces of an axis is an image of; links count by the node at their lower end.
__device__ __forceinline__ int image_link(int i, int n, int lower, int upper) {
    if (lower == WRAP) {
        i %= n;
        return i < 0 ? i + n : i;
    }
    if (lower == MIRROR && upper == MIRROR) i %= 2 * (n - 1);
    if (i < 0) i = lower == MIRROR ? -1 - i : 0;
    if (i >= n - 1) i = upper == MIRROR ? 2 * (n - 1) - 1 - i : n - 2;
    return i < 0 ? 0 : i;
}

// Whether a node, or the one that it is an image of, is fixed. Beyond a FIXED face all count as fixed, which takes
// fewer comparisons: what they hold is never used.
__device__ __forceinline__ bool is_held(int i, int n, int lower, int upper) {
    if ((lower == FIXED || lower == HALO) && (upper == FIXED || upper == HALO))
        return (lower == FIXED && i <= 0) || (upper == FIXED && i >= n - 1);
    return is_fixed(image(i, n, lower, upper), n, lower, upper);
}

// What the threads of a block show each other.
struct Tile {
    Pack values[STAGES > 0 ? STAGES : 1][2][STAGES > 0 ? SHOWN * BLOCK_Y : 1][LANES];
    CoarsePack restricted[HALVE_S ? 1 : 2][RESTRICT ? LINES : 1][LANES];
};

// The planes first to last - 1 of a block whose nodes begin at `strip`, and its lines at `row`.
template <bool EDGE, bool NORM>
__device__ __forceinline__ void march(const real* u, const real* __restrict__ f, real* out, const Operator& a,
                                      const Coarser& coarser, const Scales& scale, int strip, int row, int first,
                                      int last, Tile& tile, Norms& norms) {
    const int nx = a.nx, ny = a.ny, nz = a.nz, lane = threadIdx.x;
    const index_t stride = a.pitch * ny, coarse_stride = coarser.pitch * coarser.rows_of_plane();
    const Columns<EDGE> own(strip, nx);
    const CoarseColumns<EDGE> coarse_own(own.column, coarser.nx);
    const LaneWeights weights(coarser, own.column, nx);
    const int line = threadIdx.y * ROWS;           // the first one, among those of the block
    const int shows = threadIdx.y * SHOWN;         // and among those that these show each other
    int line_of[ROWS], coarse_line[COARSE_LINES];  // where their images are
    bool fixed_line[ROWS], owned_line[ROWS];
#pragma unroll
    for (int l = 0; l < ROWS; ++l) {
        line_of[l] = image(row + line + l, ny, RULE_YL, RULE_YU);
        fixed_line[l] = is_fixed(line_of[l], ny, RULE_YL, RULE_YU);
        owned_line[l] = line + l >= LINES_BELOW && line + l < LINES_BELOW + LINES_OWNED && row + line + l < ny;
    }
#pragma unroll
    for (int m = 0; m < COARSE_LINES; ++m) {
        const int coarse_j =
            ALIKE ? ((row + line) >> 1) + m : (row + line + m / (1 + HALVE_Y) + m % (1 + HALVE_Y)) >> HALVE_Y;
        coarse_line[m] = CORRECT ? image(coarse_j, coarser.ny, RULE_YL, RULE_YU) : 0;
    }
    // The pitch of a row fits into 32 bits, for which a product costs fewer registers.
    const auto at_line = [&](int j) { return (offset_t)j * (offset_t)(int)a.pitch; };
    // Before `begin` no stage needs a plane, nor from `end` on. Behind the last plane a restriction sees its image.
    const int begin = first - STAGES - FURTHER_S;
    const int end = last + (FURTHER_S ? last % 2 : 0) + STAGES;
    // What the next step takes is loaded in this one: plane s of u, and that of f that is needed beside it.
    Pack next_u[ROWS] = {}, next_f[ROWS] = {};
    const auto ask_for = [&](int s) {
        // Sweeps alone have registers for a plane more than they need, and without a branch for shorter code.
        if ((RESIDUAL || CORRECT) && s >= end) return;
        const real* const u_plane = u + stride * image(s, nz, RULE_SL, RULE_SU);
        const real* const f_plane = f + stride * image(ZERO ? s : s - 1, nz, RULE_SL, RULE_SU);
#pragma unroll
        for (int l = 0; l < ROWS; ++l) {
            if (!BLANK) next_u[l] = load_nodes<EDGE, Pack>(u_plane, own.place, at_line(line_of[l]));
            if (FROM_F) next_f[l] = load_nodes<EDGE, Pack>(f_plane, own.place, at_line(line_of[l]));
        }
    };
    // Plane k of the correction, and what it gives for the lines of the fine grid: the mean of two between coarse ones.
    CoarsePack next_coarse[COARSE_LINES] = {};
    const auto ask_for_coarse = [&](int k) {
        const real* const plane = coarser.correction + coarse_stride * image(k, coarser.nz, RULE_SL, RULE_SU);
#pragma unroll
        for (int m = 0; m < COARSE_LINES; ++m)
            next_coarse[m] = load_nodes<EDGE, CoarsePack>(plane, coarse_own.place,
                                                          (offset_t)coarse_line[m] * (offset_t)(int)coarser.pitch);
    };
    const auto interpolated = [&](int l) {
        const bool between = HALVE_Y && (!ALIKE || ODD_FIRST != (l % 2 != 0));  // two coarse lines, or twice the same
        const int lower = ALIKE ? (l + ODD_FIRST) / 2 : l * (1 + HALVE_Y);
        CoarsePack sum = next_coarse[lower];
        if (between) {
            const CoarsePack& next = next_coarse[lower + between];
#pragma unroll
            for (int n = 0; n < COARSE_WIDTH; ++n) {
#if WEIGHTED & 2
                sum.node[n] = weight_at(coarser.weights_y, FROM_LOWER, row + line + l, ny) * sum.node[n] +
                              weight_at(coarser.weights_y, FROM_UPPER, row + line + l, ny) * next.node[n];
#else
                sum.node[n] = (real)0.5 * (sum.node[n] + next.node[n]);
#endif
            }
        }
        return interpolate_line(sum, weights);
    };
    const auto store_plane = [&](int k, const Pack* lines) {
        if (!(own.owned && own.column < nx && k >= first && k < last)) return;
#pragma unroll
        for (int l = 0; l < ROWS; ++l) {
            if (owned_line[l])
                store_streaming(out + stride * k + (at_line(line_of[l]) + (offset_t)own.column), lines[l]);
        }
    };
    // Takes plane k of the residual. Its even planes are those of the coarser grid; the odd ones count for two. Gives
    // the coarse plane that it completes, for its lines to be joined after the next barrier; or none.
    const int none = -1;
    CoarsePack gathered[ROWS] = {};
    const auto restrict_plane = [&](int k, const Pack* lines) {
        const bool odd = k % 2 != 0;
        const bool complete = HALVE_S ? odd && k > first : k >= first && k < last;
#pragma unroll
        for (int l = 0; l < ROWS; ++l) {
            const CoarsePack restricted = restrict_line(lines[l], weights);
            if (!HALVE_S) gathered[l] = CoarsePack{};
            add(gathered[l], restricted, !HALVE_S ? (real)1 : weight_along(coarser, TO_LOWER, odd, k, nz));
            if (complete) tile.restricted[HALVE_S ? 0 : (unsigned)k % 2][line + l][lane] = gathered[l];
            if (HALVE_S && odd) {
                gathered[l] = CoarsePack{};
                add(gathered[l], restricted, weight_along(coarser, TO_UPPER, true, k, nz));
            }
        }
        return complete ? k >> HALVE_S : none;
    };
    const auto store_coarse_plane = [&](int k) {
        if (!own.owned || k >= coarser.nz) return;
        const bool fixed_plane = is_fixed(k, coarser.nz, RULE_SL, RULE_SU);
        const auto& lines = tile.restricted[HALVE_S ? 0 : (unsigned)k % 2];
#pragma unroll
        for (int l = 0; l < ROWS; ++l) {
            const int j = row + line + l;
            if (!owned_line[l] || (HALVE_Y && j % 2 != 0)) continue;
            CoarsePack sum = lines[line + l][lane];
            if (HALVE_Y) {
                const CoarsePack lower = lines[line + l - 1][lane], upper = lines[line + l + 1][lane];
#pragma unroll
                for (int n = 0; n < COARSE_WIDTH; ++n) {
#if WEIGHTED & 2
                    sum.node[n] = weight_at(coarser.weights_y, TO_LOWER, j, ny) * sum.node[n] +
                                  weight_at(coarser.weights_y, TO_UPPER, j - 1, ny) * lower.node[n] +
                                  weight_at(coarser.weights_y, TO_LOWER, j + 1, ny) * upper.node[n];
#else
                    sum.node[n] = (real)0.5 * sum.node[n] + (real)0.25 * (lower.node[n] + upper.node[n]);
#endif
                }
            }
            const int coarse_j = j >> HALVE_Y;
            store_coarse<EDGE>(coarser, coarse_stride * k + coarser.pitch * coarse_j, sum, coarse_own.column,
                               fixed_plane || is_fixed(coarse_j, coarser.ny, RULE_YL, RULE_YU));
        }
    };
#if LINKS
    int link_place[WIDTH];
    int link_line[ROWS + 1];
#pragma unroll
    for (int n = 0; n < WIDTH; ++n)
        link_place[n] = EDGE && IMAGES_X ? image_link(own.column + n, nx, RULE_XL, RULE_XU) : own.place[n];
#pragma unroll
    for (int l = 0; l <= ROWS; ++l) link_line[l] = image_link(row + line + l - 1, ny, RULE_YL, RULE_YU);
#endif
    // What varies at plane k of line l, whose links below along z are there already.
    const auto load_links = [&](int k, int l, Links& links) {
        const index_t plane = stride * image(k, nz, RULE_SL, RULE_SU);
#if LINKS
        links.x = load_nodes<EDGE, Pack>(a.links_x + plane + at_line(line_of[l]), link_place);
        links.y_below = load_nodes<EDGE, Pack>(a.links_y + plane + at_line(link_line[l]), own.place);
        links.y_above = load_nodes<EDGE, Pack>(a.links_y + plane + at_line(link_line[l + 1]), own.place);
        links.z_above = load_nodes<EDGE, Pack>(
            a.links_z + stride * image_link(k, nz, RULE_SL, RULE_SU) + at_line(line_of[l]), own.place);
#endif
#if REACTION
        links.c = load_nodes<EDGE, Pack>(a.reaction + plane + at_line(line_of[l]), own.place);
#endif
    };

    Pack lower[STAGES > 0 ? STAGES : 1][ROWS] = {};
    Pack centre[STAGES > 0 ? STAGES : 1][ROWS] = {};
    Pack source[STAGES + ZERO > 0 ? STAGES + ZERO : 1][ROWS] = {};
    Pack correction[ROWS] = {};
    Links links[ROWS] = {};
#pragma unroll
    for (int l = 0; l < ROWS; ++l) {
        load_along_x(a, own.column, links[l]);
        load_along_y(a, row + line + l, links[l]);
    }
    ask_for(begin);
    if (CORRECT) {
        ask_for_coarse(HALVE_S ? begin >> 1 : begin);
        if (HALVE_S) {
#pragma unroll
            for (int l = 0; l < ROWS; ++l) correction[l] = interpolated(l);
            if (begin % 2 != 0) ask_for_coarse((begin >> 1) + 1);
        }
    }
    int completed = none;
    // Images along x take registers that several steps at once would need.
    const int steps_at_once = EDGE && IMAGES_X ? 1 : UNROLL;
#pragma unroll steps_at_once
    for (int s = begin; s < end; ++s) {
        const bool between = CORRECT && HALVE_S && s % 2 != 0;  // two coarse planes
        const bool fixed_plane = (ZERO || CORRECT) && is_held(s, nz, RULE_SL, RULE_SU);
        Pack upper[ROWS];
#pragma unroll
        for (int l = 0; l < ROWS; ++l) {
#pragma unroll
            for (int t = STAGES + ZERO - 1; t > 0; --t) source[t][l] = source[t - 1][l];
            source[0][l] = next_f[l];
            upper[l] = next_u[l];
            Pack change = {};
            if (ZERO) {
                load_along_z(a, s, links[l]);
#pragma unroll
                for (int n = 0; n < WIDTH; ++n)
                    change.node[n] = scale_at(a, Place{0, own.column, row + line + l, s}, links[l], n, scale.of[0]) *
                                     next_f[l].node[n];
            }
            if (CORRECT) {
                change = correction[l];
                if (between || !HALVE_S) correction[l] = interpolated(l);
                if (!HALVE_S) change = correction[l];
                if (between) {
#pragma unroll
                    for (int n = 0; n < WIDTH; ++n) {
#if WEIGHTED_S
                        change.node[n] = weight_along(coarser, FROM_LOWER, true, s, nz) * change.node[n] +
                                         weight_along(coarser, FROM_UPPER, true, s, nz) * correction[l].node[n];
#else
                        change.node[n] = (real)0.5 * (change.node[n] + correction[l].node[n]);
#endif
                    }
                }
            }
            if (ZERO || CORRECT) {
                Links at_plane;
#if MASKED
                at_plane.c = load_nodes<EDGE, Pack>(
                    a.reaction + stride * image(s, nz, RULE_SL, RULE_SU) + at_line(line_of[l]), own.place);
#endif
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    const bool fixed = fixed_plane || fixed_line[l] || own.fixed[n] || is_masked(at_plane, n);
                    upper[l].node[n] += fixed ? (real)0 : change.node[n];
                }
            }
        }
        ask_for(s + 1);
        if (CORRECT && !between) ask_for_coarse(HALVE_S ? (s >> 1) + 1 : s + 1);
#if VARIES
#pragma unroll
        for (int l = 0; l < ROWS; ++l) load_links(s - 1, l, links[l]);
#endif
        if (STAGES > 0 || RESTRICT) __syncthreads();
        if (RESTRICT && completed != none) store_coarse_plane(completed);
#pragma unroll
        for (int t = 0; t < STAGES; ++t) {
            if (WRITES && RESIDUAL && t == SWEEPS) store_plane(s - SWEEPS, upper);
            const int k = s - t - 1;
            const bool fixed = is_held(k, nz, RULE_SL, RULE_SU);
            const auto& shown = tile.values[t][(unsigned)(s - begin + 1) % 2];
            auto& to_show = tile.values[t][(unsigned)(s - begin) % 2];
            Pack relaxed[ROWS];
#pragma unroll
            for (int l = 0; l < ROWS; ++l) {
                Pack residual;
                const Pack& middle = centre[t][l];
                // The outermost lines of a block lack a neighbour; what they give is never used.
                const Pack y_lower = l > 0 ? centre[t][l > 0 ? l - 1 : 0] : shown[shows > 0 ? shows - 1 : 0][lane];
                const Pack y_upper = l < ROWS - 1 ? centre[t][l < ROWS - 1 ? l + 1 : 0]
                                                  : shown[threadIdx.y + 1 < BLOCK_Y ? shows + SHOWN : shows][lane];
                const real from_left = lane_below(middle.node[WIDTH - 1], 1);
                const real from_right = lane_above(middle.node[0], 1);
                const Place at{0, own.column, row + line + l, k};
#if LINKS
                links[l].x_below = lane_below(links[l].x.node[WIDTH - 1], 1);
#endif
                load_along_z(a, k, links[l]);
#pragma unroll
                for (int n = 0; n < WIDTH; ++n) {
                    const real left = n == 0 ? from_left : middle.node[n > 0 ? n - 1 : 0];
                    const real right = n == WIDTH - 1 ? from_right : middle.node[n < WIDTH - 1 ? n + 1 : 0];
                    const real f_node = SOURCE ? source[t + ZERO][l].node[n] : (real)0;
                    const real source_weight = SOURCE_WEIGHT(t);
                    const bool holds = fixed || fixed_line[l] || own.fixed[n] || is_masked(links[l], n);
                    if (BY_SUM && !(RESIDUAL && t == SWEEPS) && !(NORM && t == STAGES - 1)) {
                        const real neighbour[6] = {
                            left, right, y_lower.node[n], y_upper.node[n], lower[t][l].node[n], upper[l].node[n]};
                        const real value = sweep_by_sum(a, at, links[l], n, f_node, middle.node[n], neighbour,
                                                        scale.of[t + ZERO], source_weight);
                        relaxed[l].node[n] = holds ? middle.node[n] : value;
                        continue;
                    }
                    const real au = apply_at(a, at, links[l], n, middle.node[n], left, right, y_lower.node[n],
                                             y_upper.node[n], lower[t][l].node[n], upper[l].node[n]);
                    const real r = residual.node[n] = holds ? (real)0 : residual_of(source_weight * f_node, au);
                    relaxed[l].node[n] = RESIDUAL && t == SWEEPS
                                             ? r
                                             : relax_at(a, at, links[l], n, middle.node[n], r, scale.of[t + ZERO]);
                }
                if (NORM && t == STAGES - 1 && own.owned && owned_line[l] && k >= first && k < last &&
                    counts(row + line + l, k, ny, nz)) {
#pragma unroll
                    for (int n = 0; n < WIDTH; ++n) {
                        if (!EDGE || own.column + n < nx) norms.add(residual.node[n]);
                    }
                }
            }
#pragma unroll
            for (int l = 0; l < ROWS; ++l) {
                if (l == 0 || l == ROWS - 1) to_show[l > 0 ? shows + SHOWN - 1 : shows][lane] = upper[l];
                lower[t][l] = centre[t][l];
                centre[t][l] = upper[l];
                upper[l] = relaxed[l];
                step_up(links[l]);
            }
        }
        if (WRITES && !RESIDUAL) store_plane(s - SWEEPS, upper);
        if (RESTRICT) completed = s - STAGES >= first - FURTHER_S ? restrict_plane(s - STAGES, upper) : none;
    }
    if (RESTRICT) {
        __syncthreads();
        if (completed != none) store_coarse_plane(completed);
    }
}

template <bool NORM>
__device__ __forceinline__ void pass(const real* u, const real* __restrict__ f, real* out, const Operator& a,
                                     const Coarser& coarser, const Scales& scale, double* partial, double* result) {
    if (!a.block.works) return;
    const int strip = (int)blockIdx.x * OWNED - MARGIN;
    const int row = block_along_y(a.nz, a.block) * LINES_OWNED - LINES_BELOW;
    const int first = band_along_z(a.nz, a.block) * MARCH;
    const int last = first + MARCH < a.nz ? first + MARCH : a.nz;
#if defined(POISSON_EMULATION)
    __shared__ Tile tile;
#else
    // A kernel cannot declare more than 48 KB.
    extern __shared__ Pack packs[];
    static_assert(sizeof(Tile) <= SHARED_BYTES, "a launch gives a block too little shared memory");
    Tile& tile = *reinterpret_cast<Tile*>(packs);
#endif
    Norms norms;
    if (row + LINES_BELOW < a.ny) {
        if (strip <= 0 || strip + STRIP >= a.nx)
            march<true, NORM>(u, f, out, a, coarser, scale, strip, row, first, last, tile, norms);
        else
            march<false, NORM>(u, f, out, a, coarser, scale, strip, row, first, last, tile, norms);
    }
    if (NORM) reduce_grid(norms.sum, norms.maximum, partial, result, a.block);
}

#endif
