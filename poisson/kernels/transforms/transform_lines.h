// SPDX-License-Identifier: MIT
// The lines of an array along one axis, as the transforms of transform.hip see them: where they lie in the array and in
// shared memory, and the way from one to the other. transform.hip has the options.

#define SINE 0
#define COSINE 1
#define QUARTER 2
#define FOURIER 3
#define CELL_COSINE 4
#define CELL_QUARTER 5
#define CELL_SINE 6

#define CELLS (KIND >= CELL_COSINE)
// Equal cells between two walls of the same kind: transforms of type II, and of type III back.
#define TYPE_TWO (KIND == CELL_COSINE || KIND == CELL_SINE)

// The positions of nodes that are not fixed, and of modes: [START, STOP).
#define START (KIND == SINE ? 1 : 0)
#define STOP (KIND == COSINE ? LENGTH + 1 : LENGTH)

// The same number, but the compiler does not know that: places in memory that are computed from it are not kept in
// registers from one part of a kernel to another.
__device__ __forceinline__ int afresh(int number) {
#if defined(POISSON_EMULATION)
#elif defined(__HIP__) || defined(__HIPCC__)
    asm volatile("" : "+v"(number));
#else
    asm volatile("" : "+r"(number));
#endif
    return number;
}

// Values of a line in shared memory: one place in every 128 bytes stays empty, against conflicts of strided accesses.
#define GROUP (128 / (int)sizeof(Complex))
__device__ __forceinline__ int spaced(int p) { return p + p / GROUP; }
// Values of a line in shared memory: as many as it has, or as the convolution that transforms it.
#ifndef PADDED
#define PADDED LENGTH
#endif
// From one line to the next: pairs of lines that neighbouring threads write at the same position lie side by side.
#define SPREAD (BLOCK_Y < GROUP ? GROUP / BLOCK_Y : 1)
#define LINE_VALUES ((PADDED + PADDED / GROUP + GROUP) / GROUP * GROUP + SPREAD)

// A pair of lines; position LENGTH, where it has one, lies apart.
template <bool SPACED>
struct Line {
    Complex* values;
    Complex* last;

    __device__ __forceinline__ Complex& operator[](int p) const { return values[SPACED ? spaced(p) : p]; }
};

// ---- where the lines are

// The array: nodes along each axis, values from one row to the next, and of each axis the nodes [start, stop) that are
// not fixed.
struct Layout {
    int nx, ny, nz;
    index_t pitch;
    int start_x, stop_x, start_y, stop_y, start_z, stop_z;

    __device__ __forceinline__ index_t stride() const { return AXIS == 0 ? 1 : AXIS == 1 ? pitch : pitch * ny; }
};

// One line: its node 0, whether it holds unknowns, and its place on the axes other than AXIS.
struct Place {
    index_t origin;
    bool live;
    int i, j, k;
};

// The line `number` among those of a group of blocks: groups of 2 BLOCK_Y rows, or of as many neighbouring columns. The
// rows of a pair lie in one plane, so that its bits do not depend on other planes.
__device__ __forceinline__ Place place_of(const Layout& a, index_t group, int number) {
    Place line = {0, false, 0, 0, 0};
    if (AXIS == 0) {
        const int half = (a.ny + 1) / 2;
        const index_t pair = BLOCK_Y * group + number / 2, k = pair / half;
        line.j = 2 * (int)(pair % half) + number % 2;
        line.live = k < a.nz && line.j < a.ny;
        line.k = line.live ? (int)k : 0;
    } else {
        const int groups = (a.nx + 2 * BLOCK_Y - 1) / (2 * BLOCK_Y);
        line.i = (int)(group % groups) * 2 * BLOCK_Y + number;
        (AXIS == 1 ? line.k : line.j) = (int)(group / groups);
        line.live = line.i < a.nx;
    }
    if (AXIS != 0) line.live = line.live && line.i >= a.start_x && line.i < a.stop_x;
    if (AXIS != 1) line.live = line.live && line.j >= a.start_y && line.j < a.stop_y;
    if (AXIS != 2) line.live = line.live && line.k >= a.start_z && line.k < a.stop_z;
    line.origin = line.i + a.pitch * (line.j + (index_t)a.ny * line.k);
    return line;
}

// Where node `n` lies on a line, or the other way round: a node lies at its number, or at LENGTH less its number. Of
// cells the even ones come first, and then the odd ones backwards.
__device__ __forceinline__ int node_of(int position) { return REVERSED ? LENGTH - position : position; }
__device__ __forceinline__ int position_of_cell(int cell) {
    const int n = REVERSED ? LENGTH - 1 - cell : cell;
    return n % 2 ? LENGTH - 1 - n / 2 : n / 2;
}
__device__ __forceinline__ int cell_of(int position) {
    const int n = 2 * position < LENGTH ? 2 * position : 2 * (LENGTH - position) - 1;
    return REVERSED ? LENGTH - 1 - n : n;
}

// The place in the array of the mode at a position. Those of type II and III lie in the order of their frequencies, and
// the others as the nodes do.
__device__ __forceinline__ int mode_of(int position) {
    return TYPE_TWO ? position : CELLS ? cell_of(position) : node_of(position);
}

// Calls visit(pair, part, p, place) for every position of the lines of a block, or every cell: threads that run
// together visit neighbours in memory. The part of a pair is 0 or 1.
template <class Visit>
__device__ __forceinline__ void for_each_value(const Layout& a, index_t group, Visit visit) {
    if (AXIS == 0) {
        for (int part = 0; part < 2; ++part) {
            const Place line = place_of(a, group, 2 * threadIdx.y + part);
            for (int p = START + afresh(threadIdx.x); p < STOP; p += BLOCK_X) visit(threadIdx.y, part, p, line);
        }
    } else {
        const int thread = afresh(threadIdx.x + BLOCK_X * threadIdx.y);
        const int column = thread % (2 * BLOCK_Y);
        const Place line = place_of(a, group, column);
        for (int p = START + thread / (2 * BLOCK_Y); p < STOP; p += BLOCK_X / 2) visit(column / 2, column % 2, p, line);
    }
}

__device__ __forceinline__ real& part_of(Complex& value, int part) { return part ? value.im : value.re; }

// Where number p of for_each_value lies in the array, and on its line; NODES says whether the array has nodes, or
// modes.
__device__ __forceinline__ int place_in_array(int p) { return CELLS ? p : node_of(p); }
template <bool NODES>
__device__ __forceinline__ int place_on_line(int p) {
    return CELLS && (NODES || !TYPE_TWO) ? position_of_cell(p) : p;
}

// Where values come from: rows and planes of an array of the backend, or in the memory of the caller (GIVEN), from
// which `shift` is subtracted.
struct Values {
#ifdef GIVEN
    const GIVEN* from;
#else
    const real* from;
#endif
    index_t pitch, plane;
    double shift;

    __device__ __forceinline__ real at(const Place& line, int node) const {
        const index_t along = (AXIS == 0 ? 1 : AXIS == 1 ? pitch : plane) * node;
#ifdef GIVEN
        return (real)((double)from[line.i + pitch * line.j + plane * line.k + along] - shift);
#else
        return from[line.origin + along];
#endif
    }
};

// From an array to lines; what holds no unknowns is zero. line_of(pair) is the line.
template <bool NODES, class LineOf>
__device__ __forceinline__ void load_lines(const Layout& a, index_t group, const Values& from, LineOf line_of) {
    for_each_value(a, group, [&](int pair, int part, int p, const Place& place) {
        const auto line = line_of(pair);
        Complex& to = KIND == COSINE && p == LENGTH ? *line.last : line[place_on_line<NODES>(p)];
        part_of(to, part) = place.live ? from.at(place, place_in_array(p)) : (real)0;
    });
}

// From lines to the array.
template <bool NODES, class LineOf>
__device__ __forceinline__ void store_lines(const Layout& a, index_t group, real* to, LineOf line_of) {
    const index_t stride = a.stride();
    for_each_value(a, group, [&](int pair, int part, int p, const Place& place) {
        const auto line = line_of(pair);
        Complex& from = KIND == COSINE && p == LENGTH ? *line.last : line[place_on_line<NODES>(p)];
        if (place.live) to[place.origin + stride * place_in_array(p)] = part_of(from, part);
    });
}
