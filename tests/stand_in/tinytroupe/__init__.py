"""Stand-in for tests: the part of TinyTroupe 0.6.0 that an interview touches.

It keeps what the real package does at import to the screen, to the disk, to the
root logger and to `sys.path`. It reaches no service.
"""

import ast
import logging
import sys
from datetime import datetime

sys.path.append(".")

from tinytroupe import utils


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class ConfigManager:
    """The settings by lower-case name; a name unknown at import stays unknown."""

    def __init__(self):
        self._config = {"base_url": None, "temperature": None, "num_ctx": 32000}
        for section, settings in utils.read_config_file().items():
            prefix = "action_generator_" if section == "ActionGenerator" else ""
            self._config |= {prefix + k: _value(v) for k, v in settings.items()}

    def get(self, key, default=None):
        return self._config.get(key.lower(), default)

    __getitem__ = get

    def update(self, key, value):
        key = key.lower()
        logging.basicConfig()  # a bare root logger gets a handler for stderr here
        if key not in self._config:
            return logging.getLogger().warning("unknown config key: %s", key)
        self._config[key] = value
        logging.getLogger().info("Updated config: %s = %s", key, value)
        if key in ("loglevel", "loglevel_console"):
            utils.set_console_loglevel(value)
        if key in ("loglevel", "loglevel_file"):
            utils.set_file_loglevel(value)


print("\n!!!!\nDISCLAIMER: a stand-in for tests; review what models generate.\n!!!!\n")
config = utils.read_config_file()
print(f"TinyTroupe version: stand-in\nCurrent date and time: {datetime.now()}\n")
for _section in config.sections():
    print(f"[{_section}]", *(" = ".join(i) for i in config.items(_section)), sep="\n")
    print()
utils.set_console_loglevel(config["Logging"]["LOGLEVEL_CONSOLE"])
utils.set_file_loglevel(config["Logging"]["LOGLEVEL_FILE"])
logging.getLogger("tinytroupe").debug("TinyTroupe logging initialized")
logging.getLogger().setLevel(logging.INFO)  # by a package that the real one imports
config_manager = ConfigManager()
