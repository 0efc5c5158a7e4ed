"""Stand-in for tests: config.ini, the log handlers, and JSON out of an answer."""

import ast
import configparser
import json
import logging
import re
import sys
from datetime import datetime
from functools import partial
from pathlib import Path

_config = configparser.ConfigParser()
_handlers = {}


def read_config_file():
    """The package's own config.ini and over it, once, the current folder's."""
    if not _config.sections():
        for path in (Path(__file__).with_name("config.ini"), Path.cwd() / "config.ini"):
            print("Found" if _config.read(path) else "Failed to find", "config:", path)
    return _config


def _set_loglevel(target, level):
    root, level = logging.getLogger(), str(level).upper()
    if old := _handlers.pop(target, None):
        root.removeHandler(old)
        old.close()
    if level not in ("NONE", "OFF"):
        handler = logging.StreamHandler(sys.stdout)
        if target == "file":
            path = Path.cwd() / f"tinytroupe.{datetime.now():%Y%m%d_%H%M%S}.log"
            handler = logging.FileHandler(path, encoding="utf-8")
        handler.setLevel(level)
        root.addHandler(handler)
        _handlers[target] = handler
    lowest = min((h.level for h in _handlers.values()), default=logging.INFO)
    for logger in (root, logging.getLogger("tinytroupe")):
        logger.setLevel(lowest)


set_console_loglevel = partial(_set_loglevel, "console")
set_file_loglevel = partial(_set_loglevel, "file")


def extract_json(text):
    """A dict or list as it is, else what is parsed, or {}; r"\\u00e9" is damaged."""
    if isinstance(text, (dict, list)):
        return text
    try:
        inner = re.search(r"[{\[].*[}\]]", text, re.DOTALL).group()
        inner = re.sub(r'\\(?=[^"\\/bfnrt])', "", inner)
        try:
            return json.loads(inner, strict=False)
        except json.JSONDecodeError:
            return ast.literal_eval(inner)
    except (AttributeError, TypeError, ValueError, SyntaxError):
        logging.getLogger("tinytroupe").exception("No JSON in: %s", text)
        return {}
