"""The audit, repeated runs, the comparison of two runs, and the split: what a user sees and what it means."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_suite
import tinytroupe_tasks

SCRIPT = Path(eval_suite.__file__)


def run(folder, *words):
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done


def generated(folder, count=1, change=None):
    """Write a generated suite from the bank, with the first task changed."""
    tasks = tinytroupe_tasks.generate(count=count, backend="builtin")
    tasks[0] |= change or {}
    (folder / "generated_tasks.json").write_text(json.dumps(tasks))
    return tasks


def result(id, score=1.0, status=None, group=None, **more):
    group = group or ("fixed" if id.startswith("T_") else "generated")
    status = status or ("passed" if score == 1 else "failed")
    return {"id": id, "group": group, "fingerprint": "f", "score": score, "status": status} | more


def results_file(path, results, **more):
    path.write_text(json.dumps({"score": 0, "tasks": results} | more))
    return path


# ---------------------------------------------------------------- audit


def test_the_fixed_tasks_and_the_bank_pass_the_audit(tmp_path):
    generated(tmp_path, 5)
    done = run(tmp_path, "--generated", "--audit", "--json", "a.json")
    assert done.returncode == 0, done.stdout
    assert "45 tasks: 45 sound, 0 flagged, 0 criteria unproved" in done.stdout
    rows = json.loads((tmp_path / "a.json").read_text())["audit"]
    assert {criterion["proof"] for row in rows for criterion in row["criteria"]} == {"proved"}


def specs(*first):
    return [*first, *eval_suite.QUALITY_SPECS]


TOP_FIVE = "Search for the top 5 kanban tools and save to ~/Desktop/harness-engineering/eval-kanban.md"
FAULTS = [
    # what is planted in the first generated task, what the audit says of it
    ({"task": TOP_FIVE, "criteria_specs": specs({"type": "exact_sections", "n": 3})}, "the text asks for 5, the criteria for exactly 3"),
    (
        {"task": TOP_FIVE, "criteria_specs": specs({"type": "min_sections", "n": 3})},
        "the text asks for 5, the criteria for no exact number",
    ),
    (
        {"task": TOP_FIVE.replace("the top 5", "good"), "criteria_specs": specs({"type": "exact_sections", "n": 4})},
        "asks for no exact number, the criteria for exactly 4",
    ),
    ({"criteria_specs": specs({"type": "min_bytes", "n": 10**9})}, "no witness: the criteria ask for more than 1,000,000 bytes"),
    (
        {"criteria_specs": specs({"type": "exact_sections", "n": 3}, {"type": "min_sections", "n": 5})},
        "no witness passes all criteria; it misses exact_sections(3)",
    ),
    ({"criteria_specs": specs({"type": "min_sections", "n": 3}, {"type": "min_sections", "n": 3})}, "fails only together with"),
    ({"criteria_specs": [{"type": "min_bytes", "n": 5}]}, "passes all criteria"),
    ({"task": eval_suite.SUITE[0]["task"].replace("context-engineering.md", "x.md")}, "too close to T_A (1.00)"),
]


@pytest.mark.parametrize(("change", "words"), FAULTS)
def test_a_planted_fault_is_flagged(tmp_path, change, words):
    first = generated(tmp_path, change=change)[0]
    done = run(tmp_path, "--generated", "--audit", "--json", "a.json")
    assert done.returncode == 1
    rows = {row["id"]: row["flags"] for row in json.loads((tmp_path / "a.json").read_text())["audit"]}
    assert any(words in flag for flag in rows[first["id"]]), rows[first["id"]]
    assert [id for id, flags in rows.items() if flags] == [first["id"]]


def always_passes():
    check = lambda content: (True, "fine")  # noqa: E731
    check.__name__ = "always_passes"
    return check


def mentions(word):
    def check(content):
        return word in content, f"{word!r} {'found' if word in content else 'not found'}"

    check.__name__ = f"mentions({word})"
    return check


def raises():
    check = lambda content: (1 / 0, "never")  # noqa: E731
    check.__name__ = "raises"
    return check


OWN = [
    # a user's criterion, how to build for it (or not), what the audit says
    (always_passes, {}, None, "always_passes is unproved and passes every null agent"),
    (always_passes, {}, (lambda plan: {}, lambda plan: {"example": False}), "checks nothing: its mutant passes"),
    (mentions, {"word": "kiwi"}, (lambda plan, word: {"tail": (word,)}, lambda plan, word: {"tail": ()}), None),
    (mentions, {"word": "cache"}, None, None),
    (raises, {}, (lambda plan: {}, lambda plan: {"example": False}), "it misses raises (raised ZeroDivisionError: division by zero)"),
]


@pytest.mark.parametrize(("factory", "arguments", "witness", "words"), OWN)
def test_a_criterion_of_the_users_own_is_proved_too(monkeypatch, factory, arguments, witness, words):
    monkeypatch.setitem(eval_suite.CRITERIA, "own", factory)
    if witness:
        monkeypatch.setitem(eval_suite.WITNESSES, "own", witness)
    task = eval_suite.SUITE[1]
    own = specs({"type": "min_sections", "n": 3}, {"type": "own", **arguments})
    row = eval_suite.audit_task(task | {"criteria_specs": own, "criteria": eval_suite.criteria_from_specs(own)})
    assert any(words in flag for flag in row["flags"]) if words else not row["flags"]
    if factory is not raises:
        assert row["criteria"][1]["proof"] == "unproved" if not witness else row["criteria"][1]["proof"] != "unproved"


@pytest.mark.parametrize("sections", eval_suite.EXACT_COUNTS)
def test_the_criterion_of_the_readme_leaves_every_task_sound(tmp_path, sections):
    readme = (SCRIPT.parent / "README.md").read_text()
    snippet = next(code for code in re.findall(r"(?s)```python\n(.*?)```", readme) if "WITNESSES" in code)
    (tmp_path / "mine.py").write_text(snippet)
    more = [{"type": "mentions", "word": word} for word in ("latency", "cost")]
    task = TOP_FIVE.replace("5", str(sections))
    size = [{"type": "min_bytes", "n": 600}, {"type": "min_lines", "n": 10}]
    generated(tmp_path, change={"task": task, "criteria_specs": specs({"type": "exact_sections", "n": sections}, *size) + more})
    command = [sys.executable, "mine.py", "--generated", "--tasks", "P_devops_1", "--audit"]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_generator_writes_no_file_whose_criteria_cannot_be_met(tmp_path):
    tasks = generated(tmp_path, change={"criteria_specs": specs({"type": "min_bytes", "n": 10**9})})
    with pytest.raises(eval_suite.SuiteError, match="P_devops_1: no witness"):
        tinytroupe_tasks.save(tasks, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


@given(st.integers(1, 40), st.integers(1, 3000), st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_sections_bytes_and_lines_that_agree_are_proved(sections, size, lines):
    # Below these a report with so many sections can't be, so that a mutant fails one criterion alone.
    asked = specs(
        {"type": "exact_sections", "n": sections},
        {"type": "min_bytes", "n": size + 300 + 30 * sections},
        {"type": "min_lines", "n": lines + 4 + sections},
    )
    witness, rows, flags = eval_suite.prove(asked)
    assert witness
    assert not flags
    assert {row["proof"] for row in rows} == {"proved"}


# ---------------------------------------------------------------- repeats


def test_repeated_runs_are_all_kept_and_the_mean_counts(tmp_path):
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import pathlib, sys\n"
        "count = pathlib.Path('count'); n = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(n + 1))\n"
        "good = '# R\\n\\n' + ''.join(f'## S{k}\\n\\nText, e.g. this.\\n\\n' for k in range(3)) + 'x' * 900 + '\\n' * 9 + 'end'\n"
        "pathlib.Path(sys.argv[1]).write_text(good if n % 2 == 0 else 'bad')\n"
    )
    done = run(
        tmp_path,
        "--agent",
        f"{sys.executable} {agent} {{output}}",
        "--tasks",
        "T_B",
        "--repeat",
        3,
        "--base",
        tmp_path / "o",
        "--json",
        "r.json",
    )
    assert done.returncode == 1
    assert "passed all 3 times: 0.000, spread 0." in done.stdout
    (task,) = json.loads((tmp_path / "r.json").read_text())["tasks"]
    assert [r["status"] for r in task["runs"]] == ["passed", "failed", "passed"]
    assert task["status"] == "failed"
    assert task["score"] == pytest.approx((2 + task["runs"][1]["score"]) / 3)


# ---------------------------------------------------------------- compare


def personas(scores, each=1):
    return [result(f"P_{name}_{turn}", score) for name in "abcdefgh" for turn in range(1, each + 1) for score in [scores(name, turn)]]


FIXED = [result(f"T_{letter}", 0.5) for letter in "ABCDE"]
LOW, HIGH = personas(lambda name, turn: 0.4), personas(lambda name, turn: 0.7 + ord(name) % 3 / 20)
VERDICTS = [
    # what it shows, the old results, the new ones, further words, the verdict, the exit status, words of the output
    ("no change", FIXED + LOW, FIXED + LOW, [], "CAN'T TELL", 3, "the smallest gain"),
    ("a gain", FIXED + LOW, FIXED + HIGH, [], "KEEP", 0, "carries over"),
    ("a gain below the margin", FIXED + LOW, FIXED + HIGH, ["--margin", "0.6"], "CAN'T TELL", 3, "does not lie above the margin of 0.6"),
    ("a loss", FIXED + HIGH, FIXED + LOW, [], "REVERT", 1, "the generated tasks lost"),
    (
        "only the fixed tasks gain",
        FIXED + LOW,
        [result(r["id"], 0.9 + k / 50) for k, r in enumerate(FIXED)] + LOW,
        [],
        "OVERFIT",
        1,
        "the generated ones did not",
    ),
    (
        "a gain, but a fixed task fell",
        [result("T_A"), *FIXED[1:], *LOW],
        [result("T_A", 0.8), *FIXED[1:], *HIGH],
        [],
        "CAN'T TELL",
        3,
        "passed before, not now: T_A",
    ),
    ("all fixed tasks fell", [result(r["id"]) for r in FIXED] + LOW, FIXED + LOW, [], "REVERT", 1, "fixed tasks broke: T_A, T_B"),
    (
        "a gain with many errors",
        FIXED + LOW,
        FIXED + HIGH[:-2] + [result(r["id"], 0.0, "error") for r in HIGH[-2:]],
        [],
        "CAN'T TELL",
        3,
        "errors: 0 old, 2 new",
    ),
    ("no generated tasks", FIXED, [result(r["id"], 1.0) for r in FIXED], [], "CAN'T TELL", 3, "no generated tasks"),
    ("one persona", LOW[:1], HIGH[:1], [], "CAN'T TELL", 3, "unbounded"),
    (
        "tasks left out",
        FIXED + LOW,
        FIXED + LOW[1:] + [result("P_z_1")],
        [],
        "CAN'T TELL",
        3,
        "not the same task in both files: P_a_1, P_z_1",
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "words", "verdict", "status", "said"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS]
)
def test_a_comparison_ends_in_one_verdict(tmp_path, old, new, words, verdict, status, said):
    files = results_file(tmp_path / "old.json", old), results_file(tmp_path / "new.json", new)
    done = run(tmp_path, "--compare", *files, *words, "--json", "c.json", "--html", "c.html")
    output = " ".join(done.stdout.split())
    assert done.returncode == status, output
    assert f"{verdict}: " in output
    assert said in output
    assert json.loads((tmp_path / "c.json").read_text())["verdict"] == verdict
    html = (tmp_path / "c.html").read_text()
    assert html.count("<line class=") == len({r["id"] for r in old} & {r["id"] for r in new})
    assert "</html>" in html or html.startswith("<!doctype html>")


REFUSED = [
    (results := [result("T_A")], [result("T_B")], {}, {}, "have no task in common"),
    (results, [result("T_A") | {"fingerprint": "g"}], {}, {}, "have no task in common"),
    (results, results, {"split": {"fingerprint": "1"}}, {"split": {"fingerprint": "2"}}, "of different splits"),
    (results, results, {}, {"split": {"fingerprint": "2"}}, "of different splits"),
    (results, [], {}, {}, "new.json: holds no results"),
    (results, [{"id": "T_A"}], {}, {}, "new.json: task 1: group is missing"),
    (results, [result("T_A", 7)], {}, {}, "new.json: task 1: score can't be 7"),
    (results, [result("T_A", float("nan"))], {}, {}, "new.json: task 1: score can't be nan"),
    (results, [result("T_A", group="mine")], {}, {}, "new.json: task 1: group can't be 'mine'"),
]


@pytest.mark.parametrize(("old", "new", "more_old", "more_new", "words"), REFUSED)
def test_runs_that_do_not_belong_together_are_refused(tmp_path, old, new, more_old, more_new, words):
    files = results_file(tmp_path / "old.json", old, **more_old), results_file(tmp_path / "new.json", new, **more_new)
    done = run(tmp_path, "--compare", *files)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_interval_is_clustered_by_persona():
    # Two personas of ten tasks each that moved together are two observations, not twenty.
    pairs = [(name, 0.0, gain) for name, gain in (("a", 0.1), ("b", 0.3)) for _ in range(10)]
    got = eval_suite.paired_difference(pairs)
    assert got["clusters"] == 2
    assert got["difference"] == pytest.approx(0.2)
    # By hand: cluster sums of deviations are -1 and 1, so the error is sqrt(2) / 20 * sqrt(2 / 1).
    assert got["error"] == pytest.approx(0.1)
    assert got["high"] == pytest.approx(0.2 + 12.706 * 0.1)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_the_exact_sign_flip_test_counts_every_combination(sums):
    p = eval_suite.sign_flip_test([s / 6 for s in sums])
    count = sum(abs(sum(s if bits >> k & 1 else -s for k, s in enumerate(sums))) >= abs(sum(sums)) for bits in range(2 ** len(sums)))
    assert p == pytest.approx(count / 2 ** len(sums))


def test_the_sampled_sign_flip_test_is_near_the_exact_one_and_repeats(monkeypatch):
    sums = [0.3, -0.1, 0.4, 0.2, 0.1, 0.5, -0.2, 0.3, 0.1, 0.2]
    exact = eval_suite.sign_flip_test(sums)
    monkeypatch.setattr(eval_suite, "EXACT_CLUSTERS", 5)
    assert eval_suite.sign_flip_test(sums) == pytest.approx(exact, abs=0.01)
    assert eval_suite.sign_flip_test(sums) == eval_suite.sign_flip_test(sums)


# ---------------------------------------------------------------- split


def test_a_split_holds_out_whole_personas_and_is_recorded(tmp_path):
    generated(tmp_path, 2)
    parts = {}
    for part in ("tune", "holdout"):
        words = (
            "--generated",
            "--fast",
            "--split",
            part,
            "--holdout",
            2,
            "--split-seed",
            "s",
            "--base",
            tmp_path,
            "--json",
            f"{part}.json",
        )
        assert run(tmp_path, *words).returncode == 1
        parts[part] = json.loads((tmp_path / f"{part}.json").read_text())
    ids = {part: {r["id"] for r in data["tasks"] if r["group"] == "generated"} for part, data in parts.items()}
    assert (len(ids["tune"]), len(ids["holdout"])) == (12, 4)
    assert not {id.rpartition("_")[0] for id in ids["tune"]} & {id.rpartition("_")[0] for id in ids["holdout"]}
    assert parts["tune"]["split"]["fingerprint"] != parts["holdout"]["split"]["fingerprint"]
    assert run(tmp_path, "--compare", "tune.json", "holdout.json").returncode == 2
    assert run(tmp_path, "--compare", "tune.json", "tune.json").returncode == 3


USAGE = [
    (["--split", "tune", "--fast"], "add --generated"),
    (["--split", "tune", "--generated", "--holdout", "8", "--fast"], "leaves none to tune on"),
    (["--audit", "--fast"], "two different jobs"),
    (["--fast", "--repeat", "2"], "--repeat needs an agent"),
    (["--compare", "missing.json", "missing.json"], "missing.json: no such file"),
    (["--compare", "a", "b", "--margin", "-1"], "--margin must be"),
    (["--audit", "--junit", "x.xml"], "--audit goes with --json only"),
    (["--fast", "--generated", "--json", "generated_tasks.json"], "--json: 'generated_tasks.json' is a file that this run reads or writes"),
    (["--fast", "--json", "x", "--html", "./x"], "--html: './x' is a file that this run reads or writes"),
    (["--compare", "a.json", "b.json", "--json", "a.json"], "--json: 'a.json' is a file that this run reads or writes"),
    (["--agent", "./generated_tasks.json {task}"], "'./generated_tasks.json' is no program that can be run"),
]


@pytest.mark.parametrize(("words", "said"), USAGE)
def test_wrong_usage_is_one_clear_line(tmp_path, words, said):
    generated(tmp_path)
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert said in done.stderr


# ---------------------------------------------------------------- the README's loop


def test_the_tuning_loop_keeps_an_agent_that_got_better(tmp_path):
    generated(tmp_path, 5)
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import pathlib, re, sys\n"
        "numbers = dict(zip('three four five six seven'.split(), range(3, 8)))\n"
        "asked = re.search(r'\\b(?:[3-7]|' + '|'.join(numbers) + r')\\b', sys.argv[1])\n"
        "n = 3 if not asked else numbers.get(asked[0]) or int(asked[0])\n"
        "good = '# R\\n\\n' + ''.join(f'## S{k}\\n\\nText, e.g. this.\\n\\n' for k in range(n)) + 'x' * 900 + '\\n' * 9 + 'end'\n"
        "pathlib.Path(sys.argv[2]).write_text(good if pathlib.Path('better').exists() else 'Saved as eval-x.md. TODO: all')\n"
    )
    judge = ("--generated", "--split", "holdout", "--agent", f"{sys.executable} {agent} {{task}} {{output}}", "--jobs", 2)
    run(tmp_path, *judge, "--json", "old.json", "--base", tmp_path / "o")
    (tmp_path / "better").touch()
    done = run(tmp_path, *judge, "--json", "new.json", "--base", tmp_path / "o")
    assert "25 tasks: 25 passed" in done.stdout, done.stdout
    done = run(tmp_path, "--compare", "old.json", "new.json")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("KEEP: ")


def test_an_error_in_some_of_the_runs_is_told_with_its_log(tmp_path):
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import pathlib, sys\n"
        "count = pathlib.Path('count'); n = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(n + 1)); print('run', n)\n"
        "sys.exit(3) if n == 1 else pathlib.Path(sys.argv[1]).write_text('x')\n"
    )
    words = ("--agent", f"{sys.executable} {agent} {{output}}", "--tasks", "T_A", "--repeat", 3, "--base", tmp_path / "o")
    done = run(tmp_path, *words, "--log-dir", "logs", "--json", "r.json", "--junit", "r.xml")
    (task,) = json.loads((tmp_path / "r.json").read_text())["tasks"]
    assert (task["status"], task["errors"]) == ("failed", 1)
    assert task["error"].startswith("in 1 of 3 runs: exit status 3, stale")
    assert "in 1 of 3 runs" in done.stdout
    assert "in 1 of 3 runs" in (tmp_path / "r.xml").read_text()
    assert [(tmp_path / "logs" / f"T_A.{n}.log").read_text() for n in (1, 2, 3)] == ["run 0\n", "run 1\n", "run 2\n"]
