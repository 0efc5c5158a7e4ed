"""Ask eight professional personas for research tasks and write them as a checked eval suite.

    python tinytroupe_tasks.py               one task per persona -> generated_tasks.json
    python tinytroupe_tasks.py --count 2     two per persona
    python tinytroupe_tasks.py --out eval_generated.json
    python tinytroupe_tasks.py --dry-run     preview, nothing is written anywhere

who is asked, for what
  --count N              tasks per persona (default 1)
  --only IDS             only these personas, by id, separated by commas
  --personas FILE        your own personas, as TOML or JSON, instead of the eight
  --list-personas        list the personas and stop
  --seed N               seed of every choice and model call (default 0)
  --jobs N               personas asked side by side (default 4)

who answers
  --backend auto|tinytroupe|ollama|builtin
                         default auto: the first of the others that works
  --model M              Ollama model (default $OLLAMA_MODEL, else llama3.2, else the first that
                         can chat)
  --host URL             Ollama server (default $OLLAMA_HOST, else 127.0.0.1:11434)
  --timeout S            seconds that one answer may take (default 300)
  --tinytroupe-config FILE
                         configuration of TinyTroupe's own to use (default ./config.ini if it is
                         one)
  --replay OLD           build the tasks of OLD anew from their raw answers, with today's rules and
                         no model

what comes out
  --out FILE             file to write (default generated_tasks.json)
  --append               keep the tasks that FILE has and number on
  --resume               go on from what an interrupted run left
  --dry-run              preview only: nothing is written anywhere
  --json                 print the tasks as JSON on stdout
  --base DIR             folder that the tasks save to (default ~/Desktop/harness-engineering)
  -h, --help             show this text

exit status: 0 all tasks made, 1 fewer than asked or the backend failed, 2 wrong usage or bad data,
130 interrupted

The personas answer through TinyTroupe if it is installed, else through a local Ollama model, else
from a built-in bank that needs no model. Each answer becomes a task whose criteria are derived from
its own text. `python eval_suite.py --generated` scores an agent on them. The README has the rules,
and what to do when something fails.
"""

import os
import sys

# Help comes at once: before the imports, and with nothing to tear down.
if __name__ == "__main__" and not {"-h", "--help"}.isdisjoint(sys.argv[1:]):
    try:
        print(__doc__.strip(), flush=True)
    finally:
        os._exit(0)

import collections
import contextlib
import functools
import hashlib
import itertools
import json
import math
import random
import re
import time
import unicodedata

from eval_suite import (
    BASE,
    DUPLICATE_THRESHOLD,
    FIXED_TASKS,
    GENERATED_FILE,
    SuiteError,
    _count,
    _extract_count,
    _find_count,
    as_json,
    build_criteria,
    check_generated,
    console_for,
    content_words,
    flag_parser,
    folding,
    interrupt_on_signals,
    is_device,
    pick,
    positive,
    prove,
    read_json,
    ready_streams,
    rendered,
    say,
    similarity,
    text_without_folder,
    write_whole,
)

__all__ = ["PERSONAS", "build_criteria", "build_prompt", "build_task", "extract_task", "generate", "main", "save", "_extract_count"]

# ----------------------------------------------------------------------------------------------
# Data: the eight personas
# ----------------------------------------------------------------------------------------------

PERSONAS = [
    {
        "id": "P_devops",
        "name": "Jordan",
        "role": "Senior DevOps Engineer",
        "context": "Runs forty services on three Kubernetes clusters with a platform team of four. Is deciding how to cut "
        "a cloud bill that grew faster than traffic without making deploys slower. Cares about quiet on-call weeks, "
        "reversible changes and evidence from teams of a similar size.",
    },
    {
        "id": "P_datasci",
        "name": "Priya",
        "role": "Staff Data Scientist",
        "context": "Owns forecasting and experimentation for a subscription business. Is deciding which of last year's "
        "models to retire and how to test pricing changes with little traffic. Cares about honest uncertainty, "
        "reproducible notebooks and results that survive contact with finance.",
    },
    {
        "id": "P_backend",
        "name": "Marcus",
        "role": "Backend Engineer",
        "context": "Maintains the order and billing services of a marketplace: PostgreSQL, a message queue and a growing "
        "pile of scheduled jobs. Is deciding how to split a slow monolith without losing transactions. Cares about "
        "latency at the 99th percentile, idempotency and code that the next person can follow.",
    },
    {
        "id": "P_pm",
        "name": "Sofia",
        "role": "Product Manager (AI Products)",
        "context": "Leads an assistant feature used by small accounting firms. Is deciding what to automate next and how to "
        "tell users when the model is unsure. Cares about trust, measurable time saved and not shipping what nobody asked for.",
    },
    {
        "id": "P_security",
        "name": "Alex",
        "role": "Security Engineer",
        "context": "Covers application and cloud security for a company of two hundred people, mostly alone. Is deciding how "
        "to give coding agents access to repositories and secrets without opening a hole. Cares about small blast "
        "radius, logs that answer questions and controls that developers do not route around.",
    },
    {
        "id": "P_mleng",
        "name": "Tanaka",
        "role": "ML Infrastructure Engineer",
        "context": "Operates training and inference on a mixed fleet of GPUs for several model teams. Is deciding between "
        "self-hosted serving and paid endpoints as usage doubles each quarter. Cares about utilisation, predictable "
        "latency and upgrades that can be rolled back.",
    },
    {
        "id": "P_founder",
        "name": "Elena",
        "role": "Technical Startup Founder",
        "context": "Builds a developer tool with five people and eighteen months of runway. Is deciding on pricing, the first "
        "sales hire and which compliance work cannot wait. Cares about speed, learning from customers and spending only where it shows.",
    },
    {
        "id": "P_techlead",
        "name": "Kwame",
        "role": "Tech Lead",
        "context": "Leads nine engineers who own a ten-year-old product and its rewrite. Is deciding how the team should review "
        "code now that assistants write much of it. Cares about steady delivery, growing people and technical debt that is paid on purpose.",
    },
]

# ----------------------------------------------------------------------------------------------
# Data: what the eight ask about when there is no model
# ----------------------------------------------------------------------------------------------

# A topic is joined with each facet, so it is a noun phrase of two to four words of its own.
BANK = {
    "P_devops": [
        "Kubernetes node autoscaling",
        "spot instance fleets",
        "GitOps rollouts with Argo CD",
        "multi-region failover drills",
        "Terraform state splitting",
        "container image caching in CI",
        "Prometheus metric cardinality",
        "canary deploys behind Istio",
        "on-call alert tuning",
        "ephemeral preview environments",
        "cluster upgrade windows",
        "log retention tiers",
        "internal developer portals",
        "persistent volume backups",
    ],
    "P_datasci": [
        "demand forecasts for new products",
        "sequential A/B test stopping",
        "churn model retraining",
        "causal uplift estimation",
        "price elasticity experiments",
        "feature drift alarms",
        "notebook reproducibility",
        "synthetic control studies",
        "hierarchical Bayesian forecasts",
        "customer lifetime value models",
        "label noise cleaning in fraud data",
        "variance reduction with CUPED",
        "probability calibration checks",
        "missing event imputation",
    ],
    "P_backend": [
        "PostgreSQL partitioning of order tables",
        "idempotency keys in payment APIs",
        "Kafka consumer rebalancing",
        "transactional outbox patterns",
        "monolith extraction by strangler fig",
        "connection pool sizing",
        "saga orchestration engines",
        "gRPC schema versioning",
        "Redis cache stampede protection",
        "rate limiter placement",
        "zero-downtime schema changes",
        "cron job consolidation",
        "tail latency budgets for fan-out requests",
        "soft delete and archival rules",
    ],
    "P_pm": [
        "uncertainty display in AI assistants",
        "onboarding flows of copilot features",
        "usage-based pricing of AI seats",
        "human review queues for bookkeeping",
        "hallucination handling for customers",
        "prompt suggestion chips",
        "feature kill decisions",
        "time saved by invoice automation",
        "consent prompts for training data",
        "agent handoff to accountants",
        "beta programs with small firms",
        "feedback loops on model answers",
        "AI roadmap prioritization",
        "accessibility of chat interfaces",
    ],
    "P_security": [
        "secret scanning in monorepos",
        "coding agent sandboxing",
        "short-lived cloud credentials",
        "software bill of materials upkeep",
        "OAuth token theft detection",
        "dependency confusion defences",
        "CI runner isolation",
        "passkey rollouts for employees",
        "audit log pipelines",
        "prompt injection filters on pull requests",
        "third-party vendor access reviews",
        "container escape hardening",
        "phishing-resistant admin accounts",
        "bug bounty triage",
    ],
    "P_mleng": [
        "KV cache offloading",
        "GPU fleet bin packing",
        "vLLM continuous batching",
        "distributed checkpoint storage",
        "quantized weight serving",
        "speculative decoding drafts",
        "NCCL interconnect debugging",
        "training job preemption",
        "LoRA adapter multiplexing",
        "model registry rollbacks",
        "dataset streaming from object stores",
        "cold start tuning of inference pods",
        "mixture-of-experts routing",
        "driver and CUDA upgrades",
    ],
    "P_founder": [
        "open-core licence choices",
        "first sales hire timing",
        "SOC 2 preparation for tiny teams",
        "annual contract discounts",
        "developer community launches",
        "design partner contracts",
        "self-serve trial conversion",
        "equity grants for early engineers",
        "enterprise procurement cycles",
        "bridge round terms",
        "churn interviews with developers",
        "product-led sales handoffs",
        "cloud marketplace listings",
        "content marketing for engineers",
    ],
    "P_techlead": [
        "review of assistant-written code",
        "legacy rewrite cutovers",
        "technical debt budgeting",
        "architecture decision records",
        "mentoring of junior engineers",
        "flaky test quarantines",
        "trunk-based branching",
        "incident retrospective follow-through",
        "estimation without story points",
        "module ownership maps",
        "pair programming with agents",
        "hiring loops for seniors",
        "meeting load limits for engineers",
        "dead code removal",
    ],
}

# Facet: the plural things asked for, and the adjective that fits "the 5 most ...". Each brings two words
# of its own to the topic's, so that one topic under two facets is not a near-duplicate.
FACETS = {
    "cost": ("cost drivers of {topic}", "significant"),
    "failures": ("failure modes of {topic}", "common"),
    "migration": ("migration steps towards {topic}", "reliable"),
    "metrics": ("health metrics for {topic}", "telling"),
    "security": ("security risks around {topic}", "serious"),
    "tooling": ("tooling choices for {topic}", "mature"),
    "rollout": ("rollout mistakes with {topic}", "expensive"),
    "testing": ("testing habits for {topic}", "effective"),
    "compliance": ("compliance duties around {topic}", "demanding"),
    "scaling": ("scaling limits of {topic}", "surprising"),
    "objections": ("stakeholder objections to {topic}", "frequent"),
    "decisions": ("decision criteria for {topic}", "useful"),
    "skills": ("skill gaps around {topic}", "costly"),
}
PERSONA_FACETS = {
    "P_devops": "cost failures migration metrics security tooling rollout scaling",
    "P_datasci": "cost failures metrics tooling testing compliance objections decisions",
    "P_backend": "cost failures migration metrics security testing rollout scaling",
    "P_pm": "cost failures metrics objections compliance rollout decisions skills",
    "P_security": "cost failures migration metrics tooling compliance rollout testing",
    "P_mleng": "cost failures migration metrics tooling testing rollout scaling",
    "P_founder": "cost failures metrics objections compliance rollout decisions skills",
    "P_techlead": "cost failures metrics objections tooling rollout decisions skills",
}

EXACT_FORMS = (
    "Search for the top {n} {things}",
    "Research the {n} most {adjective} {things}",
    "Identify the top {n} {things}, with evidence for each",
    "Find the {n} most {adjective} {things} reported by practitioners",
    "Compare the {n} most {adjective} {things}",
)
OPEN_FORMS = (
    "Investigate the {things} and what experienced teams do about them",
    "Summarize what recent case studies say about {things}",
    "Explain the {things} that small teams should know first",
    "Survey the {things} and the open questions that remain",
)
NUMBER_WORDS = {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}

# ----------------------------------------------------------------------------------------------
# Asking: one prompt for every backend
# ----------------------------------------------------------------------------------------------

QUESTION = "What would you most want an AI research agent to investigate and write up for you right now?"
SHOWN_TOPICS = 20  # the latest topics that a prompt lists; all of them would outgrow a small context
ANSWER_SCHEMA = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}


def build_prompt(persona, avoid=()):
    """Return the prompt that every backend receives.

    `persona` is a dict with name, role and context; `avoid` holds the tasks that the persona has already
    been given, oldest first. No example is shown, because a small model hands it back as its answer.
    """
    lines = [
        f"You are {persona['name']}, {persona['role']}. {persona['context']}",
        "",
        f'A colleague asks: "{QUESTION}"',
        "",
        "Answer with one line that starts with TASK: and holds one sentence of under 25 words. The sentence tells the agent what",
        "to research, in your own field and in concrete terms, and ends by naming the Markdown file to save to. The file name",
        "starts with eval- and then names the topic in lower case with hyphens. Write nothing else.",
    ]
    if avoid:
        lines += ["", "You already have reports on these; choose a different topic:"]
        lines += [f"- {_topic(task)}" for task in list(avoid)[-SHOWN_TOPICS:]]
    return "\n".join(lines)


@functools.lru_cache(maxsize=1024)
def _topic(task_text):
    """Return a task's sentence without its order to save."""
    verb = r"\b(?:save|write|store|export)\b"
    order = rf"(?i)[,;]?\s+(?:(?:and|then) )*{verb}(?:(?!{verb})[^.])*\S*\.md\S*"
    return re.sub(order, "", task_text).strip(" .")


# ----------------------------------------------------------------------------------------------
# Understanding the answer
# ----------------------------------------------------------------------------------------------

LONGEST_TASK = 400  # characters; a longer answer is an essay, not a task
LONGEST_SLUG = 60
END_TOKENS = r"<\|?/?(?:im_end|im_start|eot_id|eom_id|end_of_text|endoftext|end_of_turn|start_of_turn|begin_of_text|eos|bos|s|end|assistant|user|system|return|start_header_id|end_header_id|pad|unk)\|?>|<｜[^｜<>]*｜>|\[/?INST\]"
THINKING = r"think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad"
# Marks that may stand before a label or a sentence: bullets, quotes, headings, numbers, emphasis, emoji.
MARKS = r"(?:[\s>#*_`\"'“”„‘’«»\-–—•·▪►→~|\[(]|\d{1,2}[.)]\s|[^\w\s<{(\[.,:;!?/\\])*"
LABEL = rf"(?im)(?:^{MARKS}|(?<=[\s\"'“*(:：]))(?:(?:the|my|your|our|a|final|proposed|suggested|new|next|research|agent|requested|investigation|answer|assigned)[ -])*task(?:\s*(?:#\s*)?(?:\d+|one|i)\b|\s+(?:description|statement|request|for [\w ]{{1,20}}))?(?:[\s*_`\"']*[:：]|\s+(?:is|would be) to\b)[\s*_`]*"
ORDER_VERBS = (
    r"(?:assemble|assess|audit|benchmark|break down|build|catalog(?:ue)?|check|choose|collect|compare|compile|compute|conduct|contrast|create|critique|curate|deep[- ]dive|define|delve"
    r"|describe|design|detail|determine|develop|dig|discover|discuss|dissect|dive|document|draft|elaborate on|examine|explain|explore|find|forecast|gather|give|help|highlight"
    r"|inspect|interview|learn|list|look|make|map|measure|mine|model|outline|perform|pick|plan|predict|prepare|probe|produce|profile|propose|provide|pull|put|rank|recommend|report"
    r"|research|review|run|scan|search|select|share|show|sketch|source|study|suggest|survey|tell|test|trace|track|uncover|understand|unpack|weigh|write|analy[sz]e"
    # Most other verbs that order a piece of research end in one of these.
    r"|[a-z]+(?:i[sz]e|ate|ify))"
)
SAVE = r"(?:sav(?:e|ed|ing)|writ(?:e|ten|ing)|stor(?:e|ed|ing)|export(?:ed|ing)?|output|put|record|document|publish|deliver|name[d]?|call(?:ed)?|titled|file)"
FILE = r"[^\s`\"'“”‘’<>()\[\]{}|*,;]*[\w)\]]\.(?:md|markdown|mdown|txt|html?|pdf|docx?|rst|json|mdx)\b"
HEADED = rf"(?i)({FILE})\s*[:–—-]+\s+(?=\w)"  # "eval-x.md: Compare ..."
REFUSAL = r"(?i)\W*(?:i['’]?m (?:sorry|afraid|unable|not able)|sorry\b|i (?:cannot|can['’]?t|can not|won['’]?t|am unable|am not able|apologi[sz]e|do not have|don['’]?t have)|as an? (?:ai|large|language)|unfortunately|my apologies|i must decline)"
NO_REQUEST = r"(?i)\W*(?:n/?a|none|nothing|null|tbd|todo|unknown|undefined|hello|hi\b|hey\b|sure\b|of course|thanks|thank you|how can i|let me know|i hope|i would love|what would you|what do you|what kind|do you|would you|could you|can you tell|please (?:provide|tell|let|specify|share|clarify))"
# How a request for research opens; another sentence is one only if it names a file.
REQUEST = rf"(?i)[\"'“(]*(?:(?:please|i (?:want|need|would like)|i['’]d like)\b.{{0,40}}?\b)?{ORDER_VERBS}\b|[\"'“(]*[a-z]+ing (?:the|an?|how|whether|ways|different|current|best|top)\b|[\"'“(]*(?:what|which|how|why|who|where|when|top|best|the (?:top|best|most|\d+))\b"
# A format line that is handed back, or a template: it still has its slots.
ECHO = r"(?i)<[^<>]{0,80}>|\.\.\.|…|\[(?:topic|task|your|insert|what|sentence|name|one)[^\]]*\]|\{[^}]*\}|\beval-(?:topic|name|xxx?|slug|filename|your-topic|the-topic)\.md\b|under (?:about )?25 words|one sentence\b.*\bfile|ai (?:research )?agent to investigate|your own (?:field|role)|what would you|what you do\b|markdown file to save|your report here|area of expertise|^[^\[]*\]|\[\w*_\w*\]"
ABBREVIATIONS = r"(?:vs|e\.g|i\.e|etc|cf|approx|no|dr|mr|ms|inc|ltd|u\.s|u\.k|fig|al|incl|est)"


def extract_task(raw):
    """Return the task sentence in a raw model answer, or None where it holds none.

    The label may stand in any dress, the sentence in a fence, JSON, tags or quotes, around closed
    thinking blocks; the first usable one counts. None for a refusal, chat, an echo of the format line,
    an unclosed thinking block, or more than LONGEST_TASK characters.
    """
    text = _without_thinking(_clean(raw))
    for candidate in itertools.chain(_from_json(text), _from_tags(text), _from_labels(text), _from_sentences(text)):
        if candidate is None:
            return None
        if _is_usable(candidate):
            return candidate
    return None


def _clean(raw):
    """Return an answer with its line ends, spaces, hyphens and invisible characters made plain."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", "", raw.replace("\r\n", "\n").replace("\r", "\n"))
    text = re.sub(r"[\u2028\u2029\u0085\v\f]", "\n", text)
    text = re.sub(r"[\u00a0\u2000-\u200a\u202f\u205f\u3000]", " ", text)
    text = re.sub(r"[\u2010-\u2012\u2212\ufe58\ufe63\uff0d]", "-", text)
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def _without_thinking(text):
    """Take thinking off an answer; what follows an unclosed opening tag is thinking to the end."""
    final = re.split(r"(?i)<\|channel\|>\s*final\s*(?:<\|constrain\|>[^<]*)?<\|message\|>", text)
    if len(final) > 1:
        text = re.split(r"(?i)<\|(?:end|return|start|call)\|>", final[-1])[0]
    elif re.search(r"(?i)<\|channel\|>", text):
        text = re.sub(r"(?is)<\|channel\|>\s*(?:analysis|commentary)\b.*?(?:<\|(?:end|return)\|>|\Z)", "", text)
    text = re.sub(rf"(?is)<\s*({THINKING})\b[^>]*>.*?<\s*/\s*\1\s*>|\[think\].*?\[/think\]", "\n", text)
    text = re.split(rf"(?i)<\s*/\s*(?:{THINKING})\s*>|\[/think\]|◁/think▷", text)[-1]
    text = re.split(rf"(?i)<\s*(?:{THINKING})\s*>|\[think\]|◁think▷", text)[0]
    return re.sub(rf"(?i){END_TOKENS}", "\n", text).strip()


def _from_json(text):
    """Yield the sentence of a {"task": ...} answer, whole or cut off."""
    if not re.search(r"(?i)[{\[]\s*(?:\{\s*)?[\"']?\w*tasks?[\"']?\s*:", text) and not re.search(r"(?i)[\"']task[\"']\s*:", text):
        return
    for found in re.finditer(r"(?i)[\"'](?:research_?)?task[\"']\s*:\s*(\"(?:[^\"\\]|\\.)*\"?|'[^'\n]*')", text):
        quoted = found[1]
        try:
            value = json.loads(quoted) if quoted.startswith('"') else quoted.strip("'")
        except ValueError:
            value = quoted.strip('"')
        value = _clean(value)
        yield from _from_labels(value) if re.search(LABEL, value) else [_sentence(value)]


def _from_tags(text):
    for found in re.finditer(r"(?is)<(task|answer|research_task)>(.*?)(?:</\1>|\Z)", text):
        yield from _from_labels(found[2])
        yield _sentence(found[2])


def _from_labels(text):
    """Yield the sentence behind each "TASK:" in the text, in its order; None, which ends the search, for a refusal.

    A label that opens a line or stands in capitals comes first: "a hard task: ..." may be mere talk.
    """
    found = list(re.finditer(LABEL, text))
    sure = [m for m in found if "TASK" in m[0] or m.start() == 0 or text[m.start() - 1] == "\n"]
    for match in sure + [m for m in found if m not in sure]:
        rest = text[match.end() :]
        while again := re.match(LABEL, rest.lstrip()):
            rest = rest.lstrip()[again.end() :]
        if re.match(REFUSAL, rest):
            yield None
            return
        sentence = _sentence(re.split(r"\s(?:or|OR|and|AND)?\s*\bTASK\s*\d*\s*[:：]", rest)[0])
        if match in sure or re.match(rf"(?i){ORDER_VERBS}\b", sentence):
            yield sentence


def _from_sentences(text):
    """Yield sentences that carry no label: an order that names a file."""
    if re.match(REFUSAL, text):
        return
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*•#>]|\d+[.)])\s)|```\w*", text):
        block = re.sub(r"(?i)^\W*(?:[A-Z][a-z]+(?: \([^)]*\))?)\s*[:：]\s*", "", block.strip())
        for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z\"“*`])", block):
            if re.match(
                rf"(?i){MARKS}(?:please\s+)?(?:(?:i(?:['’]d| would) (?:like|want|love)|i want|i need|have) (?:you |an? [\w ]{{0,30}}|the agent |someone )?(?:to )?)?{ORDER_VERBS}\b",
                part,
            ):
                rest = block[block.index(part) :]
                sentence = _sentence(rest)
                if re.search(rf"{FILE}|\beval-[\w-]+", sentence):
                    yield sentence


def _sentence(text):
    """Return the first sentence of a text, freed of markup and of the comment that follows it."""
    text = re.sub(rf"(?s)^{MARKS}(?:\w+\n)?", "", text.lstrip(), count=1) if not re.match(r"\s*[\w(]", text) else text.lstrip()
    lines = text.split("\n")
    kept = [lines[0]]
    for line in lines[1:]:
        # A sentence wrapped over lines goes on until it has named its file or ended.
        ended = re.search(rf"(?i){FILE}|\beval-[\w-]+\W*$|[.!?]\W*$", " ".join(kept))
        if (
            ended
            or not line.strip(" >*_`\"'")
            or re.match(r"\s*(?:[-*•#]\s|\d+[.)]\s|```|<)", line)
            or re.match(rf"{LABEL}|\s*[A-Z][\w ]{{0,20}}:\s", line)
        ):
            break
        kept.append(re.sub(r"^\s*>+", "", line))
    text = _without_markup(" ".join(kept))
    return _without_comment(text)


def _without_markup(text):
    """Take Markdown and HTML off a line: emphasis, code marks, links (to the name of the file), tags."""
    text = re.sub(
        r"!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)", lambda m: m[1] if re.search(r"\.\w+\W*$", m[1]) or not re.search(FILE, m[2]) else m[2], text
    )
    text = re.sub(rf"<({FILE})>", r"\1", text)
    text = re.sub(r"</?(?:b|i|em|strong|code|p|br|span|task|div|u|answer)\s*/?>", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\*+|`+|(?<!\w)_+(?=\S)|(?<=[^\s_])_+(?!\w)|~~", "", text)
    return " ".join(text.split())


def _without_comment(text):
    """Cut what follows the task sentence on the same line, and the quotes around it."""
    text = text.strip()
    opening = re.match(r"[\"“„«'‘]", text)
    if opening:
        closing = {"“": "”", "„": "“”", "«": "»", "‘": "’"}.get(opening[0], opening[0])
        end = max(text.rfind(mark) for mark in closing)
        inner = text[1:end] if end > 20 else text[1:]
        text = inner if inner.count(opening[0]) % 2 == 0 or opening[0] not in "\"'" else text[1:]
    text = text.lstrip("\"“„«'‘ ")
    end = len(text)
    for stop in re.finditer(r"[.!?。！？][\"”’')]*(?=\s|$)|\s<?[—–-]{1,2}>?\s|\s\(|\s[/#|]{1,2}\s|\s=>|[。；]", text):
        before, after = text[: stop.start()], text[stop.end() :].lstrip()
        sign = stop[0].strip()
        if re.match(rf"{FILE}\W*$", after) and not re.search(FILE, before):
            text = f"{before} and save to {after.rstrip(' )')}"  # "... (eval-x.md)", "... -> eval-x.md"
            end = len(text)
            break
        if sign[:1] in ".!?。！？；":
            if (
                re.search(rf"(?i)\b{ABBREVIATIONS}$", before)
                or after[:1].islower()
                and not re.search(rf"(?:{FILE}|\beval-[\w-]+)$", before)
            ):
                continue
            # "Research X. Save the report to eval-x.md." is one task in two sentences.
            if (
                re.match(rf"(?i)(?:then |and |please )?{SAVE}\b", after)
                and re.search(rf"{FILE}|\beval-", after)
                and not re.search(FILE, before)
            ):
                continue
            end = stop.start() + (1 if sign[0] != "。" else 0)
            break
        if re.search(rf"(?:{FILE}|\beval-[\w-]+)[\"”’'`]?$", before):
            end = stop.start()
            break
    text = text[:end].strip()
    # Quotes and brackets that opened before the sentence close behind it.
    text = re.sub(r"^[^\w(\"“]+", "", text)
    for left, right in (('"', '"'), ("“", "”"), ("(", ")"), ("[", "]"), ("‘", "’"), ("'", "'")):
        if text.endswith(right) and (text.count(right) > text.count(left) if left != right else text.count(right) % 2):
            text = text[: -len(right)].rstrip()
    return re.sub(r"[^\w.!?)\"”’'%+\]]+$", "", text)


def _is_usable(sentence):
    """Tell whether a sentence is a task: a request with something in it, no echo, refusal or chat, and of a bearable length."""
    words = re.findall(r"[^\W\d_]{2,}", re.sub(rf"(?i){FILE}|\beval-\S+", "", sentence))
    if (
        len(words) < 3
        or len(sentence) > LONGEST_TASK
        or any(re.match(p, sentence) for p in (REFUSAL, NO_REQUEST))
        or re.search(ECHO, sentence)
    ):
        return False
    if re.search(rf"(?i){FILE}|\beval-\w", sentence):
        if re.match(r"(?i)\W*eval-", sentence) and not re.match(HEADED, sentence):
            return False
        return bool(re.search(rf"(?i)\b(?:{SAVE}|{ORDER_VERBS})\b", sentence)) or sentence.endswith(".md")
    # Without a file, a question that is put to "you" or speaks of "I" and "we" is talk.
    return (
        len(words) > 3
        and bool(re.match(REQUEST, sentence))
        and not re.match(r"(?i)(?:what|which|how|why|who|where|when)\b.*\b(?:you|your|we|i|my)\b", sentence)
    )


# ----------------------------------------------------------------------------------------------
# From a sentence to a task
# ----------------------------------------------------------------------------------------------


def build_task(raw, persona, index, base=BASE, taken=()):
    """Turn a raw answer into a finished task dict, or None where it holds no task.

    `index` numbers the persona's tasks from 1, `taken` is a set of outputs that are in use; those of the fixed
    suite always are. The dict has the keys of the JSON format in their order.
    """
    raw = raw.encode("utf-8", "replace").decode("utf-8")
    sentence = extract_task(raw)
    if sentence is None:
        return None
    headed = re.match(HEADED, sentence)
    if headed:
        sentence = f"{sentence[headed.end() :].rstrip(' .')} and save to {headed[1]}"
    found = _named_file(sentence)
    file = re.split(r"[\\/]", sentence[slice(*found)])[-1] if found else ""
    slug = _slug(re.sub(r"\.\w+$", "", file))
    slug = slug or _slug(" ".join(_topic_words(sentence))) or f"{persona['id'].lower().replace('_', '-')}-{index}"
    folder, fixed = base.rstrip("/"), {row[3] for row in FIXED_TASKS}
    stem = slug[: LONGEST_SLUG - 6].rstrip("-")
    names = itertools.chain([f"eval-{slug}.md"], (f"eval-{stem}-{number}.md" for number in itertools.count(2)))
    name = next(n for n in names if n not in fixed and f"{folder}/{n}" not in taken)
    text = _with_output(sentence, found, name)
    count = _find_count(text)
    criteria = build_criteria(text)
    output = f"{folder}/{name}"
    return {
        "id": f"{persona['id']}_{index}",
        "desc": f"generated: {persona['role']}",
        "task": text.replace(name, output),
        "output": output,
        "criteria_specs": criteria,
        "persona": persona["name"],
        "raw_response": raw,
        "count_from": count[1] if count and criteria[0]["type"] == "exact_sections" else None,
    }


def _named_file(sentence):
    """Return where the file that a sentence saves to stands in it, as (start, end), or None.

    It is the one after a verb of saving, else the last that is called eval-, else the last Markdown file.
    """
    order = rf"(?i)\b{SAVE}\b(?:\s+(?!and\b|then\b)[\w’'-]+){{0,8}}?\s+[\"'“‘(]?(?P<file>{FILE}|[\w./~\\-]*\beval-[\w.-]*\w)"
    places = [found.span("file") for found in re.finditer(order, sentence)]
    places = places or [found.span() for found in re.finditer(r"(?i)(?<![\w-])[\w./~\\-]*\beval-[\w.-]*\w", sentence)]
    places = places or [found.span() for found in re.finditer(FILE, sentence) if found[0].lower().endswith((".md", ".markdown"))]
    return places[-1] if places else None


def _slug(name):
    """Return a name as a-z, 0-9 and single hyphens, at most LONGEST_SLUG long, cut between words."""
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss").replace("ø", "o").replace("æ", "ae").replace("ł", "l")).casefold()
    folded = "".join(c for c in folded if not unicodedata.combining(c))
    slug = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")
    slug = re.sub(r"^eval(?:-|$)", "", slug)
    if len(slug) > LONGEST_SLUG:
        cut = slug[: LONGEST_SLUG + 1].rfind("-")
        slug = slug[: cut if cut > LONGEST_SLUG // 2 else LONGEST_SLUG]
    return slug.strip("-")


def _topic_words(sentence):
    """Return the words that name a sentence's topic, in their order: at most six of them."""
    about = content_words(sentence)
    words = re.findall(r"[^\W_][\w+]*", re.sub(r"['’](?:s|ve|m|re|ll|d)\b", "", sentence))
    return [word for word in words if content_words(word) & about and not re.fullmatch(rf"(?i){SAVE}|{ORDER_VERBS}", word)][:6]


def _with_output(sentence, found, name):
    """Return the sentence with the file `name` in it exactly once: where it named its file, or at the end."""
    if not found:
        bare = re.sub(
            rf"(?i),?\s*(?:and|then)?\s*\b{SAVE}(?: (?:it|them|the|your|my|a|an|results?|findings|report|output|as|to|in|into|markdown|md|file))*[.!]?$",
            "",
            sentence,
        )
        return f"{(bare if len(bare) > 20 else sentence).rstrip(' .!?;:,')} and save to {name}"
    start, end = found
    file = re.split(r"[\\/]", sentence[start:end])[-1].lower()

    def once(part):
        """Put a word in the place of a further mention of the same file."""
        return re.sub(r"[^\s\"'“”]+", lambda word: "the report" if word[0].lower().endswith(file) else word[0], part)

    before, after = once(sentence[:start]), once(sentence[end:])
    return re.sub(r"[.!?\s]+$", "", f"{before}{name}{after}") if re.fullmatch(r"[\"'”’)\s]*[.!?]?", after) else f"{before}{name}{after}"


# ----------------------------------------------------------------------------------------------
# Near-duplicates
# ----------------------------------------------------------------------------------------------


SMALL_SET = 400  # tasks


class TaskIndex:
    """The tasks so far by the words of their topics, to find the one that is closest to a new task.

    Two sets of words reach a Jaccard index of t only if any ceil(t * size) of the one hold a word of the
    other (prefix filtering: Chaudhuri, Ganti and Kaushik 2006), so looking up the rarest words finds
    every near-duplicate and few others. `closest` and `closest_fixed` are the highest similarities
    that were seen among the tasks that were added: exact up to SMALL_SET tasks and from the threshold on.
    """

    def __init__(self, tasks=()):
        self.words, self.ids, self.places = [], [], {}
        self.fixed = [(content_words(text), id) for id, _, text, *_ in FIXED_TASKS]
        self.closest, self.closest_fixed = 0.0, 0.0
        for task in tasks:
            self.add(task, self.nearest(task["task"]))

    def nearest(self, task_text):
        """Return the closest fixed task and the closest other one that matters: two (similarity, id) pairs."""
        words = content_words(task_text)
        rarest = sorted(words, key=lambda word: (len(self.places.get(word, ())), word))
        # In a small set the closest pair is looked for however far apart; in a large one only what is refused.
        bound = 0.1 if len(self.ids) < SMALL_SET else DUPLICATE_THRESHOLD
        needed = math.ceil(bound * len(words))
        near = set().union(*(self.places.get(word, ()) for word in rarest[: len(words) - needed + 1]))
        other = max(((similarity(words, self.words[place]), self.ids[place]) for place in near), default=(0.0, ""))
        return max((similarity(words, fixed), id) for fixed, id in self.fixed), other

    def add(self, task, nearest):
        """Add a task dict, given what nearest() said of it."""
        self.closest_fixed = max(self.closest_fixed, nearest[0][0])
        self.closest = max(self.closest, nearest[1][0])
        words = content_words(task["task"])
        for word in words:
            self.places.setdefault(word, []).append(len(self.ids))
        self.words.append(words)
        self.ids.append(task["id"])


# ----------------------------------------------------------------------------------------------
# Backends
# ----------------------------------------------------------------------------------------------

IDLE = 0.2  # seconds without news after which the run looks around
ATTEMPTS = 3  # answers that a model may give for one task
FAILURES_IN_A_ROW = 3  # after which a backend is not asked again in this run
TEMPERATURE = 0.8
ANSWER_TOKENS = 512  # a task is one line; a model that thinks aloud needs the rest
PAUSES = (0.5, 1.0, 2.0)  # seconds before a failed call is made again
START_CHECK = 2.0  # seconds in which a server must answer at the start
DEFAULT_MODEL = "llama3.2"
DEFAULT_HOST = "127.0.0.1:11434"
GET_TINYTROUPE = "pip install git+https://github.com/microsoft/TinyTroupe.git@main"


class BackendError(Exception):
    """A backend can't start or failed on a task; `ends` tells that it would fail on every other task too."""

    def __init__(self, reason, ends=False):
        super().__init__(reason)
        self.ends = ends


def call_seed(seed, persona_id, index, attempt):
    """Return the seed of one model call: 31 bits of a hash, so that every call differs and can be repeated."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{persona_id}|{index}|{attempt}".encode()).digest()[:4], "big") >> 1


def start_builtin(settings):
    """Return the backend that asks nobody: answers from BANK (or a persona's own `topics`), in an order set by the seed."""
    queues: dict = {}

    def ask(persona, prompt, index, attempt):
        queue = queues.setdefault(persona["id"], _bank_answers(persona, settings["seed"]))
        try:
            return next(queue)
        except StopIteration:
            reason = "holds no more tasks for" if persona["id"] in BANK or persona.get("topics") else "has no topics for"
            raise BackendError(f"the built-in bank {reason} {persona['id']}; ask a model, or give the persona `topics`") from None

    most = max(len(BANK[p]) for p in BANK) * len(FACETS)
    return {"name": "builtin", "model": None, "server": None, "ask": ask, "attempts": most, "serial": True}


def _bank_answers(persona, seed):
    """Yield raw answers of one persona: each topic under one facet, then each under the next."""
    chance = random.Random(f"{seed}|{persona['id']}")
    topics = list(persona.get("topics") or BANK.get(persona["id"], ()))
    facets = PERSONA_FACETS[persona["id"]].split() if persona["id"] in PERSONA_FACETS else list(FACETS)
    chance.shuffle(topics)
    chance.shuffle(facets)
    for turn in range(len(facets)):
        for place, topic in enumerate(topics):
            facet = facets[(turn + place) % len(facets)]
            things, adjective = FACETS[facet]
            n = chance.choices((3, 4, 5, 6, 7), (4, 2, 5, 1, 1))[0]
            form = chance.choice(EXACT_FORMS if chance.random() < 0.6 else OPEN_FORMS)
            words = NUMBER_WORDS[n] if chance.random() < 0.3 else str(n)
            sentence = form.format(n=words, things=things.format(topic=topic), adjective=adjective)
            yield f"TASK: {sentence} and save to eval-{_slug(topic)}-{facet}.md"


def parse_host(text, source):
    """Return an Ollama address as a URL that a client can use; raises BackendError naming `source`.

    Takes what people set: no scheme, no port, spaces, a path behind a proxy, IPv6 with or without
    brackets. Addresses that only a server can bind (0.0.0.0, ::) become loopback.
    """
    from ipaddress import IPv6Address, ip_address
    from urllib.parse import urlsplit

    def wrong(reason):
        return BackendError(f"{source}={text!r} is no server address: {reason}; set it like {DEFAULT_HOST} or https://host/path", ends=True)

    bare = text.strip().strip("\"'").strip()
    scheme, _, rest = bare.rpartition("://")
    if scheme.lower() not in ("", "http", "https"):
        raise wrong(f"the scheme {scheme!r} is not http or https")
    with contextlib.suppress(ValueError):
        rest = f"[{IPv6Address(rest.rstrip('/').split('%')[0])}]"
    try:
        parts = urlsplit(f"{scheme.lower() or 'http'}://{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise wrong(str(error)) from None
    if parts.username or parts.query or parts.fragment:
        raise wrong("it may hold a host, a port and a path only (a key goes into OLLAMA_API_KEY)")
    if not host and not rest.startswith(":") or re.search(r"[\s,]", parts.netloc):
        raise wrong("there is no host in it" if not host else "there is a space or comma in it")
    host = host or "127.0.0.1"
    with contextlib.suppress(ValueError):
        address = ip_address(host)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(str(address), str(address))
    port = port or {"": 11434, "http": 80, "https": 443}[scheme.lower()]
    return f"{scheme.lower() or 'http'}://{f'[{host}]' if ':' in host else host}:{port}{parts.path.rstrip('/')}"


def import_ollama():
    """Import the ollama package; its import builds a client that trips over proxy and address variables, so they are hidden."""
    trips = [name for name in os.environ if re.fullmatch(r"(?i)\w+_proxy|OLLAMA_HOST|OLLAMA_API_KEY|SSL_CERT_\w+", name)]
    hidden = {name: os.environ.pop(name) for name in trips}
    try:
        import ollama
    except ImportError as error:
        raise BackendError(f"the ollama package can't be imported ({error}); pip install ollama", ends=True) from None
    finally:
        os.environ.update(hidden)
    return ollama


def ollama_client(settings, timeout):
    """Return (a client for the configured server, its URL); raises BackendError."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    source = "--host" if settings["host"] else "OLLAMA_HOST"
    url = parse_host(settings["host"] or os.environ.get("OLLAMA_HOST") or DEFAULT_HOST, source)
    host = urlsplit(url).hostname or ""
    local = host == "localhost"
    with contextlib.suppress(ValueError):
        local = local or ip_address(host).is_loopback
    ollama = import_ollama()
    try:
        # A proxy set for the web must not catch requests to this machine.
        return ollama.Client(host=url, timeout=timeout, trust_env=not local), url
    except Exception as error:
        raise BackendError(f"no client for {url}: {_reason(error)} (proxy variables and OLLAMA_API_KEY are read here)", ends=True) from None


def _reason(error):
    """Return an exception's text in one line, with its type where the text alone says nothing."""
    text = " ".join(str(getattr(error, "error", "") or error).split())[:200]
    return text if len(text.split()) > 2 else f"{type(error).__name__} {text}".strip()


def start_ollama(settings):
    """Return the backend that asks a model of an Ollama server; raises BackendError where it can't be used."""
    client, url = ollama_client(settings, START_CHECK)
    try:
        model, note = _within(START_CHECK, lambda: _choose_model(client, url, settings["model"]))
    except BackendError:
        raise
    except Exception as error:
        raise BackendError(_call_error(error, url), ends=True) from None
    client, _ = ollama_client(settings, settings["timeout"])
    chat = functools.partial(ollama_chat, client, url, model, {"think": True})

    def ask(persona, prompt, index, attempt):
        seed = call_seed(settings["seed"], persona["id"], index, attempt)
        # From the second attempt on the answer's shape is forced, which keeps small models to the point.
        shape = ANSWER_SCHEMA if attempt > 1 else None
        messages = [{"role": "user", "content": prompt}]
        return chat(messages, shape, seed, ANSWER_TOKENS * attempt, settings["timeout"])

    return {"name": "ollama", "model": model, "server": url, "ask": ask, "attempts": ATTEMPTS, "serial": False, "note": note}


def _choose_model(client, url, wanted):
    """Return (the model to ask, a note on why that one or None); raises BackendError naming what the server has."""
    names = [model.model for model in client.list().models if model.model]
    default = wanted or os.environ.get("OLLAMA_MODEL") or DEFAULT_MODEL
    for name in names:
        if name.lower() in (default.lower(), f"{default.lower()}:latest"):
            return name, None
    has = f"it has {', '.join(names)}" if names else "it has no models"
    if wanted or os.environ.get("OLLAMA_MODEL"):
        raise BackendError(f"model {default!r} is not on {url}; {has}; get it with: ollama pull {default}", ends=True)
    for name in names:
        try:
            capabilities = client.show(name).capabilities
        except Exception:  # a broken model is no reason against the next one
            continue
        if capabilities is None or "completion" in capabilities:
            return name, f"{DEFAULT_MODEL} is not on the server, so the first model that can chat is used"
    raise BackendError(f"no model that can chat on {url}; {has}; get one with: ollama pull {DEFAULT_MODEL}", ends=True)


def ollama_chat(client, url, model, state, messages, shape, seed, tokens, timeout):
    """Make one chat call, again after a pause where the server failed; return the text of the answer.

    `shape` is a JSON schema or None, `tokens` bounds the answer, `timeout` is in seconds. `state["think"]`
    remembers whether the server takes the field that turns thinking off. Raises BackendError; an empty
    or cut answer is returned as "", which is no task.
    """
    size = sum(len(message["content"]) for message in messages)
    # Ollama cuts a prompt that is longer than num_ctx without a word; a token has 3 characters or more.
    room = -(-(size // 3 + tokens) // 2048) * 2048
    options = {"temperature": TEMPERATURE, "seed": seed, "num_predict": tokens, "num_ctx": room}
    pauses = iter(PAUSES)
    while True:
        extra = {"think": False} if state["think"] else {}
        call = functools.partial(client.chat, model=model, messages=messages, format=shape, options=options, stream=False, **extra)
        try:
            # The client's own limit is on each wait for data, and a server may send a little now and then.
            reply = _within(timeout, call)
            if reply.done_reason in ("length", "load"):
                return ""
            return reply.message.content or ""
        except Exception as error:
            status = getattr(error, "status_code", 0)
            if status == 400 and extra:
                state["think"] = False  # perhaps because of that field: once more without it
                continue
            reason = _call_error(error, url, model, timeout)
            if status in (401, 403, 404):
                raise BackendError(reason, ends=True) from None
            if "Timeout" in type(error).__name__ or 400 <= status < 500 and status != 429:
                raise BackendError(reason) from None
            pause = next(pauses, None)
            if pause is None:
                raise BackendError(reason) from None
            time.sleep(pause)


def _call_error(error, url, model=None, timeout=START_CHECK):
    """Return one line for whatever a call to the server raised, with the way out."""
    status = getattr(error, "status_code", 0)
    if "Timeout" in type(error).__name__:
        way_out = f"--timeout is {timeout:g} s" if model else "start it with: ollama serve"
        return f"{url} did not answer within {timeout:g} s; {way_out}"
    if isinstance(error, ConnectionError):
        return f"no server at {url}; start it with: ollama serve"
    if status in (401, 403):
        return f"{url} refused access (HTTP {status}); the client sends the key in OLLAMA_API_KEY as its Authorization header"
    if status == 404:
        return f"{url}: {_reason(error)}; get it with: ollama pull {model}" if model else f"{url} is no Ollama server (HTTP 404)"
    if status > 0:
        return f"{url} answered HTTP {status}: {_reason(error)}"
    return f"{url} gave no usable reply: {_reason(error)}"


# ----------------------------------------------------------------------------------------------
# TinyTroupe as a backend
# ----------------------------------------------------------------------------------------------

TINYTROUPE_TOKENS = 1024  # its answers are JSON with several actions and a state of mind
QUIET_LOGGING = {"loglevel": "NONE", "loglevel_console": "NONE", "loglevel_file": "NONE"}  # lower case, as ConfigParser keeps keys


class OllamaForTinyTroupe:
    """The client that TinyTroupe asks: its one method, on Ollama's own chat call.

    TinyTroupe's client for Ollama uses the OpenAI-compatible path, where num_ctx is ignored and its
    prompt of 20 KB is cut. `deadline` (of time.monotonic) and `seed` are set before each question.
    """

    def __init__(self, chat):
        self.chat, self.deadline, self.seed = chat, 0.0, 0

    def send_message(self, messages, response_format=None, **options):
        """Answer one request: messages in, {"role", "content": a dict of actions} out. Raises BackendError."""
        # Each content comes as a JSON string of the real text; a model reads the text itself better.
        plain = [{"role": m["role"], "content": _unquoted(m["content"])} for m in messages]
        shape = response_format.model_json_schema() if hasattr(response_format, "model_json_schema") else "json"
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise BackendError("the time for one answer is over")
        # Where a server ignores the schema, thinking or a fence may stand around the JSON.
        reply = _without_thinking(_clean(self.chat(plain, shape, self.seed, TINYTROUPE_TOKENS, left)))
        try:
            content = json.loads(re.sub(r"(?s)^[^{]*```\w*\n|\n```[^}]*$", "", reply))
        except ValueError:
            raise BackendError("the model's answer is not the JSON that TinyTroupe asks for") from None
        if not isinstance(content, dict):
            raise BackendError("the model's answer is not a JSON object")
        # TinyTroupe takes any missing or empty state of mind amiss.
        state = content.get("cognitive_state")
        content["cognitive_state"] = state if isinstance(state, dict) else {"goals": "", "context": [], "attention": "", "emotions": ""}
        actions = content.get("actions") or content.get("action")
        content["actions"] = [
            {**action, "content": action.get("content") or "", "target": action.get("target") or ""}
            for action in (actions if isinstance(actions, list) else [actions])
            if isinstance(action, dict) and isinstance(action.get("type"), str)
        ]
        return {"role": "assistant", "content": content}


def _unquoted(text):
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def start_tinytroupe(settings):
    """Return the backend in which TinyTroupe plays the personas; raises BackendError where it can't be used.

    It runs on the same Ollama model as the ollama backend, or as a config.ini of TinyTroupe's says.
    """
    from importlib.util import find_spec

    found = find_spec("tinytroupe")
    places = list(found.submodule_search_locations or ()) if found else []
    if not found:
        raise BackendError(f"it is not installed; {GET_TINYTROUPE}", ends=True)
    if not any(os.path.exists(os.path.join(place, name)) for place in places for name in ("agent", "agent.py")):
        raise BackendError(f"the installed tinytroupe is the empty placeholder; {GET_TINYTROUPE}", ends=True)
    config, source = _tinytroupe_config(settings["tinytroupe_config"])
    api_type = config.get("OpenAI", "API_TYPE", fallback="openai").lower() if source else "ollama"
    needed = {"openai": ("OPENAI_API_KEY",), "azure": ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_KEY"), "ollama": ()}
    if api_type not in needed:
        raise BackendError(f"{source} has API_TYPE {api_type!r}; known: {', '.join(needed)}", ends=True)
    for name in needed[api_type]:
        if not os.environ.get(name):
            raise BackendError(f"{source} uses {api_type}, which needs the variable {name}", ends=True)
    backend = {
        "name": "tinytroupe",
        "model": config.get("OpenAI", "MODEL", fallback=api_type),
        "server": f"as {source} says",
        "note": f"TinyTroupe is configured by {source}" if source else None,
    }
    if api_type == "ollama":
        if source:
            # A file may name the model, and the server by its OpenAI-compatible path.
            server = re.sub(r"/v1/?$", "", config.get("OpenAI", "BASE_URL", fallback=""))
            model = config.get("OpenAI", "MODEL", fallback=None)
            settings = settings | {"model": settings["model"] or model, "host": settings["host"] or server or None}
        ollama = start_ollama(settings)
        backend |= {"model": ollama["model"], "server": ollama["server"], "note": backend["note"] or ollama["note"]}
    think = {"think": True}

    def chat(messages, shape, seed, tokens, timeout):
        client, url = ollama_client(settings, timeout)
        return ollama_chat(client, url, backend["model"], think, messages, shape, seed, tokens, settings["timeout"])

    try:
        person_type, clients = _import_tinytroupe(config)
    except Exception as error:
        raise BackendError(f"it can't be imported{f' with {source}' if source else ''}: {_reason(error)}", ends=True) from None
    bridge = OllamaForTinyTroupe(chat)
    if api_type == "ollama":
        clients.register_client("ollama", bridge)
    clients.force_api_type(api_type)
    # Neither memory episodes, which cost further requests, nor the check that turns an answer like the
    # last one into silence, has a use for a person who is asked once.
    person_type.MIN_EPISODE_LENGTH = person_type.MAX_EPISODE_LENGTH = 10**9
    person_type.MAX_ACTION_SIMILARITY = None

    def ask(persona, prompt, index, attempt):
        bridge.seed = call_seed(settings["seed"], persona["id"], index, attempt)
        bridge.deadline = time.monotonic() + settings["timeout"]
        try:
            # A moment more than the calls below have, which can say what went wrong.
            return _within(settings["timeout"] + 1.0, lambda: _talk(person_type, persona, prompt))
        except TimeoutError:
            # Its person may still be acting, and TinyTroupe can't have two at a time.
            raise BackendError(f"no answer within {settings['timeout']:g} s", ends=True) from None
        except BackendError:
            raise
        except Exception as error:
            raise BackendError(f"it failed: {_reason(error)}") from None

    return backend | {"ask": ask, "attempts": ATTEMPTS, "serial": True, "falls": True}


def _tinytroupe_config(path):
    """Return (the configuration for TinyTroupe as a ConfigParser, the user's file that it comes from or None)."""
    import configparser

    none = configparser.ConfigParser(interpolation=None)
    config = configparser.ConfigParser(interpolation=None)
    source = path or ("config.ini" if os.path.exists("config.ini") else None)
    if source:
        try:
            with open(os.path.expanduser(source), encoding="utf-8") as file:
                config.read_file(file)
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            if path:
                raise BackendError(f"--tinytroupe-config: {path} can't be read: {_reason(error)}", ends=True) from None
            config, source = none, None
        if not path and not config.has_section("OpenAI"):
            config, source = none, None  # some other program's
    config["Logging"] = (dict(config["Logging"]) if config.has_section("Logging") else {}) | QUIET_LOGGING
    return config, source


def _import_tinytroupe(config):
    """Import TinyTroupe without its prints, log file and traces in logging, sys.path and the current folder.

    It reads config.ini from the current folder, once, at import, so it is imported in a temporary one.
    Returns (its TinyPerson class, its clients module).
    """
    import io
    import logging
    import tempfile

    root, here, paths = logging.getLogger(), os.getcwd(), list(sys.path)
    level, handlers = root.level, list(root.handlers)
    guard = logging.NullHandler()  # without any handler its first message would set one up for stderr
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        with open(os.path.join(folder, "config.ini"), "w", encoding="utf-8") as file:
            config.write(file)
        sys.path[:] = [os.path.join(here, p) if p in ("", ".") else p for p in paths]
        os.chdir(folder)
        root.addHandler(guard)
        try:
            import tinytroupe.clients as clients
            from tinytroupe.agent import TinyPerson

            TinyPerson("warm-up")  # the first person imports more, with more to say
            TinyPerson.clear_agents()
        finally:
            os.chdir(here)
            sys.path[:] = paths
            for handler in root.handlers:
                if handler not in handlers:
                    handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
            logging.getLogger("tinytroupe").setLevel(logging.CRITICAL + 1)
    return TinyPerson, clients


def _talk(person_type, persona, prompt):
    """Let TinyTroupe's person hear the question; return all that it said, which is "" for nothing."""
    person_type.clear_agents()  # a name may be used once at a time
    person = person_type(persona["name"])
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+", persona["context"]) if s.strip()]
    person.define("occupation", {"title": persona["role"], "description": persona["context"]})
    person.define("personality", {"traits": sentences})
    person.define("long_term_goals", [s for s in sentences if re.match(r"(?i)is deciding|wants|plans|aims", s)] or sentences)
    person.define("preferences", {"interests": [s for s in sentences if re.match(r"(?i)cares about", s)] or sentences})
    person.define("behaviors", ["Answers a colleague's request in the exact format that was asked for, in one line."])
    person.listen_and_act(prompt, communication_display=False)
    return "\n".join(str(a.get("content", "")) for a in person.pop_latest_actions() if a.get("type") == "TALK")


def _within(timeout, work):
    """Return work(), run in a thread that is given up after `timeout` seconds; raises TimeoutError then, else what it raised."""
    import threading

    outcome: list = []

    def run():
        try:
            outcome.append((work(), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout)
    if not outcome:
        raise TimeoutError(f"no answer within {timeout:g} s")
    value, error = outcome[0]
    if error:
        raise error
    return value


STARTERS = {"tinytroupe": start_tinytroupe, "ollama": start_ollama, "builtin": start_builtin}
BACKENDS = ("auto", *STARTERS)


# ----------------------------------------------------------------------------------------------
# The run
# ----------------------------------------------------------------------------------------------


def open_chain(backend, settings, say):
    """Return the backends to try, in order, as links; the first that starts is started. Raises BackendError where none does."""
    names = list(STARTERS) if backend == "auto" else [backend]
    import threading

    chain = [
        {"name": n, "settings": settings, "say": say, "backend": None, "ended": None, "failures": 0, "lock": threading.Lock()}
        for n in names
    ]
    for link in chain:
        if _usable(link):
            return chain
    raise BackendError("; ".join(f"{link['name']}: {link['ended']}" for link in chain))


def _usable(link):
    """Return a link's backend, started at its first use; None where it can't start or has ended."""
    with link["lock"]:
        if link["backend"] is None and link["ended"] is None:
            try:
                link["backend"] = STARTERS[link["name"]](link["settings"])
            except BackendError as error:
                link["ended"] = str(error)
                link["say"](f"{link['name']}: passed over: {error}")
    return None if link["ended"] else link["backend"]


def ask_for_task(chain, persona, index, taken, accept, say):
    """Ask the chain for one task until `accept(raw, backend)` returns one; return (the task or None, the reasons why not)."""
    reasons: list = []
    for link in chain:
        backend = _usable(link)
        if backend is None:
            # Why a backend was passed over at the start has been said; one that ended on the way is a reason.
            reasons += [f"{link['name']}: {link['ended']}"] if link["failures"] else []
            continue
        prompt = build_prompt(persona, taken)
        try:
            refused = ""
            for attempt in range(1, backend["attempts"] + 1):
                task, refused = accept(backend["ask"](persona, prompt, index, attempt), backend)
                if task:
                    link["failures"] = 0
                    return task, reasons
                if attempt <= ATTEMPTS:
                    reasons.append(f"{link['name']}, attempt {attempt}: {refused}")
            if not backend.get("falls"):
                return None, reasons
            if link is not chain[-1]:
                say(f"{persona['id']}_{index}: no usable task from {link['name']} ({refused}); the next backend is asked")
        except BackendError as error:
            reasons.append(f"{link['name']}: {error}")
            # That the bank has no more for one persona says nothing about the next.
            link["failures"] += link["name"] != "builtin"
            if link["ended"] is None and (error.ends or link["failures"] >= FAILURES_IN_A_ROW):
                link["ended"] = str(error)
                say(f"{link['name']}: not asked again in this run: {error}")
            rest = chain[chain.index(link) + 1 :]
            following = next((other["name"] for other in rest if other["ended"] is None), None)
            if following:
                say(f"{persona['id']}_{index}: {link['name']} failed, so {following} is asked: {error}")
    return None, reasons


def generate(
    personas=PERSONAS,
    count=1,
    backend="auto",
    seed=0,
    base=BASE,
    jobs=4,
    model=None,
    host=None,
    timeout=300.0,
    tinytroupe_config=None,
    existing=(),
    numbering=(),
    chain=None,
    near=None,
    say=say,
    on_event=None,
):
    """Ask each persona for `count` tasks; return the new task dicts, ordered by persona and number.

    `existing` tasks are kept clear of; `numbering` are the tasks after whose numbers the new ones go on
    (those of `existing` with the same ids are not asked for again). `chain` and `near` are what open_chain
    and TaskIndex made, for a caller who wants to look into them. `timeout` is in seconds a call, `say` is
    called with each line for the user, `on_event(what, persona, index, task or None, reasons)` at the "start"
    and when a task is "done", and on_event("idle") now and then.
    Raises BackendError where no backend can start.
    """
    import queue
    import threading

    on_event = on_event or (lambda *event: None)
    settings = {"seed": seed, "model": model, "host": host, "timeout": timeout, "tinytroupe_config": tinytroupe_config}
    chain = chain or open_chain(backend, settings, say)
    near = near or TaskIndex(existing)
    mine = {p["id"]: [t["task"] for t in existing if re.fullmatch(rf"{re.escape(p['id'])}_\d+", t["id"])] for p in personas}
    outputs, ids = {t["output"] for t in existing}, {t["id"] for t in existing}
    lock, finished = threading.Lock(), []
    done: queue.SimpleQueue = queue.SimpleQueue()

    last = {persona["id"]: _last_number(persona, numbering) for persona in personas}
    wanted = [(persona, last[persona["id"]] + turn) for turn in range(1, count + 1) for persona in personas]
    wanted = [(persona, index) for persona, index in wanted if f"{persona['id']}_{index}" not in ids]
    # A persona is asked for one task at a time, so that it can be told the topics it has already given.
    waiting = {p["id"]: collections.deque(item for item in wanted if item[0]["id"] == p["id"]) for p in personas}
    idle, freed = {p["id"] for p in personas}, threading.Condition()

    def accept(persona, index, raw, backend):
        with lock:
            task, refused = admit(raw, persona, index, base, outputs, near)
            if task is None:
                return None, refused
            mine[persona["id"]].append(task["task"])
        return task | {"backend": backend["name"], "model": backend["model"], "seed": seed}, ""

    def work():
        while True:
            with freed:
                while not (free := [id for id in waiting if id in idle and waiting[id]]):
                    if not any(waiting.values()):
                        return
                    freed.wait()
                # The persona with the most to come first, so that none is left alone at the end.
                name = max(free, key=lambda id: len(waiting[id]))
                persona, index = waiting[name].popleft()
                idle.remove(name)
            try:
                on_event("start", persona, index, None, [])
                judge = functools.partial(accept, persona, index)
                done.put((persona, index, *ask_for_task(chain, persona, index, mine[name], judge, say)))
            except BaseException as error:  # raised again in the main thread
                done.put((persona, index, error, []))
            with freed:
                idle.add(name)
                freed.notify_all()

    first = next(link["backend"] for link in chain if link["backend"])
    for _ in range(min(1 if first["serial"] else jobs, len(wanted))):
        threading.Thread(target=work, daemon=True).start()
    left, interrupt = len(wanted), None
    while left:
        try:
            # After Ctrl-C what is finished is still taken.
            persona, index, task, reasons = done.get(timeout=0 if interrupt else IDLE)
        except queue.Empty:
            if interrupt:
                raise interrupt from None
            on_event("idle")
            continue
        except KeyboardInterrupt as error:
            interrupt = error
            continue
        left -= 1
        if isinstance(task, BaseException):
            raise task
        if task:
            finished.append(task)
        on_event("done", persona, index, task, reasons)
    return _in_order(finished, personas)


def admit(raw, persona, index, base, outputs, near):
    """Build a task and enter it into `outputs` (a set) and `near` (a TaskIndex); return (the task or None, why it was refused)."""
    task = build_task(raw, persona, index, base, outputs)
    if task is None:
        return None, f"no task in the answer {_shown(raw)}"
    nearest = near.nearest(task["task"])
    close, other = max(nearest)
    if close >= DUPLICATE_THRESHOLD:
        return None, f"too close to {other} ({close:.2f}): {_shown(_topic(task['task']))}"
    near.add(task, nearest)
    outputs.add(task["output"])
    return task, ""


def _last_number(persona, tasks):
    """Return the highest number among a persona's tasks, 0 for none."""
    found = (re.fullmatch(rf"{re.escape(persona['id'])}_(\d+)", task["id"]) for task in tasks)
    return max((int(m[1]) for m in found if m), default=0)


def _shown(text):
    text = " ".join(str(text).split())
    return repr(text if len(text) <= 80 else text[:77] + "...")


def save(tasks, path, base=BASE):
    """Write tasks as JSON, whole or not at all; raises SuiteError where they would not load or their criteria can't be met."""
    check_whole(tasks, path, base)
    write_whole(path, as_json(tasks))


def check_whole(tasks, path, base):
    """Raise SuiteError where load_generated_suite would refuse the tasks, or where no report could pass their criteria."""
    check_generated(tasks, str(path), base)
    flags = {}
    for task in tasks:  # many tasks share their criteria, and one proof is enough for them
        specs = json.dumps(task["criteria_specs"])
        if specs not in flags:
            flags[specs] = prove(task["criteria_specs"])[2]
    faults = [f"{path}: {task['id']}: {flag}" for task in tasks for flag in flags[json.dumps(task["criteria_specs"])]]
    if faults:
        raise SuiteError(faults)


def replay(old, personas, base, near, say):
    """Build every task of a parsed JSON array anew from its raw answer; return those that could be built."""
    tasks: list = []
    outputs: set = set()
    for number, stored in enumerate(old):
        raw, id = (stored.get("raw_response"), stored.get("id")) if isinstance(stored, dict) else (None, None)
        name, _, index = str(id).rpartition("_")
        if not isinstance(raw, str) or not name or not index.isdecimal():
            say(f"task {number + 1}: it has no raw_response and id to build it from")
            continue
        role = str(stored.get("desc", "")).removeprefix("generated: ")
        persona = next((p for p in personas if p["id"] == name), {"id": name, "name": stored.get("persona") or name, "role": role})
        task, refused = admit(raw, persona, int(index), base, outputs, near)
        if task:
            tasks.append(task | {key: value for key, value in stored.items() if key not in task})
        else:
            say(f"{id}: {refused}")
    return tasks


# ----------------------------------------------------------------------------------------------
# Personas of the user's own
# ----------------------------------------------------------------------------------------------

PERSONA_KEYS = ("id", "name", "role", "context")


def load_personas(path):
    """Read personas from a TOML ([[personas]]) or JSON file; raises SuiteError naming each fault."""
    import tomllib

    try:
        with open(os.path.expanduser(path), "rb") as file:
            text = file.read().decode("utf-8-sig")
        data = json.loads(text) if path.lower().endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise SuiteError([f"--personas: {path} can't be read: {error.strerror}"]) from None
    except (ValueError, RecursionError) as error:
        raise SuiteError([f"--personas: {path} is not valid {'JSON' if path.lower().endswith('.json') else 'TOML'}: {error}"]) from None
    found = data.get("personas") if isinstance(data, dict) else data
    if not isinstance(found, list) or not found:
        raise SuiteError([f"--personas: {path} must hold a list named personas, each with {', '.join(PERSONA_KEYS)}"])
    faults, ids = [], set()
    for number, persona in enumerate(found):
        where = f"--personas: {path}: persona {number + 1}"
        if not isinstance(persona, dict):
            faults.append(f"{where}: must be a table, not {_shown(repr(persona))}")
            continue
        for key in PERSONA_KEYS:
            value = persona.get(key)
            if not isinstance(value, str) or not value.strip():
                faults.append(
                    f"{where}: {key} " + ("is missing" if key not in persona else f"must be a text that is not empty, not {value!r}")
                )
        id = persona.get("id")
        if isinstance(id, str) and id.strip():
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", id):
                faults.append(f"{where}: id {id!r} may have letters, digits, '.', '_' and '-' only")
            if id.casefold() in ids:
                faults.append(f"{where}: id {id!r} is taken")
            ids.add(id.casefold())
        topics = persona.get("topics", [])
        if not isinstance(topics, list) or not all(isinstance(t, str) and t.strip() for t in topics):
            faults.append(f"{where}: topics must be a list of texts, not {_shown(repr(topics))}")
        faults += [f"{where}: {key} is no key of a persona" for key in persona if key not in (*PERSONA_KEYS, "topics")]
    if faults:
        raise SuiteError(faults)
    return found


# ----------------------------------------------------------------------------------------------
# Command line
# ----------------------------------------------------------------------------------------------

PARTIAL_SHARE = 0.05  # of the time may go into writing the unfinished tasks
PARTIAL_RETRY = 60.0  # seconds after which writing them is tried, and its failure told, again


def parse_args(argv):
    parser = flag_parser("tinytroupe_tasks.py", __doc__)
    for flag in ("--dry-run", "--json", "--append", "--resume", "--list-personas"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--model", "--host", "--tinytroupe-config", "--only", "--personas", "--replay"):
        parser.add_argument(flag)
    parser.add_argument("--count", type=positive(int), default=1)
    parser.add_argument("--out", default=GENERATED_FILE)
    parser.add_argument("--backend", choices=BACKENDS, default="auto")
    parser.add_argument("--timeout", type=positive(float), default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--jobs", type=positive(int), default=4)
    args = parser.parse_args(argv)
    if args.replay and (args.append or args.resume):
        parser.error("--replay builds a whole file anew; it goes with neither --append nor --resume")
    args.base = args.base if args.base.startswith("~") else os.path.abspath(args.base)
    args.out = os.path.expanduser(args.out)
    folder = os.path.dirname(os.path.abspath(args.out))
    if is_device(args.out) and not os.path.isdir(args.out):
        parser.error(f"--out: {args.out!r} is no regular file; --json prints the tasks on stdout")
    if not args.out or os.path.isdir(args.out) or not args.dry_run and not os.access(folder, os.W_OK | os.X_OK):
        parser.error(f"--out: {args.out!r} is no file that can be written; name one in a folder that exists")
    return args


def select_personas(args):
    """Return the personas that the arguments ask for; raises SuiteError."""
    personas = load_personas(args.personas) if args.personas else PERSONAS
    if args.only is None:
        return personas
    return pick({p["id"]: p for p in personas}, args.only, "--only: no persona")


def main(argv=None):
    """Run the command line; return the exit status (see --help)."""
    ready_streams()
    args = parse_args(argv)
    try:
        personas = select_personas(args)
        if args.list_personas:
            lines = [f"{p['id']:<12} {p['name']}, {p['role']}. {p['context']}" for p in personas]
            return 0 if say("\n".join(lines), sys.stdout) else 2
        interrupt_on_signals()
        return _replayed(args, personas) if args.replay else _generated(args, personas)
    except SuiteError as error:
        for fault in error.faults:
            say(f"tinytroupe_tasks.py: {fault}")
        return 2
    except BackendError as error:
        say(f"tinytroupe_tasks.py: {error}")
        return 1
    except OSError as error:
        say(f"tinytroupe_tasks.py: {args.out} can't be written: {error.strerror}")
        return 2
    except KeyboardInterrupt:
        say("interrupted before the first question")
        return 130


def _replayed(args, personas):
    start, near = time.monotonic(), TaskIndex()
    old = read_json(args.replay)
    if not isinstance(old, list) or not old:
        raise SuiteError([f"{args.replay}: must be a JSON array of at least one task"])
    tasks = replay(old, personas, args.base, near, say)
    if len(tasks) < len(old) and os.path.exists(args.out) and os.path.samefile(args.replay, args.out) and not args.dry_run:
        raise SuiteError(
            [f"--replay: {len(old) - len(tasks)} of {len(old)} could not be built, so {args.out} is left as it was; name another --out"]
        )
    return _finish(args, [], tasks, len(old), near, time.monotonic() - start)


def _generated(args, personas):
    """Ask for the tasks, keeping what is done in a file beside OUT for as long as the run lasts."""
    start = time.monotonic()
    partial = re.sub(r"\.json$", "", args.out) + ".partial.json"
    kept = []
    if args.append and os.path.exists(args.out):
        stored = read_json(args.out)
        kept = check_generated(stored, args.out, args.base)
        if kept[0]["output"] != stored[0]["output"]:
            say(f"the tasks that {args.out} has are moved to {args.base} too")
    existing = kept
    if args.resume:
        if not os.path.exists(partial):
            raise SuiteError([f"--resume: there is no {partial} from an interrupted run; run without --resume"])
        existing = check_generated(read_json(partial), partial, args.base)
        say(f"going on from {len(existing)} tasks in {partial}")
    elif os.path.exists(partial) and not args.dry_run:
        os.replace(partial, f"{partial}.bak")
        say(f"the tasks of an interrupted run are kept in {partial}.bak (--resume goes on from {partial})")
    options = {
        "seed": args.seed,
        "model": args.model,
        "host": args.host,
        "timeout": args.timeout,
        "tinytroupe_config": args.tinytroupe_config,
    }
    chain = open_chain(args.backend, options, say)
    first = next(link["backend"] for link in chain if link["backend"])
    say(f"backend {first['name']}, model {first['model'] or 'none'}, server {first['server'] or 'none'}, seed {args.seed}")
    if first.get("note"):
        say(first["note"])
    if first["name"] == "builtin":
        say(
            f"no model was asked: the tasks come from the built-in bank (for a model, start Ollama, run `ollama pull {DEFAULT_MODEL}` and try again)"
        )

    near, asked = TaskIndex(existing), args.count * len(personas)
    done: list = []
    written = {"at": 0.0, "took": 0.0, "tasks": 0}

    def keep(now=False):
        """Write what is done beside OUT, as often as the time that writing takes allows."""
        pause = written["took"] / PARTIAL_SHARE
        if args.dry_run or written["tasks"] == len(done) or not now and time.monotonic() - written["at"] < pause:
            return
        begin = time.monotonic()
        try:
            write_whole(partial, as_json([*existing, *done]))
        except OSError as error:
            say(f"{partial} can't be written: {error.strerror}")
            written.update(at=time.monotonic(), took=PARTIAL_RETRY * PARTIAL_SHARE)
            return
        written.update(at=time.monotonic(), took=time.monotonic() - begin, tasks=len(done))

    try:
        with _progress(first, asked) as show:

            def on_event(what, *about):
                if what == "done":
                    persona, index, task, reasons = about
                    done.extend([task] if task else [])
                    if not task:
                        say(f"{persona['id']}_{index}: given up: {'; '.join(reasons)}")
                if what != "start":
                    keep()
                if about:
                    show(what, *about[:3])

            named = {"base": args.base, "jobs": args.jobs, "existing": existing, "numbering": kept}
            made = generate(personas, args.count, args.backend, **options, **named, chain=chain, near=near, say=say, on_event=on_event)
    except BaseException as error:
        keep(now=True)
        if not isinstance(error, KeyboardInterrupt):
            raise
        saved = f"; they are in {partial}, --resume goes on from there" if done and os.path.exists(partial) else ""
        say(f"interrupted: {len(done)} of {asked} tasks made{saved}")
        return 130
    before = {task["id"] for task in kept}
    resumed = [task for task in existing if task["id"] not in before]
    made = _in_order([*resumed, *made], personas)
    try:
        status = _finish(args, kept, made, asked, near, time.monotonic() - start)
    except OSError as error:
        keep(now=True)
        in_partial = written["tasks"] == len(done) and os.path.exists(partial)
        say(
            f"tinytroupe_tasks.py: {args.out} can't be written: {error.strerror}; the tasks are {f'kept in {partial}' if in_partial else 'on stdout'}"
        )
        if args.json or not in_partial:
            say(as_json([*kept, *made]).rstrip("\n"), sys.stdout)
        return 2
    if not args.dry_run and os.path.exists(partial):
        os.unlink(partial)
    return status


def _in_order(tasks, personas):
    """Return tasks by persona and number."""
    places = {persona["id"]: place for place, persona in enumerate(personas)}

    def key(task):
        name, _, index = task["id"].rpartition("_")
        return places.get(name, len(places)), int(index) if index.isdecimal() else 0

    return sorted(tasks, key=key)


@contextlib.contextmanager
def _progress(backend, asked):
    """Yield a function that tells how far the run is: a bar on a terminal, else a line a task, nothing for the bank."""

    def line(what, persona, index, task):
        if what == "done" and task:
            say(f"{persona['id']}_{index}: {_shown(_topic(task['task']))}")

    if backend["name"] == "builtin" or not sys.stderr.isatty():
        yield (lambda *event: None) if backend["name"] == "builtin" else line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    at_work: dict = {}
    with Progress(*columns, console=console_for(sys.stderr), transient=True) as progress:
        bar = progress.add_task("", total=asked)

        def draw(what, persona, index, task):
            if what == "start":
                at_work[persona["id"]] = f"{persona['name']} ({persona['id']}_{index})"
            else:
                at_work.pop(persona["id"], None)
            progress.update(bar, advance=what == "done", description=", ".join(list(at_work.values())))

        yield draw


def _finish(args, kept, made, asked, near, seconds):
    """Show the tasks, write them, and return the exit status."""
    from rich.table import Table
    from rich.text import Text

    if made:
        table = Table(*map(folding, ("id", "persona", "task", "criteria")))
        for task in made:
            sections = task["criteria_specs"][0]
            criteria = f"{sections['type']}({sections['n']})" + (f" from {task['count_from']!r}" if task["count_from"] else "")
            table.add_row(*map(Text, (task["id"], task["persona"], text_without_folder(task), criteria)))
        say(rendered(table, sys.stderr))
    exact = sum(task["criteria_specs"][0]["type"] == "exact_sections" for task in made)
    say(
        f"{len(made)} of {asked} tasks made: {exact} exact, {len(made) - exact} open; closest pair {near.closest:.2f}, closest to a fixed task "
        f"{near.closest_fixed:.2f} (duplicates from {DUPLICATE_THRESHOLD}); {seconds:.1f} s"
    )
    if not made:
        say(f"no task was made, so {args.out} is left as it was")
    elif args.dry_run:
        check_whole([*kept, *made], args.out, args.base)
        say("dry run: nothing was written")
    else:
        save([*kept, *made], args.out, args.base)
        say(f"wrote {_count(len(kept) + len(made), 'task')} to {args.out}")
    if args.json and not say(as_json([*kept, *made]).rstrip("\n"), sys.stdout):
        return 2
    return 0 if made and len(made) >= asked else 1


if __name__ == "__main__":
    sys.exit(main())
