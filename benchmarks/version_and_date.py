"""Version and date of results: each JSON file of ``benchmarks/results`` has them as keys, each CSV file as columns.

The names are those of benchmark rows. `tools.result_files` reads such files for the docs.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sight import __version__


def version_and_date() -> dict[str, str]:
    """Return the version of sight, and the date of today.

    Examples
    --------
    >>> sorted(version_and_date())
    ['computed_at', 'sight']
    """
    return {"sight": __version__, "computed_at": datetime.now(UTC).date().isoformat()}
