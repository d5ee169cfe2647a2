"""Write or check golden streams and defaults."""

from __future__ import annotations

import sys

import numpy as np
import torch

from sight import registry
from tests.golden import defaults, predictions, stored, stored_defaults, write

USAGE = "usage: python -m tests.golden write METHOD [METHOD ...] | write --all | check [METHOD ...]"


def main(arguments: list[str]) -> int:
    """Run ``write`` for the named methods or ``check`` for the named methods or all."""
    command, *names = arguments or [""]
    if command not in ("write", "check") or (command == "write" and not names):
        print(USAGE)
        return 2
    torch.set_num_threads(1)
    for name in registry.TABLES["methods"] if names in ([], ["--all"]) else names:
        if command == "write":
            write(name)
            print(f"{name}: written")
        else:
            same = "equal" if stored_defaults().get(name) == defaults(name) else "changed"
            print(f"{name}: largest difference {np.abs(predictions(name) - stored(name)).max():.2g}, defaults {same}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
