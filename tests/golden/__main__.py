"""Write or check the golden streams."""

from __future__ import annotations

import sys

import numpy as np
import torch

from sight import registry
from tests.golden import answers, stored, write


def main(arguments: list[str]) -> int:
    """Run ``write`` or ``check`` for the methods named, or for all."""
    if not arguments or arguments[0] not in ("write", "check"):
        print("usage: python -m tests.golden write|check [METHOD ...]")
        return 2
    torch.set_num_threads(1)
    for name in arguments[1:] or registry.TABLES["methods"]:
        if arguments[0] == "write":
            write(name)
            print(f"{name}: written")
        else:
            print(f"{name}: largest difference {np.abs(answers(name) - stored(name)).max():.2g}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
