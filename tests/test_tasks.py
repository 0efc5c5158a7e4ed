"""From a raw answer to a task: the sentence, the count, the criteria, the file, near-duplicates."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_suite
import tinytroupe_tasks as generator

CASES = Path(__file__).parent / "cases"
JORDAN = generator.PERSONAS[0]


def labelled(name):
    return [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("name", "most_wrong"), [("count_cases", 1), ("count_more", 4)])
def test_a_task_is_asked_for_the_number_that_its_text_asks_for(name, most_wrong):
    cases = labelled(name)
    got = [(case, generator._extract_count(case["task"])) for case in cases]
    wrong_numbers = [(case["task"], case["count"], count) for case, count in got if count not in (None, case["count"])]
    missed = [(case["task"], case["count"], count) for case, count in got if count != case["count"]]
    assert len(wrong_numbers) <= most_wrong, wrong_numbers
    assert len(missed) <= len(cases) * 0.05, missed


@pytest.mark.parametrize(
    ("task", "sections", "size", "lines", "words"),
    [
        ("Search for the top 5 ways to cut costs and save to eval-a.md", ("exact_sections", 5), 600, 10, "top 5"),
        ("Compare four vector databases and save to eval-b.md", ("exact_sections", 4), 600, 10, "four vector"),
        ("Find the 7 most common outages and save to eval-c.md", ("exact_sections", 7), 600, 10, "7 most common"),
        ("Find the top 8 outages and save to eval-d.md", ("min_sections", 3), 800, 15, None),
        ("Investigate cache stampedes and save to eval-e-top-5.md", ("min_sections", 3), 800, 15, None),
        ("Research at least 4 queues and save to eval-f.md", ("min_sections", 3), 800, 15, None),
    ],
)
def test_criteria_follow_from_the_text(task, sections, size, lines, words):
    built = generator.build_task(f"TASK: {task}", JORDAN, 1)
    kind, n = sections
    quality = [{"type": "no_placeholders"}, {"type": "has_impl_notes"}, {"type": "no_file_path_refs"}]
    expected = [{"type": kind, "n": n}, {"type": "min_bytes", "n": size}, {"type": "min_lines", "n": lines}, *quality]
    assert built["criteria_specs"] == expected == generator.build_criteria(task)
    assert built["count_from"] == words


def test_a_number_in_the_base_folder_is_no_count():
    built = generator.build_task("TASK: Research cache stampedes and save to eval-a.md", JORDAN, 1, base="/tmp/top 5 tools")
    assert built["criteria_specs"][0] == {"type": "min_sections", "n": 3}


def without_end(text):
    return None if text is None else re.sub(r"[\s.。!?]+$", "", text)


@pytest.mark.parametrize("kind", sorted({case["kind"] for case in labelled("raw_answers")}))
def test_the_task_sentence_is_found_in_an_answer(kind):
    for case in labelled("raw_answers"):
        if case["kind"] != kind:
            continue
        assert without_end(generator.extract_task(case["raw"])) == without_end(case["task"]), case["raw"]
        built = generator.build_task(case["raw"], JORDAN, 1)
        assert (built is None) == (case["task"] is None)
        if built:
            assert built["task"].count(built["output"]) == 1
            assert case["output"] in (None, built["output"].rpartition("/")[2]), case["raw"]


# Answers that a real model of 135 million parameters gave to the prompt, with and without the forced shape.
JUNK = [
    '{"task": "[Your Name] (Special Agent)"}',
    '{"task": "Jordan, Senior DevOps Engineer"}',
    '{"task": "eval-davidson@stargazer.com/2017-9-30-15:48:32.zoobabu"}',
    '{"task": "What would you most want an AI research agent to investigate and write up for you right now?"}',
    '{"task": "I\'m here to investigate, and I need you to analyze the data from a new cloud company."}',
    '{"task": "eval-and-present, now choosing what you want to focus on"}',
    '{"task": "Evaluate how you can help in your own field of research using the markdown framework, from a single project."}',
    '{"task": "t:eval `mime-content=application/json; charset=utf8`, 97,16532046"}',
    '{"task": "10.3"}',
    '{"task": "[TASK]"}',
    "A: Task: and a project that I have dedicated myself to is an experiment in this field of economics.",
    "The answer is: TASK: In Review of Future Research\nTasks for a report that will help you understand the impact of your research agents.",
]


@pytest.mark.parametrize("raw", JUNK)
def test_what_a_tiny_model_makes_up_is_no_task(raw):
    assert generator.extract_task(raw) is None


def test_the_prompt_holds_no_answer_that_could_be_copied():
    for persona in generator.PERSONAS:
        prompt = generator.build_prompt(persona)
        assert persona["context"] in prompt
        assert generator.QUESTION in prompt
        assert generator.extract_task(prompt) is None
        assert generator.extract_task(prompt.splitlines()[4]) is None


def test_the_keys_of_a_task_come_in_their_order():
    built = generator.build_task("TASK: Research cache stampedes and save to eval-a.md", JORDAN, 3)
    assert list(built) == ["id", "desc", "task", "output", "criteria_specs", "persona", "raw_response", "count_from"]
    assert built["id"] == "P_devops_3"
    assert built["desc"] == "generated: Senior DevOps Engineer"
    assert built["persona"] == "Jordan"


FILES = [
    # what the answer names, the file that comes of it
    ("../../etc/passwd.md", "eval-passwd.md"),
    ("/root/.ssh/eval-keys.md", "eval-keys.md"),
    ("C:\\Users\\u\\eval-win.md", "eval-win.md"),
    ("eval-Größe-Über.md", "eval-grosse-uber.md"),
    ("eval-UPPER_case.MD", "eval-upper-case.md"),
    ("notes.txt", "eval-notes.md"),
    ("eval-no-extension", "eval-no-extension.md"),
    ("eval-context-engineering.md", "eval-context-engineering-2.md"),  # that of fixed task T_A
    (f"eval-{'long-' * 20}end.md", "eval-" + "-".join(["long"] * 12) + ".md"),
]


@pytest.mark.parametrize(("named", "file"), FILES)
def test_an_output_is_a_plain_name_inside_the_base_folder(named, file):
    built = generator.build_task(f"TASK: Research cache stampedes and save to {named}", JORDAN, 1, base="/srv/base")
    assert built["output"] == f"/srv/base/{file}"
    assert built["task"].endswith(f"save to /srv/base/{file}")


def test_two_tasks_never_share_an_output():
    taken = ["/b/eval-a.md", "/b/eval-a-2.md"]
    assert generator.build_task("TASK: Research cache use and save to eval-a.md", JORDAN, 1, "/b", taken)["output"] == "/b/eval-a-3.md"


NASTY = st.sampled_from(
    [
        "TASK: ",
        "Task 1: ",
        "save to ",
        "eval-x.md",
        "../",
        "`",
        "**",
        "<think>",
        "</think>",
        "```",
        '{"task": "',
        '"}',
        "\n",
        "“",
        "”",
        "\u202e",
        "\x00",
        "[a](b.md)",
        " and ",
        "top 5 ",
    ]
)


@given(st.one_of(st.text(), st.lists(st.one_of(NASTY, st.text(max_size=8)), max_size=25).map("".join)))
@settings(max_examples=400, deadline=None)
def test_any_answer_gives_a_task_that_loads_or_none(raw):
    built = generator.build_task(raw, JORDAN, 1)
    if built:
        assert eval_suite.check_generated([built], "x.json") == [built]
        assert re.fullmatch(r"~/Desktop/harness-engineering/eval-[a-z0-9]+(?:-[a-z0-9]+)*\.md", built["output"])
        assert len(built["output"].rpartition("/")[2]) <= len("eval-.md") + 60
        assert built["task"].count(built["output"]) == 1


PAIRS = [
    # two tasks, whether they are near-duplicates
    ("Search for the top 5 Kubernetes cost optimization strategies", "Investigate the best 3 ways to optimize Kubernetes costs", True),
    ("Research prompt injection defenses for agents", "Find the 4 most effective defenses against agent prompt injection", True),
    ("Compare vector databases for retrieval", "Survey vector database choices for retrieval", True),
    ("Research the cost drivers of spot instance fleets", "Research the failure modes of spot instance fleets", False),
    ("Investigate cache stampedes", "Investigate passkey rollouts", False),
]


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_the_same_topic_in_other_words_is_a_near_duplicate(one, other, same):
    near = eval_suite.similarity(eval_suite.content_words(one), eval_suite.content_words(other))
    assert (near >= eval_suite.DUPLICATE_THRESHOLD) is same, near


@given(
    st.lists(
        st.lists(st.sampled_from("alpha beta gamma delta epsilon zeta theta kappa lambda sigma".split()), min_size=1, max_size=5),
        min_size=2,
        max_size=12,
    )
)
@settings(max_examples=150, deadline=None)
def test_the_index_finds_every_near_duplicate_that_a_full_search_finds(topics):
    tasks = [{"id": f"P_{n}", "task": " ".join(topic)} for n, topic in enumerate(topics)]
    index = generator.TaskIndex(tasks[:-1])
    words = eval_suite.content_words(tasks[-1]["task"])
    closest = max(eval_suite.similarity(words, eval_suite.content_words(task["task"])) for task in tasks[:-1])
    found = index.nearest(tasks[-1]["task"])[1][0]
    if closest >= eval_suite.DUPLICATE_THRESHOLD:
        assert found == closest


def test_the_bank_gives_each_persona_a_hundred_different_tasks(capsys):
    tasks = generator.generate(count=100, backend="builtin", say=print)
    assert len(tasks) == 800
    exact = sum(task["criteria_specs"][0]["type"] == "exact_sections" for task in tasks)
    assert 0.4 < exact / len(tasks) < 0.8
    assert all(len(task["raw_response"].split()) <= 25 for task in tasks)
    assert min(len(topics) for topics in generator.BANK.values()) >= 12
    assert generator.generate(count=3, backend="builtin") == generator.generate(count=3, backend="builtin")
    assert generator.generate(count=3, backend="builtin") != generator.generate(count=3, backend="builtin", seed=1)


def test_the_committed_sample_is_what_the_builtin_backend_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert generator.main(["--backend", "builtin", "--seed", "0"]) == 0
    sample = Path(generator.__file__).with_name("generated_tasks.json")
    assert (tmp_path / "generated_tasks.json").read_bytes() == sample.read_bytes()
