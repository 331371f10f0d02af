// SPDX-License-Identifier: MIT
// Open faces (poisson/discrete/face_fields.py): the charges on all of them by class, products of matrices, and the
// fields. All tables and all room for products are parts of one array of doubles, `values`; `numbers` tells where.

// An axis: its nodes, and those of them that no data fix; its classes, the nodes of a class, and whether the middle
// lies between two nodes; what is at its ends; the values of u from a node to the next, and of classes from one to the
// next; where the weights of both links and of the node itself stand in `values`, and both neighbours in `numbers`, -1
// for none.
struct FaceLine {
    int nodes, start, stop, classes, half, between, kind;
    index_t step, stride, weights, neighbours;
};
#define FACE_LINE 11

// What is at the ends: modes; open at both; open above, or below, and a wall at the other end.
#define CLOSED 0
#define PAIR 1
#define OPEN_ABOVE 2
#define OPEN_BELOW 3

// The faces of an axis: their first block; this axis, the slower one of the others, and the other; where the classes
// stand in `values`, and the charges that f had on the lower and on the upper face.
#define FACE_PLANE 7

__device__ __forceinline__ FaceLine line_of(const index_t* numbers, index_t axis) {
    const index_t* const at = numbers + FACE_LINE * axis;
    return {(int)at[0], (int)at[1], (int)at[2], (int)at[3], (int)at[4], (int)at[5],
            (int)at[6], at[7],      at[8],      at[9],      at[10]};
}

// The node of a half of an axis, from the middle or the wall on; of two halves the upper one is 0.
__device__ __forceinline__ int node_of(const FaceLine& line, int half, int place) {
    if (line.kind == PAIR) return half ? line.half - 1 - place : line.nodes - line.half + place;
    if (line.kind == OPEN_ABOVE) return place;
    return line.kind == OPEN_BELOW ? line.nodes - 1 - place : line.start + place;
}

__device__ __forceinline__ bool is_free(const FaceLine& line, int node) {
    return node >= line.start && node < line.stop;
}

// Whether a node lies on an open face.
__device__ __forceinline__ bool is_open(const FaceLine& line, int node) {
    return (node == 0 && (line.kind == PAIR || line.kind == OPEN_BELOW)) ||
           (node == line.nodes - 1 && (line.kind == PAIR || line.kind == OPEN_ABOVE));
}

// The part of the values of a half in a class; the middle, which is in both, counts once.
__device__ __forceinline__ double share_of(const FaceLine& line, int sign, int half, int place) {
    if (line.kind == CLOSED) return 1.0;
    const double part = place == 0 && !line.between ? 0.5 : 1.0;
    return line.kind == PAIR ? (sign && half ? -part : part) : 2.0 * part;
}

// The links of a node to its neighbours along an axis, with zeros beyond open faces.
__device__ __forceinline__ double links_of(const FaceLine& line, const double* values, const index_t* numbers,
                                           const real* u, int node) {
    const double here = *u;
    double sum = values[line.weights + 2 * line.nodes + node] * here;
#pragma unroll
    for (int end = 0; end < 2; ++end) {
        const index_t next = numbers[line.neighbours + end * line.nodes + node];
        const double there = next < 0 ? 0.0 : (double)u[(next - node) * line.step];
        sum += values[line.weights + end * line.nodes + node] * (here - there);
    }
    return sum;
}

// The faces that a block belongs to, and the place of a thread in them.
struct FacePlace {
    FaceLine line, slow, fast;
    bool slow_before, fast_before;
    index_t classes, given[2];
    int number;

    __device__ __forceinline__ FacePlace(const index_t* numbers, int planes) {
        const index_t* at = numbers + 3 * FACE_LINE;
        for (int n = 1; n < planes && (int)blockIdx.x >= (int)at[FACE_PLANE]; ++n) at += FACE_PLANE;
        line = line_of(numbers, at[1]), slow = line_of(numbers, at[2]), fast = line_of(numbers, at[3]);
        slow_before = at[2] < at[1], fast_before = at[3] < at[1];
        classes = at[4], given[0] = at[5], given[1] = at[6];
        number = (int)(blockIdx.x - at[0]) * THREADS + threadIdx.x;
    }
    __device__ __forceinline__ index_t at(int node, int one, int other) const {
        return node * line.step + one * slow.step + other * fast.step;
    }
    // A node belongs to the first face that it lies on.
    __device__ __forceinline__ bool is_first(int one, int other) const {
        return !(slow_before && is_open(slow, one)) && !(fast_before && is_open(fast, other));
    }
    __device__ __forceinline__ bool is_live(int one, int other) const {
        return is_free(slow, one) && is_free(fast, other);
    }
    // The charge that u, continued by zeros, has too few at a node of a face, or one spacing beyond it.
    __device__ __forceinline__ double charge(const real* u, int node, int one, int other, int beyond, double c,
                                             const double* values, const index_t* numbers) const {
        const real* const here = u + at(node, one, other);
        if (beyond) return values[line.weights] * (double)*here;
        if (!is_first(one, other)) return 0;
        return values[(node ? given[1] : given[0]) + one * (index_t)fast.nodes + other] - c * (double)*here -
               links_of(line, values, numbers, here, node) - links_of(slow, values, numbers, here, one) -
               links_of(fast, values, numbers, here, other);
    }
};

#define FACE_ARGUMENTS double *values, const index_t *numbers, int planes, double c

// Moves the charges on open faces out of f into `values`, and makes u zero there if asked to.
KERNEL poisson_face_take(real* __restrict__ u, real* __restrict__ f, int empty, FACE_ARGUMENTS) {
    const FacePlace place(numbers, planes);
    if (place.number >= place.slow.nodes * place.fast.nodes) return;
    const int one = place.number / place.fast.nodes, other = place.number % place.fast.nodes;
    const bool first = place.is_first(one, other);
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
        const int node = upper ? place.line.nodes - 1 : 0;
        if (!is_open(place.line, node)) continue;
        const index_t at = place.at(node, one, other);
        values[place.given[upper] + place.number] = first ? (double)f[at] : 0.0;
        if (first) f[at] = 0;
        if (first && empty && place.is_live(one, other)) u[at] = 0;
    }
}

// The charges on the open faces, or one spacing beyond them, by class. A thread has a place on one face of each class.
KERNEL poisson_face_charges(const real* __restrict__ u, int beyond, FACE_ARGUMENTS) {
    const FacePlace place(numbers, planes);
    const FaceLine &line = place.line, &slow = place.slow, &fast = place.fast;
    if (place.number >= slow.half * fast.half) return;
    const int i = place.number / fast.half, j = place.number % fast.half;
    double sums[8] = {};
    // Eight copies of this would take a compiler minutes.
#pragma unroll 1
    for (int n = 0; n < 8; ++n) {
        const int upper = n >> 2, half = n >> 1 & 1, other_half = n & 1;
        if (upper >= line.classes || half >= slow.classes || other_half >= fast.classes) continue;
        const int node = node_of(line, upper, line.half - 1), one = node_of(slow, half, i);
        const int other = node_of(fast, other_half, j);
        if (!place.is_live(one, other)) continue;
        const double charge = place.charge(u, node, one, other, beyond, c, values, numbers);
#pragma unroll
        for (int sign = 0; sign < 8; ++sign) {
            sums[sign] += charge * share_of(line, sign >> 2, upper, line.half - 1) *
                          share_of(slow, sign >> 1 & 1, half, i) * share_of(fast, sign & 1, other_half, j);
        }
    }
#pragma unroll
    for (int sign = 0; sign < 8; ++sign) {
        const int mine = sign >> 2, first = sign >> 1 & 1, second = sign & 1;
        if (mine >= line.classes || first >= slow.classes || second >= fast.classes) continue;
        const index_t at = mine * line.stride + first * slow.stride + second * fast.stride;
        values[place.classes + at * slow.half * fast.half + place.number] = sums[sign];
    }
}

// Adds the fields, of which `values` has the classes, to u on the open faces.
KERNEL poisson_face_fields(real* __restrict__ u, FACE_ARGUMENTS) {
    const FacePlace place(numbers, planes);
    const FaceLine &line = place.line, &slow = place.slow, &fast = place.fast;
    if (place.number >= slow.half * fast.half) return;
    const int i = place.number / fast.half, j = place.number % fast.half;
    double fields[8];
#pragma unroll
    for (int sign = 0; sign < 8; ++sign) {
        const int mine = sign >> 2, first = sign >> 1 & 1, second = sign & 1;
        const bool exists = mine < line.classes && first < slow.classes && second < fast.classes;
        const index_t at = mine * line.stride + first * slow.stride + second * fast.stride;
        fields[sign] = exists ? values[place.classes + at * slow.half * fast.half + place.number] : 0;
    }
#pragma unroll 1
    for (int n = 0; n < 8; ++n) {
        const int upper = n >> 2, half = n >> 1 & 1, other_half = n & 1;
        // The middle is in both halves.
        if (upper >= line.classes || half >= slow.classes || other_half >= fast.classes) continue;
        if ((half && i == 0 && !slow.between) || (other_half && j == 0 && !fast.between)) continue;
        const int one = node_of(slow, half, i), other = node_of(fast, other_half, j);
        if (!place.is_live(one, other) || !place.is_first(one, other)) continue;
        double sum = 0;
#pragma unroll
        for (int sign = 0; sign < 8; ++sign) {
            const int both = sign & n, odd = (both >> 2 ^ both >> 1 ^ both) & 1;
            sum += odd ? -fields[sign] : fields[sign];
        }
        u[place.at(node_of(line, upper, line.half - 1), one, other)] += (real)sum;
    }
}

// An array with five axes: where it begins in `values`, and from one entry to the next along each, 0 where it has one.
struct FaceArray {
    index_t origin, stride[5];

    __device__ __forceinline__ explicit FaceArray(const index_t* at)
        : origin(at[0]), stride{at[1], at[2], at[3], at[4], at[5]} {}
    __device__ __forceinline__ index_t begin(const int part[3]) const {
        return origin + part[0] * stride[0] + part[1] * stride[1] + part[2] * stride[2];
    }
};

// A sum of one or two products, in `numbers`: first block; blocks along columns and along rows; how often along each of
// the first three axes; rows and columns; products; whether there is a scale; two inner sizes; then the arrays: out,
// scale, left, right, left, right.
#define FACE_PRODUCT 48
#define TILE 64
#define INNER 16
#define EACH 4

// Four values of a strip of a matrix, TILE long and INNER deep, of which a thread reads neighbours in memory.
struct Strip {
    const double* from;
    index_t along, inward;
    int count, depth, first, place[EACH], level[EACH];

    __device__ __forceinline__ Strip(const double* from, index_t along, index_t inward, int first, int count, int depth)
        : from(from), along(along), inward(inward), count(count), depth(depth), first(first) {
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            const int number = n * THREADS + threadIdx.x;
            place[n] = along == 1 ? number % TILE : number / INNER;
            level[n] = along == 1 ? number / TILE : number % INNER;
        }
    }
    __device__ __forceinline__ void read(int start, double value[EACH]) const {
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            const bool inside = first + place[n] < count && start + level[n] < depth;
            value[n] = inside ? from[(first + place[n]) * along + (start + level[n]) * inward] : 0.0;
        }
    }
    __device__ __forceinline__ void write(const double value[EACH], double (*shared)[TILE + 2]) const {
#pragma unroll
        for (int n = 0; n < EACH; ++n) shared[level[n]][place[n]] = value[n];
    }
};

// Products of a stage, a tile a block, four rows and every 16th column a thread.
KERNEL poisson_face_products(double* values, const index_t* numbers, index_t first, int count) {
    __shared__ double left[INNER][TILE + 2];
    __shared__ double right[INNER][TILE + 2];
    const index_t* at = numbers + first;
    for (int n = 1; n < count && (int)blockIdx.x >= (int)at[FACE_PRODUCT]; ++n) at += FACE_PRODUCT;
    int tile = (int)(blockIdx.x - at[0]);
    const int column = TILE * (tile % (int)at[1]);
    tile /= (int)at[1];
    const int row = TILE * (tile % (int)at[2]);
    tile /= (int)at[2];
    const int part[3] = {tile / (int)(at[4] * at[5]), tile / (int)at[5] % (int)at[4], tile % (int)at[5]};
    const int rows = (int)at[6], columns = (int)at[7];
    const int own_row = 4 * (threadIdx.x / 16), own_column = threadIdx.x % 16;
    double sum[4][4] = {};
    for (int term = 0; term < (int)at[8]; ++term) {
        const int depth = (int)at[10 + term];
        const FaceArray a(at + 24 + 12 * term), b(at + 30 + 12 * term);
        const Strip lefts(values + a.begin(part), a.stride[3], a.stride[4], row, rows, depth);
        const Strip rights(values + b.begin(part), b.stride[4], b.stride[3], column, columns, depth);
        double next_left[EACH], next_right[EACH];
        lefts.read(0, next_left);
        rights.read(0, next_right);
        for (int start = 0; start < depth; start += INNER) {
            __syncthreads();
            lefts.write(next_left, left);
            rights.write(next_right, right);
            __syncthreads();
            if (start + INNER < depth) {
                lefts.read(start + INNER, next_left);
                rights.read(start + INNER, next_right);
            }
#pragma unroll 4
            for (int k = 0; k < INNER; ++k) {
                double one[4], other[4];
#pragma unroll
                for (int n = 0; n < 4; ++n) one[n] = left[k][own_row + n], other[n] = right[k][own_column + 16 * n];
#pragma unroll
                for (int m = 0; m < 4; ++m) {
#pragma unroll
                    for (int n = 0; n < 4; ++n) sum[m][n] += one[m] * other[n];
                }
            }
        }
    }
    const FaceArray out(at + 12), scale(at + 18);
    double* const target = values + out.begin(part);
    const double* const factors = values + scale.begin(part);
    for (int m = 0; m < 4; ++m) {
        for (int n = 0; n < 4; ++n) {
            const int i = row + own_row + m, j = column + own_column + 16 * n;
            if (i >= rows || j >= columns) continue;
            const double factor = at[9] ? factors[i * scale.stride[3] + j * scale.stride[4]] : 1.0;
            target[i * out.stride[3] + j * out.stride[4]] = sum[m][n] * factor;
        }
    }
}
