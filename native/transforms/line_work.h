// SPDX-License-Identifier: MIT
// Sine, cosine, quarter-wave and Fourier transforms of lines of an array, by one thread.
//
// Two lines are the real and the imaginary part of one complex line, as in kernels/transforms/transform.hip, which says
// where the steps before and after the complex transform come from; here so many pairs of lines as a register has lanes
// go together, and the work of a thread stays in its cache.
#ifndef POISSON_LINE_WORK_H
#define POISSON_LINE_WORK_H

#include "core/formulas.h"
#include "poisson.h"
#include "transforms/plan.h"

enum LineKind { SINE = 0, COSINE = 1, QUARTER = 2, FOURIER = 3, CELL_COSINE = 4, CELL_QUARTER = 5, CELL_SINE = 6 };

// The nodes of an axis that are not fixed.
struct Range {
    int64_t start, stop;

    Range(const poisson_operator& a, int axis)
        : start(a.rule[2 * axis] == FIXED), stop(a.shape[axis] - (a.rule[2 * axis + 1] == FIXED)) {}
    int64_t count() const { return stop - start; }
};

// Memory for the lines of one thread, and what is done with them. Position p of a line is node p, or node LENGTH - p.
//
// Of cells the even nodes come first, and then the odd ones backwards: the transform of type II of n of them is the
// quarter wave of their complex transform, and the way back is that of a quarter wave to its modes (J. Makhoul, "A fast
// cosine transform in one and two dimensions", IEEE Transactions on Acoustics, Speech, and Signal Processing 28, 1980).
// Sines of type II are cosines with the opposite sign at odd nodes, their modes in reverse order. Those of type IV, Y,
// follow from the cosines X of type II of the values times 2 cos(pi (p + 1/2) / 2 n), as X(k) = Y(k) + Y(k - 1).
template <class T>
struct LineWork {
    static constexpr int64_t WIDTH = WIDE<T>;

    const poisson_line* line;
    const Root<T>* turns;
    Lines<T>* values;
    Lines<T> first_odd = {};  // of cosines: the coefficient 1

    // In memory of bytes_of(line), aligned to a register.
    LineWork(const poisson_line* line_, void* memory)
        : line(line_), turns(static_cast<const Root<T>*>(line_->turns)), values(static_cast<Lines<T>*>(memory)) {}
    static int64_t bytes_of(const poisson_line* line) {
        return (line->length + 1 + line->room) * int64_t(sizeof(Lines<T>));
    }

    int64_t length() const { return line->length; }
    bool cells() const { return line->kind >= CELL_COSINE; }
    // Whether what comes in is in the order of the nodes of cells, and what goes out in that of waves.
    bool to_waves(bool to_modes) const { return cells() && (to_modes || line->kind == CELL_QUARTER); }
    int64_t position(int64_t node) const {
        if (!cells()) return line->reversed ? line->length - node : node;
        const int64_t p = line->reversed ? line->length - 1 - node : node;
        return p % 2 ? line->length - 1 - p / 2 : p / 2;
    }
    int64_t place_of_input(int64_t node, bool to_modes) const {
        return cells() && !to_waves(to_modes) ? node : position(node);
    }

    // ---- from values at positions to what the complex transform takes; `gain` says how many times that it is

    void before(bool to_modes) {
        const int64_t n = length();
        if (line->kind == SINE) {
            values[0] = Lines<T>{};
            for_each_pair([&](int64_t p, Lines<T>& a, Lines<T>& b) {
                const Lines<T> even = T(-2) * turns[p].im * (a + b), odd = a - b;
                b = even - odd;
                a = even + odd;
            });
        } else if (line->kind == COSINE) {
            first_odd = values[0] - values[n];
            values[0] = values[0] + values[n];
            for_each_pair([&](int64_t p, Lines<T>& a, Lines<T>& b) {
                const Lines<T> even = a + b, difference = a - b, odd = T(-2) * turns[p].im * difference;
                first_odd = first_odd + T(2) * turns[p].re * difference;
                b = even + odd;
                a = even - odd;
            });
        } else if (line->kind == CELL_QUARTER) {
            for (int64_t p = 0; p < n; ++p) values[p] = turns[n + p].re * values[p];
        } else if (to_waves(to_modes)) {
            for (int64_t p = (n + 1) / 2; line->kind == CELL_SINE && p < n; ++p) values[p] = T(-1) * values[p];
        } else if (cells() || (line->kind == QUARTER && to_modes)) {
            values[0] = conjugate(values[0]);
            for_each_pair([&](int64_t p, Lines<T>& a, Lines<T>& b) {
                const Root<T> turn = turns[p], opposite = {-turn.im, -turn.re};
                const Lines<T> one = {a.re + b.im, b.re - a.im}, two = {b.re + a.im, a.re - b.im};
                b = opposite * two;
                a = turn * one;
            });
        } else if (line->kind == FOURIER && !to_modes) {
            values[0] = conjugate(values[0]);
            if (n % 2 == 0) values[n / 2] = conjugate(values[n / 2]);
            for (int64_t p = 1; 2 * p < n; ++p) {
                const Lines<T> a = values[p], b = values[n - p];
                values[p] = Lines<T>{a.re - b.im, -(b.re + a.im)};
                values[n - p] = Lines<T>{a.re + b.im, b.re - a.im};
            }
        }
    }

    // Calls visit(p, value at p, value at LENGTH - p) for 0 < p <= LENGTH / 2; in the middle both are the same value.
    template <class Visit>
    void for_each_pair(Visit visit) {
        const int64_t n = length();
        int64_t p = 1;
        for (; 2 * p < n; ++p) visit(p, values[p], values[n - p]);
        if (2 * p == n) {
            Lines<T> opposite = values[p];
            visit(p, values[p], opposite);
        }
    }

    // ---- from the complex transform to values at positions

    // Twice the spectra of both lines at frequency k.
    POISSON_INLINE void spectra(int64_t k, Lines<T>& one, Lines<T>& two) const {
        const Lines<T>&a = values[line->order[k]], &b = values[line->order[k == 0 ? 0 : length() - k]];
        one = {a.re + b.re, a.im - b.im};
        two = {a.im + b.im, b.re - a.re};
    }

    // What `before` and `after` multiply by: factors of two are left to the scale of the result.
    T gain(bool to_modes) const {
        if (line->kind == SINE || line->kind == COSINE) return T(4);
        return (line->kind == CELL_QUARTER || (line->kind == QUARTER) != to_modes) ? T(2) : T(1);
    }

    // Calls put(node, values) for every node, in ascending order. Put may be called for fixed nodes.
    template <class Put>
    POISSON_INLINE void after(bool to_modes, Put put) const {
        const int64_t n = length();
        if (line->kind == SINE || line->kind == COSINE) {
            coefficients(put);
        } else if (to_waves(to_modes)) {
            Lines<T> sum = {};
            for (int64_t k = 0; k < n; ++k) {
                const Lines<T> wave = quarter_wave(k);
                sum = line->kind == CELL_QUARTER && k > 0 ? T(2) * wave - sum : wave;
                put(k, line->reversed && k % 2 ? T(-1) * sum : sum);
            }
        } else if (line->kind == QUARTER && !to_modes) {
            for (int64_t node = 0; node <= n; ++node) put(node, quarter_wave(position(node) % n));
        } else if (line->kind == FOURIER && to_modes) {
            for (int64_t p = 0; p < n; ++p) put(p, half_spectrum(p));
        } else {
            const int64_t nodes = nodes_of_line();
            for (int64_t node = 0; node < nodes; ++node) {
                const Lines<T> value = conjugate(values[line->order[position(node) % n]]);
                put(node, line->kind == CELL_SINE && node % 2 ? T(-1) * value : value);
            }
        }
    }

    // Even coefficients are the values of a spectrum, odd ones the sums of its other parts up to there: those at 2 k
    // and 2 k + 1, for one k after the other.
    POISSON_INLINE void pair_of_coefficients(int64_t k, Lines<T>& even, Lines<T>& odd) const {
        Lines<T> one, two;
        spectra(k, one, two);
        const Lines<T> real_parts = {one.re, two.re}, others = {-one.im, -two.im};
        if (line->kind == SINE) {
            even = others;
            odd = odd + (k > 0 ? T(1) : T(0.5)) * real_parts;
        } else {
            even = real_parts;
            odd = k > 0 ? odd + others : T(2) * first_odd;
        }
    }

    template <class Put>
    POISSON_INLINE void coefficients(Put put) const {
        const int64_t n = length();
        Lines<T> even, odd = {};
        for (int64_t k = 0; 2 * k <= n; ++k) {
            pair_of_coefficients(k, even, odd);
            put(2 * k, even);
            if (2 * k < n) put(2 * k + 1, odd);
        }
    }

    POISSON_INLINE Lines<T> quarter_wave(int64_t p) const {
        const bool upper = 2 * p > length();
        const int64_t k = upper ? length() - p : p;
        Lines<T> one, two;
        spectra(k, one, two);
        one = turns[k] * one;
        two = turns[k] * two;
        return upper ? Lines<T>{-one.im, -two.im} : Lines<T>{one.re, two.re};
    }

    POISSON_INLINE Lines<T> half_spectrum(int64_t p) const {
        const bool upper = 2 * p > length();
        Lines<T> one, two;
        spectra(upper ? length() - p : p, one, two);
        return upper ? Lines<T>{one.im, two.im} : Lines<T>{one.re, two.re};
    }

    template <class Do>
    POISSON_INLINE static void for_lanes(Do do_for) {
        for_lanes_of<T>(do_for, std::make_integer_sequence<int, int(WIDTH)>{});
    }

    // ---- rows of the array: the lines are rows[0], …; those beyond `count` are zero

    void take_rows(T* const* rows, int64_t count, bool to_modes) {
        const int64_t all = nodes_of_line(), step = line->reversed ? -2 : 2;
        for (int64_t part = 0; part < 2; ++part) {
            const int64_t live = count - part * WIDTH;
            for (int64_t node = 0; node < all; node += WIDTH) {
                Lines<T>& at = values[cells() ? 0 : position(node)];
                Wide<T>* const to = part ? &at.im : &at.re;
                if (cells()) {
                    Wide<T> square[WIDTH] = {};
                    for (int64_t lane = 0; lane < WIDTH && lane < live; ++lane)
                        square[lane] = load<WIDTH>(rows[part * WIDTH + lane] + node);
                    mirror_square<T>(square);
                    for (int64_t n = 0; n < WIDTH && n < all - node; ++n)
                        to[2 * place_of_input(node + n, to_modes)] = square[n];
                    continue;
                }
                if (live >= WIDTH && node + WIDTH <= all) {
                    Wide<T> square[WIDTH];
                    for_lanes([&](auto lane) { square[lane] = load<WIDTH>(rows[part * WIDTH + lane] + node); });
                    mirror_square<T>(square);
                    for_lanes([&](auto lane) { to[step * lane] = square[lane]; });
                } else {
                    Wide<T> square[WIDTH] = {};
                    for (int64_t lane = 0; lane < WIDTH && lane < live; ++lane)
                        square[lane] = load<WIDTH>(rows[part * WIDTH + lane] + node);
                    mirror_square<T>(square);
                    for (int64_t n = 0; n < WIDTH && n < all - node; ++n) to[step * n] = square[n];
                }
            }
        }
    }

    // Rows of a square to those of the array; some of its values may be those of no line or node.
    void put_square(Wide<T>* square, T* const* rows, int64_t count, int64_t first, const Range& nodes) const {
        mirror_square<T>(square);
        for (int64_t lane = 0; lane < WIDTH && lane < count; ++lane)
            put(rows[lane] + first, square[lane], nodes.start - first, nodes.stop - first);
    }

    // The same where it is whole.
    POISSON_INLINE void put_square(Wide<T>* square, T* const* rows, int64_t first) const {
        mirror_square<T>(square);
        for_lanes([&](auto lane) { store(rows[lane] + first, square[lane]); });
    }

    void put_rows(T* const* rows, int64_t count, const Range& nodes, bool to_modes, T scale) const {
        scale /= gain(to_modes);
        const int64_t all = nodes_of_line();
        if (line->kind == SINE || line->kind == COSINE) {
            Lines<T> even, odd = {};
            for (int64_t first = 0; first < all; first += WIDTH) {
                if (nodes.start <= first && first + WIDTH <= nodes.stop && count == 2 * WIDTH) {
                    Wide<T> re[WIDTH], im[WIDTH];
                    for_lanes([&](auto lane) __attribute__((always_inline)) {
                        if constexpr (lane % 2 == 0) pair_of_coefficients((first + lane) / 2, even, odd);
                        re[lane] = scale * (lane % 2 ? odd : even).re;
                        im[lane] = scale * (lane % 2 ? odd : even).im;
                    });
                    put_square(re, rows, first);
                    put_square(im, rows + WIDTH, first);
                } else {
                    Wide<T> re[WIDTH], im[WIDTH];
                    for (int64_t lane = 0; lane < WIDTH && lane < all - first; ++lane) {
                        if (lane % 2 == 0) pair_of_coefficients((first + lane) / 2, even, odd);
                        re[lane] = scale * (lane % 2 ? odd : even).re;
                        im[lane] = scale * (lane % 2 ? odd : even).im;
                    }
                    put_square(re, rows, count, first, nodes);
                    put_square(im, rows + WIDTH, count - WIDTH, first, nodes);
                }
            }
            return;
        }
        Wide<T> re[WIDTH], im[WIDTH];
        after(to_modes, [&](int64_t node, const Lines<T>& value) __attribute__((always_inline)) {
            re[node % WIDTH] = scale * value.re;
            im[node % WIDTH] = scale * value.im;
            if ((node + 1) % WIDTH && node + 1 < all) return;
            const int64_t first = node / WIDTH * WIDTH;
            put_square(re, rows, count, first, nodes);
            put_square(im, rows + WIDTH, count - WIDTH, first, nodes);
        });
    }

    void transform_rows(T* const* rows, int64_t count, const Range& nodes, bool to_modes, T scale) {
        take_rows(rows, count, to_modes);
        transform(to_modes);
        put_rows(rows, count, nodes, to_modes, scale);
    }

    // ---- columns of the array: neighbours from `first` on, of which those of [start, stop) are lines

    void transform_columns(T* first, int64_t start, int64_t stop, int64_t stride, const Range& nodes, bool to_modes,
                           T scale) {
        scale /= gain(to_modes);
        for (int64_t node = nodes.start; node < nodes.stop; ++node) {
            const T* const row = first + stride * node;
            Lines<T>& value = values[place_of_input(node, to_modes)];
            value.re = get(row, start, stop);
            value.im = get(row + WIDTH, start - WIDTH, stop - WIDTH);
        }
        transform(to_modes);
        after(to_modes, [&](int64_t node, const Lines<T>& value) __attribute__((always_inline)) {
            if (node < nodes.start || node >= nodes.stop) return;
            T* const row = first + stride * node;
            put(row, scale * value.re, start, stop);
            put(row + WIDTH, scale * value.im, start - WIDTH, stop - WIDTH);
        });
    }

    // A pack of a row of the array, which has the whole of it where one of its values is of [start, stop).
    static Wide<T> get(const T* from, int64_t start, int64_t stop) {
        if (start <= 0 && stop >= WIDTH) return load<WIDTH>(from);
        if (start >= WIDTH || stop <= 0) return Wide<T>{};
        return within(start, stop) ? load<WIDTH>(from) : Wide<T>{};
    }

    static void put(T* to, const Wide<T>& values, int64_t start, int64_t stop) {
        if (start <= 0 && stop >= WIDTH) return store(to, values);
        if (start >= WIDTH || stop <= 0) return;
        store(to, within(start, stop) ? values : load<WIDTH>(to));
    }

    static auto within(int64_t start, int64_t stop) {
        const Wide<T> lane = lane_numbers<T, WIDTH>();
        return (lane >= T(start)) & (lane < T(stop));
    }

    void transform(bool to_modes) {
        before(to_modes);
        Plan<T>{line, values + length() + 1}.transform(values);
    }

    int64_t nodes_of_line() const { return line->kind >= FOURIER ? length() : length() + 1; }
};

#endif
