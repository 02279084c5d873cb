"""Vector environments: episodes, seeds, errors, and EnvPool and compiled environments against minigrid."""

from __future__ import annotations

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from gatel0rd.training import native_minigrid
from gatel0rd.training.native_minigrid import NativeMiniGrid
from gatel0rd.training.ppo import EpisodeStatistics, SuccessCriterion, judge_episodes
from gatel0rd.training.vector_env import EnvPoolVectorEnv, GymnasiumVectorEnv, envpool_ids, make_vector_env
from gatel0rd.worlds.recall import Recall

MINIGRID = (
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-DoorKey-16x16-v0",
    "MiniGrid-RedBlueDoors-8x8-v0",
    "MiniGrid-SimpleCrossingS9N3-v0",
    "MiniGrid-LavaCrossingS9N2-v0",
    "MiniGrid-KeyCorridorS3R2-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-MemoryS17Random-v0",
)
MOST_STEPS = dict(zip(MINIGRID, (640, 2560, 1280, 324, 324, 270, 270, 845, 1445), strict=True))
needs_minigrid = pytest.mark.skipif(importlib.util.find_spec("minigrid") is None, reason="minigrid is not installed")
needs_envpool = pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="EnvPool is not installed")
needs_levels = pytest.mark.skipif(
    importlib.util.find_spec("minigrid") is None or native_minigrid.load_module() is None,
    reason="minigrid is not installed, or nothing was compiled",
)
BACKENDS = [
    pytest.param("gymnasium", marks=needs_minigrid),
    pytest.param("native", marks=needs_levels),
    pytest.param("envpool", marks=needs_envpool),
]


class Counting(gymnasium.Env):
    """Shows the time; terminates at ``end``."""

    def __init__(self, end=3):
        self.observation_space, self.action_space = spaces.Box(0, 100, (1,)), spaces.Discrete(2)
        self.end = end

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0.0], dtype=np.float32), {}

    def step(self, action):
        self.time += 1
        return np.array([self.time], dtype=np.float32), 1.0, self.time == self.end, False, {}


@pytest.fixture
def counting():
    gymnasium.register("Counting-v0", entry_point=Counting, max_episode_steps=5)
    yield "Counting-v0"
    del gymnasium.registry["Counting-v0"]


@pytest.mark.parametrize(("end", "terminated", "truncated"), [(3, True, False), (9, False, True)])
def test_the_next_episode_starts_in_the_step_that_ends_one(counting, end, terminated, truncated):
    envs = make_vector_env(counting, 2, end=end)
    envs.reset(0)
    last = min(end, 5)
    for time in range(1, last + 3):
        steps = envs.step(np.zeros(2, dtype=int))
        over = time == last
        assert steps.final_observations[:, 0].tolist() == [time if time <= last else time - last] * 2
        assert steps.observations[:, 0].tolist() == [0 if over else steps.final_observations[0, 0]] * 2
        assert steps.terminations.tolist() == [over and terminated] * 2
        assert steps.truncations.tolist() == [over and truncated] * 2


def play(envs, steps, seed, policy_seed=1):
    generator = np.random.default_rng(policy_seed)
    seen = [envs.reset(seed)]
    results = []
    for _ in range(steps):
        results.append(envs.step(generator.integers(envs.action_space.n, size=envs.num_envs)))
        seen.append(results[-1].observations)
    return np.stack(seen), results


@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_follows_from_the_seed(backend):
    envs = make_vector_env("MiniGrid-SimpleCrossingS9N3-v0", 3, backend=backend)
    first, results = play(envs, 400, seed=5)
    assert sum(step.terminations.sum() + step.truncations.sum() for step in results) > 0
    again, _ = play(envs, 400, seed=5)
    other, _ = play(make_vector_env("MiniGrid-SimpleCrossingS9N3-v0", 3, backend=backend), 400, seed=5)
    assert np.array_equal(first, again) and np.array_equal(first, other)
    assert not np.array_equal(first, play(envs, 400, seed=6)[0])
    assert first.dtype == np.uint8 and first.shape == (401, 3, 7, 7, 3)
    assert not np.array_equal(first[:, 0], first[:, 1])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("id", MINIGRID)
def test_episodes_last_as_long_as_they_may(id, backend):
    envs = make_vector_env(id, 2, backend=backend)
    envs.reset(0)
    turning_left = np.zeros(2, dtype=int)
    for _ in range(MOST_STEPS[id] - 1):
        steps = envs.step(turning_left)
        assert not (steps.terminations | steps.truncations).any() and not steps.rewards.any()
    steps = envs.step(turning_left)
    assert steps.truncations.all() and not steps.terminations.any() and not steps.rewards.any()


OTHER_SIZES = ("DoorKey-5x5", "KeyCorridorS3R1", "KeyCorridorS6R3", "MemoryS7", "LavaCrossingS11N5", "RedBlueDoors-6x6")


@needs_levels
@pytest.mark.parametrize("id", [*MINIGRID, *(f"MiniGrid-{name}-v0" for name in OTHER_SIZES)])
def test_compiled_environments_equal_minigrids_to_the_bit(id):
    """Levels of many seeds, and whatever happens in them, in the next episodes too."""
    ours, theirs = NativeMiniGrid(id, 24), GymnasiumVectorEnv(id, 24)
    assert (ours.observation_shape, ours.action_space) == (theirs.observation_shape, theirs.action_space)
    np.testing.assert_array_equal(ours.reset(7), theirs.reset(7))
    generator, ended = np.random.default_rng(0), 0
    for _ in range(150):
        actions = generator.choice(7, p=[0.13, 0.13, 0.4, 0.12, 0.05, 0.14, 0.03], size=24)
        found, expected = ours.step(actions), theirs.step(actions)
        for name, a, b in zip(found._fields, found, expected, strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b), name
        ended += int((found.terminations | found.truncations).sum())
    assert ended > 0 or not any(family in id for family in ("Lava", "Memory"))


@needs_levels
def test_compiled_environments_check_what_they_are_given():
    envs = make_vector_env("MiniGrid-DoorKey-8x8-v0", 3, backend="native")
    with pytest.raises(ValueError, match=r"was not reset; call reset\(seed\) first"):
        envs.step(np.zeros(3))
    envs.reset(0)
    with pytest.raises(ValueError, match="an action is 7; expected 0 to 6"):
        envs.step(np.array([0, 7, 0]))
    with pytest.raises(ValueError, match="an action is -1; expected 0 to 6"):
        envs.step(np.array([0, -1, 0]))
    with pytest.raises(ValueError, match="actions has 2 entries; expected 3"):
        envs.step(np.zeros(2))
    with pytest.raises(TypeError):
        envs.step(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="there are no compiled environments 'CartPole-v1'; use backend='gymnasium'"):
        make_vector_env("CartPole-v1", 2, backend="native")
    with pytest.raises(ValueError, match="options are for backend='gymnasium'; given are size"):
        make_vector_env("MiniGrid-DoorKey-8x8-v0", 2, backend="native", size=6)
    worlds = native_minigrid.load_module().Worlds
    for family, size, count, message in (
        (9, 8, 0, "there is no such family"),
        (0, 4, 0, "size is 4; expected at least 5"),
        (2, 8, 1, "size is 8; expected an odd number of at least 7"),
        (3, 3, 0, "count is 0; expected at least 1"),
        (0, 257, 0, "above 256"),
    ):
        with pytest.raises(ValueError, match=message):
            worlds(family=family, size=size, count=count, walls=False, random_length=False)
    with pytest.raises(ValueError, match="images has 1 entries; expected 2"):
        worlds(0, 8, 0, False, False).reset(np.zeros((2, 4), dtype=np.uint64), np.zeros((1, 7, 7, 3), dtype=np.uint8))


@needs_levels
def test_the_fastest_environments_that_can_be_had_are_taken(monkeypatch):
    id = "MiniGrid-DoorKey-8x8-v0"
    assert isinstance(make_vector_env(id, 2), NativeMiniGrid)
    assert isinstance(make_vector_env(id, 2, size=6), GymnasiumVectorEnv)  # options are Gymnasium's
    gymnasium.register("MiniGrid-Longer-v0", entry_point="minigrid.envs:DoorKeyEnv", kwargs={"max_steps": 9})
    try:
        assert isinstance(make_vector_env("MiniGrid-Longer-v0", 2), GymnasiumVectorEnv)
    finally:
        del gymnasium.registry["MiniGrid-Longer-v0"]
    monkeypatch.setattr(native_minigrid, "load_module", lambda: None)
    others = EnvPoolVectorEnv if id in envpool_ids() else GymnasiumVectorEnv
    assert isinstance(make_vector_env(id, 2), others)
    with pytest.raises(ModuleNotFoundError, match="were not built when the package was installed"):
        make_vector_env(id, 2, backend="native")


@needs_minigrid
@needs_envpool
@pytest.mark.parametrize("id", MINIGRID)
def test_envpool_shows_what_minigrid_shows(id):
    """At every place of the first view, every kind of cell is seen about as often."""
    shares = {}
    for backend, resets in (("gymnasium", 20), ("envpool", 60)):
        envs = make_vector_env(id, 16, backend=backend)
        views = np.concatenate([envs.reset(seed) for seed in range(resets)])
        codes = views.astype(np.int64) @ [100, 10, 1]  # object, colour and state of each cell
        shares[backend] = {kind: (codes == kind).mean(axis=0) for kind in np.unique(codes)}
    for kind in set(shares["gymnasium"]) | set(shares["envpool"]):
        ours, theirs = (shares[backend].get(kind, np.zeros((7, 7))) for backend in ("gymnasium", "envpool"))
        np.testing.assert_allclose(ours, theirs, atol=0.15, err_msg=f"object, colour, state: {kind}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_carried_shows_where_the_agent_stands(backend):
    envs = make_vector_env("MiniGrid-DoorKey-5x5-v0", 16, backend=backend)
    seen, generator = envs.reset(0), np.random.default_rng(0)
    carried = np.zeros(16, dtype=bool)
    for _ in range(300):
        ahead_is_key = seen[:, 3, 5, 0] == 5
        actions = np.where(ahead_is_key, 3, generator.integers(3, size=16))
        before, result = carried, envs.step(actions)
        seen, carried = result.final_observations, result.final_observations[:, 3, 6, 0] == 5
        picked = ahead_is_key & ~before
        assert carried[picked].all()
        assert (seen[picked, 3, 5, 0] == 1).all()  # and the floor is free
        seen, carried = result.observations, carried & ~(result.terminations | result.truncations)
    assert carried.any()


def walk_to_the_goal(observations, generator):
    """A fixed policy from the view alone: straight to a visible goal if the way is free, else at random."""
    actions = generator.choice(3, p=[0.2, 0.2, 0.6], size=len(observations))
    for index, view in enumerate(observations):
        goals = np.argwhere(view[:, :, 0] == 8)
        if len(goals):
            x, y = goals[0]
            ahead = view[3, 5, 0]
            if y < 6 and ahead in (1, 8):
                actions[index] = 2
            elif x != 3:
                actions[index] = 0 if x < 3 else 1
    return actions


@pytest.mark.slow
@needs_minigrid
@needs_envpool
@pytest.mark.parametrize("id", ["MiniGrid-SimpleCrossingS9N3-v0", "MiniGrid-LavaCrossingS9N2-v0"])
def test_a_fixed_policy_succeeds_as_often_in_both(id):
    rates, rewards = {}, {}
    for backend, count, steps in (("gymnasium", 16, 1000), ("envpool", 64, 1500)):
        envs = make_vector_env(id, count, backend=backend)
        generator = np.random.default_rng(0)
        seen = envs.reset(0)
        lengths = np.zeros(count)
        ended, succeeded = 0, 0
        for _ in range(steps):
            result = envs.step(walk_to_the_goal(seen, generator))
            seen = result.observations
            lengths += 1
            over = result.terminations | result.truncations
            won = result.rewards > 0
            # success reward 1 - 0.9·t / max_steps
            np.testing.assert_allclose(result.rewards[won], 1 - 0.9 * lengths[won] / MOST_STEPS[id], rtol=1e-6)
            assert not (won & ~result.terminations).any()
            ended, succeeded = ended + over.sum(), succeeded + won.sum()
            lengths[over] = 0
        rates[backend], rewards[backend] = succeeded / ended, ended
    assert rewards["gymnasium"] > 40
    assert rates["gymnasium"] == pytest.approx(rates["envpool"], abs=0.2)


def test_the_backend_is_chosen_and_missing_ones_are_named(monkeypatch):
    assert isinstance(make_vector_env("gatel0rd/Recall-v0", 2), GymnasiumVectorEnv)
    with pytest.raises(ValueError, match="backend is 'fast'; expected auto"):
        make_vector_env("CartPole-v1", 2, backend="fast")
    with pytest.raises(ValueError, match="Gymnasium knows no environment 'Carpole-v1'"):
        make_vector_env("Carpole-v1", 2)
    with pytest.raises(
        (ValueError, ModuleNotFoundError), match=r"EnvPool has no environment|EnvPool is not installed"
    ) as caught:
        make_vector_env("gatel0rd/Recall-v0", 2, backend="envpool")
    assert "backend='gymnasium'" in str(caught.value) or "gatel0rd[fast]" in str(caught.value)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    envpool_ids.cache_clear()
    assert envpool_ids() == frozenset()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gatel0rd\[fast\]'"):
        make_vector_env("MiniGrid-DoorKey-8x8-v0", 2, backend="envpool")
    envpool_ids.cache_clear()


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Discrete(5), "expected a Box of one dimension, or an image"),
        (spaces.Dict({"text": spaces.Discrete(3)}), "have text; expected an array, or an entry image"),
    ],
)
def test_observations_that_agents_cannot_see_are_refused(counting, monkeypatch, space, message):
    made = Counting.__init__

    def other(self, **options):
        made(self, **options)
        self.observation_space = space

    monkeypatch.setattr(Counting, "__init__", other)
    with pytest.raises(ValueError, match=message):
        make_vector_env(counting, 1)


def test_actions_that_agents_cannot_take_are_refused(counting, monkeypatch):
    made = Counting.__init__

    def other(self, **options):
        made(self, **options)
        self.action_space = spaces.MultiDiscrete([2, 3])

    monkeypatch.setattr(Counting, "__init__", other)
    with pytest.raises(ValueError, match="actions of Counting-v0 are MultiDiscrete"):
        make_vector_env(counting, 1)


@pytest.mark.filterwarnings("ignore")
def test_gymnasiums_checker_is_content_with_recall():
    check_env(Recall(), skip_render_check=True)


def test_recall_asks_for_what_was_shown():
    env = Recall(wait=(1, 3))
    asked = set()
    for seed in range(40):
        seen, _ = env.reset(seed=seed)
        shown = [int(seen[:2].argmax())]
        over = False
        while not over:
            question = seen[2:].any()
            first_or_second = int(seen[2:].argmax())
            answer = shown[first_or_second] if question else 0
            if question and seed % 2:
                answer = 1 - answer
            if question:
                asked.add((first_or_second, len(shown)))
            seen, reward, over, _, _ = env.step(np.int64(answer))
            if len(shown) == 1:
                shown.append(int(seen[:2].argmax()))
                assert seen.sum() == 1
            assert reward == (over and seed % 2 == 0)
    assert asked == {(0, 2), (1, 2)}
    with pytest.raises(ValueError, match="wait is"):
        Recall(wait=(3, 1))


class Succeeding(Counting):
    """Succeeds in every second episode; says so in its last step."""

    episodes = 0

    def step(self, action):
        seen, reward, over, truncated, _ = super().step(action)
        self.episodes += over
        return seen, reward, over, truncated, {"is_success": bool(over and self.episodes % 2)}


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_vector_environments_of_users_are_stepped_as_ours(mode):
    given = SyncVectorEnv([lambda end=end: Succeeding(end) for end in (3, 4)], autoreset_mode=mode)
    with make_vector_env(given, 2) as envs:
        ours = [Succeeding(3), Succeeding(4)]
        assert envs.reset(0).tolist() == [[0], [0]]
        for env in ours:
            env.reset()
        for _ in range(13):
            step = envs.step(np.zeros(2, dtype=int))
            seen, _, over, _, info = zip(*(env.step(0) for env in ours), strict=True)
            assert step.final_observations.tolist() == [each.tolist() for each in seen]
            assert step.terminations.tolist() == list(over) and not step.truncations.any()
            assert step.successes.tolist() == [each["is_success"] for each in info]
            following = [env.reset()[0] if end else each for env, end, each in zip(ours, over, seen, strict=True)]
            assert step.observations.tolist() == [each.tolist() for each in following]
        assert envs.reports_success and envs.id == "SyncVectorEnv"
    assert not given.closed
    given.close()


def test_vector_environments_that_do_not_fit_are_errors():
    def make(count, mode=AutoresetMode.SAME_STEP):
        return SyncVectorEnv([Counting] * count, autoreset_mode=mode)

    made = make_vector_env(make, 3)
    assert made.num_envs == 3
    made.close()
    assert made.envs.closed  # what a function made is closed with it
    with pytest.raises(ValueError, match=r"has 2 environments; expected 3, the number in PPOConfig"):
        make_vector_env(make(2), 3)
    with pytest.raises(ValueError, match="mode of SyncVectorEnv is NEXT_STEP; expected SAME_STEP or DISABLED"):
        make_vector_env(make(2, AutoresetMode.NEXT_STEP), 2)
    with pytest.raises(ValueError, match=r"the environment is None; expected an id"):
        make_vector_env(None, 2)
    with pytest.raises(ValueError, match=r"the function made a Counting; expected a gymnasium.vector.VectorEnv"):
        make_vector_env(lambda count: Counting(), 2)
    with pytest.raises(ValueError, match="num_envs is 0; expected at least 1"):
        make_vector_env("CartPole-v1", 0)


def test_success_is_the_environments_own_notion(counting):
    played = EpisodeStatistics(
        returns=[3.0, 5.0, 4.0], lengths=[3, 5, 4], rewarded=[True, True, False], succeeded=[False, True, False]
    )
    with make_vector_env(counting, 1) as envs:
        assert judge_episodes(played, envs).as_data() == {"success": None, "criterion": "none"}
        envs.reward_threshold = 4.0
        threshold = {"success": 2 / 3, "criterion": "return", "threshold": 4.0}
        assert judge_episodes(played, envs).as_data() == threshold
        envs.reports_success = True
        assert judge_episodes(played, envs).as_data() == {"success": 1 / 3, "criterion": "is_success"}
        assert judge_episodes(played, envs, success_return=5).criterion is SuccessCriterion.RETURN
        envs.id = "MiniGrid-Empty-5x5-v0"
        assert judge_episodes(played, envs).as_data() == {"success": 2 / 3, "criterion": "last_reward"}


class Reusing(Counting):
    """Shows the time in the same array again and again, and begins with whole numbers."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        if not hasattr(self, "seen"):
            self.seen = np.zeros(1, dtype=np.float32)
        self.seen[:] = 0
        return (self.seen if self.end < 9 else np.array([0])), {}

    def step(self, action):
        self.seen += 0.5
        return self.seen, 1.0, bool(self.seen >= 0.5 * self.end), False, {}


@pytest.fixture
def reusing():
    gymnasium.register("Reusing-v0", entry_point=Reusing, max_episode_steps=5)
    yield "Reusing-v0"
    del gymnasium.registry["Reusing-v0"]


def test_environments_may_write_into_what_they_returned(reusing):
    by_id = make_vector_env(reusing, 2, end=3)
    given = SyncVectorEnv([lambda: Reusing(3)] * 2, autoreset_mode=AutoresetMode.DISABLED)
    for envs in (by_id, make_vector_env(given, 2)):
        first = envs.reset(0)
        steps = [envs.step(np.zeros(2, dtype=int)) for _ in range(4)]
        assert first.tolist() == [[0], [0]]
        assert [step.final_observations[0, 0] for step in steps] == [0.5, 1.0, 1.5, 0.5]
        assert [step.observations[1, 0] for step in steps] == [0.5, 1.0, 0.0, 0.5]


def test_observations_have_the_type_of_their_space(reusing):
    envs = make_vector_env(reusing, 2, end=9)
    seen = [envs.reset(0), *(envs.step(np.zeros(2, dtype=int)).observations for _ in range(5))]
    assert {array.dtype for array in seen} == {np.dtype(np.float32)}
    assert np.stack(seen)[:, 0, 0].tolist() == [0, 0.5, 1.0, 1.5, 2.0, 0.0]  # out of time after five steps

    class Typed(gymnasium.vector.VectorEnv):
        """Begins with whole numbers, too."""

        num_envs, spec = 2, None
        metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
        single_observation_space, single_action_space = spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 1), dtype=np.int64), {}

    assert make_vector_env(Typed(), 2).reset(0).dtype == np.float32


def test_observations_that_their_space_does_not_hold_are_errors(reusing, monkeypatch):
    made = Reusing.__init__

    def other(self, **options):
        made(self, **options)
        self.observation_space = spaces.Box(0, 100, (1,), np.int64)

    monkeypatch.setattr(Reusing, "__init__", other)
    envs = make_vector_env(reusing, 2, end=3)
    assert envs.reset(0).dtype == np.int64  # 0.0 is a whole number
    with pytest.raises(ValueError, match="of the type float32 that its space, of the type int64, does not hold"):
        envs.step(np.zeros(2, dtype=int))
