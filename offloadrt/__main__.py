"""`python -m offloadrt` is the command `offloadrt`."""

from __future__ import annotations

import sys

from offloadrt.cli import main

if __name__ == "__main__":
    sys.exit(main())
