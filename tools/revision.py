"""Writes a migration for what the models changed: python tools/revision.py "what changed". Read it before you commit it.

With --anew it replaces every revision by a single first one: only while nothing was released.

Autogenerate runs on an empty SQLite database that was brought to the present revision; names with the prefix become
calls of `prefixed`, and names of constraints are left to the naming convention.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from app import config as configuration  # noqa: E402
from app.config import TABLE_PREFIX  # noqa: E402
from app.infra import db  # noqa: E402
from app.operate import migrations  # noqa: E402


def main(message: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = configuration.load({"PARLEY_DATA_DIR": folder})
        migrations.upgrade(config)
        with db.plain_engine(config).connect() as connection:
            number = f"{len(list((migrations.FOLDER / 'versions').glob('*.py'))) + 1:04d}"
            command.revision(migrations._alembic(connection), message, autogenerate=True, rev_id=number)
        path = next((migrations.FOLDER / "versions").glob(f"{number}_*.py"))
    path.write_text(tidy(path.read_text()))
    subprocess.run([sys.executable, "-m", "ruff", "check", "--fix", "-q", str(path)], check=True)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(path)], check=True)
    print(path.relative_to(ROOT))


def tidy(text: str) -> str:
    """The text of a revision without the prefix of this process in it."""
    text = re.sub(r"\n *#.*(auto generated|end Alembic).*", "", text)
    text = re.sub(r",\s*name=(?:op|batch_op)\.f\('[^']*'\)", "", text)
    text = re.sub(r"create_index\((?:op|batch_op)\.f\('[^']*'\)", "create_index(None", text)
    text = re.sub(r" *with op\.batch_alter_table\('[^']*'[^\n]*\n(?: +batch_op\.drop_index\([^\n]*\n)+\n?", "", text)
    text = re.sub(rf"'{TABLE_PREFIX}([a-z0-9_.]+)'", r'prefixed("\1")', text)
    return text.replace(", schema=None", "")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--anew"]
    if "--anew" in sys.argv:
        for old in (migrations.FOLDER / "versions").glob("*.py"):
            old.unlink()
    main(" ".join(words) or "changes")
