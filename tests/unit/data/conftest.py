"""Lets the tests of this folder import their helpers (`data_roots`), whatever import mode pytest runs in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
