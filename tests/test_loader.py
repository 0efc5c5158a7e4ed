"""load_generated_suite and the command line's --generated: a file that nobody vouches for."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_suite import BASE, CRITERIA, SUITE, SuiteError, criteria_from_specs, fixed_suite, load_generated_suite

SCRIPT = Path(__file__).parent.parent / "eval_suite.py"
ABSENT = object()  # the value of a key that a case takes out


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """A home of the tests' own: BASE lies below it."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        yield folder


def task(number=1, **changes):
    """A task as tinytroupe_tasks.py writes it, with some keys changed or taken out."""
    made = {
        "id": f"P_devops_{number}",
        "desc": "generated: Senior DevOps Engineer",
        "task": f"Search for the top 5 cost strategies and save to {BASE}/eval-k8s-{number}.md",
        "output": f"{BASE}/eval-k8s-{number}.md",
        "criteria_specs": [
            {"type": "exact_sections", "n": 5},
            {"type": "min_bytes", "n": 600},
            {"type": "min_lines", "n": 10},
            {"type": "no_placeholders"},
            {"type": "has_impl_notes"},
            {"type": "no_file_path_refs"},
        ],
        "persona": "Jordan",
        "raw_response": "TASK: Search for the top 5 ...",
    }
    return {key: value for key, value in (made | changes).items() if value is not ABSENT}


def specs(*wrong):
    return {"criteria_specs": [{"type": "no_placeholders"}, *wrong]}


def written(folder, data, name="made.json"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def faults_of(path, **options):
    with pytest.raises(SuiteError) as caught:
        load_generated_suite(path, **options)
    assert str(caught.value) == "\n".join(caught.value.faults)
    assert not [fault for fault in caught.value.faults if "\n" in fault], "a fault is a line"
    return caught.value.faults


# ----------------------------------------------------------------------------------------------
# What is good
# ----------------------------------------------------------------------------------------------


def test_a_good_file_becomes_tasks_in_the_form_of_the_suite(tmp_path):
    first, second = load_generated_suite(written(tmp_path, [task(1), task(2)]))
    assert set(SUITE[0]) <= set(first)
    assert first["group"] == "generated"
    assert {key: first[key] for key in task()} == task(1)
    assert second["id"] == "P_devops_2"
    names = [check.__name__ for check in first["criteria"]]
    assert names[:3] == ["exact_sections(5)", "min_bytes(600)", "min_lines(10)"]
    assert [name.partition("(")[0] for name in names[3:]] == ["no_placeholders", "has_impl_notes", "no_file_path_refs"]
    assert first["criteria"][1]("x" * 600)[0] and not first["criteria"][1]("x" * 599)[0]


GOOD = {
    "an empty desc": [task(desc="")],
    "an empty raw answer": [task(raw_response="")],
    "a raw answer with a NUL": [task(raw_response="a\0b")],
    "a task text that is no English": [task(task="Suche die 5 besten „Strategien“ 🚀 und speichere sie\n\tdort")],
    "a task text with a leading dash": [task(task="--help")],
    "the least n": [task(criteria_specs=[{"type": "min_lines", "n": 1}])],
    "a huge n": [task(criteria_specs=[{"type": "min_bytes", "n": 10**30}])],
    "one criterion twice": [task(criteria_specs=[{"type": "has_impl_notes"}] * 2)],
    "an id of another persona": [task(id="P_größe-2.b")],
    "a folder below the base": [task(output=f"{BASE}/deep/er/x.md")],
    "a folder left and entered again": [task(output=f"{BASE}/a/../../harness-engineering/x.md")],
    "names that share a beginning": [task(1), task(2, output=f"{BASE}/eval-k8s-1.md.md"), task(3)],
    "a name that begins with dots": [task(output=f"{BASE}/..x.md")],
    "a fixed file's name in a folder of its own": [task(output=f"{BASE}/mine/eval-cost-management.md")],
}


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_what_is_odd_but_right_loads(tmp_path, data):
    assert len(load_generated_suite(written(tmp_path, data))) == len(data)


def test_unknown_further_keys_are_kept_in_their_order(tmp_path):
    further = {"backend": "ollama", "model": None, "seed": 0, "zz": {"a": [1, {"b": 2.5}]}, "ключ": True, "": []}
    (loaded,) = load_generated_suite(written(tmp_path, [task(**further)]))
    assert {key: loaded[key] for key in further} == further
    assert [key for key in loaded if key in further] == list(further)


def test_a_file_can_not_pass_its_tasks_off_as_fixed(tmp_path):
    (loaded,) = load_generated_suite(written(tmp_path, [task(group="fixed", criteria=[])]))
    assert loaded["group"] == "generated"
    assert len(loaded["criteria"]) == 6


ENCODINGS = {
    "with a BOM": lambda text: b"\xef\xbb\xbf" + text,
    "with CRLF": lambda text: text.replace(b"\n", b"\r\n"),
    "with space around": lambda text: b"\n\t " + text + b" \n\n",
    "with raw UTF-8": lambda text: text.replace(b"Jordan", "Jördan 🚀".encode()),
}


@pytest.mark.parametrize("change", ENCODINGS.values(), ids=ENCODINGS)
def test_every_spelling_of_the_file_loads(tmp_path, change):
    text = json.dumps([task()], indent=2).encode()
    assert load_generated_suite(written(tmp_path, change(text)))[0]["id"] == "P_devops_1"


def test_the_default_is_the_file_that_the_generator_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, [task()], "generated_tasks.json")
    assert load_generated_suite()[0]["id"] == "P_devops_1"


# ----------------------------------------------------------------------------------------------
# What is not
# ----------------------------------------------------------------------------------------------

# What the file holds -> a pattern for each fault, in order. A fault of a task names task and key.
FAULTY = {
    # The file
    "nothing": (b"", [""]),
    "no JSON": (b"{'id': 1}", ["JSON"]),
    "cut short": (json.dumps([task()])[:-5].encode(), ["JSON"]),
    "two values": (b"[] []", ["JSON"]),
    "not UTF-8": (b'[{"id": "\xff"}]', ["UTF-8"]),
    "UTF-16": (json.dumps([task()]).encode("utf-16"), ["UTF-8"]),
    "an object": ({"tasks": [task()]}, ["array"]),
    "a string": ("tasks", ["array"]),
    "null": (None, ["array"]),
    "no tasks": ([], ["no tasks"]),
    "nested without end": (b"[" * 200_000, ["nested|JSON"]),
    "objects nested without end": (b'{"a":' * 200_000, ["nested|JSON"]),
    "a number without end": (b"[" + b"9" * 20_000 + b"]", ["JSON"]),
    "a key twice": (json.dumps([task()]).replace('"desc"', '"id"').encode(), ["'id'.*twice"]),
    "a key twice in a criterion": (json.dumps([task()]).replace('"n": 5', '"n": 5, "n": 4').encode(), ["'n'.*twice"]),
    # The task and its keys
    "a task that is a string": (["x"], ["task 1.*object"]),
    "a task that is null": ([task(1), None], ["task 2.*object"]),
    "a task that is an array": ([[task()]], ["task 1.*object"]),
    "an empty object": ([{}], [f"task 1.*{key}" for key in task() if key != "criteria_specs"] + ["criteria_specs"]),
    **{f"no {key}": ([task(**{key: ABSENT})], [f"task 1.*{key}.*missing"]) for key in task()},
    **{f"{key} is null": ([task(**{key: None})], [f"task 1.*{key}"]) for key in task()},
    **{f"{key} is a number": ([task(**{key: 7})], [f"task 1.*{key}"]) for key in task()},
    **{f"{key} is an object": ([task(**{key: {"a": 1}})], [f"task 1.*{key}"]) for key in task()},
    **{f"{key} is a list": ([task(**{key: [["x"]]})], [f"task 1.*{key}"]) for key in task()},
    **{f"{key} is empty": ([task(**{key: ""})], [f"task 1.*{key}"]) for key in ("id", "task", "output", "persona")},
    **{f"{key} is blank": ([task(**{key: "\n "})], [f"task 1.*{key}"]) for key in ("task", "output", "persona")},
    "a NUL in the task": ([task(task="a\0b")], [r"\(P_devops_1\).*: task .*NUL"]),
    "a NUL in the output": ([task(output=f"{BASE}/a\0b.md")], [r"\(P_devops_1\).*: output .*NUL"]),
    "an id that is a path": ([task(id="../x")], ["task 1.*id"]),
    "an id of spaces and quotes": ([task(id="a 'b'")], ["task 1.*id"]),
    "an id with a comma": ([task(id="a,b")], ["task 1.*id"]),
    "an id with a line end": ([task(id="a\n")], ["task 1.*id"]),
    # Criteria
    "no criteria": ([task(criteria_specs=[])], ["P_devops_1.*criteria_specs"]),
    "criteria in an object": ([task(criteria_specs={"type": "min_bytes", "n": 1})], ["P_devops_1.*criteria_specs"]),
    "criteria in a string": ([task(criteria_specs="no_placeholders")], ["P_devops_1.*criteria_specs"]),
    "a criterion that is a string": ([task(**specs("min_bytes"))], [r"P_devops_1.*criteria_specs\[1\]"]),
    "a criterion that is null": ([task(**specs(None))], [r"criteria_specs\[1\]"]),
    "a criterion without type": ([task(**specs({"n": 3}))], [r"criteria_specs\[1\].*type"]),
    "a type that is a number": ([task(**specs({"type": 3}))], [r"criteria_specs\[1\].*type"]),
    "a type that is a list": ([task(**specs({"type": ["min_bytes"]}))], [r"criteria_specs\[1\].*type"]),
    "an unknown type": ([task(**specs({"type": "max_sections", "n": 3}))], [r"criteria_specs\[1\].*'max_sections'"]),
    "a type in capitals": ([task(**specs({"type": "Min_Bytes", "n": 3}))], [r"criteria_specs\[1\].*'Min_Bytes'"]),
    "a name of Python's": ([task(**specs({"type": "__class__"}))], [r"criteria_specs\[1\].*'__class__'"]),
    **{
        f"{kind}: n is {n!r}": ([task(**specs({"type": kind, "n": n}))], [rf"criteria_specs\[1\].*{kind}.*\bn\b"])
        for kind in ("exact_sections", "min_sections", "min_bytes", "min_lines")
        for n in (0, -1, True, False, 2.0, 2.5, "3", None, [3], {}, float("nan"), float("inf"))
    },
    **{
        f"{kind}: n is missing": ([task(**specs({"type": kind}))], [rf"criteria_specs\[1\].*{kind}.*\bn\b"])
        for kind in ("exact_sections", "min_sections", "min_bytes", "min_lines")
    },
    "an argument that the type does not have": (
        [task(**specs({"type": "has_impl_notes", "n": 3}, {"type": "min_bytes", "n": 3, "m": 4}))],
        [r"criteria_specs\[1\].*has_impl_notes.*'n'", r"criteria_specs\[2\].*min_bytes.*'m'"],
    ),
    # Ids
    "one id twice": ([task(1), task(2, id="P_devops_1")], ["task 2.*id.*task 1"]),
    "one id three times": ([task(n, id="P_x") for n in (1, 2, 3)], ["task 2.*id", "task 3.*id"]),
    "one id in two letter cases": ([task(1), task(2, id="p_DEVOPS_1")], ["task 2.*id"]),
    "a fixed id": ([task(id="T_C")], ["task 1.*T_C.*id.*fixed"]),
    "a fixed id in small letters": ([task(id="t_e")], ["task 1.*t_e.*id.*fixed"]),
    # Outputs
    "one output twice": ([task(1), task(2, output=task(1)["output"])], ["task 2.*output.*task 1"]),
    "one output in two letter cases": ([task(1), task(2, output=f"{BASE}/EVAL-k8s-1.MD")], ["task 2.*output"]),
    "one output by way of ..": ([task(1), task(2, output=f"{BASE}/a/..//./eval-k8s-1.md")], ["task 2.*output"]),
    "a fixed output": ([task(output=SUITE[1]["output"])], ["task 1.*output.*T_B"]),
    "a fixed output in capitals": ([task(output=SUITE[1]["output"].replace("eval", "EVAL"))], ["output.*T_B"]),
    "an output in another folder": ([task(output="/tmp/x.md")], ["P_devops_1.*output.*/tmp/x.md"]),
    "an output at home": ([task(output="~/x.md")], ["output"]),
    "an output of somebody else": ([task(output="~nobody/Desktop/harness-engineering/x.md")], ["output"]),
    "an output in no folder": ([task(output="x.md")], ["output"]),
    "an output that leaves by ..": ([task(output=f"{BASE}/../x.md")], ["output"]),
    "an output that leaves by .. at once": ([task(output=f"{BASE}/a/../../../.bashrc")], ["output"]),
    "the base itself": ([task(output=BASE)], ["output"]),
    "the base itself by way of ..": ([task(output=f"{BASE}/a/..")], ["output"]),
    "a folder whose name begins alike": ([task(output=f"{BASE}-2/x.md")], ["output"]),
    "half a surrogate pair in the output": ([task(output=f"{BASE}/\ud800.md")], ["output"]),
}


@pytest.mark.parametrize(("data", "patterns"), FAULTY.values(), ids=FAULTY)
def test_each_fault_is_named_with_file_task_and_key(tmp_path, data, patterns):
    path = written(tmp_path, data)
    faults = faults_of(path)
    assert len(faults) == len(patterns), faults
    for fault in faults:
        assert fault.startswith(f"{path}: ")
    for pattern in patterns:  # in any order
        assert any(re.search(pattern, fault.removeprefix(f"{path}: ")) for fault in faults), (pattern, faults)


def test_faults_of_many_tasks_are_all_told_at_once(tmp_path):
    """Every fault of a task in the table, in one file with good tasks between: no fault hides another."""
    mixed, expected = [], []
    for number, (name, (data, patterns)) in enumerate(FAULTY.items()):
        one = data[0] if isinstance(data, list) and len(data) == 1 else None
        if not isinstance(one, dict) or len(patterns) != 1 or "fixed" in name or "surrogate" in name:
            continue
        one = copy.deepcopy(one)
        # A number of its own for what would otherwise be a repeated id or output.
        if one.get("id") == "P_devops_1":
            one["id"] = f"P_{number}"
        if one.get("output") == task()["output"]:
            one["output"] = f"{BASE}/{number}.md"
        mixed += [task(1000 + number), one]
        expected.append((len(mixed), re.sub(r"P_devops_1|^task 1|\\\(|\\\)", "", patterns[0])))
    assert len(expected) > 100
    path = written(tmp_path, mixed)
    faults = faults_of(path)
    told = {number: [f for f in faults if re.match(rf"{re.escape(str(path))}: task {number}\b", f)] for number, _ in expected}
    assert sum(map(len, told.values())) == len(faults), "a good task was blamed"
    for number, pattern in expected:
        assert any(re.search(pattern, fault) for fault in told[number]), (pattern, told[number])


def test_several_faults_of_one_task_are_all_told(tmp_path):
    wrong = task(id="T_A", desc=3, task=ABSENT, output="/x.md", persona="", **specs({"type": "min_bytes"}, {"type": "y"}))
    faults = faults_of(written(tmp_path, [wrong]))
    assert len(faults) == 7
    for key in ("id", "desc", "task", "output", "persona", "criteria_specs[1]", "criteria_specs[2]"):
        assert any(re.search(rf"\(T_A\): {re.escape(key)}\b|\(T_A\): {re.escape(key)}:", fault) for fault in faults), key


UNREADABLE = {
    "no such file": (lambda folder: folder / "none.json", "tinytroupe_tasks.py"),  # the way out: what writes it
    "a folder": (lambda folder: folder, "read"),
    "a link to itself": (lambda folder: (folder / "loop").symlink_to(folder / "loop") or folder / "loop", "read"),
    "a NUL in the name": (lambda folder: f"{folder}/a\0b", ""),
}


@pytest.mark.parametrize(("make", "pattern"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_can_not_be_read_is_a_fault(tmp_path, make, pattern):
    path = make(tmp_path)
    (fault,) = faults_of(path)
    assert str(path) in fault and re.search(pattern, fault)


def test_a_long_value_is_quoted_in_part_only(tmp_path):
    long = "x" * 100_000
    data = [task(id=[long], criteria_specs=[long, {"type": long}]), task(2, criteria_specs={"a": long}), long]
    assert max(map(len, faults_of(written(tmp_path, data)))) < 1000


def test_no_depth_of_nesting_gets_past_the_loader(tmp_path):
    """Shallow enough to be parsed, too deep to be quoted: a band of a few levels, which moves with the caller's depth."""
    limit = sys.getrecursionlimit()
    for depth in [*range(limit - 150, limit + 10), 5 * limit, 50 * limit]:
        deep = "[" * depth + "]" * depth
        for key in ("id", "criteria_specs"):
            text = json.dumps([task(**{key: "DEEP"})]).replace('"DEEP"', deep)
            try:
                load_generated_suite(written(tmp_path, text.encode()))
            except SuiteError:
                pass


# ----------------------------------------------------------------------------------------------
# The base folder
# ----------------------------------------------------------------------------------------------

# --base, and where eval-k8s-1.md is to be (beside the home folder)
BASES = {
    "an absolute one": ("{home}/other", "{home}/other/eval-k8s-1.md"),
    "with a slash at the end": ("{home}/other/", "{home}/other/eval-k8s-1.md"),
    "at home": ("~/other", "~/other/eval-k8s-1.md"),
    "a relative one": ("other", "other/eval-k8s-1.md"),
    "the current folder": (".", "./eval-k8s-1.md"),
    "with .. in it": ("{home}/x/../other", "{home}/x/../other/eval-k8s-1.md"),
    "with a space and a quote": ("{home}/a 'b", "{home}/a 'b/eval-k8s-1.md"),
    "the default one": (BASE, f"{BASE}/eval-k8s-1.md"),
    "the default one with a slash": (BASE + "/", f"{BASE}/eval-k8s-1.md"),
    "the root": ("/", "/eval-k8s-1.md"),
}


@pytest.mark.parametrize(("base", "output"), BASES.values(), ids=BASES)
def test_the_base_is_replaced_everywhere(tmp_path, home, base, output):
    base, output = base.format(home=home), output.format(home=home)
    moved = [*load_generated_suite(written(tmp_path, [task()]), base=base), *fixed_suite(base)]
    assert moved[0]["output"] == output
    for one in moved:
        assert os.path.dirname(os.path.realpath(os.path.expanduser(one["output"]))) == os.path.realpath(os.path.expanduser(base))
        assert one["task"].endswith(f"save to {one['output']}")
        assert base == BASE or base == BASE + "/" or BASE not in one["task"]


def test_a_task_made_for_the_other_base_is_at_home_there_only(tmp_path):
    path = written(tmp_path, [task(output=f"{tmp_path}/reports/x.md")])
    assert load_generated_suite(path, base=f"{tmp_path}/reports")[0]["output"] == f"{tmp_path}/reports/x.md"
    (fault,) = faults_of(path)
    assert "output" in fault and "--base" in fault


def test_what_leaves_the_default_folder_leaves_any_other(tmp_path):
    path = written(tmp_path, [task(output=f"{BASE}/a/../../x.md")])
    (fault,) = faults_of(path, base=f"{tmp_path}/reports")
    assert "output" in fault


def test_moving_brings_no_two_tasks_together_unseen(tmp_path):
    base = f"{tmp_path}/reports"
    data = [task(1, output=f"{BASE}/x.md"), task(2, output=f"{base}/X.md"), task(3, output=f"{base}/eval-context-window.md")]
    faults = faults_of(written(tmp_path, data), base=base)
    assert len(faults) == 2
    assert "task 2" in faults[0] and "task 1" in faults[0] and "T_D" in faults[1]


LINKS = {
    # what is a link in the base folder, where it leads, an output -> is it inside
    "a folder that leads out": ("out", "{outside}", f"{BASE}/out/x.md", False),
    "a folder that leads in": ("in", "{base}/real", f"{BASE}/in/x.md", True),
    "a file that leads out": ("x.md", "{outside}/x.md", f"{BASE}/x.md", False),
    "a file that leads to nothing, in here": ("x.md", "{base}/y.md", f"{BASE}/x.md", True),
    "a way out and back in": ("out", "{outside}", f"{BASE}/out/../x.md", False),
    "a link to the base itself": ("self", "{base}", f"{BASE}/self/self/x.md", True),
}


@pytest.mark.parametrize(("name", "target", "output", "inside"), LINKS.values(), ids=LINKS)
def test_links_are_followed_before_an_output_is_judged(tmp_path, monkeypatch, name, target, output, inside):
    monkeypatch.setenv("HOME", str(tmp_path))
    base = tmp_path / BASE.removeprefix("~/")
    base.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (base / name).symlink_to(target.format(base=base, outside=tmp_path / "outside"))
    path = written(tmp_path, [task(output=output)])
    if inside:
        assert len(load_generated_suite(path)) == 1
    else:
        assert "output" in faults_of(path)[0]


def test_two_names_of_one_file_are_one_output(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    base = tmp_path / BASE.removeprefix("~/")
    base.mkdir(parents=True)
    (base / "self").symlink_to(base)
    data = [task(1), task(2, output=f"{BASE}/self/eval-k8s-1.md"), task(3, output=f"{BASE}/self/eval-cost-management.md")]
    faults = faults_of(written(tmp_path, data))
    assert len(faults) == 2 and "task 2" in faults[0] and "T_B" in faults[1]


def test_the_base_may_be_a_link(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "real").mkdir()
    (tmp_path / "Desktop").mkdir()
    (tmp_path / BASE.removeprefix("~/")).symlink_to(tmp_path / "real")
    data = [task(1), task(2, output=f"{tmp_path}/real/x.md")]
    assert len(load_generated_suite(written(tmp_path, data))) == 2


# ----------------------------------------------------------------------------------------------
# criteria_from_specs, and criteria of a user's own
# ----------------------------------------------------------------------------------------------


def test_every_registered_type_can_be_asked_for():
    given_n = ("exact_sections", "min_sections", "min_bytes", "min_lines")
    for kind in CRITERIA:
        (check,) = criteria_from_specs([{"type": kind} | ({"n": 3} if kind in given_n else {})])
        assert check.__name__.startswith(kind)
        assert len(check("# x")) == 2


def mentions(word):
    """A user's own criterion: the report has a word in it."""
    if not isinstance(word, str):
        raise ValueError(f"word must be a string, not {word!r}")

    def check(content):
        return word in content, f"{content.count(word)} times {word!r}"

    check.__name__ = f"mentions({word})"
    return check


def test_a_criterion_that_a_user_adds_is_loaded_like_any_other(tmp_path, monkeypatch):
    asked = [{"type": "mentions", "word": "cost"}]
    assert "'mentions'" in faults_of(written(tmp_path, [task(criteria_specs=asked)]))[0]
    monkeypatch.setitem(CRITERIA, "mentions", mentions)
    (loaded,) = load_generated_suite(written(tmp_path, [task(criteria_specs=asked)]))
    assert loaded["criteria"][0]("the cost of it") == (True, "1 times 'cost'")
    faults = faults_of(written(tmp_path, [task(criteria_specs=[{"type": "mentions"}, {"type": "mentions", "word": 3}, *asked])]))
    assert len(faults) == 2
    assert "criteria_specs[0]" in faults[0] and "word" in faults[0]
    assert "criteria_specs[1]" in faults[1] and "not 3" in faults[1]


# ----------------------------------------------------------------------------------------------
# Whatever the file holds
# ----------------------------------------------------------------------------------------------

# Half surrogate pairs, NULs and what paths are made of come more often than chance would bring them.
ANY_TEXT = st.text(max_size=20) | st.text(st.sampled_from("\ud800\udcff\0\n\x1b/~.T_A 1"), max_size=20)
NAMES = st.sampled_from([*task(), *CRITERIA, "type", "n", BASE, f"{BASE}/x.md", "T_A", "~", "..", "P_1", ""]) | ANY_TEXT
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | NAMES
ANY_JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=20)
CHANGES = st.dictionaries(st.sampled_from(list(task())), ANY_JSON, max_size=2)
OUTPUTS = ANY_TEXT.map(lambda name: f"{BASE}/{name}")
THOROUGH = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def loads_or_tells(path):
    """Load, and check what holds for every suite; the only exception there is is SuiteError."""
    try:
        loaded = load_generated_suite(path)
    except SuiteError as error:
        assert error.faults
        assert all(fault.startswith(f"{path}: ") and "\n" not in fault for fault in error.faults), error.faults
        return
    assert len(loaded) == len(json.loads(Path(path).read_bytes()))
    assert len({one["id"].casefold() for one in loaded}) == len(loaded)
    inside = os.path.realpath(os.path.expanduser(BASE)) + os.sep
    for one in loaded:
        assert os.path.realpath(os.path.expanduser(one["output"])).startswith(inside)
        assert all(callable(check) for check in one["criteria"]) and one["criteria"]


@given(data=ANY_JSON)
@THOROUGH
def test_any_json_loads_or_is_a_suite_error(home, data):
    loads_or_tells(written(home, data))


@given(data=st.lists(st.builds(lambda n, changes: task(n, **changes), st.integers(1, 9), CHANGES), min_size=1, max_size=4))
@THOROUGH
def test_any_change_to_good_tasks_loads_or_is_a_suite_error(home, data):
    loads_or_tells(written(home, data))


@given(output=OUTPUTS, id=ANY_TEXT)
@THOROUGH
def test_any_name_loads_or_is_a_suite_error(home, output, id):
    loads_or_tells(written(home, [task(id=id), task(2, output=output)]))


@given(data=st.binary(max_size=50), at=st.integers(0, 700))
@THOROUGH
def test_any_bytes_load_or_are_a_suite_error(home, data, at):
    good = json.dumps([task()]).encode()
    loads_or_tells(written(home, good[:at] + data + good[at + len(data) :]))


# ----------------------------------------------------------------------------------------------
# The command line
# ----------------------------------------------------------------------------------------------


def test_bad_data_ends_the_command_before_anything_ran(tmp_path):
    """Exit status 2, every fault on stderr, no result, no agent started for the good tasks either."""
    data = [task(1), task(2, **specs({"type": "min_bytes", "n": 0})), task(3, id="T_A"), {"id": "P_x"}]
    path = written(tmp_path, data)
    touch = f"{sys.executable} -c \"open('started', 'w')\""
    command = [sys.executable, SCRIPT, "--agent", touch, "--generated", path, "--json", tmp_path / "R.json"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=20, env={"HOME": str(tmp_path), "PATH": os.defpath})
    assert (ran.returncode, ran.stdout) == (2, "")
    faults = faults_of(path)
    assert len(faults) > 7
    assert ran.stderr.splitlines() == [f"eval_suite.py: {fault}" for fault in faults]
    assert sorted(os.listdir(tmp_path)) == ["made.json"]


def test_a_missing_default_file_says_how_it_is_made(tmp_path):
    command = [sys.executable, SCRIPT, "--generated", "--fast"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=20, env={"HOME": str(tmp_path)})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "generated_tasks.json" in ran.stderr and "tinytroupe_tasks.py" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
