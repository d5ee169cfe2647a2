"""``python -m sight``: the same commands without the script on the path."""

from sight.apps.cli import main

if __name__ == "__main__":
    main()
