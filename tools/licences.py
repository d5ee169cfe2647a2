"""Licences of the packages that an installation uses, as a page of the docs and as a bill of materials.

``python -m tools.licences`` (``make licences``) reads the metadata of the installed packages and writes
``docs/licences.md`` and ``build/sbom.cdx.json`` (CycloneDX). Packages for development only are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from sight import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE, SBOM = ROOT / "docs" / "licences.md", ROOT / "build" / "sbom.cdx.json"
NAME = "sight-har"
MIT = "Permission is hereby granted, free of charge"
TEXT = """# Licences of dependencies

`sight` is licensed under Apache-2.0. It contains no code of these packages; `pip` installs them. The table lists what
`pip install "sight-har[all]"` installed on Linux with the versions of `constraints.txt`, as the packages declare it;
`make licences` writes this page, and `build/sbom.cdx.json` with the same list as a CycloneDX bill of materials.
The wheel contains uPlot and onnxruntime-web for the web pages, both under the MIT licence.

| package | version | licence |
|---|---|---|
"""


def packages(extras: Iterable[str] = ("all",)) -> list[Distribution]:
    """Return the installed packages that `sight-har` needs with these extras, by name."""
    found: dict[str, Distribution] = {}
    pending = [(NAME, frozenset(extras))]
    seen = set(pending)
    while pending:
        name, wanted = pending.pop()
        try:
            found[name] = package = distribution(name)
        except PackageNotFoundError:  # for another system or version of Python
            continue
        for requirement in map(Requirement, package.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                entry = (_normal(requirement.name), frozenset(requirement.extras))
                if entry not in seen:
                    seen.add(entry)
                    pending.append(entry)
    return [package for name, package in sorted(found.items()) if name != NAME]


def licence(package: Distribution) -> str:
    """Return the licence that a package declares: an SPDX expression, else its classifiers, else the licence field."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return expression
    classifiers = [text.split(" :: ")[-1] for text in metadata.get_all("Classifier") or () if "License ::" in text]
    text = ", ".join(classifiers) or (metadata.get("License") or "").strip().partition("\n")[0]
    if text:
        return text[:80]
    files = (file.read_text() or "" for file in package.files or () if "LICENSE" in file.name)
    return "MIT (by its text)" if any(MIT in content for content in files) else "see its files"


def page(listed: list[Distribution]) -> str:
    """Return the page of the docs."""
    rows = (f"| {package.metadata['Name']} | {package.version} | {licence(package)} |" for package in listed)
    return TEXT + "\n".join(rows) + "\n"


def bill_of_materials(listed: list[Distribution]) -> dict[str, object]:
    """Return the packages as a CycloneDX document."""
    components = [
        {
            "type": "library",
            "name": package.metadata["Name"],
            "version": package.version,
            "purl": f"pkg:pypi/{_normal(package.metadata['Name'])}@{package.version}",
            "licenses": [{"license": {"name": licence(package)}}],
        }
        for package in listed
    ]
    own = {"type": "application", "name": NAME, "version": __version__}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "metadata": {"component": own}, "components": components}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    installed = packages()
    PAGE.write_text(page(installed), "utf-8")
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(json.dumps(bill_of_materials(installed), indent=1) + "\n", "utf-8")
