// SPDX-License-Identifier: MIT
// Direct solution by fast transforms (poisson/backends/gpu/device_transforms.py): sine, cosine, quarter-wave and
// Fourier transforms of the lines of an array along one axis.
//
// Two lines at a time are the real and the imaginary part of one complex line of LENGTH values, so that every transform
// is a complex one of that length between a step before and a step after it; in both steps the values at p and LENGTH -
// p meet. The steps for sines and cosines are those of J. W. Cooley, P. A. W. Lewis and P. D. Welch, "The fast Fourier
// transform algorithm: programming considerations in the calculation of sine, cosine and Laplace transforms", J. Sound
// Vib. 12, 1970; those of quarter waves are J. Makhoul's, "A fast cosine transform in one and two dimensions", IEEE
// Trans. ASSP 28, 1980. Cells go to their modes of type II as quarter waves go back to nodes, and back as those go to
// their modes; native/transforms/line_work.h says how sines and the transform of type IV follow.
//
// poisson_transform does all of it in shared memory: a line is read and written once (factors.h has the complex
// transform). For lines that are too long for that, poisson_transform_gather and poisson_transform_scatter are the
// steps before and after a transform by the vendor's library, on complex lines in memory.
//
// Options, beside those of the prelude: AXIS (0 is x), LENGTH, KIND (transform_lines.h numbers them), REVERSED (1:
// position p is node LENGTH - p), FORWARD, BACKWARD (from nodes to modes and back; both: with the division by the
// eigenvalues between them), DIVIDE (of scatter, 1: that division), RADICES and PADDED (factors.h), GIVEN (the type of
// values in the memory of the caller that are read). A block has BLOCK_Y pairs of lines with BLOCK_X threads each: a
// multiple of 32, or a power of two that divides 32; threads of a block fill whole groups of 32.

#ifdef GIVEN
#define FROM_PARAMETERS const GIVEN *from, index_t from_pitch, index_t from_plane, double shift
#else
#define FROM_PARAMETERS const real *from, index_t from_pitch, index_t from_plane, double shift
#endif
#define FROM (Values{from, from_pitch, from_plane, shift})

#ifndef DIVIDE
#define DIVIDE 0
#endif

// The eigenvalues by node of each axis, and what divides them: modes are multiplied by scale / eigenvalue, or by zero.
struct Spectrum {
    const real* x;
    const real* y;
    const real* z;
    real scale;

    __device__ __forceinline__ real along(int node) const { return (AXIS == 0 ? x : AXIS == 1 ? y : z)[node]; }
    __device__ __forceinline__ real across(const Place& line) const {
        real sum = 0;
        if (AXIS != 0) sum += x[line.i];
        if (AXIS != 1) sum += y[line.j];
        if (AXIS != 2) sum += z[line.k];
        return sum;
    }
    __device__ __forceinline__ real factor(real eigenvalue) const {
        return eigenvalue > 0 ? scale / eigenvalue : (real)0;
    }
};

template <class AnyLine>
__device__ __forceinline__ void divide(const Layout& a, index_t group, const AnyLine& line, const Spectrum& spectrum) {
    const Place first = place_of(a, group, 2 * threadIdx.y), second = place_of(a, group, 2 * threadIdx.y + 1);
    const real of_first = first.live ? spectrum.across(first) : (real)0;
    const real of_second = second.live ? spectrum.across(second) : (real)0;
    for (int p = START + afresh(threadIdx.x); p < STOP; p += BLOCK_X) {
        const real along = spectrum.along(mode_of(p));
        Complex& value = KIND == COSINE && p == LENGTH ? *line.last : line[p];
        value.re *= spectrum.factor(of_first + along);
        value.im *= spectrum.factor(of_second + along);
    }
}

// ---- sums over the threads of a pair of lines

// The sum over the threads of the same pair up to this one. Every thread of the block must call it.
__device__ __forceinline__ Complex sum_up_to_here(Complex value, Complex* totals) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int offset = 1; offset < (BLOCK_X < 32 ? BLOCK_X : 32); offset *= 2) {
        const Complex other = {lane_below(value.re, offset), lane_below(value.im, offset)};
        if (lane >= offset) value = value + other;
    }
    if (BLOCK_X <= 32) return value;
    const int groups = (BLOCK_X + 31) / 32;
    if (lane == 31) totals[groups * threadIdx.y + threadIdx.x / 32] = value;
    __syncthreads();
    Complex before = {0, 0};
    for (int group = 0; group < (int)threadIdx.x / 32; ++group) before = before + totals[groups * threadIdx.y + group];
    return before + value;
}

// ---- before and after a complex transform, in place

// Whether the spectrum of the complex line gives quarter waves, or the other way round.
template <bool TO_MODES>
__device__ __forceinline__ constexpr bool to_waves() {
    return KIND == CELL_QUARTER || (TYPE_TWO && TO_MODES) || (KIND == QUARTER && !TO_MODES);
}
template <bool TO_MODES>
__device__ __forceinline__ constexpr bool from_waves() {
    return (TYPE_TWO && !TO_MODES) || (KIND == QUARTER && TO_MODES);
}

// The opposite sign at odd cells, which makes sines of type II of cosines.
template <class AnyLine>
__device__ __forceinline__ void turn_odd_cells(const AnyLine& line) {
    for (int p = (LENGTH + 1) / 2 + afresh(threadIdx.x); p < LENGTH; p += BLOCK_X) line[p] = (real)-1 * line[p];
}

// The cosine and the sine of an angle of `turns`: e^(-i pi p / LENGTH), for quarter waves e^(-i pi p / (2 LENGTH)).
template <bool TO_MODES, class AnyLine>
__device__ __forceinline__ void before_transform(const AnyLine& line, const Complex* turns, Complex* totals) {
    if (KIND == CELL_SINE && TO_MODES) turn_odd_cells(line);
    if (KIND == CELL_QUARTER) {
        for (int p = afresh(threadIdx.x); p < LENGTH; p += BLOCK_X) line[p] = turns[LENGTH + p].re * line[p];
    }
    if (to_waves<TO_MODES>()) return;
    if (KIND == FOURIER && TO_MODES) return;
    Complex first_odd = {0, 0};
    for (int p = afresh(threadIdx.x); p <= LENGTH / 2; p += BLOCK_X) {
        const int q = LENGTH - p;
        if (KIND == SINE) {
            if (p == 0) {
                line[0] = Complex{0, 0};
                continue;
            }
            const Complex a = line[p], b = line[q];
            const Complex even = -turns[p].im * (a + b), odd = (real)0.5 * (a - b);
            line[p] = even + odd;
            if (q != p) line[q] = even - odd;
        } else if (KIND == COSINE) {
            const Complex turn = turns[p];
            const Complex a = line[p], b = p == 0 ? *line.last : line[q];
            const Complex even = (real)0.5 * (a + b), odd = -turn.im * (a - b);
            first_odd = first_odd + (p == 0 ? (real)0.5 : turn.re) * (a - b);
            line[p] = even - odd;
            if (p != 0 && q != p) line[q] = even + odd;
        } else if (from_waves<TO_MODES>()) {
            const Complex turn = turns[p];
            const Complex a = line[p];
            if (p == 0) {
                line[0] = conjugate(a);
                continue;
            }
            const Complex b = line[q];
            line[p] = turn * Complex{a.re + b.im, b.re - a.im};
            if (q != p) line[q] = Complex{-turn.im, -turn.re} * Complex{b.re + a.im, a.re - b.im};
        } else {
            const Complex a = line[p];
            if (p == 0 || p == q) {
                line[p] = conjugate(a);
                continue;
            }
            const Complex b = line[q];
            line[p] = Complex{a.re - b.im, -(b.re + a.im)};
            line[q] = Complex{a.re + b.im, b.re - a.im};
        }
    }
    if (KIND == COSINE) {
        // The first odd coefficient; no thread reads what lies there any more once the sum is done.
        const Complex sum = sum_up_to_here(first_odd, totals);
        __syncthreads();
        if (threadIdx.x == BLOCK_X - 1) *line.last = sum;
    }
}

// The spectra of the two lines at a frequency from that of the complex line, a, and at the opposite one, b.
__device__ __forceinline__ Complex first_of(Complex a, Complex b) {
    return (real)0.5 * Complex{a.re + b.re, a.im - b.im};
}
__device__ __forceinline__ Complex second_of(Complex a, Complex b) {
    return (real)0.5 * Complex{a.im + b.im, b.re - a.re};
}

// At frequency k of sines and cosines: the coefficient 2 k of both lines, and by how much the next one, 2 k + 1, is
// larger than the last one before it with an odd number.
struct Coefficients {
    Complex even, step;
};

template <class AnyLine>
__device__ __forceinline__ Coefficients coefficients_of(const AnyLine& line, int k) {
    const Complex a = line[k], b = line[k == 0 ? 0 : LENGTH - k];
    const Complex one = first_of(a, b), two = second_of(a, b);
    const Complex real_parts = {one.re, two.re}, others = {-one.im, -two.im};
    if (KIND == SINE) return {others, (k > 0 ? (real)1 : (real)0.5) * real_parts};
    return {real_parts, k > 0 ? others : *line.last};
}

// Frequencies with a coefficient of an odd number. Where LENGTH is even, the next one is its own opposite, and of
// cosines the last coefficient.
#define HALF ((LENGTH + 1) / 2)

// All coefficients, in the order of their numbers and in the place of the spectrum, which the threads hold meanwhile.
__device__ __forceinline__ void order_coefficients(const Line<true>& line, Complex* totals) {
    constexpr int EACH = (HALF + BLOCK_X - 1) / BLOCK_X;
    const int lane = afresh(threadIdx.x);
    Complex even[EACH], odd[EACH], sum = {0, 0};
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int k = EACH * lane + n;
        if (HALF % (EACH * BLOCK_X) && k >= HALF) continue;
        const Coefficients found = coefficients_of(line, k);
        sum = sum + found.step;
        even[n] = found.even;
        odd[n] = sum;
    }
    const Complex middle = line[LENGTH / 2];
    const Complex before = sum_up_to_here(sum, totals) - sum;
    __syncthreads();
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int k = EACH * lane + n;
        if (HALF % (EACH * BLOCK_X) && k >= HALF) continue;
        line[2 * k] = even[n];
        if (LENGTH % 2 == 0 || 2 * k + 1 < LENGTH) line[2 * k + 1] = before + odd[n];
        if (KIND == COSINE && LENGTH % 2 && 2 * k + 1 == LENGTH) *line.last = before + odd[n];
    }
    if (KIND == COSINE && LENGTH % 2 == 0 && threadIdx.x == 0) *line.last = middle;
}

// The same to another line, BLOCK_X frequencies after the others, for lines of any length.
__device__ __forceinline__ void order_coefficients(const Line<false>& line, const Line<false>& ordered,
                                                   Complex* totals) {
    __shared__ Complex carried[BLOCK_Y];
    const Complex middle = line[LENGTH / 2];
    Complex before = {0, 0};
    for (int first = 0; first < HALF; first += BLOCK_X) {
        const int k = first + threadIdx.x;
        Coefficients found = {{0, 0}, {0, 0}};
        if (k < HALF) found = coefficients_of(line, k);
        const Complex odd = before + sum_up_to_here(found.step, totals);
        if (threadIdx.x == BLOCK_X - 1) carried[threadIdx.y] = odd;
        __syncthreads();
        before = carried[threadIdx.y];
        if (k < HALF) {
            ordered[2 * k] = found.even;
            if (2 * k + 1 < LENGTH) ordered[2 * k + 1] = odd;
            if (KIND == COSINE && 2 * k + 1 == LENGTH) *ordered.last = odd;
        }
        __syncthreads();
    }
    if (KIND == COSINE && LENGTH % 2 == 0 && threadIdx.x == 0) *ordered.last = middle;
}

// The quarter wave of frequency k of both lines.
template <class AnyLine>
__device__ __forceinline__ Complex quarter_wave(const AnyLine& line, const Complex* turns, int k) {
    if (k == 0) return line[0];
    const int p = 2 * k <= LENGTH ? k : LENGTH - k;
    const Complex a = line[p], b = line[LENGTH - p];
    const Complex one = turns[p] * first_of(a, b), two = turns[p] * second_of(a, b);
    return p == k ? Complex{one.re, two.re} : Complex{-one.im, -two.im};
}

// Of type IV: mode k is twice the quarter wave k less mode k - 1, so that with the sign of k it is a sum of waves.
__device__ __forceinline__ real sign_of(int k) { return k % 2 ? (real)-1 : (real)1; }
template <class AnyLine>
__device__ __forceinline__ Complex term_of(const AnyLine& line, const Complex* turns, int k) {
    return (k == 0 ? (real)1 : 2 * sign_of(k)) * quarter_wave(line, turns, k);
}
__device__ __forceinline__ Complex mode_of_sum(Complex sum, int k) { return (REVERSED ? (real)1 : sign_of(k)) * sum; }

// The modes of type IV in the place of the spectrum, which the threads hold meanwhile.
__device__ __forceinline__ void sum_waves(const Line<true>& line, const Complex* turns, Complex* totals) {
    constexpr int EACH = (LENGTH + BLOCK_X - 1) / BLOCK_X;
    const int lane = afresh(threadIdx.x);
    Complex sums[EACH], sum = {0, 0};
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int k = EACH * lane + n;
        if (LENGTH % (EACH * BLOCK_X) && k >= LENGTH) continue;
        sum = sum + term_of(line, turns, k);
        sums[n] = sum;
    }
    const Complex before = sum_up_to_here(sum, totals) - sum;
    __syncthreads();
#pragma unroll
    for (int n = 0; n < EACH; ++n) {
        const int k = EACH * lane + n;
        if (LENGTH % (EACH * BLOCK_X) && k >= LENGTH) continue;
        line[position_of_cell(k)] = mode_of_sum(before + sums[n], k);
    }
}

// The same to another line, BLOCK_X modes after the others, for lines of any length.
__device__ __forceinline__ void sum_waves(const Line<false>& line, const Line<false>& ordered, const Complex* turns,
                                          Complex* totals) {
    __shared__ Complex carried[BLOCK_Y];
    Complex before = {0, 0};
    for (int first = 0; first < LENGTH; first += BLOCK_X) {
        const int k = first + threadIdx.x;
        Complex term = {0, 0};
        if (k < LENGTH) term = term_of(line, turns, k);
        const Complex sum = before + sum_up_to_here(term, totals);
        if (threadIdx.x == BLOCK_X - 1) carried[threadIdx.y] = sum;
        __syncthreads();
        before = carried[threadIdx.y];
        if (k < LENGTH) ordered[position_of_cell(k)] = mode_of_sum(sum, k);
        __syncthreads();
    }
}

// Of quarter waves, cells between walls of the same kind and the Fourier transform.
template <bool TO_MODES, class AnyLine>
__device__ __forceinline__ void after_transform(const AnyLine& line, const Complex* turns) {
    if (from_waves<TO_MODES>() || (KIND == FOURIER && !TO_MODES)) {
        // The transform was that of the conjugate. Quarter waves stay in the order in which the way back needs them.
        for (int p = threadIdx.x; p < LENGTH; p += BLOCK_X) {
            const bool turned = KIND == CELL_SINE && 2 * p >= LENGTH;
            line[p] = turned ? Complex{-line[p].re, line[p].im} : conjugate(line[p]);
        }
        return;
    }
    for (int p = 1 + afresh(threadIdx.x); p <= LENGTH / 2; p += BLOCK_X) {
        const int q = LENGTH - p;
        const Complex a = line[p], b = line[q];
        const Complex one = first_of(a, b), two = second_of(a, b);
        if (to_waves<TO_MODES>()) {
            const Complex first = turns[p] * one, second = turns[p] * two;
            line[p] = Complex{first.re, second.re};
            if (q != p) line[q] = Complex{-first.im, -second.im};
        } else if (q != p) {
            line[p] = Complex{one.re, two.re};
            line[q] = Complex{one.im, two.im};
        }
    }
}

#ifdef RADICES

// `roots` is e^(-2 pi i k / PADDED), with the tables of a convolution behind. Lines that hold no unknowns are not
// written.
KERNEL poisson_transform(FROM_PARAMETERS, real* to, int nx, int ny, int nz, index_t pitch, int start_x, int stop_x,
                         int start_y, int stop_y, int start_z, int stop_z, const real* roots_, const real* turns_,
                         const real* spectrum_x, const real* spectrum_y, const real* spectrum_z, real scale) {
#if defined(POISSON_EMULATION)
    __shared__ Complex values[BLOCK_Y * LINE_VALUES];
#else
    extern __shared__ Complex values[];
#endif
    __shared__ Complex totals[THREADS / 32];
    const Layout a = {nx, ny, nz, pitch, start_x, stop_x, start_y, stop_y, start_z, stop_z};
    const Complex* const roots = reinterpret_cast<const Complex*>(roots_);
    const Complex* const turns = reinterpret_cast<const Complex*>(turns_);
    const index_t group = blockIdx.x;
    const auto line_of = [&](int pair) {
        Complex* const first = values + LINE_VALUES * pair;
        return Line<true>{first, first + spaced(PADDED)};
    };
    const Line<true> line = line_of(threadIdx.y);
    load_lines<FORWARD>(a, group, FROM, line_of);
    __syncthreads();
    // One code for both ways.
#pragma unroll 1
    for (int back = FORWARD ? 0 : 1; back <= BACKWARD; ++back) {
        if (FORWARD && back) {
            divide(a, group, line, Spectrum{spectrum_x, spectrum_y, spectrum_z, scale});
            __syncthreads();
        }
        if (KIND == SINE || KIND == COSINE || KIND == CELL_QUARTER || !back) {
            before_transform<true>(line, turns, totals);
        } else {
            before_transform<false>(line, turns, totals);
        }
        __syncthreads();
        TransformOf<RADICES>::apply(line, roots);
        if (KIND == SINE || KIND == COSINE) {
            order_coefficients(line, totals);
        } else if (KIND == CELL_QUARTER) {
            sum_waves(line, turns, totals);
        } else if (back) {
            after_transform<false>(line, turns);
        } else {
            after_transform<true>(line, turns);
        }
        __syncthreads();
    }
    store_lines<BACKWARD>(a, group, to, line_of);
}

#else

// ---- around a transform by the vendor's library: line `pair` of a group of blocks lies at lines[LENGTH * pair]

__device__ __forceinline__ Line<false> line_in_memory(real* lines, real* ends, index_t pair) {
    return {reinterpret_cast<Complex*>(lines) + LENGTH * pair, reinterpret_cast<Complex*>(ends) + pair};
}

// The lines from group `first` on, ready for the transform. `ends` has one complex value a pair of lines.
KERNEL poisson_transform_gather(FROM_PARAMETERS, real* lines, real* ends, index_t first, int nx, int ny, int nz,
                                index_t pitch, int start_x, int stop_x, int start_y, int stop_y, int start_z,
                                int stop_z, const real* turns) {
    __shared__ Complex totals[THREADS / 32];
    const Layout a = {nx, ny, nz, pitch, start_x, stop_x, start_y, stop_y, start_z, stop_z};
    const index_t pairs = BLOCK_Y * (index_t)blockIdx.x;
    const auto line_of = [&](int pair) { return line_in_memory(lines, ends, pairs + pair); };
    load_lines<FORWARD>(a, first + blockIdx.x, FROM, line_of);
    __syncthreads();
    before_transform<FORWARD>(line_of(threadIdx.y), reinterpret_cast<const Complex*>(turns), totals);
}

// Back to the array. Coefficients that come in another order are sorted to `ordered`, which is as large as `lines`.
KERNEL poisson_transform_scatter(real* lines, real* ends, real* ordered, real* to, index_t first, int nx, int ny,
                                 int nz, index_t pitch, int start_x, int stop_x, int start_y, int stop_y, int start_z,
                                 int stop_z, const real* turns, const real* spectrum_x, const real* spectrum_y,
                                 const real* spectrum_z, real scale) {
    __shared__ Complex totals[THREADS / 32];
    const Layout a = {nx, ny, nz, pitch, start_x, stop_x, start_y, stop_y, start_z, stop_z};
    const index_t pairs = BLOCK_Y * (index_t)blockIdx.x;
    const bool orders = KIND == SINE || KIND == COSINE || KIND == CELL_QUARTER;
    const auto line_of = [&](int pair) { return line_in_memory(orders ? ordered : lines, ends, pairs + pair); };
    const Line<false> line = line_of(threadIdx.y);
    const Line<false> spectrum = line_in_memory(lines, ends, pairs + threadIdx.y);
    if (KIND == CELL_QUARTER) {
        sum_waves(spectrum, line, reinterpret_cast<const Complex*>(turns), totals);
    } else if (orders) {
        order_coefficients(spectrum, line, totals);
    } else {
        after_transform<FORWARD>(line, reinterpret_cast<const Complex*>(turns));
    }
    __syncthreads();
    if (DIVIDE) {
        divide(a, first + blockIdx.x, line, Spectrum{spectrum_x, spectrum_y, spectrum_z, scale});
        __syncthreads();
    }
    store_lines<!FORWARD>(a, first + blockIdx.x, to, line_of);
}

// ---- boundary values

// What the fixed nodes of one face contribute to the equations of their neighbours: f += weight u. Nodes of the face
// lie at origin + stride_a a + stride_b b, their neighbours `inward` from there; those that are not fixed have a and b
// in the ranges given.
KERNEL poisson_transform_boundary(real* __restrict__ f, const real* __restrict__ u, index_t origin, index_t inward,
                                  index_t stride_a, int start_a, int stop_a, index_t stride_b, int start_b, int stop_b,
                                  real weight) {
    const index_t number = threadIdx.x + (index_t)THREADS * blockIdx.x;
    const int count = stop_a - start_a;
    const int a = start_a + (int)(number % count);
    const index_t b = start_b + number / count;
    if (b >= stop_b) return;
    const index_t node = origin + stride_a * a + stride_b * b;
    f[node + inward] += weight * u[node];
}

#endif
