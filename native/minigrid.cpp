// Vectors of MiniGrid's environments for Python. Everything that comes from there is checked here.
#include "minigrid.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <string>

namespace nb = nanobind;
using namespace minigrid;

template <class T, class Shape>
using Array = nb::ndarray<T, Shape, nb::c_contig, nb::device::cpu>;
template <class T>
using Row = Array<T, nb::shape<-1>>;
using Images = Array<uint8_t, nb::shape<-1, VIEW, VIEW, 3>>;

class Worlds {
  public:
    Worlds(int family, int size, int count, bool walls, bool random_length)
        : rules_{static_cast<Family>(family), size, count, walls, random_length} {
        const auto demand = [](bool fits, const std::string& words) {
            if (!fits) throw nb::value_error(words.c_str());
        };
        const std::string given = "size is " + std::to_string(size) + "; expected ";
        demand(family >= 0 && family < FAMILIES, "there is no such family of levels");
        demand(size <= 256 && count <= 256, "a size or a count is above 256, the most that is made natively");
        if (family == CROSSING || family == MEMORY)
            demand(size >= 7 && size % 2 == 1, given + "an odd number of at least 7");
        else
            demand(size >= (family == KEY_CORRIDOR ? 3 : 5), given + "at least " + (family == KEY_CORRIDOR ? "3" : "5"));
        demand(count >= (family == KEY_CORRIDOR ? 1 : 0), "count is " + std::to_string(count) + "; expected at least 1");
    }

    // seeds: the state and the increment of a PCG64 for each environment, high words first
    void reset(const Array<const uint64_t, nb::shape<-1, 4>>& seeds, const Images& images) {
        check("images", images.shape(0), seeds.shape(0));
        worlds_.clear();
        for (size_t n = 0; n < seeds.shape(0); ++n) {
            const uint64_t* words = seeds.data() + 4 * n;
            const auto join = [](uint64_t high, uint64_t low) { return (static_cast<unsigned __int128>(high) << 64) | low; };
            worlds_.emplace_back(rules_, Random(join(words[0], words[1]), join(words[2], words[3])));
            worlds_.back().reset();
            worlds_.back().view(images.data() + n * IMAGE);
        }
    }

    // images: what is seen next, of a new episode where one ended; last: what is seen after the step in any case
    void step(const Row<const int64_t>& actions, const Images& images, const Images& last, const Row<float>& rewards,
              const Row<bool>& terminations, const Row<bool>& truncations) {
        const size_t count = worlds_.size();
        check("actions", actions.shape(0), count);
        check("images", images.shape(0), count);
        check("last", last.shape(0), count);
        check("rewards", rewards.shape(0), count);
        check("terminations", terminations.shape(0), count);
        check("truncations", truncations.shape(0), count);
        for (size_t n = 0; n < count; ++n)
            if (actions.data()[n] < 0 || actions.data()[n] >= ACTIONS)
                throw nb::value_error(("an action is " + std::to_string(actions.data()[n]) + "; expected 0 to 6").c_str());
        for (size_t n = 0; n < count; ++n) {
            const Outcome outcome = worlds_[n].step(static_cast<int>(actions.data()[n]));
            worlds_[n].view(last.data() + n * IMAGE);
            if (outcome.terminated || outcome.truncated) {
                worlds_[n].reset();
                worlds_[n].view(images.data() + n * IMAGE);
            } else {
                std::memcpy(images.data() + n * IMAGE, last.data() + n * IMAGE, IMAGE);
            }
            rewards.data()[n] = outcome.reward;
            terminations.data()[n] = outcome.terminated;
            truncations.data()[n] = outcome.truncated;
        }
    }

  private:
    static void check(const char* name, size_t given, size_t expected) {
        if (given != expected)
            throw nb::value_error(
                (std::string(name) + " has " + std::to_string(given) + " entries; expected " + std::to_string(expected)).c_str());
    }

    Rules rules_;
    std::vector<World> worlds_;
};

NB_MODULE(_minigrid, m) {
    nb::class_<Worlds>(m, "Worlds")
        .def(nb::init<int, int, int, bool, bool>(), nb::arg("family"), nb::arg("size"), nb::arg("count"), nb::arg("walls"),
             nb::arg("random_length"))
        .def("reset", &Worlds::reset, nb::arg("seeds"), nb::arg("images"))
        .def("step", &Worlds::step, nb::arg("actions"), nb::arg("images"), nb::arg("last"), nb::arg("rewards"),
             nb::arg("terminations"), nb::arg("truncations"));
    m.attr("FAMILIES") = nb::make_tuple("DoorKeyEnv", "RedBlueDoorEnv", "CrossingEnv", "KeyCorridorEnv", "MemoryEnv");
}
