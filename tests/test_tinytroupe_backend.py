"""TinyTroupe as a backend, as a user meets it: the command line, in a folder of its own, with a scripted Ollama server.

Each test runs twice: with the stand-in package of tests/stand_in, and with the real package where it is installed
(`pytest -m tinytroupe` runs those alone). All the runs of one package start at once, because a few of them mostly wait.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent
ROOT, STAND_IN = HERE.parent, HERE / "stand_in"
sys.path[:0] = [str(HERE), str(ROOT)]

from ollama_server import OllamaServer, default_answer  # noqa: E402

from tinytroupe_tasks import PERSONAS, build_prompt  # noqa: E402

FIRST = "P_devops"
TWO = "--only=P_devops,P_datasci"


def real_package():
    """The folder of the installed TinyTroupe, neither the stand-in nor the placeholder; None without it."""
    path = [folder for folder in sys.path if Path(folder or ".").resolve() != STAND_IN]
    found = PathFinder.find_spec("tinytroupe", path)
    folders = [Path(folder) for folder in found.submodule_search_locations or ()] if found else []
    return next((folder for folder in folders if (folder / "agent").is_dir()), None)


# ----------------------------------------------------------------------------------------------
# What the model answers
# ----------------------------------------------------------------------------------------------

STATE = {"goals": "Help.", "context": ["At work."], "attention": "The question.", "emotions": "Calm."}
DONE = {"type": "DONE", "content": "", "target": ""}


def talk(content):
    return {"type": "TALK", "content": content, "target": ""}


def turn(*actions, **others):
    return json.dumps({"actions": actions, "cognitive_state": STATE} | others)


def by_tinytroupe(body):
    """Whether a chat came out of TinyTroupe, which sends three messages; the ollama backend sends one."""
    return len(body["messages"]) == 3


def answer(body, number):
    """Another task in each answer, as a turn where TinyTroupe asks."""
    task = default_answer(number)
    return turn(talk(task), DONE) if by_tinytroupe(body) else task


def heard(body):
    """The question in a chat of TinyTroupe's."""
    return json.loads(body["messages"][-1]["content"])["stimuli"][0]["content"]


# ----------------------------------------------------------------------------------------------
# Runs
# ----------------------------------------------------------------------------------------------


def place(folder, files=()):
    """A fresh place for a run: a current folder with the files in it, a home, a folder for temporary files."""
    where = SimpleNamespace(**{name: folder / name for name in ("cwd", "home", "temp")})
    for one in vars(where).values():
        one.mkdir(parents=True)
    for name, text in dict(files).items():
        (where.cwd / name).write_text(text, encoding="utf-8")
    return where


def environment(where, packages, server=None, **env):
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(?i)(OLLAMA|OPENAI|AZURE|PYTHON)|\w+_PROXY$", k)}
    kept |= {"HOME": str(where.home), "TMPDIR": str(where.temp), "PYTHONDONTWRITEBYTECODE": "1"}
    # What the real package would download at its first call of OpenAI is refused at once.
    kept |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    kept |= ({"OLLAMA_HOST": server.url} if server else {}) | ({"PYTHONPATH": str(packages)} if packages else {})
    return kept | env


def run(folder, packages, *args, server=None, files=(), command=("tinytroupe_tasks.py",), **env):
    """Run a command line; what it printed, wrote and left behind, and what it asked the server."""
    where = place(folder, files)
    command = [sys.executable, *(str(ROOT / part) if part.endswith(".py") else part for part in command), *args]
    done = subprocess.run(
        command,
        cwd=where.cwd,
        env=environment(where, packages, server, **env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    ended = time.monotonic()
    out = where.cwd / "generated_tasks.json"
    tasks = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    return SimpleNamespace(
        # From the first question on: the import takes as long as the machine is busy.
        seconds=ended - min((r["at"] for r in server.requests if r["path"] == "/api/chat"), default=ended) if server else 0.0,
        status=done.returncode,
        stdout=done.stdout,
        stderr=done.stderr,
        lines=done.stderr.splitlines(),
        tasks={task["id"]: task for task in tasks},
        left=sorted(p.name for p in where.cwd.iterdir() if p.name not in dict(files)),
        strewn=[p.name for one in (where.home, where.temp) for p in one.iterdir()],
        files={name: (where.cwd / name).read_text(encoding="utf-8") for name in dict(files)},
        server=server,
        chats=list(server.chats) if server else [],
    )


def lines_with(result, *parts):
    return [line for line in result.lines if all(part in line for part in parts)]


def backends(result):
    return [task["backend"] for task in result.tasks.values()]


def assert_no_traces(result):
    """Nothing of TinyTroupe's on the screen or on the disk."""
    assert result.left == ["generated_tasks.json"]
    assert not result.strewn
    assert result.stdout == ""
    assert not re.search(r"(?i)traceback|disclaimer|INFO|DEBUG|\[OpenAI\]|API_TYPE =", result.stderr)


# Answers that hold a task: (what the model sends, what is taken as the answer).
TASK = "TASK: Compare the top 3 {topic} and save it as eval-{slug}.md"
TOPICS = {
    "fenced": "garden labels",
    "one-talk": "tide mills",
    "several-talks": "sourdough ovens",
    "thinks-first": "chess clocks",
    "no-done": "glacier maps",
    "thinking-text": "bicycle bells",
    "single-action": "lead typefaces",
    "no-state": "compost heaps",
    "null-state": "river ferries",
    "escaped": "café crémas",
    "markup": "pottery [/glaze] kilns",
    "missing-keys": "flood sirens",
}
GOOD = {case: TASK.format(topic=topic, slug=case) for case, topic in TOPICS.items()}
SHAPES = {
    "fenced": f"```json\n{turn(talk(GOOD['fenced']), DONE)}\n```",
    "one-talk": turn(talk(GOOD["one-talk"]), DONE),
    "several-talks": turn(talk("Good question."), talk("I would ask this:"), talk(GOOD["several-talks"]), DONE),
    "thinks-first": turn({"type": "THINK", "content": "Hm.", "target": ""}, talk(GOOD["thinks-first"]), DONE),
    "no-done": turn(talk(GOOD["no-done"])),
    "thinking-text": f"<think>\n{{What now?}}\n</think>\n{turn(talk(GOOD['thinking-text']), DONE)}",
    "single-action": json.dumps({"action": talk(GOOD["single-action"]), "cognitive_state": STATE}),
    "no-state": json.dumps({"actions": [talk(GOOD["no-state"]), DONE]}),
    "null-state": turn(talk(GOOD["null-state"]), DONE, cognitive_state=None),
    "escaped": turn(talk(GOOD["escaped"]), DONE),
    "markup": turn(talk(GOOD["markup"]), DONE),
    "missing-keys": turn({"type": "TALK", "content": GOOD["missing-keys"]}, {"type": "DONE"}),
}

# Answers without one: (what the server sends, words of the reason that the user reads).
FAULTS = {
    "silent": (turn({"type": "THINK", "content": "Hm.", "target": ""}, DONE), "no task"),
    "no-actions": (turn(), "no task"),
    "odd-actions": (turn(actions=7), "no task|JSON|failed"),
    "null-content": (turn(talk(None), DONE), "no task"),
    "refusal": (turn(talk("I'm sorry, but I can't help with that."), DONE), "I'm sorry"),
    "chat-only": (turn(talk("Hello! How are you today?"), DONE), "How are you"),
    "not-json": ("Sure, here is my answer", "JSON"),
    "half-json": (turn(talk(default_answer(900)), DONE)[:60], "JSON"),
    "list": ("[]", "JSON object"),
    "empty": ("", "JSON|empty"),
    "cut-off": ({"content": turn(talk(default_answer(901)), DONE), "done_reason": "length"}, "JSON|empty|cut"),
    "bad-request": ({"status": 400, "error": "the model runner is boiling over"}, "boiling over"),
}


def team():
    """A persona a case, so that one run holds all; a good answer after each fault, because three in a row end a backend."""
    cases = list(FAULTS) + list(SHAPES)
    cases[0::2], cases[1::2] = list(FAULTS), list(SHAPES)
    return [
        {
            "id": case,
            "name": "Sam",
            "role": f"Tester of {case} answers",
            "context": 'Cares about [/x] and [bold], {{braces}} {x}, "quotes", 100% and 日本語. Is deciding a lot.',
        }
        for case in cases
    ]


def team_answer(body, number):
    if not by_tinytroupe(body):
        return default_answer(number)
    case = re.search(r"Tester of (\S+) answers", heard(body))[1]
    return SHAPES[case] if case in SHAPES else FAULTS[case][0]


def all_eight(run):
    at_once, most, lock = 0, 0, threading.Lock()

    def counted(body, number):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return answer(body, number)

    with OllamaServer(answers=counted) as server:
        result = run("--count=2", "--jobs=8", "--seed=7", server=server)
    result.at_once = most
    return result


def preview(run):
    with OllamaServer(answers=answer) as server:
        return run(TWO, "--dry-run", "--json", server=server)


def all_cases(run):
    with OllamaServer(answers=team_answer) as server:
        return run("--personas=team.json", server=server, files={"team.json": json.dumps(team())})


def explicit(run):
    """No fallback: one refusal three times over, then a task, then three failures in a row."""

    def answers(body, number):
        return answer(body, number) if number == 3 else FAULTS["refusal" if number < 3 else "not-json"][0]

    with OllamaServer(answers=answers) as server:
        return run("--backend=tinytroupe", server=server)


def explicit_without_server(run):
    return run("--backend=tinytroupe", TWO, OLLAMA_HOST="127.0.0.1:9", files={"generated_tasks.json": "[]"})


def server_stops(run):
    """The server goes down while the second persona is asked."""

    def answers(body, number):
        if number:
            server.stop()
        return answer(body, number)

    server = OllamaServer(answers=answers)
    return run("--only=P_devops,P_datasci", "--timeout=20", server=server)


def server_is_slow(run):
    with OllamaServer(answers=answer, delay=60) as server:
        return run(TWO, "--timeout=2", server=server)


# The caller's own logging and paths, before and after a run with a success and with a failure.
IN_PROCESS = """
import io, logging, os, sys, warnings
import tinytroupe_tasks
root, seen = logging.getLogger(), io.StringIO()
if sys.argv[1] == "own":
    root.addHandler(logging.StreamHandler(seen))
    root.setLevel(logging.ERROR)
def state():
    return [root.level, list(root.handlers), list(sys.path), os.getcwd(), sys.stdout, sys.stderr, dict(os.environ)]
before, lines = state(), []
tasks = tinytroupe_tasks.generate(tinytroupe_tasks.PERSONAS[:3], backend="tinytroupe", say=lines.append)
for name, old, new in zip("level handlers path cwd stdout stderr environ".split(), before, state()):
    assert old == new, f"{name}: {old} -> {new}"
assert len(tasks) == 2, lines
assert not seen.getvalue(), seen.getvalue()
"""


def in_process(handlers):
    def start(run):
        faults = {1: "not JSON"}
        with OllamaServer(answers=lambda body, number: faults.get(number) or answer(body, number)) as server:
            return run(handlers, server=server, command=("-c", f"import sys\nsys.path[0] = {str(ROOT)!r}\n{IN_PROCESS}"))

    return start


def configured(name, text, *args, models=("llama3.2",), env=()):
    """A run for one persona with a configuration file beside it."""

    def start(run):
        with OllamaServer(answers=answer, models=models) as server:
            files = {name: text.replace("SERVER", server.url)}
            return run(f"--only={FIRST}", *args, server=server, files=files, **dict(env))

    return start


def over_openai(run):
    with OllamaServer(answers=lambda body, number: turn(talk(default_answer(number)), DONE), models=["own"]) as server:
        files = {"team.ini": "[OpenAI]\nAPI_TYPE=openai\nMODEL=own\n"}
        args = (f"--only={FIRST}", "--tinytroupe-config=team.ini")
        return run(*args, server=server, files=files, OPENAI_API_KEY="key", OPENAI_BASE_URL=f"{server.url}/v1")


def openai_is_down(run):
    """TinyTroupe's own client then sleeps for 26 minutes, five times over."""
    with OllamaServer(answers=answer) as server:
        files = {"config.ini": "[OpenAI]\nAPI_TYPE=openai\n"}
        away = {"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
        return run(TWO, "--timeout=2", server=server, files=files, **away)


NAMED = "--tinytroupe-config=team.ini"
OLLAMA = "[OpenAI]\nAPI_TYPE=ollama\n"
AZURE = "[OpenAI]\nAPI_TYPE=azure\n"

# Configurations that can't be used: the run, and the words of the one line that says so.
UNUSABLE = {
    "openai-no-key": (configured("config.ini", "[OpenAI]\nAPI_TYPE=openai\n"), "config.ini.*OPENAI_API_KEY"),
    "default-no-key": (configured("config.ini", "[OpenAI]\nMODEL=gpt-5-mini\n"), "config.ini.*OPENAI_API_KEY"),
    "named-no-key": (configured("team.ini", "[OpenAI]\nAPI_TYPE=openai\n", NAMED), "team.ini.*OPENAI_API_KEY"),
    "azure-no-endpoint": (configured("config.ini", AZURE), "config.ini.*AZURE_OPENAI_ENDPOINT"),
    "azure-no-key": (
        configured("config.ini", AZURE, env={"AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9"}),
        "config.ini.*AZURE_OPENAI_(API_)?KEY",
    ),
    "unknown-type": (configured("config.ini", "[OpenAI]\nAPI_TYPE=parrot\n"), "config.ini.*parrot"),
    "percent": (configured("config.ini", OLLAMA + "CACHE_FILE_NAME=a%b\n"), "config.ini.*%"),
    "named-malformed": (configured("team.ini", "API_TYPE=ollama\n", NAMED), "team.ini"),
    "named-missing": (configured("other.ini", "", NAMED), "team.ini"),
}

# Files that are no configuration of TinyTroupe's.
FOREIGN = {"other-program": "[database]\nhost = localhost\npassword = 100%\n", "malformed": "host = localhost\nport\n", "empty": ""}

RUNS = {
    "server stops": server_stops,
    "server is slow": server_is_slow,
    "openai is down": openai_is_down,
    "all eight": all_eight,
    "all cases": all_cases,
    "preview": preview,
    "explicit": explicit,
    "explicit without server": explicit_without_server,
    "in process, own handlers": in_process("own"),
    "in process, no handlers": in_process("none"),
    "over openai": over_openai,
    "named, ollama": configured("team.ini", OLLAMA, NAMED),
    "its model": configured("config.ini", OLLAMA + "MODEL=qwen3:8b\n", models=("llama3.2", "qwen3:8b")),
    "its server": configured("config.ini", OLLAMA + "BASE_URL=SERVER/v1\n", env={"OLLAMA_HOST": "127.0.0.1:9"}),
    "its log": configured("config.ini", OLLAMA + "[Logging]\nLOGLEVEL=DEBUG\nLOGLEVEL_FILE=DEBUG\n"),
    **{f"unusable {case}": start for case, (start, _) in UNUSABLE.items()},
    **{f"foreign {case}": configured("config.ini", text) for case, text in FOREIGN.items()},
}


@pytest.fixture(scope="module", params=["stand-in", pytest.param("real", marks=pytest.mark.tinytroupe)], ids=["stand-in", "real"])
def runs(request, tmp_path_factory):
    """A function from a name in RUNS to its result, with the package of this layer."""
    if request.param == "real" and not real_package():
        pytest.skip("TinyTroupe is not installed")
    packages = STAND_IN if request.param == "stand-in" else None
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=4))
        stack.callback(pool.shutdown, cancel_futures=True)
        waiting = {}
        for name, start in RUNS.items():
            folder = tmp_path_factory.mktemp(re.sub(r"\W+", "-", name))
            one = lambda *a, folder=folder, **k: run(folder, packages, *a, **k)  # noqa: E731
            waiting[name] = pool.submit(start, one)
        yield lambda name: waiting[name].result()


# ----------------------------------------------------------------------------------------------
# All eight personas
# ----------------------------------------------------------------------------------------------


def test_all_eight_personas_answer_through_tinytroupe(runs):
    result = runs("all eight")
    assert result.status == 0
    assert list(result.tasks) == [f"{persona['id']}_{index}" for persona in PERSONAS for index in (1, 2)]
    for task in result.tasks.values():
        assert (task["backend"], task["model"], task["seed"]) == ("tinytroupe", "llama3.2:latest", 7)
        assert task["raw_response"].startswith("TASK: Write a")
    assert lines_with(result, "16 of 16 tasks made")
    assert_no_traces(result)


def test_the_first_line_names_backend_model_server_and_seed(runs):
    result = runs("all eight")
    assert result.lines[0] == f"backend tinytroupe, model llama3.2:latest, server {result.server.url}, seed 7"


def test_one_request_a_question_and_one_persona_at_a_time(runs):
    result = runs("all eight")
    assert len(result.chats) == 16
    assert all(map(by_tinytroupe, result.chats))
    assert result.at_once == 1


def test_the_question_is_the_common_prompt(runs):
    result = runs("all eight")
    for number, body in enumerate(result.chats):
        persona, turn = PERSONAS[number % 8], number // 8
        taken = [result.tasks[f"{persona['id']}_1"]["task"]][:turn]
        assert heard(body) == build_prompt(persona, taken)


def test_topics_already_taken_are_told(runs):
    body = runs("all eight").chats[8]
    assert "- Write a guide about tides for nurses in Oslo" in heard(body)


def test_the_model_is_told_who_the_persona_is(runs):
    for persona, body in zip(PERSONAS, runs("all eight").chats, strict=False):
        system = body["messages"][0]
        assert system["role"] == "system"
        # Plain text, not a JSON string of it.
        assert "\n" in system["content"]
        for part in (persona["name"], persona["role"], persona["context"]):
            assert part in system["content"]


def test_the_call_fits_the_prompt_and_asks_for_the_shape_of_a_turn(runs):
    result = runs("all eight")
    for body in result.chats:
        size = sum(len(message["content"]) for message in body["messages"])
        assert size > 20_000
        # English has 4 characters a token or more.
        assert size / 4 + body["options"]["num_predict"] <= body["options"]["num_ctx"] <= 32768
        assert body["options"]["temperature"] == 0.8
        assert {"actions", "cognitive_state"} <= set(body["format"]["properties"])
        assert body["stream"] is False
    assert len({body["options"]["seed"] for body in result.chats}) == 16


def test_the_progress_lines_tell_the_task(runs):
    result = runs("all eight")
    for id, task in result.tasks.items():
        topic = re.search(r"about (.*) and save", task["task"])[1]
        assert lines_with(result, f"{id}: ", topic)


def test_a_dry_run_prints_json_alone_and_leaves_nothing(runs):
    result = runs("preview")
    tasks = json.loads(result.stdout)
    assert [(task["id"], task["backend"]) for task in tasks] == [("P_devops_1", "tinytroupe"), ("P_datasci_1", "tinytroupe")]
    assert (result.status, result.left, result.strewn) == (0, [], [])
    assert not lines_with(result, "DISCLAIMER")


@pytest.mark.parametrize("handlers", ["own", "no"])
def test_the_callers_logging_and_paths_are_as_before(runs, handlers):
    result = runs(f"in process, {handlers} handlers")
    assert (result.status, result.stdout, result.stderr) == (0, "", "")
    assert (result.left, result.strewn) == ([], [])


# ----------------------------------------------------------------------------------------------
# Answers of all shapes, and failures
# ----------------------------------------------------------------------------------------------


def asked(result, case):
    return [body for body in result.chats if f"Tester of {case} answers" in body["messages"][-1]["content"]]


@pytest.mark.parametrize("case", SHAPES)
def test_a_task_in_any_action_is_found(runs, case):
    result = runs("all cases")
    task = result.tasks[f"{case}_1"]
    assert task["backend"] == "tinytroupe"
    assert f"Compare the top 3 {TOPICS[case]} and save it as " in task["task"]
    assert len(asked(result, case)) == 1


def test_several_talks_are_joined(runs):
    raw = runs("all cases").tasks["several-talks_1"]["raw_response"]
    assert raw == f"Good question.\nI would ask this:\n{GOOD['several-talks']}"


@pytest.mark.parametrize("case", FAULTS)
def test_a_failure_falls_back_to_ollama_for_that_task_with_one_line(runs, case):
    result = runs("all cases")
    task = result.tasks[f"{case}_1"]
    assert (task["backend"], task["model"]) == ("ollama", "llama3.2:latest")
    [line] = lines_with(result, f"{case}_1: ", "tinytroupe")
    assert re.search(FAULTS[case][1], line)
    by = [by_tinytroupe(body) for body in asked(result, case)]
    # The answer is asked for again at most twice; the first 400 may be about the field `think`.
    assert by.count(True) <= 3
    assert by[-1] is False
    assert by.count(False) == 1


def test_failures_of_single_tasks_end_nothing(runs):
    result = runs("all cases")
    assert result.status == 0
    assert len(result.tasks) == len(team())
    assert not lines_with(result, "not asked again")
    assert_no_traces(result)


def test_an_explicit_backend_never_falls_back(runs):
    result = runs("explicit")
    assert result.status == 1
    assert list(result.tasks) == ["P_datasci_1"]
    assert backends(result) == ["tinytroupe"]
    assert all(map(by_tinytroupe, result.chats))
    [line] = lines_with(result, "P_devops_1: given up")
    assert "I'm sorry" in line
    assert len(lines_with(result, "given up", "JSON")) == 6
    # Three failures in a row end it, after three attempts at the first and one at the second persona.
    assert len(result.chats) == 7
    assert lines_with(result, "1 of 8 tasks made")
    assert_no_traces(result)


def test_an_explicit_backend_speaks_of_no_other(runs):
    assert not re.search("next backend|ollama:|builtin", runs("explicit").stderr)


def test_an_explicit_backend_that_cannot_start_says_why_and_touches_nothing(runs):
    result = runs("explicit without server")
    assert (result.status, result.left, result.files) == (1, [], {"generated_tasks.json": "[]"})
    assert lines_with(result, "tinytroupe_tasks.py: tinytroupe: no server at http://127.0.0.1:9", "ollama serve")


# ----------------------------------------------------------------------------------------------
# A server that goes down or is slow
# ----------------------------------------------------------------------------------------------


def test_a_server_that_goes_down_ends_in_time_with_the_fallbacks_task(runs):
    result = runs("server stops")
    assert result.seconds < 20
    assert result.status == 0
    assert backends(result) == ["tinytroupe", "builtin"]
    for reason in ("P_datasci_1: tinytroupe failed, so ollama is asked: ", "ollama: passed over: "):
        assert lines_with(result, f"{reason}no server at {result.server.url}")
    assert_no_traces(result)


def test_a_slow_server_is_given_up_in_time(runs):
    result = runs("server is slow")
    # Two personas, two backends, 2 s each.
    assert 7.5 < result.seconds < 15
    assert result.status == 0
    assert backends(result) == ["builtin", "builtin"]
    assert lines_with(result, "P_devops_1: tinytroupe", "within 2 s")
    assert_no_traces(result)


def test_a_client_of_tinytroupes_own_is_given_up_in_time(runs):
    result = runs("openai is down")
    assert lines_with(result, "tinytroupe: not asked again in this run: no answer within 2 s")
    assert (result.status, backends(result)) == (0, ["ollama", "ollama"])
    assert_no_traces(result)


# ----------------------------------------------------------------------------------------------
# A configuration of TinyTroupe's own
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_configuration_is_told_before_the_first_persona(runs, case):
    result = runs(f"unusable {case}")
    line = result.lines[0]
    assert line.startswith("tinytroupe: passed over: ")
    assert re.search(UNUSABLE[case][1], line)
    assert result.lines[1].startswith("backend ollama, ")
    assert (result.status, backends(result)) == (0, ["ollama"])
    assert_no_traces(result)


@pytest.mark.parametrize("case", FOREIGN)
def test_a_config_ini_of_another_program_is_left_alone(runs, case):
    result = runs(f"foreign {case}")
    assert result.lines[0].startswith("backend tinytroupe, model llama3.2:latest, ")
    assert not lines_with(result, "config")
    assert (result.status, backends(result)) == (0, ["tinytroupe"])
    assert result.files == {"config.ini": FOREIGN[case]}
    assert_no_traces(result)


def test_a_named_configuration_is_used_and_told(runs):
    result = runs("named, ollama")
    assert lines_with(result, "configured by team.ini")
    assert (result.status, backends(result)) == (0, ["tinytroupe"])
    assert_no_traces(result)


def test_the_model_of_the_configuration_is_asked(runs):
    result = runs("its model")
    assert lines_with(result, "backend tinytroupe, model qwen3:8b, ")
    assert [task["model"] for task in result.tasks.values()] == ["qwen3:8b"]
    assert [body["model"] for body in result.chats] == ["qwen3:8b"]


def test_the_server_of_the_configuration_is_asked(runs):
    result = runs("its server")
    assert lines_with(result, f"backend tinytroupe, model llama3.2:latest, server {result.server.url}")
    assert (result.status, backends(result)) == (0, ["tinytroupe"])


def test_a_configuration_brings_no_log(runs):
    result = runs("its log")
    assert (result.status, backends(result)) == (0, ["tinytroupe"])
    assert_no_traces(result)


def test_a_configuration_for_openai_is_used(runs):
    result = runs("over openai")
    assert lines_with(result, "backend tinytroupe, model own, ")
    assert lines_with(result, "team.ini")
    assert (result.status, backends(result)) == (0, ["tinytroupe"])
    assert [task["model"] for task in result.tasks.values()] == ["own"]
    assert [request["path"] for request in result.server.requests] == ["/v1/chat/completions"]
    assert_no_traces(result)


# ----------------------------------------------------------------------------------------------
# Not installed
# ----------------------------------------------------------------------------------------------

GET = "pip install git+https://github.com/microsoft/TinyTroupe.git@main"
PACKAGES = {
    "none": ({}, "not installed"),
    "placeholder": ({"__init__.py": "print('tinytroupe is on GitHub')\n"}, "placeholder"),
    "broken": ({"__init__.py": "import no_such_part\n", "agent.py": "", "clients.py": ""}, "can't be imported.*no_such_part"),
    "other": ({"__init__.py": "", "agent.py": "", "clients.py": ""}, "can't be imported.*TinyPerson"),
}


@pytest.mark.parametrize("backend", ["auto", "tinytroupe"])
@pytest.mark.parametrize("case", PACKAGES)
def test_a_package_that_is_missing_or_of_no_use_is_passed_over(tmp_path, case, backend):
    files, words = PACKAGES[case]
    if not files and real_package():
        pytest.skip("TinyTroupe is installed")
    (tmp_path / "site" / "tinytroupe").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "site" / "tinytroupe" / name).write_text(text)
    packages = tmp_path / "site" if files else None
    with OllamaServer(answers=answer) as server:
        result = run(tmp_path / "run", packages, f"--only={FIRST}", f"--backend={backend}", server=server)
    [line] = lines_with(result, "tinytroupe: passed over")
    assert re.search(words, line)
    if case in ("none", "placeholder"):
        assert GET in line
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    if backend == "auto":
        assert (result.status, backends(result)) == (0, ["ollama"])
    else:
        assert (result.status, result.left, result.chats) == (1, [], [])
        assert lines_with(result, "tinytroupe_tasks.py: tinytroupe: ")


@pytest.mark.parametrize("args", [["--backend=ollama"], ["--backend=builtin"], ["--list-personas"]])
def test_tinytroupe_is_not_imported_unasked(tmp_path, args):
    (tmp_path / "site" / "tinytroupe").mkdir(parents=True)
    for name in ("__init__.py", "agent.py"):
        (tmp_path / "site" / "tinytroupe" / name).write_text("raise SystemExit('imported')\n")
    with OllamaServer(answers=answer) as server:
        result = run(tmp_path / "run", tmp_path / "site", f"--only={FIRST}", *args, server=server)
    assert (result.status, lines_with(result, "tinytroupe: ")) == (0, [])
