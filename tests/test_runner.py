"""eval_suite.py with real agents: small programs that the tests write and run as processes."""

import contextlib
import functools
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import eval_suite
import tinytroupe_tasks
from eval_suite import BASE, CRITERIA, SUITE, check_task, criteria_from_specs, main, run_task, score_suite

SCRIPT = Path(__file__).parent.parent / "eval_suite.py"
PATIENCE = 20  # seconds after which a test that waits for something gives up


# ----------------------------------------------------------------------------------------------
# Agents, tasks and reports
# ----------------------------------------------------------------------------------------------


def report(sections=5, title="Technique"):
    """A report that passes all six criteria of a fixed task with that many sections."""
    parts = ["# Findings\n"]
    for n in range(1, sections + 1):
        parts.append(
            f"## {title} {n}\n\nIt keeps what the model needs within reach and leaves out what it does not need, which\n"
            "lowers cost and raises accuracy in every deployment that published its numbers. Teams measured\n"
            "the effect on their own traffic before they relied on it.\n\n```python\nkeep = messages[-20:]\n```\n"
        )
    return "\n".join(parts)


# What each agent does with argv: the task's text and its output. `out`, `text` and `report` are there.
AGENTS = {
    "writes": "out.write_text(report)",
    "prints": "print(report)",
    "prints over a log": "print('thinking', file=sys.stderr); print(report)",
    "prints beyond UTF-8": "sys.stdout.buffer.write(report.encode() + b'\\xff\\xfe')",
    "prints nothing": "print('\\n \\n'); print('out of ideas', file=sys.stderr)",
    "writes and fails": "out.write_text(report); print('late trouble'); sys.exit(3)",
    "crashes": "print('step one'); print('boom: no key', file=sys.stderr); sys.exit(3)",
    "is killed": "os.kill(os.getpid(), 9)",
    "writes nothing": "print('I have saved it!')",
    "writes elsewhere": "Path('elsewhere.md').write_text(report)",
    "writes the same bytes": "out.write_bytes(out.read_bytes())",
    "replaces it by the same bytes": "t = Path(f'{out}.new'); t.write_bytes(out.read_bytes()); os.replace(t, out)",
    "reads the old one": "out.read_bytes()",
    "deletes the old one": "out.unlink()",
    "writes a shorter one": "out.write_text(report[:300])",
    "writes an empty one": "out.write_text('')",
    "writes beyond UTF-8": "out.write_bytes(report.encode() + b'\\xff\\xfe')",
    "writes UTF-16": "out.write_text(report, encoding='utf-16')",
    "writes with a BOM and CRLF": "out.write_bytes(b'\\xef\\xbb\\xbf' + report.replace('\\n', '\\r\\n').encode())",
    "makes a folder": "out.unlink(missing_ok=True); out.mkdir()",
    "makes a pipe": "out.unlink(missing_ok=True); os.mkfifo(out)",
    "makes a link to nothing": "out.unlink(missing_ok=True); out.symlink_to('nowhere.md')",
    "makes a link to itself": "out.unlink(missing_ok=True); out.symlink_to(out)",
    "makes a link to a report": "Path('real.md').write_text(report); out.symlink_to(Path('real.md').resolve())",
    "reads its input": "out.write_text(report + sys.stdin.read())",
    "hangs": "time.sleep(60)",
    "writes and hangs": "out.write_text(report); time.sleep(60)",
}
PROLOGUE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
text, out = sys.argv[1], Path(sys.argv[2])
report = Path({report!r}).read_text()
"""
# Leaves its process id and that of a child, which would go on without it.
HANGS = """
print(report, flush=True)
child = "import signal, sys, time; {child}; open(sys.argv[1], 'w').write('x'); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", child, "{name}.up"])
{own}
while not os.path.exists("{name}.up"):
    time.sleep(0.01)
open("{name}.tmp", "w").write(f"{{os.getpid()}} {{child.pid}}")
os.replace("{name}.tmp", "{name}.pids")
time.sleep(60)
"""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder of each test, with a home beside it; a test that hangs is ended."""
    for name in ("home", "work", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name, value in {"HOME": tmp_path / "home", "TMPDIR": tmp_path / "tmp", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("EVAL_AGENT", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "PYTHONUTF8", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", None)  # where $TMPDIR of an earlier test would be remembered

    def late(*_):
        raise TimeoutError("the test hangs")

    old = {name: signal.getsignal(name) for name in (signal.SIGALRM, signal.SIGTERM)}
    signal.signal(signal.SIGALRM, late)
    signal.alarm(2 * PATIENCE)
    yield tmp_path / "work"
    signal.alarm(0)
    for name, handler in old.items():
        signal.signal(name, handler)


def program(code, name="agent"):
    """Write an agent's program; return the command line that runs it, up to its arguments."""
    Path("report.md").write_text(report())
    path = Path(f"{name}.py").resolve()
    path.write_text(PROLOGUE.format(report=str(Path("report.md").resolve())) + code)
    return f"{shlex.quote(sys.executable)} -S {shlex.quote(str(path))}"


def agent(code):
    return program(AGENTS.get(code, code)) + " {task} {output}"


def fixed(id="T_A"):
    return next(task for task in SUITE if task["id"] == id)


def made(id="P_1", **changes):
    """A task of a user's own, in the form of SUITE, whose report needs little."""
    task = {"id": id, "desc": "d", "task": "Write it", "output": f"{BASE}/{id}.md"} | changes
    return {"criteria": criteria_from_specs([{"type": "min_lines", "n": 3}])} | task


def place(task):
    path = Path(os.path.expanduser(task["output"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_reports(*wrong, ids=None):
    """Write a good report for every fixed task, or what `wrong` (pairs of id and bytes) has instead."""
    counts = {"T_A": 5, "T_B": 4, "T_C": 3, "T_D": 3, "T_E": 4}
    for id in ids or counts:
        place(fixed(id)).write_bytes(dict(wrong).get(id, report(counts[id]).encode()))


def suite(*args, status=None, **options):
    """Run the command; return the finished process, its output as text."""
    env = os.environ | options.pop("env", {})
    command = [sys.executable, SCRIPT, *map(str, args)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=PATIENCE, env=env, **options)
    assert "Traceback" not in ran.stderr, ran.stderr
    if status is not None:
        assert ran.returncode == status, (ran.returncode, ran.stdout, ran.stderr)
    return ran


def in_process(*args):
    """Run main() here, which is quicker; return the exit status, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as left:
            status = left.code
    return status, out.getvalue(), err.getvalue()


def wait_for(ready, what):
    for _ in range(PATIENCE * 100):
        if ready():
            return
        time.sleep(0.01)
    pytest.fail(f"waited in vain for {what}")


def is_running(pid):
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return state not in "ZX"


def assert_ended(*names):
    for name in names:
        pids = [int(pid) for pid in Path(f"{name}.pids").read_text().split()]
        assert len(pids) == 2
        wait_for(lambda: not any(map(is_running, pids)), f"the end of {name}'s processes")  # noqa: B023


# ----------------------------------------------------------------------------------------------
# The fixed tasks
# ----------------------------------------------------------------------------------------------

FIXED = [
    ("T_A", "top 5 context engineering", "eval-context-engineering.md", "exact_sections(5) min_bytes(800) min_lines(15)"),
    ("T_B", "cost envelope", "eval-cost-management.md", "min_sections(3) min_bytes(800) min_lines(15)"),
    ("T_C", "3 most common failure modes", "eval-agent-failure-modes.md", "exact_sections(3) min_bytes(600) min_lines(10)"),
    ("T_D", "top 3 strategies", "eval-context-window.md", "exact_sections(3) min_bytes(600) min_lines(10)"),
    ("T_E", "prompt injection", "eval-prompt-injection.md", "min_sections(3) min_bytes(800) min_lines(15)"),
]


def test_the_suite_is_the_five_tasks():
    assert [task["id"] for task in SUITE] == [row[0] for row in FIXED]
    for task, (_, words, file, criteria) in zip(SUITE, FIXED, strict=True):
        assert words in task["task"]
        assert task["output"] == f"~/Desktop/harness-engineering/{file}"
        assert task["output"] in task["task"]
        names = [check.__name__ for check in task["criteria"]]
        assert names[:3] == criteria.split()
        assert [name.partition("(")[0] for name in names[3:]] == ["no_placeholders", "has_impl_notes", "no_file_path_refs"]
        assert task["desc"]


def test_importing_runs_nothing_and_loads_nothing_heavy():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import eval_suite; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, SCRIPT.parent], capture_output=True, text=True, timeout=PATIENCE)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not {"rich", "pyromark", "ollama", "subprocess", "xml.etree.ElementTree"} & set(ran.stdout.split())


# ----------------------------------------------------------------------------------------------
# What becomes of a run
# ----------------------------------------------------------------------------------------------

# name: agent, what was there before, further options -> status, exit status, patterns of the error
OLD, NOTHING = "old", None
OUTCOMES = {
    "writes": ("writes", NOTHING, {}, "passed", 0, []),
    "writes over an old one": ("writes", OLD, {}, "passed", 0, []),
    "prints": ("prints", NOTHING, {"capture": True}, "passed", 0, []),
    "prints over an old one": ("prints", OLD, {"capture": True}, "passed", 0, []),
    "prints what was there": ("prints", "report", {"capture": True}, "passed", 0, []),
    "prints over a log": ("prints over a log", NOTHING, {"capture": True}, "passed", 0, []),
    "prints, not captured": ("prints", NOTHING, {}, "error", 0, ["no report", r"keep = messages"]),
    "prints, not captured, over an old one": ("prints", OLD, {}, "error", 0, ["stale"]),
    "prints nothing": ("prints nothing", NOTHING, {"capture": True}, "error", 0, ["no report", "out of ideas"]),
    "prints nothing over an old one": ("prints nothing", OLD, {"capture": True}, "error", 0, ["stale", "out of ideas"]),
    "prints beyond UTF-8": ("prints beyond UTF-8", NOTHING, {"capture": True}, "error", 0, ["UTF-8"]),
    "prints over a folder": ("prints", "folder", {"capture": True}, "error", 0, []),
    "prints and crashes": ("print(report); sys.exit(3)", NOTHING, {"capture": True}, "passed", 3, []),
    "writes and fails": ("writes and fails", NOTHING, {}, "passed", 3, []),
    "crashes": ("crashes", NOTHING, {}, "error", 3, ["exit status 3", "no report", "step one.*boom: no key"]),
    "crashes over an old one": ("crashes", OLD, {}, "error", 3, ["exit status 3", "stale", "boom: no key"]),
    "is killed": ("is killed", NOTHING, {}, "error", -9, ["-9|SIGKILL", "no report"]),
    "writes nothing": ("writes nothing", NOTHING, {}, "error", 0, ["no report", "I have saved it!"]),
    "writes nothing over an old one": ("writes nothing", OLD, {}, "error", 0, ["stale", "I have saved it!"]),
    "writes elsewhere": ("writes elsewhere", NOTHING, {}, "error", 0, ["no report"]),
    "writes the same bytes": ("writes the same bytes", "report", {}, "passed", 0, []),
    "replaces it by the same bytes": ("replaces it by the same bytes", "report", {}, "passed", 0, []),
    "reads the old one": ("reads the old one", "report", {}, "error", 0, ["stale"]),
    "deletes the old one": ("deletes the old one", "report", {}, "error", 0, ["no report"]),
    "writes a shorter one": ("writes a shorter one", NOTHING, {}, "failed", 0, []),
    "writes an empty one": ("writes an empty one", NOTHING, {}, "failed", 0, []),
    "writes beyond UTF-8": ("writes beyond UTF-8", NOTHING, {}, "error", 0, ["UTF-8"]),
    "writes beyond UTF-8 and fails": (AGENTS["writes beyond UTF-8"] + "; sys.exit(4)", OLD, {}, "error", 4, ["UTF-8"]),
    "writes UTF-16": ("writes UTF-16", NOTHING, {}, "error", 0, ["UTF-8"]),
    "writes with a BOM and CRLF": ("writes with a BOM and CRLF", NOTHING, {}, "passed", 0, []),
    "makes a folder": ("makes a folder", NOTHING, {}, "error", 0, ["unreadable|not a file"]),
    "makes a folder of an old one": ("makes a folder", OLD, {}, "error", 0, ["unreadable|not a file"]),
    "leaves a folder": ("writes nothing", "folder", {}, "error", 0, ["."]),
    "makes a pipe": ("makes a pipe", NOTHING, {}, "error", 0, ["unreadable|not a file"]),
    "makes a link to nothing": ("makes a link to nothing", OLD, {}, "error", 0, ["no report"]),
    "makes a link to itself": ("makes a link to itself", OLD, {}, "error", 0, ["unreadable|no report"]),
    "makes a link to a report": ("makes a link to a report", NOTHING, {}, "passed", 0, []),
    "reads its input": ("reads its input", NOTHING, {}, "passed", 0, []),
    "hangs": ("hangs", NOTHING, {"timeout": 0.4}, "error", -15, ["timeout.*0.4"]),
    "hangs and says so": ("print('wait', flush=True); time.sleep(60)", OLD, {"timeout": 0.4}, "error", -15, ["wait"]),
    "writes and hangs": ("writes and hangs", NOTHING, {"timeout": 0.4}, "error", -15, ["timeout"]),
    "prints and hangs": ("print(report, flush=True); time.sleep(60)", OLD, {"timeout": 0.4, "capture": True}, "error", -15, ["timeout"]),
}


@pytest.mark.parametrize(("code", "before", "options", "status", "exit_status", "patterns"), OUTCOMES.values(), ids=OUTCOMES)
def test_what_becomes_of_a_run(code, before, options, status, exit_status, patterns):
    task = fixed()
    command = agent(code)
    if before == "folder":
        place(task).mkdir()
    elif before:
        # Written a moment ago, as by a run before: only what this run does may tell the two apart.
        place(task).write_text(report() if before == "report" else "# Old\n\n## One\n")
    result = run_task(task, command, **{"timeout": PATIENCE} | options)
    assert (result["status"], result["exit_status"]) == (status, exit_status), result
    assert result["id"] == "T_A" and result["group"] == "fixed" and result["seconds"] > 0
    for pattern in patterns:
        assert re.search(pattern, result["error"]), result["error"]
    if status == "error":
        assert result["error"] and "\n" not in result["error"]
        assert (result["score"], result["criteria"]) == (0, [])
    else:
        assert result["error"] is None
        passed = [row["passed"] for row in result["criteria"]]
        assert len(passed) == 6 and all(passed) == (status == "passed")
        assert result["score"] == pytest.approx(sum(passed) / 6)
        assert all(isinstance(row["name"], str) and row["detail"] for row in result["criteria"])


def test_a_report_left_over_stays_as_it_was():
    place(fixed()).write_text("mine")
    run_task(fixed(), agent("prints nothing"), capture=True)
    assert place(fixed()).read_text() == "mine"
    run_task(fixed(), agent("print(report, flush=True); time.sleep(60)"), capture=True, timeout=0.4)
    assert place(fixed()).read_text() == "mine", "what a hung agent had printed so far is no report"
    assert sorted(path.name for path in place(fixed()).parent.iterdir()) == [place(fixed()).name]


def test_what_is_captured_is_stdout_alone():
    run_task(fixed(), agent("prints over a log"), capture=True, log_dir="logs")
    assert place(fixed()).read_text() == report() + "\n"
    assert Path("logs/T_A.log").read_text() == "thinking\n"


def test_only_the_last_lines_of_a_long_log_are_shown():
    result = run_task(fixed(), agent("for n in range(5000): print(f'line {n} ' + 'x' * 500)\nsys.exit(1)"))
    assert "line 4999" in result["error"] and "line 4000" not in result["error"]
    assert len(result["error"]) < 2000


# Command lines and folders with which no agent can start
UNSTARTABLE = {
    "an unknown program": ("no-such-program {task}", None),
    "a folder as program": ("/ {task}", None),
    "a quote that does not end": ("'agent {task}", None),
    "a file that is no program": ("./notes.txt {task}", None),
    "a NUL in the task": (None, {"task": "a\0b"}),
    "half a surrogate pair in the task": (None, {"task": "a\ud800b"}),
    "an output below a file": (None, {"output": "notes.txt/x.md"}),
}


@pytest.mark.parametrize(("command", "changes"), UNSTARTABLE.values(), ids=UNSTARTABLE)
def test_an_agent_that_can_not_start_is_an_error(command, changes):
    Path("notes.txt").write_text("no program\n")
    result = run_task(made(**changes or {}), command or agent("writes"))
    assert result["status"] == "error" and result["score"] == 0 and result["error"]
    assert "\n" not in result["error"]


def test_an_output_without_a_folder_is_in_the_current_one():
    assert run_task(made(output="x.md"), agent("writes"))["status"] == "passed"
    assert Path("x.md").read_text() == report()


# ----------------------------------------------------------------------------------------------
# Words: a task's text is one argument, or a part of one
# ----------------------------------------------------------------------------------------------

TEXTS = {
    "plain": "Write about caches",
    "quotes": """it's "quoted" `here` 'and' "there""",
    "a command": "$(touch canary); touch canary & `touch canary` | touch canary > canary",
    "lines": "one\ntwo\r\n\tthree\n",
    "a leading dash": "--help",
    "spaces around": "  two  spaces  ",
    "the output's braces": "write {output} and {task} and {} and {0} and {other}",
    "backslashes": r"\n \\ \{task} \1 \g<0> C:\Users\u",
    "patterns": "* ? [a-z] ~ ~/x $HOME ${HOME} %PATH% !x #x",
    "other scripts": "調べて ✅ 🚀 Überblick é",
    "controls": "\x1b[31m\x07\x7f\x01",
    "empty": "",
    "long": "x" * 100_000,
}
OUTPUT = object()
# After the program's words: what the user writes -> what the agent gets for the text t and the output o
TEMPLATES = {
    "{task}": lambda t, o: [t],
    "'{task}'": lambda t, o: [t],
    '"{task}" "{output}"': lambda t, o: [t, o],
    "--prompt={task} -o{output}": lambda t, o: [f"--prompt={t}", f"-o{o}"],
    "{output}:{task}:{task}{output}": lambda t, o: [f"{o}:{t}:{t}{o}"],
    "": lambda t, o: [t],
    "--to {output}": lambda t, o: ["--to", o, t],
    "-p 'do this: {task} now' ''": lambda t, o: ["-p", f"do this: {t} now", ""],
    "$HOME $(touch canary) ; touch canary * {other} {{task}}": lambda t, o: (
        ["$HOME", "$(touch", "canary)", ";", "touch", "canary", "*", "{other}", f"{{{t}}}"]
    ),
    r"a\ b 'c d' # e": lambda t, o: ["a b", "c d", "#", "e", t],
}


def words(template, text):
    """What an agent gets of a command line that ends in `template`, when the task has that text."""
    Path("words.py").write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    task = made(task=text)
    run_task(task, f"{shlex.quote(sys.executable)} -S words.py {template}", capture=True)
    assert not Path("canary").exists(), "a shell ran"
    return json.loads(place(task).read_text())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_one_argument_whatever_it_says(text):
    output = os.path.expanduser(made()["output"])
    got = words("{task} --prompt={task} {output} '-p {task} {output}' end", text)
    assert got == [text, f"--prompt={text}", output, f"-p {text} {output}", "end"]
    assert words("{output} end", text) == [output, "end", text]


@pytest.mark.parametrize(("template", "expected"), TEMPLATES.items(), ids=TEMPLATES)
def test_words_are_split_as_a_shell_splits_them(template, expected):
    text, output = TEXTS["quotes"], os.path.expanduser(made()["output"])
    assert words(template, text) == expected(text, output)


def test_the_output_has_its_home_resolved_and_its_folder_made(folder):
    task = made(output=f"{BASE}/new/folder/x.md")
    code = "assert out.is_absolute() and out.parent.is_dir() and '~' not in str(out); out.write_text(report)"
    assert run_task(task, agent(code))["status"] == "passed"
    assert (folder.parent / "home/Desktop/harness-engineering/new/folder/x.md").exists()


def test_a_task_never_becomes_the_program():
    """`--agent '{task}'` would run whatever file a generated task's text names."""
    Path("evil").write_text("#!/bin/sh\ntouch canary\n")
    Path("evil").chmod(0o755)
    data = [json.loads(json.dumps(generated(1, task="./evil")))]
    Path("made.json").write_text(json.dumps(data))
    for command in ("{task}", "./{task}", "{output} {task}"):
        status, out, _ = in_process("--agent", command, "--generated", "made.json", "--tasks", "P_1")
        assert not Path("canary").exists(), command
        assert (status, out) == (2, "") or status == 1, command
    assert run_task(made(task="./evil"), "{task}")["status"] == "error"
    assert not Path("canary").exists()


def test_a_program_at_home_is_found_there(folder):
    path = folder.parent / "home" / "my-agent"
    path.write_text(f'#!/bin/sh\ncp {shlex.quote(str(folder / "report.md"))} "$2"\n')
    path.chmod(0o755)
    Path("report.md").write_text(report())
    # Quoted on the command line, ~ gets here as it is. To refuse it at once would be as good as to run it.
    status, _, err = in_process("--agent", "~/my-agent {task} {output}", "--tasks", "T_A")
    assert status == 0 or (status == 2 and "my-agent" in err), err


# ----------------------------------------------------------------------------------------------
# Ending an agent
# ----------------------------------------------------------------------------------------------

# What the agent, and what its child, make of SIGTERM
STUBBORN = {
    "both stop": ("pass", "pass"),
    "neither stops": (DEAF, DEAF),
    "the agent stops, its child does not": ("pass", DEAF),
    "the child stops, the agent does not": (DEAF, "pass"),
    "the agent tidies up": ("signal.signal(15, lambda *_: (open('tidy', 'w').close(), sys.exit(7)))", "pass"),
}


@pytest.mark.parametrize(("own", "child"), STUBBORN.values(), ids=STUBBORN)
def test_a_timeout_ends_the_whole_group(monkeypatch, own, child):
    monkeypatch.setattr(eval_suite, "KILL_GRACE", 0.3)
    started = time.monotonic()
    result = run_task(fixed(), agent(HANGS.format(name="a", own=own, child=child)), timeout=0.6)
    assert time.monotonic() - started < 0.6 + 0.3 + 1.5  # the last is the machine's
    assert result["status"] == "error" and "timeout" in result["error"]
    assert_ended("a")
    if "tidy" in own:
        assert Path("tidy").exists() and result["exit_status"] == 7


def test_a_timeout_on_the_command_line_ends_the_agent():
    command = agent(HANGS.format(name="a", own="pass", child="pass"))
    ran = suite("--agent", command, "--timeout", "0.8", "--tasks", "T_A", "--json", "R.json", status=1)
    assert_ended("a")
    assert "timeout" in ran.stdout and "timeout" in ran.stderr
    assert "timeout" in json.loads(Path("R.json").read_text())["tasks"][0]["error"]


WITH_GRACE = "import sys; sys.path.insert(0, sys.argv.pop(1)); import eval_suite; eval_suite.KILL_GRACE = 0.4; "


def interrupted(code, signals, *args):
    """Start the command on three tasks, send the signals once T_A is done and T_B hangs; return it when ended."""
    hang = "\n".join(f"    {line}" for line in code.strip().splitlines())
    command = agent(
        f"if 'context-eng' in str(out):\n    out.write_text(report)\nelse:\n    name = out.stem\n{hang}".replace('"NAME', 'f"{name}')
    )
    wrapped = WITH_GRACE + "sys.exit(eval_suite.main())"
    with open("out.txt", "w") as out, open("err.txt", "w") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", wrapped, SCRIPT.parent, "--agent", command, "--tasks", "T_A,T_B,T_C", *args],
            stdout=out,
            stderr=err,
            # Ctrl-C is ignored in what a script starts in the background, as this run of the tests may be.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    try:
        wait_for(lambda: "T_A" in Path("err.txt").read_text(), "T_A")
        wait_for(Path("eval-cost-management.pids").exists, "T_B")
        if "2" in args:
            wait_for(Path("eval-agent-failure-modes.pids").exists, "T_C")
        for number, name in enumerate(signals):
            time.sleep(0.15 if number else 0)
            process.send_signal(name)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    return process.returncode, Path("out.txt").read_text(), Path("err.txt").read_text()


SIGNALS = {
    "Ctrl-C": ([signal.SIGINT], "pass", []),
    "SIGTERM": ([signal.SIGTERM], "pass", []),
    "Ctrl-C, agents side by side": ([signal.SIGINT], "pass", ["--jobs", "2"]),
    "SIGTERM, a deaf agent": ([signal.SIGTERM], DEAF, []),
    "Ctrl-C twice, a deaf agent": ([signal.SIGINT, signal.SIGINT], DEAF, []),
    "Ctrl-C, for a score": ([signal.SIGINT], "pass", ["--score"]),
    "Ctrl-C, capturing": ([signal.SIGINT], "pass", ["--capture"]),
}


@pytest.mark.parametrize(("signals", "own", "args"), SIGNALS.values(), ids=SIGNALS)
def test_an_interrupt_reports_what_is_done_and_ends_the_agents(signals, own, args):
    code = HANGS.format(name="NAME", own=own, child="pass")
    place(fixed("T_B")).write_text("mine")
    outputs = ["--json", "R.json", "--junit", "R.xml", "--html", "R.html"]
    status, out, err = interrupted(code, signals, *outputs, *args)
    assert_ended("eval-cost-management", *(["eval-agent-failure-modes"] if "--jobs" in args else []))
    assert (status, "Traceback" in err) == (130, False), err
    told = err if "--score" in args else out
    assert "T_A" in told and "interrupted" in out + err
    assert "T_B" not in told and "T_C" not in told
    run = json.loads(Path("R.json").read_text())
    assert [(task["id"], task["status"]) for task in run["tasks"]] == [("T_A", "passed")]
    assert len(ElementTree.parse("R.xml").findall(".//testcase")) == 1
    assert "T_A" in Path("R.html").read_text()
    assert place(fixed("T_B")).read_text() == "mine"
    if "--score" in args:
        assert out == "", "a score of some tasks is not the score"


# ----------------------------------------------------------------------------------------------
# Several at once
# ----------------------------------------------------------------------------------------------

MEETS = """
(out.parent / (out.name + ".here")).touch()
stop = time.monotonic() + {wait}
while len(list(out.parent.glob("*.here"))) < {count}:
    if time.monotonic() > stop:
        sys.exit("alone")
    time.sleep(0.01)
time.sleep({late}.get(out.stem, 0))
out.write_text(report)
"""


def test_jobs_run_side_by_side_and_results_keep_their_order():
    """Each agent waits for the others; the first is the last to finish."""
    tasks = [made(id) for id in ("P_1", "P_2", "P_3")]
    seen = []
    command = agent(MEETS.format(wait=PATIENCE, count=3, late={"P_1": 0.3}))
    run = score_suite(tasks, command, jobs=3, on_result=lambda result: seen.append(result["id"]))
    assert [(result["id"], result["status"]) for result in run["tasks"]] == [(f"P_{n}", "passed") for n in (1, 2, 3)]
    assert sorted(seen) == ["P_1", "P_2", "P_3"] and seen[-1] == "P_1"


def test_without_jobs_they_run_one_after_the_other():
    command = agent("os.mkdir('busy'); time.sleep(0.05); os.rmdir('busy'); out.write_text(report)")
    assert score_suite([made(id) for id in ("P_1", "P_2", "P_3")], command)["score"] == 1


def test_jobs_on_the_command_line():
    command = agent(MEETS.format(wait=PATIENCE, count=5, late={}))
    ran = suite("--agent", command, "--jobs", "5", "--json", "R.json", status=1)  # T_C and T_D have 5 sections, need 3
    assert "alone" not in ran.stderr
    results = json.loads(Path("R.json").read_text())["tasks"]
    assert [result["status"] for result in results] == ["passed", "passed", "failed", "failed", "passed"]


# ----------------------------------------------------------------------------------------------
# The command line: usage
# ----------------------------------------------------------------------------------------------

# Arguments -> what the message says, on stderr, with exit status 2 and nothing on stdout
USAGE = {
    "nothing": ([], ["--agent", "{task}", "EVAL_AGENT", "--fast"]),
    "only tasks": (["--tasks", "T_A"], ["--agent", "--fast"]),
    "both ways": (["--agent", "true", "--fast"], ["--agent", "--fast"]),
    "an unknown program": (["--agent", "no-such-program {task}"], ["no-such-program"]),
    "an unknown file": (["--agent", "./no/such/agent.py {task}"], ["./no/such/agent.py"]),
    "an empty agent": (["--agent", ""], ["--agent"]),
    "a blank agent": (["--agent", "  "], ["--agent"]),
    "a quote that does not end": (["--agent", "sh -c 'x"], ["--agent"]),
    "a backslash at the end": (["--agent", "sh \\"], ["--agent"]),
    "no agent after --agent": (["--agent"], ["--agent"]),
    "to capture nothing": (["--fast", "--capture"], ["--capture"]),
    **{
        f"a timeout of {value}": (["--agent", "true", "--timeout", value], ["--timeout", value])
        for value in ("0", "-1", "nan", "inf", "soon", "")
    },
    **{f"{value} jobs": (["--agent", "true", "--jobs", value], ["--jobs", value]) for value in ("0", "-1", "1.5", "all", "")},
    "an unknown task": (["--fast", "--tasks", "T_A,T_Z,P_1"], ["T_Z", "P_1", "T_A, T_B", "--generated"]),
    "an id in small letters": (["--fast", "--tasks", "t_a"], ["t_a", "T_A"]),
    "no tasks": (["--fast", "--tasks", ""], ["--tasks", "T_A"]),
    "commas for tasks": (["--fast", "--tasks", " , "], ["--tasks", "T_A"]),
    "no generated file": (["--fast", "--generated", "none.json"], ["none.json"]),
    "no default generated file": (["--fast", "--generated"], ["generated_tasks.json", "tinytroupe_tasks.py"]),
    "an unknown option": (["--fast", "--no-such"], ["--no-such"]),
    "an argument too many": (["--fast", "report.md"], ["report.md"]),
    "no base": (["--fast", "--base", ""], ["--base"]),
    **{f"--{flag} in no folder": (["--fast", f"--{flag}", "no/such/R"], [f"--{flag}", "no/such/R"]) for flag in ("json", "junit", "html")},
    **{f"--{flag} on a folder": (["--fast", f"--{flag}", "."], [f"--{flag}"]) for flag in ("json", "junit", "html")},
    **{f"--{flag} on nothing": (["--fast", f"--{flag}", ""], [f"--{flag}"]) for flag in ("json", "junit", "html")},
}


@pytest.mark.parametrize(("args", "expected"), USAGE.values(), ids=USAGE)
def test_wrong_usage_says_what_is_wrong(args, expected):
    status, out, err = in_process(*args)
    assert (status, out) == (2, "")
    for text in expected:
        assert text in err


def test_wrong_usage_in_a_process():
    ran = suite(status=2)
    assert ran.stdout == ""
    message = ran.stderr.splitlines()[-1]
    assert "--agent 'my-agent {task}'" in message and "--fast" in message


@pytest.mark.parametrize("script", [eval_suite, tinytroupe_tasks], ids=lambda module: module.__name__)
def test_help_the_parser_and_the_readme_tell_of_the_same_flags(script, capsys):
    ran = subprocess.run([sys.executable, script.__file__, "--help"], capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "130 interrupted" in ran.stdout
    for argument in ("--help", "-h"):
        with pytest.raises(SystemExit) as left:
            script.main([argument])
        assert (left.value.code, capsys.readouterr().out) == (0, ran.stdout)
    told = set(re.findall(r"(?m)^  (?:-h, )?(--[a-z-]+)", ran.stdout))
    assert told == set(re.findall(r'"(--[a-z][a-z-]+)"', Path(script.__file__).read_text())), "as parse_args() has them"
    readme = (SCRIPT.parent / "README.md").read_text()
    rows = re.findall(r"(?m)^\| (`--.*?) \|", readme[readme.index(f"`{script.__name__}.py`\n") :].split("\n## ")[0])
    assert told == set(re.findall(r"--[a-z-]+", " ".join(rows))) | {"--help"}


# How a stream can be broken -> what the shell does to it
BROKEN = {"its reader has gone": "", "closed": "{}>&-", "full": "{}>/dev/full"}
# What is run -> the file that it leaves
RUNS = {
    "a run": ("eval_suite.py --agent '{agent}' --tasks T_A,T_C --json run.json", "run.json"),
    "a score": ("eval_suite.py --agent '{agent}' --tasks T_A,T_C --score --json run.json", "run.json"),
    "an audit": ("eval_suite.py --audit --json audit.json", "audit.json"),
    "a generation": ("tinytroupe_tasks.py --backend builtin --only P_pm --json --out tasks.json", "tasks.json"),
    "a list": ("tinytroupe_tasks.py --list-personas", None),
}


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("what", RUNS)
def test_a_stream_that_breaks_loses_nothing_and_shows_no_traceback(what, broken, stream):
    command, left = RUNS[what]
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(SCRIPT.parent))}/" + command.format(
        agent=program(AGENTS["writes"]) + " {task} {output}"
    )
    number, other = (1, "2>told") if stream == "stdout" else (2, ">told")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        subprocess.run(["bash", "-c", f"{command} {other} {BROKEN[broken].format(number)}"], stdout=gone, stderr=gone, timeout=PATIENCE)
    told = Path("told").read_text()
    assert "Traceback" not in told and "Exception ignored" not in told
    if left:
        assert json.loads(Path(left).read_text())
    if stream == "stdout" and broken == "full":
        assert "stdout can't be written: No space left on device" in told


def test_a_pipe_is_written_to_and_not_replaced():
    ran = suite("--fast", "--tasks", "T_A", "--score", "--json", "/dev/stdout", status=1)
    written, _, score = ran.stdout.rpartition("}\n")
    assert json.loads(written + "}")["tasks"][0]["id"] == "T_A" and score == "0.000\n"
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        suite("--fast", "--tasks", "T_A", "--json", "pipe", status=1)
        assert json.loads(reader.communicate(timeout=PATIENCE)[0])["score"] == 0
    assert Path("pipe").is_fifo()


def test_tasks_that_no_file_can_take_are_on_stdout():
    command = [sys.executable, str(SCRIPT.parent / "tinytroupe_tasks.py"), "--backend", "builtin", "--count", "2", "--out"]
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command, "x.json"]
    ran = subprocess.run(limited, capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    assert "x.json can't be written: File too large; the tasks are on stdout" in ran.stderr
    assert len(json.loads(ran.stdout)) == 16
    assert not Path("x.json").exists()
    ran = subprocess.run([*command, "/dev/stdout"], capture_output=True, encoding="utf-8", timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (2, "") and "--json prints the tasks on stdout" in ran.stderr


# The environment, the arguments -> who runs
DEFAULTS = {
    "the environment's": ("one", [], "one"),
    "--agent before the environment's": ("one", ["--agent", "two"], "two"),
    "--fast before the environment's": ("one", ["--fast"], None),
    "an empty environment": ("", ["--fast"], None),
}


@pytest.mark.parametrize(("default", "args", "expected"), DEFAULTS.values(), ids=DEFAULTS)
def test_the_agent_of_the_environment_is_a_default(monkeypatch, default, args, expected):
    commands = {name: program(f"Path('ran').write_text('{name}'); out.write_text(report)", name) for name in ("one", "two")}
    commands = {name: command + " {task} {output}" for name, command in commands.items()} | {"": ""}
    monkeypatch.setenv("EVAL_AGENT", commands[default])
    status, _, _ = in_process("--tasks", "T_A", *[commands.get(arg, arg) for arg in args])
    assert status == (1 if expected is None else 0)
    assert (Path("ran").read_text() if Path("ran").exists() else None) == expected


def test_an_empty_default_agent_is_none(monkeypatch):
    monkeypatch.setenv("EVAL_AGENT", "")
    status, _, err = in_process()
    assert status == 2 and "--fast" in err


# ----------------------------------------------------------------------------------------------
# The command line: which tasks, where
# ----------------------------------------------------------------------------------------------


def generated(number, **changes):
    output = f"{BASE}/eval-made-{number}.md"
    return {
        "id": f"P_{number}",
        "desc": "generated",
        "task": f"Find 2 things and save to {output}",
        "output": output,
        "criteria_specs": [{"type": "exact_sections", "n": 2}, {"type": "min_lines", "n": 10}],
        "persona": "Jordan",
        "raw_response": "",
    } | changes


def ids_in(path="R.json"):
    return [task["id"] for task in json.loads(Path(path).read_text())["tasks"]]


ALL = ["T_A", "T_B", "T_C", "T_D", "T_E"]
SUBSETS = {
    "all": ([], ALL),
    "one": (["--tasks", "T_C"], ["T_C"]),
    "two, with a space": (["--tasks", "T_A, T_D"], ["T_A", "T_D"]),
    "one twice": (["--tasks", "T_B,T_B,"], ["T_B"]),
    "all with the generated": (["--generated"], [*ALL, "P_1", "P_2"]),
    "a file by name": (["--generated", "other.json"], [*ALL, "P_3"]),
    "some of both": (["--generated", "--tasks", "T_A,P_2"], ["T_A", "P_2"]),
    "generated alone": (["--generated", "--tasks", "P_2"], ["P_2"]),
}


@pytest.mark.parametrize(("args", "expected"), SUBSETS.values(), ids=SUBSETS)
def test_which_tasks_are_checked(args, expected):
    Path("generated_tasks.json").write_text(json.dumps([generated(1), generated(2)]))
    Path("other.json").write_text(json.dumps([generated(3)]))
    in_process("--fast", "--json", "R.json", *args)
    run = json.loads(Path("R.json").read_text())
    assert sorted(task["id"] for task in run["tasks"]) == sorted(expected)
    for task in run["tasks"]:
        fixed_one = task["id"].startswith("T_")
        assert task["group"] == ("fixed" if fixed_one else "generated")
        assert task["persona"] == (None if fixed_one else "Jordan")


def test_the_base_is_where_reports_go_and_are_read(folder):
    Path("made.json").write_text(json.dumps([generated(1)]))
    code = "Path('asked.txt').open('a').write(text + '\\n'); out.write_text(report)"
    args = ["--generated", "made.json", "--tasks", "T_A,P_1", "--base", "reports/deep"]
    suite("--agent", agent(code), *args, "--json", "R.json", status=1)  # P_1 needs 2 sections and gets 5
    assert sorted(path.name for path in Path("reports/deep").iterdir()) == ["eval-context-engineering.md", "eval-made-1.md"]
    asked = Path("asked.txt").read_text()
    assert asked.count("reports/deep/eval-") == 2 and BASE not in asked
    assert not (folder.parent / "home" / "Desktop").exists()
    suite("--fast", *args, "--json", "F.json", status=1)
    runs = [json.loads(Path(name).read_text())["tasks"] for name in ("R.json", "F.json")]
    for task in runs[0] + runs[1]:
        del task["seconds"], task["exit_status"]
    assert runs[0] == runs[1]


def test_fast_runs_and_changes_nothing():
    write_reports()
    before = {path: path.stat().st_mtime_ns for path in place(fixed()).parent.iterdir()}
    for _ in range(2):
        status, out, _ = in_process("--fast")
        assert status == 0 and "1.000" in out
    assert {path: path.stat().st_mtime_ns for path in place(fixed()).parent.iterdir()} == before


def test_what_the_agent_prints_goes_to_the_log_folder():
    command = agent("print('out', text[:8]); print('err', file=sys.stderr); out.write_text(report)")
    suite("--agent", command, "--log-dir", "logs/new", "--tasks", "T_A,T_B", status=0)
    assert sorted(path.name for path in Path("logs/new").iterdir()) == ["T_A.log", "T_B.log"]
    assert sorted(Path("logs/new/T_A.log").read_text().splitlines()) == ["err", "out Research"]


def test_a_log_folder_that_can_not_be_made_is_told():
    Path("file").touch()
    status, out, err = in_process("--agent", agent("writes"), "--tasks", "T_A", "--log-dir", "file/logs")
    assert status in (1, 2) and "file/logs" in out + err
    assert not place(fixed()).exists()


# ----------------------------------------------------------------------------------------------
# Scores and exit statuses
# ----------------------------------------------------------------------------------------------

PLACEHOLDER = report().encode() + b"\nTODO\n"
# Reports that are not the good ones -> the score of the five, and the exit status
SCORES = {
    "all good": ([], "1.000", 0),
    "one criterion of 30": ([("T_A", PLACEHOLDER)], "0.967", 1),
    "two criteria of 30": ([("T_A", PLACEHOLDER), ("T_B", PLACEHOLDER)], "0.933", 1),
    "one not UTF-8": ([("T_A", b"\xff")], "0.800", 1),
    "one error and one failure": ([("T_A", b"\xff"), ("T_E", PLACEHOLDER)], "0.767", 1),
    "all errors": ([(id, b"\xff") for id in ALL], "0.000", 1),
}


@pytest.mark.parametrize(("wrong", "score", "status"), SCORES.values(), ids=SCORES)
def test_score_prints_one_number_alone(wrong, score, status):
    write_reports(*wrong)
    ended, out, err = in_process("--fast", "--score", "--json", "R.json")
    assert (ended, out) == (status, score + "\n")
    assert "T_A" in err and score in err
    assert f"{json.loads(Path('R.json').read_text())['score']:.3f}" == score


def test_score_of_an_agent_in_a_process():
    ran = suite("--agent", agent("print('noise'); out.write_text(report)"), "--score", status=1)
    assert ran.stdout == "0.933\n"  # T_C and T_D need three sections
    assert float(ran.stdout) == pytest.approx(28 / 30, abs=0.001)


def test_an_agent_that_fails_but_wrote_good_reports_passes_and_is_shown():
    ran = suite("--agent", agent("writes and fails"), "--tasks", "T_A", status=0)
    assert re.search(r"T_A\W+passed\W+1\.000\W+[\d.]+\W+3\b", ran.stdout), ran.stdout


def test_a_run_of_errors_alone_is_not_a_pass():
    ran = suite("--agent", agent("crashes"), "--tasks", "T_A,T_B", status=1)
    assert ran.stdout.count("error") >= 2 and "boom: no key" in ran.stdout
    assert "exit status 3" in ran.stdout


# ----------------------------------------------------------------------------------------------
# What is printed, and the three files
# ----------------------------------------------------------------------------------------------

# Titles that are markup to somebody (rich, HTML, XML), and what of each a criterion quotes
ODD = {
    "[bold]Loud[/bold] [/] [link=x]": "[bold]Loud[/bold] [/] [link=x]",
    "`<script>alert(1)</script>`": "<script>alert(1)</script>",
    'R&D `]]> <!--` "q" &amp;': 'R&D ]]> <!-- "q" &',
    "Emoji 🚀 :smile: é": "Emoji 🚀 :smile: é",
    "調べ \\[x]": "調べ [x]",
}
CONTROLS = "Ring\x07 \x1b[31mred\x1b]0;own\x07 \x0b\x7f\x9b31m \ufffe end"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def odd_run():
    """A run with every status in both groups, with titles and a log that are hard to show."""
    Path("made.json").write_text(json.dumps([generated(n) for n in (1, 2, 3)]))
    titles = "".join(f"## {title}\n\ntext\n\n" for title in [*ODD, CONTROLS])
    write_reports(("T_B", titles.encode()), ids=["T_A", "T_B"])
    place(generated(1)).write_text(report(2))
    place(generated(2)).write_text(report(3, "[red]&lt;b&gt;"))
    place(generated(3)).write_bytes(b"\xff")
    return ["--fast", "--generated", "made.json", "--tasks", "T_A,T_B,T_C,P_1,P_2,P_3"]


STATUSES = {"T_A": "passed", "T_B": "failed", "T_C": "error", "P_1": "passed", "P_2": "failed", "P_3": "error"}


class Page(HTMLParser):
    """The text of an HTML page, and its elements."""

    def __init__(self, source):
        super().__init__()
        self.text, self.elements = "", set()
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)

    def handle_data(self, data):
        self.text += data


def squeezed(text):
    """Text without white space and the lines of a table: a cell that is wrapped reads as one."""
    return re.sub(r"[\s─-╿]+", "", text)


def test_the_outputs_parse_and_agree():
    ran = suite(*odd_run(), "--json", "R.json", "--junit", "R.xml", "--html", "R.html", status=1)
    run = json.loads(Path("R.json").read_bytes().decode("utf-8"))
    tree = ElementTree.parse("R.xml").getroot()
    page = Page(Path("R.html").read_bytes().decode("utf-8"))

    assert {"score", "tasks"} <= set(run)
    for task in run["tasks"]:
        assert {"id", "group", "persona", "status", "score", "seconds", "exit_status", "error", "criteria"} <= set(task)
        assert all({"name", "passed", "detail"} <= set(row) for row in task["criteria"])
        assert (task["error"] is None) == (task["status"] != "error")
    assert {task["id"]: task["status"] for task in run["tasks"]} == STATUSES
    assert run["score"] == pytest.approx(sum(task["score"] for task in run["tasks"]) / 6)

    cases = {case.get("name"): case for case in tree.iter("testcase")}
    element = {"passed": None, "failed": "failure", "error": "error"}
    for task in run["tasks"]:
        children = [child.tag for child in cases[task["id"]] if child.tag in ("failure", "error", "skipped")]
        assert children == ([element[task["status"]]] if element[task["status"]] else [])
    for name in ("fixed", "generated"):
        group = next(suite for suite in tree.iter("testsuite") if suite.get("name") == name)
        assert [group.get(key) for key in ("tests", "failures", "errors")] == ["3", "1", "1"]

    for shown in (ran.stdout, page.text):
        assert "6 tasks: 2 passed, 2 failed, 2 errors" in shown and f"{run['score']:.3f}" in shown
        rows = {id: status for id, status in re.findall(r"\b([TP]_\w)\W+(passed|failed|error)\b", shown)}
        assert rows == STATUSES
    assert "script" not in page.elements
    assert "utf-8" in Path("R.html").read_text().lower(), "without a charset a browser guesses"


def test_what_is_wrong_is_in_every_output():
    ran = suite(*odd_run(), "--json", "R.json", "--junit", "R.xml", "--html", "R.html", status=1)
    tasks = {task["id"]: task for task in json.loads(Path("R.json").read_text())["tasks"]}
    xml = {
        case.get("name"): " ".join([*case.itertext(), *(c.get("message") for c in case)])
        for case in ElementTree.parse("R.xml").iter("testcase")
    }
    page = squeezed(Page(Path("R.html").read_text()).text)
    told = squeezed(ran.stdout)
    for id, task in tasks.items():
        wrong = [f"{row['name']}: {row['detail']}" for row in task["criteria"] if not row["passed"]] + [task["error"]]
        for line in filter(None, wrong):
            if id != "T_B":  # whose controls are replaced, see below
                assert squeezed(line) in page and squeezed(line) in told
                assert squeezed(line) in squeezed(xml[id])
    assert "[red]<b> 3" in tasks["P_2"]["criteria"][0]["detail"]


def test_the_exit_status_of_a_judged_agent_is_in_every_output():
    suite("--agent", agent("writes and fails"), "--tasks", "T_A", "--json", "R.json", "--junit", "R.xml", "--html", "R.html", status=0)
    (task,) = json.loads(Path("R.json").read_text())["tasks"]
    assert (task["status"], task["exit_status"]) == ("passed", 3)
    assert [p.attrib for p in ElementTree.parse("R.xml").iter("property")] == [{"name": "exit_status", "value": "3"}]
    assert re.search(r"T_A\W+passed\W+1\.000\W+[\d.]+\W+3\b", Page(Path("R.html").read_text()).text)


def shown_everywhere(title):
    """Let a criterion quote a title; return the detail, and what stdout, the XML and the HTML say."""
    Path("made.json").write_text(json.dumps([generated(1)]))
    place(generated(1)).write_text(f"## {title}\n\ntext\n")
    files = ["--json", "R.json", "--junit", "R.xml", "--html", "R.html"]
    status, out, _ = in_process("--fast", "--generated", "made.json", "--tasks", "P_1", *files)
    assert status == 1
    detail = json.loads(Path("R.json").read_text())["tasks"][0]["criteria"][0]["detail"]
    (failure,) = ElementTree.parse("R.xml").iter("failure")
    return detail, out, failure.get("message"), Page(Path("R.html").read_text()).text


@pytest.mark.parametrize(("title", "text"), ODD.items(), ids=ODD.values())
def test_an_odd_title_survives_in_every_output(title, text):
    detail, *shown = shown_everywhere(title)
    assert detail == f"1 content section, need exactly 2: {text}"
    for output in shown:
        assert squeezed(detail) in squeezed(output)


def test_a_report_can_not_speak_to_the_terminal():
    """Nor can a control character make the XML one that no parser reads, or get into the page."""
    _, *shown = shown_everywhere(CONTROLS)
    for output in shown:
        assert "Ring" in output and "red" in output and "end" in output
    out, _, page = shown
    assert not CONTROL.findall(page)
    assert not CONTROL.findall(out), repr(CONTROL.findall(out))


def test_an_agent_can_not_speak_to_the_terminal_through_its_log():
    ran = suite("--agent", agent("print('\\x1b[2J\\x1b]0;own\\x07[bold]gone[/bold]')"), "--tasks", "T_A", "--json", "R.json", status=1)
    assert "[bold]gone[/bold]" in ran.stdout and "[bold]gone[/bold]" in ran.stderr
    assert not CONTROL.findall(ran.stdout + ran.stderr)


def test_piped_output_is_plain_lines():
    ran = suite("--agent", agent("writes"), "--tasks", "T_A,T_C", status=1)
    lines = ran.stderr.splitlines()
    assert [line[:12] for line in lines] == ["T_A: passed,", "T_C: failed,"]
    assert "\x1b" not in ran.stdout + ran.stderr and "\r" not in ran.stdout + ran.stderr


def test_output_in_a_locale_that_has_only_ascii():
    write_reports(("T_A", "## 調べ 🚀\n".encode()))
    ran = suite("--fast", env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}, status=1)
    assert "T_A" in ran.stdout and "need exactly 5" in ran.stdout
    assert ran.stdout.startswith("+---")


def test_on_a_terminal_there_is_a_progress_bar():
    """The task that runs, how many of how many, the time so far and the results so far."""
    ours, theirs = pty.openpty()
    command = agent("time.sleep(0.3); out.write_text(report)")
    args = [sys.executable, SCRIPT, "--agent", command, "--tasks", "T_A,T_C"]
    process = subprocess.Popen(args, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"COLUMNS": "150"})
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other side has hung up
        while select.select([ours], [], [], PATIENCE)[0]:
            read = os.read(ours, 65536)
            if not read:
                break
            shown += read
    os.close(ours)
    assert process.wait(PATIENCE) == 1
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"T_A[^\n]*━[^\n]*0/2[^\n]*\d:\d\d:\d\d", shown), shown
    assert re.search(r"T_C[^\n]*━[^\n]*1/2[^\n]*\d:\d\d:\d\d[^\n]*1 passed", shown), shown
    assert "2 tasks: 1 passed, 1 failed, 0 errors" in shown


def test_files_are_written_beside_a_bad_run_and_over_old_ones():
    for name in ("R.json", "R.xml", "R.html"):
        Path(name).write_text("old" * 10_000)
    suite("--fast", "--tasks", "T_A", "--json", "R.json", "--junit", "R.xml", "--html", "R.html", status=1)
    assert ids_in() == ["T_A"]
    assert ElementTree.parse("R.xml").find(".//error").get("message")
    assert "old" * 3 not in Path("R.html").read_text()
    assert sorted(os.listdir()) == ["R.html", "R.json", "R.xml"]


def test_a_file_that_can_not_be_written_at_the_end_is_told():
    """The folder was there at the start; the agent took it away."""
    Path("results").mkdir()
    command = agent("os.rmdir('results'); out.write_text(report)")
    ran = suite("--agent", command, "--tasks", "T_A", "--json", "results/R.json", "--junit", "R.xml", status=2)
    assert "results/R.json" in ran.stderr and "T_A" in ran.stdout
    assert ElementTree.parse("R.xml").find(".//testcase").get("name") == "T_A"


# ----------------------------------------------------------------------------------------------
# From Python
# ----------------------------------------------------------------------------------------------


def test_check_task_reads_what_is_there():
    assert check_task(fixed())["status"] == "error"
    place(fixed()).write_text(report())
    result = check_task(fixed())
    assert (result["status"], result["score"], result["exit_status"], result["error"]) == ("passed", 1, None, None)
    place(fixed()).write_text(report(4))
    result = check_task(fixed())
    assert (result["status"], result["score"]) == ("failed", pytest.approx(5 / 6))
    assert [row["name"] for row in result["criteria"] if not row["passed"]] == ["exact_sections(5)"]
    assert "4 content sections, need exactly 5: Technique 1, Technique 2" in result["criteria"][0]["detail"]


def test_score_suite_without_an_agent_checks():
    write_reports(("T_B", b"\xff"))
    run = score_suite(SUITE)
    assert run["score"] == pytest.approx(0.8)
    assert [task["status"] for task in run["tasks"]] == ["passed", "error", "passed", "passed", "passed"]
    json.dumps(run)


def test_score_suite_with_an_agent_runs_it():
    run = score_suite([fixed("T_A"), made()], agent("writes"), timeout=PATIENCE, log_dir="logs")
    assert run["score"] == 1
    assert sorted(os.listdir("logs")) == ["P_1.log", "T_A.log"]


def test_main_returns_the_exit_status():
    write_reports()
    assert [in_process("--fast")[0], in_process("--fast", "--base", "none")[0]] == [0, 1]


def judge(answer=None, error=None, name="judge"):
    def check(content):
        if error:
            raise error
        return answer

    check.__name__ = name
    return check


def bare(content, least):
    return len(content) >= least, f"{len(content)} characters"


# A user's own criterion -> status, pattern of the error
JUDGES = {
    "passes": (judge((True, "fine")), "passed", None),
    "fails": (judge((False, "bad")), "failed", None),
    "passes with what is true": (judge((1, "fine")), "passed", None),
    "details that are no text": (judge((False, ["a", 1])), "failed", None),
    "raises": (judge(error=RuntimeError("broken\njudge")), "error", "judge.*RuntimeError.*broken"),
    "raises with nothing to say": (judge(error=KeyError()), "error", "judge.*KeyError"),
    "asserts": (judge(error=AssertionError()), "error", "judge.*AssertionError"),
    "answers nothing": (judge(None), "error", "judge"),
    "answers only True": (judge(True), "error", "judge"),
    "answers too much": (judge((True, "a", "b")), "error", "judge"),
    "has no name": (functools.partial(bare, least=1), "passed", None),
    "has no name and raises": (functools.partial(judge(error=OSError("x"))), "error", "OSError"),
}


@pytest.mark.parametrize(("check", "status", "pattern"), JUDGES.values(), ids=JUDGES)
def test_a_criterion_that_breaks_is_an_error_and_no_pass(check, status, pattern):
    task = made(criteria=[*criteria_from_specs([{"type": "min_lines", "n": 1}]), check])
    place(task).write_text("# x\n")
    result = check_task(task)
    assert result["status"] == status
    assert result["score"] == {"passed": 1, "failed": 0.5, "error": 0}[status]
    if pattern:
        assert re.search(pattern, result["error"]) and "\n" not in result["error"]
    json.dumps(result)


def test_a_criterion_of_the_user_s_own_goes_all_the_way(monkeypatch):
    """Added to CRITERIA, asked for in JSON, judged, shown."""

    def mentions(word):
        return judge_word(word)

    def judge_word(word):
        def check(content):
            return word in content, f"{content.count(word)} times {word}"

        check.__name__ = f"mentions({word})"
        return check

    monkeypatch.setitem(CRITERIA, "mentions", mentions)
    specs = [{"type": "mentions", "word": "model"}, {"type": "mentions", "word": "zebra"}]
    Path("made.json").write_text(json.dumps([generated(1, criteria_specs=specs)]))
    args = ["--generated", "made.json", "--tasks", "P_1", "--json", "R.json"]
    status, out, _ = in_process("--agent", agent("writes"), *args)
    assert status == 1 and "mentions(zebra): 0 times zebra" in out
    (task,) = json.loads(Path("R.json").read_text())["tasks"]
    assert [(row["name"], row["passed"]) for row in task["criteria"]] == [("mentions(model)", True), ("mentions(zebra)", False)]
