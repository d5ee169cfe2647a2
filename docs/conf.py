"""Configuration of the documentation site; `make site` builds it with warnings as errors.

Pages are Markdown files in this folder and link to each other and to files of the repository by relative paths, as on
GitHub. Links to files outside this folder become links to the repository, or to the page that includes the file.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from sight import __version__

project = "sight"
author = "The sight developers"
copyright = author
version = release = __version__
REPOSITORY = "https://github.com/sight-har/sight"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "numpydoc",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]
default_role = "code"
highlight_language = "text"  # of blocks that name no language: commands
nitpicky = True

# Pages: anchors are made as on GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"

# API reference: fields and arguments are described in the numpydoc sections, types are in the signatures.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Examples: every script is executed, downloadable as Python file and notebook.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "abort_on_example_error": True,
    "run_stale_examples": True,  # the package may have changed since an example was run
}

html_theme = "pydata_sphinx_theme"
html_title = f"sight {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "github_url": REPOSITORY,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "logo": {"text": "sight"},
}

#: Files of the repository that pages of the site include, by the name of the page.
INCLUDED = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
INCLUDED |= {"GLOSSARY.md": "glossary.md", "SECURITY.md": "security.md"}
_OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]*)(#[^)\s]*)?\)")


def site_link(match: re.Match[str]) -> str:
    """Return a link to a file outside of this folder as a link that works on the site."""
    path, anchor = match[1].rstrip("/"), match[2] or ""
    if path == "README.md":
        return "](index.md)"
    if path.startswith("examples/plot_"):
        return f"](auto_{path.removesuffix('.py')}.rst)"
    if path in INCLUDED:
        return f"]({INCLUDED[path]}{anchor})"
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"]({REPOSITORY}/{kind}/main/{path}{anchor})"


def rewrite_links(app, docname, source) -> None:
    """Rewrite links of a page before it is parsed."""
    source[0] = _OUTSIDE.sub(site_link, source[0])


def _write_math(display: str):
    """Return a writer of formulas as MathML, which browsers draw without a script."""

    def write(translator, node) -> None:
        from docutils.nodes import SkipNode
        from latex2mathml.converter import convert

        formula = convert(node.astext(), display=display)
        translator.body.append(f"<p>{formula}</p>" if display == "block" else formula)
        raise SkipNode

    return write


def setup(app) -> None:
    """Connect the hooks of this file."""
    app.add_html_math_renderer("mathml", (_write_math("inline"), None), (_write_math("block"), None))
    app.connect("source-read", rewrite_links)
