"""The documentation site: `nox -s docs` builds it into `docs/_build/html`."""

from __future__ import annotations

from sphinx.application import Sphinx

from iserror import __version__

project = "iserror"
release = version = __version__
project_copyright = "the iserror authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_reredirects"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "iserror"
html_copy_source = False

# A link to a heading is written as GitHub writes it, so that it works on a page of the repository, too.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False

# Old address -> new one: every page stood flat in this folder before.
redirects = {
    "agents": "how-to/agents.html",
    "api": "reference/api.html",
    "benchmarks": "explanation/benchmarks.html",
    "catalog": "how-to/catalog.html",
    "check": "how-to/check.html",
    "hosts": "reference/hosts.html",
    "logging": "reference/logging.html",
    "outcomes": "explanation/outcomes.html",
    "packs": "how-to/packs.html",
    "partial-results": "how-to/partial-results.html",
    "pytest": "how-to/pytest.html",
    "redaction": "explanation/redaction.html",
    "report": "reference/report.html",
    "safe-retries": "how-to/safe-retries.html",
    "shipping": "how-to/shipping.html",
    "tutorial": "tutorials/first-guarded-server.html",
    "wire-format": "reference/wire-format.html",
}

# Names without a page here: the standard library's, and types of our own that are not public.
nitpick_ignore = [("py:class", name) for name in ("Block", "Effects", "Hook", "Pack", "Problem", "ReturnedErrors")]
nitpick_ignore_regex = [
    ("py:(class|exc)", r"(collections\.abc|datetime|os|re)\.\w+"),
    ("py:class", r"pydantic\.types\.StringConstraints"),
    ("py:class", r"iserror\..*\.(Call|Echo|Entry|Item|Pack|Problem|T|Tool)"),
]

# A link that leaves this folder -> the page that includes its target.
_OUTSIDE = {"../../examples/billing/README.md": "billing-example.md"}


def _keep_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn links that leave the folder into links to pages of the site; in the repository they work as they stand."""
    for target, page in _OUTSIDE.items():
        source[0] = source[0].replace(f"]({target})", f"]({page})")


def _keep_attributes(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Put `Words: more` in the docstring of an attribute together again: napoleon takes the words for its type."""
    if what in ("attribute", "data", "property") and any(line.startswith(":type: ") for line in lines):
        type_line = next(line for line in lines if line.startswith(":type: "))
        lines.remove(type_line)
        lines[0] = f"{type_line.removeprefix(':type: ')}: {lines[0]}"


def setup(app: Sphinx) -> None:
    """Connect the two."""
    app.connect("source-read", _keep_links)
    app.connect("autodoc-process-docstring", _keep_attributes, priority=900)  # after napoleon's, which is 500
