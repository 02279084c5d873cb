// MiniGrid without Python: levels, steps and views, equal to the package minigrid to the last bit for the same seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace minigrid {

// numpy's Generator over PCG64, as far as levels need it: bounded integers and shuffles.
class Random {
  public:
    Random(unsigned __int128 state, unsigned __int128 increment) : state_(state), increment_(increment) {}

    // in [low, high)
    int integer(int low, int high) {
        const uint32_t range = static_cast<uint32_t>(high - low);
        if (range <= 1) return low;
        uint64_t product = uint64_t{next32()} * range;  // Lemire's method
        if (static_cast<uint32_t>(product) < range) {
            const uint32_t threshold = (0u - range) % range;
            while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next32()} * range;
        }
        return low + static_cast<int>(product >> 32);
    }

    template <class Items>
    void shuffle(Items& items) {
        for (uint32_t i = static_cast<uint32_t>(items.size()) - 1; i > 0 && i < items.size(); --i) {
            uint32_t mask = 1, other;
            while (mask < i) mask = 2 * mask + 1;
            do other = next32() & mask;  // lists are shuffled by rejection, not by Lemire's method
            while (other > i);
            std::swap(items[i], items[other]);
        }
    }

  private:
    uint32_t next32() {  // both halves of a number are used, the low one first
        if (held_) {
            held_ = false;
            return high_;
        }
        const unsigned __int128 multiplier = (static_cast<unsigned __int128>(0x2360ED051FC65DA4ull) << 64) | 0x4385DF649FCCF645ull;
        state_ = state_ * multiplier + increment_;
        const uint64_t mixed = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
        const int turn = static_cast<int>(state_ >> 122);
        const uint64_t number = (mixed >> turn) | (mixed << ((64 - turn) & 63));
        held_ = true;
        high_ = static_cast<uint32_t>(number >> 32);
        return static_cast<uint32_t>(number);
    }

    unsigned __int128 state_, increment_;
    bool held_ = false;
    uint32_t high_ = 0;
};

enum Kind : uint8_t { EMPTY = 1, WALL = 2, DOOR = 4, KEY = 5, BALL = 6, GOAL = 8, LAVA = 9 };
enum Color : uint8_t { RED, GREEN, BLUE, PURPLE, YELLOW, GREY };
enum DoorState : uint8_t { OPEN, CLOSED, LOCKED };
enum Action { LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE, ACTIONS };

struct Cell {
    uint8_t kind = EMPTY, color = 0, state = 0;
    bool is_empty() const { return kind == EMPTY; }
    bool is_open() const { return kind == DOOR && state == OPEN; }
    bool can_enter() const { return kind == EMPTY || kind == GOAL || kind == LAVA || is_open(); }
    bool can_carry() const { return kind == KEY || kind == BALL; }
    bool can_see_through() const { return kind != WALL && (kind != DOOR || state == OPEN); }
};
constexpr Cell NOTHING{}, STONE{WALL, GREY, 0}, TARGET{GOAL, GREEN, 0}, FIRE{LAVA, RED, 0};

struct Place {
    int x = -1, y = -1;
    bool operator==(const Place& other) const { return x == other.x && y == other.y; }
};
constexpr Place AHEAD[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};

constexpr int VIEW = 7;
constexpr int IMAGE = VIEW * VIEW * 3;

enum Family { DOOR_KEY, RED_BLUE_DOORS, CROSSING, KEY_CORRIDOR, MEMORY, FAMILIES };

// What a level is made from; what a family has no use for is 0.
struct Rules {
    Family family;
    int size;            // of the grid, or of a room in KEY_CORRIDOR
    int count;           // of crossings, or of rows of rooms
    bool walls;          // CROSSING: walls instead of lava
    bool random_length;  // MEMORY: a corridor of random length
    int width() const { return family == RED_BLUE_DOORS ? 2 * size : family == KEY_CORRIDOR ? 3 * (size - 1) + 1 : size; }
    int height() const { return family == KEY_CORRIDOR ? count * (size - 1) + 1 : size; }
    int max_steps() const {
        constexpr int PER_CELL[FAMILIES] = {10, 20, 4, 30, 5};
        return PER_CELL[family] * size * size;
    }
};

struct Outcome {
    float reward = 0;
    bool terminated = false, truncated = false;
};

class World {
  public:
    World(const Rules& rules, Random random)
        : rules_(rules), random_(random), width_(rules.width()), height_(rules.height()), cells_(width_ * height_) {}

    void reset();
    Outcome step(int action);
    void view(uint8_t* image) const;  // [x][y][kind, color, state], as the agent sees it

  private:
    void make_door_key();
    void make_red_blue_doors();
    void make_crossing();
    void make_key_corridor();
    void make_memory();

    Cell& at(int x, int y) { return cells_[y * width_ + x]; }
    Cell look(int x, int y) const { return x >= 0 && x < width_ && y >= 0 && y < height_ ? cells_[y * width_ + x] : STONE; }
    Cell look(Place place) const { return look(place.x, place.y); }
    Place front() const { return {agent_.x + AHEAD[direction_].x, agent_.y + AHEAD[direction_].y}; }
    float reward() const { return static_cast<float>(1 - 0.9 * (double(steps_) / rules_.max_steps())); }

    void surround(int x, int y, int width, int height) {
        for (int i = 0; i < width; ++i) at(x + i, y) = at(x + i, y + height - 1) = STONE;
        for (int j = 0; j < height; ++j) at(x, y + j) = at(x + width - 1, y + j) = STONE;
    }
    Place find_place(int x, int y, int width, int height, bool away_from_agent = false);
    void place_agent(int x, int y, int width, int height) {
        agent_ = {};
        agent_ = find_place(x, y, width, height);
        direction_ = random_.integer(0, 4);
    }
    Color draw_color() {
        constexpr Color BY_NAME[6] = {BLUE, GREEN, GREY, PURPLE, RED, YELLOW};
        return BY_NAME[random_.integer(0, 6)];
    }

    Rules rules_;
    Random random_;
    int width_, height_;
    std::vector<Cell> cells_;
    Place agent_, success_, failure_;  // the last two: MEMORY
    Place red_, blue_;                 // RED_BLUE_DOORS
    int direction_ = 0, steps_ = 0;
    Cell carried_;
};

// A place in a rectangle with nothing on it, neither an object nor the agent.
inline Place World::find_place(int x, int y, int width, int height, bool away_from_agent) {
    for (int tries = 0; tries < 100000; ++tries) {
        Place place;
        place.x = random_.integer(x, std::min(x + width, width_));
        place.y = random_.integer(y, std::min(y + height, height_));
        if (!look(place).is_empty() || place == agent_) continue;
        if (away_from_agent && std::abs(place.x - agent_.x) + std::abs(place.y - agent_.y) < 2) continue;
        return place;
    }
    throw std::runtime_error("a level of MiniGrid has no free place for an object");
}

inline void World::make_door_key() {
    surround(0, 0, width_, height_);
    at(width_ - 2, height_ - 2) = TARGET;
    const int wall = random_.integer(2, width_ - 2);
    for (int y = 0; y < height_; ++y) at(wall, y) = STONE;
    place_agent(0, 0, wall, height_);
    at(wall, random_.integer(1, height_ - 2)) = {DOOR, YELLOW, LOCKED};
    const Place key = find_place(0, 0, wall, height_);
    at(key.x, key.y) = {KEY, YELLOW, 0};
}

inline void World::make_red_blue_doors() {
    const int size = rules_.size, left = size / 2;
    surround(0, 0, width_, height_);
    surround(left, 0, size, size);
    place_agent(left, 0, size, size);
    red_ = {left, random_.integer(1, size - 1)};
    at(red_.x, red_.y) = {DOOR, RED, CLOSED};
    blue_ = {left + size - 1, random_.integer(1, size - 1)};
    at(blue_.x, blue_.y) = {DOOR, BLUE, CLOSED};
}

inline void World::make_crossing() {
    surround(0, 0, width_, height_);
    agent_ = {1, 1};
    direction_ = 0;
    at(width_ - 2, height_ - 2) = TARGET;
    std::vector<std::pair<bool, int>> rivers;  // whether it is vertical, and where
    for (bool vertical : {true, false})
        for (int position = 2; position < rules_.size - 2; position += 2) rivers.push_back({vertical, position});
    random_.shuffle(rivers);
    std::vector<int> limits[2] = {{0}, {0}};  // of horizontal and of vertical rivers, with the walls around all
    for (int i = 0; i < rules_.count && i < static_cast<int>(rivers.size()); ++i)
        limits[rivers[i].first].push_back(rivers[i].second);
    std::vector<char> path;  // whether a vertical river is crossed
    path.insert(path.end(), limits[true].size() - 1, true);
    path.insert(path.end(), limits[false].size() - 1, false);
    for (auto& limit : limits) std::sort(limit.begin(), limit.end());
    const Cell obstacle = rules_.walls ? STONE : FIRE;
    for (size_t k = 1; k < limits[false].size(); ++k)
        for (int x = 1; x < width_ - 1; ++x) at(x, limits[false][k]) = obstacle;
    for (size_t k = 1; k < limits[true].size(); ++k)
        for (int y = 1; y < height_ - 1; ++y) at(limits[true][k], y) = obstacle;
    random_.shuffle(path);
    for (auto& limit : limits) limit.push_back(rules_.size - 1);
    size_t room[2] = {0, 0};  // by horizontal and by vertical rivers crossed
    for (bool vertical : path) {
        const int river = limits[vertical][room[vertical] + 1];
        const auto& others = limits[!vertical];
        const int gap = random_.integer(others[room[!vertical]] + 1, others[room[!vertical] + 1]);
        (vertical ? at(river, gap) : at(gap, river)) = NOTHING;
        ++room[vertical];
    }
}

inline void World::make_key_corridor() {
    constexpr int COLUMNS = 3;
    const int rows = rules_.count, size = rules_.size, pitch = size - 1;
    struct Room {
        Place doors[4];          // right, down, left, up; where one may be
        bool connected[4] = {};  // by a door, or by a wall that is not there
        bool locked = false;
    };
    std::vector<Room> rooms(COLUMNS * rows);
    const auto room = [&](int i, int j) -> Room& { return rooms[j * COLUMNS + i]; };
    const auto has_neighbor = [&](int i, int j, int side) {
        i += AHEAD[side].x, j += AHEAD[side].y;
        return i >= 0 && i < COLUMNS && j >= 0 && j < rows;
    };
    const auto neighbor = [&](int i, int j, int side) -> Room& { return room(i + AHEAD[side].x, j + AHEAD[side].y); };
    const auto connect = [&](int i, int j, int side) {
        room(i, j).connected[side] = neighbor(i, j, side).connected[(side + 2) % 4] = true;
    };
    const auto add_door = [&](int i, int j, int side, Color color, bool locked) {
        room(i, j).locked = locked;
        const Place place = room(i, j).doors[side];
        at(place.x, place.y) = {DOOR, color, locked ? LOCKED : CLOSED};
        connect(i, j, side);
    };
    const auto add_object = [&](int i, int j, Kind kind, Color color) {
        const Place place = find_place(i * pitch, j * pitch, size, size, true);
        at(place.x, place.y) = {kind, color, 0};
    };

    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < COLUMNS; ++i) surround(i * pitch, j * pitch, size, size);
    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < COLUMNS; ++i) {
            const int left = i * pitch, top = j * pitch;
            Room& own = room(i, j);
            if (has_neighbor(i, j, 0)) own.doors[0] = {left + pitch, random_.integer(top + 1, top + pitch)};
            if (has_neighbor(i, j, 1)) own.doors[1] = {random_.integer(left + 1, left + pitch), top + pitch};
            if (has_neighbor(i, j, 2)) own.doors[2] = neighbor(i, j, 2).doors[0];
            if (has_neighbor(i, j, 3)) own.doors[3] = neighbor(i, j, 3).doors[1];
        }
    agent_ = {COLUMNS / 2 * pitch + size / 2, rows / 2 * pitch + size / 2};  // until it is placed, objects keep away
    for (int j = 1; j < rows; ++j) {                                         // the rooms in the middle are one corridor
        for (int x = 1; x < pitch; ++x) at(pitch + x, j * pitch) = NOTHING;
        connect(1, j, 3);
    }
    const int goal = random_.integer(0, rows);
    const Color color = draw_color();
    add_door(2, goal, 2, color, true);
    const Color ball = draw_color();
    add_object(2, goal, BALL, ball);
    const int place_of_key = random_.integer(0, rows);
    add_object(0, place_of_key, KEY, color);
    do {
        place_agent(pitch, rows / 2 * pitch, size, size);
    } while (!look(front()).is_empty() && look(front()).kind != WALL);

    const int start = agent_.y / pitch * COLUMNS + agent_.x / pitch;
    for (;;) {
        std::vector<char> reached(rooms.size(), false);
        std::vector<int> stack{start};
        size_t count = 0;
        while (!stack.empty()) {
            const int next = stack.back();
            stack.pop_back();
            if (reached[next]) continue;
            reached[next] = true, ++count;
            for (int side = 0; side < 4; ++side)
                if (rooms[next].connected[side]) stack.push_back(next + AHEAD[side].y * COLUMNS + AHEAD[side].x);
        }
        if (count == rooms.size()) break;
        const int i = random_.integer(0, COLUMNS), j = random_.integer(0, rows), side = random_.integer(0, 4);
        if (!has_neighbor(i, j, side) || room(i, j).connected[side]) continue;
        if (room(i, j).locked || neighbor(i, j, side).locked) continue;
        add_door(i, j, side, draw_color(), false);
    }
}

inline void World::make_memory() {
    const int middle = height_ / 2;
    surround(0, 0, width_, height_);
    const int end = rules_.random_length ? random_.integer(4, width_ - 2) : width_ - 3;
    for (int x = 1; x < 5; ++x) at(x, middle - 2) = at(x, middle + 2) = STONE;
    for (int x = 4; x < std::max(end, 5); ++x) at(x, middle - 1) = at(x, middle + 1) = STONE;
    for (int y = 0; y < height_; ++y) {
        if (y != middle) at(end, y) = STONE;
        at(end + 2, y) = STONE;
    }
    agent_ = {random_.integer(1, end + 1), middle};
    direction_ = 0;
    const Kind shown = random_.integer(0, 2) == 0 ? KEY : BALL;
    const bool key_below = random_.integer(0, 2) == 0;
    const Kind above = key_below ? BALL : KEY, below = key_below ? KEY : BALL;
    at(1, middle - 1) = {shown, GREEN, 0};
    at(end + 1, middle - 2) = {above, GREEN, 0};
    at(end + 1, middle + 2) = {below, GREEN, 0};
    success_ = {end + 1, shown == above ? middle - 1 : middle + 1};
    failure_ = {end + 1, shown == above ? middle + 1 : middle - 1};
}

inline void World::reset() {
    std::fill(cells_.begin(), cells_.end(), NOTHING);
    agent_ = {};
    direction_ = 0;
    switch (rules_.family) {
        case DOOR_KEY: make_door_key(); break;
        case RED_BLUE_DOORS: make_red_blue_doors(); break;
        case CROSSING: make_crossing(); break;
        case KEY_CORRIDOR: make_key_corridor(); break;
        default: make_memory();
    }
    carried_ = NOTHING;
    steps_ = 0;
}

inline Outcome World::step(int action) {
    Outcome outcome;
    ++steps_;
    if (rules_.family == MEMORY && action == PICKUP) action = TOGGLE;
    const bool red_was_open = rules_.family == RED_BLUE_DOORS && look(red_).is_open();
    const Place ahead = front();
    const Cell cell = look(ahead);
    switch (action) {
        case LEFT: direction_ = (direction_ + 3) % 4; break;
        case RIGHT: direction_ = (direction_ + 1) % 4; break;
        case FORWARD:
            if (cell.can_enter()) agent_ = ahead;
            outcome.terminated = cell.kind == GOAL || cell.kind == LAVA;
            if (cell.kind == GOAL) outcome.reward = reward();
            break;
        case PICKUP:
            if (cell.can_carry() && carried_.is_empty()) {
                carried_ = cell;
                at(ahead.x, ahead.y) = NOTHING;
            }
            break;
        case DROP:
            if (cell.is_empty() && !carried_.is_empty()) {
                at(ahead.x, ahead.y) = carried_;
                carried_ = NOTHING;
            }
            break;
        case TOGGLE:
            if (cell.kind == DOOR) {
                const bool unlocks = carried_.kind == KEY && carried_.color == cell.color;
                uint8_t& state = at(ahead.x, ahead.y).state;
                if (cell.state != LOCKED || unlocks) state = cell.state == OPEN ? CLOSED : OPEN;
            }
            break;
        default: break;
    }
    if (rules_.family == RED_BLUE_DOORS && look(blue_).is_open()) {
        outcome.terminated = true;
        outcome.reward = red_was_open ? reward() : 0;
    }
    if (rules_.family == KEY_CORRIDOR && action == PICKUP && carried_.kind == BALL) {
        outcome.terminated = true;
        outcome.reward = reward();
    }
    if (rules_.family == MEMORY && (agent_ == success_ || agent_ == failure_)) {
        outcome.terminated = true;
        outcome.reward = agent_ == success_ ? reward() : 0;
    }
    outcome.truncated = steps_ >= rules_.max_steps() && !outcome.terminated;
    return outcome;
}

inline void World::view(uint8_t* image) const {
    Cell cells[VIEW][VIEW];
    bool seen[VIEW][VIEW] = {};
    const Place forward = AHEAD[direction_], right = AHEAD[(direction_ + 1) % 4];
    for (int i = 0; i < VIEW; ++i)
        for (int j = 0; j < VIEW; ++j) {
            const int across = i - VIEW / 2, along = VIEW - 1 - j;
            cells[i][j] = look(agent_.x + forward.x * along + right.x * across, agent_.y + forward.y * along + right.y * across);
        }
    seen[VIEW / 2][VIEW - 1] = true;
    for (int j = VIEW - 1; j >= 0; --j) {  // from the agent's row outwards, first to the right, then to the left
        const auto spread = [&](int i, int next) {
            if (!seen[i][j] || !cells[i][j].can_see_through()) return;
            seen[next][j] = true;
            if (j > 0) seen[next][j - 1] = seen[i][j - 1] = true;
        };
        for (int i = 0; i < VIEW - 1; ++i) spread(i, i + 1);
        for (int i = VIEW - 1; i > 0; --i) spread(i, i - 1);
    }
    cells[VIEW / 2][VIEW - 1] = carried_;
    std::memset(image, 0, IMAGE);
    for (int i = 0; i < VIEW; ++i)
        for (int j = 0; j < VIEW; ++j)
            if (seen[i][j]) std::memcpy(image + (i * VIEW + j) * 3, &cells[i][j], 3);
}

}  // namespace minigrid
