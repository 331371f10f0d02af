// SPDX-License-Identifier: MIT
// What is made of a full stencil for a coarser grid: interpolation and galerkin.
#include <cstring>
#include <vector>

#include "stencils/rings.h"

namespace {

// Below this part of its links a row sum does not count in the weights: BALANCED of poisson/backends/stencils.py.
constexpr double BALANCED = 1e-3;

// Coarse rows that one thread goes through, in order.
constexpr int64_t ROWS = 16;

int size_of(const Step& step) { return std::abs(step.x) + std::abs(step.y) + std::abs(step.z); }
Step operator+(const Step& one, const Step& other) { return {one.x + other.x, one.y + other.y, one.z + other.z}; }
Step operator-(const Step& one) { return {-one.x, -one.y, -one.z}; }
Step offset_of(const poisson_stencil& s, int n) { return {s.offset[n][0], s.offset[n][1], s.offset[n][2]}; }

// Calls visit(step) for all steps of at most so many nodes along each axis.
template <class Visit>
void for_each_step(int x, int y, int z, Visit visit) {
    for (int dz = -z; dz <= z; ++dz)
        for (int dy = -y; dy <= y; ++dy)
            for (int dx = -x; dx <= x; ++dx) visit(Step{dx, dy, dz});
}

struct Output {
    void* all;
    bool single;
    const Nodes& nodes;

    void put_one(int64_t array, int64_t place, double value) const {
        const int64_t at = array * nodes.values() + place;
        if (single)
            static_cast<float*>(all)[at] = float(value);
        else
            static_cast<double*>(all)[at] = value;
    }
    // The lanes of a pack that lie in a row.
    void put(int64_t array, int64_t row, int64_t i, Pack<double> values) const {
        const int64_t count = std::min(LANES, nodes.x.nodes - i);
        for (int64_t lane = 0; lane < count; ++lane) put_one(array, row + i + lane, values[lane]);
    }
    void put_zeros(int64_t arrays, int64_t row) const {
        for (int64_t array = 0; array < arrays; ++array)
            for (int64_t i = 0; i < nodes.x.nodes; ++i) put_one(array, row + i, 0.0);
    }
};

// Calls work(first, last) for ranges of coarse rows, and says whether all of them had memory.
template <class Work>
poisson_status for_rows(const Nodes& coarse, int64_t work_of_node, Work work) {
    const int64_t parts = (coarse.rows() + ROWS - 1) / ROWS;
    bool all = true;
    POISSON_THREADS(part, parts, coarse.count() * work_of_node, (), ()) {
        if (!work(part * ROWS, std::min(coarse.rows(), (part + 1) * ROWS))) {
#pragma omp atomic write
            all = false;
        }
    }
    return all ? POISSON_SUCCESS : POISSON_OUT_OF_MEMORY;
}

// A link of the fine node in some direction of a coarse one, and its other end.
struct Link {
    Step at, end;
    int number;
    int nearer;
    const double *value, *end_is_free;
};
constexpr int APART = -1, ACROSS = -2;

// How many free nodes of an axis a fine node lies between, a coarse one counted that is in the other direction of it.
int ends_of(const Line& line, int64_t index, int step) {
    if (!step) return 1;
    const int64_t other = line.node(index + step);
    return other >= 0 && line.free(other) ? 2 : 1;
}

poisson_status interpolation(const poisson_weighted* w, void* out, int32_t single, bool spreads) {
    if (!w || !w->fine.coefficients || !out) return POISSON_BAD_ARGUMENT;
    const Pairs pairs(*w);
    const Nodes coarse(w->coarse.lattice);
    const Output output{out, single != 0, coarse};
    std::vector<Step> directions;
    for_each_step(Pairs::reach(pairs.x), Pairs::reach(pairs.y), Pairs::reach(pairs.z), [&](const Step& step) {
        if (size_of(step)) directions.push_back(step);
    });
    std::stable_sort(directions.begin(), directions.end(),
                     [](const Step& one, const Step& other) { return size_of(one) < size_of(other); });
    const auto number_of = [&](const Step& step) { return pairs.number(step.x, step.y, step.z) + 1; };
    std::vector<std::vector<Link>> links(directions.size());
    for (size_t n = 0; n < directions.size(); ++n) {
        const Step direction = directions[n];
        for (int number = 0; number < w->fine.offsets; ++number) {
            for (const bool ahead : {true, false}) {
                const Step step = ahead ? offset_of(w->fine, number) : -offset_of(w->fine, number);
                const Step along = {step.x * std::abs(direction.x), step.y * std::abs(direction.y),
                                    step.z * std::abs(direction.z)};
                const Step near = direction + along;
                const bool beyond = std::max({std::abs(near.x), std::abs(near.y), std::abs(near.z)}) > 1;
                const Step end = direction + step;
                const int nearer = !size_of(along) ? ACROSS : beyond ? APART : number_of(near);
                links[n].push_back({ahead ? direction : end, end, number, nearer, nullptr, nullptr});
            }
        }
    }
    return for_rows(coarse, 8 * (1 + w->fine.offsets), [&](int64_t first, int64_t last) {
        FineRows fine(*w, pairs, false);
        if (!fine) return false;
        auto own = links;
        for (int64_t number = first; number < last; ++number) {
            const int64_t j = number % coarse.y.nodes, k = number / coarse.y.nodes, row = coarse.pitch * number;
            if (!coarse.free(j, k)) {
                output.put_zeros(pairs.directions(), row);
                continue;
            }
            fine.go_to(j, k);
            for (auto& of_direction : own) {
                for (Link& link : of_direction) {
                    link.value = fine.at(fine.LINKS + link.number, link.at);
                    link.end_is_free = fine.at(fine.free(), link.end);
                }
            }
            for (int64_t i = 0; i < coarse.x.nodes; i += LANES) {
                Pack<double> weights[27];
                Pack<double>& here = weights[0];
                for (int64_t lane = 0; lane < LANES; ++lane)
                    here[lane] = i + lane < coarse.x.nodes && coarse.x.free(i + lane) ? 1.0 : 0.0;
                for (size_t n = 0; n < directions.size(); ++n) {
                    const Step& to = directions[n];
                    Pack<double>& weight = weights[number_of(to)];
                    weight = Pack<double>{};
                    if (pairs.y.beside(j, to.y) >= 0 && pairs.z.beside(k, to.z) >= 0) {
                        Pack<double> holding = load(fine.at(fine.EXCESS, to) + i), balance = {}, taken = {}, along = {};
                        for (const Link& link : own[n]) {
                            const Pack<double> value = load(link.value + i);
                            const Pack<double> inner = value * load(link.end_is_free + i);
                            holding += value - inner;
                            const Pack<double> size = inner < 0.0 ? -inner : inner;
                            if (link.nearer == ACROSS) {
                                along += size;
                                continue;
                            }
                            balance += size;
                            if (link.nearer != APART) taken += size * weights[link.nearer];
                        }
                        const Pack<double> centre = balance + (holding > BALANCED * balance ? holding : Pack<double>{});
                        const Pack<double> free = load(fine.at(fine.free(), to) + i);
                        const auto has = (free > 0.0) & (balance > 0.0);
                        weight = has ? taken / centre : Pack<double>{};
                        if (spreads) {
                            const auto alone = (free > 0.0) & (balance == 0.0) & !(holding > BALANCED * along);
                            const int beside = ends_of(coarse.y, j, to.y) * ends_of(coarse.z, k, to.z);
                            for (int64_t lane = 0; lane < LANES; ++lane)
                                if (alone[lane])
                                    weight[lane] = here[lane] / (beside * ends_of(coarse.x, i + lane, to.x));
                        }
                        if (to.x && i == 0 && pairs.x.beside(0, to.x) < 0) weight[0] = 0;
                        if (to.x && i + LANES >= coarse.x.nodes && pairs.x.beside(coarse.x.nodes - 1, to.x) < 0)
                            weight[coarse.x.nodes - 1 - i] = 0;
                    }
                    output.put(number_of(to) - 1, row, i, weight);
                }
            }
        }
        return true;
    });
}

// Which weight of the coarse node beside one, if any, the fine nodes around this have: by the steps to both, 2 and 1 at
// the most. It is another one where two coarse nodes are neighbours on the fine axis, at the ends of one that wraps.
constexpr int NONE = 9;
struct Relation {
    int weight[5][3];

    Relation(const Pair& pair, int64_t index) {
        for (int to = -2; to <= 2; ++to)
            for (int from = -1; from <= 1; ++from) weight[to + 2][from + 1] = of(pair, index, to, from);
    }
    bool operator==(const Relation& other) const { return !std::memcmp(weight, other.weight, sizeof weight); }

private:
    static int of(const Pair& pair, int64_t index, int to, int from) {
        if (!pair.halved) return to == from ? 0 : NONE;
        if (!pair.fine.wraps || pair.fine.nodes % 2 == 0) return std::abs(to - 2 * from) <= 1 ? to - 2 * from : NONE;
        int64_t sources[2];
        int direction[2];
        const int count = pair.sources(2 * index + to, sources, direction);
        for (int n = 0; n < count; ++n)
            if (sources[n] == index + from) return direction[n];
        return NONE;
    }
};

// The weight of a coarse node at a fine one.
struct Weight {
    Step from, direction;
    bool is;
};

// What a link between two fine nodes, or the excess of one, adds to the product: a factor of the weights at both ends
// for itself, and for each coarse neighbour.
struct Term {
    Step one, other;
    int array;
    int count;
};
struct Part {
    Weight one, other;
    int array;
};
struct Pointer {
    const double* at;
};
struct Pointers {
    const double *one, *other;
};

class Plan {
public:
    Plan(const poisson_weighted& w, const Pairs& pairs, const Relation& x, const Relation& y, const Relation& z)
        : x(x), y(y), z(z) {
        const auto reach = [](const Pair& pair) { return pair.halved ? 2 : 1; };
        const auto of = [&](const Step& from, const Step& to) {
            const int along_x = x.weight[to.x + 2][from.x + 1], along_y = y.weight[to.y + 2][from.y + 1],
                      along_z = z.weight[to.z + 2][from.z + 1];
            return Weight{from, {along_x, along_y, along_z}, along_x != NONE && along_y != NONE && along_z != NONE};
        };
        for (int number = -1; number < w.fine.offsets; ++number) {
            const Step step = number < 0 ? Step{0, 0, 0} : offset_of(w.fine, number);
            for_each_step(reach(pairs.x), reach(pairs.y), reach(pairs.z), [&](const Step& one) {
                const Step other = one + step;
                if (std::abs(other.x) > reach(pairs.x) || std::abs(other.y) > reach(pairs.y) ||
                    std::abs(other.z) > reach(pairs.z))
                    return;
                const Weight none = {{}, {}, false};
                const auto part = [&](const Step& from, int array) {
                    return Part{of(from, one), number < 0 ? none : of(from, other), array};
                };
                const Part own = part({0, 0, 0}, 0);
                if (!own.one.is && !own.other.is) return;
                parts.push_back(own);
                terms.push_back({one, other, number + 1, 0});
                for (int n = 0; n < w.coarse.offsets; ++n) {
                    const Part beside = part(offset_of(w.coarse, n), n + 1);
                    if (!beside.one.is && !beside.other.is) continue;
                    parts.push_back(beside);
                    ++terms.back().count;
                }
            });
        }
    }
    bool is_for(const Relation& along_x, const Relation& along_y, const Relation& along_z) const {
        return x == along_x && y == along_y && z == along_z;
    }
    const Relation x, y, z;
    std::vector<Term> terms;
    std::vector<Part> parts;  // of each term that for itself, and then those of the neighbours
};

// The terms at packs of coarse nodes of a row.
class Products {
public:
    void point_to(const Plan& plan, const FineRows& fine, const WeightRows& weights) {
        coefficients.clear();
        sums.clear();
        ends.clear();
        for (const Term& term : plan.terms) {
            coefficients.push_back({fine.at(term.array, term.one)});
            sums.push_back(
                {fine.at(fine.sums(), term.one), term.array ? fine.at(fine.sums(), term.other) : fine.none()});
        }
        const auto of = [&](const Weight& weight) {
            return weight.is ? weights.at(weight.from, weight.direction) : weights.none();
        };
        for (const Part& part : plan.parts) ends.push_back({of(part.one), of(part.other)});
    }
    // The arrays of the product, but for their scale.
    void at(const Plan& plan, int64_t i, Pack<double> (&arrays)[14]) const {
        for (Pack<double>& array : arrays) array = Pack<double>{};
        size_t n = 0;
        for (size_t term = 0; term < plan.terms.size(); ++term) {
            const Pack<double> factor = load(coefficients[term].at + i) * difference(ends[n++], i);
            arrays[0] += factor * difference(sums[term], i);
            for (int count = plan.terms[term].count; count > 0; --count, ++n)
                arrays[plan.parts[n].array] -= factor * difference(ends[n], i);
        }
    }

private:
    static Pack<double> difference(const Pointers& of, int64_t i) { return load(of.one + i) - load(of.other + i); }
    std::vector<Pointer> coefficients;
    std::vector<Pointers> sums, ends;
};

poisson_status galerkin(const poisson_weighted* w, void* out, int32_t single) {
    if (!w || !w->fine.coefficients || !w->weights || !out) return POISSON_BAD_ARGUMENT;
    const Pairs pairs(*w);
    const Nodes coarse(w->coarse.lattice);
    const Output output{out, single != 0, coarse};
    const double scale = 1.0 / ((1 + pairs.x.halved) * (1 + pairs.y.halved) * (1 + pairs.z.halved));
    const int64_t nx = coarse.x.nodes;
    // Of the nodes along x only the first and the last may be unlike the others.
    const Relation along_x(pairs.x, nx / 2), at_first(pairs.x, 0), at_last(pairs.x, nx - 1);
    const auto plan_at = [&](const Relation& x, int64_t j, int64_t k) {
        return Plan(*w, pairs, x, Relation(pairs.y, j), Relation(pairs.z, k));
    };
    return for_rows(coarse, 64 * (1 + w->fine.offsets), [&](int64_t first, int64_t last) {
        FineRows fine(*w, pairs, true);
        WeightRows weights(*w, pairs);
        if (!fine || !weights) return false;
        std::unique_ptr<Plan> plan;
        Products products;
        const auto write = [&](int64_t row, int64_t i, int64_t lane, bool all) {
            Pack<double> arrays[14];
            products.at(*plan, i, arrays);
            for (int array = 0; array <= w->coarse.offsets; ++array) {
                if (all)
                    output.put(array, row, i, scale * arrays[array]);
                else
                    output.put_one(array, row + i + lane, scale * arrays[array][lane]);
            }
        };
        for (int64_t number = first; number < last; ++number) {
            const int64_t j = number % coarse.y.nodes, k = number / coarse.y.nodes, row = coarse.pitch * number;
            if (!coarse.free(j, k)) {
                output.put_zeros(1 + w->coarse.offsets, row);
                continue;
            }
            fine.go_to(j, k);
            weights.go_to(j, k);
            const auto along = [&](const Relation& x) {
                if (!plan || !plan->is_for(x, Relation(pairs.y, j), Relation(pairs.z, k)))
                    plan = std::make_unique<Plan>(plan_at(x, j, k));
                products.point_to(*plan, fine, weights);
            };
            along(along_x);
            for (int64_t i = 0; i < nx; i += LANES) write(row, i, 0, true);
            if (!(at_first == along_x)) {
                along(at_first);
                write(row, 0, 0, false);
            }
            if (!(at_last == along_x)) {
                along(at_last);
                write(row, (nx - 1) / LANES * LANES, (nx - 1) % LANES, false);
            }
        }
        return true;
    });
}

}  // namespace

POISSON_EXPORT(stencil_interpolation, (const poisson_weighted* w, void* out, int32_t out_single, int32_t spreads),
               lattice_of(w), interpolation(w, out, out_single, spreads != 0))
POISSON_EXPORT(stencil_galerkin, (const poisson_weighted* w, void* out, int32_t out_single), lattice_of(w),
               galerkin(w, out, out_single))
