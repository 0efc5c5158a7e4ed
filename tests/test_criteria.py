"""The criteria, judged by tables of labelled reports and by properties that hold for any text."""

import json
from pathlib import Path

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st

import eval_suite

CASES = Path(__file__).parent / "cases"
TABLES = ("exact_sections", "no_placeholders", "has_impl_notes", "no_file_path_refs")


def labelled(name):
    return [json.loads(line) for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def judge(name, case):
    arguments = {"n": case["n"]} if "n" in case else {}
    return eval_suite.CRITERIA[name](**arguments)(case["report"])


@pytest.mark.parametrize("name", TABLES)
def test_a_labelled_report_gets_its_verdict(name):
    cases = labelled(name)
    wrong = [(case["report"], case["pass"], judge(name, case)[1]) for case in cases if judge(name, case)[0] != case["pass"]]
    assert not wrong
    assert min(sum(case["pass"] for case in cases), sum(not case["pass"] for case in cases)) >= 25


MIN_CASES = [
    # factory, argument, report, passed, words of the detail
    ("min_sections", 2, "## A\n\ntext\n\n## B\n", True, "2 sections: A, B"),
    ("min_sections", 2, "## A\n\n##\n\n## \n", False, "1 section, need at least 2: A"),
    ("min_sections", 2, "## Introduction\n\n## Conclusion\n", True, "2 sections"),
    ("min_sections", 1, "# A\n\n### B\n", False, "0 sections, need at least 1"),
    ("min_sections", 1, "```\n## A\n```\n", False, "0 sections"),
    ("min_sections", 1, "> ## A\n\n- ## B\n", False, "0 sections"),
    ("min_sections", 1, "<!--\n## A\n-->\n", False, "0 sections"),
    ("min_sections", 1, "<div>\n## A\n</div>\n", False, "0 sections"),
    ("min_sections", 1, "    ## A\n", False, "0 sections"),
    ("min_sections", 3, "   ## A ##\r\n\r\nB\r\n---\r\n\r\n## C", True, "3 sections: A, B, C"),
    ("min_sections", 2, "\ufeff## A\r\r## B\r", True, "2 sections: A, B"),
    ("min_sections", 1, "---\ntitle: x\n## no\n---\n", False, "0 sections"),
    ("min_sections", 2, "---\n\n## A\n\n---\n\n## B\n", True, "2 sections: A, B"),
    ("min_sections", 1, "---\nNote: a draft.\n\n## A\n\n---\n", True, "1 section: A"),
    ("min_sections", 1, "| a |\n|---|\n| b |\n---\n", False, "0 sections"),
    ("min_bytes", 4, "äö", True, "4 bytes"),
    ("min_bytes", 5, "äö", False, "4 bytes, need at least 5"),
    ("min_bytes", 4, "\U0001f600", True, "4 bytes"),
    ("min_bytes", 1, "", False, "0 bytes"),
    ("min_bytes", 1, "\ud800", True, "3 bytes"),
    ("min_lines", 3, "a\n\nb", True, "3 lines"),
    ("min_lines", 3, "a\r\n\r\nb\r\n", True, "3 lines"),
    ("min_lines", 3, "a\r\rb\r", True, "3 lines"),
    ("min_lines", 2, "a\n\n\n\n", False, "1 line, need at least 2"),
    ("min_lines", 1, " \n\t\n", False, "0 lines"),
    ("min_lines", 1, "", False, "0 lines"),
    ("min_lines", 1, "a", True, "1 line"),
]


@pytest.mark.parametrize(("name", "n", "report", "passed", "words"), MIN_CASES)
def test_sizes_say_what_was_seen_and_what_is_missing(name, n, report, passed, words):
    got, detail = eval_suite.CRITERIA[name](n)(report)
    assert (got, words in detail) == (passed, True), detail


# A report and its number of sections, bytes or lines: it passes that minimum and fails the next.
COUNTED = {
    "min_sections": [
        ("## A", 1),
        ("## A\n\n## B", 2),
        ("## A\n## B\n## C\n", 3),
        ("A\n---\n\nB\n-----\n", 2),
        ("# T\n\n## A\n\n### A1\n\n## B\n", 2),
        ("## Summary\n\n## References\n", 2),
        ("## `code`\n\n## **bold**\n\n## [link](x)\n", 3),
        ("## A\n\n```\n## B\n```\n", 1),
        ("## A\n\n~~~md\n## B\n~~~\n\n## C\n", 2),
        ("## A\n\n> ## B\n", 1),
        ("## A\n\n1. ## B\n", 1),
        ("## A #\n\n ## B ##\n", 2),
        ("## A\n\n##B\n", 1),
        ("## A\n\n\\## B\n", 1),
        ("## A\n\n| a |\n|---|\n| ## B |\n", 1),
        ("## A <!-- note -->\n\n## <!-- nothing -->\n", 1),
    ],
    "min_bytes": [
        ("a", 1),
        ("a\n", 2),
        ("a\r\n", 3),
        ("é", 2),
        ("ß", 2),
        ("漢", 3),
        ("漢字", 6),
        ("😀", 4),
        ("👩‍💻", 11),
        ("\ufeffa", 4),
        ("\0", 1),
        ("  ", 2),
        ("\u00a0", 2),
        ("e\u0301", 3),
    ],
    "min_lines": [
        ("a", 1),
        ("a\n", 1),
        ("a\nb", 2),
        ("a\nb\n\n\n", 2),
        ("\na", 2),
        ("a\n\n\nb", 4),
        ("a\r\nb", 2),
        ("a\rb\rc", 3),
        ("a\r\n\r\nb\r\n", 3),
        ("\ufeffa\nb", 2),
        ("- a\n- b\n- c", 3),
        ("a\u2028b", 1),
        ("a\x0bb", 1),
        ("```\nx\n```", 3),
    ],
}


@pytest.mark.parametrize(("name", "report", "count"), [(name, *case) for name, cases in COUNTED.items() for case in cases])
def test_a_minimum_passes_at_its_count_and_fails_above(name, report, count):
    assert eval_suite.CRITERIA[name](count)(report)[0]
    assert not eval_suite.CRITERIA[name](count + 1)(report)[0]


DETAILS = [
    (
        eval_suite.exact_sections(5),
        "## Caching\n## Batching\n## Summary\n## Routing\n## Sharding",
        False,
        "4 content sections, need exactly 5: Caching, Batching",
    ),
    (eval_suite.exact_sections(1), "## Caching\n## References", True, "1 content section: Caching (not counted: References)"),
    (eval_suite.no_placeholders(), "The rate is [insert figure].", False, "[insert figure]"),
    (eval_suite.no_placeholders(), "## A\n\nfine\n\n## B\n\n...\n", False, 'section "B" holds only'),
    (eval_suite.has_impl_notes(), "Use it, for example in Redis.", True, "for example in Redis"),
    (eval_suite.has_impl_notes(), "Nothing practical.", False, "no code, command"),
    (eval_suite.no_file_path_refs(), "# T\n\nThis report has been saved to ~/x.md", False, "This report has been saved to ~/x.md"),
]


@pytest.mark.parametrize(("check", "report", "passed", "words"), DETAILS)
def test_a_detail_gives_the_evidence_in_one_line(check, report, passed, words):
    got, detail = check(report)
    assert got is passed
    assert words in detail
    assert "\n" not in detail


def test_a_check_is_named_after_what_it_asks_for():
    assert eval_suite.exact_sections(5).__name__ == "exact_sections(5)"
    assert eval_suite.no_placeholders().__name__ == "no_placeholders"


@pytest.mark.parametrize("n", [0, -1, True, 2.0, "3", None])
@pytest.mark.parametrize("name", ["exact_sections", "min_sections", "min_bytes", "min_lines"])
def test_a_factory_takes_whole_numbers_above_zero_only(name, n):
    with pytest.raises(ValueError, match="whole number"):
        eval_suite.CRITERIA[name](n)


ALL_CHECKS = [
    *(eval_suite.CRITERIA[name](3) for name in ("exact_sections", "min_sections", "min_bytes", "min_lines")),
    *(eval_suite.CRITERIA[name]() for name in TABLES[1:]),
]
# Pieces that the rules look for, joined at random, reach more of them than plain text does.
PIECES = st.sampled_from(
    [
        "## ",
        "\n",
        "\n\n",
        "---\n",
        "```\n",
        "`",
        "[",
        "]",
        "(",
        ")",
        "<!--",
        "-->",
        "<b>",
        "|",
        "| a |\n|---|\n",
        "TODO",
        "TBD: ",
        "[insert x]",
        "{{a}}",
        "...",
        "for example, ",
    ]
    + [
        "e.g. ",
        "Example:",
        "saved to ",
        "~/a.md",
        "eval-x.md",
        "C:\\x.md",
        "This report ",
        "How to ",
        "1. ",
        "- ",
        "> ",
        "**",
        "\r",
        "\ufeff",
        "\0",
        "例",
        "結論",
        "\ud800",
        "key: v\n",
        '"',
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30).map("".join))


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_no_criterion_raises_on_any_text(text):
    for check in ALL_CHECKS:
        passed, detail = check(text)
        assert isinstance(passed, bool)
        assert isinstance(detail, str)
        assert "\n" not in detail


@given(TEXTS, st.text(alphabet="abcdefg ,.", min_size=1, max_size=40).filter(str.strip))
@settings(max_examples=200, deadline=None)
def test_a_further_paragraph_never_turns_a_minimum_from_pass_to_fail(text, paragraph):
    for check in ALL_CHECKS[1:4]:
        if check(text)[0]:
            assert check(f"{text}\n\n{paragraph.strip()}\n")[0]


WORDS = st.text(alphabet="abcxyz", min_size=1, max_size=6)
LINES = st.one_of(
    WORDS,
    WORDS.map("## {}".format),
    WORDS.map("  ## {} ##".format),
    WORDS.map("# {}".format),
    WORDS.map("### {}".format),
    WORDS.map("##{}".format),
    WORDS.map("> ## {}".format),
    WORDS.map("- ## {}".format),
    WORDS.map("    ## {}".format),
    WORDS.map("\t## {}".format),
    WORDS.map("\\## {}".format),
    WORDS.map("{}\n---".format),
    WORDS.map("{}\n===".format),
    st.sampled_from(
        [
            "",
            "",
            "---",
            "```",
            "~~~",
            "<div>",
            "</div>",
            "<!--",
            "-->",
            "***",
            "1. a",
            "* b",
            "> q",
            "[r]: /x",
            "| a |\n|---|\n| b |",
            "##",
            "## ",
        ]
    ),
)


@given(st.lists(LINES, max_size=14), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=400, deadline=None)
def test_the_number_of_sections_agrees_with_another_commonmark_implementation(lines, end):
    text = end.join(["start", *lines])  # a first line of prose keeps it from being front matter
    html = cmarkgfm.markdown_to_html_with_extensions(text, Options.CMARK_OPT_UNSAFE, extensions=["table"])
    # Top level only: cmark writes nothing before the tag there but what was raw HTML in the source.
    depth, expected = 0, 0
    for line in html.split("\n"):
        if depth == 0 and line.startswith("<h2>") and line != "<h2></h2>":
            expected += 1
        depth += (
            line.count("<blockquote>")
            + line.count("<ul>")
            + line.count("<ol>")
            - line.count("</blockquote>")
            - line.count("</ul>")
            - line.count("</ol>")
        )
    assert len(eval_suite._h2_titles(text)) == expected, html
