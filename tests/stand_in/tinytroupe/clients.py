"""Stand-in for tests: the registry of clients, filled when this is imported."""

import json
import logging
import os
import time
from contextlib import suppress
from urllib.request import Request, urlopen

from tinytroupe import config_manager

_api_type_to_client = {}
_forced = [None]


class OpenAIError(Exception):
    """In the real package, of the module openai: a key is missing."""


class OpenAIClient:
    def __init__(self, key=None):
        self.key, self.base_url = key, config_manager["base_url"]
        self.set_api_cache(config_manager["cache_api_calls"])

    def set_api_cache(self, cache_api_calls, cache_file_name=None):
        self.cache_api_calls, self.cache_file_name = cache_api_calls, cache_file_name

    def send_message(self, current_messages, **options):
        """Wants the key when it is asked, and without a server that is named fails and waits as without a network."""
        if self.key and not os.getenv(self.key):
            raise OpenAIError(f"Missing credentials: set {self.key}.")
        wait = config_manager["waiting_time"]
        for _ in range(config_manager["max_attempts"]):
            time.sleep(wait)  # before the request
            if self.key == "OPENAI_API_KEY" and (url := os.getenv("OPENAI_BASE_URL")):
                body = json.dumps({"model": config_manager["model"], "messages": current_messages})
                with suppress(OSError), urlopen(Request(f"{url}/chat/completions", body.encode())) as reply:
                    return json.load(reply)["choices"][0]["message"]
            problem = f"No answer from {self.base_url}/chat/completions"
            logging.getLogger("tinytroupe").error(problem)
            time.sleep(wait)  # and after its failure
            wait *= config_manager["exponential_backoff_factor"]


def register_client(api_type, client):
    _api_type_to_client[api_type] = client


def force_api_type(api_type):
    _forced[0] = api_type


def force_api_cache(cache_api_calls, cache_file_name=None):
    for one in _api_type_to_client.values():
        one.set_api_cache(cache_api_calls, cache_file_name)


def client():
    api_type = _forced[0] or config_manager["api_type"]
    if api_type not in _api_type_to_client:
        raise ValueError(f"API type {api_type} is not supported.")
    return _api_type_to_client[api_type]


register_client("openai", OpenAIClient("OPENAI_API_KEY"))
register_client("azure", OpenAIClient("AZURE_OPENAI_ENDPOINT"))
register_client("ollama", OpenAIClient())
