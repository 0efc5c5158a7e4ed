"""Let the tests import the two scripts from the folder above."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
