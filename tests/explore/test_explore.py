"""The local page: what its API answers and refuses, and the page as one file."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import urllib.request
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import small_model

import gatel0rd
from gatel0rd.explore import make_app, save_page, serve
from gatel0rd.explore.assets import list_assets, plotly_source
from gatel0rd.explore.models import prepare_models
from gatel0rd.explore.sessions import OnlineModel, describe_opening
from gatel0rd.explore.views import LONGEST, list_events, predict_sequence, to_plain
from gatel0rd.models.fitted import FittedModel
from gatel0rd.recordings import RecordingError, from_arrays
from gatel0rd.recordings.segmentation import segment
from gatel0rd.worlds.data import EXAMPLE_SEQUENCES
from gatel0rd.worlds.robot_remote_control.env import RobotRemoteControl

with warnings.catch_warnings():  # it would rather have httpx2, and says so when it is imported
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TRAINED = Path(__file__).parents[1] / "data" / "rrc-gatel0rd"
STEPS = 9


@pytest.fixture
def recordings():
    generator = np.random.default_rng(3)
    return from_arrays(
        [generator.normal(3, 20, (length, 3)) for length in (STEPS, 6)],
        [generator.normal(0.5, 2, (length, 2)) for length in (STEPS, 6)],
        observation_names=("depth", "speed", "angle"),
        action_names=("push", "turn"),
        names=("first", "second"),
    )


@pytest.fixture
def models():
    return [("ours", small_model()), ("peer", small_model("gru", observed=("angle", "depth"), acted=("turn",)))]


def client_of(models, recordings):
    return TestClient(make_app(models, recordings), base_url="http://127.0.0.1:8765")


@pytest.fixture
def client(models, recordings):
    return client_of(models, recordings)


@pytest.fixture(scope="module")
def driver():
    return client_of([("rrc", gatel0rd.load(TRAINED))], None)


def test_overview_tells_models_sequences_and_variables(client, recordings):
    content = client.get("/api/overview").json()
    assert [(model["name"], model["cell"], model["init_steps"]) for model in content["models"]] == [
        ("ours", "gatel0rd", 2),
        ("peer", "gru", 2),
    ]
    assert [(entry["name"], entry["length"]) for entry in content["sequences"]] == [("first", STEPS), ("second", 6)]
    kinds = {entry["name"]: entry["kind"] for entry in content["variables"]}
    assert kinds == {
        "depth": "observation",
        "speed": "observation",
        "angle": "observation",
        "push": "action",
        "turn": "action",
    }
    assert content["variables"][1]["spread"] == pytest.approx(np.ptp(recordings.observations[:, 1]), rel=1e-5)
    assert content["live"] and content["drives"] == []


def test_a_sequence_is_sent_as_recorded(client, recordings):
    values = client.post("/api/sequence", json={"sequence": 1}).json()["values"]
    seen, acted = recordings.sequence(1)
    assert values["speed"] == pytest.approx(seen[:, 1], rel=1e-5)
    assert values["turn"] == pytest.approx(acted[:, 1], rel=1e-5)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("real_steps", [None, 2, 5])
def test_predictions_are_those_of_the_model(client, models, recordings, place, real_steps):
    answer = client.post("/api/predict", json={"model": place, "sequence": 0, "real_steps": real_steps}).json()
    model = models[place][1]
    seen, acted = recordings.select_columns(model.observation_names, model.action_names, "").sequence(0)
    trajectory = model.run(seen, acted, real_steps=real_steps)
    for column, name in enumerate(model.observation_names):
        assert answer["predictions"][name] == pytest.approx(trajectory.predictions[:, column], rel=1e-4)
    np.testing.assert_allclose(answer["latents"], trajectory.latents.T, rtol=1e-4)
    squared = (((trajectory.predictions - seen[1:]) / 20) ** 2).mean(axis=1)
    real = STEPS - 1 if real_steps is None else real_steps
    assert answer["one_step_error"] == pytest.approx(squared[:real].mean(), rel=1e-4)
    assert answer["free_error"] == (None if real_steps is None else pytest.approx(squared[real:].mean(), rel=1e-4))
    if trajectory.gates is None:
        assert answer["gates"] is None and answer["events"] == []
    else:
        np.testing.assert_allclose(answer["gates"], trajectory.gates.T, rtol=1e-4)
        assert answer["open_rate"] == pytest.approx((trajectory.gates > 0).mean())


def test_free_running_changes_only_what_comes_after(client):
    real, free = (
        client.post("/api/predict", json={"model": 0, "sequence": 0, "real_steps": steps}).json()["predictions"][
            "depth"
        ]
        for steps in (None, 4)
    )
    assert real[:4] == free[:4]
    assert all(a != b for a, b in zip(real[4:], free[4:], strict=True))


@pytest.mark.parametrize("variable", ["depth", "turn"])
def test_edits_change_predictions_from_their_step_on(client, variable):
    edits = [{"step": 3, "variable": variable, "value": 50.0}]
    before = client.post("/api/predict", json={"model": 0, "sequence": 0}).json()["predictions"]["speed"]
    after = client.post("/api/predict", json={"model": 0, "sequence": 0, "edits": edits}).json()["predictions"]["speed"]
    assert before[:3] == after[:3] and before[3] != after[3]
    again = client.post("/api/predict", json={"model": 0, "sequence": 0}).json()["predictions"]["speed"]
    assert again == before


def test_an_edit_of_a_variable_that_a_model_does_not_have_leaves_it_alone(client):
    edits = [{"step": 3, "variable": "speed", "value": 50.0}]
    before, after = (
        client.post("/api/predict", json={"model": 1, "sequence": 0, "edits": given}).json() for given in ([], edits)
    )
    assert before == after


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("sequence", {"sequence": 2}, "sequence is 2; expected a whole number from 0 to 1"),
        ("sequence", {"sequence": "../../etc/passwd"}, "expected a whole number"),
        ("sequence", {"sequence": True}, "expected a whole number"),
        ("sequence", {"sequence": 0, "path": "/etc"}, "unknown fields"),
        ("predict", {"sequence": 0}, "model is None"),
        ("predict", {"model": 0, "sequence": 0, "real_steps": 0}, "real_steps is 0; expected"),
        ("predict", {"model": 0, "sequence": 0, "real_steps": STEPS}, "from 1 to 8"),
        ("predict", {"model": 0, "sequence": 0, "edits": 3}, "edits are not a list"),
        ("predict", {"model": 0, "sequence": 0, "edits": [4]}, "expected step, variable and value"),
        (
            "predict",
            {"model": 0, "sequence": 0, "edits": [{"step": 9, "variable": "depth", "value": 1}]},
            "from 0 to 8",
        ),
        (
            "predict",
            {"model": 0, "sequence": 0, "edits": [{"step": 0, "variable": "x", "value": 1}]},
            "no variable 'x'",
        ),
        ("predict", {"model": 0, "sequence": 0, "edits": [{"step": 0, "variable": [], "value": 1}]}, "no variable"),
        ("predict", {"model": 0, "sequence": 0, "edits": [{"step": 0, "variable": "depth", "value": "1"}]}, "finite"),
        ("drive/start", {"scenario": "rrc"}, "none of these models"),
        ("drive/step", {"session": "nobody", "action": []}, "this world is gone"),
        ("drive/step", {"session": "nobody", "action": [None]}, "expected a finite number"),
    ],
)
def test_wrong_requests_are_explained(client, path, body, message):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no",
        "[]",
        "[" * 100_000,
        '{"sequence": NaN}',
        b"\xff\xfe",
        '{"sequence": 1e400}',
        '{"sequence": ' + "9" * 5000 + "}",
        '{"sequence": -' + "9" * 5000 + "}",
        '{"sequence": "\\ud800"}',
        '{"sequence": 0, "\\udfff": 1}',
        '{"sequence": [{"deep": "\\ud800"}]}',
    ],
)
def test_what_is_no_plain_json_object_is_refused(client, body):
    answer = client.post("/api/sequence", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["error"]


def test_other_types_sizes_methods_and_paths_are_refused(client):
    assert client.post("/api/sequence", content="{}", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post("/api/sequence", json={"sequence": "x" * 2_000_000}).status_code == 413
    assert client.get("/api/predict").status_code == 405
    for path in ("/api/nothing", "/app.py", "/../app.py", "/%2e%2e/cli.py", "/page.html"):
        answer = client.get(path)
        assert answer.status_code == 404 and answer.json()["error"] == "Not Found"


@pytest.mark.parametrize("path", ["predict", "drive/start", "drive/step"])
@pytest.mark.parametrize("value", ["9" * 5000, '"\\ud800"', '["\\ud800"]', '{"\\ud800": 1}'])
def test_no_field_of_a_request_makes_the_server_fail(client, path, value):
    for field in (
        "model",
        "sequence",
        "edits",
        "scenario",
        "seed",
        "start",
        "session",
        "action",
        "point",
        "real_steps",
    ):
        body = f'{{"model": 0, "sequence": 0, "{field}": {value}}}'
        answer = client.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400 and answer.json()["error"]


def test_a_client_that_leaves_in_the_middle_of_a_request_is_no_failure(models, recordings):
    """Starlette raises what is not handled, and uvicorn prints its traceback."""
    messages = [{"type": "http.request", "body": b'{"sequ', "more_body": True}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/sequence", "headers": headers, "query_string": b""}
    with ThreadPoolExecutor() as pool:  # Playwright keeps a loop running in the thread of its tests
        pool.submit(asyncio.run, make_app(models, recordings)(scope, receive, send)).result()
    assert sent[0]["status"] == 400 and not messages


def test_a_failure_inside_shows_no_stack_trace(models, recordings, monkeypatch):
    monkeypatch.setattr(FittedModel, "run", lambda *arguments, **options: 1 / 0)
    client = TestClient(make_app(models, recordings), base_url="http://localhost", raise_server_exceptions=False)
    answer = client.post("/api/predict", json={"model": 0, "sequence": 0})
    assert answer.status_code == 500 and "ZeroDivision" not in answer.text and answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8765"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "http://127.0.0.1:8765"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:1234"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_only_this_machine_is_answered(client, headers, status):
    answer = client.get("/api/overview", headers=headers)
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status == 403)


def test_the_page_and_its_parts_name_no_other_address(client):
    names = [name for name, _ in list_assets()]
    assert {"page.html", "page.css", "main.js", "state.js"} < set(names)
    for name in names:
        answer = client.get("/" if name == "page.html" else f"/{name}")
        assert answer.status_code == 200
        assert not re.search(r"(https?:)?//\w+\.", answer.text)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.get("/plotly.js").text == plotly_source()


def test_a_saved_page_holds_everything(models, recordings, tmp_path):
    path = save_page(models, recordings, tmp_path / "new" / "page.html", sequences=1)
    text = path.read_text().replace(plotly_source(), "")
    assert not re.search(r"https?://", text)
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=(?!\"data:)[\"'][^\"']", text)
    content = json.loads(re.search(r'id="saved">(.*?)</script>', text, re.DOTALL)[1])
    assert not content["live"] and len(content["sequences"]) == len(content["saved"]) == 1
    seen, acted = recordings.sequence(0)
    trajectory = models[0][1].run(seen, acted)
    assert content["saved"][0]["trajectories"][0]["predictions"]["depth"] == pytest.approx(
        trajectory.predictions[:, 0], rel=1e-4
    )
    with pytest.raises(ValueError, match="at least 1"):
        save_page(models, recordings, path, sequences=0)


def test_names_cannot_break_out_of_a_saved_page(recordings, tmp_path):
    text = save_page([("</script><b>", small_model())], recordings, tmp_path / "page.html").read_text()
    assert "</script><b>" not in text


def test_a_port_in_use_is_explained(models, recordings):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port} cannot be used .* --port"):
            serve(models, recordings, port=port, open_browser=False, on_start=print)


@pytest.mark.slow
def test_serving_until_interrupted():
    code = (
        "import functools, gatel0rd; from gatel0rd.explore import serve; "
        f"serve([('rrc', gatel0rd.load({str(TRAINED)!r}))], None, port=0, open_browser=False, "
        "on_start=functools.partial(print, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert "<title>GateL0RD" in answer.read().decode()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 0


@pytest.mark.slow
def test_clients_that_disconnect_leave_nothing_in_the_terminal():
    code = (
        "import functools, gatel0rd; from gatel0rd.explore import serve; "
        f"serve([('rrc', gatel0rd.load({str(TRAINED)!r}))], None, port=0, open_browser=False, "
        "on_start=functools.partial(print, flush=True))"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True) as server:
        port = int(server.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        head = f"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        whole = b'{"model": 0, "sequence": 0}'
        for length, body in ((500, b'{"model'), (len(whole), whole), (500, b"")):
            for reset in (b"\0" * 8, struct.pack("ii", 1, 0)):  # an orderly end, and none
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        with socket.create_connection(("127.0.0.1", port)) as client:  # leaves while it is sent megabytes
            client.sendall(f"GET /plotly.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGINT)
        assert server.stderr.read() == "" and server.wait(timeout=60) == 0


def test_importing_is_cheap():
    heavy = ["starlette", "uvicorn", "plotly", "torch", "PIL"]
    code = f"import sys, gatel0rd.explore; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_own_models_need_data_and_worlds_do_not_mix(models):
    with pytest.raises(RecordingError, match="name it too"):
        prepare_models(models, None)
    with pytest.raises(RecordingError, match=r"different worlds \(own data, rrc\)"):
        prepare_models([*models, ("rrc", gatel0rd.load(TRAINED))], None)
    with pytest.raises(ValueError, match="no model"):
        prepare_models([], None)


def test_missing_columns_are_named(recordings):
    with pytest.raises(RecordingError, match="no column height"):
        make_app([("ours", small_model(observed=("depth", "height")))], recordings)


def test_a_models_own_scenario_makes_recordings(driver):
    content = driver.get("/api/overview").json()
    assert len(content["sequences"]) == EXAMPLE_SEQUENCES
    assert [entry["name"] for entry in content["variables"]][:4] == ["agent_x", "agent_y", "robot_x", "robot_y"]
    (world,) = content["drives"]
    assert (world["scenario"], world["title"]) == ("rrc", "Robot Remote Control")
    assert world["steering"]["keys"]["ArrowDown"] == [0, -1] and world["steering"]["shot"] is None


def test_a_scenarios_model_also_reads_numbered_columns():
    data = from_arrays(np.zeros((2, 5, 4)), np.zeros((2, 5, 2)))
    (subject,) = prepare_models([("rrc", gatel0rd.load(TRAINED))], data)
    assert subject.model.observation_names == ("x0", "x1", "x2", "x3")


def test_plain_numbers_are_short_and_finite():
    values = np.array([0.0, 1 / 3, -123456.7, 1e-30, np.nan, np.inf, 3e38])
    assert to_plain(values) == [0.0, 0.333333, -123457.0, 1e-30, None, None, 3e38]
    json.dumps(to_plain(np.full((2, 2), np.nan)), allow_nan=False)


def test_a_prediction_that_explodes_is_sent_without_nan(recordings, models):
    (subject,) = prepare_models([models[0]], recordings)
    with torch.no_grad():
        subject.model.model.post[-1].bias.fill_(1e38)
    json.dumps(predict_sequence(subject, 0, real_steps=2), allow_nan=False)


def test_events_are_where_a_gate_opens_after_all_were_closed():
    gates = np.array([[0.5, 0, 0], [0, 0, 0], [0, 0.1, 0], [0, 0.2, 0], [0.3, 0.2, 0], [0, 0, 0], [0, 0, 0.4]])
    assert list_events(gates) == [2, 6]
    assert describe_opening([3]) == "gate opened in dimension 3"
    assert describe_opening([3, 1, 3]) == "gates opened in dimensions 1 and 3"
    assert describe_opening([]) is None


def test_the_page_shows_the_events_that_segment_finds(driver):
    model = prepare_models([("rrc", gatel0rd.load(TRAINED))], None)[0]
    found = segment(model.model, model.recordings, apart=1)
    shown = [
        driver.post("/api/predict", json={"model": 0, "sequence": index}).json()["events"]
        for index in range(len(found))
    ]
    assert shown == [[event.time for event in entry.events] for entry in found]
    assert sum(map(len, shown)) > 20


def test_live_events_are_those_of_the_whole_sequence(driver):
    session = driver.post("/api/drive/start", json={"scenario": "rrc", "start": {"agent": [0.2, 0.5]}}).json()[
        "session"
    ]
    gates, messages = [], {}
    for step in range(30):
        action = [1 if step % 9 < 6 else -1, 0]
        (told,) = driver.post("/api/drive/step", json={"session": session, "action": action}).json()["models"]
        gates += [row["gates"] for row in told["rows"]]
        assert told["events"] == list_events(np.array(gates))
        if told["message"] is not None:
            messages[step] = told["message"]
    assert list(messages) == list_events(np.array(gates)) and messages
    for step, message in messages.items():
        assert message == describe_opening((np.flatnonzero(np.array(gates)[step] > 0) + 1).tolist())


def test_long_sequences_are_cut():
    long = from_arrays([np.random.default_rng(0).normal(size=(LONGEST + 3, 3))], [np.zeros((LONGEST + 3, 2))])
    model = small_model("gru", observed=("x0", "x1", "x2"), acted=("a0", "a1"))
    client = client_of([("long", model)], long)
    entry = client.get("/api/overview").json()["sequences"][0]
    assert (entry["length"], entry["whole_length"]) == (LONGEST, LONGEST + 3)
    assert len(client.post("/api/sequence", json={"sequence": 0}).json()["values"]["x1"]) == LONGEST
    assert len(client.post("/api/predict", json={"model": 0, "sequence": 0}).json()["predictions"]["x1"]) == LONGEST - 1


@pytest.mark.parametrize("init_steps", [1, 2, 3])
def test_watching_step_by_step_equals_a_run(recordings, init_steps):
    model = small_model(init_steps=init_steps)
    seen, acted = recordings.sequence(0)
    online = OnlineModel(model)
    made = [online.feed(seen[t].astype(np.float64), acted[t].astype(np.float64)) for t in range(STEPS - 1)]
    assert [len(rows) for rows in made] == [0] * (init_steps - 1) + [init_steps] + [1] * (STEPS - 1 - init_steps)
    rows, trajectory = [row for part in made for row in part], model.run(seen, acted)
    np.testing.assert_allclose([row.latents for row in rows], trajectory.latents, atol=1e-5)
    np.testing.assert_allclose([row.gates for row in rows], trajectory.gates, atol=1e-5)
    np.testing.assert_allclose([row.prediction for row in rows], trajectory.predictions, rtol=1e-4, atol=1e-4)


def test_driving_is_the_environment_and_opens_a_gate_at_the_computer(driver):
    start = {"agent": [-0.35, 0.5], "robot": [0.0, 0.0]}
    world = RobotRemoteControl()
    observation, _ = world.reset(options=start)
    answer = driver.post("/api/drive/start", json={"scenario": "rrc", "start": start}).json()
    assert answer["observation"] == pytest.approx(observation)
    assert answer["frame"].startswith("data:image/png;base64,iVBOR")
    session, opened, reached = answer["session"], {}, None
    for step in range(1, 13):
        answer = driver.post("/api/drive/step", json={"session": session, "action": [1, 0]}).json()
        observation, _, _, _, info = world.step(np.array([1.0, 0.0]))
        assert answer["step"] == step
        assert answer["observation"] == pytest.approx(observation, rel=1e-5)
        (told,) = answer["models"]
        assert len(told["rows"]) == 1
        if told["message"]:
            opened[step] = told["message"]
        if any("computer" in words for words in answer["messages"]):
            reached = step
    assert reached == 8 and info["controlled"]
    near = [words for step, words in opened.items() if abs(step - reached) <= 1]
    assert near and all("opened in dimension" in words for words in near)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"scenario": "rrc", "start": {"agent": [5, 0]}}, "expected a position"),
        ({"scenario": "rrc", "start": {"ghost": 1}}, "there is no option ghost"),
        ({"scenario": "rrc", "start": []}, "start is []"),
        ({"scenario": "rrc", "seed": -1}, "seed is -1"),
        ({"scenario": "billiard"}, "none of these models"),
    ],
)
def test_wrong_starts_are_explained(driver, body, message):
    answer = driver.post("/api/drive/start", json=body)
    assert answer.status_code == 400 and message in answer.json()["error"]


def test_wrong_actions_are_explained_and_old_worlds_make_room(driver):
    session = driver.post("/api/drive/start", json={"scenario": "rrc", "seed": 1}).json()["session"]
    answer = driver.post("/api/drive/step", json={"session": session, "action": [1]})
    assert answer.status_code == 400 and answer.json()["error"] == "action has 1 numbers; expected 2"
    for _ in range(8):
        driver.post("/api/drive/start", json={"scenario": "rrc"})
    answer = driver.post("/api/drive/step", json={"session": session, "action": [1, 0]})
    assert answer.status_code == 400 and "gone" in answer.json()["error"]


@pytest.mark.parametrize(
    ("scenario", "observed", "acted", "start", "action"),
    [
        ("shepherd", 7, 3, {"agent": [2.0, -0.5]}, [-1, 0, -1]),
        ("billiard", 2, 0, {"position": [0, 0], "velocity": [1.5, 0.1]}, []),
    ],
)
def test_other_worlds_are_driven_too(scenario, observed, acted, start, action):
    model = small_model(
        observed=[f"x{i}" for i in range(observed)],
        acted=[f"a{i}" for i in range(acted)],
        run={"scenario": scenario, "preset": "text"},
    )
    data = from_arrays(np.zeros((1, 4, observed)), np.zeros((1, 4, acted)))
    client = client_of([(scenario, model)], data)
    begun = client.post("/api/drive/start", json={"scenario": scenario, "start": start}).json()
    first = client.post("/api/drive/step", json={"session": begun["session"], "action": action}).json()
    assert first["observation"] != begun["observation"] and first["models"][0]["rows"] == []
    second = client.post("/api/drive/step", json={"session": begun["session"], "action": action}).json()
    assert len(second["models"][0]["rows"]) == 2
    if scenario == "shepherd":
        assert first["messages"] == ["the agent put the cage down"]
