"""Keeps secrets out of logs, at any level and from any library.

Libraries log what they send: aiokafka at level debug a whole login request, aiohttp a header that it can't parse,
others an exception that quotes a URL. So every record is checked when it is made, before any handler has it.
"""

import base64
import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote, quote_plus

REDACTED: Final = "[secret]"

_URL_SAFE: Final = str.maketrans("+/", "-_")
_SHORT: Final = 6
"""A shorter secret is replaced only where it is not part of a word, or logs would not be readable."""


class Redactor:
    """Replaces secrets in texts, in each form in which they are written."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if secret for form in _forms(secret)}
        # The longest first: a form may be part of another one.
        patterns = [_pattern(form) for form in sorted(forms, key=len, reverse=True)]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def record(self, record: logging.LogRecord) -> logging.LogRecord:
        """Take the secrets out of a log record: of its message, its exception and its stack."""
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - logging would print the arguments to stderr
            message = f"{record.msg} {record.args!r}"
            record.msg, record.args = message, None
        if (redacted := self(message)) != message:
            record.msg, record.args = redacted, None
        if record.exc_info and record.exc_info[0] is not None:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (redacted := self(text)) != text:
                record.exc_info, record.exc_text = None, redacted
        if record.stack_info:
            record.stack_info = self(record.stack_info)
        return record


def _pattern(form: str) -> str:
    # A text that is quoted once more, as in the repr of a dict, has more backslashes.
    quoted = {"\\": r"\\+", "'": r"\\*'", '"': r"\\*\""}
    pattern = "".join(quoted.get(char) or re.escape(char) for char in form)
    if len(form) >= _SHORT:
        return pattern
    # A login request has it after an escaped zero.
    return rf"(?:(?<![A-Za-z0-9])|(?<=\\x00)){pattern}(?![A-Za-z0-9])"


def _forms(secret: str) -> set[str]:
    """Return a secret as it is, as Python, JSON and URLs escape it, and as base64 has it in basic authentication."""
    data = secret.encode()
    forms = {secret, ascii(secret)[1:-1], repr(data)[2:-1], json.dumps(secret)[1:-1], quote(secret, safe="")}
    forms.add(quote_plus(secret))
    for before in range(3):
        # The characters at both ends also depend on what is around the secret.
        text = base64.b64encode(b"\0" * before + data).decode()
        inner = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        if len(inner) >= _SHORT:
            forms |= {inner, inner.translate(_URL_SAFE)}
    return forms


def keep_out_of_logs(secrets: Iterable[str]) -> None:
    """Take `secrets` out of every log record that this process makes from now on, and out of its last traceback."""
    if not (secrets := [secret for secret in secrets if secret]):
        return
    redactor = Redactor(secrets)
    make = logging.getLogRecordFactory()

    def factory(*arguments: Any, **named: Any) -> logging.LogRecord:
        return redactor.record(make(*arguments, **named))

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redactor("".join(traceback.format_exception(kind, error, trace))))

    logging.setLogRecordFactory(factory)
    sys.excepthook = excepthook
