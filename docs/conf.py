"""The site: `make site` builds it from these pages, the docstrings and the examples."""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the package as it lies here, and `tools`

import jostle  # noqa: E402

project = "jostle"
author = "the authors of jostle"
copyright = "the authors of jostle, MIT license"
version = release = jostle.__version__

quick = tags.has("quick")  # noqa: F821  # without pages of the source code, which take long to make
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    *([] if quick else ["sphinx.ext.viewcode"]),
    "tools.gallery",
    "tools.docstrings",
    "tools.links",
    "tools.notebooks",
]

myst_heading_anchors = 3  # links such as strategies.md#badge, as code hosts make them

autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_member_order = "bysource"
toc_object_entries = not quick
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
highlight_language = "text"  # unless a block says what it is
default_role = "py:obj"  # docstrings say `name`: a link where there is such a name, else just code

html_theme = "furo"
html_title = f"jostle {version}"
html_logo = html_favicon = "_static/mark.svg"
html_static_path = ["_static"]
html_css_files = ["jostle.css"]
html_js_files = ["copy.js"]
html_copy_source = html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0a5aa6", "color-brand-content": "#0a5aa6"},
    "dark_css_variables": {"color-brand-primary": "#6cb2f2", "color-brand-content": "#6cb2f2"},
}
pygments_dark_style = "github-dark"
