"""Sphinx: `uv run --group docs sphinx-build -W docs build/docs`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from generated import write_pages

import offloadrt

project = "offloadrt"
author = "The offloadrt maintainers"
copyright = f"2026, {author}, Apache-2.0"  # the name is Sphinx's
release = version = offloadrt.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"offloadrt {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
exclude_patterns = ["_build"]
suppress_warnings = ["ref.python"]  # a name that two packages export, as cuda.HostThread and openmp.HostThread
default_role = "code"

write_pages(Path(__file__).parent)
