"""Lists the longest files and functions: a look, not a limit (architecture rule 11)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 8


def main() -> None:
    files, functions = [], []
    for path in (ROOT / "app").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(ROOT))
        files.append((text.count("\n"), name))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                functions.append(((node.end_lineno or 0) - node.lineno + 1, f"{name}:{node.lineno} {node.name}"))
    for title, found in (("longest files", files), ("longest functions", functions)):
        print(f"{title} (lines):")
        for lines, name in sorted(found, reverse=True)[:SHOWN]:
            print(f"  {lines:4d}  {name}")


if __name__ == "__main__":
    main()
