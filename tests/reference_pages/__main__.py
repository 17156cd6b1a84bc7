"""Writes the generated pages of the reference: ``python -m tests.reference_pages``."""

from __future__ import annotations

from tests.reference_pages import python_api, shortcuts

if __name__ == "__main__":
    for module in (python_api, shortcuts):
        module.PAGE.write_text(module.create_page(), encoding="utf-8")
