"""`python -m dsconf`."""

import sys

from dsconf.cli import main

if __name__ == "__main__":
    sys.exit(main())
