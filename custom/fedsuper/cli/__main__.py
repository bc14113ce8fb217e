"""`python -m fedsuper.cli` is `fedsuper`."""

import sys

from fedsuper.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
