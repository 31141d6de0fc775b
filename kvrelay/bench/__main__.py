"""`python -m kvrelay.bench`: the command where kvrelay is a folder and not installed, such as beside a GPU."""

import sys

from kvrelay import cli

if __name__ == "__main__":
    sys.argv.insert(1, "bench")
    cli.main()
