"""Stand-in for tests: a persona that listens, asks its client and acts."""

import json
import logging
from collections import Counter
from textwrap import dedent, fill
from typing import ClassVar

import rich
from pydantic import BaseModel

from tinytroupe import config_manager, utils

logger = logging.getLogger("tinytroupe")
_GUIDE = "Be the person below in all you do, and end each turn with DONE.\n" * 320
_GO = "Now give the actions of this turn in order, as JSON, and finish with DONE, please."


class Action(BaseModel):
    type: str
    content: str
    target: str


class CognitiveState(BaseModel):
    goals: str
    context: list[str]
    attention: str
    emotions: str


class CognitiveActionsModel(BaseModel):
    actions: list[Action]
    cognitive_state: CognitiveState


def _done():
    return {"type": "DONE", "content": "", "target": ""}


def _similarity(one, other):
    if any(k in one and k in other and one[k] != other[k] for k in ("type", "target")):
        return 0
    a, b = (Counter(action.get("content") or "") for action in (one, other))
    return 1 if a == b else (a & b).total() / (a | b).total()


class TinyPerson:
    MAX_ACTIONS_BEFORE_DONE = 15
    MAX_ACTION_SIMILARITY = 0.85
    MIN_EPISODE_LENGTH = config_manager["min_episode_length"]
    all_agents: ClassVar[dict] = {}
    communication_display = True

    def __init__(self, name=None):
        from tinytroupe.clients import client  # the built-in clients are made now

        assert name is not None, "A TinyPerson must have a name."
        if name in TinyPerson.all_agents:
            raise ValueError(f"Agent name {name} is already in use.")
        TinyPerson.all_agents[name] = self
        self.name, self._client, self._biography = name, client, None
        self._persona = {"name": name, "age": None, "occupation": None}
        self._mental_state = {"emotions": "Calm."}
        self._events, self._actions_buffer, self._episode = [], [], 0

    @staticmethod
    def clear_agents():
        TinyPerson.all_agents = {}

    def define(self, key, value):
        self._persona[key] = dedent(value) if isinstance(value, str) else value

    def get(self, key):
        return self._persona.get(key)

    def _store(self, kind, content):
        self._events.append((kind, content))
        self._episode += 1

    def _show(self, heading, content, max_content_length=None, communication_display=None):
        if communication_display is None:
            communication_display = TinyPerson.communication_display
        if communication_display:
            text = content[:max_content_length]
            text = fill(text, initial_indent="  > ", subsequent_indent="  > ")
            rich.print(f"[bold]{heading} \n{text}[/]")  # text too is read as markup

    def listen(self, speech, **shown):
        said = {"type": "CONVERSATION", "content": speech, "source": ""}
        self._store("stimulus", {"stimuli": [said]})
        self._show(f"USER --> {self.name}: [CONVERSATION]", speech, **shown)

    def _turn(self, contents, shown):
        state = json.dumps([self._persona, self._mental_state], indent=4)
        past = "".join(f"- {kind}: {content}\n" for kind, content in self._events[-30:])
        heard = [content for kind, content in self._events if kind == "stimulus"]
        said = [("system", _GUIDE + state + past), ("user", _GO), ("user", heard[-1])]
        messages = [{"role": role, "content": json.dumps(text)} for role, text in said]
        logger.debug("[%s] Last interaction: %s", self.name, messages[-1])
        client = self._client()
        reply = client.send_message(messages, response_format=CognitiveActionsModel)
        logger.debug("[%s] Received message: %s", self.name, reply)
        _, content = reply["role"], utils.extract_json(reply["content"])
        actions = content["actions"] if "actions" in content else [content["action"]]
        if not actions or actions[-1].get("type") != "DONE":
            actions.append(_done())
        if len(actions) > self.MAX_ACTIONS_BEFORE_DONE:
            actions = [*actions[: self.MAX_ACTIONS_BEFORE_DONE - 1], _done()]
        for action in actions:
            self._commit(action, content, contents, shown)
            if action.get("type") == "DONE":
                break

    def _commit(self, action, content, contents, shown):
        past = [a for kind, a in self._events if kind == "action"]
        past = [a for a in past if a.get("type") != "DONE"]
        limit = self.MAX_ACTION_SIMILARITY
        if limit is not None and past and _similarity(past[-1], action) > limit:
            action = _done()
            self._store("feedback", "That was too much like the last action.")
        self._store("action", action)
        self._actions_buffer.append(action)
        state = content.get("cognitive_state", {})
        self._mental_state |= {k: v for k, v in state.items() if v is not None}
        if "cognitive_state" in content:  # the memory refuses a content of None
            sum(len(a.get("content", "")) for a in (*past, action))
        contents.append({"action": action, "cognitive_state": state})
        heading = f"{self.name} acts: [{action.get('type')}]"
        self._show(heading, action.get("content", ""), **shown)

    def act(self, *, return_actions=False, **shown):
        """One request for a turn, or five when a KeyError or TypeError goes on."""
        contents = []
        for attempt in range(5):
            try:
                self._turn(contents, shown)
                break
            except (KeyError, TypeError):
                if attempt == 4:
                    raise
        if self._episode > self.MIN_EPISODE_LENGTH:
            self._consolidate()
        return contents if return_actions else None

    def _consolidate(self):
        """One or two further requests, of other shapes than that of a turn."""
        if config_manager["enable_memory_consolidation"]:
            if self._biography is None:
                self._biography = self._side_call("Describe yourself.")
            json_only = {"type": "json_object"}
            found = self._side_call("Sum up.", response_format=json_only)
            found = None if found is None else utils.extract_json(found)
            found.get("consolidation")  # AttributeError when that request failed
        self._episode = 0

    def _side_call(self, text, **options):
        messages = [{"role": role, "content": text} for role in ("system", "user")]
        try:
            return self._client().send_message(messages, **options)["content"]
        except Exception:
            logger.exception("Error during LLM call. Will return None.")

    def listen_and_act(self, speech, return_actions=False, **shown):
        self.listen(speech, **shown)
        return self.act(return_actions=return_actions, **shown)

    def pop_latest_actions(self):
        actions, self._actions_buffer = self._actions_buffer, []
        return actions

    def pop_actions_and_get_contents_for(self, action_type, only_last_action=True):
        actions = [a for a in self.pop_latest_actions() if a["type"] == action_type]
        if only_last_action:
            return actions[-1].get("content", "")
        return "\n".join(action.get("content", "") for action in actions)
