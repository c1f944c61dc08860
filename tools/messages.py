"""Message ids out of the code into app/locale, and the catalogs compiled: `make messages`. Needs Babel (development).

Ids are the first arguments of `say` in Python and of `t` in templates. Translations are kept; new ids come in empty.
"""

from __future__ import annotations

import ast
import io
import sys
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[1]
LOCALES = ROOT / "app" / "locale"
DOMAIN = "parley"
LANGUAGES = ("de", "fr")
KEYWORDS = {"say": None, "t": None}
TEMPLATES = [("**.html", "jinja2"), ("**.txt", "jinja2")]


def message_ids() -> set[str]:
    """Every message id of the code and the templates."""
    found: set[str] = set()
    for source in (ROOT / "manage.py", *sorted((ROOT / "app").rglob("*.py"))):
        found |= said(source.read_text(encoding="utf-8"))
    for _, _, message, _, _ in extract_from_dir(str(ROOT / "templates"), TEMPLATES, keywords=KEYWORDS):
        found.add(message if isinstance(message, str) else message[0])
    return found


def said(code: str) -> set[str]:
    """The ids that Python code says, also inside f-strings, which Babel's own reader skips before Python 3.12."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Call(
                func=ast.Name(id="say") | ast.Attribute(attr="say"), args=[ast.Constant(value=str(text)), *_]
            ):
                found.add(text)
    return found


def path(language: str, suffix: str = "po") -> Path:
    """The catalog of a language."""
    return LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.{suffix}"


def load(language: str) -> Catalog:
    """The translations of a language as they stand in its .po file; an empty catalog where there is none."""
    if not path(language).exists():
        return Catalog(language, project="Parley", fuzzy=False)
    return read_po(io.BytesIO(path(language).read_bytes()), locale=language, domain=DOMAIN)


def update(language: str) -> Catalog:
    """The catalog with exactly the ids of the code, translations kept."""
    old = load(language)
    fresh = Catalog(language, project="Parley", version="0.1", copyright_holder="the authors", fuzzy=False)
    # No date: the same sentences are the same file.
    fresh.creation_date = fresh.revision_date = datetime(2026, 1, 1, tzinfo=UTC)
    fresh.header_comment = f"# Translations of Parley into {language}. Ids by `make messages`."
    for message in sorted(message_ids()):
        known = old.get(message)
        fresh.add(message, known.string if known else "", flags=known.flags - {"fuzzy"} if known else ())
    return fresh


def po_text(catalog: Catalog) -> bytes:
    """The .po file of a catalog, the same bytes for the same catalog."""
    buffer = io.BytesIO()
    write_po(buffer, catalog, width=120, sort_output=True, no_location=True)
    return buffer.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    """The compiled catalog."""
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def main() -> None:
    """Updates and compiles every catalog."""
    for language in LANGUAGES:
        catalog = update(language)
        path(language).parent.mkdir(parents=True, exist_ok=True)
        path(language).write_bytes(po_text(catalog))
        path(language, "mo").write_bytes(mo_bytes(catalog))
        missing = [message.id for message in catalog if message.id and not message.string]
        print(f"{language}: {len(catalog)} sentences, {len(missing)} without a translation")


if __name__ == "__main__":
    sys.exit(main())
