"""Measure what the project promises about speed and about verdicts, as ratios within one run.

    python tests/bench.py              everything (one to three minutes)
    python tests/bench.py criteria     one part: criteria, start, generate, verdicts

A ratio above its bound is marked. Nothing here is asserted: the machine is the user's.
"""

import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import eval_suite  # noqa: E402

ROWS = []


def row(what, measured, bound=None, unit=""):
    """Keep one row of the table; `bound` is the most that it may be."""
    mark = "" if bound is None else "ok" if measured <= bound else "ABOVE"
    ROWS.append((what, f"{measured:.3g}{unit}", "" if bound is None else f"{bound:g}{unit}", mark))
    print(f"{what}: {measured:.3g}{unit} {mark}", file=sys.stderr, flush=True)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def process_ratio(words, other, rounds=25):
    """Return the processor time of one command / that of another: medians of rounds in turn, so that the machine's drift hits both."""

    def spent(command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], cwd=HERE.parent, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(spent(words), spent(other)) for _ in range(rounds)]
    return statistics.median(first for first, _ in pairs) / statistics.median(second for _, second in pairs)


def report(size=8192):
    """Return a report of about `size` characters as models write them: prose, lists, a table, code."""
    prose = (
        "The choice between managed and self-hosted stores comes down to who carries the pager. Teams that measured both see "
        "recall differ by less than two points, while the work differs by an order of magnitude once the index exceeds memory. "
    )
    part = (
        "## {n}. Option {n}: what it does\n\n"
        + prose * 3
        + "\n\n- **Recall**: 0.9 at ten neighbours, see [the benchmark](https://example.com/{n})\n"
        "- **Cost**: about $4 per million queries\n\n| metric | value |\n|---|---|\n| p99 | 12 ms |\n\n```bash\nhelm install store --set replicas={n}\n```\n\n"
    )
    text, n = "# Vector stores compared\n\n", 1
    while len(text) < size:
        text, n = text + part.format(n=n), n + 1
    return text[:size]


def criteria():
    checks = [eval_suite.exact_sections(5), eval_suite.min_bytes(800), eval_suite.min_lines(15)]
    checks += [eval_suite.no_placeholders(), eval_suite.has_impl_notes(), eval_suite.no_file_path_refs()]
    reports = [f"{report()}\n\nRun {n}.\n" for n in range(500)]
    for check in checks:
        check(reports[0])  # compiles the patterns

    def judge(texts):
        for text in texts:
            for check in checks:
                check(text)

    once = statistics.median(seconds(lambda t=text: judge([t])) for text in reports)
    row("six criteria on an 8 KB report", once * 1000, 1.0, " ms")
    parsing = statistics.median(seconds(lambda t=text: eval_suite.parse_report(t + " ")) for text in reports)
    row("six criteria / parsing the report once", once / parsing, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row("10,000 reports", seconds(lambda: [judge([f"{report()}\n\nRun {n}.\n"]) for n in range(10_000)]), 10, " s")
    row("memory that they added", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 10, " MB")


def start():
    ratio = process_ratio(("eval_suite.py", "--help"), ("-c", "import argparse, json, re"))
    row("eval_suite.py --help / importing argparse, json, re", ratio, 2)
    ratio = process_ratio(("tinytroupe_tasks.py", "--backend", "builtin", "--dry-run"), ("-c", "import ollama"))
    row("builtin dry run / importing ollama", ratio, 1)


def timed_generation(url, *words):
    with tempfile.TemporaryDirectory() as folder:
        program = "import resource, sys, time; sys.path.insert(0, sys.argv[1]); import tinytroupe_tasks as t; s = time.perf_counter()\n"
        program += "t.main(sys.argv[2:]); print(time.perf_counter() - s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        command = [sys.executable, "-c", program, str(HERE.parent), "--backend", "ollama", "--host", url, *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return map(float, done.stdout.split())


# Tasks from a model that never repeats itself: four made-up words that no other answer has.
SERVER = """
import sys; sys.path.insert(0, sys.argv[1])
from ollama_server import OllamaServer
def answer(body, n):
    letters = "bcdfghjklmnpqrstvwxz"
    word = "".join(letters[n // 20**k % 20] + "aeiou"[(n + k) % 5] for k in range(4))
    return f"TASK: Research the top 5 {word}ol {word}ur {word}an {word}et habits and save to eval-{word}.md"
server = OllamaServer(answers=answer, delay=float(sys.argv[2]), slots=int(sys.argv[3]))
print(server.url, flush=True); sys.stdin.read()
"""


def serve(delay=0.0, slots=64):
    """Start the scripted server in a process of its own, so that it does not share the generator's processor time."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(HERE), str(delay), str(slots)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return server, server.stdout.readline().strip()


def generate():
    delay, slots, count = 0.25, 4, 5
    server, url = serve(delay, slots)
    idle, _ = timed_generation(url, "--only", "P_pm", "--timeout", "30")
    took, _ = timed_generation(url, "--count", str(count), "--jobs", str(slots), "--timeout", "30")
    server.kill()
    least = 8 * count * delay / slots
    row("40 tasks, delay d, 4 slots: (seconds - start-up) / (N d / P)", (took - (idle - delay)) / least, 1.25)
    times = {}
    for each in (500, 1000):
        server, url = serve()
        times[each], memory = timed_generation(url, "--count", str(each))
        server.kill()
        row(f"{each * 8} tasks with instant answers", times[each], 20 if each == 1000 else None, " s")
    row("peak memory for 8000 tasks", memory, 200, " MB")
    row("seconds for 8000 tasks / for 4000", times[1000] / times[500], 2.5)


def simulated_pair(size, gain, chance):
    """Return two runs of 5 fixed and size - 5 generated tasks of eight personas.

    Each task's rate is drawn, and rises by `gain`; each of its six criteria passes at that rate.
    """
    runs = [], []
    for number in range(size):
        fixed = number < 5
        id = f"T_{number}" if fixed else f"P{(number - 5) % 8}_{(number - 5) // 8 + 1}"
        rate = chance.uniform(0, 1 - gain)
        for run, passing in zip(runs, (rate, rate + gain), strict=True):
            score = sum(chance.random() < passing for _ in range(6)) / 6
            status = "passed" if score == 1 else "failed"
            run.append({"id": id, "group": "fixed" if fixed else "generated", "fingerprint": "", "score": score, "status": status})
    return {"tasks": runs[0]}, {"tasks": runs[1]}


def verdicts(pairs=2000):
    table = Table("true gain", "tasks", *eval_suite.EXIT_STATUS, "score rose", title=f"verdicts on {pairs} simulated pairs of runs")
    for gain in (0.0, 0.2):
        for size in (5, 13, 45, 90):
            chance, counts, rose = random.Random(f"{gain}|{size}"), Counter(), 0
            for _ in range(pairs):
                old, new = simulated_pair(size, gain, chance)
                counts[eval_suite.compare_runs(old, new)["verdict"]] += 1
                # In sixths, for sums of fractions differ in their last digit where the scores do not.
                rose += sum(round(6 * r["score"]) for r in new["tasks"]) > sum(round(6 * r["score"]) for r in old["tasks"])
            table.add_row(str(gain), str(size), *(f"{counts[v] / pairs:.1%}" for v in eval_suite.EXIT_STATUS), f"{rose / pairs:.1%}")
            if gain == 0:
                row(f"false KEEP, {size} tasks", 100 * counts["KEEP"] / pairs, 5, " %")
                row(f"not CAN'T TELL, {size} tasks of one unchanged agent", 100 - 100 * counts["CAN'T TELL"] / pairs, 5, " %")
    Console(width=120).print(table)


if __name__ == "__main__":
    parts = {"criteria": criteria, "start": start, "generate": generate, "verdicts": verdicts}
    for name in sys.argv[1:] or parts:
        parts[name]()
    table = Table("what", "measured", "bound", "")
    for cells in ROWS:
        table.add_row(*cells)
    Console(width=120).print(table)
