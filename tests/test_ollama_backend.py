"""tinytroupe_tasks.py as its user runs it, against a server on loopback that speaks Ollama's API."""

import contextlib
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ollama_server import OllamaServer

from eval_suite import SUITE, load_generated_suite
from tinytroupe_tasks import PERSONAS, BackendError, build_prompt, extract_task, parse_host

SCRIPT = Path(__file__).parent.parent / "tinytroupe_tasks.py"
QUESTION = "What would you most want an AI research agent to investigate and write up for you right now?"
NOBODY = "127.0.0.1:1"  # a port that no one listens on, so that no Ollama of the developer's own is asked
TWO, FOUR = "P_devops,P_datasci", "P_devops,P_datasci,P_backend,P_pm"

REDIS = "TASK: Search for the top 5 Redis Sentinel failover mistakes and save to eval-redis-failover.md"
REDIS_AGAIN = "TASK: Identify the five most common mistakes in Redis Sentinel failover and write them to eval-sentinel.md"
OCR = "TASK: Compare 3 invoice OCR services for small accounting firms and save to eval-invoice-ocr.md"


# ----------------------------------------------------------------------------------------------
# Running the script
# ----------------------------------------------------------------------------------------------


def make_room(path):
    """Make the folder that the script runs in, with others beside it for all that it might write to or import."""
    for name in ("cwd", "home", "tmp", "path/tinytroupe"):
        (path / name).mkdir(parents=True)
    # A tinytroupe that can't be used, like the one on PyPI, whatever is installed where the tests run.
    (path / "path" / "tinytroupe" / "__init__.py").touch()
    return path / "cwd"


@pytest.fixture
def folder(tmp_path):
    return make_room(tmp_path)


def start(folder, args, stderr=subprocess.PIPE, **env):
    own = r"(?i)^(OLLAMA|OPENAI|AZURE_OPENAI|SSL_CERT)_|_proxy$"
    kept = {name: value for name, value in os.environ.items() if not re.search(own, name)}
    places = {"HOME": folder.parent / "home", "TMPDIR": folder.parent / "tmp", "PYTHONPATH": folder.parent / "path"}
    given = {"OLLAMA_HOST": NOBODY, "TERM": "xterm", "COLUMNS": "120"} | {k: str(v) for k, v in places.items()}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *shlex.split(args)],
        cwd=folder,
        env=kept | given | env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        # Python leaves SIGINT ignored where a shell started the tests in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def finish(process):
    """Wait for a started script; return (exit status, stdout, stderr)."""
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert "Traceback" not in err, err
    return process.returncode, out, err


def run(folder, args, **env):
    return finish(start(folder, args, **env))


def ask(folder, server, args="", **env):
    """Run the script with the ollama backend and a server; return (exit status, stderr)."""
    status, out, err = run(folder, f"--backend ollama {args}", **{"OLLAMA_HOST": server.url} | env)
    assert out == ""
    return status, err


def tasks_in(path, base=None):
    """Return the tasks of a written file, which always loads."""
    load_generated_suite(path, **({"base": str(base)} if base else {}))
    return json.loads(path.read_text(encoding="utf-8"))


def prompt_of(chat):
    return "\n".join(message["content"] for message in chat["messages"])


def persona_of(chat):
    (name,) = (p["name"] for p in PERSONAS if re.search(rf"\b{p['name']}\b", prompt_of(chat)))
    return name


def lines_with(text, *parts):
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def files(folder):
    """Return every file below a folder with its content."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def side_by_side(folder, rows, work):
    """Do work(a folder of its own, row) for every row of a table at once; return the outcomes by name."""
    folders = [make_room(folder.parent / str(number)) for number in range(len(rows))]
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(rows, pool.map(work, folders, rows.values()), strict=True))


# ----------------------------------------------------------------------------------------------
# Asking
# ----------------------------------------------------------------------------------------------


def test_each_persona_is_asked_once_in_its_own_words(folder):
    with OllamaServer() as server:
        status, err = ask(folder, server)
    assert status == 0, err
    assert sorted(map(persona_of, server.chats)) == sorted(p["name"] for p in PERSONAS)
    for persona in PERSONAS:
        (chat,) = (c for c in server.chats if persona_of(c) == persona["name"])
        for part in (persona["name"], persona["role"], persona["context"], QUESTION, "TASK:", "25 words", "eval-"):
            assert part in prompt_of(chat)
        assert chat["options"]["temperature"] == 0.8
        assert chat["options"]["num_predict"] > 0
        assert not chat.get("format")
        assert chat["think"] is False
    tasks = tasks_in(folder / "generated_tasks.json")
    assert [t["id"] for t in tasks] == [f"{p['id']}_1" for p in PERSONAS]
    assert {(t["backend"], t["model"], t["seed"]) for t in tasks} == {("ollama", "llama3.2:latest", 0)}
    assert all(t["raw_response"].startswith("TASK: Write a ") for t in tasks)
    # Nothing but these: no pull, no question beside the one.
    assert {r["path"] for r in server.requests} <= {"/api/tags", "/api/show", "/api/version", "/api/chat"}


def test_what_the_user_sees(folder):
    with OllamaServer(answers=[REDIS, OCR]) as server:
        status, err = ask(folder, server, f"--only {TWO} --seed 7 --jobs 1")
    assert status == 0
    lines = err.splitlines()
    for part in ("ollama", "llama3.2", server.url, "seed 7"):
        assert part in lines[0]
    for part in ("P_devops_1", "Jordan", "Redis Sentinel", "exact_sections(5)"):
        assert lines_with(err, part)
    (summary,) = lines_with(err, "2 of 2")
    for pattern in (r"2 exact", r"0 open", r"closest pair \d\.\d", r"fixed task \d\.\d", r"\d+\.\d s\b"):
        assert re.search(pattern, summary), summary


@pytest.mark.parametrize("persona", PERSONAS, ids=lambda p: p["id"])
def test_the_prompt_holds_no_line_that_passes_as_an_answer(persona):
    prompt = build_prompt(persona, [REDIS.removeprefix("TASK: ")])
    assert [part for part in (prompt, *prompt.splitlines()) if extract_task(part)] == []


def test_a_model_that_repeats_the_prompt_is_asked_three_times(folder):
    with OllamaServer(answers=lambda body, number: prompt_of(body)) as server:
        status, err = ask(folder, server, "--only P_pm")
    assert (status, len(server.chats)) == (1, 3)
    assert lines_with(err, "P_pm_1", "given up")


SECOND = {
    "one at a time": ("--jobs 1 --only P_pm", REDIS),
    "another verb": ("--jobs 1 --only P_pm", REDIS.replace("Search for", "Write about")),
    "a base with dots": ("--jobs 1 --only P_pm --base /tmp/my.base", REDIS),
    "side by side": ("--only P_pm", REDIS),
    "beside others": (f"--only {TWO}", REDIS),
}


def test_a_second_task_is_told_the_first_ones_topic(folder):
    def work(folder, row):
        args, first = row

        # The first answer is slow, so that a second question that is sent beside it could not know it.
        def answers(body, number):
            return {"content": first, "delay": 0.2} if number == 0 else None

        with OllamaServer(answers=answers) as server:
            status, err = ask(folder, server, f"{args} --count 2")
        assert status == 0, err
        first, second = (prompt_of(c) for c in server.chats if persona_of(c) == persona_of(server.chats[0]))
        told = lines_with(second, "the top 5 Redis Sentinel failover mistakes")
        return "Redis" in first, len(told), any(".md" in line for line in told)

    assert side_by_side(folder, SECOND, work) == dict.fromkeys(SECOND, (False, 1, False))


def test_every_call_has_a_seed_of_its_own_that_can_be_repeated(folder):
    def seeds(folder, args):
        # Each first answer is unusable, so each task takes two attempts.
        with OllamaServer(answers=lambda body, number: None if body.get("format") else "Hello!") as server:
            status, err = ask(folder, server, f"--only {TWO} --count 2 {args}")
        assert status == 0, err
        assert len(server.chats) == 8
        return {chat["options"]["seed"] for chat in server.chats}

    found = side_by_side(folder, {args: args for args in ("", "--jobs 1", "--seed 7")}, seeds)
    assert len(found[""]) == 8
    assert found[""] == found["--jobs 1"]
    assert not found[""] & found["--seed 7"]


# ----------------------------------------------------------------------------------------------
# Answers
# ----------------------------------------------------------------------------------------------

UNUSABLE = {
    "empty": "",
    "blank": " \n",
    "cut at num_predict": {"content": REDIS, "done_reason": "length"},
    "the model was only loaded": {"content": "", "done_reason": "load"},
    "nothing but thinking": {"content": "", "thinking": f"I could say {REDIS}"},
    "unclosed thinking": f"<think>I could say\n{REDIS}",
    "refusal": "I'm sorry, but I can't help with that.",
    "chat": "Hello! How can I help you today?",
    "format line": "TASK: <one sentence> and save to eval-<topic>.md",
    "essay": "TASK: Research " + "many things and " * 40 + "save to eval-essay.md",
}


def one_persona_a_case(folder, cases):
    """Write personas that are named like cases; return a function that tells a chat's case."""
    personas = [{"id": f"P{n}", "name": f"Case {name}", "role": "Tester", "context": f"Tests number {n}."} for n, name in enumerate(cases)]
    (folder / "cases.json").write_text(json.dumps(personas))
    return lambda chat: next(name for name in cases if f"You are Case {name}, Tester" in prompt_of(chat))


def test_an_unusable_answer_is_asked_for_again_with_a_schema(folder):
    case_of, chats = one_persona_a_case(folder, UNUSABLE), defaultdict(list)

    def answers(body, number):
        chats[case_of(body)].append(body)
        return None if body.get("format") else UNUSABLE[case_of(body)]

    with OllamaServer(answers=answers) as server:
        status, err = ask(folder, server, "--personas cases.json")
    assert status == 0, err
    assert {case: [bool(c.get("format")) for c in asked] for case, asked in chats.items()} == dict.fromkeys(UNUSABLE, [False, True])
    for first, second in chats.values():
        assert second["format"]["type"] == "object"
        assert list(second["format"]["properties"]) == ["task"]
        assert first["options"]["seed"] != second["options"]["seed"]
    assert all(t["raw_response"].startswith("TASK: Write a ") for t in tasks_in(folder / "generated_tasks.json"))


THOUGHTS = {
    "think": "<think>First idea:\nTASK: Study bees and save to eval-bees.md\nNo.</think>\n\n{task}",
    "lone closing tag": "First idea:\nTASK: Study bees and save to eval-bees.md\nNo.</think>{task}",
    "channels": "<|channel|>analysis<|message|>TASK: Study bees<|end|><|channel|>final<|message|>{task}",
    "field of its own": {"content": "{task}", "thinking": "TASK: Study bees and save to eval-bees.md"},
    "schema": '{{"task": "{plain}"}}',
}


def test_thinking_is_stripped(folder):
    case_of = one_persona_a_case(folder, THOUGHTS)

    def answers(body, number):
        task = f"Compare 3 {case_of(body)} things and save to eval-{number}.md"
        answer = THOUGHTS[case_of(body)]
        content = answer if isinstance(answer, str) else answer["content"]
        return {**(answer if isinstance(answer, dict) else {}), "content": content.format(task=f"TASK: {task}", plain=task)}

    thinker = {"name": "qwen3", "capabilities": ["completion", "thinking"]}
    with OllamaServer(models=[thinker], answers=answers) as server:
        status, err = ask(folder, server, "--personas cases.json")
    assert status == 0, err
    assert [chat["think"] for chat in server.chats] == [False] * len(THOUGHTS)
    tasks = tasks_in(folder / "generated_tasks.json")
    assert [t["task"].partition(" and save ")[0] for t in tasks] == [f"Compare 3 {case} things" for case in THOUGHTS]


NO_THINKING = {"status": 400, "error": '"llama3.2" does not support thinking'}


@pytest.mark.parametrize(
    "answers, status, fields",
    [
        ([NO_THINKING, REDIS, OCR], 0, [True, False, False]),
        # Once without the field, and no third time.
        ([NO_THINKING, NO_THINKING, REDIS], 1, [True, False, False]),
    ],
)
def test_a_server_that_refuses_the_think_field(folder, answers, status, fields):
    with OllamaServer(answers=answers) as server:
        assert ask(folder, server, f"--only {TWO} --jobs 1")[0] == status
    assert ["think" in chat for chat in server.chats] == fields


FIXED_ONE = f"TASK: {SUITE[0]['task'].partition(' and save to ')[0]} and save to eval-ctx.md"
DUPLICATES = {
    "the same again": REDIS,
    "another file": REDIS.replace("eval-redis", "eval-other"),
    "another template": REDIS_AGAIN,
    "a fixed task": FIXED_ONE,
}


def test_a_duplicate_is_refused_and_asked_for_again(folder):
    case_of, chats = one_persona_a_case(folder, {"first": REDIS} | DUPLICATES), defaultdict(list)

    def answers(body, number):
        chats[case_of(body)].append(bool(body.get("format")))
        return None if body.get("format") else ({"first": REDIS} | DUPLICATES)[case_of(body)]

    with OllamaServer(answers=answers) as server:
        status, err = ask(folder, server, "--personas cases.json --jobs 1")
    assert status == 0, err
    assert chats == {"first": [False]} | dict.fromkeys(DUPLICATES, [False, True])
    answers = [t["raw_response"] for t in tasks_in(folder / "generated_tasks.json")]
    assert answers.index(REDIS) == 0
    assert not set(answers[1:]) & set(DUPLICATES.values())


def test_after_three_attempts_a_task_is_given_up_with_its_reasons(folder):
    with OllamaServer(answers=[REDIS, REDIS_AGAIN, "Hello!", FIXED_ONE]) as server:
        status, err = ask(folder, server, f"--only {TWO} --jobs 1")
    assert (status, len(server.chats)) == (1, 4)
    # The duplicates of another persona's task and of a fixed one, and the answer that is no task.
    (line,) = lines_with(err, "P_datasci_1", "given up", "P_devops_1", "Hello!", SUITE[0]["id"])
    assert lines_with(err, "1 of 2")
    assert [t["raw_response"] for t in tasks_in(folder / "generated_tasks.json")] == [REDIS]


def test_other_topics_in_the_same_words_are_no_duplicates(folder):
    answers = [f"TASK: Search for the top 5 {t} and save to eval-report.md" for t in ("DNS outages", "GPU leases")]
    with OllamaServer(answers=answers) as server:
        assert ask(folder, server, f"--only {TWO} --jobs 1")[0] == 0
    tasks = tasks_in(folder / "generated_tasks.json")
    assert len(server.chats) == len({t["output"] for t in tasks}) == 2


# ----------------------------------------------------------------------------------------------
# What goes wrong: a backend that can't start
# ----------------------------------------------------------------------------------------------

# server arguments (None: no server), arguments, variables, what the reason holds
AUTO_TOO = ("no server", "not pulled", "no key", "scheme")
CANNOT_START = {
    "no server": (None, "", {}, ["http://127.0.0.1:1", "ollama serve"]),
    "not pulled": ({"models": ["qwen3:0.6b", "gemma3"]}, "--model mistral", {}, ["qwen3:0.6b", "gemma3:latest", "ollama pull mistral"]),
    "not pulled, OLLAMA_MODEL": ({"models": ["qwen3:0.6b"]}, "", {"OLLAMA_MODEL": "mistral:7b"}, ["qwen3:0.6b", "ollama pull mistral:7b"]),
    "no model that can chat": (
        {"models": [{"name": "nomic-embed-text", "capabilities": ["embedding"]}]},
        "",
        {},
        ["nomic-embed-text", "ollama pull "],
    ),
    "no key": ({"key": "right"}, "", {"OLLAMA_API_KEY": ""}, ["401", "OLLAMA_API_KEY"]),
    "another program": ({"prefix": "/ollama"}, "--host http://127.0.0.1:{port}", {}, ["127.0.0.1:{port}", "404"]),
    "scheme": (None, "", {"OLLAMA_HOST": "ftp://127.0.0.1"}, ["OLLAMA_HOST", "ftp"]),
    "wrong --host": (None, "--host ftp://127.0.0.1", {}, ["--host", "ftp"]),
    # The name can't be looked up, and nothing must be: the socks proxy is the one to ask.
    "socks proxy": (None, "--host http://ollama.invalid", {"ALL_PROXY": "socks5://127.0.0.1:1"}, ["ollama.invalid"]),
}


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    def work(folder, row):
        (given, args, env, reason), backend = row
        with OllamaServer(**given) if given is not None else contextlib.nullcontext() as server:
            port = server.port if server else 0
            env = ({"OLLAMA_HOST": server.url} if server else {}) | env
            status, _, err = run(folder, f"{args.format(port=port)} --only P_pm --backend {backend}", **env)
        assert not (server and server.chats)
        return folder, status, err, [part.format(port=port) for part in reason]

    rows = {(name, "ollama"): (row, "ollama") for name, row in CANNOT_START.items()}
    rows |= {(name, "auto"): (CANNOT_START[name], "auto") for name in AUTO_TOO}
    return side_by_side(make_room(tmp_path_factory.mktemp("starts")), rows, work)


@pytest.mark.parametrize("name", CANNOT_START)
def test_an_explicit_backend_that_cannot_start_ends_the_run(starts, name):
    folder, status, err, reason = starts[name, "ollama"]
    assert status == 1
    assert len(lines_with(err, "tinytroupe_tasks.py: ", *reason)) == 1, err
    assert files(folder) == {}


@pytest.mark.parametrize("name", AUTO_TOO)
def test_auto_passes_over_what_cannot_start(starts, name):
    folder, status, err, reason = starts[name, "auto"]
    assert status == 0
    (line,) = lines_with(err, *reason)
    assert "ollama: passed over" in line
    assert len(lines_with(err, "tinytroupe: passed over")) == 1
    assert lines_with(err, "no model was asked", "ollama pull")
    (task,) = tasks_in(folder / "generated_tasks.json")
    assert (task["backend"], task["model"]) == ("builtin", None)


def test_a_server_that_says_nothing_is_given_two_seconds(folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        explicit = start(folder, "--backend ollama --only P_pm", OLLAMA_HOST=address)
        auto = start(folder, "--only P_pm --out auto.json", OLLAMA_HOST=address)
        silent.settimeout(10)
        with silent.accept()[0], silent.accept()[0]:
            began = time.monotonic()
            (status, _, err), auto = finish(explicit), finish(auto)
            assert time.monotonic() - began < 3
    assert status == 1
    assert lines_with(err, address, "2 s")
    assert auto[0] == 0
    assert lines_with(auto[2], "ollama: passed over", address)


def test_builtin_alone_asks_nobody(folder):
    with OllamaServer() as server:
        status, _, err = run(folder, "--backend builtin", OLLAMA_HOST=server.url)
    assert status == 0
    assert server.requests == []
    assert lines_with(err, "no model was asked", "ollama pull")
    assert {(t["backend"], t["model"], t["seed"]) for t in tasks_in(folder / "generated_tasks.json")} == {("builtin", None, 0)}


def test_auto_takes_ollama_where_it_works(folder):
    with OllamaServer() as server:
        status, _, err = run(folder, "--only P_pm", OLLAMA_HOST=server.url)
    assert status == 0
    assert len(lines_with(err, "tinytroupe: passed over")) == 1
    assert not lines_with(err, "no model was asked")
    (task,) = tasks_in(folder / "generated_tasks.json")
    assert (task["backend"], task["model"]) == ("ollama", "llama3.2:latest")


EMBEDDER = {"name": "nomic-embed-text", "capabilities": ["embedding"]}
# models, arguments, OLLAMA_MODEL, the model that is asked, whether the choice is explained
CHOICES = {
    "default": (["qwen3", "llama3.2"], "", "", "llama3.2:latest", False),
    "first": (["qwen3", "gemma3"], "", "", "qwen3:latest", True),
    "first that chats": ([EMBEDDER, "gemma3:1b", "qwen3"], "", "", "gemma3:1b", True),
    "no capabilities told": ([{"name": "old", "capabilities": None}], "", "", "old:latest", True),
    "--model": (["llama3.2", "qwen3:0.6b"], "--model qwen3:0.6b", "", "qwen3:0.6b", False),
    "--model without its tag": (["llama3.2", "qwen3"], "--model qwen3", "", "qwen3:latest", False),
    "OLLAMA_MODEL": (["llama3.2", "qwen3"], "", "qwen3", "qwen3:latest", False),
    "--model before OLLAMA_MODEL": (["llama3.2", "qwen3"], "--model llama3.2", "qwen3", "llama3.2:latest", False),
}


def test_which_model_is_asked(folder):
    def work(folder, row):
        models, args, variable, *_ = row
        with OllamaServer(models=models) as server:
            status, err = ask(folder, server, f"--only P_pm {args}", OLLAMA_MODEL=variable)
        assert status == 0, err
        (chat,) = server.chats
        assert lines_with(err, server.url, chat["model"])
        assert [t["model"] for t in tasks_in(folder / "generated_tasks.json")] == [chat["model"]]
        return chat["model"], bool(lines_with(err, "llama3.2 is not on the server"))

    assert side_by_side(folder, CHOICES, work) == {name: (model, told) for name, (*_, model, told) in CHOICES.items()}


def test_the_right_key_works(folder):
    with OllamaServer(key="right") as server:
        status, err = ask(folder, server, "--only P_pm", OLLAMA_API_KEY="right")
    assert status == 0, err
    assert {r["headers"]["authorization"] for r in server.requests} == {"Bearer right"}
    assert "right" not in err


# ----------------------------------------------------------------------------------------------
# Addresses and proxies
# ----------------------------------------------------------------------------------------------

HOSTS = {
    "127.0.0.1": "http://127.0.0.1:11434",
    "127.0.0.1:8080": "http://127.0.0.1:8080",
    "localhost": "http://localhost:11434",
    "gpu-box": "http://gpu-box:11434",
    "gpu-box/": "http://gpu-box:11434",
    "gpu-box:8080/": "http://gpu-box:8080",
    ":8080": "http://127.0.0.1:8080",
    " 10.0.0.5:11434 \n": "http://10.0.0.5:11434",
    '"10.0.0.5:11434"': "http://10.0.0.5:11434",
    # With a scheme the scheme's own port, as Ollama's own clients have it.
    "http://gpu-box": "http://gpu-box:80",
    "HTTP://GPU-Box:8080": "http://gpu-box:8080",
    "https://example.com": "https://example.com:443",
    "https://example.com/ollama/": "https://example.com:443/ollama",
    "example.com:8443/a/b": "http://example.com:8443/a/b",
    "::1": "http://[::1]:11434",
    "::1/": "http://[::1]:11434",
    "[::1]": "http://[::1]:11434",
    "[::1]:8080": "http://[::1]:8080",
    "[::1]:8080/ollama/": "http://[::1]:8080/ollama",
    "http://[::1]:8080/": "http://[::1]:8080",
    "http://::1": "http://[::1]:80",
    "2001:db8::5": "http://[2001:db8::5]:11434",
    "0.0.0.0": "http://127.0.0.1:11434",
    "0.0.0.0:8080": "http://127.0.0.1:8080",
    "http://0.0.0.0:11434/": "http://127.0.0.1:11434",
    "::": "http://[::1]:11434",
    "[::]": "http://[::1]:11434",
    "[::]:8080": "http://[::1]:8080",
    "[0:0:0:0:0:0:0:0]:8080": "http://[::1]:8080",
}


@pytest.mark.parametrize("text, url", HOSTS.items())
def test_every_form_of_address(text, url):
    assert parse_host(text, "OLLAMA_HOST") == url


WRONG_HOSTS = ["ftp://gpu-box", "http://", "gpu-box:port", "gpu-box:70000", "gpu box", "[::1", "a,b", "http://gpu-box:-1", "/"]


@pytest.mark.parametrize("text", WRONG_HOSTS)
def test_every_wrong_address_is_named(text):
    with pytest.raises(BackendError) as error:
        parse_host(text, "OLLAMA_HOST")
    assert "OLLAMA_HOST" in str(error.value)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


PROXIES = {
    "none": {},
    "http": {"HTTP_PROXY": f"http://{NOBODY}", "http_proxy": f"http://{NOBODY}"},
    "all": {"ALL_PROXY": f"http://{NOBODY}", "NO_PROXY": "example.com"},
    "socks": {"ALL_PROXY": f"socks5://{NOBODY}", "all_proxy": f"socks5h://{NOBODY}"},
    "nonsense": {"HTTP_PROXY": "nonsense://", "no_proxy": "::1,[::1]"},
}
# an address of the server, where it listens, the path before its own, proxy variables
PLACES = [
    ("localhost:{port}", "127.0.0.1", "", "all"),
    (" 127.0.0.1:{port}/ ", "127.0.0.1", "", "none"),
    ("0.0.0.0:{port}", "127.0.0.1", "", "http"),
    ("http://127.0.0.1:{port}/behind/proxy/", "127.0.0.1", "/behind/proxy", "http"),
    ("127.8.8.8:{port}", "127.8.8.8", "", "http"),
    ("127.0.0.1:{port}", "127.0.0.1", "", "nonsense"),
    ("[::1]:{port}", "::1", "", "http"),
    ("http://[::]:{port}/", "::1", "", "socks"),
]


def test_the_server_is_reached(folder):
    def work(folder, row):
        address, bound, prefix, proxies = row
        try:
            server = OllamaServer(host=bound, prefix=prefix)
        except OSError:  # no IPv6 here, or (not on Linux) no other loopback address
            return 0, 1, ""
        with server:
            env = {"OLLAMA_HOST": address.format(port=server.port)} | PROXIES[proxies]
            status, err = ask(folder, server, "--only P_pm", **env)
        return status, len(server.chats), err if status else ""

    places = {place: place for place in PLACES}
    assert side_by_side(folder, places, work) == dict.fromkeys(places, (0, 1, ""))


@pytest.mark.parametrize("args", ["--list-personas", "--help", "--backend builtin --dry-run"])
def test_what_needs_no_server_minds_no_variable(folder, args):
    env = PROXIES["socks"] | {"OLLAMA_HOST": "ftp://:x", "SSL_CERT_FILE": "/nowhere"}
    assert run(folder, args, **env)[0] == 0


# ----------------------------------------------------------------------------------------------
# What goes wrong: calls that fail
# ----------------------------------------------------------------------------------------------

FAULTS = {
    "500": {"status": 500, "error": "llama runner process has terminated"},
    "429": {"status": 429, "error": "too many requests"},
    "503": {"status": 503, "error": "server busy, please try again"},
    "502 of a proxy": {"status": 502, "raw": b"<html>Bad Gateway</html>"},
    "cut": {"content": REDIS, "cut": True},
    "drop": {"drop": True},
    "no JSON": {"raw": b'{"model": "llama3.2", "mess'},
    "JSON of another kind": {"raw": b'["ok"]'},
}


def test_a_call_that_fails_once_is_made_again_after_a_pause(folder):
    faults = dict(zip((p["name"] for p in PERSONAS), FAULTS, strict=True))
    times = defaultdict(list)

    def answers(body, number):
        calls = times[faults[persona_of(body)]]
        calls.append(time.monotonic())
        return FAULTS[faults[persona_of(body)]] if len(calls) == 1 else None

    with OllamaServer(answers=answers) as server:
        status, err = ask(folder, server, "--jobs 8")
    assert status == 0, err
    assert {fault: len(calls) for fault, calls in times.items()} == dict.fromkeys(FAULTS, 2)
    assert {fault: calls[1] - calls[0] > 0.2 for fault, calls in times.items()} == dict.fromkeys(FAULTS, True)
    # It is the same attempt: same seed, and no schema, since no answer was unusable.
    assert not any(chat.get("format") for chat in server.chats)
    assert len({chat["options"]["seed"] for chat in server.chats}) == len(FAULTS)


def fails_for_jordan(fault):
    return lambda server: lambda body, number: fault if persona_of(body) == "Jordan" else None


def stops(server):
    """One task is answered, then the server goes down with three questions open."""
    three_asked = threading.Event()

    def answers(body, number):
        if number == 3:
            server.stop()
            three_asked.set()
        elif number:
            three_asked.wait(10)

    return answers


# arguments, answers, the server's arguments, exit status, backends of the tasks in the file, the parts of one line
LASTING = {
    "500": ("--backend ollama", FAULTS["500"], {}, 1, "ooo", ["500", "llama runner process has terminated"]),
    "500, auto": ("", FAULTS["500"], {}, 0, "booo", ["500", "llama runner process has terminated"]),
    "429, auto": ("", FAULTS["429"], {}, 0, "booo", ["429", "too many requests"]),
    "cut": ("--backend ollama", FAULTS["cut"], {}, 1, "ooo", ["{url}"]),
    "slow": ("--backend ollama --timeout 0.8", {"delay": 60}, {}, 1, "ooo", ["{url}", "0.8 s", "--timeout"]),
    "slow, auto": ("--timeout 0.8", {"delay": 60}, {}, 0, "booo", ["{url}", "0.8 s", "--timeout"]),
    "stops": ("--backend ollama --jobs 3", stops, {}, 1, "o", ["{url}", "ollama serve"]),
    "stops, auto": ("--jobs 3", stops, {}, 0, "bbbo", ["{url}", "ollama serve"]),
    # The second waits for the first, longer than its time.
    "queue": (f"--backend ollama --only {TWO} --timeout 1.5", None, {"delay": 1.0, "slots": 1}, 1, "o", ["1.5 s"]),
}


def lasting_run(folder, row):
    args, fault, given, *_ = row
    with OllamaServer(**given) as server:
        if fault:
            server.answers = fault(server) if fault is stops else fails_for_jordan(fault)(server)
        status, _, err = run(folder, f"--only {FOUR} {args}", OLLAMA_HOST=server.url)
    return status, err, server


@pytest.fixture(scope="module", autouse=True)
def lasting_runs(tmp_path_factory):
    """The runs with faults that last, which take seconds of waiting, so all of them start before the first test."""
    with ThreadPoolExecutor(len(LASTING)) as pool:
        rooms = [make_room(tmp_path_factory.mktemp("lasting")) for _ in LASTING]
        yield {name: (pool.submit(lasting_run, room, LASTING[name]), room) for name, room in zip(LASTING, rooms, strict=True)}


@pytest.mark.parametrize("name", LASTING)
def test_a_call_that_always_fails_costs_its_task_only(lasting_runs, name):
    run, folder = lasting_runs[name]
    status, err, server = run.result()
    _, fault, _, expected, backends, reason = LASTING[name]
    assert status == expected, err
    assert "".join(sorted(t["backend"][0] for t in tasks_in(folder / "generated_tasks.json"))) == backends
    parts = [part.format(url=server.url) for part in reason]
    assert lines_with(err, *parts)
    if fault in FAULTS.values():
        assert lines_with(err, "P_devops_1", *parts)
        at = [r["at"] for r in server.requests if r["path"] == "/api/chat" and persona_of(r["body"]) == "Jordan"]
        pauses = [late - early for early, late in zip(at, at[1:], strict=False)]
        assert len(pauses) >= 2
        assert all(late > early * 1.3 for early, late in zip(pauses, pauses[1:], strict=False)), pauses
    if expected:
        assert lines_with(err, f"{len(backends)} of ")


BROKEN = {"status": 400, "error": "the template of this model is broken"}  # no use in asking again, so no pauses
# failures by the number of the task, personas asked, backends under auto, given up under ollama
STREAKS = {"three in a row": ([0, 1, 1, 1, 0, 0, 0, 0], 4, "obbbbbbb"), "never three in a row": ([1, 1, 0, 1, 1, 0, 1, 1], 8, "bbobbobb")}


@pytest.mark.parametrize("fails, asked, backends", STREAKS.values(), ids=STREAKS)
def test_three_failures_in_a_row_end_a_backend(folder, fails, asked, backends):
    broken = {p["name"] for p, fail in zip(PERSONAS, fails, strict=True) if fail}

    def answers(body, number):
        return BROKEN if persona_of(body) in broken else None

    with OllamaServer(answers=answers) as server, OllamaServer(answers=answers) as other:
        explicit = start(folder, "--backend ollama --jobs 1 --out explicit.json", OLLAMA_HOST=other.url)
        status, _, err = run(folder, "--jobs 1", OLLAMA_HOST=server.url)
        explicit_status, _, explicit_err = finish(explicit)
    assert len({persona_of(chat) for chat in server.chats}) == asked
    assert len({persona_of(chat) for chat in other.chats}) == asked

    assert status == 0, err
    assert len(lines_with(err, "ollama", "template of this model is broken")) >= min(fails.count(1), 3)
    tasks = tasks_in(folder / "generated_tasks.json")
    assert "".join(t["backend"][0] for t in tasks) == backends
    assert [t["model"] for t in tasks] == [{"o": "llama3.2:latest", "b": None}[b] for b in backends]

    assert explicit_status == 1
    assert lines_with(explicit_err, f"{backends.count('o')} of 8")
    assert {t["backend"] for t in tasks_in(folder / "explicit.json")} == {"ollama"}


def test_auto_says_which_tasks_no_model_made(folder):
    with OllamaServer(answers=lambda body, number: BROKEN if persona_of(body) == "Priya" else None) as server:
        status, _, err = run(folder, f"--only {TWO}", OLLAMA_HOST=server.url)
    assert status == 0
    assert [t["backend"] for t in tasks_in(folder / "generated_tasks.json")] == ["ollama", "builtin"]
    assert [line for line in lines_with(err, "P_datasci_1") if re.search("built-?in", line)], err


PERMANENT = {
    "403": ({"status": 403, "error": "forbidden"}, ["403", "OLLAMA_API_KEY"]),
    "401": ({"status": 401, "error": "unauthorized"}, ["401", "OLLAMA_API_KEY"]),
    "404": ({"status": 404, "error": "model 'llama3.2' not found"}, ["not found", "ollama pull llama3.2"]),
    "400": (BROKEN, ["template of this model is broken"]),
}


def test_a_call_that_no_pause_mends_fails_with_its_reason(folder):
    def work(folder, row):
        (folder / "generated_tasks.json").write_text("precious")
        with OllamaServer(answers=row[0]) as server:
            status, err = ask(folder, server, "--jobs 1")
        assert files(folder) == {folder / "generated_tasks.json": b"precious"}
        assert len(server.chats) <= 4
        return status, bool(lines_with(err, *row[1]))

    assert side_by_side(folder, PERMANENT, work) == dict.fromkeys(PERMANENT, (1, True))


def test_jobs_are_asked_side_by_side(folder):
    delay = 0.5
    with OllamaServer(delay=delay, slots=8) as one, OllamaServer(delay=delay, slots=8) as four:
        commands = (one, f"--only {TWO} --jobs 1"), (four, "--out four.json")
        started = [start(folder, f"--backend ollama {args}", OLLAMA_HOST=s.url) for s, args in commands]
        assert [finish(process)[0] for process in started] == [0, 0]
    at, one_at = ([r["at"] for r in s.requests if r["path"] == "/api/chat"] for s in (four, one))
    assert one_at[1] - one_at[0] >= delay
    # Four at a time by default: the fifth waits for one of the first four.
    assert at[3] - at[0] < delay <= at[4] - at[0]
    assert at[7] - at[0] < 2 * delay


# ----------------------------------------------------------------------------------------------
# The file
# ----------------------------------------------------------------------------------------------


def test_no_task_at_all_leaves_the_file_alone(folder):
    out = folder / "generated_tasks.json"
    out.write_text("precious")
    before = out.stat()
    with OllamaServer(answers="Hello!") as server:
        status, err = ask(folder, server, f"--only {TWO}")
    assert status == 1
    assert lines_with(err, "0 of 2")
    assert out.stat() == before
    assert files(folder) == {out: b"precious"}


def test_the_file_is_replaced_not_written_into(folder):
    out, link = folder / "generated_tasks.json", folder / "link"
    out.write_text("precious")
    os.link(out, link)
    with OllamaServer() as server:
        assert ask(folder, server, "--only P_pm")[0] == 0
    assert link.read_text() == "precious"
    assert set(files(folder)) == {out, link}
    assert tasks_in(out)


def wait_for_line(process, *parts):
    for line in process.stderr:
        if lines_with(line, *parts):
            return
    raise AssertionError(f"no line with {parts}")


def stuck_after(number):
    """Answers that stop coming after so many."""
    return lambda body, n: None if n < number else {"delay": 60}


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(folder):
    out, partial = folder / "my.json", folder / "my.partial.json"
    out.write_text("precious")
    command = f"--backend ollama --only {FOUR} --jobs 1 --out my.json"
    with OllamaServer(answers=stuck_after(2)) as server:
        process = start(folder, command, OLLAMA_HOST=server.url)
        wait_for_line(process, "P_datasci_1")
        process.send_signal(signal.SIGINT)
        status, _, err = finish(process)
        assert status == 130
        assert lines_with(err, "2 of 4", "my.partial.json", "--resume")
        assert files(folder).keys() == {out, partial}
        assert out.read_text() == "precious"
        kept = tasks_in(partial)
        assert [t["id"] for t in kept] == ["P_devops_1", "P_datasci_1"]

        server.answers = None
        server.requests.clear()
        status, _, err = run(folder, f"{command} --resume", OLLAMA_HOST=server.url)
    assert status == 0, err
    assert [persona_of(chat) for chat in server.chats] == ["Marcus", "Sofia"]
    tasks = tasks_in(out)
    assert [t["id"] for t in tasks] == ["P_devops_1", "P_datasci_1", "P_backend_1", "P_pm_1"]
    assert tasks[:2] == kept
    assert files(folder).keys() == {out}


def test_resume_with_append_keeps_the_file_and_its_numbers(folder):
    out = folder / "generated_tasks.json"
    with OllamaServer(answers=stuck_after(2)) as server:
        assert ask(folder, server, "--only P_pm")[0] == 0
        command = "--backend ollama --only P_pm --jobs 1 --append --count 2"
        process = start(folder, command, OLLAMA_HOST=server.url)
        wait_for_line(process, "P_pm_2")
        process.send_signal(signal.SIGINT)
        assert finish(process)[0] == 130
        kept = tasks_in(out)
        assert [t["id"] for t in kept] == ["P_pm_1"]
        server.answers = None
        server.requests.clear()
        status, _, err = run(folder, f"{command} --resume", OLLAMA_HOST=server.url)
    assert status == 0, err
    tasks = tasks_in(out)
    assert [t["id"] for t in tasks] == ["P_pm_1", "P_pm_2", "P_pm_3"]
    assert tasks[:1] == kept
    assert len(server.chats) == 1
    assert files(folder).keys() == {out}


def test_ctrl_c_before_the_first_question(folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = start(folder, "--backend ollama", OLLAMA_HOST=f"127.0.0.1:{silent.getsockname()[1]}")
        silent.settimeout(10)
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            assert finish(process)[0] == 130
    assert files(folder) == {}


def test_a_killed_run_leaves_no_half_file_and_can_be_resumed(folder):
    out, partial = folder / "generated_tasks.json", folder / "generated_tasks.partial.json"
    out.write_text("precious")
    command = f"--backend ollama --only {FOUR} --jobs 1"
    with OllamaServer(answers=stuck_after(2)) as server:
        process = start(folder, command, OLLAMA_HOST=server.url)
        wait_for_line(process, "P_datasci_1")
        # A crash gives no warning, so what is done must reach the disk while the third answer is still awaited.
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and not (partial.exists() and len(tasks_in(partial)) == 2):
            time.sleep(0.05)
        process.kill()
        assert finish(process)[0] == -signal.SIGKILL
        assert out.read_text() == "precious"
        assert set(files(folder)) == {out, partial}
        assert [t["id"] for t in tasks_in(partial)] == ["P_devops_1", "P_datasci_1"]
        server.answers = None
        assert ask(folder, server, f"--only {FOUR} --resume")[0] == 0
    assert len(tasks_in(out)) == 4


def test_a_file_that_cannot_be_written_costs_no_task(folder):
    def answers(body, number):
        (folder / "my.json").mkdir(exist_ok=True)  # after the check at the start

    with OllamaServer(answers=answers) as server:
        status, err = ask(folder, server, f"--only {TWO} --out my.json")
    assert status not in (0, 130)
    assert lines_with(err, "my.json", "written")
    assert len(tasks_in(folder / "my.partial.json")) == 2


@pytest.mark.parametrize("name", ["generated_tasks.json", "~/my.json"])
def test_append_keeps_the_files_tasks_and_numbers_on(folder, name):
    out = folder.parent / "home" / "my.json" if name.startswith("~") else folder / name
    with OllamaServer(answers=[REDIS, REDIS_AGAIN, OCR]) as server:
        assert ask(folder, server, f"--only P_pm --append --out '{name}'")[0] == 0
        old = tasks_in(out)
        status, err = ask(folder, server, f"--only P_pm --append --out '{name}'")
    assert status == 0, err
    # The file's tasks are told to the model and duplicates of them refused.
    assert "Redis Sentinel failover mistakes" in prompt_of(server.chats[1])
    assert len(server.chats) == 3
    tasks = tasks_in(out)
    assert [t["id"] for t in tasks] == ["P_pm_1", "P_pm_2"]
    assert tasks[:1] == old
    assert tasks[1]["raw_response"] == OCR


@pytest.mark.parametrize(
    "args, old, reason",
    [
        ("--append", "{", ["generated_tasks.json"]),
        ("--append", '[{"id": "P_pm_1"}]', ["generated_tasks.json", "P_pm_1", "task is missing"]),
        ("--resume", "[]", ["generated_tasks.partial.json"]),
        ("--replay nowhere.json", "[]", ["nowhere.json"]),
        ("--replay generated_tasks.json", "[]", ["generated_tasks.json"]),
        ("--replay generated_tasks.json --append", "[]", ["--replay", "--append"]),
        ("--count 0", "[]", ["--count", "'0'"]),
        ("--jobs 0", "[]", ["--jobs", "'0'"]),
        ("--timeout nan", "[]", ["--timeout", "'nan'"]),
        ("--timeout -1", "[]", ["--timeout", "'-1'"]),
        ("--seed x", "[]", ["--seed", "'x'"]),
        ("--backend openai", "[]", ["--backend", "'openai'"]),
        ("--out nowhere/my.json", "[]", ["--out", "nowhere/my.json"]),
        ("--out .", "[]", ["--out", "'.'"]),
        ("--only P_pm,P_boss", "[]", ["--only", "P_boss", "P_devops"]),
        ("--only ,", "[]", ["--only", "P_devops"]),
        ("--personas nowhere.toml", "[]", ["--personas", "nowhere.toml"]),
    ],
)
def test_wrong_usage_is_said_before_anything_is_asked(folder, args, old, reason):
    out = folder / "generated_tasks.json"
    out.write_text(old)
    with OllamaServer() as server:
        status, err = ask(folder, server, args)
    assert status == 2
    assert lines_with(err, *reason)
    assert server.chats == []
    assert files(folder) == {out: old.encode()}


def test_replay_builds_the_tasks_anew_and_asks_nobody(folder):
    with OllamaServer(answers=[REDIS, OCR]) as server:
        assert ask(folder, server, f"--only {TWO} --jobs 1 --seed 7 --out old.json")[0] == 0
        right = tasks_in(folder / "old.json")
        # What older rules might have made of the same answers.
        old = [t | {"criteria_specs": [{"type": "min_sections", "n": 9}], "count_from": None} for t in right]
        old.append(old[0] | {"id": "P_pm_4", "raw_response": "I'm sorry, I can't.", "output": old[0]["output"] + ".md"})
        (folder / "old.json").write_text(json.dumps(old[:2]))
        server.requests.clear()
        status, out, err = run(folder, "--replay old.json --out new.json", OLLAMA_HOST=server.url)
        assert (status, out) == (0, "")
        assert tasks_in(folder / "new.json") == right
        # One answer that is no task with today's rules: said, and one task fewer.
        (folder / "old.json").write_text(json.dumps(old))
        before = (folder / "old.json").read_text()
        status, _, err = run(folder, "--replay old.json --out old.json", OLLAMA_HOST=server.url)
        assert status == 2 and "1 of 3 could not be built, so old.json is left as it was" in err
        assert (folder / "old.json").read_text() == before
        status, _, err = run(folder, "--replay old.json --out new.json", OLLAMA_HOST=server.url)
    assert status == 1
    assert lines_with(err, "P_pm_4", "I'm sorry")
    assert lines_with(err, "2 of 3")
    assert tasks_in(folder / "new.json") == right
    assert server.requests == []


# ----------------------------------------------------------------------------------------------
# Choosing and previewing
# ----------------------------------------------------------------------------------------------

ROSA = {"id": "chef", "name": "Rosa", "role": "Head Chef", "context": "Runs a kitchen of nine. Cares about waste."}
ROSA_TOML = "[[personas]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in ROSA.items())


@pytest.mark.parametrize("name, text", [("mine.TOML", "\ufeff" + ROSA_TOML), ("mine.json", json.dumps({"personas": [ROSA]}))])
def test_personas_of_the_users_own(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    with OllamaServer(answers=[REDIS, OCR]) as server:
        listed = start(folder, f"--personas {name} --list-personas")
        status, err = ask(folder, server, f"--personas {name} --count 2 --jobs 1")
    assert status == 0, err
    assert all(part in prompt_of(chat) for chat in server.chats for part in (ROSA["name"], ROSA["role"], ROSA["context"]))
    tasks = tasks_in(folder / "generated_tasks.json")
    assert [(t["id"], t["persona"], t["desc"]) for t in tasks] == [(f"chef_{n}", "Rosa", "generated: Head Chef") for n in (1, 2)]
    status, out, _ = finish(listed)
    assert status == 0
    (line,) = out.splitlines()
    assert all(part in line for part in ROSA.values())


def test_without_a_model_personas_of_the_users_own_are_told_what_to_do(folder):
    (folder / "mine.toml").write_text(ROSA_TOML)
    status, _, err = run(folder, "--personas mine.toml")
    assert status == 1
    assert lines_with(err, "chef_1", "given up", "model")
    assert lines_with(err, "0 of 1")


# name, text (or a change of ROSA's keys), the parts of one line
BAD_PERSONAS = {
    "missing key": ({"role": None}, ["persona 1", "role", "missing"]),
    "empty": ({"context": " "}, ["persona 1", "context", "empty"]),
    "no text": ({"name": 7}, ["persona 1", "name", "7"]),
    "id": ({"id": "the chef/1"}, ["persona 1", "id", "the chef/1"]),
    "unknown key": ({"roll": "x"}, ["persona 1", "roll"]),
    "no table": ("[7]", ["persona 1", "7"]),
    "twice": (json.dumps([ROSA, ROSA]), ["persona 2", "id", "chef"]),
    "none": ("[]", ["mine.json", "personas"]),
    "another thing": ('{"people": []}', ["mine.json", "personas"]),
    "broken": ("[{", ["mine.json", "JSON"]),
    "deep": ("[" * 100000, ["mine.json", "JSON"]),
}


@pytest.mark.parametrize("change, reason", BAD_PERSONAS.values(), ids=BAD_PERSONAS)
def test_bad_personas_are_named_with_key_and_reason(folder, change, reason):
    if isinstance(change, dict):
        change = json.dumps([{k: v for k, v in (ROSA | change).items() if v is not None}])
    (folder / "mine.json").write_text(change)
    with OllamaServer() as server:
        status, err = ask(folder, server, "--personas mine.json")
    assert status == 2
    assert len(lines_with(err, "--personas", *reason)) == 1
    assert server.requests == []
    assert files(folder).keys() == {folder / "mine.json"}


def test_every_bad_persona_is_named_at_once(folder):
    (folder / "mine.toml").write_text(ROSA_TOML.replace("role", "roll") + "[[personas]]\nid = 'x'\n")
    status, _, err = run(folder, "--personas mine.toml --list-personas")
    assert status == 2
    assert lines_with(err, "persona 1", "role") and lines_with(err, "persona 1", "roll")
    assert all(lines_with(err, "persona 2", key) for key in ("name", "role", "context"))
    (folder / "mine.toml").write_text("[[personas]\n")
    status, _, err = run(folder, "--personas mine.toml")
    assert status == 2
    assert lines_with(err, "--personas", "mine.toml", "TOML")


def test_only_some_personas_are_asked(folder):
    with OllamaServer() as server:
        assert ask(folder, server, "--only 'P_pm, P_devops,P_pm,'")[0] == 0
    assert sorted(map(persona_of, server.chats)) == ["Jordan", "Sofia"]
    assert sorted(t["id"] for t in tasks_in(folder / "generated_tasks.json")) == ["P_devops_1", "P_pm_1"]


def test_the_personas_are_listed(folder):
    status, out, err = run(folder, "--list-personas")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 8
    for line, persona in zip(out.splitlines(), PERSONAS, strict=True):
        assert all(part in line for part in persona.values())
    assert files(folder) == {}


@pytest.mark.parametrize("backend", ["ollama", "builtin", "auto"])
def test_a_dry_run_writes_nothing_anywhere(folder, backend):
    (folder / "generated_tasks.json").write_text("precious")
    (folder / "generated_tasks.partial.json").write_text("precious")
    everywhere = folder.parent
    before, folders = files(everywhere), {path for path in everywhere.rglob("*") if path.is_dir()}
    with OllamaServer() as server:
        command = f"--dry-run --only {TWO} --backend {backend}"
        plain, as_json = (start(folder, command + args, OLLAMA_HOST=server.url) for args in ("", " --json"))
        plain, as_json = finish(plain), finish(as_json)
    assert plain[:2] == (0, "")
    assert lines_with(plain[2], "dry run")
    assert lines_with(plain[2], "2 of 2")
    assert as_json[0] == 0
    assert [t["id"] for t in json.loads(as_json[1])] == ["P_devops_1", "P_datasci_1"]
    assert lines_with(as_json[2], "2 of 2")
    assert files(everywhere) == before
    assert {path for path in everywhere.rglob("*") if path.is_dir()} == folders


def test_an_interrupted_dry_run_writes_nothing(folder):
    before = files(folder.parent).keys()
    with OllamaServer(answers=stuck_after(1)) as server:
        process = start(folder, f"--backend ollama --dry-run --only {TWO} --jobs 1", OLLAMA_HOST=server.url)
        wait_for_line(process, "P_devops_1")
        process.send_signal(signal.SIGINT)
        status, _, err = finish(process)
    assert status == 130
    assert lines_with(err, "1 of 2")
    assert files(folder.parent).keys() == before


def test_the_json_on_stdout_is_the_file(folder):
    with OllamaServer() as server:
        status, out, _ = run(folder, f"--json --backend ollama --only {TWO} --out my.json", OLLAMA_HOST=server.url)
    assert status == 0
    assert out == (folder / "my.json").read_text(encoding="utf-8")


def test_tasks_save_below_the_base_folder(folder):
    def work(folder, base):
        with OllamaServer(answers=[REDIS, OCR]) as server:
            status, err = ask(folder, server, f"--only {TWO} --jobs 1 --base '{base}'")
        assert status == 0, err
        whole = base if base.startswith(("/", "~")) else os.path.abspath(folder / base)
        tasks = tasks_in(folder / "generated_tasks.json", whole)
        assert [t["task"].count(t["output"]) for t in tasks] == [1, 1]
        assert len(files(folder)) == 1
        return [t["output"].replace(str(folder), "HERE").replace(str(folder.parent), "UP") for t in tasks]

    bases = {"../evals/": "UP/evals/", "my evals/v1.2": "HERE/my evals/v1.2/", "~/evals": "~/evals/", "/": "/"}
    found = side_by_side(folder, {base: base for base in bases}, work)
    assert found == {b: [f"{whole}eval-redis-failover.md", f"{whole}eval-invoice-ocr.md"] for b, whole in bases.items()}


def test_a_seed_gives_the_same_bytes(folder):
    def written(args):
        status, _, err = run(folder, f"--backend builtin --out my.json {args}")
        assert status == 0, err
        return (folder / "my.json").read_bytes()

    assert written("--seed 7") == written("--seed 7 --jobs 1") != written("--seed 8")
    assert {t["seed"] for t in tasks_in(folder / "my.json")} == {8}


def test_the_progress_bar_names_the_persona_at_work(folder):
    seen, in_time = threading.Event(), []

    def answers(body, number):
        if persona_of(body) == "Priya":
            in_time.append(seen.wait(3))

    terminal, end = pty.openpty()
    with OllamaServer(answers=answers) as server:
        process = start(folder, f"--backend ollama --only {TWO} --jobs 1", stderr=end, OLLAMA_HOST=server.url)
        os.close(end)
        shown = b""
        while process.poll() is None or select.select([terminal], [], [], 0)[0]:
            if select.select([terminal], [], [], 0.05)[0]:
                try:
                    shown += os.read(terminal, 65536)
                except OSError:  # Linux's way to say that the other end is closed
                    break
            if b"Priya" in shown:
                seen.set()
        process.wait(10)
        process.stdout.close()
    os.close(terminal)
    assert process.returncode == 0
    assert in_time == [True]
    assert "1/2" in shown.decode()
