"""The words that the glossary says to avoid do not occur in the files that follow it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

AVOID = (
    "amiss",
    "anew",
    "at work",
    "awake",
    "beats?(?!\\()",
    "befalls?",
    "bury",
    "come about",
    "deaf",
    "fates?",
    "hand(s|ed)? (out|over)",
    "hangs? up",
    "hears?",
    "heard",
    "heeds?",
    "heirs?",
    "held against",
    "in peace",
    "judges?",
    "judged",
    "knocks?",
    "lets? go",
    "likeness",
    "lock(s|ed)? out",
    "mends?",
    "mended",
    "no one",
    "nobody",
    "obeys?",
    "onlookers?",
    "parcels?",
    "patience",
    "predecessors?",
    "speaks?",
    "successors?",
    "tempers?",
    "told",
    "torn apart",
    "turned away",
    "upheavals?",
    "whoever",
    "wish(es)?",
    "without a word",
)
PATTERN = re.compile(rf"(?<![\w-])_?(?:{'|'.join(AVOID)})(?![\w-])", re.IGNORECASE)

# These define the words, quote them, are copied from the contract, or have records whose bytes are recorded.
EXEMPT = ("docs/glossary.md", "docs/rules.md", "tests/unit/replay/mixed_day.py", "tests/unit/test_words.py")


def files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.txt"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def test_words_to_avoid_do_not_occur() -> None:
    found = [
        f"{name}:{number}: {match[0]}"
        for name in files()
        if not name.startswith(EXEMPT)
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1)
        for match in PATTERN.finditer(line)
    ]
    assert found == []


def test_every_exception_exists() -> None:
    names = files()
    assert [entry for entry in EXEMPT if not any(name.startswith(entry) for name in names)] == []


@pytest.mark.parametrize("text", ["the mend", "Whoever asks", "_told = 1", "it is told"])
def test_a_word_to_avoid_is_found(text: str) -> None:
    assert PATTERN.search(text)


@pytest.mark.parametrize("text", ["recommend", "heartbeat", "last_health_check", "toldyou", "fateful"])
def test_other_words_are_allowed(text: str) -> None:
    assert not PATTERN.search(text)
