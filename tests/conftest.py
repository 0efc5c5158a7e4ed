"""Let the tests import the two scripts from the folder above, and draw the same random cases in every run."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent.parent))

# A red run can be repeated, and a green one was no luck.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
